"""Numbers of the Dyna-bAbI paper beside those of our recipes: Tables 1, 2 and 9, the answers of
mix(T12), the words of the mixes.

python benchmarks/babi_paper.py              # 2,000 examples of a training split, whole tests
python benchmarks/babi_paper.py --whole      # every example python benchmarks/babi_paper.py
--simulate 40000   # only: how often simulated stories have GIVE in the supports of mix(T7)
"""

from __future__ import annotations

import argparse
from collections import Counter

from taskloom.analysis.published_numbers import published
from taskloom.core.seeding import Key
from taskloom.papers.dyna_babi.data_tables import examples_of, gift_counts, sample, support_has
from taskloom.recipe import read
from taskloom.suites.babi.fields import PARTS, BabiFields
from taskloom.suites.babi.generator.simulator import Simulator
from taskloom.suites.babi.generator.story_setting import action_weights, askable
from taskloom.suites.babi.reasoner.answers import supports
from taskloom.suites.babi.reasoner.knowledge import Knowledge
from taskloom.suites.babi.story.events import Event, QuestionKind
from taskloom.suites.babi.story.vocabulary import Vocabulary

TRAINING_SPLITS = (
    "diverse-T7", "diverse-T12", "concat-T2", "concat-T7", "concat-T12", "concat-T7-trimmed", "concat-T12-trimmed",
    "inject-T7", "inject-T12",
)  # fmt: skip


def number(place: str, **of: object) -> float:
    """Return a number of the paper."""
    (published_number,) = published("dyna-babi", place, **of)
    return published_number.value


def simulate(stories: int) -> None:
    """Print the share of questions with GIVE in the support in stories simulated as the reference
    does, with its names.
    """
    fields = read("babi/mix-T7").fields
    assert isinstance(fields, BabiFields)
    vocabulary, rng, weights = (
        Vocabulary(),
        Key("babi_paper").random("simulate"),
        action_weights(fields.groups[0]),
    )
    counts: Counter[tuple[str, int, bool]] = Counter()
    for _ in range(stories):
        simulator = Simulator(vocabulary, rng)
        simulator.settle()
        events: list[Event] = []
        while (
            len(events) < 20
        ):  # two sentences at once may make it 21, which the reference throws away
            events += simulator.act(weights)
        knowledge = (
            Knowledge(vocabulary.places).tell_all(events)
            if len(events) == 20
            else Knowledge(vocabulary.places)
        )
        kinds: tuple[QuestionKind, ...] = ("where-P", "where-O", "where-was-O")
        for question in filter(None, (next(askable(knowledge, kind, rng), None) for kind in kinds)):
            support = supports(knowledge, question)[0]
            counts[question.kind, len(support), any(events[i].kind == "give" for i in support)] += 1
    expected: Counter[int] = Counter()
    for group in fields.groups:
        assert group.support is not None
        (kind,), size = group.questions, group.support.low
        share = counts[kind, size, True] / max(
            1, counts[kind, size, True] + counts[kind, size, False]
        )
        expected[size] += round(group.n * share)
        print(
            f"  {group.name}: GIVE in {share:.3f} of the supports; mix(T7) has"
            f" {group.frequencies.get('GIVE', 0)}"
        )
    print(
        f"  of 3,000 questions: {expected[2]} with two facts (99), {expected[3]} with three (468)"
    )


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
    for task in PARTS["T12"]:
        ours = sample(str(task), most)
        length, support = (
            number("Table 1", task=task, what=what) for what in ("length", "support")
        )
        print(
            f"  {task:2}  {ours.length:6.2f} ({length})  {ours.support:5.2f} ({support}), shortest"
            f" {ours.minimal:.2f}"
        )

    print("Table 2: split, length (paper), support (paper)")
    for name in ("mix-T2", "mix-T7", "mix-T12", *TRAINING_SPLITS):
        ours, whole = (
            sample(name, None if name.startswith("mix") else most and 3 * most),
            name.removesuffix("-trimmed"),
        )
        length, support = (
            number("Table 2", split=whole, what=what) for what in ("length", "support")
        )
        print(f"  {name:18} {ours.length:6.2f} ({length})  {ours.support:5.2f} ({support})")

    print("Table 9, mix(T7): facts, GIVE, questions (paper)")
    counts = gift_counts(examples_of("mix-T7"))
    for cell in published("dyna-babi", "Table 9", what="samples"):
        size, give = cell.of["support"], cell.of["give"]
        print(f"  {size} {give:7} {counts[size, give == 'with']:5} ({cell.value:.0f})")

    print("answers that the training split never has")
    for name in PARTS:
        known = {e.target for e in examples_of(f"concat-{name}", 12_000)}
        mixed = list(examples_of(f"mix-{name}"))
        print(f"  mix-{name} {sum(e.target not in known for e in mixed) / len(mixed):.3f}")

    mixed = list(examples_of("mix-T12"))
    answers = Counter(e.target for e in mixed if e.traits["question"] == "yes-no")
    print(
        f"mix(T12), yes-no: {answers['yes']} yes (446), {answers['no']} no, {answers['maybe']}"
        " maybe"
    )
    for kind in ("list", "counting"):
        long = [e for e in mixed if e.traits["question"] == kind and int(e.traits["support"]) >= 4]
        with_coref = sum(support_has(e, "COREF") for e in long)
        print(
            f"mix(T12), {kind}, four facts or more: {with_coref} with COREF in the support,"
            f" {len(long) - with_coref} without"
        )
    diverse = list(examples_of("diverse-T12"))
    for kind in ("list", "counting"):
        sizes = Counter(
            min(6, max(3, int(e.traits["support"])))
            for e in diverse
            if e.traits["question"] == kind
        )
        print(
            f"diverse(T12), {kind}: 1-3, 4, 5, 6-15 facts: {[sizes[s] for s in (3, 4, 5, 6)]} (250"
            " each)"
        )


if __name__ == "__main__":
    main()
