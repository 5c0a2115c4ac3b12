"""From the moment something happened to the moment its finding or window was on the bus.

Rule of this file: times are those of the messages themselves, all taken on one machine; it only reads and subtracts.

A finding is counted from the end of the last step that it rests on; a one-second window from its end. Both thus hold
the up to one second that a row waits on its node for the next message.
"""

import contextlib
from typing import Any, NamedTuple

import numpy as np

from paceline import topics, wire
from paceline.events import SHORT_WINDOW_S, Finding, JobWindow, RankWindow
from paceline.kafka import clients
from paceline.kafka.settings import BrokerSettings

from .jobs import Load
from .load import Sent


class Answers(NamedTuple):
    """What the worker published, each with the time of its message."""

    findings: list[tuple[float, Finding]]
    windows: list[tuple[float, JobWindow | RankWindow]]


def read(settings: BrokerSettings) -> Answers:
    """All findings and windows on the bus."""
    answers = Answers([], [])
    with contextlib.closing(clients.consumer(settings, topics.FINDING, topics.WINDOW, from_beginning=True)) as consumer:
        while batch := consumer.poll(timeout_ms=3000):
            for messages in batch.values():
                for message in messages:
                    topic = topics.resolve(message.topic)
                    into: list[Any] = answers.findings if topic is topics.FINDING else answers.windows
                    into.append((message.timestamp / 1e3, wire.decode(topic, message.value)))
    return answers


def verdict(load: Load, answers: Answers) -> dict[str, int]:
    """How many of the late ranks were named, and how many others."""
    wanted = {(f"{load.name}-{job}", rank) for job in range(load.jobs) for rank in load.culprits()}
    named = {(finding.job, rank) for _, finding in answers.findings for rank in finding.ranks}
    return {"late": len(wanted), "named": len(wanted & named), "wrongly_named": len(named - wanted)}


def to_findings(load: Load, sent: Sent, answers: Answers) -> dict[str, dict[str, float | int | None]]:
    """Delays of all findings: from the end of the step, and from when the last node had sent that step."""
    happened = [time_s - sent.began_s - load.end_s(finding.last_step) for time_s, finding in answers.findings]
    arrived = [time_s - sent.steps[finding.job, finding.last_step] for time_s, finding in answers.findings]
    return {"from_step_end": quantiles(happened), "from_last_message": quantiles(arrived)}


def to_windows(answers: Answers) -> dict[str, float | int | None]:
    """Delays of the one-second windows from their end."""
    return quantiles([at - one.start_s - one.length_s for at, one in answers.windows if one.length_s == SHORT_WINDOW_S])


def quantiles(delays: list[float]) -> dict[str, float | int | None]:
    """Count, median, 99th percentile and maximum in seconds; None where there is none."""
    if not delays:
        return {"count": 0, "p50_s": None, "p99_s": None, "max_s": None}
    p50, p99 = np.quantile(delays, [0.5, 0.99]).tolist()
    return {"count": len(delays), "p50_s": round(p50, 3), "p99_s": round(p99, 3), "max_s": round(max(delays), 3)}
