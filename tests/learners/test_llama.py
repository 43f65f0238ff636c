"""Llama as a plain function against the library's own module: states, gradients, prompts, and
rounded copies of the weights.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from taskloom.learners.accelerated.llama import (  # noqa: E402
    Rounded,
    Shortcuts,
    can_follow,
    logits_at,
)
from taskloom.learners.pretrained import forward  # noqa: E402
from taskloom.learners.pretrained.models import Base  # noqa: E402

TASKS = [0, 1, 0, 1, 1, 0]


def base(**changes: Any) -> Base:
    sizes = {
        "vocab_size": 60,
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
        "tie_word_embeddings": True,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **changes)).eval()
    words: Any = SimpleNamespace(pad_token_id=2, eos_token_id=2)
    return Base("tiny", "decoder", model, words)


def some_batch(made: Base) -> forward.Batch:
    random = torch.Generator().manual_seed(1)
    sources = [torch.randint(3, 60, (5 + i % 4,), generator=random).tolist() for i in range(6)]
    targets = [torch.randint(3, 60, (1 + i % 3,), generator=random).tolist() for i in range(6)]
    return forward.collate(made, sources, targets, 4)


def gradients(logits: Any, wanted: list[Any]) -> list[Any]:
    found: list[Any] = list(torch.autograd.grad(logits.float().sin().sum(), wanted))
    return found


@pytest.mark.parametrize("prompted", [False, True])
def test_equals_the_library(prompted: bool) -> None:
    made = base()
    assert can_follow(made.model)
    batch = some_batch(made)
    assert batch.where is not None
    prompts = (
        torch.randn(2, 5, 24, generator=torch.Generator().manual_seed(3)).requires_grad_()
        if prompted
        else None
    )
    tasks = torch.tensor(TASKS) if prompted else None
    wanted = [*made.model.parameters(), *([prompts] if prompted else [])]
    ours = logits_at(made.model, batch.ids, batch.where, prompts, tasks)
    theirs = forward._decoder(made, batch, prompts, tasks)
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)
    for one, other in zip(gradients(ours, wanted), gradients(theirs, wanted), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_rounded_copies_give_the_weights_their_gradients() -> None:
    made = base()
    batch = some_batch(made)
    assert batch.where is not None
    maps = [
        p
        for p in made.model.parameters()
        if p.dim() == 2 and p is not made.model.get_input_embeddings().weight
    ]
    rounded = Rounded(made.model, torch.bfloat16)
    with torch.no_grad():
        for weight in maps:
            weight.mul_(1.5)
    rounded.refresh()
    found = []
    for fast in (Shortcuts(), Shortcuts(rounded=rounded)):
        made.model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = logits_at(made.model, batch.ids, batch.where, None, None, fast)
        torch.autograd.backward(logits.float().sin().sum())
        if fast.rounded:
            fast.rounded.hand_over()
        found.append((logits, [w.grad.clone() for w in made.model.parameters()]))
    assert torch.equal(found[0][0], found[1][0])
    for one, other in zip(found[0][1], found[1][1], strict=True):
        assert other.dtype == torch.float32
        assert torch.equal(one, other)


def test_frozen_weights_get_no_gradients_and_stay_as_they_are() -> None:
    made = base()
    made.model.requires_grad_(False)
    rounded = Rounded(made.model, torch.bfloat16)
    assert not any(copy.requires_grad for copy in rounded.copies)
    rounded.refresh()
    rounded.hand_over()
    assert all(w.grad is None for w in rounded.sources)


def test_other_models_are_left_to_the_library() -> None:
    assert not can_follow(base(attention_dropout=0.1).model)
    assert not can_follow(base(mlp_bias=True).model)
    assert not can_follow(base(hidden_act="gelu").model)
