"""Takes the pictures of the report and the viewer in docs/images: `make screenshots`. Needs
Playwright, Pillow, Chromium.

Data and runs are made for it in a temporary folder, from recipes with fixed seeds, so that the
pictures change only with the code.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import taskloom as tl
from taskloom.apps.view.folders import ViewedFolders
from taskloom.apps.view.server import application, listen

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"

DEMO = ROOT / "demo" / "report.html"
"""The report of `make demo`, which `make screenshots` makes first."""

QUALITY = 82
"""Of WebP: text stays crisp, and a page takes 30 to 90 kB."""

STORIES = {
    "train": [
        {"n": 900, "events": ["MOVE", "GRAB", "DROP"], "questions": ["where-O"], "support": "2..3"},
        {"n": 900, "events": ["MOVE"], "wording": ["COREF"], "questions": ["where-P"]},
    ],
    "iid": [
        {"n": 150, "events": ["MOVE", "GRAB", "DROP"], "questions": ["where-O"], "support": "2..3"},
        {"n": 150, "events": ["MOVE"], "wording": ["COREF"], "questions": ["where-P"]},
    ],
    "ood": [
        {
            "n": 300,
            "events": ["MOVE", "GRAB", "DROP"],
            "wording": ["COREF"],
            "questions": ["where-O"],
            "support": "2..4",
            "composition": ["COREF"],
        }
    ],
}


@dataclass(frozen=True, slots=True)
class Shot:
    """A picture: its file, the address, the window, the colours, a button that is pressed, what
    must be there first, and how far the page is scrolled.

    An address that begins with `/` is one of the viewer.
    """

    file: str
    address: str
    width: int = 1280
    height: int = 860
    dark: bool = False
    click: str = ""
    wait_for: str = "main"
    open_number: bool = False
    scroll: int = 0


def make_data(folder: Path) -> None:
    """Make a dataset of each kind, and runs of three learners on stories with a held-out
    composition.
    """
    recipe = Path(
        "held-out.yaml"
    )  # the folder is the working folder: no path of this machine is in a picture
    fields = {"suite": "babi", "splits": STORIES, "holdout": [["COREF", "GRAB"], ["COREF", "DROP"]]}
    recipe.write_text(yaml.safe_dump(fields, sort_keys=False))
    tl.make(recipe, folder / "data" / "stories")
    tl.make("babi/mix-T7", folder / "data" / "mix-T7")  # its first story is that of README.md
    tl.make(
        "ctl/A",
        folder / "data" / "ctl-A",
        set={"splits": {"train": {"n": 8000}, "iid": {"n": 500}, "ood": {"n": 500}}},
    )
    tl.make("taskbench/chain(antonyms[eng], hyponyms[eng])", folder / "data" / "functions")
    tl.make(
        "zest/synthetic",
        folder / "data" / "zest",
        set={"tasks": {"train": 60, "dev": 40, "test": 40}, "passages": 4},
    )
    learners = ["majority", "nearest-neighbour", "bag-of-words"]
    tl.run(recipes=[str(recipe)], learners=learners, seeds=2, store="runs")


def shots(names: dict[str, str], runs: dict[str, str]) -> list[Shot]:
    """Return the pictures to take."""
    store = f"/runs/{names['runs']}"
    story = f"/data/{names['mix-T7']}/example?split=mix&index=0"
    compare = f"{store}/compare?a={runs['nearest-neighbour']}&b={runs['bag-of-words']}&split=ood&by=minimal"
    report = DEMO.as_uri()
    return [
        Shot("report", report, height=1180, wait_for=".explorer .item"),
        Shot("report-examples", report, height=900, wait_for=".explorer .item", open_number=True),
        Shot("report-phone", report, width=390, height=1180, dark=True, wait_for=".explorer .item"),
        Shot("viewer-home", "/"),
        Shot(
            "viewer-audit",
            f"/data/{names['stories']}",
            1280,
            1100,
            click="Audit this dataset",
            wait_for=".notice.good",
        ),
        Shot("viewer-story", story, width=960, height=740),
        Shot("viewer-story-dark", story, width=960, height=740, dark=True),
        Shot("viewer-story-phone", story, width=390, height=620, scroll=560),
        Shot("viewer-story-phone-dark", story, width=390, height=620, dark=True, scroll=560),
        Shot("viewer-tree", f"/data/{names['functions']}/example?split=test&index=3", height=640),
        Shot("viewer-chain", f"/data/{names['ctl-A']}/example?split=ood&index=5", height=560),
        Shot("viewer-family", f"/data/{names['zest']}/example?split=test&index=1", height=760),
        Shot("viewer-runs", store),
        Shot(
            "viewer-predictions",
            f"{store}/predictions?run={runs['bag-of-words']}&split=ood",
            height=1000,
        ),
        Shot("viewer-compare", compare, height=960),
        Shot("viewer-compare-phone", compare, width=390, height=900, dark=True),
        Shot(
            "viewer-heat",
            f"{store}/heat?learner=bag-of-words",
            height=680,
        ),
        Shot(
            "viewer-form",
            "/recipe/new?suite=babi&from=babi/mix-T7",
            height=1000,
            wait_for="#preview .notice.good",
        ),
    ]


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the viewer of a folder; yield its address."""
    import uvicorn

    app = application([folder])
    listening = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(10)
    app.state.viewer.close()


def take(browser: Any, address: str, shot: Shot) -> None:
    """Take one picture and write it as WebP."""
    from PIL import Image

    context = browser.new_context(
        viewport={"width": shot.width, "height": shot.height},
        color_scheme="dark" if shot.dark else "light",
    )
    page = context.new_page()
    page.goto(
        address + shot.address if shot.address.startswith("/") else shot.address,
        wait_until="networkidle",
    )
    if shot.click:
        page.get_by_role("button", name=shot.click).click()
    page.wait_for_selector(shot.wait_for, timeout=180_000)
    if shot.open_number:
        scores = page.locator("section", has=page.get_by_role("heading", name="Scores", exact=True))
        scores.locator("button.open").last.click()
        page.wait_for_function("document.activeElement.id === 'explorer'")
        page.wait_for_timeout(800)  # it scrolls there smoothly
    page.mouse.wheel(0, shot.scroll)
    page.wait_for_timeout(200)
    image = Image.open(io.BytesIO(page.screenshot()))
    image.convert("RGB").save(IMAGES / f"{shot.file}.webp", quality=QUALITY, method=6)
    context.close()


def main() -> None:
    """Take all pictures, or those whose names are given."""
    from playwright.sync_api import sync_playwright

    chromium = (
        os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    )
    if chromium is None:
        sys.exit("screenshots need Chromium: apt install chromium, or CHROMIUM=path")
    if not DEMO.is_file():
        sys.exit(f"{DEMO} is not there; run make demo first")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve() / "my-study"  # its name is in the pictures
        folder.mkdir()
        os.chdir(folder)
        os.environ["TASKLOOM_CACHE"] = str(folder / ".cache")
        make_data(folder)
        names = {one.path.name: one.name for one in ViewedFolders([folder]).every()}
        table = tl.runs(folder / "runs").table.to_pylist()
        runs = {row["learner"]: row["run"] for row in table if row["seed"] == 0}
        with served(folder) as address, sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            for shot in shots(names, runs):
                if len(sys.argv) < 2 or shot.file in sys.argv[1:]:
                    take(browser, address, shot)
                    print(
                        f"{shot.file}.webp,"
                        f" {(IMAGES / f'{shot.file}.webp').stat().st_size / 1000:.0f} kB"
                    )
            browser.close()


if __name__ == "__main__":
    main()
