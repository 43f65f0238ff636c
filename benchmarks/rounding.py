"""How far tf32 and bf16 move the gradients of NDR from fp32's, on a CPU: as a seed starts, and trained.

    python benchmarks/rounding.py ctl-A.npz [WORK …] [--rows 128]

Takes training examples of nine tokens from an export of `learners_export.py`, and folders with checkpoints of single seeds as
`ctlpp_gpu.py cut` writes them; without any, seeds 0 to 3 as they start. A CPU has no tf32: what goes into a product is rounded to
its 11 bits, to the nearest, and the product computed in fp32, forward and backward. bf16 is torch's own, by plain layers. Printed
is the largest relative difference of any weight's gradient, as training compares compiled layers with plain ones.
"""

from __future__ import annotations

import argparse
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

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Round the last two tensors of a product."""
        if function.overloadpacket in PRODUCTS:
            factors = {"mm": 0, "bmm": 0}.get(function.overloadpacket.__name__, 1)
            args = [*args[:factors], *(rounded(one) for one in args[factors : factors + 2]), *args[factors + 2 :]]
        return function(*args, **(kwargs or {}))


def differences(stepper: Stepper, rows: Tensor) -> dict[str, tuple[float, str]]:
    """Return by how much the gradients of each precision differ from fp32's at most, and for which weight."""

    def gradient(precision: str) -> dict[str, Tensor]:
        with computing(precision, stepper.device):
            return stepper.flat.views(stepper._part(rows, TOKENS, 0, len(rows))[2])

    exact = gradient("fp32")
    with RoundedProducts():  # type: ignore[no-untyped-call]
        loose = gradient("fp32")
    return {"tf32": largest_difference(loose, exact), "bf16": largest_difference(gradient("bf16"), exact)}


def main() -> None:
    """Print the differences of every seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path, nargs="*", help="folders with checkpoints of one seed each")
    parser.add_argument("--rows", type=int, default=128)
    args = parser.parse_args()
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
    texts = (f"{precision} {worst:.2%} ({name})" for precision, (worst, name) in by_precision.items())
    print(f"seed {seed} at step {step:,}: {', '.join(texts)}", flush=True)


if __name__ == "__main__":
    main()
