"""States and answers of models on CTL++, with a stand-in for a model whose codes are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from taskloom.analysis.study import StudyError, analyse
from taskloom.experiments.result_table import ResultTable
from taskloom.papers.ctlpp import symbol_similarity
from taskloom.papers.ctlpp.graph_drawings import NODE, draw_graph, graph_table
from taskloom.papers.ctlpp.symbol_codes import (
    centred_correlation,
    codes_and_outcomes,
    concordance,
    other_networks,
    own_gap_chance,
    seed_row,
    symbol_rows,
    within_networks,
)
from taskloom.papers.ctlpp.symbol_similarity import (
    accuracy_cells,
    draw_matrices,
    evidence_table,
    group_numbers,
    matrix_rows,
    symbol_cosines,
)
from taskloom.papers.ctlpp.trained_models import TrainedModel
from taskloom.recipe import read
from taskloom.suites.ctl.fields import CtlFields
from taskloom.suites.ctl.world import SymbolWorld, build
from tests.analysis.made_up_scores import group, made_up


class PlantedCodes:
    """A stand-in that has one vector a symbol, or one for each group of the last function, and
    answers by what it can read.

    A second function of another group reads nothing of a code of the first one's group, and then
    always answers 0.
    """

    def __init__(self, world: SymbolWorld, codes: str) -> None:
        self.world, self.codes = world, codes
        self.groups = world.group_of()
        rng = np.random.default_rng(0)
        self.vectors = rng.normal(size=(world.symbols, 2, 48))
        self.noise = rng

    def _read(self, text: str) -> tuple[list[int], int]:
        *names, symbol = text.split()
        return [self.world.names.index(name) for name in reversed(names)], int(symbol)

    def represent(self, inputs: Sequence[str], where: str = "readout") -> Any:
        states = []
        for text in inputs:
            (f,), symbol = self._read(text)
            code = int(self.groups[f] == "b") if self.codes == "by group" else 0
            states.append(
                self.vectors[self.world.images[f, symbol], code] + 0.05 * self.noise.normal(size=48)
            )
        return np.array(states)

    def answer(self, inputs: Sequence[str]) -> list[str]:
        answers = []
        for text in inputs:
            (f, g), symbol = self._read(text)
            readable = self.codes == "one" or self.groups[f] == self.groups[g]
            answers.append(
                str(self.world.images[g, self.world.images[f, symbol]]) if readable else "?"
            )
        return answers


def planted(codes: str) -> TrainedModel:
    fields = read("ctl/R").fields
    assert isinstance(fields, CtlFields)
    world = build(fields)
    return TrainedModel("planted", PlantedCodes(world, codes), world, True, 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(("codes", "separate"), [("by group", 8), ("one", 0)])
def test_separate_codes_of_groups_are_found_where_they_are_planted(
    codes: str, separate: int
) -> None:
    model = planted(codes)
    table, values = evidence_table(model, symbol_cosines(model, "readout"))
    assert sum(v.separate for v in values) == separate
    assert all(v.clusters >= 2 for v in values)
    assert len(table) == 8


def test_states_of_a_gpu_run_take_the_place_of_its_models(tmp_path: Path) -> None:
    """Seed 7, the second of the file, has separate codes and fails; seed 3 has one code and
    succeeds.
    """
    models = [planted("one"), planted("by group")]
    texts = [m.text([f], s) for m in models[:1] for f in range(32) for s in range(8)]
    readout = np.stack([m.fitted.represent(texts) for m in models]).astype(np.float16)
    arrays: dict[str, Any] = {"singles": np.array(texts), "singles.readout": readout}
    np.savez_compressed(tmp_path / "states.npz", **arrays)
    scores = group("ctl/R", "ndr", {"iid": [1.0, 1.0], "ood": [0.99, 0.4]})
    scores["seeds"] = {"3": scores["seeds"]["0"], "7": scores["seeds"]["1"]}
    runs = made_up(tmp_path, scores)
    _, _, (failed,) = analyse("ctlpp/figure10", runs, states=str(tmp_path / "states.npz"))
    _, _, (succeeds,) = analyse("ctlpp/figure9", runs, states=str(tmp_path / "states.npz"))
    assert failed.table is not None
    assert succeeds.table is not None
    assert {row["codes"] for row in failed.table} == {"separate"}
    assert {row["codes"] for row in succeeds.table} == {"one"}
    assert "seed 7" in failed.figures[0].caption
    for finding in (failed, succeeds):
        (note,) = finding.notes
        assert "no published numbers" in note
        assert "holds of 8 of 8 symbols" in note
    with pytest.raises(StudyError, match="only of single functions"):
        analyse("ctlpp/figure10", runs, states=str(tmp_path / "states.npz"), where="layer.3")
    with pytest.raises(StudyError, match="has no answer to"):
        analyse("ctlpp/figure6", runs, states=str(tmp_path / "states.npz"))
    with pytest.raises(StudyError, match="has no states"):
        analyse("ctlpp/figure10", runs, states=str(tmp_path / "scores.json"))
    whole = (tmp_path / "states.npz").read_bytes()
    (tmp_path / "part.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StudyError, match=r"is not a whole .npz file; .* writes such files"):
        analyse("ctlpp/figure10", runs, states=str(tmp_path / "part.npz"))
    with pytest.raises(StudyError, match=r"there is no file of states .*nowhere.npz"):
        analyse("ctlpp/figure10", runs, states=str(tmp_path / "nowhere.npz"))


def test_a_file_names_the_seeds_whose_states_and_answers_it_has(tmp_path: Path) -> None:
    """Of the seeds 3, 5 and 7 the file has 7, which fails, and 5, which succeeds more; runs on
    another draw have the same seeds.
    """
    models = [planted("by group"), planted("one")]
    functions, symbols = models[0].world.images.shape
    singles = [models[0].text([f], s) for f in range(functions) for s in range(symbols)]
    pairs = [
        models[0].text([f, g], s)
        for s in range(symbols)
        for f in range(functions)
        for g in range(functions)
    ]
    classes = np.array([*map(str, range(symbols)), "?"])
    answers = [
        [classes.tolist().index(answer) for answer in m.fitted.answer(pairs)] for m in models
    ]
    np.savez_compressed(
        tmp_path / "states.npz",
        singles=np.array(singles),
        pairs=np.array(pairs),
        classes=classes,
        seeds=np.array([7, 5]),
        **{
            "singles.readout": (
                np.stack([m.fitted.represent(singles) for m in models]).astype(np.float16)
            ),
            "pairs.answers": np.array(answers, dtype=np.int8),
        },  # type: ignore[arg-type]
    )
    scores = group("ctl/R", "ndr", {"iid": [1.0, 1.0, 1.0], "ood": [0.2, 0.9, 0.4]})
    scores["seeds"] = dict(zip("357", scores["seeds"].values(), strict=True))
    other = group("ctl/R", "ndr", {"iid": [1.0] * 9, "ood": [0.1] * 9}, {"recipe.draw": "chains"})
    runs = made_up(tmp_path, scores, other)
    _, _, (finding,) = analyse("ctlpp/figure6", runs, states=str(tmp_path / "states.npz"))
    assert finding.table is not None
    cells = {
        (r["first"], r["second"]): r["accuracy"]
        for r in finding.table
        if r["panel"] == "(b) groups"
    }
    assert cells == {
        ("G_a", "G_a"): 1.0,
        ("G_a", "G_b"): 0.0,
        ("G_b", "G_a"): 0.0,
        ("G_b", "G_b"): 1.0,
    }
    assert "seed 7 (ood accuracy 0.400" in finding.figures[0].caption
    assert finding.figures[0].name == "figure6"
    widest = int(finding.text.split()[1])
    symbol = (widest + 1) % 8
    _, _, (asked,) = analyse(
        "ctlpp/figure6", runs, states=str(tmp_path / "states.npz"), symbol=symbol
    )
    assert asked.text.startswith(
        f"Symbol {symbol} was asked for; symbol {widest} has the largest gap"
    )
    _, _, (codes,) = analyse("ctlpp/codes", runs, states=str(tmp_path / "states.npz"), variant="R")
    assert [one.name for one in codes.figures] == ["codes-R"], (
        "a page can show A and R; no seed succeeds"
    )
    with pytest.raises(StudyError, match=r"the setting 'seed' must be '5' or '7' for .*, not '3'"):
        analyse("ctlpp/figure6", runs, states=str(tmp_path / "states.npz"), seed=3)
    with pytest.raises(
        StudyError, match=r"the setting 'learner' must be 'ndr' for .*, not 'bilstm'"
    ):
        analyse("ctlpp/figure6", runs, states=str(tmp_path / "states.npz"), learner="bilstm")
    _, _, (less,) = analyse("ctlpp/figure6", runs, states=str(tmp_path / "states.npz"), seed=5)
    assert less.table is not None
    assert {row["accuracy"] for row in less.table} == {1.0}
    with np.load(tmp_path / "states.npz") as file:
        arrays = {name: file[name] for name in file}
    arrays |= {"pairs.seeds": np.array([5]), "pairs.answers": arrays["pairs.answers"][1:]}
    np.savez(tmp_path / "partly.npz", **arrays)
    _, _, (answered,) = analyse("ctlpp/figure6", runs, states=str(tmp_path / "partly.npz"))
    assert "seed 5 (ood accuracy 0.900" in answered.figures[0].caption, (
        "seed 7 fails more, but has no answers to pairs"
    )
    _, _, (failed,) = analyse("ctlpp/figure10", runs, states=str(tmp_path / "partly.npz"))
    assert "seed 7" in failed.figures[0].caption


def test_states_of_other_models_than_those_of_the_runs_are_refused(tmp_path: Path) -> None:
    """A file that says whose states it has is not joined with the scores of another network,
    variant or draw of the same seeds.
    """
    model = planted("one")
    functions, symbols = model.world.images.shape
    singles = [model.text([f], s) for f in range(functions) for s in range(symbols)]
    pairs = [
        model.text([f, g], s)
        for s in range(symbols)
        for f in range(functions)
        for g in range(functions)
    ]
    answers = np.array([[int(answer) for answer in model.fitted.answer(pairs)]], dtype=np.int8)
    readout = np.stack([model.fitted.represent(singles)])
    arrays: dict[str, Any] = {
        "singles": singles,
        "pairs": pairs,
        "classes": [str(s) for s in range(symbols)],
        "seeds": [0],
    }
    arrays |= {
        "singles.readout": readout,
        "pairs.answers": answers,
        "learner": "transformer",
        "data": "R-chains",
    }
    path = tmp_path / "states.npz"
    np.savez(path, **arrays)
    chains = {"recipe.draw": "chains"}
    runs = made_up(
        tmp_path,
        group("ctl/R", "ndr", {"iid": [1.0], "ood": [0.1]}),
        group("ctl/R", "transformer", {"iid": [1.0], "ood": [0.2]}),
        group("ctl/A", "transformer", {"iid": [1.0], "ood": [0.3]}, chains),
        group("ctl/R", "transformer", {"iid": [1.0], "ood": [0.9]}, chains),
    )
    _, _, (finding,) = analyse("ctlpp/codes", runs, states=str(path), variant="R", draw="chains")
    assert finding.table is not None
    assert [row["ood"] for row in finding.table] == [0.9], (
        "the learner is the file's where none is asked for"
    )
    assert finding.text.startswith("No unseen pair of functions fails")
    others: list[dict[str, Any]] = [{"variant": "A", "draw": "chains"}, {"variant": "R"}]
    for other in [*others, {"variant": "R", "draw": "chains", "learner": "ndr"}]:
        with pytest.raises(
            StudyError, match="has states of transformer on R, draw chains, which are not those of"
        ):
            analyse("ctlpp/codes", runs, states=str(path), **other)
    np.savez(path, **{**arrays, "data": "R-processes8"})
    several = made_up(
        tmp_path,
        group("ctl/R", "transformer", {"iid": [1.0], "ood": [0.2]}),
        group("ctl/R", "transformer", {"iid": [1.0], "ood": [0.7]}, {"recipe.processes": 8}),
    )
    _, _, (finding,) = analyse("ctlpp/codes", several, states=str(path), variant="R")
    assert [row["ood"] for row in finding.table or ()] == [0.7], (
        "the runs are those of the file's number of processes"
    )


def test_symbols_that_groups_code_differently_are_those_that_unseen_pairs_fail_on() -> None:
    """Codes by group: on R all pairs across groups, which training does not have, are wrong; with
    one code all are right.
    """
    for codes, unseen in (("by group", 0.0), ("one", 1.0)):
        rows = symbol_rows(planted(codes), "readout", alternating=False)
        assert [(row["seen pairs"], row["unseen pairs"]) for row in rows] == [(1.0, unseen)] * 8
        assert all((row["gap of groups"] > 0.5) == (codes == "by group") for row in rows)
    reversed_roles = symbol_rows(planted("by group"), "readout", alternating=True)
    assert {(row["seen pairs"], row["unseen pairs"]) for row in reversed_roles} == {(0.0, 1.0)}


def test_a_seed_that_fails_on_the_symbol_of_the_largest_gap_is_told_from_one_that_does_not() -> (
    None
):
    def symbols(gaps: list[float], right: list[float]) -> list[dict[str, Any]]:
        return [
            {
                "symbol": s,
                "gap of groups": g,
                "unseen pairs": r,
                "codes": "separate" if g > 0.4 else "one",
            }
            for s, (g, r) in enumerate(zip(gaps, right, strict=True))
        ]

    through_it = seed_row(symbols([0.1, 0.5, 0.2, 0.0], [1.0, 0.1, 0.9, 1.0]))
    assert (through_it["of symbol"], through_it["worst symbol"]) == (1, 1)
    assert through_it["its share of failures"] == pytest.approx(0.9)
    assert (through_it["separate"], through_it["scattered"]) == (1, 0)
    assert through_it["through the others"] == pytest.approx(2.9 / 3)
    assert through_it["correlation"] < -0.9
    beside_it = seed_row(symbols([0.1, 0.5, 0.2, 0.0], [0.0, 1.0, 1.0, 1.0]))
    assert (
        beside_it["of symbol"],
        beside_it["worst symbol"],
        beside_it["its share of failures"],
    ) == (1, 0, 0.0)
    perfect = seed_row(symbols([0.1, 0.5], [1.0, 1.0]))
    assert (perfect["worst symbol"], perfect["its share of failures"]) == (None, None)


def test_seeds_with_separate_codes_for_more_symbols_are_found_to_do_better_where_that_is_planted() -> (
    None
):
    """Five seeds, of which two orders of 120 are as strong; all have as many scattered symbols."""
    rows = [{"ood": seed / 10, "separate": seed, "scattered": 2} for seed in range(5)]
    text = codes_and_outcomes(rows)
    assert "with the number of symbols that have separate codes is 1.00 (p = 0.017)" in text
    assert "scattered" not in text
    assert codes_and_outcomes(rows[:3]) == ""


@pytest.mark.parametrize("of_network", [True, False])
def test_what_a_networks_own_gap_explains_is_told_from_what_makes_a_symbol_hard(
    of_network: bool,
) -> None:
    """Ten networks, eight symbols. Symbols differ in both worlds; in one the network's own gap adds
    to its failures.
    """
    rng = np.random.default_rng(5)
    symbol = np.linspace(0, 1, 8)
    own = rng.normal(0, 0.5, (10, 8)) if of_network else np.zeros((10, 8))
    gaps = symbol + own + rng.normal(0, 0.2, (10, 8))
    right = -symbol - own + rng.normal(0, 0.2, (10, 8))
    assert np.mean(within_networks(gaps, right)) < -0.6, "within networks both look alike"
    assert other_networks(gaps, right) < -0.2
    assert concordance(right) > 0.2
    centred, low, high = centred_correlation(gaps, right)
    assert (high < -0.4) == of_network
    assert (low < 0 < high) != of_network
    assert (own_gap_chance(gaps, right) < 0.01) == of_network
    assert low < centred < high


def test_concordance_is_1_for_one_order_and_near_0_for_random_ones() -> None:
    order = np.arange(8.0)
    assert concordance(np.stack([order, order * 2, order + 3])) == pytest.approx(1.0)
    rng = np.random.default_rng(0)
    assert concordance(np.stack([rng.permutation(8) for _ in range(200)])) < 0.05
    tied = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]])
    assert concordance(tied) == pytest.approx(1.0), (
        "ties take nothing away where all networks have the same"
    )


def test_states_are_arranged_by_the_symbol_that_a_function_gives() -> None:
    model = planted("one")
    states = model.states()
    assert states.shape == (8, 32, 48)
    centre = model.fitted.vectors[:, 0]  # type: ignore[attr-defined]
    assert np.abs(states.mean(axis=1) - centre).max() < 0.1


def test_accuracy_of_pairs_by_group_is_what_the_model_can_read() -> None:
    model = planted("by group")
    right, groups = model.pair_scores(), group_numbers(model)
    for symbol in range(8):
        cells = accuracy_cells(right, model.world, symbol, groups, groups)
        assert cells.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_rows_of_figure_6_are_first_functions_and_columns_second_ones() -> None:
    """Right is what begins with a function of group a."""
    model = planted("one")
    groups = group_numbers(model)
    right = np.broadcast_to((groups == 0)[:, None], (8, 32, 32))
    rows = list(symbol_similarity._rows("", right, model, 0, groups, ["G_a", "G_b"]))
    cells = {(row["first"], row["second"]): row["accuracy"] for row in rows}
    assert cells == {
        ("G_a", "G_a"): 1.0,
        ("G_a", "G_b"): 1.0,
        ("G_b", "G_a"): 0.0,
        ("G_b", "G_b"): 0.0,
    }
    assert [row["inputs"] for row in rows] == [256] * 4


def test_figure_6_shows_a_symbol_through_which_something_fails() -> None:
    """Symbol 2 has the largest gap, but everything through it is right; through 5 and 6 nothing
    is.
    """
    world = planted("one").world
    values = world.images.T  # the value between two functions: [start symbol, first]
    right = np.broadcast_to(~np.isin(values, (5, 6))[:, :, None], (8, 32, 32))
    gaps = [0.0, 0.1, 0.9, 0.0, 0.0, 0.2, 0.4, 0.0]
    assert symbol_similarity.telling_symbol(gaps, right, world) == 6
    assert symbol_similarity.telling_symbol(gaps, np.ones_like(right), world) == 2


def test_only_inputs_with_the_intermediate_symbol_count() -> None:
    """Nothing is right but pairs whose intermediate value is 3: for that symbol everything is, for
    the others nothing.
    """
    world = planted("one").world
    right = np.zeros((8, 32, 32), dtype=bool)
    for f in range(32):
        right[int(np.argmax(world.images[f] == 3)), f] = True
    labels = np.zeros(32, dtype=np.int64)
    assert accuracy_cells(right, world, 3, labels, labels).tolist() == [[1.0]]
    assert accuracy_cells(right, world, 4, labels, labels).tolist() == [[0.0]]


def test_matrices_are_ordered_by_cluster_and_drawn() -> None:
    model = planted("by group")
    rows = list(matrix_rows(model, 6, symbol_cosines(model, "readout")[6]))
    clusters = [row["cluster"] for row in rows if row["column"] == 0]
    assert clusters == sorted(clusters)
    (legend,) = draw_matrices(ResultTable(tuple(rows[0]), rows)).legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == ["functions of $G_{a}$", "functions of $G_{b}$", "clusters of the paper's cut"]


def test_arrows_of_a_graph_end_at_circles_with_solid_heads() -> None:
    from matplotlib.patches import Circle, PathPatch, Polygon

    (axis,) = draw_graph(graph_table("ctl/A")).axes
    circles = [patch.center for patch in axis.patches if isinstance(patch, Circle)]
    heads = [patch for patch in axis.patches if isinstance(patch, Polygon)]
    lines = [patch for patch in axis.patches if isinstance(patch, PathPatch)]
    assert (len(circles), len(heads), len(lines)) == (3, 6, 6)
    assert {patch.get_linestyle() for patch in heads} == {"solid"}
    for head in heads:
        tip = head.get_xy()[0]
        assert min(math.dist(tip, centre) for centre in circles) == pytest.approx(NODE)


def test_the_graph_of_r_is_that_of_a_with_training_and_test_exchanged() -> None:
    a, r = (
        {(e["from"], e["to"]): e["when"] for e in graph_table(name)} for name in ("ctl/A", "ctl/R")
    )
    exchange = {
        "training only": "test only",
        "test only": "training only",
        "training and test": "training and test",
    }
    assert {edge: exchange[when] for edge, when in a.items()} == r
    assert a["a", "b"] == "training only"
    assert a["a", "a"] == "test only"
