"""What a fleet is: nodes, the jobs on them, what goes wrong and when.

Rule of this file: frozen data, with the bounds that one value has by itself; how values fit together is
``fleet_checks``' to say. A field is called as it is in the YAML file.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Literal

import msgspec

from .fault import HANG_S
from .moments import Length, Moment
from .spec import Noise, Spec

#: 5 January 2026, a Monday.
DEFAULT_START_S = 1_767_571_200.0
DAY_S = 86_400.0
#: Most nodes of a fleet, and the longest a fleet runs.
MOST_NODES, LONGEST_S = 10_000, 366 * DAY_S
#: Fewer steps than these are no job: the first ones only warm up.
FEWEST_STEPS = 20

Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z", max_length=100)]
NodeRange = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[\d{1,9}-\d{1,9}\])?\Z", max_length=100)]
Ratio = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Small = Annotated[int, msgspec.Meta(ge=0, le=100_000)]
JobKind = Literal["training", "inference", "interactive", "idle"]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the parts."""


class Sampling(_Part, frozen=True, kw_only=True):
    """How often devices and hosts are sampled, and how long one message's samples span, seconds."""

    every: Length = Length(10.0)
    message: Length = Length(60.0)


class NodeGroup(_Part, frozen=True, kw_only=True):
    """``count`` nodes: ``NAME-0000`` on, or one called ``name`` where no count is given.

    ``day``: how busy GPUs without a job are, by the hour of the day (UTC), 24 ratios; ``weekend`` times that.
    """

    name: Name
    count: Annotated[int, msgspec.Meta(ge=1, le=MOST_NODES)] | None = None
    gpus: Annotated[int, msgspec.Meta(ge=1, le=64)] = 8
    day: tuple[Ratio, ...] = ()
    weekend: Ratio = 1.0


class FaultPlan(_Part, frozen=True, kw_only=True):
    """A fault of a job (docs/simulate.md), from and to counted from the job's start; ``to`` is the job's end."""

    kind: str
    ranks: tuple[Small, ...] = ()
    size: Annotated[float, msgspec.Meta(gt=0.0, lt=1000.0)] = 0.3
    begin: Moment = msgspec.field(name="from", default=Moment())
    end: Moment | None = msgspec.field(name="to", default=None)
    every: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1
    reason: str = "thermal"


class JobPlan(_Part, frozen=True, kw_only=True):
    """A job: where, when, and of what shape. ``gpus`` are those that it has on each of its nodes, all by default.

    Of ``nodes``, ``gpu-[0000-0003]`` names four.

    One that is not ``training`` has no steps to tell of: only its GPUs' use shows it. ``busy``: how busy it keeps its
    GPUs, where that is not as its kind does.
    """

    name: Name
    nodes: Annotated[tuple[NodeRange, ...], msgspec.Meta(min_length=1, max_length=MOST_NODES)]
    gpus: tuple[Annotated[int, msgspec.Meta(ge=0, lt=64)], ...] | None = None
    attempt: Small = 0
    kind: JobKind = "training"
    busy: Ratio | None = None
    start: Moment = Moment()
    end: Moment | None = None
    step: Length = Length(0.5)
    dp: Small = 0
    tp: Small = 1
    pp: Small = 1
    fsdp: bool = False
    microbatches: Annotated[int, msgspec.Meta(ge=0, le=1024)] = 0
    collectives: Annotated[int, msgspec.Meta(ge=0, le=1024)] = 1
    communication: Ratio = 0.08
    phases: bool = True
    noise: Annotated[float, msgspec.Meta(ge=0.0, le=100.0)] = 1.0
    uneven: Ratio = 0.0
    stage_skew: dict[int, Annotated[float, msgspec.Meta(gt=0.0, le=100.0)]] = {}
    evaluate_every: Small = 0
    evaluate: Length = Length(10.0)
    checkpoint_every: Small = 0
    checkpoint: Length = Length(5.0)
    faults: Annotated[tuple[FaultPlan, ...], msgspec.Meta(max_length=1000)] = ()


class Silence(_Part, frozen=True, kw_only=True):
    """Nothing that ``node`` says between the two moments of the fleet arrives."""

    node: Name
    begin: Moment = msgspec.field(name="from")
    end: Moment = msgspec.field(name="to")


