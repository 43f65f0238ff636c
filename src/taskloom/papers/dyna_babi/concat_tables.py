"""Tables 3 and 8 and Figure 2 of Dyna-bAbI: accuracy of models trained on concat, on concat's test
and on the mixes, and whether two benchmarks rank models in the same order (Pearson's r and
Kendall's tau, for any scores).
"""

from __future__ import annotations

import csv
import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import hypot, isnan, nan
from typing import Any

from taskloom.analysis import figures
from taskloom.analysis.finding import Finding, PaperClaim, StudyFigure, claim_findings
from taskloom.analysis.paper_table import PaperTable, TableCell, count_of, mean_and_sd, seed_point
from taskloom.analysis.published_numbers import published, random_twin
from taskloom.analysis.study import study
from taskloom.analysis.verdict import Judgement, judge_number
from taskloom.core.errors import DataError
from taskloom.core.files import path_of, read_utf8
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import over_seed_differences, wilson
from taskloom.experiments.statistics.distributions import FEWEST, normal_quantile, pearson
from taskloom.experiments.table import Runs
from taskloom.papers.dyna_babi.experiments import concurrence_experiments, table3_experiments
from taskloom.papers.dyna_babi.runs import (
    GUESSING,
    MIX,
    STORIES,
    TEST,
    TRAITS,
    StoryTrainings,
    contrast,
    gap_text,
    passes_text,
    preprint_notes,
    squad_scores,
    story_trainings,
)

SPLITS = {"iid": TEST, "ood": MIX}
"""The paper's names for the tests: iid has the distribution of training, ood is compositional."""

BEST_OF = "mean over seeds (paper: the best of 10 by dev)"


TABLE3 = PaperTable(
    paper="dyna-babi",
    place="Table 3",
    name="table3",
    title="Dyna-bAbI Table 3",
    caption=(
        "Accuracy of models trained on concat, on its own test (iid) and on mix (ood). Means over"
        " {units} and {items} with 95 % intervals: t over seeds, or over questions for a single"
        " seed. Diamonds are the paper's numbers for the model of the same kind."
    ),
    columns=("name", "split", "mean", "low", "high", "n", "seeds", "published"),
    axes={"place": "name", "series": "split"},
)

NOTES = (
    (
        "The drop is iid - ood with its 95 % interval: t over seeds if there are several, otherwise"
        " over the questions of both tests, which says nothing about other trainings. 'falls' is"
        " yes if the interval is above 0; intervals are not corrected for the number of rows."
    ),
    (
        "Passes are steps times batch by the size of the training set; the paper's T5 has 12, its"
        " EntNet and STM 200."
    ),
    STORIES,
    (
        "The paper's EntNet and STM are the best of ten trainings by their score on dev, its other"
        " models one training."
    ),
)


@study(
    "dyna-babi/table3",
    describe=(
        "Accuracy of models trained on bAbI 1.0 (concat), on tests of its own kind and on the"
        " compositional mixes"
    ),
    place="Dyna-bAbI, Table 3",
    experiment=table3_experiments,
    traits=TRAITS,
)
def table3(runs: Runs) -> list[Finding]:
    """Compute Table 3: iid and ood accuracy of every model on T2, T7 and T12, and the drop between
    them.
    """
    groups = story_trainings(runs, ("concat",))
    rows = [_row(group) for group in groups]
    table = ResultTable(tuple(rows[0]), rows)
    no_settings = any(group.paper_model == "bidaf" for group in groups)
    main = TABLE3.finding(
        [cell for group in groups for cell in _cells(group)],
        table=table,
        text=" ".join(_sentences(rows)),
        notes=(
            *NOTES,
            *([NO_SETTINGS] if no_settings else []),
            *preprint_notes("Table 3"),
        ),
    )
    return [main, *claim_findings("Dyna-bAbI Table 3", _claims(groups), CLAIM_RULE)]


NO_SETTINGS = (
    "The paper does not say how its BiDAF was trained: no condition can be compared. The steps of"
    " ours are in the table."
)

CLAIM_RULE = (
    "Differences are on the same questions of mix, with 95 % intervals over seeds and questions;"
    " with one seed on a side over questions alone, which says nothing about other trainings."
)

