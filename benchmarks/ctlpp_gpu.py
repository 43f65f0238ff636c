"""Train a network of CTL++ on several exported datasets as one stack of seeds, within a given time,
and keep what its studies need.

    python benchmarks/ctlpp_gpu.py train --model ndr --data DATA --members A:0-9 R:0-3,8,9 --out OUT
    --work WORK --seconds 1100 python benchmarks/ctlpp_gpu.py cut --work WORK --members R:0-3 --out
    PART python benchmarks/ctlpp_gpu.py members --work WORK python benchmarks/ctlpp_gpu.py join
    --parts PART OTHER --work WORK

Needs torch, NumPy and safetensors; DATA has the files ctl-A.npz, ctl-R.npz … of
`learners_export.py`. The same command resumes a run whose time was over, or that was killed, from
the checkpoint in WORK. OUT has a file of scores for each dataset (curves, written again after every
checkpoint; accuracy by the layers at test when training stops), and a file of states and answers of
its seeds. `cut` writes a checkpoint of some members of a stack, which can be trained further by
themselves; `join` puts checkpoints of one step together.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor

import learners_gpu
from learners_gpu import Data, saved_outcomes, settings, source
from taskloom.learners.config import LEARNERS, PRESETS
from taskloom.learners.interface import Paused, Progress
from taskloom.learners.scratch.nets.ops import Net
from taskloom.learners.scratch.tokens import Encoded, encode
from taskloom.learners.training import checkpoint
from taskloom.learners.training.loop import LOOK_EVERY, TrainingOutcome, train_each
from taskloom.learners.training.settings import Training
from taskloom.learners.training.step import Resident

BEGAN = time.monotonic()

LAST_WORK = 15.0
"""Seconds that are kept for states and answers after the last step."""

FEWER, MORE = 2, 8
"""Layers below and above those of training with which the test splits are answered."""

ROWS = 1024
"""Rows that are answered at a time."""

Member = tuple[str, int]
"""The dataset and the seed of a member of a stack."""


def members_of(texts: Sequence[str]) -> list[Member]:
    """Return the members that texts such as `A:0-3,8` stand for."""
    members = []
    for text in texts:
        name, _, seeds = text.partition(":")
        for part in seeds.split(","):
            low, _, high = part.partition("-")
            members += [(name, seed) for seed in range(int(low), int(high or low) + 1)]
    return members


class Stack:
    """A network, the datasets of its members, and its settings."""

    def __init__(self, args: argparse.Namespace, members: list[Member]) -> None:
        self.args = args
        self.members = members
        self.names = list(dict.fromkeys(name for name, _ in self.members))
        self.data = [Data(args.data / f"ctl-{name}.npz") for name in self.names]
        entry = LEARNERS.get(args.model)
        chosen: dict[str, Any] = {
            **PRESETS.get("ctlpp").settings[args.model],
            **dict(_value(text) for text in args.set),
        }
        known = {one.name for one in dataclasses.fields(entry.settings)}
        learner: Any = entry(**{name: value for name, value in chosen.items() if name in known})
        self.net: Net = self.data[0].net(learner)
        changes = {name: value for name, value in chosen.items() if name not in known}
        changes |= {
            "evaluate_every": args.evaluate_every,
            "checkpoint_every": args.checkpoint_every,
        }
        changes |= {"precision": args.precision, "kernels": args.kernels, "device": args.device}
        self.how: Training = settings(args.model, self.net, **changes)

    def places(self, name: str) -> list[int]:
        """Return the places in the stack of the members that learn from a dataset."""
        return [i for i, (own, _) in enumerate(self.members) if own == name]

    def file(self, name: str, ending: str) -> Path:
        """Return the path of one of a dataset's files."""
        path: Path = self.args.out / f"{self.args.model}-{name}{ending}"
        return path

    def train(self) -> tuple[list[TrainingOutcome], str]:
        """Train until the last step or until the time is over; return the outcomes, and what ended
        the training.
        """
        sources = [source(one, self.net) for one in self.data]
        members = [(self.names.index(name), seed) for name, seed in self.members]
        left = self.args.seconds - (time.monotonic() - BEGAN) - LAST_WORK
        # A shell's background jobs ignore Ctrl-C; training saves and stops at it, and so it should
        # at a polite kill.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
        try:
            work = self.args.work
            outcomes = train_each(
                self.net,
                sources,
                members,
                self.how,
                folder=work,
                progress=self.progress,
                seconds=left,
            )
        except (Paused, KeyboardInterrupt) as end:
            return saved_outcomes(self.args.work, self.net, len(members)), str(end) or "interrupted"
        return outcomes, "the last step"

    def progress(self, now: Progress) -> None:
        """Print the loss now and then, and write the curves after every checkpoint."""
        # A checkpoint is written after the report of its step, so that the next report is the first
        # to see it.
        if now.step % 2_000 == 0 or (now.step <= 2_000 and now.step % 500 in (0, 100)):
            print(f"step {now.step:,} loss {now.loss:.4f} {now.seconds:.0f} s", flush=True)
        if (
            now.step % self.how.checkpoint_every == LOOK_EVERY
            and now.step > self.how.checkpoint_every
        ):
            saved = read_about(self.args.work)
            self.write(
                [record["curve"] for record in saved["records"]], saved["done"], saved["seconds"]
            )

    def write(
        self, curves: list[list[dict[str, Any]]], step: int, seconds: float, **more: Any
    ) -> None:
        """Write the curves of every dataset, and print the last scores."""
        about = {
            "model": self.args.model,
            "step": step,
            "seconds": seconds,
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
            "torch": torch.__version__,
            "command": " ".join(sys.argv),
            "stack": [list(member) for member in self.members],
            "network": repr(self.net),
            "settings": dataclasses.asdict(self.how),
        }
        for name in self.names:
            places = self.places(name)
            own = {
                self.members[i][1]: [list(point.values()) for point in curves[i]] for i in places
            }
            mine = {key: value[name] for key, value in more.items()}
            _replace(
                self.file(name, ".json"), json.dumps({"data": name, **about, **mine, "curves": own})
            )
            for split in ("iid", "ood"):
                last = [[p["score"] for p in curves[i] if p["split"] == split][-1:] for i in places]
                print(f"  {name} {split}", " ".join(f"{s[0]:.3f}" for s in last if s), flush=True)

    def finish(self, outcomes: list[TrainingOutcome], seconds: float) -> None:
        """Write the curves, accuracy by layers, states and answers."""
        device = torch.device(
            "cuda" if torch.cuda.is_available() and self.args.device != "cpu" else "cpu"
        )
        curves = [[dataclasses.asdict(point) for point in outcome.curve] for outcome in outcomes]
        step = outcomes[0].step
        self.write(curves, step, seconds, layers=dict.fromkeys(self.names))
        layers = {}
        for name, data in zip(self.names, self.data, strict=True):
            own = [outcomes[i] for i in self.places(name)]
            weights = {
                n: torch.stack([o.weights[n] for o in own]).to(device) for n in own[0].weights
            }
            arrays = states(self.net, data, weights, device)
            arrays |= {"learner": np.array(self.args.model), "data": np.array(name)}
            arrays["seeds"] = np.array([self.members[i][1] for i in self.places(name)])
            arrays["step"] = np.array(step)
            np.savez_compressed(self.file(name, "-states.npz"), **arrays)
            layers[name] = by_layers(self.net, data, weights, device)
        self.write(curves, step, seconds, layers=layers)


