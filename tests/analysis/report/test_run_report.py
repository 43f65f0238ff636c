"""The page about runs: everything that was asked for is on it, with the numbers of the frame, and
nothing from outside.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable
from glob import glob
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from matplotlib.text import Text

import taskloom as tl
from taskloom.analysis import figures, panels, plot_style
from taskloom.analysis.panels import Curve, Mark
from taskloom.analysis.report import run_numbers
from taskloom.analysis.report.answer_data import lit_places, shortened
from taskloom.analysis.report.run_numbers import RunNumbers
from taskloom.analysis.report.run_report import report
from taskloom.analysis.report.run_sentences import gap_sentence, mean_with_interval
from taskloom.cli.app import run as cli
from taskloom.core.errors import TaskloomError
from taskloom.core.example import Example
from taskloom.core.registry import SUITES
from taskloom.core.tables import Table
from taskloom.experiments import files as run_files
from taskloom.experiments import table as frame
from taskloom.experiments.compare import ComparedSide
from taskloom.experiments.sources.score_files import open_runs, score_groups, write_scores
from taskloom.experiments.store import Store
from taskloom.experiments.table import Runs
from taskloom.suites.babi.show import lit_story
from tests.experiments.made_up_runs import write
from tests.experiments.statistics.test_intervals import draw, generator
from tests.experiments.sweeps import fill

TRAITS = [{"length": n, "id": str(i)} for i, n in enumerate(["2", "3", "10"] * 10)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = Store(tmp_path_factory.mktemp("report") / "runs", create=True)
    for recipe in ("ctl/A", "ctl/R"):
        for learner in ("bilstm", "transformer"):
            middle = 1.0 + (learner == "bilstm")
            tables = {
                split: draw(generator(recipe, learner, split), 3, 30, middle, 0.3, 1.0)
                for split in ("iid", "ood")
            }
            for seed in range(3):
                curve = [
                    (step, split, step / 100, 1.0)
                    for step in (50, 100)
                    for split in ("train", "iid")
                ]
                scores = {split: table[seed] for split, table in tables.items()}
                write(
                    made,
                    scores,
                    recipe=recipe,
                    learner=learner,
                    seed=seed,
                    traits=TRAITS,
                    data=recipe,
                    curve=curve,
                )
    failed = made.path / "work" / "failed"
    failed.mkdir(parents=True)
    (failed / ("ab" * 16 + ".json")).write_text(
        '{"cell": "ctl/A ndr seed 7", "reason": "loss is not finite <at step> 40"}'
    )
    return made


@pytest.fixture(scope="module")
def html(store: Store, tmp_path_factory: pytest.TempPathFactory) -> str:
    return report(store.path, tmp_path_factory.mktemp("page") / "report.html").read_text(
        encoding="utf-8"
    )


class Cells(HTMLParser):
    """Headings, and the rows of the table under each."""

    def __init__(self) -> None:
        super().__init__()
        self.sections: dict[str, list[list[str]]] = {}
        self.open: list[str] = []
        self.title = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        if tag == "tr":
            self.sections.setdefault(self.title, []).append([])

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "h2":
            self.title = data
            self.sections.setdefault(data, [])
        elif self.open and self.open[-1] in ("td", "th", "button"):
            self.sections[self.title][-1].append(data)


def sections(html: str) -> dict[str, list[list[str]]]:
    parser = Cells()
    parser.feed(html)
    return parser.sections


def test_every_section_is_there(html: str) -> None:
    found = sections(html)
    assert list(found) == [
        "Findings",
        "Scores",
        "Learning curves",
        "Score by chain length",
        "Comparisons",
        "Examples",
        "Runs that failed",
        "What was run",
        "How to run it again",
    ]
    assert found["What was run"][1] == ["ctl/A", "bilstm", "0, 1, 2", "ctl/A", "1.5"]
    assert len(found["How to run it again"]) == 13
    assert html.count("<svg") == 2 + 4 + 4  # recipes; recipes and learners; recipes and splits
    assert html.count("<svg") == html.count('role="img" aria-label="')
    # A trait with a value for every item says nothing.
    assert "Score by id" not in found


def test_the_numbers_are_those_of_the_frame(store: Store, html: str) -> None:
    runs = tl.runs(store.path)
    found = sections(html)
    scores = [
        [
            r["recipe"],
            r["learner"],
            r["split"],
            f"{r['mean']:.3f}",
            f"{r['low']:.3f} to {r['high']:.3f}",
        ]
        for r in runs.accuracy()
    ]
    assert [row[:5] for row in found["Scores"][1:]] == scores
    traits = [[r["length"], f"{r['mean']:.3f}"] for r in runs.accuracy(by="length")]
    assert [row[3:5] for row in found["Score by chain length"][1:]] == traits
    compared = runs.compare("bilstm", "transformer")
    expected = [
        [r["recipe"], r["split"], "bilstm", "transformer", f"{r['difference']:+.3f}"]
        for r in compared
    ]
    assert [[*row[:4], row[6]] for row in found["Comparisons"][1:]] == expected
    assert [row[9] for row in found["Comparisons"][1:]] == [
        row[8] for row in compared.shown().cells
    ] or [float(row[9]) for row in found["Comparisons"][1:]] == pytest.approx(
        [r["corrected_p"] for r in compared], abs=6e-4
    )


def test_failures_and_examples(html: str) -> None:
    assert sections(html)["Runs that failed"][1] == [
        "ctl/A ndr seed 7",
        "abababababababab",
        "loss is not finite <at step> 40",
    ]
    assert '<pre class="right">' in html
    assert '<pre class="wrong">' in html
    assert "expected: yes" in html
    assert "taskloom run" in html


def test_nothing_comes_from_outside(html: str) -> None:
    assert not re.findall(r"(?:src|href)=\"(?!#)[^\"]*\"", html)
    assert "@import" not in html
    assert "default-src 'none'" in html
    assert html.count("<script>") == 1, "one script, and its digest is in the policy"
    digest = base64.b64encode(
        hashlib.sha256(re.findall(r"<script>(.*?)</script>", html, re.S)[0].encode()).digest()
    )
    assert f"script-src 'sha256-{digest.decode()}'" in unescape(html)


def test_the_same_runs_give_the_same_page(store: Store, html: str, tmp_path: Path) -> None:
    assert report(store.path, tmp_path / "again.html").read_text(encoding="utf-8") == html


def test_one_run_without_curves_traits_or_predictions(tmp_path: Path) -> None:
    made = Store(tmp_path / "runs", create=True)
    write(made, {"iid": [1, 0]}, keep=False)
    found = sections(report(made.path, tmp_path / "r.html").read_text(encoding="utf-8"))
    assert list(found) == ["Findings", "Scores", "What was run", "How to run it again"]
    assert found["Scores"][1][2:4] == ["iid", "0.500"]


def test_traits_of_every_recipe_are_shown_and_only_where_they_vary(tmp_path: Path) -> None:
    made = Store(tmp_path / "runs", create=True)
    write(
        made,
        {"iid": [1, 0] * 2},
        recipe="a",
        data="a",
        traits=[{"depth": "1", "same": "x"}, {"depth": "2", "same": "x"}],
    )
    write(
        made, {"iid": [1, 0] * 2}, recipe="b", data="b", traits=[{"length": "1"}, {"length": "2"}]
    )
    found = sections(report(made.path, tmp_path / "r.html").read_text(encoding="utf-8"))
    assert [title for title in found if title.startswith("Score by")] == [
        "Score by depth",
        "Score by length",
    ]


def test_the_legend_of_a_figure_for_one_column_is_not_cut() -> None:
    splits = ["train", "iid", "ood"]
    colours = plot_style.colour_of(splits)
    curves = [Curve(split, (0, 10), (0.2, 0.9)) for split in splits]
    drawn = panels.curve_panel("ctl/A", curves, colours, {"ood": 0.25})
    figure = panels.sheet([drawn, drawn], colours, guessed=True, inches=3.25)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert legend.get_window_extent().x1 <= figure.bbox.x1


def test_traits_of_a_recipe_of_ones_own_have_the_names_of_their_suite(tmp_path: Path) -> None:
    """A recipe that is a file has no suite in its name; the task of its examples has."""
    made = Store(tmp_path / "runs", create=True)
    traits = [{"minimal": str(1 + i % 2)} for i in range(40)]
    write(
        made,
        {"test": [float(i % 2) for i in range(40)]},
        recipe="mine",
        tasks=["babi"] * 40,
        traits=traits,
    )
    page = report(made.path, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Score by supporting facts</h2>" in page
    assert "minimal</h2>" not in page


def test_a_split_on_which_a_trait_makes_no_difference_is_not_drawn(tmp_path: Path) -> None:
    made = Store(tmp_path / "runs", create=True)
    traits = [{"shape": "xy"[i % 2]} for i in range(40)]
    scores = {"iid": [1.0] * 40, "ood": [float(i % 2) for i in range(40)]}
    write(made, scores, traits=traits)
    page = report(made.path, tmp_path / "r.html").read_text(encoding="utf-8")
    section = page.partition("Score by shape</h2>")[2].partition("</section>")[0]
    assert len(re.findall("<figcaption>", section)) == 1
    assert "ood</figcaption>" in section


def test_traits_that_divide_the_examples_alike_share_a_section(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    traits = [
        {"depth": str(i % 2), "name_of_depth": "ab"[i % 2], "other": str(i % 3)} for i in range(12)
    ]
    write(store, {"ood": [float(i % 4 == 0) for i in range(12)]}, traits=traits)
    html = report(store.path, tmp_path / "r.html").read_text(encoding="utf-8")
    assert [t for t in sections(html) if t.startswith("Score by")] == [
        "Score by depth",
        "Score by other",
    ]
    assert "Same division of the examples: name of depth." in html


def test_a_curve_of_one_point_is_a_mark() -> None:
    drawn = [
        panels.curve_panel("p", [Curve("iid", steps, (0.5,) * len(steps))], {"iid": 0})
        for steps in ((5,), (5, 6))
    ]
    assert [panel.svg.count("<use") for panel in drawn] == [1, 0]
    assert drawn[0].alt == "p: learning curves over 5 steps; iid ends at 0.50."


def test_traits_that_are_names_are_bars_and_numbers_are_lines(tmp_path: Path) -> None:
    made = Store(tmp_path / "runs", create=True)
    traits = [{"length": str(2 + i % 3), "shape": ("round", "square")[i % 2]} for i in range(30)]
    write(made, {"iid": [i % 2 for i in range(30)]}, traits=traits)
    page = report(made.path, tmp_path / "r.html").read_text(encoding="utf-8")
    shape, length = page.partition("Score by shape</h2>")[2].split("Score by chain length</h2>")
    assert 'stroke-width="2"' in length, "a line"
    assert 'opacity="0.85"' not in length.partition("<table")[0]
    assert 'opacity="0.85"' in shape, "bars"
    assert "<use" not in shape.partition("</figure>")[0], "no marks"


def test_labels_stay_distinct() -> None:
    names = [f"fine-tune model=smollm2-135m steps={n} rank=8" for n in (100, 200)]
    for width in (8, 16, 22, 60):
        short = panels.distinct(names, width)
        assert len(set(short.values())) == 2
        assert all(len(text) <= width for text in short.values())
    assert all("…" not in text for text in panels.on_lines(names).values()), (
        "three lines are enough"
    )
    names = [name.replace(" ", "_") for name in names]
    marks = [Mark("iid", name, 0.5, 0.4, 0.6) for name in names]
    svg = panels.interval_panel("p", marks, {"iid": 0}, 0.125).svg
    assert all(f"<title>{name}</title>" in svg for name in names), (
        "the whole name is in the tooltip"
    )
    assert "guessing: 0.125" in svg


def test_splits_that_are_guessed_differently_have_lines_of_their_own() -> None:
    curves = [Curve("iid", (1, 2), (0.5, 1.0)), Curve("ood", (1, 2), (0.2, 0.3))]
    colours = {"iid": 0, "ood": 1}
    apart = panels.curve_panel("p", curves, colours, {"iid": 0.30, "ood": 0.25})
    assert apart.svg.count("<title>guessing") == 2
    assert "guessing on ood: 0.250" in apart.svg
    assert "0.30 on iid, 0.25 on ood" in apart.alt
    together = panels.curve_panel("p", curves, colours, {"iid": 0.25, "ood": 0.252})
    assert together.svg.count("<title>guessing") == 1
    assert panels.curve_panel("p", curves, colours, {}).svg.count("<title>guessing") == 0
    file = figures.svg(panels.sheet([apart], colours, guessed=True))
    assert "chance (most frequent answer)" in file
    assert "fill: #ffffff" in file, "readable on a dark page"
    assert "var(" not in file, "readers of files know nothing of a page"


def test_findings_come_first_and_have_intervals(store: Store, html: str) -> None:
    (row,) = [
        r
        for r in tl.runs(store.path).accuracy()
        if (r["recipe"], r["learner"], r["split"]) == ("ctl/A", "bilstm", "ood")
    ]
    findings = html.partition("Findings</h2>")[2].partition("Scores</h2>")[0]
    assert f"{mean_with_interval(row)} on held-out items (ood)" in findings
    assert re.search(r"(none|all|[12]) of 3 seeds above 0.95", findings)
    assert re.search(r"is better than|No difference is shown between", findings)
    assert html.index("Findings</h2>") < html.index("<svg") < html.index("<table")
    assert "the last finished on" not in html, "these runs do not say when"


def test_the_headline_is_the_largest_fall() -> None:
    rows = [
        {"recipe": "r", "learner": a, "split": s, "mean": m, "low": m - 0.02, "high": m + 0.02}
        for a, s, m in (("x", "iid", 0.9), ("x", "ood", 0.8), ("y", "iid", 0.9), ("y", "ood", 0.3))
    ]
    assert (
        gap_sentence(rows)
        == "y falls from 0.900 (0.880 to 0.920) on items like those of training (iid) to 0.300 (0.280 to 0.320) on"
        " held-out items (ood) of r."
    )
    assert gap_sentence(rows[:1]) == "x reaches 0.900 (0.880 to 0.920) on r, iid."


def headline(*scores: tuple[str, str, float], width: float = 0.02) -> str:
    return gap_sentence(
        [
            {
                "recipe": "r",
                "learner": a,
                "split": s,
                "mean": m,
                "low": m - width,
                "high": m + width,
            }
            for a, s, m in scores
        ]
    )


def test_a_higher_score_on_held_out_items_is_no_fall() -> None:
    assert (
        headline(("x", "iid", 0.3), ("x", "ood", 0.9))
        == "No fall is shown; x is higher on ood: 0.900 (0.880 to 0.920) on held-out items (ood), "
        "0.300 (0.280 to 0.320) on items like those of training (iid) of r."
    )
    falls = headline(
        ("x", "iid", 0.3),
        ("x", "ood", 0.9),
        ("y", "iid", 0.9),
        ("y", "ood", 0.8),
        ("y", "ood-long", 0.7),
    )
    assert falls.startswith(
        "y falls from 0.900 (0.880 to 0.920) on items like those of training (iid) to 0.700 (0.680 to 0.720) on"
        " ood-long"
    )


def test_a_difference_within_the_intervals_is_no_fall() -> None:
    scores = (("x", "iid", 0.5), ("x", "ood", 0.45), ("y", "iid", 0.6), ("y", "ood", 0.55))
    assert headline(*scores, width=0.1).startswith(
        "No difference between iid and ood is shown (intervals overlap): y has 0.600 (0.500 to 0.700) on"
        " items"
    )
    assert "(there are no intervals)" in headline(*scores, width=float("nan"))


def test_a_constant_answer_does_not_fall() -> None:
    constant = (("majority", "iid", 0.9), ("majority", "ood", 0.1))
    assert headline(*constant) == "majority reaches 0.900 (0.880 to 0.920) on r, iid."
    assert headline(*constant, ("x", "iid", 0.5), ("x", "ood", 0.4)).startswith(
        "x falls from 0.500"
    )


def planted(path: Path, right: Callable[[int, int], bool]) -> Runs:
    """Answers to stories with one, two or three facts; `right` says which are right."""
    store = Store(path / "runs", create=True)
    traits = []
    for i in range(300):
        kind = ("where-P", "where-O")[i // 3 % 2]
        facts = str(1 + i % 3)
        names = {"minimal": facts, "support": facts, "question": kind}
        traits.append({**names, "composition": f"{kind} {facts}"})
    for seed in range(2):
        scores = [float(right(i, seed)) for i in range(300)]
        write(store, {"mix": scores}, recipe="babi/mix-T7", seed=seed, traits=traits)
    return tl.runs(store.path)


def headline_of(html: str) -> str:
    return unescape(html.partition('<p class="headline">')[2].partition("</p>")[0])


def test_where_the_number_of_facts_decides_the_headline_says_so(tmp_path: Path) -> None:
    runs = planted(tmp_path, lambda i, seed: i % 3 == 0 or i % 31 == seed)
    html = report(runs, tmp_path / "r.html").read_text(encoding="utf-8")
    found = headline_of(html)
    assert "supporting facts" in found
    assert "1.00 with 1" in found
    assert "composition" not in found, "the simpler trait explains as much"
    titles = [title for title in sections(html) if title.startswith("Score by")]
    assert titles[0] == "Score by supporting facts"
    assert "Same division of the examples: supporting facts (cited)." in html


def test_a_section_names_the_largest_share_of_the_variance(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    depth = [{"depth": str(i % 2 + 1)} for i in range(1000)]
    # The difference on ctl/S is larger but explains less, as its answers vary more.
    wide = [float(i // 2 % 10 < (4 + 2 * (i % 2))) for i in range(1000)]
    narrow = [float(i % 2 == 0 or i // 2 % 25 >= 3) for i in range(1000)]
    write(store, {"ood": wide}, recipe="ctl/S", traits=depth)
    write(store, {"ood": narrow}, recipe="ctl/A", traits=depth)
    html = unescape(report(tl.runs(store.path), tmp_path / "r.html").read_text(encoding="utf-8"))
    shares = dict(
        re.findall(r"On (ctl/.), held-out items \(ood\)[^(]*\((\d+) % of the variance", html)
    )
    assert float(shares["ctl/S"]) < float(shares["ctl/A"])
    assert f"It explains most for bilstm on ctl/A, ood: {shares['ctl/A']} %" in html
    [files] = re.findall(r"for file in (\S+); do taskloom run", html)
    assert len(glob(files)) == 2, "one command repeats all runs"


def test_where_nothing_decides_no_effect_is_claimed(tmp_path: Path) -> None:
    coin = np.random.default_rng(0).random((2, 300)) < 0.5
    runs = planted(tmp_path, lambda i, seed: bool(coin[seed, i]))
    html = report(runs, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "depends most on" not in html
    assert headline_of(html).startswith("No trait, learner or setting")


def test_a_difference_between_settings_is_found_and_compared(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    for draw_, share in (("published", 0.9), ("independent", 0.2)):
        for seed in range(4):
            scores = np.random.default_rng(seed).random(100) < share + seed / 100
            fields = {"recipe.draw": draw_}
            write(store, {"iid": scores.tolist()}, seed=seed, fields=fields, data=draw_)
    html = report(store.path, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "draw=published is better than draw=independent" in headline_of(html)
    (row,) = sections(html)["Comparisons"][1:]
    assert row[:4] == ["ctl/A, bilstm", "iid", "draw=independent", "draw=published"]


def test_the_headline_is_not_about_a_constant_answer(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    traits = [{"answer": str(i % 2)} for i in range(100)]
    write(store, {"iid": [i % 2 for i in range(100)]}, learner="majority", traits=traits)
    html = report(store.path, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "depends most on" not in html


def test_the_headline_is_not_about_the_solver(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    for learner, share in (("solver", 1.0), ("gru", 0.3)):
        scores = [float(i < share * 200) for i in range(200)]
        write(store, {"iid": scores}, learner=learner)
    html = report(store.path, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "solver" not in headline_of(html)
    assert "solver is better than gru" in html


def test_the_head_of_the_page_describes_the_task_with_an_example(tmp_path: Path) -> None:
    story = tl.make("babi/mix-T7", seed=0, set={"splits.mix.n": 2})["mix"][0]
    row = {
        "task": "babi",
        "input": story.input,
        "targets": story.targets,
        "traits": list(story.traits.items()),
    }
    short = shortened(row)
    assert short.endswith("Where is the apple?")
    assert len(short) < len(story.input)
    assert shortened({**row, "task": "unknown", "input": "c b a 3"}) == "c b a 3"
    store = Store(tmp_path / "runs", create=True)
    write(store, {"iid": [1, 0]}, recipe="ctl/A")
    html = report(store.path, tmp_path / "r.html").read_text(encoding="utf-8")
    head = html.partition("<main>")[0]
    assert SUITES.get("ctl").describe in unescape(head)
    assert "<q>" in head


def test_a_table_without_empty_columns() -> None:
    table = Table(("a", "b", "c"), (("1", "", "x"), ("2", "", "")), (True, False, False))
    assert table.filled() == Table(("a", "c"), (("1", "x"), ("2", "")), (True, False))


def test_the_examples_open_on_the_worst_split_with_the_proof_lit(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    write(store, {"iid": [1, 1], "ood": [1, 0], "long": [1, 1]}, recipe="ctl/A")
    html = report(store.path, tmp_path / "r.html").read_text(encoding="utf-8")
    first = json.loads(unescape(re.findall(r'data-first="([^"]*)"', html)[0]))
    assert (first["recipe"], first["split"], first["a"]) == ("ctl/A", "ood", "bilstm")
    story = tl.make("babi/mix-T7", seed=0, set={"splits.mix.n": 2})["mix"][0]
    found = lit_places(story.input, lit_story(Example(story.input, story.targets, story.traits)))
    assert found is not None
    lit, question = found
    assert len(lit) == story.traits["support"]
    assert story.input[question:].endswith("?")


def test_a_learning_curve_needs_two_points(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    write(store, {"iid": [1, 0]}, curve=[(800, "iid", 0.5, 1.0)])
    found = sections(report(store.path, tmp_path / "r.html").read_text(encoding="utf-8"))
    assert "Learning curves" not in found


def test_traits_beyond_four_are_folded(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    scores = [float(i % 2) for i in range(120)]
    # Every trait is right about the score more often than the one before it.
    traits = [
        {f"t{n}": str(int(score) if i % 20 >= 7 - n else i % 3) for n in range(6)}
        for i, score in enumerate(scores)
    ]
    write(store, {"iid": scores}, traits=traits)
    html = report(store.path, tmp_path / "r.html").read_text(encoding="utf-8")
    titles = [title for title in sections(html) if title.startswith("Score by")]
    assert titles == [f"Score by t{n}" for n in (5, 4, 3, 2)]
    folded = html.partition("Other traits</h2>")[2].partition("</section>")[0]
    assert re.findall(r"<summary>(Score by t\d)", folded) == ["Score by t1", "Score by t0"]


def test_splits_of_other_kinds_are_not_said_to_fall() -> None:
    assert (
        headline(("x", "easy", 0.9), ("x", "hard", 0.2))
        == "x reaches 0.900 (0.880 to 0.920) on r, easy."
    )


def test_the_table_of_comparisons_has_different_headings_and_counts_in_words_that_agree(
    tmp_path: Path,
) -> None:
    heads = [column.head for column in run_numbers.COMPARISONS]
    assert len(set(heads)) == len(heads)
    store = Store(tmp_path / "runs", create=True)
    for learner in ("a", "b"):
        write(store, {"iid": [1, 0, 1, 1]}, learner=learner)
    text = report(store.path, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "corrected p<" not in text, "one comparison needs no correction"
    assert "1 comparisons" not in text


def unpacked(html: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What the explorer of a page shows: its index, and the data of each split."""
    elements = dict(
        re.findall(
            r'<script type="application/octet-stream" id="([^"]+)">(.*?)</script>', html, re.S
        )
    )
    index = json.loads(elements.pop("explorer-index"))
    return index, {k: json.loads(zlib.decompress(base64.b64decode(v))) for k, v in elements.items()}


