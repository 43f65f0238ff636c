"""The runs of the study `reinforcement` on a GPU, with supervised starts that are chosen by one training of another seed.

    python benchmarks/reinforcement_gpu.py --store runs/reinforcement

Reinforcement learns from a model that is sometimes right. One supervised training with seed 100, which no arm has, shows after how
many steps that is so: the first measured step with an iid accuracy of at least 0.3, and the first with at least 0.6, are the two
starts. They are printed; put them into `taskloom.studies.reinforcement.STARTS` before the page is made.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import taskloom as tl
from taskloom.experiments import api, spec
from taskloom.learners.config import read
from taskloom.studies import reinforcement as study

LEVELS = (0.3, 0.6)
"""The iid accuracies from which the two starts are taken."""

EVERY = 25
"""Steps between two measurements of the training that chooses."""


def choose(scale: str, model: str, steps: int) -> tuple[int, int]:
    """Train once with a seed of its own, and return the steps at which the levels are reached; where not, the last ones."""
    block = study.recipe(scale)
    data = tl.make(block["recipe"], set=block["set"])
    learner = read({**study.supervised(steps, model), "evaluate_every": EVERY})
    fitted = learner.fit(data["train"], {"iid": list(islice(data["iid"], 200))}, seed=100)
    curve = [(point.step, point.score) for point in fitted.curve if point.split == "iid"]
    print(json.dumps({"curve": curve}), flush=True)
    starts = [next((step for step, score in curve if score >= level), 0) for level in LEVELS]
    first = starts[0] or steps // 2
    return first, starts[1] if starts[1] > first else min(2 * first, steps)


def fill(block: dict[str, object], store: str) -> None:
    """Run an experiment, and print how it went."""
    outcome = api.fill(spec.check(block, "the study"), store)
    print(json.dumps({"done": outcome.state.done, "failed": outcome.state.failed}), flush=True)


def main() -> None:
    """Choose the starts while reinforcement alone is running, then run the rest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--scale", default="full", choices=("quick", "full"))
    parser.add_argument("--model", default="", help="a folder or hub id instead of SmolLM2")
    parser.add_argument("--steps", type=int, default=600, help="of the training that chooses")
    parser.add_argument("--alone", action="store_true", help="only reinforcement without a start")
    given = parser.parse_args()
    scale, model = given.scale, given.model
    alone = study.reinforced(scale, model)[-1:]
    if given.alone:
        fill({**study.experiment(scale, model), "learners": alone}, given.store)
        return
    Path(given.store).mkdir(parents=True, exist_ok=True)
    command = [sys.executable, __file__, "--store", given.store, "--scale", scale, "--model", model, "--alone"]
    with subprocess.Popen(command) as beside:
        study.STARTS[scale] = choose(scale, model, given.steps)
        print(json.dumps({"starts": study.STARTS[scale]}), flush=True)
        rest = dict(study.experiment(scale, model))
        rest["learners"] = [arm for arm in rest["learners"] if arm not in alone]
        fill(rest, given.store)
        beside.wait()


if __name__ == "__main__":
    main()
