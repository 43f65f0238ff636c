"""Datasets in object stores: the same rows as in a folder, on fsspec's memory and on an S3 server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import taskloom as tl
from taskloom.cli import run
from taskloom.core.errors import DataError, ParameterError
from taskloom.core.object_store import ObjectPath
from taskloom.core.shards import place_of

SMALL = {"splits": {"train": {"n": 3_000}, "iid": {"n": 500}}}


@pytest.fixture
def memory() -> ObjectPath:
    pytest.importorskip("fsspec", reason="opens memory:// addresses")
    place = place_of(f"memory://{uuid.uuid4().hex}/data")
    assert isinstance(place, ObjectPath)
    return place


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Address of an S3 server with the bucket `bucket`."""
    moto = pytest.importorskip("moto.server", reason="needs moto[s3,server]")
    import boto3  # type: ignore[import-not-found,import-untyped,unused-ignore]

    running = moto.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    client = boto3.client(
        "s3",
        endpoint_url=f"http://{host}:{port}",
        aws_access_key_id="key",
        aws_secret_access_key="hidden",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket="bucket")
    yield f"endpoint_override={host}:{port}&scheme=http&region=us-east-1"
    running.stop()


@pytest.fixture
def bucket(server: str) -> ObjectPath:
    place = place_of(f"s3://key:hidden@bucket/{uuid.uuid4().hex}?{server}")
    assert isinstance(place, ObjectPath)
    return place


def names(place: ObjectPath) -> list[str]:
    return [found.inside for found in place.rglob("*")]


def test_an_object_store_holds_the_rows_of_a_folder(memory: ObjectPath, tmp_path: Path) -> None:
    there = tl.make("ctl/A-independent", memory, changes=SMALL, shard_rows=1_000)
    here = tl.make("ctl/A-independent", tmp_path, changes=SMALL, shard_rows=1_000)
    assert there.digest == here.digest
    assert names(memory) == [
        "README.md",
        "iid/00000.parquet",
        "manifest.json",
        *(f"train/0000{number}.parquet" for number in range(3)),
    ]
    loaded = tl.load(memory)
    for split in here:
        assert loaded.table(split).equals(here.table(split))


def test_only_an_address_is_a_place_in_an_object_store(tmp_path: Path) -> None:
    address = place_of("s3://bucket/folder")
    assert address == ObjectPath("s3://bucket/folder")
    assert place_of(address) is address
    for folder in ("data", "s3:/bucket", tmp_path, str(tmp_path)):
        assert place_of(folder) == Path(folder)


def test_complete_shards_are_kept_and_others_are_made_again(memory: ObjectPath) -> None:
    first = tl.make("ctl/A-independent", memory, changes=SMALL, shard_rows=1_000)
    (memory / "manifest.json").unlink()
    (memory / "train/00001.parquet").unlink()
    (memory / "train/00002.parquet").write_bytes(b"cut off")
    made: list[int] = []
    again = tl.make(
        "ctl/A-independent",
        memory,
        changes=SMALL,
        shard_rows=1_000,
        progress=lambda state: made.append(state.done),
    )
    assert made[-1] == 3_500
    assert again.digest == first.digest
    assert tl.load(memory).table("train").num_rows == 3_000


def test_another_shard_size_replaces_the_files(memory: ObjectPath) -> None:
    tl.make("ctl/A-independent", memory, changes=SMALL, shard_rows=1_000)
    data = tl.make("ctl/A-independent", memory, changes=SMALL, shard_rows=2_000)
    assert [name for name in names(memory) if name.startswith("train")] == [
        "train/00000.parquet",
        "train/00001.parquet",
    ]
    assert data.table("train").num_rows == 3_000


def test_another_dataset_or_other_files_are_not_overwritten(memory: ObjectPath) -> None:
    tl.make("ctl/A-independent", memory, changes=SMALL)
    with pytest.raises(DataError, match=r"already holds another dataset"):
        tl.make("ctl/A-independent", memory, changes=SMALL, seed=1)
    replaced = tl.make("ctl/A-independent", memory, changes=SMALL, seed=1, force=True)
    assert tl.load(memory).digest == replaced.digest
    other = ObjectPath(memory.url + "-other")
    (other / "notes.txt").write_bytes(b"mine")
    with pytest.raises(DataError, match=r"is not empty \(notes\.txt\)"):
        tl.make("ctl/A-independent", other, changes=SMALL)


