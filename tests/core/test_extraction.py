"""Answers cut out of replies, in the forms that models write."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskloom.core.errors import ParameterError
from taskloom.core.extraction import KINDS, Extraction, divide_thinking

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
        argument = {"tag": ":answer", "regex": ":.+", "json": ":answer"}.get(kind, "")
        assert isinstance(Extraction.read(kind + argument)(reply), str)


@pytest.mark.parametrize(
    "piece",
    [
        "answer is ",
        "<think>",
        "</think>",
        "<|channel|>final",
        "\\boxed{",
        "<answer>",
        "- ",
        "**",
        "'",
        "```\n",
        "\n",
        "a.",
        "(the answer",
    ],
)
def test_replies_without_end_take_no_time(piece: str) -> None:
    begin = time.process_time()
    for kind in ("final", "last-line", "boxed", "tag:answer"):
        Extraction.read(kind)(piece * (1_000_000 // len(piece)))
    assert time.process_time() - begin < 2


THOUGHT = "Perhaps the answer is nowhere.\n\\boxed{garden} <answer>garden</answer> Answer: garden\n"
CHANNELS = "<|channel|>analysis<|message|>{}<|end|><|start|>assistant"


@pytest.mark.parametrize("how", ["final", "last-line", "line", "whole", "regex:\\w+$"])
@pytest.mark.parametrize(
    "reply",
    [
        f"<think>{THOUGHT}</think>\n\nkitchen",
        f"<THINK>{THOUGHT}</THINK>kitchen",
        f"<thinking>{THOUGHT}</thinking>\nkitchen",
        f"<reasoning>{THOUGHT}</reasoning>\nkitchen",
        f"◁think▷{THOUGHT}◁/think▷kitchen",
        f"[THINK]{THOUGHT}[/THINK]kitchen",
        f"{THOUGHT}</think>\nkitchen",  # the template of the prompt has the opening mark
        f"<think>{THOUGHT}</think>{THOUGHT}<think></think></think>kitchen",
        f"<think>I write <think> and <reasoning> here: {THOUGHT}</think>kitchen",
        f"<think>{THOUGHT}</think><think>{THOUGHT}</think>kitchen",
        f"{CHANNELS.format(THOUGHT)}<|channel|>final<|message|>kitchen<|return|>",
        f"{CHANNELS.format(THOUGHT)}<|channel|>final <|constrain|>text<|message|>kitchen",
        f"analysis{THOUGHT}assistantfinalkitchen",
        f"<think>{THOUGHT * 3000}</think>kitchen",
    ],
)
def test_thinking_is_never_the_answer(how: str, reply: str) -> None:
    assert Extraction.read(how)(reply) == "kitchen"


@pytest.mark.parametrize("how", ["final", "last-line", "line", "whole", "boxed", "tag:answer"])
@pytest.mark.parametrize(
    "reply",
    [
        "<think>First guess: the answer is kitchen",
        r"<think>First guess: \boxed{kitchen} <answer>kitchen</answer>",
        "<think>a</think>b<think>kitchen",
        "◁think▷kitchen",
        "<|channel|>analysis<|message|>kitchen",
        "<think>" + "kitchen " * 20_000,
        "<think></think>",
    ],
)
def test_a_thought_that_does_not_end_is_no_answer(how: str, reply: str) -> None:
    assert Extraction.read(how)(reply) == ""


def test_other_marks_of_thoughts_are_a_setting() -> None:
    reply = "<plan>The answer is garden.</plan>The answer is kitchen."
    cut = Extraction.read("final", "<plan> </plan> {{ }}")
    assert cut(reply) == "kitchen"
    assert cut("{{garden}}<think>garden</think>kitchen") == "kitchen"
    assert cut("<plan>kitchen") == ""
    with pytest.raises(ParameterError, match=r"thinking is '<plan>'; .*'<plan> </plan>'"):
        Extraction.read("final", "<plan>")


def test_what_is_thought_can_be_kept_beside_what_is_said() -> None:
    assert divide_thinking("<think>a garden</think>\n kitchen\n") == ("kitchen\n", "a garden")
    assert divide_thinking("<think>a garden") == ("", "a garden")
    assert divide_thinking(" kitchen ") == (" kitchen ", "")
