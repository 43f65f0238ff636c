"""Table 3 and Figures 3 and 5 from made-up scores with a planted line, and without one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from taskloom.analysis import figures
from taskloom.analysis.finding import Finding, PaperClaim, difference_claim
from taskloom.analysis.published_numbers import PublishedNumber
from taskloom.analysis.study import StudyError, analyse
from taskloom.analysis.verdict import judge_estimate
from taskloom.experiments.table import Runs
from taskloom.papers.taskbench500.task_regression import r2_interval, regress
from tests.analysis.made_up_scores import made_up
from tests.papers.taskbench500.made_up_tasks import adapted, chains, constant, with_r2

RNG = np.random.default_rng(3)


def planted(folder: Path, r2: float, slope: float = 1.3, intercept: float = 0.05) -> Runs:
    """Return atomic tasks, and chains that follow from them with this r²."""
    tasks = chains()
    atoms = {atom: float(RNG.uniform(0, 0.6)) for _, parts in tasks for atom in parts}
    x = [sum(atoms[a] for a in parts) / len(parts) for _, parts in tasks]
    y = with_r2(x, slope, intercept, r2)
    groups = [adapted(atom, score) for atom, score in atoms.items()]
    groups += [adapted(t, float(v)) for (t, _), v in zip(tasks, y, strict=True)]
    # Constants that have nothing to do with the scores: what the parts explain, they explain beside
    # them too.
    groups += [
        constant(name, float(RNG.uniform(0, 0.01))) for name in (*atoms, *(t for t, _ in tasks))
    ]
    return made_up(folder, *groups)


def table3(runs: Runs) -> dict[str, Finding]:
    """Return the findings of Table 3 by what follows the name of the table."""
    findings = analyse("taskbench500/table3", runs)[2]
    return {
        finding.title.removeprefix("TaskBench500 Table 3").strip(": "): finding
        for finding in findings
    }


CONSTANT, PLAIN, ANSWERS, CLAIMS = (
    "beside the best constant answer",
    "plain lines",
    "beside the number of answers",
    "the paper's claims",
)


def row(finding: Finding, **values: Any) -> dict[str, Any]:
    assert finding.table is not None
    (match,) = [r for r in finding.table if all(r[k] == v for k, v in values.items())]
    return dict(match)


def test_a_planted_r2_comes_out_with_its_slope_and_intercept(tmp_path: Path) -> None:
    found = table3(planted(tmp_path, 0.8))
    line = row(found[PLAIN], composition="chain")
    assert line["r²"].startswith("0.80 [")
    assert line["slope"].startswith("1.30 [")
    assert line["intercept"] == "+0.050"
    assert {claim["outcome"] for claim in found[CLAIMS].table or ()} == {"holds"}


def test_a_relation_is_not_found_where_none_is(tmp_path: Path) -> None:
    found = table3(planted(tmp_path, 0.001, 0.02, 0.4))
    assert row(found[PLAIN], composition="chain")["r²"].startswith("0.00 [0.00,")
    assert {claim["outcome"] for claim in found[CLAIMS].table or ()} == {"does not hold"}


def test_few_of_400_lines_without_a_relation_seem_to_have_one() -> None:
    rng = np.random.default_rng(0)
    pairs = rng.uniform(size=(400, 2, 30))
    significant = [regress(x, y).significant for x, y in pairs]
    assert 0.02 < np.mean(significant) < 0.09
    covered = [
        regress(x, 0.7 * x + e).slope_low <= 0.7 <= regress(x, 0.7 * x + e).slope_high
        for x, e in pairs
    ]
    assert 0.91 < np.mean(covered) < 0.985


def test_intervals_of_r2_hold_the_true_one_as_often_as_they_say() -> None:
    """400 samples of 30 points with a true r² of 0.5; beside a covariate that has nothing to do
    with it as well.
    """
    rng = np.random.default_rng(1)
    x, noise, other = rng.standard_normal((3, 400, 30))
    lines = [regress(a, a + b) for a, b in zip(x, noise, strict=True)]
    beside = [regress(a, a + b, c) for a, b, c in zip(x, noise, other, strict=True)]
    for fits in (lines, beside):
        assert 0.92 < np.mean([fit.r2_low <= 0.5 <= fit.r2_high for fit in fits]) < 0.98


def pairs_of(atoms: int, tasks: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Return composed tasks as pairs of different atomic parts, of which a few are in many."""
    weights = 1 / np.arange(1, atoms + 1)
    drawn = [rng.choice(atoms, 2, replace=False, p=weights / weights.sum()) for _ in range(tasks)]
    return [(f"f{a}", f"f{b}") for a, b in drawn]


