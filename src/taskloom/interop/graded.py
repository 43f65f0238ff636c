"""A split of a recipe with its scorer, shared by the adapters of all tools.

Rows are generated on demand from the recipe's plan, or read from a dataset. Any prediction gets a
score from 0 to 1 and a reason. Grading never raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from taskloom.core.descriptions import Describer
from taskloom.core.errors import (
    CapacityError,
    InputError,
    ParameterError,
    RecipeError,
    echo,
    nearest,
)
from taskloom.core.example import Example
from taskloom.core.extraction import (
    ANSWER_FORMAT,
    EXTRACT,
    LONGEST_REPLY,
    Extraction,
    chat_prompt,
    without_thinking,
)
from taskloom.core.plan import Plan, Split
from taskloom.core.scoring import Scorer, answer_or_none
from taskloom.core.shards import to_examples
from taskloom.data.dataset import MANIFEST, Dataset, load
from taskloom.data.workers import table_of
from taskloom.recipe import read
from taskloom.recipe.fields import CurriculumFields
from taskloom.recipe.overrides import Changes, changed_fields, given_changes

LONGEST_ANSWER = 10_000
"""Maximum characters of an extracted answer. Longer ones score 0, because comparing them could take
minutes.
"""

BLOCK = 50
"""Number of rows generated at once when one is requested, because rows are mostly requested in
order.
"""


@dataclass(frozen=True, slots=True)
class Grade:
    """Score of a prediction from 0 to 1, with the extracted answer and the reason."""

    score: float
    answer: str
    reason: str


def grade(reply: object, example: Example, scorer: Scorer, extraction: Extraction) -> Grade:
    """Score a model's reply. One that is not text, has no answer, is too long or makes the scorer
    raise gets 0 and a reason.
    """
    if not isinstance(reply, str):
        return Grade(0.0, "", f"the prediction is not text but {type(reply).__name__}")
    try:
        answer = extraction(reply)
        if len(answer) > LONGEST_ANSWER:
            return Grade(
                0.0, "", f"the answer has {len(answer):,} characters, more than {LONGEST_ANSWER:,}"
            )
        score = float(scorer.score(answer_or_none(answer), example))
        if not 0 <= score <= 1:  # also rejects NaN
            return Grade(
                0.0,
                answer,
                f"the scorer {scorer.name} gave {score}, which is not a score from 0 to 1",
            )
        reason = scorer.explain(answer, example)
    except Exception as error:  # one reply must not end the host tool's run
        return Grade(
            0.0, "", f"the scorer {scorer.name} raised {type(error).__name__}: {str(error)[:200]}"
        )
    if not answer.strip():
        what = "the reply has no answer" if reply.strip() else "the prediction is empty"
        reason = f"{what}; {reason}"
    return Grade(score, answer, reason)


def keeps_form(reply: object) -> bool:
    """True if a reply, without its thinking, ends with the line that prompts ask for.

    >>> keeps_form("She took it there.\\nAnswer: kitchen")
    True
    >>> keeps_form("Answer: kitchen, I think.\\nOr the garden.")
    False
    """
    if not isinstance(reply, str):
        return False
    lines = without_thinking(reply[-LONGEST_REPLY:]).strip().splitlines()
    return bool(lines) and _ASKED_LINE.match(lines[-1]) is not None


_ASKED_LINE = re.compile(r"\W{0,4}answer\W{0,4}:\W{0,9}\w", re.IGNORECASE)


def brevity(reply: object, most: int) -> float:
    """Reward for short replies: 1 up to `most` characters, falling linearly to 0 at twice as many.

    >>> [brevity("x" * n, 100) for n in (80, 100, 150, 300)]
    [1.0, 1.0, 0.5, 0.0]
    """
    if not isinstance(reply, str):
        return 0.0
    return min(1.0, max(0.0, 2 - len(reply) / most))


@dataclass(frozen=True)
class GradedSplit:
    """The examples of a split, and the grades of predictions for them.

    Attributes:
        name: The recipe, or the dataset's folder.
        split: The name of the split.
        seed: Seed of the samples.
        plan: The recipe's plan.
        extraction: How answers are extracted from replies.
        size: Number of examples.
        data: The dataset with the rows; None if the plan generates them.
        curriculum: The curriculum that the recipe declares.
        answer_format: Sentence of a prompt that asks for an answer format.
        describer: Adds descriptions to the inputs of a dataset that was made without them.
    """

    name: str
    split: str
    seed: int
    plan: Plan
    extraction: Extraction
    size: int
    data: Dataset | None = None
    curriculum: CurriculumFields | None = None
    answer_format: str = ANSWER_FORMAT
    describer: Describer | None = None
    _block: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_block", lru_cache(maxsize=64)(self._rows))

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Example]:
        return (self[index] for index in range(self.size))

    def __getitem__(self, index: int) -> Example:
        if not -self.size <= index < self.size:
            raise IndexError(
                f"the split '{self.split}' of {self.name} has {self.size} examples here; {index} is"
                " not one of them"
            )
        block, place = divmod(index % self.size, BLOCK)
        example: Example = self._block(block)[place]
        return example

    def _rows(self, block: int) -> list[Example]:
        start, stop = block * BLOCK, min((block + 1) * BLOCK, self.size)
        if self.data is not None:
            # Use the cached split, because opening it again would read its files again.
            rows = to_examples(self.data[self.split].table.slice(start, stop - start))
            return list(map(self.describer.described, rows) if self.describer else rows)
        return list(to_examples(table_of(self.plan, self.plan.split(self.split), start, stop)))

    def prompt(self, example: Example) -> str:
        """The message that asks a model for the answer; see `taskloom.core.extraction`."""
        return chat_prompt(example.input, self.answer_format)

    def grade(self, reply: object, example: Example) -> Grade:
        """Score a model's reply to an example."""
        return grade(reply, example, self.plan.scorer, self.extraction)


