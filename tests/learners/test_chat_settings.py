"""Settings of chat models: the prompt, the form that they are held to, prices, names, samples."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.learners.test_endpoint_replies import Server, completion
from tests.learners.test_endpoint_replies import server as _server

import taskloom as tl
from taskloom.cli.app import run
from taskloom.core.extraction import ANSWER_FORMAT
from taskloom.experiments.accuracy import majority_score, pass_at
from taskloom.experiments.execute import engines
from taskloom.experiments.execute.engines import HereEngine
from taskloom.learners import LearnerError
from taskloom.learners.config import read

server = _server

TRAIN = [("Where is Ann?", "hall"), ("Where is Bob?", "attic")]


@pytest.fixture
def fitted(server: Server) -> Callable[..., Any]:
    def fit(**settings: Any) -> Any:
        block = {"learner": "endpoint", "url": server.url, "model": "m", "pause": 0.01}
        return read({**block, **settings}).fit(TRAIN)

    return fit


def test_the_prompt_ends_with_the_form_and_the_answer_is_what_a_reply_ends_with(
    server: Server, fitted: Any
) -> None:
    server.answer = lambda request: (200, {}, completion("Ann or Eve?\nAnswer: kitchen."))
    assert fitted().answer(["Where is Eve?"]) == ["kitchen"]
    (turn,) = server.seen[0].body["messages"]
    assert turn["content"] == f"Where is Eve?\n\n{ANSWER_FORMAT}"
    assert server.seen[0].body["max_tokens"] == 2048


@pytest.mark.parametrize("shots_as", ["messages", "prompt"])
def test_examples_are_turns_or_in_the_one_prompt(
    server: Server, fitted: Any, shots_as: str
) -> None:
    fitted(shots=2, shots_as=shots_as, describe="Say where.").answer(["Where is Eve?"])
    turns = server.seen[0].body["messages"]
    assert len(turns) == (5 if shots_as == "messages" else 1)
    assert turns[0]["content"].startswith("Say where.")
    assert sum(turn["content"].count("Say where.") for turn in turns) == 1
    for _, target in TRAIN:
        assert any(target in turn["content"] for turn in turns)


def test_shots_need_a_training_split(server: Server) -> None:
    block = {"learner": "endpoint", "url": server.url, "model": "m", "shots": 2}
    with pytest.raises(LearnerError, match=r"shots is 2 .*no training split.*'evaluate'"):
        read(block).fit([])


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"guided": "schema"}, ["response_format", "json_schema", "schema"]),
        ({"guided": "schema", "protocol": "responses"}, ["text", "format", "schema"]),
    ],
)
def test_a_model_is_held_to_a_schema_and_its_answer_is_read(
    server: Server, fitted: Any, settings: dict[str, Any], place: list[str]
) -> None:
    said = json.dumps({"answer": "the kitchen"})
    response = {
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": said}]}],
    }
    is_chat = "protocol" not in settings
    server.answer = lambda request: (200, {}, completion(said) if is_chat else response)
    learner = fitted(**settings)
    assert learner.answer(["Where is Eve?"]) == ["the kitchen"]
    assert learner.replies[0]["rule"] == "json:answer"
    schema: Any = server.seen[0].body
    for key in place:
        schema = schema[key]
    assert schema["required"] == ["answer"]


def test_a_model_is_held_to_the_answers_of_training(server: Server, fitted: Any) -> None:
    fitted(guided="choice").answer(["Where is Eve?"])
    assert server.seen[0].body["structured_outputs"] == {"choice": ["attic", "hall"]}


def test_a_reply_costs_what_the_prices_say(
    server: Server, fitted: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The server states 10 tokens in and 2 out.
    learner = fitted(prices={"in": 1, "out": 10})
    learner.answer(["Where is Eve?"])
    assert learner.replies[0]["cost"] == pytest.approx(30e-6)
    table = tmp_path / "prices.json"
    prices = {"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-5}
    table.write_text(json.dumps({"m": prices}))
    learner = fitted(prices=str(table))
    learner.answer(["Where is Eve?"])
    assert learner.replies[0]["cost"] == pytest.approx(30e-6)
    learner = fitted(prices=str(table), model="unknown")
    learner.answer(["Where is Eve?"])
    assert learner.replies[0]["cost"] is None
    assert "prices.json has no price of 'unknown'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", "is not a JSON file"),
        ("[" * 100_000, "is not a JSON file"),
        ("[]", "one JSON object"),
        ('{"m": 1}', "'input_cost_per_token' of 'm'"),
        ('{"m": {"input_cost_per_token": 1e-6}}', "'output_cost_per_token' of 'm'"),
        # A text times a number is a longer text.
        ('{"m": {"input_cost_per_token": "1e-6", "output_cost_per_token": "1"}}', "no number"),
        ('{"m": {"input_cost_per_token": -1, "output_cost_per_token": 1}}', "at least 0"),
    ],
)
def test_a_bad_table_of_prices_is_one_sentence(
    fitted: Any, tmp_path: Path, content: str, fault: str
) -> None:
    table = tmp_path / "prices.json"
    with pytest.raises(LearnerError, match=r"prices\.json cannot be read"):
        fitted(prices=str(table))
    table.write_text(content)
    with pytest.raises(LearnerError, match=fault):
        fitted(prices=str(table))


def test_pass_at_k_has_no_bias() -> None:
    """The mean over all choices of k of n samples is the share of choices with a right one."""
    assert pass_at(0, 5, 3) == 0
    assert pass_at(1, 5, 5) == 1
    assert pass_at(2, 5, 1) == pytest.approx(0.4)
    assert pass_at(2, 5, 2) == pytest.approx(1 - 3 / 10)


def test_the_majority_is_of_answers_not_of_spellings() -> None:
    assert majority_score(["garden", "The kitchen.", "Kitchen", "garden "], [0, 1, 1, 0]) == 0
    assert majority_score(["x", "the kitchen", "Kitchen."], [0, 1, 1]) == 1


def test_seeds_are_samples_and_runs_have_the_name_of_the_model(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = iter(range(1000))
    server.answer = lambda request: (200, {}, completion(f"Answer: {next(said) % 2}"))
    monkeypatch.chdir(tmp_path)
    small = {"splits": {"train": {"n": 300}, "iid": {"n": 6}}}
    monkeypatch.setattr(engines, "start", lambda name, **options: HereEngine())
    learner = {"learner": "endpoint", "url": server.url, "model": "org/name-7b"}
    recipe = {"recipe": "ctl/A-independent", "set": small}
    content = {"recipes": [recipe], "learners": [learner], "samples": 3}
    Path("e.yaml").write_text(json.dumps(content))
    assert run(["run", "e.yaml", "--store", "runs"]) == 0
    result = tl.runs("runs")
    assert len(server.seen) == 3 * 6
    assert {run.learner for run in result} == {"org/name-7b"}
    (row,) = result.samples()
    assert row["samples"] == 3
    assert row["pass@1"] <= row["pass@2"] <= row["pass@3"]
    answers: dict[int, set[str]] = {}
    for reply in result.replies():
        answers.setdefault(reply["index"], set()).add(reply["answer"])
    assert row["distinct"] == sum(map(len, answers.values())) / 6
    with pytest.raises(tl.TaskloomError, match="no model has several samples"):
        result.where(seed=0).samples()


@pytest.mark.parametrize(
    ("model", "label"),
    [("org/name-7b", "org/name-7b"), ("/models/name-7b", "name-7b"), ("./name", "name")],
)
def test_a_model_that_is_called_by_its_path_has_the_name_of_its_folder(
    model: str, label: str
) -> None:
    """Local servers call a model by its path, which tells about a machine."""
    learner: Any = read({"learner": "endpoint", "model": model})
    assert learner.label == label


@pytest.mark.parametrize("name", ["api_key", "key", "aws_secret_access_key", "default_headers"])
@pytest.mark.parametrize("where", ["arguments", "request"])
def test_a_key_in_the_settings_of_a_provider_is_refused(where: str, name: str) -> None:
    block = {"learner": "model", "model": "openai/m", where: {name: "sk-SECRET-1234567890"}}
    with pytest.raises(LearnerError, match=name) as caught:
        read(block)
    assert "sk-SECRET" not in str(caught.value)
    read({**block, where: {"base_url": "http://h/v1", "max_tokens": 5}})
