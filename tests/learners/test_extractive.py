"""Encoders that point at the answer: tiny RoBERTa and BERT models made here, adapted, resumed,
saved.
"""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.slow import slow_except  # noqa: E402

from taskloom.core.example import Example  # noqa: E402
from taskloom.learners import LearnerError, Paused, load  # noqa: E402
from taskloom.learners.config import read  # noqa: E402
from taskloom.learners.pretrained.forward import point  # noqa: E402
from taskloom.learners.pretrained.models import open_base  # noqa: E402
from taskloom.learners.pretrained.span_head import read_passage, read_passages  # noqa: E402

PLACES = ("old park", "kitchen", "schoolyard")
QUICK: dict[str, Any] = {"batch": 24, "warmup": 0, "evaluate_every": 0, "precision": "fp32"}


def tales() -> list[Example]:
    found = []
    for first, second in product(PLACES, repeat=2):
        begun = f"Mary went to the {first}. John moved to the {second}."
        found.append(Example(f"{begun} Where is Mary?", first, {"support_lines": "1"}))
        found.append(Example(f"{begun} Where is John?", second, {"support_lines": "2"}))
    return found


def tokeniser(kind: str) -> Any:
    """Words, of which some fall into pieces (school ##yard), between marks as the architecture has
    them.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    texts = [e.input for e in tales()]
    cut = pre_tokenizers.BertPreTokenizer()
    words = sorted({w for text in texts for w, _ in cut.pre_tokenize_str(text)} - {"schoolyard"})
    names = ["<s>", "<pad>", "</s>", "<unk>", *words, "school", "##yard"]
    inner = Tokenizer(models.WordPiece({w: i for i, w in enumerate(names)}, unk_token="<unk>"))
    inner.pre_tokenizer = cut
    pair = "<s> $A </s> </s> $B </s>" if kind == "roberta" else "<s>:0 $A:0 </s>:0 $B:1 </s>:1"
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair=pair, special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    marks = {"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    reads = ["input_ids", "attention_mask", *([] if kind == "roberta" else ["token_type_ids"])]
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, **marks, model_input_names=reads
    )
    made.model_max_length = 60
    return made


def save_tiny_encoder(kind: str, where: Path) -> None:
    """Save an encoder without an output map for spans, as hubs have them."""
    made = tokeniser(kind)
    sizes = {
        "vocab_size": len(made), "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 64, "max_position_embeddings": 64, "pad_token_id": 1, "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }  # fmt: skip
    torch.manual_seed(0)
    if kind == "roberta":
        model = transformers.RobertaForMaskedLM(
            transformers.RobertaConfig(**sizes, type_vocab_size=1)
        )
    else:
        model = transformers.BertForMaskedLM(transformers.BertConfig(**sizes))
    model.save_pretrained(where)
    made.save_pretrained(where)


@pytest.fixture(scope="module", params=["roberta", "bert"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    where: Path = tmp_path_factory.mktemp("encoder") / request.param
    save_tiny_encoder(request.param, where)
    return where


def small(folder: Path, **more: Any) -> Any:
    return read({"learner": "extractive", "model": str(folder), **QUICK, **more})


def test_passages_and_their_spans(folder: Path) -> None:
    base = open_base(str(folder), pointer=True)
    context = "Mary went to the schoolyard."
    ids, positions, offsets = read_passage(base, context, "Where is Mary?")
    assert [context[a:b] for a, b in offsets] == [
        "Mary",
        "went",
        "to",
        "the",
        "school",
        "yard",
        ".",
    ]
    assert [ids[p] for p in positions] == base.tokeniser.convert_tokens_to_ids(
        ["Mary", "went", "to", "the", "school", "##yard", "."]
    )
    rows = read_passages(
        base, [Example(f"{context} Where is Mary?", "schoolyard"), Example("Mary. Is it?", "yes")]
    )
    assert rows.targets == [[[positions[4], positions[5]]], [[-100, -100]]]


def test_the_pass_is_the_model_s_own(folder: Path) -> None:
    base = open_base(str(folder), pointer=True)
    made = base.tokeniser("Where is Mary?", "Mary went to the kitchen.", return_tensors="pt")
    expected = base.model(**made)
    first, last, layers = point(base, made["input_ids"], made["attention_mask"], states=True)
    inside = [i for i, part in enumerate(made.sequence_ids()) if part == 1]
    outside = [i for i in range(first.shape[1]) if i not in inside]
    for ours, theirs in ((first, expected.start_logits), (last, expected.end_logits)):
        assert torch.allclose(ours[0, inside], theirs[0, inside], atol=1e-6)
        assert bool(torch.isinf(ours[0, outside]).all())
    assert len(layers) == 3


@pytest.mark.parametrize("folder", slow_except(["roberta", "bert"], "bert"), indirect=True)
def test_fits_a_tiny_task_and_is_saved(folder: Path, tmp_path: Path) -> None:
    data = tales()
    fitted = small(folder, steps=110, rate=5e-3).fit(data, {"again": data}, seed=0)
    inputs = [e.input for e in data]
    assert fitted.answer(inputs) == [e.target for e in data]
    assert fitted.curve[-1].score == 1.0
    wanted = [[*PLACES, "moon", "the kitchen"]] * len(inputs)
    weighed = fitted.logprob(inputs, wanted)
    assert all(
        math.exp(row[PLACES.index(e.target)]) > 0.5 for row, e in zip(weighed, data, strict=True)
    )
    assert all(row[3] == -math.inf for row in weighed)
    fitted.save(tmp_path)
    again: Any = load(tmp_path)
    assert again.answer(inputs) == fitted.answer(inputs)
    assert np.allclose(
        again.logprob(inputs[:4], [PLACES[:1]] * 4), fitted.logprob(inputs[:4], [PLACES[:1]] * 4)
    )
    assert np.allclose(again.represent(inputs), fitted.represent(inputs), atol=1e-5)
    assert again.represent(inputs, "layer.1").shape == (len(inputs), 32)
    with pytest.raises(LearnerError, match=r"no state 'layer\.9'"):
        again.represent(inputs, "layer.9")
    long = ["Mary. Where is Mary?", *inputs]
    states = []
    for batch in (1, 3, 64):
        again.batch = batch
        states.append((again.answer(long), again.represent(long)))
    for said, seen in states[1:]:
        assert said == states[0][0]
        assert np.allclose(seen, states[0][1], atol=1e-5)


def test_resumed_equals_uninterrupted(folder: Path, tmp_path: Path) -> None:
    data = tales()
    learner = small(folder, steps=4, batch=4, rate=1e-3, evaluate_every=2, patience=3)
    whole = learner.fit(data, {"dev": data}, seed=1)
    for _ in range(2):
        with pytest.raises(Paused):
            learner.fit(data, {"dev": data}, seed=1, folder=tmp_path, seconds=0.0)
    resumed = learner.fit(data, {"dev": data}, seed=1, folder=tmp_path)
    assert resumed.curve == whole.curve
    inputs = [e.input for e in data]
    assert resumed.logprob(inputs, [PLACES] * len(inputs)) == whole.logprob(
        inputs, [PLACES] * len(inputs)
    )


def test_what_cannot_be_pointed_at_is_said(folder: Path) -> None:
    with pytest.raises(LearnerError, match=r"extractive can only point.*1 of 19 training"):
        small(folder, steps=1).fit([*tales(), Example("Mary left. Did Mary leave?", "yes")])
    with pytest.warns(UserWarning, match="1 of 19"):
        small(folder, steps=1, without_span="skip").fit(
            [*tales(), Example("Mary left. Did she?", "yes")]
        )
    with pytest.raises(LearnerError, match=r"needs \d+ tokens and '.*' reads at most 60"):
        small(folder, steps=1).fit([Example("Mary went. " * 30 + "Where is Mary?", "Mary")])
    base = open_base(str(folder), pointer=True)
    assert base.longest == 60
    base.tokeniser.model_max_length = int(1e30)
    assert base.longest == (62 if "roberta" in str(folder) else 64)


@pytest.mark.parametrize(("cut", "kept"), [("start", "schoolyard"), ("end", "old park")])
def test_long_texts_are_cut_at_the_chosen_end(folder: Path, cut: Any, kept: str) -> None:
    base = open_base(str(folder), pointer=True)
    context = "Mary went to the old park. John moved to the schoolyard."
    whole = read_passage(base, context, "Where is Mary?")
    ids, positions, offsets = read_passage(base, context, "Where is Mary?", 14, cut)
    assert len(ids) == 14 < len(whole[0])
    # What is left are the ids of the same words as in the whole text.
    by_offset = {offset: whole[0][p] for p, offset in zip(whole[1], whole[2], strict=True)}
    assert [ids[p] for p in positions] == [by_offset[offset] for offset in offsets]
    assert kept in context[offsets[0][0] : offsets[-1][1]]
    with pytest.raises(LearnerError, match="longest_input is 5"):
        read_passage(base, context, "Where is Mary?", 5, cut)


def test_an_answer_that_is_cut_off_is_no_target(folder: Path) -> None:
    base = open_base(str(folder), pointer=True)
    asked = [
        Example("Mary went to the old park. John moved to the kitchen. Where is Mary?", "old park")
    ]
    with pytest.warns(UserWarning, match="1 of 1 inputs"):
        assert read_passages(base, asked, 14, "start").targets == [[[-100, -100]]]
    whole = read_passages(base, asked).targets
    with pytest.warns(UserWarning, match="1 of 1 inputs"):
        assert read_passages(base, asked, 14, "end").targets == whole


def test_a_long_text_is_learned_and_answered_cut(folder: Path) -> None:
    long = Example(
        "John moved to the kitchen. " * 20 + "Mary went to the old park. Where is Mary?", "old park"
    )
    with pytest.warns(UserWarning, match="1 of 19 inputs"):
        fitted = small(folder, steps=2, longest_input=40, cut="start").fit([*tales(), long])
    assert fitted.answer([long.input])[0] in long.input
