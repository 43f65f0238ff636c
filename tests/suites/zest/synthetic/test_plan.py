"""The plan of procedural ZEST: pure rows, the same bytes everywhere, its scorer, and what `show`
prints.
"""

from __future__ import annotations

import io

import pytest
from rich.console import Console

import taskloom as tl
from taskloom.core.errors import InputError
from taskloom.core.seeding import Key
from taskloom.learners.config import read as read_learner
from taskloom.suites.zest.fields import ZestFields, context, question
from taskloom.suites.zest.synthetic.plan import plan
from tests.processes import printed_elsewhere, printed_here
from tests.suites.zest.synthetic.small_worlds import SMALL


def test_rows_are_pure() -> None:
    fields = ZestFields.model_validate(SMALL)
    first, again = plan(fields, Key("x", 1)), plan(fields, Key("x", 1))
    rows = list(first.split("dev").rows(0, 40))
    assert list(again.split("dev").rows(17, 23)) == rows[17:23]
    assert [e.input for e in plan(fields, Key("x", 2)).split("dev").rows(0, 40)] != [
        e.input for e in rows
    ]


GOLDEN = "374bb7b65f8a592bdedf9dac532b2bd5"
"""The digest of a small recipe. When it changes, the suite's version must be raised: the same
recipe gives other data.
"""


def test_the_same_data_under_every_hash_seed_and_release() -> None:
    code = (
        "import json; from taskloom.recipe import read; from hashlib import blake2b;p ="
        " read('zest/synthetic', ['tasks.train=60', 'tasks.dev=60', 'tasks.test=60',"
        " 'passages=2']).plan(4);rows = [[e.task, e.input, e.targets, dict(e.traits), [[s.rule,"
        " s.value, s.of] for s in e.derivation]] for s in p.splits for e in s.rows(0,"
        " 60)];print(blake2b(json.dumps(rows).encode(), digest_size=16).hexdigest())"
    )
    assert printed_here(code) == printed_elsewhere(code) == GOLDEN + "\n"


@pytest.mark.parametrize("layout", ["bart", "reference-t5", "reference-bart"])
def test_a_layout_keeps_the_items(layout: str) -> None:
    plain, other = (
        plan(ZestFields.model_validate(SMALL | {"layout": name}), Key("x", 1))
        for name in ("t5", layout)
    )
    for one, two in zip(
        plain.split("test").rows(0, 30), other.split("test").rows(0, 30), strict=True
    ):
        assert one.input != two.input
        assert (one.task, one.targets, one.traits) == (two.task, two.targets, two.traits)
        assert (context(one.input), question(one.input)) == (
            context(two.input),
            question(two.input),
        )


@pytest.mark.parametrize("parts", ["question", "context"])
def test_a_part_of_the_input_keeps_the_items(parts: str) -> None:
    """The ablations of the paper's Table 5; the second solver still answers what the whole input
    asks.
    """
    whole, part = (
        plan(ZestFields.model_validate(SMALL | {"parts": name}), Key("x", 1))
        for name in ("both", parts)
    )
    assert whole.check is not None
    assert part.check is not None
    assert part.answer is None
    for one, two in zip(whole.split("dev").rows(0, 20), part.split("dev").rows(0, 20), strict=True):
        assert question(two.input) == (question(one.input) if parts == "question" else "")
        assert context(two.input) == (context(one.input) if parts == "context" else "")
        assert part.check(two) == two.targets == one.targets


@pytest.mark.parametrize("layout", ["t5", "bart", "reference-t5", "reference-bart"])
def test_the_independent_reader_answers_inputs(layout: str) -> None:
    made = plan(ZestFields.model_validate(SMALL | {"layout": layout}), Key("x", 1))
    assert made.answer is not None
    for e in made.split("test").rows(0, 60):
        assert made.answer(e.input).targets == e.targets
    with pytest.raises(InputError, match="is not a task of this recipe"):
        made.answer("zeroshot question: Why? zeroshot context: Because.")
    with pytest.raises(InputError, match="an input without a question"):
        made.answer("Why?")


def test_the_solver_is_right_about_everything() -> None:
    sizes = {"tasks.train": 20, "tasks.dev": 0, "tasks.test": 20, "passages": 3}
    data = tl.make("zest/synthetic", set=sizes, seed=2)
    solver = read_learner("solver").fit(data["train"])
    answers = solver.answer([e.input for e in data["test"]])
    assert answers == [e.target for e in data["test"]]


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
    # The example itself may be n/a; the derivatives with passages of their own show an answer where
    # they have one.
    answers = [
        cell.strip()
        for cell in next(line for line in text.splitlines() if "│ answer" in line).split("│")[3:-1]
    ]
    assert len(answers) == 4
    assert all(answer != "n/a" for answer in answers[1:])
