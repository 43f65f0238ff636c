"""Scorers on right and wrong answers: what they get wrong is known, and the page says so."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from taskloom.cli.dataset import print_scorers
from taskloom.core.errors import ParameterError
from taskloom.core.example import Example
from taskloom.core.scoring import Scorer, any_of, scorer, set_of
from taskloom.data.audit.scorer_audit import ScorerAudit, audit_scorers

ROOT = Path(__file__).parents[3]
SCRIPT: dict[str, Any] = runpy.run_path(
    str(ROOT / "scripts" / "build_scorers.py"), run_name="build_scorers"
)


PAGE = SCRIPT["PAGE"].read_text(encoding="utf-8")


def test_the_page_is_current_and_no_form_is_misjudged_without_a_reason() -> None:
    audits = audit_scorers(SCRIPT["CHEAP"], n=SCRIPT["SHOWN"])
    assert SCRIPT["unexplained"](audits) == []
    for audit in audits:
        assert SCRIPT["row"](audit) in PAGE, "run `make scorers`"
    for part in ("scorers", "extractions", "forms"):
        assert SCRIPT[part]() in PAGE, "run `make scorers`"


@pytest.mark.slow
def test_the_whole_page_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TASKLOOM_DATA", "NLTK_DATA"):
        monkeypatch.delenv(variable, raising=False)
    assert SCRIPT["page"]() == PAGE
    assert "no reason known" not in PAGE


def one(name: str, audits: list[ScorerAudit]) -> ScorerAudit:
    return next(a for a in audits if a.scorer == name)


def test_a_scorer_that_is_too_strict_or_too_lenient_shows() -> None:
    strict: Scorer = scorer("strict")(
        lambda prediction, example: float(prediction == example.target + "!")
    )
    lenient: Scorer = scorer("lenient")(lambda prediction, example: 1.0)
    assert strict.name == "strict"
    assert lenient.name == "lenient"
    audits = audit_scorers(n=10)
    assert one("strict", audits).false_negatives == (1.0, 1.0)
    assert one("lenient", audits).false_positives == (1.0, 1.0)
    assert one("lenient", audits).partial == 1.0
    assert len(SCRIPT["unexplained"](audits)) > 10


def test_extraction_lets_right_replies_through_and_no_wrong_ones() -> None:
    audit = one("any-of", audit_scorers(n=20))
    alone, extracted = audit.false_negatives
    assert alone > 0.5
    assert extracted == 0
    assert audit.false_positives == (0, 0)


def test_the_audit_is_the_same_every_time_and_checks_its_arguments() -> None:
    assert audit_scorers(n=5, seed=3) == audit_scorers(n=5, seed=3)
    with pytest.raises(ParameterError, match="n must be at least 2, not 1"):
        audit_scorers(n=1)
    with pytest.raises(ParameterError, match="extract is 'lastline'; did you mean 'last-line'"):
        audit_scorers(n=5, extract="lastline")


@pytest.mark.parametrize(
    ("prediction", "targets", "right"),
    [
        ("the kitchen", ["kitchen"], True),
        ("Kitchen", ["the kitchen"], True),
        ("a b", ["b"], False),
        ("The Who", ["Who"], True),
        ("2", ["two"], True),
        ("Two.", ["2"], True),
        ("0", ["none"], True),
        ("0", ["no"], False),
        ("none", ["no"], False),
        ("no", ["0"], False),
        ("two", ["three"], False),
        ("an", ["a"], False),
    ],
)
def test_any_of_takes_articles_and_numbers_as_people_do(
    prediction: str, targets: list[str], right: bool
) -> None:
    assert any_of.score(prediction, Example("q", targets)) == float(right)


@pytest.mark.parametrize(
    ("prediction", "target", "right"),
    [
        ("the milk", "milk", True),
        ("THE APPLE AND THE MILK", "milk, apple", True),
        ("a box of matches", "box of matches", True),
        ("box of matches, key", "key and box of matches", True),
        ("apple", "milk, apple", False),
        ("milk apple", "apple milk", True),
        ("", "milk", False),
    ],
)
def test_sets_take_articles_and_items_of_several_words(
    prediction: str, target: str, right: bool
) -> None:
    assert set_of.score(prediction, Example("q", target)) == float(right)
    assert bool(right) == set_of.explain(prediction, Example("q", target)).startswith("all")


def test_the_table_says_what_refused_means(capsys: pytest.CaptureFixture[str]) -> None:
    print_scorers(audit_scorers(n=5), as_json=False)
    assert "refused: correct answers" in capsys.readouterr().out
