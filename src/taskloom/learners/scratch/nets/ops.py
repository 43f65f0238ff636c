"""Operations for stacked networks: maps, norms, look-ups, losses and dropout with one set of
weights per seed.

Tensors are laid out [seeds, batch, positions, channels]. On the CPU, each seed is computed by
itself, which is as fast as a batched product and gives the same bits as training the seed alone. On
an accelerator, all seeds are one batched product.

Dropout is a pure function of seed, step, site and index. A site is one use of dropout in a network.
Because a mask is a hash and not a random draw, nothing has to be saved to resume a run, a captured
CUDA graph needs no generator, and a seed gets the same masks whether it is trained alone or in a
stack, with whole batches or in parts, on the CPU or on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F  # noqa: N812 - the name every reader of torch code knows
from torch import Tensor

from taskloom.learners.interface import LearnerError

# The multipliers of C. Wellons' low-bias 32-bit integer hash. The second half of the key is added
# between its rounds, so that two keys do not give the same sequence in two orders.
_FIRST = 0x7FEB352D
_SECOND = 0x846CA68B - (1 << 32)
_GOLDEN = 0x9E3779B9 - (1 << 32)


def _mix(z: Tensor) -> Tensor:
    z = z ^ ((z >> 16) & 0xFFFF)
    z = z * _FIRST
    z = z ^ ((z >> 15) & 0x1FFFF)
    z = z * _SECOND
    return z ^ ((z >> 16) & 0xFFFF)


class DropoutKeys:
    """Keys from which the dropout masks of one training step are hashed.

    Attributes:
        keys: [sites, seeds, 2] 32-bit keys.
        first_row: Position of the first example in its batch, if the batch is computed in parts.
    """

    def __init__(self, seeds: Tensor, step: Tensor, sites: int, first_row: int = 0) -> None:
        site = torch.arange(2 * sites, dtype=torch.int32, device=seeds.device).view(sites, 1, 2)
        mixed = _mix(
            _mix(seeds.to(torch.int32).view(1, -1, 1) * _GOLDEN + 1) + step.to(torch.int32)
        )
        self.keys = _mix(_mix(mixed + site * _GOLDEN) + site)
        self.first_row = first_row


def keep(shape: torch.Size, p: float, key: Tensor, first_row: int = 0) -> Tensor:
    """Return a mask of the shape [seeds, rows, ...] that is True with probability 1 - p. The key is
    [seeds, 2].
    """
    inner = shape[1:].numel()
    row = inner // shape[1]
    z = torch.arange(first_row * row, first_row * row + inner, dtype=torch.int32, device=key.device)
    z = z.unsqueeze(0) + key[:, :1]
    z = z ^ ((z >> 16) & 0xFFFF)
    z = z * _FIRST + key[:, 1:]
    z = z ^ ((z >> 15) & 0x1FFFF)
    z = z * _SECOND
    z = z ^ ((z >> 16) & 0xFFFF)
    return (z >= round(p * (1 << 32)) - (1 << 31)).view(shape)


def drop(x: Tensor, p: float, key: Tensor | None, first_row: int = 0) -> Tensor:
    """Apply dropout to x [seeds, rows, ...]. Without a key, return x unchanged."""
    if key is None or p == 0:
        return x
    return x * (keep(x.shape, p, key, first_row) * (1 / (1 - p))).to(x.dtype)


def call_key(key: Tensor, call: int) -> Tensor:
    """Derive the key of the n-th dropout call in a pass from the key [..., 2] of the pass."""
    step = (call * _GOLDEN + (1 << 31)) % (1 << 32) - (1 << 31)  # fits into 32 bits
    return _mix(key + step)


Weights = Mapping[str, Tensor]
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Replaces a layer's function by a faster one (`torch.compile` on a GPU)."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """A `Wrap` that makes networks use their kernels (`accelerated/kernels`) in training, and
    compiles everything else.

    Attributes:
        compile: Compiles a function.
    """

    compile: Wrap

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Compile a function that has no kernel."""
        return self.compile(function)


