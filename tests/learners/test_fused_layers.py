"""Layers by kernels against the plain ones: on a GPU if there is one, otherwise in Triton's
interpreter, for which `pip install triton` is enough.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
GPU = torch.cuda.is_available()
if not GPU:
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported
pytest.importorskip(
    "triton", reason="kernels need Triton: pip install triton (torch for a GPU brings it)"
)

from taskloom.learners.scratch.nets.ndr import NDR  # noqa: E402
from taskloom.learners.scratch.nets.ops import (  # noqa: E402
    DropoutKeys,
    Kernels,
    Net,
)
from taskloom.learners.scratch.nets.transformer import Transformer  # noqa: E402
from taskloom.learners.scratch.tokens import Encoded  # noqa: E402
from taskloom.learners.training.settings import Training  # noqa: E402
from taskloom.learners.training.step import Stepper, computing  # noqa: E402

DEVICE = "cuda" if GPU else "cpu"
NETS: dict[str, Net] = {
    "ndr": NDR(6, 3, state=32, heads=2, feed_forward=48, layers=2),
    "transformer": Transformer(6, 3, state=32, heads=2, feed_forward=48, layers=2),
}


def plainly(function: Any) -> Any:
    """Stand for the compiler."""
    return function


def weights_of(net: Net, seeds: int) -> dict[str, Any]:
    """Draw weights in which nothing is 0 or 1 any more."""
    random = torch.Generator().manual_seed(7)
    starts = [net.start(torch.Generator().manual_seed(s)) for s in range(seeds)]
    stack = {name: torch.stack([start[name] for start in starts]) for name in starts[0]}
    return {name: w + 0.1 * torch.rand(w.shape, generator=random) for name, w in stack.items()}


def logits_and_gradients(
    net: Net, weights: dict[str, Any], own: bool, wrap: Any, kind: Any, length: int = 5
) -> tuple[Any, dict[str, Any]]:
    random = torch.Generator().manual_seed(1)
    weights = {name: w.to(DEVICE, kind).requires_grad_() for name, w in weights.items()}
    shape = (2, 3) if own else (3,)
    tokens = torch.randint(0, 6, (*shape, length), generator=random).to(DEVICE)
    lengths = torch.randint(2, length + 1, shape, generator=random).to(DEVICE)
    dropout = DropoutKeys(
        torch.tensor([0, 9], device=DEVICE), torch.tensor(5, device=DEVICE), net.sites, first_row=2
    )
    logits = net.forward(weights, tokens, lengths, dropout, wrap)
    probe = torch.randn(logits.shape, generator=random, dtype=torch.float64).to(
        DEVICE, logits.dtype
    )
    gradients = torch.autograd.grad(
        (logits * probe).sum(), list(weights.values()), materialize_grads=True
    )
    return logits.detach(), dict(zip(weights, gradients, strict=True))


@pytest.mark.parametrize("name", sorted(NETS))
@pytest.mark.parametrize("own", [False, True], ids=["shared-inputs", "own-inputs"])
def test_kernels_compute_what_plain_layers_compute(name: str, own: bool) -> None:
    compare(NETS[name], own, 5)


@pytest.mark.parametrize("name", sorted(NETS))
@pytest.mark.parametrize("length", [7, 9, 17])
def test_kernels_compute_longer_inputs_in_other_tiles(name: str, length: int) -> None:
    compare(NETS[name], False, length)


def compare(net: Net, own: bool, length: int) -> None:
    """Compare logits and gradients by kernels with plain ones."""
    weights = weights_of(net, 2)
    logits, gradients = logits_and_gradients(net, weights, own, None, torch.float64, length)
    fast, fast_gradients = logits_and_gradients(
        net, weights, own, Kernels(plainly), torch.float32, length
    )
    assert float((fast - logits).norm() / logits.norm()) < 1e-6
    for weight, right in gradients.items():
        size = max(float(right.norm()), 1e-6)
        assert float((fast_gradients[weight] - right).norm()) < 2e-5 * size, weight


def stack_of(net: Net, precision: Any, batch: int = 4, length: int = 5) -> Stepper:
    random = np.random.default_rng(0)
    tokens, lengths = random.integers(0, 6, (batch, length)), random.integers(2, length + 1, batch)
    data = Encoded(tokens, lengths, random.integers(0, 3, batch))
    how = Training(batch=batch, precision=precision, device=DEVICE, compile=GPU, kernels="always")
    stepper = Stepper(net, data, [0, 1], how)
    if not GPU:
        stepper.wrap = Kernels(plainly)
    return stepper


@pytest.mark.skipif(GPU, reason="kernels run in Triton's interpreter only where there is no GPU")
def test_wrong_kernels_are_found_and_layers_compiled_instead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A kernel that spoils one seed's gradient by a tenth: every forward value is right."""
    from taskloom.learners.accelerated.kernels import ndr_layers, row_kernels

    right_start: Any = vars(ndr_layers)["start"]

    def wrong_start(kernel: Any, grid: Any, *given: Any, **more: Any) -> None:
        right_start(kernel, grid, *given, **more)
        if kernel is row_kernels.merge_backward:
            given[8][1] *= 1.1

    wrong, compiled = stack_of(NETS["ndr"], "fp32"), stack_of(NETS["ndr"], "fp32")
    compiled.wrap = plainly
    monkeypatch.setattr(ndr_layers, "start", wrong_start)
    with pytest.warns(
        UserWarning,
        match="kernels give other gradients than plain ones on cpu .*with compiled layers",
    ):
        wrong.advance(torch.arange(4), 5)
    assert wrong.wrap is plainly
    compiled.advance(torch.arange(4), 5)
    assert torch.equal(wrong.state.weights, compiled.state.weights)


