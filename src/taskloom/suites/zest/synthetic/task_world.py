"""The tasks of a recipe as a world: which passages each task has, and how each instance is
generated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat

from taskloom.core.errors import RecipeError
from taskloom.core.example import Example, Step
from taskloom.core.seeding import Key
from taskloom.suites.zest.fields import Layout, Parts, ZestFields, context, layout
from taskloom.suites.zest.synthetic import draft, prose
from taskloom.suites.zest.synthetic.algebra import NA, acceptable, answer, known, program_text
from taskloom.suites.zest.synthetic.answer_mix import Mix, spread_answers
from taskloom.suites.zest.synthetic.described_tasks import DescribedTask, TaskRequest, draw_tasks
from taskloom.suites.zest.synthetic.domain_files import domain_names, find_domain
from taskloom.suites.zest.synthetic.programs import JOINING, Program
from taskloom.suites.zest.synthetic.prose import Decks
from taskloom.suites.zest.task_files import KINDS, PAPER, Instance, ZestTask

RETRIES = 50
"""Maximum number of draws with the requested amounts. About one passage in twenty is too long."""


@dataclass(frozen=True, slots=True)
class TaskWorld:
    """The tasks of a recipe for a key. Generates any instance of any task."""

    key: Key
    splits: dict[str, list[DescribedTask]]
    passages: int
    mixes: Mapping[str, Mix]
    amounts: draft.Amounts
    rivals: Mapping[str, Program]
    places: Mapping[str, int]
    decks: Mapping[str, Decks]
    layout: Layout
    parts: Parts = "both"

    def example(self, task: DescribedTask, number: int) -> Example:
        """Generate instance `number` of a task."""
        return self.instance(task, number, *self._written(task, number))

    def instance(
        self, task: DescribedTask, number: int, text: str, drafted: draft.Draft, target: str
    ) -> Example:
        """Build an instance from its passage, the facts in it, and the answer of the program."""
        return Example(
            layout(task.question, text, self.layout, self.parts),
            acceptable(task.domain, task.program, target),
            {
                "generalization_type": task.kind,
                "domain": task.domain.name,
                "format": task.format,
                "answer_type": answer_type(target),
                "evidence": _evidence(task.program, drafted, target),
                "derives_from": " ".join(task.derives_from),
                "program": program_text(task.program),
                "operation": task.program.op,
                "instance": number,
                "passage_words": text.count(" ") + 1,
                "question_words": task.question.count(" ") + 1,
            },
            question=task.question,
            derivation=_derivation(task, drafted, target),
            task=task.id,
        )

    def passage(self, task: DescribedTask, number: int) -> tuple[str, draft.Draft]:
        """Write an instance's text, and return it with its facts. A paraphrase uses the random
        stream of its base task and gets the same passage.
        """
        return self._written(task, number)[:2]

    def _written(self, task: DescribedTask, number: int) -> tuple[str, draft.Draft, str]:
        """Write an instance's text, and return it with its facts and the answer of the task's
        program.
        """
        rng = self.key.random("passage", task.source, number)
        # Passages beyond those of the recipe come in rounds with the same mix of answers.
        again, at = divmod(number, self.passages)
        key = self.key.child("round", again) if again else self.key
        kinds = answer_kinds(
            key, task.source, task.program.yes_no, self.passages, self.mixes[task.source]
        )
        wanted = kinds[at]
        rival = self.rivals.get(task.id)
        place = self.places[task.source], number
        for amounts in self._attempts():
            drafted, target = draft.draw(task.domain, task.program, wanted, amounts, rng, rival)
            text = prose.passage(task.domain, drafted, rng, self.decks[task.domain.name], place)
            if text.count(" ") < prose.LONGEST:
                return text, drafted, target
        raise RecipeError(
            f"the passages for {task.question!r} are longer than {prose.LONGEST} words even "
            "without further facts; lower facts"
        )

    def _attempts(self) -> Iterator[draft.Amounts]:
        """Yield the amounts to try for a passage: first the requested ones, then smaller ones, so
        that every passage fits in the end.
        """
        yield from repeat(self.amounts, RETRIES)
        facts, distractors = self.amounts.facts[0], self.amounts.distractors[0]
        for share in range(9, -1, -1):
            fewer = distractors * share // 10
            own = facts if share else 0
            yield from repeat(draft.Amounts((own, own), (fewer, fewer)), 5)


@lru_cache(maxsize=4096)
def answer_kinds(
    key: Key, source: str, yes_no: bool, passages: int, mix: Mix
) -> tuple[draft.Wanted, ...]:
    """Assign a kind of answer to each instance of a task."""
    kinds: list[draft.Wanted] = ["na"] * (passages - mix.answered)
    if yes_no:
        kinds += ["yes" if i < mix.yes else "no" for i in range(mix.answered)]
    else:
        kinds += ["answer"] * mix.answered
    key.random("kinds", source).shuffle(kinds)
    return tuple(kinds)


def answer_type(target: str) -> str:
    """Return the trait `answer_type`: n/a, yes, no, span, list or structure."""
    if target in (NA, "yes", "no"):
        return target
    if "}" in target:
        return "structure"
    return "list" if "|" in target else "span"


def _evidence(program: Program, drafted: draft.Draft, target: str) -> str:
    """Return the trait `evidence`: how the passage supports the answer."""
    if target == NA:
        return "absent"
    return "implied" if _implied(program, drafted) else "stated"


def _implied(program: Program, drafted: draft.Draft) -> bool:
    """True if something that the program uses is known only through a rule."""
    names = [leaf.args[0] for leaf in program.leaves]
    unstated = [name for name in names if name not in drafted.main.values]
    return any(known(name, drafted.main, drafted.rules) is not None for name in unstated)


def _derivation(task: DescribedTask, drafted: draft.Draft, target: str) -> list[Step]:
    """Build one step for each program that reads facts, and one for each that combines others.
    `target` is the answer of the whole program.
    """
    steps: list[Step] = []

    def add(program: Program) -> int:
        parts = tuple(add(p) for p in program.args) if program.op in JOINING else ()
        rule = program.op if parts else f"{program.op} {task.domain.name}.{program.args[0]}"
        whole = program is task.program
        text = target if whole else answer(task.domain, program, drafted.main, drafted.rules)
        steps.append(Step(rule, text, parts))
        return len(steps) - 1

    add(task.program)
    return steps


def _file_answer(example: Example) -> str | tuple[str, ...]:
    """Return an answer in the format of ZEST files: a text, or all acceptable texts."""
    return example.target if len(example.targets) == 1 else example.targets


def zest_tasks(world: TaskWorld, split: str) -> list[ZestTask]:
    """Convert a split to tasks as in ZEST files, for the evaluation and for other people's code
    (`task_files.write_tasks`).
    """
    tasks = []
    for line, task in enumerate(world.splits[split], start=1):
        rows = [world.example(task, i) for i in range(world.passages)]
        instances = tuple(Instance(context(e.input), _file_answer(e)) for e in rows)
        tasks.append(
            ZestTask(
                task.id,
                task.question,
                task.kind,
                task.derives_from,
                task.domain.name,
                instances,
                line,
            )
        )
    return tasks


def task_world(fields: ZestFields, key: Key) -> TaskWorld:
    """Build the world of tasks from checked recipe fields."""
    names = fields.domains or domain_names()
    classification = {split: numbers["classification"] for split, numbers in PAPER.items()}
    if fields.classification is not None:
        classification = dict.fromkeys(PAPER, fields.classification)
    request = TaskRequest(
        domains=tuple(find_domain(name, fields.find_file(name)) for name in names),
        sizes=fields.tasks.model_dump(),
        shares={kind: getattr(fields.shares, kind) for kind in KINDS},
        paraphrase=fields.paraphrase,
        flips=tuple(fields.flips),
        depth=(fields.composition_depth.low, fields.composition_depth.high),
        width=(fields.structure_width.low, fields.structure_width.high),
        classification=classification,
        unseen=fields.unseen,
    )
    amounts = draft.Amounts(
        (fields.facts.low, fields.facts.high), (fields.distractors.low, fields.distractors.high)
    )
    drawn = draw_tasks(request, key)
    mixed = spread_answers(drawn, fields, key)
    splits = {split: _whole_family_first(members, mixed) for split, members in drawn.items()}
    splits["train"] = splits["train"][: fields.train_prefix]
    rivals = {task.id: program for members in drawn.values() for task, program in _flipped(members)}
    decks = {
        domain.name: prose.decks(key.child("decks", domain.name), domain)
        for domain in request.domains
    }
    places = _places(drawn)
    return TaskWorld(
        key,
        splits,
        fields.passages,
        mixed,
        amounts,
        rivals,
        places,
        decks,
        fields.layout,
        fields.parts,
    )


def _places(drawn: Mapping[str, list[DescribedTask]]) -> dict[str, int]:
    """Number the tasks that have their own passages, separately for each domain.

    The splits alternate (train 0, 3, 6, dev 1, 4, 7), so that the size of one does not change the
    numbers of another.
    """
    places: dict[str, int] = {}
    for split, members in enumerate(drawn.values()):
        counts: Counter[str] = Counter()
        for task in members:
            if task.source == task.id:
                places[task.id] = counts[task.domain.name] * len(drawn) + split
                counts[task.domain.name] += 1
    return places


def _flipped(members: list[DescribedTask]) -> Iterator[tuple[DescribedTask, Program]]:
    """Yield the flips of a split, each with the program of its base task, whose answer should
    differ.
    """
    programs = {t.id: t.program for t in members}
    return ((t, programs[t.derives_from[0]]) for t in members if t.kind == "target_semantics")


def _whole_family_first(
    members: list[DescribedTask], mixed: Mapping[str, Mix]
) -> list[DescribedTask]:
    """For readers who look at the first examples: move a base task to the front whose derivatives
    have all four kinds and enough answers.
    """
    families: dict[str, list[DescribedTask]] = {}
    for task in members:
        for base in task.derives_from:
            families.setdefault(base, []).append(task)

    def answers(task: DescribedTask) -> int:
        mix = mixed[task.source]
        if task.program.yes_no:
            return min(mix.yes, mix.answered - mix.yes)
        return mix.answered

    def fewest_answers(place: int) -> int:
        base = members[place]
        return min(answers(task) for task in (base, *families[base.id]))

    whole = []
    for place, task in enumerate(members):
        kinds = {derived.kind for derived in families.get(task.id, ())}
        if len(kinds) == len(KINDS) - 1:  # all kinds except base tasks
            whole.append(place)
    at = max(whole, key=fewest_answers, default=0)
    return members[at : at + 1] + members[:at] + members[at + 1 :]
