"""Runs: what an experiment would do, what it did, new scores, and how many runs a question takes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taskloom.cli.output import console, emit, percent, table

if TYPE_CHECKING:
    from taskloom.experiments.api import DryRun, Outcome
    from taskloom.experiments.rescore import Change
    from taskloom.experiments.result_table import ResultTable
    from taskloom.experiments.spec.cells import Cell
    from taskloom.experiments.statistics import PowerQuestion
    from taskloom.experiments.verify import RunVerification

MOST_REASONS = 20
"""Reasons of failures that are printed."""


def experiment(plan: DryRun, as_json: bool) -> None:
    """Print the plan of `taskloom run --dry-run`."""
    if as_json:
        rows = [
            {"run": c.run, **_row(c), "present": c.run in plan.present, "failed": plan.failed.get(c.run)}
            for c in plan.cells
        ]
        emit({"cells": rows, "estimate": asdict(plan.estimate)})
        return
    from taskloom.experiments.execute.progress import duration

    console().print(table("runs", *_plan_table(plan)), "")
    e = plan.estimate
    missing = len(plan.cells) - len(plan.present)
    cost = f"about {duration(e.seconds)} of work for {e.known:,} of them" if e.known else ""
    unknown = f"unknown for {e.unknown:,} (the store has no finished run like them)" if e.unknown else ""
    costs = ", ".join(x for x in (cost, unknown) if x) or "nothing"
    runs = "1 run" if len(plan.cells) == 1 else f"{len(plan.cells):,} runs"
    print(f"{runs}, {len(plan.present):,} present, {missing:,} missing; cost: {costs}")


TASK = "recipe.task"
"""The field of a run on one of the tasks of a recipe. A plan counts them: a line for each of a hundred tasks hides the others."""

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
    for (recipe, learner, fields), differ, same in zip(firsts, _differing(firsts), kinds.values(), strict=True):
        others = {name: fields[name] for name in differ if name != TASK}
        task = fields[TASK] if TASK in differ else None
        groups.setdefault((recipe, learner, json.dumps(others)), []).append((task, same))
    heads = ("recipe", "learner", "fields that differ", "tasks", "seeds", "present", "failed before")
    lines = [(r, k, *_plan_cells(plan, json.loads(text), tasks)) for (r, k, text), tasks in groups.items()]
    shown = [i for i, head in enumerate(heads) if head != "tasks" or any(line[i] for line in lines)]
    return [heads[i] for i in shown], [[line[i] for i in shown] for line in lines]


def _plan_cells(plan: DryRun, fields: Mapping[str, Any], tasks: list[_Repeated]) -> tuple[Any, ...]:
    """Return a line of a plan, from its third column on, of one or several tasks that differ in nothing else."""
    cells = [cell for _, same in tasks for cell in same]
    shown = {name: _first_values(value) for name, value in fields.items()}
    if len(tasks) == 1 and tasks[0][0] is not None:
        shown[TASK] = tasks[0][0]
    seeds = " or ".join(str(n) for n in sorted({len(same) for _, same in tasks}))
    present, failed = (sum(cell.run in those for cell in cells) for those in (plan.present, plan.failed))
    return _as_text(shown), len(tasks) if len(tasks) > 1 else "", seeds, present, failed


def _first_values(value: Any) -> Any:
    return f"{value[0]} and {len(value) - 1} more" if isinstance(value, list) and len(value) > LISTED else value


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
            if len(values[recipe, learner, name]) > 1 or any(name not in other for other in counts[recipe, learner])
        )
        for recipe, learner, fields in rows
    ]


def _telling(rows: list[tuple[str, str, Mapping[str, Any]]]) -> list[str]:
    """Return the fields in which rows of one recipe and learner differ, as text."""
    differing = _differing(rows)
    return [_as_text({name: row[2][name] for name in names}) for row, names in zip(rows, differing, strict=True)]


def _as_text(fields: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.split('.', 1)[1]}={fields[name]}" for name in sorted(fields))


def _mean(runs: list[Any], split: str, name: str = "") -> str:
    entries = [r[split].get("scores", {}).get(name) if name else r[split]["score"] for r in runs if split in r]
    scores = [score for score in entries if score is not None]
    return percent(sum(scores) / len(scores)) if scores else "-"


def _row(cell: Any) -> dict[str, Any]:
    return {"recipe": cell.data.name, "learner": cell.learner_name, "fields": cell.fields, "seed": cell.seed}


def outcome(result: Outcome, command: str, as_json: bool) -> None:
    """Print the end of `taskloom run`: the scores, mean over seeds, and the reasons of what failed."""
    state = result.state
    scores = [result.store.scores(run) for run in result.runs]
    if as_json:
        rows = [{k: s[k] for k in ("run", "recipe", "learner", "fields", "seed", "splits")} for s in scores]
        emit({"store": str(result.store.path), "runs": rows, "failed": state.failed})
        return
    splits = list(dict.fromkeys(split for s in scores for split in s["splits"]))
    telling = _telling([(s["recipe"], s["learner"], s["fields"]) for s in scores])
    groups: dict[tuple[str, str, str], list[Any]] = {}
    for s, fields in zip(scores, telling, strict=True):
        groups.setdefault((s["recipe"], s["learner"], fields), []).append(s["splits"])
    suite = sorted(
        {(split, k) for s in scores for split, entry in s["splits"].items() for k in entry.get("scores", {})}
    )
    shown = [(split, "") for split in splits] + suite
    lines = [(*key, len(same), *(_mean(same, *column) for column in shown)) for key, same in groups.items()]
    if lines:
        heads = (
            "recipe",
            "learner",
            "fields that differ",
            "seeds",
            *(f"{split} {name}".strip() for split, name in shown),
        )
        console().print(table("mean scores", heads, lines), "")
    print(f"{state.before:,} runs were there, {state.done:,} are new, in {result.store.path}")
    if state.failed:
        print(f"{len(state.failed):,} failed; '{command}' retries just those:")
        for line in _reasons(result):
            print(f"  {line}")


def _reasons(result: Outcome) -> Iterator[str]:
    """Yield a line for each reason of failures: once, however many runs it stopped."""
    cells = {cell.run: cell for cell in result.cells}
    by_reason: dict[str, list[Cell]] = {}
    for run, why in result.state.failed.items():
        by_reason.setdefault(why, []).append(cells[run])
    for why, stopped in itertools.islice(by_reason.items(), MOST_REASONS):
        if len(stopped) == 1:
            yield f"{stopped[0]} ({stopped[0].run[:8]}…): {why}"
        else:
            kinds = list(dict.fromkeys(f"{cell.learner_name} on {cell.data.name}" for cell in stopped))
            more = f" and {len(kinds) - 4} more" if len(kinds) > 4 else ""
            yield f"{len(stopped):,} runs ({', '.join(kinds[:4])}{more}): {why}"
    if len(by_reason) > MOST_REASONS:
        yield f"and {len(by_reason) - MOST_REASONS} other reasons, in {result.store.path / 'work' / 'failed'}"


def results(rows: ResultTable, as_json: bool) -> None:
    """Print the answer to a question about runs."""
    if as_json:
        emit(rows.to_dicts())
    else:
        print(rows)


def rescored(changes: list[Change], scorer: str, as_json: bool) -> None:
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
            [x for x in values if x is not None] for values in zip(*((c.before, c.after) for c in same), strict=True)
        ]
        shown = [percent(sum(m) / len(m)) if m else "-" for m in means]
        lines.append((*key, len(same), *shown, sum(c.changed for c in same)))
    heads = ("recipe", "learner", "split", "runs", "before", "after", "examples changed")
    console().print(table(f"scores by {scorer}", heads, lines))


def run_verification(result: RunVerification, store: Path, as_json: bool) -> None:
    """Print the result of `taskloom verify` on a folder of runs."""
    if as_json:
        emit({"folder": str(store), "ok": not result.wrong, **result.to_dict()})
        return
    print(f"{store}: {result.runs:,} runs, {result.answers:,} answers scored again: {len(result.wrong)} differences")
    for wrong in result.wrong[:10]:
        print(f"  {wrong}")
    if result.without:
        print(f"{result.without:,} runs kept no predictions, so nothing can be checked")
    if result.unscored:
        run, why = next(iter(result.unscored.items()))
        print(f"{len(result.unscored):,} runs: only sums were checked; the first, {run[:8]}…: {why}")


def power(question: PowerQuestion, examples: int | None, seeds: int | None, as_json: bool) -> None:
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
            (*sizes, "-" if row["power"] is None else percent(row["power"]), smallest)[: 3 + ("smallest_gap" in row)]
        )
    heads = ("seeds of each", "examples", "power", "smallest gap found")[: len(shown[0])]
    out = console()
    other = question.accuracy + question.gap
    out.print(f"[bold]to tell {question.accuracy:g} from {other:g} at alpha {question.alpha:g}[/bold]")
    out.print(table("", heads, shown))
    if any(row["seeds"] == 1 for row in rows):
        out.print("\nOne seed each compares two trained models; whether the two learners differ takes several seeds.")
