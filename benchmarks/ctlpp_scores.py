"""Put what `ctlpp_gpu.py train` wrote into the files of the results page: scores, curves, accuracy by layers, states of some seeds.

    python benchmarks/ctlpp_scores.py OUT... --page docs/results/ctlpp --commit COMMIT [--states ndr-A:3,7 ndr-R:0,4]

Seeds are added to the group of the same recipe, learner and settings. A training that was stopped counts with the steps at which it
was measured last; seeds that were trained further take the place of what they were.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
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


STEPS = "learner.steps"


def replace_earlier(groups: list[dict[str, Any]], group: dict[str, Any]) -> None:
    """Take out the seeds of a group that were trained less far; the commands that brought them there are kept in the group's."""
    timeless = {**group, "fields": {name: value for name, value in group["fields"].items() if name != STEPS}}
    for known in list(groups):
        fields = {name: value for name, value in known["fields"].items() if name != STEPS}
        steps = known["fields"].get(STEPS, math.inf)
        if not alike({**known, "fields": fields}, timeless) or steps >= group["fields"].get(STEPS, math.inf):
            continue
        further = known["seeds"].keys() & group["seeds"].keys()
        if further:
            now = group["environment"]
            group["environment"] = {**now, "command": f"{known['environment']['command']}; {now['command']}"}
        for seed in further:
            del known["seeds"][seed]
            known.get("curves", {}).pop(seed, None)
        if not known["seeds"]:
            groups.remove(known)


def add(groups: list[dict[str, Any]], group: dict[str, Any]) -> None:
    """Add the seeds of a group to the one that is alike, or the group."""
    replace_earlier(groups, group)
    for known in groups:
        if alike(known, group):
            known["seeds"] = dict(sorted({**known["seeds"], **group["seeds"]}.items(), key=lambda item: int(item[0])))
            if "curves" in group:
                known["curves"] = {**known["curves"], **group["curves"]}
            before, now = known["environment"], group["environment"]
            if now["command"] not in before["command"]:
                known["environment"] = {**before, "command": f"{before['command']}; {now['command']}"}
            return
    groups.append(group)


def layers_of(result: dict[str, Any]) -> dict[str, Any]:
    """Return the accuracies of a training by the layers at test."""
    variant, _, draw = result["data"].partition("-")
    about = {"learner": result["model"], "variant": variant, "draw": draw or "published", "step": result["step"]}
    return {**about, "seeds": [int(seed) for seed in result["curves"]], "accuracy": result["layers"]}


def add_layers(entries: list[dict[str, Any]], entry: dict[str, Any]) -> None:
    """Add the seeds of an entry to the one of the same training; seeds that were trained further replace what they were."""
    for known in list(entries):
        if any(known[key] != entry[key] for key in ("learner", "variant", "draw")):
            continue
        old = [place for place, seed in enumerate(known["seeds"]) if seed not in entry["seeds"]]
        rest = _some(known, old)
        if known["step"] == entry["step"]:
            entry = _together(rest, entry)
            entries.remove(known)
        elif old:
            known |= rest
        else:
            entries.remove(known)
    entries.append(entry)


def _some(entry: dict[str, Any], places: list[int]) -> dict[str, Any]:
    """Return an entry with some of its seeds."""
    accuracy = {
        split: {layers: [values[i] for i in places] for layers, values in counts.items()}
        for split, counts in entry["accuracy"].items()
    }
    return {**entry, "seeds": [entry["seeds"][i] for i in places], "accuracy": accuracy}


def _together(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return an entry with the seeds of both, sorted."""
    accuracy = {
        split: {layers: values + other["accuracy"][split][layers] for layers, values in counts.items()}
        for split, counts in one["accuracy"].items()
    }
    both = {**other, "seeds": one["seeds"] + other["seeds"], "accuracy": accuracy}
    return _some(both, sorted(range(len(both["seeds"])), key=both["seeds"].__getitem__))


def write_states(folders: list[Path], name: str, seeds: list[int], out: Path) -> None:
    """Write the states and the answers to pairs of some seeds, from the last folder that has them."""
    arrays: dict[str, Any] = {}
    by_seed: dict[int, dict[str, Any]] = {}
    for path in (folder / f"{name}-states.npz" for folder in folders):
        if path.is_file():
            with np.load(path) as file:
                arrays |= {key: file[key] for key in ("singles", "pairs", "classes")}
                for place, seed in enumerate(file["seeds"].tolist()):
                    by_seed[seed] = {key: file[key][place] for key in ("singles.readout", "pairs.answers")}
    arrays |= {key: np.stack([by_seed[seed][key] for seed in seeds]) for key in ("singles.readout", "pairs.answers")}
    np.savez_compressed(out, seeds=np.array(seeds), **arrays)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+", help="the folders that ctlpp_gpu.py wrote to")
    parser.add_argument("--page", type=Path, required=True, help="the folder of the page's files")
    parser.add_argument("--commit", required=True, help="of the code that trained")
    parser.add_argument("--states", nargs="*", default=[], help="MODEL-DATASET:SEEDS whose states are kept")
    args = parser.parse_args()
    results = [json.loads(path.read_text()) for folder in args.results for path in sorted(folder.glob("*.json"))]
    scores, curves = (json.loads((args.page / name).read_text()) for name in ("scores.json", "curves.json"))
    layers = json.loads((args.page / "layers.json").read_text())
    for result in results:
        group = group_of(result, args.commit)
        add(curves["groups"], copy.deepcopy(group))
        add(scores["groups"], {key: value for key, value in group.items() if key != "curves"})
        if result.get("layers"):
            add_layers(layers["trainings"], layers_of(result))
        ends = {seed: last_scores(curve) for seed, curve in result["curves"].items()}
        print(result["data"], result["step"], {seed: (end["iid"], end["ood"]) for seed, end in ends.items()})
    (args.page / "scores.json").write_text(json.dumps(scores, indent=1) + "\n")
    (args.page / "curves.json").write_text(json.dumps(curves) + "\n")
    (args.page / "layers.json").write_text(json.dumps(layers) + "\n")
    for text in args.states:
        name, _, seeds = text.partition(":")
        chosen = [int(seed) for seed in seeds.split(",")]
        write_states(args.results, name, chosen, args.page / f"{name}-states.npz")


if __name__ == "__main__":
    main()