def _value(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    return name, json.loads(value)


def _replace(path: Path, text: str) -> None:
    beside = path.with_suffix(".part")
    beside.write_text(text)
    beside.replace(path)


def read_about(folder: Path) -> dict[str, Any]:
    """Read the description in a checkpoint, without its tensors."""
    with safe_open(folder / checkpoint.NAME, framework="pt") as file:
        about: dict[str, Any] = json.loads(file.metadata()["about"])
        return about


def answer(
    net: Net, data: Data, weights: dict[str, Tensor], raw: Encoded, device: torch.device
) -> tuple[Any, Any]:
    """Return the classes [seeds, rows] that networks answer with, and their read-out states."""
    framed = Resident(data.framed(net, raw), device)
    answers, read = [], []
    with torch.no_grad():
        for rows in torch.arange(len(raw), device=device).tensor_split(-(-len(raw) // ROWS)):
            trace: dict[str, Any] = {}
            tokens, lengths, _ = framed.batch(rows, framed.tokens.shape[1])
            answers.append(net.forward(weights, tokens, lengths, trace=trace).argmax(-1))
            read.append(trace["readout"])
    return torch.cat(answers, 1).cpu().numpy().astype(np.int8), torch.cat(
        read, 1
    ).cpu().numpy().astype(np.float16)


def states(
    net: Net, data: Data, weights: dict[str, Tensor], device: torch.device
) -> dict[str, Any]:
    """Return answers on every test split and on every two functions, and the read-out state of
    every `function symbol`.
    """
    symbols = [w for w in data.words.words if w in data.classes]
    functions = [w for w in data.words.words if w not in data.classes]
    singles = [f"{f} {s}" for f in functions for s in symbols]
    pairs = [f"{g} {single}" for g in functions for single in singles]
    arrays: dict[str, Any] = {
        "singles": np.array(singles),
        "pairs": np.array(pairs),
        "classes": np.array(data.classes),
    }
    texts = {"singles": encode(singles, data.words), "pairs": encode(pairs, data.words)}
    for name, raw in {**{n: r for n, r in data.raw.items() if n != "train"}, **texts}.items():
        answers, read = answer(net, data, weights, raw, device)
        arrays[f"{name}.answers"] = answers
        if name == "singles":
            arrays["singles.readout"] = read
    return arrays


def by_layers(
    net: Any, data: Data, weights: dict[str, Tensor], device: torch.device
) -> dict[str, dict[int, Any]]:
    """Return the accuracy of every seed by split and by the number of layers that are applied when
    answering.
    """
    if not hasattr(net, "layers_answering"):
        return {}
    scores: dict[str, dict[int, Any]] = {}
    for split in ("iid", "ood"):
        raw = data.raw[split]
        for layers in range(max(1, net.layers - FEWER), net.layers + MORE + 1):
            other = dataclasses.replace(net, layers_answering=layers)
            right = answer(other, data, weights, raw, device)[0] == raw.labels
            scores.setdefault(split, {})[layers] = right.mean(1).round(4).tolist()
    return scores


def run(args: argparse.Namespace) -> None:
    """Train a stack and write what came of it."""
    args.out.mkdir(parents=True, exist_ok=True)
    args.work.mkdir(parents=True, exist_ok=True)
    stack = Stack(args, members_of(args.members))
    outcomes, end = stack.train()
    print(f"stopped: {end}", flush=True)
    stack.finish(outcomes, read_about(args.work)["seconds"])
    print(f"written after {time.monotonic() - BEGAN:.0f} s in all", flush=True)


Saved = tuple[dict[str, Tensor], dict[str, Any]]


def read_saved(folder: Path) -> Saved:
    """Read the checkpoint in a folder."""
    saved = checkpoint.read(folder)
    if saved is None:
        raise SystemExit(f"{folder} has no checkpoint")
    return saved


def members_saved(about: dict[str, Any]) -> list[tuple[int, int]]:
    """Return the source and the seed of each member of a checkpoint."""
    identity = about["identity"]
    return [tuple(m) for m in identity.get("members", [[0, seed] for seed in identity["seeds"]])]


def per_source(identity: dict[str, Any], key: str) -> list[Any]:
    """Return `data` or `evaluate` of an identity as a list by source, also where there is one
    source.
    """
    return list(identity[key]) if "members" in identity else [identity[key]]


def identity_of(
    identity: dict[str, Any], sources: list[Any], members: list[tuple[int, int]]
) -> dict[str, Any]:
    """Return an identity with other sources (digests of training data and of test splits) and
    members.
    """
    data, evaluate = [one for one, _ in sources], [one for _, one in sources]
    own = {k: v for k, v in identity.items() if k != "members"}
    own |= {"seeds": [seed for _, seed in members]}
    if len(sources) == 1:
        return {**own, "data": data[0], "evaluate": evaluate[0]}
    return {**own, "data": data, "evaluate": evaluate, "members": [list(m) for m in members]}


def cut(saved: Saved, places: list[int]) -> Saved:
    """Return the checkpoint of some members of a stack."""
    tensors, about = saved
    members, identity = members_saved(about), about["identity"]
    sources = list(zip(per_source(identity, "data"), per_source(identity, "evaluate"), strict=True))
    used = sorted({members[i][0] for i in places}, key=[members[i][0] for i in places].index)
    own = [(used.index(members[i][0]), members[i][1]) for i in places]
    about = {
        **about,
        "identity": identity_of(identity, [sources[u] for u in used], own),
        "records": [about["records"][i] for i in places],
    }
    return {n: t[places] if t.dim() else t for n, t in tensors.items()}, about


def join(parts: list[Saved]) -> Saved:
    """Return one checkpoint of the members of several, which must be of one step and one kind of
    training.
    """
    first = parts[0][1]
    sources: list[Any] = []
    members: list[tuple[int, int]] = []
    for _, about in parts:
        if any(about[key] != first[key] for key in ("done", "measured")):
            raise SystemExit(
                "the checkpoints are of different steps; train the earlier one further, then join"
                " them"
            )
        own = about["identity"]
        if any(own[key] != first["identity"][key] for key in ("network", "settings")):
            raise SystemExit("the checkpoints are of different networks or settings")
        known = list(zip(per_source(own, "data"), per_source(own, "evaluate"), strict=True))
        sources += [one for one in known if one not in sources]
        members += [(sources.index(known[place]), seed) for place, seed in members_saved(about)]
    tensors = {
        n: torch.cat([part[n] for part, _ in parts]) if t.dim() else t
        for n, t in parts[0][0].items()
    }
    identity = identity_of(first["identity"], sources, members)
    records = [record for _, about in parts for record in about["records"]]
    return tensors, {**first, "identity": identity, "records": records}


def cut_file(args: argparse.Namespace) -> None:
    """Write the checkpoint of some members of a stack, named by the dataset's place in the stack:
    `0:0-3 1:4`.
    """
    saved = read_saved(args.work)
    wanted = [(int(place), seed) for place, seed in members_of(args.members)]
    args.out.mkdir(parents=True, exist_ok=True)
    checkpoint.save(
        args.out, *cut(saved, [members_saved(saved[1]).index(member) for member in wanted])
    )


def list_members(args: argparse.Namespace) -> None:
    """Print the members of a checkpoint as `cut` takes them."""
    for place, seed in members_saved(read_about(args.work)):
        print(f"{place}:{seed}")


def join_files(args: argparse.Namespace) -> None:
    """Write one checkpoint of the members of several."""
    args.work.mkdir(parents=True, exist_ok=True)
    checkpoint.save(args.work, *join([read_saved(part) for part in args.parts]))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("train")
    one.add_argument("--model", choices=learners_gpu.MODELS, required=True)
    one.add_argument("--data", type=Path, required=True, help="the folder of the exports")
    one.add_argument(
        "--members", nargs="+", required=True, help="DATASET:SEEDS, as in A:0-9 R:0-3,8"
    )
    one.add_argument("--out", type=Path, required=True)
    one.add_argument(
        "--work",
        type=Path,
        required=True,
        help="the folder of the checkpoint; in memory it costs least",
    )
    one.add_argument(
        "--seconds", type=float, default=1e9, help="for everything, from the start of the process"
    )
    one.add_argument("--evaluate-every", type=int, default=2_000)
    one.add_argument("--checkpoint-every", type=int, default=4_000)
    one.add_argument("--precision", default="bf16")
    one.add_argument("--kernels", choices=("auto", "always", "never"), default="always")
    one.add_argument("--device", default="auto")
    one.add_argument(
        "--set",
        action="append",
        default=[],
        help="a setting of network or training, as JSON: state=32",
    )
    two = commands.add_parser("cut")
    two.add_argument("--work", type=Path, required=True)
    two.add_argument(
        "--members", nargs="+", required=True, help="PLACE OF THE DATASET:SEEDS, as in 0:0-9 1:3"
    )
    two.add_argument("--out", type=Path, required=True)
    listed = commands.add_parser("members")
    listed.add_argument("--work", type=Path, required=True)
    three = commands.add_parser("join")
    three.add_argument("--parts", type=Path, nargs="+", required=True)
    three.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        {"train": run, "cut": cut_file, "join": join_files, "members": list_members}[args.command](
            args
        )


if __name__ == "__main__":
    main()
