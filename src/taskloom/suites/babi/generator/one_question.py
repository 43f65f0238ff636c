"""Stories with one question at the end, aimed at a requested structure.

The proof is planned first (`proof_plan`). The simulator adds other sentences around it without
changing anything that the proof depends on (`ProofGuard`). Then the reasoner reads the whole story.
If it does not find the requested question and support, another story is drawn. The question type
and the size of the support are drawn once per example, so that structures that are hard to find are
as frequent as the recipe demands.
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate, pairwise
from typing import NamedTuple

from taskloom.core.errors import RecipeError
from taskloom.core.example import Example
from taskloom.core.seeding import Key, Random, pick, sample
from taskloom.recipe import Span
from taskloom.suites.babi.fields import StoryGroup
from taskloom.suites.babi.generator.examples import (
    AnsweredQuestion,
    Structure,
    make_example,
    support_signature,
)
from taskloom.suites.babi.generator.planned_proofs import Blocked, ProofGuard, ProofPlanner
from taskloom.suites.babi.generator.pronouns import NoProofPlan
from taskloom.suites.babi.generator.proof_plan import ProofPlan
from taskloom.suites.babi.generator.simulator import Simulator
from taskloom.suites.babi.generator.story_setting import (
    Setting,
    action_weights,
    answer_question,
    draw_kind,
    draw_questions,
)
from taskloom.suites.babi.reasoner.knowledge import Contradiction, Knowledge
from taskloom.suites.babi.splits import BEGINNING, SplitRule
from taskloom.suites.babi.story.events import (
    EVENTS,
    Event,
    Question,
    QuestionKind,
    Remembered,
    composition,
)
from taskloom.suites.babi.story.sentences import ask

TRIES = 4_000
"""Maximum draws per example while a request is tested, before it counts as impossible."""

ENDURANCE = 400_000
"""Maximum draws per example once a request is known to be satisfiable. This is 100 times the trial
limit, so such a request practically never fails.
"""

PERSISTENCE = 500
"""Maximum draws for one size of support before another size of the requested range is tried."""

COUPONS = 40
"""Maximum stories drawn per class of supports while `per_signature` is tested. If all classes were
equally likely, 8 would suffice for 1,000 of them (the coupon collector's problem).
"""

PLANS = 60
"""Maximum proofs planned for a size. If each of them needs something that the group does not list,
that size is rejected.
"""

NEEDS = {
    "where-O": ("GRAB",),
    "where-was-O": ("GRAB",),
    "list": ("GRAB",),
    "counting": ("GRAB",),
    "give-qs": ("GRAB", "GIVE"),
}
"""Events that a story needs for each question type. Nobody holds anything at the start, and only
objects that were taken can be given.
"""

OPEN = 8
"""Maximum size of a planned proof if the recipe has requirements for the support, but not for its
size.
"""

# A constant, because it is compared with other reasons.
SPLIT = (
    "the split: the story's structure belongs to another one; longer stories, more events or names"
    " have more structures"
)


def check_needs(group: StoryGroup) -> None:
    """Reject a group whose events can never lead to its questions.

    Raises:
        RecipeError: If one of its questions can never be asked. The error names the question type
            and the event that it needs.
    """
    asked = [kind for kind, weight in group.questions.items() if weight]
    for kind in asked:
        for event in NEEDS.get(kind, ()):
            if event not in group.events:
                raise RecipeError(
                    f"group '{group.name}': {kind} questions need {event}; add it to events, with "
                    "weight 0 if it should occur only in proofs"
                )


class Wish(NamedTuple):
    """The request for one example, drawn before the example, so that kinds that are harder to find
    are not rarer.

    Attributes:
        kind: The question type.
        size: Size of the support; 0 for any.
        length: Number of sentences before the question.
        answer: The answer of a yes-no question.
        concepts: True for concepts that the support must have, False for those that it must not
            have.
    """

    kind: QuestionKind
    size: int
    length: int
    answer: str
    concepts: dict[str, bool]


class VainGroupError(RecipeError):
    """A group asks for supports that no question of its type can have."""


class GroupExamples:
    """The examples of one group, each a story with one question."""

    def __init__(self, group: StoryGroup, setting: Setting) -> None:
        self.group = group
        self.setting = setting
        self.weights = action_weights(group)
        # Plans use only constructs that the group lists, but they may use any event. They must be
        # checked unless the group lists all events.
        self.partial = not {*EVENTS} <= {*group.events}
        self.unlisted = Remembered(group.unlisted)
        self.planner = ProofPlanner(
            setting.vocabulary,
            group.events,
            group.wording,
            group.topics(),
            group.composition,
            self._others(),
            group.cited,
        )
        if group.support is not None and group.support.low > group.length.high:
            raise RecipeError(
                f"group '{group.name}': length: {group.length} sentences are too few for a "
                f"support of {group.support}"
            )
        self.sizes = {kind: self._sizes(kind) for kind, weight in group.questions.items() if weight}
        self.falloffs: dict[str, list[float]] = {}
        check_needs(group)
        for kind in self.sizes:
            self._check_listed(kind)
        for kind, sizes in self.sizes.items():
            if self._planned() and not sizes:
                raise self._no_size(kind)

    def _no_size(self, kind: str) -> VainGroupError:
        """Build the error for a question type that has no support of a requested size."""
        group = self.group
        required = ""
        if group.composition:
            required = f" and {', '.join(group.composition)} in the support"
        return VainGroupError(
            f"group '{group.name}': no {kind} question has a support of"
            f" {group.support or 'any size'} with the events {', '.join(group.events)}, the"
            f" wording {', '.join(group.wording) or 'none'}{required};"
            f" {self.planner.limit(kind)}"
        )

    def _others(self) -> int:
        """Number of planned proofs in addition to the official one. The story may contain more by
        chance.
        """
        return max(0, self.group.alternatives.low - 1) if self.group.alternatives else 0

    def _planned(self) -> Span | None:
        """Sizes of support to plan for, or None if no proof is planned.

        These are the requested sizes, or any small size if the group has other requirements for its
        proofs.
        """
        group = self.group
        if group.support is not None or group.unknown or group.exhaustive:
            return group.support
        wishes = (
            group.composition or self._others() or group.position != "any" or group.distractors < 1
        )
        return Span(1, OPEN) if wishes else None

    def _check_listed(self, kind: str) -> None:
        """Keep the sizes for which at least one proof uses only what the group lists.

        Raises:
            RecipeError: If no size remains. The error names what the proofs need.
        """
        needed: Counter[str] = Counter()
        sizes = self.sizes[kind]
        able = [size for size in sizes if self._some_listed(kind, size, needed)]
        if sizes and not able and needed:
            need = needed.most_common(1)[0][0]
            raise RecipeError(
                f"group '{self.group.name}': {kind} questions with a support of"
                f" {self.group.support or 'any size'} need {need}; add it to"
                f" {'events' if need in EVENTS else 'wording'}, with weight 0 if it should only"
                " occur in proofs"
            )
        self.sizes[kind] = able or sizes

    def _some_listed(self, kind: str, size: int, needed: Counter[str]) -> bool:
        """True if at least one plan uses only what the group lists. In `needed`, count the unlisted
        events and constructs that the other plans need.
        """
        rng = Random(size)
        answers = ["yes"]  # used only by yes-no questions
        if kind == "yes-no":
            answers = [a for a in ("yes", "no", "maybe") if self.planner.shapes("yes-no", size, a)]
        for i in range(PLANS):
            try:
                plan = self.planner.plan(kind, size, rng, answers[i % len(answers)])  # type: ignore[arg-type]
            except NoProofPlan:
                continue
            unlisted = self._unlisted(plan)
            if not unlisted:
                return True
            needed[unlisted] += 1
        return not needed

    def _unlisted(self, plan: ProofPlan) -> str:
        """An event or construct of the plan that the group does not list, or "" if it lists all of
        them.
        """
        for unit in plan.units:
            for event in unit:
                name = self.unlisted[event]
                if name:
                    return name
        return ""

    def _happening(self) -> str:
        """Describe the events that a story may have, for error messages."""
        group = self.group
        return (
            f"the events {', '.join(group.events)} and the wording"
            f" {', '.join(group.wording) or 'none'}"
        )

    def _sizes(self, kind: str) -> list[int]:
        wanted = self._planned()
        if wanted is None:
            return []
        sizes = range(wanted.low, min(wanted.high, self.group.length.high) + 1)
        return [size for size in sizes if self.planner.possible(kind, size)]  # type: ignore[arg-type]

    def make(self, key: Key, index: int, rule: SplitRule, tries: int = ENDURANCE) -> Example:
        """Draw example number `index` of the group.

        Args:
            key: Key of the group's examples.
            index: Number of the example.
            rule: Decides which stories belong to the split.
            tries: Maximum stories drawn.

        Raises:
            RecipeError: If no story was found. The error names what blocked most draws.
        """
        rng = key.random(index)
        wish = self._wish(rng)
        reasons: list[str] = []
        for i in range(1, tries + 1):
            try:
                return self._draw(key, index, wish, rng, rule)
            except Blocked as blocked:
                reason = str(blocked)
                reasons.append(reason)
                if reason.startswith("per_signature"):
                    wish = self._wish(rng)  # this row may have no signature of that size
            except NoProofPlan:
                reasons.append(
                    "the proof: too few persons, objects or places for a support of that size"
                )
            except Contradiction as error:
                # The simulator and the reasoner disagree. This is a bug and must not be reported as
                # a hard request.
                raise AssertionError(
                    f"group '{self.group.name}', example {index}: {error}"
                ) from error
            if i % PERSISTENCE == 0:
                wish = self._wish(rng)
        # Half of all structures belong to another split anyway, so this reason is reported only if
        # nothing else blocked a draw.
        wishes = Counter([reason for reason in reasons if reason != SPLIT]) or Counter(reasons)
        text, count = wishes.most_common(1)[0]
        raise RecipeError(
            f"group '{self.group.name}': no {wish.kind} story with a support of"
            f" {self.group.support or 'any size'} in {tries} draws; what blocked"
            f" {100 * count // wishes.total()} % of them was {text}"
        )

    def _wish(self, rng: Random) -> Wish:
        """Draw the requirements of the next example."""
        kind = draw_kind(self.group, rng)
        size = self._size(kind, rng)
        wanted = self._wanted_answer(kind, size, rng)
        span = self.group.length
        low = max(span.low, min(size, span.high))
        length = low + int(rng.random() * (span.high - low + 1))
        return Wish(kind, size, length, wanted, self._wanted_concepts(kind, size, wanted, rng))

    def _size(self, kind: str, rng: Random) -> int:
        sizes, falloff = self.sizes[kind], self.group.falloff
        if len(sizes) < 2 or falloff == 1:
            return pick(rng, sizes) if sizes else 0
        if kind not in self.falloffs:
            self.falloffs[kind] = list(accumulate([falloff ** (size - sizes[0]) for size in sizes]))
        return rng.choices(sizes, cum_weights=self.falloffs[kind])[0]

    def _wanted_concepts(
        self, kind: QuestionKind, size: int, wanted: str, rng: Random
    ) -> dict[str, bool]:
        """Draw which concepts the support must have, by their frequencies. Concepts that no proof
        of that size can have are not required.
        """
        concepts: dict[str, bool] = {}
        for concept, share in self.group.frequencies.items():
            has = rng.random() < share
            concepts[concept] = has and self.planner.may_have(kind, size, wanted, concept)
        return concepts

    def _wanted_answer(self, kind: str, size: int, rng: Random) -> str:
        if kind != "yes-no":
            return "yes"
        weights = self.group.answers
        if not weights:
            weights = {"yes": 1.0, "no": 1.0}
            if "INDEF" in self.group.wording:  # a proof of "maybe" can only be planned with INDEF
                weights["maybe"] = 1.0
        able = dict(weights)
        if size:
            able = {a: w for a, w in weights.items() if self.planner.shapes("yes-no", size, a)}
        if not able:
            raise RecipeError(
                f"group '{self.group.name}': answers: no yes-no question with a support of "
                f"{size}, {self._happening()} has the answer {', '.join(weights)}"
            )
        return rng.choices(list(able), weights=list(able.values()))[0]

    def try_out(self, key: Key, rule: SplitRule) -> None:
        """Check that examples of the group can be drawn. Draw one example, and as many supports as
        `per_signature` needs.

        Raises:
            RecipeError: If none can be drawn. The error names the obstacle.
        """
        if self.group.per_signature is None:
            self.make(key, 0, rule, TRIES)
            return
        classes = self._classes()
        tries = max(TRIES, COUPONS * classes)
        rng = key.random("signatures")
        seen: set[int] = set()
        for _ in range(tries):
            try:
                events, _, answered = self._story(self._wish(rng), rng, rule)
                seen.add(self._class_of(key, events, answered))
            except (Blocked, NoProofPlan):
                continue
            if len(seen) == classes:
                return
        raise RecipeError(
            f"group '{self.group.name}': per_signature: {tries} stories have too few different"
            f" supports for {self.group.n} examples with at most {self.group.per_signature} of"
            " each; ask for fewer examples or allow more of each"
        )

    def _draw(self, key: Key, index: int, wish: Wish, rng: Random, rule: SplitRule) -> Example:
        group, setting = self.group, self.setting
        events, structure, answered = self._story(wish, rng, rule)
        if group.per_signature is not None:
            own_class = index % self._classes()
            if self._class_of(key, events, answered) != own_class:
                raise Blocked(f"per_signature: {group.per_signature}")
        passage = " ".join(setting.writer.write(events, rng))
        question = ask(answered.question, setting.lexicon)
        whole = structure.read(events[BEGINNING:])
        return make_example(
            events,
            passage,
            question,
            answered,
            group=group.name,
            task=setting.task,
            concepts=structure.concepts(),
            key=whole,
        )

    def _classes(self) -> int:
        """Number of classes into which signatures are divided by their hash.

        Row i may have only signatures of class i % classes. A class has at most `per_signature`
        rows, so no signature has more, and rows need not know of each other.
        """
        return -(-self.group.n // (self.group.per_signature or 1))

    def _class_of(self, key: Key, events: list[Event], answered: AnsweredQuestion) -> int:
        return key.hash64("signature", support_signature(events, answered)) % self._classes()

    def _story(
        self, wish: Wish, rng: Random, rule: SplitRule
    ) -> tuple[list[Event], Structure, AnsweredQuestion]:
        """Draw a story with the requested question, and the structure of its beginning.

        Raises:
            Blocked: If this draw does not meet the request.
            NoProofPlan: If this draw leads to no proof.
        """
        group, setting = self.group, self.setting
        plan: ProofPlan | None = None
        if wish.size and group.proofs == "planned":
            plan = self.planner.plan(wish.kind, wish.size, rng, wish.answer, wish.concepts)
        if plan and self.partial:
            unlisted = self._unlisted(plan)
            if unlisted:
                raise Blocked(f"events: the proof needs {unlisted}, which is not listed")
        events, beginning = self.simulate(plan, wish.length, rng, rule)
        knowledge = Knowledge(setting.vocabulary.places, setting.reading).tell_all(events)
        if group.proofs == "simulated":
            answered = self._find(knowledge, wish, rng)
        else:
            planned = plan.question if plan else None
            answered = self._pose(knowledge, planned, wish.kind, wish.answer, rng)
        self._accept(answered, events, wish)
        return events, beginning, answered

    def _pose(
        self,
        knowledge: Knowledge,
        planned: Question | None,
        kind: QuestionKind,
        wanted: str,
        rng: Random,
    ) -> AnsweredQuestion:
        if planned is None:
            answers = {wanted: 1.0} if kind == "yes-no" else None
            planned = next(draw_questions(knowledge, kind, self.group, rng, answers), None)
            if planned is None:
                raise Blocked(f"questions: {kind}, which cannot be asked after {self._happening()}")
        answered = answer_question(knowledge, planned, self.group.cited)
        if not answered.verdict.known and not self.group.unknown:
            raise Blocked("the question: a distractor made it undecidable")
        return answered

    def _find(self, knowledge: Knowledge, wish: Wish, rng: Random) -> AnsweredQuestion:
        """Draw one of the questions that have the requested support by chance."""
        for question in draw_questions(knowledge, wish.kind, self.group, rng, {wish.answer: 1.0}):
            answered = answer_question(knowledge, question, self.group.cited)
            if len(answered.official) == wish.size:
                return answered
        raise Blocked(f"support: {wish.size}")

    def _accept(self, answered: AnsweredQuestion, events: list[Event], wish: Wish) -> None:
        group = self.group
        if group.support is not None and len(answered.official) not in group.support:
            raise Blocked(f"support: {group.support}")
        if answered.question.kind == "yes-no" and answered.verdict.answer != wish.answer:
            raise Blocked(f"answers: {wish.answer}")
        if group.composition or wish.concepts:
            support = [events[i] for i in answered.official]
            concepts = set(composition(support).split("+"))
            # `composition` lists COREF and CONJ, which make up a COMPOUND, but not COMPOUND itself.
            if any(event.compound for event in support):
                concepts.add("COMPOUND")
            if not set(group.composition) <= concepts:
                raise Blocked(f"composition: {', '.join(group.composition)}")
            for concept, has in wish.concepts.items():
                if (concept in concepts) != has:
                    raise Blocked(f"frequencies: {concept}")
        if group.alternatives is not None and len(answered.supports) not in group.alternatives:
            raise Blocked(f"alternatives: {group.alternatives}")

    def simulate(
        self, plan: ProofPlan | None, length: int, rng: Random, rule: SplitRule
    ) -> tuple[list[Event], Structure]:
        """Draw a story of `length` sentences, around a proof if one is planned. Return it with the
        structure of its beginning.

        A story of another split is abandoned as soon as its beginning is complete.

        Raises:
            Blocked: If the draw cannot be completed. The error names the obstacle.
        """
        units = plan.units if plan else []
        planned = plan.size if plan else 0
        if planned > length:
            raise Blocked(
                f"length: {self.group.length}, which is too short for the proof and the sentences "
                "that it needs"
            )
        spare = length - planned
        if self.group.distractors < 1:
            spare = round(spare * self.group.distractors)
        gaps = _gaps(len(units), spare, self.group.position, rng)
        simulator, weights = Simulator(self.setting.vocabulary, rng), self.weights
        if self.group.proofs == "simulated":
            simulator.settle()
        guard = ProofGuard(plan, simulator)
        events: list[Event] = []
        beginning: Structure | None = None
        for i, gap in enumerate(gaps):
            guard.enter(i)
            if gap:
                wanted, able = len(events) + gap, True
                if beginning is None:
                    # Pause after `BEGINNING` events: half of all stories are rejected there.
                    if len(events) < BEGINNING:
                        able = simulator.extend(events, min(wanted, BEGINNING), wanted, weights)
                    if able and BEGINNING <= len(events) < wanted:
                        beginning = self._beginning(events, rule)
                if able and len(events) < wanted:
                    able = simulator.extend(events, wanted, wanted, weights)
                if not able:
                    raise self._stuck(plan)
            if i < len(units):
                events += guard.perform(units[i])
        return events, beginning or self._beginning(events, rule)

    def _stuck(self, plan: ProofPlan | None) -> Blocked:
        if plan is None:
            return Blocked(
                f"length: {self.group.length}, after {self._happening()} nothing more can happen"
            )
        return Blocked("distractors: the proof leaves nobody free to act")

    @staticmethod
    def _beginning(events: list[Event], rule: SplitRule) -> Structure:
        """Return the structure of a story's beginning.

        Raises:
            Blocked: If the story belongs to another split.
        """
        beginning = Structure()
        if not rule.has(events, beginning):
            raise Blocked(SPLIT)
        return beginning


def _gaps(units: int, spare: int, position: str, rng: Random) -> list[int]:
    """Draw the number of other sentences before each unit and after the last."""
    slots = units + spare
    if not units:
        return [slots]
    # With a `position`, all units are in one half of the story.
    low = min(spare, slots // 2) if position == "late" else 0
    high = max(units, slots // 2) if position == "early" else slots
    chosen = sorted(sample(rng, range(low, high), units))
    ends = [-1, *chosen, slots]
    return [b - a - 1 for a, b in pairwise(ends)]
