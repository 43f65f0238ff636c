"""Tables 4 and 9 and Figure 7 of Dyna-bAbI: accuracy by the number of supporting facts for models
trained on inject, diverse and concat, and accuracy of models trained on concat that continue with a
few examples of the test's structure (inoculation).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import isnan, nan
from statistics import fmean
from typing import Any

import numpy as np

from taskloom.analysis import figures
from taskloom.analysis.finding import (
    Finding,
    PaperClaim,
    StudyFigure,
    claim_findings,
    claim_table,
)
from taskloom.analysis.paper_table import (
    QUESTIONS,
    PaperTable,
    TableCell,
    count_of,
    mean_and_sd,
    seed_point,
    wide_table,
)
from taskloom.analysis.published_numbers import published, random_twin
from taskloom.analysis.study import StudyError, study
from taskloom.experiments.files import MODEL
from taskloom.experiments.record import Run, SplitScores
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import over_seed_differences
from taskloom.experiments.table import Runs
from taskloom.papers.dyna_babi.experiments import (
    continued,
    dose_blocks,
    dose_learner,
    enriched_experiments,
    gift_experiments,
    inoculation_experiments,
)
from taskloom.papers.dyna_babi.runs import (
    GUESSING,
    MIX,
    PAPER_NAMES,
    SOLVED,
    STORIES,
    TEST,
    TRAITS,
    Kept,
    StoryAnswers,
    StoryTrainings,
    contrast,
    curves_of,
    equal_passes,
    everything,
    gap_text,
    growth_after_solving,
    has_gift,
    kinds_gap,
    listed_shares,
    passes_note,
    passes_text,
    preprint_notes,
    story_trainings,
    support_size,
)

SIZES: dict[str, Kept] = {
    "1": lambda item: support_size(item) == 1,
    "2": lambda item: support_size(item) == 2,
    "3+": lambda item: support_size(item) >= 3,
    "total": everything,
}
"""The columns of Table 4."""

TESTS = {"concat": TEST, "mix": MIX}

CONCAT_GROUP = "qa"
"""Prefix of the groups of concat's stories, qa1 to qa13. The test of diverse has other groups and
is not included in the table.
"""


TABLE4 = PaperTable(
    paper="dyna-babi",
    place="Table 4",
    unit=QUESTIONS,
    name="table4",
    title="Dyna-bAbI Table 4",
    text=(
        "Accuracy with its 95 % interval over seeds and questions, by the number of supporting"
        " facts."
    ),
    caption=(
        "Accuracy by number of supporting facts. {intervals}; diamonds are the paper's numbers"
        " (T5). Training sets differ in passes over the data (see the table)."
    ),
    columns=(
        *("trained", "test", "support", "mean", "low", "high", "n", "seeds", "published"),
        *("panel", "training"),
    ),
    axes={
        "place": "support",
        "series": "training",
        "panel": "panel",
        "ylabel": "supporting facts",
    },
    notes=(STORIES,),
)

UNEQUAL = " Training sets differ in passes over the data (see the table)."
EQUAL_PASSES = (
    "Every training set was read {passes} times here; the paper's T5 reads each 12 times."
)
PASSES = (
    "Every training set gets the same number of steps here, so that a smaller one gets more passes"
    " over its data; the paper's T5 has 12 passes over each. Differences between training sets are"
    " confounded with passes."
)


@study(
    "dyna-babi/table4",
    describe="Accuracy by number of supporting facts after training on concat, inject and diverse",
    place="Dyna-bAbI, Table 4",
    experiment=enriched_experiments,
    traits=TRAITS,
)
def table4(runs: Runs) -> list[Finding]:
    """Compute Table 4 with concat added to inject and diverse, and compare the training sets on the
    same questions of mix.
    """
    groups = _enriched(story_trainings(runs))
    cells = [cell for group in groups for cell in _cells(group)]
    if not any(np.size(cell.scores) for cell in cells):
        raise StudyError(
            f"{runs.path} has no answers on mix, or on the test of concat, with their supports"
        )
    table = wide_table(cells, ("trained", "passes", "test"), "support", TABLE4.with_interval)
    if equal_passes(groups):
        alike = TABLE4.caption.replace(UNEQUAL, "")
        often = EQUAL_PASSES.format(passes=passes_text(groups[0]).removesuffix(".0"))
        main = TABLE4.finding(cells, table=table, notes=[often], caption=alike)
        rule = CLAIM_RULE
    else:
        main = TABLE4.finding(cells, table=table, notes=[PASSES])
        rule = f"{CLAIM_RULE} {CONFOUNDED}"
    claims = claim_findings("Dyna-bAbI Table 4", _claims(groups), rule)
    return [main, *_growth(groups), *claims]


def _growth(groups: Sequence[StoryTrainings]) -> Iterator[Finding]:
    """Yield accuracy by pass, for runs that kept learning curves on mix."""
    points = [point for group in groups for point in _by_pass(group)]
    rows = [_growth_row(group) for group in groups if group.data == "concat"]
    if not points or not rows:
        return
    columns = ("training", "test", "pass", "mean", "low", "high", "seeds")
    caption = (
        "Accuracy after each pass over the training set, on the test of concat and on mix. Means"
        f" over {count_of((point['seeds'] for point in points), 'seed')} with 95 % intervals (t over"
        " seeds of one dataset each)."
    )
    plot = partial(figures.lines, x="pass", series="training", panel="test", xlabel="passes")
    yield Finding(
        "Dyna-bAbI: accuracy on mix after concat is solved",
        f"Solved: seeds whose accuracy on the test of concat exceeds {SOLVED:g} before the last pass,"
        " and the pass after which it first does. The change is that of their accuracy on mix from"
        " that pass to the last, with its 95 % interval (t over seeds; not corrected).",
        ResultTable(
            ("training", "seeds", "solved", "pass", "mix then", "mix last", "change"), rows
        ),
        (StudyFigure("table4-passes", caption, ResultTable(columns, points), plot),),
    )


def _by_pass(group: StoryTrainings) -> Iterator[dict[str, Any]]:
    for test, ending in TESTS.items():
        curves = curves_of(group, ending).values()
        steps = sorted({step for curve in curves for step in curve})
        for step in steps:
            measured = seed_point([curve[step] for curve in curves if step in curve])
            yield {
                "training": f"{group.model}, {group.data}",
                "test": f"tested on {test}({group.part})",
                "pass": group.passes_at(step),
                **measured,
            }


def _growth_row(group: StoryTrainings) -> dict[str, Any]:
    grown = growth_after_solving(group)
    row = {"training": group.name, "seeds": len(group.seeds), "solved": len(grown)}
    if not grown:
        return {**row, "pass": "–", "mix then": "–", "mix last": "–", "change": "–"}
    steps, then, last = zip(*grown.values(), strict=True)
    changes = [b - a for a, b in zip(then, last, strict=True)]
    several = len(changes) > 1
    found = over_seed_differences(changes) if several else None
    interval = (nan, nan) if found is None else (found.low, found.high)
    change = (
        f"{fmean(changes):+.3f}" if isnan(interval[0]) else gap_text((fmean(changes), *interval))
    )
    return {
        **row,
        "pass": ", ".join(f"{group.passes_at(step):g}" for step in steps),
        "mix then": mean_and_sd(then),
        "mix last": mean_and_sd(last),
        "change": change,
    }


def _enriched(groups: Sequence[StoryTrainings]) -> list[StoryTrainings]:
    """Trainings of models and parts that also have inject or diverse. If there are none, all
    trainings.
    """
    learned = [group for group in groups if group.model != GUESSING]
    enriched = {(group.model, group.part) for group in learned if group.data != "concat"}
    return [group for group in learned if (group.model, group.part) in enriched] or list(groups)


CLAIM_RULE = (
    "Differences are on the same questions of mix, with 95 % intervals over seeds and questions;"
    " with one seed on a side over questions alone, which says nothing about other trainings."
)

CONFOUNDED = (
    "The training sets of a difference have equal steps and unequal passes over their data: its"
    " direction can be read, but how much of it is due to the stories cannot."
)


def _cells(group: StoryTrainings) -> Iterator[TableCell]:
    for test, ending in TESTS.items():
        for size, scores in _by_size(group, test, ending).items():
            words = {"data": group.data, "part": group.part, "test": test, "support": size}
            yield TABLE4.cell(
                {"trained": group.name, "test": test, "support": size},
                scores,
                group.conditions,
                of=words if group.paper_model == "t5" and scores.size else {},
                claim=f"{group.name}: on {test}, support {size}",
                further={
                    "passes": passes_text(group),
                    # Each panel has one part, so a training set can have the same mark in all
                    # panels.
                    "training": f"{group.model}, {group.data}",
                    "panel": f"tested on {test}({group.part})",
                },
            )


def _by_size(group: StoryTrainings, test: str, ending: str) -> dict[str, np.ndarray[Any, Any]]:
    if not group.split(ending):
        return {}
    answers = group.answers(ending)
    if test == "concat" and not all(
        str(item.get("group", "")).startswith(CONCAT_GROUP) for item in answers.items
    ):
        return {}
    return {size: answers.of(kept) for size, kept in SIZES.items()}


CLAIMS = {
    ("concat", "inject"): "questions that are added (inject) improve on concat",
    ("inject", "diverse"): "diverse stories improve more than added questions",
    ("concat", "diverse"): "diverse stories improve on concat",
}
"""The paper's claims about the training sets (section 4.2)."""


