"""For every field of every suite, another value on a small recipe, and the splits that it may move.

`*` in a field's name stands for the members of a list or a mapping; `at` says which of them is
changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from taskloom.recipe import read
from taskloom.suites.babi import export
from taskloom.suites.ctl.fields import CtlFields
from taskloom.suites.ctl.world import build

EVERY = ("*",)
"""All splits: the field says something about each of them."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One other value of a field.

    Attributes:
        base: The small recipe, a name of `BASES`.
        value: The other value; or a function from an empty folder to it, for values that need
            files.
        moves: Of a draw field: the splits that it names, which may change; one of them must, and
            all others keep every row.
        at: Where the field stands, if its name has a `*` in it.
        beside: What the recipe has besides, before and after.
        writes: Of a presentation field that deviates from the rule: what it writes otherwise, as
            `written_otherwise` calls it.
    """

    base: str
    value: Any
    moves: tuple[str, ...] = EVERY
    at: str = ""
    beside: Mapping[str, Any] = field(default_factory=dict)
    writes: str = ""


_SIZES = {"train": {"n": 60}, "iid": {"n": 20}, "ood": {"n": 20}}
_PEOPLE = {
    "persons": ["Mary", "John", "Sandra", "Fred"],
    "places": ["park", "office", "school", "kitchen", "garden"],
}
_MOVE = {"events": ["MOVE"], "questions": ["where-P"], "length": 4}
_CARRY = {"events": ["MOVE", "GRAB", "DROP"], "questions": ["where-O"], "length": "5..7"}

BASES: dict[str, dict[str, Any]] = {
    "ctl/A": {
        "suite": "ctl",
        "variant": "A",
        "symbols": 4,
        "functions": 8,
        "max_length": 4,
        "splits": _SIZES,
    },
    "ctl/S": {
        "suite": "ctl",
        "variant": "S",
        "symbols": 4,
        "functions": 16,
        "overlap": 4,
        "shared_symbols": 2,
        "include_singles": False,
        "splits": _SIZES,
    },
    "ctl/length": {
        "suite": "ctl",
        "variant": "length",
        "symbols": 4,
        "functions": 6,
        "max_length": 3,
        "reserved": 8,
        "splits": {**_SIZES, "new-compositions": {"n": 10}},
    },
    "babi/sizes": {
        "suite": "babi",
        "vocabulary": _PEOPLE,
        "groups": [_MOVE, _CARRY],
        "splits": {"train": {"n": 12}, "dev": {"n": 6}, "test": {"n": 6}},
    },
    "babi/groups": {
        "suite": "babi",
        "vocabulary": _PEOPLE,
        "splits": {"train": [{"n": 8, **_CARRY}, {"n": 4, **_MOVE}], "test": [{"n": 6, **_CARRY}]},
    },
    "babi/series": {
        "suite": "babi",
        "vocabulary": _PEOPLE,
        "splits": {
            "train": [{"n": 9, **_CARRY, "story": {"questions": 3}}],
            "test": [{"n": 6, **_CARRY}],
        },
    },
    "babi/yes": {
        "suite": "babi",
        "vocabulary": _PEOPLE,
        "groups": [{**_MOVE, "questions": ["yes-no"], "answers": {"yes": 1}}],
        "splits": {"train": {"n": 12}, "test": {"n": 6}},
    },
    "babi/concat": {
        "suite": "babi",
        "concat": "T2",
        "splits": {"train": {"n": 20}, "test": {"n": 10}},
    },
    "babi/14": {"suite": "babi", "number": 14, "splits": {"train": {"n": 10}, "test": {"n": 5}}},
    "zest": {
        "suite": "zest",
        "tasks": {"train": 20, "dev": 12, "test": 20},
        "passages": 2,
        "shares": {"combination": 0.1, "structure": 0.1},
    },
    "zest/more": {"suite": "zest", "tasks": {"train": 50, "dev": 0, "test": 0}, "passages": 2},
    "taskbench": {
        "suite": "taskbench",
        "functions": ["entailments[eng]", "map(entailments[eng], filter(is_pos_noun[eng]))"],
        "minimum": 5,
        "sequences": {"n": 40},
        "few_shot": None,
    },
    "taskbench/few": {
        "suite": "taskbench",
        "functions": ["map(entailments[eng])"],
        "sequences": {"n": 60},
        "answers": False,
    },
    "taskbench/random": {
        "suite": "taskbench",
        "functions": ["map(random0[eng])"],
        "sequences": {"n": 20},
        "few_shot": None,
        "answers": False,
    },
    "taskbench/one": {
        "suite": "taskbench",
        "functions": ["father"],
        "facts": "synthetic#people=300",
        "few_shot": None,
    },
    "taskbench/facts": {
        "suite": "taskbench",
        "functions": ["father", "union(father, mother)"],
        "facts": "synthetic#people=300",
        "minimum": 5,
        "few_shot": None,
    },
}


def symbols_of_shared_functions(folder: Path) -> dict[str, dict[str, list[int]]]:
    """Allow other symbols than the drawn ones."""
    fields = CtlFields.model_validate({k: v for k, v in BASES["ctl/S"].items() if k != "suite"})
    world = build(fields)
    return {world.names[i]: {"a1": [0, 1, 2], "b1": [2, 3]} for i in world.groups["o"]}


def published_stories(folder: Path) -> str:
    """Write files of the tasks of concat(T2) in the form of the published ones."""
    for task in (2, 11):
        for file, n in (("train", 20), ("test", 10)):
            split = read(f"babi/{task}", {"splits": {"train": {"n": n}}}).plan(1).splits[0]
            (folder / f"qa{task}_some_{file}.txt").write_text(
                "".join(export.babi_text(split.rows(0, n)))
            )
    return str(folder)


def published_tasks(folder: Path) -> dict[str, str]:
    """Write a file of two ZEST tasks."""
    kind: dict[str, Any] = {"generalization_type": "normal", "derives_from": [], "domain": None}
    row = {"question": "Is it?", "type": kind, "examples": [{"context": "It is.", "answer": "yes"}]}
    path = folder / "mine.jsonl"
    path.write_text("".join(json.dumps({"id": name, **row}) + "\n" for name in "ab"))
    return {"train": str(path)}


def in_train(value: Any, field: str, base: str = "babi/groups", **beside: Any) -> Trial:
    """Build the trial of a field of the first group of training, which moves no other split."""
    changes = {f"splits.train.0.{name}": other for name, other in beside.items()}
    return Trial(base, value, ("train",), f"splits.train.0.{field}", changes)


CTL: dict[str, Trial] = {
    "parts": Trial("ctl/A", "question"),
    "variant": Trial("ctl/A", "R"),
    "symbols": Trial("ctl/A", 5),
    "functions": Trial("ctl/A", 9),
    "groups": Trial("ctl/A", 4),
    "min_length": Trial("ctl/A", 3),
    "max_length": Trial("ctl/A", 5),
    "include_singles": Trial("ctl/A", False, ("train",)),
    "include_pairs": Trial("ctl/A", "added", ("train",)),
    "fill": Trial("ctl/A", 0.4, ("train", "iid")),
    "draw": Trial("ctl/A", "chains", ("train", "iid")),
    "processes": Trial("ctl/A", 3, ("train", "iid"), beside={"draw": "published"}),
    "symbols_per_chain": Trial("ctl/A", 2, ("train", "iid"), beside={"draw": "chains"}),
    "overlap": Trial("ctl/S", 6),
    "shared_symbols": Trial("ctl/S", 3),
    "imbalance": Trial("ctl/S", 1),
    "allowed": Trial("ctl/S", symbols_of_shared_functions),
    "new_functions": Trial("ctl/length", 2),
    "deeper": Trial("ctl/length", 4, ("ood",)),
    "reserved": Trial("ctl/length", 9),
    "order": Trial("ctl/A", "left-to-right"),
    "table_seed": Trial("ctl/A", 1),
    "group_distance": Trial("ctl/A", "largest", moves=("*",)),
    "tables": Trial("ctl/A", {name: [1, 2, 3, 0] for name in "abcdefgh"}),
    "splits": Trial("ctl/A", {**_SIZES, "all": {"n": 20}}, ("all",)),
    "splits.*.n": Trial("ctl/A", 40, ("train",), "splits.train.n"),
}

BABI: dict[str, Trial] = {
    "parts": Trial("babi/groups", "context"),
    "number": Trial("babi/14", 15),
    "knobs": Trial("babi/14", {"questions": 2}),
    "reading": Trial("babi/groups", "strict"),
    "phrasing": Trial("babi/yes", "where-P", writes="traits"),
    "vocabulary": Trial("babi/groups", {"objects": ["milk", "coin", "lamp"]}),
    "vocabulary.persons": Trial("babi/groups", ["Ann", "Bob", "Cleo"]),
    "vocabulary.objects": Trial("babi/groups", ["coin", "lamp", "hat"]),
    "vocabulary.places": Trial("babi/groups", ["attic", "cellar", "barn", "garden"]),
    "vocabulary.pronouns": Trial(
        "babi/groups",
        {"Mary": "he"},
        beside={"splits.train.0.wording": ["COREF"], "splits.train.1.wording": ["COREF"]},
    ),
    "style": Trial("babi/groups", {"move": ["walked to"]}),
    "style.move": Trial("babi/groups", ["walked to"]),
    "style.grab": Trial("babi/groups", ["seized"]),
    "style.drop": Trial("babi/groups", ["let go of"]),
    "style.give": Trial(
        "babi/groups", ["sent"], beside={"splits.train.0.events": ["MOVE", "GRAB", "DROP", "GIVE"]}
    ),
}
for _verb in ("grab", "drop", "give"):
    BABI[f"style.not_{_verb}"] = Trial(
        "babi/groups",
        ["touch"],
        beside={
            "splits.train.0.events": ["MOVE", "GRAB", "DROP", "GIVE"],
            "splits.train.0.wording": {"NEGATE": 5},
            "splits.train.0.negate": [_verb.upper()],
        },
    )
BABI |= {
    "style.there_grab": Trial("babi/groups", 1.0),
    "style.there_drop": Trial("babi/groups", 1.0),
    "style.negations": Trial(
        "babi/groups", ["is certainly not"], beside={"splits.train.0.wording": {"NEGATE": 5}}
    ),
    "style.prefixes": Trial(
        "babi/groups", ["Later"], beside={"splits.train.0.wording": {"COREF": 5}}
    ),
    "style.preposition": Trial(
        "babi/groups", "at", beside={"splits.train.0.wording": {"AFFIRM": 5}}
    ),
    "style.double_object": Trial(
        "babi/groups", True, beside={"splits.train.0.events": {"MOVE": 1, "GRAB": 1, "GIVE": 3}}
    ),
    "groups": Trial("babi/sizes", [_MOVE]),
    "groups.*.name": in_train("named", "name"),
    "groups.*.n": in_train(5, "n"),
    "groups.*.events": in_train(["MOVE", "GRAB"], "events"),
    "groups.*.wording": in_train(["COREF"], "wording"),
    "groups.*.coref": in_train(["GRAB"], "coref", wording={"COREF": 5}),
    "groups.*.conj": in_train(["GRAB"], "conj", wording={"CONJ": 5}),
    "groups.*.negate": in_train(["GRAB"], "negate", wording={"NEGATE": 5}),
    "groups.*.indef": in_train(["GRAB"], "indef", wording={"INDEF": 5}),
    "groups.*.questions": in_train(["where-P"], "questions"),
    "groups.*.length": in_train(8, "length"),
    "groups.*.support": in_train(2, "support"),
    "groups.*.falloff": in_train(0.1, "falloff", support="2..4"),
    "groups.*.composition": in_train(["DROP"], "composition"),
    "groups.*.proofs": in_train("simulated", "proofs", support=2),
    "groups.*.frequencies": in_train({"DROP": 1.0}, "frequencies", support="2..3"),
    "groups.*.cited": in_train(True, "cited", questions=["list"]),
    "groups.*.alternatives": in_train("2..3", "alternatives", support="2..3"),
    "groups.*.answers": in_train({"yes": 1}, "answers", questions=["yes-no"]),
    "groups.*.distractors": in_train(0.0, "distractors"),
    "groups.*.position": in_train("early", "position"),
    "groups.*.per_signature": in_train(2, "per_signature", n=4),
    "groups.*.story": in_train({"questions": 2}, "story"),
    "groups.*.story.questions": in_train(2, "story.questions", "babi/series"),
    "groups.*.story.gap": in_train(3, "story.gap", "babi/series"),
    "groups.*.story.ask": in_train(0.3, "story.ask", "babi/series"),
    "groups.*.story.again": in_train(0.1, "story.again", "babi/series"),
    "groups.*.story.hands": in_train(1, "story.hands", "babi/series"),
    "groups.*.story.things": in_train(1, "story.things", "babi/series"),
    "groups.*.unknown": in_train(1.0, "unknown", questions=["where-P"]),
    "groups.*.exhaustive": in_train(True, "exhaustive"),
    "splits": Trial(
        "babi/sizes",
        {"train": {"n": 12}, "dev": {"n": 6}, "test": {"n": 6}, "train-more": {"n": 5}},
        ("train-more",),
    ),
    "splits.*.n": Trial("babi/sizes", 8, ("train",), "splits.train.n"),
    "holdout": Trial("babi/groups", [["COREF", "GRAB"]], ()),
    "tested_by": Trial("babi/concat", "babi/mix-T2", ()),
    "concat": Trial("babi/concat", "T7"),
    "inject": Trial("babi/concat", {2: ["where-P"]}),
    "window": Trial("babi/concat", 40),
    "shares": Trial("babi/concat", {2: 2}),
    "source": Trial("babi/concat", published_stories),
}

ZEST: dict[str, Trial] = {
    "files": Trial("zest", published_tasks),
    "tasks": Trial("zest", {"train": 30, "dev": 12, "test": 20}, ("train",)),
    "tasks.train": Trial("zest", 24, ("train",)),
    "tasks.dev": Trial("zest", 14, ("dev",)),
    "tasks.test": Trial("zest", 24, ("test",)),
    "train_prefix": Trial("zest", 12, ("train",)),
    "shares": Trial("zest", {"combination": 0.2, "structure": 0.1}),
    "shares.normal": Trial("zest", 0.5),
    "shares.paraphrase": Trial("zest", 0.1),
    "shares.combination": Trial("zest", 0.3),
    "shares.target_semantics": Trial("zest", 0.25),
    "shares.structure": Trial("zest", 0.2),
    "domains": Trial("zest", ["dogs", "parks"]),
    "passages": Trial("zest", 3),
    "na_rate": Trial("zest", 0.0),
    "classification": Trial("zest", 0.9),
    "unseen": Trial("zest", "program"),
    "facts": Trial("zest", "6..7"),
    "distractors": Trial("zest", "0..1"),
    "paraphrase": Trial("zest", "near"),
    "flips": Trial("zest/more", ["value"]),
    "composition_depth": Trial("zest/more", "2..3"),
    "structure_width": Trial("zest/more", "3"),
    "layout": Trial("zest", "reference-bart"),
    "parts": Trial("zest", "question"),
}

_SYNTHETIC = {"lexicon": "synthetic", "sequences.n": 20}
_SMALL_WORLD = {"facts": "synthetic#people=300"}
_ATOMS = {"atoms": ["entailments[eng]", "father"], "compositions": ["atomic"]}
_INTERSECTION = {"compositions": ["intersection"], "families": ["lexical"]}

TASKBENCH: dict[str, Trial] = {
    "functions": Trial("taskbench", ["entailments[eng]"]),
    "catalog": Trial(
        "taskbench/facts",
        {"families": ["random"], "compositions": ["intersection"]},
        (),
        beside={"pairs": "published"},
    ),
    "catalog.families": Trial(
        "taskbench/facts", ["random"], beside={"catalog": _INTERSECTION, **_SYNTHETIC}
    ),
    "catalog.compositions": Trial(
        "taskbench/facts", ["filter"], beside={"catalog": _INTERSECTION, **_SYNTHETIC}
    ),
    "compose": Trial("taskbench", _ATOMS, beside=_SMALL_WORLD),
    "compose.families": Trial("taskbench/facts", ["lexical"], (), beside={"compose": _ATOMS}),
    "compose.compositions": Trial("taskbench", ["map"], beside={"compose": _ATOMS, **_SMALL_WORLD}),
    "compose.atoms": Trial("taskbench", ["mother"], beside={"compose": _ATOMS, **_SMALL_WORLD}),
    "lexicon": Trial("taskbench", "synthetic"),
    "rules": Trial("taskbench", {"senses": "first"}),
    "rules.senses": Trial("taskbench", "first"),
    "rules.inflections": Trial("taskbench", False),
    "rules.outputs": Trial("taskbench", "vocabulary"),
    "pairing": Trial("taskbench/random", "permutation"),
    "facts": Trial("taskbench/facts", "synthetic#people=200"),
    "case": Trial("taskbench/facts", "lower"),
    "union_domain": Trial("taskbench/facts", "common"),
    "minimum": Trial("taskbench", 2_000),
    "shares": Trial("taskbench", {"train": 0.4, "dev": 0.1, "test": 0.1}, ("train",)),
    "pairs": Trial(
        "taskbench/facts", "published", ("train",), beside={"functions": ["child", "father"]}
    ),
    "sequences": Trial("taskbench", {"n": 30}),
    "sequences.n": Trial("taskbench", {"train": 20, "dev": 4, "test": 4}, ("train",)),
    "sequences.length": Trial("taskbench", 6),
    "sequences.kept": Trial("taskbench", 3),
    "sequences.separators": Trial("taskbench", True, writes="inputs and answers"),
    "sequences.word_disjoint": Trial(
        "taskbench", False, beside={"pairs": "published", "sequences.word_disjoint": True}
    ),
    "sequences.words": Trial("taskbench", 1_000),
    "few_shot": Trial("taskbench/few", {"k": 32, "draws": 2}, ("32-shot-2", "32-shot-3")),
    "few_shot.k": Trial(
        "taskbench/few", 8, tuple(f"{k}-shot-{draw}" for k in (8, 32) for draw in range(4))
    ),
    "few_shot.draws": Trial("taskbench/few", 2, ("32-shot-2", "32-shot-3")),
    "memorise": Trial("taskbench", 10, ("memorise",)),
    "labels": Trial("taskbench/facts", "permuted", writes="traits"),
    "balanced": Trial("taskbench/facts", True, beside={"functions": ["union(father, mother)"]}),
    "answers": Trial("taskbench/few", True, ("answers",)),
}

TRIALS: dict[str, dict[str, Trial]] = {
    "ctl": CTL,
    "babi": BABI,
    "zest": ZEST,
    "taskbench": TASKBENCH,
}