def test_every_number_opens_the_examples_behind_it(store: Store, html: str) -> None:
    index, data = unpacked(html)
    opened = [json.loads(unescape(query)) for query in re.findall(r'data-open="([^"]+)"', html)]
    known = {(c["recipe"], c["learner"], c["split"]) for c in index}
    assert len(opened) == 8 + 24 + 4  # scores, scores by length, comparisons
    for query in opened:
        assert (query["recipe"], query["a"], query["split"]) in known
        cell = next(
            c
            for c in index
            if (c["recipe"], c["learner"], c["split"])
            == (query["recipe"], query["a"], query["split"])
        )
        if "trait" in query:
            assert query["value"] in data[cell["data"]]["traits"][query["trait"]]["values"]
        if "b" in query:
            assert "On the whole split: difference" in cell["paired"][query["b"]]
    cell = index[0]
    items = data[cell["data"]]
    assert len(cell["runs"]) == 3
    rows = store.predictions([cell["runs"][1]], ["prediction", "score"], splits=[cell["split"]])
    answers = items["runs"][cell["runs"][1]]
    assert [items["texts"][i] for i in answers["answers"]] == rows["prediction"].to_pylist()
    assert answers["scores"] == rows["score"].to_pylist()
    assert "id" in items["traits"], "30 values can still be chosen"


