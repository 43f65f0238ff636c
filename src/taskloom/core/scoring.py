"""Scorers shared by several suites: objects that score a prediction and explain the score.

A scorer is a frozen dataclass with `score(prediction, example) -> float` in [0, 1] and
`explain(prediction, example) -> str`. Its settings are its fields, so its `repr` rebuilds it. A
scorer can be called with a prediction and the right answer: `exact("a", "a")`.
"""

from __future__ import annotations

import inspect
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from taskloom.core.errors import InputError, TaskloomError, echo, raised_at
from taskloom.core.example import Example

_NUMBER_WORDS = [
    "none",
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
]
_NUMBERS: dict[str, int] = {word: max(0, i - 1) for i, word in enumerate(_NUMBER_WORDS)} | {"no": 0}
_NO_NUMBERS = frozenset({"no"})
"""Words that mean zero as the answer to a question for a number, but something else in other
answers.
"""
_TENS = {
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "seventy": 70,
    "eighty": 80,
    "ninety": 90,
    "twenty": 20,
}


ROUNDING = 1e-12
"""Tolerance below a threshold. A mean of exactly 0.9 may be computed as 0.8999999999999999."""


def competence_at(scores: Sequence[float], threshold: float, rounding: float = ROUNDING) -> float:
    """Return C@T, the share of tasks with a score of at least T percent.

    Args:
        scores: One score in [0, 1] per task; at least one.
        threshold: T, in percent. A score equal to T counts (Weller et al. 2020, section 2.3:
            competent if the metric >= c).
        rounding: Tolerance below T; 0 compares floats exactly.

    >>> competence_at([0.9, 0.75, 0.5, 1.0], 90)
    0.5
    """
    border = threshold / 100 - rounding
    return sum(score >= border for score in scores) / len(scores)


NO_ANSWER = "∅"
"""Text to score if a reply has no answer. It is wrong for every example, whereas a scorer may
accept an empty text: ZEST's scorer reads it as `n/a`.
"""


def answer_or_none(answer: str) -> str:
    """Return the text to score for an extracted answer, which may be empty.

    >>> answer_or_none("kitchen"), answer_or_none(" ")
    ('kitchen', '∅')
    """
    return answer if answer.strip() else NO_ANSWER


@runtime_checkable
class Scorer(Protocol):
    """Protocol of all scorers."""

    @property
    def name(self) -> str:
        """Name in recipes and on the command line."""

    def score(self, prediction: str, example: Example) -> float:
        """Return the score of a prediction, from 0 to 1."""

    def explain(self, prediction: str, example: Example) -> str:
        """Explain the score in one sentence."""


class CallableScorer:
    """Allows a scorer to be called with the right answer instead of an example."""

    __slots__ = ()

    def __call__(self: Scorer, prediction: str, target: str | Sequence[str] | Example) -> float:
        """Return the score of a prediction, from 0 to 1.

        >>> exact("a", "a"), any_of("Kitchen", ["garden", "kitchen"])
        (1.0, 1.0)
        """
        example = target if isinstance(target, Example) else Example("", target)
        return self.score(prediction, example)


