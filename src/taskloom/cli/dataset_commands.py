"""Datasets: make, export, verify, audit."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from taskloom.cli.options import Folder, Json, RecipeName, Seed, Set, TaskFile
from taskloom.cli.suite_options import NOTHING, as_changes
from taskloom.core.errors import DataError, ParameterError


def make(
    name: RecipeName,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="The dataset's folder [data/RECIPE-seedN].")
    ] = None,
    seed: Seed = None,
    set: Set = None,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes; the bytes do not depend on it.")] = 1,
    shard_rows: Annotated[int | None, typer.Option("--shard-rows", help="Rows per file, a multiple of 1000.")] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Replace the dataset that is in the folder; files of your own there are not touched."
        ),
    ] = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Also write one JSONL file per split.")] = False,
    engine: Annotated[str, typer.Option("--engine", help="local or ray; the bytes do not depend on it.")] = "local",
    address: Annotated[str | None, typer.Option("--address", help="Of a Ray cluster [a local one is started].")] = None,
    as_json: Json = False,
    given: Mapping[str, str] = NOTHING,
) -> None:
    """Make a dataset. Interrupted at any moment, rerun the command to resume.

    \b
    Examples:
      $ taskloom make ctl/A -o my-data --set splits.train.n=5000
      $ taskloom make ctl/R -o my-data-R --seed 1 --workers 2 --jsonl --set splits.train.n=5000
    """
    from taskloom.cli.dataset_output import make_result
    from taskloom.core.shards import MANIFEST
    from taskloom.data import make as making
    from taskloom.recipe import read
    from taskloom.recipe.overrides import parse_changes

    recipe = read(name, {**parse_changes(set or ()), **as_changes(given, "make")})
    chosen = recipe.seed if seed is None else seed
    folder = out or making.default_folder(recipe, chosen)
    known = (folder / MANIFEST).is_file() and not force  # another dataset than the one that is asked for is refused
    data = making.make(
        recipe,
        folder,
        seed=chosen,
        workers=workers,
        shard_rows=shard_rows,
        jsonl=jsonl,
        force=force,
        engine=engine,
        address=address,
        progress=True,
    )
    make_result(data, folder, as_json, known)


def export(
    folder: Folder,
    kind: Annotated[
        str, typer.Option("--format", help="hf, lm-eval, or a format that the dataset's suite offers, for one split.")
    ],
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="PATH", help="The file to write; a folder for hf and lm-eval.")
    ],
    split: Annotated[str | None, typer.Option("--split", help="Which split, for the formats of suites.")] = None,
    extract: Annotated[
        str, typer.Option("--extract", help="For lm-eval: how answers are cut out of replies.")
    ] = "line",
    task: TaskFile = None,
    as_json: Json = False,
) -> None:
    """Write a dataset for another tool (hf, lm-eval), or a split in another format, which a suite offers.

    \b
    Examples:
      $ taskloom make babi/1 -o stories --set "splits={train: {n: 100}, test: {n: 20}}"
      $ taskloom export stories --split train --format babi -o qa1.txt
      $ taskloom export stories --split train --format squad -o qa1.json --json
      $ taskloom export stories --format lm-eval -o tasks
    """
    from taskloom import verbs
    from taskloom.cli.dataset_output import exported

    result = verbs.export(folder, kind, out, split=split, extract=extract, task=task)
    place = "folder" if kind in verbs.TOOLS else "file"
    exported({place: str(result.path), "format": kind, **result.details}, result.text, as_json)


def verify(
    folder: Folder,
    every: Annotated[bool, typer.Option("--every", "--all", help="Derive every answer again, not a sample.")] = False,
    task: TaskFile = None,
    as_json: Json = False,
) -> None:
    """Check a dataset's bytes against its manifest, and its answers by the task's second solver.

    \b
    Examples:
      $ taskloom verify my-data
      $ taskloom verify my-data --all --json

    A dataset of a task file or a ZEST domain of your own has its answers checked when you name that file: --task FILE.
    """
    from taskloom.cli.dataset_output import verification
    from taskloom.data import verify as verifying

    if (folder / "store.json").is_file():
        from taskloom.cli.run_commands import verify_runs

        typer.echo(f"taskloom: 'taskloom verify {folder}' is now 'taskloom runs verify {folder}'", err=True)
        verify_runs(folder, as_json)
        return

    result = verifying.verify(folder, every=every, task=task)
    verification(result, folder, as_json)
    if result.wrong:
        raise typer.Exit(1)


def audit(
    what: Annotated[
        str,
        typer.Argument(metavar="DIR|scorers", help="A dataset's folder, or the word scorers (./scorers is a folder)."),
    ],
    recipe: Annotated[
        list[str] | None,
        typer.Option("--recipe", metavar="RECIPE", help="With scorers: a recipe whose scorer is tried, too."),
    ] = None,
    extract: Annotated[
        str,
        typer.Option(
            "--extract", help="With scorers: how answers are cut out of replies, e.g. last-line or tag:answer."
        ),
    ] = "final",
    as_json: Json = False,
) -> None:
    """Certify a dataset: leaks, duplicates, held-out parts, balance, shortcuts, coverage, divergence; status 1 on a leak.

    DIR may also be anybody's folder of SPLIT.jsonl, SPLIT.csv, SPLIT.parquet or SPLIT/*.parquet with `input` and `targets`.

    With the word scorers: how often each scorer refuses right answers and accepts wrong ones, in the forms that models write.

    \b
    Examples:
      $ taskloom audit my-data
      $ taskloom audit my-data --json
      $ taskloom audit scorers --recipe ctl/A
    """
    if what == "scorers":
        from taskloom.cli.dataset_output import scorer_table
        from taskloom.data.audit.scorer_audit import audit_scorers

        scorer_table(audit_scorers(recipe or (), extract=extract), as_json)
        return
    if recipe or extract != "final":
        raise ParameterError("recipe" if recipe else "extract", "is for taskloom audit scorers; leave it out")
    if not Path(what).exists() and difflib.get_close_matches(what, ["scorers"]):
        raise DataError(f"there is no dataset folder {what}; did you mean 'taskloom audit scorers'?")
    from taskloom.cli.dataset_output import certificate
    from taskloom.data import audit as audits

    result = audits.audit(what)
    certificate(result, as_json)
    if result.failed:
        raise typer.Exit(1)
