"""Tables 2 and 4 to 8 of TaskBench500: the tasks that the paper lists, counted and named from the
catalogue; the rules that translate functions to SPARQL, and whether our queries follow them.

A rule defines the answers of a composed task in terms of the answers of its parts: the pairs of
either part (union), the pairs of both parts (intersection) or, for the inputs that both parts
decide, the disjunction or conjunction of their truth values (lor, land). We write each query as
text, run it over an invented world, and compare the result with the rule applied to the answers of
the parts' own queries. An atom is compared with the facts of the world.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from taskloom.analysis.finding import Finding
from taskloom.analysis.published_numbers import PublishedNumber, published
from taskloom.analysis.study import study
from taskloom.analysis.verdict import Judgement, judge_number
from taskloom.core.example import Example
from taskloom.core.shards import to_examples, to_table
from taskloom.experiments.result_table import ResultTable
from taskloom.papers.taskbench500.experiments import quick_words
from taskloom.recipe import read
from taskloom.suites.taskbench.catalog import CatalogTask, catalog
from taskloom.suites.taskbench.language import describe, parse, read_typed
from taskloom.suites.taskbench.language.operators import OPERATORS
from taskloom.suites.taskbench.worlds.facts.invented_facts import WorldKnobs, synthetic_world
from taskloom.suites.taskbench.worlds.facts.properties import to_id
from taskloom.suites.taskbench.worlds.facts.rdf import write_ntriples
from taskloom.suites.taskbench.worlds.facts.task_queries import task_query

if TYPE_CHECKING:
    from taskloom.suites.taskbench.worlds.facts.rdf import RdfWorld

PAPER = "taskbench500"

WORD_LEVEL = ("chain", "union", "intersection", "land", "lor")
SEQUENTIAL = ("filter", "map_filter")

EXAMPLES = {
    "chain": ("Chaining", "chain(mother, head_of_state)"),
    "union": ("Set Operations", "union(mother, father)"),
    "intersection": ("Set Operations", "intersection(entailments[eng], synonyms[eng])"),
    "land": ("Logical Operations", "land(is_occupation_actor, is_birthplace_nyc)"),
    "lor": ("Logical Operations", "lor(is_birthplace_london, is_birthplace_nyc)"),
    "map": ("Sequential Operations", "map(synonyms[eng])"),
    "filter": ("Sequential Operations", "filter(is_pos_noun[eng])"),
}
"""The composition functions of Table 5 with their categories and the paper's example tasks."""


def kind_of(task: CatalogTask) -> str:
    """Type of an atomic task: predicate or relation."""
    return read_typed(task.expression)[1].form


@study(
    "taskbench500/table4",
    describe="Atomic tasks of TaskBench500",
    place="TaskBench500, Table 4",
    from_recipes=True,
)
def table4(scale: str) -> Finding:
    """List the atomic tasks by family, with separate rows for predicates and relations."""
    atomic = [task for task in catalog() if task.composition == "atomic"]
    rows, judgements = [], []
    for number in published(PAPER, "Table 4"):
        family, kind = number.of["family"], number.of["kind"]
        own = [task for task in atomic if task.family == family and kind_of(task) == kind]
        names = ", ".join(task.expression for task in own)
        rows.append({"family": family, "kind": kind, "tasks": len(own), "names": names})
        judgements.append(judge_tasks(own, number, f"{family}, {kind}s"))
    return Finding(
        "TaskBench500 Table 4",
        f"The {len(atomic)} atomic tasks of the catalogue, from which taskbench/500 is composed.",
        ResultTable(("family", "kind", "tasks", "names"), rows),
        judgements=tuple(judgements),
        notes=tuple(_unprinted(atomic)),
    )


@study(
    "taskbench500/table5",
    describe="Compositions of TaskBench500",
    place="TaskBench500, Table 5",
    from_recipes=True,
)
def table5(scale: str) -> Finding:
    """List the composition functions with the paper's example tasks, in our notation."""
    rows = []
    for word, (category, example) in EXAMPLES.items():
        english = describe(parse(example))
        rows.append(
            {"category": category, "function": word, "example": example, "in English": english}
        )
    counts = Counter(category for word, (category, _) in EXAMPLES.items() if word in OPERATORS)
    judgements = [
        judge_number(
            counts[number.of["category"]],
            number,
            claim=f"{number.of['category']}: functions of our language",
        )
        for number in published(PAPER, "Table 5")
    ]
    others = ", ".join(word for word in OPERATORS if word not in EXAMPLES)
    return Finding(
        "TaskBench500 Table 5",
        "The paper's composition functions and its example tasks as expressions of our language.",
        ResultTable(("category", "function", "example", "in English"), rows),
        judgements=tuple(judgements),
        notes=(
            f"The language has further operators, which the paper's tasks do not use: {others}.",
        ),
    )


