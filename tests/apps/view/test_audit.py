"""The certificate beside the data: made on request, in a process of its own, for these bytes and no
others.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import taskloom as tl
from taskloom.apps.view.dataset_pages import certificate_page
from taskloom.apps.view.datasets import open_dataset
from taskloom.apps.view.folders import ViewedFolders
from taskloom.apps.view.server import application
from taskloom.apps.view.state import audit_key
from tests.apps.view.hostile import EXAMPLES, SCRIPT, TRAITS, assert_harmless, write_dataset


def test_a_dataset_is_audited_on_request(tmp_path: Path) -> None:
    write_dataset(tmp_path / "mine", EXAMPLES, TRAITS)
    app = application([tmp_path])
    with TestClient(app, base_url="http://127.0.0.1") as viewer:
        name = next(f.name for f in ViewedFolders([tmp_path]).every())
        assert "Audit this dataset" in viewer.get(f"/data/{name}").text
        page = viewer.post(f"/data/{name}/audit")
        assert "The audit is running" in page.text
        end = time.monotonic() + 60
        while "The audit is running" in page.text and time.monotonic() < end:
            time.sleep(0.2)
            page = viewer.get(f"/data/{name}/audit")
        assert "leaks were not looked for" in page.text
        assert_harmless(page.text)
    app.state.viewer.close()


def test_only_pages_of_the_viewer_may_begin_an_audit(tmp_path: Path) -> None:
    write_dataset(tmp_path / "mine", EXAMPLES, TRAITS)
    with TestClient(application([tmp_path]), base_url="http://127.0.0.1:8640") as viewer:
        name = next(f.name for f in ViewedFolders([tmp_path]).every())
        for headers in (
            {"origin": "http://evil.example"},
            {"origin": "null"},
            {"sec-fetch-site": "cross-site"},
        ):
            assert viewer.post(f"/data/{name}/audit", headers=headers).status_code == 403
        assert "Audit this dataset" in viewer.get(f"/data/{name}").text


def test_a_certificate_belongs_to_the_bytes_that_were_audited(tmp_path: Path) -> None:
    one = write_dataset(tmp_path / "one", EXAMPLES, TRAITS)
    other = write_dataset(tmp_path / "other", EXAMPLES[:3], TRAITS)
    (other / "manifest.json").write_bytes(
        (one / "manifest.json").read_bytes().replace(b'"n": 6', b'"n": 3')
    )
    keys = [audit_key(open_dataset(folder)) for folder in ViewedFolders([tmp_path]).every()]
    assert len(set(keys)) == 2


@pytest.mark.parametrize("leak", [False, True])
def test_a_certificate_says_what_the_audit_found(leak: bool) -> None:
    data = tl.make("ctl/A-independent", set={"splits": {"train": {"n": 600}, "ood": {"n": 30}}})
    found = tl.audit(data).to_dict() | {"failed": leak, "misplaced": []}
    if leak:
        overlap = {
            "split": SCRIPT,
            "other": "train",
            "exact": 7,
            "near": 0,
            "share": 0.5,
            "leak": True,
        }
        found |= {"overlaps": [overlap | {"by_design": False, "examples": [SCRIPT]}]}
        found["leaks"] = found["overlaps"]
    page = certificate_page(found)
    assert page.passed is not leak
    assert page.verdict.startswith("1 leaks" if leak else "0 leaks")
    titles = {table.title: table for table in page.tables}
    assert titles["Duplicates within splits, balance of the answers"].cells[0][:3] == (
        "train",
        "train",
        "600",
    )
    if leak:
        assert titles["Overlaps between splits"].marks == ("bad",)
        assert "LEAK" in titles["Overlaps between splits"].cells[0]
