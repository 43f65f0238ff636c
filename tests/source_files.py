"""The package's source files, each parsed once for all tests that read them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "taskloom"
FILES = sorted(SOURCE.rglob("*.py"))


@cache
def text_of(path: Path) -> str:
    """Return the text of a source file."""
    return path.read_text(encoding="utf-8")


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """Return all nodes of a source file, the module itself first; nothing is parsed while tests are
    collected.
    """
    return list(ast.walk(ast.parse(text_of(path))))
