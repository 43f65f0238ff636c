"""The audit finds what was planted, and nothing in clean data."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import taskloom as tl
from taskloom.cli.app import run
from taskloom.data.audit import Audit, certificate_tables, shortcuts
from taskloom.data.audit.distribution import chernoff

Row = dict[str, object]
WORDS = [f"word{i}" for i in range(400)]


def audit(folder: Path, **splits: list[Row]) -> Audit:
    folder.mkdir(exist_ok=True)
    for name, rows in splits.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return tl.audit(folder)


def story(rng: random.Random, words: int = 40) -> str:
    return " ".join(rng.choices(WORDS, k=words))


def clean(n: int, seed: int, words: int = 40) -> list[Row]:
    rng = random.Random(seed)
    return [{"input": story(rng, words), "targets": [rng.choice(["yes", "no"])]} for _ in range(n)]


def test_clean_data_is_clean(tmp_path: Path) -> None:
    found = audit(tmp_path / "d", train=clean(300, 1), test=clean(100, 2))
    assert not found.leaks
    assert not found.overlaps
    assert all(r.exact == r.near == r.contradictions == 0 for r in found.repeats)
    assert not [s for s in found.shortcuts if s.flagged]


def test_a_baseline_that_was_left_out_does_not_read_as_no_shortcut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(0)
    train: list[Row] = [{"input": story(rng, 6), "targets": [f"answer {i}"]} for i in range(40)]
    test: list[Row] = [{"input": story(rng, 6), "targets": [f"answer {i}"]} for i in range(40)]
    found = audit(tmp_path / "d", train=train, test=test)
    assert "no shortcut found (bag of words not tried)" in repr(found)
    run(["audit", str(tmp_path / "d")])
    assert (
        capsys.readouterr()
        .out.rstrip()
        .endswith("0 duplicates, no shortcut found (bag of words not tried)")
    )
    assert repr(audit(tmp_path / "tried", train=clean(60, 1), test=clean(30, 2))).endswith(
        "0 shortcuts>"
    )


def test_a_planted_leak_and_the_exit_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, test = clean(300, 1), clean(100, 2)
    test[17] = train[250]
    found = audit(tmp_path / "d", train=train, test=test)
    assert [(o.split, o.other, o.exact, o.near) for o in found.leaks] == [("test", "train", 1, 0)]
    assert found.leaks[0].examples == [str(train[250]["input"])[:200]]
    # What makes an audit fail comes first, and its rows are marked.
    first, *_, last = certificate_tables(found.to_dict())
    assert "LEAK" in first.cells[0]
    assert first.marks == ("bad",)
    assert "bad" not in last.marks
    assert run(["audit", str(tmp_path / "d")]) == 1
    assert "LEAK" in capsys.readouterr().out
    assert run(["audit", str(tmp_path / "d"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["leaks"][0]["exact"] == 1


@pytest.mark.parametrize("change", ["case", "space", "punctuation", "unicode", "one word"])
def test_near_duplicates_across_splits(tmp_path: Path, change: str) -> None:
    train, test = clean(300, 1, 60), clean(100, 2, 60)
    text = str(train[42]["input"])
    test[3]["input"] = {
        "case": text.title(),
        "space": "  " + text.replace(" ", "   "),
        "punctuation": text.replace(" ", ", ") + "!",
        "unicode": text.replace("1", "１"),
        "one word": text.rsplit(" ", 1)[0] + " other",
    }[change]
    found = audit(tmp_path / "d", train=train, test=test)
    assert [(o.exact, o.near) for o in found.leaks] == [(0, 1)]


def test_case_matters_in_short_inputs(tmp_path: Path) -> None:
    found = audit(
        tmp_path / "d",
        train=[{"input": "a b 3", "target": "1"}],
        test=[{"input": "A b 3", "target": "2"}],
    )
    assert not found.overlaps


def test_the_content_key_leaks_too(tmp_path: Path) -> None:
    train: list[Row] = [{"input": "one wording", "key": "story 1", "target": "x"}]
    test: list[Row] = [{"input": "another wording", "key": "story 1", "target": "x"}]
    assert audit(tmp_path / "d", train=train, test=test).leaks[0].exact == 1


@settings(max_examples=30)
@given(
    st.lists(st.sampled_from("abcde"), max_size=12),
    st.lists(st.sampled_from("abcdefg"), max_size=12),
)
def test_exact_counts_equal_brute_force(
    tmp_path_factory: pytest.TempPathFactory, train: list[str], test: list[str]
) -> None:
    if not train or not test:
        return
    folder = tmp_path_factory.mktemp("d")
    found = audit(
        folder,
        train=[{"input": t, "target": t} for t in train],
        test=[{"input": t, "target": t} for t in test],
    )
    repeats = {r.split: r.exact for r in found.repeats}
    assert repeats == {"train": len(train) - len(set(train)), "test": len(test) - len(set(test))}
    assert sum(o.exact for o in found.leaks) == sum(t in set(train) for t in test)


def test_duplicates_and_contradictions_within(tmp_path: Path) -> None:
    train = clean(50, 1)
    train += [dict(train[0]), {"input": train[1]["input"], "targets": ["maybe"]}]
    train.append({"input": str(train[2]["input"]).upper(), "targets": train[2]["targets"]})
    repeats = audit(tmp_path / "d", train=train).repeats[0]
    assert (repeats.exact, repeats.near, repeats.contradictions) == (2, 1, 1)


def test_planted_shortcuts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last word, the question, and a word somewhere give the answer away; without
    scikit-learn, whose import takes longer than the audit.
    """
    monkeypatch.setitem(sys.modules, "sklearn", None)
    rng = random.Random(0)

    def rows(n: int, kind: str) -> list[Row]:
        made: list[Row] = []
        for _ in range(n):
            answer = rng.choice(["yes", "no", "maybe"])
            text = story(rng, 12)
            if kind == "last word":
                text += f" hint{answer}"
            elif kind == "question only":
                text += f"\nis it {answer}?"
            elif kind == "bag of words":
                words = text.split()
                words.insert(rng.randrange(3, 9), f"hint{answer}")
                text = " ".join(words)
            made.append({"input": text, "target": answer})
        return made

    for kind in ("last word", "question only", "bag of words"):
        found = audit(tmp_path / kind, train=rows(1500, kind), test=rows(300, kind))
        flagged = {s.baseline for s in found.shortcuts if s.flagged}
        assert kind in flagged
        if kind != "bag of words":
            assert next(s.accuracy for s in found.shortcuts if s.baseline == kind) == 1.0
    assert not [
        s
        for s in audit(
            tmp_path / "none", train=rows(1500, "none"), test=rows(300, "none")
        ).shortcuts
        if s.flagged
    ]


