"""What goes wrong in sweeps, done to a real one: kills, crashes, full disks, two drivers,
interrupts.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from taskloom.experiments import api
from taskloom.experiments.api import Outcome
from taskloom.experiments.execute import predictions
from taskloom.experiments.files import StoreError
from taskloom.experiments.spec.experiment import check, read
from taskloom.experiments.store import Store
from tests.experiments.sweeps import (
    baselines,
    command,
    contents,
    environment,
    fill,
    networks,
    recipe,
    taskloom,
    write,
)

KILLS = 50
"""Number of kills in the slow sweeps, half of drivers and half of workers."""


def start(folder: Path, store: str, workers: int = 2, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("run", "experiment.yaml", "--store", store, "--workers", str(workers)),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def children(pid: int) -> list[int]:
    try:
        return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def torment(
    folder: Path, kills: int, seed: int, longest: float, workers: int = 2
) -> dict[str, int]:
    """Run a sweep again and again, with kill -9 of the driver or of a worker at random moments.

    Every store that gets finished must equal the undisturbed one, and the next one is begun.
    """
    wanted = contents(folder / "undisturbed")
    chance = random.Random(seed)
    done = {"driver": 0, "worker": 0, "stores": 0}
    victims = [what for _ in range((kills + 1) // 2) for what in ("worker", "driver")][:kills]
    chance.shuffle(victims)
    while True:
        driver = start(folder, f"tormented-{done['stores']}", workers)
        while victims and driver.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                driver.wait(chance.uniform(0.0, longest))
            pids = [driver.pid] if victims[-1] == "driver" else children(driver.pid)
            if driver.poll() is None and pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(pids), signal.SIGKILL)
                done[victims.pop()] += 1
                time.sleep(0.05)
        _, output = driver.communicate()
        assert "Traceback" not in output, output
        if driver.returncode == 0:
            assert contents(folder / f"tormented-{done['stores']}") == wanted
            done["stores"] += 1
            if not victims:
                return done


def prepared(folder: Path, experiment: dict[str, Any]) -> Path:
    """A folder with an experiment and its undisturbed store."""
    write(folder, experiment)
    driver = start(folder, "undisturbed")
    _, output = driver.communicate()
    assert driver.returncode == 0, output
    return folder


def test_a_sweep_killed_at_random_moments_ends_with_the_same_table(tmp_path: Path) -> None:
    """One kill of a worker in the middle of a stack. The slow tests have fifty kills, half of them
    of drivers.
    """
    experiment = networks(seeds=2, steps=60)  # a stack that leaves checkpoints
    write(tmp_path, {**experiment, "recipes": [recipe()], "learners": experiment["learners"][:2]})
    fill(yaml.safe_load((tmp_path / "experiment.yaml").read_text()), tmp_path / "undisturbed")
    done = torment(tmp_path, kills=1, seed=1, longest=3.0, workers=1)
    assert (done["driver"], done["worker"]) == (0, 1)


@pytest.mark.slow
def test_a_sweep_killed_fifty_times_ends_with_the_same_table(tmp_path: Path) -> None:
    done = torment(
        prepared(tmp_path, networks(seeds=3, steps=200)), kills=KILLS, seed=0, longest=8.0
    )
    print(done)
    assert (done["driver"], done["worker"]) == (KILLS // 2, KILLS // 2)


def tasks_each(folder: Path) -> dict[str, Any]:
    """Cells by task of every kind: tasks in one batch, tasks one by one, and two tasks that
    training lacks.
    """
    pytest.importorskip("transformers")
    from taskloom.learners.pretrained.models import Sizes, from_scratch

    base = from_scratch("decoder", [], Sizes(8, 1, 2, 8, 0.0, 64), "bytes", seed=0)
    base.model.save_pretrained(folder / "model")
    base.tokeniser.save_pretrained(folder / "model")
    (folder / "mine").mkdir()
    for split, tasks in (("train", "abc"), ("test", "abcde")):
        rows = [
            {"input": f"{split} {i}", "target": task * (i % 3 + 1), "task": task}
            for task in tasks
            for i in range(9)
        ]
        (folder / "mine" / f"{split}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows)
        )
    loop = {
        "steps": 60,
        "batch": 4,
        "evaluate_every": 30,
        "checkpoint_every": 10,
        "threads": 1,
        "device": "cpu",
    }
    tuned = {
        "learner": "prompt-tune",
        "model": str(folder / "model"),
        "n": 2,
        "first_rows": 50,
        "longest_answer": 4,
    }
    return {
        "recipes": [{"recipe": str(folder / "mine")}],
        "learners": ["majority", "nearest-neighbour", {**tuned, **loop}],
        "tasks": "each",
        "seeds": 2,
    }


@pytest.mark.slow
def test_runs_of_tasks_killed_fifty_times_end_with_the_same_table(tmp_path: Path) -> None:
    folder = prepared(tmp_path, tasks_each(tmp_path))
    names = Store(folder / "undisturbed").names()
    assert len(names) == 5 * 3 * 2  # tasks, learners, seeds
    ways = {Store(folder / "undisturbed").environment(run)["trained"] for run in names}
    assert ways == {"alone", "tasks", "shared"}
    done = torment(folder, kills=KILLS, seed=2, longest=8.0)
    print(done)
    assert (done["driver"], done["worker"]) == (KILLS // 2, KILLS // 2)


@pytest.mark.slow
def test_two_drivers_on_one_store_share_the_work(filled: Path, tmp_path: Path) -> None:
    """By day test_network_file_system.py has two drivers, whose views of the store are old as
    well.
    """
    write(tmp_path, baselines())
    first, second = (start(tmp_path, "shared", workers=1) for _ in range(2))
    for driver in (first, second):
        _, output = driver.communicate()
        assert driver.returncode == 0, output
    assert contents(tmp_path / "shared") == contents(filled)


WAITING = """
import time
import taskloom as tl
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Wait:
    name: str = "wait"

    def score(self, prediction, example):
        while not (Path(__file__).parent / "go").exists():
            time.sleep(0.05)
        return 1.0

    def explain(self, prediction, example):
        return ""


