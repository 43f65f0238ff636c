"""Files of predictions: one per line in the order of the examples, or records (JSON lines, CSV,
Parquet) with example ids.

A record has the text in `prediction` and the example's index in its split, counted from 0, in `id`,
`index` or `idx` (in any case). Sample files of lm-evaluation-harness have `doc_id` and `resps`
instead. From an Inspect log (`.eval`) of one of Taskloom's tasks, the complete replies of the first
epoch are read. Other columns are ignored, except that if rows have a `split`, only those of the
split being scored are used. Lines, and records without ids, must be in the order of the examples.

An `.eval` file is a zip archive, which is read without Inspect. Its `summaries.json` has the
metadata, the answer and the score of every sample. `samples/` has a larger file for each sample,
with all messages and the complete reply.
"""

from __future__ import annotations

import csv
import io
import json
import re
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taskloom.core import files
from taskloom.core.errors import DataError, InputError, echo, nearest
from taskloom.core.extraction import without_thinking
from taskloom.core.files import path_of, refuse_special

TEXT = "prediction"
IDS = ("id", "index", "idx")
"""Columns with ids, in order of preference. Case and surrounding spaces in a name are ignored."""

HARNESS = frozenset(("doc_id", "resps"))
"""Keys of a row in a sample file of lm-evaluation-harness."""

LOG = ".eval"
"""File extension of Inspect's logs."""

LOGGED_ID = re.compile(r"(.+)-(\d+)")
"""Ids of samples in the tasks that Taskloom passes to Inspect: split and index."""

LIKE_AN_ID = re.compile(r"(.*[\s_.-])?(id|index|idx|number|row)|unnamed: 0|")
"""Other names, in lower case, of columns that may contain ids. pandas writes row numbers to a
column without a name.
"""

