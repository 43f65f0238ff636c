"""Splits of tasks that are one function: what a size, another split or a knob moves, and what is
held out.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import taskloom as tl
from taskloom.core.errors import RecipeError, TaskloomError
from taskloom.core.example import Example
from taskloom.core.seeding import Key
from taskloom.recipe import read
from taskloom.recipe.splits import SLOTS, owners

HEAD = """import random
import taskloom as tl
WORDS = "amber basin cedar delta ember fable".split()
"""

KNOBS = (
    HEAD
    + """
@tl.task("words/knobs", describe="Reverse the words.")
def knobs(
    rng: tl.Random,
    length: int = tl.knob(4, low=2, high=6, kind="draw"),
    copies: int = 1,
    separator: str = tl.knob(" ", kind="presentation"),
    indent: int = tl.knob(0, low=0, high=9, kind="presentation"),
) -> tl.Example:
    words = rng.choices(WORDS, k=length) * copies
    return tl.Example(" " * indent + separator.join(words), " ".join(reversed(words)), traits={"length": length})
"""
)


def lines(file: Path, split: str, *changes: str) -> list[Example]:
    """Return the rows of a split of a task file with changes."""
    return list(tl.make(str(file), set=list(changes))[split])


@pytest.fixture
def task_file(tmp_path: Path) -> Path:
    path = tmp_path / "knobs.py"
    path.write_text(KNOBS)
    return path


SMALL = "splits={train: {n: 60}, dev: {n: 20}, test: {n: 30}}"


def test_the_size_of_a_split_moves_no_other_and_a_smaller_one_is_a_prefix(task_file: Path) -> None:
    small = tl.make(str(task_file), set=[SMALL])
    large = tl.make(str(task_file), set=[SMALL, "splits.train.n=200", "splits.dev.n=5"])
    assert list(large["test"]) == list(small["test"])
    assert list(large["train"])[:60] == list(small["train"])
    assert list(small["dev"])[:5] == list(large["dev"])


def test_adding_a_split_changes_no_other(task_file: Path) -> None:
    plain = tl.make(str(task_file), set=[SMALL])
    more = tl.make(
        str(task_file), set=[SMALL, "splits.extra.n=20", "splits.iid.n=9", "splits.extra-long.n=20"]
    )
    for split in plain.splits:
        assert list(more[split]) == list(plain[split]), split
    contents = {split: {e.content for e in more[split]} for split in more.splits}
    assert all(not contents[a] & contents[b] for a in contents for b in contents if a < b)


def test_every_content_belongs_to_one_split_at_most_and_all_slots_are_used() -> None:
    names = ["train", "x", "test", "y", "ood", "iid", "z", "dev"]
    tests = owners(names, Key("slots"))
    counts = dict.fromkeys(names, 0)
    for i in range(8_000):
        mine = [name for name in names if tests[name](str(i))]
        assert len(mine) <= 1
        for name in mine:
            counts[name] += 1
    expected = {name: (stop - start) / 32 for name, (start, stop) in SLOTS.items()} | {
        "x": 1 / 32,
        "y": 1 / 96,
        "z": 1 / 192,
    }
    assert {name: count / 8_000 for name, count in counts.items()} == pytest.approx(
        expected, abs=0.02
    )


def test_a_world_knob_draws_anew_and_a_draw_knob_keeps_contents_in_their_splits(
    task_file: Path,
) -> None:
    train, test = lines(task_file, "train", SMALL), lines(task_file, "test", SMALL)
    assert not {e.input for e in train} & {
        e.input for e in lines(task_file, "train", SMALL, "copies=2")
    }
    shorter = lines(task_file, "train", SMALL, "length=3..4", "splits.train.n=400")
    assert shorter[:60] != train
    assert not {e.input for e in shorter} & {e.input for e in test}
    assert {e.input for e in shorter} & {e.input for e in train}
    kinds = read(str(task_file)).fields
    assert type(kinds).field_kinds() == {  # type: ignore[attr-defined]
        "length": "draw",
        "copies": "world",
        "separator": "presentation",
        "indent": "presentation",
        "splits": "draw",
        "parts": "presentation",
    }


@pytest.mark.parametrize("change", ["separator=', '", "indent=3", "indent=0..9"])
def test_a_presentation_knob_keeps_the_items(task_file: Path, change: str) -> None:
    for split in ("train", "test"):
        plain, written = lines(task_file, split, SMALL), lines(task_file, split, SMALL, change)
        assert [(e.content, e.targets, e.traits) for e in written] == [
            (e.content, e.targets, e.traits) for e in plain
        ]
        assert [e.input for e in written] != [e.input for e in plain]
    assert len({e.input for e in written if e.input.startswith(" ")}) > 1 or "indent" not in change


def test_a_presentation_knob_that_changes_traits_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.py"
    path.write_text(KNOBS.replace('traits={"length": length}', 'traits={"indent": indent}'))
    with pytest.raises(
        TaskloomError, match="indent is declared as presentation but changes the trait 'indent'"
    ):
        lines(path, "train", SMALL, "indent=2")


def test_an_unknown_kind_of_knob_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.py"
    path.write_text(KNOBS.replace('kind="draw"', 'kind="drawn"'))
    with pytest.raises(TaskloomError, match=r"there is no kind 'drawn'.*draw"):
        lines(path, "train", SMALL)


# Held out

HELD = (
    HEAD
    + """
@tl.task("words/held", describe="Reverse the words.", held_out={predicate})
def held(rng: tl.Random, length: int = tl.knob(4, low=1, high=6)) -> tl.Example:
    words = rng.sample(WORDS, length)
    steps = [tl.Step("take", word) for word in words]
    return tl.Example(" ".join(words), " ".join(reversed(words)), traits={{"length": length}}, derivation=steps)
