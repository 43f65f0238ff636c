"""Printing examples, answers and resources: `tl.show`, and the commands show, apply and data.

It is separate from the command line, because `tl.show` must work without one.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taskloom.core.errors import ParameterError, TaskloomError, whole
from taskloom.core.example import Answer, Example
from taskloom.core.tables import console, emit, plain_text, printable, table

if TYPE_CHECKING:
    from taskloom.core.plan import Plan, Propose, Variant
    from taskloom.data import Dataset, Examples
    from taskloom.recipe import Recipe
    from taskloom.recipe.overrides import Changes
    from taskloom.recipe.tasks import Task

BAR = " | "
"""Separator between several values of one field."""


LONGEST_SHOWN = 40_000
"""Maximum characters of an example to lay out for the terminal, which takes about a second. No
suite makes an example this long.
"""

MOST_SHOWN = 10_000
"""Maximum number of examples to print. They are held in memory, and a split can have 20 million."""

LISTED = 20
"""Maximum values to print. The rest is only counted."""


def views(
    name: str,
    chosen: Iterable[str],
    changes: Iterable[str],
    as_json: bool,
    task: Path | None = None,
) -> None:
    """Print the tasks of a recipe, or of a dataset's recipe, in other forms its suite offers."""
    from taskloom.core.registry import SUITES
    from taskloom.data import dataset
    from taskloom.recipe import read

    made = _is_folder(name)
    recipe = dataset.load(name).recipe_by(task) if made else read(name, changes)
    for view in chosen:
        if view not in recipe.suite.views:
            owners = " and ".join(s.name for s in SUITES if view in s.views)
            raise ParameterError(view, f"is for {owners}, not for {name}")
        for title, text in recipe.suite.views[view].texts(recipe.fields).items():
            if as_json:
                emit({"task": title, view: text})
            else:
                print(f"# {title}\n{text}")


@dataclass(frozen=True, slots=True)
class Shown:
    """Some rows of a split, and how to show them.

    Attributes:
        name: Name of the recipe or dataset.
        split: Name of the split.
        start: Index of the first row.
        total: Number of rows of the whole split.
        about: Description of the split.
        rows: The rows.
        shape: Function by which the suite formats an example; None for the plain format.
        several: True if the split has several tasks.
        variants: Lists the variants of an example; None if they are not shown.
    """

    name: str
    split: str
    start: int
    total: int
    about: str
    rows: list[Example]
    shape: Callable[[Example], Any] | None
    several: bool = False
    variants: Propose | None = None


def show(
    what: str | Path | Mapping[str, Any] | Recipe | Task | Dataset | Examples,
    n: int = 3,
    split: str | None = None,
    start: int = 0,
    *,
    seed: int | None = None,
    changes: Changes = None,
    set: Changes = None,
) -> None:
    """Print examples in readable form, with the derivation of each answer, as `taskloom show` does.

    Args:
        what: A dataset or one of its splits, the folder of a dataset, or a recipe in any form that
            `make` takes.
        n: Number of examples.
        split: Name of the split. Default: the first.
        start: Index of the first example.
        seed: Random seed, for a recipe.
        changes: Changes of the fields, for a recipe.
        set: Another name for `changes`.
    """
    from taskloom.data import Dataset, Examples, load
    from taskloom.recipe.overrides import given_changes

    changes = given_changes(changes, set)
    n, start = _shown(whole(n, "n", least=0)), whole(start, "start", least=0)
    if isinstance(what, str | Path) and _is_folder(what):
        what = load(what)
    if isinstance(what, Examples):
        what = Dataset(
            {
                **what.manifest,
                "recipe": what.manifest.get("recipe", {}),
                "splits": {what.name: {"n": len(what)}},
            },
            {what.name: what.table},
        )
    if isinstance(what, Dataset):
        if seed is not None or changes:
            raise TaskloomError("the dataset exists already; seed and changes are for a recipe")
        _print(
            _of_dataset(
                what,
                str(what.manifest.get("recipe", {}).get("name", "")),
                n,
                split,
                start,
                None,
                True,
            )
        )
    else:
        _print(_of_recipe(what, n, split, start, seed, changes))


