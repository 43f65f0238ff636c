"""The predictions of a run, wrong ones first, one page at a time. Only scores and row numbers of a
whole run are kept in memory.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from taskloom.apps.view.split_rows import BATCH, TASK
from taskloom.core.registry import SUITES
from taskloom.core.twins import TWIN_KINDS, companion
from taskloom.experiments.groups import trait
from taskloom.experiments.record import RunSource

RIGHT = 1.0
"""Minimum score of a right answer. Lower scores are wrong or partially right."""

SAMPLE = 4_096
"""Number of rows from which the names and values of traits are read."""

MOST_PLACES = 12
"""Maximum values of a trait on an axis that is chosen by default. A screen has no room for more."""

DIGITS = 2
"""Decimal places to which the explained variance is rounded when traits are ranked."""

NEARLY_FULL = 0.8
"""Minimum share of the cells of a map with enough examples for it to count as full."""

NEARLY = 0.8
"""Minimum share of a trait's explained variance that a coarser trait must explain to replace it."""

SHOWN = ("index", "task", "input", "targets", "prediction", "score", "traits")


@dataclass(frozen=True, slots=True)
class LitStory:
    """A story with its question separated, and the sentences that answer it marked.

    Attributes:
        pieces: The text before the question, each piece with True if the proof uses it.
        question: The question.
    """

    pieces: list[tuple[str, bool]]
    question: str


def lit_story(text: str, lit: Sequence[Sequence[int]], question: int) -> LitStory:
    """Cut a text at the positions that `lit_places` found.

    >>> lit_story("Ann sat. Bob ran. Who ran?", [(9, 17)], 18)
    LitStory(pieces=[('Ann sat. ', False), ('Bob ran.', True), (' ', False)], question='Who ran?')
    """
    pieces: list[tuple[str, bool]] = []
    end = 0
    for start, stop in lit:
        pieces += [(text[end:start], False), (text[start:stop], True)]
        end = stop
    pieces.append((text[end:question], False))
    return LitStory([piece for piece in pieces if piece[0]], text[question:])


Pieces = list[tuple[str, bool]]
"""A text in pieces, each with True if it is highlighted."""


def edited(original: str, twin: str) -> tuple[Pieces, Pieces]:
    """Highlight the words of two texts between their common beginning and end.

    >>> edited("Ann went home.", "Ann ran home.")[1]
    [('Ann ', False), ('ran ', True), ('home.', False)]
    """
    ours, theirs = re.findall(r"\s*\S+\s*", original), re.findall(r"\s*\S+\s*", twin)
    begin = _alike(ours, theirs)
    end = _alike(ours[begin:][::-1], theirs[begin:][::-1])
    return _lit_middle(ours, begin, end), _lit_middle(theirs, begin, end)


