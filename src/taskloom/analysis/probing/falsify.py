"""`taskloom falsify`: the smallest items that a model gets wrong.

Property-based testing for language models. Items are drawn and asked until enough are answered
wrong. Each wrong item is then shrunk: as long as one of its *simpler* variants is answered wrong
too, that variant takes its place. What remains is minimal: with anything less, the model is right.
Flips and keeps of a minimal item that the model gets right show what the failure depends on, and
fresh items show which trait does (`failures.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from taskloom.analysis.probing import failures_page
from taskloom.analysis.probing.asking import (
    AskedModel,
    Model,
    Questions,
    ShowCount,
    asked_split,
    count_display,
    drawn,
    open_model,
)
from taskloom.analysis.probing.failures import (
    FORMAT,
    SCHEMA,
    Asked,
    Failure,
    FailureGroup,
    Falsification,
    common_trait,
    grouped,
)
from taskloom.core import shards
from taskloom.core.errors import DataError, ParameterError, whole
from taskloom.core.example import Example
from taskloom.core.files import atomic, path_of, read_utf8
from taskloom.core.plan import Plan, Variant
from taskloom.core.seeding import Key
from taskloom.data import Dataset, dataset, load
from taskloom.recipe import Recipe
from taskloom.recipe import read as read_recipe
from taskloom.recipe.overrides import Changes

RESULT, PAGE, FAILURES = "falsify.json", "falsify.html", "failures"
"""Files and folder of a result: the result itself, its page, and the failures as a dataset."""

BATCH = 25
"""Items that are drawn and asked at once, and variants of one item: enough to keep an endpoint
busy, few enough to stop early for a model with many failures.
"""

LOOKS = 3
"""Number of answers to a simpler variant, all right, after which a model that samples counts as
right. A variant that is answered wrong in nine of ten cases is missed once in a thousand.
"""


@dataclass(frozen=True, slots=True)
class Replay:
    """Result of asking known failures again.

    Attributes:
        model: Name of the model that was asked.
        found_in: Name of the model that the failures were found in.
        examples: The minimal failures.
        wrong: True for each one that this model gets wrong too.
        answers: Its answers.
    """

    model: str
    found_in: str
    examples: tuple[Example, ...]
    wrong: tuple[bool, ...]
    answers: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values."""
        rows = [
            {"input": e.input, "targets": e.targets, "answer": a, "wrong": w}
            for e, w, a in zip(self.examples, self.wrong, self.answers, strict=True)
        ]
        return {"model": self.model, "found_in": self.found_in, "failures": rows}


def falsify(
    model: Model,
    recipe: Any,
    *,
    changes: Changes = None,
    split: str = "",
    seed: int | None = None,
    items: int = 500,
    failures: int = 10,
    questions: int = 500,
    endpoint: str = "",
    sampling: bool | None = None,
    out: str | Path | None = None,
    progress: bool | None = None,
) -> Falsification:
    """Find the smallest items that a model gets wrong.

    Args:
        model: A function from an input to an answer, `FILE.py::NAME`, the settings of a learner,
            the folder of a saved learner, a language model's folder or hub id; with `endpoint`, a
            model's name there.
        recipe: In any form that `make` takes.
        changes: Changes to its fields.
        split: The split to draw from; `test` or the first test split by default.
        seed: Seed of the items; the recipe's own by default.
        items: Maximum number of items to draw.
        failures: Number of wrong items after which no more are drawn.
        questions: Maximum number of questions to shrink one failure, and of fresh items that show
            what failures have in common.
        endpoint: Address of an OpenAI-compatible endpoint, up to and including `/v1`.
        sampling: True if the model may answer the same question differently; see `open_model`.
        out: Folder for the page, the result and the failures as a dataset. Answers are kept there
            too, so that an interrupted search is resumed.
        progress: True to show progress; None: in notebooks only.
    """
    for name, value in (("items", items), ("failures", failures), ("questions", questions)):
        whole(value, name, 1)
    checked = read_recipe(recipe, changes)
    plan = checked.plan(seed)
    asked = open_model(model, plan, endpoint=endpoint, sampling=sampling)
    folder = path_of(out) if out is not None else None
    chosen = asked_split(plan, split)
    stream = drawn(checked, plan, chosen, seed)
    search = Search(plan, Questions(asked, plan.scorer, folder), stream)
    with count_display(progress, "items") as show:
        search.draw(items, failures, show)
        found = search.shrink_all(failures, questions, show)
        groups = tuple(search.name_groups(found, questions, show))
    result = Falsification(
        asked.name,
        checked.name,
        chosen.name,
        search.items,
        len(search.wrong),
        search.questions.asked,
        tuple(found),
        groups,
        plan.variants is not None,
    )
    if folder is not None:
        write_result(folder, result, checked, plan, seed)
    return result


