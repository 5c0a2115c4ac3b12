"""The book of alerts: what holds now, and what held and is over, by id.

Rule of this file: pure and bounded; time is an argument. Delivery is at least once and revisions may come in any order:
the newest one counts. An alert of a job is over once that job has ended or was started again, whatever was heard
last of it; one that nobody has spoken of for a day is over too.
"""

from typing import Any, NamedTuple

import msgspec

from paceline.decoders import convert
from paceline.events import Finding, JobDescribed, Suggestion
from paceline.held_bytes import HeldBytes
from paceline.job_life import BEYOND_S, JobLife

from .alert import Alert, at_least, of_finding, of_suggestion

MOST_ALERTS, MOST_JOBS = 5_000, 10_000
#: What the lives of jobs take: 10,000 of 10 nodes each, whose names have 200 characters.
JOB_BYTES = 64 * 2**20
#: The last revision of a finding, with its whole cost, comes some moments after the job's end, in no order with it.
LAST_REVISION_S = 10.0
#: An open episode is told again with what it has cost by then; silence of a day means that its teller is gone.
QUIET_S = 24 * 3600.0


class Standing(NamedTuple):
    """Whether an alert holds; if not, why in a few words, and since when.

    Until ``settled_s`` (on the clock of hearing) its last revision may still come.
    """

    fires: bool
    ending: str = ""
    ended_s: float | None = None
    settled_s: float | None = None


class AlertBook:
    """Alerts by id, and what is known of the lives of their jobs."""

    def __init__(self) -> None:
        self.alerts: dict[str, Alert] = {}
        self.jobs: dict[tuple[str, str], JobLife] = {}
        #: By job that has ended, when that was heard.
        self._ended_heard_s: dict[tuple[str, str], float] = {}
        self._held = HeldBytes[tuple[str, str]](JOB_BYTES, MOST_JOBS)
        #: Alerts that were forgotten because there were too many.
        self.shed = 0

    def update(self, event: Finding | Suggestion | JobDescribed, heard_s: float) -> None:
        """Take ``event``, which was reported at ``heard_s``."""
        match event:
            case Finding():
                self._put(of_finding(event, heard_s))
            case Suggestion():
                self._put(of_suggestion(event, heard_s))
            case JobDescribed():
                self._describe(event, heard_s)

    def forget_jobs(self) -> None:
        """Forget the lives of all jobs."""
        for key in list(self.jobs):
            self._forget_job(key)

    def standing(self, alert: Alert, now_s: float) -> Standing:
        """How ``alert`` stands at ``now_s``."""
        if not alert.fires:
            return Standing(False, alert.ending, alert.heard_s)
        if alert.expires_s is not None and now_s >= alert.expires_s:
            return Standing(False, "expired", alert.expires_s)
        life = self.jobs.get((alert.cluster, alert.job)) if alert.job and alert.lasts != "on" else None
        if life is not None and alert.source == "finding":
            if life.attempt > alert.attempt or (life.attempt == alert.attempt and _is_before(alert, life, now_s)):
                return Standing(False, "the job was started again", alert.heard_s)
            if life.attempt == alert.attempt and life.ended_s is not None and alert.lasts == "run":
                return Standing(False, "the job has ended", life.ended_s, self._settled_s(alert))
        if alert.expires_s is None and now_s - alert.heard_s > QUIET_S:
            return Standing(False, "no message for a day", alert.heard_s + QUIET_S)
        return Standing(True)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data. Jobs' lives are left out: their topic is compacted, and read from its beginning."""
        return {"alerts": [msgspec.to_builtins(alert) for alert in self.alerts.values()], "shed": self.shed}

    def restore(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described.

        Raises:
            msgspec.ValidationError, KeyError, TypeError: it is no such state; nothing has changed then.
        """
        alerts, shed = convert(data["alerts"], list[Alert]), int(data["shed"])
        self.alerts, self.shed = {alert.id: alert for alert in alerts[:MOST_ALERTS]}, shed

    def _put(self, alert: Alert) -> None:
        held = self.alerts.get(alert.id)
        if held is not None and not self._is_of_earlier_run(held, alert.heard_s):
            if alert.revision < held.revision:
                return
            starts_s = min(held.starts_s, alert.starts_s)
            if alert.revision == held.revision:
                alert = held
            alert = msgspec.structs.replace(alert, starts_s=starts_s)
        self.alerts[alert.id] = alert
        if len(self.alerts) > MOST_ALERTS:
            del self.alerts[min(self.alerts, key=self._worth)]
            self.shed += 1

    def _is_of_earlier_run(self, alert: Alert, now_s: float) -> bool:
        """Whether the job was started again since ``alert``: a finding may then have its id and begin at revision 1."""
        life = self.jobs.get((alert.cluster, alert.job))
        return life is not None and life.attempt == alert.attempt and _is_before(alert, life, now_s)

    def _worth(self, key: str) -> tuple[bool, bool, float]:
        """What is over goes first, then what is least severe, then what was not spoken of for longest."""
        alert = self.alerts[key]
        return alert.fires, at_least(alert.severity, "critical"), alert.heard_s

    def _settled_s(self, alert: Alert) -> float | None:
        """Until when a revision may follow the end of the job of ``alert``; None once one has, or long after it."""
        heard_s = self._ended_heard_s.get((alert.cluster, alert.job))
        return None if heard_s is None or alert.heard_s > heard_s else heard_s + LAST_REVISION_S

    def _describe(self, event: JobDescribed, heard_s: float) -> None:
        key = event.cluster, event.job
        life = self.jobs.pop(key, None)
        if life is None or life.succeeded_by(event):
            life = JobLife(event.attempt)
        self.jobs[key] = life
        life.update(event)
        if life.ended_s is None:
            self._ended_heard_s.pop(key, None)
        else:
            self._ended_heard_s.setdefault(key, heard_s)
        for gone in self._held.note(key, life.held_bytes):
            self._forget_job(gone)

    def _forget_job(self, key: tuple[str, str]) -> None:
        del self.jobs[key]
        self._ended_heard_s.pop(key, None)
        self._held.forget(key)


def _is_before(alert: Alert, life: JobLife, now_s: float) -> bool:
    """Whether ``alert`` is of an earlier run of this name and attempt; a start in the future is of a clock ahead."""
    begun_s = life.begun_s
    return begun_s is not None and alert.heard_s + BEYOND_S < begun_s <= now_s
