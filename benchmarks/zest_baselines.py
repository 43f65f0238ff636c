"""What can be had without reading both description and passage, beside the paper's Table 5 (T5-11B, dev).

Run: python benchmarks/zest_baselines.py        (needs scikit-learn: the extra `audit`)
"""

from __future__ import annotations

from collections.abc import Callable

from taskloom.recipe import read
from taskloom.seeding import Key
from taskloom.suites.zest import ZestFields
from taskloom.suites.zest.evaluation import score
from taskloom.suites.zest.files import CLASSIFICATION_WORDS, ZestTask, first_word
from taskloom.suites.zest.synthetic.weaving import world, zest_tasks

Pair = tuple[str, str, str]
"""Question, passage, answer."""


def pairs(tasks: list[ZestTask]) -> list[Pair]:
    return [(t.question, i.context, str(i.answer)) for t in tasks for i in t.instances]


def learned(train: list[Pair], view: Callable[[Pair], str], test: list[Pair]) -> tuple[list[str], float, float]:
    """A bag-of-words classifier over yes, no, n/a and 'another answer'; accuracy and the majority's accuracy on test."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    words = CountVectorizer(min_df=2, ngram_range=(1, 2), max_features=40_000, binary=True)
    x = words.fit_transform([view(p) for p in train])
    model = LogisticRegression(max_iter=300, C=0.3).fit(x, [kind(p[2]) for p in train])
    said = [str(s) for s in model.predict(words.transform([view(p) for p in test]))]
    wanted = [kind(p[2]) for p in test]
    right = sum(a == b for a, b in zip(said, wanted, strict=True)) / len(test)
    return said, right, sum(w == "n/a" for w in wanted) / len(test)


def best_constant(task: ZestTask) -> str:
    """What a system would say that knows of each description which of yes, no and n/a does best, but reads no passage."""
    many = len(task.instances)
    return max(("n/a", "yes", "no"), key=lambda word: score([task], [word] * many, "corrected").tasks[0].f1)


def kind(answer: str) -> str:
    return answer if answer in ("yes", "no", "n/a") else "other"


def main() -> None:
    recipe = read("zest/synthetic")
    assert isinstance(recipe.fields, ZestFields)
    made = world(recipe.fields, Key(recipe.digest, 0))
    train, dev = zest_tasks(made, "train"), zest_tasks(made, "dev")
    known, asked = pairs(train), pairs(dev)
    by_question, question_right, majority = learned(known, lambda p: p[0], asked)
    by_passage, passage_right, _ = learned(known, lambda p: p[1], asked)
    eager = ["yes" if first_word(q) in CLASSIFICATION_WORDS else "n/a" for q, _, _ in asked]
    knowing = [word for task in dev for word in [best_constant(task)] * len(task.instances)]
    rows = [
        ("all n/a", ["n/a"] * len(asked), "1 / 1 / 1 (context only: it said n/a everywhere)"),
        ("description only, always yes", eager, "12 / 10 / 7 (question only)"),
        ("description only, best constant", knowing, "12 / 10 / 7 (question only)"),
        ("description only, bag of words", by_question, "12 / 10 / 7 (question only)"),
        ("passage only, bag of words", by_passage, "1 / 1 / 1 (context only)"),
    ]
    print(f"{'baseline, dev':<34} mean / C@75 / C@90    paper's Table 5")
    for name, said, paper in rows:
        overall = score(dev, said, "corrected").overall
        print(f"{name:<34} {' / '.join(f'{100 * v:.1f}' for v in overall.values()):<21} {paper}")
    print(
        f"kind of answer told right: majority {majority:.3f}, by description {question_right:.3f}, by passage {passage_right:.3f}"
    )


if __name__ == "__main__":
    main()
