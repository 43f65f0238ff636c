"""Files: written whole or not at all, read within limits, locked, digested, and cached. Values in
the form in which they are digested.

A file or a folder is written beside its place and renamed into it, so that a reader, or a process
that resumes after a kill, never meets half of it. A file that a person or data from elsewhere names
is read by `read_bytes` or `read_utf8`, or checked by `refuse_special` before a library opens it: a
device would fill the memory, and a pipe without a writer would never answer.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import platform
import re
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from os import PathLike, fspath
from pathlib import Path
from threading import get_native_id
from typing import Any

from taskloom.core.errors import DataError, TaskloomError, echo

RETRY = 0.1
"""Seconds between two attempts to take a lock: short beside anything that is worth a lock, long
beside a system call.
"""


def cache_folder(*parts: str) -> Path:
    """Return the folder of derived and fetched things, `TASKLOOM_CACHE` or `~/.cache/taskloom`, or
    a folder in it.
    """
    base = Path(os.environ.get("TASKLOOM_CACHE") or Path.home() / ".cache" / "taskloom")
    return base.joinpath(*parts)


LONGEST_NAME = 255
"""Maximum number of bytes in one part of a path, on all common file systems."""

LONGEST_PATH = 4_096
"""Maximum number of bytes in a path, on Linux."""


def path_of(value: str | PathLike[str]) -> Path:
    """A path with `~` expanded, as a shell does."""
    if not isinstance(value, str | PathLike) or "\0" in fspath(value):
        raise TaskloomError(f"a path is text or a pathlib.Path, not {echo(value)}")
    path = Path(value)
    parts = [len(part.encode("utf-8", "replace")) for part in path.parts]
    if max(parts, default=0) > LONGEST_NAME or sum(parts) + len(parts) > LONGEST_PATH:
        raise TaskloomError(
            f"{echo(str(path))} is too long for a path: at most {LONGEST_PATH:,} bytes, and"
            f" {LONGEST_NAME} between two slashes"
        )
    try:
        return path.expanduser()
    except RuntimeError:
        raise TaskloomError(
            f"{path}: there is no such user's home folder; write the path in full"
        ) from None


def digest(data: bytes | str, size: int = 16) -> str:
    """Return a BLAKE2b digest of `size` bytes, in hexadecimal digits."""
    return blake2b(data.encode() if isinstance(data, str) else data, digest_size=size).hexdigest()


def json_digest(value: Any, size: int = 16) -> str:
    """Return the digest of a value's JSON text, which does not depend on the order of keys.

    >>> json_digest({"a": 1, "b": 2}) == json_digest({"b": 2, "a": 1})
    True
    """
    return digest(json.dumps(value, sort_keys=True), size)


MOST_NESTED = 100
"""Maximum depth of lists and mappings in each other, in YAML as in Python values."""


def plain(value: Any, levels: int = MOST_NESTED) -> Any:
    """Copy a value with the types that YAML has, so that Python's spellings of one recipe are one
    recipe.

    Args:
        value: A value of any type.
        levels: Maximum depth of the lists and mappings in it.
    """
    if isinstance(value, Mapping | list | tuple) and levels == 0:
        raise TaskloomError(f"a value is nested too deeply; at most {MOST_NESTED} levels are read")
    if isinstance(value, Mapping):
        return {str(k): plain(v, levels - 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v, levels - 1) for v in value]
    if isinstance(value, PathLike):
        return fspath(value)
    # NumPy's numbers, truth values, texts and arrays.
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return plain(value.tolist(), levels)
    return value


LATER = "later"
"""Marks a field that was added later: `Annotated[bool, LATER]`, or for a setting of a learner
`later_setting`. Left at its default it is not part of a digest, so that the digests of older
recipes and runs stay what they are.
"""


def later_defaults(values: Any) -> set[str]:
    """Names of the `LATER` fields of a pydantic model or dataclass that have their default."""
    # Training must not need pydantic, so a model is recognised by its attribute, not its class.
    declared: dict[str, Any] | None = getattr(type(values), "model_fields", None)
    if declared is None:
        declared = {field.name: field for field in dataclasses.fields(values)}
    return {
        name
        for name, field in declared.items()
        if LATER in field.metadata and getattr(values, name) == field.default
    }


MOST_BYTES = 1_000_000_000
"""Default maximum size of a file that is read whole."""

BLOCK = 1 << 20
"""Bytes read at once."""

_SPECIAL = (
    (stat.S_ISDIR, "folder"),
    (stat.S_ISFIFO, "pipe"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
)
"""Tests for the kinds of paths that are not files, with their names."""

_OPEN_FILES = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Paths of the files that the process was started with."""


