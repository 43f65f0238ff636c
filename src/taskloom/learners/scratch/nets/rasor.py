"""RaSoR, recurrent span representations (Lee et al. 2016): a score for every span up to a length.

    u_i, v_j = vectors of the words of context and question
    a_i = sum_j softmax_j(relu(W u_i) . relu(W v_j)) v_j      what the question says about word i
    q = sum_j softmax_j(w . q'_j) q'_j,  q' = BiLSTM(v)       what it says by itself
    p = BiLSTM(BiLSTM([u; a; q]))
    score(s, e) = w . relu(A p_s + B p_e + b)                 softmax over all spans

The scores are a table [width, start]: width k is the span of k + 1 words.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from taskloom.learners.scratch.nets.reading import (
    Alignment,
    BiLSTM,
    Lexicon,
    Summary,
    WordVectors,
    divide,
    masked,
)


class RaSoR(nn.Module):
    """See the file."""

    def __init__(
        self, lexicon: Lexicon, words: int, state: int, dropout: float, longest: int
    ) -> None:
        super().__init__()
        self.asked, self.longest, self.dropout = lexicon.asked, longest, dropout
        self.vectors = WordVectors(lexicon, words)
        self.align = Alignment(words, state)
        self.read_question = BiLSTM(words, state, dropout)
        self.summary = Summary(2 * state)
        self.read_context = BiLSTM(2 * words + 2 * state, state, dropout, layers=2)
        # Only a name for what is read: analyses look at it.
        self.states = nn.Identity()
        self.first = nn.Linear(2 * state, state)
        self.last = nn.Linear(2 * state, state, bias=False)
        self.score = nn.Linear(state, 1, bias=False)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Compute the scores of spans [B, longest, T]."""
        passage = divide(tokens, lengths, self.asked)
        u, v = self.vectors(passage.context), self.vectors(passage.question)
        aligned = self.align(u, v, passage.in_question)
        read = self.read_question(v, passage.in_question)
        question = self.summary(read, passage.in_question).unsqueeze(1).expand(-1, u.shape[1], -1)
        p = self.read_context(torch.cat([u, aligned, question], -1), passage.in_context)
        p = F.dropout(self.states(p), self.dropout, self.training)
        first, last = self.first(p), self.last(p)
        scores: list[Tensor] = []
        for more in range(self.longest):
            # The end of the span that is `more` words longer than one; none beyond the context.
            end = F.pad(last[:, more:], (0, 0, 0, min(more, last.shape[1])))
            inside = F.pad(passage.in_context[:, more:], (0, min(more, last.shape[1])))
            hidden = (first + end).relu()
            scores.append(masked(self.score(hidden).squeeze(-1), inside))
        return torch.stack(scores, 1)
