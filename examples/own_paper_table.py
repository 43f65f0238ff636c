"""A paper's table beside your runs, in one file: the Transformer's rows of CTL++ Table 1."""

import taskloom as tl

PUBLISHED = {
    ("A", "iid"): (1.00, 0.00),
    ("A", "ood"): (0.21, 0.09),
    ("R", "iid"): (1.00, 0.00),
    ("R", "ood"): (0.75, 0.25),
}
"""Mean and standard deviation over 25 trainings, by variant and split."""

TABLE = tl.PaperTable(
    name="transformer",
    title="The Transformer of CTL++ Table 1",
    text="Accuracy, mean ± standard deviation over seeds.",
    group_by={"model": "learner", "variant": "recipe.variant", "split": "split"},
    numbers=tuple(
        tl.PublishedNumber(
            "CTL++",
            "Table 1",
            of={"model": "transformer", "variant": variant, "split": split},
            value=mean,
            sd=sd,
            n=25,
            conditions={"recipe.functions": 32, "learner.steps": 300_000},
        )
        for (variant, split), (mean, sd) in PUBLISHED.items()
    ),
)


@tl.study("mine/ctlpp-table1", describe="Accuracy of the Transformer beside CTL++ Table 1")
def table1(runs: tl.Runs) -> tl.Finding:
    """Compare the means over seeds with the published ones."""
    return TABLE.finding([cell for cell in TABLE.cells(runs) if cell.number is not None])
