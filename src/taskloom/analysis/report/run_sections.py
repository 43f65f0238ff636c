"""The sections of a report on runs: findings in sentences, each number with its interval, then figures, tables, examples."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from taskloom.analysis.report import charts, page
from taskloom.analysis.report.answer_data import AnsweredCell, Explorer, explorer
from taskloom.analysis.report.page import Column, Section
from taskloom.analysis.report.report_columns import (
    CELL,
    COMPARISONS,
    FOLDERS,
    MEASURES,
    OVER_TASKS,
    OVERVIEW,
    SCORES,
    TASKS,
    Row,
    known,
    share,
)
from taskloom.analysis.report.run_numbers import GROUPED, MOST_PAIRS, RunNumbers
from taskloom.core.arrow import numbers, whole_array
from taskloom.core.scoring import competence_at
from taskloom.data.competence import THRESHOLDS
from taskloom.experiments.accuracy import SuiteScores
from taskloom.experiments.record import RunsError
from taskloom.experiments.result_table import probability
from taskloom.experiments.scored_rows import known_traits

WORDS = {"iid": "items like those of training (iid)", "ood": "held-out items (ood)"}
"""What the usual splits are; others are called by their names."""

MOST = 24
"""Sentences of one kind; the tables have the rest."""

CONSTANT = frozenset({"majority"})
"""Learners that give every input the same answer: their gaps say how often that answer is right, nothing of generalization."""

SUCCESS = 0.95
"""The score that counts as having learned a task, where the reader names no other."""


def mean_with_interval(row: Row) -> str:
    """Format a mean with half the width of its interval, or with its ends where it is lopsided.

    >>> mean_with_interval({"mean": 0.94, "low": 0.90, "high": 0.98}), mean_with_interval({"mean": 1.0, "low": 0.97, "high": 1.0})
    ('0.940 ± 0.040', '1.000 (0.970 to 1.000)')
    """
    mean, low, high = row["mean"], row["low"], row["high"]
    if low is None or math.isnan(low):
        return f"{mean:.3f}"
    above, below = high - mean, mean - low
    if abs(above - below) <= 0.1 * max(above, below, 1e-9):
        return f"{mean:.3f} ± {(high - low) / 2:.3f}"
    return f"{mean:.3f} ({low:.3f} to {high:.3f})"


def score_sentences(
    rows: Sequence[Row],
    seed_scores: Mapping[tuple[str, str, str], Sequence[float]],
    guesses: Mapping[tuple[str, str], float],
    threshold: float,
) -> list[str]:
    """Say how each learner did on each recipe, the lowest split first: that is where generalization breaks.

    Args:
        rows: Means with intervals by recipe, learner and split.
        seed_scores: The score of every seed, by recipe, learner and split.
        guesses: The score of guessing, by recipe and split.
        threshold: The score that counts as success.
    """
    sentences = []
    for recipe, learner in dict.fromkeys((row["recipe"], row["learner"]) for row in rows):
        own = sorted(
            (r for r in rows if (r["recipe"], r["learner"]) == (recipe, learner)),
            key=lambda r: r["mean"],
        )
        parts = [
            _part(row, seed_scores.get((recipe, learner, row["split"]), ()), guesses, threshold)
            for row in own[:4]
        ]
        more = f"; {len(own) - 4} more splits are in the table" if len(own) > 4 else ""
        sentences.append(f"{learner} on {recipe}: {'; '.join(parts)}{more}.")
    return sentences[:MOST]


def _part(
    row: Row, seeds: Sequence[float], guesses: Mapping[tuple[str, str], float], threshold: float
) -> str:
    text = _place(row)
    guess = guesses.get((row["recipe"], row["split"]))
    if guess is not None and not math.isnan(row["low"]) and row["low"] <= guess <= row["high"]:
        text += f", indistinguishable from guessing the most frequent answer ({guess:.3f})"
    if len(seeds) > 1:
        text += f", {sum(score > threshold for score in seeds)} of {len(seeds)} seeds above {threshold:g}"
    return text


def gap_sentence(rows: Sequence[Row]) -> str:
    """Return the headline: the largest fall from iid to ood that the intervals show, or that they show none.

    A constant answer cannot generalize, so such learners are not looked at. Without both kinds of splits it is the best score.
    """
    pairs = _iid_ood_pairs(rows)
    if not pairs:
        top = max(rows, key=lambda r: r["mean"])
        return f"{top['learner']} reaches {mean_with_interval(top)} on {top['recipe']}, {top['split']}."
    falls = [(iid, ood) for iid, ood in pairs if ood["high"] < iid["low"]]
    if falls:
        iid, ood = max(falls, key=lambda pair: pair[0]["mean"] - pair[1]["mean"])
        return f"{iid['learner']} falls from {_place(iid)} to {_place(ood)} of {iid['recipe']}."
    rises = [(iid, ood) for iid, ood in pairs if iid["high"] < ood["low"]]
    if rises:
        iid, ood = max(rises, key=lambda pair: pair[1]["mean"] - pair[0]["mean"])
        return f"No fall is shown; {iid['learner']} is higher on ood: {_place(ood)}, {_place(iid)} of {iid['recipe']}."
    iid, ood = max(pairs, key=lambda pair: pair[0]["mean"])
    why = (
        "there are no intervals"
        if any(math.isnan(r["low"]) for pair in pairs for r in pair)
        else "intervals overlap"
    )
    return (
        f"No difference between iid and ood is shown ({why}): {iid['learner']} has {_place(iid)} and {_place(ood)} "
        f"of {iid['recipe']}."
    )


def _iid_ood_pairs(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Pair the score on iid with that on every split of held-out items, for learners that look at the input."""
    reference = {(r["recipe"], r["learner"]): r for r in rows if r["split"] == "iid"}
    return [
        (reference[row["recipe"], row["learner"]], row)
        for row in rows
        if (row["recipe"], row["learner"]) in reference
        and (row["split"] == "ood" or row["split"].startswith("ood-"))
        and row["learner"].partition(" ")[0] not in CONSTANT
    ]


