"""The experiments behind the studies of TaskBench500: its tasks with SmolLM2, and a dozen small
ones that two cores manage.
"""

from __future__ import annotations

from typing import Any

Experiments = list[dict[str, Any]]

MODEL = "smollm2"

ATOMS = (
    "synonyms[eng]",
    "antonyms[eng]",
    "hyponyms[eng]",
    "entailments[eng]",
    "is_pos_noun[eng]",
    "is_pos_verb[eng]",
)
COMPOSED = (
    "chain(antonyms[eng], hyponyms[eng])",
    "chain(hyponyms[eng], antonyms[eng])",
    "chain(entailments[eng], hyponyms[eng])",
    "union(antonyms[eng], synonyms[eng])",
    "union(hyponyms[eng], synonyms[eng])",
    "union(antonyms[eng], hyponyms[eng])",
)
MAPPED = ("map(synonyms[eng])", "map(antonyms[eng])", "map(hyponyms[eng])")
"""English tasks of the lexicon in this package: three compositions of each kind, the fewest that a
line can be wrong about.
"""

FAMILIES = (
    "synonyms[eng]",
    "antonyms[eng]",
    "random0[eng]",
    "random1[eng]",
    "father",
    "place_of_birth",
)
"""Two atomic tasks of each family, for memorisation."""

UNIONS = (
    "union(antonyms[eng], synonyms[eng])",
    "union(hyponyms[eng], synonyms[eng])",
    "union(antonyms[eng], hyponyms[eng])",
)

QUICK_LOOP = {
    "batch": 4,
    "evaluate_every": 0,
    "longest_answer": 10,
    "targets": "fixed",
    "threads": 1,
}
QUICK_STEPS, QUICK_LIMIT = 3, 2
"""Steps of a dozen tasks with four rows each, seconds each on one core; and tests of a task, since
answering costs most.
"""

QUICK_MEMORISATION = {"steps": 12, "evaluate_every": 3, "rate": 5e-3}
"""So many steps at such a rate that LoRA knows four examples by heart, and a curve rises before
that.
"""

OTHER_TOKENS = 3
"""How many times as many tokens an answer may have for another model, whose tokeniser may cut words
into more pieces.
"""

PROMPT, FINE = "prompt-tune", "lora"

CONSTANT = {"learner": "majority"}
"""The control of Tables 1 and 3. On sequences it gives one whole training sequence, a weaker
constant than one repeated item, which `benchmarks/taskbench500/constants.py` scores.
"""

FEW = 32
"""Examples of the few-shot procedures."""

FEW_SEEDS = 4
"""Draws of the examples, over which the paper averages."""


def learners(model: str, **settings: Any) -> list[dict[str, Any]]:
    """Fine-tuning and prompt tuning of a model. Fine-tuning uses LoRA, so that many tasks share its
    passes.
    """
    base = {"model": model or MODEL, **settings}
    return [{"learner": FINE, **base}, {"learner": PROMPT, **base}]


def quick_learners(model: str, **settings: Any) -> list[dict[str, Any]]:
    """Both learners with so few steps and such short prompts that two cores suffice."""
    loop: dict[str, Any] = {**QUICK_LOOP, "steps": QUICK_STEPS, **settings}
    if model not in ("", MODEL):
        loop["longest_answer"] *= OTHER_TOKENS
    fine, prompt = learners(model, **loop)
    return [{**fine, "rank": 2}, {**prompt, "n": 5}]


def quick_words(functions: tuple[str, ...], **fields: Any) -> dict[str, Any]:
    """A recipe of functions over the packaged lexicon and invented facts."""
    small = {
        "lexicon": "packaged",
        "pairs": "published",
        "few_shot": None,
        "answers": False,
        "catalog": None,
    }
    return {
        "recipe": "taskbench/500",
        "set": {**small, "facts": "synthetic", "functions": list(functions), **fields},
    }


