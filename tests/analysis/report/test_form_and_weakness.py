"""Sentences of a report that say where a model fails, and warn of answers out of form."""

from __future__ import annotations

from typing import Any

from taskloom.analysis.report.run_sentences import form_sentences, weakness_sentences


def row(mean: float, low: float, high: float, n: int, **more: Any) -> dict[str, Any]:
    cell = {"recipe": "babi/mix-T7", "learner": "small", "split": "mix"}
    return {**cell, "mean": mean, "low": low, "high": high, "n": n, **more}


def test_the_trait_that_divides_scores_most_is_named_with_its_ends() -> None:
    by_trait = {
        "support": [row(0.9, 0.8, 0.95, 50, support="1"), row(0.2, 0.1, 0.3, 50, support="3")],
        "question": [row(0.6, 0.5, 0.7, 50, question="a"), row(0.5, 0.4, 0.6, 50, question="b")],
    }
    (sentence,) = weakness_sentences(by_trait, {"support": "depth"})
    assert "support (depth)" in sentence
    assert "0.900" in sentence
    assert "0.200" in sentence


def test_values_of_few_examples_and_overlapping_intervals_are_no_weakness() -> None:
    few = [row(1.0, 0.4, 1.0, 3, kind="a"), row(0.0, 0.0, 0.3, 3, kind="b")]
    close = [row(0.6, 0.5, 0.7, 50, kind="a"), row(0.5, 0.4, 0.6, 50, kind="b")]
    assert weakness_sentences({"kind": few}, {}) == []
    assert weakness_sentences({"kind": close}, {}) == []


def test_answers_out_of_form_are_a_warning() -> None:
    loose, fine = row(0.3, 0.2, 0.4, 100, in_form=0.5), row(0.3, 0.2, 0.4, 100, in_form=0.95)
    assert ["50 %" in text for text in form_sentences([loose, fine])] == [True]
    assert form_sentences([row(0.0, 0.0, 0.1, 100, in_form=0.0)])
    assert form_sentences([row(0.3, 0.2, 0.4, 100)]) == []
