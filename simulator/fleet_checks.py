"""Whether a fleet can be: names that lead somewhere, times in order, GPUs that nobody has twice.

Rule of this file: pure. An error names the part as ``jobs[2].faults[0]``; on which line that is, ``fleet_file`` knows.
"""

from itertools import pairwise

from .fault import EXPECTED, REASONS
from .fleet_spec import (
    FEWEST_STEPS,
    LONGEST_S,
    MOST_NODES,
    FaultPlan,
    FleetSpec,
    JobPlan,
    NodeGroup,
    names_of,
    places,
    shape,
)
from .spec import SpecError

#: Starts that are read: the years 2000 to 2999. A length of time alone, as in 2h, is none of them.
FIRST_START_S, LAST_START_S = 946_684_800.0, 32_503_680_000.0
#: Most ranks of all jobs together, and most numbers of one step of one job.
MOST_FLEET_RANKS, MOST_CELLS = 1_000_000, 20_000_000

#: A node that tells nothing stands in ``silences``.
_KINDS = tuple(kind for kind in EXPECTED if kind != "silent")


class PlaceError(ValueError):
    """What is wrong with the part of the description at ``path``, on one line."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


def check(spec: FleetSpec) -> None:
    """Find out whether ``spec`` can be.

    Raises:
        PlaceError: it cannot.
    """
    if not 1.0 <= spec.duration <= LONGEST_S:
        raise PlaceError("duration", f"{spec.duration:g} s; from 1 s to 366 d")
    if not FIRST_START_S <= spec.start_s <= LAST_START_S:
        raise PlaceError("start", "a moment such as 2026-01-05T08:00:00Z, from the year 2000 on")
    if not 0.1 <= spec.sampling.every <= spec.sampling.message <= 3600.0:
        raise PlaceError("sampling", "every is 100ms or more, and a message spans as much or more, up to 1h")
    if spec.sampling.message / spec.sampling.every > 1000:
        raise PlaceError("sampling", "a message holds 1000 samples at most; let it span less")
    _check_nodes(spec)
    groups = spec.groups
    _check_jobs(spec, groups)
    _check_silences(spec, groups)
    for node in spec.clocks:
        if node not in groups:
            raise PlaceError(f"clocks.{node}", "there is no such node")


def _check_silences(spec: FleetSpec, groups: dict[str, NodeGroup]) -> None:
    for index, silence in enumerate(spec.silences):
        path = f"silences[{index}]"
        if silence.node not in groups:
            raise PlaceError(path, f"there is no node {silence.node}")
        begin, end = silence.begin.since(spec.start_s), silence.end.since(spec.start_s)
        if not 0 <= begin < end:
            raise PlaceError(path, f"from {begin:g} s to {end:g} s: it ends after it begins, at 0 or later")
        if begin >= spec.duration:
            raise PlaceError(path, f"begins at {begin:g} s; the fleet ends at {spec.duration:g} s")


def _check_nodes(spec: FleetSpec) -> None:
    if sum(group.count or 1 for group in spec.nodes) > MOST_NODES:
        raise PlaceError("nodes", f"more than {MOST_NODES} in all")
    seen: set[str] = set()
    for index, group in enumerate(spec.nodes):
        if len(group.day) not in (0, 24):
            raise PlaceError(f"nodes[{index}].day", f"{len(group.day)} numbers; one for each of 24 hours")
        for name in names_of(group):
            if name in seen:
                raise PlaceError(f"nodes[{index}].name", f"there is a node {name} already")
            seen.add(name)


def _check_jobs(spec: FleetSpec, groups: dict[str, NodeGroup]) -> None:
    seen: set[tuple[str, int]] = set()
    ranks = 0
    for index, job in enumerate(spec.jobs):
        path = f"jobs[{index}]"
        if (job.name, job.attempt) in seen:
            raise PlaceError(path, f"there is a job {job.name} of attempt {job.attempt} already")
        seen.add((job.name, job.attempt))
        _check_place(path, job, groups)
        ranks += len(job.nodes) * len(spec.gpus(job))
        if ranks > MOST_FLEET_RANKS:
            raise PlaceError(path, f"more than {MOST_FLEET_RANKS} ranks in all jobs up to this one")
        begin, end = spec.span(job)
        if not 0 <= begin < end:
            raise PlaceError(path, f"from {begin:g} s to {end:g} s: it ends after it starts, at 0 or later")
        if end > spec.duration:
            raise PlaceError(
                path, f"ends at {end:g} s, the fleet at {spec.duration:g} s: end it earlier, or give no end"
            )
        if job.kind == "training":
            _check_steps(path, spec, job)
        for number, fault in enumerate(job.faults):
            _check_fault(f"{path}.faults[{number}]", spec, job, fault)
    _check_overlaps(spec)


def _check_steps(path: str, spec: FleetSpec, job: JobPlan) -> None:
    begin, end = spec.span(job)
    if job.step < 1e-4:
        raise PlaceError(f"{path}.step", f"{job.step:g} s; a step takes 0.1 ms at least")
    if job.step * FEWEST_STEPS > end - begin:
        raise PlaceError(path, f"{end - begin:g} s are no time for {FEWEST_STEPS} steps of {job.step:g} s")
    try:
        one = shape(spec, job)
    except SpecError as error:
        raise PlaceError(path, str(error)) from error
    if one.cells > MOST_CELLS:
        raise PlaceError(
            path, f"one step holds {one.cells} numbers (ranks, microbatches, collectives); {MOST_CELLS} at most"
        )


def _check_place(path: str, job: JobPlan, groups: dict[str, NodeGroup]) -> None:
    for node in job.nodes:
        if node not in groups:
            raise PlaceError(f"{path}.nodes", f"there is no node {node}")
    if len(set(job.nodes)) < len(job.nodes):
        raise PlaceError(f"{path}.nodes", "a node is given twice")
    if job.gpus is None and len({groups[node].gpus for node in job.nodes}) > 1:
        raise PlaceError(f"{path}.nodes", "nodes with unequal numbers of GPUs; say which with gpus: [0, 1]")
    if job.gpus is not None and (not job.gpus or len(set(job.gpus)) < len(job.gpus)):
        raise PlaceError(f"{path}.gpus", "at least one, and none twice")
    for node in job.nodes:
        for gpu in job.gpus or ():
            if gpu >= groups[node].gpus:
                raise PlaceError(f"{path}.gpus", f"node {node} has no GPU {gpu}; it has {groups[node].gpus}, from 0")


def _check_fault(path: str, spec: FleetSpec, job: JobPlan, fault: FaultPlan) -> None:
    if job.kind != "training":
        raise PlaceError(path, f"a job of kind {job.kind} has no steps that a fault could slow down")
    if fault.kind not in _KINDS:
        raise PlaceError(path, f"no kind {fault.kind!r}; there are {', '.join(_KINDS)}")
    if fault.reason not in REASONS:
        raise PlaceError(path, f"no reason {fault.reason!r}; there are {', '.join(REASONS)}")
    if not fault.ranks and fault.kind != "slowdown":
        raise PlaceError(path, "which ranks?")
    ranks = len(job.nodes) * len(spec.gpus(job))
    if any(rank >= ranks for rank in fault.ranks):
        raise PlaceError(path, f"ranks of this job run from 0 to {ranks - 1}")
    if fault.kind in ("link", "hang") and not job.collectives:
        raise PlaceError(path, f"a fault of kind {fault.kind} shows in collectives: 1 or more of them a step")
    begin, end = spec.fault_span(job, fault)
    job_begin, job_end = spec.span(job)
    if not 0 <= begin < end <= job_end - job_begin:
        raise PlaceError(path, f"from {begin:g} s to {end:g} s of a job that has {job_end - job_begin:g} s")
    for other in job.faults:
        if other is not fault and other.kind == "hang" and begin >= spec.fault_span(job, other)[0]:
            raise PlaceError(path, f"begins at {begin:g} s, when the job hangs already")


def _check_overlaps(spec: FleetSpec) -> None:
    for (node, gpu), uses in _uses(spec).items():
        uses.sort()
        for (_, end, one), (begin, _, other) in pairwise(uses):
            if begin < end:
                names = f"{spec.jobs[one].name} and {spec.jobs[other].name}"
                raise PlaceError(f"jobs[{max(one, other)}]", f"{names} both have GPU {gpu} of {node} at {begin:g} s")


def _uses(spec: FleetSpec) -> dict[tuple[str, int], list[tuple[float, float, int]]]:
    """(node, GPU) -> from when to when it is used by which job."""
    uses: dict[tuple[str, int], list[tuple[float, float, int]]] = {}
    for index, job in enumerate(spec.jobs):
        for node, gpu in places(spec, job):
            uses.setdefault((node, gpu), []).append((*spec.span(job), index))
    return uses
