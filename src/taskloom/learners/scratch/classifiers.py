"""Classifiers trained from scratch: the bi-LSTM, the Transformer and NDR of CTL++, with the
reference's settings as defaults.

There is one output per answer of the training split. If the paper and the reference implementation
differ, the default is the reference's, because its parameter counts are the published ones.
`feed_forward: 512` (Transformer) or `1024` (NDR) follows the paper's text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from taskloom.core.errors import MissingExtra
from taskloom.core.files import path_of
from taskloom.learners.config import check_settings, later_setting, register_learner
from taskloom.learners.interface import (
    Fitted,
    LearnerError,
    Pairs,
    Point,
    Report,
    check_candidates,
    columns,
    evaluation_splits,
    texts,
)
from taskloom.learners.saved import (
    read_card,
    read_curve,
    read_learner,
    read_tensors,
    saving,
    write_tensors,
)
from taskloom.learners.scratch.tokens import Encoded, WordVocabulary, classes_of, encode
from taskloom.learners.training.settings import Training

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from taskloom.learners.scratch.nets.ops import Net
    from taskloom.learners.training.loop import TrainingOutcome

WEIGHTS = "weights.safetensors"

MOST_CLASSES = 10_000

Take = Callable[["Tensor", "dict[str, Tensor]"], "Tensor"]
"""Maps the logits and trace of a batch to the result per row."""


def load_scratch(folder: Path) -> Fitted:
    """Load a fitted classifier from its folder."""
    need_torch()
    card, learner = read_learner(folder)
    reader, classes = learner.reader_of(card), tuple(card["classes"])
    net = learner.network_for(reader, len(classes))
    weights = read_weights(folder, net, card["learner"])
    return Classifier(learner, net, weights, reader, classes, read_curve(card))


def read_weights(folder: Path, net: Net, name: str) -> dict[str, Tensor]:
    """Read a network's saved weights."""
    path = Path(folder) / WEIGHTS
    weights = read_tensors(path)
    if {n: tuple(w.shape) for n, w in weights.items()} != net.shapes():
        raise LearnerError(f"{path} does not hold the weights of this {name}; fit and save again")
    return weights


def need_torch() -> None:
    """Raise an error that names the missing extra."""
    try:
        import safetensors
        import torch  # noqa: F401
    except ImportError:
        raise MissingExtra("training a network", "torch and safetensors", "scratch") from None
    assert safetensors


F = TypeVar("F", bound=Fitted)


@dataclass(frozen=True)
class Prepared(Generic[F]):
    """A network and its data as arrays.

    Attributes:
        net: The network.
        train: Training data.
        held_out: Splits of its learning curve.
        fitted: Builds the fitted learner from the result of a seed.
        begin: Initial weights. None draws them from the seed.
    """

    net: Net
    train: Encoded
    held_out: Mapping[str, Encoded]
    fitted: Callable[[TrainingOutcome], F]
    begin: Mapping[str, Tensor] | None = None


@dataclass(frozen=True)
class Stacked(Generic[F]):
    """Base class of networks trained from scratch, with one seed or many."""

    training: Training = field(default_factory=Training)

    name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check_settings(self)

    def prepare(self, train: Pairs, evaluate: Mapping[str, Pairs]) -> Prepared[F]:
        """Build the network for some data."""
        raise NotImplementedError

    def fit(
        self,
        train: Pairs,
        evaluate: Mapping[str, Pairs] | None = None,
        seed: int = 0,
        *,
        folder: Path | None = None,
        progress: Report | None = None,
        seconds: float | None = None,
    ) -> F:
        """Train one seed; see `Learner.fit`."""
        return self.fit_many(
            train, evaluate, [seed], folder=folder, progress=progress, seconds=seconds
        )[0]

    def fit_many(
        self,
        train: Pairs,
        evaluate: Mapping[str, Pairs] | None = None,
        seeds: int | Sequence[int] = (0,),
        *,
        folder: Path | None = None,
        progress: Report | None = None,
        seconds: float | None = None,
    ) -> list[F]:
        """Train several seeds (a number, or a list) as one stacked program. Up to rounding, each
        seed gives the same result as if trained alone.
        """
        need_torch()
        from taskloom.learners.training.loop import train as run

        all_seeds = list(range(seeds) if isinstance(seeds, int) else seeds)
        ready = self.prepare(train, evaluation_splits(evaluate))
        more: dict[str, Any] = {
            "folder": folder,
            "progress": progress,
            "seconds": seconds,
            "begin": ready.begin,
        }
        outcomes = run(ready.net, ready.train, all_seeds, self.training, ready.held_out, **more)
        return [ready.fitted(outcome) for outcome in outcomes]

    def fit_each(
        self,
        data: Sequence[tuple[Pairs, Mapping[str, Pairs] | None]],
        seeds: int | Sequence[int] = (0,),
        *,
        folder: Path | None = None,
        progress: Report | None = None,
        seconds: float | None = None,
    ) -> list[list[F]]:
        """Train several seeds on each of several datasets as one stacked program. A dataset is a
        training split and its evaluated splits.

        The datasets need the same numbers of distinct words and answers, so that their networks
        have the same sizes; see `train_each`.
        """
        need_torch()
        from taskloom.learners.training.loop import LearningData, train_each

        all_seeds = list(range(seeds) if isinstance(seeds, int) else seeds)
        ready = [self.prepare(train, evaluation_splits(evaluate)) for train, evaluate in data]
        sizes_differ = any(one.net != ready[0].net for one in ready)
        if sizes_differ or any(one.begin is not None for one in ready):
            raise LearnerError(
                "datasets of one stack need networks of the same size, with drawn weights: give "
                "each the same number of distinct words and answers, and no start_from; fit the "
                "others by themselves"
            )
        sources = [LearningData(one.train, one.held_out) for one in ready]
        members = [(source, seed) for source in range(len(ready)) for seed in all_seeds]
        more: dict[str, Any] = {"folder": folder, "progress": progress, "seconds": seconds}
        outcomes = iter(train_each(ready[0].net, sources, members, self.training, **more))
        return [[one.fitted(next(outcomes)) for _ in all_seeds] for one in ready]


