"""An example as templates show it: the picture of its suite, or else the plain derivation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from taskloom.core.example import Example
from taskloom.core.pictures import derivation_tree, to_dict


@dataclass(frozen=True, slots=True)
class ExampleParts:
    """What a template needs to show an example.

    Attributes:
        example: The example.
        picture: What its suite draws, as `pictures.to_dict` gives it; None where it draws nothing.
        context: The input before the question; the whole input where nothing is set apart.
        question: The question, where the input ends with it or begins with it.
    """

    example: Example
    picture: Mapping[str, Any] | None
    context: str
    question: str


def example_parts(example: Example, picture: Mapping[str, Any] | None) -> ExampleParts:
    """Return what a template needs; a derivation that branches is drawn as a tree where the suite draws nothing."""
    context, question = example.input, ""
    if example.question and example.input.endswith(example.question) and example.input != example.question:
        context, question = example.input.removesuffix(example.question).rstrip(), example.question
    if picture is None and any(step.of for step in example.derivation):
        tree = derivation_tree(example.derivation, example.input)
        picture = None if tree is None else to_dict(tree)
    return ExampleParts(example, picture, context, question)
