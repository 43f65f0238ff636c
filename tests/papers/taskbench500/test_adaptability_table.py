"""Table 1 of TaskBench500 from made-up scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import taskloom as tl
from taskloom.analysis.study import StudyError, analyse
from taskloom.experiments.sources.score_files import open_runs
from taskloom.papers.taskbench500.runs import adaptations
from taskloom.suites.taskbench.catalog import select
from tests.analysis.made_up_scores import group, made_up, spread
from tests.papers.taskbench500.made_up_tasks import adapted, constant

ATOMS = [task.expression for task in select(["lexical", "factual", "random"], ["atomic"])]


def test_means_over_tasks_agree_and_disagree_with_the_paper(tmp_path: Path) -> None:
    near = [adapted(t, s) for t, s in zip(ATOMS, spread(0.426, 0.1, len(ATOMS)), strict=True)]
    far = [
        adapted(t, s, "fine-tune")
        for t, s in zip(ATOMS, spread(0.1, 0.05, len(ATOMS)), strict=True)
    ]
    main, _, claims = analyse("taskbench500/table1", made_up(tmp_path, *near, *far))[2]
    verdicts = {j.claim: j.verdict for j in main.judgements}
    assert verdicts["FFT, atomic: mean over tasks"] == "disagrees"
    assert verdicts["FPT, atomic: mean over tasks"] != "disagrees"
    assert main.table is not None
    assert {r["procedure"]: r["atomic"] for r in main.table} == {
        "FFT": "0.100 ± 0.006 (75)",
        "FPT": "0.426 ± 0.012 (75)",
    }
    assert [r["outcome"] for r in claims.table or ()] == ["does not hold"]
    assert main.judgements[0].cells()[3] == "75 tasks"


def test_kinds_families_and_procedures_are_told_apart(tmp_path: Path) -> None:
    few, apart = {"learner.shots": 32}, {"recipe.sequences.separators": True}
    runs = made_up(
        tmp_path,
        adapted("antonyms[eng]", 0.5, "lora", fields=few),
        adapted("father", 0.3, "lora", fields=few),
        adapted("random0[eng]", 0.0, "lora", fields=few),
        adapted("union(father, mother)", 0.2, "lora", fields=few),
        adapted("map(father)", 0.1, "lora", fields=few),
        adapted("map(father)", 0.9, "lora", fields={**few, **apart}),
    )
    main, families = analyse("taskbench500/table1", runs)[2]
    assert main.table is not None
    (row,) = main.table
    assert row["procedure"] == "32FT"
    assert row["atomic"].startswith("0.267 ±")
    assert row["word-level composition"] == "0.200 (1)"
    assert row["sequential composition"] == "0.100 (1)"
    assert row["sequential composition (+separators)"] == "0.900 (1)"
    cells = {(r["kind"], r["family"]): r["32FT"] for r in families.table or ()}
    assert cells["atomic", "random"] == "0.000 (1)"
    assert any("LoRA" in note for note in main.notes)


def test_the_best_constant_stands_beside_every_score(tmp_path: Path) -> None:
    """Two tasks are answered better than by a constant, one worse; a constant of other data is not
    taken for theirs.
    """
    scores = {"father": 0.5, "mother": 0.3, "occupation": 0.2}
    constants = {"father": 0.1, "mother": 0.1, "occupation": 0.4}
    groups = [adapted(task, score) for task, score in scores.items()]
    groups += [constant(task, score) for task, score in constants.items()]
    groups += [constant(task, 0.9, {"recipe.case": "lower"}) for task in constants]
    main, families, beside = analyse("taskbench500/table1", made_up(tmp_path, *groups))[2]
    assert {r["procedure"]: r["atomic"] for r in main.table or ()}["best constant"].startswith(
        "0.200 ±"
    )
    assert next(iter(families.table or ()))["best constant"].startswith("0.200 ±")
    assert beside.table is not None
    (line,) = beside.table
    assert (line["mean"], line["best constant"], line["tasks above the constant"]) == (
        "0.333",
        "0.200",
        "2 of 3",
    )
    assert line["difference"].startswith("+0.133")


def test_constants_are_found_in_a_store_of_runs(tmp_path: Path) -> None:
    """`majority` ran in an experiment of its own, with more recipes; only runs on the same data
    count as the control.
    """
    small = {
        "lexicon": "packaged",
        "catalog": None,
        "few_shot": None,
        "sequences.n": 60,
        "pairs": "published",
    }
    words = {
        "recipe": "taskbench/500",
        "set": {**small, "functions": ["antonyms[eng]", "entailments[eng]"]},
    }
    more = {
        "recipe": "taskbench/500",
        "set": {**small, "functions": ["antonyms[eng]", "map(antonyms[eng])"]},
    }
    other = {
        "recipe": "taskbench/500",
        "set": {**small, "functions": ["entailments[eng]"], "case": "lower"},
    }
    common: dict[str, Any] = {
        "tasks": "each",
        "evaluate": ["test"],
        "limit": 10,
        "store": tmp_path,
        "engine": "here",
    }
    tl.run(recipes=[more, other], learners=["majority"], **common)
    found = tl.run(recipes=[words], learners=["nearest-neighbour"], **common)
    known = {one.task: one.constant for one in adaptations(open_runs(found.source.path))}
    assert known["antonyms[eng]"] is not None
    assert known["entailments[eng]"] is None


def test_random_twins_permuted_labels_and_memorisation_are_no_generalisation(
    tmp_path: Path,
) -> None:
    runs = made_up(
        tmp_path,
        adapted("father", 0.5),
        adapted("mother", 0.1, fields={"learner.pretrained": False}),
        adapted("mother", 0.1, fields={"recipe.labels": "permuted"}),
        adapted("mother", 0.9, split="memorise"),
    )
    main = analyse("taskbench500/table1", runs)[2][0]
    assert main.table is not None
    assert main.table[0]["atomic"] == "0.500 (1)"


def test_runs_on_something_else_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="has no runs on single tasks of taskbench"):
        analyse("taskbench500/table1", made_up(tmp_path, group("ctl/A", "bilstm", {"iid": [1.0]})))
