"""Parts that readers of passages share: RaSoR, DocumentReader, QANet, Mnemonic Reader, FusionNet.

A reader is an ordinary module: `forward(tokens, lengths)` takes the question in the first `asked`
places (0 is empty) and then the context, and returns logits of the answer. Nothing may depend on
how far a batch is padded, so that an input has one answer whatever stands next to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The words that a reader knows.

    Attributes:
        folded: For each word, from id 1 on, the id of the same word in small letters.
        asked: Places of a question.
        vectors: Initial vectors [words + 1, size]; None draws them.
    """

    folded: tuple[int, ...]
    asked: int
    vectors: Tensor | None = None


class Passage(NamedTuple):
    """Ids of a batch's questions [B, J] and contexts [B, T], and which places they have."""

    question: Tensor
    context: Tensor
    in_question: Tensor
    in_context: Tensor


def divide(tokens: Tensor, lengths: Tensor, asked: int) -> Passage:
    """Divide rows into question and context."""
    question, context = tokens[:, :asked], tokens[:, asked:]
    places = torch.arange(context.shape[1], device=tokens.device)
    return Passage(question, context, question != 0, places < (lengths - asked).unsqueeze(1))


class WordVectors(nn.Module):
    """A vector for each word; the empty place is 0."""

    def __init__(self, lexicon: Lexicon, size: int) -> None:
        super().__init__()
        self.table = nn.Embedding(len(lexicon.folded) + 1, size, padding_idx=0)
        if lexicon.vectors is not None:
            with torch.no_grad():
                # Words that the file lacks keep the vector that was drawn.
                known = lexicon.vectors.abs().sum(-1, keepdim=True) > 0
                self.table.weight.copy_(torch.where(known, lexicon.vectors, self.table.weight))

    def forward(self, tokens: Tensor) -> Tensor:
        """Look up the vectors [B, T, size]."""
        vectors: Tensor = self.table(tokens)
        return vectors


class Matches(nn.Module):
    """Three features of each context word: it is in the question, it is there but for capitals, and
    its frequency in the context.
    """

    size = 3
    folded: Tensor

    def __init__(self, lexicon: Lexicon) -> None:
        super().__init__()
        self.register_buffer("folded", torch.tensor([0, *lexicon.folded]), persistent=False)

    def forward(self, passage: Passage) -> Tensor:
        """Compute the features [B, T, 3]."""
        question, context = passage.question, passage.context
        real = passage.in_question.unsqueeze(1)
        same = ((context.unsqueeze(2) == question.unsqueeze(1)) & real).any(2)
        folded = self.folded[context].unsqueeze(2) == self.folded[question].unsqueeze(1)
        alike = (folded & real).any(2)
        within = passage.in_context.unsqueeze(1)
        count = ((context.unsqueeze(2) == context.unsqueeze(1)) & within).sum(2)
        frequency = count / passage.in_context.sum(1, keepdim=True)
        return torch.stack([same.float(), alike.float(), frequency], -1)


class BiLSTM(nn.Module):
    """Bidirectional LSTM layers; `all_layers` returns the outputs of each, side by side."""

    def __init__(
        self, into: int, state: int, dropout: float, layers: int = 1, all_layers: bool = False
    ) -> None:
        super().__init__()
        sizes = [into, *[2 * state] * (layers - 1)]
        self.layers = nn.ModuleList(
            nn.LSTM(size, state, batch_first=True, bidirectional=True) for size in sizes
        )
        self.dropout, self.all_layers = dropout, all_layers
        self.size = 2 * state * (layers if all_layers else 1)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        """Read x [B, T, into] as far as it is real."""
        # Packed, so that the backward direction begins at the last word and not in the padding.
        lengths = real.sum(1).clamp(min=1).cpu()
        outputs: list[Tensor] = []
        for layer in self.layers:
            dropped = F.dropout(x, self.dropout, self.training)
            packed = pack_padded_sequence(dropped, lengths, batch_first=True, enforce_sorted=False)
            x, _ = pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=x.shape[1])
            outputs.append(x)
        return torch.cat(outputs, -1) if self.all_layers else x


class Summary(nn.Module):
    """One vector for a sequence: sum_j softmax(w . x_j)_j x_j."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weigh = nn.Linear(size, 1, bias=False)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        """Sum x [B, T, d] to [B, d]."""
        weights = softmax(self.weigh(x).squeeze(-1), real)
        return torch.einsum("bt,btd->bd", weights, x)


class Alignment(nn.Module):
    """What a sequence says about each place of another:
    sum_j softmax_j(relu(W x_i) . relu(W y_j)) y_j.
    """

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.map = nn.Linear(size, hidden)

    def forward(self, x: Tensor, y: Tensor, real: Tensor) -> Tensor:
        """Align y [B, J, d], as far as it is real, with x [B, T, d]."""
        scores = self.map(x).relu() @ self.map(y).relu().transpose(1, 2)
        return softmax(scores, real.unsqueeze(1)) @ y


def softmax(scores: Tensor, real: Tensor) -> Tensor:
    """Softmax over the last axis, as far as it is real."""
    return masked(scores, real).softmax(-1)


def masked(scores: Tensor, real: Tensor) -> Tensor:
    """Scores that are minus infinity beyond what is real."""
    return scores.masked_fill(~real, -math.inf)


def expected(logits: Tensor, states: Tensor) -> Tensor:
    """The state [B, d] that is expected where logits [B, T] point."""
    return torch.einsum("bt,btd->bd", logits.softmax(-1), states)
