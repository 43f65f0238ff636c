"""Fixtures for all tests: shared resources, a cache of their own, and the long versions of property tests."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import signal
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch and numpy, also of processes that tests start: sizes are tiny

settings.register_profile(
    "ci", max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile("nightly", parent=settings.get_profile("ci"), max_examples=5_000, derandomize=False)
settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="also run the long versions of property tests")
    parser.addoption("--halves", action="store_true", help="with `-n 2 --dist each`: each worker collects its half")


def pytest_configure(config: pytest.Config) -> None:
    heed_interrupts()
    if config.getoption("--nightly"):
        settings.load_profile("nightly")


FIRST_HALF = {
    "audits", "dataset", "experiments", "interop", "learners", "profiles", "reports", "studies", "viewer",
    "test_cli.py", "test_docs.py", "test_first_minutes.py",
}  # fmt: skip
"""The tests that need torch, SciPy or scikit-learn, and as many others as make the halves equally long."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave one half of the tests to the other worker: to import every library in both took 20 CPU-seconds."""
    if not config.getoption("--halves") or collection_path == Path(__file__).parent:
        return None
    first = os.environ.get("PYTEST_XDIST_WORKER") == "gw0"
    return (collection_path.relative_to(Path(__file__).parent).parts[0] in FIRST_HALF) != first or None


def heed_interrupts() -> None:
    """Let Ctrl-C interrupt again where a script put pytest in the background: what tests start would inherit that it is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Keep what collecting built out of later garbage collections, and collect less often: both took a quarter of all time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(1_000_000, 20, 100)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.parent.name == "fuzz")  # its audit hook stays, and slows what comes after it
    if config.getoption("--nightly"):
        return
    skip = pytest.mark.skip(reason="a long test: run with --nightly")
    repeats = daily_repeats(items)
    for item in items:
        if is_long(item) or item.nodeid in repeats:
            item.add_marker(skip)


def is_long(item: pytest.Item) -> bool:
    """Return whether a test is marked `nightly`; its keywords would also have the name of the checkout's folder."""
    return item.get_closest_marker("nightly") is not None


def daily_repeats(items: list[pytest.Item]) -> set[str]:
    """Return the tests marked `daily` whose parameters it does not name: repeats of a property that others show."""
    marked: dict[str, list[tuple[str, str, tuple[str, ...]]]] = {}
    for item in items:
        if (mark := item.get_closest_marker("daily")) and isinstance(item, pytest.Function):
            ids = item.callspec.id if hasattr(item, "callspec") else ""
            marked.setdefault(item.nodeid.split("[")[0], []).append((item.nodeid, ids, mark.args))
    for name, tests in marked.items():
        unknown = set(tests[0][2]) - {ids for _, ids, _ in tests}
        if unknown and len(tests) > 1:  # one test alone was named on the command line
            raise pytest.UsageError(f"{name} has no parameters {sorted(unknown)}: correct its mark `daily`")
    return {nodeid for tests in marked.values() for nodeid, ids, named in tests if ids not in named}


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> None:
    """Keep tests out of the user's cache. The workers of one run share theirs."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    folder.mkdir(exist_ok=True)
    if pytestconfig.pluginmanager.hasplugin("cacheprovider"):  # a read-only checkout is tested without it
        with contextlib.suppress(FileExistsError):
            (folder / "taskbench").symlink_to(kept_lexicons(pytestconfig))
    os.environ["TASKLOOM_CACHE"] = str(folder)


def kept_lexicons(config: pytest.Config) -> Path:
    """Return a folder for compiled lexicons that lasts until the code which compiles them changes: 11 CPU-seconds a run."""
    package = Path(__file__).parent.parent / "src" / "taskloom" / "suites" / "taskbench"
    code = [package / "array_cache.py", package / "tables.py", *sorted((package / "worlds" / "words").rglob("*.py"))]
    digest = blake2b(b"".join(file.read_bytes() for file in code), digest_size=8).hexdigest()
    every = config.cache.mkdir("lexicons")
    for other in every.iterdir():
        if other.name != digest:
            shutil.rmtree(other, ignore_errors=True)
    (every / digest).mkdir(exist_ok=True)
    return every / digest


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Drop what a test registers after it; learners and scorers of ours stay, since modules register them only once."""
    from taskloom import scoring
    from taskloom.registry import SUITES, TASKS, Registry
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


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared resources; tests that need it are skipped where it is not there."""
    folder = os.environ.get("TASKLOOM_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("TASKLOOM_DATA is not set to the shared resources")
    return Path(folder)


@pytest.fixture(scope="session")
def oracles(shared: Path) -> Path:
    """Inputs with the outputs of the official tools."""
    folder = shared.parent / "oracles"
    if not folder.is_dir():
        pytest.skip("the oracles do not lie beside the shared resources")
    return folder
