"""A whole round in a real browser, with a server that is killed twice on the way. Run by `make
test-browser`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import taskloom as tl
from taskloom.apps.collect.collection import Collection
from taskloom.apps.collect.corpus import clean
from taskloom.apps.collect.demo_project import fill_demo
from taskloom.apps.collect.records import GivenAnswer, Item
from taskloom.suites.zest import evaluation
from taskloom.suites.zest.evaluation.spans import normalise
from taskloom.suites.zest.task_files import read_tasks
from tests.apps.collect.projects import BASES, SETTINGS, write_project
from tests.apps.collect.servers import RunningServer

playwright = pytest.importorskip(
    "playwright.sync_api", reason="make test-browser installs Playwright"
)

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
PEOPLE = {
    "Wim": "writer",
    "Wanda": "writer",
    "Ann": "annotator",
    "Abe": "annotator",
    "Ada": "annotator",
    "Rita": "reviewer",
}


@dataclass(frozen=True)
class Corpus:
    """What a round is about: documents, how questions name an entity, and ten base questions with
    their formats.
    """

    domain: dict[str, str]
    bases: list[tuple[str, str]]
    documents: tuple[dict[str, str], ...] = ()

    @property
    def entity(self) -> str:
        """How a question names the entity."""
        return self.domain["entity"]

    def write(self, folder: Path, **changes: Any) -> None:
        """Write a project over the documents."""
        if self.documents:
            (folder / "documents").mkdir()
            text = "".join(json.dumps(row) + "\n" for row in self.documents)
            (folder / self.domain["documents"]).write_text(text, encoding="utf-8")
        write_project(folder, domains=[self.domain], **changes)


def own_corpus() -> Corpus:
    """Return the package's own documents about invented gardens."""
    return Corpus(SETTINGS["domains"][0], BASES)


PARKS = "this national park"
SPAN_QUESTIONS = [
    f"What animals can visitors see in {PARKS}?",
    f"Where can people camp in {PARKS}?",
    f"When is the best time of the year to visit {PARKS}?",
    f"How long is the longest trail in {PARKS}?",
]


def real_corpus() -> Corpus:
    """Return the real passages about national parks and six real questions of ZEST's public
    sample.
    """
    folder = Path(os.environ.get("TASKLOOM_DATA", "")) / "zest"
    files = [folder / f"{name}.jsonl" for name in ("train", "dev", "test_unanswered")]
    if not all(f.is_file() for f in files):
        pytest.skip(
            "ZEST's public sample is not here: TASKLOOM_DATA names no folder with zest/train.jsonl"
        )
    rows = [
        json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()
    ]
    parks = [row for row in rows if PARKS in row["question"]]
    passages = list(dict.fromkeys(e["context"] for row in parks for e in row["examples"]))
    titled = re.compile(
        r"((?:[A-Z][\w'’]+ ){1,3}National (?:Park|Monument|Seashore|Recreation Area))"
    )
    documents = tuple(
        {"title": name[1] if (name := titled.search(text)) else f"Page {number}", "text": text}
        for number, text in enumerate(passages)
    )
    bases = [(row["question"], "yes/no") for row in parks[:6]] + [
        (question, "span") for question in SPAN_QUESTIONS
    ]
    return Corpus(
        {"name": "parks", "entity": PARKS, "documents": "documents/parks.jsonl"}, bases, documents
    )


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    if not Path(CHROMIUM).exists():
        pytest.skip(f"there is no {CHROMIUM}")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


