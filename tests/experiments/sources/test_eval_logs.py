"""Logs of Inspect and lm-evaluation-harness as runs."""

from __future__ import annotations

import json
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import taskloom as tl
from taskloom.cli import run as cli
from taskloom.core.errors import DataError
from taskloom.experiments.rescore import rescore_logs


def sample(number: int, epoch: int = 1, value: Any = "C", **more: Any) -> dict[str, Any]:
    """What an Inspect log says of a sample in its summaries."""
    return {
        "id": f"q{number}",
        "epoch": epoch,
        "input": f"What follows {number}?",
        "target": str(number + 1),
        "metadata": {"size": number % 2, "even": number % 2 == 0, "notes": {"nested": 1}},
        "scores": {"match": {"value": value, "answer": f"{number + 1}"}},
        **more,
    }


def write_log(
    path: Path,
    samples: list[dict[str, Any]],
    *,
    model: str = "openai/gpt",
    zstandard: bool = False,
    finished: bool = True,
    seed: int | None = None,
    files: dict[str, Any] | None = None,
) -> Path:
    """Write an archive with the members that Inspect writes, compressed as it compresses them."""
    about = {
        "task": "follow",
        "task_display_name": "follow",
        "model": model,
        "task_args": {"shots": 2},
        "model_generate_config": {"temperature": 0.5, "seed": seed},
    }
    members: dict[str, Any] = {"_journal/start.json": {"version": 2, "eval": about}}
    members |= files or {}
    if finished:
        results = {"headline": {"scorer": "match"}}
        members["summaries.json"] = samples
        members["header.json"] = {"version": 2, "eval": about, "results": results}
    else:
        half = len(samples) // 2
        members["_journal/summaries/1.json"] = samples[:half]
        members["_journal/summaries/10.json"] = samples[half:]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            if not zstandard:
                archive.writestr(name, json.dumps(content))
    if zstandard:
        path.write_bytes(zstandard_archive({n: json.dumps(c).encode() for n, c in members.items()}))
    return path


def zstandard_archive(members: dict[str, bytes]) -> bytes:
    """A zip archive by method 93, which Python's zipfile lists but does not write or read."""
    body, directory = b"", b""
    for name, content in members.items():
        packed = pa.compress(content, codec="zstd", asbytes=True)
        common = struct.pack(
            "<HHHHHIIIHH",
            20, 0, 93, 0, 0, zlib.crc32(content), len(packed), len(content), len(name), 0,
        )  # fmt: skip
        directory += (
            b"PK\x01\x02" + struct.pack("<H", 20) + common
            + struct.pack("<HHHII", 0, 0, 0, 0, len(body)) + name.encode()
        )  # fmt: skip
        body += b"PK\x03\x04" + common + name.encode() + packed
    count = len(members)
    end = struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), len(body), 0)
    return body + directory + b"PK\x05\x06" + end


@pytest.mark.parametrize("zstandard", [False, True])
@pytest.mark.parametrize("finished", [False, True])
def test_an_inspect_log_is_a_run_for_each_epoch(
    tmp_path: Path, zstandard: bool, finished: bool
) -> None:
    samples = [sample(n, epoch, "C" if n < 6 else "I") for epoch in (1, 2) for n in range(10)]
    path = write_log(tmp_path / "a.eval", samples, zstandard=zstandard, finished=finished)
    runs = tl.runs(path)
    assert [(r.recipe, r.learner, r.seed) for r in runs] == [
        ("follow", "openai/gpt", 0),
        ("follow", "openai/gpt", 1),
    ]
    first = next(iter(runs))
    assert (first.splits["test"].n, first.splits["test"].score) == (10, 0.6)
    assert first.fields == {"recipe.shots": 2, "learner.temperature": 0.5}
    by_size = {row["size"]: row["mean"] for row in runs.accuracy(by=["size"])}
    assert by_size == {"0": 0.6, "1": 0.6}


def test_two_models_are_paired_by_the_ids_of_samples_whatever_their_order(tmp_path: Path) -> None:
    right = {0, 1, 2, 3, 4, 5}
    write_log(tmp_path / "a.eval", [sample(n, value=n in right) for n in range(10)], model="a")
    other = [sample(n, value=n in right - {0}) for n in reversed(range(10))]
    write_log(tmp_path / "b.eval", other, model="b")
    row = next(iter(tl.compare(tl.runs(tmp_path), "a", "b", split="test", test="mcnemar")))
    assert (row["items"], row["difference"]) == (10, -0.1)
    assert row["p"] == 0.5, "mid-p of one discordant pair; by order there would be nine"


