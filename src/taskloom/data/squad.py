"""SQuAD's JSON files (version 1.1) as rows: a passage and a question, and every annotator's answer.

The official answer is the first one; its place in the passage is the trait `answer_start`, by which
learners that point at answers know the span.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from taskloom.core.errors import DataError
from taskloom.core.example import QUESTION_MARK
from taskloom.core.files import read_utf8

PEEK = 4_096
"""Characters of a JSON file that show whether it has SQuAD's layout."""

MOST_BYTES = 1 << 30
"""Maximum size of a file; SQuAD's training file has 30 MB."""

_HEAD = re.compile(r'"data"\s*:\s*\[\s*\{\s*"(?:title|paragraphs)"')


def is_squad(path: Path) -> bool:
    """True if a JSON file begins as SQuAD's do."""
    if path.suffix != ".json" or not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as file:
        return _HEAD.search(file.read(PEEK)) is not None


def split_name(path: Path) -> str:
    """The split that a file holds: `train` for train-v1.1.json."""
    return re.sub(r"-v\d(\.\d)?$", "", path.stem)


def read_squad(path: Path) -> pa.Table:
    """Read a file with the columns of a dataset."""
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
        raise DataError(f"{path} has no question")
    return pa.Table.from_pylist(rows)


def _rows(content: Any, path: Path) -> Iterator[dict[str, Any]]:
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            context = paragraph["context"]
            for asked in paragraph["qas"]:
                answers = asked["answers"]
                if not answers:
                    raise DataError(
                        f"{path}: the question {asked.get('id')!r} has no answer; take SQuAD 1.1,"
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
