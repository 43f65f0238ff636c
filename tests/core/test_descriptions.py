"""Any suite by description: the same examples, told first what to do; unseen tasks are in no
training row.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import taskloom as tl
from taskloom.core.descriptions import UNSEEN, task_column, undescribed_table
from taskloom.core.errors import DataError, RecipeError, TaskloomError
from taskloom.data import Dataset
from taskloom.recipe import read
from taskloom.verbs import answerer
from tests.slow import slow_except

TASK = '''"""Reverse."""
import taskloom as tl


@tl.task("words/backwards", describe="Reverse the order of the words.", solve=lambda t: " ".join(reversed(t.split())))
def backwards(rng: tl.Random) -> tl.Example:
    words = rng.sample("amber basin cedar delta ember fable gable".split(), 6)
    return tl.Example(" ".join(words), " ".join(reversed(words)))
'''

SMALL = "splits={train: {n: 120}, test: {n: 40}}"
CASES: dict[str, tuple[str, ...]] = {
    "ctl/A": ("splits.train.n=2000", "splits.pairs.n=100", "splits.all-pairs.n=100"),
    "ctl/A-independent": ("splits.train.n=2000", "splits.pairs.n=100", "splits.all-pairs.n=100"),
    "ctl/R": ("splits.train.n=2000", "splits.pairs.n=100", "splits.all-pairs.n=100"),
    "ctl/S": ("splits.train.n=2000",),
    "ctl/length": ("splits.train.n=2000",),
    "babi/diverse-T7": ("splits={train: {n: 170}, test: {n: 34}}",),
    "babi/concat-T12": ("splits={train: {n: 120}, dev: {n: 60}}",),
    "babi/inject-T7": ("splits={train: {n: 70}, dev: {n: 35}}",),
    "babi/4": (SMALL,),
    "babi/17": (SMALL,),
    "babi/18": (SMALL,),
    "babi/20": (SMALL,),
    "taskbench/english": ("lexicon=synthetic", "sequences.n=100", "few_shot={k: 4, draws: 1}"),
}
"""Recipes with several tasks."""

SINGLE: dict[str, tuple[str, ...]] = {
    "babi/1": (SMALL,),
    "babi/15": (SMALL,),
    "taskbench/chain(antonyms[eng], hyponyms[eng])": ("lexicon=synthetic",),
}
"""Recipes with one task; a task of one function comes besides."""


def check_all(data: Dataset) -> None:
    """Every answer again by the second solver of the described plan, a few of each split."""
    plan = data.recipe.plan(data.manifest["seed"])
    assert plan.check is not None
    for split in data.splits:
        for example in islice(data[split], 40):
            assert sorted(plan.check(example)) == sorted(example.targets), example


@pytest.mark.parametrize(
    "name",
    [
        *slow_except(CASES, "ctl/A", "ctl/length", "babi/diverse-T7", "babi/concat-T12", "babi/17"),
        *SINGLE,
    ],
)
def test_descriptions_come_before_the_very_same_examples(name: str) -> None:
    changes = {**CASES, **SINGLE}[name]
    plain, told = tl.make(name, set=changes), tl.make(name, set=[*changes, "described=true"])
    assert plain.digest != told.digest
    assert plain.splits == told.splits
    for split in plain.splits:
        bare = undescribed_table(told.table(split))
        assert bare.column("input").to_pylist() == plain.table(split).column("input").to_pylist()
        for column in ("targets", "task", "traits", "derivation"):
            assert bare.column(column).equals(plain.table(split).column(column))
        heads = {e.input.partition("\n")[0] for e in islice(told[split], 50)}
        assert all(head.endswith(".") and len(head.split()) > 3 for head in heads)
    check_all(told)


@pytest.mark.parametrize(
    "name",
    slow_except(
        CASES,
        "ctl/A",
        "ctl/length",
        "babi/diverse-T7",
        "babi/inject-T7",
        "babi/4",
        "taskbench/english",
    ),
)
def test_unseen_tasks_are_in_no_training_row(name: str) -> None:
    data = tl.make(name, set=[*CASES[name], "described={unseen: 0.3, level: explicit}"])
    by = data.manifest["tasks_by"]

    def tasks(role: str, unseen: bool) -> set[str]:
        tables = [data.table(s) for s in data.splits if data.role(s) == role]
        named = [
            pc.filter(task_column(t, by), pc.equal(task_column(t, UNSEEN), unseen)) for t in tables
        ]
        return {str(name) for names in named for name in names.unique().to_pylist()}

    assert not tasks("train", True)
    assert tasks("test", True)
    assert tasks("train", False)
    assert not tasks("train", False) & tasks("test", True)
    check_all(data)


def test_named_tasks_are_unseen_and_other_rows_stay() -> None:
    told = tl.make("ctl/A-independent", set=[*CASES["ctl/A"], "described={unseen: [a q, q a]}"])
    plain = tl.make("ctl/A-independent", set=CASES["ctl/A"])
    lost = {"a q", "q a"}
    kept = [e.targets for e in plain["train"] if e.traits["functions"] not in lost]
    assert [e.targets for e in told["train"]] == kept
    assert len(kept) < 2000
    # What training no longer has, probes no longer call seen.
    pairs = tl.make("ctl/A", set=["splits.train.n=1000", "described={unseen: [a q, q a]}"])["pairs"]
    assert {e.traits["seen"] for e in pairs if e.traits["functions"] in lost} == {False}
    assert {e.traits["seen"] for e in pairs if e.traits["functions"] not in lost} == {True}


def test_a_task_of_one_function(tmp_path: Path) -> None:
    file = tmp_path / "backwards.py"
    file.write_text(TASK)
    data = tl.make(str(file), tmp_path / "data", set=["described=true", SMALL])
    assert data["train"][0].input.startswith("Reverse the order of the words.\n")
    found = tl.verify(tmp_path / "data")
    assert (found.method, found.wrong) == ("second solver", ())
    assert tl.apply(str(file), "a b", set=["described=true"]).targets == ("b a",)
    assert tl.apply(
        str(file), "Reverse the order of the words.\na b", set=["described=true"]
    ).targets == ("b a",)


def test_zest_tells_already() -> None:
    changes = ["tasks.train=40", "tasks.dev=0", "tasks.test=0", "passages=2"]
    plain, told = (
        tl.make("zest/synthetic", set=changes),
        tl.make("zest/synthetic", set=[*changes, "described=true"]),
    )
    assert plain.table("train").column("input").equals(told.table("train").column("input"))


def test_verify_and_audit_of_a_described_dataset(tmp_path: Path) -> None:
    changes = [*CASES["ctl/A"], "described={unseen: 0.2}"]
    tl.make("ctl/A", tmp_path / "a", set=changes, seed=1)
    assert tl.load(tmp_path / "a").digest == tl.make("ctl/A", set=changes, seed=1).digest
    assert not tl.verify(tmp_path / "a").wrong
    assert not tl.audit(tmp_path / "a").leaks


@pytest.mark.slow
def test_workers_make_the_same_described_dataset(tmp_path: Path) -> None:
    changes = [*CASES["ctl/A"], "described={unseen: 0.2}"]
    tl.make("ctl/A", tmp_path / "b", set=changes, seed=1, workers=2, shard_rows=1000)
    assert tl.load(tmp_path / "b").digest == tl.make("ctl/A", set=changes, seed=1).digest


def test_the_second_solver_minds_the_description() -> None:
    recipe = read("babi/17", [SMALL, "described={unseen: [above]}"])
    plan = recipe.plan(0)
    assert plan.check is not None
    example = tl.make(recipe)["test"][0]
    other = tl.Example(
        "Say something else.\n" + example.input.partition("\n")[2], example.targets, example.traits
    )
    with pytest.raises(TaskloomError, match="description of its task"):
        plan.check(other)
    wrong = {**example.traits, UNSEEN: not example.traits[UNSEEN]}
    with pytest.raises(TaskloomError, match="unseen_task"):
        plan.check(
            tl.Example(
                example.input, example.targets, wrong, key=example.key, question=example.question
            )
        )


def test_a_suite_that_forgets_to_withhold_is_found_out() -> None:
    from dataclasses import replace

    from taskloom.core.descriptions import describe
    from taskloom.core.seeding import Key

    plan = read("taskbench/english", CASES["taskbench/english"]).plan(0)
    careless = replace(plan, tasks=replace(plan.tasks, without=lambda held: plan))
    train = describe(careless, "instruction", 0.5, Key("x")).split("train")
    with pytest.raises(DataError, match="withheld task"):
        train.rows(0, train.n)


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("ctl/A", "described=maybe", "write true"),
        (
            "ctl/A",
            "described.unseen=1",
            "share of at least 0 and below 1, or a list of task names, not 1",
        ),
        ("ctl/A", "described.unseen=-0.1", "not -0.1"),
        ("ctl/A", "described.unseen=.nan", "not nan"),
        ("ctl/A", "described.unseen=true", "not True"),
        ("ctl/A", "described.unseen=[1, 2]", r"not \[1, 2\]"),
        ("ctl/A", "described.unseen=[nope]", "no task is called 'nope'; the trait 'functions'"),
        ("ctl/A", "described.unseen=[a zz]", "no task is called 'a zz'"),
        ("ctl/A", "described.level=loud", "instruction"),
        ("ctl/A", "described.lvl=explicit", "did you mean 'level'"),
        ("ctl/A", "described.unseen=[a]", "training always contains 'a'"),
        ("babi/1", "described.unseen=0.5", "one task"),
        ("babi/mix-T7", "described.unseen=0.5", "no training split"),
        ("babi/diverse-T7", "described.unseen=[where-X]", "did you mean 'where-P'"),
        ("babi/18", "described.unseen=[fits, bigger]", "training would be empty"),
        ("zest/synthetic", "described.unseen=0.5", "none can"),
    ],
)
def test_what_cannot_be_is_one_sentence(name: str, change: str, says: str) -> None:
    with pytest.raises(RecipeError, match=says):
        read(name, [change]).plan(0)


def test_the_digest_knows_descriptions_and_false_is_none() -> None:
    plain, off = read("ctl/A"), read("ctl/A", ["described=false"])
    on, explicit = read("ctl/A", ["described=true"]), read("ctl/A", ["described={level: explicit}"])
    assert plain.digest == off.digest
    assert len({plain.digest, on.digest, explicit.digest}) == 3
    assert type(on).from_dict(on.to_dict()).digest == on.digest


def test_answers_to_described_inputs() -> None:
    ask = answerer("ctl/A", ["described=true"])
    bare = answerer("ctl/A")("c b a 3")
    assert ask("Apply the function a, then b, then c.\nc b a 3") == ask("c b a 3") == bare


def test_sequences_are_scored_by_their_bare_input() -> None:
    recipe = read(
        "taskbench/map(synonyms[eng])", ["described=true", "sequences.n=200", "lexicon=synthetic"]
    )
    plan = recipe.plan(0)
    for example in tl.make(recipe)["test"]:
        assert plan.scorer.score(example.target, example) == 1.0


def test_empty_tables_and_rows_without_a_task() -> None:
    plan = read("ctl/A", ["splits.iid.n=0", "described=true"]).plan(0)
    found = plan.split("iid").rows(0, 0)
    assert isinstance(found, pa.Table)
    assert found.num_rows == 0
