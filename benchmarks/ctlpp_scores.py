"""Put what `ctlpp_gpu.py train` wrote into the files of the results page: scores, curves, accuracy
by layers, states of some seeds.

    python benchmarks/ctlpp_scores.py OUT... --page docs/results/ctlpp --commit COMMIT [--states
    ndr-A:3,7 ndr-R:0,4]

Seeds are added to the group of the same recipe, learner and settings. In the scores a training that
was stopped counts with the steps at which it was measured last; seeds that were trained further
take the place of what they were. A training of more steps than the paper's counts twice, with what
it had after these and at its end; seeds that were trained for these steps before stay. Draws of
other numbers of processes, and those on other function tables, go to processes-scores.json.
`--regrouped` adds to regrouped-scores.json, regrouped-curves.json and regrouped-states.npz instead:
trainings on tables whose functions were divided anew among the groups.
`--states` names all seeds whose states the page's file is to have (those that figures show), from
the folders or from the file itself. `--draws-at 78000` writes draws-scores.json as well: the scores
at that step of the learners of which some runs were stopped before their end, and the final scores
of the others.
"""

from __future__ import annotations

import argparse
import copy
import json
from pathlib import Path
from typing import Any

import numpy as np

PROCESSES = "recipe.processes"

DRAWS: dict[str, dict[str, Any]] = {
    "chains": {
        "recipe.draw": "chains",
        "recipe.include_singles": False,
        "recipe.include_pairs": True,
    },
    "independent": {
        "recipe.draw": "independent",
        "recipe.include_singles": False,
        "recipe.include_pairs": True,
    },
}
"""Settings of ctl/A and ctl/R by the draw in an export's name; without one the draw is the recipe's
own.
"""

GROUPINGS = ("smallest", "largest")
"""Values of `group_distance` in an export's name."""

NUMBERED = {"processes": PROCESSES, "table": "recipe.table_seed", "seed": "recipe.seed"}
"""Settings that an export's name gives with a number: `R-processes8-table1-seed1`."""

SHORT_NAMES = {
    "A8": "A-processes8",
    "A8b": "A-processes8-seed1",
    "R8b": "R-processes8-seed1",
    **{f"T{t}p{p}": f"R-processes{p}-table{t}-seed{t}" for t in (1, 2, 3) for p in (8, 32)},
}
"""Exports whose own name is shorter than what they are: variant, draw, seed of the function table
and seed of the data.
"""


def recipe_of(data: str) -> tuple[str, dict[str, Any]]:
    """Variant and recipe fields of an export.

    >>> recipe_of("T1p8")
    ('R', {'recipe.processes': 8, 'recipe.table_seed': 1, 'recipe.seed': 1})
    >>> recipe_of("A")
    ('A', {})
    >>> recipe_of("R-processes8-reference-largest")
    ('R-reference', {'recipe.processes': 8, 'recipe.group_distance': 'largest'})
    """
    variant, *parts = SHORT_NAMES.get(data, data).split("-")
    fields: dict[str, Any] = {}
    for part in parts:
        kind = part.rstrip("0123456789")
        if kind in NUMBERED:
            fields[NUMBERED[kind]] = int(part.removeprefix(kind))
        elif part in GROUPINGS:
            fields["recipe.group_distance"] = part
        elif part == REFERENCE:
            variant = f"{variant}-{REFERENCE}"
        else:
            fields |= DRAWS[part]
    return variant, fields


REFERENCE = "reference"
"""In an export's name: the function tables of the public code (the recipe `ctl/A-reference`)."""

SPLITS = ("iid", "ood", "all")

PAPER_STEPS = {"bilstm": 80_000, "transformer": 300_000, "ndr": 80_000}
"""Steps of a training (Table 2 of the paper), which the preset has as well."""


