"""Everything that the documentation tells people to type is typed here."""

from __future__ import annotations

import doctest
import importlib
import re
import runpy
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import taskloom
from taskloom.cli.app import COMMANDS
from taskloom.core.registry import SUITES
from taskloom.experiments.execute import engines
from taskloom.experiments.execute.engines import HereEngine
from tests.shell_lines import run_line, statements, with_fewer_rows
from tests.source_files import FILES, SOURCE, text_of

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted(DOCS.rglob("*.md")),
]
FENCE = re.compile(r"^```(\w+)( [^\n]*)?\n(.*?)^```$", re.M | re.S)
TITLE = re.compile(r'title="([^"]+)"')
LINK = re.compile(r"\]\(([^)\s#]*)(#[^)\s]*)?\)")


def name_of(page: Path) -> str:
    """Return the path of a page from the repository's root."""
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    """Return the fenced blocks of a language; those marked `no-test` say why they cannot run
    here.
    """
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    return [
        body
        for lang, mark, body in found
        if lang == language and "no-test" not in mark and "title=" not in mark
    ]


def titled(page: Path) -> list[tuple[str, str]]:
    """Return the blocks that show a file of the repository, each with the file's path."""
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    return [(title[1], body) for _, mark, body in found if (title := TITLE.search(mark))]


# docs/index.md has the text of README.md, which tests/analysis/test_results_pages.py checks.
EXECUTED = [page for page in PAGES if page != DOCS / "index.md"]


