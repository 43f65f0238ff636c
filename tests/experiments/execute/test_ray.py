"""The Ray engine: the same bytes as local processes, on one node and on three of which one dies."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import taskloom
from taskloom.core.errors import TaskloomError
from taskloom.data.workers import Ray
from taskloom.experiments import api
from taskloom.experiments.execute.driver import ExperimentState
from taskloom.experiments.spec.experiment import check, read
from taskloom.experiments.store import Store
from tests.experiments.sweeps import baselines, command, contents, environment, networks, write
from tests.experiments.sweeps import taskloom as taskloom_command

ray = pytest.importorskip("ray")


@pytest.fixture(autouse=True)
def _on_loopback(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # else Ray writes a token into the home folder
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    yield
    ray.shutdown()


def test_a_sweep_and_a_dataset_by_ray_are_those_of_local_processes(
    filled: Path, tmp_path: Path
) -> None:
    """One Ray for several checks, since starting it costs more than they do."""
    experiment = read(filled.parent / "experiment.yaml")
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    outcome = api.fill(experiment, tmp_path / "ray", engine="ray")
    assert not outcome.state.failed
    assert contents(tmp_path / "ray") == contents(filled)
    options: dict[str, Any] = {"set": ["splits.train.n=9000"], "shard_rows": 1000}
    alone = taskloom.make("ctl/A", tmp_path / "alone", **options)
    spread = taskloom.make("ctl/A", tmp_path / "spread", engine="ray", **options)
    assert spread.digest == alone.digest
    assert [p.read_bytes() for p in sorted((tmp_path / "spread").rglob("*.parquet"))] == [
        p.read_bytes() for p in sorted((tmp_path / "alone").rglob("*.parquet"))
    ]
    assert ray.is_initialized()  # it was there before, and is not ours to end


def test_a_refused_token_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's own message names another address, and only its cause names the token."""

    def refuse(**_: object) -> None:
        cause = RuntimeError("Last connection error: RPC error: InvalidAuthToken: …")
        raise ConnectionError("Failed to connect to Ray cluster at 192.0.2.2:6390") from cause

    monkeypatch.setattr(ray, "init", refuse)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(TaskloomError, match=f"at '{address}' refuses the token; set RAY_AUTH"):
            Ray(address)


def test_no_cluster_at_an_address_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TaskloomError, match=r"no Ray cluster answers at '127.0.0.1:9'"):
        taskloom.make("ctl/A", tmp_path / "data", engine="ray", address="127.0.0.1:9")
    with pytest.raises(TaskloomError, match="an address is HOST:PORT"):
        api.fill(check(baselines(), "test"), tmp_path / "runs", engine="ray", address="head:port")
    with pytest.raises(TaskloomError, match="no engine is called 'rai'; did you mean 'ray'"):
        taskloom.make("ctl/A", tmp_path / "data", engine="rai")


@pytest.mark.slow
def test_a_local_ray_that_is_killed_while_it_starts_is_one_sentence(tmp_path: Path) -> None:
    write(tmp_path, baselines())
    driver = subprocess.Popen(
        command("run", "experiment.yaml", "--engine", "ray", "--workers", "1"),
        cwd=tmp_path,
        env={**environment(), "RAY_raylet_start_wait_time_s": "5"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while driver.poll() is None and not (raylets := _raylets(driver.pid)):
        time.sleep(0.02)
    for raylet in raylets:
        os.kill(raylet, signal.SIGKILL)
    _, said = driver.communicate(timeout=200)
    assert driver.returncode == 2, said
    assert "Traceback" not in said
    assert "taskloom: Ray does not start here (" in said


@pytest.mark.slow
@pytest.mark.parametrize("words", [("run", "experiment.yaml"), ("make", "ctl/A", "-o", "data")])
def test_a_raylet_that_dies_when_ray_has_started_is_one_sentence(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Ray then ends the process that is connected to it, from C++."""
    write(tmp_path, baselines())
    driver = subprocess.Popen(
        command(*words, "--engine", "ray", "--workers", "1"),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert driver.stderr is not None
    for line in driver.stderr:
        if "Started a local Ray instance" in line:
            break
    for raylet in _raylets(driver.pid):
        os.kill(raylet, signal.SIGKILL)
    _, said = driver.communicate(timeout=200)
    assert driver.returncode == 2, said
    assert "Traceback" not in said
    assert "taskloom: the driver of Ray ended with status 1: " in said
    assert said.count("rerun the command to resume") == 1


def _raylets(parent: int) -> list[int]:
    """The processes of Ray that assign work, below a process."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    own = [int(pid) for pid in children if "raylet/raylet" in _command_line(pid)]
    return own + [raylet for pid in children for raylet in _raylets(int(pid))]


def _command_line(pid: str) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().partition("\0")[0]


@pytest.mark.slow
def test_three_nodes_of_which_one_dies_give_the_same_table(tmp_path: Path) -> None:
    from ray.cluster_utils import Cluster

    experiment = check(networks(seeds=3, steps=100) | {"resources": {"stack": 1}}, "test")
    api.fill(experiment, tmp_path / "local", workers=2)
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    others = [cluster.add_node(num_cpus=1) for _ in range(2)]
    cluster.wait_for_nodes()
    killed: list[int] = []

    def watch(state: ExperimentState) -> None:
        if state.done >= 4 and not killed:
            cluster.remove_node(others[0], allow_graceful=False)
            killed.append(state.done)

    outcome = api.fill(
        experiment, tmp_path / "ray", engine="ray", address=cluster.address, watch=watch
    )
    cluster.shutdown()
    assert killed
    assert killed[0] < len(outcome.cells)
    assert not outcome.state.failed
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")


@pytest.mark.slow
def test_the_head_is_killed_and_the_same_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "5")
    write(tmp_path, networks(seeds=2, steps=150) | {"resources": {"stack": 1}})
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False}
    )
    arguments = ("run", "experiment.yaml", "--store", "runs")
    driver = subprocess.Popen(
        command(*arguments, "--engine", "ray", "--address", cluster.address),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while driver.poll() is None and not list((tmp_path / "runs").glob("??/*/scores.json")):
        time.sleep(0.1)
    cluster.head_node.kill_gcs_server()
    cluster.head_node.kill_raylet()
    _, said = driver.communicate(timeout=200)
    assert "rerun the command to resume" in said
    assert driver.returncode == 2
    finished = Store(tmp_path / "runs").names()
    assert 0 < len(finished) < 12
    again = taskloom_command(*arguments, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert (
        taskloom_command("run", "experiment.yaml", "--store", "alone", cwd=tmp_path).returncode == 0
    )
    assert contents(tmp_path / "runs") == contents(tmp_path / "alone")
