"""BiDAF, bi-directional attention flow (Seo et al. 2017): pointers to the start and the end of an
answer in a context.

    x = highway(highway([char-CNN(word); E word]))
    highway(x) = t relu(W x + b) + (1 - t) x,  t = sigma(W' x + b')
    H = LSTM(x of the context)        U = LSTM(x of the question), the same weights
    S_tj = w . [h_t; u_j; h_t * u_j]
    u~_t = sum_j softmax_j(S_t)_j u_j        h~ = sum_t softmax_t(max_j S_tj)_t h_t
    G_t = [h_t; u~_t; h_t * u~_t; h_t * h~]        M = LSTM(LSTM(G))        M' = LSTM(M)
    start = softmax(w1 . [G; M])        end = softmax(w2 . [G; M'])

The words are a finite vocabulary, so the CNN over letters runs once per word of the vocabulary, not
once per word of the text.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from taskloom.learners.scratch.nets.bilstm import lstm, lstm_shapes, start_lstm
from taskloom.learners.scratch.nets.ops import (
    DropoutKeys,
    Weights,
    Wrap,
    default_linear,
    drop,
    embed,
    judge_spans,
    linear,
    uniform,
)

_LSTMS = ("contextual", "modelling.1", "modelling.2", "ending")
_HIGHWAYS = ("highway.1", "highway.2")
_SITES = 8
"""Number of dropout masks: letters, the two uses of x, all LSTM inputs but the first, and the two
output maps.
"""


@dataclass(frozen=True, slots=True)
class BiDAF:
    """See the module.

    Attributes:
        spellings: The letters of each word as numbers from 1. If empty, there is no CNN.
        asked: Number of positions for the question.
        words: Size of the word vectors.
        state: Size d of the LSTM states in each direction.
        filters: Number of filters of the CNN over letters.
        width: Number of letters that a filter covers.
        letters: Size of a letter's vector.
        dropout: Dropout rate for letters, and before every LSTM and both output maps.
    """

    vocabulary: int
    spellings: tuple[tuple[int, ...], ...]
    asked: int
    words: int = 100
    state: int = 100
    filters: int = 100
    width: int = 5
    letters: int = 16
    dropout: float = 0.2

    frame: ClassVar[tuple[bool, bool]] = (False, False)  # no marks
    sites: ClassVar[int] = _SITES

    @property
    def _input(self) -> int:
        return self.words + (self.filters if self.spellings else 0)

    def _lstms(self) -> dict[str, tuple[int, int]]:
        d = self.state
        return dict(
            zip(_LSTMS, ((self._input, d), (8 * d, d), (2 * d, d), (2 * d, d)), strict=True)
        )

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each weight. The vocabulary and the letters have one more row for padding, whose
        vector is zero.
        """
        size, d = self._input, self.state
        shapes: dict[str, tuple[int, ...]] = {"embedding.weight": (self.vocabulary + 1, self.words)}
        if self.spellings:
            most = max(letter for word in self.spellings for letter in word)
            shapes["letters.weight"] = (most + 1, self.letters)
            shapes["cnn.weight"], shapes["cnn.bias"] = (
                (self.filters, self.width * self.letters),
                (self.filters,),
            )
        for name in _HIGHWAYS:
            for part in ("map", "gate"):
                shapes[f"{name}.{part}.weight"], shapes[f"{name}.{part}.bias"] = (
                    (size, size),
                    (size,),
                )
        for name, sizes in self._lstms().items():
            shapes |= lstm_shapes(name, *sizes)
        return {
            **shapes,
            "similar": (3, 2 * d),
            "first.weight": (1, 10 * d),
            "last.weight": (1, 10 * d),
        }

    def start(self, random: torch.Generator) -> dict[str, Tensor]:
        """Draw weights as torch initialises such layers."""
        shapes = self.shapes()
        weights = {"embedding.weight": torch.randn(shapes["embedding.weight"], generator=random)}
        if self.spellings:
            weights["letters.weight"] = torch.randn(shapes["letters.weight"], generator=random)
            weights["cnn.weight"], weights["cnn.bias"] = default_linear(
                random, *shapes["cnn.weight"]
            )
        for name in _HIGHWAYS:
            for part in ("map", "gate"):
                pair = default_linear(random, self._input, self._input)
                weights[f"{name}.{part}.weight"], weights[f"{name}.{part}.bias"] = pair
        for name, sizes in self._lstms().items():
            weights |= start_lstm(random, name, *sizes)
        weights["similar"] = uniform(random, shapes["similar"], (6 * self.state) ** -0.5)
        for name in ("first", "last"):
            weights[f"{name}.weight"], _ = default_linear(random, 1, 10 * self.state)
        return weights

    def forward(
        self,
        weights: Weights,
        tokens: Tensor,
        lengths: Tensor,
        dropout: DropoutKeys | None = None,
        wrap: Wrap | None = None,
        trace: dict[str, Tensor] | None = None,
    ) -> Tensor:
        """Compute logits [seeds, batch, 2, positions of the context]. Tokens are the question in
        `asked` positions, then the context.
        """
        w = weights

        def dropped(x: Tensor, site: int) -> Tensor:
            return drop(x, self.dropout, dropout.keys[site], dropout.first_row) if dropout else x

        x = self._vectors(w, tokens, dropout)
        question, context = x[:, :, : self.asked], x[:, :, self.asked :]
        in_question = (tokens[:, : self.asked] != 0).sum(1)
        in_context = lengths - self.asked
        u = lstm(w, "contextual", dropped(question, 1), in_question)
        h = lstm(w, "contextual", dropped(context, 2), in_context)
        g = (wrap(_attend) if wrap else _attend)(w["similar"], h, u, in_context, in_question)
        m = lstm(w, "modelling.1", dropped(g, 3), in_context)
        m = lstm(w, "modelling.2", dropped(m, 4), in_context)
        after = lstm(w, "ending", dropped(m, 5), in_context)
        first = linear(dropped(torch.cat([g, m], -1), 6), w["first.weight"]).squeeze(-1)
        last = linear(dropped(torch.cat([g, after], -1), 7), w["last.weight"]).squeeze(-1)
        real = torch.arange(context.shape[2], device=tokens.device) < in_context[:, None]
        logits = torch.stack([first, last], 2).masked_fill(~real.unsqueeze(1), -math.inf)
        if trace is not None:
            # The features at the expected start of the answer.
            trace["readout"] = torch.einsum(
                "sbt,sbtd->sbd", logits[:, :, 0].softmax(-1), torch.cat([g, m], -1)
            )
        return logits

    def judge(self, logits: Tensor, tokens: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Compute loss and hit of each span."""
        return judge_spans(logits, tokens[:, self.asked :], labels)

    def _vectors(self, w: Weights, tokens: Tensor, dropout: DropoutKeys | None) -> Tensor:
        """Compute the highway's output [S, B, T, input] for every token."""
        x = embed(w["embedding.weight"], tokens)
        if self.spellings:
            x = torch.cat([embed(self._spelled(w, tokens.device, dropout), tokens), x], -1)
        for name in _HIGHWAYS:
            gate = linear(x, w[f"{name}.gate.weight"], w[f"{name}.gate.bias"]).sigmoid()
            x = (
                gate * linear(x, w[f"{name}.map.weight"], w[f"{name}.map.bias"]).relu()
                + (1 - gate) * x
            )
        return x

    def _spelled(self, w: Weights, device: torch.device, dropout: DropoutKeys | None) -> Tensor:
        """Compute the CNN's vector of every word of the vocabulary [S, V + 1, filters]. Padding has
        no letters.
        """
        table = _table(self.spellings, self.width, device)
        x = embed(w["letters.weight"], table) * (table != 0).unsqueeze(-1)
        # Letters belong to the vocabulary, not to an example, so their mask does not depend on the
        # part of the batch.
        x = drop(x, self.dropout, dropout.keys[0] if dropout else None)
        windows = (
            x.unfold(2, self.width, 1).transpose(-1, -2).flatten(-2)
        )  # [S, V, positions, width * letters]
        return linear(windows, w["cnn.weight"], w["cnn.bias"]).relu().amax(2)


@functools.lru_cache(maxsize=8)
def _table(spellings: tuple[tuple[int, ...], ...], width: int, device: torch.device) -> Tensor:
    """Return the letters of every word [V + 1, longest]. They are copied to the device once,
    because a captured step must not copy anything to it.
    """
    table = torch.zeros(len(spellings) + 1, max(width, max(map(len, spellings))), dtype=torch.long)
    for row, word in enumerate(spellings, 1):
        table[row, : len(word)] = torch.tensor(word)
    return table.to(device)


def _attend(similar: Tensor, h: Tensor, u: Tensor, context: Tensor, question: Tensor) -> Tensor:
    """Compute G [S, B, T, 8 d] from H [S, B, T, 2 d] and U [S, B, J, 2 d]."""
    by_h, by_u, by_both = (part.view(len(similar), 1, 1, -1) for part in similar.unbind(1))
    s = torch.matmul(h * by_both, u.transpose(-1, -2)) + (h * by_h).sum(-1, keepdim=True)
    s = s + (u * by_u).sum(-1).unsqueeze(2)
    in_question = torch.arange(u.shape[2], device=u.device) < question[:, None]
    s = s.masked_fill(~in_question.unsqueeze(1), -math.inf)
    in_context = torch.arange(h.shape[2], device=h.device) < context[:, None]
    to_question = torch.matmul(s.softmax(-1), u)
    to_context = s.amax(-1).masked_fill(~in_context, -math.inf).softmax(-1)
    whole = torch.einsum("sbt,sbtd->sbd", to_context, h).unsqueeze(2)
    return torch.cat([h, to_question, h * to_question, h * whole], -1)
