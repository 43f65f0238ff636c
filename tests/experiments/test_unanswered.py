"""Replies without an answer score 0, also where a scorer reads an empty text as an answer: ZEST's
reads it as `n/a`, which is right for many of its items.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import taskloom as tl
from taskloom.core.extraction import Extraction
from taskloom.core.registry import find_scorer
from taskloom.data import competence
from taskloom.experiments.rescore import verify_runs
from taskloom.interop.graded import grade
from tests.learners.chat_server import ChatServer, serving

SMALL = {"recipe": "zest/synthetic", "set": {"tasks": {"train": 10, "dev": 10, "test": 10}}}


class SilentServer(ChatServer):
    """Sends replies without an answer: empty ones, and thoughts."""

    def reply(self, model: str, text: str) -> tuple[str | None, str, str]:
        return ("<think>n/a</think>" if len(text) % 2 else None), "", "stop"


@pytest.mark.parametrize("reply", ["", " ", "<think>n/a</think>", "I cannot say."])
def test_a_reply_without_an_answer_has_no_score(reply: str) -> None:
    example = tl.Example("question: … context: …", ["n/a"])
    zest = find_scorer("zest")
    assert zest.score("", example) == 1, "an empty line of a file of predictions says n/a"
    assert grade(reply, example, zest, Extraction.read("tag:answer")).score == 0
    assert grade("<answer>n/a</answer>", example, zest, Extraction.read("tag:answer")).score == 1


def test_a_run_of_unanswered_questions_scores_nothing_and_stays_so(tmp_path: Path) -> None:
    server = SilentServer({})
    with serving(server):
        learner: dict[str, Any] = {"learner": "endpoint", "url": server.url, "model": "m"}
        where = tmp_path / "runs"
        runs = tl.run(recipes=[SMALL], learners=[learner], limit=30, store=where, workers=1)
    answers = runs.predictions(columns=["targets", "prediction", "score"]).to_pylist()
    assert any("n/a" in row["targets"] for row in answers)
    assert {(row["prediction"], row["score"]) for row in answers} == {("", 0.0)}
    assert set(runs.table["score"].to_pylist()) == {0.0}
    assert verify_runs(tmp_path / "runs").wrong == []
    assert {change.after for change in tl.rescore(tmp_path / "runs")} == {0.0}


def test_scoring_extracted_replies_by_the_suite_counts_silence_as_wrong(tmp_path: Path) -> None:
    data = tl.make("zest/synthetic", tmp_path / "zest", set=SMALL["set"])
    silent = ["I cannot say."] * len(data["dev"])
    report = competence.score(data, silent, "dev", extract="tag:answer", mode="corrected")
    assert report.to_dict()["overall"]["mean"] == 0