@pytest.mark.parametrize(
    ("values", "mean"),
    [(["C", "P", "I", "N"], 0.375), ([True, False], 0.5), ([0.25, 0.75], 0.5)],
)
def test_grades_booleans_and_numbers_are_scores(
    tmp_path: Path, values: list[Any], mean: float
) -> None:
    samples = [sample(n, value=value) for n, value in enumerate(values)]
    runs = tl.runs(write_log(tmp_path / "a.eval", samples))
    assert next(iter(runs)).splits["test"].score == mean


def test_samples_that_failed_or_were_not_scored_are_left_out(tmp_path: Path) -> None:
    samples = [sample(0), sample(1, error="boom"), sample(2, scores=None), sample(3, value="I")]
    only = next(iter(tl.runs(write_log(tmp_path / "a.eval", samples))))
    assert (only.splits["test"].n, only.splits["test"].score) == (2, 0.5)


def test_a_reply_that_no_scorer_extracted_is_read_from_its_sample(tmp_path: Path) -> None:
    bare = sample(0, scores={"model_graded": {"value": "C", "answer": None}})
    whole = {"samples/q0_epoch_1.json": {"output": {"completion": "It is 1."}}}
    runs = tl.runs(write_log(tmp_path / "a.eval", [bare], files=whole))
    assert runs.predictions()["prediction"].to_pylist() == ["It is 1."]


def test_samples_of_the_harness_are_a_run_for_each_filter(tmp_path: Path) -> None:
    folder = tmp_path / "meta__llama"
    folder.mkdir()
    rows = [
        {
            "doc_id": n,
            "doc": {"question": "x" * 200, "level": n % 2},
            "target": str(n),
            "arguments": {"gen_args_0": {"arg_0": f"Q: {n}", "arg_1": {"until": ["\n"]}}},
            "resps": [[f"the answer is {n}"]],
            "filtered_resps": [str(n)],
            "filter": name,
            "metrics": ["exact_match"],
            "exact_match": float(n % 2 if name == "strict" else 1),
        }
        for name in ("strict", "loose")
        for n in range(4)
    ]
    file = folder / "samples_gsm8k_2026-11-18T00-00-00.000000.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    runs = tl.runs(tmp_path)
    found = {run.fields["learner.filter"]: run.splits["test"].score for run in runs}
    assert found == {"strict": 0.5, "loose": 1.0}
    only = next(iter(runs))
    assert (only.recipe, only.learner) == ("gsm8k", "meta/llama")
    assert set(runs.predictions()["input"].to_pylist()) == {f"Q: {n}" for n in range(4)}
    strict = runs.where("learner.filter=strict")
    assert {row["level"]: row["mean"] for row in strict.accuracy(by=["level"])} == {
        "0": 0.0,
        "1": 1.0,
    }


def choice_row(number: int) -> dict[str, Any]:
    """A choice as the harness logs it: likelihoods as texts, the target as a number."""
    choices = ["hall", "attic", "den"]
    likelihoods = [[[str(-9.0 + (i == number % 3)), "False"]] for i in range(3)]
    record = {"input": "Q", "targets": ["attic"], "traits": {"support": number % 2}}
    return {
        "doc_id": number,
        "doc": {"choice": 1, "record": json.dumps(record)},
        "target": "1",
        "arguments": {
            f"gen_args_{i}": {"arg_0": f"Q {number}", "arg_1": f" {text}"}
            for i, text in enumerate(choices)
        },
        "resps": likelihoods,
        "filtered_resps": [one[0] for one in likelihoods],
        "filter": "none",
        "metrics": ["acc"],
        "acc": float(number % 3 == 1),
    }


def generated_row(number: int) -> dict[str, Any]:
    """A reply to a generation task of ours, whose target in the log has `Answer:` before it."""
    text = f"So it is.\nAnswer: {'attic' if number % 3 else 'hall'}"
    return {
        **choice_row(number),
        "target": "Answer: attic",
        "arguments": {"gen_args_0": {"arg_0": f"Q {number}", "arg_1": {"until": []}}},
        "resps": [[text]],
        "filtered_resps": [text],
        "acc": float(number % 3 > 0),
    }


