"""The tasks of a recipe: base tasks, and the four generalization types as operations on their
programs.

Base programs come in groups that are closed under semantic flips (`flip_groups.py`). All groups of
one form (the same attributes and operators, with any constants) belong to one split, and so do all
tasks derived from their programs. So no two splits share a form. The split of a form depends only
on the world and the seed, not on sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, islice
from typing import Literal

from taskloom.core.errors import RecipeError
from taskloom.core.plan import apportion
from taskloom.core.seeding import Key, Random
from taskloom.suites.zest.synthetic.algebra import program_text
from taskloom.suites.zest.synthetic.domain import Domain, Flag, Members, Number, Text
from taskloom.suites.zest.synthetic.flip_groups import Flip, FlipGroup, Form, form, groups
from taskloom.suites.zest.synthetic.programs import (
    JOINING,
    Program,
    by_predicate,
    conditional,
    wordings,
)
from taskloom.suites.zest.task_files import Kind

# Wordings of a task: its own questions, and questions whether a statement is true
#
# Compositions and output structures use the plainest questions (`programs.py`). Paraphrases and
# flips choose among all wordings. If a domain has few questions, frames are added around them.

CONFIRMS = ("Is it true that {S}?", "Can you confirm that {S}?", "Is it correct that {S}?")
"""Yes/no questions about the truth of a statement. Statements use them in turn."""

ENOUGH = 8
"""Minimum number of wordings of a program. Programs with fewer also get frames around their
questions.
"""

ENDINGS = (", as described?", " or not?")
SPAN_ENDINGS = (", as described?", ", if stated?")
STARTS = ("In the text, {q}", "Per the text, {q}")
"""Frames that do not change the meaning of a question. They are used for yes/no questions and for
questions answered by words of the passage.
"""


def framed(domain: Domain, program: Program) -> list[str]:
    """Return every wording of a program that reads facts, its own questions first. Compositions
    only have their own questions.
    """
    plain = wordings(domain, program)
    if program.op in JOINING:
        return plain
    texts = list(plain)
    if program.yes_no:
        texts += _of_statements(domain, program)
    if len(texts) < ENOUGH:
        texts += _of_yes_no(plain) if program.yes_no else _of_spans(plain)
    return list(dict.fromkeys(texts))


@lru_cache(maxsize=1 << 14)
def word_set(text: str) -> frozenset[str]:
    """Return the set of words in a question."""
    return frozenset(text.lower().replace(",", "").replace("?", "").split())


def overlap(one: str, other: str) -> float:
    """Return the share of words in two questions that occur in both."""
    a, b = word_set(one), word_set(other)
    return len(a & b) / len(a | b)


def _of_yes_no(plain: list[str]) -> Iterator[str]:
    for text in plain:
        yield from (text[:-1] + ending for ending in ENDINGS)


def _of_spans(plain: list[str]) -> Iterator[str]:
    for text in plain:
        yield from (text[:-1] + ending for ending in SPAN_ENDINGS)
        yield from (start.replace("{q}", text[0].lower() + text[1:]) for start in STARTS)


def _of_statements(domain: Domain, program: Program) -> Iterator[str]:
    for i, statement in enumerate(_statements(domain, program)):
        yield CONFIRMS[i % len(CONFIRMS)].replace("{S}", statement)


def _statements(domain: Domain, program: Program) -> Iterator[str]:
    """Yield the question of a yes/no program in the form of statements, made from the clauses that
    state the fact. Programs on records have none.
    """
    attribute = domain.by_name.get(program.args[0])
    if isinstance(attribute, Flag):
        clauses = attribute.affirms
    elif isinstance(attribute, Text | Members):
        clauses = tuple(c.replace("{V}", program.args[1]) for c in attribute.says)
    elif isinstance(attribute, Number):
        clauses = tuple(_comparisons(attribute, program))
    else:
        return
    yield from (clause.replace("{E}", domain.this) for clause in clauses)


YEARS = (
    ("after", "before"),
    ("later than", "earlier than"),
    ("in the years following", "in the years preceding"),
)
AMOUNTS = (("more than", "under"), ("over", "under"))
"""Comparison words for statements with a number: for values above it, and for values below it."""


def _comparisons(number: Number, program: Program) -> Iterator[str]:
    """Yield "weighs more than 20 pounds" for "weighs 24 pounds", and "was opened after 1900" for
    "was opened in 1911".
    """
    value = number.text(program.args[1])
    below = program.op == "less"
    for i, clause in enumerate(number.says):
        if " in {V}" in clause and not number.commas:
            yield clause.replace(" in {V}", f" {YEARS[i % len(YEARS)][below]} {value}")
        elif number.commas and number.unit:
            yield clause.replace("{V}", f"{AMOUNTS[i % len(AMOUNTS)][below]} {value}")


PER_DOMAIN = 5
"""Minimum number of base tasks per domain in a split, as far as the split has enough base tasks."""
PLENTY = (1, 2, 4, 8, 16)
"""Factors for the numbers and values of each attribute. The next factor is tried if there are not
enough base tasks.
"""
DRAWS = 10
"""Maximum number of draws of base tasks before a recipe is considered impossible. With 20 tasks per
split, one draw in ten fails.
"""

OWNERS = ("test", "train", "test", "train", "dev", "test", "train")
"""Splits that own the forms of a domain, assigned in a keyed order and repeated. The shares are
close to those of the paper's base tasks (train 40 %, dev 10 %, test 50 %), with slightly more for
dev, which needs its own flips and structures.
"""

TURNS = 3
"""Number of paraphrases per base task in addition to those that match its flips."""

LENGTH = 0.01
"""Weight of one word of difference in length, relative to overlap, when choosing the wording of a
flip.
"""

WORDS = 0.02
"""Weight of each word that occurs in either a flip or the paraphrase it should resemble, but not in
both.

