"""Reading bAbI text: what is accepted, and the sentence that every fault gets."""

from __future__ import annotations

import contextlib
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskloom.core.errors import InputError
from taskloom.core.seeding import Key
from taskloom.suites.babi.numbered import TASKS, task_of
from taskloom.suites.babi.solve_file import solve_file, solve_text
from taskloom.suites.babi.story.text_format import read_lines, read_path

GOOD = "1 Emily is a cat.\n2 Cats are afraid of mice.\n3 What is emily afraid of?\tmouse\t1 2\n"


def test_marks_line_ends_and_empty_lines_do_not_matter(tmp_path: Path) -> None:
    plain = read_lines(GOOD.splitlines())
    variants = [
        "\ufeff" + GOOD,
        GOOD.replace("\n", "\r\n"),
        GOOD.replace("\n", "\r"),
        "\n" + GOOD + "\n\n",
        GOOD.rstrip("\n"),
    ]
    for i, variant in enumerate(variants):
        file = tmp_path / f"{i}.txt"
        file.write_bytes(variant.encode())
        got = read_path(file)
        assert [(x.number, x.text) for x in got[0].lines] == [
            (x.number, x.text) for x in plain[0].lines
        ]
        assert got[0].text() == GOOD


def test_two_stories_and_a_question_without_answer() -> None:
    stories = read_lines((GOOD + GOOD.replace("\tmouse\t1 2", "")).splitlines(keepends=True))
    assert len(stories) == 2
    assert stories[1].questions[0].answer is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no story"),
        ("\n \n", "has no story"),
        ("Emily is a cat.\n", ":1: 'Emily is a cat.' does not start with its number"),
        ("2 Emily is a cat.\n", ":1: a story begins with number 1, not 2"),
        (
            "1 Emily is a cat.\n3 Cats are afraid of mice.\n",
            ":2: expected number 2, or 1 for a new story, not 3",
        ),
        (
            "1 Emily is a cat\n2 Cats are afraid of mice.\n",
            ":1: the sentence does not end with '.'",
        ),
        (
            "1 Emily is a cat.\n2 Cats are afr",
            ":2: the sentence does not end with '.': 'Cats are afr'; the file is cut off here",
        ),
        ("1 Emily is a cat.\n2", ":2: '2' does not start with its number"),
        (
            GOOD + GOOD[:-5],
            ":6: the file is cut off inside this question, which has no supporting numbers",
        ),
        (GOOD[:-5] + "\t1 9\n", ":3: supporting number 9 is not an earlier sentence"),
        (GOOD[:-5] + "\tone\n", ":3: supporting numbers must be integers"),
        (
            GOOD[:-1] + "\tx\n",
            ":3: a question has at most an answer and supporting numbers, but here are 3 fields",
        ),
        ("1 Emily is a cat.\n2 What is emily afraid of?\t\t1\n", ":2: the answer is empty"),
        (
            "1 Emily is a cat.\n2 What is emily afraid of\tmouse\t1\n",
            ":2: the question does not end with '?'",
        ),
    ],
)
def test_faults_are_named_with_their_line(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "story.txt"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        solve_file(str(file))
    assert words in str(caught.value)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_cut_of_a_file_is_read_or_refused(tmp_path: Path) -> None:
    """A file may end anywhere: no cut escapes as another error than ours, and a cut sentence never
    passes.
    """
    story = TASKS[14].story(Key("cut").random()).text(" ")
    file = tmp_path / "cut.txt"
    for end in range(len(story)):
        file.write_text(story[:end])
        try:
            report = solve_file(str(file), number=14)
        except InputError:
            continue
        # A question may end where its claim would begin, but half a claim never passes for one.
        assert all(s.verdict == "agrees" for s in report.solved[:-1])
        assert all(s.verdict in ("agrees", "unclaimed") for s in report.solved[-1:])
        assert all(s.support_verdict != "insufficient" for s in report.solved)


@given(st.lists(st.text(max_size=40), max_size=6), st.sampled_from(sorted(TASKS)))
def test_any_text_is_read_or_refused(lines: list[str], number: int) -> None:
    with contextlib.suppress(InputError):
        TASKS[number].parse(lines)
    with contextlib.suppress(InputError):
        TASKS[number].answer(" ".join(lines))


@given(st.sampled_from(sorted(TASKS)), st.integers(0, 50), st.randoms(use_true_random=False))
def test_damaged_stories_are_read_or_refused(number: int, index: int, rng: random.Random) -> None:
    """Words lost, doubled or exchanged: an answer or one sentence of ours, never another error."""
    text = TASKS[number].story(Key("damage", number).random(index)).text()
    words = re.split(r"(\s)", text)
    for _ in range(rng.randint(1, 3)):
        i, j = rng.randrange(len(words)), rng.randrange(len(words))
        words[i] = rng.choice(["", words[j], words[i] * 2, "the", "?"])
    with contextlib.suppress(InputError):
        solve_text("".join(words))
    with contextlib.suppress(InputError):
        solve_text("".join(words), number=number)


def test_missing_folder_binary_and_foreign_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        solve_file(str(tmp_path / "none.txt"))
    with pytest.raises(InputError, match="is a folder"):
        solve_file(str(tmp_path))
    binary = tmp_path / "binary.txt"
    binary.write_bytes(b"\xff\xfe1\x00")
    with pytest.raises(InputError, match=r"not UTF-8 text \(byte 0\)"):
        solve_file(str(binary))
    foreign = tmp_path / "foreign.txt"
    foreign.write_text("1 Mary moved to the bathroom.\n2 Where is Mary?\tbathroom\t1\n")
    with pytest.raises(
        InputError, match=r":1: 'Mary moved to the bathroom\.' is not a sentence of task 15"
    ):
        solve_file(str(foreign), number=15)
    with pytest.raises(InputError, match="task 3 cannot be solved"):
        solve_file(str(foreign), number=3)
    assert task_of(read_path(foreign)[0]) is None


@pytest.mark.parametrize(
    ("number", "text", "words"),
    [
        (
            14,
            "Bill went to the zoo yesterday. | Yesterday Bill went to the park.",
            ":2: 'Yesterday Bill went to the park.' contra",
        ),
        (15, "Emily is a cat. | Emily is a wolf.", "contradicts sentence 1"),
        (15, "Cats are afraid of mice. | Cats are afraid of wolves.", "contradicts sentence 1"),
        (15, "Emily is a yeti.", "is not a sentence of task 15"),
        (16, "Lily is a swan. | Lily is green. | Lily is gray.", "contradicts sentence 2"),
        (
            17,
            "The cup is above the box. | The jar is above the cup. | The box is above the jar.",
            "contradicts sentence 1 and 2",
        ),
        (17, "The cup is above the box. | The cup is to the left of the box.", ":2"),
        (17, "The cup is above the cup.", "contradicts itself"),
        (
            18,
            (
                "The box fits inside the cup. | The tin fits inside the box. | The tin is bigger"
                " than the cup."
            ),
            "contradicts sentence 1 and 2",
        ),
        (
            19,
            "The den is north of the hall. | The bar is north of the hall.",
            "contradicts sentence 1",
        ),
        (
            19,
            (
                "The den is north of the hall. | The hall is north of the bar. | The bar is north"
                " of the den."
            ),
            "contradicts sentence 1 and 2",
        ),
        (20, "Yann is tired. | Yann went to the kitchen.", "contradicts sentence 1"),
        (20, "Yann took the milk there. | Jason took the milk there.", "contradicts sentence 1"),
        (
            15,
            "Emily is a cat. | What is winona afraid of?",
            "the question is about 'winona'",
        ),
        (
            19,
            "The den is north of the hall. | Where is the den?",
            "is not a question of task 19; its questions look like",
        ),
    ],
)
def test_contradictions_and_strangers(number: int, text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        TASKS[number].parse([f"{i} {line}" for i, line in enumerate(text.split(" | "), 1)], "s.txt")
    assert "s.txt:" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Emily is a cat.",
        "Emily is a cat. What is emily",
        "What is emily afraid of? Emily is a cat.",
    ],
)
def test_inputs_that_do_not_ask(text: str) -> None:
    with pytest.raises(InputError):
        TASKS[15].answer(text)


