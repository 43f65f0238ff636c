"""Figure 2 and Table 8 of Dyna-bAbI: do two benchmarks rank models alike? Pearson's r and Kendall's tau, with any scores."""

from __future__ import annotations

import csv
import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from taskloom.analysis import figures
from taskloom.analysis.divergence_accuracy import FEWEST, pearson
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.published_numbers import published
from taskloom.analysis.seed_scores import count_of, seed_point
from taskloom.analysis.study import study
from taskloom.analysis.verdict import Judgement, judge_number
from taskloom.core.arguments import path_of
from taskloom.core.errors import DataError
from taskloom.core.files import read_utf8
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics.distributions import normal_quantile
from taskloom.experiments.table import Runs
from taskloom.papers.dyna_babi.small_stories import concurrence_experiments
from taskloom.papers.dyna_babi.story_runs import (
    GUESSING,
    MIX,
    TEST,
    StoryTrainings,
    story_trainings,
)

PAPER_TESTS = {"task 2": "bAbI task 2", "mix-T2": "mix(T2)", "mix-T7": "mix(T7)"}
"""The columns of Table 8 beside SQuAD."""

PRETRAINED = ("bert", "albert", "roberta", "electra", "spanbert")

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Concurrence:
    """How alike two benchmarks rank models.

    Attributes:
        n: Models.
        r: Pearson's correlation; nan for fewer than three models, or where one side does not vary.
        low: The lower end of its 95 % interval (Fisher's z); nan for fewer than four models.
        high: Its upper end.
        tau: Kendall's tau-b; nan for fewer than three models: two always agree or disagree.
    """

    n: int
    r: float
    low: float
    high: float
    tau: float


def concurrence(x: Sequence[float], y: Sequence[float]) -> Concurrence:
    """Return how alike two scores rank models.

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
    """Return Kendall's tau-b, which counts ties; nan where one side does not vary.

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
    """Return a column of the paper's Table 8 by model: `SQuAD`, `mix-T7`."""
    return {str(n.of["model"]): n.value for n in published("dyna-babi", "Table 8", what=what)}


@study(
    "dyna-babi/table8",
    describe="Concurrence of bAbI task 2, mix(T2) and mix(T7) with SQuAD, computed again from the paper's own scores",
    place="Dyna-bAbI, Table 8",
    from_recipes=True,
)
def table8(scale: str) -> Finding:
    """Compute the correlations of Table 8 again from the scores that it has."""
    squad = paper_scores("SQuAD")
    rows: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    judgements: list[Judgement] = []
    for what, label in PAPER_TESTS.items():
        scores = paper_scores(what)
        models = [model for model in squad if model in scores]
        result = concurrence([squad[m] for m in models], [scores[m] for m in models])
        rows.append(_row(label, "SQuAD", result))
        points += [_point(m, label, squad[m], scores[m], m.startswith(PRETRAINED)) for m in models]
        judgements += list(_judged(what, label, result))
    data = ResultTable(("model", "kind", "benchmark", "external", "accuracy"), points)
    caption = (
        "Accuracy of the paper's 20 models on three benchmarks against their exact match on SQuAD (its Table 8; 19 models on "
        "mix(T7)). Every point is a model, trained once."
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
        "Pearson's r and Kendall's tau-b between the paper's scores on three benchmarks and on SQuAD, from the numbers that it "
        "prints. No model was trained for this.",
        ResultTable(("benchmark", "external", "models", "r", "tau"), rows),
        (StudyFigure("table8", caption, data, plot),),
        tuple(judgements),
        (
            "Intervals of r are Fisher's (95 %), over models. Ten of the twenty models are pretrained and better on both: a "
            "correlation over two such groups says little about ranks within them.",
            *_within_groups(squad),
        ),
    )


def _within_groups(squad: Mapping[str, float]) -> Iterator[str]:
    scores = paper_scores("mix-T7")
    for kind, wanted in (("pretrained", True), ("not pretrained", False)):
        models = [m for m in squad if m in scores and m.startswith(PRETRAINED) == wanted]
        result = concurrence([squad[m] for m in models], [scores[m] for m in models])
        yield f"mix(T7), {kind} models alone ({result.n}): r = {_shown(result)}, tau = {result.tau:.2f}."


def _row(benchmark: str, external: str, result: Concurrence) -> dict[str, Any]:
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
    describe="Concurrence: whether models rank on mix as on their own test, or as in any external scores (external=FILE.csv)",
    place="Dyna-bAbI, Figure 2",
    experiment=concurrence_experiments,
)
def figure2(runs: Runs, *, external: str = "") -> Finding:
    """Correlate the accuracy of our models on mix, and on the test of concat, with external scores.

    Args:
        runs: Runs of several models on concat.
        external: A CSV file with the columns model and score; without one, the accuracy on the test of concat stands in its place.
    """
    groups = [group for group in story_trainings(runs, ("concat",)) if group.model != GUESSING]
    outside = read_external(external) if external else {}
    rows: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    for part in dict.fromkeys(group.part for group in groups):
        own = [group for group in groups if group.part == part]
        for benchmark, ending in ((f"concat({part})", TEST), (f"mix({part})", MIX)):
            if not external and ending == TEST:
                continue
            known = list(_known(own, ending, outside, external))
            result = concurrence([p["external"] for p in known], [p["accuracy"] for p in known])
            rows.append(_row(benchmark, external or f"concat({part})", result))
            points += [{**p, "benchmark": benchmark} for p in known]
    data = ResultTable(
        ("model", "benchmark", "external", "accuracy", "low", "high", "seeds"), points
    )
    across = external or "the test of concat"
    caption = (
        f"Mean accuracy of {len({p['model'] for p in points})} models against {across}. Means over "
        f"{count_of((p['seeds'] for p in points), 'seed')}, with 95 % intervals (t over seeds) where there are several."
    )
    plot = partial(
        figures.lines, x="external", y="accuracy", series="model", panel="benchmark", joined=False,
        xlabel=external or f"accuracy on {across}",
    )  # fmt: skip
    few = [row for row in rows if row["models"] < FEWEST]
    return Finding(
        "Dyna-bAbI Figure 2: our models",
        f"Pearson's r and Kendall's tau-b over models between accuracy and {across}.",
        ResultTable(("benchmark", "external", "models", "r", "tau"), rows),
        (StudyFigure("figure2", caption, data, plot),),
        notes=(
            "Intervals of r are Fisher's (95 %), over models; over fewer than three models nothing is computed.",
            *([f"{len(few)} of {len(rows)} rows have too few models."] if few else []),
            "The paper's own scores, with SQuAD, are in the study dyna-babi/table8.",
        ),
    )


def _known(
    groups: Sequence[StoryTrainings], ending: str, outside: Mapping[str, float], external: str
) -> Iterator[dict[str, Any]]:
    for group in groups:
        scores, iid = group.scores(ending), group.scores(TEST)
        other = (
            outside.get(group.model.lower(), outside.get(group.paper_model)) if external else None
        )
        if not external and iid:
            other = statistics.fmean(iid)
        if scores and other is not None:
            measured = seed_point(scores)
            yield {
                "model": group.model,
                "external": other,
                "accuracy": measured["mean"],
                **measured,
            }


def read_external(path: str) -> dict[str, float]:
    """Read external scores of models, by name in small letters.

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
