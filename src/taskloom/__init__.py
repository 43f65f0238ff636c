"""Taskloom weaves controlled language tasks, teaches them to models, and shows what was learned.

The public API. Names are resolved when they are first used, so that importing the package costs next to nothing and
pulls in neither Arrow nor torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from taskloom.audits import audit as audit
    from taskloom.cli.task_output import show as show
    from taskloom.dataset import Dataset as Dataset
    from taskloom.dataset import load as load
    from taskloom.dataset.competence import score as score
    from taskloom.dataset.make import make as make
    from taskloom.dataset.verify import verify as verify
    from taskloom.errors import TaskloomError as TaskloomError
    from taskloom.example import Answer as Answer
    from taskloom.example import Example as Example
    from taskloom.example import Step as Step
    from taskloom.experiments import statistics as statistics
    from taskloom.experiments.api import run as run
    from taskloom.experiments.result_table import ResultTable as ResultTable
    from taskloom.experiments.runs import Runs as Runs
    from taskloom.learners import CallablePackage
    from taskloom.learners.decorator import learner as learner
    from taskloom.offers import Export as Export
    from taskloom.offers import Option as Option
    from taskloom.offers import View as View
    from taskloom.plan import Plan as Plan
    from taskloom.plan import Split as Split
    from taskloom.plan import role_of as role_of
    from taskloom.profiles.profile import profile as profile
    from taskloom.recipe import Recipe as Recipe
    from taskloom.recipe import fields as fields
    from taskloom.recipe.apply import apply as apply
    from taskloom.registry import Suite as Suite
    from taskloom.registry import suite as suite
    from taskloom.reports.run_report import report as report
    from taskloom.resources import Resource as Resource
    from taskloom.scoring import Scorer as Scorer
    from taskloom.scoring import any_of as any_of
    from taskloom.scoring import exact as exact
    from taskloom.scoring import number_words as number_words
    from taskloom.scoring import per_position as per_position
    from taskloom.scoring import scorer as scorer
    from taskloom.scoring import set_of as set_of
    from taskloom.seeding import Key as Key
    from taskloom.seeding import Random as Random
    from taskloom.studies import figures as figures
    from taskloom.studies.any_runs import runs as runs
    from taskloom.studies.findings import Finding as Finding
    from taskloom.studies.findings import StudyFigure as StudyFigure
    from taskloom.studies.reproduction import reproduce as reproduce
    from taskloom.studies.study import study as study
    from taskloom.task_splits import owners as owners
    from taskloom.tasks import knob as knob
    from taskloom.tasks import task as task
    from taskloom.verbs import analyse as analyse
    from taskloom.verbs import compare as compare
    from taskloom.verbs import export as export
    from taskloom.verbs import power as power
    from taskloom.verbs import read as read
    from taskloom.verbs import recipes as recipes
    from taskloom.verbs import rescore as rescore
    from taskloom.verbs import solve as solve

    learners: CallablePackage

_HOME = {
    "apply": "recipe.apply",
    "audit": "audits",
    "show": "cli.task_output",
    "Dataset": "dataset",
    "load": "dataset",
    "score": "dataset.competence",
    "make": "dataset.make",
    "verify": "dataset.verify",
    "TaskloomError": "errors",
    "Answer": "example",
    "Example": "example",
    "Step": "example",
    "Export": "offers",
    "Option": "offers",
    "View": "offers",
    "Plan": "plan",
    "Split": "plan",
    "role_of": "plan",
    "Recipe": "recipe",
    "run": "experiments.api",
    "runs": "studies.any_runs",
    "report": "reports.run_report",
    "learner": "learners.decorator",
    "Suite": "registry",
    "suite": "registry",
    "Resource": "resources",
    "Scorer": "scoring",
    "any_of": "scoring",
    "exact": "scoring",
    "number_words": "scoring",
    "per_position": "scoring",
    "scorer": "scoring",
    "set_of": "scoring",
    "Key": "seeding",
    "Random": "seeding",
    "Finding": "studies.findings",
    "StudyFigure": "studies.findings",
    "reproduce": "studies.reproduction",
    "study": "studies.study",
    "knob": "tasks",
    "task": "tasks",
    "profile": "profiles.profile",
    "ResultTable": "experiments.result_table",
    "Runs": "experiments.runs",
    "owners": "task_splits",
    "analyse": "verbs",
    "compare": "verbs",
    "export": "verbs",
    "power": "verbs",
    "read": "verbs",
    "recipes": "verbs",
    "rescore": "verbs",
    "solve": "verbs",
}
"""The module of each name."""

_NAMESPACES = {
    "fields": "recipe.fields",
    "figures": "studies.figures",
    "learners": "learners",
    "statistics": "experiments.statistics",
}
"""Modules that are public as a whole."""

__all__ = ["__version__", *_HOME, *_NAMESPACES]


def __getattr__(name: str) -> Any:
    if name in _NAMESPACES:
        return import_module(f"taskloom.{_NAMESPACES[name]}")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'taskloom' has no attribute '{name}'")
    return getattr(import_module(f"taskloom.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
