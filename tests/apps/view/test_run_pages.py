"""Runs in the browser: wrong answers first, two learners side by side, heat maps, what is running;
damage hides nothing else.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import taskloom as tl
from taskloom.analysis import plot_style
from taskloom.apps.view import run_pages, stores
from taskloom.apps.view.folders import ViewedFolders
from taskloom.apps.view.prediction_rows import PredictionRows
from taskloom.apps.view.run_pages import curve_plot
from taskloom.apps.view.server import application
from taskloom.apps.view.suite_process import SuiteProcess
from taskloom.experiments import files as run_files
from taskloom.experiments.execute.driver import Claims
from taskloom.experiments.sources import runs as read_runs
from taskloom.experiments.statistics import wilson
from taskloom.experiments.store import Store
from tests.apps.view import hostile
from tests.apps.view.hostile import SCRIPT, assert_harmless
from tests.apps.view.hostile_runs import TRAITS, fill
from tests.experiments import sweeps
from tests.experiments.made_up_runs import write


@dataclass(frozen=True, slots=True)
class Filled:
    """A viewer of a filled store."""

    viewer: TestClient
    folder: Path
    name: str
    runs: dict[str, list[str]]

    def get(self, path: str, status: int = 200, /, **query: str) -> str:
        """Return a page of the store, after checking its status and that nothing in it is markup
        from data.
        """
        answer = self.viewer.get(f"/runs/{self.name}{path}", params=query)
        assert answer.status_code == status, answer.text
        assert_harmless(answer.text)
        return answer.text


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    folder = tmp_path_factory.mktemp("stores") / "runs"
    return folder, fill(folder)


@pytest.fixture
def filled(
    tmp_path: Path,
    original: tuple[Path, dict[str, list[str]]],
    pictures: SuiteProcess,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Filled]:
    monkeypatch.setattr(stores, "FRESH", 0.0)
    folder = tmp_path / "runs"
    shutil.copytree(original[0], folder)
    name = next(f.name for f in ViewedFolders([tmp_path]).every() if f.kind == "store")
    app = application([tmp_path])
    app.state.viewer.pictures = pictures
    with TestClient(app, base_url="http://127.0.0.1") as viewer:
        yield Filled(viewer, folder, name, original[1])


def indices(page: str, split: str = "test") -> list[int]:
    """Return the examples that a page lists, in its order."""
    return [int(n) for n in re.findall(rf'<span class="more">{split} (\d+)', page)]


def test_a_store_shows_results_runs_and_progress(filled: Filled) -> None:
    page = filled.get("")
    assert "4 runs" in re.sub(r"<[^>]*>", "", page)
    assert "<strong>4</strong> finished" in page
    assert page.count("/predictions?") == 8
    accuracy = {
        row["learner"]: row["mean"]
        for row in read_runs(filled.folder).accuracy(over="seeds", split="test")
    }
    for mean in accuracy.values():
        assert f"{mean:.3f}" in page


def test_intervals_are_those_of_the_command_line(filled: Filled) -> None:
    page = filled.get("")
    rows = list(read_runs(filled.folder).accuracy())
    assert rows
    for row in rows:
        assert f"{row['low']:.3f} to {row['high']:.3f}" in page


def test_home_keeps_the_data_of_runs_apart_and_counts_runs(filled: Filled) -> None:
    base = filled.folder.parent
    hostile.write_dataset(base / "own", hostile.EXAMPLES, hostile.TRAITS)
    hostile.write_dataset(filled.folder / "data" / "used", hostile.EXAMPLES, hostile.TRAITS)
    (base / "damaged").mkdir()
    (base / "damaged" / "store.json").write_text("{")
    with TestClient(application([base]), base_url="http://127.0.0.1") as viewer:
        page = viewer.get("/").text
    assert '<p class="lead">1 dataset, 4 runs in 2 stores.</p>' in page
    own, run_data = page.split('<details class="run-data">')
    assert "1 dataset that the runs used" in run_data
    names = {f.path.name: f.name for f in ViewedFolders([base]).every()}
    assert f"/data/{names['own']}" in own
    assert f"/data/{names['used']}" not in own
    assert f"/data/{names['used']}" in run_data
    assert f"/runs/{names['runs']}/compare" in own


def test_the_runs_of_a_store_can_be_searched_and_paged(filled: Filled) -> None:
    page = filled.get("", q="strong")
    assert page.count('href="/runs/') - page.count("/compare") - page.count("/heat") >= 2
    assert "1 to 2 of 2" in page
    assert "No run matches" in filled.get("", q="no such learner")


def test_wrong_answers_come_first(filled: Filled) -> None:
    run = filled.runs["weak"][0]
    page = filled.get("/predictions", run=run, split="test")
    table = run_files.read_parquet(
        filled.folder / run[:2] / run / run_files.PREDICTIONS
    ).to_pylist()
    rows = [row for row in table if row["split"] == "test"]
    wanted = [row["index"] for row in sorted(rows, key=lambda row: (row["score"], row["index"]))]
    assert indices(page) == wanted[: run_pages.ANSWERS]
    assert f"of {len(rows)} right" in page
    assert indices(filled.get("/predictions", run=run, split="test", start="8")) == wanted[8:16]
    right = filled.get("/predictions", run=run, split="test", show="right")
    assert (
        indices(right) == [row["index"] for row in rows if row["score"] == 1][: run_pages.ANSWERS]
    )


def test_predictions_can_be_searched_and_filtered_by_trait(
    filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_pages, "ANSWERS", 60)
    run = filled.runs["weak"][0]
    page = filled.get("/predictions", run=run, split="test", **{"trait.length": "3", "show": "all"})
    assert sorted(indices(page)) == [i for i in range(60) if TRAITS[i % 12]["length"] == "3"]
    assert indices(filled.get("/predictions", run=run, split="test", q="test 17 ")) == [17]
    hostile = filled.get("/predictions", run=run, split="test", **{f"trait.{SCRIPT}": "1"})
    assert "of 30 right" in hostile
    assert "No answer matches" in filled.get(
        "/predictions", run=run, split="test", **{"trait.none": "1"}
    )


def test_twins_are_shown_beside_their_originals_with_the_edit_lit(tmp_path: Path) -> None:
    sizes = {"train": {"n": 20}, "dev": {"n": 5}, "test": {"n": 30}}
    recipe = {"recipe": "babi/9", "set": {"splits": sizes, "twins": {"test": ["flip"]}}}
    runs = tl.run(recipes=[recipe], learners=["majority"], store=tmp_path / "runs", workers=1)
    rows = PredictionRows(Store(tmp_path / "runs"), runs.names[0])
    answers = rows.with_originals(rows.take(rows.columns("test-flip").rows), "test-flip")
    pairs = [answer for answer in answers if answer.pair]
    assert len(pairs) > 20
    for answer in pairs:
        assert answer.pair is not None
        assert answer.pair.original.index == answer.index
        assert answer.pair.original.targets != answer.targets
        before, after = answer.pair.before, answer.pair.after
        assert "".join(piece for piece, _ in before) == answer.pair.original.input
        assert "".join(piece for piece, _ in after) == answer.input
        assert [lit for _, lit in (*before, *after)].count(True) in (1, 2)
    name = next(f.name for f in ViewedFolders([tmp_path]).every() if f.kind == "store")
    with TestClient(application([tmp_path]), base_url="http://127.0.0.1") as viewer:
        query = {"run": runs.names[0], "split": "test-flip"}
        page = viewer.get(f"/runs/{name}/predictions", params=query).text
    assert_harmless(page)
    assert "Twin, " in page
    assert "<mark>" in page


def test_accuracy_by_trait_is_that_of_the_library(filled: Filled) -> None:
    run = filled.runs["weak"][1]
    page = filled.get("/predictions", run=run, split="test", by="length")
    results = read_runs(filled.folder).where({"run": run}).accuracy(by="length", split="test")
    for row in results:
        assert f'{row["mean"]:.3f} <span class="more">[{row["low"]:.3f}, {row["high"]:.3f}]' in page


def test_two_runs_are_compared_example_by_example_with_the_paired_test(filled: Filled) -> None:
    a, b = filled.runs["weak"][0], filled.runs["strong"][0]
    page = filled.get("/compare", a=a, b=b, split="test")
    scores = [PredictionRows(Store(filled.folder), run).columns("test").score for run in (a, b)]
    only_b = int(((scores[1] == 1) & (scores[0] == 0)).sum())
    assert f"<strong>{only_b}</strong> only B is right" in page
    runs = read_runs(filled.folder)
    pair = runs.compare({"run": a}, {"run": b}, split="test")[0]
    seeds = runs.compare(
        {"run": filled.runs["weak"]}, {"run": filled.runs["strong"]}, split="test"
    )[0]
    for row in (pair, seeds):
        assert f"{row['difference']:+.3f}" in page
        assert row["test"].replace("'", "&#39;") in unescape(page) or row["test"] in unescape(page)
    listed = filled.get("/compare", a=a, b=b, split="test", show="b")
    assert len(indices(listed)) == min(7, only_b)
    by_trait = filled.get("/compare", a=a, b=b, split="test", by="length")
    assert by_trait.count(">McNemar") == 4


def test_a_comparison_of_a_run_with_itself_says_so(filled: Filled) -> None:
    run = filled.runs["weak"][0]
    assert "A and B are the same run" in filled.get("/compare", a=run, b=run)


def test_a_heat_map_begins_with_the_traits_that_tell_most(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    traits = [
        {
            "alike": str(i % 3),
            "depth": str(i % 4),
            "depth_name": "abcd"[i % 4],
            "half": "xy"[i // 20],
            "name": str(i),
        }
        for i in range(40)
    ]
    scores = [float(i % 4 < 2 or (i < 20 and i % 4 == 3)) for i in range(40)]
    run = write(store, {"ood": scores}, traits=traits)
    telling = PredictionRows(store, run).telling_traits("ood")
    assert telling == [
        "depth",
        "half",
        "alike",
    ], "not the name of each example, nor a trait that renames another"


def test_the_default_axes_of_a_heat_map_fill_more_than_half_of_it(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    # The group tells most, but each group has one depth; rarely, a second value explains more.
    traits = [
        {
            "group": f"{i % 3}-{i % 6}",
            "depth": str(i % 3),
            "kind": "xy"[i // 60],
            "odd": str(i == 7),
        }
        for i in range(120)
    ]
    scores = [float(i % 6 == 0 or i == 7 or i > 110) for i in range(120)]
    run = write(store, {"ood": scores}, traits=traits)
    pair = PredictionRows(store, run).telling_pair("ood", [], 10)
    assert pair == ["kind", "group"], "fewer values across"
    assert PredictionRows(store, run).telling_pair("none", [], 10) == []


def test_a_pair_that_fills_nearly_the_whole_map_is_preferred(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    # The level tells more but leaves a third of its map empty.
    traits = [
        {"half": "xy"[i % 2], "level": str(i % 2 + i // 2 % 2), "third": str(i // 40)}
        for i in range(120)
    ]
    run = write(store, {"ood": [float(i % 4 == 0) for i in range(120)]}, traits=traits)
    pair = PredictionRows(store, run).telling_pair("ood", [], 10)
    assert sorted(pair) != ["half", "level"]
    assert "third" in pair


def test_a_heat_map_for_each_setting_names_it_and_opens_its_own_run(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    traits = [{"half": "xy"[i % 2], "third": str(i // 20)} for i in range(60)]
    runs = {}
    for draw, score in (("published", 0.0), ("independent", 1.0)):
        fields = {"recipe.draw": draw}
        scores = {"ood": [score] * 60}
        runs[draw] = write(store, scores, traits=traits, fields=fields, data=draw)
    with TestClient(application([tmp_path]), base_url="http://127.0.0.1") as viewer:
        name = next(f.name for f in ViewedFolders([tmp_path]).every() if f.kind == "store")
        page = viewer.get(f"/runs/{name}/heat").text
    titles = re.findall(r"<h2>(draw: \w+)</h2>", page)
    assert sorted(titles) == ["draw: independent", "draw: published"]
    for title, part in zip(titles, page.split("<h2>draw: ")[1:], strict=True):
        opened = set(re.findall(r"/predictions\?run=([0-9a-f]+)", part))
        assert opened == {runs[title.removeprefix("draw: ")]}
    assert "draw: published)" in page, "the lowest cell says to which map it belongs"


def test_a_heat_map_at_chance_says_so(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    traits = [{"half": "xy"[i % 2], "third": str(i // 40)} for i in range(120)]
    run = write(store, {"ood": [0.0] * 120}, traits=traits)
    constant = PredictionRows(store, run).best_constant("ood")
    assert constant is not None
    likely = round(constant * 20)
    at_chance = [float(i % 20 < likely) for i in range(120)]
    write(store, {"ood": at_chance}, learner="lucky", traits=traits)
    with TestClient(application([tmp_path]), base_url="http://127.0.0.1") as viewer:
        name = next(f.name for f in ViewedFolders([tmp_path]).every() if f.kind == "store")
        page = viewer.get(f"/runs/{name}/heat", params={"learner": "lucky"}).text
    assert "No cell is distinguished" in page


def test_a_heat_map_without_choices_can_be_drawn(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    # An identifier, a trait that another one determines, and two that fill a third of their map.
    traits = [
        {"id": str(i), "a": str(i % 3), "fine": str(i % 6), "b": "xyz"[i % 3 if i > 5 else i // 2]}
        for i in range(90)
    ]
    scores = {"iid": [0.0] * 90, "easy": [1.0] * 90, "ood": [float(i % 2) for i in range(90)]}
    run = write(store, scores, traits=traits, recipe="ctl/S")
    write(store, {"ood": [1.0] * 90}, traits=traits, recipe="ctl/A")
    assert PredictionRows(store, run).telling_pair("ood", [], 10) != ["a", "fine"]
    with TestClient(application([tmp_path]), base_url="http://127.0.0.1") as viewer:
        name = next(f.name for f in ViewedFolders([tmp_path]).every() if f.kind == "store")
        page = viewer.get(f"/runs/{name}/heat").text
        large = viewer.get(f"/runs/{name}/heat", params={"x": "id", "y": "a"}).text
    assert '<option value="ctl/S" selected>' in page, "the recipe with the lowest score"
    assert '<option value="ood" selected>' in page, "the lowest held-out split, not iid"
    assert '<option value="id" selected>' not in page
    assert "<td class" in page
    assert "3 rows and 90 columns are too many" in large
    assert "Draw traits that fit" in large
    assert 'class="key"' not in large, "no key without a map"


def test_heat_maps_have_the_means_of_the_library(filled: Filled) -> None:
    learner = Store(filled.folder).scores(filled.runs["weak"][0])["learner"]
    page = filled.get("/heat", learner=learner, split="test", x="length", y="task")
    results = (
        read_runs(filled.folder)
        .where(learner=learner)
        .accuracy(by=["task", "length"], split="test")
    )
    cells = re.findall(
        r'<td class="shade-(\d+)[^"]*">(?:<a [^>]*>)?<b>([\d.]+)</b>(?:<i .*?</i>)?<span>(\d+)</span>',
        page,
    )
    assert sorted((mean, n) for _, mean, n in cells) == sorted(
        (f"{r['mean']:.2f}", str(r["n"])) for r in results
    )


def test_a_run_shows_scores_curves_configuration_and_log(filled: Filled) -> None:
    page = filled.get("/run", run=filled.runs["strong"][0])
    assert page.count("learning curves over") == 2
    assert "var(--c0," in page
    assert "learners:" in page
    assert "log &lt;script&gt;" in page


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("/run", {"run": "0" * 32}, 404),
        ("/run", {"run": "../../../etc/passwd"}, 404),
        ("/run", {}, 404),
        ("/predictions", {"run": "{run}", "split": "none"}, 404),
        ("/predictions", {"run": "{run}", "show": "some"}, 422),
        ("/predictions", {"run": "{run}", "start": "-1"}, 422),
        ("/compare", {"a": "{run}", "b": "none"}, 404),
        ("/heat", {"x": "none"}, 404),
        ("/heat", {"recipe": "none"}, 404),
    ],
)
def test_addresses_that_lead_nowhere_are_one_sentence(
    filled: Filled, path: str, query: dict[str, str], status: int
) -> None:
    filled.get(path, status, **{k: v.format(run=filled.runs["weak"][0]) for k, v in query.items()})


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"schema": 1}', b'{"schema": 9}', b"[" * 100_000]
)
def test_a_damaged_run_hides_no_other(filled: Filled, content: bytes) -> None:
    bad = filled.runs["weak"][0]
    (filled.folder / bad[:2] / bad / run_files.SCORES).write_bytes(content)
    page = filled.get("")
    assert "1 damaged run" in page
    assert page.count("/predictions?") == 6
    filled.get("/run", 422, run=bad)
    filled.get("/predictions", run=filled.runs["strong"][0])
    filled.get("/compare")
    filled.get("/heat")


@pytest.mark.parametrize(
    "file",
    [
        run_files.PREDICTIONS,
        run_files.CURVES,
        run_files.CONFIG,
        run_files.ENVIRONMENT,
        run_files.LOG,
    ],
)
@pytest.mark.parametrize("content", [None, b"", b"PAR1 nonsense PAR1", b"\xff\xfe{[" * 50])
def test_damaged_and_missing_files_of_a_run_are_no_500(
    filled: Filled, file: str, content: bytes | None
) -> None:
    run = filled.runs["weak"][0]
    path = filled.folder / run[:2] / run / file
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    filled.get("")
    filled.get("/run", run=run)
    for page in (
        "/predictions?run=" + run,
        f"/compare?a={run}&b={filled.runs['strong'][0]}",
        "/heat",
    ):
        answer = filled.viewer.get(f"/runs/{filled.name}{page}")
        assert answer.status_code in (200, 404, 422)
        assert_harmless(answer.text)


def test_predictions_that_lead_out_of_the_store_are_not_read(
    filled: Filled, tmp_path: Path
) -> None:
    run, other = filled.runs["weak"][0], filled.runs["strong"][0]
    outside = tmp_path.parent / "outside.parquet"
    shutil.copy(filled.folder / other[:2] / other / run_files.PREDICTIONS, outside)
    path = filled.folder / run[:2] / run / run_files.PREDICTIONS
    path.unlink()
    os.symlink(outside, path)
    filled.get("/predictions", 422, run=run)


def test_running_failed_and_unfinished_jobs_are_shown_without_writing_anything(
    filled: Filled,
) -> None:
    store = Store(filled.folder)
    claims = Claims(filled.folder / "work" / "claims")
    try:
        assert claims.take("ab" * 16)
        reason = store.failure_file("cd" * 16)
        reason.parent.mkdir(parents=True)
        reason.write_text(json.dumps({"reason": f"loss was not a number {SCRIPT}"}))
        job = filled.folder / "work" / "jobs" / "job-1"
        job.mkdir(parents=True)
        (job / run_files.LOG).write_text(f"step 100 {SCRIPT}\n")
        before = sorted(p for p in filled.folder.rglob("*") if ".owner" not in p.name)
        page = filled.get("/live")
        assert "<strong>1</strong> running" in page
        assert "loss was not a number" in page
        assert "step 100" in page
        assert sorted(p for p in filled.folder.rglob("*") if ".owner" not in p.name) == before
    finally:
        claims.close()
    assert "none running now" in filled.get("/live")


def test_a_claim_whose_owner_has_died_is_not_running(filled: Filled) -> None:
    claims = filled.folder / "work" / "claims"
    claims.mkdir(parents=True, exist_ok=True)
    os.symlink("gone", claims / ("ab" * 16))
    os.symlink("../../../../etc/passwd", claims / ("cd" * 16))
    (claims / ("ef" * 16)).write_text("a copied store")
    assert "none running now" in filled.get("/live")


def test_a_new_run_appears_and_a_deleted_one_goes(filled: Filled) -> None:
    filled.get("")
    gone = filled.runs["weak"][0]
    shutil.rmtree(filled.folder / gone[:2] / gone)
    assert "<strong>3</strong> finished" in filled.get("")
    filled.get("/run", 404, run=gone)


def test_a_store_of_another_version_is_one_sentence(filled: Filled) -> None:
    (filled.folder / "store.json").write_text('{"schema": 99}')
    filled.get("", 422)
    assert filled.viewer.get("/").status_code == 200


@pytest.mark.parametrize("last", [1.5, -2.0, 1e300, -1e300])
def test_curves_of_any_values_are_drawn(last: float) -> None:
    plot = curve_plot("loss", {"a\u202e<b>": [(0.0, 0.5), (10.0, last)], "iid": [(0.0, 0.1)]})
    assert plot is not None
    assert "<b>" not in plot.svg
    assert plot.lines == [("a⟨U+202E⟩<b>", 1, last), ("iid", 0, 0.1)]
    assert curve_plot("score", {"iid": [(0.0, last), (1.0, 0.5)]}, (0.0, 1.0)) is not None
    assert curve_plot("score", {"iid": [(0.0, 0.5)]}, (0.0, 1.0)) is None


def test_the_viewer_has_the_colours_of_reports() -> None:
    style = (Path(run_pages.__file__).parent / "static" / "viewer.css").read_text()
    for number, (light, dark) in enumerate(plot_style.COLOURS):
        assert re.findall(rf"--c{number}: (#\w+);", style) == [light, dark]


def test_the_home_page_shows_the_best_mean_over_seeds(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    for seed, right in enumerate((0.0, 1.0)):  # the best seed is not the best learner
        write(store, {"ood": [right] * 8}, learner="lucky", seed=seed)
        write(store, {"ood": [1.0] * 6 + [0.0] * 2}, learner="steady", seed=seed)
    with TestClient(application([tmp_path]), base_url="http://127.0.0.1") as viewer:
        page = viewer.get("/").text
    [best] = re.findall(r'class="best">(.*?)</span></span>', page)
    assert "0.750" in best
    assert "steady" in best
    assert "mean of 2 seeds" in best


def test_predictions_state_the_interval_and_can_be_paged_to_any_place(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    run = write(store, {"ood": [float(i < 150) for i in range(200)]})
    with TestClient(application([tmp_path]), base_url="http://127.0.0.1") as viewer:
        name = next(f.name for f in ViewedFolders([tmp_path]).every() if f.kind == "store")
        page = viewer.get(f"/runs/{name}/predictions", params={"run": run, "start": "40"}).text
    low, high = wilson(150, 200)
    assert f"(75.0 %, 95 % interval {100 * low:.1f} % to {100 * high:.1f} %)" in page
    assert "the most frequent answer alone:" in page.partition("<h2")[0]
    first, last = re.findall(r'<nav class="paging".*?</nav>', page, re.DOTALL)
    assert re.findall(r"start=(\d+)", first) == re.findall(r"start=(\d+)", last)
    pages = re.findall(r'aria-label="Page (\d+)"( aria-current)?', first)
    numbers = [int(number) for number, _ in pages]
    size = run_pages.ANSWERS
    assert numbers[0] == 1
    assert numbers[-1] == -(-200 // size)
    assert [int(n) for n, current in pages if current] == [40 // size + 1]


def test_tables_are_sorted_by_any_column(filled: Filled) -> None:
    def order(page: str) -> list[str]:
        return [name for name in re.findall(r"/run\?run=(\w+)", page) if len(name) == 32]

    scores = {run.name: run.score("test") or 0.0 for run in read_runs(filled.folder)}
    best_first = [scores[name] for name in order(filled.get("", runs_sort="-score test"))]
    assert best_first == sorted(scores.values(), reverse=True)
    worst_first = [scores[name] for name in order(filled.get("", runs_sort="score test"))]
    assert worst_first == sorted(scores.values())
    means = re.findall(
        r'Mean score"><span class="heat shade-\d+">([\d.]+)', filled.get("", sort="-mean")
    )
    assert means == sorted(means, reverse=True)
    assert len(means) > 1
    for sort in ("nothing", SCRIPT):
        filled.get("", 422, sort=sort)
        filled.get("", 422, runs_sort=sort)


def test_runs_are_called_by_what_varies_and_not_by_digests(filled: Filled) -> None:
    run = read_runs(filled.folder).names[0]
    for path, query in (("", {}), ("/predictions", {"run": run}), ("/compare", {}), ("/heat", {})):
        page = re.sub(r"<[^>]*>", " ", filled.get(path, **query))
        assert run[:8] not in page


def test_the_home_page_lists_stores_with_runs_scores_and_dates(filled: Filled) -> None:
    page = filled.viewer.get("/").text
    assert_harmless(page)
    assert '<td class="n" data-head="Runs">4</td>' in page
    best = max(run.score("test") or 0.0 for run in read_runs(filled.folder))
    assert f">{best:.3f}</span>" in page
    assert re.search(r'data-head="Last finished">\d\d \w+ \d{4}', page)
    (filled.folder / "store.json").write_text('{"schema": 99}')
    assert "99" in filled.viewer.get("/").text


def test_a_coarser_trait_that_explains_as_much_is_shown_in_place_of_groups(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    traits = [{"depth": str(i % 2), "group": f"{i % 2}-{i % 3}"} for i in range(60)]
    run = write(store, {"ood": [float(i % 2) for i in range(60)]}, traits=traits)
    assert PredictionRows(store, run).telling_traits("ood") == ["depth"]


def test_a_heat_map_fades_small_cells_and_marks_chance(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    # Three examples of depth 2, all wrong; many of depth 1, all right.
    traits = [{"depth": "1" if i < 57 else "2", "half": "xy"[i % 2]} for i in range(60)]
    run = write(store, {"ood": [float(i < 57) for i in range(60)]}, traits=traits)
    rows = PredictionRows(store, run)
    targets: list[str] = []
    for answer in rows.take(rows.columns("ood").rows):
        targets += set(answer.targets)
    constant = max(map(targets.count, targets)) / 60
    assert rows.best_constant("ood") == constant
    assert rows.best_constant("none") is None
    with TestClient(application([tmp_path]), base_url="http://127.0.0.1") as viewer:
        name = next(f.name for f in ViewedFolders([tmp_path]).every() if f.kind == "store")
        page = viewer.get(f"/runs/{name}/heat", params={"x": "depth", "y": "half"}).text
        cells = re.findall(r'class="shade-(\d+)( few)?"><a href="([^"]+)"', page)
        wrong = viewer.get(unescape(cells[3][2])).text
    assert [cell[:2] for cell in cells] == [("20", ""), ("0", " few")] * 2
    assert "<strong>1.00</strong>" in page, "a cell with few examples is not called the lowest"
    assert wrong.count('class="is-wrong') == 2, "a cell opens its wrong answers"
    assert f"alone scores {constant:.2f}" in page


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two learners on a story recipe that is a file, and the dataset of its runs."""
    folder = tmp_path_factory.mktemp("own")
    recipe = folder / "own.yaml"
    group = "{events: [MOVE], questions: [where-P], support: 1..2, length: 4..8}"
    splits = "{train: {n: 20}, test: {n: 20}}"
    recipe.write_text(f"suite: babi\ngroups: [{group}]\nsplits: {splits}\n", encoding="utf-8")
    learners = ["majority", "nearest-neighbour"]
    sweeps.fill({"recipes": [str(recipe)], "learners": learners, "seeds": 1}, folder / "runs")
    return folder


