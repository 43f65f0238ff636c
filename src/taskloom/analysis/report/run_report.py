"""`taskloom runs report runs/`: one page to send to a colleague, with what was run, how well it did
and how certain that is.

Datasets may be shown on the same page: their sizes and digests, one example of each, and the
results of an audit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import taskloom
from taskloom.analysis.figures import width_in_inches
from taskloom.analysis.panels import sheet
from taskloom.analysis.report import page
from taskloom.analysis.report.answer_data import Explorer
from taskloom.analysis.report.page import FigureFiles, Section
from taskloom.analysis.report.run_numbers import FAILURES, RunNumbers
from taskloom.analysis.report.run_sections import RunSections
from taskloom.analysis.report.run_sentences import say
from taskloom.core.errors import DataError, ParameterError
from taskloom.core.tables import Column, paragraph, table_of
from taskloom.data import Dataset, dataset
from taskloom.experiments.record import FailedRun, RunsError
from taskloom.experiments.sources import runs as open_runs
from taskloom.experiments.table import Runs

if TYPE_CHECKING:
    _Path = Path
else:
    _Path = type(Path())  # `Path` itself cannot be subclassed before Python 3.12


def report(
    store: str | Path | Runs,
    out: str | Path = "report.html",
    level: float = 0.95,
    *,
    data: Sequence[str | Path] = (),
    figures: str | Path | None = None,
    formats: Sequence[str] = ("svg", "pdf"),
    width: str | float | None = None,
    panels: Sequence[str] = (),
    names: Mapping[str, str] | None = None,
    where: Sequence[str] = (),
    threshold: float | None = None,
    title: str = "",
) -> ReportFile:
    """Write the page. A notebook shows it below the cell.

    Args:
        store: The folder of the runs, a file that `tl.runs` reads, or runs of `tl.run` or
            `tl.runs`.
        out: The HTML file.
        level: The confidence level of all intervals.
        data: Datasets, or folders of datasets, to show and audit on the same page.
        figures: A folder for the page's figures: `learning-curves.svg`, `learning-curves.pdf`.
        formats: Formats of the figures: `pdf`, `svg`, `png`.
        width: Width of the figures: `column` or `page` of a paper, or inches.
        panels: Only panels whose title contains one of these texts.
        names: Other names for recipes and learners, on the page and in figures.
        where: Only runs that match these selections of `Runs.where`, such as `iid > 0.5`.
        threshold: Adds the share of seeds with a score above it to the table of scores.
        title: Heading. Default: the recipes and learners.
    """
    table = (store if isinstance(store, Runs) else open_runs(store)).where(*where)
    failed = table.failures()
    if not len(table) and not failed:
        raise RunsError(f"{table.path} holds no finished run yet; fill it with 'taskloom run'")
    numbers = RunNumbers(table, level, threshold, names) if len(table) else None
    parts = RunSections(numbers) if numbers is not None else None
    sections = [s for s in _sections(table, parts, failed, data) if s is not None]
    shown = parts.explorer(sections) if parts is not None else Explorer()
    if shown.empty:
        sections = [replace(s, explorer=False) for s in sections]
    if figures is not None:
        inches = None if width is None else width_in_inches(width)
        page.write_figures(FigureFiles(Path(figures), formats, inches, panels), sections)
    headline = parts.headline if parts is not None else ""
    heading = title or (parts.name() if parts is not None else "Runs that failed")
    page.write(
        Path(out),
        heading,
        _lead(table, level, where, parts),
        sections,
        headline=headline,
        tasks=list(parts.tasks()) if parts is not None else (),
        data=shown.data,
    )
    return ReportFile(out)


def plot(
    runs: str | Path | Runs,
    by: str = "split",
    *,
    split: Sequence[str] | str = (),
    panels: Sequence[str] = (),
    names: Mapping[str, str] | None = None,
    width: str | float | None = None,
    level: float = 0.95,
) -> Any:
    """Draw the scores of runs as a matplotlib figure: means with intervals, a dot for each seed if
    there are few, and a dotted line for chance.

    Args:
        runs: Runs, their folder, or a file that `tl.runs` reads.
        by: `split` draws a row for each learner and a colour for each split; `step` draws learning
            curves; a trait of the examples draws a line or bars for each learner.
        split: Only these splits.
        panels: Only panels whose title contains one of these texts.
        names: Other names for recipes and learners.
        width: `column` or `page` of a paper, or inches. Default: panels of 5 inches.
        level: Confidence level of the intervals.
    """
    table = runs if isinstance(runs, Runs) else open_runs(runs)
    if not len(table):
        raise RunsError(f"{table.path} holds no finished run yet; fill it with 'taskloom run'")
    wanted = [split] if isinstance(split, str) else list(split)
    section = RunSections(RunNumbers(table, level, None, names)).figure(by, wanted)
    shown = FigureFiles(Path(), ("svg",), panels=panels).chosen(section)
    if not shown:
        titles = [panel.title for panel in section.panels]
        raise ParameterError("panels", f"leaves nothing to draw; known: {', '.join(titles)}")
    inches = None if width is None else width_in_inches(width)
    return sheet(shown, section.legend, section.guessed, inches)


LARGEST_INLINE = 8_000_000
"""Maximum size in bytes of a page that a notebook shows; larger ones slow the notebook down."""


class ReportFile(_Path):
    """Path of a page, which a notebook displays as the page itself."""

    def _repr_html_(self) -> str:
        if self.stat().st_size > LARGEST_INLINE:
            return paragraph(f"The report is in {self}, too large to show here.")
        text = escape(self.read_text(encoding="utf-8"))
        return (
            f'<iframe srcdoc="{text}" title="report" sandbox="allow-scripts"'
            ' style="width:100%;height:44rem;border:1px solid #ccc;background:#fff"></iframe>'
        )


def _lead(table: Runs, level: float, where: Sequence[str], parts: RunSections | None) -> str:
    """Paragraph below the title: number, origin and dates of the runs, and the meaning of
    intervals.
    """
    return say(
        "lead",
        runs=len(table),
        path=table.path,
        finished=parts.finished() if parts is not None else "",
        version=taskloom.__version__,
        level=level,
        scored=parts is None or parts.numbers.scored,
        where=list(where),
    )


def _sections(
    table: Runs,
    parts: RunSections | None,
    failed: Mapping[str, FailedRun],
    data: Sequence[str | Path],
) -> Iterator[Section | None]:
    if parts is not None:
        yield parts.findings(failed)
        yield parts.scores()
        yield parts.asked()
        yield parts.replies()
        yield parts.learning()
        yield from parts.by_trait()
        yield parts.twins()
        yield parts.comparisons()
        yield from parts.by_task()
        yield parts.examples()
    if failed:
        yield _failures(failed)
    yield from _dataset_sections(data)
    if parts is not None:
        yield parts.overview()
        yield parts.reproduction()


def _failures(failed: Mapping[str, FailedRun]) -> Section:
    text = "Rerun the 'taskloom run' command to retry just these."
    rows = tuple(
        {"cell": failure.cell, "run": run, "reason": failure.reason}
        for run, failure in failed.items()
    )
    return Section("Runs that failed", text, table_of(FAILURES, rows))


LONGEST = 900
"""Maximum characters of an example's input: about fifteen lines."""

