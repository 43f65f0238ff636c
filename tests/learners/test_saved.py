"""Fitted learners on disk: there whole or not at all, and every damage is told in one sentence."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file  # noqa: E402

from taskloom.learners import LearnerError, Paused, load  # noqa: E402
from taskloom.learners.config import read  # noqa: E402
from taskloom.learners.pretrained.models import Sizes, from_scratch  # noqa: E402
from taskloom.learners.training import checkpoint  # noqa: E402

DATA = [("a 1", "1"), ("b 1", "2"), ("a 2", "2"), ("b 2", "1")]
STORY = [
    ("Mary went to the park. Where is Mary?", "park"),
    ("Mary went to the shop. Where is Mary?", "shop"),
]
QUICK = {"batch": 4, "steps": 1, "warmup": 0, "evaluate_every": 0}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny decoder as a local folder."""
    base = from_scratch("decoder", ["a b 1 2 |"], Sizes(8, 1, 2, 8, 0.0, 64), "words", seed=1)
    where: Path = tmp_path_factory.mktemp("base") / "model"
    base.model.save_pretrained(where)
    base.tokeniser.save_pretrained(where)
    return where


@pytest.fixture(scope="module")
def learners(model: Path) -> dict[str, tuple[Any, list[tuple[str, str]]]]:
    """One learner of every kind of folder, with data for it."""
    pretrained = {"model": str(model), "longest_answer": 2}
    blocks: dict[str, dict[str, Any]] = {
        "bilstm": {"state": 8, **QUICK},
        "entnet": {"state": 4, "slots": 2, **QUICK},
        "bidaf": {"words": 4, "state": 4, "filters": 0, **QUICK},
        "decoder": {
            "state": 8,
            "layers": 1,
            "heads": 2,
            "feed_forward": 8,
            "longest_answer": 2,
            **QUICK,
        },
        "lora": {**pretrained, "rank": 2, **QUICK},
        "prompt-tune": {**pretrained, "n": 2, **QUICK},
        "in-context": {**pretrained, "shots": 2},
        "majority": {},
        "bag-of-words": {},
    }
    stories = {"entnet", "bidaf"}
    return {
        n: (read({"learner": n, **b}), STORY if n in stories else DATA) for n, b in blocks.items()
    }


