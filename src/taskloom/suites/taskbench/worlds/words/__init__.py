"""All words of both languages in one index, with every lexical, random and added atom as a table
over it.

`LexicalWorld` computes the lexical atoms from a lexicon by the rules of a recipe. `Words` adds
random and user-defined atoms. Functions are evaluated on `Words`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from taskloom.core.errors import DataError, InputError, TaskloomError
from taskloom.suites.taskbench import atoms, tables
from taskloom.suites.taskbench.language.types import kind_name, language_of
from taskloom.suites.taskbench.tables import Table
from taskloom.suites.taskbench.worlds import random_relations
from taskloom.suites.taskbench.worlds.words import lexicon, wordnet
from taskloom.suites.taskbench.worlds.words.lexicon import (
    CLOSED,
    Lexicon,
    cached_arrays,
    open_lexicon,
)
from taskloom.suites.taskbench.worlds.words.wordnet import POS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from taskloom.core.plan import Source
    from taskloom.suites.taskbench.evaluation.second_solver import PlainSolver
    from taskloom.suites.taskbench.language.operators import Expression

_POS_NAMES = {"noun": "n", "verb": "v", "adjective": "a", "adverb": "r"}
_SIGNS = {"positive": 1, "negative": -1, "neutral": 0}


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules for the values of a lexical relation. The defaults are the reference's rules.

    Attributes:
        senses: All senses of a word in all parts of speech, or only the most frequent one.
        inflections: True if a base form may be the answer for its inflected form, such as bone as a
            synonym of bones.
        outputs: Any lemma of the lexicon, or only words of the vocabulary.
    """

    senses: Literal["all", "first"] = "all"
    inflections: bool = True
    outputs: Literal["any", "vocabulary"] = "any"


class LexicalWorld:
    """All lexical relations and predicates for one lexicon and one set of rules."""

    def __init__(self, lexicon: Lexicon, rules: Rules) -> None:
        self.lexicon = lexicon
        self.rules = rules

    def relation(self, name: str) -> Table:
        """Return the table of a relation over all words: for each word, the related words.

        Computed once per lexicon and cached, because following hypernyms and hyponyms of all nouns
        takes a quarter of a second.
        """
        if not self.lexicon.place:
            return self._relation(name)
        settings = blake2b(f"{_code()}:{self.rules}:{name}".encode(), digest_size=12).hexdigest()

        def compute() -> dict[str, NDArray[Any]]:
            table = self._relation(name)
            return {"starts": table.starts, "values": table.values}

        arrays = cached_arrays(f"{self.lexicon.place}-relation-{settings}", compute)
        return Table(np.asarray(arrays["starts"]), np.asarray(arrays["values"]))

    def _relation(self, name: str) -> Table:
        stem, source, target = _parts(name)
        lexicon = self.lexicon
        senses = lexicon.senses[source]
        if self.rules.senses == "first":
            senses = _first(senses)
        if stem in CLOSED:
            senses = lexicon.closed[stem].after(senses)
        elif stem == "antonyms":
            senses = lexicon.links["antonyms"].after(senses)
        return self._allowed(lexicon.lemmas[target].after(senses), target)

    def _allowed(self, table: Table, language: str) -> Table:
        """Drop the argument itself, regardless of capitals, and the values that the rules
        exclude.
        """
        owners = table.owners()
        fold = self.lexicon.fold
        keep = fold[owners] != fold[table.values]
        if self.rules.outputs == "vocabulary":
            known = np.zeros(len(fold), dtype=np.bool_)
            known[self.lexicon.vocabulary[language]] = True
            keep &= known[table.values]
        table = table.keep(keep)
        if not self.rules.inflections and language == "eng":
            table = table.keep(~self._inflected(table))
        return table

    def _inflected(self, table: Table) -> NDArray[np.bool_]:
        """Return a mask of the pairs in which one word is a base form of the other."""
        roots = self._roots()
        width = np.int64(len(self.lexicon.texts))
        known = np.unique(roots.owners() * width + roots.values)
        owners, values = table.owners(), table.values.astype(np.int64)
        return np.isin(owners * width + values, known) | np.isin(values * width + owners, known)

    def _roots(self) -> Table:
        """Return the base forms of each English word, except the word itself."""
        lexicon = self.lexicon
        pairs: set[tuple[int, int]] = set()
        for word in np.flatnonzero(lexicon.senses["eng"].counts).tolist():
            for pos, forms in lexicon.bases(lexicon.texts[word]).items():
                for form in forms:
                    bases = lexicon.base_forms[pos][form]
                    pairs.update((word, base) for base in bases if base != word)
        array = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
        return Table.of_pairs(array[:, 0], array[:, 1], len(lexicon.texts))

    def predicate(self, name: str) -> NDArray[np.bool_]:
        """Return a mask of the words for which the predicate holds."""
        match = re.fullmatch(r"is_(pos|sentiment)_(\w+)\[(\w+)\]", name)
        assert match is not None
        lexicon = self.lexicon
        if match[1] == "pos":
            wanted = lexicon.pos == POS.index(_POS_NAMES[match[2]])
        elif lexicon.sentiment is None:
            raise DataError(
                f"{name} needs SentiWordNet, which is not included in this package; run 'taskloom "
                "data get nltk' or set NLTK_DATA, and use lexicon=nltk"
            )
        else:
            wanted = lexicon.sentiment == _SIGNS[match[2]]
        lemmas = lexicon.lemmas[match[3]]
        holds = np.zeros(len(lexicon.texts), dtype=np.bool_)
        holds[lemmas.values[wanted[lemmas.owners()]]] = True
        return holds


