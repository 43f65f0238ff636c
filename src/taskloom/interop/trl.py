"""Recipes for TRL: prompts with the data for scoring, the recipe's score as a reward, and a
curriculum that streams prompts.

    from taskloom.interop.trl import recipe_rewards

    prompts, reward = recipe_rewards("my-recipe.yaml", n=5000)
    trainer = GRPOTrainer(model, reward_funcs=reward, train_dataset=prompts, args=GRPOConfig(…))

A curriculum draws examples of a training split that get harder as they are solved. Levels are
bounds of a trait (`length`, `support`, `sentences`), from easy to hard. A level draws examples
whose trait does not exceed its bound. When the mean score of the last `window` answers reaches
`threshold`, the next level begins. All examples are rows of one training split, so the recipe's
held-out examples stay unseen at every level. With `frontier`, that share of examples is above the
previous level's bound, and only their scores count.

The order of examples depends only on the seed and on the positions at which levels began. This is
the whole state, so a resumed run draws the same examples.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict, Unpack

from taskloom.core.errors import DataError, InputError, ParameterError, echo, nearest
from taskloom.core.example import Example, Trait
from taskloom.core.extraction import DESCRIBED, shown_answer
from taskloom.core.files import atomic
from taskloom.core.seeding import Key, Permutation
from taskloom.core.twins import TwinKind, choose_twin
from taskloom.interop import need
from taskloom.interop.graded import GradedSplit, from_record, open_split, to_record
from taskloom.recipe.overrides import Changes

RECORD = "taskloom"
"""Column with the data for the reward. TRL passes it on with every completion."""

MOST_TRIED = 50
"""Maximum number of other examples whose answers are tried as a wrong answer."""


class Settings(TypedDict, total=False):
    """Settings shared by all prompts.

    Attributes:
        seed: Seed of the samples. Default: the recipe's own.
        changes: Changes to the recipe's fields.
        set: Another name for `changes`.
        described: True if prompts begin with the description of their task (default).
        extract: How answers are extracted from completions; `final` by default.
        chat: True if a prompt is a conversation, for models with a chat template (default); False
            for a plain text.
        answer_format: Sentence after each input that asks for an answer format; empty: none.
    """

    seed: int | None
    changes: Changes
    set: Changes
    described: bool
    extract: str
    chat: bool
    answer_format: str


class RecipeReward:
    """Reward function for `GRPOTrainer(reward_funcs=…)`: the recipe's score of a completion.

    Attributes:
        graded: The examples with their scorer.
        curriculum: Curriculum that records every score; None for no curriculum.
    """

    __name__ = "recipe_score"

    def __init__(self, graded: GradedSplit, curriculum: Curriculum | None = None) -> None:
        self.graded, self.curriculum = graded, curriculum

    def __call__(self, *, completions: Sequence[Any], **columns: Any) -> list[float]:
        """Return one score per completion. A completion is a text, or messages of which the last
        one counts.
        """
        examples = [from_record(json.loads(record)) for record in columns[RECORD]]
        pairs = zip(completions, examples, strict=True)
        scores = [self.graded.grade(text_of(c), example).score for c, example in pairs]
        if self.curriculum is not None:
            counting = map(self.curriculum.counts, examples)
            self.curriculum.record(
                [s for s, counts in zip(scores, counting, strict=True) if counts]
            )
            if (log := columns.get("log_metric")) is not None:
                log("curriculum_bound", self.curriculum.bound)
        return scores


def text_of(completion: Any) -> Any:
    """Text of a completion, which is a text or a list of messages. Anything else is returned
    unchanged and scores 0.
    """
    if isinstance(completion, list) and completion and isinstance(completion[-1], Mapping):
        return completion[-1].get("content")
    return completion


def row_of(graded_prompt: str, record: Mapping[str, Any], chat: bool) -> dict[str, Any]:
    """Build the row of a prompt for TRL."""
    prompt: Any = [{"role": "user", "content": graded_prompt}] if chat else graded_prompt
    return {"prompt": prompt, RECORD: json.dumps(record, ensure_ascii=False)}


def recipe_rewards(
    recipe: str | PathLike[str],
    split: str | None = None,
    n: int | None = None,
    **settings: Unpack[Settings],
) -> tuple[Any, RecipeReward]:
    """Return the training prompts of a recipe as a `Dataset`, and the reward function for their
    completions.

    Args:
        recipe: A recipe's name or file, or the folder of a dataset.
        split: Name of the split. Default: the first training split.
        n: Number of prompts. Default: all.
        **settings: See `Settings`.
    """
    datasets = need("datasets", "datasets", "Dataset")
    graded, chat = _open(recipe, split, n, settings)
    rows = [row_of(graded.prompt(example), to_record(example), chat) for example in graded]
    return datasets.Dataset.from_list(rows), RecipeReward(graded)


def sft_dataset(
    recipe: str | PathLike[str],
    split: str | None = None,
    n: int | None = None,
    **settings: Unpack[Settings],
) -> Any:
    """The training examples of a recipe for `SFTTrainer`: `prompt` and `completion`.

    Args:
        recipe: A recipe's name or file, or the folder of a dataset.
        split: Name of the split. Default: the first training split.
        n: Number of examples. Default: all.
        **settings: See `Settings`.
    """
    datasets = need("datasets", "datasets", "Dataset")
    graded, chat = _open(recipe, split, n, settings)
    rows = []
    for example in graded:
        prompt = row_of(graded.prompt(example), {}, chat)["prompt"]
        rows.append({"prompt": prompt, "completion": _reply(graded, example.target, chat)})
    return datasets.Dataset.from_list(rows)


def preference_dataset(
    recipe: str | PathLike[str],
    split: str | None = None,
    n: int | None = None,
    **settings: Unpack[Settings],
) -> Any:
    """The training examples of a recipe for `DPOTrainer`: `prompt`, `chosen` and `rejected`.

    The rejected answer is that of the example's twin, whose story differs by one edit, or otherwise
    that of another example. Examples without such an answer are left out.

    Args:
        recipe: A recipe's name or file, or the folder of a dataset.
        split: Name of the split. Default: the first training split.
        n: Number of examples to read. Default: all.
        **settings: See `Settings`.
    """
    datasets = need("datasets", "datasets", "Dataset")
    graded, chat = _open(recipe, split, n, settings)
    rows = []
    for index, example in enumerate(graded):
        wrong = _wrong_answer(graded, index, example)
        if wrong is None:
            continue
        row = {
            "prompt": row_of(graded.prompt(example), {}, chat)["prompt"],
            "chosen": _reply(graded, example.target, chat),
            "rejected": _reply(graded, wrong, chat),
        }
        rows.append(row)
    return datasets.Dataset.from_list(rows)


def _reply(graded: GradedSplit, answer: str, chat: bool) -> Any:
    """A completion with an answer, in TRL's format."""
    text = shown_answer(answer, graded.answer_format)
    # A bare text follows its prompt directly.
    return [{"role": "assistant", "content": text}] if chat else f"\n{text}"


