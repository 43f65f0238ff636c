"""Whatever is wrong, it is said in one clear sentence with exit status 2, and nothing half-made
stays.
"""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pytest

from taskloom.cli import app
from taskloom.suites.taskbench.worlds.words import open_words
from taskloom.suites.taskbench.worlds.words.lexicon import open_lexicon
from tests.slow import slow_except


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What is said about a command that must be refused; the lines below the sentence echo the
    expression.
    """
    capsys.readouterr()
    assert app.run(list(arguments)) == 2
    said = capsys.readouterr().err
    assert said.startswith("taskloom: ")
    assert said.count("\n") in (1, 3), said
    return said


EXPRESSIONS = [
    ("(", "expected a name"),
    ("father(", "found the end"),
    ("map()", "expects 1 or 2 operands, but here it has 0"),
    ("chain(father)", "expects 2 or more operands"),
    (f"chain({', '.join(['synonyms[eng]'] * 60)})", "has 60 functions, but at most 32"),
    (
        f"chain(synonyms[eng], chain({', '.join(['synonyms[eng]'] * 32)}))",
        "has 33 functions, but at most 32",
    ),
    (
        "chain(father, antonyms[eng])",
        "this expects an entity, but the previous function gives English words",
    ),
    ("chain(antonyms[eng], translate[eng->spa])", "an English word"),
    ("union(synonyms[eng], synonyms[spa])", "must have the same type"),
    ("filter(father)", "filter expects a predicate"),
    ("map(is_pos_noun[eng])", "map expects a relation"),
    ("antonyms[deu]", "did you mean 'antonyms[eng]'"),
    ("syn\u043enyms[eng]", "did you mean 'synonyms[eng]'"),  # a Cyrillic o
    ("\uff46ather", "did you mean 'father'"),  # a full-width f
    ("father\u200b", "found '\\u200b'"),
    ("random-1[eng]", "unknown atom 'random-1[eng]'"),
    ("random-seed-2[eng]", "did you mean 'random2[eng]'"),
    ("random{-1}[eng]", "found '-'"),
    ("random99999999999999[eng]", "unknown atom"),
    ("randomK[eng]", "unknown atom"),
    ("is{father=}", "expected a value"),
    ("'; DROP ALL", "expected a name"),
    ("lnot(" * 300 + "is_pos_noun[eng]" + ")" * 300, "more than 60"),
    ("intersection(antonyms[eng], entailments[eng])", "fewer than 100 examples"),
    ("intersection(father, mother)", "fewer than 100 examples"),
]


@pytest.mark.parametrize(("expression", "says"), EXPRESSIONS)
def test_expressions(expression: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert says in refused(capsys, "show", f"taskbench/{expression}")


FIELDS = [
    ("functions=3", "functions: should be"),
    ("catalog={families: [lexikal]}", "not 'lexikal'"),
    ("sequences.length=0", "greater than or equal to 1"),
    ("shares={test: 1}", "'train'"),
    ("shares={train: .inf, test: 1}", "a finite number"),
    ("minimum=0", "minimum"),
    ("facts=nowhere", "not a source of facts"),
    ("facts=synthetic#peple=3", "did you mean 'people'"),
    ("facts=http://127.0.0.1:99999/x", "is not the address of an endpoint"),
    ("facts=42", "facts: should be"),
    ("lexicon=klingon", "'packaged', 'nltk' or 'synthetic'"),
    ("compose={atoms: ['chain(father, mother)']}", "compose needs atoms"),
    ("compose={atoms: [fater]}", "did you mean 'father'"),
    ("compose={compositions: [glue]}", "'glue' is not a kind of composition"),
    ("compose.atoms=[]", "75 atoms in 9 kinds of compositions give more than 5,000 functions"),
    (
        "compose={compositions: [chain], atoms: ["
        + ", ".join(f"'random{k}[eng]'" for k in range(999))
        + "]}",
        "999 atoms",
    ),
    ("extra=1", "unknown key 'extra'"),
]


@pytest.mark.parametrize(("change", "says"), FIELDS)
def test_fields(change: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert says in refused(capsys, "show", "taskbench/father", "--set", change)


FILES = [
    (
        "cut.nt.gz",
        gzip.compress(b"<http://a.b/c> <http://a.b/d> <http://a.b/e> .\n" * 99, mtime=0)[:40],
        "damaged or cut off",
    ),
    ("junk.nt.gz", b"no gzip at all", "damaged or cut off"),
    ("junk.nt", b"hello world\n", "line 1 is not N-Triples"),
    ("latin.nt", '<http://a.b/c> <http://a.b/d> "Zoë"@en .\n'.encode("latin-1"), "not N-Triples"),
    ("empty.nt", b"", "father (0)"),
]


@pytest.mark.parametrize(("name", "content", "says"), FILES)
def test_files_of_facts(
    name: str, content: bytes, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    assert says in refused(
        capsys,
        "make",
        "taskbench/father",
        "-o",
        str(tmp_path / "x"),
        "--set",
        f"facts={tmp_path / name}",
    )
    assert not (tmp_path / "x").exists()


@pytest.fixture
def tree(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An NLTK tree with WordNet unpacked, to be damaged; nothing compiled before is used."""
    corpora = tmp_path / "nltk_data" / "corpora"
    corpora.mkdir(parents=True)
    for path in (shared / "nltk_data" / "corpora").iterdir():
        if path.stem != "wordnet":
            (corpora / path.name).symlink_to(path)
    with zipfile.ZipFile(shared / "nltk_data" / "corpora" / "wordnet.zip") as packed:
        packed.extractall(corpora)
    for name, value in (
        ("TASKLOOM_DATA", tmp_path),
        ("TASKLOOM_CACHE", tmp_path / "cache"),
        ("HOME", tmp_path),
    ):
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("NLTK_DATA", raising=False)
    open_lexicon.cache_clear()
    open_words.cache_clear()
    return corpora


