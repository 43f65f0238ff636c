"""Scores of trainings on a GPU that come in parts: what was trained further takes the place of what
it was.
"""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _beside_the_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "benchmarks")
    import ctlpp_scores

    monkeypatch.setattr(ctlpp_scores, "PAPER_STEPS", {"ndr": 80, "transformer": 80})


def result(
    seeds: dict[int, float], step: int, members: str = "A:0-1", data: str = "A"
) -> dict[str, Any]:
    """Return a training as `ctlpp_gpu.py` writes it, measured last at a step."""
    return {
        "data": data,
        "model": "ndr",
        "step": step,
        "seconds": 9.0,
        "device": "H200",
        "torch": "2",
        "command": f"ctlpp_gpu.py train --members {members}",
        "settings": {"steps": 80, "precision": "bf16"},
        "layers": {split: {"8": list(seeds.values())} for split in ("iid", "ood")},
        "curves": {
            str(s): [[step, n, score, 0.0] for n in ("iid", "ood", "all")]
            for s, score in seeds.items()
        },
    }


def test_seeds_that_were_trained_further_replace_themselves() -> None:
    from ctlpp_scores import add, group_of

    groups: list[dict[str, Any]] = []
    add(groups, group_of(result({0: 0.1, 1: 0.2, 2: 0.3}, 76), "one"))
    add(groups, group_of(result({0: 0.1, 1: 0.2}, 80, data="R"), "one"))
    add(groups, group_of(result({1: 0.8, 0: 0.9}, 80), "two"))
    add(groups, group_of(result({4: 0.7}, 80, "A:4"), "three"))
    stopped, other, ended = groups
    assert stopped["fields"]["learner.steps"] == 76
    assert stopped["seeds"] == {"2": {"iid": 0.3, "ood": 0.3, "all": 0.3}}
    assert other["recipe"] == "ctl/R"
    assert "learner.steps" not in ended["fields"]
    assert {seed: scores["ood"] for seed, scores in ended["seeds"].items()} == {
        "0": 0.9,
        "1": 0.8,
        "4": 0.7,
    }
    commands = ended["environment"]["command"].split("; ")
    assert [command.rpartition(" ")[2] for command in commands] == ["one)", "two)", "three)"]
    assert "stopped after step 76" in commands[0]
    add(groups, group_of(result({0: 0.0}, 40), "late"))
    assert ended["seeds"]["0"]["ood"] == 0.9, "what was trained less far replaces nothing"


def test_an_export_is_told_from_others_by_table_data_seed_and_processes() -> None:
    from ctlpp_scores import SHORT_NAMES, alike, group_of, recipe_of

    groups = [group_of(result({0: 0.5}, 80, data=name), "one") for name in SHORT_NAMES]
    assert not any(alike(a, b) for a, b in combinations(groups, 2))
    fields = {"recipe.processes": 32, "recipe.table_seed": 2, "recipe.seed": 2}
    assert recipe_of("T2p32") == recipe_of("R-processes32-table2-seed2") == ("R", fields)
    assert recipe_of("A-chains")[1]["recipe.draw"] == "chains"


def test_a_split_that_was_not_measured_has_no_score() -> None:
    from ctlpp_scores import group_of

    without = result({0: 0.5}, 80, data="T1p8")
    without["curves"] = {"0": [[80, "iid", 1.0, 0.0], [80, "ood", 0.5, 0.0]]}
    group = group_of(without, "one")
    assert (group["n"], group["seeds"]) == (
        {"iid": 1000, "ood": 1000},
        {"0": {"iid": 1.0, "ood": 0.5}},
    )


def test_commands_are_named_once_when_seeds_of_one_run_end_in_several() -> None:
    from ctlpp_scores import add, group_of

    groups: list[dict[str, Any]] = []
    add(groups, group_of(result({0: 0.1, 1: 0.2}, 76), "one"))
    add(groups, group_of(result({0: 0.9}, 80, "A:0"), "two"))
    add(groups, group_of(result({1: 0.8}, 80, "A:1"), "two"))
    (ended,) = groups
    commands = ended["environment"]["command"].split("; ")
    assert [command.partition("--members ")[2] for command in commands] == [
        "A:0-1, stopped after step 76 (commit one)", "A:0 (commit two)", "A:1 (commit two)",
    ]  # fmt: skip