class Round:
    """The people of a round, each with a browser of their own, and the server that they talk to."""

    def __init__(self, chromium: Any, folder: Path, corpus: Corpus) -> None:
        self.chromium, self.folder, self.corpus = chromium, folder, corpus
        self.server = RunningServer(folder)
        self.errors: list[str] = []
        self.pages: dict[str, Any] = {}
        self.open("Olga", self.server.link)

    def open(self, name: str, link: str) -> Any:
        page = self.chromium.new_context().new_page()
        page.on("pageerror", lambda error: self.errors.append(f"{name}: {error}"))
        page.on(
            "console",
            lambda m: (
                self.errors.append(f"{name}: {m.text}") if "Content Security" in m.text else None
            ),
        )
        page.goto(link)
        self.pages[name] = page
        return page

    def go(self, name: str, address: str) -> Any:
        page = self.pages[name]
        page.goto(self.server.base + address)
        return page

    def kill_and_start(self) -> None:
        self.server.kill()
        self.server = RunningServer(self.folder, self.server.port)

    def add_people(self) -> None:
        page = self.go("Olga", "/people")
        for name, role in PEOPLE.items():
            page.fill("[name=name]", name)
            page.check(f"form[action='/people'] [value={role}]")
            page.click("form[action='/people'] button")
            page.wait_for_selector(f"[data-person={name}]")
        for name in PEOPLE:
            self.open(name, page.input_value(f"[data-person={name}]"))

    def write(self, name: str, question: str, format: str) -> None:
        page = self.go(name, "/write")
        page.fill("[name=question]", question)
        page.check(f"[name=format][value='{format}']")
        self.submit(page)

    def submit(self, page: Any) -> None:
        """Submit a question, past its warnings."""
        page.click("form.stack button:not([type=button])")
        page.wait_for_load_state()
        if page.is_visible("[name=sure]"):
            page.check("[name=sure]")
            page.click("form.stack button:not([type=button])")
        page.wait_for_selector("#status:has-text('A second person reviews it')")

    def approve_all(self) -> int:
        page = self.go("Rita", "/review")
        count = 0
        while page.query_selector("main .list a") or page.query_selector("[value=approve]"):
            if not page.query_selector("[value=approve]"):
                page.click("main .list a")
            page.click("[value=approve]")
            page.wait_for_selector("#status:has-text('Saved')")
            count += 1
        return count


def answer(page: Any, name: str) -> str:
    """Answer the item of a page by the plan of this test; return the item.

    Of three passages, nobody finds an answer in the first; all agree on the second, where Abe
    selects a word more; and on the third no two agree.
    """
    item = str(page.url).split("/annotate/")[1].partition("?")[0]
    number = int(item[-1])
    words = page.inner_text("#passage").split()
    other = next(
        n
        for n in range(2, len(words))
        if normalise(words[n]) not in ("", normalise(words[0]), normalise(words[1]))
    )
    if number == 0 or (number == 2 and name == "Ada"):
        page.keyboard.press("0")
    elif page.query_selector("[name=choice][value=yes]"):
        page.keyboard.press("n" if number == 2 and name == "Abe" else "y")
    elif page.query_selector("#spans"):
        for _ in range(other + 1 if number == 2 and name == "Abe" else 1):
            page.keyboard.press("ArrowRight")
        page.keyboard.press("Space")
        for _ in range(0 if number == 2 else 2 if name == "Abe" else 1):
            page.keyboard.press("ArrowRight")
        page.keyboard.press("Space")
    else:
        page.fill(
            "#objects [name=key0] >> nth=0", words[other if number == 2 and name == "Abe" else 1]
        )
        page.select_option("#objects [name=key2] >> nth=0", "yes")
    page.keyboard.press("Enter")
    return item


def annotate(play: Round, name: str, most: int = 10_000) -> list[str]:
    """Answer items until none is left; return them."""
    page = play.go(name, "/annotate")
    items: list[str] = []
    while len(items) < most and page.query_selector("#answer"):
        address = page.url
        items.append(answer(page, name))
        leave(page, address)
    return items


def leave(page: Any, address: str) -> None:
    """Wait until a page is left for another one."""
    try:
        page.wait_for_url(
            lambda url: url.partition("?")[0] != address.partition("?")[0], timeout=20_000
        )
    except playwright.TimeoutError:
        raise AssertionError(f"still at {page.url}: {page.inner_text('#content')[:500]}") from None
    page.wait_for_load_state()


