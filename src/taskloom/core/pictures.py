"""Pictures of an example, which a suite returns for a viewer to draw. They contain only data, no
markup.

A suite may have a method `picture`, which takes an example, the checked fields of its recipe and
the recipe's key, and returns one of these classes. If it returns None, or the suite has no such
method, the derivation is drawn instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taskloom.core.example import Example, Step
    from taskloom.core.seeding import Key

DEEPEST = 40
"""Maximum depth of a tree. Deeper levels are cut, because a derivation read from a file may be a
graph whose tree is infinite.
"""

LARGEST = 500
"""Maximum number of nodes drawn in a tree."""


@dataclass(frozen=True, slots=True)
class ProofStep:
    """A step of a proof.

    Attributes:
        text: Conclusion of the step.
        rule: Rule that it applies.
        sentences: Indices of the sentences that it uses, from 0.
    """

    text: str
    rule: str = ""
    sentences: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StoryPicture:
    """A story whose sentences are highlighted one after the other, in the order in which the proof
    of the answer uses them.

    Attributes:
        sentences: Sentences of the story, in order.
        question: The question.
        answer: The answer.
        proof: Steps of the proof, in order.
    """

    sentences: tuple[str, ...]
    question: str
    answer: str
    proof: tuple[ProofStep, ...]


@dataclass(frozen=True, slots=True)
class TreePicture:
    """An expression as a tree: a function, its value, and the trees of its arguments."""

    label: str
    value: str
    parts: tuple[TreePicture, ...] = ()


@dataclass(frozen=True, slots=True)
class ChainLink:
    """One application in a chain: the function, its group or another note, and the result."""

    function: str
    value: str
    group: str = ""


@dataclass(frozen=True, slots=True)
class ChainPicture:
    """Functions applied one after the other, starting from a first value."""

    start: str
    links: tuple[ChainLink, ...]


@dataclass(frozen=True, slots=True)
class FamilyMember:
    """A column of a family: its heading, whether it is the example itself, and one cell per row."""

    title: str
    cells: tuple[str, ...]
    this: bool = False


@dataclass(frozen=True, slots=True)
class FamilyPicture:
    """Examples that belong together, shown side by side.

    Attributes:
        rows: Names of the rows, such as `question`, `passage`, `answer`.
        members: The columns.
    """

    rows: tuple[str, ...]
    members: tuple[FamilyMember, ...]


Picture = StoryPicture | TreePicture | ChainPicture | FamilyPicture

PictureMaker = Callable[["Example", Any, "Key"], Picture | None]
"""Function from an example, the checked fields of its recipe and the recipe's key to the example's
picture, or None if it has none.
"""

KINDS: dict[type, str] = {
    StoryPicture: "story",
    TreePicture: "tree",
    ChainPicture: "chain",
    FamilyPicture: "family",
}


def to_dict(picture: Picture) -> dict[str, Any]:
    """Convert a picture to JSON data, with its `kind`."""
    return {"kind": KINDS[type(picture)], **asdict(picture)}


STORIES: dict[str, Callable[[Example], StoryPicture | None]] = {}
"""Functions that make story pictures for notebooks, by suite. Only suites that have been imported
are listed.
"""

LIT = "background:rgba(255,204,0,.35);border-radius:3px;padding:0 .15em"
"""Style of a highlighted sentence, readable on light and dark backgrounds."""


def story_html(story: StoryPicture) -> str:
    """Return a story as HTML for notebooks: the question, the numbered sentences with those of the
    proof highlighted, and the answer with its proof.

    >>> story = StoryPicture(("Ann sat.", "Bob ran."), "Who ran?", "Bob", (ProofStep("", "", (1,)),))
    >>> story_html(story).count("<mark"), "proved by sentence 2" in story_html(story)
    (1, True)
    """
    used = sorted({place for step in story.proof for place in step.sentences})
    parts = []
    for place, sentence in enumerate(story.sentences):
        number = f'<small style="opacity:.6">{place + 1}</small>'
        text = escape(sentence)
        if place in used:
            text = f'<mark style="color:inherit;{LIT}">{text}</mark>'
        parts.append(f"{number} {text}")
    proved = ""
    if used:
        numbers = ", ".join(str(place + 1) for place in used)
        plural = "s" if len(used) > 1 else ""
        proved = f", proved by sentence{plural} {numbers}"
    return (
        '<div style="max-width:46rem;text-align:left;line-height:1.6">'
        f"<p><b>{escape(story.question)}</b> → <b>{escape(story.answer)}</b>{proved}</p>"
        f"<p>{' '.join(parts)}</p></div>"
    )


def derivation_tree(steps: Sequence[Step], input: str) -> TreePicture | None:
    """Convert a derivation to a tree. The last step is the root, and steps that use no other step
    have the input as their child.

    >>> from taskloom.core.example import Step
    >>> tree = derivation_tree([Step("double", "4"), Step("minus", "-4")], "2")
    >>> tree.label, tree.parts[0].label, tree.parts[0].parts[0].value
    ('minus', 'double', '2')
    """
    left = [LARGEST]

    def node(place: int, depth: int) -> TreePicture:
        left[0] -= 1
        step = steps[place]
        used = step.of
        if used is None:  # a chain: every step uses the previous one, and the first uses the input
            used = (place - 1,) if place else ()
        below = [i for i in used if 0 <= i < place]
        if not below or depth >= DEEPEST or left[0] <= 0:
            return TreePicture(step.rule, step.value, (TreePicture("", input),))
        return TreePicture(step.rule, step.value, tuple(node(i, depth + 1) for i in below))

    return node(len(steps) - 1, 0) if steps else None
