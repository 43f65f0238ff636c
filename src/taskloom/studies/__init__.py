"""Studies: from a table of runs to a finding, with its uncertainty and the paper's number beside it.

`@taskloom.study` registers a function from runs to findings; `taskloom study NAME runs/` applies it to anybody's runs, and
`taskloom reproduce NAME` makes the runs first. Each table and figure of the papers is one; so are our own questions.
"""

from taskloom.studies.findings import Finding, StudyFigure
from taskloom.studies.judgements import Judgement, judge_mean, judge_number, judge_share
from taskloom.studies.published_numbers import PublishedNumber, published
from taskloom.studies.study import STUDIES, Study, StudyError, find_study, study

__all__ = [
    "STUDIES",
    "Finding",
    "Judgement",
    "PublishedNumber",
    "Study",
    "StudyError",
    "StudyFigure",
    "find_study",
    "judge_mean",
    "judge_number",
    "judge_share",
    "published",
    "study",
]
