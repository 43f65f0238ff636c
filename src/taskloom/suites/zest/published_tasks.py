"""Plan for ZEST files provided by the user. Every instance becomes an example, with the file's
types, domains and links as traits.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from taskloom.core import resources
from taskloom.core.errors import InputError, RecipeError
from taskloom.core.example import Example
from taskloom.core.files import digest
from taskloom.core.plan import Plan, Source, Split, Tasks, role_of
from taskloom.suites.zest.fields import Layout, Parts, ZestFields, described_in_input, layout
from taskloom.suites.zest.scorer import zest
from taskloom.suites.zest.task_files import ZestTask, alternatives, problems, read_tasks

TRAITS: dict[str, type] = {
    "generalization_type": str,
    "domain": str,
    "format": str,
    "derives_from": str,
    "line": int,
}


def plan(fields: ZestFields) -> Plan:
    """Plan a recipe that reads files: splits in the order of the recipe, instances in the order of
    the files.
    """
    splits, sources, warnings = [], [], []
    for name, given in fields.files.items():
        path = _find(given, fields.find_file(given))
        tasks = read_tasks(path)
        for task in tasks:
            if any(i.answer is None for i in task.instances):
                raise RecipeError(
                    f"{path}: task {task.id} has no answers; a dataset needs a file with answers"
                )
            if not _is_text(task):
                raise RecipeError(
                    f"{path}:{task.line} contains half of a surrogate pair (\\ud800 to \\udfff); "
                    "save the file as UTF-8 again"
                )
        warnings += _oddities(path.name, tasks)
        splits.append(_split(name, tasks, fields.layout, fields.parts))
        sources.append(Source(path.name, digest(path.read_bytes())))
    return Plan(
        splits=tuple(splits),
        traits=TRAITS,
        describe="Answer the question about the passage, or n/a.",
        scorer=zest,
        sources=tuple(sources),
        warnings=tuple(warnings),
        tasks=Tasks(tell=described_in_input),
    )


def _is_text(task: ZestTask) -> bool:
    """True if Parquet can store a task. JSON may contain half of a surrogate pair, which Parquet
    rejects.
    """
    texts = [
        task.id,
        task.question,
        task.domain,
        *task.derives_from,
        *(i.context for i in task.instances),
    ]
    texts += [text for i in task.instances for text in alternatives(i.answer)]
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def _oddities(name: str, tasks: list[ZestTask]) -> list[str]:
    """Describe the irregularities of a file that a user should check, as one sentence with the
    first location.
    """
    oddities = problems(tasks)
    if not oddities:
        return []
    first = oddities[0]
    more = f" ({len(oddities) - 1} more in the file)" if len(oddities) > 1 else ""
    return [f"{name}, line {first.line}, task {first.task}: {first.what}{more}"]


def _find(given: str, path: Path) -> Path:
    """Return the path. If a bare file name does not exist, look for it in the folder of the
    resource `zest` (`taskloom data`).
    """
    if path.is_file() or path.name != given:
        return path
    folder = resources.get("zest")
    return next(
        (f / given for f in (folder, folder / "zest") if (f / given).is_file()), folder / given
    )


def _split(name: str, tasks: list[ZestTask], style: Layout, parts: Parts) -> Split:
    places = [(task, i) for task in tasks for i in range(len(task.instances))]

    def rows(start: int, stop: int) -> Iterator[Example]:
        for task, i in places[start:stop]:
            yield example(task, i, style, parts)

    return Split(
        name,
        len(places),
        rows,
        role_of(name),
        tasks=tuple(task.id for task in tasks if task.instances),
    )


def example(task: ZestTask, number: int, style: Layout, parts: Parts = "both") -> Example:
    """Convert one instance of a file to an example."""
    instance = task.instances[number]
    if instance.answer is None:
        raise InputError(f"task {task.id} has no answer for example {number + 1}")
    return Example(
        layout(task.question, instance.context, style, parts),
        alternatives(instance.answer),
        {
            "generalization_type": task.kind or "",
            "domain": task.domain,
            "format": task.format,
            "derives_from": " ".join(task.derives_from),
            "line": task.line,
        },
        question=task.question,
        task=task.id,
    )
