"""Our question about CTL++: does generalization depend on the function table?

The unit of analysis is the table.

All of the paper's networks share one random function table. An interval over seeds of one table
only describes that table. Here every table therefore counts once: the study reports means over
tables, the share of variance between tables, and the correlation between accuracy on unseen
compositions and the distance of the two groups of functions.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from taskloom.analysis import figures
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.paper_table import mean_and_sd, table_of
from taskloom.analysis.published_numbers import (
    PublishedNumber,
    comparable,
    differences,
    published,
    recipe_of,
)
from taskloom.analysis.study import StudyError, study
from taskloom.analysis.verdict import Judgement, judge_mean, judge_share
from taskloom.core.files import path_of
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import Estimate, holm, over_task_differences, over_tasks
from taskloom.experiments.statistics.distributions import (
    beta_quantile,
    bootstrap_interval,
    order_chance,
    rank_correlation,
    t_two_sided,
)
from taskloom.experiments.table import Runs
from taskloom.papers.ctlpp.accuracy_table import CONVERGED, SUCCESS
from taskloom.papers.ctlpp.experiments import function_table_experiments
from taskloom.papers.ctlpp.runs import Trainings, trainings
from taskloom.papers.ctlpp.symbol_codes import mean_gaps
from taskloom.papers.ctlpp.trained_models import stored_trainings, trained_model
from taskloom.suites.ctl.fields import CtlFields
from taskloom.suites.ctl.world import SymbolWorld, build

FEWEST_TABLES = 5
"""Minimum number of tables for a correlation. With four values, a permutation test cannot reach p <
0.05.
"""

MOST_COLUMNS = 10
"""Maximum number of tables drawn as columns of dots. If there are more, they are only drawn by
distance.
"""


@dataclass(frozen=True, slots=True)
class Network:
    """A trained network in the comparison: the seed of its data, its own seed, and its iid and ood
    accuracy.
    """

    data_seed: int
    seed: int
    iid: float
    ood: float


@dataclass(frozen=True, slots=True, eq=False)
class TableNetworks:
    """Networks that were trained on one function table.

    Attributes:
        name: Name in tables and figures.
        functions: Key of the functions, regardless of their order. Tables with the same key are
            regroupings of one another.
        distance: Average difference in behaviour of the two groups of functions (`group_distance`).
        networks: All networks, including every draw of the training data.
        group: Trainings on the first draw. Their conditions apply to all draws.
    """

    name: str
    functions: str
    distance: float
    networks: tuple[Network, ...]
    group: Trainings

    @property
    def ood(self) -> list[float]:
        """Accuracy of each network on unseen compositions."""
        return [network.ood for network in self.networks]

    @property
    def learned(self) -> list[float]:
        """Accuracy of each network that learned the training compositions."""
        return [network.ood for network in self.networks if network.iid > CONVERGED]

    @property
    def mean(self) -> float:
        """Mean ood accuracy."""
        return statistics.fmean(self.ood)


@study(
    "ctlpp/tables",
    describe=(
        "Accuracy on unseen compositions of CTL++ by function table: does the table decide, or the"
        " seed?"
    ),
    experiment=function_table_experiments,
)
def tables(runs: Runs, *, states: str = "") -> list[Finding]:
    """Compare networks that were trained on different function tables, or on several draws of
    one.

    Args:
        runs: The runs.
        states: A file with the states of several trainings, as written by
            `benchmarks/ctlpp_scores.py --regrouped`, used to compare the codes of groups as well.
    """
    series = {name: own for name, own in _series(runs).items() if _has_several(own)}
    if not series:
        raise StudyError(
            f"{runs.path} has no trainings that differ in nothing but the function table"
            " (recipe.table_seed, recipe.tables) or the seed of the data; make some, e.g. with"
            " 'taskloom reproduce ctlpp/tables'"
        )
    findings = [_summary(series), _each_table(series)]
    return [*findings, _codes(runs, series, states)] if states else findings


def group_distance(world: SymbolWorld) -> float:
    """Total variation distance between the outputs of the two groups of functions, averaged over
    input symbols.

    The distance is 0 if the groups map every symbol to the same outputs equally often, and 1 if
    they never agree. It is computed from whole numbers with one division at the end, because
    rounding errors in sums of fractions would break ties between tables.
    """
    first, second = (world.images[list(members)] for members in list(world.groups.values())[:2])
    unlike = 0
    for symbol in range(world.symbols):
        ours = np.bincount(first[:, symbol], minlength=world.symbols)
        theirs = np.bincount(second[:, symbol], minlength=world.symbols)
        unlike += int(np.abs(ours * len(second) - theirs * len(first)).sum())
    return unlike / (2 * len(first) * len(second) * world.symbols)


def variance_share(groups: Sequence[Sequence[float]]) -> Estimate:
    """Share of the variance in scores that is between groups, with a 95 % interval.

    This is the intraclass correlation of a one-way random-effects model. The interval comes from
    the F distribution, which assumes equal variance within groups.

    Args:
        groups: Scores of each group. There must be at least two groups, and at least one with
            several scores.
    """
    sizes = np.array([len(own) for own in groups])
    total, count = int(sizes.sum()), len(groups)
    centre = statistics.fmean(score for own in groups for score in own)
    means = np.array([statistics.fmean(own) for own in groups])
    between = float((sizes * (means - centre) ** 2).sum()) / (count - 1)
    squares = [
        (score - mean) ** 2 for own, mean in zip(groups, means, strict=True) for score in own
    ]
    within = float(sum(squares)) / (total - count)
    # Effective group size if sizes differ (Searle, Casella and McCulloch 1992, section 3.6).
    size = (total - float((sizes**2).sum()) / total) / (count - 1)
    if within == 0:
        share = 1.0 if between > 0 else 0.0
        return Estimate(
            share, share, share, 0.0, total, count, count - 1, "no spread within groups"
        )

    def share_of(ratio: float) -> float:
        return max(0.0, (ratio - 1) / (ratio + size - 1))

    ratio = between / within
    low = share_of(ratio / _f_quantile(0.975, count - 1, total - count))
    high = share_of(ratio * _f_quantile(0.975, total - count, count - 1))
    return Estimate(
        share_of(ratio), low, high, float("nan"), total, count, count - 1, "F over groups"
    )


def _f_quantile(p: float, df: int, df_within: int) -> float:
    share = beta_quantile(p, df / 2, df_within / 2)
    return df_within * share / (df * (1 - share))


def _series(runs: Runs) -> dict[str, list[TableNetworks]]:
    """Group the function tables of trainings that differ only in the table and in the seed of the
    data.
    """
    alike: dict[str, list[Trainings]] = {}
    for group in trainings(runs):
        if group.scores.get("ood"):
            alike.setdefault(_rest(group), []).append(group)
    names = {rest: _name(own[0]) for rest, own in alike.items()}
    counts = Counter(names.values())
    series = {}
    for rest, own in alike.items():
        name = names[rest]
        if counts[name] > 1:
            name += f", {own[0].conditions['learner.steps']:,} steps"
        series[name] = _function_tables(runs, own)
    return series


def _name(group: Trainings) -> str:
    return f"{group.label}, {group.variant}, {_drawn(group)}"


def _drawn(group: Trainings) -> str:
    """Description of the training data's draw, for labels."""
    return f"{group.processes} processes" if group.processes else f"{group.draw} draw"


