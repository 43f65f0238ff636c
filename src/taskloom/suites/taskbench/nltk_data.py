"""The NLTK data tree: which corpora are used, and how they are fetched."""

from __future__ import annotations

import io
from pathlib import Path

from taskloom.core.errors import DataError, MissingExtra
from taskloom.core.resources import Resource
from taskloom.suites.taskbench.worlds.words.corpora import WANTED


def fetch(folder: Path) -> None:
    """Download the corpora into a folder, by NLTK."""
    try:
        import nltk
    except ImportError as error:
        raise MissingExtra("fetching the NLTK tree", "nltk", "lexical") from error
    target = folder / "nltk_data"
    target.mkdir(parents=True, exist_ok=True)
    for corpus in WANTED:
        # What NLTK prints of a failure (four lines) is said below in one sentence.
        if not nltk.download(corpus, download_dir=str(target), quiet=True, print_error_to=io.StringIO()):
            raise DataError(
                f"NLTK could not fetch '{corpus}'; is there a network? Or set NLTK_DATA to a tree that has it"
            )


NLTK_DATA = Resource(
    "nltk",
    "WordNet 3.0, Spanish OMW, SentiWordNet, Brown, CESS (taskbench: the paper's vocabularies, Spanish, sentiment)",
    tuple(f"nltk_data/corpora/{corpus}" for corpus in WANTED),
    ("NLTK_DATA",),
    fetch,
)
