"""All worlds of a recipe behind one interface, optionally with all words in lower case, as in the
released data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from taskloom.core.arrow import strings
from taskloom.core.errors import DataError
from taskloom.core.example import Answer, Example
from taskloom.core.plan import Source, shared
from taskloom.core.resources import resource
from taskloom.suites.taskbench import atoms
from taskloom.suites.taskbench.catalog import families
from taskloom.suites.taskbench.evaluation.derivation_columns import Paths, Trace, WordPaths
from taskloom.suites.taskbench.evaluation.derivations import Deriver, items, join
from taskloom.suites.taskbench.evaluation.evaluator import FunctionTable, solve
from taskloom.suites.taskbench.evaluation.second_solver import PlainSolver
from taskloom.suites.taskbench.language.operators import Expression, atoms_of
from taskloom.suites.taskbench.scorers import confirm, cut
from taskloom.suites.taskbench.tables import Table
from taskloom.suites.taskbench.worlds.words import Rules, Words, open_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from taskloom.suites.taskbench.fields import TaskbenchFields
    from taskloom.suites.taskbench.plan import Function

    I32 = NDArray[np.int32]


class Answerer(Protocol):
    """A function for single inputs, which also returns the acceptable answers at each position of a
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
        """Return a function for single inputs."""

    def trace(self, function: Function) -> Trace:
        """Return the derivations of a function's official answers."""

    def check(self, function: Function, example: Example) -> tuple[str, ...]:
        """Derive the acceptable answers to an example again, by another method."""


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
        """Return a function for single inputs."""
        return Deriver(function.expression, function.type, self.words, self.separators)

    def trace(self, function: Function) -> Trace:
        """Return the derivations of a function's official answers."""
        return Trace(function, WordPaths(self.words))

    def check(self, function: Function, example: Example) -> tuple[str, ...]:
        """Derive the acceptable answers using plain sets. For sequences, return the stored answer
        if it is right, otherwise another right one.
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
    """Words and facts together. Each function is answered by the world that has its atoms."""

    def __init__(self, words: Callable[[], World], facts: Callable[[], World]) -> None:
        """Store functions that open the worlds, so that facts are only loaded if needed, and
        likewise words.
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
        """Return a function for single inputs."""
        return self._of(function).deriver(function)

    def trace(self, function: Function) -> Trace:
        """Return the derivations of a function's official answers."""
        return self._of(function).trace(function)

    def check(self, function: Function, example: Example) -> tuple[str, ...]:
        """Derive the acceptable answers again, by another method."""
        return self._of(function).check(function, example)


