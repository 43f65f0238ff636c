"""Figure 4 of TaskBench500 from made-up masses, and from the log-probabilities of real runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from taskloom.analysis.study import StudyError, analyse
from taskloom.experiments.table import Runs
from taskloom.papers.taskbench500.side_masses import kept_masses
from tests.analysis.made_up_scores import made_up
from tests.papers.taskbench500.made_up_tasks import adapted

EASE = {"antonyms[eng]": 0.6, "synonyms[eng]": 0.4, "hyponyms[eng]": 0.2, "entailments[eng]": 0.1}
PAIRS = [(a, b) for i, a in enumerate(EASE) for b in list(EASE)[i + 1 :]]


def unions(folder: Path, easier: float, harder: float, wobble: float = 0.01) -> Runs:
    """Return atomic tasks and balanced unions with these masses; the first of a pair is the easier
    one.
    """
    groups: list[dict[str, Any]] = [adapted(task, score) for task, score in EASE.items()]
    for number, (a, b) in enumerate(PAIRS):
        shift = wobble * (number - 2.5)
        masses = {f"mass {a}": easier + shift, f"mass {b}": harder - shift}
        groups.append(
            adapted(f"union({a}, {b})", 0.3, fields={"recipe.balanced": True}, further=masses)
        )
    return made_up(folder, *groups)


@pytest.mark.parametrize(
    ("easier", "harder", "outcome"),
    [(0.30, 0.10, "holds"), (0.10, 0.30, "does not hold"), (0.20, 0.20, "inconclusive")],
)
def test_planted_masses_come_out(
    tmp_path: Path, easier: float, harder: float, outcome: str
) -> None:
    main, claims = analyse("taskbench500/figure4", unions(tmp_path, easier, harder))[2]
    assert main.table is not None
    (row,) = main.table
    assert row["pairs"] == 6
    assert row["easier side"].startswith(f"{easier:.3f}")
    assert row["harder side"].startswith(f"{harder:.3f}")
    assert claims.table is not None
    assert claims.table[0]["outcome"] == outcome


def test_masses_of_a_model_that_has_learnt_little_are_not_shown_as_0(tmp_path: Path) -> None:
    main = analyse("taskbench500/figure4", unions(tmp_path, 3e-5, 1e-5, 1e-6))[2][0]
    assert main.table is not None
    (row,) = main.table
    assert row["easier side"].startswith("3.0e-05 ± ")
    assert row["harder side"].startswith("1.0e-05 ± ")


def test_the_papers_pair_is_judged(tmp_path: Path) -> None:
    main = analyse("taskbench500/figure4", unions(tmp_path, 0.13, 0.08, 0.0))[2][0]
    assert [round(j.difference, 3) for j in main.judgements] == [0.0, 0.0]


def test_a_union_whose_sides_have_no_runs_is_left_out_with_a_note(tmp_path: Path) -> None:
    stray = adapted(
        "union(child, father)",
        0.2,
        fields={"recipe.balanced": True},
        further={"mass child": 0.1, "mass father": 0.2},
    )
    groups = [adapted(task, score) for task, score in EASE.items()]
    one = adapted(
        "union(antonyms[eng], synonyms[eng])",
        0.3,
        fields={"recipe.balanced": True},
        further={"mass antonyms[eng]": 0.2, "mass synonyms[eng]": 0.1},
    )
    main = analyse("taskbench500/figure4", made_up(tmp_path, *groups, one, stray))[2][0]
    assert any("union(child, father) (FPT)" in note for note in main.notes)


def test_sides_that_are_learnt_equally_well_are_not_called_easier_and_harder(
    tmp_path: Path,
) -> None:
    pair = adapted(
        "union(antonyms[eng], synonyms[eng])",
        0.3,
        fields={"recipe.balanced": True},
        further={"mass antonyms[eng]": 0.2, "mass synonyms[eng]": 0.1},
    )
    runs = made_up(tmp_path, adapted("antonyms[eng]", 0.0), adapted("synonyms[eng]", 0.0), pair)
    (main,) = analyse("taskbench500/figure4", runs)[2]
    assert main.table is not None
    assert {row["side"] for row in main.figures[0].data} == {"first side", "second side"}
    assert any("In no pair is one side easier" in note for note in main.notes)


def test_masses_are_sums_of_probabilities_by_side() -> None:
    logs = [[math.log(0.2), math.log(0.1)], [math.log(0.05)], [math.log(0.4)], None]
    sides = ["f", "g", "f", "g"]
    table = pa.table(
        {
            "run": ["r"] * 4,
            "traits": pa.array(
                [[("side", side)] for side in sides], pa.map_(pa.string(), pa.string())
            ),
            "logprobs": pa.array(logs, pa.list_(pa.float64())),
        }
    )

    class Kept:
        def predictions(self, columns: list[str]) -> pa.Table:
            return table

    masses = kept_masses(Kept())  # type: ignore[arg-type]
    assert masses["r"] == pytest.approx({"f": 0.35, "g": 0.05})


def test_unions_that_are_not_balanced_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="has no balanced union with masses"):
        analyse("taskbench500/figure4", made_up(tmp_path, adapted("union(child, father)", 0.2)))