@dataclass
class Search:
    """The search for failures of one model in one plan.

    Attributes:
        plan: Makes items and their variants.
        questions: The model's answers.
        stream: Draws items.
        items: Number of items drawn.
        wrong: Items that the model certainly gets wrong.
        fresh: Batches of items that were not chosen by their answers.
    """

    plan: Plan
    questions: Questions
    stream: Iterator[Example]
    items: int = 0
    wrong: list[Example] = field(default_factory=list)
    fresh: list[list[Asked]] = field(default_factory=list)

    def draw(self, items: int, enough: int, show: ShowCount) -> None:
        """Draw and ask items until enough of them are wrong."""
        while self.items < items and len(self.wrong) < enough:
            batch = list(islice(self.stream, min(BATCH, items - self.items)))
            if not batch:  # the split has no further items
                return
            wrong = self.questions.wrong(batch)
            self.items += len(batch)
            self.wrong += [e for e, is_wrong in zip(batch, wrong, strict=True) if is_wrong]
            show(f"{len(self.wrong)} wrong answers", self.items, items)

    def shrink_all(self, count: int, most: int, show: ShowCount) -> list[Failure]:
        """Shrink the first wrong items. Items that shrink to the same one count once."""
        failures: dict[str, Failure] = {}
        for number, example in enumerate(self.wrong[:count]):
            show(f"shrinking, {self.questions.asked:,} questions", number, count)
            failure = self.shrink(example, most)
            failures.setdefault(failure.minimal.input, failure)
        return list(failures.values())

    def shrink(self, example: Example, most: int) -> Failure:
        """Shrink a wrong item until every simpler variant is answered right.

        Args:
            example: The item.
            most: Maximum number of questions. Variants that were asked before are free.
        """
        end = self.questions.asked + most
        minimal, edits = example, []
        while (step := self._simpler_failure(minimal, end)) is not None:
            minimal = step.example
            edits.append(step.edit)
        proved = self.plan.variants is not None and self.questions.asked < end
        neighbours = self._neighbours(minimal) if proved else ()
        answer = self.questions.first_answer(minimal)
        return Failure(example, minimal, answer, tuple(edits), proved, neighbours)

    def _simpler_failure(self, example: Example, end: int) -> Variant | None:
        """The first simpler variant that is certainly answered wrong.

        If there is none, simpler variants of the simpler variants are tried: some things can only
        be taken away together, such as a sentence and the pronoun that refers to it.
        """
        simpler = self._simpler(example)
        found = self._first_failure(simpler, end)
        if found is not None:
            return found
        smaller: dict[str, Variant] = {}
        for first in simpler:
            for second in self._simpler(first.example):
                both = replace(second, edit=f"{first.edit}, {second.edit}")
                smaller.setdefault(second.example.input, both)
        return self._first_failure(list(smaller.values()), end)

    def _first_failure(self, simpler: Sequence[Variant], end: int) -> Variant | None:
        """The first of some variants that is certainly answered wrong."""
        looks = LOOKS if self.questions.model.sampling else 1
        for repetition in range(looks):
            for start in range(0, len(simpler), BATCH):
                if self.questions.asked >= end:
                    return None
                batch = simpler[start : start + BATCH]
                right = self.questions.right([v.example for v in batch], repetition)
                for variant, is_right in zip(batch, right, strict=True):
                    # Variants are checked one after the other, since the repetitions of the first
                    # one usually decide.
                    if not is_right and self.questions.certainly_wrong([variant.example])[0]:
                        return variant
        return None

    def _variants(self, example: Example) -> Iterable[Variant]:
        return self.plan.variants(example) if self.plan.variants is not None else ()

    def _simpler(self, example: Example) -> list[Variant]:
        # The others are neither made nor asked unless they are needed.
        return list(takewhile(lambda variant: variant.kind == "simpler", self._variants(example)))

    def _neighbours(self, example: Example) -> tuple[Variant, ...]:
        """The variants of a minimal item that are answered right."""
        variants = list(self._variants(example))
        wrong = self.questions.wrong([v.example for v in variants])
        return tuple(v for v, is_wrong in zip(variants, wrong, strict=True) if not is_wrong)

    def name_groups(
        self, failures: Sequence[Failure], most: int, show: ShowCount
    ) -> Iterator[FailureGroup]:
        """Group failures, and find the trait of each group.

        Args:
            failures: The minimal failures.
            most: Maximum number of fresh items for all groups together.
            show: Shows the progress.
        """
        groups = list(grouped(failures))
        for number, (edit, members) in enumerate(groups):
            show("what failures have in common", number, len(groups))
            minimal = [failures[i].minimal.traits for i in members]
            trait = common_trait(minimal, self._fresh_items(most), len(groups))
            yield FailureGroup(edit, trait, members)

    def _fresh_items(self, most: int) -> Iterator[list[Asked]]:
        """Yield batches of fresh items, starting with those already asked for another group."""
        yield from self.fresh
        while len(self.fresh) * BATCH < most:
            batch = [self._cut(example) for example in islice(self.stream, BATCH)]
            if not batch:
                return
            right = self.questions.right(batch)
            asked = [(e.traits, not is_right) for e, is_right in zip(batch, right, strict=True)]
            self.fresh.append(asked)
            yield asked

    def _cut(self, example: Example) -> Example:
        """Return an item unchanged or, in half of all cases, cut to a random length by
        simplifications.

        If all drawn stories are long, only shorter ones can show that length is the cause.
        """
        rng = Key("falsify", example.input).random()
        length = 2 * rng.random() * len(example.input)
        while len(example.input) > length:
            simpler = self._simpler(example)
            if not simpler:
                break
            example = rng.choice(simpler).example
        return example


