"""Presets of the papers, initial weights of the reference, continued models, and layers at
answering time.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from tests.learners.test_extractive import save_tiny_encoder  # noqa: E402

from taskloom.core.errors import TaskloomError  # noqa: E402
from taskloom.core.example import Example  # noqa: E402
from taskloom.core.seeding import Key  # noqa: E402
from taskloom.experiments.spec.experiment import Experiment  # noqa: E402
from taskloom.learners import LearnerError, Paused, load  # noqa: E402
from taskloom.learners.config import (  # noqa: E402  # noqa: E402
    LEARNERS,
    PRESETS,
    digest_settings,
    presets_of,
    read,
    register_preset,
    settings,
    size,
)
from taskloom.learners.pretrained.encoding import (  # noqa: E402
    choose_targets,
    read_rows,
    read_source,
)
from taskloom.learners.pretrained.language_models import listed  # noqa: E402
from taskloom.learners.pretrained.models import Sizes, from_scratch, open_base  # noqa: E402
from taskloom.learners.scratch.nets.ndr import NDR  # noqa: E402
from taskloom.learners.scratch.nets.ops import count, describe  # noqa: E402
from taskloom.learners.scratch.nets.transformer import Transformer  # noqa: E402

_spec = importlib.util.spec_from_file_location("tiny", Path(__file__).with_name("tiny.py"))
assert _spec is not None
assert _spec.loader is not None
tiny: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tiny)

PAIRS = [
    ("grass", "green"),
    ("sky", "blue"),
    ("snow", "white"),
    ("coal", "black"),
    ("sun", "yellow"),
]
TINY = Sizes(state=16, layers=1, heads=2, feed_forward=16, dropout=0.0, longest=64)
QUICK: dict[str, Any] = {
    "batch": 5,
    "warmup": 0,
    "evaluate_every": 0,
    "longest_answer": 4,
    "precision": "fp32",
}
LISTED: dict[str, Any] = {
    "state": 16,
    "layers": 1,
    "heads": 2,
    "feed_forward": 16,
    "dropout": 0.0,
    "steps": 60,
    "batch": 4,
}
LISTED |= {
    "rate": 0.02,
    "warmup": 0,
    "evaluate_every": 0,
    "longest_answer": 16,
    "precision": "fp32",
}
NDR_SMALL: dict[str, Any] = {
    "learner": "ndr",
    "state": 16,
    "heads": 2,
    "layers": 2,
    "layers_answering": 2,
}
SMALL: dict[str, Any] = {
    **NDR_SMALL,
    "feed_forward": 16,
    "batch": 40,
    "evaluate_every": 0,
    "precision": "fp32",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = from_scratch(
        "encoder-decoder", [t for pair in PAIRS for t in pair] + [" |"], TINY, "words", seed=1
    )
    where: Path = tmp_path_factory.mktemp("base") / "model"
    base.model.save_pretrained(where)
    base.tokeniser.save_pretrained(where)
    return where


@pytest.mark.parametrize(
    ("preset", "learner"), [(preset.name, name) for preset in PRESETS for name in preset.settings]
)
def test_every_preset_is_a_block_of_settings_that_can_be_changed(preset: str, learner: str) -> None:
    whole: Any = read({"learner": learner, "preset": preset})
    values = {**vars(whole), **digest_settings(whole.training)}
    for name, value in PRESETS.get(preset).settings[learner].items():
        assert values.get(name, getattr(whole.training, name, None)) == value, name
    changed: Any = read(
        {"learner": learner, "preset": preset, "steps": 7, "training": {"rate": 0.5}}
    )
    assert (changed.training.steps, changed.training.epochs, changed.training.rate) == (7, 0, 0.5)
    assert changed.training.batch == whole.training.batch
    assert settings(learner)[0][0] == "preset"
    assert preset in settings(learner)[0][2]


SMALLER: dict[str, dict[str, Any]] = {
    "bilstm": {"state": 8},
    "transformer": {"state": 16, "feed_forward": 8},
    "ndr": {"state": 16, "feed_forward": 8},
    "entnet": {"state": 8, "slots": 2},
    "stm": {"state": 8, "hidden": 8, "embedding": 8, "slots": 2},
    "fine-tune": {"longest_answer": 4},
    "prompt-tune": {"longest_answer": 4, "n": 3},
    "bidaf": {"words": 8, "state": 8, "filters": 4},
    "rasor": {"words": 8, "state": 8},
    "document-reader": {"words": 8, "state": 8},
    "qanet": {"words": 8, "state": 8, "heads": 2, "blocks": 1},
    "mnemonic-reader": {"words": 8, "state": 8},
    "fusionnet": {"words": 8, "state": 8},
    "extractive": {},
}

ANSWERED_BY_PAIRS = ("bilstm", "transformer", "ndr", "fine-tune", "prompt-tune")
"""Learners that take any input. The others need a text that has the answer."""


@pytest.mark.parametrize(
    ("preset", "learner"), [(preset.name, name) for preset in PRESETS for name in preset.settings]
)
def test_every_preset_trains(preset: str, learner: str, folder: Path, tmp_path: Path) -> None:
    """On small networks and a small T5, whose real ones are not here; everything but sizes and
    length is the preset's.
    """
    block = {"learner": learner, "preset": preset, "precision": "fp32", **SMALLER[learner]}
    told = [(f"{x} is {y}. {x}?", y) for x, y in PAIRS]
    data = PAIRS if learner in ANSWERED_BY_PAIRS else told
    if learner == "extractive":
        save_tiny_encoder("bert", tmp_path)
        block["model"] = str(tmp_path)
    elif "model" in PRESETS.get(preset).settings[learner]:
        block["model"] = str(folder)
    counted = "epochs" if "epochs" in PRESETS.get(preset).settings[learner] else "steps"
    fitted = read({**block, counted: 2}).fit(data, {"dev": data})
    assert fitted.curve[-1].step == 2  # five rows are one batch, or less than one
    assert np.isfinite([p.loss for p in fitted.curve]).all()


TABLES = Path(__file__).parents[2] / "docs" / "reference" / "learner-presets.md"
OF_EXPERIMENTS = {*Experiment.model_fields, "mix", "rates", "where", "best"}
"""Keys of an experiment and of a mix, and the selections of its runs."""


def rows_of_settings() -> list[tuple[str, str]]:
    """The rows of the papers' tables: what it is, and the settings in the last column."""
    rows = []
    for line in TABLES.read_text().partition("## Setting by setting")[2].splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) > 2 and cells[-1] not in ("setting", "---"):
            rows.append((cells[0], cells[-1]))
    return rows


