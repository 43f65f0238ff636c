"""Memory networks that read a story sentence by sentence: EntNet and STM.

EntNet, the recurrent entity network (Henaff et al. 2017), has slots with keys that each sentence
may rewrite.

    s_t = sum_i f_i * E x_i        q likewise with its own f
    g_j = sigma(s_t . h_j + s_t . w_j)        c_j = phi(U h_j + V w_j + W s_t)
    h_j = (h_j + g_j c_j) / |h_j + g_j c_j|        h_j starts as its key w_j
    p = softmax(q . h)        u = sum_j p_j h_j        logits = R phi(q + H u)

phi is a PReLU with one slope per channel. Padding within a sentence counts as zero, and sentences
beyond the end of a story change nothing, so results do not depend on padding.

STM, the two-memory model with self-attentive associative memory (Le et al. 2020), in the form that
answers bAbI's questions.

    x_t = sum_i p_i * E w_i        q likewise
    X_t = f1(x_t) (x) f1(x_t)        [I, F] = sigma(A f1(x_t) + B tanh(Mi) + [b_i, b_f])
    Mi  = F * Mi + I * tanh(X_t)                       the item memory [d, d]
    v   = softmax(f3(x_t)) . Mr . f2(x_t)              what is known about x_t
    Mr  = Mr + SAM(Mi + alpha v (x) f2(x_t))           the relational memory [slots, d, d]
    SAM(M)[s] = sum_j tanh(Q_s * K_j) (x) V_j        [Q, K, V] = LN(W M^T + b), `slots` rows each

    i_1 = LN(r1 . Mr . e)        i_2 = LN(r2 . Mr . i_1)        i_3 = LN(r3 . Mr . i_2)
    logits = Z (i_1 + i_2 + i_3)

e, r1, r2, r3 are two-layer tanh maps of q; f1, f2, f3 three linear maps in a row. As in the
authors' bAbI runs, the old relational memory is kept unchanged (alpha_1 = 1), nothing flows back
into the item memory (alpha_3 = 0), and alpha_2 starts at 0. Two differences from their program are
intended: Z is trained (theirs stays random by mistake), and padding is never read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from taskloom.learners.scratch.nets.ops import (
    DropoutKeys,
    Weights,
    Wrap,
    bags,
    count_sentences,
    default_linear,
    linear,
    uniform,
    xavier,
)

_ASKED = ("e", "r1", "r2", "r3")
_HOPS = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class STM:
    """See the module. `state` is the size d of the memories' matrices, `slots` the number of
    relations.
    """

    vocabulary: int
    classes: int
    sentence: int
    embedding: int = 64
    state: int = 90
    hidden: int = 80
    slots: int = 20

    frame: ClassVar[tuple[bool, bool]] = (False, False)  # stories have no start or end marks
    sites: ClassVar[int] = 0

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each weight. The vocabulary has an additional row for padding, which is zero."""
        d, n, h = self.state, self.slots, self.hidden
        shapes: dict[str, tuple[int, ...]] = {
            "embedding.weight": (self.vocabulary + 1, self.embedding),
            "places": (self.sentence, self.embedding),
        }
        for f, size in self._inputs():
            for layer, (out, into) in enumerate(((h, self.embedding), (h, h), (size, h)), 1):
                shapes[f"{f}.{layer}.weight"], shapes[f"{f}.{layer}.bias"] = (out, into), (out,)
        for gate in ("gate.input", "gate.memory"):
            shapes[f"{gate}.weight"], shapes[f"{gate}.bias"] = (2 * d, d), (2 * d,)
        shapes |= {"gate.input_bias": (1,), "gate.forget_bias": (1,), "alpha": (1,)}
        shapes |= {
            "sam.weight": (3 * n, d),
            "sam.bias": (3 * n,),
            "sam.gain": (d, 3 * n),
            "sam.shift": (d, 3 * n),
        }
        shapes |= {"items": (d, d), "relations": (n, d, d)}
        for name in _ASKED:
            size = d if name == "e" else n
            shapes[f"{name}.1.weight"], shapes[f"{name}.1.bias"] = (h, self.embedding), (h,)
            shapes[f"{name}.2.weight"], shapes[f"{name}.2.bias"] = (size, h), (size,)
        for hop in _HOPS:
            shapes[f"norm{hop}.gain"], shapes[f"norm{hop}.shift"] = (d,), (d,)
        return {**shapes, "Z.weight": (self.classes, d)}

    def _inputs(self) -> tuple[tuple[str, int], ...]:
        return (("f1", self.state), ("f2", self.state), ("f3", self.slots))

    def start(self, random: torch.Generator) -> dict[str, Tensor]:
        """Draw weights as the authors' program does."""
        d, n = self.state, self.slots
        weights = {name: torch.zeros(shape) for name, shape in self.shapes().items()}
        weights["embedding.weight"] = uniform(random, (self.vocabulary + 1, self.embedding), 0.1)
        weights["places"] = torch.full((self.sentence, self.embedding), 1 / self.sentence)
        maps = [f"{f}.{layer}" for f, _ in self._inputs() for layer in (1, 2, 3)]
        for name in [*maps, "gate.input", "gate.memory", "sam"]:
            out, into = weights[f"{name}.weight"].shape
            weights[f"{name}.weight"], weights[f"{name}.bias"] = default_linear(random, out, into)
        weights["gate.forget_bias"] = torch.ones(1)
        weights["items"] = uniform(random, (d, d), (2 * d) ** -0.5)
        weights["relations"] = uniform(random, (n, d, d), (2 * d + n) ** -0.5)
        for name in _ASKED:
            for layer in (1, 2):
                out, into = weights[f"{name}.{layer}.weight"].shape
                weights[f"{name}.{layer}.weight"] = xavier(random, out, into)
        for name in ["sam.gain", *(f"norm{hop}.gain" for hop in _HOPS)]:
            weights[name] = torch.ones(self.shapes()[name])
        weights["Z.weight"] = xavier(random, self.classes, d)
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
        """Compute logits [seeds, batch, classes]. Tokens are the question and then the sentences,
        `sentence` positions each.
        """
        w = weights
        question, sentences = bags(
            w["embedding.weight"], tokens, self.sentence, w["places"], w["places"]
        )
        real = (
            torch.arange(sentences.shape[2], device=tokens.device)
            < count_sentences(lengths, self.sentence)[:, None]
        )
        f1, f2, f3 = (_chain(w, f, sentences) for f, _ in self._inputs())
        gates = linear(f1, w["gate.input.weight"], w["gate.input.bias"])
        chosen = f3.softmax(-1)
        step = wrap(_read_sentence) if wrap else _read_sentence
        items = w["items"].unsqueeze(1).expand(-1, len(tokens), -1, -1)
        relations = w["relations"].unsqueeze(1).expand(-1, len(tokens), -1, -1, -1)
        pieces = (x.unbind(2) for x in (f1, f2, chosen, gates))
        for a, b, c, g, here in zip(*pieces, real.unbind(1), strict=True):
            items, relations = step(w, items, relations, a, b, c, g, here)
        e, r1, r2, r3 = (_asked(w, name, question) for name in _ASKED)
        total: Tensor | None = None
        for hop, r in zip(_HOPS, (r1, r2, r3), strict=True):
            seen = torch.einsum("sbn,sbndf->sbdf", r, relations)
            e = _normed(
                torch.einsum("sbd,sbdf->sbf", e, seen), w[f"norm{hop}.gain"], w[f"norm{hop}.shift"]
            )
            total = e if total is None else total + e
        assert total is not None
        if trace is not None:
            trace["readout"] = total
            trace["memory"] = items.flatten(2)
        return linear(total, w["Z.weight"])


