"""Studies: from a table of runs to a finding, with its uncertainty and the paper's number beside it.

`@taskloom.study` registers a function from runs to findings; `taskloom study NAME runs/` applies it to anybody's runs, and
`taskloom reproduce NAME` makes the runs first. Each table and figure of the papers is one; so are our own questions.

What findings are made of is imported when it is first used, so that a list of the studies imports no Arrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from taskloom.studies.study import STUDIES, Study, StudyError, find_study, study

if TYPE_CHECKING:
    from taskloom.studies.findings import Finding as Finding
    from taskloom.studies.findings import StudyFigure as StudyFigure
    from taskloom.studies.judgements import Judgement as Judgement
    from taskloom.studies.judgements import judge_mean as judge_mean
    from taskloom.studies.judgements import judge_number as judge_number
    from taskloom.studies.judgements import judge_share as judge_share
    from taskloom.studies.published_numbers import PublishedNumber as PublishedNumber
    from taskloom.studies.published_numbers import published as published

_HOME = {
    "Finding": "findings",
    "Judgement": "judgements",
    "PublishedNumber": "published_numbers",
    "StudyFigure": "findings",
    "judge_mean": "judgements",
    "judge_number": "judgements",
    "judge_share": "judgements",
    "published": "published_numbers",
}

__all__ = ["STUDIES", "Study", "StudyError", "find_study", "study", *_HOME]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'taskloom.studies' has no attribute '{name}'")
    return getattr(import_module(f"taskloom.studies.{home}"), name)