@cache
def names_of_settings() -> dict[str, set[str]]:
    """The settings of every learner."""
    return {learner: {name for name, *_ in settings(learner)} for learner in LEARNERS.names()}


@pytest.mark.parametrize(("what", "cell"), rows_of_settings(), ids=lambda text: str(text)[:40])
def test_every_setting_of_the_papers_tables_is_one(what: str, cell: str) -> None:
    """Each name in the last column is a setting of a learner, with that value, or a key of an
    experiment, a recipe or a preset.
    """
    every = set().union(*names_of_settings().values())
    named = re.findall(r"`([^`]+)`", cell)
    assert named or "always" in cell, f"{what} has no setting"
    for text in named:
        name, _, value = text.strip("{}").partition(":")
        known = (
            every | OF_EXPERIMENTS | set(PRESETS.names()) | {"auto", "constant", "layout", "parts"}
        )
        assert re.split(r"[( ]", name)[0] in known, text
        if value and name in every:
            typical = ("ndr", "fine-tune", "entnet")
            learner = next(x for x in typical if name in names_of_settings()[x])
            read({"learner": learner, name: yaml.safe_load(value)})


def test_sizes_of_the_paper_and_of_the_code() -> None:
    made = {
        p: {n: read({"learner": n, "preset": p}) for n in PRESETS.get(p).settings}
        for p in ("ctlpp", "ctlpp-paper")
    }
    sizes = {p: {n: count(one.network(40, 8)) for n, one in row.items()} for p, row in made.items()}  # type: ignore[attr-defined]
    assert sizes["ctlpp"] == {"bilstm": 407_816, "transformer": 155_018, "ndr": 673_299}
    # A wider feed-forward layer has 2 d + 1 numbers more for each unit.
    assert sizes["ctlpp-paper"]["transformer"] == 155_018 + 256 * (2 * 128 + 1)
    assert sizes["ctlpp-paper"]["ndr"] == 673_299 + 512 * (2 * 256 + 1)
    assert made["ctlpp-paper"]["transformer"].dropout == 0.5  # type: ignore[attr-defined]


