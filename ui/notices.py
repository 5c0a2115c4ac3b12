"""What the page says when something is missing, and the command that fixes it.

Rule of this file: pure; the first rule that applies is the one shown.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from paceline.events.silence import JOB_SILENT_S, WORKERS_SILENT_S
from paceline.job_state import job_state, runs_twice
from paceline.settings import BROKERS, aimed_at
from paceline.words import age, seconds

from .snapshot import JobLine, JobView, Snapshot

#: The tone of each state of a job that reports.
TONES = {"running": "good", "slow": "wait", "stuck": "lost"}

RUN = ("paceline run -- torchrun --nproc-per-node 4 train.py", "watch a training run of yours, script unchanged")
NAMED = ("paceline run --job NAME -- torchrun train.py", "start a run under a name of its own")
DOCTOR = ("paceline doctor", "check broker, login, topics and clocks, with a fix for each")
UP = ("paceline up", "start broker, streams, collector and page")
COLLECT = ("paceline collect", "sample this node's GPUs and host; started on every node")
CONTROL = ("paceline control", "start it; PACELINE_CONTROL_URL says where this page finds it")
SESSION = ("paceline session start NAME --all", "record everything from now on")
STREAMS = ("paceline streams", "start the processor that finds stragglers")


@dataclass(frozen=True)
class Notice:
    """A message: a title, a sentence, and commands with what each does; ``aimed`` makes them those to type."""

    tone: Literal["lost", "wait", "good"]
    title: str
    text: str
    commands: tuple[tuple[str, str], ...] = ()


def aimed(notice: Notice, brokers: str) -> Notice:
    """``notice`` with commands that reach the ``brokers`` of this page, whatever the terminal they are typed in names.

    ``paceline up`` is left out where it would start another broker than the one that is meant.
    """
    commands = []
    for command, what in notice.commands:
        if command == UP[0]:
            commands += [(f"{command}{port}", what)] if (port := _port_of_up(brokers)) is not None else []
        else:
            # Control is asked over HTTP, and knows its own brokers.
            commands += [(command if command == SESSION[0] else aimed_at(command, brokers), what)]
    return replace(notice, commands=tuple(commands))


def _port_of_up(brokers: str) -> str | None:
    """The option by which ``paceline up`` starts the broker at ``brokers``; None where that is not one of this host."""
    if brokers == ",".join(BROKERS.default):
        return ""
    host, _, port = brokers.rpartition(":")
    return f" --port {port}" if host in ("127.0.0.1", "localhost") else None


def notice(snapshot: Snapshot, wanted: str | None) -> Notice | None:
    """What to tell above a job's picture, if anything."""
    said = of_connection(snapshot)
    if said is not None:
        return said
    if not snapshot.jobs and snapshot.connection.state == "connecting":
        text = f"More is being read from the broker at {snapshot.connection.brokers}."
        return Notice("wait", "No training job so far", text, (DOCTOR,))
    if not snapshot.jobs:
        return Notice(
            "wait",
            "Connected. No job has reported yet.",
            f"The broker at {snapshot.connection.brokers} answers. Start a training job:",
            (RUN, DOCTOR),
        )
    if wanted and wanted not in [line.name for line in snapshot.jobs]:
        return Notice("wait", f"Job {wanted!r} has not reported yet", "Start it:", (RUN,))
    if snapshot.job is None:
        return None
    now_s = snapshot.now_s
    said = _of_job(snapshot.job, now_s)
    running = [line.name for line in snapshot.jobs if line.reports(now_s) and line.name != snapshot.job.name]
    if said and snapshot.job.ended_s is not None and running:
        return replace(said, text=f"{said.text} Another job runs: {running[0]}.")
    return said


