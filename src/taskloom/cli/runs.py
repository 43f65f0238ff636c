"""Scores of predictions produced by other tools (score), and of finished runs (runs show, compare,
report, rescore, verify).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taskloom.cli.options import NOTHING, Json, TaskFile, Threshold, Where, of_suite
from taskloom.core.errors import ParameterError, TaskloomError, nearest
from taskloom.core.tables import console, emit, percent, table

if TYPE_CHECKING:
    from taskloom.core.offers import Evaluation
    from taskloom.data import Dataset
    from taskloom.experiments.rescore import Change, RunVerification
    from taskloom.experiments.result_table import ResultTable


Gold = Annotated[
    Path,
    typer.Option(
        "--gold",
        "--data",
        help="Folder of a dataset; a file if the suite has its own evaluation.",
    ),
]
Predictions = Annotated[
    Path,
    typer.Option(
        "--pred",
        "--predictions",
        help=(
            "One prediction per line, in the order of the gold examples; or JSON lines, CSV or "
            "Parquet with 'prediction' and, for any order, 'id' or 'index' (counted from 0); or "
            "an Inspect log (.eval) or lm-eval sample file. For a dataset, predictions for some "
            "of its examples are enough. - is standard input."
        ),
    ),
]
Thresholds = Annotated[
    list[float] | None,
    typer.Option(
        "--at",
        "--thresholds",
        help="T of C@T, in percent [75 and 90]; may be repeated.",
    ),
]
Extract = Annotated[
    str,
    typer.Option(
        "--extract",
        help=(
            "How answers are extracted from replies, e.g. final, last-line or tag:answer [no"
            " extraction]."
        ),
    ),
]


def score(
    suite: Annotated[str, typer.Argument(metavar="SUITE", help="Suite or task of the examples.")],
    gold: Gold,
    pred: Predictions,
    at: Thresholds = None,
    split: Annotated[
        str,
        typer.Option(
            "--split", help="Split to score, if --gold is a dataset [the only matching one]."
        ),
    ] = "",
    by: Annotated[
        str, typer.Option("--by", help="Trait that distinguishes tasks [the suite's].")
    ] = "",
    linked: Annotated[
        str,
        typer.Option("--linked", help="Trait that tasks of one family share, for consistency."),
    ] = "",
    extract: Extract = "",
    details: Annotated[
        bool,
        typer.Option(
            "--details", help="With --json: also every task, or further results of the suite."
        ),
    ] = False,
    task: TaskFile = None,
    as_json: Json = False,
    given: Mapping[str, str] = NOTHING,
) -> None:
    """Score predictions produced by other tools: mean, C@T and consistency by task, or the suite's
    own evaluation.

    \b
    Examples:
      $ taskloom score zest --gold dev.jsonl --pred predictions.txt
      $ taskloom score zest --gold dev.jsonl --pred predictions.txt --mode corrected --at 50 --at 90 --json
      $ taskloom score zest --gold my-zest --split dev --pred predictions.txt --mode corrected
      $ taskloom score ctl --gold my-data --split iid --pred answers.txt --linked groups
      $ taskloom score zest --gold dev.jsonl --pred predictions.jsonl
      $ taskloom score ctl --gold my-data --split iid --pred replies.jsonl --extract final
    """
    from taskloom.core.registry import find_suite, load_file
    from taskloom.data import competence

    if task is not None:
        load_file(task)  # registers the task's own scorer
    owner = find_suite(suite)
    name = owner.name if owner else suite
    options = of_suite(given, "score", name)
    thresholds = at or competence.THRESHOLDS
    report: Evaluation
    if owner is None or owner.evaluate is None:
        data = _made_by(name, gold)
        split = split or competence.find_split(data, pred)
        report = competence.score_dataset(data, split, pred, by, linked, thresholds, extract)
    elif by or linked:
        raise TaskloomError(
            f"--by and --linked are for other suites; {name} determines itself which tasks belong "
            f"together"
        )
    elif gold.is_dir():
        data = _made_by(name, gold)
        report = competence.score(
            data, pred, split, thresholds=thresholds, extract=extract, **options
        )
    elif extract:
        raise TaskloomError(
            f"--extract needs the folder of a dataset, and {gold} is a file; make one with"
            f" 'taskloom make {name}/RECIPE'"
        )
    else:
        report = owner.evaluate(gold, pred, thresholds=thresholds, **options)
    if as_json:
        emit(report.to_dict(details))
    else:
        typer.echo(report.text())


def _made_by(suite: str, folder: Path) -> Dataset:
    """Load the dataset in a folder, if that suite (or task) made it."""
    from taskloom.data import dataset

    data = dataset.load(folder)
    recipe = data.manifest.get("recipe", {})
    owner = str(recipe.get("suite") or recipe.get("task") or suite)
    if owner != suite:
        raise TaskloomError(
            f"{folder} is a dataset of '{owner}', not of '{suite}'; write taskloom score {owner}"
        )
    return data


Runs = Annotated[
    Path,
    typer.Argument(
        metavar="RUNS",
        help=(
            "Folder of the runs; or a file of scores, a YAML file that names predictions, or logs "
            "of Inspect or lm_eval."
        ),
    ),
]
SomeSplits = Annotated[
    list[str] | None, typer.Option("--split", help="Only this split; may be repeated.")
]
By = Annotated[
    list[str] | None,
    typer.Option(
        "--by",
        metavar="NAME",
        help="Also group by a column, a trait of the examples, or task; may be repeated.",
    ),
]
Level = Annotated[float, typer.Option("--level", help="Confidence level of the intervals.")]


Format = Annotated[str, typer.Option("--format", help="table, latex (booktabs), csv, md or json.")]
ChosenColumns = Annotated[
    str,
    typer.Option(
        "--columns",
        metavar="NAMES",
        help=(
            "Columns to print, optionally with headings: 'learner=Model,split,score'. score is "
            "the mean with its interval."
        ),
    ),
]


def show_runs(
    store: Runs,
    by: By = None,
    split: SomeSplits = None,
    over: Annotated[
        str | None,
        typer.Option(
            "--over",
            help=(
                "Unit of the interval: seeds+items, seeds, items, tasks or seeds+tasks "
                "[seeds+items; seeds if item scores were not kept]."
            ),
        ),
    ] = None,
    where: Where = None,
    threshold: Threshold = None,
    level: Level = 0.95,
    twins: Annotated[
        bool,
        typer.Option(
            "--twins",
            help="Instead of means, show how often answers change with the edits of twins.",
        ),
    ] = False,
    samples: Annotated[
        bool,
        typer.Option(
            "--samples",
            help="Instead of means, show majority vote and pass@k of models with several samples.",
        ),
    ] = False,
    form: Format = "table",
    columns: ChosenColumns = "",
    as_json: Json = False,
) -> None:
    """Show scores of runs: means with intervals, grouped by any property of runs or examples.

    \b
    Examples:
      $ taskloom runs show my-runs
      $ taskloom runs show my-runs --by task --over seeds --where 'seed=0' --json
      $ taskloom runs show my-runs --format latex --columns 'learner=Model,split,score'
    """
    from taskloom.experiments import sources

    chosen = sources.runs(store).where(*(where or ()))
    if twins:
        if over is not None or threshold is not None:
            raise TaskloomError("--over and --threshold are for means; leave them out with --twins")
        rows = chosen.twins(by or (), split, level)
    elif samples:
        rows = chosen.samples(split, level=level)
    else:
        # A column with the same value for all runs is omitted unless it is asked for.
        asked = [name for name in _headings(columns) if name in ("recipe", "learner", "split")]
        grouped = [*(by or ()), *(name for name in asked if name not in (by or ()))]
        rows = chosen.accuracy(grouped, split, over, level, threshold)
    print_results(rows, "json" if as_json else form, columns)


def compare(
    store: Runs,
    a: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="First group: a learner, a recipe, or columns ('learner=bilstm and seed=0').",
        ),
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="Second group, written in the same way.")],
    by: By = None,
    split: SomeSplits = None,
    over: Annotated[
        str,
        typer.Option(
            "--over", help="items: pair the same examples; tasks: compare means of tasks."
        ),
    ] = "items",
    test: Annotated[
        str, typer.Option("--test", help="auto, two-way, mcnemar, bootstrap, sign-flip or welch.")
    ] = "auto",
    correction: Annotated[
        str, typer.Option("--correction", help="holm, benjamini-hochberg, bonferroni or none.")
    ] = "holm",
    level: Level = 0.95,
    where: Where = None,
    form: Format = "table",
    columns: ChosenColumns = "",
    as_json: Json = False,
) -> None:
    """Compare two groups of runs by paired tests on the same examples, or on the same tasks.

    \b
    Examples:
      $ taskloom runs compare my-runs seed=0 seed=1
      $ taskloom runs compare my-runs seed=0 seed=1 --split test --test mcnemar --json
    """
    from taskloom import verbs

    compared = verbs.compare(
        store,
        a,
        b,
        split,
        by=by or (),
        where=where or (),
        over=over,
        test=test,
        correction=correction,
        level=level,
    )
    form = "json" if as_json else form
    if form == "table":
        typer.echo(f"a: {a}, b: {b}")
    print_results(compared, form, columns)


def report(
    store: Runs,
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="FILE", help="HTML file to write.")
    ] = Path("report.html"),
    level: Level = 0.95,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="Dataset, or folder of datasets, to show and audit on the page.",
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option("--figures", metavar="DIR", help="Also write the figures as files."),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="Formats of the figures: pdf, svg, png.")
    ] = "svg,pdf",
    width: Annotated[
        str, typer.Option("--width", help="Width of the figures: column, page or inches.")
    ] = "",
    panel: Annotated[
        list[str] | None,
        typer.Option(
            "--panel",
            metavar="TITLE",
            help="Write only panels whose title contains this; may be repeated.",
        ),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(
            "--rename",
            metavar="OLD=NEW",
            help="Rename a recipe or learner on the page; may be repeated.",
        ),
    ] = None,
    where: Where = None,
    threshold: Threshold = None,
    title: Annotated[str, typer.Option("--title", help="Heading [learners and recipes].")] = "",
    as_json: Json = False,
) -> None:
    """Write a page about runs: findings in sentences, figures, tables, comparisons, and the
    examples behind every number.

    \b
    Examples:
      $ taskloom runs report my-runs -o report.html
      $ taskloom runs report my-runs --level 0.99 --json
      $ taskloom runs report my-runs --data my-runs/data --figures figures
      $ taskloom runs report my-runs --figures figures --format pdf,png --width column
      $ taskloom runs report my-runs --where 'test >= 0' --threshold 0.95
    """
    from taskloom.analysis.report import run_report

    path = run_report.report(
        store,
        out,
        level,
        data=data or (),
        figures=figures,
        formats=[part.strip() for part in form.split(",") if part.strip()],
        width=width or None,
        panels=panel or (),
        names=_renamed(rename or ()),
        where=where or (),
        threshold=threshold,
        title=title,
    )
    if as_json:
        emit({"report": str(path), "store": str(store)})
    else:
        typer.echo(f"the report on {store} is in {path}")


def _renamed(pairs: Iterable[str]) -> dict[str, str]:
    """New names by the labels that they replace. Labels may contain `=`, so each pair is split at
    the last one.
    """
    names = {}
    for pair in pairs:
        old, separator, new = pair.rpartition("=")
        if not separator or not old:
            raise ParameterError("rename", f"must be OLD=NEW, not '{pair}'")
        names[old] = new
    return names


def rescore(
    store: Annotated[
        Path,
        typer.Argument(
            metavar="RUNS",
            help="Folder of the runs; or a log of Inspect or lm_eval, or a folder of logs.",
        ),
    ],
    scorer: Annotated[
        str,
        typer.Option(
            "--scorer",
            help="A scorer (taskloom list scorers), or own for the scorer of each run's recipe.",
        ),
    ],
    extract: Annotated[
        str,
        typer.Option("--extract", help="For logs: how answers are extracted from replies [final]."),
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="DIR",
            help="For logs: new folder for the new scores, which runs show and report can read.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Score stored predictions again, with another or a corrected scorer. No model is called. Runs
    keep their old scores next to the new ones; logs are not changed.

    \b
    Examples:
      $ taskloom runs rescore my-runs --scorer any-of
      $ taskloom runs rescore my-runs --scorer own --json
    """
    from taskloom import verbs

    changes = verbs.rescore(store, scorer, extract=extract, out=out)
    print_rescored(changes, scorer, as_json)


