"""The commands of the pages on other tools, run as they are written, offline, with a tiny model in
place of the pages'.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.models import tiny_model

PAGES = Path(__file__).parent.parent.parent / "docs" / "how-to"
TOOLS = {
    "use-hugging-face": "datasets",
    "use-lm-evaluation-harness": "lm_eval",
    "use-inspect": "inspect_ai",
    "use-verifiers": "verifiers",
    "use-trl": "trl",
    "use-reasoning-gym": "reasoning_gym",
}


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted(p.stem for p in PAGES.glob("use-*.md") if p.stem in TOOLS))
def test_the_commands_run(page: str, tmp_path: Path) -> None:
    pytest.importorskip(TOOLS[page], reason=f"needs {TOOLS[page]}: make test-interop")
    # Libraries read a folder of this name instead of fetching the model of the pages.
    tiny_model(tmp_path / "HuggingFaceTB" / "SmolLM2-135M-Instruct")
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    for language, mark, body in re.findall(
        r"^```(sh|python)([^\n]*)\n(.*?)^```$", text, re.M | re.S
    ):
        if any(
            words in mark
            for words in ("until Ctrl-C", "needs the server", "your own", "its own", "a model")
        ):
            continue  # a server and its client (test_env_server.py has one), or files of the reader
        command = ["bash", "-ec", body] if language == "sh" else [sys.executable, "-c", body]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert done.returncode == 0, (body, done.stdout[-2000:], done.stderr[-2000:])
