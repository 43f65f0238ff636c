"""Draws, singles, heat maps and layers, on made-up scores with known answers."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from taskloom.analysis.study import StudyError, analyse
from taskloom.experiments.statistics import welch
from taskloom.experiments.statistics.distributions import order_chance
from taskloom.papers.ctlpp.training_contrasts import ALMOST_NONE, difference_interval
from tests.analysis.made_up_scores import group, made_up, spread

SINGLES = {"recipe.include_singles": True, "recipe.include_pairs": False}


def test_a_planted_draw_effect_is_found_and_where_there_is_none_it_is_not(tmp_path: Path) -> None:
    chains = {"recipe.draw": "chains"}
    runs = made_up(
        tmp_path,
        group("ctl/A", "bilstm", {"iid": spread(0.98, 0.01, 10), "ood": spread(0.9, 0.05, 10)}),
        group(
            "ctl/A", "bilstm", {"iid": spread(0.4, 0.2, 10), "ood": spread(0.2, 0.05, 10)}, chains
        ),
        group("ctl/R", "ndr", {"iid": spread(0.98, 0.01, 10), "ood": spread(0.60, 0.2, 10)}),
        group(
            "ctl/R", "ndr", {"iid": spread(0.98, 0.01, 10), "ood": spread(0.62, 0.2, 10)}, chains
        ),
    )
    _, _, (finding,) = analyse("ctlpp/draws", runs)
    assert finding.table is not None
    p = {
        (row["trainings"].split(",")[0], row["split"]): row["corrected_p"] for row in finding.table
    }
    assert p["bi-LSTM", "iid"] < 0.001
    assert p["bi-LSTM", "ood"] < 0.001
    assert p["NDR", "ood"] > 0.5
    assert "2 of 4 comparisons differ" in finding.text
    (row,) = [
        r for r in finding.table if r["trainings"].startswith("bi-LSTM") and r["split"] == "ood"
    ]
    assert (row["a"], row["b"]) == ("published", "chains")
    assert row["b - a"] == pytest.approx(-0.7)


def test_a_difference_that_one_of_many_looks_would_show_by_chance_is_not_called_one(
    tmp_path: Path,
) -> None:
    """One of six comparisons has p = 0.02 by itself, which is 0.12 among six."""
    chains = {"recipe.draw": "chains"}
    groups = []
    for variant, models in (
        ("A", ("bilstm", "ndr", "transformer")),
        ("R", ("bilstm", "ndr", "transformer")),
    ):
        for model in models:
            shift = 0.2 if (variant, model) == ("A", "bilstm") else 0.0
            for fields, mean in (({}, 0.4), (chains, 0.4 + shift)):
                groups.append(
                    group(f"ctl/{variant}", model, {"ood": spread(mean, 0.2, 12)}, fields)
                )
    _, _, (finding,) = analyse("ctlpp/draws", made_up(tmp_path, *groups))
    assert finding.table is not None
    (row,) = [r for r in finding.table if r["b - a"] > 0.1]
    assert len(finding.table) == 6
    assert row["low"] > 0
    assert row["corrected_p"] > 0.05
    assert "0 of 6 comparisons differ" in finding.text


def test_only_trainings_that_are_alike_in_everything_else_are_compared(tmp_path: Path) -> None:
    """Other steps or other contents are other trainings: a difference between them is not one of
    draws.
    """
    independent = {"recipe.draw": "independent", "learner.steps": 1_000}
    runs = made_up(
        tmp_path,
        group("ctl/A", "bilstm", {"ood": [0.9, 0.91]}),
        group("ctl/A", "bilstm", {"ood": [0.2, 0.21]}, independent),
    )
    with pytest.raises(
        StudyError,
        match=(
            r"differ in nothing but what 'draw' says; make some, e.g. with 'taskloom reproduce"
            r" ctlpp/draws'"
        ),
    ):
        analyse("ctlpp/draws", runs)


def test_a_planted_effect_of_processes_is_found(tmp_path: Path) -> None:
    one, eight = {"recipe.processes": 1}, {"recipe.processes": 8}
    runs = made_up(
        tmp_path,
        group("ctl/R", "bilstm", {"ood": spread(0.98, 0.01, 8)}),
        group("ctl/R", "bilstm", {"ood": spread(0.6, 0.02, 8)}, one),
        group("ctl/R", "bilstm", {"ood": spread(0.98, 0.01, 8)}, eight),
    )
    _, _, (finding,) = analyse("ctlpp/processes", runs)
    assert finding.table is not None
    p = {frozenset((row["a"], row["b"])): row["corrected_p"] for row in finding.table}
    assert p[frozenset(("32", "1"))] < 0.001
    assert p[frozenset(("8", "1"))] < 0.001
    assert p[frozenset(("32", "8"))] > 0.5


def test_singles_against_pairs(tmp_path: Path) -> None:
    runs = made_up(
        tmp_path,
        group("ctl/A", "bilstm", {"ood": spread(0.5, 0.02, 6)}),
        group("ctl/A", "bilstm", {"ood": spread(0.9, 0.02, 6)}, SINGLES),
        group("ctl/R", "bilstm", {"ood": spread(0.9, 0.02, 6)}, SINGLES),
    )
    _, _, (finding,) = analyse("ctlpp/singles", runs)
    assert finding.table is not None
    (row,) = finding.table
    assert {row["a"]: row["mean a"], row["b"]: row["mean b"]} == {
        "pairs": pytest.approx(0.5),
        "singles": pytest.approx(0.9),
    }
    assert row["corrected_p"] < 0.001
    *_, note = finding.notes
    assert note.startswith("Not compared: bi-LSTM, R")


def test_comparisons_of_few_seeds_are_doubted(tmp_path: Path) -> None:
    """Two seeds that both have 1.0 against ten that are anywhere: the test takes the two for
    certain.
    """
    ten = {"ood": spread(0.5, 0.2, 10)}
    runs = made_up(
        tmp_path, group("ctl/A", "ndr", ten), group("ctl/A", "ndr", {"ood": [1.0, 1.0]}, SINGLES)
    )
    _, _, (finding,) = analyse("ctlpp/singles", runs)
    *_, note = finding.notes
    assert note.startswith("In 1 comparison one side has fewer than 5 seeds")


def test_seeds_that_all_agree_have_newcombes_interval_and_one_item_does_not_move_it() -> None:
    """25 of 25 against 25 of 25 is ± 0.13, as a share of seeds; 0.9999 ± 0.0003 is nearly that."""
    low, high = difference_interval([1.0] * 25, [1.0] * 25)
    assert [low, high] == pytest.approx([-0.1332, 0.1332], abs=1e-4)
    one_item = difference_interval([1.0] * 25, [0.999] + [1.0] * 24)
    assert one_item == pytest.approx((low, high), abs=0.005)
    nearly = difference_interval([1.0] * 25, spread(0.9999, 0.00006, 25))
    assert nearly == pytest.approx((low, high), abs=0.005)


def test_the_interval_goes_over_to_welchs_without_a_jump() -> None:
    """Ends at 200 spreads from 0 to twice the limit: no two neighbours differ by more than a
    hundredth.
    """
    spreads = [2 * ALMOST_NONE * step / 200 for step in range(201)]
    ends = [difference_interval(spread(0.97, 0.0, 10), spread(0.96, sd, 10)) for sd in spreads]
    steps = [abs(b - a) for one, two in pairwise(ends) for a, b in zip(one, two, strict=True)]
    assert max(steps) < 0.01
    result = welch(spread(0.97, 0.02, 10), spread(0.96, 0.02, 10))
    assert difference_interval(spread(0.97, 0.02, 10), spread(0.96, 0.02, 10)) == (
        result.low,
        result.high,
    )


def test_comparisons_of_equal_scores_are_not_in_the_family(tmp_path: Path) -> None:
    """Two comparisons, of which one is of equal scores: the other is corrected for itself alone."""
    eight = {"recipe.processes": 8}
    runs = made_up(
        tmp_path,
        group("ctl/R", "ndr", {"iid": [1.0] * 8, "ood": spread(0.5, 0.1, 8)}),
        group("ctl/R", "ndr", {"iid": [1.0] * 8, "ood": spread(0.6, 0.1, 8)}, eight),
    )
    _, _, (finding,) = analyse("ctlpp/processes", runs)
    assert finding.table is not None
    p = {row["split"]: row["corrected_p"] for row in finding.table}
    alone = welch(spread(0.5, 0.1, 8), spread(0.6, 0.1, 8)).p
    assert p == {"iid": None, "ood": pytest.approx(alone)}


@pytest.mark.parametrize(
    ("gains", "found"), [([0.2, 0.25, 0.3, 0.22], True), ([0.6, 0.0, 0.0, 0.02], False)]
)
def test_an_effect_on_every_table_is_told_from_one_on_a_single_table(
    tmp_path: Path, gains: list[float], found: bool
) -> None:
    """Ten seeds each on four tables: over seeds both effects look sure, over tables only the one
    that all tables show.
    """
    groups = []
    for table, gain in enumerate(gains):
        for processes, mean in ((8, 0.3), (32, 0.3 + gain)):
            fields = {
                "recipe.processes": processes,
                "recipe.table_seed": table,
                "recipe.seed": table,
            }
            groups.append(group("ctl/R", "ndr", {"ood": spread(mean, 0.03, 10)}, fields))
    groups.append(
        group("ctl/R", "ndr", {"ood": [0.9] * 4}, {"recipe.processes": 8, "recipe.seed": 7})
    )
    _, _, (by_seed, by_table) = analyse("ctlpp/processes", made_up(tmp_path, *groups))
    assert by_seed.table is not None
    assert by_table.table is not None
    assert min(row["corrected_p"] for row in by_seed.table) < 0.001
    (row,) = by_table.table
    assert (row["tables"], row["a"], row["b"]) == (
        4,
        "8",
        "32",
    ), "data of another seed are not paired"
    assert row["b - a"] == pytest.approx(sum(gains) / 4)
    assert (row["low"] > 0) == found
    assert (row["corrected_p"] < 0.05) == found


def test_a_heat_map_has_each_setting_once_with_its_spread(tmp_path: Path) -> None:
    cells = [
        group(
            "ctl/S",
            "bilstm",
            {"iid": [1.0] * 5, "ood": spread(1.0 if (overlap, k) == (16, 6) else 0.2, 0.0, 5)},
            {"learner.preset": "ctlpp-s", "recipe.overlap": overlap, "recipe.shared_symbols": k},
        )
        for overlap in (4, 16)
        for k in (2, 6)
    ]
    _, _, (finding,) = analyse("ctlpp/figure8", made_up(tmp_path, *cells))
    assert finding.table is not None
    assert [(r["overlap"], r["shared symbols"]) for r in finding.table] == [
        (4, 2),
        (4, 6),
        (16, 2),
        (16, 6),
    ]
    assert [r["group size"] for r in finding.table] == [7, 7, 4, 4]
    assert "1 of 4 settings" in finding.text
    assert "(16, 6)" in finding.text
    with pytest.raises(
        StudyError,
        match=r"has no runs of NDR on ctl/S, of which Figure 4 is; .*learner=bilstm draws those",
    ):
        analyse("ctlpp/figure4", made_up(tmp_path, *cells))
    _, _, (other,) = analyse("ctlpp/figure4", made_up(tmp_path, *cells), learner="bilstm")
    assert "bi-LSTM" in other.title
    assert "(mean ± standard deviation over 5 seeds)" in finding.figures[0].caption


def test_the_steps_at_which_seeds_have_learned_are_those_of_their_curves(tmp_path: Path) -> None:
    scores = group("ctl/R", "ndr", {"iid": [1.0, 0.1, 0.97], "ood": [0.9, 0.1, 0.7]})
    iid = {"0": [0.1, 0.96, 1.0], "1": [0.1, 0.1, 0.1], "2": [0.1, 0.5, 0.97]}
    scores["curves"] = {
        seed: [(step, "iid", score) for step, score in zip((2000, 4000, 6000), own, strict=True)]
        for seed, own in iid.items()
    }
    chains = group("ctl/R", "ndr", {"iid": [0.1], "ood": [0.1]}, {"recipe.draw": "chains"})
    chains["curves"] = {"0": [(2000, "iid", 0.1), (2000, "ood", 0.1)]}
    _, _, (finding,) = analyse("ctlpp/curves", made_up(tmp_path, scores, chains))
    assert finding.table is not None
    rows = [tuple(row[c] for c in finding.table.columns) for row in finding.table]
    assert [row[:6] for row in rows] == [
        ("NDR, R (published)", 3, 2, 4000, 5000, 6000),
        ("NDR, R (chains)", 1, 0, None, None, None),
    ]
    assert {row[6:] for row in rows} == {(None, None)}  # two seeds tell no order
    assert len(finding.figures[0].data) == 11
    drawing = finding.figures[0].draw(finding.figures[0].data)
    limits = {axis.get_xlim() for axis in drawing.axes if axis.get_visible()}
    assert len(limits) == 1  # curves of one model that end at different steps
    with pytest.raises(StudyError, match="no learning curves"):
        analyse(
            "ctlpp/curves", made_up(tmp_path, group("ctl/R", "ndr", {"iid": [1.0], "ood": [0.5]}))
        )


def test_seeds_that_learn_sooner_and_do_better_are_told_from_those_that_do_not(
    tmp_path: Path,
) -> None:
    """Five seeds learn at 1,000, 2,000 … steps; on A their ood accuracy then falls with the step,
    on R it does not depend on it.
    """
    groups = []
    for recipe, ood in (("ctl/A", [0.9, 0.8, 0.7, 0.6, 0.5]), ("ctl/R", [0.7, 0.9, 0.5, 0.6, 0.8])):
        scores = group(recipe, "ndr", {"iid": [1.0] * 5, "ood": [0.1] * 5})
        scores["curves"] = {
            str(seed): [
                (1000 * k, split, right if k > seed else 0.1)
                for k in range(1, 6)
                for split, right in (("iid", 1.0), ("ood", own))
            ]
            for seed, own in enumerate(ood)
        }
        groups.append(scores)
    _, _, (finding,) = analyse("ctlpp/curves", made_up(tmp_path, *groups))
    assert finding.table is not None
    on_a, on_r = ((row["correlation"], row["corrected_p"]) for row in finding.table)
    assert on_a == pytest.approx(
        (-1.0, 2 * 2 / 120)
    )  # two of the 120 orders are as strong; two correlations are tested
    assert on_r == pytest.approx((-0.1, 0.95))
    x = [float(i) for i in range(12)]
    assert order_chance(x, x) < 0.001 < order_chance(x, [5.0, 2, 9, 1, 11, 4, 0, 7, 3, 10, 6, 8])


def test_accuracies_by_layers_of_a_file_are_those_of_the_seeds_that_learned(tmp_path: Path) -> None:
    """Neither seed 1 on the published draw nor any seed on chains learned."""
    chains = group("ctl/A", "ndr", {"iid": [0.1] * 3, "ood": [0.1] * 3}, {"recipe.draw": "chains"})
    runs = made_up(
        tmp_path, group("ctl/A", "ndr", {"iid": [1.0, 0.1, 0.9], "ood": [0.9, 0.1, 0.7]}), chains
    )
    accuracy = {
        "iid": {"8": [0.8, 0.1, 1.0], "10": [1.0, 0.1, 0.9]},
        "ood": {"8": [0.5, 0.1, 0.7], "10": [0.9, 0.1, 0.7]},
    }
    entry = {
        "learner": "ndr",
        "variant": "A",
        "draw": "published",
        "seeds": [0, 1, 2],
        "accuracy": accuracy,
    }
    (tmp_path / "layers.json").write_text(
        json.dumps({"trainings": [{**entry, "draw": "chains"}, entry]})
    )
    _, _, (finding,) = analyse("ctlpp/layers", runs, by_layers=str(tmp_path / "layers.json"))
    assert finding.table is not None
    means = {(row["layers"], row["split"]): (row["mean"], row["seeds"]) for row in finding.table}
    assert means == {
        (8, "iid"): (pytest.approx(0.9), 2),
        (10, "iid"): (pytest.approx(0.95), 2),
        (8, "ood"): (pytest.approx(0.6), 2),
        (10, "ood"): (pytest.approx(0.8), 2),
    }
    assert {row["low"] for row in finding.table} == {None}, (
        "the interval of two seeds spans the whole axis"
    )
    others = group("ctl/A", "ndr", {"iid": [1.0] * 3, "ood": [0.9] * 3}, {"recipe.processes": 8})
    both = made_up(
        tmp_path, others, group("ctl/A", "ndr", {"iid": [1.0, 0.1, 0.9], "ood": [0.9, 0.1, 0.7]})
    )
    (tmp_path / "layers.json").write_text(json.dumps({"trainings": [entry]}))
    _, _, (finding,) = analyse("ctlpp/layers", both, by_layers=str(tmp_path / "layers.json"))
    assert finding.table is not None
    assert {row["seeds"] for row in finding.table} == {2}  # all three learned what 8 processes drew
    (tmp_path / "layers.json").write_text(
        json.dumps({"trainings": [{**entry, "draw": "independent"}]})
    )
    with pytest.raises(StudyError, match="no such runs"):
        analyse("ctlpp/layers", runs, by_layers=str(tmp_path / "layers.json"))
    with pytest.raises(StudyError, match="has no accuracies by layers"):
        analyse("ctlpp/layers", runs, by_layers=str(tmp_path / "scores.json"))


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("ctlpp/figure10", "states=FILE"),
        ("ctlpp/figure6", "states=FILE"),
        ("ctlpp/layers", "by_layers=FILE"),
    ],
)
def test_without_models_a_study_says_what_it_needs(name: str, instead: str, tmp_path: Path) -> None:
    runs = made_up(tmp_path, group("ctl/R", "ndr", {"iid": [1.0], "ood": [0.5]}))
    with pytest.raises(StudyError, match=f"kept no model.*{instead}"):
        analyse(name, runs)
