"""What there is and what it looks like: lists, examples, answers, resources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from taskloom.arguments import path_of
from taskloom.cli.output import cell, console, emit, printable, table
from taskloom.errors import TaskloomError, nearest
from taskloom.example import Answer, Example

BAR = " | "
"""Between several values of one thing."""


LONGEST_SHOWN = 40_000
"""Characters of an example that are laid out for people, which takes about a second; no suite makes an example that long."""

LISTED = 20
"""Values that people are shown before the rest is only counted."""


def listing(what: str, as_json: bool) -> None:
    """Print what `taskloom list` lists."""
    from taskloom import learners, registry, scoring
    from taskloom.recipe import read
    from taskloom.recipe.finder import counting_order

    def recipes() -> list[tuple[str, str]]:
        files = [(n, read(n).describe) for s in registry.SUITES for n in s.recipe_files()]
        return sorted(files, key=lambda row: counting_order(row[0]))

    def scorers() -> list[tuple[str, str]]:
        registry.SUITES.names()  # suites make their own scorers known when they are imported
        return [
            (n, getattr(s, "describe", "") or (type(s).__doc__ or "").split("\n")[0])
            for n, s in scoring.SCORERS.items()
        ]

    def studies() -> list[tuple[str, str]]:
        from taskloom.studies import STUDIES

        return [(s.name, s.describe) for s in STUDIES]

    kinds: dict[str, Callable[[], list[tuple[str, str]]]] = {
        "suites": lambda: [(s.name, s.describe) for s in registry.SUITES],
        "recipes": recipes,
        "tasks": lambda: [(t.name, t.describe) for t in registry.TASKS],
        "learners": lambda: [(entry.name, entry.describe) for entry in learners.LEARNERS],
        "scorers": scorers,
        "studies": studies,
    }
    if what and what not in kinds:
        if learners.LEARNERS.find(what) is None:
            raise TaskloomError(f"there is no list of '{what}'; {nearest(what, [*kinds, *learners.LEARNERS.names()])}")
        learner_settings(what, as_json)
        return
    chosen = [what] if what else list(kinds)
    listed = {kind: kinds[kind]() for kind in chosen}
    if as_json:
        emit({kind: [{"name": n, "describe": d} for n, d in rows] for kind, rows in listed.items()})
        return
    out = console()
    for kind, rows in listed.items():
        if rows:
            out.print(table(kind, ("name", "what it is"), rows), "")


def is_learner(name: str) -> bool:
    """Return whether a name with a slash or a file is that of a learner; a file with a task counts as the task's."""
    from taskloom.learners import LEARNERS
    from taskloom.registry import TASKS, is_python, load_module

    if not is_python(name):
        return LEARNERS.find(name) is not None
    path, _, wanted = name.partition("::")
    home = load_module(Path(path))
    learners = LEARNERS.of(home)
    return wanted in learners if wanted else bool(learners) and not TASKS.of(home)


def learner_settings(learner: str, as_json: bool) -> None:
    """Print what may be set of a learner, with defaults and meanings."""
    from taskloom.learners.config import SAMPLE, settings, size

    values, numbers = settings(learner), size(learner)
    sizes = {} if numbers is None else {"parameters": {"trained": numbers, "words": SAMPLE[0], "answers": SAMPLE[1]}}
    if as_json:
        emit({learner: [{"name": n, "default": d, "describe": m} for n, d, m in values], **sizes})
    elif not values:
        console().print(f"{learner} has no settings")
    else:
        rows = [(n, repr(d) if isinstance(d, str) else str(d), m) for n, d, m in values]
        console().print(table(f"settings of {learner}", ("name", "default", "what it is"), rows))
        if numbers is not None:
            console().print(f"{numbers:,} trainable numbers with {SAMPLE[0]} words and {SAMPLE[1]} answers")


def recipe_tasks(name: str, changes: Iterable[str], as_json: bool) -> None:
    """Print the tasks of a recipe, with what its suite knows of each."""
    from taskloom.recipe import read

    recipe = read(name, changes)
    plan = recipe.plan()
    tasks = plan.tasks
    if tasks.names is None and tasks.tell is not None:
        place = "task" if tasks.by == "task" else f"trait '{tasks.by}'"
        raise TaskloomError(
            f"the tasks of {name} are not listed: each example says its own, in its {place}; write taskloom show {name}"
        )
    descriptions = {
        name: tasks.tell(name, "instruction") if tasks.tell else plan.describe for name in tasks.names or [recipe.name]
    }
    facts = {name: tasks.facts(name) if tasks.facts else {} for name in descriptions}
    if as_json:
        rows = [{"name": name, "describe": text, **facts[name]} for name, text in descriptions.items()]
        sources = {source.name: source.digest for source in plan.sources}
        emit({"recipe": name, "tasks": rows, "left_out": dict(plan.left_out), "sources": sources})
        return
    if tasks.facts is None:
        grid = table(f"tasks of {name}", ("name", "what it asks"), descriptions.items())
    else:
        heads = ("name", *next(iter(facts.values())))
        lines = [
            (name, *(f"{v:.3g}" if isinstance(v, float) else v for v in known.values()))
            for name, known in facts.items()
        ]
        grid = table(f"tasks of {name}", heads, lines)
    out = console()
    out.print(grid)
    for source in plan.sources:
        out.print(f"made from: {cell(source.name)}, digest {source.digest[:12]}")
    for warning in plan.warnings:
        out.print(f"note: {cell(warning)}")


