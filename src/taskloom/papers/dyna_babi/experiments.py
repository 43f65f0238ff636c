"""Experiments behind the studies of Dyna-bAbI: the paper's conditions, those of the results page,
and short stories that can be learned in minutes on two cores.
"""

from __future__ import annotations

import json
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
"""Networks that run through the whole pipeline in a minute. They learn little from the stories."""

READERS = ("rasor", "document-reader", "qanet", "mnemonic-reader", "fusionnet")
"""Reading-comprehension models in the paper's comparison other than BiDAF. None of them is
pretrained.
"""

PRETRAINED = {
    "bert": "bert-base-uncased",
    "bert-large": "bert-large-uncased",
    "bert-large-wwm": "bert-large-uncased-whole-word-masking",
    "albert": "albert-base-v1",
    "albert-xxlarge": "albert-xxlarge-v1",
    "roberta": "roberta-base",
    "roberta-large": "roberta-large",
    "electra": "google/electra-base-discriminator",
    "spanbert": "SpanBERT/spanbert-base-cased",
    "spanbert-large": "SpanBERT/spanbert-large-cased",
}
"""The pretrained readers of Table 8, with their ids on the hub."""

WITHOUT_FEATURES = {
    f"{name}-no-features": {"learner": name, "preset": "dyna-babi", "features": False}
    for name in ("document-reader", "mnemonic-reader", "fusionnet")
}
"""Readers that Table 8 also lists without the exact-match and term-frequency features."""

PAPER_LEARNERS: dict[str, Block] = {
    "entnet": {"learner": "entnet", "preset": "dyna-babi"},
    "stm": {"learner": "stm", "preset": "dyna-babi"},
    **{name: {"learner": name, "preset": "dyna-babi"} for name in ("bidaf", *READERS)},
    **WITHOUT_FEATURES,
    "t5": {"learner": "fine-tune", "preset": "dyna-babi"},
    "smollm2": {"learner": "fine-tune", "preset": "dyna-babi", "model": "smollm2"},
    **{
        name: {"learner": "extractive", "preset": "dyna-babi", "model": model}
        for name, model in PRETRAINED.items()
    },
}

_GPU_LOOP = {"compile": False, "evaluate_every": 0, "checkpoint_every": 100_000}
_GPU_NETS: dict[str, Block] = {
    "entnet": {"steps": 2_500, "batch": 128, "rate": 0.01, "halve_every": 500},
    "stm": {
        "steps": 8_000,
        "batch": 64,
        "rate": 1e-3,
        "decay": "linear",
        "state": 48,
        "hidden": 64,
        "slots": 12,
    },
    "bidaf": {"steps": 600, "batch": 256, "rate": 3e-3, "graphs": False},
}
GPU_LEARNERS: dict[str, Block] = {
    **{name: {"learner": name, **own, **_GPU_LOOP} for name, own in _GPU_NETS.items()},
    "smollm2": {
        "learner": "fine-tune",
        "model": "smollm2",
        "steps": 700,
        "batch": 64,
        "rate": 5e-4,
        "warmup": 50,
        "decay": "linear",
        "clip": 1.0,
        "precision": "bf16",
        "longest_answer": 8,
        "device": "auto",
        **_GPU_LOOP,
    },
}
"""Learners of the results page, as trained by benchmarks/dyna_babi/further.yaml."""

LEARNERS = {"quick": SMALL_LEARNERS, "gpu": GPU_LEARNERS, "paper": PAPER_LEARNERS}

GPU_SEEDS = {"entnet": 5, "stm": 3, "bidaf": 3, "smollm2": 3}

GPU_TESTS = {"T2": (1_000, None), "T7": (3_000, 1_050), "T12": (2_000, 1_800)}
"""Maximum questions of a split on the GPU, and questions of concat's test (None: all questions)."""

BEST_OF = {"entnet": 10, "stm": 10}
"""Number of trainings from which the paper takes the best on dev."""

PARTS = ("T2", "T7", "T12")

SIZES: dict[str, int] = {"T2": 2, "T7": 7, "T12": 12}
"""Number of tasks in each set. At quick scale, training has this many times `EACH` questions."""

EACH = 60
"""Number of training questions per task at quick scale."""