class Net(Protocol):
    """A network as a pure function of its weights."""

    @property
    def frame(self) -> tuple[bool, bool]:
        """Two flags: inputs begin with SOS, inputs end with EOS."""

    @property
    def sites(self) -> int:
        """Number of dropout masks drawn in one pass."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of each weight, without the axis of seeds."""

    def start(self, random: torch.Generator) -> dict[str, Tensor]:
        """Draw the initial weights of one seed."""

    def forward(
        self,
        weights: Weights,
        tokens: Tensor,
        lengths: Tensor,
        dropout: DropoutKeys | None = None,
        wrap: Wrap | None = None,
        trace: dict[str, Tensor] | None = None,
    ) -> Tensor:
        """Compute logits [seeds, batch, classes] for tokens [batch, positions]. `dropout` means
        training mode.

        A network with `own_inputs` also takes tokens [seeds, batch, positions] and lengths [seeds,
        batch], with separate inputs for each seed. `trace` collects named states [seeds, batch,
        channels] for analyses.
        """


def count(net: Net) -> int:
    """Number of trainable parameters of one seed."""
    return sum(torch.Size(shape).numel() for shape in net.shapes().values())


def describe(net: Net) -> str:
    """Return the identity of a network: its `repr`, leaving out settings that were added later and
    have their default value.
    """
    if not is_dataclass(net):
        return repr(net)
    shown = []
    for one in fields(net):
        value = getattr(net, one.name)
        left_at_default = one.metadata.get("later") and value == one.default
        if one.repr and not left_at_default:
            shown.append(f"{one.name}={value!r}")
    return f"{type(net).__qualname__}({', '.join(shown)})"


def one_by_one(x: Tensor) -> bool:
    """True if seeds are computed one after the other, as on the CPU."""
    return x.device.type == "cpu"


def kind_of_products(x: Tensor) -> torch.dtype:
    """Data type of matrix products of x: autocast's, or its own."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute x [S, ..., in] times weight [S, out, in], transposed, plus bias [S, out]."""
    inner = x.reshape(x.shape[0], -1, x.shape[-1])
    if one_by_one(x):
        # Use unbind instead of indexing, because the gradient of an index is a whole tensor of
        # zeros each time.
        biases = [None] * len(inner) if bias is None else bias.unbind()
        pieces = [
            F.linear(*one) for one in zip(inner.unbind(), weight.unbind(), biases, strict=True)
        ]
        out = pieces[0].unsqueeze(0) if len(pieces) == 1 else torch.stack(pieces)
    elif bias is None:
        out = torch.bmm(inner, weight.transpose(1, 2))
    else:
        kind = kind_of_products(x)
        with torch.autocast(x.device.type, enabled=False):
            out = Affine.apply(inner.to(kind), weight.to(kind), bias.to(kind))  # type: ignore[no-untyped-call]
    return out.view(*x.shape[:-1], weight.shape[1])