def _rest(group: Trainings) -> str:
    """Key of all settings that two trainings must share to be compared."""
    varied = ("recipe.table_seed", "recipe.tables", "recipe.group_distance", "recipe.seed")
    return json.dumps(
        {name: value for name, value in group.conditions.items() if not name.startswith(varied)}
    )


def _has_several(own: Sequence[TableNetworks]) -> bool:
    draws = {network.data_seed for table in own for network in table.networks}
    return len(own) > 1 or len(draws) > 1


def _function_tables(runs: Runs, groups: Sequence[Trainings]) -> list[TableNetworks]:
    worlds: dict[bytes, tuple[SymbolWorld, list[Trainings]]] = {}
    for group in groups:
        fields = recipe_of(runs, next(iter(group.runs.values()))).fields
        assert isinstance(fields, CtlFields)
        world = build(fields)
        worlds.setdefault(world.images.tobytes(), (world, []))[1].append(group)
    given: dict[str, str] = {}
    found = []
    for world, own in worlds.values():
        functions = json.dumps(sorted(world.images.tolist()))
        name = f"table {own[0].table_seed}"
        if _given_in_full(own[0]):
            name = given.setdefault(functions, f"functions {len(given) + 1}")
        networks = [network for group in own for network in _networks(group)]
        networks.sort(key=lambda network: (network.data_seed, network.seed))
        found.append(TableNetworks(name, functions, group_distance(world), tuple(networks), own[0]))
    return sorted(found, key=_by_number)


