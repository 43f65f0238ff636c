"""The runs of the study `reinforcement` on a GPU, with settings that are chosen by trainings of
another seed.

    python benchmarks/reinforcement_gpu.py --store runs/reinforcement --choice choice.json

Nothing is chosen by a test item or by an unseen composition. With a seed that no arm has:

1. Supervised trainings at several rates, measured on seen compositions of the split `dev`. The rate
   with the best end is taken, and the start is the first measured step at which the model is right
   often enough to be rewarded.
2. Short reinforcements after that start, at several rates. The rate with the highest reward in
   their last third is taken.

Then all arms are run, as many steps as the time allows. What was chosen, with all curves, is
written to the file; put it into `taskloom.papers.reinforcement` before the page is made.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import taskloom as tl
from taskloom.core.descriptions import UNSEEN
from taskloom.experiments import api
from taskloom.experiments.spec import experiment as spec
from taskloom.learners.config import read
from taskloom.papers import reinforcement as study

SEED = 100
"""Of the trainings that choose."""

LEVEL = 0.3
"""The share of dev items from which a model is right often enough: more than guessing two of four
words (0.17).
"""

SUPERVISED_RATES = (5e-5, 1e-4, 3e-4)
RATES = (1e-5, 3e-5, 1e-4)
"""Of reinforcement."""

SLOWER = 1.8
"""How much longer a step takes where all arms run at once, against one for each rate: 3.5 s against
2.0 s on an H200.
"""


@dataclass
class Trial:
    """One training: its settings, the points of its curve (step and score), and its seconds a
    step.
    """

    settings: dict[str, Any]
    points: list[tuple[int, float]] = field(default_factory=list)
    seconds: float = 0.0


def attempt(scale: str, settings: dict[str, Any], split: str) -> Trial:
    """Train once, and return the scores of the training rewards or of the seen compositions of
    dev.
    """
    block = study.recipe(scale)
    data = tl.make(block["recipe"], set=block["set"])
    seen = [example for example in data["dev"] if not example.traits[UNSEEN]]
    last = [0.0, 0.0]

    def progress(point: Any) -> None:
        last[:] = [point.seconds, point.step]

    fitted = read(settings).fit(data["train"], {"dev": seen}, seed=SEED, progress=progress)
    points = [(point.step, point.score) for point in fitted.curve if point.split == split]
    return Trial(settings, points, last[0] / max(1.0, last[1]))


def attempts(scale: str, settings: Sequence[dict[str, Any]], split: str) -> list[Trial]:
    """Train with several settings at once, each in a process of its own."""
    with ProcessPoolExecutor(len(settings), mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(attempt, scale, one, split) for one in settings]
        return [future.result() for future in futures]


def choose_start(scale: str, model: str, steps: int, every: int) -> list[Trial]:
    """Choose the supervised rate and the start."""
    base = {**study.supervised(steps, model), "evaluate_every": every}
    trials = attempts(scale, [{**base, "rate": rate} for rate in SUPERVISED_RATES], "dev")
    best = max(trials, key=lambda trial: trial.points[-1][1])
    study.SUPERVISED["rate"] = best.settings["rate"]
    study.STARTS[scale] = next(
        (step for step, score in best.points if score >= LEVEL), best.points[-1][0] // 2
    )
    return trials


def choose_rate(scale: str, model: str, steps: int) -> list[Trial]:
    """Choose the rate of reinforcement."""
    arm = {**study.reinforced(scale, model)[0], "steps": steps}
    trials = attempts(scale, [{**arm, "rate": rate} for rate in RATES], "train")

    def end(trial: Trial) -> float:
        last = trial.points[-max(1, len(trial.points) // 3) :]
        return sum(score for _, score in last) / len(last)

    study.REINFORCED[scale]["rate"] = max(trials, key=end).settings["rate"]
    return trials


def main() -> None:
    """Choose, run all arms, and write what was chosen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--choice", required=True, type=Path, help="the file for what was chosen")
    parser.add_argument("--scale", default="gpu", choices=("quick", "gpu"))
    parser.add_argument("--model", default="", help="a folder or hub id instead of SmolLM2")
    parser.add_argument("--seconds", type=float, default=360, help="time for everything")
    parser.add_argument(
        "--steps", type=int, default=140, help="of the supervised trainings that choose"
    )
    parser.add_argument(
        "--every", type=int, default=20, help="steps between two measurements of them"
    )
    parser.add_argument(
        "--short", type=int, default=24, help="steps of the reinforcements that choose"
    )
    parser.add_argument(
        "--workers", type=int, default=4, help="runs at once; one of reinforcement took up to 29 GB"
    )
    given = parser.parse_args()
    scale, model, began = given.scale, given.model, time.monotonic()

    def note(**more: Any) -> None:
        chosen = {
            "start": study.STARTS[scale],
            "steps": study.STEPS[scale],
            "supervised": study.SUPERVISED,
            "reinforced": study.REINFORCED[scale],
            "seconds": round(time.monotonic() - began),
        }
        notes.update(chosen | more)
        given.choice.write_text(json.dumps(notes, indent=1), encoding="utf-8")
        print(json.dumps(chosen), flush=True)

    notes: dict[str, Any] = {}
    trials = choose_start(scale, model, given.steps, given.every)
    note(supervised_trials=[vars(trial) for trial in trials])
    trials = choose_rate(scale, model, given.short)
    left = (
        given.seconds - (time.monotonic() - began) - 50
    )  # for starting processes, supervised starts and testing
    pace = SLOWER * max(trial.seconds for trial in trials)
    study.STEPS[scale] = max(given.short, min(study.STEPS[scale], int(left / pace)))
    note(reinforced_trials=[vars(trial) for trial in trials])
    experiment = spec.check(dict(study.experiment(scale, model)), "the study")
    state = api.fill(experiment, given.store, workers=given.workers).state
    note(done=state.done, failed=dict(state.failed))


if __name__ == "__main__":
    main()
