"""Datasets as Hugging Face `datasets` reads them, offline."""

from __future__ import annotations

import codecs
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import taskloom as tl
from taskloom.cli import run
from taskloom.core import tables
from taskloom.core.errors import DataError
from taskloom.data.audit import audit
from taskloom.interop import hugging_face
from taskloom.interop.hugging_face import BLANK, card, export_hf

SIZES = {"splits": {"train": {"n": 300}, "iid": {"n": 50}, "all": {"n": 20}}}


@pytest.fixture(scope="module")
def datasets() -> Any:
    return pytest.importorskip("datasets", reason="needs datasets")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hf")
    tl.make("ctl/A-independent", folder / "made", set=SIZES)
    assert run(["export", str(folder / "made"), "--format", "hf", "-o", str(folder / "out")]) == 0
    return folder


def test_a_dataset_becomes_a_dataset_dict_with_features(datasets: Any, tmp_path: Path) -> None:
    data = tl.make("ctl/A-independent", set=SIZES)
    result = data.to_hf()
    assert {name: len(split) for name, split in result.items()} == {
        "train": 300,
        "iid": 50,
        "any": 20,
    }
    # `List` is new in version 4.
    kind = getattr(datasets, "List", datasets.Sequence)
    assert result["train"].features["targets"] == kind(datasets.Value("string"))
    assert set(result["train"].features["traits"]) == {
        "length",
        "functions",
        "groups",
        "values",
        "seen",
    }
    assert data.digest in result["train"].info.description
    assert result["iid"]["input"][:3] == [e.input for e in data["iid"]][:3]
    result.save_to_disk(tmp_path / "saved")
    assert datasets.load_from_disk(tmp_path / "saved")["any"][:] == result["any"][:]


def test_the_exported_folder_loads_by_its_path_alone(
    datasets: Any, exported: Path, tmp_path: Path
) -> None:
    loaded = datasets.load_dataset(str(exported / "out"), cache_dir=str(tmp_path))
    made = tl.load(exported / "made").to_hf()
    assert set(loaded) == {"train", "iid", "any"}
    for split in loaded:
        targets = [targets[0] for targets in made[split]["targets"]]
        assert loaded[split]["target"] == targets
        assert loaded[split].remove_columns(["target", "description"])[:] == made[split][:]


def test_the_card_says_what_it_is_and_how_it_was_made(exported: Path) -> None:
    card = (exported / "out" / "README.md").read_text(encoding="utf-8")
    head = yaml.safe_load(card.split("---")[1])
    manifest = tl.load(exported / "made").manifest
    assert "license" not in head, "a licence is never assumed"
    assert head["language"] == ["en"]
    assert [entry["split"] for entry in head["configs"][0]["data_files"]] == ["train", "iid", "any"]
    for part in (
        manifest["digest"],
        "recipe.yaml --seed 0",
        "`functions`",
        "`taskloom audit`: passed. 0 leaks",
    ):
        assert part in card
    assert json.loads((exported / "out" / "audit.json").read_text())["leaks"] == []
    assert json.loads((exported / "out" / "taskloom-manifest.json").read_text()) == manifest


def test_every_task_is_a_configuration(datasets: Any, tmp_path: Path) -> None:
    data = tl.make("ctl/A-independent", set=SIZES)
    tables = {}
    for split in data.splits:
        table = data.table(split)
        tasks = [["ctl/A", "ctl/B"][row % 2] for row in range(len(table))]
        place = table.column_names.index("task")
        tables[split] = table.set_column(place, "task", pa.array(tasks))
    export_hf(tl.Dataset(data.manifest, tables), tmp_path / "out")
    names = datasets.get_dataset_config_names(str(tmp_path / "out"))
    assert set(names) == {"default", "ctl_A", "ctl_B"}
    cache = str(tmp_path / "cache")
    part = datasets.load_dataset(str(tmp_path / "out"), "ctl_B", cache_dir=cache)["train"]
    assert (len(part), set(part["task"])) == (150, {"ctl/B"})
    whole = datasets.load_dataset(str(tmp_path / "out"), cache_dir=cache)["train"]
    assert sorted(whole["index"]) == list(range(300))


def test_a_large_dataset_is_copied_file_by_file_without_an_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"splits": {"train": {"n": 3000}, "test": {"n": 50}}}
    tl.make("babi/1", tmp_path / "made", set=sizes, shard_rows=1000)
    monkeypatch.setattr(hugging_face, "MOST_AUDITED", 3000)
    monkeypatch.setattr(tl.Dataset, "table", None)  # it reads a whole split
    export_hf(tmp_path / "made", tmp_path / "out")
    files = sorted(path.name for path in (tmp_path / "out" / "data").iterdir())
    assert files == ["test-00000.parquet", *(f"train-0000{i}.parquet" for i in range(3))]
    rows = [pq.read_metadata(tmp_path / "out" / "data" / file).num_rows for file in files]
    assert rows == [50, 1000, 1000, 1000]
    text = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "Not audited" in text
    assert not (tmp_path / "out" / "audit.json").exists()


