"""What training consists of under the three draws of CTL++, beside the data of the public code.

python benchmarks/ctl_published.py [ctl/A ctl/R ...] [--seed 0] [--set processes=8]

For every recipe: drawn rows and distinct chains by length, start symbols per six-function chain,
and the share of the distinct six-function chains whose innermost 2 to 5 functions are a training
chain. Pairs that were added to the drawn rows are left out.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

import taskloom as tl

PUBLIC = {
    "A": ("2,048; 32,768; 88,728 × 3", "271; 4,142; 11,274; 11,278; 11,299", "7.83", "54 64 41 17"),
    "R": ("2,048; 32,768; 88,728 × 3", "271; 4,142; 11,274; 11,278; 11,299", "7.83", "54 64 41 17"),
    "S": ("576; 92,160; 208,264", "133; 24,590; 175,195", "1.18", "84 98"),
}
"""The public code with 32 processes, one run (S: 16 shared functions, six shared symbols)."""

RECIPES = [
    f"ctl/{variant}{kind}" for variant in "ARS" for kind in ("", "-reference", "-independent")
]


def chains(data: tl.Dataset) -> dict[int, Counter[tuple[str, ...]]]:
    """Return the drawn chains of training by length, innermost function first, with their number of
    rows.
    """
    texts = Counter(data.table("train").column("input").to_pylist())
    if data.manifest["warnings"]:  # every pair is there once more than it was drawn
        texts.subtract(text for text in list(texts) if len(text.split()) == 3)
    counts: dict[int, Counter[tuple[str, ...]]] = {}
    for text, rows in texts.items():
        chain = tuple(reversed(text.split()[:-1]))
        if rows:
            counts.setdefault(len(chain), Counter())[chain] += rows
    return dict(sorted(counts.items()))


def describe(data: tl.Dataset) -> tuple[str, str, str, str]:
    """Return the four columns of a recipe: rows, distinct chains, start symbols per longest chain,
    shares nested.
    """
    found = chains(data)
    iid = Counter(len(text.split()) - 1 for text in data.table("iid").column("input").to_pylist())
    rows = "; ".join(f"{counts.total() + iid[k]:,}" for k, counts in found.items())
    longest = max(found)
    nested = [
        100 * sum(chain[:k] in counts for chain in found[longest]) / len(found[longest])
        for k, counts in found.items()
        if 2 <= k < longest
    ]
    return (
        rows,
        "; ".join(f"{len(counts):,}" for counts in found.values()),
        f"{found[longest].total() / len(found[longest]):.2f}",
        " ".join(f"{share:.0f}" for share in nested),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipes", nargs="*", default=RECIPES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--set", action="append", default=[], help="recipe fields, as in `taskloom make --set`"
    )
    args = parser.parse_args()
    print(
        "| training data | rows with iid | distinct chains | symbols per longest chain |"
        " nested, % |"
    )
    print("| --- | --- | --- | --- | --- |")
    for name in args.recipes:
        data: Any = tl.make(name, seed=args.seed, set=args.set)
        print(f"| `{name}` {' '.join(args.set)} | {' | '.join(describe(data))} |", flush=True)
    for variant, columns in PUBLIC.items():
        print(f"| {variant}, public code, 32 processes | {' | '.join(columns)} |")


if __name__ == "__main__":
    main()
