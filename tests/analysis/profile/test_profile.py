"""Profiles of models on a panel of two recipes: run, resumed, written, read, compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import taskloom as tl
from taskloom.analysis.profile import profile as profiles
from taskloom.analysis.profile.panel import TaskPanel
from taskloom.analysis.profile.profile import (
    ModelProfile,
    gather,
    profile,
    profiles_in,
    read_model,
    read_profile,
    write_profile,
)
from taskloom.analysis.profile.profile_page import write_page
from taskloom.cli.app import run
from taskloom.core.errors import DataError, ParameterError, TaskloomError
from taskloom.experiments.sources.score_files import open_runs
from taskloom.learners.config import read

SIZES = {"splits": {"train": {"n": 30}, "test": {"n": 40}}}


@pytest.fixture(scope="module")
def panel() -> TaskPanel:
    one = {
        "recipe": "babi/1",
        "set": SIZES,
        "splits": ["test"],
        "ways": ["zero-shot", "few-shot"],
        "shots": 2,
    }
    same = {**one, "set": {**SIZES, "style": {"move": ["went"]}}}
    contrasts = [
        {
            "axis": "paraphrase",
            "name": "verbs",
            "easy": "one:test",
            "hard": "same:test",
            "same": True,
        },
        {
            "axis": "length",
            "name": "sentences",
            "easy": {"recipe": "one", "split": "test", "where": {"sentences": "2"}},
            "hard": {"recipe": "one", "split": "test", "where": {"sentences": "4"}},
        },
    ]
    return TaskPanel.model_validate(
        {"version": 1, "recipes": {"one": one, "same": same}, "contrasts": contrasts}
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "constant"
    read("majority").fit([("Where is Mary?", "kitchen")]).save(folder)
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def result(saved: Path, store: Path, panel: TaskPanel) -> ModelProfile:
    return profile(str(saved), quick=True, store=store, engine="here", panel=panel)


def test_a_saved_learner_answers_inputs_as_they_are(result: ModelProfile, panel: TaskPanel) -> None:
    assert result.name == "constant (majority)"
    assert result.complete
    assert {m.way for m in result.measurements} == {"zero-shot"}
    whole = result.find("one:test", "zero-shot")
    assert whole is not None
    assert len(whole.items) == profiles.QUICK
    assert 0 < whole.chance < 0.4
    assert whole.constant is not None
    parts = [m for m in result.measurements if "sentences" in m.side]
    assert 0 < sum(len(m.items) for m in parts) < len(whole.items)
    verbs = next(c for c in result.contrasts(panel) if c.contrast.name == "verbs")
    assert verbs.consistency == 1.0  # a constant does not mind the verb
    assert verbs.difference.mean == 0


def test_a_profile_that_is_there_is_not_run_again(
    result: ModelProfile, saved: Path, store: Path, panel: TaskPanel
) -> None:
    files = {path: path.stat().st_mtime_ns for path in store.rglob("scores.json")}
    again = profile(str(saved), quick=True, store=store, engine="here", panel=panel)
    assert again == result
    assert {path: path.stat().st_mtime_ns for path in store.rglob("scores.json")} == files


def test_a_learner_that_is_saved_again_is_another_one(saved: Path, tmp_path: Path) -> None:
    before = read_model(str(saved)).settings["content"]
    read("majority").fit([("Where is Mary?", "garden")]).save(tmp_path / "constant")
    assert read_model(str(tmp_path / "constant")).settings["content"] != before


def test_a_profile_is_written_read_and_compared(
    result: ModelProfile, panel: TaskPanel, tmp_path: Path
) -> None:
    assert read_profile(write_profile(result, tmp_path / profiles.PROFILE)) == result
    assert read_profile(tmp_path) == result
    text = write_page(tmp_path / "page.html", [result, result], panel).read_text(encoding="utf-8")
    assert "Profile of constant (majority)" in text
    assert "Paraphrase" in text
    assert "differ on no condition" in text
    assert "//" not in text.replace("http://www.w3.org", "")  # nothing from outside


def test_profiles_of_other_panels_or_sizes_are_not_compared(
    result: ModelProfile, panel: TaskPanel, tmp_path: Path
) -> None:
    from dataclasses import replace

    for other, sentence in (
        (replace(result, version=99), "made with version 99 of the panel"),
        (replace(result, quick=False), "make both alike"),
    ):
        with pytest.raises(DataError, match=sentence):
            write_page(tmp_path / "page.html", [result, other], panel)
    old = replace(result, version=0)
    assert "panel 0" in write_page(tmp_path / "page.html", [old, old], panel).read_text(
        encoding="utf-8"
    )


def spoil(data: dict[str, Any], key: str, value: object) -> dict[str, Any]:
    first, *rest = data["measurements"]
    return {**data, "measurements": [{**first, key: value}, *rest]}


def test_a_damaged_profile_is_refused_in_one_sentence(result: ModelProfile, tmp_path: Path) -> None:
    path = tmp_path / profiles.PROFILE
    whole = json.loads(json.dumps(result.to_dict()))
    damaged: list[Any] = [{}, [], {**whole, "schema": 0}]
    for data in (*damaged, spoil(whole, "way", "shouted"), spoil(whole, "scores", [[1.0]])):
        path.write_text(json.dumps(data))
        with pytest.raises(DataError, match=r"is not a profile|is damaged"):
            read_profile(path)
    with pytest.raises(DataError, match="there is no profile"):
        read_profile(tmp_path / "nothing")


def test_what_is_not_opened_here_has_no_random_twin(saved: Path) -> None:
    with pytest.raises(ParameterError, match="random is for language models"):
        read_model(str(saved), random=True)
    assert read_model("name", endpoint="http://127.0.0.1:1/v1").twin is None
    twin = read_model("smollm2", random=True)
    assert twin == read_model("smollm2").twin
    assert twin.settings["pretrained"] is False


def test_the_command_wants_a_model_or_two_profiles(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["profile"]) == 2
    assert "two profiles" in capsys.readouterr().err
    assert run(["profile", "--compare", str(tmp_path), str(tmp_path)]) == 2
    assert "there is no profile" in capsys.readouterr().err


def test_a_language_model_and_its_random_twin(
    tmp_path: Path, panel: TaskPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    monkeypatch.setattr(profiles, "QUICK", 3)
    from tests.interop.models import tiny_model

    model = str(tiny_model(tmp_path / "tiny"))
    small = panel.model_copy(update={"recipes": {"one": panel.recipes["one"]}, "contrasts": []})
    result = profile(model, quick=True, store=tmp_path / "runs", engine="here", panel=small)
    assert {m.way for m in result.measurements} == {"zero-shot", "few-shot"}
    assert result.name == "tiny"
    twin = read_model(model).twin
    assert twin is not None
    assert gather(twin, tmp_path / "runs", True, small).measurements == ()
    # Few-shot prompts of 30 examples do not fit: the rest is measured, and the reason is kept.
    long = small.recipes["one"].model_copy(update={"shots": 30, "ways": ["few-shot"]})
    both = small.model_copy(update={"recipes": {**small.recipes, "long": long}})
    partial = profile(model, quick=True, store=tmp_path / "runs", engine="here", panel=both)
    assert not partial.complete
    assert "reads at most 2048" in partial.failures[0]
    with pytest.raises(TaskloomError, match="there is no model folder"):
        profile(
            str(tmp_path / "nothing"),
            quick=True,
            store=tmp_path / "runs",
            engine="here",
            panel=small,
        )


@pytest.mark.slow
def test_the_commands_of_the_page_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole panel on a tiny model: what does not fit its context is listed, the rest is
    measured.
    """
    pytest.importorskip("transformers")
    from tests.interop.models import tiny_model

    model, store = str(tiny_model(tmp_path / "tiny")), str(tmp_path / "runs")
    for more in ([], ["--random"]):
        assert (
            run(
                [
                    "profile",
                    model,
                    "--quick",
                    "--store",
                    store,
                    "-o",
                    str(tmp_path / f"p{len(more)}"),
                    *more,
                ]
            )
            == 0
        )
    assert "controls are clean" in capsys.readouterr().out
    assert len(read_profile(tmp_path / "p0").measurements) > 55
    folders = [str(tmp_path / name) for name in ("p0", "p1")]
    assert run(["profile", "--compare", *folders, "-o", str(tmp_path / "both")]) == 0
    assert "Beside tiny, random weights" in (tmp_path / "both" / profiles.PAGE).read_text(
        encoding="utf-8"
    )


