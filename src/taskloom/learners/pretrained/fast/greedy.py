"""Greedy answers after a prefix that all rows share, by Llama's pass as a plain function of its weights.

The library's `generate` copies the prefix's keys and values for every row, and again at every token. Here all rows look at the one
copy in one product per head; each row's own keys and values are few. A row that is done is left out of the following steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from taskloom.learners.pretrained.fast.llama import (
    Form,
    Layer,
    Pair,
    _map,
    _split,
    _turned,
    _turns,
    _weights,
    can_follow,
)

MOST_SCORES = 2**26
"""Attention scores of one layer that are computed at one time: 256 MB."""

HARMLESS = {
    "_from_model_config", "bos_token_id", "cache_implementation", "do_sample", "eos_token_id", "max_length", "max_new_tokens",
    "output_attentions", "output_hidden_states", "pad_token_id", "temperature", "top_k", "top_p", "transformers_version",
    "use_cache",
}  # fmt: skip
"""Settings of a model's generation that do not change which token is the likeliest."""

Finished = Callable[[Sequence[list[int]]], Sequence[bool]]
"""Says of the tokens that some rows have written whether each row is done."""


def can_write(model: Any) -> bool:
    """Return whether `write` does what the library's greedy search does with this model."""
    return can_follow(model) and set(model.generation_config.to_diff_dict()) <= HARMLESS


def write(
    model: Any, states: Sequence[Pair], rests: Sequence[Sequence[int]], longest: int, finished: Finished
) -> list[list[int]]:
    """Write the likeliest token after each row, then the next one, until the row is done.

    Args:
        model: A causal language model that `can_write` accepts.
        states: Keys and values [1, heads, length, size] of the prefix at every layer.
        rests: The tokens of each row after the prefix, at least one.
        longest: The most tokens that are written.
        finished: When a row is done; it is asked after every token.
    """
    width = max(map(len, rests))
    each = model.config.num_attention_heads * width * (states[0][0].shape[2] + width)
    together = max(1, MOST_SCORES // each)
    parts = [rests[first : first + together] for first in range(0, len(rests), together)]
    return [tokens for part in parts for tokens in _GreedyRows(model, states, part, longest).write(finished)]


class _GreedyRows:
    """Rows that are written together, with the keys and values that each has besides the prefix's."""

    def __init__(self, model: Any, states: Sequence[Pair], rests: Sequence[Sequence[int]], longest: int) -> None:
        self._model, self._longest = model, longest
        core, config = model.model, model.config
        self._form = Form(config.num_attention_heads, config.num_key_value_heads, config.rms_norm_eps, model.dtype)
        self._layers = [_weights(layer) for layer in core.layers]
        self._prefix = [(keys[0], values[0]) for keys, values in states]
        device, width = states[0][0].device, max(map(len, rests))
        empty = [width - len(rest) for rest in rests]
        self._ids = torch.tensor([[0] * n + list(rest) for n, rest in zip(empty, rests, strict=True)], device=device)
        self._empty = torch.tensor(empty, device=device)
        self._turns = _turns(core, self._prefix[0][0].shape[1], width + longest)
        shape = (len(self._layers), 2, len(rests), self._form.shared, width + longest, self._prefix[0][0].shape[2])
        self._own = torch.empty(shape, dtype=model.dtype, device=device)
        self._used = 0

    def write(self, finished: Finished) -> list[list[int]]:
        """Write all rows to their ends, and return the tokens of each."""
        written: list[list[int]] = [[] for _ in self._ids]
        active = list(range(len(written)))
        ids = self._ids
        for _ in range(self._longest):
            new = self._next(ids)
            for row, token in zip(active, new.tolist(), strict=True):
                written[row].append(token)
            done = finished([written[row] for row in active])
            left = [place for place, is_done in enumerate(done) if not is_done]
            if not left:
                break
            if len(left) < len(active):
                chosen = torch.tensor(left, device=new.device)
                active, new = [active[place] for place in left], new[chosen]
                self._empty, self._own = self._empty[chosen], self._own.index_select(2, chosen)
            ids = new[:, None]
        return written

    def _next(self, ids: Tensor) -> Tensor:
        """Read the next tokens [rows, length] and return the likeliest one after them."""
        start, end = self._used, self._used + ids.shape[1]
        self._used = end
        at = torch.arange(end, device=ids.device)
        places = (at[start:] - self._empty[:, None]).clamp(min=0)
        turns = self._turns[0][0][places].unsqueeze(1), self._turns[1][0][places].unsqueeze(1)
        later, padding = at > at[start:, None], at < self._empty[:, None]
        hidden = (later[None] | padding[:, None])[:, None, None]  # [rows, 1, 1, length, end]
        h: Tensor = self._model.model.embed_tokens(ids).to(self._form.kind)
        for weights, prefix, own in zip(self._layers, self._prefix, self._own, strict=True):
            h = self._layer(weights, h, turns, prefix, own[:, :, :, :end], hidden)
        states = self._norm(h[:, -1], self._model.model.norm.weight)
        likeliest: Tensor = F.linear(states, self._model.get_output_embeddings().weight).argmax(-1)
        return likeliest

    def _layer(self, w: Layer, h: Tensor, turns: Pair, prefix: Pair, own: Tensor, hidden: Tensor) -> Tensor:
        """Compute the next states, and put this layer's keys and values beside those of the earlier tokens."""
        n = self._norm(h, w.before)
        # Turned together: on a GPU a small product costs no more than the call.
        both = _turned(_split(torch.cat([_map(n, w.q), _map(n, w.k)], -1), self._form.heads + self._form.shared), turns)
        q, own[0, :, :, -h.shape[1] :] = both[:, : self._form.heads], both[:, self._form.heads :]
        own[1, :, :, -h.shape[1] :] = _split(_map(n, w.v), self._form.shared)
        a = h + _map(_attend(q, prefix, (own[0], own[1]), hidden).transpose(1, 2).flatten(2), w.out)
        m = self._norm(a, w.between)
        return a + _map(F.silu(_map(m, w.gate)) * _map(m, w.up), w.down)

    def _norm(self, x: Tensor, gain: Tensor) -> Tensor:
        """Normalize by one kernel where the library has one."""
        return F.rms_norm(x, gain.shape, gain, self._form.epsilon)


def _attend(q: Tensor, prefix: Pair, own: Pair, hidden: Tensor) -> Tensor:
    """Compute attention over the prefix [heads, length, size] of all rows and over each row's own [rows, heads, length, size]."""
    rows, heads, length, size = q.shape
    shared, before = prefix[0].shape[:2]
    q = q.reshape(rows, shared, heads // shared, length, size) * size**-0.5
    # The rows' queries of one head are one matrix: one product with the prefix's keys for all of them.
    over_prefix = q.transpose(0, 1).reshape(shared, -1, size) @ prefix[0].transpose(1, 2)
    over_prefix = over_prefix.view(shared, rows, -1, length, before).transpose(0, 1)
    over_own = (q.flatten(2, 3) @ own[0].transpose(2, 3)).view(*q.shape[:4], -1).masked_fill(hidden, -torch.inf)
    shares = torch.cat([over_prefix, over_own], -1).softmax(-1)
    from_prefix = shares[..., :before].transpose(0, 1).reshape(shared, -1, before) @ prefix[1]
    from_prefix = from_prefix.view(shared, rows, -1, length, size).transpose(0, 1)
    from_own = (shares[..., before:].flatten(2, 3) @ own[1]).view(q.shape)
    return (from_prefix + from_own).reshape(rows, heads, length, size)
