"""Torch modules as learners: they learn, stack, resume and are saved like our own networks, and say
what is wrong with them.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

import taskloom as tl  # noqa: E402
from taskloom.learners import LEARNERS, LearnerError, find_learner, load  # noqa: E402
from taskloom.learners.config import read  # noqa: E402
from taskloom.learners.scratch.nets.module_adapter import ModuleNet, stacks  # noqa: E402

_spec = importlib.util.spec_from_file_location("tiny", Path(__file__).with_name("tiny.py"))
assert _spec is not None
assert _spec.loader is not None
tiny: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tiny)

DATA = tiny.everything(2)
nn = torch.nn


class Bag(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """The words at their places, summed."""

    def __init__(
        self, vocabulary: int, answers: int, state: int = 32, dropout: float = 0.2
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, state)
        self.places = nn.Parameter(torch.randn(8, state))
        self.inner = nn.Sequential(nn.Linear(state, state), nn.Tanh(), nn.Dropout(dropout))
        self.readout = nn.Linear(state, answers)

    def forward(self, tokens: Any, lengths: Any) -> Any:
        real = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        states = self.words(tokens) * self.places[: tokens.shape[1]]
        return self.readout(self.inner((states * real[..., None]).sum(1)))


class Packed(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """An LSTM over packed sequences, whose own dropout draws from torch's generator: nothing that
    vmap can stack.
    """

    def __init__(self, vocabulary: int, answers: int, state: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, state)
        self.lstm = nn.LSTM(state, state, num_layers=2, dropout=0.3, batch_first=True)
        self.readout = nn.Linear(state, answers)

    def forward(self, tokens: Any, lengths: Any) -> Any:
        words = self.words(tokens)
        packed = nn.utils.rnn.pack_padded_sequence(
            words, lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        _, (last, _) = self.lstm(packed)
        return self.readout(last[-1])


class Attention(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """torch's own Transformer layer."""

    def __init__(self, vocabulary: int, answers: int, state: int = 16) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, state)
        layer = nn.TransformerEncoderLayer(state, 2, 32, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 1)
        self.readout = nn.Linear(state, answers)

    def forward(self, tokens: Any, lengths: Any) -> Any:
        padding = torch.arange(tokens.shape[1]) >= lengths[:, None]
        return self.readout(self.layers(self.words(tokens), src_key_padding_mask=padding)[:, 0])


def of(module: Any, **settings: Any) -> Any:
    """The learner of a module, with quick settings."""
    tl.learner(
        "test/module", describe="a module", rate=1e-2, warmup=10, batch=80, evaluate_every=0
    )(module)
    return read({"learner": "test/module", **settings})


@pytest.mark.parametrize(("module", "steps"), [(Bag, 150), (Packed, 90)])
def test_a_module_fits_a_tiny_task(module: Any, steps: int) -> None:
    fitted = of(module, steps=steps).fit(DATA, {"again": DATA}, seed=0)
    inputs, targets = [text for text, _ in DATA], [target for _, target in DATA]
    assert np.mean([a == b for a, b in zip(fitted.answer(inputs), targets, strict=True)]) > 0.9
    assert fitted.curve[-1].split == "again"
    assert fitted.represent(inputs).shape == (len(inputs), 32)


@pytest.mark.parametrize(("module", "together"), [(Bag, True), (Attention, True), (Packed, False)])
def test_a_seed_in_a_stack_is_the_seed_alone(module: Any, together: bool) -> None:
    learner = of(module, steps=6, evaluate_every=3)
    stack = learner.fit_many(DATA, {"again": DATA}, seeds=[5, 1, 8])
    alone = learner.fit(DATA, {"again": DATA}, seed=1)
    assert stack[1].net.stacks is together
    for one, other in zip(stack[1].curve, alone.curve, strict=True):
        assert one.loss == pytest.approx(other.loss, abs=1e-5)
    gaps = torch.cat(
        [
            (stack[1].weights[name] - weight).abs().flatten()
            for name, weight in alone.weights.items()
        ]
    )
    # Adam divides by the size of a gradient, so rounding shows where gradients are nothing, as
    # those of keys' biases are.
    assert float(gaps.max()) < 1e-3
    assert float(gaps.mean()) < 1e-5
    assert stack[0].curve != stack[1].curve


@pytest.mark.parametrize("module", [Bag, Attention])
def test_stacked_gradients_are_those_of_each_seed(module: Any) -> None:
    net: Any = of(module).network(8, 4)
    starts = [net.start(torch.Generator().manual_seed(seed)) for seed in (0, 1, 2)]
    weights = {name: torch.stack([start[name] for start in starts]) for name in starts[0]}
    tokens, lengths = torch.tensor([[1, 2, 3, 8], [4, 8, 0, 0]]), torch.tensor([4, 2])
    assert stacks(net, weights, tokens, lengths)  # within 1e-3 of each gradient
    net.stacked = lambda *a: net.alone(*a) + 0.1  # what stacks wrongly is found out
    assert not stacks(net, weights, tokens, lengths)