def test_curves_of_stopped_and_ended_seeds_are_one_group() -> None:
    from ctlpp_scores import add_curves, group_of

    groups: list[dict[str, Any]] = []
    for seeds, step in (({0: 0.1, 6: 0.2}, 76), ({6: 0.6, 10: 0.3}, 80), ({2: 0.4, 6: 0.0}, 40)):
        add_curves(groups, group_of(result(seeds, step), "one"))
    (group,) = groups
    assert group["fields"] == {"learner.preset": "ctlpp", "learner.precision": "bf16"}
    assert {seed: scores["ood"] for seed, scores in group["seeds"].items()} == {
        "0": 0.1,
        "2": 0.4,
        "6": 0.6,
        "10": 0.3,
    }
    assert {seed: curve[-1][0] for seed, curve in group["curves"].items()} == {
        "0": 76,
        "2": 40,
        "6": 80,
        "10": 80,
    }
    assert list(group["curves"]) == ["0", "2", "6", "10"]


def test_scores_at_a_step_are_those_of_the_seeds_that_were_measured_there() -> None:
    from ctlpp_scores import add_curves, at_step, group_of

    groups: list[dict[str, Any]] = []
    for seeds, step in (({0: 0.1, 6: 0.2}, 76), ({10: 0.3}, 80)):
        add_curves(groups, group_of(result(seeds, step), "one"))
    (group,) = groups
    early = at_step(group, 76)
    assert early["fields"]["learner.steps"] == 76
    assert {seed: scores["ood"] for seed, scores in early["seeds"].items()} == {"0": 0.1, "6": 0.2}
    assert "curves" not in early


def test_learners_with_stopped_runs_are_compared_before_the_end_and_others_at_it() -> None:
    """The Transformer's curve has no point at the step of the comparison; its final scores
    count.
    """
    from ctlpp_scores import add, add_curves, before_the_end, group_of

    scores: list[dict[str, Any]] = []
    curves: list[dict[str, Any]] = []
    for one in (result({0: 0.1}, 76), {**result({0: 0.7}, 80, data="R"), "model": "transformer"}):
        add(scores, group_of(one, "one"))
        add_curves(curves, group_of(one, "one"))
    groups = before_the_end(scores, curves, 76)
    found = {
        g["learner"]: (g["fields"].get("learner.steps"), g["seeds"]["0"]["ood"]) for g in groups
    }
    assert found == {"transformer": (None, 0.7), "ndr": (76, 0.1)}


def test_seconds_are_kept_only_of_one_training() -> None:
    from ctlpp_scores import add, group_of

    groups: list[dict[str, Any]] = []
    add(groups, group_of(result({0: 0.1}, 80), "one"))
    assert groups[0]["environment"]["seconds"] == 9
    add(groups, group_of(result({1: 0.1}, 80, "A:1"), "two"))
    assert "seconds" not in groups[0]["environment"]


def test_accuracies_by_layers_of_one_training_are_one_entry() -> None:
    from ctlpp_scores import add_layers, layers_of

    entries: list[dict[str, Any]] = []
    for one in (
        result({0: 0.1, 1: 0.2, 2: 0.3}, 76),
        result({5: 0.5, 0: 0.9}, 80),
        result({1: 0.8}, 80),
    ):
        add_layers(entries, layers_of(one))
    (now,) = entries
    assert (now["seeds"], now["step"]) == ([0, 1, 2, 5], [80, 80, 76, 80])
    assert now["accuracy"]["ood"] == {"8": [0.9, 0.8, 0.3, 0.5]}
    add_layers(entries, layers_of(result({1: 0.0}, 40)))
    add_layers(entries, layers_of(result({1: 0.4}, 80, data="A-chains")))
    assert entries[0] == now, "what was trained less far replaces nothing"
    assert (entries[1]["draw"], entries[1]["seeds"]) == ("chains", [1])


