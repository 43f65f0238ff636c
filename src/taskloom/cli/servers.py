"""Commands that start a server: view, serve-env and collect, with the other actions of collect."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taskloom.cli.options import Json, RecipeName, Seed, Set
from taskloom.core.errors import MissingExtra

if TYPE_CHECKING:
    from taskloom.apps.collect.collection import Collection


def view(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH",
            help=(
                "Folders of datasets, runs and logs of Inspect or lm-eval; or single logs, or YAML"
                " files that name predictions [the current folder]."
            ),
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            help="Interface to listen on. Any but the loopback interface requires a token.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Port [8640, or the next free one]."),
    ] = None,
    token: Annotated[
        bool, typer.Option("--token", help="Require a token on the loopback interface, too.")
    ] = False,
    open_browser: Annotated[
        bool, typer.Option("--open", help="Open the page in a browser.")
    ] = False,
    only_list: Annotated[
        bool, typer.Option("--list", help="Only list the datasets and runs that would be shown.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Browse datasets and runs in a browser: examples with proofs, predictions, comparisons, and a
    form for recipes.

    The logs in a folder are shown as one run store, so that their models can be compared. The
    viewer is read-only and shows nothing outside the folders. By default it accepts connections
    from this machine only. With --host, every request needs the token in the printed address. Press
    Ctrl-C to stop.

    \b
    Examples:
      $ taskloom view my-data my-runs --list
      $ taskloom view --list --json

    \b
    For example:
      taskloom view logs/
      taskloom view gpt.eval claude.eval
    """
    if only_list:
        _list(folders or [Path()], as_json)
        return
    try:
        import uvicorn

        from taskloom.apps.view.server import serve
    except ModuleNotFoundError as error:
        raise MissingExtra("the viewer", error.name or "starlette", "viewer") from error
    del uvicorn  # `serve` imports it

    def ready(address: str) -> None:
        if as_json:
            from taskloom.core.tables import emit

            emit({"address": address})
        else:
            typer.echo(f"Taskloom viewer: {address} (Ctrl-C to stop)")
        if open_browser:
            import webbrowser

            webbrowser.open(address)

    serve(folders or [Path()], host, port, token, ready)


def _list(folders: list[Path], as_json: bool) -> None:
    from taskloom.apps.view.folders import viewed_folders
    from taskloom.core.tables import console, emit, table

    viewed = viewed_folders(folders).every()
    if as_json:
        emit([{"kind": one.kind, "folder": one.label, "name": one.name} for one in viewed])
    elif not viewed:
        print(f"no datasets and no runs in {', '.join(map(str, folders))}")
    else:
        console().print(
            table(
                ("folder", "kind"),
                [(one.label, one.kind) for one in viewed],
                "what the viewer shows",
            )
        )