At 0, the words that differ from the base task distinguish flips from paraphrases with an accuracy
of 0.57. At 0.1, the overlap does so with 0.59. With this value both are near chance
(benchmarks/zest_new_tasks.py). Chosen on seeds 0 to 7.
"""

TABLE_OWNERS = ("train", "dev", "test")
"""Splits that own tables of all records of a kind, and comparisons of such records. Each split gets
a third, because there are few and every split needs some.
"""


@dataclass(frozen=True, slots=True)
class DescribedTask:
    """A task: its program, wording and origin.

    Attributes:
        source: The task whose passages it uses. Paraphrases use those of their base task, all other
            tasks their own.
    """

    id: str
    domain: Domain
    kind: Kind
    program: Program
    question: str
    derives_from: tuple[str, ...]
    source: str

    @property
    def format(self) -> str:
        """Output type: classification, extraction or structure."""
        if self.kind == "structure":
            return "structure"
        return "classification" if self.program.yes_no else "extraction"


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """What a recipe requires of its tasks."""

    domains: tuple[Domain, ...]
    sizes: Mapping[str, int]
    shares: Mapping[Kind, float]
    paraphrase: Literal["near", "far", "any"]
    flips: tuple[Flip, ...]
    depth: tuple[int, int]
    width: tuple[int, int]
    classification: Mapping[str, float]
    unseen: Literal["form", "program"] = "form"


class _TooFewError(RecipeError):
    """The domains have fewer base programs than a recipe requires."""


def draw_tasks(request: TaskRequest, key: Key) -> dict[str, list[DescribedTask]]:
    """Draw the tasks of every split, in a keyed order. No split depends on the size of another."""
    return {split: _draw_split(request, key, split, size) for split, size in request.sizes.items()}


def _draw_split(request: TaskRequest, key: Key, split: str, size: int) -> list[DescribedTask]:
    """Draw the tasks of a split, with more numbers and values if the usual ones are not enough."""
    for plenty in PLENTY[:-1]:
        try:
            return _draw_until_possible(request, key, split, size, plenty)
        except _TooFewError:
            continue
    return _draw_until_possible(request, key, split, size, PLENTY[-1])


def _draw_until_possible(
    request: TaskRequest, key: Key, split: str, size: int, plenty: int
) -> list[DescribedTask]:
    """Draw tasks repeatedly until the base tasks have enough derivatives."""
    for turn in range(DRAWS - 1):
        try:
            return _draw_once(request, key, split, size, plenty, turn)
        except _TooFewError:
            raise
        except RecipeError:
            continue
    return _draw_once(request, key, split, size, plenty, DRAWS - 1)


def _draw_once(
    request: TaskRequest, key: Key, split: str, size: int, plenty: int, turn: int
) -> list[DescribedTask]:
    own = key.child("tasks", split, turn) if turn else key.child("tasks", split)
    later = max(0, turn - DRAWS // 2 + 1)
    pools = _pools(request, key, own, split, plenty, flips_first=later > 0)
    # Small splits use few domains. All splits use the same ones, so that they differ only in their
    # tasks. If the forms that a split owns there have too few flips or tables, later draws use
    # other domains.
    first = (key.hash64("domains") + later) % len(request.domains)
    members = _Split(request, own, split, size, pools, key, first).make()
    return own.random("order").sample(members, len(members))


_Pools = dict[bool, list[Iterator[FlipGroup]]]


def _pools(
    request: TaskRequest, key: Key, own: Key, split: str, plenty: int, flips_first: bool
) -> _Pools:
    """Collect the groups that a split owns, by output type. Domains take turns: first one group of
    each form, then a second one, and so on.

    If base tasks lacked flips in earlier draws, groups with flips come first.
    """
    by_type: _Pools = {True: [], False: []}
    for domain in request.domains:
        owners = _owners(request.domains, request.unseen, key, domain, plenty)
        owned = [group for group, owner in owners if owner == split]
        ranked = sorted(
            owned, key=lambda g: own.hash64("group", domain.name, program_text(g.programs[0]))
        )
        for yes_no, pool in by_type.items():
            seen: Counter[Form] = Counter()
            turns: list[tuple[bool, int, int, FlipGroup]] = []
            for group in ranked:
                if group.programs[0].yes_no == yes_no:
                    last = flips_first and not group.flips(request.flips)
                    turns.append((last, seen[group.form], len(turns), group))
                    seen[group.form] += 1
            turns.sort(key=lambda turn: turn[:3])  # groups themselves cannot be compared
            pool.append(iter([group for *_, group in turns]))
    return by_type


@lru_cache(maxsize=64)
def _owners(
    domains: tuple[Domain, ...],
    unseen: Literal["form", "program"],
    key: Key,
    domain: Domain,
    plenty: int,
) -> list[tuple[FlipGroup, str]]:
    """Return the groups of a domain with the split that owns each. The result is the same for all
    splits and draws.
    """
    flip_groups = groups(domain, key.random("groups", domain.name), plenty)
    if unseen == "program":
        return [(g, _slot(key, domain, OWNERS, *_constants(g))) for g in flip_groups]
    forms_of = {id(group): group.form for group in flip_groups}
    types: dict[Form, set[bool]] = {}
    for group in flip_groups:
        types.setdefault(forms_of[id(group)], set()).add(group.programs[0].yes_no)
    owners: dict[Form, str] = {}
    # Divide yes/no forms, extraction forms, and forms that have both separately, so that each split
    # gets some of each.
    for kind in ({True}, {False}, {True, False}):
        forms = sorted(f for f, answer_types in types.items() if answer_types == kind)
        forms.sort(key=lambda f: key.hash64("form", domain.name, *f))
        owners |= {f: OWNERS[i % len(OWNERS)] for i, f in enumerate(forms)}
    # Comparisons of records have as many base tasks as needed, thanks to their numbers, so each
    # split gets some of them.
    turn = key.hash64("comparisons") + domains.index(domain)
    compared = sorted(
        (f for f in types if f[0] == "over"), key=lambda f: key.hash64("form", domain.name, *f)
    )
    owners |= {f: TABLE_OWNERS[(turn + i) % len(TABLE_OWNERS)] for i, f in enumerate(compared)}
    return [(g, owners[forms_of[id(g)]]) for g in flip_groups]


def _constants(group: FlipGroup) -> tuple[str, ...]:
    """Return the form of a group including its constants, which decides the split if splits are
    divided by program.
    """
    return (*group.form, *sorted({str(p.args[-1]) for p in group.programs}))


def _slot(key: Key, domain: Domain, owners: tuple[str, ...], *content: str) -> str:
    """Return the split that owns something, by its hash."""
    return owners[key.hash64("slot", domain.name, *content) % len(owners)]


def largest_remainder(size: int, shares: Mapping[Kind, float]) -> dict[Kind, int]:
    """Divide a size into integers in proportion to shares, by the largest remainder method."""
    return dict(zip(shares, apportion(size, list(shares.values())), strict=True))


@dataclass(slots=True)
class _Split:
    """Makes the tasks of one split."""

    request: TaskRequest
    key: Key
    split: str
    size: int
    pools: _Pools
    world: Key
    first: int
    yes_no: float = 0.0
    owed: float = 0.0

    def _wanted(self, count: int) -> dict[bool, int]:
        """Divide a count into yes/no tasks and others. Rounding errors are carried over to the next
        kind of task.
        """
        exact = self.yes_no * count + self.owed
        yes = min(count, max(0, round(exact)))
        self.owed = exact - yes
        return {True: yes, False: count - yes}

    def make(self) -> list[DescribedTask]:
        counts = largest_remainder(self.size, self.request.shares)
        if self.size and not counts["normal"]:
            raise RecipeError(
                f"tasks.{self.split}={self.size} leaves no base task from which others could be "
                "derived; request more tasks or raise shares.normal"
            )
        # Structures are neither yes/no nor plain extraction, so the other tasks need a larger share
        # of yes/no.
        others = self.size - counts["structure"]
        if others:
            wanted = self.request.classification[self.split] * self.size
            self.yes_no = min(1.0, wanted / others)
        drawn = self._draw_groups(counts["normal"])
        bases = [self._task(g.domain, "normal", g.programs[0], (), i) for i, g in enumerate(drawn)]
        flips = self._fill(
            "target_semantics",
            "semantic flips",
            counts["target_semantics"],
            self._flips(drawn, bases),
        )
        tasks = bases + flips
        tasks += self._fill(
            "paraphrase", "paraphrases", counts["paraphrase"], self._paraphrases(bases, flips)
        )
        many = counts["combination"]
        tasks += self._fill("combination", "compositions", many, self._compositions(bases, many))
        tasks += self._fill(
            "structure", "output structures", counts["structure"], self._structures(bases)
        )
        return tasks

    def _draw_groups(self, count: int) -> list[FlipGroup]:
        drawn: list[FlipGroup] = []
        # A small split uses few domains, because compositions join base tasks of the same domain
        # and need several of them.
        many = len(self.request.domains)
        few = max(1, min(many, count // PER_DOMAIN))
        chosen = [(self.first + i) % many for i in range(few)]
        for yes_no, wanted in self._wanted(count).items():
            pools = self.pools[yes_no]
            taken = list(islice(_in_turn([pools[i] for i in chosen]), wanted))
            if len(taken) < wanted:  # the chosen domains have too few
                others = [pool for i, pool in enumerate(pools) if i not in chosen]
                taken += islice(_in_turn(others), wanted - len(taken))
                chosen = list(range(many))
            drawn += taken
            if len(taken) < wanted:
                kind = "yes/no" if yes_no else "extraction"
                names = ", ".join(domain.name for domain in self.request.domains)
                remedy = "request fewer tasks or add a domain"
                if self.request.unseen == "form":
                    remedy = "request fewer tasks, add a domain, or split by unseen=program"
                raise _TooFewError(
                    f"the split '{self.split}' needs {wanted} {kind} base tasks, but the domains "
                    f"({names}) have only {len(taken)}; {remedy}"
                )
        return drawn

    def _task(
        self,
        domain: Domain,
        kind: Kind,
        program: Program,
        bases: tuple[DescribedTask, ...],
        number: int,
        question: str = "",
    ) -> DescribedTask:
        if not question:
            forms = wordings(domain, program)
            if kind == "normal":
                # Take the shortest of three drawn wordings (of all wordings for joined questions),
                # because the paper's descriptions have 12 words.
                text = program_text(program)
                draws = [self.key.hash64("wording", domain.name, text, i) for i in range(3)]
                forms = [forms[draw % len(forms)] for draw in draws]
            question = min(forms, key=lambda text: (text.count(" "), text))
        place = (
            domain.name,
            kind,
            program_text(program),
            question,
            number if kind == "paraphrase" else 0,
        )
        name = f"{self.key.hash64('id', *place):016x}{self.key.hash64('id again', *place):016x}"
        source = bases[0].source if kind == "paraphrase" else name
        return DescribedTask(
            name, domain, kind, program, question, tuple(b.id for b in bases), source
        )

    def _fill(
        self, kind: Kind, what: str, count: int, candidates: Iterator[DescribedTask]
    ) -> list[DescribedTask]:
        """Take `count` candidates, with the split's shares of output types. If one type runs out,
        use the other.
        """
        wanted = self._wanted(count)
        chosen: list[DescribedTask] = []
        spare: list[DescribedTask] = []
        for task in candidates if count else ():
            yes_no = task.program.yes_no
            if wanted[yes_no]:
                chosen.append(task)
                wanted[yes_no] -= 1
            else:
                spare.append(task)
            if len(chosen) == count:
                return chosen
        filled = spare[: count - len(chosen)]
        chosen += filled
        if len(chosen) == count:
            # If one output type ran out and the other was used instead, later kinds of tasks
            # compensate.
            self.owed += sum(-1 if task.program.yes_no else 1 for task in filled)
            return chosen
        raise RecipeError(
            f"the split '{self.split}' needs {count} {what}, but its base tasks allow only "
            f"{len(chosen)}; lower shares.{kind} to {self._possible(kind, len(chosen)):g}, allow "
            "more kinds, or request more tasks"
        )

    def _possible(self, kind: Kind, count: int) -> float:
        """Return the largest share, in steps of 0.001, that gives at most `count` tasks."""
        others = sum(share for name, share in self.request.shares.items() if name != kind)
        return int(1_000 * count * others / max(1, self.size - count)) / 1_000

    def _paraphrases(
        self, bases: list[DescribedTask], flips: list[DescribedTask]
    ) -> Iterator[DescribedTask]:
        """Yield as many paraphrases of each base task as it has flips, then others, so that the
        topic of a question does not reveal its type.
        """
        rng = self.key.random("paraphrases")
        questions = {b.question for b in bases}
        flipped = Counter(flip.derives_from[0] for flip in flips)
        often = [
            [b for b in bases if flipped[b.id] > turn]
            for turn in range(max(flipped.values(), default=0))
        ]
        for turn, chosen in enumerate([*often, *[bases] * TURNS]):
            for base in rng.sample(chosen, len(chosen)):
                others = [w for w in _others(base) if w not in questions]
                if others:
                    question = self._reworded(base.question, others, rng)
                    questions.add(question)
                    yield self._task(
                        base.domain, "paraphrase", base.program, (base,), turn, question
                    )

    def _reworded(self, question: str, others: list[str], rng: Random) -> str:
        """Choose another wording: any, or the one that shares the most (near) or fewest (far) words
        with the original.
        """
        if self.request.paraphrase == "any":
            # Take the shorter of two wordings, as for base tasks, because the paper's descriptions
            # have 12 words.
            return min(rng.choice(others), rng.choice(others), key=lambda text: text.count(" "))
        pick = max if self.request.paraphrase == "near" else min
        return pick(others, key=lambda w: (overlap(w, question), w))

    def _flips(self, drawn: list[FlipGroup], bases: list[DescribedTask]) -> Iterator[DescribedTask]:
        """Yield flips. Their wordings resemble those of their base tasks as much as paraphrases do,
        so that word overlap does not reveal them.
        """
        rng = self.key.random("flips")
        flips = [(b, g.flips(self.request.flips)) for g, b in zip(drawn, bases, strict=True)]
        for turn in range(max((len(f) for _, f in flips), default=0)):
            more = [(b, f[turn]) for b, f in flips if len(f) > turn]
            for base, program in rng.sample(more, len(more)):
                example = self._reworded(base.question, _others(base), rng)
                question = _as_like(base.question, example, framed(base.domain, program), rng)
                yield self._task(base.domain, "target_semantics", program, (base,), turn, question)

    def _compositions(self, bases: list[DescribedTask], count: int) -> Iterator[DescribedTask]:
        rng = self.key.random("compositions")
        questions: set[str] = set()
        for turn in range(200 * count):
            parts = self._parts(bases, rng, rng.random() < self.yes_no)
            if len(parts) < 2 or len({p.program.args[0] for p in parts}) < len(parts):
                continue
            # Ask for the entity's own facts first, so that "it" refers to the entity.
            parts.sort(
                key=lambda p: (
                    not p.program.yes_no,
                    p.program.args[0] in p.domain.records_by_name,
                    p.question,
                )
            )
            domain, program = parts[0].domain, _composed(parts, rng)
            # The same parts may be joined by another word, or be worded differently if new
            # combinations are rare.
            question = rng.choice(wordings(domain, program)) if turn > 50 * count else ""
            task = self._task(domain, "combination", program, tuple(parts), turn, question)
            if task.question not in questions:
                questions.add(task.question)
                yield task

    def _parts(self, bases: list[DescribedTask], rng: Random, yes_no: bool) -> list[DescribedTask]:
        """Draw base tasks of one domain that can be joined: yes/no with yes/no, spans with spans,
        or a condition with spans.
        """
        first = rng.choice([b for b in bases if b.program.yes_no == yes_no] or bases)
        near = [b for b in bases if b.domain is first.domain and b is not first]
        alike = [b for b in near if b.program.yes_no == first.program.yes_no]
        others = rng.randint(*self.request.depth) - 1
        condition: list[DescribedTask] = []
        if not first.program.yes_no and rng.random() < 0.5:
            conditions = [b for b in bases if b.domain is first.domain and conditional(b.program)]
            condition = [rng.choice(conditions)] if conditions else []
        others -= len(condition)
        if len(alike) < others:
            return []
        return [*condition, first, *rng.sample(alike, others)]

    def _structures(self, bases: list[DescribedTask]) -> Iterator[DescribedTask]:
        rng = self.key.random("structures")
        shown: set[Program] = set()
        about = [b for b in bases if b.program.args[0] in b.domain.records_by_name]
        for turn in range(20):
            for base in rng.sample(about, len(about)):
                program = _structured(base, self.request.width, rng)
                if program is None or program in shown:
                    continue
                owner = self.split
                if program.op == "table":
                    # A table of all records has a different form than its base task, so tables are
                    # divided among splits separately.
                    owner = _slot(self.world, base.domain, TABLE_OWNERS, *form(program))
                if owner == self.split:
                    shown.add(program)
                    yield self._task(base.domain, "structure", program, (base,), turn)


def _in_turn(pools: Iterable[Iterator[FlipGroup]]) -> Iterator[FlipGroup]:
    """Yield one group from each pool in turn, until all pools are empty."""
    live = list(pools)
    while live:
        for pool in list(live):
            group = next(pool, None)
            if group is None:
                live.remove(pool)
            else:
                yield group


def _others(base: DescribedTask) -> list[str]:
    """Return the wordings of a base task's program, except those that use the same words."""
    alike = next(
        texts for texts in by_predicate(base.domain, base.program) if base.question in texts
    )
    every = framed(base.domain, base.program)
    return [w for w in every if w not in alike] or [w for w in every if w != base.question]


