"""Datasets as tasks of lm-evaluation-harness: what is written, and that the harness scores as
Taskloom does.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import taskloom as tl
from taskloom.cli import run
from taskloom.core.errors import DataError, ParameterError
from taskloom.core.extraction import Extraction
from taskloom.core.scoring import answer_or_none
from taskloom.interop import lm_eval as adapter
from taskloom.interop.graded import from_record
from tests.interop.cases import HOSTILE, MANY, replies
from tests.interop.models import tiny_model

SMALL: dict[str, Any] = {
    "ctl/A": {"splits": {"train": {"n": 100}, "iid": {"n": MANY}}},
    "babi/8": {
        "splits": {"train": {"n": 100}, "test": {"n": MANY}},
        "vocabulary.objects": [f"thing{i}" for i in range(40)],
    },
    "zest/synthetic": {},
    "taskbench/english": {},
    "taskbench/map(antonyms[eng])": {"sequences.n": 10_000},
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lm-eval")
    tl.make(
        "ctl/A",
        folder / "a",
        set={"splits": {"train": {"n": 100}, "iid": {"n": 60}, "ood": {"n": 40}}},
    )
    assert (
        run(["export", str(folder / "a"), "--format", "lm-eval", "-o", str(folder / "tasks")]) == 0
    )
    return folder


def load_yaml(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8").replace("!function ", "")
    content: dict[str, Any] = yaml.safe_load(text)
    return content


def test_splits_are_tasks_and_traits_are_groups(written: Path) -> None:
    folder = written / "tasks" / "taskloom_ctl_A"
    assert load_yaml(folder / "taskloom_ctl_A_group.yaml")["task"] == [
        "taskloom_ctl_A_iid",
        "taskloom_ctl_A_ood",
    ]
    task = load_yaml(folder / "taskloom_ctl_A_iid.yaml")
    template = load_yaml(folder / task["include"])
    assert template["output_type"] == "multiple_choice"
    assert template["doc_to_choice"] == list("01234567")
    generative = load_yaml(folder / "taskloom_ctl_A_generative_iid.yaml")
    assert load_yaml(folder / generative["include"])["output_type"] == "generate_until"
    lengths = load_yaml(folder / "taskloom_ctl_A_iid_by_length_group.yaml")["task"]
    parts = [load_yaml(folder / f"{name}.yaml")["dataset_kwargs"]["value"] for name in lengths]
    assert parts == sorted({e.traits["length"] for e in tl.load(written / "a")["iid"]})


def test_documents_of_a_part_have_its_trait_and_the_best_choice_is_scored(written: Path) -> None:
    data = written / "tasks" / "taskloom_ctl_A" / "data"
    whole = adapter.documents(data, split="iid", train="train", version=1.0)
    part = adapter.documents(data, split="iid", trait="length", value=3)
    assert len(whole["test"]) == 60
    assert len(whole["train"]) == len(tl.load(data)["train"])
    assert {json.loads(d["record"])["traits"]["length"] for d in part["test"]} == {3}
    for doc in whole["test"]:
        likely = [(-1.0 if i == doc["choice"] else -2.0, False) for i in range(8)]
        unlikely = [(-3.0 if i == doc["choice"] else -2.0, False) for i in range(8)]
        assert adapter.choose(data, doc, likely) == {"acc": 1.0, "acc_norm": 1.0}
        assert adapter.choose(data, doc, unlikely) == {"acc": 0.0, "acc_norm": 0.0}


def test_hostile_generations_score_zero(tmp_path: Path) -> None:
    tl.make("babi/8", tmp_path, set={"splits": {"test": {"n": 12}}})
    doc, *_ = adapter.documents(tmp_path, split="test")["test"]
    assert adapter.closed_answers_of(tmp_path) == ()
    for reply in HOSTILE:
        assert adapter.score(tmp_path, doc, [reply], extract="final") == {"score": 0.0}


def test_a_folder_that_is_none_or_is_taken_is_refused(written: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="exists already"):
        adapter.export_lm_eval(written / "a", written / "tasks")
    with pytest.raises(DataError, match="is not a Taskloom dataset"):
        adapter.export_lm_eval(tmp_path, tmp_path / "tasks")


def test_a_longer_answer_is_chosen_by_its_likelihood_per_character(tmp_path: Path) -> None:
    tl.make("babi/1", tmp_path, set={"splits": {"train": {"n": 400}, "test": {"n": 12}}})
    answers = adapter.closed_answers_of(tmp_path)
    long, short = max(answers, key=len), min(answers, key=len)
    doc = next(d for d in adapter.documents(tmp_path, split="train")["test"] if d["target"] == long)
    # Likelier per character, though less likely as a whole.
    sums = {long: -1.0 * len(long), short: -1.1 * len(short)}
    results = [(sums.get(answer, -99.0), False) for answer in answers]
    assert adapter.choose(tmp_path, doc, results) == {"acc": 0.0, "acc_norm": 1.0}


def test_variants_are_written_as_asked(written: Path, tmp_path: Path) -> None:
    kinds = {"choice": ["taskloom_ctl_A"], "generation": ["taskloom_ctl_A_generative"]}
    for kind, groups in kinds.items():
        tasks = adapter.export_lm_eval(written / "a", tmp_path / kind, variants=kind)
        assert list(tasks.groups) == groups
    with pytest.raises(ParameterError, match="generation"):
        adapter.export_lm_eval(written / "a", tmp_path / "x", variants="generations")
    tl.make("babi/8", tmp_path / "open", set={"splits": {"test": {"n": 12}}})
    with pytest.raises(ParameterError, match="is choice, which needs"):
        adapter.export_lm_eval(tmp_path / "open", tmp_path / "y", variants="choice")
    readme = (tmp_path / "choice" / "taskloom_ctl_A" / "README.md").read_text(encoding="utf-8")
    assert "@software{taskloom" in readme
    assert tl.load(written / "a").digest in readme


@pytest.fixture(scope="module")
def harness() -> Any:
    return pytest.importorskip("lm_eval", reason="needs lm-eval: make test-interop")


def fake_model(answers: dict[str, str]) -> Any:
    """Return a model of the harness that answers by the input, and finds an answer likelier than
    all other choices.
    """
    from lm_eval.api.model import LM

    class Fake(LM):  # type: ignore[misc]
        def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
            return [answers[r.doc["record"]] for r in requests]

        def loglikelihood(
            self, requests: list[Any], disable_tqdm: bool = False
        ) -> list[tuple[float, bool]]:
            return [
                (-1.0 if r.args[1].strip() == answers[r.doc["record"]] else -9.0, False)
                for r in requests
            ]

        def loglikelihood_rolling(
            self, requests: list[Any], disable_tqdm: bool = False
        ) -> list[float]:
            raise NotImplementedError

    return Fake()


@pytest.mark.parametrize(
    ("recipe", "variant"), [*((recipe, "generation") for recipe in SMALL), ("ctl/A", "choice")]
)
def test_scores_are_those_of_taskloom(
    harness: Any, recipe: str, variant: str, tmp_path: Path
) -> None:
    from lm_eval.tasks import TaskManager

    data = tl.make(recipe, tmp_path / "data", set=SMALL[recipe])
    tasks = adapter.export_lm_eval(tmp_path / "data", tmp_path / "tasks", variants=variant)
    scorer = data.recipe.plan(0).scorer
    name = tasks.tasks[-1] if recipe != "ctl/A" else tasks.tasks[0]
    [file] = (tmp_path / "tasks").rglob(f"{name}.yaml")
    split = load_yaml(file)["dataset_kwargs"]["split"]
    docs = adapter.documents(tmp_path / "data", split=split)["test"]["record"][:MANY]
    examples = [from_record(json.loads(record)) for record in docs]
    texts = replies(examples, scorer)
    if tasks.choices:
        texts = [tasks.choices[i % len(tasks.choices)] for i in range(len(docs))]
    manager = TaskManager(include_path=str(tmp_path / "tasks"), include_defaults=False)
    model = fake_model(dict(zip(docs, texts, strict=True)))
    result = harness.simple_evaluate(
        model=model,
        tasks=[name],
        task_manager=manager,
        limit=MANY,
        log_samples=True,
        bootstrap_iters=0,
    )
    metric = "acc" if tasks.choices else "score"
    scores = {s["doc"]["record"]: s[metric] for s in result["samples"][name]}
    cut = Extraction.read("whole" if tasks.choices else "final")
    last = dict(zip(docs, zip(texts, examples, strict=True), strict=True))
    assert scores == {
        record: scorer.score(answer_or_none(cut(text)), example)
        for record, (text, example) in last.items()
    }
    assert len(docs) == MANY
    assert bool(tasks.choices) == (variant == "choice")
    assert result["results"][name][f"{metric},none"] == pytest.approx(
        sum(scores.values()) / len(scores), abs=0.01
    )


def test_the_command_of_the_docs_runs_with_a_tiny_model(
    harness: Any, written: Path, tmp_path: Path
) -> None:
    folder = tiny_model(tmp_path / "tiny")
    command = [
        sys.executable,
        "-m",
        "lm_eval",
        "--include_path",
        str(written / "tasks"),
        "--model",
        "hf",
    ]
    command += [
        "--tasks",
        "taskloom_ctl_A,taskloom_ctl_A_generative,taskloom_ctl_A_ood_by_length",
        "--model_args",
        f"pretrained={folder}",
    ]
    done = subprocess.run(
        [*command, "--device", "cpu", "--limit", "10"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "taskloom_ctl_A_ood_length_" in done.stdout
    for metric in ("acc", "acc_norm", "score"):
        assert re.search(rf"\|{metric} *\|", done.stdout)
