"""The examples behind the numbers: data for the page's explorer, compressed into the page.

Items of a split are stored once for all learners; answers are indices into a list of texts.
The browser unpacks a split only when it is opened, so a page with 100,000 examples loads at once.
"""

from __future__ import annotations

import base64
import itertools
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from taskloom.analysis.report.effects import named_by
from taskloom.core.arrow import array_of, numbers, strings, whole_array
from taskloom.core.errors import TaskloomError
from taskloom.core.example import Example
from taskloom.core.pictures import Picture, StoryPicture
from taskloom.core.registry import SUITES, trait_name
from taskloom.experiments.groups import trait_lists
from taskloom.experiments.table import Runs

MOST_ANSWERS = 400_000
"""Maximum answers on a page: about 4 MB if 100,000 examples have one line each. Beyond it, some
seeds are omitted.
"""

MOST_ITEMS = 100_000
"""Maximum number of examples per split."""

LONGEST = 6_000
"""Maximum characters of an input. Passages are shorter."""

MOST_VALUES = 60
"""Maximum values of a trait that is offered as a filter. A trait with more identifies examples
rather than kinds of examples.
"""

MOST_LIT = 10_000
"""Maximum stories of a split whose proofs are highlighted. 10,000 stories take a third of a
second.
"""

TRIED = 20
"""Examples to check before a split is treated as having no stories."""

INDEX = "explorer-index"


@dataclass(frozen=True, slots=True)
class AnsweredCell:
    """Runs of one recipe and learner, under the names used on the page."""

    recipe: str
    learner: str
    runs: Sequence[str]


@dataclass(slots=True)
class Explorer:
    """Data of the explorer in the form that the page's script reads: texts by element id."""

    data: dict[str, str] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """True if there is nothing to show."""
        return not self.data


Lit = tuple[list[tuple[int, int]], int]
"""Start and end of each highlighted sentence of a text, and the start of its question."""

Lighter = Callable[[Example], Lit | None]
"""Function that returns the highlighted sentences of an example, or None if it is no story."""


def explorer(
    runs: Runs, cells: Sequence[AnsweredCell], paired: Mapping[tuple[str, str, str, str], str]
) -> Explorer:
    """Collect the examples and answers of cells.

    Args:
        runs: The runs of the page.
        cells: Its recipes and learners.
        paired: Sentences on the paired test of two learners, by recipe, split, first and second.
    """
    sizes = {row["run"]: 0 for row in runs.table.select(["run"]).to_pylist()}
    for row in runs.table.select(["run", "n"]).to_pylist():
        sizes[row["run"]] += row["n"] or 0
    seeds = _seeds_that_fit(cells, sizes)
    index: list[dict[str, Any]] = []
    page = Explorer()
    by_recipe: dict[str, list[AnsweredCell]] = {}
    for cell in cells:
        by_recipe.setdefault(cell.recipe, []).append(cell)
    for recipe, own in by_recipe.items():
        chosen = {run: cell for cell in own for run in cell.runs[:seeds]}
        splits = _by_items(runs, list(chosen))
        suite = named_by(runs, recipe, list(chosen)).partition("/")[0]
        for (split, _), tables in splits.items():
            name = f"examples-{len(page.data)}"
            replies = _replies(runs, tables, split)
            items = _split_data(tables, replies)
            items["labels"] = {t: _label(suite, t) for t in items["traits"]}
            page.data[name] = _pack(items)
            for cell in own:
                mine = [run for run in cell.runs[:seeds] if run in tables]
                if mine:
                    tests = {
                        o.learner: paired.get((recipe, split, cell.learner, o.learner), "")
                        for o in own
                    }
                    entry = {
                        "recipe": recipe,
                        "learner": cell.learner,
                        "split": split,
                        "data": name,
                        "runs": mine,
                    }
                    left = len(cell.runs) - len(cell.runs[:seeds])
                    index.append(
                        {**entry, "left": left, "paired": {k: v for k, v in tests.items() if v}}
                    )
    if index:
        page.data[INDEX] = script_json(index)
    return page


@cache
def _label(suite: str, trait: str) -> str:
    return trait_name([suite], trait).label