def vary(play: Round) -> None:
    """Write one variant of each kind."""
    entity = play.corpus.entity
    page = play.go("Wanda", "/vary/paraphrase")
    original = page.inner_text(".original")
    assert entity in original
    page.fill("#question", f"Has anybody who visits {entity} been told about that, and how?")
    play.submit(page)
    page = play.go("Wanda", "/vary/target_semantics")
    question = re.sub(r"^The question: (.*\?).*$", r"\1", page.inner_text(".original"), flags=re.S)
    page.fill("#question", question.replace(entity, f"the best part of {entity}"))
    play.submit(page)
    page = play.go("Wim", "/vary/combination")
    for n in (0, 1):
        page.check(f"[name=base] >> nth={n}")
    page.fill("#question", f"Is it so that both of these hold in {entity}?")
    play.submit(page)
    page = play.go("Wim", "/vary/structure")
    page.fill("#main", "animal")
    page.fill("[name=name1]", "season")
    page.fill("[name=name2]", "nests")
    page.fill("[name=values2]", "yes, no")
    page.check("[name=complete2]")
    assert page.inner_text("#preview") == '[{"animal":"…","season":"…","nests":"yes or no"}]'
    page.fill("#question", f"What animals live in {entity}, when are they seen, and do they nest?")
    play.submit(page)


@pytest.mark.parametrize(
    "make_corpus", [own_corpus, real_corpus], ids=["invented gardens", "real passages of ZEST"]
)
def test_a_whole_round(chromium: Any, tmp_path: Path, make_corpus: Callable[[], Corpus]) -> None:
    corpus = make_corpus()
    corpus.write(tmp_path, passages=3, near_misses=0.0)
    play = Round(chromium, tmp_path, corpus)
    try:
        play.add_people()
        for number, (question, format) in enumerate(corpus.bases[:-1]):
            play.write("Wim" if number % 2 else "Wanda", question, format)
        # The first kill: a question is typed, the server dies, the form cannot be sent.
        page = play.go("Wim", "/write")
        page.fill("[name=question]", corpus.bases[-1][0])
        page.check(f"[name=format][value='{corpus.bases[-1][1]}']")
        play.server.kill()
        page.click("form.stack button", no_wait_after=True)
        with pytest.raises(playwright.Error, match="ERR_CONNECTION_REFUSED"):
            page.wait_for_url("**/never")
        play.server = RunningServer(tmp_path, play.server.port)
        page.goto(play.server.base + "/write")
        assert page.input_value("[name=question]") == corpus.bases[-1][0], (
            "what was typed is still there"
        )
        page.check(f"[name=format][value='{corpus.bases[-1][1]}']")
        play.submit(page)
        assert play.approve_all() == 10
        vary(play)
        assert play.approve_all() == 4
        page = play.go("Olga", "/passages")
        page.click("text=Gather passages")
        page.wait_for_selector("#status")
        # The second kill: an annotator saves, the server is gone; the page keeps trying, and
        # nothing is lost or doubled.
        first = annotate(play, "Ann", 5)
        page = play.pages["Ann"]
        before = page.url
        play.server.kill()
        first.append(answer(page, "Ann"))
        page.wait_for_selector("#status:has-text('no connection')")
        play.server = RunningServer(tmp_path, play.server.port)
        leave(page, before)
        rest = {name: annotate(play, name) for name in ("Ann", "Abe", "Ada")}
        assert len(first + rest["Ann"]) == len(set(first + rest["Ann"])) == 14 * 3
        assert len(rest["Abe"]) == len(rest["Ada"]) == 14 * 3
        # The reviewer decides every dispute as not answered.
        page = play.go("Rita", "/adjudicate")
        page.click("main .list a")
        disputes = 0
        while page.query_selector("#answer"):
            assert len(page.query_selector_all("[name=take]")) == 3
            address = page.url
            page.keyboard.press("0")
            page.keyboard.press("Enter")
            leave(page, address)
            disputes += 1
        assert disputes == 14
        page = play.go("Olga", "/export")
        assert "No leaks." in page.inner_text("main"), page.inner_text("main")
        page.fill("[name=name]", "release")
        page.click("form[action='/export'] button")
        page.wait_for_selector("#status:has-text('exports/release')")
        assert play.errors == []
    finally:
        play.server.stop()
    check_release(tmp_path, corpus)


