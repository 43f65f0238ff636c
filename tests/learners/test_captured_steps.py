"""Captured steps of language models on the CPU: a stand-in for the graph runs a step as it is, and one for the compiler may err."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from taskloom.learners.config import read  # noqa: E402
from taskloom.learners.pretrained import trainer  # noqa: E402
from taskloom.learners.pretrained.fast import cuda_graphs  # noqa: E402
from taskloom.learners.pretrained.models import Sizes, from_scratch  # noqa: E402

DATA = [("a 1", "1"), ("b 1", "2"), ("a 2", "2"), ("b 2", "1")]
LOOP = {"batch": 4, "steps": 3, "warmup": 0, "rate": 0.05, "evaluate_every": 0, "longest_answer": 2, "device": "cpu"}


class Replayed:
    """A step in the place of a CUDA graph: it leaves its results where the record has them."""

    def __init__(self, step: Callable[[], tuple[Any, ...]], holder: cuda_graphs.Captured) -> None:
        self.step, self.holder = step, holder
        self.results = step()

    def replay(self) -> None:
        with self.holder._compiled_layers():  # as when it was recorded
            values = self.step()
        for place, value in zip(self.results, values, strict=True):
            place.copy_(value)


class Spoilt(torch.autograd.Function):  # type: ignore[name-defined, misc]
    """The identity, whose gradient is up to a third off."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, change: Any) -> Any:
        return change * torch.linspace(0.7, 1.3, change.shape[-1])


def spoil(values: Any) -> Any:
    if isinstance(values, tuple):
        return (spoil(values[0]), *values[1:])
    return Spoilt.apply(values)


def compiled_wrong(function: Callable[..., Any], rounded: bool = False) -> Callable[..., Any]:
    assert rounded
    return lambda *given, **named: spoil(function(*given, **named))


def compiled_right(function: Callable[..., Any], rounded: bool = False) -> Callable[..., Any]:
    assert rounded
    return lambda *given, **named: function(*given, **named)


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> list[cuda_graphs.Captured]:
    """Capture steps on the CPU; the list holds what captures them."""
    holders: list[cuda_graphs.Captured] = []

    def capture(adapter: Any) -> cuda_graphs.Captured:
        holders.append(cuda_graphs.Captured(adapter))
        holders[-1].pool = "memory of graphs"
        return holders[-1]

    def record(step: Callable[[], tuple[Any, ...]], pool: Any, warm_ups: int = 3) -> tuple[Replayed, tuple[Any, ...]]:
        graph = Replayed(step, holders[-1])
        return graph, graph.results

    def optimiser(tensors: list[Any], how: Any, device: Any) -> Any:
        return torch.optim.AdamW(tensors, lr=torch.tensor(how.rate), betas=(0.9, how.beta2), foreach=False)

    monkeypatch.setattr(trainer, "can_capture", lambda *given: True)
    monkeypatch.setattr(trainer, "Captured", capture)
    monkeypatch.setattr(trainer, "_optimiser", optimiser)
    monkeypatch.setattr(cuda_graphs, "record", record)
    return holders


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    base = from_scratch("decoder", [], Sizes(8, 2, 2, 8, 0.0, 64), "bytes", seed=0)
    base.model.save_pretrained(folder)
    base.tokeniser.save_pretrained(folder)
    return str(Path(folder))


LEARNERS = [{"learner": "fine-tune"}, {"learner": "lora", "rank": 4}, {"learner": "prompt-tune", "n": 4}]


def trained(learner: dict[str, Any], model: str, **more: Any) -> Any:
    return read({**learner, "model": model, **LOOP, **more}).fit(DATA).logprob(["a 1"], [["1", "2"]])


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner["learner"])
def test_layers_that_are_compiled_wrong_are_found_and_computed_plainly(
    learner: dict[str, Any],
    model: str,
    captured: list[cuda_graphs.Captured],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = trained(learner, model, compile=False)
    monkeypatch.setattr(cuda_graphs, "compiled", compiled_wrong)
    with pytest.warns(UserWarning, match="compiled layers give other gradients than plain ones on cpu"):
        assert trained(learner, model) == plain
    assert captured[-1].fast.wrap is None
    assert not captured[-1].layers
    with monkeypatch.context() as patch:
        patch.setattr(cuda_graphs.Captured, "_check_compiler", lambda self, places: None)
        assert trained(learner, model) != plain  # the compiler that is planted does harm


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner["learner"])
def test_layers_that_are_compiled_right_stay_compiled(
    learner: dict[str, Any],
    model: str,
    captured: list[cuda_graphs.Captured],
    monkeypatch: pytest.MonkeyPatch,
    recwarn: pytest.WarningsRecorder,
) -> None:
    monkeypatch.setattr(cuda_graphs, "PLAIN_ROWS", 3)  # the plain pass in parts
    monkeypatch.setattr(cuda_graphs, "compiled", compiled_right)
    trained(learner, model)
    assert captured[-1].fast.wrap is not None or captured[-1].layers
    assert not [one for one in recwarn.list if "compiled" in str(one.message)]
