"""Settings of studies: what is not one, not a choice or out of range gets one sentence, before
anything is run.
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import Field

import taskloom as tl
from taskloom.analysis import STUDIES, Study, StudyError, reproduction
from taskloom.analysis.study import (
    TAKEN,
    CountSetting,
    ShareSetting,
    analyse,
    check_choice,
    check_split,
    kind_of_value,
)
from taskloom.cli import run
from taskloom.core.errors import TaskloomError
from tests.analysis.made_up_scores import group, made_up

if TYPE_CHECKING:
    from taskloom.experiments.table import Runs


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (int, "a whole number"),
        (int | None, "a whole number or nothing"),
        (Literal["official", "corrected"], "'official' or 'corrected'"),
        (ShareSetting, "a number from 0 to 1"),
        (CountSetting, "a whole number of at least 1"),
        (Annotated[float, Field(gt=0)], "a number above 0"),
        (Annotated[float, Field(lt=1)], "a number below 1"),
        (Annotated[float, Field(le=1)], "a number of at most 1"),
        (list[int], "list[int]"),
        (Any, "any value"),
    ],
)
def test_an_error_says_what_a_setting_may_be(kind: object, words: str) -> None:
    assert kind_of_value(kind) == words


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (
            ["study", "zest/table3", "nowhere", "--set", "mod=official"],
            "'zest/table3' has no setting 'mod'; it has mode",
        ),
        (
            ["reproduce", "ctlpp/figure1", "--set", "seed=1"],
            "'ctlpp/figure1' has no setting 'seed'; it has none",
        ),
        (
            ["reproduce", "ctlpp/figure1", "--set", "scale=full"],
            "'ctlpp/figure1' has no setting 'scale'; it has none",
        ),
        (
            ["study", "zest/table3", "nowhere", "--set", "mode=x"],
            "'mode' of the study 'zest/table3' must be 'official' or 'corrected', not 'x'",
        ),
        (
            ["reproduce", "dyna-babi/figure3", "--dry-run", "--set", "fewest=0"],
            (
                "'fewest' of the study 'dyna-babi/figure3' must be a whole number of at least 1,"
                " not '0'"
            ),
        ),
        (
            ["reproduce", "dyna-babi/figure3", "--set", "data=divers"],
            "must be 'concat', 'inject' or 'diverse', not 'divers'",
        ),
        (
            ["study", "runs/learning-steps", "nowhere", "--set", "threshold=95"],
            "must be a number from 0 to 1, not '95'",
        ),
        (
            ["study", "runs/learning-steps", "nowhere", "--set", "threshold="],
            "must be a number from 0 to 1, not nothing",
        ),
        (
            ["study", "runs/learning-steps", "nowhere.json", "--set", "split="],
            "there is no file nowhere.json",
        ),
        (["study", "ctlpp/figure1", "--where", "seed=0"], "--where is not for 'ctlpp/figure1'"),
        (
            ["study", "dyna-babi/table2", "--set", "examples=-1"],
            "must be a whole number of at least 0, not '-1'",
        ),
    ],
)
def test_wrong_settings_are_refused_before_runs_are_opened_or_made(
    command: list[str],
    problem: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(command) == 2
    assert problem in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_setting_is_checked_although_another_annotation_is_for_type_checkers_only() -> None:
    @tl.study("mine/typed", describe="Nothing")
    def typed(runs: Runs, *, most: int = 3, free=1) -> tl.Finding:  # type: ignore[no-untyped-def]
        return tl.Finding(f"{most} {free}")

    study = STUDIES.get("mine/typed")
    assert study.checked({"most": "4", "free": "any"}) == {"most": 4, "free": "any"}
    with pytest.raises(
        StudyError, match="'most' of the study 'mine/typed' must be a whole number, not 'x'"
    ):
        study.checked({"most": "x"})
    STUDIES.forget(__name__)


class Reading:
    """What pydantic knows nothing of."""


@dataclass
class Limits:
    low: int = 0


def test_settings_of_any_annotation_are_read_or_refused_in_one_sentence() -> None:
    @tl.study("mine/odd", describe="Nothing")
    def odd(
        runs: object, *, reading: Reading | None = None, limits: Limits | None = None, most: int = 1
    ) -> tl.Finding:
        return tl.Finding(f"{reading} {limits} {most}")

    odd.__annotations__["most"] = "list["  # as a typing mistake leaves it
    study = STUDIES.get("mine/odd")
    assert study.checked({"limits": {"low": "2"}, "most": "any"}) == {
        "limits": Limits(2),
        "most": "any",
    }
    assert study.checked({"reading": None}) == {"reading": None}
    with pytest.raises(
        StudyError,
        match=r"'reading' of the study 'mine/odd' must be .*Reading.* or nothing, not '3'",
    ):
        study.checked({"reading": 3})
    STUDIES.forget(__name__)


def test_a_setting_with_the_name_of_a_parameter_of_reproduce_is_refused() -> None:
    functions: tuple[Any, ...] = (reproduction.reproduce, analyse, Study.__call__)
    assert {*TAKEN, "settings"} == {
        name for function in functions for name in signature(function).parameters
    }
    with pytest.raises(
        StudyError,
        match=r"'mine/clash' has the setting 'model', which .* names otherwise; rename it",
    ):

        @tl.study("mine/clash", describe="Nothing")
        def clashing(runs: object, *, model: str = "") -> tl.Finding:
            return tl.Finding(model)


def test_a_setting_without_a_default_is_refused_when_the_study_is_registered() -> None:
    with pytest.raises(StudyError, match="'mine/bare' has the setting 'trait' without a default"):

        @tl.study("mine/bare", describe="Nothing")
        def bare(runs: object, *, trait: str) -> tl.Finding:
            return tl.Finding(trait)


def test_a_choice_that_the_runs_do_not_have_is_refused_with_those_that_they_have(
    tmp_path: Path,
) -> None:
    runs = made_up(tmp_path, group("ctl/A", "bilstm", {"iid": [1.0], "ood": [0.5]}))
    check_split(runs, "")
    check_split(runs, "ood")
    with pytest.raises(
        StudyError,
        match=r"^the setting 'split' must be 'iid' or 'ood' for .*scores.json, not 'odo'$",
    ):
        check_split(runs, "odo")
    check_choice(runs, "learner", "bilstm", ["bilstm", "ndr"])
    with pytest.raises(TaskloomError, match=r"'learner' must be 'bilstm' for .*, not 'nope'"):
        check_choice(runs, "learner", "nope", ["bilstm"])
    with pytest.raises(TaskloomError, match=r"'learner' is 'nope', and .* has none to choose from"):
        check_choice(runs, "learner", "nope", [])
    many = [f"trait{i:02}" for i in range(40)]
    with pytest.raises(
        TaskloomError, match=r"'trait' is 'trait5', which .* does not have; did you mean"
    ):
        check_choice(runs, "trait", "trait5", many)


def test_every_setting_of_every_study_of_ours_says_what_it_is() -> None:
    silent = [
        (name, row[0])
        for name in STUDIES.names()
        for row in STUDIES.get(name).setting_rows()
        if not row[3]
    ]
    assert not [
        one for one in silent if STUDIES.get(one[0]).analyse.__module__.startswith("taskloom.")
    ]
