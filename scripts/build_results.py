"""Write the pages of docs/results again from the stored scores: `make results`.

A page has blocks of its own words and blocks that a study makes:

    <!-- study ctlpp/table1 ctlpp/scores.json show=table,figures,judgements,notes -->
    ...
    <!-- end -->

What stands between the two lines is written anew; figures (SVG) and their data (CSV) go to the folder of the scores. `show` names
the parts; all by default. `python scripts/build_results.py add docs/results/ctlpp/scores.json RUNS...` adds the scores of run
stores or of other files of scores first.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from taskloom.studies import figures
from taskloom.studies.findings import Finding
from taskloom.studies.findings_folder import csv_text, markdown
from taskloom.studies.reproduction import analyse
from taskloom.studies.score_files import open_runs, score_groups, write_scores

RESULTS = Path(__file__).parent.parent / "docs" / "results"

BLOCK = re.compile(r"(<!-- study (\S+)(?: ([^\s=]+))?(?: show=(\S+))? -->\n)(.*?)(<!-- end -->)", re.S)

PARTS = ("text", "table", "figures", "judgements", "notes")


def shown(finding: Finding, parts: list[str]) -> Finding:
    """Return the parts of a finding that a page wants."""
    empty = {"text": "", "table": None, "figures": (), "judgements": (), "notes": ()}
    return replace(finding, **{name: empty[name] for name in PARTS if name not in parts})


def block(page: Path, study: str, scores: str, parts: list[str], write: bool) -> str:
    """Return what a study says, and write its figures."""
    _, _, findings = analyse(study, page.parent / scores if scores else None)
    folder = Path(scores).parent if scores else Path(page.stem)
    chosen = [shown(finding, parts) for finding in findings]
    for finding in chosen if write else []:
        for figure in finding.figures:
            stem = page.parent / folder / figure.name
            stem.with_suffix(".svg").write_text(figures.svg(figure.draw(figure.data)) + "\n", encoding="utf-8")
            stem.with_suffix(".csv").write_text(csv_text(figure.data), encoding="utf-8")
    return "\n\n".join(markdown(finding, str(folder), level=0) for finding in chosen)


def rewritten(page: Path, write: bool = True) -> str:
    """Return a page with all its blocks made anew."""

    def anew(match: re.Match[str]) -> str:
        head, study, scores, parts, _, end = match.groups()
        wanted = parts.split(",") if parts else list(PARTS)
        return f"{head}\n{block(page, study, scores or '', wanted, write)}\n\n{end}"

    return BLOCK.sub(anew, page.read_text(encoding="utf-8"))


def pages() -> Iterator[Path]:
    """Yield the pages that have blocks of studies."""
    for page in sorted(RESULTS.glob("*.md")):
        if BLOCK.search(page.read_text(encoding="utf-8")):
            yield page


def add(target: Path, sources: list[str]) -> None:
    """Add the scores of runs to a file of scores; a group that is there gets the seeds that it lacks."""
    groups = score_groups(open_runs(target)) if target.exists() else []
    for source in sources:
        for group in score_groups(open_runs(source)):
            own = [g for g in groups if all(g[k] == group[k] for k in ("recipe", "learner", "fields"))]
            if own:
                own[0]["seeds"] = {**group["seeds"], **own[0]["seeds"]}
            else:
                groups.append(group)
    write_scores(groups, target)


def main(arguments: list[str]) -> None:
    """Add scores where that is asked for, and write the pages."""
    if arguments[:1] == ["add"]:
        add(Path(arguments[1]), arguments[2:])
    for page in pages():
        text = rewritten(page)
        page.write_text(text, encoding="utf-8")
        print(f"wrote {page}")


if __name__ == "__main__":
    main(sys.argv[1:])
