"""Commands that were renamed: the old words still work, and one line on standard error names the new ones."""

from __future__ import annotations

MOVED = {"compare": "runs compare", "report": "runs report", "rescore": "runs rescore"}
"""Commands that became actions of a group."""

ACTIONS = {
    "runs": ("show", "compare", "report", "rescore", "verify"),
    "collect": ("new", "demo", "status", "check", "log", "export", "serve"),
}
"""Commands with actions as words."""

WITHOUT_ACTION = {"runs": "show", "collect": "serve"}
"""What a group did when it was a single command."""

FLAGS_COMMAND = "collect flags"
"""The hidden command for the options that became actions of `collect`: they can be combined, so that no action replaces them."""

HELP = frozenset({"-h", "--help"})


def todays(arguments: list[str]) -> tuple[list[str], str]:
    """Return a command line in the words of today, and a hint; the hint is empty if it was in them already."""
    before = 0
    while before < len(arguments) and arguments[before].startswith("-"):
        before += 1  # options of the whole program
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
    """Return the words that replace a command, or nothing if they are today's."""
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
    """Return the actions of `collect` that are typed as options."""
    typed = {word.partition("=")[0] for word in rest}
    return [action for action in ACTIONS["collect"] if f"--{action}" in typed]
