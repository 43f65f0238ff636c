"""Learners that write text: they learn, share prompts' states rightly, train many tasks at once,
resume, and are saved.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from tests.slow import slow_except  # noqa: E402
from tokenizers import decoders  # noqa: E402
from transformers import BartConfig, BartForConditionalGeneration  # noqa: E402

from taskloom.core.errors import InputError  # noqa: E402
from taskloom.core.example import Example  # noqa: E402
from taskloom.core.seeding import Key  # noqa: E402
from taskloom.learners import LearnerError, Paused, load  # noqa: E402
from taskloom.learners.config import read  # noqa: E402
from taskloom.learners.pretrained.encoding import draw_targets, read_rows  # noqa: E402
from taskloom.learners.pretrained.forward import collate, losses, with_prompts  # noqa: E402
from taskloom.learners.pretrained.models import (  # noqa: E402
    Sizes,
    bytes_tokeniser,
    check_answers,
    decode,
    from_scratch,
    open_base,
    words_tokeniser,
)

COLOURS = [
    ("grass", "green"),
    ("sky", "blue"),
    ("snow", "white"),
    ("coal", "black"),
    ("blood", "red"),
    ("sun", "yellow"),
]
TINY = Sizes(state=32, layers=2, heads=2, feed_forward=64, dropout=0.0, longest=64)
SMALL: dict[str, Any] = {
    "state": 8,
    "layers": 1,
    "heads": 2,
    "feed_forward": 8,
    "batch": 2,
    "evaluate_every": 0,
}
QUICK: dict[str, Any] = {
    "batch": 6,
    "warmup": 0,
    "evaluate_every": 0,
    "longest_answer": 4,
    "precision": "fp32",
}


ARCHITECTURES = ["decoder", "encoder-decoder"]


@pytest.fixture(scope="module", params=ARCHITECTURES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny 'pretrained' model of each architecture, as a local folder."""
    texts = [t for pair in COLOURS for t in pair] + [" |", "a b c d e 0 1 2 3"]
    base = from_scratch(request.param, texts, TINY, "words", seed=1)
    where: Path = tmp_path_factory.mktemp("base") / request.param
    base.model.save_pretrained(where)
    base.tokeniser.save_pretrained(where)
    return where


@pytest.mark.parametrize(("kind", "tokens"), [("encoder-decoder", "words"), ("decoder", "bytes")])
def test_from_scratch_fits_a_tiny_task(kind: str, tokens: str) -> None:
    small = {
        "state": 32,
        "layers": 2,
        "heads": 2,
        "feed_forward": 64,
        "dropout": 0.0,
        "tokens": tokens,
    }
    learner = read(
        {"learner": kind, **small, **QUICK, "steps": 45, "rate": 1e-2, "longest_answer": 8}
    )
    fitted = learner.fit(COLOURS, {"again": COLOURS}, seed=0)
    assert fitted.answer([x for x, _ in COLOURS]) == [y for _, y in COLOURS]
    assert fitted.curve[-1].split == "again"
    assert fitted.curve[-1].score == 1.0


@pytest.mark.parametrize(
    ("folder", "name", "steps", "rate"),
    [
        ("encoder-decoder", "fine-tune", 40, 1e-2),
        ("decoder", "lora", 60, 5e-3),
        *slow_except([("decoder", "fine-tune", 40, 1e-2), ("encoder-decoder", "lora", 60, 5e-3)]),
    ],
    indirect=["folder"],
)
def test_adapting_fits_a_tiny_task(
    folder: Path, name: str, steps: int, rate: float, tmp_path: Path
) -> None:
    fitted = read(
        {"learner": name, "model": str(folder), **QUICK, "steps": steps, "rate": rate}
    ).fit(COLOURS, seed=0)
    inputs = [x for x, _ in COLOURS]
    assert fitted.answer(inputs) == [y for _, y in COLOURS]
    fitted.save(tmp_path)
    again = load(tmp_path)
    assert again.answer(inputs) == fitted.answer(inputs)
    wanted = [["green", "blue"]] * len(inputs)
    assert np.allclose(again.logprob(inputs, wanted), fitted.logprob(inputs, wanted), atol=1e-5)
    assert np.allclose(again.represent(inputs), fitted.represent(inputs), atol=1e-5)


