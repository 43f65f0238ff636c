"""The public API of Taskloom: make controlled language tasks, train or query models on them, and
measure what was learned.

Names are resolved when they are first used, so that importing the package costs next to nothing and
imports neither Arrow nor torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from taskloom.analysis import figures as figures
    from taskloom.analysis.finding import Finding as Finding
    from taskloom.analysis.finding import StudyFigure as StudyFigure
    from taskloom.analysis.paper_table import PaperTable as PaperTable
    from taskloom.analysis.probing.falsify import falsify as falsify
    from taskloom.analysis.probing.falsify import replay as replay
    from taskloom.analysis.probing.frontier import frontier as frontier
    from taskloom.analysis.profile.profile import profile as profile
    from taskloom.analysis.published_numbers import PublishedNumber as PublishedNumber
    from taskloom.analysis.report.run_report import report as report
    from taskloom.analysis.reproduction import reproduce as reproduce
    from taskloom.analysis.study import study as study
    from taskloom.core.errors import TaskloomError as TaskloomError
    from taskloom.core.example import Answer as Answer
    from taskloom.core.example import Example as Example
    from taskloom.core.example import Step as Step
    from taskloom.core.offers import Export as Export
    from taskloom.core.offers import Option as Option
    from taskloom.core.offers import View as View
    from taskloom.core.plan import Plan as Plan
    from taskloom.core.plan import Split as Split
    from taskloom.core.plan import Variant as Variant
    from taskloom.core.plan import role_of as role_of
    from taskloom.core.registry import Suite as Suite
    from taskloom.core.registry import suite as suite
    from taskloom.core.resources import Resource as Resource
    from taskloom.core.scoring import Scorer as Scorer
    from taskloom.core.scoring import any_of as any_of
    from taskloom.core.scoring import exact as exact
    from taskloom.core.scoring import number_words as number_words
    from taskloom.core.scoring import per_position as per_position
    from taskloom.core.scoring import scorer as scorer
    from taskloom.core.scoring import set_of as set_of
    from taskloom.core.seeding import Key as Key
    from taskloom.core.seeding import Random as Random
    from taskloom.data import Dataset as Dataset
    from taskloom.data import load as load
    from taskloom.data.audit import audit as audit
    from taskloom.data.competence import score as score
    from taskloom.data.make import make as make
    from taskloom.data.stream import stream as stream
    from taskloom.data.verify import verify as verify
    from taskloom.display import show as show
    from taskloom.experiments import statistics as statistics
    from taskloom.experiments.api import run as run
    from taskloom.experiments.rescore import verify_runs as verify_runs
    from taskloom.experiments.result_table import ResultTable as ResultTable
    from taskloom.experiments.sources import runs as runs
    from taskloom.experiments.table import Runs as Runs
    from taskloom.learners import CallablePackage
    from taskloom.learners.scratch.module_learner import learner as learner
    from taskloom.recipe import Recipe as Recipe
    from taskloom.recipe import fields as fields
    from taskloom.recipe.splits import owners as owners
    from taskloom.recipe.tasks import knob as knob
    from taskloom.recipe.tasks import task as task
    from taskloom.verbs import analyse as analyse
    from taskloom.verbs import apply as apply
    from taskloom.verbs import compare as compare
    from taskloom.verbs import export as export
    from taskloom.verbs import power as power
    from taskloom.verbs import read as read
    from taskloom.verbs import recipes as recipes
    from taskloom.verbs import rescore as rescore
    from taskloom.verbs import solve as solve
    from taskloom.verbs import variants as variants

    learners: CallablePackage

_HOME = {
    "audit": "data.audit",
    "show": "display",
    "Dataset": "data",
    "load": "data",
    "score": "data.competence",
    "make": "data.make",
    "stream": "data.stream",
    "verify": "data.verify",
    "TaskloomError": "core.errors",
    "Answer": "core.example",
    "Example": "core.example",
    "Step": "core.example",
    "Export": "core.offers",
    "Option": "core.offers",
    "View": "core.offers",
    "Plan": "core.plan",
    "Split": "core.plan",
    "role_of": "core.plan",
    "Recipe": "recipe",
    "run": "experiments.api",
    "runs": "experiments.sources",
    "verify_runs": "experiments.rescore",
    "report": "analysis.report.run_report",
    "plot": "analysis.report.run_report",
    "learner": "learners.scratch.module_learner",
    "Suite": "core.registry",
    "suite": "core.registry",
    "Resource": "core.resources",
    "Scorer": "core.scoring",
    "any_of": "core.scoring",
    "exact": "core.scoring",
    "number_words": "core.scoring",
    "per_position": "core.scoring",
    "scorer": "core.scoring",
    "set_of": "core.scoring",
    "Key": "core.seeding",
    "Random": "core.seeding",
    "Variant": "core.plan",
    "Finding": "analysis.finding",
    "StudyFigure": "analysis.finding",
    "PaperTable": "analysis.paper_table",
    "PublishedNumber": "analysis.published_numbers",
    "reproduce": "analysis.reproduction",
    "study": "analysis.study",
    "knob": "recipe.tasks",
    "task": "recipe.tasks",
    "profile": "analysis.profile.profile",
    "falsify": "analysis.probing.falsify",
    "replay": "analysis.probing.falsify",
    "frontier": "analysis.probing.frontier",
    "ResultTable": "experiments.result_table",
    "Runs": "experiments.table",
    "owners": "recipe.splits",
    "analyse": "verbs",
    "apply": "verbs",
    "compare": "verbs",
    "export": "verbs",
    "power": "verbs",
    "read": "verbs",
    "recipes": "verbs",
    "rescore": "verbs",
    "solve": "verbs",
    "variants": "verbs",
}
"""The module of each name."""

_NAMESPACES = {
    "fields": "recipe.fields",
    "figures": "analysis.figures",
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
