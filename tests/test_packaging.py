"""The package as people install it: what the wheel holds, and the ten minutes of the tutorial with
nothing but the wheel.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from taskloom.core.registry import SUITES

ROOT = Path(__file__).parent.parent
TUTORIAL = ROOT / "docs" / "tutorial" / "ten-minutes.md"
FENCE = re.compile(r"^```(\w+)( [^\n]*)?\n(.*?)^```$", re.M | re.S)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [file] = folder.glob("*.whl")
    return file


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    names = {
        name
        for name in zipfile.ZipFile(wheel).namelist()
        if not name.split("/")[0].endswith(".dist-info")
    }
    package = ROOT / "src" / "taskloom"
    files = [p for p in (ROOT / "src").rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    own = {
        p.relative_to(ROOT / "src").as_posix()
        for p in files
        if not p.parent.name.endswith(".egg-info")
    }
    assert names == own
    assert {
        "taskloom/analysis/report/page.html.j2",
        "taskloom/analysis/report/explorer.js",
    } <= names
    for suite in (s for s in SUITES if s.module.startswith("taskloom.")):
        for recipe in suite.recipe_files().values():
            assert f"taskloom/{recipe.relative_to(package).as_posix()}" in names


@pytest.mark.slow
def test_the_source_archive_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """What `python -m build` does: the wheel from the archive, not from the repository."""
    hatchling = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)]
    done = subprocess.run([*hatchling, "-t", "sdist"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [archive] = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(tmp_path / "unpacked", filter="data")
    [source] = (tmp_path / "unpacked").iterdir()
    assert not (source / ".git").exists()
    done = subprocess.run([*hatchling, "-t", "wheel"], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [again] = tmp_path.glob("*.whl")
    files = [
        {
            i.filename: i.CRC
            for i in zipfile.ZipFile(path).infolist()
            if not i.filename.endswith("/RECORD")
        }
        for path in (wheel, again)
    ]
    assert files[0] == files[1]


def run(command: list[str], folder: Path, path: str) -> str:
    """Run a command in a folder, with the environment's programs and none of ours."""
    clean = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("PYTHON", "TASKLOOM", "VIRTUAL_ENV"))
    }
    done = subprocess.run(
        command, cwd=folder, env={**clean, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


@pytest.mark.slow
def test_the_tutorial_word_for_word_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    """Every block of the page in its order: files are written as they stand, shell lines and Python
    are run.
    """
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    path = f"{home / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin"
    install = [
        str(home / "bin" / "pip"),
        "install",
        "-q",
        "--disable-pip-version-check",
        f"{wheel}[audit,report]",
    ]
    if subprocess.run(install, capture_output=True).returncode:
        pytest.skip("no package index can be reached")
    packages = run([str(home / "bin" / "pip"), "list", "--format=freeze"], tmp_path, path).lower()
    assert "torch" not in packages, "the light parts stay light"
    work = tmp_path / "work"
    work.mkdir()
    outputs = ""
    for language, mark, body in FENCE.findall(TUTORIAL.read_text(encoding="utf-8")):
        title = re.search(r'title="([^"]+)"', mark)
        if title:
            (work / title[1]).parent.mkdir(parents=True, exist_ok=True)
            (work / title[1]).write_text(body, encoding="utf-8")
        elif language == "sh":
            lines = body.replace("pip install 'taskloom[audit,report]'", "true")
            outputs += run(["bash", "-ec", lines], work, path)
        elif language == "python":
            outputs += run([str(home / "bin" / "python"), "-c", body], work, path)
    assert "0 leaks" in outputs
    assert "Do they compose?" in (work / "report.html").read_text(encoding="utf-8")
