"""A pod that was killed at its memory limit, as Kubernetes says it.

Rule of this file: pure. A pod of another job says nothing. Whose a pod is follows from the log (``kubectl logs
--prefix``), else from the pod's own RANK; where the log shows several ranks in it, the pod is named and no rank.
"""

from ..evidence import PodKilled
from .case import Case, grounds
from .verdict import Verdict, several


def verdict(case: Case) -> Verdict | None:
    """By containers that were killed for memory."""
    ours = {said.pod: case.owns_pod(said.pod, said.rank) for said in case.pods_killed}
    killed = {said.pod: said for said in case.pods_killed if ours[said.pod] is not False}
    if not killed:
        return None
    owners = [_rank(case, said) for said in killed.values()]
    known = {rank for rank in owners if rank is not None}
    ranks = known if len(known) == len(owners) and (len(known) == 1 or len(known) * 2 < len(case.ranks)) else set()
    said = {one.rank for one in (*case.failures, *case.timeouts, *case.exits) if one.rank is not None}
    pods = " and ".join(list(killed)[:3]) + (f" and {len(killed) - 3} more" if len(killed) > 3 else "")
    one = next(iter(killed.values()))
    whose = f" ({several(ranks)})" if ranks else ""
    were = "s were" if len(killed) > 1 else " was"
    return Verdict(
        kind="died",
        cause=f"out of host memory: pod{were} killed at the memory limit of container {one.container}: {pods}{whose}",
        ranks=tuple(sorted(ranks)),
        victims=tuple(sorted(said - ranks)),
        nodes=tuple(sorted({said.node for said in killed.values() if said.node})),
        line=case.line_of(min(ranks)) if ranks else None,
        sure="certain" if len(killed) == 1 and ours[one.pod] else "likely",
        next=f"a higher limit (resources.limits.memory of {one.container}), fewer loader workers or smaller buffers",
        grounds=grounds(*killed.values()),
    )


def _rank(case: Case, said: PodKilled) -> int | None:
    logged = case.ranks_on(said.pod)
    if logged:
        return logged[0] if len(logged) == 1 else None
    return said.rank
