"""The same replies have the same scores by every road: learners, bridges and `taskloom score`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import taskloom as tl
from taskloom.cli import run
from taskloom.core.extraction import EXTRACT, Extraction
from taskloom.interop.graded import GradedSplit, open_split, to_record
from taskloom.learners.config import read
from tests.learners.chat_server import ChatServer, serving

FORMS = (
    "{right}",
    "Answer: {right}",
    "**Answer:** {right}.",
    "The answer is {right}.",
    "I read it twice.\n\nSo it is \\boxed{{{right}}}.",
    "First, the story.\n<answer>{right}</answer>",
    "<think>Is the answer {wrong}?</think>\nAnswer: {right}",
    "<thinking>The answer is {wrong}.</thinking>{right}",
    "◁think▷The answer is {wrong}.◁/think▷{right}",
    "<|channel|>analysis<|message|>{wrong}<|end|><|channel|>final<|message|>{right}",
    "The answer may be {wrong}.</think>\nAnswer: {right}",
    "<think>First guess: the answer is {right}",
    "Answer: {wrong}",
    "She may be anywhere, I think",
    "It is not {wrong}.\nAnswer:\n- {right}",
)
"""Right answers in many forms, right answers that are only thought of, and wrong ones."""

MANY = 500
MANY_EPISODES = 30
"""Replies by verifiers' command, which starts a process for each (2.5 CPU-s)."""


