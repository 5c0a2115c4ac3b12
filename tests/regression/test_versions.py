"""What the recordings of the first version tell, as a sidecar of today would send it: nobody else is found.

The same rows go through the sidecar's own batcher, so that phases become wide rows and collectives sums.
"""

import contextlib
import math
from collections import defaultdict

import pytest

from paceline import events, recording, topics, wire
from paceline.sidecar.batch import Batcher, Origin
from paceline.sidecar.rank_rows import PARTS, CollectiveRow, Report, StepRow
from paceline.training.messages import Hello, LinkReport
from streams.processor import Processor
from tests.regression.test_recordings import rewrite


class Nodes:
    """The sidecars of a recording's nodes: told messages of the first version, they send those of today."""

    def __init__(self, events_):
        self.batchers = {}
        self.joined = set()
        #: Those that tell collectives, after the phases of the same second.
        self.both = {event.node for event in events_ if isinstance(event, events.CollectiveTimings)}

    def update(self, event):
        """What the node's sidecar sends once its ranks have reported this."""
        node = (event.producer, event.node)
        if node not in self.batchers:
            self.batchers[node] = Batcher(Origin(event.cluster, event.node, event.producer))
        batcher = self.batchers[node]
        if isinstance(event, events.OpTimings):
            for at, rank in enumerate(event.ranks):
                self.join(batcher, event, rank, at)
            key = (event.job, event.attempt)
            batcher.observe(key, list(event.conditions))
            reports = steps_of(event)
        else:
            for at, rank in enumerate(event.ranks):
                self.join(batcher, event, rank, at)
            key = (event.job, event.attempt)
            links = {link.rank: link for link in event.links}
            rows = calls_of(event)
            reports = {
                rank: Report([], rows.get(rank, []), link_of(links[rank]) if rank in links else None)
                for rank in {*rows, *links}
            }
            if event.now_s is not None:
                batcher.update_open(key, event.open, event.now_s)
        for rank, report in reports.items():
            batcher.update(key, rank, report)
        if isinstance(event, events.OpTimings) and event.node in self.both:
            return []
        return batcher.tick(10.0 * event.t0_s)  # so late that all that waits is due

    def join(self, batcher, event, rank, at):
        where = (event.producer, event.job, event.attempt, rank)
        if where in self.joined:
            return
        self.joined.add(where)
        phases = isinstance(event, events.OpTimings)
        places = {name: getattr(event, name)[at] for name in ("dp", "tp", "pp") if phases and getattr(event, name)}
        batcher.join(
            Hello(
                rank=rank,
                world_size=event.world_sizes[at],
                local_rank=0,
                pid=1,
                device=event.devices[at] if phases else "",
                backend="nccl",
                framework="torch",
                job=event.job,
                attempt=event.attempt,
                started_s=event.t0_s,
                **{name: None if place < 0 else place for name, place in places.items()},
            )
        )

    def end(self):
        """What is left once the ranks have gone."""
        for batcher in self.batchers.values():
            for key, ranks in batcher.ranks().items():
                for rank in ranks:
                    batcher.leave(key, rank, 1e12)
        return [sent for batcher in self.batchers.values() for sent in batcher.end(1e12)]


def steps_of(event):
    """The wide rows of each rank."""
    cells = defaultdict(lambda: ([], defaultdict(list)))
    columns = (event.rank, event.step, event.op, event.microbatch, event.start_s, event.duration_s)
    for rank, step, op, microbatch, start_s, seconds in zip(*columns, strict=True):
        rows, split = cells[rank, step]
        rows.append((event.ops[op], event.t0_s + start_s, seconds))
        if microbatch >= 0:
            split[microbatch].append((event.ops[op], seconds))
    reports = defaultdict(lambda: Report([], []))
    for (rank, step), (rows, split) in cells.items():
        sums = defaultdict(list)
        for op, _, seconds in rows:
            sums[op].append(seconds)
        start_s = next((start for op, start, _ in rows if op == events.STEP), rows[0][1])
        seconds = tuple(sum(sums[op]) if op in sums else math.nan for op in PARTS)
        passes = [
            (number, *(sum(s for op, s in told if op == name) for name in ("forward", "backward")))
            for number, told in sorted(split.items())
        ]
        whole = sum(sums[events.STEP]) if events.STEP in sums else math.nan
        reports[rank].steps.append(StepRow(step, start_s, whole, seconds, passes))
    return reports


def calls_of(event):
    """The collectives of each rank."""
    rows = defaultdict(list)
    columns = (event.rank, event.step, event.seq, event.group, event.operation, event.bytes)
    times = (event.start_s, event.duration_s, event.wait_s)
    for rank, step, seq, group, operation, size, start_s, took_s, wait_s in zip(*columns, *times, strict=True):
        words = (event.groups[group], event.group_sizes[group], event.operations[operation])
        rows[rank].append(CollectiveRow(step, seq, *words, size, event.t0_s + start_s, took_s, wait_s))
    return rows


def link_of(link):
    return LinkReport(link.connections, link.rtt_s, link.retransmits, link.peers, link.rated_bytes_per_s)


def told(messages):
    """Who is found: the last word on each finding of a job."""
    processor, last = Processor(), {}
    processor.backlog = True
    answers = [answer for topic, event in messages for _, answer in processor.update(topic, event)]
    for answer in [*answers, *(answer for _, answer in processor.finish())]:
        if isinstance(answer, events.Finding):
            last[answer.id] = (answer.kind, answer.state, answer.cause, tuple(answer.ranks), answer.first_step)
    return sorted(last.values(), key=str)


def messages_of(name):
    """The messages of a recording that a job's ranks make, as they can be read."""
    for line in recording.read(str(rewrite.HERE / f"{name}{rewrite.ENDING}")):
        if isinstance(line, recording.Line) and line.topic in topics.BY_NAME:
            topic = topics.BY_NAME[line.topic]
            if topic in (topics.OP_V1, topics.COLLECTIVE_V1, topics.THRESHOLD):
                with contextlib.suppress(wire.WireError):
                    yield topic, wire.decode(topic, line.value)


#: What nodes tell, what was imported, and what a sidecar of today has sent already.
OTHERS = ("node-", "imported", "slow-node")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in rewrite.RECORDINGS if not name.startswith(OTHERS)])
def test_nobody_else_is_found_in_what_a_sidecar_of_today_sends(name):
    """Kind, state, cause, ranks and first step of every finding stay."""
    old, new = list(messages_of(name)), []
    nodes = Nodes([event for _, event in old])
    for topic, event in old:
        if topic is topics.THRESHOLD:
            new.append((topic, event))
        else:
            new += [(sent.topic, sent.event) for sent in nodes.update(event) if sent.topic is not topics.JOB]
    new += [(sent.topic, sent.event) for sent in nodes.end() if sent.topic is not topics.JOB]
    assert topics.OP in {topic for topic, _ in new}
    assert told(new) == told(old)
