"""A process next to the server that runs the code of suites to draw examples and preview recipes.

A recipe may need minutes or all memory, so the process has limits. If it exceeds them, it is killed
and the page shows an error. Requests and answers are JSON, one per line.

Both sides are in this module: the server uses `SuiteProcess`; `main` and the functions of
`REQUESTS` run in the process, which is `python -m taskloom.apps.view.suite_process`.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from subprocess import PIPE, Popen
from typing import Any

from taskloom.core import shards
from taskloom.core.child_process import ChildProcess, end_with_parent
from taskloom.core.descriptions import undescribed
from taskloom.core.errors import RecipeError, TaskloomError
from taskloom.core.example import Example, Step
from taskloom.core.pictures import to_dict
from taskloom.core.registry import SUITES
from taskloom.recipe import Recipe
from taskloom.recipe.fields import is_marked, texts
from taskloom.recipe.recipe import check

PATIENCE = 20.0
"""Timeout of a request in seconds. The first request includes the imports."""

MEMORY = 6 * 2**30
"""Maximum bytes of address space. The world of our largest recipe takes a third of it."""

PREVIEWED = 8
"""Maximum splits in a preview."""

LOOKED_AT = 40
"""Maximum rows of a split in which a preview searches for examples of the open group."""


class SuiteProcessError(TaskloomError):
    """Raised if a request takes too long or too much memory."""


class SuiteProcess:
    """A process that starts with the first request, and starts again if it had to be killed.

    Args:
        patience: Seconds for one request.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self.patience = patience
        self._lock = threading.Lock()
        self._process: ChildProcess | None = None

    def request(self, what: str, **values: Any) -> Mapping[str, Any]:
        """Send a request and return its answer. Raise `TaskloomError` with the process's error
        message, or on timeout.
        """
        with self._lock:
            process = self._running().process
            try:
                assert process.stdin is not None
                process.stdin.write(json.dumps({"what": what, **values}).encode() + b"\n")
                process.stdin.flush()
                line = self._line(process)
            except OSError:
                line = b""
            if not line:
                self._end()
                raise SuiteProcessError(
                    "it ran out of memory or stopped unexpectedly; ask for less"
                )
        answer: Mapping[str, Any] = json.loads(line)
        if "error" in answer:
            raise TaskloomError(str(answer["error"]))
        return answer

    def start(self) -> None:
        """Start the process before it is needed."""
        with suppress(TaskloomError):
            self.request("ready")

    def close(self) -> None:
        """Kill the process, even during a request."""
        process = self._process
        if process is not None:
            process.kill()
        with self._lock:
            self._end()

    def _running(self) -> ChildProcess:
        if self._process is None or not self._process.is_running:
            self._end()
            # In its own session, so that Ctrl-C in the terminal reaches only the viewer, which then
            # closes its standard input.
            self._process = ChildProcess(
                "taskloom.apps.view.suite_process",
                str(MEMORY),
                stdin=PIPE,
                stdout=PIPE,
                start_new_session=True,
            )
        return self._process

    def _line(self, process: Popen[bytes]) -> bytes:
        """Return the answer, which is one line. Raise `SuiteProcessError` on timeout."""
        assert process.stdout is not None
        end = time.monotonic() + self.patience
        parts: list[bytes] = []
        while True:
            left = end - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                self._end()
                raise SuiteProcessError(f"it takes longer than {self.patience:.0f} s; ask for less")
            part = os.read(process.stdout.fileno(), 1 << 16)
            parts.append(part)
            if not part or part.endswith(b"\n"):
                return b"".join(parts) if part else b""

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.end()


def picture(request: Mapping[str, Any]) -> dict[str, Any]:
    """Picture of a dataset's example, drawn with the recipe in the manifest."""
    recipe = Recipe.from_dict(request["recipe"], "the manifest")
    # The manifest may come from elsewhere with the data, so no file that it names is opened.
    if recipe.file_names():
        return {"picture": None}
    return {"picture": _picture(recipe, request["seed"], example_of(request["example"]))}


