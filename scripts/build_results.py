"""Write the generated parts of the documentation's pages again from stored scores: `make results`,
or `make results PAGES="zest ctlpp"` for some of them.

Two kinds of blocks are generated. What a study says:

    <!-- study ctlpp/table1 ctlpp/scores.json show=table,figures,judgements,notes -->
    ...
    <!-- end -->

Settings of the study follow the scores (`variant=A`); those that are files
(`states=ctlpp/ndr-R-states.npz`) are named from the page's folder. `<!-- study profile
profiles/a.json,profiles/b.json -->` shows profiles of models. `show` names the parts; all by
default. Figures (SVG) and their data (CSV) go to the folder of the scores.

And what was found, which docs/results/findings.yaml states once for all pages (its head describes
an entry):

    <!-- findings headlines -->           the headlines as a list: README.md, docs/index.md
    <!-- findings some-id,other-id -->    claims with the number behind each: results pages
    <!-- findings ctlpp evidence -->      all claims of a page with their evidence: full records
    <!-- findings retracted sentences --> what was retracted, and why: what-we-found.md
    <!-- findings counts -->              how many claims of each page got which verdict
    <!-- end -->

docs/index.md is README.md with other links.

A retracted finding is shown as retracted wherever it stands.

`python scripts/build_results.py add docs/results/ctlpp/scores.json RUNS...` adds the scores of run
stores or of other score files first; with `--traits=question,support` also the answers to single
examples, with these traits, and with `--curves` learning curves.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from taskloom.analysis import figures
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.findings_folder import markdown
from taskloom.analysis.profile.profile import read_profile
from taskloom.analysis.profile.profile_page import profile_findings
from taskloom.analysis.study import analyse
from taskloom.analysis.verdict import judgement_table
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.sources.score_files import open_runs, score_groups, write_scores
from taskloom.recipe import yaml_files

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
FINDINGS = RESULTS / "findings.yaml"
README = ROOT / "README.md"
HOME = ROOT / "docs" / "index.md"
"""The front page of the site, which has the text of README.md."""

BLOCK = re.compile(
    r"(<!-- study (\S+)(?: ([^\s=]+))?((?: (?!show=)\w+=\S+)*)(?: show=(\S+))? -->\n)(.*?)(<!-- end"
    r" -->)",
    re.S,
)

FILES = ("states", "by_layers")
"""Settings of studies that are files, named from the page's folder."""

FOUND = re.compile(
    r"(<!-- findings (\S+)(?: (evidence|sentences))? -->\n)(.*?)(<!-- end -->)", re.S
)

PARTS = ("text", "table", "figures", "judgements", "notes")

MARKS = {
    "agrees": "✓",
    "partly": "~",
    "disagrees": "✗",
    "inconclusive": "?",
    "not comparable": "–",
    "new": "new",
    "retracted": "retracted",
}
"""Verdicts on claims, and how tables show them."""

PAGE_TITLES = {
    "ctlpp": "CTL++",
    "dyna-babi": "Dyna-bAbI",
    "taskbench500": "TaskBench500",
    "zest": "ZEST",
    "reinforcement": "Reinforcement",
    "profiles": "Profiles of models",
}
"""Results pages in the order in which tables list them, with their titles."""


def shown(finding: Finding, parts: list[str]) -> Finding:
    """Return the parts of a finding that a page wants."""
    empty = {"text": "", "table": None, "figures": (), "judgements": (), "notes": ()}
    return replace(finding, **{name: empty[name] for name in PARTS if name not in parts})


Made = tuple[str, list[tuple[Path, StudyFigure]]]
"""A text and the figures that it shows, each with the stem of its files."""


def folder_of(page: Path) -> str:
    """Folder of a page's files: the page and its full record (`ctlpp-record.md`) share one."""
    return page.stem.removesuffix("-record")


def block(page: Path, study: str, scores: str, settings: str, parts: list[str]) -> Made:
    """Return what a study says, and its figures."""
    folder = Path(scores.partition(",")[0]).parent if scores else Path(folder_of(page))
    chosen = [shown(finding, parts) for finding in findings_of(page, study, scores, settings)]
    drawn = [
        (page.parent / folder / figure.name, figure)
        for finding in chosen
        for figure in finding.figures
    ]
    level = 2 if study == "profile" else 0  # a profile has several parts that a reader looks for
    texts = [markdown(finding, str(folder), level) for finding in chosen]
    return "\n\n".join(text for text in texts if text), drawn


