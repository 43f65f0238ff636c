"""SQuAD's files: rows with spans, the official scores, and learners that point at the answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import taskloom as tl
from taskloom.core.errors import DataError
from taskloom.core.example import Example
from taskloom.core.registry import find_scorer
from taskloom.data.foreign import is_squad, read_squad, split_name
from taskloom.experiments.rescore import rescore
from taskloom.learners.scratch.answer_spans import ask, split_question
from tests.experiments.sweeps import fill

CONTEXTS = {
    "The U.S. Army left Paris in 1945. Paris was free. It was a cold year.": [
        ("When did the U.S. Army leave? Say the year.", ["1945", "in 1945"]),
        ("What was free?", ["Paris"]),
    ],
    "Ann Lee met the mayor of Bonn.\nBonn is on the Rhine.": [
        ("Whom did Dr. Lee meet?", ["the mayor of Bonn", "mayor"]),
        ("Which town is on the Rhine?", ["Bonn"]),
    ],
}
SECOND = {"What was free?", "Which town is on the Rhine?"}
"""Questions whose answer is marked at its second occurrence."""


def squad(path: Path) -> Path:
    """Write a file in SQuAD's layout."""
    paragraphs = []
    for context, questions in CONTEXTS.items():
        qas: list[dict[str, Any]] = []
        for question, answers in questions:
            marked = []
            for text in answers:
                start = context.rindex(text) if question in SECOND else context.index(text)
                marked.append({"text": text, "answer_start": start})
            qas.append({"id": question, "question": question, "answers": marked})
        paragraphs.append({"context": context, "qas": qas})
    data = [{"title": "Towns", "paragraphs": paragraphs}]
    path.write_text(json.dumps({"data": data, "version": "1.1"}), encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "squad").mkdir()
    for name in ("train-v1.1.json", "dev-v1.1.json"):
        squad(tmp_path / "squad" / name)
    return tmp_path / "squad"


def test_rows_have_every_answer_and_the_place_of_the_first(tmp_path: Path) -> None:
    rows = read_squad(squad(tmp_path / "dev-v1.1.json")).to_pylist()
    assert [row["targets"] for row in rows] == [
        answers for questions in CONTEXTS.values() for _, answers in questions
    ]
    for row, context in zip(rows, [c for c in CONTEXTS for _ in range(2)], strict=True):
        assert split_question(row["input"]) == (context, row["question"])
        example = Example(row["input"], row["targets"], {"answer_start": row["answer_start"]})
        [asked] = ask([example])
        assert asked.span is not None
        assert asked.span[0] == row["answer_start"]
        assert context[slice(*asked.span)] == row["targets"][0]
        if row["question"] in SECOND:
            assert asked.span[0] == context.rindex(row["targets"][0])


def test_files_are_recognised_by_their_layout(tmp_path: Path) -> None:
    assert is_squad(squad(tmp_path / "train-v1.1.json"))
    assert split_name(tmp_path / "train-v1.1.json") == "train"
    (tmp_path / "dataset_info.json").write_text('{"description": "", "data": 3}')
    assert not is_squad(tmp_path / "dataset_info.json")
    (tmp_path / "bad.json").write_text('{"data": [{"title": "x", "paragraphs": [{}]}]}')
    with pytest.raises(DataError, match="layout"):
        read_squad(tmp_path / "bad.json")
    none = {"context": "a", "qas": [{"id": "q7", "question": "b", "answers": []}]}
    content = {"data": [{"title": "x", "paragraphs": [none]}]}
    (tmp_path / "two.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"q7.*SQuAD 1\.1"):
        read_squad(tmp_path / "two.json")


def test_a_folder_of_files_is_a_dataset(folder: Path) -> None:
    (folder / "state.json").write_text("{}")
    data = tl.load(folder)
    assert set(data.splits) == {"train", "dev"}
    assert data["dev"][0].traits["answer_start"] == 28
    assert data["dev"][0].targets == ("1945", "in 1945")


@pytest.mark.parametrize(
    ("prediction", "em", "f1"),
    [
        ("Mayor of  Bonn!", 1.0, 1.0),
        ("the mayor", 1.0, 1.0),  # the second annotator's answer
        ("a mayor of Berlin", 0.0, 2 / 3),
        ("", 0.0, 0.0),
    ],
)
def test_official_scores_take_the_best_answer(prediction: str, em: float, f1: float) -> None:
    example = Example("q", ["the mayor of Bonn", "mayor"])
    assert find_scorer("squad-em").score(prediction, example) == em
    assert find_scorer("squad-f1").score(prediction, example) == pytest.approx(f1)


def test_every_extractive_learner_from_scratch_learns_from_the_files(
    folder: Path, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    loop = {"words": 8, "state": 8, "steps": 2, "batch": 4, "evaluate_every": 0}
    names = ("bidaf", "rasor", "document-reader", "qanet", "mnemonic-reader", "fusionnet")
    learners = [{"learner": name, **loop} for name in names]
    outcome = fill({"recipes": [str(folder)], "learners": learners}, tmp_path / "runs")
    assert not outcome.state.failed
    runs = list(outcome.store.records(outcome.runs))
    assert {run.recipe for run in runs} == {"squad"}
    assert all(list(run.splits) == ["dev"] for run in runs)
    assert {outcome.store.scores(run)["scorer"] for run in outcome.runs} == {"squad-em"}
    assert len(rescore(outcome.store.path, "squad-f1")) == len(names)


def test_a_reader_learns_the_marked_spans(folder: Path) -> None:
    pytest.importorskip("torch")
    data = tl.load(folder)
    learner = tl.learners.read(
        {"learner": "document-reader", "words": 16, "state": 16, "dropout": 0.0, "steps": 80,
         "batch": 4, "rate": 1e-2, "evaluate_every": 0}
    )  # fmt: skip
    fitted = learner.fit(data["train"])
    assert fitted.answer([e.input for e in data["dev"]]) == [e.target for e in data["dev"]]
