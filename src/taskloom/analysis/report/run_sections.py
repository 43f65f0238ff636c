"""Sections of a report on runs: findings in sentences with their intervals, then figures, tables
and examples.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from operator import itemgetter
from shlex import quote
from typing import Any, NamedTuple

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
from taskloom.analysis.report.answer_data import AnsweredCell, Explorer, explorer, shortened
from taskloom.analysis.report.effects import TraitEffect, by_size, is_reference, rank
from taskloom.analysis.report.page import Section
from taskloom.analysis.report.run_numbers import (
    ASKED,
    CELL,
    COMPARISONS,
    FOLDERS,
    GROUPED,
    LEARNERS,
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
    has_reference,
    headline,
    is_number,
    say,
    score_sentences,
    trait_sentences,
)
from taskloom.core.arrow import numbers, whole_array
from taskloom.core.errors import RecipeError
from taskloom.core.registry import SUITES, trait_name
from taskloom.core.scoring import competence_at
from taskloom.core.tables import Column, table_of
from taskloom.core.twins import TWIN_KINDS, companion
from taskloom.data.competence import THRESHOLDS
from taskloom.experiments.accuracy import SuiteScores, check_splits
from taskloom.experiments.groups import known_traits
from taskloom.experiments.record import REPLY_MEASURES, RunsError
from taskloom.recipe.recipe import find

SUCCESS = 0.95
"""Default score above which a task counts as learned."""

FEW_SCORES = 4
"""Maximum sentences on scores that come before those on effects."""

MOST_FINDINGS = 6
"""Maximum findings that are not folded."""

MOST_SUITES = 4
"""Maximum suites whose tasks are described."""

TEXTS_OF_TWINS = ("before", "after")
"""Traits of twins that are texts, not conditions."""

MOST_DESCRIBED = 4
"""Maximum recipes of a suite that are described."""

MOST_PANELS = 12
"""Maximum panels of one figure: four rows of three, about two screens."""

MOST_TRAITS = 4
"""Maximum traits with their own section. The others are folded."""

FEWEST_TRAITS = 2
"""Number of traits with their own section if no effect is shown."""

FEWEST_ITEMS = 2
"""Minimum examples of a value that a figure shows. The interval of a single example covers most of
the axis.
"""

MOST_VALUES = 20
"""Maximum values of a trait in a figure. A trait with more is shown only as a table."""

FEW_ROWS = 4
"""Maximum comparisons in a table that is not folded."""

MOST_LISTED = 200
"""Maximum values of a trait in a table. A trait with more, or with fewer than two examples of each,
identifies examples and is not a condition.
"""


class TaskNote(NamedTuple):
    """Description of the tasks of a suite.

    Attributes:
        about: The suite in one line.
        recipes: Names and descriptions of its recipes.
        example: An input; empty if predictions were not kept.
        answer: Its answer.
    """

    about: str
    recipes: Sequence[tuple[str, str]]
    example: str
    answer: str


class Machine(NamedTuple):
    """Place and date of a run, as stated on the page.

    Attributes:
        day: Date on which it finished.
        seconds: Duration; NaN if it was not recorded.
        versions: Names and versions of libraries.
    """

    day: str
    seconds: float
    versions: str


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
        """Title with the learners and recipes that were run."""
        learners = {row["learner"]: None for row in self.numbers.rows}
        recipes = {row["recipe"]: None for row in self.numbers.rows}
        return f"{_listed(list(learners), 'learners')} on {_listed(list(recipes), 'recipes')}"

    def tasks(self) -> Iterator[TaskNote]:
        """Describe the tasks of each suite, with one example, for readers who don't know them."""
        by_suite: dict[str, list[str]] = {}
        for recipe, owner in self.numbers.owners.items():
            by_suite.setdefault(owner.partition("/")[0], []).append(recipe)
        for suite, recipes in itertools.islice(by_suite.items(), MOST_SUITES):
            known = SUITES.find(suite)
            if known is None:
                continue
            first = recipes[:MOST_DESCRIBED]
            described = [(name, _described(self.numbers.owners[name])) for name in first]
            named = [(name, text) for name, text in described if text]
            yield TaskNote(known.describe, named, *self._example(recipes[0]))

    def _example(self, recipe: str) -> tuple[str, str]:
        """An input of a recipe, shortened, and its answer."""
        run = next(iter(self.numbers.cells[recipe].values()))[0]
        answers = self.runs.answers(run, ["task", "input", "targets", "traits"])
        if answers is None or not len(answers):
            return "", ""
        (row,) = answers.slice(0, 1).to_pylist()
        return shortened(row), str(row["targets"][0]) if row["targets"] else ""

    def finished(self) -> str:
        """Date of the last run."""
        return max((machine.day for machine in self._machines.values()), default="")

    @cached_property
    def _machines(self) -> dict[str, Machine]:
        """Machine and date of each run."""
        found: dict[str, Machine] = {}
        texts: dict[str, str] = {}  # thousands of runs share one text
        for run in self.runs.names:
            machine = self.runs.environment(run)
            versions = ", ".join(f"{k} {v}" for k, v in machine.get("versions", {}).items())
            found[run] = Machine(
                str(machine.get("finished", ""))[:10],
                float(machine.get("seconds") or math.nan),
                texts.setdefault(versions, versions),
            )
        return found

    @cached_property
    def headline(self) -> str:
        """The most important finding."""
        numbers = self.numbers
        return headline(numbers.means, numbers.comparisons.rows, numbers.trait_effects)

    def findings(self, failed: Collection[str]) -> Section:
        """The findings in sentences."""
        threshold = SUCCESS if self.threshold is None else self.threshold
        scores = score_sentences(
            self.numbers.means, self.numbers.seed_scores, self.numbers.guesses_of, threshold
        )
        compared = self.numbers.comparisons.rows
        effects = [
            *form_sentences(self.numbers.means),
            *trait_sentences(self.numbers.trait_effects),
            *comparison_sentences(row for row in compared if not has_reference(row)),
        ]
        # The headline is shown right above.
        repeated = self.headline
        effects = [sentence for sentence in effects if sentence != repeated]
        # Many scores are easier to read in the figure below.
        ordered = [*scores, *effects] if len(scores) <= FEW_SCORES else [*effects, *scores]
        ordered += comparison_sentences(row for row in compared if has_reference(row))
        if failed:
            ordered.insert(0, say("failed", count=len(failed)))
        shown, rest = tuple(ordered[:MOST_FINDINGS]), tuple(ordered[MOST_FINDINGS:])
        more = (Section(f"{len(rest)} more", sentences=rest),) if rest else ()
        return Section("Findings", sentences=shown, inside=more)

    def explorer(self, sections: Sequence[Section]) -> Explorer:
        """The examples behind the numbers that sections show."""
        if not self.predicted:
            return Explorer()
        opened = {query["recipe"] for section in sections for query in section.queries()}
        cells = [
            AnsweredCell(recipe, a, names)
            for recipe, own in self.numbers.cells.items()
            for a, names in own.items()
            if recipe in opened
        ]
        paired: dict[tuple[str, str, str, str], str] = {}
        for row in self.numbers.comparisons.rows:
            if row["kind"] != LEARNERS:
                continue
            text = say("paired", row=row, intervals=not math.isnan(row["low"]))
            for first, second in ((row["first"], row["second"]), (row["second"], row["first"])):
                paired[row["recipe"], row["split"], first, second] = text
        return explorer(self.runs, cells, paired)

    def figure(self, by: str, splits: Sequence[str]) -> Section:
        """Build a section with panels that show the scores by split, step or trait.

        Args:
            by: `split`, `step`, or a trait of the examples.
            splits: Only these; all by default.
        """
        if by == "step":
            found = self.learning()
            if found is None:
                raise RunsError(
                    f"{self.runs.path} has no learning curve of two points; set evaluate_every"
                )
            return found
        check_splits(self.runs, splits)
        if by == "split":
            return self.scores(splits)
        if not self.predicted:
            raise RunsError(f"{self.runs.path} has no predictions, which a figure by {by} needs")
        rows = self.numbers.accuracy([*GROUPED, by], "seeds+items")
        kept = [
            row for row in rows if row[by] is not None and (not splits or row["split"] in splits)
        ]
        section = self._trait(by, kept, None, ())
        if not section.panels:
            raise RunsError(
                f"'{by}' has no figure: it needs 2 to {MOST_VALUES} values; ask for a table with"
                f" runs.accuracy(by='{by}')"
            )
        return section

    def asked(self) -> Section | None:
        """Section on the number of items asked until the accuracy was certain. None if no split was
        asked in this way.
        """
        rows = []
        for row in self.numbers.rows:
            run = self.runs[row["run"]]
            for split, scores in run.splits.items():
                if scores.asked:
                    rows.append({**row, "split": split, **scores.asked})
        if not rows:
            return None
        differences = tuple(sorted(self._differences(rows)))
        text = say("asked")
        return Section("Asked until certain", text, table_of(ASKED, rows), sentences=differences)

    def _differences(self, rows: Iterable[Row]) -> Iterator[str]:
        """Yield a sentence for each pair of runs that were compared, with the better one as its
        subject.
        """
        labels = {row["run"]: row["learner"] for row in rows}
        for row in rows:
            for one in row.get("differences", ()):
                ahead = one["mean"] > 0 or (one["mean"] == 0 and row["run"] < one["other"])
                if ahead and one["other"] in labels:
                    yield (
                        f"{row['recipe']}, {row['split']}: {row['learner']} minus"
                        f" {labels[one['other']]} is {one['mean']:.3f}"
                        f" ({one['low']:.3f} to {one['high']:.3f}) on {one['items']:,} items."
                    )

    def overview(self) -> Section:
        """Recipes, learners, seeds and data."""
        cells: dict[tuple[str, str, str], Row] = {}
        versions: set[str] = set()
        for row in self.numbers.rows:
            machine = self._machines[row["run"]]
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
            cell["seconds"] += machine.seconds
            versions.add(machine.versions)
        text = (
            f"{len(self.runs):,} runs. Libraries:"
            f" {'; '.join(sorted(v for v in versions if v)) or 'not recorded'}."
        )
        table = table_of(OVERVIEW, cells.values(), page.MOST_ROWS)
        return Section("What was run", text, table, folded="Seeds, data and time")

    def twins(self) -> Section | None:
        """Section on how often answers follow the edits of twins. None if no run answered twins."""
        splits = self.runs.splits
        answered = any(companion(s, kind) in splits for s in splits for kind in TWIN_KINDS)
        if not answered or not self.predicted:
            return None
        text = (
            "Each pair is an item and the same item with one edit. A flip changes the right answer:"
            " a model that keeps its answer was right for the wrong reason. A keep does not: a"
            " model that changes its answer was swayed. Shares are of all pairs."
        )
        shares = self.runs.twins(by=["recipe", "learner"], level=self.numbers.level).shown()
        return Section("Twins", text, shares.filled())

    def scores(self, splits: Sequence[str] = ()) -> Section:
        """Mean of every cell with its interval.

        Args:
            splits: Only these; all by default.
        """
        rows = [row for row in self.numbers.means if not splits or row["split"] in splits]
        by_recipe: dict[str, list[Mark]] = {}
        for row in rows:
            cell = (row["recipe"], row["learner"], row["split"])
            seeds = tuple(self.numbers.seed_scores.get(cell, ()))
            mark = replace(_mark(row, row["split"], row["learner"]), seeds=seeds)
            by_recipe.setdefault(row["recipe"], []).append(mark)
        colours = colour_of([m.series for marks in by_recipe.values() for m in marks])
        panels = tuple(
            interval_panel(recipe, marks, colours, self.numbers.guesses_of(recipe))
            for recipe, marks in itertools.islice(by_recipe.items(), MOST_PANELS)
        )
        columns = self._score_columns(rows)
        # The methods are stated once, above the table. Rows with different methods differ in the
        # number of seeds.
        methods = [method for method in dict.fromkeys(row["method"] for row in rows) if method]
        text = f"Intervals: {' or '.join(methods)}." if methods else ""
        opens = "A number in blue opens the examples behind it." if self.predicted else ""
        guessed = any(row["guess"] is not None for row in rows)
        return Section(
            "Scores",
            text,
            table_of(columns, rows, page.MOST_ROWS),
            panels=panels,
            legend=colours,
            guessed=guessed,
            on_screen=opens,
        )

    def _score_columns(self, rows: Sequence[Row]) -> list[Column]:
        """Columns of the table of scores that have a value in some row."""
        columns = [*SCORES]
        if self.threshold is not None:
            columns.append(Column(f"seeds over {self.threshold:g}", share, number=True))
        for name in SuiteScores(self.runs, ()).columns:
            if name not in REPLY_MEASURES:
                columns.append(Column(name, known(name), number=True))
        columns += in_form_columns(rows)
        return [column for column in columns if any(column.value(row) != "" for row in rows)]

    def replies(self) -> Section | None:
        """Section on the replies of chat models: share in form, replies without an answer, tokens
        and cost.
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
        """Yield the scores of single tasks, then means and standard errors over all tasks and over
        those of each kind.
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
        """Learning curves: the mean over seeds, each seed faintly behind it, and chance."""
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
        # A single point is not a curve, and its score is already in the table.
        panels = {title: splits for title, splits in panels.items() if _has_curve(splits)}
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
        """Yield a section for each of the traits that explain most, and one for all others.

        Traits that divide the examples in the same way, such as a composition and its list of
        concepts, share a section.
        """
        sections = list(self._trait_sections())
        # Sections are in order: those of traits with an effect come first.
        shown = sum(effect.shown for effect in by_size(self.numbers.trait_effects).values())
        most = min(MOST_TRAITS, max(shown, FEWEST_TRAITS))
        drawn = [section for section in sections if section.panels][:most]
        yield from drawn[:1]
        for section in drawn[1:]:
            yield replace(section, secondary=True)
        others = tuple(section for section in sections if section not in drawn)
        if others:
            yield Section("Other traits", "Traits that explain less.", inside=others)

    def _trait_sections(self) -> Iterator[Section]:
        """Yield a section for each trait that several examples share, ordered by how much it
        explains.
        """
        alike: dict[tuple[Any, ...], list[tuple[str, list[Row]]]] = {}
        for name, rows in self._trait_rows().items():
            groups = sorted(
                (r["recipe"], r["learner"], r["split"], r["n"], r["mean"], r["low"]) for r in rows
            )
            alike.setdefault(tuple(groups), []).append((name, rows))
        effects = self.numbers.trait_effects
        largest = by_size(effects)
        # The text gives shares of the variance, so it names the largest share.
        told = {one.trait: one for one in sorted(effects, key=lambda e: (e.shown, e.explained))}
        order = [name for name, effect in largest.items() if effect.shown]
        ordered = []
        for traits in alike.values():
            recipe = self.numbers.owners[traits[0][1][0]["recipe"]]
            named = sorted(traits, key=lambda trait: rank(recipe, trait[0]))
            places = [order.index(name) for name, _ in named if name in order]
            ordered.append((min(places, default=len(order)), rank(recipe, named[0][0]), named))
        for _, _, ((name, rows), *others) in sorted(ordered, key=itemgetter(0, 1)):
            yield self._trait(name, rows, told.get(name), [other for other, _ in others])

    def _trait_rows(self) -> dict[str, list[Row]]:
        """Means by each trait that is a condition of several examples."""
        if not self.predicted:
            return {}
        own = {*self.runs.table.column_names, "task", *TEXTS_OF_TWINS}
        found: dict[str, list[Row]] = {}
        for name in [trait for trait in known_traits(self.runs) if trait not in own]:
            try:
                rows = self.numbers.accuracy(["recipe", "learner", "split", name], "seeds+items")
            except RunsError:
                continue
            # Recipes that lack the trait are skipped.
            rows = [row for row in rows if row[name] is not None]
            if self._is_condition(name, rows):
                found[name] = rows
        return found

    def _is_condition(self, name: str, rows: Sequence[Row]) -> bool:
        """True if a trait is a condition that several examples share, rather than an identifier."""
        values = {row[name] for row in rows}
        if len(values) < 2 or max(row["n"] for row in rows) < 2:
            return False
        if len(values) <= MOST_VALUES:
            return True
        items: Counter[str] = Counter()
        for row in rows:
            items[row["split"]] += row["n"]
        # A condition has at least two items per value on average, an identifier only one.
        return len(values) <= MOST_LISTED and len(values) <= max(items.values()) / 2

    def _trait(
        self,
        name: str,
        rows: Sequence[Row],
        effect: TraitEffect | None,
        alike: Sequence[str],
    ) -> Section:
        """Section of one trait.

        Args:
            name: The trait.
            rows: Means by recipe, learner, split and value.
            effect: Its largest effect; None if none could be computed.
            alike: Traits that divide the examples in the same way.
        """
        recipes = list(dict.fromkeys(self.numbers.owners[row["recipe"]] for row in rows))
        named = trait_name(recipes, name)
        by_split: dict[tuple[str, str], list[Mark]] = {}
        for row in rows:
            if row["n"] < FEWEST_ITEMS:
                continue
            mark = _mark(row, row["learner"], str(row[name]))
            by_split.setdefault((row["recipe"], row["split"]), []).append(mark)
        kept = {k: v for k, v in by_split.items() if 1 < len({m.place for m in v}) <= MOST_VALUES}
        # A split on which every value has about the same score is not informative about the trait.
        kept = {k: v for k, v in kept.items() if _differ(v)} or kept
        colours = colour_of([m.series for marks in kept.values() for m in marks])
        numeric = all(is_number(row[name]) for row in rows)
        panel = trend_panel if numeric else bar_panel
        panels = tuple(
            panel(
                f"{recipe}, {split}",
                marks,
                named.label,
                colours,
                self.numbers.guesses_of(recipe).get(split),
            )
            for (recipe, split), marks in itertools.islice(kept.items(), MOST_PANELS)
        )
        columns = (
            *CELL,
            Column("split", itemgetter("split")),
            Column(named.label, itemgetter(name)),
            *MEASURES,
            *in_form_columns(rows),
        )
        opened = [
            {**row, "opens": self.numbers.opens(row, trait=name, value=str(row[name]))}
            for row in rows[: page.MOST_ROWS]
        ]
        same = [trait_name(recipes, other).label for other in alike]
        return Section(
            f"Score by {named.label}",
            say("about_trait", name=named, own=name, effect=effect, alike=same),
            replace(table_of(columns, opened), total=len(rows)),
            folded="The numbers",
            panels=panels,
            legend=colours,
            guessed=bool(panels),
        )

    def comparisons(self) -> Section | None:
        """Comparisons of all pairs of learners, corrected for all of them together."""
        tests = self.numbers.comparisons
        rows, left_out = tests.rows, tests.left_out
        if not rows:
            return None
        settings = any(row["kind"] != LEARNERS for row in rows)
        text = say(
            "comparisons",
            count=len(rows),
            compared=MOST_PAIRS,
            pairs=tests.pairs,
            settings=settings,
        )
        blocks = ("not compared:\n" + "\n".join(left_out),) if left_out else ()
        # A single comparison needs no correction.
        columns = [c for c in COMPARISONS if len(rows) > 1 or c.head != "corrected p"]
        return Section(
            "Comparisons",
            text,
            table_of((*columns, *in_form_columns(rows, "a ", "b ")), rows),
            blocks=blocks,
            folded="The numbers" if len(rows) > FEW_ROWS else "",
            on_screen="A difference between learners opens both side by side.",
        )

    def examples(self) -> Section | None:
        """Right and wrong answers by recipe and learner, on the split with the lowest score."""
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
        choice = (
            "The split with the lowest score, wrong answers first. Choose a learner, a second one"
            " to put beside it, and a trait to filter by."
        )
        if len(self.numbers.means) > page.MOST_ROWS:
            choice += " Only recipes with a number in blue; 'taskloom view' opens all of them."
        return Section(
            "Examples", blocks=blocks, explorer=True, on_screen=choice, first=self._worst()
        )

    def _worst(self) -> dict[str, str]:
        """The explorer's query for the lowest score of a learner that reads the input."""
        rows = self.numbers.means
        looking = [row for row in rows if not is_reference(row["learner"])] or rows
        return self.numbers.opens(min(looking, key=lambda row: row["mean"]))

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
        points = whole_array(rows["score"])  # comparing a number with Arrow would import pandas
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
        """Section on rerunning the experiment. None if the runs come from another program."""
        first = self.runs.names[0]
        config = self.runs.config_file(first)
        if config is None:
            return None
        text = "Every run's folder has the experiment that reproduces it. To repeat "
        if len(self.runs) == 1:
            text, command = f"{text}the run:", f"taskloom run {quote(str(config))} --store again"
        else:
            text += "all runs of the store (runs that are in the new one already are skipped):"
            files = f"{quote(str(config.parents[2]))}/??/*/{config.name}"
            command = f'for file in {files}; do taskloom run "$file" --store again; done'
        experiment = Section("The experiment", blocks=(self.runs.config(first),))
        return Section(
            "How to run it again",
            text,
            table_of(FOLDERS, self.numbers.rows, page.MOST_ROWS),
            blocks=(command,),
            folded="All runs and their folders",
            inside=(experiment,),
        )


