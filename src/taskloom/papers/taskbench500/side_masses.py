"""Figure 4 of TaskBench500: how a model trained on a balanced union distributes its probability
over the easier and the harder side.

A balanced union has the same number of training examples from each of two relations. On inputs that
both relations cover, the probabilities of all acceptable answers of each side are summed; an answer
acceptable for both counts on both sides. The easier side is the relation to which the same
procedure adapts better on its own. Runs either keep the log-probabilities of the acceptable answers
(`keep: {logprobs: targets}`) or have the masses as numbers `mass SIDE`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from taskloom.analysis.finding import RULE, Finding, PaperClaim, claim_findings, difference_claim
from taskloom.analysis.paper_table import PaperTable, TableCell, mean_and_se, wide_table
from taskloom.analysis.published_numbers import published
from taskloom.analysis.study import StudyError, study
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.table import Runs
from taskloom.papers.taskbench500.adaptability_table import method_difference
from taskloom.papers.taskbench500.experiments import balance_experiments
from taskloom.papers.taskbench500.runs import (
    Adaptation,
    adaptations,
    generalising,
    model_notes,
    procedures,
)

MASS = "mass "
"""Prefix of the extra metrics of a run that hold the mass on one side: `mass SIDE`."""

EASIER, HARDER = "easier side", "harder side"
UNORDERED = ("first side", "second side")
"""Names of the two sides if no pair has an easier side."""


@dataclass(frozen=True, slots=True)
class TaskPair:
    """A balanced union with the mean mass on each side.

    Attributes:
        one: The adaptation to the union.
        easier: The relation to which the same procedure adapts better.
        harder: The other relation.
        gap: Difference between the scores of the two relations.
        easier_mass: Mean total probability of the easier side's answers.
        harder_mass: Mean total probability of the harder side's answers.
    """

    one: Adaptation
    easier: str
    harder: str
    gap: float
    easier_mass: float
    harder_mass: float


def kept_masses(runs: Runs, highest: bool = False) -> dict[str, dict[str, float]]:
    """Mean mass on each side for each run, from the log-probabilities that runs kept.

    Args:
        runs: The runs.
        highest: True to use the most probable answer of a side, as in appendix D, instead of all
            its answers.
    """
    sums: dict[str, dict[str, list[float]]] = {}
    for row in runs.predictions(columns=["traits", "logprobs"]).to_pylist():
        side = dict(row["traits"] or ()).get("side")
        if side and row["logprobs"] is not None:
            masses = [math.exp(value) for value in row["logprobs"]]
            mass = max(masses, default=0.0) if highest else sum(masses)
            sums.setdefault(row["run"], {}).setdefault(side, []).append(mass)
    return {
        run: {side: statistics.fmean(own) for side, own in sides.items()}
        for run, sides in sums.items()
    }


def task_pairs(runs: Runs, highest: bool = False) -> tuple[list[TaskPair], list[str]]:
    """Return balanced unions with their masses, and notes on those that are left out. Raises an
    error if there are none. See `kept_masses`.
    """
    atomic = {(a.procedure, a.task): a.adaptability for a in _atomic(runs)}
    kept = kept_masses(runs, highest)
    pairs, without = [], []
    for one in adaptations(runs):
        if not one.balanced or not one.pretrained:
            continue
        masses = _masses(one, kept)
        known = {side: atomic.get((one.procedure, side)) for side in masses}
        scores = {side: score for side, score in known.items() if score is not None}
        if len(scores) < 2:
            without.append(f"{one.task} ({one.procedure})")
            continue
        harder, easier = sorted(scores, key=lambda side: scores[side])
        gap = scores[easier] - scores[harder]
        pairs.append(TaskPair(one, easier, harder, gap, masses[easier], masses[harder]))
    equal = [pair for pair in pairs if pair.gap == 0]
    notes = []
    if without:
        notes.append(
            f"Left out, since a side has no mass or no run by itself: {', '.join(sorted(without))}."
        )
    chosen = [pair for pair in pairs if pair.gap > 0] or equal
    if equal:
        names = ", ".join(sorted({pair.one.task for pair in equal}))
        reason = "Left out, since neither side is easier"
        if chosen is equal:
            reason = "In no pair is one side easier"
        notes.append(f"{reason}: {names}.")
    if not chosen:
        raise StudyError(
            f"{runs.path} has no balanced union with masses on both sides and runs on each side by"
            " itself; run with balanced: true and keep: {logprobs: targets}, e.g. by 'taskloom"
            " reproduce taskbench500/figure4'"
        )
    return chosen, notes


def _atomic(runs: Runs) -> list[Adaptation]:
    try:
        return [one for one in generalising(runs) if one.composition == "atomic"]
    except StudyError:
        # `task_pairs` raises an error that names what is missing for this study.
        return []


def _masses(one: Adaptation, kept: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Mean mass on each side over seeds."""
    by_seed = [kept[run] for run in one.runs.values() if run in kept]
    if by_seed:
        return {
            side: statistics.fmean(masses[side] for masses in by_seed if side in masses)
            for side in by_seed[0]
        }
    further = one.further.get(one.split, {})
    return {
        label.removeprefix(MASS): value
        for label, value in further.items()
        if label.startswith(MASS)
    }