def _by_number(table: TableNetworks) -> tuple[str, int, float]:
    kind, number = table.name.split()
    return kind, int(number), table.distance


def _given_in_full(group: Trainings) -> bool:
    """True if the recipe lists the function tables."""
    return any(
        name.startswith("recipe.tables") and value is not None
        for name, value in group.conditions.items()
    )


def _networks(group: Trainings) -> Iterator[Network]:
    iid, ood = group.scores.get("iid", {}), group.scores["ood"]
    for seed in group.seeds:
        if seed in ood:
            yield Network(group.data_seed, seed, iid.get(seed, 1.0), ood[seed])


@dataclass(frozen=True, slots=True)
class Regrouping:
    """Mean ood accuracy of networks that learned, for two groupings of the same functions."""

    near: float
    """Accuracy at the smallest distance between the groups."""

    far: float
    """Accuracy at the largest distance between the groups."""

    @property
    def gain(self) -> float:
        """Accuracy at the smallest distance minus that at the largest."""
        return self.near - self.far


Scores = Callable[[TableNetworks], Sequence[float]]
"""Function that selects the scores of a table's networks to include."""


def _by_functions(own: Sequence[TableNetworks]) -> dict[str, list[TableNetworks]]:
    """Groupings of the same functions, sorted by distance."""
    found: dict[str, list[TableNetworks]] = {}
    for table in sorted(own, key=attrgetter("distance")):
        found.setdefault(table.functions, []).append(table)
    return found


def _regrouped(
    own: Sequence[TableNetworks], scores: Scores = attrgetter("learned")
) -> dict[str, Regrouping]:
    """Return the regroupings by function key. Groupings on which no network learned are left
    out.
    """
    found = {}
    for functions, ranked in _by_functions(own).items():
        near, far = scores(ranked[0]), scores(ranked[-1])
        if len(ranked) > 1 and near and far:
            found[functions] = Regrouping(statistics.fmean(near), statistics.fmean(far))
    return found


def _over_variants(own: Sequence[Mapping[str, Regrouping]]) -> dict[str, Regrouping]:
    """Average regroupings over variants, pairing near and far within each variant."""
    found = {}
    for functions in dict.fromkeys(name for one in own for name in one):
        alike = [one[functions] for one in own if functions in one]
        found[functions] = Regrouping(
            statistics.fmean(one.near for one in alike), statistics.fmean(one.far for one in alike)
        )
    return found


SUMMARY_COLUMNS = (
    "trainings",
    "tables",
    "networks",
    "mean over tables",
    "over 95 %",
    "share of variance between tables",
    "distance and ood",
    "p",
    "regrouped",
    "smallest distance",
    "largest distance",
    "difference",
    "positive",
    "p (Holm)",
)


def _summary(series: Mapping[str, list[TableNetworks]]) -> Finding:
    rows = [_summary_row(name, own) for name, own in series.items()]
    rows += _rows_over_variants(series)
    shown = [column for column in SUMMARY_COLUMNS if any(row[column] is not None for row in rows)]
    drawn = {name: own for name, own in series.items() if len(own) <= MOST_COLUMNS}
    several = any(len(own) > 1 for own in series.values())
    return Finding(
        "CTL++ by function table",
        "Unit of analysis: the function table. A table's score is the mean ood accuracy of its"
        " networks; intervals are 95 % (t over tables). The share of variance between tables is the"
        " intraclass correlation with its F interval, which takes the spread within tables for"
        " equal. Distance: total variation distance of what the two groups of functions put out,"
        " averaged over input symbols; its correlation with a table's score is Spearman's, with a"
        " bootstrap interval over tables and p by permutation (one test a row, not corrected)."
        " Regrouped: tables with the same functions in other groups, compared by their networks"
        f" that learned (iid over {CONVERGED:g}); A and R: the mean of the two by table, with p by"
        " t over tables, corrected by Holm over these rows.",
        ResultTable(shown, rows),
        (_columns_figure(drawn),) if drawn and several else (),
    )


