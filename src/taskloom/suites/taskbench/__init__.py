"""TaskBench500: word and sequence functions, composed in a small typed language, over words, facts
and random relations.

Any expression of the language is a recipe, such as `taskbench/chain(antonyms[eng], hyponyms[eng])`.
The paper's tasks are the catalog (`taskbench/500`). Paper: Li et al., Quantifying Adaptability in
Pre-trained Language Models with 500 Tasks (NAACL 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from taskloom.core.offers import TraitName, View
from taskloom.core.registry import Suite, suite
from taskloom.core.resources import Resource
from taskloom.suites.taskbench.fields import TaskbenchFields
from taskloom.suites.taskbench.worlds.corpora import NLTK_DATA

if TYPE_CHECKING:
    from taskloom.core.example import Answer, Example
    from taskloom.core.pictures import TreePicture
    from taskloom.core.plan import Plan
    from taskloom.core.scoring import Scorer
    from taskloom.core.seeding import Key
    from taskloom.suites.taskbench.atoms import atom as atom
    from taskloom.suites.taskbench.plan import survey as survey
    from taskloom.suites.taskbench.scorers import ReferencePositions as ReferencePositions
    from taskloom.suites.taskbench.worlds import facts as facts

_HOME = {
    "ReferencePositions": "scorers",
    "atom": "atoms",
    "facts": "worlds",
    "survey": "plan",
}
"""Public names in addition to the modules `catalog` and `language`, with the modules that define
them.
"""

__all__ = ["TaskbenchFields", "TaskbenchSuite", *_HOME]

WIKIDATA = Resource(
    "wikidata",
    "a Wikidata subset as N-Triples (taskbench: factual tasks)",
    ("wikidata/wikidata-subset.nt.gz",),
)


def _build_facts(source: str, folder: Path) -> dict[str, Any]:
    """Build a world of facts from a dump; see `worlds.facts.dump`."""
    from taskloom.core.tables import counted
    from taskloom.suites.taskbench.worlds.facts.dump import build_world

    manifest = build_world(source, folder)
    facts = sum(manifest["facts"].values())
    kept = f"{counted(facts, 'fact')} and {counted(manifest['labels'], 'label')}"
    summary = f"{kept} of {counted(manifest['triples'], 'triple')}"
    return {**manifest, "facts": facts, "summary": summary}


FACTS = Resource(
    "facts",
    "a world of facts built from a Wikidata dump (taskbench: factual tasks)",
    ("facts/world.json",),
    build=_build_facts,
)


def __getattr__(name: str) -> Any:
    # Import lazily, because listing the suites must not import the language.
    if name not in _HOME:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    if name == "facts":
        return import_module(f"{__name__}.worlds.facts")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def _queries(fields: TaskbenchFields) -> dict[str, str]:
    """Return the SPARQL query of every factual task of a recipe."""
    from taskloom.suites.taskbench.plan import functions
    from taskloom.suites.taskbench.worlds.facts.task_queries import is_factual, task_query

    chosen = functions(fields)
    factual = [f for f in chosen if is_factual(f.expression)] or chosen[:1]
    return {f.task: task_query(f.expression, f.type, fields.union_domain) for f in factual}


VIEWS = {
    "sparql": View(
        "The SPARQL query of each factual task; a composed task is a single query.", _queries
    )
}

TRAIT_NAMES = {
    "family": TraitName("kind of function", "Lexical, factual or random, on words or sequences."),
    "composition": TraitName("composition", "How the function is composed of simpler ones."),
    "answers": TraitName("acceptable answers", "Number of answers that count as right."),
    "length": TraitName("items of the input", "Number of words in the input."),
    "side": TraitName(
        "side of the union", "Operand of a balanced union from which the input was drawn."
    ),
}


def reference_positions(plan: Plan) -> Scorer:
    """Build the scorer of the published code, which compares the first n words with the n
    positions.
    """
    from taskloom.suites.taskbench.scorers import ByTask, Positions, ReferencePositions

    def of_sequences(task: str) -> Scorer | None:
        assert isinstance(plan.scorer, ByTask)
        scorer = plan.scorer.sequences(task)
        if isinstance(scorer, Positions):
            return ReferencePositions(scorer.sets, scorer.separators)
        return scorer

    return ByTask(of_sequences, "reference-positions")


@suite
class TaskbenchSuite(Suite):
    """Functions of the language on words, facts and random maps."""

    name = "taskbench"
    fields = TaskbenchFields
    describe = "Word and sequence functions from a typed language (TaskBench500)"
    version = 4
    trait_names = TRAIT_NAMES
    resources = (NLTK_DATA, WIKIDATA, FACTS)
    views = VIEWS
    plan_scorers = MappingProxyType({"reference-positions": reference_positions})

    def weave(self, fields: TaskbenchFields, key: Key) -> Plan:
        """Plan a function recipe."""
        from taskloom.suites.taskbench.plan import plan

        return plan(fields, key)

    def resolve(self, name: str) -> dict[str, Any] | None:
        """Turn an expression into a recipe with one function. Names that look like a misspelt
        recipe are left to the search for recipes.
        """
        from difflib import get_close_matches

        from taskloom.suites.taskbench.language import ExpressionError, read

        try:
            read(name)
        except ExpressionError:
            files = [path.stem for path in (Path(__file__).parent / "recipes").glob("*.yaml")]
            if get_close_matches(name, files, cutoff=0.7):
                return None
            raise
        return {"functions": [name]}

    def function(self, fields: TaskbenchFields) -> Callable[[str], Answer]:
        """Return the function of a recipe that has exactly one."""
        from taskloom.suites.taskbench.plan import answerer

        return answerer(fields)

    def code(self, fields: TaskbenchFields) -> dict[str, str]:
        """Return digests of the source files of added atoms that the recipe uses. The catalog uses
        none, so only explicitly named functions and atoms are checked.
        """
        from hashlib import blake2b

        from taskloom.core.registry import source_of
        from taskloom.suites.taskbench.atoms import added
        from taskloom.suites.taskbench.language import parse
        from taskloom.suites.taskbench.language.operators import atoms_of

        if not added():
            return {}
        named = [*fields.functions, *(fields.compose.atoms if fields.compose else ())]
        used = {atom for name in named for atom in atoms_of(parse(name))}
        digests = {}
        for atom in sorted(used & added().keys()):
            function = added()[atom].function
            if function is not None:
                digests[atom] = blake2b(source_of(function), digest_size=16).hexdigest()
        return digests

    def run_scores(
        self, plan: Plan, examples: Sequence[Example], predictions: Sequence[str]
    ) -> dict[str, float]:
        """Score the sequences of a split: the shares of right positions and of right sequences, and
        the public code's score.
        """
        from taskloom.suites.taskbench.scorers import ByTask, Positions, ReferencePositions

        assert isinstance(plan.scorer, ByTask)
        right, compatible = [], []
        for example, prediction in zip(examples, predictions, strict=True):
            scorer = plan.scorer.sequences(example.task)
            if isinstance(scorer, Positions):
                right.append(scorer.right(prediction, example))
                compatible.append(
                    ReferencePositions(scorer.sets, scorer.separators).score(prediction, example)
                )
        positions = [one for sequence in right for one in sequence]
        if not positions:
            return {}
        return {
            "per-position": sum(positions) / len(positions),
            "whole-sequence": sum(map(all, right)) / len(right),
            "reference-compatible": sum(compatible) / len(compatible),
        }

    def task_form(self, task: str, traits: Mapping[str, Any]) -> str:
        """Return a function without its constants, which are the value of an `is` and the number of
        a random relation.
        """
        from taskloom.suites.taskbench.language import read
        from taskloom.suites.taskbench.language.printer import form

        return form(read(task.removeprefix("taskbench/")))

    def picture(self, example: Example, fields: TaskbenchFields, key: Key) -> TreePicture | None:
        """Draw the expression as a tree, with the value of each node as in the dataset."""
        from taskloom.core.pictures import derivation_tree

        return derivation_tree(example.derivation, example.input)
