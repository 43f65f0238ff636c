"""The published files of bAbI 1.0 as examples: each question whose answer the text entails, and the injected ones."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import accumulate, islice
from pathlib import Path

from taskloom.core.errors import InputError, RecipeError
from taskloom.core.example import Example
from taskloom.core.plan import Source, Withheld
from taskloom.suites.babi.generator.examples import (
    AnsweredQuestion,
    concepts_of,
    make_example,
    tokens,
)
from taskloom.suites.babi.generator.story_setting import ask_all
from taskloom.suites.babi.reasoner.answers import answer, supports
from taskloom.suites.babi.reasoner.knowledge import Contradiction, Knowledge
from taskloom.suites.babi.solve_file import same_answer
from taskloom.suites.babi.story.events import Question, QuestionKind, Story
from taskloom.suites.babi.story.grammar import parse_path
from taskloom.suites.babi.story.sentences import ask
from taskloom.suites.babi.story.vocabulary import PUBLISHED, Vocabulary

WORDS = Vocabulary()


class Folder:
    """A folder with files named qa1_*_train.txt and so on; remembers the digest of every file it read.

    Raises:
        RecipeError: There is no such folder.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.sources: list[Source] = []
        if not self.path.is_dir():
            raise RecipeError(
                f"source: there is no folder {path}; it must hold the files qa1_*_train.txt and so on"
            )

    def stories(self, task: int, split: str) -> list[Story]:
        """Read the stories of a task; where there is no file for dev, it is the last tenth of the training file."""
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
        """Return the file that the stories of a split come from."""
        own = self._find(task, {"dev": "valid"}.get(split, split))
        return str(own or self._find(task, "train"))

    def _find(self, task: int, split: str) -> Path | None:
        return min(self.path.glob(f"qa{task}_*{split}.txt"), default=None)

    def _read(self, task: int, split: str) -> list[Story]:
        file = self._find(task, split)
        if file is None:
            raise RecipeError(
                f"source: {self.path} has no file qa{task}_*_{split}.txt; give the folder of the published files"
                + (", or set splits without test" if split == "test" else "")
            )
        source = Source(file.name, blake2b(file.read_bytes(), digest_size=16).hexdigest())
        if source not in self.sources:
            self.sources.append(source)
        return parse_path(file, WORDS)


class PublishedTask:
    """The examples of one task in one split of the published files.

    Attributes:
        left_out: How many questions were left out, by reason: "wrong" answers, those too "long" for the window, "withheld" types.
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
        self._task, self._also, self._window, self._name, self._withheld = (
            task,
            also,
            window,
            name,
            withheld,
        )
        self.left_out: Counter[str] = Counter()
        # Only the questions are counted here; their supports, which cost more, wait until the examples are wanted.
        self._ends = list(accumulate(map(self._count, stories)))

    @property
    def kinds(self) -> frozenset[str]:
        """Return the question types that it may have."""
        published = (placed.question.kind for story in self._stories for placed in story.questions)
        return frozenset(kind for kind in (*published, *self._also) if not self._withheld(kind))

    @property
    def n(self) -> int:
        """Count the examples."""
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
        """Yield every question, published or injected, with the knowledge before it and why it is left out, if it is."""
        knowledge = Knowledge(WORDS.places)
        length = 0
        for placed in story.questions:
            new = story.events[len(knowledge.events) : placed.after]
            try:
                knowledge.tell_all(new)
            except Contradiction as error:
                raise InputError(
                    f"{self._name}:{story.at[error.sentence]}: the story contradicts itself: {error.reason}"
                ) from None
            length += sum(tokens(e.text) for e in new)
            own = placed.question
            text = ask(own, PUBLISHED)
            others = [q for q in ask_all(knowledge, self._also) if ask(q, PUBLISHED) != text]
            for question in (own, *others):
                # An injected question is asked because its answer is entailed; a published answer may be wrong.
                right = question is not own or same_answer(
                    own, answer(knowledge, own), placed.answer
                )
                yield knowledge, question, self._why_left_out(question, length, right)

    def _why_left_out(self, question: Question, length: int, right: bool) -> str:
        """The reason to leave a question out, or "" to keep it; `length` is the number of tokens before it."""
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
