"""Table 3 of Dyna-bAbI: accuracy of models that are trained on concat, on its own test and on the mixes."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from functools import partial
from math import hypot, isnan, nan
from typing import Any

from taskloom.analysis import figures
from taskloom.analysis.claims import PaperClaim, claim_findings
from taskloom.analysis.conditions import random_twin
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.published_numbers import PublishedNumber, published
from taskloom.analysis.seed_scores import count_of, mean_and_sd
from taskloom.analysis.study import study
from taskloom.analysis.verdict import Judgement
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import over_seed_differences, over_seeds, wilson
from taskloom.experiments.table import Runs
from taskloom.papers.dyna_babi.small_stories import table3_experiments
from taskloom.papers.dyna_babi.story_runs import (
    GUESSING,
    MIX,
    STORIES,
    TEST,
    TRAITS,
    StoryTrainings,
    contrast,
    gap_text,
    judged,
    passes_text,
    story_trainings,
)

SPLITS = {"iid": TEST, "ood": MIX}
"""The paper's words for the tests: of the training data's own kind, and the compositional one."""

BEST_OF = "mean over seeds (paper: the best of 10 by dev)"


@study(
    "dyna-babi/table3",
    describe="Accuracy of models trained on bAbI 1.0 (concat), on tests of its own kind and on the compositional mixes",
    place="Dyna-bAbI, Table 3",
    experiment=table3_experiments,
    traits=TRAITS,
)
def table3(runs: Runs) -> list[Finding]:
    """Compute Table 3: iid and ood accuracy of every model on T2, T7 and T12, and the drop between them."""
    groups = story_trainings(runs, ("concat",))
    rows = [_row(group) for group in groups]
    points = ResultTable(
        ("name", "split", "mean", "low", "high", "n", "seeds", "published"),
        [p for g in groups for p in _points(g)],
    )
    seeds = sorted({len(group.seeds) for group in groups})
    caption = (
        "Accuracy of models trained on concat, on its own test (iid) and on mix (ood). Means over "
        f"{count_of(seeds, 'seed')} and {count_of((p['n'] for p in points), 'question')} with 95 % intervals: t over seeds, or "
        "over questions for a single seed. Diamonds are the paper's numbers for the model of the same kind."
    )
    main = Finding(
        "Dyna-bAbI Table 3",
        " ".join(_sentences(rows)),
        ResultTable(
            ("model", "data", "steps", "passes", "seeds", "iid", "ood", "drop", "falls"), rows
        ),
        (
            StudyFigure(
                "table3", caption, points, partial(figures.intervals, place="name", series="split")
            ),
        ),
        tuple(j for g in groups for j in _judgements(g)),
        (
            "The drop is iid - ood with its 95 % interval: t over seeds if there are several, otherwise over the questions of both "
            "tests, which says nothing about other trainings. 'falls' is yes if the interval is above 0; intervals are not "
            "corrected for the number of rows.",
            "Passes are steps times batch by the size of the training set; the paper's T5 has 12, its EntNet and STM 200.",
            STORIES,
            "The paper's EntNet and STM are the best of ten trainings by their score on dev, its other models one training.",
            *([NO_SETTINGS] if any(group.paper_model == "bidaf" for group in groups) else []),
        ),
    )
    return [main, *claim_findings("Dyna-bAbI Table 3", _claims(groups), CLAIM_RULE)]


NO_SETTINGS = "The paper does not say how its BiDAF was trained: no condition can be compared. The steps of ours are in the table."

CLAIM_RULE = (
    "Differences are on the same questions of mix, with 95 % intervals over seeds and questions; with one seed on a side over "
    "questions alone, which says nothing about other trainings."
)

FROM_SCRATCH = ("entnet", "stm", "bidaf")


def _claims(groups: Sequence[StoryTrainings]) -> Iterator[PaperClaim]:
    """Yield the paper's claim that pretrained models are better on mix, for every such pair of models."""
    for a in groups:
        for b in groups:
            from_scratch = a.paper_model in FROM_SCRATCH or random_twin(a.conditions)
            pair = from_scratch and b.paper_model in ("t5", "roberta") and a.part == b.part
            result = contrast(a, b) if pair else None
            if result is not None:
                text, measure = (
                    "pretrained models are better on mix",
                    f"mix({a.part}): {b.model} - {a.model}",
                )
                trainings = min(len(a.seeds), len(b.seeds))
                interval = (result.difference, result.low, result.high)
                yield PaperClaim(
                    text, "Table 3", measure, *interval, trainings=trainings, df=result.df
                )