def _summary_row(name: str, own: Sequence[TableNetworks]) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(SUMMARY_COLUMNS)
    scores = [score for table in own for score in table.ood]
    row |= {"trainings": name, "tables": len(own), "networks": len(scores)}
    row["over 95 %"] = f"{sum(score > SUCCESS for score in scores)} of {len(scores)}"
    pairs = list(_regrouped(own).values())
    if len(own) > 1 and not pairs:  # tables that were grouped on purpose are not a random sample
        row["mean over tables"] = str(over_tasks([table.mean for table in own]))
        if len(scores) > len(own):
            row["share of variance between tables"] = _short(
                variance_share([table.ood for table in own])
            )
        if len(own) >= FEWEST_TABLES:
            row |= _distance_and_ood(own)
    if len(pairs) > 1:
        row |= _regrouping_columns(pairs)
    return row


def _regrouping_columns(pairs: Sequence[Regrouping]) -> dict[str, Any]:
    return {
        "regrouped": len(pairs),
        "smallest distance": statistics.fmean(pair.near for pair in pairs),
        "largest distance": statistics.fmean(pair.far for pair in pairs),
        "difference": str(over_task_differences([pair.gain for pair in pairs])),
        "positive": f"{sum(pair.gain > 0 for pair in pairs)} of {len(pairs)}",
    }


def _rows_over_variants(series: Mapping[str, list[TableNetworks]]) -> list[dict[str, Any]]:
    """Rows for regroupings that were used for training on both variants."""
    rows = []
    chances = []
    for name, by_variant in _both_variants(series).items():
        pairs = list(_over_variants([_regrouped(own) for own in by_variant.values()]).values())
        if len(pairs) < 2:
            continue
        tables = [table for own in by_variant.values() for table in own]
        scores = [score for table in tables for score in table.ood]
        row: dict[str, Any] = dict.fromkeys(SUMMARY_COLUMNS)
        row |= {
            "trainings": name,
            "tables": len({(table.functions, table.distance) for table in tables}),
            "networks": len(scores),
            "over 95 %": f"{sum(score > SUCCESS for score in scores)} of {len(scores)}",
        }
        rows.append(row | _regrouping_columns(pairs))
        chances.append(_chance([pair.gain for pair in pairs]))
    for row, p in zip(rows, holm(chances) if chances else (), strict=True):
        row["p (Holm)"] = float(p)
    return rows


def _both_variants(
    series: Mapping[str, list[TableNetworks]],
) -> dict[str, dict[str, list[TableNetworks]]]:
    """Tables by variant, for trainings on both variants."""
    alike: dict[tuple[str, str], dict[str, list[TableNetworks]]] = {}
    for name, own in series.items():
        label, variant, drawn = name.split(", ", 2)
        alike.setdefault((label, drawn), {})[variant] = own
    return {
        f"{label}, {' and '.join(by_variant)}, {drawn}": by_variant
        for (label, drawn), by_variant in alike.items()
        if len(by_variant) > 1
    }


def _chance(gains: Sequence[float]) -> float:
    """P-value of the gains over tables, by Student's t-test."""
    estimate = over_task_differences(gains)
    # If all gains are equal, there is no variance to test against.
    return 1.0 if estimate.se == 0 else t_two_sided(estimate.mean / estimate.se, estimate.df)


def _distance_and_ood(own: Sequence[TableNetworks]) -> dict[str, Any]:
    distances, means = [table.distance for table in own], [table.mean for table in own]
    low, high = bootstrap_interval(distances, means)
    shown = f"{rank_correlation(distances, means):.2f} [{low:.2f}, {high:.2f}]"
    return {"distance and ood": shown, "p": order_chance(distances, means)}


