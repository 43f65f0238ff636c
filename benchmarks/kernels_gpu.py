"""Layers by kernels against compiled and plain ones on one GPU: gradients, milliseconds a step, and
where the time goes.

    PYTORCH_NVML_BASED_CUDA_CHECK=1 python benchmarks/kernels_gpu.py --out OUT [--seconds 90]
    [--build-seconds 30]

Inputs are random tokens of one length, at the paper's sizes and batches of 512: the time of a step
does not depend on what they say. First every group of cells builds its kernels in a process of its
own, all at once (the variable keeps torch from starting CUDA before that); then one cell after the
other is measured, in the process that built it. `kernels.json` is written after every cell.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import statistics
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import torch

from taskloom.learners.accelerated.kernels import launch
from taskloom.learners.scratch.nets.ndr import NDR
from taskloom.learners.scratch.nets.ops import Kernels, Net
from taskloom.learners.scratch.nets.transformer import Transformer
from taskloom.learners.scratch.tokens import Encoded
from taskloom.learners.training import step
from taskloom.learners.training.settings import Training
from taskloom.learners.training.step import Stepper, computing, largest_difference

BATCH = 512
BATCHES = 4
"""Batches that are taken in turn, so that no step finds its inputs in the cache."""

STEPS = 40
REPEATS = 6
"""How often a gradient is computed, to see whether its bits repeat."""


NETS: dict[str, Net] = {"ndr": NDR(40, 8), "transformer": Transformer(40, 8)}


CELLS: list[tuple[int, str, int, int, str, dict[str, Any]]] = [
    # the process that builds its kernels and measures it, model, seeds, tokens, how, other values
    # of constants in `fused/launch.py`
    (0, "ndr", 25, 9, "kernels tf32", {}),
    (1, "ndr", 25, 7, "kernels tf32", {}),
    (2, "transformer", 25, 9, "kernels bf16", {}),
    (3, "transformer", 25, 7, "kernels bf16", {}),
    (0, "ndr", 2, 9, "kernels tf32", {}),
    (4, "transformer", 25, 9, "kernels tf32", {}),
    (3, "transformer", 25, 8, "kernels bf16", {}),
    (1, "ndr", 25, 8, "kernels tf32", {}),
    (5, "ndr", 25, 9, "kernels bf16", {}),
    (1, "ndr", 2, 7, "kernels tf32", {}),
    (5, "ndr", 25, 7, "kernels bf16", {}),
    (4, "transformer", 25, 7, "kernels tf32", {}),
    (0, "ndr", 4, 9, "kernels fp32", {}),
    (2, "transformer", 25, 9, "plain bf16", {}),
]
"""What is measured, the most important first."""


def stepper_for(model: str, seeds: int, length: int, how: str) -> Stepper:
    random = np.random.default_rng(length)
    n = BATCH * BATCHES
    data = Encoded(
        random.integers(0, 40, (n, length)), np.full(n, length), random.integers(0, 8, n)
    )
    way, precision = how.split()
    kernels: Any = "always" if way == "kernels" else "never"
    chosen: Any = precision
    settings = Training(
        batch=BATCH, precision=chosen, device=DEVICE, kernels=kernels, compile=way != "plain"
    )
    return Stepper(NETS[model], data, list(range(seeds)), settings)


@contextlib.contextmanager
def noted(errors: list[Any]) -> Iterator[None]:
    """Note how far the gradients that a stepper compares are from fp32's."""
    right = step.compiled_right

    def noting(gradients: Any, *, plain: Any, exact: Any, **named: Any) -> bool:
        errors.append([*largest_difference(gradients, exact), *largest_difference(plain, exact)])
        return right(gradients, plain=plain, exact=exact, **named)

    vars(step)["compiled_right"] = noting
    try:
        yield
    finally:
        vars(step)["compiled_right"] = right


