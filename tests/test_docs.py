"""Everything that the documentation tells people to type is typed here."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest

import taskloom
from tests.shell_lines import run_line, statements

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)( [^\n]*)?\n(.*?)^```$", re.M | re.S)


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language; those marked `no-test` say why they cannot run here."""
    return [body for lang, mark, body in FENCE.findall(page.read_text()) if lang == language and "no-test" not in mark]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_the_pages_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shell lines first (they make the data), then the Python, each page in one folder and one namespace."""
    for body in blocks(page, "sh"):
        for command in statements(body):
            result = run_line(command, tmp_path)
            assert result.status == 0, (command, result.errors)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for body in blocks(page, "python"):
        exec(compile(body, page.name, "exec"), names)


def test_the_readme_has_five_lines_of_python() -> None:
    first = blocks(ROOT / "README.md", "python")[0]
    assert len(first.split("\n")) - first.split("\n").count("") == 5


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), (page.name, target)


def test_docstring_examples() -> None:
    failed = tried = 0
    for module in pkgutil.walk_packages(taskloom.__path__, "taskloom."):
        if ".learners" in module.name or module.name.endswith("__main__"):
            continue
        result = doctest.testmod(importlib.import_module(module.name))
        failed += result.failed
        tried += result.attempted
    assert failed == 0
    assert tried > 10


def test_the_extra_all_is_everything() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    def libraries(extra: str) -> set[str]:
        inner = [re.fullmatch(r"taskloom\[(.+)\]", line) for line in extras[extra]]
        named = {name for found in inner if found for name in found[1].split(",")}
        own = {line for line, found in zip(extras[extra], inner, strict=True) if not found}
        return own.union(*map(libraries, named))

    assert libraries("all") == set().union(*(libraries(name) for name in extras if name != "dev"))
