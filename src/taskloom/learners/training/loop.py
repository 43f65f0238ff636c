"""The training loop, which turns a network, data and seeds into weights and learning curves and can
resume at any step.

Every random choice is a function of the seed and the step (initial weights, dropout) or of the
order seed and the epoch (batches). So a resumed run gives the same result as an uninterrupted one,
and a seed gives the same result in a stack as alone.

Batches are built as in the reference: shuffle, drop the remainder, sort by length (stably), cut
into batches, shuffle the batches. So all rows of a batch have the same length, except at the border
between two lengths.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from taskloom.core.seeding import Key
from taskloom.learners.interface import (
    LearnerError,
    Paused,
    Point,
    Progress,
    Report,
    TrainingError,
    check_seed,
    report_points,
    report_step,
)
from taskloom.learners.scratch.nets.ops import Net, count, describe
from taskloom.learners.scratch.tokens import Encoded
from taskloom.learners.training import checkpoint
from taskloom.learners.training.checkpoint import Watch, watching
from taskloom.learners.training.out_of_memory import check_room, room_for
from taskloom.learners.training.settings import Training
from taskloom.learners.training.step import Resident, Stepper, using_threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from taskloom.learners.training.settings import Training

LOOK_EVERY = 100
"""Steps between reads of progress, errors and time from the device. A read waits for the device."""


@dataclass(frozen=True, slots=True)
class TrainingOutcome:
    """Result of one seed.

    Attributes:
        weights: Weights by name, on the CPU, without the axis of seeds.
        curve: Learning curve.
        step: Step of these weights.
    """

    weights: dict[str, Tensor]
    curve: tuple[Point, ...]
    step: int


@dataclass(slots=True)
class _Record:
    """Learning curve and early stopping of one seed."""

    curve: list[Point] = field(default_factory=list)
    best: float = -1.0
    best_step: int = 0
    since: int = 0

    def stopped(self, patience: int) -> bool:
        return bool(patience) and self.since >= patience


def train(
    net: Net,
    data: Encoded,
    seeds: Sequence[int],
    how: Training,
    evaluate: Mapping[str, Encoded] | None = None,
    *,
    folder: Path | None = None,
    progress: Report | None = None,
    seconds: float | None = None,
    begin: Mapping[str, Tensor] | None = None,
) -> list[TrainingOutcome]:
    """Train a network once per seed, with all seeds in one program.

    Args:
        net: The network.
        data: Framed training data; labels must be classes.
        seeds: Distinct seeds for initial weights and dropout.
        how: The settings.
        evaluate: Framed data for the learning curve; `dev` decides when to stop if `patience` is
            set.
        folder: Folder of checkpoints; a run found there is resumed.
        progress: Called about every hundred steps.
        seconds: Time limit of this call, after which the run is saved and `Paused` raised. Needs a
            folder.
        begin: Initial weights for every seed. None draws them.
    """
    if len(set(seeds)) != len(seeds) or not seeds:
        raise LearnerError(f"seeds must be different and at least one, not {list(seeds)}")
    return _train(
        net,
        [LearningData(data, evaluate or {})],
        [(0, s) for s in seeds],
        how,
        folder,
        progress,
        seconds,
        begin,
    )


def train_each(
    net: Net,
    sources: Sequence[LearningData],
    members: Sequence[tuple[int, int]],
    how: Training,
    *,
    folder: Path | None = None,
    progress: Report | None = None,
    seconds: float | None = None,
) -> list[TrainingOutcome]:
    """Train a network once per member of a stack, with all members in one program and separate data
    for each.

    If the datasets have the same number of inputs of each length, the batches of a step have the
    same width (except at borders between two lengths), and each member gets the same result as
    alone. Otherwise every batch is padded to the longest input of all datasets. A member whose
    longest input has that length then gets the same result as alone with `shortest` set to that
    length. Dropout masks belong to the padded batch, so wider batches have different masks.

    Args:
        net: A network that takes separate inputs for each seed (`own_inputs`).
        sources: The datasets, with equal numbers of batches and steps.
        members: The source and the seed of each member.
        how: The settings.
        folder: As in `train`.
        progress: As in `train`.
        seconds: As in `train`.
    """
    if not getattr(net, "own_inputs", False):
        raise LearnerError(
            f"{type(net).__name__} reads one input for all seeds of a stack; train each dataset by"
            " itself"
        )
    if not members or len(set(members)) != len(members):
        raise LearnerError(
            "the members of a stack must be different pairs of dataset and seed, and at least one"
        )
    if not _equally_long(sources):
        longest = max(int(source.train.lengths.max(initial=0)) for source in sources)
        how = dataclasses.replace(how, shortest=max(how.shortest, longest))
    return _train(net, sources, members, how, folder, progress, seconds, None)


def _equally_long(sources: Sequence[LearningData]) -> bool:
    """True if all datasets have the same number of inputs of each length."""
    counts = [np.bincount(source.train.lengths).tolist() for source in sources]
    return all(one == counts[0] for one in counts)


def _train(
    net: Net,
    sources: Sequence[LearningData],
    members: Sequence[tuple[int, int]],
    how: Training,
    folder: Path | None,
    progress: Report | None,
    seconds: float | None,
    begin: Mapping[str, Tensor] | None,
) -> list[TrainingOutcome]:
    hows = [how.for_rows(len(source.train)) for source in sources]
    if any(one.steps != hows[0].steps for one in hows):
        raise LearnerError(
            "the datasets of a stack have different numbers of rows, so their epochs have "
            "different numbers of steps; set steps"
        )
    for _, seed in members:
        check_seed(seed)
    for source in sources:
        _check(source, hows[0], folder, seconds)
    folder = None if folder is None else Path(folder)
    with using_threads(how.threads), watching(folder) as watch:
        return _Run(net, sources, members, hows[0], folder, begin).go(watch, progress, seconds)


def _check(source: LearningData, how: Training, folder: Path | None, seconds: float | None) -> None:
    data, evaluate = source.train, source.evaluate
    if len(data) == 0:
        raise LearnerError("there is nothing to learn from: the split is empty")
    if (data.labels < 0).any():
        raise LearnerError("a training example has an answer that is not a class of the network")
    if how.optimiser == "adafactor":
        raise LearnerError(
            "optimiser is adafactor, which is only for language models; use adamw, adam or sgd"
        )
    if how.patience and "dev" not in evaluate:
        raise LearnerError(
            "patience stops a run by its score on the split 'dev', and there is none: pass"
            " evaluate={'dev': …} or set patience to 0 (a test split is never used to choose)"
        )
    if seconds is not None and folder is None:
        raise LearnerError("a run with limited time needs a folder to be resumed from")


class _Run:
    def __init__(
        self,
        net: Net,
        sources: Sequence[LearningData],
        members: Sequence[tuple[int, int]],
        how: Training,
        folder: Path | None,
        begin: Mapping[str, Tensor] | None = None,
    ) -> None:
        seeds = [seed for _, seed in members]
        self.members, self.how, self.folder = list(members), how, folder
        what = f"the network, {len(seeds)} time(s),"
        check_room(what, len(seeds) * count(net))
        with room_for(what):
            self.stepper = Stepper(net, joined([source.train for source in sources]), seeds, how)
        if begin is not None:
            for name, view in self.stepper.flat.views().items():
                view.copy_(begin[name])
        self.batches = StackBatches(sources, members, how)
        device = self.stepper.device
        self.splits = [
            {name: Resident(split, device) for name, split in one.evaluate.items()}
            for one in sources
        ]
        self.records = [_Record() for _ in members]
        self.best = self.stepper.state.weights.detach().clone() if how.patience else None
        self.measured = 0  # step of the last point; training losses are summed since then
        self.loss = 0.0
        self.done = 0
        self.seconds_before = 0.0
        self.identity = _identity(net, sources, members, how)
        if begin is not None:
            self.identity["the weights that it began with"] = _digest_weights(begin)
        self._resume()

    def go(
        self, watch: Watch, progress: Report | None, seconds: float | None
    ) -> list[TrainingOutcome]:
        began = time.monotonic()
        points, how, stepper = self.how.points(), self.how, self.stepper
        while self.done < how.steps and not all(r.stopped(how.patience) for r in self.records):
            stepper.advance(*self.batches.at(self.done, stepper.device))
            self.done += 1
            spent = self.seconds_before + time.monotonic() - began
            if self.done in points:
                self._measure()
            if self.done % LOOK_EVERY == 0 or self.done in points:
                loss = self._look()
                now_at = Progress(self.done, how.steps, loss, spent)
                report_step(now_at)
                if progress:
                    progress(now_at)
            regular = self.done % how.checkpoint_every == 0
            if self.folder and self.done < how.steps and (regular or watch.due()):
                with watch.saving():
                    self._save(spent)
                watch.end(self.done, how.steps)
            out_of_time = seconds is not None and time.monotonic() - began > seconds
            if out_of_time and self.done % LOOK_EVERY == 0:
                self._save(spent)
                raise Paused(
                    f"the run is saved after step {self.done} of {how.steps}; repeat the call to"
                    " resume it"
                )
        if self.folder:
            self._save(self.seconds_before + time.monotonic() - began)
        return self._outcomes()

    def _look(self) -> float:
        """Return the mean training loss since the last point. A loss that is not a number ends the
        run.
        """
        state = self.stepper.state
        bad = state.bad.tolist()
        for (_, seed), step in zip(self.members, bad, strict=True):
            if step >= 0:
                self._fault(f"the loss of seed {seed} is not a number", step)
        if self.done > self.measured:
            self.loss = float(state.loss.mean()) / (self.done - self.measured)
        return self.loss

    def _fault(self, what: str, step: int) -> NoReturn:
        raise TrainingError(f"{what} after step {step}; {checkpoint.note_fault(self.folder, step)}")

    def _measure(self) -> None:
        state, n = self.stepper.state, self.done - self.measured
        self._look()
        train = list(zip((state.right / n).tolist(), (state.loss / n).tolist(), strict=True))
        tests = self._scores()
        state.right.zero_()
        state.loss.zero_()
        self.measured = self.done
        for s, record in enumerate(self.records):
            if record.stopped(self.how.patience):
                continue
            scores = {"train": train[s], **tests[s]}
            points = [Point(self.done, name, float(a), float(b)) for name, (a, b) in scores.items()]
            record.curve += points
            report_points(s, points)
            if self.best is not None and "dev" in scores:
                score = scores["dev"][0]
                record.since += 1
                if score > record.best:
                    record.best, record.best_step, record.since = score, self.done, 0
                    self.best[s].copy_(state.weights[s].detach())

    def _scores(self) -> list[dict[str, tuple[float, float]]]:
        """Return the score and mean loss of each member on each split of its dataset."""
        scores: list[dict[str, tuple[float, float]]] = [{} for _ in self.members]
        for i, splits in enumerate(self.splits):
            members = [s for s, (source, _) in enumerate(self.members) if source == i]
            weights = None
            if len(self.splits) > 1:  # selecting weights copies them
                weights = {n: w.detach()[members] for n, w in self.stepper.weights.items()}
            for name, split in splits.items():
                rights, losses = self.stepper.measure(split, weights)
                for s, right, loss in zip(members, rights, losses, strict=True):
                    scores[s][name] = (right, loss)
        return scores

    def _outcomes(self) -> list[TrainingOutcome]:
        matrix = self.stepper.state.weights if self.best is None else self.best
        views = self.stepper.flat.views(matrix)
        outcomes = []
        for s, record in enumerate(self.records):
            weights = {name: view[s].detach().cpu().clone() for name, view in views.items()}
            step = self.done if self.best is None else record.best_step
            outcomes.append(TrainingOutcome(weights, tuple(record.curve), step))
        return outcomes

    def _save(self, spent: float) -> None:
        assert self.folder is not None
        # raises an error for a broken state, which must never replace a good checkpoint
        self._look()
        if not checkpoint.sound([self.stepper.state.weights]):
            self._fault("a weight is not a number", self.done - 1)
        tensors = self.stepper.state.tensors()
        if self.best is not None:
            tensors["best"] = self.best
        about = {
            "identity": self.identity,
            "done": self.done,
            "measured": self.measured,
            "seconds": spent,
            "records": [dataclasses.asdict(r) for r in self.records],
        }
        checkpoint.save(self.folder, tensors, about)

    def _resume(self) -> None:
        saved = checkpoint.read(self.folder) if self.folder else None
        if saved is None:
            return
        tensors, about = saved
        assert self.folder is not None
        with checkpoint.restoring(self.folder):
            checkpoint.same_run(self.folder, about["identity"], self.identity)
            self.stepper.state.restore(tensors)
            if self.best is not None:
                self.best.copy_(tensors["best"])
            self.done = about["done"]
            self.measured = about["measured"]
            self.seconds_before = about["seconds"]
            self.records = []
            for saved_record in about["records"]:
                curve = [Point(**point) for point in saved_record["curve"]]
                self.records.append(_Record(**{**saved_record, "curve": curve}))


def _identity(
    net: Net, sources: Sequence[LearningData], members: Sequence[tuple[int, int]], how: Training
) -> dict[str, Any]:
    """Identity of a run as JSON values. Two runs with equal identities are the same run."""
    data = [_digest(source.train) for source in sources]
    evaluate = [
        {name: _digest(split) for name, split in source.evaluate.items()} for source in sources
    ]
    described: dict[str, Any] = {
        "network": describe(net),
        "settings": checkpoint.lasting(how),
        "seeds": [seed for _, seed in members],
        "data": data[0] if len(data) == 1 else data,
        "evaluate": evaluate[0] if len(data) == 1 else evaluate,
    }
    if len(data) > 1:
        described["members"] = [list(member) for member in members]
    kept: dict[str, Any] = json.loads(json.dumps(described))
    return kept


def _digest_weights(weights: Mapping[str, Tensor]) -> str:
    hashed = blake2b(digest_size=16)
    for name in sorted(weights):
        hashed.update(name.encode())
        hashed.update(weights[name].detach().cpu().contiguous().numpy().tobytes())
    return hashed.hexdigest()


def _digest(data: Encoded) -> str:
    hashed = blake2b(digest_size=16)
    for array in (data.tokens, data.lengths, data.labels):
        hashed.update(str(array.shape).encode())
        hashed.update(np.ascontiguousarray(array).tobytes())
    return hashed.hexdigest()


class Order:
    """Batches of a run, epoch by epoch."""

    def __init__(
        self, lengths: NDArray[np.int64], batch: int, seed: int, shortest: int = 0
    ) -> None:
        if len(lengths) < batch:
            batch = len(lengths)  # a split smaller than a batch is one batch
        if batch == 0:
            raise LearnerError("there is nothing to learn from: the split is empty")
        self.lengths = lengths
        self.batch = batch
        self.shortest = min(shortest, int(lengths.max()))
        self.per_epoch = len(lengths) // batch
        # Counting sort of 16-bit numbers is ten times as fast, and a GPU waits until an epoch is
        # sorted.
        self._short = lengths.astype(np.uint16) if lengths.max() < 1 << 16 else lengths
        self._key = Key("batches", seed)
        self._epoch = -1
        self._rows: NDArray[np.int64] = np.zeros((0, 0), dtype=np.int64)
        self._widths: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def epoch(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows [batches, batch] of an epoch, and the width of each batch in tokens."""
        if number != self._epoch:
            key = self._key.child("epoch", number)
            n = self.per_epoch * self.batch
            # Sorting by random words is a shuffle.
            shuffled = np.argsort(key.words(0, len(self.lengths)), kind="stable")[:n]
            by_length = shuffled[np.argsort(self._short[shuffled], kind="stable")]
            batches = by_length.reshape(self.per_epoch, self.batch)
            order = np.argsort(key.child("batches").words(0, self.per_epoch), kind="stable")
            rows = batches[order]
            self._epoch, self._rows = number, rows
            self._widths = np.maximum(self.lengths[rows].max(1), self.shortest)
        return self._rows, self._widths

    def position(self, step: int) -> tuple[int, int]:
        """Return the epoch of a step, and the index of its batch in the epoch."""
        return divmod(step, self.per_epoch)