def open_split(
    recipe: str | PathLike[str],
    split: str | None = None,
    n: int | None = None,
    *,
    seed: int | None = None,
    changes: Changes = None,
    set: Changes = None,
    described: bool = False,
    extract: str = EXTRACT,
    role: str = "test",
    answer_format: str = ANSWER_FORMAT,
) -> GradedSplit:
    """Open a split of a recipe or of a dataset.

    Args:
        recipe: A recipe's name or file, or the folder of a dataset.
        split: Name of the split. Default: the first one with the role.
        n: Number of examples. Default: all. May exceed the recipe's own number if it can make more.
        seed: Seed of the samples. Default: the recipe's own.
        changes: Changes to the recipe's fields.
        set: Another name for `changes`.
        described: True to begin every input with the description of its task, for models that were
            not trained on it.
        extract: How answers are extracted from replies: see `taskloom.core.extraction.KINDS`.
        role: `train` or `test`, the role of the split if none is named.
        answer_format: Sentence after each input that asks for an answer format; empty: none.
    """
    extraction, name = Extraction.read(extract), fspath(recipe)
    changes = changed_fields(given_changes(changes, set))
    if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 1):
        raise ParameterError("n", f"must be a whole number of at least 1, not {echo(n)}")
    if (Path(name) / MANIFEST).is_file():
        for parameter, value in (("changes", changes), ("seed", seed is not None)):
            if value:
                raise ParameterError(parameter, f"is for a recipe; {name} is a finished dataset")
        data = load(name)
        plan = data.recipe.plan(data.manifest["seed"])
        chosen = choose_split(plan, split, role)
        if n is not None and n > chosen.n:
            raise ParameterError(
                "n", f"is {n}, and the split '{chosen.name}' of {name} has {chosen.n} examples"
            )
        declared = data.recipe.curriculum
        return GradedSplit(
            name,
            chosen.name,
            data.manifest["seed"],
            plan,
            extraction,
            n or chosen.n,
            data,
            declared,
            answer_format,
            Describer(plan, "instruction") if described and not data.recipe.described else None,
        )
    if described:
        changes = {**changes, "described": True}
    checked = read(name, changes)
    plan = checked.plan(seed)
    chosen = choose_split(plan, split, role)
    if n is not None and n > chosen.n:
        plan = _larger(name, changes, chosen, n, seed)
    used = checked.seed if seed is None else seed
    return GradedSplit(
        name,
        chosen.name,
        used,
        plan,
        extraction,
        n or chosen.n,
        curriculum=checked.curriculum,
        answer_format=answer_format,
    )