def test_states_of_seeds_are_gathered_from_the_last_file_that_has_them(tmp_path: Path) -> None:
    from ctlpp_scores import write_states

    texts: dict[str, Any] = {name: np.array(["a"]) for name in ("singles", "pairs", "classes")}
    for folder, seeds in (("one", [0, 1]), ("two", [4, 1])):
        (tmp_path / folder).mkdir()
        marks = np.array([[10 * seed + (folder == "two")] for seed in seeds])
        vectors = np.stack([np.array([[0.5, mark / 254]]) for (mark,) in marks])
        states: dict[str, Any] = {"singles.readout": vectors, "pairs.answers": marks, **texts}
        np.savez(tmp_path / folder / "ndr-A-states.npz", seeds=np.array(seeds), **states)
    files = [tmp_path / folder / "ndr-A-states.npz" for folder in ("one", "two")]
    write_states(files, [0, 1, 4], tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as file:
        assert file["seeds"].tolist() == [0, 1, 4]
        assert file["pairs.answers"].tolist() == [[0], [11], [41]]
        assert file["singles.readout"].tolist() == [
            [[127, 0]],
            [[127, 11]],
            [[127, 41]],
        ], "bytes, as long as 127"
    with pytest.raises(SystemExit, match="seed 5"):
        write_states(files, [0, 5], tmp_path / "out.npz")
    old: dict[str, Any] = {
        "seeds": [7],
        "singles": texts["singles"],
        "singles.readout": [[[1.0, -2.0]]],
    }
    np.savez(tmp_path / "old.npz", **old)
    write_states([*files, tmp_path / "old.npz"], [1, 7], tmp_path / "out.npz")
    write_states([tmp_path / "out.npz"], [7, 1], tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as file:
        assert (file["seeds"].tolist(), file["singles.readout"].tolist()) == (
            [7, 1],
            [[[64, -127]], [[127, 11]]],
        )
        assert (file["pairs.seeds"].tolist(), file["pairs.answers"].tolist()) == ([1], [[11]])


def test_trainings_of_more_steps_than_the_papers_count_after_these_and_at_their_end() -> None:
    from ctlpp_scores import SPLITS, add, at_paper_steps, group_of

    groups: list[dict[str, Any]] = []
    add(groups, group_of(result({0: 0.5}, 80), "before"))
    longer = result({0: 0.0, 1: 0.0}, 200)
    longer["settings"]["steps"] = 200
    curve = [
        [step, split, score, 0.0] for step, score in ((80, 0.2), (200, 1.0)) for split in SPLITS
    ]
    longer["curves"] = {"0": curve, "1": curve}
    group = group_of(longer, "longer")
    for _ in range(2):  # the second time changes nothing
        early = at_paper_steps(group, groups)
        if early["seeds"]:
            add(groups, early)
        add(groups, {key: value for key, value in group.items() if key != "curves"})
    usual, end = groups
    assert {seed: scores["ood"] for seed, scores in usual["seeds"].items()} == {"0": 0.5, "1": 0.2}
    assert end["fields"]["learner.steps"] == 200
    assert {seed: scores["ood"] for seed, scores in end["seeds"].items()} == {"0": 1.0, "1": 1.0}


def test_regrouped_trainings_are_added_to_those_of_the_page(tmp_path: Path) -> None:
    from types import SimpleNamespace

    from ctlpp_scores import write_regrouped

    args = SimpleNamespace(page=tmp_path / "page", commit="one")
    args.page.mkdir()
    name = "A-processes8-table2-smallest"
    # The seeds, the step, and what distinguishes the answers of a session; the last has seed 1 anew.
    for session, (seeds, step) in enumerate((([0], 48), ([1, 2], 80), ([1], 80))):
        folder = tmp_path / str(session)
        folder.mkdir()
        texts: dict[str, Any] = {key: np.array(["a"]) for key in ("singles", "pairs", "classes")}
        answers = np.array([[10 * session + seed] for seed in seeds])
        vectors = np.ones((len(seeds), 1, 2))
        texts |= {"seeds": np.array(seeds), "pairs.answers": answers, "singles.readout": vectors}
        np.savez(folder / f"ndr-{name}-states.npz", **texts)
        scores = dict.fromkeys(seeds, 0.1 * session)
        write_regrouped([result(scores, step, data=name)], [folder], args)
    stored = {
        what: json.loads((args.page / f"regrouped-{what}.json").read_text())["groups"]
        for what in ("scores", "curves")
    }
    early, end = stored["scores"]
    assert early["fields"]["recipe.seed"] == end["fields"]["recipe.seed"] == 2
    assert (early["fields"]["learner.steps"], list(early["seeds"])) == (48, ["0"])
    assert {seed: one["ood"] for seed, one in end["seeds"].items()} == {"1": 0.2, "2": 0.1}
    (curves,) = stored["curves"]
    assert list(curves["curves"]) == ["0", "1", "2"]
    with np.load(args.page / "regrouped-states.npz") as file:
        assert file[f"ndr-{name}.seeds"].tolist() == [0, 2, 1]
        assert file[f"ndr-{name}.pairs.answers"].tolist() == [[0], [12], [21]]
        assert file[f"ndr-{name}.singles.readout"].shape == (3, 1, 2)
