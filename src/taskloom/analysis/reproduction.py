"""`taskloom.reproduce`: runs, study and page of a paper's table or figure, by name."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taskloom.analysis.finding import Finding
from taskloom.analysis.findings_folder import check_folder, write_findings
from taskloom.analysis.published_numbers import paper, paper_names
from taskloom.analysis.scales import planned_without_data, scale_statements
from taskloom.analysis.study import (
    FORMER_SCALES,
    SCALES,
    STUDIES,
    Study,
    StudyError,
    find_study,
    joined_choices,
    quick_costs,
)
from taskloom.core.errors import ParameterError, TaskloomError, echo
from taskloom.core.files import path_of
from taskloom.core.progress import ShowProgress, WorkCounter, shown
from taskloom.core.tables import paragraph
from taskloom.experiments import api
from taskloom.experiments.execute.driver import Watch
from taskloom.experiments.execute.progress import given_progress, watching
from taskloom.experiments.spec import experiment as spec
from taskloom.experiments.spec.cells import expand
from taskloom.experiments.spec.experiment import Experiment
from taskloom.experiments.table import Runs

NOTES = {
    "quick": (
        "Quick scale: small worlds and small networks, which show that the whole path works. These"
        " numbers are not measured under the conditions of the papers."
    ),
    "gpu": (
        "GPU scale: what was run on one GPU for the pages of results. 'taskloom reproduce STUDY"
        " --scale gpu --dry-run' lists where it differs from the paper."
    ),
}
"""Notes on scales whose conditions differ from the paper's."""


@dataclass(frozen=True, slots=True, repr=False)
class Reproduced:
    """Result of a reproduction.

    Attributes:
        study: The study.
        scale: `quick`, `gpu` or `paper`.
        findings: The findings.
        page: The page that was written, or None.
        runs: The runs that were analysed; None for studies that need none.
    """

    study: Study
    scale: str
    findings: list[Finding]
    page: Path | None
    runs: Runs | None

    def __repr__(self) -> str:
        page = f", page {self.page}" if self.page is not None else ""
        return (
            f"<Reproduced {self.study.name}, {self.scale} scale: {len(self.findings)}"
            f" findings{page}>"
        )

    @property
    def note(self) -> str:
        """Warning about the scale; empty if conditions are the paper's or nothing was trained."""
        return scale_note(self.study, self.scale)

    def _repr_html_(self) -> str:
        note = paragraph(self.note) if self.note else ""
        head = paragraph(f"{self.study.name}: {self.study.describe}", strong=True)
        return head + note + "".join(finding._repr_html_() for finding in self.findings)


def scale_note(study: Study, scale: str) -> str:
    """Note that numbers are not measured under the paper's conditions; empty if they are."""
    return "" if study.from_recipes else NOTES.get(scale, "")


def former_scale(scale: str) -> str:
    """Replacement of a scale's former name."""
    return (
        f"the scale '{scale}' is now called '{FORMER_SCALES[scale]}'; 'gpu' has the conditions of "
        f"our results pages"
    )


def current_scale(scale: str) -> str:
    """Check a scale and replace its former name by the current one."""
    if scale in FORMER_SCALES:
        warnings.warn(former_scale(scale), DeprecationWarning, stacklevel=3)
        return FORMER_SCALES[scale]
    if scale not in SCALES:
        raise ParameterError("scale", f"must be {joined_choices(SCALES)}, not '{scale}'")
    return scale


def experiments_of(study: Study, scale: str = "quick", model: str = "") -> list[Experiment]:
    """Experiments that a reproduction runs; empty for studies that need no runs.

    Args:
        study: The study.
        scale: `quick`, `gpu` or `paper`.
        model: A learner or model that replaces the study's own. Empty: the study's own.
    """
    scale = current_scale(scale)
    if study.from_recipes:
        if model:
            raise ParameterError("model", f"is not for '{study.name}', which trains nothing")
        return []
    if study.experiment is None:
        raise StudyError(
            f"the study '{study.name}' has no experiment of its own; make runs with 'taskloom run'"
            " and apply it to them with 'taskloom study'"
        )
    given = study.experiment(scale, model)
    blocks = [given] if isinstance(given, Mapping) else given
    return [spec.check(block, f"the experiment of '{study.name}'") for block in blocks]


def with_data(
    experiments: Sequence[Experiment], progress: ShowProgress | bool | None = None
) -> tuple[list[Experiment], list[tuple[Experiment, str]]]:
    """Experiments whose data are present, and the others with what is missing.

    Args:
        experiments: The experiments. Planning them takes seconds if recipes are large.
        progress: See `shown`.
    """
    here: list[Experiment] = []
    missing: list[tuple[Experiment, str]] = []
    with shown(progress) as show:
        counter = WorkCounter(len(experiments), show, "experiments")
        for experiment in experiments:
            try:
                expand(experiment)
                here.append(experiment)
            except TaskloomError as error:
                missing.append((experiment, str(error)))
            counter.add("planning")
    return here, missing