class FleetSpec(_Part, frozen=True, kw_only=True, dict=True):
    """A fleet. ``clocks``: node -> how far its clock is ahead, seconds."""

    duration: Length
    nodes: Annotated[tuple[NodeGroup, ...], msgspec.Meta(min_length=1, max_length=MOST_NODES)]
    jobs: Annotated[tuple[JobPlan, ...], msgspec.Meta(max_length=10_000)] = ()
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    start: Moment | None = None
    cluster: Name = "simulated"
    sampling: Sampling = Sampling()
    silences: Annotated[tuple[Silence, ...], msgspec.Meta(max_length=100_000)] = ()
    clocks: dict[str, Annotated[float, msgspec.Meta(ge=-DAY_S, le=DAY_S)]] = {}

    @property
    def start_s(self) -> float:
        """Its first moment, Unix time."""
        return DEFAULT_START_S if self.start is None else self.start.since(0.0)

    @cached_property
    def groups(self) -> dict[str, NodeGroup]:
        """Each node's name, and the group that it belongs to."""
        return {name: group for group in self.nodes for name in names_of(group)}

    def span(self, job: JobPlan) -> tuple[float, float]:
        """From when to when ``job`` has its GPUs, seconds of the fleet."""
        return job.start.since(self.start_s), self.duration if job.end is None else job.end.since(self.start_s)

    def fault_span(self, job: JobPlan, fault: FaultPlan) -> tuple[float, float]:
        """From when to when ``fault`` is there, seconds of ``job``."""
        begin, end = self.span(job)
        first = fault.begin.since(self.start_s + begin)
        if fault.end is not None:
            return first, fault.end.since(self.start_s + begin)
        return first, min(first + HANG_S, end - begin) if fault.kind == "hang" else end - begin

    def gpus(self, job: JobPlan) -> tuple[int, ...]:
        """The GPUs that ``job`` has on each of its nodes."""
        return tuple(range(self.groups[job.nodes[0]].gpus)) if job.gpus is None else job.gpus


def names_of(group: NodeGroup) -> list[str]:
    """The names of the group's nodes."""
    return [group.name] if group.count is None else [f"{group.name}-{number:04d}" for number in range(group.count)]


def named(text: str) -> list[str]:
    """The nodes that ``text`` names.

    >>> named("gpu-[08-11]"), named("login")
    (['gpu-08', 'gpu-09', 'gpu-10', 'gpu-11'], ['login'])
    """
    stem, bracket, span = text.rstrip("]").partition("[")
    if not bracket:
        return [text]
    low, _, high = span.partition("-")
    return [f"{stem}{number:0{len(low)}d}" for number in range(int(low), min(int(high), int(low) + MOST_NODES) + 1)]


def places(spec: FleetSpec, job: JobPlan) -> Iterator[tuple[str, int]]:
    """Node and GPU of each rank of ``job``, from rank 0 on."""
    gpus = spec.gpus(job)
    return ((node, gpu) for node in job.nodes for gpu in gpus)


def shape(spec: FleetSpec, job: JobPlan) -> Spec:
    """``job`` as the simulator of one job knows it: without faults, with more steps than it has time for.

    Raises:
        SpecError: no job has this shape.
    """
    begin, end = spec.span(job)
    gpus = spec.gpus(job)
    return Spec(
        ranks=len(job.nodes) * len(gpus),
        steps=int(2 * (end - begin) / job.step) + FEWEST_STEPS,
        dp=job.dp,
        tp=job.tp,
        pp=job.pp,
        fsdp=job.fsdp,
        step_s=job.step,
        microbatches=job.microbatches,
        collectives=job.collectives,
        communication=job.communication,
        phases=job.phases,
        noise=Noise().scaled(job.noise),
        uneven=job.uneven,
        stage_skew=job.stage_skew,
        evaluate_every=job.evaluate_every,
        evaluate_s=job.evaluate,
        checkpoint_every=job.checkpoint_every,
        checkpoint_s=job.checkpoint,
        job=job.name,
        attempt=job.attempt,
        cluster=spec.cluster,
        began_s=spec.start_s + begin,
        ranks_a_node=len(gpus),
        node_names=job.nodes,
        clocks_ahead_s=tuple(spec.clocks.get(node, 0.0) for node in job.nodes),
    )
