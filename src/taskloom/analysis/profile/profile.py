"""`taskloom profile`: the panel as ordinary experiments in a run store, and the result for one
model.

A profiled model is a language model by folder or hub id, its randomly initialised twin, a saved
learner or an endpoint.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, get_args

from taskloom.analysis.profile.panel import (
    ContrastResult,
    Measurement,
    PanelRecipe,
    TaskPanel,
    Way,
    contrast_results,
    formed_share,
    matches,
    packaged_panel,
)
from taskloom.core.errors import DataError, ParameterError, TaskloomError, nearest
from taskloom.core.files import atomic, digest, path_of, read_utf8
from taskloom.core.scoring import chance_of
from taskloom.experiments import api
from taskloom.experiments.execute.driver import Watch
from taskloom.experiments.execute.progress import watching
from taskloom.experiments.spec import cells
from taskloom.experiments.spec import experiment as spec
from taskloom.experiments.store import Store
from taskloom.experiments.table import Runs
from taskloom.learners.pretrained.models import check_model_name
from taskloom.learners.saved import CARD, read_card
from taskloom.recipe.yaml_files import parse

BATCH = 8
"""Batch size: long few-shot prompts of a small model then need less than 1 GB."""


ASKING = ("in-context", "endpoint", "saved")
"""Names of learners that query an already trained model."""

BY_WAY = ("shots", "longest_answer")
"""Settings of these learners that differ between recipes and ways of asking."""


@dataclass(frozen=True, slots=True)
class ProfiledModel:
    """A model and the learner that asks it.

    Attributes:
        name: Name on pages.
        settings: The learner and its settings, except those that differ between ways of asking.
        prompted: True if it is shown examples. A saved learner answers inputs without a prompt.
    """

    name: str
    settings: dict[str, Any]
    prompted: bool = True

    def block(self, way: Way, recipe: PanelRecipe) -> dict[str, Any]:
        """The learner block that asks the model in one way."""
        if not self.prompted:
            return self.settings
        return {
            **self.settings,
            "shots": recipe.shots if way == "few-shot" else 0,
            "longest_answer": recipe.tokens,
        }

    def ways(self, recipe: PanelRecipe) -> Iterator[Way]:
        """Yield the ways in which the model is asked. A saved learner ignores the examples of a
        few-shot prompt, so it skips that way if there is another.
        """
        for way in recipe.ways:
            if self.prompted or way != "few-shot" or recipe.ways == ["few-shot"]:
                yield way

    @property
    def twin(self) -> ProfiledModel | None:
        """The same architecture with random weights; None unless the model is a language model that
        is opened here.
        """
        if self.settings["learner"] != "in-context" or self.settings.get("pretrained") is False:
            return None
        return ProfiledModel(f"{self.name}, random weights", {**self.settings, "pretrained": False})


def read_model(model: str, *, random: bool = False, endpoint: str = "") -> ProfiledModel:
    """Identify a model and the learner that asks it.

    Args:
        model: `smollm2`, a model's folder, a hub id, the folder of a saved learner; with
            `endpoint`, its name there.
        random: Use the same architecture with random weights.
        endpoint: The address of an OpenAI-compatible endpoint, up to and including `/v1`.
    """
    if not model:
        raise ParameterError(
            "model", "is empty; name a model's folder, a hub id, 'smollm2' or a saved learner"
        )
    saved = (path_of(model) / CARD).is_file()
    if random and (endpoint or saved):
        raise ParameterError(
            "random", f"is for language models that are opened here, and {model} is not"
        )
    if endpoint:
        return ProfiledModel(
            model, {"learner": "endpoint", "url": endpoint, "model": model, **PANEL_PROMPT}
        )
    if saved:
        folder = path_of(model).resolve()
        card = read_card(folder)
        content = {"learner": "saved", "folder": str(folder), "content": folder_digest(folder)}
        return ProfiledModel(f"{folder.name} ({card['learner']})", content, prompted=False)
    check_model_name(str(path_of(model)) if model.startswith("~") else model)
    opened = ProfiledModel(
        Path(model).name if Path(model).is_dir() else model,
        {"learner": "in-context", "model": model, "batch": BATCH},
    )
    twin = opened.twin
    return twin if random and twin is not None else opened


def folder_digest(folder: Path) -> str:
    """Digest of all files below a folder, so that a learner saved again in the same folder counts
    as a different one.
    """
    hashed = blake2b(digest_size=16)
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        hashed.update(f"{path.relative_to(folder).as_posix()} {path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                hashed.update(block)
    return hashed.hexdigest()


PANEL_PROMPT = {
    "described": False,
    "answer_format": "",
    "shots_as": "prompt",
    "join": " |",
    "extract": "line",
    "longest_answer": 32,
}
"""Settings under which an endpoint is asked in the same way as local models. The panel describes
tasks and shows examples itself.
"""

FORMAT, SCHEMA = "taskloom profile", 1
PROFILE, PAGE = "profile.json", "profile.html"
"""Names of the files in a profile's folder."""

