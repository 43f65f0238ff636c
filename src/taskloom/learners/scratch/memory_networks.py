"""Memory networks for stories, trained from scratch: EntNet and STM, the specialised models of
Dyna-bAbI.

An input is a story of several sentences followed by a question. There is one output per answer of
the training split. Words are lower-cased and punctuation is removed. The paper trains for 200
epochs in batches of 32 and takes the best of 10 seeds (`fit_many` with `patience`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from taskloom.learners.config import register_learner
from taskloom.learners.scratch.classifiers import Scratch, load_scratch
from taskloom.learners.scratch.tokens import Encoded, Stories, WordVocabulary
from taskloom.learners.training.settings import Training

if TYPE_CHECKING:
    from taskloom.learners.scratch.nets.ops import Net

_EPOCHS = 56_250
"""Number of steps in 200 epochs of bAbI's 9,000 training questions in batches of 32."""


@dataclass(frozen=True)
class Storied(Scratch):
    """Base class of memory networks.

    Attributes:
        most_sentences: Maximum sentences to read, counted from the end of a story. The reference
            programs use 130 or 150.
    """

    most_sentences: int = 150

    def reader(self, texts: Iterable[str]) -> Stories:
        """Build a reader that splits stories into sentences."""
        return Stories.of(texts, self.most_sentences)

    def reader_of(self, card: Mapping[str, Any]) -> Stories:
        """Restore a saved reader."""
        return Stories(
            WordVocabulary(tuple(card["words"])), int(card["sentence"]), self.most_sentences
        )

    def describe_reader(self, reader: Stories) -> dict[str, Any]:
        """Return the reader's words, and the maximum words of a sentence."""
        return {"words": reader.words.words, "sentence": reader.sentence}

    def read(
        self, reader: Stories, net: Net, inputs: Sequence[str], labels: Sequence[int] | None = None
    ) -> Encoded:
        """Encode stories, which need no start or end marks."""
        return reader.encode(inputs, labels)


@register_learner(
    "entnet",
    describe="EntNet (recurrent entity network) for stories, from scratch",
    load=load_scratch,
)
@dataclass(frozen=True)
class EntNetLearner(Storied):
    """EntNet of Henaff et al. (2017), with Adam, a rate of 0.01 that is halved every 25 epochs, and
    20 slots of size 100. Dyna-bAbI uses `optimiser: sgd`.

    The reference clips the gradient of a batch's summed loss at 40. Here the loss is a mean, for
    which this is 40 / 32.

    Attributes:
        state: Size of a slot.
        slots: Number of entities that can be tracked.
    """

    training: Training = field(
        default_factory=lambda: Training(
            steps=_EPOCHS,
            batch=32,
            rate=0.01,
            warmup=0,
            halve_every=_EPOCHS // 8,
            optimiser="adam",
            clip=40 / 32,
        )
    )
    state: int = 100
    slots: int = 20

    name: ClassVar[str] = "entnet"

    def network_for(self, reader: Stories, classes: int) -> Net:
        """Build the network; see `nets.entnet`."""
        from taskloom.learners.scratch.nets.memory import EntNet

        return EntNet(len(reader.words.words), classes, reader.sentence, self.state, self.slots)


@register_learner(
    "stm",
    describe="STM (self-attentive associative memory) for stories, from scratch",
    load=load_scratch,
)
@dataclass(frozen=True)
class STMLearner(Storied):
    """STM of Le et al. (2020), with Adam, a rate of 6e-4 and a beta2 of 0.99. The authors use
    batches of 128 examples, Dyna-bAbI of 32.

    Attributes:
        embedding: Size of word vectors.
        state: Size d of the memories' d x d matrices.
        hidden: Inner size of the maps applied to encoded sentences and questions.
        slots: Number of relations that can be stored.
    """

    training: Training = field(
        default_factory=lambda: Training(
            steps=_EPOCHS, batch=32, rate=6e-4, warmup=281, optimiser="adam", beta2=0.99, clip=5.0
        )
    )
    most_sentences: int = 130
    embedding: int = 64
    state: int = 90
    hidden: int = 80
    slots: int = 20

    name: ClassVar[str] = "stm"

    def network_for(self, reader: Stories, classes: int) -> Net:
        """Build the network; see `nets.memory`."""
        from taskloom.learners.scratch.nets.memory import STM

        sizes = (self.embedding, self.state, self.hidden, self.slots)
        return STM(len(reader.words.words), classes, reader.sentence, *sizes)