def _row(group: StoryTrainings) -> dict[str, Any]:
    iid, ood = (group.scores(split) for split in SPLITS.values())
    gap, low, high = drop(iid, ood, sizes(group)) if iid and ood else (nan, nan, nan)
    return {
        "model": group.model,
        "data": group.part,
        "steps": group.conditions.get("learner.steps"),
        "passes": passes_text(group),
        "seeds": len(group.seeds),
        "iid": mean_and_sd(iid),
        "ood": mean_and_sd(ood),
        "drop": "–" if isnan(gap) else gap_text((gap, low, high)),
        "falls": _falls(low, high),
    }


def _falls(low: float, high: float) -> str:
    """Whether accuracy falls, by the interval of the drop."""
    if isnan(low):
        return "–"
    if low > 0:
        return "yes"
    return "no" if high <= 0 else "inconclusive"


def sizes(group: StoryTrainings) -> tuple[int, int]:
    """Return how many questions the two tests have."""
    answered = group.runs[group.by_seed[group.seeds[0]]].splits
    names = (group.split(name) for name in SPLITS.values())
    iid, ood = (answered[name].n if name in answered else 0 for name in names)
    return iid, ood


def drop(
    iid: Sequence[float], ood: Sequence[float], n: tuple[int, int]
) -> tuple[float, float, float]:
    """Return how much accuracy falls from one test to the other, with its 95 % interval.

    Over seeds, whose two scores belong together, where there are several; of one seed, or of seeds that all fall by the same,
    over questions, by Newcombe's interval.

    Args:
        iid: A score a seed.
        ood: The same seeds' scores.
        n: Questions of both tests.
    """
    if len(iid) > 1 and len(iid) == len(ood):
        estimate = over_seed_differences([a - b for a, b in zip(iid, ood, strict=True)])
        if not isnan(estimate.low):
            return estimate.mean, estimate.low, estimate.high
    a, b = statistics.fmean(iid), statistics.fmean(ood)
    (a_low, a_high), (b_low, b_high) = (
        wilson(share * size, size) for share, size in ((a, n[0]), (b, n[1]))
    )
    return a - b, a - b - hypot(a - a_low, b_high - b), a - b + hypot(a_high - a, b - b_low)


def _sentences(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    known = [row for row in rows if row["falls"] != "–" and row["model"] != GUESSING]
    falls = sum(row["falls"] == "yes" for row in known)
    yield f"Accuracy falls from the test of concat to mix in {falls} of {len(known)} pairs of model and task set."


def _number(group: StoryTrainings, split: str) -> PublishedNumber | None:
    numbers = published(
        "dyna-babi", "Table 3", model=group.paper_model, part=group.part, split=split
    )
    return numbers[0] if numbers and group.paper_model else None


def _points(group: StoryTrainings) -> Iterator[dict[str, Any]]:
    for (split, ending), n in zip(SPLITS.items(), sizes(group), strict=True):
        scores = group.scores(ending)
        if not scores:
            continue
        mean, number = statistics.fmean(scores), _number(group, split)
        several = over_seeds(scores, items=n) if len(scores) > 1 else None
        low, high = (several.low, several.high) if several else wilson(mean * n, n)
        yield {
            "name": f"{group.model}, {group.part}",
            "split": split,
            "mean": mean,
            "low": low,
            "high": high,
            "n": n,
            "seeds": len(scores),
            "published": number.value if number else None,
        }


def _judgements(group: StoryTrainings) -> Iterator[Judgement]:
    for split, ending in SPLITS.items():
        number, scores = _number(group, split), group.scores(ending)
        if number is not None and scores:
            extra = [BEST_OF] if group.paper_model in ("entnet", "stm") else []
            yield judged(group, scores, number, f"{group.model}, {group.part}: {split}", extra)