QUICK, FULL = 24, 200
"""Number of items of each split. Quick profiles distinguish 0.5 from 0.9, full ones 0.5 from
0.64.
"""

SEEDS = {True: 1, False: 3}
"""Number of seeds of few-shot prompts, quick and full. Each shows different examples. Seeds do not
affect the other ways.
"""

CONSTANT = {"learner": "majority"}
"""The learner that gives the best constant."""


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """The measurements of one model.

    Attributes:
        name: The model.
        settings: The learner that asked it.
        quick: True if only a few items were answered.
        version: Version of the panel.
        measurements: Measurements of every condition and way of asking.
        complete: True if no run of the panel is missing.
        failures: Reasons for missing runs, one sentence each, such as an input that is too long for
            the model.
    """

    name: str
    settings: Mapping[str, Any]
    quick: bool
    version: int
    measurements: tuple[Measurement, ...]
    complete: bool = True
    failures: tuple[str, ...] = ()

    def contrasts(self, panel: TaskPanel) -> list[ContrastResult]:
        """Results of the panel's contrasts."""
        return contrast_results(panel, self.measurements)

    def find(self, side: str, way: str) -> Measurement | None:
        """One measurement; None if it was not made."""
        return next((m for m in self.measurements if (m.side, m.way) == (side, way)), None)

    def to_dict(self) -> dict[str, Any]:
        """The profile for JSON."""
        measurements = [
            {**asdict(m), "scores": [[_short(x) for x in row] for row in m.scores]}
            for m in self.measurements
        ]
        return {"format": FORMAT, "schema": SCHEMA, **asdict(self), "measurements": measurements}


@dataclass(frozen=True, slots=True)
class PanelJob:
    """A recipe of the panel, asked in one way. Jobs are the parts of experiments."""

    name: str
    recipe: PanelRecipe
    way: Way
    learner: Mapping[str, Any]

    @property
    def block(self) -> dict[str, Any]:
        """The recipe as an experiment file spells it."""
        described = {"described": {"level": "explicit"}} if self.way == "described" else {}
        return {"recipe": self.recipe.recipe, "set": {**self.recipe.set, **described}}


def jobs_of(model: ProfiledModel, panel: TaskPanel) -> list[PanelJob]:
    """All jobs of a model, without the baseline that it is compared with."""
    return [
        PanelJob(name, recipe, way, model.block(way, recipe))
        for name, recipe in panel.recipes.items()
        for way in model.ways(recipe)
    ]


def baseline_jobs(panel: TaskPanel) -> list[PanelJob]:
    """Jobs for the best constant of every recipe."""
    return [PanelJob(name, recipe, "zero-shot", CONSTANT) for name, recipe in panel.recipes.items()]


def experiments(jobs: Iterable[PanelJob], quick: bool, gpus: float = 1.0) -> list[spec.Experiment]:
    """Group jobs into experiments. Jobs that differ only in the recipe share one."""
    groups: dict[str, list[PanelJob]] = {}
    for job in jobs:
        seeds = SEEDS[quick] if job.way == "few-shot" and job.learner.get("shots") else 1
        groups.setdefault(json.dumps([job.learner, job.recipe.splits, seeds]), []).append(job)
    specs = []
    for key, members in groups.items():
        learner, splits, seeds = json.loads(key)
        block = {
            "recipes": [job.block for job in members],
            "learners": [learner],
            "seeds": seeds,
            "evaluate": splits,
            "limit": QUICK if quick else FULL,
            "resources": {"gpus": gpus},
        }
        specs.append(spec.check(block, "the panel"))
    return specs


def planned(
    model: ProfiledModel, quick: bool, panel: TaskPanel | None = None, gpus: float = 1.0
) -> list[spec.Experiment]:
    """Experiments of a model's profile, baselines first."""
    chosen = panel or packaged_panel()
    return experiments([*baseline_jobs(chosen), *jobs_of(model, chosen)], quick, gpus)


