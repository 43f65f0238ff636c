"""How many altered rows `verify` finds, how many disguised copies `audit` finds, and how often either
is wrong about clean data.

    python benchmarks/detection.py [--rows 30] [--part verify|audit|clean] [--recipe NAME …]

Every alteration of the first table is careful: all digests are computed again, so that only the
values can give it away. The second table plants 50 rows of training in a test of 150 rows. The third
makes clean datasets of every suite and counts the rows in which an alarm is raised. The tables are
Markdown; docs/reference/detection.md holds them.
"""

from __future__ import annotations

import argparse
import random
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

import taskloom as tl
from taskloom.core import shards
from taskloom.core.errors import DataError
from taskloom.data import Dataset, dataset

Row = dict[str, Any]

SUITES: dict[str, tuple[str, dict[str, Any], str]] = {
    "ctl": ("ctl/A-independent", {"splits": {"train": {"n": 2000}, "iid": {"n": 200}}}, "iid"),
    "babi": ("babi/mix-T7", {"splits": {"mix": {"n": 200}}}, "mix"),
    "taskbench": ("taskbench/union(synonyms[eng], antonyms[eng])", {}, "test"),
    "zest": ("zest/synthetic", {"tasks.train": 40, "tasks.dev": 12, "tasks.test": 0}, "dev"),
}
"""The recipe, its changes and the altered split of each suite."""


def _another(value: Any) -> Any:
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    return f"{value}x"


def _answer(rows: list[Row], at: int) -> None:
    rows[at]["targets"] = ["another answer", *rows[at]["targets"][1:]]


def _answer_case(rows: list[Row], at: int) -> None:
    first, *others = rows[at]["targets"]
    swapped = first.swapcase()
    rows[at]["targets"] = [swapped if swapped != first else f"{first} ", *others]


def _answer_added(rows: list[Row], at: int) -> None:
    rows[at]["targets"] = [*rows[at]["targets"], "another answer"]


def _answer_dropped(rows: list[Row], at: int) -> None:
    rows[at]["targets"] = rows[at]["targets"][:-1] or rows[at]["targets"]


def _answer_order(rows: list[Row], at: int) -> None:
    rows[at]["targets"] = rows[at]["targets"][::-1]


def _trait(rows: list[Row], at: int) -> None:
    traits = dict(rows[at]["traits"])
    names = [name for name, value in traits.items() if value is not None]
    name = names[at % len(names)]
    rows[at]["traits"] = {**traits, name: _another(traits[name])}


def _derivation(rows: list[Row], at: int) -> None:
    step = {"rule": "guess", "value": "", "of": None}
    rows[at]["derivation"] = [*(rows[at]["derivation"] or [])[:-1], step]


def _text(column: str) -> Callable[[list[Row], int], None]:
    def alter(rows: list[Row], at: int) -> None:
        rows[at][column] = f"{rows[at][column] or ''}x"

    return alter


def _index(rows: list[Row], at: int) -> None:
    rows[at]["index"] += 1


def _neighbour(rows: list[Row], at: int) -> None:
    rows[at] = {**rows[at + 1], "index": rows[at]["index"]}


def _swapped(rows: list[Row], at: int) -> None:
    here, there = rows[at], rows[at + 1]
    rows[at], rows[at + 1] = (
        {**there, "index": here["index"]},
        {**here, "index": there["index"]},
    )


def _blank(rows: list[Row], at: int) -> None:
    rows[at]["input"] += " "


def _told(rows: list[Row], at: int) -> None:
    rows[at]["input"] += f" {rows[at]['targets'][0]}"


ALTERATIONS: dict[str, Callable[[list[Row], int], None]] = {
    "another answer": _answer,
    "the answer in other case": _answer_case,
    "an answer added": _answer_added,
    "an acceptable answer dropped": _answer_dropped,
    "the order of the answers": _answer_order,
    "a trait": _trait,
    "the derivation": _derivation,
    "the question": _text("question"),
    "the key": _text("key"),
    "the index": _index,
    "the task": _text("task"),
    "the row replaced by its neighbour": _neighbour,
    "two neighbours swapped": _swapped,
    "a blank at the end of the input": _blank,
    "the answer written into the input": _told,
}


def altered(data: Dataset, split: str, rows: list[Row]) -> Dataset:
    """Return a dataset with other rows in a split, and digests that fit them."""
    table = pa.Table.from_pylist(rows, schema=data.table(split).schema)
    entry = {
        **data.manifest["splits"][split],
        "digest": dataset.split_digest(shards.block_digests(table)),
    }
    splits = {**data.manifest["splits"], split: entry}
    manifest = {**data.manifest, "splits": splits, "digest": dataset.content_digest(splits)}
    return Dataset(manifest, {**data.tables, split: table})


