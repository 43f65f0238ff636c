"""The corpus: text, Markdown, JSON lines and Parquet; what is broken is left out with a sentence;
hostile text is tamed.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from taskloom.apps.collect.corpus import clean, read_documents
from taskloom.apps.collect.errors import CollectError

TEXT = "A text about something that is long enough."


def test_all_kinds_of_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text(TEXT)
    (tmp_path / "two.md").write_text(f"# The Title\n\n{TEXT}")
    (tmp_path / "three.jsonl").write_text(json.dumps({"title": "Three", "text": TEXT}) + "\n\n")
    pq.write_table(
        pa.table({"entity": ["Four"], "text": [TEXT], "more": [1]}), tmp_path / "four.parquet"
    )
    (tmp_path / "notes.docx").write_bytes(b"ignored")
    documents, notes = read_documents(tmp_path)
    assert sorted(d.entity for d in documents) == ["Four", "The Title", "Three", "one"]
    assert notes == []


def test_broken_files_are_left_out_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text(TEXT)
    (tmp_path / "latin.txt").write_bytes(
        "Ein Café, das es nicht gibt, steht hier.".encode("latin-1")
    )
    (tmp_path / "bad.jsonl").write_text('{"title": "x", "text"')
    (tmp_path / "no-title.jsonl").write_text('{"text": "abc"}')
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nothing")
    (tmp_path / "short.txt").write_text("x")
    documents, notes = read_documents(tmp_path)
    assert len(documents) == 1
    text = "\n".join(notes)
    for part in (
        "latin.txt is not UTF-8 text (byte 7); save it as UTF-8",
        "bad.jsonl, line 1 is not JSON",
        "has no 'title'",
    ):
        assert part in text
    assert "bad.parquet is not a Parquet file" in text
    assert "fewer than 20 characters" in text


def test_a_corpus_without_documents_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CollectError, match="no document that can be read"):
        read_documents(tmp_path)
    with pytest.raises(CollectError, match="there is no file or folder"):
        read_documents(tmp_path / "nowhere")


def test_control_characters_and_direction_marks_are_removed() -> None:
    assert clean("a\x00\x1b[31mb\u202ec\u2066d\ud800e\r\nf") == "a[31mbcde\nf"
    assert clean("<script>alert(1)</script>") == "<script>alert(1)</script>"  # pages escape it
    assert clean("می‌خواهم") == "می‌خواهم"  # joiners carry meaning