def learner(scale: str, name: str) -> Block:
    """Learner block for a scale. A hub id, a folder of weights or a packaged model is fine-tuned
    with the settings of SmolLM2 or, if it is an encoder, of the pretrained readers.
    """
    known = LEARNERS[scale]
    if name in known:
        return dict(known[name])
    if name == "minilm" or is_encoder(Path(name)):
        return {**ENCODER, **(QUICK_ENCODER if scale == "quick" else {}), "model": name}
    if "/" in name or Path(name).is_dir() or name == "gemma3-270m":
        return {
            **known["smollm2"],
            "model": name,
            "longest_answer": 32,
        }  # its tokeniser may split words into more tokens
    raise ParameterError(
        "model",
        f"must be a model of this scale, a hub id or a folder of weights, not '{name}';"
        f" {nearest(name, known)}",
    )


ENCODER: Block = {"learner": "extractive", "preset": "dyna-babi"}
QUICK_ENCODER: Block = {"epochs": 0, "steps": 6, "batch": 4, "evaluate_every": 0}

WRITERS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
"""Endings of architecture names in config.json for models that write text. All others are treated
as encoders.
"""


def is_encoder(folder: Path) -> bool:
    """True if the model in a folder is an encoder, according to its config.json."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        architectures = [str(name) for name in config["architectures"]]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return bool(architectures) and not any(name.endswith(WRITERS) for name in architectures)


def squad_learner(scale: str, name: str) -> Block:
    """Learner block for SQuAD, where the answer may be anywhere in the text, not only near its
    end.
    """
    block = learner(scale, name)
    return {**block, "cut": "end"} if block["learner"] == "extractive" else block


def extracts(scale: str, name: str) -> bool:
    """True if a model extracts answers from the text. In T12, some answers do not occur in the
    text.
    """
    return learner(scale, name)["learner"] in ("bidaf", *READERS, "extractive")


HALVED = 25 * 9_000 // 32
"""Steps of batch size 32 after which Henaff et al. halve EntNet's learning rate, for each task of
concat: 25 epochs of 9,000 questions.
"""


def small_sizes(data: str, part: str) -> dict[str, int]:
    """Sizes of a training recipe at quick scale."""
    n = EACH * SIZES[part]
    sizes = {"splits.train.n": n, "splits.dev.n": SIZES[part]}
    return sizes if data == "inject" else {**sizes, "splits.test.n": SIZES[part] * 8}


def recipe_block(scale: str, data: str, part: str, trimmed: bool = False) -> Block:
    """Block of a training recipe. `trimmed` selects the version of concat on which the paper's T5
    was trained.
    """
    name = f"babi/{data}-{part}" + (
        "-trimmed" if trimmed and data == "concat" and part != "T2" else ""
    )
    return (
        {"recipe": name, "set": small_sizes(data, part)} if scale == "quick" else {"recipe": name}
    )


def evaluated(scale: str, part: str, probes: bool = False) -> list[Any]:
    """Splits to evaluate: the test of concat, the mix and, for T12, the probes if requested."""
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
    if scale == "gpu" and (tests := GPU_TESTS[part][1]) is not None:
        few = {"splits.train.n": SIZES[part], "splits.dev.n": SIZES[part], "splits.test.n": tests}
        own: Any = {"recipe": f"babi/concat-{part}", "set": few, "only": ["test"]}
    else:
        own = f"babi/concat-{part}:test"
    named = [own, f"babi/mix-{part}"]
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
    """Experiment with one model on one training set."""
    own = learner(scale, name)
    trimmed = own["learner"] == "fine-tune"
    if scale == "paper" and name == "entnet" and data == "concat":
        own["halve_every"] = HALVED * SIZES[part]
    experiment: Block = {
        "recipes": [recipe_block(scale, data, part, trimmed)],
        "learners": [own],
        "seeds": seeds,
        "evaluate": evaluated(scale, part, probes),
        **(more or {}),
    }
    if scale == "paper" and name in BEST_OF:
        experiment["best_of"] = BEST_OF[name]
    if scale == "gpu":
        experiment["limit"] = GPU_TESTS[part][0]
        experiment["seeds"] = GPU_SEEDS.get(name, 1)
    return experiment


def models(scale: str, model: str, default: Sequence[str]) -> list[str]:
    """The chosen model, or the study's default models."""
    names = [model] if model else list(default)
    for name in names:
        learner(scale, name)
    return names


LANGUAGE = {"quick": "entnet", "gpu": "smollm2", "paper": "t5"}
"""Model that replaces T5 in its tables and figures, by scale."""


