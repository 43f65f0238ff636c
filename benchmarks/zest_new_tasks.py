"""How new the tasks of procedural ZEST are: forms that splits share, answers that flips change, and what gives a flip away.

    python benchmarks/zest_new_tasks.py [--seed 0]     (needs scikit-learn: the extra `audit`)

Beside the numbers stand those of the version before the splits by form (suite version 4, seed 0), where it was measured.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from statistics import mean

from taskloom.recipe import read
from taskloom.seeding import Key
from taskloom.suites.zest.dataset_statistics import PAPER
from taskloom.suites.zest.fields import ZestFields
from taskloom.suites.zest.synthetic.algebra import answer
from taskloom.suites.zest.synthetic.described_tasks import DescribedTask
from taskloom.suites.zest.synthetic.facts import NA
from taskloom.suites.zest.synthetic.flip_groups import form
from taskloom.suites.zest.synthetic.question_frames import framed, overlap
from taskloom.suites.zest.synthetic.task_world import TaskWorld, task_world

KINDS = {"paraphrase": 0, "target_semantics": 1}
SAMPLE = 1_000
"""Passages among which repeated sentences are counted."""


def pairs(world: TaskWorld, split: str) -> list[tuple[DescribedTask, DescribedTask]]:
    """Return the paraphrases and flips of a split, each with its base task."""
    by_id = {t.id: t for t in world.splits[split]}
    return [(t, by_id[t.derives_from[0]]) for t in world.splits[split] if t.kind in KINDS]


def shared_forms(world: TaskWorld, kind: str) -> float:
    """Return the share of test tasks of a kind that equal a training program but for constants."""
    known = {(t.domain.name, form(leaf)) for t in world.splits["train"] for leaf in t.program.leaves}
    tasks = [t for t in world.splits["test"] if t.kind == kind]
    return mean((t.domain.name, form(t.program)) in known for t in tasks)


def changed_shares(world: TaskWorld) -> list[float]:
    """Return, for every flip, the share of its passages on which its base task answers otherwise."""
    shares = []
    for split in world.splits:
        for flip, base in pairs(world, split):
            if flip.kind == "target_semantics":
                drafts = [world.passage(flip, i)[1] for i in range(world.passages)]
                texts = [[answer(t.domain, t.program, d.main, d.rules) for t in (flip, base)] for d in drafts]
                shares.append(mean(one != other for one, other in texts))
    return shares


def words(text: str) -> list[str]:
    return re.findall(r"[\w'-]+", text.lower())


def views(task: DescribedTask, base: DescribedTask) -> dict[str, dict[str, float]]:
    """Return what a classifier may see of a paraphrase or flip: features by name."""
    new, old = set(words(task.question)), set(words(base.question))
    return {
        "overlap with the base task": {"overlap": overlap(task.question, base.question), "more": len(new) - len(old)},
        "words of the question": dict.fromkeys(new, 1.0),
        "words of both questions": {f"new {w}": 1.0 for w in new} | {f"old {w}": 1.0 for w in old},
        "words that differ": {f"+{w}": 1.0 for w in new - old} | {f"-{w}": 1.0 for w in old - new},
    }


def classified(world: TaskWorld) -> dict[str, float]:
    """Return how often a bag-of-words classifier, fitted on train, tells paraphrases from flips of test; chance is one half."""
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import balanced_accuracy_score

    found = {}
    for name in views(*pairs(world, "train")[0]):
        counter = DictVectorizer()
        train, test = ([views(*pair)[name] for pair in pairs(world, split)] for split in ("train", "test"))
        kinds, wanted = ([KINDS[task.kind] for task, _ in pairs(world, split)] for split in ("train", "test"))
        model = LogisticRegression(max_iter=1_000, class_weight="balanced").fit(counter.fit_transform(train), kinds)
        found[name] = float(balanced_accuracy_score(wanted, model.predict(counter.transform(test))))
    return found


def repeated_sentences(world: TaskWorld) -> tuple[float, float]:
    """Return the share of sentences that stand twice in a thousand passages: with a name in them or not, and without."""
    tasks = [t for t in world.splits["train"] if t.source == t.id]
    texts = [world.passage(tasks[i % len(tasks)], i // len(tasks))[0] for i in range(SAMPLE)]
    counts = Counter(sentence for text in texts for sentence in re.split(r"(?<=\.) ", text))
    total = sum(counts.values())
    again = {sentence: n for sentence, n in counts.items() if n > 1}
    nameless = sum(n for sentence, n in again.items() if not re.search(r"(?<!^)\b[A-Z]", sentence))
    return sum(again.values()) / total, nameless / total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    fields = read("zest/synthetic").fields
    assert isinstance(fields, ZestFields)
    world = task_world(fields, Key("zest_new_tasks", seed))
    for kind, before in (("normal", "39 %"), ("target_semantics", "46 %")):
        print(
            f"test tasks ({kind}) that equal a training program but for constants: {shared_forms(world, kind):.0%} (was {before})"
        )
    shares = changed_shares(world)
    low = sum(share < 0.5 for share in shares)
    print(
        f"flips that change fewer than half of their answers: {low} of {len(shares)}; mean share changed {mean(shares):.2f}"
    )
    plain = [t for tasks in world.splits.values() for t in tasks if t.kind == "normal"]
    many = [len(framed(t.domain, t.program)) for t in plain]
    print(f"wordings of a base task: {min(many)} to {max(many)}, mean {mean(many):.1f} (was 2 to 4)")
    for kind, before in (("paraphrase", "0.58"), ("target_semantics", "0.79")):
        found = [
            overlap(t.question, b.question) for split in world.splits for t, b in pairs(world, split) if t.kind == kind
        ]
        print(f"words shared with the base task, {kind}: {mean(found):.2f} (was {before})")
    for (name, accuracy), before in zip(classified(world).items(), ("0.79", "0.56", "0.59", "0.96"), strict=True):
        print(f"paraphrase or flip, by {name}: {accuracy:.2f} (balanced accuracy on test; chance 0.50, was {before})")
    twice, nameless = repeated_sentences(world)
    print(f"sentences of 1,000 passages that occur twice: {twice:.1%} (was 17.8 %)")
    print(f"the same without any name in them: {nameless:.1%} (was 13.4 %)")
    for split, tasks in world.splits.items():
        examples = [world.example(t, i) for t in tasks[::3] for i in range(world.passages)]
        several = mean(len(e.targets) > 1 for e in examples if e.target != NA)
        absent = 1 - mean(world.mixes[t.source].answered / world.passages for t in tasks)
        print(
            f"{split}: n/a {absent:.3f} (paper {PAPER[split]['na']}), several acceptable answers {several:.1%} of answers"
        )


if __name__ == "__main__":
    main()
