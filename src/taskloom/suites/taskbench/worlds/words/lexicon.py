"""The lexicon: WordNet's words, senses and links as arrays, compiled once and cached.

An entry in the array cache is a folder with `.npy` files, a list of them, and a text file. Its name
is a digest of everything it was computed from. It is written to a temporary folder and renamed, so
that two processes may compute the same entry, and a killed process leaves no partial entry. If the
cache cannot be written, each process computes the arrays again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from hashlib import blake2b
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from taskloom.core.errors import DataError
from taskloom.core.files import atomic_folder, cache_folder
from taskloom.core.plan import Source
from taskloom.suites.taskbench.tables import Table, of_sets
from taskloom.suites.taskbench.worlds import corpora
from taskloom.suites.taskbench.worlds.words import invented_words
from taskloom.suites.taskbench.worlds.words.wordnet import (
    ENDINGS,
    POS,
    RawLexicon,
    WordNet,
    bases,
    brown_counts,
    cess_words,
    packaged_digest,
    read_packaged,
    read_sentiment,
    read_spanish,
    read_wordnet,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[np.generic]]

LIST = "arrays"
"""Name of the file that lists the arrays of an entry, so that a missing one is noticed."""


def load_arrays(name: str) -> tuple[Arrays, str] | None:
    """Return the arrays (memory-mapped) and the text of an entry, or None if it is missing or
    damaged.
    """
    place = cache_folder("taskbench", name)
    try:
        text = (place / "text").read_text(encoding="utf-8")
        names = (place / LIST).read_text(encoding="utf-8").split()
        return {key: np.load(place / f"{key}.npy", mmap_mode="r") for key in names}, text
    # NumPy raises EOFError for an empty file, and TokenError for a header that is cut off.
    except (OSError, ValueError, EOFError, TokenError):
        return None


def cached_arrays(
    name: str, compute: Callable[[], Mapping[str, NDArray[Any]]]
) -> Mapping[str, NDArray[Any]]:
    """Return the arrays of an entry. If it is missing, compute and store them."""
    entry = load_arrays(name)
    if entry is not None:
        return entry[0]
    arrays = compute()
    store_arrays(name, arrays, "")
    return arrays


def store_arrays(name: str, arrays: Mapping[str, NDArray[Any]], text: str) -> bool:
    """Store arrays and a text under a name. Return False if the cache cannot be written."""
    place = cache_folder("taskbench", name)
    try:
        if place.exists() and load_arrays(name) is None:
            shutil.rmtree(place, ignore_errors=True)
        with atomic_folder(place) as beside:
            for key, array in arrays.items():
                np.save(beside / f"{key}.npy", array)
            (beside / LIST).write_text("\n".join(arrays), encoding="utf-8")
            (beside / "text").write_text(text, encoding="utf-8")
    except OSError:
        # The folder is read-only or full, but the arrays in memory are still valid.
        return load_arrays(name) is not None
    return True


T = TypeVar("T")

FORMAT = 1
"""Version of the compiled arrays. Raise it whenever they change, so that older cache entries are
ignored.
"""

LEAST_BROWN = 5
"""Minimum occurrences of a vocabulary word in the Brown corpus. The paper says more than 5, but "at
least 5" gives exactly the authors' 9,143 words.
"""

LINKS = ("hyponyms", "hypernyms", "entailments", "antonyms")
CLOSED = ("hyponyms", "hypernyms", "entailments")
"""Links that are followed to any depth."""


@dataclass(frozen=True)
class Lexicon:
    """Words and their meanings, as arrays. A word is an index into `texts`, and a sense is the
    index of a synset.

    Attributes:
        texts: Every lemma name of both languages, as written in WordNet (underscores, capitals),
            sorted.
        fold: For each word, the first word that is equal to it except for capitals.
        senses: For each language, the senses of every word, the most frequent first.
        lemmas: For each language, the words of every sense.
        links: Direct links between senses.
        closed: Transitive closures of the links that are followed to any depth.
        pos: Part of speech of each sense, as an index into "nvar".
        sentiment: Sign of each sense's sentiment, or None if SentiWordNet was not available.
        vocabulary: For each language, the words from which inputs are drawn.
        exceptions: For each part of speech, irregular forms with their base forms.
        sources: Digests of the files it was compiled from.
        place: Name of its entry in the array cache; empty if it was not compiled from files.
    """

    texts: list[str]
    fold: NDArray[np.int32]
    senses: Mapping[str, Table]
    lemmas: Mapping[str, Table]
    links: Mapping[str, Table]
    closed: Mapping[str, Table]
    pos: NDArray[np.uint8]
    sentiment: NDArray[np.int8] | None
    vocabulary: Mapping[str, NDArray[np.int32]]
    exceptions: Mapping[str, Mapping[str, list[str]]]
    sources: tuple[Source, ...]
    place: str = ""

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Index of each text."""
        return {text: i for i, text in enumerate(self.texts)}

    @cached_property
    def shown(self) -> list[str]:
        """Every text as written in examples, with spaces instead of underscores."""
        return [text.replace("_", " ").strip() for text in self.texts]

    @cached_property
    def written(self) -> dict[str, Table]:
        """For each language, the senses of each word that list exactly this spelling as a lemma."""
        return {code: table.flipped(len(self.texts)) for code, table in self.lemmas.items()}

    @cached_property
    def base_forms(self) -> dict[str, dict[str, list[int]]]:
        """For each part of speech, maps lower-case base forms, the possible results of morphology,
        to their words.
        """
        forms: dict[str, dict[str, list[int]]] = {p: {} for p in POS}
        owners = self.lemmas["eng"].owners()
        pairs = np.unique(
            np.stack((self.pos[owners].astype(np.int64), self.lemmas["eng"].values)), axis=1
        )
        for pos, word in pairs.T.tolist():
            forms[POS[pos]].setdefault(self.texts[word].lower(), []).append(word)
        return forms

    def bases(self, text: str) -> dict[str, list[str]]:
        """Return the base forms of an English text for each part of speech."""
        form = text.lower()
        return {p: bases(form, p, self.base_forms[p], self.exceptions[p]) for p in POS}

    def find(self, text: str, language: str) -> tuple[int, ...]:
        """Return the senses of any text: from the table for a word of the lexicon, by morphology
        for other English forms.
        """
        written = text.strip().replace(" ", "_")
        number = self.numbers.get(written)
        if number is not None:
            listed = tuple(self.senses[language].row(number).tolist())
            if listed:
                return listed
        form = written.lower()
        if language != "eng":
            number = self.numbers.get(form)
            return () if number is None else tuple(self.senses[language].row(number).tolist())
        senses: list[int] = []
        for p, forms in self.bases(form).items():
            for base in forms:
                for word in self.base_forms[p][base]:
                    for sense in self.senses["eng"].row(word).tolist():
                        if POS[self.pos[sense]] == p:
                            senses.append(sense)
        return tuple(dict.fromkeys(senses))