@pytest.mark.parametrize("rows", ["few", pytest.param("as-written", marks=pytest.mark.slow)])
@pytest.mark.parametrize("page", EXECUTED, ids=name_of)
def test_the_pages_examples_run(
    page: Path,
    rows: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Shell lines first (they make the data), then the Python, each page in one folder and one
    namespace. The Python of README.md prints the text that follows it.

    By default splits of thousands of rows are cut to a few hundred, and searches to a hundred
    questions. The slow version runs every line as written. Experiments run in this process:
    starting workers that import torch would cost more than all the rest, and tests/experiments is
    about them.
    """
    monkeypatch.setattr(engines, "start", lambda name, **options: HereEngine())
    for file, _ in titled(page):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    for body in blocks(page, "sh"):
        script = with_fewer_rows(body) if rows == "few" else body
        for command in statements(script):
            result = run_line(command, tmp_path)
            assert result.status == 0, (command, result.errors)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    printed = []
    for body in blocks(page, "python"):
        capsys.readouterr()
        exec(compile(body, page.name, "exec"), names)
        printed.append(capsys.readouterr().out.strip())
    if page == ROOT / "README.md":
        assert printed[0] == blocks(page, "text")[0].strip()


@pytest.mark.parametrize("page", [page for page in PAGES if titled(page)], ids=name_of)
def test_a_file_on_a_page_is_the_file_of_the_repository(page: Path) -> None:
    for file, body in titled(page):
        assert body == (ROOT / file).read_text(encoding="utf-8"), file


def anchors(page: Path) -> set[str]:
    """Return the anchors that headings of a page have on GitHub and in MkDocs."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in target or target.startswith("mailto:"):
            continue
        goal = page.parent / target if target else page
        assert goal.exists(), target
        if anchor and goal.suffix == ".md":
            assert anchor[1:] in anchors(goal), target + anchor


def nav_pages(entries: list[Any]) -> list[str]:
    """Return all pages of a navigation tree of MkDocs."""
    pages: list[str] = []
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            pages += nav_pages(value) if isinstance(value, list) else [value]
    return pages


def test_the_nav_lists_every_page_once() -> None:
    nav = nav_pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    assert sorted(nav) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_the_reference_lists_every_command_and_every_public_name() -> None:
    commands = set(
        re.findall(r"^\| `taskloom ([\w -]+)`", (DOCS / "reference/commands.md").read_text(), re.M)
    )
    assert commands == set(COMMANDS)
    rows = re.findall(r"^\| (`tl\..+?) \|", (DOCS / "reference/python.md").read_text(), re.M)
    assert {name for row in rows for name in re.findall(r"`tl\.(\w+)`", row)} == set(
        taskloom.__all__
    ) - {"__version__"}


def test_the_tree_of_the_guide_is_the_tree() -> None:
    (tree,) = re.findall(
        r"^```text\n(src/taskloom/\n.*?)^```$", (ROOT / "CONTRIBUTING.md").read_text(), re.M | re.S
    )
    parents = [ROOT]
    named = set()
    for line in tree.splitlines():
        indent = len(line) - len(line.lstrip())
        names = re.match(r"\s*((?:[\w./-]+\s)*[\w./-]+?)(?:\s{2,}|$)", line)
        assert names, line
        parents = parents[: indent // 2 + 1]
        for name in names[1].split():
            path = parents[-1] / name
            assert path.exists(), f"{path} is in the guide's tree only"
            named.add(path)
        if path.is_dir():
            parents.append(path)
    package = ROOT / "src" / "taskloom"
    missing = {
        p for p in package.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()
    } - named
    assert missing == {package / "__init__.py"} - named, "the guide's tree lacks these"


GUIDES = [ROOT / "CONTRIBUTING.md", *sorted((DOCS / "how-to").glob("add-*.md"))]
NAMED_FILE = re.compile(r"`([\w-]+(?:/[\w.-]+)+\.\w+)`")


@pytest.mark.parametrize("guide", GUIDES, ids=name_of)
def test_the_files_that_a_guide_names_exist(guide: Path) -> None:
    """A path is written from the root, from the package, or from a folder inside the package."""
    missing = []
    for name in NAMED_FILE.findall(guide.read_text(encoding="utf-8")):
        if "PAPER" in name or name.startswith("experiments/experiment_"):
            continue  # a placeholder, and an example of a name to avoid
        if not (ROOT / name).exists() and not any(SOURCE.glob(f"**/{name}")):
            missing.append(name)
    assert missing == []


def test_notice_names_a_file_that_exists() -> None:
    files = re.findall(r"src/[\w./-]+", (ROOT / "NOTICE").read_text())
    assert files
    assert all((ROOT / file).is_file() for file in files)


def test_the_citation_cites_every_suites_paper() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    cited = {reference["notes"] for reference in citation["references"]}
    assert cited == {f"The suite `{suite.name}`." for suite in SUITES}
    for reference in citation["references"]:
        assert {"type", "title", "authors"} <= set(reference)


SAMPLE = ["ctl/A", "ctl/S", "babi/1", "babi/mix-T7", "babi/19", "taskbench/english"]
"""Recipes whose examples are cheap to generate. A slow test generates all of them (80
CPU-seconds).
"""


def gallery_sections() -> dict[str, str]:
    parts = re.split(r"^(?=##)", (DOCS / "gallery.md").read_text(encoding="utf-8"), flags=re.M)
    return {part.split("`")[1]: part.rstrip("\n") for part in parts if part.startswith("### ")}


def test_the_gallery_has_every_recipe_and_the_sampled_ones_are_current(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in ("TASKLOOM_DATA", "NLTK_DATA"):
        monkeypatch.delenv(variable, raising=False)
    script = runpy.run_path(str(ROOT / "scripts" / "build_gallery.py"))
    sections = gallery_sections()
    assert list(sections) == script["recipe_names"](), "run `make gallery`"
    for name in SAMPLE:
        assert sections[name] == script["section"](name).rstrip("\n"), (
            f"{name} has changed: run `make gallery`"
        )


@pytest.mark.slow
def test_the_whole_gallery_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TASKLOOM_DATA", "NLTK_DATA", "TASKLOOM_CACHE"):
        monkeypatch.setenv(
            variable, ""
        )  # the script removes them; this restores them after the test
    script = runpy.run_path(str(ROOT / "scripts" / "build_gallery.py"))
    script["hide_resources"]()
    assert script["page"](script["recipe_names"]()) == (DOCS / "gallery.md").read_text(
        encoding="utf-8"
    )


def test_docstring_examples() -> None:
    failed = tried = 0
    for path in FILES:
        if ">>> " not in text_of(path) or "learners" in path.relative_to(SOURCE).parts:
            continue  # looking for examples where there are none takes seconds
        name = ".".join(["taskloom", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(
            ".__init__"
        )
        result = doctest.testmod(importlib.import_module(name))
        failed += result.failed
        tried += result.attempted
    assert failed == 0
    assert tried > 10


def test_the_extra_all_is_everything() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]

    def libraries(extra: str) -> set[str]:
        inner = [re.fullmatch(r"taskloom\[(.+)\]", line) for line in extras[extra]]
        named = {name for match in inner if match for name in match[1].split(",")}
        own = {line for line, match in zip(extras[extra], inner, strict=True) if not match}
        return own.union(*map(libraries, named))

    # The tools of others pin libraries to other versions and have an environment of their own; a
    # browser is for tests; Gemma's weights have terms of their own, which one accepts by asking for
    # them.
    apart = {"dev", "docs", "browser", "gemma"}
    apart |= {"inspect", "lm-eval", "verifiers", "reasoning-gym", "openenv"}
    assert libraries("all") == set().union(
        *(libraries(name) for name in extras if name not in apart)
    )
