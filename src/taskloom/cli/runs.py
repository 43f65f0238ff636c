"""Learning and its scores: score, run, power; and what is done with finished runs: show, compare,
report, rescore, verify.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taskloom.cli.options import Json, TaskFile
from taskloom.cli.output import console, emit, percent, table
from taskloom.cli.suite_options import NOTHING
from taskloom.core.errors import TaskloomError

if TYPE_CHECKING:
    from taskloom.experiments.api import DryRun, Outcome
    from taskloom.experiments.record import Run
    from taskloom.experiments.rescore import Change, RunVerification
    from taskloom.experiments.result_table import ResultTable
    from taskloom.experiments.spec.cells import Cell
    from taskloom.experiments.statistics import PowerQuestion

if TYPE_CHECKING:
    from taskloom.core.offers import Evaluation
    from taskloom.core.tables import Table
    from taskloom.data import Dataset


def score(
    suite: Annotated[
        str, typer.Argument(metavar="SUITE", help="The suite or task that the examples are of.")
    ],
    gold: Annotated[
        Path,
        typer.Option(
            "--gold",
            "--data",
            help="A dataset's folder; a file where the suite has an evaluation of its own.",
        ),
    ],
    pred: Annotated[
        Path,
        typer.Option(
            "--pred",
            "--predictions",
            help=(
                "One prediction a line, in the order of the gold examples; or JSON lines, CSV or"
                " Parquet with 'prediction' "
                "and, to be matched in any order, 'id' or 'index' (the example's number from 0); of"
                " a dataset, some of its examples are enough. - is standard input."
            ),
        ),
    ],
    at: Annotated[
        list[float] | None,
        typer.Option(
            "--at",
            "--thresholds",
            help="A T of C@T, in percent; 75 and 90 by default. May be repeated.",
        ),
    ] = None,
    split: Annotated[
        str,
        typer.Option(
            "--split", help="Which split, when --gold is a dataset [the only one that fits]."
        ),
    ] = "",
    by: Annotated[
        str, typer.Option("--by", help="The trait that tells tasks apart [as the suite says].")
    ] = "",
    linked: Annotated[
        str,
        typer.Option("--linked", help="The trait that tasks of one family share, for consistency."),
    ] = "",
    extract: Annotated[
        str,
        typer.Option(
            "--extract",
            help="How answers are cut out of replies, e.g. final, last-line or tag:answer [as they are].",
        ),
    ] = "",
    details: Annotated[
        bool, typer.Option("--details", help="With --json: every task, or what the suite adds.")
    ] = False,
    task: TaskFile = None,
    as_json: Json = False,
    given: Mapping[str, str] = NOTHING,
) -> None:
    """Score predictions that were made elsewhere: mean, C@T and consistency by task, or as the
    suite itself evaluates.

    \b
    Examples:
      $ taskloom score zest --gold dev.jsonl --pred predictions.txt
      $ taskloom score zest --gold dev.jsonl --pred predictions.txt --mode corrected --at 50 --at 90 --json
      $ taskloom score zest --gold my-zest --split dev --pred predictions.txt --mode corrected
      $ taskloom score ctl --gold my-data --split iid --pred answers.txt --linked groups
      $ taskloom score zest --gold dev.jsonl --pred predictions.jsonl
      $ taskloom score ctl --gold my-data --split iid --pred replies.jsonl --extract final
    """
    from taskloom.cli.suite_options import of_suite
    from taskloom.core.registry import find_suite, load_file
    from taskloom.data import competence

    if task is not None:
        load_file(task)  # its own scorer is then known
    owner = find_suite(suite)
    name = owner.name if owner else suite
    options = of_suite(given, "score", name)
    thresholds = at or competence.THRESHOLDS
    report: Evaluation
    if owner is None or owner.evaluate is None:
        data = _made_by(name, gold)
        split = split or competence.find_split(data, pred)
        report = competence.score_dataset(data, split, pred, by, linked, thresholds, extract)
    elif by or linked:
        raise TaskloomError(
            f"--by and --linked are for other suites; {name} knows itself which tasks belong"
            " together"
        )
    elif gold.is_dir():
        data = _made_by(name, gold)
        report = competence.score(
            data, pred, split, thresholds=thresholds, extract=extract, **options
        )
    elif extract:
        raise TaskloomError(
            f"--extract needs the folder of a dataset, and {gold} is a file; make one with"
            f" 'taskloom make {name}/RECIPE'"
        )
    else:
        report = owner.evaluate(gold, pred, thresholds=thresholds, **options)
    if as_json:
        emit(report.to_dict(details))
    else:
        typer.echo(report.text())


def _made_by(suite: str, folder: Path) -> Dataset:
    """Load the dataset in a folder, if that suite (or task) made it."""
    from taskloom.data import dataset

    data = dataset.load(folder)
    recipe = data.manifest.get("recipe", {})
    owner = str(recipe.get("suite") or recipe.get("task") or suite)
    if owner != suite:
        raise TaskloomError(
            f"{folder} is a dataset of '{owner}', not of '{suite}'; write taskloom score {owner}"
        )
    return data


def run(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="EXPERIMENT", help="A YAML file, or one that comes with Taskloom: ctlpp-small."
        ),
    ],
    store: Annotated[
        Path | None,
        typer.Option(
            "--store", metavar="DIR", help="The folder of the runs [runs, or as the file says]."
        ),
    ] = None,
    engine: Annotated[
        str, typer.Option("--engine", help="local or ray; the results do not depend on it.")
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", min=1, help="Runs at one time; as many as there are cores by default."
        ),
    ] = None,
    address: Annotated[
        str | None, typer.Option("--address", help="Of a Ray cluster [a local one is started].")
    ] = None,
    tracker: Annotated[
        str | None,
        typer.Option("--tracker", help="Also show finished runs in trackio, wandb or mlflow."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            min=1,
            help="Answer at most so many examples of each split [as the file says, or all].",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be run and what is there.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run an experiment: recipes x learners x seeds. Rerun the command to resume after an
    interruption.

    Exit status 1 when runs failed; rerun the command to retry just those.

    \b
    Examples:
      $ printf 'recipes: [{recipe: babi/1, set: {splits.train.n: 500}}]\\nlearners: [majority]\\nseeds: 2\\n' | tee experiment.yaml
      $ taskloom run experiment.yaml --dry-run
      $ taskloom run experiment.yaml --store my-runs --workers 2
    """
    from taskloom.experiments import api
    from taskloom.experiments.execute import progress
    from taskloom.experiments.spec import experiment as spec

    experiment = spec.read(file)
    if limit is not None:
        experiment = experiment.model_copy(update={"limit": limit})
    if dry_run:
        print_plan(api.dry_run(experiment, store), as_json)
        return
    if engine == "ray" and address:
        # Said before, since Ray ends the program of a cluster whose head has died, without a chance
        # for a last word.
        typer.echo(
            f"On the Ray cluster at {address}. Should its head die, Ray ends this program: nothing"
            " finished is lost; start a cluster again and rerun the command to resume.",
            err=True,
        )
    with progress.display() as watch:
        outcome = api.fill(
            experiment,
            store,
            engine=engine,
            workers=workers,
            address=address,
            tracker=tracker,
            watch=watch,
        )
    print_outcome(
        outcome,
        f"taskloom run {file}"
        + (f" --store {store}" if store else "")
        + (f" --limit {limit}" if limit else ""),
        as_json,
    )
    if outcome.state.failed:
        raise typer.Exit(1)


