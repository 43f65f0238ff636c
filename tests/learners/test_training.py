"""The parts of the training loop against torch's own optimiser and against counting."""

from __future__ import annotations

import contextlib
import gc
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from taskloom.learners import LearnerError  # noqa: E402
from taskloom.learners.scratch.nets.ops import DropoutKeys, keep  # noqa: E402
from taskloom.learners.training.loop import Order  # noqa: E402
from taskloom.learners.training.out_of_memory import check_room  # noqa: E402
from taskloom.learners.training.settings import Training  # noqa: E402
from taskloom.learners.training.step import (  # noqa: E402
    Flat,
    TrainingState,
    update,
    without_collecting,
)


@pytest.mark.parametrize("kind", ["adamw", "adam", "sgd"])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_updates_are_torch_s(kind: Any, decay: float) -> None:
    more: dict[str, Any] = {"weight_decay": decay, "clip": 0.5, "halve_every": 2, "beta2": 0.99}
    how = Training(rate=0.01, warmup=3, optimiser=kind, **more)
    shapes = {"a": (3, 5), "b": (7,)}
    flat = Flat(shapes, 2, torch.device("cpu"))
    state = TrainingState(flat, fp16=False)
    views = flat.views()
    start = {
        n: torch.randn(2, *s, generator=torch.Generator().manual_seed(1)) for n, s in shapes.items()
    }
    for name, view in views.items():
        view.copy_(start[name])
    theirs = [{n: torch.nn.Parameter(start[n][s].clone()) for n in shapes} for s in range(2)]
    make: Any = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}[kind]
    betas = {} if kind == "sgd" else {"betas": (0.9, 0.99)}
    optimisers = [make(p.values(), lr=0.01, weight_decay=decay, **betas) for p in theirs]
    random = torch.Generator().manual_seed(2)
    for step in range(6):
        gradients = {
            n: torch.randn(2, *s, generator=random) * (s[0] if step % 2 else 0.01)
            for n, s in shapes.items()
        }
        update(state, flat.gather(gradients), how, fp16=False)
        state.step.add_(1)
        for s in range(2):
            for name, parameter in theirs[s].items():
                parameter.grad = gradients[name][s].clone()
            torch.nn.utils.clip_grad_norm_(theirs[s].values(), 0.5)
            optimisers[s].param_groups[0]["lr"] = (
                0.01 * min(1.0, (step + 1) / 3) * 0.5 ** (step // 2)
            )
            assert how.rate_at(step) == pytest.approx(optimisers[s].param_groups[0]["lr"])
            optimisers[s].step()
    for name, view in views.items():
        for s in range(2):
            assert torch.allclose(view[s], theirs[s][name], atol=2e-6)


def test_an_overflow_in_fp16_skips_that_seed_alone() -> None:
    flat = Flat({"a": (4,)}, 2, torch.device("cpu"))
    state = TrainingState(flat, fp16=True)
    gradient = torch.ones(2, flat.matrix.shape[1])
    gradient[1, 0] = torch.inf
    update(state, gradient, Training(warmup=0), fp16=True)
    assert float(flat.matrix[0].abs().max()) > 0
    assert float(flat.matrix[1].abs().max()) == 0
    assert state.scale[:, 0].tolist() == [65536.0, 32768.0]
    assert state.updates[:, 0].tolist() == [1.0, 0.0]


def test_masks_have_their_rate_and_are_independent() -> None:
    seeds, shape = torch.tensor([0, 1, 12345]), torch.Size((3, 64, 512))
    masks = []
    for step in range(3):
        dropout = DropoutKeys(seeds, torch.tensor(step), 4)
        masks += [
            keep(shape, 0.3, dropout.keys[site])[s].flatten().double()
            for site in range(4)
            for s in range(3)
        ]
    table = torch.stack(masks)  # 36 masks of 32,768 draws each
    error = (0.3 * 0.7 / table.shape[1]) ** 0.5
    assert float((table.mean(1) - 0.7).abs().max()) < 4.5 * error
    between = torch.corrcoef(table) - torch.eye(len(masks))
    assert float(between.abs().max()) < 5 / table.shape[1] ** 0.5
    # Neighbours and rows within a mask are independent too.
    for lag in (1, 2, 512):
        shifted = (table[:, lag:] - 0.7) * (table[:, :-lag] - 0.7)
        assert float(shifted.mean(1).abs().max()) < 5 * 0.21 / table.shape[1] ** 0.5


def test_masks_of_parts_are_parts_of_the_mask() -> None:
    dropout = DropoutKeys(torch.tensor([3]), torch.tensor(9), 1)
    whole = keep(torch.Size((1, 10, 6)), 0.5, dropout.keys[0])
    part = keep(torch.Size((1, 4, 6)), 0.5, dropout.keys[0], first_row=6)
    assert bool((whole[:, 6:] == part).all())


def test_batches_have_one_length_but_at_borders_and_cover_the_epoch() -> None:
    lengths = np.random.default_rng(0).integers(2, 7, 1030)
    order = Order(lengths, 50, seed=1)
    rows, widths = order.epoch(3)
    assert rows.shape == (20, 50)
    assert len(np.unique(rows)) == 1000
    mixed = [len(set(lengths[r])) for r in rows]
    assert sum(m > 1 for m in mixed) <= 4
    assert all(widths == lengths[rows].max(1))
    again, _ = Order(lengths, 50, seed=1).epoch(3)
    assert np.array_equal(rows, again)
    assert not np.array_equal(rows, order.epoch(4)[0])
    assert not np.array_equal(rows, Order(lengths, 50, seed=2).epoch(3)[0])
    assert Order(lengths, 50, 1, shortest=5).epoch(0)[1].min() == 5
    assert order.position(41) == (2, 1)


def test_nothing_is_collected_while_a_step_is_recorded() -> None:
    """On a GPU a graph that is freed then spoils the record; this was seen with many learners in
    one process.
    """
    assert gc.isenabled()
    with contextlib.suppress(KeyError), without_collecting():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()
    gc.disable()
    try:
        with without_collecting():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_machine_is_not_asked_for_memory_that_it_does_not_have() -> None:
    check_room("a network", 10)
    with pytest.raises(LearnerError, match="a network does not fit into memory; use a smaller one"):
        check_room("a network", 2**60)
