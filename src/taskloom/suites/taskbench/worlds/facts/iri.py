"""Ids and IRIs, and the only ways by which a name gets into a query.

An id is what stands after Wikidata's entity prefix (`Q84`), or else the whole IRI. Nothing is
pasted into a query that has not passed `iri_term`, `property_term` or `text_term`, so no name,
however hostile, can end a term and begin something else.
"""

from __future__ import annotations

import re

from taskloom.core.errors import InputError

ENTITY = "http://www.wikidata.org/entity/"
PROPERTY = "http://www.wikidata.org/prop/direct/"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"

ALL_LANGUAGES = "mul"
"""Wikidata's tag for labels in all languages, used if an entity has none in the requested language.
"""

NAMELESS = "/.well-known/genid/"
"""Part of the IRIs that RDF 1.1 gives to blank nodes. In Wikidata these are values that exist but
are unknown.
"""

_SHORT = re.compile(r"[A-Z][1-9][0-9]*")
_PROPERTY_ID = re.compile(r"P[1-9][0-9]*")
_SAFE_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\\x7f-\x9f\ud800-\udfff]+")
"""IRIs that SPARQL's grammar allows between angle brackets, without control characters and with a
scheme.
"""
_LANGUAGE = re.compile(r"[a-z]{2,8}(-[a-z0-9]{1,8})*")
_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def to_id(iri: str) -> str:
    """Id of an IRI."""
    short = iri.removeprefix(ENTITY)
    return short if short != iri and _SHORT.fullmatch(short) else iri


def is_entity(iri: str) -> bool:
    """True if an IRI names an entity, rather than a value that is only known to exist."""
    return NAMELESS not in iri


def is_id(text: str) -> bool:
    """True if a text can be the id of an entity."""
    return bool(_SHORT.fullmatch(text) or _SAFE_IRI.fullmatch(text))


def to_iri(id: str) -> str:
    """IRI of an id."""
    iri = ENTITY + id if _SHORT.fullmatch(id) else id
    if not _SAFE_IRI.fullmatch(iri):
        raise InputError(
            f"{id[:80]!r} is not an entity: an id looks like 'Q84', an IRI like '{ENTITY}Q84'"
        )
    return iri


def iri_term(id: str) -> str:
    """Write an entity as a term of a query."""
    return f"<{to_iri(id)}>"


def property_term(property: str) -> str:
    """Write a property as a term of a query."""
    if not _PROPERTY_ID.fullmatch(property):
        raise InputError(f"{property[:80]!r} is not a property: an id looks like 'P22'")
    return f"<{PROPERTY}{property}>"


def text_term(text: str) -> str:
    """Write a text as a quoted term of a query, with everything escaped that could end it, and
    every control character.
    """
    out = []
    for c in text:
        if c in _ESCAPED:
            out.append(_ESCAPED[c])
        elif 0xD800 <= ord(c) <= 0xDFFF or c == "\0":
            raise InputError(
                f"{text[:80]!r} has a character that no text can hold (half of a pair, or zero)"
            )
        elif ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 or c in "\u2028\u2029\ufffe\uffff":
            out.append(f"\\u{ord(c):04X}")
        else:
            out.append(c)
    return '"' + "".join(out) + '"'


def check_language(language: str) -> str:
    """Check that a language tag is fit to stand in a query, and return it."""
    if not _LANGUAGE.fullmatch(language):
        raise InputError(f"{language[:40]!r} is not a language tag: write 'en', 'es', 'pt-br'")
    return language
