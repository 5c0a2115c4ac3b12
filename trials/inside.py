"""What runs on each node of a job: the training command under ``paceline run``, until enough steps are measured.

Rule of this file: a door. It starts, follows the recording, ends, has it analysed, and writes one document; when to
end is ``watched``'s business. Whatever happens to it, nothing of the training is left.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import FrameType
from typing import IO

import msgspec

from paceline import child, recording, topics, wire
from paceline.accused_units import accused_ranks
from paceline.decoders import json_decoder
from paceline.events import Evidence
from paceline.terminal import say

from . import job_folder, leftovers
from .estimate import blocks, rate
from .executor import RESULT_MARK
from .last_words import memory_said, without_torchrun
from .plan import ANALYSE_S, TERM_S, Measuring, decoded
from .plan import recording as recording_of
from .result import MOST_BYTES, MOST_FINDINGS, NodeResult, Verdict
from .steps_heard import StepsHeard
from .watched import End, Watch

#: Seconds between two looks at what was recorded.
LOOK_S = 0.25
#: Output that is passed on, in bytes; the last lines are kept anyhow.
MOST_OUTPUT, MOST_TAIL, MOST_SAID = 16 * 2**20, 65_536, 4096
MOST_FINDINGS_BYTES = 16 * 2**20
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(words: list[str]) -> int:
    """``PLAN NODE_RANK -- COMMAND``: measure the command; the exit status is 0 where a document was written."""
    try:
        plan, node_rank, _, *command = words
        measuring, node = decoded(plan), int(node_rank)
    except ValueError as error:
        say(f"trial: --inside is for a trial's own jobs ({error})")
        return 2
    asked = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        asked.set()

    for number in _SIGNALS:
        signal.signal(number, end)
    leftovers.adopt_orphans()
    with contextlib.ExitStack() as stack:
        folder = _folder(measuring, stack)
        result = _measured(measuring, node, command, folder, asked)
    if result is None:
        return 143
    _tell(result, Path(measuring.folder), node)
    return 0


def _folder(measuring: Measuring, stack: contextlib.ExitStack) -> Path:
    """Where the recording goes: the job's folder, or one of our own where that is not to be had."""
    folder = Path(measuring.folder)
    if folder.is_dir() and os.access(folder, os.W_OK):
        return folder
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="paceline-trial-")))


def _measured(
    plan: Measuring, node_rank: int, command: list[str], folder: Path, asked: threading.Event
) -> NodeResult | None:
    """The run; None where it was ended from outside."""
    path = recording_of(folder, node_rank)
    path.unlink(missing_ok=True)
    heard, watch, output = StepsHeard(plan.warm_up), Watch(plan), Output()
    run = [sys.executable, "-P", "-m", "paceline", "run", "--record", str(path), "--job", plan.job]
    process = child.spawn([*run, "--no-panel", "--quiet", "--brokers", "none", "--", *command], output.writer)
    output.follow()
    try:
        with contextlib.closing(Follower(path, heard)) as follower:
            end, first_s = _until_enough(process, follower, heard, watch, output, asked)
        said = output.said()  # What it says of being ended by us is no news.
    finally:
        ours = process.poll() is None
        _end(process)
    findings = _findings(path, asked, ended_by_us=ours) if end is not None and heard.begun else []
    if end is None or asked.is_set():
        return None
    return _document(plan, end, heard, findings, process.returncode, said, first_s)


def _until_enough(
    process: "subprocess.Popen[bytes]",
    follower: "Follower",
    heard: StepsHeard,
    watch: Watch,
    output: "Output",
    asked: threading.Event,
) -> tuple[End | None, float | None]:
    """How it ended, or is to be ended, and when its first step was heard; None: we were asked to end."""
    began, first_s = time.monotonic(), None
    while not asked.is_set():
        ended = process.poll()
        follower.read()
        now_s = time.monotonic() - began
        first_s = now_s if first_s is None and heard.begun else first_s
        if ended is not None:
            output.drain()
            return watch.ended(ended, output.memory, heard.steps, heard.seconds), first_s
        end = watch.look(now_s, heard.last, heard.steps, heard.seconds)
        if end is not None:
            return end, first_s
        asked.wait(LOOK_S)
    return None, first_s


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ask, then force: all below us, whatever session it is in."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(TERM_S)
        process.kill()
    process.wait()
    leftovers.end_below(os.getpid())


class Follower:
    """Reads a recording as it grows, whole lines only."""

    def __init__(self, path: Path, heard: StepsHeard) -> None:
        self._path = path
        self._heard = heard
        self._file: IO[bytes] | None = None
        self._left = b""

    def read(self) -> None:
        """Hear what was written since."""
        if self._file is None:
            try:
                self._file = self._path.open("rb")
            except OSError:
                return
        while part := self._file.read(2**20):
            *lines, self._left = (self._left + part).split(b"\n")
            for line in lines:
                self._hear(line)
            if len(self._left) > recording.LONGEST_LINE:
                self._left = b""

    def close(self) -> None:
        """Hear no more."""
        if self._file is not None:
            self._file.close()

    def _hear(self, line: bytes) -> None:
        message = recording.parse(0, line + b"\n")
        if isinstance(message, recording.Bad):
            return
        try:
            topic = topics.resolve(message.topic)
            self._heard.update(wire.decode(topic, message.value))
        except (KeyError, wire.WireError):
            return


