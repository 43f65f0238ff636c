"""A learner in a file of one's own is one in every command: the example of the documentation, run
as people run it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")

import taskloom as tl
from taskloom.cli.app import run
from taskloom.core.errors import TaskloomError
from taskloom.experiments.spec.cells import expand
from taskloom.experiments.spec.experiment import check, read
from taskloom.learners import LEARNERS, load

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_learner.py"

SMALL = {
    "symbols": 4,
    "functions": 8,
    "max_length": 3,
    "splits.train.n": 100,
    "splits.iid.n": 20,
    "splits.ood.n": 20,
    "splits.all.n": 8,
}

SHOUT = """
from dataclasses import dataclass
import taskloom as tl


class Shouting:
    curve = ()

    def answer(self, inputs):
        return [text.upper() for text in inputs]


@tl.learner("mine/shout", describe="says the input loudly")
@dataclass(frozen=True)
class Shout:
    marks: int = 1

    def fit(self, train, evaluate=None, seed=0, *, folder=None, progress=None):
        return Shouting()
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    shutil.copy(EXAMPLE, tmp_path / "own_learner.py")
    return tmp_path / "own_learner.py"


def test_it_is_run_by_the_file_beside_the_experiment(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"steps": 4, "batch": 20, "evaluate_every": 2}
    data = {"recipe": "ctl/A", "set": SMALL}
    learner = {"learner": "own_learner.py::mine/gru", **settings}
    file = own.parent / "experiment.yaml"
    experiment = {
        "recipes": [data],
        "learners": [learner],
        "seeds": 2,
        "evaluate": ["iid"],
        "keep": {"model": True},
    }
    file.write_text(json.dumps(experiment))
    (own.parent / "elsewhere").mkdir()
    monkeypatch.chdir(own.parent / "elsewhere")
    runs = tl.run(str(file), store=own.parent / "runs", workers=1)
    assert runs.table["learner"].to_pylist() == ["mine/gru", "mine/gru"]
    store = runs.source
    names = store.names()
    assert len(names) == 2
    fitted = load(str(runs.model(names[0])), learner=str(own))
    assert fitted.answer(["a 1"])[0] in "0123"
    assert [p.step for p in fitted.curve if p.split == "iid"] == [2, 4]
    assert tl.run(str(file), store=own.parent / "runs", workers=1).source.names() == names, (
        "nothing runs again"
    )
    own.write_text(own.read_text() + "\n# another code is another learner\n")
    assert {cell.run for cell in expand(read(file))}.isdisjoint(names)


def test_its_settings_are_listed(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", f"{own}::mine/gru", "--json"]) == 0
    [settings] = json.loads(capsys.readouterr().out).values()
    by_name = {one["name"]: (one["default"], one["describe"]) for one in settings}
    assert by_name["state"] == (64, "Size of the word vectors and of the state.")
    assert by_name["steps"][0] == 300
    assert run(["list", str(own)]) == 0
    assert "On the word vectors." in capsys.readouterr().out


def test_where_the_file_lies_is_no_part_of_the_run(own: Path) -> None:
    def digest(file: Path) -> str:
        block = {"recipes": [{"recipe": "ctl/A", "set": SMALL}], "learners": [f"{file}::mine/gru"]}
        [cell] = expand(check(block, "test"))
        return cell.run

    before = digest(own)
    with pytest.raises(TaskloomError, match="the learner 'mine/gru' is defined twice"):
        digest(EXAMPLE)
    LEARNERS.forget(f"own_learner ({own.resolve()})")
    assert digest(EXAMPLE) == before


def test_names_that_are_not_there_are_one_sentence(own: Path) -> None:
    def cells(name: str) -> None:
        expand(check({"recipes": ["ctl/A"], "learners": [name]}, "test"))

    with pytest.raises(
        TaskloomError, match=r"own_learner.py has no learner 'mine/gruu'; did you mean 'mine/gru'"
    ):
        cells(f"{own}::mine/gruu")
    with pytest.raises(TaskloomError, match=r"there is no file .*nowhere.py"):
        cells(str(own.parent / "nowhere.py"))
    (own.parent / "empty.py").write_text("")
    with pytest.raises(
        TaskloomError,
        match=r"must define exactly one learner.*it defines: none \(use @tl.learner\)",
    ):
        cells(str(own.parent / "empty.py"))


def test_any_other_way_to_learn_is_a_dataclass_with_fit(tmp_path: Path) -> None:
    (tmp_path / "shout.py").write_text(SHOUT)
    data = {"recipe": "ctl/A", "set": SMALL}
    runs = tl.run(
        recipes=[data],
        learners=[str(tmp_path / "shout.py")],
        store=tmp_path / "runs",
        engine="here",
    )
    assert set(runs.table["learner"].to_pylist()) == {"mine/shout"}
    with pytest.raises(TaskloomError, match="has fit but is not a dataclass"):
        tl.learner("mine/bare", describe="bare")(type("Bare", (), {"fit": None}))
