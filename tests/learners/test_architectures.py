"""Any language model: architectures of other makes than Llama and T5, and a prompt that steers a
model which knows two tasks.
"""

from __future__ import annotations

import dataclasses
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("peft")

from tests.slow import slow_except  # noqa: E402

from taskloom.learners import load  # noqa: E402
from taskloom.learners.config import read  # noqa: E402
from taskloom.learners.pretrained.models import open_base, words_tokeniser  # noqa: E402

COLOURS = [
    ("grass", "green"),
    ("sky", "blue"),
    ("snow peak", "white"),
    ("black coal", "black"),
    ("blood", "red"),
]
INPUTS = [x for x, _ in COLOURS]
WANTED = [["green", "blue", "red"]] * len(INPUTS)


def gpt2(marks: dict[str, Any]) -> Any:
    drops = {"embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0}
    config = transformers.GPT2Config(
        **marks, **drops, n_embd=32, n_layer=2, n_head=2, n_positions=48
    )
    return transformers.GPT2LMHeadModel(config)


def bart(marks: dict[str, Any]) -> Any:
    heads = {
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_layers": 2,
        "decoder_layers": 2,
    }
    more = {
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "max_position_embeddings": 48,
        "dropout": 0.0,
        "init_std": 0.2,
    }
    start = {"decoder_start_token_id": marks["pad_token_id"], "forced_eos_token_id": None}
    return transformers.BartForConditionalGeneration(
        transformers.BartConfig(**marks, **heads, **more, **start, d_model=32)
    )


@pytest.fixture(scope="module", params=[gpt2, bart], ids=["gpt2", "bart"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = words_tokeniser([t for pair in COLOURS for t in pair] + [" |"])
    marks = {"vocab_size": len(made), "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": None}
    torch.manual_seed(0)
    where: Path = tmp_path_factory.mktemp("base") / request.param.__name__
    request.param(marks).save_pretrained(where)
    made.save_pretrained(where)
    return where


WAYS: dict[str, dict[str, Any]] = {
    "fine-tune": {"steps": 50, "rate": 5e-3},
    "lora": {"steps": 70, "rate": 1.5e-2},
    "prompt-tune": {"n": 4},
}


@pytest.mark.parametrize(
    ("folder", "name"),
    slow_except(
        product([gpt2, bart], WAYS), (gpt2, "lora"), (gpt2, "prompt-tune"), (bart, "fine-tune")
    ),
    indirect=["folder"],
)
def test_every_way_to_adapt_works_for_other_architectures(
    folder: Path, name: str, tmp_path: Path
) -> None:
    quick = {
        "batch": 5,
        "steps": 3,
        "rate": 0.1,
        "warmup": 0,
        "evaluate_every": 0,
        "longest_answer": 4,
    }
    fitted: Any = read({"learner": name, "model": str(folder), **quick, **WAYS[name]}).fit(
        COLOURS, seed=0
    )
    if name != "prompt-tune":  # nothing can be steered in a model that knows nothing
        assert fitted.answer(INPUTS) == [y for _, y in COLOURS]
    seen = []
    for batch in (1, 2, 5):
        fitted.batch = batch
        seen.append(
            (fitted.answer(INPUTS), fitted.logprob(INPUTS, WANTED), fitted.represent(INPUTS))
        )
    for said, weighed, states in seen[1:]:
        assert said == seen[0][0]
        assert np.allclose(weighed, seen[0][1], atol=1e-4)
        assert np.allclose(states, seen[0][2], atol=1e-4)
    fitted.save(tmp_path)
    again = load(tmp_path)
    assert again.answer(INPUTS) == fitted.answer(INPUTS)
    assert open_base(str(folder)).longest == 48


def test_in_context_does_not_depend_on_the_batch(folder: Path, tmp_path: Path) -> None:
    for shots in (0, 2):
        fitted: Any = read(
            {"learner": "in-context", "model": str(folder), "shots": shots, "longest_answer": 3}
        ).fit(COLOURS, seed=1)
        whole = (fitted.answer(INPUTS), fitted.logprob(INPUTS, WANTED), fitted.represent(INPUTS))
        fitted.save(tmp_path)
        again: Any = load(tmp_path)
        assert again.prompt == fitted.prompt
        again.model.batch = 1
        assert again.answer(INPUTS) == whole[0]
        assert np.allclose(again.logprob(INPUTS, WANTED), whole[1], atol=1e-4)
        assert np.allclose(again.represent(INPUTS), whole[2], atol=1e-4)


def test_a_prompt_steers_a_model_that_knows_two_tasks(tmp_path: Path) -> None:
    """A small decoder learns names and colours of things, told apart by a first word; a prompt has
    to take that word's part.
    """
    things = {
        "grass": ("gras", "green"),
        "sky": ("himmel", "blue"),
        "snow": ("schnee", "white"),
        "coal": ("kohle", "black"),
    }
    pairs = [
        (f"{task} {x}", both[i])
        for x, both in things.items()
        for i, task in enumerate(("german", "colour"))
    ]
    sizes = {
        "state": 32,
        "layers": 2,
        "heads": 2,
        "feed_forward": 64,
        "dropout": 0.0,
        "longest": 48,
    }
    loop = {"batch": 8, "warmup": 0, "evaluate_every": 0, "longest_answer": 3}
    base: Any = read({"learner": "decoder", **sizes, **loop, "steps": 60, "rate": 1e-2}).fit(
        pairs, seed=0
    )
    assert base.answer([x for x, _ in pairs]) == [y for _, y in pairs]
    base.base.model.save_pretrained(tmp_path)
    base.base.tokeniser.save_pretrained(tmp_path)
    tasks = {
        name: [(x, both[i]) for x, both in things.items()]
        for i, name in enumerate(("german", "colour"))
    }
    learner: Any = read(
        {
            "learner": "prompt-tune",
            "model": str(tmp_path),
            "n": 3,
            **loop,
            "steps": 60,
            "rate": 0.1,
            "first_rows": 20,
        }
    )
    for name, fitted in learner.fit_tasks(tasks, seed=0).items():
        assert fitted.answer(list(things)) == [y for _, y in tasks[name]], name
    # In the right state from the start: the same architecture with random weights is not so easily
    # led.
    twin = dataclasses.replace(learner, pretrained=False)
    assert twin.fit(tasks["german"], seed=0).answer(list(things)) != [y for _, y in tasks["german"]]


def test_t5_reads_inputs_longer_than_its_tokeniser_s_length(tmp_path: Path) -> None:
    made = words_tokeniser([t for pair in COLOURS for t in pair] + [" |"])
    made.model_max_length = 8  # T5's tokenisers have 512, though its positions are relative
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    marks = {"vocab_size": len(made), "pad_token_id": 0, "eos_token_id": 1}
    config = transformers.T5Config(**marks, **sizes, decoder_start_token_id=0)
    transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path)
    made.save_pretrained(tmp_path)
    quick = {"batch": 2, "steps": 1, "warmup": 0, "evaluate_every": 0, "longest_answer": 4}
    fitted = read({"learner": "fine-tune", "model": str(tmp_path), **quick}).fit(COLOURS, seed=0)
    assert len(fitted.answer(["black coal " * 20])) == 1
