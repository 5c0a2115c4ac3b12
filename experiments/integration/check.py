"""A check: what was asked, and what came of it.

Rule of this file: a check either says what it saw or raises ``FailedError``, which says what was not so.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

SCRIPTS = Path(__file__).parent / "scripts"
#: A training run of a minute, on a machine that does something else besides.
RUN_S = 900.0


class FailedError(Exception):
    """What was not as it should be, on one line."""


class Check(NamedTuple):
    """``run`` is given a folder of its own and returns what it saw."""

    name: str
    run: Callable[[Path], str]


def expect(what: bool, otherwise: str) -> None:
    """Fail with ``otherwise`` unless ``what``."""
    if not what:
        raise FailedError(otherwise)


def tracked(folder: Path, options: list[str], command: list[str], environ: dict[str, str]) -> str:
    """Train under the installed ``paceline run`` with ``options``; what was said on standard error."""
    words = [sys.executable, "-P", "-m", "paceline", "run", *options, "--", sys.executable, "-P", *command]
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "PACELINE_BROKERS": "none", "TMPDIR": str(folder)} | environ,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    (folder / "said").write_text(done.stdout + done.stderr)
    expect(done.returncode == 0, f"the run ended with status {done.returncode}: {done.stderr[-800:]}")
    return done.stderr


def slow_rank(kept: str, seconds: float) -> list[str]:
    """The demo's training on three ranks, of which rank 1 turns slow, with a run of ``kept`` open in rank 0."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3"]
    script = str(SCRIPTS / "slow_rank.py")
    return [*torchrun, script, kept, "--fault", "compute", "--rank", "1", "--seconds", f"{seconds:.0f}"]
