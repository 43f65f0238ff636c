"""From a recipe to the plan of procedural ZEST: which task and passage stand at which index, and how each is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from taskloom.errors import InputError, RecipeError
from taskloom.example import Example, Step
from taskloom.plan import Plan, Source, Split, Tasks
from taskloom.seeding import Key
from taskloom.suites.zest.dataset_statistics import PAPER
from taskloom.suites.zest.layout import Layout, context, layout, told_already
from taskloom.suites.zest.scorer import zest
from taskloom.suites.zest.synthetic import domain as domains
from taskloom.suites.zest.synthetic import draft, prose
from taskloom.suites.zest.synthetic.algebra import answer, written
from taskloom.suites.zest.synthetic.answer_mix import SILENT, Mix, mixes, settled_counts, settled_share
from taskloom.suites.zest.synthetic.described_tasks import DescribedTask, Wishes, tasks
from taskloom.suites.zest.synthetic.facts import NA, known
from taskloom.suites.zest.synthetic.programs import JOINING, PRESENCE, Program
from taskloom.suites.zest.task_files import KINDS, Instance, Kind, ZestTask

if TYPE_CHECKING:
    from taskloom.suites.zest import ZestFields

TRAITS: dict[str, type] = {
    "generalization_type": str,
    "domain": str,
    "format": str,
    "answer_type": str,
    "evidence": str,
    "derives_from": str,
    "program": str,
    "operation": str,
    "instance": int,
    "passage_words": int,
    "question_words": int,
}

RETRIES = 50
"""Passages are drawn again when they exceed the length; about one in twenty does."""


@dataclass(frozen=True, slots=True)
class TaskWorld:
    """The tasks of a recipe under a key, and the making of any instance of any of them."""

    key: Key
    splits: dict[str, list[DescribedTask]]
    passages: int
    mixes: Mapping[str, Mix]
    amounts: draft.Amounts
    layout: Layout

    def example(self, task: DescribedTask, number: int) -> Example:
        """Instance `number` of a task."""
        text, drafted = self.passage(task, number)
        found = answer(task.domain, task.program, drafted.main, drafted.rules)
        implied = _implied(task.program, drafted)
        evidence = "absent" if found == NA else "implied" if implied else "stated"
        return Example(
            layout(task.question, text, self.layout),
            found,
            {
                "generalization_type": task.kind,
                "domain": task.domain.name,
                "format": task.format,
                "answer_type": answer_type(found),
                "evidence": evidence,
                "derives_from": " ".join(task.derives_from),
                "program": written(task.program),
                "operation": task.program.op,
                "instance": number,
                "passage_words": text.count(" ") + 1,
                "question_words": task.question.count(" ") + 1,
            },
            question=task.question,
            derivation=_derivation(task, drafted),
            task=task.id,
        )

    def passage(self, task: DescribedTask, number: int) -> tuple[str, draft.Draft]:
        """The text of an instance and what it states. A paraphrase draws from its base's stream, and so the same passage."""
        rng = self.key.random("passage", task.source, number)
        wanted = kinds(self.key, task.source, task.program.yes_no, self.passages, self.mixes[task.source])[number]
        for _ in range(RETRIES):
            drafted, _found = draft.draw(task.domain, task.program, wanted, self.amounts, rng)
            text = prose.passage(task.domain, drafted, rng)
            if text.count(" ") < prose.LONGEST:
                return text, drafted
        raise RecipeError(
            f"{RETRIES} passages for {task.question!r} were all longer than {prose.LONGEST} words; lower facts or distractors"
        )


@lru_cache(maxsize=4096)
def kinds(key: Key, source: str, yes_no: bool, passages: int, mix: Mix) -> tuple[draft.Wanted, ...]:
    """Which instances of a task have which kind of answer."""
    found: list[draft.Wanted] = ["na"] * (passages - mix.answered)
    for i in range(mix.answered):
        found.append(("yes" if i < mix.yes else "no") if yes_no else "answer")
    key.random("kinds", source).shuffle(found)
    return tuple(found)


def answer_type(found: str) -> str:
    """n/a, yes, no, span, list or structure."""
    if found in (NA, "yes", "no"):
        return found
    return "structure" if "}" in found else "list" if "|" in found else "span"


