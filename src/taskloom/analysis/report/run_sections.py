"""The sections of a report on runs: findings in sentences, each number with its interval, then
figures, tables, examples.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from operator import itemgetter
from typing import Any

from taskloom.analysis.panels import (
    Curve,
    Mark,
    bar_panel,
    curve_panel,
    interval_panel,
    trend_panel,
)
from taskloom.analysis.plot_style import colour_of
from taskloom.analysis.report import page
from taskloom.analysis.report.answer_data import AnsweredCell, Explorer, explorer
from taskloom.analysis.report.page import Section
from taskloom.analysis.report.run_numbers import (
    CELL,
    COMPARISONS,
    FOLDERS,
    GROUPED,
    MEASURES,
    MOST_PAIRS,
    OVER_TASKS,
    OVERVIEW,
    REPLIES,
    SCORES,
    TASKS,
    Row,
    RunNumbers,
    in_form_columns,
    known,
    reply_rows,
    share,
)
from taskloom.analysis.report.run_sentences import (
    comparison_sentences,
    form_sentences,
    gap_sentence,
    has_gap,
    say,
    score_sentences,
    weakness_sentences,
)
from taskloom.core.arrow import numbers, whole_array
from taskloom.core.registry import SUITES
from taskloom.core.scoring import competence_at
from taskloom.core.tables import Column, table_of
from taskloom.data.competence import THRESHOLDS
from taskloom.experiments.accuracy import SuiteScores
from taskloom.experiments.groups import known_traits
from taskloom.experiments.record import REPLY_MEASURES, RunsError

SUCCESS = 0.95
"""The score that counts as having learned a task, unless the reader names another."""

MOST_PANELS = 12
"""Panels of one figure: four rows of three, about two screens."""

MOST_VALUES = 20
"""Values of a trait that a figure has room for; the numbers of a trait with more stand in a table
alone.
"""

MOST_LISTED = 200
"""Values of a trait that has a table; one with more, or with fewer than two examples of each, is a
name and not a condition.
"""


class RunSections:
    """The sections about the runs of one store.

    Args:
        numbers: Numbers that the sections show.
    """

    def __init__(self, numbers: RunNumbers) -> None:
        self.numbers = numbers
        self.runs = numbers.runs
        self.threshold = numbers.threshold
        self.predicted = numbers.predicted

    def name(self) -> str:
        """A title that names what was run."""
        recipes, learners = (
            list(dict.fromkeys(row[k] for row in self.numbers.rows)) for k in ("learner", "recipe")
        )
        return f"{_listed(recipes)} on {_listed(learners)}"

    def finished(self) -> str:
        """Date of the last run."""
        days = [str(self.runs.environment(run).get("finished", ""))[:10] for run in self.runs.names]
        return max(days, default="")

    def headline(self) -> str:
        """Return the one finding that a reader should take along: a fall from iid to ood or, of
        runs without both, the condition that a learner's score depends on most.
        """
        if not has_gap(self.numbers.means):
            for sentence in weakness_sentences(self._trait_rows, self._words):
                return sentence
        return gap_sentence(self.numbers.means)

    def findings(self, failed: Collection[str]) -> Section:
        """Say in sentences what came out."""
        threshold = SUCCESS if self.threshold is None else self.threshold
        sentences = score_sentences(
            self.numbers.means, self.numbers.seed_scores, self.numbers.guesses, threshold
        )
        sentences += form_sentences(self.numbers.means)
        sentences += weakness_sentences(self._trait_rows, self._words)
        sentences += comparison_sentences(self.numbers.comparisons.rows)
        if failed:
            sentences.append(say("failed", count=len(failed)))
        return Section("Findings", sentences=tuple(sentences))

    def explorer(self) -> Explorer:
        """The examples behind the numbers."""
        if not self.predicted:
            return Explorer()
        cells = [
            AnsweredCell(recipe, a, names)
            for recipe, own in self.numbers.cells.items()
            for a, names in own.items()
        ]
        paired: dict[tuple[str, str, str, str], str] = {}
        for row in self.numbers.comparisons.rows:
            text = say("paired", row=row, intervals=not math.isnan(row["low"]))
            for first, second in ((row["first"], row["second"]), (row["second"], row["first"])):
                paired[row["recipe"], row["split"], first, second] = text
        return explorer(self.runs, cells, paired)

    def overview(self) -> Section:
        """Show recipes, learners, seeds and data."""
        cells: dict[tuple[str, str, str], Row] = {}
        versions: set[str] = set()
        for row in self.numbers.rows:
            machine = self.runs.environment(row["run"])
            digest = self.runs[row["run"]].data[:16]
            empty = {
                "recipe": row["recipe"],
                "learner": row["learner"],
                "digest": digest,
                "seeds": [],
                "seconds": 0.0,
            }
            cell = cells.setdefault((row["recipe"], row["learner"], digest), empty)
            cell["seeds"].append(row["seed"])
            cell["seconds"] += float(machine.get("seconds") or math.nan)
            versions.add(", ".join(f"{k} {v}" for k, v in machine.get("versions", {}).items()))
        text = (
            f"{len(self.runs):,} runs. Libraries:"
            f" {'; '.join(sorted(v for v in versions if v)) or 'not recorded'}."
        )
        return Section("What was run", text, table_of(OVERVIEW, cells.values()))

    def scores(self) -> Section:
        """Show the mean of every cell with its interval."""
        rows = self.numbers.means
        by_recipe: dict[str, list[Mark]] = {}
        for row in rows:
            by_recipe.setdefault(row["recipe"], []).append(_mark(row, row["split"], row["learner"]))
        colours = colour_of([m.series for marks in by_recipe.values() for m in marks])
        panels = tuple(
            interval_panel(recipe, marks, colours, self.numbers.guesses_of(recipe))
            for recipe, marks in itertools.islice(by_recipe.items(), MOST_PANELS)
        )
        success = (
            ()
            if self.threshold is None
            else (Column(f"seeds over {self.threshold:g}", share, number=True),)
        )
        columns = (
            *SCORES,
            *success,
            *(
                Column(name, known(name), number=True)
                for name in SuiteScores(self.runs, ()).columns
                if name not in REPLY_MEASURES
            ),
            *in_form_columns(rows),
        )
        opens = "A number in blue opens the examples behind it." if self.predicted else ""
        guessed = bool(self.numbers.guesses)
        return Section(
            "Scores",
            "",
            table_of(columns, rows),
            panels=panels,
            legend=colours,
            guessed=guessed,
            on_screen=opens,
        )

    def replies(self) -> Section | None:
        """Show how chat models replied: the share in form, replies without an answer, tokens and
        cost.
        """
        rows: list[Row] = []
        for recipe, own in self.numbers.cells.items():
            for learner, names in own.items():
                rows += [
                    {"recipe": recipe, "learner": learner, **row}
                    for row in reply_rows(self.runs, names)
                ]
        if not rows:
            return None
        return Section("Replies", say("replies"), table_of(REPLIES, rows))

    def by_task(self) -> Iterator[Section]:
        """Yield the scores of single tasks, and their mean and standard error over all tasks and
        over those of each kind.
        """
        tasks = self.numbers.accuracy([*GROUPED, "task"], "seeds+items") if self.predicted else []
        per_recipe = Counter(
            recipe for recipe, _ in {(row["recipe"], row["task"]) for row in tasks}
        )
        many = {recipe for recipe, count in per_recipe.items() if count > 1}
        if not many:
            return
        reached: dict[tuple[str, str, str], list[float]] = {}
        for row in tasks:
            reached.setdefault((row["recipe"], row["learner"], row["split"]), []).append(
                row["mean"]
            )
        none = {f"C@{t}": None for t in THRESHOLDS}
        rows = [
            {
                **row,
                "by": "",
                "value": "",
                **_competence(reached[row["recipe"], row["learner"], row["split"]]),
            }
            for row in self.numbers.accuracy(GROUPED, "tasks")
        ]
        for name in self.numbers.task_traits():
            grouped = self.numbers.accuracy([*GROUPED, name], "tasks")
            rows += [
                {**row, **none, "by": name, "value": row[name]}
                for row in grouped
                if row[name] is not None
            ]
        text = (
            "Every task counts the same; the standard error and the interval are over tasks, as a"
            " sample of tasks like them. C@T is the share of tasks with a mean score of at least T"
            " percent."
        )
        yield Section(
            "Scores over tasks",
            text,
            table_of(OVER_TASKS, [row for row in rows if row["recipe"] in many]),
        )
        mine = [{**row, "opens": self.numbers.opens(row)} for row in tasks if row["recipe"] in many]
        yield Section("Scores by task", "", table_of(TASKS, mine), folded="The tasks")

    def learning(self) -> Section | None:
        """Show learning curves: the mean over seeds, each seed faintly behind it, and the score of
        guessing.
        """
        rows = {row["run"]: row for row in self.numbers.rows}
        panels: dict[str, dict[str, dict[str, list[tuple[int, float]]]]] = {}
        recipes: dict[str, str] = {}
        for point in self.runs.curves().to_pylist():
            row = rows[point["run"]]
            title = f"{row['recipe']}, {row['learner']}"
            recipes.setdefault(title, point["run"])
            panel = panels.setdefault(title, {})
            panel.setdefault(point["split"], {}).setdefault(point["run"], []).append(
                (point["step"], point["score"])
            )
        if not panels:
            return None
        shown = {
            title: list(_curves(splits))
            for title, splits in itertools.islice(panels.items(), MOST_PANELS)
        }
        guesses = {
            title: self.numbers.guesses_of(rows[recipes[title]]["recipe"]) for title in shown
        }
        colours = colour_of([curve.split for curves in shown.values() for curve in curves])
        text = "The mean over seeds, and each seed faintly behind it."
        if len(panels) > MOST_PANELS:
            text += f" The first {MOST_PANELS} of {len(panels)}."
        drawn = tuple(
            curve_panel(title, curves, colours, guesses[title]) for title, curves in shown.items()
        )
        guessed = any(guesses.values())
        return Section("Learning curves", text, panels=drawn, legend=colours, guessed=guessed)

    def by_trait(self) -> Iterator[Section]:
        """Yield a section for each trait that several examples share.

        Traits that divide the examples in the same way, such as a composition and its list of
        concepts, share a section.
        """
        alike: dict[tuple[Any, ...], list[tuple[str, list[Row]]]] = {}
        for name, rows in self._trait_rows.items():
            groups = sorted(
                (r["recipe"], r["learner"], r["split"], r["n"], r["mean"], r["low"]) for r in rows
            )
            alike.setdefault(tuple(groups), []).append((name, rows))
        for (name, rows), *others in alike.values():
            section = self._trait(name, rows)
            text = f"{name}: {self._words[name]}." if name in self._words else ""
            same = " and ".join(other for other, _ in others)
            if same:
                text = f"{text} By {same} the examples are divided in the same way.".strip()
            yield replace(section, text=text)

    @cached_property
    def _trait_rows(self) -> dict[str, list[Row]]:
        """Means by each trait that is a condition of several examples."""
        if not self.predicted:
            return {}
        own = {*self.runs.table.column_names, "task"}
        found: dict[str, list[Row]] = {}
        known = [t for t in known_traits(self.runs) if t not in own]
        # Traits that the suite has words for come first, and name those that divide alike.
        order = {name: place for place, name in enumerate(self._words)}
        for name in sorted(known, key=lambda t: order.get(t, len(order))):
            try:
                rows = self.numbers.accuracy(["recipe", "learner", "split", name], "seeds+items")
            except RunsError:
                continue
            # Recipes that lack the trait say nothing about it.
            rows = [row for row in rows if row[name] is not None]
            if self._is_condition(name, rows):
                found[name] = rows
        return found

    @cached_property
    def _words(self) -> dict[str, str]:
        """What traits are, in the words of the suites."""
        words: dict[str, str] = {}
        for recipe in self.runs.table["recipe"].unique().to_pylist():
            suite = recipe.partition("/")[0]
            if suite in SUITES.names():
                words |= SUITES.get(suite).trait_words
        return words

    def _is_condition(self, name: str, rows: Sequence[Row]) -> bool:
        """True if a trait is a condition that several examples share, not the name of one."""
        values = {row[name] for row in rows}
        if len(values) < 2 or max(row["n"] for row in rows) < 2:
            return False
        if len(values) <= MOST_VALUES:
            return True
        items: Counter[str] = Counter()
        for row in rows:
            items[row["split"]] += row["n"]
        # Each value needs two items on average: names of single examples have one.
        return len(values) <= MOST_LISTED and len(values) <= max(items.values()) / 2

    def _trait(self, name: str, rows: Sequence[Row]) -> Section:
        by_split: dict[tuple[str, str], list[Mark]] = {}
        for row in rows:
            mark = _mark(row, row["learner"], str(row[name]))
            by_split.setdefault((row["recipe"], row["split"]), []).append(mark)
        kept = {k: v for k, v in by_split.items() if 1 < len({m.place for m in v}) <= MOST_VALUES}
        colours = colour_of([m.series for marks in kept.values() for m in marks])
        numeric = all(_is_number(row[name]) for row in rows)
        panel = trend_panel if numeric else bar_panel
        panels = tuple(
            panel(
                f"{recipe}, {split}",
                marks,
                name,
                colours,
                self.numbers.guesses.get((recipe, split)),
            )
            for (recipe, split), marks in itertools.islice(kept.items(), MOST_PANELS)
        )
        columns = (
            *CELL,
            Column("split", itemgetter("split")),
            Column(name, itemgetter(name)),
            *MEASURES,
            *in_form_columns(rows),
        )
        opened = tuple(
            {**row, "opens": self.numbers.opens(row, trait=name, value=str(row[name]))}
            for row in rows
        )
        title = f"Score by {name}"
        return Section(
            title,
            "",
            table_of(columns, opened),
            folded="The numbers",
            panels=panels,
            legend=colours,
            guessed=bool(panels),
        )

    def comparisons(self) -> Section | None:
        """Show the comparisons of all pairs of learners, corrected for all of them together."""
        tests = self.numbers.comparisons
        rows, left_out = tests.rows, tests.left_out
        if not rows:
            return None
        text = say("comparisons", count=len(rows), compared=MOST_PAIRS, pairs=tests.pairs)
        blocks = ("not compared:\n" + "\n".join(left_out),) if left_out else ()
        return Section(
            "Comparisons",
            text,
            table_of((*COMPARISONS, *in_form_columns(rows, "a ", "b ")), rows),
            blocks=blocks,
            on_screen="A difference opens both learners side by side.",
        )

    def examples(self) -> Section | None:
        """Show right and wrong answers of each recipe and learner, from the split with the lowest
        score.
        """
        if not self.predicted:
            return None
        cells = [
            (f"{recipe}, {a}", names[0])
            for recipe, own in self.numbers.cells.items()
            for a, names in own.items()
        ]
        blocks = tuple(
            block for head, run in cells[:MOST_PANELS] for block in self._answers(head, run)
        )
        text = "The first right and wrong answers of the split with the lowest score."
        choice = (
            "Choose a learner above them, a second one to put beside it, and a trait to filter by;"
            " wrong answers come first."
        )
        return Section("Examples", text, blocks=blocks, explorer=True, on_screen=choice)

    def _answers(self, head: str, run: str) -> Iterator[str]:
        record = self.runs[run]
        splits = {
            name: scores.score for name, scores in record.splits.items() if scores.score is not None
        }
        if not splits:
            return
        split = min(splits, key=lambda s: splits[s])
        rows = self.runs.predictions(
            split, ["index", "input", "targets", "prediction", "score"], runs=[run]
        )
        points = whole_array(rows["score"])  # a number that Arrow compares with would import pandas
        for kind, mask in (("right", numbers(points >= 1)), ("wrong", numbers(points < 1))):
            for row in rows.filter(mask).slice(0, 2).to_pylist():
                expected = (
                    "" if kind == "right" else f"\nexpected: {' | '.join(row['targets'][:5])}"
                )
                text = (
                    f"{head}, seed {record.seed}, {split} {row['index']}:"
                    f" {kind}\n\n{row['input'][:900]}\n\n"
                )
                yield page.Marked(f"{text}answered: {row['prediction'][:300]}{expected}", kind)

    def reproduction(self) -> Section | None:
        """Show how to run any of it again; None where the runs are another program's."""
        first = self.runs.names[0]
        config = self.runs.config_file(first)
        if config is None:
            return None
        text = (
            "Every run's folder holds the experiment that makes it again; runs that are in the"
            " store are not repeated. The first run's is below."
        )
        block = f"taskloom run {config} --store again\n\n{self.runs.config(first)}"
        return Section(
            "How to run it again",
            text,
            table_of(FOLDERS, self.numbers.rows),
            blocks=(block,),
            folded="All runs and their folders",
        )


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


def _curves(splits: dict[str, dict[str, list[tuple[int, float]]]]) -> Iterator[Curve]:
    for split, seeds in splits.items():
        by_step: dict[int, list[float]] = {}
        for points in seeds.values():
            ordered = sorted(points)
            for step, score in ordered:
                by_step.setdefault(step, []).append(score)
            if len(seeds) > 1:
                yield Curve(
                    split, tuple(s for s, _ in ordered), tuple(v for _, v in ordered), faint=True
                )
        # Where seeds stopped early the mean would jump to the survivors; it ends with the first
        # that stops.
        steps = [step for step, scores in sorted(by_step.items()) if len(scores) == len(seeds)]
        yield Curve(split, tuple(steps), tuple(sum(by_step[s]) / len(seeds) for s in steps))


def _mark(row: Row, series: str, place: str) -> Mark:
    ends = [None if math.isnan(row[k]) else min(1.0, max(0.0, row[k])) for k in ("low", "high")]
    return Mark(series, place, row["mean"], ends[0], ends[1])