FIGURE4 = PaperTable(
    unit="pairs",
    name="figure4",
    title="TaskBench500 Figure 4",
    text=(
        "Training has as many examples of one side as of the other; a model that matched its"
        " training data would give both the same mass."
    ),
    columns=("procedure", "side", "mean", "low", "high", "pairs"),
    axes={"place": "procedure", "series": "side", "xlabel": "probability mass"},
)

ONE_PAIR = PaperTable(paper="taskbench500", place="section 7")


@study(
    "taskbench500/figure4",
    describe="Probability mass on the easier and the harder side of balanced unions",
    place="TaskBench500, Figure 4",
    experiment=balance_experiments,
)
def figure4(runs: Runs, *, mass: Literal["all", "highest"] = "all") -> list[Finding]:
    """Average the mass on the easier and on the harder side over all pairs of tasks, for each
    procedure.

    Args:
        runs: The runs.
        mass: `all`: of all acceptable answers of a side; `highest`: of the most probable one
            (appendix D), which needs kept log-probabilities.
    """
    pairs, notes = task_pairs(runs, mass == "highest")
    answers = "the most probable answer" if mass == "highest" else "all acceptable answers"
    names = procedures(pair.one for pair in pairs)
    groups = {name: [pair for pair in pairs if pair.one.procedure == name] for name in names}
    sides = (EASIER, HARDER) if any(pair.gap > 0 for pair in pairs) else UNORDERED
    cells = [cell for name in names for cell in _cells(name, groups[name], sides)]
    more = f"more on the {sides[0]}"
    wide = wide_table(cells, ("procedure", "pairs", more), "side", lambda c: mean_and_se(c.by_unit))
    counts = ", ".join(f"{name} {len(own)}" for name, own in groups.items())
    highest = max(point["high"] or point["mean"] for point in FIGURE4.points(cells)) or 1.0
    measured = FIGURE4.finding(
        cells,
        table=ResultTable(("procedure", "pairs", *sides, more), list(wide)),
        caption=(
            f"Mean probability mass on {answers} of the {sides[0]} and of the"
            f" {sides[1]} of balanced unions, over pairs of tasks ({counts}), with 95 % intervals"
            " (t over pairs); inputs that both sides know and training does not have."
        ),
        axes={**FIGURE4.axes, "limits": (0.0, min(1.0, 1.1 * highest))},
        notes=(*model_notes(pair.one for pair in pairs), *notes),
    )
    main = replace(measured, judgements=tuple(ONE_PAIR.judgements(_published_pair(pairs))))
    rule = (
        f"{RULE} Pairs share tasks: the interval is that over tasks, by the jackknife, where this"
        " is wider than t over pairs."
    )
    if sides[0] != EASIER:
        return [main]
    return [main, *claim_findings("TaskBench500 Figure 4", _claims(groups), rule)]


def _cells(name: str, pairs: Sequence[TaskPair], sides: tuple[str, str]) -> Iterator[TableCell]:
    more = sum(pair.easier_mass > pair.harder_mass for pair in pairs)
    row = {"pairs": len(pairs), f"more on the {sides[0]}": f"{more} of {len(pairs)}"}
    masses = ([p.easier_mass for p in pairs], [p.harder_mass for p in pairs])
    for side, own in zip(sides, masses, strict=True):
        yield FIGURE4.cell({"procedure": name, "side": side}, own, {}, of={}, further=row)


def _published_pair(pairs: Sequence[TaskPair]) -> Iterator[TableCell]:
    """Yield the only pair for which the paper gives numbers, from a single training."""
    for words in (number.of for number in published("taskbench500", "section 7")):
        for pair in pairs:
            masses = {pair.easier: pair.easier_mass, pair.harder: pair.harder_mass}
            if pair.one.task == words["pair"] and words["side"] in masses:
                yield ONE_PAIR.cell(
                    words,
                    [masses[words["side"]]],
                    pair.one.conditions,
                    claim=f"{pair.one.procedure}, {pair.one.task}: mass on {words['side']}",
                    extra=method_difference(pair.one),
                )


def _claims(groups: Mapping[str, Sequence[TaskPair]]) -> Iterator[PaperClaim]:
    for name, pairs in groups.items():
        measure = f"easier − harder, mean over {len(pairs)} pairs"
        more, less = [p.easier_mass for p in pairs], [p.harder_mass for p in pairs]
        text, parts = f"{name}: more mass on the easier side", [p.one.parts for p in pairs]
        yield difference_claim(text, "section 7", measure, more, less, paired=True, parts=parts)
