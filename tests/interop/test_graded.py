"""Examples with their scorer, as all adapters see them: every prediction has a score, and missing
packages are named.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

import taskloom as tl
from taskloom.core.errors import InputError, MissingExtra, ParameterError, TaskloomError
from taskloom.core.extraction import Extraction
from taskloom.core.scoring import SCORERS
from taskloom.interop import TESTED, MovedError, need
from taskloom.interop.graded import from_record, grade, open_split, to_record
from tests.interop.cases import CHEAP, HOSTILE, expected, replies


@pytest.mark.parametrize("recipe", CHEAP)
def test_grades_are_the_scorers_scores(recipe: str) -> None:
    graded = open_split(recipe, n=60)
    examples = list(graded)
    texts = replies(examples, graded.plan.scorer)
    scores = [graded.grade(text, e).score for text, e in zip(texts, examples, strict=True)]
    assert scores == expected(texts, examples, graded.plan.scorer, "final")
    assert 0 < sum(scores) < len(scores)


def test_rows_are_those_of_the_recipe_and_of_the_dataset(tmp_path: Path) -> None:
    sizes = {"splits": {"train": {"n": 100}, "iid": {"n": 70}}}
    tl.make("ctl/A", tmp_path / "a", seed=3, set=sizes)
    made, fresh = open_split(tmp_path / "a", "iid"), open_split("ctl/A", "iid", seed=3, set=sizes)
    assert list(made) == list(fresh) == list(tl.load(tmp_path / "a")["iid"])
    assert made[-1] == fresh[69]
    assert len(open_split(tmp_path / "a", n=5)) == 5


def test_what_scoring_needs_survives_json() -> None:
    graded = open_split("babi/8", n=20, described=True)
    for example in graded:
        again = from_record(json.loads(json.dumps(to_record(example))))
        assert graded.grade(example.target, again).score == 1
        assert (again.input, again.targets, dict(again.traits)) == (
            example.input,
            example.targets,
            dict(example.traits),
        )


@pytest.mark.parametrize("reply", HOSTILE, ids=lambda reply: repr(reply)[:20])
def test_a_hostile_prediction_is_wrong_with_a_reason_and_never_an_error(reply: object) -> None:
    begin = time.process_time()
    for scorer in SCORERS.values():
        for extract in ("final", "whole"):
            example = tl.Example("Where is Mary?", ["kitchen, garden", "two"])
            verdict = grade(reply, example, scorer, Extraction.read(extract))
            assert verdict.score < 1, (scorer.name, extract)
            assert verdict.reason
    assert time.process_time() - begin < 5


@pytest.mark.parametrize("extract", ["final", "last-line", "line", "whole"])
def test_a_thought_is_neither_right_nor_wrong(extract: str) -> None:
    example = tl.Example("Where is Mary?", "kitchen")
    cut = Extraction.read(extract)
    right = "<think>Perhaps the answer is nowhere.</think>\nkitchen"
    assert grade(right, example, SCORERS["any-of"], cut).score == 1
    unfinished = "<think>First guess: the answer is kitchen"
    assert grade(unfinished, example, SCORERS["any-of"], cut).score == 0


def test_a_scorer_that_breaks_gives_zero_and_says_so() -> None:
    broken = tl.scorer("broken")(lambda prediction, example: 1 / 0)
    verdict = grade("x", tl.Example("q", "x"), broken, Extraction.read("final"))
    assert verdict.score == 0
    assert "the scorer broken raised" in verdict.reason


def test_a_recipe_makes_more_examples_than_it_says_where_it_can() -> None:
    graded = open_split("babi/1", n=1_500)
    assert graded[1_499].input


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"n": 0}, "n must be a whole number of at least 1, not 0"),
        ({"n": True}, "n must be a whole number of at least 1, not True"),
        ({"split": "test"}, "there is no split 'test'; "),
        ({"extract": "last"}, "extract is 'last'; did you mean 'last-line'"),
        ({"n": 10**9}, "1,000,000,000 expressions are requested"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, object], sentence: str) -> None:
    with pytest.raises(TaskloomError, match=sentence):
        open_split("ctl/A", **arguments)  # type: ignore[arg-type]


def test_a_made_dataset_takes_no_changes(tmp_path: Path) -> None:
    tl.make("ctl/A", tmp_path, set={"splits": {"train": {"n": 50}, "iid": {"n": 10}}})
    with pytest.raises(ParameterError, match="changes is for a recipe"):
        open_split(tmp_path, set={"max_length": 3})
    with pytest.raises(ParameterError, match=r"n is 11, and the split 'iid' of .* has 10 examples"):
        open_split(tmp_path, n=11)


@pytest.mark.parametrize(
    "record", [{}, {"input": "x"}, {"input": 3, "targets": ["a"]}, {"input": "x", "targets": "a"}]
)
def test_a_record_that_is_none_is_refused(record: dict[str, object]) -> None:
    with pytest.raises(InputError, match="a record of an example"):
        from_record(record)


def test_a_missing_package_is_named_with_its_extra() -> None:
    with pytest.raises(
        MissingExtra,
        match=r"taskloom.interop needs no-such-tool: pip install 'taskloom\[no-such-tool\]'",
    ):
        need("no-such-tool", "no_such_tool")


def test_a_package_that_has_changed_is_named_with_the_tested_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "trl", ModuleType("trl"))
    with pytest.raises(
        MovedError, match=rf"trl .* has no trl.GRPOTrainer; .* tested with trl {TESTED['trl']}"
    ):
        need("trl", "trl", "GRPOTrainer")
