"""Requests a second to a model behind an endpoint: the endpoint learner against a local server that
answers at once, 8 at a time.

python benchmarks/endpoint.py [--requests 4000]

The server is another process and answers without looking at the question, so the figures are those
of the client. Beside the rate by the clock stands the client's CPU time for a request: its inverse
is what one process reaches on a quiet machine.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import tempfile
import time
from pathlib import Path

from instant_server import serve
from taskloom.learners.models.client import Limits, ModelClient


def measure(url: str, requests: int, cache: Path | None) -> tuple[float, float]:
    """Return requests a second by the clock, and milliseconds of CPU time for one."""
    client = ModelClient(url, "m", "key", Limits(at_once=8), cache)
    client.ask([f"warm {i}" for i in range(100)], 8)
    questions = [f"Is {i} a number? |" for i in range(requests)]
    wall, cpu = time.perf_counter(), time.process_time()
    client.ask(questions, 8)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return requests / wall, 1000 * cpu / requests


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=4000)
    args = parser.parse_args()
    with (
        socket.create_server(("127.0.0.1", 0), backlog=64) as listening,
        tempfile.TemporaryDirectory() as folder,
    ):
        server = multiprocessing.get_context("fork").Process(
            target=serve, args=(listening,), daemon=True
        )
        server.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        for name, cache in (
            ("answers in memory", None),
            ("answers in a cache on disk", Path(folder) / "cache"),
        ):
            rate, cost = measure(url, args.requests, cache)
            print(
                f"{name}: {rate:,.0f} requests a second, {cost:.2f} CPU-ms each ({1000 / cost:,.0f}"
                " a CPU-second)"
            )
        server.terminate()


if __name__ == "__main__":
    main()