@lru_cache(maxsize=3)
def open_lexicon(name: str) -> Lexicon:
    """Open a lexicon: `nltk` (the paper's, from an NLTK data tree), `packaged` (English) or
    `synthetic` (invented).
    """
    if name == "synthetic":
        return _cached(
            "synthetic", (Source("invented-words", invented_words.digest()),), invented_words.read
        )
    if name == "packaged":
        source = Source("wordnet-3.0-english", packaged_digest())
        return _cached("packaged", (source,), read_packaged)
    trees = {name: corpora.get(name) for name in corpora.WANTED}
    sources = tuple(Source(f"nltk/{name}", corpus.digest()) for name, corpus in trees.items())
    return _cached("nltk", sources, lambda: _read_nltk(trees))


def _read_nltk(trees: Mapping[str, corpora.Corpus]) -> RawLexicon:
    net = _whole(trees["wordnet"], read_wordnet)
    english_words = {lemma for row in net.lemmas for lemma in row}
    if net.index.keys() != {word.lower() for word in english_words}:
        raise _damaged(trees["wordnet"], "its index and its data list different words")
    spanish = _whole(trees["omw-1.4"], lambda corpus: read_spanish(corpus, net))
    spanish_words = {lemma for row in spanish for lemma in row}
    counts = _whole(trees["brown"], brown_counts)
    treebank = _whole(trees["cess_esp"], cess_words)
    for name, words in (("omw-1.4", spanish_words), ("brown", counts), ("cess_esp", treebank)):
        if not words:
            raise _damaged(trees[name], "no word was found in it")
    return RawLexicon(
        net,
        spanish,
        _whole(trees["sentiwordnet"], lambda corpus: read_sentiment(corpus, net)),
        {
            "eng": [w for w, n in counts.items() if n >= LEAST_BROWN and w in english_words],
            "spa": [w for w in treebank if w in spanish_words and "_" not in w],
        },
    )


