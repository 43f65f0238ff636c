"""How many expressions of each length a split gets, and refusals that show the arithmetic."""

from __future__ import annotations

from collections.abc import Mapping

from taskloom.errors import RecipeError


def equalise(n: int, possible: Mapping[int, int], fill: float = 1.0) -> dict[int, int]:
    """As equal numbers per length as the spaces allow (spec 1.4).

    In rising order of length, with n still to place and k lengths left: min(floor(fill x possible), ceil(n / k)).

    >>> equalise(301_000, {2: 4_096, 3: 65_536, 4: 1_048_576, 5: 16_777_216, 6: 268_435_456}, 0.5)
    {2: 2048, 3: 32768, 4: 88728, 5: 88728, 6: 88728}
    """
    quotas: dict[int, int] = {}
    left = n
    lengths = sorted(possible)
    for i, length in enumerate(lengths):
        quotas[length] = min(share(fill, possible[length]), -(-left // (len(lengths) - i)))
        left -= quotas[length]
    return quotas


def share(fill: float, possible: int) -> int:
    """floor(fill x possible), exact for spaces beyond floating point."""
    numerator, denominator = fill.as_integer_ratio()
    return possible * numerator // denominator


def refuse(split: str, asked: int, possible: Mapping[int, int], fill: float, found: int) -> RecipeError:
    """The sentence for a split that asks for more expressions than there are."""
    if fill < 1:
        parts = [f"length {k}: {fill:g} x {v:,} = {share(fill, v):,}" for k, v in sorted(possible.items())]
    else:
        parts = [f"length {k}: {v:,}" for k, v in sorted(possible.items())]
    remedy = (
        "ask for fewer, raise max_length" + (" or fill" if fill < 1 else "") + ", or take more functions or symbols"
    )
    return RecipeError(
        f"splits.{split}: {asked:,} expressions are asked for, but only {found:,} can be drawn ({'; '.join(parts)}); {remedy}"
    )