def of_connection(snapshot: Snapshot) -> Notice | None:
    """What to tell above any picture: why nothing new comes from the broker, if so."""
    connection, now_s = snapshot.connection, snapshot.now_s
    read = bool(snapshot.jobs) or any(line.last_s is not None for line in snapshot.topics)
    kept = " Earlier data is shown below." if read else ""
    if connection.state == "failed":
        text = f"{connection.cause.replace('`', '')}, since {age(now_s, connection.since_s)}.{kept}"
        return Notice("lost", "The page cannot read the messages", text, (DOCTOR,))
    if connection.state == "lost":
        cause = (connection.cause or "it does not answer").replace("`", "")
        text = f"{cause}. Retrying every second, since {age(now_s, connection.since_s)}.{kept}"
        return Notice("lost", f"No connection to the broker at {connection.brokers}", text, (UP, DOCTOR))
    if connection.state == "refused":
        text = f"{connection.cause.replace('`', '')}. Retrying, since {age(now_s, connection.since_s)}."
        return Notice("lost", "The page may not read all topics that it needs", text, (DOCTOR,))
    if connection.state == "reading":
        to_read = sum(line.lag or 0 for line in snapshot.topics)
        text = (
            f"{f'{to_read:,} messages' if to_read else 'The newest messages'} are still to be read: a minute at most."
        )
        return Notice("wait", f"Reading what the broker at {connection.brokers} holds", text, (DOCTOR,))
    if connection.state == "connecting" and not read:
        return Notice(
            "wait", f"Connecting to the broker at {connection.brokers}", "This takes a second or two.", (DOCTOR,)
        )
    return None


def wrong_link(problem: str) -> Notice:
    """What to tell of a part of the address that cannot be."""
    return Notice("wait", "A part of this link was left out", f"{problem}. The rest of the link is used.")


def _of_job(job: JobView, now_s: float) -> Notice | None:
    if job.ended_s is not None:
        if job.exit_status in (0, None):
            return Notice(
                "good", f"This job ended {age(now_s, job.ended_s)}", "The page keeps its last picture.", (RUN,)
            )
        died = any(one.kind == "died" and one.state != "recovered" for one in job.latest)
        why = "Why it failed is under Findings." if died else "See the job's own output for why it failed."
        text = f"The page keeps its last picture. {why}"
        return Notice(
            "lost", f"This job ended {age(now_s, job.ended_s)} with exit status {job.exit_status}", text, (RUN,)
        )
    if job.last_s is not None and now_s - job.last_s > JOB_SILENT_S:
        text = "Its end was not reported: it may hang, its node may be cut off, or it was killed."
        return Notice("wait", f"No message from this job since {age(now_s, job.last_s)}", text, (DOCTOR,))
    if runs_twice(job.latest):
        text = "Only the first is judged, and the steps below are of both. Stop one of them, or name each:"
        return Notice("wait", "Two runs of this name report at the same time", text, (NAMED,))
    if (late_s := _without_window_s(job)) > WORKERS_SILENT_S:
        return _unread(job, late_s)
    return None


def _unread(job: JobView, late_s: float) -> Notice:
    """What to tell of a job whose newest steps no stream worker has read; one that has read earlier ones may go on."""
    log = "Under paceline up its log is streams.log."
    if job.window is None and not job.latest:
        text = f"Timings arrive, but no stream worker reads them. {log}"
        return Notice("wait", "No verdict for this job", text, (DOCTOR, STREAMS))
    text = f"Findings and numbers are of steps before that: the stream worker is behind, or has ended. {log}"
    return Notice("wait", f"The last {seconds(late_s)} of this job are not judged yet", text, (DOCTOR, STREAMS))


def _without_window_s(job: JobView) -> float:
    """Seconds of steps, by the job's own clock, that began after the newest window: of long steps only whole ones."""
    end_s = -math.inf if job.window is None else job.window.start_s + job.window.length_s
    times = job.at_s[np.isfinite(job.at_s)]
    later = times[(times > end_s) & (times <= times[-1])] if times.size else times  # No clock that was set back since.
    return float(later.max() - later.min()) if later.size else 0.0


def standing(job: JobView | JobLine, now_s: float) -> tuple[str, str]:
    """A job's state in a few words, of a running one what its worst open finding says; and its tone: good, wait, lost
    or ended."""
    if job.ended_s is not None:
        failed = job.exit_status not in (0, None)
        return (f"ended, exit status {job.exit_status}", "lost") if failed else ("ended", "ended")
    if isinstance(job, JobLine):
        state, twice = job.state, job.twice
    else:
        state, twice = job_state(job.latest), runs_twice(job.latest)
    if job.last_s is None or now_s - job.last_s > JOB_SILENT_S:
        return (f"silent, {state.words}", "lost") if state.word == "stuck" else ("silent", "wait")
    if twice:
        return f"{state.words}; two runs of this name", TONES[state.word if state.word != "running" else "slow"]
    return state.words, TONES[state.word]
