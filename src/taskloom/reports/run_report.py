"""`taskloom report runs/`: what was run, how well it did and how certain that is, on one page to send to a colleague.

Every table is a list of `Column`s. A new statistic is a measure in `taskloom.experiments.accuracy` (or `compare`) and one
line in a list of columns here.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import taskloom
from taskloom.dataset.competence import THRESHOLDS
from taskloom.errors import TaskloomError
from taskloom.experiments.accuracy import SuiteScores, known_traits, varying
from taskloom.experiments.driver import failure, failures
from taskloom.experiments.errors import RunsError
from taskloom.experiments.result_table import probability
from taskloom.experiments.runs import Runs, runs
from taskloom.experiments.statistics import correct
from taskloom.experiments.store import Store, predictions_kept
from taskloom.reports import charts, dataset_report, page
from taskloom.reports.answer_data import AnsweredCell, Explorer, explorer
from taskloom.reports.page import Column, Opened, Section
from taskloom.reports.report_sentences import SUCCESS, comparison_sentences, gap_sentence, score_sentences
from taskloom.scoring import competence_at

MOST_PAIRS = 400
"""Comparisons of two learners; more would be a page that nobody reads."""

MOST_PANELS = 12
"""Panels of one figure: four rows of three, about two screens."""

MOST_VALUES = 20
"""Values of a trait that a figure has room for; the numbers of a trait with more stand in a table alone."""

MOST_LISTED = 200
"""Values of a trait that has a table; one with more, or with fewer than two examples of each, is a name and not a condition."""

GROUPED = ("recipe", "learner", "split")
"""What the tables of scores are grouped by."""

Row = dict[str, Any]


def report(
    store: str | Path | Runs,
    out: str | Path = "report.html",
    level: float = 0.95,
    *,
    data: Sequence[str | Path] = (),
    figures: str | Path | None = None,
    where: Sequence[str] = (),
    threshold: float | None = None,
    title: str = "",
) -> Path:
    """Write the page.

    Args:
        store: The folder of the runs, or runs of `tl.run` or `tl.runs`.
        out: The HTML file.
        level: The confidence level of all intervals.
        data: Datasets, or folders of datasets, to show and audit on the same page.
        figures: A folder for the page's figures as SVG files, such as `learning-curves.svg`.
        where: Only these runs: selections of `Runs.where`, such as `iid > 0.5`.
        threshold: Adds the share of seeds whose score is over it to the table of scores.
        title: The heading; the recipes and learners by default.
    """
    table = (store if isinstance(store, Runs) else runs(store)).where(*where)
    failed = failures(table.store)
    if not len(table) and not failed:
        raise RunsError(f"{table.store.path} holds no finished run yet; fill it with 'taskloom run'")
    with predictions_kept():
        parts = RunSections(table, level, threshold) if len(table) else None
        sections = [s for s in _sections(table, parts, failed, data) if s is not None]
        shown = parts.explorer() if parts is not None else Explorer()
    if shown.empty:
        sections = [replace(s, explorer=False) for s in sections]
    if figures is not None:
        page.write_figures(Path(figures), sections)
    headline = parts.headline() if parts is not None else ""
    heading = title or (parts.name() if parts is not None else "Runs that failed")
    return page.write(
        Path(out), heading, _lead(table, level, where, parts), sections, headline=headline, data=shown.data
    )


def _lead(table: Runs, level: float, where: Sequence[str], parts: RunSections | None) -> str:
    """Return the paragraph below the title: how many runs, from where and when, and what intervals mean."""
    count = f"{len(table):,} runs" if len(table) != 1 else "1 run"
    finished = parts.finished() if parts is not None else ""
    dated = f", the last finished on {finished}" if finished else ""
    lead = (
        f"{count} in {table.store.path}{dated}; report by Taskloom {taskloom.__version__}. Intervals are at {100 * level:g} %; "
        "where there are several seeds they hold for new seeds and new examples."
    )
    return f"{lead} Only runs with {' and '.join(where)}." if where else lead


def _sections(
    table: Runs, parts: RunSections | None, failed: dict[str, str], data: Sequence[str | Path]
) -> Iterator[Section | None]:
    if parts is not None:
        yield parts.findings(failed)
        yield parts.scores()
        yield parts.learning()
        yield from parts.by_trait()
        yield parts.comparisons()
        yield from parts.by_task()
        yield parts.examples()
    yield _failures(table.store, failed)
    yield from dataset_report.sections(data)
    if parts is not None:
        yield parts.overview()
        yield parts.reproduction()


def _interval(row: Row) -> str:
    return "" if math.isnan(row["low"]) else f"{row['low']:.3f} to {row['high']:.3f}"


def _fixed(name: str) -> Any:
    return lambda row: f"{row[name]:.3f}"


def _opening(name: str, sign: str = "") -> Any:
    """Return a cell that opens the examples behind it, where the row says which."""
    return lambda row: Opened(f"{row[name]:{sign}.3f}", row["opens"]) if row.get("opens") else f"{row[name]:{sign}.3f}"


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
    Column("mean", _opening("mean"), number=True),
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
    Column("guessing", _known("guess"), number=True),
    Column("method", itemgetter("method"), wraps=True),
)

TASKS = (
    *CELL,
    Column("split", itemgetter("split")),
    Column("task", itemgetter("task")),
    Column("mean", _opening("mean"), number=True),
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
    *(Column(f"C@{t}", _known(f"C@{t}"), number=True) for t in THRESHOLDS),
)

COMPARISONS = (
    Column("recipe", itemgetter("recipe")),
    Column("split", itemgetter("split")),
    Column("first", itemgetter("first")),
    Column("second", itemgetter("second")),
    Column("mean of first", _fixed("a"), number=True),
    Column("mean of second", _fixed("b"), number=True),
    Column("difference", _opening("difference", "+"), number=True),
    Column("interval", _interval),
    Column("p", lambda row: probability(row["p"]), number=True),
    Column("corrected p", lambda row: probability(row["corrected_p"]), number=True),
    Column("test", itemgetter("test"), wraps=True),
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
        self._means: list[Row] | None = None
        self._compared: tuple[list[Row], str, tuple[str, ...]] | None = None

    def means(self) -> list[Row]:
        """Return the mean of every recipe, learner and split with its interval and the score of guessing."""
        if self._means is None:
            rows = self._accuracy(GROUPED, self.over)
            guesses = self.guesses
            self._means = [
                {**row, "guess": guesses.get((row["recipe"], row["split"])), "opens": self._opens(row)} for row in rows
            ]
        return self._means

    def _opens(self, row: Row, **more: str) -> dict[str, str]:
        """Return the explorer's query for the examples behind a row; empty where predictions were not kept."""
        own = {"recipe": row["recipe"], "a": row["learner"], "split": row["split"], **more}
        return own if self.predicted else {}

    @cached_property
    def guesses(self) -> dict[tuple[str, str], float]:
        """Return the share of the most frequent answer, by recipe and split."""
        if not self.predicted:
            return {}
        guesses: dict[tuple[str, str], float] = {}
        for recipe, own in self._cells().items():
            for names in own.values():
                rows = self.runs.store.predictions([names[0]], ["split", "targets"])
                splits = rows["split"].cast(pa.string())
                for split in splits.unique().to_pylist():
                    if (recipe, split) not in guesses:
                        guesses[recipe, split] = _guess(rows["targets"].filter(pc.equal(splits, split)))
        return guesses

    def name(self) -> str:
        """Return a title that says what was run."""
        recipes, learners = (list(dict.fromkeys(row[k] for row in self._rows())) for k in ("learner", "recipe"))
        return f"{_listed(recipes)} on {_listed(learners)}"

    def finished(self) -> str:
        """Return the day of the last run."""
        days = [str(self.runs.store.environment(run).get("finished", ""))[:10] for run in self.runs.names]
        return max(days, default="")

    def headline(self) -> str:
        """Return the one finding that a reader should take along."""
        return gap_sentence(self.means())

    def findings(self, failed: Mapping[str, str]) -> Section:
        """Say in sentences what came out."""
        seeds: dict[tuple[str, str, str], list[float]] = {}
        for row in self.runs.table.to_pylist():
            labels = self._label(row)
            if row["score"] is not None:
                seeds.setdefault((labels["recipe"], labels["learner"], row["split"]), []).append(row["score"])
        threshold = SUCCESS if self.threshold is None else self.threshold
        sentences = score_sentences(self.means(), seeds, self.guesses, threshold)
        sentences += comparison_sentences(self._comparison_rows()[0])
        if failed:
            sentences.append(f"{len(failed)} runs failed; the reasons are below.")
        return Section("Findings", sentences=tuple(sentences))

    def explorer(self) -> Explorer:
        """Return the examples behind the numbers."""
        if not self.predicted:
            return Explorer()
        cells = [AnsweredCell(recipe, a, names) for recipe, own in self._cells().items() for a, names in own.items()]
        paired: dict[tuple[str, str, str, str], str] = {}
        for row in self._comparison_rows()[0]:
            text = (
                f"On the whole split: difference {row['difference']:+.3f} ({row['low']:.3f} to {row['high']:.3f}), "
                f"{row['test']}, p {probability(row['p'])}, corrected {probability(row['corrected_p'])}"
            )
            for first, second in ((row["first"], row["second"]), (row["second"], row["first"])):
                paired[row["recipe"], row["split"], first, second] = text
        return explorer(self.runs, cells, paired)

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
        rows = self.means()
        by_recipe: dict[str, list[charts.Mark]] = {}
        for row in rows:
            by_recipe.setdefault(row["recipe"], []).append(_mark(row, row["split"], row["learner"]))
        colours = charts.colour_of([m.series for marks in by_recipe.values() for m in marks])
        panels = tuple(
            charts.interval_panel(recipe, marks, colours, self._least_guess(recipe))
            for recipe, marks in itertools.islice(by_recipe.items(), MOST_PANELS)
        )
        success = () if self.threshold is None else (Column(f"seeds over {self.threshold:g}", _share, number=True),)
        columns = (
            *SCORES,
            *success,
            *(Column(name, _known(name), number=True) for name in SuiteScores(self.runs, ()).columns),
        )
        text = "A number in blue opens the examples behind it." if self.predicted else ""
        return Section("Scores", text, columns, tuple(rows), panels=panels, legend=colours, guessed=bool(self.guesses))

    def _least_guess(self, recipe: str) -> float | None:
        """Return the score of guessing on a recipe, where its splits agree on it within a hundredth; else None."""
        values = [g for (name, _), g in self.guesses.items() if name == recipe]
        return min(values) if values and max(values) - min(values) <= 0.01 else None

    def by_task(self) -> Iterator[Section]:
        """Yield the scores of single tasks, and their mean and standard error over tasks: all, and those of each kind."""
        tasks = self._accuracy([*GROUPED, "task"], "seeds+items") if self.predicted else []
        per_recipe = Counter(recipe for recipe, _ in {(row["recipe"], row["task"]) for row in tasks})
        many = {recipe for recipe, count in per_recipe.items() if count > 1}
        if not many:
            return
        reached: dict[tuple[str, str, str], list[float]] = {}
        for row in tasks:
            reached.setdefault((row["recipe"], row["learner"], row["split"]), []).append(row["mean"])
        none = {f"C@{t}": None for t in THRESHOLDS}
        rows = [
            {**row, "by": "", "value": "", **_competence(reached[row["recipe"], row["learner"], row["split"]])}
            for row in self._accuracy(GROUPED, "tasks")
        ]
        for name in self._task_traits():
            grouped = self._accuracy([*GROUPED, name], "tasks")
            rows += [{**row, **none, "by": name, "value": row[name]} for row in grouped if row[name] is not None]
        text = (
            "Every task counts the same; the standard error and the interval are over tasks, as a sample of tasks like them. C@T "
            "is the share of tasks with a mean score of at least T percent."
        )
        yield Section("Scores over tasks", text, OVER_TASKS, tuple(row for row in rows if row["recipe"] in many))
        mine = tuple({**row, "opens": self._opens(row)} for row in tasks if row["recipe"] in many)
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
        guesses = {title: self._least_guess(rows[recipes[title]]["recipe"]) for title in shown}
        colours = charts.colour_of([curve.split for curves in shown.values() for curve in curves])
        text = "The mean over seeds, and each seed faintly behind it."
        if len(panels) > MOST_PANELS:
            text += f" The first {MOST_PANELS} of {len(panels)}."
        drawn = tuple(charts.curve_panel(title, curves, colours, guesses[title]) for title, curves in shown.items())
        guessed = any(g is not None for g in guesses.values())
        return Section("Learning curves", text, panels=drawn, legend=colours, guessed=guessed)

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
            if self._is_condition(name, rows):
                yield self._trait(name, rows)

    def _is_condition(self, name: str, rows: Sequence[Row]) -> bool:
        """Return whether a trait is a condition that several examples share, not the name of one."""
        values = {row[name] for row in rows}
        if len(values) < 2 or max(row["n"] for row in rows) < 2:
            return False
        if len(values) <= MOST_VALUES:
            return True
        most = max(sum(row["n"] for row in rows if row["split"] == split) for split in {row["split"] for row in rows})
        return len(values) <= MOST_LISTED and len(values) <= most / 2

    def _trait(self, name: str, rows: Sequence[Row]) -> Section:
        by_split: dict[tuple[str, str], list[charts.Mark]] = {}
        for row in rows:
            mark = _mark(row, row["learner"], str(row[name]))
            by_split.setdefault((row["recipe"], row["split"]), []).append(mark)
        kept = {k: v for k, v in by_split.items() if 1 < len({m.place for m in v}) <= MOST_VALUES}
        colours = charts.colour_of([m.series for marks in kept.values() for m in marks])
        panel = charts.trend_panel if all(_is_number(row[name]) for row in rows) else charts.bar_panel
        panels = tuple(
            panel(f"{recipe}, {split}", marks, name, colours, self.guesses.get((recipe, split)))
            for (recipe, split), marks in itertools.islice(kept.items(), MOST_PANELS)
        )
        columns = (*CELL, Column("split", itemgetter("split")), Column(name, itemgetter(name)), *MEASURES)
        opened = tuple({**row, "opens": self._opens(row, trait=name, value=str(row[name]))} for row in rows)
        title = f"Score by {name}"
        return Section(
            title, "", columns, opened, folded="The numbers", panels=panels, legend=colours, guessed=bool(panels)
        )

    def _comparison_rows(self) -> tuple[list[Row], str, tuple[str, ...]]:
        """Compare all pairs of learners on the same items; return the rows, a remark, and what could not be compared."""
        if self._compared is None:
            self._compared = self._compare() if self.predicted else ([], "", ())
        return self._compared

    def _compare(self) -> tuple[list[Row], str, tuple[str, ...]]:
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
        for row, p in zip(rows, correct([row["p"] for row in rows], "holm"), strict=True):
            row["corrected_p"] = float(p)
            row["opens"] = {"recipe": row["recipe"], "a": row["first"], "b": row["second"], "split": row["split"]}
        cut = f" Only the first {MOST_PAIRS} of {len(pairs):,} pairs were compared." if len(pairs) > MOST_PAIRS else ""
        return rows, cut, tuple(left_out)

    def comparisons(self) -> Section | None:
        """Show the comparisons of all pairs of learners, corrected for all of them together."""
        rows, cut, left_out = self._comparison_rows()
        if not rows:
            return None
        count = (
            f"{len(rows)} comparisons; the corrected p-values (Holm) hold for all of them together"
            if len(rows) > 1
            else "1 comparison; its p-value needs no correction"
        )
        text = (
            f"The second learner against the first, on the same examples. {count}. A difference opens both learners side by "
            f"side.{cut}"
        )
        blocks = ("not compared:\n" + "\n".join(left_out),) if left_out else ()
        return Section("Comparisons", text, COMPARISONS, tuple(rows), blocks=blocks)

    def examples(self) -> Section | None:
        """Show right and wrong answers of each recipe and learner, from the split with the lowest score."""
        if not self.predicted:
            return None
        cells = [(f"{recipe}, {a}", names[0]) for recipe, own in self._cells().items() for a, names in own.items()]
        blocks = tuple(block for head, run in cells[:MOST_PANELS] for block in self._answers(head, run))
        text = (
            "Choose a learner, a second one to put beside it, and a trait to filter by; wrong answers come first. Below: the first "
            "right and wrong answers of the split with the lowest score."
        )
        return Section("Examples", text, blocks=blocks, explorer=True)

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