def serve_env(
    name: RecipeName,
    split: Annotated[
        str | None,
        typer.Option("--split", help="Split [the first training split]."),
    ] = None,
    n: Annotated[int | None, typer.Option("-n", help="Number of examples [all].", min=1)] = None,
    seed: Seed = None,
    set: Set = None,
    extract: Annotated[
        str, typer.Option("--extract", help="How answers are extracted from replies.")
    ] = "final",
    host: Annotated[
        str, typer.Option("--host", help="Interface to listen on [this machine only].")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", help="Port; 0 for any free one.", min=0, max=65535)
    ] = 8321,
    only_info: Annotated[
        bool, typer.Option("--info", help="Only print what would be served.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Serve a recipe as an environment over HTTP: POST /reset returns an example, POST /step scores
    the answer. Press Ctrl-C to stop.

    Requests from web pages of other sites are refused. There is no other access control: every
    program that reaches the interface can send requests. A client that sends its name as "client"
    gets its own order of examples. No client can end another's episode.

    \b
    Examples:
      $ taskloom serve-env babi/2 --info
      $ taskloom serve-env ctl/A --split iid -n 100 --info --json

    While it runs: curl -s localhost:8321/reset --json '{}'
    """
    from taskloom.cli.dataset import print_exported
    from taskloom.interop.env_server import EnvironmentServer, RecipeEnvironment
    from taskloom.interop.graded import open_split

    graded = open_split(
        name, split, n, seed=seed, changes=set, described=True, extract=extract, role="train"
    )
    environment = RecipeEnvironment(graded)
    sentence = (
        f"{graded.name}, split {graded.split}: {len(graded):,} examples, scored by"
        f" {graded.plan.scorer.name}"
    )
    if only_info:
        print_exported(environment.info(), sentence, as_json)
        return
    with EnvironmentServer(environment, host, port) as server:
        print_exported(
            {**environment.info(), "url": server.url},
            f"{sentence}, at {server.url} (Ctrl-C to stop)",
            as_json,
        )
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):  # Ctrl-C is the way to stop the server.
            server.serve_forever()


Project = Annotated[
    Path, typer.Argument(metavar="PROJECT", help="Folder of the project, with project.yaml.")
]
DespiteLeaks = Annotated[
    bool, typer.Option("--despite-leaks", help="Export even if the audit finds leaks.")
]
Host = Annotated[str, typer.Option("--host", help="Address to listen on.")]
Port = Annotated[int, typer.Option("--port", help="Port; 0 for any free one.", min=0, max=65535)]
Token = Annotated[
    str, typer.Option("--token", help="Access token for addresses beyond loopback [random].")
]


def new(project: Project, as_json: Json = False) -> None:
    """Write a project.yaml to edit, with explanations of its keys.

    \b
    Examples:
      $ taskloom collect new parks
      $ taskloom collect new museums --json
    """
    from taskloom.apps.collect.project_file import write_template

    file = write_template(project)
    _tell(
        {"file": str(file)},
        [f"wrote {file}; edit it, then run: taskloom collect serve {project}"],
        as_json,
    )


def demo(project: Project, as_json: Json = False) -> None:
    """Fill a new folder with a demo project, half-way through a round, over packaged documents.

    \b
    Examples:
      $ taskloom collect demo my-demo
      $ taskloom collect demo another-demo --json
    """
    from taskloom.apps.collect.demo_project import fill_demo

    fill_demo(project)
    _tell(
        {"folder": str(project)},
        [f"{project} is filled; see it with: taskloom collect serve {project}"],
        as_json,
    )


def status(project: Project, as_json: Json = False) -> None:
    """Print the progress of a project.

    \b
    Examples:
      $ taskloom collect status my-demo
      $ taskloom collect status my-demo --json
    """
    _once(project, status=True, as_json=as_json)


def check(project: Project, as_json: Json = False) -> None:
    """Check the records of a project against the log that they are derived from.

    \b
    Examples:
      $ taskloom collect check my-demo
      $ taskloom collect check my-demo --json
    """
    _once(project, check=True, as_json=as_json)


def log(
    project: Project,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.")],
    as_json: Json = False,
) -> None:
    """Write the log of a project as JSON lines.

    \b
    Examples:
      $ taskloom collect log my-demo log.jsonl
      $ taskloom collect log my-demo log.jsonl --json
    """
    _once(project, log=file, as_json=as_json)


def export(
    project: Project,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
    despite_leaks: DespiteLeaks = False,
    as_json: Json = False,
) -> None:
    """Audit the collected tasks and export them into a new folder.

    \b
    Examples:
      $ taskloom collect export my-demo my-release
      $ taskloom collect export my-demo release-2 --json
    """
    _once(project, export=folder, despite_leaks=despite_leaks, as_json=as_json)


def recover(
    project: Project,
    log: Annotated[
        Path | None,
        typer.Option(
            "--log", metavar="FILE", help="Exported log to use instead of the database's."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Rebuild the database of a project from the readable part of its log. The damaged file is
    kept.

    \b
    Examples:
      $ taskloom collect recover my-demo
      $ taskloom collect recover my-demo --log log.jsonl --json
    """
    from taskloom.apps.collect.recovery import recover as rebuild

    saved = rebuild(project, log)
    lines = [f"{project}: {saved.events:,} events were saved"]
    if saved.kept is not None:
        lines[0] += f"; the old database is kept as {saved.kept.name}"
    if saved.lost:
        lines.append(f"{len(saved.lost):,} events cannot be read, the first is {saved.lost[0]}")
    if saved.missing_texts:
        lines.append(
            f"{saved.missing_texts:,} documents have lost their text; put their files back into "
            f"the project's folder and run recover again"
        )
    lines += saved.problems[:3]
    report: dict[str, object] = {
        "events": saved.events,
        "lost": list(saved.lost),
        "missing texts": saved.missing_texts,
        "kept": str(saved.kept) if saved.kept else None,
        "problems": list(saved.problems),
    }
    _tell(report, lines, as_json)


def serve(
    project: Project,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Serve a project as a local web app, in which people write, annotate and adjudicate tasks.
    Press Ctrl-C to stop.

    \b
    For example:
      taskloom collect serve my-demo
      taskloom collect serve my-demo --port 8000
    """
    from taskloom.apps.collect.web import serve

    serve(project, host, port, token, report=_emit_line if as_json else _print_line)


def flags(
    project: Project,
    make_new: Annotated[bool, typer.Option("--new")] = False,
    fill: Annotated[bool, typer.Option("--demo")] = False,
    export_to: Annotated[Path | None, typer.Option("--export", metavar="DIR")] = None,
    despite_leaks: DespiteLeaks = False,
    log_to: Annotated[Path | None, typer.Option("--log", metavar="FILE")] = None,
    show_status: Annotated[bool, typer.Option("--status")] = False,
    check_log: Annotated[bool, typer.Option("--check")] = False,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Run actions that are written as options, as in `taskloom collect PROJECT --new`. This is the
    old form of `taskloom collect new PROJECT`.
    """
    from taskloom.apps.collect.demo_project import fill_demo

    if make_new:
        new(project, as_json)
        return
    if fill:
        fill_demo(project)
    if export_to or log_to or check_log or show_status:
        _once(
            project,
            export=export_to,
            despite_leaks=despite_leaks,
            log=log_to,
            check=check_log,
            status=show_status,
            as_json=as_json,
        )
        return
    serve(project, host, port, token, as_json)


def _counted(value: object) -> str:
    """Format a number, or numbers by kind.

    >>> _counted({"approved": 17, "returned": 1}), _counted(7)
    ('17 approved, 1 returned', '7')
    """
    return (
        ", ".join(f"{n} {kind}" for kind, n in value.items())
        if isinstance(value, dict)
        else str(value)
    )


def _print_line(line: str) -> None:
    print(line, flush=True)


def _emit_line(line: str) -> None:
    from taskloom.core.tables import emit

    emit({"message": line})


def _once(
    project: Path,
    *,
    export: Path | None = None,
    despite_leaks: bool = False,
    log: Path | None = None,
    check: bool = False,
    status: bool = False,
    as_json: bool = False,
) -> None:
    """Open a project, run one action, and print its report."""
    from taskloom.apps.collect.annotation import settle_answered
    from taskloom.apps.collect.collection import Collection
    from taskloom.apps.collect.errors import CollectError
    from taskloom.apps.collect.export import export as write_release

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
                raise CollectError(
                    f"{project}: {len(problems)} differences from the log, the first: {problems[0]}"
                )
            lines.append(f"{project}: all records agree with the log")
        if log:
            report["events"] = collection.store.write_log(log)
            lines.append(f"wrote {report['events']:,} events to {log}")
        if export:
            release = write_release(collection, export, despite_leaks=despite_leaks)
            tasks = {name: len(tasks) for name, tasks in release.splits.items()}
            report |= {
                "exported": tasks,
                "leaks": list(release.leaks),
                "remarks": list(release.remarks),
            }
            lines += [*release.leaks, *release.remarks]
            lines.append(
                f"exported {', '.join(f'{n} {name}' for name, n in tasks.items())} tasks to"
                f" {export}"
            )
    except (sqlite3.DatabaseError, ValueError) as error:
        # A page may be damaged in the middle of a text, which only reading the text reveals.
        raise collection.store.damaged(error) from error
    finally:
        collection.close()
    _tell(report, lines, as_json)


def _tell(report: dict[str, object], lines: list[str], as_json: bool) -> None:
    """Print a report, as JSON or as lines of text."""
    from taskloom.core.tables import emit

    if as_json:
        emit(report)
        return
    for line in lines:
        _print_line(line)


def _status(collection: Collection) -> dict[str, object]:
    """Progress of a project."""
    from taskloom.apps.collect.records import CollectedTask, Document, GivenAnswer, Item

    store = collection.store
    counts = {"people": len(collection.people()), "documents": store.count(Document)}
    answers = store.count(GivenAnswer, stage="work")
    return {
        **counts,
        "questions": store.stages(CollectedTask),
        "items": store.stages(Item),
        "answers": answers,
    }