@pytest.mark.skipif(GPU, reason="kernels run in Triton's interpreter only where there is no GPU")
def test_kernels_that_do_not_run_leave_the_layers_to_the_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from taskloom.learners.accelerated.kernels import ndr_layers

    def no_start(*given: Any, **more: Any) -> None:
        raise ValueError("out of shared memory")

    monkeypatch.setattr(ndr_layers, "start", no_start)
    stepper = stack_of(NETS["ndr"], "fp32")
    with pytest.warns(
        UserWarning,
        match=r"kernels do not run on cpu \(ValueError: out of shared memory\): .* compiled",
    ):
        stepper.advance(torch.arange(4), 5)
    assert stepper.wrap is plainly


@pytest.mark.skipif(GPU, reason="kernels run in Triton's interpreter only where there is no GPU")
def test_right_kernels_stay(recwarn: pytest.WarningsRecorder) -> None:
    stepper = stack_of(NETS["ndr"], "fp32")
    stepper.advance(torch.arange(4), 5)
    assert isinstance(stepper.wrap, Kernels)
    assert not [one for one in recwarn.list if "gradients" in str(one.message)]


@pytest.mark.skipif(not GPU, reason="there is no GPU")
@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
@pytest.mark.parametrize("net", [NDR(40, 8), Transformer(40, 8)], ids=["ndr", "transformer"])
def test_kernels_at_the_paper_s_size_are_right_and_repeat_on_a_gpu(
    net: Net, precision: Any, recwarn: pytest.WarningsRecorder
) -> None:
    stepper = stack_of(net, precision, 512, 9)
    rows = torch.arange(512, device="cuda")
    stepper.advance(rows, 9)
    assert isinstance(stepper.wrap, Kernels), [str(one.message) for one in recwarn.list]
    with computing(stepper.precision, stepper.device):
        gradients = [stepper._part(rows, 9, 0, 512)[2] for _ in range(3)]
    assert torch.equal(gradients[0], gradients[1])
    assert torch.equal(gradients[0], gradients[2])