def examples(
    name: str,
    n: int,
    split: str | None,
    start: int,
    seed: int | None,
    changes: Iterable[str],
    as_json: bool,
    task: Path | None = None,
    variants: bool = False,
) -> None:
    """Print the examples of `taskloom show`, optionally with their variants."""
    from taskloom.data import load

    n = _shown(n)
    if _is_folder(name):
        if seed is not None or tuple(changes):
            parameter = "set" if tuple(changes) else "seed"
            raise ParameterError(parameter, f"is for a recipe, and {name} is an existing dataset")
        shown = _of_dataset(load(name), name, n, split, start, task, not as_json, variants)
    elif task is not None:
        raise ParameterError("task", f"is for the folder of a dataset, and {name} is a recipe")
    else:
        shown = _of_recipe(name, n, split, start, seed, tuple(changes), variants)
    if not as_json:
        _print(shown)
        return
    for i, example in enumerate(shown.rows):
        fields = _as_dict(example)
        if shown.variants is not None:
            fields["variants"] = list(map(_variant_as_dict, shown.variants(example)))
        emit({"split": shown.split, "index": start + i, **fields})


def _is_folder(name: str | Path) -> bool:
    """True if the path is a folder. Some recipes have names that are too long for a path."""
    return os.path.isdir(os.path.expanduser(name))


def _shown(n: int) -> int:
    """Raise an error if the number of examples to print is too large."""
    if n > MOST_SHOWN:
        raise ParameterError(
            "n", f"must be at most {MOST_SHOWN:,}, not {n:,}; `taskloom make` writes more examples"
        )
    return n


def _of_dataset(
    data: Dataset,
    name: str,
    n: int,
    split: str | None,
    start: int,
    task: Path | None,
    shaped: bool,
    variants: bool = False,
) -> Shown:
    chosen = split or data.splits[0]
    rows = data[chosen]
    _check_start(name, chosen, start, len(rows))
    tasks = rows.table.column("task").unique() if "task" in rows.table.column_names else ()
    shape: Callable[[Example], Any] | None = None
    if "seed" in data.manifest and shaped:
        # The dataset's files are gone, or its task is not installed: show it in the plain format.
        with nullcontext() if task else suppress(TaskloomError):
            shape = data.recipe_by(task).plan(data.manifest["seed"]).show
    about = str(data.manifest.get("describe", ""))
    part = list(rows[start : start + n])
    vary = None
    if variants:
        vary = _variants_of(data.recipe_by(task).plan(data.manifest.get("seed")), name)
    return Shown(name, chosen, start, len(rows), about, part, shape, len(tasks) > 1, vary)


def _of_recipe(
    recipe: str | Path | Mapping[str, Any] | Recipe | Task,
    n: int,
    split: str | None,
    start: int,
    seed: int | None,
    changes: Changes,
    variants: bool = False,
) -> Shown:
    from taskloom.core import shards
    from taskloom.recipe import Recipe, read

    checked = recipe if isinstance(recipe, Recipe) else read(recipe, changes)
    plan = checked.plan(seed)
    part = plan.split(split) if split else plan.splits[0]
    _check_start(checked.name, part.name, start, part.n)
    rows = shards.to_table(part.rows(start, min(start + n, part.n)), start, plan.traits)
    return Shown(
        checked.name,
        part.name,
        start,
        part.n,
        plan.describe,
        list(shards.to_examples(rows)),
        plan.show,
        variants=_variants_of(plan, checked.name) if variants else None,
    )


def _variants_of(plan: Plan, name: str) -> Propose:
    if plan.variants is None:
        raise ParameterError("variants", f"cannot be shown: {name} has none")
    return plan.variants


def _check_start(name: str, split: str, start: int, total: int) -> None:
    if start >= total:
        raise ParameterError(
            "start", f"must be below {total:,}, the size of split '{split}' of {name}, not {start}"
        )


def _print(shown: Shown) -> None:
    out = console()
    head = (
        f"[bold]{plain_text(shown.name)}[/bold], split {plain_text(shown.split)}, {shown.total:,} "
        f"examples."
        f" {plain_text(shown.about)}\n"
    )
    out.print(head.replace("\n\n", "\n"))
    for i, example in enumerate(shown.rows):
        out.print(f"[bold]{plain_text(shown.split)} {shown.start + i}[/bold]")
        brief = _shortened(example)
        # A suite can only format what it made, so an example with shortened texts is shown in the
        # plain format.
        shape = shown.shape if brief is example else None
        out.print(
            (
                shape(_printable(brief))
                if shape
                else _hanging(plain(_printable(brief), shown.several), out.width)
            ),
            "",
        )
        if shown.variants is not None:
            out.print(_variant_table(list(shown.variants(example))), "")


VARIANTS_SHOWN = 2
"""Maximum variants of one edit to print. --json prints all."""


