"""Who uses each GPU of a node: the job and its ranks there.

Rule of this file: a decision. The processes come every few seconds and a job that restarts is away for some: a GPU
counts as left only when nobody has been seen on it for a minute.
"""

from collections.abc import Container

from paceline.events import RANK_LIMIT, DeviceSamples

from ..stored import Kept, Stored
from .gpu_rows import names
from .node_episodes import Tenant

VACANT_S = 60.0


class Tenants(Stored):
    """The tenants of a node's GPUs."""

    tenants: Kept[dict[str, Tenant]]
    vacant_s: Kept[dict[str, float]]

    def __init__(self) -> None:
        self.tenants = {}
        self.vacant_s = {}

    def update(self, claims: dict[str, Tenant], at_s: float) -> dict[str, Tenant]:
        """Take in who runs where, as of ``at_s``; the GPUs that another job, or none, has now, and who had them."""
        moved: dict[str, Tenant] = {}
        for uuid, tenant in claims.items():
            before = self.tenants.get(uuid)
            if before is not None and before.job and not tenant.job:
                self.vacant_s.setdefault(uuid, at_s)
                if 0.0 <= at_s - self.vacant_s[uuid] < VACANT_S:
                    continue
            self.vacant_s.pop(uuid, None)
            self.tenants[uuid] = tenant
            if before is not None and before.job != tenant.job:
                moved[uuid] = before
        return moved

    def forget(self, uuid: str) -> None:
        """Drop the tenant of a GPU that is no more."""
        self.tenants.pop(uuid, None)
        self.vacant_s.pop(uuid, None)

    def keep(self, uuids: Container[str]) -> None:
        """Drop the tenants of all other GPUs."""
        self.tenants = {uuid: tenant for uuid, tenant in self.tenants.items() if uuid in uuids}
        self.vacant_s = {uuid: since_s for uuid, since_s in self.vacant_s.items() if uuid in uuids}

    def of(self, uuid: str) -> Tenant:
        """The tenant of one GPU."""
        return self.tenants.get(uuid) or Tenant(devices=(uuid,))

    def jobs(self) -> dict[str, list[str]]:
        """Job -> its GPUs here."""
        gpus: dict[str, list[str]] = {}
        for uuid, tenant in self.tenants.items():
            if tenant.job:
                gpus.setdefault(tenant.job, []).append(uuid)
        return gpus

    def ranks(self, job: str) -> set[int]:
        """The ranks of ``job`` here."""
        return {rank for tenant in self.tenants.values() if tenant.job == job for rank in tenant.ranks}

    def only(self) -> Tenant:
        """The one job on this node, where there is one alone."""
        jobs = list(self.jobs())
        return Tenant(jobs[0], tuple(sorted(self.ranks(jobs[0])))) if len(jobs) == 1 else Tenant()


def claims(event: DeviceSamples) -> dict[str, Tenant]:
    """GPU -> its tenant, by the processes of ``event``; a GPU that does not tell its processes is left out."""
    if "processes" in event.not_measured:
        return {}
    return {
        uuid: _tenant(event, place, uuid)
        for place, (index, uuid) in enumerate(names(event).items())
        if f"processes[{index}]" not in event.not_measured
    }


def _tenant(event: DeviceSamples, place: int, uuid: str) -> Tenant:
    """The job with the most memory on the GPU, where several share it."""
    held: dict[str, int] = {}
    ranks: dict[str, set[int]] = {}
    for process in event.processes:
        if process.device == place and process.job:
            held[process.job] = held.get(process.job, 0) + (process.used_bytes or 0)
            ranks.setdefault(process.job, set())
            if process.rank is not None and 0 <= process.rank < RANK_LIMIT:
                ranks[process.job].add(process.rank)
    if not held:
        return Tenant(devices=(uuid,))
    job = max(sorted(held), key=lambda name: held[name])
    return Tenant(job, tuple(sorted(ranks[job])), (uuid,))
