"""Planning and running experiments: run, power."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taskloom.cli.options import Engine, Json, OnlyPlan, Workers
from taskloom.core.tables import console, counted, emit, percent, table

if TYPE_CHECKING:
    from taskloom.core.tables import Table
    from taskloom.experiments.api import DryRun, Outcome
    from taskloom.experiments.record import Run
    from taskloom.experiments.spec.cells import Cell
    from taskloom.experiments.statistics import PowerQuestion


def run(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="EXPERIMENT", help="A YAML file, or the name of a packaged one: ctlpp-small."
        ),
    ],
    store: Annotated[
        Path | None,
        typer.Option(
            "--store", metavar="DIR", help="Folder of the runs [as in the file, or runs]."
        ),
    ] = None,
    engine: Engine = "local",
    workers: Workers = None,
    address: Annotated[
        str | None,
        typer.Option("--address", help="Address of a Ray cluster [start a local one]."),
    ] = None,
    tracker: Annotated[
        list[str] | None,
        typer.Option(
            "--tracker",
            help="Also log curves and finished runs to trackio, wandb or mlflow. Repeatable.",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            min=1,
            help="Maximum examples to answer in each split [as in the file, or all].",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="WIDTH|decided",
            help=(
                "Query models that need no training until the 95 % interval is at most ± WIDTH, "
                "or until one of two models (or one model, against chance) is better."
            ),
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            metavar="5usd|1Mtok|2000items",
            help=(
                "Maximum to spend on queries. What remains goes to the run with the widest "
                "interval."
            ),
        ),
    ] = None,
    dry_run: OnlyPlan = False,
    as_json: Json = False,
) -> None:
    """Run an experiment: recipes x learners x seeds. Rerun the command to resume after an
    interruption.

    Exit status 1 if runs failed. Rerunning the command retries only those.

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
    if until or budget:
        asking = spec.read_until(experiment.until, until, budget)
        experiment = experiment.model_copy(update={"until": asking})
    if dry_run:
        print_plan(api.dry_run(experiment, store), as_json)
        return
    with progress.display() as watch:
        outcome = api.fill(
            experiment,
            store,
            engine=engine,
            workers=workers,
            address=address,
            tracker=tracker or (),
            watch=watch,
        )
    command = f"taskloom run {file}"
    if store:
        command += f" --store {store}"
    if limit:
        command += f" --limit {limit}"
    for name, value in (("until", until), ("budget", budget)):
        if value:
            command += f" --{name} {value}"
    print_outcome(outcome, command, as_json)
    if outcome.state.failed:
        raise typer.Exit(1)


