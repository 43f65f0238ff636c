"""Findings on disk: a page to read, and everything on it as data.

FOLDER/page.html, page.md         the findings, as a page for people
FOLDER/findings.json              the same for machines
FOLDER/FIGURE.svg, .pdf, .csv     each figure, and the data that it is drawn from
FOLDER/table-1.csv, .tex, …       the tables, as data and for LaTeX (booktabs)
FOLDER/judgements-1.csv, …        our numbers beside the published ones
FOLDER/scores.json                the scores that went in, by seed: `taskloom study NAME
                                  FOLDER/scores.json` repeats studies that need neither models nor
                                  datasets
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from taskloom.analysis import figures
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.report import page
from taskloom.analysis.report.page import Section
from taskloom.analysis.verdict import (
    CONDITIONS,
    OTHER,
    Judgement,
    differing_conditions,
    judgement_table,
    short_judgement_table,
)
from taskloom.core.errors import DataError
from taskloom.core.files import atomic, read_utf8
from taskloom.core.tables import Table
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.sources.score_files import score_groups, write_scores
from taskloom.experiments.table import Runs


def write_findings(
    folder: Path,
    title: str,
    lead: str,
    findings: Sequence[Finding],
    runs: Runs | None = None,
    traits: Sequence[str] = (),
) -> Path:
    """Write findings to a folder and return the path of the HTML page. Each file is written
    completely or not at all.

    Args:
        folder: Folder to write to; see `check_folder`.
        title: Title of the page.
        lead: The paragraph below the title.
        findings: The findings.
        runs: The runs that were analysed.
        traits: Traits of examples to keep in scores.json, with the answers. If empty, neither is
            kept.
    """
    check_folder(folder, title)
    body = "\n\n".join(markdown(finding) for finding in findings)
    # Written first, so that after an interruption the folder shows which study its files belong to.
    _write(folder / MARKDOWN, f"{_heading(title)}\n\n{lead}\n\n{body}\n")
    drawn = {}
    for number, finding in enumerate(findings, 1):
        for figure in finding.figures:
            drawn[id(figure)] = _write_figure(folder, figure)
        if finding.table is not None:
            _write(folder / f"table-{number}.csv", finding.table.to_csv())
            _write(folder / f"table-{number}.tex", finding.table.to_latex() + "\n")
        if finding.judgements:
            _write(
                folder / f"judgements-{number}.csv", judgement_table(finding.judgements).to_csv()
            )
    _write(
        folder / "findings.json",
        json.dumps([f.to_dict() for f in findings], indent=1, ensure_ascii=False) + "\n",
    )
    scores = folder / "scores.json"
    if (
        runs is not None and runs.path.resolve() != scores.resolve()
    ):  # the given runs may be a selection from the file
        groups, items = score_groups(runs, traits, curves=True)
        write_scores(groups, scores, items)
    return page.write(
        folder / "page.html", title, lead, [s for f in findings for s in _sections(f, drawn)]
    )


MARKDOWN = "page.md"


def check_folder(folder: Path, title: str) -> None:
    """Raise an error if a page cannot be written to a folder, before anything is computed.

    A page with the same title is replaced. A folder with another page, or with other files, is an
    error.

    Args:
        folder: Folder for the findings. It need not exist.
        title: Title of their page.
    """
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise DataError(
            f"cannot make the folder {folder}: {existing} is a file; choose another folder"
        )
    if not os.access(existing, os.W_OK):
        raise DataError(f"cannot write to {existing}; make it writable or choose another folder")
    names = (
        sorted(path.name for path in folder.iterdir() if path.name[0] != ".")
        if existing == folder
        else []
    )
    if not names:
        return
    if MARKDOWN not in names:
        raise DataError(
            f"{folder} is not empty ({names[0]}) and has no page of a study; choose another folder"
        )
    heading = read_utf8(folder / MARKDOWN).partition("\n")[0]
    if heading != _heading(title):
        raise DataError(
            f"{folder} has the page '{heading.lstrip('# ')}', not '{title}'; choose another folder"
        )


def _heading(title: str) -> str:
    return f"# {title}"


def _write(path: Path, text: str | bytes) -> None:
    with atomic(path) as beside:
        beside.write_bytes(text.encode() if isinstance(text, str) else text)


def _write_figure(folder: Path, figure: StudyFigure) -> str:
    """Write the three files of a figure, and return it as part of a page."""
    drawing = figure.draw(figure.data)
    _write(folder / f"{figure.name}.svg", figures.svg(drawing) + "\n")
    _write(folder / f"{figure.name}.pdf", figures.pdf(drawing))
    _write(folder / f"{figure.name}.csv", figure.data.to_csv())
    return figures.page_svg(drawing, figure.caption)


def page_sections(findings: Sequence[Finding]) -> list[Section]:
    """Sections of a page about findings, with their figures."""
    sections = []
    for finding in findings:
        drawn = {}
        for one in finding.figures:
            drawn[id(one)] = figures.page_svg(one.draw(one.data), one.caption)
        sections += _sections(finding, drawn)
    return sections


def _sections(finding: Finding, drawn: dict[int, str]) -> list[Section]:
    """Sections of one finding: its first figure and table, further figures, and the judgements."""
    first = finding.figures[0] if finding.figures else None
    figure, caption = (drawn[id(first)], first.caption) if first else ("", "")
    sections = [
        Section(
            finding.title,
            finding.text,
            _page_table(finding.table),
            figure=figure,
            caption=caption,
        )
    ]
    for number, further in enumerate(finding.figures[1:], 2):
        title = f"{finding.title}, figure {number}"
        sections.append(Section(title, figure=drawn[id(further)], caption=further.caption))
    if finding.judgements:
        table = _page_table(short_judgement_table(finding.judgements))
        title = f"{finding.title}: beside the published numbers"
        rule = RULE if any(judgement.seeds for judgement in finding.judgements) else NUMBER_RULE
        lines = differing_conditions(finding.judgements)
        lists = ((CONDITIONS, tuple(lines)),) if lines else ()
        sections.append(Section(title, rule, table, lists=lists, folded=folded(finding.judgements)))
    if finding.notes:
        last = sections[-1]
        sections[-1] = replace(
            last, lists=(*last.lists, (NOTES if last.lists else "", finding.notes))
        )
    return sections


SHOWN_INCOMPARABLE = 12
"""Maximum comparisons without a verdict that a page shows. More are folded, because readers rarely
look for them.
"""


def folded(judgements: Sequence[Judgement]) -> str:
    """Label of the fold around a long table of comparisons without a verdict. Empty if the table is
    always shown.
    """
    if len(judgements) <= SHOWN_INCOMPARABLE or any(
        judgement.verdict != OTHER for judgement in judgements
    ):
        return ""
    return f"{len(judgements)} numbers beside the published ones, which are not comparable"


NOTES = "Notes:"
"""Heading that separates the notes of a page from the conditions above them."""

RULE = (
    "Ours has a 95 % interval over seeds, or over tasks where tasks are counted. 'agrees': the"
    " whole interval of the difference lies within the margin. 'disagrees': it excludes 0."
    " 'inconclusive': the data are compatible with both."
)

NUMBER_RULE = (
    "These numbers need no training. They agree if they are equal after the paper's rounding, or "
    "differ by less than a tolerance that is stated here."
)


def _page_table(table: ResultTable | None) -> Table | None:
    """Table for a page. Texts that begin with a number are right-aligned, too."""
    if table is None:
        return None
    shown = table.shown()
    if not shown.cells:
        return shown
    numeric = []
    for column in zip(*shown.cells, strict=True):
        first = next((cell for cell in column if cell), "")
        numeric.append(first.lstrip("-+[<∞ ")[:1].isdigit())
    return replace(shown, numeric=tuple(numeric))


def markdown(finding: Finding, figure_folder: str = "", level: int = 2) -> str:
    """A finding as Markdown.

    Args:
        finding: The finding.
        figure_folder: Path of its figures relative to the page. Default: the same folder.
        level: Level of its heading; 0 for none.
    """
    head = f"{figure_folder}/" if figure_folder else ""
    parts = [f"{'#' * level} {finding.title}"] if level else []
    parts += [finding.text] if finding.text else []
    parts += [finding.table.to_markdown()] if finding.table is not None else []
    for figure in finding.figures:
        alt = figure.caption.split(". ")[0].replace("[", "(").replace("]", ")")
        parts.append(f"![{alt}]({head}{figure.name}.svg)")
        parts.append(f"*{figure.caption}* Data: [{figure.name}.csv]({head}{figure.name}.csv).")
    if finding.judgements:
        table = short_judgement_table(finding.judgements).to_markdown()
        if summary := folded(finding.judgements):
            table = f"<details markdown>\n<summary>{summary}</summary>\n\n{table}\n\n</details>"
        parts.append(table)
    lines = differing_conditions(finding.judgements)
    parts += [CONDITIONS, _bullets(lines)] if lines else []
    if finding.notes:
        # Markdown would merge two adjacent lists.
        parts += [*([NOTES] if lines else []), _bullets(finding.notes)]
    return "\n\n".join(parts)


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
