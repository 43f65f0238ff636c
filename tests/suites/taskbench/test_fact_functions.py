"""Factual and mixed functions in a small hand-made world, against answers that a reader can
check.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from taskloom.core import shards
from taskloom.core.errors import InputError
from taskloom.core.example import Example
from taskloom.core.plan import Plan
from taskloom.data import make as making
from taskloom.recipe import read
from taskloom.verbs import answerer

LABELS = {
    "Q1": "Ada Hill",
    "Q2": "Bo Hill",
    "Q3": "Cy Hill",
    "Q4": "Dan C# Moor",
    "Q5": "Ada Hill",
    "Q6": "Elbe",
    "Q33999": "actor",
    "Q36180": "writer",
    "Q84": "London",
    "Q60": "New York City",
    "Q5000": "human",
}
FACTS = [
    ("Q1", "P22", "Q2"),
    ("Q2", "P22", "Q3"),
    ("Q5", "P22", "Q4"),
    ("Q1", "P106", "Q33999"),
    ("Q1", "P106", "Q36180"),
    ("Q2", "P106", "Q36180"),
    ("Q3", "P106", "Q33999"),
    ("Q4", "P106", "Q33999"),
    ("Q5", "P106", "Q36180"),
    ("Q1", "P19", "Q84"),
    ("Q2", "P19", "Q60"),
    ("Q3", "P19", "Q84"),
    ("Q5", "P19", "Q60"),
    ("Q33999", "P279", "Q35120"),
    ("Q36180", "P279", "Q35120"),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("facts") / "small.nt"
    entity, direct = "http://www.wikidata.org/entity/", "http://www.wikidata.org/prop/direct/"
    lines = [f"<{entity}{x}> <{direct}{p}> <{entity}{y}> ." for x, p, y in FACTS]
    label = "http://www.w3.org/2000/01/rdf-schema#label"
    lines += [f'<{entity}{x}> <{label}> "{text}"@en .' for x, text in LABELS.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def ask(function: str, world: str) -> Any:
    return answerer(f"taskbench/{function}", [f"facts={world}"])


def plan(function: str, world: str, *changes: str) -> Plan:
    return read(f"taskbench/{function}", [f"facts={world}", "minimum=1", *changes]).plan(0)


def everything(made: Plan) -> list[Example]:
    found = []
    for split in made.splits:
        if split.name in ("train", "dev", "test"):
            found += list(
                shards.to_examples(shards.to_table(split.rows(0, split.n), 0, made.traits))
            )
    return found


@pytest.mark.parametrize(
    ("function", "text", "targets"),
    [
        ("father", "Bo Hill", ("Cy Hill",)),
        # Two people are called Ada Hill: either's father is a right answer.
        ("father", "Ada Hill", ("Bo Hill", "Dan C# Moor")),
        ("father", "Q5", ("Dan C# Moor",)),
        ("chain(occupation, father)", "Ada Hill", ("actor", "writer")),
        ("father.inv", "Cy Hill", ("Bo Hill",)),
        ("union(father, place_of_birth)", "Bo Hill", ("Cy Hill", "New York City")),
        # Q1 is an actor and a writer, Q5 a writer; the father of Q1 is a writer, that of Q5 an
        # actor.
        ("difference(occupation, chain(occupation, father))", "Ada Hill", ("actor", "writer")),
        ("difference(occupation, chain(occupation, father))", "Q1", ("actor",)),
        ("is_occupation_actor", "Bo Hill", ("false",)),
        ("is_occupation_actor", "Ada Hill", ("true",)),
        # Q1 is an actor born in London, Q5 a writer born in New York: no Ada Hill is an actor born
        # in New York.
        ("land(is_occupation_actor, is_birthplace_nyc)", "Ada Hill", ("false",)),
        ("land(is_occupation_actor, is_birthplace_london)", "Ada Hill", ("true",)),
        ("is{father=Cy Hill}", "Bo Hill", ("true",)),
        ("chain(is_occupation_actor, father)", "Bo Hill", ("true",)),
        ("lnot(is_occupation_actor)", "Cy Hill", ("false",)),
        ("chain(synonyms[eng], label, occupation)", "Bo Hill", ("author",)),
        ("map(father)", "Ada Hill # Bo Hill", ("Bo Hill Cy Hill",)),
        ("filter(is_occupation_actor)", "Bo Hill # Cy Hill # Elbe", ("Cy Hill",)),
    ],
)
def test_answers(function: str, text: str, targets: tuple[str, ...], world: str) -> None:
    assert ask(function, world)(text).targets == targets


def test_steps_are_labels(world: str) -> None:
    steps = ask("chain(occupation, father)", world)("Bo Hill").derivation
    assert [(s.rule, s.value) for s in steps] == [("father", "Cy Hill"), ("occupation", "actor")]


def test_bad_inputs(world: str) -> None:
    with pytest.raises(InputError, match="not an entity"):
        ask("father", world)("Nobody")
    with pytest.raises(InputError, match="outside the domain"):
        ask("father", world)("Elbe")
    with pytest.raises(InputError, match="'Nobody' is not an entity of this world"):
        plan("is{father=Nobody}", world)
    with pytest.raises(InputError, match="nothing is known"):
        ask("is_occupation_actor", world)("Elbe")
    for hostile in ('"; DROP', "<x>", "?x", "\\", "} UNION {"):
        with pytest.raises(InputError, match="not an entity"):
            ask("father", world)(hostile)


@pytest.mark.parametrize(
    "function",
    [
        "father",
        "chain(occupation, father)",
        "union(father, place_of_birth)",
        "is_occupation_actor",
        "father.inv",
    ],
)
def test_datasets_agree_with_single_answers(function: str, world: str) -> None:
    made = plan(function, world)
    examples = everything(made)
    assert examples
    assert made.check is not None
    answer = ask(function, world)
    for example in examples:
        assert sorted(example.targets) == sorted(answer(example.input).targets)
        assert sorted(made.check(example)) == sorted(example.targets)


@pytest.mark.parametrize("separators", ["true", "false"])
def test_sequences_of_names_of_several_words(separators: str, world: str) -> None:
    made = plan(
        "map(occupation)",
        world,
        "sequences.n=40",
        f"sequences.separators={separators}",
        "pairs=published",
    )
    assert made.check is not None
    for example in everything(made):
        # A name with the separator in it cannot stand in a sequence.
        assert "C#" not in example.input
        assert made.scorer.score(example.target, example) == 1.0
        assert made.check(example) == example.targets


def test_the_references_union_has_the_common_domain_only(world: str) -> None:
    either = {e.input for e in everything(plan("union(father, place_of_birth)", world))}
    common = {
        e.input
        for e in everything(plan("union(father, place_of_birth)", world, "union_domain=common"))
    }
    assert either == {"Ada Hill", "Bo Hill", "Cy Hill"}
    assert common == {"Ada Hill", "Bo Hill"}


def test_balanced_unions_of_facts() -> None:
    made = read(
        "taskbench/union(father, occupation)", ["balanced=true", "facts=synthetic#people=2000"]
    ).plan(0)
    examples = everything(made)
    assert made.check is not None
    assert {e.traits["side"] for e in examples} == {"father", "occupation"}
    for example in examples[:300]:
        assert sorted(made.check(example)) == sorted(example.targets)


def test_synthetic_world_needs_no_data(tmp_path: Path) -> None:
    data = making.make(
        "taskbench/chain(mother, father)", tmp_path / "x", set=["facts=synthetic#people=2000"]
    )
    assert data.manifest["splits"]["train"]["n"] > 100