def test_unknown_presets_are_refused_with_the_nearest() -> None:
    with pytest.raises(LearnerError, match=r"'ndr' has no preset 'ctlp'.*'ctlpp'"):
        read({"learner": "ndr", "preset": "ctlp"})
    with pytest.raises(LearnerError, match="has no preset 'zest'"):
        read({"learner": "ndr", "preset": "zest"})
    with pytest.raises(LearnerError, match="'majority' has no presets"):
        read({"learner": "majority", "preset": "zest"})


def test_another_package_can_register_a_preset() -> None:
    register_preset(
        "small", {"bilstm": {"state": 8, "epochs": 3}}, describe="for trials", origin="mine.small"
    )
    try:
        small: Any = read({"learner": "bilstm", "preset": "small"})
        assert (small.state, small.training.epochs) == (8, 3)
        assert "small" in presets_of("bilstm")
        assert "small" not in presets_of("ndr")
        with pytest.raises(TaskloomError, match=r"'small' is defined twice: in mine\.small"):
            register_preset("small", {}, describe="another", origin="other")
    finally:
        PRESETS.forget("mine.small")


def test_without_the_papers_a_preset_is_refused_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PRESETS, "packages", ("taskloom.not_installed",))
    monkeypatch.setattr(PRESETS, "_things", {})
    monkeypatch.setattr(PRESETS, "_origin", {})
    with pytest.raises(LearnerError, match="'ndr' has no presets; leave out 'preset: ctlpp'"):
        read({"learner": "ndr", "preset": "ctlpp"})
    assert settings("ndr")[0][0] != "preset"


