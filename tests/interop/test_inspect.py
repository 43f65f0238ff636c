"""Recipes as tasks of Inspect: the registry, scores, metrics by trait, epochs."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interop.cases import HOSTILE, MANY, RECIPES, expected, replies
from tests.interop.models import tiny_model

inspect_ai = pytest.importorskip("inspect_ai", reason="needs inspect-ai: make test-interop")

from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: E402

from taskloom.interop.inspect import RECORD, recipe_to_task, register  # noqa: E402


def evaluate(task: Any, texts: dict[str, str], folder: Path, **more: Any) -> Any:
    """Evaluate a task on a model that answers by the input, and return the log."""

    def reply(input: list[Any], tools: Any, tool_choice: Any, config: Any) -> Any:
        output = ModelOutput.from_content("mockllm", texts[input[-1].text])
        output.usage = ModelUsage(
            input_tokens=1, output_tokens=1, total_tokens=2
        )  # else a tokeniser is downloaded
        return output

    model = get_model("mockllm/model", custom_outputs=reply)
    (log,) = inspect_ai.eval(task, model=model, display="none", log_dir=str(folder), **more)
    assert log.status == "success", log.error
    return log


@pytest.mark.parametrize("recipe", RECIPES)
def test_scores_are_those_of_taskloom(recipe: str, tmp_path: Path) -> None:
    from taskloom.interop.graded import open_split

    task = recipe_to_task(recipe, RECIPES[recipe], MANY, seed=2)
    graded = open_split(recipe, RECIPES[recipe], MANY, seed=2, described=True)
    examples = list(graded)
    assert [sample.input for sample in task.dataset] == [
        graded.prompt(example) for example in examples
    ]
    texts = dict(
        zip(
            [graded.prompt(e) for e in examples], replies(examples, graded.plan.scorer), strict=True
        )
    )
    log = evaluate(task, texts, tmp_path)
    scores = {sample.input: sample.scores["taskloom"].value for sample in log.samples}
    wanted = expected(
        [texts[graded.prompt(e)] for e in examples], examples, graded.plan.scorer, "final"
    )
    assert scores == dict(zip([graded.prompt(e) for e in examples], wanted, strict=True))
    metrics = log.results.scores[0].metrics
    values = [scores[s.input] for s in log.samples]
    assert metrics["mean"].value == pytest.approx(sum(values) / MANY)
    spread = sum((v - sum(values) / MANY) ** 2 for v in values) / (MANY - 1)
    assert metrics["stderr"].value == pytest.approx(math.sqrt(spread / MANY))


def test_metrics_are_grouped_by_traits_with_standard_errors_over_epochs(tmp_path: Path) -> None:
    task = recipe_to_task("ctl/A", "iid", 40, by="length", epochs=3)
    right = {sample.input: sample.target[0] for sample in task.dataset}
    texts = {text: answer if len(text.split()) % 2 else "x" for text, answer in right.items()}
    log = evaluate(task, texts, tmp_path)
    assert log.eval.config.epochs == 3
    assert len(log.samples) == 120
    metrics = {name: metric.value for name, metric in log.results.scores[0].metrics.items()}
    by_length: dict[int, list[float]] = {}
    for sample in task.dataset:
        by_length.setdefault(sample.metadata["length"], []).append(
            float(texts[sample.input] == sample.target[0])
        )
    for length, scores in by_length.items():
        assert metrics[f"length={length} mean"] == pytest.approx(sum(scores) / len(scores))
        assert f"length={length} stderr" in metrics


def test_samples_carry_their_traits(tmp_path: Path) -> None:
    sample, *_ = recipe_to_task("babi/2", n=3).dataset
    assert sample.metadata["support"] == 2
    assert sample.metadata[RECORD]["targets"] == list(sample.target)


def test_hostile_predictions_score_zero_with_a_reason(tmp_path: Path) -> None:
    task = recipe_to_task("babi/8", n=len(HOSTILE))
    texts = [reply if isinstance(reply, str) else "" for reply in HOSTILE]
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    log = evaluate(task, dict(zip([s.input for s in task.dataset], texts, strict=True)), tmp_path)
    for sample in log.samples:
        assert sample.scores["taskloom"].value == 0
        assert sample.scores["taskloom"].explanation


def test_every_recipe_is_registered_under_its_name() -> None:
    tasks = register()
    assert {"recipe", "ctl-A", "babi-mix-T12", "zest-synthetic"} <= set(tasks)


def test_the_command_of_the_docs_runs_with_a_tiny_model(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "tiny")
    command = [
        str(Path(sys.executable).parent / "inspect"),
        "eval",
        "taskloom/ctl-A",
        "-T",
        "recipe=ctl/A",
        "-T",
        "n=4",
    ]
    command += [
        "--model",
        "hf/local",
        "-M",
        f"model_path={model}",
        "--max-tokens",
        "4",
        "--display",
        "plain",
    ]
    done = subprocess.run(
        [*command, "--log-dir", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "length=" in done.stdout
