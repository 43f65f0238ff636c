"""bAbI 1.0 and Dyna-bAbI: short stories with controlled wording, questions and depth of reasoning.

A recipe states which events (MOVE, GRAB, DROP, GIVE), constructs (COREF, CONJ, COMPOUND, NEGATE,
INDEF) and questions occur in its stories, and the size and kind of each answer's support. Every
answer is entailed by the text, and every support is minimal and sufficient. Papers: Weston et al.
2016; Dyna-bAbI (*SEM 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taskloom.core.errors import DataError
from taskloom.core.offers import Export, Option, TraitName
from taskloom.core.registry import Suite, suite
from taskloom.core.resources import Resource, download
from taskloom.suites.babi.fields import BabiFields

if TYPE_CHECKING:
    from taskloom.core.example import Example
    from taskloom.core.pictures import StoryPicture
    from taskloom.core.plan import Plan
    from taskloom.core.seeding import Key
    from taskloom.suites.babi.numbered import TASKS as TASKS
    from taskloom.suites.babi.solve_file import StoryFileReport
    from taskloom.suites.babi.solve_file import solve_text as solve_text

_HOME = {"TASKS": "numbered", "solve_text": "solve_file"}
"""Public names that are imported on first use."""

__all__ = ["BabiFields", "BabiSuite", *_HOME]


def __getattr__(name: str) -> Any:
    # Import lazily, so that listing the suites stays fast.
    if name not in _HOME:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


FORMATS = ("babi", "text-to-text", "squad", "events")
"""Formats of `taskloom export`."""

OPTIONS = (
    Option(
        "make",
        "source",
        "Folder of published files to use as the source of stories (babi/concat-*, babi/inject-*).",
    ),
    Option(
        "solve",
        "reading",
        "natural, or strict: every sentence about a place means a change of place.",
    ),
)

TRAIT_NAMES = {
    "minimal": TraitName(
        "supporting facts", "Number of sentences in the shortest proof of the answer."
    ),
    "question": TraitName("question type", "Answer type: a place, a person, an object or a count."),
    "composition": TraitName(
        "composition", "Events and wordings that occur in the proof of the answer."
    ),
    "concepts": TraitName("wording", "Events and constructs that occur anywhere in the story."),
    "sentences": TraitName("story length", "Number of sentences in the story."),
    "support": TraitName(
        "supporting facts (cited)", "Number of sentences in the proof that the example cites."
    ),
    "supports": TraitName("number of proofs", "Number of different shortest proofs of the answer."),
    "group": TraitName("group of the recipe", "Group of the recipe that the example belongs to."),
    "number": TraitName("bAbI task", "Number of the bAbI task, 1 to 20."),
    "support_lines": TraitName(
        "positions of the facts", "Positions of the supporting facts in the story, from 1."
    ),
}


def _export(kind: str, examples: Sequence[Example], fields: BabiFields | None) -> Export:
    from taskloom.suites.babi.export import export

    return export(kind, examples, fields)


EXPORTERS = {kind: partial(_export, kind) for kind in FORMATS}

URL = "http://www.thespermwhale.com/jaseweston/babi/tasks_1-20_v1-2.tar.gz"
"""Archive of the published bAbI 1.0 files."""


def fetch(folder: Path) -> None:
    """Download the archive and unpack its English files into a folder."""
    archive = folder / "babi.tar.gz"
    download(URL, archive)
    unpack(archive, folder / "babi")


def unpack(archive: Path, target: Path) -> None:
    """Extract the English text files from the official archive."""
    import tarfile  # imported here, because only unpacking needs it

    try:
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                path = Path(member.name)
                # "en" has 1,000 questions per task. The archive also contains en-10k, hn and
                # shuffled sets.
                if not member.isfile() or path.parent.name != "en" or path.suffix != ".txt":
                    continue
                source = tar.extractfile(member)
                assert source is not None
                (target / "en").mkdir(parents=True, exist_ok=True)
                (target / "en" / path.name).write_bytes(source.read())
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(
            f"{archive} is damaged ({error}); remove it and rerun the command"
        ) from error


BABI_FILES = Resource(
    "babi",
    "the published bAbI 1.0 text files (babi: concat and inject splits)",
    ("babi/en",),
    (),
    fetch,
)


@suite
class BabiSuite(Suite):
    """Stories with questions."""

    name = "babi"
    fields = BabiFields
    describe = (
        "Short stories with controlled events, wording, questions and reasoning depth (bAbI 1.0,"
        " Dyna-bAbI)"
    )
    version = 5
    exporters = EXPORTERS
    options = OPTIONS
    resources = (BABI_FILES,)
    trait_names = TRAIT_NAMES

    def weave(self, fields: BabiFields, key: Key) -> Plan:
        """Plan a recipe of groups, of several bAbI story tasks (`concat`), or of a single bAbI task
        with its own world (`number`).
        """
        if fields.number is not None:
            from taskloom.suites.babi.numbered import plan_task

            return plan_task(fields, fields.number, key)
        from taskloom.suites.babi.plan import WHERE, rephrased, story_plan

        if fields.concat:
            from taskloom.suites.babi.concat import plan_concat

            plan = plan_concat(fields, key)
        else:
            plan = story_plan(fields, key)
        return rephrased(plan) if fields.phrasing == WHERE else plan

    def resolve(self, name: str) -> dict[str, Any] | None:
        """Fields for a JSON configuration of the public generator, named as `babi/mix_T7.json`."""
        if not name.endswith(".json"):
            return None
        from taskloom.suites.babi.reference_config import import_file

        return {field: value for field, value in import_file(name).items() if field != "suite"}

    def solve(self, path: str, reading: str = "natural") -> StoryFileReport:
        """Answer every question of a file."""
        from taskloom.suites.babi.solve_file import solve_file

        return solve_file(path, reading)

    def picture(self, example: Example, fields: BabiFields, key: Key) -> StoryPicture | None:
        """Draw an example for `taskloom view`."""
        return self.story(example)

    def story(self, example: Example) -> StoryPicture | None:
        """Return the story with the sentences that prove the answer."""
        from taskloom.suites.babi.show import lit_story

        return lit_story(example)
