"""How new the tasks of procedural ZEST are: forms that splits share, answers that flips change, and
what gives a flip away.

    python benchmarks/zest_new_tasks.py [--seeds 8]     (needs scikit-learn: the extra `audit`)

Seeds are counted from 40: how flips are worded was chosen on seeds 0 to 7, and how details of
sentences are dealt on 20 to 31. Beside the numbers stand those of suite version 4, before the
splits by form, where they were measured in the same way.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from itertools import product
from statistics import mean, stdev

from taskloom.core.seeding import Key
from taskloom.recipe import read
from taskloom.suites.zest.fields import ZestFields
from taskloom.suites.zest.synthetic.algebra import NA, answer
from taskloom.suites.zest.synthetic.described_tasks import DescribedTask, framed, overlap
from taskloom.suites.zest.synthetic.domain import Domain, full_name
from taskloom.suites.zest.synthetic.flip_groups import form
from taskloom.suites.zest.synthetic.programs import wordings
from taskloom.suites.zest.synthetic.task_world import TaskWorld, task_world
from taskloom.suites.zest.task_files import PAPER

KINDS = {"paraphrase": 0, "target_semantics": 1}
FIRST = 40
"""The first seed: one that nothing was chosen on."""

SAMPLE = 1_000
"""Passages among which repeated sentences are counted."""


def pairs(world: TaskWorld, split: str) -> list[tuple[DescribedTask, DescribedTask]]:
    """Return the paraphrases and flips of a split, each with its base task."""
    by_id = {t.id: t for t in world.splits[split]}
    return [(t, by_id[t.derives_from[0]]) for t in world.splits[split] if t.kind in KINDS]


def shared_forms(world: TaskWorld, kind: str) -> float:
    """Return the share of test tasks of a kind that equal a training program but for constants."""
    known = {
        (t.domain.name, form(leaf)) for t in world.splits["train"] for leaf in t.program.leaves
    }
    tasks = [t for t in world.splits["test"] if t.kind == kind]
    return mean((t.domain.name, form(t.program)) in known for t in tasks)


def changed_shares(world: TaskWorld) -> list[float]:
    """Return, for every flip, the share of its passages on which its base task answers
    otherwise.
    """
    shares = []
    for split in world.splits:
        for flip, base in pairs(world, split):
            if flip.kind == "target_semantics":
                drafts = [world.passage(flip, i)[1] for i in range(world.passages)]
                texts = [
                    [answer(t.domain, t.program, d.main, d.rules) for t in (flip, base)]
                    for d in drafts
                ]
                shares.append(mean(one != other for one, other in texts))
    return shares


def words(text: str) -> list[str]:
    return re.findall(r"[\w'-]+", text.lower())


def views(task: DescribedTask, base: DescribedTask) -> dict[str, dict[str, float]]:
    """Return what a classifier may see of a paraphrase or flip: features by name."""
    new, old = set(words(task.question)), set(words(base.question))
    return {
        "overlap with the base task": {
            "overlap": overlap(task.question, base.question),
            "more": len(new) - len(old),
        },
        "words of the question": dict.fromkeys(new, 1.0),
        "words of both questions": {f"new {w}": 1.0 for w in new} | {f"old {w}": 1.0 for w in old},
        "words that differ": {f"+{w}": 1.0 for w in new - old} | {f"-{w}": 1.0 for w in old - new},
    }


def cross_validated(worlds: list[TaskWorld]) -> dict[str, list[float]]:
    """Return how often a bag-of-words classifier tells paraphrases from flips of base tasks that it
    has not seen, for each seed.

    Balanced accuracy over five folds of base tasks, all splits together; chance is one half.
    """
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import balanced_accuracy_score
    from sklearn.model_selection import GroupKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline

    accuracies: dict[str, list[float]] = {}
    for world in worlds:
        derived = [pair for split in world.splits for pair in pairs(world, split)]
        kinds = [KINDS[task.kind] for task, _ in derived]
        bases = [base.id for _, base in derived]
        for name in views(*derived[0]):
            model = make_pipeline(
                DictVectorizer(), LogisticRegression(max_iter=1_000, class_weight="balanced")
            )
            predicted = cross_val_predict(
                model,
                [views(*pair)[name] for pair in derived],
                kinds,
                groups=bases,
                cv=GroupKFold(5),
            )
            accuracies.setdefault(name, []).append(float(balanced_accuracy_score(kinds, predicted)))
    return accuracies


def interval(values: list[float]) -> str:
    """Format a mean over seeds with the 95 % interval of Student's t."""
    from scipy.stats import t

    half = float(t.ppf(0.975, len(values) - 1)) * stdev(values) / len(values) ** 0.5
    return f"{mean(values):.3f} ± {half:.3f}"


