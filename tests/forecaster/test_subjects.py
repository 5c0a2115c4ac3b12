"""Which series a window speaks of, and what a cluster's, a node's and a job's GPUs add up to."""

from forecaster.subjects import Subjects
from paceline.events import DeviceWindow, HostWindow, JobDescribed, JobWindow, RankPlace


def device(
    name: str, busy: float | None, node: str = "n1", start_s: float = 600.0, used: float = 0.0, length_s: float = 60.0
) -> DeviceWindow:
    mean = {"power_w": 100.0, "fb_used_bytes": used, "fb_total_bytes": 100.0}
    if busy is not None:
        mean["utilization_ratio"] = busy
    top = {"fb_total_bytes": 100.0}
    return DeviceWindow(
        cluster="c", start_s=start_s, length_s=length_s, node=node, device=name, samples=60, mean=mean, max=top
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
    readings = values(Subjects(), device("g0", 0.5), device("g0", 0.5))
    assert readings["c/cluster/gpu_power_w"] == 100.0


def test_full_memory_is_not_free() -> None:
    """A GPU that idles with a model loaded is taken; one that was not measured is not free."""
    readings = values(Subjects(), device("g0", 0.0, used=90.0), device("g1", None))
    assert readings["c/cluster/free_gpus"] == 0.0


def test_a_job_has_its_gpus_while_it_runs() -> None:
    """JobDescribed says where a job runs; when it has ended the GPUs are nobody's."""
    subjects = Subjects()
    subjects.on_job(job())
    assert values(subjects, device("g0", 0.0))["c/job/j/gpu_busy_ratio"] == 0.0
    assert values(subjects, device("g0", 0.0))["c/cluster/free_gpus"] == 0.0
    subjects.on_job(job(ended_s=900.0))
    assert "c/job/j/gpu_busy_ratio" not in values(subjects, device("g0", 0.0, start_s=1200.0))


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