def _whole(corpus: corpora.Corpus, read: Callable[[corpora.Corpus], T]) -> T:
    """Read a corpus. Any error of the reader means that the corpus is damaged."""
    try:
        return read(corpus)
    except (ValueError, LookupError) as error:
        raise _damaged(corpus, str(error) or type(error).__name__) from error


def _damaged(corpus: corpora.Corpus, why: str) -> DataError:
    return DataError(
        f"{corpus.path} is damaged or has an unsupported version ({why[:100]}); get the corpus "
        "again"
    )


def _cached(name: str, sources: tuple[Source, ...], read: Any) -> Lexicon:
    fingerprint = blake2b(f"{FORMAT}:{sources}".encode(), digest_size=12).hexdigest()
    place = f"lexicon-{name}-{fingerprint}"
    compiled = load_arrays(place)
    if compiled is None:
        compiled = compile_raw(read())
        store_arrays(place, *compiled)
    return replace(_lexicon(*compiled, sources), place=place)


def compile_raw(raw: RawLexicon) -> tuple[dict[str, NDArray[Any]], str]:
    """Compute the arrays and the text of a lexicon."""
    net = raw.net
    lemmas: set[str] = set()
    lemmas.update(*net.lemmas, *raw.spanish)
    texts = sorted(lemmas)
    numbers = {text: i for i, text in enumerate(texts)}
    first: dict[str, int] = {}
    fold = np.array(
        [first.setdefault(text.lower(), i) for i, text in enumerate(texts)], dtype=np.int32
    )
    tables = {
        "lemmas_eng": of_sets([sorted(numbers[w] for w in set(row)) for row in net.lemmas]),
        "lemmas_spa": of_sets([sorted(numbers[w] for w in row) for row in raw.spanish]),
        "senses_eng": _english_senses(net, texts),
        "senses_spa": _spanish_senses(raw, texts),
    }
    for link in LINKS:
        pairs = np.array(net.links[link], dtype=np.int64).reshape(-1, 2)
        tables[link] = Table.of_pairs(pairs[:, 0], pairs[:, 1], len(net.pos))
    for link in CLOSED:
        closed = tables[link].closure()
        # WordNet's verbs contain a cycle, but no sense is a kind of itself.
        tables[f"all_{link}"] = closed.keep(closed.owners() != closed.values)
    arrays: dict[str, NDArray[Any]] = {
        "fold": fold,
        "pos": np.array([POS.index(p) for p in net.pos], dtype=np.uint8),
        **{
            f"vocabulary_{k}": np.array(sorted(numbers[w] for w in words), dtype=np.int32)
            for k, words in raw.vocabulary.items()
        },
    }
    if raw.sentiment is not None:
        arrays["sentiment"] = np.array(raw.sentiment, dtype=np.int8)
    for name, table in tables.items():
        arrays[f"{name}-starts"], arrays[f"{name}-values"] = table.starts, table.values
    irregular = [
        " ".join((p, form, *base)) for p in POS for form, base in net.exceptions[p].items()
    ]
    return arrays, "\n".join([str(len(texts)), *texts, *irregular])


INFLECTED = tuple({ending for endings in ENDINGS.values() for ending in endings})
"""Endings of forms that may have a base form."""


