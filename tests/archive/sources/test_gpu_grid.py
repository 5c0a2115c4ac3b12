"""Series of GPUs as a grid of five minutes: every assumption about what a Prometheus tells, and what breaks it."""

from typing import Any

import numpy as np
import pytest

from archive.sources import gpu_grid
from archive.sources.filled_rows import filled
from archive.sources.gpu_grid import Gpu, Grid
from archive.sources.gpu_metrics import COLUMNS, OTHERS, TELLING, own
from collectors import meters
from paceline.prometheus import Metric

BUSY = Metric("busy", "utilization_ratio", "ratio", 0.01)
WATTS = Metric("watts", "power_w", "W")
ONE = {"UUID": "GPU-1", "Hostname": "n1"}


def grid(*rows: Any, metric: Metric = WATTS, names: dict[str, Gpu] | None = None) -> Grid:
    """Three windows from 3000 s on, with these series: labels, and values by time."""
    made = Grid(3000.0, 3, "c", names or {})
    made.take(metric, [(labels, list(told), list(told.values())) for labels, told in rows])
    return made


def mean(made: Grid, column: str = "power_w") -> list[list[float | None]]:
    cells = made.columns()[0][column]
    return [[None if np.isnan(value) else float(value) for value in row] for row in cells]


def test_columns_are_the_buss_and_metrics_those_that_collectors_export():
    exported = {one.name: one.meter.name + ("_total" if one.meter.kind == "counter" else "") for one in meters.DEVICE}
    scales = {one.name: one.scale for one in meters.DEVICE}
    for column in COLUMNS:
        if column in exported:
            name, factor = own(column)
            assert name == exported[column]
            assert factor * scales[column] == pytest.approx(1.0)
    assert {"utilization_ratio", "power_w", "fb_used_bytes", "sm_clock_mhz", "energy_j"} <= set(COLUMNS)
    assert len({metric.name for metric in (*TELLING, *OTHERS)}) == len((*TELLING, *OTHERS))


def test_values_lie_at_the_steps_that_were_asked_for_and_others_are_left_out():
    made = grid((ONE, {3000.0: 1.0, 3300.0: 2.0, 3450.0: 9.0, 3900.0: 9.0, 2700.0: 9.0}))
    assert mean(made) == [[1.0, 2.0, None]]
    assert made.left_out == {"values at times that were not asked for": 3}


def test_series_without_a_node_a_gpu_or_an_end_are_left_out():
    made = grid(({"UUID": "GPU-1"}, {3000.0: 1.0}), ({"Hostname": "n"}, {3000.0: 1.0}),
                ({"UUID": "GPU-" + "1" * 300, "Hostname": "n"}, {3000.0: 1.0}))  # fmt: skip
    assert not made.gpus
    assert made.left_out == {"series that name no node or no GPU": 3}


def test_a_gpu_that_the_bus_knows_by_its_uuid_is_called_as_there():
    named = {"GPU-1": Gpu("lab", "node-1", "GPU-1")}
    made = grid(({"UUID": "GPU-1", "cluster": "monitoring"}, {3000.0: 1.0}), ({"gpu": "3", "node": "n"}, {3000.0: 2.0}),
                names=named)  # fmt: skip
    assert set(made.gpus) == {named["GPU-1"], Gpu("c", "n", "gpu 3")}


def test_series_that_are_told_twice_are_one_gpu():
    made = grid(({**ONE, "pod": "a"}, {3000.0: 1.0, 3300.0: 4.0}), ({**ONE, "pod": "b"}, {3000.0: 3.0}))
    assert mean(made) == [[2.0, 4.0, None]]
    assert [made.job(0, step) for step in range(3)] == [None, "a", None]


