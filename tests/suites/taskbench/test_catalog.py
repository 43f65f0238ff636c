from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from taskloom.suites.taskbench.catalog import catalog, select


def test_the_catalog_is_that_of_the_paper(shared: Path) -> None:
    theirs = {t["expr"]: t for t in json.loads((shared / "taskbench-tasks.json").read_text())["tasks"] if t["expr"]}
    ours = {t.expression: t for t in catalog()}
    assert ours.keys() == theirs.keys()
    for expression, task in ours.items():
        listed = theirs[expression]
        assert task.composition == listed["composition"]
        assert task.family == listed["family"]
        assert list(task.operands) == [name.removesuffix(".inv") for name in listed["operands"]]
        assert task.same_as == (listed.get("equivalent_to") or "")
        assert task.printed == (listed["status"] in ("listed", "recovered"))


def test_counts_of_the_papers_tables() -> None:
    wanted = {"atomic": 75, "chain": 67, "union": 57, "intersection": 3, "land": 6, "lor": 16}
    wanted |= {"map": 205, "filter": 7, "map_filter": 63}
    assert Counter(t.composition for t in catalog()) == wanted
    assert sum("factual" not in t.families for t in catalog()) == 211
    assert sum(bool(t.same_as) for t in catalog()) == 3


def test_select() -> None:
    assert len(select(["lexical", "random", "factual"], ["lor"])) == 13
    assert [t.expression for t in select(["random"], ["atomic"])] == [f"random{k}[eng]" for k in range(4)]
    assert all("random" not in t.families for t in select(["lexical"], ["union"]))
