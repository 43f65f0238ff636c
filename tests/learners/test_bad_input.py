"""What people and machines get wrong: settings, data, folders and files. Each is answered by one
sentence.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from safetensors import safe_open  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

import taskloom  # noqa: E402
from taskloom.core.errors import InputError  # noqa: E402
from taskloom.core.example import Example  # noqa: E402
from taskloom.learners import LearnerError, TrainingError, load  # noqa: E402
from taskloom.learners.accelerated.cuda_graphs import put_back  # noqa: E402
from taskloom.learners.config import read  # noqa: E402
from taskloom.learners.interface import examples  # noqa: E402
from taskloom.learners.pretrained import trainer  # noqa: E402
from taskloom.learners.pretrained.forward import losses  # noqa: E402
from taskloom.learners.scratch.nets.bilstm import BiLSTM  # noqa: E402
from taskloom.learners.training import checkpoint  # noqa: E402
from taskloom.learners.training import step as stepper  # noqa: E402
from taskloom.learners.training.out_of_memory import in_halves  # noqa: E402

DATA = [("a 1", "1"), ("b 1", "2"), ("a 2", "2"), ("b 2", "1")]
CPU_IS_FULL = (
    "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried to"
    " allocate 9 bytes"
)


def lstm(**more: Any) -> Any:
    return read(
        {
            "learner": "bilstm",
            "state": 8,
            "batch": 4,
            "steps": 3,
            "warmup": 0,
            "evaluate_every": 0,
            **more,
        }
    )


def writer(**more: Any) -> Any:
    small = {
        "state": 8,
        "layers": 1,
        "heads": 2,
        "feed_forward": 8,
        "longest_answer": 2,
        "dropout": 0.0,
    }
    loop = {"batch": 4, "steps": 3, "warmup": 0, "evaluate_every": 0}
    return read({"learner": "decoder", **small, **loop, **more})


both = pytest.mark.parametrize("made", [lstm, writer])


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (None, "is not a block of settings"),
        ({"learner": "bilstm", "training": 3}, "training: '3' is not a block of settings"),
        ({"learner": "bilstm", 1: 2}, "is not a block of settings"),
        ({"learner": "bilstm", "rate": float("inf")}, "rate is inf"),
        ({"learner": "bilstm", "clip": float("nan")}, "clip is nan"),
        ({"learner": "lora", "alpha": float("nan")}, "alpha is nan"),
        (
            {"learner": "endpoint", "url": "not a url"},
            "url is 'not a url'; it must begin with http",
        ),
        ({"learner": "endpoint", "timeout": float("nan")}, "timeout is nan"),
        ({"learner": "bilstm", "threads": 10**6}, "threads is 1000000; it must be at most 1024"),
        (
            {"learner": "bilstm", "evaluate_at": [5, 0]},
            "evaluate_at has 0; steps are counted from 1",
        ),
        ({"learner": "bilstm", "steps": "many"}, "steps: .*given: 'many'"),
    ],
)
def test_settings(block: Any, message: str) -> None:
    with pytest.raises(LearnerError, match=message):
        read(block)


@both
def test_data(made: Any) -> None:
    with pytest.raises(LearnerError, match="the training split is empty"):
        made().fit([])
    with pytest.raises(LearnerError, match="the split 'ood' is empty; leave it out"):
        made().fit(DATA, {"ood": []})
    for odd in ([(1, 2)], "abc", [("a",)], [Example("a", ())]):
        with pytest.raises(
            LearnerError, match=r"the split 'train' has .* where an example or a pair"
        ):
            made().fit(odd)
    for seed in (2**70, "x"):
        with pytest.raises(LearnerError, match="the seed is"):
            made().fit(DATA, seed=seed)
    with pytest.raises(InputError, match="there are 1 inputs and candidates for 0"):
        made(steps=1).fit(DATA).logprob(["a 1"], [])
    with pytest.raises(LearnerError, match="'meta', which cannot compute here"):
        made(device="meta").fit(DATA)
    with pytest.raises(LearnerError, match="needs a folder"):
        made().fit(DATA, seconds=1.0)


def test_pairs_may_have_several_targets() -> None:
    pairs = [("big", ("small", "little")), ["hot", "cold"]]
    assert examples(pairs)[0].targets == ("small", "little")  # type: ignore[arg-type]


def test_nothing_to_begin_from() -> None:
    with pytest.raises(InputError, match="set join"):
        writer(join="").fit([("", "1"), ("a", "2")])
    tasks: Any = read("lora")
    with pytest.raises(LearnerError, match="no task was given"):
        tasks.fit_tasks({})
    odd: Any = [DATA]
    with pytest.raises(LearnerError, match="fit_tasks takes training data by task"):
        tasks.fit_tasks(odd)
    with pytest.raises(
        LearnerError, match="the split 'dev' lacks the task 'one'; give it data by task"
    ):
        tasks.fit_tasks({"one": DATA}, {"dev": DATA})
    with pytest.raises(LearnerError, match="the training inputs have none"):
        read("bag-of-words").fit([("", "1"), (" ", "2")])


@both
def test_folders(made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LearnerError, match=r"cannot be written to .*choose another"):
        made(steps=10**9).fit(DATA, folder=tmp_path / "file")  # said before the first step
    done = made().fit(DATA, folder=str(tmp_path / "run"))
    with pytest.raises(LearnerError, match="save into another folder"):
        done.save(tmp_path / "file")
    with pytest.raises(LearnerError, match="is not a fitted learner"):
        load(tmp_path / "file")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(
        TrainingError, match=r"cannot be written .*No space left.*resume from the one before"
    ):
        made(checkpoint_every=1).fit(DATA, folder=tmp_path / "other")
    assert list((tmp_path / "other").iterdir()) == []


@both
def test_damaged_checkpoints(made: Any, tmp_path: Path) -> None:
    made(steps=2).fit(DATA, folder=tmp_path)
    path = tmp_path / checkpoint.NAME
    whole = path.read_bytes()
    with safe_open(path, framework="pt") as file:
        about = file.metadata()
    nothing = {"x": torch.zeros(1)}

    def refused() -> None:
        with pytest.raises(
            LearnerError,
            match=r"is damaged or of another version .*delete it to start the run again",
        ):
            made(steps=2).fit(DATA, folder=tmp_path)

    for piece in (b"", whole[: len(whole) // 2]):
        path.write_bytes(piece)
        refused()
    for said in ({"about": "{}"}, {"about": "[]"}, about):
        save_file(nothing, path, said)
        refused()


@both
def test_damaged_models(made: Any, tmp_path: Path) -> None:
    made(steps=1).fit(DATA).save(tmp_path)
    card = json.loads((tmp_path / "learner.json").read_text())
    settings = card["settings"]
    without = {k: v for k, v in settings.items() if k != "training"}
    odd: list[dict[str, Any]] = [
        {"settings": without},
        {"settings": {**settings, "zz": 1}},
        {"curve": [{"x": 1}]},
        {"settings": None},
    ]
    for change in odd:
        (tmp_path / "learner.json").write_text(json.dumps({**card, **change}))
        with pytest.raises(
            LearnerError, match=r"is damaged or of another version .*fit and save again"
        ):
            load(tmp_path)
    (tmp_path / "learner.json").write_text(json.dumps(card))
    (weights,) = tmp_path.rglob("*.safetensors")
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(LearnerError, match=r"damaged|cannot be opened"):
        load(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000 + "]" * 100_000,
        '{"learner": ' + "9" * 5_000 + "}",
        '{"learner": {"a": 1}}',
        '{"learner": "majority", "settings": 3}',
        '{"learner": "majority", "settings": {"a": [[]]}}',
        "[1]",
        "7",
        "\xff",
    ],
    ids=["deep", "number", "name", "settings", "setting", "list", "value", "no-utf8"],
)
def test_an_edited_card_is_one_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "learner.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(LearnerError) as caught:
        load(tmp_path)
    assert len(str(caught.value)) < 600
    assert "\n" not in str(caught.value)


def test_memory_of_the_cpu() -> None:
    seen: list[list[int]] = []

    def run(rows: list[int]) -> None:
        if len(rows) > 1:
            raise RuntimeError(CPU_IS_FULL)
        seen.append(rows)

    with pytest.warns(UserWarning, match="2 examples are answered 1 at a time"):
        in_halves([1, 2], run)
    assert seen == [[1], [2]]

    def broken(rows: list[int]) -> None:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes"):
        in_halves([1, 2], broken)


@both
def test_a_network_that_does_not_fit(made: Any) -> None:
    with pytest.raises(LearnerError, match="does not fit into memory; use a smaller one"):
        made(state=2**22).fit(DATA)  # tens of terabytes


@both
def test_training_goes_on_where_the_cpu_is_full(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = made().fit(DATA).logprob(["a 1"], [["1"]])
    forward = BiLSTM.forward

    def narrow(run: Any, place: int) -> Any:
        def short(*given: Any, **more: Any) -> Any:
            rows = given[place]
            if len(getattr(rows, "ids", rows)) > 2:
                raise RuntimeError(CPU_IS_FULL)
            return run(*given, **more)

        return short

    monkeypatch.setattr(BiLSTM, "forward", narrow(forward, 2))
    monkeypatch.setattr(trainer, "losses", narrow(losses, 1))
    with pytest.warns(UserWarning, match="batches in 2 parts"):
        parts = made().fit(DATA)
    assert parts.logprob(["a 1"], [["1"]])[0] == pytest.approx(whole[0], abs=1e-4)


@both
def test_a_broken_weight_never_replaces_a_sound_checkpoint(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second step breaks a weight; its loss, from before, is still a number."""
    original, update = stepper.Stepper.advance, trainer.Adapter._update

    def advance(self: Any, *rest: Any) -> None:
        original(self, *rest)
        if int(self.state.step) == 2:
            self.state.weights[0, 0] = torch.nan

    def change(self: Any, *rest: Any) -> Any:
        found = update(self, *rest)
        if self.done == 1:
            next(iter(self.trained.values())).data.view(-1)[0] = torch.nan
        return found

    with monkeypatch.context() as patch:
        patch.setattr(stepper.Stepper, "advance", advance)
        patch.setattr(trainer.Adapter, "_update", change)
        with pytest.raises(
            TrainingError,
            match=r"a weight is not a number after step 1; .*resumes from the checkpoint",
        ):
            made(checkpoint_every=1).fit(DATA, folder=tmp_path)
    assert made(checkpoint_every=1, rate=1e-5).fit(DATA, folder=tmp_path).answer(["a 1"])


