"""What goes wrong in training and answering: memory that is short, losses that are not numbers,
precisions, inputs too long.
"""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from taskloom.learners import LearnerError, TrainingError, load  # noqa: E402
from taskloom.learners.config import read  # noqa: E402
from taskloom.learners.pretrained import fitted, trainer  # noqa: E402
from taskloom.learners.pretrained.forward import losses  # noqa: E402
from taskloom.learners.pretrained.models import Sizes, from_scratch, open_base  # noqa: E402
from taskloom.learners.scratch.nets.bilstm import BiLSTM  # noqa: E402
from taskloom.learners.training.out_of_memory import in_halves  # noqa: E402
from taskloom.learners.training.step import pick_device  # noqa: E402

_spec = importlib.util.spec_from_file_location("tiny", Path(__file__).with_name("tiny.py"))
assert _spec is not None
assert _spec.loader is not None
tiny: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tiny)

pytestmark = pytest.mark.filterwarnings("ignore:out of memory:UserWarning")

COLOURS = [
    ("grass", "green"),
    ("sky", "blue"),
    ("snow", "white"),
    ("coal", "black"),
    ("blood", "red"),
]
INPUTS = [x for x, _ in COLOURS]
WANTED = [["green", "blue"]] * len(INPUTS)


def lstm(**more: Any) -> Any:
    block = {
        "learner": "bilstm",
        "state": 16,
        "dropout": 0.1,
        "rate": 1e-2,
        "warmup": 0,
        "batch": 40,
    }
    return read({**block, "evaluate_every": 0, **more})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny decoder as a local folder."""
    texts = [t for pair in COLOURS for t in pair] + [" |", "a b c d"]
    base = from_scratch("decoder", texts, Sizes(32, 2, 2, 64, 0.0, 64), "words", seed=1)
    where: Path = tmp_path_factory.mktemp("base") / "model"
    base.model.save_pretrained(where)
    base.tokeniser.save_pretrained(where)
    return where


def tuned(folder: Path, name: str = "fine-tune", **more: Any) -> Any:
    quick = {"batch": 5, "warmup": 0, "evaluate_every": 0, "longest_answer": 4, "rate": 1e-3}
    return read({"learner": name, "model": str(folder), **quick, **more})


def test_halving_goes_down_to_one_and_no_further() -> None:
    seen: list[list[int]] = []

    def run(rows: list[int]) -> None:
        if len(rows) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        seen.append(rows)

    with pytest.warns(UserWarning, match="7 examples are answered 4 at a time"):
        in_halves(list(range(7)), run)
    assert seen == [[0, 1], [2, 3], [4, 5], [6]]

    def never(rows: list[int]) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(LearnerError, match="a single example does not fit"):
            in_halves([1, 2], never)


def test_memory_that_other_processes_have_taken_is_short_too() -> None:
    """What torch raises where another process has filled the card: not its own type for memory, but
    one for the card.
    """
    rows: list[int] = []

    def run(some: list[int]) -> None:
        if len(some) > 2:
            raise torch.AcceleratorError(
                "CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' …"
            )
        rows.extend(some)

    with pytest.warns(UserWarning, match="at a time"):
        in_halves([1, 2, 3, 4, 5], run)
    assert rows == [1, 2, 3, 4, 5]


def test_classifiers_go_on_when_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training, measuring and answering, with a network that bears at most 11 examples at once."""
    data = tiny.everything(2)
    learner = lstm(steps=4)
    whole = learner.fit(data, {"again": data}, seed=0)
    original = BiLSTM.forward

    def short(self: Any, weights: Any, tokens: Any, *rest: Any, **more: Any) -> Any:
        if len(tokens) > 11:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return original(self, weights, tokens, *rest, **more)

    monkeypatch.setattr(BiLSTM, "forward", short)
    with pytest.warns(UserWarning, match="batches in 4 parts"):
        parts = learner.fit(data, {"again": data}, seed=0)
    assert parts.curve[-1].loss == pytest.approx(whole.curve[-1].loss, abs=1e-4)
    with pytest.warns(UserWarning, match="at a time"):
        found = parts.logprob([x for x, _ in data], [["0", "1"]] * len(data))
    assert np.allclose(
        found, whole.logprob([x for x, _ in data], [["0", "1"]] * len(data)), atol=1e-3
    )