def _claims(groups: Sequence[StoryTrainings]) -> Iterator[PaperClaim]:
    """Yield the claims about every two training sets of one model, as differences on mix."""
    for a in groups:
        for b in groups:
            text = CLAIMS.get((a.data, b.data))
            if text is None or (a.model, a.part) != (b.model, b.part):
                continue
            result = contrast(a, b)
            if result is None:
                continue
            measure = f"{b.model}, mix({b.part}): {b.data} - {a.data}"
            trainings = min(len(a.seeds), len(b.seeds))
            interval = (result.difference, result.low, result.high)
            yield PaperClaim(text, "Table 4", measure, *interval, trainings=trainings, df=result.df)


def _with_support(size: int, give: str) -> Kept:
    """Predicate for questions with this number of supporting facts, with or without GIVE among
    them.
    """
    return lambda item: support_size(item) == size and has_gift(item) == (give == "with")


GIFTS = {
    (size, give): _with_support(size, give)
    for size, give in ((1, "without"), (2, "without"), (2, "with"), (3, "without"), (3, "with"))
}
"""The rows of Table 9."""


TABLE9 = PaperTable(
    paper="dyna-babi",
    place="Table 9",
    unit=QUESTIONS,
    name="table9-accuracy",
    title="Dyna-bAbI Table 9: accuracies",
    caption=(
        "Accuracy on mix(T7) after training on concat(T7), by number of supporting facts and"
        " whether GIVE is among them. {intervals}; diamonds are the paper's."
    ),
    axes={"place": "support", "series": "model"},
    as_drawn=True,
)