def _short(estimate: Estimate) -> str:
    return f"{estimate.mean:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


VERDICTS = (
    " A verdict below is about one table and new seeds on it; it counts networks that learned, as"
    " Table 1 does."
)


def _each_table(series: Mapping[str, list[TableNetworks]]) -> Finding:
    rows, by_distance = [], {}
    judgements: list[Judgement] = []
    for name, own in series.items():
        if len(own) >= FEWEST_TABLES or _regrouped(own):
            by_distance[name] = own
        for table in own:
            rows.append(_table_row(name, table))
            judgements += _judgements(name, table)
    return Finding(
        "CTL++: each function table",
        "ood: mean ± standard deviation over all networks of a table. Learned: networks with an"
        f" iid accuracy over {CONVERGED:g}.{VERDICTS if judgements else ''}",
        table_of(rows),
        (_distance_figure(by_distance),) if by_distance else (),
        tuple(judgements),
    )


def _table_row(name: str, table: TableNetworks) -> dict[str, Any]:
    return {
        "trainings": name,
        "table": table.name,
        "distance": table.distance,
        "draws": len({network.data_seed for network in table.networks}),
        "networks": len(table.networks),
        "learned": sum(network.iid > CONVERGED for network in table.networks),
        "ood": mean_and_sd(table.ood),
        "lowest": min(table.ood),
        "over 95 %": sum(score > SUCCESS for score in table.ood),
    }


def _published(group: Trainings, split: str) -> PublishedNumber | None:
    """Return the paper's number for these trainings, or None if there is none or an essential
    condition differs.
    """
    numbers = published("ctlpp", model=group.model, variant=group.variant, split=split)
    if group.draw != "published" or not numbers or not comparable(numbers[0], group.conditions):
        return None
    return numbers[0]


def _judgements(name: str, table: TableNetworks) -> Iterator[Judgement]:
    learned = [network.ood for network in table.networks if network.iid > CONVERGED]
    mean, success = _published(table.group, "ood"), _published(table.group, "success")
    claim = f"{name}, {table.name}"
    if mean is not None and learned:
        conditions = differences(mean, table.group.conditions)
        yield judge_mean(learned, mean, claim=f"{claim}: ood", conditions=conditions)
    if success is not None and learned:
        hits = sum(score > SUCCESS for score in learned)
        conditions = differences(success, table.group.conditions)
        yield judge_share(
            hits, len(learned), success, claim=f"{claim}: share over 95 %", conditions=conditions
        )


def _columns_figure(series: Mapping[str, list[TableNetworks]]) -> StudyFigure:
    rows: list[dict[str, Any]] = []
    for name, own in series.items():
        for table in own:
            rows += _network_rows(name, table)
    caption = (
        "Accuracy on unseen compositions by function table: a dot for each network, a short line"
        " for the mean of a table. Open dots are networks that did not learn the training"
        f" compositions (iid at most {CONVERGED:g}). The grey band is the paper's mean ± standard"
        " deviation over 25 networks of one table; the dotted line is chance. The unit is the"
        " table; no interval over tables is drawn."
    )
    return StudyFigure("tables", caption, table_of(rows), draw_columns)


def _network_rows(name: str, table: TableNetworks) -> Iterator[dict[str, Any]]:
    number = _published(table.group, "ood")
    for network in table.networks:
        yield {
            "trainings": name,
            "table": table.name,
            "distance": table.distance,
            "data seed": network.data_seed,
            "seed": network.seed,
            "iid": network.iid,
            "ood": network.ood,
            "published": number.value if number else None,
            "sd": number.sd if number else None,
            "chance": table.group.chance,
        }


