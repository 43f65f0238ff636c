"""The how-to page on models behind an API, typed as it stands: every YAML block and every command,
against a server that behaves as real ones do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from tests.learners.chat_server import ChatServer, serving
from tests.shell_lines import run_line, statements

import taskloom as tl
from taskloom.core import extraction
from taskloom.core.example import Example
from taskloom.core.shards import to_examples
from taskloom.data.workers import table_of
from taskloom.experiments.execute import engines
from taskloom.experiments.execute.engines import HereEngine
from taskloom.recipe import read

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "how-to" / "evaluate-an-api-model.md"
BLOCK = re.compile(r"^```(yaml|sh)( [^\n]*)?\n(.*?)^```$", re.M | re.S)
SMALL: dict[str, Any] = {"mix-T7": {"mix": {"n": 70}}, "diverse-T7": {"train": {"n": 60}}}
"""Sizes of the recipes' splits, a small part of their own."""

KEY = "sk-SECRET-4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c"


def stories() -> list[Example]:
    plan = read("babi/mix-T7", {"splits": SMALL["mix-T7"]}).plan(None)
    split = plan.split("mix")
    return list(to_examples(table_of(plan, split, 0, split.n)))


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, ChatServer]]:
    """The folder in which everything on the page was typed, and the server."""
    folder = tmp_path_factory.mktemp("page")
    known = {e.input: (e.target, int(str(e.traits["support"]))) for e in stories()}
    server = ChatServer(known, {"small": 0.7, "large": 1.0, "new-model": 0.9})
    with serving(server), pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", KEY)
        patch.setattr(engines, "start", lambda name, **options: HereEngine())
        for language, mark, body in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
            if language == "yaml":
                name = body.partition("\n")[0].removeprefix("# ")
                short = re.sub(r"limit: \d+", "limit: 40", body)
                for recipe, splits in SMALL.items():
                    block = {"recipe": f"babi/{recipe}", "set": {"splits": splits}}
                    short = short.replace(f"[babi/{recipe}]", json.dumps([block]))
                local = short.replace("http://localhost:8000/v1", server.url)
                (folder / name).write_text(local)
            elif "needs a server" in mark:
                for command in statements(body):
                    if not command.startswith("export "):
                        result = run_line(command, folder)
                        assert result.status == 0, (command, result.errors)
                        assert KEY not in result.output + result.errors
        yield folder, server


def test_one_file_and_two_commands_say_where_two_models_fail(
    typed: tuple[Path, ChatServer],
) -> None:
    folder, _ = typed
    text = (folder / "report.html").read_text(encoding="utf-8")
    for needed in (
        "Score by supporting facts",
        "Score by question type",
        "Score by wording",
        "Comparisons",
        "in form",
        "tokens out",
        "cost",
        "without an answer",
    ):
        assert needed in text, needed
    runs = tl.runs(folder / "runs")
    rows = {row["learner"]: row for row in runs.accuracy()}
    assert set(rows) == {"small", "large"}
    for row in rows.values():
        assert 0 < row["low"] < row["mean"] < row["high"]
        assert 0 < row["in_form"] < 1
        assert row["cost"] > 0
        assert row["tokens_out"] > 0
    depths = {
        row["support"]: row["mean"] for row in runs.where(learner="large").accuracy("support")
    }
    assert depths["1"] > depths["3"]
    (paired,) = runs.compare("small", "large")
    assert paired["low"] <= paired["difference"] <= paired["high"]


def test_the_page_compares_two_models() -> None:
    assert "taskloom runs compare runs small large" in PAGE.read_text(encoding="utf-8")


def test_every_wrong_answer_opens_with_its_prompt_and_reply(
    typed: tuple[Path, ChatServer],
) -> None:
    folder, _ = typed
    replies = list(tl.runs(folder / "runs").replies())
    assert len(replies) == 80
    outcomes = {row["outcome"] for row in replies}
    assert {"answered", "empty"} <= outcomes
    for row in replies:
        (turn,) = json.loads(row["messages"])
        assert turn["content"].endswith(extraction.ANSWER_FORMAT)
        assert "|" not in turn["content"]
        assert row["answer"] == row["prediction"]
        assert bool(row["rule"]) == (row["outcome"] == "answered")
    shown = tl.runs(folder / "runs").replies()._repr_html_()  # as a notebook has it
    assert extraction.ANSWER_FORMAT[:20] in shown