"""
)
SPLITS = "splits={train: {n: 200}, iid: {n: 40}, ood: {n: 40}, ood-more: {n: 10}}"


def held_file(folder: Path, predicate: str) -> Path:
    """Write a task whose predicate is given as code."""
    path = folder / "held.py"
    path.write_text(HELD.format(predicate=predicate))
    return path


@pytest.mark.parametrize(
    "predicate",
    [
        "lambda length: length == 5",
        "lambda traits: traits['length'] == 5",
        "lambda derivation: len(derivation) == 5",
        "lambda example, length: len(example.input.split()) == length == 5",
    ],
    ids=["knob", "trait", "derivation", "example"],
)
def test_ood_has_what_is_held_out_and_no_other_split_has_it(tmp_path: Path, predicate: str) -> None:
    file = held_file(tmp_path, predicate)
    data = tl.make(str(file), set=["length=3..6", SPLITS])
    for split in data.splits:
        lengths = {len(e.input.split()) for e in data[split]}
        assert lengths == {5} if split.startswith("ood") else lengths == {3, 4, 6}
        assert {e.traits["held_out"] for e in data[split]} == {split.startswith("ood")}


def test_audit_and_verify_certify_what_is_held_out(tmp_path: Path) -> None:
    file = held_file(tmp_path, "lambda example, length: len(example.input.split()) == length == 5")
    data = tl.make(str(file), tmp_path / "d", set=["length=3..6", SPLITS], workers=1)
    report = tl.audit(data)
    assert not report.leaks
    assert not report.misplaced
    assert [(c.split, c.held_out) for c in report.held_out] == [
        ("train", 0),
        ("iid", 0),
        ("ood", 40),
        ("ood-more", 10),
    ]
    assert not [c for c in report.coverage if c.trait == "held_out"]
    assert tl.verify(tmp_path / "d", every=True, task=file).answers == 290


def test_a_task_with_a_held_out_part_has_its_own_default_splits(tmp_path: Path) -> None:
    plan = read(str(held_file(tmp_path, "lambda length: length == 5")), ["length=4..5"]).plan(0)
    assert [(s.name, s.n, s.role) for s in plan.splits] == [
        ("train", 10_000, "train"),
        ("iid", 1_000, "test"),
        ("ood", 1_000, "test"),
    ]


def test_the_size_of_training_moves_no_held_out_row(tmp_path: Path) -> None:
    file = held_file(tmp_path, "lambda length: length == 5")
    changes = ["length=3..6", SPLITS]
    for split in ("iid", "ood"):
        assert lines(file, split, *changes) == lines(file, split, *changes, "splits.train.n=10")


def test_misplaced_examples_fail_the_audit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from taskloom.cli import run

    rows: dict[str, list[bool | None]] = {
        "train": [False, True],
        "ood": [True, True],
        "iid": [False, None],
    }
    for split, values in rows.items():
        examples = [
            {"input": f"{split} {i}", "target": "x", "traits": {"held_out": v}}
            for i, v in enumerate(values)
        ]
        (tmp_path / f"{split}.jsonl").write_text(
            "".join(json.dumps(example) + "\n" for example in examples)
        )
    report = tl.audit(tmp_path)
    assert {c.split for c in report.misplaced} == {"train", "iid"}
    assert run(["audit", str(tmp_path)]) == 1
    assert "2 splits with misplaced held-out examples" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("predicate", "sentence"),
    [
        (
            "lambda length: length > 6",
            "no example is held out, so the split 'ood' cannot be filled",
        ),
        (
            "lambda length: length < 9",
            "no example is not held out, so the split 'train' cannot be filled",
        ),
        (
            "lambda length: 1 / 0",
            "held_out raised ZeroDivisionError: division by zero .*for the input",
        ),
        (
            "lambda length: random.random() < 0.5",
            "held_out returned both True and False",
        ),
        ("lambda traits: traits['size'] == 5", "held_out raised KeyError: 'size'"),
        ("lambda length: None", "held_out gave None; it must give True or False"),
        (
            "lambda size: size > 3",
            "held_out has the parameter 'size'; it may have: example, traits, derivation, length",
        ),
        ("lambda: True", "held_out has no parameters"),
        ("'length > 3'", "held_out is 'length > 3'; use a function"),
    ],
)
def test_bad_predicates_are_refused_before_the_first_row(
    tmp_path: Path, predicate: str, sentence: str
) -> None:
    with pytest.raises(TaskloomError, match=sentence):
        read(str(held_file(tmp_path, predicate)), ["length=2..6"]).plan(0)


def test_a_rarely_held_out_example_is_refused_with_its_number(tmp_path: Path) -> None:
    file = held_file(
        tmp_path, "lambda example: example.input.startswith('amber basin cedar delta ember')"
    )
    with pytest.raises(
        RecipeError, match=r"\d of 2,000 drawn examples are held out, so the split 'ood'"
    ):
        read(str(file), ["length=5..6"]).plan(0)
    assert read(str(file), ["length=5..6", "splits={train: {n: 5}}"]).plan(0).splits[0].n == 5


def test_a_trait_of_the_name_that_held_out_adds_is_refused(tmp_path: Path) -> None:
    file = held_file(tmp_path, "lambda length: length == 5")
    file.write_text(file.read_text().replace('{"length": length}', '{"held_out": 1}'))
    with pytest.raises(TaskloomError, match="held_out adds the trait 'held_out'"):
        read(str(file), ["length=2..6"]).plan(0)
