"""Findings are stated once, in docs/results/findings.yaml; a retraction reaches every page."""

from __future__ import annotations

import re
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]

BECAUSE = "A control that was planted by a test explains it."


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "build_results.py"))


@pytest.fixture(scope="module")
def entries(script: dict[str, Any]) -> list[Any]:
    return list(script["all_found"]())


def written() -> dict[Path, str]:
    """All pages that people read; the changelog is history."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    return {page: page.read_text(encoding="utf-8") for page in pages}


def plain(text: str) -> str:
    return re.sub(r"[\s*_`~>|]+", " ", text).casefold()


def test_a_planted_retraction_is_seen_on_every_page(
    script: dict[str, Any], entries: list[Any]
) -> None:
    """Each headline in turn: wherever it stood, the page now says that it is retracted, and no
    longer what it said.
    """
    pytest.importorskip("torch")
    headlines = [entry for entry in entries if entry.headline]
    assert len(headlines) >= 3
    texts = {page: page.read_text(encoding="utf-8") for page in script["pages"]()}
    known = {page: script["with_findings"](text, entries) for page, text in texts.items()}
    for finding in headlines:
        planted = [
            replace(entry, verdict="retracted", because=BECAUSE) if entry is finding else entry
            for entry in entries
        ]
        stood_on = []
        for page, text in texts.items():
            after = script["with_findings"](text, planted)
            if after == known[page]:
                continue
            stood_on.append(page.relative_to(ROOT).as_posix())
            assert BECAUSE in after
            assert finding.filled(finding.headline) not in after
        # README, the docs home, the page with the evidence and the overview of all findings.
        expected = {
            "README.md",
            "docs/index.md",
            f"docs/results/{finding.page}.md",
            "docs/results/what-we-found.md",
        }
        assert expected <= set(stood_on), finding.id


def test_what_is_retracted_is_said_nowhere(entries: list[Any]) -> None:
    retracted = [entry for entry in entries if entry.verdict == "retracted"]
    assert retracted
    for page, text in written().items():
        words = plain(text)
        for entry in retracted:
            for wording in entry.said:
                assert plain(wording) not in words, (
                    f"{page} still says what '{entry.id}' retracts: {wording}"
                )


def test_every_retraction_names_wordings_to_look_for(entries: list[Any]) -> None:
    assert all(entry.said for entry in entries if entry.verdict == "retracted")


def test_headlines_state_their_basis(entries: list[Any]) -> None:
    """Unit of analysis, how many of them, and the study and scores that a reader can run again."""
    for entry in entries:
        if entry.headline:
            assert entry.unit, entry.id
            assert entry.n, entry.id
            assert entry.margin, entry.id
            assert entry.study, entry.id
            assert (ROOT / "docs" / "results" / entry.scores.partition(",")[0]).exists(), entry.id


def test_every_finding_is_on_its_page_or_in_its_full_record(
    script: dict[str, Any], entries: list[Any]
) -> None:
    """The record has all findings of a page with their evidence; the page has some of them, and
    none that belongs elsewhere.
    """
    for page in {entry.page for entry in entries}:
        short, record = (
            (ROOT / "docs" / "results" / name).read_text(encoding="utf-8")
            for name in (f"{page}.md", f"{page}-record.md")
        )
        assert f"<!-- findings {page} evidence -->" in record
        shown = [
            entry
            for match in script["FOUND"].finditer(short)
            for entry in script["chosen_findings"](entries, match[2])
        ]
        assert shown
        assert {entry.page for entry in shown} == {page}
        assert f"({page}-record.md)" in short


def test_the_counts_are_those_of_the_file(script: dict[str, Any]) -> None:
    made_up = [
        entry(script),
        entry(script, id="b", verdict="partly"),
        entry(script, id="c", page="zest", verdict="partly"),
    ]
    table = script["rendered_findings"](made_up, "counts", "")
    assert "| [CTL++](ctlpp.md) | 1 | 1 | [full record](ctlpp-record.md) |" in table
    assert "| [ZEST](zest.md) |  | 1 | [full record](zest-record.md) |" in table


def entry(script: dict[str, Any], **fields: Any) -> Any:
    base = {
        "id": "made-up",
        "page": "ctlpp",
        "claim": "X is better",
        "verdict": "agrees",
        "measured": "It is {n}.",
    }
    return script["FoundEntry"](**{**base, **fields})


def test_numbers_come_from_the_study(script: dict[str, Any]) -> None:
    pytest.importorskip("torch")
    where = {
        "study": "ctlpp/table2",
        "scores": "",
        "row": {"model": "bi-LSTM"},
        "column": "trainable",
    }
    found = entry(script, numbers={"n": where})
    assert found.filled(found.measured) == "It is 407,816."
    with pytest.raises(ValueError, match="'n' names no cell"):
        entry(script, numbers={"n": {**where, "row": {"model": "GPT"}}}).filled("{n}")


def test_mistakes_in_the_file_are_named(script: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="made-up has the verdict 'maybe'"):
        entry(script, verdict="maybe")
    with pytest.raises(ValueError, match="because"):
        entry(script, verdict="retracted")
    with pytest.raises(TypeError, match="surprise"):
        entry(script, surprise=1)
    with pytest.raises(ValueError, match="no finding 'nobody'"):
        script["chosen_findings"]([entry(script)], "nobody")
