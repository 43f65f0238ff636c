"""Answering with a prompt that all inputs share: the prefix computed once, against plain `generate`
of whole prompts.

python benchmarks/in_context.py [--model smollm2] [--shots 32] [--inputs 64 …] [--device cpu] [--ways recorded unrecorded]
    [--logprobs] [--out FILE] [--profile FILE]

All ways answer the same inputs with the same model in one run; the ratio of their times is shown
(of CPU times on the CPU, by the clock on a GPU), and whether the answers are equal. Plain
`generate` writes all tokens it may; the other ways end with the first line, which is all that is
read of an answer. On a GPU the steps of writing are `recorded` as CUDA graphs, or not
(`unrecorded`); `new` computes the prefix and records the steps anew, as the first call of a learner
does. With `--logprobs` the log-probabilities of three candidates for each input are computed
instead: in the first call, in a later one, and after whole prompts. With `--profile` a last call of
each way on the fewest inputs is profiled: its clock time, the time of its kernels, how many were
started one by one, and those that take longest.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from taskloom.learners.accelerated import shared_prefix
from taskloom.learners.config import read
from taskloom.learners.pretrained.encoding import read_sources

T = TypeVar("T")
BEGAN = time.perf_counter()

PAIRS = (
    "hot cold,up down,big small,fast slow,old new,rich poor,long short,wet dry,hard soft,light"
    " dark,full empty,early late"
)
WORDS = [tuple(pair.split()) for pair in PAIRS.split(",")]


def clock(device: str, call: Callable[[], T]) -> tuple[T, float]:
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--shots", type=int, default=32)
    parser.add_argument("--inputs", type=int, nargs="+", default=[64])
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--ways", nargs="+", choices=("recorded", "unrecorded"), help="default: those of the device"
    )
    parser.add_argument(
        "--logprobs", action="store_true", help="log-probabilities of candidates instead of answers"
    )
    parser.add_argument("--out", type=Path, help="a file of JSON lines to add the figures to")
    parser.add_argument(
        "--profile", type=Path, help="a file of text for a profile of one call of each way"
    )
    args = parser.parse_args()
    ways = args.ways or (["unrecorded"] if args.device == "cpu" else ["recorded", "unrecorded"])
    train = [(f"{x} {n}", f"{y} {n}") for n in range(1, 9) for x, y in WORDS]
    block = {
        "learner": "in-context",
        "model": args.model,
        "shots": args.shots,
        "device": args.device,
    }
    fitted: Any = read(block).fit(train, seed=0)
    report("the model is there")
    for number in args.inputs:
        if args.logprobs:
            compare_logprobs(fitted, some_inputs(number), args.device)
            continue
        for figures in compared(fitted, some_inputs(number), args.device, ways):
            if args.out:
                with args.out.open("a") as file:
                    file.write(
                        json.dumps({"device": args.device, "shots": args.shots, **figures}) + "\n"
                    )
    if args.profile:
        for way in ways:
            with args.profile.open("a") as file:
                file.write(profiled(fitted, some_inputs(min(args.inputs)), args.device, way))
            report(f"profiled, {way}")


def report(text: str) -> None:
    """Print a line with the seconds since the start."""
    print(f"{time.perf_counter() - BEGAN:.1f} s: {text}", flush=True)


def some_inputs(number: int) -> list[str]:
    """Return inputs that are not among the examples."""
    return [f"{x} {n}" for n in range(9, 9 + number) for x, _ in WORDS][:number]


def compared(
    fitted: Any, inputs: list[str], device: str, ways: list[str]
) -> Iterator[dict[str, Any]]:
    """Answer inputs in all ways, print the figures and yield those of each way beside plain
    `generate`.
    """
    writer, prompt = fitted.model, fitted.prompt

    def prompts() -> list[list[int]]:
        return read_sources(
            writer.base, [prompt.before(text) for text in inputs], fitted.learner.join
        )

    def plain() -> list[str]:
        return [prompt.extract(reply) for reply in writer.say(prompts())]

    rounds = 1 if device == "cpu" else 5
    times: dict[str, list[float]] = {}
    answers: dict[str, list[str]] = {}
    for way in ways:
        writer.records_steps, times[way] = way == "recorded", []
        for number in range(rounds):
            if (
                number < 2
            ):  # the first round loads the kernels, the second is `new`, the last one counts
                writer.forget_prefix()
            answers[way], seconds = clock(device, lambda: fitted.answer(inputs))
            times[way].append(seconds)
        report(
            f"prefix once, {way}, {len(inputs)} inputs: {', '.join(f'{t:.3f}' for t in times[way])}"
        )
        report(writer.recording)
    least, shared_prefix.LEAST = shared_prefix.LEAST, 10**9  # nothing is shared
    writer.forget_prefix()
    for _ in range(min(rounds, 2)):
        whole, each = clock(device, plain)
        report(f"plain generate: {each:.3f}")
    shared_prefix.LEAST = least
    tokens = min(map(len, prompts()))
    unit = "CPU-s" if device == "cpu" else "s"
    for way in ways:
        once, new = times[way][-1], times[way][:2][-1]
        same = sum(a == b for a, b in zip(answers[way], whole, strict=True))
        print(
            f"{fitted.learner.shots} shots, prompts of {tokens} tokens, {len(inputs)} inputs:"
            f" {same} answers equal"
        )
        print(
            f"prefix once, {way}: {once:.3f} {unit} (new {new:.3f}); plain generate: {each:.3f}"
            f" {unit}; {each / once:.1f} times as fast (new {each / new:.1f})",
            flush=True,
        )
        yield {
            "way": way, "tokens": tokens, "inputs": len(inputs), "equal": same, "once": once, "new": new, "plain": each,
            "ratio": each / once,
        }  # fmt: skip


def compare_logprobs(fitted: Any, inputs: list[str], device: str) -> None:
    """Print the seconds of log-probabilities with the prefix once and after whole prompts, and how
    far they are apart.
    """
    candidates = [[y for _, y in WORDS[:3]] for _ in inputs]

    def logprobs() -> list[float]:
        return [number for row in fitted.logprob(inputs, candidates) for number in row]

    if device != "cpu":
        logprobs()  # loads the kernels
    fitted.model.forget_prefix()
    once, first = clock(device, logprobs)
    _, later = clock(device, logprobs)
    fitted.model.keeps_prefix = False
    fitted.model.forget_prefix()
    whole, each = clock(device, logprobs)
    fitted.model.keeps_prefix = True
    apart = max(abs(a - b) for a, b in zip(once, whole, strict=True))
    report(
        f"log-probabilities of {len(whole)} candidates: prefix once {first:.3f}, a later call"
        f" {later:.3f}, whole prompts {each:.3f}; {each / first:.1f} and {each / later:.1f} times"
        f" as fast; at most {apart:.1e} apart"
    )


def profiled(fitted: Any, inputs: list[str], device: str, way: str) -> str:
    """Profile one call with everything kept: what it takes by the clock, in kernels and in starts
    of kernels.
    """
    from torch.profiler import ProfilerActivity, profile

    fitted.model.records_steps = way == "recorded"
    fitted.model.forget_prefix()
    fitted.answer(inputs)
    _, seconds = clock("cuda" if device != "cpu" else device, lambda: fitted.answer(inputs))
    gpu = [ProfilerActivity.CUDA] if device != "cpu" else []
    with profile(activities=[ProfilerActivity.CPU, *gpu]) as run:
        began = time.perf_counter()
        fitted.answer(inputs)
        watched = time.perf_counter() - began
    events = run.key_averages()
    starts = {
        e.key: e.count
        for e in events
        if "Launch" in e.key or e.key.startswith(("cudaMemcpy", "cudaStream"))
    }
    kernels = [e for e in events if str(e.device_type).endswith("CUDA")]
    busy = sum(e.self_device_time_total for e in kernels) / 1e6
    order = "self_device_time_total" if gpu else "self_cpu_time_total"
    table = events.table(sort_by=order, row_limit=25, max_name_column_width=60)
    return (
        f"{way}, {len(inputs)} inputs: {seconds:.4f} s by the clock, {watched:.4f} s while watched;"
        f" {sum(e.count for e in kernels)} kernels and copies take {busy:.4f} s; started:"
        f" {starts}\n{table}\n"
    )


if __name__ == "__main__":
    main()
