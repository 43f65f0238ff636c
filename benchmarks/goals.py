"""The figures of the table of goals in docs/reference/benchmarks.md, each beside its goal and, where
there is one, a peer or a limit that is measured in the same run.

    python benchmarks/goals.py [PART ...] [--times 3] [--stores FOLDER] [--peer PYTHON] [--write]

CPU-seconds are those of a fresh process with its children, the median of `--times`. Each row names
its commit, the CPU-seconds of ten million steps of a loop in Python (the ruler), and the load of
the machine. `--stores` keeps the run stores, which take minutes to fill. `--peer` names a Python
that has reasoning-gym; without it the part `peers` is skipped. `--write` replaces the table in the
page, or the rows of the parts that are named.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from babi_speed import ONE
from growth import EXPERIMENT, TASKLOOM, cpu_seconds, dataset
from report import COMMAND, fill
from workers import measure

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "reference" / "benchmarks.md"
BEGIN, END = "<!-- goals.py -->", "<!-- end of goals.py -->"

HEAD = (
    "| work | goal | now | beside it | met | commit, ruler, load |",
    "| --- | --- | --- | --- | --- | --- |",
)
RULER = "n = 0\nfor i in range(10_000_000): n += i & 3"
LIBRARIES = "import numpy, pyarrow.compute, pydantic.types, typer.main, rich.console, yaml"

CTL = """
import json, tempfile, time
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
import taskloom as tl
tl.make("ctl/A", set=["splits={train: {n: 1000}}"])
with tempfile.TemporaryDirectory() as folder:
    began = time.process_time()
    data = tl.make("ctl/A", folder + "/d")
    ours = time.process_time() - began
    tables = [data.table(split) for split in data]
    began = time.process_time()
    for number, table in enumerate(tables):
        pq.write_table(table, f"{folder}/{number}", compression="zstd", write_statistics=False)
        # As many chains of six functions over eight symbols, applied and spelled, with no split.
        rows, draw = table.num_rows, np.random.default_rng(0)
        names, tables_of = draw.integers(0, 32, (rows, 6)), draw.integers(0, 8, (32, 8))
        value = draw.integers(0, 8, rows)
        for step in range(6):
            value = tables_of[names[:, step], value]
        letters = np.full((rows, 12), 32, np.uint8)
        letters[:, ::2] = 97 + names
        ends = pa.py_buffer(np.arange(0, 12 * rows + 1, 12, dtype=np.int32))
        pa.StringArray.from_buffers(rows, ends, pa.py_buffer(letters.ravel()))
        pa.array(value)
    print(json.dumps([ours, time.process_time() - began]))
"""

BATCHES = """
import json, sys, time
import taskloom as tl, pyarrow.parquet as pq
train = tl.load(sys.argv[1])["train"]
began = time.process_time()
for batch in train.batches(512):
    pass
ours = time.process_time() - began
assert "pandas" not in sys.modules
began = time.process_time()
table = pq.read_table(sys.argv[1] + "/train")
table["input"].to_pylist(), table["targets"].to_pylist()
print(json.dumps([ours, time.process_time() - began]))
"""

WHERE = """
import json, sys, time
import taskloom as tl
runs = tl.runs(sys.argv[1])
names = runs.table["run"].unique().to_pylist()
began = time.process_time()
assert len(runs.where({"run": names}).table) == len(runs.table)
print(json.dumps([1000 * (time.process_time() - began), len(names)]))
"""

VIEWER = """
import http.client, json, queue, sys, threading, time, urllib.parse
from taskloom.apps.view.server import serve
where = queue.Queue()
ready = {"folders": [sys.argv[1]], "port": 0, "ready": where.put}
threading.Thread(target=serve, kwargs=ready, daemon=True).start()
place = urllib.parse.urlsplit(where.get())
link = http.client.HTTPConnection(place.hostname, place.port)
took = []
for _ in range(40):
    began = time.monotonic()
    link.request("GET", "/")
    link.getresponse().read()
    took.append(1000 * (time.monotonic() - began))