@study(
    "dyna-babi/table9-accuracy",
    describe=(
        "Accuracy on questions of mix(T7) with and without GIVE in the support, after training on"
        " concat"
    ),
    place="Dyna-bAbI, Table 9",
    experiment=gift_experiments,
    traits=TRAITS,
)
def gift_accuracy(runs: Runs) -> list[Finding]:
    """Compute the accuracies of Table 9, by the number of supporting facts and by whether one of
    them is a gift.
    """
    groups = [g for g in story_trainings(runs, ("concat",)) if g.part == "T7" and g.split(MIX)]
    if not groups:
        raise StudyError(f"{runs.path} has no runs on babi/concat-T7 that answered mix(T7)")
    cells = [cell for group in groups for cell in _gift_cells(group)]
    gaps = [gap for group in groups for gap in _gift_gaps(group.model, group.answers(MIX))]
    return [
        TABLE9.finding(
            cells, notes=(*_unpublished(groups), *passes_note(groups), *preprint_notes("Table 9"))
        ),
        Finding(
            "Dyna-bAbI Table 9: differences",
            "Accuracy without GIVE in the support less that with it, with its 95 % interval over"
            " seeds and questions.",
            ResultTable(("model", "facts", "without GIVE", "with GIVE", "difference"), gaps),
        ),
    ]


def _gift_cells(group: StoryTrainings) -> Iterator[TableCell]:
    for (size, give), kept in GIFTS.items():
        scores = group.answers(MIX).of(kept)
        kind = f"{size} fact{'s' if size > 1 else ''}, {give} GIVE"
        words = {"model": group.paper_model, "support": size, "give": give, "what": "accuracy"}
        if scores.size:
            yield TABLE9.cell(
                {"model": group.model, "support": kind},
                scores,
                group.conditions,
                of=words if group.paper_model else {},
                claim=f"{group.model}: {kind}",
            )


