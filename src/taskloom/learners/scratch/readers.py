"""Readers of passages, trained from scratch, whose answers are spans of the input: BiDAF, RaSoR,
DocumentReader, QANet, Mnemonic Reader and FusionNet, the models without pretraining that Dyna-bAbI
compares on SQuAD and on stories.

Each network is a plain module (`nets/bidaf.py`, `nets/readers.py`) that states its formulae. Two
things differ from the papers: Adam with a single rate replaces Adamax, and all networks except
BiDAF use BiDAF's sizes. Word vectors are learned, or initialised from a file in GloVe's format
(`vectors`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from taskloom.core.errors import nearest
from taskloom.core.files import path_of
from taskloom.learners.config import digest_settings, register_learner
from taskloom.learners.interface import Fitted, LearnerError, Pairs, Point, examples, texts
from taskloom.learners.saved import read_curve, read_learner, saving, write_tensors
from taskloom.learners.scratch.answer_spans import (
    Missing,
    Pointed,
    SpanExample,
    SpanTable,
    ask,
    split_question,
    weigh_all,
    with_spans,
)
from taskloom.learners.scratch.classifiers import (
    WEIGHTS,
    Prepared,
    Stacked,
    in_batches,
    need_torch,
    read_weights,
)
from taskloom.learners.scratch.tokens import Encoded, WordVocabulary
from taskloom.learners.training.settings import Training

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from taskloom.learners.scratch.nets.bidaf import BiDAF
    from taskloom.learners.scratch.nets.module_adapter import SpanNet
    from taskloom.learners.scratch.nets.ops import Net
    from taskloom.learners.scratch.nets.readers import Lexicon
    from taskloom.learners.training.loop import TrainingOutcome

_TOKEN = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|[^\w\s]|_")


def cut(text: str) -> tuple[list[str], list[tuple[int, int]]]:
    """Split a text into words and punctuation marks, with their positions."""
    matches = list(_TOKEN.finditer(text))
    return [m.group() for m in matches], [m.span() for m in matches]


@dataclass(frozen=True)
class Passages:
    """Encoding of passages: `asked` positions for the question, then the context. Id 0 is padding,
    and word i has the id i + 1.
    """

    words: WordVocabulary
    asked: int

    @classmethod
    def of(cls, items: Sequence[SpanExample]) -> Passages:
        """Build the encoding from all items that will be read."""
        questions = [cut(item.question)[0] for item in items]
        every = set(chain.from_iterable(questions))
        for context in {item.context for item in items}:  # many questions share a context
            every.update(cut(context)[0])
        return cls(WordVocabulary(tuple(sorted(every))), max(map(len, questions)))

    def spellings(self) -> tuple[tuple[int, ...], ...]:
        """Return the letters of each word as numbers, counted from 1."""
        alphabet = sorted(set(chain.from_iterable(self.words.words)))
        number = {letter: i for i, letter in enumerate(alphabet, 1)}  # 0 is padding
        return tuple(tuple(number[letter] for letter in word) for word in self.words.words)

    def encode(self, items: Sequence[SpanExample]) -> tuple[Encoded, list[list[tuple[int, int]]]]:
        """Encode items as arrays, with spans as labels (-1 without a span). Also return the
        position of each token of each context.
        """
        import numpy as np

        from taskloom.learners.scratch.nets.ops import SPAN

        rows, offsets, labels = [], [], []
        for item in items:
            question, _ = cut(item.question)
            words, places = cut(item.context)
            if len(question) > self.asked:
                raise LearnerError(
                    f"the question {item.question[:60]!r} has {len(question)} words, and this"
                    f" learner was fitted on questions of at most {self.asked}; shorten it, or fit"
                    " again with such questions in a split"
                )
            text = f"{item.context} {item.question}"
            ids = [i + 1 for i in self.words.look_up([*question, *words], text)]
            empty = [0] * (self.asked - len(question))
            rows.append([*ids[: len(question)], *empty, *ids[len(question) :]])
            offsets.append(places)
            labels.append(_label(item, places, SPAN))
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        tokens = np.zeros((len(rows), int(lengths.max(initial=0))), dtype=np.int64)
        for padded, row in zip(tokens, rows, strict=True):
            padded[: len(row)] = row
        return Encoded(tokens, lengths, np.array(labels, dtype=np.int64)), offsets


def _label(item: SpanExample, places: Sequence[tuple[int, int]], span: int) -> int:
    if item.span is None:
        return -1
    first, last = item.span
    inside = [i for i, (a, b) in enumerate(places) if b > first and a < last]
    return inside[0] * span + inside[-1]


def load_bidaf(folder: Path) -> Fitted:
    """Load a fitted BiDAF from its folder."""
    need_torch()
    card, learner = read_learner(folder)
    reader = Passages(WordVocabulary(tuple(card["words"])), int(card["asked"]))
    net = learner.network(reader)
    weights = read_weights(folder, net, card["learner"])
    return Pointer(learner, net, weights, reader, read_curve(card))


@register_learner(
    "bidaf", describe="BiDAF for answers that are spans of the input, from scratch", load=load_bidaf
)
@dataclass(frozen=True)
class BiDAFLearner(Stacked["Pointer"]):
    """BiDAF of Seo et al. (2017), with batches of 60, states of size 100, 100 filters of 5 letters,
    dropout 0.2 and 12 epochs (here, epochs of bAbI's 9,000 examples).

    Two things differ from the paper: word vectors are learned with the other weights (the paper
    uses GloVe), and Adam with 1e-3 replaces AdaDelta.

    Attributes:
        words: Size of word vectors.
        state: Size of each direction of the LSTMs.
        filters: Number of filters of the CNN over letters. 0 omits the CNN.
        dropout: Dropout rate before LSTMs and output maps.
        without_span: Training examples whose answer is not part of the text: `refuse` or `skip`.
    """

    training: Training = field(
        default_factory=lambda: Training(
            steps=1_800,
            batch=60,
            rate=1e-3,
            warmup=0,
            optimiser="adam",
            clip=5.0,
            evaluate_every=150,
        )
    )
    words: int = 100
    state: int = 100
    filters: int = 100
    dropout: float = 0.2
    without_span: Missing = "refuse"

    name: ClassVar[str] = "bidaf"

    def network(self, reader: Passages) -> BiDAF:
        """Build the network; see `nets.bidaf`."""
        from taskloom.learners.scratch.nets.bidaf import BiDAF

        spellings = reader.spellings() if self.filters else ()
        sizes = {"words": self.words, "state": self.state, "filters": self.filters}
        return BiDAF(
            len(reader.words.words), spellings, reader.asked, **sizes, dropout=self.dropout
        )

    def prepare(self, train: Pairs, evaluate: Mapping[str, Pairs]) -> Prepared[Pointer]:
        """Build a reader for all passages. Answers are spans."""
        return prepare_pointer(self, train, evaluate)


class PointingLearner(Protocol):
    """A learner whose network points at the answer in a passage."""

    @property
    def training(self) -> Training:
        """Settings of the training loop."""

    @property
    def name(self) -> str:
        """The learner's name."""

    @property
    def without_span(self) -> Missing:
        """Treatment of answers that are not part of the text."""

    def network(self, reader: Passages) -> Net:
        """Build the network for a reader."""


def prepare_pointer(
    learner: PointingLearner, train: Pairs, evaluate: Mapping[str, Pairs]
) -> Prepared[Pointer]:
    """Build a reader for all passages, and a network whose answers are spans."""
    items = ask(with_spans(examples(train), learner.name, learner.without_span))
    tests = {name: ask(examples(split, name)) for name, split in evaluate.items()}
    reader = Passages.of([*items, *chain.from_iterable(tests.values())])
    net = learner.network(reader)

    def fitted(outcome: TrainingOutcome) -> Pointer:
        model = Pointer(learner, net, outcome.weights, reader, outcome.curve)
        model.step = outcome.step
        return model

    splits = {name: reader.encode(part)[0] for name, part in tests.items()}
    return Prepared(net, reader.encode(items)[0], splits, fitted)


class Pointer:
    """A fitted learner that points at answers."""

    def __init__(
        self,
        learner: PointingLearner,
        net: Net,
        weights: Mapping[str, Tensor],
        reader: Passages,
        curve: tuple[Point, ...] = (),
        batch: int = 256,
    ) -> None:
        self.learner = learner
        self.net = net
        self.reader = reader
        self.curve = curve
        self.batch = batch
        self.weights = dict(weights)
        self.step: int | None = None  # identifies the weights during training

    def answer(self, inputs: Sequence[str]) -> list[str]:
        """Return the likeliest span of each input."""
        return [pointed.best(len(pointed.offsets)) for pointed in self._point(texts(inputs))]

    def logprob(
        self, inputs: Sequence[str], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """Return the log-probability of each candidate; see `weigh_all`."""
        return weigh_all(self._point, inputs, candidates)

    def represent(self, inputs: Sequence[str], where: str = "readout") -> NDArray[np.float32]:
        """Return `readout`: the features of the expected start."""
        import numpy as np

        inputs = texts(inputs)
        if not inputs:
            return np.zeros((0, 0), dtype=np.float32)

        def take(logits: Tensor, trace: dict[str, Tensor]) -> Tensor:
            if where not in trace:
                raise LearnerError(
                    f"{self.learner.name} has no state '{where}'; {nearest(str(where), trace)}"
                )
            return trace[where][0]

        data, _ = self.reader.encode([SpanExample(*split_question(text), None) for text in inputs])
        states: NDArray[np.float32] = in_batches(
            self.net, self.weights, data, self.learner.training, self.batch, take
        ).numpy()
        return states

    def _point(self, inputs: Sequence[str]) -> Sequence[Pointed | SpanTable]:
        import torch.nn.functional as F  # noqa: N812

        if not inputs:
            return []
        items = [SpanExample(*split_question(text), None) for text in inputs]
        data, offsets = self.reader.encode(items)
        widest = data.tokens.shape[1] - self.reader.asked

        by_table = bool(getattr(self.net, "spans", False))

        def take(logits: Tensor, trace: dict[str, Tensor]) -> Tensor:
            if by_table:  # one distribution over all spans instead of one for each end
                logprobs = logits.double().flatten(1).log_softmax(-1).view_as(logits)
            else:
                logprobs = logits.double().log_softmax(-1)
            return F.pad(logprobs, (0, widest - logits.shape[-1]), value=-float("inf"))

        logprobs = in_batches(
            self.net, self.weights, data, self.learner.training, self.batch, take
        ).numpy()
        each = zip(items, offsets, logprobs, strict=True)
        if by_table:
            return [SpanTable(item.context, places, row) for item, places, row in each]
        return [Pointed(item.context, places, row[0], row[1]) for item, places, row in each]

    def save(self, folder: Path) -> None:
        """Write weights as safetensors, everything else as JSON."""
        about = {"words": self.reader.words.words, "asked": self.reader.asked}
        with saving(folder, self.learner, self.curve, **about) as temporary:
            write_tensors(temporary / WEIGHTS, self.weights)


def load_reader(folder: Path) -> Fitted:
    """Load a fitted reader from its folder."""
    need_torch()
    card, learner = read_learner(folder)
    reader = Passages(WordVocabulary(tuple(card["words"])), int(card["asked"]))
    net = learner.network(reader, begin=False)
    weights = read_weights(folder, net, card["learner"])
    return Pointer(learner, net, weights, reader, read_curve(card))


@dataclass(frozen=True)
class Reader(Stacked[Pointer]):
    """Base class of all readers except BiDAF.

    Attributes:
        words: Size of word vectors.
        state: Size of each direction of the LSTMs, or of QANet's blocks.
        dropout: Dropout rate before every LSTM and in every block.
        vectors: Text file of initial word vectors, with a word and `words` numbers on each line.
        without_span: Training examples whose answer is not part of the text: `refuse` or `skip`.
    """

    training: Training = field(
        default_factory=lambda: Training(
            steps=1_800,
            batch=32,
            rate=1e-3,
            warmup=0,
            optimiser="adam",
            clip=5.0,
            evaluate_every=150,
            compile=False,
            graphs=False,
        )
    )
    words: int = 100
    state: int = 100
    dropout: float = 0.2
    vectors: str = ""
    without_span: Missing = "refuse"

    spans: ClassVar[bool] = False

    def module(self, lexicon: Lexicon) -> nn.Module:
        """Build the module."""
        raise NotImplementedError

    def network(self, reader: Passages, begin: bool = True) -> SpanNet:
        """Build the network. `begin` reads the initial vectors."""
        from taskloom.learners.scratch.nets.module_adapter import SpanNet
        from taskloom.learners.scratch.nets.readers import Lexicon

        words = reader.words.words
        vectors = read_vectors(self.vectors, words, self.words) if begin and self.vectors else None
        lexicon = Lexicon(_folded(words), reader.asked, vectors)
        own = {k: v for k, v in digest_settings(self).items() if k != "training"}
        sizes = {"vocabulary": len(words), "asked": reader.asked}
        described = json.dumps({"learner": self.name, **sizes, **own}, sort_keys=True)
        return SpanNet(self.name, lambda: self.module(lexicon), described, reader.asked, self.spans)

    def prepare(self, train: Pairs, evaluate: Mapping[str, Pairs]) -> Prepared[Pointer]:
        """Build a reader for all passages. Answers are spans."""
        return prepare_pointer(self, train, evaluate)

    @property
    def _sizes(self) -> dict[str, Any]:
        return {"words": self.words, "state": self.state, "dropout": self.dropout}


def _folded(words: tuple[str, ...]) -> tuple[int, ...]:
    """For each word, the id of the first word that is equal if case is ignored."""
    first: dict[str, int] = {}
    return tuple(first.setdefault(word.casefold(), place) for place, word in enumerate(words, 1))


def read_vectors(name: str, words: tuple[str, ...], size: int) -> Tensor:
    """Read the vectors [words + 1, size] of a file in GloVe's format.

    A word that is not in the file as written gets the vector of its lower-case form, because most
    such files are in lower case. Words without either get 0.
    """
    import torch

    path = path_of(name)
    wanted: dict[str, list[tuple[int, bool]]] = {}
    for place, word in enumerate(words, 1):
        wanted.setdefault(word, []).append((place, True))
        if word.lower() != word:
            wanted.setdefault(word.lower(), []).append((place, False))
    table, exact = torch.zeros(len(words) + 1, size), set[int]()
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                word, _, rest = line.rstrip("\n").partition(" ")
                if word not in wanted:
                    continue
                row = torch.tensor([float(text) for text in rest.split()])
                if len(row) != size:
                    raise LearnerError(
                        f"vectors: {path}:{number} has {len(row)} numbers and words is {size}; set"
                        f" words to {len(row)}, or name another file"
                    )
                for place, own in wanted[word]:
                    if own or place not in exact:
                        table[place] = row
                    if own:
                        exact.add(place)
    except (OSError, ValueError) as error:
        raise LearnerError(
            f"vectors: {path} is not a text file of word vectors, a word and its numbers on each"
            f" line ({error})"
        ) from error
    return table


@register_learner(
    "rasor",
    describe="RaSoR, which scores whole spans of the input, from scratch",
    load=load_reader,
)
@dataclass(frozen=True)
class RaSoRLearner(Reader):
    """RaSoR of Lee et al. (2016).

    Attributes:
        longest: Maximum words of a span.
    """

    longest: int = 30

    name: ClassVar[str] = "rasor"
    spans: ClassVar[bool] = True

    def module(self, lexicon: Lexicon) -> nn.Module:
        """Build the module."""
        from taskloom.learners.scratch.nets.readers import RaSoR

        return RaSoR(lexicon, **self._sizes, longest=self.longest)


@register_learner(
    "document-reader",
    describe="DrQA's DocumentReader for answers that are spans of the input, from scratch",
    load=load_reader,
)
@dataclass(frozen=True)
class DocumentReaderLearner(Reader):
    """DocumentReader of Chen et al. (2017).

    Attributes:
        features: True to use exact match, match ignoring case, and term frequency.
    """

    features: bool = True

    name: ClassVar[str] = "document-reader"

    def module(self, lexicon: Lexicon) -> nn.Module:
        """Build the module."""
        from taskloom.learners.scratch.nets.readers import DocumentReader

        return DocumentReader(lexicon, **self._sizes, features=self.features)


@register_learner(
    "qanet",
    describe="QANet for answers that are spans of the input, from scratch",
    load=load_reader,
)
@dataclass(frozen=True)
class QANetLearner(Reader):
    """QANet of Yu et al. (2018).

    Attributes:
        heads: Number of attention heads.
        blocks: Number of blocks of the model encoder, which is applied three times.
    """

    heads: int = 4
    blocks: int = 7

    name: ClassVar[str] = "qanet"

    def module(self, lexicon: Lexicon) -> nn.Module:
        """Build the module."""
        from taskloom.learners.scratch.nets.readers import QANet

        if self.state % self.heads:
            raise LearnerError(f"qanet: state {self.state} is not a multiple of heads {self.heads}")
        return QANet(lexicon, **self._sizes, heads=self.heads, blocks=self.blocks)


@register_learner(
    "mnemonic-reader",
    describe="Mnemonic Reader for answers that are spans of the input, from scratch",
    load=load_reader,
)
@dataclass(frozen=True)
class MnemonicReaderLearner(Reader):
    """Mnemonic Reader of Hu et al. (2017), without the reinforced stage.

    Attributes:
        features: True to use exact match, match ignoring case, and term frequency.
        hops: Number of hops of alignment and of the pointer.
    """

    features: bool = True
    hops: int = 2

    name: ClassVar[str] = "mnemonic-reader"

    def module(self, lexicon: Lexicon) -> nn.Module:
        """Build the module."""
        from taskloom.learners.scratch.nets.readers import MnemonicReader

        return MnemonicReader(lexicon, **self._sizes, features=self.features, hops=self.hops)


@register_learner(
    "fusionnet",
    describe="FusionNet for answers that are spans of the input, from scratch",
    load=load_reader,
)
@dataclass(frozen=True)
class FusionNetLearner(Reader):
    """FusionNet of Huang et al. (2018).

    Attributes:
        features: True to use exact match, match ignoring case, and term frequency.
    """

    features: bool = True

    name: ClassVar[str] = "fusionnet"

    def module(self, lexicon: Lexicon) -> nn.Module:
        """Build the module."""
        from taskloom.learners.scratch.nets.readers import FusionNet

        return FusionNet(lexicon, **self._sizes, features=self.features)
