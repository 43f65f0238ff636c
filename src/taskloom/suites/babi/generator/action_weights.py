"""What may happen in a story and how often: names of events and constructs that are drawn by weight."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from math import inf

from taskloom.core.seeding import Random
from taskloom.suites.babi.story.events import KINDS


class WeightTable:
    """Names to draw from, by weight; `StoryGroup` refuses a group in which one that is drawn from would be empty."""

    __slots__ = ("bounds", "names", "total")

    def __init__(self, weights: Mapping[str, float]) -> None:
        positive = {name: weight for name, weight in weights.items() if weight > 0}
        bounds = list(accumulate(positive.values()))
        self.names = tuple(positive)
        self.total = bounds[-1] if bounds else 0.0
        self.bounds = [*bounds[:-1], inf]  # rounding may bring a draw up to the total: that is the last name's

    def draw(self, rng: Random) -> str:
        """Draw one of the names."""
        return self.names[bisect_right(self.bounds, rng.random() * self.total)]


class ActionWeights:
    """What may happen, with weights: events and constructs, and the topics of each construct, what it may be said of."""

    __slots__ = ("_topics", "conj", "coref", "kinds", "plain", "weights")

    def __init__(self, weights: Mapping[str, float], topics: Mapping[str, Mapping[str, float]]) -> None:
        self.weights = WeightTable(weights)
        self.coref = WeightTable(topics["COREF"])
        self.conj = WeightTable(topics["CONJ"])
        self._topics = {name: WeightTable(topics[name]) for name in ("NEGATE", "INDEF")}
        # What each name is if it is said of one subject in one way, which is most of a story.
        topics_of = {name: table.names for name, table in self._topics.items()}
        self.kinds = {name: kind for name, kind in KINDS.items() if topics_of.get(name, ("MOVE",)) == ("MOVE",)}
        self.plain = [self.kinds.get(name) for name in self.weights.names]

    def draw_topic(self, name: str, rng: Random) -> str:
        """Draw what a NEGATE or INDEF sentence is about: where somebody is (MOVE), or what they do; MOVE for all else."""
        table = self._topics.get(name)
        return "MOVE" if table is None else table.names[0] if len(table.names) == 1 else table.draw(rng)