def _english_senses(net: WordNet, texts: list[str]) -> Table:
    """Rank the senses of every text: by frequency, then nouns first, then in WordNet's order."""
    english = {lemma for row in net.lemmas for lemma in row}
    irregular = {form for p in POS for form in net.exceptions[p]}
    forms_of: dict[str, set[str]] = {p: set() for p in POS}
    for form, row in net.index.items():
        for pos in {net.pos[sense] for sense in row}:
            forms_of[pos].add(form)
    memo: dict[str, list[int]] = {}

    def senses(text: str) -> list[int]:
        form = text.lower()
        if form not in memo:
            if form.endswith(INFLECTED) or form in irregular:
                memo[form] = _inflected_senses(net, form, forms_of)
            else:
                memo[form] = _own_senses(net.index.get(form, ()), net.counts.get(form, ()))
        return memo[form]

    return of_sets([senses(text) if text in english else [] for text in texts])


def _own_senses(row: Sequence[int], counts: Sequence[int]) -> list[int]:
    """Rank the senses of a form whose only base form is the form itself. The index lists them by
    part of speech.
    """
    if not any(counts):
        return list(dict.fromkeys(row))
    return list(
        dict.fromkeys(
            sense for _, sense in sorted(zip(counts, row, strict=True), key=_most_frequent)
        )
    )


def _most_frequent(counted: tuple[int, int]) -> int:
    return -counted[0]


def _inflected_senses(
    net: WordNet, form: str, forms_of: Mapping[str, Collection[str]]
) -> list[int]:
    """Rank the senses of a form and of its base forms."""
    ranked = []
    for rank, p in enumerate(POS):
        for base in bases(form, p, forms_of[p], net.exceptions[p]):
            for place, (sense, count) in enumerate(
                zip(net.index[base], net.counts[base], strict=True)
            ):
                if net.pos[sense] == p:
                    ranked.append((-count, rank, place, sense))
    return list(dict.fromkeys(sense for *_, sense in sorted(ranked)))


def _spanish_senses(raw: RawLexicon, texts: list[str]) -> Table:
    """Rank Spanish senses by the counts of the English words that share them, because there are no
    Spanish counts.
    """
    if not any(raw.spanish):
        return Table.empty(len(texts))
    weight = [0] * len(raw.net.pos)
    for form, row in raw.net.index.items():
        for sense, count in zip(row, raw.net.counts[form], strict=True):
            weight[sense] += count
    senses_of: dict[str, list[int]] = {}
    for sense, lemmas in enumerate(raw.spanish):
        for lemma in lemmas:
            senses_of.setdefault(lemma.lower(), []).append(sense)
    for form, senses in senses_of.items():
        senses_of[form] = sorted(set(senses), key=lambda s: (-weight[s], s))
    spanish = {lemma for lemmas in raw.spanish for lemma in lemmas}
    return of_sets([senses_of[text.lower()] if text in spanish else [] for text in texts])


def _lexicon(arrays: Mapping[str, NDArray[Any]], text: str, sources: tuple[Source, ...]) -> Lexicon:
    count, _, rest = text.partition("\n")
    lines = rest.split("\n")
    exceptions: dict[str, dict[str, list[str]]] = {p: {} for p in POS}
    for line in lines[int(count) :]:
        if line:
            pos, form, *base = line.split(" ")
            exceptions[pos][form] = base

    def table(name: str) -> Table:
        return Table(np.asarray(arrays[f"{name}-starts"]), np.asarray(arrays[f"{name}-values"]))

    return Lexicon(
        texts=lines[: int(count)],
        fold=np.asarray(arrays["fold"]),
        senses={code: table(f"senses_{code}") for code in ("eng", "spa")},
        lemmas={code: table(f"lemmas_{code}") for code in ("eng", "spa")},
        links={link: table(link) for link in LINKS},
        closed={link: table(f"all_{link}") for link in CLOSED},
        pos=np.asarray(arrays["pos"]),
        sentiment=np.asarray(arrays["sentiment"]) if "sentiment" in arrays else None,
        vocabulary={code: np.asarray(arrays[f"vocabulary_{code}"]) for code in ("eng", "spa")},
        exceptions=exceptions,
        sources=sources,
    )