def tidy(text: str) -> str:
    """Normalise an answer for comparison: Unicode form, case, single spaces, no final full stop."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split()).removesuffix(".").rstrip()


_ARTICLE = re.compile(r"(?:the|an?) (?=\w{2})")
"""An article before a word. A single letter after it may be an item in a list of symbols (`a b`).
"""


def bare(text: str) -> str:
    """Normalise an answer like `tidy`, and drop a leading article.

    >>> bare("The Kitchen."), bare("a b"), bare("an")
    ('kitchen', 'a b', 'an')
    """
    tidied = tidy(text)
    article = _ARTICLE.match(tidied)
    return tidied[article.end() :] if article else tidied


_SEPARATOR = re.compile(r"[,;\n]|\band\b", re.IGNORECASE)


def items(text: str) -> list[str]:
    """Split a list answer at commas or semicolons, or at spaces if it has neither."""
    pieces = _SEPARATOR.split(text) if _SEPARATOR.search(text) else text.split()
    return [t for t in (tidy(p) for p in pieces) if t]


def number(text: str) -> int | None:
    """Parse an integer in digits or in English words up to ninety-nine. None if the text is
    neither.
    """
    word = tidy(text)
    if re.fullmatch(r"[-+]?\d+", word):
        return int(word)
    if word in _NUMBERS:
        return _NUMBERS[word]
    tens, _, unit = word.replace("-", " ").partition(" ")
    if tens in _TENS:
        if not unit:
            return _TENS[tens]
        rest = _NUMBERS.get(unit, 0)
        return _TENS[tens] + rest if 1 <= rest <= 9 else None
    return None


@dataclass(frozen=True, slots=True)
class Exact(CallableScorer):
    """Right if the prediction equals the official target, ignoring surrounding white space."""

    name: str = "exact"

    def score(self, prediction: str, example: Example) -> float:
        """Return 1 if the prediction equals the official target, else 0."""
        return float(prediction.strip() == example.target.strip())

    def explain(self, prediction: str, example: Example) -> str:
        """List the expected answers."""
        verdict = "equals" if self.score(prediction, example) else "is not"
        return f"'{prediction.strip()}' {verdict} the target '{example.target}'"


@dataclass(frozen=True, slots=True)
class AnyOf(CallableScorer):
    """Right if the prediction is one of the acceptable targets, in any case and spacing, with or
    without an article.

    Numbers may be written in digits or words, except that `no` is not read as 0, because it also
    answers other questions.

    Attributes:
        name: Name in recipes and on the command line.
        numbers: True if a number in digits equals the same number in words. False for tasks that
            ask for one form given the other (synonyms of 14).
    """

    name: str = "any-of"
    numbers: bool = True

    def score(self, prediction: str, example: Example) -> float:
        """Return 1 if any target matches, else 0."""
        if tidy(prediction) in {tidy(t) for t in example.targets}:
            return 1.0
        answer, wanted = bare(prediction), {bare(t) for t in example.targets}
        if answer in wanted:
            return 1.0
        value = number(answer) if self.numbers and answer not in _NO_NUMBERS else None
        return float(value is not None and value in {number(t) for t in wanted - _NO_NUMBERS})

    def explain(self, prediction: str, example: Example) -> str:
        """List the accepted answers."""
        verdict = "is among" if self.score(prediction, example) else "is not among"
        shown = ", ".join(example.targets[:5]) + (", …" if len(example.targets) > 5 else "")
        return (
            f"'{prediction.strip()}' {verdict} the {len(example.targets)} acceptable answers"
            f" ({shown})"
        )


def _sets(text: str) -> list[set[str]]:
    """Return the possible readings of a list answer as a set. Without separators, either every word
    is an item or the whole text is.
    """
    pieces = {bare(item) for item in items(text)}
    whole = {bare(text)} - {""}
    return [pieces] if pieces == whole or _SEPARATOR.search(text) else [pieces, whole]


@dataclass(frozen=True, slots=True)
class SetOf(CallableScorer):
    """Compares the items of a list in any order. Repeated items count once. With `partial`, the
    score is the F1 of the two sets.
    """

    name: str = "set"
    partial: bool = False

    @property
    def describe(self) -> str:
        """One-line description: how unequal sets are scored."""
        end = (
            "gives the F1 of the two sets" if self.partial else "right when the two sets are equal"
        )
        return f"Compares the items of a list in any order, a repeated item once: {end}."

    def score(self, prediction: str, example: Example) -> float:
        """Return 1 for equal sets, else 0 or, with `partial`, the F1 of the two sets. The best
        target counts.
        """
        return max(
            self._one(a, b) for t in example.targets for b in _sets(t) for a in _sets(prediction)
        )

    def _one(self, answer: set[str], wanted: set[str]) -> float:
        if answer == wanted:
            return 1.0
        if not self.partial or not answer or not wanted:
            return 0.0
        return 2 * len(answer & wanted) / (len(answer) + len(wanted))

    def explain(self, prediction: str, example: Example) -> str:
        """List missing and superfluous items."""
        pairs = [(a, b) for a in _sets(prediction) for b in _sets(example.target)]
        answer, wanted = max(pairs, key=lambda pair: self._one(*pair))
        missing, extra = sorted(wanted - answer), sorted(answer - wanted)
        if not missing and not extra:
            return f"all {len(wanted)} items, and no other"
        parts = [f"missing: {', '.join(missing)}"] if missing else []
        return "; ".join(parts + ([f"superfluous: {', '.join(extra)}"] if extra else []))


@dataclass(frozen=True, slots=True)
class PerPosition(CallableScorer):
    """The share of positions with equal words. A missing or superfluous word counts as a wrong
    position.
    """

    name: str = "per-position"

    def score(self, prediction: str, example: Example) -> float:
        """Return the number of equal positions, divided by the greater length. The best target
        counts.
        """
        answer = tidy(prediction).split()
        return max(self._one(answer, tidy(t).split()) for t in example.targets)

    def _one(self, answer: list[str], wanted: list[str]) -> float:
        longest = max(len(answer), len(wanted))
        return (
            sum(a == b for a, b in zip(answer, wanted, strict=False)) / longest if longest else 1.0
        )

    def explain(self, prediction: str, example: Example) -> str:
        """Name the first position that differs."""
        answer, wanted = tidy(prediction).split(), tidy(example.target).split()
        for i in range(max(len(answer), len(wanted))):
            a = answer[i] if i < len(answer) else "nothing"
            b = wanted[i] if i < len(wanted) else "nothing"
            if a != b:
                return f"position {i + 1}: said {a}, wanted {b}"
        return f"all {len(wanted)} positions agree"


@dataclass(frozen=True, slots=True)
class NumberWord(CallableScorer):
    """Right if the numbers are equal, in digits or words ('two' is '2', and 'none' is '0')."""

    name: str = "number-words"

    def score(self, prediction: str, example: Example) -> float:
        """Return 1 for equal numbers, else 0. Texts without a number are compared as text."""
        return float(any(self._same(prediction, t) for t in example.targets))

    def _same(self, answer: str, wanted: str) -> bool:
        a, b = number(answer), number(wanted)
        return a == b if a is not None and b is not None else tidy(answer) == tidy(wanted)

    def explain(self, prediction: str, example: Example) -> str:
        """Return both numbers."""
        a, b = number(prediction), number(example.target)
        if a is None:
            return (
                f"'{prediction.strip()}' says no number; wanted"
                f" {b if b is not None else example.target}"
            )
        return f"said {a}, wanted {b if b is not None else example.target}"


_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_ASCII_MARKS = str.maketrans("", "", string.punctuation)


def squad_normal(text: str) -> str:
    """Normalise an answer like SQuAD's official script: lower case, no ASCII punctuation, no
    articles, single spaces.

    >>> squad_normal("The  U.S. Army's")
    'us armys'
    """
    bare_text = text.lower().translate(_ASCII_MARKS)
    return " ".join(_ARTICLES.sub(" ", bare_text).split())


@dataclass(frozen=True, slots=True)
class SquadMatch(CallableScorer):
    """SQuAD's official scores: exact match or F1 over words, for the best acceptable answer."""

    name: str = "squad-em"
    partial: bool = False

    @property
    def describe(self) -> str:
        """One-line description: exact match or F1."""
        which = "F1 over words" if self.partial else "exact match"
        return (
            f"SQuAD's official {which}, without articles and punctuation; the best target counts."
        )

    def score(self, prediction: str, example: Example) -> float:
        """Return the score for the best target."""
        answer = squad_normal(prediction)
        return max(self._one(answer, squad_normal(target)) for target in example.targets)

    def _one(self, answer: str, wanted: str) -> float:
        if not self.partial:
            return float(answer == wanted)
        ours, theirs = answer.split(), wanted.split()
        common = sum((Counter(ours) & Counter(theirs)).values())
        return 2 * common / (len(ours) + len(theirs)) if common else 0.0

    def explain(self, prediction: str, example: Example) -> str:
        """Show the normalised texts."""
        wanted = " | ".join(dict.fromkeys(squad_normal(target) for target in example.targets))
        return f"compared as '{squad_normal(prediction)}' with '{wanted}'"


