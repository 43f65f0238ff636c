"""Epochs, decay of the rate, label smoothing and Adafactor, against the libraries' own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import (  # noqa: E402
    get_cosine_schedule_with_warmup,
    get_linear_schedule_with_warmup,
)
from transformers.optimization import Adafactor  # noqa: E402
from transformers.trainer_pt_utils import LabelSmoother  # noqa: E402

from taskloom.learners import LearnerError, Paused  # noqa: E402
from taskloom.learners.config import digest_settings, read  # noqa: E402
from taskloom.learners.interface import examples  # noqa: E402
from taskloom.learners.pretrained.encoding import read_rows  # noqa: E402
from taskloom.learners.pretrained.forward import IGNORED, collate, losses  # noqa: E402
from taskloom.learners.pretrained.models import Sizes, from_scratch, open_base  # noqa: E402
from taskloom.learners.training.settings import Training  # noqa: E402
from taskloom.learners.training.step import Flat, TrainingState, update  # noqa: E402

PAIRS = [
    ("grass", "green"),
    ("sky", "blue"),
    ("snow", "white"),
    ("coal", "black"),
    ("sun", "yellow"),
]
TINY = Sizes(state=16, layers=1, heads=2, feed_forward=16, dropout=0.0, longest=64)
QUICK: dict[str, Any] = {
    "batch": 5,
    "warmup": 0,
    "evaluate_every": 0,
    "longest_answer": 4,
    "precision": "fp32",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = from_scratch(
        "encoder-decoder", [t for pair in PAIRS for t in pair] + [" |"], TINY, "words", seed=1
    )
    where: Path = tmp_path_factory.mktemp("base") / "model"
    base.model.save_pretrained(where)
    base.tokeniser.save_pretrained(where)
    return where


@pytest.mark.parametrize(
    ("decay", "schedule"),
    [("linear", get_linear_schedule_with_warmup), ("cosine", get_cosine_schedule_with_warmup)],
)
@pytest.mark.parametrize("warmup", [0, 4])
def test_decay_is_that_of_transformers(decay: Any, schedule: Any, warmup: int) -> None:
    how = Training(steps=20, rate=0.1, warmup=warmup, decay=decay, optimiser="sgd", clip=0.0)
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    theirs = schedule(optimiser, warmup, 20)
    flat = Flat({"a": (1,)}, 2, torch.device("cpu"))
    state = TrainingState(flat, fp16=False)
    for step in range(20):
        before = float(state.weights[1, 0])
        update(state, torch.ones_like(state.weights), how, fp16=False)
        state.step.add_(1)
        # In the warm-up we count from 1 as CTL++ does, transformers from 0: its first step would do
        # nothing.
        if step >= warmup:
            assert how.rate_at(step) == pytest.approx(theirs.get_last_lr()[0], abs=1e-9)
        assert before - float(state.weights[1, 0]) == pytest.approx(how.rate_at(step), abs=1e-6)
        optimiser.step()
        theirs.step()


def test_epochs_are_turned_into_steps() -> None:
    how = Training(epochs=3, evaluate_epochs=1, batch=50)
    assert (how.for_rows(1030).steps, how.for_rows(1030).evaluate_every) == (60, 20)
    assert how.for_rows(7).steps == 3  # a split that is smaller than a batch is one batch
    assert Training().for_rows(1030) == Training()
    with pytest.raises(LearnerError, match="steps and epochs are both set"):
        read({"learner": "bilstm", "steps": 5, "epochs": 2})
    pairs = [("a", "0"), ("b", "1")] * 8
    small = {"learner": "bilstm", "state": 4, "batch": 4, "precision": "fp32"}
    fitted = read({**small, "epochs": 2, "evaluate_epochs": 1}).fit(pairs)
    assert [p.step for p in fitted.curve] == [4, 8]
    with pytest.raises(LearnerError, match="decay is linear and halve_every is 5"):
        Training(decay="linear", halve_every=5)


def test_later_settings_left_alone_change_no_digest() -> None:
    assert not {"epochs", "evaluate_epochs", "decay", "label_smoothing"} & set(
        digest_settings(Training())
    )
    assert digest_settings(Training(epochs=2))["epochs"] == 2


def test_label_smoothing_is_that_of_transformers(folder: Path) -> None:
    base = open_base(str(folder))
    batch = collate(base, [[3, 4], [5]], [[5, 6, 1], [7, 1]])
    plain, counts, _ = losses(base, batch)
    smooth, _, _ = losses(base, batch, smoothing=0.2)
    logits = base.model(input_ids=batch.ids, attention_mask=batch.mask, labels=batch.labels).logits
    theirs = LabelSmoother(epsilon=0.2, ignore_index=IGNORED)({"logits": logits}, batch.labels)
    assert (smooth.sum() / counts.sum()).item() == pytest.approx(theirs.item(), rel=1e-5)
    assert smooth.sum().item() != pytest.approx(plain.sum().item(), rel=1e-3)
    # In training only: points of other splits show the loss itself.
    block = {
        "learner": "bilstm",
        "state": 4,
        "batch": 4,
        "steps": 1,
        "rate": 1e-9,
        "dropout": 0.0,
        "precision": "fp32",
    }
    pairs = [("a", "0"), ("b", "1"), ("a b", "2"), ("b a", "1")]
    both = [
        read({**block, "label_smoothing": e}).fit(pairs, {"dev": pairs}).curve for e in (0.0, 0.5)
    ]
    loss = [{p.split: p.loss for p in curve} for curve in both]
    assert loss[0]["dev"] == pytest.approx(loss[1]["dev"], abs=1e-6)
    assert loss[0]["train"] != pytest.approx(loss[1]["train"], abs=1e-3)


def test_adafactor_is_that_of_transformers(folder: Path, tmp_path: Path) -> None:
    more = {**QUICK, "optimiser": "adafactor", "rate": 1e-2, "clip": 0, "steps": 3}
    learner: Any = read({"learner": "fine-tune", "model": str(folder), **more})
    fitted = learner.fit(PAIRS, seed=0)
    base = open_base(str(folder))
    rows = read_rows(base, examples(PAIRS), " |")
    theirs = Adafactor(base.model.parameters(), lr=1e-2, relative_step=False)
    for _ in range(3):
        each, counts, _ = losses(base, collate(base, rows.sources, [t[0] for t in rows.targets]))
        theirs.zero_grad()
        torch.autograd.backward(each.sum() / counts.sum())
        theirs.step()
    for name, weight in base.model.named_parameters():
        assert torch.allclose(
            dict(fitted.base.model.named_parameters())[name], weight, atol=1e-5
        ), name
    with pytest.raises(Paused):
        learner.fit(PAIRS, seed=0, folder=tmp_path, seconds=0)
    resumed = learner.fit(PAIRS, seed=0, folder=tmp_path)
    for name, weight in fitted.base.model.state_dict().items():
        assert bool((resumed.base.model.state_dict()[name] == weight).all()), name


def test_what_cannot_be_is_refused(folder: Path) -> None:
    with pytest.raises(LearnerError, match="only for language models"):
        read({"learner": "bilstm", "optimiser": "adafactor", "steps": 1}).fit(PAIRS)
    tuned: Any = read(
        {"learner": "prompt-tune", "model": str(folder), "n": 2, **QUICK, "optimiser": "adafactor"}
    )
    with pytest.raises(LearnerError, match="train one task at a time"):
        tuned.fit_tasks({"a": PAIRS, "b": PAIRS})
    with pytest.raises(LearnerError, match="points at spans"):
        read({"learner": "bidaf", "label_smoothing": 0.1, "steps": 1}).fit(
            [("Mary went to the park. Where is Mary?", "park")]
        )
