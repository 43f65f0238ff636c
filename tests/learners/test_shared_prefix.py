"""Prompts that begin alike: their common part is computed once, and the answers are those of whole
prompts.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers
from tests.slow import slow_except
from torch import Tensor

from taskloom.learners.accelerated import greedy, llama, shared_prefix
from taskloom.learners.accelerated.greedy import GreedyDecoder
from taskloom.learners.accelerated.shared_prefix import (
    WholeLine,
    find_shared_prefix,
    has_whole_line,
)
from taskloom.learners.config import read
from taskloom.learners.pretrained import fitted as fitted_models
from taskloom.learners.pretrained.models import Base, words_tokeniser

WORDS = "grass sky snow coal blood"


@pytest.fixture(scope="module")
def writer() -> Any:
    """Build a small Llama with large random weights, so that what it writes depends on all that it
    reads.
    """
    sizes = {
        "state": 32,
        "layers": 2,
        "heads": 2,
        "feed_forward": 64,
        "dropout": 0.0,
        "longest": 128,
    }
    loop = {
        "batch": 4,
        "warmup": 0,
        "evaluate_every": 0,
        "longest_answer": 5,
        "steps": 1,
        "rate": 1e-3,
    }
    fitted: Any = read({"learner": "decoder", **sizes, **loop}).fit(
        [(WORDS, word) for word in WORDS.split()], seed=0
    )
    torch.manual_seed(0)
    for weight in fitted.base.model.parameters():
        if weight.dim() == 2:
            weight.data.normal_(0.0, 0.4)
    return fitted


def prompts(writer: Any) -> list[list[int]]:
    """Return inputs of several lengths after forty words that they share."""
    rng = random.Random(1)
    words = WORDS.split()
    head = rng.choices(words, k=40)
    sources: list[list[int]] = writer.read(
        [" ".join([*head, *rng.choices(words, k=k)]) for k in (1, 2, 5, 3, 9, 1)]
    )
    return sources


def test_answers_after_a_shared_prefix_are_those_of_whole_prompts(
    writer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = prompts(writer)
    shared = find_shared_prefix(writer.base, sources, writer.device)
    assert shared is not None
    assert len(shared.ids) >= 40
    answers = []
    for batch, own_pass in ((2, True), (6, True), (6, False)):
        monkeypatch.setattr(type(writer), "_answered_at_once", batch)
        monkeypatch.setattr(shared_prefix, "can_write", lambda _, own_pass=own_pass: own_pass)
        answers.append(writer.say(sources))
    monkeypatch.setattr(fitted_models, "find_shared_prefix", lambda *_: None)
    assert answers == [writer.say(sources)] * 3
    assert len(set(answers[0])) > 1


def test_states_of_a_prefix_are_the_librarys(writer: Any) -> None:
    ids = prompts(writer)[0]
    model = writer.base.model
    with torch.no_grad():
        cache = model.model(input_ids=torch.tensor([ids]), use_cache=True).past_key_values
        states = llama.prefix_states(model, ids)
    for layer, (keys, values) in zip(cache.layers, states, strict=True):
        assert torch.allclose(layer.keys, keys, atol=1e-4)
        assert torch.allclose(layer.values, values, atol=1e-4)


class Recordings:
    """Stands for CUDA graphs on a machine without them: a recorded step is computed again in the
    memory that it knows.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.replays = 0

    def __call__(self, step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        self.steps += 1
        result = step()  # a warm-up really takes a step

        def replay() -> Tensor:
            self.replays += 1
            return result.copy_(step())

        return replay


@pytest.fixture
def recordings(monkeypatch: pytest.MonkeyPatch) -> Recordings:
    recordings = Recordings()
    monkeypatch.setattr(greedy, "recorded", recordings)
    monkeypatch.setattr(greedy, "FIRST_RECORDED", 2)
    return recordings


WIDE = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 128,
}  # fmt: skip
GROUPED = {**WIDE, "num_key_value_heads": 2, "head_dim": 8}
NARROW = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 1e4, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
OWN: dict[str, tuple[str, dict[str, Any]]] = {
    "grouped": ("Llama", GROUPED),
    "tied": (
        "Llama",
        {**GROUPED, "num_key_value_heads": 1, "head_dim": 12, "tie_word_embeddings": True},
    ),
    "llama3": ("Llama", {**WIDE, "rope_parameters": LLAMA3}),
}
"""Models that our own pass writes with."""
SHARED: dict[str, tuple[str, dict[str, Any]]] = {
    "bias": ("Llama", {**WIDE, "attention_bias": True}),
    "bloom": ("Bloom", {"hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "cohere": ("Cohere", {**WIDE, "num_key_value_heads": 2}),
    "falcon": ("Falcon", {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}),
    "gemma": ("Gemma", GROUPED),
    "gpt2": ("GPT2", NARROW),
    "gpt_neox": ("GPTNeoX", WIDE),
    "gptj": ("GPTJ", {**NARROW, "rotary_dim": 8}),
    "granite": ("Granite", GROUPED),
    "mistral": ("Mistral", {**GROUPED, "sliding_window": None}),
    "olmo2": ("Olmo2", WIDE),
    "opt": ("OPT", {"ffn_dim": 48, "word_embed_proj_dim": 32, **WIDE}),
    "phi3": ("Phi3", GROUPED),
    "qwen2": ("Qwen2", GROUPED),
    "qwen3": ("Qwen3", GROUPED),
    "smollm3": ("SmolLM3", GROUPED),
}
"""Models of which the library writes after a shared prefix."""
WHOLE: dict[str, tuple[str, dict[str, Any]]] = {
    "sliding-window": ("Mistral", {**GROUPED, "sliding_window": 8}),
    "local": ("GPTNeo", {
        "hidden_size": 32, "num_layers": 2, "num_heads": 4, "max_position_embeddings": 128, "window_size": 8,
        "attention_types": [[["global", "local"], 1]],
    }),
    "longrope": ("Phi3", {**GROUPED, "rope_parameters": {
        "rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 4, "long_factor": [2.0] * 4,
        "original_max_position_embeddings": 34,
    }}),
}  # fmt: skip
"""Models that are given whole prompts."""
FORMS = OWN | SHARED | WHOLE


def small_model(kind: str, more: dict[str, Any], words: int) -> Any:
    """Build a small model with large random weights, so that what it writes depends on all that it
    reads.
    """
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=words, pad_token_id=0, eos_token_id=1, bos_token_id=None, **more
    )
    model = getattr(transformers, "GPT2LMHeadModel" if kind == "GPT2" else f"{kind}ForCausalLM")(
        config
    ).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.normal_(0.0, 0.4)
    return model


def test_every_architecture_that_shares_a_prefix_is_tested() -> None:
    assert {name for name in SHARED if name != "bias"} | {"llama"} == shared_prefix.SHARING


@pytest.mark.parametrize(
    "form",
    slow_except(
        FORMS, "grouped", "tied", "llama3", "gpt2", "qwen2", "sliding-window", "local", "longrope"
    ),
)
def test_answers_are_those_of_generate_alone_for_other_forms(
    form: str, recordings: Recordings, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokeniser = words_tokeniser([WORDS])
    model = small_model(*FORMS[form], len(tokeniser))
    kept = kept_writer(Base("small", "decoder", model, tokeniser), monkeypatch)
    rng = random.Random(2)
    head = rng.choices(WORDS.split(), k=30)
    sources = kept.read(
        [" ".join([*head, *rng.choices(WORDS.split(), k=k)]) for k in (1, 2, 5, 3, 9, 1, 4)]
    )
    alone = [alone_by_library(model, tokeniser, source) for source in sources]
    assert kept.say(sources) == alone
    assert kept.say(sources) == alone, "with what is kept"
    assert len(set(alone)) > 1
    assert (
        (kept._kept_prefix is not None)
        == (form not in WHOLE)
        == shared_prefix.can_share(model.config)
    )
    assert (recordings.replays > 0) == (form in OWN) == greedy.can_write(model)


def test_of_tokens_that_are_equally_likely_the_one_that_generate_takes_is_written(
    recordings: Recordings, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokeniser = words_tokeniser([WORDS])
    model = small_model(*FORMS["grouped"], len(tokeniser))
    half = len(tokeniser) // 2 + 1  # every word of the second half is as likely as one of the first
    with torch.no_grad():
        weight = model.get_output_embeddings().weight
        weight[half:] = weight[1 : 1 + len(tokeniser) - half]
    kept = kept_writer(Base("small", "decoder", model, tokeniser), monkeypatch)
    sources = kept.read([f"{' '.join([WORDS] * 4)} {word}" for word in WORDS.split()])
    alone = [alone_by_library(model, tokeniser, source) for source in sources]
    assert kept.say(sources) == kept.say(sources) == alone


def kept_writer(base: Base, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a writer that keeps prefixes and records its steps, as on a GPU."""
    find = partial(shared_prefix.find_shared_prefix, graphs=True)
    monkeypatch.setattr(fitted_models, "find_shared_prefix", lambda *given: find(*given[:4]))
    return fitted_models.FittedLanguageModel(
        SimpleNamespace(longest_answer=7, join=""), base, batch=6, keeps_prefix=True
    )


def alone_by_library(model: Any, tokeniser: Any, source: list[int]) -> str:
    """Return what the library writes after one whole prompt, without padding."""
    ids = torch.tensor([source])
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=7, do_sample=False
    )
    text: str = tokeniser.decode(out[0, len(source) :], skip_special_tokens=True)
    return text


def test_inputs_that_do_not_begin_alike_share_nothing(writer: Any) -> None:
    sources = prompts(writer)
    assert find_shared_prefix(writer.base, sources[:1], writer.device) is None
    assert find_shared_prefix(writer.base, [*sources, sources[0][1:]], writer.device) is None
    same = find_shared_prefix(writer.base, [sources[0], sources[0]], writer.device)
    assert same is not None
    assert (
        len(same.ids) == len(sources[0]) - 1
    )  # the last token is each row's own: something has to be computed
    assert shared_prefix.LEAST > 1


@pytest.mark.parametrize("own_pass", [True, False])
def test_writing_ends_with_the_first_line(
    writer: Any, monkeypatch: pytest.MonkeyPatch, own_pass: bool
) -> None:
    steps: list[int] = []

    def decoded(rows: Any, **_: Any) -> list[str]:
        steps.append(len(rows[0]))
        return ["one\n" if len(row) >= 2 else " " for row in rows]

    monkeypatch.setattr(shared_prefix, "can_write", lambda _: own_pass)
    monkeypatch.setattr(writer.base.tokeniser, "batch_decode", decoded)
    monkeypatch.setattr(shared_prefix.WholeLine, "_may_break", lambda *_: True)
    monkeypatch.setattr(type(writer), "_answered_at_once", 6)
    writer.say(prompts(writer), first_line=True)
    assert max(steps) == 2


def rests_after(writer: Any) -> tuple[list[Any], list[list[int]]]:
    """Return the states of the shared prefix, and what comes after it in each row."""
    sources = prompts(writer)
    shared = find_shared_prefix(writer.base, sources, writer.device)
    assert shared is not None
    return shared.states, [source[len(shared.ids) :] for source in sources]


def test_a_row_that_is_done_is_left_out_of_the_next_steps(writer: Any) -> None:
    states, rests = rests_after(writer)
    asked: list[int] = []

    def finished(rows: Sequence[list[int]]) -> list[bool]:
        asked.append(len(rows))
        return [row[0] % 2 == 0 or len(row) == 3 for row in rows]

    greedy_writer = GreedyDecoder(writer.base.model, states)
    with torch.no_grad():
        whole = greedy_writer.write(rests, 3, lambda rows: [False] * len(rows))
        some = greedy_writer.write(rests, 3, finished)
        alone = [greedy_writer.write([rest], 3, lambda rows: [False])[0] for rest in rests]
    assert whole == alone
    assert some == [row[:1] if row[0] % 2 == 0 else row for row in whole]
    odd = sum(row[0] % 2 for row in whole)
    assert 0 < odd < len(whole), "some end early and some do not"
    assert asked == [len(whole), odd, odd]


def test_recorded_steps_write_what_others_do_and_are_kept(
    writer: Any, recordings: Recordings
) -> None:
    states, rests = rests_after(writer)
    plain, recorded = (GreedyDecoder(writer.base.model, states, graphs) for graphs in (False, True))

    def finished(rows: Sequence[list[int]]) -> list[bool]:
        return [row[-1] % 3 == 0 for row in rows]

    with torch.no_grad():
        for some in (rests, rests[2:], rests[:1], list(reversed(rests))):
            assert recorded.write(some, 5, finished) == plain.write(some, 5, finished)
        assert recordings.steps == 1, "up to eight rows are one step"
        replays = recordings.replays
        many = rests * 3
        assert recorded.write(many, 5, finished) == plain.write(many, 5, finished)
        assert recorded.recorded_rows == [8, 32]
        assert recordings.replays > replays
        assert recorded.write(rests, 40, finished) == plain.write(rests, 40, finished)
        assert recordings.steps == 3, "more tokens need more room"


def test_a_step_is_recorded_when_that_has_paid(
    writer: Any, recordings: Recordings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(greedy, "recorded", recordings)
    states, rests = rests_after(writer)
    recorded = GreedyDecoder(writer.base.model, states, True)
    with torch.no_grad():
        for calls, steps in ((1, 0), (2, 1), (3, 1)):
            recorded.write(rests, 5, lambda rows: [False] * len(rows))  # four steps
            assert recordings.steps == steps, calls
    assert recordings.replays == 5, "the eighth step and those of the third call"


def test_few_rows_that_are_left_move_to_a_smaller_recorded_step(
    writer: Any, recordings: Recordings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(greedy, "FEWEST_MOVED", 8)
    states, rests = rests_after(writer)
    plain, recorded = (GreedyDecoder(writer.base.model, states, graphs) for graphs in (False, True))
    many = [*rests * 4, rests[4][:3]]
    with torch.no_grad():
        whole = plain.write(many, 6, lambda rows: [False] * len(rows))
        ends = [6 if n in (3, 11, 24) else 3 for n in range(len(many))]

        def finished(rows: Sequence[list[int]]) -> list[bool]:
            return [
                len(rows) > 3 and len(row) == 3 and n not in (3, 11, 24)
                for n, row in enumerate(rows)
            ]

        assert recorded.write(many, 6, finished) == [
            row[:n] for row, n in zip(whole, ends, strict=True)
        ]
    assert recordings.steps == 2, "32 rows, then eight"


def test_a_step_that_cannot_be_recorded_is_taken_all_the_same(
    writer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(step: Any) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing")

    states, rests = rests_after(writer)
    with torch.no_grad():
        whole = GreedyDecoder(writer.base.model, states).write(
            rests, 5, lambda rows: [False] * len(rows)
        )
        monkeypatch.setattr(greedy, "recorded", fail)
        monkeypatch.setattr(greedy, "FIRST_RECORDED", 2)
        recorded = GreedyDecoder(writer.base.model, states, True)
        assert recorded.write(rests, 5, lambda rows: [False] * len(rows)) == whole
        assert recorded.failure == "operation not permitted when stream is capturing"
        assert not recorded.recorded_rows
        monkeypatch.setattr(greedy, "recorded", lambda _: pytest.fail("tried again"))
        assert recorded.write(rests, 5, lambda rows: [False] * len(rows)) == whole


def test_the_prefix_of_earlier_inputs_is_kept_where_the_next_begin_with_it(writer: Any) -> None:
    sources = prompts(writer)
    kept = find_shared_prefix(writer.base, sources, writer.device)
    assert kept is not None

    def find(rows: list[list[int]]) -> Any:
        return find_shared_prefix(writer.base, rows, writer.device, kept)

    assert find(sources[2:]) is kept
    assert find(sources[:1]) is kept, "one input alone as well"
    longer = [[*sources[4], *sources[4][: n + shared_prefix.LEAST]] for n in (2, 3)]
    assert len(find(longer).ids) > len(kept.ids)
    shorter = find([sources[0], [*sources[0][:30], *reversed(sources[0][30:])]])
    assert 30 <= len(shorter.ids) < len(kept.ids)
    computed = find_shared_prefix(writer.base, [[*shorter.ids, n] for n in (4, 5)], writer.device)
    assert computed is not None
    for (keys, values), (more_keys, more_values) in zip(
        computed.states, shorter.states, strict=True
    ):
        assert torch.allclose(keys, more_keys, atol=1e-4)
        assert torch.allclose(values, more_values, atol=1e-4)
    other = [sources[0][1:], sources[1][1:]]
    assert find(other).ids[: len(kept.ids) - 1] == kept.ids[1:], (
        "other inputs have a prefix of their own"
    )


def test_a_kept_prefix_is_computed_anew_when_the_weights_have_changed(writer: Any) -> None:
    sources = prompts(writer)
    kept = find_shared_prefix(writer.base, sources, writer.device)
    with torch.no_grad():
        next(writer.base.model.parameters()).mul_(1.0)
    assert find_shared_prefix(writer.base, sources, writer.device, kept) is not kept


def test_one_call_after_another_answers_as_a_new_learner_does(
    writer: Any, recordings: Recordings, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = prompts(writer)
    whole = writer.say(sources)
    fresh = fitted_models.FittedLanguageModel(
        writer.learner, writer.base, batch=6, keeps_prefix=True
    )
    find = partial(shared_prefix.find_shared_prefix, graphs=True)
    monkeypatch.setattr(fitted_models, "find_shared_prefix", lambda *given: find(*given[:4]))
    passes: list[int] = []

    def prefix_states(model: Any, ids: list[int]) -> Any:
        passes.append(len(ids))
        return llama.prefix_states(model, ids)

    monkeypatch.setattr(shared_prefix, "prefix_states", prefix_states)
    for rows in (slice(None), slice(2, None), slice(0, 1), slice(None)):
        assert fresh.say(sources[rows]) == whole[rows]
    assert len(passes) == 1, "the prefix is read once"
    fresh.forget_prefix()
    assert fresh.say(sources) == whole
    assert len(passes) == 2
    assert fresh.say([]) == []


def test_losses_after_a_shared_prefix_are_those_of_whole_prompts(writer: Any) -> None:
    sources = prompts(writer)
    targets = [sources[4][n : n + 1 + n % 3] for n in range(len(sources))]
    whole = writer.losses(sources, targets)
    kept = fitted_models.FittedLanguageModel(
        writer.learner, writer.base, batch=4, keeps_prefix=True
    )
    for _ in range(2):
        sums, counts = kept.losses(sources, targets)
        assert sums == pytest.approx(whole[0], rel=1e-4)
        assert counts == whole[1]
    one = kept.losses([sources[4]] * 2, targets[:2])  # candidates of one input
    assert one[0] == pytest.approx(writer.losses([sources[4]] * 2, targets[:2])[0], rel=1e-4)
    assert kept.say(sources) == writer.say(sources)
    assert kept.losses([], []) == ([], [])


def test_many_rows_are_written_in_parts(writer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = prompts(writer)
    targets = [sources[4][n : n + 1 + n % 3] for n in range(len(sources))]
    kept = fitted_models.FittedLanguageModel(
        writer.learner, writer.base, batch=6, keeps_prefix=True
    )
    whole, losses = writer.say(sources), kept.losses(sources, targets)
    rows: set[int] = set()
    read = GreedyDecoder._read

    def counted(self: GreedyDecoder, block: Any, *given: Any) -> Tensor:
        rows.add(block.rows)
        return read(self, block, *given)

    monkeypatch.setattr(greedy, "MOST_SCORES", 1)
    monkeypatch.setattr(GreedyDecoder, "_read", counted)
    assert writer.say(sources) == whole
    sums, counts = kept.losses(sources, targets)
    assert sums == pytest.approx(losses[0], rel=1e-4)
    assert counts == losses[1]
    assert rows == {1}


def test_a_model_that_would_not_write_the_likeliest_token_is_left_to_the_library(
    writer: Any,
) -> None:
    model = writer.base.model
    assert greedy.can_write(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model.generation_config, "repetition_penalty", 1.2)
        assert not greedy.can_write(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            model.model.rotary_emb, "rope_type", "longrope"
        )  # whose angles change with the length
        assert not greedy.can_write(model)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", False),
        ("one", False),
        ("\n one", False),
        ("one\n", True),
        ("\n\n one\r\ntwo", True),
        ("<think>one\ntwo", False),
        ("<think>one\n</think>\ntwo", False),
        ("<think>one\n</think>\ntwo\n", True),
    ],
)
def test_a_line_is_whole_when_it_has_ended(text: str, whole: bool) -> None:
    assert has_whole_line(text) == whole


def test_a_row_is_decoded_only_where_its_last_token_may_break_a_line() -> None:
    texts = {0: "one", 1: "\n", 2: " two", 3: "\ufffd", 4: "three\nfour"}
    decoded: list[list[int]] = []

    class Tokens:
        def decode(self, ids: list[int], **_: Any) -> str:
            return "".join(texts[i] for i in ids)

        def batch_decode(self, rows: list[list[int]], **_: Any) -> list[str]:
            decoded.extend(rows)
            return [self.decode(row) for row in rows]

    rows = [[0], [1], [0, 1], [1, 2], [0, 3], [4], [1, 2, 1]]
    assert WholeLine(Tokens())(rows) == [has_whole_line(Tokens().decode(row)) for row in rows]
    assert decoded == [[1], [0, 1], [0, 3], [4], [1, 2, 1]]


@pytest.mark.parametrize("shares", [False, True])
def test_answers_written_in_stages_are_those_written_at_once(
    writer: Any, monkeypatch: pytest.MonkeyPatch, shares: bool
) -> None:
    sources = prompts(writer)
    whole = writer.say(sources)
    if shares:
        monkeypatch.setattr(shared_prefix, "can_write", lambda _: False)
    else:
        monkeypatch.setattr(fitted_models, "find_shared_prefix", lambda *_: None)
    monkeypatch.setattr(type(writer), "_stages", [2, 3, 5])
    assert writer.say(sources) == whole


def test_an_answer_that_is_done_is_left_out_of_the_next_stage(
    writer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitted_models, "find_shared_prefix", lambda *_: None)
    sources = prompts(writer)
    answers = [sources[0][:n] for n in (1, 2, 5, 0, 3, 4)]
    sizes: list[int] = []

    def generate(
        self: Any, ids: torch.Tensor, mask: torch.Tensor, *given: Any, **_: Any
    ) -> list[list[int]]:
        """Give the next tokens of each row's answer; fewer than may be written where it is done."""
        sizes.append(len(ids))
        rows = [row[m == 1].tolist() for row, m in zip(ids, mask, strict=True)]
        which = [
            next(
                i
                for i, s in enumerate(sources)
                if row[: len(s)] == s and _goes_on(row, s, answers[i])
            )
            for row in rows
        ]
        so_far = [len(row) - len(sources[i]) for row, i in zip(rows, which, strict=True)]
        return [answers[i][n : n + given[2]] for i, n in zip(which, so_far, strict=True)]

    monkeypatch.setattr(type(writer), "_generate", generate)
    monkeypatch.setattr(type(writer), "_answered_at_once", 6)
    monkeypatch.setattr(type(writer), "_stages", [2, 4, 5])
    assert writer.say(sources) == [writer.base.tokeniser.decode(answer) for answer in answers]
    assert sizes == [6, 4, 2]


def _goes_on(row: list[int], source: list[int], answer: list[int]) -> bool:
    return row[len(source) :] == answer[: len(row) - len(source)]
