"""Runs on stories with known answers, as files of scores with the traits of every question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from taskloom.experiments.sources.score_files import open_runs, write_scores
from taskloom.experiments.sources.scored_items import items_key
from taskloom.experiments.table import Runs

Item = Mapping[str, str]
"""Traits of a question, with its `answer`."""

Reply = Callable[[Item, int, int], str]
"""What a model says to a question, by the question, its place and the seed."""

TRAITS = ("answer", "question", "support", "composition", "group")

SMOLLM2 = {"learner.model": "smollm2", "learner.steps": 1000}


def right_if(share: Callable[[Item], float]) -> Reply:
    """Return a model that is right on a share of the questions of each kind, evenly spread, the
    same for every seed.
    """
    turns: Counter[object] = Counter()

    def reply(item: Item, place: int, seed: int) -> str:
        kind = (seed, *item.values())
        turn = turns[kind]
        turns[kind] += 1
        return (
            item["answer"]
            if int((turn + 1) * share(item) + 1e-9) > int(turn * share(item) + 1e-9)
            else "elsewhere"
        )

    return reply


def trained(
    recipe: str,
    learner: str,
    splits: Mapping[str, Sequence[Item]],
    reply: Reply,
    seeds: int = 2,
    fields: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the group of a training and the items of its tests."""
    items, names, texts = {}, {}, dict[str, int]()
    answers: dict[str, dict[str, Any]] = {}
    for split, rows in splits.items():
        kinds = [[row.get(trait) for trait in TRAITS] for row in rows]
        table = {"traits": list(TRAITS), "kinds": kinds, "of": list(range(len(rows)))}
        names[split] = items_key(table)
        items[names[split]] = table
        for seed in range(seeds):
            replies = [reply(row, place, seed) for place, row in enumerate(rows)]
            scores = "".join(
                str(int(text == row["answer"])) for text, row in zip(replies, rows, strict=True)
            )
            places = [texts.setdefault(text, len(texts)) for text in replies]
            answers.setdefault(str(seed), {})[split] = {"scores": scores, "predictions": places}
    means = {
        seed: {split: one["scores"].count("1") / len(one["scores"]) for split, one in parts.items()}
        for seed, parts in answers.items()
    }
    group = {
        "recipe": recipe,
        "learner": learner,
        "fields": dict(fields or (SMOLLM2 if learner == "fine-tune" else {})),
        "n": {split: len(rows) for split, rows in splits.items()},
        "seeds": means,
        "items": names,
        "texts": list(texts),
        "answers": answers,
    }
    return group, items


def story_file(folder: Path, *trainings: tuple[dict[str, Any], dict[str, Any]]) -> Runs:
    """Return the runs of some trainings."""
    groups = [group for group, _ in trainings]
    items = {key: table for _, tables in trainings for key, table in tables.items()}
    return open_runs(write_scores(groups, folder / "scores.json", items))


def question(
    kind: str, support: int, composition: str = "MOVE", answer: str = "park", group: str = ""
) -> Item:
    """Return the traits of a question."""
    traits = {
        "question": kind,
        "support": str(support),
        "composition": composition,
        "answer": answer,
    }
    return {**traits, "group": group or kind}


def mixed(n: int = 60) -> list[Item]:
    """Return questions with one to four facts, with and without GIVE, as many of each."""
    kinds = [
        ("where-P", 1, "MOVE"),
        ("where-O", 2, "GRAB+MOVE"),
        ("where-O", 2, "GIVE+MOVE"),
        ("where-P", 3, "GIVE+GRAB+MOVE"),
    ]
    kinds += [("where-O", 3, "DROP+GRAB+MOVE"), ("where-was-O", 4, "COREF+GRAB+MOVE")]
    return [question(*kinds[place % len(kinds)]) for place in range(n)]


def concat_test(n: int = 40) -> list[Item]:
    """Return questions of the test of concat."""
    return [question("where-P", 1 + place % 3, group=f"qa{1 + place % 3}") for place in range(n)]
