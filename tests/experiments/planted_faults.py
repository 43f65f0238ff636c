"""Learners with a fault that tests look for: they answer bAbI 9 by rules, all but one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import taskloom as tl

MOVE = re.compile(r"(\w+) (?:is|was|moved|went|went back|journeyed|travelled)(.*?) the (\w+)\.")
QUESTION = re.compile(r"Is (\w+) in the (\w+)\?")


def ignores_negation(text: str) -> str:
    """The answer of a reader to whom "is not in" is "is in"."""
    match = QUESTION.search(text)
    assert match is not None
    person, place = match.groups()
    placed = [where for who, _, where in MOVE.findall(text) if who == person]
    return "yes" if placed and placed[-1] == place else "no"


def follows_last_mention(text: str) -> str:
    """The answer of a reader who takes the last place that is named for everybody's."""
    match = QUESTION.search(text)
    assert match is not None
    last = MOVE.findall(text)[-1]
    return "yes" if last[2] == match[2] and "no" not in last[1] else "no"


@dataclass
class Rules:
    """A fitted learner that answers by a function."""

    rule: Any
    curve: Sequence[Any] = field(default_factory=list)

    def answer(self, inputs: Sequence[str]) -> list[str]:
        return [self.rule(text) for text in inputs]

    def logprob(
        self, inputs: Sequence[str], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        raise NotImplementedError

    def represent(self, inputs: Sequence[str], where: str = "") -> Any:
        raise NotImplementedError

    def save(self, folder: Path) -> None:
        """There is nothing to save."""


@tl.learner("planted/ignores-negation", describe="reads a negation as an affirmation")
@dataclass(frozen=True)
class IgnoresNegation:
    name: ClassVar[str] = "planted/ignores-negation"

    def fit(self, train: Any, *_: Any, **__: Any) -> Rules:
        return Rules(ignores_negation)


@tl.learner("planted/last-mention", describe="takes the last place for everybody's")
@dataclass(frozen=True)
class LastMention:
    name: ClassVar[str] = "planted/last-mention"

    def fit(self, train: Any, *_: Any, **__: Any) -> Rules:
        return Rules(follows_last_mention)
