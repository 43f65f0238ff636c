"""Tables 1 and 2 and Figures 4, 7 and 8 of CTL++: accuracy of three models on A and R (iid and ood)
and the number of successful seeds; model sizes; accuracy on S by the number of shared functions and
shared symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from taskloom.analysis import figures
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.heat_maps import heat_map
from taskloom.analysis.paper_table import PaperTable, TableCell, count_of, mean_and_sd, seed_point
from taskloom.analysis.published_numbers import comparable, differences, published
from taskloom.analysis.study import CountSetting, ShareSetting, StudyError, check_split, study
from taskloom.analysis.verdict import Judgement, judge_number, judge_share
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.table import Runs
from taskloom.learners.config import read
from taskloom.papers.ctlpp.experiments import staged_experiments, table_experiments
from taskloom.papers.ctlpp.runs import MODELS, ModelSetting, Trainings, of_learner, trainings

TABLE = PaperTable(
    paper="ctlpp",
    name="table1",
    title="CTL++ Table 1",
    caption=(
        "Accuracy by model, variant and draw. Means over seeds ({range} of each) with 95 %"
        " intervals. The unit is the seed (t over seeds of one dataset each). Diamonds are the"
        " paper's means; the dotted line is chance."
    ),
    axes={"place": "name", "series": "split"},
)

SPLITS = ("iid", "ood")

SUCCESS = 0.95
"""Minimum ood accuracy (exclusive) of a successful seed (section 4.1)."""

CONVERGED = 0.5
"""Minimum final iid accuracy for a seed to be included: the public code's criterion for "converged"
(appendix A.2).
"""

MOST = 25
"""Maximum number of seeds in the mean. The first seeds that converge are used, out of 50 for the
Transformer (appendix A.2).
"""


@dataclass(frozen=True, slots=True)
class CountedSeeds:
    """Seeds of a training condition that are included in the table. `name` distinguishes the
    condition from the others.
    """

    group: Trainings
    converged: list[int]
    counted: list[int]
    name: str = ""

    def scores(self, split: str) -> list[float]:
        """Scores of the counted seeds."""
        return self.group.of(split, self.counted)

    @property
    def successes(self) -> int:
        """Number of counted seeds that succeed."""
        return sum(score > SUCCESS for score in self.scores("ood"))


@study(
    "ctlpp/table1",
    describe=(
        "Accuracy of three models on CTL++ A and R, iid and ood, and the share of seeds over 95 %"
    ),
    place="CTL++, Table 1 and section 4.1",
    experiment=table_experiments,
)
def table1(
    runs: Runs,
    *,
    converged: ShareSetting = CONVERGED,
    most: CountSetting = MOST,
    draw: Literal["published", "chains", "independent", "any"] = "published",
) -> Finding:
    """Compute Table 1: means and standard deviations over the first seeds that converge.

    Args:
        runs: The runs.
        converged: Exclude seeds with a lower final iid accuracy, as in the paper.
        most: Maximum number of seeds; the first ones are used.
        draw: Only runs whose training data were drawn this way. `any`: all runs.
    """
    every = trainings(runs)
    drawn = [group for group in every if draw in (group.draw, "any")]
    names = short_names(drawn or every)
    groups = [
        replace(count(group, converged, most), name=name)
        for group, name in zip(drawn or every, names, strict=True)
    ]
    rows = [_row(g) for g in groups]
    shown = [c for c in TELLING if len({row[c] for row in rows}) > 1]
    columns = ("model", "data", *shown, "seeds", "converged", "iid", "ood", "over 95 % ood")
    finding = TABLE.finding(
        [cell for g in groups for cell in _cells(g)],
        table=ResultTable(columns, rows),
        text=(
            f"Mean ± standard deviation over the first {most} seeds whose final iid accuracy is"
            f" over {converged:g}, as the paper counts those of the Transformer; in the last column"
            f" the seeds with an ood accuracy over {SUCCESS:g}.{_of_all(rows)}"
        ),
        draw=with_chance(every[0].chance),
        notes=(
            *_notes(groups, converged),
            *([] if drawn else [f"No run is on data of the draw '{draw}': all runs are shown."]),
        ),
    )
    return replace(finding, judgements=tuple(j for g in groups for j in _judgements(g)))


def with_chance(chance: float) -> Callable[..., Any]:
    """`figures.intervals` with a dotted line at chance in every panel."""

    def drawn(data: ResultTable, **axes: Any) -> Any:
        figure = figures.intervals(data, **axes)
        for axis in figure.axes:
            axis.axvline(chance, color="#444444", linewidth=1.0, linestyle=":", zorder=0)
        return figure

    return drawn


TELLING = {
    "draw": "draw {}",
    "processes": "{} processes",
    "table": "function table {}",
    "data seed": "data seed {}",
    "always has": "{} in training",
    "steps": "{:,} steps",
    "precision": "{}",
}
"""Columns that are shown if their values differ between rows. Otherwise the text given here
describes the shared value.
"""


def _of_all(rows: list[dict[str, Any]]) -> str:
    """Return a sentence about the settings that all rows share."""
    values = {column: {row[column] for row in rows} for column in TELLING}
    alike = [
        TELLING[c].format(*own)
        for c, own in values.items()
        if len(own) == 1 and next(iter(own)) not in (None, "")
    ]
    return f" All rows: {', '.join(alike)}." if alike else ""


def count(group: Trainings, converged: float = CONVERGED, most: int = MOST) -> CountedSeeds:
    """Select the seeds for the table, in ascending order."""
    good = [seed for seed in group.seeds if group.scores.get("iid", {}).get(seed, 1.0) > converged]
    return CountedSeeds(group, good, good[:most])


def short_names(groups: list[Trainings]) -> list[str]:
    """Return the model and variant of each training, plus any details that distinguish trainings of
    the same model and variant.

    The name includes the draw if the trainings use several.
    """
    details = [_details(group) for group in groups]
    several_draws = len({group.draw for group in groups}) > 1
    alike: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    for group, own in zip(groups, details, strict=True):
        alike.setdefault((group.model, group.variant), []).append(own)
    names = []
    for group, own in zip(groups, details, strict=True):
        telling = [group.draw] if several_draws and group.draw else []
        columns = zip(*alike[group.model, group.variant], strict=True)
        for part, values in zip(own, columns, strict=True):
            if part and len(set(values) - {""}) > 1:
                telling.append(part)
        name = f"{group.label}, {group.variant}"
        names.append(f"{name} ({', '.join(telling)})" if telling else name)
    return names


def model_of_label(name: str) -> str:
    """Short name of the model. The rows of a panel all belong to one model.

    >>> model_of_label("NDR, A (chains)")
    'NDR'
    """
    return name.partition(",")[0]


def _details(group: Trainings) -> tuple[str, ...]:
    steps = group.conditions.get("learner.steps")
    number = group.processes
    named = "1 process" if number == 1 else f"{number} processes"
    world = (f"table {group.table_seed}", f"data seed {group.data_seed}")
    return (
        named if number else "",
        *world,
        group.contents,
        f"{steps:,} steps" if steps else "",
        _precision(group),
    )


def _precision(group: Trainings) -> str:
    """Numeric precision of the training. Empty if unknown, as for `auto`."""
    wanted = str(group.conditions.get("learner.precision") or "")
    return str(group.environment.get("precision") or ("" if wanted == "auto" else wanted))


def _row(g: CountedSeeds) -> dict[str, Any]:
    return {
        "model": g.group.label,
        "data": g.group.variant,
        "draw": g.group.draw,
        "processes": g.group.processes,
        "table": g.group.table_seed,
        "data seed": g.group.data_seed,
        "always has": g.group.contents,
        "steps": g.group.conditions.get("learner.steps"),
        "precision": _precision(g.group),
        "seeds": len(g.group.seeds),
        "converged": len(g.converged),
        "iid": mean_and_sd(g.scores("iid")),
        "ood": mean_and_sd(g.scores("ood")),
        "over 95 % ood": f"{g.successes} of {len(g.scores('ood'))}" if g.scores("ood") else "–",
    }


def _cells(g: CountedSeeds) -> list[TableCell]:
    cells = []
    for split in SPLITS:
        labels, words = {"name": g.name, "split": split}, _published_as(g, split)
        cells.append(
            TABLE.cell(
                labels, g.scores(split), g.group.conditions, of=words, claim=f"{g.name}: {split}"
            )
        )
    return cells


def _published_as(g: CountedSeeds, what: str) -> dict[str, str]:
    """Return the key of the published number for a cell. The paper only has numbers for the
    published draw.
    """
    if g.group.draw != "published":
        return {}
    return {"model": g.group.model, "variant": g.group.variant, "split": what}


def _judgements(g: CountedSeeds) -> Iterator[Judgement]:
    yield from TABLE.judgements(_cells(g))
    where, ood, words = g.group.conditions, g.scores("ood"), _published_as(g, "success")
    if not words or not ood:
        return
    for number in published("ctlpp", **words)[:1]:
        yield judge_share(
            g.successes,
            len(ood),
            number,
            claim=f"{g.name}: share over 95 % ood",
            conditions=differences(number, where),
            comparable=comparable(number, where),
        )


def _notes(groups: list[CountedSeeds], converged: float) -> Iterator[str]:
    for g in groups:
        left_out = len(g.group.seeds) - len(g.converged)
        if left_out:
            are = "is" if left_out == 1 else "are"
            yield (
                f"{g.name}: {left_out} of {len(g.group.seeds)} seeds did not pass {converged:g} on"
                f" iid and {are} left out by this rule; with all seeds ood is"
                f" {mean_and_sd(g.group.of('ood'))}."
            )


WORDS, ANSWERS = 40, 8
"""Sizes of the input vocabulary (32 functions and 8 symbols) and of the output vocabulary (8
symbols).
"""

SINUSOIDS = 2 * 1_999 * 128
"""Entries of the two tables of sinusoids that the public code stores with the Transformer's
weights.
"""

INDEX = 5_000
"""Entries of an index that the public code stores with the weights of the Transformer and of NDR.
"""

BUFFERS = {"bilstm": 0, "transformer": SINUSOIDS + INDEX, "ndr": INDEX}
"""Entries that the paper's script counts although they are not trained (docs/papers/ctlpp.md)."""


