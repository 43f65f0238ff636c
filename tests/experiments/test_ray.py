"""The Ray engine: the same bytes as local processes, on one node and on three of which one dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from taskloom.errors import TaskloomError
from taskloom.experiments import api
from taskloom.experiments.driving import State
from taskloom.experiments.spec import check
from tests.experiments.sweeps import baselines, contents, networks

ray = pytest.importorskip("ray")


@pytest.fixture(autouse=True)
def _on_loopback(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # else Ray writes a token into the home folder
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    yield
    ray.shutdown()


def test_a_sweep_and_a_dataset_by_ray_are_those_of_local_processes(tmp_path: Path) -> None:
    """One Ray for several checks, since starting it costs more than they do."""
    experiment = check(baselines(seeds=2), "test")
    api.fill(experiment, tmp_path / "local", workers=2)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    outcome = api.fill(experiment, tmp_path / "ray", engine="ray")
    assert not outcome.state.failed
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")


def test_no_cluster_at_an_address_is_one_sentence() -> None:
    with pytest.raises(TaskloomError, match="no Ray cluster answers at 'nowhere:1'"):
        api.fill(check(baselines(), "test"), "unused", engine="ray", address="nowhere:1")


@pytest.mark.nightly
def test_three_nodes_of_which_one_dies_give_the_same_table(tmp_path: Path) -> None:
    from ray.cluster_utils import Cluster

    experiment = check(networks(seeds=3, steps=100) | {"resources": {"stack": 1}}, "test")
    api.fill(experiment, tmp_path / "local", workers=2)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    others = [cluster.add_node(num_cpus=1) for _ in range(2)]
    cluster.wait_for_nodes()
    killed: list[int] = []

    def watch(state: State) -> None:
        if state.done >= 4 and not killed:
            cluster.remove_node(others[0], allow_graceful=False)
            killed.append(state.done)

    outcome = api.fill(experiment, tmp_path / "ray", engine="ray", address=cluster.address, watch=watch)
    cluster.shutdown()
    assert killed
    assert killed[0] < len(outcome.cells)
    assert not outcome.state.failed
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")
