"""The plan of a recipe with groups of stories: which group each row belongs to.

A split consists of groups. Their examples are either consecutive or mixed in a keyed order. Every
group is tested before the first row is generated, so that impossible requests fail immediately. The
end of the module defines question types as tasks with descriptions, and `rephrased`, which asks
yes-no questions in a different phrasing.

Recipes for a bAbI task with its own world are planned in `numbered`, and those that combine several
of bAbI's story tasks in `concat`.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from taskloom.core.errors import RecipeError
from taskloom.core.example import Example, Step
from taskloom.core.plan import Level, Plan, Split, Tasks, Variant, Withheld, proved, role_of
from taskloom.core.scoring import Scorer, any_of, set_of
from taskloom.core.seeding import TABLE_LIMIT, Key
from taskloom.recipe import Size
from taskloom.recipe.fields import split_key
from taskloom.suites.babi.fields import BabiFields, StoryGroup
from taskloom.suites.babi.generator import many_questions, one_question
from taskloom.suites.babi.generator.examples import TRAITS, make_example
from taskloom.suites.babi.generator.many_questions import grow
from taskloom.suites.babi.generator.one_question import GroupExamples, check_needs
from taskloom.suites.babi.generator.planned_proofs import Blocked
from taskloom.suites.babi.generator.story_setting import Setting, action_weights, answer_all
from taskloom.suites.babi.reasoner.knowledge import Knowledge
from taskloom.suites.babi.reasoner.second_solver import check
from taskloom.suites.babi.show import answer_passage, show
from taskloom.suites.babi.splits import (
    BEGINNING,
    SplitRule,
    Trial,
    check_example,
    check_recipe,
    groups_of,
    split_rules,
)
from taskloom.suites.babi.story.events import QuestionKind
from taskloom.suites.babi.story.sentences import ask
from taskloom.suites.babi.variants import StoryVariants


def story_plan(fields: BabiFields, key: Key) -> Plan:
    """Plan the splits of a recipe with groups."""
    check_recipe(fields)
    vocabulary, lexicon = fields.vocabulary.vocabulary(), fields.style.lexicon()
    setting = Setting(vocabulary, lexicon, fields.reading, "babi")
    rules = split_rules(fields.splits, key)
    examples = {
        name: SplitExamples(fields, setting, key, name, rules[name]) for name in fields.splits
    }
    trial = Trial(of_split.try_out for of_split in examples.values())
    splits = [
        Split(
            name,
            sum(group.n for group in groups_of(fields, name)),
            partial(trial.rows, of_split.rows),
            role_of(name),
            tasks=kinds_of(part.group for part in of_split.parts),
            rounds=math.inf,
        )
        for name, of_split in examples.items()
    ]
    groups = [p.group for of_split in examples.values() for p in of_split.parts]
    second_solver = partial(
        check, vocabulary=vocabulary, lexicon=lexicon, strict=fields.reading == "strict"
    )
    cited = frozenset(group.name for group in groups if group.cited)
    return Plan(
        splits=tuple(splits),
        traits=TRAITS,
        describe=STORY_TASK,
        scorer=scorer_of(groups),
        check=second_solver,
        answer=partial(
            answer_passage, vocabulary=vocabulary, lexicon=lexicon, reading=fields.reading
        ),
        show=partial(show, vocabulary=vocabulary, lexicon=lexicon, reading=fields.reading),
        shard_rows=2_000,
        tasks=Tasks(
            "question",
            describe_question,
            kinds_of(groups),
            without=lambda withheld: story_plan(without_kinds(fields, withheld), key),
        ),
        variants=proved(StoryVariants(vocabulary, lexicon, fields.reading, cited), second_solver),
    )


def kinds_of(groups: Iterable[StoryGroup]) -> tuple[str, ...]:
    """Return the question types that any of the groups ask, in order."""
    kinds: dict[str, None] = {}
    for group in groups:
        kinds |= dict.fromkeys(kind for kind, weight in group.questions.items() if weight)
    return tuple(kinds)


def scorer_of(groups: Iterable[StoryGroup]) -> Scorer:
    """Return the scorer for the questions: sets if an answer may consist of several objects,
    otherwise single words.

    Answers to list questions are sets, and so are answers about gifts if two objects may be given
    together.
    """
    for group in groups:
        two_at_once = group.conj.get("GIVE") and {"CONJ", "COMPOUND"} & {*group.wording}
        if group.questions.get("list"):
            return set_of
        if group.questions.get("give-qs") and two_at_once:
            return set_of
    return any_of


# The examples of a split


@dataclass(frozen=True, slots=True)
class Part:
    """A group within a split.

    Attributes:
        group: The group.
        start: Index of its first row in a round of the split's groups.
        n: Number of its rows in a round.
        key: Key of its examples. It depends on the group's own fields except its size and name, so
            that changing one group does not change the examples of others.
    """

    group: StoryGroup
    start: int
    n: int
    key: Key


def parts_of(fields: BabiFields, split: str, key: Key) -> list[Part]:
    """Return the groups of a split with their rows in a round.

    If groups are mixed, a round has `n` rows of each group, regardless of the size of the split, so
    that a smaller split is the beginning of a larger one.
    """
    groups = groups_of(fields, split)
    plain = isinstance(fields.splits[split], Size)
    sized = fields.groups if plain and _mixed(groups) else groups
    sizes = [group.n for group in sized]
    parts: list[Part] = []
    start = 0
    # Equal groups must have different examples. Count their texts, because comparing each group
    # with all previous ones takes minutes for 5,000 groups.
    met: Counter[str] = Counter()
    for group, n in zip(groups, sizes, strict=True):
        own = group.model_dump(mode="json", exclude={"n", "name"})
        text = json.dumps(own, sort_keys=True)
        parts.append(
            Part(group, start, n, split_key(key, split, {"group": own, "again": met[text]}))
        )
        met[text] += 1
        start += n
    return parts


def _mixed(groups: list[StoryGroup]) -> bool:
    """True if the examples of several groups are mixed in random order. Questions about the same
    story stay together.
    """
    return len(groups) > 1 and not any(g.story or g.exhaustive for g in groups)


class SplitExamples:
    """The examples of a split."""

    def __init__(
        self, fields: BabiFields, setting: Setting, key: Key, split: str, rule: SplitRule
    ) -> None:
        self.parts = parts_of(fields, split, key)
        self._split, self._setting, self._rule = split, setting, rule
        self._holdout = fields.holdout if role_of(split) == "train" else ()
        self._total = sum(p.n for p in self.parts)
        self._ends = [p.start + p.n for p in self.parts]
        mixed = _mixed([p.group for p in self.parts])
        self._order = key.permutation(self._total, "order", split) if mixed else None
        self._checked: set[tuple[object, object]] = set()
        self._slots: list[int] | None = None
        self._groups: dict[int, _GroupOfExamples] = {}

    def rows(self, start: int, stop: int) -> Iterator[Example]:
        """Yield examples start..stop."""
        for row in range(start, stop):
            # Groups come in rounds, each with the same number of rows per group.
            rounds, slot = divmod(row, self._total)
            slot = self._slot(slot)
            at = min(bisect_right(self._ends, slot), len(self.parts) - 1)
            part = self.parts[at]
            example = self._examples(at).example(rounds * part.n + slot - part.start)
            if self._holdout:
                self._check(example)
            yield example

    def _check(self, example: Example) -> None:
        """Check that an example does not combine held-out concepts. Each distinct set of concepts
        is checked once.
        """
        concepts = (example.traits["concepts"], example.traits["question"])
        if concepts not in self._checked:
            check_example(self._holdout, example, self._split)
            self._checked.add(concepts)

    def _slot(self, row: int) -> int:
        """Return the index of a row of a round among the rows of all groups, concatenated."""
        if self._order is None:
            return row
        # A table of the whole order is faster than computing single elements.
        if self._slots is None and self._total <= TABLE_LIMIT:
            import numpy as np

            self._slots = self._order(np.arange(self._total)).tolist()
        return int(self._order(row)) if self._slots is None else self._slots[row]

    def try_out(self) -> None:
        """Check that all groups of the split can be drawn.

        Raises:
            RecipeError: If a group cannot be drawn. The error names the group and what prevents it.
        """
        for at, part in enumerate(self.parts):
            if part.group.n:
                self._examples(at).try_out()

    def _examples(self, at: int) -> _GroupOfExamples:
        if at not in self._groups:
            part = self.parts[at]
            make = _GROUPS[_kind(part.group)]
            self._groups[at] = make(part, self._setting, self._rule)
        return self._groups[at]


class _GroupOfExamples:
    """The examples of a group, by index."""

    def __init__(self, example: Callable[[int], Example], try_out: Callable[[], object]) -> None:
        self.example = example
        self.try_out = try_out


def _kind(group: StoryGroup) -> str:
    if group.story is not None:
        return "grown"
    return "exhaustive" if group.exhaustive else "single"


def _single(part: Part, setting: Setting, rule: SplitRule) -> _GroupOfExamples:
    examples = GroupExamples(part.group, setting)
    return _GroupOfExamples(
        partial(examples.make, part.key, rule=rule), partial(examples.try_out, part.key, rule=rule)
    )


def _exhaustive(part: Part, setting: Setting, rule: SplitRule) -> _GroupOfExamples:
    examples = _ExhaustiveExamples(part.group, setting, part.key, rule)
    return _GroupOfExamples(examples.example, examples.try_out)


def _grown(part: Part, setting: Setting, rule: SplitRule) -> _GroupOfExamples:
    check_needs(part.group)
    assert part.group.story is not None
    weights = action_weights(part.group)

    def draw(story: int, tries: int = many_questions.ENDURANCE) -> list[Example]:
        return grow(part.group, setting, part.key.random(story), rule, weights, tries=tries)

    examples = _GrownExamples(draw, part.group.story.questions)
    return _GroupOfExamples(examples.example, partial(draw, 0, many_questions.TRIES))


_GROUPS: dict[str, Callable[[Part, Setting, SplitRule], _GroupOfExamples]] = {
    "grown": _grown,
    "exhaustive": _exhaustive,
    "single": _single,
}


class _GrownExamples:
    """Examples of a group whose stories have several questions.

    The last story is cached, because its questions are requested one after the other.
    """

    def __init__(self, grow_story: Callable[[int], list[Example]], questions: int) -> None:
        self._grow = grow_story
        self._questions = questions
        self._last: tuple[int, list[Example]] = (-1, [])

    def example(self, index: int) -> Example:
        """Return example number `index`."""
        story, question = divmod(index, self._questions)
        if self._last[0] != story:
            self._last = (story, self._grow(story))
        return self._last[1][question]


class _ExhaustiveExamples:
    """Examples of an exhaustive group, one story after the other.

    The number of questions in a story is known only after it is drawn.
    """

    def __init__(self, group: StoryGroup, setting: Setting, key: Key, rule: SplitRule) -> None:
        self._group, self._setting, self._key, self._rule = group, setting, key, rule
        self._examples = GroupExamples(group, setting)
        self._ends: list[int] = []  # number of examples up to the end of each story
        self._last: tuple[int, list[Example]] = (-1, [])

    def example(self, index: int) -> Example:
        """Return example number `index`. All stories before it must be drawn to count their
        questions.
        """
        drawn = self._ends[-1] if self._ends else 0
        while drawn <= index:
            story = len(self._ends)
            self._last = (story, self._draw(story))
            drawn += len(self._last[1])
            self._ends.append(drawn)
        story = bisect_right(self._ends, index)
        if self._last[0] != story:
            self._last = (story, self._draw(story))
        first = self._ends[story - 1] if story else 0
        return self._last[1][index - first]

    def try_out(self) -> None:
        """Raise an error if no question can be asked about the group's stories."""
        self._draw(0, one_question.TRIES)

    def _draw(self, story: int, tries: int = one_question.ENDURANCE) -> list[Example]:
        """Draw a story by number, with every question of the group's types that can be answered
        (and has the requested support).

        Raises:
            RecipeError: If no story has such a question.
        """
        group, setting = self._group, self._setting
        rng = self._key.random("exhaustive", story)
        asked = sorted(kind for kind, weight in group.questions.items() if weight)
        kinds = cast(tuple[QuestionKind, ...], tuple(asked))
        for _ in range(tries):
            length = group.length.draw(rng)
            try:
                events, structure = self._examples.simulate(None, length, rng, self._rule)
            except Blocked:
                continue
            knowledge = Knowledge(setting.vocabulary.places, setting.reading).tell_all(events)
            answered = answer_all(knowledge, kinds, group.cited)
            if group.support is not None:
                answered = [a for a in answered if len(a.official) in group.support]
            if not answered:
                continue
            key = structure.read(events[BEGINNING:])
            passage = " ".join(setting.writer.write(events, rng))
            return [
                make_example(
                    events,
                    passage,
                    ask(a.question, setting.lexicon),
                    a,
                    group=group.name,
                    task=setting.task,
                    concepts=structure.concepts(),
                    key=key,
                )
                for a in answered
            ]
        raise RecipeError(
            f"group '{group.name}': no question of {', '.join(kinds)} could be asked in {tries} "
            "stories"
        )