class CannedServer(ChatServer):
    """Replies to every input with a text that was written before."""

    texts: dict[str, str]

    def reply(self, model: str, text: str) -> tuple[str | None, str, str]:
        return next(self.texts[known] for known in self.texts if known in text), "", "stop"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with 500 examples in its test split."""
    path = tmp_path_factory.mktemp("equal") / "data"
    tl.make("babi/1", path, set={"splits": {"train": {"n": 20}, "test": {"n": MANY}}})
    return path


@pytest.fixture(scope="module")
def graded(folder: Path) -> GradedSplit:
    return open_split(folder, "test", described=True)


@pytest.fixture(scope="module")
def texts(graded: GradedSplit) -> list[str]:
    """A reply to each example; every form occurs."""
    return replies([example.target for example in graded])


def replies(answers: Sequence[str]) -> list[str]:
    """A reply for each right answer; every form occurs."""
    found = []
    for index, right in enumerate(answers):
        wrong = next(answer for answer in sorted(set(answers)) if answer != right)
        found.append(FORMS[index % len(FORMS)].format(right=right, wrong=wrong))
    return found


def by_graded(folder: Path, graded: GradedSplit, texts: list[str], work: Path) -> list[float]:
    pairs = zip(texts, graded, strict=True)
    return [graded.grade(text, example).score for text, example in pairs]


def by_learner(
    folder: Path, graded: GradedSplit, texts: list[str], block: dict[str, Any]
) -> list[float]:
    inputs = [example.input for example in graded]
    server = CannedServer({})
    server.texts = dict(zip(inputs, texts, strict=True))
    with serving(server):
        arguments = {"base_url": server.url}
        place = {"url": server.url} if block["learner"] == "endpoint" else {"arguments": arguments}
        answers = read({**block, **place, "pause": 0.01}).fit([]).answer(inputs)
    pairs = zip(answers, graded, strict=True)
    return [graded.plan.scorer.score(answer, example) for answer, example in pairs]


def by_endpoint(folder: Path, graded: GradedSplit, texts: list[str], work: Path) -> list[float]:
    return by_learner(folder, graded, texts, {"learner": "endpoint", "model": "m"})


def by_responses(folder: Path, graded: GradedSplit, texts: list[str], work: Path) -> list[float]:
    block = {"learner": "endpoint", "model": "m", "protocol": "responses"}
    return by_learner(folder, graded, texts, block)


def by_model(folder: Path, graded: GradedSplit, texts: list[str], work: Path) -> list[float]:
    pytest.importorskip("inspect_ai")
    pytest.importorskip("openai")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCAL_API_KEY", "local-key-123456")
        block = {"learner": "model", "model": "openai-api/local/m"}
        return by_learner(folder, graded, texts, block)


def by_score(folder: Path, graded: GradedSplit, texts: list[str], work: Path) -> list[float]:
    scores = []
    for index, text in enumerate(texts):  # a file with one id scores one example
        file = work / "one.jsonl"
        file.write_text(json.dumps({"id": index, "prediction": text}) + "\n")
        scored: Any = tl.score(folder, file, "test", extract=EXTRACT)
        scores.append(float(scored.accuracy))
    return scores


def by_trl(folder: Path, graded: GradedSplit, texts: list[str], work: Path) -> list[float]:
    from taskloom.interop.trl import RECORD, RecipeReward

    records = [json.dumps(to_record(example)) for example in graded]
    completions = [[{"role": "assistant", "content": text}] for text in texts]
    columns: dict[str, Any] = {RECORD: records}
    return RecipeReward(graded)(completions=completions, **columns)


def by_lm_eval(folder: Path, graded: GradedSplit, texts: list[str], work: Path) -> list[float]:
    from taskloom.interop import lm_eval

    docs = [{"record": json.dumps(to_record(example))} for example in graded]
    pairs = zip(docs, texts, strict=True)
    return [lm_eval.score(folder, doc, [text], extract=EXTRACT)["score"] for doc, text in pairs]


def by_harness(folder: Path, graded: GradedSplit, texts: list[str], work: Path) -> list[float]:
    """As `by_lm_eval`, by the harness itself."""
    harness = pytest.importorskip("lm_eval")
    from lm_eval.tasks import TaskManager

    from taskloom.interop import lm_eval
    from tests.interop.test_lm_eval import fake_model

    tasks = lm_eval.export_lm_eval(folder, work / "tasks", variants="generation", extract=EXTRACT)
    (name,) = (name for name in tasks.tasks if name.endswith("_test"))
    records = lm_eval.documents(folder, split="test")["test"]["record"]
    result = harness.simple_evaluate(
        model=fake_model(dict(zip(records, texts, strict=True))),
        tasks=[name],
        task_manager=TaskManager(include_path=str(work / "tasks"), include_defaults=False),
        log_samples=True,
        bootstrap_iters=0,
    )
    scores = {one["doc"]["record"]: one["score"] for one in result["samples"][name]}
    return [scores[record] for record in records]


def by_gym(folder: Path, graded: GradedSplit, texts: list[str], work: Path) -> list[float]:
    from taskloom.interop.env_server import RecipeEnvironment

    environment = RecipeEnvironment(graded)
    rewards = []
    for index, text in enumerate(texts):
        episode = environment.reset(index)["episode"]
        rewards.append(float(environment.step(episode, text)["reward"]))
    return rewards


def by_inspect(folder: Path, graded: GradedSplit, texts: list[str], work: Path) -> list[float]:
    pytest.importorskip("inspect_ai")
    from taskloom.interop.inspect import recipe_to_task
    from tests.interop.test_inspect import evaluate

    task = recipe_to_task(str(folder), "test")
    prompts = [graded.prompt(example) for example in graded]
    log = evaluate(task, dict(zip(prompts, texts, strict=True)), work)
    scores = {sample.input: float(sample.scores["taskloom"].value) for sample in log.samples}
    return [scores[prompt] for prompt in prompts]


def by_verifiers(folder: Path, graded: GradedSplit, texts: list[str], work: Path) -> list[float]:
    pytest.importorskip("verifiers.v1")
    from taskloom.interop.verifiers import load_environment
    from tests.interop.test_verifiers import reward

    environment = load_environment(str(folder), split="test")
    pairs = zip(list(environment.taskset), texts, strict=True)
    return [reward(task, environment, text)[0] for task, text in pairs]


def by_trainers(folder: Path, graded: GradedSplit, texts: list[str], work: Path) -> list[float]:
    """By the reward file for verl; those for OpenRLHF and NeMo Gym call the same function."""
    import pyarrow.parquet as pq

    from taskloom.interop.trainers import export_for_trainer
    from tests.interop.test_trainers import loaded

    export_for_trainer(folder, work / "verl", "verl")
    rows = pq.read_table(work / "verl" / "test.parquet").to_pylist()
    score = loaded(work / "verl" / "reward.py").compute_score
    pairs = zip(rows, texts, strict=True)
    return [score("", text, "", row["extra_info"])["score"] for row, text in pairs]


def by_inspect_command(
    folder: Path, graded: GradedSplit, texts: list[str], work: Path
) -> list[float]:
    pytest.importorskip("inspect_ai")
    from inspect_ai.log import read_eval_log

    with served(folder, texts) as url:
        command = ["inspect", "eval", "taskloom/recipe", "-T", f"recipe={folder}"]
        command += ["--model", "openai-api/local/m", "--display", "plain", "--log-dir", str(work)]
        tool(command, work, LOCAL_BASE_URL=url, LOCAL_API_KEY="none")
    (path,) = work.glob("*.eval")
    scores = {one.input: one.scores["taskloom"].value for one in read_eval_log(str(path)).samples}
    return [float(scores[graded.prompt(example)]) for example in graded]


def by_harness_command(
    folder: Path, graded: GradedSplit, texts: list[str], work: Path
) -> list[float]:
    pytest.importorskip("lm_eval")
    export = ["export", str(folder), "--format", "lm-eval", "--as", "generation"]
    assert run([*export, "-o", str(work / "tasks")]) == 0
    with served(folder, texts) as url:
        model = f"model=m,base_url={url}/chat/completions,num_concurrent=8,max_retries=5"
        command = [
            "lm_eval",
            "--include_path",
            "tasks",
            "--tasks",
            "taskloom_babi_1_generative_test",
        ]
        command += ["--model", "local-chat-completions", "--model_args", model]
        command += ["--apply_chat_template", "--log_samples", "--output_path", "results"]
        tool(command, work, OPENAI_API_KEY="none")
    (path,) = work.glob("results/*/samples_*.jsonl")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    scores = {row["doc_id"]: float(row["score"]) for row in rows}
    return [scores[index] for index in range(len(texts))]


def by_verifiers_command(
    folder: Path, graded: GradedSplit, texts: list[str], work: Path
) -> list[float]:
    pytest.importorskip("verifiers.v1")
    if shutil.which("uv") is None:
        pytest.skip("needs uv: make test-interop")
    from tests.interop.test_verifiers import chat_server

    texts = texts[:MANY_EPISODES]
    prompts = [graded.prompt(example) for example, _ in zip(graded, texts, strict=False)]
    with chat_server(dict(zip(prompts, texts, strict=True))) as url:
        command = ["vf-eval", "taskloom-recipes", "--env.taskset.recipe", str(folder)]
        command += ["--env.taskset.split", "test", "-n", str(len(texts)), "--no-push", "-m", "m"]
        command += ["--client.base-url", url, "--client.api-key-var", "NO_KEY"]
        tool(command, work, NO_KEY="none")
    (path,) = work.glob("outputs/*/traces.jsonl")
    scores = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        (trace,) = json.loads(line)["traces"]
        scores[trace["task"]["data"]["prompt"]] = trace["rewards"]["recipe_score"]["score"]
    return [scores[prompt] for prompt in prompts]


def by_openenv(folder: Path, graded: GradedSplit, texts: list[str], work: Path) -> list[float]:
    """Through the command that serves and the client that OpenEnv has."""
    openenv = pytest.importorskip("openenv.core")
    command = [sys.executable, "-m", "taskloom", "serve-env", str(folder), "--split", "test"]
    rewards = []
    with subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = next(found[0] for line in server.stdout if (found := re.findall(r"http://\S+", line)))
        try:
            with openenv.GenericEnvClient(base_url=url).sync() as environment:
                for index, (text, example) in enumerate(zip(texts, graded, strict=True)):
                    begun = environment.reset(seed=index)
                    assert begun.observation["prompt"] == graded.prompt(example)
                    rewards.append(float(environment.step({"text": text}).reward))
        finally:
            server.terminate()
    return rewards


@contextmanager
def served(folder: Path, texts: list[str]) -> Iterator[str]:
    """Address of a server that replies to each example with its text."""
    server = CannedServer({})
    inputs = [example.input for example in tl.load(folder)["test"]]
    server.texts = dict(zip(inputs, texts, strict=True))
    with serving(server):
        yield server.url


def tool(command: list[str], folder: Path, **settings: str) -> None:
    """Run a tool's own command in a folder."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HF_HUB_OFFLINE": "1", **settings}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


