"""Scores from stored predictions, without a model."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from taskloom.core.errors import TaskloomError
from taskloom.experiments.rescore import rescore
from taskloom.experiments.store import Store
from tests.experiments.sweeps import contents, fill, taskloom

SHOUTING = """
import taskloom as tl


@tl.task("test/shout", describe="say it loudly", scorer=tl.exact)
def shout(rng: tl.Random) -> tl.Example:
    return tl.Example(f"say {rng.randint(0, 10**6)}", rng.choice(["Yes", "yes"]), traits={"loud": True, "word": "1a"})
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "shout.py").write_text(SHOUTING)
    block = {
        "recipe": str(tmp_path / "shout.py"),
        "set": {"splits": {"train": {"n": 9}, "test": {"n": 20}}},
    }
    return fill({"recipes": [block], "learners": ["majority"], "seeds": 2}, tmp_path / "runs").store


def test_another_scorer_gives_other_scores_and_keeps_the_old(store: Store) -> None:
    before = contents(store.path)
    old = {run: store.scores(run) for run in store.names()}
    exact = {
        run: pq.read_table(store.folder(run) / "predictions.parquet")["score"].to_pylist()
        for run in old
    }
    changes = rescore(store.path, "any-of")
    for run, change in zip(store.names(), changes, strict=True):
        said = store.scores(run)
        assert said["scorer"] == "any-of"
        assert said["splits"]["test"]["score"] == change.after == 1.0
        assert 0.0 < change.before < 1.0  # type: ignore[operator]
        assert change.changed == sum(s == 0.0 for s in exact[run])
        scores = pq.read_table(store.folder(run) / "predictions.parquet")["score"].to_pylist()
        assert scores == [1.0] * 20
        assert json.loads((store.folder(run) / "scores-exact.json").read_text()) == old[run]
        kept = pq.read_table(store.folder(run) / "scores-exact.parquet")
        assert kept["score"].to_pylist() == exact[run]
    rescore(store.path, "own")
    assert contents(store.path) == before  # back to the suite's own scorer, to the last byte


def test_rescoring_with_the_same_scorer_touches_nothing(store: Store) -> None:
    before = {p: p.stat().st_mtime_ns for p in store.path.rglob("*")}
    assert not any(c.changed for c in rescore(store.path, "own"))
    assert {p: p.stat().st_mtime_ns for p in store.path.rglob("*")} == before


def test_a_rescoring_that_was_cut_off_is_completed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from taskloom.experiments import rescore as rescoring

    wanted = {run: store.scores(run)["splits"]["test"]["score"] for run in store.names()}

    def cut(path: Path, said: object) -> None:
        if path.name == "scores.json":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(rescoring, "_write", cut)
        with pytest.raises(KeyboardInterrupt):
            rescore(store.path, "any-of")
    rescore(store.path, "any-of")
    assert all(store.scores(run)["splits"]["test"]["score"] == 1.0 for run in wanted)


def test_faults(store: Store, tmp_path: Path) -> None:
    with pytest.raises(TaskloomError, match="no scorer is called 'exakt'; did you mean 'exact'"):
        rescore(store.path, "exakt")
    done = taskloom("rescore", "nowhere", "--scorer", "exact", cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no folder nowhere" in done.stderr
    config = store.folder(store.names()[0]) / "config.yaml"
    for damage in (b"a: [", b"\xff", b"", None):
        config.unlink()
        if damage is not None:
            config.write_bytes(damage)
        with pytest.raises(
            TaskloomError, match=r"config.yaml is damaged .*; delete .* and rerun the experiment"
        ):
            rescore(store.path, "own")
        config.touch()


def test_sequences_are_scored_again_as_the_published_code_scores(tmp_path: Path) -> None:
    # Names of several words, with capitals, which the published code never matches.
    changes = {"facts": "synthetic", "sequences.n": 60}
    block = {"recipe": "taskbench/map(father)", "set": changes}
    plain = {"recipes": [block], "learners": ["nearest-neighbour"], "evaluate": ["train"]}
    store = fill(plain, tmp_path / "runs").store
    [run] = store.names()
    entry = store.scores(run)["splits"]["train"]
    assert entry["score"] == 1.0
    assert entry["scores"]["reference-compatible"] < 0.5
    [change] = rescore(store.path, "reference-positions")
    scores = store.scores(run)
    assert scores["scorer"] == "reference-positions"
    assert change.after == pytest.approx(entry["scores"]["reference-compatible"])
    assert scores["splits"]["train"]["scores"] == entry["scores"]
    rescore(store.path, "own")
    assert store.scores(run)["splits"]["train"] == entry


def test_a_scorer_of_another_suite_is_refused(tmp_path: Path) -> None:
    block = {"recipe": "babi/1", "set": {"splits": {"train": {"n": 5}, "test": {"n": 5}}}}
    store = fill({"recipes": [block], "learners": ["majority"]}, tmp_path / "runs").store
    with pytest.raises(TaskloomError, match=r"reference-positions.*babi"):
        rescore(store.path, "reference-positions")
