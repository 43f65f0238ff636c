"""A paper of another package: studies, published numbers, presets and experiments, by one entry
point.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from taskloom.analysis.published_numbers import paper_names, published
from taskloom.analysis.study import STUDIES
from taskloom.cli import run
from taskloom.core import registry
from taskloom.core.errors import TaskloomError
from taskloom.experiments.spec.experiment import packaged
from taskloom.learners import config
from tests.analysis.made_up_scores import group, made_up, spread

STUDY = """import taskloom as tl

TABLE = tl.PaperTable(
    name="rows", title="Their table", text="", group_by={"model": "learner", "split": "split"},
    paper="their-paper", place="Table 2",
)


@tl.study("their-paper/table2", describe="Their table", place="Their paper, Table 2")
def table2(runs: tl.Runs) -> tl.Finding:
    return TABLE.finding(TABLE.cells(runs))
"""

PUBLISHED = """paper: Their paper
places:
  - {study: their-paper/table2, place: Table 2, shows: accuracy, needs: any runs}
numbers:
  - {place: Table 2, of: {model: bilstm, split: iid}, value: 0.13, sd: 0.01, n: 25}
"""

PRESETS = """[their-settings]
describe = "Their settings"

[their-settings.bilstm]
state = 24
"""


@pytest.fixture
def their_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a paper in another package, which an entry point names."""
    folder = tmp_path / "their_paper"
    (folder / "examples").mkdir(parents=True)
    (folder / "__init__.py").write_text(STUDY)
    (folder / "published.yaml").write_text(PUBLISHED)
    (folder / "presets.toml").write_text(PRESETS)
    (folder / "examples" / "their-small.yaml").write_text(
        "recipes: [ctl/A]\nlearners: [majority]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_loaded", None)
    point = EntryPoint("papers", "their_paper", "taskloom")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    yield folder
    sys.modules.pop("their_paper", None)
    for known in registry.Registry.every:
        known.forget("their_paper")


def test_an_outside_paper_brings_its_numbers_presets_and_experiments(
    their_paper: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "their-paper" in paper_names()
    assert [n.value for n in published("their-paper", "Table 2", model="bilstm")] == [0.13]
    assert config.PRESETS.get("their-settings").settings == {"bilstm": {"state": 24}}
    assert packaged()["their-small"] == their_paper / "examples" / "their-small.yaml"
    assert run(["reproduce", "their-paper", "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert (row["study"], row["exists"]) == ("their-paper/table2", True)


def test_its_table_judges_runs_against_its_numbers(their_paper: Path) -> None:
    runs = made_up(their_paper, group("ctl/A", "bilstm", {"iid": spread(0.13, 0.01, 10)}))
    [finding] = STUDIES.get("their-paper/table2")(runs)
    [judgement] = finding.judgements
    assert judgement.ours == pytest.approx(0.13)
    assert (judgement.published, judgement.verdict) == (0.13, "agrees")


def test_two_packages_with_one_paper_are_an_error(
    their_paper: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = registry.paper_folders()
    twice = {**folders, "elsewhere.their_paper": folders["their_paper"]}
    monkeypatch.setattr("taskloom.analysis.published_numbers.paper_folders", lambda: twice)
    with pytest.raises(TaskloomError, match="their-paper"):
        paper_names()
