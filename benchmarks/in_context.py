"""Answering with a prompt that all inputs share: the prefix computed once, against plain `generate` of whole prompts.

python benchmarks/in_context.py [--model smollm2] [--shots 32] [--inputs 64 …] [--device cpu] [--out FILE]

Both ways answer the same inputs with the same model in one run; the ratio of their times is shown (of CPU times on the CPU, by the
clock on a GPU), and whether the answers are equal. Plain `generate` writes all tokens it may; the other way ends with the first
line, which is all that is read of an answer.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from taskloom.learners.config import read
from taskloom.learners.pretrained import shared_prefix
from taskloom.learners.pretrained.encoding import read_sources

BEGAN = time.perf_counter()

PAIRS = "hot cold,up down,big small,fast slow,old new,rich poor,long short,wet dry,hard soft,light dark,full empty,early late"
WORDS = [tuple(pair.split()) for pair in PAIRS.split(",")]


def clock(device: str, call: Callable[[], list[str]]) -> tuple[list[str], float]:
    """Return what a call returns, and its seconds: of the processor, or with a GPU by the clock."""
    if device == "cpu":
        began = time.process_time()
        return call(), time.process_time() - began
    import torch

    torch.cuda.synchronize()
    began = time.perf_counter()
    answers = call()
    torch.cuda.synchronize()
    return answers, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--shots", type=int, default=32)
    parser.add_argument("--inputs", type=int, nargs="+", default=[64])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="a file of JSON lines to add the figures to")
    args = parser.parse_args()
    train = [(f"{x} {n}", f"{y} {n}") for n in range(1, 9) for x, y in WORDS]
    block = {"learner": "in-context", "model": args.model, "shots": args.shots, "device": args.device}
    fitted: Any = read(block).fit(train, seed=0)
    print(f"{time.perf_counter() - BEGAN:.1f} s: the model is there", flush=True)
    for number in args.inputs:
        inputs = [f"{x} {n}" for n in range(9, 9 + number) for x, _ in WORDS][:number]
        figures = {"device": args.device, "shots": args.shots, **compared(fitted, inputs, args.device)}
        if args.out:
            with args.out.open("a") as file:
                file.write(json.dumps(figures) + "\n")


def compared(fitted: Any, inputs: list[str], device: str) -> dict[str, Any]:
    """Answer inputs in both ways, print the figures and return them."""
    writer, prompt = fitted.writer, fitted.prompt

    def prompts() -> list[list[int]]:
        return read_sources(writer.base, [prompt.before(text) for text in inputs], fitted.learner.join)

    def plain() -> list[str]:
        return [prompt.extract(reply) for reply in writer.say(prompts())]

    rounds = 1 if device == "cpu" else 3  # a GPU has to load its kernels first: the last round counts
    for _ in range(rounds):
        answers, once = clock(device, lambda: fitted.answer(inputs))
    print(f"{time.perf_counter() - BEGAN:.1f} s: prefix once, {len(inputs)} inputs: {once:.3f}", flush=True)
    least, shared_prefix.LEAST = shared_prefix.LEAST, 10**9  # nothing is shared
    for _ in range(min(rounds, 2)):
        whole, each = clock(device, plain)
        print(f"{time.perf_counter() - BEGAN:.1f} s: plain generate: {each:.3f}", flush=True)
    shared_prefix.LEAST = least
    same = sum(a == b for a, b in zip(answers, whole, strict=True))
    tokens = min(map(len, prompts()))
    unit = "CPU-s" if device == "cpu" else "s"
    print(f"{fitted.learner.shots} shots, prompts of {tokens} tokens, {len(inputs)} inputs: {same} answers equal")
    print(
        f"prefix once: {once:.3f} {unit}; plain generate: {each:.3f} {unit}; {each / once:.1f} times as fast",
        flush=True,
    )
    return {"tokens": tokens, "inputs": len(inputs), "equal": same, "once": once, "plain": each, "ratio": each / once}


if __name__ == "__main__":
    main()
