"""Formats expressions as text: in our notation, the paper's or the reference code's, without their
constants, and in English.

English descriptions have four levels of explicitness:

| level | what is said | for example |
| --- | --- | --- |
| vague | only the kinds of input and answer | Give a related English word. |
| phrase | a noun phrase or a claim | an antonym of a hyponym of the word |
| instruction | one imperative sentence | Give an antonym of a hyponym of the given English word. |
| explicit | the instruction, every atom's meaning, how answers are judged | … give any one of them. |
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from taskloom.suites.taskbench.language.operators import (
    ALL,
    ONE,
    Atom,
    Chain,
    Expression,
    Inverse,
    Is,
    Operator,
    SequenceOperator,
    as_predicate,
    as_relation,
    atoms_of,
    map_filter,
    normal,
)
from taskloom.suites.taskbench.language.parser import type_of
from taskloom.suites.taskbench.language.types import Type


@dataclass(frozen=True, slots=True)
class _Style:
    """One of the other two notations of expressions.

    Attributes:
        names: Attribute of a known atom that contains its name in this notation.
        word: Text after a function on words.
        sequence: Text after a function on sequences, if it is the first one.
        variable: Argument of a function in braces.
        binder: Text before a function in braces.
    """

    names: str
    word: str
    sequence: str
    variable: str
    binder: str

    def atom(self, name: str) -> str:
        """Return the name of an atom in this notation."""
        from taskloom.suites.taskbench import atoms

        known = atoms.known(name)
        return getattr(known, self.names) if known else name


PAPER = _Style("paper", word="", sequence="", variable="(x)", binder="λx. ")
REFERENCE = _Style("reference", word="(0)", sequence="(S)", variable="(0)", binder="")


def show(expression: Expression) -> str:
    """Format an expression in our notation, which `read` parses back to the same expression.

    >>> show(Chain((Atom("father"), Inverse((Atom("child"),)))))
    'chain(father, child.inv)'
    """
    return expression.notation


def show_paper(expression: Expression) -> str:
    """Format an expression as in the paper's tables: f(g) for a chain, map{λx. f(x)}(filter{λx.
    p(x)}) for sequences.
    """
    return _foreign(expression, PAPER)


def show_reference(expression: Expression) -> str:
    """Format an expression as in the reference code's task files: f(g(0)),
    map{f(0)}(filter{p(0)}(S)).
    """
    return _foreign(expression, REFERENCE)


def _foreign(expression: Expression, style: _Style, input_text: str | None = None) -> str:
    """Format `expression` applied to `input_text`, by default the notation's word."""
    given = style.word if input_text is None else input_text
    match expression:
        case Atom(name):
            return style.atom(name) + given
        case Is():
            return expression.notation + given
        case Inverse():
            return f"{style.atom(expression.atom)}[inv]{given}"
        case Chain(parts):
            text = given
            for part in reversed(parts[1:]):
                text = f"({_foreign(part, style, text)})"
            return _foreign(parts[0], style, text)
        case SequenceOperator():
            function = style.binder + _foreign(expression.element, style, style.variable)
            before = (
                style.sequence
                if expression.before is None
                else f"({_foreign(expression.before, style)})"
            )
            return f"{expression.word}{{{function}}}{before}"
        case Operator(parts):
            # All operands are functions of the same input, which is written once, after them.
            own = given if given == style.variable else style.word
            shown = ", ".join(_foreign(part, style, own) for part in parts)
            after = "" if given in ("", style.variable, style.word) else given
            return f"{expression.word}({shown}){after}"


_CONSTANT = re.compile(r"(?<==)[^}]*(?=\})|(?<=\{)\d+(?=\})")
"""In the reference's notation: `is{occupation=Q33999}`, `random{0}[eng]`."""


def form(expression: Expression) -> str:
    """Format a function without its constants, with the reference code's names of atoms.

    Constants are the value of an `is`, even as part of an atom's name (`is_occupation_actor`,
    `is_pos_noun[eng]`), and the number of a random relation.

    >>> from taskloom.suites.taskbench.language import read
    >>> form(read("lor(is_occupation_actor, is{father=Q42})"))
    'lor(is{father=…}, is{occupation=…})'
    """
    from taskloom.suites.taskbench import atoms

    match expression:
        case Atom(name):
            known = atoms.known(name)
            return _CONSTANT.sub("…", known.reference) if known else name
        case Is(relation):
            return f"is{{{form(relation)}=…}}"
        case Operator(parts):
            forms = [form(part) for part in parts]
            if expression.symmetric:
                forms.sort()
            return f"{expression.word}({', '.join(forms)})"


LEVELS = ("vague", "phrase", "instruction", "explicit")

_THINGS = {"word[eng]": "English word", "word[spa]": "Spanish word", "entity": "thing"}


def describe(
    expression: Expression, level: str = "instruction", thing: str = "", separators: bool = False
) -> str:
    """Describe a function in English.

    Args:
        expression: A well-typed expression.
        level: `vague`, `phrase`, `instruction` or `explicit`.
        thing: Phrase for the input. Default: by type, such as "the given English word".
        separators: True if the items of a sequence are separated by #.
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
        if level == "instruction":
            return instruction
        return f"{instruction} {self.explanation(expression)}"

    def vague(self) -> str:
        if self.type.form == "predicate":
            return f"Say true or false of the given {self.kind}."
        given = _THINGS.get(self.type.target, self.type.target)
        if self.type.form == "sequence":
            which = "other" if given == self.kind else "related"
            return f"Turn the given {self.kind}s into {which} {given}s."
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

        used = [atoms.known(name) for name in dict.fromkeys(atoms_of(expression))]
        sentences = [atom.define for atom in used if atom is not None and atom.define]
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
