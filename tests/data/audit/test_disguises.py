"""The audit finds copies of training in disguise, names the disguise, and lets natural resemblance
pass.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import taskloom as tl
from taskloom.cli.app import run
from taskloom.data.audit import Audit
from taskloom.data.audit.disguises import NUMBERS, ONE_WORD, SENTENCES, SIMILAR, WORDS, undisguise

Row = dict[str, object]
VOCABULARY = [f"{a}{b}{c}" for a in "bdklm" for b in "aeou" for c in ("ne", "rat", "pel", "st")]


def audit(folder: Path, **splits: list[Row]) -> Audit:
    folder.mkdir(exist_ok=True)
    for name, rows in splits.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return tl.audit(folder)


def story(rng: random.Random) -> str:
    sentences = [" ".join(rng.choices(VOCABULARY, k=6)) for _ in range(3)]
    return ". ".join([*sentences, f"It took {rng.randrange(10, 999)} days"]) + "."


def rows(n: int, seed: int) -> list[Row]:
    rng = random.Random(seed)
    return [{"input": story(rng), "target": rng.choice(["yes", "no"])} for _ in range(n)]


def reordered(text: str) -> str:
    first, *others = text.rstrip(".").split(". ")
    return ". ".join([*others, first]) + "."


CERTAIN: dict[str, tuple[str, Callable[[str], str]]] = {
    "zero-width space": ("invisible characters", lambda t: t.replace("a", "a\u200b")),
    "soft hyphen": ("invisible characters", lambda t: t.replace("a", "a\u00ad")),
    "word joiner": ("invisible characters", lambda t: t.replace("a", "a\u2060")),
    "variation selector": ("invisible characters", lambda t: t.replace("a", "a\ufe0f")),
    "added accent": ("accents", lambda t: t.replace("o", "ó")),
    "combining marks": ("accents", lambda t: t.replace("n", "n\u0323\u0301")),
    "Cyrillic": ("look-alike letters", lambda t: t.translate(str.maketrans("aeop", "аеор"))),
    "Greek": ("look-alike letters", lambda t: t.translate(str.maketrans("oai", "οαι"))),
    "stroke": ("look-alike letters", lambda t: t.replace("d", "đ").replace("l", "ł")),
    "entities": ("HTML entities", lambda t: t.replace(" ", "&nbsp;")),
    "numeric entities": ("HTML entities", lambda t: t.replace("a", "&#97;")),
    "two at once": (
        "several disguises",
        lambda t: t.replace("a", "а").replace("e", "e\u200b"),
    ),
}


@pytest.mark.parametrize("disguise", CERTAIN)
def test_one_row_in_a_disguise_that_never_arises_is_a_leak(tmp_path: Path, disguise: str) -> None:
    kind, change = CERTAIN[disguise]
    train, test = rows(300, 1), rows(100, 2)
    test[7] = {"input": change(str(train[42]["input"])), "target": "yes"}
    found = audit(tmp_path / "d", train=train, test=test)
    assert [(o.exact, o.near, o.kinds) for o in found.leaks] == [(0, 1, {kind: 1})]
    assert f"1 by {kind}" in found.summary


NATURAL: dict[str, tuple[str, Callable[[str], str]]] = {
    "number": (
        NUMBERS,
        lambda t: " ".join(str(int(w) + 1) if w.isdigit() else w for w in t.split()),
    ),
    "sentences": (SENTENCES, reordered),
    "words": (WORDS, lambda t: " ".join(t.split()[::-1])),
    "synonym": (ONE_WORD, lambda t: " ".join([*t.split()[:5], "reworded", *t.split()[6:]])),
    "prefix": (SIMILAR, lambda t: f"Question: {t}"),
}


@pytest.mark.parametrize("change", NATURAL)
def test_many_rows_with_another_number_or_order_are_leaks(
    tmp_path: Path, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, alter = NATURAL[change]
    train, test = rows(300, 1), rows(100, 2)
    for at in range(30):
        test[at]["input"] = alter(str(train[at]["input"]))
    found = audit(tmp_path / "d", train=train, test=test)
    assert [(o.near, o.kinds) for o in found.leaks] == [(30, {kind: 30})]
    assert run(["audit", str(tmp_path / "d"), "--json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert shown["leaks"][0]["kinds"] == {kind: 30}
    assert f"30 by {kind}" in shown["summary"]
    run(["audit", str(tmp_path / "d")])
    table = " ".join(capsys.readouterr().out.split())
    assert f"failed: 1 leak (30 by {kind})" in table


def test_numbers_and_orders_that_vary_within_training_are_no_leaks(tmp_path: Path) -> None:
    """Sums differ in their numbers everywhere, and lists in their order."""
    rng = random.Random(0)

    def sums(n: int) -> list[Row]:
        texts = [
            f"Mary has {rng.randrange(10**6)} apples and {rng.randrange(99)} pears, and how many"
            f" has she with {rng.randrange(9)} plums?"
            for _ in range(n)
        ]
        return [{"input": text, "target": "x"} for text in dict.fromkeys(texts)]

    def lists(n: int) -> list[Row]:
        words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
        return [{"input": " ".join(rng.sample(words, 9)), "target": "x"} for _ in range(n)]

    def templates(n: int) -> list[Row]:
        names = [f"name{i}" for i in range(2_000)]
        texts = [
            f"This morning {rng.choice(names)} walked from the park to the office of"
            f" {rng.choice(names)} again"
            for _ in range(n)
        ]
        return [{"input": text, "target": "x"} for text in dict.fromkeys(texts)]

    for make, kind in ((sums, NUMBERS), (lists, WORDS), (templates, ONE_WORD)):
        found = audit(tmp_path / kind, train=make(400), test=make(100))
        assert not found.leaks
        assert [(a.kind, a.leak) for a in found.alike] == [(kind, False)]
        assert any(note.startswith(kind) for note in found.notes)


def test_passages_that_training_has_with_another_question_are_leaks(tmp_path: Path) -> None:
    """Also if training asks several questions about each passage: only a recipe may explain them."""
    rng = random.Random(0)
    passages = [" ".join(rng.choices(VOCABULARY, k=60)) for _ in range(30)]

    def asked(n: int) -> list[Row]:
        return [
            {"input": f"{rng.choice(passages)} {rng.choice(VOCABULARY)}?", "target": "x"}
            for _ in range(n)
        ]

    train = asked(200)
    seen = {row["input"] for row in train}
    test = [row for row in asked(100) if row["input"] not in seen]
    found = audit(tmp_path / "d", train=train, test=test)
    assert [o.kinds for o in found.leaks] == [{SIMILAR: len(test)}]


def test_stories_of_a_recipe_resemble_each_other_by_themselves() -> None:
    sizes = {"train": {"n": 3000}, "test": {"n": 500}}
    found = tl.audit(tl.make("babi/4", changes={"splits": sizes}))
    similar = [a for a in found.alike if a.kind == SIMILAR]
    assert [(a.leak, a.rows > 0) for a in similar] == [(False, True)]


@pytest.mark.parametrize(
    ("train", "test"), [("ano", "año"), ("f a", "f α"), ("con", "сон"), ("3 4", "3 5")]
)
def test_in_short_inputs_letters_and_numbers_carry_meaning(
    tmp_path: Path, train: str, test: str
) -> None:
    found = audit(
        tmp_path / "d",
        train=[{"input": train, "target": "x"}],
        test=[{"input": test, "target": "y"}],
    )
    assert not found.leaks


@pytest.mark.parametrize("test", ["ho\u200buse", "hоuse", "&#104;ouse"])
def test_short_inputs_in_a_disguise_that_never_arises(tmp_path: Path, test: str) -> None:
    found = audit(
        tmp_path / "d",
        train=[{"input": "house", "target": "x"}],
        test=[{"input": test, "target": "y"}],
    )
    assert [o.near for o in found.leaks] == [1]


def test_duplicates_in_a_test_of_unknown_origin_fail_the_audit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, test = rows(100, 1), rows(50, 2)
    assert not audit(tmp_path / "clean", train=train, test=test).failed
    assert not audit(tmp_path / "train", train=[*train, train[0]], test=test).failed
    hidden: Row = {"input": str(test[3]["input"]).replace("a", "a\u200b"), "target": "no"}
    found = audit(tmp_path / "d", train=train, test=[*test, test[0], hidden])
    assert found.failed
    assert [(r.exact, r.disguised, r.unexpected) for r in found.repeats] == [
        (1, 1, True),
        (0, 0, False),
    ]
    assert run(["audit", str(tmp_path / "d")]) == 1
    assert "failed: 0 leaks, 1 duplicate and 1 in disguise" in capsys.readouterr().out


def test_duplicates_that_a_recipe_draws_pass() -> None:
    data = tl.make("babi/1", changes={"splits": {"train": {"n": 3000}, "test": {"n": 500}}})
    found = tl.audit(data)
    assert sum(r.exact for r in found.repeats) > 0
    assert not found.failed


def test_a_column_that_is_a_number_in_one_split_and_text_in_another(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("input,target,size\na,1,2\nb,1,large\n")
    (tmp_path / "test.csv").write_text("input,target,size\nc,1,2\nd,1,3\n")
    coverage = tl.audit(tmp_path).coverage[0]
    assert (coverage.trait, coverage.unseen_values, coverage.examples) == ("size", 1, ["3"])


def test_two_training_splits_with_other_types(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("input,target,size\na,1,2\n")
    (tmp_path / "train-more.csv").write_text("input,target,size\nb,1,large\n")
    (tmp_path / "test.csv").write_text("input,target,size\nc,1,2\nd,1,small\n")
    assert tl.audit(tmp_path).coverage[0].examples == ["small"]


@pytest.mark.parametrize("number", [1, 4, 9, pytest.param(10, marks=pytest.mark.slow)])
def test_clean_stories_raise_no_alarm(number: int) -> None:
    sizes = {"train": {"n": 3000}, "test": {"n": 500}}
    found = tl.audit(tl.make(f"babi/{number}", changes={"splits": sizes}))
    assert not found.failed, found.summary


@given(st.text(st.characters(max_codepoint=127, exclude_characters="&"), max_size=60))
def test_plain_text_is_left_as_it_is(text: str) -> None:
    assert undisguise(pa.array([text])).to_pylist() == [text]


@given(st.text(max_size=60))
def test_undoing_twice_changes_nothing_more_than_entities(text: str) -> None:
    once = undisguise(pa.array([text.replace("&", "")], pa.string()))
    assert undisguise(once).to_pylist() == once.to_pylist()
