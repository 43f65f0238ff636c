"""Layers by kernels against compiled ones on one GPU: gradients, milliseconds a step by length, and where the time goes.

    python benchmarks/kernels_gpu.py --out OUT [--seconds 90] [--seeds 25,10] [--models ndr,transformer] [--compiled 30]

Inputs are random tokens of one length, at the paper's sizes and batches of 512: the time of a step does not depend on what they
say. `kernels.json` is written after every cell. `--compiled S` adds compiled layers where S seconds are left to compile them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import torch

from taskloom.learners.scratch.nets.fused import launch
from taskloom.learners.scratch.nets.ndr import NDR
from taskloom.learners.scratch.nets.ops import Kernels, Net
from taskloom.learners.scratch.nets.transformer import Transformer
from taskloom.learners.scratch.tokens import Encoded
from taskloom.learners.training.settings import Training
from taskloom.learners.training.step import Stepper, computing, largest_difference

BATCH = 512
BATCHES = 4
"""Batches that are taken in turn, so that no step finds its inputs in the cache."""

STEPS = 40
VARIANTS: list[dict[str, Any]] = [{"PROGRAMS": 528}]
"""Other values of the constants in `fused/launch.py`, for the first model."""

NETS: dict[str, Net] = {"ndr": NDR(40, 8), "transformer": Transformer(40, 8)}


def stepper_for(model: str, seeds: int, precision: Any, length: int, kernels: bool) -> Stepper:
    random = np.random.default_rng(length)
    n = BATCH * BATCHES
    data = Encoded(random.integers(0, 40, (n, length)), np.full(n, length), random.integers(0, 8, n))
    how = Training(batch=BATCH, precision=precision, device=DEVICE, kernels="always" if kernels else "never")
    return Stepper(NETS[model], data, list(range(seeds)), how)


def gradients(model: str, precision: Any) -> dict[str, Any]:
    """Compare gradients of two seeds by kernels with plain ones in fp32, and with themselves."""
    stepper = stepper_for(model, 2, precision, 9, True)
    rows = torch.arange(BATCH, device=stepper.device)

    def part(precision: str, wrap: Any) -> Any:
        stepper.wrap = wrap
        with computing(precision, stepper.device):
            return stepper._part(rows, 9, 0, BATCH)[2]

    kernels = stepper.wrap
    exact = part("fp32", None)
    plain = part(precision, None)
    fast = [part(precision, kernels) for _ in range(3)]
    views = stepper.flat.views
    return {
        "kernels from fp32": largest_difference(views(fast[0]), views(exact)),
        "plain from fp32": largest_difference(views(plain), views(exact)),
        "repeats to the bit": all(bool(torch.equal(fast[0], one)) for one in fast[1:]),
    }


def cell(model: str, seeds: int, precision: Any, length: int, kernels: bool) -> dict[str, Any]:
    """Measure milliseconds a step, and the kernels that take the time."""
    began = time.monotonic()
    stepper = stepper_for(model, seeds, precision, length, kernels)
    rows = [torch.arange(i * BATCH, (i + 1) * BATCH, device=stepper.device) for i in range(BATCHES)]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for i in range(8):
            stepper.advance(rows[i % BATCHES], length)
    torch.cuda.synchronize()
    ready = time.monotonic() - began
    times = []
    for _ in range(5):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        for i in range(STEPS // 5):
            stepper.advance(rows[i % BATCHES], length)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / (STEPS // 5))
    return {
        "model": model,
        "seeds": seeds,
        "precision": precision,
        "length": length,
        "by kernels": isinstance(stepper.wrap, Kernels),
        "ms a step": round(statistics.median(times), 3),
        "ms a step, all": [round(one, 3) for one in times],
        "seconds to be ready": round(ready, 1),
        "GiB": round(torch.cuda.max_memory_allocated() / 2**30, 1),
        "loss": float(stepper.state.loss.mean()) / float(stepper.state.step),
        "warnings": [str(one.message)[:300] for one in said if "gradients" in str(one.message)],
        "where the time goes": top_kernels(stepper, rows, length),
    }


def top_kernels(stepper: Stepper, rows: list[Any], length: int) -> list[Any]:
    """Return [kernel, microseconds a step, calls a step] of three steps, the longest first."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for i in range(3):
            stepper.advance(rows[i % BATCHES], length)
        torch.cuda.synchronize()
    events = [(e.key[:70], e.self_device_time_total / 3, e.count / 3) for e in seen.key_averages()]
    return [[k, round(t, 1), round(c, 1)] for k, t, c in sorted(events, key=lambda one: -one[1])[:32]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--compiled", type=float, default=30)
    parser.add_argument("--models", default="ndr,transformer")
    parser.add_argument("--seeds", default="25,10,5")
    args = parser.parse_args()
    began = time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)
    about: dict[str, Any] = {"torch": torch.__version__, "command": " ".join(sys.argv), "gradients": {}, "cells": []}
    if DEVICE == "cuda":
        about["device"] = torch.cuda.get_device_name()

    def left() -> float:
        return float(args.seconds - (time.monotonic() - began))

    def attempt(what: str, work: Any) -> Any:
        try:
            result = work()
        except Exception as error:
            result = {"what": what, "error": traceback.format_exc()[-2500:]}
            print(f"{what}: {type(error).__name__}: {str(error)[:600]}", flush=True)
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
        return result

    def measure(model: str, seeds: int, precision: str, length: int, kernels: bool, **constants: Any) -> None:
        what = f"{model} x {seeds} {precision} {length} {'kernels' if kernels else 'compiled'} {constants or ''}"
        before = {name: getattr(launch, name) for name in constants}
        vars(launch).update(constants)
        result = attempt(what, lambda: cell(model, seeds, precision, length, kernels))
        vars(launch).update(before)
        result["constants"] = constants
        about["cells"].append(result)
        (args.out / "kernels.json").write_text(json.dumps(about, indent=1))
        if "ms a step" in result:
            kept = "" if result["by kernels"] == kernels else " NOT BY KERNELS"
            print(f"{what}: {result['ms a step']} ms, ready in {result['seconds to be ready']} s{kept}", flush=True)
            for line in result["warnings"]:
                print("  ", line)
            for name, share, calls in result["where the time goes"][:24]:
                print(f"   {share:9.1f} us {calls:6.1f} x {name}", flush=True)

    def check(model: str, precision: str) -> None:
        what = f"{model} {precision}"
        about["gradients"][what] = attempt(f"gradients of {what}", lambda: gradients(model, precision))
        print(what, about["gradients"][what], f"{left():.0f} s left", flush=True)

    models, heights = args.models.split(","), [int(one) for one in args.seeds.split(",")]
    for model in models:
        check(model, "bf16")
        if DEVICE == "cuda":
            measure(model, heights[0], "bf16", 9, True)
    cells = [(models[0], heights[0], "bf16", 9, True, constants) for constants in VARIANTS]
    cells += [(models[0], height, "bf16", 9, True, {}) for height in heights[1:]]
    cells += [(model, heights[0], "bf16", length, True, {}) for length in (7, 8) for model in models]
    cells += [(model, height, "bf16", 9, True, {}) for model in models[1:] for height in heights[1:]]
    for *one, constants in cells:
        if DEVICE == "cuda" and left() > 8:
            measure(*one, **constants)
    for model in models:
        if left() > args.compiled and DEVICE == "cuda":
            measure(model, heights[-1], "bf16", 9, False)
    for model in models:
        if left() > 15:
            check(model, "tf32")
    (args.out / "kernels.json").write_text(json.dumps(about, indent=1))
    print(f"{time.monotonic() - began:.0f} s")


DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

if __name__ == "__main__":
    main()