@study(
    "ctlpp/table2",
    describe="Trainable parameters and training steps of the models of CTL++",
    place="CTL++, Table 2",
    from_recipes=True,
)
def table2(scale: str) -> Finding:
    """Count the trainable parameters of the paper's models as its public code sets them."""
    from taskloom.learners.scratch.nets.ops import count

    words = [str(number) for number in range(WORDS)]
    rows, judgements = [], []
    for model, label in MODELS.items():
        learner: Any = read({"learner": model, "preset": "ctlpp"})
        counted = count(learner.network_for(learner.reader(words), ANSWERS))
        steps = learner.training.steps
        with_buffers = counted + BUFFERS[model]
        (hours,) = published("ctlpp", "Table 2", model=model, what="hours")
        rows.append(
            {
                "model": label,
                "trainable": counted,
                "with buffers": with_buffers,
                "steps": steps,
                "run time (paper)": f"{int(hours.value)}:{round(hours.value % 1 * 60):02}",
            }
        )
        for what, value in (("parameters", counted), ("steps", steps)):
            (number,) = published("ctlpp", "Table 2", model=model, what=what)
            judgements.append(judge_number(value, number, claim=f"{label}: {what}"))
    return Finding(
        "CTL++ Table 2",
        "Parameters that training changes, and what the paper's script counts: it adds tables of"
        " sinusoids and an index that the public code keeps with the weights.",
        ResultTable(("model", "trainable", "with buffers", "steps", "run time (paper)"), rows),
        judgements=tuple(judgements),
        notes=(
            (
                "The paper gives Transformer and NDR nearly the same size; the Transformer has less"
                " than a quarter of NDR's trainable parameters."
            ),
            "Run times are the paper's, of one run on a P100, in hours and minutes. Ours are in the"
            " reference on GPU training.",
        ),
    )


