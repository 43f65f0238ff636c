"""Taskloom's exceptions. Every message states what is wrong, where, and what would be right.

The command line prints the message of a `TaskloomError` as one sentence and exits with status 2.
Any other exception is a bug in Taskloom and keeps its traceback.
"""

from __future__ import annotations

import difflib
import operator
import reprlib
from collections.abc import Iterable
from typing import Any

SHORTEST_PART = 3
"""Minimum length of a name that is also matched inside other names (`bag` finds `bag-of-words`).
Shorter ones would match almost anything.
"""

MOST_NAMES = 12
"""Maximum number of names in an error. List commands show all of them."""

LONGEST = 4_000
"""Maximum characters of a message. User input is quoted, but a megabyte of it would hide the
sentence.
"""


class TaskloomError(Exception):
    """An error that the user can fix: bad input, a missing resource, a full disk.

    >>> len(str(TaskloomError("x" * 10**6)))
    4003
    """

    def __str__(self) -> str:
        text = super().__str__()
        return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"

    def __reduce__(self) -> tuple[Any, ...]:
        # By default, unpickling calls the class with the message, but some classes take other
        # arguments.
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(
    kind: type[TaskloomError], arguments: tuple[Any, ...], attributes: dict[str, Any]
) -> TaskloomError:
    """Rebuild an error raised by another process."""
    error = kind.__new__(kind)
    error.args = arguments
    error.__dict__.update(attributes)
    return error


class RecipeError(TaskloomError):
    """A recipe that cannot be read, contains a misspelt name, or asks for the impossible."""


class CapacityError(RecipeError):
    """A split that requests more examples than exist. Raised before any example is generated.

    Attributes:
        split: The name of the split.
        wanted: Number of examples requested.
        capacity: Maximum number available with the other fields unchanged.
    """

    def __init__(self, split: str, wanted: int, capacity: int, message: str = "") -> None:
        super().__init__(
            message
            or f"splits.{split}: {wanted:,} examples are requested, but only {capacity:,} can be "
            "made; lower n"
        )
        self.split = split
        self.wanted = wanted
        self.capacity = capacity


class DataError(TaskloomError):
    """A dataset on disk that is damaged, incomplete, or belongs to another recipe."""


class InputError(TaskloomError):
    """An input that a task cannot answer: an unknown symbol or a malformed line."""


class ParameterError(TaskloomError):
    """An invalid parameter value.

    The message names the parameter. The command line replaces this name with the corresponding
    option.

    Attributes:
        parameter: The name of the parameter.
        problem: The message without the parameter's name: `must be at least 1, not 0`.
    """

    def __init__(self, parameter: str, problem: str) -> None:
        super().__init__(f"{parameter} {problem}")
        self.parameter = parameter
        self.problem = problem


class MissingExtra(TaskloomError):  # noqa: N818 - reads as a sentence: raise MissingExtra("prompt tuning", "torch", "train")
    """An optional library that is not installed."""

    def __init__(self, what: str, library: str, extra: str) -> None:
        super().__init__(f"{what} needs {library}: pip install 'taskloom[{extra}]'")


_echo = reprlib.Repr()
_echo.maxstring = _echo.maxother = _echo.maxlong = 120
_echo.maxlevel, _echo.maxdict, _echo.maxlist, _echo.maxtuple = 3, 6, 8, 8


def echo(value: object) -> str:
    """Format a value for an error message, shortened if it is long.

    >>> echo([1, 2]), len(echo("x" * 10**6)), echo([[[[[1]]]]])
    ('[1, 2]', 120, '[[[[...]]]]')
    """
    return _echo.repr(value)


def whole(value: Any, parameter: str, least: int | None = None, most: int | None = None) -> int:
    """Return an integer as `int`, so that `1`, `np.int64(1)` and `"1"` have the same digest.

    Args:
        value: An integer of any library, or a string of digits.
        parameter: Name to use in the error.
        least: Minimum.
        most: Maximum.
    """
    number = _integer(value)
    if number is None:
        raise ParameterError(parameter, f"must be a whole number, not {echo(value)}")
    if least is not None and number < least:
        raise ParameterError(parameter, f"must be at least {least}, not {number}")
    if most is not None and number > most:
        raise ParameterError(parameter, f"must be at most {most:,}, not {number:,}")
    return number


def _integer(value: Any) -> int | None:
    """Convert an integer in any notation to `int`, or return None for anything else."""
    if isinstance(value, str) and value.strip().removeprefix("-").isdecimal() and len(value) <= 40:
        return int(value)
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def nearest(name: str, known: Iterable[str], many: int = 3) -> str:
    """Return a hint with the nearest known names, or with the first few if none is close.

    >>> nearest("ctl/AA", ["ctl/A", "ctl/R", "babi/1"])
    "did you mean 'ctl/A' or 'ctl/R'?"
    >>> nearest("bag", ["bag-of-words", "bilstm"])
    "did you mean 'bag-of-words'?"
    >>> nearest("table1", ["b/table10", "a/table1", "b/table1"])
    "did you mean 'a/table1' or 'b/table1'?"
    >>> nearest("zzz", ["b", "a"])
    'known: a, b'
    """
    names = sorted(known)
    name = name[:200]  # comparing takes quadratic time
    originals = {n.casefold(): n for n in names}
    wanted = name.casefold()
    is_part = len(name) >= SHORTEST_PART
    # Use only the strictest kind of match that finds a name.
    close = [text for text in originals if text.endswith(f"/{wanted}")]
    if not close and is_part:
        close = [text for text in originals if text.startswith(wanted)]
    if not close:
        close = difflib.get_close_matches(wanted, list(originals), n=many, cutoff=0.6)
    if not close and is_part:
        close = [text for text in originals if wanted in text]
    if close:
        quoted = [f"'{originals[text]}'" for text in close[:many]]
        return f"did you mean {' or '.join(quoted)}?"
    if not names:
        return "none is known"
    shown = ", ".join(names[:MOST_NAMES])
    return f"known: {shown}" + (
        f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    )


def raised_at(error: BaseException, file: str = "") -> str:
    """Return the location where user code raised an error, as ` (FILE, line N)`: the last frame in
    `file`, or otherwise the last frame.
    """
    place, trace = "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not file or name == file:
            place = f" ({name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return place
