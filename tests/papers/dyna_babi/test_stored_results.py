"""What the pages say of Dyna-bAbI at the paper's passes, recomputed from the stored answers by
independent code: SciPy, and no statistics of the package.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

FOLDER = Path(__file__).parents[3] / "docs" / "results" / "dyna-babi"
RECORD = FOLDER.parent / "dyna-babi-record.md"
PASSES, EARLIER = FOLDER / "passes" / "scores.json", FOLDER / "scores.json"

Answers = tuple[NDArray[np.float64], list[dict[str, Any]]]
"""Right answers [seeds, questions], and the traits of each question."""


def group_of(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The stored training of SmolLM2 on diverse(T7), and all items of its file."""
    stored = json.loads(file.read_text(encoding="utf-8"))
    (group,) = (
        group
        for group in stored["groups"]
        if group["recipe"] == "babi/diverse-T7" and group["learner"] == "fine-tune"
    )
    return group, stored["items"]


def answers(file: Path, split: str) -> Answers:
    """Compare the stored texts with the gold answers; stored scores are not read."""
    group, items = group_of(file)
    table = items[group["items"][split]]
    kinds = [dict(zip(table["traits"], kind, strict=True)) for kind in table["kinds"]]
    questions = [kinds[place] for place in table["of"]]
    said = [group["answers"][seed][split]["predictions"] for seed in sorted(group["answers"])]
    right = [
        [
            float(group["texts"][text] == question["answer"])
            for text, question in zip(own, questions, strict=True)
        ]
        for own in said
    ]
    return np.array(right), questions


def gained(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[float, float, float]:
    """Difference b - a with its interval over independent seeds and shared questions.

    A side's mean varies over seeds by at least the noise of its single answers. The variance of
    the differences of questions is added as far as it exceeds that noise.
    """
    noise, seeds, df = [], [], []
    for side in (a, b):
        k, n = side.shape
        left = side - side.mean(axis=0) - side.mean(axis=1, keepdims=True) + side.mean()
        noise.append((left**2).sum() / ((k - 1) * (n - 1)) / (k * n))
        seeds.append(stats.sem(side.mean(axis=1)) ** 2)
        df += [k - 1, (k - 1) * (n - 1)]
    gaps = b.mean(axis=0) - a.mean(axis=0)
    questions = stats.sem(gaps) ** 2
    rest = sum(noise)
    variance = sum(map(max, seeds, noise)) + max(questions, rest) - rest
    parts = [(seeds[0], df[0]), (noise[0], df[1]), (seeds[1], df[2]), (noise[1], df[3])]
    spread = sum(v**2 / d for v, d in [*parts, (questions, len(gaps) - 1)])
    half = stats.t.ppf(0.975, max(1.0, variance**2 / spread)) * np.sqrt(variance)
    mean = float(gaps.mean())
    return mean, mean - half, mean + half


def said(text: str, numbers: tuple[float, ...]) -> bool:
    """True if a text has a mean with its interval, to three decimals."""
    shown = [f"{number:.3f}".replace("-", "−") for number in numbers]
    return f"{shown[0]} [{shown[1]}, {shown[2]}]" in text


def section() -> str:
    text = RECORD.read_text(encoding="utf-8")
    begin = text.index("### Diverse stories at the paper's passes")
    return text[begin : text.index("### Figure 3")]


@pytest.mark.parametrize("split", ["mix", "test"])
def test_stored_scores_are_those_of_the_stored_texts(split: str) -> None:
    group, _ = group_of(PASSES)
    right, _ = answers(PASSES, split)
    assert right.mean(axis=1) == pytest.approx([group["seeds"][s][split] for s in "012"])
    final = [{(step, name): y for step, name, y in group["curves"][s]} for s in "012"]
    assert right.mean(axis=1) == pytest.approx([points[792, split] for points in final])


def test_the_gain_from_more_passes_is_that_of_the_page() -> None:
    before, asked = answers(EARLIER, "mix")
    after, asked_again = answers(PASSES, "mix")
    assert asked == asked_again
    assert group_of(EARLIER)[0]["data"] == group_of(PASSES)[0]["data"]
    assert said(section(), gained(before, after))


@pytest.mark.parametrize("split", ["mix", "test"])
def test_the_gain_from_the_sixth_pass_on_is_that_of_the_page(split: str) -> None:
    group, _ = group_of(PASSES)
    curves = [{(step, name): y for step, name, y in group["curves"][s]} for s in "012"]
    changes = np.array([curve[792, split] - curve[396, split] for curve in curves])
    low, high = stats.t.interval(0.95, 2, changes.mean(), stats.sem(changes))
    assert said(section(), (float(changes.mean()), low, high))


def test_distances_from_the_paper_are_those_of_the_page() -> None:
    right, questions = answers(PASSES, "mix")
    many = np.array([int(question["support"]) >= 3 for question in questions])
    for kept, published in ((np.ones(len(many), bool), 0.958), (many, 0.9384)):
        distance = published - right[:, kept].mean()
        assert f"{distance:.3f} [" in section()


def test_the_chosen_rate_has_the_best_dev_accuracy() -> None:
    groups = json.loads((FOLDER / "passes" / "rates.json").read_text(encoding="utf-8"))["groups"]
    dev = {group["fields"]["learner.rate"]: group["seeds"]["9"]["dev"] for group in groups}
    assert max(dev, key=dev.__getitem__) == group_of(PASSES)[0]["fields"]["learner.rate"]
    for rate, score in dev.items():
        assert f"{score:.3f}" in section(), rate
