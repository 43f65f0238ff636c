"""Similarity of one value across parts, with a stand-in for a model whose codes are planted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from taskloom.analysis import similarity as studied
from taskloom.analysis.study import StudyError, analyse
from taskloom.core.errors import TaskloomError
from taskloom.experiments.files import MODEL
from taskloom.experiments.store import Store
from taskloom.experiments.table import Runs
from tests.experiments.made_up_runs import write
from tests.experiments.sweeps import fill

PARTS, VALUES = 8, 3
TRAITS = [
    {"maker": f"m{i % PARTS}", "meaning": f"v{i // PARTS % VALUES}"}
    for i in range(PARTS * VALUES * 2)
]


class Planted:
    """A code for each value, or one for each value and half of the makers; all with a direction in
    common.
    """

    def __init__(self, halves: bool) -> None:
        rng = np.random.default_rng(1)
        self.codes = rng.normal(size=(VALUES, 2, 32))
        self.halves, self.rng = halves, rng

    def represent(self, inputs: Sequence[str], where: str = "readout") -> Any:
        states = []
        for text in inputs:
            traits = TRAITS[int(text.split()[-1])]
            half = int(traits["maker"][1:]) % 2 if self.halves else 0
            states.append(
                0.3 + self.codes[int(traits["meaning"][1:]), half] + 0.02 * self.rng.normal(size=32)
            )
        return np.array(states)


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    store = Store(tmp_path / "runs", create=True)
    run = write(store, {"ood": [1.0] * len(TRAITS)}, traits=TRAITS)
    (store.folder(run) / MODEL).mkdir()
    return Runs(store)


def test_the_trait_with_most_values_is_the_part_by_default(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(studied, "load", lambda folder: Planted(halves=False))
    (finding,) = analyse("runs/similarity", runs, value="meaning")[2]
    assert finding.title == "Similarity of one meaning across maker"
    monkeypatch.setattr(studied, "MOST_PARTS", 2)
    with pytest.raises(
        StudyError, match=r"has 3 to 2 values; name a part: part=TRAIT, of maker, meaning"
    ):
        analyse("runs/similarity", runs)


@pytest.mark.parametrize(("halves", "codes"), [(False, "one"), (True, "separate")])
def test_planted_codes_are_told_apart(
    runs: Runs, halves: bool, codes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(studied, "load", lambda folder: Planted(halves))
    _, _, (finding,) = analyse("runs/similarity", runs, part="maker", value="meaning")
    assert finding.table is not None
    assert [row["codes"] for row in finding.table] == [codes] * VALUES
    assert all(row["parts"] == PARTS for row in finding.table)
    assert all(row["same value"] > row["other values"] for row in finding.table)
    assert finding.figures[0].draw(finding.figures[0].data) is not None


class PlantedByLayer(Planted):
    """Separate codes at layer.1, one code elsewhere; inputs of another split or run raise an
    error.
    """

    beginning = ""

    def represent(self, inputs: Sequence[str], where: str = "readout") -> Any:
        assert all(text.startswith(self.beginning) for text in inputs)
        self.halves = where == "layer.1"
        return super().represent(inputs)


def test_a_layer_a_split_and_a_run_can_be_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "runs", create=True)
    scores = {"iid": [1.0] * len(TRAITS), "ood": [1.0] * len(TRAITS)}
    names = {data: write(store, scores, traits=TRAITS, data=data) for data in ("first", "second")}
    for name in names.values():
        (store.folder(name) / MODEL).mkdir()
    monkeypatch.setattr(studied, "load", lambda folder: PlantedByLayer(False))
    places = [
        ("first", "iid", "layer.1", "separate"),
        ("second", "ood", "layer.1", "separate"),
        ("first", "ood", "readout", "one"),
    ]
    for data, split, where, codes in places:
        monkeypatch.setattr(PlantedByLayer, "beginning", f"{data} {split}")
        chosen = {"part": "maker", "value": "meaning", "split": split, "run": names[data][:8]}
        (finding,) = analyse("runs/similarity", Runs(store), where=where, **chosen)[2]
        assert finding.table is not None
        assert {row["codes"] for row in finding.table} == {codes}
        assert f"at '{where}'" in finding.figures[0].caption


def test_what_is_missing_is_said(runs: Runs, tmp_path: Path) -> None:
    with pytest.raises(
        StudyError, match=r"'part' must be 'maker' or 'meaning' for .*, not 'nobody'"
    ):
        analyse("runs/similarity", runs, part="nobody")
    with pytest.raises(
        StudyError, match=r"'value' must be 'answer', 'maker' or 'meaning' for .*, not 'sense'"
    ):
        analyse("runs/similarity", runs, part="maker", value="sense")
    store = Store(tmp_path / "other", create=True)
    write(store, {"ood": [1.0]})
    with pytest.raises(StudyError, match="no run with a kept model"):
        analyse("runs/similarity", Runs(store), part="maker")


@pytest.mark.parametrize("kind", ["decoder", "encoder-decoder"])
def test_any_layer_of_a_hugging_face_model_is_studied(
    kind: Literal["decoder", "encoder-decoder"], tmp_path: Path
) -> None:
    """A folder of weights as the hub has them, untrained, asked as it is; the words come from the
    rows themselves.
    """
    pytest.importorskip("transformers")
    from taskloom.learners.pretrained.models import Sizes, from_scratch

    small = {
        "symbols": 4,
        "functions": 8,
        "max_length": 3,
        "splits": {"train": {"n": 60}, "iid": {"n": 40}},
    }
    words = ["a b c d e f g h 0 1 2 3", "A B C D E F G H"]
    base = from_scratch(
        kind,
        words,
        Sizes(state=16, layers=2, heads=2, feed_forward=16, dropout=0.0),
        "bytes",
        seed=1,
    )
    base.model.save_pretrained(tmp_path / "weights")
    base.tokeniser.save_pretrained(tmp_path / "weights")
    experiment = {
        "recipes": [{"recipe": "ctl/A", "set": small}],
        "learners": [
            {"learner": "zero-shot", "model": str(tmp_path / "weights"), "longest_answer": 2}
        ],
        "evaluate": ["iid"],
        "keep": {"model": True},
    }
    runs = Runs(fill(experiment, tmp_path / "runs").store)
    means = []
    for where in ("layer.1", "readout"):
        (finding,) = analyse("runs/similarity", runs, part="functions", where=where)[2]
        assert finding.table is not None
        assert f"at '{where}'" in finding.figures[0].caption
        means.append([row["same value"] for row in finding.table])
        assert all(-1 <= value <= 1 + 1e-9 for value in means[-1])
    assert means[0] != means[1]
    with pytest.raises(TaskloomError, match=r"no state 'layer.9'; did you mean 'layer\.\d'"):
        analyse("runs/similarity", runs, part="functions", where="layer.9")
