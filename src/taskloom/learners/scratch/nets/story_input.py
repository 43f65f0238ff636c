"""How networks see a story: a row of tokens is the question and then the sentences, each with the same number of places.

Place 0 of the vocabulary is the empty place. So a batch is cut to its longest story like any other row of tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from taskloom.learners.scratch.nets.ops import embed


def bags(table: Tensor, tokens: Tensor, sentence: int, asking: Tensor, telling: Tensor) -> tuple[Tensor, Tensor]:
    """Sum the vectors of each sentence's words, weighted by place: question [S, B, d], sentences [S, B, n, d].

    Args:
        table: [S, V, d] vectors of words.
        tokens: [B, (1 + n) * sentence].
        sentence: Places of a sentence.
        asking: [S, sentence, d] weights of the question's places.
        telling: [S, sentence, d] weights of a sentence's places.
    """
    places = tokens.view(len(tokens), -1, sentence)
    # Embedded before it is cut into sentences: tokens of three dimensions are an input for each seed.
    vectors = embed(table, tokens).reshape(len(table), *places.shape, -1) * (places != 0).unsqueeze(-1)
    question = torch.einsum("sbwd,swd->sbd", vectors[:, :, 0], asking)
    return question, torch.einsum("sbnwd,swd->sbnd", vectors[:, :, 1:], telling)


def count_sentences(lengths: Tensor, sentence: int) -> Tensor:
    """Count the sentences of each story, without its question."""
    return torch.div(lengths, sentence, rounding_mode="floor") - 1
