"""How far tf32 and bf16 move the gradients of NDR from fp32's, on a CPU: as a seed starts, and
trained.

    python benchmarks/rounding.py ctl-A.npz [WORK …] [--rows 128]
    python benchmarks/rounding.py small.npz --train 800 [--seeds 10]

Takes training examples of nine tokens from an export of `learners_export.py`, and folders with
checkpoints of single seeds as `ctlpp_gpu.py cut` writes them; without any, seeds 0 to 3 as they
start. A CPU has no tf32: what goes into a product is rounded to its 11 bits, to the nearest, and
the product computed in fp32, forward and backward. bf16 is torch's own, by plain layers. Printed is
the largest relative difference of any weight's gradient, as training compares compiled layers with
plain ones.

With `--train` small NDRs are trained instead, each seed in every precision and once more in fp32
with the last bit of its starting weights moved, and the mean training losses of the same seeds
compared. A small world, in which 800 steps of one seed take 15 CPU-seconds (30 in tf32), is that of

    python benchmarks/learners_export.py ctl/A small.npz --splits train --set symbols=4 --set functions=8 --set max_length=4 \
        --set splits.train.n=1100 --set splits.iid.n=150 --set splits.ood.n=200
"""

from __future__ import annotations

import argparse
import contextlib
import math
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ctlpp_gpu import members_saved, read_saved
from learners_gpu import Data
from taskloom.learners.scratch.nets.ndr import NDR
from taskloom.learners.scratch.tokens import Encoded
from taskloom.learners.training.loop import Order
from taskloom.learners.training.settings import Training
from taskloom.learners.training.step import Stepper, computing, largest_difference

TOKENS = 9
DROPPED = 13
"""Of the 24 bits of an fp32 number, those that tf32 does not have."""

PRODUCTS = {torch.ops.aten.mm, torch.ops.aten.bmm, torch.ops.aten.addmm, torch.ops.aten.baddbmm}


def rounded(x: Tensor) -> Tensor:
    """Round fp32 numbers to those of tf32, to the nearest, of two to the even one."""
    bits = x.contiguous().view(torch.int32)
    half = (1 << DROPPED - 1) - 1
    return ((bits + half + (bits >> DROPPED & 1)) & ~((1 << DROPPED) - 1)).view(torch.float32)


class RoundedProducts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Products of matrices as tf32 has them; what is added to a product stays."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Round the last two tensors of a product."""
        if function.overloadpacket in PRODUCTS:
            factors = {"mm": 0, "bmm": 0}.get(function.overloadpacket.__name__, 1)
            args = [
                *args[:factors],
                *(rounded(one) for one in args[factors : factors + 2]),
                *args[factors + 2 :],
            ]
        return function(*args, **(kwargs or {}))


def differences(stepper: Stepper, rows: Tensor) -> dict[str, tuple[float, str]]:
    """Return by how much the gradients of each precision differ from fp32's at most, and for which
    weight.
    """

    def gradient(precision: str) -> dict[str, Tensor]:
        with computing(precision, stepper.device):
            return stepper.flat.views(stepper._part(rows, TOKENS, 0, len(rows))[2])

    exact = gradient("fp32")
    with RoundedProducts():  # type: ignore[no-untyped-call]
        loose = gradient("fp32")
    return {
        "tf32": largest_difference(loose, exact),
        "bf16": largest_difference(gradient("bf16"), exact),
    }


WAYS = ("fp32", "last bit", "tf32", "bf16")


def mean_loss(net: NDR, data: Encoded, seed: int, way: str, steps: int) -> float:
    """Return the mean training loss of a seed that is trained in one of the ways."""
    precision: Any = "bf16" if way == "bf16" else "fp32"
    settings = Training(
        batch=64, rate=1e-3, warmup=50, steps=steps, device="cpu", precision=precision
    )
    stepper = Stepper(net, data, [seed], settings)
    if way == "last bit":
        bits = stepper.flat.matrix.detach().view(torch.int32)
        moved = torch.randint(
            -1, 2, bits.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.int32
        )
        bits += moved * (bits != 0)  # a bias that starts at zero stays there
    order = Order(data.lengths, settings.batch, 0)
    with RoundedProducts() if way == "tf32" else contextlib.nullcontext():  # type: ignore[no-untyped-call]
        for step in range(steps):
            epoch, place = order.position(step)
            rows, widths = order.epoch(epoch)
            stepper.advance(torch.from_numpy(rows[place]), int(widths[place]))
    return float(stepper.state.loss) / steps


def compare_training(data: Data, seeds: int, steps: int) -> None:
    """Print mean losses by seed, and the differences from fp32: their mean with its standard error,
    the least and the greatest.
    """
    net = NDR(
        len(data.words.words),
        len(data.classes),
        32,
        2,
        layers=4,
        layers_answering=4,
        feed_forward=64,
        dropout=0.3,
    )
    framed = data.framed(net, data.raw["train"])
    losses: dict[str, list[float]] = {way: [] for way in WAYS}
    for seed in range(seeds):
        for way in WAYS:
            losses[way].append(mean_loss(net, framed, seed, way, steps))
        print(
            f"seed {seed}: {', '.join(f'{way} {losses[way][-1]:.5f}' for way in WAYS)}", flush=True
        )
    for way in WAYS[1:]:
        apart = [a - b for a, b in zip(losses[way], losses["fp32"], strict=True)]
        error = statistics.stdev(apart) / math.sqrt(seeds) if seeds > 1 else math.nan
        print(
            f"{way} - fp32: {statistics.mean(apart):+.5f} ± {error:.5f}, {min(apart):+.5f} to"
            f" {max(apart):+.5f}, {sum(one > 0 for one in apart)} of {seeds} above"
        )


def main() -> None:
    """Print the differences of every seed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument(
        "work", type=Path, nargs="*", help="folders with checkpoints of one seed each"
    )
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument(
        "--train",
        type=int,
        default=0,
        metavar="STEPS",
        help="train small networks for so many steps",
    )
    parser.add_argument("--seeds", type=int, default=10, help="how many to train")
    args = parser.parse_args()
    if args.train:
        compare_training(Data(args.data), args.seeds, args.train)
        return
    saved = [read_saved(folder) for folder in args.work]
    seeds = [seed for _, about in saved for _, seed in members_saved(about)] or range(4)
    data = Data(args.data)
    net = NDR(len(data.words.words), len(data.classes), begin="reference")
    framed = data.framed(net, data.raw["train"])
    rows = torch.from_numpy(np.flatnonzero(framed.lengths == TOKENS)[: args.rows])
    settings = Training(batch=args.rows, device="cpu", precision="fp32")
    for place, seed in enumerate(seeds):
        stepper = Stepper(net, framed, [seed], settings)
        report(seed, 0, differences(stepper, rows))
        if saved:
            tensors, about = saved[place]
            with torch.no_grad():
                stepper.flat.matrix.copy_(tensors["weights"])
            stepper.state.step.copy_(tensors["step"])
            report(seed, about["done"], differences(stepper, rows))


def report(seed: int, step: int, by_precision: dict[str, tuple[float, str]]) -> None:
    """Print the differences of a seed at a step."""
    texts = (
        f"{precision} {worst:.2%} ({name})" for precision, (worst, name) in by_precision.items()
    )
    print(f"seed {seed} at step {step:,}: {', '.join(texts)}", flush=True)


if __name__ == "__main__":
    main()
