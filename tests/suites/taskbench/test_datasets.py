"""Datasets: purity, splits, sampling, labels, variants, and answers proved by the second solver."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import taskloom
from taskloom.core import shards
from taskloom.core.errors import InputError, RecipeError
from taskloom.core.example import Example
from taskloom.core.plan import Plan
from taskloom.data import make as making
from taskloom.recipe import read
from taskloom.suites.taskbench.language import ExpressionError
from taskloom.suites.taskbench.plan import functions, solved_of, survey
from taskloom.suites.taskbench.scorers import ReferencePositions
from tests.processes import printed_elsewhere
from tests.slow import slow_except

WORD = "taskbench/chain(antonyms[eng], hyponyms[eng])"
MAP = "taskbench/map(synonyms[eng])"
BOTH = "taskbench/map(synonyms[eng], filter(is_pos_verb[eng]))"


@cache
def plan(name: str, *changes: str, seed: int = 0) -> Plan:
    return read(name, changes).plan(seed)


def rows(made: Plan, split: str, start: int = 0, stop: int | None = None) -> list[Example]:
    part = made.split(split)
    end = part.n if stop is None else stop
    return list(shards.to_examples(shards.to_table(part.rows(start, end), start, made.traits)))


@pytest.mark.parametrize(
    "name",
    [*slow_except([WORD, MAP]), BOTH, "taskbench/is_pos_noun[eng]", "taskbench/random2[eng]"],
)
def test_any_slice_can_be_made_alone(name: str) -> None:
    made = plan(name)
    whole = rows(made, "train")
    again = read(name).plan(0)
    for start, stop in ((0, 1), (5, 40), (len(whole) - 3, len(whole))):
        assert rows(again, "train", start, stop) == whole[start:stop]
    other = rows(plan(name, seed=1), "train")
    assert [e.input for e in other[:50]] != [e.input for e in whole[:50]]


def test_digests_do_not_depend_on_hash_seed_workers_or_shards(tmp_path: Path) -> None:
    code = (
        "import sys, taskloom as tl\nfor name in sys.argv[1:]: print(tl.make(name,"
        " set=['sequences.n=300']).digest)"
    )
    names = [BOTH, "taskbench/union(random0[eng], antonyms[eng])"]
    digests = [taskloom.make(name, set=["sequences.n=300"]).digest for name in names]
    assert printed_elsewhere(code, *names).split() == digests
    parted = making.make(BOTH, tmp_path / "x", set=["sequences.n=300"], workers=2, shard_rows=1_000)
    assert parted.digest == digests[0]


GOLDEN = {
    "taskbench/english": "c1cbd18c64fb7a31cf9b30265164900a",
    "taskbench/500-synthetic": "451ad83f10c406e157fbbaaad936e1bf",
    "taskbench/union(father, mother)": "bfe8dee14515013396880bd5269360d9",
}
SMALLER = {
    "taskbench/english": (
        "functions=['antonyms[eng]', 'map(synonyms[eng], filter(is_pos_verb[eng]))']"
    ),
    "taskbench/500-synthetic": (
        "catalog={families: [lexical, random], compositions: [intersection, filter]}"
    ),
    "taskbench/union(father, mother)": "balanced=true",
}


@pytest.mark.parametrize(
    "name", slow_except(GOLDEN, "taskbench/english", "taskbench/union(father, mother)")
)
def test_golden_digests(name: str) -> None:
    """A change here means other data for everybody: raise the suite's version."""
    assert (
        taskloom.make(name, seed=0, set=["sequences.n=300", SMALLER[name]]).digest == GOLDEN[name]
    )


@pytest.mark.parametrize("name", [WORD, "taskbench/is_pos_adverb[eng]", MAP, BOTH])
def test_splits_share_nothing_and_few_shot_sets_are_training_rows(name: str) -> None:
    made = plan(name)
    seen = {split: [e.input for e in rows(made, split)] for split in ("train", "dev", "test")}
    assert all(len(set(texts)) == len(texts) for texts in seen.values())
    assert not set(seen["train"]) & set(seen["dev"])
    assert not (set(seen["train"]) | set(seen["dev"])) & set(seen["test"])
    total = sum(map(len, seen.values()))
    assert len(seen["train"]) == pytest.approx(0.8 * total, rel=0.05)
    train = {(e.input, e.target) for e in rows(made, "train")}
    draws = [[(e.input, e.target) for e in rows(made, f"32-shot-{d}")] for d in range(4)]
    assert all(len(set(d)) == 32 and set(d) <= train for d in draws)
    assert len({tuple(d) for d in draws}) == 4


