"""Datasets from elsewhere: Parquet, JSONL or CSV files with the columns `input` and `targets` (or
`target`), or a JSON file in the format of SQuAD 1.1.

In SQuAD, the first answer of each question is the official one. Its position in the passage is the
trait `answer_start`, which extractive learners use to find the span.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from taskloom.core import shards
from taskloom.core.errors import DataError
from taskloom.core.example import QUESTION_MARK
from taskloom.core.files import read_utf8, refuse_special
from taskloom.core.shards import MANIFEST


def read_foreign(folder: Path) -> dict[str, pa.Table]:
    """Read `SPLIT/*.parquet`, `SPLIT.parquet`, `SPLIT.jsonl` and `SPLIT.csv` in a folder, by split,
    with our columns.
    """
    if not folder.is_dir():
        raise DataError(
            f"there is no dataset folder {folder}; make one with 'taskloom make RECIPE -o {folder}'"
        )
    tables: dict[str, pa.Table] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in (".parquet", *READERS) and not path.is_dir():
            refuse_special(path)
        files = [path] if path.is_file() and (path.suffix != ".json" or is_squad(path)) else []
        if path.is_dir():
            files = sorted(path.glob("*.parquet"))
        if not {p.suffix for p in files} & {".parquet", *READERS}:
            continue
        name = path.name if path.is_dir() else path.stem
        if path.suffix == ".json":
            name = split_name(path)
        if name in tables:
            raise DataError(
                f"{folder} has two sources for the split '{name}' ({path.name} is the second);"
                " keep one"
            )
        if path.suffix in READERS:
            tables[name] = READERS[path.suffix](path)
            continue
        refuse_unfinished(folder, files)
        tables[name] = _joined(files)
    if not tables:
        raise DataError(
            f"{folder} holds neither {MANIFEST} nor Parquet, JSONL or CSV splits; make it with"
            f" 'taskloom make RECIPE -o {folder}'"
        )
    return {name: adapt(table, folder / name) for name, table in tables.items()}


def refuse_unfinished(folder: Path, files: Iterable[Path]) -> None:
    """Reject a folder of Taskloom shards without a manifest, because that dataset is incomplete."""
    if any(shards.read_stamp(p) is not None for p in files):
        raise DataError(
            f"{folder} is an unfinished dataset (no {MANIFEST}); rerun 'taskloom make' to finish it"
        )


def _joined(files: list[Path]) -> pa.Table:
    try:
        return pa.concat_tables([shards.read(p) for p in files], promote_options="default")
    except pa.ArrowException as error:
        raise DataError(
            f"{files[0].parent}: the files have different columns: {str(error).splitlines()[0]}"
        ) from error


def read_jsonl(path: Path) -> pa.Table:
    """Read a file with one JSON object per line."""
    rows = []
    with path.open(encoding="utf-8-sig", errors="surrogateescape") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line.encode("utf-8", "strict"))
            except UnicodeError as error:
                raise DataError(
                    f"{path}:{number} is not UTF-8 text; save the file as UTF-8"
                ) from error
            except (ValueError, RecursionError) as error:
                raise DataError(
                    f"{path}:{number} is not JSON ({error}); write one object per line"
                ) from error
            if not isinstance(row, dict):
                raise DataError(
                    f"{path}:{number} is not a JSON object; one object a line with 'input' and"
                    " 'targets'"
                )
            rows.append(row)
    try:
        return pa.Table.from_pylist(rows)
    except (pa.ArrowException, UnicodeError, OverflowError) as error:
        raise DataError(
            f"{path}: the rows have different shapes: {str(error).splitlines()[0]}"
        ) from error


def read_csv(path: Path) -> pa.Table:
    """Read a CSV file with a header. All values are texts, and columns other than ours become
    traits.
    """
    from pyarrow import csv as arrow_csv

    try:
        names = arrow_csv.open_csv(path).schema.names
        kinds = dict.fromkeys([n for n in names if n in TEXTS], pa.string())
        table = arrow_csv.read_csv(
            path,
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(column_types=kinds, strings_can_be_null=False),
        )
    except (pa.ArrowException, UnicodeError) as error:
        raise DataError(
            f"{path} is not a CSV file with a header: {str(error).splitlines()[0]}"
        ) from error
    if len(set(names)) < len(names):
        raise DataError(f"{path} has two columns of one name; rename one")
    traits = [n for n in names if n not in TEXTS and _is_scalar(table.column(n).type)]
    if traits:
        columns = [table.column(n).combine_chunks() for n in traits]
        table = table.drop_columns(traits).append_column(
            "traits", pa.StructArray.from_arrays(columns, traits)
        )
    return table


def _read_squad(path: Path) -> pa.Table:
    """Read a SQuAD file. Columns other than ours become traits."""
    table = read_squad(path)
    traits = [name for name in table.column_names if name not in TEXTS]
    columns = [table.column(name).combine_chunks() for name in traits]
    return table.drop_columns(traits).append_column(
        "traits", pa.StructArray.from_arrays(columns, traits)
    )


def is_split_csv(path: Path) -> bool:
    """True if the header shows that a CSV file has inputs and answers. Many other tables also end
    in .csv.
    """
    if path.suffix != ".csv" or not path.is_file():  # reading a pipe could block forever
        return False
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            names = next(csv.reader([file.readline(LONGEST_HEAD)]), [])
    except (OSError, csv.Error):
        return False
    return "input" in names and bool({"target", "targets"} & set(names))


def _is_scalar(kind: pa.DataType) -> bool:
    """True if a column can be a trait."""
    tests = (pa.types.is_string, pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    return any(test(kind) for test in tests)


TEXTS = ("input", "target", "targets", "task", "question", "key")
"""Our text columns. CSV has no lists, so `targets` is a single answer there."""

LONGEST_HEAD = 10_000
"""Maximum characters of a header read to decide whether a CSV file has examples."""

READERS: dict[str, Callable[[Path], pa.Table]] = {
    ".jsonl": read_jsonl,
    ".csv": read_csv,
    ".json": _read_squad,
}
"""Readers by file extension."""


MOST_COLUMNS = 1_000
"""Maximum number of columns of data from elsewhere, each of which becomes a trait."""


def adapt(table: pa.Table, where: Path) -> pa.Table:
    """Convert columns from elsewhere to ours. Raises a one-sentence error if that is impossible."""
    import pyarrow.compute as pc

    columns = len(_own_names(table))
    if columns > MOST_COLUMNS:
        raise DataError(
            f"{where} has {columns:,} columns; at most {MOST_COLUMNS:,} are read: leave some out"
        )
    try:
        adapted = _columns(table, where)
    except (pa.ArrowException, TypeError) as error:
        raise DataError(
            f"{where}: a column is not what it should be: {str(error).splitlines()[0]}"
        ) from error
    answered = adapted.column("targets").filter(
        pc.fill_null(pc.greater(pc.list_value_length(adapted.column("targets")), 0), False)
    )
    if (
        adapted.column("input").null_count
        or len(answered) < adapted.num_rows
        or pc.list_element(answered, 0).null_count
    ):
        raise DataError(
            f"{where}: every row needs an 'input' and at least one target; some have none"
        )
    return shards.check_form(adapted, where)


def _own_names(table: pa.Table) -> list[str]:
    """Original column names of a file, including those of a CSV file that became traits."""
    names: list[str] = []
    for column in table.schema:
        traits = column.name == "traits" and pa.types.is_struct(column.type)
        names += [field.name for field in column.type] if traits else [column.name]
    return names


def _columns(table: pa.Table, where: Path) -> pa.Table:
    names = table.column_names
    if "input" not in names or not {"targets", "target"} & set(names):
        raise DataError(
            f"{where} needs the columns 'input' and 'target' (or 'targets'); it has:"
            f" {', '.join(_own_names(table))}; rename them, or name yours in an experiment:"
            " {recipe: FOLDER, columns: {input: …, target: …}}"
        )
    n = table.num_rows
    texts = table.column("input").cast(pa.string())
    if "targets" in names and pa.types.is_list(table.column("targets").type):
        targets = table.column("targets").cast(pa.list_(pa.string()))
    else:
        plain = table.column("targets" if "targets" in names else "target").cast(pa.string())
        targets = pa.array([[t] for t in plain.to_pylist()], pa.list_(pa.string()))
    columns: dict[str, Any] = {
        "index": pa.array(range(n), pa.int64()),
        "task": (
            _filled(table.column("task").cast(pa.string()))
            if "task" in names
            else pa.array([""] * n, pa.string())
        ),
        "input": texts,
        "targets": targets,
    }
    for name in ("question", "key"):
        columns[name] = (
            table.column(name).cast(pa.string()) if name in names else pa.nulls(n, pa.string())
        )
    columns["derivation"] = _derivations(table, where)
    if "traits" in names and pa.types.is_struct(table.column("traits").type):
        columns["traits"] = table.column("traits")
    return pa.table(columns)


def _filled(texts: Any) -> Any:
    """A text column with missing values replaced by empty texts."""
    if not texts.null_count:
        return texts
    return pa.array([text or "" for text in texts.to_pylist()], pa.string())


def _derivations(table: pa.Table, where: Path) -> Any:
    if "derivation" not in table.column_names:
        return pa.nulls(table.num_rows, pa.list_(shards.STEP))
    column, wanted = table.column("derivation"), pa.list_(shards.STEP)
    try:
        if _has_steps(column.type):
            # Files may have the fields in any order, and older versions of Arrow (16.1) cast them
            # by position.
            return pa.chunked_array([pa.array(column.to_pylist(), wanted)])
        return column.cast(wanted)
    except (pa.ArrowException, TypeError) as error:
        raise DataError(
            f"{where}: 'derivation' must be a list of steps with rule, value and of: {error}"
        ) from error


def _has_steps(kind: pa.DataType) -> bool:
    """True for lists of structs with the fields of steps, in any order."""
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        return False
    return {field.name for field in kind.value_type} == {field.name for field in shards.STEP}


PEEK = 4_096
"""Characters read from the start of a JSON file to detect SQuAD's layout."""

