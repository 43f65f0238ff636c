"""Dyna-bAbI's concat and inject splits: several bAbI 1.0 tasks in one split, published or generated
by our own recipes.

Each story gives one example per question. With `inject`, it also gives one for every question of
the added types that can be answered at that point. The number of questions is known only after a
story is drawn, so each task is drawn in batches with a fixed number of examples. Batches share no
stories, so any slice can be generated without drawing the examples before it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import accumulate, chain, islice
from pathlib import Path

from taskloom.core.errors import InputError, RecipeError
from taskloom.core.example import Example
from taskloom.core.plan import (
    Plan,
    Source,
    Split,
    Tasks,
    Withheld,
    in_rounds,
    proved,
    role_of,
)
from taskloom.core.scoring import any_of, set_of
from taskloom.core.seeding import Key
from taskloom.recipe import Size, read
from taskloom.recipe.fields import split_key
from taskloom.suites.babi.fields import PARTS, BabiFields, StoryGroup
from taskloom.suites.babi.generator.examples import (
    TRAITS,
    AnsweredQuestion,
    concepts_of,
    make_example,
    tokens,
)
from taskloom.suites.babi.generator.many_questions import grow
from taskloom.suites.babi.generator.story_setting import (
    ActionWeights,
    Setting,
    action_weights,
    ask_all,
)
from taskloom.suites.babi.plan import STORY_TASK, describe_question, nothing
from taskloom.suites.babi.reasoner.answers import answer, supports
from taskloom.suites.babi.reasoner.knowledge import Contradiction, Knowledge
from taskloom.suites.babi.reasoner.second_solver import check
from taskloom.suites.babi.show import answer_passage, show
from taskloom.suites.babi.solve_file import same_answer
from taskloom.suites.babi.splits import SplitRule, Trial, check_recipe, share_out, split_rules
from taskloom.suites.babi.story.events import Question, QuestionKind, Story
from taskloom.suites.babi.story.grammar import parse_path
from taskloom.suites.babi.story.sentences import ask
from taskloom.suites.babi.story.vocabulary import PUBLISHED, Vocabulary
from taskloom.suites.babi.variants import StoryVariants

# The published files of bAbI 1.0 as examples: every question whose answer the text entails, and the
# injected ones

WORDS = Vocabulary()


class Folder:
    """A folder with files named qa1_*_train.txt and so on. It records the digest of every file it
    reads.

    Raises:
        RecipeError: If the folder does not exist.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.sources: list[Source] = []
        if not self.path.is_dir():
            raise RecipeError(
                f"source: there is no folder {path}; it must contain the files qa1_*_train.txt "
                "and so on"
            )

    def stories(self, task: int, split: str) -> list[Story]:
        """Read the stories of a task. If there is no dev file, dev is the last tenth of the
        training file.
        """
        if split == "test":
            return self._read(task, "test")
        if split not in ("train", "dev"):
            raise RecipeError(
                f"source: the published files have the splits train, dev and test, not '{split}'"
            )
        if self._find(task, "valid"):
            return self._read(task, "valid" if split == "dev" else "train")
        whole = self._read(task, "train")
        cut = len(whole) - len(whole) // 10
        return whole[:cut] if split == "train" else whole[cut:]

    def name(self, task: int, split: str) -> str:
        """Return the name of the file that contains the stories of a split."""
        own = self._find(task, {"dev": "valid"}.get(split, split))
        return str(own or self._find(task, "train"))

    def _find(self, task: int, split: str) -> Path | None:
        return min(self.path.glob(f"qa{task}_*{split}.txt"), default=None)

    def _read(self, task: int, split: str) -> list[Story]:
        file = self._find(task, split)
        if file is None:
            raise RecipeError(
                f"source: {self.path} has no file qa{task}_*_{split}.txt; give the folder of the"
                " published files" + (", or set splits without test" if split == "test" else "")
            )
        source = Source(file.name, blake2b(file.read_bytes(), digest_size=16).hexdigest())
        if source not in self.sources:
            self.sources.append(source)
        return parse_path(file, WORDS)