@pytest.mark.parametrize(
    ("recipe", "is_written"), [("babi/1", True), ("ctl/A-independent", True), ("babi/8", False)]
)
def test_an_evaluation_is_written_if_inspects_scorers_can_judge_the_answers(
    recipe: str, is_written: bool, tmp_path: Path
) -> None:
    """Answers of babi/8 are sets."""
    sizes = {"splits": {"train": {"n": 50}, "test": {"n": 20}}}
    if recipe.startswith("ctl"):
        sizes = SIZES
    export_hf(tl.make(recipe, set=sizes), tmp_path / "out")
    assert (tmp_path / "out" / "eval.yaml").exists() == is_written


def test_a_folder_that_exists_is_left_alone(exported: Path) -> None:
    with pytest.raises(DataError, match="exists already"):
        export_hf(exported / "made", exported / "out")


def test_sources_make_the_licence_theirs(tmp_path: Path) -> None:
    data = tl.make("ctl/A", set={"splits": {"train": {"n": 100}}})
    manifest = {**data.manifest, "sources": {"wordnet": "0123abcd"}}
    export_hf(tl.Dataset(manifest, data.tables), tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert yaml.safe_load(card.split("---")[1])["license"] == "other"
    assert "- wordnet, digest `0123abcd`" in card


OWN = """
import taskloom as tl


@tl.task("calendar/weekday", describe="Name the day.", scorer=tl.exact)
def weekday(rng: tl.Random) -> tl.Example:
    return tl.Example(str(rng.randint(0, 29)), "Monday")
"""


def test_the_card_of_a_task_of_ones_own_has_its_name_and_no_licence_but_a_given_one(
    tmp_path: Path,
) -> None:
    file = tmp_path / "calendar_task.py"
    file.write_text(OWN, encoding="utf-8")
    tl.make(
        file,
        tmp_path / "made",
        set={"splits": {"train": {"n": 20}, "dev": {"n": 5}, "test": {"n": 9}}},
    )
    export_hf(tmp_path / "made", tmp_path / "out")
    text = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    head = yaml.safe_load(text.split("---")[1])
    assert head["pretty_name"] == "calendar/weekday"
    assert "license" not in head
    assert answers_of(text)["Under which licence?"] == BLANK
    assert "rows repeat an earlier row of their split" in text
    command = ["export", str(tmp_path / "made"), "--format", "hf", "-o", str(tmp_path / "named")]
    assert run([*command, "--licence", "cc-by-4.0"]) == 0
    named = (tmp_path / "named" / "README.md").read_text(encoding="utf-8")
    assert yaml.safe_load(named.split("---")[1])["license"] == "cc-by-4.0"


def test_a_card_has_the_authors_and_the_file_that_makes_the_data_again(tmp_path: Path) -> None:
    file = tmp_path / "calendar_task.py"
    file.write_text(OWN, encoding="utf-8")
    splits = {"train": {"n": 20}, "dev": {"n": 5}, "test": {"n": 9}}
    made = tl.make(file, tmp_path / "made", set={"splits": splits})
    tl.export(
        tmp_path / "made", "hf", tmp_path / "out", task=file, authors=["Ada Lovelace", "A. Turing"]
    )
    text = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "author = {Ada Lovelace and A. Turing}" in text
    assert answers_of(text)["Who created it?"] == "Ada Lovelace, A. Turing."
    assert "`calendar_task.py` of this folder" in text
    assert "language" not in yaml.safe_load(text.split("---")[1]), "unknown for a task of one's own"
    file.unlink()
    # In a process of its own, which has not seen the task yet.
    command = [sys.executable, "-m", "taskloom", "make", "out/recipe.yaml", "-o", "again"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert tl.load(tmp_path / "again").manifest["digest"] == made.manifest["digest"]
    plain = (tmp_path / "made" / "README.md").read_text(encoding="utf-8")
    assert "# calendar/weekday" in plain
    assert "Name the day." in plain


def test_split_and_format_go_together(capsys: pytest.CaptureFixture[str], exported: Path) -> None:
    folder = str(exported / "made")
    assert run(["export", folder, "--format", "hf", "-o", "x", "--split", "train"]) == 2
    assert "--split is for the formats of suites; hf takes all splits" in capsys.readouterr().err
    assert run(["export", folder, "--format", "hff", "-o", "x"]) == 2
    assert "there is no format 'hff' but hf, inspect" in capsys.readouterr().err


def test_an_unknown_format_is_named_before_a_missing_split(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tl.make("babi/1", tmp_path / "stories", set={"splits": {"train": {"n": 5}, "test": {"n": 5}}})
    assert run(["export", str(tmp_path / "stories"), "--format", "hff", "-o", "x"]) == 2
    message = capsys.readouterr().err
    assert "there is no format 'hff'; did you mean 'hf'?" in message
    assert run(["export", str(tmp_path / "stories"), "--format", "babi", "-o", "x"]) == 2
    assert "--split is needed" in capsys.readouterr().err


def test_the_recipe_of_a_card_makes_the_same_data(tmp_path: Path) -> None:
    data = tl.make("babi/1", set={"splits": {"train": {"n": 30}, "test": {"n": 5}}}, seed=3)
    export_hf(data, tmp_path / "out")
    assert "`taskloom make recipe.yaml --seed 3 -o DIR`" in (
        tmp_path / "out" / "README.md"
    ).read_text(encoding="utf-8")
    again = tl.make(tmp_path / "out" / "recipe.yaml", seed=3)
    assert again.manifest["recipe_digest"] == data.manifest["recipe_digest"]
    assert again.digest == data.digest


def test_a_card_says_whose_code_its_recipe_needs(tmp_path: Path) -> None:
    data = tl.make("ctl/A", set={"splits": {"train": {"n": 20}}})
    manifest = {**data.manifest, "recipe": {"name": "mine.py", "task": "mine/echo", "version": 1}}
    text = card(tl.Dataset(manifest, data.tables), audit(data))
    assert "needs the Python code that defines `mine/echo`" in text
    assert "needs the Python code" not in card(data, audit(data))


def answers_of(text: str) -> dict[str, str]:
    """The questions of a card's datasheet with their answers."""
    lines = text.partition("## Datasheet")[2].splitlines()
    asked = [line.removeprefix("- *").split("* ", 1) for line in lines if line.startswith("- *")]
    return dict(asked)


def test_the_datasheet_is_answered_from_the_manifest_and_leaves_marked_blanks() -> None:
    data = tl.make("ctl/A", set={"splits": {"train": {"n": 100}}}, seed=4)
    answers = answers_of(card(data, audit(data)))
    rows = sum(entry["n"] for entry in data.manifest["splits"].values())
    assert answers["How many are there?"] == f"{rows:,}."
    assert "seed 4" in answers["All possible instances, or a sample?"]
    assert answers["Might it offend?"].startswith("0 rows")
    assert answers["Under which licence?"] == BLANK
    assert answers["Who funded it?"] == BLANK
    assert len(answers) > 30


def test_data_of_others_leave_more_blanks(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"input": "a", "target": "b"}\n', encoding="utf-8")
    own = tl.load(tmp_path)
    answers = answers_of(card(own, audit(own)))
    assert answers["How was the data acquired?"] == BLANK
    assert answers["Do third parties restrict it?"] == BLANK


def test_the_datasheet_counts_rows_with_slurs(tmp_path: Path) -> None:
    word = codecs.decode(tables._SLURS, "rot13").split()[0]
    rows = [("a", "b"), (f"x {word} y", "b"), ("c", word.upper()), (f"{word}x", "b")]
    text = "".join(json.dumps({"input": i, "target": t}) + "\n" for i, t in rows)
    (tmp_path / "train.jsonl").write_text(text, encoding="utf-8")
    own = tl.load(tmp_path)
    assert answers_of(card(own, audit(own)))["Might it offend?"].startswith("2 rows")


@pytest.mark.parametrize(
    ("name", "languages"),
    [
        ("taskbench/synonyms[spa]", ["es"]),
        ("taskbench/chain(antonyms[eng], translate[eng, fra])", ["en", "fr"]),
        ("babi/1", ["en"]),
    ],
)
def test_the_card_names_the_languages_of_the_recipe(name: str, languages: list[str]) -> None:
    data = tl.make("babi/1", set={"splits": {"train": {"n": 20}, "test": {"n": 5}}})
    recipe = {**data.manifest["recipe"], "name": name}
    sourced = {**data.manifest, "recipe": recipe, "sources": {"WordNet": "abc"}}
    head = yaml.safe_load(card(tl.Dataset(sourced, data.tables), audit(data)).split("---")[1])
    assert head["language"] == languages
    assert head["task_categories"] == ["question-answering", "text-generation"]
    # The hub asks for both of a licence that it does not know.
    assert (head["license"], head["license_name"]) == ("other", "see-sources")
    assert head["license_link"] == "README.md"
