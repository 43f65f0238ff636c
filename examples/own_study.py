"""How much seeds of one learner differ: a study of any runs, in one file."""

from functools import partial

import taskloom as tl


@tl.study("mine/seeds", describe="The best and the worst seed of each learner, recipe and split")
def seeds(runs: tl.Runs) -> tl.Finding:
    """Return mean and range of the scores over seeds."""
    rows = list(runs.accuracy(by=["recipe", "learner", "split"], over="seeds"))
    data = tl.ResultTable(
        ("name", "split", "mean", "low", "high", "sd", "seeds"),
        [{**r, "name": _name(r)} for r in rows],
    )
    most = max((row["seeds"] for row in rows), default=0)
    caption = f"Mean score of each learner with its 95 % interval over up to {most} seeds."
    figure = tl.StudyFigure(
        "seeds", caption, data, partial(tl.figures.intervals, place="name", series="split")
    )
    return tl.Finding("Spread of seeds", table=data, figures=(figure,))


def _name(row: dict[str, object]) -> str:
    return f"{row['learner']}, {row['recipe']}"