def refuse_special(
    path: Path | str, error: type[TaskloomError] = DataError, *, pipes: bool = False
) -> None:
    """Refuse a folder, device, pipe or socket that is named as a file. Links are followed.

    A path that does not exist passes: opening it gives a better error.

    Args:
        path: A path from a person or from data.
        error: The error to raise.
        pipes: Accept the pipes by which a shell connects another program, as in `<(command)`. Pipes
            with a name of their own are refused all the same: nobody may ever write to them.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    kind = next((name for test, name in _SPECIAL if test(mode)), "file")
    of_a_shell = kind == "pipe" and os.path.abspath(path).startswith(_OPEN_FILES)
    if kind != "file" and not (pipes and of_a_shell):
        raise error(f"{path} is a {kind}; name a file")


def read_bytes(
    path: Path,
    error: type[TaskloomError] = DataError,
    *,
    most: int = MOST_BYTES,
    pipes: bool = False,
) -> bytes:
    """Read a file whole; raise an `error` that names it if it is special, too large or unreadable.

    Args:
        path: The file.
        error: The error to raise.
        most: Maximum size in bytes.
        pipes: Accept the pipes of a shell.
    """
    refuse_special(path, error, pipes=pipes)
    content = bytearray()
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                content += block
                if len(content) > most:
                    raise error(f"{path} has more than {most:,} bytes, which is the limit")
    except OSError as problem:
        raise error(f"cannot read {path}: {problem.strerror or problem}") from problem
    return bytes(content)


def read_utf8(path: Path, error: type[TaskloomError] = DataError, *, most: int = MOST_BYTES) -> str:
    """Read a text in UTF-8, with or without a byte order mark, as `read_bytes` reads."""
    content = read_bytes(path, error, most=most)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise error(
            f"{path} is not UTF-8 text (byte {problem.start}); save it as UTF-8"
        ) from problem
    return text.replace("\r\n", "\n").replace("\r", "\n")  # as files opened as text are read


@contextmanager
def atomic(path: Path, error: type[TaskloomError] = DataError) -> Iterator[Path]:
    """Yield a path beside `path` to write a file to; rename it into place at the end, or remove it
    after an exception.

    Args:
        path: The file that is wanted. Its folder is created.
        error: What an `OSError`, of the block or of the renaming, is raised as.
    """
    if path.is_dir():
        raise error(f"{path} is a folder; name a file")
    beside = _beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise error(
            f"cannot make the folder {path.parent}: {problem.strerror}; choose another folder"
        ) from problem
    try:
        yield beside
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as problem:
        raise error(
            f"cannot write {path}: {problem.strerror or problem}; what was finished before is kept:"
            " free space or choose another folder, then rerun the command to resume"
        ) from problem
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder beside `path` to fill; rename it into place at the end, or remove it after
    an exception.

    Where another process put a folder there first, that one stays: both hold the same. An `OSError`
    is left to the caller, since a cache that cannot be written is harmless where its content can be
    computed again.
    """
    beside = _beside(path)
    shutil.rmtree(beside, ignore_errors=True)  # of an earlier process of the same number
    beside.mkdir(parents=True)
    try:
        yield beside
        try:
            beside.rename(path)
        except OSError:
            if not path.is_dir():
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


