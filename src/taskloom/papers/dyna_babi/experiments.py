"""The experiments behind the studies of Dyna-bAbI: the paper's conditions, and small stories that
two cores learn in minutes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from taskloom.core.errors import ParameterError, nearest
from taskloom.core.resources import Resource

Block = dict[str, Any]

_LOOP = {"evaluate_every": 0, "batch": 32}
_READER = {"words": 16, "state": 16, "steps": 40, "rate": 5.0e-3, **_LOOP}
SMALL_LEARNERS: dict[str, Block] = {
    "entnet": {
        "learner": "entnet",
        "state": 32,
        "slots": 10,
        "steps": 400,
        "rate": 5.0e-3,
        "halve_every": 150,
        **_LOOP,
    },
    "stm": {
        "learner": "stm",
        "state": 16,
        "hidden": 16,
        "slots": 4,
        "embedding": 16,
        "steps": 120,
        "rate": 3.0e-3,
        **_LOOP,
    },
    "bidaf": {
        "learner": "bidaf",
        "words": 16,
        "state": 16,
        "filters": 8,
        "steps": 40,
        "rate": 5.0e-3,
        **_LOOP,
    },
    "rasor": {"learner": "rasor", "longest": 3, **_READER},
    "document-reader": {"learner": "document-reader", **_READER},
    "qanet": {"learner": "qanet", "heads": 2, "blocks": 1, **_READER},
    "mnemonic-reader": {"learner": "mnemonic-reader", **_READER},
    "fusionnet": {"learner": "fusionnet", **_READER},
    "smollm2": {
        "learner": "fine-tune",
        "model": "smollm2",
        "steps": 6,
        "longest_answer": 8,
        **_LOOP,
        "batch": 4,
    },
}
"""Networks that show the whole path in a minute; they learn little of stories."""

READERS = ("rasor", "document-reader", "qanet", "mnemonic-reader", "fusionnet")
"""Readers of passages that the paper compares beside BiDAF, none of them pretrained."""

FULL_LEARNERS: dict[str, Block] = {
    "entnet": {"learner": "entnet", "preset": "dyna-babi"},
    "stm": {"learner": "stm", "preset": "dyna-babi"},
    "bidaf": {"learner": "bidaf"},
    **{name: {"learner": name} for name in READERS},
    "t5": {"learner": "fine-tune", "preset": "dyna-babi"},
    "smollm2": {"learner": "fine-tune", "preset": "dyna-babi", "model": "smollm2"},
    "roberta": {"learner": "extractive", "model": "roberta-base"},
}

EXTRACTIVE = ("bidaf", *READERS, "roberta")
"""Models that point at the answer in the text, which T12 does not always have."""

BEST_OF = {"entnet": 10, "stm": 10}
"""Trainings of which the paper takes the best by dev."""

PARTS = ("T2", "T7", "T12")

SIZES: dict[str, int] = {"T2": 2, "T7": 7, "T12": 12}
"""Tasks of the sets, and how many questions of each are learned at quick scale, times `EACH`."""

EACH = 60
"""Training questions of each task at quick scale."""


def learner(scale: str, name: str) -> Block:
    """A learner's block for a scale. A hub id or a folder of weights is fine-tuned with the
    settings of SmolLM2.
    """
    known = SMALL_LEARNERS if scale == "quick" else FULL_LEARNERS
    if name in known:
        return dict(known[name])
    if "/" in name or Path(name).is_dir():
        return {
            **known["smollm2"],
            "model": name,
            "longest_answer": 32,
        }  # its tokeniser may cut words into more pieces
    raise ParameterError(
        "model",
        f"must be a model of this scale, a hub id or a folder of weights, not '{name}';"
        f" {nearest(name, known)}",
    )


def small_sizes(data: str, part: str) -> dict[str, int]:
    """Sizes of a training recipe at quick scale."""
    n = EACH * SIZES[part]
    sizes = {"splits.train.n": n, "splits.dev.n": SIZES[part]}
    return sizes if data == "inject" else {**sizes, "splits.test.n": SIZES[part] * 8}


def recipe_block(scale: str, data: str, part: str, trimmed: bool = False) -> Block:
    """A training recipe; `trimmed` is concat as the paper's T5 was trained on it."""
    name = f"babi/{data}-{part}" + (
        "-trimmed" if trimmed and data == "concat" and part != "T2" else ""
    )
    return (
        {"recipe": name, "set": small_sizes(data, part)} if scale == "quick" else {"recipe": name}
    )


def evaluated(scale: str, part: str, probes: bool = False) -> list[Any]:
    """The splits to answer: the test of concat, the mix, and for T12 the probes if they are wanted."""
    if scale == "quick":
        concat: Any = {
            "recipe": f"babi/concat-{part}",
            "set": small_sizes("concat", part),
            "only": ["test"],
        }
        mix: Any = {"recipe": f"babi/mix-{part}", "set": {"splits.mix.n": 120}}
        pairs = [
            {"recipe": f"babi/phrasing-T12{suffix}", "set": {"splits.pairs.n": 60}}
            for suffix in ("", "-where")
        ]
        double: Any = {"recipe": "babi/double-disjunctions", "set": {"splits.probe.n": 60}}
        return [concat, mix, *([*pairs, double] if probes else [])]
    named = [f"babi/concat-{part}:test", f"babi/mix-{part}"]
    extra = ["babi/phrasing-T12", "babi/phrasing-T12-where", "babi/double-disjunctions"]
    return [*named, *(extra if probes else [])]


