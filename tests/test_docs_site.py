"""What the site of the documentation changes in its pages: numbers are not broken, minus signs are
minus signs, code stays code.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def site_markdown() -> Callable[[str, str], str]:
    script = Path(__file__).parents[1] / "scripts" / "build_docs.py"
    return runpy.run_path(str(script))["site_markdown"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("markdown", "site"),
    [
        ("```sh no-test: takes minutes\nls\n```", "```sh\nls\n```"),
        (
            "[demo](../../examples/demo.yaml)",
            "[demo](https://github.com/taskloom/taskloom/blob/main/examples/demo.yaml)",
        ),
        (
            "| 0.9 [0.8, 1.0] | 0.1 ± 0.2 | 12 % |",
            "| 0.9\u00a0[0.8,\u00a01.0] | 0.1\u00a0±\u00a00.2 | 12\u00a0% |",
        ),
        (
            "[scores](zest/scores.json)",
            "[scores](https://github.com/taskloom/taskloom/blob/main/docs/results/zest/scores.json)",
        ),
        (
            "![a story](../images/viewer-story.webp)",
            '<span class="wide-screen">![a story](../images/viewer-story.webp#only-light)'
            "![a story](../images/viewer-story-dark.webp#only-dark)</span>"
            '<span class="narrow-screen">![a story](../images/viewer-story-phone.webp#only-light)'
            "![a story](../images/viewer-story-phone-dark.webp#only-dark)</span>",
        ),
        ("![runs](../images/viewer-runs.webp)", "![runs](../images/viewer-runs.webp)"),
        (
            "![curves](../images/demo.svg)",
            "![curves](../images/demo.svg#only-wide)![curves](../images/demo-phone.svg#only-narrow)",
        ),
        (
            "| NDR fails | 0.34 | 0.43 | ~ |",
            '| NDR fails | 0.34 | 0.43 | <span class="verdict partly">~ partly</span> |',
        ),
        (
            "**In short.** One line,\nand another.\n\nMore.",
            '<div class="in-short" markdown>\n\n**In short.** One line,\nand another.\n\n</div>\n\nMore.',
        ),
        ("| one<br>two |", '| one<br><span class="gap"></span>two |'),
        ("a number [0.8, 1.0] in a line", "a number [0.8, 1.0] in a line"),
        ("-0.1 [-0.2, -0.0]", "−0.1 [−0.2, −0.0]"),
        ("diverse - concat, A:0-3, fine-tune, 3-4", "diverse − concat, A:0-3, fine-tune, 3-4"),
        ("- a list\n  - within a list", "- a list\n  - within a list"),
        ("| --- | --- |", "| --- | --- |"),
        ("[see](x-1.md#-1) `--set n=-1`", "[see](x-1.md#-1) `--set n=-1`"),
        ("```text\nx = -1\n```", "```text\nx = -1\n```"),
    ],
)
def test_a_results_page(site_markdown: Callable[[str, str], str], markdown: str, site: str) -> None:
    assert site_markdown(markdown, "results/zest.md") == site


def test_other_pages_keep_their_hyphens(site_markdown: Callable[[str, str], str]) -> None:
    assert site_markdown("between -1 and 1", "papers/ctlpp.md") == "between -1 and 1"


def test_the_front_page_of_the_site_has_everything_of_the_readme(
    site_markdown: Callable[[str, str], str],
) -> None:
    home = (Path(__file__).parents[1] / "docs" / "index.md").read_text(encoding="utf-8")
    site = site_markdown(home, "index.md")
    for target in re.findall(r"\]\(([\w/-]+\.md)\)", home):
        assert f"]({target})" in site
    for code in re.findall(r"^```(?:python|text)\n(.*?)^```", home, re.M | re.S):
        assert code in site
    assert site.count("\n# ") == 1
    assert site.count("<div") == site.count("</div>")


def test_a_front_page_that_lost_a_part_is_an_error(
    site_markdown: Callable[[str, str], str],
) -> None:
    with pytest.raises(SystemExit, match="change scripts/build_docs"):
        site_markdown("# Taskloom\n\nNothing else.\n", "index.md")


def test_pages_ask_no_other_host_for_the_number_of_stars() -> None:
    config = (Path(__file__).parents[1] / "mkdocs.yml").read_text(encoding="utf-8")
    assert not re.search(r"^repo_url:", config, re.M)
