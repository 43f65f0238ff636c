"""Files of predictions: lines, JSON texts, pipes, and what is wrong with a file."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from taskloom.errors import InputError
from taskloom.prediction_files import read_predictions


def test_reading_predictions(tmp_path: Path) -> None:
    path = tmp_path / "p.txt"
    path.write_bytes(b'a b\r\n\n"two\\nlines"\nlast')
    assert read_predictions(path) == ["a b", "", "two\nlines", "last"]
    path.write_bytes(b"")
    assert read_predictions(path) == []


def test_predictions_may_come_through_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("a\nb\n",))
    writer.start()
    assert read_predictions(pipe) == ["a", "b"]
    writer.join()


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"a\n\xff\n", "not UTF-8 text"),
        (b'yes\n"a\\x"\n', ":2: the line begins and ends"),
        (b'"', ":1: the line begins"),
    ],
)
def test_a_bad_line_is_one_sentence(tmp_path: Path, raw: bytes, says: str) -> None:
    (tmp_path / "p.txt").write_bytes(raw)
    with pytest.raises(InputError, match=says):
        read_predictions(tmp_path / "p.txt")
    with pytest.raises(InputError, match="there is no file"):
        read_predictions(tmp_path / "none.txt")
