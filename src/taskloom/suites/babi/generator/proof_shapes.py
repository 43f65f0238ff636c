"""Which proofs of a wanted size there can be, and a draft of one of them."""

from __future__ import annotations

from collections.abc import Mapping

from taskloom.seeding import Random
from taskloom.suites.babi.generator.pronouns import NoBlueprint
from taskloom.suites.babi.generator.proof_plan import ProofBuilder, ProofPlan, Shape
from taskloom.suites.babi.story.events import QuestionKind
from taskloom.suites.babi.story.vocabulary import Vocabulary

DENIALS = 3
"""How many sentences that deny something a proof is planned with, at most."""


class ProofPlanner:
    """Draws blueprints for one group."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        events: Mapping[str, float],
        wording: Mapping[str, float],
        said_of: Mapping[str, Mapping[str, float]],
        required: tuple[str, ...] = (),
        others: int = 0,
    ) -> None:
        self.others = others
        self.vocabulary = vocabulary
        said = {c: {e for e, w in said_of[c].items() if w > 0} if c in wording else set() for c in said_of}
        # Of places: as far as a construct is said of MOVE. Of things: each construct with each event.
        self.can = {*events, *(c for c in wording if c not in said or "MOVE" in said[c] or c == "COREF")}
        self.coref = said["COREF"]
        self.things = {
            (c, e) for c, found in said.items() if c != "COREF" for e in found if e in ("GRAB", "DROP", "GIVE")
        }
        self.denies = any(c == "NEGATE" for c, _ in self.things)
        self.required = set(required)
        self._shapes: dict[tuple[QuestionKind, int, str], list[Shape]] = {}

    def possible(self, kind: QuestionKind, size: int) -> bool:
        """Whether any blueprint has that size."""
        if kind == "give-qs":
            return (size == 1 and "COREF" not in self.required) or (size == 2 and "GIVE" in self.coref)
        if kind in ("list", "counting"):
            most = len(self.vocabulary.objects) * (2 if self.coref & {"GRAB", "DROP"} else 1)
            return 1 <= size <= most + (DENIALS if self.denies else 0)
        return any(self.shapes(kind, size, a) for a in ("yes", "no", "maybe"))

    def limit(self, kind: str) -> str:
        """What would have to be allowed for other supports, as half a sentence."""
        if kind in ("list", "counting"):
            return (
                f"each of the {len(self.vocabulary.objects)} objects adds one sentence (two with COREF on GRAB or DROP, more with "
                "NEGATE on them); add objects or constructs, or ask for less"
            )
        if kind == "give-qs":
            return "a gift is one sentence, two with COREF on GIVE"
        return "allow other sizes, events or constructs"

    def shapes(self, kind: QuestionKind, size: int, said: str) -> list[Shape]:
        """Every way to reach a size."""
        found = self._shapes.get((kind, size, said))
        if found is None:
            found = self._shapes[kind, size, said] = [s for s in self._all_shapes(kind, size, said) if self._fits(s)]
        return found

    def _all_shapes(self, kind: QuestionKind, size: int, said: str) -> list[Shape]:
        extras = {"where-O": (0, 1), "where-was-O": (1, 2)}.get(kind, (0,))
        may_double = "INDEF" in self.can and (kind != "yes-no" or said == "yes")
        certain = said != "maybe" or kind != "yes-no"
        if not certain and "INDEF" not in self.can:
            return []
        found = []
        for extra in extras:
            for double in (False, True) if may_double else (False,):
                for gives in range(size + 1 if "GIVE" in self.can else 1):
                    for swaps in range(size // 2 + 1 if {"GRAB", "DROP"} <= self.can else 1):
                        rest = size - gives - 2 * swaps - 1 - double - extra
                        denials = range(min(rest, DENIALS) + 1 if kind == "where-O" and self.denies else 1)
                        found += [Shape(gives, swaps, rest - d, double, extra, d) for d in denials if rest >= d]
        return [s for s in found if self._sensible(kind, s)]

    def _sensible(self, kind: QuestionKind, shape: Shape) -> bool:
        links = shape.gives + shape.swaps
        if shape.double and not links:
            return False
        if kind in ("where-O", "where-was-O"):
            # Without an extra sentence the object must have come to its holder by a link.
            own = shape.extra - (kind == "where-was-O")
            return bool(own or links) and bool("GRAB" in self.can)
        return True

    def _fits(self, shape: Shape) -> bool:
        links = shape.gives + shape.swaps
        if links + 1 > len(self.vocabulary.persons):
            return False
        sentences = [
            ("GIVE", shape.gives),
            ("DROP", shape.swaps),
            ("GRAB", shape.swaps),
            ("MOVE", 1),
            ("GRAB", shape.extra),
        ]
        follow = self.coref | {event for construct, event in self.things if construct == "COMPOUND"}
        slots = sum(n for event, n in sentences if event in follow) + (
            "COMPOUND" in self.can and "MOVE" not in self.coref
        )
        if shape.antecedents > slots:
            return False
        needs = {
            "GIVE": shape.gives,
            "DROP": shape.swaps + shape.extra,
            "GRAB": shape.swaps + shape.extra,
            "COREF": shape.antecedents,
            "COMPOUND": shape.antecedents,
            "NEGATE": shape.denials if self.denies and "NEGATE" not in self.can else 1,
        }
        return all(needs.get(r, 1) for r in self.required)

    def draft(self, kind: QuestionKind, size: int, rng: Random, said: str = "yes") -> ProofPlan:
        """A blueprint of a question with a support of that size.

        Raises:
            NoBlueprint: Not by this draw.
        """
        if kind == "give-qs":
            return self._begin(rng).gift(size)
        if kind in ("list", "counting"):
            return self._begin(rng).holding(kind, size)
        shapes = self.shapes(kind, size, said)
        if not shapes:
            raise NoBlueprint
        return self._begin(rng).place(kind, shapes[int(rng.random() * len(shapes))], said)

    def _begin(self, rng: Random) -> ProofBuilder:
        return ProofBuilder(self.vocabulary, self.can, self.coref, self.things, self.others, rng)