@pytest.mark.parametrize("page", ["/predictions", "/compare", "/heat"])
def test_traits_of_a_recipe_of_ones_own_have_the_names_of_their_suite(
    stories: Path, page: str
) -> None:
    with TestClient(application([stories]), base_url="http://127.0.0.1") as viewer:
        name = next(f.name for f in ViewedFolders([stories]).every() if f.kind == "store")
        run = next(iter(read_runs(stories / "runs").names))
        answer = viewer.get(f"/runs/{name}{page}", params={"run": run, "split": "test"})
    assert answer.status_code == 200
    assert "story length" in answer.text
    assert ">sentences<" not in answer.text


def test_an_answer_links_to_the_proof_of_its_example(stories: Path) -> None:
    with TestClient(application([stories]), base_url="http://127.0.0.1") as viewer:
        name = next(f.name for f in ViewedFolders([stories]).every() if f.kind == "store")
        run = next(iter(read_runs(stories / "runs").names))
        page = viewer.get(f"/runs/{name}/predictions", params={"run": run, "split": "test"}).text
        link = unescape(re.findall(r'class="proof-link" href="([^"]+)"', page)[0])
        question = re.findall(r'<p class="question">([^<]+)</p>', page)[0]
        example = viewer.get(link).text
    assert question.strip() in example
    assert "proof-steps" in example