def choose_split(plan: Plan, name: str | None, role: str) -> Split:
    """Return the named split, or the first one with the role, or the first of all."""
    if name is not None:
        return plan.split(name)
    return next((s for s in plan.splits if s.role == role), plan.splits[0])


def _larger(name: str, changes: Mapping[str, Any], split: Split, n: int, seed: int | None) -> Plan:
    """Plan of a recipe with more examples in a split."""
    try:
        plan = read(name, {**changes, f"splits.{split.name}.n": n}).plan(seed)
    except CapacityError:
        raise
    except RecipeError as error:
        raise ParameterError(
            "n",
            f"is {n}, and the split '{split.name}' of {name} has {split.n}; set its size with"
            " changes",
        ) from error
    if plan.split(split.name).n < n:
        raise ParameterError(
            "n",
            f"is {n}, and {name} can make only {plan.split(split.name).n} examples of"
            f" '{split.name}'",
        )
    return plan


RECORD = ("input", "targets", "task", "key", "traits")
"""Parts of an example that a tool must keep to score predictions later."""


def to_record(example: Example) -> dict[str, Any]:
    """Convert the parts of an example that scoring needs to JSON values."""
    return {
        "input": example.input,
        "targets": list(example.targets),
        "task": example.task,
        "key": example.key,
        "traits": dict(example.traits),
    }


def from_record(record: Mapping[str, Any]) -> Example:
    """Rebuild an example from the result of `to_record`. Null traits are dropped, because table
    formats add them.
    """
    try:
        targets = record["targets"]
        traits = {k: v for k, v in (record.get("traits") or {}).items() if v is not None}
        text, task, key = record["input"], record.get("task") or "", record.get("key") or ""
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"a record of an example needs {', '.join(RECORD)}; {nearest(str(error), RECORD)}"
        ) from error
    if (
        not isinstance(text, str)
        or not isinstance(targets, list | tuple)
        or not all(isinstance(t, str) for t in targets)
    ):
        raise InputError(
            "a record of an example has a text 'input' and a list of texts 'targets', not"
            f" {echo(dict(record))}"
        )
    return Example(text, targets, traits, key=key, task=task)


_READ = re.compile(r"\W{0,4}read\W{0,4}(\d{1,6})\W{0,4}", re.IGNORECASE)
_END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def sentences_of(text: str, question: str) -> list[str]:
    """The sentences before a question. Raise `InputError` if there are none."""
    if not question or not text.rstrip().endswith(question):
        raise InputError(
            f"a dialogue needs a story with a question after it; {echo(text)} has none"
        )
    story = text.rstrip().removesuffix(question).strip()
    sentences = [sentence for sentence in _END_OF_SENTENCE.split(story) if sentence]
    if not sentences:
        raise InputError(f"{echo(text)} has no sentence before its question")
    return sentences


class Dialogue:
    """A story whose sentences the model requests one by one.

    Attributes:
        sentences: The sentences of the story.
        read: Numbers of the requested sentences, from 1, in order.
    """

    def __init__(self, graded: GradedSplit, example: Example, question: str) -> None:
        bare = example
        with suppress(InputError):  # the input has no description
            bare = Describer(graded.plan, "instruction").bare(example)
        self.description = example.input.removesuffix(bare.input).strip()
        self.sentences = sentences_of(bare.input, question)
        self.read: list[int] = []
        self._graded, self._question = graded, question

    @property
    def opening(self) -> str:
        """The first message."""
        number = len(self.sentences)
        asked = (
            f"A story has {number} sentences. You cannot see them yet. Reply with READ and a number"
            f" from 1 to {number}, such as READ 1, to see one sentence. When you know the answer,"
            f" give it instead.\n\n{self._question}"
        )
        parts = (self.description, asked, self._graded.answer_format)
        return "\n\n".join(part for part in parts if part)

    def respond(self, reply: str) -> str | None:
        """Return the next message. None if the reply is the answer, or if the model has no requests
        left.

        A model has twice as many requests as the story has sentences, and may repeat them.
        """
        asked = _READ.fullmatch(reply.strip())
        number = len(self.sentences)
        if asked is None or len(self.read) == 2 * number:
            return None
        chosen = int(asked[1])
        self.read.append(chosen)
        if not 1 <= chosen <= number:
            return f"There is no sentence {chosen}. The story has {number}."
        return f"{chosen}: {self.sentences[chosen - 1]}"
