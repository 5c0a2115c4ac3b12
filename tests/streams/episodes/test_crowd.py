"""Many findings of a sort are reported as one; a few are reported one by one."""

import random
from typing import Any

import msgspec
import pytest

from paceline.events import Cost, Coverage, Evidence, Finding
from streams.episodes.crowd import MOST_NAMED, MOST_SINGLE, Crowds

SORT = "straggler: ranks"


def single(rank: int, state: str = "confirmed", revision: int = 1, lost_s: float = 1.0, **changed: Any) -> Finding:
    """A finding on one rank."""
    told: dict[str, Any] = {
        "id": f"straggler-{rank}",
        "kind": "straggler",
        "cluster": "c",
        "job": "job",
        "attempt": 0,
        "cause": "throttling",
        "ranks": [rank],
        "stage": None,
        "group": None,
        "nodes": [f"n{rank // 8}"],
        "devices": [f"GPU-{rank}"],
        "first_step": 60 + rank % 3,
        "last_step": 100,
        "severity": "warning",
        "confidence": 0.9,
        "coverage": Coverage(ranks_expected=9000, ranks_heard=9000, events_missing=0),
        "evidence": [Evidence(name="own_time", value=0.2, unit="s/step", peers=0.1, rule="")],
        "exonerated": [],
        "summary": f"Rank {rank} works 200 ms.",
    }
    cost = Cost(lost_s=lost_s, gpu_hours=0.0, throughput_lost_ratio=0.1)
    return Finding(revision=revision, state=state, cost=cost, **told | changed)


def gathered(crowds: Crowds, *findings: Finding, last: bool = False) -> list[Finding]:
    return crowds.gather([(SORT, one) for one in findings], last=last)


def held(ranks: int) -> tuple[Crowds, Finding]:
    """A finding for so many ranks."""
    crowds = Crowds()
    (crowd,) = gathered(crowds, *map(single, range(ranks)))
    return crowds, crowd


def test_a_few_are_reported_as_they_are() -> None:
    """Whatever they say, and in their order."""
    crowds, few = Crowds(), [single(rank) for rank in range(MOST_SINGLE)]
    assert gathered(crowds, *few) == few
    over = [single(rank, "recovered", 2) for rank in reversed(range(MOST_SINGLE))]
    assert gathered(crowds, *over) == over
    assert crowds.sorts == {}


@pytest.mark.long
@pytest.mark.parametrize("ranks", [MOST_SINGLE + 1, 512, 4096])
def test_many_are_one_finding_that_names_them(ranks: int) -> None:
    """Their number, who they are, what they have in common, and the numbers of the one that costs most."""
    findings = [single(rank, lost_s=9.0 if rank == 3 else 1.0) for rank in range(ranks)]
    (crowd,) = gathered(Crowds(), *findings)
    assert (crowd.kind, crowd.cause, crowd.state, crowd.revision) == ("straggler", "throttling", "confirmed", 1)
    assert crowd.ranks == list(range(ranks))[:MOST_NAMED]
    assert (crowd.first_step, crowd.last_step, crowd.cost.lost_s) == (60, 100, 9.0)
    assert [(one.name, one.value) for one in crowd.evidence] == [("alike", ranks), ("own_time", 0.2)]
    assert crowd.summary.startswith(f"{ranks} ranks (ranks 0-{ranks - 1}) have ")
    assert crowd.summary.endswith(" Rank 3 works 200 ms.")
    assert len(msgspec.json.encode(crowd)) < 20_000


def test_causes_that_differ_are_no_common_cause() -> None:
    """More than half of them must have it."""
    causes = ["throttling", "input_pipeline"] * MOST_SINGLE
    (crowd,) = gathered(Crowds(), *[single(rank, cause=cause) for rank, cause in enumerate(causes)])
    assert crowd.cause == "unknown"


def test_those_that_were_reported_one_by_one_end_when_they_are_many() -> None:
    """Each with a revision of its own; those that are new have none, and one that is over is over."""
    crowds = Crowds()
    gathered(crowds, *[single(rank) for rank in range(MOST_SINGLE)])
    news = [single(0, "recovered", 2), *[single(rank) for rank in range(8, 12)]]
    *ended, crowd = gathered(crowds, *news)
    assert ended[0] == news[0]
    assert [(one.ranks, one.state, one.revision) for one in ended[1:]] == [
        ([rank], "recovered", 2) for rank in range(1, MOST_SINGLE)
    ]
    assert crowd.ranks == list(range(1, 12))
    assert [one.replaced_by or "" for one in (*ended, crowd)] == ["", *[crowd.id] * (MOST_SINGLE - 1), ""]