@dataclass(frozen=True)
class Scratch(Stacked["Classifier"]):
    """Base class of classifiers: encodes examples as arrays, with one output per answer.

    Attributes:
        start_from: Folder of a saved model of the same kind and size. Training starts with its
            words, answers and weights.
    """

    start_from: str = later_setting("")

    def network(self, vocabulary: int, classes: int) -> Net:
        """Build the network for the given numbers of words and answers."""
        raise NotImplementedError

    def reader(self, texts: Iterable[str]) -> Any:
        """Build the reader that converts inputs to arrays, from all texts that it will read. By
        default it splits texts into words.
        """
        return WordVocabulary.of(texts)

    def reader_of(self, card: Mapping[str, Any]) -> Any:
        """Restore the reader of a saved learner."""
        return WordVocabulary(tuple(card["words"]))

    def describe_reader(self, reader: Any) -> dict[str, Any]:
        """Return the data from which `reader_of` restores the reader."""
        return {"words": reader.words}

    def network_for(self, reader: Any, classes: int) -> Net:
        """Build the network for a reader."""
        return self.network(len(reader.words), classes)

    def read(
        self, reader: Any, net: Net, inputs: Sequence[str], labels: Sequence[int] | None = None
    ) -> Encoded:
        """Encode inputs in the network's format."""
        return frame(encode(inputs, reader, labels), net, reader)

    def prepare(self, train: Pairs, evaluate: Mapping[str, Pairs]) -> Prepared[Classifier]:
        """Build a reader for all inputs and a class for each training answer, or take both from the
        saved model to start from.
        """
        items = columns(train)
        tests = {name: columns(split, name) for name, split in evaluate.items()}
        begin: dict[str, Tensor] | None = None
        if self.start_from:
            reader, classes, net, begin = self._continued(items[1])
        else:
            # The vocabulary includes words that only occur in evaluated splits.
            every_input = chain(items[0], *(inputs for inputs, _ in tests.values()))
            reader = self.reader(every_input)
            classes = classes_of(items[1], MOST_CLASSES)
            net = self.network_for(reader, len(classes))
        label = {name: i for i, name in enumerate(classes)}

        def arrays(split: tuple[list[str], list[str]]) -> Encoded:
            return self.read(reader, net, split[0], [label.get(target, -1) for target in split[1]])

        def fitted(outcome: TrainingOutcome) -> Classifier:
            model = Classifier(self, net, outcome.weights, reader, classes, outcome.curve)
            model.step = outcome.step
            return model

        return Prepared(
            net,
            arrays(items),
            {name: arrays(split) for name, split in tests.items()},
            fitted,
            begin,
        )

    def _continued(
        self, answers: Sequence[str]
    ) -> tuple[Any, tuple[str, ...], Net, dict[str, Tensor]]:
        """Read words, answers and weights of the saved model, for the network that these settings
        describe.
        """
        folder = path_of(self.start_from)
        card = read_card(folder)
        if card["learner"] != self.name:
            raise LearnerError(
                f"start_from: {folder} holds the learner '{card['learner']}', not '{self.name}'"
            )
        reader, classes = self.reader_of(card), tuple(card["classes"])
        new = sorted(set(answers) - set(classes))
        if new:
            raise LearnerError(
                f"start_from: the model in {folder} has no output for the answer '{new[0][:60]}';"
                " fit it with that answer in its training split"
            )
        net = self.network_for(reader, len(classes))
        return reader, classes, net, read_weights(folder, net, self.name)


