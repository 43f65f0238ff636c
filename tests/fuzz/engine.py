"""Runs targets: limits, verdicts, counts, shrinking, and the files that failures become."""

from __future__ import annotations

import gc
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from taskloom.core.errors import TaskloomError
from taskloom.core.files import json_digest
from tests.fuzz.sentinel import SENTINEL
from tests.fuzz.strategies import shorter, sibling

Verdict = Literal["refused", "accepted", "checked"]
"""What became of an input that is no failure: one sentence, taken, or taken and confirmed by a
second solver.
"""

Failure = Literal[
    "traceback", "over-time", "over-memory", "long message", "path or code", "refuted"
]

REGRESSIONS = Path(__file__).parent.parent / "regressions"

TIME_LIMIT = 20.0
"""CPU seconds for one input: a third of the minute from which an input counts as a hang. Not seconds
of the clock, because on a busy machine a quick input would count as a hang.
"""

WAIT_LIMIT = 180.0
"""Seconds for one input by the clock, for those that wait instead of compute."""

MEMORY_LIMIT = 3 << 30
"""Bytes of address space that one input may ask for beyond what the process has."""

LONGEST_MESSAGE = 4_100
"""Characters of a sentence: as many as an error shows, and what marks the cut."""

SIBLINGS = 3
"""Inputs that most targets try beside each one that Hypothesis draws, for a hundredth of its
price.
"""

SHORTENINGS = 400
"""Tries to make a failure of a sibling shorter; Hypothesis shrinks only what it drew."""

SLICE = 1_000
"""Inputs of one Hypothesis run of a cheap target, fewer of a dear one: a failure ends a run, and the
next one has another seed. The deadline is looked at between runs.
"""


class Refuted(Exception):  # noqa: N818 - what the second solver did
    """An answer that a second solver does not confirm, or a round trip that does not come back."""


class _OverTime(BaseException):
    pass


class _Found(Exception):  # noqa: N818 - what Hypothesis shrinks
    pass


@dataclass(frozen=True, slots=True)
class Target:
    """Something that reads input.

    Attributes:
        name: Of the target, and of its folder in `tests/regressions`.
        inputs: Strategy of inputs, values that JSON can hold (bytes as Latin-1 text).
        run: From an input and a folder that it may write to, to a verdict; whatever it raises is
            judged by the engine.
        weight: Its part of all inputs.
        cost: CPU time of one of its inputs, of which a plain one (1.2 ms) costs 1: what its part of
            the time follows from.
        warm: What is imported, built or cached before the first input is watched.
        siblings: Inputs that are tried beside each one that Hypothesis draws; 0 where an input is
            dear to try, not to draw.
    """

    name: str
    inputs: st.SearchStrategy[Any]
    run: Callable[[Any, Path], Verdict]
    weight: int = 1
    cost: int = 1
    warm: Callable[[], object] = lambda: None
    siblings: int = SIBLINGS


TARGETS: dict[str, Target] = {}


