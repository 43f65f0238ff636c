"""Recipes with the scorers of every suite, and predictions for them: right, wrong and hostile, as
models write them.
"""

from __future__ import annotations

from taskloom.core.example import Example
from taskloom.core.extraction import Extraction
from taskloom.core.scoring import Scorer, answer_or_none
from taskloom.core.seeding import Key
from taskloom.data.audit.scorer_audit import RIGHT, WRONG, AuditedExample, kind_of

RECIPES = {
    "ctl/A": "iid",
    "babi/1": "test",
    "babi/8": "test",
    "zest/synthetic": "test",
    "taskbench/english": "test",
    "taskbench/map(antonyms[eng])": "train",
}
"""Recipes, each with a split of a thousand examples. Their scorers: exact, any-of, set, zest,
taskbench for words and sequences.
"""

CHEAP = ["ctl/A", "babi/8"]
"""Recipes for tests that run everywhere."""

MANY = 1_000
"""Examples per recipe in the comparisons with real packages."""

HOSTILE: list[object] = [
    None,
    7,
    b"bytes",
    ["kitchen"],
    float("nan"),
    "",
    " \n\t ",
    "\x00\x1b[31m",
    "\ud800",
    "a" * 1_000_000,
    "the answer is " * 50_000,
    "\\boxed{" * 100_000,
    "[" * 100_000,
    "{" * 5_000 + "}" * 5_000,
    "|" * 9_000,
    "a, " * 3_000,
    "\u202ekitchen",
]
"""What a model, or a bug of the tool, may hand over as a prediction."""


def replies(examples: list[Example], scorer: Scorer, seed: int = 0) -> list[str]:
    """Return a reply for each example, in some form of a right or a wrong answer."""
    draw = Key("replies", seed).random()
    texts = []
    for index, example in enumerate(examples):
        other = examples[(index * 7 + 3) % len(examples)].target
        audited = AuditedExample(example, kind_of(example, scorer), other, draw)
        written = [form.write(audited) for form in draw.sample(RIGHT if index % 2 else WRONG, 8)]
        texts.append(next(text for text in [*written, example.target] if text is not None))
    return texts


def expected(
    texts: list[str], examples: list[Example], scorer: Scorer, extract: str
) -> list[float]:
    """Return the scores as Taskloom computes them: the scorer, after the extraction."""
    cut = Extraction.read(extract)
    return [
        scorer.score(answer_or_none(cut(text)), example)
        for text, example in zip(texts, examples, strict=True)
    ]
