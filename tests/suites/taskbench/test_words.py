"""The lexical world against the reference's outputs and the authors' vocabularies."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from taskloom.core.errors import DataError
from taskloom.suites.taskbench import atoms
from taskloom.suites.taskbench.evaluation import evaluator
from taskloom.suites.taskbench.evaluation.derivations import Deriver
from taskloom.suites.taskbench.evaluation.evaluator import profile, solve
from taskloom.suites.taskbench.evaluation.second_solver import PlainSolver
from taskloom.suites.taskbench.language import normal, read, read_typed, type_of
from taskloom.suites.taskbench.worlds import corpora
from taskloom.suites.taskbench.worlds.words import (
    LexicalWorld,
    Rules,
    Words,
    lexicon,
    open_words,
    wordnet,
)
from taskloom.suites.taskbench.worlds.words.lexicon import open_lexicon


@pytest.fixture(scope="module")
def words(shared: Path) -> Words:
    return open_words("nltk", Rules(), "any", ())


@pytest.fixture(scope="module")
def english() -> Words:
    return open_words("packaged", Rules(), "other", ())


def test_vocabularies_are_the_authors(words: Words, shared: Path) -> None:
    for code, name, size in (("eng", "vocab_brown_5", 9_143), ("spa", "vocab_cess_1", 5_298)):
        theirs = set(
            (shared / "taskbench-resources" / f"{name}.tsv").read_text(encoding="utf-8").split("\n")
        ) - {""}
        ours = {words.texts[i] for i in words.vocabulary[code]}
        assert len(ours) == size
        assert ours == theirs


def test_every_vector_of_the_oracle_by_three_evaluators(words: Words, oracles: Path) -> None:
    plain = PlainSolver(words)
    lines = (oracles / "taskbench" / "lexical.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 140
    for line in lines:
        row = json.loads(line)
        expression, kind = read_typed(row["fn"])
        tree = normal(expression)
        wanted = set(row["output"])
        assert set(Deriver(tree, kind, words)(row["input"]).targets) == wanted, row["fn"]
        number = np.array([words.numbers[row["input"]]], dtype=np.int32)
        assert {words.shown[i] for i in evaluator.values(tree, number, words).values} == wanted, (
            row["fn"]
        )
        assert {v.replace("_", " ") for v in plain.relation(expression, row["input"])} == wanted, (
            row["fn"]
        )


def test_domain_sizes_and_means_of_the_oracle(words: Words, oracles: Path) -> None:
    domains = json.loads((oracles / "taskbench" / "lexical_domains.json").read_text())
    assert len(domains) == 72
    for name, wanted in domains.items():
        expression, kind = read_typed(name)
        solved = solve(normal(expression), kind, words)
        assert len(solved.domain) == wanted["n"], name
        if "random" not in name:
            counts = solved.answers.counts
            # The oracle prints two decimals; its unions with a random relation depend on its own
            # draw.
            assert round(float(counts.mean()), 2) == wanted["mean_out"], name
            assert int(np.median(counts)) == wanted["median_out"] or np.median(counts) % 1, name


def test_base_rates_of_the_predicates(words: Words) -> None:
    rows = words.vocabulary["eng"]
    wanted = {
        "is_pos_noun[eng]": 6_009,
        "is_pos_verb[eng]": 2_329,
        "is_pos_adjective[eng]": 3_328,
        "is_pos_adverb[eng]": 780,
        "is_sentiment_positive[eng]": 3_489,
        "is_sentiment_negative[eng]": 2_958,
        "is_sentiment_neutral[eng]": 7_492,
    }
    for name, count in wanted.items():
        assert int(evaluator.holds(read(name), rows, words).sum()) == count, name
        found = profile(solve(read(name), type_of(read(name), atoms.signature), words))
        assert found.majority == pytest.approx(max(count, 9_143 - count) / 9_143)


def test_packaged_english_equals_the_official_files(words: Words, english: Words) -> None:
    for name in (
        "synonyms[eng]",
        "antonyms[eng]",
        "hyponyms[eng]",
        "hypernyms[eng]",
        "entailments[eng]",
    ):
        ours, theirs = english.relation(name), words.relation(name)
        for number in np.arange(0, len(english.texts), 97).tolist():
            text = english.texts[number]
            mine = {english.texts[i] for i in ours.row(number)}
            assert mine == {words.texts[i] for i in theirs.row(words.numbers[text])}, (name, text)


def test_packaged_table_is_small_and_works_alone(english: Words) -> None:
    assert wordnet.PACKAGED.stat().st_size < 2_000_000
    assert len(english.vocabulary["eng"]) == 8_131
    assert set(english.look("antonyms[eng]", "hot")) == {"cold"}
    assert "oak" in english.look("hyponyms[eng]", "plant")
    assert english.look("synonyms[eng]", "mice") == english.look("synonyms[eng]", "mice")
    assert "mouse" in english.look("synonyms[eng]", "mice")
    with pytest.raises(DataError, match="SentiWordNet"):
        english.predicate("is_sentiment_positive[eng]")


def test_options_differ_from_strict_in_the_documented_way(english: Words) -> None:
    lexicon = english.lexicon
    tidy = open_words("packaged", Rules(inflections=False), "other", ())
    assert "bone" in english.look("synonyms[eng]", "bones")
    assert "bone" not in tidy.look("synonyms[eng]", "bones")
    first = Words(lexicon, Rules(senses="first"))
    limited = Words(lexicon, Rules(outputs="vocabulary"))
    common = {english.texts[i] for i in english.vocabulary["eng"]}
    for text in ("bank", "run", "plant", "light"):
        assert set(first.look("synonyms[eng]", text)) < set(english.look("synonyms[eng]", text))
        assert set(limited.look("hyponyms[eng]", text)) == common & set(
            english.look("hyponyms[eng]", text)
        )


def test_the_cache_is_used_and_a_damaged_one_is_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TASKLOOM_CACHE", str(tmp_path))
    open_lexicon.cache_clear()
    try:
        first = open_lexicon("synthetic")
        (place,) = (tmp_path / "taskbench").iterdir()
        with monkeypatch.context() as patch:
            patch.setattr(
                lexicon,
                "compile_raw",
                lambda *_: pytest.fail("compiled although the cache is whole"),
            )
            open_lexicon.cache_clear()
            assert open_lexicon("synthetic").texts == first.texts
        (place / "fold.npy").write_bytes(b"damaged")
        open_lexicon.cache_clear()
        assert (open_lexicon("synthetic").fold == first.fold).all()
        assert [p.name for p in (tmp_path / "taskbench").iterdir()] == [place.name]
    finally:
        open_lexicon.cache_clear()


def test_relations_and_hashes_are_computed_once_for_a_lexicon(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from taskloom.suites.taskbench.worlds import random_relations

    lexicon = open_lexicon("synthetic")
    monkeypatch.setenv("TASKLOOM_CACHE", str(tmp_path))
    names = ("hyponyms[eng]", "random0[eng]")

    def relations(words: Words) -> list[list[int]]:
        return [
            array.tolist()
            for name in names
            for array in (words.relation(name).starts, words.relation(name).values)
        ]

    def fail(texts: object) -> np.ndarray:
        assert not texts, "computed although it is in the cache"
        return np.zeros(0, np.uint64)

    first = relations(Words(lexicon))
    with monkeypatch.context() as patch:
        patch.setattr(LexicalWorld, "_relation", lambda _, name: fail(name))
        patch.setattr(random_relations, "text_hashes", fail)
        assert relations(Words(lexicon)) == first
    assert relations(Words(replace(lexicon, place=""))) == first
    assert relations(Words(lexicon, Rules(senses="first"))) != first


@pytest.mark.parametrize("damage", ["empty", "header", "missing"])
def test_a_damaged_array_is_computed_again(
    damage: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TASKLOOM_CACHE", str(tmp_path))
    arrays = {"a": np.arange(3), "b": np.arange(4)}
    lexicon.store_arrays("thing", arrays, "text")
    file = tmp_path / "taskbench" / "thing" / "a.npy"
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(b"" if damage == "empty" else file.read_bytes().replace(b"}", b" ", 1))
    assert lexicon.load_arrays("thing") is None
    assert lexicon.cached_arrays("thing", lambda: arrays)["a"].tolist() == [0, 1, 2]
    entry = lexicon.load_arrays("thing")
    assert entry is not None
    assert sorted(entry[0]) == ["a", "b"]


@pytest.mark.parametrize(
    "module", ["tables", "worlds.words", "worlds.words.lexicon", "worlds.words.wordnet"]
)
def test_relations_of_other_code_have_other_names(
    module: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from taskloom.suites.taskbench.worlds import words

    before = words._code.__wrapped__()
    (tmp_path / "changed.py").write_text("")
    monkeypatch.setattr(
        import_module(f"taskloom.suites.taskbench.{module}"),
        "__file__",
        str(tmp_path / "changed.py"),
    )
    assert words._code.__wrapped__() != before


def test_without_a_writable_cache_the_arrays_stay_in_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("TASKLOOM_CACHE", str(tmp_path / "file"))
    assert lexicon.store_arrays("thing", {"a": np.arange(3)}, "text") is False
    assert lexicon.load_arrays("thing") is None


def test_a_missing_corpus_is_one_clear_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(corpora, "trees", lambda: [tmp_path])
    with pytest.raises(DataError, match="taskloom data get nltk"):
        corpora.get("wordnet")


def test_unpacked_corpora_and_wrong_wordnet_files(shared: Path, tmp_path: Path) -> None:
    import zipfile

    from taskloom.suites.taskbench.worlds.words.wordnet import WordNet, read_spanish

    with zipfile.ZipFile(shared / "nltk_data" / "corpora" / "omw-1.4.zip") as archive:
        archive.extractall(tmp_path / "corpora")
    corpus = corpora.Corpus("omw-1.4", tmp_path / "corpora" / "omw-1.4")
    assert corpus.names() == ["spa/wn-data-spa.tab"]
    assert len(corpus.digest()) == 32
    with pytest.raises(DataError, match="not the official WordNet"):
        read_spanish(corpus, WordNet())


@pytest.mark.slow
def test_the_packaged_table_holds_the_official_files(shared: Path) -> None:
    from taskloom.suites.taskbench.worlds.words.wordnet import read_wordnet

    corpus = corpora.get("wordnet")
    net = read_wordnet(corpus)
    again = wordnet.unpack(wordnet.PACKAGED.read_bytes())
    assert (again.pos, again.lemmas, again.index, again.counts) == (
        net.pos,
        net.lemmas,
        net.index,
        net.counts,
    )
    assert {k: sorted(v) for k, v in again.links.items()} == {
        k: sorted(v) for k, v in net.links.items()
    }
    assert again.exceptions == net.exceptions
