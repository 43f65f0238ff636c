"""Reading the `.eval` files of Inspect without Inspect.

An `.eval` file is a zip archive. Its `summaries.json` has the metadata, the answer and the score of
every sample; `samples/` has a larger file for each of them, with all messages and the whole reply.
"""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from taskloom.core.errors import DataError

LARGEST_MEMBER = 2**31
"""Maximum size of a member of an archive after decompression, in bytes."""

ZSTANDARD = 93
"""The number of the compression method in zip archives. Python's own zipfile reads it from 3.14."""


class EvalArchive:
    """A log of Inspect: the members of a zip archive, compressed by deflate or Zstandard.

    Args:
        path: The `.eval` file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with zipfile.ZipFile(path) as archive:
                self._members = {info.filename: info for info in archive.infolist()}
        except (OSError, zipfile.BadZipFile) as error:
            raise DataError(
                f"{path} cannot be read ({error}); it is not a log that Inspect wrote, or half of"
                " one"
            ) from error

    @property
    def names(self) -> list[str]:
        """Names of all members."""
        return list(self._members)

    def summaries(self) -> list[dict[str, Any]]:
        """What the log says of each sample; an interrupted one says it in parts."""
        whole = self.json("summaries.json")
        if isinstance(whole, list):
            return whole
        parts = [name for name in self.names if name.startswith("_journal/summaries/")]
        parts.sort(key=lambda name: (len(name), name))  # 2.json before 10.json
        return [sample for name in parts for sample in self.json(name) or []]

    def reply(self, sample: Mapping[str, Any]) -> str:
        """The whole reply to a sample, which only the sample's own file has.

        Args:
            sample: Its summary.
        """
        name = f"samples/{sample.get('id')}_epoch_{sample.get('epoch', 1)}.json"
        whole = self.json(name)
        output = whole.get("output") if isinstance(whole, dict) else None
        reply = output.get("completion") if isinstance(output, dict) else None
        return reply if isinstance(reply, str) else ""

    def json(self, name: str) -> Any:
        """Return a member as JSON, or None if there is none of this name."""
        info = self._members.get(name)
        if info is None:
            return None
        if info.file_size > LARGEST_MEMBER:
            raise DataError(f"{self.path}: {name} has {info.file_size:,} bytes, too many to read")
        try:
            return json.loads(self._bytes(info))
        except (OSError, ValueError, RecursionError, zipfile.BadZipFile, struct.error) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise DataError(f"{self.path}: {name} cannot be read ({reason[:100]})") from error

    def _bytes(self, info: zipfile.ZipInfo) -> bytes:
        with self.path.open("rb") as file:
            if info.compress_type != ZSTANDARD:
                with zipfile.ZipFile(file) as archive:
                    return archive.read(info)
            file.seek(info.header_offset)
            head = file.read(30)
            name_length, extra_length = struct.unpack("<HH", head[26:30])
            file.seek(name_length + extra_length, 1)
            packed = file.read(info.compress_size)
        import pyarrow as pa

        content: bytes = pa.decompress(
            packed, decompressed_size=info.file_size, codec="zstd", asbytes=True
        )
        return content
