"""EntNet, the recurrent entity network (Henaff et al. 2017): slots with keys that each sentence may
rewrite.

    s_t = sum_i f_i * E x_i        q likewise with its own f
    g_j = sigma(s_t . h_j + s_t . w_j)        c_j = phi(U h_j + V w_j + W s_t)
    h_j = (h_j + g_j c_j) / |h_j + g_j c_j|        h_j starts as its key w_j
    p = softmax(q . h)        u = sum_j p_j h_j        logits = R phi(q + H u)

phi is a PReLU with one slope per channel. Empty places of a sentence count as zero and sentences
beyond the end of a story change nothing, so that results do not depend on padding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from taskloom.learners.scratch.nets.ops import (
    DropoutKeys,
    Weights,
    Wrap,
    bags,
    count_sentences,
    linear,
)


@dataclass(frozen=True, slots=True)
class EntNet:
    """See the module. `sentence` is the width of a sentence in words; `slots` are the entities."""

    vocabulary: int
    classes: int
    sentence: int
    state: int = 100
    slots: int = 20

    frame: ClassVar[tuple[bool, bool]] = (False, False)  # stories have no marks
    sites: ClassVar[int] = 0

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes; the vocabulary has one more row, the empty place, which counts as
        zero.
        """
        d = self.state
        return {
            "embedding.weight": (self.vocabulary + 1, d),
            "sentence.mask": (self.sentence, d),
            "question.mask": (self.sentence, d),
            "keys": (self.slots, d),
            "U.weight": (d, d),
            "V.weight": (d, d),
            "W.weight": (d, d),
            "H.weight": (d, d),
            "slopes": (d,),
            "R.weight": (self.classes, d),
        }

    def start(self, random: torch.Generator) -> dict[str, Tensor]:
        """Draw from N(0, 0.1), but masks and slopes start at 1: a bag of words and the identity
        (paper, appendix).
        """
        ones = {"sentence.mask", "question.mask", "slopes"}
        return {
            name: torch.ones(shape) if name in ones else 0.1 * torch.randn(shape, generator=random)
            for name, shape in self.shapes().items()
        }

    def forward(
        self,
        weights: Weights,
        tokens: Tensor,
        lengths: Tensor,
        dropout: DropoutKeys | None = None,
        wrap: Wrap | None = None,
        trace: dict[str, Tensor] | None = None,
    ) -> Tensor:
        """Compute logits [seeds, batch, classes]; tokens are the question and then the sentences,
        `sentence` places each.
        """
        question, sentences = bags(
            weights["embedding.weight"],
            tokens,
            self.sentence,
            weights["question.mask"],
            weights["sentence.mask"],
        )
        step = wrap(_rewrite) if wrap else _rewrite
        real = (
            torch.arange(sentences.shape[2], device=tokens.device)
            < count_sentences(lengths, self.sentence)[:, None]
        )
        keys = weights["keys"].unsqueeze(1)
        offered = linear(sentences, weights["W.weight"])
        known = linear(keys, weights["V.weight"])
        h = keys.expand(-1, len(tokens), -1, -1)
        for s, w, here in zip(sentences.unbind(2), offered.unbind(2), real.unbind(1), strict=True):
            h = step(
                h,
                keys,
                known,
                s.unsqueeze(2),
                w.unsqueeze(2),
                here,
                weights["U.weight"],
                weights["slopes"],
            )
        attention = torch.einsum("sbd,sbjd->sbj", question, h).softmax(-1)
        u = torch.einsum("sbj,sbjd->sbd", attention, h)
        readout = _prelu(question + linear(u, weights["H.weight"]), weights["slopes"].unsqueeze(1))
        if trace is not None:
            trace["readout"] = readout
            trace["memory"] = h.flatten(2)
            trace["attention"] = attention
        return linear(readout, weights["R.weight"])


def _prelu(x: Tensor, slopes: Tensor) -> Tensor:
    return x.clamp(min=0) + slopes * x.clamp(max=0)


def _rewrite(
    h: Tensor,
    keys: Tensor,
    known: Tensor,
    s: Tensor,
    offered: Tensor,
    here: Tensor,
    u: Tensor,
    slopes: Tensor,
) -> Tensor:
    """Update by one sentence: h [S, B, slots, d], keys and known [S, 1, slots, d], s and offered
    [S, B, 1, d], here [B].
    """
    gate = (s * (h + keys)).sum(-1, keepdim=True).sigmoid()
    candidate = _prelu(linear(h, u) + known + offered, slopes.view(len(slopes), 1, 1, -1))
    new = h + gate * candidate
    new = new / torch.linalg.vector_norm(new, dim=-1, keepdim=True).clamp(min=1e-12)
    return torch.where(here.view(1, -1, 1, 1), new, h)
