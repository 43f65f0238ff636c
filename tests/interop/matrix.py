"""Run the tests of every bridge with the real tool: `python -m tests.interop.matrix [TOOL …]`.

Each tool has two environments under .venv-interop, with the newest version and with the oldest one
that pyproject.toml declares. Torch is borrowed from the environment that runs this, because a copy
for each would take gigabytes. The other packages are only those that the extra installs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".venv-interop"

TESTS = {
    "inspect": ["test_inspect.py", "test_inspect_logs.py", "test_provider_models.py"],
    "lm-eval": ["test_lm_eval.py"],
    "verifiers": ["test_verifiers.py"],
    "trl": ["test_trl.py", "test_twin_rewards.py", "test_grpo.py", "test_trainers.py"],
    "reasoning-gym": ["test_reasoning_gym.py"],
    "openenv": ["test_env_server.py"],
    "hf": ["test_hugging_face.py"],
    "trackers": ["../experiments/execute/test_trackers.py"],
    "verl": ["test_trainers.py"],
    "openrlhf": ["test_trainers.py"],
}
"""Tests of each extra, besides those of all: equal scores and the commands of the pages."""

WITHOUT_EXTRA = ("verl", "openrlhf")
"""Trainers that read files: no version is declared, so only the newest one is tested."""

WITHOUT_SCORES = (*WITHOUT_EXTRA, "trackers")
"""Tools that score nothing."""

FOR_ALL = ["test_equal_scores.py", "test_how_to_pages.py"]

# Tests ask a tiny local model, and report on logs. Torch's own dependencies, because torch itself is
# borrowed.
TEST_PACKAGES = [
    "pytest",
    "hypothesis",
    "datasets",
    "transformers",
    "accelerate",
    "openai",
    "matplotlib",
]
NEVER = ["torch", "triton", "flash-attn", "bitsandbytes", "deepspeed", "torchmetrics"]
"""Packages that are left out: torch is borrowed, and the others need a compiler or a GPU."""

OF_TORCH = ["sympy", "networkx", "jinja2", "fsspec", "filelock"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tools", nargs="*", choices=[*TESTS, []], help="default: all")
    parser.add_argument("--version", choices=["newest", "oldest"], help="default: both")
    asked = parser.parse_args()
    versions = [asked.version] if asked.version else ["newest", "oldest"]
    results = {}
    for tool in asked.tools or TESTS:
        for version in ["newest"] if tool in WITHOUT_EXTRA else versions:
            python = environment(tool, version)
            results[f"{tool} {version}"] = run_tests(python, tool)
    for name, status in results.items():
        print(f"{name}: {'passed' if status == 0 else 'FAILED'}")
    return int(any(results.values()))


def environment(tool: str, version: str) -> Path:
    """Create or update the environment of a tool."""
    place = FOLDER / f"{tool}-{version}"
    python = place / "bin" / "python"
    uv = shutil.which("uv")
    if uv is None:
        raise SystemExit("the matrix needs uv: pip install uv")
    if not python.exists():
        subprocess.run([uv, "venv", "-q", "--python", sys.executable, place], check=True)
    overrides = FOLDER / "overrides.txt"
    lines = (f"{package}; sys_platform == 'never'\n" for package in NEVER)
    overrides.write_text("".join(lines), encoding="utf-8")
    command = [uv, "pip", "install", "-q", "--python", str(python)]
    command += ["--override", str(overrides)]
    packages = [*TEST_PACKAGES, *OF_TORCH]
    if version == "oldest":
        packages += first_allowed(tool)
    taskloom = f"{ROOT}[{tool}]"
    if tool in WITHOUT_EXTRA:
        taskloom = str(ROOT)
        packages.append(tool)
    subprocess.run([*command, "-e", taskloom, *packages], check=True)
    borrow_torch(place)
    return python


def first_allowed(tool: str) -> list[str]:
    """Requirements that pin the packages of an extra to the oldest versions that it allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = project["optional-dependencies"][tool]
    return [line.replace(">=", "==") for line in lines if not line.startswith("taskloom[")]


def borrow_torch(place: Path) -> None:
    """Link the torch of this environment into another one."""
    here = Path(sysconfig.get_path("purelib"))
    [there] = place.glob("lib/python*/site-packages")
    for pattern in ("torch", "torch-*.dist-info", "torchgen", "functorch"):
        for found in here.glob(pattern):
            link = there / found.name
            if not link.exists():
                link.symlink_to(found)


def run_tests(python: Path, tool: str) -> int:
    """Run the tests of a tool and return pytest's exit status."""
    names = TESTS[tool] if tool in WITHOUT_SCORES else [*TESTS[tool], *FOR_ALL]
    files = [f"tests/interop/{name}" for name in names]
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    settings = {**os.environ, "HF_HUB_OFFLINE": "1", "PATH": path}
    command = [str(python), "-m", "pytest", "-p", "no:cacheprovider", "-m", "", *files]
    return subprocess.run(command, cwd=ROOT, env=settings, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