class PublishedTask:
    """The examples of a task in one split of the published files.

    Attributes:
        left_out: Number of questions left out, by reason: "wrong" if the answer is wrong, "long" if
            they exceed the window, "withheld" if their type is.
    """

    def __init__(
        self,
        stories: Sequence[Story],
        task: int,
        also: tuple[QuestionKind, ...],
        window: int | None,
        name: str,
        withheld: Withheld,
    ) -> None:
        self._stories = stories
        self._task = task
        self._also = also
        self._window = window
        self._name = name
        self._withheld = withheld
        self.left_out: Counter[str] = Counter()
        # Only count questions here. Their supports are expensive and are computed when the examples
        # are needed.
        self._ends = list(accumulate(map(self._count, stories)))

    @property
    def kinds(self) -> frozenset[str]:
        """Question types that may occur in the task."""
        kinds: set[str] = set(self._also)
        for story in self._stories:
            kinds.update(placed.question.kind for placed in story.questions)
        return frozenset(kind for kind in kinds if not self._withheld(kind))

    @property
    def n(self) -> int:
        """Number of examples."""
        return self._ends[-1] if self._ends else 0

    def rows(self, start: int, stop: int) -> Iterator[Example]:
        """Yield examples start..stop."""
        while start < stop:
            at = bisect_right(self._ends, start)
            first = self._ends[at - 1] if at else 0
            kept = ((k, q) for k, q, why in self._questions(self._stories[at]) if not why)
            for knowledge, question in islice(kept, start - first, stop - first):
                yield self._example(knowledge, question)
            start = self._ends[at]

    def _count(self, story: Story) -> int:
        reasons = Counter(why for _, _, why in self._questions(story))
        kept = reasons.pop("", 0)
        self.left_out += reasons
        return kept

    def _questions(self, story: Story) -> Iterator[tuple[Knowledge, Question, str]]:
        """Yield every question, published or injected, with the knowledge available before it, and
        the reason if it is left out.
        """
        knowledge = Knowledge(WORDS.places)
        length = 0
        for placed in story.questions:
            new = story.events[len(knowledge.events) : placed.after]
            try:
                knowledge.tell_all(new)
            except Contradiction as error:
                raise InputError(
                    f"{self._name}:{story.at[error.sentence]}: the story contradicts itself:"
                    f" {error.reason}"
                ) from None
            length += sum(tokens(e.text) for e in new)
            own = placed.question
            text = ask(own, PUBLISHED)
            others = [q for q in ask_all(knowledge, self._also) if ask(q, PUBLISHED) != text]
            for question in (own, *others):
                # Injected questions have entailed answers by construction, but published answers
                # may be wrong.
                right = question is not own or same_answer(
                    own, answer(knowledge, own), placed.answer
                )
                yield knowledge, question, self._why_left_out(question, length, right)

    def _why_left_out(self, question: Question, length: int, right: bool) -> str:
        """Return the reason for leaving a question out, or "" to keep it. `length` is the number of
        tokens before it.
        """
        if self._withheld(question.kind):
            return "withheld"
        if self._window is not None and length + tokens(_text(question)) > self._window:
            return "long"
        return "" if right else "wrong"

    def _example(self, knowledge: Knowledge, question: Question) -> Example:
        verdict = answer(knowledge, question)
        answered = AnsweredQuestion(
            question, verdict, supports(knowledge, question, verdict) or [()]
        )
        events, task = knowledge.events, f"babi/{self._task}"
        passage = " ".join(e.text for e in events)
        return make_example(
            events,
            passage,
            _text(question),
            answered,
            group=f"qa{self._task}",
            task=task,
            concepts=concepts_of(events),
        )


def _text(question: Question) -> str:
    return question.text or ask(question, PUBLISHED)


# The same tasks, generated by our own recipes

BATCH = 1_000
"""Batch size. Reading a single example generates at most one batch."""

PATIENCE = 1_000
"""Maximum stories drawn to find a question that fits into the window. After that, the window is
considered too narrow.
"""