@pytest.mark.parametrize("folder", slow_except(ARCHITECTURES, "decoder"), indirect=True)
def test_prompt_tuning_trains_all_vectors_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    learner: Any = read(
        {"learner": "prompt-tune", "model": str(folder), "n": 7, **QUICK, "steps": 40, "rate": 0.1}
    )
    before = open_base(str(folder))
    start = learner.prepare(before, 1, 0)[0]["prompts"].detach()[0]
    fitted = learner.fit(COLOURS, {"again": COLOURS}, seed=0)
    assert fitted.prompt.shape == (7, 32)
    assert bool(((fitted.prompt.cpu() - start).abs().max(1).values > 1e-3).all())
    assert len({tuple(row.tolist()) for row in start}) == 7  # different rows of the vocabulary
    for name, weight in before.model.state_dict().items():
        assert bool((fitted.base.model.state_dict()[name].cpu() == weight).all())
    untrained = read(
        {"learner": "prompt-tune", "model": str(folder), "n": 7, **QUICK, "steps": 1, "rate": 1e-9}
    )
    losses = [
        f.curve[-1].loss for f in (fitted, untrained.fit(COLOURS, {"again": COLOURS}, seed=0))
    ]
    # A frozen random model can be steered a little by its prompt, and only a little.
    assert losses[0] < losses[1] - 0.1
    fitted.save(tmp_path)
    again: Any = load(tmp_path)
    assert bool((again.prompt == fitted.prompt).all())
    assert again.answer(["sky", "snow"]) == fitted.answer(["sky", "snow"])


def test_shared_prompt_states_equal_whole_sequences(folder: Path) -> None:
    """The prompt run once per task, against every example with its prompt written out before it;
    values and gradients.
    """
    base = open_base(str(folder))
    sources = [[3, 4, 5], [6, 7], [8, 3, 4, 5], [9]]
    targets = [[5, 1], [6, 7, 1], [3, 1], [4, 1]]
    tasks = torch.tensor([0, 1, 1, 0])
    batch = collate(base, sources, targets)
    prompts = torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(0)).requires_grad_()
    shared, counts, _ = losses(base, batch, prompts, tasks)
    (gradient,) = torch.autograd.grad(shared.sum(), prompts)
    if base.kind == "decoder":
        vectors, mask = with_prompts(base, batch.ids, batch.mask, prompts, tasks)
        said = base.model(inputs_embeds=vectors, attention_mask=mask).logits.log_softmax(-1)
        rows = enumerate(zip(sources, targets, strict=True))
        whole = torch.stack(
            [-sum(said[i, 4 + len(s) + k, t] for k, t in enumerate(ts)) for i, (s, ts) in rows]
        )
    else:
        each = zip(sources, targets, tasks.tolist(), strict=True)
        whole = torch.cat(
            [losses(base, collate(base, [s], [t]), prompts[k : k + 1])[0] for s, t, k in each]
        )
    (expected,) = torch.autograd.grad(whole.sum(), prompts)
    assert counts.tolist() == [2, 3, 2, 2]
    assert torch.allclose(shared, whole, atol=1e-5)
    assert torch.allclose(gradient, expected, atol=1e-5)


TASKS = {
    "colours": COLOURS,
    "swapped": [(y, x) for x, y in COLOURS[:4]],
    "letters": [("a b", "c"), ("b", "d"), ("c", "e")],
}


