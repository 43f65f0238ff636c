"""Steps per second of the CTL++ networks at the paper's size, and whole runs of many seeds, on one
GPU.

    python benchmarks/learners_gpu.py bench --data ctl-A.npz --out OUT [--seconds 480] [--models
    bilstm,ndr] [--seeds 25,1] python benchmarks/learners_gpu.py run --model bilstm --data ctl-A.npz
    … --out OUT --work WORK [--seconds 540]

Needs torch, NumPy and safetensors; the data come from `learners_export.py`. `bench` writes
bench.json after every cell and starts no cell after its time; `run` saves a checkpoint in WORK when
its time is over, and the same command goes on with it. When a run ends, OUT holds result.json
(learning curves, times) and states.npz (answers, and read-out states of every single function).
With `--until 0.99` a run also ends when the iid score of every seed has reached that at two points
one after the other; curves.json has the curves up to the last checkpoint while it runs. Several
data files are trained as one stack, every seed on each of them, and have a folder each in OUT.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import torch

from taskloom.learners.config import LEARNERS, PRESETS
from taskloom.learners.interface import Paused, Point, Progress
from taskloom.learners.scratch.classifiers import Scratch
from taskloom.learners.scratch.nets import ops
from taskloom.learners.scratch.nets.ops import Net, count
from taskloom.learners.scratch.tokens import Encoded, WordVocabulary, encode
from taskloom.learners.training import checkpoint
from taskloom.learners.training.loop import (
    LOOK_EVERY,
    LearningData,
    Order,
    TrainingOutcome,
    train,
    train_each,
)
from taskloom.learners.training.settings import Training
from taskloom.learners.training.step import Flat, Resident, Stepper

MODELS = ("bilstm", "ndr", "transformer")
VARIANTS: dict[str, dict[str, Any]] = {
    "compiled tf32": {"precision": "tf32", "compile": True, "kernels": "never"},
    "compiled bf16": {"precision": "bf16", "compile": True, "kernels": "never"},
    "compiled bf16, not packed": {
        "precision": "bf16",
        "compile": True,
        "kernels": "never",
        "pack": 1,
    },
    "kernels bf16": {"precision": "bf16", "compile": True, "kernels": "always"},
    "kernels tf32": {"precision": "tf32", "compile": True, "kernels": "always"},
    "graphs tf32": {"precision": "tf32", "compile": False},
    "eager tf32": {"precision": "tf32", "compile": False, "graphs": False},
}
PAPER_MINUTES = {"bilstm": 18, "transformer": 217, "ndr": 82}
"""One run on a P100, as the paper reports it."""

TIMED_SECONDS = 6.0
SHORTEST_FUNCTIONS = 4
"""Expressions of fewer functions (an eighth of the data) are padded to this, which saves their
lengths' programs.
"""


class Data:
    """The exported splits, framed for a network."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as file:
            self.words = WordVocabulary(tuple(str(w) for w in file["words"]))
            self.classes = tuple(str(c) for c in file["classes"])
            names = [key.removesuffix(".labels") for key in file.files if key.endswith(".labels")]
            self.raw = {n: self._read(file, n) for n in names}

    @staticmethod
    def _read(file: Any, name: str) -> Encoded:
        return Encoded(
            *(file[f"{name}.{part}"].astype(np.int64) for part in ("tokens", "lengths", "labels"))
        )

    def net(self, learner: Scratch) -> Net:
        return learner.network(len(self.words.words), len(self.classes))

    def framed(self, net: Net, raw: Encoded) -> Encoded:
        return raw.framed(
            self.words.sos if net.frame[0] else None, self.words.eos if net.frame[1] else None
        )


