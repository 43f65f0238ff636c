"""Function tables as the unit: worlds where the table decides, where the seed does, and regrouped
functions.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats
from scipy.spatial.distance import pdist

from taskloom.analysis.finding import Finding
from taskloom.analysis.published_numbers import recipe_of
from taskloom.analysis.study import StudyError, analyse
from taskloom.experiments.sources.score_files import open_runs
from taskloom.experiments.statistics.distributions import bootstrap_interval
from taskloom.papers.ctlpp.function_tables import group_distance, variance_share
from taskloom.papers.ctlpp.runs import trainings
from taskloom.papers.ctlpp.symbol_codes import mean_gaps
from taskloom.papers.ctlpp.trained_models import TrainedModel
from taskloom.suites.ctl.fields import CtlFields
from taskloom.suites.ctl.world import SymbolWorld, build
from tests.analysis.made_up_scores import group, made_up

RESULTS = Path(__file__).parents[3] / "docs" / "results" / "ctlpp"


def on_tables(scores: list[list[float]]) -> list[dict[str, Any]]:
    """Trainings on as many tables as there are lists of ood scores."""
    return [
        group("ctl/R", "ndr", {"iid": [1.0] * len(own), "ood": own}, {"recipe.table_seed": table})
        for table, own in enumerate(scores)
    ]


def table_rows(finding: Finding) -> list[dict[str, Any]]:
    assert finding.table is not None
    return list(finding.table)


def test_the_share_of_variance_tells_whether_tables_or_seeds_decide(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 1, (8, 5))
    levels = np.linspace(0.3, 0.9, 8)[:, None]
    by_table = (levels + 0.02 * noise).tolist()
    by_seed = (0.6 + 0.1 * noise).tolist()
    shares = {}
    for name, scores in (("table", by_table), ("seed", by_seed)):
        (tmp_path / name).mkdir()
        _, _, (summary, each) = analyse(
            "ctlpp/tables", made_up(tmp_path / name, *on_tables(scores))
        )
        (row,) = table_rows(summary)
        assert (row["tables"], row["networks"]) == (8, 40)
        assert [one["networks"] for one in table_rows(each)] == [5] * 8
        shares[name] = variance_share(scores)
        assert row["share of variance between tables"].startswith(f"{shares[name].mean:.2f} [")
    assert shares["table"].low > 0.9
    assert shares["seed"].mean < 0.3
    assert shares["seed"].low == 0.0


def test_the_variance_share_is_that_of_a_random_effects_model() -> None:
    """Two groups of two by hand: mean squares 0.16 between and 0.02 within give (0.16 - 0.02) /
    (0.16 + 0.02).
    """
    assert variance_share([[0.1, 0.3], [0.5, 0.7]]).mean == pytest.approx(0.14 / 0.18)
    rng = np.random.default_rng(1)
    for true in (0.2, 0.75):
        held = 0
        for _ in range(300):
            effects = rng.normal(0, np.sqrt(true), 12)[:, None]
            estimate = variance_share(
                (effects + rng.normal(0, np.sqrt(1 - true), (12, 4))).tolist()
            )
            held += estimate.low <= true <= estimate.high
        assert held >= 300 * 0.92, (
            "the interval is said to hold the true share in 95 % of all samples"
        )


def test_the_interval_over_tables_is_wider_than_one_over_networks(tmp_path: Path) -> None:
    """30 networks on three tables that differ are three observations of tables."""
    scores = [[level + 0.001 * k for k in range(10)] for level in (0.2, 0.5, 0.8)]
    _, _, (summary, _) = analyse("ctlpp/tables", made_up(tmp_path, *on_tables(scores)))
    (row,) = table_rows(summary)
    assert row["mean over tables"].endswith("[0.000, 1.000]"), (
        "over 30 networks it would be 0.41 to 0.60"
    )


def test_draws_of_one_table_are_not_taken_for_tables(tmp_path: Path) -> None:
    second = {"recipe.seed": 1}
    runs = made_up(
        tmp_path,
        group("ctl/A", "ndr", {"iid": [1.0, 0.1], "ood": [0.4, 0.1]}),
        group("ctl/A", "ndr", {"iid": [1.0, 1.0], "ood": [0.6, 0.8]}, second),
    )
    _, _, (summary, each) = analyse("ctlpp/tables", runs)
    (row,) = table_rows(each)
    assert (row["table"], row["draws"], row["networks"], row["learned"]) == ("table 0", 2, 4, 3)
    (whole,) = table_rows(summary)
    assert "mean over tables" not in whole
    judged, _ = each.judgements
    assert judged.ours == pytest.approx(0.6), (
        "the network that did not learn is not compared, as in Table 1"
    )


def test_trainings_of_different_kinds_are_not_compared(tmp_path: Path) -> None:
    runs = made_up(
        tmp_path,
        group("ctl/R", "ndr", {"ood": [0.4]}, {"recipe.processes": 8}),
        group("ctl/R", "ndr", {"ood": [0.9]}, {"recipe.table_seed": 1}),
    )
    with pytest.raises(StudyError, match="differ in nothing but the function table"):
        analyse("ctlpp/tables", runs)


def test_functions_that_are_regrouped_are_compared_with_themselves(tmp_path: Path) -> None:
    """The first two and the last two functions differ on the symbols 0 and 1; divided otherwise the
    groups act alike.
    """
    functions = np.array([[0, 1, 2, 3], [0, 1, 3, 2], [1, 0, 2, 3], [1, 0, 3, 2]])
    near, far = (0, 3, 2, 1), (1, 0, 2, 3)
    groups = []
    for shift, gain in ((0, 0.4), (1, 0.2)):
        for order, ood in ((near, 0.5 + gain), (far, 0.5)):
            tables = {
                name: ((functions[k] + shift) % 4).tolist()
                for name, k in zip("abcd", order, strict=True)
            }
            fields = {
                "recipe.symbols": 4,
                "recipe.functions": 4,
                "recipe.max_length": 3,
                "recipe.tables": tables,
            }
            groups.append(
                group("ctl/R", "bilstm", {"iid": [1.0, 1.0], "ood": [ood - 0.1, ood + 0.1]}, fields)
            )
    _, _, (summary, each) = analyse("ctlpp/tables", made_up(tmp_path, *groups))
    (row,) = table_rows(summary)
    assert (row["regrouped"], row["positive"]) == (2, "2 of 2")
    assert row["difference"].startswith("0.300 [")
    assert (row["smallest distance"], row["largest distance"]) == (
        pytest.approx(0.8),
        pytest.approx(0.5),
    )
    assert sorted((one["table"], one["distance"]) for one in table_rows(each)) == [
        ("functions 1", 0.0), ("functions 1", 0.5), ("functions 2", 0.0), ("functions 2", 0.5),
    ]  # fmt: skip
    (figure,) = each.figures
    assert figure.name == "regrouping"
    assert len(figure.draw(figure.data).axes[0].lines) == 3, (
        "a line for each set of functions, and chance"
    )


def regrouped_tables(shift: int, gains: dict[str, float]) -> list[dict[str, Any]]:
    """A bi-LSTM on one set of functions in two groupings, for each variant; a gain of -1 stands for
    a network on the near grouping that did not learn.
    """
    found = []
    for variant, gain in gains.items():
        for distance in ("smallest", "largest"):
            fields = {"recipe.table_seed": shift, "recipe.group_distance": distance}
            scores = {"iid": [1.0], "ood": [0.5 + (gain if distance == "smallest" else 0.0)]}
            if gain == -1 and distance == "smallest":
                scores = {"iid": [0.2], "ood": [0.2]}
            found.append(group(f"ctl/{variant}", "bilstm", scores, fields))
    return found


def test_regroupings_are_paired_by_table_over_both_variants(tmp_path: Path) -> None:
    """Gains of 0.2, 0.3 and 0.1; the second is A's alone, since R's network did not learn, and a
    table on which neither learned is left out.
    """
    groups = [
        *regrouped_tables(0, {"A": 0.1, "R": 0.3}),
        *regrouped_tables(1, {"A": 0.3, "R": -1}),
        *regrouped_tables(2, {"A": 0.2, "R": 0.0}),
        *regrouped_tables(3, {"A": -1, "R": -1}),
    ]
    _, _, (summary, _) = analyse("ctlpp/tables", made_up(tmp_path, *groups))
    rows = {row["trainings"]: row for row in table_rows(summary)}
    both = rows["bi-LSTM, A and R, 32 processes"]
    assert (both["regrouped"], both["positive"]) == (3, "3 of 3")
    assert both["difference"] == "0.200 [-0.048, 0.448]", "t over three tables"
    assert both["p (Holm)"] == pytest.approx(0.0742, abs=1e-4), "t = 2 sqrt(3) with 2 df"
    assert rows["bi-LSTM, R, 32 processes"]["regrouped"] == 2


def test_trainings_that_were_stopped_earlier_are_a_row_of_their_own(tmp_path: Path) -> None:
    groups = regrouped_tables(0, {"A": 0.1, "R": 0.3}) + regrouped_tables(1, {"A": 0.3, "R": 0.1})
    early = [{**one, "fields": {**one["fields"], "learner.steps": 48_000}} for one in groups]
    _, _, (summary, _) = analyse("ctlpp/tables", made_up(tmp_path, *groups, *early))
    names = [row["trainings"] for row in table_rows(summary)]
    assert len(set(names)) == len(names) == 6
    assert {name for name in names if "48,000 steps" in name} == {
        f"bi-LSTM, {variant}, 32 processes, 48,000 steps" for variant in ("A", "R", "A and R")
    }


def world(first: list[list[int]], second: list[list[int]]) -> SymbolWorld:
    images = np.array(first + second)
    names = tuple("abcdefgh"[: len(images)])
    return SymbolWorld(
        names, images, {"a": tuple(range(len(first))), "b": tuple(range(len(first), len(images)))}
    )


def test_the_distance_of_groups_is_how_often_their_outputs_differ() -> None:
    one, two, three = [0, 1, 2], [1, 2, 0], [2, 0, 1]
    assert group_distance(world([one, two], [one, two])) == 0.0
    assert group_distance(world([one], [two])) == 1.0
    assert group_distance(world([one, two], [one, three])) == pytest.approx(0.5)
    assert group_distance(world([one, one, two], [one, two])) == pytest.approx(1 / 6)


def test_the_bootstrap_interval_holds_a_planted_correlation() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=40)
    low, high = bootstrap_interval(x.tolist(), (-x + 0.5 * rng.normal(size=40)).tolist())
    assert -1.0 <= low < high < -0.5
    low, high = bootstrap_interval(x.tolist(), rng.normal(size=40).tolist())
    assert low < 0 < high


def test_stored_small_worlds_give_the_numbers_of_the_page() -> None:
    summaries = {}
    for name in ("explored", "fresh", "regrouped"):
        _, _, (summary, each) = analyse("ctlpp/tables", RESULTS / "tables-small" / f"{name}.csv")
        summaries[name] = {
            row["trainings"].split(",")[1].strip(): row for row in table_rows(summary)
        }
        if name == "regrouped":
            pairs = {
                v: [r for r in table_rows(each) if r["trainings"].split(",")[1].strip() == v]
                for v in "AR"
            }
            for own in pairs.values():
                distances = {(r["table"], r["distance"]) for r in own}
                assert len(distances) == 20
                assert all(
                    abs(a - b) > 0.3 for (n, a), (m, b) in combinations(distances, 2) if n == m
                )
    assert [summaries["explored"][v]["share of variance between tables"][:4] for v in "AR"] == [
        "0.74",
        "0.76",
    ]
    assert summaries["fresh"]["R"]["distance and ood"] == "-0.76 [-0.88, -0.59]"
    assert summaries["regrouped"]["R"]["difference"] == "0.285 [0.181, 0.389]"
    assert summaries["regrouped"]["A"]["difference"] == "0.282 [0.166, 0.398]"
    assert {summaries["regrouped"][v]["positive"] for v in "AR"} == {"10 of 10"}


def test_stored_scores_of_ndr_by_table_are_those_of_the_page() -> None:
    _, _, (_, each) = analyse("ctlpp/tables", RESULTS / "processes-scores.json")
    rows = {(r["trainings"], r["table"]): (r["networks"], r["over 95 %"]) for r in table_rows(each)}
    solved = [rows["NDR, R, 8 processes", f"table {t}"] for t in (1, 2, 3)]
    assert solved == [(4, 4)] * 3
    assert rows["NDR, R, 8 processes", "table 0"] == (18, 5)


def test_stored_regroupings_at_paper_size_are_those_of_the_page() -> None:
    """The differences were computed beside the study with SciPy, from the curves that the GPU left."""
    _, _, (summary, _) = analyse("ctlpp/tables", RESULTS / "regrouped-scores.json")
    rows = {row["trainings"]: row for row in table_rows(summary)}
    ndr, bilstm = (rows[f"{name}, A and R, 8 processes"] for name in ("NDR", "bi-LSTM"))
    assert (ndr["difference"], ndr["positive"]) == ("0.510 [0.243, 0.777]", "5 of 5")
    assert (bilstm["difference"], bilstm["positive"]) == ("0.076 [0.043, 0.109]", "8 of 8")
    assert (ndr["p (Holm)"], bilstm["p (Holm)"]) == (
        pytest.approx(0.00609, abs=1e-5),
        pytest.approx(0.00191, abs=1e-5),
    )


def test_codes_of_regrouped_tables_are_those_that_scipy_finds() -> None:
    """The gaps of groups come from the stored arrays and the recipes' worlds alone, as condensed
    cosine distances; the study's own cosines and statistics are not used.
    """
    states = RESULTS / "regrouped-states.npz"
    scores = RESULTS / "regrouped-scores.json"
    _, _, (*_, codes) = analyse("ctlpp/tables", scores, states=str(states))
    with np.load(states) as arrays:
        vectors = {key: value[0] for key, value in arrays.items() if key.endswith("readout")}
        texts = arrays["singles"].tolist()
    assert len(vectors) == 48
    gaps: dict[tuple[str, str, str], tuple[float, float]] = {}
    runs = open_runs(scores)
    for one in trainings(runs):
        if one.model == "bilstm" and one.scores["iid"][0] > 0.5:
            drawn = recipe_of(runs, one.runs[0]).fields
            assert isinstance(drawn, CtlFields)
            table = "reference" if drawn.tables else f"table{drawn.table_seed}"
            distance = str(drawn.group_distance)
            name = f"bilstm-{one.variant}-processes8-{table}-{distance}.singles.readout"
            found = dict(zip(texts, vectors[name.replace("-given", "")], strict=True))
            gaps[one.variant, table, distance] = scipy_gaps(build(drawn), found)
    gains: dict[str, dict[str, list[float]]] = {"all": {}, "other": {}}
    for variant, table, distance in gaps:
        if distance == "largest" and (variant, table, "smallest") in gaps:
            for place, own in enumerate(gains.values()):
                near, far = (gaps[variant, table, d][place] for d in ("smallest", "largest"))
                own.setdefault(table, []).append(far - near)
    row = {one["trainings"]: one for one in codes.table or ()}["bi-LSTM, A and R, 8 processes"]
    for kind, column in (("all", "difference"), ("other", "other inputs")):
        by_table = [float(np.mean(own)) for own in gains[kind].values()]
        test = scipy_stats.ttest_1samp(by_table, 0)
        low, high = test.confidence_interval(0.95)
        assert row[column] == f"{np.mean(by_table):.3f} [{low:.3f}, {high:.3f}]"
        if kind == "all":
            assert row["p"] == pytest.approx(test.pvalue)
            assert row["positive"] == f"{sum(one > 0 for one in by_table)} of {len(by_table)}"


def scipy_gaps(drawn: SymbolWorld, vectors: dict[str, Any]) -> tuple[float, float]:
    """Gap of groups over symbols: of all vectors, and of those from different inputs."""
    gaps = []
    for symbol in range(drawn.symbols):
        inputs = [images.tolist().index(symbol) for images in drawn.images]
        rows = [vectors[f"{name} {given}"] for name, given in zip(drawn.names, inputs, strict=True)]
        cosine = 1 - pdist(np.array(rows, dtype=float), "cosine")
        pairs = list(combinations(range(drawn.functions), 2))
        groups = drawn.group_of()
        same = np.array([groups[a] == groups[b] for a, b in pairs])
        other = np.array([inputs[a] != inputs[b] for a, b in pairs])
        gaps.append(
            (
                cosine[same].mean() - cosine[~same].mean(),
                cosine[same & other].mean() - cosine[~same & other].mean(),
            )
        )
    of_all, of_other = np.mean(gaps, axis=0).tolist()
    return of_all, of_other


def test_codes_by_table_need_states_of_these_trainings(tmp_path: Path) -> None:
    runs = made_up(tmp_path, *on_tables([[0.9], [0.5]]))
    with pytest.raises(StudyError, match="has no states of these trainings"):
        analyse("ctlpp/tables", runs, states=str(RESULTS / "ndr-A-states.npz"))
    with pytest.raises(StudyError, match="there is no file of states"):
        analyse("ctlpp/tables", runs, states=str(tmp_path / "none.npz"))


def test_a_vector_that_keeps_its_input_is_no_code_of_its_group() -> None:
    """Planted: a vector is its input symbol, or its function's group. Groups map every input
    differently, so that only vectors of one group share an input.
    """
    drawn = world([[0, 1, 2, 3], [1, 2, 3, 0]] * 2, [[2, 3, 0, 1], [3, 0, 1, 2]] * 2)
    for codes, expected in (("input", (pytest.approx(1 / 3), 0.0)), ("group", (1.0, 1.0))):
        model = TrainedModel("planted", planted_codes(drawn, codes), drawn, True, 1.0)
        assert mean_gaps(model) == expected


def planted_codes(drawn: SymbolWorld, codes: str) -> Any:
    """Return a model whose read-out is the input symbol, or the group of the function."""

    class Planted:
        def represent(self, inputs: list[str], where: str) -> Any:
            assert where == "readout"
            function, symbol = zip(*(text.split() for text in inputs), strict=True)
            second = list(drawn.groups.values())[1]
            groups = [int(drawn.names.index(name) in second) for name in function]
            return np.eye(4)[groups if codes == "group" else [int(s) for s in symbol]]

    return Planted()
