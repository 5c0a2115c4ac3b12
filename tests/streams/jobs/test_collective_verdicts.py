"""The verdicts from collectives alone."""

import msgspec
import pytest

from tests.streams.job_lines import JobDiagnosis
from tests.timings import Link, Peer, changed, linked, listed, speaking


def judge(batches):
    """The verdicts on ranks: these jobs do little but wait, and are bound by their communication as well."""
    diagnosis = JobDiagnosis()
    found = [finding for batch in batches for finding in diagnosis.update(batch)]
    return [finding for finding in found if finding.kind == "straggler"]


@pytest.mark.long
def test_the_rank_with_the_shortest_wait_is_the_late_one(collective_batches):
    """Without phases the late rank is named by its group, with the cause unknown."""
    findings = judge(collective_batches(8, 120, {5: 0.04}))
    assert {tuple(finding.ranks) for finding in findings} == {(5,)}
    assert [finding.state for finding in findings[:2]] == ["suspected", "confirmed"]
    assert findings[0].group == "default"
    assert findings[0].cause == "unknown"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_healthy_collectives_accuse_nobody(collective_batches, seed):
    """Noise in arrivals is no lateness."""
    assert judge(collective_batches(8, 200, {}, seed=seed)) == []


def test_jobs_that_send_phases_are_judged_by_them(collective_batches):
    """Collectives of a job with phases give no second verdict on the same rank."""
    batches = [msgspec.structs.replace(batch, phases=True) for batch in collective_batches(4, 120, {1: 0.05})]
    assert judge(batches) == []


@pytest.mark.long
def test_missing_and_repeated_sequence_numbers_are_noted(collective_batches):
    """Holes and repeats in the numbering change no name and show in the coverage."""
    batches = collective_batches(4, 150, {2: 0.05})
    names = ("rank", "step", "seq", "group", "operation", "bytes", "start_s", "duration_s", "wait_s")
    for index, batch in enumerate(batches):
        told = {name: listed(getattr(batch, name)) for name in names}
        for column in told.values():
            column.append(column[3])  # repeated
            del column[10]  # missing
        batches[index] = changed(batch, **told)
    findings = judge(batches)
    assert {tuple(finding.ranks) for finding in findings} == {(2,)}
    assert any("repeated" in note for note in findings[0].coverage.notes)


def by_nccl(batch, late):
    """The same collectives as NCCL timed them, in which another rank came last."""
    waits = [0.001 if rank == late else 0.2 for rank in listed(batch.rank)]
    return changed(
        batch, summed=True, by_nccl=True, phases=False, groups=["0x7f8c all_reduce"], duration_s=waits, wait_s=waits
    )


@pytest.mark.long
@pytest.mark.parametrize("phases", [False, True])
def test_nccls_own_times_give_no_second_verdict(collective_batches, phases):
    """The same collectives stand in other messages, which carry it: nobody else is named, and nothing counted twice."""
    batches = [msgspec.structs.replace(batch, phases=phases) for batch in collective_batches(8, 120, {5: 0.04})]
    alone, beside = JobDiagnosis(), JobDiagnosis()
    found = [finding for batch in batches for finding in alone.update(batch)]
    again = [
        finding
        for batch in batches
        for message in (batch, by_nccl(batch, late=2))
        for finding in beside.update(message)
    ]
    assert again == found
    assert {tuple(one.ranks) for one in found if one.kind == "straggler"} == (set() if phases else {(5,)})


RANKS = range(4)


def with_links(batches, rtt_of, **fields):
    """Each message of collectives, and one of links behind it, as sidecars send them."""
    for number, batch in enumerate(batches):
        slow = [max(rtt_of(rank, number) for rank in RANKS) * 8] * len(listed(batch.wait_s))
        yield changed(batch, wait_s=slow, **fields)
        yield linked([Link(rank, rtt_of(rank, number), connections=3) for rank in RANKS], sequence=number)


@pytest.mark.long
@pytest.mark.parametrize("phases", [False, True])
def test_a_slow_link_is_named_by_its_round_trip(collective_batches, phases):
    """The rank that is far from every peer while all wait has the slow link; also in a job without phases."""
    batches = with_links(
        collective_batches(4, 300, {}), lambda rank, n: 0.02 if rank == 3 and n >= 10 else 0.0001, phases=phases
    )
    findings = judge(batches)
    assert {(tuple(finding.ranks), finding.cause) for finding in findings} == {((3,), "link")}
    assert findings[-1].state == "confirmed"
    # From the tenth message on, of a second each, every rank waits nearly all of the time.
    assert findings[-1].cost.lost_s > 10


@pytest.mark.long
def test_equal_links_accuse_nobody(collective_batches):
    """Round trips that are long for everybody are the network's nature, not one rank's fault."""
    assert judge(with_links(collective_batches(4, 300, {}), lambda rank, n: 0.01)) == []


def in_a_ring(rank, rtt_of, size=4):
    """What ``rank`` tells of a ring in which each sends to the next, beside an idle connection that was once fast."""
    to, origin = (rank + 1) % size, (rank - 1) % size
    return Link(
        rank,
        rtt_s=0.00003,
        connections=3,
        peers=[
            Peer(f"10.0.0.{rank}:7{to}", f"10.0.0.{to}:9{rank}", rtt_of(rank, to)),
            Peer(f"10.0.0.{rank}:9{origin}", f"10.0.0.{origin}:7{rank}"),
        ],
    )


def ring_batches(batches, rtt_of):
    """What the node of all ranks sends."""
    for number, batch in enumerate(batches):
        yield changed(batch, phases=True, wait_s=[1.0] * len(listed(batch.wait_s)))
        yield linked([in_a_ring(rank, lambda a, b, n=number: rtt_of(a, b, n)) for rank in RANKS], sequence=number)


def split(batches, rtt_of):
    """The same from a node for each rank."""
    for number, batch in enumerate(batches):
        whole = changed(batch, phases=True, wait_s=[1.0] * len(listed(batch.wait_s)))
        for rank in RANKS:
            about = {"producer": f"node-{rank}", "sequence": number}
            yield speaking(msgspec.structs.replace(whole, **about), [rank], [len(RANKS)])
            told = linked([in_a_ring(rank, lambda a, b, n=number: rtt_of(a, b, n))], **about)
            yield speaking(told, [rank], [len(RANKS)])


@pytest.mark.long
@pytest.mark.parametrize("sent_by", [ring_batches, split], ids=["one node", "four nodes"])
def test_a_slow_link_in_a_ring_is_told_from_its_neighbours(collective_batches, sent_by):
    """Who sends into the slow rank sees a slow connection too, but has a fast one on its other side."""
    batches = collective_batches(4, 300, {})
    findings = judge(sent_by(batches, lambda a, b, n: 0.02 if 2 in (a, b) and n >= 10 else 0.0001))
    assert {(tuple(finding.ranks), finding.cause) for finding in findings} == {((2,), "link")}
    assert findings[-1].state == "confirmed"
