"""What becomes of suggestions that were accepted: seen in the data, measured, over.

Rule of this file: it asks what jobs and findings tell and follows the lifecycle; which number counts is ``trial``'s.
"""

from paceline.events.suggestions import Suggestion

from ..stored import Kept, Stored
from .config import AdviceConfig
from .entry import Entry
from .gpu_use import GpuUse
from .job_facts import JobFacts, Jobs
from .ledger import Ledger
from .trial import Now, result
from .use_rules import USE_RULES, source_of

#: What is done when the job runs without the nodes that it was about.
_WITHOUT_NODES = frozenset({"cordon_node", "replace_device", "move_job", "inspect_node"})
#: What is done when it has fewer ranks.
_FREES = frozenset({"consolidate", "free_devices"})
#: What can be done while the job runs, and at no other time.
WHILE_IT_RUNS = frozenset({"free_devices"})
#: Seconds between two looks at what waits for its result.
_EVERY_S = 10.0


class FollowUp(Stored):
    """The accepted and applied suggestions of a ledger."""

    due_s: Kept[float]

    def __init__(self, ledger: Ledger, jobs: Jobs, use: GpuUse, config: AdviceConfig) -> None:
        self.ledger = ledger
        self.jobs = jobs
        self.use = use
        self.config = config
        self.due_s = 0.0

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
            if proposal.attempt < facts.attempt and proposal.of_attempt
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

    def balanced(self, job: str) -> list[Suggestion]:
        """The ranks of ``job`` take as much work as their speed allows, whether anybody had accepted that or not."""
        asked = [entry for entry in self._of(job) if entry.action == "rebalance"]
        return [said for entry in asked for said in self.ledger.move(entry, "seen")]

    def _is_done(self, entry: Entry, facts: JobFacts) -> bool:
        if facts.attempt <= self._attempt(entry) or not facts.complete:
            return False
        if entry.action in _WITHOUT_NODES:
            return not facts.nodes & entry.about.nodes
        if entry.action in ("larger_batch", "smaller_batch"):
            before, now = entry.trial.batch_before, facts.batch_size
            if before is None or now is None:
                return False
            return now > before if entry.action == "larger_batch" else now < before
        if entry.action in _FREES:
            return facts.world_size < (entry.trial.ranks_before or 0)
        return True

    def accept(self, suggestion_id: str) -> None:
        """Somebody has accepted it: what things are like before."""
        entry = self.ledger.find(suggestion_id)
        if entry is None:
            return
        about, trial = entry.about, entry.trial
        facts = self.jobs.of(about.job)
        trial.batch_before = facts.batch_size
        trial.ranks_before = facts.world_size
        trial.before = trial.before or facts.pace[-self.config.pace_windows :]
        passed_s = self.ledger.clock.passed_s
        hour = self.use.hour(about.job, 1, passed_s)
        trial.use_before = None if hour is None else hour.busy
        idle = {device for one in entry.sources.values() for device in one.devices}
        trial.gpus_before = len(idle) if entry.action == "free_devices" else self.use.gpus(about.job, passed_s)

    def tick(self) -> list[Suggestion]:
        """Time has passed: whether GPUs were freed, nodes left, and what can be measured by now."""
        passed_s = self.ledger.clock.passed_s
        if passed_s < self.due_s:
            return []
        self.due_s = passed_s + _EVERY_S
        said = self._leave(passed_s)
        for entry in list(self.ledger.entries.values()):
            if entry.state == "accepted" and self._is_free(entry, passed_s):
                entry.recovered = True
                said += self.ledger.move(entry, "seen")
            elif entry.state == "applied":
                said += self._judge(entry)
        return said

    def _leave(self, passed_s: float) -> list[Suggestion]:
        """Jobs that have no GPU any more: an hour of theirs asks for nothing."""
        return [one for job in self.use.gone(passed_s) for one in self._forget_hours(job)]

    def _forget_hours(self, job: str) -> list[Suggestion]:
        return [one for rule in USE_RULES for one in self.ledger.retract(source_of(rule.action, job))]

    def end(self, job: str) -> list[Suggestion]:
        """``job`` has ended: what its hours asked for is gone, and was done if somebody had accepted it.

        Of what its findings ask for, that goes which can be done only while it runs; the rest is for its next run.
        """
        said = self._forget_hours(job)
        for entry in [one for one in self._of(job) if one.target == f"job:{job}"]:
            if entry.action in WHILE_IT_RUNS:
                said += [one for source in list(entry.sources) for one in self.ledger.retract(source)]
            else:
                said += self.ledger.outlive(entry)
        return said

    def _is_free(self, entry: Entry, passed_s: float) -> bool:
        about = entry.about
        if entry.action == "cordon_node":
            return bool(about.nodes) and all(self.use.is_used(node, passed_s) is False for node in about.nodes)
        if entry.action == "consolidate":
            return self.use.gpus(about.job, passed_s) < (entry.trial.gpus_before or 0)
        return False

    def _judge(self, entry: Entry) -> list[Suggestion]:
        facts = self.jobs.of(entry.about.job)
        now = Now(
            waited_s=self.ledger.clock.passed_s - entry.since_s,
            batch=facts.batch_size,
            use=self.use.since(entry.about.job, self.ledger.clock.passed_s - entry.since_s),
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