class Output:
    """What the training says: passed on to our own output up to a bound, its last lines kept."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        self._tail = b""
        self._passed = 0
        self.memory = ""
        self._thread = threading.Thread(target=self._read, daemon=True)

    def follow(self) -> None:
        """The training has been started: we hold no end to write to any more."""
        os.close(self.writer)
        self._thread.start()

    def drain(self) -> None:
        """Wait a moment for what is still in the pipe; a process that holds it open is not waited for."""
        self._thread.join(2.0)

    def _read(self) -> None:
        while part := os.read(self._reader, 65_536):
            seen = self._tail[-200:] + part
            self.memory = self.memory or memory_said(seen.decode(errors="replace"))
            self._tail = (self._tail + part)[-MOST_TAIL:]
            if self._passed < MOST_OUTPUT:
                self._passed += len(part)
                with contextlib.suppress(OSError):
                    os.write(sys.stdout.fileno(), part)
        os.close(self._reader)

    def said(self) -> str:
        """The training's own last lines."""
        own = without_torchrun(self._tail.decode(errors="replace"))
        return job_folder.shown(own.encode())[-MOST_SAID:]


def _findings(path: Path, asked: threading.Event, *, ended_by_us: bool) -> list[Verdict]:
    """What Paceline found in the recording, the most expensive first; nothing where it cannot be analysed in time."""
    words = [sys.executable, "-P", "-m", "paceline", "analyze", str(path), "--json"]
    with tempfile.TemporaryFile() as out:
        process = child.spawn(words, out)
        until_s = time.monotonic() + ANALYSE_S
        while process.poll() is None and time.monotonic() < until_s and not asked.wait(0.05):
            pass
        process.kill()
        process.wait()
        out.seek(0)
        return confirmed(out.read(MOST_FINDINGS_BYTES).splitlines(), ended_by_us=ended_by_us)


class _Cost(msgspec.Struct, frozen=True):
    lost_s: float = 0.0
    throughput_lost_ratio: float = 0.0


class _Finding(msgspec.Struct, frozen=True):
    id: str
    kind: str
    state: str
    cause: str = "unknown"
    ranks: list[int] = []
    summary: str = ""
    cost: _Cost = _Cost()
    evidence: list[Evidence] = []


def confirmed(lines: list[bytes], *, ended_by_us: bool) -> list[Verdict]:
    """The last word on each finding, of those that are confirmed.

    Of a run that we ended, a finding that it died is about our signal, and none of the placement.
    """
    no_news = ("insufficient_data", "died") if ended_by_us else ("insufficient_data",)
    last: dict[str, _Finding] = {}
    for line in lines:
        with contextlib.suppress(msgspec.DecodeError, ValueError):
            finding = json_decoder(_Finding).decode(line)
            last[finding.id] = finding
    held = [one for one in last.values() if one.state == "confirmed" and one.kind not in no_news]
    worst = sorted(held, key=lambda one: -one.cost.lost_s)[:MOST_FINDINGS]
    return [_verdict(one) for one in worst]


def _verdict(one: _Finding) -> Verdict:
    return Verdict(
        kind=one.kind[:64],
        cause=one.cause[:64],
        ranks=one.ranks[:64],
        rank_count=accused_ranks(one),
        summary=one.summary[:400],
        lost_s=max(one.cost.lost_s, 0.0),
        throughput_lost_ratio=max(one.cost.throughput_lost_ratio, 0.0),
    )


def _document(
    plan: Measuring,
    end: End,
    heard: StepsHeard,
    findings: list[Verdict],
    status: int,
    said: str,
    first_s: float | None,
) -> NodeResult:
    step_s = heard.step_s
    median = sorted(step_s)[len(step_s) // 2] if step_s else None
    samples = None if heard.batch_size is None or heard.world_size is None else heard.batch_size * heard.world_size
    return NodeResult(
        job=plan.job,
        node=socket.gethostname()[:255],
        outcome=end.outcome,
        reason=end.reason,
        steps=len(step_s),
        blocks_s=blocks(step_s),
        median_s=median,
        samples_per_s=None if samples is None else rate([blocks(step_s)], samples),
        batch_size=heard.batch_size,
        world_size=heard.world_size,
        phases=heard.shares,
        findings=findings,
        exit_status=status,
        versions={"framework": heard.framework[:64]} if heard.framework else {},
        said=said if end.outcome != "measured" else "",
        started_s=first_s,
    )


def _tell(result: NodeResult, folder: Path, node_rank: int) -> None:
    """Into the job's folder, all at once, where there is one; and as a line of the output."""
    document = msgspec.json.encode(result)
    if len(document) > MOST_BYTES:
        document = msgspec.json.encode(msgspec.structs.replace(result, findings=[], said=result.said[-1024:]))
    if folder.is_dir():
        with contextlib.suppress(OSError):
            _write(folder / f"result-{node_rank}.json", document)
    line = b"\n" + RESULT_MARK.encode() + document + b"\n"
    with contextlib.suppress(OSError):
        os.write(sys.stdout.fileno(), line)


def _write(path: Path, document: bytes) -> None:
    with tempfile.NamedTemporaryFile("wb", dir=path.parent, delete=False) as file:
        file.write(document)
        file.flush()
        os.fsync(file.fileno())
    os.replace(file.name, path)
