"""Parser and type checker for expressions in any of the three notations.

The grammar gives the structure. This module resolves names: operators, atoms in all their
spellings, and the symbols for the input (x and S in the paper, 0 and S in the reference code),
which are dropped. The type checker then infers the type of every expression, or raises an error
that describes the problem and marks its location.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from taskloom.core.errors import RecipeError, nearest
from taskloom.suites.taskbench.language.operators import (
    MANY,
    OPERATORS,
    AnyOperator,
    Atom,
    Chain,
    Expression,
    Filter,
    Inverse,
    Is,
    Map,
    Operator,
    SequenceOperator,
    Span,
)
from taskloom.suites.taskbench.language.types import Form, Signatures, Type, kind_name, plural

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

LONGEST = 20_000
"""Maximum length of an expression in characters. Longer texts are rejected before parsing."""

DEEPEST = 60
"""Maximum nesting depth. The paper's deepest expression has depth 4."""

Find = Callable[[str], str | None]

_INPUTS = {"S", "X", "Y", "x", "y", "s"}

_WORDS = {
    "NAME": "a name",
    "NUMBER": "a number",
    "LSQB": "[",
    "RSQB": "]",
    "LBRACE": "{",
    "RBRACE": "}",
    "LPAR": "(",
    "RPAR": ")",
    "COMMA": ",",
    "EQUAL": "=",
    "LANGUAGES": "a language such as eng or eng->spa",
    "VALUE": "a value",
    "$END": "the end",
}


@lru_cache(maxsize=1)
def _lark() -> Lark:
    from lark import Lark

    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True)


@lru_cache(maxsize=2048)
def _syntax(text: str) -> Tree[Any]:
    """Return the syntax tree of an expression. It is cached, because the names in a recipe are
    parsed for its list, its plan and its descriptions.
    """
    return _lark().parse(text)


def read(text: str) -> Expression:
    """Parse an expression and check its names and types.

    >>> read("chain(father, mother)") == read("father(mother)") == read("father(mother(0))")
    True
    """
    expression, _ = read_typed(text)
    return expression


def read_typed(text: str) -> tuple[Expression, Type]:
    """Parse an expression and infer its type."""
    from taskloom.suites.taskbench import atoms

    expression = parse(text)
    return expression, type_of(expression, atoms.signature, text)


def parse(text: str, find: Find | None = None) -> Expression:
    """Parse an expression. Atoms must be known, but types are not checked.

    Args:
        text: In any of the three notations.
        find: Returns our name for an atom in any of its spellings, or None. Worlds use it to
            support their own atoms.
    """
    from lark.exceptions import UnexpectedInput

    _refuse_monsters(text)
    try:
        tree = _syntax(text)
    except UnexpectedInput as error:
        raise _unreadable(error, text) from None
    reader = _TreeReader(text, find)
    expression = reader.item(tree.children[0])
    if expression is None:
        raise ExpressionError(
            "a placeholder for the input is not a function; write a name such as synonyms[eng]",
            text,
        )
    return expression


def _refuse_monsters(text: str) -> None:
    if len(text) > LONGEST:
        raise ExpressionError(
            f"the expression has {len(text)} characters, more than the maximum of {LONGEST}"
        )
    level = 0
    for place, character in enumerate(text):
        level += (character in "({[") - (character in ")}]")
        if level > DEEPEST:
            raise ExpressionError(
                f"brackets are nested more than {DEEPEST} levels deep here",
                text,
                (place, place + 1),
            )
    if not text.strip():
        raise ExpressionError("the expression is empty; write a function such as synonyms[eng]")


def _unreadable(error: Exception, text: str) -> ExpressionError:
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    place = getattr(error, "pos_in_stream", None)
    wanted: set[str] = set()
    if isinstance(error, UnexpectedToken):
        wanted = set(error.accepts or error.expected)
        place = len(text) if error.token.type == "$END" else error.token.start_pos
    elif isinstance(error, UnexpectedCharacters):
        wanted = set(error.allowed or ())
    words = [_WORDS[name] for name in sorted(wanted) if name in _WORDS]
    at = len(text) if place is None or place < 0 else place
    met = f"'{text[at]}'" if at < len(text) else "the end"
    expected = f"expected {' or '.join(words)}" if words else "this cannot be read"
    return ExpressionError(f"{expected} here, but found {met}", text, (at, at + 1))


