"""The paper's concat and inject splits: bAbI 1.0 tasks one after the other, as published or told again by our own recipes.

Each story gives an example per question, and with `inject` also one for every question of the added types that can be
answered at that point. How many those are is known only when the story is told, so a task is told in batches of a
fixed number of examples, each from stories of its own: any slice can be made without telling what comes before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from taskloom.errors import RecipeError
from taskloom.example import Example
from taskloom.plan import Plan, Source, Split, Tasks, Withheld, role_of
from taskloom.recipe import Size, read
from taskloom.scoring import any_of, set_of
from taskloom.seeding import Key
from taskloom.suites.babi.descriptions import STORY_TASK, describe_question, nothing
from taskloom.suites.babi.dyna_babi.published_files import Folder, Published
from taskloom.suites.babi.fields import PARTS, BabiFields, StoryGroup
from taskloom.suites.babi.generator.examples import TRAITS, tokens
from taskloom.suites.babi.generator.many_questions import Setting, grow
from taskloom.suites.babi.reasoner.second_solver import check
from taskloom.suites.babi.show import answer_passage, show
from taskloom.suites.babi.splits import SplitRule, check_recipe, share_out, split_rules
from taskloom.suites.babi.story.events import QuestionKind
from taskloom.suites.babi.story.vocabulary import PUBLISHED, Vocabulary

BATCH = 1_000
"""Examples of one task that are told from one row of stories; whoever wants one of them tells at most so many."""

PATIENCE = 1_000
"""Stories without any question that fits the window, before the window counts as too narrow."""


@dataclass(frozen=True, slots=True)
class Retold:
    """The examples of one task in one split, told by our own recipe.

    Attributes:
        n: How many.
        group: What happens in the stories.
        setting: What the groups of a recipe share.
        key: The stream of this task and split.
        rule: What makes a story one of the split.
        also: Question types to inject.
        window: At most so many tokens of story and question.
        withheld: Question types that are left out.
    """

    n: int
    group: StoryGroup
    setting: Setting
    key: Key
    rule: SplitRule
    also: tuple[QuestionKind, ...]
    window: int | None
    withheld: Withheld = nothing

    @property
    def kinds(self) -> frozenset[str]:
        """Return the question types that it may have."""
        return frozenset(kind for kind in (*self.group.questions, *self.also) if not self.withheld(kind))

    def rows(self, start: int, stop: int) -> Iterator[Example]:
        """Yield examples start..stop."""
        for batch in range(start // BATCH, -(-stop // BATCH)):
            first = batch * BATCH
            for i, example in enumerate(self._batch(batch, min(stop - first, BATCH)), first):
                if i >= start:
                    yield example

    def _batch(self, batch: int, count: int) -> Iterator[Example]:
        story = idle = 0
        while count:
            examples = grow(self.group, self.setting, self.key.random(batch, story), self.rule, self.also)
            examples = [e for e in examples if not self.withheld(str(e.traits["question"]))]
            fits = [e for e in examples if self.window is None or tokens(e.input) <= self.window][:count]
            yield from fits
            count -= len(fits)
            story += 1
            idle = 0 if fits else idle + 1
            if idle == PATIENCE:
                raise RecipeError(
                    f"window: in {PATIENCE} stories no question of {self.setting.task} fits {self.window} tokens; widen it"
                )


Block = Retold | Published


def plan_concat(fields: BabiFields, key: Key, withheld: Withheld = nothing) -> Plan:
    """Build the plan of a recipe with `concat`; training lacks the withheld question types."""
    tasks = PARTS[fields.concat]
    sizes = {name: value.n for name, value in fields.splits.items() if isinstance(value, Size)}
    if len(sizes) < len(fields.splits):
        raise RecipeError("concat: has no groups; give each split a plain size")
    check_recipe(fields)
    sources: Sequence[Source] = ()
    warnings: list[str] = []
    blocks: dict[str, list[Block]]
    if fields.source:
        folder = Folder(fields.source)
        blocks = {
            name: _published(fields, folder, name, warnings, withheld if role_of(name) == "train" else nothing)
            for name in sizes
        }
        sources = folder.sources
    else:
        blocks = {name: [] for name in sizes}
        # In thousandths, so that shares like 4.5 are exact.
        weights = [round(1000 * fields.shares.get(task, 1)) for task in tasks]
        for place, task in enumerate(tasks):
            own_sizes = {name: share_out(n, weights)[place] for name, n in sizes.items()}
            for name, block in _retold(task, fields, own_sizes, key.child("task", task), withheld).items():
                blocks[name].append(block)
    blocks = {name: [block for block in of_split if block.kinds] for name, of_split in blocks.items()}
    kinds = tuple(sorted({kind for of_split in blocks.values() for block in of_split for kind in block.kinds}))
    return Plan(
        splits=tuple(
            Split(name, sum(b.n for b in of_split), partial(_rows, of_split), role_of(name))
            for name, of_split in blocks.items()
        ),
        traits=TRAITS,
        describe=STORY_TASK,
        scorer=set_of if 8 in tasks else any_of,
        check=partial(check, vocabulary=Vocabulary(), lexicon=PUBLISHED),
        answer=partial(answer_passage, vocabulary=Vocabulary(), lexicon=PUBLISHED, reading="natural"),
        show=partial(show, vocabulary=Vocabulary(), lexicon=PUBLISHED, reading="natural"),
        sources=tuple(sources),
        warnings=tuple(warnings),
        tasks=Tasks("question", describe_question, kinds, without=lambda withheld: plan_concat(fields, key, withheld)),
    )


def _rows(blocks: list[Block], start: int, stop: int) -> Iterator[Example]:
    first = 0
    for block in blocks:
        low, high = max(start, first), min(stop, first + block.n)
        if low < high:
            yield from block.rows(low - first, high - first)
        first += block.n


def _retold(task: int, fields: BabiFields, sizes: dict[str, int], key: Key, withheld: Withheld) -> dict[str, Block]:
    own = read(f"babi/{task}").fields
    assert isinstance(own, BabiFields)
    group = own.groups[0].model_copy(update={"name": f"qa{task}"})
    setting = Setting(own.vocabulary.vocabulary(), own.style.lexicon(), own.reading, f"babi/{task}")
    rules = split_rules(sizes, key)
    also = fields.inject.get(task, ())
    return {
        name: Retold(
            n,
            group,
            setting,
            key.child(name),
            rules[name],
            also,
            fields.window,
            withheld if role_of(name) == "train" else nothing,
        )
        for name, n in sizes.items()
    }


def _published(fields: BabiFields, folder: Folder, split: str, warnings: list[str], withheld: Withheld) -> list[Block]:
    blocks: list[Block] = []
    for task in PARTS[fields.concat]:
        stories = folder.stories(task, split)
        block = Published(stories, task, fields.inject.get(task, ()), fields.window, folder.name(task, split), withheld)
        blocks.append(block)
        wrong, long = block.left_out["wrong"], block.left_out["long"]
        if wrong:
            warnings.append(f"task {task}, {split}: {wrong} published answers are not entailed and were left out")
        if long:
            warnings.append(
                f"task {task}, {split}: {long} questions do not fit {fields.window} tokens and were left out"
            )
    return blocks
