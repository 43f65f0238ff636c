"""Stacks whose members learn from data of their own."""

from __future__ import annotations

import dataclasses
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.slow import slow_except

from taskloom.learners.interface import LearnerError, Paused
from taskloom.learners.scratch.classifiers import BiLSTMLearner
from taskloom.learners.scratch.nets import ops
from taskloom.learners.scratch.nets.bilstm import BiLSTM
from taskloom.learners.scratch.nets.memory import EntNet
from taskloom.learners.scratch.nets.ndr import NDR
from taskloom.learners.scratch.nets.transformer import Transformer
from taskloom.learners.scratch.tokens import Encoded
from taskloom.learners.training import checkpoint, loop
from taskloom.learners.training.loop import LearningData, TrainingOutcome, train, train_each
from taskloom.learners.training.settings import Training

HOW = Training(
    batch=16, steps=6, rate=1e-2, warmup=2, clip=0.5, evaluate_every=3, device="cpu", threads=1
)
NETS: dict[str, Any] = {
    "bilstm": BiLSTM(8, 3, state=12),
    "ndr": NDR(8, 3, state=12, heads=2, layers=2, layers_answering=3, feed_forward=16),
    "transformer": Transformer(8, 3, state=16, heads=2, layers=2, feed_forward=20),
}


def rows(n: int, longest: int, seed: int) -> Encoded:
    random = np.random.default_rng(seed)
    lengths = random.integers(2, longest + 1, n)
    lengths[0] = longest
    return Encoded(random.integers(0, 8, (n, longest)), lengths, random.integers(0, 3, n))


def sources() -> list[LearningData]:
    """Three datasets of different sizes, with test splits of different sizes."""
    return [
        LearningData(rows(n, 7, i), {"ood": rows(10 + 7 * i, 5 + i, 10 + i)})
        for i, n in enumerate((40, 64, 51))
    ]


def largest(one: TrainingOutcome, other: TrainingOutcome) -> float:
    return max(float((one.weights[n] - other.weights[n]).abs().max()) for n in one.weights)


MEMBERS = [(1, 0), (0, 0), (2, 3), (1, 4)]


@pytest.mark.parametrize(
    ("name", "form"),
    slow_except(
        product(NETS, ["as on a CPU", "as on a GPU"]),
        ("bilstm", "as on a CPU"),
        ("transformer", "as on a GPU"),
        ("ndr", "as on a CPU"),
        ("ndr", "as on a GPU"),
    ),
)
def test_a_member_ends_as_it_does_alone(
    name: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batched = form == "as on a GPU"
    if batched:
        monkeypatch.setattr(ops, "one_by_one", lambda x: False)
    # Not Adam, which turns the rounding of a gradient near zero into a step.
    plain = dataclasses.replace(HOW, optimiser="sgd", rate=0.1)
    together = train_each(NETS[name], sources(), MEMBERS, plain)
    how = dataclasses.replace(plain, shortest=7)
    for (place, seed), outcome in zip(MEMBERS, together, strict=True):
        source = sources()[place]
        alone = train(NETS[name], source.train, [seed], how, source.evaluate)[0]
        assert largest(outcome, alone) <= (1e-5 if batched or name == "transformer" else 0.0)
        scores = [(p.step, p.split, p.score) for p in outcome.curve]
        assert scores == [(p.step, p.split, p.score) for p in alone.curve]
        assert {split for _, split, _ in scores} == {"train", "ood"}


def test_datasets_with_equally_many_inputs_of_each_length_are_padded_no_further_than_alone() -> (
    None
):
    first, second = rows(48, 7, 0), rows(48, 7, 1)
    second = dataclasses.replace(second, lengths=first.lengths)
    data = [LearningData(first, {}), LearningData(second, {})]
    members = [(0, 0), (1, 0), (1, 3)]
    for (place, seed), outcome in zip(
        members, train_each(NETS["ndr"], data, members, HOW), strict=True
    ):
        assert largest(outcome, train(NETS["ndr"], data[place].train, [seed], HOW)[0]) == 0


def test_members_learn_from_their_own_data() -> None:
    """Two datasets that contradict each other: each member follows its own."""
    one = rows(64, 3, 0)
    zeros, twos = (
        LearningData(dataclasses.replace(one, labels=np.full(64, k)), {}) for k in (0, 2)
    )
    how = dataclasses.replace(HOW, steps=40, evaluate_every=40)
    first, second = train_each(NETS["bilstm"], [zeros, twos], [(0, 0), (1, 0)], how)
    for outcome, source, right, wrong in ((first, zeros, 1.0, 0.0), (second, twos, 1.0, 0.0)):
        assert outcome.curve[-1].score > 0.9
        assert _score(outcome, source) == right
        assert _score(outcome, twos if source is zeros else zeros) == wrong


def _score(outcome: TrainingOutcome, source: LearningData) -> float:
    net, data = NETS["bilstm"], source.train
    stack = {n: w.unsqueeze(0) for n, w in outcome.weights.items()}
    logits = net.forward(stack, torch.from_numpy(data.tokens), torch.from_numpy(data.lengths))
    return float((logits[0].argmax(-1).numpy() == data.labels).mean())


def test_a_stack_of_datasets_resumes_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "LOOK_EVERY", 8)
    how = dataclasses.replace(HOW, steps=12)
    whole = train_each(NETS["bilstm"], sources(), MEMBERS, how)
    with pytest.raises(Paused):
        train_each(NETS["bilstm"], sources(), MEMBERS, how, folder=tmp_path, seconds=0)
    resumed = train_each(NETS["bilstm"], sources(), MEMBERS, how, folder=tmp_path)
    assert all(
        largest(a, b) == 0 and a.curve == b.curve for a, b in zip(whole, resumed, strict=True)
    )