def test_intervals_of_r2_hold_the_true_one_where_tasks_share_parts() -> None:
    """Parts have effects of their own on what is composed of them: 57 unions of 28 parts are fewer
    than 57 points.
    """
    rng = np.random.default_rng(2)
    covered: dict[str, list[bool]] = {"parts": [], "points": []}
    for _ in range(150):
        tasks = pairs_of(28, 57, rng)
        score, own = (
            {f"f{i}": value for i, value in enumerate(rng.normal(0, sd, 28))} for sd in (1.0, 0.8)
        )
        x = [(score[a] + score[b]) / 2 for a, b in tasks]
        y = [
            v + (own[a] + own[b]) / 2 + rng.normal(0, 0.1)
            for v, (a, b) in zip(x, tasks, strict=True)
        ]
        true = 0.5 / (0.5 + 0.5 * 0.8**2 + 0.01)
        for how, parts in (("parts", tasks), ("points", None)):
            line = regress(x, y, parts=parts)
            covered[how].append(line.r2_low <= true <= line.r2_high)
    assert np.mean(covered["points"]) < 0.8
    assert np.mean(covered["parts"]) > 0.88


def test_where_every_point_is_its_own_part_the_intervals_are_nearly_those_of_points() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=60).tolist()
    y = [value + 0.5 * rng.normal() for value in x]
    points, parts = regress(x, y), regress(x, y, parts=[(str(i),) for i in range(60)])
    assert (parts.r2, parts.slope) == (points.r2, points.slope)
    assert parts.r2_low == pytest.approx(points.r2_low, abs=0.08)
    assert parts.slope_high == pytest.approx(points.slope_high, abs=0.08)


def test_a_relation_that_one_part_makes_is_not_called_certain() -> None:
    """Ten tasks share the one part that scores; without it nothing is left."""
    rng = np.random.default_rng(5)
    tasks = [("good", f"f{i}") for i in range(10)] + [(f"f{i}", f"f{i + 1}") for i in range(40)]
    x = [0.4 + rng.normal(0, 0.02) if "good" in own else rng.normal(0.05, 0.02) for own in tasks]
    y = [0.5 + rng.normal(0, 0.05) if "good" in own else rng.normal(0.1, 0.05) for own in tasks]
    points, parts = regress(x, y), regress(x, y, parts=tasks)
    assert points.r2_low > 0.5
    assert parts.r2_low < 0.5


def test_as_many_points_as_weights_explain_nothing() -> None:
    """Any three points lie on the plane through them."""
    assert math.isnan(regress([0.1, 0.2, 0.4], [0.9, 0.1, 0.5], [1.0, 2.0, 5.0]).r2)
    assert regress([0.1, 0.2, 0.4], [0.9, 0.1, 0.5]).r2 < 1


def test_a_claim_that_a_number_is_small_holds_where_it_is() -> None:
    small, large, wide = ((0.1, 0.0, 0.2), (0.8, 0.7, 0.9), (0.5, 0.3, 0.7))
    outcomes = [
        PaperClaim("r² < 0.5", "", "", *ends, limit=0.5, below=True).outcome()
        for ends in (small, large, wide)
    ]
    assert outcomes == ["holds", "does not hold", "inconclusive"]
    outcomes = [
        PaperClaim("r² > 0.5", "", "", *ends, limit=0.5).outcome() for ends in (small, large, wide)
    ]
    assert outcomes == ["does not hold", "holds", "inconclusive"]


def test_a_claim_that_two_are_alike_holds_where_their_difference_is_small() -> None:
    alike, apart, wide = ((0.01, -0.02, 0.04), (-0.2, -0.3, -0.1), (0.01, -0.1, 0.1))
    outcomes = [
        PaperClaim("alike", "", "", *ends, within=0.05).outcome() for ends in (alike, apart, wide)
    ]
    assert outcomes == ["holds", "does not hold", "inconclusive"]
    assert (
        PaperClaim("alike", "", "", *alike, within=0.05, trainings=1).outcome()
        == "holds in one training"
    )


