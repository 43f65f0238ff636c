"""The factual world of TaskBench500: relations between entities, from files, from a SPARQL server,
or invented.

`open_world` opens the `FactWorld` described by a line of a recipe:

    synthetic                                                      the invented world
    synthetic#people=20000&ambiguity=0.1&seed=3                    the same with knobs
    data/facts                                                     a world that was built from a dump
    data/wikidata.nt.gz                                            a file, or a folder of files
    data/truthy#keep=disk&only=catalogue&inputs=2000               a dump too large for memory
    https://query.wikidata.org/sparql#inputs=2000&contact=me@x.org a SPARQL server

The settings after `#` are never sent to a server. Compositions only use `FactWorld.relation(name)`
and `FactWorld.predicate(name)`. The operators compose these as sets of ids, and `name_relation` and
`name_predicate` convert the result to text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taskloom.core.errors import InputError, nearest
from taskloom.core.files import path_of
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

if TYPE_CHECKING:
    from taskloom.suites.taskbench.worlds.facts.fact_functions import balanced as balanced
    from taskloom.suites.taskbench.worlds.facts.invented_facts import WorldKnobs as WorldKnobs
    from taskloom.suites.taskbench.worlds.facts.invented_facts import roomy_world as roomy_world
    from taskloom.suites.taskbench.worlds.facts.rdf import write_ntriples as write_ntriples
    from taskloom.suites.taskbench.worlds.facts.task_queries import task_query as task_query

_HOME = {
    "WorldKnobs": "invented_facts",
    "balanced": "fact_functions",
    "roomy_world": "invented_facts",
    "task_query": "task_queries",
    "write_ntriples": "rdf",
}
"""Public names that are imported on first use."""

__all__ = [
    "Counted",
    "FactComposer",
    "FactWorld",
    "NamedPredicate",
    "NamedRelation",
    "Predicate",
    "Relation",
    "TaskSize",
    "chain",
    "intersection",
    "inverse",
    "land",
    "lnot",
    "lor",
    "name_predicate",
    "name_relation",
    "open_world",
    "survey",
    "union",
    *_HOME,
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


_RDF = {"keep": str, "language": str, "only": str, "inputs": int}
_ENDPOINT = {"inputs": int, "language": str, "page": int, "batch": int}


def open_world(where: str, cache: Path | None = None) -> FactWorld:
    """Open the world described by a line of text.

    Args:
        where: `synthetic`, a path, or the address of a SPARQL server, optionally followed by
            settings after `#`.
        cache: Cache folder. Default: `TASKLOOM_CACHE`, or else `~/.cache/taskloom`.
    """
    name, _, settings = where.partition("#")
    if name == "synthetic":
        from taskloom.suites.taskbench.worlds.facts.invented_facts import (
            WorldKnobs,
            synthetic_world,
        )

        kinds = {field.name: type(field.default) for field in fields(WorldKnobs)}
        return synthetic_world(WorldKnobs(**_settings(where, settings, kinds)))
    if name.startswith(("http:", "https:")):
        from taskloom.suites.taskbench.worlds.facts.query_world import EndpointWorld
        from taskloom.suites.taskbench.worlds.facts.sparql import Manners

        manners = {field.name: type(field.default) for field in fields(Manners)}
        given = _settings(where, settings, _ENDPOINT | manners)
        polite = Manners(**{k: v for k, v in given.items() if k in manners})
        return EndpointWorld(
            name, manners=polite, cache=cache, **{k: v for k, v in given.items() if k in _ENDPOINT}
        )
    from taskloom.suites.taskbench.worlds.facts.dump import BuiltWorld, is_built

    if name and is_built(path_of(name)):
        built = BuiltWorld(Path(name))
        sample = _settings(where, settings, {"inputs": int}).get("inputs")
        return built if sample is None else built.sampled(sample)
    from taskloom.suites.taskbench.worlds.facts.rdf import RdfWorld

    if not name or (not path_of(name).exists() and "/" not in name and "." not in name):
        raise InputError(
            f"'{where[:100]}' is not a source of facts; write 'synthetic', a file or folder of "
            "N-Triples, or the address of an endpoint"
        )
    given = _settings(where, settings, _RDF)
    inputs = given.pop("inputs", None)
    world = RdfWorld(name, cache=cache, **given)
    return world if inputs is None else world.sampled(inputs)


def _settings(where: str, text: str, kinds: Mapping[str, type]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for part in text.split("&") if text else []:
        name, _, value = part.partition("=")
        if name not in kinds:
            raise InputError(f"'{where[:100]}' has no setting '{name}'; {nearest(name, kinds)}")
        if name in settings:
            raise InputError(f"'{where[:100]}' sets '{name}' twice")
        try:
            settings[name] = kinds[name](value)
        except ValueError:
            kind = {int: "a whole number", float: "a number"}.get(kinds[name], "a text")
            raise InputError(f"'{name}' in '{where[:100]}' must be {kind}, not '{value}'") from None
    return settings