def _unpublished(groups: Sequence[StoryTrainings]) -> Iterator[str]:
    """Yield a note on models without published accuracies. If no model has any, the note lists the
    published accuracies.
    """
    numbers = published("dyna-babi", "Table 9", what="accuracy")
    models = list(dict.fromkeys(str(number.of["model"]) for number in numbers))
    others = sorted(
        {g.model for g in groups if g.paper_model not in models and g.model != GUESSING}
    )
    if others:
        yield f"The paper's Table 9 has no accuracies of {', '.join(others)}."
    if not any(group.paper_model in models for group in groups):
        for model in models:
            own = [n for n in numbers if n.of["model"] == model]
            yield f"The paper's accuracies of {PAPER_NAMES[model]}: {listed_shares(own)}."


def _gift_gaps(model: str, answers: StoryAnswers) -> Iterator[dict[str, Any]]:
    for size in (2, 3):
        without, gift = (answers.of(GIFTS[size, give]) for give in ("without", "with"))
        if without.size and gift.size:
            means = {"without GIVE": float(without.mean()), "with GIVE": float(gift.mean())}
            yield {
                "model": model,
                "facts": size,
                **means,
                "difference": gap_text(kinds_gap(without, gift)),
            }


RECIPE = re.compile(r"(?:.*/)?mix-(?P<part>T2|T7|T12)")

KINDS = {"T2": 1, "T7": 3, "T12": 6}
"""Number of question types in the mixes. Doses are counted per type, as in the paper."""

LIMIT, DOSE = 0.9, 500
"""The paper's claim: over 90 % accuracy with 500 examples of each question type (appendix A.3)."""


def doses(runs: Runs, scale: str, model: str) -> list[dict[str, Any]]:
    """Experiments that continue the runs on concat with doses of the mix. Each seed continues its
    own model.
    """
    blocks = []
    for group in story_trainings(runs, ("concat",)):
        for seed, run in group.by_seed.items():
            folder = runs.model(run)
            if folder is None:
                raise StudyError(
                    f"the run {run} of {runs.path} kept no model; run it with keep: {{model: true}}"
                )
            blocks += dose_blocks(
                scale, group.part, continued(dose_learner(scale, model), str(folder)), seed
            )
    return blocks


FIGURE7 = PaperTable(
    name="figure7",
    title="Dyna-bAbI Figure 7",
    caption=(
        "Accuracy on mix over the number of additional training examples of each kind of question,"
        " of models that were trained on concat before. Means over {units} with 95 % intervals: t"
        " over seeds, or over the {items} for a single seed, which says nothing about other"
        " trainings."
    ),
    columns=("trained", "dose", "mean", "low", "high", "n", "seeds"),
    draw=figures.lines,
    axes={"x": "dose", "series": "trained", "xlabel": "examples of each kind of question"},
    as_drawn=True,
    notes=(
        (
            "Dose 0 is the models that were continued, as concat alone had left them. Doses have"
            " stories of the test's structure, and no story of the test (babi/mix-… with a training"
            " split)."
        ),
        (
            "The paper shows its curve without numbers; its text says that accuracy is over 90 %"
            " with 500 of each kind."
        ),
    ),
)


@study(
    "dyna-babi/figure7",
    describe=(
        "Inoculation: accuracy on mix after training on concat and then on a few examples of the"
        " structure of mix"
    ),
    place="Dyna-bAbI, Figure 7",
    experiment=inoculation_experiments,
    follow=doses,
)
def figure7(runs: Runs) -> list[Finding]:
    """Draw the accuracy on mix as a function of the dose, and on the test of concat if runs
    answered it.
    """
    cells = sorted(
        dose_cells(runs), key=lambda c: (_in_order(c.labels["trained"]), c.labels["dose"])
    )
    if not cells:
        raise StudyError(
            f"{runs.path} has no runs that continue from a run on concat (start_from: …/RUN/model)"
            " with babi/mix-T7"
        )
    rows = [row for row in FIGURE7.points(cells) if not row["trained"].endswith(ON_CONCAT)]
    both = len(rows) < len(cells)
    caption = FIGURE7.caption
    if both:
        caption = caption.replace("Accuracy on mix", "Accuracy on mix and on the test of concat")
    return [
        FIGURE7.finding(cells, caption=caption),
        Finding("Dyna-bAbI Figure 7: the claim", DOSE_RULE, claim_table(_dose_claims(rows))),
    ]


ON_CONCAT = ", tested on concat"
"""Suffix of the name of a curve that shows the accuracy on the test of concat instead of on mix."""

DOSE_RULE = (
    "An outcome 'in one training' is about that training. The interval is over its questions, so"
    " that the claim about trainings in general stays inconclusive."
)


