"""The error of the language: it echoes the expression and points at the place."""

from __future__ import annotations

from taskloom.core.errors import RecipeError


class ExpressionError(RecipeError):
    """An expression that cannot be read or has no type.

    Attributes:
        why: What is wrong, in one sentence.
        text: The expression as it was written.
        span: The place in it.
    """

    def __init__(self, why: str, text: str = "", span: tuple[int, int] = (0, 0)) -> None:
        self.why = why
        self.text = text
        self.span = span
        super().__init__(f"{why}\n{point(text, span)}" if text else why)


def point(text: str, span: tuple[int, int], width: int = 100) -> str:
    """Print the text on one line, and below it carets under the span; cut long texts around the place.

    >>> print(point("chain(fathr, mother)", (6, 11)))
      chain(fathr, mother)
            ^^^^^
    """
    flat = "".join(" " if c.isspace() else c for c in text)
    start = min(span[0], len(flat))
    stop = min(max(span[1], start + 1), len(flat) + 1)
    left = max(0, start - width // 2) if len(flat) > width else 0
    shown = flat[left : left + width]
    head, tail = ("…" if left else ""), ("…" if left + width < len(flat) else "")
    carets = "^" * max(1, min(stop - start, len(shown) - (start - left)))
    return f"  {head}{shown}{tail}\n  {' ' * (len(head) + start - left)}{carets}"