def frame(data: Encoded, net: Net, words: WordVocabulary) -> Encoded:
    """Add the start and end marks that the network requires."""
    start, end = net.frame
    return data.framed(words.sos if start else None, words.eos if end else None)


class Classifier:
    """A fitted from-scratch classifier."""

    def __init__(
        self,
        learner: Scratch,
        net: Net,
        weights: Mapping[str, Tensor],
        reader: Any,
        classes: tuple[str, ...],
        curve: tuple[Point, ...] = (),
        batch: int = 1024,
    ) -> None:
        self.learner = learner
        self.net = net
        self.reader = reader
        self.classes = classes
        self.curve = curve
        self.weights = dict(weights)
        self.batch = batch
        self.step: int | None = None  # identifies the weights during training

    def answer(self, inputs: Sequence[str]) -> list[str]:
        """Return the likeliest class of each input."""
        import torch

        chosen = self._run(
            texts(inputs), lambda logits, trace: logits.argmax(-1, keepdim=True).to(torch.int64)
        )
        return [self.classes[int(i)] for i in chosen[:, 0]]

    def logprob(
        self, inputs: Sequence[str], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """Return the log-probability of each candidate, or minus infinity for answers that are not
        in training.
        """
        inputs = texts(inputs)
        check_candidates(inputs, candidates)
        rows = self._run(inputs, lambda logits, trace: logits.log_softmax(-1))
        column = {name: i for i, name in enumerate(self.classes)}
        logprobs = []
        for row, answers in zip(rows, candidates, strict=True):
            logprobs.append(
                [float(row[column[a]]) if a in column else float("-inf") for a in answers]
            )
        return logprobs

    def represent(self, inputs: Sequence[str], where: str = "readout") -> NDArray[np.float32]:
        """Return the states at a named position: `readout` (the classifier's input), and in layered
        nets `layer.K` and `argument` (the last word).
        """
        from taskloom.core.errors import nearest

        def pick(logits: Tensor, trace: dict[str, Tensor]) -> Tensor:
            if where not in trace:
                raise LearnerError(
                    f"{self.learner.name} has no state '{where}'; {nearest(str(where), trace)}"
                )
            return trace[where][0]

        states: NDArray[np.float32] = self._run(texts(inputs), pick).numpy()
        return states

    def save(self, folder: Path) -> None:
        """Write weights as safetensors, everything else as JSON."""
        about = self.learner.describe_reader(self.reader)
        about["classes"] = self.classes
        with saving(folder, self.learner, self.curve, **about) as temporary:
            write_tensors(temporary / WEIGHTS, self.weights)

    @property
    def parameters(self) -> dict[str, int]:
        """Number of parameters, all of which are trained."""
        total = sum(weight.numel() for weight in self.weights.values())
        return {"total": total, "trained": total}

    def with_layers(self, layers: int) -> Classifier:
        """Return a copy of the model that applies its shared layer `layers` times when
        answering.
        """
        if not hasattr(self.learner, "layers_answering"):
            raise LearnerError(
                f"{self.learner.name} has no shared layer that could be applied more or less often"
            )
        learner: Any = replace(self.learner, layers_answering=layers)  # type: ignore[call-arg]
        net = learner.network_for(self.reader, len(self.classes))
        return Classifier(
            learner, net, self.weights, self.reader, self.classes, self.curve, self.batch
        )

    def _run(self, inputs: Sequence[str], take: Take) -> Tensor:
        """Compute a result for each input."""
        import torch

        if not inputs:
            return torch.zeros(0, 1)
        data = self.learner.read(self.reader, self.net, inputs)
        return in_batches(self.net, self.weights, data, self.learner.training, self.batch, take)


def in_batches(
    net: Net, weights: Mapping[str, Tensor], data: Encoded, how: Training, batch: int, take: Take
) -> Tensor:
    """Compute a result for each row, in batches of similar length, and return the results in the
    original order.
    """
    import torch

    from taskloom.learners.training.out_of_memory import in_halves
    from taskloom.learners.training.step import even_batches, pick_device, using_threads

    device = pick_device(how.device)
    stack = {n: w.to(device).unsqueeze(0) for n, w in weights.items()}
    out: Tensor | None = None

    def part(rows: list[int]) -> None:
        nonlocal out
        trace: dict[str, Tensor] = {}
        width = int(data.lengths[rows].max())
        tokens = torch.from_numpy(data.tokens[rows, :width]).to(device)
        lengths = torch.from_numpy(data.lengths[rows]).to(device)
        result = take(net.forward(stack, tokens, lengths, trace=trace)[0], trace).cpu()
        if out is None:
            out = result.new_empty(len(data), *result.shape[1:])
        out[torch.tensor(rows)] = result

    with torch.no_grad(), using_threads(how.threads):
        for rows, _ in even_batches(data.lengths, batch):
            in_halves(rows.tolist(), part)
    assert out is not None
    return out


@register_learner("bilstm", describe="bi-LSTM classifier of CTL++, from scratch", load=load_scratch)
@dataclass(frozen=True)
class BiLSTMLearner(Scratch):
    """The bi-LSTM of CTL++. The defaults are its settings for A and R: AdamW and a rate of 1.5e-4.
    For S, the reference uses Adam, a rate of 1e-3 and batches of 128.

    Attributes:
        state: Size of the embedding, and of both directions of the LSTM together.
        dropout: Dropout rate of the embedding.
    """

    state: int = 256
    dropout: float = 0.5

    name: ClassVar[str] = "bilstm"

    def network(self, vocabulary: int, classes: int) -> Net:
        """Build the network; see `nets.bilstm`."""
        from taskloom.learners.scratch.nets.bilstm import BiLSTM

        _even(self.name, self.state, 2)
        return BiLSTM(vocabulary, classes, self.state, self.dropout)


@register_learner(
    "transformer",
    describe="shared-layer Transformer with relative positions of CTL++, from scratch",
    load=load_scratch,
)
@dataclass(frozen=True)
class TransformerLearner(Scratch):
    """The Transformer of CTL++, with 300,000 steps and a weight decay of 0.0025.

    Attributes:
        state: Size of the states.
        heads: Attention heads.
        layers: Number of applications of the shared layer.
        feed_forward: Inner size of the feed-forward map; 512 in the paper's text.
        dropout: Dropout rate of attention's output, and inside and after the feed-forward map.
        attention_dropout: Dropout rate of keys, as in the reference.
        layers_answering: Number of applications when answering. 0 means as in training.
    """

    training: Training = field(default_factory=lambda: Training(steps=300_000, weight_decay=0.0025))
    state: int = 128
    heads: int = 4
    layers: int = 8
    feed_forward: int = 256
    dropout: float = 0.1
    attention_dropout: float = 0.1
    layers_answering: int = later_setting(0)

    name: ClassVar[str] = "transformer"

    def network(self, vocabulary: int, classes: int) -> Net:
        """Build the network; see `nets.transformer`."""
        from taskloom.learners.scratch.nets.transformer import Transformer

        _even(self.name, self.state, 2 * self.heads)
        rest = (
            self.state,
            self.heads,
            self.layers,
            self.feed_forward,
            self.dropout,
            self.attention_dropout,
        )
        return Transformer(vocabulary, classes, *rest, self.layers_answering)


@register_learner(
    "ndr", describe="NDR (geometric attention, copy gate) of CTL++, from scratch", load=load_scratch
)
@dataclass(frozen=True)
class NDRLearner(Scratch):
    """The NDR of CTL++, with gradients clipped at 1. The layer runs 8 times in training and 10
    times when answering.

    Attributes:
        state: Size of the states.
        heads: Attention heads.
        layers: Number of applications of the shared layer in training.
        layers_answering: Number of applications when answering.
        feed_forward: Inner size of the feed-forward map; 1024 in the paper's text.
        dropout: Dropout rate of attention's output.
        attention_dropout: Dropout rate of keys, as in the reference.
        gate_dropout: Share of positions whose copy gate is closed in each training step.
        begin: Initial weights: `zero-biases`, or `reference`, as in the public code (biases of
            queries, keys, values and inner maps uniform over +-1/sqrt(fan in), and the bounds for
            keys and values applied to halves of the heads).
    """

    training: Training = field(default_factory=lambda: Training(clip=1.0))
    state: int = 256
    heads: int = 4
    layers: int = 8
    layers_answering: int = 10
    feed_forward: int = 512
    dropout: float = 0.5
    attention_dropout: float = 0.1
    gate_dropout: float = 0.1
    begin: Literal["zero-biases", "reference"] = later_setting("zero-biases")

    name: ClassVar[str] = "ndr"

    def network(self, vocabulary: int, classes: int) -> Net:
        """Build the network; see `nets.ndr`."""
        from taskloom.learners.scratch.nets.ndr import NDR

        _even(self.name, self.state, self.heads)
        rest = (self.state, self.heads, self.layers, self.layers_answering, self.feed_forward)
        return NDR(
            vocabulary,
            classes,
            *rest,
            self.dropout,
            self.attention_dropout,
            self.gate_dropout,
            self.begin,
        )


def _even(name: str, state: int, parts: int) -> None:
    if state % parts:
        raise LearnerError(f"{name}: the state of {state} must be a multiple of {parts}")