DATASETS = (
    Column("recipe", itemgetter("recipe")),
    Column("examples", itemgetter("examples")),
    Column("content digest", itemgetter("digest")),
)

AUDITS = (
    Column("recipe", itemgetter("recipe")),
    Column("leaks", itemgetter("leaks"), number=True),
    Column("duplicates", itemgetter("duplicates"), number=True),
    Column("best shortcut's accuracy", itemgetter("shortcut"), number=True),
    Column("compound divergence from training", itemgetter("divergence"), number=True),
)


def _dataset_sections(folders: Sequence[str | Path]) -> list[Section]:
    """Sections about datasets; empty if there is no folder.

    Args:
        folders: Datasets, or folders of datasets.
    """
    loaded = [data for folder in folders for data in _datasets(Path(folder))]
    if not loaded:
        return []
    named = sorted(((_name(data), data) for data in loaded), key=itemgetter(0))
    shown = "One command with the same recipe and seed gives the same digests on every machine."
    audits = [_audited(name, data) for name, data in named]
    examples = tuple(
        Section(f"An example of {name}", blocks=(_example(name, data),)) for name, data in named
    )
    return [
        Section(
            "Datasets",
            shown,
            table_of(DATASETS, [_row(name, data) for name, data in named]),
            folded="Sizes and digests",
            inside=examples,
        ),
        Section(
            "Audit",
            say("audits", rows=audits),
            table_of(AUDITS, audits),
            folded="By dataset",
        ),
    ]


def _datasets(folder: Path) -> list[Dataset]:
    if (folder / dataset.MANIFEST).is_file():
        return [dataset.load(folder)]
    inside = sorted(path.parent for path in folder.glob(f"*/{dataset.MANIFEST}"))
    if not inside:
        raise DataError(
            f"{folder} is neither a dataset nor a folder of datasets; make one with 'taskloom make'"
        )
    return [dataset.load(path) for path in inside]


def _name(data: Dataset) -> str:
    recipe = data.manifest.get("recipe", {})
    return str(recipe.get("name") or recipe.get("suite") or recipe.get("task") or data.digest[:16])


def _row(name: str, data: Dataset) -> dict[str, Any]:
    sizes = ", ".join(f"{split} {data.manifest['splits'][split]['n']:,}" for split in data.splits)
    return {"recipe": name, "examples": sizes, "digest": data.digest[:16]}


def _audited(name: str, data: Dataset) -> dict[str, Any]:
    from taskloom.data.audit import audit  # most reports have no dataset to audit

    certificate = audit(data)
    shortcuts = [s.accuracy for s in certificate.shortcuts]
    apart = [f"{d.split} {d.compounds:.2f}" for d in certificate.divergence]
    return {
        "recipe": name,
        "leaks": len(certificate.leaks) + len(certificate.pairs),
        "duplicates": sum(r.exact for r in certificate.repeats),
        "shortcut": f"{max(shortcuts):.2f}" if shortcuts else "",
        "divergence": ", ".join(apart),
    }


def _example(name: str, data: Dataset) -> str:
    filled = [s for s in data.splits if data.manifest["splits"][s]["n"]]
    split = next((s for s in filled if data.role(s) == "test"), filled[0])
    example = data[split][0]
    steps = ", ".join(f"{s.rule} → {s.value}" for s in example.derivation[:8])
    text = f"{name}, {split}\n\n{example.input[:LONGEST]}\n\n→ {example.target}"
    return f"{text}    ({steps})" if steps else text