@tl.task("test/wait", describe="is scored when a file is there", scorer=Wait())
def wait(rng: tl.Random) -> tl.Example:
    return tl.Example(str(rng.randint(0, 10**9)), "x")
"""


def waiting(folder: Path, workers: int = 1) -> subprocess.Popen[str]:
    """The driver of an experiment whose workers are all in the middle of a run."""
    (folder / "wait.py").write_text(WAITING)
    small = {"recipe": "wait.py", "set": {"splits": {"train": {"n": 5}, "test": {"n": 2}}}}
    write(folder, {"recipes": [small], "learners": ["majority"], "seeds": 4})
    driver = start(folder, "runs", workers)
    wait_for(lambda: len(list((folder / "runs").glob("work/jobs/*"))) == workers)
    return driver


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_interrupt_ends_cleanly_and_says_how_to_go_on(tmp_path: Path) -> None:
    driver = waiting(tmp_path)
    workers = children(driver.pid)
    driver.send_signal(signal.SIGINT)
    _, output = driver.communicate(timeout=60)
    assert driver.returncode == 130
    assert "is kept" in output
    assert "resume" in output
    assert "Traceback" not in output
    assert workers
    for worker in workers:
        assert not Path(f"/proc/{worker}").exists()
    assert not list((tmp_path / "runs" / "work" / "claims").iterdir())


def test_orphaned_workers_end_and_the_next_driver_resumes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = waiting(tmp_path)
    workers = children(driver.pid)
    driver.kill()
    driver.communicate()
    wait_for(lambda: not any(Path(f"/proc/{w}").exists() for w in workers))
    assert list((tmp_path / "runs" / "work" / "claims").iterdir())  # left behind, and no hindrance
    (tmp_path / "go").touch()
    assert not again(tmp_path, monkeypatch).state.failed
    assert not list((tmp_path / "runs" / "work" / "claims").iterdir())


def again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    """The command once more, in this process."""
    monkeypatch.chdir(folder)
    return fill(yaml.safe_load((folder / "experiment.yaml").read_text()), folder / "runs")


def test_a_killed_worker_fails_its_cell_and_the_next_run_retries_just_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = waiting(tmp_path, workers=2)
    os.kill(children(driver.pid)[0], signal.SIGKILL)
    (tmp_path / "go").touch()
    output, _ = driver.communicate()
    assert driver.returncode == 1
    assert "killed by SIGKILL (out of memory?)" in output
    store = Store(tmp_path / "runs")
    assert len(store.failures()) == 1  # what waited behind it went to another worker
    assert len(store.names()) == 3
    outcome = again(tmp_path, monkeypatch)
    assert (outcome.state.before, outcome.state.done) == (3, 1)
    assert store.failures() == {}


CRASHING = """
import os
import signal
import taskloom as tl
from dataclasses import dataclass


@dataclass(frozen=True)
class Crash:
    name: str = "crash"

    def score(self, prediction, example):
        os.kill(os.getpid(), signal.SIGSEGV)

    def explain(self, prediction, example):
        return ""


@tl.task("test/crash", describe="kills whoever scores it", scorer=Crash())
def crash(rng: tl.Random) -> tl.Example:
    return tl.Example(str(rng.randint(0, 10**9)), "x")
