"""What is on the bus of jobs: their newest descriptions, part by part, and their findings.

Rule of this file: it only reads.
"""

from paceline import wire
from paceline.events import Finding, JobDescribed
from paceline.kafka.follow import BEGINNING, Follower
from paceline.kafka.settings import BrokerSettings
from paceline.topics import FINDING, JOB


class Heard:
    """Topics ``job`` and ``finding`` from their beginning."""

    def __init__(self, settings: BrokerSettings, listener: str) -> None:
        self._follower = Follower(settings, {JOB: BEGINNING, FINDING: BEGINNING}, listener)
        #: By the message's key, as compaction keeps it.
        self._described: dict[str, JobDescribed] = {}
        self._findings: list[Finding] = []

    def poll(self) -> None:
        """Take what has come."""
        for topic, records in self._follower.poll(0.2):
            for record in records:
                event = wire.decode(topic, record.value or b"")
                if isinstance(event, Finding):
                    self._findings.append(event)
                elif isinstance(event, JobDescribed):
                    self._described[f"{(record.key or b'').decode()} {event.attempt}"] = event

    def parts(self, job: str, attempt: int = 0) -> list[JobDescribed]:
        """The newest description of each part of one attempt."""
        found = [one for one in self._described.values() if (one.job, one.attempt) == (job, attempt)]
        return sorted(found, key=lambda one: one.teller)

    def ranks(self, job: str, attempt: int = 0) -> dict[int, str]:
        """The ranks that are described, with their nodes."""
        places = [place for part in self.parts(job, attempt) for place in part.places]
        return {place.rank: place.node for place in sorted(places, key=lambda place: place.rank)}

    def jobs(self, beginning: str) -> set[str]:
        """The jobs whose names begin so."""
        return {one.job for one in self._described.values() if one.job.startswith(beginning)}

    def confirmed(self, job: str) -> Finding | None:
        """The newest confirmed finding of a job that accuses ranks."""
        found = [one for one in self._findings if one.job == job and one.state == "confirmed" and one.ranks]
        return found[-1] if found else None

    def close(self) -> None:
        """Listen no more."""
        self._follower.close()