def test_numbers_are_judged_beside_the_papers(tmp_path: Path) -> None:
    main = table3(planted(tmp_path, 0.65, 1.32, 0.15))[PLAIN]
    verdicts = {j.claim: j.verdict for j in main.judgements}
    assert verdicts["chain, FPT: slope"] != "disagrees"
    assert "not comparable" not in verdicts.values()
    far = table3(planted(tmp_path, 0.05, 0.1, 0.4))[PLAIN]
    assert {j.claim: j.verdict for j in far.judgements}["chain, FPT: r²"] == "disagrees"


def test_another_model_is_not_compared_with_the_papers_numbers(tmp_path: Path) -> None:
    smaller = {"learner.model": "smollm2"}
    groups = [adapted(a, 0.3, fields=smaller) for a in ("antonyms[eng]", "hyponyms[eng]")]
    runs = made_up(
        tmp_path, *groups, adapted("chain(antonyms[eng], hyponyms[eng])", 0.4, fields=smaller)
    )
    main = table3(runs)[PLAIN]
    assert {j.verdict for j in main.judgements} == {"not comparable"}
    assert "model SmolLM2-135M (paper: T5-base)" in main.judgements[0].conditions


def test_what_only_the_number_of_answers_explains_is_not_put_down_to_the_parts(
    tmp_path: Path,
) -> None:
    """Scores of chains and of their parts both follow the number of answers, and nothing else."""
    tasks = chains()
    sizes = np.exp(RNG.uniform(0, 4, len(tasks)))
    groups: list[dict[str, Any]] = []
    known: set[str] = set()
    for (task, parts), size in zip(tasks, sizes, strict=True):
        noise = RNG.normal(0, 0.02, 2)
        if not known & set(parts):
            known |= set(parts)
            groups += [
                adapted(atom, 0.1 + 0.1 * np.log(size) + float(noise[0]))
                for atom in dict.fromkeys(parts)
            ]
            groups.append(
                adapted(
                    task,
                    0.1 + 0.1 * np.log(size) + float(noise[1]),
                    further={"answers": float(size)},
                )
            )
    line = row(table3(made_up(tmp_path, *groups))[ANSWERS], composition="chain")
    assert float(line["r² of parts"].split()[0]) > 0.9
    assert float(line["r² beside answers"].split("[")[1].split(",")[0]) == 0.0


def maps(folder: Path) -> Runs:
    """Return words, their maps that score as the words with separators and nothing without, and the
    public code's scores.
    """
    atoms = {
        f"{name}[eng]": 0.1 + 0.2 * i
        for i, name in enumerate(("antonyms", "entailments", "hyponyms", "synonyms"))
    }
    groups = [adapted(atom, score) for atom, score in atoms.items()]
    for separators in (False, True):
        fields = {"recipe.sequences.separators": separators}
        for atom, score in atoms.items():
            own = score if separators else 0.02
            further = {"reference-compatible": own / 2}
            groups.append(adapted(f"map({atom})", own, fields=fields, further=further))
            groups.append(constant(f"map({atom})", 0.01, fields))
    return made_up(folder, *groups, *(constant(atom, 0.01) for atom in atoms))


def test_separators_and_ways_of_scoring_stand_side_by_side(tmp_path: Path) -> None:
    found = table3(maps(tmp_path))
    main = found[PLAIN]
    assert row(main, composition="map (+separators)", scoring="right")["r²"].startswith("1.00")
    assert row(main, composition="map (+separators)", scoring="reference-compatible")[
        "slope"
    ].startswith("0.50")
    assert row(main, composition="map", scoring="right")["r²"] == "–"
    assert any("0.020 by right scoring and 0.010 as the public code" in note for note in main.notes)
    excess = row(found[CONSTANT], composition="map (+separators)")
    assert (excess["mean"], excess["best constant"]) == ("0.400", "0.010")
    assert excess["r² of excess"].startswith("1.00")
    outcomes = {
        r["measure"]: r["outcome"]
        for r in found[CLAIMS].table or ()
        if "map with sep" in r["claim"]
    }
    assert outcomes["r² of excess, FPT, 4 tasks"] == "holds"