def findings_of(page: Path, study: str, scores: str, settings: str) -> list[Finding]:
    """Return the findings of a study, or of profiles (`study profile A.json,B.json`)."""
    if study == "profile":
        return profile_findings([read_profile(page.parent / name) for name in scores.split(",")])
    given = dict(setting.split("=", 1) for setting in settings.split())
    files = {name: str(page.parent / value) for name, value in given.items() if name in FILES}
    return analyse(study, page.parent / scores if scores else None, **{**given, **files})[2]


@dataclass(frozen=True, slots=True)
class FoundEntry:
    """An entry of findings.yaml, whose head says what the fields are."""

    id: str
    page: str
    claim: str
    verdict: str
    measured: str = ""
    place: str = ""
    paper: str = ""
    but: str = ""
    here: str = ""
    unit: str = ""
    n: str | int = ""
    margin: str | float = ""
    study: str = ""
    scores: str = ""
    numbers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    headline: str = ""
    because: str = ""
    said: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.verdict not in MARKS:
            raise ValueError(
                f"{FINDINGS}: {self.id} has the verdict '{self.verdict}'; known: {', '.join(MARKS)}"
            )
        if (self.verdict == "retracted") != bool(self.because):
            raise ValueError(
                f"{FINDINGS}: {self.id}: a finding has `because` if, and only if, it is retracted"
            )

    def filled(self, text: str) -> str:
        """A text of the entry with its numbers filled in from the study."""
        for name in re.findall(r"\{(\w+)\}", text):
            text = text.replace(f"{{{name}}}", self.number(name))
        return text

    def number(self, name: str) -> str:
        """A number behind the finding: the cell of the study's table that `numbers` names."""
        where = self.numbers[name]
        study, scores = where.get("study", self.study), where.get("scores", self.scores)
        for table in study_tables(study, scores, where.get("settings", "")):
            cells = {row[where["column"]] for row in shown_rows(table) if matches(row, where)}
            if len(cells) == 1:
                return cells.pop()
            if cells:
                raise ValueError(
                    f"{FINDINGS}: {self.id}: '{name}' names {len(cells)} cells of {study} on"
                    f" {scores}, not one"
                )
        raise ValueError(f"{FINDINGS}: {self.id}: '{name}' names no cell of {study} on {scores}")


def matches(row: Mapping[str, str], where: Mapping[str, Any]) -> bool:
    """True if a row of a table has the column that is wanted, and the values that choose it."""
    return where["column"] in row and all(
        row.get(key) == str(value) for key, value in where["row"].items()
    )


@cache
def study_tables(study: str, scores: str, settings: str) -> list[ResultTable]:
    """All tables of a study: first its own, then the judgements, then the data of its figures."""
    findings = findings_of(RESULTS / "any.md", study, scores, settings)
    own = [finding.table for finding in findings if finding.table is not None]
    judged = [judgement_table(finding.judgements) for finding in findings if finding.judgements]
    drawn = [figure.data for finding in findings for figure in finding.figures]
    return [*own, *judged, *drawn]


def shown_rows(table: ResultTable) -> Iterator[dict[str, str]]:
    """The rows of a table as people read them."""
    shown = table.shown()
    for row in shown.cells:
        yield dict(zip(shown.heads, row, strict=True))


def all_found() -> list[FoundEntry]:
    """The entries of findings.yaml."""
    entries = [FoundEntry(**entry) for entry in yaml_files.load(FINDINGS, ValueError)]  # type: ignore[arg-type]
    ids = [entry.id for entry in entries]
    if twice := {name for name in ids if ids.count(name) > 1}:
        raise ValueError(f"{FINDINGS}: {', '.join(sorted(twice))}: an id of two findings")
    return entries


def chosen_findings(entries: Sequence[FoundEntry], selector: str) -> list[FoundEntry]:
    """The entries that a block shows: `headlines`, `retracted`, those of a page, or some by id."""
    if selector == "headlines":
        return [entry for entry in entries if entry.headline]
    if selector == "retracted":
        return [entry for entry in entries if entry.verdict == "retracted"]
    if any(entry.page == selector for entry in entries):
        return [entry for entry in entries if entry.page == selector]
    known = {entry.id: entry for entry in entries}
    if unknown := [name for name in selector.split(",") if name not in known]:
        raise ValueError(f"{FINDINGS} has no finding '{unknown[0]}'")
    return [known[name] for name in selector.split(",")]