@pytest.mark.parametrize(
    ("folder", "name", "batch"),
    slow_except(
        product(ARCHITECTURES, ["prompt-tune", "lora"], [3, 4]),
        ("encoder-decoder", "prompt-tune", 4),
        ("decoder", "lora", 3),
    ),
    indirect=["folder"],
)
def test_many_tasks_at_once_equal_each_alone(
    folder: Path, name: str, batch: int, tmp_path: Path
) -> None:
    more = {"n": 4} if name == "prompt-tune" else {"rank": 3}
    """With 3 rows of every task in a batch, and with uneven batches: the third task has only 3
    examples.
    """
    loop = {
        "batch": batch,
        "steps": 4,
        "rate": 0.02,
        "clip": 0.5,
        "evaluate_every": 2,
        "patience": 9,
    }
    learner: Any = read({"learner": name, "model": str(folder), **more, **QUICK, **loop})
    together = learner.fit_tasks(TASKS, {"dev": TASKS}, seed=2)
    assert set(together) == set(TASKS)
    for task, data in TASKS.items():
        alone = learner.fit(data, {"dev": data}, seed=2)
        inputs = [x for x, _ in data]
        wanted = [[y for _, y in data]] * len(inputs)
        for one, other in zip(together[task].curve, alone.curve, strict=True):
            assert one.loss == pytest.approx(other.loss, abs=1e-3)
        assert np.allclose(
            together[task].logprob(inputs, wanted), alone.logprob(inputs, wanted), atol=5e-3
        )
        together[task].save(tmp_path / task)
    inputs_of = {task: [x for x, _ in data] for task, data in TASKS.items()}
    answers = {task: together[task].answer(inputs) for task, inputs in inputs_of.items()}
    assert learner.answer_tasks(together, inputs_of) == answers
    some = {
        "letters": ["b", "a b"],
        "colours": [],
    }  # in another order, without a task, and one without inputs
    assert learner.answer_tasks(together, some) == {
        "letters": answers["letters"][1::-1],
        "colours": [],
    }
    for task, data in list(TASKS.items())[1:]:
        again: Any = load(tmp_path / task)  # saved as if it had been trained alone
        inputs = [x for x, _ in data]
        assert again.answer(inputs) == together[task].answer(inputs)
        found = again.logprob(inputs, [["green", "c"]] * len(inputs))
        assert np.allclose(
            found, together[task].logprob(inputs, [["green", "c"]] * len(inputs)), atol=1e-4
        )
        assert np.allclose(again.represent(inputs), together[task].represent(inputs), atol=1e-4)
    with pytest.raises(LearnerError, match="lacks the task 'swapped'"):
        learner.fit_tasks(TASKS, {"dev": {"colours": COLOURS, "letters": COLOURS}})