SPLIT = "split"
LONGEST_HEADER = 10_000
"""Maximum length of a first line that may be the header of a CSV file. A longer one is treated as a
prediction.
"""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A prediction: its text, its line number, and the problem with that line, if any."""

    text: str
    line: int
    fault: str = ""


@dataclass(frozen=True, slots=True)
class PredictionSource:
    """Contents of a file or of standard input, which can be read only once.

    Attributes:
        name: The path, or `standard input`.
        data: The content.
        suffix: File extension in lower case.
    """

    name: str
    data: bytes
    suffix: str = ""

    def text(self) -> str:
        """Return the content as text. Raises an `InputError` if it is not UTF-8."""
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{self.name} is not UTF-8 text (byte {error.start}); save it as UTF-8"
            ) from error


LineReader = Callable[[PredictionSource], list[Prediction]]

_Row = tuple[int, Mapping[str, Any]]
"""A record and its line or row number."""

_NumberedId = tuple[int, str]
"""Line or row number of a record, and its id."""


def predictions_for(
    source: str | Path,
    examples: int,
    *,
    names: Sequence[str] = (),
    split: str = "",
    objects: bool = False,
    lines: LineReader | None = None,
) -> list[Prediction]:
    """Read the predictions for a split, reordered by their ids if the file has them.

    Args:
        source: A file, or `-` for standard input.
        examples: Number of examples. Without ids, the caller must check that the number of
            predictions agrees.
        names: Ids of examples in addition to their indices.
        split: Split whose rows are used, if the file names splits.
        objects: True if an answer may itself be a JSON object, so that a line with one need not be
            a record.
        lines: Reads a file of plain lines. Default: `read_lines`.

    Raises:
        InputError: If the file cannot be read, a line is malformed, or ids are missing, repeated or
            unknown.
    """
    content = open_source(source)
    predictions, ids = _read(content, split, objects, lines)
    if ids is None:
        return predictions
    places = _places(examples, names, ids)
    chosen = _chosen(predictions, ids, places, content.name)
    missing = [id for id, place in places.items() if place not in chosen]
    if missing:
        raise InputError(
            f"{content.name} has no predictions for {len(missing):,} of {len(places):,} examples; "
            f"the first of these has the id {echo(missing[0])}"
        )
    return [chosen[place] for place in range(len(places))]


def some_predictions_for(
    source: str | Path,
    examples: int,
    *,
    split: str = "",
    objects: bool = False,
    lines: LineReader | None = None,
) -> tuple[Sequence[int], list[Prediction]]:
    """Read the predictions for the examples whose ids are in the file.

    Args:
        source: A file, or `-` for standard input.
        examples: Number of examples.
        split: Split whose rows are used, if the file names splits.
        objects: True if an answer may itself be a JSON object.
        lines: Reads a file of plain lines. Default: `read_lines`.

    Returns:
        The indices of the examples in ascending order, and their predictions. A file without ids is
        assumed to cover all examples, and may have too few or too many predictions.
    """
    content = open_source(source)
    predictions, ids = _read(content, split, objects, lines)
    if ids is None:
        return range(examples), predictions
    places = _places(examples, (), ids)
    chosen = _chosen(predictions, ids, places, content.name)
    numbers = sorted(chosen)
    return numbers, [chosen[number] for number in numbers]


def _read(
    content: PredictionSource, split: str, objects: bool, lines: LineReader | None
) -> tuple[list[Prediction], list[_NumberedId] | None]:
    """Read the predictions of a file with their ids, or with None if they are in the order of the
    examples.
    """
    rows = _records(content, objects)
    if rows is None:
        return (lines or read_lines)(content), None
    rows = _of_split(rows, split, content.name)
    column = _id_column(rows, content.name)
    if column is None:
        return _texts(rows, content.name), None
    ids = [(line, _id(row.get(column), line, content.name)) for line, row in rows]
    return _texts(rows, content.name), ids


def size_and_splits(source: str | Path) -> tuple[int, frozenset[str]]:
    """Return the number of predictions in a file, and the splits named in its rows."""
    content = open_source(source)
    rows = _records(content, objects=True)
    if rows is None:
        return len(read_lines(content)), frozenset()
    return len(rows), frozenset(str(row[SPLIT]) for _, row in rows if row.get(SPLIT) is not None)


def open_source(source: str | Path) -> PredictionSource:
    """Read a file, a pipe, or standard input if the path is `-`."""
    if str(source) == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed; name a file of predictions")
        stream = getattr(sys.stdin, "buffer", None)
        return PredictionSource(
            "standard input", stream.read() if stream else sys.stdin.read().encode()
        )
    path = path_of(source)
    if path.is_dir() or not path.exists():  # a pipe is not a regular file, but can be read
        raise InputError(
            f"there is no file {path}; it should contain predictions: lines, JSON lines, CSV or "
            "Parquet"
        )
    content = files.read_bytes(path, InputError, pipes=True)
    return PredictionSource(str(path), content, path.suffix.lower())


def parse_prediction(line: str, number: int) -> Prediction:
    """Parse one line. A line in double quotes is parsed as JSON, so that a prediction may be empty
    or contain line breaks. Thoughts are removed.
    """
    if not line or not line[0] == line[-1] == '"':
        return Prediction(without_thinking(line), number)
    try:
        return Prediction(without_thinking(str(json.loads(line))), number)
    except ValueError:
        fault = (
            "the line begins and ends with a double quote but is not a JSON text; escape inner"
            ' quotes as \\"'
        )
        return Prediction(line, number, fault)


def read_lines(source: PredictionSource) -> list[Prediction]:
    """Read one prediction per line. Raises an `InputError` with the number of a line whose JSON
    text is malformed.
    """
    text = source.text()
    lines = text.removesuffix("\n").split("\n") if text else []
    predictions = [
        parse_prediction(line.removesuffix("\r"), number)
        for number, line in enumerate(lines, start=1)
    ]
    for prediction in predictions:
        if prediction.fault:
            raise InputError(f"{source.name}:{prediction.line}: {prediction.fault}")
    return predictions


def _records(source: PredictionSource, objects: bool) -> list[_Row] | None:
    """Return the records of the file, or None if it has plain lines."""
    if source.suffix == ".parquet" or source.data[:4] == b"PAR1":
        return _parquet_rows(source)
    if source.suffix == LOG:
        return list(_log_rows(source))
    if source.suffix in (".csv", ".tsv"):
        return list(_csv_rows(source, "\t" if source.suffix == ".tsv" else ","))
    try:
        head = source.data.decode("utf-8-sig").lstrip().partition("\n")[0].strip()
    except UnicodeDecodeError:
        return None  # reported by the reader of lines
    if _is_header(head):
        return list(_csv_rows(source, ","))
    first = _object(head)
    if first is None:
        if source.suffix in (".jsonl", ".ndjson") and head and head[0] != '"':
            raise InputError(
                f"{source.name}:1 is not a JSON object; write one per line with '{TEXT}', and 'id'"
                " if you have ids"
            )
        return None
    if first.keys() >= HARNESS:
        return [(line, _harness_record(row)) for line, row in _json_rows(source)]
    if TEXT not in first:
        has_id = any(_plain(name) in IDS for name in first)
        if objects and not has_id and source.suffix not in (".jsonl", ".ndjson"):
            return None
        raise _without_text(source.name, first)
    return list(_json_rows(source))


def _log_rows(source: PredictionSource) -> Iterator[_Row]:
    """Yield the complete replies in an Inspect log of one of Taskloom's tasks."""
    archive = EvalArchive(Path(source.name))
    first = [one for one in archive.summaries() if one.get("epoch", 1) == 1]
    for number, sample in enumerate(first, start=1):
        own = LOGGED_ID.fullmatch(str(sample.get("id")))
        if own is None:
            # Inspect numbers samples without ids from 1, so such ids would be off by one.
            raise InputError(
                f"{source.name} has the sample {echo(sample.get('id'))}, whose id does not name a"
                " split and a number, such as 'test-0'; score logs of other tasks with 'taskloom"
                " runs rescore'"
            )
        yield number, {SPLIT: own[1], IDS[0]: own[2], TEXT: archive.reply(sample)}