@dataclass(frozen=True, slots=True)
class GeneratedTask:
    """The examples of a task in one split, generated by our own recipe.

    Attributes:
        n: Number of examples.
        group: Group that defines the events in the stories.
        setting: Settings shared by the groups of a recipe.
        key: Key of the random stream of this task and split.
        rule: Rule that decides which stories belong to the split.
        weights: Weights of events and constructs.
        also: Question types to inject.
        window: Maximum tokens of story and question.
        withheld: Question types that are left out.
    """

    n: int
    group: StoryGroup
    setting: Setting
    key: Key
    rule: SplitRule
    weights: ActionWeights
    also: tuple[QuestionKind, ...]
    window: int | None
    withheld: Withheld = nothing

    @property
    def kinds(self) -> frozenset[str]:
        """Question types that may occur in the task."""
        return frozenset(
            kind for kind in (*self.group.questions, *self.also) if not self.withheld(kind)
        )

    def try_out(self) -> None:
        """Raise an error if no question fits into the window. Only the first question of each story
        is tried, because the text before it is the shortest.

        Raises:
            RecipeError: If no question fits. The error names the task and the window.
        """
        assert self.group.story is not None
        first = self.group.model_copy(
            update={"story": self.group.story.model_copy(update={"questions": 1})}
        )
        for story in range(PATIENCE if self.window is not None else 0):
            (example,) = grow(
                first, self.setting, self.key.random("trial", story), self.rule, self.weights
            )
            if tokens(example.input) <= (self.window or 0):
                return
        if self.window is not None:
            raise RecipeError(
                f"window: in {PATIENCE} stories, no question of {self.setting.task} fits into "
                f"{self.window} tokens; widen it"
            )

    def rows(self, start: int, stop: int) -> Iterator[Example]:
        """Yield examples start..stop."""
        for batch in range(start // BATCH, -(-stop // BATCH)):
            first = batch * BATCH
            for i, example in enumerate(self._batch(batch, min(stop - first, BATCH)), first):
                if i >= start:
                    yield example

    def _batch(self, batch: int, count: int) -> Iterator[Example]:
        story = 0
        while count:
            examples = grow(
                self.group,
                self.setting,
                self.key.random(batch, story),
                self.rule,
                self.weights,
                self.also,
            )
            examples = [e for e in examples if not self.withheld(str(e.traits["question"]))]
            if self.window is not None:
                examples = [e for e in examples if tokens(e.input) <= self.window]
            examples = examples[:count]
            yield from examples
            count -= len(examples)
            story += 1


Block = GeneratedTask | PublishedTask


def plan_concat(fields: BabiFields, key: Key, withheld: Withheld = nothing) -> Plan:
    """Build the plan of a recipe with `concat`. Training excludes the withheld question types."""
    tasks = PARTS[fields.concat]
    sizes = {name: value.n for name, value in fields.splits.items() if isinstance(value, Size)}
    if len(sizes) < len(fields.splits):
        raise RecipeError("concat: groups are not supported; give each split a plain size")
    check_recipe(fields)
    sources: Sequence[Source] = ()
    warnings: list[str] = []
    blocks: dict[str, list[Block]]
    if fields.source:
        folder = Folder(str(fields.find_file(fields.source)))
        blocks = {
            name: _published(fields, folder, name, warnings, _withheld_in(name, withheld))
            for name in sizes
        }
        sources = folder.sources
    else:
        blocks = _generated_blocks(fields, sizes, key, withheld)
    # A task with only withheld questions has no examples left.
    blocks = {
        name: [block for block in of_split if block.kinds] for name, of_split in blocks.items()
    }
    used = list(chain.from_iterable(blocks.values()))
    kinds = sorted(frozenset[str]().union(*[block.kinds for block in used]))
    words = Vocabulary()
    second_solver = partial(check, vocabulary=words, lexicon=PUBLISHED)
    cited = frozenset(b.group.name for b in used if isinstance(b, GeneratedTask) and b.group.cited)
    trial = Trial(block.try_out for block in used if isinstance(block, GeneratedTask) and block.n)
    return Plan(
        splits=tuple(
            Split(
                name,
                sum(b.n for b in of_split),
                partial(trial.rows, partial(_rows, of_split)),
                role_of(name),
                rounds=1 if fields.source else math.inf,
            )
            for name, of_split in blocks.items()
        ),
        traits=TRAITS,
        describe=STORY_TASK,
        scorer=set_of if 8 in tasks else any_of,
        check=second_solver,
        answer=partial(answer_passage, vocabulary=words, lexicon=PUBLISHED, reading="natural"),
        show=partial(show, vocabulary=words, lexicon=PUBLISHED, reading="natural"),
        sources=tuple(sources),
        warnings=tuple(warnings),
        tasks=Tasks(
            "question",
            describe_question,
            tuple(kinds),
            without=lambda withheld: plan_concat(fields, key, withheld),
        ),
        variants=proved(StoryVariants(words, PUBLISHED, cited=cited), second_solver),
    )


def _withheld_in(split: str, withheld: Withheld) -> Withheld:
    """Return the question types missing from a split. Nothing is withheld from tests."""
    return withheld if role_of(split) == "train" else nothing


def _generated_blocks(
    fields: BabiFields, sizes: dict[str, int], key: Key, withheld: Withheld
) -> dict[str, list[Block]]:
    """Build the generated tasks of each split, which share its size."""
    tasks = PARTS[fields.concat]
    # Weights in millionths, so that shares like 4.509 are exact.
    weights = [round(1_000_000 * fields.shares.get(task, 1)) for task in tasks]
    shares = {name: share_out(n, weights) for name, n in sizes.items()}
    blocks: dict[str, list[Block]] = {name: [] for name in sizes}
    for place, task in enumerate(tasks):
        own_sizes = {name: shares[name][place] for name in sizes}
        for name, block in _generated(
            task, fields, own_sizes, key.child("task", task), withheld
        ).items():
            blocks[name].append(block)
    return blocks


def _rows(blocks: list[Block], start: int, stop: int) -> Iterator[Example]:
    total = sum(block.n for block in blocks)
    for number, begin, end in in_rounds(total, start, stop):
        first = 0
        for block in blocks:
            low, high = max(begin, first), min(end, first + block.n)
            if low < high:
                place = number * block.n - first
                yield from block.rows(place + low, place + high)
            first += block.n


def _generated(
    task: int, fields: BabiFields, sizes: dict[str, int], key: Key, withheld: Withheld
) -> dict[str, Block]:
    own = read(f"babi/{task}").fields
    assert isinstance(own, BabiFields)
    # Use minimal supports, because the means in the paper's Table 2 do. The supports cited by bAbI
    # are larger.
    group = own.groups[0].model_copy(update={"name": f"qa{task}", "cited": False})
    setting = Setting(own.vocabulary.vocabulary(), own.style.lexicon(), own.reading, f"babi/{task}")
    rules, weights = split_rules(sizes, key), action_weights(group)
    also = fields.inject.get(task, ())
    return {
        name: GeneratedTask(
            n,
            group,
            setting,
            split_key(key, name),
            rules[name],
            weights,
            also,
            fields.window,
            _withheld_in(name, withheld),
        )
        for name, n in sizes.items()
    }


def _published(
    fields: BabiFields, folder: Folder, split: str, warnings: list[str], withheld: Withheld
) -> list[Block]:
    blocks: list[Block] = []
    for task in PARTS[fields.concat]:
        stories = folder.stories(task, split)
        block = PublishedTask(
            stories,
            task,
            fields.inject.get(task, ()),
            fields.window,
            folder.name(task, split),
            withheld,
        )
        blocks.append(block)
        wrong, long = block.left_out["wrong"], block.left_out["long"]
        if wrong:
            warnings.append(
                f"task {task}, {split}: {wrong} published answers are not entailed and were"
                " left out"
            )
        if long:
            warnings.append(
                f"task {task}, {split}: {long} questions do not fit into {fields.window} tokens "
                "and were left out"
            )
    return blocks