FROM_SCRATCH = ("entnet", "stm", "bidaf")


def _claims(groups: Sequence[StoryTrainings]) -> Iterator[PaperClaim]:
    """Yield the paper's claim that pretrained models are better on mix, for every pair of a
    pretrained model and one that is not.
    """
    for a in groups:
        for b in groups:
            from_scratch = a.paper_model in FROM_SCRATCH or random_twin(a.conditions)
            pair = from_scratch and b.paper_model in ("t5", "roberta") and a.part == b.part
            result = contrast(a, b) if pair else None
            if result is not None:
                text, measure = (
                    "pretrained models are better on mix",
                    f"mix({a.part}): {b.model} - {a.model}",
                )
                trainings = min(len(a.seeds), len(b.seeds))
                interval = (result.difference, result.low, result.high)
                yield PaperClaim(
                    text, "Table 3", measure, *interval, trainings=trainings, df=result.df
                )


def _row(group: StoryTrainings) -> dict[str, Any]:
    iid, ood = (group.scores(split) for split in SPLITS.values())
    gap, low, high = drop(iid, ood, sizes(group)) if iid and ood else (nan, nan, nan)
    return {
        "model": group.model,
        "data": group.part,
        "steps": group.conditions.get("learner.steps"),
        "passes": passes_text(group),
        "seeds": len(group.seeds),
        "iid": mean_and_sd(iid),
        "ood": mean_and_sd(ood),
        "drop": "–" if isnan(gap) else gap_text((gap, low, high)),
        "falls": _falls(low, high),
    }


def _falls(low: float, high: float) -> str:
    """Verdict on whether accuracy falls, based on the interval of the drop."""
    if isnan(low):
        return "–"
    if low > 0:
        return "yes"
    return "no" if high <= 0 else "inconclusive"


def sizes(group: StoryTrainings) -> tuple[int, int]:
    """Number of questions in each of the two tests."""
    answered = group.runs[group.by_seed[group.seeds[0]]].splits
    names = (group.split(name) for name in SPLITS.values())
    iid, ood = (answered[name].n if name in answered else 0 for name in names)
    return iid, ood


def drop(
    iid: Sequence[float], ood: Sequence[float], n: tuple[int, int]
) -> tuple[float, float, float]:
    """Drop in accuracy from one test to the other, with its 95 % interval.

    With several seeds, the interval is over seeds and paired. For a single seed, or if all seeds
    fall by the same amount, it is Newcombe's interval over questions.

    Args:
        iid: Score of each seed.
        ood: Scores of the same seeds.
        n: Number of questions in each test.
    """
    if len(iid) > 1 and len(iid) == len(ood):
        estimate = over_seed_differences([a - b for a, b in zip(iid, ood, strict=True)])
        if not isnan(estimate.low):
            return estimate.mean, estimate.low, estimate.high
    a, b = statistics.fmean(iid), statistics.fmean(ood)
    (a_low, a_high), (b_low, b_high) = (
        wilson(share * size, size) for share, size in ((a, n[0]), (b, n[1]))
    )
    return a - b, a - b - hypot(a - a_low, b_high - b), a - b + hypot(a_high - a, b - b_low)


