"""Sentences of a report that warn of answers out of form."""

from __future__ import annotations

from typing import Any

from taskloom.analysis.report.run_sentences import form_sentences, headline


def row(mean: float, low: float, high: float, n: int, **more: Any) -> dict[str, Any]:
    cell = {"recipe": "babi/mix-T7", "learner": "small", "split": "mix"}
    return {**cell, "mean": mean, "low": low, "high": high, "n": n, **more}


def test_answers_out_of_form_are_a_warning() -> None:
    loose, fine = row(0.3, 0.2, 0.4, 100, in_form=0.5), row(0.3, 0.2, 0.4, 100, in_form=0.95)
    assert ["50 %" in text for text in form_sentences([loose, fine])] == [True]
    assert form_sentences([row(0.0, 0.0, 0.1, 100, in_form=0.0)])
    assert form_sentences([row(0.3, 0.2, 0.4, 100)]) == []


def test_a_model_that_mostly_answers_out_of_form_is_the_headline() -> None:
    rows = [row(0.3, 0.2, 0.4, 100, in_form=0.2)]
    assert "20 %" in headline(rows, [], [])
