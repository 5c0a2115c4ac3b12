"""What must be true of the stack once the demo's run has been judged, asked as its users ask.

Rule of this file: questions and answers; nothing is started or changed.
"""

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any, TypeVar

from paceline import wire
from paceline.events import Finding
from paceline.kafka.follow import BEGINNING, Follower
from paceline.kafka.settings import BrokerSettings
from paceline.topics import FINDING

from ..processes import RunError

Answer = TypeVar("Answer")
JOB = "demo-"


def until(asked: Callable[[], Answer | None], within_s: float, what: str, check: Callable[[], None]) -> Answer:
    """The first answer that says something; ``check`` raises where waiting has become useless.

    Raises:
        RunError: none within ``within_s`` seconds.
    """
    end = time.monotonic() + within_s
    while not (answer := asked()):
        check()
        if time.monotonic() > end:
            raise RunError(f"{what}: not within {within_s:g} s")
        time.sleep(0.2)
    return answer


class Findings:
    """The confirmed findings of the demo's run, off the topic."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._follower = Follower(settings, {FINDING: BEGINNING}, "paceline-twin")
        self._confirmed: list[Finding] = []

    def confirmed(self) -> Finding | None:
        """The first one, once it is there."""
        for topic, records in self._follower.poll(0.2):
            for record in records:
                event = wire.decode(topic, record.value or b"")
                if isinstance(event, Finding) and event.state == "confirmed" and event.job.startswith(JOB):
                    self._confirmed.append(event)
        return self._confirmed[0] if self._confirmed else None

    def close(self) -> None:
        """Listen no more."""
        self._follower.close()


def answer(url: str, host: str = "") -> Any:
    """What ``url`` answers, as JSON; asked under the name ``host``.

    Raises:
        OSError: no answer, or one that is a refusal.
    """
    request = urllib.request.Request(url, headers={"Host": host} if host else {})
    with urllib.request.urlopen(request, timeout=10) as reply:
        return json.loads(reply.read())


def status(url: str, host: str) -> int:
    """With which status ``url`` answers who asks under the name ``host``; 0 where nobody does."""
    request = urllib.request.Request(url, headers={"Host": host})
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def targets(prometheus: str) -> dict[str, bool]:
    """Job of Prometheus -> whether each of its targets answered the last time."""
    found: dict[str, bool] = {}
    for target in answer(f"{prometheus}/api/v1/targets")["data"]["activeTargets"]:
        job = target["labels"]["job"]
        found[job] = found.get(job, True) and target["health"] == "up"
    return found


def values(prometheus: str, expression: str) -> list[dict[str, Any]]:
    """What Prometheus answers."""
    return list(answer(f"{prometheus}/api/v1/query?query={urllib.parse.quote(expression)}")["data"]["result"])


def alerts(alertmanager: str) -> list[dict[str, str]]:
    """The labels of the alerts of the demo's run that Alertmanager tells, less those that it keeps back."""
    held = answer(f"{alertmanager}/api/v2/alerts?inhibited=false&silenced=false")
    return [alert["labels"] for alert in held if any(value.startswith(JOB) for value in alert["labels"].values())]
