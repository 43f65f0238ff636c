"""The concat and inject splits: sizes and means of the paper's Table 2, the window, and the
published files.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from taskloom.core.errors import RecipeError, TaskloomError
from taskloom.core.example import Example
from taskloom.recipe import recipe
from taskloom.suites.babi import concat, export
from taskloom.suites.babi.generator.examples import signature, tokens
from taskloom.suites.babi.generator.story_setting import ask_all
from taskloom.suites.babi.reasoner.knowledge import Knowledge
from taskloom.suites.babi.story.grammar import parse_passage
from taskloom.suites.babi.story.sentences import ask
from taskloom.suites.babi.story.vocabulary import PUBLISHED, Vocabulary

# Paper, Table 2: size, mean number of sentences, mean size of the support.
TABLE_2 = {
    "concat-T2": (18_000, 10.76, 2.0),
    "concat-T7": (63_000, 13.5, 1.68),
    "inject-T7": (190_158, 23.25, 1.42),
    "concat-T12": (108_000, 10.8, 1.42),
    "inject-T12": (368_831, 15.97, 1.28),
}


def rows(name: str, n: int) -> list[Example]:
    split = recipe.read(f"babi/{name}").plan(0).splits[0]
    return list(split.rows(0, min(n, split.n)))


def events_of(example: Example) -> Knowledge:
    story = parse_passage(
        example.input[: -len(example.question)], example.question, Vocabulary(), PUBLISHED
    )
    return Knowledge(Vocabulary().places).tell_all(story.events)


@pytest.mark.parametrize("name", TABLE_2)
def test_sizes_are_those_of_table_2(name: str) -> None:
    size = TABLE_2[name][0]
    tests = [size // 9] * (2 if name.startswith("concat") else 1)
    assert [s.n for s in recipe.read(f"babi/{name}").plan(0).splits] == [size, *tests]


def check_means(name: str, size: int) -> None:
    # The paper's means are of what fits 512 tokens: 7,415 of the 9,000 questions of task 3 (A.1.2).
    trimmed = "-trimmed" if name in ("concat-T7", "concat-T12") else ""
    split = recipe.read(f"babi/{name}{trimmed}", [f"splits.train.n={size}"]).plan(0).splits[0]
    sizes = [(int(e.traits["sentences"]), int(e.traits["support"])) for e in split.rows(0, split.n)]
    length, support = (sum(numbers) / len(sizes) for numbers in zip(*sizes, strict=True))
    assert length == pytest.approx(TABLE_2[name][1], rel=0.03)
    assert support == pytest.approx(TABLE_2[name][2], rel=0.03)


@pytest.mark.parametrize(("name", "size"), [("concat-T2", 6_000), ("concat-T7", 4_200)])
def test_means_are_those_of_table_2(name: str, size: int) -> None:
    check_means(name, size)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE_2)
def test_means_of_all_examples_are_those_of_table_2(name: str) -> None:
    check_means(name, TABLE_2[name][0])


@pytest.fixture(scope="module")
def structures_of_tests() -> set[str]:
    """The structures of all test stories; those of two of them found by the way in which training
    is looked through.
    """
    tests = [example for mix in ("mix-T2", "mix-T7", "mix-T12") for example in rows(mix, 6_000)]
    structures = {example.key for example in tests}
    assert {signature(events_of(tests[place]).events) for place in (0, -1)} <= structures
    return structures


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE_2)
def test_no_test_structure_is_in_training(name: str, structures_of_tests: set[str]) -> None:
    train = recipe.read(f"babi/{name}").plan(0).split("train")
    last, compared = "", 0
    for example in train.rows(0, train.n):
        passage = example.input[: -len(example.question)]
        # Tests have 10 sentences at least; the questions of one place in a story share their
        # passage.
        if passage != last and int(example.traits["sentences"]) >= 10:
            assert signature(events_of(example).events) not in structures_of_tests
            compared += 1
        last = passage
    assert compared > 1_000


def test_concat_is_the_tasks_one_after_the_other() -> None:
    plan = recipe.read("babi/concat-T7").plan(0)
    train = plan.split("train")
    groups = [next(iter(train.rows(i, i + 1))).traits["group"] for i in range(4_500, 63_000, 9_000)]
    assert groups == ["qa1", "qa2", "qa3", "qa5", "qa11", "qa12", "qa13"]
    assert list(train.rows(9_230, 9_235)) == [
        e for i in range(9_230, 9_235) for e in train.rows(i, i + 1)
    ]
    assert plan.check is not None
    assert all(plan.check(e) == e.targets for e in train.rows(18_460, 18_480))


def test_trimmed_data_are_what_is_left_of_task_3() -> None:
    whole, trimmed = (
        recipe.read(f"babi/{name}").plan(0).split("train")
        for name in ("concat-T7", "concat-T7-trimmed")
    )
    assert (whole.n, trimmed.n) == (63_000, 61_415)
    last = next(iter(trimmed.rows(18_000 + 7_414, 18_000 + 7_415)))
    after = next(iter(trimmed.rows(18_000 + 7_415, 18_000 + 7_416)))
    assert (last.traits["group"], after.traits["group"]) == ("qa3", "qa5")
    assert list(trimmed.rows(18_010, 18_015)) == list(whole.rows(18_010, 18_015))
    assert list(trimmed.rows(61_410, 61_415)) == list(whole.rows(62_995, 63_000))


def test_concat_keeps_the_compositional_rule() -> None:
    with pytest.raises(RecipeError, match="no training group has COMPOUND, CONJ, GIVE"):
        recipe.read("babi/concat-T2", ["tested_by=babi/mix-T7"]).plan(0)
    with pytest.raises(RecipeError, match="training group 'qa2' has GRAB and where-P together"):
        recipe.read("babi/inject-T7", ["holdout=[[GRAB, where-P]]"]).plan(0)


def test_inject_asks_everything_that_can_be_answered() -> None:
    plan = recipe.read("babi/inject-T7", ["splits={train: {n: 700}}"]).plan(0)
    split = plan.splits[0]
    examples = list(split.rows(0, split.n))
    assert len(examples) == split.n == 700
    assert list(split.rows(50, 90)) == examples[50:90]
    assert plan.check is not None
    assert all(plan.check(e) == e.targets for e in examples)
    assert {e.traits["question"] for e in examples if e.traits["group"] == "qa5"} == {
        "give-qs",
        "where-P",
        "where-O",
    }
    assert {e.traits["question"] for e in examples if e.traits["group"] == "qa2"} == {
        "where-O",
        "where-P",
    }
    assert len({(e.input, e.target) for e in examples}) == len(examples)
    asked: dict[str, set[str]] = {}
    ours = [e for e in examples if e.traits["group"] == "qa5"]
    for example in ours:
        asked.setdefault(example.input[: -len(example.question)], set()).add(example.question)
    for example in ours[:-30]:  # the last story is cut off where the batch is full
        wanted = {ask(q, PUBLISHED) for q in ask_all(events_of(example), ("where-P", "where-O"))}
        assert wanted <= asked[example.input[: -len(example.question)]]


def test_what_does_not_fit_the_window_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = ["window=60", "splits={train: {n: 70}}"]
    plan = recipe.read("babi/inject-T7", narrow).plan(0)
    made = list(plan.splits[0].rows(0, 70))
    assert len(made) == 70
    assert 40 < max(tokens(e.input) for e in made) <= 60
    assert tokens("Where is Mary, then? Mary went to the park.") == 12
    monkeypatch.setattr(concat, "PATIENCE", 20)
    with pytest.raises(
        RecipeError, match="in 20 stories, no question of babi/2 fits into 16 tokens"
    ):
        next(iter(recipe.read("babi/inject-T7", ["window=16"]).plan(0).splits[0].rows(0, 1)))


def write_tasks(folder: Path) -> None:
    for task in (2, 11):
        for file, n in (("train", 100), ("test", 30)):
            (folder / f"qa{task}_some_{file}.txt").write_text(
                "".join(export.babi_text(rows(str(task), n)))
            )


def test_concat_reads_published_files(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    plan = recipe.read("babi/concat-T2", [f"source={tmp_path}"]).plan(0)
    assert [s.n for s in plan.splits] == [180, 20, 60]
    assert {s.name for s in plan.sources} == {
        f"qa{n}_some_{file}.txt" for n in (2, 11) for file in ("train", "test")
    }
    kept = [e.input for e in plan.split("train").rows(0, 90)]
    assert kept == [e.input for e in rows("2", 90)]


def test_published_files_are_injected_and_cut(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    settings = [f"source={tmp_path}", "inject={2: [where-P]}", "window=80"]
    plan = recipe.read("babi/concat-T2", settings).plan(0)
    made = list(plan.split("train").rows(0, plan.split("train").n))
    assert len(made) == plan.split("train").n > 180
    assert max(tokens(e.input) for e in made) <= 80
    assert made[40:60] == list(plan.split("train").rows(40, 60))
    assert any("do not fit into 80 tokens" in w for w in plan.warnings)
    assert plan.check is not None
    assert all(plan.check(e) == e.targets for e in made)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="no file qa2_"):
        recipe.read("babi/concat-T2", [f"source={tmp_path}"]).plan(0)
    write_tasks(tmp_path)
    (tmp_path / "qa2_some_test.txt").unlink()
    with pytest.raises(
        RecipeError, match=r"no file qa2_.*_test\.txt; .*, or set splits without test"
    ):
        recipe.read("babi/concat-T2", [f"source={tmp_path}"]).plan(0)
    without = ["splits={train: {n: 0}, dev: {n: 0}}"]
    assert [
        s.n for s in recipe.read("babi/concat-T2", [f"source={tmp_path}", *without]).plan(0).splits
    ] == [180, 20]
    (tmp_path / "qa2_some_train.txt").unlink()
    with pytest.raises(RecipeError, match="there is no folder"):
        recipe.read("babi/concat-T2", [f"source={tmp_path / 'none'}"]).plan(0)
    (tmp_path / "qa2_x_train.txt").write_text("1 Mary went to the")
    with pytest.raises(TaskloomError, match=r"qa2_x_train\.txt:1: .*cut off"):
        recipe.read("babi/concat-T2", [f"source={tmp_path}"]).plan(0)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 Mary went to the moon.\n2 Where is Mary?\tmoon\t1\n", r"train\.txt:1: cannot read"),
        (
            "1 Mary dropped the milk.\n2 Where is Mary?\tpark\t1\n",
            r"train\.txt:1: the story contradicts itself",
        ),
    ],
)
def test_published_files_that_cannot_be_understood(tmp_path: Path, line: str, message: str) -> None:
    write_tasks(tmp_path)
    (tmp_path / "qa2_some_train.txt").write_text(line)
    with pytest.raises(TaskloomError, match=message):
        recipe.read("babi/concat-T2", [f"source={tmp_path}"]).plan(0)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("shares={4: 2}", "T2 has no task 4; it has 2, 11"),
        ("inject={3: [where-P]}", "T2 has no task 3"),
        ("window=3", "window"),
        ("shares={2: 0}", "shares"),
    ],
)
def test_settings_of_concat_are_checked(setting: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        recipe.read("babi/concat-T2", [setting])
