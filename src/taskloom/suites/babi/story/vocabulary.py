"""The vocabulary of a world: persons, objects, places, and verbs for events.

No name may contain all words of another, because "the garden" and "the garden shed" could not be
distinguished in every sentence. Shared letters are allowed: "football" does not contain the word
"Al".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from taskloom.core.errors import RecipeError
from taskloom.suites.babi.story.events import EVENT_TYPES, EventType, Kind

PRONOUNS = ("he", "she", "they")
RESERVED = frozenset(
    ["he", "she", "they", "them", "the", "a", "in", "at", "to", "and", "or", "either", "is", "are",
     "not", "no", "longer", "did", "there", "then", "after", "afterwards", "following", "that"]
)  # fmt: skip
"""Function words that no name may contain."""

HE = ("John", "Daniel", "Fred", "Bill", "Jeff")
SHE = ("Julie", "Sandra", "Mary")


def _frozen(pairs: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(pairs))


DEFAULT_PRONOUNS: Mapping[str, str] = _frozen(
    {**dict.fromkeys(HE, "he"), **dict.fromkeys(SHE, "she")}
)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Persons, objects, places and pronouns. The defaults are the paper's."""

    persons: tuple[str, ...] = ("Daniel", "Mary", "John", "Sandra", "Fred", "Bill", "Jeff", "Julie")
    objects: tuple[str, ...] = ("apple", "football", "milk")
    places: tuple[str, ...] = (
        "bathroom", "bedroom", "garden", "hallway", "kitchen", "office", "cinema", "park", "school",
    )  # fmt: skip
    pronouns: Mapping[str, str] = field(default_factory=lambda: DEFAULT_PRONOUNS, hash=False)

    def pronoun(self, person: str) -> str:
        """Return the pronoun of a person, or `they` if none is given."""
        return self.pronouns.get(person, "they")

    def clear(self, person: str, to: str) -> bool:
        """True if a pronoun after "person gave … to …" can only refer to the giver: not "she" if
        giver and receiver are women, and never "they".
        """
        pronoun = self.pronoun(person)
        return not to or (pronoun != "they" and pronoun != self.pronoun(to))

    def check(self, where: str = "vocabulary") -> None:
        """Reject names that are empty, repeated, or contained in one another.

        Raises:
            RecipeError: If two names collide. The error names both.
        """
        for kind, least in (("persons", 1), ("objects", 0), ("places", 2)):
            if len(getattr(self, kind)) < least:
                raise RecipeError(
                    f"{where}: at least {least} {kind} are required, not {len(getattr(self, kind))}"
                )
        for person, pronoun in self.pronouns.items():
            if pronoun not in PRONOUNS:
                raise RecipeError(
                    f"{where}: the pronoun of {person} must be he, she or they, not '{pronoun}'"
                )
        names = [*self.persons, *self.objects, *self.places]
        for name in names:
            for word in name.casefold().split():
                if word in RESERVED:
                    raise RecipeError(
                        f"{where}: '{name}' contains the word '{word}', which is used to parse "
                        "sentences; rename it"
                    )
        for name in names:
            if not name.strip() or name != name.strip() or any(c in name for c in "\t\n\r.?,"):
                raise RecipeError(
                    f"{where}: {name!r} is not a valid name: it must not contain commas, full "
                    "stops or tabs, or begin or end with a space"
                )
        collision = _first_collision(names)
        if collision is not None:
            one, other = collision
            raise RecipeError(
                f"{where}: '{one}' and '{other}' collide, because one contains all words of the "
                "other; rename one"
            )


def _first_collision(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the first pair of names such that one contains all words of the other, or None.

    Each run of words within a name is looked up among the names, because comparing all pairs takes
    minutes for 20,000 names.
    """
    words = [name.casefold().split(" ") for name in names]
    first: dict[str, int] = {}
    second: dict[str, int] = {}
    for i, own in enumerate(words):
        text = " ".join(own)
        if text in first:
            second.setdefault(text, i)
        else:
            first[text] = i
    lengths = {len(own) for own in words}
    colliding: list[tuple[int, int]] = []
    for i, own in enumerate(words):
        for run in _runs(own, lengths):
            other = first.get(run)
            if other == i:
                other = second.get(run)
            if other is not None:
                colliding.append((min(i, other), max(i, other)))
    if not colliding:
        return None
    i, j = min(colliding)
    return names[i], names[j]


def _runs(words: Sequence[str], lengths: Iterable[int]) -> Iterator[str]:
    """Yield all runs of consecutive words with these lengths."""
    for length in lengths:
        for start in range(len(words) - length + 1):
            yield " ".join(words[start : start + length])


def verb_lists(
    event_types: Mapping[Kind, EventType] = EVENT_TYPES,
) -> dict[str, tuple[str, ...]]:
    """Return the verbs of events by their names in recipes: `grab`, or `not_grab` for verbs after
    "did not".
    """
    lists: dict[str, tuple[str, ...]] = {
        kind: t.verbs for kind, t in event_types.items() if t.verbs
    }
    return lists | {f"not_{kind}": t.denied for kind, t in event_types.items() if t.denied}


@dataclass(frozen=True, slots=True)
class StoryLexicon:
    """Verbs and function words. Every choice is uniform, as in the reference.

    Attributes:
        verbs: Verbs of each event, including those after "did not", by their names in `verb_lists`.
        negations: Words between "is" and "in".
        prefixes: Words before a pronoun.
        there: Probability that a sentence of a kind ends in "there". In the published text, this is
            always so for grabs (one in five in task 3), and for about one in five drops.
        preposition: "in", or "at" as in the paper's Table 5.
        double_object: "gave Mary the milk" (Table 5) instead of "gave the milk to Mary" (the
            reference and bAbI 1.0).
    """

    verbs: Mapping[str, tuple[str, ...]] = field(default_factory=verb_lists, hash=False)
    negations: tuple[str, ...] = ("not", "no longer")
    prefixes: tuple[str, ...] = ("After that", "Following that", "Afterwards", "Then")
    there: Mapping[str, float] = field(default_factory=dict, hash=False)
    preposition: str = "in"
    double_object: bool = False


DYNA = StoryLexicon()
PUBLISHED = StoryLexicon(there={"grab": 1.0, "drop": 0.21})