def target(
    name: str,
    inputs: st.SearchStrategy[Any],
    weight: int,
    cost: int = 1,
    warm: Callable[[], object] = lambda: None,
    siblings: int = SIBLINGS,
) -> Callable[[Callable[[Any, Path], Verdict]], Callable[[Any, Path], Verdict]]:
    """Register a function as a target."""

    def record(run: Callable[[Any, Path], Verdict]) -> Callable[[Any, Path], Verdict]:
        TARGETS[name] = Target(name, inputs, run, weight, cost, warm, siblings)
        return run

    return record


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an input: a verdict, or a failure with what it says and where it came from."""

    verdict: Verdict | Failure
    failed: bool = False
    why: str = ""
    place: str = ""


@dataclass(slots=True)
class Tally:
    """Counts of one target."""

    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    slowest: float = 0.0
    failures: list[Path] = field(default_factory=list)

    @property
    def inputs(self) -> int:
        """Return the number of inputs."""
        return self.counts.total()

    def add(self, more: Tally) -> None:
        """Add the counts of a further campaign."""
        self.counts += more.counts
        self.seconds += more.seconds
        self.slowest = max(self.slowest, more.slowest)
        self.failures += more.failures


def judge(target: Target, value: Any, folder: Path) -> Outcome:
    """Run one input under limits and say what became of it."""
    with SENTINEL.watch(writable=folder, data=folder) as violations:
        outcome = _judged(target, value, folder)
    if violations:
        return Outcome("path or code", True, "; ".join(violations[:3]), violations[0].split(":")[0])
    return outcome


def _judged(target: Target, value: Any, folder: Path) -> Outcome:
    try:
        with _limits():
            return Outcome(target.run(value, folder))
    except TaskloomError as error:
        if len(str(error)) > LONGEST_MESSAGE:
            return Outcome("long message", True, f"{len(str(error)):,} characters", _place(error))
        return Outcome("refused")
    except _OverTime as error:
        return Outcome("over-time", True, f"more than {TIME_LIMIT:g} s", _place(error))
    except MemoryError as error:
        return Outcome("over-memory", True, f"more than {MEMORY_LIMIT >> 30} GB", _place(error))
    except Refuted as error:
        return Outcome("refuted", True, str(error)[:2_000], "refuted")
    except Exception as error:
        return Outcome(
            "traceback", True, f"{type(error).__name__}: {str(error)[:500]}", _place(error)
        )


def _place(error: BaseException) -> str:
    """Return the last place in the package that an error went through: failures from one place are
    one failure.
    """
    frames = [
        f
        for f in traceback.extract_tb(error.__traceback__)
        if f"{os.sep}taskloom{os.sep}" in f.filename
    ]
    where = (
        f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "outside the package"
    )
    return f"{type(error).__name__} in {where}"


@contextmanager
def _limits() -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise _OverTime

    before = signal.signal(signal.SIGALRM, ring), signal.signal(signal.SIGPROF, ring)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as pages:
        used = int(pages.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_LIMIT, hard))
    # Each rings again, should the first be raised where it is ignored.
    signal.setitimer(signal.ITIMER_PROF, TIME_LIMIT, 1.0)
    signal.setitimer(signal.ITIMER_REAL, WAIT_LIMIT, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before[0])
        signal.signal(signal.SIGPROF, before[1])
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def campaign(
    target: Target, inputs: int, seed: int, folder: Path, deadline: float, regressions: Path | None
) -> Tally:
    """Feed a target with random inputs.

    Args:
        target: What is fed.
        inputs: How many.
        seed: Of the inputs.
        folder: Where it may write.
        deadline: Time (of `time.monotonic`) after which no further slice is begun. The first one
            always is: on a busy machine, targets before this one may have used up all time.
        regressions: Where a failure becomes a file; None to keep none.
    """
    target.warm()
    tally, known = Tally(), set[str]()
    turn = 0
    started = time.monotonic()
    while tally.inputs < inputs and (turn == 0 or time.monotonic() < deadline):
        count = min(max(20, SLICE // target.cost), inputs - tally.inputs)
        before = tally.inputs
        failure = _slice(target, count, seed * 1_000_003 + turn, folder, tally, known)
        turn += 1
        if failure is not None:
            value, outcome = failure
            known.add(outcome.place)
            if regressions is not None:
                tally.failures.append(write_failure(regressions, target, value, outcome))
        elif tally.inputs == before:
            break  # the strategy has no more
        gc.collect()
    tally.seconds = time.monotonic() - started
    return tally


def _slice(
    target: Target, count: int, seed: int, folder: Path, tally: Tally, known: set[str]
) -> tuple[Any, Outcome] | None:
    """Run one Hypothesis test; return its shrunk failure, or None."""
    last: list[tuple[Any, Outcome]] = []
    strays: list[tuple[Any, Outcome]] = []
    chance = random.Random(seed)

    @seeded(seed)
    @settings(
        max_examples=-(-count // (1 + target.siblings)),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
        verbosity=Verbosity.quiet,
        report_multiple_bugs=False,
    )
    @given(target.inputs)
    def feed(value: Any) -> None:
        began = time.monotonic()
        outcome = judge(target, value, folder)
        if not last:  # afterwards Hypothesis shrinks, which is no new input
            tally.counts[outcome.verdict] += 1
            tally.slowest = max(tally.slowest, time.monotonic() - began)
        if (
            outcome.failed
            and outcome.place not in known
            and (not last or last[0][1].place == outcome.place)
        ):
            last.append((value, outcome))
            raise _Found
        for _ in range(0 if last or strays else target.siblings):
            like = sibling(value, chance)
            began = time.monotonic()
            outcome = judge(target, like, folder)
            tally.counts[outcome.verdict] += 1
            tally.slowest = max(tally.slowest, time.monotonic() - began)
            if outcome.failed and outcome.place not in known:
                strays.append((like, outcome))

    try:
        feed()
    except (_Found, Flaky):  # flaky: one that comes the first time only
        return last[-1]
    return _shortened(target, *strays[0], folder, chance) if strays else None


def _shortened(
    target: Target, value: Any, outcome: Outcome, folder: Path, chance: random.Random
) -> tuple[Any, Outcome]:
    """Cut pieces out of an input as long as it fails in the same way."""
    for _ in range(SHORTENINGS):
        less = shorter(value, chance)
        if len(str(less)) < len(str(value)):
            again = judge(target, less, folder)
            if again.place == outcome.place:
                value, outcome = less, again
    return value, outcome


def write_failure(regressions: Path, target: Target, value: Any, outcome: Outcome) -> Path:
    """Write an input that failed to a file, which the tests replay."""
    entry = {
        "target": target.name,
        "failure": outcome.verdict,
        "why": outcome.why,
        "place": outcome.place,
        "input": value,
    }
    path = regressions / target.name / f"{json_digest(value, 8)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(entry, indent=1, ensure_ascii=True) + "\n", encoding="ascii")
    return path


def table(tallies: dict[str, Tally]) -> str:
    """Return the counts of all targets for people."""
    heads = ["target", "inputs", "refused", "accepted", "checked", "failed", "seconds", "slowest"]
    lines = [f"{heads[0]:<12}" + "".join(f"{head:>10}" for head in heads[1:])]
    total: Counter[str] = Counter()
    for name, tally in [*tallies.items()]:
        total += tally.counts
        lines.append(_line(name, tally.counts, tally.seconds, tally.slowest))
    seconds = sum(t.seconds for t in tallies.values())
    lines.append(
        _line("all", total, seconds, max((t.slowest for t in tallies.values()), default=0))
    )
    return "\n".join(lines)


def _line(name: str, counts: Counter[str], seconds: float, slowest: float) -> str:
    fine = [counts[verdict] for verdict in ("refused", "accepted", "checked")]
    numbers = [counts.total(), *fine, counts.total() - sum(fine)]
    return (
        f"{name:<12}" + "".join(f"{n:>10,}" for n in numbers) + f"{seconds:>10.1f}{slowest:>10.2f}"
    )


def prepare(folder: Path) -> None:
    """Make a folder for the inputs, and this process one that leaves nothing elsewhere."""
    sys.dont_write_bytecode = True
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.environ["TASKLOOM_CACHE"] = str(folder / "cache")