exact = Exact()
any_of = AnyOf()
set_of = SetOf()
per_position = PerPosition()
number_words = NumberWord()
squad_em = SquadMatch()

CLOSED = 32
"""Maximum number of distinct answers for which `form_of` returns an example."""


def form_of(targets: Iterable[Sequence[str]]) -> Example | None:
    """Return an example that accepts the answers of all given items, to measure whether replies
    have the right form even if they are wrong. None if the items have too many distinct answers.

    >>> form = form_of([["garden"], ["kitchen"]])
    >>> any_of("Kitchen.", form), any_of("She may be in the kitchen", form)
    (1.0, 0.0)

    Args:
        targets: The acceptable answers of each item.
    """
    answers = {target for row in targets for target in row}
    if not answers or len(answers) > CLOSED:
        return None
    return Example("", sorted(answers))


SCORERS: dict[str, Scorer] = {
    scorer.name: scorer
    for scorer in (
        exact,
        any_of,
        set_of,
        SetOf("set-f1", partial=True),
        per_position,
        number_words,
        squad_em,
        SquadMatch("squad-f1", partial=True),
    )
}
_HOMES: dict[str, str] = dict.fromkeys(SCORERS, __name__)
"""Module that registered each scorer."""


S = TypeVar("S", bound=Scorer)