def table3_experiments(scale: str, model: str) -> list[Block]:
    """Experiments of Table 3."""
    own = {
        "quick": ("entnet", "stm", "bidaf"),
        "gpu": ("entnet", "stm", "bidaf", "smollm2"),
        "paper": ("entnet", "stm", "bidaf", "roberta", "t5"),
    }[scale]
    parts = ("T2", "T7") if scale == "quick" else PARTS
    blocks = []
    for name in models(scale, model, own):
        for part in parts:
            if part != "T12" or not extracts(scale, name):
                blocks.append(block(scale, name, "concat", part))
    return blocks


def enriched_experiments(scale: str, model: str) -> list[Block]:
    """Experiments of Table 4: concat, inject and diverse, on T7 and T12."""
    (name,) = models(scale, model, [LANGUAGE[scale]])
    parts = ("T7",) if scale == "quick" else ("T7", "T12")
    return [
        block(scale, name, data, part) for part in parts for data in ("concat", "inject", "diverse")
    ]


def gift_experiments(scale: str, model: str) -> list[Block]:
    """Experiments of Table 9: models trained on concat(T7)."""
    own = {
        "quick": ("entnet",),
        "gpu": ("bidaf", "smollm2"),
        "paper": ("bidaf", "roberta", "t5"),
    }[scale]
    return [block(scale, name, "concat", "T7") for name in models(scale, model, own)]


def map_experiments(scale: str, model: str) -> list[Block]:
    """Experiments of Figure 3."""
    (name,) = models(scale, model, [LANGUAGE[scale]])
    return [block(scale, name, "diverse", "T7" if scale == "quick" else "T12")]


def probe_experiments(scale: str, model: str) -> list[Block]:
    """Experiments of Table 10 and Figures 4 and 8, in which a model trained on diverse(T12) answers
    the probes.
    """
    (name,) = models(scale, model, [LANGUAGE[scale]])
    return [block(scale, name, "diverse", "T12", probes=True)]


def concurrence_experiments(scale: str, model: str) -> list[Block]:
    """Experiments of Figure 2: several models on concat(T7), and extractive models on SQuAD if its
    files are available. The paper's scores of 20 readers are stored with Table 8.
    """
    own: dict[str, tuple[str, ...]] = {
        "quick": ("entnet", "stm", "bidaf", *READERS),
        "gpu": ("entnet", "stm", "bidaf", "smollm2"),
        "paper": ("entnet", "stm", "t5", "bidaf", *READERS, *WITHOUT_FEATURES, *PRETRAINED),
    }
    names = models(scale, model, own[scale])
    blocks = [block(scale, name, "concat", "T7") for name in names]
    squad = SQUAD_FILES.find()
    if squad is not None and scale == "paper":
        blocks += [
            {
                "recipes": [str(squad)],
                "learners": [squad_learner(scale, name)],
                "evaluate": ["dev"],
            }
            for name in names
            if extracts(scale, name)
        ]
    return blocks


SQUAD_FILES = Resource(
    "squad",
    "SQuAD 1.1 (Dyna-bAbI: concurrence)",
    ("squad/train-v1.1.json", "squad/dev-v1.1.json"),
)


DOSES = {"quick": (10, 40), "gpu": (10, 100, 500), "paper": (10, 50, 100, 250, 500)}
"""Numbers of examples of each question type. The paper's text mentions 500."""


def inoculation_experiments(scale: str, model: str) -> list[Block]:
    """First experiments of Figure 7, which train models on concat and save them."""
    (name,) = models(scale, model, [LANGUAGE[scale]])
    parts = ("T7",) if scale == "quick" else ("T7", "T12")
    return [block(scale, name, "concat", part, more={"keep": {"model": True}}) for part in parts]


def dose_learner(scale: str, model: str) -> Block:
    """Learner that continues training on a dose of examples."""
    (name,) = models(scale, model, [LANGUAGE[scale]])
    lengths: dict[str, Block] = {
        "quick": {"steps": 60},
        "gpu": {"epochs": 12, "batch": 32, "rate": 1e-4, "warmup": 5},
        "paper": {"epochs": 12},
    }
    short = lengths[scale]
    own = learner(scale, name)
    if "epochs" in short:
        own.pop("steps", None)
    return {**own, **short}


def continued(block: Block, folder: str) -> Block:
    """Learner block that starts from a saved model, without the settings for model selection on
    dev.
    """
    return {**block, "start_from": folder}


def dose_blocks(scale: str, part: str, learner_block: Block, seed: int) -> list[Block]:
    """One experiment per dose, each of which continues the model of one seed."""
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
            # Figure 7 has two curves: one for the mix, and one for the test of concat, which the
            # model may forget after a dose.
            "evaluate": ["mix", evaluated(scale, part)[0]],
        }
        for dose in DOSES[scale]
    ]
