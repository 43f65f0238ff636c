"""Studies: from a table of runs to a finding with its uncertainty, next to the paper's number.

`@taskloom.study` registers a function from runs to findings. `taskloom study NAME runs/` applies it
to any runs, and `taskloom reproduce NAME` makes the runs first. Each table and figure of the papers
is a study, and so are our own questions.

The classes of findings are imported on first use, so that listing the studies does not import
Arrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from taskloom.analysis.study import STUDIES, Study, StudyError, find_study, study

if TYPE_CHECKING:
    from taskloom.analysis.finding import Finding as Finding
    from taskloom.analysis.finding import StudyFigure as StudyFigure
    from taskloom.analysis.published_numbers import PublishedNumber as PublishedNumber
    from taskloom.analysis.published_numbers import published as published
    from taskloom.analysis.verdict import Judgement as Judgement
    from taskloom.analysis.verdict import judge_mean as judge_mean
    from taskloom.analysis.verdict import judge_number as judge_number
    from taskloom.analysis.verdict import judge_share as judge_share

_HOME = {
    "Finding": "finding",
    "Judgement": "verdict",
    "PublishedNumber": "published_numbers",
    "StudyFigure": "finding",
    "judge_mean": "verdict",
    "judge_number": "verdict",
    "judge_share": "verdict",
    "published": "published_numbers",
}

__all__ = ["STUDIES", "Study", "StudyError", "find_study", "study", *_HOME]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'taskloom.analysis' has no attribute '{name}'")
    return getattr(import_module(f"taskloom.analysis.{home}"), name)