def _alike(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """Number of words in the common beginning of two texts."""
    same = [a == b for a, b in zip(ours, theirs, strict=False)]
    return [*same, False].index(False)


def _lit_middle(words: Sequence[str], begin: int, end: int) -> Pieces:
    stop = len(words) - end
    parts = [(words[:begin], False), (words[begin:stop], True), (words[stop:], False)]
    return [("".join(part), lit) for part, lit in parts if part]


@dataclass(frozen=True, slots=True)
class EditedPair:
    """An item and its twin, with the edit highlighted in both texts.

    Attributes:
        original: The answer to the item.
        before: Its text.
        after: The twin's text.
    """

    original: ScoredAnswer
    before: Pieces
    after: Pieces


@dataclass(frozen=True, slots=True)
class ScoredAnswer:
    """A row of predictions.parquet and, for a chat model, the matching row of replies.parquet."""

    index: int
    task: str
    input: str
    targets: tuple[str, ...]
    prediction: str
    score: float | None
    traits: Mapping[str, str]
    reply: Mapping[str, Any] | None = None
    story: LitStory | None = None
    pair: EditedPair | None = None

    @property
    def right(self) -> bool:
        """True if the answer has the full score."""
        return self.score is not None and self.score >= RIGHT


@dataclass(frozen=True, slots=True)
class ScoreColumns:
    """The rows of a split that match a search: their row numbers in the file, indices in the split,
    and scores.
    """

    rows: NDArray[np.int64]
    index: NDArray[np.int64]
    score: NDArray[np.float64]

    @property
    def right(self) -> NDArray[np.bool_]:
        """Mask of the rows with the full score."""
        return self.score >= RIGHT


class PredictionRows:
    """The predictions of one run.

    Args:
        source: Store or logs with the run.
        run: Its digest.
    """

    def __init__(self, source: RunSource, run: str) -> None:
        self.source, self.run = source, run

    def columns(
        self, split: str, text: str = "", filters: Mapping[str, str] | None = None
    ) -> ScoreColumns:
        """Return the scores of a split's rows that contain a text (in input, targets or prediction)
        and have the given traits.
        """
        filters = filters or {}
        wanted = ["split", "index", "score", *(["input", "targets", "prediction"] if text else [])]
        wanted += [
            *(["task"] if TASK in filters else []),
            *(["traits"] if set(filters) - {TASK} else []),
        ]
        parts: list[tuple[Any, Any, Any]] = []
        for low, batch in self._batches(wanted):
            table = pa.Table.from_batches([batch])
            mask = pc.equal(table["split"].cast(pa.string()), split)
            if text:
                pieces = [
                    table["input"],
                    pc.binary_join(table["targets"], "\n"),
                    table["prediction"],
                ]
                hits = [
                    pc.fill_null(pc.match_substring(piece, text, ignore_case=True), False)
                    for piece in pieces
                ]
                mask = pc.and_(mask, pc.or_(pc.or_(hits[0], hits[1]), hits[2]))
            for name, value in filters.items():
                column = table["task"] if name == TASK else trait(table["traits"], name)
                mask = pc.and_(mask, pc.equal(column.cast(pa.string()), value))
            kept = table.select(["index", "score"]).filter(pc.fill_null(mask, False))
            places = pc.indices_nonzero(pc.fill_null(mask, False)).to_numpy().astype(np.int64) + low
            parts.append(
                (
                    places,
                    kept["index"].to_numpy(),
                    pc.fill_null(kept["score"], float("nan")).to_numpy(),
                )
            )
        columns = [
            np.concatenate([part[i] for part in parts]) if parts else np.empty(0) for i in range(3)
        ]
        return ScoreColumns(
            columns[0].astype(np.int64), columns[1].astype(np.int64), columns[2].astype(np.float64)
        )

    def take(self, rows: Sequence[int] | NDArray[np.int64], split: str = "") -> list[ScoredAnswer]:
        """Read rows by their numbers in the file, in the given order.

        Args:
            rows: The numbers.
            split: Their split, to add the full replies; empty: without replies.
        """
        wanted = np.asarray(rows, dtype=np.int64)
        answers: dict[int, ScoredAnswer] = {}
        if not len(wanted):
            return []
        for low, batch in self._batches(SHOWN):
            places = wanted[(wanted >= low) & (wanted < low + batch.num_rows)]
            if len(places):
                chosen = batch.take(pa.array(places - low))
                for place, row in zip(places.tolist(), chosen.to_pylist(), strict=True):
                    answers[place] = _answer(row)
            if len(answers) == len(set(wanted.tolist())):
                break
        chosen = [answers[row] for row in wanted.tolist() if row in answers]
        return self._with_replies(chosen, split)

    def with_originals(self, answers: Sequence[ScoredAnswer], split: str) -> list[ScoredAnswer]:
        """Pair answers to twins with those to their originals. Others are returned unchanged."""
        kind = next((kind for kind in TWIN_KINDS if split.endswith(companion("", kind))), None)
        if kind is None or not answers:
            return list(answers)
        columns = self.columns(split.removesuffix(companion("", kind)))
        wanted = np.isin(columns.index, [one.index for one in answers])
        originals = {one.index: one for one in self.take(columns.rows[wanted])}
        return [_beside(one, originals.get(one.index)) for one in answers]

    def _with_replies(self, answers: list[ScoredAnswer], split: str) -> list[ScoredAnswer]:
        """The answers with the full replies of a chat model, if the run kept them."""
        wanted = [answer.index for answer in answers]
        table = self.source.replies_to(self.run, split, wanted) if split else None
        if table is None:
            return answers
        replies = {row["index"]: _reply(row) for row in table.to_pylist()}
        return [replace(answer, reply=replies.get(answer.index)) for answer in answers]

    def traits(self) -> dict[str, list[str]]:
        """The traits of the first rows, each with its sorted values."""
        values: dict[str, set[str]] = {}
        for low, batch in self._batches(["task", "traits"]):
            for row in batch.to_pylist():
                values.setdefault(TASK, set()).add(str(row["task"]))
                for name, value in row["traits"] or ():
                    values.setdefault(str(name), set()).add(str(value))
            if low + batch.num_rows >= SAMPLE:
                break
        return {
            name: sorted(kinds, key=_natural) for name, kinds in values.items() if len(kinds) > 1
        }

    def best_constant(self, split: str) -> float | None:
        """Share of a split's examples that accept its most frequent answer; None if empty."""
        counts: Counter[str] = Counter()
        n = 0
        for _, batch in self._batches(["split", "targets"]):
            for row in batch.to_pylist():
                if row["split"] == split:
                    counts.update(set(row["targets"] or ()))
                    n += 1
        return max(counts.values()) / n if counts else None

    def named_by(self, recipe: str) -> str:
        """Recipe or task whose suite explains the traits: the recipe, or the examples' task if the
        recipe is not one of an installed suite.
        """
        if recipe.partition("/")[0] in SUITES.names():
            return recipe
        for _, batch in self._batches(["task"]):
            if batch.num_rows:
                return str(batch["task"][0].as_py() or recipe)
        return recipe

    def telling_traits(self, split: str, known: Sequence[str] = ()) -> list[str]:
        """Rank the traits that fit a small map by the share of the variance of scores that they
        explain.

        Args:
            split: The split.
            known: The traits that the suite explains, in its order. It breaks ties between traits
                that explain about as much, as for a model that fails everywhere.

        A trait that only renames or merges the values of another is left out, because a map of both
        would only fill a diagonal. The coarser of the two is kept if it explains nearly as much.
        For example, groups of a recipe explain everything that question and depth do, but are
        harder to read.
        """
        few, scores = self._small_traits(split)
        return _telling(few, scores, known)

    def telling_pair(self, split: str, known: Sequence[str], least: int) -> list[str]:
        """Choose the two traits for the axes of a map, the one with fewer values first.

        Among the pairs that fill nearly all of their map's cells with at least `least` examples,
        the one that explains most variance is chosen; then among those that fill more than half.
        If there is no such pair, it is the one that fills most. Pairs in which one trait determines
        the other are chosen only if there are no others.
        """
        few, scores = self._small_traits(split)
        places = {name: place for place, name in enumerate(known)}
        full: list[tuple[float, list[str]]] = []
        pairs: list[tuple[float, list[str]]] = []
        rest: list[tuple[tuple[bool, float], list[str]]] = []
        for a, b in combinations(sorted(few, key=lambda name: places.get(name, len(few))), 2):
            cells = [f"{one}\0{other}" for one, other in zip(few[a], few[b], strict=True)]
            counts = Counter(cells)
            sizes = len(set(few[a])), len(set(few[b]))
            share = sum(n >= least for n in counts.values()) / math.prod(sizes)
            if share > 1 / 2:
                told = (round(_explained(cells, scores), DIGITS), [a, b])
                (full if share >= NEARLY_FULL else pairs).append(told)
            rest.append(((len(counts) > max(sizes), share), [a, b]))
        if not rest:
            return _telling(few, scores, known)
        best = max(full or pairs or rest, key=itemgetter(0))[1]
        return sorted(best, key=lambda name: len(set(few[name])))

    def _small_traits(self, split: str) -> tuple[dict[str, list[str]], NDArray[np.float64]]:
        """Values of each low-cardinality trait for a split's first scored examples, and their
        scores.
        """
        traits, scores = self._sampled_traits(split)
        few = {}
        for name in {name for values in traits for name in values}:
            column = [str(values.get(name)) for values in traits]
            if 1 < len(set(column)) <= MOST_PLACES:
                few[name] = column
        return few, scores

    def _sampled_traits(self, split: str) -> tuple[list[dict[str, str]], NDArray[np.float64]]:
        """Traits and scores of the first items of a split that have a score."""
        traits, scores = [], []
        for low, batch in self._batches(["split", "task", "traits", "score"]):
            for row in batch.to_pylist():
                if row["split"] == split and row["score"] is not None:
                    traits.append({**dict(row["traits"] or ()), TASK: str(row["task"])})
                    scores.append(row["score"])
            if low + batch.num_rows >= SAMPLE:
                break
        return traits, np.array(scores)

    def _batches(self, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        low = 0
        for batch in self.source.answer_batches(self.run, columns, BATCH):
            yield low, batch
            low += batch.num_rows


def _beside(twin: ScoredAnswer, original: ScoredAnswer | None) -> ScoredAnswer:
    """Pair the answer to a twin with that to its original. An item without a twin repeats its
    original, so it is returned unchanged.
    """
    if original is None or not twin.traits.get("edit"):
        return twin
    return replace(twin, pair=EditedPair(original, *edited(original.input, twin.input)))


def _answer(row: Mapping[str, Any]) -> ScoredAnswer:
    return ScoredAnswer(
        row["index"],
        row["task"] or "",
        row["input"] or "",
        tuple(row["targets"] or ()),
        row["prediction"] or "",
        row["score"],
        dict(row["traits"] or ()),
    )


def _reply(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of replies.parquet with its messages parsed."""
    try:
        messages = json.loads(row["messages"] or "[]")
    except (ValueError, RecursionError):
        messages = []
    return {**row, "messages": [one for one in messages if isinstance(one, dict)]}


def _telling(
    few: Mapping[str, list[str]], scores: NDArray[np.float64], known: Sequence[str]
) -> list[str]:
    """Traits ranked by explained variance, without those that rename or merge another's values."""
    explained = {name: _explained(column, scores) for name, column in few.items()}
    places = {name: place for place, name in enumerate(known)}

    def rank(name: str) -> tuple[float, int, str]:
        return -round(explained[name], DIGITS), places.get(name, len(places)), name

    ranked = sorted(few, key=rank)
    telling: list[str] = []
    for finest in ranked:
        enough = NEARLY * explained[finest]
        coarser = [
            other
            for other in ranked
            if explained[other] >= enough > 0 and _is_function(few[other], few[finest])
        ]
        name = min(coarser or [finest], key=lambda other: (len(set(few[other])), other))
        if not any(_same_groups(few[name], few[other]) for other in telling):
            telling.append(name)
    return telling


def _explained(column: Sequence[str], scores: NDArray[np.float64]) -> float:
    """Share of the variance of scores that a trait explains (epsilon squared). It is adjusted for
    the number of values, because many values explain something by chance.
    """
    _, codes = np.unique(np.array(column), return_inverse=True)
    counts = np.bincount(codes)
    means = np.bincount(codes, weights=scores) / counts
    between = float((counts * (means - scores.mean()) ** 2).sum())
    total = float(((scores - scores.mean()) ** 2).sum())
    free = len(scores) - len(counts)
    if not total or free < 1:
        return 0.0
    return 1 - (1 - between / total) * (len(scores) - 1) / free


def _is_function(coarse: Sequence[str], fine: Sequence[str]) -> bool:
    """True if the value of one trait follows from that of another."""
    return len(set(zip(coarse, fine, strict=True))) == len(set(fine))


def _same_groups(a: Sequence[str], b: Sequence[str]) -> bool:
    """True if one of two traits is a function of the other."""
    return _is_function(a, b) or _is_function(b, a)


def _natural(value: str) -> tuple[int, float, str]:
    try:
        return 0, float(value), value
    except ValueError:
        return 1, 0.0, value
