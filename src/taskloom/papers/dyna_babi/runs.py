"""Runs on stories for studies: their training sets, and their answers to each question with the
question's traits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskloom.analysis.paper_table import repeated_runs
from taskloom.analysis.published_numbers import (
    MODEL_NAMES,
    Conditions,
    PublishedNumber,
    conditions_of,
    model_name,
    published,
    random_twin,
)
from taskloom.analysis.study import StudyError
from taskloom.experiments.statistics import (
    Comparison,
    Estimate,
    between_kinds,
    between_kinds_by_stratum,
    independent_seeds,
    mcnemar,
    over_seed_differences,
    paired_bootstrap,
    paired_two_way,
    two_way,
    wilson,
)
from taskloom.experiments.table import Runs

TRAITS = ("question", "support", "composition", "group")
"""Traits that these studies use and that files of scores therefore keep."""

LABELS = {
    "entnet": "EntNet",
    "stm": "STM",
    "bidaf": "BiDAF",
    "rasor": "RaSoR",
    "document-reader": "DocumentReader",
    "qanet": "QANet",
    "mnemonic-reader": "Mnemonic Reader",
    "fusionnet": "FusionNet",
}
"""Names of learners as in the paper. Pretrained models keep their own names."""

GUESSING = "majority"
"""Learner whose score is the chance level. It is not a model, so its accuracy cannot fall."""

PAPER_MODELS = {
    "entnet": "entnet",
    "stm": "stm",
    "bidaf": "bidaf",
    "extractive": "roberta",
    "fine-tune": "t5",
}
"""The paper's model for each learner. Other pretrained models are compared with the paper's model
of the same type.
"""

RECIPE = re.compile(r"(?:.*/)?(?P<data>concat|inject|diverse)-(?P<part>T2|T7|T12)(?:-trimmed)?")
"""Names of the paper's training recipes. The paper's T5 was trained on the trimmed ones."""

MIX, TEST = "mix", "test"

Kept = Callable[[Mapping[str, Any]], bool]
"""Predicate that selects questions, given their traits with `answer` and `prediction`."""


@dataclass(frozen=True)
class StoryTrainings:
    """Runs of one learner on one training set.

    Attributes:
        model: Name of the model.
        paper_model: The paper's model of the same type. Empty if the paper has none.
        data: concat, inject or diverse.
        part: T2, T7 or T12.
        conditions: All settings of recipe and learner.
        by_seed: The digest of each seed's run.
        runs: Store of the runs.
    """

    model: str
    paper_model: str
    data: str
    part: str
    conditions: Conditions
    by_seed: Mapping[int, str]
    runs: Runs
    _read: dict[str, StoryAnswers] = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:
        """Model and training set."""
        return f"{self.model}, {self.data}({self.part})"

    @property
    def passes(self) -> float | None:
        """Passes over the training data: steps times batch size, divided by the number of training
        examples. None if any of these is unknown.
        """
        steps = self.conditions.get("learner.steps")
        batch = self.conditions.get("learner.batch")
        rows = self.conditions.get("recipe.splits.train.n")
        if not steps or not batch or not rows:
            return None
        return float(steps * batch / rows)

    def passes_at(self, step: int) -> float:
        """Number of passes after `step` steps, to one decimal. If the number of passes is unknown,
        the number of steps.
        """
        if not self.passes:
            return float(step)
        rows = int(self.conditions["recipe.splits.train.n"])
        # A pass leaves out the rows that do not fill a batch
        per_pass = max(1, rows // int(self.conditions["learner.batch"]))
        return round(step / per_pass, 1)

    @property
    def seeds(self) -> list[int]:
        """The seeds, sorted."""
        return sorted(self.by_seed)

    def split(self, ending: str) -> str:
        """Name of the split with this ending, with or without its recipe (`mix`,
        `babi/mix-T7:mix`). Empty if there is none.
        """
        splits = self.runs[self.by_seed[self.seeds[0]]].splits
        names = [name for name in splits if name == ending or name.endswith(f":{ending}")]
        return names[0] if names else ""

    def scores(self, ending: str) -> list[float]:
        """Score of each seed on a split. Empty if the split was not answered."""
        return list(self.scores_by_seed(ending).values())

    def scores_by_seed(self, ending: str) -> dict[int, float]:
        """Score on a split for each seed that answered it."""
        split = self.split(ending)
        scores = {seed: self.runs[self.by_seed[seed]].score(split) for seed in self.seeds}
        return {seed: score for seed, score in scores.items() if score is not None}

    def answers(self, ending: str) -> StoryAnswers:
        """Answers on a split. They are cached."""
        split = self.split(ending)
        if split not in self._read:
            self._read[split] = self._answers(split, ending)
        return self._read[split]

    def _answers(self, split: str, ending: str) -> StoryAnswers:
        columns = ["index", "targets", "prediction", "score", "traits"]
        tables = [self.runs.predictions(split, columns, runs=[self.by_seed[s]]) for s in self.seeds]
        if not split or not all(table.num_rows for table in tables):
            raise StudyError(
                f"{self.runs.path} has no answers of {self.name} to single questions of"
                f" '{split or ending}'; rerun it with keep: {{predictions: true}}, or store the"
                " traits in the file of scores"
            )
        items = [
            {
                **dict(row["traits"] or ()),
                "answer": (row["targets"] or [""])[0],
                "index": row["index"],
            }
            for row in tables[0].to_pylist()
        ]
        predictions = [table["prediction"].to_pylist() for table in tables]
        scores = np.array([table["score"].to_numpy() for table in tables])
        return StoryAnswers(items, scores, predictions)


@dataclass(frozen=True)
class StoryAnswers:
    """Answers to the questions of a split.

    Attributes:
        items: The traits of each question, with `answer` and `index`.
        scores: [seeds, questions].
        predictions: Predictions for each seed.
    """

    items: Sequence[Mapping[str, Any]]
    scores: NDArray[np.float64]
    predictions: Sequence[Sequence[str | None]]

    def places(self, kept: Kept) -> list[int]:
        """Indices of the questions to include."""
        return [place for place, item in enumerate(self.items) if kept(item)]

    def of(self, kept: Kept) -> NDArray[np.float64]:
        """Scores [seeds, questions] of the questions to include."""
        return self.scores[:, self.places(kept)]


def everything(item: Mapping[str, Any]) -> bool:
    """Predicate that includes every question."""
    return True


def estimate(scores: NDArray[np.float64]) -> Estimate | None:
    """Mean of scores [seeds, questions] with an interval over both. None if there are no scores."""
    return two_way(scores) if scores.size else None


def spread(estimated: Estimate | None) -> str:
    """A mean with its interval as text."""
    if estimated is None:
        return "–"
    return f"{estimated.mean:.3f} [{estimated.low:.3f}, {estimated.high:.3f}]"


def point(estimated: Estimate) -> dict[str, Any]:
    """Columns of a figure's row."""
    columns = {"mean": estimated.mean, "low": estimated.low, "high": estimated.high}
    return {**columns, "n": estimated.items, "seeds": estimated.seeds}


