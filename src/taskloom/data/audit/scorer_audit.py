"""The audit of scorers: how often they reject right answers and accept wrong ones, in the formats
in which models write.

A form turns an example into a text, or into None if it does not apply (reordering a list with one
item). Forms of right answers are equivalent to an acceptable answer; forms of wrong answers are
not. Every scorer is tested on made-up answers of the kinds that it is meant for, and the scorers of
recipes on their own answers. Each form is scored twice: verbatim, and after answer extraction, as
learners and other tools do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from taskloom.core.errors import ParameterError, TaskloomError
from taskloom.core.example import Example
from taskloom.core.extraction import Extraction
from taskloom.core.plan import Plan
from taskloom.core.registry import SUITES, find_scorer, load_entry_points
from taskloom.core.scoring import SCORERS, Scorer, bare, items, number
from taskloom.core.seeding import Key, Random
from taskloom.recipe import read

AnswerKind = Literal["text", "number", "list", "sequence"]
"""Kind of an answer: a word or name, a number, items in any order, or items in a fixed order."""

_ONES = [
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
]
_ONES += ["thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_NO_ARTICLE = frozenset(
    ["yes", "no", "maybe", "none", "nothing", "nobody", "nowhere", "true", "false"]
)
_REASONING = (
    "Let me think step by step. There are a few things to look at, and some of them do not matter."
)


@dataclass(frozen=True, slots=True)
class AuditedExample:
    """An example with the additional data that forms need.

    Attributes:
        example: The example.
        kind: Kind of its answer.
        other: Answer of another example that is wrong for this one.
        draw: Random generator.
    """

    example: Example
    kind: AnswerKind
    other: str
    draw: Random

    @property
    def answer(self) -> str:
        """Official answer."""
        return self.example.target

    @property
    def sentence_end(self) -> str:
        """Official answer as the end of a sentence. The full stop of an abbreviation also ends the
        sentence.
        """
        return self.answer if self.answer.endswith(".") else f"{self.answer}."

    @property
    def items(self) -> list[str]:
        """Items of the official answer."""
        return items(self.answer)


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """A format of right or wrong answers.

    Attributes:
        name: Name in tables.
        right: True if its texts are right answers.
        write: Function from an example to the text, or to None if the form does not apply.
        reply: True if the text is a reply from which the answer must be extracted.
    """

    name: str
    right: bool
    write: Callable[[AuditedExample], str | None]
    reply: bool = False


def in_words(value: int) -> str:
    """A number from 0 to 99 in English words.

    >>> in_words(7), in_words(40), in_words(42)
    ('seven', 'forty', 'forty-two')
    """
    if value < 20:
        return _ONES[value]
    tens = _TENS[value // 10 - 2]
    return f"{tens}-{_ONES[value % 10]}" if value % 10 else tens


def _article(q: AuditedExample) -> str | None:
    if q.kind == "list":
        return ", ".join(f"the {item}" for item in q.items) if all(map(_is_noun, q.items)) else None
    return f"the {q.answer}" if q.kind == "text" and _is_noun(q.answer) else None


def _is_noun(text: str) -> bool:
    return re.fullmatch(r"[a-z]{3,}( [a-z]{3,})?", text) is not None and text not in _NO_ARTICLE


def _number_word(q: AuditedExample) -> str | None:
    value = number(q.answer) if q.kind == "number" else None
    return (
        in_words(value)
        if value is not None and 0 <= value < 100 and q.answer.strip().isdigit()
        else None
    )


def _digits(q: AuditedExample) -> str | None:
    value = number(q.answer) if q.kind == "number" else None
    return str(value) if value is not None and not q.answer.strip().isdigit() else None


def _another_acceptable(q: AuditedExample) -> str | None:
    return q.draw.choice(q.example.targets[1:]) if len(q.example.targets) > 1 else None


def _many(q: AuditedExample) -> list[str]:
    """Items of a list answer with several items, otherwise none."""
    return q.items if q.kind == "list" and len(q.items) > 1 else []


def _reordered(q: AuditedExample) -> str | None:
    return ", ".join(reversed(_many(q))) if len(set(_many(q))) > 1 else None


def _with_and(q: AuditedExample) -> str | None:
    many = _many(q)
    if not many:
        return None
    comma = "," if len(many) > 2 else ""
    return f"{', '.join(many[:-1])}{comma} and {many[-1]}"


def _bullets(q: AuditedExample) -> str | None:
    return "\n".join(f"- {item}" for item in _many(q)) or None


RIGHT = (
    AnswerForm("as it is", True, lambda q: q.answer),
    AnswerForm("another acceptable answer", True, _another_acceptable),
    AnswerForm("white space around", True, lambda q: f"\n  {q.answer} \n"),
    AnswerForm("upper case", True, lambda q: q.answer.upper()),
    AnswerForm("capitalised", True, lambda q: q.answer[:1].upper() + q.answer[1:]),
    AnswerForm("full stop", True, lambda q: q.sentence_end),
    AnswerForm("article", True, _article),
    AnswerForm("number as a word", True, _number_word),
    AnswerForm("number as digits", True, _digits),
    AnswerForm("list in another order", True, _reordered),
    AnswerForm("list with 'and'", True, _with_and),
    AnswerForm(
        "quotes", True, lambda q: f'"{q.answer}"' if '"' not in q.answer else None, reply=True
    ),
    AnswerForm("bold", True, lambda q: f"**{q.answer}**", reply=True),
    AnswerForm("boxed", True, lambda q: f"\\boxed{{{q.answer}}}", reply=True),
    AnswerForm(
        "boxed as text",
        True,
        lambda q: f"{_REASONING} Thus $\\boxed{{\\text{{{q.answer}}}}}$.",
        reply=True,
    ),
    AnswerForm("tag", True, lambda q: f"{_REASONING}\n<answer>{q.answer}</answer>", reply=True),
    AnswerForm("label", True, lambda q: f"Answer: {q.answer}", reply=True),
    AnswerForm("bold label", True, lambda q: f"{_REASONING}\n\n**Answer:** {q.answer}", reply=True),
    AnswerForm("sentence", True, lambda q: f"The answer is {q.sentence_end}", reply=True),
    AnswerForm(
        "explanation, then a sentence",
        True,
        lambda q: f"{_REASONING} So the answer is {q.sentence_end}",
        reply=True,
    ),
    AnswerForm(
        "explanation, then a line", True, lambda q: f"{_REASONING}\n\n{q.answer}", reply=True
    ),
    AnswerForm(
        "a thought before it",
        True,
        lambda q: f"<think>{_REASONING} Perhaps the answer is {q.other}.</think>\n{q.answer}",
        reply=True,
    ),
    AnswerForm(
        "channels",
        True,
        lambda q: (
            f"<|channel|>analysis<|message|>{_REASONING} Answer: {q.other}<|end|>"
            f"<|start|>assistant<|channel|>final<|message|>{q.answer}"
        ),
        reply=True,
    ),
    AnswerForm(
        "a bulleted list",
        True,
        lambda q: (b := _bullets(q)) and f"{_REASONING} These:\n\n{b}",
        reply=True,
    ),
)


def _cut(q: AuditedExample) -> str | None:
    return q.answer[:-2] if q.kind == "text" and len(q.answer) > 5 and " " not in q.answer else None


def _off_by_one(q: AuditedExample) -> str | None:
    value = number(q.answer) if q.kind == "number" else None
    return str(value + 1) if value is not None else None


def _swapped(q: AuditedExample) -> str | None:
    words = q.answer.split() if q.kind == "sequence" else []
    return " ".join(reversed(words)) if words != words[::-1] else None


WRONG = (
    AnswerForm("another answer", False, lambda q: q.other or None),
    AnswerForm(
        "another answer in a sentence",
        False,
        lambda q: f"The answer is {q.other}." if q.other else None,
        reply=True,
    ),
    AnswerForm(
        "another answer, boxed",
        False,
        lambda q: f"{_REASONING} \\boxed{{{q.other}}}" if q.other else None,
        reply=True,
    ),
    AnswerForm(
        "the right one named, another concluded",
        False,
        lambda q: (
            f"It may seem that the answer is {q.answer}. But no: the answer is {q.other}."
            if q.other
            else None
        ),
        reply=True,
    ),
    AnswerForm(
        "cut off in a thought",
        False,
        lambda q: f"<think>{_REASONING} First guess: the answer is {q.sentence_end}",
        reply=True,
    ),
    AnswerForm("two answers", False, lambda q: f"{q.answer} or {q.other}" if q.other else None),
    AnswerForm("negated", False, lambda q: f"not {q.answer}" if q.kind == "text" else None),
    AnswerForm("cut short", False, _cut),
    AnswerForm("one more", False, _off_by_one),
    AnswerForm(
        "an item too many",
        False,
        lambda q: f"{q.answer}, {q.other}" if q.kind == "list" and q.other else None,
    ),
    AnswerForm("an item missing", False, lambda q: ", ".join(_many(q)[1:]) or None),
    AnswerForm("another order", False, _swapped),
    AnswerForm("the question", False, lambda q: q.example.question or q.example.input),
    AnswerForm("nothing", False, lambda q: ""),
    AnswerForm("a refusal", False, lambda q: "I do not know."),
)


def is_wrong(text: str, example: Example) -> bool:
    """True if a text differs from every acceptable answer as a word, number and set of items."""
    pieces, value = _pieces(text), number(text)
    for target in example.targets:
        if pieces & _pieces(target) or (value is not None and value == number(target)):
            return False
    return bool(pieces)


def _pieces(text: str) -> set[str]:
    """Items of a text, and the whole text."""
    return {bare(item) for item in (*items(text), text)} - {""}


PLACES = (
    "kitchen",
    "garden",
    "office",
    "bathroom",
    "hallway",
    "bedroom",
    "living room",
    "football field",
)
NAMES = (
    "Ada Lovelace",
    "Sammy Davis Jr.",
    "New York",
    "Åse Kleveland",
    "Jean-Luc Picard",
    "Queen Mary",
    "Rio",
    "J. S. Bach",
)
THINGS = ("apple", "milk", "football", "box of matches", "lamp", "key", "letter", "cup")
SYMBOLS = ("a", "b", "c", "d", "e", "f")

ALL_RIGHT = 1 - 1e-9
"""Minimum score of an accepted answer. Partial credit is reported separately."""


@dataclass(frozen=True, slots=True)
class FormCount:
    """Results of one scorer on one form.

    Attributes:
        form: Name of the form.
        right: True if its texts are right answers.
        n: Number of scored texts.
        alone: Share accepted verbatim.
        extracted: Share accepted after extraction.
    """

    form: str
    right: bool
    n: int
    alone: float
    extracted: float

    @property
    def missed(self) -> float:
        """Share judged wrongly after extraction."""
        return 1 - self.extracted if self.right else self.extracted


@dataclass(frozen=True, slots=True)
class ScorerAudit:
    """Error rates of one scorer on one kind of answers.

    Attributes:
        scorer: Name of the scorer.
        answers: Kind of answers (`places`, `numbers`, …), or a recipe.
        extract: The extraction.
        false_negatives: Share of right answers rejected, verbatim and after extraction.
        false_positives: Share of wrong answers accepted, verbatim and after extraction.
        partial: Mean score of wrong answers after extraction, above 0 if there is partial credit.
        forms: Results for each form.
    """

    scorer: str
    answers: str
    extract: str
    false_negatives: tuple[float, float]
    false_positives: tuple[float, float]
    partial: float
    forms: tuple[FormCount, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class AnswerSet:
    """Questions with answers of one kind."""

    name: str
    kind: AnswerKind
    examples: tuple[Example, ...]


def made_up(n: int, key: Key) -> dict[str, AnswerSet]:
    """Make answer sets for scorers that belong to no recipe, with n examples each."""

    def examples(name: str, *choices: Any) -> tuple[Example, ...]:
        draw = key.random(name)
        return tuple(Example("Which is it?", draw.choice(choices)) for _ in range(n))

    draw = key.random("several")
    lists = tuple(
        Example("Which?", ", ".join(draw.sample(THINGS, draw.randint(1, 4)))) for _ in range(n)
    )
    sequences = tuple(
        Example("In which order?", " ".join(draw.sample(SYMBOLS, 4))) for _ in range(n)
    )
    sets = [
        AnswerSet("places", "text", examples("places", *PLACES)),
        AnswerSet("names", "text", examples("names", *NAMES)),
        AnswerSet("yes or no", "text", examples("yes or no", "yes", "no", "maybe")),
        AnswerSet("numbers", "number", examples("numbers", *map(str, range(100)))),
        AnswerSet(
            "number words",
            "number",
            examples("number words", "none", "one", "two", "three", "twelve", "forty-two"),
        ),
        AnswerSet("lists", "list", lists),
        AnswerSet("sequences", "sequence", sequences),
    ]
    return {one.name: one for one in sets}


MEANT_FOR = {
    "exact": ("places", "yes or no", "sequences"),
    "any-of": ("places", "names", "yes or no", "numbers"),
    "set": ("lists",),
    "set-f1": ("lists",),
    "per-position": ("sequences",),
    "number-words": ("numbers", "number words"),
}
"""Kinds of answers that the shared scorers are meant for."""

ANY_SCORER = ("places", "names", "yes or no")
"""Kinds of answers used to test all other scorers."""


def audit_scorers(
    recipes: Iterable[str] = (), *, extract: str = "final", n: int = 100, seed: int = 0
) -> list[ScorerAudit]:
    """Audit every registered scorer on made-up answers, and the scorers of recipes on their own
    answers.

    Args:
        recipes: Recipes whose scorers and answers are also tested.
        extract: How the answer is extracted from a reply; see `taskloom.core.extraction.KINDS`.
        n: Number of examples per scorer and kind of answers.
        seed: Seed of the random choices.
    """
    if n < 2:
        raise ParameterError("n", f"must be at least 2, not {n}")
    extraction, key = Extraction.read(extract), Key("scorer audit", seed)
    SUITES.names()  # suites register their scorers when they are imported
    load_entry_points()
    sets = made_up(n, key.child("answers"))
    audits = []
    for name, scorer in SCORERS.items():
        if getattr(scorer, "needs", ()):
            continue  # made-up examples have no traits
        for kind in MEANT_FOR.get(name, ANY_SCORER):
            audits.append(_audit(find_scorer(name), sets[kind], extraction, key.child(name)))
    for name in recipes:
        plan = read(name).plan()
        audits += [
            _audit(plan.scorer, one, extraction, key.child(name))
            for one in _of_recipe(name, plan, n)
        ]
    return audits


def _of_recipe(name: str, plan: Plan, n: int) -> list[AnswerSet]:
    """Examples of a recipe's first split, by kind of answer."""
    from taskloom.core.shards import to_examples, to_table

    split = plan.splits[0]
    rows = list(to_examples(to_table(split.rows(0, min(n, split.n)), 0, plan.traits)))
    by_kind: dict[AnswerKind, list[Example]] = {}
    for example in rows:
        by_kind.setdefault(kind_of(example, plan.scorer), []).append(example)
    return [AnswerSet(f"{name} ({kind})", kind, tuple(part)) for kind, part in by_kind.items()]