@pytest.mark.parametrize(
    ("folder", "name"),
    slow_except(
        product(ARCHITECTURES, ["prompt-tune", "lora"]),
        ("encoder-decoder", "prompt-tune"),
        ("decoder", "lora"),
    ),
    indirect=["folder"],
)
def test_many_tasks_resume_and_are_halved(
    folder: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted twice, and with batches in parts as when memory is short: the same results."""
    from taskloom.learners.pretrained import trainer

    more = {"n": 4} if name == "prompt-tune" else {"rank": 3}
    learner: Any = read(
        {
            "learner": name,
            "model": str(folder),
            **more,
            **QUICK,
            "batch": 3,
            "steps": 4,
            "rate": 0.02,
        }
    )
    whole = learner.fit_tasks(TASKS, seed=2)
    for _ in range(2):
        with pytest.raises(Paused):
            learner.fit_tasks(TASKS, seed=2, folder=tmp_path, seconds=0.0)
    resumed = learner.fit_tasks(TASKS, seed=2, folder=tmp_path)
    calls = 0

    def short_of_memory(base: Any, batch: Any, *rest: Any) -> Any:
        nonlocal calls
        calls += 1
        if len(batch.ids) > 5:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return losses(base, batch, *rest)

    monkeypatch.setattr(trainer, "losses", short_of_memory)
    with pytest.warns(UserWarning, match="2 parts"):
        halved = learner.fit_tasks(TASKS, seed=2)
    assert calls == 1 + 2 * 4
    for task, data in TASKS.items():
        inputs = [x for x, _ in data]
        wanted = [["green", "c", "sky"]] * len(inputs)
        expected = whole[task].logprob(inputs, wanted)
        assert resumed[task].logprob(inputs, wanted) == expected
        assert np.allclose(halved[task].logprob(inputs, wanted), expected, atol=5e-3)


@pytest.mark.parametrize(
    ("folder", "name"),
    slow_except(
        product(ARCHITECTURES, ["fine-tune", "lora", "prompt-tune"]),
        ("encoder-decoder", "prompt-tune"),
        ("decoder", "lora"),
        ("decoder", "fine-tune"),
    ),
    indirect=["folder"],
)
def test_resumed_equals_uninterrupted(folder: Path, name: str, tmp_path: Path) -> None:
    more = {"n": 4} if name == "prompt-tune" else {}
    loop = {"batch": 2, "steps": 6, "rate": 1e-2, "evaluate_every": 3, "patience": 5}
    learner: Any = read({"learner": name, "model": str(folder), **more, **QUICK, **loop})
    whole = learner.fit(COLOURS, {"dev": COLOURS}, seed=1)
    for _ in range(2):
        with pytest.raises(Paused):
            learner.fit(COLOURS, {"dev": COLOURS}, seed=1, folder=tmp_path, seconds=0.0)
    resumed = learner.fit(COLOURS, {"dev": COLOURS}, seed=1, folder=tmp_path)
    assert resumed.curve == whole.curve
    assert resumed.logprob(["sky"], [["blue"]]) == whole.logprob(["sky"], [["blue"]])
    with pytest.raises(LearnerError, match="another run"):
        learner.fit(COLOURS[:4], {"dev": COLOURS}, seed=1, folder=tmp_path)


def count_writing(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by the number of inputs whenever a model writes answers."""
    from taskloom.learners.pretrained.fitted import FittedLanguageModel

    sizes: list[int] = []
    say = FittedLanguageModel.say

    def counted(self: Any, sources: Any, *rest: Any, **more: Any) -> list[str]:
        sizes.append(len(sources))
        return say(self, sources, *rest, **more)

    monkeypatch.setattr(FittedLanguageModel, "say", counted)
    return sizes


@pytest.mark.parametrize(
    ("folder", "patience"),
    slow_except(product(ARCHITECTURES, [0, 9]), ("decoder", 0), ("encoder-decoder", 9)),
    indirect=["folder"],
)
def test_a_split_that_was_measured_with_the_last_weights_is_not_answered_again(
    folder: Path, patience: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = count_writing(monkeypatch)
    # 'dev' gets worse from the first point on: with patience the weights of that point are the
    # model's.
    dev = [(x, "green") for x, _ in COLOURS]
    loop = {"steps": 40, "rate": 1e-2, "evaluate_every": 20, "patience": patience}
    model: Any = read({"learner": "fine-tune", "model": str(folder), **QUICK, **loop}).fit(
        COLOURS, {"dev": dev, "test": COLOURS[1:]}, seed=0
    )
    assert sizes == [6, 5, 6, 5]
    assert (model.step < 40) == bool(patience)
    inputs = [x for x, _ in COLOURS]
    answers = model.answer(inputs[1:])
    assert len(sizes) == (5 if patience else 4)
    model.known.clear()
    assert model.answer(inputs[1:]) == answers
    assert model.answer([*inputs, "a b"])[1:-1] == answers


def test_tasks_that_were_measured_together_are_not_answered_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = count_writing(monkeypatch)
    learner: Any = read(
        {"learner": "prompt-tune", "model": str(folder), "n": 3, **QUICK, "steps": 2, "rate": 0.02}
    )
    models = learner.fit_tasks(TASKS, {"test": TASKS}, seed=2)
    inputs = {task: [x for x, _ in data] for task, data in TASKS.items()}
    answers = learner.answer_tasks(models, inputs)
    assert len(sizes) == 1
    models["swapped"].known.clear()
    assert learner.answer_tasks(models, inputs) == answers
    assert len(sizes) == 2


@pytest.mark.parametrize(
    ("folder", "prompt"),
    slow_except(
        product(ARCHITECTURES, [False, True]), ("encoder-decoder", True), ("decoder", False)
    ),
    indirect=["folder"],
)
def test_answers_do_not_depend_on_batch_or_padding(folder: Path, prompt: bool) -> None:
    name = "prompt-tune" if prompt else "fine-tune"
    more = {"n": 3} if prompt else {}
    fitted: Any = read(
        {"learner": name, "model": str(folder), **more, **QUICK, "steps": 2, "rate": 1e-2}
    ).fit(COLOURS, seed=0)
    inputs = ["a", "b c d e", "grass sky", "a b c d e 0 1 2 3", "snow"]
    wanted = [["green", "blue red"], ["a"], ["b"], ["black"], ["white", "red"]]
    results = []
    for batch in (1, 2, 5):
        fitted.batch = batch
        flat = [x for row in fitted.logprob(inputs, wanted) for x in row]
        results.append((fitted.answer(inputs), flat, fitted.represent(inputs)))
    for said, weighed, states in results[1:]:
        assert said == results[0][0]
        assert weighed == pytest.approx(results[0][1], abs=1e-4)
        assert np.allclose(states, results[0][2], atol=1e-4)


@pytest.mark.parametrize("folder", slow_except(ARCHITECTURES, "decoder"), indirect=True)
def test_seeds_of_a_model_that_is_trained_whole_differ(folder: Path) -> None:
    """Without dropout only the order of batches can tell them apart."""
    learner: Any = read(
        {
            "learner": "fine-tune",
            "model": str(folder),
            **QUICK,
            "batch": 2,
            "steps": 3,
            "rate": 0.02,
        }
    )
    first, again, other = (learner.fit(COLOURS, seed=seed) for seed in (0, 0, 1))
    inputs, wanted = ["grass", "sky"], [["green", "blue"]] * 2
    assert first.logprob(inputs, wanted) == again.logprob(inputs, wanted)
    assert not np.allclose(first.logprob(inputs, wanted), other.logprob(inputs, wanted), atol=1e-5)


def test_the_twin_has_other_weights(folder: Path) -> None:
    real, twin, again = (
        open_base(str(folder)),
        open_base(str(folder), False, 5),
        open_base(str(folder), False, 5),
    )
    assert {n: w.shape for n, w in real.model.state_dict().items()} == {
        n: w.shape for n, w in twin.model.state_dict().items()
    }
    one, two, three = (b.model.get_input_embeddings().weight for b in (real, twin, again))
    assert not bool((one == two).all())
    assert bool((two == three).all())


def test_targets_are_drawn_evenly() -> None:
    base = from_scratch("decoder", ["x a b c |"], TINY, "words", 0)
    rows = read_rows(base, [Example("x", ["a", "b", "c"])], " |")
    seen = Counter(tuple(draw_targets(rows, [0], Key("k"), step)[0]) for step in range(900))
    assert len(seen) == 3
    assert all(240 < n < 360 for n in seen.values())
    assert draw_targets(rows, [0], Key("k"), 7) == draw_targets(rows, [0], Key("k"), 7)


def test_tokenisers_write_what_they_read() -> None:
    words = words_tokeniser(["The cat, the dog.", "north"])
    assert decode(words, words("The dog")["input_ids"]) == "The dog"
    assert decode(words, words(" the  dog.\nThe cat,")["input_ids"]) == "the dog. The cat,"
    lists = words_tokeniser(["apple,football n/a well-fed (so)", "it's 3.5"])
    check_answers(lists, ["apple,football", "n/a", "well-fed", "it's", "3.5", "(so)"], "words")
    raw = bytes_tokeniser()
    for text in ("niño, ¡sí!", "日本", "a  b"):
        assert decode(raw, raw(text)["input_ids"]) == " ".join(text.split())
    check_answers(raw, ["niño"], "bytes")
    with pytest.raises(LearnerError, match="cannot write 3 character"):
        check_answers(words, ["north", "süd"], "words")
    words.backend_tokenizer.decoder = decoders.WordPiece(
        cleanup=False
    )  # one that puts a blank before every mark
    with pytest.raises(LearnerError, match="writes 'the dog\\.' as"):
        check_answers(words, ["the dog."], "words")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "./no/such/folder"}, "there is no model folder"),
        ({"learner": "fine-tune", "shots": 99}, "99 shots"),
        ({"learner": "prompt-tune", "n": 10_000}, "lower n"),
    ],
)
def test_bad_settings_are_refused(folder: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(LearnerError, match=message):
        read({"learner": "fine-tune", "model": str(folder), **QUICK, "steps": 1, **change}).fit(
            COLOURS
        )


def test_inputs_that_are_too_long_are_refused() -> None:
    small = {"state": 16, "layers": 1, "heads": 2, "feed_forward": 16, "longest": 8}
    learner = read({"learner": "decoder", **small, **QUICK, "steps": 1})
    with pytest.raises(LearnerError, match="needs 26 tokens and 'scratch/decoder' reads at most 8"):
        learner.fit([("a " * 20, "b")])


@pytest.mark.parametrize("kind", ["decoder", "encoder-decoder"])
def test_answers_that_would_be_cut_off_are_refused(kind: str) -> None:
    block = {**SMALL, "learner": kind, "tokens": "bytes", "steps": 1, "longest_answer": 4}
    with pytest.raises(
        LearnerError,
        match=r"an answer has 5,000 tokens and at most 4 are generated: 'x+'… .*raise longest",
    ):
        read(block).fit([("a", "b"), ("b", "x" * 4999)])  # one more for the blank before it
    with pytest.raises(LearnerError, match="an answer has 5 tokens"):
        read(block).fit([("a", "b")], {"test": [("a", "abcd")]})
    read(block).fit(
        [("a", "bcd"), Example("b", ("long enough", "c"))]
    )  # a short one that counts as right can be written


def test_a_decoder_that_counts_its_positions(tmp_path: Path) -> None:
    """BART's has as many as its encoder; a longer answer would be an index out of range."""
    base = from_scratch("encoder-decoder", ["a b |"], TINY, "words", 0)
    config = BartConfig(
        vocab_size=len(base.tokeniser), d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=8, decoder_ffn_dim=8, max_position_embeddings=12,
        pad_token_id=0, bos_token_id=1, eos_token_id=1, decoder_start_token_id=1, forced_eos_token_id=None,
    )  # fmt: skip
    BartForConditionalGeneration(config).save_pretrained(tmp_path)
    base.tokeniser.save_pretrained(tmp_path)
    block = {
        "learner": "fine-tune",
        "model": str(tmp_path),
        "steps": 1,
        "batch": 2,
        "longest_answer": 20,
    }
    with pytest.raises(LearnerError, match=r"needs 20 tokens and '.*' reads at most 12"):
        read(block).fit([("a", "b")])


@pytest.mark.parametrize("kind", ["decoder", "encoder-decoder"])
def test_a_word_that_no_split_had_is_named(kind: str) -> None:
    fitted = read({**SMALL, "learner": kind, "steps": 1}).fit([("a b", "b"), ("b.", "a")])
    asked: list[Any] = [fitted.answer, fitted.represent, lambda x: fitted.logprob(x, [["a"]])]
    for ask in asked:
        with pytest.raises(
            InputError, match=r"the word 'zebra' of the input 'a zebra' is not among the words of"
        ):
            ask(["a zebra"])
    ((known, unknown, half),) = fitted.logprob(["a"], [["a", "zebra", "a zebra"]])
    assert known > unknown == half == -np.inf


def test_few_shots_follow_the_seed() -> None:
    from taskloom.learners.pretrained.language_models import few

    items = [Example(str(i), "x") for i in range(20)]
    assert few(items, 5, 0) == few(items, 5, 0)
    assert few(items, 5, 0) != few(items, 5, 1)
    assert len({e.input for e in few(items, 5, 0)}) == 5
    assert few(items, 0, 3) == items