def test_a_finding_that_one_of_many_replaces_goes_on_in_that_for_all() -> None:
    """A rank's by its node's, which is reported with the other nodes'; members that end together say it of all."""
    crowds, crowd = held(40)
    named = msgspec.structs.replace(single(99, "recovered", 2), replaced_by=single(3).id)
    (ended,) = crowds.gather([("straggler: others", named)])
    assert ended.replaced_by == crowd.id
    replaced = [msgspec.structs.replace(single(rank, "recovered", 2), replaced_by="node") for rank in range(40)]
    gathered(crowds, *replaced[1:-1])
    (over,) = gathered(crowds, replaced[0], replaced[-1])
    assert (over.id, over.state, over.replaced_by) == (crowd.id, "recovered", "node")


def test_a_finding_for_many_has_recovered_where_another_replaces_some_of_them_alone() -> None:
    crowds, _ = held(40)
    news = [single(rank, "recovered", 2) for rank in range(40)]
    (over,) = gathered(crowds, *news[:-1], msgspec.structs.replace(news[-1], replaced_by="node"))
    assert (over.state, over.replaced_by or "") == ("recovered", "")


def test_it_ends_with_its_last_member_and_the_next_is_another() -> None:
    """Members that end one by one are reported with their number; all together are one word."""
    crowds, crowd = held(40)
    left = [gathered(crowds, single(rank, "recovered", 2)) for rank in range(40)]
    revised = [one for said in left for one in said]
    assert [one.revision for one in revised] == list(range(2, 2 + len(revised)))
    assert {one.id for one in revised} == {crowd.id}
    assert [one.state for one in revised] == ["confirmed"] * (len(revised) - 1) + ["recovered"]
    assert [len(one.ranks) for one in revised][-8:] == [7, 6, 5, 4, 3, 2, 1, 1]
    assert len(revised) < 25
    assert crowds.sorts == {}
    again = [single(rank, id=f"again-{rank}") for rank in range(40)]
    (second,) = gathered(crowds, *again)
    assert second.id != crowd.id
    over = [single(rank, "recovered", 2, id=f"again-{rank}") for rank in range(40)]
    assert [(one.id, one.state) for one in gathered(crowds, *over)] == [(second.id, "recovered")]


def test_a_few_that_are_left_of_many_stay_together() -> None:
    """A finding that has ended does not begin again under its own id."""
    crowds, crowd = held(40)
    gathered(crowds, *[single(rank, "recovered", 2) for rank in range(2, 40)])
    (grown,) = gathered(crowds, single(0, revision=2, lost_s=50.0))
    assert (grown.id, grown.ranks, grown.cost.lost_s) == (crowd.id, [0, 1], 50.0)


def spent(rank: int, state: str, revision: int, lost_s: float, gpu_hours: float, **changed: Any) -> Finding:
    """One that has cost something."""
    cost = Cost(lost_s=lost_s, gpu_hours=gpu_hours, throughput_lost_ratio=0.1)
    return msgspec.structs.replace(single(rank, state, revision, **changed), cost=cost)


def costs(*findings: Finding) -> list[tuple[float, float]]:
    """Seconds and device-hours of each."""
    return [(one.cost.lost_s, one.cost.gpu_hours) for one in findings]


def test_steps_that_wait_for_many_cost_what_the_costliest_did_also_once_it_has_ended() -> None:
    """The last to end was late for a minute, and is not accused of what the others did."""
    crowds = Crowds()
    (crowd,) = gathered(crowds, *[spent(rank, "confirmed", 1, 3600.0, 64.0) for rank in range(0, 80, 8)])
    assert costs(crowd) == [(3600.0, 64.0)]
    gathered(crowds, spent(96, "confirmed", 1, 36.0, 0.64))
    fewer = gathered(crowds, *[spent(rank, "recovered", 2, 3600.0 + rank, 64.0 + rank) for rank in range(0, 80, 8)])
    assert costs(*fewer) == [(3672.0, 136.0)]
    (over,) = gathered(crowds, spent(96, "recovered", 2, 40.0, 0.7))
    assert (over.state, over.ranks, costs(over)) == ("recovered", [96], [(3672.0, 136.0)])
    assert over.nodes == sorted(f"n{node}" for node in (*range(10), 12))


def test_devices_that_stand_still_cost_their_sum_whoever_has_ended() -> None:
    """One by one first: what those have cost is in the finding for all, and not in their own any more."""
    crowds = Crowds()
    alone: dict[str, Any] = {"ranks": [], "nodes": ["n0"], "first_step": -1, "last_step": -1}

    def told(*findings: Finding) -> list[Finding]:
        return crowds.gather([("idle_device: GPUs", one) for one in findings])

    told(*[spent(gpu, "confirmed", 1, 0.0, 4.0, **alone) for gpu in range(8)])
    news = [spent(gpu, "confirmed", 2 if gpu < 8 else 1, 0.0, 10.0, **alone) for gpu in range(16)]
    *ended, crowd = told(*news)
    assert costs(*ended) == [(0.0, 0.0)] * 8
    assert costs(crowd) == [(0.0, 160.0)]
    shown = [one for gpu in range(16) for one in told(spent(gpu, "recovered", 3, 0.0, 10.5, **alone))]
    hours = [one.cost.gpu_hours for one in shown]
    assert hours == sorted(hours)
    assert (shown[-1].state, shown[-1].nodes, hours[-1]) == ("recovered", ["n0"], 168.0)


