"""RaSoR, DocumentReader, QANet, Mnemonic Reader and FusionNet: shapes, gradients, padding, and what
they learn.
"""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from taskloom.core.example import Example
from taskloom.learners.scratch.answer_spans import SpanTable

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from tests.experiments.sweeps import fill  # noqa: E402
from tests.slow import slow_except  # noqa: E402

from taskloom.learners import LearnerError, load  # noqa: E402
from taskloom.learners.config import read  # noqa: E402
from taskloom.learners.scratch.nets.ops import SPAN, judge_span_table  # noqa: E402
from taskloom.learners.scratch.nets.readers import Lexicon  # noqa: E402
from taskloom.learners.scratch.readers import read_vectors  # noqa: E402

READERS = ("rasor", "document-reader", "qanet", "mnemonic-reader", "fusionnet")
OWN = {
    "rasor": {"longest": 3},
    "qanet": {"heads": 2, "blocks": 1},
    "mnemonic-reader": {"hops": 2},
}
PLACES = ("old park", "kitchen", "school")


def small(name: str, **more: Any) -> Any:
    sizes = {"words": 16, "state": 16, "dropout": 0.0, "batch": 24, "evaluate_every": 0}
    return read({"learner": name, "precision": "fp32", **sizes, **OWN.get(name, {}), **more})


def tales() -> list[Example]:
    found: list[Example] = []
    for first, second in product(PLACES, repeat=2):
        begun = f"Mary went to the {first}. John moved to the {second}."
        found.append(Example(f"{begun} Where is Mary?", first, {"support_lines": "1"}))
        found.append(Example(f"{begun} Where is John?", second, {"support_lines": "2"}))
    return found


def module_of(name: str) -> Any:
    torch.manual_seed(0)
    return small(name).module(Lexicon(folded=(1, 1, 3, 4, 5, 6, 7), asked=3))


def batch() -> tuple[Any, Any]:
    """Two passages: a question of two and of three words, contexts of five and of two."""
    tokens = torch.tensor([[1, 2, 0, 2, 3, 4, 5, 1], [3, 4, 5, 6, 7, 0, 0, 0]])
    return tokens, torch.tensor([8, 5])


@pytest.mark.parametrize("name", READERS)
def test_logits_have_a_place_for_each_word_and_none_beyond(name: str) -> None:
    module = module_of(name).eval()
    logits = module(*batch())
    assert logits.shape == (2, 3 if name == "rasor" else 2, 5)
    finite = logits.isfinite()
    if name == "rasor":
        assert finite[0].sum(1).tolist() == [5, 4, 3]  # spans of one, two and three words
        assert finite[1].sum(1).tolist() == [2, 1, 0]
    else:
        assert finite[0].all()
        assert finite[1].tolist() == [[True, True, False, False, False]] * 2
    assert (logits[~finite] == -math.inf).all()


@pytest.mark.parametrize("name", READERS)
def test_padding_and_neighbours_change_no_answer(name: str) -> None:
    module = module_of(name).eval()
    tokens, lengths = batch()
    both = module(tokens, lengths)
    wider = module(torch.nn.functional.pad(tokens, (0, 4)), lengths)
    assert torch.allclose(wider[..., :5], both, atol=1e-5)
    assert not wider[..., 5:].isfinite().any()
    alone = module(tokens[1:, :5], lengths[1:])
    assert torch.allclose(alone[0], both[1, :, :2], atol=1e-5)
    garbage = tokens.clone()
    garbage[1, 5:] = 7  # what lies beyond the length is never read
    assert torch.allclose(module(garbage, lengths), both, atol=1e-5)


@pytest.mark.parametrize("name", READERS)
def test_every_parameter_has_a_finite_gradient(name: str) -> None:
    module = module_of(name)
    tokens, lengths = batch()
    logits = module(tokens, lengths)
    finite = logits[logits.isfinite()]
    (finite * torch.linspace(-1, 1, len(finite))).sum().backward()
    for parameter, value in module.named_parameters():
        assert value.grad is not None, parameter
        assert value.grad.isfinite().all(), parameter
    moved = [p for p, value in module.named_parameters() if value.grad.abs().sum() > 0]
    assert len(moved) > 0.9 * len(list(module.named_parameters()))


