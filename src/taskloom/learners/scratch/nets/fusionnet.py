"""FusionNet (Huang et al. 2018): attention that scores by the whole history of a word.

    attend(x, y; v)_i = sum_j softmax_j(relu(U x_i) . D relu(U y_j)) v_j     U, D for each use
    w_i = [E p_i; matches; attend(E p, E q; E q)_i]
    low, high   = BiLSTM(w), BiLSTM(low)            of the context, and so of the question
    u_q         = BiLSTM([low_q; high_q])           understanding of the question
    history     = [E p; low; high]                  of every word, on both sides
    f_l, f_h, f_u = attend(history_p, history_q; low_q | high_q | u_q)
    v           = BiLSTM([low; high; f_l; f_h; f_u])
    own         = attend(H, H; v),  H = [E p; low; high; f_l; f_h; f_u; v]
    u           = BiLSTM([v; own])
    start = u . W_s s,  s = sum_j softmax_j(w . u_q_j) u_q_j
    end   = u . W_e s',  s' = GRU(sum_i softmax(start)_i u_i, s)

`features: false` leaves the matches out. Not here: CoVe vectors, part of speech and entity type.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from taskloom.learners.scratch.nets.reading import (
    BiLSTM,
    Lexicon,
    Matches,
    Summary,
    WordVectors,
    divide,
    expected,
    masked,
    softmax,
)


class FullyAware(nn.Module):
    """Attention by histories: values of one sequence for each place of another."""

    def __init__(self, history: int, hidden: int) -> None:
        super().__init__()
        self.map = nn.Linear(history, hidden, bias=False)
        self.scale = nn.Parameter(torch.ones(hidden))

    def forward(self, x: Tensor, y: Tensor, values: Tensor, real: Tensor) -> Tensor:
        """Attend from x [B, T, h] to y [B, J, h], as far as it is real."""
        scores = (self.map(x).relu() * self.scale) @ self.map(y).relu().transpose(1, 2)
        return softmax(scores, real.unsqueeze(1)) @ values


class FusionNet(nn.Module):
    """See the file."""

    def __init__(
        self, lexicon: Lexicon, words: int, state: int, dropout: float, features: bool
    ) -> None:
        super().__init__()
        self.asked = lexicon.asked
        self.vectors = WordVectors(lexicon, words)
        self.matches = Matches(lexicon) if features else None
        size = 2 * state
        width = 2 * words + (Matches.size if features else 0)
        self.by_word = FullyAware(words, state)
        self.low_context = BiLSTM(width, state, dropout)
        self.low_question = BiLSTM(words, state, dropout)
        self.high_context = BiLSTM(size, state, dropout)
        self.high_question = BiLSTM(size, state, dropout)
        self.understand = BiLSTM(2 * size, state, dropout)
        history = words + 2 * size
        self.levels = nn.ModuleList(FullyAware(history, state) for _ in range(3))
        self.fuse = BiLSTM(5 * size, state, dropout)
        self.boost = FullyAware(history + 4 * size, state)
        self.read = BiLSTM(2 * size, state, dropout)
        # Only a name for what is read: analyses look at it.
        self.states = nn.Identity()
        self.summary = Summary(size)
        self.start, self.end = nn.Linear(size, size), nn.Linear(size, size)
        self.remember = nn.GRUCell(size, size)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Compute logits of start and end [B, 2, T]."""
        passage = divide(tokens, lengths, self.asked)
        in_context, in_question = passage.in_context, passage.in_question
        context, question = self.vectors(passage.context), self.vectors(passage.question)
        parts = [context, self.by_word(context, question, question, in_question)]
        if self.matches is not None:
            parts.append(self.matches(passage))
        low = self.low_context(torch.cat(parts, -1), in_context)
        high = self.high_context(low, in_context)
        low_q = self.low_question(question, in_question)
        high_q = self.high_question(low_q, in_question)
        understood = self.understand(torch.cat([low_q, high_q], -1), in_question)
        history = torch.cat([context, low, high], -1)
        history_q = torch.cat([question, low_q, high_q], -1)
        fused = [
            level(history, history_q, values, in_question)
            for level, values in zip(self.levels, (low_q, high_q, understood), strict=True)
        ]
        v = self.fuse(torch.cat([low, high, *fused], -1), in_context)
        whole = torch.cat([history, *fused, v], -1)
        own = self.boost(whole, whole, v, in_context)
        u = self.states(self.read(torch.cat([v, own], -1), in_context))
        asked = self.summary(understood, in_question)
        start = masked(torch.einsum("btd,bd->bt", u, self.start(asked)), in_context)
        asked = self.remember(expected(start, u), asked)
        end = masked(torch.einsum("btd,bd->bt", u, self.end(asked)), in_context)
        return torch.stack([start, end], 1)
