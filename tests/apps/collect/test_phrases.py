"""Every sentence on a page comes from phrases.yaml: none is missing, unused, or written
elsewhere.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from string import Formatter

import yaml

import taskloom.apps.collect

SOURCE = Path(taskloom.apps.collect.__file__).parent
SECTIONS = yaml.safe_load((SOURCE / "phrases.yaml").read_text(encoding="utf-8"))
TEMPLATES = {
    p.name: p.read_text(encoding="utf-8") for p in (SOURCE / "web" / "templates").glob("*.html")
}

ON_THE_COMMAND_LINE = {"project_file.py", "demo_project.py", "__init__.py"}
"""Modules whose errors stop the command before there is a page."""

SENTENCES = {
    "CollectError",
    "ConflictError",
    "ForbiddenError",
    "UnknownError",
    "DiskError",
    "SignInError",
    "FormFinding",
}


def calls() -> list[tuple[Path, ast.Call]]:
    """All calls of plain names in the package."""
    nodes = [
        (path, node)
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
    ]
    return [
        (path, node)
        for path, node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]


def names_of(node: ast.expr) -> list[str]:
    """The phrases that a first argument may name: one, or one of two."""
    parts = [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node]
    return [str(part.value) for part in parts if isinstance(part, ast.Constant)]


def test_rules_and_their_values_fit_the_calls() -> None:
    used: set[str] = set()
    for path, node in calls():
        if isinstance(node.func, ast.Name) and node.func.id == "phrase":
            names = names_of(node.args[0])
            assert names, (path, node.lineno)
            used |= set(names)
            for name in names:
                fields = {
                    field for _, field, _, _ in Formatter().parse(SECTIONS["rules"][name]) if field
                }
                assert fields == {k.arg for k in node.keywords}, (name, path, node.lineno)
    assert used == set(SECTIONS["rules"])


def test_no_error_on_a_page_is_written_in_python() -> None:
    for path, node in calls():
        if (
            isinstance(node.func, ast.Name)
            and node.func.id in SENTENCES
            and path.name not in ON_THE_COMMAND_LINE
        ):
            literals = [a for a in node.args[-1:] if isinstance(a, ast.Constant | ast.JoinedStr)]
            assert not literals, (path, node.lineno)


def test_templates_hold_no_words_and_name_what_is_there() -> None:
    text = "\n".join(TEMPLATES.values())
    dynamic = set(re.findall(r'\bt\["(\w+_)" ~', text))
    used = set(re.findall(r"\bt\.(\w+)", text)) | set(re.findall(r'\bt\["(\w+)"\]', text))
    used |= {
        name
        for path in SOURCE.rglob("*.py")
        for name in re.findall(r'phrases\["(\w+)"\]', path.read_text())
    }
    used |= set(re.findall(r'\d+: "(no_\w+)"', (SOURCE / "web" / "site.py").read_text()))
    assert used <= set(SECTIONS["pages"]), used - set(SECTIONS["pages"])
    unused = {
        k for k in SECTIONS["pages"] if k not in used and not any(k.startswith(d) for d in dynamic)
    }
    assert unused == set()
    for name, template in TEMPLATES.items():
        bare = re.sub(r"<code>.*?</code>|\{%.*?%\}|\{\{.*?\}\}", " ", template, flags=re.S)
        words = re.findall(r"[A-Za-z]{2,}", re.sub(r"<[^>]*>", " ", bare))
        assert words == [], (name, words)