@dataclass(frozen=True, slots=True)
class LearningData:
    """Framed training data of one or more members of a stack, and the splits for their learning
    curves.
    """

    train: Encoded
    evaluate: Mapping[str, Encoded]


def joined(datasets: Sequence[Encoded]) -> Encoded:
    """Concatenate datasets."""
    if len(datasets) == 1:
        return datasets[0]
    longest = max(one.tokens.shape[1] for one in datasets)
    tokens = [np.pad(one.tokens, ((0, 0), (0, longest - one.tokens.shape[1]))) for one in datasets]
    return Encoded(
        np.concatenate(tokens),
        np.concatenate([one.lengths for one in datasets]),
        np.concatenate([one.labels for one in datasets]),
    )


class StackBatches:
    """Rows of each step, either shared by all members or separate for each member."""

    def __init__(
        self, sources: Sequence[LearningData], members: Sequence[tuple[int, int]], how: Training
    ) -> None:
        self.orders = [
            Order(source.train.lengths, how.batch, how.order_seed, how.shortest)
            for source in sources
        ]
        if len({order.batch for order in self.orders}) > 1:
            raise LearnerError("a dataset of a stack is smaller than a batch; set a smaller batch")
        self.members = torch.tensor([source for source, _ in members])
        self.firsts = np.cumsum([0] + [len(source.train) for source in sources])
        self._epochs = [-1] * len(sources)
        self._rows = [torch.zeros(0)] * len(sources)
        self._widths = [np.zeros(0, dtype=np.int64)] * len(sources)

    def at(self, step: int, device: torch.device) -> tuple[Tensor, int]:
        """Return the rows [batch] or [members, batch] of a step, as indices into the concatenated
        datasets, and their width.
        """
        positions = [order.position(step) for order in self.orders]
        new = [i for i, (epoch, _) in enumerate(positions) if epoch != self._epochs[i]]
        # Sort all epochs before copying anything. A copy waits for the device, which can work on
        # earlier steps during the sort.
        sorted_epochs = [self.orders[i].epoch(positions[i][0]) for i in new]
        for i, (epoch_rows, widths) in zip(new, sorted_epochs, strict=True):
            self._rows[i] = torch.from_numpy(epoch_rows + self.firsts[i]).to(device)
            self._widths[i] = widths
            self._epochs[i] = positions[i][0]
        rows, width = [], 0
        for i, (_, batch) in enumerate(positions):
            rows.append(self._rows[i][batch])
            width = max(width, int(self._widths[i][batch]))
        if len(rows) == 1:
            return rows[0], width
        if self.members.device != device:
            self.members = self.members.to(device)
        return torch.stack(rows)[self.members], width