class Affine(torch.autograd.Function):
    """Compute x [S, n, in] times weight [S, out, in], transposed, plus bias [S, out].

    This avoids baddbmm, which first copies the bias to the whole output, whereas a compiler fuses
    the addition (8 % of NDR's time). The gradient of the bias is a product with ones instead of the
    compiler's own sum over the rows (7 % of NDR's time).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Apply the map."""
        ctx.save_for_backward(x, weight)
        return torch.bmm(x, weight.transpose(1, 2)) + bias.unsqueeze(1)

    @staticmethod
    def backward(ctx: Any, change: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the gradients of input, weight and bias."""
        x, weight = ctx.saved_tensors
        ones = change.new_ones(len(change), _ROWS_OF_ONES, change.shape[1])
        return (
            torch.bmm(change, weight),
            torch.bmm(change.transpose(1, 2), x),
            torch.bmm(ones, change)[:, 0],
        )


def embed(weight: Tensor, tokens: Tensor) -> Tensor:
    """Return rows of weight [S, V, d] for tokens [B, T] that all seeds share, or for separate
    tokens [S, B, T] of each seed.
    """
    shared = tokens.dim() == 2
    if one_by_one(weight):
        if shared:
            return weight[:, tokens]
        return torch.stack([w[t] for w, t in zip(weight, tokens, strict=True)])
    # Compute a product with one-hot rows, because its gradient is also a product. The gradient of a
    # look-up would be an unordered scatter of thousands of rows onto forty, which is slow and
    # differs from run to run.
    with torch.autocast(weight.device.type, enabled=False):
        flat = tokens.reshape(*tokens.shape[:-2], -1, 1)
        hot = (flat == torch.arange(weight.shape[1], device=tokens.device)).to(weight.dtype)
        rows = torch.matmul(hot, weight)
    return rows.view(weight.shape[0], *tokens.shape[-2:], weight.shape[2])


def layer_norm(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    """Apply layer normalisation with gain and shift [S, d]."""
    shape = (x.shape[0],) + (1,) * (x.dim() - 2) + (x.shape[-1],)
    return F.layer_norm(x, x.shape[-1:]) * gain.view(shape) + shift.view(shape)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Reshape [S, B, T, heads * size] to [S, B, heads, T, size]."""
    return x.view(*x.shape[:-1], heads, -1).transpose(-2, -3)


def join_heads(x: Tensor) -> Tensor:
    """Reshape back from the form of `split_heads`."""
    return x.transpose(-2, -3).flatten(-2)


def within(lengths: Tensor, length: int) -> Tensor:
    """Return a mask of the real positions: [1, B, T] for lengths [B] that all seeds share, [S, B,
    T] for lengths [S, B].
    """
    real = torch.arange(length, device=lengths.device) < lengths.unsqueeze(-1)
    return real.unsqueeze(0) if lengths.dim() == 1 else real


def read_at(states: Tensor, positions: Tensor) -> Tensor:
    """Return column [S, B, d] of states [S, B, T, d] at one position [B] or [S, B] per example."""
    index = positions.view(-1, states.shape[1], 1, 1).expand(
        states.shape[0], -1, 1, states.shape[-1]
    )
    return states.gather(2, index).squeeze(2)


_ROWS_OF_ONES = 8
"""Number of rows of ones. One would suffice, but tensor cores need eight."""

PACK = 8
"""Number of examples whose attention matrices are computed as one product. 1 turns packing off, for
measurements.
"""


def row_products(a: Tensor, b: Tensor, packed: bool) -> Tensor:
    """Compute a [S, B, heads, T, d] times b [S, B, heads, U, d], transposed. The result is [S, B,
    heads, T, U].

    A batched product of tens of thousands of matrices with nine rows spends most of its time on
    launching tiles that are mostly empty. Packed, eight examples form one matrix of 72 rows, and
    only the diagonal blocks of the product are kept. This takes eight times the arithmetic, which
    costs nothing here, and an eighth of the tiles. A compiler fuses the selection with the next
    operation.
    """
    pack = _pack(a) if packed else 1
    if pack == 1:
        return torch.matmul(a, b.transpose(-1, -2))
    full = torch.bmm(_packed(a, pack), _packed(b, pack).transpose(1, 2))
    seeds, batch, heads, rows, _ = a.shape
    blocks = full.view(seeds, batch // pack, heads, pack, rows, pack, b.shape[-2])
    kept = (blocks * _own(pack, full)).sum(-2)
    return kept.transpose(2, 3).reshape(seeds, batch, heads, rows, b.shape[-2])


def mixtures(weights: Tensor, values: Tensor, packed: bool) -> Tensor:
    """Compute weights [S, B, heads, T, U] times values [S, B, heads, U, d], like `row_products`."""
    pack = _pack(weights) if packed else 1
    if pack == 1:
        return torch.matmul(weights.to(values.dtype), values)
    seeds, batch, heads, rows, columns = weights.shape
    grouped = (
        weights.view(seeds, batch // pack, pack, heads, rows, columns).transpose(2, 3).unsqueeze(-2)
    )
    full = (grouped * _own(pack, weights)).reshape(-1, pack * rows, pack * columns).to(values.dtype)
    out = torch.bmm(full, _packed(values, pack)).view(seeds, batch // pack, heads, pack, rows, -1)
    return out.transpose(2, 3).reshape(seeds, batch, heads, rows, -1)


def _pack(x: Tensor) -> int:
    return math.gcd(x.shape[1], PACK)


def _packed(x: Tensor, pack: int) -> Tensor:
    """Reshape [S, B, heads, T, d] to [S * B / pack * heads, pack * T, d]."""
    seeds, batch, heads, rows, size = x.shape
    return (
        x.view(seeds, batch // pack, pack, heads, rows, size)
        .transpose(2, 3)
        .reshape(-1, pack * rows, size)
    )


def _own(pack: int, like: Tensor) -> Tensor:
    return torch.eye(pack, device=like.device, dtype=like.dtype).view(pack, 1, pack, 1)


def uniform(random: torch.Generator, shape: tuple[int, ...], bound: float) -> Tensor:
    """Draw uniformly between -bound and bound."""
    return (torch.rand(shape, generator=random) * 2 - 1) * bound


def xavier(
    random: torch.Generator, out: int, into: int, gain: float = 1.0, fan_out: int | None = None
) -> Tensor:
    """Draw Xavier-uniform weights for a map [out, into]. Give `fan_out` if the map joins several
    maps.
    """
    fan = into + (out if fan_out is None else fan_out)
    return uniform(random, (out, into), float(gain * (6 / fan) ** 0.5))


def default_linear(random: torch.Generator, out: int, into: int) -> tuple[Tensor, Tensor]:
    """Draw the weight and bias of a linear layer as torch initialises them, uniform in +-1/sqrt(fan
    in).
    """
    bound = float(into**-0.5)
    return uniform(random, (out, into), bound), uniform(random, (out,), bound)


def bags(
    table: Tensor, tokens: Tensor, sentence: int, asking: Tensor, telling: Tensor
) -> tuple[Tensor, Tensor]:
    """Sum the vectors of each sentence's words, weighted by position: question [S, B, d], sentences
    [S, B, n, d].

    A story is a row of tokens: the question and then the sentences, each with the same number of
    positions, padded with 0. So a batch is cut to its longest story like any other batch of tokens.

    Args:
        table: [S, V, d] vectors of words.
        tokens: [B, (1 + n) * sentence].
        sentence: Number of positions of a sentence.
        asking: [S, sentence, d] weights of the question's positions.
        telling: [S, sentence, d] weights of a sentence's positions.
    """
    cut = tokens.view(len(tokens), -1, sentence)
    # Look up vectors before the tokens are cut into sentences, because tokens of three dimensions
    # would be treated as separate inputs of each seed.
    vectors = embed(table, tokens).reshape(len(table), *cut.shape, -1)
    vectors = vectors * (cut != 0).unsqueeze(-1)  # padding counts as zero
    question = torch.einsum("sbwd,swd->sbd", vectors[:, :, 0], asking)
    return question, torch.einsum("sbnwd,swd->sbnd", vectors[:, :, 1:], telling)


def count_sentences(lengths: Tensor, sentence: int) -> Tensor:
    """Count the sentences of each story, without its question."""
    return torch.div(lengths, sentence, rounding_mode="floor") - 1


@runtime_checkable
class Judging(Protocol):
    """A network whose outputs are not classes."""

    def judge(self, logits: Tensor, tokens: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Compute loss and hit [seeds, batch] of each example. With a label of -1, there is no loss
        and no hit.
        """


def judge(
    net: Net, logits: Tensor, tokens: Tensor, labels: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Compute loss and hit [seeds, batch] of each example. `smoothing` spreads that share of a
    target over all classes.

    Labels are [batch], or [seeds, batch] if each seed has its own inputs. An answer that was not a
    class in training (-1) has no probability. It counts as wrong and is not part of the loss.
    """
    if isinstance(net, Judging):
        if smoothing:
            raise LearnerError(
                "label_smoothing spreads a target over classes, and this network points at spans;"
                " set it to 0"
            )
        return net.judge(logits, tokens, labels)
    targets = labels.expand(logits.shape[:2]).flatten()
    losses = F.cross_entropy(
        logits.flatten(0, 1), targets, reduction="none", ignore_index=-1, label_smoothing=smoothing
    )
    return losses.view(logits.shape[:2]), logits.detach().argmax(-1) == labels


SPAN = 1 << 16
"""The label of a span is start * SPAN + end."""


def judge_spans(logits: Tensor, context: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the summed cross entropy of start and end. A hit is a span with the same words as the
    label, wherever they occur.

    Args:
        logits: [seeds, batch, 2, positions].
        context: [batch, positions] word ids.
        labels: [batch] spans.
    """
    spans = labels.clamp(min=0)  # -1 has no span; its loss and hit are set to 0 below
    first, last = torch.div(spans, SPAN, rounding_mode="floor"), spans % SPAN
    logprobs = logits.log_softmax(-1)
    index = torch.stack([first, last], -1).expand(len(logprobs), -1, -1).unsqueeze(-1)
    losses = -logprobs.gather(-1, index).squeeze(-1).sum(-1) * (labels >= 0)
    start, end = best_spans(logprobs.detach())
    return losses, same_words(context, (start, end), (first, last)) & (labels >= 0)


def judge_span_table(logits: Tensor, context: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the cross entropy over all spans. A hit is a span with the same words as the label.

    Labels that are wider than the table have no loss and no hit.

    Args:
        logits: [seeds, batch, widths, positions], by the number of words after the first.
        context: [batch, positions] word ids.
        labels: [batch] spans.
    """
    widths, positions = logits.shape[2:]
    known = labels.clamp(min=0)
    first, last = torch.div(known, SPAN, rounding_mode="floor"), known % SPAN
    width = last - first
    scored = (labels >= 0) & (width < widths)
    logprobs = logits.flatten(2).log_softmax(-1)
    index = (width.clamp(max=widths - 1) * positions + first).expand(len(logits), -1)
    # If an example has no loss, its label may be no valid span, and minus infinity times 0 is NaN.
    losses = -logprobs.gather(-1, index.unsqueeze(-1)).squeeze(-1)
    losses = torch.where(scored, losses, torch.zeros_like(losses))
    best = logprobs.detach().argmax(-1)
    start, more = best % positions, torch.div(best, positions, rounding_mode="floor")
    return losses, same_words(context, (start, start + more), (first, last)) & scored


def same_words(
    context: Tensor, given: tuple[Tensor, Tensor], wanted: tuple[Tensor, Tensor]
) -> Tensor:
    """True where a span [seeds, batch] has the same words as another span [batch]."""
    start, end = given
    first, last = wanted
    # Compare the words after the two starts, as many as the gold span has.
    at = torch.arange(context.shape[1], device=context.device)
    most = context.shape[1] - 1
    right = context.gather(1, (first[:, None] + at).clamp(max=most))
    pointed_at = (start.unsqueeze(-1) + at).clamp(max=most)
    pointed = context.expand(len(start), -1, -1).gather(2, pointed_at)
    beyond = at > (last - first)[:, None]
    same = ((pointed == right) | beyond).all(-1)
    return same & (end - start == last - first)


def best_spans(logprobs: Tensor) -> tuple[Tensor, Tensor]:
    """Find the likeliest pair start <= end in log-probabilities [..., 2, positions]."""
    start, end = logprobs.unbind(-2)
    # Find the best start up to each end. At padding, -inf + -inf stays -inf.
    until, where = start.cummax(-1)
    last = (until + end).argmax(-1, keepdim=True)
    return where.gather(-1, last).squeeze(-1), last.squeeze(-1)