@pytest.mark.parametrize("row", [choice_row, generated_row])
def test_samples_of_our_tasks_have_their_answers_and_traits(
    row: Callable[[int], dict[str, Any]], tmp_path: Path
) -> None:
    folder = tmp_path / "logs" / "m"
    folder.mkdir(parents=True)
    lines = [json.dumps(row(number)) + "\n" for number in range(12)]
    (folder / "samples_where_2026.jsonl").write_text("".join(lines))
    runs = tl.runs(tmp_path / "logs")
    assert {row["support"] for row in runs.accuracy("support")} == {"0", "1"}
    kept = runs.predictions().to_pylist()
    assert {tuple(one["targets"]) for one in kept} == {("attic",)}
    if row is choice_row:
        assert [one["prediction"] for one in kept[:3]] == ["hall", "attic", "den"]
    # Scored again, the answers are as right as they were.
    (change,) = rescore_logs(tmp_path / "logs", "any-of", "final")
    assert change.before == change.after
    assert not change.changed


def test_the_commands_about_runs_take_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_log(tmp_path / "a.eval", [sample(n) for n in range(10)], model="a")
    write_log(tmp_path / "b.eval", [sample(n, value="I") for n in range(10)], model="b")
    assert cli(["runs", "show", str(tmp_path), "--by", "size"]) == 0
    assert cli(["runs", "compare", str(tmp_path), "a", "b"]) == 0
    page = tmp_path / "page.html"
    assert cli(["runs", "report", str(tmp_path), "-o", str(page)]) == 0
    assert "follow" in page.read_text()
    capsys.readouterr()


def test_half_surrogate_pairs_and_long_seeds_are_read(tmp_path: Path) -> None:
    samples = [sample(0, input="What follows \ud83d?", metadata={"kind": "\ude00"})]
    path = write_log(tmp_path / "a.eval", samples, seed=2**70)
    runs = tl.runs(path)
    assert runs.predictions()["input"].to_pylist() == ["What follows ??"]
    assert next(iter(runs)).fields["learner.seed"] == str(2**70)
    assert len(runs.accuracy(by=["kind"])) == 1


