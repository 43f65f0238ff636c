"""`taskloom report runs/`: what was run, how well it did and how sure that is, on one page to send to a colleague."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

import taskloom
from taskloom.errors import TaskloomError
from taskloom.experiments.accuracy import known_traits, varying
from taskloom.experiments.driver import failure, failures
from taskloom.experiments.result_table import probability
from taskloom.experiments.runs import Runs, RunsError, runs
from taskloom.experiments.statistics import correct
from taskloom.experiments.store import Store
from taskloom.reports import page, plots

MOST_ROWS = 400
"""Rows of one table; a page with more is read by nobody."""

MOST_PANELS = 12
MOST_VALUES = 20
"""A trait with more values than this is an identifier, no condition."""


def report(store: str | Path, out: str | Path, level: float = 0.95) -> Path:
    """Write the page.

    Args:
        store: The folder of the runs.
        out: The HTML file.
        level: Of all intervals.
    """
    found = runs(store)
    failed = failures(found.store)
    if not len(found) and not failed:
        raise RunsError(f"{store} holds no finished run yet; fill it with 'taskloom run EXPERIMENT --store {store}'")
    sections = [s for s in _sections(found, failed, level) if s is not None]
    count = f"{len(found):,} runs" if len(found) != 1 else "1 run"
    lead = (
        f"{count} in {found.store.path}, written by Taskloom {taskloom.__version__}. Intervals are at {100 * level:g} %; where "
        "there are several seeds they hold for new seeds and new examples."
    )
    return page.write(Path(out), "What was run, and what came of it", lead, sections)


def _sections(found: Runs, failed: dict[str, str], level: float) -> Iterator[page.Section | None]:
    if len(found):
        view = View(found, level)
        yield view.what()
        yield view.scores()
        yield view.learning()
        yield from view.by_trait()
        yield view.comparisons()
    yield _failures(found.store, failed)
    if len(found):
        yield view.examples()
        yield view.again()


class View:
    """The runs of one store, section by section.

    Args:
        found: The runs.
        level: Of the intervals.
    """

    def __init__(self, found: Runs, level: float) -> None:
        self.runs = found
        self.level = level
        self.fields = [c for c in varying(found) if c not in ("recipe", "learner")]
        kept = found.store.folder
        self.predicted = all((kept(name) / "predictions.parquet").is_file() for name in found.names)
        self.over = "seeds+items" if self.predicted else "seeds"

    def learner(self, row: dict[str, Any]) -> str:
        """What the page calls a learner: its name, and the settings that differ."""
        own = [
            f"{f.partition('.')[2]}={row[f]}"
            for f in self.fields
            if f.startswith("learner.") and row.get(f) is not None
        ]
        return " ".join([row["learner"], *own])

    def recipe(self, row: dict[str, Any]) -> str:
        """What the page calls a recipe: its name, and the fields that differ."""
        own = [
            f"{f.partition('.')[2]}={row[f]}" for f in self.fields if f.startswith("recipe.") and row.get(f) is not None
        ]
        return " ".join([row["recipe"], *own])

    def rows(self) -> list[dict[str, Any]]:
        """One row per run."""
        table = self.runs.table.drop_columns(["split", "n", "score"])
        return list({row["run"]: row for row in table.to_pylist()}.values())

    def what(self) -> page.Section:
        """Recipes, learners, seeds, data."""
        cells: dict[tuple[str, str, str], list[int]] = {}
        seconds: dict[tuple[str, str, str], float] = {}
        versions: set[str] = set()
        for row in self.rows():
            said, made = self.runs.store.scores(row["run"]), self.runs.store.environment(row["run"])
            key = (self.recipe(row), self.learner(row), str(said.get("data", ""))[:16])
            cells.setdefault(key, []).append(row["seed"])
            seconds[key] = seconds.get(key, 0.0) + float(made.get("seconds") or 0)
            versions.add(", ".join(f"{k} {v}" for k, v in made.get("versions", {}).items()))
        lines = tuple(
            (r, a, _seeds(seeds), digest, f"{seconds[r, a, digest] / len(seeds):.1f}")
            for (r, a, digest), seeds in cells.items()
        )
        text = f"{len(self.runs):,} runs. Libraries: {'; '.join(sorted(v for v in versions if v)) or 'not recorded'}."
        heads = ("recipe", "learner", "seeds", "data digest", "seconds a run")
        return _table("What was run", text, heads, lines, {4})

    def scores(self) -> page.Section:
        """Every cell's mean with its interval."""
        found = self.runs.accuracy(by=["recipe", "learner", "split"], over=self.over, level=self.level)
        lines = tuple(
            (
                self.recipe(r),
                self.learner(r),
                r["split"],
                _number(r["mean"]),
                _interval(r),
                f"{r['n']:,}",
                r["seeds"],
                r["method"],
            )
            for r in found
        )
        panels: dict[str, list[plots.Mark]] = {}
        for r in found:
            panels.setdefault(self.recipe(r), []).append(_mark(r, r["split"], self.learner(r)))
        heads = ("recipe", "learner", "split", "mean", "interval", "examples", "seeds", "how")
        figure = plots.intervals(dict(list(panels.items())[:MOST_PANELS]))
        return _table("Scores", "", heads, lines, {3, 5, 6}, figure)

    def learning(self) -> page.Section | None:
        """Learning curves: the mean over seeds, each seed faintly behind it."""
        rows = {row["run"]: row for row in self.rows()}
        panels: dict[str, dict[str, dict[str, list[tuple[int, float]]]]] = {}
        for point in self.runs.curves().to_pylist():
            row = rows[point["run"]]
            panel = panels.setdefault(f"{self.recipe(row)}, {self.learner(row)}", {})
            panel.setdefault(point["split"], {}).setdefault(point["run"], []).append((point["step"], point["score"]))
        if not panels:
            return None
        shown = {title: list(_curves(splits)) for title, splits in itertools.islice(panels.items(), MOST_PANELS)}
        more = f" The first {MOST_PANELS} of {len(panels)}." if len(panels) > MOST_PANELS else ""
        text = f"The mean over seeds, and each seed faintly behind it.{more}"
        return page.Section("Learning curves", text, figure=plots.curves(shown))

    def by_trait(self) -> Iterator[page.Section]:
        """One section a trait that takes a few values."""
        if not self.predicted:
            return
        own = {*self.runs.table.column_names, "task"}
        for name in [t for t in known_traits(self.runs) if t not in own]:
            try:
                found = self.runs.accuracy(by=["recipe", "learner", "split", name], level=self.level)
            except RunsError:
                continue
            values = {r[name] for r in found} - {None}  # recipes that lack it have nothing to say
            if 2 <= len(values) <= MOST_VALUES:
                yield self._trait(name, [r for r in found if r[name] is not None])

    def _trait(self, name: str, found: Sequence[dict[str, Any]]) -> page.Section:
        panels: dict[str, list[plots.Mark]] = {}
        for r in found:
            panels.setdefault(f"{self.recipe(r)}, {r['split']}", []).append(_mark(r, self.learner(r), str(r[name])))
        panels = {k: v for k, v in panels.items() if len({m.place for m in v}) > 1}
        shown = dict(list(panels.items())[:MOST_PANELS])
        lines = tuple(
            (self.recipe(r), self.learner(r), r["split"], r[name], _number(r["mean"]), _interval(r), f"{r['n']:,}")
            for r in found
        )
        heads = ("recipe", "learner", "split", name, "mean", "interval", "examples")
        figure = plots.trends(shown, dict.fromkeys(shown, name)) if shown else ""
        return replace(_table(f"Score by {name}", "", heads, lines, {4, 6}, figure), folded="The numbers")

    def comparisons(self) -> page.Section | None:
        """All pairs of learners on the same items, corrected for all of them together."""
        if not self.predicted:
            return None
        groups = self._by_recipe().items()
        pairs = [(r, own, a, b) for r, own in groups for a, b in itertools.combinations(own, 2)]
        made: list[tuple[str, str, str, dict[str, Any]]] = []
        left: list[str] = []
        for recipe, own, a, b in pairs[:MOST_ROWS]:
            try:
                found = self.runs.compare({"run": own[a]}, {"run": own[b]}, correction="none", level=self.level)
                made += [(recipe, a, b, row) for row in found]
            except TaskloomError as error:
                left.append(f"{recipe}, {a} and {b}: {error}")
        if not made:
            return None
        corrected = correct([row["p"] for *_, row in made], "holm")
        lines = tuple(
            (
                *(recipe, row.get("split", self.runs.splits[0]), a, b, _number(row["a"]), _number(row["b"])),
                *(
                    f"{row['difference']:+.3f}",
                    _interval(row),
                    probability(row["p"]),
                    probability(float(p)),
                    row["test"],
                ),
            )
            for (recipe, a, b, row), p in zip(made, corrected, strict=True)
        )
        text = (
            f"The second learner against the first, on the same examples. {len(lines)} comparisons; the corrected p-values "
            "(Holm) hold for all of them together."
        )
        if len(pairs) > MOST_ROWS:
            text += f" Only the first {MOST_ROWS} of {len(pairs):,} pairs were compared."
        heads = (
            "recipe",
            "split",
            "first",
            "second",
            "mean",
            "mean",
            "difference",
            "interval",
            "p",
            "corrected p",
            "test",
        )
        section = _table("Comparisons", text, heads, lines, {4, 5, 6, 8, 9})
        return replace(section, blocks=("not compared:\n" + "\n".join(left),) if left else ())

    def _by_recipe(self) -> dict[str, dict[str, list[str]]]:
        found: dict[str, dict[str, list[str]]] = {}
        for row in self.rows():
            found.setdefault(self.recipe(row), {}).setdefault(self.learner(row), []).append(row["run"])
        return found

    def examples(self) -> page.Section | None:
        """For each recipe and learner, right and wrong answers of the split that went worst."""
        if not self.predicted:
            return None
        groups = self._by_recipe().items()
        cells = [(f"{recipe}, {learner}", names[0]) for recipe, own in groups for learner, names in own.items()]
        shown = tuple(block for head, run in cells[:MOST_PANELS] for block in self._answers(head, run))
        return page.Section(
            "Examples", "Of the split that went worst, the first answers right and wrong.", blocks=shown
        )

    def _answers(self, head: str, run: str) -> Iterator[str]:
        splits = {k: v["score"] for k, v in self.runs.store.scores(run)["splits"].items() if v["score"] is not None}
        if not splits:
            return
        split = min(splits, key=lambda s: splits[s])
        rows = self.runs.store.predictions([run], ["index", "input", "targets", "prediction", "score"], splits=[split])
        for kind, mask in (("right", pc.greater_equal(rows["score"], 1)), ("wrong", pc.less(rows["score"], 1))):
            for row in rows.filter(mask).slice(0, 2).to_pylist():
                wanted = "" if kind == "right" else f"\nexpected: {' | '.join(row['targets'][:5])}"
                text = f"{head}, seed {self._seed(run)}, {split} {row['index']}: {kind}\n\n{row['input'][:900]}\n\n"
                yield page.Marked(f"{text}answered: {row['prediction'][:300]}{wanted}", kind)

    def _seed(self, run: str) -> int:
        return int(self.runs.store.scores(run)["seed"])

    def again(self) -> page.Section:
        """How to make any of it once more."""
        store = self.runs.store
        first = self.runs.names[0]
        config = store.config(first)
        text = (
            "Every run's folder holds the experiment that makes it again; what is in the store already is not run twice. The "
            "first run's is below."
        )
        lines = tuple((self.recipe(r), self.learner(r), r["seed"], f"{r['run'][:2]}/{r['run']}") for r in self.rows())
        blocks = (f"taskloom run {store.folder(first) / 'config.yaml'} --store again\n\n{config}",)
        heads = ("recipe", "learner", "seed", "folder in the store")
        return replace(
            _table("How to run it again", text, heads, lines, {2}), blocks=blocks, folded="All runs and their folders"
        )


