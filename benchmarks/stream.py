"""Tokens a second of packed streams, by a fast tokeniser that is trained on the first rows.

    python benchmarks/stream.py [--seconds 5]

Two DataLoader workers make and tokenise rows of one stream, as they would for a GPU. Tokens per
CPU-second of one process stand beside them, with the share of the tokeniser: on a busy machine only
these mean something. Needs torch and tokenizers.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

LENGTH = 2_048
"""Tokens of a sequence."""

VOCABULARY = 4_096
"""Maximum tokens of the tokeniser."""

GOALS = {
    ("ctl/A", "train"): 1_000_000,
    ("babi/diverse-T12", "train"): 300_000,
    ("babi/mix-T12", "mix"): 300_000,
}
"""Tokens a second from two cores."""


def text(example: Any) -> str:
    return f"{example.input} {example.targets[0]}"


def tokeniser(texts: list[str]) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["<end>"], show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def rate(sequences: Any, seconds: float, clock: Callable[[], float]) -> float:
    """Tokens a second, once the first sequence is there."""
    reader = iter(sequences)
    next(reader)
    tokens, began = 0, clock()
    while clock() - began < seconds:
        tokens += next(reader).numel() if hasattr(sequences, "num_workers") else len(next(reader))
    return tokens / (clock() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    seconds = parser.parse_args().seconds
    # One thread per process: the workers are the parallelism.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from itertools import islice

    from torch.utils.data import DataLoader

    import taskloom as tl

    print(f"load {os.getloadavg()[0]:.1f}")
    print(f"{'recipe':18} {'per CPU-s':>12} {'tokeniser':>10} {'2 workers, /s':>14} {'goal':>11}")
    for (recipe, split), goal in GOALS.items():
        stream = tl.stream(recipe, split, endless=True)
        texts = [text(example) for example in islice(stream, 2_000)]
        tokenizer = tokeniser(texts)
        stream = tl.stream(recipe, split, endless=True)
        packed = stream.pack(tokenizer, LENGTH, end=0)
        alone = rate(packed, seconds, time.process_time)
        began = time.process_time()
        ids = sum(len(encoding.ids) for encoding in tokenizer.encode_batch_fast(texts))
        share = (time.process_time() - began) / ids * alone
        loader = DataLoader(packed.torch(), batch_size=8, num_workers=2)
        both = rate(loader, seconds, time.monotonic)
        print(f"{recipe:18} {alone:12,.0f} {share:10.0%} {both:14,.0f} {goal:11,}", flush=True)


if __name__ == "__main__":
    main()
