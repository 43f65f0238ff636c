"""What the site of the documentation changes in its pages: numbers are not broken, minus signs are
minus signs, code stays code.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture(scope="module")
def hooks() -> Any:
    return SimpleNamespace(
        **runpy.run_path(str(Path(__file__).parents[1] / "scripts" / "docs_hooks.py"))
    )


def page(name: str) -> Any:
    return SimpleNamespace(file=SimpleNamespace(src_uri=name))


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
        ("a number [0.8, 1.0] in a line", "a number [0.8, 1.0] in a line"),
    ],
)
def test_markdown_of_a_page(hooks: Any, markdown: str, site: str) -> None:
    assert hooks.on_page_markdown(markdown, page("results/zest.md")) == site


@pytest.mark.parametrize(
    ("html", "site"),
    [
        ("<td>-0.1 [-0.2, -0.0]</td>", "<td>−0.1 [−0.2, −0.0]</td>"),
        (
            "<p>diverse - concat, A:0-3, fine-tune, 3-4</p>",
            "<p>diverse − concat, A:0-3, fine-tune, 3-4</p>",
        ),
        (
            '<a href="x -1">see</a> <code>--set n=-1</code>',
            '<a href="x -1">see</a> <code>--set n=-1</code>',
        ),
        ("<td>one<br>two</td>", '<td>one<br><span class="gap"></span>two</td>'),
    ],
)
def test_results_have_minus_signs_outside_code(hooks: Any, html: str, site: str) -> None:
    assert hooks.on_page_content(html, page("results/ctlpp.md")) == site


def test_other_pages_keep_their_hyphens_and_long_names_may_break(hooks: Any) -> None:
    name = "src/taskloom/suites/ctl/published_draw.py"
    html = f"<td><code>{name}</code> -1</td>"
    site = hooks.on_page_content(html, page("papers/ctlpp.md"))
    assert site.replace("<wbr>", "") == html
    assert "ctl/<wbr>published_<wbr>draw" in site