# Two readers show what the others repeat: scores of spans, and of their two ends.
@pytest.mark.parametrize("name", slow_except(READERS, "rasor", "document-reader"))
def test_readers_learn_a_small_set_of_stories(name: str) -> None:
    data = tales()
    steps = {"qanet": 260, "mnemonic-reader": 160}.get(name, 120)
    fitted = small(name, steps=steps, rate=1e-2).fit(data, {"dev": data}, seed=0)
    inputs, answers = [e.input for e in data], [e.target for e in data]
    assert fitted.answer(inputs) == answers
    [(right, wrong)] = fitted.logprob(inputs[:1], [[answers[0], "went"]])
    assert right > math.log(0.5) > wrong


@pytest.mark.parametrize("name", READERS)
def test_saved_readers_answer_as_before(name: str, tmp_path: Path) -> None:
    data = tales()
    inputs = [e.input for e in data]
    fitted = small(name, steps=8, rate=1e-2).fit(data, {"dev": data}, seed=0)
    losses = [point.loss for point in fitted.curve]
    assert np.isfinite(losses).all()
    assert fitted.represent(inputs[:2]).shape[0] == 2
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.answer(inputs) == fitted.answer(inputs)
    assert np.allclose(again.represent(inputs), fitted.represent(inputs), atol=1e-5)


def test_two_seeds_end_as_they_would_alone() -> None:
    learner = small("document-reader", steps=3, dropout=0.2)
    both = learner.fit_many(tales(), seeds=[0, 1])
    alone = learner.fit(tales(), seed=1)
    for name, weight in alone.weights.items():
        assert torch.allclose(both[1].weights[name], weight, atol=1e-5), name


def test_features_can_be_left_out() -> None:
    for name in ("document-reader", "mnemonic-reader", "fusionnet"):
        torch.manual_seed(0)
        lexicon = Lexicon(folded=(1, 1, 3, 4, 5, 6, 7), asked=3)
        plain = small(name, features=False).module(lexicon)
        assert plain.matches is None
        assert plain(*batch()).shape == (2, 2, 5)


def test_words_begin_with_the_vectors_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "glove.txt"
    file.write_text("park 1 2 3\nthe 4 5 6\nunused 7 8 9\nPark 0 0 1\n")
    table = read_vectors(str(file), ("Park", "The", "park", "school"), 3)
    assert table.tolist() == [[0, 0, 0], [0, 0, 1], [4, 5, 6], [1, 2, 3], [0, 0, 0]]
    with pytest.raises(LearnerError, match="set words to 3"):
        read_vectors(str(file), ("park",), 5)
    with pytest.raises(LearnerError, match="not a text file of word vectors"):
        read_vectors(str(tmp_path / "none.txt"), ("park",), 5)
    words = small("document-reader", words=3, vectors=str(file), steps=1, rate=1e-9)
    fitted = words.fit(tales())
    row = fitted.reader.words.words.index("park") + 1
    assert torch.allclose(fitted.weights["vectors.table.weight"][row], torch.tensor([1.0, 2, 3]))


def test_a_table_of_spans_is_judged_and_answered() -> None:
    logits = torch.full((1, 3, 2, 4), -5.0)
    logits[0, 0, 1, 2] = 5.0  # words 2 and 3
    logits[0, 1, 0, 0] = 5.0
    context = torch.tensor([[1, 2, 3, 4], [5, 6, 5, 7], [1, 1, 1, 1]])
    labels = torch.tensor([2 * SPAN + 3, 2 * SPAN + 2, 0 * SPAN + 3])
    losses, hits = judge_span_table(logits, context, labels)
    # The second points at another 5; the third span is wider than the table.
    assert hits.tolist() == [[True, True, False]]
    assert losses[0, 0] < 0.01
    assert losses[0, 2] == 0
    table = np.log(np.array([[0.1, 0.2, 0.1], [0.5, 0.1, 1e-9]]))
    said = SpanTable("ab cd ab", [(0, 2), (3, 5), (6, 8)], table)
    assert said.best(3) == "ab cd"
    assert said.best(1) == "cd"
    assert said.weigh("ab") == pytest.approx(math.log(0.2))
    assert said.weigh("ab cd ab") == -math.inf


def test_each_runs_on_a_small_concat(tmp_path: Path) -> None:
    sizes = {"splits": {"train": {"n": 40}, "dev": {"n": 4}, "test": {"n": 8}}}
    block = {"recipe": "babi/concat-T2", "set": sizes}
    loop = {"words": 8, "state": 8, "steps": 2, "batch": 8, "evaluate_every": 0}
    learners = [{"learner": name, **loop, **OWN.get(name, {})} for name in READERS]
    experiment = {"recipes": [block], "learners": learners, "evaluate": ["test"]}
    outcome = fill(experiment, tmp_path / "runs")
    assert not outcome.state.failed
    assert {run.learner for run in outcome.store.records(outcome.runs)} == set(READERS)