def _place(row: Row) -> str:
    return f"{mean_with_interval(row)} on {WORDS.get(row['split'], row['split'])}"


def comparison_sentences(rows: Iterable[Row]) -> list[str]:
    """Say which learner is better, and where the runs do not tell."""
    shown, open_ = [], []
    for row in sorted(rows, key=lambda r: r["corrected_p"]):
        where = f"on {row['recipe']}, {row['split']}"
        p = probability(row["corrected_p"])
        sign = "p" if p.startswith("<") else "p ="
        if row["corrected_p"] < 0.05:
            better, worse = (
                (row["second"], row["first"])
                if row["difference"] > 0
                else (row["first"], row["second"])
            )
            low, high = sorted((abs(row["low"]), abs(row["high"])))
            size = (
                f"{abs(row['difference']):.3f} ({low:.3f} to {high:.3f})"
                if not math.isnan(low)
                else f"{abs(row['difference']):.3f}"
            )
            shown.append(
                f"{better} is better than {worse} by {size} {where} (corrected {sign} {p})."
            )
        else:
            open_.append(f"{row['first']} and {row['second']} {where}")
    sentences = shown[:MOST]
    if open_:
        names = "; ".join(open_[:6]) + (
            f" and {len(open_) - 6} more pairs" if len(open_) > 6 else ""
        )
        sentences.append(f"No difference is shown between {names}.")
    return sentences


MOST_PANELS = 12
"""Panels of one figure: four rows of three, about two screens."""

MOST_VALUES = 20
"""Values of a trait that a figure has room for; the numbers of a trait with more stand in a table alone."""

MOST_LISTED = 200
"""Values of a trait that has a table; one with more, or with fewer than two examples of each, is a name and not a condition."""


