"""Data as somebody with bad intentions would write them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from taskloom.core import shards
from taskloom.core.example import Example, Step
from taskloom.data import dataset

SCRIPT = "<script>alert(1)</script>"
QUOTES = "\"' onmouseover=alert(1) x='"
HIDDEN = "right\u202eleft\x07bell\u200bzero"
TEXTS = (
    SCRIPT,
    QUOTES,
    HIDDEN,
    "{{ 7 * 7 }}",
    "</pre></textarea><img src=x onerror=alert(1)>",
    "%0d%0aSet-Cookie: a=b",
)

EXAMPLES = [
    Example(
        f"input {text}",
        [f"target {text}", text],
        {"kind": text, SCRIPT: i},
        key=f"key {text}",
        question=text,
        derivation=[
            Step(text, f"value {text}", ()),
            Step(f"rule {text}", text, (0,)),
            Step("end", text, (0, 1)),
        ],
        task=f"task/{text}",
    )
    for i, text in enumerate(TEXTS)
]
TRAITS: dict[str, type] = {"kind": str, SCRIPT: int}


def write_dataset(
    folder: Path,
    examples: Sequence[Example],
    traits: dict[str, type],
    *,
    split: str = "test",
    recipe: Any = None,
) -> Path:
    """Write a dataset as `make` would, from these examples."""
    table = shards.to_table(examples, 0, traits)
    file = f"{split}/part-00000.parquet"
    stamp = shards.write(folder / file, table, "r", 0, split, 0)
    entry = {
        "n": len(examples),
        "role": "test",
        "describe": SCRIPT,
        "digest": dataset.split_digest(list(stamp.blocks)),
        "counts": shards.merge_counts([stamp.counts]),
        "shards": [{"file": file, "rows": len(examples), "bytes": 1}],
    }
    manifest = {
        "format": dataset.FORMAT,
        "recipe": (
            recipe
            or {"name": f"evil/{SCRIPT}", "suite": SCRIPT, "describe": HIDDEN, SCRIPT: QUOTES}
        ),
        "recipe_digest": SCRIPT,
        "seed": 0,
        "digest": QUOTES,
        "describe": SCRIPT,
        "scorer": SCRIPT,
        "warnings": [SCRIPT],
        "sources": {SCRIPT: SCRIPT},
        "splits": {split: entry},
    }
    (folder / dataset.MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    return folder


class Elements(HTMLParser):
    """Every element of a page with its attributes, as a browser would see them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def assert_harmless(page: str) -> None:
    """Fail where a page has an element, an attribute or a hidden character that is not ours."""
    elements = Elements(page).elements
    for tag, attributes in elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], (
            tag,
            attributes,
        )
        source = attributes.get("src") or attributes.get("href") or attributes.get("action")
        assert source is None or (source.startswith(("/", "#")) and not source.startswith("//")), (
            tag,
            attributes,
        )
        assert tag not in ("script", "img") or str(source).startswith("/static/"), (tag, attributes)
        assert tag not in ("iframe", "object", "embed", "base", "style"), tag
    assert [tag for tag, _ in elements].count("script") <= 1
    assert not set("\x07\u202e\u200b") & set(page)