def _distance_figure(series: Mapping[str, list[TableNetworks]]) -> StudyFigure:
    regrouped = any(_regrouped(own) for own in series.values())
    columns = ("trainings", "table", "distance", "mean", "networks", "learned", "joined", "chance")
    rows = [
        {
            "trainings": name,
            "table": table.name,
            "distance": table.distance,
            "mean": table.mean,
            "networks": len(table.networks),
            "learned": len(table.learned),
            "joined": table.name if regrouped else "",
            "chance": table.group.chance,
        }
        for name, own in series.items()
        for table in own
    ]
    joined = " A line joins two groupings of the same functions." if regrouped else ""
    caption = (
        "Mean accuracy on unseen compositions by how differently the two groups of functions act"
        " on average (total variation distance): a dot for each function table, the unit of"
        f" analysis.{joined} Open dots are tables that no network learned. The dotted line is"
        " chance."
    )
    stem = "regrouping" if regrouped else "distance"
    return StudyFigure(stem, caption, ResultTable(columns, rows), draw_by_distance)


def _codes(runs: Runs, series: Mapping[str, list[TableNetworks]], states: str) -> Finding:
    """Compare regroupings of the same functions by how differently the networks code the groups."""
    stored = stored_trainings(path_of(states))
    gaps: dict[TableNetworks, list[tuple[float, float]]] = {}
    for table in (table for own in series.values() for table in own):
        name = _states_name(table.group)
        own = [network for network in table.networks if network.seed in stored.get(name, [])]
        if own:
            learned = [network.seed for network in own if network.iid > CONVERGED]
            models = [trained_model(runs, table.group, s, states, name) for s in learned]
            gaps[table] = [mean_gaps(model) for model in models]
    compared = {name: [own] for name, own in series.items()}
    compared |= {name: list(own.values()) for name, own in _both_variants(series).items()}
    rows = [
        _codes_row(name, own, gaps)
        for name, own in compared.items()
        if all(table in gaps for one in own for table in one)
    ]
    if not rows:
        raise StudyError(f"{states} has no states of these trainings on regrouped functions")
    return Finding(
        "CTL++: codes of groups by function table",
        f"Gap of groups: mean cosine, at the read-out, of vectors of one symbol within a group of"
        " functions less that between the groups, averaged over symbols. Unit and regroupings as"
        " above; the difference is that of the largest distance less the smallest, with p by t over"
        " tables (A and R: one test, not corrected). Other inputs: the difference if only vectors"
        " from different input symbols are compared, so that what a vector keeps of its input"
        " cannot count as a code of its group. Within tables: Spearman's correlation of distance"
        " and gap over the groupings of the same functions, averaged over tables. States are stored"
        f" of {len(gaps)} of {sum(map(len, series.values()))} trainings.",
        ResultTable(CODES_COLUMNS, rows),
    )


CODES_COLUMNS = (
    "trainings",
    "regrouped",
    "gap at the smallest distance",
    "gap at the largest",
    "difference",
    "positive",
    "other inputs",
    "within tables",
    "p",
)


def _codes_row(
    name: str,
    variants: Sequence[list[TableNetworks]],
    gaps: Mapping[TableNetworks, list[tuple[float, float]]],
) -> dict[str, Any]:
    def of_all(table: TableNetworks) -> list[float]:
        return [one for one, _ in gaps[table]]

    def of_different(table: TableNetworks) -> list[float]:
        return [one for _, one in gaps[table]]

    pairs = list(_over_variants([_regrouped(own, of_all) for own in variants]).values())
    others = _over_variants([_regrouped(own, of_different) for own in variants]).values()
    rising = [-pair.gain for pair in pairs]
    return {
        "trainings": name,
        "regrouped": len(pairs),
        "gap at the smallest distance": statistics.fmean(pair.near for pair in pairs),
        "gap at the largest": statistics.fmean(pair.far for pair in pairs),
        "difference": str(over_task_differences(rising)),
        "positive": f"{sum(one > 0 for one in rising)} of {len(rising)}",
        "other inputs": str(over_task_differences([-pair.gain for pair in others])),
        "within tables": _within_tables(variants, of_all),
        "p": _chance(rising) if len(variants) > 1 else None,
    }


def _within_tables(variants: Sequence[list[TableNetworks]], scores: Scores) -> float | None:
    """Mean correlation between distance and score over groupings of the same functions."""
    found = []
    for alike in (alike for own in variants for alike in _by_functions(own).values()):
        learned = [table for table in alike if scores(table)]
        if len(learned) > 2:
            means = [statistics.fmean(scores(table)) for table in learned]
            found.append(rank_correlation([table.distance for table in learned], means))
    return statistics.fmean(found) if found else None


