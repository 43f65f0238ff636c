"""Functions of the public API that combine several packages. The commands of the same names call
them.

They are here because the packages they combine must not import each other: a file may be a recipe
or an experiment, runs may be a folder or a table, and a dataset may be exported to a suite's format
or to another tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from taskloom.core.errors import InputError, ParameterError, TaskloomError, echo
from taskloom.core.extraction import EXTRACT
from taskloom.core.files import path_of

if TYPE_CHECKING:
    from taskloom.analysis.finding import Finding
    from taskloom.core.example import Answer, Example
    from taskloom.core.offers import SolveReport
    from taskloom.core.plan import Variant, VariantKind
    from taskloom.experiments.compare import Selection
    from taskloom.experiments.rescore import Change
    from taskloom.experiments.result_table import ResultTable
    from taskloom.experiments.spec.experiment import Experiment
    from taskloom.experiments.table import Runs
    from taskloom.recipe import Recipe
    from taskloom.recipe.overrides import Changes
    from taskloom.recipe.recipe import Source
    from taskloom.recipe.tasks import Task

EXPERIMENT_KEYS = frozenset({"recipes", "learners"})
"""Keys of an experiment's file that a recipe never has."""

TOOLS = ("hf", "inspect", "lm-eval", "verifiers", "verl", "openrlhf", "nemo-gym")
"""Formats of `export` for other tools. They hold a whole dataset."""


def recipes() -> dict[str, str]:
    """Names of all recipes with their descriptions, as in `taskloom list recipes`."""
    from taskloom.recipe.recipe import descriptions

    return dict(descriptions())


@overload
def read(source: Mapping[str, Any] | Task, changes: Changes = None) -> Recipe: ...


@overload
def read(source: str | PathLike[str], changes: Changes = None) -> Recipe | Experiment: ...


def read(
    source: str | PathLike[str] | Mapping[str, Any] | Task, changes: Changes = None
) -> Recipe | Experiment:
    """Read and check a recipe or an experiment. The first mistake raises an error with file, line
    and key.

    Args:
        source: A recipe in any form that `make` takes, or the YAML file of a recipe or an
            experiment.
        changes: Changes of a recipe's fields, as `make` takes them.
    """
    from taskloom.recipe import read as read_recipe
    from taskloom.recipe.recipe import is_yaml

    if (
        not isinstance(source, str | PathLike)
        or not is_yaml(str(source))
        or not _is_experiment(path_of(source))
    ):
        return read_recipe(source, changes)
    if changes:
        raise ParameterError("changes", f"are for a recipe; {source} is an experiment")
    from taskloom.experiments.spec.experiment import read as read_experiment

    return read_experiment(Path(source))


def _is_experiment(path: Path) -> bool:
    """True if a YAML file has the keys of an experiment. Unreadable files are left to the reader of
    recipes, which reports them.
    """
    from taskloom.core.errors import DataError
    from taskloom.recipe.yaml_files import load

    if not path.is_file():
        return False
    try:
        content = load(path, DataError)
    except DataError:
        return False
    return isinstance(content, dict) and not EXPERIMENT_KEYS.isdisjoint(content)


def answerer(name: Source | Task, changes: Changes = None) -> Callable[[str], Answer]:
    """Return a task's function, which maps the text of an input to its answer."""
    from taskloom.recipe import read as read_recipe

    recipe = read_recipe(name, changes)
    if recipe.suite.function is not None:
        answer = recipe.suite.function(recipe.fields)
        if recipe.described is None:
            return answer
        from taskloom.core.descriptions import undescribed

        return lambda text: answer(undescribed(text))
    function = recipe.plan().answer
    if function is None:
        raise InputError(
            f"{recipe.name} is not a function of one input, so it cannot be applied; 'taskloom show"
            f" {recipe.name}' prints examples"
        )
    return function


@overload
def apply(  # type: ignore[overload-overlap]
    name: Source | Task, text: str, *, changes: Changes = None, set: Changes = None
) -> Answer: ...