def script_json(value: Any) -> str:
    """JSON that is safe inside a script element: nothing in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _seeds_that_fit(cells: Sequence[AnsweredCell], sizes: Mapping[str, int]) -> int:
    """Number of seeds of each cell that fit on the page, at least one."""
    most = max((len(cell.runs) for cell in cells), default=1)
    for seeds in range(most, 1, -1):
        if sum(sizes[run] for cell in cells for run in cell.runs[:seeds]) <= MOST_ANSWERS:
            return seeds
    return 1


REPLY_FACTS = ("outcome", "finish", "rule", "tokens_in", "tokens_out", "tokens_thinking", "cost")
"""Columns of replies.parquet that are shown on one line below a reply."""

MOST_REPLY_BYTES = 20_000_000
"""Maximum characters of the replies of one split. Further runs have only their answers on the page.
"""


def _replies(
    runs: Runs, tables: Mapping[str, pa.Table], split: str
) -> dict[str, list[dict[str, Any] | None]]:
    """Prompts and whole replies of chat models by run, in the order of the answers."""
    found: dict[str, list[dict[str, Any] | None]] = {}
    size = 0
    columns = ["split", "index", "messages", "reply", "thinking", "seconds", *REPLY_FACTS]
    for run, answers in tables.items():
        table = runs.reply_columns(run, columns)
        if table is None or size > MOST_REPLY_BYTES:
            continue
        rows = {
            row["index"]: _shown_reply(row) for row in table.to_pylist() if row["split"] == split
        }
        found[run] = [rows.get(index) for index in answers["index"].to_pylist()]
        size += sum(len(str(row)) for row in rows.values())
    return found


def _shown_reply(row: Mapping[str, Any]) -> dict[str, Any]:
    """Text that the page shows for a reply."""
    try:
        messages = json.loads(row["messages"] or "[]")
    except ValueError:
        messages = []
    turns = [f"{one.get('role')}: {one.get('content')}" for one in messages]
    facts = [f"{name.replace('_', ' ')} {row[name]}" for name in REPLY_FACTS if row[name]]
    if row["seconds"] is not None:
        facts.append(f"{row['seconds']:.2f} seconds")
    return {
        "prompt": "\n\n".join(turns)[:LONGEST],
        "reply": (row["reply"] or "")[:LONGEST],
        "thinking": (row["thinking"] or "")[:LONGEST],
        "facts": ", ".join(facts),
    }


Group = tuple[str, tuple[str, ...]]
"""A split and an identifier of its items, because learners of one recipe may have answered
different items.
"""


def _by_items(runs: Runs, names: Sequence[str]) -> dict[Group, dict[str, pa.Table]]:
    """Group the rows of runs by split. Runs that answered the same items are joined."""
    columns = ["split", "index", "task", "input", "targets", "traits", "prediction", "score"]
    groups: dict[Group, dict[str, pa.Table]] = {}
    for run in names:
        answers = runs.answers(run, columns)
        for split, rows in _splits(answers) if answers is not None else ():
            ends = (
                str(rows.num_rows),
                str(rows["input"][0]),
                str(rows["input"][rows.num_rows - 1]),
            )
            groups.setdefault((split, ends), {})[run] = rows
    return dict(sorted(groups.items()))


def _splits(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of each split by name. Contiguous rows, as in our files, are not copied."""
    splits = table["split"].combine_chunks().dictionary_encode()
    names, codes = splits.dictionary.to_pylist(), array_of(splits.indices)
    edges = [0, *(np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist(), len(codes)]
    for number, name in sorted(enumerate(names), key=lambda pair: str(pair[1])):
        places = [(a, b) for a, b in itertools.pairwise(edges) if b > a and codes[a] == number]
        if not places:  # the split is known but has no examples
            continue
        if len(places) == 1:
            start, stop = places[0]
            rows = table.slice(start, stop - start)
        else:
            rows = table.filter(numbers(codes == number))
        yield name, rows.slice(0, MOST_ITEMS)


@cache
def lighter(suite: str) -> Lighter | None:
    """Function that highlights the stories of a suite; None if the suite has no stories or is
    unknown.
    """
    known = SUITES.find(suite)
    draw = None if known is None else known.story
    if draw is None:
        return None

    def light(example: Example) -> Lit | None:
        try:
            return lit_places(example.input, draw(example))
        # the picture needs fields that predictions do not keep, such as the task
        except TaskloomError:
            return None

    return light


def lit_places(text: str, picture: Picture | None) -> Lit | None:
    """Find the sentences that the proof of a story uses, and its question, as positions in a text.

    None if the picture is no story, or if the text has a different layout.

    >>> from taskloom.core.pictures import ProofStep
    >>> story = StoryPicture(("Ann sat.", "Bob ran."), "Who ran?", "Bob", (ProofStep("", "", (1,)),))
    >>> lit_places("Ann sat. Bob ran. Who ran?", story)
    ([(9, 17)], 18)
    """
    if not isinstance(picture, StoryPicture):
        return None
    used = {place for step in picture.proof for place in step.sentences}
    lit: list[tuple[int, int]] = []
    end = 0
    for number, sentence in enumerate(picture.sentences):
        start = text.find(sentence, end)
        if start < 0:
            return None
        end = start + len(sentence)
        if number in used:
            lit.append((start, end))
    question = text.find(picture.question, end)
    return (lit, question) if question >= 0 else None


MOST_SHORTENED = 160
"""Maximum characters of an input at the head of the page."""


def shortened(row: Mapping[str, Any]) -> str:
    """Shorten the input of an answer to one line. A story is reduced to the sentences that prove
    the answer and the question, other texts to their beginning and end.
    """
    text = " ".join(str(row["input"]).split())
    light = lighter(str(row["task"]).partition("/")[0])
    lit = light(Example(text, row["targets"], dict(row["traits"] or ()))) if light else None
    if lit is not None and lit[0]:
        places, question = lit
        return " … ".join([*(text[start:end] for start, end in places), text[question:]])
    if len(text) <= MOST_SHORTENED:
        return text
    half = MOST_SHORTENED // 2
    return f"{text[:half]} … {text[-half:]}"


def _lit_items(table: pa.Table) -> list[Lit | None]:
    """Highlighted sentences of each item. Empty if the first items are no stories."""
    light = lighter(str(table["task"][0]).partition("/")[0])
    if light is None:
        return []
    found: list[Lit | None] = []
    for row in table.select(["input", "targets", "traits"]).slice(0, MOST_LIT).to_pylist():
        example = Example(row["input"], row["targets"], dict(row["traits"] or ()))
        found.append(light(example) if len(example.input) <= LONGEST else None)
        if len(found) == TRIED and not any(found):
            return []
    return found if any(found) else []


def _split_data(
    tables: Mapping[str, pa.Table], replies: Mapping[str, list[dict[str, Any] | None]]
) -> dict[str, Any]:
    """Items of a split and each run's answers to them."""
    first = next(iter(tables.values()))
    texts = _joined(tables, "prediction")
    if texts.null_count:
        texts = pc.coalesce(texts, strings([""])[0])
    encoded = pc.utf8_slice_codeunits(texts, 0, LONGEST).combine_chunks().dictionary_encode()
    answers, scores = encoded.indices.to_pylist(), _scores(_joined(tables, "score"))
    runs, start = {}, 0
    for run, rows in tables.items():
        mine = slice(start, start + rows.num_rows)
        runs[run] = {"answers": answers[mine], "scores": scores[mine]}
        start = mine.stop
    return {
        "index": first["index"].to_pylist(),
        "inputs": [text[:LONGEST] for text in first["input"].to_pylist()],
        "targets": [targets[:8] for targets in first["targets"].to_pylist()],
        "traits": _traits(first["traits"].to_pylist()),
        "texts": encoded.dictionary.to_pylist(),
        "lit": _lit_items(first),
        "runs": runs,
        **({"replies": replies} if replies else {}),
    }


def _joined(tables: Mapping[str, pa.Table], column: str) -> pa.ChunkedArray:
    """One column of all runs, concatenated."""
    return pa.chunked_array([chunk for rows in tables.values() for chunk in rows[column].chunks])


def _scores(column: pa.ChunkedArray) -> list[float]:
    """Scores with three digits. 0 and 1 are integers, which are shorter."""
    values = np.round(np.nan_to_num(whole_array(column).astype(float)), 3)
    if np.isin(values, (0.0, 1.0)).all():
        return list(values.astype(int).tolist())
    return [int(value) if value in (0.0, 1.0) else value for value in values.tolist()]


def _traits(rows: Sequence[Sequence[tuple[str, str]] | None]) -> dict[str, dict[str, Any]]:
    """Traits by which examples can be filtered: the values, and each example's index among them."""
    columns: dict[str, dict[str, Any]] = {}
    for name, each in trait_lists(rows).items():
        values = list(dict.fromkeys(each))
        if 1 < len(values) <= MOST_VALUES:
            numbers = {value: number for number, value in enumerate(values)}
            columns[name] = {"values": values, "codes": [numbers[value] for value in each]}
    return columns


def _pack(value: Any) -> str:
    """Compress a value to text without characters that are special in HTML."""
    return base64.b64encode(
        zlib.compress(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"), 6)
    ).decode()
