"""Five readers of passages (RaSoR, DocumentReader, QANet, Mnemonic Reader and FusionNet), and the
parts that they share.

A reader is an ordinary module. `forward(tokens, lengths)` takes the question in the first `asked`
positions (0 is padding), then the context, and returns logits of the answer. Outputs must not
depend on how far a batch is padded, so that the answer to an input does not depend on the rest of
its batch.
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
        folded: For each word, from id 1 on, the id of the same word in lower case.
        asked: Number of positions for the question.
        vectors: Initial vectors [words + 1, size]. None draws them at random.
    """

    folded: tuple[int, ...]
    asked: int
    vectors: Tensor | None = None


class Passage(NamedTuple):
    """Ids of a batch's questions [B, J] and contexts [B, T], and masks of their real positions."""

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
    """A vector for each word. The vector of padding is 0."""

    def __init__(self, lexicon: Lexicon, size: int) -> None:
        super().__init__()
        self.table = nn.Embedding(len(lexicon.folded) + 1, size, padding_idx=0)
        if lexicon.vectors is not None:
            with torch.no_grad():
                # Words that are not in the file keep their random vectors.
                known = lexicon.vectors.abs().sum(-1, keepdim=True) > 0
                self.table.weight.copy_(torch.where(known, lexicon.vectors, self.table.weight))

    def forward(self, tokens: Tensor) -> Tensor:
        """Look up the vectors [B, T, size]."""
        vectors: Tensor = self.table(tokens)
        return vectors


