"""Figures 2 and 6 of TaskBench500: how fast models memorise tasks, by family, with permuted labels
and without pre-training.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taskloom.analysis import figures
from taskloom.analysis.finding import Finding, PaperClaim, claim_findings, difference_claim
from taskloom.analysis.paper_table import PaperTable, TableCell
from taskloom.analysis.study import StudyError, study
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.table import Runs
from taskloom.papers.taskbench500.experiments import (
    memorisation_experiments,
    permutation_experiments,
)
from taskloom.papers.taskbench500.runs import MEMORISED, Adaptation, adaptations, model_notes

PASSING = "train"
"""Curve of the training batches, used if the model was not evaluated on the memorised examples at
each point.
"""

FAMILIES = ("lexical", "factual", "random")
"""Families in the order in which the paper's models memorise them."""

PERMUTED_RANDOM = "A: not pre-trained, permuted"
PERMUTED = "B: pre-trained, permuted"
OWN = "C: pre-trained, own labels"
SETTINGS = (PERMUTED_RANDOM, PERMUTED, OWN)
"""Panels of Figure 6."""

Curve = dict[int, float]
"""Score by step."""


@dataclass(frozen=True, slots=True)
class LearntTask:
    """A memorised task, with its curve as the mean over seeds."""

    one: Adaptation
    curve: Curve

    @property
    def setting(self) -> str:
        """Panel of Figure 6. Empty for a randomly initialised twin with true labels, which the
        paper does not have.
        """
        if self.one.permuted:
            return PERMUTED if self.one.pretrained else PERMUTED_RANDOM
        return OWN if self.one.pretrained else ""

    def mean(self, steps: Iterable[int]) -> float:
        """Mean score over the given steps: the area under the curve, used to compare rates."""
        return statistics.fmean(self.curve[step] for step in steps)


def learnt_tasks(runs: Runs) -> list[LearntTask]:
    """Return the atomic tasks that were memorised and have curves. Raises an error if there are
    none.
    """
    curves: dict[str, dict[str, Curve]] = {}
    for point in runs.curves().to_pylist():
        if point["score"] is not None:
            curves.setdefault(point["run"], {}).setdefault(point["split"], {})[point["step"]] = (
                point["score"]
            )
    tasks = []
    for one in adaptations(runs):
        if one.composition == "atomic" and MEMORISED in one.scores and not one.balanced:
            own = [
                c.get(MEMORISED) or c.get(PASSING)
                for run in one.runs.values()
                if (c := curves.get(run))
            ]
            known = [curve for curve in own if curve]
            if known:
                tasks.append(LearntTask(one, _mean_curve(known)))
    if not tasks:
        raise StudyError(
            f"{runs.path} has no learning curves of atomic tasks on the split '{MEMORISED}'; this"
            " study needs some, e.g. of 'taskloom reproduce taskbench500/figure2'"
        )
    return tasks


def _mean_curve(curves: Sequence[Curve]) -> Curve:
    steps = sorted(set.intersection(*(set(curve) for curve in curves)))
    return {step: statistics.fmean(curve[step] for curve in curves) for step in steps}


@study(
    "taskbench500/figure2",
    describe=(
        "Memorisation of lexical, factual and random tasks by training step, fine-tuning and prompt"
        " tuning"
    ),
    place="TaskBench500, Figure 2",
    experiment=memorisation_experiments,
)
def figure2(runs: Runs) -> list[Finding]:
    """Average the memorisation curves of each family for each method."""
    tasks = [task for task in learnt_tasks(runs) if task.setting == OWN]
    if not tasks:
        raise StudyError(
            f"{runs.path} has no pre-trained model that memorised a task with its own labels"
        )
    groups = grouped(tasks, lambda task: task.one.method)
    title = "TaskBench500 Figure 2"
    text = (
        "The share of the training examples that a model gives the learnt answer to, while it is"
        " trained on them."
    )
    return [
        _finding(title, text, "figure2", "method", groups, tasks),
        *claim_findings(title, _family_claims(groups)),
    ]


