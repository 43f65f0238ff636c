"""One job of the studies of ZEST at full scale on a GPU: fine-tune on one part of the input, and
write the answers.

    python benchmarks/zest_language_gpu.py --part both --seed 0 --store runs/zest --scores
    OUT/both-0.json

The file of scores has the prediction for every example; `scripts/build_results.py add
docs/results/zest/scores.json FILES...` joins such files. `--scale quick` tries the script where
there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from taskloom.experiments import api
from taskloom.experiments.sources.score_files import score_groups, write_scores
from taskloom.experiments.spec import experiment as spec
from taskloom.experiments.table import Runs
from taskloom.papers.zest.experiments import KEPT_TRAITS, PARTS, description_experiment


def main() -> None:
    """Train, answer, and write the file of scores."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=PARTS, default="both")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--splits", nargs="+", default=["dev", "test"])
    parser.add_argument("--scale", choices=("quick", "full"), default="full")
    parser.add_argument("--model", default="", help="a folder or hub id instead of SmolLM2")
    parser.add_argument("--set", default="{}", help="other settings of the learner, as JSON")
    parser.add_argument("--fields", default="{}", help="other fields of the recipe, as JSON")
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--scores", type=Path, required=True)
    given = parser.parse_args()
    block = description_experiment(
        given.scale, given.model, given.part, tuple(given.splits), given.seed
    )
    block["learners"][0] |= json.loads(given.set)
    block["recipes"][0]["set"] |= json.loads(given.fields)
    began = time.monotonic()
    outcome = api.fill(spec.check(block, "the job"), given.store, engine="here")
    print(json.dumps({"done": outcome.state.done, "failed": outcome.state.failed}), flush=True)
    runs = Runs(outcome.store, dict.fromkeys(outcome.runs))
    given.scores.parent.mkdir(parents=True, exist_ok=True)
    groups, items = score_groups(runs, KEPT_TRAITS)
    write_scores(groups, given.scores, items)
    rows = [{k: row[k] for k in ("split", "seed", "score")} for row in runs.table.to_pylist()]
    seconds = [outcome.store.environment(run).get("seconds") for run in runs.names]
    print(
        json.dumps({"seconds": time.monotonic() - began, "of runs": seconds, "rows": rows}),
        flush=True,
    )
    sys.exit(bool(outcome.state.failed))


if __name__ == "__main__":
    main()
