"""The bench: a case's scripts are run on it, watched by Paceline or by nobody, and what they and Paceline tell is read.

Rule of this file: starting and reading; nothing is judged here.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from experiments.gpu import recorded
from experiments.gpu.errors import RunError
from experiments.gpu.scripts.truth import TRUTH_VARIABLE

ROOT = Path(__file__).parents[2]
SCRIPTS = "experiments.gpu.scripts"
RECORDING = "run.jsonl"
#: Ranks of one machine talk over its loopback device, for a machine without a network may have no other.
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
#: What the probe may cost, as a share of a step; 0 tells every step, and what is compared step by step needs that.
BUDGET = "PACELINE_PROBE_BUDGET"
#: What lets two ranks share a GPU (NCCL 2.30, experimental), and with few blocks each, or they wait for each other.
SHARED_GPU = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_MAX_CTAS": "4"}


class Run(NamedTuple):
    """A run that has ended. ``truth``: what each rank's script says itself, by rank."""

    status: int
    said: str
    truth: list[dict[str, Any]]
    recording: Path

    @property
    def rows(self) -> list[recorded.Row]:
        """What Paceline told of it; nothing where it did not watch."""
        return recorded.rows(self.recording) if self.recording.exists() else []


class Bench:
    """Runs scripts on ``device`` (cuda or cpu), each in a folder of its own below ``folder``.

    ``backend`` is what two ranks can talk through here: nccl, or gloo where NCCL lets no two ranks share a GPU.
    """

    def __init__(self, device: str, folder: Path, backend: str = "gloo") -> None:
        self.device = device
        self.folder = folder
        self.backend = backend
        self._runs = 0

    @property
    def on_gpu(self) -> bool:
        """Whether there is a GPU to read."""
        return self.device == "cuda"

    def either(self, on_gpu: float, on_cpu: float) -> float:
        """The bound for this device."""
        return on_gpu if self.on_gpu else on_cpu

    def watched(
        self,
        script: str,
        *words: object,
        ranks: int = 1,
        may_fail: bool = False,
        options: tuple[str, ...] = (),
        environ: dict[str, str] | None = None,
    ) -> Run:
        """Run ``script`` under `paceline run` with ``options``, recorded.

        Raises:
            RunError: it failed, though it may not.
        """
        folder = self._folder(script)
        told = ["--record", str(folder / RECORDING), "--brokers", "none", "--no-panel", *options, "--"]
        return self._run(
            folder, [*PACELINE["run"], *told], self._command(script, words, ranks), may_fail, environ or {}
        )

    def plain(
        self, script: str, *words: object, ranks: int = 1, may_fail: bool = False, environ: dict[str, str] | None = None
    ) -> Run:
        """Run ``script`` with no Paceline anywhere near it; see ``watched``."""
        return self._run(self._folder(script), [], self._command(script, words, ranks), may_fail, environ or {})

    def paceline(self, *words: object) -> str:
        """What a command of Paceline prints.

        Raises:
            RunError: it failed.
        """
        command = [*PACELINE[words[0]], *map(str, words[1:])]
        done = subprocess.run(command, env=_environ({}), capture_output=True, text=True, check=False)
        if done.returncode not in (0, 2):
            raise RunError(f"paceline {words[0]} ended with status {done.returncode}: {_last(done.stderr)}")
        return done.stdout

    def findings(self, run: Run) -> list[dict[str, Any]]:
        """What `paceline analyze` finds in the recording of ``run``."""
        return [json.loads(line) for line in self.paceline("analyze", run.recording, "--json").splitlines()]

    def _folder(self, script: str) -> Path:
        self._runs += 1
        folder = self.folder / f"{self._runs}-{script}"
        folder.mkdir(parents=True)
        return folder

    def _command(self, script: str, words: tuple[object, ...], ranks: int) -> list[str]:
        launch = ["torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "-m"] if ranks > 1 else []
        return [sys.executable, "-m", *launch, f"{SCRIPTS}.{script}", f"--device={self.device}", *map(str, words)]

    def _run(self, folder: Path, around: list[str], command: list[str], may_fail: bool, environ: dict[str, str]) -> Run:
        seen = _environ({**SHARED_GPU, BUDGET: "0", **environ, TRUTH_VARIABLE: str(folder)})
        log = folder / "said.txt"
        with log.open("wb") as said:
            done = subprocess.run([*around, *command], env=seen, stdout=said, stderr=said, cwd=folder, check=False)
        words = log.read_text(errors="replace")
        if done.returncode and not may_fail:
            raise RunError(f"{folder.name} ended with status {done.returncode}: {_last(words)}")
        truth = [json.loads(path.read_text()) for path in sorted(folder.glob("truth-*.json"))]
        return Run(done.returncode, words, truth, folder / RECORDING)


#: Where nothing is installed there are no entry points to find a command by.
_MAIN = "import sys; from {} import main; sys.exit(main(sys.argv[1:]))"
PACELINE: dict[object, list[str]] = {
    name: [sys.executable, "-P", "-c", _MAIN.format(module)]
    for name, module in {
        "run": "paceline.commands.run",
        "analyze": "streams.analyze",
        "import": "importers.__main__",
        "collect": "collectors.__main__",
    }.items()
}


def _environ(added: dict[str, str]) -> dict[str, str]:
    """What a child sees: this repository first, no settings of somebody else's Paceline."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PACELINE_")}
    path = os.pathsep.join(filter(None, [str(ROOT), kept.get("PYTHONPATH")]))
    threads = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    return {**LOOPBACK, **threads, **kept, "PYTHONPATH": path, **added}


def _last(said: str) -> str:
    """The line that says most of how it ended: the last that names an error, else the last."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "error:" in line]
    return (errors or lines or ["it said nothing"])[-1][:200]