def _implied(program: Program, drafted: draft.Draft) -> bool:
    """Whether something that the program looks at is known by a rule only."""
    names = [leaf.args[0] for leaf in program.leaves]
    return any(n not in drafted.main.values and known(n, drafted.main, drafted.rules) is not None for n in names)


def _derivation(task: DescribedTask, drafted: draft.Draft) -> list[Step]:
    """One step for each fact-reading program, and one for each that joins them."""
    steps: list[Step] = []

    def add(program: Program) -> int:
        parts = tuple(add(p) for p in program.args) if program.op in JOINING else ()
        rule = program.op if parts else f"{program.op} {task.domain.name}.{program.args[0]}"
        steps.append(Step(rule, answer(task.domain, program, drafted.main, drafted.rules), parts))
        return len(steps) - 1

    add(task.program)
    return steps


def zest_tasks(made: TaskWorld, split: str) -> list[ZestTask]:
    """A split in the form of ZEST files, for the evaluation and for other people's code (`files.write_tasks`)."""
    found = []
    for line, task in enumerate(made.splits[split], start=1):
        rows = [made.example(task, i) for i in range(made.passages)]
        instances = tuple(Instance(context(e.input), e.target) for e in rows)
        found.append(ZestTask(task.id, task.question, task.kind, task.derives_from, task.domain.name, instances, line))
    return found


def world(fields: ZestFields, key: Key) -> TaskWorld:
    """The tasks of checked recipe fields."""
    names = fields.domains or domains.names()
    wishes = Wishes(
        domains=tuple(domains.find(name) for name in names),
        sizes=fields.tasks.model_dump(),
        shares={kind: getattr(fields.shares, kind) for kind in KINDS},
        paraphrase=fields.paraphrase,
        flips=tuple(fields.flips),
        depth=(fields.composition_depth.low, fields.composition_depth.high),
        width=(fields.structure_width.low, fields.structure_width.high),
        classification={
            split: PAPER[split]["classification"] if fields.classification is None else fields.classification
            for split in PAPER
        },
    )
    amounts = draft.Amounts((fields.facts.low, fields.facts.high), (fields.distractors.low, fields.distractors.high))
    made = tasks(wishes, key)
    mixed = spread_answers(made, fields, key)
    splits = {split: _whole_family_first(members, mixed) for split, members in made.items()}
    return TaskWorld(key, splits, fields.passages, mixed, amounts, fields.layout)


def _whole_family_first(members: list[DescribedTask], mixed: Mapping[str, Mix]) -> list[DescribedTask]:
    """A base task with derivatives of all four kinds, none of them with few answers, so that whoever looks at a split sees one."""
    families: dict[str, list[DescribedTask]] = {}
    for task in members:
        for base in task.derives_from:
            families.setdefault(base, []).append(task)

    def answers(task: DescribedTask) -> int:
        mix = mixed[task.source]
        return min(mix.yes, mix.answered - mix.yes) if task.program.yes_no else mix.answered

    whole = [i for i, t in enumerate(members) if len({d.kind for d in families.get(t.id, ())}) == len(KINDS) - 1]
    at = max(whole, key=lambda i: min(answers(t) for t in (members[i], *families[members[i].id])), default=0)
    return members[at : at + 1] + members[:at] + members[at + 1 :]


@dataclass(frozen=True, slots=True)
class _Alike:
    """Tasks of a split of one kind, with the most likely to be settled first, and the answers of those that are.

    Tasks that lend their passages to paraphrases count more than once (`weight`), so they are spread for themselves.
    """

    kind: Kind
    yes_no: bool
    weight: int
    sources: list[str]
    settled: list[int]

    @property
    def others(self) -> int:
        """Passages of tasks that are not settled, as often as they count."""
        return self.weight * (len(self.sources) - len(self.settled))


