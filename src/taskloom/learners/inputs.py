"""The data that learners take: examples, columns and texts from any accepted form, and the checks
of what a caller passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from taskloom.core.errors import InputError
from taskloom.core.example import Example
from taskloom.learners.interface import LearnerError, Pairs


def examples(data: Pairs, split: str = "train") -> list[Example]:
    """Convert any accepted form of data to examples; an empty split is an error that names it."""
    check_split(data, split)
    items = [_example(item, split) for item in data]
    if not items:
        raise _empty(split)
    return items


def check_split(data: Any, split: str) -> None:
    """Refuse a whole dataset, and anything that is not data."""
    if isinstance(data, Mapping) or hasattr(data, "splits"):
        raise LearnerError(
            f"the split '{split}' is a whole dataset; give one of its splits, e.g. data['{split}']"
        )
    if not isinstance(data, Iterable):
        raise LearnerError(
            f"the split '{split}' is {data!r}; give a split of a dataset, or a list of examples or"
            " of pairs (input, target)"
        )


def _example(item: Any, split: str) -> Example:
    match item:
        case Example(input=str(), targets=(_, *_)):
            example = item
        case (str(text), str() as target) | (str(text), [str(), *_] as target):
            example = Example(text, target)
        case _:
            raise LearnerError(
                f"the split '{split}' has {str(item)[:60]!r} where an example or a pair of texts"
                " (input, target) should be"
            )
    _check_texts((example.input, *example.targets), f"the split '{split}' has")
    return example


def _check_texts(texts: Iterable[Any], where: str) -> None:
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"{where} {str(text)[:60]!r} where a text should be")
        try:
            text.isascii() or text.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"{where} the text {text[:60]!r} with half a character ({text[error.start]!r}),"
                " which no file can hold; fix it"
            ) from None


def texts(inputs: Iterable[str], what: str = "the inputs") -> list[str]:
    """Return inputs as a list; a bare text, which would otherwise be read letter by letter, is
    refused.
    """
    if isinstance(inputs, str):
        raise InputError(
            f"{what} are the bare text {inputs[:60]!r}; give a list of texts, e.g."
            f" [{inputs[:60]!r}]"
        )
    if not isinstance(inputs, Iterable):
        raise InputError(f"{what} are {inputs!r}; give a list of texts")
    listed = list(inputs)
    _check_texts(listed, f"{what} have")
    return listed


def _empty(split: str) -> LearnerError:
    if split == "train":
        return LearnerError("there is nothing to learn from: the training split is empty")
    return LearnerError(f"the split '{split}' is empty; leave it out, or give it examples")


def columns(data: Pairs, split: str = "train") -> tuple[list[str], list[str]]:
    """Return inputs and official targets only, read from the split's table if it has one, which is
    fast for large splits.
    """
    check_split(data, split)
    table: Any = getattr(data, "table", None)
    if table is None:
        items = examples(data, split)
        return [e.input for e in items], [e.target for e in items]
    if len(data) == 0:
        raise _empty(split)
    from taskloom.core.arrow import firsts

    return table["input"].to_pylist(), firsts(table["targets"]).to_pylist()


def check_candidates(inputs: Sequence[str], candidates: Sequence[Sequence[str]]) -> None:
    """Refuse candidates that are not one list of texts for each input."""
    if len(inputs) != len(candidates):
        raise InputError(
            f"there are {len(inputs)} inputs and candidates for {len(candidates)}; give each input"
            " a list"
        )
    for row in candidates:
        texts(row, "the candidates of an input")


def check_seed(seed: Any) -> None:
    """Refuse seeds that random generators do not accept."""
    if not isinstance(seed, int) or isinstance(seed, bool) or not -(2**63) <= seed < 2**63:
        raise LearnerError(f"the seed is {seed!r}; it must be a whole number of at most 64 bits")
