"""`variants=` of a task that is one function, `tl.variants` and `taskloom show --variants`."""

import json
from collections.abc import Callable, Iterator

import pytest

import taskloom as tl
from taskloom.core.errors import DataError, TaskloomError
from taskloom.display import examples
from taskloom.recipe.tasks import Task

WORDS = ["amber", "basin", "cedar", "delta", "fable", "gamma", "hazel", "ivory", "jolly", "kayak"]


def last_word(text: str) -> str:
    """The answer, by another way than the task's."""
    return text.rsplit(" ", 1)[-1]


def edits(example: tl.Example) -> Iterator[tl.Variant]:
    """One variant of each kind; the second flip does not change the answer."""
    *rest, last = example.input.split()
    for kind, edit, words in (
        ("simpler", "word removed", [*rest[1:], last]),
        ("flip", "another last word", [*rest, "ember"]),
        ("flip", "another first word", ["ember", *rest[1:], last]),
        ("keep", "another first word", ["ember", *rest[1:], last]),
    ):
        varied = tl.Example(" ".join(words), words[-1], traits={"length": len(words)})
        yield tl.Variant(kind, edit, varied)  # type: ignore[arg-type]


def last_word_task(
    name: str, variants: Callable[[tl.Example], Iterator[tl.Variant]] | None
) -> Task:
    """A task that answers with the last word."""

    @tl.task(name, describe="Give the last word.", solve=last_word, variants=variants)
    def make(rng: tl.Random, length: int = tl.knob(3, low=2, high=4)) -> tl.Example:
        words = rng.sample(WORDS, length)
        return tl.Example(" ".join(words), words[-1], traits={"length": length})

    return make


@pytest.fixture(scope="module")
def task() -> Task:
    """A task with variants."""
    return last_word_task("variants/last", edits)


def test_a_task_lists_its_variants(task: Task) -> None:
    found = tl.variants(task, tl.Example("amber basin cedar", "cedar"))
    inputs = [(v.kind, v.example.input, v.example.target) for v in found]
    assert inputs == [
        ("simpler", "basin cedar", "cedar"),
        ("flip", "amber basin ember", "ember"),
        ("keep", "ember basin cedar", "cedar"),
    ]
    assert {v.example.task for v in found} == {"variants/last"}
    (flip,) = tl.variants(task, tl.Example("amber basin cedar", "cedar"), "flip")
    assert flip.edit == "another last word"


def test_a_variant_with_a_wrong_answer_is_refused() -> None:
    def wrong(example: tl.Example) -> Iterator[tl.Variant]:
        yield tl.Variant("flip", "wrong", tl.Example("amber delta", "amber"))

    task = last_word_task("variants/wrong", wrong)
    with pytest.raises(DataError, match="amber delta"):
        tl.variants(task, tl.Example("amber basin", "basin"))


@pytest.mark.parametrize(("name", "given"), [("text", ["no variant"]), ("nothing", None)])
def test_what_is_not_a_variant_is_named(name: str, given: object) -> None:
    task = last_word_task(f"variants/{name}", lambda example: given)  # type: ignore[arg-type, return-value]
    with pytest.raises(TaskloomError, match=f"variants/{name}"):
        tl.variants(task, tl.Example("amber basin", "basin"))


def test_a_task_without_variants_says_so() -> None:
    task = last_word_task("variants/none", None)
    with pytest.raises(TaskloomError, match="variants/none has no variants"):
        tl.variants(task, tl.Example("amber basin", "basin"))
    with pytest.raises(TaskloomError, match="variants/none"):
        examples("variants/none", 1, None, 0, None, (), True, variants=True)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(TaskloomError, match="kind"):
        tl.variants("ctl/A", tl.Example("b a 3", "1"), "flipped")  # type: ignore[arg-type]


def test_variants_are_shown(task: Task, capsys: pytest.CaptureFixture[str]) -> None:
    examples("variants/last", 2, "test", 0, None, (), False, variants=True)
    assert "another last word" in capsys.readouterr().out
    examples("variants/last", 2, "test", 0, None, (), True, variants=True)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [v["kind"] for v in rows[0]["variants"]] == ["simpler", "flip", "keep"]
