"""Mnemonic Reader (Hu et al. 2017): several hops of alignment, and a pointer with a memory.

    sfu(r, f) = g * tanh(W [r; f]) + (1 - g) * r,  g = sigma(W' [r; f])
    c = BiLSTM([E p; matches]),  q = BiLSTM(E q)
    each hop:   a_i = sum_j softmax_j(relu(W c_i) . relu(W q_j)) q_j
                c' = sfu(c, [a; c * a; c - a])
                s_i = sum_{j != i} softmax_j(c'_i . c'_j) c'_j
                c = BiLSTM(sfu(c', [s; c' * s; c' - s]))
    pointer:    z = q of the last word in both directions; each hop:
                start_i = w . tanh(W [c_i; z; c_i * z]),  u = sum_i softmax(start)_i c_i,
                z' = sfu(z, u)
                end_i = the same with z',  u' = sum_i softmax(end)_i c_i,  z = sfu(z', u')

The loss is that of start and end: the reinforced version's second stage (a reward by F1, from a
self-critical sample) is not here. Nor are letters, part of speech and entity type; `features: false`
leaves the matches out as well.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from taskloom.learners.scratch.nets.reading import (
    Alignment,
    BiLSTM,
    Lexicon,
    Matches,
    WordVectors,
    divide,
    expected,
    masked,
    softmax,
)


class Fusion(nn.Module):
    """The semantic fusion unit: what is known, updated by something new as far as a gate opens."""

    def __init__(self, size: int, new: int) -> None:
        super().__init__()
        self.update, self.gate = nn.Linear(size + new, size), nn.Linear(size + new, size)

    def forward(self, known: Tensor, new: Tensor) -> Tensor:
        """Fuse known [..., size] and new [..., new]."""
        both = torch.cat([known, new], -1)
        gate = self.gate(both).sigmoid()
        fused: Tensor = gate * self.update(both).tanh() + (1 - gate) * known
        return fused


class Hop(nn.Module):
    """Alignment with the question, then with the context itself."""

    def __init__(self, size: int, state: int, dropout: float) -> None:
        super().__init__()
        self.align = Alignment(size, size)
        self.with_question, self.with_self = Fusion(size, 3 * size), Fusion(size, 3 * size)
        self.read = BiLSTM(size, state, dropout)

    def forward(self, c: Tensor, q: Tensor, in_context: Tensor, in_question: Tensor) -> Tensor:
        """Update the context's states c [B, T, d]."""
        a = self.align(c, q, in_question)
        c = self.with_question(c, torch.cat([a, c * a, c - a], -1))
        others = ~torch.eye(c.shape[1], dtype=torch.bool, device=c.device)
        # A context of one word has no other: it may look at itself.
        alone = in_context.sum(1)[:, None, None] < 2
        seen = in_context.unsqueeze(1) & (others | alone)
        # Rows beyond the text see nothing and must not become nan, which would spoil gradients.
        seen = seen | ~in_context.unsqueeze(2)
        s = softmax(c @ c.transpose(1, 2), seen) @ c
        c = self.with_self(c, torch.cat([s, c * s, c - s], -1))
        read: Tensor = self.read(c, in_context)
        return read


class MnemonicReader(nn.Module):
    """See the file."""

    def __init__(
        self, lexicon: Lexicon, words: int, state: int, dropout: float, features: bool, hops: int
    ) -> None:
        super().__init__()
        self.asked = lexicon.asked
        self.vectors = WordVectors(lexicon, words)
        self.matches = Matches(lexicon) if features else None
        width = words + (Matches.size if features else 0)
        size = 2 * state
        self.read_context = BiLSTM(width, state, dropout)
        self.read_question = BiLSTM(words, state, dropout)
        self.hops = nn.ModuleList(Hop(size, state, dropout) for _ in range(hops))
        # Only a name for what is read: analyses look at it.
        self.states = nn.Identity()
        # For each hop of the pointer: the scores of start and end, and an update after each.
        self.hidden = nn.ModuleList(nn.Linear(3 * size, state) for _ in range(2 * hops))
        self.score = nn.ModuleList(nn.Linear(state, 1) for _ in range(2 * hops))
        self.remember = nn.ModuleList(Fusion(size, size) for _ in range(2 * hops - 1))

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Compute logits of start and end [B, 2, T]."""
        passage = divide(tokens, lengths, self.asked)
        context = self.vectors(passage.context)
        if self.matches is not None:
            context = torch.cat([context, self.matches(passage)], -1)
        c = self.read_context(context, passage.in_context)
        q = self.read_question(self.vectors(passage.question), passage.in_question)
        for hop in self.hops:
            c = hop(c, q, passage.in_context, passage.in_question)
        c = self.states(c)
        memory = _ends(q, passage.in_question)
        pointers: list[Tensor] = []
        for step, (hidden, score) in enumerate(zip(self.hidden, self.score, strict=True)):
            z = memory.unsqueeze(1).expand_as(c)
            scores = score(hidden(torch.cat([c, z, c * z], -1)).tanh()).squeeze(-1)
            pointers.append(masked(scores, passage.in_context))
            if step < len(self.remember):
                memory = self.remember[step](memory, expected(pointers[-1], c))
        return torch.stack(pointers[-2:], 1)


def _ends(q: Tensor, real: Tensor) -> Tensor:
    """The forward state of the last word and the backward state of the first, [B, d]."""
    half = q.shape[-1] // 2
    last = (real.sum(1).clamp(min=1) - 1).view(-1, 1, 1).expand(-1, 1, half)
    forward = q[..., :half].gather(1, last).squeeze(1)
    return torch.cat([forward, q[:, 0, half:]], -1)
