"""The experiments behind the studies of ZEST, which fine-tune language models on tasks with
descriptions: on the whole input or half of it, alone or together with other question answering.

At the scale `gpu`, SmolLM2-135M is fine-tuned for four passes over `zest/synthetic`, which takes
minutes on a GPU, and one training serves all tables. The scale `paper` has an arm for each row of
the paper's Table 3: T5-11B on ZEST, T5-11B on ZEST and four other datasets, and BART-large, each
with the paper's search. The studies choose among the runs of a search by their dev score
(`papers/zest/runs.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from taskloom.core.registry import SUITES
from taskloom.core.resources import Resource

Experiments = list[dict[str, Any]]

RECIPE = "zest/synthetic"
PUBLISHED = "zest/real"

PARTS = ("both", "question", "context")
"""The whole input, and the halves of the paper's Table 5."""

SMALL_TASKS = {"tasks": {"train": 60, "dev": 40, "test": 40}, "passages": 5}
"""A few hundred examples with tasks of every generalization type."""

SMALL_LEARNER: dict[str, Any] = {
    "learner": "decoder",
    "state": 48,
    "layers": 1,
    "heads": 2,
    "steps": 60,
    "batch": 16,
    "rate": 3e-3,
    "evaluate_every": 0,
    "longest_answer": 120,
}
"""A text model trained from scratch. In a minute it learns to answer n/a, which is all that two
cores and few examples allow.
"""

LONGEST_OF_OTHERS = 360
"""Maximum answer tokens of other models, whose tokenisers may split words into more tokens than
ours.
"""

GPU_TASKS = {"tasks": {"test": 300}}
"""The paper's sizes, but half of its test tasks, because answering all of them takes a model of
this size longer than training.
"""

GPU_LEARNER: dict[str, Any] = {
    "learner": "fine-tune",
    "steps": 680,
    "batch": 64,
    "rate": 3e-4,
    "warmup": 34,
    "decay": "linear",
    "targets": "first",
    "evaluate_every": 0,
    "longest_answer": 128,
    "precision": "bf16",
    "compile": False,
}
"""Four passes over the 10,760 training examples. Targets are the official answers, as in the
paper's data.
"""

KEPT_TRAITS = ("generalization_type", "domain")
"""Traits stored in files of scores with the answers. The rest is in the recipe."""

SEEDS = {"quick": 2, "gpu": 3}

RATES = [5e-4, 1e-3, 2e-3, 4e-3]
"""Learning rates of T5, of which the best on dev is chosen (appendix C.1)."""

BART_SEARCH = {"learner.rate": [3e-5, 5e-5], "learner.epochs": [3, 5, 10, 15, 20]}
"""Learning rates and epochs of BART, of which the best on dev are chosen (appendix C.2)."""

OTHERS = ("boolq", "multirc", "record", "squad")
"""Datasets that the multi-task arm learns together with ZEST, at equal rates (section 5.2)."""

MULTITASK = Resource(
    "multitask",
    "BoolQ, MultiRC, ReCoRD and SQuAD as input and target (ZEST: multi-task arm)",
    tuple(f"multitask/{name}/train.jsonl" for name in OTHERS),
)

T5: dict[str, Any] = {"learner": "fine-tune", "preset": "zest"}
BART: dict[str, Any] = {"learner": "fine-tune", "preset": "zest-bart"}

ARMS = {
    "table3": ("t5", "multi-task", "bart"),
    "table4": ("multi-task",),
    "table6": ("t5",),
    "table7": ("multi-task",),
    "table8": ("t5",),
    "table9": ("bart",),
    "table10": ("t5",),
}
"""Arms of the scale `paper` for each table. The paper does not name the model whose errors Table 6
shows or the model compared with people in Table 10. We assume T5 trained only on ZEST.
"""


def table_experiments(table: str) -> Callable[[str, str], Experiments]:
    """Experiments of a table about the whole input."""

    def experiments(scale: str, model: str) -> Experiments:
        if scale != "paper":
            return description_experiments(("both",))(scale, model)
        return [block for arm in ARMS[table] for block in arm_experiments(arm, model)]

    return experiments


def arm_experiments(arm: str, model: str = "") -> Experiments:
    """Experiments of an arm under the paper's conditions: the generated tasks with all splits and,
    if available, the published files, whose test answers are not public.

    Args:
        arm: `t5`, `multi-task` or `bart`.
        model: Another size (`t5-base`) or other weights; empty: the paper's.
    """
    layout = {"layout": "bart"} if arm == "bart" else {}
    sources = {RECIPE: ["dev", "test"]}
    if "zest" in {one.name for one in SUITES.get("zest").resources if one.find() is not None}:
        sources[PUBLISHED] = ["dev"]
    learner = {**(BART if arm == "bart" else T5), **({"model": model} if model else {})}
    search = BART_SEARCH if arm == "bart" else {"learner.rate": RATES}
    blocks = []
    for name, splits in sources.items():
        recipe: dict[str, Any] = {"recipe": name, "set": layout} if layout else {"recipe": name}
        if arm == "multi-task":
            folder = MULTITASK.find()
            others = [f"{folder or './multitask'}/{other}" for other in OTHERS]
            recipe = {"mix": [name, *others], "rates": [1] * (1 + len(OTHERS))}
            splits = [f"{name}:{split}" for split in splits]
        blocks.append(
            {"recipes": [recipe], "learners": [learner], "grid": search, "evaluate": splits}
        )
    return blocks


def description_experiments(parts: tuple[str, ...]) -> Callable[[str, str], Experiments]:
    """Experiments on the given parts of the input. As in the paper, runs on the whole input answer
    the dev and test splits, and runs on half of it only dev.

    Args:
        parts: Some of `PARTS`.
    """

    def experiments(scale: str, model: str) -> Experiments:
        if scale == "paper":
            return [block for part in parts for block in part_experiments(part, model)]
        seeds = range(SEEDS[scale])
        return [
            description_experiment(scale, model, part, splits_of(part), seed)
            for part in parts
            for seed in seeds
        ]

    return experiments


def part_experiments(part: str, model: str) -> Experiments:
    """Experiments of T5 on a part of the input under the paper's conditions."""
    blocks = arm_experiments("t5", model)
    if part == "both":
        return blocks
    recipes = [{**block["recipes"][0], "set": {"parts": part}} for block in blocks]
    return [
        {**block, "recipes": [recipe], "evaluate": ["dev"]}
        for block, recipe in zip(blocks, recipes, strict=True)
    ]


def splits_of(part: str) -> tuple[str, ...]:
    """The splits that runs on a part of the input answer."""
    return ("dev", "test") if part == "both" else ("dev",)


def description_experiment(
    scale: str, model: str, part: str, splits: tuple[str, ...], seed: int
) -> dict[str, Any]:
    """Experiment with one seed on one part of the input, at the scale `quick` or `gpu`."""
    small = scale == "quick"
    learner: dict[str, Any] = dict(SMALL_LEARNER if small else GPU_LEARNER)
    if model:
        learner |= {"learner": "fine-tune", "model": model, "longest_answer": LONGEST_OF_OTHERS}
        for setting in ("state", "layers", "heads"):
            learner.pop(setting, None)
    fields = {
        **(SMALL_TASKS if small else GPU_TASKS),
        **({} if part == "both" else {"parts": part}),
    }
    return {
        "recipes": [{"recipe": RECIPE, "set": fields}],
        "learners": [learner],
        "seeds": [seed],
        "evaluate": list(splits),
    }