Runs = Annotated[
    Path,
    typer.Argument(
        metavar="RUNS",
        help=(
            "The folder of the runs; a file of scores, a YAML file that names predictions, or logs"
            " of Inspect or lm_eval."
        ),
    ),
]
SomeSplits = Annotated[
    list[str] | None, typer.Option("--split", help="Only this split; may be repeated.")
]
By = Annotated[
    list[str] | None,
    typer.Option(
        "--by",
        metavar="NAME",
        help="Also by a column, a trait of the examples, or task; may be repeated.",
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where", metavar="RULE", help="Only these runs: 'iid > 0.5', 'seed=0', a learner."
    ),
]
Level = Annotated[float, typer.Option("--level", help="Confidence level of the intervals.")]


def show_runs(
    store: Runs,
    by: By = None,
    split: SomeSplits = None,
    over: Annotated[
        str | None,
        typer.Option(
            "--over",
            help=(
                "What the interval is over: seeds+items, seeds, items, tasks, seeds+tasks"
                " [seeds+items; seeds where "
                "scores of items are not kept]."
            ),
        ),
    ] = None,
    where: Where = None,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", help="Also show the share of seeds whose score is over it."),
    ] = None,
    level: Level = 0.95,
    as_json: Json = False,
) -> None:
    """Show the scores of runs: means with intervals, by whatever runs or examples differ in.

    \b
    Examples:
      $ taskloom runs show my-runs
      $ taskloom runs show my-runs --by task --over seeds --where 'seed=0' --json
    """
    from taskloom.experiments import sources

    chosen = sources.runs(store).where(*(where or ()))
    print_results(chosen.accuracy(by or (), split, over, level, threshold), as_json)