def test_a_comparison_says_which_side_is_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the table alone: CSV and JSON hold nothing but rows."""
    models = {"openai/gpt": "C", "meta/llama": "I"}
    for number, (model, value) in enumerate(models.items()):
        samples = [sample(n, value=value) for n in range(10)]
        write_log(tmp_path / f"{number}.eval", samples, model=model)
    command = ["runs", "compare", str(tmp_path), *models]
    assert cli(command) == 0
    shown = capsys.readouterr().out
    assert re.search(r"\ba\b.*openai/gpt.*\bb\b.*meta/llama", shown), shown
    assert cli([*command, "--format", "csv"]) == 0
    assert "meta/llama" not in capsys.readouterr().out
    assert cli([*command, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["a"], row["b"]) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.eval", b"not a zip", "cannot be read"),
        ("a.eval", zstandard_archive({"x.json": b"{}"}), "has no header"),
        ("a.eval", zstandard_archive({"header.json": b"{"}), "header.json cannot be read"),
        (
            "a.eval",
            zstandard_archive({"header.json": b'{"eval": {}}', "summaries.json": b"[1]"}),
            "has a record that Inspect does not write",
        ),
        (
            "samples_x_1.jsonl",
            b'{"doc_id": 0, "metrics": [[]], "acc": 1}\n',
            "has a record that lm-evaluation-harness does not write",
        ),
        ("samples_x_1.jsonl", b"{}\n", "line 1: no 'doc_id'"),
        ("samples_x_1.jsonl", b"[\n", "line 1: not JSON"),
        ("samples_x_1.jsonl", b'{"doc_id": 0, "resps": [["a"]]}\n', "no metric"),
    ],
)
def test_a_file_that_is_no_log_is_refused_with_its_name(
    tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=sentence):
        tl.runs(tmp_path / name)


@pytest.mark.parametrize("place", range(60, 400, 20))
def test_a_damaged_log_is_one_sentence(tmp_path: Path, place: int) -> None:
    path = write_log(tmp_path / "a.eval", [sample(number) for number in range(40)])
    damaged = bytearray(path.read_bytes())
    damaged[place] ^= 0xFF
    path.write_bytes(damaged)
    with suppress(tl.TaskloomError):  # a name or a time may be damaged without harm
        tl.runs(path).accuracy()


def test_a_pipe_and_a_huge_member_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe.eval")
    with pytest.raises(tl.TaskloomError, match="is a pipe"):
        tl.runs(tmp_path / "pipe.eval")
    path = write_log(tmp_path / "a.eval", [sample(0)])
    monkeypatch.setattr("taskloom.core.predictions.LARGEST_MEMBER", 10)
    with pytest.raises(tl.TaskloomError, match="too large"):
        tl.runs(path).accuracy()


def test_infinite_scores_are_refused_and_nan_is_unscored(tmp_path: Path) -> None:
    infinite = write_log(tmp_path / "a.eval", [sample(0, value=float("inf"))])
    with pytest.raises(tl.TaskloomError, match="the score of sample 'q0' is 'inf'"):
        tl.runs(infinite).accuracy()
    unscored = write_log(tmp_path / "b.eval", [sample(0), sample(1, value=float("nan"))])
    [row] = tl.runs(unscored).accuracy()
    assert (row["n"], row["mean"]) == (1, 1.0)


def test_a_log_without_scores_says_so(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.eval", [sample(0, scores=None)])
    with pytest.raises(DataError, match="no sample with a score"):
        tl.runs(path)


def replied(samples: list[dict[str, Any]], replies: list[str]) -> dict[str, Any]:
    """The files of samples in a log, with their whole replies."""
    files = {}
    for one, reply in zip(samples, replies, strict=True):
        name = f"samples/{one['id']}_epoch_{one['epoch']}.json"
        files[name] = {**one, "output": {"completion": reply}}
    return files


@pytest.mark.parametrize("zstandard", [False, True])
def test_the_replies_of_a_log_are_scored_against_a_dataset(
    tmp_path: Path, zstandard: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tl.make("ctl/A", tmp_path / "data", set={"splits": {"train": {"n": 50}}})
    split = data.splits[-1]
    examples = list(data[split])[:10]
    samples = [sample(n) | {"id": f"{split}-{n}"} for n in range(10)]
    replies = [f"<think>no</think>So.\nAnswer: {e.target}" for e in examples[:7]] + [
        "",
        "?",
        "<think>",
    ]
    again = [one | {"epoch": 2} for one in samples]  # other epochs are left out
    files = replied(samples, replies)
    log = write_log(tmp_path / "a.eval", [*samples, *again], zstandard=zstandard, files=files)
    words = ["score", "ctl", "--gold", str(tmp_path / "data"), "--pred", str(log)]
    assert cli([*words, "--extract", "final", "--json"]) == 0
    scored = json.loads(capsys.readouterr().out)
    assert (scored["examples"], scored["accuracy"]) == (10, 0.7)


def test_logs_of_other_tasks_are_not_matched_by_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tl.make("ctl/A", tmp_path / "data", set={"splits": {"train": {"n": 50}}})
    log = write_log(tmp_path / "a.eval", [sample(1) | {"id": 1}])
    assert cli(["score", "ctl", "--gold", str(tmp_path / "data"), "--pred", str(log)]) == 2
    assert "'test-0'" in capsys.readouterr().err


def test_a_log_is_scored_again_from_its_whole_replies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = [sample(n, value="I", epoch=epoch) for epoch in (1, 2) for n in range(6)]
    good = [f"Adding one.\nAnswer: {n + 1}" for n in range(6)]
    bad = [*good[:3], "", "<think>Answer: 5", "I do not know"]
    files = replied(samples, [*good, *bad])
    log = write_log(tmp_path / "a.eval", samples, files=files)
    before = log.read_bytes()
    out = tmp_path / "rescored"
    words = ["runs", "rescore", str(log), "--scorer", "any-of", "--extract", "final"]
    assert cli([*words, "-o", str(out), "--json"]) == 0
    changes = json.loads(capsys.readouterr().out)
    assert [(c["before"], c["after"], c["changed"]) for c in changes] == [(0, 1, 6), (0, 0.5, 3)]
    assert log.read_bytes() == before
    runs = tl.runs(out)
    assert [(r.recipe, r.learner, r.seed) for r in runs] == [
        ("follow", "openai/gpt", 0),
        ("follow", "openai/gpt", 1),
    ]
    assert [r.splits["test"].score for r in runs] == [1, 0.5]
    assert {row["size"]: row["n"] for row in runs.accuracy(by=["size"])} == {"0": 3, "1": 3}
    assert cli([*words, "-o", str(out)]) == 2, "an existing folder is not written into"


@pytest.mark.parametrize("words", [["--scorer", "own"], ["--scorer", "any-off"]])
def test_a_log_needs_the_name_of_a_scorer(tmp_path: Path, words: list[str]) -> None:
    write_log(tmp_path / "a.eval", [sample(1)])
    assert cli(["runs", "rescore", str(tmp_path), *words]) == 2