def story_trainings(
    runs: Runs, data: Sequence[str] = ("concat", "inject", "diverse")
) -> list[StoryTrainings]:
    """Return the trainings on the paper's training sets, by part, training set and model. Raises an
    error if there are none.

    If one learner was trained on the same training set with different settings, the trainings are
    labelled with their number of steps. The chance baseline is left out of parts without other
    trainings.
    """
    groups = []
    for names in repeated_runs(runs):
        groups += [group for group in _group(runs, names) if group.data in data]
    if not groups:
        raise StudyError(
            f"{runs.path} has no runs on babi/{data[0]}-T7 or similar; this study needs some, e.g."
            " of 'taskloom reproduce dyna-babi/table3'"
        )
    trained = {group.part for group in groups if group.model != GUESSING}
    groups = [group for group in groups if not trained or group.part in trained]
    order = [*LABELS.values(), *MODEL_NAMES.values()]
    groups.sort(
        key=lambda g: (
            int(g.part[1:]),
            g.data,
            order.index(g.model) if g.model in order else len(order),
            g.model,
        )
    )
    return list(_told_apart(groups))


def _group(runs: Runs, names: list[str]) -> Iterator[StoryTrainings]:
    first = runs[names[0]]
    match = RECIPE.fullmatch(first.recipe)
    if match is None or "learner.start_from" in first.fields:
        return
    conditions = conditions_of(runs, names[0])
    learner = first.learner.rpartition("/")[2]
    label = _label(learner, conditions)
    by_seed = {runs[run].seed: run for run in names}
    paper_model = "" if random_twin(conditions) else PAPER_MODELS.get(learner, "")
    yield StoryTrainings(
        label, paper_model, match["data"], match["part"], conditions, by_seed, runs
    )


def _label(learner: str, conditions: Conditions) -> str:
    """Name of a learner in tables. A reader without its features counts as a separate model."""
    name = LABELS.get(learner) or model_name(conditions) or learner
    return f"{name} (no features)" if conditions.get("learner.features") is False else name


