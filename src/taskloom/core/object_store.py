"""Datasets in object stores: `s3://BUCKET/FOLDER` and other addresses of a file system.

pyarrow's own file systems are used for S3, Google Cloud Storage and Azure, so these need nothing
else installed. fsspec opens other schemes, if it is installed. Credentials come from the
environment, as for the provider's own tools.

An object appears whole or not at all, so that writing one is atomic without a temporary name.
There are no locks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from taskloom.core.errors import DataError


@dataclass(frozen=True, slots=True, order=True)
class ObjectPath:
    """A path in an object store, with the part of pathlib's interface that datasets need.

    It is sent to worker processes, which open the file system themselves.
    """

    url: str
    inside: str = ""

    def __truediv__(self, name: str) -> ObjectPath:
        return ObjectPath(self.url, f"{self.inside}/{name}".lstrip("/"))

    def __str__(self) -> str:
        """The address without a password or options, which may be secret."""
        parts = urlsplit(self.url)
        base = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
        return f"{base}/{self.inside}" if self.inside else base

    @property
    def name(self) -> str:
        """Last part of the path."""
        return str(self).rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """Ending of the name, such as `.parquet`."""
        return PurePosixPath(self.name).suffix

    @property
    def parent(self) -> ObjectPath:
        """Parent path, within the address."""
        return ObjectPath(self.url, self.inside.rpartition("/")[0])

    def resolve(self) -> ObjectPath:
        """This path: addresses are absolute."""
        return self

    def is_file(self) -> bool:
        """True if there is an object of this name."""
        from pyarrow.fs import FileType

        with self.errors("find"):
            system, base = _opened(self.url)
            kind = system.get_file_info(self._key(base)).type
        return bool(kind == FileType.File)

    def read_bytes(self) -> bytes:
        """Content of an object."""
        with self.errors("read"):
            system, base = _opened(self.url)
            with system.open_input_file(self._key(base)) as file:
                return bytes(file.readall())

    def open(self) -> pa.NativeFile:
        """Open an object for reading at any position."""
        with self.errors("read"):
            system, base = _opened(self.url)
            return system.open_input_file(self._key(base))

    def write_bytes(self, content: bytes | pa.Buffer) -> None:
        """Write an object, which appears whole or not at all."""
        with self.errors("write"):
            system, base = _opened(self.url)
            with system.open_output_stream(self._key(base)) as file:
                file.write(content)

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove an object."""
        if missing_ok and not self.is_file():
            return
        with self.errors("remove"):
            system, base = _opened(self.url)
            system.delete_file(self._key(base))

    def glob(self, pattern: str) -> list[ObjectPath]:
        """Objects at any depth whose path below this one matches a pattern, from one listing."""
        from pyarrow.fs import FileSelector, FileType

        with self.errors("list"):
            system, base = _opened(self.url)
            root = self._key(base)
            found = system.get_file_info(FileSelector(root, recursive=True, allow_not_found=True))
        below = [f.path[len(root) :].lstrip("/") for f in found if f.type == FileType.File]
        return [self / name for name in below if fnmatch(name, pattern)]

    rglob = glob

    def _key(self, base: str) -> str:
        return f"{base}/{self.inside}" if self.inside else base

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Turn errors of the store into one sentence without secrets."""
        try:
            yield
        except (OSError, pa.ArrowException, ValueError) as error:
            text = str(error).replace(self.url, str(self)).strip()
            first = (text or type(error).__name__).splitlines()[0]
            raise DataError(
                f"cannot {what} {self} ({first.rstrip('.')}); check the address, the credentials"
                " and the network; finished files are kept: rerun the command to resume"
            ) from None


@lru_cache(maxsize=8)
def _opened(url: str) -> tuple[Any, str]:
    """Open the file system of an address, once in each process."""
    from pyarrow import fs

    if not urlsplit(url).netloc:
        raise ValueError("it names no bucket, as in s3://BUCKET/FOLDER")
    try:
        system, base = fs.FileSystem.from_uri(url)
    except pa.ArrowInvalid as error:
        if "Unrecognized filesystem" not in str(error):
            raise
        system, base = _by_fsspec(url)
    return system, base.rstrip("/")


def _by_fsspec(url: str) -> tuple[Any, str]:
    from pyarrow import fs

    scheme = urlsplit(url).scheme
    try:
        import fsspec  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise ValueError(f"opening '{scheme}' addresses needs fsspec: pip install fsspec") from None
    try:
        system, base = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise ValueError(str(error)) from None
    return fs.PyFileSystem(fs.FSSpecHandler(system)), base