def masked(domain: Domain, text: str) -> list[str]:
    """Split a passage into sentences, with the names of entities and records replaced by one
    mark.
    """
    parts = [(domain.heads, domain.tails), *((r.heads, r.tails) for r in domain.records)]
    names = sorted(
        {full_name(h, t) for heads, tails in parts for h, t in product(heads, tails)},
        key=len,
        reverse=True,
    )
    return re.split(r"(?<=\.) ", re.sub("|".join(map(re.escape, names)), "NAME", text))


def repeated_sentences(world: TaskWorld, whole_tasks: bool) -> int:
    """Count the sentences of a thousand passages that equal another one but for names: a few of
    every task, or all of few tasks.
    """
    tasks = [t for t in world.splits["train"] if t.source == t.id]
    places = [(task, i) for i in range(world.passages) for task in tasks]
    if whole_tasks:
        places = [(task, i) for task in tasks for i in range(world.passages)]
    counts: Counter[str] = Counter()
    for task, number in places[:SAMPLE]:
        counts.update(masked(task.domain, world.passage(task, number)[0]))
    return sum(n for n in counts.values() if n > 1)


def report_new_tasks(world: TaskWorld) -> None:
    for kind, before in (("normal", "39 %"), ("target_semantics", "46 %")):
        share = shared_forms(world, kind)
        print(
            f"test tasks ({kind}) that equal a training program but for constants: {share:.0%}"
            f" (version 4: {before})"
        )
    shares = changed_shares(world)
    low = sum(share < 0.5 for share in shares)
    print(
        f"flips that change fewer than half of their answers: {low} of {len(shares)}; mean share"
        f" {mean(shares):.2f}"
    )


def report_wordings(worlds: list[TaskWorld]) -> None:
    for what, count in (("questions of its own", wordings), ("wordings", framed)):
        many = [
            len(set(count(t.domain, t.program)))
            for tasks in worlds[0].splits.values()
            for t in tasks
            if t.kind == "normal"
        ]
        print(f"{what} of a base task: {min(many)} to {max(many)}, mean {mean(many):.1f}")
    for kind, before in (("paraphrase", "0.58"), ("target_semantics", "0.79")):
        shared = [
            overlap(t.question, b.question)
            for world in worlds
            for split in world.splits
            for t, b in pairs(world, split)
            if t.kind == kind
        ]
        print(f"words shared with the base task, {kind}: {mean(shared):.2f} (version 4: {before})")
    for name, accuracies in cross_validated(worlds).items():
        print(f"paraphrase or flip, by {name}: {interval(accuracies)} (chance 0.5)")


def report_question_words(worlds: list[TaskWorld]) -> None:
    """Print how long questions are beside the paper's, of the seed with the shortest and of that
    with the longest.
    """
    for split in worlds[0].splits:
        ratios = [
            mean(t.question.count(" ") + 1 for t in w.splits[split]) / PAPER[split]["task_words"]
            for w in worlds
        ]
        print(
            f"{split}: words of questions, for one of the paper's: {min(ratios):.2f} to"
            f" {max(ratios):.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--seeds", type=int, default=8, help="seeds over which classifiers are cross-validated"
    )
    fields = read("zest/synthetic").fields
    assert isinstance(fields, ZestFields)
    worlds = [
        task_world(fields, Key("zest_new_tasks", seed))
        for seed in range(FIRST, FIRST + parser.parse_args().seeds)
    ]
    world = worlds[0]
    report_new_tasks(world)
    report_wordings(worlds)
    report_question_words(worlds)
    for whole_tasks, what in ((False, "of all tasks"), (True, "of fifty tasks")):
        repeated = [repeated_sentences(world, whole_tasks) for world in worlds]
        print(
            f"sentences of 1,000 passages {what} that equal another but for names, by seed:"
            f" {repeated}"
        )
    for split, tasks in world.splits.items():
        examples = [world.example(t, i) for t in tasks[::3] for i in range(world.passages)]
        several = mean(len(e.targets) > 1 for e in examples if e.target != NA)
        absent = 1 - mean(world.mixes[t.source].answered / world.passages for t in tasks)
        words = (
            mean(int(e.traits["passage_words"]) for e in examples),
            mean(t.question.count(" ") + 1 for t in tasks),
        )
        paper = PAPER[split]
        print(
            f"{split}: n/a {absent:.3f} (paper {paper['na']}), several acceptable answers"
            f" {several:.1%} of answers, words of passages {words[0]:.1f}"
            f" ({paper['passage_words']}), of questions {words[1]:.1f} ({paper['task_words']})"
        )


if __name__ == "__main__":
    main()