@pytest.mark.parametrize("fault", slow_except(["cut", "number", "byte"], "number"))
def test_damaged_wordnet_files(tree: Path, fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("show", "taskbench/synonyms[spa]")
    nouns = tree / "wordnet" / "data.noun"
    whole = nouns.read_bytes()
    faults = {"cut": whole[:1_000_000], "byte": b"\xff" + whole}
    faults["number"] = whole.replace(b"00001740 03 n 01", b"00001740 03 n zz", 1)
    nouns.write_bytes(faults[fault])
    assert "wordnet is damaged" in refused(capsys, *asked)
    nouns.unlink()
    assert "has no file data.noun" in refused(capsys, *asked)
    nouns.write_bytes(whole)
    index = tree / "wordnet" / "index.verb"
    index.write_bytes(index.read_bytes()[:200_000].rpartition(b"\n")[0])
    assert "list different words" in refused(capsys, *asked)


def test_missing_and_damaged_corpora(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "brown.zip").unlink()
    (tree / "brown.zip").write_bytes(b"PK\x03\x04junk")
    assert "not a zip file" in refused(capsys, "show", "taskbench/synonyms[spa]")
    (tree / "brown.zip").unlink()
    said = refused(capsys, "show", "taskbench/synonyms[spa]")
    assert "'brown'" in said
    assert "taskloom data get nltk" in said
    # A tree that lacks a corpus is not the whole resource.
    from taskloom.core.resources import resource

    assert resource("nltk").find() is None


def test_functions_are_no_stories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        app.run(
            [
                "make",
                "taskbench/father",
                "-o",
                str(tmp_path / "x"),
                "--set",
                "facts=synthetic#people=600",
            ]
        )
        == 0
    )
    asked = (
        "export",
        str(tmp_path / "x"),
        "--split",
        "test",
        "--format",
        "babi",
        "-o",
        str(tmp_path / "y"),
    )
    assert "is of taskbench, which offers no format of its own" in refused(capsys, *asked)
    assert not (tmp_path / "y").exists()


def test_facts_that_changed_are_never_mixed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second make once kept the shards of the old file and made the others from the new one."""
    from taskloom.suites.taskbench.worlds.facts import open_world
    from taskloom.suites.taskbench.worlds.facts.rdf import write_ntriples

    file, out = tmp_path / "facts.nt.gz", tmp_path / "x"
    made = ("make", "taskbench/father", "-o", str(out), "--set", f"facts={file}")
    write_ntriples(open_world("synthetic#people=600&seed=1"), file)
    assert app.run([*made]) == 0
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    assert app.run([*made]) == 0
    write_ntriples(open_world("synthetic#people=600&seed=2"), file)
    assert "its data files have changed" in refused(capsys, *made)
    assert "facts.nt.gz has changed since the dataset was made" in refused(
        capsys, "verify", str(out)
    )
    assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == before
    # Interrupted before its manifest was written, it is no other.
    (out / "manifest.json").unlink()
    assert "its data files have changed" in refused(capsys, *made)


def test_the_docs_say_how_deep_operators_nest() -> None:
    from taskloom.suites.taskbench.language.operators import MOST_STEPS
    from taskloom.suites.taskbench.language.parser import DEEPEST

    page = Path(__file__).parents[3] / "docs" / "suites" / "functions.md"
    assert f"brackets up to {DEEPEST} deep" in page.read_text(encoding="utf-8")
    assert f"has up to {MOST_STEPS} functions" in page.read_text(encoding="utf-8")
