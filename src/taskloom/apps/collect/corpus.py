"""Documents of a project: folders of text and Markdown files, JSON Lines and Parquet.

An unreadable file is skipped with a note, because one broken file among thousands must not stop a
project. Only a domain without any documents is an error.

Text from outside, in files and in forms, is cleaned of characters that confuse or deceive a reader.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taskloom.apps.collect.errors import CollectError, phrase
from taskloom.core.files import digest

_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters except tab and line ends, and lone surrogates, which cannot be written to
files.
"""

_INVISIBLE = re.compile(
    "[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\U000e0000-\U000e007f]"
)
"""Marks that reverse the display order, and zero-width characters. Joiners are kept, because some
scripts need them.
"""


def clean(text: str) -> str:
    """Normalise a text to composed form with plain line ends, without control characters and
    direction marks.

    >>> clean("a\\x00b\\r\\nc\\u202ed")
    'ab\\ncd'
    """
    text = (
        text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0c", "\n").replace("\x85", "\n")
    )
    return unicodedata.normalize("NFC", _INVISIBLE.sub("", _CONTROLS.sub("", text)))


def clean_line(text: str) -> str:
    """Normalise a text to one line, without repeated spaces.

    >>> clean_line(" Is it\\n open? ")
    'Is it open?'
    """
    return " ".join(clean(text).split())


SUFFIXES = (".txt", ".text", ".md", ".markdown", ".jsonl", ".parquet")

LARGEST = 50_000_000
"""Maximum bytes of a text file. Larger files are usually dumps of many documents, which should be
JSON Lines or Parquet.
"""

SHORTEST = 20
"""Minimum length of a document in characters."""

MOST_NOTES = 20
"""Maximum number of notes about skipped files. Any others are only counted."""


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A document from a file: its entity, and its text."""

    entity: str
    text: str


def read_documents(path: Path) -> tuple[list[SourceDocument], list[str]]:
    """Read the documents in a folder or a file. Also returns notes on the files that were skipped.

    Raises:
        CollectError: If there is nothing to read.
    """
    if not path.exists():
        raise CollectError(phrase("no_documents_path", path=path))
    documents: list[SourceDocument] = []
    notes: list[str] = []
    for file in _files(path):
        if file.suffix.lower() not in SUFFIXES or file.name.startswith("."):
            continue
        try:
            for entity, text in _read(file):
                document = SourceDocument(
                    clean_line(entity)[:200] or file.stem, clean(text).strip()
                )
                if len(document.text) < SHORTEST:
                    notes.append(
                        phrase(
                            "document_short",
                            file=file.name,
                            entity=document.entity,
                            fewest=SHORTEST,
                        )
                    )
                else:
                    documents.append(document)
        except CollectError as error:
            notes.append(phrase("document_left_out", problem=error))
    if not documents:
        if notes:
            raise CollectError(phrase("no_documents_because", path=path, first=notes[0]))
        raise CollectError(phrase("no_documents", path=path, endings=", ".join(SUFFIXES)))
    hidden = len(notes) - MOST_NOTES
    if hidden > 0:
        notes = [*notes[:MOST_NOTES], phrase("documents_more", count=hidden)]
    return documents, notes


def fingerprint(path: Path) -> str:
    """Digest of the names, sizes and modification times of a corpus's files. If it changes, the
    corpus must be read again.
    """
    lines = []
    for file in _files(path):
        status = file.stat()
        lines.append(f"{file}\t{status.st_size}\t{status.st_mtime_ns}")
    return digest("\n".join(lines))


def _files(path: Path) -> list[Path]:
    """Files in a folder and its subfolders, sorted. The path of a file yields this file; a missing
    path yields no files.
    """
    if path.is_dir():
        return sorted(p for p in path.rglob("*") if p.is_file())
    return [path] if path.exists() else []


def _read(file: Path) -> Iterator[tuple[str, str]]:
    suffix = file.suffix.lower()
    if suffix == ".parquet":
        yield from _parquet(file)
        return
    try:
        if file.stat().st_size > LARGEST:
            raise CollectError(phrase("document_large", file=file.name, megabytes=LARGEST // 10**6))
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CollectError(phrase("document_encoding", file=file.name, byte=error.start)) from error
    except OSError as error:
        raise CollectError(
            phrase("document_unreadable", file=file.name, reason=error.strerror)
        ) from error
    if suffix == ".jsonl":
        yield from _json_lines(file, text)
    else:
        title = _title(text) if suffix in (".md", ".markdown") else ""
        # The title of a Markdown file is the name of the entity and not part of a passage.
        yield (title, text.replace(f"# {title}", "", 1)) if title else (file.stem, text)


def _title(text: str) -> str:
    for line in text.splitlines():
        if line.startswith("# "):
            return line[2:].strip()
    return ""


def _json_lines(file: Path, text: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise CollectError(phrase("document_json", file=file.name, number=number)) from error
        yield _row(row, f"{file.name}, line {number}")


def _parquet(file: Path) -> Iterator[tuple[str, str]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(file)
    except (pa.ArrowException, OSError) as error:
        raise CollectError(phrase("document_parquet", file=file.name)) from error
    names = [n for n in ("title", "entity", "text") if n in table.column_names]
    for number, row in enumerate(table.select(names).to_pylist(), 1):
        yield _row(row, f"{file.name}, row {number}")


def _row(row: Any, where: str) -> tuple[str, str]:
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        raise CollectError(phrase("document_text", where=where))
    entity = row.get("entity") or row.get("title")
    if not isinstance(entity, str):
        raise CollectError(phrase("document_title", where=where))
    return entity, row["text"]