def test_the_viewer_names_the_models_and_shows_prompt_and_reply(
    typed: tuple[Path, ChatServer],
) -> None:
    testing = pytest.importorskip("starlette.testclient")
    from taskloom.apps.view.folders import ViewedFolders
    from taskloom.apps.view.server import application

    folder, _ = typed
    stores = {f.path.name: f.name for f in ViewedFolders([folder]).every() if f.kind == "store"}
    at = f"/runs/{stores['runs']}"
    runs = tl.runs(folder / "runs")
    first, second = sorted(runs, key=lambda run: run.learner)
    with testing.TestClient(application([folder]), base_url="http://127.0.0.1") as viewer:
        listed = viewer.get(at).text
        assert "large" in listed
        assert "small" in listed
        assert "endpoint" not in listed
        answers = viewer.get(f"{at}/predictions", params={"run": first.name, "split": "mix"}).text
        assert "Prompt and reply" in answers
        assert extraction.ANSWER_FORMAT[:20] in answers
        sides = {"a": first.name, "b": second.name, "split": "mix"}
        compared = viewer.get(f"{at}/compare", params=sides).text
        assert "large, babi/mix-T7, seed 0" in compared
        assert "small, babi/mix-T7, seed 0" in compared
        assert compared.lower().count("prompt and reply") >= 2


def test_the_key_is_nowhere_on_disk(typed: tuple[Path, ChatServer]) -> None:
    folder, _ = typed
    for path in folder.rglob("*"):
        if path.is_file():
            raw = path.read_bytes()
            raw += (
                str(pq.read_table(path).to_pylist()).encode() if path.suffix == ".parquet" else b""
            )
            assert KEY.encode() not in raw, path


def test_examples_are_shown_as_earlier_turns(typed: tuple[Path, ChatServer]) -> None:
    _, server = typed
    asked = [r for r in server.requests if len(r.get("messages", ())) > 2]
    roles = [message["role"] for message in asked[0]["messages"]]
    assert roles == ["system", *["user", "assistant"] * 4, "user"]
    assert asked[0]["messages"][2]["content"].startswith("Answer: ")
    assert asked[0]["temperature"] == 0


def test_both_protocols_give_the_same_answers(typed: tuple[Path, ChatServer]) -> None:
    folder, server = typed
    assert {r["path"] for r in server.requests} >= {"/v1/chat/completions", "/v1/responses"}
    tables = [
        pq.read_table(path, columns=["prediction"]).to_pylist()
        for path in (folder / "refusing-runs").glob("??/*/predictions.parquet")
    ]
    assert len(tables) == 2
    assert tables[0] == tables[1]


def test_samples_are_independent_requests(typed: tuple[Path, ChatServer]) -> None:
    folder, server = typed
    warm = [r for r in server.requests if r.get("temperature") == 1]
    assert len(warm) >= 5 * 40
    (row,) = tl.runs(folder / "sample-runs").samples()
    assert row["samples"] == 5
    # The server gives every sample the same reply, which the table has to show.
    assert row["distinct"] == 1
    assert row["pass@1"] == pytest.approx(row["pass@5"]) == pytest.approx(row["majority"])


def test_the_page_of_prompts_states_the_defaults() -> None:
    page = (DOCS / "reference" / "prompts.md").read_text(encoding="utf-8")
    assert extraction.ANSWER_FORMAT in page
    assert f"| extraction | `{extraction.EXTRACT}` |" in page


def test_every_learner_and_bridge_has_these_defaults() -> None:
    import inspect

    from taskloom.interop import reasoning_gym, trl
    from taskloom.interop.graded import open_split
    from taskloom.learners.models.providers import Endpoint, ProviderModel

    asked: list[Any] = [Endpoint, ProviderModel, reasoning_gym.GymConfig]
    for one in [*asked, open_split]:
        given = inspect.signature(one).parameters
        assert given["extract"].default == extraction.EXTRACT
        assert given["answer_format"].default == extraction.ANSWER_FORMAT
        if one is not open_split:
            assert given["described"].default == extraction.DESCRIBED
    # TRL's functions pass their settings on to `open_split`.
    small = ["splits.train.n=10", "splits.iid.n=5", "splits.ood.n=5"]
    plain, _ = trl.recipe_rewards("ctl/A", n=1, changes=small, described=False)
    prompts, _ = trl.recipe_rewards("ctl/A", n=1, changes=small)
    (message,), (bare,) = prompts[0]["prompt"], plain[0]["prompt"]
    assert extraction.ANSWER_FORMAT in message["content"]
    assert (len(message["content"]) > len(bare["content"])) == extraction.DESCRIBED