def test_steps_before_a_capture_leave_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory may run out while a step is warmed up for a CUDA graph, which really trains."""
    kept: list[Any] = []
    run = trainer.Adapter._step

    def warm_up(adapter: Any) -> None:
        with put_back(adapter):
            run(adapter)
            raise torch.OutOfMemoryError("CUDA out of memory")

    def step(self: Any) -> None:
        before = {n: t.detach().clone() for n, t in self.trained.items()}
        with pytest.raises(torch.OutOfMemoryError):
            warm_up(self)
        kept.append(all(bool((t == before[n]).all()) for n, t in self.trained.items()))
        run(self)

    plain = writer(clip=0.0).fit(DATA)
    monkeypatch.setattr(trainer.Adapter, "_step", step)
    again = writer(clip=0.0).fit(DATA)
    assert kept == [True] * 3
    assert again.logprob(["a 1"], [["1"]]) == plain.logprob(["a 1"], [["1"]])


def test_endpoints_that_are_not_there(tmp_path: Path) -> None:
    nobody = {"learner": "endpoint", "url": "http://127.0.0.1:9/v1", "model": "m", "pause": 0.01}
    with pytest.raises(
        LearnerError, match=r"2 requests is used up; the last failure: it cannot be reached"
    ):
        read({**nobody, "requests": 2}).fit(DATA).answer(["a 1", "b 2", "a 2"])
    (tmp_path / "file").write_text("")
    with pytest.raises(
        LearnerError, match=r"the cache of answers .* cannot be used .*name another"
    ):
        read({**nobody, "cache": str(tmp_path / "file" / "answers")}).fit(DATA).answer(["a 1"])
    read(nobody).fit(DATA).save(str(tmp_path / "saved"))  # type: ignore[arg-type]
    load(str(tmp_path / "saved"))


@pytest.fixture(scope="module")
def answering() -> list[Any]:
    """One fitted learner of every kind that can be asked without a server."""
    story = [
        ("Mary went to the park. Where is Mary?", "park"),
        ("Mary went to the shop. Where is Mary?", "shop"),
    ]
    small = {"learner": "bidaf", "words": 4, "state": 4, "filters": 0, "steps": 1, "batch": 2}
    made = [lstm(steps=1).fit(DATA), writer(steps=1).fit(DATA), read(small).fit(story)]
    return made + [
        read(name).fit(DATA) for name in ("majority", "nearest-neighbour", "bag-of-words")
    ]


def test_what_is_asked_must_be_a_list_of_texts(answering: list[Any]) -> None:
    for fitted in answering:
        asked = [fitted.answer, lambda x, f=fitted: f.logprob(x, [["1"]] * 3)]
        if fitted.curve:  # a baseline has no states
            asked.append(fitted.represent)
        for ask in asked:
            with pytest.raises(
                InputError, match=r"are the bare text 'a 1'; give a list of texts, e.g. \['a 1'\]"
            ):
                ask("a 1")
            with pytest.raises(InputError, match="are None; give a list"):
                ask(None)
            with pytest.raises(InputError, match="have '1' where a text should be"):
                ask(["a 1", 1, "b 1"])
            with pytest.raises(InputError, match="half a character"):
                ask(["a 1", "\ud83d", "b 1"])
        with pytest.raises(InputError, match="the candidates of an input are the bare text '12'"):
            fitted.logprob(["Mary is here. Where is Mary?"], ["12"])


def test_any_sequence_of_texts_can_be_asked() -> None:
    fitted = lstm(steps=1).fit(DATA)
    inputs = [x for x, _ in DATA]
    for kind in (tuple, iter, np.array):
        assert fitted.answer(kind(inputs)) == fitted.answer(inputs)
        assert (fitted.represent(kind(inputs)) == fitted.represent(inputs)).all()


@both
def test_data_of_another_shape(made: Any) -> None:
    whole = taskloom.make("ctl/A", set=["splits.train.n=300"])
    for odd in (whole, {"train": DATA}):
        with pytest.raises(
            LearnerError, match=r"is a whole dataset; give one of its splits, e.g. data\['train'\]"
        ):
            made().fit(odd)
    for nothing in (None, 3):
        with pytest.raises(LearnerError, match=r"the split 'train' is (None|3); give a split"):
            made().fit(nothing)
    with pytest.raises(LearnerError, match="evaluate must be splits by name"):
        made().fit(DATA, DATA)
    with pytest.raises(LearnerError, match="the seed is True"):
        made().fit(DATA, seed=True)
    broken: list[Any] = [[("\ud83d", "1")], [("a", ["1", "\ud83d"])], [Example("a", ("1", 2))]]  # type: ignore[arg-type]
    for rows in broken:
        with pytest.raises(InputError, match="the split 'train' has"):
            made().fit(rows)
    with pytest.raises(LearnerError, match="has no state '1'"):
        made(steps=1).fit(DATA).represent(["a 1"], 1)
