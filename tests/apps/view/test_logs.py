"""Logs of other tools in the browser: the same pages as for a run store."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from taskloom.apps.view import folders, stores
from taskloom.apps.view.folders import viewed_folders
from taskloom.apps.view.server import application
from taskloom.cli import run as cli
from tests.apps.view.hostile import SCRIPT, assert_harmless
from tests.experiments.sources.test_eval_logs import sample, write_log

MODELS = {"openai/gpt": 8, "meta/llama": 4}
"""Right answers to the ten questions, the first ones, by model."""


def whole(number: int, reply: str = "It is 7.") -> dict[str, Any]:
    """A sample as Inspect's log has it: with all messages, thinking and tokens."""
    said = [{"type": "reasoning", "reasoning": "One more."}, {"type": "text", "text": reply}]
    asked = f"What follows {number}? {'Think well. ' * 50}The end."
    return {
        "id": f"q{number}",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": asked}]},
            {"role": "assistant", "content": said},
        ],
        "output": {
            "completion": reply,
            "choices": [{"message": {"role": "assistant", "content": said}, "stop_reason": "stop"}],
            "usage": {"input_tokens": 14, "output_tokens": 16, "reasoning_tokens": 3},
            "time": 0.25,
        },
    }


def write_logs(folder: Path) -> None:
    """A log for each model, each in a folder of its own."""
    for model, right in MODELS.items():
        place = folder / model.replace("/", "__")
        place.mkdir(parents=True)
        samples = [sample(n, value="C" if n < right else "I") for n in range(10)]
        files = {f"samples/q{n}_epoch_1.json": whole(n) for n in range(10)}
        write_log(place / "log.eval", samples, model=model, files=files)


def harness_row(number: int, right: bool) -> dict[str, Any]:
    """A row of a sample file of lm-evaluation-harness."""
    return {
        "doc_id": number,
        "doc": {"level": number % 3},
        "target": "yes",
        "arguments": {"gen_args_0": {"arg_0": f"Question {number}", "arg_1": {}}},
        "resps": [[f"Let me see. {'yes' if right else 'no'}"]],
        "filtered_resps": ["yes" if right else "no"],
        "metrics": ["exact_match"],
        "exact_match": float(right),
    }


class Pages:
    """The pages of the only run store that the viewer of some paths shows."""

    def __init__(self, *paths: Path) -> None:
        self.viewer = TestClient(
            application(viewed_folders(paths)), base_url="http://127.0.0.1", follow_redirects=True
        )
        (address,) = set(re.findall(r'href="(/runs/[^"/]+)"', self.viewer.get("/").text))
        self.address = address

    def get(self, path: str = "", status: int = 200, **query: str) -> str:
        """Text of a page, after checking its status and that nothing in it is markup from data."""
        answer = self.viewer.get(f"{self.address}{path}", params=query)
        assert answer.status_code == status, answer.text
        assert_harmless(answer.text)
        return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", "", answer.text)))

    def run(self, model: str) -> str:
        """Digest of the run of a model."""
        page = self.viewer.get(self.address, params={"q": model}).text
        return str(re.findall(r"run\?run=([0-9a-f]+)", page)[0])


@pytest.fixture(autouse=True)
def _always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "FRESH", 0.0)
    monkeypatch.setattr(folders, "FRESH", 0.0)


def test_a_folder_of_inspect_logs_has_the_pages_of_a_run_store(tmp_path: Path) -> None:
    write_logs(tmp_path)
    pages = Pages(tmp_path)
    assert "2 runs" in pages.get()
    run = pages.run("gpt")
    shown = pages.get("/predictions", run=run, split="test", by="size")
    assert "8 of 10 right" in shown
    assert "0.800" in shown, "by a trait"
    for text in ("Be brief.", "Think well. The end.", "One more.", "It is 7.", "tokens out 16"):
        assert text in shown, "the whole prompt and reply, which summaries do not have"
    compared = pages.get("/compare", a=run, b=pages.run("llama"), by="size")
    assert "only A is right" in compared.replace("Only", "only")
    assert "0.400" in compared or "-0.4" in compared, "the paired difference"
    assert "0.805" in pages.get(
        "/heat", learner="openai/gpt", recipe="follow", x="size", y="even"
    ), "0.80 of 5"
    assert "follow" in pages.get("/run", run=run)
    pages.get("/live")


def test_only_the_samples_of_a_page_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from taskloom.core.predictions import EvalArchive

    write_logs(tmp_path)
    read: list[str] = []
    original = EvalArchive.json

    def counted(self: EvalArchive, name: str) -> Any:
        read.append(name)
        return original(self, name)

    monkeypatch.setattr(EvalArchive, "json", counted)
    pages = Pages(tmp_path)
    run = pages.run("gpt")
    assert not [name for name in read if name.startswith("samples/")]
    pages.get("/predictions", run=run, split="test", show="wrong")
    assert {name for name in read if name.startswith("samples/")} == {
        "samples/q8_epoch_1.json",
        "samples/q9_epoch_1.json",
    }


