"""Put what `ctlpp_gpu.py train` wrote into the files of the results page: scores, curves, accuracy by layers, states of some seeds.

    python benchmarks/ctlpp_scores.py OUT docs/results/ctlpp --commit COMMIT [--states ndr-A:3,7 ndr-R:0,4]

Seeds are added to the group of the same recipe, learner and settings. A training that was stopped counts with the steps at which it
was measured last.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

DRAWS: dict[str, dict[str, Any]] = {
    "published": {},
    "chains": {"recipe.draw": "chains", "recipe.include_singles": False, "recipe.include_pairs": True},
    "independent": {"recipe.draw": "independent", "recipe.include_singles": False, "recipe.include_pairs": True},
}
"""The settings of the recipes ctl/A and ctl/R with which the data were exported, by the end of the export's name."""

SPLITS = ("iid", "ood", "all")


def group_of(result: dict[str, Any], commit: str) -> dict[str, Any]:
    """Return the scores of a training as a group of a file of scores."""
    variant, _, draw = result["data"].partition("-")
    steps, step = result["settings"]["steps"], max(point[0] for curve in result["curves"].values() for point in curve)
    fields = {**DRAWS[draw or "published"], "learner.preset": "ctlpp"}
    fields |= {"learner.steps": step} if step < steps else {}
    fields |= {"learner.precision": result["settings"]["precision"]}
    return {
        "recipe": f"ctl/{variant}",
        "learner": result["model"],
        "fields": fields,
        "n": dict.fromkeys(SPLITS, 1000),
        "environment": {
            "gpu": result["device"],
            "versions": {"torch": result["torch"]},
            "precision": result["settings"]["precision"],
            "kernels": True,
            "seconds": round(result["seconds"]),
            "command": f"{command_of(result)} (commit {commit})",
        },
        "seeds": {seed: last_scores(curve) for seed, curve in result["curves"].items()},
        "curves": {
            seed: [[step, split, round(score, 4)] for step, split, score, _ in curve if split in SPLITS]
            for seed, curve in result["curves"].items()
        },
    }


def command_of(result: dict[str, Any]) -> str:
    """Return the command without folders of the machine that it ran on."""
    words = ["benchmarks/ctlpp_gpu.py", *result["command"].split()[1:]]
    for i, word in enumerate(words[:-1]):
        if word in ("--data", "--out", "--work"):
            words[i + 1] = word[2:].upper()
    stopped = result["step"] < result["settings"]["steps"]
    return " ".join(words) + (f", stopped after step {result['step']:,}" if stopped else "")


def last_scores(curve: list[tuple[int, str, float, float]]) -> dict[str, float]:
    """Return the last score on each split."""
    last = {split: score for _, split, score, _ in curve}
    return {split: round(last[split], 4) for split in SPLITS}


def alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two groups differ in their seeds alone."""
    return all(one[key] == other[key] for key in ("recipe", "learner", "fields"))


def add(groups: list[dict[str, Any]], group: dict[str, Any]) -> None:
    """Add the seeds of a group to the one that is alike, or the group."""
    for known in groups:
        if alike(known, group):
            known["seeds"] = dict(sorted({**known["seeds"], **group["seeds"]}.items(), key=lambda item: int(item[0])))
            if "curves" in group:
                known["curves"] = {**known["curves"], **group["curves"]}
            before, now = known["environment"], group["environment"]
            if before["command"] != now["command"]:
                known["environment"] = {**before, "command": f"{before['command']}; {now['command']}"}
            return
    groups.append(group)


def layers_of(result: dict[str, Any]) -> dict[str, Any]:
    """Return the accuracies of a training by the layers at test."""
    variant, _, draw = result["data"].partition("-")
    about = {"learner": result["model"], "variant": variant, "draw": draw or "published", "step": result["step"]}
    return {**about, "seeds": [int(seed) for seed in result["curves"]], "accuracy": result["layers"]}


def states_of(path: Path, seeds: list[int], out: Path) -> None:
    """Write the states and the answers to pairs of some seeds of a file."""
    with np.load(path) as file:
        places = [file["seeds"].tolist().index(seed) for seed in seeds]
        arrays: dict[str, Any] = {name: file[name] for name in ("singles", "pairs", "classes")}
        arrays |= {name: file[name][places] for name in ("singles.readout", "pairs.answers")}
    np.savez_compressed(out, seeds=np.array(seeds), **arrays)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="the folder that ctlpp_gpu.py wrote to")
    parser.add_argument("page", type=Path, help="the folder of the page's files")
    parser.add_argument("--commit", required=True, help="of the code that trained")
    parser.add_argument("--states", nargs="*", default=[], help="MODEL-DATASET:SEEDS whose states are kept")
    args = parser.parse_args()
    results = [json.loads(path.read_text()) for path in sorted(args.results.glob("*.json"))]
    scores = json.loads((args.page / "scores.json").read_text())
    curves: dict[str, Any] = {"format": scores["format"], "schema": scores["schema"], "groups": []}
    for result in results:
        group = group_of(result, args.commit)
        add(curves["groups"], group)
        add(scores["groups"], {key: value for key, value in group.items() if key != "curves"})
    (args.page / "scores.json").write_text(json.dumps(scores, indent=1) + "\n")
    (args.page / "curves.json").write_text(json.dumps(curves) + "\n")
    layers = {"trainings": [layers_of(r) for r in results if r.get("layers")]}
    (args.page / "layers.json").write_text(json.dumps(layers) + "\n")
    for text in args.states:
        name, _, seeds = text.partition(":")
        chosen = [int(seed) for seed in seeds.split(",")]
        states_of(args.results / f"{name}-states.npz", chosen, args.page / f"{name}-states.npz")
    for result in results:
        ends = {seed: last_scores(curve) for seed, curve in result["curves"].items()}
        print(result["data"], result["step"], {seed: (end["iid"], end["ood"]) for seed, end in ends.items()})


if __name__ == "__main__":
    main()
