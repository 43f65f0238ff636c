"""What the command line prints: tables for people, JSON for machines. Nothing here computes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from taskloom.errors import TaskloomError, nearest
from taskloom.example import Answer, Example

if TYPE_CHECKING:
    from taskloom.auditing import Audit
    from taskloom.dataset import Dataset
    from taskloom.experiments.api import Look, Outcome
    from taskloom.experiments.rescoring import Change
    from taskloom.experiments.statistics import Question
    from taskloom.making import Progress
    from taskloom.verifying import Verification

BAR = " | "
"""Between several values of one thing."""

LISTED = 20
"""Values that people are shown before the rest is only counted."""

PLAIN_EVERY = 5.0
"""Seconds between two progress lines where the output is no terminal."""


def console() -> Console:
    """A console on standard output; wide where the output is not a terminal, so that nothing is cut."""
    return Console(width=None if sys.stdout.isatty() else 150, highlight=False, soft_wrap=False)


def emit(value: Any) -> None:
    """One JSON value on one line."""
    print(json.dumps(value, ensure_ascii=False))


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> Table:
    """A table in the one style that we use."""
    made = Table(
        title=_cell(title), title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    for i, column in enumerate(columns):
        made.add_column(column, overflow="fold", no_wrap=i == 0)
    for row in rows:
        made.add_row(*(_cell(value) for value in row))
    return made


def _cell(value: Any) -> str:
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return text.replace("[", r"\[")


def percent(value: float) -> str:
    """A share with one decimal."""
    return f"{100 * value:.1f} %"


def listing(what: str, as_json: bool) -> None:
    """`taskloom list`."""
    from taskloom import learners, recipe, registry, scoring

    def recipes() -> list[tuple[str, str]]:
        files = [(n, recipe.read(n).describe) for s in registry.SUITES for n in s.recipe_files()]
        return sorted(files)

    def scorers() -> list[tuple[str, str]]:
        registry.SUITES.names()  # suites make their own scorers known when they are imported
        return [(n, (type(s).__doc__ or "").split("\n")[0]) for n, s in scoring.SCORERS.items()]

    kinds: dict[str, Callable[[], list[tuple[str, str]]]] = {
        "suites": lambda: [(s.name, s.describe) for s in registry.SUITES],
        "recipes": recipes,
        "tasks": lambda: [(t.name, t.describe) for t in registry.TASKS],
        "learners": lambda: [(entry.name, entry.describe) for entry in learners.LEARNERS],
        "scorers": scorers,
    }
    if what and what not in kinds:
        if learners.LEARNERS.find(what) is None:
            raise TaskloomError(f"there is no list of '{what}'; {nearest(what, [*kinds, *learners.LEARNERS.names()])}")
        _settings(what, as_json)
        return
    chosen = [what] if what else list(kinds)
    found = {kind: kinds[kind]() for kind in chosen}
    if as_json:
        emit({kind: [{"name": n, "describe": d} for n, d in rows] for kind, rows in found.items()})
        return
    out = console()
    for kind, rows in found.items():
        if rows:
            out.print(table(kind, ("name", "what it is"), rows), "")


def _settings(learner: str, as_json: bool) -> None:
    from taskloom.learners.config import settings

    found = settings(learner)
    if as_json:
        emit({learner: [{"name": n, "default": d, "describe": m} for n, d, m in found]})
    else:
        rows = [(n, repr(d) if isinstance(d, str) else str(d), m) for n, d, m in found]
        console().print(table(f"settings of {learner}", ("name", "default", "what it is"), rows))


def examples(
    name: str, n: int, split: str | None, start: int, seed: int | None, changes: Iterable[str], as_json: bool
) -> None:
    """`taskloom show`."""
    from taskloom import dataset, shards
    from taskloom.recipe import read

    show: Callable[[Example], Any] | None = None
    several = False
    if Path(name).is_dir():
        if seed is not None or tuple(changes):
            raise TaskloomError(f"{name} is made already: --seed and --set go with a recipe")
        data = dataset.load(name)
        chosen = split or data.splits[0]
        total = int(data.table(chosen).num_rows)
        rows = data.table(chosen).slice(start, n)
        about = str(data.manifest.get("describe", ""))
        several = "task" in data.table(chosen).column_names and len(data.table(chosen).column("task").unique()) > 1
        if "seed" in data.manifest and not as_json:
            # Made from files that are no longer there, or by a task that is not: then it is shown plainly.
            with suppress(TaskloomError):
                show = data.recipe.plan(data.manifest["seed"]).show
    else:
        plan = read(name, changes).plan(seed)
        part = plan.split(split) if split else plan.splits[0]
        chosen, total, about, show = part.name, part.n, plan.describe, plan.show
        stop = min(start + n, total)
        rows = shards.to_table(part.rows(start, stop) if start < stop else [], start, plan.traits)
    if start >= total:
        raise TaskloomError(f"{name}: split '{chosen}' has {total:,} examples; --start {start} is beyond the last")
    found = list(shards.to_examples(rows))
    if as_json:
        for i, example in enumerate(found):
            emit({"split": chosen, "index": start + i, **_as_dict(example)})
        return
    out = console()
    head = f"[bold]{_cell(name)}[/bold], split {chosen}, {total:,} examples. {_cell(about)}\n"
    out.print(head.replace("\n\n", "\n"))
    for i, example in enumerate(found):
        out.print(f"[bold]{chosen} {start + i}[/bold]")
        out.print(show(example) if show else plain(example, several), "")


def plain(example: Example, named: bool = False) -> str:
    """An example as text: its task where there are several, input, answers, derivation, traits."""
    lines = [f"  task     {example.task}"] if named else []
    lines += [f"  input    {_indent(example.input)}", f"  answer   {_few(example.targets)}"]
    if example.derivation:
        lines.append("  because  " + ", ".join(f"{s.rule} → {s.value}" for s in example.derivation))
    if example.traits:
        lines.append("  traits   " + ", ".join(f"{k}={v}" for k, v in example.traits.items()))
    return "\n".join(lines).replace("[", r"\[")


def _indent(text: str) -> str:
    return text.replace("\n", "\n           ")


def _as_dict(example: Example) -> dict[str, Any]:
    found = {
        "task": example.task,
        "input": example.input,
        "targets": list(example.targets),
        "traits": dict(example.traits),
        "derivation": [asdict(s) for s in example.derivation],
    }
    if example.question:
        found["question"] = example.question
    return found


def answer(text: str, found: Answer, as_json: bool) -> None:
    """One line of `taskloom apply`."""
    if as_json:
        emit({"input": text, "targets": list(found.targets), "derivation": [asdict(s) for s in found.derivation]})
    else:
        steps = ", ".join(f"{s.rule} → {_few(s.value.split(BAR))}" for s in found.derivation)
        print(_few(found.targets) + (f"    ({steps})" if steps else ""))


def _few(values: Sequence[str]) -> str:
    """The first values; a function may have thousands, and --json has them all."""
    more = len(values) - LISTED
    return BAR.join(values[:LISTED]) + (f" and {more:,} more" if more > 0 else "")


@contextmanager
def progress() -> Iterator[Callable[[Progress], None]]:
    """Progress and time left on standard error: a bar on a terminal, a line every few seconds elsewhere."""
    if sys.stderr.isatty():
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
            line = bar.add_task("making", total=None)
            yield lambda p: bar.update(line, description=p.split, completed=p.done, total=p.total)
        return
    last = time.monotonic()

    def say(p: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= PLAIN_EVERY:
            last = time.monotonic()
            left = p.seconds / p.done * (p.total - p.done) if p.done else 0
            print(f"{p.split}: {p.done:,} of {p.total:,} rows, about {left:.0f} s left", file=sys.stderr)

    yield say


def made(data: Dataset, folder: Path, as_json: bool) -> None:
    """The end of `taskloom make`."""
    m = data.manifest
    if as_json:
        splits = {n: {"n": e["n"], "role": e["role"], "digest": e["digest"]} for n, e in m["splits"].items()}
        emit(
            {
                "folder": str(folder),
                "digest": data.digest,
                "recipe_digest": m["recipe_digest"],
                "seed": m["seed"],
                "splits": splits,
                "warnings": m["warnings"],
                "left_out": m["left_out"],
            }
        )
        return
    out = console()
    rows = [(name, e["n"], e["role"], e["describe"]) for name, e in m["splits"].items()]
    out.print(table(f"{m['recipe']['name']}, seed {m['seed']}", ("split", "examples", "role", "what"), rows))
    for warning in m["warnings"]:
        out.print(f"note: {_cell(warning)}")
    out.print(f"\nin {_cell(folder)}, digest {data.digest}", soft_wrap=True)


def verification(found: Verification, folder: Path, as_json: bool) -> None:
    """`taskloom verify`."""
    if as_json:
        emit({"folder": str(folder), "ok": not found.wrong, **found.to_dict()})
        return
    print(f"{folder}: {found.rows:,} rows have the bytes of the manifest (digest {found.digest})")
    print(f"{found.answers:,} answers derived again by {found.method}: {len(found.wrong)} differ")
    for wrong in found.wrong[:10]:
        print(f"  {wrong.split} {wrong.index}: {wrong.input!r} has {list(wrong.stored)}, solved {list(wrong.solved)}")


def certificate(found: Audit, as_json: bool) -> None:
    """`taskloom audit`."""
    if as_json:
        emit(found.to_dict())
        return
    out = console()
    print(f"audit of {found.name} {f'(digest {found.digest})' if found.digest else ''}\n")
    for section in (_splits, _overlaps, _shortcuts, _coverage, _divergence):
        made = section(found)
        if made is not None:
            out.print(made, "")
    for note in found.notes:
        print(f"note: {note}")
    short = sum(s.flagged for s in found.shortcuts)
    trained = any(info["role"] == "train" for info in found.splits.values())
    leaks = f"{len(found.leaks)} leaks" if trained else "leaks were not looked for"
    print(f"{leaks}, {sum(r.exact for r in found.repeats):,} duplicates, {short} shortcuts")


def _splits(found: Audit) -> Table:
    repeats = {r.split: r for r in found.repeats}
    balance = {b.split: b for b in found.balance}
    rows = []
    for split, info in found.splits.items():
        r, b = repeats[split], balance.get(split)
        spread = (b.answers, percent(b.majority), f"{b.evenness:.3f}") if b else ("-", "-", "-")
        rows.append((split, info["role"], info["n"], r.exact, r.near, r.contradictions, *spread))
    heads = ("split", "role", "examples", "duplicates", "near", "contradictions", "answers", "majority", "evenness")
    return table("splits: duplicates within, balance of the answers", heads, rows)


def _overlaps(found: Audit) -> Table | None:
    rows = []
    for o in found.overlaps:
        verdict = "LEAK" if o.leak else "by design" if o.by_design else "note"
        rows.append((o.split, o.other, o.exact, o.near, percent(o.share), verdict, "; ".join(o.examples[:1])[:60]))
    heads = ("rows of", "also in", "exact", "near", "share", "verdict", "for example")
    return table("overlaps between splits", heads, rows) if rows else None


def _shortcuts(found: Audit) -> Table | None:
    names = list(dict.fromkeys(s.baseline for s in found.shortcuts))
    score = {(s.split, s.baseline): percent(s.accuracy) + (" SHORTCUT" if s.flagged else "") for s in found.shortcuts}
    splits = dict.fromkeys(s.split for s in found.shortcuts)
    rows = [(split, *(score[split, b] for b in names)) for split in splits]
    return table("shortcuts: accuracy without doing the task", ("split", *names), rows) if rows else None


def _coverage(found: Audit) -> Table | None:
    rows = [
        (c.split, c.trait, c.values, c.unseen_values, percent(c.unseen_rows), ", ".join(c.examples[:3]))
        for c in found.coverage
        if c.unseen_values
    ]
    heads = ("split", "trait", "values", "not in training", "rows", "for example")
    return table("coverage: traits that training lacks", heads, rows) if rows else None


def _divergence(found: Audit) -> Table | None:
    rows = [(d.split, f"{d.atoms:.3f}", f"{d.compounds:.3f}", percent(d.unseen_compounds)) for d in found.divergence]
    heads = ("split", "atoms", "compounds", "compounds not in training")
    return table("divergence from training: 0 equal, 1 disjoint", heads, rows) if rows else None


def power(question: Question, examples: int | None, seeds: int | None, as_json: bool) -> None:
    """`taskloom power`."""
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


def resource_status(as_json: bool) -> None:
    """`taskloom data status`."""
    from taskloom.resources import RESOURCES

    rows = [(r.name, r.find(), r.fetch is not None, r.describe) for r in RESOURCES.values()]
    if as_json:
        emit([{"name": n, "found": str(p) if p else None, "fetchable": f, "describe": d} for n, p, f, d in rows])
        return
    lines = [
        (n, str(p) if p else ("missing: taskloom data get " + n if f else "missing: set TASKLOOM_DATA"), d)
        for n, p, f, d in rows
    ]
    console().print(table("resources", ("name", "where", "what it is"), lines))


def experiment(found: Look, as_json: bool) -> None:
    """`taskloom run --dry-run`."""
    if as_json:
        rows = [
            {"run": c.run, **_row(c), "present": c.run in found.present, "failed": found.failed.get(c.run)}
            for c in found.cells
        ]
        emit({"cells": rows, "estimate": asdict(found.estimate)})
        return
    from taskloom.experiments.watching import spell

    kinds: dict[str, list[Any]] = {}
    for cell in found.cells:
        kinds.setdefault(cell.kind, []).append(cell)
    firsts = [same[0] for same in kinds.values()]
    telling = _telling([(c.data.name, c.learner_name, c.fields) for c in firsts])
    lines = []
    for first, fields, same in zip(firsts, telling, kinds.values(), strict=True):
        present = sum(c.run in found.present for c in same)
        failed = sum(c.run in found.failed for c in same)
        lines.append((first.data.name, first.learner_name, fields, len(same), present, failed))
    heads = ("recipe", "learner", "fields that differ", "seeds", "present", "failed before")
    console().print(table("cells", heads, lines), "")
    e = found.estimate
    missing = len(found.cells) - len(found.present)
    cost = f"about {spell(e.seconds)} of work for {e.known:,} of them" if e.known else ""
    unknown = f"unknown for {e.unknown:,}, of learners that have not run here" if e.unknown else ""
    said = ", ".join(x for x in (cost, unknown) if x) or "nothing"
    print(f"{len(found.cells):,} runs, {len(found.present):,} present, {missing:,} missing; cost: {said}")


def _telling(rows: list[tuple[str, str, Mapping[str, Any]]]) -> list[str]:
    """The fields in which rows of one recipe and learner differ, as text."""
    values: dict[tuple[str, str, str], set[str]] = {}
    for recipe, learner, fields in rows:
        for name, value in fields.items():
            values.setdefault((recipe, learner, name), set()).add(json.dumps(value))
    counts: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for recipe, learner, fields in rows:
        counts.setdefault((recipe, learner), []).append(fields)
    said = []
    for recipe, learner, fields in rows:
        same = counts[recipe, learner]
        differ = [k for k in fields if len(values[recipe, learner, k]) > 1 or any(k not in other for other in same)]
        said.append(", ".join(f"{k.split('.', 1)[1]}={fields[k]}" for k in sorted(differ)))
    return said


def _mean(runs: list[Any], split: str) -> str:
    found = [r[split]["score"] for r in runs if split in r and r[split]["score"] is not None]
    return percent(sum(found) / len(found)) if found else "-"


def _row(cell: Any) -> dict[str, Any]:
    return {"recipe": cell.data.name, "learner": cell.learner_name, "fields": cell.fields, "seed": cell.seed}


def outcome(found: Outcome, command: str, as_json: bool) -> None:
    """The end of `taskloom run`: the scores, mean over seeds, and the reasons of what failed."""
    state = found.state
    scores = [found.store.scores(run) for run in found.runs]
    if as_json:
        rows = [{k: s[k] for k in ("run", "recipe", "learner", "fields", "seed", "splits")} for s in scores]
        emit({"store": str(found.store.path), "runs": rows, "failed": state.failed})
        return
    splits = list(dict.fromkeys(split for s in scores for split in s["splits"]))
    telling = _telling([(s["recipe"], s["learner"], s["fields"]) for s in scores])
    groups: dict[tuple[str, str, str], list[Any]] = {}
    for s, fields in zip(scores, telling, strict=True):
        groups.setdefault((s["recipe"], s["learner"], fields), []).append(s["splits"])
    lines = [(*key, len(same), *(_mean(same, split) for split in splits)) for key, same in groups.items()]
    if lines:
        heads = ("recipe", "learner", "fields that differ", "seeds", *splits)
        console().print(table("mean scores", heads, lines), "")
    print(f"{state.before:,} runs were there, {state.done:,} are new, in {found.store.path}")
    if state.failed:
        names = {cell.run: str(cell) for cell in found.cells}
        print(f"{len(state.failed):,} failed; '{command}' retries just those:")
        for run, why in list(state.failed.items())[:20]:
            print(f"  {names[run]} ({run[:8]}…): {why}")


def rescored(changes: list[Change], scorer: str, as_json: bool) -> None:
    """`taskloom rescore`: means before and after."""
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