def _differ(marks: Sequence[Mark]) -> bool:
    """True if the means of a learner differ visibly between values."""
    means: dict[str, list[float]] = {}
    for mark in marks:
        means.setdefault(mark.series, []).append(mark.mean)
    return any(max(own) - min(own) >= VISIBLE for own in means.values())


VISIBLE = 0.02
"""Minimum difference between means that a figure shows."""


def _competence(scores: Sequence[float]) -> dict[str, float]:
    """C@T of the given mean scores of tasks."""
    return {f"C@{t}": competence_at(scores, t) for t in THRESHOLDS}


def _has_curve(splits: dict[str, dict[str, list[tuple[int, float]]]]) -> bool:
    """True if a run was evaluated at two or more steps."""
    return any(len(points) > 1 for runs in splits.values() for points in runs.values())


def _listed(names: Sequence[str], what: str, most: int = 3) -> str:
    """Join names as an enumeration, or count them if there are more than `most`."""
    if len(names) > most:
        return f"{len(names)} {what}"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _described(owner: str) -> str:
    """Description of a suite's recipe; empty if it has no description, as in a user's file."""
    try:
        return str(find(owner.partition(" ")[0]).data.get("describe", "")).strip()
    except RecipeError:
        return ""


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
        # If seeds stopped early, the mean would jump to those that remain, so it ends where the
        # first seed stops.
        steps = [step for step, scores in sorted(by_step.items()) if len(scores) == len(seeds)]
        yield Curve(split, tuple(steps), tuple(sum(by_step[s]) / len(seeds) for s in steps))


def _mark(row: Row, series: str, place: str) -> Mark:
    ends = [None if math.isnan(row[k]) else min(1.0, max(0.0, row[k])) for k in ("low", "high")]
    return Mark(series, place, row["mean"], ends[0], ends[1])
