"""Golden digests of the stories: their rows are the same bytes in every release of a version of the
suite.
"""

from __future__ import annotations

from hashlib import blake2b

import pytest

from tests.suites.babi.generator.generated import plan_of

GOLDEN = {
    "1": "1908c6bbee8a7b33",
    "3": "3472a19aaf9fb045",
    "8": "ee77800c1437f9f3",
    "concat-T7": "1132bc6ee9590211",
    "diverse-T7": "005d70806b902688",
    "diverse-T12": "3d590e5408f550cd",
    "double-disjunctions": "6d314e74d698d01e",
    "inject-T12": "8b8a54c37dc7130a",
    "mix-T7": "4bffd02889204dc1",
    "mix-T12": "8187b07ea23044f5",
    "phrasing-T12-where": "3901bc0ee5175ecc",
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_digests(name: str) -> None:
    """A change here means other data for everybody: raise the suite's version."""
    digest = blake2b(digest_size=8)
    for split in plan_of(name).splits:
        for e in split.rows(0, min(60, split.n)):
            steps = [(step.rule, step.value, step.of) for step in e.derivation]
            row = (e.input, e.targets, list(e.traits.items()), e.key, e.question, steps, e.task)
            digest.update(repr(row).encode())
    assert digest.hexdigest() == GOLDEN[name]
