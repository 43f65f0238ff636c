"""Stories in bAbI format: parses them with errors that name the line, and writes them byte for
byte.

A line is `NUMBER sentence.` or `NUMBER question?<tab>answer<tab>supporting numbers`. The number 1
begins a new story.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from taskloom.core.errors import InputError
from taskloom.core.files import read_bytes

_NUMBERED = re.compile(r"([0-9]{1,9})[ \t]+(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a story. `line` is its line in the file, or 0 if it is not from a file."""

    number: int
    text: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class QuestionLine:
    """A question, with the answer and the support stated in the file (`answer` is None if there is
    none).

    `unended` is True for a last line without a line end, because the file may have been cut off
    within the answer.
    """

    number: int
    text: str
    answer: str | None = None
    support: tuple[int, ...] = ()
    line: int = 0
    unended: bool = False


@dataclass(frozen=True, slots=True)
class StoryText:
    """Sentences and questions in the order in which they are read."""

    lines: tuple[Sentence | QuestionLine, ...]

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        """Sentences without the questions."""
        return tuple(x for x in self.lines if isinstance(x, Sentence))

    @property
    def questions(self) -> tuple[QuestionLine, ...]:
        """Questions without the sentences."""
        return tuple(x for x in self.lines if isinstance(x, QuestionLine))

    def text(self, gap: str = "") -> str:
        """Return the story in bAbI format. `gap` is the text between a question and its tab (a
        space in task 14).
        """
        out = []
        for item in self.lines:
            if isinstance(item, Sentence):
                out.append(f"{item.number} {item.text}\n")
            else:
                support = " ".join(map(str, item.support))
                out.append(f"{item.number} {item.text}{gap}\t{item.answer or ''}\t{support}\n")
        return "".join(out)


def split_passage(text: str) -> tuple[list[str], str]:
    """Split a running text into its sentences and its question.

    Raises:
        InputError: If it does not end with a question.
    """
    pieces = re.findall(r"[^.?]+[.?]", text.strip())
    if not pieces or not pieces[-1].endswith("?"):
        raise InputError(
            "the input must consist of sentences followed by a question, e.g. 'Mary went to the "
            "park. Where is Mary?'"
        )
    return [p.strip() for p in pieces[:-1]], pieces[-1].strip()


def read_path(path: Path) -> list[StoryText]:
    """Read the stories of a file in bAbI format."""
    if not path.exists():
        raise InputError(f"there is no file {path}; give the path of a file in bAbI format")
    raw = read_bytes(path, InputError, pipes=True)
    return read_story_text(decode(raw, str(path)), str(path))


def decode(raw: bytes, where: str) -> str:
    """Decode UTF-8 bytes with or without a byte order mark."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where} is not UTF-8 text (byte {error.start}); save it as UTF-8"
        ) from error


def read_story_text(text: str, where: str) -> list[StoryText]:
    """Read the stories of a text in bAbI format, with any line ends."""
    rows = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return read_lines(
        [*(row + "\n" for row in rows[:-1]), *filter(None, rows[-1:])], where, ended=True
    )


def read_lines(
    lines: Iterable[str], where: str = "the story", ended: bool | None = None
) -> list[StoryText]:
    """Read stories from lines in bAbI format. A byte order mark, CRLF and empty lines are accepted.

    Args:
        lines: Lines with or without line ends. If the last one has none, the file may have been cut
            off.
        where: Location for error messages.
        ended: True if complete lines have line ends. None: detect this from the lines.
    """
    raw = list(lines)
    ended = any(x.endswith(("\n", "\r")) for x in raw) if ended is None else ended
    stories: list[list[Sentence | QuestionLine]] = []
    for at, line in enumerate(raw, 1):
        text = line.removeprefix("\ufeff").rstrip("\r\n")
        if not text.strip():
            continue
        place = f"{where}:{at}"
        last = at == len(raw) and ended and not line.endswith(("\n", "\r"))
        item = _read_line(text, at, place, last)
        if item.number == 1:
            stories.append([])
        _check_number(item, stories, place)
        stories[-1].append(item)
        if isinstance(item, QuestionLine):
            _check_support(item, stories[-1], place)
            # A question may end the file without support if no question in the file has any.
            if last and not item.support and _any_support(stories):
                raise InputError(
                    f"{place}: the file is cut off inside this question, which has no supporting"
                    " numbers"
                )
    if not stories:
        raise InputError(f"{where} has no story; a line reads '1 Mary moved to the bathroom.'")
    return [StoryText(tuple(s)) for s in stories]


def _check_number(
    item: Sentence | QuestionLine, stories: list[list[Sentence | QuestionLine]], place: str
) -> None:
    if not stories:
        raise InputError(f"{place}: a story begins with number 1, not {item.number}")
    expected = len(stories[-1]) + 1
    if item.number != expected:
        raise InputError(
            f"{place}: expected number {expected}, or 1 for a new story, not {item.number}; a line"
            " is missing or repeated"
        )


def _any_support(stories: list[list[Sentence | QuestionLine]]) -> bool:
    return any(
        isinstance(item, QuestionLine) and item.support for item in chain.from_iterable(stories)
    )


def _read_line(text: str, at: int, place: str, last: bool) -> Sentence | QuestionLine:
    cut = "; the file is cut off here" if last else ""
    match = _NUMBERED.fullmatch(text)
    if match is None:
        raise InputError(
            f"{place}: {text[:60]!r} does not start with its number, as in '1 Mary moved.'{cut}"
        )
    number, rest = int(match[1]), match[2]
    head, *fields = rest.split("\t")
    head = head.strip()
    if not fields and head.endswith("."):
        return Sentence(number, head, at)
    if not head.endswith("?"):
        kind = "question does not end with '?'" if fields else "sentence does not end with '.'"
        raise InputError(f"{place}: the {kind}: {head[:60]!r}{cut}")
    if len(fields) > 2:
        raise InputError(
            f"{place}: a question has at most an answer and supporting numbers, but here are "
            f"{len(fields)} fields"
        )
    if fields and not fields[0].strip():
        raise InputError(f"{place}: the answer is empty; omit the tab if there is none{cut}")
    support = fields[1].split() if len(fields) > 1 else []
    if not all(s.isascii() and s.isdigit() and len(s) < 10 for s in support):
        raise InputError(
            f"{place}: supporting numbers must be integers separated by spaces, not {fields[1]!r}"
        )
    return QuestionLine(
        number, head, fields[0].strip() if fields else None, tuple(map(int, support)), at, last
    )


def _check_support(
    question: QuestionLine, before: Sequence[Sentence | QuestionLine], place: str
) -> None:
    sentences = {x.number for x in before if isinstance(x, Sentence)}
    for number in question.support:
        if number not in sentences:
            raise InputError(
                f"{place}: supporting number {number} is not an earlier sentence of this story"
            )
