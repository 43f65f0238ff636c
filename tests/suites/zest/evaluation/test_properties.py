"""What must hold for any answers: perfection, order, all-n/a, and that every difference has a
reason.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from taskloom.suites.zest.evaluation import FLAGS, Undefined, corrected, official, score
from taskloom.suites.zest.evaluation.flags import differ, flags
from taskloom.suites.zest.evaluation.spans import best_pairs
from taskloom.suites.zest.task_files import ZestTask, parse_structure, tasks_from

WORDS = [
    "owl",
    "the",
    "river",
    "5",
    "1,000",
    "north-east",
    "stone",
    "n/a",
    "Été",
    "–",
    "yes",
    "no",
    "a",
]

spans = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
lists = st.lists(spans, min_size=1, max_size=4).map("|".join)
plain = st.one_of(st.sampled_from(["yes", "no", "n/a", "N/A"]), spans, lists)
keys = st.sampled_from(["name", "trail_name", "is open", "length", "the_kind"])
values = st.one_of(plain, st.lists(plain, min_size=2, max_size=3))
dicts = st.dictionaries(keys, values, min_size=1, max_size=3)
structures = st.lists(dicts, min_size=1, max_size=3)

gold_answers = st.one_of(plain, st.lists(plain, min_size=1, max_size=3), structures.map(json.dumps))

odd_values = st.one_of(
    plain, st.none(), st.integers(), st.booleans(), st.lists(plain, max_size=2), st.just({"x": "y"})
)
predictions = st.one_of(
    plain,
    st.sampled_from(
        [
            "",
            "n/a.",
            " N/A",
            "N / A",
            "ｎ／ａ",
            "[]",
            "{}",
            "[{",
            "null",
            "NaN",
            '["owl", "river"]',
            "[1]",
        ]
    ),
    st.lists(st.dictionaries(keys, odd_values, max_size=3), max_size=4).map(json.dumps),
    st.lists(plain, max_size=3).map(json.dumps),
    st.text(max_size=12),
)


def first_way(answer: Any) -> str:
    """A prediction that says the first alternative of a gold answer."""
    if isinstance(answer, list):
        return str(answer[0])
    if "}" not in answer:
        return str(answer)
    found = [
        {k: v[0] if isinstance(v, list) else v for k, v in d.items()} for d in json.loads(answer)
    ]
    return json.dumps(found)


@st.composite
def files(
    draw: st.DrawFn, predicted: st.SearchStrategy[str] = predictions
) -> tuple[list[ZestTask], list[list[str]]]:
    """Tasks of all kinds with base tasks present, and predictions task by task."""
    rows: list[dict[str, Any]] = []
    said: list[list[str]] = []
    for n in range(draw(st.integers(1, 4))):
        answers = draw(st.lists(gold_answers, min_size=1, max_size=4))
        kind = (
            "normal"
            if n == 0
            else draw(st.sampled_from(["normal", "paraphrase", "target_semantics", "structure"]))
        )
        rows.append(
            {
                "id": f"t{n}",
                "question": f"What is it about number {n}?",
                "type": {
                    "generalization_type": kind,
                    "derives_from": [] if n == 0 else ["t0"],
                    "domain": "owls",
                },
                "examples": [
                    {"context": f"passage {i}", "answer": a} for i, a in enumerate(answers)
                ],
            }
        )
        said.append([draw(predicted) for _ in answers])
    return tasks_from(rows), said


small = st.integers(1, 4)


@given(st.data(), small, small)
def test_assignment_equals_brute_force(data: st.DataObject, n: int, m: int) -> None:
    weights = data.draw(
        st.lists(st.lists(st.integers(-5, 9), min_size=m, max_size=m), min_size=n, max_size=n)
    )
    pairs = best_pairs(weights)
    assert len(pairs) == min(n, m) == len({r for r, _ in pairs}) == len({c for _, c in pairs})
    rows, columns = range(n), range(m)
    ways = (
        [tuple(zip(rows, p, strict=True)) for p in itertools.permutations(columns, n)]
        if n <= m
        else [tuple(zip(p, columns, strict=True)) for p in itertools.permutations(rows, m)]
    )
    assert sum(weights[r][c] for r, c in pairs) == max(
        sum(weights[r][c] for r, c in way) for way in ways
    )


@given(gold_answers)
def test_saying_the_gold_answer_is_right_in_full(answer: object) -> None:
    gold = answer if isinstance(answer, str) else tuple(answer)  # type: ignore[arg-type]
    judged = corrected.judge(gold, first_way(answer))
    assert judged.score == 1.0
    assert all(b == "tn" or (b == "tp" and s == 1.0) for b, s in judged.entries)


@given(gold_answers, predictions)
def test_corrected_is_defined_everywhere_and_every_difference_has_a_reason(
    answer: object, prediction: str
) -> None:
    gold = answer if isinstance(answer, str) else tuple(answer)  # type: ignore[arg-type]
    paper = corrected.judge(gold, prediction)
    assert 0.0 <= paper.score <= 1.0
    try:
        script = official.judge(gold, prediction, Random(0))
    except Undefined:
        script = None
    why = flags(gold, prediction, script, paper)
    assert bool(why) == differ(script, paper)
    assert set(why) <= set(FLAGS)


@given(structures, predictions, st.randoms(use_true_random=False))
def test_order_of_objects_and_keys_does_not_matter(
    wanted: list[dict[str, object]], prediction: str, rng: Random
) -> None:
    before = corrected.judge(json.dumps(wanted), prediction).score
    said = parse_structure(prediction)
    shuffled = [dict(rng.sample(list(d.items()), len(d))) for d in rng.sample(wanted, len(wanted))]
    if said is not None:
        prediction = json.dumps(
            [dict(rng.sample(list(d.items()), len(d))) for d in rng.sample(said, len(said))]
        )
    assert corrected.judge(json.dumps(shuffled), prediction).score == before


@given(files(), st.randoms(use_true_random=False))
def test_order_of_tasks_instances_and_list_items_does_not_matter(
    made: tuple[list[ZestTask], list[list[str]]], rng: Random
) -> None:
    tasks, said = made
    before = score(tasks, [p for ps in said for p in ps], "corrected")
    order = rng.sample(range(len(tasks)), len(tasks))
    moved: list[ZestTask] = []
    moved_said: list[str] = []
    for t in order:
        within = rng.sample(range(len(said[t])), len(said[t]))
        kept = [tasks[t].instances[i] for i in within]
        turned = [
            replace(i, answer=_turn(i.answer, rng)) if isinstance(i.answer, str) else i
            for i in kept
        ]
        moved.append(replace(tasks[t], instances=tuple(turned)))
        moved_said += [_turn(said[t][i], rng) for i in within]
    after = score(moved, moved_said, "corrected")
    assert after.overall == before.overall
    assert {t.task.id: t.f1 for t in after.tasks} == {t.task.id: t.f1 for t in before.tasks}


def _turn(prediction: str, rng: Random) -> str:
    if "|" not in prediction or "[" in prediction:
        return prediction
    parts = prediction.split("|")
    return "|".join(rng.sample(parts, len(parts)))


@given(files())
def test_all_na_scores_1_on_tasks_without_answers_and_0_on_others(
    made: tuple[list[ZestTask], list[list[str]]],
) -> None:
    """Section 5.3: an all-NA task counts as competent by convention; with any answer in it all-NA
    gets nothing.
    """
    tasks, said = made
    report = score(tasks, ["n/a" for ps in said for _ in ps], "corrected")
    for found in report.tasks:
        assert found.f1 == (0.0 if _has_answer(found.task) else 1.0)


def _has_answer(task: ZestTask) -> bool:
    for i in task.instances:
        assert i.answer is not None
        structure = (
            parse_structure(i.answer) if isinstance(i.answer, str) and "}" in i.answer else None
        )
        for value in [v for d in structure for v in d.values()] if structure else [i.answer]:
            if not any(
                corrected.says_na(a) for a in ([value] if isinstance(value, str) else value)
            ):
                return True
    return False


@given(files(), st.floats(0, 100), st.floats(0, 100))
def test_competence_falls_with_the_threshold(
    made: tuple[list[ZestTask], list[list[str]]], one: float, other: float
) -> None:
    tasks, said = made
    report = score(
        tasks,
        [p for ps in said for p in ps],
        "corrected",
        thresholds=(min(one, other), max(one, other)),
    )
    for row in report.by_type.values():
        _, easy, hard = row.values() if len(row) == 3 else (0, 1.0, 0.0)
        assert easy >= hard


def test_a_task_at_the_border_is_competent_by_the_paper_and_not_by_the_script() -> None:
    """Three of five answers found and nothing wrong: F1 is 0.75, which the script's floats miss by
    a rounding error.
    """
    row = {
        "id": "b",
        "question": "Is it?",
        "type": {"generalization_type": "normal", "derives_from": [], "domain": "owls"},
        "examples": [{"context": "c", "answer": "yes"}] * 5,
    }
    predictions = ["yes"] * 3 + ["n/a"] * 2
    by_paper, by_script = (
        score(tasks_from([row]), predictions, mode) for mode in ("corrected", "official")
    )
    assert by_paper.tasks[0].f1 == by_script.tasks[0].f1 < 0.75
    assert by_paper.overall["75"] == 1.0
    assert by_script.overall["75"] == 0.0


@given(st.integers(0, 400), st.integers(1, 400))
def test_hundredths_are_rounded_as_fractions_are(part: int, whole: int) -> None:
    assert corrected._hundredths(part, whole) == round(Fraction(100 * part, whole))