"""


@pytest.mark.slow
def test_a_cell_that_always_crashes_does_not_stop_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By day a worker is killed once, which fails its cell in the same way."""
    (tmp_path / "crash.py").write_text(CRASHING)
    small = {"recipe": "crash.py", "set": {"splits": {"train": {"n": 5}, "test": {"n": 2}}}}
    write(tmp_path, {"recipes": [small, recipe()], "learners": ["majority"]})
    done = taskloom("run", "experiment.yaml", "--store", "runs", "--workers", "1", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "1 failed; 'taskloom run experiment.yaml --store runs' retries just those" in done.stdout
    assert "killed by SIGSEGV" in done.stdout
    monkeypatch.chdir(tmp_path)
    outcome = api.fill(
        read("experiment.yaml"), "runs", workers=1
    )  # only the crashing one is tried again
    assert (outcome.state.before, outcome.state.done, len(outcome.state.failed)) == (1, 0, 1)
    assert {run: failed.reason for run, failed in outcome.store.failures().items()} == (
        outcome.state.failed
    )


def test_a_run_whose_loss_is_no_number_fails_alone(tmp_path: Path) -> None:
    experiment = networks(seeds=2)
    wild = {**experiment["learners"][2], "rate": 1e30, "clip": 0, "warmup": 0}
    outcome = fill(
        {**experiment, "recipes": [recipe()], "learners": ["majority", wild]}, tmp_path / "runs"
    )
    assert len(outcome.runs) == 2
    assert len(outcome.state.failed) == 2
    assert all("is not a number after step" in why for why in outcome.state.failed.values())


def test_data_that_cannot_be_made_fails_its_cells_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        "import taskloom as tl\n\n@tl.task('test/bad', describe='fails later')\n"
        "def bad(rng: tl.Random) -> tl.Example:\n    x = rng.randint(0, 999)\n"
        "    if x > 980:\n        raise ValueError('no more')\n    return tl.Example(f'{x}', 'y')\n"
    )
    small = {
        "recipe": str(tmp_path / "bad.py"),
        "set": {"splits": {"train": {"n": 300}, "test": {"n": 10}}},
    }
    outcome = fill({**baselines(seeds=1), "recipes": [small, recipe()]}, tmp_path / "runs")
    assert len(outcome.runs) == 2
    assert all(
        "its data could not be made" in why and "no more" in why
        for why in outcome.state.failed.values()
    )


def forget_datasets() -> None:
    """Read datasets again, as a new worker does."""
    for cached in (
        predictions.dataset_in,
        predictions.split_in,
        predictions.read_examples,
        predictions._data_columns,
    ):
        cached.cache_clear()


def test_damaged_data_of_a_store_say_what_to_delete(tmp_path: Path) -> None:
    experiment = {**baselines(seeds=1), "recipes": [recipe()], "learners": ["majority"]}
    fill(experiment, tmp_path / "runs")
    [folder] = (tmp_path / "runs" / "data").iterdir()
    for file in (folder / "iid" / "00000.parquet", folder / "manifest.json"):
        file.write_text("x")
        forget_datasets()
        outcome = fill({**experiment, "seeds": 2}, tmp_path / "runs")
        [why] = outcome.state.failed.values()
        assert f"delete {folder}, and rerun the 'taskloom run' command to make it" in why
    shutil.rmtree(folder)
    forget_datasets()
    assert not fill({**experiment, "seeds": 2}, tmp_path / "runs").state.failed


def test_files_that_may_not_grow(tmp_path: Path) -> None:
    """As on a full disk: one sentence, what was finished stays, and the command resumes later. By
    night on a real one.
    """
    fill(baselines(seeds=1), tmp_path / "runs")
    before = contents(tmp_path / "runs")
    write(tmp_path, baselines(seeds=2))

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    driver = start(tmp_path, "runs", workers=1, preexec_fn=limit)
    _, output = driver.communicate()
    assert driver.returncode == 2
    assert "cannot write to" in output
    assert "every finished run is kept" in output
    assert "Traceback" not in output
    after = contents(tmp_path / "runs")
    assert {k: after[k] for k in before} == before
    fill(baselines(seeds=2), tmp_path / "runs")
    assert len(Store(tmp_path / "runs").names()) == 8


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of half a megabyte, where this machine lets us have one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=500k", "tmpfs", str(folder)], capture_output=True
    ).returncode:
        pytest.skip("this machine does not let us mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
def test_a_disk_that_fills_up_and_one_that_is_read_only(tmp_path: Path, disk: Path) -> None:
    write(tmp_path, {**baselines(seeds=20), "recipes": [recipe()]})
    full = taskloom(
        "run", "experiment.yaml", "--store", "disk/runs", "--workers", "1", cwd=tmp_path
    )
    assert full.returncode == 2
    assert "No space left on device; every finished run is kept" in full.stderr
    finished = len(Store(disk / "runs").names())
    assert 0 < finished < 40
    assert Store(disk / "runs").runs().num_rows == 2 * finished
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    experiment = yaml.safe_load((tmp_path / "experiment.yaml").read_text())
    with pytest.raises(StoreError, match="Read-only file system; every finished run is kept"):
        fill(experiment, disk / "runs")
    subprocess.run(["mount", "-o", "remount,rw,size=8m", str(disk)], check=True)
    assert fill(experiment, disk / "runs").state.before == finished
    assert len(Store(disk / "runs").names()) == 40


def test_an_older_store_is_left_alone(tmp_path: Path) -> None:
    Store(tmp_path / "runs", create=True)
    (tmp_path / "runs" / "store.json").write_text('{"format": "taskloom runs", "schema": 0}\n')
    with pytest.raises(StoreError, match="made by an older version"):
        api.fill(check(baselines(), "test"), tmp_path / "runs")
    assert [p.name for p in (tmp_path / "runs").iterdir()] == ["store.json"]
