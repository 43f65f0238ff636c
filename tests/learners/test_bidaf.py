"""Answers that are spans: finding them in texts, BiDAF against its formulae in plain loops, and
BiDAF as a learner.
"""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import taskloom
from taskloom.core.errors import InputError
from taskloom.core.example import Example
from taskloom.learners.scratch.answer_spans import (
    Pointed,
    ask,
    find_span,
    occurrences,
    split_question,
    with_spans,
)
from taskloom.suites.babi.export import EXTRACTIVE, squad

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from tests.slow import slow_except  # noqa: E402

from taskloom.learners import LearnerError, load  # noqa: E402
from taskloom.learners.config import read  # noqa: E402
from taskloom.learners.scratch.nets.bidaf import BiDAF  # noqa: E402
from taskloom.learners.scratch.nets.bilstm import lstm, lstm_shapes  # noqa: E402
from taskloom.learners.scratch.nets.ops import SPAN, best_spans, judge_spans  # noqa: E402
from taskloom.learners.scratch.readers import Passages, cut  # noqa: E402

PLACES = ("old park", "kitchen", "school")


def tales() -> list[Example]:
    found = []
    for first, second in product(PLACES, repeat=2):
        begun = f"Mary went to the {first}. John moved to the {second}."
        found.append(Example(f"{begun} Where is Mary?", first, {"support_lines": "1"}))
        found.append(Example(f"{begun} Where is John?", second, {"support_lines": "2"}))
        if first != second:
            text = f"{begun} Then Mary went to the {second}. Where is Mary?"
            found.append(Example(text, second, {"support_lines": "3"}))
    return found


def small(**more: Any) -> Any:
    sizes = {
        "words": 12,
        "state": 12,
        "filters": 6,
        "dropout": 0.0,
        "rate": 2e-2,
        "batch": 32,
        "evaluate_every": 0,
    }
    return read({"learner": "bidaf", "precision": "fp32", **sizes, **more})


def test_questions_and_spans() -> None:
    text = "Ann is in the park. The park is big! Where is Ann?"
    assert split_question(text) == ("Ann is in the park. The park is big!", "Where is Ann?")
    assert split_question("No full stop here\nWho is it") == ("No full stop here", "Who is it")
    assert occurrences("park, parks and Park", "park") == [(0, 4)]
    assert occurrences("The Park", "park") == [(4, 8)]
    context = split_question(text)[0]
    assert find_span(context, Example(text, "park")) == (24, 28)  # the last one
    assert find_span(context, Example(text, "park", {"support_lines": "1"})) == (14, 18)
    assert find_span(context, Example(text, "park", {"support_lines": "2 1"})) == (14, 18)
    assert find_span(context, Example(text, ["garden", "big"])) == (32, 35)
    assert find_span(context, Example(text, "yes")) is None
    with pytest.raises(InputError, match="no text before its question"):
        split_question("Where is Ann?")


def test_spans_are_those_of_the_suite_s_own_export() -> None:
    data = taskloom.make("babi/mix-T7", seed=0, set=["splits.mix.n=150"])
    rows = [e for e in data["mix"] if e.traits["question"] in EXTRACTIVE]
    exported, skipped = squad(rows)
    assert (len(rows), skipped) == (150, 0)
    for found, paragraph in zip(ask(rows), exported["data"][0]["paragraphs"], strict=True):
        (asked,) = paragraph["qas"]
        assert (found.context, found.question) == (paragraph["context"], asked["question"])
        assert found.span is not None
        assert found.span[0] == asked["answers"][0]["answer_start"]
        assert found.context[slice(*found.span)] == asked["answers"][0]["text"]


def test_examples_without_a_span_are_counted() -> None:
    data = [
        *tales(),
        Example("Mary is here. Is Mary here?", "yes"),
        Example("John left. How many left?", "one"),
    ]
    with pytest.raises(LearnerError, match=r"2 of 26 training examples.*'yes'.*without_span: skip"):
        small(steps=1).fit(data)
    with pytest.warns(UserWarning, match="2 of 26"):
        assert len(with_spans(data, "bidaf", "skip")) == 24
    with pytest.raises(LearnerError, match="2 of 2"):
        with_spans(data[-2:], "bidaf", "skip")