@pytest.mark.parametrize("module", [Bag, Packed])
def test_resumed_equals_uninterrupted(module: Any, tmp_path: Path) -> None:
    learner = of(module, steps=12, evaluate_every=4, checkpoint_every=3)
    whole = learner.fit(DATA, {"dev": DATA[:20]}, seed=3)
    calls = 0

    def interrupt(progress: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.fit(DATA, {"dev": DATA[:20]}, seed=3, folder=tmp_path, progress=interrupt)
    resumed = learner.fit(DATA, {"dev": DATA[:20]}, seed=3, folder=tmp_path)
    assert resumed.curve == whole.curve
    for name, weight in whole.weights.items():
        assert bool((resumed.weights[name] == weight).all())


def test_saved_and_loaded_is_the_same_and_any_batch(tmp_path: Path) -> None:
    fitted = of(Bag, steps=3, state=16).fit(DATA, seed=0)
    fitted.save(tmp_path / "model")
    again: Any = load(tmp_path / "model")
    inputs = [text for text, _ in DATA[::7]]
    candidates = [["0", "1", "2", "3"]] * len(inputs)
    assert again.logprob(inputs, candidates) == fitted.logprob(inputs, candidates)
    assert again.learner == fitted.learner
    fitted.batch = 1
    assert (
        np.abs(
            np.array(fitted.logprob(inputs, candidates))
            - np.array(again.logprob(inputs, candidates))
        ).max()
        < 1e-5
    )
    LEARNERS.forget(__name__)
    with pytest.raises(
        LearnerError, match="'test/module', which is not known here; if a file defines it"
    ):
        load(tmp_path / "model")


def test_every_dropout_call_has_its_own_mask_and_a_step_too() -> None:
    from taskloom.learners.scratch.nets.module_adapter import Masks
    from taskloom.learners.scratch.nets.ops import DropoutKeys

    def masks(seed: int, step: int) -> list[Any]:
        dropout = DropoutKeys(
            torch.tensor([seed], dtype=torch.int32), torch.tensor(step, dtype=torch.int32), 1
        )
        with Masks(dropout.keys[0, 0], 0):
            return [torch.nn.functional.dropout(torch.ones(400, 50), 0.3) for _ in range(2)]

    first, second = masks(0, 0)
    assert float((first == 0).float().mean()) == pytest.approx(0.3, abs=0.02)
    assert float(first.mean()) == pytest.approx(1, abs=0.02)
    assert not torch.equal(first, second)
    assert torch.equal(first, masks(0, 0)[0])
    assert not torch.equal(first, masks(0, 1)[0])
    assert not torch.equal(first, masks(1, 0)[0])


def test_a_function_that_builds_a_module_is_a_learner_with_its_settings() -> None:
    @tl.learner("test/built", describe="built", state=8, steps=2)
    def built(vocabulary: int, answers: int, state: int = 4) -> Any:
        return Bag(vocabulary, answers, state)

    learner: Any = read({"learner": "test/built", "batch": 16})
    assert (learner.state, learner.training.steps, learner.training.batch) == (8, 2, 16)
    assert learner.fit(DATA, seed=0).answer(["a 1"])[0] in "0123"
    with pytest.raises(LearnerError, match="has no setting 'stat'; did you mean 'state'"):
        read({"learner": "test/built", "stat": 4})


class Mean(Bag):
    """Averages padding too."""

    def forward(self, tokens: Any, lengths: Any) -> Any:
        return self.readout(self.words(tokens).mean(1))


class Normed(Bag):
    """Has running statistics."""

    def __init__(self, vocabulary: int, answers: int) -> None:
        super().__init__(vocabulary, answers)
        self.norm = nn.BatchNorm1d(32)

    def forward(self, tokens: Any, lengths: Any) -> Any:
        return self.readout(self.norm(self.words(tokens[:, 0])))


class Wide(Bag):
    """Gives a logit per word."""

    def forward(self, tokens: Any, lengths: Any) -> Any:
        return self.readout(self.words(tokens))


class Broken(Bag):
    """Has a mistake."""

    def forward(self, tokens: Any, lengths: Any) -> Any:
        return self.readout(tokens)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Mean, "forward must not look at tokens beyond lengths"),
        (Normed, "the buffer 'norm.running_mean' changes while training"),
        (
            Wide,
            r"forward returned the shape \[2, \d, 4\]; it must be \[batch, answers\] = \[2, 4\]",
        ),
        (Broken, r"forward\(tokens, lengths\) raised RuntimeError: .*test_modules.py, line \d+"),
        (lambda vocabulary, answers: 3, "where a torch.nn.Module should be"),
    ],
)
def test_a_module_that_cannot_be_trained_says_why(module: Any, message: str) -> None:
    with pytest.raises(LearnerError, match=message):
        of(module).fit(DATA, seed=0)


@pytest.mark.parametrize(
    ("build", "more", "message"),
    [
        (lambda vocabulary: None, {}, "needs two first parameters"),
        (lambda vocabulary, answers, state: None, {}, "the parameter 'state' needs a default"),
        (
            lambda vocabulary, answers, batch=3: None,
            {},
            "'batch' is the name of a training setting",
        ),
        (lambda vocabulary, answers, sizes=[1]: None, {}, "mutable default"),
        (
            lambda vocabulary, answers, state=3: None,
            {"stat": 4},
            "has no setting 'stat'; did you mean 'state'",
        ),
    ],
)
def test_a_signature_that_gives_no_settings_says_why(
    build: Any, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(LearnerError, match=message):
        tl.learner("test/bad", describe="bad", **more)(build)


def test_another_code_is_another_run(tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    code = "def x(vocabulary, answers, state: int = 4):\n    return None\n"
    own.write_text(f"import taskloom as tl\n\n@tl.learner('mine/x', describe='x')\n{code}")
    entry = find_learner(str(own))
    before = entry.identity(entry())
    assert before == find_learner(f"{own}::mine/x").identity(entry())
    own.write_text(own.read_text() + "# edited\n")
    assert find_learner(str(own)).identity(entry()) != before


def test_the_network_of_a_checkpoint_is_known_by_its_code_and_settings() -> None:
    def network(**settings: Any) -> str:
        net: Any = of(Bag, **settings).network(8, 4)
        assert isinstance(net, ModuleNet)
        return repr(net)

    assert network() == network(steps=7)
    assert network(state=16) != network()
    assert '"code"' in network()