def _wrong_answer(graded: GradedSplit, index: int, example: Example) -> str | None:
    """A plausible answer with a score of 0; None if none of the tried answers is wrong."""
    answers = []
    if graded.plan.variants is not None:
        twin = choose_twin(graded.plan, example, "flip")
        if twin is not None:
            answers.append(twin.example.target)
    for step in range(1, min(MOST_TRIED, len(graded))):
        answers.append(graded[(index + step) % len(graded)].target)
    for answer in answers:
        reply = shown_answer(answer, graded.answer_format)
        if graded.grade(reply, example).score == 0:
            return answer
    return None


class TwinReward(RecipeReward):
    """Reward of a pair: the lower of the scores of a completion and its twin's completion.

    A policy earns this reward only by following the edit. The n-th completion of an item is paired
    with the n-th of its twin, so both prompts must be in one batch. Set `shuffle_dataset=False` and
    an even number of prompts per step.
    """

    __name__ = "both_right"

    def __call__(self, *, completions: Sequence[Any], **columns: Any) -> list[float]:
        """Return one reward per completion."""
        scores = super().__call__(completions=completions, **columns)
        members: dict[int, tuple[list[int], list[int]]] = {}
        for place, record in enumerate(map(json.loads, columns[RECORD])):
            members.setdefault(record["pair"], ([], []))[record["side"]].append(place)
        for originals, twins in members.values():
            if len(originals) != len(twins):
                raise InputError(
                    "a prompt and its twin are not in one batch; set shuffle_dataset=False and an"
                    " even number of prompts per step"
                )
            for one, other in zip(originals, twins, strict=True):
                scores[one] = scores[other] = min(scores[one], scores[other])
        return scores