@study(
    "taskbench500/table6",
    describe="Composed word-level tasks of TaskBench500",
    place="TaskBench500, Table 6",
    from_recipes=True,
)
def table6(scale: str, *, names: bool = False) -> Finding:
    """Count the composed word-level tasks. With `names`, also list them.

    Args:
        scale: Ignored, because the tasks are the same at all scales.
        names: True to list the tasks by name.
    """
    return composed(6, WORD_LEVEL, names)


@study(
    "taskbench500/table7",
    describe="Mapped tasks of TaskBench500",
    place="TaskBench500, Table 7",
    from_recipes=True,
)
def table7(scale: str, *, names: bool = False) -> Finding:
    """Count the mapped tasks. With `names`, also list them.

    Args:
        scale: Ignored, because the tasks are the same at all scales.
        names: True to list the tasks by name.
    """
    finding = composed(7, ("map",), names)
    merged = (
        "An entry of the paper's table runs map(union(entailments[eng], hyponyms[eng])) and"
        " map(child) together."
    )
    return replace(finding, notes=(*finding.notes, merged))


@study(
    "taskbench500/table8",
    describe="Filters, and maps of what they keep, of TaskBench500",
    place="TaskBench500, Table 8",
    from_recipes=True,
)
def table8(scale: str, *, names: bool = False) -> Finding:
    """Count the filters, the maps of filtered sequences, and the tasks of all tables. With `names`,
    also list the filters and maps.

    Args:
        scale: Ignored, because the tasks are the same at all scales.
        names: True to list the filters and maps by name.
    """
    finding = composed(8, SEQUENTIAL, names)
    (number,) = published(PAPER, "section 1", what="tasks")
    total = judge_number(
        len(catalog()), number, claim="tasks of Tables 4 to 8, with those that were reconstructed"
    )
    lost = (
        "One of the 500 tasks cannot be named: the last entries of some columns are lost from the"
        " paper's tables, where the last row repeats the first of the next column, and of the lor"
        " tasks nothing tells which one it was."
    )
    return replace(finding, judgements=(*finding.judgements, total), notes=(*finding.notes, lost))


def composed(number: int, compositions: Sequence[str], names: bool) -> Finding:
    """Build a finding with the composed tasks of one of the paper's tables.

    Args:
        number: Number of the table.
        compositions: Its compositions.
        names: True for a row per task instead of a row per composition and family.
    """
    own = {word: [task for task in catalog() if task.composition == word] for word in compositions}
    tasks = [task for word in compositions for task in own[word]]
    judgements = [
        judge_tasks(own[row.of["composition"]], row, row.of["composition"])
        for row in published(PAPER, f"Table {number}")
    ]
    return Finding(
        f"TaskBench500 Table {number}",
        f"The {len(tasks)} tasks of the catalogue with the compositions of the paper's table.",
        task_rows(tasks) if names else family_rows(tasks),
        judgements=tuple(judgements),
        notes=(*_unprinted(tasks), *_swapped(tasks)),
    )


def judge_tasks(tasks: Sequence[CatalogTask], number: PublishedNumber, claim: str) -> Judgement:
    """Compare the number of distinct tasks with the number that the paper prints. Catalogue tasks
    that the paper does not print are left out.
    """
    return judge_number(
        sum(task.printed for task in tasks), number, claim=f"{claim}: different tasks printed"
    )


def family_rows(tasks: Sequence[CatalogTask]) -> ResultTable:
    """Build a table with a row for each composition and family: the number of tasks, the number
    that the paper prints, and the first task.
    """
    groups: dict[tuple[str, str], list[CatalogTask]] = {}
    for task in tasks:
        groups.setdefault((task.composition, task.family), []).append(task)
    rows = [
        {
            "composition": composition,
            "family": family,
            "tasks": len(own),
            "printed": sum(task.printed for task in own),
            "such as": own[0].expression,
        }
        for (composition, family), own in groups.items()
    ]
    return ResultTable(("composition", "family", "tasks", "printed", "such as"), rows)