def _curves(splits: dict[str, dict[str, list[tuple[int, float]]]]) -> Iterator[plots.Curve]:
    for split, each in splits.items():
        by_step: dict[int, list[float]] = {}
        for points in each.values():
            ordered = sorted(points)
            for step, score in ordered:
                by_step.setdefault(step, []).append(score)
            if len(each) > 1:
                yield plots.Curve(split, tuple(s for s, _ in ordered), tuple(v for _, v in ordered), faint=True)
        # Where seeds stopped early the mean would jump to the survivors; it ends with the first that stops.
        whole = [step for step, scores in sorted(by_step.items()) if len(scores) == len(each)]
        yield plots.Curve(split, tuple(whole), tuple(sum(by_step[s]) / len(each) for s in whole))


def _failures(store: Store, failed: dict[str, str]) -> page.Section:
    text = "The same 'taskloom run' tries just these again." if failed else "None."
    lines = tuple((_cell(store, run), run[:16], why) for run, why in failed.items())
    return _table("Failures", text, ("cell", "run", "reason") if failed else (), lines, set())


def _cell(store: Store, run: str) -> str:
    """What failed, as the driver called it."""
    try:
        return str(json.loads(failure(store, run).read_text(encoding="utf-8")).get("cell", ""))
    except (OSError, ValueError):
        return ""


def _table(
    title: str,
    text: str,
    heads: tuple[str, ...],
    lines: tuple[tuple[Any, ...], ...],
    numbers: set[int],
    figure: str = "",
) -> page.Section:
    if len(lines) > MOST_ROWS:
        text = f"{text} The first {MOST_ROWS} of {len(lines):,} rows.".strip()
    return page.Section(title, text, heads, lines[:MOST_ROWS], figure, numbers=frozenset(numbers))


def _mark(row: dict[str, Any], series: str, place: str) -> plots.Mark:
    ends = [None if math.isnan(row[k]) else min(1.0, max(0.0, row[k])) for k in ("low", "high")]
    return plots.Mark(series, place, row["mean"], ends[0], ends[1])


def _interval(row: dict[str, Any]) -> str:
    return "" if math.isnan(row["low"]) else f"{row['low']:.3f} to {row['high']:.3f}"


def _number(value: float) -> str:
    return f"{value:.3f}"


def _seeds(seeds: Sequence[int]) -> str:
    ordered = sorted(seeds)
    whole = len(ordered) > 3 and ordered == list(range(ordered[0], ordered[-1] + 1))
    return f"{ordered[0]} to {ordered[-1]}" if whole else ", ".join(map(str, ordered))
