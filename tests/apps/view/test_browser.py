"""The viewer in a real browser: `make test-browser`, with Debian's Chromium and Playwright. Skipped
where they are not there.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import taskloom as tl
from taskloom.apps.view.folders import ViewedFolders
from taskloom.apps.view.server import application, listen
from taskloom.experiments.execute.driver import Claims
from tests.apps.view.hostile import EXAMPLES, TRAITS, write_dataset
from tests.apps.view.hostile_runs import fill

playwright = pytest.importorskip(
    "playwright.sync_api", reason="make test-browser installs Playwright"
)

CHROMIUM = (
    os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or ""
)

pytestmark = pytest.mark.skipif(
    not CHROMIUM, reason="needs Chromium: apt install chromium, or CHROMIUM=path"
)


@dataclass(frozen=True, slots=True)
class Served:
    """A viewer that listens on a port, with what it shows."""

    address: str
    folder: Path
    names: dict[str, str]
    runs: dict[str, list[str]]

    def pages(self) -> dict[str, str]:
        """Return an address of every kind of page."""
        runs, run = f"/runs/{self.names['runs']}", self.runs["weak"][0]
        return {
            "home": "/",
            "suite": "/suite?name=babi",
            "recipe": "/recipe?name=babi/15",
            "form": "/recipe/new?suite=ctl&from=ctl/A-independent",
            "form with long defaults": "/recipe/new?suite=babi",
            "dataset": f"/data/{self.names['ctl']}",
            "rows": f"/data/{self.names['ctl']}/rows?split=train&trait.length=3",
            "chain": f"/data/{self.names['ctl']}/example?split=ood&index=3",
            "story": f"/data/{self.names['babi']}/example?split=test&index=1",
            "tree": f"/data/{self.names['hostile']}/example?index=2",
            "hostile rows": f"/data/{self.names['hostile']}/rows",
            "store": runs,
            "run": f"{runs}/run?run={run}",
            "predictions": f"{runs}/predictions?run={run}&split=test&by=length",
            "compare": f"{runs}/compare?a={run}&b={self.runs['strong'][0]}&split=test&by=length",
            "heat": f"{runs}/heat?split=test&x=length&y=task",
            "error": "/data/none",
        }


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    import uvicorn

    base = tmp_path_factory.mktemp("browsed")
    tl.make(
        "ctl/A-independent", base / "ctl", set={"splits": {"train": {"n": 600}, "ood": {"n": 60}}}
    )
    tl.make("babi/15", base / "babi", set={"splits": {"train": 8, "test": 8}})
    write_dataset(base / "hostile", EXAMPLES, TRAITS)
    runs = fill(base / "runs")
    app = application([base])
    listening = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    names = {one.path.name: one.name for one in ViewedFolders([base]).every()}
    yield Served(f"http://127.0.0.1:{listening.getsockname()[1]}", base, names, runs)
    server.should_exit = True
    thread.join(10)
    app.state.viewer.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Any, served: Served) -> Iterator[Any]:
    """A page that fails the test on any dialog, refused resource or error of a script."""
    context = browser.new_context(base_url=served.address, viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    faults: list[str] = []
    _note_dialogs(tab, faults)
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.on(
        "console", lambda message: faults.append(message.text) if message.type == "error" else None
    )
    yield tab
    context.close()
    assert [fault for fault in faults if "Failed to load resource" not in fault] == []


def _note_dialogs(tab: Any, dialogs: list[str]) -> None:
    def note(dialog: Any) -> None:
        dialogs.append(f"dialog {dialog.message}")
        dialog.dismiss()

    tab.on("dialog", note)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_every_page_fits_is_accessible_and_executes_nothing(
    browser: Any, served: Served, width: int, scheme: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    context = browser.new_context(
        base_url=served.address,
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        bypass_csp=True,
    )
    tab = context.new_page()
    dialogs: list[str] = []
    _note_dialogs(tab, dialogs)
    problems = []
    for name, address in served.pages().items():
        tab.goto(address, wait_until="networkidle")
        if tab.evaluate("document.documentElement.scrollWidth") > width:
            problems.append(f"{name} is wider than the window")
        for violation in axe.run(tab).response["violations"]:
            if violation["impact"] in ("serious", "critical"):
                nodes = [node["html"][:120] for node in violation["nodes"][:2]]
                problems.append(f"{name}: {violation['id']}: {nodes}")
    context.close()
    assert problems == []
    assert dialogs == []


def test_a_proof_is_lit_step_by_step(page: Any, served: Served) -> None:
    page.goto(served.pages()["story"])
    assert page.locator(".sentences .lit").count() == 2
    page.get_by_role("button", name="Step forward").click()
    assert page.locator(".sentences .lit").count() == 1
    assert page.locator(".sentences .now").count() == 1
    page.get_by_role("button", name="Step forward").click()
    assert page.locator(".sentences .lit").count() == 2
    page.get_by_role("button", name="Whole proof").click()
    assert page.locator(".sentences .now").count() == 0


def test_keys_lead_to_the_neighbours_and_to_the_search(page: Any, served: Served) -> None:
    page.goto(served.pages()["chain"])
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**index=4")
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**index=3")
    page.goto(served.pages()["rows"])
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"


def test_going_back_finds_the_page_as_it_was(page: Any, served: Served) -> None:
    page.goto(f"/data/{served.names['ctl']}/rows?split=train")
    page.locator('[name="trait.length"]').select_option("4")
    page.get_by_role("button", name="Filter").click()
    shown = page.locator(".row-text").all_inner_texts()
    page.locator(".row").first.click()
    page.wait_for_url("**/example?**")
    page.go_back()
    assert page.locator(".row-text").all_inner_texts() == shown
    assert page.locator('[name="trait.length"]').input_value() == "4"


def test_the_form_is_checked_and_previewed_as_one_types(page: Any, served: Served) -> None:
    page.goto(served.pages()["form"])
    page.wait_for_selector("#preview .notice.good", timeout=30_000)
    page.get_by_label("Max length", exact=True).fill("many")
    page.wait_for_selector("#preview .notice.bad", timeout=30_000)
    assert "has-problem" in page.locator('[data-field="max_length"]').get_attribute("class")
    page.get_by_label("Max length", exact=True).fill("5")
    page.wait_for_selector("#preview .notice.good", timeout=30_000)
    assert "max_length: 5" in page.locator("#preview-yaml").text_content()
    assert "--set max_length=5" in page.locator("#preview-command").inner_text()
    page.get_by_label("Max length", exact=True).press("Enter")
    assert "f.max_length=5" in page.url


def test_the_preview_can_be_folded_on_a_phone(page: Any, served: Served) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(served.pages()["form"])
    page.wait_for_selector("#preview .notice.good", timeout=30_000)
    copy = page.get_by_role("button", name="Copy the command")
    assert copy.is_visible()
    page.get_by_role("button", name="Hide").click()
    assert page.locator("#preview").bounding_box()["height"] < 80
    assert copy.is_visible()
    page.get_by_label("Max length", exact=True).fill("5")
    page.wait_for_selector("#preview-yaml:has-text('max_length: 5')", state="attached")
    assert page.locator("#preview .notice.good").is_hidden(), "it stays folded"
    page.get_by_role("button", name="Show", exact=True).click()
    assert page.locator("#preview .notice.good").is_visible()


def test_the_group_that_is_opened_is_previewed_first(page: Any, served: Served) -> None:
    page.goto("/recipe/new?suite=babi&from=babi/mix-T7")
    page.wait_for_selector("#preview .previewed:has-text('group wwo-3')", timeout=30_000)
    page.locator("summary:has-text('wp-1')").click()
    page.wait_for_selector("#preview .previewed:has-text('group wp-1')", timeout=30_000)


def test_a_running_experiment_is_shown_without_reloading(page: Any, served: Served) -> None:
    page.goto(served.pages()["store"])
    assert "none running" in page.locator(".live-line").inner_text()
    claims = Claims(served.folder / "runs" / "work" / "claims")
    try:
        assert claims.take("ab" * 16)
        page.wait_for_selector(".live-dot.on", timeout=15_000)
        assert "1 running" in page.locator(".live-line").inner_text()
    finally:
        claims.close()
    page.wait_for_selector(".live-dot:not(.on)", timeout=15_000)


def test_an_audit_is_asked_for_and_its_certificate_appears(page: Any, served: Served) -> None:
    page.goto(served.pages()["dataset"])
    page.get_by_role("button", name="Audit this dataset").click()
    page.wait_for_selector(".notice.good:has-text('No leak found')", timeout=60_000)


def test_hostile_text_stays_text(page: Any, served: Served) -> None:
    for name in ("hostile rows", "tree", "predictions", "compare", "store"):
        page.goto(served.pages()[name])
        assert page.locator("img:not([src^='/static/'])").count() == 0
        assert page.locator("body script").count() == 0
    page.goto(served.pages()["hostile rows"])
    assert "<script>alert(1)</script>" in page.locator(".row-text").first.inner_text()


def test_a_viewer_that_has_ended_breaks_no_page(page: Any, served: Served) -> None:
    page.goto(served.pages()["store"])
    page.route("**/live", lambda route: route.abort())
    time.sleep(3.5)
    assert re.search(r"\d+ finished", page.locator(".live-line").inner_text())
    page.unroute("**/live")
    page.goto("about:blank")
