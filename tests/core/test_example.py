"""Examples are plain values: they can be copied, sent to another process, and their traits written
as JSON.
"""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from taskloom.core.example import Example, Step

EXAMPLES = [
    Example("a b", "b a"),
    Example(
        "a b",
        ["b a", "b, a"],
        {"length": 2},
        key="ab",
        derivation=[Step("reverse", "b a")],
        task="words/reverse",
    ),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=["without traits", "with traits"])
def test_an_example_is_copied_whole(example: Example) -> None:
    assert pickle.loads(pickle.dumps(example)) == copy.deepcopy(example) == example
    assert json.loads(json.dumps(example.traits)) == example.traits


def test_examples_without_traits_share_none() -> None:
    assert Example("a", "b").traits == {}
    assert Example("a", "b").traits is not Example("a", "b").traits
