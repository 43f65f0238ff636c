"""Separate codes, planted and absent: the paper's cut finds clusters in both, the absolute
criterion in one.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from taskloom.analysis.similarity import Floats, cosines, evidence, gap, paper_clusters, silhouette

FUNCTIONS = 32
GROUPS = [0] * 16 + [1] * 16


def vectors(centres: int, noise: float, seed: int) -> Floats:
    """Return a vector for each function: one of the centres, by its group, and noise."""
    rng = np.random.default_rng(seed)
    middle = rng.normal(size=(centres, 64))
    chosen = (
        middle[np.array(GROUPS) % centres]
        if centres > 1
        else middle[np.zeros(FUNCTIONS, dtype=int)]
    )
    noisy: Floats = chosen + noise * rng.normal(size=(FUNCTIONS, 64))
    return noisy


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", [0.01, 0.3])
def test_planted_clusters_are_found_by_both(seed: int, noise: float) -> None:
    matrix = cosines(vectors(2, noise, seed))
    result = evidence(matrix, GROUPS)
    assert result.clusters == 2
    assert list(paper_clusters(matrix)) == GROUPS
    assert result.separate
    assert result.group_gap > 0.5


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", [0.001, 0.1, 0.5, 3.0])
def test_where_there_are_none_the_cut_finds_some_and_the_criterion_none(
    seed: int, noise: float
) -> None:
    result = evidence(cosines(vectors(1, noise, seed)), GROUPS)
    assert result.clusters >= 2
    assert not result.separate
    assert result.codes == ("one" if noise < 0.3 else "scattered" if noise > 1 else result.codes)
    assert abs(result.group_gap) < 0.1


def test_a_sharp_border_between_almost_equal_vectors_is_no_separate_code() -> None:
    """Two points very close together: the silhouette is perfect, and nothing would take one for
    another symbol.
    """
    centre = np.ones(8)
    points = np.array([centre, centre + 0.05 * np.arange(8)])[np.array(GROUPS)]
    points += 1e-6 * np.random.default_rng(0).normal(size=points.shape)
    result = evidence(cosines(points), GROUPS)
    assert result.silhouette > 0.9
    assert not result.separate


def test_clusters_need_not_be_the_groups() -> None:
    """Part of group a has a code of its own, as the paper's symbol 3: separate codes, and less of a
    gap between groups.
    """
    rng = np.random.default_rng(3)
    middle = rng.normal(size=(2, 64))
    own = np.array([0] * 8 + [1] * 24)
    result = evidence(cosines(middle[own] + 0.05 * rng.normal(size=(FUNCTIONS, 64))), GROUPS)
    assert result.separate
    assert result.group_gap < result.gap / 2


def test_equal_vectors_are_one_cluster() -> None:
    result = evidence(cosines(np.ones((6, 4))), [0, 0, 0, 1, 1, 1])
    assert (result.clusters, result.separate) == (1, False)
    assert abs(result.group_gap) < 1e-9


def test_silhouette_by_hand() -> None:
    """Two pairs: distance 0.1 within, 0.9 between, so every item has (0.9 - 0.1) / 0.9; an item
    alone counts 0.
    """
    matrix = np.full((4, 4), 0.1)
    matrix[:2, :2] = matrix[2:, 2:] = 0.9
    np.fill_diagonal(matrix, 1.0)
    assert silhouette(matrix, np.array([0, 0, 1, 1])) == pytest.approx(0.8 / 0.9)
    assert silhouette(matrix, np.array([0, 0, 0, 0])) == 0.0
    assert gap(matrix, [0, 0, 1, 1]) == pytest.approx(0.8)


def test_short_vectors_do_not_divide_by_zero() -> None:
    assert np.isfinite(cosines(np.zeros((3, 4)))).all()


def test_the_criterion_has_the_power_that_the_record_states(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One in four planted groups at 0.6 within and 0.2 between is found, and nearly all that are
    closer.
    """
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    from ctlpp_cluster_power import WORLDS, detected

    shares = [detected(world, 100)["separate"] for world in WORLDS]
    none, none_close, groups, halves, _, closer, closer_halves = shares
    assert max(none, none_close) <= 0.04
    assert 0.15 <= groups <= 0.45
    assert 0.05 <= halves <= 0.35
    assert min(closer, closer_halves) >= 0.9