def test_parts_of_a_stack_resume_by_themselves_and_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint is cut by its members (as `benchmarks/ctlpp_gpu.py` does), a part trained on,
    and all parts joined again.
    """
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    from ctlpp_gpu import cut, join, read_saved

    monkeypatch.setattr(loop, "LOOK_EVERY", 8)
    net, data, how = NETS["bilstm"], sources(), dataclasses.replace(HOW, steps=12)
    whole = train_each(net, data, MEMBERS, how)
    with pytest.raises(Paused):
        train_each(net, data, MEMBERS, how, folder=tmp_path, seconds=0)
    first, rest = (cut(read_saved(tmp_path), places) for places in ([0, 3], [2, 1]))
    for folder, saved in (("part", first), ("joined", join([rest, first]))):
        (tmp_path / folder).mkdir()
        checkpoint.save(tmp_path / folder, *saved)
    as_wide = dataclasses.replace(how, shortest=7)
    alone = train_each(net, [data[1]], [(0, 0), (0, 4)], as_wide, folder=tmp_path / "part")
    order = [data[2], data[0], data[1]]
    together = train_each(
        net, order, [(0, 3), (1, 0), (2, 0), (2, 4)], how, folder=tmp_path / "joined"
    )
    for resumed, place in zip([*alone, *together], [0, 3, 2, 1, 0, 3], strict=True):
        assert largest(resumed, whole[place]) == 0
        assert resumed.curve == whole[place].curve
    with pytest.raises(SystemExit, match="different steps"):
        join([read_saved(tmp_path), read_saved(tmp_path / "part")])


def test_seeds_of_several_datasets_are_one_call() -> None:
    """Tables that differ in one function; each model knows its own."""
    texts = [f"{f} {s}" for f in "ab" for s in "0123"]
    shift = [(text, str((int(text[2]) + (text[0] == "b")) % 4)) for text in texts]
    flip = [(text, str(3 - int(text[2]) if text[0] == "b" else int(text[2]))) for text in texts]
    learner = BiLSTMLearner(
        training=dataclasses.replace(HOW, steps=150, batch=8, rate=0.02, evaluate_every=0),
        state=16,
        dropout=0.0,
    )
    models = learner.fit_each([(shift, {"all": shift}), (flip, None)], seeds=2)
    for own, pairs in zip(models, (shift, flip), strict=True):
        assert len(own) == 2
        assert all(model.answer(texts) == [answer for _, answer in pairs] for model in own)
    assert [p.split for p in models[0][0].curve] == ["train", "all"]
    with pytest.raises(LearnerError, match="the same number of distinct words"):
        learner.fit_each([(shift, None), (flip[:4], None)], seeds=1)


@pytest.mark.parametrize(
    ("net", "members", "how", "message"),
    [
        (
            EntNet(9, 3, sentence=3, slots=2, state=4),
            [(0, 0)],
            HOW,
            "reads one input for all seeds",
        ),
        (NETS["bilstm"], [], HOW, "at least one"),
        (NETS["bilstm"], [(0, 1), (0, 1)], HOW, "must be different"),
        (NETS["bilstm"], MEMBERS, dataclasses.replace(HOW, batch=60), "smaller than a batch"),
        (NETS["bilstm"], MEMBERS, dataclasses.replace(HOW, epochs=2.0), "set steps"),
    ],
)
def test_a_stack_that_cannot_be_is_refused(
    net: Any, members: Any, how: Training, message: str
) -> None:
    with pytest.raises(LearnerError, match=message):
        train_each(net, sources(), members, how)
