"""The prefix that is kept between calls is never that of another model: changed weights, other
adapters, hooks, copies.
"""

from __future__ import annotations

import copy
import pickle
import random
import threading
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers

from taskloom.learners.accelerated import greedy, shared_prefix
from taskloom.learners.pretrained import fitted as fitted_models
from taskloom.learners.pretrained.fitted import FittedLanguageModel
from taskloom.learners.pretrained.models import Base, words_tokeniser

WORDS = ["grass", "sky", "snow", "coal", "blood", "leaf", "sea"]
LEARNER = SimpleNamespace(longest_answer=8, join="", beams=1)


def small_writer(kind: str, seed: int = 0) -> Any:
    """Build a small model with large random weights, of which the prefix of earlier inputs is
    kept.
    """
    torch.manual_seed(seed)
    tokeniser = words_tokeniser([" ".join(WORDS)])
    marks = {
        "vocab_size": len(tokeniser),
        "pad_token_id": 0,
        "eos_token_id": tokeniser.eos_token_id,
        "bos_token_id": None,
    }
    model: Any
    if kind == "gpt2":
        sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **marks))
    else:
        wide = {
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
        }
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**wide, **marks))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.normal_(0.0, 0.4)
    return FittedLanguageModel(
        LEARNER, Base("small", "decoder", model.eval(), tokeniser), batch=8, keeps_prefix=True
    )


def prompts(writer: Any, seed: int = 0) -> list[list[int]]:
    """Return inputs of several lengths after words that they share."""
    rng = random.Random(seed)
    head = rng.choices(WORDS, k=20)
    sources: list[list[int]] = writer.read(
        [" ".join([*head, *rng.choices(WORDS, k=k)]) for k in (1, 4, 2, 6, 3, 7)]
    )
    return sources


def whole(writer: Any, sources: list[list[int]]) -> list[str]:
    """Return the answers to whole prompts by the library."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitted_models, "find_shared_prefix", lambda *_: None)
        answers: list[str] = writer.say(sources)
    return answers


def add_to_data(model: Any) -> None:
    """Change the weights where torch does not count it, as merging an adapter does."""
    for weight in model.parameters():
        weight.data += 0.3 * torch.randn_like(weight)


def stretch_positions(model: Any) -> None:
    for name, buffer in model.named_buffers():
        if name.endswith("inv_freq"):
            buffer.data.mul_(3.0)


@pytest.mark.parametrize(
    ("kind", "change"),
    [("llama", add_to_data), ("gpt2", add_to_data), ("llama", stretch_positions)],
)
def test_a_change_of_weights_that_torch_does_not_count_is_noticed(
    kind: str, change: Callable[[Any], None]
) -> None:
    writer = small_writer(kind)
    sources = prompts(writer)
    before = writer.say(sources)
    change(writer.base.model)
    assert writer.say(sources) == whole(writer, sources) != before


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_adapters_that_are_switched_answer_with_prefixes_of_their_own(kind: str) -> None:
    peft = pytest.importorskip("peft")
    writer = small_writer(kind)
    model, sources = writer.base.model, prompts(writer)
    config = peft.LoraConfig(
        r=4, lora_alpha=64, target_modules="all-linear", init_lora_weights=False
    )
    for name in ("one", "two"):
        model.add_adapter(config, name)
    switches = (
        lambda: model.set_adapter("one"),
        lambda: model.set_adapter("two"),
        model.disable_adapters,
    )
    answers = []
    for switch in switches:
        switch()
        answers.append(writer.say(sources))
        assert answers[-1] == whole(writer, sources)
    assert answers[0] != answers[1] != answers[2]


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_hooks_are_followed(kind: str) -> None:
    writer = small_writer(kind)
    sources = prompts(writer)
    before, targets = writer.say(sources), [source[:2] for source in sources]
    losses = writer.losses(sources, targets)
    layers = writer.base.model.model.layers if kind == "llama" else writer.base.model.transformer.h
    handle = layers[0].register_forward_hook(lambda _module, _given, states: states.flip(-1))
    changed = writer.say(sources)
    assert changed == whole(writer, sources) != before
    assert writer.losses(sources, targets)[0] != pytest.approx(losses[0], rel=1e-2)
    handle.remove()
    assert writer.say(sources) == before
    writer.base.model(
        torch.tensor([[1, 2]]), output_hidden_states=True
    )  # for which the library leaves hooks
    assert writer.base.model.base_model._output_capturing_hooks_installed or kind == "gpt2"
    assert shared_prefix.find_shared_prefix(writer.base, sources, writer.device) is not None


def test_settings_of_generation_that_look_at_neighbours_have_whole_prompts() -> None:
    """Between the prefix and a shorter input stands padding, which would part a pair of words that
    must not come again.
    """
    for seed in (2, 7):
        writer = small_writer("gpt2", seed)
        writer.base.model.generation_config.no_repeat_ngram_size = 2
        sources = prompts(writer, seed)
        assert writer.say(sources) == whole(writer, sources)
        assert writer._kept_prefix is None
    writer = small_writer("gpt2")
    writer.base.model.generation_config.repetition_penalty = 1.3
    assert writer.say(prompts(writer)) == whole(writer, prompts(writer))
    assert writer._kept_prefix is not None


def test_a_copy_has_no_prefix_or_recorded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(greedy, "recorded", lambda step: lambda: step())
    monkeypatch.setattr(greedy, "FIRST_RECORDED", 2)
    find = partial(shared_prefix.find_shared_prefix, graphs=True)
    monkeypatch.setattr(fitted_models, "find_shared_prefix", lambda *given: find(*given[:4]))
    writer = small_writer("llama")
    sources = prompts(writer)
    answers = writer.say(sources)
    assert "[8] rows" in writer.recording
    for other in (copy.deepcopy(writer), pickle.loads(pickle.dumps(writer))):
        assert other._kept_prefix is None
        assert other.say(sources) == answers


def test_threads_do_not_write_into_each_others_recorded_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(greedy, "recorded", lambda step: lambda: step())
    monkeypatch.setattr(greedy, "FIRST_RECORDED", 2)
    small = small_writer("llama")
    sources = prompts(small)
    with torch.no_grad():
        shared = shared_prefix.find_shared_prefix(small.base, sources, small.device, graphs=True)
    assert shared is not None
    assert shared.decoder is not None
    write, rests = shared.decoder.write, [source[len(shared.ids) :] for source in sources]
    other_done = threading.Event()

    def after_the_other(rows: Sequence[list[int]]) -> list[bool]:
        if len(rows[0]) == 3:
            other.start()
            other_done.wait(0.2)  # in vain, as it should be
        return [False] * len(rows)

    def write_other() -> None:
        with torch.no_grad():
            write(rests[::-1], 6, lambda rows: [False] * len(rows))
        other_done.set()

    other = threading.Thread(target=write_other)
    with torch.no_grad():
        alone = write(rests, 6, lambda rows: [False] * len(rows))
        together = write(rests, 6, after_the_other)
        other.join(10)
    assert together == alone


def test_losses_after_a_tuned_prompt_do_not_leave_it_out() -> None:
    writer = small_writer("llama")
    sources = prompts(writer)
    targets = [source[:2] for source in sources]
    vectors = torch.randn(3, 32)
    plain = FittedLanguageModel(LEARNER, writer.base, vectors, batch=8).losses(sources, targets)
    kept = FittedLanguageModel(LEARNER, writer.base, vectors, batch=8, keeps_prefix=True).losses(
        sources, targets
    )
    assert kept[0] == pytest.approx(plain[0], rel=1e-4)