def test_words_have_all_answers_and_the_official_one_is_uniform() -> None:
    made = plan("taskbench/synonyms[eng]")
    examples = rows(made, "train")
    assert made.check is not None
    for example in examples[:100]:
        assert sorted(made.check(example)) == sorted(example.targets)
        assert example.traits["answers"] == len(example.targets)
    # Among words with four answers each place of the sorted answers is official about equally
    # often.
    places = Counter(sorted(e.targets).index(e.target) for e in examples if len(e.targets) == 4)
    assert set(places) == {0, 1, 2, 3}
    assert max(places.values()) < 1.5 * min(places.values())


@pytest.mark.parametrize(
    ("name", "separators"),
    slow_except(
        product(
            [MAP, BOTH, "taskbench/map(hyponyms[eng])", "taskbench/filter(is_pos_noun[eng])"],
            ["true", "false"],
        ),
        (MAP, "false"),
        (BOTH, "true"),
        ("taskbench/filter(is_pos_noun[eng])", "true"),
    ),
)
def test_a_perfect_answer_scores_all_on_real_sequences(name: str, separators: str) -> None:
    made = plan(name, f"sequences.separators={separators}", "sequences.n=200", "answers=false")
    examples = rows(made, "train", 0, 60)
    assert made.check is not None
    for example in examples:
        assert made.scorer.score(example.target, example) == 1.0
        assert made.check(example) == example.targets
        assert made.scorer.score("zzz", example) == 0.0
    assert all(("#" in e.input) == (separators == "true") for e in examples)


def test_the_published_scorer_is_low_on_perfect_answers() -> None:
    made = plan("taskbench/map(hyponyms[eng])", "sequences.n=300")
    fields: Any = read("taskbench/map(hyponyms[eng])").fields
    from taskloom.suites.taskbench.worlds.worlds import open_world

    (function,) = functions(fields)
    positions = open_world(fields, [function]).deriver(function).positions
    reference = ReferencePositions(lambda e: positions(e.input))
    examples = rows(made, "train")
    mean = sum(reference.score(e.target, e) for e in examples) / len(examples)
    # The spec measured 27 % on the paper's vocabulary.
    assert 0.15 < mean < 0.40


def test_sequences_follow_algorithm_1() -> None:
    made = plan(BOTH, "sequences.length=10", "sequences.kept=3", "sequences.n=200")
    asked = read("taskbench/is_pos_verb[eng]").plan(0)
    assert asked.answer is not None
    for example in rows(made, "train"):
        words = example.input.split()
        assert len(words) == 10
        assert sum(asked.answer(w).targets == ("true",) for w in words) == 3


def test_word_disjoint_sequences() -> None:
    made = plan(BOTH, "sequences.word_disjoint=true", "sequences.n=400")
    words = {
        s: {w for e in rows(made, s) for w in e.input.split()} for s in ("train", "dev", "test")
    }
    assert not words["train"] & words["test"]
    assert not words["train"] & words["dev"]
    assert not words["dev"] & words["test"]


def test_answers_of_words_are_stored_once() -> None:
    made = plan(MAP, "sequences.n=100")
    answers = {e.input: set(e.targets) for e in rows(made, "answers")}
    assert made.split("answers").role == "probe"
    for example in rows(made, "train"):
        sets = [answers[w] for w in example.input.split()]
        assert all(s for s in sets)
    # A recipe that has the word task needs no such split.
    both = plan("taskbench/english", "sequences.n=100")
    tasks = {e.task for e in rows(both, "train")}
    assert {"taskbench/synonyms[eng]", "taskbench/map(synonyms[eng])"} <= tasks
    assert "answers" not in [s.name for s in both.splits]