def compare(
    store: Runs,
    a: Annotated[
        str,
        typer.Argument(
            metavar="A", help="A learner, a recipe, or columns: 'learner=bilstm and seed=0'."
        ),
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="The runs that are compared with them.")],
    by: By = None,
    split: SomeSplits = None,
    over: Annotated[
        str,
        typer.Option("--over", help="items: the same examples are paired; tasks: means of tasks."),
    ] = "items",
    test: Annotated[
        str, typer.Option("--test", help="auto, two-way, mcnemar, bootstrap, sign-flip or welch.")
    ] = "auto",
    correction: Annotated[
        str, typer.Option("--correction", help="holm, benjamini-hochberg, bonferroni or none.")
    ] = "holm",
    level: Level = 0.95,
    where: Where = None,
    as_json: Json = False,
) -> None:
    """Compare two groups of runs by paired tests on the same examples, or on the same tasks.

    \b
    Examples:
      $ taskloom runs compare my-runs seed=0 seed=1
      $ taskloom runs compare my-runs seed=0 seed=1 --split test --test mcnemar --json
    """
    from taskloom import verbs

    compared = verbs.compare(
        store,
        a,
        b,
        split,
        by=by or (),
        where=where or (),
        over=over,
        test=test,
        correction=correction,
        level=level,
    )
    print_results(compared, as_json)


def report(
    store: Runs,
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="FILE", help="The page to write.")
    ] = Path("report.html"),
    level: Annotated[
        float, typer.Option("--level", help="Confidence level of the intervals.")
    ] = 0.95,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="A dataset, or a folder of datasets, to show and audit on the page.",
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            "--figures", metavar="DIR", help="Also write the figures as SVG and PDF files."
        ),
    ] = None,
    where: Where = None,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", help="Also show the share of seeds whose score is over it."),
    ] = None,
    title: Annotated[
        str, typer.Option("--title", help="The heading [the learners and recipes].")
    ] = "",
    as_json: Json = False,
) -> None:
    """Write one page about runs: findings in sentences, figures, tables, comparisons, the examples
    behind every number.

    \b
    Examples:
      $ taskloom runs report my-runs -o report.html
      $ taskloom runs report my-runs --level 0.99 --json
      $ taskloom runs report my-runs --data my-runs/data --figures figures
      $ taskloom runs report my-runs --where 'test >= 0' --threshold 0.95
    """
    from taskloom.analysis.report import run_report

    path = run_report.report(
        store,
        out,
        level,
        data=data or (),
        figures=figures,
        where=where or (),
        threshold=threshold,
        title=title,
    )
    if as_json:
        emit({"report": str(path), "store": str(store)})
    else:
        typer.echo(f"the report on {store} is in {path}")