def spread_answers(made: Mapping[str, list[DescribedTask]], fields: ZestFields, key: Key) -> dict[str, Mix]:
    """The mix of every task that has passages of its own, spread alike in each split, for each kind of task."""
    found: dict[str, Mix] = {}
    for split, members in made.items():
        groups = _alike(members, fields, key)
        due = 0.0
        for yes_no in (True, False):
            these = [g for g in groups if g.yes_no == yes_no]
            # Of all answers those are left to be spread that settled tasks do not have; what rounding takes from one group
            # it gives to the next.
            due += sum(g.weight * len(g.sources) for g in these) * fields.passages * (1 - fields.na_rate)
            due -= sum(g.weight * sum(g.settled) for g in these)
            left = sum(g.others for g in these)
            for group in these:
                total = round(due * group.others / left / group.weight) if group.others else 0
                silent = round(SILENT * len(members)) if group is groups[0] else 0
                place = key.child("mixes", split, group.kind, int(yes_no), group.weight)
                mixed = mixes(group.sources, group.settled, fields.passages, total, silent, place)
                due += group.weight * (sum(group.settled) - sum(mix.answered for mix in mixed.values()))
                left -= group.others
                found |= mixed
    return found


def _alike(members: list[DescribedTask], fields: ZestFields, key: Key) -> list[_Alike]:
    """The groups of a split, large ones first.

    Flips come last: a flip counts together with its base task, so the settled ones are those of settled base tasks; and one
    that nothing answers would not be done by saying n/a.
    """
    uses = Counter(t.source for t in members)
    alike: dict[tuple[bool, Kind, bool, int], list[DescribedTask]] = {}
    for task in members:
        if task.source == task.id:
            flip = task.kind == "target_semantics"
            alike.setdefault((flip, task.kind, task.program.yes_no, uses[task.id]), []).append(task)
    share = settled_share(fields.na_rate) if 0 < fields.na_rate < 1 else 0.0
    owed = 0.0
    settled: set[str] = set()
    found = []
    for (flip, kind, yes_no, many), group in sorted(alike.items(), key=lambda item: (item[0][0], -len(item[1]))):
        count = 0
        if yes_no:
            owed += share * many * len(group)
            count = min(len(group), round(owed / many))
            owed -= many * count
        ranked = sorted(group, key=lambda t: (flip and t.derives_from[0] not in settled, _doubt(t, key), t.id))
        settled.update(t.id for t in ranked[:count])
        counts = settled_counts(count, fields.passages, fields.na_rate)
        found.append(_Alike(kind, yes_no, many, [t.id for t in ranked], counts))
    return found


def _doubt(task: DescribedTask, key: Key) -> tuple[int, int]:
    """How little a task is likely to be settled, so that its description can tell, in all splits alike.

    Questions whether something is there or done come first: texts seldom say what is absent. Then go by what they are about.
    """
    leaves, records = task.program.leaves, task.domain.records_by_name
    topics = [leaf.args[: 1 + (leaf.args[0] in records)] for leaf in leaves]
    about = max(key.hash64("topic", task.domain.name, *topic) for topic in topics)
    return sum(leaf.op not in PRESENCE for leaf in leaves), about


def weave(fields: ZestFields, key: Key) -> Plan:
    """The plan of procedural ZEST."""
    from taskloom.suites.zest.synthetic import show as showing

    made = world(fields, key)

    def rows(split: str) -> Callable[[int, int], Iterator[Example]]:
        def make(start: int, stop: int) -> Iterator[Example]:
            for index in range(start, stop):
                yield made.example(made.splits[split][index // made.passages], index % made.passages)

        return make

    return Plan(
        splits=tuple(
            Split(name, len(found) * made.passages, rows(name), "train" if name == "train" else "test")
            for name, found in made.splits.items()
            if found
        ),
        traits=TRAITS,
        describe="Answer the question about the passage: yes, no, words of the passage (several joined by |), JSON where several "
        "things are asked of each item, or n/a where the passage does not say.",
        scorer=zest,
        sources=tuple(Source(n, domains.load(Path(n))[0]) for n in fields.domains if n.endswith(".py")),
        check=check,
        warnings=(
            "paraphrases have the passages of their base tasks, by design: audit counts them as near duplicates",
        ),
        show=lambda example: showing.show(made, example),
        tasks=Tasks(tell=told_already),
    )


def check(example: Example) -> tuple[str, ...]:
    """The answer again: from the text of the passage, by the independent reader."""
    from taskloom.suites.zest.synthetic import second_solver

    try:
        name, program = str(example.traits["domain"]), str(example.traits["program"])
    except KeyError as error:
        raise InputError(
            f"the example has no trait {error}; only examples of zest/synthetic can be read again"
        ) from error
    return (second_solver.solve(domains.find(name), program, context(example.input)),)