def settings(name: str, net: Net, **changes: Any) -> Training:
    learner: Any = LEARNERS.get(name)()
    shortest = SHORTEST_FUNCTIONS + 1 + sum(net.frame)
    how: Training = dataclasses.replace(learner.training, shortest=shortest, **changes)
    return how


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def cell(name: str, seeds: int, variant: str, data: Data, device: str) -> dict[str, Any]:
    """Steps per second over the epoch's own mixture of lengths, after every length has been
    compiled and captured.
    """
    learner: Any = LEARNERS.get(name)()
    net = data.net(learner)
    choice = dict(VARIANTS[variant])
    ops.PACK = choice.pop("pack", 8)
    torch._dynamo.reset()  # what was compiled under other choices must not be found again
    how = settings(name, net, device=device, **choice)
    framed = data.framed(net, data.raw["train"])
    began = time.monotonic()
    stepper = Stepper(net, framed, list(range(seeds)), how)
    order = Order(framed.lengths, how.batch, 0, how.shortest)
    here, widths = order.epoch(0)
    rows = torch.from_numpy(here).to(stepper.device)
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    for width in sorted(set(widths.tolist())):
        stepper.advance(rows[int(np.argmax(widths == width))], width)
        wait()
    ready = time.monotonic() - began
    steps, tokens, start = 0, 0, time.monotonic()
    while time.monotonic() - start < TIMED_SECONDS or steps < 3:
        for _ in range(20 if torch.cuda.is_available() else 1):
            place = steps % len(rows)
            stepper.advance(rows[place], int(widths[place]))
            tokens += int(widths[place]) * how.batch
            steps += 1
        wait()
    seconds = time.monotonic() - start
    applied = getattr(net, "layers", 1)
    # 6 operations per weight and token: one multiply-add forward and two backward; embeddings
    # aside.
    flops = (
        6
        * (count(net) - net.shapes()["embedding.weight"][0] * net.shapes()["embedding.weight"][1])
        * applied
    )
    return {
        "model": name,
        "seeds": seeds,
        "variant": variant,
        "milliseconds a step": 1000 * seconds / steps,
        "steps per second": steps / seconds,
        "seed-steps per second": seeds * steps / seconds,
        "minutes for all steps": seconds / steps * learner.training.steps / 60,
        "paper's minutes for the same seeds": PAPER_MINUTES[name] * seeds,
        "matrix TFLOP/s (6 per weight and token)": flops * tokens * seeds / seconds / 1e12,
        "seconds to be ready": ready,
        "GPU memory, GiB": (
            torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None
        ),
        "loss finite": bool((stepper.state.bad < 0).all()),
        "mean loss": float(stepper.state.loss.mean()) / (steps + len(set(widths.tolist()))),
        "where the time goes": (
            top_kernels(stepper, rows, widths) if torch.cuda.is_available() else None
        ),
    }


def top_kernels(stepper: Stepper, rows: Any, widths: Any) -> list[dict[str, Any]] | str:
    """The kernels of ten steps by their share of the GPU's time."""
    from torch.profiler import ProfilerActivity, profile

    try:
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            for place in range(10):
                stepper.advance(rows[place], int(widths[place]))
            wait()
        found = [(e.key[:90], e.self_device_time_total, e.count) for e in seen.key_averages()]
        total = sum(t for _, t, _ in found) or 1.0
        ranked = sorted(found, key=lambda f: -f[1])[:14]
        return [
            {"kernel": k, "share": round(t / total, 4), "calls a step": c / 10}
            for k, t, c in ranked
        ]
    except RuntimeError as error:
        return f"no profile: {error}"


def cells(args: argparse.Namespace) -> Iterator[tuple[str, int, str]]:
    """The cells in order of importance."""
    models = [m for m in args.models.split(",") if m]
    heights = [int(s) for s in args.seeds.split(",")]
    for variant in args.variants.split(";"):
        for seeds in heights:
            for model in models:
                yield model, seeds, variant


def bench(args: argparse.Namespace) -> None:
    began = time.monotonic()
    data = Data(args.data)
    results: list[dict[str, Any]] = []
    machine = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    for model, seeds, variant in cells(args):
        if time.monotonic() - began > args.seconds:
            print(f"no time for {model} x {seeds}, {variant}")
            continue
        try:
            found = cell(model, seeds, variant, data, args.device)
            print(
                f"{model:12} x {seeds:2} {variant:14} {found['milliseconds a step']:8.3f} ms a"
                f" step, {found['minutes for all steps']:6.1f} min for the paper's steps, ready in"
                f" {found['seconds to be ready']:.0f} s",
                flush=True,
            )
        except Exception as error:  # a cell that fails must not lose the others
            found = {
                "model": model,
                "seeds": seeds,
                "variant": variant,
                "error": traceback.format_exc()[-3000:],
            }
            print(f"{model} x {seeds} {variant}: {type(error).__name__}: {error}", flush=True)
        results.append(found)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        about = {
            "device": machine,
            "torch": torch.__version__,
            "command": " ".join(sys.argv),
            "cells": results,
        }
        (args.out / "bench.json").write_text(json.dumps(about, indent=1))