def _place(facts: str) -> str:
    """Return the location of the facts. `wikidata` stands for the resource of that name on this
    machine.
    """
    name, mark, settings = facts.partition("#")
    if name == "built":
        world = resource("facts").find()
        if world is None:
            raise DataError(
                "the facts are missing: facts=built uses the world that `taskloom data build "
                "facts` stores in the cache, but there is none; build it, or name the folder of "
                "one"
            )
        return f"{world}{mark}{settings}"
    if name != "wikidata":
        return facts
    folder = resource("wikidata").find()
    if folder is None:
        raise DataError(
            "the facts are missing: facts=wikidata uses the file wikidata/wikidata-subset.nt.gz "
            "in TASKLOOM_DATA, which does not exist; set TASKLOOM_DATA to the folder that "
            "contains it, name another file or an endpoint, or use facts=synthetic"
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

        # `label` leads from entities to English words, so it needs the lexicon too.
        lexical = any(atom.family != "factual" or atom.name == "label" for atom in known)
        place = _place(fields.where_facts_are())
        lexicon = (fields.lexicon_for(used), rules, fields.pairing, own) if lexical else None

        def opened() -> FactFunctions:
            known_words = words() if lexical else None
            return FactFunctions(open_facts(place), known_words, fields.union_domain, separators)

        functions = shared(("facts", place, fields.union_domain, lexicon), opened)
        return functions.written(separators)

    world = Worlds(lambda: WordFunctions(words(), separators), factual)
    return LowerCase(world, separators) if fields.case == "lower" else world


Spellings = Mapping[str, str]
"""Maps texts in lower case to a spelling in the underlying world."""


def lower(texts: Iterable[str]) -> tuple[str, ...]:
    """Lower-case texts. Texts that become equal are listed once."""
    return tuple(dict.fromkeys(text.lower() for text in texts))


@dataclass(frozen=True, eq=False)
class LowerTexts:
    """A list of texts with its lower-case version.

    Attributes:
        original: The texts as written in the world. The list is kept alive, because its identity is
            used as a key.
        lower: The same texts in lower case, in the same order.
        classes: An index for each text, equal for texts that are equal in lower case.
    """

    original: Sequence[str]
    lower: list[str]
    classes: I32


def lower_texts(texts: Sequence[str]) -> LowerTexts:
    """Lower-case a list of texts, keeping their order."""
    written = [text.lower() for text in texts]
    numbers: dict[str, int] = {}
    classes = np.array([numbers.setdefault(text, len(numbers)) for text in written], dtype=np.int32)
    return LowerTexts(texts, written, classes)


def merge_answers(table: Table, classes: I32) -> Table:
    """If several answers to an input are equal in lower case, keep the first."""
    width = np.int64(len(classes))
    codes = table.owners() * width + classes[table.values]
    first = np.unique(codes, return_index=True)[1]
    kept = np.zeros(len(codes), dtype=np.bool_)
    kept[first] = True
    return table.keep(kept)


class LowerCase:
    """A lower-case version of a world that keeps its capitals."""

    def __init__(self, world: World, separators: bool) -> None:
        self.world = world
        self.separators = separators
        # Keys are identities of lists, because all lexical functions share one list of 150,000
        # words.
        self._texts: dict[int, LowerTexts] = {}
        self._solved: dict[str, FunctionTable] = {}
        self._spellings: dict[str, Spellings] = {}

    @property
    def sources(self) -> tuple[Source, ...]:
        """Sources of the underlying world."""
        return self.world.sources

    def _lower(self, texts: Sequence[str]) -> LowerTexts:
        if id(texts) not in self._texts:
            self._texts[id(texts)] = lower_texts(texts)
        return self._texts[id(texts)]

    def solve(self, function: Function) -> FunctionTable:
        """Evaluate a function on its whole domain and lower-case the result."""
        if function.name not in self._solved:
            self._solved[function.name] = self._lowered(self.world.solve(function))
        return self._solved[function.name]

    def _lowered(self, solved: FunctionTable) -> FunctionTable:
        inputs, outputs = self._lower(solved.inputs), self._lower(solved.outputs)
        used = Counter(inputs.classes[np.concatenate((solved.domain, solved.dropped))].tolist())
        clear = np.array(
            [used[text] == 1 for text in inputs.classes[solved.domain].tolist()], dtype=np.bool_
        )
        dropped = [
            number for number in solved.dropped.tolist() if used[inputs.classes[number]] == 1
        ]

        def answers() -> Table:
            return merge_answers(solved.answers.take(np.flatnonzero(clear)), outputs.classes)

        return replace(
            solved,
            inputs=inputs.lower,
            outputs=outputs.lower,
            domain=solved.domain[clear],
            table=answers,
            dropped=np.array(dropped, dtype=np.int32),
        )

    def spellings(self, function: Function) -> Spellings:
        """Map each input of a function to the world's spelling of it."""
        if function.name not in self._spellings:
            original, written = self.world.solve(function).inputs, self.solve(function)
            places = np.concatenate((written.domain, written.dropped)).tolist()
            self._spellings[function.name] = {
                written.inputs[place]: original[place] for place in places
            }
        return self._spellings[function.name]

    def deriver(self, function: Function) -> LowerAnswerer:
        """Return a function for single inputs."""
        return LowerAnswerer(self, function, self.world.deriver(function))

    def trace(self, function: Function) -> Trace:
        """Return the derivations of a function's official answers, in lower case."""
        return Trace(function, LowerPaths(self.world.trace(function).paths, self, function))

    def check(self, function: Function, example: Example) -> tuple[str, ...]:
        """Derive the acceptable answers again with the world's spelling, and lower-case them."""
        if function.type.form != "sequence":
            asked = self.spellings(function).get(example.input, example.input)
            return lower(self.world.check(function, replace(example, input=asked)))
        spelled = self._spelled(function, example)
        found = self.world.check(function, spelled)
        return (example.target,) if found == (spelled.target,) else lower(found)

    def _spelled(self, function: Function, example: Example) -> Example:
        """Return an example of sequences with the world's spelling."""
        spellings = self.spellings(function)
        words = items(example.key, True) if example.key else items(example.input, self.separators)
        given = [spellings.get(word, word) for word in words]
        sets = self.world.deriver(function).positions(join(given, True))
        written = [{answer.lower(): answer for answer in answers} for answers in sets]
        if self.separators:
            parts = items(example.target, True)
        else:
            parts = cut(example.target, [tuple(answers) for answers in written])
        target = example.target
        if len(parts) == len(written) and all(
            a in answers for a, answers in zip(parts, written, strict=True)
        ):
            target = join(
                (answers[a] for a, answers in zip(parts, written, strict=True)), self.separators
            )
        return replace(
            example, input=join(given, self.separators), key=join(given, True), targets=(target,)
        )


class LowerAnswerer:
    """Answers single inputs in lower case and ignores capitals in the input."""

    def __init__(self, world: LowerCase, function: Function, answerer: Answerer) -> None:
        self.world = world
        self.function = function
        self.answerer = answerer

    def __call__(self, text: str) -> Answer:
        """Answer one input."""
        answer = self.answerer(self._spelled(text))
        steps = tuple(replace(step, value=step.value.lower()) for step in answer.derivation)
        return replace(answer, targets=lower(answer.targets), derivation=steps)

    def positions(self, text: str) -> list[tuple[str, ...]]:
        """Return the acceptable answers at each position."""
        return [lower(answers) for answers in self.answerer.positions(self._spelled(text))]

    def _spelled(self, text: str) -> str:
        if self.function.type.source != "entity":
            return text  # the lexicon itself finds words in lower case
        spellings = self.world.spellings(self.function)
        if self.function.type.form != "sequence":
            return spellings.get(text.strip().lower(), text)
        return join((spellings.get(item.lower(), item) for item in items(text)), True)


class LowerPaths:
    """Finds values between inputs and answers with the world's spelling, and writes them in lower
    case.
    """

    def __init__(self, paths: Paths, world: LowerCase, function: Function) -> None:
        self.paths = paths
        self.world = world
        self.function = function
        self._spelled: dict[tuple[int, int], FunctionTable] = {}

    def columns(
        self, tree: Expression, solved: FunctionTable, inputs: I32, answers: I32
    ) -> list[pa.Array]:
        """Return the texts of the values for each step of the outline."""
        # Words are identified by their indices, which do not change in lower case. Entities are
        # looked up by name.
        table = solved if isinstance(self.paths, WordPaths) else self._original(solved)
        return [
            _lower_column(column) for column in self.paths.columns(tree, table, inputs, answers)
        ]

    def _original(self, solved: FunctionTable) -> FunctionTable:
        """Return a table, possibly of a mixture of two functions, with the world's spelling of its
        texts.
        """
        place = (id(solved.inputs), id(solved.outputs))
        if place not in self._spelled:
            asked = self.world.spellings(self.function)
            # Iterate in reverse, so that the first of several spellings is kept.
            answered = {
                text.lower(): text
                for text in reversed(self.world.world.solve(self.function).outputs)
            }
            inputs = [asked.get(text, text) for text in solved.inputs]
            outputs = [answered.get(text, text) for text in solved.outputs]
            self._spelled[place] = replace(solved, inputs=inputs, outputs=outputs)
        return self._spelled[place]


def _lower_column(column: pa.Array) -> pa.Array:
    """Lower-case a column of texts as Python does, which differs from Arrow for a few letters such
    as İ.
    """
    encoded = column.dictionary_encode()
    return strings([text.lower() for text in encoded.dictionary.to_pylist()]).take(encoded.indices)