def views(name: str, chosen: Iterable[str], changes: Iterable[str], as_json: bool, task: Path | None = None) -> None:
    """Print the tasks of a recipe, or of a dataset's recipe, in other forms that their suite offers."""
    from taskloom.dataset import dataset
    from taskloom.recipe import read
    from taskloom.registry import SUITES

    folder = Path(name)
    recipe = dataset.load(folder).recipe_by(task) if folder.is_dir() else read(name, changes)
    for view in chosen:
        if view not in recipe.suite.views:
            owners = " and ".join(s.name for s in SUITES if view in s.views)
            raise TaskloomError(f"--{view} is for {owners}, not for {name}")
        for title, text in recipe.suite.views[view].texts(recipe.fields).items():
            if as_json:
                emit({"task": title, view: text})
            else:
                print(f"# {title}\n{text}")


def examples(
    name: str,
    n: int,
    split: str | None,
    start: int,
    seed: int | None,
    changes: Iterable[str],
    as_json: bool,
    task: Path | None = None,
) -> None:
    """Print the examples of `taskloom show`."""
    from taskloom.dataset import dataset, shards
    from taskloom.recipe import read

    show: Callable[[Example], Any] | None = None
    several = False
    if path_of(name).is_dir():
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
            with nullcontext() if task else suppress(TaskloomError):
                show = data.recipe_by(task).plan(data.manifest["seed"]).show
    elif task is not None:
        raise TaskloomError(f"--task goes with the folder of a dataset; {name} is a recipe")
    else:
        plan = read(name, changes).plan(seed)
        part = plan.split(split) if split else plan.splits[0]
        chosen, total, about, show = part.name, part.n, plan.describe, plan.show
        stop = min(start + n, total)
        rows = shards.to_table(part.rows(start, stop) if start < stop else [], start, plan.traits)
    if start >= total:
        raise TaskloomError(f"{name}: split '{chosen}' has {total:,} examples; --start {start} is beyond the last")
    shown = list(shards.to_examples(rows))
    if as_json:
        for i, example in enumerate(shown):
            emit({"split": chosen, "index": start + i, **_as_dict(example)})
        return
    out = console()
    head = f"[bold]{cell(name)}[/bold], split {cell(chosen)}, {total:,} examples. {cell(about)}\n"
    out.print(head.replace("\n\n", "\n"))
    for i, example in enumerate(shown):
        out.print(f"[bold]{cell(chosen)} {start + i}[/bold]")
        brief = _shortened(example)
        # A suite shows what it made itself; an example whose texts were cut is shown plainly.
        shape = show if brief is example else None
        out.print(shape(_printable(brief)) if shape else plain(_printable(brief), several), "")


def _shortened(example: Example) -> Example:
    """Return the example with long texts cut: wrapping and colouring megabytes takes minutes. --json prints them whole."""
    if len(example.input) + sum(map(len, example.targets)) <= LONGEST_SHOWN:
        return example
    return replace(example, input=_cut(example.input), targets=tuple(map(_cut, example.targets[: LISTED + 1])))


def _cut(text: str) -> str:
    if len(text) <= LONGEST_SHOWN // 4:
        return text
    return f"{text[: LONGEST_SHOWN // 4]} … ({len(text):,} characters; --json prints all)"


def _printable(example: Example) -> Example:
    """Return the example with terminal escapes in its texts shown by their codes."""
    return replace(
        example,
        input=printable(example.input),
        targets=tuple(map(printable, example.targets)),
        traits={printable(k): printable(v) if isinstance(v, str) else v for k, v in example.traits.items()},
        question=example.question and printable(example.question),
        derivation=tuple(replace(s, rule=printable(s.rule), value=printable(s.value)) for s in example.derivation),
        task=printable(example.task),
    )


def plain(example: Example, named: bool = False) -> str:
    """Format an example as text: its task where there are several, input, answers, derivation, traits."""
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
    fields = {
        "task": example.task,
        "input": example.input,
        "targets": list(example.targets),
        "traits": dict(example.traits),
        "derivation": [asdict(s) for s in example.derivation],
    }
    if example.question:
        fields["question"] = example.question
    return fields


def answer(text: str, result: Answer, as_json: bool) -> None:
    """Print one line of `taskloom apply`."""
    if as_json:
        emit({"input": text, "targets": list(result.targets), "derivation": [asdict(s) for s in result.derivation]})
    else:
        steps = ", ".join(f"{s.rule} → {_few(s.value.split(BAR))}" for s in result.derivation)
        print(_few(result.targets) + (f"    ({steps})" if steps else ""))


def _few(values: Sequence[str]) -> str:
    """Join the first values; a function may have thousands, and --json has them all."""
    more = len(values) - LISTED
    return BAR.join(values[:LISTED]) + (f" and {more:,} more" if more > 0 else "")


def resource_status(as_json: bool) -> None:
    """Print the table of `taskloom data status`."""
    from taskloom.resources import resources

    rows = [(r.name, r.find(), r.fetch is not None, r.describe) for r in resources().values()]
    if as_json:
        emit([{"name": n, "found": str(p) if p else None, "fetchable": f, "describe": d} for n, p, f, d in rows])
        return
    lines = [
        (n, str(p) if p else ("missing: taskloom data get " + n if f else "missing: set TASKLOOM_DATA"), d)
        for n, p, f, d in rows
    ]
    console().print(table("resources", ("name", "where", "what it is"), lines))
