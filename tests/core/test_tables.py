"""Tables in terminals, notebooks, Markdown and LaTeX, with nothing of the data read as markup."""

from __future__ import annotations

import codecs
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import taskloom as tl
from taskloom.analysis import figures
from taskloom.core import tables
from taskloom.core.tables import emit, table
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.store import Store
from tests.experiments.made_up_runs import write

EVIL = "</td><script>alert(1)</script>"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)


def shown(thing: Any) -> str:
    html: str = thing._repr_html_()
    parser = Tags()
    parser.feed(html)
    tables = {"table", "thead", "tbody", "tr", "th", "td"}
    assert parser.tags <= tables | {"p", "b", "br", "img", "div", "mark", "small"}
    return html


@pytest.fixture
def data() -> tl.Dataset:
    return tl.make("babi/1", set={"splits": {"train": {"n": 30}, "test": {"n": 5}}})


def test_datasets_splits_and_examples(data: tl.Dataset) -> None:
    assert all(
        word in shown(data)
        for word in ("babi/1, seed 0", "train", "30", f"content digest {data.digest}")
    )
    assert shown(data["test"]).count("<tr>") == 6
    example = shown(data["test"][0])
    assert "<mark" in example, "the sentence that proves the answer is lit"
    assert "proved by sentence" in example
    assert data["test"][0].target in example


def test_an_audit_says_its_verdict(data: tl.Dataset) -> None:
    audit = tl.audit(data)
    assert ("passed" in shown(audit)) != audit.failed
    assert "majority answer" in shown(audit)


def test_runs_show_their_scores(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    assert "no runs" in shown(tl.runs(store.path))
    for seed in range(2):
        write(store, {"iid": [1, 0, 1]}, learner=EVIL, seed=seed)
    write(store, {"iid": [1, 0, 1]}, learner="other")
    html = shown(tl.runs(store.path))
    assert "3 runs in" in html
    assert "0.667" in html


def test_nothing_of_the_data_is_markup() -> None:
    example = tl.Example(EVIL, EVIL, {"trait": EVIL}, task=EVIL, derivation=[tl.Step(EVIL, EVIL)])
    assert "alert(1)" in shown(example)
    long = tl.Example("x" * 10_000, "y")
    assert len(shown(long)) < 2_000


def test_findings_show_their_tables_and_figures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = ResultTable(["learner", "mean"], [{"learner": EVIL, "mean": 0.5}])
    figure = tl.StudyFigure("curve", EVIL, rows, lambda data: figures.canvas(1, (2, 1))[0])
    finding = tl.Finding(EVIL, EVIL, rows, (figure,), notes=(EVIL,))
    html = shown(finding)
    assert html.count("<img") == 1
    assert 'src="data:image/svg+xml;base64,' in html
    assert "0.500" in html
    assert repr(finding) == f"<Finding '{EVIL}': 1 rows, 1 figures>"


def test_progress_is_shown_where_it_is_wanted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskloom.core.progress.LOG_EVERY", 0.0)
    small = {"splits": {"train": {"n": 30}, "test": {"n": 5}}}
    tl.make("babi/1", set=small)
    assert capsys.readouterr().err == "", "a script is silent"
    tl.make("babi/1", set=small, progress=True)
    assert "train: 30 of 35 rows" in capsys.readouterr().err
    steps: list[int] = []
    tl.make("babi/1", set=small, progress=lambda state: steps.append(state.done))
    assert steps == [30, 35]


ROWS = ResultTable(
    ["name", "n", "mean", "low", "high"],
    [
        {"name": "a|b_1 <b>50 %</b> [bold]", "n": 1200, "mean": 0.5, "low": 0.25, "high": 0.75},
        {"name": "other", "n": 7, "mean": float("nan"), "low": None, "high": None},
    ],
)


def test_one_table_has_a_form_for_every_place() -> None:
    assert str(ROWS).splitlines()[1].split() == [
        "a|b_1", "<b>50", "%</b>", "[bold]", "1,200", "0.500", "[0.250,", "0.750]",
    ]  # fmt: skip
    assert '<td style="text-align:right">1,200</td>' in ROWS.to_html()
    assert "<b>" not in ROWS.to_html()
    assert ROWS.to_markdown().splitlines()[2] == (
        r"| a\|b_1 <b>50 %</b> [bold] | 1,200 | 0.500 | [0.250, 0.750] |"
    )
    assert ROWS.to_csv().splitlines()[1:] == [
        "a|b_1 <b>50 %</b> [bold],1200,0.5,0.25,0.75",
        "other,7,,,",
    ]


def test_latex_reads_names_as_text() -> None:
    first = ROWS.to_latex().splitlines()[4]
    assert first.startswith(r"a\textbar{}b\_1 \textless{}b\textgreater{}50 \%")
    assert first.endswith(r"& 1,200 & 0.500 & [0.250, 0.750] \\")
    assert ROWS.to_latex().startswith(r"\begin{tabular}{lrrl}")


def test_terminals_print_names_as_they_are() -> None:
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    Console(file=out, width=60).print(table(["name"], [["[bold]x\x1b[31m"]], "a title"))
    assert [line.rstrip() for line in out.getvalue().splitlines()] == [
        "a title",
        "name",
        "[bold]x\\x1b[31m",
    ]


def test_rows_beyond_the_most_are_counted_and_not_written() -> None:
    written: list[int] = []

    def value(row: int) -> int:
        written.append(row)
        return row

    made = tables.table_of([tables.Column("n", value)], range(5), 2)
    assert (len(made), made.total, written) == (2, 5, [0, 1])


SLURS = codecs.decode(tables._SLURS, "rot13").split()


@pytest.mark.parametrize("form", ["{}", "{}s", "a ({}), b"])
def test_slurs_are_masked_in_what_is_printed(form: str) -> None:
    for word in SLURS:
        for spelling in (word, word.capitalize(), word.upper()):
            text = form.format(spelling)
            shown = tables.printable(text)
            assert spelling[1:] not in shown
            assert spelling[0] in shown
            assert len(shown) == len(text)


def test_ordinary_words_are_not_masked() -> None:
    text = "A raccoon, a frog and a spade: despicable, fagot, yiddish, cocoon, dike, half"
    assert tables.printable(text) == text


def test_masking_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tables.UNMASKED, "1")
    assert tables.printable(SLURS[0]) == SLURS[0]


def test_pages_and_json_are_never_masked(capsys: pytest.CaptureFixture[str]) -> None:
    made = tables.table(["word"], [[SLURS[0]]])
    assert SLURS[0] in made.html()
    assert SLURS[0] in made.markdown()
    emit({"word": SLURS[0]})
    assert SLURS[0] in capsys.readouterr().out