class _TreeReader:
    """Converts a parse tree to an expression. A method returns None if the subtree represents the
    input itself.
    """

    def __init__(self, text: str, find: Find | None = None) -> None:
        self.text = text
        self.own = find

    def fail(self, why: str, at: Tree[Token] | Token) -> ExpressionError:
        return ExpressionError(why, self.text, _span(at))

    def item(self, tree: Tree[Token] | Token) -> Expression | None:
        from lark import Token

        assert not isinstance(tree, Token)
        if tree.data == "lambda_term":
            return self.item(tree.children[1])
        if tree.data == "position":
            return None
        return self.call(tree)

    def call(self, tree: Tree[Token]) -> Expression | None:
        name = tree.children[0]
        rest = cast("list[Tree[Token]]", tree.children[1:])
        suffixes = [c for c in rest if _data(c) != "arguments"]
        arguments = [c for c in rest if _data(c) == "arguments"]
        assert isinstance(name, str)
        if name in _INPUTS and not suffixes and not arguments:
            return None
        word = name.strip().casefold().replace(" ", "_")
        if word == "wiki":
            return self.wrapped(tree, suffixes, arguments)
        operator = OPERATORS.get(word)
        if operator is None:
            return self.applied(self.atom(name, suffixes, arguments), arguments)
        if issubclass(operator, SequenceOperator):
            return self.sequence(operator, tree, suffixes, arguments)
        return self.operator(operator, tree, suffixes, arguments)

    def wrapped(
        self, tree: Tree[Token], suffixes: list[Tree[Token]], arguments: list[Tree[Token]]
    ) -> Expression:
        """Parse the reference code's wiki{…}, a hint for its query builder that has no effect
        here.
        """
        inner = self.inside(tree, suffixes, "wiki")
        return self.applied(inner, arguments)

    def inside(self, tree: Tree[Token], suffixes: list[Tree[Token]], name: str) -> Expression:
        if (
            len(suffixes) != 1
            or _data(suffixes[0]) != "brace"
            or _data(suffixes[0].children[0]) == "pair"
        ):
            raise self.fail(f"{name} expects one function in braces", tree)
        inner = self.item(suffixes[0].children[0])
        if inner is None:
            raise self.fail(f"{name} expects a function in its braces, not the input", suffixes[0])
        return inner

    def operator(
        self,
        operator: type[AnyOperator],
        tree: Tree[Token],
        suffixes: list[Tree[Token]],
        arguments: list[Tree[Token]],
    ) -> Expression:
        name = operator.word
        if suffixes:
            raise self.fail(
                f"{name} expects its operands in parentheses: {name}(f, g)", suffixes[0]
            )
        if not arguments:
            raise self.fail(f"{name} needs operands: {name}(f, g)", tree)
        parts = [self.operand(name, part) for part in _items(arguments[0])]
        return self.applied(operator(tuple(parts), _span(tree)), arguments[1:])

    def operand(self, name: str, tree: Tree[Token]) -> Expression:
        expression = self.item(tree)
        if expression is None:
            raise self.fail(f"{name} expects functions, not the input", tree)
        return expression

    def sequence(
        self,
        operator: type[AnyOperator],
        tree: Tree[Token],
        suffixes: list[Tree[Token]],
        arguments: list[Tree[Token]],
    ) -> Expression:
        """Parse map(f), map(f, filter(p)), map{f}, map{f}(S) or map{f}(filter{p}(S))."""
        name = operator.word
        if suffixes:
            parts: list[Expression] = [self.inside(tree, suffixes, name)]
            rest = arguments
        elif arguments:
            parts = [self.operand(name, part) for part in _items(arguments[0])]
            rest = arguments[1:]
        else:
            raise self.fail(f"{name} needs a function: {name}(f)", tree)
        for group in rest:
            for item in _items(group):
                before = self.item(item)
                if before is not None:
                    parts.append(before)
        return operator(tuple(parts), _span(tree))

    def applied(self, function: Expression, arguments: list[Tree[Token]]) -> Expression:
        """Parse a function with arguments: f(g) and f(g(0)) are chains, while f(0) and f(x) mean
        f.
        """
        for group in arguments:
            items = _items(group)
            if len(items) != 1:
                raise self.fail(f"a word function expects one input, not {len(items)}", group)
            before = self.item(items[0])
            if before is not None:
                later = before.parts if isinstance(before, Chain) else (before,)
                function = Chain((function, *later), (function.span[0], _span(group)[1]))
        return function

    def atom(
        self, name: str, suffixes: list[Tree[Token]], arguments: list[Tree[Token]]
    ) -> Expression:
        from taskloom.suites.taskbench import atoms

        spelling, pair, inverse = str(name), "", False
        end = getattr(name, "end_pos", None) or 0
        for suffix in suffixes:
            end = _span(suffix)[1]
            content = self.suffix(suffix)
            if content == "inv":
                inverse = not inverse
            elif _data(suffix) == "bracket":
                spelling += f"[{content}]"
            elif name.strip() == "is":
                pair = content
            else:
                spelling += f"{{{content}}}"
        span: Span = (getattr(name, "start_pos", 0) or 0, end)
        if name.strip() == "is":
            return self.is_predicate(pair, spelling[2:].strip(), span)
        find = self.own or atoms.find
        known = find(self.relocated(spelling, arguments))
        if known is None:
            raise ExpressionError(_unknown(spelling), self.text, span)
        atom = Atom(known, span)
        return Inverse((atom,), span) if inverse else atom

    def suffix(self, tree: Tree[Token]) -> str:
        if not hasattr(tree, "children"):
            return "inv"
        if _data(tree) == "bracket":
            return "".join(str(tree.children[0]).split()).replace("→", "->")
        first, last = _span(tree)
        return self.text[first + 1 : last - 1].strip()

    def relocated(self, spelling: str, arguments: list[Tree[Token]]) -> str:
        """Move a language tag. The reference code's early lists write synonyms[eng](0[spa]) for
        Spanish synonyms of a Spanish word.
        """
        for group in arguments:
            for item in _items(group):
                if _data(item) == "position" and len(item.children) > 1 and "->" not in spelling:
                    return f"{spelling.partition('[')[0]}[{self.suffix(item.children[1])}]"  # type: ignore[arg-type]
        return spelling

    def is_predicate(self, pair: str, language: str, span: Span) -> Expression:
        """Parse is{POS=noun}[eng] or is{occupation=actor} as a named atom if there is one,
        otherwise as a relation and a value.
        """
        from taskloom.suites.taskbench import atoms

        relation, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not relation or not value:
            raise ExpressionError(
                "is expects a relation and a value: is{occupation=actor}", self.text, span
            )
        find = self.own or atoms.canonical
        known = find(f"is{{{relation}={value}}}{language}")
        if known is not None:
            return Atom(known, span)
        inner = find(relation + language) or find(relation)
        if inner is None:
            raise ExpressionError(_unknown(relation + language), self.text, span)
        return Is(Atom(inner, span), value, span)