def _chain(w: Weights, name: str, x: Tensor) -> Tensor:
    for layer in (1, 2, 3):
        x = linear(x, w[f"{name}.{layer}.weight"], w[f"{name}.{layer}.bias"])
    return x


def _asked(w: Weights, name: str, q: Tensor) -> Tensor:
    hidden = linear(q, w[f"{name}.1.weight"], w[f"{name}.1.bias"]).tanh()
    return linear(hidden, w[f"{name}.2.weight"], w[f"{name}.2.bias"]).tanh()


def _normed(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], eps=1e-12) * gain.unsqueeze(1) + shift.unsqueeze(1)


def _read_sentence(
    w: Weights,
    items: Tensor,
    relations: Tensor,
    f1: Tensor,
    f2: Tensor,
    chosen: Tensor,
    gates: Tensor,
    here: Tensor,
) -> tuple[Tensor, Tensor]:
    """Update items [S, B, d, d] and relations [S, B, n, d, d] by one sentence, given f1 and f2 [S,
    B, d], chosen [S, B, n] and here [B].
    """
    seeds = len(f1)
    both = gates.unsqueeze(2) + linear(items.tanh(), w["gate.memory.weight"], w["gate.memory.bias"])
    let_in, keep = both.chunk(2, -1)
    let_in = (let_in + w["gate.input_bias"].view(seeds, 1, 1, 1)).sigmoid()
    keep = (keep + w["gate.forget_bias"].view(seeds, 1, 1, 1)).sigmoid()
    new = keep * items + let_in * (f1.unsqueeze(-1) * f1.unsqueeze(-2)).tanh()
    known = torch.einsum("sbd,sbdf->sbf", f2, torch.einsum("sbn,sbndf->sbdf", chosen, relations))
    alpha = w["alpha"].view(seeds, 1, 1, 1)
    added = _associate(w, new + alpha * known.unsqueeze(-1) * f2.unsqueeze(-2))
    items = torch.where(here.view(1, -1, 1, 1), new, items)
    return items, relations + added * here.view(1, -1, 1, 1, 1)