def test_balanced_unions() -> None:
    made = plan("taskbench/union(antonyms[eng], synonyms[eng])", "balanced=true", "memorise=101")
    examples = rows(made, "train")
    by_word = Counter(e.input for e in examples)
    alone = Counter(e.traits["side"] for e in examples if by_word[e.input] == 1)
    # "An equal number of examples of form (x, fe(x)) as (x, fh(x))": in training, to the last one.
    assert alone["antonyms[eng]"] == alone["synonyms[eng]"] > 0
    assert max(by_word.values()) == 2
    for small, n in (("32-shot-0", 32), ("memorise", 101)):
        drawn = Counter(e.traits["side"] for e in rows(made, small))
        assert sum(drawn.values()) == n
        assert max(drawn.values()) - min(drawn.values()) == n % 2
    for split in ("dev", "test"):
        tested = Counter(e.input for e in rows(made, split))
        assert set(tested.values()) == {2}
        assert not tested.keys() & by_word.keys()
    assert made.check is not None
    assert all(sorted(made.check(e)) == sorted(e.targets) for e in examples[:200])
    with pytest.raises(RecipeError, match="unions of two relations"):
        plan("taskbench/antonyms[eng]", "balanced=true")
    with pytest.raises(RecipeError, match="unions of two relations"):
        plan("taskbench/map(union(antonyms[eng], synonyms[eng]))", "balanced=true")


def test_balanced_unions_of_little_overlap_are_left_out() -> None:
    """The union has thousands of inputs; what counts is how many the balanced mixture has, and that
    some can be tested.
    """
    with pytest.raises(
        RecipeError,
        match=r"fewer than 3000 examples .*union\(entailments\[eng\], synonyms\[eng\]\) \(994\)",
    ):
        plan("taskbench/union(entailments[eng], synonyms[eng])", "balanced=true", "minimum=3000")
    with pytest.raises(RecipeError, match="an input that both operands know"):
        plan(
            "taskbench/union(continent, father)",
            "balanced=true",
            "facts=synthetic#people=600&ambiguity=0",
        )


def test_any_slice_of_a_few_shot_set_of_several_tasks() -> None:
    tasks = (
        "functions=['antonyms[eng]', 'map(synonyms[eng])', 'entailments[eng]', 'is_pos_noun[eng]']"
    )
    made = plan("taskbench/english", tasks, "sequences.n=200", "few_shot.k=7")
    whole = rows(made, "7-shot-1")
    fields: Any = read("taskbench/english", [tasks]).fields
    assert Counter(e.task for e in whole) == dict.fromkeys((f.task for f in functions(fields)), 7)
    for start, stop in ((0, 28), (0, 1), (6, 8), (7, 14), (13, 22), (27, 28)):
        assert rows(made, "7-shot-1", start, stop) == whole[start:stop]


def test_few_shot_sets_of_sequences_are_different_however_few_there_are() -> None:
    """Draws of a block each once fell on the same block, so that two trials were one."""
    for n in (130, 160, 400):
        made = plan(MAP, f"sequences.n={n}", "few_shot.draws=6", "answers=false")
        train = [e.input for e in rows(made, "train")]
        draws = [tuple(e.input for e in rows(made, f"32-shot-{d}")) for d in range(6)]
        assert len({frozenset(d) for d in draws}) == 6
        assert all(len(set(d)) == 32 and set(d) <= set(train) for d in draws)
        assert draws[5] == tuple(
            e.input for e in rows(made, "32-shot-5", 0, 7) + rows(made, "32-shot-5", 7, 32)
        )
    made = plan(MAP, "sequences.n=30", "answers=false")
    assert {e.input for e in rows(made, "32-shot-1")} == {e.input for e in rows(made, "train")}


def test_permuted_labels_keep_the_labels_and_lose_the_relation() -> None:
    true = [e for s in ("train", "dev", "test") for e in rows(plan("taskbench/antonyms[eng]"), s)]
    made = plan("taskbench/antonyms[eng]", "labels=permuted", "memorise=1000")
    permuted = [e for s in ("train", "dev", "test") for e in rows(made, s)]
    assert [e.input for e in permuted] == [e.input for e in true]
    assert len(rows(made, "memorise")) == 1_000
    answers = {e.input: set(e.targets) for e in true}
    right = sum(e.target in answers[e.input] for e in permuted)
    assert right < 0.02 * len(permuted)
    assert all(len(e.targets) == e.traits["answers"] == 1 for e in permuted)
    assert "shuffled" in made.describe
    with pytest.raises(RecipeError, match="functions of words"):
        plan(MAP, "labels=permuted")