def power(
    gap: Annotated[float, typer.Option("--gap", help="Difference in accuracy to detect.")],
    accuracy: Annotated[
        float,
        typer.Option("--accuracy", help="Accuracy of one learner; the other's is accuracy + gap."),
    ],
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, help="Number of seeds per learner.")
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option("--examples", min=1, help="Number of examples that each run answers."),
    ] = None,
    seed_sd: Annotated[
        float, typer.Option("--seed-sd", help="Standard deviation of accuracy across seeds.")
    ] = 0.0,
    paired_correlation: Annotated[
        float,
        typer.Option(
            "--paired-correlation",
            help=(
                "Correlation between the learners' answers to the same item; 0 if their items"
                " differ."
            ),
        ),
    ] = 0.0,
    seed_correlation: Annotated[
        float | None,
        typer.Option(
            "--seed-correlation",
            help="Correlation between two seeds' answers to the same item [(1 + paired) / 2].",
        ),
    ] = None,
    wanted: Annotated[
        float, typer.Option("--power", help="Power: probability of detecting the gap.")
    ] = 0.8,
    alpha: Annotated[
        float,
        typer.Option("--alpha", help="Significance level (false-positive rate)."),
    ] = 0.05,
    as_json: Json = False,
) -> None:
    """Compute how many examples and seeds are needed to detect a gap between two learners.

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


MOST_REASONS = 20
"""Maximum reasons for failures to print."""


def print_plan(plan: DryRun, as_json: bool, further: Mapping[str, Any] | None = None) -> None:
    """Print the plan of `taskloom run --dry-run`. `further` has additional keys for the JSON."""
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
        emit({"cells": rows, "estimate": asdict(plan.estimate), **(further or {})})
        return
    from taskloom.experiments.execute.progress import duration

    console().print(table(*_plan_table(plan), "runs"), "")
    estimate = plan.estimate
    costs = []
    if estimate.known:
        costs.append(f"about {duration(estimate.seconds)} of work for {estimate.known:,} of them")
    if estimate.unknown:
        costs.append(f"unknown for {estimate.unknown:,} (the store has no finished run like them)")
    cost = ", ".join(costs) or "nothing"
    runs = counted(len(plan.cells), "run")
    missing = len(plan.cells) - len(plan.present)
    print(f"{runs}, {len(plan.present):,} present, {missing:,} missing; cost: {cost}")


TASK = "recipe.task"
"""Field with the task of a run. If a recipe has many tasks, the plan counts them instead of
printing one line per task.
"""

LISTED = 2
"""Maximum length of a list that a plan prints in full. For a longer list, it prints the first value
and how many others there are.
"""


PLAN_HEADS = (
    "recipe",
    "learner",
    "fields that differ",
    "tasks",
    "seeds",
    "present",
    "failed before",
)

_Repeated = tuple[str | None, list["Cell"]]
"""Repetitions of one run, with its task if there is more than one."""


def _plan_table(plan: DryRun) -> tuple[list[str], list[list[Any]]]:
    """Header and rows of a plan. There is a column for tasks if there is more than one."""
    from taskloom.experiments.spec.cells import differing_fields

    kinds: dict[str, list[Cell]] = {}
    for cell in plan.cells:
        kinds.setdefault(cell.kind, []).append(cell)
    repeated = list(kinds.values())
    firsts = [(same[0].data.name, same[0].label, same[0].fields) for same in repeated]
    differing = differing_fields(firsts)
    groups: dict[tuple[str, str, str], list[_Repeated]] = {}
    for (recipe, learner, fields), names, same in zip(firsts, differing, repeated, strict=True):
        others = {name: fields[name] for name in names if name != TASK}
        task = fields[TASK] if TASK in names else None
        groups.setdefault((recipe, learner, json.dumps(others)), []).append((task, same))
    lines = [
        [recipe, learner, *_plan_cells(plan, json.loads(text), tasks)]
        for (recipe, learner, text), tasks in groups.items()
    ]
    heads = list(PLAN_HEADS)
    tasks_column = heads.index("tasks")
    if not any(line[tasks_column] for line in lines):
        for row in (heads, *lines):
            del row[tasks_column]
    return heads, lines


def _plan_cells(plan: DryRun, fields: Mapping[str, Any], tasks: list[_Repeated]) -> tuple[Any, ...]:
    """Cells of a plan's row, from the third column on, for tasks that otherwise do not differ."""
    cells = [cell for _, same in tasks for cell in same]
    shown = {name: _first_values(value) for name, value in fields.items()}
    if len(tasks) == 1 and tasks[0][0] is not None:
        shown[TASK] = tasks[0][0]
    seeds = " or ".join(str(n) for n in sorted({len(same) for _, same in tasks}))
    present = sum(cell.run in plan.present for cell in cells)
    failed = sum(cell.run in plan.failed for cell in cells)
    several = len(tasks) if len(tasks) > 1 else ""
    return _as_text(shown), several, seeds, present, failed


def _first_values(value: Any) -> Any:
    if isinstance(value, list) and len(value) > LISTED:
        return f"{value[0]} and {len(value) - 1} more"
    return value


def _telling(rows: Sequence[tuple[str, str, Mapping[str, Any]]]) -> list[str]:
    """Text of the fields in which rows of one recipe and learner differ."""
    from taskloom.experiments.spec.cells import differing_fields

    differing = differing_fields(rows)
    return [
        _as_text({name: row[2][name] for name in names})
        for row, names in zip(rows, differing, strict=True)
    ]


def _as_text(fields: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.split('.', 1)[1]}={fields[name]}" for name in sorted(fields))


def _mean(runs: list[Run], split: str, name: str = "") -> str:
    answered = [run.splits[split] for run in runs if split in run.splits]
    measures = [{"": one.score, **one.replies, **one.further} for one in answered]
    entries = [each.get(name) for each in measures]
    scores = [score for score in entries if score is not None]
    return f"{sum(scores) / len(scores):.3f}" if scores else "-"


def _row(cell: Any) -> dict[str, Any]:
    return {
        "recipe": cell.data.name,
        "learner": cell.label,
        "fields": cell.fields,
        "seed": cell.seed,
    }


def print_outcome(result: Outcome, command: str, as_json: bool) -> None:
    """Print the result of `taskloom run`: mean scores over seeds, and why runs failed."""
    state = result.state
    table_of_runs = result.table
    runs = [table_of_runs[name] for name in result.runs]  # in the order of the experiment
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
    print(
        f"{state.before:,} runs were already present, {state.done:,} are new,"
        f" in {result.store.path}"
    )
    if groups:
        print(f"with intervals: taskloom runs show {result.store.path}")
    if state.failed:
        print(f"{len(state.failed):,} failed; '{command}' retries just those:")
        for line in _reasons(result):
            print(f"  {line}")


MOST_SCORES = 6
"""Maximum score columns in a summary with one row per group of runs. With more, every split gets
its own row, because terminals are not wide enough.
"""

GROUP_HEADS = ("recipe", "learner", "fields that differ", "seeds")