@contextmanager
def atomic_files(folder: Path, last: str) -> Iterator[Path]:
    """Yield a new folder to fill; move its files into `folder` at the end, or none of them after an
    exception.

    Whatever else is in `folder` stays. An `OSError` is left to the caller.

    Args:
        folder: Where the files belong. It is created.
        last: The file that says what the others are. It is taken away first and put there last, so
            that it never describes files of another writing.
    """
    beside = _beside(folder / last)
    shutil.rmtree(beside, ignore_errors=True)  # of an earlier process of the same number
    beside.mkdir(parents=True)
    try:
        yield beside
        _move_files(beside, folder, last)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _move_files(beside: Path, folder: Path, last: str) -> None:
    """Move all files into a folder; what stands in the way is noticed before anything is
    changed.
    """
    files = [file for file in beside.rglob("*") if file.is_file() and file != beside / last]
    moves = [(file, folder / file.relative_to(beside)) for file in [*files, beside / last]]
    if not (beside / last).is_file():
        raise FileNotFoundError(errno.ENOENT, f"{last} was not written")
    for _, target in moves:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, f"{target.name} is a folder there")
    (folder / last).unlink(missing_ok=True)
    for file, target in moves:
        file.replace(target)


def rename(source: Path, target: Path) -> None:
    """Rename a file or folder. Stores rename by this function alone, so that a test can do it as a
    slow file system does.
    """
    source.rename(target)


def listing(folder: Path | str) -> list[str]:
    """The names in a folder. On a network file system they may be some seconds old."""
    return os.listdir(folder)


def is_readable(path: Path | str) -> bool:
    """True if a file can be opened. Opening makes a network file system ask its server, while a
    listing may be old.
    """
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError:
        return False
    return True


def _beside(path: Path) -> Path:
    """Return a name that no other process or thread writes to."""
    return path.with_name(f".{path.name}.{get_native_id()}.{platform.node()}-{os.getpid()}.tmp")


def _parts(beside: Path) -> tuple[str, int] | None:
    """Return the final name and the process of a path that `_beside` gave on this machine; None of
    any other path.
    """
    match = re.fullmatch(rf"\.(.+)\.\d+\.{re.escape(platform.node())}-(\d+)\.tmp", beside.name)
    return (match[1], int(match[2])) if match else None


def final_path(path: Path) -> Path:
    """Return the path of the file or folder that is being written to `path`; any other path as it
    is.
    """
    parts = _parts(path)
    return path.with_name(parts[0]) if parts else path


def sweep(folder: Path) -> None:
    """Remove what interrupted writes of this machine left in a folder and its subfolders; spare
    writers that still live.
    """
    for pattern in (".*.tmp", "*/.*.tmp"):
        for path in folder.glob(pattern):
            parts = _parts(path)
            if parts and not _alive(parts[1]):
                with suppress(OSError):
                    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    if pid == os.getpid():
        return False  # our own writes are over when we sweep
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def locked(path: Path, patience: float | None = None) -> Iterator[bool]:
    """Hold the lock of a folder or of a lock file during the block; a process that dies lets go of
    it.

    Yields whether the lock is held: without one (on Windows, on some network file systems) the work
    goes unlocked.

    Args:
        path: A folder that exists, or a lock file, which is created with its folder.
        patience: Seconds to wait for another owner before `TimeoutError` is raised; by default
            without end.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield False
        return
    if not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o666)
    try:
        yield _acquire(handle, path, patience)
    finally:
        with suppress(OSError):
            # Closing is not enough where a forked child, as compilers have, holds a copy.
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _acquire(handle: int, path: Path, patience: float | None) -> bool:
    """Wait for a lock; return False where the file system has none."""
    import fcntl

    end = None if patience is None else time.monotonic() + patience
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (fcntl.LOCK_NB if end is not None else 0))
        except BlockingIOError:
            if end is not None and time.monotonic() > end:
                raise TimeoutError(f"another process holds {path}") from None
            time.sleep(RETRY)
        except OSError:
            return False
        else:
            return True