def test_hostile_names_and_texts_stay_text(tmp_path: Path) -> None:
    made = Store(tmp_path / "runs", create=True)
    evil = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202e\u0007"
    for learner in (evil, "b"):
        traits = [{evil: evil}, {evil: "x"}]
        write(
            made,
            {"iid": [1, 0] * 5},
            recipe=evil,
            learner=learner,
            traits=traits,
            tasks=[evil, "t"],
            data=evil,
        )
    page = report(made.path, tmp_path / "r.html", title=evil).read_text(encoding="utf-8")
    assert "<img" not in page
    assert page.count("<script>") == 1
    index, data = unpacked(page)
    assert index[0]["recipe"] == evil
    assert next(iter(data.values()))["inputs"][0].startswith(evil)


def test_a_page_of_many_answers_keeps_some_seeds_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskloom.analysis.report.answer_data.MOST_ANSWERS", 100)
    made = Store(tmp_path / "runs", create=True)
    for seed in range(4):
        for learner in ("a", "b"):
            write(made, {"iid": [seed % 2, 0] * 10}, learner=learner, seed=seed)
    index, _ = unpacked(report(made.path, tmp_path / "r.html").read_text(encoding="utf-8"))
    assert [(c["learner"], len(c["runs"]), c["left"]) for c in index] == [("a", 2, 2), ("b", 2, 2)]


