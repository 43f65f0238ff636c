"""Mutations that keep the form of an input, so that most get past the parser: exchanged names, parts
put around parts, moved sentences.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.fuzz import targets_texts as texts
from tests.fuzz.strategies import places

Mutator = Callable[[str, random.Random], str]

PAIRS = ("union", "intersection", "chain", "difference")
"""Operators of two relations."""

CONNECTIVES = ("land", "lor")
"""Operators of two predicates."""

MOST_LINES = 40
"""Maximum number of lines of a story: a longer one reaches no other branch."""


def _exchange(text: str, words: tuple[str, ...], chance: random.Random, into: str) -> str:
    """Put something in the place of one of the words; the text as it is if it has none of them."""
    found = [m for word in words for m in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text)]
    if not found:
        return text
    place = chance.choice(found)
    return text[: place.start()] + into + text[place.end() :]


def expression(text: str, chance: random.Random) -> str:
    """Exchange an atom or operator for one of its kind, or put an operator around an atom."""
    relations = (*texts.RELATIONS, "father", "mother")
    predicates = tuple(texts.PREDICATES)
    atom, other = chance.choice(relations), chance.choice(relations)
    test, further = chance.choice(predicates), chance.choice(predicates)
    pair, connective = chance.choice(PAIRS), chance.choice(CONNECTIVES)
    changes = [
        (relations, atom),
        (relations, f"{pair}({atom}, {other})"),
        (relations, f"inverse({atom})"),
        (predicates, test),
        (predicates, f"{connective}({test}, {further})"),
        (predicates, f"lnot({test})"),
        (PAIRS, pair),
        (CONNECTIVES, connective),
    ]
    words, into = chance.choice(changes)
    return _exchange(text, words, chance, into)


def story(text: str, chance: random.Random) -> str:
    """Exchange a name, or add, repeat, move or drop a sentence; lines are numbered again."""
    # Answers and supports of other sentences would be wrong.
    lines = [re.sub(r"^\d+ ", "", line).split("\t")[0] for line in text.splitlines()]
    lines = [line for line in lines if line][:MOST_LINES] or ["Mary went to the park."]
    place = chance.randrange(len(lines))
    kind = chance.randrange(5)
    if kind == 0:
        names = chance.choice((texts.WHO, texts.WHERE, texts.WHAT))
        lines[place] = _exchange(lines[place], tuple(names), chance, chance.choice(names))
    elif kind == 1:
        form = chance.choice(texts.SENTENCES + texts.QUESTIONS)
        (a, b), (p, q) = chance.sample(texts.WHO, 2), chance.sample(texts.WHERE, 2)
        lines.insert(place + 1, form.format(a=a, b=b, p=p, q=q, t=chance.choice(texts.WHAT)))
    elif kind == 2:
        lines.insert(chance.randrange(len(lines) + 1), lines[place])
    elif kind == 3:
        lines.insert(chance.randrange(len(lines)), lines.pop(place))
    elif len(lines) > 1:
        del lines[place]
    return "".join(f"{number} {line}\n" for number, line in enumerate(lines, 1))


def zest_file(text: str, chance: random.Random) -> str:
    """Put a value of a file of tasks in the place of another one of its type."""
    try:
        tasks = [json.loads(line) for line in text.splitlines() if line]
    except ValueError:
        tasks = [json.loads(line) for line in texts.ZEST_SEEDS]
    by_type: dict[type, list[tuple[Any, Any]]] = {}
    for path in places(tasks):
        holder: Any = tasks
        for step in path[:-1]:
            holder = holder[step]
        if path:
            by_type.setdefault(type(holder[path[-1]]), []).append((holder, path[-1]))
    if by_type:
        slots = by_type[chance.choice(list(by_type))]
        (holder, key), (source, name) = chance.choice(slots), chance.choice(slots)
        holder[key] = json.loads(json.dumps(source[name]))
    return "".join(json.dumps(task) + "\n" for task in tasks)


MUTATORS: Mapping[str, Mutator] = {
    "expressions": expression,
    "stories": story,
    "zest-files": zest_file,
}
"""The mutator of each target; the bytes of other targets' inputs are mutated."""