def profile(
    model: str,
    *,
    quick: bool = False,
    random: bool = False,
    endpoint: str = "",
    store: str | Path = "runs",
    engine: str = "local",
    workers: int | None = None,
    gpus: float = 1.0,
    progress: Watch | bool | None = None,
    panel: TaskPanel | None = None,
) -> ModelProfile:
    """Run the missing parts of a model's profile, and return the profile.

    Args:
        model: `smollm2`, a model's folder, a hub id, the folder of a saved learner; with
            `endpoint`, its name there.
        quick: Use 24 items of each split instead of 200.
        random: Profile the same architecture with random weights.
        endpoint: The address of an OpenAI-compatible endpoint, up to and including `/v1`.
        store: Folder of the runs. Existing runs are not repeated.
        engine: `local` or `ray`.
        workers: Number of processes. Default: number of cores.
        gpus: GPUs per run, or a fraction of one, so that several runs of a small model share a GPU.
        progress: True to show progress (default: in notebooks only), or a function, see `tl.run`.
        panel: The panel. Default: the packaged one.
    """
    chosen = panel or packaged_panel()
    asked = read_model(model, random=random, endpoint=endpoint)
    with watching(progress) as show:
        outcome = api.fill(
            planned(asked, quick, chosen, gpus), store, engine=engine, workers=workers, watch=show
        )
    failed = outcome.state.failed
    result = gather(asked, store, quick, chosen)
    if not result.measurements:
        raise TaskloomError(
            f"{asked.name} cannot be profiled: {next(iter(failed.values()), 'it has no runs')}"
        )
    reasons = {
        run: f"{cell.data.name}: {failed[run]}"
        for cell in outcome.cells
        if (run := cell.run) in failed
    }
    return replace(result, failures=tuple(dict.fromkeys(reasons.values())))


def gather(
    model: ProfiledModel, store: str | Path, quick: bool, panel: TaskPanel | None = None
) -> ModelProfile:
    """Read the part of a model's profile whose runs are in a store."""
    chosen = panel or packaged_panel()
    jobs = [*jobs_of(model, chosen), *baseline_jobs(chosen)]
    names = [name for group in _runs_of(jobs, quick).values() for name in group]
    opened = Store(store)
    # Open only these runs, because a store may have thousands of others.
    present = [name for name in dict.fromkeys(names) if name in opened]
    return measured(model, Runs(opened, present), quick, chosen)


def measured(model: ProfiledModel, runs: Runs, quick: bool, panel: TaskPanel) -> ModelProfile:
    """Compute the part of a model's profile that the given runs cover."""
    jobs = jobs_of(model, panel)
    names, baselines = _runs_of(jobs, quick), _runs_of(baseline_jobs(panel), quick)
    constants = _constants(runs, baselines, panel)
    measurements: list[Measurement] = []
    complete = True
    for job in jobs:
        wanted = names[job.name, job.way]
        done = [run for run in wanted if run in runs]
        complete = complete and len(done) == len(wanted)
        if done:
            measurements += _measure(runs, panel, job, done, constants)
    return ModelProfile(
        model.name, model.settings, quick, panel.version, tuple(measurements), complete
    )


def profiles_in(runs: Runs, panel: TaskPanel | None = None) -> list[ModelProfile]:
    """Profiles of all models in the given runs: full profiles, or quick ones if no model has a full
    one.
    """
    chosen = panel or packaged_panel()
    models: dict[str, ProfiledModel] = {}
    for run in runs:
        if run.learner in ASKING:
            model = _model_of(parse(runs.config(run.name))["learners"][0])
            models.setdefault(json.dumps(model.settings, sort_keys=True), model)
    for quick in (False, True):
        profiles = [measured(model, runs, quick, chosen) for model in models.values()]
        with_answers = [one for one in profiles if one.measurements]
        if with_answers:
            return with_answers
    return []


def _model_of(block: Mapping[str, Any]) -> ProfiledModel:
    """The model that a run's learner block asks, without the settings that differ between ways."""
    settings = {key: value for key, value in block.items() if key not in BY_WAY}
    if settings["learner"] == "saved":
        return ProfiledModel(Path(settings["folder"]).name, settings, prompted=False)
    random = ", random weights" if settings.get("pretrained") is False else ""
    return ProfiledModel(f"{settings['model']}{random}", settings)


def _runs_of(jobs: Sequence[PanelJob], quick: bool) -> dict[tuple[str, Way], list[str]]:
    """Digests of the runs of each job."""
    runs: dict[tuple[str, Way], list[str]] = {}
    for job in jobs:
        for experiment in experiments([job], quick):
            runs.setdefault((job.name, job.way), []).extend(
                cell.run for cell in cells.expand(experiment)
            )
    return runs


Rows = dict[str, list[Any]]
COLUMNS = ("split", "index", "targets", "prediction", "score", "traits")


