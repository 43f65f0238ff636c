"""English descriptions of a function, at four levels of explicitness.

| level | what is said | for example |
| --- | --- | --- |
| vague | only what kind of thing goes in and comes out | Give a related English word. |
| phrase | a noun phrase or a claim | an antonym of a hyponym of the word |
| instruction | one sentence that tells what to do | Give an antonym of a hyponym of the given English word. |
| explicit | the instruction, the meaning of every atom, and how answers are judged | … Any one right answer will do. |
"""

from __future__ import annotations

from taskloom.suites.taskbench.language.checker import type_of
from taskloom.suites.taskbench.language.operators import (
    ALL,
    ONE,
    Expression,
    as_predicate,
    as_relation,
    atoms_of,
    map_filter,
    normal,
)
from taskloom.suites.taskbench.language.types import Type

LEVELS = ("vague", "phrase", "instruction", "explicit")

_THINGS = {"word[eng]": "English word", "word[spa]": "Spanish word", "entity": "thing"}


def describe(
    expression: Expression, level: str = "instruction", thing: str = "", separators: bool = False
) -> str:
    """Describe a function in English.

    Args:
        expression: A well-typed expression.
        level: `vague`, `phrase`, `instruction` or `explicit`.
        thing: How the input is called; "the given English word" by default.
        separators: Whether the items of a sequence are separated by #.
    """
    from taskloom.suites.taskbench import atoms

    if level not in LEVELS:
        raise ValueError(f"level must be one of {', '.join(LEVELS)}, not {level!r}")
    return _Speaker(type_of(expression, atoms.signature), thing, separators).say(
        normal(expression), level
    )


class _Speaker:
    def __init__(self, type_: Type, thing: str, separators: bool) -> None:
        self.type = type_
        self.kind = _THINGS.get(type_.source, type_.source)
        self.thing = thing
        self.separators = separators

    def say(self, expression: Expression, level: str) -> str:
        if level == "vague":
            return self.vague()
        if level == "phrase":
            return self.phrase(expression, self.thing or f"the {self.kind.rpartition(' ')[2]}")
        instruction = self.instruction(expression)
        return (
            instruction
            if level == "instruction"
            else f"{instruction} {self.explanation(expression)}"
        )

    def vague(self) -> str:
        if self.type.form == "predicate":
            return f"Say true or false of the given {self.kind}."
        given = _THINGS.get(self.type.target, self.type.target)
        if self.type.form == "sequence":
            return (
                f"Turn the given {self.kind}s into {'other' if given == self.kind else 'related'}"
                f" {given}s."
            )
        return f"Give a related {given}."

    def phrase(self, expression: Expression, x: str) -> str:
        if self.type.form == "predicate":
            return f"whether {x} {holds(expression)}"
        if self.type.form == "relation":
            return one(expression, x)
        function, predicate = map_filter(expression)
        kept = f"each {self.kind}" + (f" that {holds(predicate)}" if predicate else "")
        return kept if function is None else one(function, kept)

    def instruction(self, expression: Expression) -> str:
        x = self.thing or f"the given {self.kind}"
        if self.type.form == "predicate":
            return f"Say whether {x} {holds(expression)}: true or false."
        if self.type.form == "relation":
            return f"Give {one(expression, x)}."
        function, predicate = map_filter(expression)
        if function is None:
            assert predicate is not None
            return (
                f"From the given list, keep each {self.kind} that {holds(predicate)}, in the given"
                " order."
            )
        which = f"each {self.kind} of the given list"
        that = f"that {self.kind.rpartition(' ')[2]}"
        if predicate is None:
            return f"For {which}, give {one(function, that)}, in the given order."
        return (
            f"For {which} that {holds(predicate)}, give {one(function, that)}, in the given order;"
            " leave out the others."
        )

    def explanation(self, expression: Expression) -> str:
        from taskloom.suites.taskbench import atoms

        sentences = [
            k.define
            for n in dict.fromkeys(atoms_of(expression))
            if (k := atoms.known(n)) and k.define
        ]
        if self.type.form == "predicate":
            sentences.append("Answer with one word, true or false.")
        elif self.type.form == "relation":
            sentences.append("Where several answers are right, give any one of them.")
        else:
            between = "a blank, # and a blank" if self.separators else "one blank"
            sentences.append(
                f"Answer with the results in one line, separated by {between}; where several are"
                " right, give any one."
            )
        return " ".join(sentences)


def one(function: Expression, x: str) -> str:
    """Return a noun phrase for one value of a relation: "an antonym of a hyponym of the word"."""
    from taskloom.suites.taskbench import atoms

    return as_relation(function).value(x, ONE, atoms)


def many(function: Expression, x: str) -> str:
    """Return a noun phrase for all values of a relation: "the antonyms of the hyponyms of the
    word".
    """
    from taskloom.suites.taskbench import atoms

    return as_relation(function).value(x, ALL, atoms)


def holds(predicate: Expression) -> str:
    """Return a verb phrase for a predicate: "can be a noun and has a positive meaning"."""
    from taskloom.suites.taskbench import atoms

    return as_predicate(predicate).claim(True, atoms)