def test_a_page_has_the_examples_of_the_numbers_that_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the first rows, and of the lowest score, which the explorer opens first."""
    made = Store(tmp_path / "runs", create=True)
    for recipe, right in enumerate((3, 4, 5, 6, 1, 5)):
        scores = {"iid": [1.0] * right + [0.0] * (8 - right)}
        write(made, scores, recipe=f"ctl/{recipe}", traits=[{"length": "2"}] * 8)
    whole, _ = unpacked(report(made.path, tmp_path / "whole.html").read_text(encoding="utf-8"))
    assert {cell["recipe"] for cell in whole} == {f"ctl/{recipe}" for recipe in range(6)}
    monkeypatch.setattr("taskloom.analysis.report.page.MOST_ROWS", 2)
    html = report(made.path, tmp_path / "r.html").read_text(encoding="utf-8")
    index, data = unpacked(html)
    assert {cell["recipe"] for cell in index} == {"ctl/0", "ctl/1", "ctl/4"}
    assert len(data) == 3
    assert {row[0] for row in sections(html)["Scores"][1:]} == {"ctl/0", "ctl/1"}


def test_predictions_are_read_a_few_times(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for scores and traits, which the index keeps, and once for texts; the first run of a
    kind for its examples and for that at the head of the page, too.
    """
    opened: list[Path] = []
    original = run_files.read_parquet

    def counted(path: Path, columns: Any = None) -> Any:
        opened.append(path)
        return original(path, columns)

    monkeypatch.setattr("taskloom.experiments.store.read_parquet", counted)
    report(store.path, tmp_path / "r.html")
    times = Counter(path for path in opened if path.name == run_files.PREDICTIONS)
    assert len(times) == 12
    assert sorted(times.values())[: 12 - 4] == [2] * 8
    assert max(times.values()) <= 7