def _mean_scores(groups: Mapping[tuple[str, str, str], list[Run]], splits: list[str]) -> Table:
    """Mean scores of each group over seeds, and the scores that suites compute for whole splits."""
    runs = [run for same in groups.values() for run in same]
    answered = [item for run in runs for item in run.splits.items()]
    suite = sorted({(split, name) for split, scores in answered for name in scores.further})
    suite += sorted({(split, "in_form") for split, scores in answered if scores.replies})
    shown = [(split, "") for split in splits] + suite
    if len(shown) > MOST_SCORES:
        return _scores_by_split(groups, splits, {name for _, name in suite})
    lines = [
        (*key, len(same), *(_mean(same, *column) for column in shown))
        for key, same in groups.items()
    ]
    heads = (*GROUP_HEADS, *(f"{split} {name}".strip() for split, name in shown))
    return table(heads, lines, "mean scores")


def _scores_by_split(
    groups: Mapping[tuple[str, str, str], list[Run]], splits: list[str], names: set[str]
) -> Table:
    """One row for each split of each group.

    `official C@75` is the `C@75` of another evaluation. It gets a row that names the evaluation
    instead of its own column.
    """
    others = _other_evaluations(names)
    evaluations = sorted(set(others.values()))
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
            for evaluation in evaluations:
                own = [_mean(same, split, f"{evaluation} {name}") for name in columns[1:]]
                if any(score != "-" for score in own):
                    lines.append((*group, split, evaluation, "", *own))
    heads = (*GROUP_HEADS, "split", "evaluation", "score", *columns[1:])
    return _without_empty(heads, lines, (2, 5))


def _other_evaluations(names: set[str]) -> dict[str, str]:
    """Scores of another evaluation. Its name precedes the name of the score (`official C@75`)."""
    others = {}
    for name in names:
        evaluation, _, plain = name.rpartition(" ")
        if evaluation and plain in names:
            others[name] = evaluation
    return others


def _without_empty(
    heads: Sequence[str], lines: Sequence[tuple[Any, ...]], places: Sequence[int]
) -> Table:
    """Table of mean scores. The given columns are left out if they are empty."""
    empty = {place for place in places if not any(line[place] for line in lines)}
    kept = [place for place in range(len(heads)) if place not in empty]
    rows = [[line[place] for place in kept] for line in lines]
    return table([heads[place] for place in kept], rows, "mean scores")


def _reasons(result: Outcome) -> Iterator[str]:
    """Yield one line for each reason why runs failed, however many runs it affected."""
    from taskloom.experiments.spec.cells import cell_names

    cells = {cell.run: cell for cell in result.cells}
    by_reason: dict[str, list[Cell]] = {}
    for run, why in result.state.failed.items():
        by_reason.setdefault(why, []).append(cells[run])
    for why, stopped in itertools.islice(by_reason.items(), MOST_REASONS):
        if len(stopped) == 1:
            [cell] = stopped
            yield f"{cell_names(result.cells)[cell.run]} ({cell.run[:8]}…): {why}"
        else:
            kinds = list(dict.fromkeys(f"{cell.label} on {cell.data.name}" for cell in stopped))
            more = f" and {len(kinds) - 4} more" if len(kinds) > 4 else ""
            yield f"{len(stopped):,} runs ({', '.join(kinds[:4])}{more}): {why}"
    if len(by_reason) > MOST_REASONS:
        yield (
            f"and {len(by_reason) - MOST_REASONS} other reasons, in {result.store.failed_folder}"
        )


def print_power(
    question: PowerQuestion, examples: int | None, seeds: int | None, as_json: bool
) -> None:
    """Print the result of `taskloom power`."""
    from taskloom.experiments.statistics.power import plan

    rows = plan(question, examples, seeds)
    if as_json:
        emit({**asdict(question), "seed_correlation": question.within, "plans": rows})
        return
    heads = ["seeds of each", "examples", "power"]
    if "smallest_gap" in rows[0]:
        heads.append("smallest gap found")
    shown = [_power_cells(row) for row in rows]
    out = console()
    other = question.accuracy + question.gap
    out.print(
        f"[bold]to distinguish {question.accuracy:g} from {other:g} at alpha "
        f"{question.alpha:g}[/bold]"
    )
    out.print(table(heads, shown))
    if any(row["seeds"] == 1 for row in rows):
        out.print(
            "\nWith one seed each, this compares two trained models. Comparing the learners "
            "themselves needs several seeds."
        )


def _power_cells(row: Mapping[str, Any]) -> list[Any]:
    cells = ["none is enough" if row[size] is None else row[size] for size in ("seeds", "examples")]
    cells.append("-" if row["power"] is None else percent(row["power"]))
    if "smallest_gap" in row:
        gap = row["smallest_gap"]
        cells.append("none" if gap is None else f"{gap:+.4f}")
    return cells
