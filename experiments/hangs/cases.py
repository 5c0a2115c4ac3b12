"""What four real ranks are made to do, and what must be reported of it.

Rule of this file: a case is data; what is right of it is judged in one place, for tests and for the benchmark.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.analyzed import findings_in

SCRIPT = Path(__file__).parents[2] / "tests" / "e2e" / "scripts" / "hanging.py"
RANKS = 4
#: How users start them.
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS))
#: A run takes under a minute on an idle machine.
_LONGEST_S = 500.0


class Case(NamedTuple):
    """``name`` is what the script knows it by; ``ranks`` are those to accuse, None where nothing may be reported.

    ``says`` is in the summary of what is reported, ``function`` is where the accused rank is, "" where nobody can know;
    ``next`` is how the next command begins.
    """

    name: str
    what: str
    ranks: tuple[int, ...] | None = None
    says: str = ""
    function: str = ""
    next: str = "py-spy dump --pid "


_DUMP_WORKERS, _DUMP_NATIVE = "py-spy dump --subprocesses --pid ", "py-spy dump --native --pid "
CASES = (
    Case("loop", "a loop in Python", (2,), "it is computing", "spin"),
    Case("lock", "a lock held by another thread", (2,), "it is waiting there", "blocked"),
    Case("loader", "a loader whose worker hangs", (2,), "it is waiting for its data loader", "load", _DUMP_WORKERS),
    Case("fifo", "a pipe without a writer", (2,), "it is waiting there", "read"),
    Case(
        "native",
        "native code that holds the interpreter's lock",
        (2,),
        "native code holds the interpreter's lock",
        next=_DUMP_NATIVE,
    ),
    Case("stop", "SIGSTOP, or a debugger", (2,), "its process is stopped", next="kill -CONT "),
    Case("skip", "a skipped collective", (2,), "calls differ: ranks 0, 1 and 3 called", "finish", ""),
    Case("order", "two groups in opposite order", (), "two groups are used in different order", next=""),
    Case("checkpoint", "a long checkpoint on one rank"),
    Case("evaluation", "an evaluation on one rank"),
    Case("first", "a slow first step"),
)
BY_NAME = {case.name: case for case in CASES}


class Outcome(NamedTuple):
    """What came of one run: seconds that the longest waiter had waited when it was suspected and confirmed, None for
    never; and whether what was confirmed is right. Where nothing may be reported, right is that nothing was."""

    case: str
    suspected_s: float | None
    confirmed_s: float | None
    kind: bool
    ranks: bool
    line: bool


def hangs_of(
    name: str, folder: Path, launcher: Sequence[str] = TORCHRUN, environ: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """The findings on hangs of a run under `paceline run` in which the case of this ``name`` happens.

    ``launcher`` and what ``environ`` adds start the ranks; the script and its arguments follow.
    """
    recording = folder / "run.jsonl.zst"
    train = [*launcher, str(SCRIPT), name, str(folder / "own")]
    environ = {**os.environ, "OMP_NUM_THREADS": "1", **(environ or {})}
    command = [sys.executable, "-m", "paceline", "run", "--no-panel", "--record", str(recording), "--", *train]
    # Many of them end with an error: that of the collective that was left.
    with (folder / "log").open("wb") as log:
        subprocess.run(command, check=False, env=environ, timeout=_LONGEST_S, stdout=log, stderr=log)
    return [finding for finding in findings_in(recording) if finding["kind"] == "hang"]


def judged(case: Case, found: Sequence[dict[str, Any]]) -> Outcome:
    """Whether ``found``, the hangs of a run, is what must be reported of ``case``. Every revision may accuse nobody
    but the right ones."""
    first, confirmed = (next((one for one in found if one["state"] in states), None) for states in _STATES)
    if case.ranks is None:
        return Outcome(case.name, _waited(first), _waited(confirmed), not found, not found, not found)
    if confirmed is None:
        return Outcome(case.name, _waited(first), None, kind=False, ranks=False, line=False)
    last = [one for one in found if one["state"] == "confirmed"][-1]
    line = last.get("line") or ""
    return Outcome(
        case.name,
        _waited(first),
        _waited(confirmed),
        kind=case.says in last["summary"],
        ranks=all(tuple(one["ranks"]) == case.ranks for one in found),
        line=line.endswith(f" {case.function}") if case.function else True,
    )


_STATES = (("suspected", "confirmed"), ("confirmed",))


def _waited(finding: dict[str, Any] | None) -> float | None:
    if finding is None:
        return None
    return next(float(one["value"]) for one in finding["evidence"] if one["name"] == "waited")
