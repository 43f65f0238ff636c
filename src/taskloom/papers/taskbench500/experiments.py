"""Experiments behind the studies of TaskBench500: its tasks with T5-base under the paper's
conditions, with SmolLM2 as on the results page, and a dozen small tasks for two cores.
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
"""English tasks of the packaged lexicon. Each composition type has three tasks, the minimum for
which a line does not fit perfectly by construction.
"""

FAMILIES = (
    "synonyms[eng]",
    "antonyms[eng]",
    "random0[eng]",
    "random1[eng]",
    "father",
    "place_of_birth",
)
"""Two atomic tasks of each family, for the memorisation experiments."""

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
"""Number of steps for a dozen tasks with four rows each, which take seconds on one core, and
maximum number of test inputs per task, because generating answers takes most of the time.
"""

QUICK_MEMORISATION = {"steps": 12, "evaluate_every": 3, "rate": 5e-3}
"""Steps and learning rate with which LoRA memorises four examples and the curve still shows a
rise.
"""

OTHER_TOKENS = 3
"""Factor on the maximum number of answer tokens for other models, whose tokenisers may split words
into more tokens.
"""

PROMPT, FINE = "prompt-tune", "lora"

CONSTANT = {"learner": "majority"}
"""The control of Tables 1 and 3. For sequences it answers with one whole training sequence. This is
a weaker constant than one repeated item, which `benchmarks/taskbench500/constants.py` scores.
"""

FEW = 32
"""Number of examples in the few-shot procedures."""

FEW_SEEDS = 4
"""Number of draws of the examples over which the paper averages."""


def learners(model: str, **settings: Any) -> list[dict[str, Any]]:
    """LoRA and prompt tuning of a model. Many tasks share each pass."""
    base = {"model": model or MODEL, **settings}
    return [{"learner": FINE, **base}, {"learner": PROMPT, **base}]


def quick_learners(model: str, **settings: Any) -> list[dict[str, Any]]:
    """Both learners, with steps and prompts small enough for two cores."""
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
        short = {"n": 200, "length": 2, "kept": 1}
        apart = [
            quick_words(MAPPED, sequences={**short, "separators": value}) for value in (False, True)
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
    if scale == "gpu":
        common = {"tasks": "each", "evaluate": ["test"], "limit": GPU_TESTS}
        return [
            {**common, "recipes": [words(), *GPU_SEQUENCES], "learners": [CONSTANT]},
            *(
                {**common, "recipes": recipes, "learners": gpu_learners(model, kind, shots)}
                for shots in (0, FEW)
                for kind, recipes in (("words", [words()]), ("sequences", GPU_SEQUENCES))
            ),
        ]
    common = {"tasks": "each", "evaluate": ["test"]}
    kinds = {"taskbench500": [words()], "taskbench500-sequences": sequences()}
    blocks = [{**common, "recipes": [words(), *sequences()], "learners": [CONSTANT]}]
    for preset, recipes in kinds.items():
        chosen = paper_learners(model, preset)
        few = [{**one, "shots": FEW, "patience": FEW_PATIENCE} for one in chosen]
        blocks += [
            {**common, "recipes": recipes, "learners": chosen},
            {**common, "recipes": recipes, "learners": few, "seeds": FEW_SEEDS},
        ]
    return blocks


WORD_KINDS = ["atomic", "chain", "union", "intersection", "land", "lor"]
SEQUENCE_KINDS = ["map", "filter", "map_filter"]


def words() -> dict[str, Any]:
    """Recipe of the tasks of single words."""
    return {"recipe": "taskbench/500", "set": {"catalog": {"compositions": WORD_KINDS}}}


def sequences(**size: int) -> list[dict[str, Any]]:
    """Recipes of the tasks of sequences, without and with separators."""
    chosen = {"catalog": {"compositions": SEQUENCE_KINDS}}
    return [
        {"recipe": "taskbench/500", "set": {**chosen, "sequences": {**size, "separators": apart}}}
        for apart in (False, True)
    ]


def paper_learners(model: str, preset: str = "taskbench500", **settings: Any) -> Experiments:
    """Full fine-tuning and prompt tuning under the paper's conditions. Default model: T5-base."""
    base = {"preset": preset, **({"model": model} if model else {}), **settings}
    return [{"learner": "fine-tune", **base}, {"learner": PROMPT, **base}]


FEW_PATIENCE = 100
"""Epochs without a better dev score before few-shot training stops, as in the public code."""

GPU_TESTS = 40
"""Number of test inputs per task that were answered on the GPU."""

GPU_SEQUENCES = sequences(length=4, kept=2)

_GPU = {
    "batch": 4,
    "decay": "linear",
    "targets": "first",
    "precision": "bf16",
    "compile": False,
    "evaluate_every": 0,
}
GPU_FINE: dict[str, Any] = {**_GPU, "rank": 4, "alpha": 8, "rate": 0.002, "warmup": 10}
GPU_PROMPT: dict[str, Any] = {**_GPU, "n": 20, "rate": 0.02}
"""LoRA and prompts as trained by benchmarks/taskbench500/jobs.yaml, with 177 tasks per batch."""