def block(
    scale: str,
    name: str,
    data: str,
    part: str,
    seeds: int = 2,
    probes: bool = False,
    more: Mapping[str, Any] | None = None,
) -> Block:
    """Experiment of one model on one training set."""
    trimmed = learner(scale, name)["learner"] == "fine-tune"
    experiment: Block = {
        "recipes": [recipe_block(scale, data, part, trimmed)],
        "learners": [learner(scale, name)],
        "seeds": seeds,
        "evaluate": evaluated(scale, part, probes),
        **(more or {}),
    }
    if scale == "full" and name in BEST_OF:
        experiment["best_of"] = BEST_OF[name]
    return experiment


def models(scale: str, model: str, default: Sequence[str]) -> list[str]:
    """The chosen model, or the study's own."""
    names = [model] if model else list(default)
    for name in names:
        learner(scale, name)
    return names


def table3_experiments(scale: str, model: str) -> list[Block]:
    """Experiments of Table 3."""
    own = (
        ("entnet", "stm", "bidaf")
        if scale == "quick"
        else ("entnet", "stm", "bidaf", "roberta", "t5")
    )
    parts = ("T2", "T7") if scale == "quick" else PARTS
    blocks = []
    for name in models(scale, model, own):
        for part in parts:
            if name not in EXTRACTIVE or part != "T12":
                blocks.append(block(scale, name, "concat", part))
    return blocks


def enriched_experiments(scale: str, model: str) -> list[Block]:
    """Experiments of Table 4: concat, inject and diverse, on T7 and T12."""
    (name,) = models(scale, model, ["entnet" if scale == "quick" else "t5"])
    parts = ("T7",) if scale == "quick" else ("T7", "T12")
    return [
        block(scale, name, data, part) for part in parts for data in ("concat", "inject", "diverse")
    ]


def gift_experiments(scale: str, model: str) -> list[Block]:
    """Experiments of Table 9: models trained on concat(T7)."""
    own = ("entnet",) if scale == "quick" else ("bidaf", "roberta", "t5")
    return [block(scale, name, "concat", "T7") for name in models(scale, model, own)]


def map_experiments(scale: str, model: str) -> list[Block]:
    """Experiments of Figure 3."""
    (name,) = models(scale, model, ["entnet" if scale == "quick" else "t5"])
    return [block(scale, name, "diverse", "T7" if scale == "quick" else "T12")]


def probe_experiments(scale: str, model: str) -> list[Block]:
    """Experiments of Table 10 and Figures 4 and 8: a model trained on diverse(T12) answers the
    probes.
    """
    (name,) = models(scale, model, ["entnet" if scale == "quick" else "t5"])
    return [block(scale, name, "diverse", "T12", probes=True)]


def concurrence_experiments(scale: str, model: str) -> list[Block]:
    """Experiments of Figure 2: several models on concat(T7), and those that point at
    answers on SQuAD where its files are here.
    """
    own: tuple[str, ...] = ("entnet", "stm", "bidaf", *READERS)
    if scale != "quick":
        own = (*own, "roberta", "t5")
    names = models(scale, model, own)
    blocks = [block(scale, name, "concat", "T7") for name in names]
    squad = SQUAD_FILES.find()
    if squad is not None and scale != "quick":
        blocks += [
            {"recipes": [str(squad)], "learners": [learner(scale, name)], "evaluate": ["dev"]}
            for name in names
            if name in EXTRACTIVE
        ]
    return blocks


SQUAD_FILES = Resource(
    "squad",
    "SQuAD 1.1 (Dyna-bAbI: concurrence)",
    ("squad/train-v1.1.json", "squad/dev-v1.1.json"),
)


DOSES = {"quick": (10, 40), "full": (10, 50, 100, 250, 500)}
"""Examples of each kind of question; the paper's text names 500."""


def inoculation_experiments(scale: str, model: str) -> list[Block]:
    """First experiments of Figure 7: models that learn concat and are kept."""
    (name,) = models(scale, model, ["entnet" if scale == "quick" else "t5"])
    parts = ("T7",) if scale == "quick" else ("T7", "T12")
    return [block(scale, name, "concat", part, more={"keep": {"model": True}}) for part in parts]


def dose_learner(scale: str, model: str) -> Block:
    """The learner that continues with a dose."""
    (name,) = models(scale, model, ["entnet" if scale == "quick" else "t5"])
    short = {"steps": 60} if scale == "quick" else {"epochs": 12}
    return {**learner(scale, name), **short}


def continued(block: Block, folder: str) -> Block:
    """A learner's block that starts from a saved model, without the settings for choosing by dev."""
    return {**block, "start_from": folder}


def dose_blocks(scale: str, part: str, learner_block: Block, seed: int) -> list[Block]:
    """An experiment for each dose with which a model of one seed is continued."""
    kinds = {"T2": 1, "T7": 3, "T12": 6}[part]
    mix = 120 if scale == "quick" else None
    return [
        {
            "recipes": [
                {
                    "recipe": f"babi/mix-{part}",
                    "set": {
                        "splits.train.n": dose * kinds,
                        **({"splits.mix.n": mix} if mix else {}),
                    },
                }
            ],
            "learners": [learner_block],
            "seeds": [seed],
            "evaluate": ["mix"],
        }
        for dose in DOSES[scale]
    ]