def _sentences(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    known = [row for row in rows if row["falls"] != "–" and row["model"] != GUESSING]
    falls = sum(row["falls"] == "yes" for row in known)
    yield (
        f"Accuracy falls from the test of concat to mix in {falls} of {len(known)} pairs of model"
        " and task set."
    )


def _cells(group: StoryTrainings) -> Iterator[TableCell]:
    for (split, ending), n in zip(SPLITS.items(), sizes(group), strict=True):
        scores, name = group.scores(ending), f"{group.model}, {group.part}"
        words = {"model": group.paper_model, "part": group.part, "split": split}
        if scores:
            yield TABLE3.cell(
                {"name": name, "split": split},
                scores,
                group.conditions,
                of=words if group.paper_model else {},
                claim=f"{name}: {split}",
                extra=[BEST_OF] if group.paper_model in ("entnet", "stm") else [],
                items=n,
            )


PAPER_TESTS = {"task 2": "bAbI task 2", "mix-T2": "mix(T2)", "mix-T7": "mix(T7)"}
"""Columns of Table 8 other than SQuAD."""

PRETRAINED = ("bert", "albert", "roberta", "electra", "spanbert")

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Concurrence:
    """Agreement of two benchmarks in ranking models.

    Attributes:
        n: Number of models.
        r: Pearson's correlation. NaN for fewer than three models, or if the scores of one benchmark
            are all equal.
        low: Lower end of its 95 % interval (Fisher's z). NaN for fewer than four models.
        high: Upper end of the interval.
        tau: Kendall's tau-b. NaN for fewer than three models, because two models can only agree or
            disagree completely.
    """

    n: int
    r: float
    low: float
    high: float
    tau: float

    @property
    def tau_interval(self) -> tuple[float, float]:
        """95 % interval of tau by Fieller's approximation, in which atanh(tau) has variance 0.437 /
        (n - 4). NaN for fewer than five models.
        """
        if self.n < 5 or math.isnan(self.tau):
            return math.nan, math.nan
        z = math.atanh(max(-1 + 1e-12, min(1 - 1e-12, self.tau)))
        half = normal_quantile(0.5 + LEVEL / 2) * math.sqrt(0.437 / (self.n - 4))
        return math.tanh(z - half), math.tanh(z + half)


def concurrence(x: Sequence[float], y: Sequence[float]) -> Concurrence:
    """Measure how far two lists of scores agree in ranking models.

    >>> concurrence([1.0, 2.0, 3.0, 4.0], [2.0, 4.0, 6.0, 8.0]).tau
    1.0
    """
    n, r = len(x), pearson(list(x), list(y))
    low = high = math.nan
    if n > FEWEST and not math.isnan(r):
        z, half = (
            math.atanh(max(-1 + 1e-12, min(1 - 1e-12, r))),
            normal_quantile(0.5 + LEVEL / 2) / math.sqrt(n - 3),
        )
        low, high = math.tanh(z - half), math.tanh(z + half)
    return Concurrence(n, r, low, high, kendall(x, y) if n >= FEWEST else math.nan)


def kendall(x: Sequence[float], y: Sequence[float]) -> float:
    """Kendall's tau-b, which accounts for ties. NaN if all values of `x` or of `y` are equal.

    >>> kendall([1, 2, 3], [1, 3, 2])
    0.3333333333333333
    """
    pairs = list(itertools.combinations(range(len(x)), 2))
    signs = [(_sign(x[i] - x[j]), _sign(y[i] - y[j])) for i, j in pairs]
    agreement = sum(a * b for a, b in signs)
    known = [sum(1 for pair in signs if pair[side]) for side in (0, 1)]
    return agreement / math.sqrt(known[0] * known[1]) if known[0] and known[1] else math.nan


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)


def paper_scores(what: str) -> dict[str, float]:
    """A column of the paper's Table 8 by model: `SQuAD`, `mix-T7`."""
    return {str(n.of["model"]): n.value for n in published("dyna-babi", "Table 8", what=what)}


@study(
    "dyna-babi/table8",
    describe=(
        "Concurrence of bAbI task 2, mix(T2) and mix(T7) with SQuAD, computed again from the"
        " paper's own scores"
    ),
    place="Dyna-bAbI, Table 8",
    from_recipes=True,
)
def table8(scale: str) -> Finding:
    """Recompute the correlations of Table 8 from the scores in that table."""
    squad = paper_scores("SQuAD")
    rows: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    judgements: list[Judgement] = []
    for what, label in PAPER_TESTS.items():
        scores = paper_scores(what)
        models = [model for model in squad if model in scores]
        result = concurrence([squad[m] for m in models], [scores[m] for m in models])
        rows.append(_rank_row(label, "SQuAD", result))
        points += [_point(m, label, squad[m], scores[m], m.startswith(PRETRAINED)) for m in models]
        judgements += list(_judged(what, label, result))
    data = ResultTable(("model", "kind", "benchmark", "external", "accuracy"), points)
    caption = (
        "Accuracy of the paper's 20 models on three benchmarks against their exact match on SQuAD"
        " (its Table 8; 19 models on mix(T7)). Every point is a model, trained once."
    )
    plot = partial(
        figures.lines,
        x="external",
        y="accuracy",
        series="kind",
        panel="benchmark",
        xlabel="exact match on SQuAD",
        joined=False,
        limits=None,
    )
    return Finding(
        "Dyna-bAbI Table 8",
        "Pearson's r and Kendall's tau-b between the paper's scores on three benchmarks and on"
        " SQuAD, from the numbers that it prints. No model was trained for this.",
        ResultTable(("benchmark", "external", "models", "r", "tau"), rows),
        (StudyFigure("table8", caption, data, plot),),
        tuple(judgements),
        (
            (
                "Intervals of r are Fisher's (95 %), over models. Ten of the twenty models are"
                " pretrained and better on both: a correlation over two such groups says little"
                " about ranks within them."
            ),
            *_within_groups(squad),
            RANGES,
        ),
    )


