"""Recipes as tasks of Inspect: the registry, scores, metrics by trait, epochs."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import taskloom as tl
from tests.interop.cases import HOSTILE, MANY, RECIPES, expected, replies
from tests.interop.models import tiny_model

inspect_ai = pytest.importorskip("inspect_ai", reason="needs inspect-ai: make test-interop")

from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: E402

from taskloom.core.errors import ParameterError  # noqa: E402
from taskloom.core.extraction import ANSWER_FORMAT  # noqa: E402
from taskloom.interop.inspect import (  # noqa: E402
    CLUSTER,
    REASONING,
    RECORD,
    recipe_to_task,
    register,
)


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


def standard_error(values: list[float], clusters: list[Any]) -> float:
    """The clustered standard error of a mean; the plain one if every value is its own cluster."""
    mean = sum(values) / len(values)
    sums: dict[Any, float] = {}
    for value, cluster in zip(values, clusters, strict=True):
        sums[cluster] = sums.get(cluster, 0.0) + value - mean
    squares = sum(total**2 for total in sums.values())
    return math.sqrt(squares * len(sums) / (len(sums) - 1)) / len(values)


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
    clusters = [s.metadata.get(CLUSTER, index) for index, s in enumerate(log.samples)]
    assert metrics["stderr"].value == pytest.approx(standard_error(values, clusters))


def test_standard_errors_are_clustered_by_task(tmp_path: Path) -> None:
    """Tasks that are right or wrong as a whole have a larger error than independent samples."""
    task = recipe_to_task("zest/synthetic", "test", 400)
    tasks = sorted({sample.metadata[CLUSTER] for sample in task.dataset})
    right = set(tasks[::2])
    texts = {s.input: s.target[0] if s.metadata[CLUSTER] in right else "x" for s in task.dataset}
    log = evaluate(task, texts, tmp_path)
    values = [float(s.scores["taskloom"].value) for s in log.samples]
    clustered = standard_error(values, [s.metadata[CLUSTER] for s in log.samples])
    assert log.results.scores[0].metrics["stderr"].value == pytest.approx(clustered)
    assert clustered > 1.5 * standard_error(values, list(range(len(values))))


def test_shown_examples_system_message_and_reasoning_come_before_the_question(
    tmp_path: Path,
) -> None:
    from taskloom.interop.graded import open_split

    task = recipe_to_task("babi/1", n=3, fewshot=2, system="Be {brief}.", reasoning=True)
    system, question, answer, *_, last = task.dataset[0].input
    roles = [message.role for message in task.dataset[0].input]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user"]
    shown = open_split("babi/1", n=2, described=True, role="train")
    assert system.text == "Be {brief}."
    assert question.text.startswith(shown[0].input)
    assert answer.text == f"Answer: {shown[0].target}"
    assert last.text.endswith(f"{REASONING}\n\n{ANSWER_FORMAT}")
    texts = {sample.input[-1].text: f"Answer: {sample.target[0]}" for sample in task.dataset}
    log = evaluate(task, texts, tmp_path)
    assert log.results.scores[0].metrics["mean"].value == 1


def test_examples_are_never_shown_from_the_tested_split() -> None:
    with pytest.raises(ParameterError, match="no training split"):
        recipe_to_task("babi/1", set={"splits": {"test": {"n": 12}}}, fewshot=1)


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


def test_an_exported_package_has_a_task_that_the_tools_command_runs(tmp_path: Path) -> None:
    """Inspect's register runs tasks by their file, in an environment with the package's own
    dependencies."""
    sizes = {"splits": {"train": {"n": 10}, "test": {"n": 6}}}
    tl.make("babi/2", tmp_path / "stories", set=sizes)
    tl.export(tmp_path / "stories", "inspect", tmp_path / "two-facts")
    model = tiny_model(tmp_path / "tiny")
    bin_folder = Path(sys.executable).parent
    command = [str(bin_folder / "inspect"), "eval", "two-facts/two_facts/tasks.py@two_facts"]
    command += ["-T", "fewshot=2", "-T", "reasoning=true", "--max-tokens", "4"]
    command += ["--model", "hf/local", "-M", f"model_path={model}", "--display", "plain"]
    subprocess.run(command, cwd=tmp_path, check=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    (path,) = tmp_path.glob("logs/*.eval")
    log = inspect_ai.log.read_eval_log(str(path))
    assert log.status == "success"
    assert [sample.target for sample in log.samples] == [
        list(example.targets) for example in tl.load(tmp_path / "stories")["test"]
    ]
    assert [len(sample.input) for sample in log.samples] == [5] * 6


@pytest.mark.parametrize("recipe", ["babi/1", "ctl/A-independent"])
def test_the_evaluation_of_a_hub_scores_replies_in_the_asked_form(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inspect's own scorer knows fewer forms than ours, and never more."""
    import huggingface_hub

    from taskloom.interop.graded import open_split
    from tests.interop.test_equal_scores import FORMS

    sizes = {"train": {"n": 300}, "iid" if recipe.startswith("ctl") else "test": {"n": 150}}
    tl.make(recipe, tmp_path / "made", set={"splits": sizes})
    tl.export(tmp_path / "made", "hf", tmp_path / "owner" / "name")
    # The hub is the working folder: the library prefers a folder of that name.
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "owner" / "name" / "eval.yaml"
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda **_: str(place))
    graded = open_split(tmp_path / "made", described=True)
    texts = {}
    wanted = {}
    for index, example in enumerate(graded):
        wrong = next(e.target for e in graded if e.target != example.target)
        form = FORMS[index % len(FORMS)]
        reply = form.format(right=example.target, wrong=wrong)
        texts[graded.prompt(example)] = reply
        wanted[graded.prompt(example)] = (form, graded.grade(reply, example).score)
    log = evaluate("hf/owner/name", texts, tmp_path / "logs")
    assert len(log.samples) == 150
    for sample in log.samples:
        form, score = wanted[sample.messages[0].text]
        is_right = float(sample.scores["pattern"].value == "C")
        assert is_right <= score
        if "nswer:" in form:
            assert is_right == score
