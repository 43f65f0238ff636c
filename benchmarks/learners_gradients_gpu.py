"""Gradients of a stack of NDRs on a GPU, compiled against plain fp32: how far off they are and
whether they repeat.

    python benchmarks/learners_gradients_gpu.py --data ctl-R.npz --out OUT [--seeds 2] [--tokens 9]

Needs torch and NumPy; the data come from `learners_export.py`. Writes gradients.json.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import torch

from learners_gpu import Data, settings
from taskloom.learners.config import LEARNERS
from taskloom.learners.training.loop import Order
from taskloom.learners.training.step import Stepper, computing, largest_difference

WAYS: dict[str, tuple[str, dict[str, Any] | None]] = {
    "fp32": ("fp32", None),
    "tf32, compiled": ("tf32", {}),
    "bf16": ("bf16", None),
    "bf16, compiled": ("bf16", {}),
    "bf16, compiled, not fused": ("bf16", {"max_fusion_size": 1}),
    "bf16, compiled, rows and columns not reduced together": (
        "bf16",
        {"triton.mix_order_reduction": False},
    ),
    "bf16, compiled, rounded as without the compiler": ("bf16", {"emulate_precision_casts": True}),
}
"""Precision, and the compiler's options (none: not compiled); the first is what the others are
compared with.
"""


def gradients(
    data: Data, seeds: int, tokens: int, precision: str, options: dict[str, Any] | None
) -> list[Any]:
    """Return the gradients of three calls on the first batch of that many tokens, by weight."""
    learner: Any = LEARNERS.get("ndr")()
    net = data.net(learner)
    framed = data.framed(net, data.raw["train"])
    how = settings("ndr", net, device="cuda", precision=precision, compile=False, graphs=False)
    stepper = Stepper(net, framed, list(range(seeds)), how)
    torch._dynamo.reset()
    if options is not None:
        stepper.wrap = functools.cache(
            lambda f: torch.compile(f, dynamic=False, options=options or None)
        )
    rows, widths = Order(framed.lengths, how.batch, 0, how.shortest).epoch(0)
    batch = torch.from_numpy(rows[int(np.argmax(widths == tokens))]).to(stepper.device)
    with computing(stepper.precision, stepper.device):
        calls = [stepper._part(batch, tokens, 0, how.batch)[2] for _ in range(3)]
    return [stepper.flat.views(call) for call in calls]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=9)
    args = parser.parse_args()
    data, rows = Data(args.data), []
    exact: Any = None
    for name, (precision, options) in WAYS.items():
        calls = gradients(data, args.seeds, args.tokens, precision, options)
        exact = exact or calls[0]
        worst, weight = largest_difference(calls[-1], exact)
        repeats = all(torch.equal(call[n], calls[0][n]) for call in calls for n in call)
        rows.append(
            {"way": name, "largest relative error": worst, "weight": weight, "repeats": repeats}
        )
        print(
            f"{name:60} {worst:.4f} ({weight}), {'repeats' if repeats else 'DOES NOT REPEAT'}",
            flush=True,
        )
    about = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "command": " ".join(sys.argv),
    }
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "gradients.json").write_text(
        json.dumps({**about, "seeds": args.seeds, "ways": rows}, indent=1)
    )


if __name__ == "__main__":
    main()
