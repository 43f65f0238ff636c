"""Factual functions, and functions that combine facts with words, for the worlds in `worlds.facts`.

Facts are composed by entity and written by label. `label` maps an entity to the English word that
is its name, so `chain(synonyms[eng], label, occupation)` is a function of people.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from taskloom.core.errors import InputError
from taskloom.core.example import Example
from taskloom.core.plan import Source
from taskloom.core.seeding import Key
from taskloom.suites.taskbench import atoms
from taskloom.suites.taskbench.evaluation.derivation_columns import FactPaths, Trace
from taskloom.suites.taskbench.evaluation.derivations import Deriver
from taskloom.suites.taskbench.evaluation.evaluator import TRUTH, FunctionTable
from taskloom.suites.taskbench.language import Type, map_filter, show, type_of
from taskloom.suites.taskbench.language.operators import Atom, Expression, Inverse, atoms_of
from taskloom.suites.taskbench.scorers import confirm
from taskloom.suites.taskbench.tables import Table
from taskloom.suites.taskbench.worlds import facts
from taskloom.suites.taskbench.worlds.facts.fact_world import FactWorld
from taskloom.suites.taskbench.worlds.facts.properties import (
    CLASS_PROPERTIES,
    INSTANCE_OF,
    ROOT,
    SUBCLASS_OF,
    asked,
    is_id,
)
from taskloom.suites.taskbench.worlds.facts.query_world import QueryWorld
from taskloom.suites.taskbench.worlds.facts.relation import Predicate
from taskloom.suites.taskbench.worlds.facts.set_operators import Domain, FactComposer, relation_name

if TYPE_CHECKING:
    from taskloom.suites.taskbench.plan import Function
    from taskloom.suites.taskbench.worlds.words import Words

LIMIT = 20_000
"""Maximum number of inputs of a factual predicate, half true and half false, as in the reference's
two queries.
"""

_UNFIT = frozenset("#\n\r\t")
"""Characters that must not occur in an item of a sequence."""


class FactSpace:
    """Entities by id, and words if an expression leads to them."""

    predicate_type = Type("predicate", "entity")

    def __init__(self, world: facts.FactWorld, words: Words | None) -> None:
        self.world = world
        self.words = words
        self._relations: dict[tuple[str, bool], facts.Relation] = {}
        self._above: dict[str, frozenset[str]] = {}

    @property
    def remote(self) -> bool:
        """True if facts come from a server, which is queried in batches."""
        return isinstance(self.world, QueryWorld)

    def enter(self, text: str, kind: str) -> tuple[str, ...]:
        """Return every entity with that name, or the word."""
        if kind != "entity":
            return self._lexical().enter(text, kind)
        wanted = text.strip()
        entities = self.world.ids(wanted)
        if not entities and self.world.label(wanted) is not None:
            entities = (wanted,)
        if not entities:
            raise InputError(
                f"'{wanted}' is not an entity of this world; use a label as written in the world, "
                "or an id"
            )
        return tuple(entities)

    def _lexical(self) -> Words:
        assert self.words is not None
        return self.words

    def look(self, name: str, item: str, inverse: bool = False) -> tuple[str, ...]:
        """Return the values of a relation, or of its inverse, for one entity or word."""
        cached = self._relations.get((name, inverse))
        if cached is not None:
            return cached.of(item)
        known = atoms.known(name)
        assert known is not None
        if known.family != "factual":
            return self._lexical().look(name, item, inverse)
        if name == "label":
            return self.world.ids(item.replace("_", " ")) if inverse else self._word(item)
        atom = Atom(name)
        relation = self.world.relation(relation_name(Inverse((atom,)) if inverse else atom))
        self._relations[name, inverse] = relation
        return relation.of(item)

    def _word(self, entity: str) -> tuple[str, ...]:
        label = self.world.label(entity)
        written = "" if label is None else label.strip().replace(" ", "_")
        known = self._lexical().numbers
        for spelling in (written, written.lower()):
            if spelling in known:
                return (spelling,)
        return ()

    def holds(self, name: str, item: str) -> bool:
        """True if a predicate holds for an entity or word."""
        known = atoms.known(name)
        assert known is not None
        if known.family != "factual":
            return self._lexical().holds(name, item)
        return bool(self._truth(name, item))

    def decides(self, name: str, item: str) -> bool:
        """True if the graph states what the predicate asks about this entity."""
        known = atoms.known(name)
        assert known is not None
        return known.family != "factual" or self._truth(name, item) is not None

    def _truth(self, name: str, item: str) -> bool | None:
        what = asked(name)
        return self._matching(
            what.prop in CLASS_PROPERTIES, [what.object], self._row(what.prop, item)
        )

    def matches(self, relation: Expression, value: str, items: tuple[str, ...]) -> bool | None:
        """True if a value, given by its id or label, is among the values of a relation for these
        items. None if this is unknown.
        """
        wanted = [value, value.replace(" ", "_"), *self.world.ids(value)]
        classes = isinstance(relation, Atom) and relation.name in ("instance_of", "occupation")
        return self._matching(classes, wanted, items)

    def _matching(self, classes: bool, wanted: list[str], items: tuple[str, ...]) -> bool | None:
        """True if one of the items is a requested one or, for classes, a subclass of one. None if
        this is unknown.

        The tables of predicates are built downwards from the classes. This function searches
        upwards from each item, so that the two methods check each other.
        """
        if not items:
            return None
        if not classes:
            return any(x in items for x in wanted)
        above = [self._broader(x) for x in items]
        if any(x in broader for broader in above for x in wanted):
            return True
        # Without a path up to the root, the graph does not say what kind of thing an item is.
        if all(ROOT in broader for broader in above):
            return False
        return None

    def _broader(self, item: str) -> frozenset[str]:
        """Return a class and all its superclasses."""
        if item not in self._above:
            path = [item]
            for x in path:
                path += [y for y in self._row(SUBCLASS_OF, x) if y not in path]
            self._above[item] = frozenset(path)
        return self._above[item]

    def _row(self, prop: str, item: str) -> tuple[str, ...]:
        relation = self._relations.get((prop, False))
        if relation is None:
            relation = self._relations[prop, False] = self.world.relation(prop)
        return relation.of(item)

    def show(self, items: Iterable[str]) -> tuple[str, ...]:
        """Return distinct labels. Items without a label are omitted. Words are unchanged."""
        return tuple(sorted(set(self.say(items).values())))

    def say(self, items: Iterable[str]) -> dict[str, str]:
        """Return the labels of the items, requested in one query. Items without a label are
        omitted.
        """
        known = self.words.numbers if self.words else {}
        given = set(items)
        written = {x: x.replace("_", " ") for x in given if x in known}
        return written | self.world.labels(x for x in given if x not in known and is_id(x))

    def meanings(self, texts: Iterable[str], kind: str = "") -> dict[str, tuple[str, ...]]:
        """Return the items that each text of an example may refer to: entities with that name, and
        a word. If the kind is given, only items of that kind.
        """
        wanted = set(texts)
        if kind.startswith("word"):
            return {text: self._lexical().enter(text, kind) for text in wanted}
        named = self.world.namesakes(wanted)
        known = self.words.numbers if self.words and not kind else {}
        meanings = {}
        for text in wanted:
            word = text.replace(" ", "_")
            meanings[text] = (*named[text], word) if word in known else named[text]
        return meanings


class FactFunctions:
    """Functions of entities. An expression that also uses words is evaluated input by input."""

    def __init__(
        self, world: facts.FactWorld, words: Words | None, union_domain: Domain, separators: bool
    ) -> None:
        self.world = world
        self.words = words
        self.separators = separators
        self.space = FactSpace(world, words)
        self.paths = FactPaths(self.space)
        self.composer = FactComposer(world, union_domain)
        self._solved: dict[str, FunctionTable] = {}
        self._checked: set[str] = set()

    def written(self, separators: bool) -> FactFunctions:
        """Return the same functions on sequences with or without separators. They share all
        functions evaluated so far.
        """
        functions = copy(self)
        functions.separators = separators
        return functions

    @property
    def sources(self) -> tuple[Source, ...]:
        """Sources of the facts."""
        return self.world.sources() + (self.words.sources if self.words else ())

    def deriver(self, function: Function) -> Deriver:
        """Return a function for single inputs."""
        return Deriver(function.expression, function.type, self.space, self.separators)

    def trace(self, function: Function) -> Trace:
        """Return the derivations of the official answers."""
        tree: Expression | None = function.expression
        if function.type.form == "sequence":
            tree, _ = map_filter(function.expression)
        if tree is not None:
            self.paths.prepare(tree, self.solve(function))
        return Trace(function, self.paths)

    def check(self, function: Function, example: Example) -> tuple[str, ...]:
        """Derive the answers to an example again, input by input, from the entities with that
        name.
        """
        deriver = self.deriver(function)
        if function.name not in self._checked and function.type.source == "entity":
            # Look up all inputs together, so that a server gets a few queries instead of one per
            # name.
            self.world.namesakes(self.solve(function).inputs)
            self._checked.add(function.name)
        if function.type.form != "sequence":
            return deriver(example.input).targets
        positions = deriver.positions(example.key or example.input)
        return confirm([list(answers) for answers in positions], example, self.separators)

    def solve(self, function: Function) -> FunctionTable:
        """Evaluate a function on its whole domain."""
        if function.name not in self._solved:
            self._solved[function.name] = self._solve(function)
        return self._solved[function.name]

    def _solve(self, function: Function) -> FunctionTable:
        kind, tree = function.type, function.expression
        if kind.form == "predicate":
            truths = self._balanced(tree)
            return _solved(function, {x: (TRUTH[true],) for x, true in truths.items()})
        if kind.form == "relation":
            return _solved(function, self._answers(tree))
        element, predicate = map_filter(tree)
        truth = {} if predicate is None else self._truth(predicate)
        if element is None:
            answers: Mapping[str, tuple[str, ...]] = {x: (x,) for x in truth}
        else:
            answers = self._answers(element)
        clean = {x: tuple(y for y in ys if _fits(y)) for x, ys in answers.items() if _fits(x)}
        fit = {x: ys for x, ys in clean.items() if ys}
        if predicate is None:
            return _solved(function, fit)
        kept = {x: ys for x, ys in fit.items() if truth.get(x)}
        return _solved(function, kept, [x for x, true in truth.items() if not true and _fits(x)])

    def _answers(self, tree: Expression) -> Mapping[str, tuple[str, ...]]:
        """Map labels to labels."""
        if _mixed(tree):
            return self._one_by_one(tree)
        return facts.name_relation(self.world, self.composer.relation(tree)).answers

    def _truth(self, tree: Expression) -> Mapping[str, bool]:
        """Map labels to truth values, for entities where the truth is known."""
        return facts.name_predicate(self.world, self.composer.predicate(tree)).truth

    def _balanced(self, tree: Expression) -> dict[str, bool]:
        """Choose the same number of true and false inputs. The false inputs have the same types as
        the true ones.
        """
        predicate = self.composer.predicate(tree)
        size = min(LIMIT, 2 * len(predicate.positives))
        chosen = balanced(self.world, predicate, size, Key("taskbench", "negatives", show(tree)))
        truth = self._truth(tree)
        labels = self.world.labels(chosen)
        return {labels[x]: truth[labels[x]] for x in chosen if x in labels and labels[x] in truth}

    def _one_by_one(self, tree: Expression) -> dict[str, tuple[str, ...]]:
        """Evaluate a function of facts and words for every input of its innermost atoms."""
        kind = type_of(tree, atoms.signature)
        deriver = Deriver(tree, kind, self.space)
        if kind.source == "entity":
            factual = {name for name in atoms_of(tree) if _family(name) == "factual"}
            known: set[str] = set()
            for name in sorted(factual - {"label"}):
                known.update(self.world.relation(relation_name(Atom(name))))
            texts: Iterable[str] = sorted(set(self.world.labels(sorted(known)).values()))
            self.world.namesakes(texts)
        else:
            assert self.words is not None
            texts = [self.words.shown[i] for i in self.words.vocabulary[kind.language].tolist()]
        answers = {}
        for text in texts:
            try:
                answers[text] = deriver(text).targets
            except InputError:
                continue
        return answers


def _family(name: str) -> str:
    known = atoms.known(name)
    return known.family if known else ""


def _mixed(tree: Expression) -> bool:
    return "label" in atoms_of(tree) or {_family(name) for name in atoms_of(tree)} != {"factual"}


def _fits(text: str) -> bool:
    return bool(text) and text == text.strip() and _UNFIT.isdisjoint(text)


def _solved(
    function: Function, answers: Mapping[str, tuple[str, ...]], dropped: Iterable[str] = ()
) -> FunctionTable:
    """Build the table of a function that is given by texts."""
    inputs = sorted(answers)
    outside = sorted(dropped)
    outputs = sorted({y for ys in answers.values() for y in ys})
    number = {y: i for i, y in enumerate(outputs)}
    counts = np.array([len(answers[x]) for x in inputs], dtype=np.int64)
    values = np.array([number[y] for x in inputs for y in answers[x]], dtype=np.int32)
    starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    filtered = False
    if function.type.form == "sequence":
        filtered = map_filter(function.expression)[1] is not None
    return FunctionTable(
        function.name,
        function.type,
        [*inputs, *outside],
        outputs,
        np.arange(len(inputs), dtype=np.int32),
        Table(starts, values),
        np.arange(len(inputs), len(inputs) + len(outside), dtype=np.int32),
        filtered,
    )


def balanced(world: FactWorld, predicate: Predicate, n: int, key: Key) -> dict[str, bool]:
    """Draw n entities with their truth values, half of them true (one more false if n is odd), in a
    keyed order. The result is smaller if the world has too few true or false entities.

    The false entities have the same types as the true ones. Otherwise a model would learn to
    distinguish people from rivers instead of actors from other people. The published reference uses
    any entity that has another value, and its predicate tasks are solved by the majority answer.

    Args:
        world: World that provides the types.
        predicate: The predicate.
        n: Number of entities, true and false together.
        key: Key of the draw.
    """
    true = _shuffled(predicate.positives, key.child("true"))[: n // 2]
    false = same_type_negatives(world, predicate, true, len(true) + n % 2, key.child("false"))
    chosen = true[: len(false)] + false
    return {x: predicate[x] for x in _shuffled(chosen, key.child("order"))}


def same_type_negatives(
    world: FactWorld, predicate: Predicate, true: Iterable[str], n: int, key: Key
) -> list[str]:
    """Draw up to n entities for which the predicate is false, with the types of the true entities
    in the same proportions.

    If a type has too few false entities, the rest come from the other types of true entities, then
    from any type. "Is an instance of" asks for the type itself, so similar entities come first:
    instances of a class that shares a parent with the requested one.
    """
    true = list(true)
    false = _shuffled(predicate.negatives, key)
    if predicate.classes:
        types = _nearness(world, predicate, true, false)
    else:
        types = _types(world, [*true, *false])
    wanted = Counter(types[x] for x in true)
    by_type: dict[str, list[str]] = {}
    for x in false:
        by_type.setdefault(types[x], []).append(x)
    chosen: dict[str, None] = {}
    for kind, count in sorted(wanted.items()):
        chosen.update(dict.fromkeys(by_type.get(kind, [])[: n * count // wanted.total()]))
    # Fill up with the types of true entities, then with any type.
    chosen.update(dict.fromkeys(x for x in false if types[x] in wanted))
    chosen.update(dict.fromkeys(false))
    return _shuffled(list(chosen)[:n], key.child("chosen"))


def _types(world: FactWorld, ids: list[str]) -> dict[str, str]:
    """Return the type of each entity: the one of its classes that is most common among these
    entities, so that there are few types. Empty if it has no class.
    """
    classes = world.relation(INSTANCE_OF).at(ids)
    common = Counter(c for x in ids for c in classes.get(x, ()))
    return {x: max(classes.get(x, ("",)), key=lambda c: (common[c], c)) for x in ids}


def _nearness(
    world: FactWorld, predicate: Predicate, true: list[str], false: list[str]
) -> dict[str, str]:
    parents = world.relation(SUBCLASS_OF).at(predicate.classes).outputs()
    near = parents | world.relation(f"{SUBCLASS_OF}.inv").at(parents).outputs()
    classes = world.relation(INSTANCE_OF).at(false)
    types = {x: "near" if near.intersection(classes.get(x, ())) else "far" for x in false}
    return types | dict.fromkeys(true, "near")


def _shuffled(ids: Iterable[str], key: Key) -> list[str]:
    return sorted(ids, key=lambda x: (key.hash64(x), x))