@study(
    "taskbench500/figure6",
    describe=(
        "Memorisation of own and permuted labels by a pre-trained model, and of permuted ones by"
        " its random twin"
    ),
    place="TaskBench500, Figure 6",
    experiment=permutation_experiments,
)
def figure6(runs: Runs) -> list[Finding]:
    """Average the memorisation curves of each family with original and permuted labels, with and
    without pre-training.
    """
    tasks = [task for task in learnt_tasks(runs) if task.setting]
    several = len({task.one.method for task in tasks}) > 1

    def panel(task: LearntTask) -> str:
        return f"{task.one.method}, {task.setting}" if several else task.setting

    groups = grouped(sorted(tasks, key=lambda t: (t.one.method, SETTINGS.index(t.setting))), panel)
    title = "TaskBench500 Figure 6"
    text = (
        "As Figure 2. B above A: pre-training helps to learn what is new; C above B: it also holds"
        " what is already known."
    )
    return [
        _finding(title, text, "figure6", "setting", groups, tasks),
        *claim_findings(title, _setting_claims(tasks)),
    ]


def grouped(tasks: Iterable[LearntTask], panel: Any) -> dict[tuple[str, str], list[LearntTask]]:
    """Group tasks by panel and family, with families in the paper's order."""
    groups: dict[tuple[str, str], list[LearntTask]] = {}
    for task in tasks:
        groups.setdefault((panel(task), task.one.family), []).append(task)
    panels = list(dict.fromkeys(place for place, _ in groups))
    order = {family: number for number, family in enumerate(FAMILIES)}
    return {
        place: groups[place]
        for place in sorted(
            groups, key=lambda g: (panels.index(g[0]), order.get(g[1], len(order)), g[1])
        )
    }


def shared_steps(tasks: Sequence[LearntTask]) -> list[int]:
    """Steps at which all tasks were evaluated."""
    return sorted(set.intersection(*(set(task.curve) for task in tasks)))


CURVES = PaperTable(unit="tasks", draw=figures.lines)
"""Both figures show means over tasks by training step."""


def _finding(
    title: str,
    text: str,
    name: str,
    panel: str,
    groups: Mapping[tuple[str, str], list[LearntTask]],
    tasks: Sequence[LearntTask],
) -> Finding:
    cells = [
        TableCell({panel: place, "family": family, "step": step}, [t.curve[step] for t in own], {})
        for (place, family), own in groups.items()
        for step in shared_steps(own)
    ]
    counts = {
        family: max(len(own) for (_, f), own in groups.items() if f == family)
        for _, family in groups
    }
    n = ", ".join(f"{count} {family}" for family, count in counts.items())
    examples = sorted(
        {task.one.conditions.get("recipe.memorise") for task in tasks} - {None, 0}, key=str
    )
    shown = f" of {', '.join(map(str, examples))} training examples each" if examples else ""
    labels = "" if name == "figure2" else " of own and of permuted labels"
    caption = (
        f"Memorisation{labels} by training step: means over tasks ({n}){shown}, with 95 % intervals"
        " (t over tasks)."
    )
    rows = []
    for (place, family), own in groups.items():
        steps = shared_steps(own)
        if not steps:
            continue
        over_steps = statistics.fmean(task.mean(steps) for task in own)
        at_the_end = statistics.fmean(task.curve[steps[-1]] for task in own)
        rows.append(
            {
                panel: place,
                "family": family,
                "tasks": len(own),
                "steps": steps[-1],
                "mean over steps": f"{over_steps:.3f}",
                "at the end": f"{at_the_end:.3f}",
            }
        )
    passing = (
        "Where a run has no curve of the learnt examples themselves, that of training batches in"
        " passing is taken: a hit has every token of the learnt answer likeliest, given those"
        " before."
    )
    return CURVES.finding(
        cells,
        table=ResultTable(
            (panel, "family", "tasks", "steps", "mean over steps", "at the end"), rows
        ),
        title=title,
        text=text,
        name=name,
        caption=caption,
        columns=(panel, "family", "step", "mean", "low", "high", "tasks"),
        axes={
            "x": "step",
            "series": "family",
            "panel": panel,
            "xlabel": "training steps",
            "ylabel": "memorised examples",
        },
        notes=(*model_notes(task.one for task in tasks), passing),
    )