def _rows(runs: Runs, run: str) -> Rows:
    table = runs.answers(run, COLUMNS)
    if table is None:
        raise DataError(
            f"the run {run} in {runs.path} has no predictions, so nothing can be measured from it"
        )
    return {name: table[name].to_pylist() for name in COLUMNS}


def _places(rows: Rows, panel: TaskPanel, recipe: str) -> Iterator[tuple[str, list[int]]]:
    """Yield each condition of a recipe, with the positions of its rows in the split."""
    for side in panel.sides():
        if side.recipe == recipe:
            places = [
                i
                for i, (split, traits) in enumerate(zip(rows["split"], rows["traits"], strict=True))
                if split == side.split and matches(side, dict(traits or ()))
            ]
            if places:
                yield side.key, sorted(places, key=rows["index"].__getitem__)


def _measure(
    runs: Runs,
    panel: TaskPanel,
    job: PanelJob,
    done: Sequence[str],
    constants: Mapping[str, float],
) -> list[Measurement]:
    tables = [_rows(runs, run) for run in done]
    first = tables[0]
    compared = set()
    for contrast in panel.contrasts:
        if contrast.same:
            compared |= {contrast.easy.key, contrast.hard.key}
    measured = []
    for side, places in _places(first, panel, job.name):
        others = [dict(_places(table, panel, job.name))[side] for table in tables]
        targets = [first["targets"][i] for i in places]
        predictions = [
            str(t["prediction"][i] or "")
            for t, own in zip(tables, others, strict=True)
            for i in own
        ]
        measured.append(
            Measurement(
                side,
                job.way,
                tuple(first["index"][i] for i in places),
                tuple(
                    tuple(float(t["score"][i]) for i in own)
                    for t, own in zip(tables, others, strict=True)
                ),
                (
                    tuple(digest(str(first["prediction"][i]), 4) for i in places)
                    if side in compared
                    else ()
                ),
                chance_of(targets),
                constants.get(side),
                formed_share(targets, predictions),
            )
        )
    return measured


def _constants(
    runs: Runs, baselines: Mapping[tuple[str, Way], Sequence[str]], panel: TaskPanel
) -> dict[str, float]:
    """Score of the best constant in each condition that has one."""
    constants = {}
    for (name, _), [run] in baselines.items():
        if run in runs:
            rows = _rows(runs, run)
            for side, places in _places(rows, panel, name):
                constants[side] = sum(float(rows["score"][i]) for i in places) / len(places)
    return constants


def write_profile(result: ModelProfile, path: Path) -> Path:
    """Write a profile as JSON."""
    with atomic(path) as beside:
        text = json.dumps(result.to_dict(), ensure_ascii=False, separators=(",", ":"))
        beside.write_text(text + "\n", encoding="utf-8")
    return path


def read_profile(path: str | Path) -> ModelProfile:
    """Read a profile from its file, or from the folder that it was written to."""
    file = path_of(path)
    file = file / PROFILE if file.is_dir() else file
    if not file.is_file():
        raise DataError(f"there is no profile {file}; 'taskloom profile MODEL -o DIR' writes one")
    try:
        data = json.loads(read_utf8(file))
        if (
            not isinstance(data, dict)
            or data.get("format") != FORMAT
            or data.get("schema") != SCHEMA
        ):
            raise DataError(
                f"{file} is not a profile; name a folder that 'taskloom profile MODEL -o DIR' wrote"
            )
        measurements = tuple(_measurement(m) for m in data["measurements"])
        return ModelProfile(
            str(data["name"]),
            data["settings"],
            bool(data["quick"]),
            int(data["version"]),
            measurements,
            bool(data["complete"]),
            tuple(map(str, data["failures"])),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{file} is damaged ({error}); make the profile again") from error


def _measurement(data: Mapping[str, Any]) -> Measurement:
    way = data["way"]
    if way not in get_args(Way):
        raise ValueError(f"there is no way '{way}'; {nearest(str(way), get_args(Way))}")
    scores = tuple(tuple(float(x) for x in row) for row in data["scores"])
    items = tuple(int(i) for i in data["items"])
    if not scores or not items or any(len(row) != len(items) for row in scores):
        raise ValueError(f"'{data['side']}' must have one score for each item")
    answers = tuple(map(str, data["answers"]))
    constant = None if data["constant"] is None else float(data["constant"])
    formed = None if data.get("formed") is None else float(data["formed"])
    return Measurement(
        str(data["side"]), way, items, scores, answers, float(data["chance"]), constant, formed
    )


def _short(score: float) -> float:
    """A score of 0 or 1 as a whole number, which is shorter in JSON."""
    return int(score) if score == int(score) else score