def test_what_stands_in_the_way_changes_nothing(
    learners: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, (learner, data) in learners.items():
        folder, inputs = tmp_path / name, [x for x, _ in data]
        first = learner.fit(data)
        first.save(folder)
        before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        for path in before:
            (blocked := tmp_path / "blocked" / name / path.relative_to(folder)).mkdir(parents=True)
            with pytest.raises(LearnerError, match=r"is a folder there.*save into another folder"):
                first.save(tmp_path / "blocked" / name)
            blocked.rmdir()
        assert not [p for p in (tmp_path / "blocked").rglob("*") if p.is_file()]
        # A disk that fills up at the last moment leaves the learner that was there.
        with monkeypatch.context() as patch:
            patch.setattr(json, "dumps", _full)
            with pytest.raises(LearnerError, match="No space left on device"):
                first.save(folder)
        assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before
        assert load(folder).answer(inputs) == first.answer(inputs)


def _full(*_: Any, **__: Any) -> str:
    raise OSError(28, "No space left on device")


def test_a_folder_may_be_saved_into_again_by_another_learner(learners: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep me")
    for learner, data in learners.values():
        fitted = learner.fit(data)
        fitted.save(str(tmp_path))
        assert load(str(tmp_path)).answer([data[0][0]]) == fitted.answer([data[0][0]])
    assert (tmp_path / "mine.txt").read_text() == "keep me"
    assert not list(tmp_path.glob(".*"))


def test_a_place_in_the_model_s_folder_that_is_a_file(learners: Any, tmp_path: Path) -> None:
    """transformers only logs that, and saves nothing."""
    (tmp_path / "model").write_text("")
    learner, data = learners["decoder"]
    with pytest.raises(LearnerError, match="cannot be written"):
        learner.fit(data).save(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_read_only(learners: Any, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    for learner, data in learners.values():
        with pytest.raises(LearnerError, match="Permission denied"):
            learner.fit(data).save(tmp_path / "x")
    tmp_path.chmod(0o700)


def test_damage_to_any_file_is_told(learners: Any, tmp_path: Path) -> None:
    """Every file of every kind: emptied, cut in half, replaced by a folder, gone."""
    for name, (learner, data) in learners.items():
        folder = tmp_path / name
        learner.fit(data).save(folder)
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            if path.name in ("generation_config.json", "chat_template.jinja"):
                continue  # a model needs neither
            whole = path.read_bytes()
            for damage in (b"", whole[: len(whole) // 2], b"[]", b"{}", None):
                path.unlink()
                if damage is not None:
                    path.write_bytes(damage)
                said = _said(folder, data[0][0])
                assert "\n" not in said, (name, path.name, damage)
                assert said or path.parent.name == "model", (
                    name,
                    path.name,
                    damage,
                )  # a tokeniser has defaults
                path.write_bytes(whole)


def _said(folder: Path, text: str) -> str:
    """What is said about a folder; nothing where its learner answers all the same."""
    try:
        load(folder).answer([text])
    except LearnerError as error:
        return str(error)
    return ""


def other_weights(model: Path, where: Path) -> Path:
    """A copy of a model folder with one number changed in its smallest tensor."""
    shutil.copytree(model, where)
    tensors = load_file(where / "model.safetensors")
    smallest = min(tensors.values(), key=lambda t: t.numel())
    smallest.view(-1)[0] += 1e-3
    save_file(tensors, where / "model.safetensors", {"format": "pt"})
    return where


@pytest.mark.parametrize("name", ["fine-tune", "lora", "prompt-tune"])
def test_a_model_that_changes_between_two_calls_is_noticed(
    name: str, model: Path, tmp_path: Path
) -> None:
    here = tmp_path / "model"
    shutil.copytree(model, here)
    more = {"n": 2} if name == "prompt-tune" else {}
    learner: Any = read(
        {"learner": name, "model": str(here), "longest_answer": 2, **QUICK, "steps": 4, **more}
    )
    with pytest.raises(Paused):
        learner.fit(DATA, folder=tmp_path / "run", seconds=0.0)
    shutil.rmtree(here)
    other_weights(model, here)
    with pytest.raises(
        LearnerError,
        match=r"another run \(different: the weights of the model\); use another folder",
    ):
        learner.fit(DATA, folder=tmp_path / "run")
    shutil.rmtree(here)
    shutil.copytree(model, here)
    fitted = learner.fit(DATA, folder=tmp_path / "run")  # as it was: the run goes on
    fitted.save(tmp_path / "saved")
    shutil.rmtree(here)
    other_weights(model, here)
    if name == "fine-tune":  # which keeps the whole model
        assert load(tmp_path / "saved").answer(["a 1"]) == fitted.answer(["a 1"])
    else:
        with pytest.raises(
            LearnerError, match=r"is not the one that .* was trained with.*fit and save again"
        ):
            load(tmp_path / "saved")


def test_checkpoints_of_before_fingerprints_go_on(model: Path, tmp_path: Path) -> None:
    learner: Any = read(
        {"learner": "fine-tune", "model": str(model), "longest_answer": 2, **QUICK, "steps": 4}
    )
    with pytest.raises(Paused):
        learner.fit(DATA, folder=tmp_path, seconds=0.0)
    found = checkpoint.read(tmp_path)
    assert found is not None
    del found[1]["identity"]["the weights of the model"]
    checkpoint.save(tmp_path, *found)
    learner.fit(DATA, folder=tmp_path)


@pytest.mark.parametrize("name", ["lora", "prompt-tune"])
def test_a_twin_is_loaded_with_its_own_random_weights(
    name: str, model: Path, tmp_path: Path
) -> None:
    more = {"n": 2} if name == "prompt-tune" else {}
    block = {
        "learner": name,
        "model": str(model),
        "pretrained": False,
        "longest_answer": 2,
        **QUICK,
        **more,
    }
    fitted = read(block).fit(DATA, seed=3)
    fitted.save(tmp_path)
    assert load(tmp_path).logprob(["a 1"], [["1", "2"]]) == fitted.logprob(["a 1"], [["1", "2"]])
