"""The catalog: the 499 tasks of the paper that can be identified.

The lexical and random tasks follow a rule: all compositions of depth two of the atoms of one
language, and the sequence versions of each, except those with too few inputs. The paper's authors
chose the factual tasks by hand and by the size of a 2017 database, so these are listed by outer and
inner relations. Of the 500 tasks that the paper counts, one cannot be identified from its tables,
and three are other tasks with their operands swapped.

`compositions` applies the rule to any atoms (appendix A.1). The paper then applies two filters.
Functions with the same normal form are listed once (`union(b, a)` is `union(a, b)`). Functions with
fewer than 100 examples are left out. This depends on the world, so it is done by `make`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, permutations, product

from taskloom.core.errors import RecipeError
from taskloom.suites.taskbench import atoms
from taskloom.suites.taskbench.language import Type, name, parse, read_typed
from taskloom.suites.taskbench.language.operators import (
    OPERATORS,
    Atom,
    Chain,
    Expression,
    Filter,
    Inverse,
    Is,
    Map,
    RelationOperator,
    SequenceOperator,
    atoms_of,
)

RELATIONS = ("antonyms", "entailments", "hyponyms", "synonyms")
CHAINED = ("antonyms", "entailments", "hyponyms")
"""Atoms used in chains. Synonyms are omitted, because nearly every word is a synonym of one of its
synonyms.
"""

SCARCE = (
    "chain(antonyms[spa], entailments[spa])",
    "intersection(antonyms[eng], entailments[eng])",
    "intersection(antonyms[eng], hyponyms[eng])",
    "intersection(antonyms[eng], synonyms[eng])",
    "intersection(antonyms[spa], entailments[spa])",
    "intersection(antonyms[spa], hyponyms[spa])",
    "intersection(antonyms[spa], synonyms[spa])",
    "intersection(entailments[eng], hyponyms[eng])",
    "intersection(entailments[spa], hyponyms[spa])",
    "intersection(entailments[spa], synonyms[spa])",
)
"""Compositions with fewer than 100 inputs in the paper's vocabularies. They are not tasks by
themselves, although the paper uses them in maps.
"""

_CHAINS = """
child: influenced_by named_after owned_by
country_of_citizenship: child father mother
father: creator father head_of_state mother named_after
influenced_by: child creator father influenced_by performer
languages_spoken_written_or_signed: child influenced_by named_after
member_of_political_party: father influenced_by mother named_after
member_of_sports_team: child father
mother: creator father head_of_state influenced_by mother named_after owned_by performer
named_after: child developer influenced_by
occupation: influenced_by named_after
place_of_birth: influenced_by named_after
place_of_death: influenced_by named_after
position_held: influenced_by mother
position_played_on_team: father named_after
record_label: child father influenced_by mother
"""

_UNIONS = """
child: father mother
country_of_citizenship: languages_spoken_written_or_signed named_after position_held position_played_on_team
creator: father mother
father: influenced_by mother
languages_spoken_written_or_signed: member_of_political_party mother occupation place_of_birth position_held
languages_spoken_written_or_signed: position_played_on_team record_label
member_of_political_party: mother place_of_birth record_label
member_of_sports_team: mother place_of_death
occupation: place_of_death
place_of_birth: position_held position_played_on_team record_label
place_of_death: position_held position_played_on_team record_label
"""

_ONLY_MAPPED_CHAINS = """
influenced_by: developer head_of_state owned_by
member_of_sports_team: influenced_by
named_after: creator father
"""

_ONLY_MAPPED_UNIONS = """
child: named_after
creator: location
father: named_after
influenced_by: mother named_after
languages_spoken_written_or_signed: member_of_sports_team
member_of_political_party: named_after
member_of_sports_team: record_label
mother: named_after
"""

_LAND = """
occupation_actor: birthplace_buenosaires birthplace_la birthplace_london birthplace_nyc
occupation_politician: birthplace_london birthplace_nyc
"""

_LOR = """
birthplace_buenosaires: occupation_journalist occupation_politician occupation_teacher
birthplace_la: birthplace_buenosaires birthplace_london
birthplace_london: occupation_teacher
birthplace_nyc: birthplace_buenosaires birthplace_la birthplace_london occupation_actor occupation_politician
occupation_actor: birthplace_buenosaires birthplace_la birthplace_nyc
occupation_journalist: birthplace_buenosaires
occupation_politician: birthplace_buenosaires
"""

IMPLIED = (
    "subclass_of",
    "chain(translate[eng->spa], entailments[eng])",
    "chain(translate[eng->spa], hyponyms[eng])",
    "filter(is_sentiment_neutral[eng])",
    "filter(is_sentiment_positive[eng])",
)
"""Tasks that the paper counts but that are missing from its tables, where the last entry of a
column repeats the first of the next.
"""


@dataclass(frozen=True, slots=True)
class CatalogTask:
    """A task of the paper.

    Attributes:
        expression: Expression in our notation, with operands in the paper's order.
        composition: atomic, chain, union, intersection, land, lor, map, filter or map_filter.
        families: Families of its atoms.
        printed: True if it appears in the paper's tables.
        same_as: Another task of the catalog that is the same function with its operands swapped, or
            empty.
    """

    expression: str
    composition: str
    families: frozenset[str]
    printed: bool
    same_as: str = ""

    @property
    def operands(self) -> tuple[str, ...]:
        """The atoms, from left to right."""
        return tuple(atoms_of(parse(self.expression)))

    @property
    def family(self) -> str:
        """The families in one word, such as `lexical+random`."""
        return "+".join(sorted(self.families))


def catalog() -> tuple[CatalogTask, ...]:
    """Return all 499 tasks, words before sequences."""
    return _tasks(words=True, facts=True)


@lru_cache(maxsize=4)
def _tasks(words: bool, facts: bool) -> tuple[CatalogTask, ...]:
    """Return the tasks with word functions, or those with facts only. Cached, because parsing them
    takes a quarter of a second.
    """
    seen: dict[str, str] = {}
    # Functions on words have their language in square brackets.
    return tuple(_task(text, seen) for text in _expressions() if (words if "[" in text else facts))


def _expressions() -> list[str]:
    words = [*_atomic(), *_lexical_compositions(), *_factual_compositions()]
    mapped = [f for f in words if not _is_predicate(f)]
    only_mapped = [
        *SCARCE,
        *_pairs("chain", _ONLY_MAPPED_CHAINS),
        *_pairs("union", _ONLY_MAPPED_UNIONS),
    ]
    sequences = [f"map({f})" for f in (*mapped, *only_mapped)]
    filters = [p for p in _lexical_atoms() if _is_predicate(p)]
    sequences += [f"filter({p})" for p in filters]
    elements = [*(f"{r}[eng]" for r in RELATIONS), "translate[eng->spa]", *_random_atoms()]
    sequences += [f"map({f}, filter({p}))" for f in elements for p in filters]
    return [*words, *sequences]


def select(families: Collection[str], compositions: Collection[str]) -> list[CatalogTask]:
    """Select tasks with these compositions whose atoms all belong to these families. If tasks
    differ only in the order of operands, the first is selected.
    """
    wanted = set(families)
    tasks = _tasks(words=not wanted <= {"factual"}, facts="factual" in wanted)
    return [
        t for t in tasks if t.families <= wanted and t.composition in compositions and not t.same_as
    ]


def _task(expression: str, seen: dict[str, str]) -> CatalogTask:
    tree = parse(expression)
    first = seen.setdefault(name(tree), expression)
    return CatalogTask(
        expression,
        composition(tree),
        families(tree),
        expression not in IMPLIED,
        "" if first == expression else first,
    )


def _is_predicate(expression: str) -> bool:
    return expression.startswith(("is_", "land(", "lor("))


def _lexical_atoms() -> Iterator[str]:
    for atom in atoms.names():
        known = atoms.known(atom)
        # The paper does not use hypernyms, and tests parts of speech only in English.
        unused = atom.startswith("hypernyms") or (
            atom.startswith("is_pos") and atom.endswith("[spa]")
        )
        if known is not None and known.family == "lexical" and not unused:
            yield atom


def _random_atoms() -> list[str]:
    return [f"random{k}[eng]" for k in range(4)]


def _atomic() -> Iterator[str]:
    yield from _lexical_atoms()
    yield from _random_atoms()
    for atom in atoms.factual_names():
        if atom not in ("instance_of", "label"):
            yield atom


def _lexical_compositions() -> Iterator[str]:
    for code in ("eng", "spa"):
        for outer, inner in permutations(CHAINED, 2):
            yield from _enough(f"chain({outer}[{code}], {inner}[{code}])")
        for a, b in combinations(RELATIONS, 2):
            yield f"union({a}[{code}], {b}[{code}])"
            yield from _enough(f"intersection({a}[{code}], {b}[{code}])")
    for relation in CHAINED:
        yield f"chain({relation}[eng], translate[spa->eng])"
        yield f"chain(translate[eng->spa], {relation}[eng])"
    for chance in _random_atoms():
        for relation in RELATIONS:
            yield f"union({chance}, {relation}[eng])"


def _enough(expression: str) -> Iterator[str]:
    if expression not in SCARCE:
        yield expression


def _factual_compositions() -> Iterator[str]:
    yield from _pairs("chain", _CHAINS)
    yield from _pairs("union", _UNIONS)
    yield from _pairs("land", _LAND, "is_")
    yield from _pairs("lor", _LOR, "is_")


def _pairs(operator: str, listed: str, prefix: str = "") -> Iterator[str]:
    for line in listed.strip().splitlines():
        first, _, rest = line.partition(":")
        for second in rest.split():
            yield f"{operator}({prefix}{first}, {prefix}{second})"


def composition(expression: Expression) -> str:
    """Return the type of the outermost composition: atomic, chain, …, map, filter or map_filter."""
    if isinstance(expression, Atom | Is | Inverse):
        return "atomic"
    if isinstance(expression, Map) and expression.before is not None:
        return "map_filter"
    return expression.word


def families(expression: Expression) -> frozenset[str]:
    """Return the families of the atoms: lexical, random, factual, own."""
    used = [atoms.known(name) for name in atoms_of(expression)]
    return frozenset(atom.family for atom in used if atom is not None)


def family(expression: Expression) -> str:
    """Return the families of the atoms, joined by + if there are several."""
    return "+".join(sorted(families(expression)))


def composition_names() -> list[str]:
    """Return the names of all kinds of compositions: atomic, those of the operators, and
    map_filter.

    >>> "union" in composition_names(), "lnot" in composition_names()
    (True, False)
    """
    sequential = [
        word for word, operator in OPERATORS.items() if issubclass(operator, SequenceOperator)
    ]
    paired = [
        word
        for word, operator in OPERATORS.items()
        if operator.most >= 2 and word not in sequential
    ]
    return ["atomic", *paired, *sequential, "map_filter"]


def compositions(
    atoms: Iterable[str], kinds: Collection[str], most: int | None = None
) -> list[str]:
    """Return the names of all functions of these kinds over these atoms, each once, words before
    sequences.

    >>> compositions(["father", "mother"], ["chain", "union", "map"])[:3]
    ['chain(father, father)', 'chain(father, mother)', 'chain(mother, father)']

    Args:
        atoms: Names of relations and predicates, including inverses.
        kinds: Names of compositions: atomic, map, filter, map_filter, or an operator with two or
            more functions. Maps and filters are built from the atoms and from the other
            compositions in this list.
        most: Maximum number of functions.

    Raises:
        RecipeError: If there are more than `most` functions.
    """
    typed = [read_typed(atom) for atom in dict.fromkeys(atoms)]
    names: dict[str, None] = {}
    for tree in _composed(typed, kinds):
        names[name(tree)] = None
        # Stop immediately, because the number grows with the square of the number of atoms.
        if most is not None and len(names) > most:
            raise RecipeError(
                f"compose: {len(typed):,} atoms in {len(kinds)} kinds of compositions give more "
                f"than {most:,} functions, the maximum for a recipe; name fewer atoms, families "
                "or compositions"
            )
    return list(names)


def _composed(typed: list[tuple[Expression, Type]], kinds: Collection[str]) -> Iterator[Expression]:
    """Yield the functions of these kinds. A function may occur several times in different
    spellings.
    """
    words = list(typed)
    if "atomic" in kinds:
        yield from (tree for tree, _ in typed)
    for tree, kind in _typed_pairs(typed, kinds):
        words.append((tree, kind))
        yield tree
    if "map" in kinds:
        yield from (Map((f,)) for f, kind in words if kind.form == "relation")
    if "filter" in kinds:
        yield from (Filter((p,)) for p, kind in words if kind.form == "predicate")
    if "map_filter" in kinds:
        for (f, one), (p, other) in product(typed, repeat=2):
            fit = one.form == "relation" and other.form == "predicate"
            if fit and one.source == other.source:
                yield Map((f, Filter((p,))))


def _typed_pairs(
    typed: list[tuple[Expression, Type]], kinds: Collection[str]
) -> Iterator[tuple[Expression, Type]]:
    if "chain" in kinds:
        for (outer, after), (inner, before) in product(typed, repeat=2):
            if after.form == before.form == "relation" and after.source == before.target:
                yield Chain((outer, inner)), Type("relation", before.source, after.target)
    for word, operator in OPERATORS.items():
        if (
            word in kinds
            and operator.most >= 2
            and not issubclass(operator, Chain | SequenceOperator)
        ):
            form = "relation" if issubclass(operator, RelationOperator) else "predicate"
            for (a, one), (b, other) in (combinations if operator.symmetric else permutations)(
                typed, 2
            ):
                if one == other and one.form == form:
                    yield operator((a, b)), one


def check_atom(text: str) -> str:
    """Return the normal name of an atom or of its inverse. Raises an error for anything else."""
    tree = read_typed(text)[0].normal()
    if not isinstance(tree, Atom | Inverse):
        raise RecipeError(
            f"compose needs atoms, but '{text}' is already composed; list its parts, or list it "
            "under functions"
        )
    return tree.notation


def paper_atoms(families: Collection[str]) -> list[str]:
    """List the paper's atoms of these families."""
    return [task.expression for task in select(families, ["atomic"])]