MOST_BYTES = 1 << 30
"""Maximum file size in bytes. SQuAD's training file has 30 MB."""

_HEAD = re.compile(r'"data"\s*:\s*\[\s*\{\s*"(?:title|paragraphs)"')


def is_squad(path: Path) -> bool:
    """True if the beginning of a JSON file looks like SQuAD."""
    if path.suffix != ".json" or not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as file:
        return _HEAD.search(file.read(PEEK)) is not None


def split_name(path: Path) -> str:
    """Name of the split in a file: `train` for train-v1.1.json."""
    return re.sub(r"-v\d(\.\d)?$", "", path.stem)


def read_squad(path: Path) -> pa.Table:
    """Read a SQuAD file as a table with the columns of a dataset."""
    try:
        content = json.loads(read_utf8(path, DataError, most=MOST_BYTES))
        rows = list(_rows(content, path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON ({error})") from error
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise DataError(
            f"{path} does not have SQuAD's layout, data[].paragraphs[] with context and qas"
            f" ({error!r})"
        ) from error
    if not rows:
        raise DataError(f"{path} has no questions")
    return pa.Table.from_pylist(rows)


def _rows(content: Any, path: Path) -> Iterator[dict[str, Any]]:
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            context = paragraph["context"]
            for asked in paragraph["qas"]:
                answers = asked["answers"]
                if not answers:
                    raise DataError(
                        f"{path}: the question {asked.get('id')!r} has no answer; use SQuAD 1.1,"
                        " in which every question has one"
                    )
                first = answers[0]
                yield {
                    "input": context + QUESTION_MARK + asked["question"].strip(),
                    "targets": list(dict.fromkeys(answer["text"] for answer in answers)),
                    "question": asked["question"].strip(),
                    "answer_start": int(first["answer_start"]),
                    "title": str(article.get("title", "")),
                }