def test_small_spaces_are_given_whole_and_each_sequence_once() -> None:
    """A few words at two places: the splits share the sequences out, none is there twice."""
    small = ("sequences.length=2", "sequences.kept=1", "pairs=published")
    made = plan("taskbench/map(intersection(antonyms[eng], synonyms[eng]))", *small)
    found = [e.input for split in ("train", "dev", "test") for e in rows(made, split)]
    words = {w for text in found for w in text.split()}
    assert 10 < len(words) < 40
    assert sorted(found) == sorted(" ".join(p) for p in product(sorted(words), repeat=2))
    assert "made of fewer than 100 words" in made.warnings[0]
    assert rows(made, "train", 7, 20) == rows(made, "train")[7:20]


def test_small_spaces_with_a_filter_are_given_whole() -> None:
    """Against brute force: every placing of kept and dropped words."""
    from taskloom.core.seeding import Key
    from taskloom.suites.taskbench.evaluation.evaluator import FunctionTable
    from taskloom.suites.taskbench.language import Type
    from taskloom.suites.taskbench.sampling import Hashes, Sequences
    from taskloom.suites.taskbench.split_shares import SplitShares
    from taskloom.suites.taskbench.tables import of_sets

    texts = ["a", "b", "c", "d", "e"]
    kept, dropped = np.array([0, 2], dtype=np.int32), np.array([1, 3, 4], dtype=np.int32)
    solved = FunctionTable(
        "x", Type("sequence", "word[eng]"), texts, texts, kept, of_sets([[0], [2]]), dropped, True
    )
    shares = SplitShares({"train": 0.5, "test": 0.5})
    sampler = Sequences(
        solved, Key("a"), Hashes(Key("b")), shares, length=4, kept=2, word_disjoint=False
    )
    found = []
    for split in ("train", "test"):
        n = sampler.size(split)
        drawn = sampler.draw(split, 0, n)
        found += [tuple(row) for row in drawn.words.tolist()]
        assert np.array_equal(np.isin(drawn.words, kept), drawn.kept)
        assert solved.domain[drawn.places].tolist() == drawn.words[drawn.kept].tolist()
        part = sampler.draw(split, 5, 9)
        assert np.array_equal(part.words, drawn.words[5:9])
        assert part.places.tolist() == drawn.places[10:18].tolist()
    every = {row for row in product(range(5), repeat=4) if sum(w in (0, 2) for w in row) == 2}
    assert len(found) == len(every) == 6 * 2**2 * 3**2
    assert set(found) == every


def test_too_few_examples() -> None:
    scarce = "taskbench/intersection(antonyms[eng], entailments[eng])"
    with pytest.raises(RecipeError, match=r"fewer than 100 examples.*\(\d+\)"):
        plan(scarce)
    assert plan(scarce, "minimum=1").splits
    # A single word makes a single sequence; two dozen words make many of eight words, but few of
    # one.
    with pytest.raises(RecipeError, match=r"fewer than 100 examples.*\(1\)"):
        plan("taskbench/map(intersection(antonyms[eng], entailments[eng]))")
    mapped = "taskbench/map(intersection(antonyms[eng], synonyms[eng]))"
    assert plan(mapped, "sequences.n=40").split("train").n == 32
    with pytest.raises(RecipeError, match=r"fewer than 100 examples.*\(\d\d\)"):
        plan(mapped, "sequences.length=1", "sequences.kept=1")
    with pytest.raises(RecipeError, match=r"fewer than 30 words"):
        plan(mapped, "sequences.words=30")
    with pytest.raises(RecipeError, match=r"without words of their own in some split"):
        plan(mapped, "sequences.word_disjoint=true", "shares={train: 0.9999, test: 0.0001}")


