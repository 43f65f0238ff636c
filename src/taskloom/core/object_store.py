"""Datasets in object stores, with addresses such as `s3://BUCKET/FOLDER`.

pyarrow's own file systems are used for S3, Google Cloud Storage and Azure, so these need no other
packages. fsspec opens other schemes, if it is installed. Credentials come from the environment, as
for the provider's own tools.

An object appears whole or not at all, so writing one is atomic without a temporary name. There are
no locks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa

from taskloom.core.errors import DataError, nearest

S3_OPTIONS = ("endpoint_override", "region", "scheme")
"""Options of an S3 address."""

ATTEMPTS = 5
"""Maximum attempts at a request to S3: half a minute if the server accepts it and does not answer.
Arrow's own rule for addresses takes 100 s.
"""

GOOGLE_PATIENCE = 30
"""Seconds in which a request to Google Cloud Storage is repeated. Arrow's own limit is 15 minutes."""


@dataclass(frozen=True, slots=True, order=True)
class ObjectPath:
    """A path in an object store, with the part of pathlib's interface that datasets need.

    It is sent to worker processes, which open the file system themselves.
    """

    url: str
    inside: str = ""

    def __truediv__(self, name: str) -> ObjectPath:
        return ObjectPath(self.url, f"{self.inside}/{name}".lstrip("/"))

    def __repr__(self) -> str:
        return f"ObjectPath('{self}')"  # an address may hold a password

    def __str__(self) -> str:
        """Return the address without a password or options, which may be secret."""
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
        """Return this path, because addresses are absolute."""
        return self

    def is_file(self) -> bool:
        """True if there is an object with this name."""
        from pyarrow.fs import FileType

        with self.errors("find"):
            system, base = _opened(self.url)
            kind = system.get_file_info(self._key(base)).type
        return bool(kind == FileType.File)

    def read_bytes(self) -> bytes:
        """Read the content of an object."""
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
        """Return objects whose path below this one matches a pattern part by part."""
        depth = pattern.count("/")
        return [
            found
            for found, name in self._below()
            if name.count("/") == depth and fnmatch(name, pattern)
        ]

    def rglob(self, pattern: str) -> list[ObjectPath]:
        """Return objects at any depth below this one whose name matches a pattern."""
        return [found for found, _ in self._below() if fnmatch(found.name, pattern)]

    def _below(self) -> list[tuple[ObjectPath, str]]:
        """Return objects at any depth with their path below this one, using a single listing."""
        from pyarrow.fs import FileSelector, FileType

        with self.errors("list"):
            system, base = _opened(self.url)
            root = self._key(base)
            found = system.get_file_info(FileSelector(root, recursive=True, allow_not_found=True))
        names = [f.path[len(root) :].lstrip("/") for f in found if f.type == FileType.File]
        return [(self / name, name) for name in names]

    def _key(self, base: str) -> str:
        return f"{base}/{self.inside}" if self.inside else base

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Convert errors of the store to one sentence without secrets."""
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
    scheme = urlsplit(url).scheme
    if scheme == "s3":
        return _open_s3(url)
    if scheme in ("gs", "gcs") and "retry_limit_seconds=" not in url:
        url += f"{'&' if '?' in url else '?'}retry_limit_seconds={GOOGLE_PATIENCE}"
    try:
        system, base = fs.FileSystem.from_uri(url)
    except pa.ArrowInvalid as error:
        if "Unrecognized filesystem" not in str(error):
            raise
        system, base = _by_fsspec(url)
    return system, base.rstrip("/")


def _open_s3(url: str) -> tuple[Any, str]:
    """Open S3 with fewer attempts than `from_uri` makes."""
    from pyarrow import fs

    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    for name in options:
        if name not in S3_OPTIONS:
            raise ValueError(f"'{name}' is not an option of S3; {nearest(name, S3_OPTIONS)}")
    bucket = parts.netloc.rpartition("@")[2]
    if "region" not in options and "endpoint_override" not in options:
        options["region"] = fs.resolve_s3_region(bucket)
    system = fs.S3FileSystem(
        access_key=unquote(parts.username) if parts.username else None,
        secret_key=unquote(parts.password) if parts.password else None,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
        **options,
    )
    return system, f"{bucket}{unquote(parts.path)}".rstrip("/")


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
