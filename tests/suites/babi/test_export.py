"""Formats out, and the importer of reference configurations."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from taskloom.cli.app import run
from taskloom.core.errors import RecipeError, TaskloomError
from taskloom.core.example import Example
from taskloom.data.make import make
from taskloom.recipe import recipe
from taskloom.suites.babi import export, reference_config
from taskloom.suites.babi.solve_file import solve_file


def rows(name: str, n: int, *overrides: str) -> list[Example]:
    return list(recipe.read(f"babi/{name}", overrides).plan(0).splits[0].rows(0, n))


@pytest.mark.parametrize("name", ["1", "2", "3", "5", "7", "8", "10", "11", "13", "mix-T12"])
def test_babi_text_is_solved_again_with_the_same_answers_and_supports(
    name: str, tmp_path: Path
) -> None:
    file = tmp_path / "out.txt"
    examples = rows(name, 60)
    file.write_text("".join(export.babi_text(examples)))
    report = solve_file(file)
    assert report.answers == {"agrees": 60}
    # Lists and counts cite every sentence about the person, as bAbI does.
    minimal = [e for e in examples if e.traits["support"] == e.traits["minimal"]]
    assert report.supports["official"] + report.supports["minimal"] == len(minimal)
    assert report.supports["larger"] == 60 - len(minimal)
    assert minimal == examples or name in ("7", "8", "mix-T12")
    assert report.stories == (12 if name != "mix-T12" else 60)


def test_babi_text_has_the_layout_of_the_original() -> None:
    lines = list(export.babi_text(rows("1", 5)))
    assert [line.split()[0] for line in lines] == [str(i) for i in range(1, 16)]
    question = lines[2]
    assert question.count("\t") == 2
    assert "? \t" in question
    assert question.endswith(("1\n", "2\n"))


def test_squad_answers_stand_where_they_are_said() -> None:
    examples = rows("mix-T12", 200)
    made, skipped = export.squad(examples)
    paragraphs = made["data"][0]["paragraphs"]
    assert len(paragraphs) + skipped == 200
    assert skipped == sum(e.traits["question"] in ("yes-no", "list", "counting") for e in examples)
    for paragraph in paragraphs:
        answer = paragraph["qas"][0]["answers"][0]
        start = answer["answer_start"]
        assert paragraph["context"][start : start + len(answer["text"])] == answer["text"]


def test_text_to_text_and_events() -> None:
    examples = rows("mix-T12", 20)
    for example, line in zip(examples, export.text_to_text(examples), strict=True):
        assert line["input"].endswith(f"$question$ {example.question}")
        assert line["output"] == example.target
    for example, told in zip(examples, export.structured(examples), strict=True):
        assert len(told["events"]) == 20
        assert len(told["support"]) == example.traits["support"]


def test_a_split_of_a_dataset_is_written(tmp_path: Path) -> None:
    made = recipe.read("babi/1", ["splits={train: {n: 20}, test: {n: 10}}"])
    data = make(made, tmp_path / "data")
    report = solve_file(export.write(data["train"], tmp_path / "train.txt", "babi"))
    assert report.answers == {"agrees": 20}
    for kind in ("text-to-text", "squad", "events"):
        text = export.write(data["test"], tmp_path / kind, kind).read_text()
        assert [json.loads(line) for line in text.splitlines()]
    with pytest.raises(TaskloomError, match="did you mean 'squad'"):
        export.write(data["train"], tmp_path / "x", "squat")
    assert not (tmp_path / "x").exists()


OWN: dict[str, Any] = {
    "vocabulary": {
        "persons": ["Zoë", "Li Wei", "O'Brien", "Robin"],
        "objects": ["red ball", "lamp"],
        "places": ["old mill", "harbour", "cave"],
        "pronouns": {"Zoë": "she"},
    },
    "style": {
        "move": ["ambled", "strolled back"],
        "grab": ["snatched up"],
        "give": ["handed over", "offered"],
        "prefixes": ["Soon"],
        "double_object": True,
    },
}


def test_stories_in_words_of_ones_own_are_shown_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    constructs = {"wording": ["COREF", "CONJ", "COMPOUND"], "conj": ["MOVE", "GRAB", "GIVE"]}
    shape = {
        "n": 40,
        "events": ["MOVE", "GRAB", "GIVE"],
        **constructs,
        "questions": ["where-P", "yes-no"],
        "length": 12,
    }
    made = recipe.check({"suite": "babi", **OWN, "splits": {"test": [shape]}}, "mine", "mine")
    data = make(made, tmp_path / "data")
    text = " ".join(e.input for e in data["test"])
    assert "handed over the lamp to" in text
    assert not any(f"handed over {name} " in text for name in OWN["vocabulary"]["persons"])
    arguments = ["export", str(tmp_path / "data"), "--split", "test", "-o", str(tmp_path / "out")]
    assert run([*arguments, "--format", "events", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["examples"] == 40
    told = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [len(t["events"]) for t in told] == [12] * 40
    assert run([*arguments, "--format", "squad"]) == 0
    left_out = sum(e.traits["question"] == "yes-no" for e in data["test"])
    assert f"{40 - left_out} examples of" in (said := capsys.readouterr().out)
    assert f"({left_out} left out" in said
    assert run(["show", str(tmp_path / "data"), "-n", "1"]) == 0
    assert "\n 12 " in capsys.readouterr().out


def test_worlds_without_events_have_none_to_write(tmp_path: Path) -> None:
    with pytest.raises(TaskloomError, match="task 17 has a world without events"):
        export.write(rows("17", 3), tmp_path / "x", "events")


CONFIG: dict[str, Any] = {
    "name": "mix",
    "only_dev": True,
    "write_tt": True,
    "tasks": [
        {
            "story_params": {
                "name": "wp",
                "samples": 40,
                "n_questions": 1,
                "question_probability": 1,
                "actions_before_question": 20,
                "questions": ["where_person"],
                "questions_distribution": [1, 1, 1],
                "actions": ["move", "grab", "drop", "give", "coref", "negate"],
                "actions_distribution": [0.5, 1, 1, 1, 1, 1],
                "coref": ["move", "grab", "drop"],
                "coref_distribution": [0.1, 1, 1],
            },
            "filter_config": [
                {"num_supp_fact_range": [1, 1], "max_pass": 20, "max_len": 20},
                {
                    "num_supp_fact_range": [4, 15],
                    "max_pass": 20,
                    "required_supp_fact_types": ["grab"],
                },
            ],
        }
    ],
}


def test_a_reference_configuration_becomes_a_recipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mix.json"
    file.write_text(json.dumps(CONFIG))
    assert reference_config.main([str(file)]) == 0
    made = tmp_path / "mix.yaml"
    made.write_text(capsys.readouterr().out)
    assert "&" not in made.read_text()  # no aliases: people go on writing there
    examples = list(recipe.read(str(made)).plan(0).split("mix").rows(0, 40))
    sizes = sorted(int(e.traits["support"]) for e in examples)
    assert sizes[:20] == [1] * 20
    assert all(s >= 4 for s in sizes[20:])
    assert all(
        "GRAB" in str(e.traits["composition"]) for e in examples if e.traits["group"] == "wp-4-15"
    )
    assert {e.traits["question"] for e in examples} == {"where-P"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tasks": []}, "has no tasks"),
        ({"taskz": []}, "unknown key 'taskz'; did you mean 'tasks'"),
        ({"tasks": [{"story_params": {"actions": ["fly"]}}]}, "unknown 'fly'"),
        ({"tasks": [{"story_params": {"sampels": 3}}]}, "did you mean 'samples'"),
        ({"tasks": [{"filter_config": {"max_length": 3}}]}, "unknown key 'max_length'"),
        (
            {"tasks": [{"filter_config": {"always_pass_q_types": ["list"]}}]},
            "always_pass_q_types: with several questions",
        ),
        (
            {"tasks": [{"filter_config": {"filter_each_q": False}}]},
            "filter_each_q: with several questions per story",
        ),
        (
            {"tasks": [{"story_params": {}}, {"game_variables": {"persons": ["Bob"]}}]},
            "only one vocabulary",
        ),
    ],
)
def test_configurations_that_cannot_be_imported(change: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        reference_config.convert({**CONFIG, **change})


def test_importer_says_what_is_wrong_with_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reference_config.main([str(tmp_path / "none.json")]) == 2
    assert "there is no file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "change",
    [
        {"tasks": 5},
        {"tasks": [7]},
        {"tasks": [{"story_params": {"samples": "many"}}]},
        {"tasks": [{"story_params": {"actions": [["move"]]}}]},
        {"tasks": [{"filter_config": {"num_supp_fact_range": [1]}}]},
        {"tasks": [{"story_params": {"entity_coreference_map": {"Mary": 3}}}]},
    ],
)
def test_values_of_a_wrong_kind_are_refused(change: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**CONFIG, **change}))
    with pytest.raises(RecipeError, match=r"config\.json"):
        reference_config.import_file(file)


def test_what_a_configuration_leaves_out_is_what_the_reference_does() -> None:
    from taskloom.recipe import check

    story = {
        "name": "all",
        "samples": 20,
        "n_questions": 1,
        "actions_before_question": 12,
        "questions": ["where_person"],
    }
    (group,) = reference_config.convert({"name": "x", "tasks": [{"story_params": story}]})["groups"]
    assert {*group["events"], *group["wording"]} == {
        *["MOVE", "GRAB", "DROP", "GIVE", "COREF", "CONJ", "COMPOUND", "NEGATE", "INDEF", "AFFIRM"]
    }
    few = {
        **story,
        "actions": ["move", "coref"],
        "coref": ["move", "grab", "indef"],
        "exhaustive": True,
    }
    made = reference_config.convert({"name": "x", "tasks": [{"story_params": few}]})
    assert made["groups"][0]["events"] == {"MOVE": 1.0, "GRAB": 0.0}
    assert made["groups"][0]["exhaustive"]
    split = check(made, "mine", "mine").plan(0).splits[0]
    text = " ".join(e.input for e in split.rows(0, 20))
    assert " either in the " in text
    removed = {
        "story_params": story,
        "filter_config": {"remove_distractors": True, "num_supp_fact_range": [4, 15]},
    }
    (short,) = reference_config.convert({"name": "x", "tasks": [removed]})["groups"]
    assert short["distractors"] == 0
    assert short["support"] == "4..15"
    assert short["falloff"] < 1


def configured(actions: list[str], question: str, **more: Any) -> dict[str, Any]:
    """A sub-task of the reference with one question after twelve actions."""
    story = {
        "name": "part",
        "samples": 40,
        "n_questions": 1,
        "question_probability": 1,
        "actions_before_question": 12,
        "actions": actions,
        "questions": [question, "where_person"],
        "exhaustive": True,
    }
    return {"story_params": story, **more}


def test_a_filter_that_no_story_passes_is_left_out_as_the_reference_does(tmp_path: Path) -> None:
    sizes = [{"num_supp_fact_range": [n, n], "valid_q_types": ["where_person"]} for n in (1, 2)]
    task = configured(["move", "grab", "drop"], "where_object", filter_config=sizes)
    file = tmp_path / "diverse.json"
    file.write_text(json.dumps({"name": "diverse", "tasks": [task]}))
    made = reference_config.import_file(file)
    assert [group["name"] for group in made["groups"]] == ["part-1"]
    assert made["splits"] == {"train": 20, "dev": 2, "test": 2}
    assert "part-2" in made["describe"]
    examples = list(recipe.read(f"babi/{file}").plan(0).split("train").rows(0, 20))
    assert {e.traits["support"] for e in examples} == {1}
    file.write_text(json.dumps({"name": "vain", "tasks": [{**task, "filter_config": sizes[1:]}]}))
    with pytest.raises(RecipeError, match="part-2"):
        reference_config.import_file(file)


def test_questions_that_pass_freely_become_a_group_of_their_own(tmp_path: Path) -> None:
    given = {"valid_q_types": ["yes_no"], "always_pass_q_types": ["where_person"]}
    task = configured(["move"], "yes_no", filter_config={**given, "num_supp_fact_range": [1, 1]})
    file = tmp_path / "diverse.json"
    file.write_text(json.dumps({"name": "diverse", "tasks": [task]}))
    examples = list(recipe.read(f"babi/{file}").plan(0).split("train").rows(0, 60))
    asked = Counter(str(e.traits["question"]) for e in examples)
    assert asked == {"yes-no": 40, "where-P": 20}
