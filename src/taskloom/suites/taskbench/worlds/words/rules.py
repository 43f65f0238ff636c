"""The lexical atoms as tables over the words of a lexicon."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from taskloom.core.errors import DataError
from taskloom.suites.taskbench import tables
from taskloom.suites.taskbench.array_cache import load_or_compute
from taskloom.suites.taskbench.tables import Table
from taskloom.suites.taskbench.worlds.words import lexicon, morphology
from taskloom.suites.taskbench.worlds.words.lexicon import CLOSED, Lexicon
from taskloom.suites.taskbench.worlds.words.morphology import POS

if TYPE_CHECKING:
    from numpy.typing import NDArray

_POS_NAMES = {"noun": "n", "verb": "v", "adjective": "a", "adverb": "r"}
_SIGNS = {"positive": 1, "negative": -1, "neutral": 0}


@dataclass(frozen=True, slots=True)
class Rules:
    """What counts as a value of a lexical relation. The defaults are the reference's rules.

    Attributes:
        senses: All senses of a word over all parts of speech, or only the most frequent one.
        inflections: Whether a base form may be the answer for its own inflected form (bones → bone
            as a synonym).
        outputs: Any lemma of the lexicon, or only words of the vocabulary.
    """

    senses: Literal["all", "first"] = "all"
    inflections: bool = True
    outputs: Literal["any", "vocabulary"] = "any"


class LexicalWorld:
    """Every lexical relation and predicate over one lexicon and one set of rules."""

    def __init__(self, lexicon: Lexicon, rules: Rules) -> None:
        self.lexicon = lexicon
        self.rules = rules

    def relation(self, name: str) -> Table:
        """Return the table of a relation over all words: for each word the words that it is related
        to.

        Computed once for a lexicon and kept in the cache: all kinds of all nouns take a quarter of
        a second.
        """
        if not self.lexicon.place:
            return self._relation(name)
        settings = blake2b(f"{_code()}:{self.rules}:{name}".encode(), digest_size=12).hexdigest()

        def compute() -> dict[str, NDArray[Any]]:
            table = self._relation(name)
            return {"starts": table.starts, "values": table.values}

        arrays = load_or_compute(f"{self.lexicon.place}-relation-{settings}", compute)
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
        """Drop the argument itself in any capitals, and what the rules leave out."""
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
        """Return for each pair whether one word is a base form of the other."""
        roots = self._roots()
        width = np.int64(len(self.lexicon.texts))
        known = np.unique(roots.owners() * width + roots.values)
        owners, values = table.owners(), table.values.astype(np.int64)
        return np.isin(owners * width + values, known) | np.isin(values * width + owners, known)

    def _roots(self) -> Table:
        """Return for each English word the words that are its base forms, itself left out."""
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
        """Return for each word whether the predicate holds of it."""
        match = re.fullmatch(r"is_(pos|sentiment)_(\w+)\[(\w+)\]", name)
        assert match is not None
        lexicon = self.lexicon
        if match[1] == "pos":
            wanted = lexicon.pos == POS.index(_POS_NAMES[match[2]])
        elif lexicon.sentiment is None:
            raise DataError(
                f"{name} needs SentiWordNet, which this package does not carry; run 'taskloom data"
                " get nltk' or set NLTK_DATA, and use lexicon=nltk"
            )
        else:
            wanted = lexicon.sentiment == _SIGNS[match[2]]
        lemmas = lexicon.lemmas[match[3]]
        holds = np.zeros(len(lexicon.texts), dtype=np.bool_)
        holds[lemmas.values[wanted[lemmas.owners()]]] = True
        return holds


@lru_cache(maxsize=1)
def _code() -> str:
    """Return a digest of the code that computes relations, so that those of another version are
    left alone.
    """
    files = (__file__, lexicon.__file__, morphology.__file__, tables.__file__)
    return blake2b(b"".join(Path(file).read_bytes() for file in files), digest_size=12).hexdigest()


def _first(senses: Table) -> Table:
    starts = np.zeros_like(senses.starts)
    np.cumsum(senses.counts > 0, out=starts[1:])
    return Table(starts, senses.values[senses.starts[:-1][senses.counts > 0]])


def _parts(name: str) -> tuple[str, str, str]:
    match = re.fullmatch(r"(\w+)\[(\w+)(?:->(\w+))?\]", name)
    assert match is not None
    return match[1], match[2], match[3] or match[2]
