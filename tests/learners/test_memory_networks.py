"""Memory networks for stories: equal to their formulae in plain loops, and well-behaved
learners.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from taskloom.core.errors import InputError  # noqa: E402
from taskloom.learners import load  # noqa: E402
from taskloom.learners.config import read  # noqa: E402
from taskloom.learners.scratch.nets.memory import STM, EntNet  # noqa: E402
from taskloom.learners.scratch.tokens import Stories, sentences_of  # noqa: E402

SMALL: dict[str, dict[str, Any]] = {
    "entnet": {"state": 16, "slots": 4, "rate": 0.01, "halve_every": 0},
    "stm": {"embedding": 16, "state": 12, "hidden": 12, "slots": 4, "rate": 5e-3, "warmup": 10},
}
NAMES = list(SMALL)
PLACES = ("park", "kitchen", "school")


def tales() -> list[tuple[str, str]]:
    """Two people, each moves once or twice; where is one of them?"""
    found = []
    for first, second in product(PLACES, repeat=2):
        begun = f"Mary went to the {first}. John moved to the {second}."
        found += [(f"{begun} Where is Mary?", first), (f"{begun} Where is John?", second)]
        if first != second:
            found.append((f"{begun} Then Mary went to the {second}. Where is Mary?", second))
    return found


def small(name: str, **more: Any) -> Any:
    return read(
        {
            "learner": name,
            "batch": 32,
            "evaluate_every": 0,
            "precision": "fp32",
            **SMALL[name],
            **more,
        }
    )


def sigma(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max())
    return e / e.sum()


def entnet_by_hand(w: dict[str, Any], row: list[list[int]]) -> Any:
    """The question's and the sentences' word ids (0 is empty), one formula a line."""

    def phi(x: Any) -> Any:
        return np.where(x > 0, x, w["slopes"] * x)

    def bag(mask: Any, words: list[int]) -> Any:
        return sum(mask[i] * w["embedding.weight"][word] for i, word in enumerate(words) if word)

    keys = w["keys"]
    h = [k.copy() for k in keys]
    for sentence in row[1:]:
        s = bag(w["sentence.mask"], sentence)
        for j, key in enumerate(keys):
            gate = sigma(s @ h[j] + s @ key)
            candidate = phi(w["U.weight"] @ h[j] + w["V.weight"] @ key + w["W.weight"] @ s)
            new = h[j] + gate * candidate
            h[j] = new / np.sqrt((new * new).sum())
    q = bag(w["question.mask"], row[0])
    p = softmax(np.array([q @ x for x in h]))
    u = sum(p[j] * h[j] for j in range(len(h)))
    return w["R.weight"] @ phi(q + w["H.weight"] @ u)


def stm_by_hand(w: dict[str, Any], row: list[list[int]]) -> Any:
    d, n = w["items"].shape[0], w["relations"].shape[0]

    def bag(words: list[int]) -> Any:
        return sum(
            w["places"][i] * w["embedding.weight"][word] for i, word in enumerate(words) if word
        )

    def chain(name: str, x: Any) -> Any:
        for layer in "123":
            x = w[f"{name}.{layer}.weight"] @ x + w[f"{name}.{layer}.bias"]
        return x

    def sam(m: Any) -> Any:
        qkv = np.array(
            [[w["sam.weight"][s] @ m[i] + w["sam.bias"][s] for s in range(3 * n)] for i in range(d)]
        )
        qkv = (qkv - qkv.mean()) / np.sqrt(qkv.var() + 1e-5) * w["sam.gain"] + w["sam.shift"]
        q, k, v = qkv[:, :n].T, qkv[:, n : 2 * n].T, qkv[:, 2 * n :].T
        return np.array(
            [sum(np.outer(np.tanh(q[s] * k[j]), v[j]) for j in range(n)) for s in range(n)]
        )

    items, relations = w["items"], w["relations"]
    for sentence in row[1:]:
        x = bag(sentence)
        f1, f2, f3 = chain("f1", x), chain("f2", x), chain("f3", x)
        gates = np.array(
            [
                w["gate.input.weight"] @ f1
                + w["gate.input.bias"]
                + w["gate.memory.weight"] @ np.tanh(items[i])
                + w["gate.memory.bias"]
                for i in range(d)
            ]
        )
        let_in, keep = (
            sigma(gates[:, :d] + w["gate.input_bias"]),
            sigma(gates[:, d:] + w["gate.forget_bias"]),
        )
        items = keep * items + let_in * np.tanh(np.outer(f1, f1))
        weights = softmax(f3)
        known = sum(weights[s] * (f2 @ relations[s]) for s in range(n))
        relations = relations + sam(items + w["alpha"] * np.outer(known, f2))
    q = bag(row[0])

    def asked(name: str) -> Any:
        hidden = np.tanh(w[f"{name}.1.weight"] @ q + w[f"{name}.1.bias"])
        return np.tanh(w[f"{name}.2.weight"] @ hidden + w[f"{name}.2.bias"])

    e, total = asked("e"), 0
    for hop in "123":
        r = asked(f"r{hop}")
        e = sum(r[s] * (e @ relations[s]) for s in range(n))
        e = (e - e.mean()) / np.sqrt(e.var() + 1e-12) * w[f"norm{hop}.gain"] + w[f"norm{hop}.shift"]
        total = total + e
    return w["Z.weight"] @ total


ROWS = [
    [[1, 2, 0], [3, 4, 5], [2, 0, 0], [6, 1, 2]],
    [[4, 0, 0], [1, 1, 1]],
    [[5, 6, 1]],  # a question alone
    [[2, 3, 0], [5, 5, 0], [4, 3, 2]],
]


@pytest.mark.parametrize(
    ("net", "by_hand"),
    [(EntNet(6, 4, 3, 5, 3), entnet_by_hand), (STM(6, 4, 3, 4, 5, 3, 2), stm_by_hand)],
)
def test_networks_are_their_formulae(net: Any, by_hand: Any) -> None:
    """Two seeds in a stack, stories of different lengths in one padded batch, every weight away
    from its start.
    """
    random = torch.Generator().manual_seed(0)
    stack = {
        n: torch.randn(2, *s, generator=random, dtype=torch.float64).requires_grad_()
        for n, s in net.shapes().items()
    }
    flat = [[word for sentence in row for word in sentence] for row in ROWS]
    # Rubbish beyond the end must not count.
    tokens = torch.tensor([row + [6] * (12 - len(row)) for row in flat])
    lengths = torch.tensor([len(row) for row in flat])
    logits = net.forward(stack, tokens, lengths)
    for seed in range(2):
        plain = {n: w[seed].detach().numpy() for n, w in stack.items()}
        for i, row in enumerate(ROWS):
            assert np.allclose(logits[seed, i].detach().numpy(), by_hand(plain, row), atol=1e-10)
    gradients = torch.autograd.grad(logits.square().sum(), list(stack.values()))
    for (name, _), gradient in zip(stack.items(), gradients, strict=True):
        assert bool(torch.isfinite(gradient).all()), name
        assert float(gradient.abs().max()) > 0, name
    started = net.start(random)
    assert {n: tuple(w.shape) for n, w in started.items()} == net.shapes()


@pytest.mark.parametrize("fast", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("net", [EntNet(5, 3, 2, 3, 2), STM(5, 3, 2, 3, 3, 2, 2)])
def test_gradients_are_those_of_differences(net: Any, fast: bool) -> None:
    """Fast: in one random direction. Slow: in all of them."""
    random = torch.Generator().manual_seed(1)
    weights = {
        n: torch.randn(1, *s, generator=random, dtype=torch.float64)
        for n, s in net.shapes().items()
    }
    tokens, lengths = torch.tensor([[1, 2, 3, 4, 5, 0], [2, 0, 1, 5, 0, 0]]), torch.tensor([6, 4])
    names = list(weights)

    def run(*values: Any) -> Any:
        return net.forward(dict(zip(names, values, strict=True)), tokens, lengths)

    assert torch.autograd.gradcheck(
        run, [w.requires_grad_() for w in weights.values()], fast_mode=fast
    )


@pytest.mark.parametrize(("name", "steps"), [("entnet", 160), ("stm", 100)])
def test_fits_a_tiny_task(name: str, steps: int) -> None:
    data = tales()
    fitted = small(name, steps=steps).fit(data, {"again": data}, seed=0)
    assert fitted.answer([x for x, _ in data]) == [y for _, y in data]
    assert fitted.curve[-1].score == 1.0


@pytest.mark.parametrize("name", NAMES)
def test_resumed_equals_uninterrupted(name: str, tmp_path: Path) -> None:
    learner = small(name, steps=8, batch=8, evaluate_every=4, checkpoint_every=3, patience=9)
    data = tales()
    whole = learner.fit(data, {"dev": data[:6]}, seed=3)

    def interrupt(progress: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.fit(data, {"dev": data[:6]}, seed=3, folder=tmp_path, progress=interrupt)
    resumed = learner.fit(data, {"dev": data[:6]}, seed=3, folder=tmp_path)
    assert resumed.curve == whole.curve
    for weight, value in whole.weights.items():
        assert bool((resumed.weights[weight] == value).all())


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_in_a_stack_is_the_seed_alone(name: str) -> None:
    data = tales()
    learner = small(name, steps=5)
    stack = learner.fit_many(data, {"again": data}, seeds=[5, 1, 8])
    alone = learner.fit(data, {"again": data}, seed=1)
    # STM divides by the size of states that are next to nothing: a change of the last bit (6e-8) in
    # its weights moves this loss by up to 3e-4, so on a GPU, which sums in another order, that is
    # what rounding comes to. On a CPU the bits are the same.
    loose = name == "stm" and torch.cuda.is_available()
    assert stack[1].curve[-1].loss == pytest.approx(
        alone.curve[-1].loss, abs=1e-3 if loose else 1e-5
    )
    for weight, value in alone.weights.items():
        assert float((stack[1].weights[weight] - value).abs().mean()) < 1e-5
    assert stack[0].curve != stack[1].curve


@pytest.mark.parametrize("name", NAMES)
def test_saved_loaded_and_any_batch_are_the_same(name: str, tmp_path: Path) -> None:
    data = tales()
    fitted = small(name, steps=3).fit(data, seed=0)
    inputs = [x for x, _ in data]
    wanted = [[*PLACES, "moon"]] * len(inputs)
    whole = np.array(fitted.logprob(inputs, wanted))
    assert np.allclose(np.exp(whole).sum(1), 1, atol=1e-5)
    fitted.save(tmp_path)
    again: Any = load(tmp_path)
    assert again.logprob(inputs, wanted) == fitted.logprob(inputs, wanted)
    assert np.array_equal(again.represent(inputs, "memory"), fitted.represent(inputs, "memory"))
    assert again.learner == fitted.learner
    fitted.batch = 1
    assert np.allclose(np.array(fitted.logprob(inputs, wanted))[:, :3], whole[:, :3], atol=1e-5)


def test_stories_are_read_by_sentences() -> None:
    text = "Mary's dog went to the park.  \nThen it slept! Where is the well-fed dog?"
    assert sentences_of(text) == [
        ["mary's", "dog", "went", "to", "the", "park"],
        ["then", "it", "slept"],
        ["where", "is", "the", "well-fed", "dog"],
    ]
    reader = Stories.of([text], most=1)
    row = reader.encode([text]).tokens[0].reshape(-1, 6)
    names = ["", *reader.words.words]
    assert [[names[i] for i in line] for line in row] == [
        ["where", "is", "the", "well-fed", "dog", ""],
        ["then", "it", "slept", "", "", ""],  # the last sentence alone, after the question
    ]
    with pytest.raises(InputError, match="no sentence"):
        sentences_of(" . ?")
    with pytest.raises(InputError, match="'cat'"):
        reader.encode(["Where is the cat?"])
    with pytest.raises(InputError, match="7 words and this learner was fitted with at most 6"):
        reader.encode(["the the the the the the the?"])
