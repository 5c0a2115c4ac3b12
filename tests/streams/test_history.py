"""From the series of a Prometheus to windows of a minute: whose they are, what counts, and in which order."""

import pytest

from paceline.prometheus import Metric
from streams.history import COLUMNS, DEVICES, Stretch, trained

LABELS = {"UUID": "GPU-1", "Hostname": "n1", "hpc_job": "17"}
BUSY = Metric("busy", "utilization_ratio", "ratio")
USED, FREE = Metric("used", "fb_used_bytes", "bytes"), Metric("free", "fb_free_bytes", "bytes")


def test_what_is_asked_for_is_what_dcgm_exports():
    """Both generations of names, for each column that advice looks at."""
    assert {metric.field for metric in DEVICES} == set(COLUMNS)
    assert {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_DEV_FB_FREE"} <= {one.name for one in DEVICES}


def test_a_minute_of_a_gpu_is_a_window():
    """With its job and all of its columns; memory in use and free make the whole."""
    stretch = Stretch("c")
    for metric, value in ((BUSY, 0.5), (USED, 30.0), (FREE, 50.0)):
        assert stretch.take(metric, (LABELS, [120.0], [value])) == 1
    (window,) = stretch.windows()
    assert (window.cluster, window.node, window.device, window.job) == ("c", "n1", "GPU-1", "17")
    assert (window.start_s, window.length_s) == (120.0, 60.0)
    assert window.mean == {"utilization_ratio": 0.5, "fb_used_bytes": 30.0, "fb_total_bytes": 80.0}
    assert window.max == window.mean


def test_windows_come_in_the_order_of_time():
    """Whatever the order of the series; clusters by their label."""
    stretch = Stretch("c")
    stretch.take(BUSY, ({"UUID": "b", "Hostname": "n2"}, [180.0, 60.0], [0.1, 0.2]))
    stretch.take(BUSY, ({"UUID": "a", "Hostname": "n1", "cluster": "d"}, [120.0], [0.3]))
    assert [(one.start_s, one.cluster) for one in stretch.windows()] == [(60.0, "c"), (120.0, "d"), (180.0, "c")]


@pytest.mark.parametrize(
    "labels",
    [{}, {"UUID": "GPU-1"}, {"Hostname": "n1"}, {**LABELS, "GPU_I_ID": "3"}],
    ids=["none", "no node", "no GPU", "an instance"],
)
def test_what_does_not_say_whose_it_is_is_left_out(labels):
    """An instance of a GPU under MIG is no GPU."""
    stretch = Stretch("c")
    assert stretch.take(BUSY, (labels, [60.0], [0.5])) == 0
    assert list(stretch.windows()) == []


def test_a_share_far_over_one_is_none_and_the_first_of_two_counts():
    """Two names of one thing, of which the older is asked for first."""
    stretch = Stretch("c")
    assert stretch.take(BUSY, (LABELS, [60.0, 120.0], [1.0, 7.0])) == 1
    stretch.take(BUSY, (LABELS, [60.0], [0.2]))
    assert [one.mean for one in stretch.windows()] == [{"utilization_ratio": 1.0}]


def test_a_gpu_of_nobody_has_no_job():
    """Labels that attribute it to nobody."""
    stretch = Stretch("c")
    stretch.take(BUSY, ({"UUID": "GPU-1", "Hostname": "n1"}, [60.0], [0.5]))
    (window,) = stretch.windows()
    assert not isinstance(window.job, str)


def test_a_gpu_with_two_exporters_is_one_and_what_pods_share_is_of_none():
    """One of them names the node otherwise and has the job; two pods of a minute are none."""
    uuid, stretch = "GPU-4cd9c5b2-6f2e-4f0a-9a3b-0d6f6f4d2c11", Stretch("c")
    bare, pod = {"UUID": uuid, "Hostname": "n1"}, {"UUID": uuid, "Hostname": "dcgm-exporter-x7k2p", "pod": "train-0"}
    for labels in (bare, pod, bare):
        stretch.take(BUSY, (labels, [60.0, 120.0], [0.5, 0.5]))
    stretch.take(BUSY, ({**pod, "pod": "train-1"}, [120.0], [0.5]))
    windows = list(stretch.windows())
    assert [(one.node, one.device, one.mean["utilization_ratio"]) for one in windows] == [("n1", uuid, 0.5)] * 2
    assert [one.job if isinstance(one.job, str) else None for one in windows] == ["train-0", None]


@pytest.mark.parametrize("idle_first", [False, True])
@pytest.mark.parametrize("pod", [{"exported_pod": "llama-0"}, {"pod_name": "llama-0"}], ids=["renamed", "old names"])
def test_the_exporters_own_pod_is_no_job(pod, idle_first):
    """Of a GPU that nobody uses, where other series tell that `pod` is not what the exporter wrote."""
    target = {"Hostname": "n1", "pod": "gpu-metrics-x7k2p"}
    rows = [({"UUID": "GPU-1", **target}, [60.0], [0.1]), ({"UUID": "GPU-2", **target, **pod}, [60.0], [0.9])]
    stretch = Stretch("c")
    for row in rows if idle_first else reversed(rows):
        stretch.take(BUSY, row)
    assert [one.job if isinstance(one.job, str) else "" for one in stretch.windows()] == ["", "llama-0"]


def test_a_gpu_is_found_by_the_old_name_of_its_uuid():
    """As --use-old-namespace writes it."""
    stretch = Stretch("c")
    stretch.take(BUSY, ({"uuid": "GPU-1", "gpu": "0", "Hostname": "n1"}, [60.0], [0.5]))
    assert [one.device for one in stretch.windows()] == ["GPU-1"]


def test_a_job_with_steps_trains():
    """By the label of Paceline's own metric."""
    profile = trained({"training_job": "a"}, "c", 5.0)
    assert profile is not None
    assert (profile.job, profile.kind, profile.cluster, profile.kind_probability) == ("a", "training", "c", 1.0)
    assert trained({"job": "a"}, "c", 5.0) is None