def _family_claims(groups: Mapping[tuple[str, str], list[LearntTask]]) -> Iterator[PaperClaim]:
    panels = list(dict.fromkeys(place for place, _ in groups))
    for place in panels:
        for easier, harder in (
            ("lexical", "factual"),
            ("factual", "random"),
            ("lexical", "random"),
        ):
            more, less = groups.get((place, easier), []), groups.get((place, harder), [])
            if more and less:
                steps = shared_steps([*more, *less])
                text = f"{place}: {easier} tasks are memorised faster than {harder} ones"
                measure = f"difference of means over steps, {len(more)} and {len(less)} tasks"
                yield difference_claim(
                    text,
                    "section 5",
                    measure,
                    [t.mean(steps) for t in more],
                    [t.mean(steps) for t in less],
                )
    by_method: dict[str, list[LearntTask]] = {place: [] for place in panels}
    for (place, _), own in groups.items():
        if place in by_method:
            by_method[place] += own
    if {"fine-tuning", "prompt tuning"} <= set(by_method):
        text = "fine-tuning memorises more than prompt tuning"
        yield _paired(
            text, "section 5", by_method["fine-tuning"], by_method["prompt tuning"], at_end=True
        )


def _setting_claims(tasks: Sequence[LearntTask]) -> Iterator[PaperClaim]:
    for method in dict.fromkeys(task.one.method for task in tasks):
        own = {s: [t for t in tasks if t.one.method == method and t.setting == s] for s in SETTINGS}
        pairs = (
            (PERMUTED, PERMUTED_RANDOM, "pre-training helps to memorise permuted labels (B > A)"),
            (OWN, PERMUTED, "own labels are memorised faster than permuted ones (C > B)"),
        )
        for more, less, text in pairs:
            if own[more] and own[less]:
                yield _paired(f"{method}: {text}", "appendix E", own[more], own[less])
        if method == "fine-tuning":  # the paper does not claim this for prompt tuning
            yield from _reversal_claims(own[PERMUTED])


def _reversal_claims(permuted: Sequence[LearntTask]) -> Iterator[PaperClaim]:
    """Yield the claim that permuted labels reverse the order of the families, with random labels
    easier than false ones.
    """
    random = [task for task in permuted if task.one.family == "random"]
    for family in FAMILIES[:2]:
        others = [task for task in permuted if task.one.family == family]
        if random and others:
            steps = shared_steps([*random, *others])
            text = (
                f"fine-tuning: random relations are memorised faster than permuted {family} tasks"
            )
            measure = f"difference of means over steps, {len(random)} and {len(others)} tasks"
            more, less = ([task.mean(steps) for task in some] for some in (random, others))
            yield difference_claim(text, "appendix E", measure, more, less)


def _paired(
    text: str,
    place: str,
    some: Sequence[LearntTask],
    others: Sequence[LearntTask],
    at_end: bool = False,
) -> PaperClaim:
    """Build the claim that tasks are memorised better in one way than in the other, compared task
    by task.
    """
    known = {task.one.task: task for task in others}
    both = [(task, known[task.one.task]) for task in some if task.one.task in known]
    steps = shared_steps([task for pair in both for task in pair]) if both else []
    if not steps:
        return difference_claim(text, place, "no tasks in common", [], [])
    chosen = steps[-1:] if at_end else steps
    measure = f"difference {'at the end' if at_end else 'of means over steps'}, {len(both)} tasks"
    more, less = ([pair[side].mean(chosen) for pair in both] for side in (0, 1))
    return difference_claim(text, place, measure, more, less, paired=True)