def _unknown(spelling: str) -> str:
    from taskloom.suites.taskbench import atoms

    known = nearest(spelling, [*atoms.names(), *OPERATORS])
    return f"unknown atom '{spelling}'; {known}; taskloom list taskbench shows the recipes"


def _data(tree: Tree[Token] | Token) -> str:
    return str(getattr(tree, "data", ""))


def _items(arguments: Tree[Token]) -> list[Tree[Token]]:
    return [c for c in arguments.children if c is not None]  # type: ignore[misc]


def _span(tree: Tree[Token] | Token) -> Span:
    place = getattr(tree, "meta", tree)
    start, end = getattr(place, "start_pos", None), getattr(place, "end_pos", None)
    return (start or 0, end or 0)


class ExpressionError(RecipeError):
    """An expression that cannot be parsed or has no type. The message quotes the expression and
    marks the location of the error.

    Attributes:
        why: The problem, in one sentence.
        text: The original text of the expression.
        span: The part of the text to mark.
    """

    def __init__(self, why: str, text: str = "", span: tuple[int, int] = (0, 0)) -> None:
        self.why = why
        self.text = text
        self.span = span
        super().__init__(f"{why}\n{point(text, span)}" if text else why)


def point(text: str, span: tuple[int, int], width: int = 100) -> str:
    """Format the text on one line with carets below the span. Long texts are cut off around it.

    >>> print(point("chain(fathr, mother)", (6, 11)))
      chain(fathr, mother)
            ^^^^^
    """
    flat = "".join(" " if c.isspace() else c for c in text)
    start = min(span[0], len(flat))
    stop = min(max(span[1], start + 1), len(flat) + 1)
    left = max(0, start - width // 2) if len(flat) > width else 0
    shown = flat[left : left + width]
    head, tail = ("…" if left else ""), ("…" if left + width < len(flat) else "")
    carets = "^" * max(1, min(stop - start, len(shown) - (start - left)))
    return f"  {head}{shown}{tail}\n  {' ' * (len(head) + start - left)}{carets}"


def type_of(expression: Expression, signatures: Signatures, text: str = "") -> Type:
    """Infer the type of an expression. If it has none, raise an `ExpressionError` that marks the
    location.

    Args:
        expression: The expression to check.
        signatures: The types of the atoms.
        text: The text it was parsed from, quoted in the error.
    """
    return Checker(signatures, text).check(expression)


class Checker:
    """Context for the operators' type rules: provides the types of atoms and operands, and the
    errors to raise.
    """

    def __init__(self, signatures: Signatures, text: str) -> None:
        self.signatures = signatures
        self.text = text

    def fail(self, at: Expression, why: str) -> ExpressionError:
        """Build an error that marks an expression."""
        return ExpressionError(why, self.text, at.span)

    def check(self, expression: Expression) -> Type:
        """Return the type of an expression, or raise an `ExpressionError`."""
        if isinstance(expression, Operator):
            low, high, given = expression.least, expression.most, len(expression.parts)
            if not low <= given <= high:
                few = f"{low}"
                if low != high:
                    few += " or more" if high == MANY else f" or {high}"
                operands = "operand" if few == "1" else "operands"
                raise self.fail(
                    expression,
                    f"{expression.word} expects {few} {operands}, but here it has {given}",
                )
        return expression.infer(self)

    def want(self, expression: Expression, form: Form, by: str) -> Type:
        """Return the type of an operand, which must have the given form."""
        inner = self.check(expression)
        if inner.form != form:
            article = "a sequence function" if form == "sequence" else f"a {form}"
            raise self.fail(expression, f"{by} expects {article} here, but this is {inner}")
        return inner

    def fit(self, part: Expression, taken: str, given: str) -> None:
        """Raise an error unless a part accepts the values of the previous part."""
        if taken != given:
            remedy = "; put label between them" if (taken, given) == ("word[eng]", "entity") else ""
            raise self.fail(
                part,
                f"this expects {kind_name(taken)}, but the previous function gives "
                f"{plural(given)}{remedy}",
            )

    def alike(self, operator: Operator, form: Form) -> Type:
        """Return the type that all operands of an operator share."""
        first = self.want(operator.parts[0], form, operator.word)
        for part in operator.parts[1:]:
            other = self.want(part, form, operator.word)
            if other != first:
                raise self.fail(
                    part,
                    f"the operands of {operator.word} must have the same type, but the first is "
                    f"{first} and this is {other}",
                )
        return first

    def sequence(self, operator: Map | Filter, source: str, target: str) -> Type:
        """Return the type of a sequence operator whose word function maps source to target."""
        if operator.before is None:
            return Type("sequence", source, target)
        before = self.want(operator.before, "sequence", operator.word)
        self.fit(operator.element, source, before.target)
        return Type("sequence", before.source, target)
