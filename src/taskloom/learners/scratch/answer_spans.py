"""Answers that are spans of the input: finding them, and converting scores for start and end into
an answer.

An input is a context followed by a question, which is its last sentence. Learners know nothing
about suites. In addition to the text, they use only the trait `support_lines` (the numbers of the
sentences that prove the answer), if an example has it.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from taskloom.core.errors import InputError
from taskloom.core.example import QUESTION_MARK, Example
from taskloom.learners.interface import LearnerError, check_candidates, texts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Missing = Literal["refuse", "skip"]
"""Treatment of training examples whose answer is not part of their context."""

_SENTENCE = re.compile(r"[^.?!\n]*[^.?!\s][^.?!\n]*[.?!]*")


def split_question(text: str) -> tuple[str, str]:
    """Split an input into context and question. The question is the text after the mark or, without
    a mark, the last sentence.
    """
    context, mark, question = text.rpartition(QUESTION_MARK)
    if mark and context.strip() and question.strip():
        return context, question.strip()
    pieces = list(_SENTENCE.finditer(text))
    if len(pieces) < 2:
        raise InputError(
            f"the input {text[:60]!r} has no text before its question, and this learner's"
            " answers are spans of that text"
        )
    last = pieces[-1]
    return text[: last.start()].rstrip(), last.group().strip()


def occurrences(context: str, answer: str) -> list[tuple[int, int]]:
    """Find an answer as whole words, ignoring case if it does not occur as written."""
    pattern = rf"(?<!\w){re.escape(answer)}(?!\w)"
    if not answer.strip():
        return []
    spans = [m.span() for m in re.finditer(pattern, context)]
    return spans or [m.span() for m in re.finditer(pattern, context, re.IGNORECASE)]


def find_span(context: str, example: Example) -> tuple[int, int] | None:
    """Find the official position of an answer: at the trait `answer_start`, in the last supporting
    sentence that contains it, or else its last occurrence.
    """
    start = example.traits.get("answer_start")
    if isinstance(start, int) and context.startswith(example.target, start):
        return start, start + len(example.target)
    for target in example.targets:
        spans = occurrences(context, target)
        if not spans:
            continue
        sentences = [m.span() for m in _SENTENCE.finditer(context)]
        for number in reversed(str(example.traits.get("support_lines", "")).split()):
            line = int(number) - 1 if number.isdigit() else -1
            if 0 <= line < len(sentences):
                first, last = sentences[line]
                inside = [(a, b) for a, b in spans if first <= a and b <= last]
                if inside:
                    return inside[-1]
        return spans[-1]
    return None


@dataclass(frozen=True, slots=True)
class SpanExample:
    """An example with the span of its answer in characters of the context, or None if the answer is
    not in it.
    """

    context: str
    question: str
    span: tuple[int, int] | None


def ask(examples: Sequence[Example]) -> list[SpanExample]:
    """Return examples with their spans."""
    questions = []
    for example in examples:
        context, question = split_question(example.input)
        questions.append(SpanExample(context, question, find_span(context, example)))
    return questions


def with_spans(examples: Sequence[Example], name: str, missing: Missing) -> list[Example]:
    """Return the training examples whose answer is part of their context. If there are others,
    raise an error that counts them, or skip them with a warning.
    """
    kept: list[Example] = []
    lost: list[Example] = []
    for example, question in zip(examples, ask(examples), strict=True):
        (lost if question.span is None else kept).append(example)
    if not lost:
        return kept
    problem = (
        f"{len(lost):,} of {len(examples):,} training examples have an answer that is not part of"
        f" their text (as {lost[0].target[:60]!r} in {lost[0].input[-60:]!r})"
    )
    if missing == "refuse" or not kept:
        raise LearnerError(
            f"{name} can only point at words of the input: {problem}; leave these out"
            " (without_span: skip), or use a learner that writes or classifies"
        )
    warnings.warn(f"{problem}; they are left out", stacklevel=3)
    return kept


@dataclass(frozen=True, slots=True)
class Pointed:
    """Output of a model for one input.

    Attributes:
        context: Text of the context.
        offsets: First and last character (exclusive) of each of its tokens.
        start: Log-probability of each token to begin the answer.
        end: Log-probability of each token to end it.
    """

    context: str
    offsets: list[tuple[int, int]]
    start: NDArray[np.float64]
    end: NDArray[np.float64]

    def best(self, longest: int) -> str:
        """Find the likeliest span of at most `longest` tokens. No table of all pairs is built,
        because it would cost more than the model.
        """
        import numpy as np

        n = len(self.offsets)
        start, end = self.start[:n], self.end[:n]
        if longest >= n:
            # Find the best start up to each end, then the best end.
            last = int((np.maximum.accumulate(start) + end).argmax())
            first = int(start[: last + 1].argmax())
        else:
            # sums[more][first] is the log-probability of the span from first to first + more.
            sums = [start[: n - more] + end[more:] for more in range(longest)]
            tops = [float(s.max()) for s in sums]
            more = int(np.argmax(tops))
            first = int(sums[more].argmax())
            last = first + more
        return self.context[self.offsets[first][0] : self.offsets[last][1]]

    def weigh(self, candidate: str) -> float:
        """Log-probability that the answer is this text, summed over its occurrences, or minus
        infinity if it does not occur.
        """
        import numpy as np

        # Index of the first token that begins at each character, and of the last one that ends
        # there.
        starts: dict[int, int] = {}
        ends: dict[int, int] = {}
        for i, (a, b) in enumerate(self.offsets):
            if b > a:
                starts.setdefault(a, i)
                ends[b] = i
        logprobs = []
        for a, b in occurrences(self.context, candidate):
            if a in starts and b in ends:  # otherwise the text begins or ends inside a token
                logprobs.append(float(self.start[starts[a]] + self.end[ends[b]]))
        return float(np.logaddexp.reduce(logprobs)) if logprobs else -math.inf


class Weighing(Protocol):
    """Output of a model for one input, which gives the probability of any text as the answer."""

    def weigh(self, candidate: str) -> float:
        """Log-probability that the answer is this text."""


def weigh_all(
    point: Callable[[list[str]], Iterable[Weighing]],
    inputs: Sequence[str],
    candidates: Sequence[Sequence[str]],
) -> list[list[float]]:
    """Return the log-probability of each candidate, summed over its occurrences in its input, or
    minus infinity if it does not occur.

    Args:
        point: The model.
        inputs: The inputs.
        candidates: The candidates for each input.
    """
    inputs = texts(inputs)
    check_candidates(inputs, candidates)
    pairs = zip(point(inputs), candidates, strict=True)
    return [[pointed.weigh(candidate) for candidate in row] for pointed, row in pairs]


@dataclass(frozen=True, slots=True)
class SpanTable:
    """Scores of whole spans for one input.

    Attributes:
        context: Text of the context.
        offsets: First and last character (exclusive) of each of its tokens.
        table: Log-probability of each span, indexed by its number of words minus 1 and by its
            start.
    """

    context: str
    offsets: list[tuple[int, int]]
    table: NDArray[np.float64]

    def best(self, longest: int) -> str:
        """Find the likeliest span of at most `longest` tokens."""
        import numpy as np

        n = len(self.offsets)
        table = self.table[: min(longest, n), :n]
        more, first = np.unravel_index(int(table.argmax()), table.shape)
        last = min(int(first + more), n - 1)
        return self.context[self.offsets[int(first)][0] : self.offsets[last][1]]

    def weigh(self, candidate: str) -> float:
        """Log-probability that the answer is this text, summed over its occurrences."""
        import numpy as np

        starts = {a: i for i, (a, b) in reversed(list(enumerate(self.offsets))) if b > a}
        ends = {b: i for i, (a, b) in enumerate(self.offsets) if b > a}
        places: list[float] = []
        for a, b in occurrences(self.context, candidate):
            if a in starts and b in ends and ends[b] - starts[a] < len(self.table):
                places.append(float(self.table[ends[b] - starts[a], starts[a]]))
        return float(np.logaddexp.reduce(places)) if places else -math.inf