def power(
    gap: Annotated[
        float, typer.Option("--gap", help="The difference in accuracy that should be found.")
    ],
    accuracy: Annotated[
        float,
        typer.Option("--accuracy", help="Accuracy of the one; the other's is accuracy + gap."),
    ],
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, help="Seeds of each learner.")
    ] = None,
    examples: Annotated[
        int | None, typer.Option("--examples", min=1, help="Examples that each run answers.")
    ] = None,
    seed_sd: Annotated[
        float, typer.Option("--seed-sd", help="Standard deviation of accuracy between seeds.")
    ] = 0.0,
    paired_correlation: Annotated[
        float,
        typer.Option(
            "--paired-correlation", help="Of the learners' answers to an item; 0: different items."
        ),
    ] = 0.0,
    seed_correlation: Annotated[
        float | None,
        typer.Option(
            "--seed-correlation", help="Of two seeds' answers to an item [(1 + paired) / 2]."
        ),
    ] = None,
    wanted: Annotated[
        float, typer.Option("--power", help="How often a gap should be found.")
    ] = 0.8,
    alpha: Annotated[
        float, typer.Option("--alpha", help="How often one may be found that is not there.")
    ] = 0.05,
    as_json: Json = False,
) -> None:
    """Compute how many examples and seeds it takes to see a gap between two learners.

    \b
    Examples:
      $ taskloom power --gap 0.02 --accuracy 0.8
      $ taskloom power --gap 0.05 --accuracy 0.8 --seed-sd 0.02 --paired-correlation 0.4
      $ taskloom power --gap 0.05 --accuracy 0.8 --seed-sd 0.02 --seeds 5 --examples 1000 --json
    """
    from taskloom.experiments.statistics import PowerQuestion

    question = PowerQuestion(
        gap, accuracy, seed_sd, paired_correlation, seed_correlation, alpha, wanted
    )
    print_power(question, examples, seeds, as_json)


def rescore(
    store: Annotated[Path, typer.Argument(metavar="RUNS", help="The folder of the runs.")],
    scorer: Annotated[
        str,
        typer.Option(
            "--scorer", help="A scorer (taskloom list scorers), or own: that of each run's recipe."
        ),
    ],
    as_json: Json = False,
) -> None:
    """Score stored predictions again, by another scorer or a fixed one. No model is called; the old
    scores are kept beside.

    \b
    Examples:
      $ taskloom runs rescore my-runs --scorer any-of
      $ taskloom runs rescore my-runs --scorer own --json
    """
    from taskloom import verbs

    print_rescored(verbs.rescore(store, scorer), scorer, as_json)


def verify_runs(
    store: Annotated[Path, typer.Argument(metavar="RUNS", help="The folder of the runs.")],
    as_json: Json = False,
) -> None:
    """Check the scores of finished runs against their stored predictions; status 1 if they differ.

    \b
    Examples:
      $ taskloom runs verify my-runs
      $ taskloom runs verify my-runs --json
    """
    from taskloom.experiments.rescore import verify_runs as score_again

    result = score_again(store)
    print_verification(result, store, as_json)
    if result.wrong:
        raise typer.Exit(1)


MOST_REASONS = 20
"""Reasons of failures that are printed."""


def print_plan(plan: DryRun, as_json: bool) -> None:
    """Print the plan of `taskloom run --dry-run`."""
    if as_json:
        rows = [
            {
                "run": c.run,
                **_row(c),
                "present": c.run in plan.present,
                "failed": plan.failed.get(c.run),
            }
            for c in plan.cells
        ]
        emit({"cells": rows, "estimate": asdict(plan.estimate)})
        return
    from taskloom.experiments.execute.progress import duration

    console().print(table("runs", *_plan_table(plan)), "")
    e = plan.estimate
    missing = len(plan.cells) - len(plan.present)
    cost = f"about {duration(e.seconds)} of work for {e.known:,} of them" if e.known else ""
    unknown = (
        f"unknown for {e.unknown:,} (the store has no finished run like them)" if e.unknown else ""
    )
    costs = ", ".join(x for x in (cost, unknown) if x) or "nothing"
    runs = "1 run" if len(plan.cells) == 1 else f"{len(plan.cells):,} runs"
    print(f"{runs}, {len(plan.present):,} present, {missing:,} missing; cost: {costs}")


