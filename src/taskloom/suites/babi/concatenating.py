"""The paper's concat and inject splits: bAbI 1.0 tasks one after the other, as published or told anew by our own recipes.

A task is a row of stories; each gives one example per question, and with `inject` also every question of the added
types that can be answered at that point. How many those are is known only when the story is told, so an injected
split is told once to be counted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path

from taskloom.errors import RecipeError
from taskloom.example import Example
from taskloom.plan import Held, Plan, Source, Split, Tasks
from taskloom.recipe import Size, read
from taskloom.scoring import any_of, set_of
from taskloom.seeding import Key
from taskloom.suites.babi.answering import answer, supports
from taskloom.suites.babi.checking import check
from taskloom.suites.babi.describing import tell_story
from taskloom.suites.babi.events import QuestionKind, Story
from taskloom.suites.babi.examples import TRAITS, Posed, make_example
from taskloom.suites.babi.fields import PARTS, BabiFields
from taskloom.suites.babi.growing import Setting, grow, openings, pose_all, share_out
from taskloom.suites.babi.knowledge import Knowledge
from taskloom.suites.babi.planning import DESCRIBE, role_of
from taskloom.suites.babi.reading import parse, read_text
from taskloom.suites.babi.solving import same_answer
from taskloom.suites.babi.telling import answer_passage, show
from taskloom.suites.babi.vocabulary import PUBLISHED, Vocabulary


@dataclass
class Block:
    """The stories of one task in one split.

    Attributes:
        stories: How many.
        tell: The examples of one story.
        each: Examples per story, or None when they must be counted.
        limit: At most so many examples.
        kinds: The question types that it may have.
    """

    stories: int
    tell: Callable[[int], list[Example]]
    each: int | None
    limit: int | None = None
    kinds: frozenset[str] = frozenset()

    def without(self, held: Held) -> Block | None:
        """The block without some question types; None where nothing is left."""
        lost = {kind for kind in self.kinds if held(kind)}
        if lost == self.kinds:
            return None

        def tell(story: int) -> list[Example]:
            return [example for example in self.tell(story) if example.traits["question"] not in lost]

        return Block(self.stories, tell, None, self.limit, self.kinds - lost) if lost else self

    @cached_property
    def ends(self) -> list[int]:
        """Where the examples of each story end."""
        if self.each is not None:
            return [self.each * (i + 1) for i in range(self.stories)]
        return list(accumulate(len(self.tell(i)) for i in range(self.stories)))

    @property
    def n(self) -> int:
        """How many examples."""
        whole = self.ends[-1] if self.stories else 0
        return whole if self.limit is None else min(whole, self.limit)

    def rows(self, start: int, stop: int) -> Iterator[Example]:
        """Examples start..stop."""
        at = start
        while at < stop:
            story = bisect_right(self.ends, at)
            first = self.ends[story - 1] if story else 0
            for example in self.tell(story)[at - first : stop - first]:
                yield example
                at += 1


def plan_concat(fields: BabiFields, key: Key, held: Held = lambda kind: False) -> Plan:
    """The plan of a recipe with `concat`; training lacks the question types that are held."""
    tasks = PARTS[fields.concat]
    sizes = {name: value.n for name, value in fields.splits.items() if isinstance(value, Size)}
    if len(sizes) < len(fields.splits):
        raise RecipeError("concat: has no groups; give each split a plain size")
    sources: list[Source] = []
    warnings: list[str] = []
    if fields.source:
        blocks = _published(fields, tasks, list(sizes), sources, warnings)
    else:
        blocks = {name: [] for name in sizes}
        for place, task in enumerate(tasks):
            mine = {name: share_out(n, [1] * len(tasks))[place] for name, n in sizes.items()}
            for name, block in _retold(task, fields.inject.get(task, ()), mine, key.child("task", task)).items():
                blocks[name].append(block)
    asked = tuple(sorted({kind for found in blocks.values() for block in found for kind in block.kinds}))
    for name in (n for n in blocks if role_of(n) == "train"):
        blocks[name] = [left for block in blocks[name] if (left := block.without(held))]
    return Plan(
        splits=tuple(
            Split(name, sum(b.n for b in found), partial(_rows, found), role_of(name)) for name, found in blocks.items()
        ),
        traits=TRAITS,
        describe=DESCRIBE,
        scorer=set_of if 8 in tasks else any_of,
        check=partial(check, vocabulary=Vocabulary(), lexicon=PUBLISHED),
        answer=partial(answer_passage, vocabulary=Vocabulary(), lexicon=PUBLISHED, reading="natural"),
        show=partial(show, vocabulary=Vocabulary(), lexicon=PUBLISHED, reading="natural"),
        sources=tuple(sources),
        warnings=tuple(warnings),
        tasks=Tasks("question", tell_story, asked, without=lambda held: plan_concat(fields, key, held)),
    )


def _rows(blocks: list[Block], start: int, stop: int) -> Iterator[Example]:
    first = 0
    for block in blocks:
        low, high = max(start, first), min(stop, first + block.n)
        if low < high:
            yield from block.rows(low - first, high - first)
        first += block.n


def _retold(task: int, also: tuple[QuestionKind, ...], sizes: dict[str, int], key: Key) -> dict[str, Block]:
    fields = read(f"babi/{task}").fields
    assert isinstance(fields, BabiFields)
    group = fields.groups[0].model_copy(update={"name": f"qa{task}"})
    assert group.story is not None
    each = group.story.questions
    setting = Setting(fields.vocabulary.vocabulary(), fields.style.lexicon(), fields.reading, f"babi/{task}")
    opening = openings(sizes, key)
    kinds = frozenset((*group.questions, *also))

    def tell(split: str, story: int) -> list[Example]:
        return grow(group, setting, key.random(split, story), opening[split], also)

    return {
        name: Block(-(-n // each), partial(tell, name), None if also else each, None if also else n, kinds)
        for name, n in sizes.items()
    }


def _published(
    fields: BabiFields, tasks: tuple[int, ...], splits: list[str], sources: list[Source], warnings: list[str]
) -> dict[str, list[Block]]:
    """Blocks of the published files; where there is no file for dev, it is the last tenth of the training file."""
    folder = Path(fields.source)
    if not folder.is_dir():
        raise RecipeError(f"source: there is no folder {folder}; it must hold the files qa1_*_train.txt and so on")
    blocks: dict[str, list[Block]] = {name: [] for name in splits}
    for task in tasks:
        whole = _stories(folder, task, "train", sources)
        own = _find(folder, task, "valid")
        cut = len(whole) if own else len(whole) - len(whole) // 10
        found = {"train": whole[:cut], "dev": _stories(folder, task, "valid", sources) if own else whole[cut:]}
        if "test" in splits:
            found["test"] = _stories(folder, task, "test", sources)
        for name in splits:
            if name not in found:
                raise RecipeError(f"source: the published files have the splits train, dev and test, not '{name}'")
            also = fields.inject.get(task, ())
            told = [_Told(story, task, also) for story in found[name]]
            kinds = frozenset((*(a.question.kind for story in found[name] for a in story.asked), *also))
            blocks[name].append(Block(len(told), partial(_examples, told), None, None, kinds))
            wrong = sum(t.wrong() for t in told)
            if wrong:
                warnings.append(f"task {task}, {name}: {wrong} published answers are not entailed and were left out")
    return blocks


def _examples(told: list[_Told], story: int) -> list[Example]:
    return told[story].examples()


def _find(folder: Path, task: int, split: str) -> Path | None:
    found = sorted(folder.glob(f"qa{task}_*{split}.txt"))
    return found[0] if found else None


def _stories(folder: Path, task: int, split: str, sources: list[Source]) -> list[Story]:
    file = _find(folder, task, split)
    if file is None:
        raise RecipeError(
            f"source: {folder} has no file qa{task}_*_{split}.txt; give the folder of the published files"
        )
    source = Source(file.name, blake2b(file.read_bytes(), digest_size=16).hexdigest())
    if source not in sources:
        sources.append(source)
    return parse(read_text(file), str(file))


@dataclass(frozen=True, slots=True)
class _Told:
    """A published story, ready to be turned into examples."""

    story: Story
    task: int
    also: tuple[QuestionKind, ...]

    def examples(self) -> list[Example]:
        """One for each question whose published answer is entailed, and the injected ones."""
        return [example for example, right in self._all() if right]

    def wrong(self) -> int:
        """How many published answers are not entailed."""
        return sum(not right for _, right in self._all())

    def _all(self) -> Iterator[tuple[Example, bool]]:
        knowledge = Knowledge(Vocabulary().places)
        events, told = self.story.events, 0
        for asked in self.story.asked:
            knowledge.tell_all(events[told : asked.after])
            told = asked.after
            question = asked.question
            verdict = answer(knowledge, question)
            posed = Posed(question, verdict, supports(knowledge, question, verdict) or [()])
            yield self._example(told, posed), same_answer(question, verdict, asked.answer)
            for other in pose_all(knowledge, self.also):
                text = f"Where is {other.question.person or 'the ' + other.question.thing}?"
                if text != question.text:
                    yield self._example(told, other, text), True

    def _example(self, told: int, posed: Posed, text: str = "") -> Example:
        events = self.story.events[:told]
        passage = " ".join(e.text for e in events)
        asked = text or posed.question.text
        return make_example(events, passage, asked, posed, group=f"qa{self.task}", task=f"babi/{self.task}")
