"""The command line: parse, call the API, print. Everything it does can be done from Python."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from taskloom.errors import TaskloomError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    help="Weave controlled language tasks, teach them to models, and see what was learned.",
)

INTERRUPTED = "interrupted; what was finished is kept: run the same command again to go on"

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a recipe field; part of the digest.")
]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of the samples; the recipe's own by default.")]
RecipeName = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A name such as ctl/A, a .yaml recipe, or a .py task file.")
]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A dataset's folder.")]


@app.command("list")
def list_(
    what: Annotated[
        str,
        typer.Argument(
            metavar="[suites|recipes|tasks|learners|scorers|LEARNER]",
            help="What to list; everything by default. A learner's name lists its settings.",
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """List what there is: suites, recipes, tasks, learners, scorers.

    \b
    Examples:
      $ taskloom list
      $ taskloom list recipes --json
      $ taskloom list bilstm
    """
    from taskloom import printing

    printing.listing(what, as_json)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="RECIPE|DIR", help="A recipe, or the folder of a dataset.")],
    n: Annotated[int, typer.Option("-n", help="How many examples.", min=1)] = 3,
    split: Annotated[str | None, typer.Option("--split", help="Which split; the first by default.")] = None,
    start: Annotated[int, typer.Option("--start", help="Index of the first example.", min=0)] = 0,
    seed: Seed = None,
    set: Set = None,
    as_json: Json = False,
) -> None:
    """Print examples as a person reads them, with the derivation of each answer.

    \b
    Examples:
      $ taskloom show ctl/A -n 2
      $ taskloom show ctl/S --split ood --set overlap=8 --json
    """
    from taskloom import printing

    printing.examples(name, n, split, start, seed, set or (), as_json)


@app.command()
def apply(
    name: RecipeName,
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="[INPUT]...", help="Inputs; from standard input, one a line, if none.")
    ] = None,
    tables: Annotated[
        Path | None, typer.Option("--tables", help="Function tables as JSON: name to list of images (ctl).")
    ] = None,
    set: Set = None,
    as_json: Json = False,
) -> None:
    """Answer single inputs, for every task that is a function.

    \b
    Examples:
      $ taskloom apply ctl/A "c b a 3"
      $ printf 'b a 3\\na 0\\n' | taskloom apply ctl/A --json
    """
    from taskloom import printing
    from taskloom.answering import answerer

    changes = [*(set or ()), *([f"tables=@{tables}"] if tables else [])]
    answer = answerer(name, changes)
    for number, text in enumerate(inputs if inputs else _lines(), 1):
        try:
            found = answer(text)
        except TaskloomError as error:
            where = f"input {number}" if inputs else f"standard input, line {number}"
            raise TaskloomError(f"{where}: {error}") from error
        printing.answer(text, found, as_json)


def _lines() -> Iterator[str]:
    if sys.stdin is None:
        raise TaskloomError("standard input is closed; give inputs as arguments")
    for line in sys.stdin:
        if line.strip():
            yield line.rstrip("\r\n")


@app.command()
def make(
    name: RecipeName,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="The dataset's folder [data/RECIPE-seedN].")
    ] = None,
    seed: Seed = None,
    set: Set = None,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes; the bytes do not depend on it.")] = 1,
    shard_rows: Annotated[int | None, typer.Option("--shard-rows", help="Rows per file, a multiple of 1000.")] = None,
    source: Annotated[
        Path | None,
        typer.Option("--source", help="Published files to take stories from (babi/concat-*, babi/inject-*)."),
    ] = None,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Also write one JSONL file per split.")] = False,
    engine: Annotated[str, typer.Option("--engine", help="local or ray; the bytes do not depend on it.")] = "local",
    address: Annotated[str | None, typer.Option("--address", help="Of a Ray cluster [a local one is started].")] = None,
    as_json: Json = False,
) -> None:
    """Make a dataset. Interrupted at any moment, the same command goes on where it was.

    \b
    Examples:
      $ taskloom make ctl/A -o my-data --set splits.train.n=5000
      $ taskloom make ctl/R -o my-data-R --seed 1 --workers 2 --jsonl --set splits.train.n=5000
    """
    from taskloom import making, printing
    from taskloom.recipe import read

    recipe = read(name, [*(set or ()), *([f"source={source}"] if source else [])])
    chosen = recipe.seed if seed is None else seed
    folder = out or making.default_folder(recipe, chosen)
    with printing.progress() as report:
        data = making.make(
            recipe,
            folder,
            seed=chosen,
            workers=workers,
            shard_rows=shard_rows,
            jsonl=jsonl,
            engine=engine,
            address=address,
            progress=report,
        )
    printing.made(data, folder, as_json)


@app.command()
def export(
    folder: Folder,
    split: Annotated[str, typer.Option("--split", help="Which split.")],
    kind: Annotated[str, typer.Option("--format", help="babi, text-to-text, squad or events.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The file to write.")],
    as_json: Json = False,
) -> None:
    """Write a split of stories in another layout: bAbI text, text-to-text JSONL, SQuAD, structured events.

    \b
    Examples:
      $ taskloom make babi/1 -o stories --set "splits={train: {n: 100}}"
      $ taskloom export stories --split train --format babi -o qa1.txt
      $ taskloom export stories --split train --format squad -o qa1.json --json
    """
    from taskloom import dataset, printing, shards
    from taskloom.describing import undescribed_table
    from taskloom.suites.babi import formats

    found = dataset.load(folder)
    suite = found.manifest.get("recipe", {}).get("suite", "babi")
    if suite != "babi":
        raise TaskloomError(
            f"{folder} holds no stories ({suite} made it); 'taskloom make … --jsonl' writes it as JSONL too"
        )
    described = bool(found.manifest["recipe"].get("described"))
    table = undescribed_table(found.table(split)) if described else found.table(split)
    examples = list(shards.to_examples(table))
    formats.write(examples, out, kind, formats.words_of(found.recipe) if "seed" in found.manifest else None)
    left_out = formats.squad(examples)[1] if kind == "squad" else 0
    if as_json:
        printing.emit({"file": str(out), "format": kind, "examples": len(examples) - left_out, "left_out": left_out})
    else:
        without = f" ({left_out:,} left out: their answer is no word of the story)" if left_out else ""
        typer.echo(f"{out}: {len(examples) - left_out:,} examples of {folder}, split {split}, as {kind}{without}")


@app.command()
def verify(
    folder: Folder,
    every: Annotated[bool, typer.Option("--all", help="Derive every answer again, not a sample.")] = False,
    as_json: Json = False,
) -> None:
    """Check a dataset's bytes against its manifest, and its answers by the task's second solver.

    \b
    Examples:
      $ taskloom verify my-data
      $ taskloom verify my-data --all --json
    """
    from taskloom import printing, verifying

    found = verifying.verify(folder, every=every)
    printing.verification(found, folder, as_json)
    if found.wrong:
        raise typer.Exit(1)


@app.command()
def audit(folder: Folder, as_json: Json = False) -> None:
    """Certify a dataset: leaks, duplicates, label balance, shortcuts, coverage, divergence. Exit status 1 on a leak.

    DIR may also be anybody's folder of SPLIT.jsonl, SPLIT.parquet or SPLIT/*.parquet with `input` and `targets`.

    \b
    Examples:
      $ taskloom audit my-data
      $ taskloom audit my-data --json
    """
    from taskloom import auditing, printing

    found = auditing.audit(folder)
    printing.certificate(found, as_json)
    if found.leaks:
        raise typer.Exit(1)


@app.command()
def solve(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Text in bAbI format, or - for standard input.")],
    reading: Annotated[
        str, typer.Option("--reading", help="natural, or strict: every sentence about a place is a change of place.")
    ] = "natural",
    as_json: Json = False,
) -> None:
    """Answer and support every question of a story file, and report where the file's own answers are wrong or open.

    \b
    Examples:
      $ printf '1 Mary went to the park.\\n2 Where is Mary?\\n' | taskloom solve -
      $ printf '1 Mary got the milk.\\n2 What is Mary carrying?\\tapple\\t1\\n' | taskloom solve - --json
    """
    from taskloom import printing
    from taskloom.suites.babi.solving import solve_file

    report = solve_file(file, reading)
    if as_json:
        printing.emit(report.to_dict())
    else:
        typer.echo(report.text())


@app.command()
def data(
    action: Annotated[str, typer.Argument(metavar="[status|get]", help="status (the default) or get.")] = "status",
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="With get: which resource.")] = None,
    as_json: Json = False,
) -> None:
    """Outside resources: what is here, what is missing, how to get it. Nothing is fetched unless asked by name.

    \b
    Examples:
      $ taskloom data
      $ taskloom data status --json
    """
    from taskloom import printing, resources

    if action == "status" and name is None:
        printing.resource_status(as_json)
    elif action == "get" and name:
        found = resources.get(name)
        if as_json:
            printing.emit({"name": name, "found": str(found)})
        else:
            typer.echo(f"{name} is in {found}")
    else:
        raise TaskloomError("write 'taskloom data', 'taskloom data status' or 'taskloom data get NAME'")


@app.command()
def score(
    suite: Annotated[str, typer.Argument(metavar="SUITE", help="zest, or the suite of any dataset.")],
    gold: Annotated[
        Path, typer.Option("--gold", help="A dataset's folder; for zest also a file of tasks with answers.")
    ],
    pred: Annotated[Path, typer.Option("--pred", help="One prediction a line, in the order of the gold examples.")],
    mode: Annotated[str, typer.Option("--mode", help="zest: official (as the public script) or corrected.")] = "",
    at: Annotated[
        list[float] | None, typer.Option("--at", help="A T of C@T, in percent; 75 and 90 by default.")
    ] = None,
    split: Annotated[str, typer.Option("--split", help="Which split, when --gold is a dataset.")] = "test",
    by: Annotated[
        str, typer.Option("--by", help="Not zest: the trait that tells tasks apart [as the suite says].")
    ] = "",
    linked: Annotated[
        str, typer.Option("--linked", help="Not zest: the trait that tasks of one family share, for consistency.")
    ] = "",
    details: Annotated[bool, typer.Option("--details", help="With --json: every task (zest: and instance).")] = False,
    as_json: Json = False,
) -> None:
    """Score predictions that were made elsewhere: mean, C@T and consistency by task.

    For zest it also says where the official and the corrected evaluation differ.

    \b
    Examples:
      $ taskloom score zest --gold dev.jsonl --pred predictions.txt
      $ taskloom score zest --gold dev.jsonl --pred predictions.txt --mode corrected --at 50 --at 90 --json
      $ taskloom score zest --gold my-zest --split dev --pred predictions.txt --mode corrected
      $ taskloom score ctl --gold my-data --split iid --pred answers.txt --linked groups
    """
    from taskloom import competence, dataset, printing, shards
    from taskloom.suites.zest import evaluation

    thresholds = at or (75, 90)
    if suite != "zest":
        if mode:
            raise TaskloomError("--mode is for zest; every other suite has one way to score")
        data = dataset.load(gold)
        made = str(data.manifest["recipe"].get("suite") or data.manifest["recipe"].get("task") or suite)
        if made != suite:
            raise TaskloomError(f"{gold} is a dataset of '{made}', not of '{suite}'; write taskloom score {made}")
        report: Any = competence.score_dataset(data, split, pred, by, linked, thresholds)
    elif by or linked:
        raise TaskloomError("--by and --linked are for other suites; in zest the files say which tasks belong together")
    elif gold.is_dir():
        examples = shards.to_examples(dataset.load(gold).table(split))
        report = evaluation.score_examples(examples, pred, mode or "official", thresholds)
    else:
        report = evaluation.score(gold, pred, mode or "official", thresholds)
    if as_json:
        printing.emit(report.to_dict(details))
    else:
        typer.echo(report.text())


@app.command("run")
def run_(
    file: Annotated[
        Path, typer.Argument(metavar="EXPERIMENT", help="A YAML file, or one that comes with us: ctlpp-small.")
    ],
    store: Annotated[
        Path | None, typer.Option("--store", metavar="DIR", help="The folder of the runs [runs, or as the file says].")
    ] = None,
    engine: Annotated[str, typer.Option("--engine", help="local or ray; the results do not depend on it.")] = "local",
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Runs at one time; as many as there are cores by default.")
    ] = None,
    address: Annotated[str | None, typer.Option("--address", help="Of a Ray cluster [a local one is started].")] = None,
    tracker: Annotated[
        str | None, typer.Option("--tracker", help="Also show finished runs in trackio, wandb or mlflow.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be run and what is there.")] = False,
    as_json: Json = False,
) -> None:
    """Run an experiment: recipes x learners x seeds. Interrupted at any moment, the same command goes on where it was.

    Exit status 1 when runs failed; the same command retries just those.

    \b
    Examples:
      $ printf 'recipes: [babi/1]\\nlearners: [majority]\\n' | tee experiment.yaml
      $ taskloom run experiment.yaml --dry-run
      $ taskloom run experiment.yaml --store my-runs --workers 2
    """
    from taskloom import printing
    from taskloom.experiments import api, spec, watching

    experiment = spec.read(file)
    if dry_run:
        printing.experiment(api.look(experiment, store), as_json)
        return
    if engine == "ray" and address:
        # Said before, since Ray ends the program of a cluster whose head has died, without a chance for a last word.
        typer.echo(
            f"On the Ray cluster at {address}. Should its head die, Ray ends this program: nothing finished is lost; start a "
            "cluster again and give the same command.",
            err=True,
        )
    with watching.watching() as watch:
        found = api.fill(
            experiment, store, engine=engine, workers=workers, address=address, tracker=tracker, watch=watch
        )
    printing.outcome(found, f"taskloom run {file}" + (f" --store {store}" if store else ""), as_json)
    if found.state.failed:
        raise typer.Exit(1)


@app.command()
def report(
    store: Annotated[Path, typer.Argument(metavar="RUNS", help="The folder of the runs.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The page to write.")] = Path("report.html"),
    level: Annotated[float, typer.Option("--level", help="Confidence level of the intervals.")] = 0.95,
    as_json: Json = False,
) -> None:
    """Write one page about runs: scores with intervals, learning curves, comparisons, failures, examples.

    \b
    Examples:
      $ taskloom report my-runs -o report.html
      $ taskloom report my-runs --level 0.99 --json
    """
    from taskloom import printing
    from taskloom.report import runs

    path = runs.report(store, out, level)
    if as_json:
        printing.emit({"report": str(path), "store": str(store)})
    else:
        typer.echo(f"the report on {store} is in {path}")


@app.command()
def power(
    gap: Annotated[float, typer.Option("--gap", help="The difference in accuracy that should be found.")],
    accuracy: Annotated[float, typer.Option("--accuracy", help="Accuracy of the one; the other's is accuracy + gap.")],
    seeds: Annotated[int | None, typer.Option("--seeds", min=1, help="Seeds of each learner.")] = None,
    examples: Annotated[int | None, typer.Option("--examples", min=1, help="Examples that each run answers.")] = None,
    seed_sd: Annotated[float, typer.Option("--seed-sd", help="Standard deviation of accuracy between seeds.")] = 0.0,
    paired_correlation: Annotated[
        float, typer.Option("--paired-correlation", help="Of the learners' answers to an item; 0: different items.")
    ] = 0.0,
    seed_correlation: Annotated[
        float | None, typer.Option("--seed-correlation", help="Of two seeds' answers to an item [(1 + paired) / 2].")
    ] = None,
    wanted: Annotated[float, typer.Option("--power", help="How often a gap should be found.")] = 0.8,
    alpha: Annotated[float, typer.Option("--alpha", help="How often one may be found that is not there.")] = 0.05,
    as_json: Json = False,
) -> None:
    """Say how many examples and seeds it takes to see a gap between two learners.

    \b
    Examples:
      $ taskloom power --gap 0.02 --accuracy 0.8
      $ taskloom power --gap 0.05 --accuracy 0.8 --seed-sd 0.02 --paired-correlation 0.4
      $ taskloom power --gap 0.05 --accuracy 0.8 --seed-sd 0.02 --seeds 5 --examples 1000 --json
    """
    from taskloom import printing
    from taskloom.experiments.statistics import Question

    question = Question(gap, accuracy, seed_sd, paired_correlation, seed_correlation, alpha, wanted)
    printing.power(question, examples, seeds, as_json)


@app.command()
def rescore(
    store: Annotated[Path, typer.Argument(metavar="RUNS", help="The folder of the runs.")],
    scorer: Annotated[
        str, typer.Option("--scorer", help="A scorer (taskloom list scorers), or own: that of each run's recipe.")
    ],
    as_json: Json = False,
) -> None:
    """Score stored predictions again, by another scorer or a mended one. No model is called; the old scores are kept beside.

    \b
    Examples:
      $ taskloom rescore my-runs --scorer any-of
      $ taskloom rescore my-runs --scorer own --json
    """
    from taskloom import printing
    from taskloom.experiments import rescoring

    printing.rescored(rescoring.rescore(store, scorer), scorer, as_json)


def main() -> None:
    """The console script: every foreseen fault is one sentence on standard error and exit status 2."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit status."""
    try:
        result: Any = app(arguments, standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()  # a full disk or a closed pipe shows here, not in silence at the end
    except TaskloomError as error:
        return _say(str(error), 2)
    except KeyboardInterrupt:
        return _say(INTERRUPTED, 130)
    except BrokenPipeError:
        # The reader (head, less) has gone; that is not an error of ours.
        sys.stderr.close()
        return 0
    except OSError as error:
        # A full disk, a missing right, a folder in a file's place: the system's own words and the path say it best.
        where = f"{error.filename}: " if error.filename else ""
        return _say(f"{where}{error.strerror or error}; nothing that was finished is lost", 2)
    except UnicodeError as error:
        return _say(f"a name or a text holds characters that cannot be written here ({error})", 2)
    except MemoryError:
        return _say("out of memory; use fewer --workers or smaller --shard-rows", 2)
    except Exception as error:
        # Typer brings its own copy of click in some versions, so its errors are known by what they can do.
        if type(error).__name__ == "Abort":
            return _say(INTERRUPTED, 130)
        if not hasattr(error, "format_message"):
            raise
        return _say(error.format_message() + _hint(error), 2)
    if result == 130:  # Typer turns Ctrl-C into this status, in silence
        return _say(INTERRUPTED, 130)
    return result if isinstance(result, int) else 0


def _hint(error: Any) -> str:
    context = getattr(error, "ctx", None)
    return f" ('{context.command_path} --help' shows what there is)" if context is not None else ""


def _say(message: str, status: int) -> int:
    # One sentence; what an error echoes below it (an expression with a caret under the fault) keeps its lines.
    sentence, *echo = message.split("\n  ")
    text = "\n  ".join(["taskloom: " + " ".join(sentence.split()), *echo])
    # What a person typed is echoed, but never as an order to the terminal.
    print("".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text), file=sys.stderr)
    return status


if __name__ == "__main__":
    main()
