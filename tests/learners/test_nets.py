"""The three networks against the oracle's weights and logits, their sizes, and their gradients."""

from __future__ import annotations

import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.slow import slow_except  # noqa: E402

from taskloom.learners.interface import LearnerError  # noqa: E402
from taskloom.learners.scratch.nets import ops  # noqa: E402
from taskloom.learners.scratch.nets.bilstm import BiLSTM  # noqa: E402
from taskloom.learners.scratch.nets.ndr import NDR, asked_before, geometric_attention  # noqa: E402
from taskloom.learners.scratch.nets.ops import (  # noqa: E402
    DropoutKeys,
    Net,
    count,
)
from taskloom.learners.scratch.nets.transformer import Transformer  # noqa: E402
from taskloom.learners.scratch.tokens import Encoded  # noqa: E402
from taskloom.learners.training.settings import Training  # noqa: E402
from taskloom.learners.training.step import (  # noqa: E402
    ROUNDING,
    Stepper,
    computing,
    largest_difference,
    takes_kernels,
)

# The oracle's names for the weights, in its own words, and ours.
RENAME = {
    "encoder.": "",
    "embedding.embedding.": "embedding.",
    "output_map.": "classifier.",
    "trafo.layer.": "",
    "self_attn.s_bias": "attention.bias",
    "self_attn.global_content_bias": "attention.content_bias",
    "self_attn.global_pos_bias": "attention.position_bias",
    "self_attn.pos_to_pq": "attention.position",
    "self_attn.": "attention.",
    "att.s_bias": "attention.bias",
    "att.scale_pos": "attention.scale_direction",
    "att.data_to_qp": "attention.direction",
    "att.": "attention.",
    "data_to_": "",
    "multi_head_merge": "out",
    "p1.": "data1.",
    "p2.": "data2.",
    "g1.": "gate1.",
    "g2.": "gate2.",
    "nmerge.": "norm_merge.",
    "no.": "norm_out.",
}


def ours(name: str) -> str:
    for old, new in RENAME.items():
        if old in name and not (old == "att." and "attention." in name):
            name = name.replace(old, new, 1)
    return name


def oracle() -> dict[str, Any]:
    data = os.environ.get("TASKLOOM_DATA")
    if not data:
        pytest.skip("TASKLOOM_DATA is not set: the oracle of the networks is not here")
    path = Path(data) / ".." / "oracles" / "ctlpp" / "model_forward.json"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def build(name: str, config: dict[str, Any]) -> Net:
    sizes = {
        "vocabulary": config["vocabulary"],
        "classes": config["classes"],
        "state": config["state"],
    }
    if name == "bilstm":
        return BiLSTM(**sizes)
    more = {"heads": config["heads"], "feed_forward": config["ff"]}
    if name == "transformer":
        return Transformer(**sizes, **more, layers=config["layers_run"])
    return NDR(**sizes, **more, layers_answering=config["layers_run"])


@pytest.mark.parametrize("name", ["bilstm", "transformer", "ndr"])
@pytest.mark.parametrize("batched", [False, True])
def test_forward_equals_the_oracle(name: str, batched: bool) -> None:
    case = oracle()[name]
    net = build(name, case["config"])
    weights = {
        ours(n): torch.tensor(w, dtype=torch.float64).unsqueeze(0)
        for n, w in case["weights"].items()
    }
    assert {n: tuple(w.shape[1:]) for n, w in weights.items()} == net.shapes()
    sos, eos = case["config"]["sos_id"], case["config"]["eos_id"]
    inputs = [([sos] if sos is not None else []) + row + [eos] for row in case["inputs"]]
    groups = [inputs] if batched else [[row] for row in inputs]
    logits = []
    for group in groups:
        lengths = torch.tensor([len(row) for row in group])
        width = int(lengths.max()) + (
            3 if batched else 0
        )  # padding beyond the longest must not matter either
        tokens = torch.tensor([row + [0] * (width - len(row)) for row in group])
        logits.append(net.forward(weights, tokens, lengths)[0])
    expected = torch.tensor(case["logits"], dtype=torch.float64)
    assert (torch.cat(logits) - expected).abs().max() < 1e-6