def run(args: argparse.Namespace) -> None:
    datasets = [Data(path) for path in args.data]
    data = datasets[0]
    entry = LEARNERS.get(args.model)
    known = {one.name for one in dataclasses.fields(entry.settings)}
    preset = PRESETS.get(args.preset).settings[args.model] if args.preset else {}
    net = data.net(entry(**{name: value for name, value in preset.items() if name in known}))  # type: ignore[arg-type]
    changes: dict[str, Any] = {name: value for name, value in preset.items() if name not in known}
    changes |= {"steps": args.steps} if args.steps else {}
    changes |= {
        "evaluate_every": args.evaluate_every,
        "checkpoint_every": args.checkpoint_every,
        "kernels": args.kernels,
    }
    how = settings(args.model, net, device=args.device, precision=args.precision, **changes)
    sources = [source(one, net) for one in datasets]
    began = time.monotonic()

    seeds = list(range(args.first_seed, args.first_seed + args.seeds))

    def show(progress: Progress) -> None:
        if progress.step % 2000 == 0:
            print(
                f"step {progress.step:,} loss {progress.loss:.4f} {progress.seconds:.0f} s",
                flush=True,
            )
        # A point's checkpoint is on disk when the first report after it comes.
        if progress.step > how.evaluate_every and progress.step % how.evaluate_every == LOOK_EVERY:
            watch_curves(args)

    try:
        more: dict[str, Any] = {"folder": args.work, "progress": show, "seconds": args.seconds}
        if len(sources) == 1:
            outcomes = train(net, sources[0].train, seeds, how, sources[0].evaluate, **more)
        else:
            members = [(place, seed) for place in range(len(sources)) for seed in seeds]
            outcomes = train_each(net, sources, members, how, **more)
    except Reached:
        outcomes = saved_outcomes(args.work, net, len(seeds) * len(sources))
    except Paused as pause:
        print(pause)
        (args.out / "paused.json").write_text(
            json.dumps({"message": str(pause), "command": " ".join(sys.argv)})
        )
        return
    seconds = time.monotonic() - began
    for i, (path, one) in enumerate(zip(args.data, datasets, strict=True)):
        own = outcomes[i * len(seeds) : (i + 1) * len(seeds)]
        out = args.out if len(datasets) == 1 else args.out / path.stem
        out.mkdir(parents=True, exist_ok=True)
        report(args, out, one, net, how, seeds, own, seconds)


class Reached(Exception):  # noqa: N818 - an end, not an error, as Paused
    """Every seed has reached the score at which a run may end."""


def watch_curves(args: argparse.Namespace) -> None:
    """Write the curves of the checkpoint, print the last iid scores, and end the run where all
    seeds have reached `--until`.
    """
    saved = checkpoint.read(args.work)
    if saved is None:
        return
    curves = [record["curve"] for record in saved[1]["records"]]
    (args.out / "curves.json").write_text(
        json.dumps([[list(point.values()) for point in curve] for curve in curves])
    )
    scores = [[point["score"] for point in curve if point["split"] == "iid"] for curve in curves]
    print("  iid", " ".join(f"{score[-1]:.3f}" for score in scores), flush=True)
    if args.until and all(len(score) > 1 and min(score[-2:]) >= args.until for score in scores):
        raise Reached


def saved_outcomes(folder: Path, net: Net, members: int) -> list[TrainingOutcome]:
    """Return what training would give if it ended at the checkpoint."""
    saved = checkpoint.read(folder)
    assert saved is not None
    tensors, about = saved
    views = Flat(net.shapes(), members, torch.device("cpu")).views(tensors["weights"])
    curves = [tuple(Point(**point) for point in record["curve"]) for record in about["records"]]
    weights = [{name: view[i].clone() for name, view in views.items()} for i in range(members)]
    return [
        TrainingOutcome(w, curve, about["done"]) for w, curve in zip(weights, curves, strict=True)
    ]


def source(data: Data, net: Net) -> LearningData:
    splits = {name: data.framed(net, raw) for name, raw in data.raw.items()}
    return LearningData(splits.pop("train"), splits)


