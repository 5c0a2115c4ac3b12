"""One run of the worker: a fresh Kafka node, a load, and what came of it.

Rule of this file: two ways to load it. **Pre-loaded**: everything lies on the topic before the worker starts, so that
nobody but worker and broker needs a processor; the rate is taken from the worker's own counter, from the first messages
in to the last. **Paced**: the worker has joined and is idle, then every message comes at its moment, as from a cluster.
Beside them ``paceline analyze`` on a recording of the same messages, with neither broker nor worker.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paceline import topics
from paceline.kafka.topic_admin import ensure_topics

from ..processes import ROOT, RunError, Worker, apache_kafka, worker
from . import delays
from .jobs import TIMINGS_A_RANK_STEP, Load
from .load import Sent, preload, record
from .pacing import paced

#: A look reads all metrics, which takes the worker 30 ms where it has 200 jobs: no more than a twentieth of the time.
LOOK_S, LOOK_SHARE = 1.0, 20
#: What we send; the worker also tells itself of findings.
SENT = f'topic="{topics.OP.short}"'
#: What was taken may wait to be judged with more of its job: the worker is done when it works less than this.
REST_SHARE = 0.3
TIMEOUT_S = 1200.0


def say(line: str) -> None:
    """Progress goes to standard error."""
    print(f"bench-streams: {line}", file=sys.stderr, flush=True)


def throughput(load: Load) -> dict[str, Any]:
    """Rank-steps a second of one worker on a pre-loaded topic."""
    with apache_kafka() as settings, tempfile.TemporaryDirectory(prefix="paceline-bench-") as folder:
        ensure_topics(settings)
        sent = preload(settings, load, lambda number: say(f"{load.name}: {number:,} rank-steps loaded"))
        say(
            f"{load.name}: all {sent.rank_steps:,} rank-steps in {sent.messages:,} messages loaded; starting the worker"
        )
        with worker(settings, ready=False, log=Path(folder) / "streams.log") as running:
            measured = _rate(running, sent, load.name) | {"memory_peak_bytes": running.memory_peak_bytes()}
        answers = delays.read(settings)
    measured |= _described(load, sent) | delays.verdict(load, answers)
    named = f"{measured['named']} of {measured['late']} late ranks named"
    say(f"{load.name}: {measured['rank_steps_per_s']:,.0f} rank-steps/s, {named}")
    return measured


def _rate(running: Worker, sent: Sent, name: str) -> dict[str, Any]:
    """From the first look at which it had taken something to the first at which it had judged everything."""
    first = before = (time.monotonic(), 0, 0.0)
    told = time.monotonic()
    while True:
        running.check()
        asked = time.monotonic()
        count, now, used_s = running.count("events_total", SENT), time.monotonic(), running.processor_s()
        if count and not first[1]:
            first = (now, count, used_s)
        if count >= sent.messages and used_s - before[2] < REST_SHARE * (now - before[0]):
            break
        before = (now, count, used_s)
        if now > told + 5.0:
            told = now
            say(f"{name}: {count:,} of {sent.messages:,} messages taken")
        if first[1] and now > first[0] + TIMEOUT_S:
            raise RunError(f"{count} of {sent.messages} messages judged after {TIMEOUT_S:.0f} s")
        time.sleep(max(LOOK_S, LOOK_SHARE * (now - asked)))
    now, count, used_s = before
    share = (count - first[1]) / sent.messages
    seconds, processor_s = now - first[0], used_s - first[2]
    rank_steps = sent.rank_steps * share
    return {
        "seconds": seconds,
        "processor_s": processor_s,
        "rank_steps_per_s": rank_steps / seconds,
        "rank_steps_per_processor_s": rank_steps / processor_s,
        "dead_letters": running.count("dead_letters_total"),
    }


def delay(load: Load) -> dict[str, Any]:
    """Delays of findings and windows while the load comes at its own pace."""
    with apache_kafka() as settings, tempfile.TemporaryDirectory(prefix="paceline-bench-") as folder:
        ensure_topics(settings)
        with worker(settings, ready=True, log=Path(folder) / "streams.log") as running:
            began, used = time.monotonic(), running.processor_s()
            sent = paced(settings, load, lambda number: say(f"{load.name}: {number:,} rank-steps sent"))
            seconds = time.monotonic() - began
            measured: dict[str, Any] = {
                "seconds": seconds,
                "processor_share": (running.processor_s() - used) / seconds,
                "memory_peak_bytes": running.memory_peak_bytes(),
                "worst_send_s": sent.late_s,
                "worst_acknowledgement_s": sent.acknowledged_s,
                "load_processor_share": sent.processor_s / seconds,
                "backlog_messages": sent.messages - running.count("events_total", SENT),
            }
            _drain(lambda: running.count("events_total", SENT) >= sent.messages, running)
        answers = delays.read(settings)
    measured |= _described(load, sent) | delays.verdict(load, answers)
    measured |= {"rank_steps_per_s": sent.rank_steps / load.seconds, "windows": delays.to_windows(answers)}
    measured |= {"findings": delays.to_findings(load, sent, answers)}
    say(f"{load.name}: findings {measured['findings']['from_step_end']}, windows {measured['windows']}")
    return measured


def analyzed(load: Load) -> dict[str, Any]:
    """Processor time of ``paceline analyze`` a rank-step, without what it takes to start."""
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as folder:
        recorded, empty = str(Path(folder) / "load.jsonl"), str(Path(folder) / "empty.jsonl")
        sent = record(recorded, load)
        Path(empty).touch()
        start_s, processor_s = _analyze_s(empty), _analyze_s(recorded)
    each = (processor_s - start_s) / sent.rank_steps
    say(f"{load.name}: analyze takes {1e6 * each:.1f} us a rank-step, and {start_s:.1f} s to start")
    measured = {"start_s": start_s, "processor_s": processor_s, "us_a_rank_step": 1e6 * each}
    return {**_described(load, sent), **measured, "packed_bytes_a_rank_step": sent.packed_bytes / sent.rank_steps}


def _analyze_s(path: str) -> float:
    """Processor time, user and system, of ``paceline analyze`` on the recording at ``path``."""
    command = [sys.executable, "-m", "paceline", "analyze", path]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        said = process.stderr.read() if process.stderr else b""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if b"could not be judged" in said:
        raise RunError(f"analyze: {said.decode(errors='replace').splitlines()[0]}")
    return usage.ru_utime + usage.ru_stime


def _drain(done: Callable[[], bool], running: Worker) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not done():
        running.check()
        if time.monotonic() > end:
            raise RunError(f"the worker did not catch up within {TIMEOUT_S:.0f} s")
        time.sleep(LOOK_S)


def _described(load: Load, sent: Sent) -> dict[str, Any]:
    return {
        "name": load.name,
        "jobs": load.jobs,
        "ranks": load.ranks,
        "nodes": load.jobs * load.nodes,
        "microbatches": load.microbatches,
        "timings_a_rank_step": TIMINGS_A_RANK_STEP,
        "rank_steps": sent.rank_steps,
        "messages": sent.messages,
        "rank_steps_a_message": sent.rank_steps / sent.messages,
        "bytes_a_rank_step": sent.bytes / sent.rank_steps,
    }
