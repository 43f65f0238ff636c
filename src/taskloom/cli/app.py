"""The command line. Everything it does is also available from Python."""

from __future__ import annotations

import errno
import functools
import gc
import inspect
import itertools
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand

from taskloom.core.errors import LONGEST, ParameterError, TaskloomError

COMMANDS: dict[str, str] = {
    "list": "tasks.list_",
    "show": "tasks.show",
    "apply": "tasks.apply",
    "make": "dataset.make",
    "export": "dataset.export",
    "verify": "dataset.verify",
    "audit": "dataset.audit",
    "solve": "tasks.solve",
    "data": "tasks.data",
    "score": "runs.score",
    "run": "experiments.run",
    "runs show": "runs.show_runs",
    "runs compare": "runs.compare",
    "runs report": "runs.report",
    "runs rescore": "runs.rescore",
    "runs verify": "runs.verify_runs",
    "view": "servers.view",
    "power": "experiments.power",
    "profile": "studies.profile",
    "falsify": "probing.falsify",
    "frontier": "probing.frontier",
    "study": "studies.study",
    "reproduce": "studies.reproduce",
    "collect new": "servers.new",
    "collect demo": "servers.demo",
    "collect status": "servers.status",
    "collect check": "servers.check",
    "collect log": "servers.log",
    "collect export": "servers.export",
    "collect recover": "servers.recover",
    "collect serve": "servers.serve",
    "doctor": "tasks.doctor",
    "serve-env": "servers.serve_env",
}
"""Module and function of each command, in the order of --help. Modules are imported when their
command is called.
"""

FLAGS_COMMAND = "collect flags"
"""Hidden command for the old option form of `collect`. Options can be combined, so no single action
replaces them.
"""

PLAIN = {"show", "apply", "make", "verify", "run"}
"""Commands that multiply no matrices in their own process and so need no BLAS threads."""

HIDDEN = {FLAGS_COMMAND: "servers.flags"}
"""Commands that --help does not list."""

GROUPS = {
    "runs": (
        "Work with finished runs: scores, paired tests, a report, rescoring without the model"
    ),
    "collect": (
        "Collect tasks with a group: a local web app over your own documents, as ZEST was collected"
    ),
}
"""Commands that have actions (`runs show`), each with its line in --help."""

# Renamed commands. The old names still work, and a line on standard error names the new one.

MOVED = {"compare": "runs compare", "report": "runs report", "rescore": "runs rescore"}
"""Old commands that became actions of a group."""

ACTIONS = {
    "runs": ("show", "compare", "report", "rescore", "verify"),
    "collect": ("new", "demo", "status", "check", "log", "export", "recover", "serve"),
}
"""Actions of each command that has any."""

WITHOUT_ACTION = {"runs": "show", "collect": "serve"}
"""Action to run if a group is called without one, as when it was a single command."""

HELP = frozenset({"-h", "--help"})

VERBOSE = frozenset({"-v", "--verbose"})

REMEDIES = {
    errno.EACCES: ": make the folder writable, or choose another",
    errno.EPERM: ": make the folder writable, or choose another",
    errno.EROFS: ": choose another folder",
    errno.ENOSPC: ": free space, then rerun the command",
}

GIVEN = "given"
"""Name of the parameter that receives the options of suites, as a mapping from name to value as
typed. --help shows the options of every installed suite, and those of a suite whose file is on the
command line.
"""

INTERRUPTED = "interrupted; finished work is kept: rerun the command to resume"