def task_rows(tasks: Sequence[CatalogTask]) -> ResultTable:
    """Build a table with a row for every task."""
    rows = [
        {
            "composition": t.composition,
            "family": t.family,
            "task": t.expression,
            "printed": t.printed,
            "same as": t.same_as,
        }
        for t in tasks
    ]
    return ResultTable(("composition", "family", "task", "printed", "same as"), rows)


def _unprinted(tasks: Sequence[CatalogTask]) -> list[str]:
    lost = [task.expression for task in tasks if not task.printed]
    if not lost:
        return []
    return [
        "Counted by the paper but not printed in its tables, or only in another one:"
        f" {', '.join(lost)}."
    ]


def _swapped(tasks: Sequence[CatalogTask]) -> list[str]:
    pairs = [f"{task.expression} is {task.same_as}" for task in tasks if task.same_as]
    return [f"The same function with its operands swapped: {'; '.join(pairs)}."] if pairs else []


Answers = set[tuple[str, str]]

PEOPLE = 300
"""Number of people in the invented world. This is enough for each of the example tasks to have
answers.
"""


def _either(one: Answers, other: Answers) -> Answers:
    return one | other


def _both(one: Answers, other: Answers) -> Answers:
    return one & other


def _any_true(one: Answers, other: Answers) -> Answers:
    return _decided(one, other, lambda a, b: a or b)


def _all_true(one: Answers, other: Answers) -> Answers:
    return _decided(one, other, lambda a, b: a and b)


def _decided(one: Answers, other: Answers, truth: Callable[[bool, bool], bool]) -> Answers:
    first, second = dict(one), dict(other)
    return {
        (x, str(truth(first[x] == "true", second[x] == "true")).lower())
        for x in first.keys() & second.keys()
    }


@dataclass(frozen=True, slots=True)
class QueryRule:
    """A rule of the table, with an example task.

    Attributes:
        name: Name in the paper.
        fragment: The paper's SPARQL.
        task: The example task.
        parts: Parts of the example; empty for an atom.
        combine: Computes the answers of the task from the answers of its parts.
    """

    name: str
    fragment: str
    task: str
    parts: tuple[str, ...] = ()
    combine: Callable[[Answers, Answers], Answers] | None = None


RULES = (
    QueryRule("A(x)", "?x A ?y .", "mother"),
    QueryRule(
        "union(T1(x),T2(x))",
        "{ sparql(T1(x), y) } UNION { sparql(T2(x), y) }",
        "union(mother, father)",
        ("mother", "father"),
        _either,
    ),
    QueryRule(
        "intersection(T1(x),T2(x))",
        "sparql(T1(x), y) sparql(T2(x), y)",
        "intersection(place_of_birth, place_of_death)",
        ("place_of_birth", "place_of_death"),
        _both,
    ),
    QueryRule(
        "lor(T1(x),T2(x))",
        "BIND( y1 || y2 AS y ) sparql(T1(x), y1) sparql(T2(x), y2)",
        "lor(is_birthplace_london, is_occupation_actor)",
        ("is_birthplace_london", "is_occupation_actor"),
        _any_true,
    ),
    QueryRule(
        "land(T1(x),T2(x))",
        "BIND( y1 && y2 AS y ) sparql(T1(x), y1) sparql(T2(x), y2)",
        "land(is_occupation_actor, is_birthplace_london)",
        ("is_occupation_actor", "is_birthplace_london"),
        _all_true,
    ),
)


def answers(world: RdfWorld, task: str) -> Answers:
    """Run a task's query and return pairs of an input and a value or truth value."""
    solutions = world.query(task_query(*read_typed(task)))
    return {(to_id(row["x"].value), to_id(row["y"].value)) for row in solutions}


def pattern(task: str) -> str:
    """Write the query of a task on one line, without prefixes and without the conditions that
    values are entities.
    """
    query = task_query(*read_typed(task))
    lines = query[query.index("SELECT") :].splitlines()
    return " ".join(line.strip() for line in lines if not line.strip().startswith("FILTER(isIRI("))