def reproduce(
    name: str,
    *,
    scale: str = "quick",
    model: str = "",
    store: str | Path = "runs",
    out: str | Path | None = None,
    engine: str = "local",
    workers: int | None = None,
    progress: Watch | bool | None = None,
    watch: Watch | bool | None = None,
    **settings: Any,
) -> Reproduced:
    """Make the runs of a study that are missing, analyse them, and write the page.

    Args:
        name: A study: `ctlpp/table1`, or `mine.py::NAME`.
        scale: `quick` (minutes on two cores; conditions differ from the paper's), `gpu` (the
            conditions of our results pages, for one GPU) or `paper` (the paper's conditions).
        model: A learner or model that replaces the study's own.
        store: Folder of the runs. Existing runs are not repeated.
        out: Folder to write to. Default: nothing is written.
        engine: `local` or `ray`.
        workers: Number of processes. Default: number of cores.
        progress: True to show progress (default: in notebooks only), or a function, see `tl.run`.
        watch: The old name of `progress`; deprecated.
        **settings: Settings of the study.
    """
    if not isinstance(name, str):
        raise ParameterError(
            "name", f"must be that of a study, e.g. 'runs/error-traits', not {echo(name)}"
        )
    study = find_study(name)
    scale = current_scale(scale)
    # Checked before the runs, which may take hours.
    study.checked(settings)
    if out is not None:
        check_folder(path_of(out), study.name)
    how: dict[str, Any] = {"store": store, "engine": engine, "workers": workers}
    experiments = experiments_of(study, scale, model)
    progress = given_progress(progress, watch)
    runs = _run(study, experiments, progress, how)
    if runs is not None and study.follow is not None:
        blocks = study.follow(runs, scale, model)
        further = [spec.check(block, f"the experiment of '{study.name}'") for block in blocks]
        runs = _run(study, [*experiments, *further], progress, how)
    findings = study(scale if runs is None else runs, **settings)
    findings += _conditions(study, scale, experiments)
    page = None if out is None else write_study(study, findings, path_of(out), runs, scale)
    return Reproduced(study, scale, findings, page, runs)


def _conditions(study: Study, scale: str, experiments: Sequence[Experiment]) -> list[Finding]:
    """Statements of the scale about the experiments: differences from the paper, and assumptions.
    Empty if there are none.
    """
    names = {
        name
        for experiment in experiments
        for run in planned_without_data(experiment)
        for name in (run.learner, run.model, run.data)
    }
    stated = scale_statements(study.name, scale, names) if names else []
    title = f"Conditions and assumptions of the scale {scale}"
    return [Finding(title, notes=tuple(stated))] if stated else []


def _run(
    study: Study,
    experiments: list[Experiment],
    progress: Watch | bool | None,
    how: Mapping[str, Any],
) -> Runs | None:
    """Make the missing runs of experiments and return all runs; None if there is no experiment."""
    if not experiments:
        return None
    with watching(progress) as show:
        outcome = api.fill(experiments, watch=show, **how)
    if outcome.state.failed:
        first = next(iter(outcome.state.failed.values()))
        raise TaskloomError(
            f"{len(outcome.state.failed)} of {len(outcome.cells)} runs of '{study.name}' failed;"
            f" the first: {first}; rerun the command to retry just those"
        )
    return outcome.table


def write_study(
    study: Study, findings: list[Finding], out: Path, runs: Runs | None, scale: str = "paper"
) -> Path:
    """Write the findings of a study as a folder with a page."""
    lead = " ".join(
        x for x in (study.describe.rstrip(".") + ".", study.place and f"{study.place}.") if x
    )
    note = scale_note(study, scale)
    return write_findings(
        out, study.name, f"{lead} {note}" if note else lead, findings, runs, study.traits
    )


def catalogue() -> list[dict[str, Any]]:
    """Every table and figure of the papers and every other study, with its requirements, its cost
    and whether it exists.
    """
    rows = []
    for name in paper_names():
        for place in paper(name).places:
            rows.append(
                {
                    "study": place.study,
                    "paper": place.paper,
                    "place": place.place,
                    "shows": place.shows,
                    "needs": place.needs,
                    "exists": STUDIES.find(place.study) is not None,
                }
            )
    listed = {row["study"] for row in rows}
    rows += [_unlisted(study) for study in STUDIES if study.name not in listed]
    costs = quick_costs()
    return [{**row, "quick_cpu_seconds": costs.get(str(row["study"]))} for row in rows]


def _unlisted(study: Study) -> dict[str, Any]:
    if study.from_recipes:
        usual = "no training"
    elif study.experiment is None:
        usual = "runs of yours"
    else:
        usual = "any runs"
    return {
        "study": study.name,
        "paper": "",
        "place": study.place,
        "shows": study.describe,
        "needs": study.needs or usual,
        "exists": True,
    }
