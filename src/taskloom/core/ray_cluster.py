"""Ray: finding a cluster or starting one on this machine, and spreading calls over it.

Used by `taskloom make --engine ray` and by the Ray engine of experiments. Ray is imported only when
it is used.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from taskloom.core.errors import MissingExtra, TaskloomError

T = TypeVar("T")
R = TypeVar("R")

ATTEMPTS = 3
"""Attempts at a call whose worker or node dies: one death may be chance, three are the call's
fault.
"""

ANSWER_WITHIN = 10.0
"""Seconds in which a cluster's head must answer; Ray itself would try for minutes."""


REFRESH = 5.0
"""Seconds between two questions about the size of the cluster, which the head answers slowly."""


class Ray:
    """A connection to a cluster; one that was there before is left as it is when this one ends.

    Args:
        address: `HOST:PORT` of a cluster's head, or `auto` for the one on this machine; None starts
            one on this machine.
        cpus: Cores of a cluster that is started; all by default.
    """

    def __init__(self, address: str | None = None, cpus: int | None = None) -> None:
        try:
            import ray
        except ImportError:
            raise MissingExtra("the engine 'ray'", "ray", "ray") from None
        self.ray: Any = ray
        self._known: tuple[float, dict[str, float]] | None = None
        self.joined = not ray.is_initialized()
        if not self.joined:
            return
        try:
            if address:
                _reach(address)
                ray.init(address=address, log_to_driver=False)
            else:
                ray.init(
                    address="local", num_cpus=cpus, include_dashboard=False, log_to_driver=False
                )
        except Exception as error:  # Ray raises plain ones if its processes die while they start
            ray.shutdown()
            first = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
            where = (
                f"no Ray cluster answers at '{address}'" if address else "Ray does not start here"
            )
            raise TaskloomError(
                f"{where} ({first}); start a cluster with 'ray start --head' and give its address,"
                " or none"
            ) from error

    @property
    def cores(self) -> int:
        """Total CPU cores of the cluster, which may grow and shrink."""
        return max(1, int(self._resources().get("CPU", 1)))

    @property
    def gpus(self) -> float:
        """Total GPUs of the cluster."""
        return float(self._resources().get("GPU", 0))

    def _resources(self) -> dict[str, float]:
        """Return the cluster's resources, a few seconds old at most: asking the head takes longer
        than the rest of a job.
        """
        now = time.monotonic()
        if self._known is None or now - self._known[0] > REFRESH:
            self._known = (now, dict(self.ray.cluster_resources()))
        return self._known[1]

    def leave(self) -> None:
        """Close the connection; stop a cluster that was started here."""
        if self.joined:
            self.ray.shutdown()

    def spread(
        self, function: Callable[[T], R], items: Iterable[T], at_once: int | None = None
    ) -> Iterator[tuple[T, R]]:
        """Call a function on every item, somewhere; results as they come. A call on a node that
        dies goes to another.

        Args:
            function: Called with one item; what it raises is raised here.
            items: What to call it with.
            at_once: The most calls at one time; twice the cores by default.
        """
        remote = self.ray.remote(function)
        waiting = deque((item, 1) for item in items)
        running: dict[Any, tuple[T, int]] = {}
        try:
            while waiting or running:
                while waiting and len(running) < (at_once or 2 * self.cores):
                    item, attempt = waiting.popleft()
                    running[remote.options(max_retries=0).remote(item)] = (item, attempt)
                ready, _ = self.ray.wait(list(running), timeout=1.0)
                for reference in ready:
                    item, attempt = running.pop(reference)
                    try:
                        yield item, self.ray.get(reference)
                    except self.ray.exceptions.RayTaskError as error:
                        raise error.cause if isinstance(error.cause, Exception) else error from None
                    except self.ray.exceptions.RayError as error:
                        if attempt == ATTEMPTS:
                            raise TaskloomError(
                                f"a Ray worker died {attempt} times on one piece of work: {error}"
                            ) from error
                        waiting.append((item, attempt + 1))
        finally:
            for reference in running:
                self.ray.cancel(reference, force=True)


def _reach(address: str) -> None:
    """Check that something listens at an address, before Ray tries for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:
        return  # 'auto' and the like are Ray's to find
    if not port.isdigit():
        raise ValueError("an address is HOST:PORT")
    socket.create_connection((host, int(port)), timeout=ANSWER_WITHIN).close()