# Question types as tasks

STORY_TASK = "Read the story and answer the question from it."
"""Instruction for story recipes, regardless of their question types."""

_DESCRIPTIONS: dict[str, tuple[str, str]] = {
    "where-P": (
        "Say where the person is at the end of the story.",
        "Answer with the place, in one word.",
    ),
    "where-O": (
        "Say where the object is at the end of the story.",
        "Answer with the place, in one word.",
    ),
    "where-was-O": (
        "Say where the object was just before it came to the place that the question names.",
        "An object is where the person who carries it is. Answer with the place, in one word.",
    ),
    "yes-no": (
        "Say whether the person is at the end of the story in the place that the question names.",
        "Answer yes or no, or maybe if the story leaves it open.",
    ),
    "list": (
        "Name the objects that the person carries at the end of the story.",
        "Answer with the objects, separated by commas, or with nothing.",
    ),
    "counting": (
        "Count the objects that the person carries at the end of the story.",
        "Answer with the number as a word, such as none, one or two.",
    ),
    "give-qs": (
        "Say who gave the object, who received it or what was given, as the question asks.",
        "The last such gift counts. Answer with one name or object.",
    ),
}
"""Instruction and answer format for each of Dyna-bAbI's question types."""


def nothing(kind: str) -> bool:
    """Always False, because no question type is withheld."""
    return False


