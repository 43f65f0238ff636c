"""The collection of tasks: collect."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taskloom.cli.options import Json

if TYPE_CHECKING:
    from taskloom.collect.collection import Collection


def collect(
    project: Annotated[Path, typer.Argument(metavar="PROJECT", help="The project's folder, with project.yaml.")],
    new: Annotated[bool, typer.Option("--new", help="Write a project.yaml to edit, and stop.")] = False,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Fill a new folder with the package's own documents, half-way through a round."),
    ] = False,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="DIR", help="Audit and export into a new folder, and stop.")
    ] = None,
    despite_leaks: Annotated[
        bool, typer.Option("--despite-leaks", help="Export although the audit lists leaks.")
    ] = False,
    log: Annotated[
        Path | None, typer.Option("--log", metavar="FILE", help="Write the log as JSON lines, and stop.")
    ] = None,
    status: Annotated[bool, typer.Option("--status", help="Print how far the project has come, and stop.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Compare the records with the log that they follow from, and stop.")
    ] = False,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="The port; 0 for any free one.", min=0, max=65535)] = 8765,
    token: Annotated[str, typer.Option("--token", help="Access token beyond loopback; a random one by default.")] = "",
    as_json: Json = False,
) -> None:
    """Collect tasks with a group of people: a local web app over your own documents, as ZEST was collected.

    \b
    Examples:
      $ taskloom collect parks --new
      $ taskloom collect my-demo --demo --status
      $ taskloom collect my-demo --export my-release
    """
    from taskloom.collect.project_file import write_template

    if new:
        print(f"wrote {write_template(project)}; edit it, then run: taskloom collect {project}")
        return
    if demo:
        from taskloom.collect.demo_project import fill_demo

        fill_demo(project)
    if export or log or check or status:
        _once(project, export, despite_leaks, log, check, status, as_json)
        return
    from taskloom.collect.web.serve import serve

    serve(project, host, port, token, report=_emit_line if as_json else _print_line)


def _counted(value: object) -> str:
    """Return a number, or numbers by their kind, for people.

    >>> _counted({"approved": 17, "returned": 1}), _counted(7)
    ('17 approved, 1 returned', '7')
    """
    return ", ".join(f"{n} {kind}" for kind, n in value.items()) if isinstance(value, dict) else str(value)


def _print_line(line: str) -> None:
    print(line, flush=True)


def _emit_line(line: str) -> None:
    from taskloom.cli.output import emit

    emit({"message": line})


def _once(
    project: Path, export: Path | None, despite_leaks: bool, log: Path | None, check: bool, status: bool, as_json: bool
) -> None:
    """Do one thing with a project and stop."""
    from taskloom.cli.output import emit
    from taskloom.collect.annotation import settle_answered
    from taskloom.collect.collect_errors import CollectError
    from taskloom.collect.collection import Collection
    from taskloom.collect.export import export as write_release

    report: dict[str, object] = {}
    lines: list[str] = []
    collection = Collection(project)
    try:
        settle_answered(collection)
        if status:
            report |= _status(collection)
            lines += [f"{name}: {_counted(value)}" for name, value in report.items()]
        if check:
            problems = collection.store.check()
            if problems:
                raise CollectError(f"{project}: {len(problems)} records differ from the log, the first: {problems[0]}")
            lines.append(f"{project}: every record follows from the log")
        if log:
            report["events"] = collection.store.write_log(log)
            lines.append(f"wrote {report['events']:,} events to {log}")
        if export:
            release = write_release(collection, export, despite_leaks=despite_leaks)
            tasks = {name: len(tasks) for name, tasks in release.splits.items()}
            report |= {"exported": tasks, "leaks": list(release.leaks), "remarks": list(release.remarks)}
            lines += [*release.leaks, *release.remarks]
            lines.append(f"exported {', '.join(f'{n} {name}' for name, n in tasks.items())} tasks to {export}")
    finally:
        collection.close()
    if as_json:
        emit(report)
    else:
        for line in lines:
            _print_line(line)


def _status(collection: Collection) -> dict[str, object]:
    """Return how far a project has come."""
    from taskloom.collect.records import CollectedTask, Document, GivenAnswer, Item

    store = collection.store
    counts = {"people": len(collection.people()), "documents": store.count(Document)}
    answers = store.count(GivenAnswer, stage="work")
    return {**counts, "questions": store.stages(CollectedTask), "items": store.stages(Item), "answers": answers}
