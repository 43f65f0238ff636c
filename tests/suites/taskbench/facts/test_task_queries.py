"""One SPARQL query a task, and the same answers from it as from the joins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from taskloom.cli import run
from taskloom.core.errors import InputError
from taskloom.suites.taskbench.language import Type, map_filter, read_typed
from taskloom.suites.taskbench.language.operators import Atom, Is
from taskloom.suites.taskbench.worlds.facts.invented_facts import WorldKnobs, synthetic_world
from taskloom.suites.taskbench.worlds.facts.properties import PREDICATES, RELATIONS, to_id
from taskloom.suites.taskbench.worlds.facts.rdf import RdfWorld, write_ntriples
from taskloom.suites.taskbench.worlds.facts.relation import Predicate
from taskloom.suites.taskbench.worlds.facts.set_operators import Domain, FactComposer
from taskloom.suites.taskbench.worlds.facts.task_queries import task_query

from .conftest import Catalogue

Rows = set[tuple[str, ...]]


def queried(world: RdfWorld, text: str, domain: Domain = "either") -> Rows:
    """What the embedded store answers; an unbound variable is an empty text."""
    answer = world.query(task_query(*read_typed(text), domain))
    names = [variable.value for variable in answer.variables]
    return {tuple(to_id(row[name].value) if row[name] else "" for name in names) for row in answer}


def joined(world: RdfWorld, text: str, domain: Domain = "either") -> Rows:
    """What the joins give."""
    function = FactComposer(world, domain).function(text)[1]
    if isinstance(function, Predicate):
        return {(x, str(true).lower()) for x, true in function.items()}
    return set(function.pairs())


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> RdfWorld:
    """An invented world, with more classes: a kind of actor, and an occupation of which nothing is
    known.
    """
    path = tmp_path_factory.mktemp("world") / "small.nt"
    world = synthetic_world(WorldKnobs(people=300, density=0.9))
    write_ntriples(world, path)
    entity, direct = "http://www.wikidata.org/entity/", "http://www.wikidata.org/prop/direct/"
    facts = [("Q9000001", "P279", "Q33999"), ("Q33999", "P279", "Q9000001")]
    people = [x for x in world.relation("occupation") if x.startswith("urn:taskloom:human")]
    lines = [f"<{entity}{x}> <{direct}{p}> <{entity}{y}> ." for x, p, y in facts]
    for i, x in enumerate(people[:60]):
        value = f"{entity}Q900000{1 + i % 2}"
        lines.append(f"<{x}> <{direct}P106> <{value}> .")
    lines.append(f"<{people[70]}> <{direct}P106> <http://www.wikidata.org/.well-known/genid/abc> .")
    lines.append(f"<{people[71]}> <{direct}P22> _:somebody .")
    with path.open("a", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return RdfWorld(path, keep="memory")


@pytest.mark.parametrize("name", [*RELATIONS, *PREDICATES, "instance_of", "P26"])
def test_every_atom(small: RdfWorld, name: str) -> None:
    assert queried(small, name) == joined(small, name)


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_every_factual_task_of_the_paper(small: RdfWorld, catalogue: Catalogue, every: int) -> None:
    tasks = {read_typed(text)[0].notation: text for text in catalogue.expressions}
    assert len(tasks) > 250
    for text in list(tasks.values())[::every]:
        assert queried(small, text) == joined(small, text), text


COMPOSED = (
    "chain(father, mother, father.inv)",
    "chain(occupation, union(father, mother))",
    "union(child, father.inv, mother.inv)",
    "intersection(child, union(father.inv, mother.inv))",
    "difference(child, father.inv)",
    "lnot(is_occupation_actor)",
    "land(is_occupation_actor, lnot(is_birthplace_la), is_instance_human)",
    "lor(land(is_occupation_actor, is_occupation_writer), is_birthplace_nyc)",
    "chain(is_occupation_actor, father)",
    "chain(lor(is_occupation_actor, is_birthplace_london), child)",
    "is{place_of_birth=London}",
    "is{occupation=actor}",
    "is{occupation=Q33999}",
    "is{official_language=Q42}",
)


@pytest.mark.parametrize("text", COMPOSED)
def test_deeper_compositions(small: RdfWorld, text: str) -> None:
    assert queried(small, text) == joined(small, text)


def test_unions_of_the_public_code(small: RdfWorld) -> None:
    text = "union(father, creator)"
    assert queried(small, text, "common") == joined(small, text, "common") != joined(small, text)


def test_filters(small: RdfWorld) -> None:
    for text in ("filter(is_occupation_actor)", "map(father, filter(is_occupation_actor))"):
        element, predicate = map_filter(read_typed(text)[0])
        assert predicate is not None
        truth = {x: true == "true" for x, true in joined(small, predicate.notation)}
        if element is None:
            wanted: Rows = {(x, str(true).lower()) for x, true in truth.items()}
        else:
            wanted = {(x, "true", y) for x, y in joined(small, element.notation) if truth.get(x)}
            wanted |= {(x, "false", "") for x, true in truth.items() if not true}
        assert queried(small, text) == wanted


@pytest.mark.slow
def test_atoms_of_the_real_subset(real: RdfWorld) -> None:
    for name in ("father", "head_of_state.inv", "is_birthplace_la", "is_occupation_actor"):
        assert queried(real, name) == joined(real, name), name


@pytest.mark.slow
def test_every_task_on_the_real_subset(real: RdfWorld, catalogue: Catalogue) -> None:
    names = {FactComposer(real).function(text)[0] for text in catalogue.expressions} | {
        *RELATIONS,
        *PREDICATES,
    }
    for text in sorted(names):
        assert queried(real, text) == joined(real, text), text


def test_words_have_no_query() -> None:
    for text in ("synonyms[eng]", "chain(synonyms[eng], label, occupation)"):
        with pytest.raises(InputError, match="it has no SPARQL query"):
            task_query(*read_typed(text))


def test_hostile_values_stay_values(small: RdfWorld) -> None:
    tree = Is(Atom("place_of_birth"), 'London"@en } UNION { ?x ?p ?y } # \\')
    rows = list(small.query(task_query(tree, Type("predicate", "entity"))))
    assert len(rows) == len(small.relation("place_of_birth"))
    assert {row[1].value for row in rows} == {"false"}


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def shown(*arguments: str) -> str:
        assert run(["show", *arguments, "--sparql"]) == 0
        return capsys.readouterr().out

    text = shown("taskbench/chain(occupation, father)")
    assert (
        text
        == "# taskbench/chain(occupation, father)\n"
        + task_query(*read_typed("chain(occupation, father)"))
        + "\n"
    )
    made = tmp_path / "data"
    assert (
        run(
            [
                "make",
                "taskbench/union(father, mother)",
                "-o",
                str(made),
                "--set",
                "union_domain=common",
            ]
        )
        == 0
    )
    capsys.readouterr()
    row = json.loads(shown(str(made), "--json"))
    assert row["sparql"] == task_query(*read_typed("union(father, mother)"), "common")
    assert shown("taskbench/500-synthetic").count("SELECT DISTINCT ?x ?y") == 285
    assert run(["show", "ctl/A", "--sparql"]) == 2
    assert "--sparql is for taskbench, not for ctl/A" in capsys.readouterr().err