def _harness_record(row: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a row of lm-evaluation-harness to a record with the complete reply, before its
    filters.
    """
    reply: Any = row.get("resps", "")
    while isinstance(reply, list) and reply:
        reply = reply[0]
    return {IDS[0]: row.get("doc_id"), TEXT: reply if isinstance(reply, str) else ""}


def _is_header(line: str) -> bool:
    """True if a line is the header of a CSV file with columns for the text and an id."""
    if len(line) > LONGEST_HEADER or TEXT not in line:
        return False
    try:
        names = next(csv.reader([line]), [])
    except csv.Error:
        return False
    return TEXT in names and any(_plain(name) in IDS for name in names)


def _object(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _without_text(name: str, columns: Iterable[str]) -> InputError:
    known = [str(column) for column in columns]
    return InputError(
        f"{name} has records without '{TEXT}'; {nearest(TEXT, known)} Call the column '{TEXT}'"
    )


def _json_rows(source: PredictionSource) -> Iterator[_Row]:
    for number, line in enumerate(source.text().split("\n"), start=1):
        if not line.strip():
            continue
        row = _object(line.strip())
        if row is None:
            raise InputError(
                f"{source.name}:{number} is not a JSON object, although the first line is; write "
                "one per line"
            )
        yield number, row


def _csv_rows(source: PredictionSource, delimiter: str) -> Iterator[_Row]:
    text = source.text()
    limit = csv.field_size_limit(max(len(text), 1))  # 128 kB by default, less than a long answer
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        if TEXT not in (reader.fieldnames or ()):
            raise _without_text(source.name, reader.fieldnames or ())
        for row in reader:
            if None in row or None in row.values():
                raise InputError(
                    f"{source.name}:{reader.line_num} has more or fewer fields than the header;"
                    " quote fields that contain a comma"
                )
            yield reader.line_num, row
    except csv.Error as error:
        raise InputError(f"{source.name} is not a CSV file ({error})") from error
    finally:
        csv.field_size_limit(limit)


def _parquet_rows(source: PredictionSource) -> list[_Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(source.data))
        names = file.schema_arrow.names
        if TEXT not in names:
            raise _without_text(source.name, names)
        wanted = [name for name in names if name in (TEXT, SPLIT) or _may_be_an_id(name)]
        rows = file.read(wanted).to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{source.name} is not a Parquet file: {str(error)[:200]}") from error
    return list(enumerate(rows, start=1))


def _of_split(rows: list[_Row], split: str, name: str) -> list[_Row]:
    """Return the rows of the split being scored, or all rows if none of them names a split."""
    splits = {str(row[SPLIT]) for _, row in rows if row.get(SPLIT) is not None}
    if not splits:
        return rows
    if split and split not in splits:
        raise InputError(
            f"{name} has no predictions for the split '{split}'; {nearest(split, splits)}"
        )
    if not split and len(splits) > 1:
        raise InputError(
            f"{name} has predictions for several splits ({echo(sorted(splits))}); keep those of "
            "one split"
        )
    return [(line, row) for line, row in rows if not split or str(row.get(SPLIT)) == split]


def _plain(column: str | None) -> str:
    """Return a column's name in lower case without surrounding spaces. A CSV file may have a column
    without a name.
    """
    return str(column or "").strip().lower()


def _may_be_an_id(column: str) -> bool:
    return LIKE_AN_ID.fullmatch(_plain(column)) is not None


def _id_column(rows: list[_Row], name: str) -> str | None:
    """Return the column with the ids, or None if the records are in the order of the examples.

    Raises:
        InputError: If another column numbers the records in another order.
    """
    columns: dict[str, None] = {}
    for _, row in rows:
        columns |= {column: None for column, value in row.items() if value is not None}
    for known in IDS:
        spelled = [column for column in columns if _plain(column) == known]
        if spelled:
            return known if known in spelled else spelled[0]
    for column in columns:
        if _may_be_an_id(column):
            values = [str(row.get(column)) for _, row in rows]
            order = [str(place) for place in range(len(rows))]
            if values != order and sorted(values) == sorted(order):
                raise InputError(
                    f"{name} has its records in a different order than the numbers in the column "
                    f"{echo(column)}; rename that column to 'id' if it numbers the examples, or "
                    "remove it"
                )
    return None


def _texts(rows: list[_Row], name: str) -> list[Prediction]:
    return [Prediction(_text(row, line, name), line) for line, row in rows]


def _text(row: Mapping[str, Any], line: int, name: str) -> str:
    """Return the text of a record without thoughts. Values that are not texts are converted to
    JSON.
    """
    value = row.get(TEXT)
    if value is None:
        raise InputError(
            f"{name}:{line} has no '{TEXT}'; write an empty text if the model gave none"
        )
    try:
        if isinstance(value, str):
            return without_thinking(value)
        return json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError as error:
        raise InputError(
            f"{name}:{line} has a '{TEXT}' that is nested too deeply; write it as a text"
        ) from error


def _id(value: Any, line: int, name: str) -> str:
    """Return an id as text. 3, 3.0 (as in tables with missing values) and "3" are the same id."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None or value == "" or not isinstance(value, str | int) or isinstance(value, bool):
        raise InputError(
            f"{name}:{line} has no id, or one that is neither a whole number nor a text:"
            f" {echo(value)}"
        )
    return str(value)


def _places(examples: int, names: Sequence[str], ids: Sequence[_NumberedId]) -> dict[str, int]:
    """Map each id to the index of its example. Ids are indices from 0, or names if the first id is
    a name.
    """
    first = ids[0][1] if ids else None
    if first in names and len(set(names)) == examples:
        return {name: place for place, name in enumerate(names)}
    return {str(place): place for place in range(examples)}


def _chosen(
    predictions: Sequence[Prediction],
    ids: Sequence[_NumberedId],
    places: Mapping[str, int],
    name: str,
) -> dict[int, Prediction]:
    """Return predictions by the index of their example."""
    chosen: dict[int, Prediction] = {}
    lines: dict[str, int] = {}
    for prediction, (line, id) in zip(predictions, ids, strict=True):
        if id not in places:
            raise InputError(
                f"{name}:{line} has the id {echo(id)}, which does not belong to any example; ids "
                f"are {_range(places)}"
            )
        if id in lines:
            raise InputError(
                f"{name}:{line} repeats the id {echo(id)} of line {lines[id]}; give each example "
                "one prediction"
            )
        lines[id] = line
        chosen[places[id]] = prediction
    return chosen


def _range(places: Mapping[str, int]) -> str:
    if not places:
        return "none, since there are no examples"
    names = list(places)
    return f"{echo(names[0])} to {echo(names[-1])}" if len(names) > 1 else echo(names[0])


LARGEST_MEMBER = 2**27
"""Maximum size of an archive member after decompression, in bytes. Parsed JSON takes up to 25 times
as much memory.
"""

ZSTANDARD = 93
"""Compression method number of Zstandard in zip archives. Python's own zipfile supports it from
3.14.
"""


HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")
"""An escape that may be half a surrogate pair."""


def log_json(text: bytes) -> Any:
    """Parse JSON of a log. Half surrogate pairs, which no file or page can hold, become '?'."""
    value = json.loads(text)
    if HALF_PAIR.search(text):
        return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    return value


DAMAGES = (
    *(OSError, ValueError, RecursionError, EOFError, NotImplementedError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error, struct.error),
)
"""Errors raised for a member that is damaged, encrypted or compressed in an unknown way."""


class EvalArchive:
    """An Inspect log: a zip archive whose members are compressed with deflate or Zstandard.

    Args:
        path: The `.eval` file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        refuse_special(path)
        try:
            with zipfile.ZipFile(path) as archive:
                self._members = {info.filename: info for info in archive.infolist()}
        except (OSError, zipfile.BadZipFile) as error:
            raise DataError(
                f"{path} cannot be read ({error}); it is not a complete log written by Inspect"
            ) from error

    @property
    def names(self) -> list[str]:
        """Names of all members."""
        return list(self._members)

    def summaries(self) -> list[dict[str, Any]]:
        """Metadata of each sample. An interrupted log stores it in several parts."""
        whole = self.json("summaries.json")
        if isinstance(whole, list):
            return whole
        parts = [name for name in self.names if name.startswith("_journal/summaries/")]
        parts.sort(key=lambda name: (len(name), name))  # 2.json before 10.json
        return [sample for name in parts for sample in self.json(name) or []]

    def reply(self, sample: Mapping[str, Any]) -> str:
        """Return the complete reply of a sample, which is stored only in the sample's own file.

        Args:
            sample: The sample's summary.
        """
        output = self.sample(str(sample.get("id")), sample.get("epoch", 1)).get("output")
        reply = output.get("completion") if isinstance(output, dict) else None
        return reply if isinstance(reply, str) else ""

    def sample(self, id: str, epoch: int) -> dict[str, Any]:
        """Return the whole sample (messages, output, events), or an empty mapping if the log does
        not contain it.
        """
        whole = self.json(f"samples/{id}_epoch_{epoch}.json")
        return whole if isinstance(whole, dict) else {}

    def json(self, name: str) -> Any:
        """Parse a member as JSON, or return None if there is no such member."""
        info = self._members.get(name)
        if info is None:
            return None
        if info.file_size > LARGEST_MEMBER:
            raise DataError(f"{self.path}: {name} has {info.file_size:,} bytes, which is too large")
        try:
            return log_json(self._bytes(info))
        except DAMAGES as error:
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