print(json.dumps([min(took), sorted(took)[20]]))
"""

OURS = """
import json, sys, time
import taskloom as tl
from taskloom.recipe import read
next(iter(read(sys.argv[1]).plan(0).splits[0].rows(0, 1)))  # the first row imports NumPy
began = time.process_time()
data = tl.make(sys.argv[1])
n = sum(1 for split in data for example in data[split])
print(json.dumps([n / (time.process_time() - began), n]))
"""

THEIRS = """
import sys, time
import reasoning_gym
data = reasoning_gym.create_dataset(sys.argv[1], size=int(sys.argv[2]), seed=0)
data[0]
began = time.process_time()
for example in data:
    pass
print(len(data) / (time.process_time() - began))
"""

PEERS = {
    "ctl/A-independent": ("chain_sum", "word_sorting", "spell_backward"),
    "babi/1": ("family_relationships",),
    "babi/mix-T12": ("knights_knaves", "propositional_logic"),
}
"""Generators of reasoning-gym with texts of a similar length, by the recipe beside which they stand.
Their tasks are others, and only ours have derivations.
"""

THEIR_ROWS = 10_000


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    work: str
    goal: str
    now: str
    beside: str
    met: bool


@dataclass(frozen=True)
class Bench:
    """What the parts share: folders for data and for stores, how often to measure, and a Python that
    has reasoning-gym.
    """

    folder: Path
    stores: Path
    times: int
    peer: str = ""

    def cpu(self, *command: str) -> float:
        """CPU-seconds of a command."""
        return statistics.median(cpu_seconds([*command]) for _ in range(self.times))

    def python(self, code: str, *arguments: str) -> list[float]:
        """Medians of the numbers that Python code prints as a JSON list."""
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        printed = []
        for _ in range(self.times):
            command = [sys.executable, "-c", code, *arguments]
            done = subprocess.run(
                command, stdout=subprocess.PIPE, text=True, check=True, env=environment
            )
            printed.append(json.loads(done.stdout.splitlines()[-1]))
        return [statistics.median(numbers) for numbers in zip(*printed, strict=True)]

    def data(self) -> str:
        """A dataset with 100,000 rows for training and 15,288 others."""
        return dataset(self.folder, 100_000)

    def making(self, recipe: str, workers: int) -> dict[str, float]:
        """Seconds by the clock, CPU-seconds, and those of the calling process, of `make`."""
        runs = [measure(recipe, [], workers) for _ in range(self.times)]
        return {key: statistics.median(run[key] for run in runs) for key in ("wall", "cpu", "own")}

    def theirs(self, generator: str) -> float:
        """Examples a CPU-second of a generator of reasoning-gym."""
        command = [self.peer, "-c", THEIRS, generator, str(THEIR_ROWS)]
        rates = []
        for _ in range(self.times):
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            rates.append(float(done.stdout))
        return statistics.median(rates)

    def store(self, *shape: int) -> Path:
        """A store of runs, filled once."""
        path = self.stores / "-".join(map(str, shape))
        if not path.exists():
            fill(path, *shape)
        return path


def seconds(work: str, goal: float, cpu: float, beside: str = "") -> Row:
    """Row of CPU-seconds."""
    return Row(work, f"{goal:g} CPU-s", f"{cpu:.2f} CPU-s", beside, cpu <= goal)


def start(bench: Bench) -> Iterator[Row]:
    floor = f"importing the libraries alone {bench.cpu(sys.executable, '-c', LIBRARIES):.2f}"
    yield seconds("`taskloom list`", 0.2, bench.cpu(*TASKLOOM, "list"), floor)
    yield seconds("`taskloom show ctl/A`", 0.3, bench.cpu(*TASKLOOM, "show", "ctl/A"), floor)
    file = bench.folder / "tiny.yaml"
    file.write_text(EXPERIMENT.format(cells=1), encoding="utf-8")
    used = [
        cpu_seconds([*TASKLOOM, "run", str(file), "--store", tempfile.mkdtemp(dir=bench.folder)])
        for _ in range(bench.times)
    ]
    yield seconds("`taskloom run` of one tiny cell", 0.6, statistics.median(used), floor)
    plan = [*TASKLOOM, "reproduce", "ctlpp/table1", "--scale", "full", "--dry-run"]
    yield seconds("`reproduce ctlpp/table1 --scale full --dry-run`", 3, bench.cpu(*plan))


def data(bench: Bench) -> Iterator[Row]:
    verify = bench.cpu(*TASKLOOM, "verify", "--all", bench.data())
    audit = bench.cpu(*TASKLOOM, "audit", bench.data())
    yield seconds("`audit` of 115,288 rows", 1.2, audit, f"`verify --all` of them {verify:.2f}")
    first, arrow = bench.python(BATCHES, bench.data())
    yield Row(
        "first `batches(512)`, 100,000 rows",
        "no pandas",
        f"{first:.3f} CPU-s",
        f"Arrow's `read_table` and two columns as lists {arrow:.2f}",
        True,
    )
    ours, limit = bench.python(CTL)
    yield Row(
        "`ctl/A` with Parquet and digests, 319,384 rows",
        "1.5 times NumPy and encoding",
        f"{ours:.2f} CPU-s, {ours / limit:.1f} times",
        f"NumPy chains and encoding the finished columns {limit:.2f}",
        ours <= 1.5 * limit,
    )


def stories(bench: Bench) -> Iterator[Row]:
    for name, goal in (("babi/diverse-T12", 5_000), ("babi/mix-T12", 4_000)):
        code = ONE.replace("print(json.dumps({", "print(json.dumps([n / seconds])) if 1 else (({")
        [rate] = bench.python(code, name)
        yield Row(f"`{name}`, all rows", f"{goal:,} a CPU-s", f"{rate:,.0f}", "", rate >= goal)


def workers(bench: Bench) -> Iterator[Row]:
    """By CPU-seconds, because the clock depends on whoever else uses the machine: those of one
    process, over those of the calling process and half of those of its two workers.
    """
    for name in ("babi/diverse-T12", "taskbench/words"):
        load = os.getloadavg()[0]
        one, two = (bench.making(name, count) for count in (1, 2))
        ratio = one["cpu"] / (two["own"] + (two["cpu"] - two["own"]) / 2)
        yield Row(
            f"`make {name} --workers 2`",
            "1.8 times one",
            f"{ratio:.2f} by CPU-seconds if each worker does half,"
            f" {one['wall'] / two['wall']:.2f} by the clock (load {load:.0f})",
            f"CPU-s of one process {one['cpu']:.1f}, of two workers and the command"
            f" {two['cpu']:.1f}; two cores: 2.0",
            ratio >= 1.8,
        )


def peers(bench: Bench) -> Iterator[Row]:
    for recipe, theirs in PEERS.items() if bench.peer else ():
        rate, n = bench.python(OURS, recipe)
        rates = {name: bench.theirs(name) for name in theirs}
        yield Row(
            f"`{recipe}`, {n:,.0f} examples as Python objects",
            "ahead of reasoning-gym",
            f"{rate:,.0f} a CPU-second",
            ", ".join(f"{name} {other:,.0f}" for name, other in rates.items()),
            rate >= max(rates.values()),
        )


def report(bench: Bench) -> Iterator[Row]:
    wanted = (((4000, 1, 1), 6.0, 0), ((5, 10, 200), 8.0, 400))
    for shape, goal, most in wanted:
        store, used = bench.store(*shape), []
        for _ in range(bench.times):
            # A new cache, so that no index of the store is there.
            environment = {**os.environ, "TASKLOOM_CACHE": tempfile.mkdtemp(dir=bench.folder)}
            command = [sys.executable, "-c", COMMAND, str(store), str(bench.folder / "page.html")]
            done = subprocess.run(
                command,
                stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                text=True,
                check=True,
                env=environment,
            )
            used.append(tuple(map(float, done.stderr.split()[-2:])))
        cpu, memory = (statistics.median(one) for one in zip(*used, strict=True))
        yield Row(
            f"`report`, {shape[0]:,} × {shape[1]} × {shape[2]} recipes, learners, seeds",
            f"{goal:g} CPU-s" + (f", {most} MB" if most else ""),
            f"{cpu:.1f} CPU-s, {memory:.0f} MB",
            "",
            cpu <= goal and (not most or memory <= most),
        )
    took, n = bench.python(WHERE, str(bench.store(5, 10, 200)))
    yield Row(
        f"`Runs.where` with {n:,.0f} digests", "milliseconds", f"{took:.0f} ms", "", took < 50
    )


def viewer(bench: Bench) -> Iterator[Row]:
    least, middle = bench.python(VIEWER, bench.data())
    yield Row(
        "a page of `view` on a kept connection, by the clock",
        "below 40 ms, a delayed ACK",
        f"least {least:.1f} ms, median {middle:.1f}",
        "",
        least < 40,
    )


def printed(script: str, *arguments: str) -> list[str]:
    """Lines that another benchmark prints."""
    command = [sys.executable, str(HERE / script), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def stream(bench: Bench) -> Iterator[Row]:
    for line in printed("stream.py", "--seconds", "3")[2:]:
        recipe, *figures = line.split()
        alone, both, goal = (float(figures[i].replace(",", "")) for i in (0, 2, 3))
        yield Row(
            f"`tl.stream` of `{recipe}`, packed, tokens a second from two cores",
            f"{goal:,.0f}",
            f"{alone:,.0f} a CPU-second of one core; {both:,.0f} by the clock",
            f"the tokeniser takes {figures[1]} of it",
            2 * alone >= goal,
        )


def objects(bench: Bench) -> Iterator[Row]:
    used, memory, stored, plan = printed("object_store.py")[-4:]
    used = used.partition(": ")[2]
    work = "`make -o s3://…`, 1,000,000 rows"
    yield Row(work, "flat memory, a small manifest", f"{used}; {memory}; {stored}", plan, True)


def growth(bench: Bench) -> Iterator[Row]:
    for line in printed("growth.py"):
        exponent = re.search(r"exponent ([\d.]+)", line)
        part, _, figures = line.partition(": ")
        yield Row(
            f"`{part}` as its work doubles four times",
            "exponent at most 1.05",
            figures,
            "",
            exponent is None or float(exponent[1]) <= 1.05,
        )


PARTS: dict[str, Callable[[Bench], Iterator[Row]]] = {
    part.__name__: part
    for part in (start, data, stories, peers, viewer, stream, objects, report, workers, growth)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--stores", type=Path)
    parser.add_argument("--peer", default="", metavar="PYTHON")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        stores = given.stores or Path(scratch, "stores")
        bench = Bench(Path(scratch), stores, given.times, given.peer)
        rows: dict[str, str] = {}
        print("\n".join(HEAD), flush=True)
        for part in given.parts or PARTS:
            ruler, load = bench.cpu(sys.executable, "-c", RULER), os.getloadavg()[0]
            measured = f"{commit()}, {ruler:.2f} s, {load:.0f}"
            for row in PARTS[part](bench):
                met = "yes" if row.met else "no"
                cells = (row.work, row.goal, row.now, row.beside, met, measured)
                rows[row.work] = f"| {' | '.join(cells)} |"
                print(rows[row.work], flush=True)
            if given.write:
                write(rows)
    if given.write and not given.parts:
        write(rows, kept=False)


def write(rows: Mapping[str, str], kept: bool = True) -> None:
    """Write lines into the page's table.

    Args:
        rows: Lines by the work that they are about.
        kept: Keep the lines about other work.
    """
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    shown, _, after = rest.partition(END)
    lines = [line for line in shown.splitlines() if kept and line.startswith("| ")]
    # The first two lines are the headings.
    every = {line.split(" | ")[0].removeprefix("| "): line for line in lines[2:]} | dict(rows)
    table = "\n".join(["", "", *HEAD, *every.values(), "", ""])
    PAGE.write_text(before + BEGIN + table + END + after, encoding="utf-8")


def commit() -> str:
    """The commit of this checkout."""
    command = ["git", "-C", str(HERE), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
