"""Numbers of the Dyna-bAbI paper beside those of our recipes: Tables 1, 2 and 9, the answers of mix(T12), the words of the mixes.

python benchmarks/babi_paper.py              # 2,000 examples of a training split, whole tests
python benchmarks/babi_paper.py --whole      # every example
"""

from __future__ import annotations

import argparse
from collections import Counter

from taskloom.example import Example
from taskloom.recipe import read
from taskloom.suites.babi.fields import PARTS

TABLE_1 = {
    1: (6, 1), 2: (15.52, 2), 3: (51.9, 3), 5: (20.1, 1), 6: (6.27, 1), 7: (8.67, 2.33), 8: (8.75, 1.94), 9: (6, 1),
    10: (6, 1), 11: (6, 2), 12: (6, 1), 13: (6, 2),
}  # fmt: skip
"""Mean sentences before a question, and mean supporting facts, of the training sets of bAbI 1.0."""

TABLE_2 = {
    "mix-T2": (13.25, 2.05), "mix-T7": (20, 2.50), "mix-T12": (20, 3.70), "diverse-T7": (20, 2.17),
    "diverse-T12": (20, 2.45), "concat-T2": (10.76, 2), "concat-T7": (13.5, 1.68), "concat-T12": (10.8, 1.42),
    "inject-T7": (23.25, 1.42), "inject-T12": (15.97, 1.28),
}  # fmt: skip

TABLE_9 = {(1, False): 334, (2, False): 734, (2, True): 99, (3, False): 1365, (3, True): 468}
"""Questions of mix(T7) by supporting facts and whether GIVE is among them."""


def rows(name: str, most: int | None = None) -> list[Example]:
    """Return the first split of a recipe, at a smaller size where `most` says so."""
    split = read(f"babi/{name}").plan(0).splits[0]
    if most and most < split.n:
        split = read(f"babi/{name}", [f"splits.{split.name}.n={most}"]).plan(0).splits[0]
    return list(split.rows(0, split.n))


def means(examples: list[Example]) -> tuple[float, float]:
    """Return the mean number of sentences and the mean size of the support."""
    n = len(examples)
    return sum(int(e.traits["sentences"]) for e in examples) / n, sum(int(e.traits["support"]) for e in examples) / n


def has(example: Example, concept: str) -> bool:
    """Return whether a concept is in the support."""
    return concept in str(example.traits["composition"]).split("+")


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whole", action="store_true")
    most = None if parser.parse_args().whole else 2_000

    print("Table 1: task, length (paper), support (paper)")
    for task, (length, support) in TABLE_1.items():
        examples = rows(str(task), most)
        ours, shortest = means(examples), sum(int(e.traits["minimal"]) for e in examples) / len(examples)
        print(f"  {task:2}  {ours[0]:6.2f} ({length})  {ours[1]:5.2f} ({support}), shortest {shortest:.2f}")

    print("Table 2: split, length (paper), support (paper)")
    for name, (length, support) in TABLE_2.items():
        ours = means(rows(name, None if name.startswith("mix") else most and 3 * most))
        print(f"  {name:12} {ours[0]:6.2f} ({length})  {ours[1]:5.2f} ({support})")

    print("Table 9, mix(T7): facts, GIVE, questions (paper)")
    mixed = rows("mix-T7")
    counts = Counter((int(e.traits["support"]), has(e, "GIVE")) for e in mixed)
    for cell, published in TABLE_9.items():
        print(f"  {cell[0]} {'with' if cell[1] else 'w/o '} {counts[cell]:5} ({published})")

    print("answers that the training split never has")
    for name in PARTS:
        known = {e.target for e in rows(f"concat-{name}", 12_000)}
        mixed = rows(f"mix-{name}")
        print(f"  mix-{name} {sum(e.target not in known for e in mixed) / len(mixed):.3f}")

    mixed = rows("mix-T12")
    answers = Counter(e.target for e in mixed if e.traits["question"] == "yes-no")
    print(f"mix(T12), yes-no: {answers['yes']} yes (446), {answers['no']} no, {answers['maybe']} maybe")
    for kind in ("list", "counting"):
        long = [e for e in mixed if e.traits["question"] == kind and int(e.traits["support"]) >= 4]
        print(f"mix(T12), {kind}, four facts or more: COREF in {sum(has(e, 'COREF') for e in long) / len(long):.2f}")
    diverse = rows("diverse-T12")
    for kind in ("list", "counting"):
        sizes = Counter(min(6, max(3, int(e.traits["support"]))) for e in diverse if e.traits["question"] == kind)
        print(f"diverse(T12), {kind}: 1-3, 4, 5, 6-15 facts: {[sizes[s] for s in (3, 4, 5, 6)]} (250 each)")


if __name__ == "__main__":
    main()