def kind_of(example: Example, scorer: Scorer) -> AnswerKind:
    """Kind of an example's answer, according to its scorer."""
    if scorer.name.startswith("set"):
        return "list"
    if scorer.name == "per-position":
        return "sequence"
    return (
        "number"
        if scorer.name in ("any-of", "number-words") and number(example.target) is not None
        else "text"
    )


def _audit(scorer: Scorer, answers: AnswerSet, extraction: Extraction, key: Key) -> ScorerAudit:
    draw = key.random(answers.name, answers.kind)
    questions = [
        AuditedExample(e, answers.kind, _other(e, answers.examples, draw), draw)
        for e in answers.examples
    ]
    counts, partial = [], []
    for form in (*RIGHT, *WRONG):
        texts = [(q.example, text) for q in questions if (text := _written(form, q)) is not None]
        if not texts:
            continue
        alone = [_score(scorer, text, e) for e, text in texts]
        extracted = [_score(scorer, extraction(text), e) for e, text in texts]
        if not form.right:
            partial += extracted
        counts.append(
            FormCount(form.name, form.right, len(texts), _accepted(alone), _accepted(extracted))
        )
    right, wrong = [c for c in counts if c.right], [c for c in counts if not c.right]
    return ScorerAudit(
        scorer.name,
        answers.name,
        str(extraction),
        (1 - _mean(right, "alone"), 1 - _mean(right, "extracted")),
        (_mean(wrong, "alone"), _mean(wrong, "extracted")),
        sum(partial) / max(1, len(partial)),
        tuple(counts),
    )


def _written(form: AnswerForm, question: AuditedExample) -> str | None:
    """Apply a form. A wrong form that happens to give an acceptable answer is skipped."""
    text = form.write(question)
    if text is None or form.right or bare(text) not in map(bare, question.example.targets):
        return text
    return None


def _other(example: Example, examples: Sequence[Example], draw: Any) -> str:
    """Answer of another example that is wrong for this one. Empty if there is none."""
    for _ in range(20):
        text: str = draw.choice(examples).target
        if is_wrong(text, example):
            return text
    return ""


def _score(scorer: Scorer, text: str, example: Example) -> float:
    try:
        return scorer.score(text, example)
    except TaskloomError:
        raise
    except Exception as error:
        raise TaskloomError(
            f"the scorer {scorer.name} raised {type(error).__name__} for {text[:80]!r}: {error}"
        ) from error


def _accepted(scores: Sequence[float]) -> float:
    return sum(score >= ALL_RIGHT for score in scores) / len(scores)


def _mean(counts: Sequence[FormCount], which: str) -> float:
    total = sum(c.n for c in counts)
    return sum(getattr(c, which) * c.n for c in counts) / total if total else 0.0
