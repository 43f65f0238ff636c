"""The official mode against what the unmodified public script gave: 16 suites, unit files,
whole-file cases.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from taskloom.core.errors import InputError
from taskloom.suites.zest.evaluation import Undefined, score
from taskloom.suites.zest.evaluation.flags import effect
from taskloom.suites.zest.evaluation.official import Judged, judge
from taskloom.suites.zest.evaluation.score_report import ScoreReport, task_f1
from taskloom.suites.zest.evaluation.spans import exact, list_f1, normalise, numpy_round
from tests.slow import slow_except

DATA = os.environ.get("TASKLOOM_DATA")
ORACLE = Path(DATA or ".") / ".." / "oracles" / "zest"
pytestmark = pytest.mark.skipif(
    not (DATA and ORACLE.is_dir()), reason="needs the ZEST oracle beside TASKLOOM_DATA"
)

SUITES = sorted(p.name for p in ORACLE.glob("suite_*")) if DATA else []

OUR_FLAGS = {
    "na_spelling",
    "keys",
    "dict_order",
    "json_for_plain_gold",
    "rounding",
    "mixed_alternatives",
    "unicode",
}
"""Peculiarities that the oracle's own flags do not name; the corrected mode corrects them too, and
flags them.
"""


class First(Random):
    """The pairs file takes the first element where the script draws."""

    def choice(self, seq: Any) -> Any:
        return seq[0]


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ORACLE / name).open(encoding="utf-8")]


def close(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return list(one) == list(other) and all(close(one[k], other[k]) for k in one)
    return bool(abs(one - other) <= 1e-9)


def test_normalisation() -> None:
    wrong = [r for r in rows("normalize.jsonl") if normalise(r["text"]) != r["normalized"]]
    assert wrong == []


def test_list_scores() -> None:
    for r in rows("span_f1.jsonl"):
        assert numpy_round(list_f1(r["gold"], r["pred"])) == r["f1"], r
        assert exact(r["gold"], r["pred"]) == bool(r["em"]), r


def test_pairs() -> None:
    for r in rows("pairs.jsonl"):
        if "crash" in r:
            with pytest.raises(Undefined):
                judge(r["gold"], r["pred"], First())
            continue
        found = judge(r["gold"], r["pred"], First())
        assert close(found.score, r["score"]), r
        assert [b for b, _ in found.entries] == [b for b, _ in r["parts"]], r
        assert all(close(a, b) for (_, a), (_, b) in zip(found.entries, r["parts"], strict=True)), r
        gained = sum(s for b, s in found.entries if b == "tp")
        counts = [b for b, _ in found.entries]
        alone = task_f1(
            gained, counts.count("tp") + counts.count("fp"), counts.count("tp") + counts.count("fn")
        )
        assert close(alone, r["f1_alone"]), r


@cache
def scored(name: str, mode: str) -> ScoreReport:
    return score(ORACLE / name / "dev.jsonl", ORACLE / name / "predictions.txt", mode)


@pytest.mark.parametrize("name", slow_except(SUITES, *SUITES[::3]))
def test_suite(name: str) -> None:
    report = scored(name, "official")
    wanted = {(r["task"], r["i"]): r for r in rows(f"{name}/expected_instances.jsonl")}
    assert len(report.instances) == len(wanted)
    for i in report.instances:
        r = wanted[i.task, i.index]
        assert close(i.score, r["score"]), r
        assert [b for b, _ in i.entries] == [b for b, _ in r["parts"]], r
        assert all(close(a, b) for (_, a), (_, b) in zip(i.entries, r["parts"], strict=True)), r
    tasks = [r for r in rows(f"{name}/expected_tasks.jsonl") if not r.get("skipped")]
    assert [t.task.id for t in report.tasks] == [r["id"] for r in tasks]
    for t, r in zip(report.tasks, tasks, strict=True):
        assert close(t.f1, r["f1"])
        assert close(t.gained, r["tp_sum"])
        assert (t.tp, t.fp, t.fn, t.tn) == (r["n_tp"], r["n_fp"], r["n_fn"], r["n_tn"])
    aggregate = json.loads((ORACLE / name / "expected_aggregate.json").read_text())
    assert close(report.official_json(), aggregate["official_json"])
    table = {
        k: ",".join(str(v) for v in r.values())
        for k, r in aggregate["official_table_int_percent"].items()
    }
    assert report.official_csv() == ",mean,75,90\n" + "".join(
        f"{k},{v}\n" for k, v in table.items()
    )
    for ours, theirs in (("type", "gen"), ("domain", "domain"), ("format", "format")):
        mine, wanted_rows = report.own[ours], aggregate["standard"][theirs]
        assert set(mine) == set(wanted_rows)
        assert all(close(mine[k], wanted_rows[k]) for k in mine)


@pytest.mark.parametrize("name", slow_except(SUITES, *SUITES[::3]))
def test_corrected_differs_only_where_flagged(name: str) -> None:
    """By the oracle's flags, or by one of ours that the oracle does not have; never without a
    reason.
    """
    theirs = {
        (r["task"], r["i"]): r.get("flags", []) for r in rows(f"{name}/expected_instances.jsonl")
    }
    official = {(i.task, i.index): i for i in scored(name, "official").instances}
    for i in scored(name, "corrected").instances:
        if (i.task, i.index) not in official:  # the question that the script skips
            continue
        assert official[i.task, i.index].flags == i.flags
        if not i.flags:
            # The same sum of scores, predicted and gold positives: the same effect on the task's
            # F1.
            one, other = (effect(Judged(0.0, j.entries)) for j in (i, official[i.task, i.index]))
            assert one == pytest.approx(other, abs=1e-9)
        elif not theirs[i.task, i.index]:
            assert set(i.flags) & OUR_FLAGS, (i, official[i.task, i.index])


@pytest.mark.parametrize("name", [r["name"] for r in rows("file_cases.jsonl")] if SUITES else [])
def test_whole_file(name: str, tmp_path: Path) -> None:
    case = next(r for r in rows("file_cases.jsonl") if r["name"] == name)
    gold, pred = tmp_path / "gold.jsonl", tmp_path / "pred.txt"
    gold.write_text("\n".join(json.dumps(t) for t in case["dev"]), encoding="utf-8")
    pred.write_text(case["predictions_file"], encoding="utf-8")
    if case["official"]["rc"]:
        with pytest.raises(InputError):
            score(gold, pred)
        return
    report = score(gold, pred)
    assert close(report.official_json(), case["official"]["json"])
    assert report.official_csv() == case["official"]["csv"]
