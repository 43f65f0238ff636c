"""Datasets: make, export, verify, audit."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taskloom.cli.options import NOTHING, Folder, Json, RecipeName, Seed, Set, TaskFile
from taskloom.core.errors import DataError, ParameterError
from taskloom.core.extraction import EXTRACT
from taskloom.core.tables import console, emit, percent, plain_text, printable, table

if TYPE_CHECKING:
    from taskloom.core.object_store import ObjectPath
    from taskloom.data import Dataset
    from taskloom.data.audit import Audit
    from taskloom.data.audit.scorer_audit import ScorerAudit
    from taskloom.data.verify import Verification


def make(
    name: RecipeName,
    out: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--out",
            metavar="DIR",
            help="Folder of the dataset, or s3://BUCKET/FOLDER [data/RECIPE-seedN].",
        ),
    ] = None,
    seed: Seed = None,
    set: Set = None,
    workers: Annotated[
        int,
        typer.Option("--workers", min=1, help="Number of processes; the data do not depend on it."),
    ] = 1,
    shard_rows: Annotated[
        int | None, typer.Option("--shard-rows", help="Rows per file, a multiple of 1000.")
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help=("Replace the dataset in the folder. Other files in the folder are not touched."),
        ),
    ] = False,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Also write one JSONL file per split.")
    ] = False,
    engine: Annotated[
        str, typer.Option("--engine", help="local or ray; the data do not depend on it.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option("--address", help="Address of a Ray cluster [start a local one].")
    ] = None,
    as_json: Json = False,
    given: Mapping[str, str] = NOTHING,
) -> None:
    """Make a dataset. If interrupted, rerun the command to resume.

    \b
    Examples:
      $ taskloom make ctl/A -o my-data --set splits.train.n=5000
      $ taskloom make ctl/R -o my-data-R --seed 1 --workers 2 --jsonl --set splits.train.n=5000
    """
    from taskloom.core.shards import MANIFEST, place_of
    from taskloom.data import make as making
    from taskloom.recipe import read
    from taskloom.recipe.overrides import option_changes, parse_changes

    recipe = read(name, {**parse_changes(set or ()), **option_changes(given, "make")})
    chosen = recipe.seed if seed is None else seed
    folder = place_of(out) if out else making.default_folder(recipe, chosen)
    known = (
        folder / MANIFEST
    ).is_file() and not force  # a different dataset in the folder is refused
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
    print_made(data, folder, as_json, known)


def export(
    folder: Folder,
    kind: Annotated[
        str,
        typer.Option(
            "--format",
            help="hf, inspect, lm-eval, verifiers, verl, openrlhf, nemo-gym, or a format of the"
            " dataset's suite (one split).",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "-o",
            "--out",
            metavar="PATH",
            help="File to write, or a folder for formats with several files.",
        ),
    ],
    split: Annotated[
        str | None, typer.Option("--split", help="Split to export, for formats of suites.")
    ] = None,
    extract: Annotated[
        str,
        typer.Option(
            "--extract",
            help="For other tools except hf: how answers are extracted from replies.",
        ),
    ] = EXTRACT,
    variants: Annotated[
        str,
        typer.Option("--as", help="For lm-eval: choice, generation, or both."),
    ] = "both",
    licence: Annotated[
        str | None,
        typer.Option("--licence", help="For hf: SPDX name of the licence, for the dataset card."),
    ] = None,
    author: Annotated[
        list[str] | None,
        typer.Option(
            "--author",
            metavar="NAME",
            help="For hf: author, for the card's citation; may be repeated.",
        ),
    ] = None,
    task: TaskFile = None,
    as_json: Json = False,
) -> None:
    """Write a dataset for another tool, or one split in a format of its suite.

    \b
    Examples:
      $ taskloom make babi/1 -o stories --set "splits={train: {n: 100}, test: {n: 20}}"
      $ taskloom export stories --split train --format babi -o qa1.txt
      $ taskloom export stories --split train --format squad -o qa1.json --json
      $ taskloom export stories --format lm-eval -o tasks
      $ taskloom export stories --format inspect -o one-fact
      $ taskloom export stories --format verifiers -o babi-stories
      $ taskloom export stories --format verl -o verl-stories
    """
    from taskloom import verbs

    result = verbs.export(
        folder,
        kind,
        out,
        split=split,
        extract=extract,
        variants=variants,
        task=task,
        licence=licence,
        authors=author or (),
    )
    place = "folder" if kind in verbs.TOOLS else "file"
    print_exported(
        {place: str(result.path), "format": kind, **result.details}, result.text, as_json
    )


def verify(
    what: Annotated[
        str,
        typer.Argument(metavar="DIR", help="A dataset's folder, or s3://BUCKET/FOLDER."),
    ],
    every: Annotated[
        bool, typer.Option("--every", "--all", help="Check every row instead of a sample.")
    ] = False,
    task: TaskFile = None,
    as_json: Json = False,
) -> None:
    """Verify a dataset: its checksums, its answers by a second solver, and its rows by generating
    them again.

    \b
    Examples:
      $ taskloom verify my-data
      $ taskloom verify my-data --all --json

    Rows are generated again from the recipe and the seed, and every column is compared. Exit status
    1 if a row or an answer differs. For a dataset of your own task file or ZEST domain, name that
    file: --task FILE.
    """
    from taskloom.core.shards import place_of
    from taskloom.data import verify as verifying

    folder = place_of(what)
    if isinstance(folder, Path) and (folder / "store.json").is_file():
        from taskloom.cli.runs import verify_runs

        typer.echo(
            f"taskloom: 'taskloom verify {folder}' is now 'taskloom runs verify {folder}'", err=True
        )
        verify_runs(folder, as_json)
        return

    result = verifying.verify(folder, every=every, task=task, progress=True)
    print_verification(result, folder, as_json)
    if not result.ok:
        raise typer.Exit(1)


def audit(
    what: Annotated[
        str,
        typer.Argument(
            metavar="DIR|scorers",
            help="Folder of a dataset, or the word scorers (./scorers is a folder).",
        ),
    ],
    recipe: Annotated[
        list[str] | None,
        typer.Option(
            "--recipe", metavar="RECIPE", help="With scorers: also test the scorer of this recipe."
        ),
    ] = None,
    extract: Annotated[
        str,
        typer.Option(
            "--extract",
            help=(
                "With scorers: how answers are extracted from replies, e.g. last-line or"
                " tag:answer."
            ),
        ),
    ] = "final",
    as_json: Json = False,
) -> None:
    """Audit a dataset: leaks, duplicates, held-out parts, balance, shortcuts, coverage, divergence.
    Exit status 1 if there is a leak.

    DIR may also be any folder of SPLIT.jsonl, SPLIT.csv, SPLIT.parquet or SPLIT/*.parquet with
    `input` and `targets`.

    With the word scorers: how often each scorer rejects right answers and accepts wrong ones, in
    the forms in which models write them.

    \b
    Examples:
      $ taskloom audit my-data
      $ taskloom audit my-data --json
      $ taskloom audit scorers --recipe ctl/A
    """
    if what == "scorers":
        from taskloom.data.audit.scorer_audit import audit_scorers

        print_scorers(audit_scorers(recipe or (), extract=extract), as_json)
        return
    if recipe or extract != "final":
        raise ParameterError(
            "recipe" if recipe else "extract", "is for taskloom audit scorers; leave it out"
        )
    if not Path(what).exists() and difflib.get_close_matches(what, ["scorers"]):
        raise DataError(
            f"there is no dataset folder {what}; did you mean 'taskloom audit scorers'?"
        )
    from taskloom.data import audit as audits

    result = audits.audit(what, progress=True)
    print_certificate(result, as_json)
    if result.failed:
        raise typer.Exit(1)


def print_made(
    data: Dataset, folder: Path | ObjectPath, as_json: bool, known: bool = False
) -> None:
    """Print the result of `taskloom make`. `known` is true if the dataset already existed."""
    m = data.manifest
    if as_json:
        splits = {
            n: {"n": e["n"], "role": e["role"], "digest": e["digest"]}
            for n, e in m["splits"].items()
        }
        emit(
            {
                "folder": str(folder),
                "digest": data.digest,
                "recipe_digest": m["recipe_digest"],
                "seed": m["seed"],
                "splits": splits,
                "warnings": m["warnings"],
                "left_out": m["left_out"],
            }
        )
        return
    out = console()
    rows = [(name, e["n"], e["role"], e["describe"]) for name, e in m["splits"].items()]
    out.print(
        table(
            ("split", "examples", "role", "what"), rows, f"{m['recipe']['name']}, seed {m['seed']}"
        )
    )
    for warning in m["warnings"]:
        out.print(f"note: {plain_text(warning)}")
    out.print(f"\n{'was already in' if known else 'in'} {plain_text(folder)}", soft_wrap=True)
    out.print(
        f"content digest {data.digest} (of the rows), recipe digest {m['recipe_digest']} (of the"
        " fields)",
        soft_wrap=True,
    )


def print_exported(entry: dict[str, Any], sentence: str, as_json: bool) -> None:
    """Print the result of `taskloom export`."""
    if as_json:
        emit(entry)
    else:
        print(printable(sentence))


def print_verification(result: Verification, folder: Path | ObjectPath, as_json: bool) -> None:
    """Print the result of `taskloom verify`."""
    if as_json:
        emit({"folder": str(folder), **result.to_dict()})
        return
    first, *others = result.lines()
    print(printable(f"{folder}: {first}"))
    for line in others:
        print(printable(line))


def print_certificate(audit: Audit, as_json: bool) -> None:
    """Print the certificate of `taskloom audit`."""
    if as_json:
        emit(audit.to_dict())
        return
    from taskloom.data.audit import certificate_tables

    out = console()
    print(
        f"audit of {printable(audit.name)}"
        f" {f'(content digest {audit.digest})' if audit.digest else ''}\n"
    )
    for found in certificate_tables(audit.to_dict()):
        out.print(found, "")
    for note in audit.notes:
        print(f"note: {printable(note)}")
    print(f"{'failed' if audit.failed else 'passed'}: {audit.summary}")


def print_scorers(scorers: list[ScorerAudit], as_json: bool) -> None:
    """Print the rates of `taskloom audit scorers`."""
    if as_json:
        emit([one.to_dict() for one in scorers])
        return
    rows = []
    for one in scorers:
        missed = [
            f"{count.form} {percent(count.missed)}" for count in one.forms if count.missed > 0
        ]
        rates = [
            percent(rate) for pair in (one.false_negatives, one.false_positives) for rate in pair
        ]
        rows.append((one.scorer, one.answers, *rates, "; ".join(missed)))
    heads = (
        "scorer",
        "answers",
        "refused",
        "extracted",
        "accepted",
        "extracted",
        "judged wrongly after extraction",
    )
    title = "right answers rejected and wrong ones accepted: unchanged, and after extraction"
    out = console()
    out.print(table(heads, rows, f"{title} by '{scorers[0].extract}'"))
    out.print(
        "refused: correct answers that did not get the full score, in forms that models write "
        "(capitals, an article,\na sentence around the answer); accepted: wrong answers that "
        "did. extracted: the same after extracting the answer\nfrom the reply, as runs do. The "
        "forms: docs/reference/scorers.md."
    )