def test_what_members_that_ended_have_cost_survives_a_restart() -> None:
    """Also where their end alone was not worth a revision."""
    crowds, restored = Crowds(), Crowds()
    gathered(crowds, *[spent(rank, "confirmed", 1, 1.0, 0.5) for rank in range(40)])
    assert gathered(crowds, spent(0, "recovered", 2, 1.9, 0.9)) == []
    restored.load(msgspec.json.decode(msgspec.json.encode(crowds.state())))
    last = gathered(restored, *[spent(rank, "recovered", 2, 1.0, 0.5) for rank in range(1, 40)])
    assert costs(*last) == [(1.9, 0.9)]
    assert len(last[0].nodes) == 5


def test_what_is_new_of_members_alone_is_not_reported_but_at_the_end() -> None:
    """Nor one more of hundreds."""
    crowds, crowd = held(400)
    assert gathered(crowds, single(7, revision=2, lost_s=1.5), single(400)) == []
    (last,) = gathered(crowds, single(7, revision=3, lost_s=1.6), last=True)
    assert (last.id, last.revision, last.evidence[0].value, last.cost.lost_s) == (crowd.id, 2, 401, 1.6)
    assert gathered(crowds, last=True) == []


def test_suspects_are_confirmed_together_once_half_of_them_are() -> None:
    """And stay so."""
    crowds = Crowds()
    (crowd,) = gathered(crowds, *[single(rank, "suspected") for rank in range(20)])
    assert crowd.state == "suspected"
    assert gathered(crowds, *[single(rank, revision=2) for rank in range(9)]) == []
    (sure,) = gathered(crowds, single(9, revision=2))
    assert (sure.state, sure.revision) == ("confirmed", 2)
    (more,) = gathered(crowds, *[single(rank, "suspected") for rank in range(20, 80)])
    assert more.state == "confirmed"


def test_findings_of_several_jobs_on_a_node_name_none() -> None:
    """A finding has one job; those of GPUs that are nobody's have none."""
    findings = [single(gpu, job=f"job-{gpu % 2}", ranks=[], nodes=["n0"]) for gpu in range(20)]
    (crowd,) = Crowds().gather([("device_fault clocks: GPUs", one) for one in findings])
    assert (crowd.job, crowd.nodes, len(crowd.devices)) == ("", ["n0"], 20)


def test_ranks_of_one_node_do_not_accuse_it() -> None:
    """Where its ranks are found one by one the node has nobody to be compared with."""
    (crowd,) = gathered(Crowds(), *[single(rank, nodes=["n0"]) for rank in range(20)])
    assert crowd.nodes == []


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_beginnings_and_ends_is_bounded_and_ends(seed: int) -> None:
    """Restored after every message it says the same; every finding that began ends, with revisions that count up."""
    rng = random.Random(seed)
    crowds, restored = Crowds(), Crowds()
    open_: dict[int, int] = {}
    reported: dict[str, Finding] = {}
    news: list[list[Finding]] = []
    for _ in range(60):
        batch = []
        for rank in rng.sample(range(60), rng.choice((1, 3, 50))):
            revision = open_.get(rank, 0) + 1
            over = revision > 1 and rng.random() < 0.6
            open_[rank] = 0 if over else revision
            state = "recovered" if over else rng.choice(("suspected", "confirmed"))
            batch.append(single(rank, state, revision, rng.random(), id=f"{rank}-{len(news) if revision == 1 else 0}"))
        news.append(batch)
    ids: dict[int, str] = {}
    final = [single(rank, "recovered", 99) for rank, revision in open_.items() if revision]
    for batch in [*news, final]:
        one_by_one = []
        for finding in batch:
            (rank,) = finding.ranks
            if finding.revision == 1:
                ids[rank] = finding.id
            one_by_one.append(msgspec.structs.replace(finding, id=ids[rank]))
        said = gathered(crowds, *one_by_one)
        assert gathered(restored, *one_by_one) == said
        fresh = Crowds()
        fresh.load(msgspec.json.decode(msgspec.json.encode(restored.state())))
        restored = fresh
        assert len(said) <= 2 * MOST_SINGLE + 1
        for one in said:
            before = reported.get(one.id)
            assert before is None or (before.state != "recovered" and before.revision < one.revision)
            reported[one.id] = one
    assert {one.state for one in reported.values()} == {"recovered"}
    assert crowds.sorts == {}


def test_a_damaged_state_is_refused() -> None:
    """As every snapshot."""
    with pytest.raises(ValueError, match="not a snapshot"):
        Crowds().load({"sorts": {SORT: {"members": 3}}})
