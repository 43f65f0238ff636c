"""Plans of function recipes: which functions are evaluated, in which world, and for which
splits.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from taskloom.core.errors import RecipeError, TaskloomError
from taskloom.core.example import Answer, Example, Step
from taskloom.core.plan import (
    Level,
    Plan,
    Propose,
    Split,
    Tasks,
    Withheld,
    in_rounds,
    proved,
    role_of,
)
from taskloom.suites.taskbench.catalog import composition, family
from taskloom.suites.taskbench.evaluation.derivations import BETWEEN, items
from taskloom.suites.taskbench.evaluation.evaluator import FunctionTable, Profile, profile
from taskloom.suites.taskbench.language import Type, describe, read_typed, show
from taskloom.suites.taskbench.language.operators import Expression, Map, Union, atoms_of
from taskloom.suites.taskbench.rows import (
    TRAITS,
    SequenceRows,
    WordRows,
    index_column,
    join_balanced,
)
from taskloom.suites.taskbench.sampling import Hashes, Sequences, TestedPairs
from taskloom.suites.taskbench.scorers import ByTask, Positions, cut
from taskloom.suites.taskbench.split_shares import SplitShares
from taskloom.suites.taskbench.variants import FunctionVariants
from taskloom.suites.taskbench.worlds.worlds import Answerer, World, open_world

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from taskloom.core.seeding import Key
    from taskloom.suites.taskbench.fields import TaskbenchFields

PREFIX = "taskbench/"

SHOWN = 6
"""Maximum number of acceptable answers to show. The rest are only counted."""

LISTED = 200
"""Maximum number of functions listed in a warning. The manifest lists all of them."""

PUBLISHED = (
    "pairs=published: words are split by input alone, as in the paper, so training may contain "
    "the reverse of a tested pair, and sequences share words across splits"
)


@dataclass(frozen=True, eq=False)
class Function:
    """One function of a recipe."""

    name: str
    expression: Expression
    type: Type

    @property
    def task(self) -> str:
        """Name of the task, used in rows."""
        return PREFIX + self.name

    @property
    def element(self) -> Expression | None:
        """The function of a single word, for sequence functions with a map."""
        return self.expression.element if isinstance(self.expression, Map) else None


def functions(fields: TaskbenchFields) -> list[Function]:
    """Return the functions of a recipe."""
    return [_function(name) for name in fields.tasks()]


def _function(name: str) -> Function:
    expression, kind = read_typed(name)
    return Function(name, expression, kind)


def answerer(fields: TaskbenchFields) -> Callable[[str], Answer]:
    """Return the function of a recipe that has one function."""
    from taskloom.core.errors import InputError

    chosen = functions(fields)
    if len(chosen) != 1:
        raise InputError(
            f"this recipe has {len(chosen)} functions; apply one of them by name, e.g."
            f" {chosen[0].task}"
        )
    return open_world(fields, chosen).deriver(chosen[0])


def plan(fields: TaskbenchFields, key: Key) -> Plan:
    """Plan a function recipe."""
    return _Planner(fields, key).plan(lambda task: False)


class _Planner:
    def __init__(self, fields: TaskbenchFields, key: Key) -> None:
        self.fields = fields
        self.key = key
        self.functions = functions(fields)
        self.world: World = open_world(fields, self.functions)
        self.hashes = Hashes(key.child("content"))
        self.shares = SplitShares(fields.shares)
        self.left_out: dict[str, int] = {}
        self.noted: dict[str, dict[str, int]] = {}

    @cached_property
    def pairs(self) -> TestedPairs | None:
        """Pairs whose reversal must not be in training, or None if the recipe follows the published
        rule, which allows it.
        """
        if self.fields.pairs == "published":
            return None
        return TestedPairs(
            (self.world.solve(part) for f in self.functions for part in self._parts(f)),
            self.hashes,
            self.shares,
        )

    @cached_property
    def task_rows(self) -> list[WordRows | SequenceRows]:
        planned = [self._rows(function) for function in self.functions]
        return [rows for rows in planned if rows is not None]

    def plan(self, withheld: Withheld) -> Plan:
        tasks = self.task_rows
        if not tasks:
            raise RecipeError("; ".join(self._warnings()))
        taught = [rows for rows in tasks if not withheld(rows.task)]
        splits = [
            self._split(name, taught if name == "train" else tasks) for name in self.shares.weights
        ]
        splits = [s for s in splits if s.n]
        splits += self._small(taught)
        if self.fields.answers:
            splits += self._answers()
        one = self.functions[0] if len(self.functions) == 1 else None
        return Plan(
            splits=tuple(splits),
            traits=TRAITS,
            describe=(
                self._describe(one.task, "instruction") if one else "Apply the named function."
            ),
            scorer=ByTask(self._sequence_scorer),
            answer=self.world.deriver(one) if one else None,
            check=None if self.fields.labels == "permuted" else self._check,
            sources=self.world.sources,
            left_out=self.left_out,
            warnings=self._warnings(),
            show=self._show,
            tasks=Tasks(
                tell=self._describe,
                names=tuple(rows.task for rows in tasks),
                facts=self._facts,
                without=self.plan,
            ),
            variants=self._variants(),
        )

    def _variants(self) -> Propose | None:
        """Return the generator of variants. None for shuffled labels, which no solver can verify,
        and for balanced unions, whose inputs do not state which operand is meant.
        """
        if self.fields.labels == "permuted" or self.fields.balanced:
            return None
        propose = FunctionVariants(
            self.task_rows,
            lambda task: self.world.deriver(_function(task.removeprefix(PREFIX))),
            self.fields.sequences.separators,
        )
        return proved(propose, self._check)

    def _facts(self, task: str) -> dict[str, str | int | float]:
        """Return the kind and profile of a task's function. For a balanced union, they describe the
        mixture, as in the rows.
        """
        rows = next(rows for rows in self.task_rows if rows.task == task)
        return {**rows.traits, **asdict(profile(rows.answered))}

    def _describe(self, task: str, level: Level) -> str:
        """Describe a function. With shuffled labels, its meaning would not help."""
        if self.fields.labels == "permuted":
            return (
                "Give the word that goes with the given one; the pairs were shuffled and can only "
                "be known by heart."
            )
        expression, _ = read_typed(task.removeprefix(PREFIX))
        return describe(expression, level, separators=self.fields.sequences.separators)

    def _show(self, example: Example) -> str:
        function = _function(example.task.removeprefix(PREFIX))
        answerer = self.world.deriver(function)
        if function.type.form == "sequence":
            text = _show_sequence(example, answerer, self.fields.sequences.separators)
        else:
            text = _show_word(example, answerer)
        if len(self.functions) == 1:
            return text
        task = example.task.replace("[", r"\[")
        return f"  {task}\n{text}"

    def _leave_out(self, name: str, examples: int, why: str) -> None:
        self.left_out[name] = examples
        self.noted.setdefault(f"left out for {why}", {})[name] = examples

    def _warnings(self) -> tuple[str, ...]:
        warnings = []
        for what, counts in self.noted.items():
            subject = "1 function is" if len(counts) == 1 else f"{len(counts)} functions are"
            warnings.append(f"{subject} {what}: {_counts(counts)}")
        if self.fields.pairs == "published":
            warnings.append(PUBLISHED)
        return tuple(warnings)

    @property
    def _too_few(self) -> str:
        return f"having fewer than {self.fields.minimum} examples (lower 'minimum' to have more)"

    def _rows(self, function: Function) -> WordRows | SequenceRows | None:
        key = self.key.child("task", function.name)
        traits = {
            "family": family(function.expression),
            "composition": composition(function.expression),
        }
        permuted = self.fields.labels == "permuted"
        if permuted and function.type.form == "sequence":
            raise RecipeError(
                f"labels=permuted is for functions of words, but {function.name} is a function of "
                "sequences"
            )
        if self.fields.balanced:
            return self._balanced(function, key, traits)
        solved = self.world.solve(function)
        if function.type.form == "sequence":
            return self._sequences(function, solved, key, traits)
        if len(solved.domain) < self.fields.minimum:
            self._leave_out(function.name, len(solved.domain), self._too_few)
            return None
        traces = () if permuted else (self.world.trace(function),)
        trained = self._trained(function, solved)
        rows = WordRows(
            function.task,
            solved,
            key,
            self.hashes,
            self.shares,
            traits,
            permuted=permuted,
            traces=traces,
        )
        return replace(rows, trained=trained)

    def _trained(self, function: Function, solved: FunctionTable) -> NDArray[np.bool_] | None:
        """Return a mask of the inputs that may be used for training. Warns if fewer than a quarter
        remain.
        """
        if self.pairs is None:
            return None
        trained = self.pairs.trained(solved)
        member = self.shares.member(self.hashes.of(solved.inputs, solved.domain), "train")
        lost = int((member & ~trained).sum())
        if 4 * lost > 3 * int(member.sum()):
            what = (
                "left with less than a quarter of the training words, because the reverse of "
                "their pairs is tested (see 'pairs')"
            )
            self.noted.setdefault(what, {})[function.name] = lost
        return trained

    def _sequences(
        self, function: Function, solved: FunctionTable, key: Key, traits: dict[str, str]
    ) -> SequenceRows | None:
        """Plan the sequences of a function. If only a few are possible, each occurs once."""
        s, apart = self.fields.sequences, self.fields.word_disjoint
        trained = self._trained(function, solved)
        sampler = Sequences(solved, key, self.hashes, self.shares, s.length, s.kept, apart, trained)
        room = {split: sampler.size(split) for split in self.shares.weights}
        why = self._unfit(solved, room)
        if why:
            self._leave_out(function.name, sum(room.values()), why)
            return None
        if solved.words < self.fields.minimum:
            what = (
                f"made of fewer than {self.fields.minimum} words (raise sequences.words to "
                "exclude them)"
            )
            self.noted.setdefault(what, {})[function.name] = solved.words
        wanted = {
            split: _portion(s.n, split, share) for split, share in self.shares.weights.items()
        }
        counts = {split: min(n, room[split]) for split, n in wanted.items()}
        if counts != wanted:
            what = "short of distinct sequences (sequences.n requests more)"
            self.noted.setdefault(what, {})[function.name] = sum(counts.values())
        return SequenceRows(
            function.task, sampler, counts, traits, s.separators, self.world.trace(function)
        )

    def _unfit(self, solved: FunctionTable, room: dict[str, int]) -> str:
        """Return the reason why a function cannot have datasets of sequences, or an empty text."""
        least = self.fields.sequences.words
        if sum(room.values()) < self.fields.minimum:
            return self._too_few
        if solved.words < least:
            return (
                f"made of fewer than {least} words (sequences.words; the numbers count sequences)"
            )
        if not all(room.values()):
            return "without words of their own in some split (see 'pairs' and word_disjoint)"
        return ""

    def _balanced(self, function: Function, key: Key, traits: dict[str, str]) -> WordRows | None:
        """Plan a union as a balanced mixture of its operands (App. D). Only inputs that both
        operands know are tested.
        """
        sides = self._parts(function)
        first, second = (self.world.solve(side) for side in sides)
        free = self.pairs.trained if self.pairs else lambda table: None
        solved, numbers, both = join_balanced(first, second, self.hashes, self.shares, free)
        if len(solved.domain) < self.fields.minimum or not both.any():
            why = (
                self._too_few
                if both.any()
                else "without an input that both operands know (balanced)"
            )
            self._leave_out(function.name, len(solved.domain), why)
            return None
        permuted = self.fields.labels == "permuted"
        traces = () if permuted else tuple(self.world.trace(side) for side in sides)
        names = tuple(side.name for side in sides)
        rows = WordRows(
            function.task,
            solved,
            key,
            self.hashes,
            self.shares,
            traits,
            permuted=permuted,
            traces=traces,
        )
        trained = self._trained(function, solved)
        if trained is not None:
            # Both rows of an input are removed, so that training has the same number of rows for
            # both operands.
            trained = ~np.isin(solved.domain, solved.domain[~trained])
        return replace(rows, sides=numbers, side_names=names, shared=both, trained=trained)

    def _parts(self, function: Function) -> list[Function]:
        """Return the functions whose pairs a task contains: the function itself, or the operands of
        a balanced union.
        """
        if not self.fields.balanced:
            return [function]
        tree = function.expression
        if not isinstance(tree, Union) or len(tree.parts) != 2:
            raise RecipeError(
                f"balanced requires unions of two relations, but {function.name} is not one; "
                "leave it out or write union(f, g)"
            )
        return [_function(show(part)) for part in tree.parts]

    def _split(self, name: str, tasks: list[WordRows | SequenceRows]) -> Split:
        counts = [rows.count(name) for rows in tasks]
        starts = [0, *accumulate(counts)]

        def rows(start: int, stop: int) -> pa.Table:
            import pyarrow as pa

            parts = []
            for number, first, end in in_rounds(starts[-1], start, stop):
                # Tasks without rows share their start with the next task that has rows; take the
                # last of them.
                at = max(0, bisect_right(starts, first) - 1)
                while at < len(tasks) and starts[at] < end:
                    low, high = max(first, starts[at]), min(end, starts[at + 1])
                    place = number * counts[at] - starts[at]
                    if low < high:
                        parts.append(tasks[at].rows(name, place + low, place + high))
                    at += 1
            table = pa.concat_tables(parts)
            return table.set_column(0, "index", index_column(start, stop))

        rounds = min((task.rounds(name) for task in tasks if task.count(name)), default=1)
        return Split(name, sum(counts), rows, role_of(name), rounds=rounds)

    def _small(self, tasks: list[WordRows | SequenceRows]) -> list[Split]:
        """Plan few-shot and memorisation sets: subsets of the training split."""
        splits = []
        if self.fields.few_shot:
            k = self.fields.few_shot.k
            for draw in range(self.fields.few_shot.draws):
                splits.append(
                    _subset(
                        f"{k}-shot-{draw}",
                        k,
                        tasks,
                        f"{k} training examples of each task, draw {draw + 1}",
                        draw,
                    )
                )
        if self.fields.memorise:
            n = self.fields.memorise
            splits.append(
                _subset(
                    "memorise",
                    n,
                    tasks,
                    f"{n:,} training examples of each task, to be memorised",
                )
            )
        return [split for split in splits if split.n]

    def _answers(self) -> list[Split]:
        """Plan the split `answers`: all answers for every word that can occur in a sequence, for
        each mapped function that is not itself a task.
        """
        present = {f.name for f in self.functions}
        wanted: dict[str, Function] = {}
        for function in self.functions:
            if function.element is not None and function.name not in self.left_out:
                name = show(function.element)
                if name not in present:
                    wanted[name] = _function(name)
        tables = []
        for function in wanted.values():
            traits = {
                "family": family(function.expression),
                "composition": composition(function.expression),
            }
            key = self.key.child("task", function.name)
            traces = (self.world.trace(function),)
            tables.append(
                WordRows(
                    function.task,
                    self.world.solve(function),
                    key,
                    self.hashes,
                    None,
                    traits,
                    traces=traces,
                )
            )
        if not tables:
            return []
        split = self._split("answers", list(tables))
        return [
            replace(
                split,
                role="probe",
                describe="every word from which sequences are drawn, with all its answers",
            )
        ]

    @cached_property
    def _by_task(self) -> dict[str, Function]:
        return {f.task: f for f in self.functions}

    def _sequence_scorer(self, task: str) -> Positions | None:
        function = self._by_task.get(task)
        if function is None or function.type.form != "sequence":
            return None
        positions = self.world.deriver(function).positions
        return Positions(
            lambda example: positions(example.key or example.input),
            self.fields.sequences.separators,
        )

    def _check(self, example: Example) -> tuple[str, ...]:
        name = str(example.traits.get("side") or example.task.removeprefix(PREFIX))
        return self.world.check(_function(name), example)


def _counts(counts: dict[str, int]) -> str:
    listed = [f"{name} ({n})" for name, n in counts.items()]
    rest = f" and {len(listed) - LISTED:,} more, in the manifest" if len(listed) > LISTED else ""
    return ", ".join(listed[:LISTED]) + rest


def _subset(
    name: str, k: int, tasks: Iterable[WordRows | SequenceRows], describe: str, draw: int = 0
) -> Split:
    drawn = [(rows, rows.few(name, k, draw)) for rows in tasks]
    chosen = [(rows, places) for rows, places in drawn if len(places)]
    starts = [0, *accumulate(len(places) for _, places in chosen)]

    def rows(start: int, stop: int) -> pa.Table:
        import pyarrow as pa

        first, last = bisect_right(starts, start) - 1, bisect_left(starts, stop)
        parts = [task.table(places) for task, places in chosen[first:last]]
        wanted = pa.concat_tables(parts).slice(start - starts[first], stop - start)
        return wanted.set_column(0, "index", index_column(start, stop))

    return Split(name, starts[-1], rows, "train", describe)


def _portion(n: int | Mapping[str, int], split: str, share: float) -> int:
    """Return the number of sequences in a split: its own number if given, otherwise its share of
    n.
    """
    return round(n * share) if isinstance(n, int) else n.get(split, 0)


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A function of a recipe with its operands and its profile."""

    name: str
    family: str
    composition: str
    operands: tuple[str, ...]
    profile: Profile