def test_label_balance(tmp_path: Path) -> None:
    rows: list[Row] = [{"input": str(i), "target": "a" if i < 75 else "b"} for i in range(100)]
    balance = audit(tmp_path / "d", train=rows).balance[0]
    assert (balance.answers, balance.majority, balance.most) == (2, 0.75, {"a": 0.75, "b": 0.25})
    assert balance.evenness == pytest.approx(0.8113, abs=1e-4)


def test_trait_coverage(tmp_path: Path) -> None:
    train: list[Row] = [
        {"input": f"t{i}", "target": "x", "traits": {"length": i % 3}} for i in range(9)
    ]
    test: list[Row] = [
        {"input": f"s{i}", "target": "x", "traits": {"length": i % 4}} for i in range(8)
    ]
    coverage = audit(tmp_path / "d", train=train, test=test).coverage[0]
    assert (coverage.trait, coverage.values, coverage.unseen_values, coverage.unseen_rows) == (
        "length",
        4,
        1,
        0.25,
    )
    assert coverage.examples == ["3"]


def derived(rules: list[str], text: str) -> Row:
    return {
        "input": text,
        "target": "x",
        "derivation": [{"rule": r, "value": "v", "of": None} for r in rules],
    }


def test_divergence_by_hand(tmp_path: Path) -> None:
    """Equal atoms, disjoint compounds: atom divergence 0, compound divergence 1. And the other way
    round a half.
    """
    train = [derived(["a", "b"], "1"), derived(["c", "d"], "2")]
    test = [derived(["b", "a"], "3"), derived(["d", "c"], "4")]
    found = audit(tmp_path / "d", train=_typed(train), test=_typed(test)).divergence[0]
    assert found.atoms == pytest.approx(0)
    assert found.compounds == 1
    assert found.unseen_compounds == 1
    same = audit(tmp_path / "e", train=_typed(train), test=_typed(train)).divergence[0]
    assert same.compounds == pytest.approx(0)


def _typed(rows: list[Row]) -> list[Row]:
    """JSON has no empty list of numbers with a type; one step that says what it uses gives the
    column its type.
    """
    for row in rows:
        steps = row["derivation"]
        assert isinstance(steps, list)
        for i, step in enumerate(steps):
            step["of"] = [i - 1] if i else []
    return rows


def test_weights_follow_the_paper() -> None:
    """A pair that only ever occurs inside one triple does not count of its own (Keysers et al.
    2020, section 2.1).
    """
    from taskloom.data.audit.distribution import _profile

    chain = [{"rule": r, "value": "", "of": None} for r in "abc"]
    _, weights = _profile([chain, chain])
    assert set(weights) == {("c", 0, "b", 0, "a")}
    _, weights = _profile([chain, chain[:2]])
    assert weights["b", 0, "a"] == pytest.approx(0.5 + 1)
    assert ("c", 0, "b") not in weights


@given(
    st.dictionaries(st.sampled_from("abcd"), st.floats(0.1, 9), min_size=1), st.floats(0.05, 0.95)
)
def test_chernoff(weights: dict[str, float], alpha: float) -> None:
    assert chernoff(weights, weights, alpha) == pytest.approx(1)
    other = Counter({k.upper(): v for k, v in weights.items()})
    assert chernoff(weights, other, alpha) == 0


