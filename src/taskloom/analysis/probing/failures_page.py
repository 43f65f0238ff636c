"""The page of `taskloom falsify`: the smallest items that a model gets wrong, group by group."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from taskloom.analysis.probing.failures import Failure, FailureGroup, Falsification
from taskloom.analysis.report import page
from taskloom.core.pictures import StoryPicture
from taskloom.core.tables import Table, counted, table
from taskloom.recipe import Recipe

SHOWN = 3
"""Failures of a group that the page shows; the dataset has all."""

SHOWN_NEIGHBOURS = 8
"""Variants of a failure that the page lists."""


class StoryBlock(str):
    """A wrong answer as a block of the page. Lines that the proof of the answer uses are bold."""

    kind = "wrong"
    lit: frozenset[int]

    def __new__(cls, lines: list[str], lit: frozenset[int]) -> StoryBlock:
        """Attach the positions of the lit lines."""
        block = super().__new__(cls, "\n".join(lines))
        block.lit = lit
        return block

    def __html__(self) -> str:
        """The block with lit lines in bold."""
        lines = [
            f"<b>{escape(line)}</b>" if number in self.lit else escape(line)
            for number, line in enumerate(self.split("\n"))
        ]
        return "\n".join(lines)


def write_page(path: Path, result: Falsification, recipe: Recipe, seed: int | None) -> Path:
    """Write the page of a result."""
    sections = [
        page.Section(
            f"{number}. {group_title(group)}",
            group_text(group),
            blocks=tuple(_block(result.failures[i], recipe, seed) for i in group.failures[:SHOWN]),
        )
        for number, group in enumerate(result.groups, 1)
    ]
    if result.groups:
        overview = page.Section("What was found", table=group_table(result))
        sections.insert(0, overview)
    return page.write(
        path,
        f"The smallest items that {result.model} gets wrong",
        f"{result.recipe}, split {result.split}: {result.items:,} items drawn,"
        f" {result.questions:,} questions asked.",
        sections,
        headline=headline(result),
    )


def headline(result: Falsification) -> str:
    """The finding in one sentence."""
    if not result.wrong:
        return f"{result.model} answered all {result.items:,} items right."
    drawn = f"{result.model} got {result.wrong:,} of {result.items:,} items wrong."
    if not result.varied:
        return f"{drawn} The suite has no variants, so they are shown as they were drawn."
    failures = counted(len(result.failures), "minimal item")
    groups = counted(len(result.groups), "group")
    return f"{drawn} Shrunk, they give {failures} in {groups}."


def group_title(group: FailureGroup) -> str:
    """Name of a group: its trait, or else its edit."""
    if group.trait is not None:
        return str(group.trait)
    return group.edit or "No common trait"


def group_text(group: FailureGroup) -> str:
    """Sentence on what the failures of a group have in common."""
    sentences = [f"{counted(len(group.failures), 'minimal failure')}."]
    if group.trait is not None:
        rule = group.trait
        sentences.append(
            f"Among fresh items, “{rule}” holds for {rule.wrong:,} of {rule.of_wrong:,} that were"
            f" answered wrong and for {rule.right:,} of {rule.of_right:,} that were answered right."
        )
    if group.edit:
        sentences.append(f"The model is right after this edit: {group.edit}.")
    return " ".join(sentences)


def group_table(result: Falsification) -> Table:
    """One row for each group."""
    heads = ("failures", "trait", "of wrong items", "of right items", "right after")
    rows = []
    for group in result.groups:
        rule = group.trait
        counts = ("", "", "")
        if rule is not None:
            counts = (
                str(rule),
                f"{rule.wrong} of {rule.of_wrong}",
                f"{rule.right} of {rule.of_right}",
            )
        rows.append((len(group.failures), *counts, group.edit))
    return table(heads, rows)


def _block(failure: Failure, recipe: Recipe, seed: int | None) -> StoryBlock:
    lines, lit = _story(failure, recipe, seed)
    return StoryBlock([*lines, "", *answer_lines(failure)], lit)


def answer_lines(failure: Failure) -> Iterator[str]:
    """Yield the right answer, the model's, and the variants that it gets right."""
    yield f"right:    {' or '.join(failure.minimal.targets)}"
    yield f"answered: {failure.answer or '(nothing)'}"
    if not failure.proved:
        yield "It may not be minimal: it could not be shrunk further with the questions granted."
    for one in failure.neighbours[:SHOWN_NEIGHBOURS]:
        change = _change(one.before, one.after)
        yield f"right after {one.edit} ({one.kind}){change}"
    more = len(failure.neighbours) - SHOWN_NEIGHBOURS
    if more > 0:
        yield f"and after {more} other edits"


def _change(before: str, after: str) -> str:
    if before and after:
        return f": “{before}” → “{after}”"
    if before:
        return f": without “{before}”"
    return f": with “{after}”" if after else ""


def _story(failure: Failure, recipe: Recipe, seed: int | None) -> tuple[list[str], frozenset[int]]:
    """Lines of an item, and the positions of those that its proof uses."""
    example = failure.minimal
    draw = getattr(recipe.suite, "picture", None)
    picture = draw(example, recipe.fields, recipe.key(seed)) if draw is not None else None
    if not isinstance(picture, StoryPicture):
        return example.input.split("\n"), frozenset()
    used = frozenset(place for step in picture.proof for place in step.sentences)
    return [*picture.sentences, picture.question], used