def app_for(arguments: list[str]) -> typer.Typer:
    """Return the requested command, with the options that suites add to it. Without a command name,
    return all commands.
    """
    app = typer.Typer(
        invoke_without_command=True,
        callback=_whole_program,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    before = _options_before(arguments)
    line = arguments[len(before) :]
    # The program's `--help`, a misspelled command and shell completion need all commands.
    only = _called(line) if VERBOSE.issuperset(before) else []
    groups: dict[str, typer.Typer] = {}
    for name in only or COMMANDS:
        function = _function(name)
        group, _, word = name.rpartition(" ")
        if group and group not in groups:
            groups[group] = typer.Typer(rich_markup_mode=None)
            app.add_typer(groups[group], name=group, help=GROUPS[group], short_help=GROUPS[group])
        register = groups.get(group, app).command
        summary = _summary(function)
        register(word, cls=_Command, short_help=summary, hidden=name in HIDDEN)(
            command_of(name, function, line)
        )
    return app


def _called(line: list[str]) -> list[str]:
    """Command named by the arguments, including its action, or all commands of a group. Empty if
    there is no such command.
    """
    known = COMMANDS | HIDDEN
    for name in (" ".join(line[:2]), " ".join(line[:1])):
        if name in known:
            return [name]
    return [name for name in COMMANDS if line and name.startswith(f"{line[0]} ")]


class _Command(TyperCommand):
    """A command whose usage line shows arguments in the style of man pages: NAME, [NAME],
    [NAME]...
    """

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line, without the braces that Typer puts around names."""
        arguments = [param for param in self.get_params(ctx) if param.param_type_name == "argument"]
        return [self.options_metavar or "", *map(_usage_of, arguments)]


def _usage_of(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return (name if argument.required else f"[{name}]") + ("..." if argument.nargs != 1 else "")


def _summary(function: Callable[..., None]) -> str:
    """First sentence of a command's docstring, for the list of commands. Typer would cut it in the
    middle.
    """
    first = " ".join((function.__doc__ or "").partition("\n\n")[0].split())
    return first.partition(". ")[0].removesuffix(".")


def _function(name: str) -> Callable[..., None]:
    module, _, function = (COMMANDS | HIDDEN)[name].partition(".")
    command: Callable[..., None] = getattr(import_module(f"taskloom.cli.{module}"), function)
    return command


def _options_before(arguments: list[str]) -> list[str]:
    """Options of the program itself, given before the command."""
    return list(itertools.takewhile(lambda word: word.startswith("-"), arguments))


def _print_version(wanted: bool) -> None:
    if wanted:
        import taskloom

        typer.echo(f"taskloom {taskloom.__version__}")
        raise typer.Exit


def _whole_program(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "-v",
            "--verbose",
            help="Print tracebacks of errors, and how long the command took.",
        ),
    ] = False,
) -> None:
    """Find out what a language model has really learned."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def command_of(
    name: str, function: Callable[..., None], arguments: list[str]
) -> Callable[..., None]:
    """Return a command's function with the options of suites in place of its parameter `given`.

    Args:
        name: The command.
        function: The function that implements it.
        arguments: The command line. Suites are imported only if it asks this command for `--help`,
            or has an option that the command itself does not know, because importing all of them
            takes a third of a second.
    """
    signature = inspect.signature(function)
    if GIVEN not in signature.parameters:
        return function
    hints = get_type_hints(function, include_extras=True)
    helps = (
        _helps(name, arguments) if arguments[:1] == [name] and _wants_more(hints, arguments) else {}
    )
    kind: Any = bool if name == "show" else str | None  # Keyword views are flags.
    added = {
        option: Annotated[kind, typer.Option(f"--{option.replace('_', '-')}", help=help)]
        for option, help in helps.items()
    }

    @functools.wraps(function)
    def call(**values: Any) -> None:
        given = {option: values.pop(option) for option in added}
        function(
            **values,
            given={option: value for option, value in given.items() if value not in (None, False)},
        )

    own = [p.replace(annotation=hints[n]) for n, p in signature.parameters.items() if n != GIVEN]
    unset = False if kind is bool else None
    more = [
        inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=unset, annotation=a)
        for n, a in added.items()
    ]
    call.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
    call.__annotations__ = {**{n: h for n, h in hints.items() if n != GIVEN}, **added}
    return call


def _wants_more(hints: Mapping[str, Any], arguments: list[str]) -> bool:
    """True if a command line has an option that the command itself does not define."""
    own = {
        name for hint in hints.values() for part in get_args(hint) for name in _option_names(part)
    }
    return any(word.startswith("-") and word.partition("=")[0] not in own for word in arguments[1:])