def _variant_table(variants: list[Variant]) -> Any:
    """The first variants of each edit: the replaced text, its replacement, and the answer."""
    by_edit: dict[tuple[str, str], list[Variant]] = {}
    for variant in variants:
        by_edit.setdefault((variant.kind, variant.edit), []).append(variant)
    rows = []
    for (kind, edit), same in by_edit.items():
        for variant in same[:VARIANTS_SHOWN]:
            before, after = (printable(t) or "-" for t in (variant.before, variant.after))
            rows.append((kind, edit, before, after, printable(_few(variant.example.targets))))
        more = len(same) - VARIANTS_SHOWN
        if more > 0:
            rows.append((kind, edit, f"and {more:,} more", "", ""))
    return table(("kind", "edit", "before", "after", "answer"), rows, "variants")


def _variant_as_dict(variant: Variant) -> dict[str, Any]:
    return {
        "kind": variant.kind,
        "edit": variant.edit,
        "before": variant.before,
        "after": variant.after,
        **_as_dict(variant.example),
    }


def _hanging(text: str, width: int) -> str:
    """Wrap a text to the width of the terminal, with continued lines indented to where the text
    begins.
    """
    whole = textwrap.TextWrapper(
        width, subsequent_indent=" " * INDENT, break_on_hyphens=False, replace_whitespace=False
    )
    return "\n".join(
        "\n".join(whole.wrap(line)) if len(line) > width else line for line in text.split("\n")
    )


def _shortened(example: Example) -> Example:
    """Return the example with long texts shortened, because wrapping and colouring megabytes takes
    minutes. --json prints them in full.
    """
    if len(example.input) + sum(map(len, example.targets)) <= LONGEST_SHOWN:
        return example
    return replace(
        example, input=_cut(example.input), targets=tuple(map(_cut, example.targets[: LISTED + 1]))
    )


def _cut(text: str) -> str:
    if len(text) <= LONGEST_SHOWN // 4:
        return text
    return f"{text[: LONGEST_SHOWN // 4]} … ({len(text):,} characters; --json prints all)"


def _printable(example: Example) -> Example:
    """Return the example with terminal escape sequences in its texts made visible."""
    return replace(
        example,
        input=printable(example.input),
        targets=tuple(map(printable, example.targets)),
        traits={
            printable(k): printable(v) if isinstance(v, str) else v
            for k, v in example.traits.items()
        },
        question=example.question and printable(example.question),
        derivation=tuple(
            replace(s, rule=printable(s.rule), value=printable(s.value)) for s in example.derivation
        ),
        task=printable(example.task),
    )


INDENT = len("  because  ")
"""Columns of indentation before the texts of an example in the plain format."""


def plain(example: Example, named: bool = False) -> str:
    """Format an example as text: task if there are several, input, answers, derivation, traits."""
    lines = [f"  task     {example.task}"] if named else []
    lines += [f"  input    {_indent(example.input)}", f"  answer   {_few(example.targets)}"]
    if example.derivation:
        lines.append("  because  " + ", ".join(f"{s.rule} → {s.value}" for s in example.derivation))
    if example.traits:
        lines.append("  traits   " + ", ".join(f"{k}={v}" for k, v in example.traits.items()))
    return "\n".join(lines).replace("[", r"\[")


def _indent(text: str) -> str:
    return text.replace("\n", "\n" + " " * INDENT)


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
        emit(
            {
                "input": text,
                "targets": list(result.targets),
                "derivation": [asdict(s) for s in result.derivation],
            }
        )
    else:
        steps = ", ".join(f"{s.rule} → {_few(s.value.split(BAR))}" for s in result.derivation)
        print(_few(result.targets) + (f"    ({steps})" if steps else ""))


def _few(values: Sequence[str]) -> str:
    """Join the first values. A function may have thousands; --json prints them all."""
    more = len(values) - LISTED
    return BAR.join(values[:LISTED]) + (f" and {more:,} more" if more > 0 else "")


def resource_status(as_json: bool) -> None:
    """Print the table of `taskloom data status`."""
    from taskloom.core.resources import resources

    rows = [
        (r.name, r.find(), r.fetch is not None, r.build is not None, r.describe)
        for r in resources().values()
    ]
    if as_json:
        emit(
            [
                {"name": n, "found": str(p) if p else None, "fetchable": f, "describe": d}
                for n, p, f, _, d in rows
            ]
        )
        return
    lines = []
    for name, path, fetchable, buildable, what in rows:
        remedy = f"taskloom data get {name}" if fetchable else "set TASKLOOM_DATA"
        if buildable:
            remedy = f"taskloom data build {name} --from FILE"
        lines.append((name, str(path) if path else f"missing: {remedy}", what))
    console().print(table(("name", "where", "what it is"), lines, "resources"))