@overload
def apply(
    name: Source | Task, text: Sequence[str], *, changes: Changes = None, set: Changes = None
) -> list[Answer]: ...


def apply(
    name: Source | Task, text: str | Sequence[str], *, changes: Changes = None, set: Changes = None
) -> Answer | list[Answer]:
    """Return the answer to one input, with its derivation, or the answers to a list of inputs.

    >>> import taskloom as tl
    >>> [step.rule for step in tl.apply("ctl/A", "c b a 3").derivation]
    ['a', 'b', 'c']
    >>> [answer.targets for answer in tl.apply("ctl/A", ["c b a 3", "b a 3"])]
    [('7',), ('1',)]
    """
    from taskloom.recipe.overrides import given_changes

    answer = answerer(name, given_changes(changes, set))
    if isinstance(text, str):
        return answer(text)
    inputs = list(text) if isinstance(text, Iterable) else [text]
    for place, one in enumerate(inputs):
        if not isinstance(one, str):
            raise InputError(f"input {place} is {echo(one)}; an input is a text")
    return [answer(one) for one in inputs]


def variants(
    recipe: Source | Recipe | Task,
    example: Example,
    kind: VariantKind | None = None,
    *,
    seed: int | None = None,
    changes: Changes = None,
) -> list[Variant]:
    """Variants of an example that differ from it in one thing, with derived and proved answers.

    >>> import taskloom as tl
    >>> tl.variants("ctl/A", tl.Example("b a 3", "1"), "simpler")[0].example.input
    'b 3'

    Args:
        recipe: Recipe of the example, in any form that `make` takes.
        example: An example of the recipe. Only its input and targets matter.
        kind: Restrict to `simpler`, `flip` or `keep`. Default: all.
        seed: The seed of the example's dataset, for worlds that depend on it.
        changes: Changes of the recipe's fields.
    """
    from taskloom.core.plan import KINDS
    from taskloom.recipe import Recipe
    from taskloom.recipe import read as read_recipe

    if kind is not None and kind not in KINDS:
        raise ParameterError("kind", f"is one of {', '.join(KINDS)}, not {echo(kind)}")
    checked = recipe if isinstance(recipe, Recipe) else read_recipe(recipe, changes)
    plan = checked.plan(seed)
    if plan.variants is None:
        raise TaskloomError(f"{checked.name} has no variants of its examples")
    return [v for v in plan.variants(example) if kind is None or v.kind == kind]


def compare(
    runs: str | Path | Runs,
    a: Selection,
    b: Selection,
    split: str | Sequence[str] | None = None,
    *,
    by: str | Sequence[str] = (),
    where: str | Sequence[str] = (),
    over: str = "items",
    test: str = "auto",
    correction: str = "holm",
    level: float = 0.95,
) -> ResultTable:
    """Compare two groups of runs by paired tests on the same examples, or on the same tasks.

    Args:
        runs: A folder of runs, anything else that `tl.runs` opens, or runs that are already open.
        a: First group: a learner, a recipe, or columns (`learner=bilstm and seed=0`).
        b: Second group.
        split: Only these splits.
        by: Group by a column, a trait of the examples, or `task`.
        where: Only runs that match all these rules, such as `seed=0` or `iid > 0.5`.
        over: `items` pairs the same examples; `tasks` compares means of tasks.
        test: `auto`, `two-way`, `mcnemar`, `bootstrap`, `sign-flip` or `welch`.
        correction: `holm`, `benjamini-hochberg`, `bonferroni` or `none`.
        level: Confidence level of the intervals.
    """
    from taskloom.experiments.sources import runs as open_runs
    from taskloom.experiments.table import Runs

    opened = runs if isinstance(runs, Runs) else open_runs(runs)
    rules = [where] if isinstance(where, str) else where
    return opened.where(*rules).compare(a, b, split, by, test, correction, level, over)


