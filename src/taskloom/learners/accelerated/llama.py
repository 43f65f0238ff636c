"""Llama's forward pass as a plain function of its weights, for training: the same mathematics as
the library's module, with less work.

    a = h + O softmax(rope(Q n) rope(K n)' / sqrt(d)) V n      n = RMS(h) * gain
    h' = a + D ( silu(G m) * U m )                             m = RMS(a) * gain

The savings: one compiled layer serves every depth, the last layer computes only the positions that
predict a target, and the states of a tuned prompt are computed once per task (`past`). Weights and
their gradients keep their own precision. Under autocast, products and the residual stream use its
precision, and sums inside norms and attention are in fp32.

Gain: compiled and captured (`cuda_graphs.py`), a step of SmolLM2-135M's size on 512 x 16 tokens
takes 27.4 ms, 52.2 uncompiled, and 132.1 with plain `transformers`; on 256 x 160 tokens 82.8, 189.4
and 253.5 (one H200, before compiled layers rounded as they do now). Switch compilation off with
`compile: false`. Models for which `can_follow` is False use the library's own module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from taskloom.learners.scratch.nets.ops import Wrap

_MAPS = ("q_proj", "k_proj", "v_proj", "o_proj")
_INNER = ("gate_proj", "up_proj", "down_proj")


class Layer(NamedTuple):
    """The weights of a layer: its norms (`before` attention, `between` attention and the inner
    maps), the four maps of attention, and the three inner maps.
    """

    before: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    out: Tensor
    between: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor


class Form(NamedTuple):
    """Settings of a layer besides its weights.

    Attributes:
        heads: Number of heads of the queries.
        shared: Number of heads of keys and values, each shared by several heads of the queries.
        epsilon: Added to the mean square in norms.
        kind: Precision of products and of the residual stream.
    """

    heads: int
    shared: int
    epsilon: float
    kind: torch.dtype


Pair = tuple[Tensor, Tensor]
"""Keys and values, or cosines and sines of the rotary positions, with the sines negative in the
first half.
"""


class Rounded:
    """Copies of a model's maps in the precision of the products, which are leaves of the graph.
    They are all rounded at once, and so are their gradients widened.

    Autograd would round each weight and widen each gradient separately, which takes four hundred
    small kernels per step.
    """

    def __init__(self, model: Any, kind: torch.dtype) -> None:
        self.sources: list[Tensor] = []
        for layer in model.model.layers:
            # maps, but not the gains of norms
            self.sources += [w for w in _weights(layer) if w.dim() == 2]
        self.copies = [w.detach().to(kind).requires_grad_(w.requires_grad) for w in self.sources]
        self.of = {id(w): copy for w, copy in zip(self.sources, self.copies, strict=True)}

    def refresh(self) -> None:
        """Copy the current weights, unless they are frozen."""
        with torch.no_grad():
            pairs = [
                (c, w) for c, w in zip(self.copies, self.sources, strict=True) if w.requires_grad
            ]
            if pairs:
                torch._foreach_copy_([c for c, _ in pairs], [w for _, w in pairs])

    def hand_over(self) -> None:
        """Pass the gradients of the copies to the weights."""
        pairs = [
            (w, c, c.grad)
            for c, w in zip(self.copies, self.sources, strict=True)
            if c.grad is not None
        ]
        wide = [torch.empty_like(w) for w, _, _ in pairs]
        if pairs:
            torch._foreach_copy_(wide, [gradient for _, _, gradient in pairs])
        for (weight, copy, _), gradient in zip(pairs, wide, strict=True):
            weight.grad, copy.grad = gradient, None


@dataclass(frozen=True, slots=True)
class Shortcuts:
    """Options that make a pass faster.

    Attributes:
        wrap: Wraps the function of a layer (`torch.compile` on a GPU).
        rounded: Copies of the maps to use instead. The caller refreshes them and collects their
            gradients.
    """

    wrap: Wrap | None = None
    rounded: Rounded | None = None


def can_follow(model: Any) -> bool:
    """True if the model is a Llama that this module can compute: plain maps without biases,
    adapters or hooks, SiLU, and no dropout.
    """
    config = model.config
    if (
        getattr(config, "model_type", "") != "llama"
        or config.hidden_act != "silu"
        or config.attention_dropout
    ):
        return False
    maps = [getattr(layer.self_attn, n) for layer in model.model.layers for n in _MAPS]
    maps += [getattr(layer.mlp, n) for layer in model.model.layers for n in _INNER]
    bare = all(
        type(m) is nn.Linear and m.bias is None for m in [*maps, model.get_output_embeddings()]
    )
    return bare and not has_hooks(model)


def has_hooks(model: Any) -> bool:
    """True if a module has hooks that may read or change its computation, except those with which
    the library collects outputs.
    """
    for module in model.modules():
        for hook in (*module._forward_pre_hooks.values(), *module._forward_hooks.values()):
            if getattr(hook, "__module__", "") != "transformers.utils.output_capturing":
                return True
    return False


def logits_at(
    model: Any,
    ids: Tensor,
    where: Tensor,
    prompts: Tensor | None,
    tasks: Tensor | None,
    fast: Shortcuts = Shortcuts(),  # noqa: B008 - immutable
) -> Tensor:
    """Logits [batch, K, vocabulary] at the positions `where` [batch, K] of ids [batch, length].

    Args:
        model: A causal language model that `can_follow` accepts.
        ids: Tokens, right-padded, so that no token attends to padding.
        where: Positions of the logits.
        prompts: [tasks, n, d] prompt vectors that precede the tokens.
        tasks: [batch] index of each row's prompt, if there are prompts.
        fast: Options that make it faster.
    """
    device = ids.device.type
    kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else model.dtype
    with torch.autocast(device, enabled=False):
        core, config = model.model, model.config
        form = Form(
            config.num_attention_heads, config.num_key_value_heads, config.rms_norm_eps, kind
        )
        run = fast.wrap(_layer) if fast.wrap else _layer
        layers = [_weights(layer) for layer in core.layers]
        if fast.rounded:
            of = fast.rounded.of
            layers = [Layer(*(of.get(id(w), w) for w in layer)) for layer in layers]
        pasts = _prompt_states(core, layers, prompts, tasks, form, run)
        # Tokens are numbered after the prompt, which every one of them can see.
        start = 0 if prompts is None else prompts.shape[1]
        cosines, sines = turns = _turns(core, start, ids.shape[1])
        at = torch.arange(start + ids.shape[1], device=ids.device)
        visible = None if prompts is None else (at <= at[start:, None])[None, None]
        # The last layer has queries at `where` only, with their own rotations and their own mask.
        asked = (cosines[0][where].unsqueeze(1), sines[0][where].unsqueeze(1))
        chosen = (at <= where.unsqueeze(-1) + start).unsqueeze(1)
        h, change = core.embed_tokens(ids).to(kind), None
        for weights, past in zip(layers[:-1], pasts[:-1], strict=True):
            h, change, _ = run(weights, h, change, turns, turns, past, visible, None, form)
        h, change, _ = run(layers[-1], h, change, turns, asked, pasts[-1], chosen, where, form)
        states = _norm(h + change, core.norm.weight, form.epsilon)
        return F.linear(states, model.get_output_embeddings().weight.to(kind))


def prefix_states(model: Any, ids: Sequence[int]) -> list[Pair]:
    """Keys and values [1, heads, length, size] of tokens at every layer, as in the library and in
    its precision.
    """
    core, config = model.model, model.config
    form = Form(
        config.num_attention_heads, config.num_key_value_heads, config.rms_norm_eps, model.dtype
    )
    device = core.norm.weight.device
    vectors = core.embed_tokens(torch.tensor([list(ids)], device=device))
    layers = [_weights(layer) for layer in core.layers]
    states = _prompt_states(
        core, layers, vectors, torch.zeros(1, dtype=torch.long, device=device), form, _layer
    )
    return [pair for pair in states if pair is not None]


def _prompt_states(
    core: Any,
    layers: list[Layer],
    prompts: Tensor | None,
    tasks: Tensor | None,
    form: Form,
    run: Any,
) -> Sequence[Pair | None]:
    """Keys and values of the prompts at every layer, computed once per task and expanded to each
    example of the task.
    """
    if prompts is None:
        return [None] * len(layers)
    assert tasks is not None
    turns = _turns(core, 0, prompts.shape[1])
    h, change, states = prompts.to(form.kind), None, []
    for weights in layers:
        h, change, (keys, values) = run(weights, h, change, turns, turns, None, None, None, form)
        states.append((keys.index_select(0, tasks), values.index_select(0, tasks)))
    return states


def _weights(layer: Any) -> Layer:
    q, k, v, out = (getattr(layer.self_attn, n).weight for n in _MAPS)
    gate, up, down = (getattr(layer.mlp, n).weight for n in _INNER)
    before, between = layer.input_layernorm.weight, layer.post_attention_layernorm.weight
    return Layer(before, q, k, v, out, between, gate, up, down)


def _turns(core: Any, start: int, length: int) -> Pair:
    """Cosines and sines of the rotary positions from `start` on, as `_turned` takes them."""
    like = core.norm.weight
    cos, sin = core.rotary_emb(like, torch.arange(start, start + length, device=like.device)[None])
    half = sin.shape[-1] // 2
    return cos, torch.cat([-sin[..., :half], sin[..., half:]], -1)


def _layer(
    w: Layer,
    h: Tensor,
    change: Tensor | None,
    turns: Pair,
    asked: Pair,
    past: Pair | None,
    visible: Tensor | None,
    where: Tensor | None,
    form: Form,
) -> tuple[Tensor, Tensor, Pair]:
    """Next states as two terms that are not yet added, and this layer's keys and values.

    The next layer adds them, because its norm reads the sum anyway.

    Args:
        w: The layer's weights.
        h: States.
        change: Term to add to them first; None before the first layer.
        turns: Rotations of the keys.
        asked: Rotations of the queries.
        past: Keys and values of the prompt.
        visible: Mask of attention; None: causal.
        where: Positions of the queries; None: all.
        form: Settings.
    """
    h = h if change is None else h + change
    n = _norm(h, w.before, form.epsilon)
    k = _turned(_split(_map(n, w.k), form.shared), turns)
    v = _split(_map(n, w.v), form.shared)
    if where is not None:
        h, n = _pick(h, where), _pick(n, where)
    q = _turned(_split(_map(n, w.q), form.heads), asked)
    mixed = _attend(q, k, v, past, visible)
    a = h + _map(mixed.transpose(1, 2).flatten(2), w.out)
    m = _norm(a, w.between, form.epsilon)
    return a, _map(F.silu(_map(m, w.gate)) * _map(m, w.up), w.down), (k, v)


def _attend(q: Tensor, k: Tensor, v: Tensor, past: Pair | None, visible: Tensor | None) -> Tensor:
    """Compute attention with heads that share keys, causal unless a mask is given."""
    groups = q.shape[1] // k.shape[1]
    if past is not None:
        k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
    if visible is None:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=groups > 1)
    # With a mask, the fast kernels do not support shared heads.
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=visible)


def _map(x: Tensor, weight: Tensor) -> Tensor:
    return F.linear(x, weight.to(x.dtype))


def _norm(x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
    """Normalize with the library's kernel, which sums in fp32. Written out, norms would be a
    quarter of a step in bf16.
    """
    return F.rms_norm(x, gain.shape, gain.to(x.dtype), epsilon)


def _split(x: Tensor, heads: int) -> Tensor:
    """Turn [batch, length, heads * size] into [batch, heads, length, size]."""
    return x.view(*x.shape[:-1], heads, -1).transpose(1, 2)


def _turned(x: Tensor, turns: Pair) -> Tensor:
    """Apply rotary positions: channel pairs (c, c + size / 2) are rotated by their position's
    angles.

    The partner channels are found by rolling, with the sign in the sines, because compilers
    generate much slower code for slicing and concatenation.
    """
    return (x * turns[0] + x.roll(x.shape[-1] // 2, -1) * turns[1]).to(x.dtype)


def _pick(x: Tensor, where: Tensor) -> Tensor:
    """Return the rows [batch, K, d] of x [batch, length, d]."""
    return x.gather(1, where.unsqueeze(-1).expand(-1, -1, x.shape[-1]))
