"""Which series a window speaks of, and what a cluster's, a node's and a job's GPUs add up to."""

import math
from functools import partial

import msgspec
import pytest

from forecaster.aggregates import INTERVALS, PATIENCE, Aggregates, Group, Share
from forecaster.job_places import JobPlaces
from forecaster.memory import Memory
from forecaster.subjects import Subjects
from paceline.events import DeviceWindow, HostWindow, JobDescribed, JobWindow, RankPlace


def device(
    name: str,
    busy: float | None,
    node: str = "n1",
    start_s: float = 600.0,
    used: float = 0.0,
    length_s: float = 60.0,
    cluster: str = "c",
) -> DeviceWindow:
    mean = {"power_w": 100.0, "fb_used_bytes": used, "fb_total_bytes": 100.0}
    if busy is not None:
        mean["utilization_ratio"] = busy
    top = {"fb_total_bytes": 100.0}
    return DeviceWindow(
        cluster=cluster, start_s=start_s, length_s=length_s, node=node, device=name, samples=60, mean=mean, max=top
    )


def job(ended_s: float | None = None) -> JobDescribed:
    place = RankPlace(rank=0, local_rank=0, node="n1", device="g0", pid=1)
    return JobDescribed(
        cluster="c", producer="p", sequence=0, job="j", attempt=0, node="n1", world_size=1, backend="nccl",
        framework="torch", started_s=0.0, ended_s=ended_s, places=[place],
    )  # fmt: skip


def values(subjects: Subjects, *events: object) -> dict[str, float]:
    """Each series' newest value."""
    return {one.subject.key: one.value for event in events for one in subjects.readings(event)}


def test_a_gpu_has_a_series_a_column() -> None:
    """Named by cluster, node, device and field; memory is bounded by what the card has."""
    readings = {one.subject.key: one.subject for one in Subjects().readings(device("g0", 0.5, used=20.0))}
    assert readings["c/device/n1/g0/utilization_ratio"].high == 1.0
    assert readings["c/device/n1/g0/fb_used_bytes"].high == 100.0
    assert readings["c/device/n1/g0/fb_used_bytes"].unit == "bytes"
    assert "c/device/n1/g0/temperature_celsius" not in readings


def test_the_cluster_is_the_mean_and_the_sum_of_its_gpus() -> None:
    """Busy time is averaged, power added, free GPUs counted."""
    readings = values(Subjects(), device("g0", 0.5), device("g1", 0.0), device("g2", 0.1, node="n2"))
    assert readings["c/cluster/gpu_busy_ratio"] == (0.5 + 0.0 + 0.1) / 3
    assert readings["c/cluster/gpu_power_w"] == 300.0
    assert readings["c/cluster/free_gpus"] == 1.0
    assert readings["c/node/n1/gpu_busy_ratio"] == 0.25


def test_a_gpu_heard_twice_counts_once() -> None:
    """Delivery is at least once."""
    readings = values(Subjects(), device("g0", 0.5), device("g0", 0.5), device("g1", 0.5))
    assert readings["c/cluster/gpu_power_w"] == 200.0


def test_one_cluster_closes_nothing_of_another() -> None:
    """Days of one that are sent at once, while another is measured now."""
    subjects = Subjects()
    values(subjects, *(device("g0", 0.5, start_s=60.0 * minute, cluster="zoo") for minute in range(1000, 1010)))
    assert values(subjects, device("g0", 0.0, cluster="ant"))["ant/cluster/free_gpus"] == 1.0


