"""Number of passages of each task that have an answer, and how many of those answers are yes.

Tasks differ in this as the real ones do. In the ten real tasks whose answers are available, 0 to 17
of 20 passages answer: "Are mountain bikes allowed at this national park?" is answered by 17, always
with yes. A system that reads only the description can solve such settled tasks, and in the paper it
solves one task in ten (Table 5). The shares are spread evenly over the tasks of a split, so that
the split's own rate is met with any seed.
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
"""Share of tasks that no passage answers, as for one of the paper's 114 dev tasks (section 6)."""

SETTLED = 0.57
"""Share of yes/no answers that belong to settled tasks, which nearly all passages answer, and with
yes.

At the paper's rate of n/a that is about a fourth of the yes/no tasks, and three answers of four are
yes, as in the real rows.
"""

FULLNESS = (0.65, 0.95, 0.45)
"""Spread of the share of answered passages over settled tasks: from, to, exponent. With these
values, seven in ten have at least 17 of 20.
"""

ALIKE = 0.1
"""Share of the yes/no tasks that are not settled whose answers are all yes. The same share has
answers that are all no.
"""

EDGE = 1e-9
"""Minimum share of n/a, and of answers, for which a spread is defined."""


@dataclass(frozen=True, slots=True)
class Mix:
    """Number of a task's passages that answer it, and of those that say yes (yes/no tasks)."""

    answered: int
    yes: int


def settled_share(na_rate: float) -> float:
    """Share of the yes/no tasks that are settled, at a rate of n/a."""
    low, high, power = _fullness(na_rate)
    return SETTLED * (1 - na_rate) / (low + (high - low) / (1 + power))


def _fullness(na_rate: float) -> tuple[float, float, float]:
    """`FULLNESS`, raised to at least the average of all tasks. Otherwise the other tasks could not
    compensate for settled ones.
    """
    low, high, power = FULLNESS
    return max(low, 1 - na_rate), max(high, 1 - na_rate), power


def settled_counts(tasks: int, passages: int, na_rate: float) -> list[int]:
    """Number of answered passages for each settled task, ascending. One passage is n/a if the rate
    allows it.
    """
    low, high, power = _fullness(na_rate)
    most = passages - 1 if passages * na_rate >= 1 else passages
    spread = [low + (high - low) * ((i + 0.5) / tasks) ** power for i in range(tasks)]
    return [min(most, max(1, round(share * passages))) for share in spread]


def mixes(
    sources: Sequence[str], settled: Sequence[int], passages: int, total: int, silent: int, key: Key
) -> dict[str, Mix]:
    """Mixes of some tasks with a given total. The first are settled, with these counts; the others
    are in no particular order.
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
    """Share of yes among the answers of each task: none, all, or evenly spaced in between.

    Neighbours, which have similar numbers of answers, get opposite shares, so that yes and no are
    balanced overall.
    """
    pairs = tasks // 2
    shares = [0.5] * tasks
    for j, pair in enumerate(sorted(range(pairs), key=lambda i: key.hash64("yes", i))):
        spread = min(1.0, (j + 0.5) / pairs / (1 - 2 * ALIKE))
        swing = spread / 2 if key.hash64("side", pair) % 2 else -spread / 2
        shares[2 * pair], shares[2 * pair + 1] = 0.5 + swing, 0.5 - swing
    return shares


def answered(tasks: int, passages: int, total: int, silent: int = 0) -> list[int]:
    """Answered passages of each task, in ascending order, which add up to the total (or as close to
    it as possible).

    The shares are powers u**k of evenly spaced u in (0, 1), whose mean is 1 / (k + 1). Every task
    has an answer, but for the silent ones, and a passage that is n/a, where the total leaves room
    for both: with one passage a task it does not.
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
    """Change counts of at least `least` by one, within `room`, until they add up to `total`."""
    step = 1 if total > sum(counts) else -1
    while sum(counts) != total:
        free = [i for i, n in enumerate(counts) if n >= least and n + step in room]
        if not free:
            return
        # Evenly spaced over the tasks, so that no group of them is affected more than others.
        changed = min(abs(total - sum(counts)), len(free))
        for j in range(changed):
            counts[free[j * len(free) // changed]] += step


@dataclass(frozen=True, slots=True)
class _Alike:
    """Tasks of a split of one kind, with the most likely to be settled first, and the answers of
    those that are.

    Tasks that lend their passages to paraphrases count more than once (`weight`), so they are
    spread for themselves.
    """

    kind: Kind
    yes_no: bool
    weight: int
    sources: list[str]
    settled: list[int]

    @property
    def others(self) -> int:
        """Passages of tasks that are not settled, counted as often as they are used."""
        return self.weight * (len(self.sources) - len(self.settled))


def spread_answers(
    splits: Mapping[str, list[DescribedTask]], fields: ZestFields, key: Key
) -> dict[str, Mix]:
    """Assign a mix to every task with its own passages, with the same spread in each split and for
    each kind of task.
    """
    by_source: dict[str, Mix] = {}
    for split, members in splits.items():
        na_rate = PAPER[split]["na"] if fields.na_rate is None else fields.na_rate
        groups = _alike(members, fields.passages, na_rate, key)
        due = 0.0
        for yes_no in (True, False):
            these = [g for g in groups if g.yes_no == yes_no]
            # Distribute the answers that settled tasks do not use. Rounding errors are carried from
            # one group to the next.
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
    """Names of the tasks that may give up answers, those with most derived tasks first."""
    lenders = []
    for task in tasks:
        if task.kind == "target_semantics":
            continue
        # Yes/no tasks with many answers are settled, and stay so.
        if counts[task.id] < least or not task.program.yes_no:
            lenders.append(task.id)
    return sorted(lenders, key=lambda name: -uses[name])


def _answer_flips(
    members: list[DescribedTask], mixed: Mapping[str, Mix], passages: int
) -> dict[str, Mix]:
    """Let half of the passages answer a flip that is mostly n/a where its base task is, or it would
    change too few answers.

    Other tasks have as many answers fewer, so the rate of the split stays; where they have none to
    spare, so do the flips.
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
    """Take as many answers from the lenders as the flips received, one from each in turn. Every
    lender keeps one.
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
    """True if a base task is answered on most passages that do not answer its flip, because they
    ask for different things.
    """
    return flip.args[0] != base.args[0] or flip.op == "has"


def _with_answers(mix: Mix, answered: int) -> Mix:
    """A mix with another number of answers, and about the same share of yes."""
    share = mix.yes / mix.answered if mix.answered else 0.5
    return Mix(answered, round(answered * share))


def _alike(members: list[DescribedTask], passages: int, na_rate: float, key: Key) -> list[_Alike]:
    """Group the tasks of a split, large groups first.

    Flips come last: a flip counts together with its base task, so the settled ones are those of
    settled base tasks; and one that nothing answers would not be done by saying n/a.
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
    """Rank tasks by how unlikely they are to be settled, so that in all splits a description
    predicts this equally well.

    Questions about presence come first, because texts seldom mention what is absent. The rest is
    ordered by topic.
    """
    leaves, records = task.program.leaves, task.domain.records_by_name
    # An attribute, or the records and their field.
    topics = [leaf.args[:2] if leaf.args[0] in records else leaf.args[:1] for leaf in leaves]
    about = max(key.hash64("topic", task.domain.name, *topic) for topic in topics)
    return sum(leaf.op not in PRESENCE for leaf in leaves), about
