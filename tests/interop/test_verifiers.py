"""Recipes as tasksets of verifiers: tasks, rewards, a rollout."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from taskloom.cli import run
from taskloom.core.errors import TaskloomError
from tests.interop.cases import HOSTILE, MANY, RECIPES, expected, replies

vf = pytest.importorskip("verifiers.v1", reason="needs verifiers: make test-interop")

from taskloom.interop.verifiers import load_environment, load_taskset  # noqa: E402


def reward(task: Any, environment: Any, reply: object) -> tuple[float, str]:
    """Score a reply as the tool does after a rollout, and return the reward and the reason."""
    about = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
    trace = vf.Trace(
        task=about, agent=vf.AgentInfo(name="agent", config=environment.config.agent, model="none")
    )
    trace.root_reply = reply
    asyncio.run(task.score(trace))
    return trace.reward, trace.info["taskloom"]["reason"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_rewards_are_the_scores_of_taskloom(recipe: str) -> None:
    environment = load_environment(recipe, split=RECIPES[recipe], n=MANY, seed=4)
    graded = environment.taskset.config.open()
    examples, tasks = list(graded), list(environment.taskset)
    texts = [
        text.strip() for text in replies(examples, graded.plan.scorer)
    ]  # the tool strips replies
    rewards = [reward(task, environment, text)[0] for task, text in zip(tasks, texts, strict=True)]
    assert rewards == expected(texts, examples, graded.plan.scorer, "final")
    assert 0.2 < sum(rewards) / MANY < 0.8


def test_tasks_carry_their_examples_and_keys_that_differ() -> None:
    taskset = load_taskset("babi/2", n=30)
    tasks = list(taskset.shuffle(seed=1).take(5))
    assert len({task.key for task in tasks}) == 5
    assert all(task.data.record["traits"]["support"] == 2 for task in tasks)
    assert all(task.data.prompt.startswith("Say where the object is") for task in tasks)
    assert [task.data.answer for task in taskset] == [e.target for e in taskset.config.open()]


def test_hostile_replies_get_no_reward_and_a_reason() -> None:
    environment = load_environment("babi/8", n=1)
    (task,) = environment.taskset
    for reply in HOSTILE:
        if isinstance(reply, str):
            value, reason = reward(task, environment, reply)
            assert value == 0
            assert reason


def test_a_wrong_recipe_is_refused_before_any_rollout() -> None:
    with pytest.raises(TaskloomError, match="did you mean 'babi/2'"):
        load_environment("babbi/2")
    with pytest.raises(TaskloomError, match="extract is 'lastline'"):
        load_environment("babi/2", extract="lastline")


def test_the_tool_finds_the_taskset_by_its_name() -> None:
    from verifiers.v1.utils.loaders import taskset_class

    assert taskset_class("taskloom-recipes").__name__ == "RecipeTaskset"


@contextmanager
def chat_server(replies: Mapping[str, str]) -> Iterator[str]:
    """Serve an OpenAI-compatible endpoint that streams a given reply to each prompt, and yield its
    address.
    """

    class Handler(BaseHTTPRequestHandler):
        """Answers one chat completion."""

        def do_POST(self) -> None:
            """Stream the reply as one chunk, then the reason of the end."""
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            prompt = body["messages"][-1]["content"]
            text = prompt if isinstance(prompt, str) else "".join(part["text"] for part in prompt)
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            head = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m"}
            chunks: list[dict[str, Any]] = [
                {
                    "choices": [
                        {"index": 0, "delta": {"role": "assistant", "content": replies[text]}}
                    ]
                },
                {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage},
            ]
            lines = [f"data: {json.dumps({**head, **chunk})}\n\n" for chunk in chunks]
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write("".join([*lines, "data: [DONE]\n\n"]).encode())

        def log_message(self, *about: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


@pytest.mark.slow
def test_rollouts_of_the_tool_get_the_scores_of_taskloom(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness is a program of its own, which the tool starts with uv; its libraries come from a
    registry the first time.
    """
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if shutil.which("uv") is None:
        pytest.skip("needs uv: make test-interop")
    from verifiers.v1.clients.client import ModelContext
    from verifiers.v1.configs.client import EvalClientConfig

    environment = load_environment("babi/1", n=3, role="test")
    right, wrong, empty = environment.taskset
    replies = {
        right.data.prompt: f"Somebody went there, so the answer is: {right.data.answer}.",
        wrong.data.prompt: "The answer is: nowhere",
        empty.data.prompt: " ",
    }
    monkeypatch.setenv("NO_KEY", "none")

    async def rollouts(address: str) -> list[tuple[bool, float]]:
        client = EvalClientConfig(base_url=address, api_key_var="NO_KEY")
        outcomes = []
        async with environment.serving():
            for task in (right, wrong, empty):
                episode = await environment.run_episode(
                    task, ModelContext(model="m", client=client)
                )
                outcomes += [(trace.ok, trace.reward) for trace in episode.traces]
        return outcomes

    with chat_server(replies) as address:
        outcomes = asyncio.run(rollouts(address))
    assert outcomes[0] == (True, 1.0)
    assert [reward for _, reward in outcomes[1:]] == [0.0, 0.0]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dataset as an environment package, importable as if it were installed."""
    import taskloom as tl

    tl.make("babi/1", tmp_path / "stories", set={"splits": {"train": {"n": 20}, "test": {"n": 5}}})
    out = tmp_path / "short-stories"
    assert run(["export", str(tmp_path / "stories"), "--format", "verifiers", "-o", str(out)]) == 0
    paths = [str(out), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.syspath_prepend(out)
    return out


@pytest.mark.slow
def test_a_package_passes_the_tools_validation(package: Path, tmp_path: Path) -> None:
    """Gold: the reference answers are right. Noop: no reply is not."""
    command = ["vf-validate", "short-stories", "--rich", "False", "--runtime.type", "subprocess"]
    subprocess.run([*command, "-n", "20"], cwd=tmp_path, check=True, timeout=300)
    (summary,) = tmp_path.glob("outputs/*/summary.json")
    outcomes = json.loads(summary.read_text(encoding="utf-8"))["outcomes"]
    assert {name: count for name, count in outcomes.items() if count} == {"valid": 20}


@pytest.mark.slow
def test_the_tools_command_runs_a_package_and_asks_for_stories(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("uv") is None:
        pytest.skip("needs uv: make test-interop")
    from verifiers.v1.utils.loaders import taskset_class

    from taskloom.interop.graded import Dialogue

    assert taskset_class("short-stories").__name__ == "ShortStoriesTaskset"
    task = next(iter(load_taskset(str(tmp_path / "stories"))))
    dialogue = Dialogue(task.graded, task.graded[0], task.data.question)
    replies = {
        dialogue.opening: "READ 1",
        f"1: {dialogue.sentences[0]}": "READ 9999",
        f"There is no sentence 9999. The story has {len(dialogue.sentences)}.": (
            f"Answer: {task.data.answer}"
        ),
    }
    monkeypatch.setenv("NO_KEY", "none")
    with chat_server(replies) as address:
        model = ["-m", "m", "--client.base-url", address, "--client.api-key-var", "NO_KEY"]
        command = ["vf-eval", "short-stories", "-n", "1", "--no-push", *model]
        subprocess.run([*command, "--env.ask", "true"], cwd=tmp_path, check=True, timeout=300)
    (traces,) = tmp_path.glob("outputs/*/traces.jsonl")
    (trace,) = json.loads(traces.read_text(encoding="utf-8"))["traces"]
    assert trace["rewards"]["recipe_score"] == {"score": 1.0, "weight": 1.0}