def test_all_blocks_of_the_page_are_experiments() -> None:
    found = [body for kind, _, body in BLOCK.findall(PAGE.read_text()) if kind == "yaml"]
    assert len(found) == 6
    for body in found:
        assert {"recipes", "learners"} <= set(yaml.safe_load(body))


def test_tables_by_trait_have_the_share_of_answers_in_form(
    typed: tuple[Path, ChatServer],
) -> None:
    folder, _ = typed
    runs = tl.runs(folder / "runs")
    whole = {row["learner"]: row["in_form"] for row in runs.accuracy()}
    for learner, share in whole.items():
        rows = list(runs.where(learner=learner).accuracy("support"))
        assert len(rows) > 1
        total = sum(row["n"] for row in rows)
        assert sum(row["n"] * row["in_form"] for row in rows) / total == pytest.approx(share)
    compared = list(runs.compare("small", "large", by="support"))
    assert {0 <= row[f"{side} in_form"] <= 1 for row in compared for side in "ab"} == {True}
    (paired,) = runs.compare("small", "large")
    assert (paired["a in_form"], paired["b in_form"]) == (whole["small"], whole["large"])


SERVED: dict[str, Any] = {"recipe": "babi/mix-T7", "set": {"splits": SMALL["mix-T7"]}}


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are made in this process."""
    monkeypatch.setattr(engines, "start", lambda name, **options: HereEngine())


@pytest.mark.usefixtures("here")
def test_prices_that_are_added_later_make_no_new_runs_and_ask_nothing(tmp_path: Path) -> None:
    server = ChatServer({e.input: (e.target, 1) for e in stories()})

    def asked(**settings: Any) -> tl.Runs:
        learner = {"learner": "endpoint", "url": server.url, "model": "m", **settings}
        return tl.run(recipes=[SERVED], learners=[learner], limit=10, store=tmp_path / "runs")

    with serving(server):
        (free,) = asked()
        requests = len(server.requests)
        assert next(iter(asked().accuracy())).get("cost") is None
        for prices in ({"in": 1, "out": 10}, {"in": 2, "out": 20}):
            (row,) = asked(prices=prices).accuracy()
            (priced,) = tl.runs(tmp_path / "runs")
            assert priced.name == free.name
            assert priced.fields == free.fields
            replies = list(tl.runs(tmp_path / "runs").replies())
            costs = [
                (r["tokens_in"] * prices["in"] + r["tokens_out"] * prices["out"]) / 1e6
                for r in replies
            ]
            assert [r["cost"] for r in replies] == pytest.approx(costs)
            assert row["cost"] == pytest.approx(sum(costs))
        assert len(server.requests) == requests


def test_a_budget_in_money_depends_on_prices() -> None:
    from taskloom.experiments.spec.cells import expand
    from taskloom.experiments.spec.experiment import check

    def runs(price: int, **more: Any) -> str:
        learner = {"learner": "endpoint", "model": "m", "prices": {"in": price, "out": price}}
        (cell,) = expand(check({"recipes": [SERVED], "learners": [learner], **more}, "here"))
        return cell.run

    assert runs(1) == runs(2)
    assert runs(1, until={"budget": "2000items"}) == runs(2, until={"budget": "2000items"})
    assert runs(1, until={"budget": "5usd"}) != runs(2, until={"budget": "5usd"})


@pytest.mark.usefixtures("here")
def test_a_failed_run_is_named_by_what_distinguishes_it(tmp_path: Path) -> None:
    server = ChatServer({e.input: (e.target, 1) for e in stories()})
    common: dict[str, Any] = {
        "learner": "endpoint",
        "url": server.url,
        "prices": {"in": 1, "out": 1},
    }
    learners = [
        {**common, "model": "small"},
        {**common, "model": "new-model", "request": {"temperature": 0}},
        {**common, "model": "new-model", "limit_name": "max_completion_tokens"},
    ]
    content = {"recipes": [SERVED], "learners": learners, "limit": 5}
    (tmp_path / "e.yaml").write_text(json.dumps(content))
    with serving(server):
        result = run_line("taskloom run e.yaml --store runs", tmp_path)
    (line,) = [one for one in result.output.splitlines() if "max_tokens" in one]
    assert line.startswith("  new-model on babi/mix-T7, request={'temperature': 0} (")
    assert server.url not in line.partition(": ")[0]
    ((_, failed),) = tl.runs(tmp_path / "runs").failures().items()
    assert failed.cell == "new-model on babi/mix-T7, request={'temperature': 0}"