def analyse(study: str, runs: str | Path | Runs | None = None, **settings: Any) -> list[Finding]:
    """Apply a study to runs and return its findings, as `taskloom study` does.

    Args:
        study: Name of the study (see `taskloom list studies`), or `FILE.py::NAME`.
        runs: A folder of runs, a file of scores, or runs. Not needed for studies of recipes.
        **settings: Settings of the study.
    """
    from taskloom.analysis.study import analyse as apply_study

    _, _, findings = apply_study(study, runs, **settings)
    return findings


def power(
    gap: float,
    accuracy: float,
    *,
    seeds: int | None = None,
    examples: int | None = None,
    seed_sd: float = 0.0,
    paired_correlation: float = 0.0,
    seed_correlation: float | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
) -> ResultTable:
    """Compute how many examples and seeds are needed to detect a gap between two learners.

    Args:
        gap: Difference in accuracy to detect.
        accuracy: The accuracy of one learner; the other's is accuracy + gap.
        seeds: Seeds per learner. Default: several numbers are tried.
        examples: Examples that each run answers. If both are given, the result has their power and
            the smallest gap that they detect.
        seed_sd: Standard deviation of accuracy across seeds.
        paired_correlation: Correlation between the learners' answers to the same item; 0 if they
            answer different items.
        seed_correlation: Correlation between two seeds' answers to the same item. Default: (1 +
            paired_correlation) / 2.
        alpha: Significance level.
        power: Probability of detecting the gap.
    """
    from taskloom.experiments.result_table import ResultTable
    from taskloom.experiments.statistics.power import PowerQuestion, plan

    question = PowerQuestion(
        gap, accuracy, seed_sd, paired_correlation, seed_correlation, alpha, power
    )
    rows = plan(question, examples, seeds)
    return ResultTable(tuple(rows[0]), rows)


def rescore(
    store: str | Path, scorer: str = "own", *, extract: str = "", out: str | Path | None = None
) -> list[Change]:
    """Score the stored predictions of runs, or the replies in logs, again. No model is called. Runs
    keep their old scores next to the new ones; logs are not changed.

    Args:
        store: The folder of the runs; or a log of Inspect (`.eval`) or lm-evaluation-harness
            (`samples_*.jsonl`), or a folder of logs.
        scorer: Name of a scorer, or `own` for the scorer of each run's recipe in the installed
            suite.
        extract: For logs: how answers are extracted from replies. Default: `final`.
        out: For logs: a new folder for the items with their new scores, which `runs` reads.
    """
    from taskloom.experiments.files import STORE
    from taskloom.experiments.rescore import OWN, rescore_logs
    from taskloom.experiments.rescore import rescore as score_again
    from taskloom.experiments.sources.eval_logs import find_logs

    path = path_of(store)
    if find_logs(path) and not (path / STORE).is_file():
        if scorer == OWN:
            raise ParameterError("scorer", "is needed for logs, such as 'any-of'")
        return rescore_logs(path, scorer, extract or EXTRACT, None if out is None else path_of(out))
    if extract or out is not None:
        raise ParameterError(
            "extract" if extract else "out",
            "is for logs of other tools; runs keep whole replies, so change 'extract' in the "
            "experiment and rerun it; cached replies are reused",
        )
    return score_again(store, scorer)


def solve(file: str | Path, suite: str = "", **options: str) -> SolveReport:
    """Answer every question of a file, with supporting facts, and report which of the file's own
    answers are wrong or undetermined.

    Args:
        file: A file of questions; `-` is standard input.
        suite: The suite whose solver is used, if several have one.
        **options: Options of that solver. `taskloom solve --help` lists them.
    """
    from taskloom.core.registry import suite_that

    solver = suite_that("solve", suite)
    assert solver.solve is not None
    return solver.solve(str(file), **options)


@dataclass(frozen=True, slots=True)
class Exported:
    """Result of an export.

    Attributes:
        path: The file or folder.
        format: Its format.
        text: One readable line: its contents, or how to open it.
        details: Numbers and names that depend on the format.
    """

    path: Path
    format: str
    text: str
    details: Mapping[str, Any]