def twin_rewards(
    recipe: str | PathLike[str],
    split: str | None = None,
    n: int | None = None,
    *,
    kind: TwinKind = "flip",
    **settings: Unpack[Settings],
) -> tuple[Any, TwinReward]:
    """Return prompts in pairs, each item followed by its twin, and the reward function for getting
    both right.

    Args:
        recipe: A recipe's name or file, or the folder of a dataset.
        split: Name of the split. Default: the first training split.
        n: Number of items. Those without a twin are left out.
        kind: `flip`: the twin has a different answer. `keep`: it has the same answer.
        **settings: See `Settings`.
    """
    datasets = need("datasets", "datasets", "Dataset")
    graded, chat = _open(recipe, split, n, settings)
    if graded.plan.variants is None:
        raise InputError(f"{graded.name} has no variants of its examples, so it has no twins")
    rows = []
    for pair, example in enumerate(graded):
        twin = choose_twin(graded.plan, example, kind)
        if twin is None:
            continue
        for side, member in enumerate((example, twin.example)):
            record = {**to_record(member), "pair": pair, "side": side}
            rows.append(row_of(graded.prompt(member), record, chat))
    return datasets.Dataset.from_list(rows), TwinReward(graded)


def curriculum_rewards(
    recipe: str | PathLike[str],
    levels: Levels | None = None,
    split: str | None = None,
    n: int | None = None,
    **settings: Unpack[Settings],
) -> tuple[Any, RecipeReward, Any]:
    """Return a stream of prompts that get harder as rewards rise, the reward function, and a
    callback that checkpoints the state.

    The trainer needs `max_steps` and `shuffle_dataset=False`, because the curriculum decides the
    order. With `resume_from_checkpoint` the callback reads the state first, and the stream repeats
    the same prompts.

    Args:
        recipe: A recipe's name or file, or the folder of a dataset.
        levels: The levels. Default: those that the recipe declares under `curriculum`.
        split: Name of the split. Default: the first training split.
        n: Number of examples. Default: all.
        **settings: See `Settings`.
        set: Another name for `changes`.
        described: As for `recipe_rewards`.
        extract: As for `recipe_rewards`.
        chat: As for `recipe_rewards`.
        answer_format: As for `recipe_rewards`.
    """
    datasets = need("datasets", "datasets", "IterableDataset")
    graded, chat = _open(recipe, split, n, settings)
    curriculum = Curriculum(graded, levels or levels_of(graded), graded.seed)

    def rows() -> Iterator[dict[str, Any]]:
        for example in curriculum:
            yield row_of(graded.prompt(example), to_record(example), chat)

    # The stream must stay in this process, because the rewards of its prompts determine the next
    # prompts.
    return (
        datasets.IterableDataset.from_generator(rows),
        RecipeReward(graded, curriculum),
        checkpoint_callback(curriculum),
    )


