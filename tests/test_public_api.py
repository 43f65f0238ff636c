"""The public API: what the command line does has a function under the same word."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

import taskloom as tl
from taskloom.experiments.api import FurtherKeys
from taskloom.experiments.spec.experiment import Experiment
from tests.processes import printed_elsewhere

SMALL = {"splits": {"train": {"n": 60}, "test": {"n": 20}}}
EXPERIMENT = {"recipes": [{"recipe": "babi/1", "set": SMALL}], "learners": ["majority"], "seeds": 2}

HEAVY = ("torch", "pandas", "scipy", "numpy", "pyarrow", "pydantic", "matplotlib", "yaml", "httpx")

IMPORTED = """
import json, sys
import taskloom
dir(taskloom)
print(json.dumps(sorted(sys.modules)))
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two seeds of the majority baseline."""
    folder = tmp_path_factory.mktemp("api") / "runs"
    tl.run(recipes=EXPERIMENT["recipes"], learners=["majority"], seeds=2, store=folder, workers=1)  # type: ignore[arg-type]
    return folder


def test_importing_the_package_imports_nothing_heavy() -> None:
    imported = set(json.loads(printed_elsewhere(IMPORTED)))
    assert imported.isdisjoint(HEAVY)


def test_every_public_name_can_be_had() -> None:
    for name in tl.__all__:
        assert getattr(tl, name) is not None


def test_recipes_and_learners_are_listed_with_a_line_each() -> None:
    assert tl.recipes()["ctl/A"]
    assert tl.learners()["majority"]


def test_listing_learners_works_whether_or_not_the_package_was_imported_before() -> None:
    code = "import taskloom as tl; {}print('majority' in tl.learners(), tl.learners.load.__name__)"
    for before in ("", "import taskloom.learners.baselines; "):
        assert printed_elsewhere(code.format(before)).strip() == "True load"


def test_a_recipe_is_read_by_name_mapping_and_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("extends: ctl/A\nmax_length: 4\n")
    by_name = tl.read("ctl/A", changes={"max_length": 4})
    assert isinstance(by_name, tl.Recipe)
    for other in (tl.read(file), tl.read({"extends": "ctl/A", "max_length": 4})):
        assert isinstance(other, tl.Recipe)
        assert other.digest == by_name.digest


def test_an_experiment_is_read_from_its_file_and_runs(tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(json.dumps(EXPERIMENT))
    experiment = tl.read(file)
    assert not isinstance(experiment, tl.Recipe)
    assert experiment.seeds == 2
    with pytest.raises(tl.TaskloomError, match="changes"):
        tl.read(file, changes={"seeds": 3})


def test_a_recipe_can_be_built_by_its_name() -> None:
    recipe = tl.Recipe("ctl/A", changes={"max_length": 4})
    assert recipe.digest == tl.read("ctl/A", changes=["max_length=4"]).digest  # type: ignore[union-attr]
    assert recipe.digest != tl.Recipe("ctl/A").digest
    with pytest.raises(tl.TaskloomError, match="ctl/A"):
        tl.Recipe("ctl/AA")


def test_changes_and_set_are_one_argument() -> None:
    changes = {"splits": {"train": {"n": 50}}}
    assert tl.make("ctl/A", changes=changes).digest == tl.make("ctl/A", set=changes).digest
    assert tl.apply("ctl/A", "a 1", changes={"max_length": 4}) == tl.apply(
        "ctl/A", "a 1", set={"max_length": 4}
    )
    calls: list[Any] = [
        lambda: tl.make("ctl/A", changes=changes, set=changes),
        lambda: tl.apply("ctl/A", "a 1", changes=changes, set=changes),
        lambda: tl.show("ctl/A", changes=changes, set=changes),
        lambda: tl.run(
            recipes=[{"recipe": "ctl/A", "changes": changes, "set": changes}], learners="majority"
        ),
    ]
    for call in calls:
        with pytest.raises(tl.TaskloomError, match=r"changes.*set"):
            call()


def test_a_block_of_an_experiment_may_say_changes(store: Path) -> None:
    again = tl.run(
        recipes=[{"recipe": "babi/1", "changes": SMALL}], learners="majority", seeds=2, store=store
    )
    assert sorted(again.names) == sorted(tl.runs(store).names)


def test_progress_shows_how_far_runs_are_and_watch_is_its_old_name(tmp_path: Path) -> None:
    seen: list[Any] = []
    blocks: Any = EXPERIMENT["recipes"]
    tl.run(
        recipes=blocks, learners="majority", store=tmp_path / "a", workers=1, progress=seen.append
    )
    assert seen
    seen.clear()
    with pytest.warns(DeprecationWarning, match="progress"):
        tl.run(
            recipes=blocks, learners="majority", store=tmp_path / "b", workers=1, watch=seen.append
        )
    assert seen


def test_runs_are_compared_by_folder_and_by_table(store: Path) -> None:
    by_folder = tl.compare(store, "seed=0", "seed=1", where="majority")
    by_table = tl.compare(tl.runs(store), "seed=0", "seed=1")
    assert by_folder.to_dicts() == by_table.to_dicts()
    assert by_folder.to_dicts() == tl.runs(store).compare("seed=0", "seed=1").to_dicts()


def test_power_gives_the_rows_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    from taskloom.cli import run

    rows = tl.power(gap=0.05, accuracy=0.8, seeds=5).to_dicts()
    assert run(["power", "--gap", "0.05", "--accuracy", "0.8", "--seeds", "5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plans"] == rows
    with pytest.raises(tl.TaskloomError, match="accuracy"):
        tl.power(gap=0.05, accuracy=2)


def test_rescoring_by_the_same_scorer_changes_nothing(store: Path) -> None:
    changes = tl.rescore(store, scorer="own")
    assert changes
    assert not any(change.changed for change in changes)


def test_verified_runs_have_the_scores_of_their_predictions(store: Path) -> None:
    verified = tl.verify_runs(store)
    assert (verified.runs, verified.answers, verified.wrong) == (2, 40, [])


def test_run_takes_every_key_of_an_experiment() -> None:
    own = set(inspect.signature(tl.run).parameters) - {"more"}
    assert set(Experiment.model_fields) - own == set(FurtherKeys.__annotations__)


def test_a_key_that_run_does_not_have_is_an_error_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(tl.TaskloomError, match="evaluate"):
        tl.run(recipes="ctl/A", learners="majority", store=tmp_path, evaluat=["iid"])  # type: ignore[call-arg]


def test_a_dataset_is_exported_for_tools_and_in_the_formats_of_suites(tmp_path: Path) -> None:
    tl.make("babi/1", tmp_path / "data", changes=SMALL)
    one = tl.export(tmp_path / "data", "babi", tmp_path / "qa1.txt", split="test")
    assert one.path.read_text().startswith("1 ")
    whole = tl.export(tmp_path / "data", "hf", tmp_path / "hf")
    assert (whole.path / "README.md").is_file()
    with pytest.raises(tl.TaskloomError, match="split"):
        tl.export(tmp_path / "data", "babi", tmp_path / "qa1.txt")


def test_a_saved_dataset_is_the_one_that_make_writes(tmp_path: Path) -> None:
    changes = {"splits": {"train": {"n": 5000}, "iid": {"n": 30}}}
    data = tl.make("ctl/A", changes=changes)
    saved = data.save(tmp_path / "saved")
    made = tl.make("ctl/A", tmp_path / "made", changes=changes, shard_rows=4000)
    assert saved.digest == made.digest == tl.load(tmp_path / "saved").digest
    assert tl.verify(tmp_path / "saved").ok
    names = [
        {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*.*") if p.is_file()}
        for folder in (tmp_path / "saved", tmp_path / "made")
    ]
    assert names[0] == names[1]
    with pytest.raises(tl.TaskloomError, match="saved"):
        data.save(tmp_path / "saved")


def test_a_dataset_made_elsewhere_is_saved_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_text('{"input": "a", "targets": ["b"]}\n')
    saved = tl.load(tmp_path).save(tmp_path / "copy")
    assert [example.target for example in saved["test"]] == ["b"]


@pytest.mark.parametrize(
    ("scorer", "prediction", "target", "score"),
    [
        (tl.exact, "a", "a", 1.0),
        (tl.exact, "a", "b", 0.0),
        (tl.any_of, "The Kitchen.", ["garden", "kitchen"], 1.0),
        (tl.set_of, "b, a", "a, b", 1.0),
        (tl.per_position, "a b", tl.Example("x", "a c"), 0.5),
        (tl.number_words, "two", "2", 1.0),
    ],
)
def test_scorers_are_called_with_a_prediction_and_what_is_right(
    scorer: Any, prediction: str, target: Any, score: float
) -> None:
    assert scorer(prediction, target) == score


def test_scorers_of_ones_own_are_called_as_ours_are() -> None:
    @tl.scorer("api-first-letter")
    def first_letter(prediction: str, example: tl.Example) -> float:
        return float(prediction[:1] == example.target[:1])

    @tl.scorer("api-length")
    class Length:
        def score(self, prediction: str, example: tl.Example) -> float:
            return float(len(prediction) == len(example.target))

        def explain(self, prediction: str, example: tl.Example) -> str:
            return ""

    assert first_letter("abc", "axx") == 1.0  # type: ignore[operator]
    assert Length("abc", "xyz") == 1.0  # type: ignore[call-arg, comparison-overlap]


def test_score_finds_the_only_split_that_fits(tmp_path: Path) -> None:
    data = tl.make(
        "ctl/A", changes={"splits": {"train": {"n": 50}, "iid": {"n": 30}, "ood": {"n": 20}}}
    )
    right = [example.target for example in data["ood"]]
    assert tl.score(data, right).to_dict()["accuracy"] == 1.0
    file = tmp_path / "answers.txt"
    file.write_text("".join(f"{answer}\n" for answer in right))
    assert tl.score(data, file).to_dict()["accuracy"] == 1.0
    with pytest.raises(tl.TaskloomError, match=r"10 predictions.*iid \(30\).*ood \(20\)"):
        tl.score(data, right[:10])


def test_score_names_the_splits_when_several_fit() -> None:
    data = tl.make(
        "ctl/A", changes={"splits": {"train": {"n": 50}, "iid": {"n": 20}, "ood": {"n": 20}}}
    )
    with pytest.raises(tl.TaskloomError, match=r"split.*iid \(20\).*ood \(20\)"):
        tl.score(data, ["0"] * 20)
    assert tl.score(data, ["0"] * 20, "iid").to_dict()["examples"] == 20


def test_score_prefers_the_test_split_to_training_of_the_same_size() -> None:
    data = tl.make("babi/1", changes={"splits": {"train": {"n": 20}, "test": {"n": 20}}})
    right = [example.target for example in data["test"]]
    assert tl.score(data, right).to_dict()["accuracy"] == 1.0


ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*")]
DEEP = re.compile(r"(?:from|import) (taskloom\.[\w.]+)")
PUBLIC = re.compile(r"taskloom\.(learners|interop\.\w+|suites\..+)")
"""Packages that pages may name: learners, one module for each other tool, and what a suite offers
beyond its recipes.
"""


def test_pages_and_examples_use_the_public_api_only() -> None:
    found = []
    for page in PAGES:
        if page.suffix not in (".md", ".py", ".ipynb"):
            continue
        for module in DEEP.findall(page.read_text(encoding="utf-8")):
            if not PUBLIC.fullmatch(module):
                found.append(f"{page.relative_to(ROOT)}: {module}")
    assert found == []


def test_a_study_is_applied_to_runs(store: Path) -> None:
    (finding,) = tl.analyse("runs/trait-accuracy", store, trait="task")
    assert finding.table is not None
    by_table = tl.analyse("runs/trait-accuracy", tl.runs(store), trait="task")
    assert str(by_table[0].table) == str(finding.table)


def test_namespaces_hold_what_suites_and_studies_need() -> None:
    assert issubclass(tl.fields.Size, tl.fields.Fields)
    assert callable(tl.figures.intervals)
    low, high = tl.statistics.wilson(1, 2)
    assert low < 0.5 < high
    assert tl.learners.read({"learner": "majority"}).name == "majority"
    assert set(tl.owners(["train", "test"], tl.Key("api"))) == {"train", "test"}
