"""Scores by task for every suite: C@T, consistency, withheld tasks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import taskloom as tl
from taskloom.cli.app import run
from taskloom.core.errors import InputError
from taskloom.core.registry import find_scorer
from taskloom.core.scoring import exact
from taskloom.data.competence import competence, score_dataset, scorer_of

RECIPES = {
    "ctl/A": ("iid", ["splits={train: {n: 1000}, iid: {n: 60}}"]),
    "babi/diverse-T7": ("test", ["splits={train: {n: 60}, test: {n: 34}}"]),
    "babi/17": ("test", ["splits={train: {n: 60}, test: {n: 30}}"]),
    "taskbench/english": (
        "test",
        [
            "lexicon=synthetic",
            "sequences.n=100",
            "functions=['antonyms[eng]', 'map(synonyms[eng])']",
        ],
    ),
    "zest/synthetic": ("train", ["tasks={train: 40, dev: 0, test: 0}", "passages=3"]),
}


@pytest.mark.parametrize("name", RECIPES)
def test_perfect_predictions_are_competent_in_every_suite(name: str) -> None:
    split, changes = RECIPES[name]
    data = tl.make(name, set=changes)
    found = score_dataset(data, split, [e.target for e in data[split]])
    assert (found.accuracy, found.overall.mean, set(found.overall.at.values())) == (1.0, 1.0, {1.0})
    nothing = score_dataset(data, split, ["no such answer"] * found.examples)
    assert nothing.overall.at["75"] == 0.0


def _examples(rows: list[tuple[str, str, bool]]) -> tuple[list[tl.Example], list[str]]:
    found = [tl.Example("x", "y", {"family": f}, task=t) for t, f, _ in rows]
    return found, ["y" if right else "n" for *_, right in rows]


rows = st.lists(
    st.tuples(st.sampled_from("abcd"), st.just("f"), st.booleans()), min_size=1, max_size=30
)


@given(rows)
def test_against_the_definition(drawn: list[tuple[str, str, bool]]) -> None:
    examples, said = _examples(drawn)
    found = competence(examples, said, exact, linked="family", thresholds=(50, 75))
    shares = {t: [r for u, _, r in drawn if u == t] for t in {t for t, *_ in drawn}}
    means = {t: sum(r) / len(r) for t, r in shares.items()}
    assert found.overall.at["50"] == sum(m >= 0.5 for m in means.values()) / len(means)
    assert found.overall.mean == pytest.approx(sum(means.values()) / len(means))
    if len(means) > 1:
        assert found.consistency is not None
        assert found.consistency.at["75"] == float(min(means.values()) >= 0.75)
    else:
        assert found.consistency is None


def test_a_threshold_that_is_just_reached_counts() -> None:
    examples, said = _examples([("a", "f", i > 0) for i in range(10)])
    assert competence(examples, said, exact).overall.at == {"75": 1.0, "90": 1.0}


def test_unseen_tasks_are_told_apart() -> None:
    changes = ["splits={train: {n: 340}, test: {n: 68}}", "described={unseen: [give-qs]}"]
    data = tl.make("babi/diverse-T7", set=changes)
    said = [e.target if e.traits["question"] != "give-qs" else "nobody" for e in data["test"]]
    found = score_dataset(data, "test", said)
    assert found.withheld["not withheld"].at["90"] == 1.0
    assert (found.withheld["withheld"].tasks, found.withheld["withheld"].at["90"]) == (1, 0.0)


def test_the_zest_scorer_is_known_by_name() -> None:
    assert find_scorer("zest").name == "zest"
    data = tl.make("zest/synthetic", set=RECIPES["zest/synthetic"][1])
    assert scorer_of(data) is find_scorer("zest")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    split, changes = RECIPES["babi/17"]
    data = tl.make("babi/17", tmp_path / "d", set=changes)
    (tmp_path / "p.txt").write_text("".join(f"{e.target}\n" for e in data[split]))
    arguments = ["--gold", str(tmp_path / "d"), "--pred", str(tmp_path / "p.txt")]
    assert run(["score", "babi", *arguments, "--linked", "number", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["overall"]["at"] == {"75": 1.0, "90": 1.0}
    assert run(["score", "babi", *arguments]) == 0
    assert "all tasks" in capsys.readouterr().out
    for wrong, says in (
        (["babi", *arguments, "--by", "questoin"], "did you mean 'question'"),
        (["babi", *arguments, "--mode", "official"], "for zest"),
        (["babi", *arguments, "--at", "120"], "percentages"),
        (["babi", *arguments, "--split", "tset"], "did you mean 'test'"),
        (["ctl", *arguments], "taskloom score babi"),
        (["zest", *arguments, "--by", "number"], "other suites"),
    ):
        assert run(["score", *wrong]) == 2
        assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"a\n\xff\n", "not UTF-8"),
        (b'"a\\x"\n', "double quote"),
        (b"one\n", "1 predictions and 30"),
    ],
)
def test_bad_predictions_are_one_sentence(tmp_path: Path, raw: bytes, says: str) -> None:
    (tmp_path / "p.txt").write_bytes(raw)
    split, changes = RECIPES["babi/17"]
    data = tl.make("babi/17", set=changes)
    with pytest.raises(InputError, match=says):
        score_dataset(data, split, tmp_path / "p.txt")


def test_a_suites_own_scorer_is_found_in_a_fresh_process() -> None:
    """As `taskloom runs rescore --scorer zest` does, before any recipe of the suite was read."""
    code = "from taskloom.core.registry import find_scorer; print(find_scorer('zest').name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "zest\n"


def test_some_examples_are_scored_alone_and_their_share_is_stated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tl.make(
        "ctl/A-independent", tmp_path / "d", set=["splits={train: {n: 300}, iid: {n: 40}}"]
    )
    replies = [
        {"idx": i, "prediction": f"Let me see.\nThe answer is: {data['iid'][i].target}"}
        for i in (30, 7, 21, 3)
    ]
    file = tmp_path / "p.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in replies))
    words = ["score", "ctl", "--gold", str(tmp_path / "d"), "--split", "iid", "--pred", str(file)]
    assert run([*words, "--extract", "final"]) == 0
    assert "4 of 40 examples (10.0 %), mean score 100.0" in capsys.readouterr().out
    assert run([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["examples"], report["of"], report["accuracy"]) == (4, 40, 0.0)
    assert run([*words, "--extract", "finale"]) == 2
    assert "did you mean 'final'" in capsys.readouterr().err


def test_a_suite_with_its_own_evaluation_scores_some_examples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tl.make(
        "zest/synthetic", tmp_path / "z", set=["tasks={train: 40, dev: 0, test: 0}", "passages=3"]
    )
    file = tmp_path / "p.jsonl"
    rows = [{"id": i, "prediction": f"<answer>{data['train'][i].target}</answer>"} for i in (5, 2)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["score", "zest", "--gold", str(tmp_path / "z"), "--pred", str(file)]
    words += ["--mode", "corrected", "--extract", "tag:answer"]
    assert run([*words, "--split", "train"]) == 0
    assert f"2 of {len(data['train'])} examples" in capsys.readouterr().out
    assert run([*words, "--split", "train", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["examples"], report["instance_mean"]) == (2, 1.0)
    gold = tmp_path / "gold.jsonl"
    gold.write_text("{}\n")
    assert (
        run(["score", "zest", "--gold", str(gold), "--pred", str(file), "--extract", "final"]) == 2
    )
    assert "--extract needs the folder of a dataset" in capsys.readouterr().err
