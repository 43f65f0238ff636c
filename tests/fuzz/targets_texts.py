"""Texts that people and data write: recipes, changes, expressions, stories, ZEST domains,
experiments, inputs of `apply`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from hypothesis import strategies as st

from taskloom.core import shards
from taskloom.core.errors import RecipeError, TaskloomError
from taskloom.core.example import Example
from taskloom.core.plan import Plan
from taskloom.experiments import api
from taskloom.experiments.spec import experiment as spec
from taskloom.recipe import read
from taskloom.recipe.yaml_files import load
from taskloom.suites.babi.reasoner import second_solver
from taskloom.suites.babi.solve_file import places_of, solve_story, solve_text
from taskloom.suites.babi.story import text_format
from taskloom.suites.babi.story.grammar import understand
from taskloom.suites.taskbench.evaluation import evaluator
from taskloom.suites.taskbench.evaluation.derivations import Deriver
from taskloom.suites.taskbench.evaluation.second_solver import PlainSolver
from taskloom.suites.taskbench.language import name as normal_name
from taskloom.suites.taskbench.language import normal, read_typed
from taskloom.suites.taskbench.language import show as printed
from taskloom.suites.taskbench.language.types import language_of
from taskloom.suites.zest.synthetic.domain_files import domain_names, load_domain
from taskloom.suites.zest.task_files import read_tasks, write_tasks
from taskloom.verbs import answerer
from tests.fuzz.engine import Refuted, Verdict, target
from tests.fuzz.strategies import (
    as_text,
    mutated_json,
    mutated_text,
    odd_numbers,
    odd_values,
    reworded_json,
)
from tests.suites.taskbench.strategies import WORD_KINDS, small_words
from tests.suites.taskbench.strategies import expressions as suite_expressions

ROWS = 2
"""Rows of each split that a second solver looks at."""


def check_plan(plan: Plan) -> Verdict:
    """Make the first rows of every split and answer them again."""
    checked = False
    for split in plan.splits:
        made = split.rows(0, min(ROWS, split.n)) if split.n else []
        rows: Iterable[Example] = (
            made
            if isinstance(made, list) or not hasattr(made, "num_rows")
            else shards.to_examples(made)
        )
        for example in rows:
            if plan.check is None:
                continue
            answers = plan.check(example)
            if sorted(answers) != sorted(example.targets):
                raise Refuted(
                    f"{split.name}: {example.input!r}: {example.targets} against {answers}"
                )
            checked = True
    return "checked" if checked else "accepted"


# Recipes

STORY = {"events": ["MOVE"], "questions": ["where-P"], "support": 1}
RECIPES: list[dict[str, Any]] = [
    {
        "suite": "ctl",
        "variant": "A",
        "symbols": 4,
        "functions": 6,
        "max_length": 3,
        "splits": {"train": {"n": 40}, "iid": {"n": 4}, "ood": {"n": 4}, "all": {"n": 3}},
    },
    {
        "suite": "ctl",
        "variant": "S",
        "symbols": 4,
        "functions": 8,
        "overlap": 2,
        "shared_symbols": 3,
        "max_length": 4,
        "include_singles": False,
        "draw": "chains",
        "splits": {"train": {"n": 20}, "ood": {"n": 4}, "unseen-pairs": {"n": "every"}},
    },
    {"suite": "ctl", "variant": "length", "symbols": 3, "functions": 4, "max_length": 3,
     "splits": {"train": {"n": 30}, "ood": {"n": 4}}},
    {"suite": "ctl", "variant": "R", "tables": {"f": [0, 1, 2], "g": [1, 2, 0], "h": [2, 0, 1]}, "splits": {"train": {"n": 20}}},
    {"suite": "babi", "groups": [STORY], "splits": {"train": {"n": 3}, "test": {"n": 2}}},
    {
        "suite": "babi",
        "vocabulary": {"persons": ["Mary", "John"], "places": ["park", "hall", "shop"], "objects": ["milk", "ball"]},
        "groups": [
            {"n": 2, "events": ["MOVE", "GRAB", "DROP"], "questions": ["where-O"], "support": "2..3", "length": "5..12"},
            {"n": 2, "events": {"MOVE": 2, "GRAB": 1, "GIVE": 1}, "wording": ["COREF"], "questions": ["list", "counting"]},
        ],
        "splits": {"train": {"n": 4}, "test": {"n": 2}},
    },
    {
        "suite": "babi",
        "splits": {"train": [{"n": 3, **STORY}],
                   "ood": [{"n": 2, "events": ["MOVE"], "wording": ["COREF"], "questions": ["where-P"]}]},
        "holdout": [["COREF", "GRAB"]],
    },
    {"suite": "babi", "number": 17, "splits": {"train": {"n": 3}, "test": {"n": 2}}},
    {"suite": "babi", "number": 18, "twins": ["flip", "keep"], "splits": {"train": {"n": 3}, "test": {"n": 2}}},
    {
        "suite": "taskbench",
        "functions": ["union(antonyms[eng], synonyms[eng])"],
        "lexicon": "synthetic",
        "few_shot": None,
    },
    {"extends": "ctl/A", "splits": {"train": {"n": 400}}},
    {"extends": "babi/9", "twins": {"test": ["flip"]}, "splits": {"train": {"n": 3}, "test": {"n": 2}}},
    {
        "suite": "taskbench",
        "functions": ["map(synonyms[eng], filter(is_pos_verb[eng]))", "random1[eng]"],
        "lexicon": "synthetic",
        "few_shot": {"k": 4, "draws": 2},
        "sequences": {"n": 20, "length": 4, "kept": 2},
        "shares": {"train": 0.8, "test": 0.1},
        "described": {"level": "explicit"},
    },
    {"suite": "zest", "tasks": {"train": 12, "dev": 0, "test": 0}, "passages": 1, "layout": "bart"},
]  # fmt: skip
FIELD_VALUES = st.one_of(
    odd_values,
    odd_numbers,
    st.sampled_from(
        [
            "A",
            "R",
            "S",
            "length",
            "published",
            "chains",
            "independent",
            "every",
            "added",
            "MOVE",
            "GRAB",
            "GIVE",
            "DROP",
        ]
    ),
    st.sampled_from(
        [
            "where-P",
            "where-O",
            "list",
            "counting",
            "yes-no",
            "COREF",
            "CONJ",
            "NEGATE",
            "INDEF",
            "2..3",
            "1..20",
            "0..0",
        ]
    ),
    st.lists(
        st.sampled_from(["MOVE", "GRAB", "DROP", "GIVE", "COREF", "where-O", "list"]), max_size=3
    ),
)


@st.composite
def recipe_texts(draw: st.DrawFn) -> str:
    """Draw a recipe as a file has it: as YAML, now and then with edits of its text."""
    data = draw(mutated_json(RECIPES, FIELD_VALUES, most=2))
    text = yaml.safe_dump(data, allow_unicode=True) if draw(st.booleans()) else json.dumps(data)
    if draw(st.integers(0, 4)) == 0:
        text = draw(
            mutated_text(
                [text],
                [
                    "suite:",
                    "splits:",
                    "- ",
                    "  ",
                    "{",
                    "}",
                    "&a ",
                    "*a",
                    "<<: *a",
                    "!!int ",
                    "|",
                    "\n",
                ],
            )
        )
    return text


def _warm_lexicons(*lexicons: str) -> None:
    """Build the lexicons that recipes may name: a fresh cache takes seconds for each."""
    for lexicon in lexicons or ("synthetic", "packaged"):
        check_plan(read("taskbench/antonyms[eng]", {"lexicon": lexicon, "few_shot": None}).plan(0))


@target("recipes", recipe_texts(), weight=7, cost=12, warm=_warm_lexicons)
def recipes(text: str, folder: Path) -> Verdict:
    """Read a recipe, plan it, make its first rows and answer them again."""
    path = folder / "recipe.yaml"
    path.write_bytes(as_text(text))
    return check_plan(read(path).plan(0))


CHANGES = [
    "splits.train.n=300", "splits={train: {n: 40}}", "symbols=4", "variant=R", "draw=chains", "tables={a: [0, 1], b: [1, 0]}",
    "splits.ood.n=5", "order=left-to-right", "described={level: explicit}", "fill=1.0", "max_length=3", "functions=4",
]  # fmt: skip


@target(
    "changes",
    st.lists(
        mutated_text(CHANGES, ["=", ".", "{", "}", "[", ": ", ",", "splits", "n", "&a", "*a"]),
        max_size=3,
    ),
    weight=12,
    cost=2,
)
def changes(texts: list[str], folder: Path) -> Verdict:
    """Change a recipe as `--set` does."""
    read("ctl/A-independent", ["symbols=4", "functions=6", *texts])
    return "accepted"


# Expressions

ATOMS = [
    "synonyms[eng]",
    "antonyms[eng]",
    "hyponyms[eng]",
    "is_pos_noun[eng]",
    "is_pos_verb[eng]",
    "random1[eng]",
    "father",
    "mother",
    "country",
]
OPERATORS = [
    "union",
    "intersection",
    "chain",
    "difference",
    "map",
    "filter",
    "land",
    "lor",
    "lnot",
    "inverse",
]


def _applied(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def join(operator: str, parts: list[str]) -> str:
        return f"{operator}({', '.join(parts)})"

    return st.builds(join, st.sampled_from(OPERATORS), st.lists(inner, min_size=1, max_size=3))


expressions_grammar = st.recursive(st.sampled_from(ATOMS), _applied, max_leaves=6)
RELATIONS = ["synonyms[eng]", "antonyms[eng]", "hyponyms[eng]", "random1[eng]"]
PREDICATES = ["is_pos_noun[eng]", "is_pos_verb[eng]"]
relations = st.recursive(
    st.sampled_from(RELATIONS),
    lambda inner: st.one_of(
        st.builds(
            "{}({}, {})".format,
            st.sampled_from(["union", "intersection", "chain", "difference"]),
            inner,
            inner,
        ),
        st.builds("inverse({})".format, inner),
    ),
    max_leaves=4,
)
predicates = st.recursive(
    st.sampled_from(PREDICATES),
    lambda inner: st.one_of(
        st.builds("{}({}, {})".format, st.sampled_from(["land", "lor"]), inner, inner),
        st.builds("lnot({})".format, inner),
    ),
    max_leaves=3,
)
typed_expressions = st.one_of(
    relations,
    predicates,
    st.builds("map({})".format, relations),
    st.builds("filter({})".format, predicates),
    st.builds("map({}, filter({}))".format, relations, predicates),
)
"""Functions of words and of sequences whose parts fit each other."""

EXPRESSIONS = [
    "union(father, mother)", "map(synonyms[eng], filter(is_pos_verb[eng]))", "chain(antonyms[eng], hyponyms[eng])",
    "filter(land(is_pos_noun[eng], is_pos_verb[eng]))", "intersection(synonyms[eng], antonyms[eng])", "difference(father, mother)",
]  # fmt: skip
expression_texts = st.one_of(
    expressions_grammar,
    typed_expressions,
    mutated_text(EXPRESSIONS, [*ATOMS, *OPERATORS, "(", ")", ",", "[", "]", "|", "&", "->", "."]),
)


@target("expressions", expression_texts, weight=80)
def expressions(text: str, folder: Path) -> Verdict:
    """Read an expression; its normal name and its printed form must mean the same."""
    expression, kind = read_typed(text)
    named = normal_name(expression)
    again, same_kind = read_typed(named)
    if normal_name(again) != named or same_kind != kind:
        raise Refuted(f"{text!r} is named {named!r}, which reads as {normal_name(again)!r}")
    if normal_name(read_typed(printed(expression))[0]) != named:
        raise Refuted(f"{text!r} is printed as {printed(expression)!r}, which is another function")
    return "checked"


@cache
def _small_solver() -> PlainSolver:
    return PlainSolver(small_words())


@target(
    "evaluators",
    suite_expressions(WORD_KINDS).map(printed),
    weight=24,
    cost=5,
    warm=_small_solver,
)
def evaluators(text: str, folder: Path) -> Verdict:
    """Evaluate a function at every word of a small world in three ways: by arrays, by steps and by
    plain sets.
    """
    words, plain = small_words(), _small_solver()
    expression, kind = read_typed(text)
    if kind.source not in WORD_KINDS or kind.target not in (*WORD_KINDS, ""):
        return "accepted"
    tree = normal(expression)
    rows = np.unique(words.lexicon.lemmas[language_of(kind.source)].values).astype(np.int32)
    texts = [words.texts[row] for row in rows]
    arrays: list[Any]
    meant: list[Any]
    steps: list[Any]
    if kind.form == "relation":
        table = evaluator.values(tree, rows, words)
        arrays = [{words.texts[i] for i in table.row(number)} for number in range(len(rows))]
        meant = [plain.relation(expression, text) for text in texts]
        steps = [set(Deriver.values(tree, text, words)) for text in texts]
    elif kind.form == "predicate":
        arrays = [bool(true) for true in evaluator.holds(tree, rows, words)]
        meant = [plain.predicate(expression, text) for text in texts]
        steps = [Deriver(tree, kind, words)(text).targets == ("true",) for text in texts]
    else:
        texts = [text for text in texts if "_" not in text]
        meant = [{y.replace("_", " ") for y in ys} for ys in plain.sequence(expression, texts)]
        steps = [set(ys) for ys in Deriver(tree, kind, words).positions(" ".join(texts))]
        arrays = meant
    if not arrays == meant == steps:
        raise Refuted(f"{text!r}: {arrays}, {steps} and {meant}")
    return "checked"


LAYOUTS: list[dict[str, Any]] = [
    {"few_shot": None},
    {"few_shot": {"k": 2, "draws": 1}, "sequences": {"n": 8, "length": 3, "kept": 1}},
    {"few_shot": None, "pairs": "published", "rules": {"senses": "first"}},
    {"few_shot": None, "rules": {"outputs": "vocabulary", "inflections": False}, "case": "lower"},
    {"few_shot": None, "pairing": "one-to-one", "described": {"level": "explicit"}},
]


@target(
    "functions",
    st.tuples(
        st.integers(0, len(LAYOUTS) - 1),
        st.one_of(typed_expressions, suite_expressions(WORD_KINDS).map(printed)),
    ),
    weight=4,
    cost=110,
    warm=lambda: _warm_lexicons("synthetic"),
    siblings=1,
)
def functions(given: tuple[int, str], folder: Path) -> Verdict:
    """Make the rows of a function over invented words and answer them again."""
    layout, text = given
    few = {"minimum": 1, "answers": False, "shares": {"train": 0.8, "test": 0.2}}
    sequences = {"n": 20, "length": 4, "kept": 2}
    changes = {"lexicon": "synthetic", **few, "sequences": sequences, **LAYOUTS[layout]}
    return check_plan(read(f"taskbench/{text}", changes).plan(0))


INPUTS = {
    "ctl/A": ["c b a 3", "a 0", "Z 7"],
    "taskbench/antonyms[eng]": ["hot", "good", "up"],
    "zest/synthetic": ["zeroshot question: Is it? zeroshot context: It is."],
}


@cache
def _answerer(name: str) -> Any:
    sizes = (
        {"tasks": {"train": 20, "dev": 0, "test": 0}, "passages": 1}
        if name.startswith("zest")
        else {}
    )
    return answerer(name, sizes)


@target(
    "apply",
    st.sampled_from(sorted(INPUTS)).flatmap(
        lambda name: st.tuples(
            st.just(name), mutated_text(INPUTS[name], ["a", "b", "3", " ", "question:", "context:"])
        )
    ),
    weight=20,
    cost=2,
    warm=lambda: [_answerer(name) for name in INPUTS],
)
def apply(given: tuple[str, str], folder: Path) -> Verdict:
    """Answer one input of a task."""
    name, text = given
    _answerer(name)(text)
    return "accepted"


# Stories

WHO = ["Mary", "John", "Sandra"]
PRONOUNS = ["he", "she", "they"]
WHERE = ["park", "kitchen", "garden"]
WHAT = ["milk", "apple", "football"]
SENTENCES = [
    "{a} went to the {p}.", "{a} is in the {p}.", "{a} is no longer in the {p}.", "{a} is either in the {p} or the {q}.",
    "{a} got the {t}.",
    "{a} put down the {t}.", "{a} gave the {t} to {b}.", "{a} and {b} went to the {p}.", "Then {a} moved to the {p}.",
    "{a} dropped the {t}.",
    "{a} is not in the {p}.", "After that {a} journeyed to the {p}.", "{a} grabbed the {t} there.", "The {p} is north of the {q}.",
]  # fmt: skip
QUESTIONS = [
    "Where is {a}?", "Where is the {t}?", "Is {a} in the {p}?", "What is {a} carrying?", "How many objects is {a} carrying?",
    "Where was the {t} before the {p}?", "Who gave the {t}?", "What did {a} give to {b}?", "What is north of the {p}?",
]  # fmt: skip


@st.composite
def told_stories(draw: st.DrawFn) -> str:
    """Draw a story in bAbI's format: people move, things change hands, now and then a pronoun or a
    question.
    """
    lines = [
        f"1 {who} went to the {draw(st.sampled_from(WHERE))}."
        for who in [draw(st.sampled_from(WHO))]
    ]
    for number in range(2, draw(st.integers(2, 9)) + 1):
        a, b = draw(st.permutations(WHO))[:2]
        if draw(st.integers(0, 7)) == 0:
            a = draw(st.sampled_from(PRONOUNS))
        p, q = draw(st.permutations(WHERE))[:2]
        asks = number > 2 and draw(st.integers(0, 3)) == 0
        form = draw(st.sampled_from(QUESTIONS if asks else SENTENCES))
        lines.append(f"{number} " + form.format(a=a, b=b, p=p, q=q, t=draw(st.sampled_from(WHAT))))
    return "\n".join([*lines, f"{len(lines) + 1} Where is {draw(st.sampled_from(WHO))}?"]) + "\n"


SEEDS = [
    "1 Mary went to the park.\n2 Where is Mary?\tpark\t1\n",
    (
        "1 Sheep are afraid of wolves.\n2 Gertrude is a sheep.\n3 What is gertrude afraid"
        " of?\twolf\t2 1\n"
    ),
    "1 The kitchen is north of the garden.\n2 What is north of the garden?\tkitchen\t1\n",
    (
        "1 Mary got the milk.\n2 Mary gave the milk to John.\n3 Who received the milk?\tJohn\t2\n4"
        " What is John carrying?\tmilk\t2\n"
    ),
    "1 The box fits inside the chest.\n2 Does the box fit in the chest?\tyes\t1\n",
]
story_texts = st.one_of(
    told_stories(),
    mutated_text(SEEDS, ["\t", "\n", "1 ", "9 ", "Where is Mary?", "Mary", "the park", ".", "?"]),
)


@target("stories", story_texts, weight=40)
def stories(text: str, folder: Path) -> Verdict:
    """Answer the questions of a story file, and those about people and things by the second solver
    as well.
    """
    solve_text(text)
    checked = False
    for lines in text_format.read_story_text(text.removeprefix("\ufeff"), "story"):
        try:
            story = understand(lines, "story")
        except TaskloomError:
            continue  # a story of the tasks 4 and 14 to 20, which have their own words
        for placed, solved in zip(story.questions, solve_story(story), strict=True):
            again = second_solver.solve(
                story.events[: placed.after], placed.question, places_of(story)
            )
            if again != solved.answer:
                raise Refuted(f"{placed.question.text!r}: {solved.answer!r} against {again!r}")
            checked = True
    return "checked" if checked else "accepted"


# YAML and ZEST files

YAML_SEEDS = [
    "a: 1\nb: [x, 'y', \"z\"]\n",
    "splits: {train: {n: 400}, iid: {n: 4}}\n",
    "a: &x {b: 1}\nc: *x\n",
    "text: |\n  one\n  two\nother: >-\n  folded\n",
    "%YAML 1.1\n---\n? key\n: value\n",
    "n: 1_000\nyes: off\nwhen: 2001-01-01\nhex: 0x1f\nnothing: ~\n",
    "- !!int 3\n- !!python/object:os.system x\n",
]
yaml_texts = mutated_text(
    YAML_SEEDS, [": ", "- ", "\n", "  ", "[", "{", "&a", "*a", "<<: ", "!!", "|", ">", "#", "'"]
)


@target("yaml", yaml_texts, weight=20)
def yaml_files(text: str, folder: Path) -> Verdict:
    """Read a YAML file; what was read, written as JSON, reads the same."""
    path = folder / "file.yaml"
    path.write_bytes(as_text(text))
    value = load(path, RecipeError)
    again = folder / "again.yaml"
    try:
        again.write_text(json.dumps(value), encoding="utf-8")
    except (TypeError, ValueError):
        return "accepted"  # dates and keys of other types have no JSON
    if "NaN" in again.read_text() or "Infinity" in again.read_text():
        return "accepted"
    reread = load(again, RecipeError)
    if json.dumps(reread) != again.read_text(encoding="utf-8"):
        raise Refuted(f"{text!r} reads as {value!r}, which reads as {reread!r}")
    return "checked"


ZEST_SEEDS = [
    json.dumps(
        {
            "id": "t1",
            "type": {"generalization_type": "normal", "derives_from": [], "domain": "parks"},
            "question": "Are dogs allowed?",
            "examples": [
                {"context": "Dogs may come.", "answer": "yes", "all_answers": ["yes"]},
                {"context": "It is a park.", "answer": ["n/a", "no"], "all_answers": ["n/a", "no"]},
            ],
        }
    ),
    json.dumps(
        {
            "id": "t2",
            "type": {"generalization_type": "structure", "derives_from": ["t1"]},
            "question": "Which animals, and when?",
            "examples": [{"context": "Owls in May.", "answer": '[{"animal": "owl"}]'}],
        }
    ),
]


@target(
    "zest-files", mutated_text(ZEST_SEEDS, ['"', "{", "[", "n/a", "\n", "null", "9"]), weight=10
)
def zest_files(text: str, folder: Path) -> Verdict:
    """Read a file of ZEST tasks; what is written again reads the same."""
    path = folder / "tasks.jsonl"
    path.write_bytes(as_text(text))
    tasks = read_tasks(path)
    write_tasks(folder / "again.jsonl", tasks)
    again = read_tasks(folder / "again.jsonl")
    if [replace(task, line=0) for task in again] != [replace(task, line=0) for task in tasks]:
        raise Refuted(f"{text!r} reads as {tasks!r}, which reads as {again!r}")
    return "checked"


# ZEST domains


@cache
def _domains() -> list[Any]:
    from importlib.resources import files

    folder = files("taskloom.suites.zest") / "domains"
    return [
        yaml.safe_load((folder / f"{name}.yaml").read_text(encoding="utf-8"))
        for name in domain_names()
    ]


@cache
def _small_domains() -> list[Any]:
    """Return domains of ours with little in them, which are read in a tenth of the time."""
    return [_small(domain) for domain in _domains()[:3]]


def _small(domain: dict[str, Any]) -> dict[str, Any]:
    rules, records = domain["rules"][:1], domain["records"][:1]
    named = {rule[side] for rule in rules for side in ("when", "then")}
    attributes = [
        a for place, a in enumerate(domain["attributes"]) if place < 4 or a["name"] in named
    ]
    named |= {a["name"] for a in attributes}
    attributes += [
        a for a in domain["attributes"] if a["name"] not in named and a["name"] in _kin(attributes)
    ]
    attributes = [
        {k: v[:3] if isinstance(v, list) and k != "values" else v for k, v in a.items()}
        for a in attributes
    ]
    lists = {key: value[:2] for key, value in domain.items() if isinstance(value, list)}
    parts = {
        "attributes": attributes,
        "rules": rules,
        "records": records,
        "heads": domain["heads"][:9],
    }
    return {**domain, **lists, **parts, "name": "mine"}


def _kin(attributes: list[dict[str, Any]]) -> set[Any]:
    return {attribute.get("kin") for attribute in attributes}


@st.composite
def domain_texts(draw: st.DrawFn) -> str:
    """Draw a domain file: one of ours under another name, with parts of it exchanged, or with its
    words edited.
    """
    base = draw(st.sampled_from(_small_domains()))
    if draw(st.booleans()):
        return json.dumps(draw(mutated_json([base], most=2)))
    return json.dumps(draw(reworded_json(base)))


@target("domains", st.deferred(domain_texts), weight=2, cost=40, warm=_small_domains)
def domains(text: str, folder: Path) -> Verdict:
    """Load a domain; one that is taken must make tasks whose answers the reader finds again, or say
    why not.
    """
    path = folder / "mine.yaml"
    path.write_bytes(as_text(text))
    load_domain(path)
    sizes = {"tasks": {"train": 12, "dev": 0, "test": 0}, "passages": 1, "domains": [str(path)]}
    try:
        plan = read("zest/synthetic", sizes).plan(0)
    except RecipeError:
        return "accepted"  # too few tasks are possible with what is left of the domain
    return check_plan(plan)


# Experiments

EXPERIMENTS: list[dict[str, Any]] = [
    {"recipes": ["ctl/A"], "learners": ["majority"], "seeds": 2, "store": "runs"},
    {
        "recipes": [
            {
                "recipe": "ctl/A-independent",
                "set": {"splits.train.n": 300},
                "grid": {"max_length": [3, 4]},
            }
        ],
        "learners": ["majority", {"learner": "bilstm", "steps": 10, "grid": {"batch": [8, 16]}}],
        "seeds": [0, 1],
        "evaluate": ["iid"],
        "grid": {"recipe.fill": [0.5, 1.0]},
        "keep": {"model": True},
        "resources": {"cpus": 1},
    },
    {"recipes": "babi/1", "learners": ["majority"], "tasks": "each", "train": "train"},
    {"recipes": ["./mine.py"], "learners": ["./evil.py::x"], "track": ["wandb"]},
    {
        "recipes": ["babi/9"],
        "learners": ["solver", "majority"],
        "until": {"goal": 0.02, "budget": "2000items"},
        "best_of": {"seeds": 2, "split": "dev"},
        "limit": 5,
        "samples": 2,
    },
]
experiment_texts = st.builds(json.dumps, mutated_json(EXPERIMENTS))


@target("experiments", experiment_texts, weight=5, cost=6)
def experiments(text: str, folder: Path) -> Verdict:
    """Read an experiment and list its cells."""
    path = folder / "experiment.yaml"
    path.write_bytes(as_text(text))
    experiment = spec.read(path)
    api.dry_run(experiment, folder / "runs")
    return "accepted"
