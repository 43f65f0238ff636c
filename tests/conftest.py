"""Fixtures for all tests: shared resources, and a cache and a registry of their own."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Also for the processes that tests start: models are tiny, and threads of torch and numpy would
# only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile(
    "ci",
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)
# For `make test-all`: `--hypothesis-profile=thorough`.
settings.register_profile(
    "thorough", parent=settings.get_profile("ci"), max_examples=5_000, derandomize=False
)
settings.load_profile("ci")


def pytest_configure() -> None:
    heed_interrupts()


def heed_interrupts() -> None:
    """Let Ctrl-C interrupt the tests again if a script started pytest in the background.

    Such a pytest ignores SIGINT, and the processes that tests start and interrupt would inherit
    that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Exclude the modules and tests that collection built from garbage collection, which took 42 of
    490 CPU-seconds.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep tests out of the user's cache. The workers of one run share a cache, so lexicons are
    compiled once.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    folder.mkdir(exist_ok=True)
    os.environ["TASKLOOM_CACHE"] = str(folder)


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Remove everything a test registered. Our own learners and scorers stay, because modules
    register them only once.
    """
    from taskloom.core import scoring
    from taskloom.core.registry import SUITES, TASKS, Registry
    from taskloom.suites.taskbench import atoms

    monkeypatch.setattr(atoms, "_ADDED", dict(atoms._ADDED))
    SUITES.names()  # imported once for all tests
    for registry in (TASKS, SUITES):
        monkeypatch.setattr(registry, "_things", dict(registry._things))
        monkeypatch.setattr(registry, "_origin", dict(registry._origin))
    yield
    learners = next((r for r in Registry.every if r.kind == "learner"), None)
    for origin in set(learners._origin.values()) if learners else ():
        if learners is not None and not origin.startswith("taskloom."):
            learners.forget(origin)
    for home in {home for home in scoring._HOMES.values() if not home.startswith("taskloom.")}:
        scoring.forget(home)


@pytest.fixture
def runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Experiments run their jobs in the test's process, because starting a worker process takes a
    CPU-second.
    """
    from taskloom.experiments.execute import engines

    monkeypatch.setattr(engines, "start", lambda name, **options: engines.HereEngine())


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared resources. Tests that need it are skipped if it is missing."""
    folder = os.environ.get("TASKLOOM_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("TASKLOOM_DATA is not set to the shared resources")
    return Path(folder)


@pytest.fixture(scope="session")
def oracles(shared: Path) -> Path:
    """Inputs and outputs of the official tools."""
    folder = shared.parent / "oracles"
    if not folder.is_dir():
        pytest.skip("there are no oracles next to the shared resources")
    return folder