def test_writers_go_on_when_memory_is_short(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = tuned(folder, steps=2).fit(COLOURS, seed=0)
    said, weighed, seen = done.answer(INPUTS), done.logprob(INPUTS, WANTED), done.represent(INPUTS)

    def short(base: Any, batch: Any, *rest: Any, **more: Any) -> Any:
        if len(batch.ids) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return losses(base, batch, *rest, **more)

    monkeypatch.setattr(fitted, "losses", short)
    monkeypatch.setattr(trainer, "losses", short)
    forward = done.base.model.model.forward

    def short_too(*rest: Any, **more: Any) -> Any:
        given = next(x for x in (*rest, *more.values()) if isinstance(x, torch.Tensor))
        if len(given) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(*rest, **more)

    monkeypatch.setattr(done.base.model.model, "forward", short_too)
    with pytest.warns(UserWarning, match="at a time"):
        assert done.answer(INPUTS) == said
    with pytest.warns(UserWarning, match="at a time"):
        assert np.allclose(done.logprob(INPUTS, WANTED), weighed, atol=1e-4)
    with pytest.warns(UserWarning, match="at a time"):
        assert np.allclose(done.represent(INPUTS), seen, atol=1e-4)
    with pytest.warns(UserWarning, match="batches in 4 parts"):
        again = tuned(folder, steps=2).fit(COLOURS, seed=0)
    assert np.allclose(again.logprob(INPUTS[:2], WANTED[:2]), weighed[:2], atol=1e-3)


def broken_after(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses of language models that are not numbers from some step on."""
    calls = 0

    def odd(base: Any, batch: Any, *rest: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        each, count, right = losses(base, batch, *rest, **more)
        return each * (torch.nan if calls > steps else 1.0), count, right

    monkeypatch.setattr(trainer, "losses", odd)


def test_a_writer_s_run_stops_at_a_loss_that_is_not_a_number_and_can_be_fixed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = tuned(folder, steps=8, checkpoint_every=2, graphs=False)
    with monkeypatch.context() as patch:
        broken_after(5, patch)
        with pytest.raises(
            TrainingError, match=r"after step 5; use a lower rate.*resumes from the checkpoint in"
        ):
            learner.fit(COLOURS, seed=0, folder=tmp_path)
    with pytest.raises(LearnerError, match="different: tasks, data"):
        learner.fit(COLOURS[:4], seed=0, folder=tmp_path)
    fixed = tuned(folder, steps=8, checkpoint_every=2, rate=1e-4, clip=0.5, graphs=False).fit(
        COLOURS, seed=0, folder=tmp_path
    )
    assert np.isfinite(fixed.logprob(INPUTS, WANTED)).all()
    # From now on it is a run with these settings, and no other.
    with pytest.raises(LearnerError, match="different: settings"):
        learner.fit(COLOURS, seed=0, folder=tmp_path)


def test_a_classifier_s_run_can_be_fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tiny.everything(1)
    original, calls = BiLSTM.forward, 0

    def odd(self: Any, weights: Any, *rest: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        return original(self, weights, *rest, **more) * (torch.nan if calls > 5 else 1.0)

    with monkeypatch.context() as patch:
        patch.setattr(BiLSTM, "forward", odd)
        with pytest.raises(
            TrainingError,
            match=r"seed 0 is not a number after step 5; .*resumes from the checkpoint",
        ):
            lstm(steps=8, checkpoint_every=2, graphs=False).fit(data, seed=0, folder=tmp_path)
    with pytest.raises(LearnerError, match="different: settings"):
        lstm(steps=9, checkpoint_every=2, rate=1e-3).fit(data, seed=0, folder=tmp_path)
    fixed = lstm(steps=8, checkpoint_every=2, rate=1e-3).fit(data, seed=0, folder=tmp_path)
    assert all(np.isfinite(p.loss) for p in fixed.curve)


def test_a_rate_far_too_high_ends_a_run(folder: Path) -> None:
    """Without anything put in by hand, so on a GPU the steps are replayed graphs."""
    with pytest.raises(TrainingError, match="not a number after step"):
        tuned(folder, steps=20, rate=1e30, clip=0.0).fit(COLOURS, seed=0)
    with pytest.raises(TrainingError, match="not a number after step"):
        lstm(steps=20, rate=1e38, clip=0.0).fit(tiny.everything(1), seed=0)


def test_settings_without_effect_may_change_between_calls(folder: Path, tmp_path: Path) -> None:
    tuned(folder, steps=2, threads=1).fit(COLOURS, seed=0, folder=tmp_path)
    tuned(folder, steps=2, threads=2, checkpoint_every=7).fit(COLOURS, seed=0, folder=tmp_path)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_learns_on_the_cpu(folder: Path, precision: str, tmp_path: Path) -> None:
    data = tiny.everything(1)
    steps = {"steps": 60, "dropout": 0.0, "precision": precision}
    assert lstm(**steps).fit(data, {"again": data}, seed=0).curve[-1].score == 1.0
    learner = tuned(folder, steps=30, rate=1e-2, precision=precision)
    whole = learner.fit(COLOURS, {"again": COLOURS}, seed=0)
    assert whole.curve[-1].score == 1.0
    with pytest.raises(LearnerError, match="saved after step 1"):
        learner.fit(COLOURS, {"again": COLOURS}, seed=0, folder=tmp_path, seconds=0.0)
    resumed = learner.fit(COLOURS, {"again": COLOURS}, seed=0, folder=tmp_path)
    assert resumed.curve == whole.curve


def weights(done: Any) -> dict[str, Any]:
    return {name: value.cpu() for name, value in done.base.model.state_dict().items()}


def test_small_gradients_survive_fp16(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss of a millionth: without a scale its gradients are zeros in fp16. One that overflows
    leaves its step out.
    """
    factor = 1e-6

    def faint(base: Any, batch: Any, *rest: Any, **more: Any) -> Any:
        each, count, right = losses(base, batch, *rest, **more)
        return each * factor, count, right

    monkeypatch.setattr(trainer, "losses", faint)
    before = open_base(str(folder)).model.state_dict()
    after = weights(tuned(folder, steps=2, precision="fp16").fit(COLOURS, seed=0))
    exact = weights(tuned(folder, steps=2, precision="fp32").fit(COLOURS, seed=0))
    name = "model.layers.0.mlp.down_proj.weight"
    moved, wanted = (after[name] - before[name]).flatten(), (exact[name] - before[name]).flatten()
    # Most gradients are near Adam's own epsilon here; what counts is that they point the same way.
    assert float(torch.corrcoef(torch.stack([moved, wanted]))[0, 1]) > 0.9
    factor = 1e30
    skipped = weights(tuned(folder, steps=1, precision="fp16").fit(COLOURS, seed=0))
    assert all(bool((skipped[n] == w).all()) for n, w in before.items())


def test_inputs_too_long_are_refused_when_asked(folder: Path) -> None:
    done = tuned(folder, steps=1).fit(COLOURS, seed=0)
    long = "a b c d " * 20
    asked: list[tuple[Any, ...]] = [(done.answer,), (done.logprob, [["b"]]), (done.represent,)]
    for ask, *rest in asked:
        with pytest.raises(
            LearnerError,
            match=r"needs \d+ tokens with its answer and '.*' reads at most 64; shorten",
        ):
            ask([long], *rest)
    shown = read({"learner": "in-context", "model": str(folder), "shots": 4}).fit([(long, "a")] * 4)
    with pytest.raises(LearnerError, match="show fewer examples"):
        shown.answer(["sky"])
    held = {"test": [(long, "a")]}
    with pytest.raises(
        LearnerError, match="reads at most 64"
    ):  # said before a step is taken, not at the first point
        tuned(folder, steps=1).fit(COLOURS, held, seed=0)


def test_models_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("fine-tune", "lora", "prompt-tune", "extractive"):
        with pytest.raises(LearnerError, match="there is no model folder"):
            tuned(tmp_path / "nothing", name, steps=1).fit([("Sky. Sky?", "Sky")])
    with pytest.raises(LearnerError, match="there is no model folder ''; give a folder"):
        tuned(Path(), steps=1, model="").fit(COLOURS)
    (tmp_path / "empty").mkdir()
    with pytest.raises(LearnerError, match="cannot be opened"):
        tuned(tmp_path / "empty", steps=1).fit(COLOURS)


def test_a_model_in_the_home_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    assert open_base(f"~/{folder.name}").longest == open_base(str(folder)).longest


def test_devices(folder: Path) -> None:
    assert pick_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(LearnerError, match="use auto, cpu, cuda"):
        tuned(folder, steps=1, device="gpu7").fit(COLOURS)
    if not torch.cuda.is_available():
        with pytest.raises(LearnerError, match="torch sees no GPU here"):
            lstm(steps=1, device="cuda").fit(tiny.everything(1))


def test_the_cpu_gives_the_same_bits_twice(folder: Path) -> None:
    one, two = (tuned(folder, steps=3, threads=1).fit(COLOURS, seed=3) for _ in range(2))
    assert one.logprob(INPUTS, WANTED) == two.logprob(INPUTS, WANTED)
    first, second = (lstm(steps=5).fit(tiny.everything(2), seed=3) for _ in range(2))
    assert all(bool((second.weights[n] == w).all()) for n, w in first.weights.items())


def test_twenty_five_seeds_at_once() -> None:
    data = tiny.everything(1)
    learner = lstm(steps=20, state=8, batch=16)
    stack = learner.fit_many(data, {"again": data}, seeds=25)
    assert len({tuple(f.curve) for f in stack}) == 25
    for seed in (0, 13, 24):
        alone = learner.fit(data, {"again": data}, seed=seed)
        assert stack[seed].curve[-1].loss == pytest.approx(alone.curve[-1].loss, abs=1e-4)
        assert stack[seed].answer([x for x, _ in data]) == alone.answer([x for x, _ in data])


def test_a_writer_stops_by_dev_alone_and_keeps_the_best(folder: Path, tmp_path: Path) -> None:
    dev = [(x, "green") for x in INPUTS]  # better the less is learned
    learner = tuned(folder, steps=60, rate=1e-2, evaluate_every=3, patience=3)
    with pytest.raises(LearnerError, match="dev"):
        learner.fit(COLOURS, {"test": COLOURS}, seed=0)
    done = learner.fit(COLOURS, {"dev": dev}, seed=0)
    points = [(p.score, -p.loss, p.step) for p in done.curve if p.split == "dev"]
    best = max(points, key=lambda p: p[:2])
    assert points[-1][2] == best[2] + 9 < 60
    sums = [row[0] for row in done.logprob(INPUTS, [["green"]] * len(INPUTS))]
    assert -sum(sums) / (2 * len(INPUTS)) == pytest.approx(-best[1], abs=1e-4)
    done.save(tmp_path)
    assert load(tmp_path).answer(INPUTS) == done.answer(INPUTS)
