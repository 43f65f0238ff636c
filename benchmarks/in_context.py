"""Answering with a prompt that all inputs share, on the CPU: the prefix computed once, against plain `generate` of whole prompts.

python benchmarks/in_context.py [--model smollm2] [--shots 32] [--inputs 64]

Both ways answer the same inputs with the same model in one run; the ratio of their CPU times is shown, and whether the answers are
equal. Plain `generate` writes all tokens it may; the other way ends with the first line, which is all that is read of an answer.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from taskloom.learners.config import read
from taskloom.learners.pretrained import shared_prefix
from taskloom.learners.pretrained.encoding import read_source

PAIRS = "hot cold,up down,big small,fast slow,old new,rich poor,long short,wet dry,hard soft,light dark,full empty,early late"
WORDS = [tuple(pair.split()) for pair in PAIRS.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--shots", type=int, default=32)
    parser.add_argument("--inputs", type=int, default=64)
    args = parser.parse_args()
    train = [(f"{x} {n}", f"{y} {n}") for n in range(1, 9) for x, y in WORDS]
    inputs = [f"{x} {n}" for n in range(9, 9 + args.inputs) for x, _ in WORDS][: args.inputs]
    block = {"learner": "in-context", "model": args.model, "shots": args.shots, "device": "cpu"}
    fitted: Any = read(block).fit(train, seed=0)
    fitted.answer(inputs[:2])
    began = time.process_time()
    answers = fitted.answer(inputs)
    shared = time.process_time() - began
    shared_prefix.LEAST = 10**9  # nothing is shared
    prompts = [read_source(fitted.writer.base, fitted.prompt.before(text), fitted.learner.join) for text in inputs]
    began = time.process_time()
    whole = [fitted.prompt.extract(reply) for reply in fitted.writer.say(prompts)]
    plain = time.process_time() - began
    same = sum(a == b for a, b in zip(answers, whole, strict=True))
    tokens = min(map(len, prompts))
    print(f"{args.shots} shots, prompts of {tokens} tokens, {len(inputs)} inputs: {same} answers equal")
    print(f"prefix once: {shared:.2f} CPU-s; plain generate: {plain:.2f} CPU-s; {plain / shared:.1f} times as fast")


if __name__ == "__main__":
    main()
