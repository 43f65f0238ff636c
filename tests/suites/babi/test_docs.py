"""The documentation's recipe is made as printed."""

from __future__ import annotations

import re
from pathlib import Path

from taskloom.recipe import recipe

PAGE = Path(__file__).parents[3] / "docs" / "suites" / "babi.md"


def test_the_held_out_composition_of_the_docs(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S)
    assert len(block.splitlines()) <= 20
    file = tmp_path / "mine.yaml"
    file.write_text(block)
    plan = recipe.read(str(file)).plan(0)
    for example in plan.split("ood").rows(0, 30):
        assert {"COREF", "GIVE"} <= set(str(example.traits["composition"]).split("+"))
    for example in plan.split("train").rows(0, 60):
        assert not {"COREF", "GIVE"} <= set(str(example.traits["concepts"]).split("+"))


def test_every_field_of_a_group_is_documented() -> None:
    from taskloom.suites.babi.fields import StoryGroup

    page = PAGE.read_text()
    for name in StoryGroup.model_fields:
        assert name == "name" or f"`{name}`" in page, name
