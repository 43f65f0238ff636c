"""The examples behind the numbers: what the page's explorer shows, compressed into the page.

Items of a split are stored once for all learners; answers are indices into a list of texts.
The browser unpacks a split when it is opened, so a page with 100,000 examples starts at once.
"""

from __future__ import annotations

import base64
import itertools
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from taskloom.core.arrow import array_of, numbers, strings, whole_array
from taskloom.experiments.table import Runs

MOST_ANSWERS = 400_000
"""Answers of the whole page, about 4 MB where 100,000 examples have texts of a line; beyond, some
seeds are left out.
"""

MOST_ITEMS = 100_000
"""Examples of one split."""

LONGEST = 6_000
"""Characters of an input; a passage is shorter."""

MOST_VALUES = 60
"""Values of a trait that can be chosen as a filter; one with more names examples rather than kinds
of them.
"""

INDEX = "explorer-index"


@dataclass(frozen=True, slots=True)
class AnsweredCell:
    """The runs of one recipe and learner, with the names that the page gives them."""

    recipe: str
    learner: str
    runs: Sequence[str]


@dataclass(slots=True)
class Explorer:
    """Data of the explorer as the page's script reads them: texts by the ids of their elements."""

    data: dict[str, str] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """True if there is nothing to show."""
        return not self.data


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
        for (split, _), tables in splits.items():
            name = f"examples-{len(page.data)}"
            page.data[name] = _pack(_split_data(tables, _replies(runs, tables, split)))
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
                        "mean": _mean_score(tables, mine),
                    }
                    left = len(cell.runs) - len(cell.runs[:seeds])
                    index.append(
                        {**entry, "left": left, "paired": {k: v for k, v in tests.items() if v}}
                    )
    if index:
        page.data[INDEX] = script_json(index)
    return page


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


def _mean_score(tables: Mapping[str, pa.Table], runs: Sequence[str]) -> float:
    """Mean score of some runs: the page opens on the lowest."""
    means = [float(np.nan_to_num(whole_array(tables[run]["score"])).mean()) for run in runs]
    return sum(means) / len(means)


REPLY_FACTS = ("outcome", "finish", "rule", "tokens_in", "tokens_out", "tokens_thinking", "cost")
"""Columns of replies.parquet that stand in one line below a reply."""

MOST_REPLY_BYTES = 20_000_000
"""Characters of the replies of one split; of further runs only the answers are on the page."""


def _replies(
    runs: Runs, tables: Mapping[str, pa.Table], split: str
) -> dict[str, list[dict[str, Any] | None]]:
    """Prompts and whole replies of chat models, by run, in the order of its answers."""
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
    """What the page shows of a reply."""
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
"""A split, and a mark of its items: learners of one recipe may have answered different ones."""


def _by_items(runs: Runs, names: Sequence[str]) -> dict[Group, dict[str, pa.Table]]:
    """Rows of runs by split; runs that answered the same items are joined."""
    columns = ["split", "index", "input", "targets", "traits", "prediction", "score"]
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
    """Yield the rows of each split by name. Rows that are contiguous, as in our own files, are not
    copied.
    """
    splits = table["split"].combine_chunks().dictionary_encode()
    names, codes = splits.dictionary.to_pylist(), array_of(splits.indices)
    edges = [0, *(np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist(), len(codes)]
    for number, name in sorted(enumerate(names), key=lambda pair: str(pair[1])):
        places = [(a, b) for a, b in itertools.pairwise(edges) if b > a and codes[a] == number]
        rows = table.slice(places[0][0], places[0][1] - places[0][0]) if len(places) == 1 else None
        yield (
            name,
            (table.filter(numbers(codes == number)) if rows is None else rows).slice(0, MOST_ITEMS),
        )


def _split_data(
    tables: Mapping[str, pa.Table], replies: Mapping[str, list[dict[str, Any] | None]]
) -> dict[str, Any]:
    """Return the items of a split and the answers of each run to them."""
    first = next(iter(tables.values()))
    texts = pc.utf8_slice_codeunits(
        pc.coalesce(_joined(tables, "prediction"), strings([""])[0]), 0, LONGEST
    )
    encoded = texts.combine_chunks().dictionary_encode()
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
        "runs": runs,
        **({"replies": replies} if replies else {}),
    }


def _joined(tables: Mapping[str, pa.Table], column: str) -> pa.ChunkedArray:
    """One column of all runs, concatenated."""
    return pa.chunked_array([chunk for rows in tables.values() for chunk in rows[column].chunks])


def _scores(column: pa.ChunkedArray) -> list[float]:
    """Scores to three digits; 0 and 1 as whole numbers, which are shorter."""
    values = np.round(np.nan_to_num(whole_array(column).astype(float)), 3)
    if np.isin(values, (0.0, 1.0)).all():
        return list(values.astype(int).tolist())
    return [int(value) if value in (0.0, 1.0) else value for value in values.tolist()]


def _traits(rows: Sequence[Sequence[tuple[str, str]] | None]) -> dict[str, dict[str, Any]]:
    """Traits by which examples can be filtered: their values, and the index of each example's
    value.
    """
    names = list(dict.fromkeys(name for row in rows for name, _ in row or ()))
    columns: dict[str, dict[str, Any]] = {}
    tables = [dict(row or ()) for row in rows]
    for name in names:
        numbers: dict[str | None, int] = {}
        codes = [numbers.setdefault(row.get(name), len(numbers)) for row in tables]
        if 1 < len(numbers) <= MOST_VALUES:
            columns[name] = {"values": list(numbers), "codes": codes}
    return columns


def _pack(value: Any) -> str:
    """A value compressed, as text without characters that have a meaning in HTML."""
    return base64.b64encode(
        zlib.compress(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"), 6)
    ).decode()