def check_release(folder: Path, corpus: Corpus) -> None:
    """Check the exported files: the official evaluation accepts them, and Table 2 is what it must
    be by the plan above.
    """
    c = Collection(folder)
    assert c.store.check() == []
    assert c.store.count(GivenAnswer) == 14 * 3 * 3
    assert {i.state for i in c.store.each(Item)} == {"agreed", "decided"}
    c.close()
    release = folder / "exports" / "release"
    table = json.loads((release / "statistics.json").read_text())
    tasks = {
        name: read_tasks(release / "zest" / f"{name}.jsonl") for name in ("train", "dev", "test")
    }
    assert {name: sum(t.kind == "normal" for t in rows) for name, rows in tasks.items()} == {
        "train": 4,
        "dev": 1,
        "test": 5,
    }
    assert sum(len(rows) for rows in tasks.values()) == 14
    by_question = dict(corpus.bases)
    sources = [clean(row["text"]) for row in corpus.documents]
    for name, rows in tasks.items():
        assert table[name]["tasks"] == len(rows)
        assert table[name]["pairs"] == 3 * len(rows)
        assert table[name]["na"] == pytest.approx(2 / 3), (
            "the first and the third passage of every task"
        )
        contexts = [i.context for t in rows for i in t.instances]
        assert table[name]["passage_words"] == pytest.approx(
            sum(len(x.split()) for x in contexts) / len(contexts)
        )
        if sources:
            assert all(any(x in text for text in sources) for x in contexts), (
                "passages are parts of the real documents"
            )
        assert table[name]["task_words"] == pytest.approx(
            sum(len(t.question.split()) for t in rows) / len(rows)
        )
        for task in rows:
            _, agreed, _ = (i.answer for i in task.instances)
            context = task.instances[1].context.split()
            if task.kind == "structure":
                assert json.loads(str(agreed)) == [
                    {"animal": context[1], "season": "n/a", "nests": "yes"}
                ]
            elif by_question.get(task.question) == "span":
                assert agreed == " ".join(context[:2]), (
                    "the subset of the other answers, not Abe's longer one"
                )
        predictions = [str(i.answer) for t in rows for i in t.instances]
        assert (
            evaluation.score(release / "zest" / f"{name}.jsonl", predictions, "official").overall[
                "90"
            ]
            == 1.0
        )
    assert tl.load(release / "dataset").digest


@pytest.fixture(scope="module")
def demo(
    chromium: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RunningServer, dict[str, str]]]:
    folder = tmp_path_factory.mktemp("demo") / "demo"
    fill_demo(folder)
    server = RunningServer(folder)
    page = chromium.new_page()
    page.goto(server.link)
    page.goto(server.base + "/people")
    links = {
        e.get_attribute("data-person").split()[0]: e.input_value()
        for e in page.query_selector_all("[data-person]")
    }
    yield server, links
    server.stop()


PAGES = [
    ("Olga", "/"), ("Wim", "/write"), ("Wim", "/vary/structure"), ("Wim", "/vary/combination"), ("Rita", "/review"),
    ("Rita", "/adjudicate"), ("Ann", "/annotate"), ("Olga", "/people"), ("Olga", "/passages"), ("Olga", "/results"),
    ("Olga", "/export"), ("Olga", "/log"), ("Olga", "/nowhere"), ("Olga", "/project"), ("Wim", "/vary/paraphrase"),
    ("Rita", "/review >"), ("Rita", "/adjudicate >"), ("Wanda", "/write >"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "address"), PAGES)