SOLVED = 0.99
"""Minimum accuracy that counts as 1.00 in the paper's figures. The margin of 0.01 allows for
chance.
"""


def heat_map_finding(runs: Runs, number: int, usual: str, learner: str, split: str) -> Finding:
    """Draw the heat map of a model on S.

    Args:
        runs: The runs.
        number: Number of the paper's figure.
        usual: The learner of that figure.
        learner: Learner to show instead. Default: `usual`.
        split: Split whose accuracy is shown.
    """
    maker = f"reproduce ctlpp/figure{number}"
    trained = trainings(runs, "S", maker)
    if not learner and all(group.model != usual for group in trained):
        others = sorted({group.model for group in trained})
        raise StudyError(
            f"{runs.path} has no runs of {MODELS[usual]} on ctl/S, of which Figure {number} is;"
            f" 'taskloom {maker}' makes some, and learner={others[0]} draws those that are there"
        )
    groups = of_learner(runs, trained, learner or usual)
    check_split(runs, split)
    rows = sorted(
        (_cell(group, split) for group in groups), key=lambda r: (r["overlap"], r["shared symbols"])
    )
    columns = ("overlap", "shared symbols", "mean", "sd", "low", "high", "seeds", "group size")
    data = ResultTable(columns, rows)
    label = groups[0].label
    symbols = groups[0].conditions.get("recipe.symbols")
    counts = [row["seeds"] for row in rows]
    means = (
        f"mean{' ± standard deviation' if max(counts) > 1 else ''} over {count_of(counts, 'seed')}"
    )
    caption = (
        f"Accuracy of {label} on {split} of S ({means}) by shared functions and shared symbols of"
        f" {symbols}. The unit is the seed on one dataset a setting; chance is 1/{symbols}."
    )
    draw = partial(
        heat_map,
        x="shared symbols",
        y="overlap",
        value="mean",
        spread="sd",
        ylabel="shared functions",
    )
    solved = [
        f"({r['overlap']}, {r['shared symbols']})"
        for r in rows
        if r["mean"] is not None and r["mean"] >= SOLVED
    ]
    return Finding(
        f"CTL++ Figure {number}: {label} on S",
        f"{len(solved)} of {len(rows)} settings (shared functions, shared symbols) reach {SOLVED:g}"
        + (f": {', '.join(solved)}." if solved else "."),
        data,
        (StudyFigure(f"figure{number}", caption, data, draw),),
        notes=(
            (
                "The paper shows these values as shades only, so there are no published numbers to"
                " compare with. Its text: to reach 100 %, 16 of 32 functions must be shared, on 6"
                " of 8 symbols."
            ),
            (
                "More shared functions also make the tested groups smaller (column 'group size');"
                " this does not separate the two."
            ),
        ),
    )


