"""All worlds of a recipe behind one interface: which functions they answer, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from taskloom.core.errors import DataError
from taskloom.core.example import Answer, Example
from taskloom.core.plan import Source
from taskloom.core.resources import resource
from taskloom.suites.taskbench import atoms
from taskloom.suites.taskbench.catalog import families
from taskloom.suites.taskbench.evaluation.derivation_columns import Trace, WordPaths
from taskloom.suites.taskbench.evaluation.derivations import Deriver, items
from taskloom.suites.taskbench.evaluation.evaluator import FunctionTable, solve
from taskloom.suites.taskbench.evaluation.second_solver import PlainSolver
from taskloom.suites.taskbench.language.operators import atoms_of
from taskloom.suites.taskbench.scorers import confirm
from taskloom.suites.taskbench.worlds.lower_case import LowerCase
from taskloom.suites.taskbench.worlds.words.words import Rules, Words, open_words

if TYPE_CHECKING:
    from taskloom.suites.taskbench.fields import TaskbenchFields
    from taskloom.suites.taskbench.plan import Function


class Answerer(Protocol):
    """A function on single inputs, which also gives the acceptable answers at each position of a
    sequence's result.
    """

    def __call__(self, text: str) -> Answer:
        """Answer one input."""

    def positions(self, text: str) -> list[tuple[str, ...]]:
        """Return the acceptable answers at each position."""


class World(Protocol):
    """The world in which the functions of a recipe are evaluated."""

    @property
    def sources(self) -> tuple[Source, ...]:
        """Sources of the world, by digest."""

    def solve(self, function: Function) -> FunctionTable:
        """Evaluate a function on its whole domain."""

    def deriver(self, function: Function) -> Answerer:
        """Return a function on single inputs."""

    def trace(self, function: Function) -> Trace:
        """Derivations of a function's official answers."""

    def check(self, function: Function, example: Example) -> tuple[str, ...]:
        """Derive the acceptable answers to an example again, in another way."""


class WordFunctions:
    """Lexical, random and added functions."""

    def __init__(self, words: Words, separators: bool) -> None:
        self.words = words
        self.separators = separators
        self.plain = PlainSolver(words)

    @property
    def sources(self) -> tuple[Source, ...]:
        """Sources of the lexicon."""
        return self.words.sources

    def solve(self, function: Function) -> FunctionTable:
        """Evaluate a function on its whole domain."""
        return solve(function.expression, function.type, self.words)

    def deriver(self, function: Function) -> Deriver:
        """Return a function on single inputs."""
        return Deriver(function.expression, function.type, self.words, self.separators)

    def trace(self, function: Function) -> Trace:
        """Derivations of a function's official answers."""
        return Trace(function, WordPaths(self.words))

    def check(self, function: Function, example: Example) -> tuple[str, ...]:
        """Derive the acceptable answers by plain sets. For sequences: the stored answer if it is
        right, else a right one.
        """
        given = [
            self.words.known_text(x, function.type.source)
            for x in self._items(function, example.input)
        ]
        if function.type.form == "predicate":
            return ("true" if self.plain.predicate(function.expression, given[0]) else "false",)
        if function.type.form == "relation":
            return tuple(
                v.replace("_", " ").strip()
                for v in sorted(self.plain.relation(function.expression, given[0]))
            )
        sets = [
            sorted(v.replace("_", " ").strip() for v in s)
            for s in self.plain.sequence(function.expression, given)
        ]
        return confirm(sets, example, self.separators)

    def _items(self, function: Function, text: str) -> list[str]:
        return items(text, self.separators) if function.type.form == "sequence" else [text]


class Worlds:
    """Words and facts side by side. Each function is answered by the world that has its atoms."""

    def __init__(self, words: Callable[[], World], facts: Callable[[], World]) -> None:
        """Take functions that open the worlds, so that facts are not loaded for words, nor words
        for facts.
        """
        self._open = {"words": words, "facts": facts}
        self._worlds: dict[str, World] = {}

    def _of(self, function: Function) -> World:
        name = "facts" if "factual" in families(function.expression) else "words"
        if name not in self._worlds:
            self._worlds[name] = self._open[name]()
        return self._worlds[name]

    @property
    def sources(self) -> tuple[Source, ...]:
        """Sources of the worlds that were opened."""
        return tuple(
            dict.fromkeys(source for world in self._worlds.values() for source in world.sources)
        )

    def solve(self, function: Function) -> FunctionTable:
        """Evaluate a function on its whole domain."""
        return self._of(function).solve(function)

    def deriver(self, function: Function) -> Answerer:
        """Return a function on single inputs."""
        return self._of(function).deriver(function)

    def trace(self, function: Function) -> Trace:
        """Derivations of a function's official answers."""
        return self._of(function).trace(function)

    def check(self, function: Function, example: Example) -> tuple[str, ...]:
        """Derive the acceptable answers again, in another way."""
        return self._of(function).check(function, example)


def _place(facts: str) -> str:
    """Location of the facts. `wikidata` means the resource of that name, wherever it is on this
    machine.
    """
    name, mark, settings = facts.partition("#")
    if name == "built":
        world = resource("facts").find()
        if world is None:
            raise DataError(
                "the facts are missing: facts=built is the world that `taskloom data build facts`"
                " leaves in the cache, and there is none; build it, or name the folder of one"
            )
        return f"{world}{mark}{settings}"
    if name != "wikidata":
        return facts
    folder = resource("wikidata").find()
    if folder is None:
        raise DataError(
            "the facts are missing: facts=wikidata is the file wikidata/wikidata-subset.nt.gz below"
            " TASKLOOM_DATA, and that is not there; set TASKLOOM_DATA to the folder that has it,"
            " name another file or an endpoint, or use facts=synthetic"
        )
    return f"{folder / 'wikidata-subset.nt.gz'}{mark}{settings}"


def open_world(fields: TaskbenchFields, functions: Iterable[Function]) -> World:
    """Open the world in which all these functions can be evaluated."""
    used = {atom for function in functions for atom in atoms_of(function.expression)}
    known = [atom for atom in map(atoms.known, sorted(used)) if atom is not None]
    own = tuple(atom.name for atom in known if atom.family == "own")
    rules = Rules(fields.rules.senses, fields.rules.inflections, fields.rules.outputs)
    separators = fields.sequences.separators

    def words() -> Words:
        return open_words(fields.lexicon_for(used), rules, fields.pairing, own)

    def factual() -> World:
        from taskloom.suites.taskbench.worlds.facts import open_world as open_facts
        from taskloom.suites.taskbench.worlds.facts.fact_functions import FactFunctions

        # `label` leads from entities to English words, so it needs the lexicon, too.
        lexical = any(atom.family != "factual" or atom.name == "label" for atom in known)
        world = open_facts(_place(fields.where_facts_are()))
        return FactFunctions(world, words() if lexical else None, fields.union_domain, separators)

    world = Worlds(lambda: WordFunctions(words(), separators), factual)
    return LowerCase(world, separators) if fields.case == "lower" else world