class Matches(nn.Module):
    """Three features of each context word: whether it is in the question, whether it is in the
    question if case is ignored, and its frequency in the context.
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
    """Bidirectional LSTM layers. With `all_layers`, the outputs of all layers are concatenated."""

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
        """Read the real positions of x [B, T, into]."""
        # Pack the sequences, so that the backward direction begins at the last word and not in the
        # padding.
        lengths = real.sum(1).clamp(min=1).cpu()
        outputs: list[Tensor] = []
        for layer in self.layers:
            dropped = F.dropout(x, self.dropout, self.training)
            packed = pack_padded_sequence(dropped, lengths, batch_first=True, enforce_sorted=False)
            x, _ = pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=x.shape[1])
            outputs.append(x)
        return torch.cat(outputs, -1) if self.all_layers else x


class Summary(nn.Module):
    """Summarise a sequence as one vector: sum_j softmax(w . x_j)_j x_j."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weigh = nn.Linear(size, 1, bias=False)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        """Sum x [B, T, d] to [B, d]."""
        weights = softmax(self.weigh(x).squeeze(-1), real)
        return torch.einsum("bt,btd->bd", weights, x)


class Alignment(nn.Module):
    """Alignment of one sequence with each position of another: sum_j softmax_j(relu(W x_i) . relu(W
    y_j)) y_j.
    """

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.map = nn.Linear(size, hidden)

    def forward(self, x: Tensor, y: Tensor, real: Tensor) -> Tensor:
        """Align the real positions of y [B, J, d] with x [B, T, d]."""
        scores = self.map(x).relu() @ self.map(y).relu().transpose(1, 2)
        return softmax(scores, real.unsqueeze(1)) @ y


def softmax(scores: Tensor, real: Tensor) -> Tensor:
    """Softmax over the real positions of the last axis."""
    return masked(scores, real).softmax(-1)


def masked(scores: Tensor, real: Tensor) -> Tensor:
    """Set scores at padding to minus infinity."""
    return scores.masked_fill(~real, -math.inf)


def expected(logits: Tensor, states: Tensor) -> Tensor:
    """Return the expected state [B, d] under the softmax of logits [B, T]."""
    return torch.einsum("bt,btd->bd", logits.softmax(-1), states)


class RaSoR(nn.Module):
    """RaSoR, recurrent span representations (Lee et al. 2016): a score for every span up to a
    length.

        u_i, v_j = vectors of the words of context and question
        a_i = sum_j softmax_j(relu(W u_i) . relu(W v_j)) v_j      what the question says about word i
        q = sum_j softmax_j(w . q'_j) q'_j,  q' = BiLSTM(v)       what it says by itself
        p = BiLSTM(BiLSTM([u; a; q]))
        score(s, e) = w . relu(A p_s + B p_e + b)                 softmax over all spans

    The scores are a table [width, start], where width k stands for the span of k + 1 words.
    """

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
        # The identity only gives a name to the features that analyses read.
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
            # The end of the span with `more` additional words. Beyond the context, there is no end.
            end = F.pad(last[:, more:], (0, 0, 0, min(more, last.shape[1])))
            inside = F.pad(passage.in_context[:, more:], (0, min(more, last.shape[1])))
            hidden = (first + end).relu()
            scores.append(masked(self.score(hidden).squeeze(-1), inside))
        return torch.stack(scores, 1)


class DocumentReader(nn.Module):
    """DocumentReader of DrQA (Chen et al. 2017): a question vector points at the words of the
    context.

        x_i = [E p_i; matches of p_i; sum_j softmax_j(relu(W E p_i) . relu(W E q_j)) E q_j]
        p = [BiLSTM_1(x); BiLSTM_2(.); BiLSTM_3(.)]       all three layers side by side
        q = sum_j softmax_j(w . q'_j) q'_j,  q' = the same three layers over E q
        start_i = p_i . W_s q        end_i = p_i . W_e q

    The features are exact match, match ignoring case, and term frequency. The original's part of
    speech, entity type and lemma need a tagger and are omitted. `features: false` is the paper's
    variant without features.
    """

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
        # The identity only gives a name to the features that analyses read.
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
        """Encode the real positions of x [B, T, d]."""
        x = x + positions(x)
        norms = iter(self.norms)
        for depthwise, pointwise in zip(self.depthwise, self.pointwise, strict=True):
            # Padding is 0 before every convolution, like positions beyond the text.
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
    """Sines and cosines of the position [T, d]."""
    places, size = like.shape[1:]
    at = torch.arange(places, device=like.device, dtype=like.dtype).unsqueeze(1)
    step = torch.arange(0, size, 2, device=like.device, dtype=like.dtype) / size
    angles = at * torch.exp(-math.log(10_000.0) * step)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :size]


class QANet(nn.Module):
    """QANet (Yu et al. 2018): convolutions and self-attention instead of recurrent layers.

        block(x) = x + positions, then convolutions, self-attention and a feed-forward map,
                   each as x + f(norm(x))
        C, Q = block(W E p), block(W E q)                                the same weights
        S_ij = w . [c_i; q_j; c_i * q_j],  S' = softmax_j(S),  S'' = softmax_i(S)
        A = S' Q        B = S' S''^T C        M = V [C; A; C * A; C * B]
        M_0 = blocks(M),  M_1 = blocks(M_0),  M_2 = blocks(M_1)          the same weights
        start = w_1 . [M_0; M_1]        end = w_2 . [M_0; M_2]

    Convolutions are depthwise separable. Letters, stochastic depth and averaged weights are
    omitted.
    """

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
        # The identity only gives a name to the features that analyses read.
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


class Fusion(nn.Module):
    """The semantic fusion unit: a gate decides how much of the known vector is replaced by the new
    one.
    """

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
        # In a one-word context, the word may attend to itself, because there is no other word.
        alone = in_context.sum(1)[:, None, None] < 2
        seen = in_context.unsqueeze(1) & (others | alone)
        # Let rows beyond the text attend to every column. A softmax over no column would be NaN and
        # spoil gradients.
        seen = seen | ~in_context.unsqueeze(2)
        s = softmax(c @ c.transpose(1, 2), seen) @ c
        c = self.with_self(c, torch.cat([s, c * s, c - s], -1))
        read: Tensor = self.read(c, in_context)
        return read


class MnemonicReader(nn.Module):
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

    The loss is that of start and end. The second stage of the reinforced version (with F1 as the
    reward and a self-critical sample) is omitted, as are letters, part of speech and entity type.
    `features: false` also omits the match features.
    """

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
        # The identity only gives a name to the features that analyses read.
        self.states = nn.Identity()
        # For each hop of the pointer: the scores of start and end, and an update after each of
        # them.
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
    """Return the forward state of the last word and the backward state of the first, [B, d]."""
    half = q.shape[-1] // 2
    last = (real.sum(1).clamp(min=1) - 1).view(-1, 1, 1).expand(-1, 1, half)
    forward = q[..., :half].gather(1, last).squeeze(1)
    return torch.cat([forward, q[:, 0, half:]], -1)


class FullyAware(nn.Module):
    """Fully-aware attention. It compares positions by their whole histories, and returns values of
    one sequence for each position of another.
    """

    def __init__(self, history: int, hidden: int) -> None:
        super().__init__()
        self.map = nn.Linear(history, hidden, bias=False)
        self.scale = nn.Parameter(torch.ones(hidden))

    def forward(self, x: Tensor, y: Tensor, values: Tensor, real: Tensor) -> Tensor:
        """Attend from x [B, T, h] to the real positions of y [B, J, h]."""
        scores = (self.map(x).relu() * self.scale) @ self.map(y).relu().transpose(1, 2)
        return softmax(scores, real.unsqueeze(1)) @ values


class FusionNet(nn.Module):
    """FusionNet (Huang et al. 2018), whose attention scores words by their whole history.

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

    `features: false` omits the match features. CoVe vectors, part of speech and entity type are
    omitted.
    """

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
        # The identity only gives a name to the features that analyses read.
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