TASK = "recipe.task"
"""The field of a run on one of the tasks of a recipe. A plan counts them: a line for each of a
hundred tasks hides the others.
"""

LISTED = 2
"""Values of a list that a plan names; of a longer one it names the first."""


_Repeated = tuple[str | None, list[Any]]
"""The repetitions of one run, with its task where there are several."""


def _plan_table(plan: DryRun) -> tuple[list[str], list[list[Any]]]:
    """Return the heads and the lines of a plan; tasks have a column where there are several."""
    kinds: dict[str, list[Any]] = {}
    for cell in plan.cells:
        kinds.setdefault(cell.kind, []).append(cell)
    firsts = [(same[0].data.name, same[0].learner_name, same[0].fields) for same in kinds.values()]
    groups: dict[tuple[str, str, str], list[_Repeated]] = {}
    for (recipe, learner, fields), differ, same in zip(
        firsts, _differing(firsts), kinds.values(), strict=True
    ):
        others = {name: fields[name] for name in differ if name != TASK}
        task = fields[TASK] if TASK in differ else None
        groups.setdefault((recipe, learner, json.dumps(others)), []).append((task, same))
    heads = (
        "recipe",
        "learner",
        "fields that differ",
        "tasks",
        "seeds",
        "present",
        "failed before",
    )
    lines = [
        (r, k, *_plan_cells(plan, json.loads(text), tasks))
        for (r, k, text), tasks in groups.items()
    ]
    shown = [i for i, head in enumerate(heads) if head != "tasks" or any(line[i] for line in lines)]
    return [heads[i] for i in shown], [[line[i] for i in shown] for line in lines]


def _plan_cells(plan: DryRun, fields: Mapping[str, Any], tasks: list[_Repeated]) -> tuple[Any, ...]:
    """Return a line of a plan, from its third column on, of one or several tasks that differ in
    nothing else.
    """
    cells = [cell for _, same in tasks for cell in same]
    shown = {name: _first_values(value) for name, value in fields.items()}
    if len(tasks) == 1 and tasks[0][0] is not None:
        shown[TASK] = tasks[0][0]
    seeds = " or ".join(str(n) for n in sorted({len(same) for _, same in tasks}))
    present, failed = (
        sum(cell.run in those for cell in cells) for those in (plan.present, plan.failed)
    )
    return _as_text(shown), len(tasks) if len(tasks) > 1 else "", seeds, present, failed


def _first_values(value: Any) -> Any:
    return (
        f"{value[0]} and {len(value) - 1} more"
        if isinstance(value, list) and len(value) > LISTED
        else value
    )


def _differing(rows: list[tuple[str, str, Mapping[str, Any]]]) -> list[list[str]]:
    """Return for each row the fields in which it differs from others of its recipe and learner."""
    values: dict[tuple[str, str, str], set[str]] = {}
    for recipe, learner, fields in rows:
        for name, value in fields.items():
            values.setdefault((recipe, learner, name), set()).add(json.dumps(value))
    counts: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for recipe, learner, fields in rows:
        counts.setdefault((recipe, learner), []).append(fields)
    return [
        sorted(
            name
            for name in fields
            if len(values[recipe, learner, name]) > 1
            or any(name not in other for other in counts[recipe, learner])
        )
        for recipe, learner, fields in rows
    ]


def _telling(rows: list[tuple[str, str, Mapping[str, Any]]]) -> list[str]:
    """Return the fields in which rows of one recipe and learner differ, as text."""
    differing = _differing(rows)
    return [
        _as_text({name: row[2][name] for name in names})
        for row, names in zip(rows, differing, strict=True)
    ]


def _as_text(fields: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.split('.', 1)[1]}={fields[name]}" for name in sorted(fields))


def _mean(runs: list[Run], split: str, name: str = "") -> str:
    answered = [run.splits[split] for run in runs if split in run.splits]
    entries = [one.further.get(name) if name else one.score for one in answered]
    scores = [score for score in entries if score is not None]
    return percent(sum(scores) / len(scores)) if scores else "-"