def _cell(group: Trainings, split: str) -> dict[str, Any]:
    scores = group.of(split)
    nothing = dict.fromkeys(("mean", "sd", "low", "high"))
    overlap, functions = (
        int(group.conditions[f"recipe.{name}"]) for name in ("overlap", "functions")
    )
    return {
        "overlap": overlap,
        "shared symbols": int(group.conditions["recipe.shared_symbols"]),
        **(seed_point(scores) if scores else {**nothing, "seeds": 0}),
        "group size": -(-(functions - overlap) // 4),
    }


def _register(number: int, usual: str) -> Callable[..., Finding]:
    """Register the study of one of the paper's heat maps."""

    @study(
        f"ctlpp/figure{number}",
        describe=f"Accuracy of {MODELS[usual]} on CTL++ S by shared functions and shared symbols",
        place=f"CTL++, Figure {number}",
        experiment=staged_experiments(usual),
    )
    def figure(runs: Runs, *, split: str = "ood", learner: ModelSetting = "") -> Finding:
        """Draw the heat map.

        Args:
            runs: The runs.
            split: The split whose accuracy is drawn.
            learner: Model whose runs are used: bilstm, transformer or ndr. Default: that of the
                figure.
        """
        return heat_map_finding(runs, number, usual, learner, split)

    return figure


figure4 = _register(4, "ndr")
figure7 = _register(7, "transformer")
figure8 = _register(8, "bilstm")
