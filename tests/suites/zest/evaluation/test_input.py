"""Bad input: counted as the public script counts it where it does, else one clear sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskloom.cli.app import run
from taskloom.core.errors import InputError
from taskloom.core.example import Example
from taskloom.suites.zest.evaluation import score, score_examples
from taskloom.suites.zest.task_files import (
    parse_script_prediction,
    problems,
    read_tasks,
    tasks_from,
)


def task(
    name: str, answers: list[Any], kind: str = "normal", bases: tuple[str, ...] = ()
) -> dict[str, Any]:
    return {
        "id": name,
        "question": "What is it?",
        "type": {"generalization_type": kind, "derives_from": list(bases), "domain": "owls"},
        "examples": [{"context": "A passage.", "answer": a} for a in answers],
    }


TASKS = tasks_from([task("b", ["owl", "n/a"]), task("p", ["owl", "n/a"], "paraphrase", ("b",))])


@pytest.mark.parametrize("mode", ["official", "corrected"])
def test_missing_and_extra_predictions(mode: str) -> None:
    with pytest.raises(InputError, match=r"has 3 predictions, .* has 4 examples"):
        score(TASKS, ["owl", "n/a", "owl"], mode)
    report = score(TASKS, ["owl", "n/a", "owl", "n/a", "more"], mode)
    assert report.overall["90"] == 1.0
    assert any("1 predictions after the last example" in n for n in report.notes)


@pytest.mark.parametrize("mode", ["official", "corrected"])
def test_extra_predictions_for_a_dataset_are_reported(mode: str) -> None:
    examples = [
        Example(f"input {i}", "owl", question="What is it?", task=f"t{i % 2}") for i in range(4)
    ]
    report = score_examples(examples, ["owl"] * 6, mode)
    assert report.overall["90"] == 1.0
    assert "2 predictions after the last example were ignored" in report.notes


def test_a_task_without_examples_is_reported_and_never_done() -> None:
    found = tasks_from([task("b", ["owl"]), task("e", [])])
    report = score(found, ["cat"], "corrected")
    assert report.overall == {"mean": 0.0, "75": 0.0, "90": 0.0}
    assert any("task e" in note and "no examples" in note for note in report.notes)
    with pytest.raises(InputError, match="no examples to score"):
        score(found[1:], [], "corrected")


def test_wrong_order_is_scored_as_it_stands_and_doubted_where_it_shows() -> None:
    assert score(TASKS, ["n/a", "owl", "owl", "n/a"]).by_type["normal"]["mean"] == 0.0
    structures = [f'[{{"a": "x{i}"}}]' for i in range(4)]
    tasks = tasks_from([task("b", ["yes"] * 4), task("s", structures, "structure", ("b",))])
    right = ["yes"] * 4 + structures
    assert not any("order" in n for n in score(tasks, right).notes)
    assert any("in the order of the gold examples?" in n for n in score(tasks, right[::-1]).notes)


@pytest.mark.parametrize(
    ("prediction", "kind"),
    [
        ("n/a", "recall"),
        ("[{", "malformed"),
        ('[{"a": "x", "b": "q"}]', "partial"),
        ('[{"a": "z", "b": "q"}]', "other"),
    ],
)
def test_mistakes_of_a_structure(prediction: str, kind: str) -> None:
    tasks = tasks_from([task("s", ['[{"a": "x", "b": "y"}]'], "structure", ("b",))])
    for mode in ("official", "corrected"):
        report = score(tasks, [prediction], mode)
        assert {k: n for k, n in report.mistakes.items() if n} == {kind: 1}


@pytest.mark.parametrize(
    ("gold", "prediction", "kind"),
    [
        ("yes", "n/a", "recall"),
        ("n/a", "yes", "precision"),
        ("brown trout|brook trout", "brown trout", "partial"),
        ("yes", "no", "other"),
        ("tawny owl", "owl", "other"),
        ("owl", "owl", None),
    ],
)
def test_mistakes_of_plain_answers(gold: str, prediction: str, kind: str | None) -> None:
    report = score(tasks_from([task("b", [gold])]), [prediction])
    assert {k: n for k, n in report.mistakes.items() if n} == ({kind: 1} if kind else {})


@pytest.mark.parametrize(
    ("gold", "prediction"),
    [
        ("n/a", "n/a."),
        ("n/a", " N / A "),
        ("n/a", ""),
        ("n/a", "ｎ／ａ"),
        ("10-12 owls", "10–12 owls"),
        ("owl's", "owl’s"),
        ("barn owl", "barn\u200b owl"),
        ("barn owl", "\ufeffbarn owl"),
        ("n/a", "\ufeffn/a"),
    ],
)
def test_corrected_reads_look_alikes_and_spellings(gold: str, prediction: str) -> None:
    tasks = tasks_from([task("b", [gold, "owl"])])
    report = score(tasks, [prediction, "owl"], "corrected")
    assert report.tasks[0].f1 == 1.0
    assert score(tasks, [prediction, "owl"], "official").tasks[0].f1 < 1.0
    assert report.differences["instances"] == 1


def test_corrected_structures() -> None:
    gold = json.dumps([{"a": "x", "b": "yes"}, {"a": "y", "b": "no"}, {"a": "z", "b": "no"}])
    tasks = tasks_from([task("s", [gold], "structure", ("b",))])
    turned = json.dumps([{"b": "no", "a": "y"}, {"b": "no", "a": "z"}, {"b": "yes", "a": "x"}])
    assert score(tasks, [turned], "official").tasks[0].f1 == 0.0
    assert score(tasks, [turned], "corrected").tasks[0].f1 == 1.0
    more = json.dumps([*json.loads(gold), {"a": "w", "b": "no"}])
    assert score(tasks, [more], "official").tasks[0].f1 == 1.0
    assert score(tasks, [more], "corrected").tasks[0].f1 == pytest.approx(2 * 6 / (8 + 6))
    assert score(tasks, ["NaN"], "corrected").mistakes["malformed"] == 1


def test_duplicate_and_dangling_ids_are_reported() -> None:
    tasks = tasks_from(
        [task("b", ["owl"]), task("b", ["owl"]), task("p", ["owl"], "paraphrase", ("zz",))]
    )
    assert [p.what for p in problems(tasks)] == [
        "its id is already used on line 1",
        "it derives from zz, which is not a base task of this file",
    ]
    report = score(tasks, ["owl", "owl", "owl"])
    assert "paraphrase" not in report.by_type
    assert any("1 paraphrases or flips" in n for n in report.notes)


def test_nothing_but_derived_tasks() -> None:
    tasks = tasks_from([task("p", ["owl"], "paraphrase", ("zz",))])
    with pytest.raises(InputError, match="no base tasks"):
        score(tasks, ["owl"], "official")
    report = score(tasks, ["owl"], "corrected")
    assert report.overall == {}
    assert report.own["type"]["paraphrase"]["mean"] == 1.0
    assert "C@90" in report.text()


@pytest.mark.parametrize("size", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_a_line_of_megabytes(tmp_path: Path, size: int) -> None:
    gold, pred = tmp_path / "gold.jsonl", tmp_path / "pred.txt"
    gold.write_text(json.dumps(task("b", ["owl", "n/a"])), encoding="utf-8")
    pred.write_text("owl " * 250_000 * size + "\nn/a\n", encoding="utf-8")
    assert score(gold, pred).tasks[0].f1 == 1.0
    pred.write_text("[" * 1_000_000 * size + "\nn/a\n", encoding="utf-8")
    assert score(gold, pred, "corrected").tasks[0].f1 == 0.0


@pytest.mark.parametrize("mode", ["official", "corrected"])
def test_a_structure_of_many_objects(mode: str) -> None:
    said = json.dumps([{"a": "x"}, *({"a": f"y{i}"} for i in range(4_000)), {}])
    report = score(tasks_from([task("s", ['[{"a": "x"}]'], "structure", ("b",))]), [said], mode)
    assert report.tasks[0].f1 == pytest.approx(1.0 if mode == "official" else 2 / 4_002)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no tasks"),
        ("{", ":1 is not JSON"),
        ("[]", "must be a JSON object"),
        ('{"id": "b"}', "has no 'question'"),
        ('{"id": 3, "question": "x", "examples": []}', "has a 'id' that is not a text"),
        (json.dumps(task("b", ["owl"], "parafrase")), "did you mean 'paraphrase'"),
        (json.dumps(task("b", [[{"a": "x"}]])), "json.dumps"),
        (json.dumps(task("b", [3])), "must be a text"),
        (json.dumps({**task("b", []), "examples": [{}]}), "example 1 has no 'context'"),
        (json.dumps(task("b", ["owl"])).replace('"owls"', "[1]"), "'domain' must be a text"),
    ],
)
def test_unreadable_gold(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "gold.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=says):
        read_tasks(path)


def test_unanswered_gold_and_bad_arguments(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    path.write_text(
        json.dumps({"id": "t", "question": "Is it?", "examples": [{"context": "c"}]}),
        encoding="utf-8",
    )
    with pytest.raises(InputError, match="has no answers"):
        score(path, ["yes"])
    with pytest.raises(InputError, match="did you mean 'corrected'"):
        score(TASKS, ["owl"] * 4, "correct")
    with pytest.raises(InputError, match="from 0 to 100"):
        score(TASKS, ["owl"] * 4, thresholds=(190,))
    with pytest.raises(InputError, match="there is no file"):
        score(tmp_path / "none.jsonl", ["yes"])
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        score(path, ["yes"])


def test_quoted_lines_and_t5_braces() -> None:
    assert parse_script_prediction('"a \\"b\\""', 1).text == 'a "b"'
    assert parse_script_prediction('[⁇"a": "x"⁇, ⁇"a": "y"⁇]', 1).text == '[{"a": "x"}, {"a": "y"}]'
    assert parse_script_prediction("", 3).fault
    assert parse_script_prediction('"', 3).fault


def test_report_is_json_and_text() -> None:
    report = score(TASKS, ["owl", "n/a", "owl", "cat"], "corrected", thresholds=(50, 75, 90))
    found = json.loads(json.dumps(report.to_dict(details=True)))
    assert found["by_type"]["paraphrase"] == {"mean": 2 / 3, "50": 1.0, "75": 0.0, "90": 0.0}
    assert len(found["instances"]) == 4
    assert "C@50" in report.text()
    assert "precision" in report.text()


@given(st.permutations(range(8)))
def test_examples_of_any_suite_are_grouped_by_their_task(order: list[int]) -> None:
    """Two tasks, interleaved in any order: the same scores."""
    right = [Example(f"input {i}", "owl", task="one" if i < 4 else "two") for i in range(8)]
    said = ["owl" if i < 6 else "cat" for i in range(8)]
    report = score_examples([right[i] for i in order], [said[i] for i in order])
    assert {t.task.id: t.f1 for t in report.tasks} == {"one": 1.0, "two": 0.5}
    assert report.overall == {"mean": 0.75, "75": 0.5, "90": 0.5}


def _files(folder: Path, gold: bytes, pred: bytes) -> list[str]:
    (folder / "gold.jsonl").write_bytes(gold)
    (folder / "pred.txt").write_bytes(pred)
    return [
        "score",
        "zest",
        "--gold",
        str(folder / "gold.jsonl"),
        "--pred",
        str(folder / "pred.txt"),
    ]


GOLD = json.dumps(task("b", ["owl", "n/a"])).encode()
RIGHT = b"owl\nn/a\n"


@pytest.mark.parametrize(
    ("gold", "pred", "says"),
    [
        (b"", RIGHT, "has no tasks"),
        (bytes(range(256)), RIGHT, "not UTF-8"),
        (GOLD.decode().encode("utf-16"), RIGHT, "not UTF-8"),
        (b"[" * 100_000, RIGHT, "is not JSON"),
        (b"[1, 2]", RIGHT, "must be a JSON object"),
        (
            b'{"id": 5, "question": ["x"], "type": null, "examples": "no"}',
            RIGHT,
            "'id' that is not a text",
        ),
        (json.dumps(task("b", [5])).encode(), RIGHT, "must be a text or a list"),
        (json.dumps(task("b", [[]])).encode(), RIGHT, "must be a text or a list"),
        (GOLD.replace(b'"owl"', b"NaN"), RIGHT, "must be a text or a list"),
        (json.dumps(task("b", ["x"], "odd")).encode(), RIGHT, "generalization type 'odd'"),
        (GOLD, b"", "has 0 predictions"),
        (GOLD, b"owl\n", "has 1 predictions"),
        (GOLD, b"\xff\xfe\n", "not UTF-8"),
        (GOLD, b"owl\n\n", "the line is empty"),
    ],
)
def test_bad_files_are_one_sentence_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], gold: bytes, pred: bytes, says: str
) -> None:
    assert run(_files(tmp_path, gold, pred)) == 2
    said = capsys.readouterr().err
    assert said.startswith("taskloom: ")
    assert said.count("\n") == 1
    assert says in said


@pytest.mark.parametrize("mode", ["official", "corrected"])
@pytest.mark.parametrize(
    "pred",
    [
        b"owl " * 250_000 + b"\nn/a\n",
        b"[" * 200_000 + b"\nn/a\n",
        b'[{"a": ' + b"[" * 90_000 + b"\nn/a\n",
        "оwl\nｎ／ａ\n".encode(),
        b'"\\ud800"\nn/a\n',
        b"NaN\n1e400\n",
        RIGHT.replace(b"\n", b"\r\n"),
    ],
    ids=[
        "1 MB line",
        "deep list",
        "deep structure",
        "look-alikes",
        "half a surrogate",
        "numbers",
        "CRLF",
    ],
)
def test_odd_predictions_are_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pred: bytes, mode: str
) -> None:
    assert run([*_files(tmp_path, GOLD, pred), "--mode", mode, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_instances"] == 2


def test_a_gold_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "gold.jsonl").write_bytes(b"\xef\xbb\xbf" + GOLD)
    assert [t.id for t in read_tasks(tmp_path / "gold.jsonl")] == ["b"]


@pytest.mark.parametrize("size", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_an_answer_of_megabytes_is_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], size: int
) -> None:
    long = json.dumps(task("b", ["owl " * 250_000 * size, "n/a"])).encode()
    assert run([*_files(tmp_path, long, RIGHT), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["instance_mean"] == 1.0


@pytest.mark.parametrize("mode", ["official", "corrected"])
def test_utf_16_without_its_mark_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    """It is UTF-8, too, with a zero after each letter: scored as it stands, with a note why nothing
    is right.
    """
    assert run([*_files(tmp_path, GOLD, "owl\nn/a\n".encode("utf-16-le")), "--mode", mode]) == 0
    assert "UTF-16" in capsys.readouterr().out


def test_a_dataset_of_another_suite_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "chains"
    assert (
        run(
            [
                "make",
                "ctl/A",
                "--set",
                "splits.train.n=300",
                "--set",
                "splits.iid.n=10",
                "-o",
                str(made),
            ]
        )
        == 0
    )
    (tmp_path / "pred.txt").write_text("1\n" * 10)
    assert (
        run(
            [
                "score",
                "zest",
                "--gold",
                str(made),
                "--split",
                "iid",
                "--pred",
                str(tmp_path / "pred.txt"),
            ]
        )
        == 2
    )
    assert (
        "is a dataset of 'ctl', not of 'zest'; write taskloom score ctl" in capsys.readouterr().err
    )