ROADS: list[Callable[[Path, GradedSplit, list[str], Path], list[float]]] = [
    by_graded,
    by_endpoint,
    by_responses,
    by_model,
    by_score,
    by_trl,
    by_lm_eval,
    by_harness,
    by_gym,
    by_inspect,
    by_verifiers,
    by_trainers,
    by_inspect_command,
    by_harness_command,
    by_verifiers_command,
    by_openenv,
]


@pytest.mark.parametrize("road", ROADS, ids=lambda road: road.__name__)
def test_scores_are_equal_by_every_road(
    road: Callable[[Path, GradedSplit, list[str], Path], list[float]],
    folder: Path,
    graded: GradedSplit,
    texts: list[str],
    tmp_path: Path,
) -> None:
    cut = Extraction.read(EXTRACT)
    pairs = zip(texts, graded, strict=True)
    wanted = [graded.plan.scorer.score(cut(text), example) for text, example in pairs]
    scores = road(folder, graded, texts, tmp_path)
    assert scores == wanted[: len(scores)]
    assert len(scores) == (MANY_EPISODES if road is by_verifiers_command else MANY)
    # Twelve of the fifteen forms are right answers.
    assert sum(wanted) == sum(index % len(FORMS) not in (11, 12, 13) for index in range(MANY))


def test_scores_are_equal_in_reasoning_gym() -> None:
    """It draws its own examples, so these are not those of the other roads."""
    library = pytest.importorskip("reasoning_gym")
    from taskloom.interop.reasoning_gym import register

    register("babi/1")
    data = library.create_dataset("babi/1", size=MANY, seed=1)
    entries = list(data)
    texts = replies([entry["answer"] for entry in entries])
    score = library.get_score_answer_fn("babi/1")
    cut, scorer = Extraction.read(EXTRACT), data.examples.plan.scorer
    for entry, text, example in zip(entries, texts, data.examples, strict=True):
        assert score(text, entry) == scorer.score(cut(text), example)
