"""Five readers of passages, trained from scratch: RaSoR, DocumentReader, QANet, Mnemonic Reader and
FusionNet, of the models without pretraining that Dyna-bAbI compares on SQuAD and on stories.

Each network is a plain module (`nets/readers.py`) that states its formulae. What is not the
papers': Adam with one rate stands in for Adamax, and the sizes are those of `bidaf`. Vectors of
words are learned, or begin with those of a file in GloVe's format (`vectors`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from taskloom.core.files import path_of
from taskloom.learners.interface import (
    Fitted,
    LearnerError,
    Pairs,
    digest_settings,
    register_learner,
)
from taskloom.learners.saved import read_curve, read_learner
from taskloom.learners.scratch.answer_spans import Missing
from taskloom.learners.scratch.bidaf import Passages, Pointer, prepare_pointer
from taskloom.learners.scratch.classifiers import Prepared, Stacked, need_torch, read_weights
from taskloom.learners.scratch.tokens import WordVocabulary
from taskloom.learners.training.settings import Training

if TYPE_CHECKING:
    from torch import Tensor, nn

    from taskloom.learners.scratch.nets.module_adapter import SpanNet
    from taskloom.learners.scratch.nets.readers import Lexicon


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
    """What the five share.

    Attributes:
        words: Size of word vectors.
        state: Size of each direction of the LSTMs; of QANet's blocks.
        dropout: Before every LSTM and in every block.
        vectors: A text file of word vectors to begin with, a word and `words` numbers a line.
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
        """Build the network; `begin` reads the vectors that training begins with."""
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
        """Build a reader of all passages; answers are spans."""
        return prepare_pointer(self, train, evaluate)

    @property
    def _sizes(self) -> dict[str, Any]:
        return {"words": self.words, "state": self.state, "dropout": self.dropout}


def _folded(words: tuple[str, ...]) -> tuple[int, ...]:
    """For each word the id of the first one that is the same but for capitals."""
    first: dict[str, int] = {}
    return tuple(first.setdefault(word.casefold(), place) for place, word in enumerate(words, 1))


def read_vectors(name: str, words: tuple[str, ...], size: int) -> Tensor:
    """Read the vectors [words + 1, size] of a file in GloVe's format; 0 for words that it lacks.

    A word that is not there in its own capitals takes the vector of its small letters, since most
    such files have small letters alone.
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
            f"vectors: {path} is not a text file of word vectors, a word and its numbers a line"
            f" ({error})"
        ) from error
    return table


@register_learner(
    "rasor",
    describe="RaSoR, which scores whole spans of the input, from scratch",
    load=load_reader,
)
@dataclass(frozen=True)
class RaSoRLearner(Reader):
    """Lee et al. 2016.

    Attributes:
        longest: The most words of a span.
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
    """Chen et al. 2017.

    Attributes:
        features: Exact match, match but for capitals, and term frequency.
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
    """Yu et al. 2018.

    Attributes:
        heads: Of self-attention.
        blocks: Of the model encoder, which is applied three times.
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
    """Hu et al. 2017, without the reinforced stage.

    Attributes:
        features: Exact match, match but for capitals, and term frequency.
        hops: Of alignment, and of the pointer.
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
    """Huang et al. 2018.

    Attributes:
        features: Exact match, match but for capitals, and term frequency.
    """

    features: bool = True

    name: ClassVar[str] = "fusionnet"

    def module(self, lexicon: Lexicon) -> nn.Module:
        """Build the module."""
        from taskloom.learners.scratch.nets.readers import FusionNet

        return FusionNet(lexicon, **self._sizes, features=self.features)
