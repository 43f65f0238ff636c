"""Atomic writes, bounded reads, locks, digests and caches, and the canonical form of values for
digests.

A file or folder is written next to its destination and then renamed, so that readers, or a process
that resumes after a kill, never see an incomplete one. Files named by users or by external data are
read with `read_bytes` or `read_utf8`, or checked with `refuse_special` before a library opens them.
Otherwise a device could fill the memory, and a pipe without a writer would block forever.
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from os import PathLike, fspath
from pathlib import Path
from threading import get_native_id
from typing import Any

from taskloom.core.errors import DataError, TaskloomError, echo

RETRY = 0.1
"""Seconds between attempts to take a lock. This is short compared to the work that a lock protects,
and long compared to a system call.
"""

DEVICES = Path("/dev")
"""Folder in which no files are created, because it contains devices and links to open files
(`/dev/stdout`).
"""


def cache_folder(*parts: str) -> Path:
    """Return the cache folder for derived and downloaded files, `TASKLOOM_CACHE` or
    `~/.cache/taskloom`, or a subfolder of it.
    """
    base = Path(os.environ.get("TASKLOOM_CACHE") or Path.home() / ".cache" / "taskloom")
    return base.joinpath(*parts)


LONGEST_NAME = 255
"""Maximum bytes in one component of a path, on all common file systems."""

LONGEST_PATH = 4_096
"""Maximum bytes in a path on Linux."""


def path_of(value: str | PathLike[str]) -> Path:
    """Return the path with `~` expanded, as in a shell."""
    if not isinstance(value, str | PathLike) or "\0" in fspath(value):
        raise TaskloomError(f"a path must be text or a pathlib.Path, not {echo(value)}")
    path = Path(value)
    parts = [len(part.encode("utf-8", "replace")) for part in path.parts]
    if max(parts, default=0) > LONGEST_NAME or sum(parts) + len(parts) > LONGEST_PATH:
        raise TaskloomError(
            f"{echo(str(path))} is too long for a path, which has at most {LONGEST_PATH:,} bytes, "
            f"and {LONGEST_NAME} between two slashes"
        )
    try:
        return path.expanduser()
    except RuntimeError:
        raise TaskloomError(
            f"{path}: there is no such user's home folder; write the path in full"
        ) from None


def digest(data: bytes | str, size: int = 16) -> str:
    """Return a BLAKE2b digest of `size` bytes, in hexadecimal."""
    return blake2b(data.encode() if isinstance(data, str) else data, digest_size=size).hexdigest()


def json_digest(value: Any, size: int = 16) -> str:
    """Return the digest of a value's JSON text, which does not depend on key order.

    >>> json_digest({"a": 1, "b": 2}) == json_digest({"b": 2, "a": 1})
    True
    """
    return digest(json.dumps(value, sort_keys=True), size)


MOST_NESTED = 100
"""Maximum nesting depth of lists and mappings, in YAML and in Python values."""


def plain(value: Any, levels: int = MOST_NESTED) -> Any:
    """Copy a value using only YAML's types, so that equivalent Python values give equal recipes.

    Args:
        value: A value of any type.
        levels: Maximum nesting depth of lists and mappings.
    """
    if isinstance(value, Mapping | list | tuple) and levels == 0:
        raise TaskloomError(f"a value is nested too deeply; at most {MOST_NESTED} levels are read")
    if isinstance(value, Mapping):
        return {str(k): plain(v, levels - 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v, levels - 1) for v in value]
    if isinstance(value, PathLike):
        return fspath(value)
    # NumPy's numbers, booleans, strings and arrays.
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return plain(value.tolist(), levels)
    return value


LATER = "later"
"""Marker for a field that was added later: `Annotated[bool, LATER]`, or `later_setting` for a
setting of a learner. If it has its default it is excluded from digests, so that the digests of
older recipes and runs do not change.
"""


def later_defaults(values: Any) -> set[str]:
    """Return the names of `LATER` fields of a pydantic model or dataclass that have their default
    value.
    """
    # Recognise models by an attribute instead of the class, so that training does not need
    # pydantic.
    declared: dict[str, Any] | None = getattr(type(values), "model_fields", None)
    if declared is None:
        declared = {field.name: field for field in dataclasses.fields(values)}
    return {
        name
        for name, field in declared.items()
        if LATER in field.metadata and getattr(values, name) == field.default
    }


MOST_BYTES = 1_000_000_000
"""Default maximum size in bytes of a file that is read whole."""

BLOCK = 1 << 20
"""Bytes read at once."""

_SPECIAL = (
    (stat.S_ISDIR, "folder"),
    (stat.S_ISFIFO, "pipe"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
)
"""Tests for paths that are not regular files, each with the name of that kind."""

_OPEN_FILES = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Paths of file descriptors with which the process was started."""


