"""Real ranks: processes of a script that meet over gloo and leave what they found in files."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.forking import SCRIPT as FORKED

SCRIPTS = Path(__file__).parent / "scripts"
ROOT = Path(__file__).parents[3]
#: Importing PyTorch alone takes long on a machine that is busy with other tests.
TIMEOUT_S = 500


class Ranks:
    """What the ranks of one script came to: ``found[case][rank]``, and how each process ended."""

    def __init__(self, folder: Path, script: str, world: int, cases: tuple[str, ...]) -> None:
        self._folder = folder
        environ = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
            "TEST_FOLDER": str(folder),
            "WORLD_SIZE": str(world),
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, str(FORKED), str(world), str(folder), str(SCRIPTS / script), *cases]
        with subprocess.Popen(command, env=environ, start_new_session=True) as process:
            try:
                process.wait(TIMEOUT_S)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)  # Its ranks are in its group.
        self.ended = json.loads((folder / "ended.json").read_text())
        self.found = {case: [self._told(case, rank) for rank in range(world)] for case in cases}

    def _told(self, case: str, rank: int) -> Any:
        path = self._folder / f"{case}-{rank}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def said(self, rank: int) -> str:
        return (self._folder / f"stderr-{rank}").read_text()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Ranks]:
    """Runs the cases of a script on so many ranks; each must come to its end unless ``check`` is false."""

    def run(script: str, world: int, *cases: str, check: bool = True) -> Ranks:
        made = Ranks(tmp_path_factory.mktemp("ranks"), script, world, cases)
        if check:
            assert made.ended == [0] * world, "\n".join(made.said(rank)[-3000:] for rank in range(world))
        return made

    return run
