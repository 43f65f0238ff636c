"""Files for verl, OpenRLHF and NeMo Gym: rows as they read them, rewards as they call them."""

from __future__ import annotations

import ast
import importlib.util
import json
import shutil
import sys
import tomllib
import types
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

import taskloom as tl
from taskloom.cli import run
from taskloom.interop.graded import brevity, keeps_form
from tests.interop.models import tiny_model


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trainers") / "stories"
    tl.make("babi/1", folder, set={"splits": {"train": {"n": 30}, "test": {"n": 10}}})
    return folder


def exported(stories: Path, out: Path, format: str) -> Path:
    assert run(["export", str(stories), "--format", format, "-o", str(out)]) == 0
    return out


def loaded(file: Path) -> Any:
    """A module of a file, as trainers import it."""
    spec = importlib.util.spec_from_file_location(f"loaded_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_verl_gets_parquet_and_compute_score(stories: Path, tmp_path: Path) -> None:
    out = exported(stories, tmp_path / "verl", "verl")
    rows = pq.read_table(out / "train.parquet").to_pylist()
    assert len(rows) == 30
    assert rows[3]["prompt"][0]["role"] == "user"
    compute_score = loaded(out / "reward.py").compute_score
    for row in rows[:5]:
        truth = row["reward_model"]["ground_truth"]
        given = (row["data_source"], f"Answer: {truth}", truth, row["extra_info"])
        assert compute_score(*given)["score"] == 1
        assert compute_score(*given, form=0.5, short=0.25)["score"] == 1.75
        assert compute_score(given[0], "nowhere", truth, row["extra_info"])["score"] == 0


def test_verl_reads_the_files_by_the_printed_settings(stories: Path, tmp_path: Path) -> None:
    """Its own configuration, dataset and reward manager; a whole training needs a GPU."""
    pytest.importorskip("verl", reason="needs verl: make test-interop")
    import torch
    from hydra import compose, initialize_config_module
    from transformers import AutoTokenizer
    from verl import DataProto
    from verl.experimental.reward_loop import migrate_legacy_reward_impl
    from verl.trainer.ppo.reward import load_reward_manager
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

    command = tl.export(stories, "verl", tmp_path / "verl").details["command"]
    settings = [word for word in command.split() if "=" in word]
    settings += ["++reward.custom_reward_function.reward_kwargs.form=0.5"]
    settings += [f"++data.cache_dir={tmp_path / 'cache'}", "data.max_prompt_length=2000"]
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = migrate_legacy_reward_impl(compose("ppo_trainer", overrides=settings))
    tokenizer = AutoTokenizer.from_pretrained(tiny_model(tmp_path / "tiny"))
    data = RLHFDataset(config.data.train_files, tokenizer, config.data)
    assert len(data) == 30
    manager = load_reward_manager(config, tokenizer)
    for row in (data[index] for index in range(5)):
        for answer, score in ((row["reward_model"]["ground_truth"], 1.5), ("nowhere", 0.5)):
            ids = tokenizer(f"Answer: {answer}", return_tensors="pt")["input_ids"]
            reply = {"responses": ids, "attention_mask": torch.ones_like(ids)}
            batch = DataProto.from_single_dict({**collate_fn([row]), **reply})
            result = manager.loop.run_until_complete(manager.run_single(batch))
            assert result["reward_score"] == score


def test_openrlhf_reads_the_files(stories: Path, tmp_path: Path) -> None:
    """Its own dataset and reward loader, with replies in place of an engine."""
    pytest.importorskip("openrlhf", reason="needs openrlhf: make test-interop")
    import asyncio

    from openrlhf.datasets.prompts_dataset import PromptDataset
    from openrlhf.datasets.utils import blending_datasets
    from openrlhf.utils.agent import SingleTurnAgentExecutor
    from transformers import AutoTokenizer

    out = exported(stories, tmp_path / "openrlhf", "openrlhf")
    tokenizer = AutoTokenizer.from_pretrained(tiny_model(tmp_path / "tiny"))
    asked = types.SimpleNamespace(input_key="input", label_key="label", apply_chat_template=True)
    strategy = types.SimpleNamespace(
        args=types.SimpleNamespace(data=asked), print=print, is_rank_0=lambda: True
    )
    rows = blending_datasets(str(out / "train.jsonl"), None, strategy)
    data = PromptDataset(rows, tokenizer, strategy)
    assert len(data) == 30
    executor = SingleTurnAgentExecutor(str(out / "reward.py"))

    def engine(text: str) -> Any:
        async def generate(*_: Any, **__: Any) -> Any:
            ids = tokenizer(text)["input_ids"]
            reply = types.SimpleNamespace(token_ids=ids, finish_reason="stop", logprobs=None)
            return types.SimpleNamespace(outputs=[reply])

        return types.SimpleNamespace(generate=generate)

    sampling = types.SimpleNamespace(max_tokens=64, logprobs=None)
    for _, prompt, label, _ in (data[index] for index in range(5)):
        for answer, score in ((json.loads(label)["targets"][0], 1.0), ("nowhere", 0.0)):
            replied = engine(f"Answer: {answer}")
            run_one = executor.execute(prompt, label, sampling, 2000, tokenizer, replied)
            assert asyncio.run(run_one)["reward"].tolist() == [score]


def test_openrlhf_gets_chats_labels_and_a_reward(stories: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    out = exported(stories, tmp_path / "openrlhf", "openrlhf")
    lines = (out / "train.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    prompts = [f"<|im_start|>user\n{row['input'][0]['content']}<|im_end|>\n" for row in rows]
    labels = [row["label"] for row in rows]
    targets = [json.loads(label)["targets"][0] for label in labels]
    # Queries are decoded whole: a reply that repeats no answer must not be right by its prompt.
    right = [f"{p}Answer: {t}<|im_end|>" for p, t in zip(prompts, targets, strict=True)]
    result = loaded(out / "reward.py").reward_func(right, prompts, labels)
    assert result["rewards"].tolist() == [1.0] * 30
    silent = loaded(out / "reward.py").reward_func(prompts, prompts, labels)
    assert torch.equal(silent["scores"], torch.zeros(30))


@pytest.fixture
def nemo_gym(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of NeMo Gym that the server uses; the package needs a newer Python."""
    from pydantic import BaseModel

    class Request(BaseModel):
        response: Any

    class Response(Request):
        reward: float

    class Server:
        def __init__(self, config: Any) -> None:
            self.config = config

    base = types.ModuleType("nemo_gym.base_resources_server")
    names = {
        "BaseResourcesServerConfig": BaseModel,
        "BaseVerifyRequest": Request,
        "BaseVerifyResponse": Response,
        "SimpleResourcesServer": Server,
    }
    for name, value in names.items():
        setattr(base, name, value)
    monkeypatch.setitem(sys.modules, "nemo_gym", types.ModuleType("nemo_gym"))
    monkeypatch.setitem(sys.modules, "nemo_gym.base_resources_server", base)


def nemo_response(text: str) -> Any:
    part = types.SimpleNamespace(type="output_text", text=text)
    thought = types.SimpleNamespace(type="reasoning", content=[])
    message = types.SimpleNamespace(type="message", content=[part])
    return types.SimpleNamespace(output=[thought, message])


@pytest.mark.usefixtures("nemo_gym")
def test_nemo_gym_gets_a_resource_server(stories: Path, tmp_path: Path) -> None:
    import asyncio

    out = exported(stories, tmp_path / "nemo", "nemo-gym")
    (line, *_) = (out / "data" / "train.jsonl").read_text(encoding="utf-8").splitlines()
    row = json.loads(line)
    app = loaded(out / "app.py")
    server = app.RecipeServer(app.RecipeConfig())
    for text, reward in ((f"Answer: {row['record']['targets'][0]}", 1.0), ("nowhere", 0.0)):
        request = app.RecipeRequest(response=nemo_response(text), record=row["record"])
        assert asyncio.run(server.verify(request)).reward == reward
    config = yaml.safe_load((out / "configs" / "taskloom_recipe.yaml").read_text(encoding="utf-8"))
    assert (
        config["taskloom_recipe"]["resources_servers"]["taskloom_recipe"]["entrypoint"] == "app.py"
    )


def test_a_folder_that_exists_and_foreign_data_are_refused(
    stories: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for format in ("verl", "verifiers"):
        assert run(["export", str(stories), "--format", format, "-o", str(tmp_path)]) == 2
        assert "exists already" in capsys.readouterr().err
        assert run(["export", str(tmp_path), "--format", format, "-o", "out"]) == 2
        assert "is not a Taskloom dataset" in capsys.readouterr().err


def test_the_form_and_the_length_of_replies_are_judged_alone() -> None:
    assert keeps_form("<think>The answer: a</think>\n**Answer:** kitchen")
    for other in ("kitchen", "Answer:", "<think>Answer: kitchen", "Answer: a\nor b", None):
        assert not keeps_form(other)
    assert brevity(None, 10) == 0


@pytest.mark.parametrize(
    "format", ["verl", "openrlhf", "nemo-gym", "verifiers", "lm-eval", "inspect"]
)
@pytest.mark.parametrize(
    "name",
    ['"""\nimport os\nos.abort()\n"""', '"]\nx\0', "a\r\nb: ${oc.env:HOME} \\N{DIGIT ONE} {{1}}"],
)
def test_a_name_in_a_manifest_becomes_no_code(
    stories: Path, tmp_path: Path, format: str, name: str
) -> None:
    """A manifest may come from a stranger. What is exported is imported by a trainer."""
    hostile = tmp_path / "stories"
    shutil.copytree(stories, hostile)
    manifest = json.loads((hostile / "manifest.json").read_text())
    manifest["recipe"]["name"] = name
    (hostile / "manifest.json").write_text(json.dumps(manifest))
    out = exported(hostile, tmp_path / "out", format)
    plain = exported(stories, tmp_path / "plain" / "out", format)
    for file in plain.rglob("*.py"):
        written = next(out.rglob(file.name)).read_text()
        assert nodes(written) == nodes(file.read_text())
    for file in out.rglob("*.toml"):
        tomllib.loads(file.read_text())
    for file in out.rglob("configs/*.yaml"):
        server = yaml.safe_load(file.read_text())["taskloom_recipe"]["resources_servers"]
        assert server["taskloom_recipe"].keys() >= {"description", "domain", "value"}
        assert "$" not in file.read_text()


def nodes(code: str) -> list[type[ast.AST]]:
    """Kinds of what a program consists of."""
    return [type(node) for node in ast.walk(ast.parse(code))]