def register(scorer: S, home: str | None = None) -> S:
    """Register a scorer under its name. It is an error if two modules register the same name,
    because either choice could be wrong.
    """
    home = home or type(scorer).__module__
    if _HOMES.get(scorer.name, home) != home:
        raise TaskloomError(
            f"the scorer '{scorer.name}' is defined twice: in {_HOMES[scorer.name]} and in {home};"
            " rename one"
        )
    SCORERS[scorer.name], _HOMES[scorer.name] = scorer, home
    return scorer


def scorers_of(home: str) -> list[str]:
    """Return the names of the scorers registered by a module or its submodules."""
    return [
        name for name, module in _HOMES.items() if module == home or module.startswith(f"{home}.")
    ]


def forget(home: str) -> None:
    """Remove the scorers that a module registered, before it is imported again."""
    for name in scorers_of(home):
        del SCORERS[name], _HOMES[name]


@dataclass(frozen=True, slots=True)
class FunctionScorer(CallableScorer):
    """A scorer defined by a function from a prediction and its example to a number from 0 to 1."""

    name: str
    function: Callable[[str, Example], float]
    describe: str = ""
    needs: tuple[str, ...] = ()
    """Traits that an example must have to be scored."""

    def score(self, prediction: str, example: Example) -> float:
        """Call the function, and check that it returns a number from 0 to 1."""
        for trait in self.needs:
            if trait not in example.traits:
                raise InputError(
                    f"the scorer {self.name} needs the trait '{trait}', which the example "
                    f"{echo(example.input)} does not have"
                )
        try:
            value = self.function(prediction, example)
        except TaskloomError:
            raise
        except (Exception, SystemExit) as error:
            raise TaskloomError(
                f"the scorer {self.name} raised {type(error).__name__}: {error}{raised_at(error)}"
            ) from error
        if isinstance(value, int | float) and 0 <= value <= 1:
            return float(value)
        raise TaskloomError(
            f"the scorer {self.name} returned {value!r} for {prediction!r}; a score must be from "
            "0 to 1"
        )

    def explain(self, prediction: str, example: Example) -> str:
        """State the score and the target."""
        score = self.score(prediction, example)
        return (
            f"'{prediction.strip()}' scores {score:g} by {self.name}; the target is"
            f" '{example.target}'"
        )


def scorer(
    name: str, *, describe: str = "", needs: Sequence[str] = ()
) -> Callable[[Callable[..., Any]], Scorer]:
    """Register a scorer: a function from a prediction and its example to a score, or a class with
    `score` and `explain`.

    The decorator returns a scorer, which can be passed to `@tl.task(scorer=…)` and which `rescore`
    finds by name.

    Args:
        name: Name with letters, digits, `-`, `_` and `.`; it becomes part of file names.
        describe: One-line description for `taskloom list scorers`. Default: the first line of the
            docstring.
        needs: For a function: traits that an example must have to be scored. Audits with invented
            answers skip such scorers.
    """
    if not re.fullmatch(r"[\w.-]+", name):
        raise TaskloomError(
            "a scorer's name must consist of letters, digits, '-', '_' and '.', such as "
            f"'half-right', not {name!r}"
        )

    def record(thing: Callable[..., Any]) -> Scorer:
        about = describe or (inspect.getdoc(thing) or "").partition("\n")[0]
        judge = (
            _instance(thing, name)
            if isinstance(thing, type)
            else FunctionScorer(name, thing, about, tuple(needs))
        )
        module = thing.__module__ or "__main__"  # code in a notebook may have no module
        return register(judge, module)

    return record


def _instance(kind: type[Any], name: str) -> Scorer:
    if "name" not in vars(kind) and "name" not in getattr(kind, "__dataclass_fields__", {}):
        kind.name = name
    try:
        judge = kind()
    except TypeError as error:
        raise TaskloomError(
            f"the scorer {name}: {kind.__name__} needs a default for every setting ({error})"
        ) from error
    if not isinstance(judge, Scorer):
        raise TaskloomError(
            f"the scorer {name}: {kind.__name__} needs the methods score and explain"
        )
    if not callable(judge):
        kind.__call__ = CallableScorer.__call__
    if judge.name != name:
        raise TaskloomError(
            f"the scorer {name}: {kind.__name__} has the name '{judge.name}'; use one name for both"
        )
    return judge


def chance_of(targets: Sequence[Sequence[str]]) -> float:
    """Return the score of a uniform guess among all answers that occur in the given items.

    >>> chance_of([["a"], ["b"], ["a", "c"], ["b"]])
    0.4166666666666667
    """
    answers = {target for row in targets for target in row}
    return sum(len(set(row)) for row in targets) / (len(targets) * len(answers)) if answers else 0.0
