"""``make env`` and ``make demo`` say what they fetch, and how far they are, in a pipe, too."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Stands for uv: an environment with one package of two, then what uv says.
UV = """#!/bin/bash
case "$*" in
*venv*)
  mkdir -p lab/bin lab/lib/python3/site-packages/one-1.dist-info/vendored/two-1.dist-info
  ln -sf "$(type -P true)" lab/bin/python
  ;;
*sync*)
  echo 'Downloading torch (846.9MiB)' >&2
  until [ -e went-on ]; do sleep 0.1; done
  printf '%s\n' 'Installed 2 packages in 1ms' ' + one==1' >&2
  [ ! -e fails ] || { echo 'error: no such host' >&2; exit 1; }
  ;;
esac
"""

pytestmark = pytest.mark.slow


def started(folder: Path) -> "subprocess.Popen[str]":
    """The script, in a checkout with two packages to install, its lines in a pipe."""
    (folder / "deploy").mkdir()
    for name in ("environment.sh", "tries.sh"):
        shutil.copy(ROOT / "deploy" / name, folder / "deploy")
    (folder / "requirements.lock").write_text(
        "one==1 \\\n    --hash=sha256:0\ntorch==2 \\\n    --hash=sha256:0\n", encoding="utf-8"
    )
    (folder / "uv").write_text(UV, encoding="utf-8")
    (folder / "uv").chmod(0o755)
    environ = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PROGRESS_S": "0.2", "TRIES_PAUSE_S": "0"}
    command = ["bash", str(folder / "deploy" / "environment.sh"), "lab"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ, cwd=folder)


def test_size_what_is_fetched_and_progress_are_lines(tmp_path: Path) -> None:
    """While it waits a line comes again and again; the list of all packages does not."""
    with started(tmp_path) as process:
        assert process.stderr is not None
        first = [process.stderr.readline() for _ in range(4)]
        (tmp_path / "went-on").touch()
        rest = process.stderr.read()
    assert process.returncode == 0
    assert "2 packages of requirements.lock, 5 to 7 GB with PyTorch" in first[0]
    assert "Downloading torch (846.9MiB)\n" in first
    assert sum("1 of at most 2 packages installed" in line for line in first) >= 2
    assert "one==1" not in "".join(first) + rest


def test_what_cannot_be_had_ends_with_its_message_and_status(tmp_path: Path) -> None:
    """After three tries; nothing goes on saying how far it is."""
    (tmp_path / "fails").touch()
    (tmp_path / "went-on").touch()
    with started(tmp_path) as process:
        assert process.stderr is not None
        said = process.stderr.read()
    assert process.returncode == 3
    assert said.count("error: no such host") == 3
    assert said.splitlines()[-1].endswith("could not be installed; uv's message is above")


def test_in_a_fresh_clone_the_wheel_is_built_without_pytorch(tmp_path: Path) -> None:
    """Of the environment that `make wheel` builds there only what builds wheels is fetched; a built `.venv` is used."""
    for name in (
        "Makefile",
        "pyproject.toml",
        "requirements.lock",
        "deploy/environment.sh",
        "deploy/requirements/build.lock",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)

    def shown() -> list[str]:
        return subprocess.run(
            ["make", "-n", "wheel"], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.split("\n")

    fresh = shown()
    assert [line.split(" ", 1)[1] for line in fresh if "environment.sh" in line] == [
        "deploy/environment.sh .venv-build deploy/requirements/build.lock"
    ]
    assert "torch" not in (ROOT / "deploy/requirements/build.lock").read_text(encoding="utf-8")
    assert ".venv-build/bin/hatchling build -t wheel -d dist" in fresh
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "ready").touch()
    assert shown()[-2] == ".venv/bin/hatchling build -t wheel -d dist"
