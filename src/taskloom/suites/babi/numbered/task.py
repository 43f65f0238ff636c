"""Common interface of the seven numbered tasks: from text to proven answers, and from a random
stream to stories.

A task defines its sentences and questions (`sentence`, `question`), its exact solver (`derive`),
its second solver by enumeration (`second`) and its generator (`draw_story`). The generator writes
only text. The solver then derives answers and supports from this text, like a reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, Field, ValidationError

from taskloom.core.errors import InputError, RecipeError
from taskloom.core.example import Answer, Example, Step, Trait
from taskloom.core.seeding import Random
from taskloom.recipe import Fields
from taskloom.recipe.yaml_files import explain
from taskloom.suites.babi.story.text_format import QuestionLine, Sentence, StoryText, read_lines

# Settings: checked vocabularies, and drawing questions evenly over their answers

WORD = r"[^\W\d_]+(?:-[^\W\d_]+)*"
"""Pattern of a name of one word."""

_PART = rf"(?!(?:is|the|fits?|bigger)\b){WORD}"
PHRASE = rf"({_PART}(?: {_PART})*)"
"""Pattern of a name of a thing in a sentence. It contains no function words, so that two sentences
are never parsed as one.
"""


def distinct(names: Sequence[str], least: int = 1) -> None:
    """Reject a vocabulary with duplicates or too few words."""
    seen: set[str] = set()
    for name in names:
        if name.casefold() in seen:
            raise ValueError(f"'{name}' is listed twice")
        seen.add(name.casefold())
    if len(names) < least:
        raise ValueError(f"at least {least} names are required, not {len(names)}")


def _names(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not re.fullmatch(WORD, name) or name.casefold() in ("a", "an", "the"):
            raise ValueError(f"'{name}' is not a single word of letters")
    distinct(names)
    return names


def _phrases(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not re.fullmatch(PHRASE, name):
            raise ValueError(
                f"'{name}' must consist of words of letters, other than is, the, fit, fits and "
                "bigger"
            )
    distinct(names)
    return names


Names = Annotated[tuple[str, ...], AfterValidator(_names)]
"""Distinct single words."""

Phrases = Annotated[tuple[str, ...], AfterValidator(_phrases)]
"""Distinct names of one or more words."""

Share = Annotated[float, Field(ge=0.0, le=1.0)]
"""A probability."""


class TaskKnobs(Fields):
    """Base class for the settings (`knobs`) of the numbered tasks."""


class Asking(TaskKnobs):
    """Settings for drawing questions.

    Attributes:
        questions: Maximum number of questions in a story.
        repeats: True to draw with replacement, as in the published files. Otherwise no question
            occurs twice in a story.
        unknown: Share of questions that the text leaves open, in stories that allow such questions.
    """

    questions: int = Field(default=5, ge=1)
    repeats: bool = False
    unknown: Share = 0.0


def pick_questions(
    rng: Random, pools: Sequence[Sequence[str]], open_ones: Sequence[str], knobs: Asking
) -> list[str]:
    """Draw questions from pools (one for each answer that should be equally frequent) and from the
    open questions.

    Without repeats, every round takes one question from each pool, and drawing ends when a pool is
    empty. So answers remain balanced even if one of them has more questions.
    """
    picked: list[str] = []
    fresh = [rng.sample(pool, len(pool)) for pool in pools if pool]
    left = rng.sample(open_ones, len(open_ones))
    turn: list[int] = []
    while len(picked) < knobs.questions:
        # If only one kind of question is possible, ask it regardless of the random number.
        if (rng.random() < knobs.unknown or not fresh) and open_ones:
            if not (left or knobs.repeats):
                break
            picked.append(rng.choice(open_ones) if knobs.repeats else left.pop())
            continue
        if not fresh:
            break
        if not turn:
            if not knobs.repeats and not all(fresh):
                break
            turn = rng.sample(range(len(fresh)), len(fresh))
        i = turn.pop()
        picked.append(rng.choice(fresh[i]) if knobs.repeats else fresh[i].pop())
    return picked


def article(noun: str) -> str:
    """The noun with an indefinite article."""
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def capital(word: str) -> str:
    """The word with its first letter capitalised and the rest unchanged."""
    return word[:1].upper() + word[1:]


# Tasks: from text to proven answers, and from a stream to stories

UNKNOWN = "unknown"
"""Answer if the text leaves the question open. Published questions never have it; the setting
`unknown` adds such questions.
"""

F = TypeVar("F")
Q = TypeVar("Q")

_PIECE = re.compile(r"[^.?]*[.?]")


@dataclass(frozen=True, slots=True)
class Statement(Generic[F]):
    """A fact with the number of the sentence that states it."""

    number: int
    fact: F


@dataclass(frozen=True, slots=True)
class Proof:
    """An answer with its proof.

    Attributes:
        answer: The entailed answer, or `UNKNOWN`.
        supports: Every minimal set of sentences that entails the answer, shortest first, then
            earliest. Each is in the order of the proof, like the published files. Empty for
            `UNKNOWN`.
        steps: Steps of the proof after the supporting sentences. In `of`, 0, 1, ... are the
            sentences of the first support.
        why: The proof in words. For `UNKNOWN`, what is missing or which facts are in conflict.
        others: Other right answers, if a question has several.
    """

    answer: str
    supports: tuple[tuple[int, ...], ...] = ()
    steps: tuple[Step, ...] = ()
    why: str = ""
    others: tuple[str, ...] = ()

    @property
    def support(self) -> tuple[int, ...]:
        """Official support: the shortest, or the earliest of several."""
        return self.supports[0] if self.supports else ()


@dataclass(frozen=True, slots=True)
class Parsed(Generic[F, Q]):
    """A story with the meanings of its sentences and questions."""

    story: StoryText
    facts: tuple[Statement[F], ...]
    queries: tuple[Q, ...]

    def before(self, question: QuestionLine) -> tuple[Statement[F], ...]:
        """Return the facts known to a reader when the question is asked."""
        return tuple(t for t in self.facts if t.number < question.number)


@dataclass(frozen=True, slots=True)
class NumberedTask(Generic[F, Q]):
    """One of bAbI 1.0's tasks 14 to 20.

    Attributes:
        number: Published number.
        name: Short form of the published name.
        describe: Instruction for a person or a model.
        knobs: Model of the task's settings.
        draw_story: Draws the texts of a story, sentences and questions in order.
        sentence: Parses the fact in a sentence, or returns None if the sentence does not belong to
            this task.
        question: Parses a question, or returns None.
        derive: The solver. Returns the answer with all minimal supports, given facts.
        second: The second solver, by enumeration. Returns the acceptable answers, or only `UNKNOWN`
            if worlds differ.
        clash: Returns the numbers of the sentences that a new fact contradicts, or None.
        mentions: Returns the names in a fact or query that must have been introduced.
        kind: Returns the kind of a query, which is a trait.
        samples: A sample sentence and a sample question, for error messages.
        gap: Text between a question and its tab in the published file.
        convention: Answers by a weaker reading, which explains published answers that the text does
            not entail.
    """

    number: int
    name: str
    describe: str
    knobs: type[TaskKnobs]
    draw_story: Callable[[Random, Any], list[str]]
    sentence: Callable[[str], F | None]
    question: Callable[[str], Q | None]
    derive: Callable[[Sequence[Statement[F]], Q], Proof]
    second: Callable[[Sequence[Statement[F]], Q], tuple[str, ...]]
    clash: Callable[[Sequence[Statement[F]], Statement[F]], tuple[int, ...] | None]
    mentions: Callable[[F | Q], tuple[str, ...]]
    kind: Callable[[Q], str]
    samples: tuple[str, str]
    gap: str = ""
    convention: Callable[[Sequence[Statement[F]], Q], Proof] | None = None

    def read_knobs(self, values: Mapping[str, Any], where: str = "the recipe") -> TaskKnobs:
        """Check settings from a user's file. Errors name the key and the nearest known one."""
        try:
            return self.knobs.model_validate(dict(values))
        except ValidationError as error:
            raise RecipeError(explain(error, self.knobs, where)) from error

    def parse(self, lines: Iterable[str], where: str = "the story") -> list[Parsed[F, Q]]:
        """Parse facts and questions of published text. Errors name the line."""
        return [self.understand(story, where) for story in read_lines(lines, where)]

    def understand(
        self, story: StoryText, where: str = "the story", *, consistent: bool = False
    ) -> Parsed[F, Q]:
        """Parse the facts and questions of a story. Raises an error for unknown sentences and for
        contradictions.

        Args:
            story: The story.
            where: Location for error messages.
            consistent: True to skip the search for contradictions. Generated stories have none, and
                the search takes time (a third of the total in task 19).
        """
        facts: list[Statement[F]] = []
        queries: list[Q] = []
        met: set[str] = set()
        for item in story.lines:
            if isinstance(item, Sentence):
                fact = self.sentence(item.text)
                if fact is None:
                    raise self._unreadable(item, where)
                statement = Statement(item.number, fact)
                against = None if consistent else self.clash(facts, statement)
                if against is not None:
                    numbers = " and ".join(map(str, against))
                    raise InputError(
                        f"{_place(item, where)}: {item.text!r} contradicts "
                        + (f"sentence {numbers}" if numbers else "itself")
                    )
                facts.append(statement)
                met.update(self.mentions(statement.fact))
            else:
                query = self.question(item.text)
                if query is None:
                    raise self._unreadable(item, where)
                strange = [name for name in self.mentions(query) if name not in met]
                if strange:
                    raise InputError(
                        f"{_place(item, where)}: the question is about '{strange[0]}', which the "
                        "story does not mention"
                    )
                queries.append(query)
        return Parsed(story, tuple(facts), tuple(queries))

    def _unreadable(self, item: Sentence | QuestionLine, where: str) -> InputError:
        """Build the error for a line that does not belong to this task."""
        what, sample = (
            ("sentence", self.samples[0])
            if isinstance(item, Sentence)
            else ("question", self.samples[1])
        )
        return InputError(
            f"{_place(item, where)}: {item.text[:80]!r} is not a {what} of task {self.number}; "
            f"its {what}s look like {sample!r}"
        )

    def solve(self, parsed: Parsed[F, Q]) -> list[Proof]:
        """Answer each question of a story from the sentences before it."""
        lines = parsed.story.questions
        return [
            self.derive(parsed.before(a), q) for a, q in zip(lines, parsed.queries, strict=True)
        ]

    def story(self, rng: Random, knobs: TaskKnobs | None = None) -> StoryText:
        """Draw a story with answers and supports, which the solver derives from its text."""
        parsed = self._drawn(rng, knobs)
        answers = iter(self.solve(parsed))
        lines: list[Sentence | QuestionLine] = []
        for item in parsed.story.lines:
            if isinstance(item, QuestionLine):
                proof = next(answers)
                item = QuestionLine(item.number, item.text, proof.answer, proof.support)
            lines.append(item)
        return StoryText(tuple(lines))

    def make(self, rng: Random, knobs: TaskKnobs | None = None) -> list[Example]:
        """Draw a story and return one example for each of its questions."""
        parsed = self._drawn(rng, knobs)
        return [self.example(parsed, i) for i in range(len(parsed.queries))]

    def one(
        self, rng: Random, knobs: TaskKnobs | None, wanted: Callable[[str], bool]
    ) -> Example | None:
        """Draw a single example: one random question about a new story. None if its content does
        not belong to the split.

        Membership is tested before the answer is derived, because every other story belongs to
        another split.
        """
        texts = self.draw_story(rng, knobs or self.knobs())
        place = rng.choice([i for i, text in enumerate(texts) if text.endswith("?")])
        sentences = [text for text in texts[:place] if not text.endswith("?")]
        parsed = self.understand(as_story([*sentences, texts[place]]), consistent=True)
        return self.example(parsed, 0) if wanted(self.signature(parsed.facts)) else None

    def _drawn(self, rng: Random, knobs: TaskKnobs | None) -> Parsed[F, Q]:
        return self.understand(
            as_story(self.draw_story(rng, knobs or self.knobs())), consistent=True
        )

    def example(self, parsed: Parsed[F, Q], i: int) -> Example:
        """Build an example from question i of a story, with its derived answer."""
        line, query = parsed.story.questions[i], parsed.queries[i]
        proof = self.derive(parsed.before(line), query)
        texts = {s.number: s.text for s in parsed.story.sentences if s.number < line.number}
        facts = tuple(Step("told", texts[number], ()) for number in proof.support)
        traits: dict[str, Trait] = {
            "number": self.number,
            "question": self.kind(query),
            "support": len(proof.support),
            "supports": len(proof.supports),
            "support_lines": " ".join(str(_position(parsed.story, n)) for n in proof.support),
            "sentences": len(texts),
        }
        return Example(
            " ".join([*texts.values(), line.text]),
            (proof.answer, *proof.others),
            traits,
            key=self.signature(parsed.before(line)),
            question=line.text,
            derivation=facts + proof.steps,
            task=f"babi/{self.number}",
        )

    def signature(self, facts: Iterable[Statement[F]]) -> str:
        """Return the content key: the set of facts, regardless of wording, order and repetition, so
        that no two splits share a story.
        """
        return f"{self.number}: " + "; ".join(sorted({str(t.fact) for t in facts}))

    def answer(self, text: str) -> Answer:
        """Answer a story and a final question given as one text, as in an example's input."""
        parsed = self.understand(as_story(pieces(text)), "the input")
        if not parsed.queries or not isinstance(parsed.story.lines[-1], QuestionLine):
            raise InputError(f"the input must end with a question such as {self.samples[1]!r}")
        proof = self.solve(parsed)[-1]
        texts = {s.number: s.text for s in parsed.story.sentences}
        return Answer(
            (proof.answer, *proof.others),
            tuple(Step("told", texts[n], ()) for n in proof.support) + proof.steps,
        )

    def check(self, example: Example) -> tuple[str, ...]:
        """Return the acceptable answers by the second solver, using only the example's text."""
        parsed = self.understand(as_story(pieces(example.input)), "the example")
        if not parsed.queries or not isinstance(parsed.story.lines[-1], QuestionLine):
            raise InputError(f"the example must end with a question such as {self.samples[1]!r}")
        return self.second(parsed.facts, parsed.queries[-1])


def _place(item: Sentence | QuestionLine, where: str) -> str:
    """Return a line's location for error messages."""
    return f"{where}:{item.line}" if item.line else f"{where}, sentence {item.number}"


def as_story(texts: Sequence[str]) -> StoryText:
    """Build numbered lines from plain texts. A text that ends with a question mark is a
    question.
    """
    lines = [
        QuestionLine(i, t) if t.endswith("?") else Sentence(i, t) for i, t in enumerate(texts, 1)
    ]
    return StoryText(tuple(lines))


def pieces(text: str) -> list[str]:
    """Split text into its sentences and questions."""
    parts = [p.strip() for p in _PIECE.findall(text)]
    rest = _PIECE.sub("", text).strip()
    if rest or not parts:
        raise InputError(
            "the text must consist of sentences that end with '.' and a question with '?', not"
            f" {text[-60:]!r}"
        )
    return parts


def _position(story: StoryText, number: int) -> int:
    """Return the index of a sentence in the story. Only sentences are counted, because questions
    are not part of an example's context.
    """
    return sum(s.number <= number for s in story.sentences)