def describe_question(kind: str, level: Level) -> str:
    """Return the description of one of Dyna-bAbI's question types."""
    what, how = _DESCRIPTIONS[kind]
    return f"{what} {how}" if level == "explicit" else what


def without_kinds(fields: BabiFields, withheld: Withheld) -> BabiFields:
    """Remove question types from the training groups. Groups without any remaining type are
    dropped.
    """
    splits = dict(fields.splits)
    for name in splits:
        if role_of(name) != "train":
            continue
        groups = []
        for group in groups_of(fields, name):
            questions = {q: w for q, w in group.questions.items() if not withheld(q)}
            if any(questions.values()):
                groups.append(group.model_copy(update={"questions": questions}))
        splits[name] = tuple(groups)
    # With fewer question types, training no longer has to cover all concepts of the test.
    return fields.model_copy(update={"splits": splits, "tested_by": ""})


# The same question in another phrasing (Dyna-bAbI, appendix A.6): a question "Is Mary in the park?"
# with the answer yes becomes "Where is Mary?". Stories, supports and proofs do not change, so a
# recipe is paired row by row with the same recipe with `phrasing: where-P`.

YES_NO, WHERE = "yes-no", "where-P"

QUESTION = re.compile(r"Is (?P<person>.+) (?:in|at) the (?P<place>.+)\?")