def composition_experiments(scale: str, model: str) -> Experiments:
    """Experiments of Tables 1 and 3 and Figures 3 and 5: atomic and composed tasks, on all data and
    on 32 examples.
    """
    if scale == "quick":
        sequences = {"n": 200, "length": 2, "kept": 1}
        apart = [
            quick_words(MAPPED, sequences={**sequences, "separators": value})
            for value in (False, True)
        ]
        common: dict[str, Any] = {"tasks": "each", "evaluate": ["test"], "limit": QUICK_LIMIT}
        blocks: Experiments = []
        blocks.append(
            {
                **common,
                "recipes": [quick_words((*ATOMS, *COMPOSED)), *apart],
                "learners": [CONSTANT],
            }
        )
        for shots in (0, FEW):
            blocks += [
                {
                    **common,
                    "recipes": [quick_words((*ATOMS, *COMPOSED))],
                    "learners": quick_learners(model, shots=shots),
                },
                {
                    **common,
                    "recipes": apart,
                    "learners": quick_learners(model, shots=shots, longest_answer=20),
                },
            ]
        return blocks
    separated = {
        "recipe": "taskbench/500",
        "set": {
            "catalog": {"compositions": ["map", "filter", "map_filter"]},
            "sequences": {"separators": True},
        },
    }
    common = {
        "recipes": ["taskbench/500", separated],
        "tasks": "each",
        "evaluate": ["test"],
        "limit": 100,
    }
    return [
        {**common, "learners": [CONSTANT]},
        {**common, "learners": learners(model, epochs=100)},
        {**common, "learners": learners(model, epochs=100, shots=FEW), "seeds": FEW_SEEDS},
    ]


def memorisation_experiments(scale: str, model: str) -> Experiments:
    """Experiments of Figure 2: a few training examples of every atomic task, memorised."""
    if scale == "quick":
        recipe = quick_words(FAMILIES, memorise=4)
        chosen = quick_learners(model, **QUICK_MEMORISATION)
        return [
            {
                "recipes": [recipe],
                "learners": chosen,
                "tasks": "each",
                "train": "memorise",
                "evaluate": ["memorise"],
            }
        ]
    chosen = learners(model, steps=20_000, evaluate_every=1_000)
    recipe = {"recipe": "taskbench/memorise", "set": {"facts": "wikidata"}}
    evaluate = {"train": "memorise", "evaluate": ["memorise", "test"], "limit": 100}
    return [{"recipes": [recipe], "learners": chosen, "tasks": "each", **evaluate}]


def permutation_experiments(scale: str, model: str) -> Experiments:
    """Experiments of Figure 6: own and permuted labels for the pre-trained model, permuted ones for
    its random twin.
    """
    if scale == "quick":
        own, permuted = (
            quick_words(FAMILIES, memorise=4, labels=labels) for labels in ("true", "permuted")
        )
        loop: dict[str, Any] = QUICK_MEMORISATION
        trained, random = (
            quick_learners(model, **loop)[:1],
            quick_learners(model, **loop, pretrained=False)[:1],
        )
    else:
        own, permuted = (
            {"recipe": name, "set": {"facts": "wikidata"}}
            for name in ("taskbench/memorise", "taskbench/permuted")
        )
        loop = {"steps": 20_000, "evaluate_every": 1_000}
        trained, random = learners(model, **loop), learners(model, **loop, pretrained=False)
    common = {"tasks": "each", "train": "memorise", "evaluate": ["memorise"]}
    return [
        {**common, "recipes": [own, permuted], "learners": trained},
        {**common, "recipes": [permuted], "learners": random},
    ]


def balance_experiments(scale: str, model: str) -> Experiments:
    """Experiments of Figure 4: balanced unions, and the atomic tasks that distinguish the easier
    side from the harder.
    """
    keep = {"logprobs": "targets"}
    if scale == "quick":
        atoms = quick_words(ATOMS[:3])
        unions = quick_words(UNIONS, balanced=True)
        common: dict[str, Any] = {"tasks": "each", "evaluate": ["test"], "limit": 2 * QUICK_LIMIT}
        chosen = quick_learners(model)
        return [
            {**common, "recipes": [atoms], "learners": chosen},
            {**common, "recipes": [unions], "learners": chosen, "keep": keep, "limit": 8},
        ]
    common = {"tasks": "each", "evaluate": ["test"], "limit": 100}
    atomic = {"recipe": "taskbench/500", "set": {"catalog": {"compositions": ["atomic"]}}}
    unions = {"recipe": "taskbench/balanced", "set": {"facts": "wikidata"}}
    blocks: Experiments = []
    for shots in ({}, {"shots": FEW}):
        chosen = learners(model, epochs=100, **shots)
        blocks += [
            {**common, "recipes": [atomic], "learners": chosen},
            {**common, "recipes": [unions], "learners": chosen, "keep": keep},
        ]
    return blocks
