"""Answers cut out of replies, in the forms that models write."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskloom.core.errors import ParameterError
from taskloom.core.extraction import KINDS, Extraction

REASONING = "She walks to the garden first. The answer is not there.\nThen she leaves."


@pytest.mark.parametrize(
    ("how", "reply", "answer"),
    [
        ("line", "kitchen\nIt is there because …", "kitchen"),
        ("last-line", f"{REASONING}\n\nkitchen.", "kitchen"),
        ("last-line", f"{REASONING}\n\n**Answer: kitchen**", "kitchen"),
        ("boxed", r"so \boxed{garden} is wrong and \boxed{\text{kitchen}} is right", "kitchen"),
        ("boxed", r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        ("boxed", r"\boxed{never closed", ""),
        ("tag:answer", "<think>x</think><ANSWER>\nkitchen\n</ANSWER>", "kitchen"),
        ("tag:answer", "kitchen", ""),
        ("tag:answer", "<answer>garden</answer> no, <answer>kitchen</answer>", "kitchen"),
        (r"regex:(\d+) apples", "first 3 apples, then 4 apples", "4"),
        (r"regex:\d+", "first 3, then 4", "4"),
        (r"regex:(x)?y", "y", ""),
        ("final", f"{REASONING} So the answer is the kitchen.", "the kitchen"),
        ("final", "**Final answer:** kitchen", "kitchen"),
        ("final", "The correct answer is: **kitchen**.", "kitchen"),
        ("final", "I take these:\n\n- milk\n- apple", "milk, apple"),
        ("final", "The answer is:\n1. milk\n2. apple", "milk, apple"),
        ("final", 'Here it is:\n```json\n[{"a": "b"}]\n```', '[{"a": "b"}]'),
        ("final", "kitchen", "kitchen"),
        ("final", "", ""),
        ("final", "Sammy Davis Jr.", "Sammy Davis Jr."),
        ("final", "The answer is no.", "no"),
        ("whole", " kitchen. \n", " kitchen. \n"),
    ],
)
def test_the_answer_is_cut_out(how: str, reply: str, answer: str) -> None:
    assert Extraction.read(how)(reply) == answer


@pytest.mark.parametrize(
    "how",
    ["", "lastline", "tag", "tag:", "tag:a b", "regex:", "regex:(", "line:2", "final:x", 3, None],
)
def test_another_word_is_refused(how: str) -> None:
    with pytest.raises(ParameterError, match=r"^extract is .*"):
        Extraction.read(how)


def test_an_extraction_is_written_as_it_is_read() -> None:
    for how in ("final", "tag:answer", "regex:a:b"):
        assert str(Extraction.read(how)) == how


@settings(max_examples=50)
@given(st.text(st.sampled_from("a.<>{}/\\ *\n-`'1é\ud800") | st.characters(), max_size=60))
def test_every_reply_has_an_answer_or_none(reply: str) -> None:
    for kind in KINDS:
        argument = {"tag": ":answer", "regex": ":.+"}.get(kind, "")
        assert isinstance(Extraction.read(kind + argument)(reply), str)


@pytest.mark.parametrize(
    "piece",
    ["answer is ", "\\boxed{", "<answer>", "- ", "**", "'", "```\n", "\n", "a.", "(the answer"],
)
def test_replies_without_end_take_no_time(piece: str) -> None:
    begin = time.process_time()
    for kind in ("final", "last-line", "boxed", "tag:answer"):
        Extraction.read(kind)(piece * (1_000_000 // len(piece)))
    assert time.process_time() - begin < 2