def history(subjects: Subjects, *windows: DeviceWindow) -> dict[int, float]:
    """The power of the cluster, by minute."""
    told = [one for window in windows for one in subjects.readings(window)]
    return {int(one.time_s // 60): one.value for one in told if one.subject.key == "c/cluster/gpu_power_w"}


@pytest.mark.slow
def test_partitions_may_be_hours_apart() -> None:
    """A service that catches up reads one node's night before the other's: every minute has both in the end."""
    minutes = [60.0 * minute for minute in range(INTERVALS)]
    night = [device("g0", 0.5, node=node, start_s=start_s) for node in ("n1", "n2") for start_s in minutes]
    assert history(Subjects(), *night) == dict.fromkeys(range(INTERVALS), 200.0)


def test_a_minute_that_is_not_heard_in_full_is_no_fall() -> None:
    """It waits for as many GPUs as there were before; a node that has left is waited for ``PATIENCE`` minutes."""
    first = [device("g0", 0.5, node=node, start_s=600.0) for node in ("n1", "n2")]
    subjects = Subjects()
    assert history(subjects, *first) == {10: 200.0}
    assert history(subjects, device("g0", 0.5, start_s=660.0)) == {}
    lone = [device("g0", 0.5, start_s=60.0 * minute) for minute in range(12, 11 + PATIENCE)]
    assert history(subjects, *lone[:-1]) == {}
    assert history(subjects, lone[-1]) == {10: 200.0, 10 + PATIENCE: 100.0}
    assert history(subjects, device("g0", 0.5, start_s=60.0 * (11 + PATIENCE))) == {11: 100.0, 11 + PATIENCE: 100.0}


NODES = ("n1", "n2", "n3", "n4")


def free_gpus(*windows: DeviceWindow) -> list[tuple[float, float | None]]:
    """The cluster's free GPUs and their total, interval by interval, as they are remembered; NaN is a gap."""
    memory = Memory()
    for window in windows:
        memory.update(window)
    held = memory.find("c/cluster/free_gpus")
    assert held is not None
    return [(value, held.subject.high) for value in held.values.tolist()]


def minute(at: int, *nodes: str) -> list[DeviceWindow]:
    return [device(f"g{gpu}", 0.0, node=node, start_s=60.0 * at) for node in nodes for gpu in range(4)]


@pytest.mark.parametrize("some", [1, 2, 3])
def test_the_total_is_that_of_all_nodes_when_some_are_still_to_be_read(some: int) -> None:
    """Four nodes of four GPUs: a minute of which some have come is not measured, and of 16 all the same."""
    assert free_gpus(*minute(10, *NODES), *minute(11, *NODES[:some])) == [(16.0, 16.0)]


def test_a_last_minute_that_some_nodes_never_reported_is_a_gap() -> None:
    """Nights read node by node: the first node's last minute looked whole until the others' minutes before it came."""
    night = [window for node in NODES for at in range(10, 20) for window in minute(at, node)]
    *known, last = free_gpus(*night, *minute(20, "n1"))
    assert (known, last) == ([(16.0, 16.0)] * 9, (16.0, 16.0))
    first_alone = [*(one for at in range(10, 21) for one in minute(at, "n1")), *night[40:]]
    *known, (value, total) = free_gpus(*first_alone)
    assert known == [(16.0, 16.0)] * 10
    assert math.isnan(value)
    assert total == 16.0


def test_a_node_that_has_left_is_no_part_of_the_total() -> None:
    """After the patience there are as many as still report; one that comes counts from its first minute."""
    held = [window for at in range(10, 20) for window in minute(at, *NODES)]
    fewer = [window for at in range(20, 21 + PATIENCE) for window in minute(at, *NODES[:3])]
    assert free_gpus(*held, *fewer)[-1] == (12.0, 12.0)
    assert free_gpus(*held, *fewer, *minute(21 + PATIENCE, *NODES))[-1] == (16.0, 16.0)


def test_a_clock_that_is_ahead_takes_nothing_from_the_others() -> None:
    """One node is a year ahead: the others are added up as before."""
    ahead = device("g0", 0.5, node="n9", start_s=3.2e7)
    now = [device("g0", 0.5, node=node, start_s=600.0) for node in ("n1", "n2")]
    assert history(Subjects(), ahead, *now)[10] == 200.0


def test_what_comes_too_late_counts_no_more() -> None:
    """An interval whose place was taken by a newer one stays as it was told."""
    group = Group()
    assert [one.place for one in group.add(INTERVALS, Share(0.5, 1.0, False))] == [INTERVALS]
    assert list(group.add(0, Share(0.5, 1.0, False))) == []


def test_memory_is_bounded_by_those_heard_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters and GPUs come and go: the one that was heard least recently is counted from nothing."""
    monkeypatch.setattr("forecaster.aggregates.GROUPS", 2)
    monkeypatch.setattr("forecaster.aggregates.DEVICES", 2)
    aggregates, share = Aggregates(), Share(0.5, 1.0, False)
    for name in ("a", "b", "a", "c"):
        list(aggregates.add(name, 1, share))
    assert [one.gpus for one in aggregates.add("a", 1, share)] == [3]
    assert [one.gpus for one in aggregates.add("b", 1, share)] == [1]
    assert [aggregates.first(name, 1) for name in ("x", "y", "x", "z", "x", "y")] == [
        True,
        True,
        False,
        True,
        False,
        True,
    ]


def test_a_window_that_names_its_job_is_believed() -> None:
    """What was told with the samples is as of then; who runs there now says nothing of yesterday."""
    subjects = Subjects()
    subjects.on_job(job())
    window = msgspec.structs.replace(device("g0", 0.0), job="yesterdays")
    assert "c/job/yesterdays/gpu_busy_ratio" in values(subjects, window)


def test_nodes_of_the_same_name_in_two_clusters() -> None:
    """A job is on the devices of its own cluster."""
    subjects = Subjects()
    subjects.on_job(job())
    assert "d/job/j/gpu_busy_ratio" not in values(subjects, device("g0", 0.0, cluster="d"))


def test_a_gpu_under_mig_counts_once() -> None:
    """As itself; its instances have series of their own, and are no GPUs of the cluster, the node or a job."""
    instances = [msgspec.structs.replace(device(f"MIG-{number}", 0.0), job="j") for number in range(7)]
    subjects = Subjects()
    told = [one for window in (device("g0", 0.0), *instances) for one in subjects.readings(window)]
    assert {(one.value, one.subject.high) for one in told if one.subject.key.endswith("/free_gpus")} == {(1.0, 1.0)}
    assert [one.value for one in told if one.subject.key == "c/cluster/gpu_power_w"] == [100.0]
    assert "c/device/n1/MIG-6/power_w" in {one.subject.key for one in told}
    assert not [one for one in told if one.subject.key.startswith("c/job/")]


def test_full_memory_is_not_free() -> None:
    """A GPU that idles with a model loaded is taken; one that was not measured is not free."""
    readings = values(Subjects(), device("g0", 0.0, used=90.0), device("g1", None))
    assert readings["c/cluster/free_gpus"] == 0.0


def test_a_job_has_its_gpus_while_it_runs() -> None:
    """JobDescribed says where a job runs; when it has ended the GPUs are nobody's."""
    subjects = Subjects()
    subjects.on_job(job())
    readings = values(subjects, device("g0", 0.0))
    assert (readings["c/job/j/gpu_busy_ratio"], readings["c/cluster/free_gpus"]) == (0.0, 0.0)
    subjects.on_job(job(ended_s=900.0))
    assert "c/job/j/gpu_busy_ratio" not in values(subjects, device("g0", 0.0, start_s=1200.0))


def steps(start_s: float, length_s: float = 10.0, name: str = "j") -> JobWindow:
    return JobWindow(
        cluster="c", start_s=start_s, length_s=length_s, job=name, attempt=0, ranks=1, steps=1, first_step=0,
        last_step=0, step_median_s=1.0, step_p95_s=1.0, own_median_s=1.0, own_worst_s=1.0, worst_rank=0,
        wait_ratio=None, phase_median_s={},
    )  # fmt: skip


def free_at(start_s: float, *heard: object, busy: float = 0.0, used: float = 0.0) -> float:
    """Free GPUs by a window of the GPU that job ``j`` was described to be on at 0 s, after what was ``heard``."""
    subjects = Subjects()
    subjects.on_job(job())
    values(subjects, *heard)
    return values(subjects, device("g0", busy, start_s=start_s, used=used))["c/cluster/free_gpus"]


def test_a_job_that_was_killed_keeps_no_gpu() -> None:
    """It never says that it ends: a quarter of an hour after it was heard, its GPUs are free, if they are at rest."""
    assert [free_at(start_s) for start_s in (900.0, 960.0, 1e6)] == [0.0, 1.0, 1.0]
    assert free_at(960.0, busy=0.5) == 0.0
    assert free_at(960.0, used=90.0) == 0.0


@pytest.mark.parametrize(
    "heard",
    [
        steps(5_000.0),
        steps(4_980.0, length_s=60.0),
        msgspec.structs.replace(device("g1", 0.5, node="n2", start_s=4_980.0), job="j"),
    ],
    ids=["steps", "a minute of steps", "another GPU"],
)
def test_a_job_that_is_heard_keeps_its_gpus(heard: object) -> None:
    """A GPU that waits for its job is not free, whichever part of the job is heard, and whichever was read first."""
    assert [free_at(start_s, heard, steps(60.0)) for start_s in (4_000.0, 5_880.0)] == [0.0, 0.0]
    assert [free_at(start_s, heard) for start_s in (5_940.0, 9_000.0)] == [1.0, 1.0]
    assert free_at(9_000.0, heard, steps(9_000.0, name="other")) == 1.0


def test_a_gpu_in_use_is_its_jobs_until_another_is_described() -> None:
    """A job of which no steps are heard is measured by its GPUs."""
    subjects = Subjects()
    subjects.on_job(job())
    assert values(subjects, device("g0", 0.5, start_s=9_000.0))["c/job/j/gpu_busy_ratio"] == 0.5
    assert "c/job/j/gpu_busy_ratio" not in values(subjects, device("g0", 0.0, start_s=9_060.0))


def test_jobs_that_never_end_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes as a job may make up as many places as it likes; the newest are known."""
    monkeypatch.setattr("forecaster.subjects.JobPlaces", partial(JobPlaces, most=100))
    subjects = Subjects()
    for number in range(200):
        subjects.on_job(msgspec.structs.replace(job(), job=f"j{number}", cluster=f"c{number}"))
    assert len(subjects._jobs) == 100
    assert "c199/job/j199/gpu_busy_ratio" in values(subjects, device("g0", 0.0, cluster="c199"))
    assert "c0/job/j0/gpu_busy_ratio" not in values(subjects, device("g0", 0.0, cluster="c0"))


def test_windows_of_other_lengths_are_left_out() -> None:
    """The same minute is not counted twice."""
    assert not values(Subjects(), device("g0", 0.5, length_s=10.0))


def test_a_job_has_steps_and_a_pace() -> None:
    """Step time and throughput; without a step there is no step time, and throughput is 0."""
    window = JobWindow(
        cluster="c", start_s=10.0, length_s=10.0, job="j", attempt=0, ranks=2, steps=20, first_step=0, last_step=19,
        step_median_s=0.5, step_p95_s=0.6, own_median_s=0.4, own_worst_s=0.5, worst_rank=1, wait_ratio=None,
        phase_median_s={},
    )  # fmt: skip
    readings = values(Subjects(), window)
    assert readings == {"c/job/j/step_s": 0.5, "c/job/j/steps_per_s": 2.0}


def test_a_host_is_a_node() -> None:
    """What was not measured of it has no series."""
    window = HostWindow(
        cluster="c", start_s=60.0, length_s=60.0, node="n1", samples=60, mean={"cpu_ratio": 0.2}, max={}
    )
    assert values(Subjects(), window) == {"c/node/n1/cpu_ratio": 0.2}
