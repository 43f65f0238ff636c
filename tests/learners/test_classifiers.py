"""From-scratch classifiers: they learn, resume to the same bits, stack to the same results, and
ignore batch size and padding.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")

from taskloom.core.errors import InputError, TaskloomError
from taskloom.core.example import Example
from taskloom.learners import LEARNERS, LearnerError, Paused, TrainingError, load
from taskloom.learners.config import read
from taskloom.learners.scratch.classifiers import Scratch
from taskloom.learners.training import loop

_spec = importlib.util.spec_from_file_location("tiny", Path(__file__).with_name("tiny.py"))
assert _spec is not None
assert _spec.loader is not None
tiny: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tiny)

SMALL: dict[str, dict[str, Any]] = {
    "bilstm": {"state": 32, "dropout": 0.1},
    "transformer": {
        "state": 64,
        "heads": 4,
        "layers": 2,
        "feed_forward": 128,
        "dropout": 0.0,
        "rate": 4e-3,
    },
    "ndr": {
        "state": 32,
        "heads": 2,
        "layers": 3,
        "layers_answering": 3,
        "feed_forward": 64,
        "dropout": 0.1,
    },
}
NAMES = list(SMALL)


def small(name: str, **more: Any) -> Any:
    """A small learner of that name, with a quick rate."""
    return read(
        {
            "learner": name,
            "rate": 1e-2,
            "warmup": 10,
            "batch": 80,
            "evaluate_every": 0,
            "precision": "fp32",
            **SMALL[name],
            **more,
        }
    )


@pytest.mark.parametrize(("name", "steps"), [("bilstm", 100), ("transformer", 150), ("ndr", 130)])
def test_fits_a_tiny_task(name: str, steps: int) -> None:
    data = tiny.everything(2)
    fitted = small(name, steps=steps, dropout=0.0).fit(data, {"again": data}, seed=0)
    assert fitted.answer([text for text, _ in data]) == [value for _, value in data]
    assert [p.score for p in fitted.curve if p.split == "again"] == [1.0]


@pytest.mark.parametrize("name", NAMES)
def test_resumed_equals_uninterrupted(name: str, tmp_path: Path) -> None:
    data = tiny.everything(2)
    learner = small(name, steps=12, evaluate_every=4, checkpoint_every=3)
    whole = learner.fit(data, {"dev": data[:20]}, seed=3)
    calls = 0

    def interrupt(progress: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.fit(data, {"dev": data[:20]}, seed=3, folder=tmp_path, progress=interrupt)
    resumed = learner.fit(data, {"dev": data[:20]}, seed=3, folder=tmp_path)
    assert resumed.curve == whole.curve
    for weight, value in whole.weights.items():
        assert bool((resumed.weights[weight] == value).all())


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_in_a_stack_is_the_seed_alone(name: str) -> None:
    import torch

    data = tiny.everything(2)
    learner = small(name, steps=6, evaluate_every=3)
    stack = learner.fit_many(data, {"again": data}, seeds=[5, 1, 8])
    alone = learner.fit(data, {"again": data}, seed=1)
    assert [(p.step, p.split) for p in stack[1].curve] == [(p.step, p.split) for p in alone.curve]
    for one, other in zip(stack[1].curve, alone.curve, strict=True):
        assert one.loss == pytest.approx(other.loss, abs=1e-5)
    for weight, value in alone.weights.items():
        # Adam divides by the size of a gradient, so rounding shows where gradients are next to
        # nothing.
        assert float((stack[1].weights[weight] - value).abs().max()) < 3e-4
        assert float((stack[1].weights[weight] - value).abs().mean()) < (
            1e-5 if torch.cuda.is_available() else 1e-6
        )
    assert stack[0].curve != stack[1].curve


@pytest.mark.parametrize("name", NAMES)
def test_results_do_not_depend_on_batch_or_padding(name: str) -> None:
    data = tiny.everything(3)
    fitted = small(name, steps=2).fit(data, seed=0)
    inputs = [text for text, _ in data[::7]]
    candidates = [["0", "1", "2", "3"]] * len(inputs)
    fitted.batch = len(inputs)
    whole = np.array(fitted.logprob(inputs, candidates))
    fitted.batch = 1
    single = np.array(fitted.logprob(inputs, candidates))
    assert np.abs(whole - single).max() < 1e-5
    assert np.allclose(np.exp(whole).sum(1), 1, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_saved_and_loaded_is_the_same(name: str, tmp_path: Path) -> None:
    data = tiny.everything(2)
    fitted = small(name, steps=3, evaluate_at=[2]).fit(data, seed=0)
    fitted.save(tmp_path / "model")
    again: Any = load(tmp_path / "model")
    inputs = [text for text, _ in data]
    assert again.logprob(inputs, [["0", "9"]] * len(inputs)) == fitted.logprob(
        inputs, [["0", "9"]] * len(inputs)
    )
    assert np.array_equal(again.represent(inputs), fitted.represent(inputs))
    assert again.curve == fitted.curve
    assert again.learner == fitted.learner


def test_representations_have_names() -> None:
    fitted = small("ndr", steps=1).fit(tiny.everything(1), seed=0)
    assert fitted.represent(["a 0", "b a 1"], "layer.2").shape == (2, 32)
    assert np.array_equal(
        fitted.represent(["a 0"], "layer.3"), fitted.represent(["a 0"], "readout")
    )
    with pytest.raises(LearnerError, match=r"layer\.3"):
        fitted.represent(["a 0"], "layer.9")


def test_parts_of_a_batch_add_up_to_the_batch() -> None:
    import torch

    from taskloom.learners.scratch.tokens import WordVocabulary, encode
    from taskloom.learners.training.step import Stepper

    data = tiny.everything(2)
    words = WordVocabulary.of(text for text, _ in data)
    arrays = encode([text for text, _ in data], words, [int(v) for _, v in data])
    for name in NAMES:
        learner = small(name, steps=2)
        net = learner.network(len(words.words), 4)
        framed = arrays.framed(words.sos if net.frame[0] else None, words.eos)
        steppers = [Stepper(net, framed, [0, 1], learner.training) for _ in range(2)]
        steppers[1].parts = 4
        for stepper in steppers:
            stepper.advance(torch.arange(70, device=stepper.state.loss.device), 5)
        assert float((steppers[0].state.mean - steppers[1].state.mean).abs().max()) < 1e-6
        assert float(steppers[0].state.loss[0]) == pytest.approx(
            float(steppers[1].state.loss[0]), abs=1e-5
        )


def test_stopping_uses_dev_alone_and_keeps_the_best() -> None:
    data = tiny.everything(2)
    learner = small("bilstm", steps=60, evaluate_every=5, patience=2)
    with pytest.raises(LearnerError, match="dev"):
        learner.fit(data, {"test": data}, seed=0)
    dev = [(text, "0") for text, _ in data[:24]]  # cannot be improved for long
    fitted = learner.fit(data, {"dev": dev}, seed=0)
    scores = [(p.step, p.score) for p in fitted.curve if p.split == "dev"]
    best = max(score for _, score in scores)
    first = next(step for step, score in scores if score == best)
    assert scores[-1][0] == first + 10  # two points of patience after the best one
    right = sum(a == b for a, (_, b) in zip(fitted.answer([t for t, _ in dev]), dev, strict=True))
    assert right / len(dev) == pytest.approx(best)


def test_time_that_runs_out_pauses_and_the_same_call_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "LOOK_EVERY", 10)
    data = tiny.everything(1)
    learner = small("bilstm", steps=21)
    whole = learner.fit(data, seed=0)
    with pytest.raises(Paused, match="step 10 of 21"):
        learner.fit_many(data, seeds=[0], folder=tmp_path, seconds=0.0)
    with pytest.raises(Paused, match="step 20 of 21"):
        learner.fit_many(data, seeds=[0], folder=tmp_path, seconds=0.0)
    rest = learner.fit_many(data, seeds=[0], folder=tmp_path, seconds=60.0)[0]
    assert rest.curve == whole.curve


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    data = tiny.everything(1)
    small("bilstm", steps=4, checkpoint_every=2).fit(data, seed=0, folder=tmp_path)
    with pytest.raises(LearnerError, match=r"different: settings.steps\); use another folder"):
        small("bilstm", steps=5).fit(data, seed=0, folder=tmp_path)
    with pytest.raises(LearnerError, match="different: data"):
        small("bilstm", steps=4).fit([("a 0", "3"), *data[1:]], seed=0, folder=tmp_path)
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(LearnerError, match="damaged"):
        small("bilstm", steps=4).fit(data, seed=0, folder=tmp_path)


def test_a_loss_that_is_no_number_stops_with_its_step() -> None:
    with pytest.raises(TrainingError, match=r"seed 4 is not a number after step \d+"):
        small("transformer", steps=20, rate=1e30, clip=0, warmup=0).fit(tiny.everything(1), seed=4)


def test_precisions_train() -> None:
    for precision in ("bf16", "fp32"):
        fitted = small("bilstm", steps=3, precision=precision).fit(tiny.everything(1), seed=0)
        assert all(np.isfinite(p.loss) for p in fitted.curve)


def test_examples_and_unknown_answers() -> None:
    data = [Example(text, value) for text, value in tiny.everything(1)]
    fitted = small("bilstm", steps=1).fit(data, {"odd": [("a 0", "seven")]}, seed=0)
    assert [p.score for p in fitted.curve if p.split == "odd"] == [0.0]
    assert fitted.logprob(["a 0"], [["seven"]]) == [[float("-inf")]]
    assert fitted.answer([]) == []
    with pytest.raises(InputError, match="'z'"):
        fitted.answer(["z 0"])
    with pytest.raises(LearnerError, match="empty"):
        small("bilstm").fit([])


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"learner": "bilsm"}, "did you mean 'bilstm'"),
        ({"learner": "bilstm", "stats": 3}, "no setting 'stats'; did you mean 'state'"),
        (
            {"learner": "bilstm", "training": {"stepz": 3}},
            "no setting 'stepz'; did you mean 'steps'",
        ),
        ({"learner": "ndr", "steps": "many"}, "steps: Input should be a valid integer"),
        ({"learner": "ndr", "steps": 0}, "at least 1"),
        ({"learner": "ndr", "rate": -1.0}, "above 0"),
        ({"state": 3}, "name a learner"),
        ({"learner": "bilstm", "state": -4}, "bilstm: state is -4; it must be at least 1"),
        (
            {"learner": "bilstm", "dropout": 1.0},
            "bilstm: dropout is 1.0; it must be at least 0 and below 1",
        ),
        ({"learner": "entnet", "slots": 0}, "entnet: slots is 0"),
        ({"learner": "stm", "most_sentences": 0}, "stm: most_sentences is 0"),
        ({"learner": "bidaf", "state": 0}, "bidaf: state is 0"),
        ({"learner": "bidaf", "filters": -1}, "bidaf: filters is -1; it must be at least 0"),
        ({"learner": "lora", "rank": 0}, "lora: rank is 0"),
        ({"learner": "prompt-tune", "n": 0}, "prompt-tune: n is 0"),
        ({"learner": "decoder", "layers": 0}, "decoder: layers is 0"),
        ({"learner": "in-context", "shots": -1}, "in-context: shots is -1; it must be at least 0"),
        ({"learner": "bag-of-words", "strength": 0.0}, "strength is 0.0"),
        (
            {"learner": "bilstm", "optimiser": "adadelta"},
            "optimiser: Input should be 'adamw', 'adam', 'sgd' or 'adafactor'",
        ),
        ({"learner": "bilstm", "beta2": 1.0}, "beta2 is 1.0"),
    ],
)
def test_settings_are_checked(block: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskloomError, match=message):
        read(block)


def test_defaults_are_the_references() -> None:
    wanted = {
        "bilstm": (80_000, 0.0, 5.0),
        "transformer": (300_000, 0.0025, 5.0),
        "ndr": (80_000, 0.0, 1.0),
    }
    for name, (steps, decay, clip) in wanted.items():
        learner = read(name)
        assert isinstance(learner, Scratch)
        how = learner.training
        assert (how.steps, how.weight_decay, how.clip, how.batch, how.rate) == (
            steps,
            decay,
            clip,
            512,
            1.5e-4,
        )
        assert dataclasses.is_dataclass(LEARNERS.get(name).settings)
    assert read({"learner": "transformer", "steps": 9}).training.weight_decay == 0.0025  # type: ignore[attr-defined]


def test_training_needs_neither_pydantic_nor_arrow_nor_lark() -> None:
    """A GPU machine may have torch, NumPy and safetensors alone."""
    code = """
import sys
for name in ("pydantic", "lark", "yaml", "pyarrow", "typer"):
    sys.modules[name] = None
from taskloom.learners import LEARNERS
from taskloom.learners.training.settings import Training
made = LEARNERS.get("bilstm")(state=8, training=Training(steps=1, batch=2))
print(made.fit([("a 0", "1"), ("b 0", "0")]).answer(["a 0"]) in (["0"], ["1"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "True", done.stderr


def test_listing_learners_does_not_import_torch() -> None:
    code = (
        "import sys; from taskloom.learners import LEARNERS\n"
        "print('ndr' in [learner.name for learner in LEARNERS], 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "False"], done.stderr
