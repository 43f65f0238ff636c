"""A few inputs of every target, every failure that the fuzzer once found, and proof that its
watchers see what they watch for.
"""

from __future__ import annotations

import gc
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from taskloom.core.errors import InputError
from tests.fuzz import (  # noqa: F401 - they register targets
    targets_files,
    targets_pages,
    targets_replies,
    targets_servers,
    targets_texts,
)
from tests.fuzz.engine import REGRESSIONS, TARGETS, Refuted, Target, Verdict, campaign, judge
from tests.fuzz.mutators import MUTATORS
from tests.fuzz.strategies import TOKEN, sibling

FILES = sorted(REGRESSIONS.glob("*/*.json"))
SLOW = {"runs", "apply", "functions", "domains", "endpoints", "experiments", "pages"}
"""Targets that import or build something for seconds first; their regressions are replayed all the
same.
"""


@pytest.fixture(autouse=True, scope="module")
def _light_collections() -> None:
    """Leave out of the collections after each campaign what the tests before these have left: a
    second each.
    """
    gc.freeze()


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_failed_once_fails_no_more(path: Path, tmp_path: Path) -> None:
    entry = json.loads(path.read_text(encoding="ascii"))
    target = TARGETS[entry["target"]]
    target.warm()
    outcome = judge(target, entry["input"], tmp_path)
    assert not outcome.failed, (outcome, entry["why"])


@pytest.mark.parametrize("name", sorted(set(TARGETS) - SLOW))
def test_a_few_inputs_of_every_target(name: str, tmp_path: Path) -> None:
    tally = campaign(TARGETS[name], 4, 0, tmp_path, time.monotonic() + 60, None)
    assert tally.inputs
    assert set(tally.counts) <= {"refused", "accepted", "checked"}


CHEAP_RECIPES = [
    recipe for recipe in targets_texts.RECIPES if recipe.get("suite") not in ("taskbench", "zest")
]
"""Those that build no lexicon and load no domains."""
BASES: list[tuple[str, Any]] = [
    *(("recipes", json.dumps(recipe)) for recipe in CHEAP_RECIPES),
    *(("experiments", json.dumps(experiment)) for experiment in targets_texts.EXPERIMENTS[:3]),
    *(("changes", [change]) for change in targets_texts.CHANGES),
    *(("expressions", text) for text in [*targets_texts.ATOMS, *targets_texts.EXPRESSIONS]),
    *(("stories", text) for text in targets_texts.SEEDS),
    *(("yaml", text) for text in targets_texts.YAML_SEEDS[:-1]),  # the last one is an attack
    *(("zest-files", text) for text in targets_texts.ZEST_SEEDS),
]


@pytest.mark.parametrize("name", sorted({name for name, _ in BASES}))
def test_what_is_mutated_is_accepted_as_it_is(name: str, tmp_path: Path) -> None:
    """Mutants of something that is refused anyway try only the first check."""
    for _, value in (base for base in BASES if base[0] == name):
        assert judge(TARGETS[name], value, tmp_path).verdict in ("accepted", "checked"), value


def one(run: Callable[[object, Path], Verdict]) -> Target:
    return Target("one", st.integers(), run)


def test_verdicts(tmp_path: Path) -> None:
    def refuses(value: object, folder: Path) -> Verdict:
        raise InputError("no")

    def refutes(value: object, folder: Path) -> Verdict:
        raise Refuted("no")

    def dies(value: object, folder: Path) -> Verdict:
        raise KeyError("x")

    def eats(value: object, folder: Path) -> Verdict:
        return "accepted" if bytearray(1 << 40) else "refused"

    assert judge(one(lambda value, folder: "checked"), 0, tmp_path).verdict == "checked"
    assert judge(one(refuses), 0, tmp_path).verdict == "refused"
    assert [judge(one(run), 0, tmp_path).verdict for run in (refutes, dies, eats)] == [
        "refuted",
        "traceback",
        "over-memory",
    ]


def test_an_input_that_takes_too_long_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sleeps(value: object, folder: Path) -> Verdict:
        time.sleep(5)
        return "accepted"

    def computes(value: object, folder: Path) -> Verdict:
        end = time.process_time() + 5
        while time.process_time() < end:
            pass
        return "accepted"

    monkeypatch.setattr("tests.fuzz.engine.WAIT_LIMIT", 0.05)
    assert judge(one(sleeps), 0, tmp_path).verdict == "over-time"
    monkeypatch.setattr("tests.fuzz.engine.WAIT_LIMIT", 600)
    monkeypatch.setattr("tests.fuzz.engine.TIME_LIMIT", 0.05)
    assert judge(one(computes), 0, tmp_path).verdict == "over-time"