def report(
    args: argparse.Namespace,
    out: Path,
    data: Data,
    net: Net,
    how: Training,
    seeds: list[int],
    outcomes: list[TrainingOutcome],
    seconds: float,
) -> None:
    ends = {
        split: [p.score for o in outcomes for p in o.curve[-len(data.raw) :] if p.split == split]
        for split in data.raw
    }
    for split, scores in ends.items():
        spread = float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0
        print(
            f"{out.name:10} {split:6} {np.mean(scores):.4f} +- {spread:.4f} over {len(scores)}"
            " seeds"
        )
    result = {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "torch": torch.__version__,
        "command": " ".join(sys.argv),
        "model": args.model,
        "settings": dataclasses.asdict(how),
        "seeds": seeds,
        "seconds of the last call": seconds,
        "curves": [[dataclasses.astuple(p) for p in o.curve] for o in outcomes],
    }
    (out / "result.json").write_text(json.dumps(result))
    states(args, out, data, net, outcomes)


def states(
    args: argparse.Namespace, out: Path, data: Data, net: Net, outcomes: list[TrainingOutcome]
) -> None:
    """Answers on every test split and the read-out state of every `function symbol`, for the
    analyses.
    """
    device = torch.device("cuda" if torch.cuda.is_available() and args.device != "cpu" else "cpu")
    symbols = [w for w in data.words.words if w in data.classes]
    singles = [f"{f} {s}" for f in data.words.words if f not in data.classes for s in symbols]
    asked = {name: raw for name, raw in data.raw.items() if name != "train"} | {
        "singles": encode(singles, data.words)
    }
    stack = {
        n: torch.stack([o.weights[n] for o in outcomes]).to(device) for n in outcomes[0].weights
    }
    arrays: dict[str, Any] = {"singles": np.array(singles), "classes": np.array(data.classes)}
    with torch.no_grad():
        for name, raw in asked.items():
            framed = Resident(data.framed(net, raw), device)
            logits, read = [], []
            for rows in torch.arange(len(raw), device=device).tensor_split(-(-len(raw) // 512)):
                trace: dict[str, Any] = {}
                tokens, lengths, _ = framed.batch(rows, framed.tokens.shape[1])
                logits.append(net.forward(stack, tokens, lengths, trace=trace).argmax(-1))
                read.append(trace["readout"])
            arrays[f"{name}.answers"] = torch.cat(logits, 1).cpu().numpy().astype(np.int8)
            if name == "singles":
                arrays["singles.readout"] = torch.cat(read, 1).cpu().numpy().astype(np.float16)
    np.savez_compressed(out / "states.npz", **arrays)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("bench")
    one.add_argument("--models", default=",".join(MODELS))
    one.add_argument("--seeds", default="25,1")
    one.add_argument("--variants", default=";".join(VARIANTS), help="separated by semicolons")
    one.add_argument(
        "--seconds", type=float, default=480, help="no cell is started after so many seconds"
    )
    two = commands.add_parser("run")
    two.add_argument("--model", choices=MODELS, required=True)
    two.add_argument("--work", type=Path, required=True, help="the folder of the checkpoint")
    two.add_argument("--seeds", type=int, default=25)
    two.add_argument("--first-seed", type=int, default=0)
    two.add_argument("--steps", type=int, default=0, help="0: the paper's")
    two.add_argument(
        "--preset",
        choices=[name for name in PRESETS.names() if name.startswith("ctlpp")],
        help="of a paper",
    )
    two.add_argument("--precision", default="auto")
    two.add_argument("--evaluate-every", type=int, default=1000)
    two.add_argument("--checkpoint-every", type=int, default=20_000)
    two.add_argument("--seconds", type=float, default=540)
    two.add_argument(
        "--kernels",
        choices=("auto", "always", "never"),
        default="auto",
        help="see the setting kernels",
    )
    two.add_argument(
        "--until", type=float, default=0.0, help="end when all seeds have this iid score; 0: never"
    )
    for command in (one, two):
        several = {"nargs": "+"} if command is two else {}
        command.add_argument(
            "--data", type=Path, required=True, help="run: several are one stack", **several
        )
        command.add_argument("--out", type=Path, required=True)
        command.add_argument("--device", default="auto")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    {"bench": bench, "run": run}[args.command](args)


if __name__ == "__main__":
    main()