def verify_runs(
    store: Annotated[Path, typer.Argument(metavar="RUNS", help="The folder of the runs.")],
    as_json: Json = False,
) -> None:
    """Check the scores of finished runs against their stored predictions. Exit status 1 if they
    differ.

    \b
    Examples:
      $ taskloom runs verify my-runs
      $ taskloom runs verify my-runs --json
    """
    from taskloom.experiments.rescore import verify_runs as score_again

    result = score_again(store)
    print_verification(result, store, as_json)
    if result.wrong:
        raise typer.Exit(1)


def _headings(columns: str) -> dict[str, str]:
    """Headings by column name, from the value of `--columns`."""
    chosen: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in columns.split(","))):
        name, _, head = part.partition("=")
        chosen[name.strip()] = head.strip() or name.strip().replace("_", " ")
    return chosen


FORMATS = ("table", "latex", "csv", "md", "json")
"""Output formats of result tables."""


def print_results(rows: ResultTable, form: str, columns: str) -> None:
    """Print the rows of a query about runs.

    Args:
        rows: Result of the query.
        form: One of `FORMATS`.
        columns: The value of `--columns`; empty for all.
    """
    chosen = _headings(columns)
    if form not in FORMATS:
        raise ParameterError("format", f"cannot be '{form}'; {nearest(form, FORMATS)}")
    if form == "json":
        emit((rows.select(chosen) if chosen else rows).to_dicts())
    elif form == "csv":
        typer.echo(rows.to_csv(chosen), nl=False)
    elif form == "table":
        print(rows.for_paper(chosen, 3) if chosen else rows)
    else:
        table = rows.for_paper(chosen)
        typer.echo(table.latex() if form == "latex" else table.markdown())


