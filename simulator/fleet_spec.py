"""What a fleet is: nodes, the jobs on them, what goes wrong and when, as a YAML file says it.

Rule of this file: frozen data, and every check of it; whoever gets a ``FleetSpec`` need not check again. An error is
one sentence that names the file, the line and the part.
"""

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Any, Literal

import msgspec

from .fault import EXPECTED, HANG_S, REASONS
from .moments import Moment, moment, seconds
from .spec import Noise, Spec, SpecError
from .yaml_document import YamlDocument, YamlError

#: 5 January 2026, a Monday.
DEFAULT_START_S = 1_767_571_200.0
DAY_S = 86_400.0
#: Most nodes of a fleet, and the longest a fleet runs.
MOST_NODES, LONGEST_S = 10_000, 366 * DAY_S
#: Fewer steps than these are no job: the first ones only warm up.
FEWEST_STEPS = 20

Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z", max_length=100)]
Ratio = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Small = Annotated[int, msgspec.Meta(ge=0, le=100_000)]
JobKind = Literal["training", "inference", "interactive", "idle"]


class FleetError(ValueError):
    """A fleet that cannot be: where and why, on one line."""


class _At(ValueError):
    """What is wrong with the part at ``path``."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


class Length(float):
    """Seconds, written as ``90s`` or ``2h``."""


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

    One that is not ``training`` has no steps to tell of: only its GPUs' use shows it.
    """

    name: Name
    nodes: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=MOST_NODES)]
    gpus: tuple[Annotated[int, msgspec.Meta(ge=0, lt=64)], ...] | None = None
    attempt: Small = 0
    kind: JobKind = "training"
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
    uneven: float = 0.0
    stage_skew: dict[int, float] = {}
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
    start: Moment = Moment(unix_s=DEFAULT_START_S)
    cluster: Name = "simulated"
    sampling: Sampling = Sampling()
    silences: Annotated[tuple[Silence, ...], msgspec.Meta(max_length=100_000)] = ()
    clocks: dict[str, Annotated[float, msgspec.Meta(ge=-DAY_S, le=DAY_S)]] = {}

    @property
    def start_s(self) -> float:
        """Its first moment, Unix time."""
        return self.start.since(0.0)

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


def read(text: str, file: str = "the fleet") -> FleetSpec:
    """The fleet that ``text``, YAML, describes; ``file`` is how errors call it.

    Raises:
        FleetError: it describes none.
    """
    try:
        document = YamlDocument(text)
    except YamlError as error:
        raise FleetError(f"{file}, {error}") from error
    try:
        spec = msgspec.convert(document.data, FleetSpec, strict=False, dec_hook=_from_text)
        _check(spec)
    except msgspec.ValidationError as error:
        path, message = _reworded(str(error), document.data)
        raise FleetError(f"{file}, line {document.line(path)}: {path or 'the whole'}: {message}") from error
    except _At as error:
        raise FleetError(f"{file}, line {document.line(error.path)}: {error.path}: {error}") from error
    return spec


def _from_text(kind: type, value: Any) -> Any:
    """msgspec's way to types of our own."""
    if not isinstance(value, str):
        raise ValueError("not a text" if kind is not Length else "a length of time is a text, as in 90s")
    return Length(seconds(value)) if kind is Length else moment(value)


_KEYS = {"": FleetSpec, "nodes[]": NodeGroup, "jobs[]": JobPlan, "jobs[].faults[]": FaultPlan}
_KEYS |= {"silences[]": Silence, "sampling": Sampling}


def _reworded(said: str, data: Any) -> tuple[str, str]:
    """msgspec's message as (path, sentence)."""
    message, _, place = said.partition(" - at `$")
    path = place.rstrip("`").removeprefix(".")
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", message, re.S)
    if not unknown:
        return path, message[0].lower() + message[1:] + _quoted(path, data)
    keys = msgspec.structs.fields(_KEYS[re.sub(r"\[\d+\]", "[]", path)])
    inner = f"{path}.{unknown[1]}" if path else unknown[1]
    return inner, f"no such key; there are {', '.join(key.encode_name for key in keys)}"


def _quoted(path: str, data: Any) -> str:
    """What stands at ``path``, where it is a text."""
    for key, index in re.findall(r"([A-Za-z_]\w*)|\[(\d+)\]", path):
        try:
            data = data[key or int(index)]
        except (KeyError, IndexError, TypeError):
            return ""
    return f", not {data[:40]!r}" if isinstance(data, str) else ""


def _check(spec: FleetSpec) -> None:
    if not 1.0 <= spec.duration <= LONGEST_S:
        raise _At("duration", f"{spec.duration:g} s; from 1 s to 366 d")
    if spec.start.unix_s is None:
        raise _At("start", "a moment such as 2026-01-05T08:00:00Z")
    if not 0.1 <= spec.sampling.every <= spec.sampling.message <= 3600.0:
        raise _At("sampling", "every is 100ms or more, and a message spans as much or more, up to 1h")
    if spec.sampling.message / spec.sampling.every > 1000:
        raise _At("sampling", "a message holds 1000 samples at most; let it span less")
    _check_nodes(spec)
    groups = spec.groups
    _check_jobs(spec, groups)
    for index, silence in enumerate(spec.silences):
        path = f"silences[{index}]"
        if silence.node not in groups:
            raise _At(path, f"there is no node {silence.node}")
        begin, end = silence.begin.since(spec.start_s), silence.end.since(spec.start_s)
        if not 0 <= begin < end:
            raise _At(path, f"from {begin:g} s to {end:g} s; the end comes after the beginning, and that after 0")
        if begin >= spec.duration:
            raise _At(path, f"begins at {begin:g} s; the fleet ends at {spec.duration:g} s")
    for node in spec.clocks:
        if node not in groups:
            raise _At(f"clocks.{node}", "there is no such node")