def export(
    data: str | Path,
    format: str,
    out: str | Path,
    *,
    split: str | None = None,
    extract: str = EXTRACT,
    variants: str = "both",
    task: str | Path | None = None,
    licence: str | None = None,
    authors: Sequence[str] = (),
) -> Exported:
    """Write a dataset for another tool, or one of its splits in a format of its suite.

    Args:
        data: The dataset's folder.
        format: `hf`, `inspect`, `lm-eval`, `verifiers`, `verl`, `openrlhf`, `nemo-gym`, or a format
            of the dataset's suite.
        out: The file to write; a folder for the formats of other tools.
        split: Split to export, for formats of suites.
        extract: For other tools except `hf`: how answers are extracted from replies.
        variants: For `lm-eval`: `choice`, `generation` or `both`.
        task: The file that defines the dataset's task or suite, unless an installed package has it.
        licence: For `hf`: the SPDX name of the licence, for the card.
        authors: For `hf`: the authors, for the card's citation.
    """
    folder, path = path_of(data), path_of(out)
    if format not in TOOLS:
        return _export_split(folder, format, path, split, task)
    if split is not None:
        raise ParameterError("split", f"is for the formats of suites; {format} takes all splits")
    if task is not None:
        from taskloom.data import load

        load(folder).recipe_by(task)
    if format == "hf":
        from taskloom.interop.hugging_face import export_hf

        export_hf(folder, path, licence=licence, authors=authors, task=task)
        text = (
            f"{path}: load it with datasets.load_dataset({str(path)!r}); publish it with"
            f" hf upload OWNER/NAME {path} --repo-type dataset"
        )
        missing = {"--licence": licence, "--author": authors}
        if options := [option for option, given in missing.items() if not given]:
            text += f"; before that, complete the card with {' and '.join(options)}"
        return Exported(path, format, text, {})
    if format == "lm-eval":
        return _export_lm_eval(folder, path, extract, variants)
    if format == "inspect":
        from taskloom.interop.inspect import export_inspect

        name = export_inspect(folder, path, extract=extract)
        module = name.replace("-", "_")
        text = f"{path}: pip install -e {path}; inspect eval {module}/{module} --model MODEL"
        return Exported(path, format, text, {"package": name})
    if format == "verifiers":
        from taskloom.interop.verifiers import export_verifiers

        name = export_verifiers(folder, path, extract=extract)
        text = f"{path}: pip install -e {path}; vf-validate {name} --runtime.type subprocess"
        return Exported(path, format, text, {"environment": name})
    from taskloom.interop.trainers import export_for_trainer

    command = export_for_trainer(folder, path, format, extract=extract)
    return Exported(path, format, f"{path}: {command}", {"command": command})


def _export_lm_eval(folder: Path, path: Path, extract: str, variants: str) -> Exported:
    from taskloom.interop.lm_eval import export_lm_eval

    tasks = export_lm_eval(folder, path, extract=extract, variants=variants)
    listed = "".join(f"\n  {name}" for name in (*tasks.groups, *tasks.tasks, *tasks.by_trait))
    command = f"lm_eval --include_path {path} --tasks {tasks.groups[0]}"
    details = {
        "groups": list(tasks.groups),
        "tasks": list(tasks.tasks),
        "by_trait": list(tasks.by_trait),
        "choices": list(tasks.choices),
    }
    return Exported(path, "lm-eval", f"{path}: {command}; groups and tasks:{listed}", details)


def _export_split(
    folder: Path, format: str, path: Path, split: str | None, task: str | Path | None
) -> Exported:
    from taskloom.data.export import check_format
    from taskloom.data.export import export as export_split

    check_format(folder, format, also=TOOLS, task=task)
    if split is None:
        raise ParameterError(
            "split", f"is needed: '{format}' holds one split ({' and '.join(TOOLS)} take all)"
        )
    file = export_split(folder, split, format, path, task=task)
    without = f" ({file.left_out:,} left out: {file.reason})" if file.left_out else ""
    text = f"{path}: {file.examples:,} examples of {folder}, split {split}, as {format}{without}"
    return Exported(path, format, text, {"examples": file.examples, "left_out": file.left_out})