@pytest.mark.parametrize(
    "name",
    [
        "ctl/A",
        "ctl/S",
        *(
            pytest.param(n, marks=pytest.mark.slow)
            for n in ("ctl/A-independent", "ctl/R", "ctl/length")
        ),
    ],
)
def test_no_leaks_in_ours(name: str) -> None:
    found = tl.audit(tl.make(name, set=["splits.train.n=5000"]))
    assert found.leaks == []
    added = {"ctl/A": 1_000, "ctl/R": 1_000, "ctl/S": 576}.get(
        name, 0
    )  # drawn pairs are in training a second time
    assert sum(r.exact + r.near + r.contradictions for r in found.repeats) == added
    assert any("are there twice" in note for note in found.notes) == bool(added)
    ood = next(d for d in found.divergence if d.split == "ood")
    if name in ("ctl/A", "ctl/R"):
        assert ood.atoms < 0.02
        assert ood.compounds == 1


def test_no_training_split(tmp_path: Path) -> None:
    found = audit(tmp_path / "d", test=clean(10, 1))
    assert any("no training split" in note for note in found.notes)


def test_repeats_by_design_are_explained() -> None:
    """Paraphrases of procedural ZEST are near duplicates; the suite says why, and the audit repeats
    it.
    """
    sizes = ["tasks.train=40", "tasks.dev=0", "tasks.test=0", "passages=2"]
    found = tl.audit(tl.make("zest/synthetic", set=sizes))
    assert found.repeats[0].near > 0
    assert any("same passages as their base tasks" in note for note in found.notes)


def test_the_majority_is_the_best_constant_over_acceptable_answers(tmp_path: Path) -> None:
    """The official answers are all different; 'any' is acceptable in 3 of 4 rows."""
    rows: list[Row] = [
        {"input": f"question {i}", "targets": [f"own{i}", "any"] if i % 4 else [f"own{i}"]}
        for i in range(200)
    ]
    found = audit(tmp_path / "d", train=rows[:100], test=rows[100:])
    scores = {s.baseline: s.accuracy for s in found.shortcuts}
    assert scores["majority answer"] == 0.75
    assert [b.majority for b in found.balance] == [0.75, 0.75]


def test_an_answer_that_is_listed_twice_counts_once(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"input": f"q{i}", "targets": ["a", "a"] if i < 4 else ["b"]} for i in range(10)
    ]
    assert [b.majority for b in audit(tmp_path / "d", train=rows).balance] == [0.6]


def test_a_column_that_only_the_test_file_has_is_no_crash(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("input,target\na,1\n")
    (tmp_path / "test.csv").write_text("input,target,size\nb,1,large\n")
    assert run(["audit", str(tmp_path)]) == 0


@pytest.mark.parametrize(
    "row",
    [
        {"input": "a", "targets": ["b", None]},
        {"input": "a", "target": "b", "derivation": [None]},
        {"input": "a", "target": "b", "derivation": [{"rule": "x", "value": "y", "of": [3]}]},
        {"input": "a", "target": "b", "traits": {"sizes": [1]}},
    ],
)
def test_own_rows_that_no_reader_understands_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], row: dict[str, object]
) -> None:
    (tmp_path / "train.jsonl").write_text('{"input": "c", "target": "d"}\n')
    (tmp_path / "test.jsonl").write_text(json.dumps(row) + "\n")
    assert run(["audit", str(tmp_path)]) == 2
    assert f"{tmp_path / 'test'}" in capsys.readouterr().err


def test_the_bag_of_words_is_that_of_scikit_learn() -> None:
    text = pytest.importorskip("sklearn.feature_extraction.text")
    linear = pytest.importorskip("sklearn.linear_model")
    for recipe in ("ctl/A-independent", "babi/15", "babi/6"):  # eight, four and two answers
        data = tl.make(recipe, set={"splits.train.n": 2000})
        tested = next(split for split in data.splits if split != "train")
        train, test = list(data["train"]), list(data[tested])[:300]
        counter = text.CountVectorizer(token_pattern=r"\S+", lowercase=False)
        model = linear.LogisticRegression(max_iter=60, tol=1e-2)
        model.fit(counter.fit_transform([e.input for e in train]), [e.targets[0] for e in train])
        expected = model.predict(counter.transform([e.input for e in test])).tolist()
        answer = shortcuts._bag_of_words(_rows(train))
        assert answer(_rows(test)) == expected


def _rows(examples: list[tl.Example]) -> shortcuts._Rows:
    """Examples as baselines read them."""
    return shortcuts._Rows(
        inputs=[e.input for e in examples],
        questions=[None] * len(examples),
        official=[e.targets[0] for e in examples],
        acceptable=[list(e.targets) for e in examples],
    )
