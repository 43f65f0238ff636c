"""The audit of scorers: how often a right answer is refused, and a wrong one accepted, in the forms in which models write.

Every scorer is tried on answers of the kinds that it is for, made up here, or on those of a recipe, with its own scorer. Each form
is scored twice: as it stands, and after an extraction has cut the answer out of it, as learners and other tools do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from taskloom.core.errors import ParameterError, TaskloomError
from taskloom.core.example import Example
from taskloom.core.extraction import Extraction
from taskloom.core.plan import Plan
from taskloom.core.registry import SUITES, find_scorer, load_entry_points
from taskloom.core.scoring import SCORERS, Scorer, bare, number
from taskloom.core.seeding import Key
from taskloom.data.audit.answer_forms import (
    RIGHT,
    WRONG,
    AnswerForm,
    AnswerKind,
    AuditedExample,
    is_wrong,
)
from taskloom.recipe import read

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
"""The score from which an answer counts as accepted; partial credit is reported apart."""


@dataclass(frozen=True, slots=True)
class FormCount:
    """What a scorer did with one form.

    Attributes:
        form: Its name.
        right: Whether it writes right answers.
        n: How many were scored.
        alone: The share that was accepted as it stands.
        extracted: The share that was accepted after the extraction.
    """

    form: str
    right: bool
    n: int
    alone: float
    extracted: float

    @property
    def missed(self) -> float:
        """Return the share that was judged wrongly after the extraction."""
        return 1 - self.extracted if self.right else self.extracted


@dataclass(frozen=True, slots=True)
class ScorerAudit:
    """The rates of one scorer on one kind of answers.

    Attributes:
        scorer: Its name.
        answers: What the answers were: `places`, `numbers`, …, or a recipe.
        extract: The extraction.
        false_negatives: Right answers refused, over all right answers, as they stand and extracted.
        false_positives: Wrong answers accepted, over all wrong answers, as they stand and extracted.
        partial: The mean score of wrong answers after the extraction, which partial credit raises above 0.
        forms: The same form by form.
    """

    scorer: str
    answers: str
    extract: str
    false_negatives: tuple[float, float]
    false_positives: tuple[float, float]
    partial: float
    forms: tuple[FormCount, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class AnswerSet:
    """Questions whose answers are of one kind."""

    name: str
    kind: AnswerKind
    examples: tuple[Example, ...]


def made_up(n: int, key: Key) -> dict[str, AnswerSet]:
    """Build the answer sets for scorers that belong to no recipe, n examples of each."""

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
"""The kinds of answers that the shared scorers are for."""

ANY_SCORER = ("places", "names", "yes or no")
"""What every other scorer is tried on."""


def audit_scorers(
    recipes: Iterable[str] = (), *, extract: str = "final", n: int = 100, seed: int = 0
) -> list[ScorerAudit]:
    """Audit every registered scorer on made-up answers, and the scorers of recipes on their own.

    Args:
        recipes: Recipes whose own scorers and answers are tried, too.
        extract: How the answer is cut out of a reply: see `taskloom.core.extraction.KINDS`.
        n: Examples per scorer and kind of answers.
        seed: Of the choices.
    """
    if n < 2:
        raise ParameterError("n", f"must be at least 2, not {n}")
    extraction, key = Extraction.read(extract), Key("scorer audit", seed)
    SUITES.names()  # suites register their scorers when they are imported
    load_entry_points()
    sets = made_up(n, key.child("answers"))
    audits = [
        _audit(find_scorer(name), sets[kind], extraction, key.child(name))
        for name in SCORERS
        for kind in MEANT_FOR.get(name, ANY_SCORER)
    ]
    for name in recipes:
        plan = read(name).plan()
        audits += [
            _audit(plan.scorer, one, extraction, key.child(name))
            for one in _of_recipe(name, plan, n)
        ]
    return audits


def _of_recipe(name: str, plan: Plan, n: int) -> list[AnswerSet]:
    """Return the examples of a recipe's first split by the kind of their answers."""
    from taskloom.core.shards import to_examples, to_table

    split = plan.splits[0]
    rows = list(to_examples(to_table(split.rows(0, min(n, split.n)), 0, plan.traits)))
    by_kind: dict[AnswerKind, list[Example]] = {}
    for example in rows:
        by_kind.setdefault(kind_of(example, plan.scorer), []).append(example)
    return [AnswerSet(f"{name} ({kind})", kind, tuple(part)) for kind, part in by_kind.items()]


def kind_of(example: Example, scorer: Scorer) -> AnswerKind:
    """Return what the answer of an example is, as its scorer takes it."""
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
    """Write a form; a wrong one that happens to say an acceptable answer does not count."""
    text = form.write(question)
    if text is None or form.right or bare(text) not in map(bare, question.example.targets):
        return text
    return None


def _other(example: Example, examples: Sequence[Example], draw: Any) -> str:
    """Return the answer of another example that is wrong here; empty where there is none."""
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