def test_a_span_is_chosen_and_weighed() -> None:
    start, end = np.log([0.2, 0.5, 0.3]), np.log([0.6, 0.1, 0.3])
    said = Pointed("ab cd ab", [(0, 2), (3, 5), (6, 8)], start, end)
    assert said.best(3) == "cd ab"  # 0.5 * 0.3; the likelier end stands before the start
    assert said.best(1) == "ab"  # 0.2 * 0.6 beats 0.5 * 0.1 and 0.3 * 0.3
    random = np.random.default_rng(0)
    for n, longest in product((1, 2, 7), (1, 3, 9)):
        places = [(i, i + 1) for i in range(n)]
        some = Pointed("abcdefg", places, random.normal(size=n), random.normal(size=n))
        pairs = [
            (some.start[i] + some.end[j], i, j)
            for i in range(n)
            for j in range(i, min(n, i + longest))
        ]
        _, i, j = max(pairs)
        assert some.best(longest) == "abcdefg"[i : j + 1]
    assert said.weigh("ab") == pytest.approx(math.log(0.2 * 0.6 + 0.3 * 0.3))
    assert said.weigh("b") == -math.inf
    table = torch.randn(2, 5, 2, 7, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    first, last = best_spans(table)
    for s, b in product(range(2), range(5)):
        pairs = [
            (float(table[s, b, 0, i] + table[s, b, 1, j]), i, j)
            for i in range(7)
            for j in range(i, 7)
        ]
        assert (int(first[s, b]), int(last[s, b])) == max(pairs)[1:]


def test_a_hit_points_at_the_same_words_anywhere() -> None:
    context = torch.tensor([[4, 5, 6, 4, 5, 0]])
    logits = torch.full((3, 1, 2, 6), -5.0)
    for seed, (i, j) in enumerate([(3, 4), (3, 3), (0, 1)]):
        logits[seed, 0, 0, i] = logits[seed, 0, 1, j] = 5.0
    losses, hits = judge_spans(logits, context, torch.tensor([0 * SPAN + 1]))
    assert hits[:, 0].tolist() == [True, False, True]
    assert losses[2, 0] < 0.01 < losses[0, 0]
    losses, hits = judge_spans(logits, context, torch.tensor([-1]))
    assert not bool(hits.any())
    assert float(losses.abs().max()) == 0


def test_the_lstm_is_torch_s() -> None:
    random = torch.Generator().manual_seed(0)
    w = {
        n: torch.randn(2, *s, generator=random, dtype=torch.float64)
        for n, s in lstm_shapes("a", 3, 4).items()
    }
    x = torch.randn(2, 3, 5, 3, generator=random, dtype=torch.float64)
    lengths = torch.tensor([5, 2, 4])
    found = lstm(w, "a", x, lengths)
    for seed in range(2):
        theirs = torch.nn.LSTM(3, 4, batch_first=True, bidirectional=True).double()
        with torch.no_grad():
            for way, suffix in enumerate(("", "_reverse")):
                part = slice(16 * way, 16 * way + 16)
                getattr(theirs, f"weight_ih_l0{suffix}").copy_(w["a.into"][seed, part])
                getattr(theirs, f"weight_hh_l0{suffix}").copy_(w["a.back"][seed, way])
                getattr(theirs, f"bias_ih_l0{suffix}").copy_(w["a.bias"][seed, part])
                getattr(theirs, f"bias_hh_l0{suffix}").zero_()
            for row, n in enumerate(lengths.tolist()):
                expected = theirs(x[seed, row : row + 1, :n])[0][0]
                assert torch.allclose(found[seed, row, :n], expected, atol=1e-10)


def by_hand(net: BiDAF, w: dict[str, Any], question: list[int], context: list[int]) -> Any:
    """The formulae word by word, with torch's LSTM checked above."""

    def sigma(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    def softmax(x: Any) -> Any:
        e = np.exp(np.array(x) - max(x))
        return e / e.sum()

    def run(name: str, x: list[Any]) -> Any:
        parts = {n: torch.tensor(v)[None] for n, v in w.items() if n.startswith(f"{name}.")}
        return lstm(parts, name, torch.tensor(np.array(x))[None, None], torch.tensor([len(x)]))[
            0, 0
        ].numpy()

    def vector(word: int) -> Any:
        letters = [w["letters.weight"][c] for c in net.spellings[word - 1]]
        widest = max(net.width, max(map(len, net.spellings)))
        letters += [np.zeros(net.letters)] * (widest - len(letters))
        windows = [
            np.concatenate(letters[i : i + net.width]) for i in range(widest - net.width + 1)
        ]
        spelt = np.max([np.maximum(w["cnn.weight"] @ v + w["cnn.bias"], 0) for v in windows], 0)
        x = np.concatenate([spelt, w["embedding.weight"][word]])
        for name in ("highway.1", "highway.2"):
            t = sigma(w[f"{name}.gate.weight"] @ x + w[f"{name}.gate.bias"])
            x = t * np.maximum(w[f"{name}.map.weight"] @ x + w[f"{name}.map.bias"], 0) + (1 - t) * x
        return x

    u, h = (
        run("contextual", [vector(i) for i in question]),
        run("contextual", [vector(i) for i in context]),
    )
    similar = w["similar"].reshape(-1)
    s = [[similar @ np.concatenate([a, b, a * b]) for b in u] for a in h]
    to_question = [sum(p * b for p, b in zip(softmax(row), u, strict=True)) for row in s]
    whole = sum(p * a for p, a in zip(softmax([max(row) for row in s]), h, strict=True))
    g = [np.concatenate([a, b, a * b, a * whole]) for a, b in zip(h, to_question, strict=True)]
    m = run("modelling.2", list(run("modelling.1", g)))
    after = run("ending", list(m))
    first = [w["first.weight"][0] @ np.concatenate([a, b]) for a, b in zip(g, m, strict=True)]
    last = [w["last.weight"][0] @ np.concatenate([a, b]) for a, b in zip(g, after, strict=True)]
    return np.array([first, last])


def test_bidaf_is_its_formulae() -> None:
    net = BiDAF(
        5,
        ((1, 2), (3,), (1, 2, 3, 3, 2, 1, 2), (2, 2, 2), (3, 1)),
        3,
        words=4,
        state=2,
        filters=3,
        letters=2,
    )
    random = torch.Generator().manual_seed(0)
    stack = {
        n: torch.randn(2, *s, generator=random, dtype=torch.float64).requires_grad_()
        for n, s in net.shapes().items()
    }
    rows = [([1, 2, 3], [4, 5, 1, 2]), ([2], [3, 3]), ([5, 5], [1])]
    flat = [[*q, *[0] * (3 - len(q)), *c] for q, c in rows]
    lengths = torch.tensor([len(row) for row in flat])
    tokens = torch.tensor(
        [row + [4] * (7 - len(row)) for row in flat]
    )  # rubbish beyond the end must not count
    logits = net.forward(stack, tokens, lengths)
    for seed, (i, (q, c)) in product(range(2), enumerate(rows)):
        plain = {n: v[seed].detach().numpy() for n, v in stack.items()}
        assert np.allclose(
            logits[seed, i, :, : len(c)].detach().numpy(), by_hand(net, plain, q, c), atol=1e-10
        )
        assert bool(torch.isinf(logits[seed, i, :, len(c) :]).all())
    losses, _ = net.judge(logits, tokens, torch.tensor([1 * SPAN + 2, 0, 0]))
    for (name, _), gradient in zip(
        stack.items(), torch.autograd.grad(losses.sum(), list(stack.values())), strict=True
    ):
        assert bool(torch.isfinite(gradient).all()), name
        assert float(gradient.abs().max()) > 0, name
    assert {n: tuple(v.shape) for n, v in net.start(random).items()} == net.shapes()


@pytest.mark.parametrize("filters", slow_except([0, 6], 6))
def test_fits_a_tiny_task(filters: int) -> None:
    data = tales()
    fitted = small(steps=45, filters=filters).fit(data, {"again": data}, seed=0)
    assert fitted.answer([e.input for e in data]) == [e.target for e in data]
    assert fitted.curve[-1].score == 1.0


def test_resumed_stacked_saved_and_any_batch_are_the_same(tmp_path: Path) -> None:
    data = tales()
    learner = small(steps=6, batch=8, dropout=0.2, evaluate_every=3, checkpoint_every=2, patience=9)
    whole = learner.fit(data, {"dev": data[:5]}, seed=3)

    def interrupt(progress: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.fit(data, {"dev": data[:5]}, seed=3, folder=tmp_path / "run", progress=interrupt)
    resumed = learner.fit(data, {"dev": data[:5]}, seed=3, folder=tmp_path / "run")
    assert resumed.curve == whole.curve
    assert all(bool((resumed.weights[n] == w).all()) for n, w in whole.weights.items())
    stack = learner.fit_many(data, {"dev": data[:5]}, seeds=[1, 3])
    assert stack[1].curve[-1].loss == pytest.approx(whole.curve[-1].loss, abs=1e-4)
    inputs = [e.input for e in data]
    wanted = [["kitchen", "old park", "school", "moon"]] * len(inputs)
    weighed = whole.logprob(inputs, wanted)
    whole.save(tmp_path / "model")
    again: Any = load(tmp_path / "model")
    assert again.logprob(inputs, wanted) == weighed
    assert again.answer(inputs) == whole.answer(inputs)
    assert again.learner == whole.learner
    assert np.array_equal(again.represent(inputs), whole.represent(inputs))
    whole.batch = 1
    for one, other in zip(whole.logprob(inputs, wanted), weighed, strict=True):
        assert one == pytest.approx(other, abs=1e-5)
    with pytest.raises(LearnerError, match="known: readout"):
        whole.represent(inputs[:1], "nowhere")
    with pytest.raises(InputError, match="'Zoe'"):
        whole.answer(["Zoe left. Where is Mary?"])
    assert whole.answer([]) == []


def test_passages_keep_places() -> None:
    text = "Mary's cat, well-fed, sleeps."
    words, places = cut(text)
    assert words == ["Mary's", "cat", ",", "well-fed", ",", "sleeps", "."]
    assert [text[a:b] for a, b in places] == words
    reader = Passages.of(ask([Example(f"{text} Who sleeps?", "cat")]))
    with pytest.raises(
        LearnerError, match="has 4 words, and this learner was fitted on questions of at most 3"
    ):
        reader.encode(ask([Example("cat. Who sleeps cat?", "cat")]))
