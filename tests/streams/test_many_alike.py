"""Hundreds of slow ranks, thousands of silent nodes, a node full of faulty GPUs: few answers, and work by the rank."""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import msgspec
import pytest

from paceline.columns import durations, offsets, whole
from paceline.events import DeviceSamples, Finding, Speakers, StepTimings
from streams.episodes.crowd import MOST_SINGLE
from streams.nodes.node_diagnosis import NodeDiagnosis
from tests.streams.job_lines import JobDiagnosis
from tests.work_done import counted

#: Answers to one message.
MOST_ANSWERS = 100


def judge(events: Iterable[Any], decision: Any, most_steps: int | None = None) -> list[Finding]:
    """What is said of ``events``; each brings few answers, for as many steps at most where these are counted."""
    found: list[Finding] = []
    for event in events:
        with counted(most_steps) if most_steps is not None else nullcontext():
            answers = decision.update(event)
        assert len(answers) <= MOST_ANSWERS
        found += answers
    return found


def newest(findings: Iterable[Finding]) -> list[Finding]:
    """The last word on each."""
    return list({one.id: one for one in findings}.values())


@pytest.fixture
def slow_ranks() -> Callable[..., list[StepTimings]]:
    """A job on one node: a message a step of all ranks, of which every second is slow for a while, up to so many."""

    def make(ranks: int, steps: int, slow: int, until: int) -> list[StepTimings]:
        made = []
        late = set(range(0, 2 * slow, 2))
        for step in range(steps):
            own = [0.9 if rank in late and 20 <= step < until else 0.6 for rank in range(ranks)]
            longest = max(own)
            made.append(
                StepTimings(
                    cluster="c",
                    producer="p",
                    sequence=step,
                    job="job",
                    attempt=0,
                    node="n",
                    t0_s=1.7e9 + step,
                    speakers=Speakers(
                        ranks=whole(range(ranks)), world_sizes=whole([ranks] * ranks), devices=[""] * ranks
                    ),
                    rank=whole(range(ranks)),
                    step=whole([step] * ranks),
                    start_s=offsets([0.0] * ranks),
                    step_s=durations([longest] * ranks),
                    phases={"forward": durations(own), "communication": durations([longest - one for one in own])},
                )
            )
        return made

    return make


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "slow"), [(64, 20), (1200, 512)])
def test_many_slow_ranks_are_one_finding(slow_ranks: Any, ranks: int, slow: int) -> None:
    """It names them and their cause, is confirmed, and ends when they are back; after a restart, too."""
    diagnosis = JobDiagnosis()
    events = slow_ranks(ranks, 100, slow, 60)
    found = judge(events[:20], diagnosis)
    found += judge(events[20:30], diagnosis, 250_000 + 1_000 * slow)
    diagnosis = JobDiagnosis.restore(diagnosis.snapshot())
    found += judge(events[30:], diagnosis)
    stragglers = [one for one in found if one.kind == "straggler"]
    (last,) = newest(stragglers)
    assert last.state == "recovered"
    confirmed = next(one for one in stragglers if one.state == "confirmed")
    assert confirmed.cause == "worker_compute"
    assert confirmed.ranks == list(range(0, 2 * slow, 2))[:256]
    assert confirmed.evidence[0].value == slow
    assert len(stragglers) < 12
    whole_run = judge(events, JobDiagnosis())
    assert [one.id for one in whole_run] == [one.id for one in found]


def beat(node: int, second: int) -> StepTimings:
    """A node of one rank says that it is there."""
    none = whole([])
    return StepTimings(
        cluster="c",
        producer=f"p{node}",
        sequence=second,
        job="job",
        attempt=0,
        node=f"node-{node}",
        t0_s=1.7e9 + second,
        now_s=1.7e9 + second,
        speakers=Speakers(ranks=whole([node]), world_sizes=whole([8200]), devices=[""]),
        rank=none,
        step=none,
        start_s=offsets([]),
        step_s=durations([]),
        phases={},
    )


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [40, 1024])
def test_many_silent_nodes_are_one_finding_and_come_back_one_by_one(nodes: int) -> None:
    """Half of a job falls silent; each that is heard again is counted."""
    diagnosis, found = JobDiagnosis(), []
    for second in range(0, 90, 5):
        live = range(nodes if second < 20 else nodes // 2)
        found += judge([beat(node, second) for node in live], diagnosis, 250_000 + 300 * nodes)
    silent = [one for one in found if one.kind == "node_silent"]
    (crowd,) = newest(silent)
    assert (crowd.state, len(crowd.nodes)) == ("confirmed", min(nodes // 2, 256))
    assert crowd.evidence[0].value == nodes // 2
    back = judge([beat(node, 90) for node in range(nodes // 2, nodes)], diagnosis, 250_000)
    (over,) = newest(one for one in back if one.kind == "node_silent")
    assert (over.id, over.state) == (crowd.id, "recovered")


def hot(gpus: int, second: int, throttled: bool) -> DeviceSamples:
    """A node whose GPUs all throttle, or none."""
    names = [name for name, kind in DeviceSamples.__annotations__.items() if str(kind).startswith("list[")]
    columns: dict[str, Any] = {name: [None] * gpus for name in names}
    columns |= {
        "uuids": [f"GPU-{gpu}" for gpu in range(gpus)],
        "device": list(range(gpus)),
        "time_s": [0.25] * gpus,
        "processes": [],
        "throttle_reasons": [64 if throttled else 0] * gpus,
        "utilization_ratio": [0.9] * gpus,
    }
    return DeviceSamples(
        cluster="c",
        producer="collector",
        sequence=second,
        node="node-0",
        t0_s=1.7e9 + second,
        not_measured={},
        **columns,
    )


@pytest.mark.slow
@pytest.mark.parametrize("gpus", [8, 64])
def test_a_node_full_of_faulty_gpus_is_one_finding(gpus: int) -> None:
    """Of eight, as machines have, each has its own."""
    events = [hot(gpus, second, 20 <= second < 400) for second in range(700)]
    diagnosis = NodeDiagnosis()
    found = judge(events[:20], diagnosis) + judge(events[20:50], diagnosis, 250_000) + judge(events[50:], diagnosis)
    faults = newest(one for one in found if one.kind == "device_fault")
    assert faults
    assert {one.state for one in faults} == {"recovered"}
    assert len(faults) == (gpus if gpus <= MOST_SINGLE else 1)
    if gpus > MOST_SINGLE:
        sure = next(one for one in found if one.kind == "device_fault" and one.state == "confirmed")
        assert (sure.cause, sure.nodes, len(sure.devices)) == ("throttling", ["node-0"], gpus)
    again = judge([msgspec.structs.replace(one) for one in events], NodeDiagnosis())
    assert again == found
