"""Take the screenshots of docs/how-to/collect-tasks.md from the demonstration project, with
Playwright and a Chromium.

python scripts/screenshot_collect.py docs/images
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
from pathlib import Path

import uvicorn
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from taskloom.apps.collect.collection import Collection
from taskloom.apps.collect.demo_project import ANSWERS, fill_demo
from taskloom.apps.collect.records import CollectedTask, Item, Person
from taskloom.apps.collect.web.site import Site, build_app
from taskloom.core.listener import address, listen

SHOWN = (
    "home-desktop",
    "write-desktop",
    "span-desktop",
    "span-phone",
    "yes-no-phone",
    "dispute-desktop",
)
"""The pictures of the page; `--all` takes those of all pages, to look at."""

DESKTOP, PHONE = {"width": 1100, "height": 760}, {"width": 390, "height": 760}


def main(folder: Path) -> None:
    """Write the pictures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        project = Path(place) / "demo"
        fill_demo(project)
        collection = Collection(project)
        listener = listen("127.0.0.1", [0])
        base = address("127.0.0.1", listener)
        server = uvicorn.Server(
            uvicorn.Config(build_app(collection), log_level="error", lifespan="off")
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        with sync_playwright() as play:
            browser = play.chromium.launch(
                executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium")
            )
            take(browser, collection, base, folder)
            browser.close()
        server.should_exit = True
        thread.join(10)
        collection.close()


def find_span(c: Collection, tasks: dict[str, CollectedTask]) -> tuple[str, int, int]:
    """Return an open item that its passage answers, and the first and the last word of the
    answer.
    """
    for item in c.store.each(Item, stage="open"):
        task, text = tasks[item.task], c.passage(item)
        hit = re.search(ANSWERS[task.question][0], text)
        if task.format == "span" and hit:
            first = len(text[: hit.start()].split())
            return item.id, first, first + len(hit[0].split()) - 1
    raise SystemExit("the demonstration has no open item that its passage answers")


def take(browser: Browser, c: Collection, base: str, folder: Path) -> None:
    """Open each page as its person, at both widths."""
    site = Site(c)
    tasks = {t.id: t for t in c.store.each(CollectedTask)}
    yes_no = next(
        i.id for i in c.store.each(Item, stage="open") if tasks[i.task].format == "yes/no"
    )
    span, first, last = find_span(c, tasks)
    structure = next(
        i.id
        for i in c.store.each(Item)
        if tasks.get(i.task) and tasks[i.task].format == "structure"
    )
    disputed = next(iter(c.store.each(Item, stage="disputed")), None)
    pages = [
        ("Olga", "/", "home"),
        ("Wim", "/write", "write"),
        ("Wim", "/vary/structure", "structure"),
        ("Wim", "/vary/combination", "composition"),
        ("Rita", "/review", "review"),
        ("Ann", f"/annotate/{yes_no}", "yes-no"),
        ("Ann", f"/annotate/{span}", "span"),
        ("Ann", f"/annotate/{structure}", "rows"),
        ("Olga", "/people", "people"),
        ("Olga", "/results", "results"),
        ("Olga", "/export", "export"),
        ("Olga", "/log", "log"),
    ]
    if disputed:
        pages.append(("Rita", f"/adjudicate/{disputed.id}", "dispute"))
    people: dict[str, Person] = {p.name.split()[0]: p for p in c.people()}
    for width, size in (("desktop", DESKTOP), ("phone", PHONE)):
        for name, place, title in pages:
            if f"{title}-{width}" not in SHOWN and "--all" not in sys.argv:
                continue
            context = browser.new_context(viewport=size, device_scale_factor=1)
            page = context.new_page()
            page.goto(site.link(people[name], base))
            page.goto(base + place)
            if title == "span":
                for key in (
                    ["ArrowRight"] * (first + 1)
                    + ["Space"]
                    + ["ArrowRight"] * (last - first)
                    + ["Space"]
                ):
                    page.keyboard.press(key)
            path = folder / f"collect-{title}-{width}.png"
            page.screenshot(path=str(path))
            Image.open(path).convert("RGB").quantize(64).save(
                path, optimize=True
            )  # a third of the size, and no visible loss
            context.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
