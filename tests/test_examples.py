"""The files in examples/ do what the documentation says of them."""

from __future__ import annotations

import itertools
import runpy
from pathlib import Path

import pytest

import taskloom as tl
from taskloom.cli import run
from tests.analysis.made_up_scores import group, made_up, spread

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_a_task_is_one_file(tmp_path: Path) -> None:
    task = str(EXAMPLES / "reverse.py")
    data = tl.make(
        task, tmp_path, set={"splits": {"train": {"n": 50}, "test": {"n": 10}}, "length": "2..5"}
    )
    assert all(e.target.split() == e.input.split()[::-1] for e in data["train"])
    assert not tl.verify(tmp_path, every=True).wrong
    assert {e.traits["length"] for e in data["train"]} == {2, 3, 4, 5}


def test_a_task_holds_out_a_composition(tmp_path: Path) -> None:
    sizes = {"splits": {"train": {"n": 300}, "iid": {"n": 40}, "ood": {"n": 40}}}
    data = tl.make(str(EXAMPLES / "held_out_composition.py"), tmp_path, set=sizes)
    for split in data.splits:
        # The last function comes first in the input.
        assert all(("reverse sort" in e.input) == (split == "ood") for e in data[split]), split
    report = tl.audit(tmp_path)
    assert not report.leaks
    assert not report.misplaced
    unseen = {d.split: d.unseen_compounds for d in report.divergence}
    assert unseen["ood"] > 0.3
    assert unseen["iid"] < 0.05


def test_no_pair_of_training_computes_the_held_out_composition() -> None:
    functions = runpy.run_path(str(EXAMPLES / "held_out_composition.py"))["FUNCTIONS"]
    lists = [list(words) for words in itertools.permutations("abcd")]

    def results(first: str, second: str) -> list[list[str]]:
        return [functions[second](functions[first](words)) for words in lists]

    same = [
        pair
        for pair in itertools.product(functions, repeat=2)
        if results(*pair) == results("sort", "reverse")
    ]
    assert same == [("sort", "reverse")]


def test_a_suite_is_one_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = f"{EXAMPLES / 'own_suite'}::walks/longer"
    out, file = tmp_path / "walks", tmp_path / "walks.tsv"
    assert (
        run(["make", recipe, "-o", str(out), "--workers", "2", "--set", "splits.train.n=300"]) == 0
    )
    assert run(["verify", str(out), "--all"]) == 0
    data = tl.load(out)
    texts = {split: {e.input for e in data[split]} for split in data.splits}
    assert not texts["train"] & texts["iid"]
    few = tl.make(recipe, set={"splits.train.n": 20})
    assert list(few["iid"]) == list(data["iid"])
    assert list(few["train"]) == list(data["train"])[:20]
    assert min(len(text.split()) for text in texts["longer"]) > max(
        len(text.split()) for text in texts["train"]
    )
    assert run(["export", str(out), "--split", "longer", "--format", "tsv", "-o", str(file)]) == 0
    assert file.read_text().splitlines() == [f"{e.input}\t{e.target}" for e in data["longer"]]
    assert run(["show", recipe, "-n", "1"]) == 0
    assert "Say where the walk ends" in capsys.readouterr().out


def test_a_held_out_composition(tmp_path: Path) -> None:
    sizes = {"splits.train.0.n": 60, "splits.train.1.n": 60, "splits.ood.0.n": 20}
    data = tl.make(str(EXAMPLES / "dyna_babi_holdout.yaml"), tmp_path, set=sizes)
    concepts = {
        split: [set(str(e.traits["concepts"]).split("+")) for e in data[split]]
        for split in data.splits
    }
    assert not any("COREF" in c and c & {"GRAB", "DROP"} for c in concepts["train"])
    assert any("COREF" in c for c in concepts["train"])
    assert any(c & {"GRAB", "DROP"} for c in concepts["train"])
    assert all("COREF" in c and c & {"GRAB", "DROP"} for c in concepts["ood"])
    assert not tl.verify(tmp_path).wrong


def test_a_papers_table_is_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = {"iid": spread(0.99, 0.001, 5), "ood": spread(0.6, 0.01, 5)}
    runs = made_up(tmp_path, group("ctl/A", "transformer", scores))
    assert run(["study", str(EXAMPLES / "own_paper_table.py"), str(runs.path)]) == 0
    printed = capsys.readouterr().out
    rows = {line.split()[2]: line for line in printed.splitlines() if "transformer, A" in line}
    assert "agrees" in rows["iid"]
    assert "disagrees" in rows["ood"]