@pytest.mark.parametrize("name", ["bilstm", "transformer", "ndr"])
def test_batched_products_equal_one_by_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a GPU computes (batched products, one-hot look-ups, fused attention), here on the
    CPU.
    """
    net = build(
        name, {"vocabulary": 6, "classes": 3, "state": 8, "heads": 2, "ff": 12, "layers_run": 2}
    )
    starts = [net.start(torch.Generator().manual_seed(s)) for s in range(3)]
    weights = {n: torch.stack([s[n] for s in starts]) for n in starts[0]}
    tokens = torch.randint(0, 6, (12, 7), generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([7, 3, 4, 5, 7, 7, 2, 3, 6, 5, 7, 4])
    dropout = DropoutKeys(torch.tensor([0, 1, 2]), torch.tensor(5), net.sites)
    for masks in (None, dropout):
        one = net.forward(weights, tokens, lengths, masks)
        with monkeypatch.context() as patch:
            patch.setattr(ops, "one_by_one", lambda x: False)
            assert torch.allclose(net.forward(weights, tokens, lengths, masks), one, atol=1e-5)
            # The identity stands for the compiler here: the fused form is used, and nothing is
            # compiled.
            assert torch.allclose(
                net.forward(weights, tokens, lengths, masks, lambda f: f), one, atol=1e-5
            )


@pytest.mark.parametrize(
    ("name", "precision"),
    slow_except(
        product(["bilstm", "transformer", "ndr"], ["fp32", "bf16"]),
        ("bilstm", "fp32"),
        ("transformer", "fp32"),
        ("ndr", "bf16"),
    ),
)
def test_a_seed_learns_the_same_in_a_stack_in_the_form_of_accelerators(
    name: str, precision: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gradients, moments and weights after steps with a tight clip: batched products, packed
    attention, autocast, on the CPU.
    """
    monkeypatch.setattr(ops, "one_by_one", lambda x: False)
    net = build(
        name, {"vocabulary": 6, "classes": 3, "state": 16, "heads": 2, "ff": 12, "layers_run": 2}
    )
    random = np.random.default_rng(0)
    data = Encoded(
        random.integers(0, 6, (24, 7)), random.integers(3, 8, 24), random.integers(0, 3, 24)
    )
    how = Training(
        batch=24,
        rate=1e-2,
        warmup=2,
        clip=0.05,
        weight_decay=0.01,
        precision=precision,
        device="cpu",
    )

    def trained(seeds: list[int]) -> Stepper:
        stepper = Stepper(net, data, seeds, how)
        stepper.wrap = lambda f: (
            f
        )  # stands for the compiler: attention is packed, nothing is compiled
        for _ in range(3):
            stepper.advance(torch.arange(24), 7)
        return stepper

    alone = trained([5]).state
    for seeds in ([5, 1], [3, 1, 5, 4]):
        stack, place = trained(seeds).state, seeds.index(5)
        for part in ("weights", "mean", "square", "loss", "updates"):
            one, whole = getattr(alone, part)[0], getattr(stack, part)[place]
            # NDR's are the same bits; one sum of the Transformer is ordered by the size of the
            # stack.
            assert float((one - whole).norm()) <= (
                0.0 if name == "ndr" else 1e-5 * float(one.norm())
            ), part


def stack_of_ndr(device: str, precision: Any, state: int = 16, batch: int = 24) -> Stepper:
    net = NDR(6, 3, state=state, heads=2, feed_forward=2 * state, layers=2)
    random = np.random.default_rng(0)
    data = Encoded(
        random.integers(0, 6, (batch, 9)),
        random.integers(3, 10, batch),
        random.integers(0, 3, batch),
    )
    return Stepper(
        net,
        data,
        [0, 1],
        Training(batch=batch, precision=precision, device=device, kernels="never"),
    )


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_layers_that_are_compiled_right_stay_compiled(
    precision: Any, recwarn: pytest.WarningsRecorder
) -> None:
    stepper = stack_of_ndr("cpu", precision)
    stepper.wrap = compiler = lambda f: f
    for _ in range(2):
        stepper.advance(torch.arange(24), 9)
    assert stepper.wrap is compiler
    assert not recwarn.list


def test_layers_that_are_compiled_wrong_are_found_and_computed_plainly() -> None:
    """A compiler that spoils one seed's gradient by a tenth, as one did: every forward value is
    right.
    """

    class Spoilt(torch.autograd.Function):  # type: ignore[name-defined, misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, change: Any) -> Any:
            return torch.cat([change[:1], change[1:] * 1.1])

    right, wrong = stack_of_ndr("cpu", "fp32"), stack_of_ndr("cpu", "fp32")
    wrong.wrap = lambda f: lambda *given: Spoilt.apply(f(*given))
    with pytest.warns(
        UserWarning, match="compiled layers give other gradients than plain ones on cpu"
    ):
        wrong.advance(torch.arange(24), 9)
    assert wrong.wrap is None
    right.advance(torch.arange(24), 9)
    assert torch.equal(right.state.weights, wrong.state.weights)


