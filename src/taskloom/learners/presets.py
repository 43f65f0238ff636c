"""Settings of the papers by name: `preset: ctlpp` in a learner's block stands for the values that the paper's models had.

A preset is only a shorter way to write settings: what is written beside it counts more, and runs know the settings, not the name.
Where a paper and its public code differ, the preset has the code's value, which made the published numbers;
`docs/reference/learner-presets.md` lists both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taskloom.core.errors import nearest
from taskloom.learners.interface import LearnerError

_CTL: dict[str, Any] = {
    "batch": 512,
    "rate": 1.5e-4,
    "warmup": 500,
    "optimiser": "adamw",
    "evaluate_every": 1_000,
}
_BILSTM = {**_CTL, "steps": 80_000, "clip": 5.0, "weight_decay": 0.0, "state": 256, "dropout": 0.5}
_TRANSFORMER = {
    **_CTL,
    "steps": 300_000,
    "clip": 5.0,
    "weight_decay": 0.0025,
    "state": 128,
    "heads": 4,
    "layers": 8,
    "feed_forward": 256,
    "dropout": 0.1,
    "attention_dropout": 0.1,
}
_NDR = {
    **_CTL,
    "steps": 80_000,
    "clip": 1.0,
    "weight_decay": 0.0,
    "state": 256,
    "heads": 4,
    "layers": 8,
    "layers_answering": 10,
    "feed_forward": 512,
    "dropout": 0.5,
    "attention_dropout": 0.1,
    "gate_dropout": 0.1,
    "begin": "reference",
}

_T5: dict[str, Any] = {"model": "t5-base", "warmup": 0}

_TASKBENCH: dict[str, Any] = {
    **_T5,
    "optimiser": "adamw",
    "epsilon": 1e-6,
    "weight_decay": 0.0,
    "clip": 0.0,
    "batch": 64,
    "epochs": 100,
    "evaluate_epochs": 1,
    "patience": 50,
    "longest_answer": 512,
    "targets": "first",
}
_PROMPT = {**_TASKBENCH, "rate": 1.0, "n": 100, "first_rows": 5_000}
_TUNED = {**_TASKBENCH, "rate": 1e-3}
_SEQUENCES = {"batch": 32, "targets": "fixed"}

PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "ctlpp": {"bilstm": _BILSTM, "transformer": _TRANSFORMER, "ndr": _NDR},
    "ctlpp-paper": {
        "bilstm": _BILSTM,
        "transformer": {**_TRANSFORMER, "feed_forward": 512, "dropout": 0.5},
        # The text knows eight applications of the layer only.
        "ndr": {**_NDR, "feed_forward": 1_024, "layers_answering": 8},
    },
    "ctlpp-s": {
        "bilstm": {**_BILSTM, "optimiser": "adam", "rate": 1e-3, "batch": 128},
        "transformer": _TRANSFORMER,
        "ndr": _NDR,
    },
    "dyna-babi": {
        "fine-tune": {**_T5, "optimiser": "adam", "rate": 5e-5, "batch": 8, "epochs": 12},
        # The paper names SGD and no rate; 0.01 is that of Henaff et al.
        "entnet": {
            "optimiser": "sgd",
            "rate": 0.01,
            "batch": 32,
            "epochs": 200,
            "slots": 20,
            "state": 100,
        },
        "stm": {"batch": 32, "epochs": 200},
    },
    "taskbench500": {"fine-tune": _TUNED, "prompt-tune": _PROMPT},
    "taskbench500-sequences": {
        "fine-tune": {**_TUNED, **_SEQUENCES},
        "prompt-tune": {**_PROMPT, **_SEQUENCES},
    },
    "zest": {
        "fine-tune": {
            "model": "t5-11b",
            "optimiser": "adafactor",
            "rate": 1e-3,
            "warmup": 0,
            "clip": 0.0,
            "batch": 32,
            "steps": 25_000,
            "evaluate_every": 2_500,
            "patience": 10,  # as many as there are points: the best on dev is kept, and nothing is stopped
            "targets": "listed",
            "longest_input": 512,
            "longest_answer": 512,
        }
    },
    "zest-bart": {
        "fine-tune": {
            "model": "facebook/bart-large",
            "optimiser": "adamw",
            "rate": 3e-5,
            "warmup": 100,
            "decay": "linear",
            "weight_decay": 0.01,
            "clip": 0.1,
            "batch": 32,
            "epochs": 15,
            "evaluate_epochs": 1,
            "patience": 15,
            "label_smoothing": 0.1,
            "beams": 4,
            "targets": "fixed",
            "longest_input": 512,
            "longest_answer": 64,
        }
    },
}

_ONE_OF = (("steps", "epochs"), ("evaluate_every", "evaluate_epochs"))


def presets_of(learner: str) -> list[str]:
    """List the presets that a learner has."""
    return [name for name, learners in PRESETS.items() if learner in learners]


def with_preset(name: Any, learner: str, block: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a block of settings on top of those of a preset."""
    known = presets_of(learner)
    if name not in known:
        if not known:
            raise LearnerError(f"{where} has no presets; leave out 'preset: {name}'")
        raise LearnerError(f"{where} has no preset '{name}'; {nearest(str(name), known)}")
    inner = block.get("training")
    given = {*block, *(inner if isinstance(inner, Mapping) else ())}
    for one, other in _ONE_OF:
        if one in given or other in given:
            given |= {
                one,
                other,
            }  # a setting that is given also replaces the preset's other way to say the same
    preset = {key: value for key, value in PRESETS[name][learner].items() if key not in given}
    return {**preset, **block}
