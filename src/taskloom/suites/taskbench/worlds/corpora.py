"""The corpora of an NLTK data tree, unpacked or as zip files. NLTK is only needed to download
them.
"""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from taskloom.core.errors import DataError, MissingExtra
from taskloom.core.files import cache_folder
from taskloom.core.resources import Resource

WANTED = ("wordnet", "omw-1.4", "sentiwordnet", "brown", "cess_esp")
"""Corpora to download. OMW is version 1.4 rather than 2.0, because the Spanish half of the
benchmark is based on the 1.x tables, and 2.0 has different words.
"""


def trees() -> list[Path]:
    """List the folders that may contain an NLTK data tree, in search order."""
    places = (
        [Path(os.environ["TASKLOOM_DATA"]) / "nltk_data"] if os.environ.get("TASKLOOM_DATA") else []
    )
    places.append(cache_folder() / "data" / "nltk_data")
    places += [Path(p) for p in os.environ.get("NLTK_DATA", "").split(os.pathsep) if p]
    places += [
        Path.home() / "nltk_data",
        Path("/usr/share/nltk_data"),
        Path("/usr/local/share/nltk_data"),
    ]
    return places


class Corpus:
    """The files of a corpus, in a folder or a zip file."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path) if path.suffix == ".zip" else None
        except (OSError, zipfile.BadZipFile) as error:
            raise DataError(
                f"{path} is not a zip file, or it is damaged ({error}); get the corpus again"
            ) from error

    def names(self) -> list[str]:
        """Return the names of the corpus's files, sorted and relative to its folder."""
        if self._zip is not None:
            names = [
                n.removeprefix(f"{self.name}/") for n in self._zip.namelist() if not n.endswith("/")
            ]
        else:
            names = [str(p.relative_to(self.path)) for p in self.path.rglob("*") if p.is_file()]
        return sorted(names)

    def text(self, name: str, encoding: str = "utf-8") -> str:
        """Read one file as text."""
        try:
            if self._zip is not None:
                return self._zip.read(f"{self.name}/{name}").decode(encoding)
            return (self.path / name).read_bytes().decode(encoding)
        except (KeyError, OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
            raise DataError(
                f"{self.path} has no file {name}, or it is damaged; get the corpus again"
            ) from error

    def lines(self, name: str, encoding: str = "utf-8") -> Iterator[str]:
        """Read the lines of one file."""
        yield from self.text(name, encoding).split("\n")

    def digest(self) -> str:
        """Return a digest of the corpus. For a zip file, it is computed from the name, size and
        checksum of each member, so nothing is unpacked. For a folder, it is computed from names and
        contents.
        """
        text = blake2b(digest_size=16)
        if self._zip is not None:
            for info in sorted(self._zip.infolist(), key=lambda i: i.filename):
                if not info.is_dir():
                    text.update(f"{info.filename}:{info.file_size}:{info.CRC};".encode())
        else:
            for name in self.names():
                text.update(f"{self.name}/{name}:".encode() + (self.path / name).read_bytes())
        return text.hexdigest()


def find(name: str) -> Corpus | None:
    """Return the corpus with this name, or None if it is not found."""
    for tree in trees():
        folder = tree / "corpora" / name
        if folder.is_dir():
            return Corpus(name, folder)
        if folder.with_suffix(folder.suffix + ".zip").is_file():
            return Corpus(name, folder.with_suffix(folder.suffix + ".zip"))
    return None


def get(name: str) -> Corpus:
    """Return the corpus with this name. If it is not found, raise an error that lists the searched
    folders.
    """
    corpus = find(name)
    if corpus is None:
        raise DataError(
            f"the corpus '{name}' was not found in the NLTK data (searched: "
            f"{', '.join(map(str, trees()))}); run 'taskloom data get nltk', set NLTK_DATA to an "
            "NLTK data tree, or use lexicon=packaged (English without sentiment) or "
            "lexicon=synthetic (invented words)"
        )
    return corpus


def fetch(folder: Path) -> None:
    """Download the corpora into a folder with NLTK."""
    try:
        import nltk
    except ImportError as error:
        raise MissingExtra("fetching the NLTK tree", "nltk", "lexical") from error
    target = folder / "nltk_data"
    target.mkdir(parents=True, exist_ok=True)
    for corpus in WANTED:
        # NLTK prints four lines about a failure, which the error below replaces.
        if not nltk.download(
            corpus, download_dir=str(target), quiet=True, print_error_to=io.StringIO()
        ):
            raise DataError(
                f"NLTK could not download '{corpus}'; check the network, or set NLTK_DATA to a "
                "tree that contains it"
            )


NLTK_DATA = Resource(
    "nltk",
    "WordNet 3.0, Spanish OMW, SentiWordNet, Brown, CESS (taskbench: the paper's vocabularies,"
    " Spanish, sentiment)",
    tuple(f"nltk_data/corpora/{corpus}" for corpus in WANTED),
    ("NLTK_DATA",),
    fetch,
)