RANGES = (
    "Table 3 has the minimum and maximum over the tasks of bAbI 1.0, without the scores behind"
    " them: r [-0.35, 0.08] and tau [-0.35, -0.19] for T2, [-0.4, 0.08] and [-0.35, 0.03] for T7."
)
"""The paper's numbers for single tasks of bAbI 1.0."""


def _within_groups(squad: Mapping[str, float]) -> Iterator[str]:
    scores = paper_scores("mix-T7")
    for kind, wanted in (("pretrained", True), ("not pretrained", False)):
        models = [m for m in squad if m in scores and m.startswith(PRETRAINED) == wanted]
        result = concurrence([squad[m] for m in models], [scores[m] for m in models])
        yield (
            f"mix(T7), {kind} models alone ({result.n}): r = {_shown(result)}, tau ="
            f" {result.tau:.2f}."
        )


def _rank_row(benchmark: str, external: str, result: Concurrence) -> dict[str, Any]:
    tau = "–" if math.isnan(result.tau) else f"{result.tau:.2f}"
    return {
        "benchmark": benchmark,
        "external": external,
        "models": result.n,
        "r": _shown(result),
        "tau": tau,
    }


def _shown(result: Concurrence) -> str:
    if math.isnan(result.r):
        return "–"
    return f"{result.r:.2f}" + (
        "" if math.isnan(result.low) else f" [{result.low:.2f}, {result.high:.2f}]"
    )


def _point(
    model: str, benchmark: str, external: float, accuracy: float, pretrained: bool
) -> dict[str, Any]:
    kind = "pretrained" if pretrained else "not pretrained"
    return {
        "model": model,
        "kind": kind,
        "benchmark": benchmark,
        "external": external,
        "accuracy": accuracy,
    }


def _judged(what: str, label: str, result: Concurrence) -> Iterator[Judgement]:
    for measure, value in (("r", result.r), ("tau", result.tau)):
        for number in published("dyna-babi", "Table 3 and Figure 2", test=what, what=measure):
            yield judge_number(value, number, claim=f"{label} and SQuAD: {measure}")


@study(
    "dyna-babi/figure2",
    describe=(
        "Concurrence: whether models rank on mix as on SQuAD, on their own test, or as in any"
        " external scores (external=FILE.csv)"
    ),
    place="Dyna-bAbI, Figure 2",
    experiment=concurrence_experiments,
)
def figure2(runs: Runs, *, external: str = "") -> Finding:
    """Correlate our models' accuracy on mix, and on the test of concat, with external scores.

    Args:
        runs: Runs of several models on concat.
        external: A CSV file with the columns model and score. Default: exact match on SQuAD for the
            runs that have it, otherwise accuracy on the test of concat.
    """
    groups = [group for group in story_trainings(runs, ("concat",)) if group.model != GUESSING]
    rows: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    squad = {name: statistics.fmean(scores) for name, scores in squad_scores(runs).items()}
    outside = Outside(external, read_external(external)) if external else None
    if outside is None and squad:
        outside = Outside("SQuAD", {name.lower(): score for name, score in squad.items()})
    for benchmark, compared, known in _benchmarks(groups, outside):
        rows += _group_rows(benchmark, compared, known)
        points += [{**p, "benchmark": benchmark} for p in known]
    across = outside.name if outside else "the test of concat"
    few = [row for row in rows if row["models"] < FEWEST]
    too_few = [f"{len(few)} of {len(rows)} rows have too few models."] if few else []
    return Finding(
        "Dyna-bAbI Figure 2: our models",
        f"Pearson's r and Kendall's tau-b over models between accuracy and {across}.",
        ResultTable(("benchmark", "external", "group", "models", "r", "tau"), rows),
        (_models_figure(points, across, outside.name if outside else f"accuracy on {across}"),),
        notes=(
            (
                "Intervals (95 %, over models) are Fisher's for r and Fieller's for tau; over fewer"
                " than three models nothing is computed. Two groups of models that differ on both"
                " sides correlate overall even if ranks within them do not agree, so each group has"
                " a row of its own."
            ),
            *too_few,
            "The paper's own scores, with SQuAD, are in the study dyna-babi/table8.",
        ),
    )


