"""Real training runs on this machine, each with a real fault or none, recorded by ``paceline run --record``.

Rule of this file: starting and ending runs. The script is the example that ``paceline demo`` runs; what it does to be
slow is in ``paceline.training.example_faults``, and when it began is read off the recording.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from experiments.detection.judged import judge
from experiments.detection.phases import closed_steps
from experiments.detection.score import Marks, mark
from experiments.detection.verdict import Case, Injected
from paceline import recording, topics, wire
from paceline.commands.slow_link import LinkError, SlowLink, namespace
from paceline.events import Event, StepTimings
from paceline.topics import Topic
from paceline.training.example_faults import LINK_COMMAND_VARIABLE

WARM_UP, LAST_STEP = 40, 2**40
CAUSES = {
    "compute": "worker_compute",
    "input": "input_pipeline",
    "cpu": "cpu_contention",
    "gc": "garbage_collection",
    "link": "link",
}
#: About by how much the example's faults lengthen a rank's work; the recording tells how much it was.
_SIZE = {"compute": 2.0, "input": 1.0, "cpu": 3.0, "gc": 1.0, "link": 1.0}
_PORT = 29_417
#: Starting up, beside the training time.
_START_S = 240.0


class RunError(Exception):
    """A run did not go through: why, on one line."""


@dataclass(frozen=True)
class Run:
    """One run: a fault on ``rank`` or "none", over ``ranks`` processes, with ``load`` busy processes beside it."""

    fault: str
    rank: int
    ranks: int
    seconds: float
    load: int = 0

    @property
    def name(self) -> str:
        """What it is called."""
        beside = f", {self.load} busy processes beside it" if self.load else ""
        return f"{self.ranks} processes: {self.fault} on rank {self.rank}" if self.fault != "none" else (
            f"{self.ranks} processes: healthy{beside}"
        )  # fmt: skip


def runs(quick: bool, eight: bool) -> list[Run]:
    """All runs, some with eight processes where asked for."""
    if quick:
        return [Run("compute", 1, 4, 35.0), Run("none", 0, 4, 35.0)]
    made = [Run(fault, rank, 4, 60.0) for fault in CAUSES for rank in (1, 2)]
    made += [Run("none", 0, 4, 120.0), Run("none", 0, 4, 120.0), Run("none", 0, 4, 120.0, load=1)]
    if eight:
        made += [Run(fault, 5, 8, 120.0) for fault in ("compute", "input", "gc")]
        made.append(Run("none", 0, 8, 120.0))
    return made


def run(one: Run, folder: Path) -> dict[str, Marks]:
    """Train once and put the recording through every rule; the marks by rule.

    Raises:
        RunError, LinkError: it did not go through.
    """
    path = folder / f"{one.fault}-{one.rank}-{one.ranks}-{one.load}.jsonl.zst"
    with _link(one) as link, _load(one.load):
        _train(one, path, link)
    messages = list(_events(path))
    case = _case(one, messages)
    return {rule: mark(case, accusations) for rule, accusations in judge(messages).items()}


def _train(one: Run, path: Path, link: SlowLink | None) -> None:
    python = [sys.executable, "-m"]
    options = ["--fault", one.fault, "--rank", str(one.rank), "--seconds", str(one.seconds), "--warm-up", str(WARM_UP)]
    script = [*python, "paceline.training.example", *options]
    launch = [*python, "torch.distributed.run", "--nproc-per-node", str(one.ranks), "--no-python"]
    environ = dict(os.environ, OMP_NUM_THREADS="1")
    if link is None:
        launch = [*launch, "--standalone", *script]
    else:
        where = ["--master-addr", link.address, "--master-port", str(_PORT)]
        launch = [*launch, "--nnodes", "1", *where, *link.wrap(one.rank, script)]
        environ[LINK_COMMAND_VARIABLE] = link.slow_down
    whole = [*python, "paceline", "run", "--no-panel", "--record", str(path), "--", *launch]
    # No broker is wanted: the address is one that nobody answers on.
    environ["PACELINE_BROKERS"] = "127.0.0.1:1"
    try:
        done = subprocess.run(whole, env=environ, capture_output=True, text=True, timeout=one.seconds + _START_S)
    except subprocess.TimeoutExpired:
        raise RunError(f"{one.name}: not done after {one.seconds + _START_S:.0f} s") from None
    if done.returncode:
        raise RunError(f"{one.name}: status {done.returncode}: {' '.join(done.stderr.splitlines()[-3:])[:300]}")


@contextlib.contextmanager
def _link(one: Run) -> Iterator[SlowLink | None]:
    if one.fault != "link":
        yield None
        return
    with namespace() as link:
        yield link


@contextlib.contextmanager
def _load(count: int) -> Iterator[None]:
    """Processes that come and go as other users' would: busy for a second, then still for one."""
    code = (
        "import os, time\nparent = os.getppid()\nwhile os.getppid() == parent:\n"
        "    end = time.monotonic() + 1\n    while time.monotonic() < end: pass\n    time.sleep(1)"
    )
    busy = [subprocess.Popen([sys.executable, "-ISc", code]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def _events(path: Path) -> Iterator[tuple[float, Topic, Event]]:
    for line in recording.read(str(path)):
        if isinstance(line, recording.Bad):
            raise RunError(f"{path.name}: line {line.number}: {line.reason}")
        topic = topics.resolve(line.topic)
        yield line.timestamp_ms / 1000, topic, wire.decode(topic, line.value)


def _case(one: Run, messages: list[tuple[float, Topic, Event]]) -> Case:
    """The truth about a run: the fault begins with the step after the warm-up."""
    begins: dict[int, float] = {}
    lasts: list[float] = []
    last = 0
    for _, _, event in messages:
        if not isinstance(event, StepTimings):
            continue
        closed = closed_steps(event)
        mine = closed.rank == one.rank
        begins |= zip(closed.step[mine].tolist(), closed.start_s[mine].tolist(), strict=True)
        lasts += closed.seconds[mine].tolist()
        last = max([last, *closed.step[mine].tolist()])
    if WARM_UP not in begins:
        raise RunError(f"{one.name}: only {last + 1} steps; this machine is too busy")
    faults: tuple[Injected, ...] = ()
    if one.fault != "none":
        who = frozenset([one.rank])
        began = begins[WARM_UP]
        fault = Injected(one.fault, _SIZE[one.fault], who, WARM_UP, last, began, "straggler", CAUSES[one.fault])
        faults = (fault,)
    # The first step holds the start-up.
    hours = (max(begins.values()) - min(begins[step] for step in begins if step)) / 3600
    # As in simulated jobs: a slow link lengthens every rank's transfers alike, and the whole job has turned slow.
    also = ("slowdown",) if one.fault == "link" else ()
    return Case(one.name, "real", one.ranks, hours, sorted(lasts)[len(lasts) // 2], faults, also)


__all__ = ["LinkError", "Run", "RunError", "run", "runs"]