SQUAD = "squad"
"""Name of the data in runs on SQuAD's files, and of the folder with these files in
TASKLOOM_DATA.
"""


def squad_scores(runs: Runs) -> dict[str, list[float]]:
    """Exact match on SQuAD's dev split for each seed, by model, for runs that include it."""
    scores: dict[str, list[float]] = {}
    for names in repeated_runs(runs):
        if runs[names[0]].recipe != SQUAD:
            continue
        learner = runs[names[0]].learner.rpartition("/")[2]
        label = _label(learner, conditions_of(runs, names[0]))
        for run in names:
            score = runs[run].score("dev")
            if score is not None:
                scores.setdefault(label, []).append(score)
    return scores


def _told_apart(groups: Sequence[StoryTrainings]) -> Iterator[StoryTrainings]:
    for group in groups:
        alike = [g for g in groups if g.name == group.name]
        steps = group.conditions.get("learner.steps")
        if len(alike) > 1 and steps:
            yield replace(group, model=f"{group.model} ({steps:,} steps)")
        else:
            yield group


def contrast(a: StoryTrainings, b: StoryTrainings) -> Comparison | None:
    """Compare two trainings on the same questions of mix. Returns None unless they answered exactly
    the same questions.
    """
    try:
        first, second = a.answers(MIX), b.answers(MIX)
    except StudyError:
        return None  # their file of scores has no answers to individual questions
    if list(first.items) != list(second.items):
        return None
    return compare_trainings(first.scores, second.scores)


def compare_trainings(a: NDArray[np.float64], b: NDArray[np.float64]) -> Comparison:
    """Compare the scores [seeds, questions] of two trainings on the same questions, using all
    seeds.

    The interval is over seeds and questions if both have several seeds, which are unpaired. If one
    has a single seed, it is over questions only.
    """
    if min(len(a), len(b)) > 1:
        return independent_seeds(a, b)
    return mcnemar(a[0], b[0]) if len(a) == len(b) else paired_bootstrap(a, b)


def compare_scores(a: NDArray[np.float64], b: NDArray[np.float64]) -> Comparison:
    """Compare two arrays of scores [seeds, questions] with the same seeds and paired questions.

    With several seeds, the interval is over seeds and questions. For a single seed it is over
    questions only, by McNemar's test.
    """
    return paired_two_way(a, b) if len(a) > 1 else mcnemar(a[0], b[0])


Gap = tuple[float, float, float]
"""A difference and the ends of its 95 % interval."""


def kinds_gap(one: NDArray[np.float64], other: NDArray[np.float64]) -> Gap:
    """Difference in accuracy between two types of questions for the same seeds, from scores [seeds,
    questions].

    With several seeds, the interval is over seeds and questions. For a single seed it is
    Newcombe's, over questions only.
    """
    if len(one) > 1:
        several = min(one.shape[1], other.shape[1]) > 1
        found = (
            between_kinds(one, other)
            if several
            else over_seed_differences(one.mean(axis=1) - other.mean(axis=1))
        )
        if not math.isnan(
            found.low
            # otherwise all questions of a type have one score, and the interval has no width
        ):
            return found.mean, found.low, found.high
    (a, a_low, a_high), (b, b_low, b_high) = (_share(kind) for kind in (one, other))
    return (
        a - b,
        a - b - float(np.hypot(a - a_low, b_high - b)),
        a - b + float(np.hypot(a_high - a, b - b_low)),
    )