def ruled(world: RdfWorld, rule: QueryRule) -> Answers:
    """Apply a rule to its example: compute the answers from the answers of the parts or, for an
    atom, from the facts.
    """
    if rule.combine is None:
        return {*world.relation(rule.task).pairs()}
    one, other = (answers(world, part) for part in rule.parts)
    return rule.combine(one, other)


def invented_world(folder: Path) -> RdfWorld:
    """Write an invented world and open it as a graph."""
    from taskloom.suites.taskbench.worlds.facts.rdf import RdfWorld

    path = folder / "world.nt"
    write_ntriples(synthetic_world(WorldKnobs(people=PEOPLE, density=0.9)), path)
    return RdfWorld(path, keep="memory")


@study(
    "taskbench500/table2",
    describe="Rules from functions to SPARQL, tried on an invented world",
    place="TaskBench500, Table 2",
    from_recipes=True,
)
def table2(scale: str) -> Finding:
    """Write and run the query of an example of each rule, and compare its answers with those of the
    rule.
    """
    rows = []
    with TemporaryDirectory() as folder:
        world = invented_world(Path(folder))
        for rule in RULES:
            ours, theirs = answers(world, rule.task), ruled(world, rule)
            rows.append(
                {
                    "rule": rule.name,
                    "paper": rule.fragment,
                    "task": rule.task,
                    "answers": len(ours),
                    "by the rule": len(theirs),
                    "the same": "yes" if ours == theirs else "no",
                }
            )
    (number,) = published("taskbench500", "Table 2", what="rules")
    followed = sum(row["the same"] == "yes" and bool(row["answers"]) for row in rows)
    return Finding(
        "TaskBench500 Table 2",
        f"The query of a task of each rule, run over an invented world of {PEOPLE} people: how many"
        " answers it has, and how many the rule gives from the answers of the parts.",
        ResultTable(tuple(rows[0]), rows),
        judgements=(judge_number(followed, number, claim="rules that our queries follow"),),
        notes=(
            *(f"{rule.task}: {pattern(rule.task)}" for rule in RULES),
            (
                "Queries are shown without their prefixes and without the conditions by which"
                " values are entities, and unknown ones none; taskloom show TASK --sparql prints"
                " the whole query of any factual task."
            ),
            (
                "A predicate is one group of counts instead of BIND, which decides "
                "several values, kinds of a class and silence (docs/suites/taskbench-facts.md)."
            ),
            (
                "The paper's public code gives a union the inputs that both relations have"
                " (union_domain: common); the table, and our default, those of either."
            ),
        ),
    )


STAGES = {
    "atomic task": "synonyms[eng]",
    "atomic task, other family": "random0[eng]",
    "composed task": "union(antonyms[eng], synonyms[eng])",
    "sequence task": "map(synonyms[eng])",
}
"""Tasks for the stages of the paper's Figure 1, all over the packaged lexicon."""


@study(
    "taskbench500/figure1",
    describe="From atomic tasks by composition to datasets",
    place="TaskBench500, Figure 1",
    from_recipes=True,
)
def figure1(scale: str) -> Finding:
    """Show a task for each stage of the task creation process, with the first row of its
    dataset.
    """
    recipe = quick_words(tuple(STAGES.values()))
    changes = [f"{key}={json.dumps(value)}" for key, value in recipe["set"].items()]
    plan = read(recipe["recipe"], changes).plan(0)
    train = next(split for split in plan.splits if split.name == "train")
    first: dict[str, Example] = {}
    rows_of = to_table(train.rows(0, train.n), 0, plan.traits)
    for example in to_examples(rows_of):
        first.setdefault(example.task.removeprefix("taskbench/"), example)
    rows = [
        {
            "stage": stage,
            "task": name,
            "in English": describe(parse(name)),
            "input": first[name].input,
            "answer": first[name].target,
        }
        for stage, name in STAGES.items()
        if name in first
    ]
    return Finding(
        "TaskBench500 Figure 1",
        "The paper's figure is a drawing: atomic tasks are combined by composition functions, a"
        " dataset is made of each, and a model is adapted to each.",
        ResultTable(("stage", "task", "in English", "input", "answer"), rows),
    )