def test_the_sentinel_sees_paths_code_processes_and_connections(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "evil.py").write_text("x = 1\n")
    (inside / "link").symlink_to(outside)
    code = compile("x = 1", str(inside / "evil.py"), "exec")

    def connect() -> None:
        import socket

        with socket.socket() as one:
            one.connect_ex(("127.0.0.1", 9))

    deeds: dict[str, Callable[[], object]] = {
        "write": lambda: (outside / "x").write_text("x"),
        "through a link": lambda: (inside / "link" / "y").write_text("y"),
        "dots": lambda: (inside / ".." / "z").write_text("z"),
        "folder": lambda: (outside / "new").mkdir(),
        "remove": lambda: (outside / "x").unlink(),
        "rename": lambda: (inside / "evil.py").rename(outside / "evil.py"),
        "code": lambda: exec(code, {}),
        "process": lambda: subprocess.run([sys.executable, "-c", ""]),
        "connection": connect,
    }
    fine: dict[str, Callable[[], object]] = {
        "write": lambda: (inside / "x").write_text("x"),
        "read": lambda: (outside / "x").read_text(),
        "null": lambda: Path(os.devnull).write_text(""),
    }

    def doing(deed: Callable[[], object]) -> Callable[[object, Path], Verdict]:
        def run(value: object, folder: Path) -> Verdict:
            deed()
            return "accepted"

        return run

    (outside / "x").write_text("x")
    assert {
        name: judge(one(doing(deed)), 0, inside).verdict for name, deed in fine.items()
    } == dict.fromkeys(fine, "accepted")
    assert {
        name: judge(one(doing(deed)), 0, inside).verdict for name, deed in deeds.items()
    } == dict.fromkeys(deeds, "path or code")


def test_a_failure_shrinks_to_a_file(tmp_path: Path) -> None:
    def fails(value: object, folder: Path) -> Verdict:
        if isinstance(value, int) and value > 100:
            raise KeyError(value)
        return "accepted"

    work, files = tmp_path / "work", tmp_path / "regressions"
    work.mkdir()
    tally = campaign(
        Target("one", st.integers(0, 10**6), fails), 50, 0, work, time.monotonic() + 60, files
    )
    assert tally.counts["traceback"] >= 1
    assert tally.inputs >= 50
    (path,) = files.glob("one/*.json")
    assert json.loads(path.read_text())["input"] == 101


def test_a_failure_of_a_sibling_is_cut_down_to_a_file(tmp_path: Path) -> None:
    """What Hypothesis never draws: here, a text in which a word is said twice."""

    def fails(value: object, folder: Path) -> Verdict:
        if "wordword" in str(value):
            raise KeyError(value)
        return "accepted"

    work, files = tmp_path / "work", tmp_path / "regressions"
    work.mkdir()
    words = st.integers(0, 9999).map(lambda n: (n, f"a word and {n} more"))
    tally = campaign(Target("one", words, fails), 600, 0, work, time.monotonic() + 60, files)
    assert tally.counts["traceback"] >= 1
    (path,) = files.glob("one/*.json")
    assert json.loads(path.read_text())["input"][1] == "wordword"


@pytest.mark.parametrize(
    "text", ['{"a": [1, "b"], "c": null}', "union(father, mother)", "1 Mary went.\n", ""]
)
def test_siblings_are_other_texts_of_the_same_tokens(text: str) -> None:
    assert "".join(TOKEN.findall(text)) == text
    chance = random.Random(0)
    others = {sibling((0, [text]), chance)[1][0] for _ in range(40)}
    assert len(others) > 5
    assert max(map(len, others)) < 10_000


@pytest.mark.parametrize("name", sorted(MUTATORS))
def test_mutations_in_form_often_get_past_the_parser(name: str, tmp_path: Path) -> None:
    seeds = {
        "expressions": targets_texts.EXPRESSIONS,
        "stories": targets_texts.SEEDS,
        "zest-files": targets_texts.ZEST_SEEDS,
    }[name]
    chance = random.Random(0)
    taken = 0
    for _ in range(100):
        mutated = MUTATORS[name](chance.choice(seeds), chance)
        taken += judge(TARGETS[name], mutated, tmp_path).verdict in ("accepted", "checked")
    assert taken >= 30