def preview(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first examples of each split of a recipe, after checking it.

    Texts that name files or servers are refused, because users of the viewer may read its folders
    and nothing else.
    """
    data: dict[str, Any] = request["recipe"]
    for text in texts(data):
        if "://" in text:
            raise RecipeError(
                f"the viewer does not ask other servers ('{text[:60]}'); use the command line for"
                " this recipe"
            )
    for file in named_files(data):
        raise RecipeError(
            f"the viewer does not open files that a recipe names ('{file[:60]}'); use the command"
            " line"
        )
    recipe = check(data, "the recipe", "the recipe")
    plan = recipe.plan(request["seed"])
    splits = []
    for split in plan.splits[:PREVIEWED]:
        group = request.get("group", "")
        rows = split.rows(0, min(LOOKED_AT if group else request["n"], split.n))
        first = list(shards.to_examples(shards.to_table(rows, 0, plan.traits)))
        if group:
            first.sort(key=lambda one: one.traits.get("group") != group)
        examples = [
            {**example_to_dict(one), "picture": _picture(recipe, request["seed"], one)}
            for one in first[: request["n"]]
        ]
        splits.append(
            {
                "name": split.name,
                "n": split.n,
                "role": split.role,
                "describe": split.describe,
                "examples": examples,
            }
        )
    more = len(plan.splits) - len(splits)
    return {
        "splits": splits,
        "more": more,
        "warnings": list(plan.warnings),
        "digest": recipe.digest,
    }


def lit(request: Mapping[str, Any]) -> dict[str, Any]:
    """For each example, the positions of its proof's sentences and of its question in the text;
    None if it is not a story.
    """
    # imported here, so that other requests start sooner
    from taskloom.analysis.report.answer_data import lighter

    suite = str(request["suite"])
    light = lighter(suite) if suite in SUITES.names() else None
    if light is None:
        return {"lit": []}
    examples = [Example(one["input"], one["targets"], one["traits"]) for one in request["examples"]]
    return {"lit": [light(example) for example in examples]}


def named_files(data: Mapping[str, Any]) -> list[str]:
    """Texts of an unchecked recipe in fields where its suite expects file paths."""
    suite = SUITES.find(str(data.get("suite", "")))
    names: list[str] = []
    for name, field in suite.fields.model_fields.items() if suite else ():
        paths = (
            field.json_schema_extra.get("paths")
            if isinstance(field.json_schema_extra, dict)
            else None
        )
        names += [
            text for text in texts(data.get(name)) if paths and (paths == "all" or is_marked(text))
        ]
    return names


def _picture(recipe: Recipe, seed: int, example: Example) -> dict[str, Any] | None:
    """Picture drawn by the suite; None if it draws nothing, or fails because of edited data."""
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
    """Convert an example to JSON values."""
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
    """Build an example from the result of `example_to_dict`."""
    steps = [
        Step(s["rule"], s["value"], None if s["of"] is None else tuple(s["of"]))
        for s in data["derivation"]
    ]
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
    """Import all suites, and return their names."""
    return {"suites": SUITES.names()}


REQUESTS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "ready": ready,
    "picture": picture,
    "lit": lit,
    "preview": preview,
}


def answer(line: str) -> dict[str, Any]:
    """Answer one request. Every error becomes a message."""
    try:
        request = json.loads(line)
        return REQUESTS[request["what"]](request)
    except TaskloomError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": "it takes more memory than the viewer gives; ask for less"}
    except Exception as error:  # third-party suites and data can raise anything
        return {"error": f"{type(error).__name__}: {str(error)[:300]}"}


def main() -> None:
    """Answer requests until standard input ends."""
    end_with_parent()  # even during a request
    with suppress(ImportError, ValueError, OSError):  # Windows, or a system with a lower limit
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), int(sys.argv[1])))
    out, sys.stdout = sys.stdout, sys.stderr  # keep a suite's output apart from the answers
    for line in sys.stdin:
        out.write(json.dumps(answer(line)) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