def test_full_fine_tuning_with_separators_is_the_papers_exception(tmp_path: Path) -> None:
    """The paper says of it that composed tasks do not follow; here they do."""
    atoms = {
        f"{name}[eng]": 0.1 + 0.2 * i
        for i, name in enumerate(("antonyms", "entailments", "hyponyms", "synonyms"))
    }
    apart = {"recipe.sequences.separators": True}
    groups = [adapted(atom, score, "lora") for atom, score in atoms.items()]
    groups += [
        adapted(f"map({atom})", score, "lora", fields=apart) for atom, score in atoms.items()
    ]
    groups += [constant(atom, 0.0) for atom in atoms] + [
        constant(f"map({atom})", 0.0, apart) for atom in atoms
    ]
    claims = list(table3(made_up(tmp_path, *groups))[CLAIMS].table or ())
    assert {claim["claim"] for claim in claims} == {
        "map with separators: composed does not follow from atomic (r² < 0.5)"
    }
    assert {claim["measure"]: claim["outcome"] for claim in claims}[
        "r² of excess, FFT, 4 tasks"
    ] == "does not hold"


def test_the_figures_have_a_point_for_every_task_and_say_how_many(tmp_path: Path) -> None:
    (finding,) = analyse("taskbench500/figure5", maps(tmp_path))[2]
    (figure,) = finding.figures
    assert len(figure.data) == 8
    assert "n = 4 for each line" in figure.caption
    drawing = figures.svg(figure.draw(figure.data))
    assert "map (+separators): r² 1.00" in drawing
    assert (
        sum("score more as sequences than as words" in note for note in finding.notes) == 2
    )  # a line each
    (all_of_them,) = analyse("taskbench500/figure3", maps(tmp_path))[2]
    assert len(all_of_them.figures[0].data) == 8


def test_composed_tasks_without_their_parts_are_refused(tmp_path: Path) -> None:
    runs = made_up(tmp_path, adapted("chain(antonyms[eng], hyponyms[eng])", 0.4))
    with pytest.raises(StudyError, match="no composed task whose atomic parts have runs"):
        analyse("taskbench500/table3", runs)


def test_a_claim_rests_on_parts_where_tasks_share_them() -> None:
    """One part makes the difference: it is one observation, however many tasks have it."""
    parts = [("a", name) for name in "bcdefgh"] + list(zip("bcdefgh", "cdefghb", strict=True))
    more = [0.30, 0.32, 0.31, 0.33, 0.29, 0.30, 0.31, 0.01, 0.0, 0.01, 0.0, 0.01, 0.0, 0.01]
    less = [0.0] * len(more)
    outcomes = [
        difference_claim("", "", "", more, less, paired=True, parts=own).outcome()
        for own in (None, parts)
    ]
    assert outcomes == ["holds", "inconclusive"]
    assert (
        difference_claim("", "", "", less, less, paired=True, within=0.05).outcome()
        == "inconclusive"
    )


def test_differences_of_r2_to_published_ones_are_covered() -> None:
    """Two draws of the same kind of tasks, 57 unions of 28 parts with effects of their own; theirs
    has Fisher's interval.
    """
    rng, times = np.random.default_rng(3), 120
    covered = disagree = 0
    for _ in range(times):
        x, y, parts = _unions(rng)
        line = regress(x, y, parts=parts)
        theirs_x, theirs_y, _ = _unions(rng)
        theirs = round(float(np.corrcoef(theirs_x, theirs_y)[0, 1] ** 2), 2)
        number = PublishedNumber("made-up", "Table 3", {}, theirs, None, 57)
        judged = judge_estimate(
            line.r2, (line.r2_low, line.r2_high), 57, number, r2_interval(theirs, 57)
        )
        covered += judged.difference_low <= 0 <= judged.difference_high
        disagree += judged.verdict == "disagrees"
    assert covered / times >= 0.94
    assert disagree / times <= 0.06


def _unions(rng: np.random.Generator) -> tuple[list[float], list[float], list[tuple[str, str]]]:
    """Scores of unions against the mean of their two parts; parts are easier or harder to combine
    by an effect of their own.
    """
    scores, effects = rng.beta(0.6, 1.2, 28), rng.normal(0, 0.05, 28)
    x, y, parts = [], [], []
    for _ in range(57):
        a, b = rng.choice(28, 2, replace=False)
        x.append(float(scores[[a, b]].mean()))
        noise = rng.normal(0, 0.1) + effects[[a, b]].mean()
        y.append(float(np.clip(0.8 * x[-1] + noise, 0, 1)))
        parts.append((str(a), str(b)))
    return x, y, parts
