"""Cost of `make` into an object store: CPU-seconds, memory, bytes and requests on a local S3 server,
and from them what 10^9 rows would take.

    python benchmarks/object_store.py --rows 1000000
    python benchmarks/object_store.py --rows 100000000 --workers 2

The server is moto's (`pip install 'moto[s3]' flask flask-cors`), in a process of its own, which is
not counted. It keeps objects in temporary files and makes no claim about a network's speed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path

PLANNED = 10**9
PUT_PRICE = 5e-6
"""Dollars per PUT, POST or LIST request: S3 Standard in us-east-1. GET and HEAD cost 0.4e-6."""

STORED_PRICE = 0.023
"""Dollars per GB and month: S3 Standard in us-east-1."""

MAKE = """
import sys
import taskloom as tl
changes = {"splits": {"train": {"n": int(sys.argv[2])}}}
print(tl.make("ctl/A-independent", sys.argv[1], changes=changes, shard_rows=int(sys.argv[3]),
              workers=int(sys.argv[4])).digest)
"""
SERVE = "import sys; from moto.server import main; main(['-H', '127.0.0.1', '-p', sys.argv[1]])"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--shard-rows", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--port", type=int, default=5_055)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "requests")
        serve = [sys.executable, "-c", SERVE, str(given.port)]
        with log.open("w") as lines:
            server = subprocess.Popen(
                serve, stderr=lines, stdout=lines, env={**os.environ, "TMPDIR": folder}
            )
        try:
            measure(given, f"127.0.0.1:{given.port}", log)
        finally:
            server.kill()
            server.wait()


def measure(given: argparse.Namespace, server: str, log: Path) -> None:
    """Make the dataset, look what it cost, and print the plan for 10^9 rows."""
    create_bucket(server)
    url = f"s3://key:word@bucket/data?endpoint_override={server}&scheme=http&region=us-east-1"
    started = time.monotonic()
    command = [
        sys.executable,
        "-c",
        MAKE,
        url,
        *map(str, (given.rows, given.shard_rows, given.workers)),
    ]
    making = subprocess.Popen(command)
    peak = Peak(making.pid)
    while (ended := os.wait4(making.pid, os.WNOHANG))[0] == 0:
        peak.look()
        time.sleep(0.2)
    clock, used = time.monotonic() - started, ended[2]
    if ended[1]:
        raise SystemExit("make failed")
    requests = Counter(re.findall(r'"\S*?(PUT|POST|GET|HEAD|DELETE) /', log.read_text()))
    sizes = object_sizes(server)
    cpu = used.ru_utime + used.ru_stime
    print(
        f"{given.rows:,} rows, {given.workers} workers: {cpu:.1f} CPU-s, {clock:.0f} s by the clock"
    )
    print(f"peak memory: command {peak.own} MB, largest worker {peak.worker} MB")
    asked = ", ".join(f"{count} {name}" for name, count in requests.items())
    print(
        f"{len(sizes)} objects, {sum(sizes.values()) / 1e6:.1f} MB; manifest"
        f" {sizes['data/manifest.json']:,} bytes; requests {asked}"
    )
    plan(given.rows, cpu, sum(sizes.values()), requests)


def plan(rows: int, cpu: float, size: int, requests: Counter[str]) -> None:
    """Print what 10^9 rows take in proportion."""
    more = PLANNED / rows
    writes = sum(requests[name] for name in ("PUT", "POST")) * more
    print(
        f"in proportion, {PLANNED:,} rows: {cpu * more / 3600:.2f} core-hours"
        f" ({rows / cpu * 3600:.3g} rows per core-hour), {size * more / 1e9:.1f} GB,"
        f" {writes:,.0f} writes (${writes * PUT_PRICE:.2f}),"
        f" ${size * more / 1e9 * STORED_PRICE:.2f} a month"
    )


class Peak:
    """The most memory that a command and its largest worker were seen to have, in MB."""

    def __init__(self, pid: int) -> None:
        self.pid, self.own, self.worker = pid, 0, 0

    def look(self) -> None:
        self.own = max(self.own, resident(self.pid))
        try:
            children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        except OSError:
            return
        self.worker = max([self.worker, *(resident(int(child)) for child in children)])


def resident(pid: int) -> int:
    """Peak resident memory of a process in MB. 0 if it has ended."""
    try:
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) // 1024 if found else 0


def create_bucket(server: str) -> None:
    request = urllib.request.Request(f"http://{server}/bucket", method="PUT")
    for _ in range(100):
        try:
            urllib.request.urlopen(request).close()  # noqa: S310 - our own server
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise SystemExit("moto's server does not start; pip install 'moto[s3]' flask flask-cors")


def object_sizes(server: str) -> dict[str, int]:
    """Size of every object by its name."""
    from pyarrow import fs

    host = fs.S3FileSystem(
        access_key="key",
        secret_key="word",  # noqa: S106 - moto takes any
        endpoint_override=server,
        scheme="http",
        region="us-east-1",
    )
    found = host.get_file_info(fs.FileSelector("bucket", recursive=True))
    return {f.path.removeprefix("bucket/"): f.size for f in found if f.type == fs.FileType.File}


if __name__ == "__main__":
    main()
