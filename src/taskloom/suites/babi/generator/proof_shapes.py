"""Which shapes a proof of a wanted size can have, and a plan of one of them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from types import MappingProxyType

from taskloom.core.seeding import Random
from taskloom.suites.babi.generator.pronouns import NoProofPlan
from taskloom.suites.babi.generator.proof_plan import ProofBuilder, ProofPlan, Shape
from taskloom.suites.babi.story.events import QuestionKind
from taskloom.suites.babi.story.vocabulary import Vocabulary
from taskloom.suites.draws import pick

DENIALS = 3
"""How many sentences that deny something a proof is planned with, at most."""


class ProofPlanner:
    """The planner of one group's proofs: which sizes are possible, and a plan of a size."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        events: Mapping[str, float],
        wording: Mapping[str, float],
        topics: Mapping[str, Mapping[str, float]],
        required: tuple[str, ...] = (),
        others: int = 0,
        cited: bool = False,
    ) -> None:
        self.others = others
        self.cited = cited
        self.vocabulary = vocabulary
        weighted: dict[str, set[str]] = {}
        for construct, weights in topics.items():
            weighted[construct] = {
                event for event, weight in weights.items() if weight > 0 and construct in wording
            }
        # Of places: as far as a construct is wanted of MOVE. Of things: each construct with each
        # event.
        self.can = {
            *events,
            *(c for c in wording if c not in weighted or "MOVE" in weighted[c] or c == "COREF"),
        }
        self.coref = weighted["COREF"]
        self.things: set[tuple[str, str]] = set()
        for construct, of in weighted.items():
            if construct != "COREF":
                self.things |= {(construct, event) for event in of & {"GRAB", "DROP", "GIVE"}}
        self.denies = any(c == "NEGATE" for c, _ in self.things)
        self.required = set(required)
        self._shapes: dict[tuple[QuestionKind, int, str], list[Shape]] = {}

    def possible(self, kind: QuestionKind, size: int) -> bool:
        """Return whether any plan has that size."""
        if kind == "give-qs":
            return (size == 1 and "COREF" not in self.required) or (
                size == 2 and "GIVE" in self.coref
            )
        if kind in ("list", "counting") and self.cited:
            return "GRAB" in self.can and (
                size <= len(self.vocabulary.objects) or bool(self.can & {"DROP", "GIVE"})
            )
        if kind in ("list", "counting"):
            most = len(self.vocabulary.objects) * (2 if self.coref & {"GRAB", "DROP"} else 1)
            return 1 <= size <= most + (DENIALS if self.denies else 0)
        return any(self.shapes(kind, size, a) for a in ("yes", "no", "maybe"))

    def limit(self, kind: str) -> str:
        """Return what would have to be allowed for other supports, as half a sentence."""
        if kind in ("list", "counting") and self.cited:
            return "what is never left or given away is taken once; add DROP or GIVE"
        if kind in ("list", "counting"):
            return (
                f"each of the {len(self.vocabulary.objects)} objects adds one sentence (two with"
                " COREF on GRAB or DROP, more with NEGATE on them); add objects or constructs, or"
                " ask for less"
            )
        if kind == "give-qs":
            return "a gift is one sentence, two with COREF on GIVE"
        return "allow other sizes, events or constructs"

    def shapes(self, kind: QuestionKind, size: int, wanted: str) -> list[Shape]:
        """List every way to reach a size."""
        shapes = self._shapes.get((kind, size, wanted))
        if shapes is None:
            shapes = [s for s in self._all_shapes(kind, size, wanted) if self._fits(s)]
            self._shapes[kind, size, wanted] = shapes
        return shapes

    def _all_shapes(self, kind: QuestionKind, size: int, wanted: str) -> list[Shape]:
        extras = {"where-O": (0, 1), "where-was-O": (1, 2)}.get(kind, (0,))
        may_double = "INDEF" in self.can and (kind != "yes-no" or wanted == "yes")
        certain = wanted != "maybe" or kind != "yes-no"
        if not certain and "INDEF" not in self.can:
            return []
        doubles = (False, True) if may_double else (False,)
        most_gives = size if "GIVE" in self.can else 0
        most_handovers = size // 2 if {"GRAB", "DROP"} <= self.can else 0
        most_denials = DENIALS if kind == "where-O" and self.denies else 0
        shapes: list[Shape] = []
        for extra, double, gives, handovers in product(
            extras, doubles, range(most_gives + 1), range(most_handovers + 1)
        ):
            # What is left are denials and antecedents. Below 0 the range is empty: the parts are
            # too many for the size.
            rest = size - gives - 2 * handovers - 1 - double - extra
            for denials in range(min(rest, most_denials) + 1):
                shapes.append(Shape(gives, handovers, rest - denials, double, extra, denials))
        return [s for s in shapes if self._sensible(kind, s)]

    def _sensible(self, kind: QuestionKind, shape: Shape) -> bool:
        links = shape.gives + shape.handovers
        if shape.double and not links:
            return False
        if kind in ("where-O", "where-was-O"):
            # Without an extra sentence the object must have come to its holder by a link.
            own = shape.extra - (kind == "where-was-O")
            return bool(own or links) and bool("GRAB" in self.can)
        return True

    def _fits(self, shape: Shape) -> bool:
        links = shape.gives + shape.handovers
        if links + 1 > len(self.vocabulary.persons):
            return False
        sentences = [
            ("GIVE", shape.gives),
            ("DROP", shape.handovers),
            ("GRAB", shape.handovers),
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
            "DROP": shape.handovers + shape.extra,
            "GRAB": shape.handovers + shape.extra,
            "COREF": shape.antecedents,
            "COMPOUND": shape.antecedents,
            "NEGATE": shape.denials if self.denies and "NEGATE" not in self.can else 1,
        }
        return all(needs.get(r, 1) for r in self.required)

    def may_have(self, kind: QuestionKind, size: int, wanted: str, concept: str) -> bool:
        """Return whether a proof of that size can have a concept, as far as its shape says."""
        if kind in ("list", "counting", "give-qs") or concept != "GIVE":
            return True
        return any(shape.gives for shape in self.shapes(kind, size, wanted))

    def plan(
        self,
        kind: QuestionKind,
        size: int,
        rng: Random,
        wanted: str = "yes",
        concepts: Mapping[str, bool] = MappingProxyType({}),
    ) -> ProofPlan:
        """Plan a proof of that size, with the question.

        Args:
            kind: The question type.
            size: Sentences in the support.
            rng: The example's own stream.
            wanted: The answer of a yes-no question.
            concepts: What the support shall have or not have; of these, gifts are planned, the rest
                is left to chance.

        Raises:
            NoProofPlan: Not by this draw.
        """
        if kind == "give-qs":
            return self._begin(rng).gift(size)
        if kind in ("list", "counting"):
            return (
                self._begin(rng).hands_full(kind, size)
                if self.cited
                else self._begin(rng).holding(kind, size)
            )
        shapes = self.shapes(kind, size, wanted)
        if "GIVE" in concepts:
            shapes = [shape for shape in shapes if bool(shape.gives) == concepts["GIVE"]]
        if not shapes:
            raise NoProofPlan
        return self._begin(rng).place(kind, pick(rng, shapes), wanted)

    def _begin(self, rng: Random) -> ProofBuilder:
        return ProofBuilder(self.vocabulary, self.can, self.coref, self.things, self.others, rng)