def group_of(result: dict[str, Any], commit: str) -> dict[str, Any]:
    """Return the scores of a training as a group of a file of scores."""
    variant, drawn = recipe_of(result["data"])
    step = max(point[0] for curve in result["curves"].values() for point in curve)
    fields = {**drawn, "learner.preset": "ctlpp"}
    fields |= {"learner.steps": step} if step != PAPER_STEPS[result["model"]] else {}
    fields |= {"learner.precision": result["settings"]["precision"]}
    return {
        "recipe": f"ctl/{variant}",
        "learner": result["model"],
        "fields": fields,
        "n": dict.fromkeys(measured_splits(result), 1000),
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
            seed: [
                [step, split, round(score, 4)] for step, split, score, _ in curve if split in SPLITS
            ]
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
    return {split: round(last[split], 4) for split in SPLITS if split in last}


def measured_splits(result: dict[str, Any]) -> list[str]:
    """Splits that a training was evaluated on; not all were measured on `all`."""
    measured = {split for curve in result["curves"].values() for _, split, *_ in curve}
    return [split for split in SPLITS if split in measured]


def alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two groups differ in their seeds alone."""
    return all(one[key] == other[key] for key in ("recipe", "learner", "fields"))


STEPS = "learner.steps"


def without_steps(group: dict[str, Any]) -> dict[str, Any]:
    """Return a group without the number of steps after which its training was stopped."""
    return {
        **group,
        "fields": {name: value for name, value in group["fields"].items() if name != STEPS},
    }


def both_commands(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return an environment with the commands of two, each command once; seconds are kept where the
    command is one.
    """
    commands = dict.fromkeys(f"{one['command']}; {other['command']}".split("; "))
    both = {**one, "command": "; ".join(commands)}
    if len(commands) > 1:
        both.pop("seconds", None)
    return both


def steps_of(group: dict[str, Any]) -> int:
    """Return the steps of a group's trainings."""
    return int(group["fields"].get(STEPS, PAPER_STEPS[group["learner"]]))


def replace_earlier(groups: list[dict[str, Any]], group: dict[str, Any]) -> None:
    """Take out the seeds of a group that were stopped before; the commands that brought them there
    are kept in the group's.
    """
    for known in list(groups):
        same = alike(without_steps(known), without_steps(group))
        if not same or steps_of(known) >= min(steps_of(group), PAPER_STEPS[group["learner"]]):
            continue
        further = known["seeds"].keys() & group["seeds"].keys()
        if further:
            group["environment"] = both_commands(known["environment"], group["environment"])
        for seed in further:
            del known["seeds"][seed]
        if not known["seeds"]:
            groups.remove(known)


def add(groups: list[dict[str, Any]], group: dict[str, Any]) -> None:
    """Add the seeds of a group to the one that is alike, or the group."""
    replace_earlier(groups, group)
    for known in groups:
        if alike(known, group):
            known["seeds"] = by_number({**known["seeds"], **group["seeds"]})
            known["environment"] = both_commands(known["environment"], group["environment"])
            return
    groups.append(group)


def by_number(seeds: dict[str, Any]) -> dict[str, Any]:
    """Return seeds in the order of their numbers."""
    return dict(sorted(seeds.items(), key=lambda item: int(item[0])))


def add_curves(groups: list[dict[str, Any]], group: dict[str, Any]) -> None:
    """Add the seeds of a group with their curves to the one that is alike but for its steps: curves
    show where they end.

    Of two curves of one seed the one that goes further stays.
    """
    group = without_steps(group)
    known = next((one for one in groups if alike(one, group)), None)
    if known is None:
        groups.append(group)
        return
    further = [
        s for s, curve in group["curves"].items() if _end(curve) >= _end(known["curves"].get(s, []))
    ]
    for key in ("seeds", "curves"):
        known[key] = by_number({**known[key], **{seed: group[key][seed] for seed in further}})
    if further:
        known["environment"] = both_commands(known["environment"], group["environment"])


def _end(curve: list[list[Any]]) -> int:
    return max((step for step, *_ in curve), default=0)


def at_step(group: dict[str, Any], step: int) -> dict[str, Any]:
    """Return a group of curves as a group of scores at a step, with the seeds that were measured
    there.
    """
    scores = {
        seed: {split: score for at, split, score in curve if at == step}
        for seed, curve in group["curves"].items()
    }
    kept = {key: value for key, value in group.items() if key != "curves"}
    fields = {**group["fields"], STEPS: step}
    return {**kept, "fields": fields, "seeds": {seed: own for seed, own in scores.items() if own}}


def before_the_end(
    scores: list[dict[str, Any]], curves: list[dict[str, Any]], step: int
) -> list[dict[str, Any]]:
    """Return the learners of which some runs were stopped as they were at a step, and the others'
    final scores.
    """
    stopped = {
        group["learner"] for group in scores if steps_of(group) < PAPER_STEPS[group["learner"]]
    }
    final = [group for group in scores if group["learner"] not in stopped]
    compared = [
        group
        for group in curves
        if group["learner"] in stopped and PROCESSES not in group["fields"]
    ]
    return final + [at_step(group, step) for group in compared]


def at_paper_steps(group: dict[str, Any], known: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a training of more steps as it was after the paper's, without the seeds of which that
    is known.
    """
    early = without_steps(at_step(group, PAPER_STEPS[group["learner"]]))
    there = {seed for one in known if alike(one, early) for seed in one["seeds"]}
    return {
        **early,
        "seeds": {seed: scores for seed, scores in early["seeds"].items() if seed not in there},
    }


def layers_of(result: dict[str, Any]) -> dict[str, Any]:
    """Return the accuracies of a training by the layers at test."""
    variant, _, draw = result["data"].partition("-")
    seeds = [int(seed) for seed in result["curves"]]
    about = {"learner": result["model"], "variant": variant, "draw": draw or "published"}
    return {
        **about,
        "step": [result["step"]] * len(seeds),
        "seeds": seeds,
        "accuracy": result["layers"],
    }


def add_layers(entries: list[dict[str, Any]], entry: dict[str, Any]) -> None:
    """Add the seeds of an entry to the one of the same network and data, each with its step; the
    further one of a seed stays.
    """
    for place, known in enumerate(entries):
        if all(known[key] == entry[key] for key in ("learner", "variant", "draw")):
            entries[place] = _together(known, entry)
            return
    entries.append(entry)


def _together(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return an entry with the seeds of both, sorted."""
    seeds, steps = one["seeds"] + other["seeds"], one["step"] + other["step"]
    last = {
        seed: place for place, seed in sorted(enumerate(seeds), key=lambda item: steps[item[0]])
    }
    places = [last[seed] for seed in sorted(last)]
    accuracy = {
        split: {
            layers: _some(values + other["accuracy"][split][layers], places)
            for layers, values in counts.items()
        }
        for split, counts in one["accuracy"].items()
    }
    return {**one, "step": _some(steps, places), "seeds": sorted(last), "accuracy": accuracy}


def _some(values: list[Any], places: list[int]) -> list[Any]:
    return [values[place] for place in places]


def short_names(name: str) -> list[str]:
    """Short names of the export that MODEL-DATASET names.

    >>> short_names("ndr-A-processes8")
    ['A8']
    """
    dataset = name.partition("-")[2]
    return [short for short, full in SHORT_NAMES.items() if full == dataset]


LARGEST = 127
"""The largest entry of a vector that is kept as bytes."""


def directions(vectors: Any) -> Any:
    """Return vectors as bytes, each with its largest entry at 127: cosines, all that is asked of
    them, change by 0.004.
    """
    exact = np.asarray(vectors, dtype=np.float32)
    return np.rint(exact * (LARGEST / np.abs(exact).max(-1, keepdims=True))).astype(np.int8)


def write_states(sources: list[Path], seeds: list[int], out: Path) -> None:
    """Write the states of some seeds, and the answers to pairs of those that have them, from the
    last file that has a seed.
    """
    texts: dict[str, Any] = {}
    states: dict[int, Any] = {}
    answers: dict[int, Any] = {}
    for path in sources:
        with np.load(path) as file:
            texts |= {
                key: file[key]
                for key in ("learner", "data", "singles", "pairs", "classes")
                if key in file
            }
            if "data" in texts:
                texts["data"] = np.array(SHORT_NAMES.get(str(texts["data"]), str(texts["data"])))
            states |= dict(zip(file["seeds"].tolist(), file["singles.readout"], strict=True))
            if "pairs.answers" in file:
                answered = file["pairs.seeds" if "pairs.seeds" in file else "seeds"].tolist()
                answers |= dict(zip(answered, file["pairs.answers"], strict=True))
    missing = [seed for seed in seeds if seed not in states]
    if missing:
        raise SystemExit(f"no file has states of the seed {missing[0]} for {out.name}")
    readout = np.stack([directions(states[seed]) for seed in seeds])
    arrays = {**texts, "seeds": np.array(seeds), "singles.readout": readout}
    answered = [seed for seed in seeds if seed in answers]
    if answered:
        arrays |= {
            "pairs.seeds": np.array(answered),
            "pairs.answers": np.stack([answers[seed] for seed in answered]),
        }
    np.savez_compressed(out, **arrays)


def write_regrouped(results: list[dict[str, Any]], folders: list[Path], args: Any) -> None:
    """Add trainings on regrouped tables to the page's scores, curves, answers and states.

    Their data seed is the number of the table.
    """
    scores, curves = (
        read_groups(args.page / f"regrouped-{what}.json") for what in ("scores", "curves")
    )
    for result in results:
        group = group_of(result, args.commit)
        table = group["fields"].get("recipe.table_seed")
        if table:
            group["fields"]["recipe.seed"] = table
        add_curves(curves, group)
        add(scores, {key: value for key, value in group.items() if key != "curves"})
    head = {"format": "taskloom scores", "schema": 1}
    (args.page / "regrouped-scores.json").write_text(
        json.dumps({**head, "groups": scores}, indent=1) + "\n"
    )
    (args.page / "regrouped-curves.json").write_text(json.dumps({**head, "groups": curves}) + "\n")
    out = args.page / "regrouped-states.npz"
    arrays: dict[str, Any] = dict(np.load(out)) if out.exists() else {}
    for path in sorted(path for folder in folders for path in folder.glob("*-states.npz")):
        with np.load(path) as file:
            add_states(arrays, path.name.removesuffix("-states.npz"), file)
    np.savez_compressed(out, **arrays)


def read_groups(path: Path) -> list[dict[str, Any]]:
    """Read the groups of a file of scores; none if there is no such file."""
    if not path.exists():
        return []
    groups: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["groups"]
    return groups


def add_states(arrays: dict[str, Any], name: str, file: Any) -> None:
    """Add the states and answers of a training's seeds, in place of those that are there."""
    seeds = file["seeds"]
    known = arrays.get(f"{name}.seeds", seeds[:0])
    kept = ~np.isin(known, seeds)
    own = {key: file[key] for key in file.files if key.endswith(".answers")}
    own |= {"seeds": seeds, "singles.readout": directions(file["singles.readout"])}
    for key, rows in own.items():
        before = arrays.get(f"{name}.{key}", rows[:0])
        arrays[f"{name}.{key}"] = np.concatenate([before[kept], rows])
    arrays |= {key: file[key] for key in ("singles", "pairs", "classes")}


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "results", type=Path, nargs="*", help="the folders that ctlpp_gpu.py wrote to"
    )
    parser.add_argument("--page", type=Path, required=True, help="the folder of the page's files")
    parser.add_argument("--commit", required=True, help="of the code that trained")
    parser.add_argument(
        "--draws-at",
        type=int,
        help="write draws-scores.json: learners with stopped runs at this step, others at the end",
    )
    parser.add_argument(
        "--states", nargs="*", default=[], help="MODEL-DATASET:SEEDS whose states are kept"
    )
    parser.add_argument(
        "--regrouped",
        action="store_true",
        help="trainings on regrouped tables, in files of their own",
    )
    args = parser.parse_args()
    results = [
        json.loads(path.read_text())
        for folder in args.results
        for path in sorted(folder.glob("*.json"))
    ]
    if args.regrouped:
        write_regrouped(results, args.results, args)
        return
    scores, curves = (
        json.loads((args.page / name).read_text()) for name in ("scores.json", "curves.json")
    )
    layers, processes = (
        json.loads((args.page / name).read_text())
        for name in ("layers.json", "processes-scores.json")
    )
    for result in results:
        group = group_of(result, args.commit)
        add_curves(curves["groups"], copy.deepcopy(group))
        file = processes if PROCESSES in group["fields"] else scores
        if steps_of(group) > PAPER_STEPS[group["learner"]]:
            early = at_paper_steps(group, file["groups"])
            if early["seeds"]:
                add(file["groups"], early)
        add(file["groups"], {key: value for key, value in group.items() if key != "curves"})
        if result.get("layers") and PROCESSES not in group["fields"]:
            add_layers(layers["trainings"], layers_of(result))
        ends = {seed: last_scores(curve) for seed, curve in result["curves"].items()}
        print(
            result["data"],
            result["step"],
            {seed: (end["iid"], end["ood"]) for seed, end in ends.items()},
        )
    (args.page / "scores.json").write_text(json.dumps(scores, indent=1) + "\n")
    (args.page / "processes-scores.json").write_text(json.dumps(processes, indent=1) + "\n")
    (args.page / "curves.json").write_text(json.dumps(curves) + "\n")
    (args.page / "layers.json").write_text(json.dumps(layers) + "\n")
    if args.draws_at:
        groups = before_the_end(scores["groups"], curves["groups"], args.draws_at)
        (args.page / "draws-scores.json").write_text(
            json.dumps({**scores, "groups": groups}, indent=1) + "\n"
        )
    for text in args.states:
        name, _, seeds = text.partition(":")
        file = f"{name}-states.npz"
        files = [
            file,
            *(f"{name.partition('-')[0]}-{short}-states.npz" for short in short_names(name)),
        ]
        candidates = [folder / own for folder in (args.page, *args.results) for own in files]
        sources = [path for path in candidates if path.is_file()]
        write_states(sources, [int(seed) for seed in seeds.split(",")], args.page / file)


if __name__ == "__main__":
    main()
