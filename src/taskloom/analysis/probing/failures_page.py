"""The page of `taskloom falsify`: the smallest items that a model gets wrong, group by group."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from taskloom.analysis.probing.failures import Failure, FailureGroup, Falsification
from taskloom.analysis.report import page
from taskloom.core.pictures import StoryPicture
from taskloom.core.plan import Variant
from taskloom.core.tables import counted
from taskloom.recipe import Recipe

SHOWN = 3
"""Maximum failures of a group on the page. The dataset has all of them."""

SHOWN_EDITS = 6
"""Maximum number of edits listed as repairs of a failure."""

ABOUT = (
    "Every wrong item was simplified for as long as the model still got a simpler one wrong. What"
    " remains is minimal: if anything else is removed, the model is right. To see what such items"
    " have in common, the model was asked fresh items, half of them shortened at random. Sentences"
    " that prove the right answer are in bold."
)


EFFECTS = {
    "flip": "changes the right answer",
    "keep": "does not change the right answer",
    "simpler": "makes the item simpler",
}
"""Effect of an edit, by kind."""


class StoryBlock(page.Marked):
    """A wrong answer as a block of the page. Lines that the proof of the answer uses are bold."""

    lit: frozenset[int]

    def __html__(self) -> str:
        """The block with the lines of the proof in bold."""
        lines = [
            f"<b>{escape(line)}</b>" if number in self.lit else escape(line)
            for number, line in enumerate(self.split("\n"))
        ]
        return "\n".join(lines)


def write_page(path: Path, result: Falsification, recipe: Recipe, seed: int | None) -> Path:
    """Write the page of a result."""
    sections = []
    for number, group in enumerate(result.groups, 1):
        blocks = [_block(result.failures[i], recipe, seed) for i in group.failures[:SHOWN]]
        title = f"{number}. {group_title(group)}"
        sections.append(page.Section(title, group_text(group), blocks=tuple(blocks)))
    if sections and result.varied:
        again = f"taskloom falsify OTHER-MODEL --replay {path.parent}"
        sections.insert(0, page.Section("How to read this page", ABOUT))
        sections.append(page.Section("Replay with another model", blocks=(again,)))
    return page.write(
        path,
        f"The smallest items that {result.model} gets wrong",
        f"{result.recipe}, split {result.split}: {result.items:,} items drawn,"
        f" {result.questions:,} questions asked.",
        sections,
        headline=headline(result),
    )


def headline(result: Falsification) -> str:
    """The finding in one or two sentences."""
    if not result.wrong:
        return f"{result.model} answered all {result.items:,} items right."
    drawn = f"{result.model} got {result.wrong:,} of {result.items:,} items wrong."
    if not result.varied:
        return f"{drawn} The suite has no variants, so they are shown as they were drawn."
    found = [group_title(group) for group in result.groups if group.trait is not None]
    if found:
        return f"{drawn} What wrong items have in common: {'; '.join(found)}."
    failures = counted(len(result.failures), "minimal item")
    return f"{drawn} Those that were shrunk give {failures} without a common trait."


def group_title(group: FailureGroup) -> str:
    """Name of a group: its trait, or else its edit."""
    if group.trait is not None:
        return str(group.trait)
    return f"Right after “{group.edit.partition(': ')[2]}”" if group.edit else "No common trait"


def group_text(group: FailureGroup) -> str:
    """What the failures of a group have in common."""
    sentences = [f"{counted(len(group.failures), 'minimal item')}."]
    if group.trait is not None:
        rule = group.trait
        sentences.append(
            f"Of the fresh items, {rule.wrong:,} of {rule.of_wrong:,} wrong ones have “{rule}”, and"
            f" {rule.right:,} of {rule.of_right:,} right ones."
        )
    if group.edit:
        kind, _, name = group.edit.partition(": ")
        sentences.append(f"The model is right after “{name}”, which {EFFECTS[kind]}.")
    return " ".join(sentences)


def _block(failure: Failure, recipe: Recipe, seed: int | None) -> StoryBlock:
    lines, lit = _story(failure, recipe, seed)
    block = StoryBlock("\n".join([*lines, "", *answer_lines(failure)]), "wrong")
    block.lit = lit
    return block


def answer_lines(failure: Failure) -> Iterator[str]:
    """Yield the right answer, the model's, and edits after which the model is right."""
    yield f"right answer:   {' or '.join(failure.minimal.targets)}"
    yield f"model's answer: {failure.answer or '(nothing)'}"
    if failure.edits:
        yield f"simplified in {counted(len(failure.edits), 'step')}"
    if not failure.proved:
        yield "possibly not minimal: it could not be shrunk further with the questions granted"
    # The model is right on all simpler variants of a minimal item, so they are not informative.
    repairs = {v.edit: v for v in reversed(failure.neighbours) if v.kind != "simpler"}
    for variant in list(reversed(repairs.values()))[:SHOWN_EDITS]:
        yield f"right after {variant.edit}{_change(variant)}"


def _change(variant: Variant) -> str:
    before, after = variant.before, variant.after
    if before and after:
        now = f" (right answer: {variant.example.target})" if variant.kind == "flip" else ""
        return f": “{before}” → “{after}”{now}"
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
