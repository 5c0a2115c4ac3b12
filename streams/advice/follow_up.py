"""What becomes of suggestions that were accepted: seen in the data, measured, over.

Rule of this file: it asks what jobs and findings tell and follows the lifecycle; which number counts is ``trial``'s.
"""

from paceline.events.suggestions import Suggestion

from .config import AdviceConfig
from .entry import Entry
from .job_facts import JobFacts, Jobs
from .ledger import Ledger
from .trial import Now, result

#: What is done when the job runs without the nodes that it was about.
_WITHOUT_NODES = frozenset({"cordon_node", "replace_device", "move_job", "inspect_node"})
#: Seconds between two looks at what waits for its result.
_EVERY_S = 10.0


class FollowUp:
    """The accepted and applied suggestions of a ledger."""

    def __init__(self, ledger: Ledger, jobs: Jobs, config: AdviceConfig) -> None:
        self.ledger = ledger
        self.jobs = jobs
        self.config = config

    def pace(self, job: str, facts: JobFacts, step_s: float) -> list[Suggestion]:
        """A window of ``job`` is over, in which a step took ``step_s``."""
        said: list[Suggestion] = []
        for entry in self._of(job):
            if entry.state in ("new", "accepted") and facts.attempt == self._attempt(entry):
                entry.trial.pace(step_s, applied=False)
            elif entry.state == "applied":
                entry.trial.pace(step_s, applied=True)
                said += self._judge(entry)
        return said + self._outlived(job, facts)

    def _outlived(self, job: str, facts: JobFacts) -> list[Suggestion]:
        """A new attempt has run for a while: findings of the one before speak no more."""
        if facts.windows != self.config.fresh_windows:
            return []
        old = [
            source
            for entry in self._of(job)
            for source, proposal in entry.sources.items()
            if proposal.attempt < facts.attempt and proposal.finding
        ]
        return [one for source in old for one in self.ledger.retract(source)]

    def described(self, job: str) -> list[Suggestion]:
        """More is known of where and how ``job`` runs: whether that is what was suggested."""
        facts = self.jobs.of(job)
        said: list[Suggestion] = []
        for entry in self._of(job):
            if entry.state == "accepted" and self._is_done(entry, facts):
                entry.recovered = True
                said += self.ledger.move(entry, "seen")
        return said

    def _is_done(self, entry: Entry, facts: JobFacts) -> bool:
        if facts.attempt <= self._attempt(entry) or not facts.complete:
            return False
        best = entry.strongest()
        if entry.action in _WITHOUT_NODES:
            return not facts.nodes & set(best.nodes)
        if entry.action in ("larger_batch", "smaller_batch"):
            before, now = entry.trial.batch_before, facts.batch_size
            return before is not None and now is not None and (now > before) == (entry.action == "larger_batch") != (now == before)
        return True

    def tick(self) -> list[Suggestion]:
        """Time has passed."""
        applied = [one for one in self.ledger.entries.values() if one.state == "applied"]
        return [one for entry in applied for one in self._judge(entry)]

    def _judge(self, entry: Entry) -> list[Suggestion]:
        facts = self.jobs.of(entry.strongest().job)
        now = Now(
            waited_s=self.ledger.clock.passed_s - entry.since_s,
            batch=facts.batch_size,
            calm=entry.recovered,
        )
        told = result(entry.action, entry.trial, now, self.config)
        if told is None:
            return []
        helped, effect = told
        return self.ledger.move(entry, "helped" if helped else "not_helped", effect=effect)

    def _of(self, job: str) -> list[Entry]:
        return [one for one in self.ledger.entries.values() if any(each.job == job for each in one.sources.values())]

    @staticmethod
    def _attempt(entry: Entry) -> int:
        return max(one.attempt for one in entry.sources.values())