def _check_nodes(spec: FleetSpec) -> None:
    if sum(group.count or 1 for group in spec.nodes) > MOST_NODES:
        raise _At("nodes", f"more than {MOST_NODES} in all")
    seen: set[str] = set()
    for index, group in enumerate(spec.nodes):
        if len(group.day) not in (0, 24):
            raise _At(f"nodes[{index}].day", f"{len(group.day)} numbers; one for each of 24 hours")
        for name in names_of(group):
            if name in seen:
                raise _At(f"nodes[{index}].name", f"there is a node {name} already")
            seen.add(name)


def _check_jobs(spec: FleetSpec, groups: dict[str, NodeGroup]) -> None:
    seen: set[tuple[str, int]] = set()
    for index, job in enumerate(spec.jobs):
        path = f"jobs[{index}]"
        if (job.name, job.attempt) in seen:
            raise _At(path, f"there is a job {job.name} of attempt {job.attempt} already")
        seen.add((job.name, job.attempt))
        _check_place(path, job, groups)
        begin, end = spec.span(job)
        if not 0 <= begin < end:
            raise _At(path, f"from {begin:g} s to {end:g} s of the fleet; the end comes after the start, and that after 0")
        if end > spec.duration:
            raise _At(path, f"ends at {end:g} s, and the fleet at {spec.duration:g} s: end it earlier, or give it no end")
        if job.kind == "training" and not 0.002 <= job.step * FEWEST_STEPS <= end - begin:
            raise _At(path, f"{end - begin:g} s are no time for {FEWEST_STEPS} steps of {job.step:g} s; a step is 0.1 ms at least")
        for number, fault in enumerate(job.faults):
            _check_fault(f"{path}.faults[{number}]", spec, job, fault)
        if job.kind == "training":
            try:
                shape(spec, job)
            except SpecError as error:
                raise _At(path, str(error)) from error
    _check_overlaps(spec)


def _check_place(path: str, job: JobPlan, groups: dict[str, NodeGroup]) -> None:
    for node in job.nodes:
        if node not in groups:
            raise _At(f"{path}.nodes", f"there is no node {node}")
    if len(set(job.nodes)) < len(job.nodes):
        raise _At(f"{path}.nodes", "a node stands here twice")
    if job.gpus is None and len({groups[node].gpus for node in job.nodes}) > 1:
        raise _At(f"{path}.nodes", "nodes with unequal numbers of GPUs; say which with gpus: [0, 1]")
    if job.gpus is not None and (not job.gpus or len(set(job.gpus)) < len(job.gpus)):
        raise _At(f"{path}.gpus", "at least one, and none twice")
    for node in job.nodes:
        for gpu in job.gpus or ():
            if gpu >= groups[node].gpus:
                raise _At(f"{path}.gpus", f"node {node} has no GPU {gpu}; it has {groups[node].gpus}, from 0")


def _check_fault(path: str, spec: FleetSpec, job: JobPlan, fault: FaultPlan) -> None:
    if job.kind != "training":
        raise _At(path, f"a job of kind {job.kind} has no steps that a fault could slow down")
    if fault.kind not in EXPECTED:
        raise _At(path, f"no kind {fault.kind!r}; there are {', '.join(EXPECTED)}")
    if fault.reason not in REASONS:
        raise _At(path, f"no reason {fault.reason!r}; there are {', '.join(REASONS)}")
    if not fault.ranks and fault.kind != "slowdown":
        raise _At(path, "which ranks?")
    ranks = len(job.nodes) * len(spec.gpus(job))
    if any(rank >= ranks for rank in fault.ranks):
        raise _At(path, f"ranks of this job run from 0 to {ranks - 1}")
    if fault.kind in ("link", "hang") and not job.collectives:
        raise _At(path, f"a fault of kind {fault.kind} shows in collectives: 1 or more of them a step")
    begin, end = spec.fault_span(job, fault)
    job_begin, job_end = spec.span(job)
    if not 0 <= begin < end <= job_end - job_begin:
        raise _At(path, f"from {begin:g} s to {end:g} s of a job that has {job_end - job_begin:g} s")
    for other in job.faults:
        if other is not fault and other.kind == "hang" and begin >= spec.fault_span(job, other)[0]:
            raise _At(path, f"begins at {begin:g} s, when the job hangs already")


def _check_overlaps(spec: FleetSpec) -> None:
    for (node, gpu), uses in _uses(spec).items():
        uses.sort()
        for (_, end, one), (begin, _, other) in zip(uses, uses[1:], strict=False):
            if begin < end:
                names = f"{spec.jobs[one].name} and {spec.jobs[other].name}"
                raise _At(f"jobs[{max(one, other)}]", f"{names} both have GPU {gpu} of {node} at {begin:g} s")


def _uses(spec: FleetSpec) -> dict[tuple[str, int], list[tuple[float, float, int]]]:
    """(node, GPU) -> from when to when it is used by which job."""
    uses: dict[tuple[str, int], list[tuple[float, float, int]]] = {}
    for index, job in enumerate(spec.jobs):
        for node, gpu in places(spec, job):
            uses.setdefault((node, gpu), []).append((*spec.span(job), index))
    return uses


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