def _row(cell: Any) -> dict[str, Any]:
    return {
        "recipe": cell.data.name,
        "learner": cell.learner_name,
        "fields": cell.fields,
        "seed": cell.seed,
    }


def print_outcome(result: Outcome, command: str, as_json: bool) -> None:
    """Print the end of `taskloom run`: the scores, mean over seeds, and the reasons of what
    failed.
    """
    state = result.state
    runs = result.store.records(result.runs)
    if as_json:
        rows = [
            {
                "run": run.name,
                "recipe": run.recipe,
                "learner": run.learner,
                "fields": run.fields,
                "seed": run.seed,
                "splits": {split: scores.to_dict() for split, scores in run.splits.items()},
            }
            for run in runs
        ]
        emit({"store": str(result.store.path), "runs": rows, "failed": state.failed})
        return
    splits = list(dict.fromkeys(split for run in runs for split in run.splits))
    telling = _telling([(run.recipe, run.learner, run.fields) for run in runs])
    groups: dict[tuple[str, str, str], list[Run]] = {}
    for run, fields in zip(runs, telling, strict=True):
        groups.setdefault((run.recipe, run.learner, fields), []).append(run)
    if groups:
        console().print(_mean_scores(groups, splits), "")
    print(f"{state.before:,} runs were there, {state.done:,} are new, in {result.store.path}")
    if state.failed:
        print(f"{len(state.failed):,} failed; '{command}' retries just those:")
        for line in _reasons(result):
            print(f"  {line}")


MOST_SCORES = 6
"""Maximum score columns of a summary with a row for each group of runs; with more, every split has
a row of its own, because a terminal has no room for them.
"""

GROUP_HEADS = ("recipe", "learner", "fields that differ", "seeds")


def _mean_scores(groups: Mapping[tuple[str, str, str], list[Run]], splits: list[str]) -> Table:
    """Mean scores over the seeds of each group, and those that suites compute of whole splits."""
    runs = [run for same in groups.values() for run in same]
    answered = [item for run in runs for item in run.splits.items()]
    suite = sorted({(split, name) for split, scores in answered for name in scores.further})
    shown = [(split, "") for split in splits] + suite
    if len(shown) > MOST_SCORES:
        return _scores_by_split(groups, splits, {name for _, name in suite})
    lines = [
        (*key, len(same), *(_mean(same, *column) for column in shown))
        for key, same in groups.items()
    ]
    heads = (*GROUP_HEADS, *(f"{split} {name}".strip() for split, name in shown))
    return table("mean scores", heads, lines)


def _scores_by_split(
    groups: Mapping[tuple[str, str, str], list[Run]], splits: list[str], names: set[str]
) -> Table:
    """A row for each split of each group.

    `official C@75` is the `C@75` of another evaluation: it has no column of its own but a row, which
    names the evaluation.
    """
    others: dict[str, tuple[str, str]] = {}
    for name in names:
        evaluation, _, plain = name.rpartition(" ")
        if evaluation and plain in names:
            others[name] = (evaluation, plain)
    columns = ["", *sorted(names - others.keys())]
    lines: list[tuple[Any, ...]] = []
    for key, same in groups.items():
        group: tuple[Any, ...] = (*key, len(same))
        for split in splits:
            if not any(split in run.splits for run in same):
                continue
            scores = [_mean(same, split, name) for name in columns]
            if any(score != "-" for score in scores):
                lines.append((*group, split, "", *scores))
                group = ("",) * len(group)
            for evaluation in sorted({head for head, _ in others.values()}):
                own = [_mean(same, split, f"{evaluation} {name}") for name in columns[1:]]
                if any(score != "-" for score in own):
                    lines.append((*group, split, evaluation, "", *own))
    heads = (*GROUP_HEADS, "split", "evaluation", "score", *columns[1:])
    empty = {place for place in (2, 5) if not any(line[place] for line in lines)}
    kept = [place for place in range(len(heads)) if place not in empty]
    return table(
        "mean scores",
        [heads[place] for place in kept],
        [[line[place] for place in kept] for line in lines],
    )


