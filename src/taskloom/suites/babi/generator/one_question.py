"""Stories with one question at the end, aimed at a wanted structure.

The proof is planned first (`blueprints`), the other sentences are woven around it by the stage, which leaves alone
what the proof stands on. Then the reasoner reads the whole story; what it finds must be what was asked for, or
another draw is made. The question type and the size of the support are drawn once per example, so that rare
structures are as frequent as the recipe says.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from functools import partial
from itertools import pairwise
from typing import cast

from taskloom.errors import RecipeError
from taskloom.example import Example
from taskloom.recipe import Span
from taskloom.seeding import Key, Random
from taskloom.suites.babi.fields import StoryGroup
from taskloom.suites.babi.generator.examples import Posed, make_example, signature, support_signature
from taskloom.suites.babi.generator.guards import Blocked, Guard
from taskloom.suites.babi.generator.many_questions import Setting, draw_kind, draw_questions, palette_of, pose_all
from taskloom.suites.babi.generator.pronouns import NoBlueprint
from taskloom.suites.babi.generator.proof_plan import ProofPlan
from taskloom.suites.babi.generator.proof_shapes import ProofPlanner
from taskloom.suites.babi.generator.simulator import Simulator
from taskloom.suites.babi.reasoner.answers import answer, supports
from taskloom.suites.babi.reasoner.knowledge import Contradiction, Knowledge
from taskloom.suites.babi.splits import SplitRule
from taskloom.suites.babi.story.events import Event, Question, QuestionKind, composition
from taskloom.suites.babi.story.sentences import ask, sentence

TRIES = 4_000
"""Draws for one example before the request counts as impossible."""

PERSISTENCE = 500
"""Draws for one size of support before another of the wanted range is tried."""

OPEN = 8
"""Where a recipe asks for what the support holds but not how large it is: the largest proof that is planned."""

SPLIT = (
    "the split: the story's structure belongs to another one; longer stories, more events or names have more structures"
)


class Exhaustive:
    """The examples of an exhaustive group, one story after the other; how many each has is known only when it is told."""

    def __init__(self, aimer: Aimer, key: Key, home: SplitRule) -> None:
        self._tell = partial(aimer.make_all, key, home=home)
        self._ends: list[int] = []
        self._last: tuple[int, list[Example]] = (-1, [])

    def example(self, index: int) -> Example:
        """Example number `index`; the stories before it are told to be counted."""
        while not self._ends or self._ends[-1] <= index:
            story = len(self._ends)
            self._last = (story, self._tell(story))
            self._ends.append((self._ends[-1] if self._ends else 0) + len(self._last[1]))
        story = bisect_right(self._ends, index)
        if self._last[0] != story:
            self._last = (story, self._tell(story))
        return self._last[1][index - (self._ends[story - 1] if story else 0)]


class Aimer:
    """Makes the examples of one group."""

    def __init__(self, group: StoryGroup, setting: Setting) -> None:
        self.group = group
        self.setting = setting
        self.palette = palette_of(group)
        coref = group.coref if group.coref is not None else dict.fromkeys(group.events, 1.0)
        said_of = {
            "COREF": coref,
            "CONJ": group.conj,
            "COMPOUND": group.conj,
            "NEGATE": group.negate,
            "INDEF": group.indef,
        }
        self.drafter = ProofPlanner(
            setting.vocabulary, group.events, group.wording, said_of, group.composition, self._others()
        )
        if group.support is not None and group.support.low > group.length.high:
            raise RecipeError(
                f"group '{group.name}': length: {group.length} sentences cannot hold a support of {group.support}"
            )
        self.sizes = {kind: self._sizes(kind) for kind, weight in group.questions.items() if weight}
        for kind, sizes in self.sizes.items():
            if self._planned() and not sizes:
                required = f" and {', '.join(group.composition)} in the support" if group.composition else ""
                raise RecipeError(
                    f"group '{group.name}': no {kind} question has a support of {group.support or 'any size'} with the events "
                    f"{', '.join(group.events)}, the wording {', '.join(group.wording) or 'none'}{required}; "
                    f"{self.drafter.limit(kind)}"
                )

    def _others(self) -> int:
        """How many proofs are planned beside the official one; what the story brings by itself comes on top."""
        return max(0, self.group.alternatives.low - 1) if self.group.alternatives else 0

    def _planned(self) -> Span | None:
        """The sizes of support to plan for: those asked for, or any small one where more is asked of it than its size."""
        group = self.group
        wishes = group.composition or self._others() or group.position != "any" or group.distractors < 1
        if group.support is None and not group.unknown and not group.exhaustive and wishes:
            return Span(1, OPEN)
        return group.support

    def _happening(self) -> str:
        group = self.group
        return f"the events {', '.join(group.events)} and the wording {', '.join(group.wording) or 'none'}"

    def _sizes(self, kind: str) -> list[int]:
        wanted = self._planned()
        if wanted is None:
            return []
        sizes = range(wanted.low, min(wanted.high, self.group.length.high) + 1)
        return [size for size in sizes if self.drafter.possible(kind, size)]  # type: ignore[arg-type]

    def make(self, key: Key, index: int, home: SplitRule) -> Example:
        """Example number `index` of the group.

        Raises:
            RecipeError: It cannot be had; says which wish blocks it.
        """
        rng = key.random(index)
        kind, size, said = self._wish(rng)
        blocked: Counter[str] = Counter()
        for i in range(1, TRIES + 1):
            try:
                return self._draw(key, index, kind, size, said, rng, home)
            except Blocked as wish:
                blocked[str(wish)] += 1
                if str(wish).startswith("per_signature"):
                    kind, size, said = self._wish(rng)  # there may be no signature of that size for this row
            except NoBlueprint:
                blocked["the proof: too few persons, objects or places for a support of that size"] += 1
            except Contradiction as error:
                # The stage and the reasoner disagree: a bug of ours, which must not pass for a hard wish.
                raise AssertionError(f"group '{self.group.name}', example {index}: {error}") from error
            if i % PERSISTENCE == 0:
                kind, size, said = self._wish(rng)
        # Half of all structures belong to another split anyway; that is the reason only where there is no other.
        wishes = Counter({wish: n for wish, n in blocked.items() if wish != SPLIT}) or blocked
        reason, count = wishes.most_common(1)[0]
        raise RecipeError(
            f"group '{self.group.name}': no {kind} story with a support of {self.group.support or 'any size'} in {TRIES} draws; "
            f"what blocked {100 * count // wishes.total()} % of them was {reason}"
        )

    def _wish(self, rng: Random) -> tuple[QuestionKind, int, str]:
        """What the next example shall be: question type, size of the support (0 for any), and answer of a yes-no question."""
        kind = draw_kind(self.group, rng)
        sizes = self.sizes[kind]
        size = sizes[int(rng.random() * len(sizes))] if sizes else 0
        return kind, size, self._said(kind, size, rng)

    def make_all(self, key: Key, story: int, home: SplitRule) -> list[Example]:
        """Story number `story` with every question of the group's types that can be answered (and has the wanted support).

        Raises:
            RecipeError: There is none.
        """
        group, setting = self.group, self.setting
        rng = key.random("exhaustive", story)
        kinds = cast(tuple[QuestionKind, ...], tuple(sorted(k for k, w in group.questions.items() if w)))
        for _ in range(TRIES):
            length = group.length.low + int(rng.random() * (group.length.high - group.length.low + 1))
            try:
                events = self._weave(None, length, rng)
            except Blocked:
                continue
            if not home.has(events):
                continue
            knowledge = Knowledge(setting.vocabulary.places, setting.reading).tell_all(events)
            posed = [p for p in pose_all(knowledge, kinds) if group.support is None or len(p.official) in group.support]
            if not posed:
                continue
            passage = " ".join([sentence(e, setting.vocabulary, setting.lexicon, rng) for e in events])
            return [
                make_example(
                    events,
                    passage,
                    ask(p.question, setting.lexicon),
                    p,
                    group=group.name,
                    task=setting.task,
                    key=signature(events),
                )
                for p in posed
            ]
        raise RecipeError(f"group '{group.name}': nothing of {', '.join(kinds)} could be asked in {TRIES} stories")

    def _said(self, kind: str, size: int, rng: Random) -> str:
        if kind != "yes-no":
            return "yes"
        weights = self.group.answers or {
            "yes": 1.0,
            "no": 1.0,
            **({"maybe": 1.0} if "INDEF" in self.group.wording else {}),
        }
        able = {a: w for a, w in weights.items() if not size or self.drafter.shapes("yes-no", size, a)}
        if not able:
            raise RecipeError(
                f"group '{self.group.name}': answers: no yes-no question with a support of {size}, {self._happening()} "
                f"is answered by {', '.join(weights)}"
            )
        return rng.choices(list(able), weights=list(able.values()))[0]

    def _draw(
        self,
        key: Key,
        index: int,
        kind: QuestionKind,
        size: int,
        said: str,
        rng: Random,
        home: SplitRule,
    ) -> Example:
        group, setting = self.group, self.setting
        length = group.length.low + int(rng.random() * (group.length.high - group.length.low + 1))
        blueprint = self.drafter.draft(kind, size, rng, said) if size else None
        events = self._weave(blueprint, length, rng)
        if not home.has(events):
            raise Blocked(SPLIT)
        knowledge = Knowledge(setting.vocabulary.places, setting.reading).tell_all(events)
        posed = self._pose(knowledge, blueprint.question if blueprint else None, kind, said, rng)
        self._accept(posed, events, said, key, index)
        texts = [sentence(e, setting.vocabulary, setting.lexicon, rng) for e in events]
        asked = ask(posed.question, setting.lexicon)
        return make_example(
            events, " ".join(texts), asked, posed, group=group.name, task=setting.task, key=signature(events)
        )

    def _pose(
        self, knowledge: Knowledge, planned: Question | None, kind: QuestionKind, said: str, rng: Random
    ) -> Posed:
        if planned is None:
            answers = {said: 1.0} if kind == "yes-no" else None
            planned = next(draw_questions(knowledge, kind, self.group, rng, answers), None)
            if planned is None:
                raise Blocked(f"questions: {kind}, of which nothing can be asked after {self._happening()}")
        verdict = answer(knowledge, planned)
        if not verdict.known and not self.group.unknown:
            raise Blocked("the question: a distractor made it undecidable")
        return Posed(planned, verdict, supports(knowledge, planned, verdict) or [()])

    def _accept(self, posed: Posed, events: list[Event], said: str, key: Key, index: int) -> None:
        group = self.group
        if group.support is not None and len(posed.official) not in group.support:
            raise Blocked(f"support: {group.support}")
        if posed.question.kind == "yes-no" and posed.verdict.answer != said:
            raise Blocked(f"answers: {said}")
        if group.composition:
            found = composition([events[i] for i in posed.official]).split("+")
            if not set(group.composition) <= {*found, *_compound(events, posed)}:
                raise Blocked(f"composition: {', '.join(group.composition)}")
        if group.alternatives is not None and len(posed.supports) not in group.alternatives:
            raise Blocked(f"alternatives: {group.alternatives}")
        if group.per_signature is not None:
            # A signature is free only to the rows of one residue class, and a class has at most so many rows.
            classes = -(-group.n // group.per_signature)
            mine = key.hash64("signature", support_signature(events, posed)) % classes
            if mine != index % classes:
                raise Blocked(f"per_signature: {group.per_signature}")

    def _weave(self, blueprint: ProofPlan | None, length: int, rng: Random) -> list[Event]:
        units = blueprint.units if blueprint else []
        planned = blueprint.size if blueprint else 0
        if planned > length:
            raise Blocked(f"length: {self.group.length}, the proof and what it needs take more")
        spare = length - planned
        if self.group.distractors < 1:
            spare = round(spare * self.group.distractors)
        gaps = _gaps(len(units), spare, self.group.position, rng)
        stage = Simulator(self.setting.vocabulary, rng)
        guard = Guard(blueprint, stage)
        events: list[Event] = []
        for i in range(len(units) + 1):
            guard.enter(i)
            wanted = len(events) + gaps[i]
            while len(events) < wanted:
                done = stage.act(self.palette, wanted - len(events))
                if not done and blueprint is None:
                    raise Blocked(f"length: {self.group.length}, after {self._happening()} nothing more can happen")
                if not done:
                    raise Blocked("distractors: the proof leaves nobody free to act")
                events += done
            if i < len(units):
                events += guard.perform(units[i])
        return events


def _compound(events: list[Event], posed: Posed) -> set[str]:
    return {"COMPOUND"} if any(events[i].compound for i in posed.official) else set()


def _gaps(units: int, spare: int, position: str, rng: Random) -> list[int]:
    """How many other sentences stand before each unit and after the last."""
    slots = units + spare
    low, high = {"any": (0, slots), "early": (0, max(units, slots // 2)), "late": (min(spare, slots // 2), slots)}[
        position
    ]
    chosen = sorted(rng.sample(range(low, high), units))
    ends = [-1, *chosen, slots]
    return [b - a - 1 for a, b in pairwise(ends)]
