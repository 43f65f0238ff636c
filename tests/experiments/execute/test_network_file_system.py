"""A store on a network file system: renames are slow, and what others have renamed is seen late and
in another order.

Two drivers, each a process with such a view of its own, share a store. Every run is published and
counted once, none is lost, and the store has the same bytes as one that nobody disturbed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.experiments.sweeps import baselines, contents, environment, fill, write
from tests.slow import slow_except

ROOT = Path(__file__).parents[3]

DRIVER = """
import json, os, random, sys, time
from pathlib import Path

from taskloom.experiments.execute.engines import HereEngine
from taskloom.core import files
from taskloom.experiments.execute import driver, trackers
from taskloom.experiments.spec import experiment as spec
from taskloom.experiments.spec.cells import expand
from taskloom.experiments.execute.driver import Claims
from taskloom.experiments.store import Store

number, claimed = int(sys.argv[1]), sys.argv[2] == "claimed"
chance, rename, listing, seen = random.Random(number), files.rename, files.listing, {}

def slow_rename(source, target):
    time.sleep(chance.uniform(0, 0.05))
    rename(source, target)

def old_listing(folder):
    # Each name appears to this client only some time after it first could, whatever the order in which they came.
    now = time.monotonic()
    names = listing(folder)
    for name in names:
        seen.setdefault((str(folder), name), now + chance.uniform(0, 0.5))
    return [name for name in names if seen[str(folder), name] <= now]

files.rename, files.listing = slow_rename, old_listing
driver.POLL = 0.02
experiment = spec.read("experiment.yaml")
cells, store, counted = expand(experiment), Store("shared", create=True), []
claims = Claims(store.path / "work" / "claims")
tracking = trackers.Tracking([], store)
tracking._trackers, tracking.finished = ["counts runs"], counted.append
working = driver.Driver(store, cells, HereEngine(), experiment.resources, claims=claims, tracking=tracking)
Path(f"ready-{number}").touch()  # a driver that begins removes what no claim protects, so both begin before either works
while not all(Path(f"ready-{other}").exists() for other in range(2)):
    time.sleep(0.01)
if not claimed:
    claims.take = lambda name: True  # both run the same cells at the same time
state = working.run()
Path(f"counted-{number}.json").write_text(json.dumps({"counted": counted, "failed": state.failed, "open": state.open}))
"""


@pytest.mark.parametrize("claims", slow_except(["claimed", "not claimed"], "not claimed"))
def test_two_drivers_with_old_views_of_the_store_count_every_run_once_and_lose_none(
    tmp_path: Path, claims: str
) -> None:
    """Claims spare double work and nothing depends on them: without them both drivers run the same
    cells, and one counts.
    """
    experiment = yaml.safe_load(write(tmp_path, baselines(seeds=4)).read_text())
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(number), claims],
            cwd=tmp_path,
            env={**environment(), "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    results = [json.loads((tmp_path / f"counted-{number}.json").read_text()) for number in range(2)]
    assert [(one["failed"], one["open"]) for one in results] == [({}, 0)] * 2
    counted = [run for one in results for run in one["counted"]]
    undisturbed = fill(experiment, tmp_path / "undisturbed")
    assert sorted(counted) == sorted(undisturbed.runs)  # each once, by one of the two
    assert contents(tmp_path / "shared") == contents(tmp_path / "undisturbed")
    assert not list((tmp_path / "shared" / "work").glob(".tmp-*"))


def test_a_run_that_two_have_finished_is_published_once(tmp_path: Path) -> None:
    """The second finds the first by opening its scores, not by a look that may be old."""
    from taskloom.experiments.store import Store

    outcome = fill(baselines(seeds=1), tmp_path / "runs")
    store, run = outcome.store, outcome.runs[0]
    before = contents(store.path)
    copy = tmp_path / "runs" / "work" / "again"
    copy.mkdir(parents=True)
    (copy / "scores.json").write_text("{}")
    assert not Store(store.path).publish(run, copy)
    assert contents(store.path) == before
    assert not copy.exists()
