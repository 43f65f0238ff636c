"""Two rules about wording that users notice: errors of the library name parameters, and generic
modules name no suite.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.source_files import FILES, SOURCE, nodes_of, text_of

SUITES = re.compile(r"\b(babi|zest|taskbench|ctl)\b")
PAPERS = re.compile(r"\b(ctlpp|dyna[-_]babi|taskbench500|zest)\b")


def _texts(node: ast.AST) -> str:
    """All literal text of an expression."""
    return " ".join(
        n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    )


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


def _prose(path: Path) -> set[int]:
    """Line numbers of docstrings, notes on constants and comments, which may use a recipe's name as
    an example.
    """
    prose = {
        n for n, line in enumerate(text_of(path).splitlines(), 1) if line.strip().startswith("#")
    }
    for node in nodes_of(path):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            prose.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return prose


GENERIC = [
    p for p in FILES if not {"suites", "papers", "collect"} & set(p.relative_to(SOURCE).parts)
]


def named(path: Path, names: re.Pattern[str]) -> list[str]:
    """Lines of code that have one of some names."""
    if not names.search(text_of(path)):
        return []
    prose, lines = _prose(path), enumerate(text_of(path).splitlines(), 1)
    return [
        f"{path}:{n}: {line.strip()}" for n, line in lines if names.search(line) and n not in prose
    ]


def test_no_generic_module_names_a_suite() -> None:
    """Code for one suite belongs to that suite."""
    assert len(GENERIC) > 100
    assert [line for path in GENERIC for line in named(path, SUITES)] == []


def test_no_module_of_the_first_ring_names_a_paper() -> None:
    """A paper is a folder of `papers`, which could be a package of its own."""
    rooms = ("core", "recipe", "data", "learners", "experiments", "analysis")
    paths = [path for path in GENERIC if path.relative_to(SOURCE).parts[0] in rooms]
    assert [line for path in paths for line in named(path, PAPERS)] == []
