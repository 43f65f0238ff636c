"""Ablation of inputs: the question alone or the context alone, of the very same examples.

A suite whose inputs have two parts derives its fields from `InputParts`. The examples are those of the whole inputs, with
their contents, answers, traits and derivations; only what a model reads is less.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from taskloom.core.errors import RecipeError
from taskloom.core.plan import Plan, Split
from taskloom.recipe.fields import LATER, Fields, presentation

if TYPE_CHECKING:
    import pyarrow as pa

Parts = Literal["both", "question", "context"]
"""What of an input is there."""

NOTE = "inputs are the {part} alone, so that different examples may read alike: the audit counts them as overlaps"


class InputParts(Fields):
    """Fields of recipes whose inputs have two parts: a question, and the context that it is asked of."""

    parts: Annotated[Parts, LATER] = presentation(
        "both", description="both parts of an input, or the question or the context alone"
    )

    def divide(self, text: str, question: str) -> tuple[str, str]:
        """Return the question and the context of an input."""
        if not question or not text.endswith(question) or text == question:
            raise RecipeError(
                f"parts: the input {text[:60]!r} has one part only; write parts: both"
            )
        return question, text.removesuffix(question).rstrip()


def keep_part(plan: Plan, fields: InputParts) -> Plan:
    """Return a plan whose inputs are one of their two parts; answers can then be derived again only by making them again."""
    if fields.parts == "both":
        return plan

    from taskloom.core import shards  # not above: commands that only check recipes need no Arrow

    def rows(split: Split, start: int, stop: int) -> pa.Table:
        return _ablated(shards.to_table(split.rows(start, stop), start, plan.traits), fields)

    def part_of(split: Split) -> Split:
        return replace(split, rows=lambda start, stop: rows(split, start, stop))

    return replace(
        plan,
        splits=tuple(part_of(split) for split in plan.splits),
        answer=None,
        check=None,
        show=None,
        warnings=(*plan.warnings, NOTE.format(part=fields.parts)),
    )


def _ablated(table: pa.Table, fields: InputParts) -> pa.Table:
    """Return the rows with one part of their inputs; the content that decided on their split stays their key."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = table.column("input")
    questions = table.column("question").to_pylist()
    divided = [
        fields.divide(text, question or "")
        for text, question in zip(whole.to_pylist(), questions, strict=True)
    ]
    columns = {
        "input": pa.array(
            [q if fields.parts == "question" else c for q, c in divided], pa.string()
        ),
        "question": pa.nulls(table.num_rows, pa.string()),
        "key": pc.coalesce(table.column("key"), whole),
    }
    for name, column in columns.items():
        place = table.column_names.index(name)
        table = table.set_column(place, table.schema.field(place), column)
    return table