def rephrase(example: Example) -> Example:
    """Ask a yes-no question whose answer is yes as a where-P question. All other examples are
    unchanged.

    >>> question, traits = "Is Mary in the park?", {"question": "yes-no"}
    >>> asked = Example(f"Mary went to the park. {question}", "yes", traits, question=question)
    >>> rephrase(asked).input, rephrase(asked).targets
    ('Mary went to the park. Where is Mary?', ('park',))
    """
    if example.traits.get("question") != YES_NO or example.targets != ("yes",):
        return example
    match = QUESTION.fullmatch(example.question)
    if match is None:
        raise RecipeError(
            f"phrasing: '{example.question}' is not a question about a person in a place"
        )
    question, place = f"Where is {match['person']}?", match["place"]
    steps = example.derivation
    if steps:  # the last step is the question, which combines the sentences
        steps = (*steps[:-1], Step(WHERE, place, steps[-1].of))
    return Example(
        example.input.removesuffix(example.question) + question,
        place,
        {**example.traits, "question": WHERE},
        key=example.key,
        question=question,
        derivation=steps,
        task=example.task,
    )


def rephrased(plan: Plan) -> Plan:
    """Return the plan with all examples rephrased."""

    def other(split: Split) -> Split:
        def rows(start: int, stop: int) -> Iterator[Example]:
            return map(rephrase, split.rows(start, stop))

        return replace(split, rows=rows, tasks=_kinds(split.tasks))

    def variants(example: Example) -> Iterator[Variant]:
        # Otherwise a yes-no variant with the answer yes would have to be rephrased.
        proposed = plan.variants(example) if plan.variants else ()
        return (v for v in proposed if rephrase(v.example) is v.example)

    # `without` would rebuild the plan without rephrasing it.
    tasks = replace(plan.tasks, names=_kinds(plan.tasks.names), without=None)
    splits = tuple(map(other, plan.splits))
    return replace(plan, splits=splits, tasks=tasks, variants=variants)


def _kinds(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Add where-P if there is yes-no, which remains for the answers no and maybe."""
    if names is None or YES_NO not in names or WHERE in names:
        return names
    return (*names, WHERE)
