"""Probing a model: falsify and frontier."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taskloom.cli.options import Endpoint, Json, RecipeName, Seed, Set
from taskloom.core.errors import ParameterError, TaskloomError

if TYPE_CHECKING:
    from taskloom.analysis.probing.failures import Falsification
    from taskloom.analysis.probing.frontier import Frontier

ModelName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help=(
            "FILE.py::FUNCTION, the folder of a saved learner, the folder or hub id of a language "
            "model, or the settings of a learner in braces; with --endpoint, the model's name "
            "there."
        ),
    ),
]

Sampling = Annotated[
    bool | None,
    typer.Option(
        "--sampling/--deterministic",
        help=(
            "Whether the model may answer the same question differently each time [only for "
            "endpoints without temperature 0]."
        ),
    ),
]

SplitName = Annotated[
    str, typer.Option("--split", help="Split to draw items from [test, or the first test split].")
]


SHOWN_CHARACTERS = 70
"""Maximum characters of an item in a table."""


def falsify(
    model: ModelName,
    recipe: RecipeName = "",
    items: Annotated[int, typer.Option("--items", min=1, help="Maximum items to draw.")] = 500,
    failures: Annotated[
        int,
        typer.Option("--failures", min=1, help="Number of wrong items after which drawing stops."),
    ] = 10,
    questions: Annotated[
        int, typer.Option("--questions", min=1, help="Maximum questions to shrink one failure.")
    ] = 500,
    endpoint: Endpoint = "",
    sampling: Sampling = None,
    split: SplitName = "",
    seed: Seed = None,
    set: Set = None,
    replay: Annotated[
        Path | None,
        typer.Option(
            "--replay", metavar="DIR", help="Replay the failures of an earlier search instead."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="DIR", help="Folder for the page [falsify-MODEL]."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Find the smallest items that a model gets wrong.

    Items are drawn until enough answers are wrong. Each wrong item is shrunk as long as a simpler
    variant is answered wrong too. The output folder has a page and the failures as a dataset, which
    can be replayed with another model. A replay exits with status 1 if an item is still answered
    wrong. Rerun the command to resume after an interruption.

    \b
    Examples:
      $ printf 'def answer(text):\\n    return "kitchen"\\n' | tee model.py
      $ taskloom falsify model.py::answer babi/1 --items 25 --failures 2

    \b
    With a server:
      taskloom falsify NAME babi/mix-T7 --endpoint http://127.0.0.1:8000/v1
      taskloom falsify OTHER --replay falsify-NAME
    """
    if replay is not None:
        _replay(model, replay, recipe, set, endpoint, sampling, as_json)
        return
    if not recipe:
        raise TaskloomError("name a recipe too: taskloom falsify MODEL RECIPE")
    from taskloom.analysis.probing import failures_page
    from taskloom.analysis.probing import falsify as search

    folder = out or Path(f"falsify-{_file_name(model)}")
    result = search.falsify(
        model,
        recipe,
        changes=set,
        split=split,
        seed=seed,
        items=items,
        failures=failures,
        questions=questions,
        endpoint=endpoint,
        sampling=sampling,
        out=folder,
        progress=True,
    )
    page = folder / search.PAGE
    if as_json:
        _emit(result, page)
        return
    print(failures_page.headline(result))
    for number, group in enumerate(result.groups, 1):
        members = [result.failures[i] for i in group.failures]
        smallest = min(members, key=lambda failure: len(failure.minimal.input))
        print(f"\n{number}. {failures_page.group_title(group)}")
        print(f"{failures_page.group_text(group)} The smallest one:")
        print(f"\n{smallest.minimal.input}\n")
        print("\n".join(failures_page.answer_lines(smallest)))
    print(f"\n{result.questions:,} questions were asked; the page is {page}")


def _emit(result: Falsification | Frontier, page: Path) -> None:
    """Print a result and its page as JSON."""
    from taskloom.core.tables import emit

    emit({"page": str(page), **result.to_dict()})


def _file_name(model: str) -> str:
    """Folder name made from a model's name."""
    last = model.rpartition("::")[2].rpartition("/")[2]
    return "".join(c if c.isalnum() or c in "-." else "-" for c in last).strip("-.") or "model"


def _end(text: str) -> str:
    """End of an item, where its question is."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else f"…{line[-SHOWN_CHARACTERS:]}"


def _replay(
    model: str,
    folder: Path,
    recipe: str,
    changes: list[str] | None,
    endpoint: str,
    sampling: bool | None,
    as_json: bool,
) -> None:
    from taskloom.analysis.probing import falsify as search
    from taskloom.core.tables import console, emit, table

    if changes and not recipe:
        raise ParameterError("set", "changes a recipe; name the recipe before --replay")
    result = search.replay(
        model, folder, recipe or None, changes=changes, endpoint=endpoint, sampling=sampling
    )
    if as_json:
        emit(result.to_dict())
    else:
        rows = [
            (_end(e.input), " or ".join(e.targets), answer, "wrong" if w else "right")
            for e, answer, w in zip(result.examples, result.answers, result.wrong, strict=True)
        ]
        console().print(table(("item ends with", "right answer", "answered", "verdict"), rows))
        count = f"{sum(result.wrong)} of {len(result.wrong)}"
        print(f"{result.model} answers {count} failures of {result.found_in} wrong")
    if any(result.wrong):
        raise typer.Exit(1)


def frontier(
    model: ModelName,
    recipe: RecipeName,
    along: Annotated[
        list[str],
        typer.Option(
            "--along",
            metavar="TRAIT,...|FIELD=VALUE|...",
            help="Traits (support,sentences), or a recipe field with values (length=4|8|16, 4..16).",
        ),
    ],
    beside: Annotated[
        str, typer.Option("--beside", metavar="MODEL", help="A second model for the same figure.")
    ] = "",
    monotone: Annotated[
        bool, typer.Option("--monotone", help="Assume that accuracy never rises along --along.")
    ] = False,
    questions: Annotated[
        int,
        typer.Option(
            "--questions", min=1, help="Maximum questions for each model and trait or field."
        ),
    ] = 1_000,
    endpoint: Endpoint = "",
    split: SplitName = "",
    seed: Seed = None,
    set: Set = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="DIR", help="Folder for the page [frontier-MODEL]."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Find where along traits or fields a model's accuracy crosses 0.9 and 0.5.

    Questions are spent on values whose accuracy is not yet clearly above or below. Rerun the
    command to resume after an interruption.

    \b
    Examples:
      $ printf 'def answer(text):\\n    return "kitchen"\\n' | tee model.py
      $ taskloom frontier model.py::answer babi/1 --along sentences --questions 50
    """
    from taskloom.analysis.probing import frontier as search
    from taskloom.core.tables import console

    folder = out or Path(f"frontier-{_file_name(model)}")
    result = search.frontier(
        [model, beside] if beside else model,
        recipe,
        along=along,
        changes=set,
        monotone=monotone,
        split=split,
        seed=seed,
        questions=questions,
        endpoint=endpoint,
        out=folder,
        progress=True,
    )
    page = folder / search.PAGE
    if as_json:
        _emit(result, page)
        return
    console().print(result.table().shown())
    for crossing in result.crossings:
        print(crossing)
    print(f"the page is {page}")