def _as_like(question: str, example: str, wordings: list[str], rng: Random) -> str:
    """Choose the wording that differs from a question in the same way as an example does: in number
    of words, in choice of words, and in length.
    """
    wanted, alike = overlap(example, question), word_set(example)

    def unlike(text: str) -> float:
        words = word_set(text)
        length = abs(len(words) - len(alike))
        return abs(overlap(text, question) - wanted) + LENGTH * length + WORDS * len(words ^ alike)

    return min(rng.sample(wordings, len(wordings)), key=unlike)


def _composed(parts: list[DescribedTask], rng: Random) -> Program:
    programs = tuple(p.program for p in parts)
    if all(p.yes_no for p in programs):
        return Program(rng.choice(("and", "or")), programs)
    if not programs[0].yes_no:
        return Program("both", programs)
    condition, *questions = programs
    asked = questions[0] if len(questions) == 1 else Program("both", tuple(questions))
    return Program("when", (condition, asked))


def _structured(base: DescribedTask, width: tuple[int, int], rng: Random) -> Program | None:
    """Build a table that contains the base task: a table of all records, or of those that the base
    task asks for.
    """
    program = base.program
    records = base.domain.records_by_name[program.args[0]]
    names = [f.name for f in records.fields]
    # The field that ranks the base task must be a column, because otherwise the table would not
    # contain the task. The field that selects its records is not a column, because all rows would
    # have the same value.
    ranked: set[str] = set()
    if program.op in SELECTS:
        names.remove(program.args[1])
    else:
        ranked.update(program.args[1:])
    low, high = min(width[0], len(names)), min(width[1], len(names))
    choices: list[tuple[str, ...]] = []
    for columns in range(low, high + 1):
        choices += [chosen for chosen in combinations(names, columns) if ranked <= set(chosen)]
    if not choices:
        return None
    shown = rng.choice(choices)
    if program.op in SELECTS:
        return Program("pick", (records.name, SELECTS[program.op], *program.args[1:], *shown))
    return Program("table", (records.name, *shown))


SELECTS = {
    "where": "where",
    "any": "where",
    "over": "over",
    "any_over": "over",
    "under": "under",
    "any_under": "under",
}
"""Operations that select records, with the equivalent operation in a `pick`."""
