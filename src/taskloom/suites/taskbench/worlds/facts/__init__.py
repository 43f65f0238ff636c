"""The factual world of TaskBench500: relations between entities, from files, from a SPARQL server,
or invented.

`open_world` takes a line of text (a path, an address, or `synthetic`) and gives a `World`.
`World.relation(name)` and `World.predicate(name)` are all that a composition needs, the operators
compose them as sets of ids, and `name_relation` and `name_predicate` turn the result into text.
"""

from taskloom.suites.taskbench.worlds.facts.fact_world import FactWorld
from taskloom.suites.taskbench.worlds.facts.labels import (
    Counted,
    NamedPredicate,
    NamedRelation,
    TaskSize,
    name_predicate,
    name_relation,
    survey,
)
from taskloom.suites.taskbench.worlds.facts.negatives import balanced, same_type_negatives
from taskloom.suites.taskbench.worlds.facts.open import open_world
from taskloom.suites.taskbench.worlds.facts.relation import Predicate, Relation
from taskloom.suites.taskbench.worlds.facts.set_operators import (
    FactComposer,
    chain,
    intersection,
    inverse,
    land,
    lnot,
    lor,
    union,
)

__all__ = [
    "Counted",
    "FactComposer",
    "FactWorld",
    "NamedPredicate",
    "NamedRelation",
    "Predicate",
    "Relation",
    "TaskSize",
    "balanced",
    "chain",
    "intersection",
    "inverse",
    "land",
    "lnot",
    "lor",
    "name_predicate",
    "name_relation",
    "open_world",
    "same_type_negatives",
    "survey",
    "union",
]