def test_of_many_pairs_only_the_first_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "runs", create=True)
    for recipe in ("ctl/A", "ctl/R"):
        for number, learner in enumerate(("a", "b", "c", "d")):
            write(
                store,
                {"iid": [1.0] * number + [0.0] * (4 - number)},
                recipe=recipe,
                learner=learner,
            )
    sides = []

    class Side(ComparedSide):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            sides.append(self.selection)

    monkeypatch.setattr(run_numbers, "MOST_PAIRS", 4)
    monkeypatch.setattr(run_numbers, "ComparedSide", Side)
    tests = RunNumbers(frame.Runs(store), 0.95).comparisons
    assert tests.pairs == 12
    names = [(row["recipe"], row["first"], row["second"]) for row in tests.rows]
    assert names == [("ctl/A", *pair) for pair in ("ab", "ac", "ad", "bc")]
    assert len(sides) == 4


def test_tasks_have_competence_at_thresholds(tmp_path: Path) -> None:
    made = Store(tmp_path / "runs", create=True)
    write(made, {"iid": [1, 1, 0, 1, 1, 1]}, tasks=["a", "b", "c"])
    found = sections(report(made.path, tmp_path / "r.html").read_text(encoding="utf-8"))
    assert found["Scores over tasks"][0][-2:] == ["C@75", "C@90"]
    assert found["Scores over tasks"][1][-2:] == ["0.667", "0.667"]