GPU_STEPS = {
    ("words", 0): (160, 200),
    ("words", FEW): (100, 120),
    ("sequences", 0): (100, 100),
    ("sequences", FEW): (80, 80),
    ("balanced", 0): (100, 100),
    ("memorise", 0): (160, 160),
}
"""Steps of LoRA and of prompt tuning, by type of task and number of examples (0: all)."""


def gpu_learners(model: str, kind: str, shots: int = 0, **settings: Any) -> Experiments:
    """Both learners with the settings of the results page."""
    fine, prompt = GPU_STEPS[kind, shots]
    longest = 24 if kind == "sequences" else 10
    base = {"model": model or MODEL, "shots": shots, "longest_answer": longest}
    return [
        {"learner": FINE, **base, **GPU_FINE, "steps": fine, **settings},
        {"learner": PROMPT, **base, **GPU_PROMPT, "steps": prompt, **settings},
    ]


UPDATES = {"fine-tune": 20_000, PROMPT: 200_000}
"""Number of updates for memorisation. In the paper, fine-tuning converges at about 20k, and prompt
tuning needs over 200k before it starts to memorise (section 5).
"""

CURVE_POINTS = 20
"""Number of points in a memorisation curve."""


def memorisation_learners(scale: str, model: str, **settings: Any) -> Experiments:
    """Learners of Figures 2 and 6 at the scale `gpu` or `paper`."""
    if scale == "gpu":
        return gpu_learners(model, "memorise", decay="constant", evaluate_every=16, **settings)
    # Memorisation is measured in updates. There is no dev split for early stopping.
    loop = {"epochs": 0, "evaluate_epochs": 0, "patience": 0}
    return [
        {
            **one,
            **loop,
            "steps": UPDATES[one["learner"]],
            "evaluate_every": UPDATES[one["learner"]] // CURVE_POINTS,
        }
        for one in paper_learners(model, **settings)
    ]


GPU_MEMORISED = 64
"""Examples per task to memorise on the GPU. The paper uses 1,000, the recipe's default."""


def memorised(scale: str, name: str) -> dict[str, Any]:
    """Recipe for examples to memorise, at the scale `gpu` or `paper`."""
    fewer = {"memorise": GPU_MEMORISED} if scale == "gpu" else {}
    return {"recipe": name, "set": {"facts": "wikidata", **fewer}}


def memorisation_experiments(scale: str, model: str) -> Experiments:
    """Experiments of Figure 2, which memorise a few training examples of every atomic task."""
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
    chosen = memorisation_learners(scale, model)
    recipe = memorised(scale, "taskbench/memorise")
    # The figure's dashed lines show accuracy on the test split, which was not measured on the GPU.
    evaluate = ["memorise"] if scale == "gpu" else ["memorise", "test"]
    how = {"tasks": "each", "train": "memorise", "evaluate": evaluate}
    return [{"recipes": [recipe], "learners": chosen, **how}]


def permutation_experiments(scale: str, model: str) -> Experiments:
    """Experiments of Figure 6: original and permuted labels for the pre-trained model, and permuted
    labels for its randomly initialised twin.
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
            memorised(scale, name) for name in ("taskbench/memorise", "taskbench/permuted")
        )
        trained, random = (
            memorisation_learners(scale, model),
            memorisation_learners(scale, model, pretrained=False),
        )
    common = {"tasks": "each", "train": "memorise", "evaluate": ["memorise"]}
    return [
        {**common, "recipes": [own, permuted], "learners": trained},
        {**common, "recipes": [permuted], "learners": random},
    ]


def balance_experiments(scale: str, model: str) -> Experiments:
    """Experiments of Figure 4: balanced unions, and the atomic tasks that tell which side is
    easier.
    """
    keep = {"logprobs": "targets"}
    if scale == "quick":
        atoms = quick_words(ATOMS[:3])
        few_unions = quick_words(UNIONS, balanced=True)
        common: dict[str, Any] = {"tasks": "each", "evaluate": ["test"], "limit": 2 * QUICK_LIMIT}
        chosen = quick_learners(model)
        return [
            {**common, "recipes": [atoms], "learners": chosen},
            {**common, "recipes": [few_unions], "learners": chosen, "keep": keep, "limit": 8},
        ]
    atomic = {"recipe": "taskbench/500", "set": {"catalog": {"compositions": ["atomic"]}}}
    unions: dict[str, Any] = {"recipe": "taskbench/balanced", "set": {"facts": "wikidata"}}
    common = {"tasks": "each", "evaluate": ["test"]}
    if scale == "gpu":
        common["limit"] = GPU_TESTS
        return [
            {**common, "recipes": [atomic], "learners": gpu_learners(model, "words")},
            {
                **common,
                "recipes": [unions],
                "learners": gpu_learners(model, "balanced"),
                "keep": keep,
            },
        ]
    # Section 7 uses all pairs of atoms, not the 57 unions of the 500 tasks.
    unions["set"] |= {"catalog": None, "compose": {"compositions": ["union"]}}
    blocks: Experiments = []
    few_shots: dict[str, Any] = {"shots": FEW, "patience": FEW_PATIENCE}
    for few in ({}, few_shots):
        chosen = paper_learners(model, **few)
        seeds = {"seeds": FEW_SEEDS} if few else {}
        blocks += [
            {**common, "recipes": [atomic], "learners": chosen, **seeds},
            {**common, "recipes": [unions], "learners": chosen, "keep": keep, **seeds},
        ]
    return blocks