@dataclass(frozen=True, slots=True)
class Outside:
    """External scores: the name of the benchmark, and each model's score by the model's name in
    lower case.
    """

    name: str
    scores: Mapping[str, float]


def _group_rows(
    benchmark: str, compared: str, known: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield a row for all models, and one for each group with at least one model."""
    groups = {
        "all": known,
        "pretrained": [p for p in known if p["pretrained"]],
        "not pretrained": [p for p in known if not p["pretrained"]],
    }
    for name, some in groups.items():
        if name != "all" and not some:
            continue
        result = concurrence([p["external"] for p in some], [p["accuracy"] for p in some])
        row = _rank_row(benchmark, compared, result)
        low, high = result.tau_interval
        if not math.isnan(low):
            row["tau"] += f" [{low:.2f}, {high:.2f}]"
        yield {**row, "group": name}


def _models_figure(points: list[dict[str, Any]], across: str, xlabel: str) -> StudyFigure:
    columns = ("model", "benchmark", "external", "accuracy", "low", "high", "seeds")
    caption = (
        f"Mean accuracy of {len({p['model'] for p in points})} models against {across}. Means over"
        f" {count_of((p['seeds'] for p in points), 'seed')}, with 95 % intervals (t over seeds)"
        " where there are several."
    )
    plot = partial(
        figures.lines, x="external", y="accuracy", series="model", panel="benchmark", joined=False,
        xlabel=xlabel,
    )  # fmt: skip
    return StudyFigure("figure2", caption, ResultTable(columns, points), plot)


def _benchmarks(
    groups: Sequence[StoryTrainings], outside: Outside | None
) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Yield each benchmark, the one it is compared with, and the models that have both scores."""
    for part in dict.fromkeys(group.part for group in groups):
        own = [group for group in groups if group.part == part]
        if outside:
            yield f"concat({part})", outside.name, list(_known(own, TEST, outside))
        compared = outside.name if outside else f"concat({part})"
        yield f"mix({part})", compared, list(_known(own, MIX, outside))


def _known(
    groups: Sequence[StoryTrainings], ending: str, outside: Outside | None
) -> Iterator[dict[str, Any]]:
    for group in groups:
        scores, iid = group.scores(ending), group.scores(TEST)
        other: float | None = None
        if outside is not None:
            by_kind = outside.scores.get(group.paper_model)
            other = outside.scores.get(group.model.lower(), by_kind)
        elif iid:
            other = statistics.fmean(iid)
        if scores and other is not None:
            measured = seed_point(scores)
            yield {
                "model": group.model,
                "external": other,
                "accuracy": measured["mean"],
                "pretrained": _is_pretrained(group),
                **measured,
            }


def _is_pretrained(group: StoryTrainings) -> bool:
    """True if a model was pretrained on other text."""
    return group.paper_model in ("t5", "roberta") and not random_twin(group.conditions)


def read_external(path: str) -> dict[str, float]:
    """Read external scores, by the model's name in lower case.

    Args:
        path: A CSV file with the columns `model` and `score`.
    """
    rows = list(csv.DictReader(read_utf8(path_of(path)).splitlines()))
    try:
        return {row["model"].strip().lower(): float(row["score"]) for row in rows}
    except (KeyError, ValueError, AttributeError) as error:
        raise DataError(
            f"{path} must have the columns 'model' and 'score', a number ({error})"
        ) from error
