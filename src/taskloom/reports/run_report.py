"""`taskloom report runs/`: what was run, how well it did and how certain that is, on one page to send to a colleague.

Every table is a list of `Column`s. A new statistic is a measure in `taskloom.experiments.accuracy` (or `compare`) and one
line in a list of columns here.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

import taskloom
from taskloom.errors import TaskloomError
from taskloom.experiments.accuracy import SuiteScores, known_traits, varying
from taskloom.experiments.driver import failure, failures
from taskloom.experiments.errors import RunsError
from taskloom.experiments.result_table import probability
from taskloom.experiments.runs import Runs, runs
from taskloom.experiments.statistics import correct
from taskloom.experiments.store import Store
from taskloom.reports import dataset_report, page, plots
from taskloom.reports.page import Column, Section

MOST_PAIRS = 400
"""Comparisons of two learners; more would be a page that nobody reads."""

MOST_PANELS = 12
"""Panels of one figure: four rows of three, about two screens."""

MOST_VALUES = 20
"""Values of a trait that a figure has room for; the numbers of a trait with more stand in a table alone."""

GROUPED = ("recipe", "learner", "split")
"""What the tables of scores are grouped by."""

Row = dict[str, Any]


def report(
    store: str | Path,
    out: str | Path = "report.html",
    level: float = 0.95,
    *,
    data: Sequence[str | Path] = (),
    figures: str | Path | None = None,
    where: Sequence[str] = (),
    threshold: float | None = None,
) -> Path:
    """Write the page.

    Args:
        store: The folder of the runs.
        out: The HTML file.
        level: The confidence level of all intervals.
        data: Datasets, or folders of datasets, to show and audit on the same page.
        figures: A folder for the page's figures as SVG files, such as `learning-curves.svg`.
        where: Only these runs: selections of `Runs.where`, such as `iid > 0.5`.
        threshold: Adds the share of seeds whose score is over it to the table of scores.
    """
    table = runs(store).where(*where)
    failed = failures(table.store)
    if not len(table) and not failed:
        raise RunsError(f"{store} holds no finished run yet; fill it with 'taskloom run'")
    sections = [s for s in _sections(table, failed, level, data, threshold) if s is not None]
    count = f"{len(table):,} runs" if len(table) != 1 else "1 run"
    lead = (
        f"{count} in {table.store.path}, written by Taskloom {taskloom.__version__}. Intervals are at {100 * level:g} %; where "
        "there are several seeds they hold for new seeds and new examples."
    )
    if where:
        lead += f" Only runs with {' and '.join(where)}."
    if figures is not None:
        page.write_figures(Path(figures), sections)
    return page.write(Path(out), "What was run, and what came of it", lead, sections)


def _sections(
    table: Runs, failed: dict[str, str], level: float, data: Sequence[str | Path], threshold: float | None
) -> Iterator[Section | None]:
    if len(table):
        parts = RunSections(table, level, threshold)
        yield parts.overview()
        yield parts.scores()
        yield from parts.by_task()
        yield parts.learning()
        yield from parts.by_trait()
        yield parts.comparisons()
    yield _failures(table.store, failed)
    if len(table):
        yield parts.examples()
    yield from dataset_report.sections(data)
    if len(table):
        yield parts.reproduction()


def _interval(row: Row) -> str:
    return "" if math.isnan(row["low"]) else f"{row['low']:.3f} to {row['high']:.3f}"


def _fixed(name: str) -> Any:
    return lambda row: f"{row[name]:.3f}"


def _share(row: Row) -> str:
    return f"{row['success']:.0%}"


def _known(name: str) -> Any:
    return lambda row: "" if row[name] is None or math.isnan(row[name]) else f"{row[name]:.3f}"


def _whole(name: str) -> Any:
    return lambda row: f"{row[name]:,}"


CELL = (Column("recipe", itemgetter("recipe")), Column("learner", itemgetter("learner")))
"""What tells the cells of an experiment apart."""

OVERVIEW = (
    *CELL,
    Column("seeds", lambda row: _seeds(row["seeds"])),
    Column("data digest", itemgetter("digest")),
    Column("seconds a run", lambda row: f"{row['seconds'] / len(row['seeds']):.1f}", number=True),
)

MEASURES = (
    Column("mean", _fixed("mean"), number=True),
    Column("interval", _interval),
    Column("sd over seeds", _known("sd"), number=True),
    Column("examples", _whole("n"), number=True),
)
"""Of each group of scores, whatever it is grouped by."""

SCORES = (
    *CELL,
    Column("split", itemgetter("split")),
    *MEASURES,
    Column("seeds", itemgetter("seeds"), number=True),
    Column("method", itemgetter("method")),
)

TASKS = (
    *CELL,
    Column("split", itemgetter("split")),
    Column("task", itemgetter("task")),
    Column("mean", _fixed("mean"), number=True),
    Column("interval", _interval),
    Column("examples", _whole("n"), number=True),
    Column("seeds", itemgetter("seeds"), number=True),
)

OVER_TASKS = (
    *CELL,
    Column("split", itemgetter("split")),
    Column("tasks by", itemgetter("by")),
    Column("value", itemgetter("value")),
    Column("mean", _fixed("mean"), number=True),
    Column("standard error", _known("se"), number=True),
    Column("interval", _interval),
    Column("tasks", _whole("n"), number=True),
)

COMPARISONS = (
    Column("recipe", itemgetter("recipe")),
    Column("split", itemgetter("split")),
    Column("first", itemgetter("first")),
    Column("second", itemgetter("second")),
    Column("mean", _fixed("a"), number=True),
    Column("mean", _fixed("b"), number=True),
    Column("difference", lambda row: f"{row['difference']:+.3f}", number=True),
    Column("interval", _interval),
    Column("p", lambda row: probability(row["p"]), number=True),
    Column("corrected p", lambda row: probability(row["corrected_p"]), number=True),
    Column("test", itemgetter("test")),
)

FOLDERS = (
    *CELL,
    Column("seed", itemgetter("seed"), number=True),
    Column("folder in the store", lambda row: f"{row['run'][:2]}/{row['run']}"),
)

FAILURES = (
    Column("cell", itemgetter("cell")),
    Column("run", lambda row: row["run"][:16]),
    Column("reason", itemgetter("reason")),
)


class RunSections:
    """The sections about the runs of one store.

    Args:
        table: The runs.
        level: The confidence level of the intervals.
        threshold: Of the success rate; None: no such column.
    """

    def __init__(self, table: Runs, level: float, threshold: float | None = None) -> None:
        self.runs = table
        self.threshold = threshold
        self.level = level
        self._fields = [c for c in varying(table) if c not in ("recipe", "learner")]
        folder = table.store.folder
        self.predicted = all((folder(name) / "predictions.parquet").is_file() for name in table.names)
        self.over = "seeds+items" if self.predicted else "seeds"

    def _label(self, row: Row) -> Row:
        """Name recipe and learner as the page does: each with the fields that differ."""
        labels = {}
        for kind in ("recipe", "learner"):
            own = [f for f in self._fields if f.startswith(f"{kind}.") and row.get(f) is not None]
            labels[kind] = " ".join([row[kind], *(f"{f.partition('.')[2]}={row[f]}" for f in own)])
        return {**row, **labels}

    def _rows(self) -> list[Row]:
        """Return one labelled row per run."""
        table = self.runs.table.drop_columns(["split", "n", "score", *self.runs.suite_scores])
        return list({row["run"]: self._label(row) for row in table.to_pylist()}.values())

    def _accuracy(self, by: Sequence[str], over: str) -> list[Row]:
        return [
            self._label(row) for row in self.runs.accuracy(by=by, over=over, level=self.level, threshold=self.threshold)
        ]

    def _cells(self) -> dict[str, dict[str, list[str]]]:
        """Group the runs by recipe and learner."""
        groups: dict[str, dict[str, list[str]]] = {}
        for row in self._rows():
            groups.setdefault(row["recipe"], {}).setdefault(row["learner"], []).append(row["run"])
        return groups

    def overview(self) -> Section:
        """Show recipes, learners, seeds and data."""
        cells: dict[tuple[str, str, str], Row] = {}
        versions: set[str] = set()
        for row in self._rows():
            scores, machine = self.runs.store.scores(row["run"]), self.runs.store.environment(row["run"])
            digest = str(scores.get("data", ""))[:16]
            empty = {"recipe": row["recipe"], "learner": row["learner"], "digest": digest, "seeds": [], "seconds": 0.0}
            cell = cells.setdefault((row["recipe"], row["learner"], digest), empty)
            cell["seeds"].append(row["seed"])
            cell["seconds"] += float(machine.get("seconds") or 0)
            versions.add(", ".join(f"{k} {v}" for k, v in machine.get("versions", {}).items()))
        text = f"{len(self.runs):,} runs. Libraries: {'; '.join(sorted(v for v in versions if v)) or 'not recorded'}."
        return Section("What was run", text, OVERVIEW, tuple(cells.values()))

    def scores(self) -> Section:
        """Show the mean of every cell with its interval."""
        rows = self._accuracy(["recipe", "learner", "split"], self.over)
        panels: dict[str, list[plots.Mark]] = {}
        for row in rows:
            panels.setdefault(row["recipe"], []).append(_mark(row, row["split"], row["learner"]))
        figure = plots.intervals(dict(list(panels.items())[:MOST_PANELS]))
        success = () if self.threshold is None else (Column(f"seeds over {self.threshold:g}", _share, number=True),)
        columns = (
            *SCORES,
            *success,
            *(Column(name, _known(name), number=True) for name in SuiteScores(self.runs, ()).columns),
        )
        return Section("Scores", "", columns, tuple(rows), figure)

    def by_task(self) -> Iterator[Section]:
        """Yield the scores of single tasks, and their mean and standard error over tasks: all, and those of each kind."""
        tasks = self._accuracy([*GROUPED, "task"], "seeds+items") if self.predicted else []
        per_recipe = Counter(recipe for recipe, _ in {(row["recipe"], row["task"]) for row in tasks})
        many = {recipe for recipe, count in per_recipe.items() if count > 1}
        if not many:
            return
        rows = [{**row, "by": "", "value": ""} for row in self._accuracy(GROUPED, "tasks")]
        for name in self._task_traits():
            grouped = self._accuracy([*GROUPED, name], "tasks")
            rows += [{**row, "by": name, "value": row[name]} for row in grouped if row[name] is not None]
        text = "Every task counts the same; the standard error and the interval are over tasks, as a sample of tasks like them."
        yield Section("Scores over tasks", text, OVER_TASKS, tuple(row for row in rows if row["recipe"] in many))
        mine = tuple(row for row in tasks if row["recipe"] in many)
        yield Section("Scores by task", "", TASKS, mine, folded="The tasks")

    def _task_traits(self) -> list[str]:
        """Return the traits that say what kind of task it is: one value for each task, and fewer values than tasks."""
        values: dict[str, dict[str, set[str]]] = {}
        for row in self.runs.predictions(columns=["task", "traits"]).to_pylist():
            for name, value in row["traits"] or ():
                values.setdefault(name, {}).setdefault(row["task"], set()).add(value)
        traits = []
        for name, by_task in values.items():
            kinds = {value for each in by_task.values() for value in each}
            if all(len(each) == 1 for each in by_task.values()) and 1 < len(kinds) < len(by_task):
                traits.append(name)
        return sorted(traits)

    def learning(self) -> Section | None:
        """Show learning curves: the mean over seeds, each seed faintly behind it, and the score of guessing."""
        rows = {row["run"]: row for row in self._rows()}
        panels: dict[str, dict[str, dict[str, list[tuple[int, float]]]]] = {}
        recipes: dict[str, str] = {}
        for point in self.runs.curves().to_pylist():
            row = rows[point["run"]]
            title = f"{row['recipe']}, {row['learner']}"
            recipes.setdefault(title, point["run"])
            panel = panels.setdefault(title, {})
            panel.setdefault(point["split"], {}).setdefault(point["run"], []).append((point["step"], point["score"]))
        if not panels:
            return None
        shown = {title: list(_curves(splits)) for title, splits in itertools.islice(panels.items(), MOST_PANELS)}
        guesses = {title: self._guess(recipes[title]) for title in shown} if self.predicted else {}
        text = "The mean over seeds, and each seed faintly behind it."
        if guesses:
            text += " The dotted line is always giving the most frequent answer."
        if len(panels) > MOST_PANELS:
            text += f" The first {MOST_PANELS} of {len(panels)}."
        return Section("Learning curves", text, figure=plots.curves(shown, guesses))

    def _guess(self, run: str) -> float:
        """Compute the share of the most frequent answer among the examples that a run answered."""
        targets = self.runs.store.predictions([run], ["targets"])["targets"].to_pylist()
        return Counter(t for row in targets for t in set(row)).most_common(1)[0][1] / len(targets) if targets else 0.0

    def by_trait(self) -> Iterator[Section]:
        """Yield a section for each trait that is a condition of several examples, not the name of one."""
        if not self.predicted:
            return
        own = {*self.runs.table.column_names, "task"}
        for name in [t for t in known_traits(self.runs) if t not in own]:
            try:
                rows = self._accuracy(["recipe", "learner", "split", name], "seeds+items")
            except RunsError:
                continue
            rows = [row for row in rows if row[name] is not None]  # recipes that lack the trait say nothing about it
            values = len({row[name] for row in rows})
            if values >= 2 and (values <= MOST_VALUES or max(row["n"] for row in rows) > 1):
                yield _trait(name, rows)

    def comparisons(self) -> Section | None:
        """Compare all pairs of learners on the same items, corrected for all of them together."""
        if not self.predicted:
            return None
        pairs = [(r, own, a, b) for r, own in self._cells().items() for a, b in itertools.combinations(own, 2)]
        rows: list[Row] = []
        left_out: list[str] = []
        for recipe, own, a, b in pairs[:MOST_PAIRS]:
            names = {"recipe": recipe, "first": a, "second": b, "split": self.runs.splits[0]}
            try:
                table = self.runs.compare({"run": own[a]}, {"run": own[b]}, correction="none", level=self.level)
                rows += [{**names, **row, "recipe": recipe} for row in table]
            except TaskloomError as error:
                left_out.append(f"{recipe}, {a} and {b}: {error}")
        if not rows:
            return None
        for row, p in zip(rows, correct([row["p"] for row in rows], "holm"), strict=True):
            row["corrected_p"] = float(p)
        text = (
            f"The second learner against the first, on the same examples. {len(rows)} comparisons; the corrected p-values "
            "(Holm) hold for all of them together."
        )
        if len(pairs) > MOST_PAIRS:
            text += f" Only the first {MOST_PAIRS} of {len(pairs):,} pairs were compared."
        blocks = ("not compared:\n" + "\n".join(left_out),) if left_out else ()
        return Section("Comparisons", text, COMPARISONS, tuple(rows), blocks=blocks)

    def examples(self) -> Section | None:
        """Show right and wrong answers of each recipe and learner, from the split with the lowest score."""
        if not self.predicted:
            return None
        cells = [(f"{recipe}, {a}", names[0]) for recipe, own in self._cells().items() for a, names in own.items()]
        blocks = tuple(block for head, run in cells[:MOST_PANELS] for block in self._answers(head, run))
        text = "The first right and wrong answers of the split with the lowest score."
        return Section("Examples", text, blocks=blocks)

    def _answers(self, head: str, run: str) -> Iterator[str]:
        scores = self.runs.store.scores(run)
        splits = {k: v["score"] for k, v in scores["splits"].items() if v["score"] is not None}
        if not splits:
            return
        split = min(splits, key=lambda s: splits[s])
        rows = self.runs.store.predictions([run], ["index", "input", "targets", "prediction", "score"], splits=[split])
        for kind, mask in (("right", pc.greater_equal(rows["score"], 1)), ("wrong", pc.less(rows["score"], 1))):
            for row in rows.filter(mask).slice(0, 2).to_pylist():
                expected = "" if kind == "right" else f"\nexpected: {' | '.join(row['targets'][:5])}"
                text = f"{head}, seed {scores['seed']}, {split} {row['index']}: {kind}\n\n{row['input'][:900]}\n\n"
                yield page.Marked(f"{text}answered: {row['prediction'][:300]}{expected}", kind)

    def reproduction(self) -> Section:
        """Show how to run any of it again."""
        store = self.runs.store
        first = self.runs.names[0]
        text = (
            "Every run's folder holds the experiment that makes it again; runs that are in the store are not repeated. The "
            "first run's is below."
        )
        block = f"taskloom run {store.folder(first) / 'config.yaml'} --store again\n\n{store.config(first)}"
        rows = tuple(self._rows())
        return Section("How to run it again", text, FOLDERS, rows, blocks=(block,), folded="All runs and their folders")


def _trait(name: str, rows: Sequence[Row]) -> Section:
    panels: dict[str, list[plots.Mark]] = {}
    for row in rows:
        panels.setdefault(f"{row['recipe']}, {row['split']}", []).append(_mark(row, row["learner"], str(row[name])))
    panels = {k: v for k, v in panels.items() if 1 < len({m.place for m in v}) <= MOST_VALUES}
    shown = dict(list(panels.items())[:MOST_PANELS])
    figure = plots.trends(shown, dict.fromkeys(shown, name)) if shown else ""
    columns = (*CELL, Column("split", itemgetter("split")), Column(name, itemgetter(name)), *MEASURES)
    return Section(f"Score by {name}", "", columns, tuple(rows), figure, folded="The numbers")


def _curves(splits: dict[str, dict[str, list[tuple[int, float]]]]) -> Iterator[plots.Curve]:
    for split, seeds in splits.items():
        by_step: dict[int, list[float]] = {}
        for points in seeds.values():
            ordered = sorted(points)
            for step, score in ordered:
                by_step.setdefault(step, []).append(score)
            if len(seeds) > 1:
                yield plots.Curve(split, tuple(s for s, _ in ordered), tuple(v for _, v in ordered), faint=True)
        # Where seeds stopped early the mean would jump to the survivors; it ends with the first that stops.
        steps = [step for step, scores in sorted(by_step.items()) if len(scores) == len(seeds)]
        yield plots.Curve(split, tuple(steps), tuple(sum(by_step[s]) / len(seeds) for s in steps))


def _failures(store: Store, failed: dict[str, str]) -> Section:
    text = "Rerun the 'taskloom run' command to retry just these." if failed else "None."
    rows = tuple({"cell": _failed_cell(store, run), "run": run, "reason": why} for run, why in failed.items())
    return Section("Failures", text, FAILURES, rows)


def _failed_cell(store: Store, run: str) -> str:
    """Return the name that the driver gave to a failed cell."""
    try:
        return str(json.loads(failure(store, run).read_text(encoding="utf-8")).get("cell", ""))
    except (OSError, ValueError):
        return ""


def _mark(row: Row, series: str, place: str) -> plots.Mark:
    ends = [None if math.isnan(row[k]) else min(1.0, max(0.0, row[k])) for k in ("low", "high")]
    return plots.Mark(series, place, row["mean"], ends[0], ends[1])


def _seeds(seeds: Sequence[int]) -> str:
    ordered = sorted(seeds)
    whole = len(ordered) > 3 and ordered == list(range(ordered[0], ordered[-1] + 1))
    return f"{ordered[0]} to {ordered[-1]}" if whole else ", ".join(map(str, ordered))