def survey(fields: TaskbenchFields) -> list[Surveyed]:
    """List every function of a recipe with its domain size, mean number of answers, and baselines
    (majority and chance).
    """
    chosen = functions(fields)
    world = open_world(fields, chosen)
    return [
        Surveyed(
            f.name,
            family(f.expression),
            composition(f.expression),
            tuple(atoms_of(f.expression)),
            profile(world.solve(f)),
        )
        for f in chosen
    ]


def solved_of(fields: TaskbenchFields) -> list[FunctionTable]:
    """Evaluate every function of a recipe on its domain."""
    chosen = functions(fields)
    world = open_world(fields, chosen)
    return [world.solve(f) for f in chosen]


# `taskloom show`: the answer, the other acceptable answers, and the steps of the derivation


def _show_word(example: Example, answerer: Answerer) -> str:
    """Format a word with its answers and, if the function is composed, the steps."""
    rest = example.targets[1:]
    lines = [f"  {example.input} → {example.target}" + (f"   or {_few(rest)}" if rest else "")]
    try:
        steps = answerer(example.input).derivation
    except TaskloomError:
        steps = ()
    if len(steps) > 1:
        width = max(len(step.rule) for step in steps)
        for n, step in enumerate(steps):
            values = step.value.split(BETWEEN) if step.value else ["nothing"]
            lines.append(f"      {step.rule:<{width}}  {_few(values)}{_origin(step, n)}")
    return "\n".join(lines).replace("[", r"\[")


def _show_sequence(example: Example, answerer: Answerer, separators: bool) -> str:
    """Format a sequence and its result, with the acceptable answers at each position."""
    lines = [f"  {example.input}", f"  → {example.target}"]
    sets = answerer.positions(example.key or example.input)
    given = items(example.target, True) if separators else cut(example.target, sets)
    width = max((len(item) for item in given), default=0)
    for item, accepted in zip(given, sets, strict=False):
        others = [a for a in accepted if a != item]
        lines.append(f"      {item:<{width}}" + (f"   or {_few(others)}" if others else ""))
    return "\n".join(lines).replace("[", r"\[")


def _few(values: list[str] | tuple[str, ...]) -> str:
    shown = ", ".join(values[:SHOWN])
    return shown + (f" and {len(values) - SHOWN} more" if len(values) > SHOWN else "")


def _origin(step: Step, number: int) -> str:
    """Name the source of a step's input, unless it is the previous step."""
    if step.of is None or step.of in ((), (number - 1,)):
        return ""
    return f"   (of steps {', '.join(str(i + 1) for i in step.of)})"
