"""Which Events of Kubernetes are told of a finding: one once it is confirmed, a series while it stands, one at its end.

Rule of this file: pure; time is an argument. An Event's name is a function of the finding, the pod and the news, so
that telling it again makes no second one, whoever tells it and however often. What was over before it was heard of is
told to nobody.
"""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from paceline.alerts.rate import TokenBucket

from .book import Verdict
from .documents import word
from .later import Later
from .plan import Accused

CONTROLLER = "paceline.dev/annotator"
#: Events a minute; how often a finding that stands is told of again; how old a recovery may be to be told of.
MOST_A_MINUTE, RENEW_S, RECENT_S = 60, 1800.0, 600.0
#: Pods that one finding is told at; letters of a note (Kubernetes allows 1,024 bytes).
MOST_PODS, LONGEST_NOTE, MOST_TOLD = 16, 250, 50_000
News = Literal["found", "recovered"]


class Happening(NamedTuple):
    """An Event to make, or one that goes on: told so many ``times`` then, as far as this process knows."""

    key: tuple[str, str]
    name: str
    namespace: str
    body: dict[str, Any]
    times: int = 1


class _Said(NamedTuple):
    news: News
    at_s: float
    times: int


class Happenings:
    """What was told of which finding at which pod."""

    def __init__(self, instance: str) -> None:
        self._instance = word(instance, 100) or "annotator"
        self._bucket = TokenBucket(MOST_A_MINUTE, 60.0)
        self._told: OrderedDict[tuple[str, str], _Said] = OrderedDict()
        self._later = Later()

    def due(self, accused: Iterable[Accused], now_s: float) -> list[Happening]:
        """What is to be told now, as far as the rate allows."""
        pods: dict[str, int] = {}
        told = []
        for one in accused:
            pods[one.verdict.alert.id] = pods.get(one.verdict.alert.id, 0) + 1
            if pods[one.verdict.alert.id] <= MOST_PODS and (happening := self._news(one, now_s)) is not None:
                told.append(happening)
        return told[: int(self._bucket.tokens(now_s))]

    def done(self, happening: Happening, now_s: float) -> None:
        """It is told, or was before."""
        self._bucket.take(now_s)
        news: News = "found" if happening.body["type"] == "Warning" else "recovered"
        self._told.pop(happening.key, None)
        self._told[happening.key] = _Said(news, now_s, happening.times)
        if len(self._told) > MOST_TOLD:
            self._told.popitem(last=False)

    def refused(self, happening: Happening, wait_s: float, now_s: float) -> None:
        """It is not told: again after ``wait_s``."""
        self._later.put(happening.key, wait_s, now_s)

    def _news(self, one: Accused, now_s: float) -> Happening | None:
        alert, standing = one.verdict.alert, one.verdict.standing
        key = alert.id, one.pod.uid
        if not self._later.may(key, now_s):
            return None
        said = self._told.get(key)
        if standing.fires:
            if said is None or said.news == "recovered":
                return self._happening(one, key, "found", now_s)
            gone_s = now_s - said.at_s
            return self._happening(one, key, "found", now_s, said.times + 1) if not 0 <= gone_s < RENEW_S else None
        recent = alert.ending == "recovered" and now_s - alert.heard_s <= RECENT_S
        if not recent or (said is not None and said.news == "recovered") or not one.verdict.fired:
            return None
        return self._happening(one, key, "recovered", now_s)

    def _happening(self, one: Accused, key: tuple[str, str], news: News, now_s: float, count: int = 1) -> Happening:
        alert = one.verdict.alert
        digest = hashlib.sha256("\0".join((*key, news)).encode("utf-8", "replace")).hexdigest()[:24]
        name = f"paceline.{digest}"
        regarding = {"apiVersion": "v1", "kind": "Pod", "namespace": one.pod.namespace, "name": one.pod.name}
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": one.pod.namespace},
            "eventTime": micro(now_s),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            "action": "Analyzed",
            "reason": reason(alert.kind) + ("" if news == "found" else "Recovered"),
            "regarding": {**regarding, "uid": one.pod.uid},
            **({"related": {"apiVersion": "v1", "kind": "Node", "name": one.node}} if one.node else {}),
            "note": note(one.verdict, news),
            "type": "Warning" if news == "found" else "Normal",
        }
        return Happening(key, name, one.pod.namespace, body, count)


def series(count: int, now_s: float) -> dict[str, Any]:
    """What makes of an Event a series that has come ``count`` times."""
    return {"series": {"count": count, "lastObservedTime": micro(now_s)}}


def micro(time_s: float) -> str:
    """A time as Kubernetes writes it where microseconds count."""
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def reason(kind: str) -> str:
    """A kind of finding as an Event's reason.

    >>> reason("device_fault")
    'DeviceFault'
    """
    words = re.findall(r"[A-Za-z0-9]+", kind)[:6]
    return "".join(one[:1].upper() + one[1:] for one in words)[:60] or "Finding"


def note(verdict: Verdict, news: News) -> str:
    """One sentence for a person; at most 1,000 bytes, whatever letters are in it."""
    alert = verdict.alert
    said = word(alert.title, LONGEST_NOTE - 60)
    end = f" Job {word(alert.job, 40)}." if alert.job else ""
    return f"{said}.{end}" if news == "found" else f"Recovered: {said}.{end}"
