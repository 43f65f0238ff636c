"""Run the commands of a file on one GPU, a few at a time, the most valuable first, until all are
done or time is up.

    python benchmarks/gpu_queue.py JOBS.yaml --out FOLDER --seconds 1150 --at-once 2.5 --memory 120

JOBS.yaml has `jobs`, a list of `{name, run, seconds, most, needs, places, memory}`: a shell
command, the seconds below which it is not worth starting, those after which it is stopped, the jobs
that must be done before, how many of the places it takes (1; 0.5 for one that leaves most of the
GPU to others, 0 for one that needs none and starts at once) and the GB of GPU memory that it may
need; and `shell`, functions for all commands. A job that does not fit beside those that run waits,
and the next one that fits is started. A job that is done leaves FOLDER/NAME.done, and is not run
again when the queue is started once more; FOLDER/NAME.log has what it printed, and FOLDER/queue.log
when it began and ended. What still runs shortly before time is up gets Ctrl-C, and once more at the
end; nothing is killed, since a GPU that processes share by MPS may not survive that. `--only A B`
runs the jobs whose names begin so; what they need counts as done if it is not among them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

AFTER_THE_END = 10.0
"""Seconds that jobs have after the second Ctrl-C; then they are left to themselves."""


@dataclass(slots=True)
class Job:
    """A command and what is known of it."""

    name: str
    run: str
    seconds: float = 0.0
    most: float = 0.0
    needs: list[str] = field(default_factory=list)
    places: float = 1.0
    memory: float = 0.0
    process: subprocess.Popen[bytes] | None = None
    began: float = 0.0
    state: str = "waiting"


@dataclass(frozen=True, slots=True)
class Room:
    """What jobs share: places, and GB of GPU memory."""

    places: float
    memory: float

    def fits(self, job: Job, others: list[Job]) -> bool:
        """Return whether a job may run beside others."""
        return (
            sum(other.places for other in others) + job.places <= self.places
            and sum(other.memory for other in others) + job.memory <= self.memory
        )


class Queue:
    """The jobs, and when they must be over."""

    def __init__(
        self, jobs: list[Job], out: Path, seconds: float, room: Room, grace: float
    ) -> None:
        self.jobs, self.out, self.room, self.grace = jobs, out, room, grace
        self.start = time.monotonic()
        self.end = self.start + seconds
        for job in jobs:
            if (out / f"{job.name}.done").exists():
                job.state = "done"

    def note(self, text: str) -> None:
        """Print a line and keep it."""
        line = f"{time.monotonic() - self.start:6.0f} s: {text}"
        print(line, flush=True)
        with (self.out / "queue.log").open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def stop(self, *_: object) -> None:
        """Let time be up now: jobs get Ctrl-C, and the seconds that they have for it."""
        self.end = min(self.end, time.monotonic() + self.grace)

    def go(self) -> None:
        """Run until everything is done or time is up."""
        while time.monotonic() < self.end - self.grace:
            self.collect()
            self.interrupt(
                [job for job in self.jobs if job.most and time.monotonic() - job.began > job.most]
            )
            self.launch()
            if not any(job.state == "running" for job in self.jobs):
                break
            time.sleep(0.5)
        for wait in (self.grace, AFTER_THE_END):
            self.interrupt(self.jobs)
            end = time.monotonic() + wait
            while time.monotonic() < end and any(job.state == "running" for job in self.jobs):
                time.sleep(0.2)
                self.collect()
        states = {job.name: job.state for job in self.jobs if job.state != "done"}
        self.note(
            f"{sum(job.state == 'done' for job in self.jobs)} of {len(self.jobs)} jobs done;"
            f" others: {states}"
        )

    def collect(self) -> None:
        """Look which jobs have ended."""
        for job in self.jobs:
            if (
                job.state == "running"
                and job.process is not None
                and job.process.poll() is not None
            ):
                job.state = (
                    "done" if job.process.returncode == 0 else f"failed ({job.process.returncode})"
                )
                if job.state == "done":
                    (self.out / f"{job.name}.done").touch()
                self.note(f"{job.name}: {job.state} after {time.monotonic() - job.began:.0f} s")

    def launch(self) -> None:
        """Start the first jobs that may start."""
        known = {job.name: job.state for job in self.jobs}
        left = self.end - self.grace - time.monotonic()
        for job in self.jobs:
            ready = job.state == "waiting" and all(
                known.get(name, "done") == "done" for name in job.needs
            )
            others = [other for other in self.jobs if other.state == "running" and other.places]
            if ready and left >= job.seconds and (not job.places or self.room.fits(job, others)):
                self.begin(job)

    def begin(self, job: Job) -> None:
        """Start a job in a group of processes of its own."""
        with (self.out / f"{job.name}.log").open("ab") as log:
            job.process = subprocess.Popen(
                ["/bin/bash", "-c", job.run],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        job.began, job.state = time.monotonic(), "running"
        self.note(f"{job.name}: started")

    def interrupt(self, jobs: list[Job]) -> None:
        """Press Ctrl-C for those that still run."""
        for job in jobs:
            if job.state == "running" and job.process is not None:
                self.note(f"{job.name}: interrupted")
                job.most = 0.0
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(job.process.pid, signal.SIGINT)


def read_jobs(path: Path) -> list[Job]:
    """Read the jobs; the names that are needed must be there."""
    contents: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    jobs = [
        Job(**{**entry, "run": contents.get("shell", "") + entry["run"]})
        for entry in contents["jobs"]
    ]
    unknown = {name for job in jobs for name in job.needs} - {job.name for job in jobs}
    if unknown or len({job.name for job in jobs}) < len(jobs):
        raise SystemExit(
            f"{path}: a name is there twice, or needed and not there: {sorted(unknown)}"
        )
    return jobs


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("jobs", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument(
        "--at-once", type=float, default=3.0, help="places of the jobs that run at one time"
    )
    parser.add_argument(
        "--memory",
        type=float,
        default=float("inf"),
        help="GB of GPU memory that they may need together",
    )
    parser.add_argument(
        "--grace",
        type=float,
        default=25.0,
        help="seconds before the end at which Ctrl-C is pressed",
    )
    parser.add_argument(
        "--only", nargs="*", default=[""], help="jobs whose names begin so; all by default"
    )
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # which nohup and & turn off, for the jobs as well
    jobs = [job for job in read_jobs(args.jobs) if job.name.startswith(tuple(args.only))]
    room = Room(args.at_once, args.memory)
    queue = Queue(jobs, args.out, args.seconds, room, args.grace)
    signal.signal(signal.SIGTERM, queue.stop)
    queue.go()


if __name__ == "__main__":
    main()