def strata_gap(strata: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> Gap:
    """Average `kinds_gap` over strata that have questions of both types, weighted by their number
    of questions.

    For a single seed, the half-widths of the strata are added in quadrature.
    """
    sizes = [one.shape[1] + other.shape[1] for one, other in strata]
    if len(strata[0][0]) > 1 and all(
        min(one.shape[1], other.shape[1]) > 1 for one, other in strata
    ):
        found = between_kinds_by_stratum(strata)
        if not math.isnan(found.low):
            return found.mean, found.low, found.high
    weights = [size / sum(sizes) for size in sizes]
    gaps = [kinds_gap(one, other) for one, other in strata]
    mean = sum(w * gap for w, (gap, _, _) in zip(weights, gaps, strict=True))
    below = math.hypot(*(w * (gap - low) for w, (gap, low, _) in zip(weights, gaps, strict=True)))
    above = math.hypot(*(w * (high - gap) for w, (gap, _, high) in zip(weights, gaps, strict=True)))
    return mean, mean - below, mean + above


def _share(scores: NDArray[np.float64]) -> Gap:
    """Mean score with Wilson's interval over questions."""
    mean, n = float(scores.mean()), scores.shape[1]
    return (mean, *wilson(mean * n, n))


def gap_text(gap: Gap) -> str:
    """A difference with its interval as text. Numbers that round to zero have no minus sign.

    >>> gap_text((0.012, -0.0003, 0.024))
    '+0.012 [+0.000, +0.024]'
    """
    mean, low, high = (f"{round(number, 3) + 0.0:+.3f}" for number in gap)
    return f"{mean} [{low}, {high}]"


STORIES = (
    "Every question of mix has a story of its own; in concat about five questions share one, so"
    " that its intervals over questions are somewhat too narrow."
)
"""Assumption behind intervals over questions, stated in notes and captions."""


SOLVED = 0.95
"""Accuracy on the test of concat above which a seed counts as having solved it."""

SeedCurve = Mapping[int, float]
"""Score by step."""


def curves_of(group: StoryTrainings, ending: str) -> dict[int, SeedCurve]:
    """Learning curves on a split, by seed. Empty if the runs kept no curves."""
    seeds = {run: seed for seed, run in group.by_seed.items()}
    split = group.split(ending)
    curves: dict[int, dict[int, float]] = {}
    for point in group.runs.curves().to_pylist():
        measured = point["run"] in seeds and point["split"] == split
        if measured and point["score"] is not None:
            curves.setdefault(seeds[point["run"]], {})[point["step"]] = point["score"]
    return dict(sorted(curves.items()))


def growth_after_solving(group: StoryTrainings) -> dict[int, tuple[int, float, float]]:
    """For each seed that solves the test of concat before the last point of its curve, return the
    step at which it first does, its accuracy on mix at that step, and its accuracy on mix at the
    last step.
    """
    tests, mixes = curves_of(group, TEST), curves_of(group, MIX)
    grown = {}
    for seed, test in tests.items():
        mix = mixes.get(seed, {})
        solved = [step for step in sorted(test) if test[step] > SOLVED and step in mix]
        if solved and solved[0] < max(mix):
            grown[seed] = solved[0], mix[solved[0]], mix[max(mix)]
    return grown


def passes_text(group: StoryTrainings) -> str:
    """Passes over the training data as shown in tables. Empty if unknown."""
    return "" if group.passes is None else f"{group.passes:.1f}"


def equal_passes(groups: Sequence[StoryTrainings]) -> bool:
    """True if all trainings made the same number of passes over their data, to the precision shown
    in tables.
    """
    return len({passes_text(group) for group in groups}) == 1 and groups[0].passes is not None


def passes_note(groups: Sequence[StoryTrainings]) -> list[str]:
    """Note on the number of passes of each training over its data. Empty if no numbers are
    known.
    """
    known = [f"{group.name} {passes_text(group)}" for group in groups if group.passes is not None]
    if not known:
        return []
    return [
        f"Passes over the training data: {'; '.join(known)}. The paper's T5 has 12, its EntNet and"
        " STM 200."
    ]


def support_size(item: Mapping[str, Any]) -> int:
    """Number of supporting facts of a question. 0 if unknown."""
    return int(item.get("support") or 0)


def has_gift(item: Mapping[str, Any]) -> bool:
    """True if GIVE is in the support of a question."""
    return "GIVE" in str(item.get("composition", "")).split("+")


PAPER_NAMES = {"bidaf": "BiDAF", "roberta": "RoBERTa", "t5": "T5"}
"""The paper's names of the models in its Table 9."""


def preprint_notes(place: str) -> Iterator[str]:
    """Yield a note on a table's numbers if the preprint has different ones."""
    for model, name in PAPER_NAMES.items():
        theirs = published("dyna-babi", f"preprint {place}", model=model)
        if theirs:
            yield f"The preprint's {place} has for {name}: {listed_shares(theirs)}."


def listed_shares(numbers: Sequence[PublishedNumber]) -> str:
    """List published accuracies, each with its subject."""
    return ", ".join(f"{_asked(number.of)} {100 * number.value:g} %" for number in numbers)


def _asked(of: Mapping[str, Any]) -> str:
    """Subject of a published number, without its model."""
    if "part" in of:
        return f"mix({of['part']})"
    facts = "1 fact" if of["support"] == 1 else f"{of['support']} facts"
    return facts if of["give"] == "all" else f"{facts}, {of['give']} GIVE"
