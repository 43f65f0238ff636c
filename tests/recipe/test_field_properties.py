"""A field changes only what its kind says: one other value of every field of every suite, tried on
a small recipe.

World fields change the data. Draw fields keep every row of the splits that they do not name, byte
for byte. Presentation fields keep the items. A field for which no value is tried fails, so that a
new one cannot escape. Deviations are listed in scripts/build_fields.py.
"""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from taskloom.core import shards
from taskloom.core.example import Example
from taskloom.core.files import json_digest
from taskloom.core.registry import SUITES
from taskloom.recipe import Fields
from taskloom.recipe.fields import walk
from taskloom.recipe.overrides import override
from taskloom.recipe.recipe import check
from tests.recipe.field_trials import BASES, EVERY, TRIALS, Trial

ROOT = Path(__file__).parent.parent.parent
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "build_fields.py"))
DEVIATIONS = {(d.suite, d.field) for d in SCRIPT["DEVIATIONS"]}
SUITE_NAMES = [suite.name for suite in SUITES if suite.module.startswith("taskloom.")]
Rows = dict[str, list[Example]]

_MADE: dict[str, Rows] = {}
"""Recipes by digest: many trials start from the same one."""


def kinds_of(suite: str) -> Mapping[str, str]:
    """Return the kinds of all fields of a suite."""
    model = SUITES.get(suite).fields
    assert issubclass(model, Fields)
    return model.field_kinds(members=True)


def rows(base: str, changes: Mapping[str, Any], seed: int = 0) -> Rows:
    """Make a small recipe with changes of its fields."""
    data = deepcopy(BASES[base])
    model = SUITES.get(data["suite"]).fields
    for path, value in changes.items():
        override(data, {path: value}, model)
    digest = json_digest([data, seed])
    if digest not in _MADE:
        plan = check(data, base, base).plan(seed)
        tables = {
            split.name: shards.to_table(split.rows(0, split.n), 0, plan.traits)
            for split in plan.splits
        }
        _MADE[digest] = {name: list(shards.to_examples(table)) for name, table in tables.items()}
    return _MADE[digest]


def written_otherwise(before: list[Example], after: list[Example]) -> str:
    """Return what is wrong with rows that should be the same items: nothing, or what they do not
    share.
    """
    # Where an input is written otherwise, the key may say what its content was.
    if any(b.key not in (a.key, a.content) for a, b in zip(before, after, strict=True)):
        return "keys"
    if [dict(e.traits) for e in before] != [dict(e.traits) for e in after]:
        return "traits"
    answers = [[(e.targets, e.derivation) for e in part] for part in (before, after)]
    same_inputs = [e.input for e in before] == [e.input for e in after]
    return "" if same_inputs or answers[0] == answers[1] else "inputs and answers"


def problem(kind: str, trial: Trial, before: Rows, after: Rows) -> str:
    """Return how a field breaks the rule of its kind; nothing if it keeps it."""
    changed = [split for split in {**before, **after} if before.get(split) != after.get(split)]
    if not changed and trial.moves:
        return "changes nothing, so nothing was tried"
    if kind == "draw" and trial.moves != EVERY:
        moved = [split for split in changed if split not in trial.moves]
        return f"moves the rows of {', '.join(moved)}" if moved else ""
    if kind == "presentation":
        if list(before) != list(after):
            return "changes the splits"
        wrong = {split: written_otherwise(before[split], after[split]) for split in before}
        return "; ".join(
            f"changes {what} of {split}"
            for split, what in wrong.items()
            if what not in ("", trial.writes)
        )
    return ""


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
)
@pytest.mark.parametrize("suite", SUITE_NAMES)
def test_every_field_keeps_what_its_kind_says(suite: str, seed: int, tmp_path: Path) -> None:
    kinds = kinds_of(suite)
    assert not set(kinds) - set(TRIALS[suite]), "give these fields a trial in field_trials.py"
    assert not set(TRIALS[suite]) - set(kinds), "there are no such fields"
    problems = {}
    assert {(suite, path) for path, trial in TRIALS[suite].items() if trial.writes} <= DEVIATIONS
    for number, (path, kind) in enumerate(kinds.items()):
        trial = TRIALS[suite][path]
        value = trial.value
        if callable(value):
            folder = tmp_path / str(number)
            folder.mkdir()
            value = value(folder)
        before = rows(trial.base, trial.beside, seed)
        after = rows(trial.base, {**trial.beside, trial.at or path: value}, seed)
        if sentence := problem(kind, trial, before, after):
            problems[path] = f"a {kind} field {sentence}"
    assert not problems


def test_every_field_has_a_kind_and_every_suite_is_tried() -> None:
    assert set(SUITE_NAMES) == set(TRIALS)
    for suite in SUITE_NAMES:
        model = SUITES.get(suite).fields
        assert [path for path, _, _, kind in walk(model, members=True) if kind is None] == [], suite


SIZES = [
    ("ctl/A", "splits.train.n", 40, 60),
    ("ctl/A", "splits.ood.n", 10, 20),
    ("ctl/S", "splits.train.n", 40, 60),
    ("ctl/length", "splits.train.n", 40, 60),
    ("babi/sizes", "splits.train.n", 5, 12),
    ("babi/sizes", "splits.test.n", 3, 6),
    ("babi/series", "splits.train.0.n", 4, 9),
    ("babi/14", "splits.train.n", 5, 10),
    ("babi/concat", "splits.train.n", 8, 20),
    ("zest", "tasks.dev", 10, 12),
    ("taskbench/one", "shares.train", 0.3, 0.5),
    ("taskbench/one", "shares.test", 0.05, 0.1),
]
SUBSETS = {"ctl": ("ctl", "splits.*.n"), "babi/concat": ("babi", "concat")}
NEITHER = {"zest": ("zest", "tasks")}


@pytest.mark.parametrize(("base", "path", "small", "large"), SIZES)
def test_a_smaller_split_is_a_prefix_of_a_larger_one_and_moves_no_other(
    base: str, path: str, small: float, large: float
) -> None:
    few, many = rows(base, {path: small}), rows(base, {path: large})
    split = path.split(".")[1]
    assert len(few[split]) < len(many[split])
    assert {name: few[name] for name in few if name != split} == {
        n: many[n] for n in many if n != split
    }
    for names, kept in (
        (SUBSETS, {e.input for e in few[split]} <= {e.input for e in many[split]}),
        (NEITHER, True),
    ):
        deviation = names.get(base, names.get(base.partition("/")[0]))
        if deviation:
            assert deviation in DEVIATIONS
            assert kept
            return
    assert many[split][: len(few[split])] == few[split]


def test_the_page_of_fields_is_current() -> None:
    page = (ROOT / "docs" / "reference" / "fields.md").read_text(encoding="utf-8")
    assert page == SCRIPT["page"](), "run `make fields`"
