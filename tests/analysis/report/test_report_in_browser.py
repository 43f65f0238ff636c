"""The report in a real browser: it fits a phone, opens examples, compares learners, executes
nothing of the data.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import taskloom as tl
from taskloom.analysis.report.run_report import report
from taskloom.core.extraction import ANSWER_FORMAT
from taskloom.experiments.execute import engines
from taskloom.experiments.execute.engines import HereEngine
from taskloom.experiments.store import Store
from tests.experiments.made_up_runs import write
from tests.learners.chat_server import ChatServer, serving

pytestmark = pytest.mark.slow
CHROMIUM = shutil.which("chromium")
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    store = Store(folder / "runs", create=True)
    traits = [{"length": str(2 + i % 3), "shape": ("round", EVIL)[i % 2]} for i in range(60)]
    for learner, modulus in (("bilstm", 5), ("transformer", 2)):
        for seed in range(2):
            scores = {
                s: [float((i + seed) % modulus > 0) for i in range(60)] for s in ("iid", "ood")
            }
            write(
                store,
                scores,
                learner=learner,
                seed=seed,
                traits=traits,
                tasks=[EVIL, "b"],
                data=EVIL,
            )
    return report(store.path, folder / "report.html", title="no_place_to_break_" * 4)


def test_a_table_that_is_cut_says_that_it_scrolls(page_file: Path) -> None:
    api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no Chromium")
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(page_file.as_uri())
        page.wait_for_selector(".explorer .item")
        # Wider than a phone, where the hint is always there, and too narrow for the table of
        # comparisons.
        page.set_viewport_size({"width": 800, "height": 900})
        page.locator("details").evaluate_all("boxes => boxes.forEach(box => { box.open = true })")
        page.set_viewport_size({"width": 790, "height": 900})
        page.locator(".hint.needed >> visible=true").first.wait_for()
        boxes = page.locator(".hint + .wide").all()
        cut = [box.evaluate("box => box.scrollWidth > box.clientWidth") for box in boxes]
        shown = [
            box.evaluate("box => getComputedStyle(box.previousElementSibling).display === 'block'")
            for box in boxes
        ]
        assert any(cut)
        assert shown == cut
        browser.close()


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_the_page_fits_and_opens_examples(page_file: Path, width: int, scheme: str) -> None:
    api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no Chromium")
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme
        ).new_page()
        problems: list[str] = []
        page.on(
            "console", lambda m: problems.append(m.text) if m.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(f"dialog {dialog.message}"))
        page.goto(page_file.as_uri())
        page.wait_for_selector(".explorer .item")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out"
        page.click("button.open >> nth=0")
        page.wait_for_function("document.activeElement.id === 'explorer'")
        assert "60 examples; bilstm: 0.800" in page.inner_text(".summary")
        assert page.locator(".item").count() == (3 if width < 700 else 10)
        assert page.locator(".item >> nth=0 >> .bad").count() > 0, "wrong ones first"
        page.select_option(".controls label:has-text('beside') select", label="transformer")
        page.wait_for_function(
            "document.querySelector('.summary').textContent.includes('sign test')"
        )
        assert "On the whole split: difference" in page.inner_text(".summary")
        page.select_option(".controls label:has-text('only where') select", value="length")
        page.wait_for_function(
            "document.querySelector('.summary').textContent.startsWith('20 examples')"
        )
        axe = pytest.importorskip("axe_playwright_python.sync_playwright")
        found = axe.Axe().run(page).response["violations"]
        assert [
            (v["id"], v["impact"]) for v in found if v["impact"] in ("serious", "critical")
        ] == []
        assert problems == []
        browser.close()


def test_on_paper_there_is_nothing_to_press_and_no_dark_page(page_file: Path) -> None:
    api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no Chromium")
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(
            viewport={"width": 700, "height": 900}, color_scheme="dark"
        ).new_page()
        page.goto(page_file.as_uri())
        page.wait_for_selector(".explorer .item")
        page.emulate_media(media="print")
        for what in ("nav", ".explorer", ".hint", ".screen", "details:not([open])"):
            assert page.locator(what).count() > 0
            assert all(not one.is_visible() for one in page.locator(what).all()), what
        ink, paper = (
            page.evaluate(f"getComputedStyle(document.body).{name}")
            for name in ("color", "backgroundColor")
        )
        assert (ink, paper) == ("rgb(34, 34, 34)", "rgb(255, 255, 255)")
        cut = page.locator(".wide").evaluate_all(
            "boxes => boxes.filter(b => getComputedStyle(b).overflowX !== 'visible').length"
        )
        assert cut == 0
        page.locator("details").first.evaluate("box => box.open = true")
        assert page.locator("details table").first.is_visible(), "what the reader opened is printed"
        assert len(page.pdf()) > 20_000
        browser.close()


def test_a_page_of_100_000_examples_is_small_and_opens(tmp_path: Path) -> None:
    api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no Chromium")
    store = Store(tmp_path / "runs", create=True)
    for learner, modulus in (("bilstm", 5), ("transformer", 2)):
        scores = {"ood": [float(i % modulus > 0) for i in range(100_000)]}
        write(
            store,
            scores,
            learner=learner,
            traits=[{"length": str(2 + i % 3)} for i in range(100_000)],
        )
    file = report(store.path, tmp_path / "report.html")
    assert file.stat().st_size < 5e6
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(file.as_uri())
        page.wait_for_selector(".explorer .item", timeout=10_000)
        page.select_option(".controls label:has-text('only where') select", value="length")
        page.wait_for_function(
            "document.querySelector('.summary').textContent.startsWith('33,33')", timeout=5_000
        )
        browser.close()


def test_a_click_on_a_wrong_answer_opens_its_prompt_and_reply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no Chromium")
    monkeypatch.setattr(engines, "start", lambda name, **options: HereEngine())
    # It knows no story, so every answer that it gives is wrong.
    server = ChatServer({})
    learner: dict[str, Any] = {"learner": "endpoint", "url": server.url, "model": "small"}
    with serving(server):
        runs = tl.run(
            recipes=["babi/mix-T2"], learners=[learner], limit=12, store=tmp_path / "runs"
        )
    kept = {row["reply"].strip() for row in runs.replies() if row["outcome"] == "answered"}
    file = report(tmp_path / "runs", tmp_path / "report.html")
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(file.as_uri())
        page.wait_for_selector(".explorer .item")
        page.click("button.open >> nth=0")
        shown = set()
        while page.locator("button.more").count():
            page.click("button.more")
        for item in page.locator(".item:has(.bad)").all():
            whole = item.locator("details:has(summary:has-text('prompt and reply'))").first
            assert ANSWER_FORMAT not in whole.inner_text(), "closed before the click"
            whole.locator("summary").click()
            text = whole.inner_text()
            assert ANSWER_FORMAT in text
            shown |= {reply for reply in kept if reply in text}
        assert shown == kept
        assert kept
        browser.close()
