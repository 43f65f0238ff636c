"""The plan of procedural ZEST: pure rows, the same bytes everywhere, its scorer, and what `show` prints."""

from __future__ import annotations

import io
import os
import subprocess
import sys

from rich.console import Console

from taskloom.seeding import Key
from taskloom.suites.zest.fields import ZestFields
from taskloom.suites.zest.synthetic.plan import plan
from tests.suites.zest.synthetic.small_worlds import SMALL


def test_rows_are_pure() -> None:
    fields = ZestFields.model_validate(SMALL)
    first, again = plan(fields, Key("x", 1)), plan(fields, Key("x", 1))
    rows = list(first.split("dev").rows(0, 40))
    assert list(again.split("dev").rows(17, 23)) == rows[17:23]
    assert [e.input for e in plan(fields, Key("x", 2)).split("dev").rows(0, 40)] != [e.input for e in rows]


GOLDEN = "ed3f14957120a1fc5fe798b31eac8cb8"
"""The digest of a small recipe. When it changes, the suite's version must be raised: the same recipe gives other data."""


def test_the_same_data_under_every_hash_seed_and_release() -> None:
    code = (
        "import json; from taskloom.recipe import read; from hashlib import blake2b;"
        "p = read('zest/synthetic', ['tasks.train=60', 'tasks.dev=60', 'tasks.test=60', 'passages=2']).plan(3);"
        "rows = [[e.task, e.input, e.targets, dict(e.traits), [[s.rule, s.value, s.of] for s in e.derivation]]"
        " for s in p.splits for e in s.rows(0, 60)];"
        "print(blake2b(json.dumps(rows).encode(), digest_size=16).hexdigest())"
    )
    found = set()
    for seed in ("0", "1"):
        env = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        found.add(done.stdout)
    assert found == {GOLDEN + "\n"}


def test_scorer_of_the_plan() -> None:
    made = plan(ZestFields.model_validate(SMALL), Key("x", 1))
    for e in made.split("train").rows(0, 60):
        assert made.scorer.score(e.target, e) == 1.0
        assert made.scorer.score("nonsense", e) < 1.0
        assert made.scorer.explain(e.target, e).startswith("right")


def test_show_puts_a_family_side_by_side() -> None:
    made = plan(ZestFields.model_validate(SMALL), Key("x", 1))
    assert made.show is not None
    console = Console(width=240, record=True, file=io.StringIO())
    console.print(made.show(next(iter(made.split("train").rows(0, 1)))))
    text = console.export_text()
    for name in (
        "base (this)",
        "paraphrase",
        "semantic flips",
        "composition",
        "output structure",
        "(as the base task)",
    ):
        assert name in text
    # The example itself may be n/a; the derivatives with passages of their own show an answer where they have one.
    answers = [cell.strip() for cell in next(line for line in text.splitlines() if "│ answer" in line).split("│")[3:-1]]
    assert len(answers) == 4
    assert all(answer != "n/a" for answer in answers[1:])