def cell(model: str, seeds: int, length: int, how: str) -> dict[str, Any]:
    """Measure milliseconds a step, and the kernels that take the time."""
    began = time.monotonic()
    torch.cuda.reset_peak_memory_stats()
    stepper = stepper_for(model, seeds, length, how)
    rows = [torch.arange(i * BATCH, (i + 1) * BATCH, device=stepper.device) for i in range(BATCHES)]
    errors: list[Any] = []
    with warnings.catch_warnings(record=True) as caught, noted(errors):
        warnings.simplefilter("always")
        stepper.advance(rows[0], length)
    torch.cuda.synchronize()
    ready = time.monotonic() - began
    with computing(stepper.precision, stepper.device):
        gradients = [stepper._part(rows[0], length, 0, BATCH)[2] for _ in range(REPEATS)]
    result = {
        "repeats to the bit": all(bool(torch.equal(gradients[0], one)) for one in gradients[1:]),
        "by kernels": isinstance(stepper.wrap, Kernels),
        "seconds to be ready": round(ready, 1),
        "GiB": round(torch.cuda.max_memory_allocated() / 2**30, 1),
        "errors from fp32: here, plain": errors,
        "warnings": [
            str(one.message)[:300]
            for one in caught
            if "gradients" in str(one.message) or "kernels" in str(one.message)
        ],
    }
    for i in range(4):
        stepper.advance(rows[i % BATCHES], length)
    times = []
    for _ in range(5):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        for i in range(STEPS // 5):
            stepper.advance(rows[i % BATCHES], length)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / (STEPS // 5))
    timing = {
        "ms a step": round(statistics.median(times), 3),
        "ms a step, all": [round(one, 3) for one in times],
    }
    loss = float(stepper.state.loss.mean()) / float(stepper.state.step)
    return {
        **timing,
        **result,
        "loss": loss,
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
    return [
        [k, round(t, 1), round(c, 1)] for k, t, c in sorted(events, key=lambda one: -one[1])[:40]
    ]


@contextlib.contextmanager
def with_constants(values: dict[str, Any]) -> Iterator[None]:
    """Set constants of `fused/launch.py` inside the block."""
    before = {name: getattr(launch, name) for name in values}
    vars(launch).update(values)
    try:
        yield
    finally:
        vars(launch).update(before)
        if DEVICE == "cuda":
            torch.cuda.empty_cache()


def serve(group: int, build_until: float, parent: Connection) -> None:
    """Build the kernels of a group of cells, say "built", and then measure every cell whose number
    comes.
    """
    began = time.monotonic()
    for each in CELLS:
        if each[0] == group and time.monotonic() < build_until:
            print(
                f"group {group}: {named(each)}: {build(each)}, {time.monotonic() - began:.0f} s",
                flush=True,
            )
    parent.send("built")
    while True:
        parent.send(measured(CELLS[parent.recv()]))


def answer(child: Connection, number: int | None = None) -> Any:
    """Return what a process answers, to the number of a cell if one is given."""
    try:
        if number is not None:
            child.send(number)
        return child.recv()
    except (EOFError, OSError) as error:  # the process is no more; others go on
        return {"error": f"the cell's process ended ({type(error).__name__})"}


def build(each: tuple[int, str, int, int, str, dict[str, Any]]) -> str:
    """Take one step of a cell, so that its kernels are built, without comparing and capturing
    anything.
    """
    _, model, seeds, length, how, constants = each
    try:
        with with_constants(constants):
            stepper = stepper_for(model, seeds, length, how)
            with computing(stepper.precision, stepper.device):
                stepper._step(torch.arange(BATCH, device=stepper.device), length)
            del stepper
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:600]}"
    return "built"


def measured(each: tuple[int, str, int, int, str, dict[str, Any]]) -> dict[str, Any]:
    """Measure a cell; one that fails must not lose the others."""
    _, model, seeds, length, how, constants = each
    try:
        with with_constants(constants):
            result = {**cell(model, seeds, length, how), "device": torch.cuda.get_device_name()}
    except Exception as error:
        print(f"{named(each)}: {type(error).__name__}: {str(error)[:600]}", flush=True)
        result = {"error": traceback.format_exc()[-2500:]}
    return {
        "model": model,
        "seeds": seeds,
        "length": length,
        "how": how,
        "constants": constants,
        **result,
    }


def named(each: tuple[int, str, int, int, str, dict[str, Any]]) -> str:
    """Return a cell in words."""
    _, model, seeds, length, how, constants = each
    return f"{model} x {seeds}, {length} tokens, {how} {constants or ''}".rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=90, help="no cell begins later")
    parser.add_argument(
        "--build-seconds",
        type=float,
        default=30,
        help="no kernels ahead of their cell's turn later",
    )
    args = parser.parse_args()
    began = time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)
    about: dict[str, Any] = {"torch": torch.__version__, "command": " ".join(sys.argv), "cells": []}
    fork = multiprocessing.get_context("fork")  # children find torch imported
    children: dict[int, Connection] = {}
    for group in sorted({each[0] for each in CELLS}):
        children[group], theirs = fork.Pipe()
        fork.Process(
            target=serve, args=(group, began + args.build_seconds, theirs), daemon=True
        ).start()
        theirs.close()
    for child in children.values():
        answer(child)
    print(f"built in {time.monotonic() - began:.0f} s", flush=True)
    for number, each in enumerate(CELLS):
        if time.monotonic() - began > args.seconds:
            break
        result = answer(children[each[0]], number)
        about["device"] = result.pop("device", about.get("device"))
        about["cells"].append(result)
        (args.out / "kernels.json").write_text(json.dumps(about, indent=1))
        report(named(each), result, time.monotonic() - began)
    print(f"{time.monotonic() - began:.0f} s")


def report(what: str, result: dict[str, Any], seconds: float) -> None:
    """Print a cell."""
    errors = [
        [f"{one[0]:.4f} {one[1]}", f"plain {one[2]:.4f}"]
        for one in result.get("errors from fp32: here, plain", ())
    ]
    shown = {
        name: result.get(name)
        for name in ("by kernels", "repeats to the bit", "seconds to be ready", "GiB", "warnings")
    }
    print(f"{what}: {result.get('ms a step')} ms {shown} {errors} at {seconds:.0f} s", flush=True)
    for name, share, calls in result.get("where the time goes", ())[:26]:
        print(f"   {share:9.1f} us {calls:6.1f} x {name}", flush=True)


DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

if __name__ == "__main__":
    main()
