"""A fleet: many jobs on many nodes, all that they and their nodes say in the order of time, then what is true of it.

Rule of this file: pure, and a stream. A job is made when it begins and forgotten when it has ended, so what is held is
what runs; each job is ``Job``'s and each node ``NodeSamples``': nothing is modelled here.
"""

import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush, heapreplace
from typing import NamedTuple

import numpy as np

from paceline.gpu import throttle
from paceline.timed_event import TimedEvent

from .conditions import signs_of
from .fault import Fault
from .fault_times import TimedFault, placed
from .fleet_spec import FleetSpec, JobPlan, places, shape
from .job import Job
from .node_samples import NodeSamples, SignSpan, Use, uuid_of
from .truth import DeviceTruth, FleetTruth, SilenceTruth, Truth

#: Numbers that one job holds at a time: many may run at once.
CELLS = 100_000


Messages = Generator[TimedEvent, None, None]


class Source(NamedTuple):
    """Where messages come from, none before ``begin_s``; ``start`` is called when that is reached."""

    begin_s: float
    start: Callable[[], Messages]


class Fleet:
    """A fleet to run once: ``messages``, then ``truth``.

    >>> from .fleet_file import read
    >>> fleet = Fleet(read("{duration: 60s, nodes: [{name: a, gpus: 2}], jobs: [{name: llama, nodes: [a]}]}"))
    >>> sorted({message.topic.short for message in fleet.messages()})
    ['device', 'host', 'job', 'node', 'op']
    >>> [(job.job, job.ranks) for job in fleet.truth().jobs]
    [('llama', 2)]
    """

    def __init__(self, spec: FleetSpec) -> None:
        self.spec = spec
        self.begin_s = spec.start_s
        self.end_s = spec.start_s + spec.duration
        self._truths: dict[int, Truth] = {}
        self._lost: list[dict[str, int]] = [{} for _ in spec.silences]

    def messages(self) -> Iterator[TimedEvent]:
        """All messages that arrive, in the order of time."""
        silences: dict[str, list[tuple[float, float, int]]] = {}
        for index, silence in enumerate(self.spec.silences):
            begin_s, end_s = (self.begin_s + each.since(self.begin_s) for each in (silence.begin, silence.end))
            silences.setdefault(silence.node, []).append((begin_s, end_s, index))
        with closing(merged([*self._nodes(), *self._jobs()])) as messages:
            for message in messages:
                if message.time_s >= self.end_s:
                    return
                spans = silences.get(message.event.node, ())
                silent = next((index for begin_s, end_s, index in spans if begin_s <= message.time_s < end_s), None)
                if silent is None:
                    yield message
                else:
                    lost = self._lost[silent]
                    lost[message.topic.short] = lost.get(message.topic.short, 0) + 1

    def truth(self) -> FleetTruth:
        """What is true of the messages given."""
        spec = self.spec
        return FleetTruth(
            cluster=spec.cluster,
            seed=spec.seed,
            began_s=self.begin_s,
            ended_s=self.end_s,
            nodes=len(spec.groups),
            gpus=sum(group.gpus for group in spec.groups.values()),
            jobs=[self._truths[index] for index in sorted(self._truths)],
            devices=list(self._devices()),
            silences=[
                SilenceTruth(
                    node=silence.node,
                    began_s=self.begin_s + silence.begin.since(self.begin_s),
                    ended_s=self.begin_s + silence.end.since(self.begin_s),
                    messages_lost=lost,
                )
                for silence, lost in zip(spec.silences, self._lost, strict=True)
            ],
            clocks_ahead_s=spec.clocks,
        )

    def _nodes(self) -> Iterator[Source]:
        spec = self.spec
        uses, spans = self._uses()
        for index, (name, group) in enumerate(spec.groups.items()):
            samples = NodeSamples(
                name,
                group,
                spec.cluster,
                uses.get(name, []),
                spans.get(name, []),
                [spec.seed, index, 4],
                spec.clocks.get(name, 0.0),
            )
            yield Source(self.begin_s, partial(self._sampled, samples))

    def _sampled(self, samples: NodeSamples) -> Messages:
        sampling = self.spec.sampling
        return samples.messages(self.begin_s, self.end_s, sampling.every, sampling.message)

    def _uses(self) -> tuple[dict[str, list[Use]], dict[str, list[SignSpan]]]:
        """By node, who has its GPUs when, and what shows of faults there."""
        spec = self.spec
        uses: dict[str, list[Use]] = {}
        spans: dict[str, list[SignSpan]] = {}
        for job in spec.jobs:
            begin_s, end_s = (self.begin_s + each for each in spec.span(job))
            each_node = len(spec.gpus(job))
            on = list(places(spec, job))
            for rank, (node, gpu) in enumerate(on):
                use = Use(gpu, begin_s, end_s, job.name, rank, rank % each_node, job.kind, job.busy)
                uses.setdefault(node, []).append(use)
            for plan in job.faults:
                first_s, last_s = (begin_s + each for each in spec.fault_span(job, plan))
                signs = signs_of([Fault(plan.kind, plan.ranks, plan.size, reason=plan.reason)])
                for rank in plan.ranks:
                    node, gpu = on[rank]
                    spans.setdefault(node, []).append(SignSpan(gpu, first_s, last_s, signs))
        return uses, spans

    def _jobs(self) -> Iterator[Source]:
        for index, plan in enumerate(self.spec.jobs):
            if plan.kind == "training":
                begin_s = self.begin_s + self.spec.span(plan)[0]
                yield Source(begin_s, partial(self._told, index, plan))

    def _devices(self) -> Iterator[DeviceTruth]:
        """What samples of GPUs show: slowdowns that point to hardware, and GPUs that a job holds and does not use."""
        uses, spans = self._uses()
        kinds = [
            (node, span.gpu, span.begin_s, span.end_s, "device_fault")
            for node, found in spans.items()
            for span in found
            if span.signs.throttle_reasons & throttle.FAULTS
        ]
        kinds += [
            (node, use.gpu, use.begin_s, use.end_s, "idle_device")
            for node, found in uses.items()
            for use in found
            if use.kind == "idle"
        ]
        for node, gpu, begin_s, end_s, kind in kinds:
            job = next(use.job for use in uses[node] if use.gpu == gpu and use.begin_s <= begin_s < use.end_s)
            yield DeviceTruth(node=node, device=uuid_of(node, gpu), job=job, began_s=begin_s, ended_s=end_s, kind=kind)

    def _told(self, index: int, plan: JobPlan) -> Messages:
        """The messages of one job; its truth is kept when they end, or when nobody asks for more."""
        job = self._job(plan)
        try:
            yield from job.messages()
        finally:
            self._truths[index] = job.truth()

    def _job(self, plan: JobPlan) -> Job:
        spec = self.spec
        begin, end = spec.span(plan)
        name = zlib.crc32(f"{plan.name}/{plan.attempt}".encode())
        one = replace(shape(spec, plan), seed=int(np.random.SeedSequence([spec.seed, name]).generate_state(1)[0]))
        timed = []
        for fault in plan.faults:
            first, last = spec.fault_span(plan, fault)
            made = Fault(fault.kind, fault.ranks, fault.size, every=fault.every, reason=fault.reason)
            timed.append(TimedFault(replace(made, seconds=last - first), first, last))
        return Job(replace(one, faults=placed(one, timed, end - begin, CELLS)), end - begin, CELLS)


def merged(sources: Iterable[Source]) -> Messages:
    """The messages of all ``sources``, each in the order of time, in the order of time.

    As ``heapq.merge``, but a source is started no sooner than its first message may be due.
    """
    waiting = sorted(enumerate(sources), key=lambda one: (-one[1].begin_s, -one[0]))
    heap: list[tuple[float, int, TimedEvent, Messages]] = []
    with ExitStack() as stack:
        stack.callback(_close, heap)
        while heap or waiting:
            while waiting and (not heap or waiting[-1][1].begin_s <= heap[0][0]):
                number, source = waiting.pop()
                messages = source.start()
                if (first := next(messages, None)) is not None:
                    heappush(heap, (first.time_s, number, first, messages))
            if not heap:
                continue
            _, number, message, messages = heap[0]
            yield message
            if (after := next(messages, None)) is None:
                heappop(heap)
            else:
                heapreplace(heap, (after.time_s, number, after, messages))


def _close(heap: list[tuple[float, int, TimedEvent, Messages]]) -> None:
    for *_, messages in heap:
        messages.close()
