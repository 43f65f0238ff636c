"""Two rules about wording that users notice: errors of the library name parameters, and generic modules name no suite."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.source_files import FILES, SOURCE, nodes_of, text_of

SUITES = re.compile(r"\b(babi|zest|taskbench|ctl)\b")


def _texts(node: ast.AST) -> str:
    """All literal text of an expression."""
    return " ".join(n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str))


TAKEN_OUT = r"'[^']*'|(pip install|ray start|python -m) .*"
"""Complete command lines that an error quotes as the remedy."""


def test_library_errors_name_parameters_and_never_flags() -> None:
    found = []
    for path in FILES:
        if "cli" in path.relative_to(SOURCE).parts:
            continue
        for node in nodes_of(path):
            if isinstance(node, ast.Raise) and node.exc is not None:
                text = re.sub(TAKEN_OUT, "", _texts(node.exc))
                if re.search(r"(^|[\s(])--?[a-z]", text):
                    found.append(f"{path.relative_to(SOURCE)}:{node.lineno}: {text}")
    assert found == []


def _examples(path: Path) -> set[int]:
    """Line numbers of the examples in docstrings: doctests, and everything after `Examples:`."""
    examples: set[int] = set()
    lines = text_of(path).splitlines()
    for node in nodes_of(path):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            continue
        if ast.get_docstring(node) is None or not isinstance(node.body[0], ast.Expr):
            continue
        place = node.body[0]
        inside = False
        for number in range(place.lineno, (place.end_lineno or place.lineno) + 1):
            line = lines[number - 1].strip()
            inside = inside or line in ("Examples:", "Example:") or line.startswith(">>>")
            if inside:
                examples.add(number)
    return examples


PAPERS = SOURCE / "learners" / "presets.py"
"""The papers' settings, by paper. Two papers share their name with a suite."""

GENERIC = [p for p in FILES if p != PAPERS and not {"suites", "studies", "collect"} & set(p.relative_to(SOURCE).parts)]


def suites_named(path: Path) -> list[str]:
    """Lines of a module that name a suite, except examples in docstrings."""
    if not SUITES.search(text_of(path)):
        return []
    examples, lines = _examples(path), enumerate(text_of(path).splitlines(), 1)
    return [f"{path}:{n}: {line.strip()}" for n, line in lines if SUITES.search(line) and n not in examples]


def test_no_generic_module_names_a_suite() -> None:
    """Code for one suite belongs to that suite. Only examples in docstrings may use a recipe's name."""
    assert len(GENERIC) > 100
    assert [line for path in GENERIC for line in suites_named(path)] == []
