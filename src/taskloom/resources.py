"""Outside resources: what is here, what is missing, and how to get it. Nothing is fetched unless somebody asks by name.

A resource is looked for in `TASKLOOM_DATA`, then in the cache folder (`TASKLOOM_CACHE`, by default
`~/.cache/taskloom`); the NLTK tree also where NLTK itself looks (`NLTK_DATA`).
"""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from taskloom.errors import DataError, MissingExtra, TaskloomError, nearest
from taskloom.files import cache_folder

NLTK_CORPORA = ("wordnet", "omw-1.4", "sentiwordnet", "brown", "cess_esp")


@dataclass(frozen=True, slots=True)
class Resource:
    """Something outside the package that a suite can use.

    Attributes:
        name: What `taskloom data get` takes.
        describe: What it is and which suite uses it.
        marks: Paths below a data folder, all of which are there (also as zip files) when the resource is.
        variables: Further environment variables that name a folder in which `marks` are looked for, less their first part.
        fetch: Puts it into a folder, or None where its owners do not offer a download that needs no agreement.
    """

    name: str
    describe: str
    marks: tuple[str, ...]
    variables: tuple[str, ...] = ()
    fetch: Callable[[Path], None] | None = None

    def find(self) -> Path | None:
        """The folder that holds the resource, or None."""
        for base in (os.environ.get("TASKLOOM_DATA"), str(cache_folder() / "data")):
            if base and all(_there(Path(base) / mark) for mark in self.marks):
                return Path(base) / self.marks[0].split("/")[0]
        for variable in self.variables:
            for base in filter(None, os.environ.get(variable, "").split(os.pathsep)):
                if all(_there(Path(base) / mark.partition("/")[2]) for mark in self.marks):
                    return Path(base)
        return None


def _there(path: Path) -> bool:
    return path.exists() or path.with_name(path.name + ".zip").exists()


def download(url: str, path: Path) -> None:
    """Fetch a file; an interrupted download goes on where it stopped."""
    part = path.with_name(path.name + ".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    done = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={done}-"} if done else {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            whole = answer.status != 206
            with part.open("wb" if whole else "ab") as file:
                shutil.copyfileobj(answer, file)
            promised = answer.headers.get("Content-Length")
            got = part.stat().st_size - (0 if whole else done)
    except (urllib.error.URLError, TimeoutError, OSError) as error:
        raise DataError(
            f"{url} cannot be fetched ({error}); what came is kept: run the same command again to go on"
        ) from error
    if promised is not None and got != int(promised):
        raise DataError(f"{url} broke off after {got} of {promised} bytes; run the same command again to go on")
    part.replace(path)


def _fetch_nltk(folder: Path) -> None:
    try:
        import nltk
    except ImportError as error:
        raise MissingExtra("fetching the NLTK tree", "nltk", "lexical") from error
    target = folder / "nltk_data"
    target.mkdir(parents=True, exist_ok=True)
    for corpus in NLTK_CORPORA:
        # What NLTK prints of a failure (four lines) is said below in one sentence.
        if not nltk.download(corpus, download_dir=str(target), quiet=True, print_error_to=io.StringIO()):
            raise DataError(
                f"NLTK could not fetch '{corpus}'; is there a network? Or set NLTK_DATA to a tree that has it"
            )


BABI_URL = "http://www.thespermwhale.com/jaseweston/babi/tasks_1-20_v1-2.tar.gz"


def _fetch_babi(folder: Path) -> None:
    archive = folder / "babi.tar.gz"
    download(BABI_URL, archive)
    unpack_babi(archive, folder / "babi")


def unpack_babi(archive: Path, target: Path) -> None:
    """Take the English text files out of the official archive."""
    try:
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                parts = Path(member.name).parts
                if member.isfile() and len(parts) >= 2 and parts[-2] == "en" and parts[-1].endswith(".txt"):
                    source = tar.extractfile(member)
                    assert source is not None
                    (target / "en").mkdir(parents=True, exist_ok=True)
                    (target / "en" / parts[-1]).write_bytes(source.read())
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"{archive} is damaged ({error}); remove it and run the same command again") from error


RESOURCES = {
    r.name: r
    for r in (
        Resource(
            "nltk",
            "WordNet 3.0, Spanish OMW, SentiWordNet, Brown, CESS (taskbench: the paper's vocabularies, Spanish, sentiment)",
            tuple(f"nltk_data/corpora/{corpus}" for corpus in NLTK_CORPORA),
            ("NLTK_DATA",),
            _fetch_nltk,
        ),
        Resource(
            "babi", "the published bAbI 1.0 text files (babi: concat and inject splits)", ("babi/en",), (), _fetch_babi
        ),
        Resource(
            "wikidata", "a Wikidata subset as N-Triples (taskbench: factual tasks)", ("wikidata/wikidata-subset.nt.gz",)
        ),
        Resource("zest", "the ZEST files (zest: its own tasks)", ("zest/train.jsonl", "zest/dev.jsonl")),
    )
}


def resource(name: str) -> Resource:
    """The resource of that name."""
    if name not in RESOURCES:
        raise TaskloomError(f"no resource is called '{name}'; {nearest(name, RESOURCES)}")
    return RESOURCES[name]


def get(name: str) -> Path:
    """Fetch a resource into the cache, unless it is here already."""
    wanted = resource(name)
    found = wanted.find()
    if found is not None:
        return found
    if wanted.fetch is None:
        raise DataError(
            f"'{name}' has no open download: get it from its owners, put it into a folder as {' and '.join(wanted.marks)}, "
            "and set TASKLOOM_DATA to that folder"
        )
    wanted.fetch(cache_folder() / "data")
    found = wanted.find()
    if found is None:
        raise DataError(
            f"'{name}' was fetched into {cache_folder() / 'data'} but is not complete; remove it and try again"
        )
    return found