def _guess(targets: pa.ChunkedArray) -> float:
    """Compute the share of the most frequent answer."""
    rows = targets.to_pylist()
    return Counter(t for row in rows for t in set(row)).most_common(1)[0][1] / len(rows) if rows else 0.0


def _competence(scores: Sequence[float]) -> dict[str, float]:
    """Compute C@T of some tasks' mean scores."""
    return {f"C@{t}": competence_at(scores, t) for t in THRESHOLDS}


def _is_number(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError):
        return False


def _listed(names: Sequence[str], most: int = 3) -> str:
    """Join a few names as people do."""
    shown = list(names[:most]) + ([f"{len(names) - most} more"] if len(names) > most else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _curves(splits: dict[str, dict[str, list[tuple[int, float]]]]) -> Iterator[charts.Curve]:
    for split, seeds in splits.items():
        by_step: dict[int, list[float]] = {}
        for points in seeds.values():
            ordered = sorted(points)
            for step, score in ordered:
                by_step.setdefault(step, []).append(score)
            if len(seeds) > 1:
                yield charts.Curve(split, tuple(s for s, _ in ordered), tuple(v for _, v in ordered), faint=True)
        # Where seeds stopped early the mean would jump to the survivors; it ends with the first that stops.
        steps = [step for step, scores in sorted(by_step.items()) if len(scores) == len(seeds)]
        yield charts.Curve(split, tuple(steps), tuple(sum(by_step[s]) / len(seeds) for s in steps))


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


def _mark(row: Row, series: str, place: str) -> charts.Mark:
    ends = [None if math.isnan(row[k]) else min(1.0, max(0.0, row[k])) for k in ("low", "high")]
    return charts.Mark(series, place, row["mean"], ends[0], ends[1])


def _seeds(seeds: Sequence[int]) -> str:
    ordered = sorted(seeds)
    whole = len(ordered) > 3 and ordered == list(range(ordered[0], ordered[-1] + 1))
    return f"{ordered[0]} to {ordered[-1]}" if whole else ", ".join(map(str, ordered))