def print_rescored(changes: list[Change], scorer: str, as_json: bool) -> None:
    """Print the result of `taskloom runs rescore`: means before and after."""
    if as_json:
        emit([asdict(c) for c in changes])
        return
    groups: dict[tuple[str, str, str], list[Change]] = {}
    for c in changes:
        groups.setdefault((c.recipe, c.learner, c.split), []).append(c)
    lines = []
    for key, same in groups.items():
        means = [
            [x for x in values if x is not None]
            for values in zip(*((c.before, c.after) for c in same), strict=True)
        ]
        shown = [percent(sum(m) / len(m)) if m else "-" for m in means]
        lines.append((*key, len(same), *shown, sum(c.changed for c in same)))
    heads = ("recipe", "learner", "split", "runs", "before", "after", "examples changed")
    console().print(table(heads, lines, f"scores by {scorer}"))


def print_verification(result: RunVerification, store: Path, as_json: bool) -> None:
    """Print the result of `taskloom verify` on a folder of runs."""
    if as_json:
        emit({"folder": str(store), "ok": not result.wrong, **result.to_dict()})
        return
    print(
        f"{store}: {result.runs:,} runs, {result.answers:,} answers scored again:"
        f" {len(result.wrong)} differences"
    )
    for wrong in result.wrong[:10]:
        print(f"  {wrong}")
    if result.without:
        print(f"{result.without:,} runs kept no predictions, so nothing can be checked")
    if result.unscored:
        run, why = next(iter(result.unscored.items()))
        print(
            f"{len(result.unscored):,} runs: only sums were checked; the first is {run[:8]}…: {why}"
        )
