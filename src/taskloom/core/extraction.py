"""Extraction: finding the answer in a model's reply before it is scored.

A scorer compares answers, but models reply with reasoning before the answer, a label, a box or
quotes. Extraction is part of how a model is prompted, so learners have it as a setting, which is
recorded with each run, and adapters for other tools take it as an argument.

Thinking is never the answer: `without_thinking` removes it before extraction. A reply that ends
inside a thought has no answer.

The defaults of prompts are also defined here, because a prompt asks for the form that an extraction
expects. They are shared by the learners `endpoint` and `model` and by all adapters for other tools,
and documented in docs/reference/prompts.md. A prompt consists of the description of the task, the
input, and the form of the answer:

    Read the story and answer the question from it.
    Fred went to the bedroom. Where is Fred?

    End your reply with a line that has "Answer:" and the answer alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from taskloom.core.errors import ParameterError, echo, nearest

KINDS = {
    "whole": "the whole reply",
    "line": "the first line",
    "last-line": "the last line",
    "boxed": r"the last \boxed{…}",
    "tag": "tag:NAME, the text between the last <NAME> and </NAME>",
    "regex": "regex:PATTERN, the last match, or its first group if it has one",
    "json": "json:KEY, the value of a key of the last JSON object",
    "final": (
        "a box, a tag <answer>, text after 'the answer is' or 'Answer:', a closing list, or else"
        " the last line"
    ),
}
"""Kinds of extraction by name, with the text that each extracts."""

WITH_ARGUMENT = ("tag", "regex", "json")
"""Extraction kinds that need an argument."""

LONGEST_REPLY = 100_000
"""Maximum characters of a reply that are searched, counted from its end. Answers come last, and a
model stuck in a loop may never stop writing.
"""

MOST_OBJECTS = 100
"""Maximum number of opening braces tried, from the end, when searching for a JSON object."""

THOUGHTS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("◁think▷", "◁/think▷"),
    ("[THINK]", "[/THINK]"),
)
"""Opening and closing tags of thoughts, matched case-insensitively: DeepSeek, Qwen and most others,
Kimi, Mistral.
"""

# gpt-oss writes `<|channel|>analysis<|message|>…<|end|>`, and its answer in the channel `final`.
_CHANNEL = "<|channel|>"
_FINAL_CHANNEL = re.compile(
    r"<\|channel\|>\s{0,9}final\b(?:[^<]|<\|constrain\|>){0,99}<\|message\|>"
)
# The same format decoded without special tokens, as by local models: `analysis…assistantfinal…`.
_UNMARKED_CHANNELS = re.compile(r"(?:analysis|commentary)(?=\S).*assistantfinal", re.DOTALL)
_END_OF_MESSAGE = re.compile(r"<\|(?:end|return|start|call)\|>")

_BOX = "\\boxed{"
_MARK = re.compile(
    r"\b(?:answer|result|solution)\b[*_`'\" ]{0,4}(?:\b(?:is|are|would be|should be)\b|:|=)[*_:"
    r" ]{0,4}",
    re.I,
)
_LABEL = re.compile(
    r"^(?:(?:so|thus|therefore|hence|and)\b,?\s*)?(?:the\s+)?(?:final\s+|correct\s+)?answer\s*(?:is\b|:)\s*",
    re.I,
)
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,3}[.)])\s+(?=\S)")
_FENCE = re.compile(r"^\s*```[^\n`]*\n(?P<body>.*?)\n?\s*```\s*$", re.S)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:(?:\w\.)+\w?|jr|sr|st|dr|mr|mrs|ms|inc|ltd|co|corp|etc|vs)\.$", re.I
)
_WRAPPERS = (
    ("$$", "$$"),
    ("**", "**"),
    ("$", "$"),
    ("`", "`"),
    ('"', '"'),
    ("'", "'"),
    ("“", "”"),
    ("‘", "’"),
    ("*", "*"),
)


def thought_marks(text: str) -> tuple[tuple[str, str], ...]:
    """Parse a setting with additional thought tags: `<plan> </plan>`, or several pairs in a row.
    Raises `ParameterError` if a tag is not paired.
    """
    words = text.split()
    if len(words) % 2:
        raise ParameterError(
            "thinking",
            f"is {echo(text)}; write the opening tag, a space and the closing tag:"
            " '<plan> </plan>'",
        )
    return tuple(zip(words[::2], words[1::2], strict=True))


def without_thinking(reply: str, marks: Iterable[tuple[str, str]] = ()) -> str:
    """Remove the thoughts from a reply. Empty if the reply ends inside a thought.

    A closing tag without an opening one ends a thought that began in the prompt, as in some models'
    chat templates.

    >>> without_thinking("<think>Perhaps the garden.</think>kitchen")
    'kitchen'
    >>> without_thinking("<think>First guess: the answer is kitchen")
    ''

    Args:
        reply: The model's reply.
        marks: Pairs of thought tags in addition to `THOUGHTS`.
    """
    return divide_thinking(reply, marks)[0]


def divide_thinking(reply: str, marks: Iterable[tuple[str, str]] = ()) -> tuple[str, str]:
    """Split a reply into its visible text and its thoughts. See `without_thinking`."""
    if _CHANNEL in reply or _UNMARKED_CHANNELS.match(reply):
        return _divide_channels(reply)
    pairs = (*THOUGHTS, *marks)
    pattern = _marks_pattern(pairs)
    if not pattern.search(reply):
        return reply, ""
    closing = {before.lower(): after.lower() for before, after in pairs}
    said: list[str] = []
    thought: list[str] = []
    awaited = ""  # the tag that ends the current thought
    end = 0
    for found in pattern.finditer(reply):
        mark = found[0].lower()
        if awaited and mark != awaited:
            continue  # a thought may contain other tags and its own opening tag
        (thought if awaited else said).append(reply[end : found.start()])
        end = found.end()
        if mark in closing and not awaited:
            awaited = closing[mark]
            continue
        if not awaited:  # everything before it was a thought
            thought += said
            said = []
        awaited = ""
    rest = reply[end:]
    if awaited:
        return "", "".join([*thought, rest]).strip()
    return "".join([*said, rest]).lstrip(), "".join(thought).strip()


@lru_cache(maxsize=32)
def _marks_pattern(pairs: tuple[tuple[str, str], ...]) -> re.Pattern[str]:
    marks = sorted({mark for pair in pairs for mark in pair}, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, marks)), re.IGNORECASE)


def _divide_channels(reply: str) -> tuple[str, str]:
    """Split a reply into channels. The last channel called `final` is the visible text."""
    if _CHANNEL not in reply:
        thought, _, message = reply.rpartition("assistantfinal")
        return message.strip(), thought
    finals = list(_FINAL_CHANNEL.finditer(reply))
    if not finals:
        return "", reply
    last = finals[-1]
    message = reply[last.end() :]
    end = _END_OF_MESSAGE.search(message)
    if end:
        message = message[: end.start()]
    return message.strip(), reply[: last.start()].strip()


@dataclass(frozen=True, slots=True)
class Extraction:
    """A way to extract an answer from a reply.

    >>> Extraction.read("final")("Mary took it there, so the answer is: the kitchen.")
    'the kitchen'
    >>> Extraction.read("tag:answer")("<answer>7</answer>")
    '7'

    Attributes:
        kind: One of `KINDS`.
        argument: The name of the tag, or the pattern.
        marks: Pairs of thought tags in addition to `THOUGHTS`.
    """

    kind: str = "final"
    argument: str = ""
    marks: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, text: str, thinking: str = "") -> Extraction:
        """Parse `last-line`, `tag:NAME`, `regex:PATTERN` and so on. Raises `ParameterError` for
        anything else.

        Args:
            text: The kind, with its argument.
            thinking: Additional thought tags. See `thought_marks`.
        """
        kind, _, argument = text.partition(":") if isinstance(text, str) else (echo(text), "", "")
        if kind not in KINDS:
            raise ParameterError("extract", f"is {echo(text)}; {nearest(kind, KINDS)}")
        if (kind in WITH_ARGUMENT) != bool(argument):
            needs = (
                f"needs an argument: {KINDS[kind]}"
                if kind in WITH_ARGUMENT
                else f"takes no argument: {kind}"
            )
            raise ParameterError("extract", f"is {echo(text)}, which {needs}")
        if kind == "tag" and not re.fullmatch(r"[\w.-]+", argument):
            raise ParameterError(
                "extract",
                f"is {echo(text)}; the name of a tag has letters, digits, '-', '_' and '.'",
            )
        if kind == "regex":
            try:
                re.compile(argument)
            except (re.error, RecursionError, OverflowError) as error:
                raise ParameterError(
                    "extract", f"is {echo(text)}, which is not a valid regular expression: {error}"
                ) from error
        return cls(kind, argument, thought_marks(thinking))

    def __str__(self) -> str:
        return f"{self.kind}:{self.argument}" if self.argument else self.kind

    def __call__(self, reply: str) -> str:
        """Return the answer. Empty if none is found, or if the reply ends inside a thought."""
        return self.cut(reply)[0]

    def cut(self, reply: str) -> tuple[str, str]:
        """Return the answer and the rule that found it: the kind or, for `final`, one of its rules
        (`box`, `tag`, `words`, `block`, `list` or `last line`).
        """
        # Remove thoughts first: once the reply is cut, the end of a long thought no longer looks
        # like one.
        reply = without_thinking(reply, self.marks)[-LONGEST_REPLY:]
        if self.kind == "whole":
            return reply, "whole"
        if self.kind == "final":
            answer, rule = final_rule(reply)
            return unwrapped(answer), rule
        return unwrapped(self._cut(reply)), str(self)

    def _cut(self, reply: str) -> str:
        if self.kind == "json":
            return json_value(reply, self.argument)
        if self.kind == "regex":
            matches = list(re.finditer(self.argument, reply))
            if not matches:
                return ""
            last = matches[-1]
            # Use the first group if the pattern has one. It is None if it did not take part in the
            # match.
            return (last[1] or "") if last.re.groups else last[0]
        if self.kind == "tag":
            return tagged(reply, self.argument) or ""
        if self.kind == "boxed":
            return boxed(reply) or ""
        lines = [line for line in reply.splitlines() if line.strip()]
        if not lines:
            return ""
        return _unlabelled(lines[0] if self.kind == "line" else lines[-1])


def boxed(reply: str) -> str | None:
    r"""Return the content of the last `\boxed{…}`, which may contain braces. None if no box is
    complete.
    """
    start = reply.rfind(_BOX)
    if start < 0:
        return None
    depth, begin = 1, start + len(_BOX)
    for place in range(begin, len(reply)):
        depth += {"{": 1, "}": -1}.get(reply[place], 0)
        if not depth:
            text = reply[begin:place].strip()
            inner = re.fullmatch(r"\\(?:text|mathrm|mathbf|textbf)\{(.*)\}", text, re.S)
            return inner[1] if inner else text
    return None


def tagged(reply: str, name: str) -> str | None:
    """Return the content of the last element with this name, or None if none is complete."""
    folded, begin, end = reply.lower(), f"<{name.lower()}>", f"</{name.lower()}>"
    close = folded.rfind(end)
    start = folded.rfind(begin, 0, close) if close >= 0 else -1
    return reply[start + len(begin) : close].strip() if start >= 0 else None


def json_value(reply: str, key: str) -> str:
    """Return the value of a key in the last JSON object of a reply, fenced or not. Empty if there
    is none.

    >>> json_value('It is {"answer": "kitchen"}.', "answer")
    'kitchen'
    """
    decoder = json.JSONDecoder()
    end = len(reply)
    for _ in range(MOST_OBJECTS):
        start = reply.rfind("{", 0, end)
        if start < 0:
            break
        try:
            value = decoder.raw_decode(reply, start)[0]
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and key in value:
            found = value[key]
            return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
        end = start
    return ""


def final(reply: str) -> str:
    """Return the answer at the end of a reply: boxed, tagged, introduced by words, a list, or the
    last line.
    """
    return final_rule(reply)[0]


def final_rule(reply: str) -> tuple[str, str]:
    """Return the answer at the end of a reply, and the rule that found it. See `final`."""
    for rule, marked in (("box", boxed(reply)), ("tag", tagged(reply, "answer"))):
        if marked is not None:
            return marked, rule
    marks = list(_MARK.finditer(reply))
    tail = reply[marks[-1].end() :] if marks else ""
    is_marked = bool(tail.strip(" \n\t*_.:`'\""))
    text = tail if is_marked else reply
    fence = _FENCE.match(text if is_marked else _last_block(text))
    if fence:
        return fence["body"].strip(), "words" if is_marked else "block"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return "", "last line"
    bullets = _closing_list(lines)
    if bullets:
        return ", ".join(bullets), "words" if is_marked else "list"
    if is_marked:
        return lines[0], "words"
    return _unlabelled(lines[-1]), "last line"


def _unlabelled(line: str) -> str:
    """Return a line without a leading `The answer is` or `Answer:`, even if that is emphasised."""
    plain = line.strip().lstrip("*_")
    label = _LABEL.match(plain)
    return plain[label.end() :].lstrip("*_ ") if label else line


def _last_block(text: str) -> str:
    """Return the fenced block at the end of a text, or an empty text if there is none."""
    pieces = text.rstrip().split("```")
    return f"```{pieces[-2]}```" if len(pieces) > 2 and not pieces[-1] else ""


def _closing_list(lines: list[str]) -> list[str]:
    """Return the items of the list at the end of some lines. A single item counts, because
    `- kitchen` is an answer too.
    """
    items: list[str] = []
    for line in reversed(lines):
        if not _BULLET.match(line):
            break
        items.append(unwrapped(_BULLET.sub("", line, count=1)))
    return items[::-1]


def unwrapped(text: str) -> str:
    """Remove quotes, emphasis, math delimiters and a final full stop around a text. The full stop
    of an abbreviation is kept.

    >>> unwrapped("**'Kitchen'.**"), unwrapped("Sammy Davis Jr."), unwrapped("$7$"), unwrapped("'tis")
    ('Kitchen', 'Sammy Davis Jr.', '7', "'tis")
    """
    text = text.strip()
    while True:
        before = text
        if text.endswith(".") and not text.endswith("..") and not _ABBREVIATION.search(text):
            text = text[:-1].rstrip()
        if text.count("**") == 1:  # its partner was removed with a label: **Answer: kitchen**
            text = text.removeprefix("**").removesuffix("**").strip()
        for left, right in _WRAPPERS:
            if (
                len(text) > len(left) + len(right)
                and text.startswith(left)
                and text.endswith(right)
            ):
                inside = text[len(left) : -len(right)]
                if left not in inside and right not in inside:
                    text = inside.strip()
        if text == before:
            return text


DESCRIBED = True
"""Default of `described`: put the description of the task before the input."""

ANSWER_FORMAT = 'End your reply with a line that has "Answer:" and the answer alone.'
"""Default of `answer_format`: the sentence after the input."""

EXTRACT = "final"
"""Default of `extract`: how the answer is extracted from a reply (`taskloom.core.extraction`)."""

SHOWN_ANSWER = "Answer: {}"
"""Answer of an example shown as an earlier turn of the conversation."""


def chat_prompt(text: str, answer_format: str = ANSWER_FORMAT) -> str:
    """The message that asks for one answer.

    >>> print(chat_prompt("Where is Fred?", "Answer in one word."))
    Where is Fred?
    <BLANKLINE>
    Answer in one word.

    Args:
        text: The input, with or without a description.
        answer_format: Sentence after the input. Empty for none.
    """
    return f"{text}\n\n{answer_format}" if answer_format else text


def shown_answer(target: str, answer_format: str = ANSWER_FORMAT) -> str:
    """Return the reply shown with an example, in the default answer format if that format is
    requested.
    """
    return SHOWN_ANSWER.format(target) if answer_format == ANSWER_FORMAT else target
