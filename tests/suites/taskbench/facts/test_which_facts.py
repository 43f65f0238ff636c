"""Which facts a recipe stands on: a rule that no machine changes, stated in the list, the card and
the manifest.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from taskloom.cli import run
from taskloom.core.registry import SUITES
from taskloom.recipe import read


def test_the_paper_s_recipe_takes_the_real_graph_on_every_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert read("taskbench/500").to_dict()["facts"] == "wikidata"
    assert read("taskbench/500-synthetic").to_dict()["facts"] == "synthetic"
    here = read("taskbench/500").digest
    monkeypatch.delenv("TASKLOOM_DATA", raising=False)
    assert read("taskbench/500").digest == here


def test_the_list_says_which_facts() -> None:
    for name in SUITES.get("taskbench").recipe_files():
        recipe = read(name)
        if name not in ("taskbench/english", "taskbench/words"):
            stated = (
                "Wikidata subset" if recipe.to_dict()["facts"] == "wikidata" else "invented facts"
            )
            assert stated in recipe.describe, name


def test_without_the_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TASKLOOM_DATA", str(tmp_path))
    changes = ["--set", "functions=[father]", "--set", "catalog=null"]
    assert run(["make", "taskbench/500", "-o", str(tmp_path / "out"), *changes]) == 2
    assert "the facts are missing: facts=wikidata uses the file" in capsys.readouterr().err


def test_the_manifest_and_verify(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"
    changes = [
        "--set",
        "functions=[head_of_state.inv]",
        "--set",
        "catalog=null",
        "--set",
        "minimum=50",
    ]
    assert run(["make", "taskbench/500", "-o", str(folder), *changes]) == 0
    sources = json.loads((folder / "manifest.json").read_text())["sources"]
    assert set(sources) == {"wikidata-subset.nt.gz"}
    assert (
        f"- wikidata-subset.nt.gz, digest `{sources['wikidata-subset.nt.gz']}`"
        in (folder / "README.md").read_text()
    )
    assert run(["verify", str(folder)]) == 0
    monkeypatch.setenv("TASKLOOM_DATA", str(tmp_path))
    capsys.readouterr()
    assert run(["verify", str(folder)]) == 2
    message = capsys.readouterr().err
    assert (
        "its bytes are those of the manifest, but its answers cannot be derived again: the facts"
        " are missing" in message
    )