def test_profiles_are_findings_of_a_page(result: ModelProfile, panel: TaskPanel) -> None:
    from dataclasses import replace

    from taskloom.analysis.findings_folder import markdown
    from taskloom.analysis.profile.profile_page import profile_findings

    better = [
        replace(m, scores=tuple((1.0,) * len(row) for row in m.scores)) for m in result.measurements
    ]
    oracle = replace(result, name="oracle", measurements=tuple(better))
    findings = profile_findings([oracle, result], panel)
    text = "\n\n".join(markdown(finding) for finding in findings)
    assert "Against constant (majority): of" in text
    assert (
        "| paraphrase | verbs | zero-shot | 1.00" in text
    )  # above guessing, and the same with another verb
    assert "| one:test | zero-shot |" in text
    [figure] = [figure for finding in findings for figure in finding.figures]
    assert {row["side"] for row in figure.data} == {"easy", "hard", "guessing"}


def test_the_study_finds_the_profiles_in_runs(
    result: ModelProfile, store: Path, panel: TaskPanel, saved: Path
) -> None:
    runs = open_runs(store)
    found = profiles_in(runs, panel)
    assert [(one.quick, one.settings["folder"]) for one in found] == [(True, str(saved))]
    assert found[0].measurements == result.measurements
    # Of the packaged panel there is no run.
    with pytest.raises(TaskloomError, match="taskloom profile"):
        tl.analyse("profile", runs)


def test_replies_out_of_form_are_told_from_wrong_ones(
    result: ModelProfile, panel: TaskPanel
) -> None:
    from dataclasses import replace

    from taskloom.analysis.profile.profile_page import sentences

    # A constant is one of the answers of a split; a few stories of one length may lack it.
    whole = [m for m in result.measurements if "sentences" not in m.side]
    assert {m.formed for m in whole} == {1.0}
    result = replace(result, measurements=tuple(whole))
    results = result.contrasts(panel)
    assert not any("in form" in sentence for sentence in sentences(result, results, []))
    loose = replace(result, measurements=tuple(replace(m, formed=0.1) for m in result.measurements))
    assert any("in form" in sentence for sentence in sentences(loose, results, []))
