"""Fine-tuning and prompt tuning of a model of SmolLM2's size on one GPU, beside plain transformers
and peft in the same run.

    python benchmarks/learners_language_gpu.py --out OUT [--seconds 300] [--only fine-tune|prompt]

Speed does not depend on the weights, so the model is SmolLM2-135M's architecture with random ones;
torch, transformers and peft are all that it needs. Writes language.json after every cell.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from taskloom.core.example import Example
from taskloom.learners.pretrained.encoding import EncodedRows
from taskloom.learners.pretrained.language_models import PromptTune
from taskloom.learners.pretrained.models import Base
from taskloom.learners.pretrained.trainer import Adapter
from taskloom.learners.training.settings import Training

SMOLLM2 = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
TINY = {
    **SMOLLM2,
    "vocab_size": 500,
    "hidden_size": 36,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
}
ANSWER = 4
"""Target tokens of each example, the end mark included."""

TIMED_SECONDS = 8.0


def model(tiny: bool) -> Any:
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(**(TINY if tiny else SMOLLM2), pad_token_id=2, eos_token_id=2, bos_token_id=1)
    )


def rows(n: int, width: int, vocabulary: int, seed: int) -> EncodedRows:
    """Random examples of exactly `width` tokens, the answer included."""
    random = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, vocabulary, (n, width), generator=random).tolist()
    cut = width - ANSWER
    return EncodedRows([r[:cut] for r in ids], [[r[cut:]] for r in ids], [Example("", "")] * n)


def timed(step: Callable[[], object]) -> float:
    """Seconds a step, after warm-up."""
    for _ in range(4):
        step()
    wait()
    began, steps = time.monotonic(), 0
    while time.monotonic() - began < TIMED_SECONDS or steps < 3:
        step()
        steps += 1
    wait()
    return (time.monotonic() - began) / steps


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def plain_fine_tuning(batch: int, width: int, args: argparse.Namespace) -> float:
    """What a script with transformers does: eager, bf16 autocast, AdamW."""
    made = model(args.tiny).to(args.device).train()
    optimiser = torch.optim.AdamW(made.parameters(), lr=1e-4)
    data = rows(batch, width, made.config.vocab_size, 0)
    ids = torch.tensor(
        [s + t[0] for s, t in zip(data.sources, data.targets, strict=True)], device=args.device
    )
    labels = ids.clone()
    labels[:, : width - ANSWER] = -100
    mask = torch.ones_like(ids)

    def step() -> None:
        with torch.autocast(args.device, dtype=torch.bfloat16):
            loss = made(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(made.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()

    return timed(step)


def our_fine_tuning(batch: int, width: int, args: argparse.Namespace, **changes: Any) -> float:
    made = model(args.tiny).to(args.device)
    marks: Any = SimpleNamespace(pad_token_id=2, eos_token_id=2)
    base = Base("bench", "decoder", made, marks)
    how = Training(
        steps=10**9, batch=batch, rate=1e-4, warmup=0, clip=1.0, precision="bf16", **changes
    )
    trained = {n: p.requires_grad_() for n, p in made.named_parameters()}
    adapter = Adapter(
        base, trained, {"task": rows(2 * batch, width, made.config.vocab_size, 0)}, how, 0
    )
    return timed(lambda: one(adapter))


def one(adapter: Adapter) -> None:
    adapter._step()
    adapter.done += 1


def peft_prompt_tuning(batch: int, width: int, args: argparse.Namespace) -> float:
    """One task by peft, as its documentation has it; sequences per second do not depend on the
    task.
    """
    from peft import PromptTuningConfig, TaskType, get_peft_model

    config = PromptTuningConfig(task_type=TaskType.CAUSAL_LM, num_virtual_tokens=100)
    made = get_peft_model(model(args.tiny), config).to(args.device).train()
    optimiser = torch.optim.AdamW([p for p in made.parameters() if p.requires_grad], lr=1e-2)
    data = rows(batch, width, 400, 0)
    ids = torch.tensor(
        [s + t[0] for s, t in zip(data.sources, data.targets, strict=True)], device=args.device
    )
    labels = ids.clone()
    labels[:, : width - ANSWER] = -100
    mask = torch.ones_like(ids)

    def step() -> None:
        with torch.autocast(args.device, dtype=torch.bfloat16):
            loss = made(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()

    return timed(step)


def our_prompt_tuning(
    tasks: int, batch: int, width: int, args: argparse.Namespace, **changes: Any
) -> float:
    made = model(args.tiny).to(args.device)
    words: Any = type(
        "Words",
        (),
        {"pad_token_id": 2, "eos_token_id": 2, "__len__": lambda self: made.config.vocab_size},
    )()
    base = Base("bench", "decoder", made, words)
    trained, prompts = PromptTune(n=100).prepare(base, tasks, 0)
    how = Training(
        steps=10**9, batch=batch, rate=1e-2, warmup=0, clip=0.0, precision="bf16", **changes
    )
    data = {f"task {i}": rows(2 * batch, width, 400, i) for i in range(tasks)}
    adapter = Adapter(base, trained, data, how, 0, prompts=prompts)
    return timed(lambda: one(adapter))


def cells(args: argparse.Namespace) -> list[tuple[str, int, Callable[[], float]]]:
    """Name, sequences a step, and how seconds a step are measured."""
    small = args.tiny
    found: list[tuple[str, int, Callable[[], float]]] = []
    if args.only in ("", "fine-tune"):
        for batch, width in ((8, 16), (4, 32)) if small else ((512, 16), (256, 160)):
            plan: list[tuple[str, Callable[..., float], dict[str, Any]]] = [
                ("plain transformers", plain_fine_tuning, {}),
                ("ours, graphs and compiled layers", our_fine_tuning, {}),
                ("ours, graphs", our_fine_tuning, {"compile": False}),
            ]
            for name, run, changes in plan:
                found.append(
                    (
                        f"fine-tune {batch} x {width}: {name}",
                        batch,
                        _later(run, batch, width, args, **changes),
                    )
                )
    if args.only in ("", "prompt"):
        tasks, batch, width = (3, 4, 12) if small else (16, 64, 16)
        found.append(
            (
                f"prompt: peft, one task x {batch}",
                batch,
                _later(peft_prompt_tuning, batch, width, args),
            )
        )
        for name, changes in (("graphs", {}), ("eager", {"graphs": False})):
            run_all = _later(our_prompt_tuning, tasks, batch, width, args, **changes)
            found.append((f"prompt: ours, {tasks} tasks x {batch}, {name}", tasks * batch, run_all))
    return found


def _later(run: Callable[..., float], *values: Any, **named: Any) -> Callable[[], float]:
    return lambda: run(*values, **named)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--only", choices=["", "fine-tune", "prompt"], default="")
    parser.add_argument(
        "--tiny", action="store_true", help="a small model, to try the script on a CPU"
    )
    args = parser.parse_args()
    args.device = "cuda" if torch.cuda.is_available() else "cpu"
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_float32_matmul_precision("high")
    began, results = time.monotonic(), []
    for name, sequences, measure in cells(args):
        if time.monotonic() - began > args.seconds:
            print(f"no time for {name}")
            continue
        found: dict[str, Any] = {"cell": name}
        try:
            seconds = measure()
            found |= {
                "milliseconds a step": 1000 * seconds,
                "sequences per second": sequences / seconds,
            }
            print(
                f"{name:60} {1000 * seconds:9.2f} ms a step {sequences / seconds:10.0f}"
                " sequences/s",
                flush=True,
            )
        except Exception as error:  # a cell that fails must not lose the others
            found["error"] = traceback.format_exc()[-3000:]
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
        results.append(found)
        if args.device == "cuda":
            torch.cuda.empty_cache()
        machine = torch.cuda.get_device_name() if args.device == "cuda" else "cpu"
        about = {
            "device": machine,
            "torch": torch.__version__,
            "command": " ".join(sys.argv),
            "cells": results,
        }
        (args.out / "language.json").write_text(json.dumps(about, indent=1))


if __name__ == "__main__":
    main()