def _states_name(group: Trainings) -> str:
    """Name of a training in a file of states, which is the name of its exported data."""
    table = "reference" if _given_in_full(group) else f"table{group.table_seed}"
    distance = str(group.conditions.get("recipe.group_distance") or "given")
    parts = [group.model, group.variant, f"processes{group.processes}", table]
    return "-".join([*parts, distance] if distance != "given" else parts)


SPREAD = 0.5
"""Maximum width of the dots of one table, as a share of the distance between tables."""


def draw_columns(data: ResultTable) -> Any:
    """Draw a column of dots for each function table."""
    with figures.style():
        if not data:
            return figures.without_data()
        panels = figures.by_panel(data, "trainings")
        figure, axes = figures.canvas(len(panels), (3.4, 2.8), sharey=True)
        for axis, (title, rows) in zip(axes, panels.items(), strict=False):
            names = list(dict.fromkeys(row["table"] for row in rows))
            for place, name in enumerate(names):
                own = [row for row in rows if row["table"] == name]
                _column(axis, place, own)
            first = rows[0]
            if first["published"] is not None:
                low, high = first["published"] - first["sd"], first["published"] + first["sd"]
                axis.axhspan(low, high, color="#dddddd", zorder=0)
                axis.axhline(first["published"], color="#999999", linewidth=0.8, zorder=1)
            axis.axhline(first["chance"], color="#444444", linewidth=1.0, linestyle=":")
            labels = [name.replace(" ", "\n") for name in names]
            axis.set(
                title=figures.wrapped(title), xlim=(-0.6, len(names) - 0.4), ylim=(-0.03, 1.03)
            )
            axis.set_xticks(range(len(names)), labels)
        for axis in figures.first_of_rows(axes):
            axis.set_ylabel("ood accuracy")
        return figure


def _column(axis: Any, place: int, rows: Sequence[Mapping[str, Any]]) -> None:
    count = len(rows)
    for number, row in enumerate(rows):
        aside = SPREAD * ((number + 0.5) / count - 0.5)
        fill = figures.SHADES[1] if row["iid"] > CONVERGED else "none"
        axis.plot(
            [place + aside],
            [row["ood"]],
            "o",
            markersize=4,
            color=figures.SHADES[1],
            markerfacecolor=fill,
        )
    mean = statistics.fmean(row["ood"] for row in rows)
    axis.plot([place - 0.35, place + 0.35], [mean, mean], color=figures.SHADES[0], linewidth=1.6)


def _points(
    axis: Any, rows: Sequence[Mapping[str, Any]], style: str, fill: str | None = None
) -> None:
    if not rows:
        return
    across = [row["distance"] for row in rows]
    up = [row["mean"] for row in rows]
    colour = figures.SHADES[1]
    axis.plot(
        across,
        up,
        style,
        markersize=4,
        linewidth=0.9,
        color=colour,
        markerfacecolor=fill or colour,
    )


def draw_by_distance(data: ResultTable) -> Any:
    """Draw a dot for each function table by the distance between its groups. Lines join groupings
    of the same functions.
    """
    with figures.style():
        if not data:
            return figures.without_data()
        panels = figures.by_panel(data, "trainings")
        figure, axes = figures.canvas(len(panels), (3.4, 2.8), sharey=True)
        for axis, (title, rows) in zip(axes, panels.items(), strict=False):
            lines: dict[str, list[Mapping[str, Any]]] = {}
            for row in rows:
                lines.setdefault(row["joined"] or row["table"], []).append(row)
            for own in lines.values():
                ordered = sorted(own, key=lambda row: row["distance"])
                _points(axis, [row for row in ordered if row["learned"]], "o-")
                _points(axis, [row for row in ordered if not row["learned"]], "o", fill="none")
            axis.axhline(rows[0]["chance"], color="#444444", linewidth=1.0, linestyle=":")
            axis.set(
                title=figures.wrapped(title),
                xlabel="distance of the two groups",
                ylim=(-0.03, 1.03),
            )
        for axis in figures.first_of_rows(axes):
            axis.set_ylabel("ood accuracy")
        return figure