def test_finding_a_preset_imports_no_study() -> None:
    """And needs neither PyYAML nor pydantic, which a machine with a GPU may lack."""
    code = """
import sys
sys.modules["yaml"] = sys.modules["pydantic"] = None
from taskloom.learners.config import PRESETS
assert PRESETS.get("ctlpp-s").settings["bilstm"]["batch"] == 128
assert not [name for name in sys.modules if name.startswith("taskloom.papers.")]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_ndr_can_start_as_the_reference() -> None:
    ours, theirs = NDR(40, 8), NDR(40, 8, begin="reference")
    start, other = (net.start(torch.Generator().manual_seed(0)) for net in (ours, theirs))
    assert {n: tuple(w.shape) for n, w in other.items()} == theirs.shapes()
    for name, into in (
        ("attention.q", 256),
        ("attention.kv", 256),
        ("data1", 256),
        ("data2", 512),
        ("gate1", 256),
    ):
        bias = other[f"{name}.bias"]
        assert not start[f"{name}.bias"].any()
        assert float(bias.abs().max()) <= into**-0.5
        assert float(bias.std()) == pytest.approx(into**-0.5 / 3**0.5, rel=0.15)
    for name in set(start) - {n for n in start if n.endswith(".bias")} - {"attention.kv.weight"}:
        assert torch.equal(start[name], other[name])
    assert torch.equal(other["gate2.bias"], torch.full((256,), -3.0))
    # The bounds for keys and values lie on the halves of the heads there, on keys and values of
    # every head here.
    key, value = (6 / (256 + 64)) ** 0.5, (6 / 512) ** 0.5
    halves = [float(half.abs().max()) for half in other["attention.kv.weight"].chunk(2)]
    assert halves == pytest.approx([key, value], rel=0.01)
    assert all(
        float(half.abs().max()) > 0.99 * key for half in start["attention.kv.weight"].chunk(2)
    )


def test_networks_left_alone_are_described_as_before() -> None:
    """Checkpoints of unfinished runs know their network by this text."""
    before = (
        "NDR(vocabulary=4, classes=3, state=256, heads=4, layers=8, layers_answering=10,"
        " feed_forward=512, dropout=0.5, attention_dropout=0.1, gate_dropout=0.1)"
    )
    assert describe(NDR(4, 3)) == before
    assert "begin='reference'" in describe(NDR(4, 3, begin="reference"))
    assert "layers_answering" not in describe(Transformer(4, 3))
    names = set(digest_settings(read("ndr"))) | set(digest_settings(read("fine-tune")))
    assert not names & {"begin", "start_from", "targets", "beams", "longest_input", "cut"}


@pytest.mark.parametrize("name", ["ndr", "transformer"])
def test_layers_at_answering_time_can_be_changed(name: str, tmp_path: Path) -> None:
    data = tiny.everything(1)
    block = {**SMALL, "learner": name, "steps": 5}
    fitted: Any = read({k: v for k, v in block.items() if k != "layers_answering"}).fit(data)
    more = fitted.with_layers(5)
    assert (more.net.layers_answering, more.net.layers) == (5, 2)
    inputs = [text for text, _ in data]
    assert not np.allclose(more.represent(inputs), fitted.represent(inputs))
    assert np.allclose(
        more.represent(inputs, "layer.2"), fitted.represent(inputs, "layer.2"), atol=1e-6
    )
    more.save(tmp_path)
    again: Any = load(tmp_path)
    assert again.learner.layers_answering == 5
    assert np.allclose(again.represent(inputs), more.represent(inputs))
    assert again.parameters == {"total": count(again.net), "trained": count(again.net)}
    with pytest.raises(LearnerError, match=r"bilstm has no .*layer"):
        read({"learner": "bilstm", "state": 4, "steps": 1, "batch": 4}).fit(data).with_layers(3)  # type: ignore[attr-defined]


def test_training_starts_from_a_saved_classifier(tmp_path: Path) -> None:
    data = tiny.everything(1)
    first: Any = read({**SMALL, "steps": 5}).fit(data, seed=1)
    first.save(tmp_path / "first")
    block = {**SMALL, "start_from": str(tmp_path / "first"), "steps": 1, "rate": 1e-12}
    # Two of four symbols: words and answers stay those of the saved model.
    few = [pair for pair in data if pair[1] in "01"]
    second: Any = read(block).fit(few, seed=2)
    assert second.classes == first.classes
    for name, weight in first.weights.items():
        assert torch.allclose(second.weights[name], weight, atol=1e-9)
    with pytest.raises(LearnerError, match="has no output for the answer '9'"):
        read(block).fit([("a 0", "9")])
    with pytest.raises(LearnerError, match="holds the learner 'ndr', not 'bilstm'"):
        read({"learner": "bilstm", "start_from": str(tmp_path / "first")}).fit(few)
    learner: Any = read({**block, "steps": 200})
    with pytest.raises(Paused):
        learner.fit(few, folder=tmp_path / "run", seconds=0)
    read({**SMALL, "steps": 5}).fit(data, seed=7).save(tmp_path / "first")
    with pytest.raises(LearnerError, match="the weights that it began with"):
        learner.fit(few, folder=tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "own"), [("fine-tune", {}), ("lora", {"rank": 2}), ("prompt-tune", {"n": 3})]
)
def test_training_starts_from_a_saved_writer(
    folder: Path, name: str, own: dict[str, Any], tmp_path: Path
) -> None:
    block = {"learner": name, "model": str(folder), **own, **QUICK}
    first: Any = read({**block, "steps": 5, "rate": 0.05}).fit(PAIRS)
    first.save(tmp_path)
    wanted = [["green", "blue"]] * len(PAIRS)
    inputs = [x for x, _ in PAIRS]
    second: Any = read({**block, "start_from": str(tmp_path), "steps": 1, "rate": 1e-12}).fit(
        PAIRS, seed=5
    )
    assert np.allclose(second.logprob(inputs, wanted), first.logprob(inputs, wanted), atol=1e-4)
    fresh: Any = read({**block, "steps": 1, "rate": 1e-12}).fit(PAIRS, seed=5)
    assert not np.allclose(fresh.logprob(inputs, wanted), first.logprob(inputs, wanted), atol=1e-3)
    sizes = second.parameters
    whole = sum(p.numel() for p in open_base(str(folder)).model.parameters())
    assert sizes["trained"] == {"fine-tune": whole, "prompt-tune": 3 * 16}.get(
        name, sizes["total"] - whole
    )
    other = "lora" if name != "lora" else "fine-tune"
    with pytest.raises(LearnerError, match="holds the learner"):
        read({"learner": other, "model": str(folder), "start_from": str(tmp_path)}).fit(PAIRS)


def test_inputs_are_cut_where_the_settings_say(folder: Path) -> None:
    base = open_base(str(folder))
    text = "grass sky snow coal sun"

    def words(**how: Any) -> str:
        return str(
            base.tokeniser.decode(read_source(base, text, " |", **how), skip_special_tokens=True)
        )

    assert (
        words() == words(longest=8) == "grass sky snow coal sun |"
    )  # five words, blank and bar, the end mark
    assert words(longest=6) == "grass sky snow |"
    assert words(longest=6, cut="start") == "snow coal sun |"
    with pytest.raises(LearnerError, match="leaves no room"):
        read_source(base, text, " |", 3)
    learner = read(
        {"learner": "fine-tune", "model": str(folder), **QUICK, "steps": 1, "longest_input": 4}
    )
    with pytest.warns(UserWarning, match=r"1 of 2 inputs are cut to 4 tokens"):
        fitted = learner.fit([(text, "green"), ("sky", "blue")])
    assert np.allclose(fitted.represent([text]), fitted.represent(["grass"]))


def test_long_answers_are_cut_if_the_learner_is_told_to(folder: Path) -> None:
    block = {"learner": "fine-tune", "model": str(folder), **QUICK, "steps": 1, "longest_answer": 2}
    data = [("sky", "blue black white"), ("sun", "yellow")]
    with pytest.raises(LearnerError, match="cut_answers"):
        read(block).fit(data)
    with pytest.warns(UserWarning, match="1 of 2 answers are cut to 2 tokens"):
        read({**block, "cut_answers": True}).fit(data, {"dev": data})
    base = open_base(str(folder))
    with pytest.warns(UserWarning, match="answers are cut"):
        rows = read_rows(base, [Example(*pair) for pair in data], " |", answer=2, cut_answers=True)
    whole = read_rows(base, [Example(*pair) for pair in data], " |")
    end = base.tokeniser.eos_token_id
    assert rows.targets[0] == [[*whole.targets[0][0][:2], end]]
    assert rows.targets[1] == whole.targets[1]
    assert rows.examples[0].target == "blue black white"


def test_targets_are_redrawn_fixed_or_the_first(folder: Path) -> None:
    base = open_base(str(folder))
    several = [Example("sky", ("blue", "black", "white")) for _ in range(30)] + [
        Example("sun", "yellow")
    ]
    rows = read_rows(base, several, " |")
    assert choose_targets(rows, "redrawn", Key("k", 0)) is rows
    first = choose_targets(rows, "first", Key("k", 0))
    assert [t for (t,) in first.targets] == [t[0] for t in rows.targets]
    fixed = [choose_targets(rows, "fixed", Key("k", seed)).targets for seed in (0, 0, 1)]
    assert fixed[0] == fixed[1] != fixed[2]
    assert {tuple(t) for (t,) in fixed[0][:30]} == {tuple(t) for t in rows.targets[0]}


def test_listed_answers_are_learned_as_one_text(folder: Path) -> None:
    rows = [Example("sky", ["blue", "white"]), Example("sun", "yellow")]
    assert [listed(e).targets for e in rows] == [("['blue', 'white']",), ("yellow",)]
    learner = read({"learner": "decoder", "tokens": "bytes", "targets": "listed", **LISTED})
    fitted = learner.fit([Example("a", ["b", "c"])] * 4, seed=0)
    assert fitted.answer(["a"]) == ["['b', 'c']"]


def test_beams_find_answers_that_are_at_least_as_likely(folder: Path) -> None:
    block = {"learner": "fine-tune", "model": str(folder), **QUICK, "steps": 2, "rate": 1e-2}
    fitted: Any = read(block).fit(PAIRS)
    inputs = [x for x, _ in PAIRS]
    greedy = fitted.answer(inputs)
    fitted.learner = read({**block, "beams": 4})
    called: list[int] = []
    generate = fitted.base.model.generate
    fitted.base.model.generate = lambda **given: (
        called.append(given["num_beams"]) or generate(**given)  # type: ignore[func-returns-value]
    )
    assert len(fitted.answer(inputs)) == len(greedy)
    assert set(called) == {4}


def test_pointing_learners_refuse_settings_of_writing() -> None:
    with pytest.raises(LearnerError, match="beams is for learners that generate text"):
        read({"learner": "extractive", "beams": 4})


def test_sizes_are_known_without_data() -> None:
    assert {n: size(n) for n in ("bilstm", "transformer", "ndr")} == {
        "bilstm": 407_816,
        "transformer": 155_018,
        "ndr": 673_299,
    }
    assert size("fine-tune") is None
    assert size("majority") is None
    words = [" ".join(f"w{i}" for i in range(first, first + 8)) for first in range(0, 40, 8)]
    stories = [(". ".join(words), str(answer)) for answer in range(8)]
    fitted: Any = read({"learner": "entnet", "steps": 1, "batch": 8}).fit(stories)
    assert fitted.parameters["trained"] == size("entnet")