def test_the_manifest_does_not_grow_with_the_number_of_files(memory: ObjectPath) -> None:
    sizes = []
    for rows in (1_000, 100_000):
        place = memory / str(rows)
        tl.make("ctl/A-independent", place, changes={"splits.train.n": 100_000}, shard_rows=rows)
        sizes.append(len((place / "manifest.json").read_bytes()))
    assert abs(sizes[0] - sizes[1]) < 10


@pytest.mark.parametrize("value", [0, -1, True, "x"])
def test_a_manifest_with_an_impossible_shard_size_is_refused(
    memory: ObjectPath, value: object
) -> None:
    tl.make("ctl/A-independent", memory, changes=SMALL)
    manifest = json.loads((memory / "manifest.json").read_bytes())
    manifest["splits"]["train"]["shards"] = value
    (memory / "manifest.json").write_bytes(json.dumps(manifest).encode())
    with pytest.raises(DataError, match=r"manifest\.json is not a Taskloom manifest"):
        tl.load(memory)


def test_a_dataset_deeper_in_the_store_is_left_alone(memory: ObjectPath) -> None:
    inner = memory / "inner"
    first = tl.make("ctl/A-independent", inner, changes=SMALL, shard_rows=1_000)
    with pytest.raises(DataError, match=r"is not empty"):
        tl.make("ctl/A-independent", memory, changes=SMALL)
    outer = ObjectPath(memory.url + "-outer")
    tl.make("ctl/A-independent", outer, changes=SMALL)
    nested = outer / "nested"
    tl.make("ctl/A-independent", nested, changes=SMALL, shard_rows=1_000)
    tl.make("ctl/A-independent", outer, changes=SMALL, seed=1, force=True)
    tl.make("ctl/A-independent", outer, changes=SMALL, seed=1, shard_rows=2_000)
    for place in (inner, nested):
        data = tl.load(place)
        assert data.digest == first.digest
        assert data.table("train").num_rows == 3_000


def test_a_dataset_in_an_object_store_is_proved(memory: ObjectPath) -> None:
    tl.make("ctl/A-independent", memory, changes=SMALL, shard_rows=1_000)
    proof = tl.verify(memory, every=True)
    assert proof.ok
    assert proof.remade == proof.rows == 3_500
    assert tl.verify(tl.load(memory), every=True).remade == 3_500
    rows = (memory / "train/00001.parquet").read_bytes()
    (memory / "train/00001.parquet").write_bytes((memory / "train/00002.parquet").read_bytes())
    with pytest.raises(DataError, match=r"'train' are not those of the manifest"):
        tl.verify(memory)
    (memory / "train/00001.parquet").write_bytes(rows)
    (memory / "train/00003.parquet").write_bytes(rows)
    with pytest.raises(DataError, match=r"holds 00003\.parquet"):
        tl.verify(memory)
    (memory / "train/00003.parquet").unlink()
    (memory / "train/00002.parquet").unlink()
    with pytest.raises(DataError, match=r"cannot read memory:.*train/00002\.parquet"):
        tl.verify(memory)


def test_patterns_match_part_by_part(memory: ObjectPath) -> None:
    for name in ("a.txt", "b/a.txt", "b/c/a.txt", "b/c/d.csv"):
        (memory / name).write_bytes(b"")
    assert [found.inside for found in memory.glob("*.txt")] == ["a.txt"]
    assert [found.inside for found in memory.glob("*/*.txt")] == ["b/a.txt"]
    assert sorted(found.inside for found in memory.rglob("a*")) == ["a.txt", "b/a.txt", "b/c/a.txt"]


def test_a_path_shows_no_password() -> None:
    place = ObjectPath("s3://key:hidden@bucket/data?region=x") / "train"
    assert "hidden" not in f"{place} {place!r} {[place]}"


