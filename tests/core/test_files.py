"""Files are whole or absent, locks exclude, and digests do not depend on spelling."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from taskloom.core.errors import DataError, RecipeError
from taskloom.core.files import (
    append_journal,
    atomic,
    atomic_files,
    atomic_folder,
    cache_folder,
    digest,
    final_path,
    json_digest,
    locked,
    read_bytes,
    read_journal,
    read_utf8,
    sweep,
)

HOLD = (
    "import sys, time; from pathlib import Path; from taskloom.core.files import locked\nwith"
    " locked(Path(sys.argv[1])):\n"
)


def test_a_file_appears_only_when_its_block_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    with atomic(path) as beside:
        beside.write_text("whole")
        assert not path.exists()
    assert path.read_text() == "whole"
    assert list(path.parent.iterdir()) == [path]


def test_an_exception_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(KeyError), atomic(path) as beside:  # noqa: PT012
        beside.write_text("half")
        raise KeyError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("node", ["host", "my-host.7.example-1"])
@pytest.mark.parametrize("name", ["file", "shard.00001.parquet", ".hidden-3.tmp"])
def test_what_is_written_beside_its_place_tells_its_place(
    name: str, node: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.node", lambda: node)
    with atomic(tmp_path / name) as beside:
        beside.write_text("text")
    assert beside.name != name
    assert final_path(beside) == final_path(tmp_path / name) == tmp_path / name


def test_what_cannot_be_written_is_one_sentence_in_the_given_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with (
        pytest.raises(RecipeError, match="cannot make the folder"),
        atomic(tmp_path / "file" / "below", RecipeError),
    ):
        pass
    with (
        pytest.raises(DataError, match=r"cannot write .*nothing: No such file"),
        atomic(tmp_path / "nothing"),
    ):
        pass  # nobody wrote it
    with (
        pytest.raises(DataError, match=r"cannot write .*: No space left"),
        atomic(tmp_path / "full"),
    ):
        raise OSError(28, "No space left on device")


def test_a_folder_is_whole_or_absent_and_the_first_one_stays(tmp_path: Path) -> None:
    place = tmp_path / "cache" / "thing"
    with pytest.raises(KeyError), atomic_folder(place) as beside:  # noqa: PT012
        (beside / "a").write_text("half")
        raise KeyError
    assert not place.exists()
    for text in ("first", "second"):
        with atomic_folder(place) as beside:
            (beside / "a").write_text(text)
    assert (place / "a").read_text() == "first"
    assert list(place.parent.iterdir()) == [place]


def test_files_are_replaced_together_and_the_rest_of_their_folder_stays(tmp_path: Path) -> None:
    folder = tmp_path / "thing"
    with atomic_files(folder, last="card") as beside:
        (beside / "in").mkdir()
        for name in ("card", "in/weights"):
            (beside / name).write_text("first")
    (folder / "notes").write_text("mine")
    with pytest.raises(KeyError), atomic_files(folder, last="card") as beside:  # noqa: PT012
        (beside / "card").write_text("half")
        raise KeyError
    with pytest.raises(FileNotFoundError), atomic_files(folder, last="card") as beside:
        (beside / "weights").write_text("no card says what these are")
    (folder / "in" / "more").mkdir()
    with pytest.raises(IsADirectoryError), atomic_files(folder, last="card") as beside:  # noqa: PT012
        (beside / "in").mkdir()
        for name in ("card", "in/weights", "in/more"):
            (beside / name).write_text("second")
    names = {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}
    assert names == {"card": "first", "in/weights": "first", "notes": "mine"}


def test_sweeping_spares_the_writers_that_live(tmp_path: Path) -> None:
    import platform

    ours, theirs = (
        tmp_path / f".x.7.{host}-{pid}.tmp"
        for host, pid in ((platform.node(), 2**22 + 1), ("elsewhere", 1))
    )
    alive = tmp_path / f".x.7.{platform.node()}-1.tmp"
    for path in (ours, theirs, alive):
        path.write_text("")
    sweep(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([theirs, alive])


def test_no_file_replaces_a_device_or_a_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the rights of root, a rename to /dev/null would leave the machine without it."""
    pipe, devices = tmp_path / "pipe", tmp_path / "dev"
    os.mkfifo(pipe)
    devices.mkdir()
    monkeypatch.setattr("taskloom.core.files.DEVICES", devices)
    (tmp_path / "output").touch()
    (devices / "stdout").symlink_to(tmp_path / "output")
    for path in (pipe, devices / "stdout"):
        with pytest.raises(DataError, match="name a file"), atomic(path) as beside:
            beside.write_text("x")
    assert pipe.is_fifo()
    assert (devices / "stdout").is_symlink()


def test_sweeping_removes_what_a_zombie_left(tmp_path: Path) -> None:
    import platform

    killed = subprocess.Popen(["sleep", "60"])
    left = tmp_path / f".x.7.{platform.node()}-{killed.pid}.tmp"
    left.write_text("")
    sweep(tmp_path)
    assert left.exists()
    killed.kill()
    os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)
    sweep(tmp_path)
    assert not left.exists()
    killed.wait()