def count_altered(data: Dataset, split: str, kind: str, n: int) -> tuple[int, int]:
    """Alter rows of a split, and return how many `verify --all` finds and how many there are."""
    before = data.table(split).to_pylist()
    rows = [dict(row) for row in before]
    for at in range(0, len(rows) - 1, max(2, len(rows) // n)):
        ALTERATIONS[kind](rows, at)
    changed = sum(one != other for one, other in zip(rows, before, strict=True))
    found = tl.verify(altered(data, split, rows), every=True)
    return found.differing, changed


def count_planted(data: Dataset, split: str, n: int) -> tuple[int, int] | None:
    """Put rows of training into a test split, and return how many are found of how many."""
    if "train" not in data.splits or split == "train":
        return None
    rows, train = data.table(split).to_pylist(), data.table("train").to_pylist()
    places = range(0, len(rows) - 1, max(2, len(rows) // n))
    names = data.table(split).column_names
    for at in places:
        rows[at] = {name: train[at % len(train)][name] for name in names} | {"index": at}
    found = tl.verify(altered(data, split, rows), every=True)
    return found.differing, len(places)


def verify_table(n: int) -> Iterator[str]:
    """Yield the table of altered rows, one line at a time."""
    made = {
        suite: (tl.make(name, changes=changes), split)
        for suite, (name, changes, split) in SUITES.items()
    }
    yield f"| alteration | {' | '.join(made)} |"
    yield f"| --- |{' --- |' * len(made)}"
    for kind in ALTERATIONS:
        counts = [count_altered(data, split, kind, n) for data, split in made.values()]
        yield f"| {kind} | {' | '.join(_share(count) for count in counts)} |"
    planted = [count_planted(data, split, n) for data, split in made.values()]
    yield f"| a row of training put into the test | {' | '.join(map(_share, planted))} |"
    clean = [tl.verify(data, every=True) for data, _ in made.values()]
    alarms = [f"{result.differing} of {result.remade:,}" for result in clean]
    yield f"| nothing: false alarms | {' | '.join(alarms)} |"


def _share(count: tuple[int, int] | None) -> str:
    return f"{count[0]}/{count[1]}" if count is not None and count[1] else "-"


NOUNS = [
    "river",
    "garden",
    "engine",
    "letter",
    "window",
    "doctor",
    "market",
    "bridge",
    "teacher",
    "forest",
    "ship",
    "clock",
]
NOUNS += [
    "village",
    "painter",
    "storm",
    "bottle",
    "castle",
    "farmer",
    "mountain",
    "ticket",
    "camera",
    "horse",
    "island",
    "judge",
]
VERBS = [
    "found",
    "carried",
    "painted",
    "repaired",
    "followed",
    "described",
    "washed",
    "counted",
    "bought",
    "hid",
]
SYNONYMS = dict(
    zip(
        VERBS,
        [
            "discovered",
            "bore",
            "coated",
            "fixed",
            "trailed",
            "depicted",
            "cleaned",
            "tallied",
            "purchased",
            "concealed",
        ],
        strict=True,
    )
)
ADJECTIVES = [
    "old",
    "quiet",
    "green",
    "broken",
    "heavy",
    "famous",
    "narrow",
    "wooden",
    "bright",
    "empty",
    "young",
    "distant",
]


def story(rng: random.Random) -> str:
    """Write four short sentences with a number."""
    sentences = []
    for _ in range(3):
        who, what, other = rng.sample(NOUNS, 3)
        one, two = rng.sample(ADJECTIVES, 2)
        sentences.append(f"The {one} {who} {rng.choice(VERBS)} the {two} {what}, near the {other}.")
    number = rng.randrange(10, 1000)
    sentences.append(f"It took {number} days until the {rng.choice(NOUNS)} came back to the café.")
    return " ".join(sentences)


def _row(rng: random.Random) -> Row:
    return {"input": story(rng), "targets": [rng.choice(["yes", "no"])]}


def _cyrillic(text: str) -> str:
    latin, cyrillic = "aeopcyx", "аеорсух"
    return text.translate(str.maketrans(latin, cyrillic))


def _synonym(text: str) -> str:
    verb = next(word for word in text.split() if word in SYNONYMS)
    return text.replace(verb, SYNONYMS[verb], 1)


def _number(text: str) -> str:
    return " ".join(str(int(w) + 1) if w.isdigit() else w for w in text.split())


def _full_width(text: str) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "a" <= c <= "z" else c for c in text)


DISGUISES: dict[str, Callable[[str], str]] = {
    "none (exact copy)": str,
    "upper case": str.upper,
    "lower case": str.lower,
    "double blanks": lambda t: t.replace(" ", "  "),
    "tabs": lambda t: t.replace(" ", "\t"),
    "no-break spaces": lambda t: t.replace(" ", "\u00a0"),
    "newline at the end": lambda t: f"{t}\n",
    "full-width letters": _full_width,
    "Unicode form NFD": lambda t: unicodedata.normalize("NFD", t),
    "punctuation removed": lambda t: t.replace(".", "").replace(",", ""),
    "punctuation changed": lambda t: t.replace(".", "!").replace(",", ";"),
    "quotes": lambda t: f"“{t}”",
    "word before": lambda t: f"Question: {t}",
    "word after": lambda t: f"{t} Answer:",
    "another answer": str,
    "the answer in other case": str,
    "zero-width spaces": lambda t: t.replace("e", "e\u200b"),
    "soft hyphens": lambda t: t.replace("e", "e\u00ad"),
    "an accent added": lambda t: t.replace("a", "á", 1),
    "combining accents": lambda t: t.replace("e", "e\u0301"),
    "Cyrillic look-alikes": _cyrillic,
    "HTML entities": lambda t: t.replace(" ", "&nbsp;"),
    "one number changed": _number,
    "sentences in another order": lambda t: ". ".join(t.rstrip(".").split(". ")[::-1]) + ".",
    "words reversed": lambda t: " ".join(t.split()[::-1]),
    "verb replaced by a synonym": _synonym,
}


def audit_table(planted: int = 50, tested: int = 150) -> Iterator[str]:
    """Yield the table of disguised copies, one line at a time."""
    rng = random.Random(0)
    train = [_row(rng) for _ in range(1000)]
    own = [_row(rng) for _ in range(tested)]
    yield "| disguise of 50 planted rows | found | named |"
    yield "| --- | --- | --- |"
    for kind, disguise in DISGUISES.items():
        copies = []
        for row in train[:planted]:
            answer = {
                "another answer": "maybe",
                "the answer in other case": row["targets"][0].upper(),
            }
            copies.append(
                {"input": disguise(row["input"]), "targets": [answer.get(kind, row["targets"][0])]}
            )
        found = tl.audit(_foreign(train=train, test=[*copies, *own[planted:]]))
        leaks = [leak for leak in found.leaks if leak.split == "test"]
        rows = sum(leak.exact + leak.near for leak in leaks)
        named = sorted(
            {"exact" for leak in leaks if leak.exact} | {k for o in leaks for k in o.kinds}
        )
        yield f"| {kind} | {rows}/{planted} | {', '.join(named) or '-'} |"
    clean = tl.audit(_foreign(train=train, test=own))
    alarms = sum(leak.exact + leak.near for leak in clean.leaks)
    yield f"| no planted row | {alarms} false alarms in {tested} | - |"


def _foreign(**splits: list[Row]) -> Dataset:
    """Return rows as a dataset that was made elsewhere."""
    tables = {}
    for name, rows in splits.items():
        full = [
            {"index": i, "task": "", "question": None, "key": None, **r} for i, r in enumerate(rows)
        ]
        schema = shards.schema({})
        tables[name] = pa.Table.from_pylist([{"derivation": [], **r} for r in full], schema=schema)
    entries = {
        name: {"n": table.num_rows, "role": "train" if name == "train" else "test"}
        for name, table in tables.items()
    }
    manifest = {"format": 1, "recipe": {"name": "own rows"}, "digest": "", "splits": entries}
    return Dataset(manifest, tables)


CLEAN = [
    "ctl/A",
    "ctl/R",
    "ctl/S",
    "ctl/length",
    "ctl/A-independent",
    "taskbench/english",
    "taskbench/permuted",
    "taskbench/balanced",
    *(f"babi/{number}" for number in range(1, 21)),
    "zest/synthetic",
    "babi/concat-T2",
    "babi/diverse-T7",
]
"""Recipes with training and test whose clean data are audited."""


def clean_table(names: list[str]) -> Iterator[str]:
    """Yield the table of false alarms on clean data, one line at a time."""
    yield "| recipe | test rows | false alarms | naturally similar | made again and differ |"
    yield "| --- | --- | --- | --- | --- |"
    rows = alarms = 0
    for name in names:
        changes = {"splits.train.n": 20_000} if name.startswith("ctl/") else {}
        try:
            data = tl.make(name, changes=changes)
        except DataError as error:  # a resource that this machine lacks, such as WordNet
            yield f"| {name} | - | - | - | not made: {error} |"
            continue
        found = tl.audit(data)
        tested = sum(info["n"] for info in found.splits.values() if info["role"] == "test")
        # Pairs are not counted: the published splits of TaskBench500 do have reversed pairs.
        wrong = sum(leak.exact + leak.near for leak in found.leaks)
        wrong += sum(repeats.exact for repeats in found.repeats if repeats.unexpected)
        natural = sum(alike.rows for alike in found.alike if not alike.leak)
        result = tl.verify(data)
        rows, alarms = rows + tested, alarms + wrong
        differing = f"{result.differing} of {result.remade:,}"
        yield f"| {name} | {tested:,} | {wrong} | {natural:,} | {differing} |"
    yield f"| together | {rows:,} | {alarms} | | |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=30, help="altered rows of each kind")
    parser.add_argument("--part", choices=["verify", "audit", "clean"], action="append")
    parser.add_argument("--recipe", action="append", help="clean recipes, instead of all")
    given = parser.parse_args()
    tables: dict[str, Iterator[str]] = {
        "verify": verify_table(given.rows),
        "audit": audit_table(),
        "clean": clean_table(given.recipe or CLEAN),
    }
    for part in given.part or tables:
        for line in tables[part]:
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