def write_result(
    folder: Path, result: Falsification, recipe: Recipe, plan: Plan, seed: int | None
) -> None:
    """Write the page, the failures as a dataset and, last, the result."""
    failures = folder / FAILURES
    for split in ("minimal", "drawn"):
        rows = [getattr(failure, split) for failure in result.failures]
        table = shards.to_table(rows, 0, plan.traits)
        dataset.write_foreign(failures, {split: table})
    failures_page.write_page(folder / PAGE, result, recipe, seed)
    record = {**result.to_dict(), "made_by": recipe.to_dict(), "seed": seed}
    with atomic(folder / RESULT) as beside:
        text = json.dumps(record, ensure_ascii=False, indent=1)
        beside.write_text(text + "\n", encoding="utf-8")


def replay(
    model: Model,
    folder: str | Path,
    recipe: Any = None,
    *,
    changes: Changes = None,
    endpoint: str = "",
    sampling: bool | None = None,
) -> Replay:
    """Ask a model the minimal failures that `falsify` found for another model.

    Args:
        model: The model, in any form that `falsify` accepts.
        folder: The folder that `falsify` wrote.
        recipe: The recipe, needed only if it is defined in a Python file. All others are named in
            the folder.
        changes: Changes to its fields, if a recipe is given.
        endpoint: Address of an OpenAI-compatible endpoint.
        sampling: True if the model may answer the same question differently.
    """
    record, failures = read_failures(path_of(folder))
    if recipe is not None:
        checked = read_recipe(recipe, changes)
    else:
        checked = Recipe.from_dict(record["made_by"], str(path_of(folder) / RESULT))
    plan = checked.plan(record["seed"])
    asked: AskedModel = open_model(model, plan, endpoint=endpoint, sampling=sampling)
    questions = Questions(asked, plan.scorer)
    examples = tuple(failures["minimal"])
    wrong = questions.wrong(examples)
    answers = tuple(questions.first_answer(example) for example in examples)
    return Replay(asked.name, str(record["model"]), examples, tuple(wrong), answers)


def read_failures(folder: Path) -> tuple[dict[str, Any], Dataset]:
    """Read the result and the failures that `falsify` wrote."""
    path = folder / RESULT
    if not path.is_file():
        raise ParameterError(
            "replay", f"{folder} has no {RESULT}; name a folder that 'taskloom falsify -o' wrote"
        )
    try:
        record = json.loads(read_utf8(path))
        if record["format"] != FORMAT or record["schema"] != SCHEMA:
            raise ValueError("it has another format")
        record["made_by"], record["seed"], record["model"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged ({error}); run 'taskloom falsify' again") from error
    if not record["failures"]:
        raise DataError(f"{path} has no failures to replay")
    return record, load(folder / FAILURES)