def _in_order(name: str) -> list[tuple[int, float, str]]:
    """Sort key that puts T7 before T12.

    >>> sorted(["STM, concat(T12)", "STM, concat(T7)"], key=_in_order)
    ['STM, concat(T7)', 'STM, concat(T12)']
    """
    return [figures.natural_order(part) for part in re.split(r"(\d+)", name)]


def dose_cells(runs: Runs) -> Iterator[TableCell]:
    """Yield the accuracy on mix, and on the test of concat, for each training on concat that was
    continued, before and after each dose.

    A dose of 0 includes only the seeds that were continued.
    """
    groups = {
        run: group for group in story_trainings(runs, ("concat",)) for run in group.by_seed.values()
    }
    scores: dict[tuple[str, float], dict[int, tuple[float, int]]] = {}
    for run in runs:
        match = RECIPE.fullmatch(run.recipe)
        base = None if match is None else _base(groups, run, match["part"])
        if base is None or match is None:
            continue
        each = int(run.fields.get("recipe.splits.train.n", 0)) / KINDS[match["part"]]
        dose = int(each) if each.is_integer() else each
        for ending, curve in ((MIX, base.name), (TEST, base.name + ON_CONCAT)):
            tested = _split(run, ending)
            if tested is None or tested.score is None:
                continue
            before = base.scores_by_seed(ending).get(run.seed)
            if before is not None:
                n = runs[base.by_seed[run.seed]].splits[base.split(ending)].n
                scores.setdefault((curve, 0), {})[run.seed] = before, n
            scores.setdefault((curve, dose), {})[run.seed] = tested.score, tested.n
    for (name, dose), by_seed in scores.items():
        values, sizes = zip(*by_seed.values(), strict=True)
        labels = {"trained": name, "dose": round(dose)}
        yield FIGURE7.cell(labels, values, {}, of={}, items=min(sizes))


def _split(run: Run, ending: str) -> SplitScores | None:
    """Scores of a run on the split with this ending, with or without its recipe."""
    names = [name for name in run.splits if name == ending or name.endswith(f":{ending}")]
    return run.splits[names[0]] if names else None


def _base(groups: Mapping[str, StoryTrainings], run: Run, part: str) -> StoryTrainings | None:
    """Return the training on concat that a run continues.

    A file of scores has other digests than the store that the run refers to. In that case, the
    training is identified by its learner and part, if only one has both.
    """
    digest = base_run(run.fields)
    if not digest or digest in groups:
        return groups.get(digest)
    alike = {
        _key(group): group
        for name, group in groups.items()
        if group.part == part
        and group.runs[name].learner == run.learner
        and random_twin(group.conditions) == random_twin(run.fields)
    }
    return next(iter(alike.values())) if len(alike) == 1 else None


def _key(group: StoryTrainings) -> str:
    return group.name


def base_run(fields: Mapping[str, Any]) -> str:
    """Digest of the run that a run continues, taken from the folder of its model. Empty if it does
    not continue a run.

    >>> base_run({"learner.start_from": "runs/ab/abcdef/model"})
    'abcdef'
    """
    folder = str(fields.get("learner.start_from", "")).replace("\\", "/").rstrip("/").split("/")
    return folder[-2] if len(folder) > 1 and folder[-1] == MODEL else ""


def _dose_claims(rows: Sequence[Mapping[str, Any]]) -> Iterator[PaperClaim]:
    for name in dict.fromkeys(row["trained"] for row in rows if row["dose"]):
        given = [row for row in rows if row["trained"] == name and row["dose"]]
        nearest = max(
            (row for row in given if row["dose"] <= DOSE), key=lambda r: r["dose"], default=given[0]
        )
        text = f"over 90 % on mix with {DOSE} examples of each kind"
        measure = f"{name}, dose {nearest['dose']:g}"
        low, high = nearest["low"], nearest["high"]
        # If a smaller dose is insufficient, or a larger one sufficient, this says nothing about the
        # paper's dose.
        silent = (nearest["dose"] < DOSE and low <= LIMIT) or (
            nearest["dose"] > DOSE and high >= LIMIT
        )
        low, high = (math.nan, math.nan) if silent else (low, high)
        yield PaperClaim(
            text,
            "Figure 7, A.3",
            measure,
            nearest["mean"],
            low,
            high,
            LIMIT,
            trainings=nearest["seeds"],
        )
