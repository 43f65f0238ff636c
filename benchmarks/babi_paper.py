"""Numbers of the Dyna-bAbI paper beside those of our recipes: Tables 1, 2 and 9, the answers of mix(T12), the words of the mixes.

python benchmarks/babi_paper.py              # 2,000 examples of a training split, whole tests
python benchmarks/babi_paper.py --whole      # every example
python benchmarks/babi_paper.py --simulate 40000   # only: how often simulated stories have GIVE in the supports of mix(T7)
"""

from __future__ import annotations

import argparse
from collections import Counter

from taskloom.example import Example
from taskloom.recipe import read
from taskloom.seeding import Key
from taskloom.suites.babi.fields import PARTS, BabiFields
from taskloom.suites.babi.generator.many_questions import action_weights
from taskloom.suites.babi.generator.simulator import Simulator
from taskloom.suites.babi.reasoner.answers import supports
from taskloom.suites.babi.reasoner.knowledge import Knowledge
from taskloom.suites.babi.reasoner.questions import askable
from taskloom.suites.babi.story.events import Event, QuestionKind
from taskloom.suites.babi.story.vocabulary import Vocabulary

TABLE_1 = {
    1: (6, 1), 2: (15.52, 2), 3: (51.9, 3), 5: (20.1, 1), 6: (6.27, 1), 7: (8.67, 2.33), 8: (8.75, 1.94), 9: (6, 1),
    10: (6, 1), 11: (6, 2), 12: (6, 1), 13: (6, 2),
}  # fmt: skip
"""Mean sentences before a question, and mean supporting facts, of the training sets of bAbI 1.0."""

TABLE_2 = {
    "mix-T2": (13.25, 2.05), "mix-T7": (20, 2.50), "mix-T12": (20, 3.70), "diverse-T7": (20, 2.17),
    "diverse-T12": (20, 2.45), "concat-T2": (10.76, 2), "concat-T7": (13.5, 1.68), "concat-T12": (10.8, 1.42),
    "concat-T7-trimmed": (13.5, 1.68), "concat-T12-trimmed": (10.8, 1.42),
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


def simulate(stories: int) -> None:
    """Print the share of questions with GIVE in the support in stories simulated as the reference does, with its names."""
    fields = read("babi/mix-T7").fields
    assert isinstance(fields, BabiFields)
    vocabulary, rng, weights = Vocabulary(), Key("babi_paper").random("simulate"), action_weights(fields.groups[0])
    counts: Counter[tuple[str, int, bool]] = Counter()
    for _ in range(stories):
        simulator = Simulator(vocabulary, rng)
        simulator.settle()
        events: list[Event] = []
        while len(events) < 20:  # two sentences at once may make it 21, which the reference throws away
            events += simulator.act(weights)
        knowledge = Knowledge(vocabulary.places).tell_all(events) if len(events) == 20 else Knowledge(vocabulary.places)
        kinds: tuple[QuestionKind, ...] = ("where-P", "where-O", "where-was-O")
        for question in filter(None, (next(askable(knowledge, kind, rng), None) for kind in kinds)):
            support = supports(knowledge, question)[0]
            counts[question.kind, len(support), any(events[i].kind == "give" for i in support)] += 1
    expected: Counter[int] = Counter()
    for group in fields.groups:
        assert group.support is not None
        (kind,), size = group.questions, group.support.low
        share = counts[kind, size, True] / max(1, counts[kind, size, True] + counts[kind, size, False])
        expected[size] += round(group.n * share)
        print(f"  {group.name}: GIVE in {share:.3f} of the supports; mix(T7) has {group.frequencies.get('GIVE', 0)}")
    print(f"  of 3,000 questions: {expected[2]} with two facts (99), {expected[3]} with three (468)")


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--simulate", type=int, metavar="STORIES")
    options = parser.parse_args()
    if options.simulate:
        simulate(options.simulate)
        return
    most = None if options.whole else 2_000

    print("Table 1: task, length (paper), support (paper)")
    for task, (length, support) in TABLE_1.items():
        examples = rows(str(task), most)
        ours, shortest = means(examples), sum(int(e.traits["minimal"]) for e in examples) / len(examples)
        print(f"  {task:2}  {ours[0]:6.2f} ({length})  {ours[1]:5.2f} ({support}), shortest {shortest:.2f}")

    print("Table 2: split, length (paper), support (paper)")
    for name, (length, support) in TABLE_2.items():
        ours = means(rows(name, None if name.startswith("mix") else most and 3 * most))
        print(f"  {name:18} {ours[0]:6.2f} ({length})  {ours[1]:5.2f} ({support})")

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
        with_coref = sum(has(e, "COREF") for e in long)
        print(
            f"mix(T12), {kind}, four facts or more: {with_coref} with COREF in the support, {len(long) - with_coref} without"
        )
    diverse = rows("diverse-T12")
    for kind in ("list", "counting"):
        sizes = Counter(min(6, max(3, int(e.traits["support"]))) for e in diverse if e.traits["question"] == kind)
        print(f"diverse(T12), {kind}: 1-3, 4, 5, 6-15 facts: {[sizes[s] for s in (3, 4, 5, 6)]} (250 each)")


if __name__ == "__main__":
    main()
