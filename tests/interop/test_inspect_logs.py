"""Logs that Inspect itself has written, read as runs: `runs show`, `compare`, `rescore` and `score`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import taskloom as tl
from taskloom.cli import run as cli
from taskloom.learners.config import read
from tests.learners.chat_server import ChatServer, serving

inspect_ai = pytest.importorskip("inspect_ai", reason="needs inspect-ai: make test-interop")
pytest.importorskip("openai")

from inspect_ai.dataset import MemoryDataset, Sample  # noqa: E402
from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries  # noqa: E402
from inspect_ai.scorer import includes, match  # noqa: E402

LONG = "Mary went to the hall. " * 300
"""Makes a story longer than what Inspect keeps of an input in the summaries of a log."""

STORIES = {
    f"{LONG if i % 10 == 0 else ''}Story {i}. Where is Fred?": (f"room {i % 7}", 1 + i % 2)
    for i in range(60)
}
MODELS = {"m": 0.9, "n": 0.5}


@dataclass(frozen=True, slots=True)
class Logged:
    """A folder of logs, and the server whose replies are in them."""

    folder: Path
    server: ChatServer

    def log(self, model: str) -> Path:
        """The log of a model."""
        (path,) = (self.folder / model).glob("*.eval")
        return path


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logged]:
    """Two models asked by Inspect, each question twice."""
    folder = tmp_path_factory.mktemp("logs")
    samples = [
        Sample(id=f"q{i}", input=text, target=answer, metadata={"support": support})
        for i, (text, (answer, support)) in enumerate(STORIES.items())
    ]
    task = inspect_ai.Task(
        dataset=MemoryDataset(samples), scorer=[includes(), match()], name="where"
    )
    server = ChatServer(STORIES, MODELS)
    with serving(server):
        for model in MODELS:
            evaluate(task, model, server, folder / model, epochs=2)
        yield Logged(folder, server)


def evaluate(task: Any, model: str, server: ChatServer, folder: Path, **more: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCAL_API_KEY", "any")
        (log,) = inspect_ai.eval(
            task,
            model=f"openai-api/local/{model}",
            model_base_url=server.url,
            log_dir=str(folder),
            display="none",
            **more,
        )
    assert log.status == "success", log.error
    return log


def test_scores_and_items_are_those_that_inspect_reads(logged: Logged) -> None:
    for model in MODELS:
        theirs = read_eval_log(str(logged.log(model)))
        summaries = {
            (one.id, one.epoch): one
            for one in read_eval_log_sample_summaries(str(logged.log(model)))
        }
        accuracy = theirs.results.scores[0].metrics["accuracy"].value
        runs = list(tl.runs(logged.log(model)))
        assert [(run.recipe, run.learner, run.seed) for run in runs] == [
            ("where", f"openai-api/local/{model}", seed) for seed in (0, 1)
        ]
        assert sum(run.splits["test"].score or 0 for run in runs) / 2 == pytest.approx(accuracy)
        for epoch, run in enumerate(runs, start=1):
            ours = tl.runs(logged.log(model)).where(f"seed={run.seed}").predictions().to_pylist()
            samples = [one for one in theirs.samples if one.epoch == epoch]
            assert sorted((row["input"], tuple(row["targets"])) for row in ours) == sorted(
                (summaries[one.id, epoch].input, (one.target,)) for one in samples
            )
            # Summaries have answers on one line.
            assert sorted(row["prediction"] for row in ours) == sorted(
                " ".join(one.scores["includes"].answer.split()) for one in samples
            )


def test_two_models_are_compared_on_the_same_items(logged: Logged) -> None:
    rows = list(
        tl.runs(logged.folder).compare("openai-api/local/m", "openai-api/local/n", by="support")
    )
    assert [(row["support"], row["items"]) for row in rows] == [("1", 30), ("2", 30)]


def test_rescored_replies_score_as_those_of_an_endpoint(
    logged: Logged, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Inspect's own scorers look for the answer anywhere in a reply, thoughts included."""
    folder = str(tmp_path / "new")
    command = ["runs", "rescore", str(logged.folder), "--scorer", "any-of", "--extract", "final"]
    assert cli([*command, "-o", folder]) == 0, capsys.readouterr()
    for model in MODELS:
        block = {"learner": "endpoint", "url": logged.server.url, "model": model}
        endpoint: Any = read({**block, "answer_format": "", "pause": 0.01}).fit([])
        answers = endpoint.answer(list(STORIES))
        right = [
            said == answer for said, (answer, _) in zip(answers, STORIES.values(), strict=True)
        ]
        for run in tl.runs(folder).where(learner=f"openai-api/local/{model}"):
            assert run.splits["test"].score == pytest.approx(sum(right) / len(right))
    page = tmp_path / "page.html"
    assert cli(["runs", "report", folder, "-o", str(page)]) == 0
    assert "Score by support" in page.read_text(encoding="utf-8")


def test_score_reads_the_log_of_a_recipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from taskloom.interop.inspect import recipe_to_task

    data = tl.make("babi/1", tmp_path / "data", set={"splits": {"train": 20, "test": 40}})
    known = {example.input: (example.target, 1) for example in data["test"]}
    server = ChatServer(known, {"m": 0.7})
    with serving(server):
        task = recipe_to_task(str(tmp_path / "data"), "test")
        log = evaluate(task, "m", server, tmp_path / "log")
    (file,) = (tmp_path / "log").glob("*.eval")
    gold = ["--gold", str(tmp_path / "data"), "--pred", str(file)]
    assert cli(["score", "babi", *gold, "--extract", "final", "--json"]) == 0, capsys.readouterr()
    scored = json.loads(capsys.readouterr().out)
    mean = next(s for s in log.results.scores if "mean" in s.metrics).metrics["mean"].value
    assert 0.2 < mean < 1
    assert scored["accuracy"] == pytest.approx(mean)