def _associate(w: Weights, m: Tensor) -> Tensor:
    """Apply SAM, which maps [S, B, d, d] to [S, B, n, d, d]. All rows of Q, K and V are normalised
    together.
    """
    qkv = linear(m, w["sam.weight"], w["sam.bias"])
    qkv = F.layer_norm(qkv, qkv.shape[-2:]) * w["sam.gain"].unsqueeze(1) + w["sam.shift"].unsqueeze(
        1
    )
    q, k, v = qkv.transpose(-1, -2).chunk(3, 2)
    return torch.einsum("sbnjd,sbjf->sbndf", (q.unsqueeze(3) * k.unsqueeze(2)).tanh(), v)


@dataclass(frozen=True, slots=True)
class EntNet:
    """See the module. `sentence` is the width of a sentence in words; `slots` are the entities."""

    vocabulary: int
    classes: int
    sentence: int
    state: int = 100
    slots: int = 20

    frame: ClassVar[tuple[bool, bool]] = (False, False)  # stories have no start or end marks
    sites: ClassVar[int] = 0

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each weight. The vocabulary has an additional row for padding, which is zero."""
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
        """Draw from N(0, 0.1). Masks and slopes start at 1, so they start as a bag of words and the
        identity (paper, appendix).
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
        """Compute logits [seeds, batch, classes]. Tokens are the question and then the sentences,
        `sentence` positions each.
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
    """Update h [S, B, slots, d] by one sentence, given keys and known [S, 1, slots, d], s and
    offered [S, B, 1, d] and here [B].
    """
    gate = (s * (h + keys)).sum(-1, keepdim=True).sigmoid()
    candidate = _prelu(linear(h, u) + known + offered, slopes.view(len(slopes), 1, 1, -1))
    new = h + gate * candidate
    new = new / torch.linalg.vector_norm(new, dim=-1, keepdim=True).clamp(min=1e-12)
    return torch.where(here.view(1, -1, 1, 1), new, h)