class RunSections:
    """The sections about the runs of one store.

    Args:
        numbers: What the sections show.
    """

    def __init__(self, numbers: RunNumbers) -> None:
        self.numbers = numbers
        self.runs = numbers.runs
        self.threshold = numbers.threshold
        self.predicted = numbers.predicted

    def name(self) -> str:
        """Return a title that says what was run."""
        recipes, learners = (
            list(dict.fromkeys(row[k] for row in self.numbers.rows)) for k in ("learner", "recipe")
        )
        return f"{_listed(recipes)} on {_listed(learners)}"

    def finished(self) -> str:
        """Return the day of the last run."""
        days = [str(self.runs.environment(run).get("finished", ""))[:10] for run in self.runs.names]
        return max(days, default="")

    def headline(self) -> str:
        """Return the one finding that a reader should take along."""
        return gap_sentence(self.numbers.means)

    def findings(self, failed: Mapping[str, str]) -> Section:
        """Say in sentences what came out."""
        threshold = SUCCESS if self.threshold is None else self.threshold
        sentences = score_sentences(
            self.numbers.means, self.numbers.seed_scores, self.numbers.guesses, threshold
        )
        sentences += comparison_sentences(self.numbers.comparisons.rows)
        if failed:
            sentences.append(f"{len(failed)} runs failed; the reasons are below.")
        return Section("Findings", sentences=tuple(sentences))

    def explorer(self) -> Explorer:
        """Return the examples behind the numbers."""
        if not self.predicted:
            return Explorer()
        cells = [
            AnsweredCell(recipe, a, names)
            for recipe, own in self.numbers.cells.items()
            for a, names in own.items()
        ]
        paired: dict[tuple[str, str, str, str], str] = {}
        for row in self.numbers.comparisons.rows:
            ends = "" if math.isnan(row["low"]) else f" ({row['low']:.3f} to {row['high']:.3f})"
            text = (
                f"On the whole split: difference {row['difference']:+.3f}{ends}, "
                f"{row['test']}, p {probability(row['p'])}, corrected {probability(row['corrected_p'])}"
            )
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
        text = f"{len(self.runs):,} runs. Libraries: {'; '.join(sorted(v for v in versions if v)) or 'not recorded'}."
        return Section("What was run", text, OVERVIEW, tuple(cells.values()))

    def scores(self) -> Section:
        """Show the mean of every cell with its interval."""
        rows = self.numbers.means
        by_recipe: dict[str, list[charts.Mark]] = {}
        for row in rows:
            by_recipe.setdefault(row["recipe"], []).append(_mark(row, row["split"], row["learner"]))
        colours = charts.colour_of([m.series for marks in by_recipe.values() for m in marks])
        panels = tuple(
            charts.interval_panel(recipe, marks, colours, self.numbers.guesses_of(recipe))
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
            ),
        )
        opens = "A number in blue opens the examples behind it." if self.predicted else ""
        guessed = bool(self.numbers.guesses)
        return Section(
            "Scores",
            "",
            columns,
            tuple(rows),
            panels=panels,
            legend=colours,
            guessed=guessed,
            on_screen=opens,
        )

    def by_task(self) -> Iterator[Section]:
        """Yield the scores of single tasks, and their mean and standard error over tasks: all, and those of each kind."""
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
            "Every task counts the same; the standard error and the interval are over tasks, as a sample of tasks like them. C@T "
            "is the share of tasks with a mean score of at least T percent."
        )
        yield Section(
            "Scores over tasks",
            text,
            OVER_TASKS,
            tuple(row for row in rows if row["recipe"] in many),
        )
        mine = tuple(
            {**row, "opens": self.numbers.opens(row)} for row in tasks if row["recipe"] in many
        )
        yield Section("Scores by task", "", TASKS, mine, folded="The tasks")

    def learning(self) -> Section | None:
        """Show learning curves: the mean over seeds, each seed faintly behind it, and the score of guessing."""
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
        colours = charts.colour_of([curve.split for curves in shown.values() for curve in curves])
        text = "The mean over seeds, and each seed faintly behind it."
        if len(panels) > MOST_PANELS:
            text += f" The first {MOST_PANELS} of {len(panels)}."
        drawn = tuple(
            charts.curve_panel(title, curves, colours, guesses[title])
            for title, curves in shown.items()
        )
        guessed = any(guesses.values())
        return Section("Learning curves", text, panels=drawn, legend=colours, guessed=guessed)

    def by_trait(self) -> Iterator[Section]:
        """Yield a section for each trait that is a condition of several examples, not the name of one.

        Traits that divide the examples in the same way, such as a composition and its list of concepts, share a section.
        """
        if not self.predicted:
            return
        own = {*self.runs.table.column_names, "task"}
        alike: dict[tuple[Any, ...], list[tuple[str, list[Row]]]] = {}
        for name in [t for t in known_traits(self.runs) if t not in own]:
            try:
                rows = self.numbers.accuracy(["recipe", "learner", "split", name], "seeds+items")
            except RunsError:
                continue
            rows = [
                row for row in rows if row[name] is not None
            ]  # recipes that lack the trait say nothing about it
            if self._is_condition(name, rows):
                groups = sorted(
                    (r["recipe"], r["learner"], r["split"], r["n"], r["mean"], r["low"])
                    for r in rows
                )
                alike.setdefault(tuple(groups), []).append((name, rows))
        for (name, rows), *others in alike.values():
            section = self._trait(name, rows)
            same = " and ".join(other for other, _ in others)
            yield (
                replace(section, text=f"By {same} the examples are divided in the same way.")
                if same
                else section
            )

    def _is_condition(self, name: str, rows: Sequence[Row]) -> bool:
        """Return whether a trait is a condition that several examples share, not the name of one."""
        values = {row[name] for row in rows}
        if len(values) < 2 or max(row["n"] for row in rows) < 2:
            return False
        if len(values) <= MOST_VALUES:
            return True
        most = max(
            sum(row["n"] for row in rows if row["split"] == split)
            for split in {row["split"] for row in rows}
        )
        return len(values) <= MOST_LISTED and len(values) <= most / 2

    def _trait(self, name: str, rows: Sequence[Row]) -> Section:
        by_split: dict[tuple[str, str], list[charts.Mark]] = {}
        for row in rows:
            mark = _mark(row, row["learner"], str(row[name]))
            by_split.setdefault((row["recipe"], row["split"]), []).append(mark)
        kept = {k: v for k, v in by_split.items() if 1 < len({m.place for m in v}) <= MOST_VALUES}
        colours = charts.colour_of([m.series for marks in kept.values() for m in marks])
        panel = (
            charts.trend_panel if all(_is_number(row[name]) for row in rows) else charts.bar_panel
        )
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
        )
        opened = tuple(
            {**row, "opens": self.numbers.opens(row, trait=name, value=str(row[name]))}
            for row in rows
        )
        title = f"Score by {name}"
        return Section(
            title,
            "",
            columns,
            opened,
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
        cut = (
            f" Only the first {MOST_PAIRS} of {tests.pairs:,} pairs were compared."
            if tests.pairs > MOST_PAIRS
            else ""
        )
        count = (
            f"{len(rows)} comparisons; the corrected p-values (Holm) hold for all of them together"
            if len(rows) > 1
            else "1 comparison; its p-value needs no correction"
        )
        text = f"The second learner against the first, on the same examples. {count}.{cut}"
        blocks = ("not compared:\n" + "\n".join(left_out),) if left_out else ()
        return Section(
            "Comparisons",
            text,
            COMPARISONS,
            rows,
            blocks=blocks,
            on_screen="A difference opens both learners side by side.",
        )

    def examples(self) -> Section | None:
        """Show right and wrong answers of each recipe and learner, from the split with the lowest score."""
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
        choice = "Choose a learner above them, a second one to put beside it, and a trait to filter by; wrong answers come first."
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
                text = f"{head}, seed {record.seed}, {split} {row['index']}: {kind}\n\n{row['input'][:900]}\n\n"
                yield page.Marked(f"{text}answered: {row['prediction'][:300]}{expected}", kind)

    def reproduction(self) -> Section | None:
        """Show how to run any of it again; None where the runs are another program's."""
        first = self.runs.names[0]
        folder = self.runs.folder(first)
        if not folder.is_dir():
            return None
        text = (
            "Every run's folder holds the experiment that makes it again; runs that are in the store are not repeated. The "
            "first run's is below."
        )
        block = f"taskloom run {folder / 'config.yaml'} --store again\n\n{self.runs.config(first)}"
        rows = tuple(self.numbers.rows)
        return Section(
            "How to run it again",
            text,
            FOLDERS,
            rows,
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


def _curves(splits: dict[str, dict[str, list[tuple[int, float]]]]) -> Iterator[charts.Curve]:
    for split, seeds in splits.items():
        by_step: dict[int, list[float]] = {}
        for points in seeds.values():
            ordered = sorted(points)
            for step, score in ordered:
                by_step.setdefault(step, []).append(score)
            if len(seeds) > 1:
                yield charts.Curve(
                    split, tuple(s for s, _ in ordered), tuple(v for _, v in ordered), faint=True
                )
        # Where seeds stopped early the mean would jump to the survivors; it ends with the first that stops.
        steps = [step for step, scores in sorted(by_step.items()) if len(scores) == len(seeds)]
        yield charts.Curve(split, tuple(steps), tuple(sum(by_step[s]) / len(seeds) for s in steps))


def _mark(row: Row, series: str, place: str) -> charts.Mark:
    ends = [None if math.isnan(row[k]) else min(1.0, max(0.0, row[k])) for k in ("low", "high")]
    return charts.Mark(series, place, row["mean"], ends[0], ends[1])
