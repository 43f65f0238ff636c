"""Export the splits of a recipe as arrays of token ids, so that a machine with torch and NumPy
alone can train on them.

python benchmarks/learners_export.py ctl/A ctl-A.npz --splits train,iid,ood,all [--seed 0] [--set
splits.train.n=1000]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import taskloom
from taskloom.learners.interface import columns
from taskloom.learners.scratch.tokens import WordVocabulary, encode


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe")
    parser.add_argument("out", type=Path)
    parser.add_argument("--splits", default="train,iid,ood,all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--set", action="append", default=[], help="recipe fields, as in `taskloom make --set`"
    )
    args = parser.parse_args()

    data = taskloom.make(args.recipe, seed=args.seed, set=args.set)
    texts = {name: columns(data[name]) for name in args.splits.split(",")}
    words = WordVocabulary.of(text for inputs, _ in texts.values() for text in inputs)
    classes = sorted({target for _, targets in texts.values() for target in targets})
    label = {name: i for i, name in enumerate(classes)}
    arrays: dict[str, Any] = {"words": np.array(words.words), "classes": np.array(classes)}
    for name, (inputs, targets) in texts.items():
        found = encode(inputs, words, [label[t] for t in targets])
        arrays[f"{name}.tokens"] = found.tokens.astype(np.int16)
        arrays[f"{name}.lengths"] = found.lengths.astype(np.int16)
        arrays[f"{name}.labels"] = found.labels.astype(np.int16)
    np.savez_compressed(args.out, **arrays)
    sizes = ", ".join(f"{name} {len(inputs):,}" for name, (inputs, _) in texts.items())
    print(
        f"{args.out}: {args.out.stat().st_size:,} bytes; {sizes}; {len(words.words)} words,"
        f" {len(classes)} classes"
    )


if __name__ == "__main__":
    main()
