"""Every study of the papers at quick scale, end to end, in at most ten minutes on two cores: three
every day, all by night.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import taskloom as tl
from taskloom.analysis import STUDIES
from taskloom.analysis.finding import Finding
from taskloom.analysis.published_numbers import paper, paper_names
from taskloom.analysis.reproduction import Reproduced, experiments_of
from taskloom.analysis.study import SCALES, analyse, find_study, quick_costs
from taskloom.analysis.verdict import AGREES, DISAGREES, OPEN, OTHER
from tests.slow import slow_except

TRAINED = sorted(
    s.name for s in STUDIES if s.experiment is not None and not s.name.startswith("mine/")
)


OTHERS = sorted(s.name for s in STUDIES if s.from_recipes and not s.name.startswith("mine/"))

LONGEST = 600
"""Seconds that a study may take on two cores that nobody else uses."""

CHEAPEST_FIRST = sorted([*TRAINED, *OTHERS], key=lambda name: (quick_costs().get(name, 0), name))


def cpu_seconds() -> float:
    """Return the CPU-seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


def seconds_alone(result: Reproduced, own: float, spent: dict[str, float]) -> float:
    """Return the CPU-seconds of a study with a store of its own: its own, and those of the runs
    that other studies made.

    Args:
        result: What came of it.
        own: The CPU-seconds that it took.
        spent: The CPU-seconds of each run that is known; those of this study are added.
    """
    names = result.runs.names if result.runs is not None else []
    new = [name for name in names if name not in spent]
    reused = sum(spent[name] for name in names if name in spent)
    spent.update(dict.fromkeys(new, own / max(1, len(new))))
    return own + reused


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quick") / "runs"


@pytest.fixture(scope="module")
def spent() -> dict[str, float]:
    return {}


QUICKEST = ("ctlpp/figure5", "dyna-babi/table6", "taskbench500/table5")
"""The cheapest studies of three papers: one CPU-second in total."""


@pytest.mark.parametrize("name", slow_except(CHEAPEST_FIRST, *QUICKEST))
def test_a_study_runs_at_quick_scale(
    name: str, store: Path, spent: dict[str, float], tmp_path: Path
) -> None:
    if name == "reinforcement":
        pytest.importorskip("trl", reason="needs trl: make test-interop")
    began = cpu_seconds()
    result = tl.reproduce(name, store=store, out=tmp_path)
    assert seconds_alone(result, cpu_seconds() - began, spent) < 2 * LONGEST
    assert result.page == tmp_path / "page.html"
    assert result.page.is_file()
    check_contents(name, result.findings, tmp_path)
    check_verdicts(name, result.findings, (tmp_path / "page.md").read_text(encoding="utf-8"))
    assert (tmp_path / "scores.json").is_file() == (name in TRAINED)
    if name in TRAINED:
        check_scores(name, result.findings, tmp_path / "scores.json")


def check_contents(name: str, findings: list[Finding], folder: Path) -> None:
    """Check that there is a table and, for a figure, a figure (a story is shown as a table), with
    intervals the right way round.
    """
    assert findings
    assert findings[0].table or findings[0].figures
    assert "/figure" not in name or name in STORIES or findings[0].figures
    for finding in findings:
        assert finding.table is None or len(finding.table)
        for figure in finding.figures:
            drawing = (folder / f"{figure.name}.svg").read_text(encoding="utf-8")
            assert len(drawing) > 1_500
            assert "<image" not in drawing
            assert len(figure.data)
        for row in rows_of(finding):
            low, high = row.get("low"), row.get("high")
            if isinstance(low, float) and isinstance(high, float):
                assert low <= high or low != low or high != high, row


def rows_of(finding: Finding) -> Iterator[dict[str, Any]]:
    for table in (finding.table, *(figure.data for figure in finding.figures)):
        yield from table or ()


def check_verdicts(name: str, findings: list[Finding], page: str) -> None:
    """Check that our numbers stand beside the published ones of a place, and that the page has the
    verdicts.
    """
    judgements = [judgement for finding in findings for judgement in finding.judgements]
    numbers = [
        number
        for stem in paper_names()
        for place in paper(stem).places
        for number in paper(stem).numbers
        if (place.study, place.place) == (name, number.place)
    ]
    # Models that the paper does not have are not judged: then its numbers stand in the notes.
    noted = name in TRAINED and any(f"{number.value:g}" in page for number in numbers)
    assert judgements or noted or not numbers
    for judgement in judgements:
        assert judgement.verdict in (AGREES, DISAGREES, OPEN, OTHER)
        assert judgement.verdict in page
        assert judgement.conditions or judgement.verdict != OTHER, judgement


def check_scores(name: str, findings: list[Finding], path: Path) -> None:
    """Check that scores are shares, and that the study says the same of the file of scores as of
    the runs.
    """
    groups = json.loads(path.read_text(encoding="utf-8"))["groups"]
    scores = [
        score for group in groups for splits in group["seeds"].values() for score in splits.values()
    ]
    assert scores
    assert all(0 <= score <= 1 for score in scores)
    if name in OF_RUNS:
        return
    again = analyse(name, path)[2]
    assert [finding.title for finding in again] == [finding.title for finding in findings]
    for one, other in zip(again, findings, strict=True):
        assert (one.table is None) == (other.table is None)
        assert (
            one.table is None or other.table is None or one.table.to_csv() == other.table.to_csv()
        )


STORIES = {
    *(f"dyna-babi/figure{number}" for number in (1, 4, 5, 6, 8)),
    "taskbench500/figure1",
    "zest/figure1",
}
"""Figures of the paper that are an example or a drawing, which is shown as a table."""

OF_RUNS = {
    *(
        f"ctlpp/{name}"
        for name in ("codes", "figure3", "figure6", "figure9", "figure10", "figure11", "layers")
    ),
    *(f"runs/{name}" for name in ("divergence", "error-traits", "similarity", "trait-accuracy")),
    "taskbench500/figure4",
}
"""Studies that ask for models, datasets, log-probabilities or answers to single examples, which a
file of scores does not have.
"""


@pytest.mark.parametrize("name", TRAINED)
def test_the_experiments_of_every_scale_can_be_read(name: str) -> None:
    for scale in SCALES:
        assert experiments_of(find_study(name), scale)


def test_two_cores_have_every_study_in_ten_minutes() -> None:
    costs = quick_costs()
    assert set(costs) == {*TRAINED, *OTHERS}
    assert max(costs.values()) < 2 * LONGEST


FROM_SCRATCH_ALONE = ("ctlpp/",)
"""Studies whose models are networks of the paper: there is no pretrained one to put in their
place.
"""


@pytest.mark.parametrize(
    "name", [name for name in TRAINED if not name.startswith(FROM_SCRATCH_ALONE)]
)
def test_any_pretrained_model_takes_the_place_of_a_studys_own(name: str) -> None:
    for scale in SCALES:
        learners = [
            learner
            for experiment in experiments_of(find_study(name), scale, "some/model")
            for learner in experiment.model_dump()["learners"]
            if learner["learner"] != "majority"  # a control, which has no model
        ]
        assert learners
        assert {learner["model"] for learner in learners} == {"some/model"}
