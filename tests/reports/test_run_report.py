"""The page about runs: everything that was asked for is on it, with the numbers of the frame, and nothing from outside."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from taskloom.cli.app import run as cli
from taskloom.errors import TaskloomError
from taskloom.experiments import runs as frame
from taskloom.experiments.store import Store
from taskloom.reports import plots
from taskloom.reports.run_report import report
from tests.experiments.made_up_runs import write
from tests.experiments.statistics.test_intervals import draw, generator

TRAITS = [{"length": n, "id": str(i)} for i, n in enumerate(["2", "3", "10"] * 10)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = Store(tmp_path_factory.mktemp("report") / "runs", create=True)
    for recipe in ("ctl/A", "ctl/R"):
        for learner in ("bilstm", "transformer"):
            middle = 1.0 + (learner == "bilstm")
            tables = {
                split: draw(generator(recipe, learner, split), 3, 30, middle, 0.3, 1.0) for split in ("iid", "ood")
            }
            for seed in range(3):
                curve = [(step, split, step / 100, 1.0) for step in (50, 100) for split in ("train", "iid")]
                scores = {split: table[seed] for split, table in tables.items()}
                write(made, scores, recipe=recipe, learner=learner, seed=seed, traits=TRAITS, data=recipe, curve=curve)
    failed = made.path / "work" / "failed"
    failed.mkdir(parents=True)
    (failed / ("ab" * 16 + ".json")).write_text(
        '{"cell": "ctl/A ndr seed 7", "reason": "loss is not finite <at step> 40"}'
    )
    return made


@pytest.fixture(scope="module")
def html(store: Store, tmp_path_factory: pytest.TempPathFactory) -> str:
    return report(store.path, tmp_path_factory.mktemp("page") / "report.html").read_text(encoding="utf-8")


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
        elif self.open and self.open[-1] in ("td", "th"):
            self.sections[self.title][-1].append(data)


def sections(html: str) -> dict[str, list[list[str]]]:
    parser = Cells()
    parser.feed(html)
    return parser.sections


def test_every_section_is_there(html: str) -> None:
    found = sections(html)
    assert list(found) == [
        "What was run",
        "Scores",
        "Learning curves",
        "Score by length",
        "Comparisons",
        "Failures",
        "Examples",
        "How to run it again",
    ]
    assert found["What was run"][1] == ["ctl/A", "bilstm", "0, 1, 2", "ctl/A", "1.5"]
    assert len(found["How to run it again"]) == 13
    assert html.count("<svg") == 3
    # A trait with a value for every item says nothing.
    assert "Score by id" not in found


def test_the_numbers_are_those_of_the_frame(store: Store, html: str) -> None:
    runs = frame.runs(store.path)
    found = sections(html)
    scores = [
        [r["recipe"], r["learner"], r["split"], f"{r['mean']:.3f}", f"{r['low']:.3f} to {r['high']:.3f}"]
        for r in runs.accuracy()
    ]
    assert [row[:5] for row in found["Scores"][1:]] == scores
    traits = [[r["length"], f"{r['mean']:.3f}"] for r in runs.accuracy(by="length")]
    assert [row[3:5] for row in found["Score by length"][1:]] == traits
    compared = runs.compare("bilstm", "transformer")
    expected = [[r["recipe"], r["split"], "bilstm", "transformer", f"{r['difference']:+.3f}"] for r in compared]
    assert [[*row[:4], row[6]] for row in found["Comparisons"][1:]] == expected
    assert [row[9] for row in found["Comparisons"][1:]] == [row[8] for row in compared.shown()[1]] or [
        float(row[9]) for row in found["Comparisons"][1:]
    ] == pytest.approx([r["corrected_p"] for r in compared], abs=6e-4)


def test_failures_and_examples(html: str) -> None:
    assert sections(html)["Failures"][1] == ["ctl/A ndr seed 7", "abababababababab", "loss is not finite <at step> 40"]
    assert '<pre class="right">' in html
    assert '<pre class="wrong">' in html
    assert "expected: yes" in html
    assert "taskloom run" in html


def test_nothing_comes_from_outside(html: str) -> None:
    assert not re.findall(r"(?:src|href)=\"(?!#)[^\"]*\"", html)
    assert "<script" not in html
    assert "@import" not in html


def test_the_same_runs_give_the_same_page(store: Store, html: str, tmp_path: Path) -> None:
    assert report(store.path, tmp_path / "again.html").read_text(encoding="utf-8") == html


def test_one_run_without_curves_traits_or_predictions(tmp_path: Path) -> None:
    made = Store(tmp_path / "runs", create=True)
    write(made, {"iid": [1, 0]}, keep=False)
    found = sections(report(made.path, tmp_path / "r.html").read_text(encoding="utf-8"))
    assert list(found) == ["What was run", "Scores", "Failures", "How to run it again"]
    assert found["Scores"][1][2:4] == ["iid", "0.500"]


def test_traits_of_every_recipe_are_shown_and_only_where_they_vary(tmp_path: Path) -> None:
    made = Store(tmp_path / "runs", create=True)
    write(
        made, {"iid": [1, 0]}, recipe="a", data="a", traits=[{"depth": "1", "same": "x"}, {"depth": "2", "same": "x"}]
    )
    write(made, {"iid": [1, 0]}, recipe="b", data="b", traits=[{"length": "1"}, {"length": "2"}])
    found = sections(report(made.path, tmp_path / "r.html").read_text(encoding="utf-8"))
    assert [title for title in found if title.startswith("Score by")] == ["Score by depth", "Score by length"]


def test_a_curve_of_one_point_is_a_mark() -> None:
    drawn = [plots.curves({"p": [plots.Curve("iid", steps, (0.5,) * len(steps))]}) for steps in ((5,), (5, 6))]
    colour = plots.colours(["iid"])["iid"]
    assert [len(re.findall(rf"<use[^>]*{colour}", svg)) for svg in drawn] == [1, 0]


def test_settings_that_differ_are_part_of_the_name(tmp_path: Path) -> None:
    made = Store(tmp_path / "runs", create=True)
    for state in (64, 128):
        write(made, {"iid": [1, 0, state == 64]}, fields={"learner.state": state})
    found = sections(report(made.path, tmp_path / "r.html").read_text(encoding="utf-8"))
    assert [row[1] for row in found["Scores"][1:]] == ["bilstm state=64", "bilstm state=128"]
    assert found["Comparisons"][1][2:4] == ["bilstm state=128", "bilstm state=64"] or found["Comparisons"][1][2:4] == [
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


def test_every_name_has_a_colour() -> None:
    many = plots.colours(["iid", *map(str, range(20))])
    assert many["iid"] == plots.COLOURS["iid"]
    assert len(many) == 23


def test_a_trait_with_many_values_is_kept_and_one_that_names_each_example_is_not(tmp_path: Path) -> None:
    made = Store(tmp_path / "runs", create=True)
    traits = [{"word": f"w{i % 30}", "id": str(i)} for i in range(60)]
    write(made, {"iid": [i % 2 for i in range(60)]}, traits=traits)
    page = report(made.path, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Score by word" in page
    assert "Score by id" not in page


def test_a_page_of_selected_runs_with_their_success_rate(store: Store, tmp_path: Path) -> None:
    page = report(store.path, tmp_path / "report.html", where=["seed < 2"], threshold=0.5).read_text()
    assert "Only runs with seed &lt; 2" in page
    assert "seeds over 0.5" in page
    assert "sd over seeds" in page


def test_names_and_traits_with_signs_of_tex_are_text(tmp_path: Path) -> None:
    made = Store(tmp_path / "runs", create=True)
    traits = [{"$cost": value} for value in ("$5$", r"$\frac{$", "_{", "50 $")]
    for learner in ("$^{", "a_$b$"):
        curve = [(1, "i$i$d", 0.5, 1.0), (2, "i$i$d", 0.6, 1.0)]
        write(made, {"i$i$d": [0, 1] * 10}, learner=learner, recipe=r"$\x$ $", traits=traits, curve=curve)
    page = report(made.path, tmp_path / "report.html").read_text(encoding="utf-8")
    figures = "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL))
    for text in (r"$\x$ $", "$^{", "a_$b$", "i$i$d", "$cost", "$5$", r"$\frac{$", "50 $"):
        assert text in figures
