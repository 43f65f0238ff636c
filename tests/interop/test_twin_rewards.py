"""Rewards for pairs of an item and its twin; they need `datasets`, but not TRL itself."""

from __future__ import annotations

import json

import pytest

from taskloom.core.errors import InputError
from taskloom.interop.trl import RECORD, twin_rewards

pytest.importorskip("datasets", reason="needs datasets: make test-interop")


@pytest.mark.parametrize("kind", ["flip", "keep"])
def test_a_pair_is_rewarded_only_if_both_answers_are_right(kind: str) -> None:
    prompts, reward = twin_rewards("babi/6", "train", 6, kind=kind, chat=False)  # type: ignore[arg-type]
    records = [json.loads(row[RECORD]) for row in prompts]
    assert [record["side"] for record in records] == [0, 1] * (len(records) // 2)
    answers = [record["targets"][0] for record in records]
    columns = {RECORD: [row[RECORD] for row in prompts]}
    assert reward(completions=answers, **columns) == [1.0] * len(records)
    # Whoever gives the original's answer to both follows no flip.
    stubborn = [answers[i - i % 2] for i in range(len(answers))]
    expected = 0.0 if kind == "flip" else 1.0
    assert reward(completions=stubborn, **columns) == [expected] * len(records)
    with pytest.raises(InputError, match="batch"):
        reward(completions=answers[:1], **{RECORD: columns[RECORD][:1]})
