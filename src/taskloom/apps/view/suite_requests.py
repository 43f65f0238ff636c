"""What the process beside the server does: `python -m taskloom.apps.view.suite_requests` answers requests from standard input."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from typing import Any

from taskloom.core import shards
from taskloom.core.descriptions import undescribed
from taskloom.core.errors import RecipeError, TaskloomError
from taskloom.core.example import Example, Step
from taskloom.core.pictures import to_dict
from taskloom.core.registry import SUITES
from taskloom.recipe import Recipe
from taskloom.recipe.fields import is_marked, texts
from taskloom.recipe.recipe import check

PREVIEWED = 8
"""Splits of a recipe that are previewed."""


def picture(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the picture of an example of a dataset, by the recipe of its manifest."""
    recipe = Recipe.from_dict(request["recipe"], "the manifest")
    if recipe.file_names():  # a manifest may have come with the data: what it names is not opened
        return {"picture": None}
    return {"picture": _picture(recipe, request["seed"], example_of(request["example"]))}


def preview(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first examples of each split of a recipe, after checking it.

    Texts that name files or servers are refused: whoever can reach the viewer may see its folders, and nothing else.
    """
    data: dict[str, Any] = request["recipe"]
    for text in texts(data):
        if "://" in text:
            raise RecipeError(
                f"the viewer does not ask other servers ('{text[:60]}'); use the command line for this recipe"
            )
    for file in named_files(data):
        raise RecipeError(f"the viewer does not open files that a recipe names ('{file[:60]}'); use the command line")
    recipe = check(data, "the recipe", "the recipe")
    plan = recipe.plan(request["seed"])
    splits = []
    for split in plan.splits[:PREVIEWED]:
        table = shards.to_table(split.rows(0, min(request["n"], split.n)), 0, plan.traits)
        examples = [
            {**example_to_dict(one), "picture": _picture(recipe, request["seed"], one)}
            for one in islice(shards.to_examples(table), request["n"])
        ]
        splits.append(
            {"name": split.name, "n": split.n, "role": split.role, "describe": split.describe, "examples": examples}
        )
    more = len(plan.splits) - len(splits)
    return {"splits": splits, "more": more, "warnings": list(plan.warnings), "digest": recipe.digest}


def named_files(data: Mapping[str, Any]) -> list[str]:
    """Return the texts of an unchecked recipe that stand where its suite expects paths of files."""
    suite = SUITES.find(str(data.get("suite", "")))
    names: list[str] = []
    for name, field in suite.fields.model_fields.items() if suite else ():
        paths = field.json_schema_extra.get("paths") if isinstance(field.json_schema_extra, dict) else None
        names += [text for text in texts(data.get(name)) if paths and (paths == "all" or is_marked(text))]
    return names


def _picture(recipe: Recipe, seed: int, example: Example) -> dict[str, Any] | None:
    """Return what the suite draws; None where it draws nothing, or cannot: the data may have been edited."""
    if recipe.suite.picture is None:
        return None
    if recipe.described is not None and not recipe.described.alone:
        example = Example(
            undescribed(example.input),
            example.targets,
            example.traits,
            key=example.key,
            question=example.question,
            derivation=example.derivation,
            task=example.task,
        )
    with suppress(TaskloomError, ValueError, LookupError, TypeError, AttributeError):
        drawn = recipe.suite.picture(example, recipe.fields, recipe.key(seed))
        return None if drawn is None else to_dict(drawn)
    return None


def example_to_dict(example: Example) -> dict[str, Any]:
    """Return an example for JSON."""
    return {
        "input": example.input,
        "targets": list(example.targets),
        "traits": dict(example.traits),
        "key": example.key,
        "question": example.question,
        "derivation": [asdict(step) for step in example.derivation],
        "task": example.task,
    }


def example_of(data: Mapping[str, Any]) -> Example:
    """Return the example that `example_to_dict` wrote."""
    steps = [Step(s["rule"], s["value"], None if s["of"] is None else tuple(s["of"])) for s in data["derivation"]]
    return Example(
        data["input"],
        data["targets"],
        data["traits"],
        key=data["key"],
        question=data["question"],
        derivation=steps,
        task=data["task"],
    )


def ready(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return nothing, when all suites are imported."""
    return {"suites": SUITES.names()}


REQUESTS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "ready": ready,
    "picture": picture,
    "preview": preview,
}


def answer(line: str) -> dict[str, Any]:
    """Answer one request; whatever goes wrong is a sentence."""
    try:
        request = json.loads(line)
        return REQUESTS[request["what"]](request)
    except TaskloomError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": "it takes more memory than the viewer gives; ask for less"}
    except Exception as error:  # a suite of somebody else, on data of somebody else
        return {"error": f"{type(error).__name__}: {str(error)[:300]}"}


def main() -> None:
    """Answer requests until standard input ends."""
    with suppress(ImportError, ValueError, OSError):  # Windows; a system with a lower limit
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), int(sys.argv[1])))
    out, sys.stdout = sys.stdout, sys.stderr  # what a suite prints is no answer
    for line in sys.stdin:
        out.write(json.dumps(answer(line)) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
