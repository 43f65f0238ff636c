"""Runs shell lines of the documentation: `taskloom` commands in this process, everything else in a
real shell.

Starting Python and importing Arrow for each line costs a second; one interpreter for all of them
costs it once.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from taskloom.cli import run

HEREDOC = re.compile(r"<<\s*'?(\w+)'?")
OPERATORS = set("();<>|&")
PIPED = re.compile(r"(?P<typed>printf [^|]+) \| (?P<command>taskloom [^|]+)")
WRITTEN = re.compile(r"(?P<command>taskloom [^>]+) > (?P<file>[\w.-]+)")
ROWS = re.compile(r"\bn(=|: )\d{4,}\b")
FEWER = 600
"""Rows of a split where the documentation asks for thousands: enough for every line to run."""

QUESTIONS = re.compile(r"--questions \d{3,}\b")
FEWER_QUESTIONS = 100
"""Questions of a search where the documentation asks for hundreds."""


@dataclass(frozen=True, slots=True)
class ShellResult:
    """What a line printed and how it ended."""

    status: int
    output: str
    errors: str


def with_fewer_rows(script: str) -> str:
    """Ask for fewer rows and questions where a script asks for many: the same commands, at a third
    of the time.
    """
    fewer = ROWS.sub(rf"n\g<1>{FEWER}", script)
    return QUESTIONS.sub(f"--questions {FEWER_QUESTIONS}", fewer)


def statements(script: str) -> list[str]:
    """Split a script into its commands; a here-document and a continued line belong to their
    command.
    """
    commands: list[str] = []
    lines = iter(script.splitlines())
    for line in lines:
        command = line
        while command.endswith("\\"):
            command = command[:-1] + next(lines)
        if heredoc := HEREDOC.search(command):
            for inner in lines:
                command += "\n" + inner
                if inner == heredoc[1]:
                    break
        if command.strip() and not command.lstrip().startswith("#"):
            commands.append(command)
    return commands


def arguments(command: str) -> list[str] | None:
    """Return the arguments of a plain `taskloom` command, or None for a command that needs a
    shell.
    """
    if not command.startswith("taskloom ") or "\n" in command or "$" in command or "`" in command:
        return None
    tokens = list(shlex.shlex(command, posix=True, punctuation_chars=True))
    if any(set(token) <= OPERATORS for token in tokens):
        return None
    return shlex.split(command, comments=True)[1:]


def in_process(words: list[str], folder: Path, typed: str | None = None) -> ShellResult:
    """Run one command line of ours in `folder` without a new process; `typed` is its standard
    input.
    """
    output, errors = io.StringIO(), io.StringIO()
    before = sys.stdin
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
    ):
        if typed is not None:
            sys.stdin = io.TextIOWrapper(io.BytesIO(typed.encode()), encoding="utf-8")
        try:
            status = run(words)
        finally:
            sys.stdin = before
    return ShellResult(status, output.getvalue(), errors.getvalue())


def shell(line: str, folder: Path) -> ShellResult:
    """Run a line in a real shell, with `taskloom` being this very package."""
    me = (
        f"taskloom() {{ {shlex.quote(sys.executable)} -c 'from taskloom.cli import main; main()'"
        ' "$@"; }; '
    )
    done = subprocess.run(["bash", "-c", me + line], capture_output=True, text=True, cwd=folder)
    return ShellResult(done.returncode, done.stdout, done.stderr)


def run_line(command: str, folder: Path) -> ShellResult:
    """Run one command of the documentation as cheaply as it allows."""
    if (words := arguments(command)) is not None:
        return in_process(words, folder)
    if (piped := PIPED.fullmatch(command)) and (words := arguments(piped["command"])) is not None:
        return in_process(words, folder, shell(piped["typed"], folder).output)
    if (written := WRITTEN.fullmatch(command)) and (
        words := arguments(written["command"])
    ) is not None:
        result = in_process(words, folder)
        (folder / written["file"]).write_text(result.output, encoding="utf-8")
        return result
    return shell(command, folder)
