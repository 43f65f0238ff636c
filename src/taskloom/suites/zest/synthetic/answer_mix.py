"""Decides how many passages of each task have an answer, and how many of those answers are yes.

Tasks differ as much as real ones do. In the ten real tasks whose answers are available, 0 to 17 of
the 20 passages have an answer. For example, "Are mountain bikes allowed at this national park?" has
17 answers, all of them yes. A system that reads only the description can solve such settled tasks;
in the paper it solves one task in ten (Table 5). The shares are spread evenly over the tasks of a
split, so that the split has its answer rate with any seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from taskloom.core.seeding import Key
from taskloom.suites.zest.fields import ZestFields
from taskloom.suites.zest.synthetic.described_tasks import DescribedTask
from taskloom.suites.zest.synthetic.programs import PRESENCE, Program
from taskloom.suites.zest.task_files import PAPER, Kind

SILENT = 0.01
"""Share of tasks without an answer in any passage. In the paper this is one of 114 dev tasks
(section 6).
"""

SETTLED = 0.57
"""Share of yes/no answers that belong to settled tasks. Nearly all passages of a settled task have
an answer, which is always yes.

At the paper's n/a rate, about a fourth of the yes/no tasks are settled and three fourths of the
answers are yes, as in the real data.
"""

FULLNESS = (0.65, 0.95, 0.45)
"""How the share of answered passages is spread over settled tasks: first share, last share,
exponent. With these values, seven in ten tasks have answers in at least 17 of 20 passages.
"""

ALIKE = 0.1
"""Share of the unsettled yes/no tasks whose answers are all yes. The same share has answers that
are all no.
"""

EDGE = 1e-9
"""Minimum share of n/a, and of answers, for which the spread is defined."""


@dataclass(frozen=True, slots=True)
class Mix:
    """Number of a task's passages that have an answer, and, for yes/no tasks, number of yes
    answers.
    """

    answered: int
    yes: int


def settled_share(na_rate: float) -> float:
    """Return the share of yes/no tasks that are settled, given the n/a rate."""
    low, high, power = _fullness(na_rate)
    return SETTLED * (1 - na_rate) / (low + (high - low) / (1 + power))


def _fullness(na_rate: float) -> tuple[float, float, float]:
    """Return `FULLNESS`, raised to at least the average of all tasks. Otherwise the other tasks
    could not compensate for the settled ones.
    """
    low, high, power = FULLNESS
    return max(low, 1 - na_rate), max(high, 1 - na_rate), power


def settled_counts(tasks: int, passages: int, na_rate: float) -> list[int]:
    """Return the number of answered passages for each settled task, in ascending order. One passage
    is n/a if the rate allows it.
    """
    low, high, power = _fullness(na_rate)
    most = passages - 1 if passages * na_rate >= 1 else passages
    spread = [low + (high - low) * ((i + 0.5) / tasks) ** power for i in range(tasks)]
    return [min(most, max(1, round(share * passages))) for share in spread]


def mixes(
    sources: Sequence[str], settled: Sequence[int], passages: int, total: int, silent: int, key: Key
) -> dict[str, Mix]:
    """Assign mixes with a given total to tasks. The first tasks are settled and have the given
    counts. The order of the others has no effect.
    """
    order = sorted(sources[: len(settled)], key=lambda source: key.hash64("full", source))
    settled_mixes = {source: Mix(n, n) for source, n in zip(order, settled, strict=True)}
    others = sorted(sources[len(settled) :], key=lambda source: key.hash64("answered", source))
    counts = answered(len(others), passages, total, silent)
    shares = _yes_shares(len(others), key)
    return settled_mixes | {
        source: Mix(n, round(n * yes))
        for source, n, yes in zip(others, counts, shares, strict=True)
    }


def _yes_shares(tasks: int, key: Key) -> list[float]:
    """Return each task's share of yes among its answers: none, all, or evenly spaced values in
    between.

    Adjacent tasks, which have similar numbers of answers, get opposite shares, so that yes and no
    are balanced overall.
    """
    pairs = tasks // 2
    shares = [0.5] * tasks
    for j, pair in enumerate(sorted(range(pairs), key=lambda i: key.hash64("yes", i))):
        spread = min(1.0, (j + 0.5) / pairs / (1 - 2 * ALIKE))
        swing = spread / 2 if key.hash64("side", pair) % 2 else -spread / 2
        shares[2 * pair], shares[2 * pair + 1] = 0.5 + swing, 0.5 - swing
    return shares


def answered(tasks: int, passages: int, total: int, silent: int = 0) -> list[int]:
    """Return the number of answered passages for each task, in ascending order. The numbers add up
    to the total, or are as close to it as possible.

    The shares are powers u**k of evenly spaced u in (0, 1), whose mean is 1 / (k + 1). If the total
    allows it, every task except the silent ones has both an answer and a passage that is n/a. With
    one passage per task this is impossible.
    """
    if not tasks:
        return []
    share = min(1 - EDGE, max(EDGE, total / (tasks * passages)))
    power = 1 / min(share, 1 - share) - 1
    spread = [((i + 0.5) / tasks) ** power * passages for i in range(tasks)]
    if share > 0.5:
        spread = [passages - x for x in reversed(spread)]
    most = max(1, passages - 1)
    counts = [0 if i < silent else min(most, max(1, round(x))) for i, x in enumerate(spread)]
    for low, high, least in ((1, most, 1), (0, passages, 1), (0, passages, 0)):
        _summing(counts, total, range(low, high + 1), least)
    return counts


def _summing(counts: list[int], total: int, room: range, least: int) -> None:
    """Change counts of at least `least` in steps of one, within `room`, until they add up to
    `total`.
    """
    step = 1 if total > sum(counts) else -1
    while sum(counts) != total:
        free = [i for i, n in enumerate(counts) if n >= least and n + step in room]
        if not free:
            return
        # Spread the changes evenly over the tasks, so that no group of tasks is affected more than
        # the others.
        changed = min(abs(total - sum(counts)), len(free))
        for j in range(changed):
            counts[free[j * len(free) // changed]] += step


@dataclass(frozen=True, slots=True)
class _Alike:
    """Tasks of one kind in a split, those most likely to be settled first, and the answer counts of
    the settled ones.

    Tasks that share their passages with paraphrases count more than once (`weight`), so they form
    separate groups.
    """

    kind: Kind
    yes_no: bool
    weight: int
    sources: list[str]
    settled: list[int]

    @property
    def others(self) -> int:
        """Number of tasks that are not settled, counted once per use of their passages."""
        return self.weight * (len(self.sources) - len(self.settled))


def spread_answers(
    splits: Mapping[str, list[DescribedTask]], fields: ZestFields, key: Key
) -> dict[str, Mix]:
    """Assign a mix to every task with its own passages. The spread is the same in each split and
    for each kind of task.
    """
    by_source: dict[str, Mix] = {}
    for split, members in splits.items():
        na_rate = PAPER[split]["na"] if fields.na_rate is None else fields.na_rate
        groups = _alike(members, fields.passages, na_rate, key)
        due = 0.0
        for yes_no in (True, False):
            these = [g for g in groups if g.yes_no == yes_no]
            # Distribute the answers that the settled tasks leave. Rounding errors are carried over
            # to the next group.
            due += sum(g.weight * len(g.sources) for g in these) * fields.passages * (1 - na_rate)
            due -= sum(g.weight * sum(g.settled) for g in these)
            left = sum(g.others for g in these)
            for group in these:
                total = round(due * group.others / left / group.weight) if group.others else 0
                silent = round(SILENT * len(members)) if group is groups[0] else 0
                place = key.child("mixes", split, group.kind, int(yes_no), group.weight)
                mixed = mixes(group.sources, group.settled, fields.passages, total, silent, place)
                due += group.weight * (
                    sum(group.settled) - sum(mix.answered for mix in mixed.values())
                )
                left -= group.others
                by_source |= mixed
        by_source |= _answer_flips(members, by_source, fields.passages)
    return by_source


def _lenders(
    tasks: Iterable[DescribedTask], counts: Mapping[str, int], least: int, uses: Mapping[str, int]
) -> list[str]:
    """Return the tasks that may give up answers, those with most derived tasks first."""
    lenders = []
    for task in tasks:
        if task.kind == "target_semantics":
            continue
        # Yes/no tasks with many answers are settled and remain so.
        if counts[task.id] < least or not task.program.yes_no:
            lenders.append(task.id)
    return sorted(lenders, key=lambda name: -uses[name])


def _answer_flips(
    members: list[DescribedTask], mixed: Mapping[str, Mix], passages: int
) -> dict[str, Mix]:
    """Increase the answers of flips that depend on the same fact as their base task to half of the
    passages. With fewer, a flip would hardly differ from its base task.

    To keep the rate of the split, other tasks lose the same number of answers. If they have too few
    to give up, flips stay unchanged.
    """
    programs = {t.id: t.program for t in members}
    uses = Counter(t.source for t in members)
    least = (passages + 1) // 2
    own = [t for t in members if t.source == t.id and mixed[t.id].answered]
    counts = {t.id: mixed[t.id].answered for t in own}
    lenders = _lenders(own, counts, least, uses)
    spare = sum(uses[name] * (counts[name] - 1) for name in lenders)
    lent = 0
    for task in own:
        need = least - counts[task.id]
        tied = task.kind == "target_semantics" and not _free(
            task.program, programs[task.derives_from[0]]
        )
        if tied and 0 < need <= spare - lent:
            counts[task.id] = least
            lent += need
    _take_back(counts, lent, lenders, uses)
    changed = {name: n for name, n in counts.items() if n != mixed[name].answered}
    return {name: _with_answers(mixed[name], n) for name, n in changed.items()}


def _take_back(
    counts: dict[str, int], lent: int, lenders: list[str], uses: Mapping[str, int]
) -> None:
    """Remove from the lenders as many answers as the flips received, one from each in turn. Every
    lender keeps at least one answer.
    """
    while lent:
        rich = [name for name in lenders if counts[name] > 1 and uses[name] <= lent]
        if not rich:
            break
        for name in rich:
            if uses[name] <= lent:
                counts[name] -= 1
                lent -= uses[name]


def _free(flip: Program, base: Program) -> bool:
    """True if most passages without an answer to a flip can have one for its base task, because the
    two ask about different things.
    """
    return flip.args[0] != base.args[0] or flip.op == "has"


def _with_answers(mix: Mix, answered: int) -> Mix:
    """Return a mix with a different number of answers and about the same share of yes."""
    share = mix.yes / mix.answered if mix.answered else 0.5
    return Mix(answered, round(answered * share))


def _alike(members: list[DescribedTask], passages: int, na_rate: float, key: Key) -> list[_Alike]:
    """Group the tasks of a split, large groups first.

    Flips come last. A flip is scored together with its base task, so flips of settled base tasks
    are settled first. The silent tasks are taken from the first group, because a flip without any
    answer could not be solved by always predicting n/a.
    """
    uses = Counter(t.source for t in members)
    alike: dict[tuple[bool, Kind, bool, int], list[DescribedTask]] = {}
    for task in members:
        if task.source == task.id:
            flip = task.kind == "target_semantics"
            alike.setdefault((flip, task.kind, task.program.yes_no, uses[task.id]), []).append(task)
    share = settled_share(na_rate) if 0 < na_rate < 1 else 0.0
    owed = 0.0
    settled: set[str] = set()
    batches = []
    # Flips last, then large groups first.
    ordered = sorted(alike.items(), key=lambda item: (item[0][0], -len(item[1])))
    for (flip, kind, yes_no, many), group in ordered:
        count = 0
        if yes_no:
            owed += share * many * len(group)
            count = min(len(group), round(owed / many))
            owed -= many * count
        ranked = sorted(
            group, key=lambda t: (flip and t.derives_from[0] not in settled, _doubt(t, key), t.id)
        )
        settled.update(t.id for t in ranked[:count])
        counts = settled_counts(count, passages, na_rate)
        batches.append(_Alike(kind, yes_no, many, [t.id for t in ranked], counts))
    return batches


def _doubt(task: DescribedTask, key: Key) -> tuple[int, int]:
    """Rank tasks by how unlikely they are to be settled, so that descriptions predict this equally
    well in all splits.

    Questions about presence come first, because texts seldom mention what is absent. Other
    questions are ordered by topic.
    """
    leaves, records = task.program.leaves, task.domain.records_by_name
    # The topic is an attribute, or the records and their field.
    topics = [leaf.args[:2] if leaf.args[0] in records else leaf.args[:1] for leaf in leaves]
    about = max(key.hash64("topic", task.domain.name, *topic) for topic in topics)
    return sum(leaf.op not in PRESENCE for leaf in leaves), about
