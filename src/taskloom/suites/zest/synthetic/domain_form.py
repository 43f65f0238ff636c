"""Whether the parts of a domain have the form that the generator and the reader count on: types, place-holders, enough values.

A domain is written by a person, in Python that lets a missing comma or a misspelt place-holder pass until a passage needs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import MISSING, fields
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from taskloom.suites.zest.synthetic.domain import (
    Domain,
    Feature,
    Flag,
    Measure,
    Members,
    Number,
    Quality,
    Records,
    Rule,
    Text,
)

Part = Domain | Number | Text | Members | Flag | Records | Measure | Quality | Feature | Rule

CLAUSES: dict[type, dict[str, tuple[str, ...]]] = {
    Domain: {"opens": ("{E}",)},
    Number: {"says": ("{E}", "{V}")},
    Text: {"says": ("{E}", "{V}")},
    Members: {"says": ("{E}", "{V}"), "denies": ("{E}", "{V}")},
    Flag: {"yes": ("{E}",), "no": ("{E}",)},
    Records: {"says": ("{E}", "{N}")},
    Measure: {"says": ("{N}", "{V}")},
    Quality: {"says": ("{N}", "{V}")},
    Feature: {"yes": ("{N}",), "no": ("{N}",)},
    Rule: {"yes": ("{V}",), "no": ("{V}",), "says": ("{V}", "{W}")},
}
"""The clauses of passages, and what each must name, once."""

QUESTIONS: dict[type, dict[str, tuple[str, ...]]] = {
    Number: {"asks": ("{this}",), "more": ("{this}", "{V}"), "less": ("{this}", "{V}")},
    Text: {"asks": ("{this}",), "confirm": ("{this}", "{V}")},
    Members: {"asks": ("{this}",), "has": ("{this}", "{V}")},
    Flag: {"asks": ("{this}",)},
    Records: {"asks": ("{this}",), "where": ("{this}",)},
    Measure: {"how": ("{X}",)},
    Quality: {"being": ("{V}",)},
}
"""The questions, and what each must name."""

LEAST_VALUES: dict[type, int] = {Text: 2, Quality: 2, Members: 5, Number: 2, Measure: 3}
"""Values that a passage may need: another one for a "no"; of members three, the one asked for and one denied; for three records
three that differ."""

MAY_BE_EMPTY = frozenset({"attributes", "records", "unit"})
"""Beside what has a default."""


def malformed(domain: Domain) -> list[str]:
    """What is wrong with the form of a domain, each as one sentence; nothing else is looked at while a type is wrong."""
    every = list(_parts(domain))
    found = [fault for part in every for fault in _of_types(part)]
    return found or [
        fault for part in every for check in (_of_texts, _of_values, _of_names) for fault in check(part)
    ] + [fault for rule in domain.rules for fault in _of_rule(domain, rule)]


def _parts(domain: Domain) -> Iterator[Any]:
    """The domain and all that it is made of, as far as it can be walked."""
    yield domain
    for name in ("attributes", "records", "rules"):
        for part in value if isinstance(value := getattr(domain, name), tuple) else ():
            yield part
            inner = getattr(part, "fields", ())
            yield from inner if isinstance(inner, tuple) else ()


def _called(part: Part) -> str:
    """A part by its type and name: Number 'height'."""
    name = f"{part.when} to {part.then}" if isinstance(part, Rule) else part.name
    return f"{type(part).__name__} '{name}'"


def _of_types(part: Part) -> Iterator[str]:
    if type(part) not in CLAUSES:
        return  # what it is an element of says so
    hints = get_type_hints(type(part))
    for field in fields(part):
        value, hint = getattr(part, field.name), hints[field.name]
        wrong = _unlike(value, hint)
        if wrong:
            yield f"{_called(part)}: {field.name} {wrong}"
        elif field.default is MISSING and value in ("", ()) and field.name not in MAY_BE_EMPTY:
            yield f"{_called(part)}: {field.name} is empty"


def _unlike(value: Any, hint: Any) -> str:
    """In which way a value is not of a type; empty when it is."""
    if get_origin(hint) is tuple:
        kinds = get_args(hint)[0]
        allowed = get_args(kinds) if isinstance(kinds, UnionType) else (kinds,)
        if not isinstance(value, tuple):
            comma = "; one text alone needs a comma after it: ('...',)" if isinstance(value, str) else ""
            return f"must be a tuple, not {value!r:.60}{comma}"
        for item in value:
            if type(item) not in allowed or item == "":
                return f"must hold {' or '.join(kind.__name__ for kind in allowed)}, not {item!r:.60}"
        return ""
    return "" if type(value) is hint else f"must be {hint.__name__}, not {value!r:.60}"


def _of_texts(part: Part) -> Iterator[str]:
    for table, is_clause in ((CLAUSES, True), (QUESTIONS, False)):
        for name, needed in table.get(type(part), {}).items():
            value = getattr(part, name)
            for text in (value,) if isinstance(value, str) else value:
                what = f"{_called(part)}: the {'clause' if is_clause else 'question'} {text!r}"
                if re.search(r"[{}]", re.sub("|".join(map(re.escape, needed)), "", text)):
                    yield f"{what} has a brace that is not part of {' or '.join(needed)}"
                for holder in needed:
                    if holder not in text or (is_clause and text.count(holder) > 1):
                        yield f"{what} does not say {holder}" + (" once" if holder in text else "")
                if is_clause and re.search(r"\.( |$)", text):
                    yield f"{what} has a full stop; sentences are made of clauses"


def _of_values(part: Part) -> Iterator[str]:
    least = LEAST_VALUES.get(type(part), 0)
    if isinstance(part, Number | Measure):
        many = len(range(part.low, part.high + 1, part.step)) if part.step > 0 else 0
        if many < least:
            yield (
                f"{_called(part)} has no {('two', 'three')[least - 2]} values from {part.low} to {part.high} "
                f"in steps of {part.step}"
            )
        elif (part.high - part.low) % part.step:
            yield f"{_called(part)}: steps of {part.step} from {part.low} do not come to {part.high}; end at one that they reach"
        if part.low < 0:
            yield f"{_called(part)} begins below 0: passages know no negative numbers"
    elif isinstance(part, Text | Members | Quality) and len(set(part.values)) < max(least, len(part.values)):
        yield f"{_called(part)} must have {least} values or more, and none twice: passages need that many"
    texts = (getattr(part, name, ()) for name in ("values", "heads", "tails"))
    for text in (text for group in texts for text in group):
        if re.search(r"\. |[|{}]", text) or text != text.strip() or text.lower() in ("yes", "no", "n/a"):
            yield f"{_called(part)}: {text!r} cannot be a value or name: a reader could not tell where it ends, or what it says"


def _of_names(part: Part) -> Iterator[str]:
    name = getattr(part, "name", None)
    if name is not None and not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        yield f"{_called(part)}: a name is one word of small letters, digits and _: programs are written with it"
    if isinstance(part, Records):
        for what, found in (
            ("fields are called", [f.name for f in part.fields]),
            ("columns are called", [part.column, *(f.column for f in part.fields)]),
        ):
            for twice in sorted({n for n in found if found.count(n) > 1}):
                yield f"{_called(part)}: two {what} '{twice}'"


def _of_rule(domain: Domain, rule: Rule) -> Iterator[str]:
    when, then = domain.by_name.get(rule.when), domain.by_name.get(rule.then)
    for name, found in ((rule.when, when), (rule.then, then)):
        if found is None:
            yield f"a rule is about '{name}', which is no attribute"
    if when is None or then is None:
        return
    if not isinstance(when, Text) or isinstance(then, Members) or when is then:
        yield f"{_called(rule)}: a rule leads from a Text to another attribute, which is not Members"
    needed = ("yes", "no") if isinstance(then, Flag) else ("says",)
    for name in needed:
        if not getattr(rule, name):
            yield f"{_called(rule)}: {name} is empty, and '{rule.then}' needs it"