def test_sweeping_knows_hosts_with_dots_in_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import platform

    monkeypatch.setattr(platform, "node", lambda: "node-1.cluster.edu")
    ours, theirs = (
        tmp_path / f".x.7.node-1.cluster.edu-{2**22 + 1}.tmp",
        tmp_path / f".x.7.cluster.edu-{2**22 + 1}.tmp",
    )
    for path in (ours, theirs):
        path.write_text("")
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [theirs]


def test_threads_that_write_the_same_folder_do_not_mix_their_files(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as other, atomic_folder(tmp_path / "entry") as beside:
        (beside / "first").write_text("")

        def write() -> None:
            with atomic_folder(tmp_path / "entry") as another:
                (another / "first").write_text("")
                (another / "second").write_text("")

        other.submit(write).result(10)
        (beside / "second").write_text("")
    assert sorted(file.name for file in (tmp_path / "entry").iterdir()) == ["first", "second"]
    assert [path.name for path in tmp_path.iterdir()] == ["entry"]


def test_a_lock_excludes_other_processes_until_its_owner_ends(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "new" / "x.lock"):
        owner = subprocess.Popen(
            [sys.executable, "-c", HOLD + "  print('held', flush=True); time.sleep(60)", str(path)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert owner.stdout is not None
        assert owner.stdout.readline() == "held\n"
        with pytest.raises(TimeoutError, match="another process holds"), locked(path, patience=0.2):
            pass
        owner.kill()
        owner.wait()
        started = time.monotonic()
        with locked(path, patience=20) as held:
            assert held
        assert time.monotonic() - started < 10


def test_text_is_utf8_with_or_without_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"\xef\xbb\xbfcaf\xc3\xa9")
    assert read_utf8(path) == "café"
    path.write_bytes(b"caf\xe9")
    with pytest.raises(RecipeError, match=r"t is not UTF-8 text \(byte 3\)"):
        read_utf8(path, RecipeError)
    with pytest.raises(DataError, match=r"cannot read .*none: No such file"):
        read_utf8(tmp_path / "none")


def test_special_files_and_large_ones_are_one_sentence(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "large").write_bytes(b"x" * 11)
    for name, said in {
        "pipe": "pipe is a pipe; name a file",
        "zero": "zero is a device; name a file",
        ".": "is a folder; name a file",
        "large": "large has more than 10 bytes",
        "none": "cannot read .*none: No such file",
    }.items():
        with pytest.raises(RecipeError, match=said):
            read_bytes(tmp_path / name, RecipeError, most=10)


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="the shell has no paths for pipes")
def test_pipes_of_a_shell_are_read_and_named_pipes_are_not(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="pipe is a pipe"):
        read_bytes(tmp_path / "pipe", pipes=True)
    reading, writing = os.pipe()
    os.write(writing, b"piped")
    os.close(writing)
    assert read_bytes(Path(f"/dev/fd/{reading}"), pipes=True) == b"piped"
    os.close(reading)


@pytest.mark.parametrize(
    "command",
    [
        "run zero",
        "run pipe",
        "run zero.yaml --dry-run",
        "show zero.yaml",
        "show pipe.yaml",
        "show ctl/A --set max_length=@zero",
        "apply ctl/A a --tables pipe",
        "solve zero",
        "score zest --gold zero --pred zero",
        "run own.yaml",
    ],
)
def test_no_command_reads_a_device_or_waits_for_a_pipe(command: str, tmp_path: Path) -> None:
    for name in ("pipe", "pipe.yaml"):
        os.mkfifo(tmp_path / name)
    for name in ("zero", "zero.yaml"):
        (tmp_path / name).symlink_to("/dev/zero")
    (tmp_path / "own").mkdir()
    os.mkfifo(tmp_path / "own" / "train.csv")
    (tmp_path / "own.yaml").write_text("recipes: [./own]\nlearners: [majority]\n")
    done = subprocess.run(
        [sys.executable, "-m", "taskloom", *command.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        # A command that does read the device fails here instead of filling the machine.
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)),
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert re.search(r"is a (device|pipe); name a file", done.stderr)


def test_digests_are_of_content() -> None:
    assert (
        json_digest({"a": [1], "b": None})
        == json_digest({"b": None, "a": [1]})
        != json_digest({"a": [1]})
    )
    assert digest("é") == digest("é".encode())
    assert len(digest(b"", 20)) == 40


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKLOOM_CACHE", "/x")
    assert cache_folder("a", "b") == Path("/x/a/b")
    monkeypatch.delenv("TASKLOOM_CACHE")
    assert cache_folder() == Path.home() / ".cache" / "taskloom"


def test_a_journal_survives_a_line_that_was_cut_off(tmp_path: Path) -> None:
    journal = tmp_path / "answers" / "journal.jsonl"
    append_journal(journal, [["a", 1], ["ü", 2]])
    with journal.open("a", encoding="utf-8") as file:
        file.write('["b", ')
    append_journal(journal, [["c", 3]])
    assert list(read_journal(journal, 2)) == [["a", 1], ["ü", 2], ["c", 3]]
    assert list(read_journal(tmp_path / "none", 2)) == []
