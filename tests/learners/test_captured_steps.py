"""Captured steps of language models on the CPU: a stand-in for the graph runs a step as it is, and
one for the compiler may err.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from taskloom.learners.accelerated import cuda_graphs  # noqa: E402
from taskloom.learners.config import read  # noqa: E402
from taskloom.learners.interface import Paused  # noqa: E402
from taskloom.learners.pretrained import trainer  # noqa: E402
from taskloom.learners.pretrained.models import Sizes, from_scratch  # noqa: E402
from taskloom.learners.training import step  # noqa: E402

DATA = [("a 1", "1"), ("b 1", "2"), ("a 2", "2"), ("b 2", "1")]
LOOP = {
    "batch": 4,
    "steps": 3,
    "warmup": 0,
    "rate": 0.05,
    "evaluate_every": 0,
    "longest_answer": 2,
    "device": "cpu",
}


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

    def record(
        step: Callable[[], tuple[Any, ...]], pool: Any, warm_ups: int = 3
    ) -> tuple[Replayed, tuple[Any, ...]]:
        graph = Replayed(step, holders[-1])
        return graph, graph.results

    def optimiser(tensors: list[Any], how: Any, device: Any) -> Any:
        return torch.optim.AdamW(
            tensors, lr=torch.tensor(how.rate), betas=(0.9, how.beta2), foreach=False
        )

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


LEARNERS = [
    {"learner": "fine-tune"},
    {"learner": "lora", "rank": 4},
    {"learner": "prompt-tune", "n": 4},
]


def trained(learner: dict[str, Any], model: str, **more: Any) -> Any:
    return (
        read({**learner, "model": model, **LOOP, **more}).fit(DATA).logprob(["a 1"], [["1", "2"]])
    )


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner["learner"])
@pytest.mark.parametrize(
    ("compiler", "right"), [(compiled_right, True), (compiled_wrong, False)], ids=["right", "wrong"]
)
def test_layers_stay_compiled_where_that_is_right_and_are_computed_plainly_where_it_is_wrong(
    compiler: Callable[..., Any],
    right: bool,
    learner: dict[str, Any],
    model: str,
    captured: list[cuda_graphs.Captured],
    monkeypatch: pytest.MonkeyPatch,
    recwarn: pytest.WarningsRecorder,
) -> None:
    plain = trained(learner, model, compile=False)
    monkeypatch.setattr(cuda_graphs, "PLAIN_ROWS", 3)  # the plain pass in parts
    monkeypatch.setattr(cuda_graphs, "compiled", compiler)
    assert trained(learner, model) == plain
    assert bool(captured[-1].fast.wrap or captured[-1].layers) is right
    warned = [str(one.message) for one in recwarn.list if "compiled" in str(one.message)]
    assert [
        "compiled layers give other gradients than plain ones on cpu" in text for text in warned
    ] == [True] * (not right)
    monkeypatch.setattr(cuda_graphs.Captured, "_check_compiler", lambda self, places: None)
    assert (
        trained(learner, model) == plain
    ) is right  # unchecked, the compiler that errs does harm


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner["learner"])
def test_a_resumed_run_compares_compiled_layers_at_the_weights_it_began_with(
    learner: dict[str, Any],
    model: str,
    captured: list[cuda_graphs.Captured],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """What is learned by then has small gradients, in which rounding counts for more."""
    seen: list[bool] = []
    gradients = cuda_graphs.Captured._gradients

    def noting(holder: cuda_graphs.Captured, *given: Any) -> Any:
        seen.append(all(torch.equal(t, holder.start[n]) for n, t in holder.adapter.trained.items()))
        return gradients(holder, *given)

    monkeypatch.setattr(cuda_graphs, "compiled", compiled_right)
    options = {**learner, "model": model, **LOOP}
    paused: Any = read(options)
    whole = read(options).fit(DATA)
    monkeypatch.setattr(cuda_graphs.Captured, "_gradients", noting)
    with pytest.raises(Paused):
        paused.fit(DATA, folder=tmp_path, seconds=0)
    halfway = len(seen)
    resumed = read(options).fit(DATA, folder=tmp_path)
    assert len(captured) == 3
    assert halfway < len(seen)
    assert all(seen)
    assert resumed.logprob(["a 1"], [["1", "2"]]) == whole.logprob(["a 1"], [["1", "2"]])


def test_fp32_decides_where_layers_that_are_compiled_right_round_otherwise(
    model: str,
    captured: list[cuda_graphs.Captured],
    monkeypatch: pytest.MonkeyPatch,
    recwarn: pytest.WarningsRecorder,
) -> None:
    """Layers compiled without rounding inside are nearer to fp32 than plain ones, and further from
    those than is allowed here.
    """

    def unrounded(function: Callable[..., Any], rounded: bool = False) -> Callable[..., Any]:
        def wide(value: Any) -> Any:
            return (
                value.float()
                if isinstance(value, torch.Tensor) and value.is_floating_point()
                else value
            )

        def layer(w: Any, h: Any, change: Any, *given: Any) -> Any:
            a, b, (k, v) = function(w, wide(h), wide(change), *given)
            return a.to(h.dtype), b.to(h.dtype), (k.to(h.dtype), v.to(h.dtype))

        return layer if function.__name__ == "_layer" else function

    monkeypatch.setattr(cuda_graphs, "compiled", unrounded)
    allowed = 1e-4
    monkeypatch.setitem(step.ROUNDING, "bf16", allowed)
    differences: list[tuple[float, bool]] = []

    def noting(gradients: Any, plain: Any, precision: str, device: Any, exact: Any) -> bool:
        differences.append((step.largest_difference(gradients, plain)[0], exact is not None))
        return step.compiled_right(gradients, plain, precision, device, exact)

    monkeypatch.setattr(cuda_graphs, "compiled_right", noting)
    trained({"learner": "fine-tune"}, model, precision="bf16")
    assert differences
    assert all(difference > allowed and asked for difference, asked in differences)
    assert captured[-1].fast.wrap is not None
    assert not [one for one in recwarn.list if "gradients" in str(one.message)]