@lru_cache(maxsize=1)
def _code() -> str:
    """Return a digest of the code that computes relations, so that cached relations from another
    version are ignored.
    """
    files = (__file__, lexicon.__file__, wordnet.__file__, tables.__file__)
    return blake2b(b"".join(Path(file).read_bytes() for file in files), digest_size=12).hexdigest()


def _first(senses: Table) -> Table:
    starts = np.zeros_like(senses.starts)
    np.cumsum(senses.counts > 0, out=starts[1:])
    return Table(starts, senses.values[senses.starts[:-1][senses.counts > 0]])


def _parts(name: str) -> tuple[str, str, str]:
    match = re.fullmatch(r"(\w+)\[(\w+)(?:->(\w+))?\]", name)
    assert match is not None
    return match[1], match[2], match[3] or match[2]


class Words:
    """Every word function as a table, built on demand.

    Attributes:
        texts: All words as written in the lexicon (with underscores), sorted, followed by those
            that only added atoms know.
        shown: The same words as written in examples.
        vocabulary: For each language the words from which inputs are drawn.
    """

    def __init__(
        self,
        lexicon: Lexicon,
        rules: Rules | None = None,
        pairing: random_relations.Pairing = "other",
        own: tuple[str, ...] = (),
    ) -> None:
        """Set up the words of a lexicon.

        Args:
            lexicon: Source of words and senses.
            rules: Rules for the values of lexical relations.
            pairing: How the random relations pair words.
            own: Added atoms that will be used. Their values become words.
        """
        self.lexicon = lexicon
        self.lexical = LexicalWorld(lexicon, rules or Rules())
        self.pairing = pairing
        self.vocabulary = lexicon.vocabulary
        self._tables: dict[str, Table] = {}
        self._masks: dict[str, NDArray[np.bool_]] = {}
        self._images: dict[tuple[str, str], tuple[str, ...]] = {}
        self._own = {name: self._try_out(name) for name in own}
        values: set[str] = set()
        for images in self._own.values():
            values.update(*images.values())
        new = sorted(text for text in values if text not in lexicon.numbers)
        # Without new texts, use the lexicon's own lists, because caches are keyed by their
        # identity.
        self.texts, self.shown = lexicon.texts, lexicon.shown
        if new:
            self.texts = lexicon.texts + new
            self.shown = [*lexicon.shown, *(text.replace("_", " ") for text in new)]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Index of each word."""
        known, first = self.lexicon.numbers, len(self.lexicon.texts)
        new = {text: first + i for i, text in enumerate(self.texts[first:])}
        return known | new if new else known

    @property
    def sources(self) -> tuple[Source, ...]:
        """Sources of the words."""
        return self.lexicon.sources

    @cached_property
    def _hashes(self) -> NDArray[np.uint64]:
        """Hash every word; those of a lexicon are kept in the cache."""
        texts, place = self.lexicon.texts, self.lexicon.place
        if not place:
            return random_relations.text_hashes(self.texts)
        entry = cached_arrays(
            f"{place}-hashes", lambda: {"hashes": random_relations.text_hashes(texts)}
        )
        return np.append(entry["hashes"], random_relations.text_hashes(self.texts[len(texts) :]))

    def _of_language(self, code: str) -> NDArray[np.bool_]:
        """Mask of the words of the language."""
        has = np.zeros(len(self.texts), dtype=np.bool_)
        has[self.lexicon.lemmas[code].values] = True
        return has

    def _language(self, language: str) -> NDArray[np.int64]:
        return np.flatnonzero(self.lexicon.senses[language].counts)

    def _try_out(self, name: str) -> dict[str, set[str]]:
        """Evaluate an added atom for every word of its language. Texts have underscores."""
        known = atoms.known(name)
        assert known is not None
        if known.type.source == "entity" or known.type.target == "entity":
            raise TaskloomError(
                f"the added atom '{name}' is for entities, but added atoms currently work only on "
                "words"
            )
        texts = self.lexicon.texts
        return {
            texts[i]: atoms.call(known, texts[i])
            for i in self._language(known.type.language).tolist()
        }

    def relation(self, name: str) -> Table:
        """Return a relation as a table over all words."""
        if name not in self._tables:
            self._tables[name] = self._relation(name)
        return self._tables[name]

    def inverse(self, name: str) -> Table:
        """Return the inverse of a relation as a table over all words."""
        key = f"{name}.inv"
        if key not in self._tables:
            self._tables[key] = self.relation(name).flipped(len(self.texts))
        return self._tables[key]

    def _relation(self, name: str) -> Table:
        known = atoms.known(name)
        assert known is not None
        if known.family == "random":
            language = random_relations.parts(name)[1]
            table = random_relations.relation(
                name, self._hashes, self.vocabulary[language], self.pairing
            )
            # Words of the other language do not occur in the relation, so they must not occur in
            # its inverse.
            return table.keep(self._of_language(language)[table.owners()])
        if known.family == "own":
            pairs = [
                (self.numbers[x], self.numbers[y]) for x, ys in self._own[name].items() for y in ys
            ]
            array = np.array(pairs, dtype=np.int64).reshape(-1, 2)
            return Table.of_pairs(array[:, 0], array[:, 1], len(self.texts))
        return _padded(self.lexical.relation(name), len(self.texts))

    def predicate(self, name: str) -> NDArray[np.bool_]:
        """Return a predicate as one truth value per word."""
        if name not in self._masks:
            known = atoms.known(name)
            assert known is not None
            if known.family == "own":
                holds = [
                    text in self._own[name] and "true" in self._own[name][text]
                    for text in self.texts
                ]
                self._masks[name] = np.array(holds, dtype=np.bool_)
            else:
                mask = self.lexical.predicate(name)
                self._masks[name] = np.pad(mask, (0, len(self.texts) - len(mask)))
        return self._masks[name]

    def look(self, name: str, text: str, inverse: bool = False) -> tuple[str, ...]:
        """Return the values of a relation (or its inverse) for any text, even one that is not in
        the lexicon.
        """
        key = (f"{name}.inv" if inverse else name, text)
        images = self._images.get(key)
        if images is None:
            images = self._images[key] = self._look(name, text, inverse)
        return images

    def _look(self, name: str, text: str, inverse: bool) -> tuple[str, ...]:
        number = self.numbers.get(text)
        if number is not None:
            table = self.inverse(name) if inverse else self.relation(name)
            return tuple([self.texts[i] for i in table.row(number).tolist()])
        if inverse:
            return ()
        return tuple(sorted(self._plain.values(name, text)))

    @cached_property
    def _plain(self) -> PlainSolver:
        from taskloom.suites.taskbench.evaluation.second_solver import PlainSolver

        return PlainSolver(self)

    def holds(self, name: str, text: str) -> bool:
        """True if a predicate holds for a text."""
        number = self.numbers.get(text)
        if number is not None:
            return bool(self.predicate(name)[number])
        known = atoms.known(name)
        assert known is not None
        return known.family == "own" and "true" in atoms.call(known, text)

    def enter(self, text: str, kind: str) -> tuple[str, ...]:
        """Return the word that a text refers to."""
        return (self.known_text(text, kind),)

    def show(self, items: Iterable[str]) -> tuple[str, ...]:
        """Words as written in examples."""
        return tuple([item.replace("_", " ").strip() for item in items])

    def decides(self, name: str, item: str) -> bool:
        """Always True, because every predicate is decided for every word."""
        return True

    def matches(self, relation: Expression, value: str, items: tuple[str, ...]) -> bool:
        """True if a value, as written in an expression, is among the values of a relation for these
        items.
        """
        return value.replace(" ", "_") in items

    def known_text(self, text: str, kind: str) -> str:
        """Return an input as written in the lexicon. Raises an error for unknown words."""
        written = text.strip().replace(" ", "_")
        for spelling in (written, written.lower()):
            if spelling in self.numbers:
                return spelling
        code = language_of(kind)
        if code in self.lexicon.senses and self.lexicon.find(written, code):
            return written
        raise InputError(
            f"'{text.strip()}' is not {kind_name(kind)} in the lexicon; use a word from a "
            "dictionary"
        )


def _padded(table: Table, rows: int) -> Table:
    if table.rows == rows:
        return table
    return Table(np.pad(table.starts, (0, rows - table.rows), mode="edge"), table.values)


@lru_cache(maxsize=8)
def open_words(
    lexicon: str, rules: Rules, pairing: random_relations.Pairing, own: tuple[str, ...]
) -> Words:
    """Build the words with their tables, and cache them for the whole process so that equal
    settings share tables.
    """
    return Words(open_lexicon(lexicon), rules, pairing, own)