def test_report_for_people_and_machines(tmp_path: Path) -> None:
    file = tmp_path / "claims.txt"
    file.write_text(
        "1 The box is bigger than the cup.\n2 The cup is bigger than the tin.\n3 The jar is bigger"
        " than the tin.\n4 Is the box bigger than the tin?\tno\t1\n5 Is the box bigger than the"
        " tin?\tyes\t1 2 3\n6 Is the box bigger than the tin?\tyes\t1\n7 Is the box bigger than the"
        " jar?\tyes\t1 2\n8 Does the tin fit in the box?\n"
    )
    report = solve_file(str(file))
    assert [s.verdict for s in report.solved] == ["wrong", "agrees", "agrees", "open", "unclaimed"]
    assert [s.support_verdict for s in report.solved] == [
        "unclaimed",
        "larger",
        "insufficient",
        "unclaimed",
        "unclaimed",
    ]
    text = report.text()
    assert "line 4: Is the box bigger than the tin? claimed 'no'; the text entails 'yes': " in text
    assert (
        "line 7: Is the box bigger than the jar? claimed 'yes'; the text leaves it open: no chain"
        " of sentences" in text
    )
    assert (
        "line 8: Does the tin fit in the box? yes: the box is bigger than the tin by sentences 1, 2"
        in text
    )
    assert solve_text(file.read_text(), str(file)) == report
    data = report.to_dict()
    assert data["answers"] == {"agrees": 2, "open": 1, "unclaimed": 1, "wrong": 1}
    assert data["solved"][4]["support"] == [1, 2]