def _open(
    recipe: str | PathLike[str], split: str | None, n: int | None, settings: Settings
) -> tuple[GradedSplit, bool]:
    """Open a training split. The second value is True if prompts are messages."""
    options: dict[str, Any] = {"described": DESCRIBED, **settings}
    chat = bool(options.pop("chat", True))
    return open_split(recipe, split, n, role="train", **options), chat


def checkpoint_callback(curriculum: Curriculum) -> Any:
    """Return a callback that saves the curriculum's state with every checkpoint, and restores it
    when training resumes.
    """
    transformers = need("trl", "transformers", "TrainerCallback")

    class CurriculumCheckpoint(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
        """Saves the curriculum's state next to the trainer's."""

        def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            """Write the state into the checkpoint's folder."""
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            if folder.is_dir():
                curriculum.save(folder)

        def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            """Read the state of the checkpoint that training resumes from."""
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            if state.global_step:
                curriculum.load(folder)

    return CurriculumCheckpoint()


STATE = "curriculum.json"
"""Name of the state file in the folder of a checkpoint."""


@dataclass(frozen=True, slots=True)
class Levels:
    """Levels of a curriculum.

    Attributes:
        trait: The trait that measures difficulty. Its values are numbers.
        bounds: Maximum value at each level, ascending; empty: every value in the split.
        threshold: Minimum mean score to begin the next level.
        window: Number of answers over which the mean is taken.
        frontier: Share of examples above the previous level's bound. Only their scores count.
            Default: examples are drawn in proportion to their numbers, and all scores count.
    """

    trait: str
    bounds: tuple[float, ...] = ()
    threshold: float = 0.8
    window: int = 64
    frontier: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise ParameterError(
                "threshold", f"must be above 0 and at most 1, not {self.threshold}"
            )
        if self.window < 1:
            raise ParameterError("window", f"must be at least 1, not {self.window}")
        if self.frontier is not None and not 0 < self.frontier <= 1:
            raise ParameterError("frontier", f"must be above 0 and at most 1, not {self.frontier}")
        if list(self.bounds) != sorted(set(self.bounds)):
            raise ParameterError(
                "bounds", f"must rise from level to level, not {echo(self.bounds)}"
            )


def levels_of(examples: GradedSplit) -> Levels:
    """Levels that the recipe of a split declares under `curriculum`."""
    declared = examples.curriculum
    if declared is None:
        raise ParameterError(
            "levels",
            f"is missing, and {examples.name} declares none: curriculum: {{trait: length, bounds:"
            " [3, 4, 5]}",
        )
    return Levels(**declared.model_dump())


def _orders(pools: Sequence[Sequence[int]], *key: str | int) -> list[Permutation]:
    """A random order of each pool."""
    return [Key(*key, level).permutation(len(pool)) for level, pool in enumerate(pools)]


class Curriculum:
    """Examples by position, and the level reached so far.

    Attributes:
        examples: The split that examples are drawn from.
        levels: The levels.
        seed: Seed of the order of examples.
        began: Positions at which the levels above the first began.
        drawn: Number of examples drawn so far.
    """

    def __init__(self, examples: GradedSplit, levels: Levels, seed: int = 0) -> None:
        self.examples, self.levels, self.seed = examples, levels, seed
        values = [self._value(example) for example in examples]
        self.bounds = levels.bounds or tuple(sorted(set(values)))
        self._pools = [[i for i, v in enumerate(values) if v <= bound] for bound in self.bounds]
        if not self._pools[0]:
            raise ParameterError(
                "bounds",
                f"begins with {self.bounds[0]}, but no example has a {levels.trait} of at most"
                " that",
            )
        self._new = [sorted({*p} - {*before}) for before, p in pairwise([[], *self._pools])]
        if levels.frontier is not None and not all(self._new):
            empty = self.bounds[[len(pool) for pool in self._new].index(0)]
            raise ParameterError(
                "bounds", f"has {empty}, which adds no example to the level before"
            )
        self._orders = _orders(self._pools, "curriculum", seed)
        self._new_orders = _orders(self._new, "frontier", seed)
        self.began: list[int] = []
        self.drawn = 0
        self._window: deque[float] = deque(maxlen=levels.window)

    def _value(self, example: Example) -> float:
        value: Trait | None = example.traits.get(self.levels.trait)
        if value is None:
            raise ParameterError(
                "trait", f"is '{self.levels.trait}'; {nearest(self.levels.trait, example.traits)}"
            )
        if isinstance(value, str):
            raise ParameterError(
                "trait",
                f"is '{self.levels.trait}', whose values are texts such as {echo(value)}; name a"
                " trait with numbers",
            )
        return float(value)

    @property
    def level(self) -> int:
        """The level reached so far, from 0."""
        return len(self.began)

    @property
    def bound(self) -> float:
        """Maximum value of the trait at this level."""
        return self.bounds[self.level]

    def at(self, position: int) -> Example:
        """Return the example at a position, from the level that applied when it was drawn."""
        level = sum(begin <= position for begin in self.began)
        share = self.levels.frontier
        pool, order, turn = self._pools[level], self._orders[level], position
        if share is not None and level:
            # Spread frontier examples evenly, so that any run of examples has the requested share.
            new = int(position * share)
            if int((position + 1) * share) > new:
                pool, order, turn = self._new[level], self._new_orders[level], new
            else:
                pool, order, turn = self._pools[level - 1], self._orders[level - 1], position - new
        return self.examples[pool[int(order(turn % len(pool)))]]

    def counts(self, example: Example) -> bool:
        """True if the score of an example counts towards the next level."""
        if self.levels.frontier is None or not self.level:
            return True
        return self._value(example) > self.bounds[self.level - 1]

    def __iter__(self) -> Iterator[Example]:
        """Yield examples endlessly from position 0. Those drawn before are repeated."""
        position = 0
        while True:
            self.drawn = max(self.drawn, position + 1)
            yield self.at(position)
            position += 1

    def record(self, scores: Sequence[float]) -> bool:
        """Record scores. True if the next level begins with the next drawn example."""
        self._window.extend(scores)
        full = len(self._window) == self.levels.window
        if (
            self.level + 1 == len(self.bounds)
            or not full
            or sum(self._window) / len(self._window) < self.levels.threshold
        ):
            return False
        self.began.append(self.drawn)
        self._window.clear()  # easier answers do not count towards the next level
        return True

    def state(self) -> dict[str, Any]:
        """State of a run for resuming it, as JSON values."""
        how = {
            "levels": asdict(self.levels),
            "seed": self.seed,
            "recipe": self.examples.name,
            "split": self.examples.split,
        }
        return {
            **how,
            "bounds": list(self.bounds),
            "began": self.began,
            "drawn": self.drawn,
            "window": list(self._window),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a state. Raise `DataError` if it belongs to another curriculum."""
        own = json.loads(json.dumps(self.state()))
        # for states saved before levels had a frontier
        state = {**state, "levels": {"frontier": None, **(state.get("levels") or {})}}
        for key in ("recipe", "split", "seed", "levels", "bounds"):
            if state.get(key) != own[key]:
                raise DataError(
                    f"the state belongs to another curriculum: its {key} is"
                    f" {echo(state.get(key))}, here {echo(own[key])}"
                )
        self.began, self.drawn = list(state["began"]), int(state["drawn"])
        self._window = deque(state["window"], maxlen=self.levels.window)

    def save(self, folder: Path) -> None:
        """Write the state into the folder of a checkpoint."""
        with atomic(folder / STATE) as beside:
            beside.write_text(json.dumps(self.state()) + "\n", encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Read the state from the folder of a checkpoint."""
        try:
            state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(
                f"{folder / STATE} cannot be read ({error}); resume from another checkpoint"
            ) from error
        self.restore(state)