def test_pages_are_accessible_and_fit_a_phone(
    chromium: Any, demo: tuple[RunningServer, dict[str, str]], name: str, address: str
) -> None:
    server, links = demo
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for scheme in ("light", "dark"):
        page = chromium.new_context(
            viewport={"width": 390, "height": 760}, color_scheme=scheme
        ).new_page()
        page.goto(links[name])
        page.goto(server.base + address.removesuffix(" >"))
        if address.endswith(">"):  # the first thing in the list
            page.click("main .list a")
            page.wait_for_load_state()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
            "no page scrolls sideways"
        )
        assert page.evaluate(
            "(n => n.scrollWidth <= n.clientWidth)(document.querySelector('nav'))"
        ), "no menu is cut"
        found = axe.run(page).response["violations"]
        assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found] == []


def test_spans_are_selected_by_touch(
    chromium: Any, demo: tuple[RunningServer, dict[str, str]]
) -> None:
    server, links = demo
    page = chromium.new_context(
        viewport={"width": 390, "height": 760}, has_touch=True, is_mobile=True
    ).new_page()
    page.goto(links["Abe"])
    page.goto(server.base + "/annotate")
    go_to_a_span(page)
    page.evaluate(
        "() => { const text = document.getElementById('passage').firstChild; const range ="
        " document.createRange();range.setStart(text, 0); range.setEnd(text, text.data.indexOf(' ',"
        " 5)); getSelection().addRange(range); }"
    )
    page.tap("#take")
    page.wait_for_selector("#parts button")
    start, end = map(int, page.input_value("#spans").split("-"))
    assert (
        page.inner_text("#passage")[start:end] == page.inner_text("#parts li").rstrip("×").strip()
    )


def go_to_a_span(page: Any) -> None:
    """Answer items until one comes that is answered by spans."""
    for _ in range(60):
        if page.query_selector("#spans") or not page.query_selector("#answer"):
            break
        address = page.url
        page.keyboard.press("0")
        page.keyboard.press("Enter")
        leave(page, address)
    assert page.query_selector("#spans"), (
        "the demonstration has an open item that is answered by spans"
    )


def test_a_refusal_is_shown_and_not_taken_for_a_lost_connection(
    chromium: Any, demo: tuple[RunningServer, dict[str, str]]
) -> None:
    server, links = demo
    page = chromium.new_context().new_page()
    page.goto(links["Abe"])
    page.goto(server.base + "/annotate")
    replies = [
        {
            "status": 413,
            "content_type": "text/plain",
            "body": "nothing was saved: the form is too large",
        },
        {"status": 502, "content_type": "text/html", "body": "<h1>Bad gateway</h1>"},
    ]
    page.route(
        "**/annotate/*",
        lambda route: (
            route.fulfill(**replies[0]) if route.request.method == "POST" else route.continue_()
        ),
    )
    page.keyboard.press("0")
    page.keyboard.press("Enter")
    page.wait_for_selector("#status:has-text('the form is too large')")
    replies.pop(0)
    page.keyboard.press("Enter")
    page.wait_for_selector("#status:has-text('no connection')")
    address = page.url
    page.unroute("**/annotate/*")
    leave(page, address)  # the page kept trying, and the answer is saved


def test_spans_are_selected_by_mouse(
    chromium: Any, demo: tuple[RunningServer, dict[str, str]]
) -> None:
    server, links = demo
    page = chromium.new_context(viewport={"width": 1000, "height": 700}).new_page()
    page.goto(links["Ann"])
    page.goto(server.base + "/annotate")
    go_to_a_span(page)
    page.dblclick("#passage", position={"x": 40, "y": 25})
    page.wait_for_selector("#parts button")
    chip = page.inner_text("#parts li").rstrip("×").strip()
    assert chip in page.inner_text("#passage").split()
    start, end = map(int, page.input_value("#spans").split("-"))
    assert page.inner_text("#passage")[start:end] == chip
    page.click("#parts button")
    assert page.input_value("#spans") == ""