@pytest.mark.parametrize("n", [10**9, 10**400])
def test_a_manifest_with_too_many_shards_is_refused(memory: ObjectPath, n: int) -> None:
    tl.make("ctl/A-independent", memory, changes=SMALL)
    manifest = json.loads((memory / "manifest.json").read_bytes())
    manifest["splits"]["train"] |= {"n": n, "shards": 1}
    (memory / "manifest.json").write_bytes(json.dumps(manifest).encode())
    with pytest.raises(DataError, match=r"shards"):
        tl.load(memory)


def test_an_unknown_option_of_s3_is_refused() -> None:
    place = ObjectPath("s3://key:hidden@bucket/data?regoin=eu-west-1")
    with pytest.raises(DataError, match=r"'regoin'.*'region'") as caught:
        tl.load(place)
    assert "hidden" not in str(caught.value)


def test_a_key_in_an_address_may_be_quoted(bucket: ObjectPath) -> None:
    place = ObjectPath(bucket.url.replace("key:hidden@", "key:hid%2Fden%3F@")) / "a b"
    place.write_bytes(b"text")
    assert [found.name for found in bucket.glob("*")] == ["a b"]
    assert place.read_bytes() == b"text"


@pytest.mark.parametrize("url", ["s3://", "nowhere://a/b", "s3://a bucket/b"])
def test_an_address_that_cannot_be_opened_gives_one_sentence(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["make", "ctl/A-independent", "-o", url, "--set", "splits={train: {n: 1000}}"]) == 2
    error = capsys.readouterr().err
    assert "check the address" in error
    assert "Traceback" not in error


def test_jsonl_is_for_folders(memory: ObjectPath) -> None:
    with pytest.raises(ParameterError, match=r"jsonl"):
        tl.make("ctl/A-independent", memory, changes=SMALL, jsonl=True)


def test_s3_by_two_workers_equals_a_folder(
    bucket: ObjectPath, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["make", "ctl/A-independent", "--set", f"splits={json.dumps(SMALL['splits'])}"]
    assert run([*command, "-o", bucket.url, "--workers", "2", "--shard-rows", "1000"]) == 0
    assert "hidden" not in capsys.readouterr().out
    assert run([*command, "-o", str(tmp_path / "here")]) == 0
    assert tl.load(bucket.url).digest == tl.load(tmp_path / "here").digest
    assert not any(b"hidden" in found.read_bytes() for found in bucket.rglob("*"))
    capsys.readouterr()
    assert run(["verify", bucket.url, "--all"]) == 0
    said = capsys.readouterr().out
    assert "3,500 rows made again" in said
    assert "hidden" not in said


def test_a_store_that_does_not_answer_gives_one_sentence_without_the_key(
    bucket: ObjectPath,
) -> None:
    missing = ObjectPath(bucket.url.replace("@bucket/", "@no-such-bucket/"))
    with pytest.raises(DataError, match=r"^cannot write s3://no-such-bucket/") as caught:
        tl.make("ctl/A-independent", missing, changes=SMALL)
    assert "hidden" not in str(caught.value)


def test_a_killed_make_to_s3_is_resumed(bucket: ObjectPath, tmp_path: Path) -> None:
    changes = {"splits": {"train": {"n": 60_000}}}
    script = "import sys; from taskloom.cli import main; main()"
    command = [sys.executable, "-c", script, "make", "ctl/A-independent", "-o", bucket.url]
    command += ["--shard-rows", "1000", "--set", "splits={train: {n: 60000}}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(bucket.glob("train/*")) < 3 and process.poll() is None:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = {found: found.read_bytes() for found in bucket.glob("train/*")}
    assert 3 <= len(before) < 60
    data = tl.make("ctl/A-independent", bucket, changes=changes, shard_rows=1_000)
    assert data.digest == tl.make("ctl/A-independent", changes=changes).digest
    assert all(found.read_bytes() == content for found, content in before.items())


@pytest.mark.slow
def test_s3_by_ray_equals_a_folder(bucket: ObjectPath, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    there = tl.make(
        "ctl/A-independent", bucket, changes=SMALL, shard_rows=1_000, engine="ray", workers=2
    )
    assert there.digest == tl.make("ctl/A-independent", changes=SMALL).digest