def test_settings_that_differ_are_part_of_the_name(tmp_path: Path) -> None:
    made = Store(tmp_path / "runs", create=True)
    for state in (64, 128):
        write(made, {"iid": [1, 0, state == 64]}, fields={"learner.state": state})
    found = sections(report(made.path, tmp_path / "r.html").read_text(encoding="utf-8"))
    assert [row[1] for row in found["Scores"][1:]] == ["bilstm state=64", "bilstm state=128"]
    assert found["Comparisons"][1][2:4] == ["bilstm state=128", "bilstm state=64"] or found[
        "Comparisons"
    ][1][2:4] == [
        "bilstm state=64",
        "bilstm state=128",
    ]


def test_learners_that_cannot_be_compared_are_named(tmp_path: Path) -> None:
    made = Store(tmp_path / "runs", create=True)
    for learner, data in (("a", "some"), ("b", "others"), ("c", "some")):
        write(made, {"iid": [1, 0]}, learner=learner, data=data)
    text = report(made.path, tmp_path / "r.html").read_text(encoding="utf-8")
    assert len(sections(text)["Comparisons"]) == 2
    assert "not compared:\nctl/A, a and b: the two sides answered different items" in text


def test_the_command(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "page.html"
    assert cli(["report", str(store.path), "-o", str(out)]) == 0
    assert out.stat().st_size > 10_000
    assert cli(["report", str(tmp_path / "none")]) == 2
    assert cli(["report", str(Store(tmp_path / "empty", create=True).path)]) == 2
    assert "holds no finished run yet" in capsys.readouterr().err
    with pytest.raises(TaskloomError, match="confidence level"):
        report(store.path, out, level=95)


def test_every_name_has_a_colour_and_usual_splits_their_own() -> None:
    many = plot_style.colour_of(["iid", *map(str, range(20))])
    assert many["iid"] == 0
    assert len(many) == 21
    assert plot_style.colour_of(["mix", "iid"])["iid"] == 0
    assert plot_style.colour_of(["mix", "iid"])["mix"] != 0


def test_a_trait_with_many_values_is_kept_and_one_that_names_each_example_is_not(
    tmp_path: Path,
) -> None:
    made = Store(tmp_path / "runs", create=True)
    traits = [{"word": f"w{i % 30}", "id": str(i)} for i in range(60)]
    write(made, {"iid": [i % 2 for i in range(60)]}, traits=traits)
    page = report(made.path, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Score by word" in page
    assert "Score by id" not in page


def test_a_page_of_selected_runs_with_their_success_rate(store: Store, tmp_path: Path) -> None:
    page = report(
        store.path, tmp_path / "report.html", where=["seed < 2"], threshold=0.5
    ).read_text()
    assert "Only runs with seed &lt; 2" in page
    assert "seeds over 0.5" in page
    assert "sd over seeds" in page


def test_names_and_traits_with_signs_of_tex_are_text(tmp_path: Path) -> None:
    made = Store(tmp_path / "runs", create=True)
    traits = [{"$cost": value} for value in ("$5$", r"$\frac{$", "_{", "50 $")]
    for learner in ("$^{", "a_$b$"):
        curve = [(1, "i$i$d", 0.5, 1.0), (2, "i$i$d", 0.6, 1.0)]
        write(
            made,
            {"i$i$d": [0, 1] * 10},
            learner=learner,
            recipe=r"$\x$ $",
            traits=traits,
            curve=curve,
        )
    page = report(made.path, tmp_path / "report.html").read_text(encoding="utf-8")
    figures = "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL))
    for text in (r"$\x$ $", "$^{", "a_$b$", "i$i$d", "$cost", "$5$", r"$\frac{$", "50 $"):
        assert text in figures


def test_a_file_of_scores_with_answers_has_the_intervals_of_the_frame(
    store: Store, tmp_path: Path
) -> None:
    groups, items = score_groups(frame.Runs(store), ("length",))
    for name, own, new in (
        ("with", items, "new seeds and new examples"),
        ("without", {}, "new seeds on the same"),
    ):
        bare = [
            {k: v for k, v in g.items() if own or k not in ("answers", "items", "texts")}
            for g in groups
        ]
        runs = open_runs(write_scores(bare, tmp_path / name / "scores.json", own))
        assert new in report(runs, tmp_path / f"{name}.html").read_text(encoding="utf-8")
        shown = [(row["mean"], row["low"], row["method"]) for row in RunNumbers(runs, 0.95).means]
        ours = runs.accuracy(by=["recipe", "learner", "split"])
        assert str(shown) == str([(row["mean"], row["low"], row["method"]) for row in ours])


def test_figures_have_the_asked_formats_width_panels_and_names(
    store: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "figures"
    args = ["--figures", str(folder), "--format", "pdf,svg,png", "--width", "column"]
    names = ["--panel", "World A", "--rename", "ctl/A=World A"]
    out = ["-o", str(tmp_path / "r.html")]
    assert cli(["runs", "report", str(store.path), *out, *args, *names]) == 0
    found = {path.name for path in folder.iterdir()}
    assert {"scores.pdf", "scores.svg", "scores.png", "learning-curves.pdf"} <= found
    svg = (folder / "scores.svg").read_text()
    assert 'width="234pt"' in svg, "3.25 inches, whatever is drawn"
    assert "World A" in svg
    assert "ctl/R" not in svg, "a panel that was not chosen"
    assert (folder / "scores.png").read_bytes().startswith(b"\x89PNG")
    for wrong in (["--format", "gif"], ["--width", "wide"], ["--panel", "nothing"]):
        code = cli(["runs", "report", str(store.path), *out, "--figures", str(folder), *wrong])
        assert code == 2


def test_runs_plot_themselves(store: Store) -> None:
    runs = tl.runs(store.path)
    figure = runs.plot(by="split", width="page")
    assert figure.get_figwidth() == pytest.approx(6.75)
    texts = {text.get_text() for text in figure.findobj(match=Text)}
    assert {"ctl/A", "ctl/R", "bilstm", "transformer", "iid", "ood"} <= texts
    colours = {p.get_label(): p.get_facecolor() for p in figure.legends[0].get_patches()}
    assert to_hex(colours["iid"]) == plot_style.COLOURS[0][0]
    assert to_hex(colours["ood"]) == plot_style.COLOURS[1][0]
    dots = [line for line in figure.findobj(match=Line2D) if len(line.get_xdata()) == 3]
    assert len(dots) >= 8, "one small dot for each of three seeds"
    assert "chance (most frequent answer)" in texts
    assert "<img " in figure._repr_html_()
    by_length = runs.plot(by="length", split="ood", names={"bilstm": "LSTM"})
    texts = {text.get_text() for text in by_length.findobj(match=Text)}
    assert {"chain length", "ctl/A, ood", "LSTM"} <= texts
    assert "ctl/A, iid" not in texts
    assert runs.plot(by="step").axes
    with pytest.raises(TaskloomError, match="known: "):
        runs.plot(panels=["nothing"])


def test_a_notebook_shows_the_page(store: Store, tmp_path: Path) -> None:
    page = report(store.path, tmp_path / "r.html")
    assert page == tmp_path / "r.html"
    assert page._repr_html_().startswith("<iframe srcdoc=")


@pytest.mark.parametrize(
    ("form", "start"), [("latex", r"\begin{tabular}"), ("md", "| Model |"), ("csv", "Model,")]
)
def test_the_command_prints_tables_for_papers(
    store: Store, capsys: pytest.CaptureFixture[str], form: str, start: str
) -> None:
    chosen = ["--format", form, "--columns", "learner=Model,split,score"]
    assert cli(["runs", "show", str(store.path), *chosen]) == 0
    text = capsys.readouterr().out
    assert text.startswith(start)
    assert text.count("[0.") == (0 if form == "csv" else 8), "mean and interval in one cell"
    assert "method" not in text
    assert cli(["runs", "show", str(store.path), "--format", "pdf"]) == 2


def test_a_split_without_examples_is_left_out(tmp_path: Path) -> None:
    sizes = {"splits.train.n": 200, "splits.dev.n": 0, "splits.test.n": 30}
    experiment = {
        "recipes": [{"recipe": "babi/diverse-T7", "set": sizes}],
        "learners": ["majority"],
        "evaluate": ["dev", "test"],
    }
    outcome = fill(experiment, tmp_path / "runs")
    page = tmp_path / "report.html"
    report(Runs(outcome.store), page)
    assert "test" in page.read_text(encoding="utf-8")
