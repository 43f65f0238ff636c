"""English descriptions of a function, at four levels of explicitness.

| level | what is said | for example |
| --- | --- | --- |
| vague | only what kind of thing goes in and comes out | Give a related English word. |
| phrase | a noun phrase or a claim | an antonym of a hyponym of the word |
| instruction | one sentence that tells what to do | Give an antonym of a hyponym of the given English word. |
| explicit | the instruction, the meaning of every atom, and how answers are judged | … Any one right answer will do. |
"""

from __future__ import annotations

from taskloom.suites.taskbench.language.nodes import Atom, Call, Expression, Is, atoms_of
from taskloom.suites.taskbench.language.normal import map_filter, normal
from taskloom.suites.taskbench.language.types import Type, type_of

LEVELS = ("vague", "phrase", "instruction", "explicit")

_THINGS = {"word[eng]": "English word", "word[spa]": "Spanish word", "entity": "thing"}


def describe(expression: Expression, level: str = "instruction", thing: str = "", separators: bool = False) -> str:
    """An English description of a function.

    Args:
        expression: A well-typed expression.
        level: `vague`, `phrase`, `instruction` or `explicit`.
        thing: How the input is called; "the given English word" by default.
        separators: Whether the items of a sequence are separated by #.
    """
    from taskloom.suites.taskbench import atoms

    if level not in LEVELS:
        raise ValueError(f"level must be one of {', '.join(LEVELS)}, not {level!r}")
    found = type_of(expression, atoms.signature)
    return _Speaker(found, thing, separators).say(normal(expression), level)


class _Speaker:
    def __init__(self, found: Type, thing: str, separators: bool) -> None:
        self.type = found
        self.kind = _THINGS.get(found.source, found.source)
        self.thing = thing
        self.separators = separators

    def say(self, expression: Expression, level: str) -> str:
        if level == "vague":
            return self.vague()
        if level == "phrase":
            return self.phrase(expression, self.thing or f"the {self.kind.rpartition(' ')[2]}")
        told = self.instruction(expression)
        return told if level == "instruction" else f"{told} {self.explanation(expression)}"

    def vague(self) -> str:
        if self.type.form == "predicate":
            return f"Say true or false of the given {self.kind}."
        given = _THINGS.get(self.type.target, self.type.target)
        if self.type.form == "sequence":
            return f"Turn the given {self.kind}s into {'other' if given == self.kind else 'related'} {given}s."
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
            return f"From the given list, keep each {self.kind} that {holds(predicate)}, in the given order."
        which = f"each {self.kind} of the given list"
        that = f"that {self.kind.rpartition(' ')[2]}"
        if predicate is None:
            return f"For {which}, give {one(function, that)}, in the given order."
        return f"For {which} that {holds(predicate)}, give {one(function, that)}, in the given order; leave out the others."

    def explanation(self, expression: Expression) -> str:
        from taskloom.suites.taskbench import atoms

        said = [k.define for n in dict.fromkeys(atoms_of(expression)) if (k := atoms.known(n)) and k.define]
        if self.type.form == "predicate":
            said.append("Answer with one word, true or false.")
        elif self.type.form == "relation":
            said.append("Where several answers are right, give any one of them.")
        else:
            between = "a blank, # and a blank" if self.separators else "one blank"
            said.append(
                f"Answer with the results in one line, separated by {between}; where several are right, give any one."
            )
        return " ".join(said)


def one(function: Expression, x: str) -> str:
    """A noun phrase for one value of a relation: "an antonym of a hyponym of the word"."""
    return _value(function, x, 0)


def many(function: Expression, x: str) -> str:
    """A noun phrase for all values of a relation: "the antonyms of the hyponyms of the word"."""
    return _value(function, x, 1)


def _value(function: Expression, x: str, number: int) -> str:
    from taskloom.suites.taskbench import atoms

    match function:
        case Atom(name):
            known = atoms.known(name)
            assert known is not None
            return (known.one, known.many)[number].format(x=x)
        case Call("inverse", (Atom(name) as inner,)):
            own = atoms.inverse_phrases(name)
            if own is not None:
                return own[number].format(x=x)
            return f"{('something', 'everything')[number]} that has {x} among {_value(inner, 'it', 1)}"
        case Call("chain", parts):
            text = x
            for part in reversed(parts):
                text = _value(part, text, number)
            return text
        case Call("union", parts):
            return (" or ", " and ")[number].join(_value(part, x, number) for part in parts)
        case Call("intersection", parts):
            return "something that is both " + " and ".join(_value(part, x, 0) for part in parts)
        case _:
            raise ValueError(f"no relation: {function}")


def holds(predicate: Expression) -> str:
    """A verb phrase for a predicate: "can be a noun and has a positive meaning"."""
    return _claim(predicate, True)


def _claim(predicate: Expression, true: bool) -> str:
    from taskloom.suites.taskbench import atoms

    match predicate:
        case Atom(name):
            known = atoms.known(name)
            assert known is not None
            return known.one if true else known.many
        case Is(relation, value):
            told = _value(relation, "it", 0)
            if told.endswith(" of it"):
                return f"{'has' if true else 'does not have'} {value} as {told.removesuffix(' of it')}"
            return f"is such that {value} {'is' if true else 'is not'} {told}"
        case Call("lnot", (part,)):
            return _claim(part, not true)
        case Call(("land" | "lor") as operator, parts):
            # By De Morgan's laws the negation of "a and b" is "not a or not b".
            joint = " and " if (operator == "land") == true else " or "
            both = "both " if joint == " and " else "either "
            return both + joint.join(_claim(part, true) for part in parts)
        case Call("chain", (head, *rest)):
            before: Expression = rest[0] if len(rest) == 1 else Call("chain", tuple(rest))
            if true:
                return f"has among {_value(before, 'it', 1)} one that {_claim(head, True)}"
            return f"has among {_value(before, 'it', 1)} none that {_claim(head, True)}"
        case _:
            raise ValueError(f"no predicate: {predicate}")