def test_sample_files_of_the_harness_show_prompt_and_reply(tmp_path: Path) -> None:
    for model in ("a", "b"):
        (tmp_path / model).mkdir()
        rows = [harness_row(n, n > 2 and model == "a") for n in range(6)]
        file = tmp_path / model / "samples_sums_2026-01-01T00-00-00.jsonl"
        file.write_text("\n".join(map(json.dumps, rows)))
    pages = Pages(tmp_path)
    shown = pages.get("/predictions", run=pages.run("a"), split="test")
    assert "3 of 6 right" in shown
    assert "Question 0" in shown
    assert "Let me see. no" in shown
    pages.get("/compare")


def test_logs_that_are_named_one_by_one_are_compared_and_read_again_when_written(
    tmp_path: Path,
) -> None:
    paths = [tmp_path / "first.eval", tmp_path / "second.eval"]
    for path in paths:
        write_log(path, [sample(0), sample(1)], model=path.stem)
    (tmp_path / "c.eval").write_bytes(b"not named")
    pages = Pages(*paths)
    assert "2 runs" in pages.get()
    write_log(paths[1], [sample(0), sample(1), sample(2)], model="second")
    assert "of 3 right" in pages.get("/predictions", run=pages.run("second"), split="test")


def test_a_bad_log_in_a_folder_is_named_and_hides_no_other(tmp_path: Path) -> None:
    write_logs(tmp_path)
    (tmp_path / "bad.eval").write_bytes(b"half an archive")
    page = Pages(tmp_path).get()
    assert "2 runs" in page.replace("3 runs", "2 runs")
    assert "bad.eval cannot be read" in page


def test_a_sample_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    samples = [sample(0, value="I")]
    files = {"samples/q0_epoch_1.json": ["no sample"]}
    write_log(tmp_path / "a.eval", samples, files=files)
    pages = Pages(tmp_path)
    assert "0 of 1 right" in pages.get("/predictions", run=pages.run("gpt"), split="test")


@pytest.mark.parametrize(
    ("odd", "prompt_and_reply"),
    [
        ({"messages": "text", "output": {"completion": 3, "usage": [], "choices": {}}}, "Reply3 "),
        (
            {"messages": [1, {"role": 2, "content": {"a": SCRIPT}}], "output": None},
            f'2{{"a": "{SCRIPT}"}}Reply(nothing) ',
        ),
        (
            {"output": {"completion": "\ud800" + SCRIPT, "usage": {"input_tokens": 2**70}}},
            f"Reply?{SCRIPT} ",
        ),
        (
            {
                "messages": [{"content": [SCRIPT, {"text": 3}]}],
                "output": {"choices": [[]], "time": "x"},
            },
            "(part) 3Reply(nothing) ",
        ),
    ],
)
def test_odd_samples_are_shown_as_text(
    tmp_path: Path, odd: dict[str, Any], prompt_and_reply: str
) -> None:
    write_log(tmp_path / "a.eval", [sample(0, value="I")], files={"samples/q0_epoch_1.json": odd})
    pages = Pages(tmp_path)
    shown = pages.get("/predictions", run=pages.run("gpt"), split="test")
    assert "0 of 1 right" in shown
    assert prompt_and_reply in shown


def test_logs_beside_data_do_not_hide_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_logs(tmp_path / "logs")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "test.jsonl").write_text('{"input": "a", "target": "b"}\n')
    assert cli(["view", str(tmp_path), "--list", "--json"]) == 0
    listed = {
        (one["kind"], Path(one["folder"]).name) for one in json.loads(capsys.readouterr().out)
    }
    assert listed == {("store", "logs"), ("dataset", "data")}


def test_links_out_of_a_folder_are_not_followed(tmp_path: Path) -> None:
    secret = write_log(tmp_path / "secret.eval", [sample(0)])
    (tmp_path / "viewed").mkdir()
    (tmp_path / "viewed" / "a.eval").symlink_to(secret)
    assert not viewed_folders([tmp_path / "viewed"]).every()


def test_predictions_in_plain_lines_are_viewed_by_the_file_that_names_them(tmp_path: Path) -> None:
    lines = [json.dumps({"id": n, "prediction": f"I guess. Answer: {n}"}) for n in (3, 1)]
    (tmp_path / "replies.jsonl").write_text("\n".join(lines))
    (tmp_path / "named.yaml").write_text(
        "recipe: ctl/A-independent\n"
        "set: {splits: {train: {n: 600}, ood: {n: 4}}}\n"
        "extract: final\n"
        "predictions: [{model: m, split: ood, file: replies.jsonl}]\n"
    )
    pages = Pages(tmp_path / "named.yaml")
    shown = pages.get("/predictions", run=pages.run("ctl"), split="ood")
    assert "of 2 right" in shown
    assert "I guess. Answer: 3" in shown, "the whole reply"
    assert "ood 3" in shown, "the example that the id means"


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("a.eval", b"half an archive", "not a complete log"),
        ("samples_a_b.jsonl", b"[]\n", "line 1"),
        ("replies.jsonl", b'{"prediction": "a"}\n', "YAML file"),
        ("missing.eval", None, "there is no"),
    ],
)
def test_a_bad_file_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes | None, part: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    assert cli(["view", str(path), "--port", "0"]) == 2
    error = capsys.readouterr().err.strip()
    assert name in error
    assert part in error
    assert len(error.splitlines()) == 1