def rendered_findings(entries: Sequence[FoundEntry], selector: str, form: str) -> str:
    """What a block shows of the findings."""
    if selector == "counts":
        return counts_table(entries)
    chosen = chosen_findings(entries, selector)
    if selector == "headlines":
        return "\n".join(f"- {said_of(entry, entry.headline)}" for entry in chosen)
    if form == "sentences":
        return "\n".join(f"- {said_of(entry, entry.claim)}" for entry in chosen)
    if form == "evidence":
        rows = [evidence_row(entry) for entry in chosen]
        return claims_table(("claim", "place", "verdict", "what was measured"), rows)
    rows = [claim_row(entry) for entry in chosen]
    table = claims_table(("claim", "paper", "here", ""), rows, "claims short")
    return f"{table}\n\n{legend(chosen)}"


def legend(chosen: Sequence[FoundEntry]) -> str:
    """What the marks of a table mean: those that it has."""
    used = {entry.verdict for entry in chosen}
    marks = [
        f"{mark} {verdict}"
        for verdict, mark in MARKS.items()
        if verdict in used and mark != verdict
    ]
    if "new" in used:
        marks.append("new: our own finding")
    return " · ".join(marks) + "."


def counts_table(entries: Sequence[FoundEntry]) -> str:
    """How many claims of each results page got which verdict, with links to page and record."""
    verdicts = [name for name in MARKS if any(entry.verdict == name for entry in entries)]
    heads = ["study", *(MARKS[name] for name in verdicts), "evidence"]
    rows = []
    for page, title in PAGE_TITLES.items():
        own = [entry.verdict for entry in entries if entry.page == page]
        counts = [str(own.count(name) or "") for name in verdicts]
        rows.append([f"[{title}]({page}.md)", *counts, f"[full record]({page}-record.md)"])
    return claims_table(heads, rows, "counts") + f"\n\n{legend(entries)}"


def said_of(entry: FoundEntry, text: str) -> str:
    """A sentence on a finding, or on its retraction."""
    if entry.verdict == "retracted":
        return f"**Retracted.** <del>{sentence(entry.claim)}</del> {sentence(entry.because)}"
    return sentence(entry.filled(text))


def sentence(text: str) -> str:
    """A text with a capital at its beginning and a full stop at its end."""
    text = " ".join(text.split())
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!", ".)")) else ".")


def claim_row(entry: FoundEntry) -> tuple[str, ...]:
    """A claim with the published number, ours and a mark."""
    if entry.verdict == "retracted":
        return f"<del>{entry.claim}</del>", entry.paper, sentence(entry.because), MARKS["retracted"]
    return (
        entry.claim,
        entry.paper,
        entry.filled(entry.here or entry.measured),
        MARKS[entry.verdict],
    )


def evidence_row(entry: FoundEntry) -> tuple[str, ...]:
    """A claim with its place in the paper, the verdict and everything that was measured."""
    if entry.verdict == "retracted":
        return f"<del>{entry.claim}</del>", entry.place, "**retracted**", sentence(entry.because)
    verdict = f"**{entry.verdict}**" + (f": {entry.but}" if entry.but else "")
    margin = f"±{entry.margin:.2f}" if isinstance(entry.margin, float) else entry.margin
    terms = {"unit": entry.unit, "n": entry.n, "margin": margin}
    basis = "; ".join(f"{name}: {value}" for name, value in terms.items() if value != "")
    measured = sentence(entry.filled(entry.measured))
    return (
        entry.claim,
        entry.place,
        verdict,
        f"{measured}<br>*{sentence(basis)}*" if basis else measured,
    )


def claims_table(heads: Sequence[str], rows: Iterable[Sequence[str]], style: str = "claims") -> str:
    """A table in Markdown, in a class whose columns the site makes as wide as their text."""
    lines = [heads, ["---"] * len(heads), *rows]
    table = "\n".join(
        "| " + " | ".join(" ".join(cell.split()) for cell in line) + " |" for line in lines
    )
    return f'<div class="{style}" markdown>\n\n{table}\n\n</div>'


def rewritten(page: Path, entries: Sequence[FoundEntry] | None = None) -> Made:
    """Return a page with all its blocks made anew, and their figures."""
    if page == HOME:
        text, drawn = with_studies(README)
        return as_home(with_findings(text, all_found() if entries is None else entries)), drawn
    text, drawn = with_studies(page)
    return with_findings(text, all_found() if entries is None else entries), drawn


def as_home(readme: str) -> str:
    """The front page of the documentation: README.md with links that start in docs/."""
    inside = readme.replace("](docs/", "](")
    return re.sub(r"\]\((?=[A-Z]\w+\.(md|cff)\))", "](../", inside)


def with_findings(text: str, entries: Sequence[FoundEntry]) -> str:
    """The text of a page with its blocks of findings made anew."""

    def anew(match: re.Match[str]) -> str:
        head, selector, form, _, end = match.groups()
        return f"{head}\n{rendered_findings(entries, selector, form or '')}\n\n{end}"

    return FOUND.sub(anew, text)