def _option_names(part: Any) -> list[str]:
    """Names of an option. Until Typer reads the annotation, the first name is stored in
    `default`.
    """
    names = [getattr(part, "default", None), *(getattr(part, "param_decls", None) or ())]
    return [name for name in names if isinstance(name, str) and name.startswith("-")]


def _helps(command: str, arguments: list[str]) -> dict[str, str]:
    """Options of a command with their help. If several suites define the same option, it is listed
    once.
    """
    from taskloom.core.registry import SUITES, is_python, load_file

    written = {
        arguments[place + 1] for place, word in enumerate(arguments[:-1]) if word in ("-o", "--out")
    }
    for word in (word for word in arguments if is_python(word) and word not in written):
        with suppress(TaskloomError):  # The command itself reports errors in the file.
            load_file(Path(word.partition("::")[0]))
    helps: dict[str, list[str]] = {}
    for suite in SUITES:
        for option in suite.options:
            if option.command == command:
                helps.setdefault(option.name, []).append(f"{suite.name}: {option.help}")
        for view, shown in suite.views.items() if command == "show" else ():
            helps.setdefault(view, []).append(f"{suite.name}: {shown.help}")
    return {name: " ".join(texts) for name, texts in helps.items()}


def main() -> None:
    """Entry point of the console script. Every expected problem is printed as one sentence on
    standard error, with exit status 2.
    """
    # A command creates many long-lived objects and little garbage. With Python's default threshold
    # of 700 the collector would scan them more than a hundred times before the command starts.
    # These two settings save 18 % of `show ctl/A` and 11 % of `make ctl/A`.
    gc.set_threshold(50_000)
    if not PLAIN.isdisjoint(sys.argv[1:2]):
        # On import, NumPy's BLAS starts one thread per core, which is 30 % of the time of `show
        # ctl/A`.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    status = run(sys.argv[1:])
    gc.freeze()  # All memory is freed at exit, so a last collection would be wasted.
    sys.exit(status)


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit status."""
    arguments, hint = todays(arguments)
    if hint:
        _say(hint, 0)
    if VERBOSE.isdisjoint(_options_before(arguments)):
        return _run(arguments)
    began = time.monotonic()
    try:
        return _run(arguments, traceback.print_exc)
    finally:
        print(f"taskloom: took {time.monotonic() - began:.2f} s", file=sys.stderr)


def todays(arguments: list[str]) -> tuple[list[str], str]:
    """Replace old names of commands by current ones. Returns the arguments and a hint, which is
    empty if nothing was replaced.
    """
    before = 0
    while before < len(arguments) and arguments[before].startswith("-"):
        before += 1  # options of the program itself
    line = arguments[before:]
    command, rest = (line[0], line[1:]) if line else ("", [])
    new = _replacement(command, rest)
    if not new:
        return arguments, ""
    old = command
    shown = new
    if new == FLAGS_COMMAND:
        used = _flags(rest)
        old = f"{command} {' '.join(f'--{action}' for action in used)}"
        shown = f"{command} {'|'.join(used)}"
    return [*arguments[:before], *new.split(), *rest], f"'taskloom {old}' is now 'taskloom {shown}'"


def _replacement(command: str, rest: list[str]) -> str:
    """Current name of an old command. Empty if the name is current."""
    if command in MOVED:
        return MOVED[command]
    if command not in ACTIONS or (rest and rest[0] in ACTIONS[command]):
        return ""
    if command == "collect" and _flags(rest):
        return FLAGS_COMMAND
    if rest and HELP.issuperset(rest):
        return ""
    return f"{command} {WITHOUT_ACTION[command]}"


def _flags(rest: list[str]) -> list[str]:
    """Actions of `collect` that are written as options, which is the old form."""
    typed = {word.partition("=")[0] for word in rest}
    return [action for action in ACTIONS["collect"] if f"--{action}" in typed]


def _run(arguments: list[str], explain: Callable[[], None] = lambda: None) -> int:
    """Run one command line. `explain` is called before an error is reduced to one sentence."""
    try:
        result: Any = app_for(arguments)(arguments, prog_name="taskloom", standalone_mode=False)
        if sys.stdout is not None:
            # A full disk or a closed pipe is reported here rather than silently at exit.
            sys.stdout.flush()
    except ParameterError as error:
        explain()
        return _say(f"--{error.parameter.replace('_', '-')} {error.problem}", 2)
    except TaskloomError as error:
        explain()
        return _say(str(error), 2)
    except KeyboardInterrupt:
        return _say(INTERRUPTED, 130)
    except BrokenPipeError:
        return _reader_gone()
    except SystemExit as error:
        # If a pipe is closed, Rich and Typer exit with status 1, which in Taskloom means that a
        # check found something.
        if isinstance(error.__context__, BrokenPipeError):
            return _reader_gone()
        raise
    except OSError as error:
        # For a full disk, a missing permission or a file in place of a folder, the system's message
        # and the path are the best explanation.
        explain()
        return _say(_of_system(error), 2)
    except UnicodeError as error:
        return _say(f"a name or text contains characters that cannot be written here ({error})", 2)
    except MemoryError:
        return _say(f"out of memory; {_smaller(arguments)}", 2)
    except Exception as error:
        # Some versions of Typer bundle their own copy of click, so its errors are recognised by
        # their methods.
        if type(error).__name__ == "Abort":
            return _say(INTERRUPTED, 130)
        if not hasattr(error, "format_message"):
            raise
        return _say(error.format_message() + _hint(error), 2)
    if result == 130:  # Typer turns Ctrl-C into this status without a message.
        return _say(INTERRUPTED, 130)
    return result if isinstance(result, int) else 0


def _smaller(arguments: list[str]) -> str:
    """Advice on how to make a command use less memory."""
    called = _called(arguments[len(_options_before(arguments)) :])
    own = inspect.signature(_function(called[0])).parameters if len(called) == 1 else {}
    options = [f"--{name.replace('_', '-')}" for name in ("workers", "shard_rows") if name in own]
    return f"use smaller {' or '.join(options)}" if options else "use less data at a time"


def _of_system(error: OSError) -> str:
    """One sentence for an error of the operating system: the file, the reason and a remedy."""
    from taskloom.core.files import final_path

    where = f"{final_path(Path(str(error.filename)))}: " if error.filename else ""
    remedy = REMEDIES.get(error.errno or 0, "")
    return f"{where}{error.strerror or error}; nothing that was finished is lost{remedy}"


def _reader_gone() -> int:
    """Exit status if the reader of a pipe (head, less) has closed it, which is not our error."""
    with suppress(OSError, ValueError, AttributeError):
        # Discard the rest of the buffer. Otherwise the interpreter would report the closed pipe at
        # exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _hint(error: Any) -> str:
    context = getattr(error, "ctx", None)
    if context is not None and getattr(error, "option_name", "") in VERBOSE:
        return f" here: it goes before the command, as in '{_before_command(context.command_path)}'"
    return (
        f" ('{context.command_path} --help' lists what is available)" if context is not None else ""
    )


def _before_command(path: str) -> str:
    """Return the command with `-v` inserted, so that it shows tracebacks.

    >>> _before_command("taskloom make")
    'taskloom -v make'
    """
    program, _, command = path.partition(" ")
    return f"{program} -v {command}"


def _say(message: str, status: int) -> int:
    # Errors are one sentence. Lines quoted below it (an expression with a caret) are kept.
    sentence, *echo = message.split("\n  ")
    text = "\n  ".join(["taskloom: " + " ".join(sentence.split()), *echo])
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"
    # Quoted input is escaped, so that it cannot control the terminal.
    print(
        "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text),
        file=sys.stderr,
    )
    return status


if __name__ == "__main__":
    main()
