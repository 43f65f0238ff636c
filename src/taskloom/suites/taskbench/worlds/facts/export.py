"""Writing a world as N-Triples, for stores and tools that know nothing of us."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

from taskloom.suites.taskbench.worlds.facts.fact_world import FactWorld
from taskloom.suites.taskbench.worlds.facts.iri import LABEL, iri_term, property_term, text_term
from taskloom.suites.taskbench.worlds.facts.properties import INSTANCE_OF, PROPERTIES
from taskloom.suites.taskbench.worlds.facts.triple_store import write_whole


def write_ntriples(world: FactWorld, path: Path, language: str = "en") -> int:
    """Write the catalogue's relations, the classes and the labels of a world; returns the number of triples.

    The file is gzip where its name ends in `.gz`. The same world gives the same bytes.
    """
    out = io.StringIO()
    triples = 0
    mentioned: set[str] = set()
    for prop in sorted({*PROPERTIES.values(), INSTANCE_OF}):
        relation = world.relation(prop)
        mentioned |= relation.keys() | relation.outputs()
        for x, y in relation.pairs():
            out.write(f"{iri_term(x)} {property_term(prop)} {iri_term(y)} .\n")
            triples += 1
    for x, label in sorted(world.labels(mentioned).items()):
        out.write(f"{iri_term(x)} <{LABEL}> {text_term(label)}@{language} .\n")
        triples += 1
    text = out.getvalue().encode()
    write_whole(path, gzip.compress(text, 6, mtime=0) if path.name.endswith(".gz") else text)
    return triples