def test_compiled_layers_are_compared_at_the_weights_that_seeds_start_with() -> None:
    """A resumed run has other weights by then, with which rounding may move gradients further than
    is allowed.
    """
    stepper, plain = stack_of_ndr("cpu", "fp32"), stack_of_ndr("cpu", "fp32")
    biases: list[float] = []

    def noting(function: Any) -> Any:
        def noted(*given: Any) -> Any:
            if isinstance(given[0], dict):
                biases.append(given[0]["gate2.bias"][0, 0].item())
            return function(*given)

        return noted

    stepper.wrap = noting
    for one in (stepper, plain):
        one.state.weights.detach().mul_(2)
        one.advance(torch.arange(24), 9)
    assert biases == [-3.0, -3.0, -6.0, -6.0]  # two layers, compared and then trained
    assert torch.allclose(stepper.state.weights, plain.state.weights, atol=1e-5)


@pytest.mark.parametrize(
    ("net", "precision", "kernels", "taken"),
    [
        (NDR(6, 3), "bf16", "auto", True),
        (NDR(6, 3), "tf32", "auto", True),
        (NDR(6, 3), "fp32", "auto", False),
        (NDR(6, 3), "bf16", "never", False),
        (Transformer(6, 3), "bf16", "auto", True),
        (Transformer(6, 3), "tf32", "auto", False),
        (Transformer(6, 3), "tf32", "always", True),
    ],
)
def test_kernels_are_taken_where_they_were_measured(
    net: Net, precision: Any, kernels: Any, taken: bool
) -> None:
    assert takes_kernels(net, Training(kernels=kernels), precision) == taken


def test_gradients_that_rounding_alone_moves_are_no_reason_to_refuse_a_compiler() -> None:
    """Rounding moves the plain gradient by a tenth here: a compiled one may be as far off
    elsewhere, but not thrice as far.
    """
    random = torch.Generator().manual_seed(0)
    exact = {"a": torch.randn(1, 100, generator=random), "b": torch.randn(1, 100, generator=random)}

    def moved(by: float) -> dict[str, Any]:
        return {"a": exact["a"] + by * torch.randn(1, 100, generator=random), "b": exact["b"]}

    plain, as_far, farther = moved(0.1), moved(0.1), moved(0.3)
    assert largest_difference(as_far, plain)[0] > ROUNDING["bf16"]
    assert largest_difference(as_far, plain, exact)[0] == 0.0
    assert largest_difference(farther, plain, exact)[1] == "a"
    assert largest_difference({**as_far, "b": 1.1 * exact["b"]}, plain, exact)[1] == "b"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_compiled_gradients_of_a_stack_repeat_on_a_gpu(
    precision: Any, recwarn: pytest.WarningsRecorder
) -> None:
    stepper = stack_of_ndr("cuda", precision, state=256, batch=512)
    rows = torch.arange(512, device="cuda")
    stepper.advance(rows, 9)
    assert stepper.wrap is not None, [str(one.message) for one in recwarn.list]
    with computing(stepper.precision, stepper.device):
        gradients = [stepper._part(rows, 9, 0, 512)[2] for _ in range(3)]
    assert torch.equal(gradients[0], gradients[1])
    assert torch.equal(gradients[0], gradients[2])


@pytest.mark.parametrize(
    ("net", "size"),
    [(BiLSTM(40, 8), 407_816), (Transformer(40, 8), 155_018), (NDR(40, 8), 673_299)],
    ids=["bilstm", "transformer", "ndr"],
)
def test_sizes_are_the_spec_s(net: Net, size: int) -> None:
    assert count(net) == size
    start = net.start(torch.Generator().manual_seed(0))
    assert {n: tuple(w.shape) for n, w in start.items()} == net.shapes()


def by_definition(logits: Any, allowed: Any) -> Any:
    """A_ij written out: ask the columns one after the other."""
    n = logits.shape[-1]
    out = torch.zeros_like(logits)
    for i in range(n):
        left = 1.0
        for distance in range(1, n):
            for j in (i + distance, i - distance):
                if 0 <= j < n and bool(allowed[i, j]):
                    p = torch.sigmoid(logits[i, j])
                    out[i, j] = left * p
                    left = left * (1 - p)
    return out


