"""A second evaluator that shares nothing with the package: a regular expression, dictionaries of
sets, and loops.

It exists to be obviously right; the tests compare every factual task of the catalogue with it.
"""

from __future__ import annotations

import gzip
import re
from collections import defaultdict
from pathlib import Path

LINE = re.compile(
    r'<([^>]*)>\s+<([^>]*)>\s+(?:<([^>]*)>|"((?:[^"\\]|\\.)*)"(?:@([A-Za-z0-9-]+)|\^\^<[^>]*>)?)\s*\.\s*'
)
ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
SIMPLE = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}

Facts = dict[str, dict[str, set[str]]]


def unescape(text: str) -> str:
    return ESCAPE.sub(
        lambda m: chr(int(m[1] or m[2], 16)) if m[1] or m[2] else SIMPLE.get(m[3], m[3]), text
    )


def read(files: list[Path]) -> tuple[Facts, dict[str, str]]:
    """Property -> subject -> objects, and entity -> English label."""
    facts: Facts = defaultdict(lambda: defaultdict(set))
    labels: dict[str, str] = {}
    for path in files:
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding="utf-8", newline="\n") as lines:
            for line in lines:
                match = LINE.fullmatch(line)
                if match is None:
                    assert not line.strip() or line.startswith("#"), line
                    continue
                s, p, o, text, language = match.groups()
                s = s.removeprefix("http://www.wikidata.org/entity/")
                if p.endswith("#label") and language == "en" and text.strip():
                    labels[s] = min(labels.get(s, unescape(text)), unescape(text))
                elif o is not None:
                    facts[p.rsplit("/", 1)[1]][s].add(
                        o.removeprefix("http://www.wikidata.org/entity/")
                    )
    return facts, labels


def relation(facts: Facts, atom: dict[str, str | bool]) -> dict[str, set[str]]:
    rows = facts[str(atom["property"])]
    if not atom["inverse"]:
        return rows
    turned: dict[str, set[str]] = defaultdict(set)
    for x, ys in rows.items():
        for y in ys:
            turned[y].add(x)
    return turned


def _holds(facts: Facts, values: set[str], wanted: str, property: str) -> bool | None:
    """Whether a value is wanted, or of occupations and classes a kind of it; None where the graph
    does not say.
    """
    if property not in ("P31", "P106"):
        return wanted in values
    reached = [_above(facts, value) for value in values]
    if any(wanted in above for above in reached):
        return True
    return False if all("Q35120" in above for above in reached) else None


def _above(facts: Facts, value: str) -> set[str]:
    seen = facts["all above"][
        value
    ]  # An empty place beside the properties, filled as it is asked for.
    new = set() if seen else {value}
    while new:
        seen |= new
        new = {z for y in new for z in facts["P279"].get(y, ())} - seen
    return seen


def evaluate(
    facts: Facts, atoms: dict[str, dict[str, str | bool]], composition: str, operands: list[str]
) -> object:
    """Input -> set of outputs, or input -> truth, by the definitions of the paper."""
    if composition == "atomic" and atoms[operands[0]]["kind"] == "relation":
        return {x: set(ys) for x, ys in relation(facts, atoms[operands[0]]).items()}
    if composition in ("atomic", "lnot", "land", "lor"):
        tables = [facts[str(atoms[name]["property"])] for name in operands]
        wanted = [str(atoms[name]["object"]) for name in operands]
        truth = {}
        for x in tables[0]:
            if all(x in table for table in tables):
                holds = [
                    _holds(facts, table[x], o, str(atoms[name]["property"]))
                    for name, table, o in zip(operands, tables, wanted, strict=True)
                ]
                if None in holds:
                    continue
                truth[x] = {
                    "atomic": holds[0],
                    "lnot": not holds[0],
                    "land": holds[0] and holds[-1],
                    "lor": holds[0] or holds[-1],
                }[composition]
        return truth
    a, b = (relation(facts, atoms[name]) for name in operands)
    out: dict[str, set[str]] = {}
    for x in set(a) | set(b):
        if composition == "chain":
            ys = {z for y in b.get(x, ()) for z in a.get(y, ())}
        elif composition == "union":
            ys = set(a.get(x, ())) | set(b.get(x, ()))
        elif composition == "common union":
            ys = set(a[x]) | set(b[x]) if x in a and x in b else set()
        else:
            assert composition == "intersection"
            ys = set(a.get(x, ())) & set(b.get(x, ()))
        if ys:
            out[x] = ys
    return out