def refuse_special(
    path: Path | str, error: type[TaskloomError] = DataError, *, pipes: bool = False
) -> None:
    """Raise an error if the path is a folder, device, pipe or socket. Links are followed.

    Missing paths pass, because opening them gives a better error.

    Args:
        path: A path given by a user or by data.
        error: The error to raise.
        pipes: Accept a shell's process substitution, as in `<(command)`. Named pipes are refused
            even then, because they may never have a writer.
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
    """Read a whole file. Raises an `error` that names the file if it is special, too large or
    unreadable.

    Args:
        path: The file.
        error: The error to raise.
        most: Maximum size in bytes.
        pipes: Accept a shell's process substitution.
    """
    refuse_special(path, error, pipes=pipes)
    content = bytearray()
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                content += block
                if len(content) > most:
                    raise error(f"{path} has more than {most:,} bytes, the maximum")
    except OSError as problem:
        raise error(f"cannot read {path}: {problem.strerror or problem}") from problem
    return bytes(content)


def read_utf8(path: Path, error: type[TaskloomError] = DataError, *, most: int = MOST_BYTES) -> str:
    """Read a UTF-8 text with or without a byte order mark, under the limits of `read_bytes`."""
    content = read_bytes(path, error, most=most)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise error(
            f"{path} is not UTF-8 text (byte {problem.start}); save it as UTF-8"
        ) from problem
    return text.replace("\r\n", "\n").replace("\r", "\n")  # as in text mode


@contextmanager
def atomic(path: Path, error: type[TaskloomError] = DataError) -> Iterator[Path]:
    """Yield a temporary path next to `path`. Rename it to `path` at the end, or remove it after an
    exception.

    Args:
        path: Destination file. Its folder is created.
        error: Type to raise instead of an `OSError` from the block or the rename.
    """
    if path.is_dir():
        raise error(f"{path} is a folder; name a file")
    if (path.exists() and not path.is_file()) or path.absolute().parent == DEVICES:
        # The rename would replace it. With root's rights, this could replace /dev/null for the
        # whole machine.
        raise error(f"{path} is a device or pipe; name a file")
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


def read_journal(path: Path, width: int) -> Iterator[list[Any]]:
    """Yield the rows of a journal: JSON lists of `width` values, one per line. A line that was cut
    off by a kill is skipped.
    """
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, list) and len(row) == width:
            yield row


def append_journal(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    """Append rows to a journal. A line that was cut off by a kill is ended first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        for row in rows:
            file.write(f"{json.dumps(row)}\n".encode())


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder next to `path` to fill. Rename it to `path` at the end, or remove it after
    an exception.

    If another process has created `path` in the meantime, its folder is kept, because the content
    is the same. An `OSError` is left to the caller: a cache that cannot be written is harmless if
    its content can be recomputed.
    """
    beside = _beside(path)
    shutil.rmtree(beside, ignore_errors=True)  # left by an earlier process with the same id
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
    """Yield a new folder to fill. Move its files into `folder` at the end, or none of them after an
    exception.

    Other files in `folder` are kept. An `OSError` is left to the caller.

    Args:
        folder: Destination folder. It is created.
        last: File that describes the others. It is removed first and written last, so that it never
            describes files from another write.
    """
    beside = _beside(folder / last)
    shutil.rmtree(beside, ignore_errors=True)  # left by an earlier process with the same id
    beside.mkdir(parents=True)
    try:
        yield beside
        _move_files(beside, folder, last)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _move_files(beside: Path, folder: Path, last: str) -> None:
    """Move all files into a folder. Conflicts are detected before anything is changed."""
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
    """Rename a file or folder. All stores rename through this function, so that tests can simulate
    a slow file system.
    """
    source.rename(target)


def listing(folder: Path | str) -> list[str]:
    """Return the names in a folder. On a network file system they may be a few seconds old."""
    return os.listdir(folder)


def is_readable(path: Path | str) -> bool:
    """True if a file can be opened. On a network file system, opening asks the server, while a
    listing may be stale.
    """
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError:
        return False
    return True


def _beside(path: Path) -> Path:
    """Return a temporary name that no other process or thread uses."""
    return path.with_name(f".{path.name}.{get_native_id()}.{platform.node()}-{os.getpid()}.tmp")


def _parts(beside: Path) -> tuple[str, int] | None:
    """Split a temporary path that `_beside` made on this machine into the final name and the
    process id. None for other paths.
    """
    match = re.fullmatch(rf"\.(.+)\.\d+\.{re.escape(platform.node())}-(\d+)\.tmp", beside.name)
    return (match[1], int(match[2])) if match else None


def final_path(path: Path) -> Path:
    """Return the destination of a temporary path from `_beside`. Other paths are returned
    unchanged.
    """
    parts = _parts(path)
    return path.with_name(parts[0]) if parts else path


def sweep(folder: Path) -> None:
    """Remove temporary files that interrupted writes on this machine left in a folder and its
    subfolders. Files of live processes are kept.
    """
    for pattern in (".*.tmp", "*/.*.tmp"):
        for path in folder.glob(pattern):
            parts = _parts(path)
            if parts and not _alive(parts[1]):
                with suppress(OSError):
                    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    if pid == os.getpid():
        return False  # this process sweeps only after its own writes
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """True for a killed process that its parent has not collected. In a container without an init
    process, it never will be.
    """
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    state = status.rpartition(")")[2].split()[0]
    return state in ("Z", "X")


@contextmanager
def locked(path: Path, patience: float | None = None) -> Iterator[bool]:
    """Hold the lock on a folder or lock file during the block. A process that dies releases its
    locks.

    Yields True if the lock is held. If locks are unavailable (Windows, some network file systems),
    the block runs without one.

    Args:
        path: An existing folder, or a lock file, which is created with its folder.
        patience: Seconds to wait for another owner before raising `TimeoutError`. Default: no
            limit.
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
            # Unlock explicitly: closing is not enough if a forked child, such as a compiler's,
            # holds a copy.
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _acquire(handle: int, path: Path, patience: float | None) -> bool:
    """Wait for a lock. Return False if the file system does not support locks."""
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
