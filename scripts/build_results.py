"""Write the pages of docs/results again from the stored scores: `make results`, or `make results PAGES="zest ctlpp"` for some.

A page has blocks of its own words and blocks that a study makes:

    <!-- study ctlpp/table1 ctlpp/scores.json show=table,figures,judgements,notes -->
    ...
    <!-- end -->

A study of networks' states takes them from a file: `<!-- study ctlpp/figure9 ctlpp/scores.json states=ctlpp/ndr-R-states.npz -->`;
`by_layers=ctlpp/layers.json` gives that of layers at test the accuracies; settings that are words, as `variant=A`, stand there too.
Profiles of models stand in such a block as well: `<!-- study profile profiles/a.json,profiles/b.json -->`.

What stands between the two lines is written anew; figures (SVG) and their data (CSV) go to the folder of the scores. `show` names
the parts; all by default. `python scripts/build_results.py add docs/results/ctlpp/scores.json RUNS...` adds the scores of run
stores or of other files of scores first; with `--traits=question,support` also the answers to single examples, with these traits,
and with `--curves` learning curves.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from taskloom.profiles.profile import read_profile
from taskloom.profiles.profile_findings import profile_findings
from taskloom.studies import figures
from taskloom.studies.findings import Finding, StudyFigure
from taskloom.studies.findings_folder import csv_text, markdown
from taskloom.studies.reproduction import analyse
from taskloom.studies.score_files import open_runs, score_groups, write_scores

RESULTS = Path(__file__).parent.parent / "docs" / "results"

BLOCK = re.compile(
    r"(<!-- study (\S+)(?: ([^\s=]+))?((?: (?!show=)\w+=\S+)*)(?: show=(\S+))? -->\n)(.*?)(<!-- end -->)", re.S
)

FILES = ("states", "by_layers")
"""Settings of studies that are files, named from the page's folder."""

PARTS = ("text", "table", "figures", "judgements", "notes")


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
    drawn = [(page.parent / folder / figure.name, figure) for finding in chosen for figure in finding.figures]
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


def rewritten(page: Path) -> Made:
    """Return a page with all its blocks made anew, and their figures."""
    drawn: list[tuple[Path, StudyFigure]] = []

    def anew(match: re.Match[str]) -> str:
        head, study, scores, settings, parts, _, end = match.groups()
        text, more = block(page, study, scores or "", settings, parts.split(",") if parts else list(PARTS))
        drawn.extend(more)
        return f"{head}\n{text}\n\n{end}"

    return BLOCK.sub(anew, page.read_text(encoding="utf-8")), drawn


def drawing(figure: StudyFigure) -> str:
    """Return the SVG file of a figure."""
    return figures.svg(figure.draw(figure.data)) + "\n"


def write(page: Path) -> None:
    """Write a page, its figures and their data."""
    text, drawn = rewritten(page)
    for stem, figure in drawn:
        stem.with_suffix(".svg").write_text(drawing(figure), encoding="utf-8")
        stem.with_suffix(".csv").write_text(csv_text(figure.data), encoding="utf-8")
    page.write_text(text, encoding="utf-8")


def pages() -> Iterator[Path]:
    """Yield the pages that have blocks of studies."""
    for page in sorted(RESULTS.glob("*.md")):
        if BLOCK.search(page.read_text(encoding="utf-8")):
            yield page


def add(target: Path, sources: list[str], traits: Sequence[str] = (), curves: bool = False) -> None:
    """Add the scores of runs to a file of scores; a group that is there gets the seeds that it lacks, and traits are kept."""
    if target.exists():
        tables = json.loads(target.read_text(encoding="utf-8")).get("items", {}).values()
        traits = list(dict.fromkeys([*traits, *(name for table in tables for name in table["traits"])]))
    groups, items = score_groups(open_runs(target), traits, curves) if target.exists() else ([], {})
    for source in sources:
        more, more_items = score_groups(open_runs(source), traits, curves)
        for group in more:
            own = [g for g in groups if all(g[k] == group[k] for k in ("recipe", "learner", "fields"))]
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
            renumbered = {**answers, "predictions": [places[place] for place in answers["predictions"]]}
            group.setdefault("answers", {}).setdefault(seed, {})[split] = renumbered
    if texts:
        group["texts"] = list(texts)
        group["items"] = {**more.get("items", {}), **group.get("items", {})}


def main(arguments: list[str]) -> None:
    """Add scores where that is asked for, and write the pages that are named (all by default; after adding, that of the scores)."""
    named = arguments
    if arguments[:1] == ["add"]:
        given = [a.removeprefix("--traits=") for a in arguments if a.startswith("--traits=")]
        target, *sources = [a for a in arguments[1:] if not a.startswith("--")]
        add(Path(target), sources, [name for names in given for name in names.split(",")], "--curves" in arguments)
        named = [Path(target).parent.name]
    known = {page.stem: page for page in pages()}
    if unknown := [name for name in named if name not in known]:
        sys.exit(f"there is no page '{unknown[0]}'; the pages are {', '.join(known)}")
    for name in named or known:
        write(known[name])
        print(f"wrote {known[name]}")


if __name__ == "__main__":
    main(sys.argv[1:])