def test_a_gpu_with_two_exporters_is_one_whatever_they_call_its_node():
    uuid = "GPU-4cd9c5b2-6f2e-4f0a-9a3b-0d6f6f4d2c11"
    with_job = {"UUID": uuid, "Hostname": "dcgm-exporter-x7k2p", "pod": "a"}
    made = grid(({"UUID": uuid, "Hostname": "n1"}, {3000.0: 100.0}), (with_job, {3000.0: 100.0, 3300.0: 80.0}))
    assert list(made.gpus) == [Gpu("c", "n1", uuid)]
    assert mean(made) == [[100.0, 80.0, None]]
    assert made.job(0, 0) == "a"


def test_of_several_names_of_a_column_the_first_that_has_a_value_counts():
    made = grid((ONE, {3000.0: 1.0}))
    made.take(WATTS, [(ONE, [3000.0, 3300.0], [7.0, 8.0])])
    assert mean(made) == [[1.0, 8.0, None]]


def test_ratios_far_over_one_are_none_and_a_hair_over_it_is_rounding():
    made = grid((ONE, {3000.0: 1.02, 3300.0: 40.0, 3600.0: 0.0}), metric=BUSY)
    assert mean(made, "utilization_ratio") == [[1.0, None, 0.0]]


def test_an_instance_of_a_gpu_does_not_speak_for_it():
    made = grid(({**ONE, "GPU_I_ID": "3"}, {3000.0: 1.0}))
    assert not made.gpus
    assert made.left_out == {"series of MIG instances": 1}


@pytest.mark.parametrize(
    ("labels", "job"),
    [
        ({"hpc_job": "4711"}, "4711"),
        ({"pod": "train-0", "namespace": "ml"}, "ml.train-0"),
        # Prometheus found the exporter's pod by itself, and kept what the exporter says under other names.
        ({"pod": "dcgm-exporter-x", "exported_pod": "train-0", "exported_namespace": "ml"}, "ml.train-0"),
        ({"pod": "exporter", "namespace": "gpu-operator", "container": "nvidia-dcgm-exporter"}, None),
        ({}, None),
    ],
)
def test_whose_a_gpu_was_is_what_the_exporter_says_not_who_runs_the_exporter(labels: dict[str, str], job: str | None):
    assert grid(({**ONE, **labels}, {3000.0: 1.0})).job(0, 0) == job


def test_an_idle_gpu_is_not_its_exporters_where_others_are_told_apart():
    made = grid(
        ({**ONE, "pod": "exporter-1"}, {3000.0: 1.0}),
        ({"UUID": "GPU-2", "Hostname": "n1", "pod": "exporter-1", "exported_pod": "train"}, {3000.0: 1.0}),
    )
    assert [made.job(at, 0) for at in range(2)] == [None, "train"]


def test_a_maximum_that_is_not_told_is_the_mean_and_none_is_below_it():
    made = grid((ONE, {3000.0: 5.0, 3300.0: 6.0}))
    made.take(WATTS, [(ONE, [3000.0, 3600.0], [9.0, 9.0])], highest=True)
    highest = made.columns()[1]["power_w"]
    assert highest[0, :2].tolist() == [9.0, 6.0]
    assert np.isnan(highest[0, 2])


def test_more_gpus_than_there_can_be_are_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gpu_grid, "MOST_GPUS", 2)
    made = grid(*(({"UUID": f"GPU-{number}", "Hostname": "n"}, {3000.0: 1.0}) for number in range(5)))
    assert len(made.gpus) == 2
    assert made.left_out == {"series of GPUs beyond 2": 3}


def test_only_what_is_missing_becomes_rows_and_many_clusters_share_a_file():
    rows = [({"UUID": f"GPU-{at}", "Hostname": "n", "cluster": f"c{at:03}"}, {3000.0: 1.0}) for at in range(100)]
    made = grid(*rows)
    missing = np.ones((100, 3), bool)
    missing[7] = False
    [addition] = filled(made, missing)
    assert addition.rows == 99
    assert addition.filled
    assert len(addition.parts) == 65
    assert list(made.gpus)[7].device not in {
        name for _, _, part in addition.parts for name in part.column("device").to_pylist()
    }
