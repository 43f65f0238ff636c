"""Scorers of sequences: share of positions with an acceptable answer.

A position may have many acceptable answers, and an answer several words. Without separators, the
text does not show where an answer ends, so the best of all segmentations counts, as in the paper's
appendix B. It is found by dynamic programming over cut points. (In the published code this search
has no effect: a perfect answer to a lexical map of eight items scores 24 to 75 %.)
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from taskloom.core.example import Example
from taskloom.core.scoring import AnyOf, Scorer
from taskloom.suites.taskbench.evaluation.derivations import items, join


def plain(text: str) -> str:
    """Normalise the case, Unicode form and white space of a text. Full stops remain, because an
    answer may end in 'Jr.'.
    """
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


Sets = Sequence[Sequence[str]]
"""The acceptable answers at each position."""


def best_segmentation(
    words: Sequence[str], sets: Sequence[frozenset[tuple[str, ...]]]
) -> list[bool]:
    """Return a mask of the positions that are right under the best segmentation of the words into
    consecutive answers, one per position.

    Every answer has at least one word. If there are too few words, the last positions are empty and
    wrong. Surplus words are assigned to the last position. With n positions, m words and answers of
    k different lengths, this takes n·m·k steps.

    Args:
        words: Words of a prediction.
        sets: The acceptable answers at each position, each as a tuple of words.
    """
    # best[i][j]: maximum number of right positions if the first i positions use the first j words.
    # came[i][j]: where the words of position i begin, and whether they are an acceptable answer.
    m, n = len(words), len(sets)
    worst = -1
    best = [[worst] * (m + 1) for _ in range(n + 1)]
    came: list[list[tuple[int, bool]]] = [[(0, False)] * (m + 1) for _ in range(n + 1)]
    best[0][0] = 0
    for i, accepted in enumerate(sets):
        sizes = sorted({len(answer) for answer in accepted})
        before, here = best[i], best[i + 1]
        reach, reach_at = worst, 0
        for j in range(1, m + 1):
            if before[j - 1] > reach:
                reach, reach_at = before[j - 1], j - 1
            here[j], came[i + 1][j] = reach, (reach_at, False)
            for size in sizes:
                if size > j:
                    break
                start = j - size
                if (
                    before[start] >= here[j]
                    and before[start] > worst
                    and tuple(words[start:j]) in accepted
                ):
                    here[j], came[i + 1][j] = before[start] + 1, (start, True)
    used = max(range(n + 1), key=lambda i: (best[i][m], i))
    right = [False] * n
    place = m
    for i in range(used, 0, -1):
        place, right[i - 1] = came[i][place]
    return right


@dataclass(frozen=True, slots=True)
class Positions:
    """The share of positions with an acceptable answer.

    Attributes:
        sets: Returns the acceptable answers at each position of an example's result.
        separators: True if answers are separated by #. Otherwise the best segmentation counts.
        whole: True if a sequence only scores if every position is right.
        name: Name in reports.
    """

    sets: Callable[[Example], Sets]
    separators: bool = False
    whole: bool = False
    name: str = "positions"

    def score(self, prediction: str, example: Example) -> float:
        """Return the share of right positions, relative to the length of the right result. If
        `whole`, return 1 or 0.
        """
        right = self.right(prediction, example)
        if self.whole:
            return float(all(right))
        return sum(right) / len(right) if right else float(not prediction.strip())

    def right(self, prediction: str, example: Example) -> list[bool]:
        """Return a mask of the right positions."""
        accepted = [[plain(answer) for answer in answers] for answers in self.sets(example)]
        if not self.separators:
            return best_segmentation(
                plain(prediction).split(),
                [frozenset(tuple(a.split()) for a in s) for s in accepted],
            )
        parts = [plain(item) for item in prediction.split("#")]
        if len(parts) > len(accepted) > 0:
            # Surplus answers belong to the last position, as without separators.
            parts = [*parts[: len(accepted) - 1], " # ".join(parts[len(accepted) - 1 :])]
        parts += [""] * (len(accepted) - len(parts))
        return [item in answers for item, answers in zip(parts, accepted, strict=False)]

    def explain(self, prediction: str, example: Example) -> str:
        """List the positions that are wrong."""
        right = self.right(prediction, example)
        wrong = [str(i) for i, ok in enumerate(right, 1) if not ok]
        if not wrong:
            return f"all {len(right)} positions are right"
        sets = self.sets(example)
        first = sets[int(wrong[0]) - 1]
        shown = ", ".join(list(first)[:5]) + (", …" if len(first) > 5 else "")
        answers = f"{len(right) - len(wrong)} of {len(right)} positions are right"
        return f"{answers}; wrong: {', '.join(wrong)} (right at {wrong[0]}: {shown})"


@dataclass(frozen=True, slots=True)
class ReferencePositions:
    """The published code's score, which compares the first n words with the n positions. It is only
    used to measure the difference.

    Without separators, answers of several words never match. The code compares lower-cased output
    with unchanged answer sets, so answers with capitals never match either. The released data have
    no capitals (`case: lower`).
    """

    sets: Callable[[Example], Sets]
    separators: bool = False
    name: str = "reference-compatible"

    def score(self, prediction: str, example: Example) -> float:
        """Return the number of matching positions over the number of positions."""
        sets = self.sets(example)
        lower = prediction.lower()
        answers = lower.split()
        if self.separators:
            answers = [item.strip() for item in lower.split("#")]
        if not sets:
            return 0.0
        right = sum(a in set(s) for a, s in zip(answers, sets, strict=False))
        return right / len(sets)

    def explain(self, prediction: str, example: Example) -> str:
        """Explain how it compares."""
        return (
            f"{self.score(prediction, example):.0%} for the first {len(self.sets(example))} "
            "words, with the published code's method"
        )


@dataclass(frozen=True, slots=True)
class ByTask:
    """Scorer for recipes with both words and sequences: words by any acceptable answer, sequences
    by position.
    """

    sequences: Callable[[str], Scorer | None]
    name: str = "taskbench"

    def _own(self, example: Example) -> Scorer:
        return self.sequences(example.task) or AnyOf(numbers=False)

    def score(self, prediction: str, example: Example) -> float:
        """Score with the scorer of the example's task."""
        return self._own(example).score(prediction, example)

    def explain(self, prediction: str, example: Example) -> str:
        """Explain with the scorer of the example's task."""
        return self._own(example).explain(prediction, example)


def confirm(sets: list[list[str]], example: Example, separators: bool) -> tuple[str, ...]:
    """Return the example's own target if it is right at every position and has no surplus answers,
    otherwise a right answer.
    """
    if separators:
        answers = items(example.target, True)
        right = len(answers) == len(sets)
        right = right and all(a in s for a, s in zip(answers, sets, strict=False))
    else:
        accepted = [frozenset(tuple(a.split()) for a in s) for s in sets]
        right = all(best_segmentation(example.target.split(), accepted))
    if right:
        return (example.target,)
    return (join((s[0] if s else "" for s in sets), separators),)


def cut(text: str, sets: Sequence[Sequence[str]]) -> list[str]:
    """Split a right result without separators into its positions. Each position gets the longest
    answer that still allows the rest to be right.
    """
    accepted = [frozenset(tuple(a.split()) for a in s) for s in sets]
    words = text.split()
    parts: list[str] = []
    for i, answers in enumerate(accepted):
        for size in sorted({len(a) for a in answers}, reverse=True):
            rest = words[size:]
            if tuple(words[:size]) in answers and all(best_segmentation(rest, accepted[i + 1 :])):
                parts.append(" ".join(words[:size]))
                words = rest
                break
    return parts
