"""The published bAbI 1.0 files: where they are offered, and how they are unpacked."""

from __future__ import annotations

from pathlib import Path

from taskloom.core.errors import DataError
from taskloom.core.resources import Resource, download

URL = "http://www.thespermwhale.com/jaseweston/babi/tasks_1-20_v1-2.tar.gz"


def fetch(folder: Path) -> None:
    """Download the archive and unpack its English files into a folder."""
    archive = folder / "babi.tar.gz"
    download(URL, archive)
    unpack(archive, folder / "babi")


def unpack(archive: Path, target: Path) -> None:
    """Take the English text files out of the official archive."""
    import tarfile  # every command that knows the suite imports this module; this one unpacks

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
        raise DataError(f"{archive} is damaged ({error}); remove it and rerun the command") from error


BABI_FILES = Resource(
    "babi", "the published bAbI 1.0 text files (babi: concat and inject splits)", ("babi/en",), (), fetch
)
