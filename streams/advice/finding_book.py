"""Which findings were heard, of which revision, and which nodes were slow in which jobs.

Rule of this file: pure and bounded. Findings come at least once and in any order between jobs; of one, a later revision
counts, and an earlier or the same one is reported again.
"""

from collections import OrderedDict

import msgspec

from paceline.events import Finding
from paceline.gpu.uuids import in_cluster

from ..stored import Kept, Stored
from .finding_table import OF_HARDWARE

MOST_FINDINGS, MOST_NODES, MOST_JOBS_A_NODE = 10_000, 4096, 16


class FindingBook(Stored):
    """What is remembered of findings."""

    revisions: Kept[OrderedDict[str, int]]
    slow: Kept[OrderedDict[str, dict[str, Finding]]]
    faults: Kept[OrderedDict[str, list[str]]]
    balanced: Kept[OrderedDict[str, tuple[str, int]]]

    def __init__(self) -> None:
        self.revisions = OrderedDict()
        #: Node -> job -> the newest finding in which it was slow there, for a reason that speaks against hardware.
        self.slow = OrderedDict()
        #: Device, by its name in the cluster -> ids of findings of critical faults.
        self.faults = OrderedDict()
        #: Ids of findings that last, of ranks that take less work as they are slow -> their job and its attempt.
        self.balanced = OrderedDict()

    def admit(self, finding: Finding) -> bool:
        """Whether this revision is new."""
        before = self.revisions.get(finding.id)
        if before is not None and finding.revision <= before:
            return False
        self.revisions[finding.id] = finding.revision
        self.revisions.move_to_end(finding.id)
        if len(self.revisions) > MOST_FINDINGS:
            self.revisions.popitem(last=False)
        return True

    def note_balanced(self, finding: Finding) -> None:
        """A rank is balanced, or no longer."""
        self.balanced.pop(finding.id, None)
        if finding.state == "confirmed":
            self.balanced[finding.id] = (finding.job, finding.attempt)
            if len(self.balanced) > MOST_FINDINGS:
                self.balanced.popitem(last=False)

    def is_balanced(self, job: str, attempt: int) -> bool:
        """Whether slow ranks of this attempt take less work already."""
        return (job, attempt) in self.balanced.values()

    def slow_on(self, finding: Finding) -> tuple[str, dict[str, Finding]] | None:
        """The node that a straggler accuses, and the jobs in which it was slow; None where it accuses no hardware."""
        if (
            finding.kind != "straggler"
            or finding.cause not in OF_HARDWARE
            or len(finding.nodes) != 1
            or not finding.job
        ):
            return None
        (node,) = finding.nodes
        jobs = self.slow.setdefault(node, {})
        self.slow.move_to_end(node)
        if finding.job in jobs or len(jobs) < MOST_JOBS_A_NODE:
            jobs[finding.job] = msgspec.structs.replace(finding, evidence=[], exonerated=[], summary="")
        if len(self.slow) > MOST_NODES:
            self.slow.popitem(last=False)
        return node, jobs

    def faults_of(self, finding: Finding) -> int:
        """How many critical faults were told of the device of ``finding``, with this one."""
        if finding.kind != "device_fault" or finding.severity != "critical" or len(finding.devices) != 1:
            return 0
        device = in_cluster("".join(finding.nodes[:1]), finding.devices[0])
        ids = self.faults.setdefault(device, [])
        self.faults.move_to_end(device)
        if finding.id not in ids and len(ids) < MOST_JOBS_A_NODE:
            ids.append(finding.id)
        if len(self.faults) > MOST_NODES:
            self.faults.popitem(last=False)
        return len(ids)