def test_what_is_left_out_is_listed_with_counts(tmp_path: Path) -> None:
    both = "functions=['synonyms[eng]', 'intersection(antonyms[eng], entailments[eng])']"
    data = making.make("taskbench/english", tmp_path / "x", set=[both, "few_shot=null"])
    assert data.manifest["left_out"] == {"intersection(antonyms[eng], entailments[eng])": 1}
    (warning,) = data.manifest["warnings"]
    assert warning.endswith("intersection(antonyms[eng], entailments[eng]) (1)")


def test_wrong_settings() -> None:
    with pytest.raises(RecipeError, match="use lexicon=nltk"):
        plan("taskbench/synonyms[spa]", "lexicon=packaged")
    with pytest.raises(RecipeError, match="kept"):
        read(MAP, ["sequences.kept=9"])


def test_names_are_a_language() -> None:
    one = read("taskbench/union(mother, father)")
    other = read("taskbench/union(father, mother)")
    assert one.digest == other.digest
    with pytest.raises(ExpressionError, match="did you mean 'synonyms"):
        read("taskbench/synonims[eng]")
    with pytest.raises(RecipeError, match="did you mean 'taskbench/english'"):
        read("taskbench/englich")
    with pytest.raises(RecipeError, match="functions"):
        taskloom.recipe.check({"suite": "taskbench"}, "x", "x")
    with pytest.raises(InputError, match="8 functions"):
        taskloom.apply("taskbench/english", "big")


def test_recipes_are_made_and_verified(tmp_path: Path) -> None:
    from taskloom.data.verify import verify

    for number, name in enumerate((WORD, BOTH, "taskbench/map(chain(occupation, father))")):
        folder = tmp_path / str(number)
        making.make(
            name, folder, set=["sequences.n=100", "facts=synthetic#people=600", "few_shot=null"]
        )
        found = verify(folder, sample=40)
        assert found.method == "second solver"
        assert found.wrong == ()


def test_people_are_told_the_task_and_not_a_thousand_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from taskloom.cli import app

    making.make(
        "taskbench/english", tmp_path / "x", set=["functions=['antonyms[eng]', 'entailments[eng]']"]
    )
    making.make("taskbench/entailments[eng]", tmp_path / "y")
    assert app.run(["show", str(tmp_path / "x"), "-n", "1"]) == 0
    assert "  taskbench/antonyms[eng]\n" in capsys.readouterr().out
    assert app.run(["show", str(tmp_path / "y"), "-n", "1"]) == 0
    assert "task  " not in capsys.readouterr().out
    assert app.run(["apply", WORD, "feeling"]) == 0
    said = capsys.readouterr().out
    assert " and 285 more    (hyponyms[eng] → " in said
    assert len(said) < 2_000
    assert len(taskloom.apply(WORD, "feeling").targets) == 305


def test_audit_finds_no_leak(tmp_path: Path) -> None:
    from taskloom.data.audit import audit

    making.make(BOTH, tmp_path / "a", set=["sequences.n=500"])
    assert audit(tmp_path / "a").leaks == []
    making.make(WORD, tmp_path / "b")
    assert audit(tmp_path / "b").leaks == []


def test_profiles_give_the_baselines() -> None:
    from taskloom.suites.taskbench.evaluation.evaluator import profile

    fields: Any = read("taskbench/is_pos_noun[eng]").fields
    (solved,) = solved_of(fields)
    found = profile(solved)
    (surveyed,) = survey(fields)
    assert surveyed.profile == found
    assert (surveyed.family, surveyed.composition, surveyed.operands) == (
        "lexical",
        "atomic",
        ("is_pos_noun[eng]",),
    )
    truth = Counter(solved.answers.values.tolist())
    assert found.inputs == sum(truth.values()) == 8_131
    assert found.majority == max(truth.values()) / found.inputs
    assert found.chance == 0.5


def test_rows_are_arrow_tables_of_the_core_schema() -> None:
    made = plan(MAP, "sequences.n=50")
    table = made.split("train").rows(0, 5)
    assert isinstance(table, pa.Table)
    assert shards.to_table(table, 0, made.traits).schema == shards.schema(made.traits)