def _reasons(result: Outcome) -> Iterator[str]:
    """Yield a line for each reason of failures: once, however many runs it stopped."""
    from taskloom.experiments.store import failed_folder

    cells = {cell.run: cell for cell in result.cells}
    by_reason: dict[str, list[Cell]] = {}
    for run, why in result.state.failed.items():
        by_reason.setdefault(why, []).append(cells[run])
    for why, stopped in itertools.islice(by_reason.items(), MOST_REASONS):
        if len(stopped) == 1:
            yield f"{stopped[0]} ({stopped[0].run[:8]}…): {why}"
        else:
            kinds = list(
                dict.fromkeys(f"{cell.learner_name} on {cell.data.name}" for cell in stopped)
            )
            more = f" and {len(kinds) - 4} more" if len(kinds) > 4 else ""
            yield f"{len(stopped):,} runs ({', '.join(kinds[:4])}{more}): {why}"
    if len(by_reason) > MOST_REASONS:
        yield (
            f"and {len(by_reason) - MOST_REASONS} other reasons, in"
            f" {failed_folder(result.store.path)}"
        )


def print_results(rows: ResultTable, as_json: bool) -> None:
    """Print the answer to a question about runs."""
    if as_json:
        emit(rows.to_dicts())
    else:
        print(rows)


def print_rescored(changes: list[Change], scorer: str, as_json: bool) -> None:
    """Print the result of `taskloom runs rescore`: means before and after."""
    if as_json:
        emit([asdict(c) for c in changes])
        return
    groups: dict[tuple[str, str, str], list[Change]] = {}
    for c in changes:
        groups.setdefault((c.recipe, c.learner, c.split), []).append(c)
    lines = []
    for key, same in groups.items():
        means = [
            [x for x in values if x is not None]
            for values in zip(*((c.before, c.after) for c in same), strict=True)
        ]
        shown = [percent(sum(m) / len(m)) if m else "-" for m in means]
        lines.append((*key, len(same), *shown, sum(c.changed for c in same)))
    heads = ("recipe", "learner", "split", "runs", "before", "after", "examples changed")
    console().print(table(f"scores by {scorer}", heads, lines))


def print_verification(result: RunVerification, store: Path, as_json: bool) -> None:
    """Print the result of `taskloom verify` on a folder of runs."""
    if as_json:
        emit({"folder": str(store), "ok": not result.wrong, **result.to_dict()})
        return
    print(
        f"{store}: {result.runs:,} runs, {result.answers:,} answers scored again:"
        f" {len(result.wrong)} differences"
    )
    for wrong in result.wrong[:10]:
        print(f"  {wrong}")
    if result.without:
        print(f"{result.without:,} runs kept no predictions, so nothing can be checked")
    if result.unscored:
        run, why = next(iter(result.unscored.items()))
        print(
            f"{len(result.unscored):,} runs: only sums were checked; the first, {run[:8]}…: {why}"
        )


def print_power(
    question: PowerQuestion, examples: int | None, seeds: int | None, as_json: bool
) -> None:
    """Print the answer of `taskloom power`."""
    from taskloom.experiments.statistics.power import plan

    rows = plan(question, examples, seeds)
    if as_json:
        emit({**asdict(question), "seed_correlation": question.within, "plans": rows})
        return
    shown = []
    for row in rows:
        smallest = f"{row['smallest_gap']:+.4f}" if row.get("smallest_gap") is not None else "none"
        sizes = ["none is enough" if row[k] is None else row[k] for k in ("seeds", "examples")]
        shown.append(
            (*sizes, "-" if row["power"] is None else percent(row["power"]), smallest)[
                : 3 + ("smallest_gap" in row)
            ]
        )
    heads = ("seeds of each", "examples", "power", "smallest gap found")[: len(shown[0])]
    out = console()
    other = question.accuracy + question.gap
    out.print(
        f"[bold]to tell {question.accuracy:g} from {other:g} at alpha {question.alpha:g}[/bold]"
    )
    out.print(table("", heads, shown))
    if any(row["seeds"] == 1 for row in rows):
        out.print(
            "\nOne seed each compares two trained models; whether the two learners differ takes"
            " several seeds."
        )
