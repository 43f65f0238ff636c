"""The pages of docs/results are what their studies say today."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from taskloom.experiments.sources.score_files import open_runs, score_groups, write_scores
from tests.analysis.made_up_scores import group, made_up
from tests.experiments.sweeps import baselines, fill

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "build_results.py"))


SLOW = {"dyna-babi-record", "zest-record"}
"""Pages whose studies generate much; their tests have the same studies on few examples."""


def test_the_pages_are_current(script: dict[str, Any]) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("pyoxigraph")
    pages = list(script["pages"]())
    assert ROOT / "docs" / "results" / "ctlpp-record.md" in pages
    for page in pages:
        if page.stem not in SLOW:
            check(script, page)


@pytest.mark.slow
@pytest.mark.parametrize("stem", sorted(SLOW))
def test_pages_of_generated_data_are_current(script: dict[str, Any], stem: str) -> None:
    check(script, ROOT / "docs" / "results" / f"{stem}.md", drawings=True)


def check(script: dict[str, Any], page: Path, drawings: bool = False) -> None:
    """Check that a page and the data of its figures, and by night the figures, are what `make
    results` writes.
    """
    text, drawn = script["rewritten"](page)
    assert text == page.read_text(encoding="utf-8"), "run `make results`"
    for stem, figure in drawn:
        assert figure.data.to_csv() == stem.with_suffix(".csv").read_text(encoding="utf-8"), stem
        assert not drawings or script["drawing"](figure) == stem.with_suffix(".svg").read_text(
            encoding="utf-8"
        ), stem
        if drawings and script["on_short_page"](stem):
            phone = stem.with_name(f"{stem.name}-phone.svg")
            assert script["phone_drawing"](figure) == phone.read_text(encoding="utf-8"), phone


@pytest.mark.slow
@pytest.mark.parametrize("stem", ["ctlpp", "ctlpp-record", "taskbench500", "taskbench500-record"])
def test_figures_are_what_their_data_draw(script: dict[str, Any], stem: str) -> None:
    check(script, ROOT / "docs" / "results" / f"{stem}.md", drawings=True)


def test_every_figure_in_the_folders_is_on_a_page(script: dict[str, Any]) -> None:
    texts: dict[str, str] = {}
    for page in script["pages"]():
        folder = script["folder_of"](page)  # a page and its full record share a folder
        texts[folder] = texts.get(folder, "") + page.read_text(encoding="utf-8")
    for folder, text in texts.items():
        files = {
            f"{folder}/{path.name}"
            for kind in ("svg", "csv")
            for path in (ROOT / "docs" / "results" / folder).glob(f"*.{kind}")
            if not path.stem.endswith("-phone")
        }
        assert {file for file in files if f"({file})" not in text} == set()


def test_figures_are_shapes_and_small() -> None:
    """An image inside a drawing is not sharp at every size."""
    drawings = sorted((ROOT / "docs").rglob("*.svg"))
    assert len(drawings) > 40
    for path in drawings:
        text = path.read_text(encoding="utf-8")
        assert "<image" not in text, path
        assert len(text) < 300_000, path


def test_scores_are_added_by_seed(script: dict[str, Any], tmp_path: Path) -> None:
    made_up(tmp_path, group("ctl/A", "bilstm", {"ood": [0.9]}))
    (tmp_path / "more").mkdir()
    made_up(
        tmp_path / "more",
        group("ctl/A", "bilstm", {"ood": [0.1, 0.8]}),
        group("ctl/R", "ndr", {"ood": [0.5]}),
    )
    script["add"](tmp_path / "scores.json", [str(tmp_path / "more" / "scores.json")])
    rows = open_runs(tmp_path / "scores.json").table.to_pylist()
    scores = {(row["recipe"], row["seed"]): row["score"] for row in rows}
    assert scores == {("ctl/A", 0): 0.9, ("ctl/A", 1): 0.8, ("ctl/R", 0): 0.5}


def test_answers_to_examples_are_added_with_their_seed(
    script: dict[str, Any], tmp_path: Path
) -> None:
    stored = open_runs(fill(baselines(2), tmp_path / "runs").store.path)
    for seed in (0, 1):
        groups, items = score_groups(stored.where(seed=seed), ["length"])
        write_scores(groups, tmp_path / f"{seed}.json", items)
    script["add"](tmp_path / "0.json", [str(tmp_path / "1.json")])
    added = open_runs(tmp_path / "0.json")
    assert added.accuracy(by="length").to_dicts() == stored.accuracy(by="length").to_dicts()
    columns = ["prediction", "score"]
    ours, theirs = (
        sorted(map(str, r.predictions(columns=columns).drop_columns(["run"]).to_pylist()))
        for r in (added, stored)
    )
    assert ours == theirs
