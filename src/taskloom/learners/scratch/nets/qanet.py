"""QANet (Yu et al. 2018): convolutions and self-attention in the place of recurrent layers.

    block(x) = x + positions, then convolutions, self-attention and a feed-forward map,
               each as x + f(norm(x))
    C, Q = block(W E p), block(W E q)                                the same weights
    S_ij = w . [c_i; q_j; c_i * q_j],  S' = softmax_j(S),  S'' = softmax_i(S)
    A = S' Q        B = S' S''^T C        M = V [C; A; C * A; C * B]
    M_0 = blocks(M),  M_1 = blocks(M_0),  M_2 = blocks(M_1)          the same weights
    start = w_1 . [M_0; M_1]        end = w_2 . [M_0; M_2]

Convolutions are depthwise separable. Not here: letters, stochastic depth and averaged weights.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from taskloom.learners.scratch.nets.reading import (
    Lexicon,
    WordVectors,
    divide,
    masked,
    softmax,
)


class Block(nn.Module):
    """An encoder block: positions, convolutions, self-attention, feed-forward."""

    def __init__(self, state: int, heads: int, dropout: float, width: int, convolutions: int):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.depthwise = nn.ModuleList(
            nn.Conv1d(state, state, width, padding=width // 2, groups=state)
            for _ in range(convolutions)
        )
        self.pointwise = nn.ModuleList(nn.Linear(state, state) for _ in range(convolutions))
        self.norms = nn.ModuleList(nn.LayerNorm(state) for _ in range(convolutions + 2))
        self.to_attention = nn.Linear(state, 3 * state)
        self.from_attention = nn.Linear(state, state)
        self.forward_in, self.forward_out = nn.Linear(state, state), nn.Linear(state, state)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        """Encode x [B, T, d] as far as it is real."""
        x = x + positions(x)
        norms = iter(self.norms)
        for depthwise, pointwise in zip(self.depthwise, self.pointwise, strict=True):
            # Padding is 0 before every convolution, as what lies beyond the text is.
            inside = next(norms)(x) * real.unsqueeze(-1)
            seen = depthwise(inside.transpose(1, 2)).transpose(1, 2)
            x = x + self._drop(pointwise(seen).relu())
        x = x + self._drop(self._attend(next(norms)(x), real))
        hidden = self.forward_in(next(norms)(x)).relu()
        return x + self._drop(self.forward_out(hidden))

    def _attend(self, x: Tensor, real: Tensor) -> Tensor:
        batch, places, size = x.shape
        split = self.to_attention(x).view(batch, places, 3, self.heads, size // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)  # each [B, heads, T, d / heads]
        scores = query @ key.transpose(-1, -2) / math.sqrt(size // self.heads)
        seen = softmax(scores, real[:, None, None]) @ value
        mixed: Tensor = self.from_attention(seen.transpose(1, 2).reshape(batch, places, size))
        return mixed

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)


def positions(like: Tensor) -> Tensor:
    """Sines and cosines of the place [T, d]."""
    places, size = like.shape[1:]
    at = torch.arange(places, device=like.device, dtype=like.dtype).unsqueeze(1)
    step = torch.arange(0, size, 2, device=like.device, dtype=like.dtype) / size
    angles = at * torch.exp(-math.log(10_000.0) * step)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :size]


class QANet(nn.Module):
    """See the file."""

    def __init__(
        self, lexicon: Lexicon, words: int, state: int, dropout: float, heads: int, blocks: int
    ) -> None:
        super().__init__()
        self.asked = lexicon.asked
        self.vectors = WordVectors(lexicon, words)
        self.narrow = nn.Linear(words, state)
        self.embed = Block(state, heads, dropout, width=7, convolutions=4)
        self.by_context = nn.Linear(state, 1, bias=False)
        self.by_question = nn.Linear(state, 1, bias=False)
        self.by_both = nn.Parameter(torch.empty(state).uniform_(-(state**-0.5), state**-0.5))
        self.join = nn.Linear(4 * state, state)
        self.model = nn.ModuleList(
            Block(state, heads, dropout, width=5, convolutions=2) for _ in range(blocks)
        )
        # Only a name for what is read: analyses look at it.
        self.states = nn.Identity()
        self.start, self.end = nn.Linear(2 * state, 1), nn.Linear(2 * state, 1)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Compute logits of start and end [B, 2, T]."""
        passage = divide(tokens, lengths, self.asked)
        c = self.embed(self.narrow(self.vectors(passage.context)), passage.in_context)
        q = self.embed(self.narrow(self.vectors(passage.question)), passage.in_question)
        scores = (c * self.by_both) @ q.transpose(1, 2)
        scores = scores + self.by_context(c) + self.by_question(q).transpose(1, 2)
        to_question = softmax(scores, passage.in_question.unsqueeze(1))
        to_context = softmax(scores.transpose(1, 2), passage.in_context.unsqueeze(1))
        a, b = to_question @ q, to_question @ (to_context @ c)
        encoded = [self.join(torch.cat([c, a, c * a, c * b], -1))]
        for _ in range(3):
            x = encoded[-1]
            for block in self.model:
                x = block(x, passage.in_context)
            encoded.append(x)
        _, m0, m1, m2 = encoded
        start = self.start(self.states(torch.cat([m0, m1], -1))).squeeze(-1)
        end = self.end(torch.cat([m0, m2], -1)).squeeze(-1)
        return masked(torch.stack([start, end], 1), passage.in_context.unsqueeze(1))
