"""DocumentReader of DrQA (Chen et al. 2017): a question vector points at the words of the context.

    x_i = [E p_i; matches of p_i; sum_j softmax_j(relu(W E p_i) . relu(W E q_j)) E q_j]
    p = [BiLSTM_1(x); BiLSTM_2(.); BiLSTM_3(.)]       all three layers side by side
    q = sum_j softmax_j(w . q'_j) q'_j,  q' = the same three layers over E q
    start_i = p_i . W_s q        end_i = p_i . W_e q

The features are exact match, match but for capitals, and term frequency. Part of speech, entity
type and lemma of the original need a tagger and are not here; `features: false` is the paper's
variant without any.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from taskloom.learners.scratch.nets.reading import (
    Alignment,
    BiLSTM,
    Lexicon,
    Matches,
    Summary,
    WordVectors,
    divide,
    masked,
)


class DocumentReader(nn.Module):
    """See the file."""

    def __init__(
        self, lexicon: Lexicon, words: int, state: int, dropout: float, features: bool
    ) -> None:
        super().__init__()
        self.asked = lexicon.asked
        self.vectors = WordVectors(lexicon, words)
        self.matches = Matches(lexicon) if features else None
        self.align = Alignment(words, words)
        width = 2 * words + (Matches.size if features else 0)
        self.read_context = BiLSTM(width, state, dropout, layers=3, all_layers=True)
        self.read_question = BiLSTM(words, state, dropout, layers=3, all_layers=True)
        self.summary = Summary(self.read_question.size)
        # Only a name for what is read: analyses look at it.
        self.states = nn.Identity()
        self.start = nn.Linear(self.read_question.size, self.read_context.size)
        self.end = nn.Linear(self.read_question.size, self.read_context.size)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Compute logits of start and end [B, 2, T]."""
        passage = divide(tokens, lengths, self.asked)
        context, question = self.vectors(passage.context), self.vectors(passage.question)
        parts = [context, self.align(context, question, passage.in_question)]
        if self.matches is not None:
            parts.append(self.matches(passage))
        p = self.states(self.read_context(torch.cat(parts, -1), passage.in_context))
        read = self.read_question(question, passage.in_question)
        q = self.summary(read, passage.in_question)
        start = torch.einsum("btd,bd->bt", p, self.start(q))
        end = torch.einsum("btd,bd->bt", p, self.end(q))
        return masked(torch.stack([start, end], 1), passage.in_context.unsqueeze(1))