@pytest.mark.parametrize("length", [1, 2, 5, 8])
def test_geometric_attention_by_its_definition(length: int) -> None:
    generator = torch.Generator().manual_seed(length)
    logits = torch.randn(length, length, generator=generator, dtype=torch.float64) * 3
    allowed = ~torch.eye(length, dtype=torch.bool)
    if length > 2:
        allowed[:, -1] = False
    found = geometric_attention(logits, allowed, asked_before(length, logits))
    assert torch.allclose(found, by_definition(logits, allowed), atol=1e-12)
    assert bool((found.sum(-1) <= 1 + 1e-12).all())


def test_gradients_of_geometric_attention() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = (torch.randn(2, 6, 6, generator=generator, dtype=torch.float64) * 2).requires_grad_()
    allowed = (~torch.eye(6, dtype=torch.bool)).repeat(2, 1, 1)
    allowed[1, :, 4:] = False
    before = asked_before(6, logits)
    assert torch.autograd.gradcheck(lambda x: geometric_attention(x, allowed, before), (logits,))


@pytest.mark.parametrize("scale", [60.0, 500.0])
def test_gradients_stay_finite_for_extreme_logits(scale: float) -> None:
    logits = (
        torch.randn(7, 7, generator=torch.Generator().manual_seed(1)) * scale
    ).requires_grad_()
    allowed = ~torch.eye(7, dtype=torch.bool)
    total = geometric_attention(logits, allowed, asked_before(7, logits)).sum()
    (gradient,) = torch.autograd.grad(total, logits)
    assert bool(torch.isfinite(gradient).all())


def test_gradients_of_a_whole_ndr() -> None:
    net = NDR(5, 3, state=4, heads=2, feed_forward=6, layers_answering=2)
    weights = {
        n: w.double().unsqueeze(0) for n, w in net.start(torch.Generator().manual_seed(0)).items()
    }
    tokens, lengths = torch.tensor([[6, 1, 2, 5], [6, 0, 5, 5]]), torch.tensor([4, 3])
    names = [
        "attention.kv.weight",
        "attention.direction.weight",
        "attention.scale",
        "gate2.weight",
        "embedding.weight",
    ]

    def logits(*chosen: Any) -> Any:
        return net.forward({**weights, **dict(zip(names, chosen, strict=True))}, tokens, lengths)

    assert torch.autograd.gradcheck(logits, tuple(weights[n].requires_grad_() for n in names))


def test_ndr_refuses_what_would_fill_the_memory() -> None:
    net = NDR(5, 3, state=4, heads=2, feed_forward=6)
    weights = {n: w.unsqueeze(0) for n, w in net.start(torch.Generator().manual_seed(0)).items()}
    with pytest.raises(LearnerError, match="401 tokens are more than its maximum of 400"):
        net.forward(weights, torch.zeros(1, 401, dtype=torch.long), torch.tensor([401]))


def test_the_map_of_accelerators_has_the_right_gradients() -> None:
    random = torch.Generator().manual_seed(0)
    shapes = ((2, 5, 3), (2, 4, 3), (2, 4))
    given = [
        torch.randn(s, generator=random, dtype=torch.float64, requires_grad=True) for s in shapes
    ]
    x, weight, bias = given
    assert torch.allclose(ops.Affine.apply(x, weight, bias), ops.linear(x, weight, bias))  # type: ignore[no-untyped-call]
    assert torch.autograd.gradcheck(ops.Affine.apply, given)


@pytest.mark.parametrize(
    "net", [NDR(9, 4, state=16, feed_forward=8), Transformer(9, 4, state=16, feed_forward=8)]
)
def test_logits_do_not_depend_on_being_watched(net: Net) -> None:
    """Without a trace the last layer computes the column that is read, alone."""
    weights = {n: w.unsqueeze(0) for n, w in net.start(torch.Generator().manual_seed(1)).items()}
    tokens = torch.randint(0, 9, (3, 7), generator=torch.Generator().manual_seed(2))
    lengths = torch.tensor([7, 5, 6])
    watched = net.forward(weights, tokens, lengths, trace={})
    assert torch.allclose(net.forward(weights, tokens, lengths), watched, atol=1e-6)