def with_studies(page: Path) -> Made:
    """The text of a page with its blocks of studies made anew, and their figures."""
    drawn: list[tuple[Path, StudyFigure]] = []

    def anew(match: re.Match[str]) -> str:
        head, study, scores, settings, parts, _, end = match.groups()
        text, more = block(
            page, study, scores or "", settings, parts.split(",") if parts else list(PARTS)
        )
        drawn.extend(more)
        return f"{head}\n{text}\n\n{end}"

    return BLOCK.sub(anew, page.read_text(encoding="utf-8")), drawn


def drawing(figure: StudyFigure) -> str:
    """Return the SVG file of a figure."""
    return figures.svg(figure.draw(figure.data)) + "\n"


def phone_drawing(figure: StudyFigure) -> str:
    """Return the SVG file of a figure for phones, which the site shows on narrow screens."""
    with figures.for_phones():
        return drawing(figure)


def on_short_page(stem: Path) -> bool:
    """True if a figure is on a short results page, not only on a full record."""
    page = RESULTS / f"{stem.parent.name}.md"
    return page.exists() and f"({stem.parent.name}/{stem.name}.svg)" in page.read_text("utf-8")


def write(page: Path) -> None:
    """Write a page, its figures and their data."""
    text, drawn = rewritten(page)
    for stem, figure in drawn:
        stem.with_suffix(".svg").write_text(drawing(figure), encoding="utf-8")
        stem.with_suffix(".csv").write_text(figure.data.to_csv(), encoding="utf-8")
        if on_short_page(stem):
            phone = stem.with_name(f"{stem.name}-phone.svg")
            phone.write_text(phone_drawing(figure), encoding="utf-8")
    page.write_text(text, encoding="utf-8")


def pages() -> Iterator[Path]:
    """Yield the pages that have generated blocks."""
    for page in [README, *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        if BLOCK.search(text) or FOUND.search(text):
            yield page


def add(target: Path, sources: list[str], traits: Sequence[str] = (), curves: bool = False) -> None:
    """Add the scores of runs to a file of scores; a group that is there gets the seeds that it
    lacks, and traits are kept.
    """
    if target.exists():
        tables = json.loads(target.read_text(encoding="utf-8")).get("items", {}).values()
        traits = list(
            dict.fromkeys([*traits, *(name for table in tables for name in table["traits"])])
        )
    groups, items = score_groups(open_runs(target), traits, curves) if target.exists() else ([], {})
    for source in sources:
        more, more_items = score_groups(open_runs(source), traits, curves)
        for group in more:
            own = [
                g for g in groups if all(g[k] == group[k] for k in ("recipe", "learner", "fields"))
            ]
            if own:
                merge(own[0], group)
            else:
                groups.append(group)
        items |= more_items
    write_scores(groups, target, items)


def merge(group: dict[str, Any], more: dict[str, Any]) -> None:
    """Add the seeds that a group lacks, with their answers, to it."""
    lacking = [seed for seed in more["seeds"] if seed not in group["seeds"]]
    group["seeds"] |= {seed: more["seeds"][seed] for seed in lacking}
    texts = {text: place for place, text in enumerate(group.get("texts", ()))}
    places = [texts.setdefault(text, len(texts)) for text in more.get("texts", ())]
    for seed in lacking:
        for split, answers in more.get("answers", {}).get(seed, {}).items():
            renumbered = {
                **answers,
                "predictions": [places[place] for place in answers["predictions"]],
            }
            group.setdefault("answers", {}).setdefault(seed, {})[split] = renumbered
    if texts:
        group["texts"] = list(texts)
        group["items"] = {**more.get("items", {}), **group.get("items", {})}


def main(arguments: list[str]) -> None:
    """Add scores where that is asked for, and write the pages that are named (all by default; after
    adding, that of the scores).
    """
    named = arguments
    if arguments[:1] == ["add"]:
        given = [a.removeprefix("--traits=") for a in arguments if a.startswith("--traits=")]
        target, *sources = [a for a in arguments[1:] if not a.startswith("--")]
        add(
            Path(target),
            sources,
            [name for names in given for name in names.split(",")],
            "--curves" in arguments,
        )
        folder = Path(target).parent.name
        named = [page.stem for page in pages() if folder_of(page) == folder]
    known = list(pages())
    stems = sorted({page.stem for page in known})
    if unknown := [name for name in named if name not in stems]:
        sys.exit(f"there is no page '{unknown[0]}'; the pages are {', '.join(stems)}")
    for page in known:
        if not named or page.stem in named:
            write(page)
            print(f"wrote {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1:])
