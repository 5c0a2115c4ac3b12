import numpy as np
import pytest

from tests.ui.test_machines import devices
from ui.fleet_figure import fleet_figure
from ui.fleet_tiles import BY_NAME, METRICS, TILES, running_on, searched, shown, throttled, tiles, worst_gpus
from ui.machines import Machines
from ui.snapshot import JobLine
from ui.theme import DARK, LIGHT

BUSY = BY_NAME["utilization_ratio"]


@pytest.fixture
def fleet_of():
    """A fleet of nodes with two GPUs each, as busy as told."""

    def fleet_of(busy, **told):
        machines = Machines()
        for number, pair in enumerate(busy):
            name = f"gpu-{number:05d}"
            uuids = (f"GPU-{number}-a", f"GPU-{number}-b")
            machines.sample_devices(devices(name, uuids, utilization_ratio=list(pair), **told), 100.0)
        return machines.view()

    return fleet_of


@pytest.mark.long
@pytest.mark.parametrize("palette", [DARK, LIGHT])
def test_a_stale_mark_differs_from_tiles_of_any_colour(fleet_of, palette):
    """Its rim is as far from it as ink from paper; the legend shows the mark alone."""
    fleet = fleet_of([(0.0, 1.0)])
    drawn = fleet_figure(fleet, tiles(fleet, everywhere(fleet), BUSY, 200.0), BUSY, 200.0, palette)
    marks = {trace.name: trace for trace in drawn.data}
    assert marks["stale"].marker.line.color == palette.ink
    assert marks["rim of stale"].marker.line.color == palette.ground
    assert marks["rim of stale"].marker.line.width > marks["stale"].marker.line.width
    assert [trace.name for trace in drawn.data].index("rim of stale") < [trace.name for trace in drawn.data].index(
        "stale"
    )
    assert not marks["rim of stale"].showlegend


def everywhere(fleet):
    return np.arange(len(fleet.nodes))


def test_the_worst_node_comes_first_and_every_gpu_has_a_tile(fleet_of):
    """Lowest utilisation first; a node counts by its worst GPU."""
    fleet = fleet_of([(0.9, 0.9), (0.95, 0.1), (0.5, 0.5)])
    made = tiles(fleet, everywhere(fleet), BUSY, 101.0)
    assert (made.per, made.names) == ("gpu", ("gpu-00001", "gpu-00002", "gpu-00000"))
    assert np.allclose(made.values[0], [95, 10])


def test_the_worst_of_a_metric_may_be_the_highest(fleet_of):
    """Heat and full memory are bad where idleness is bad in utilisation."""
    fleet = fleet_of([(0.9, 0.9), (0.9, 0.9)], temperature_celsius=[50.0, 90.0])
    assert worst_gpus(fleet, everywhere(fleet), BY_NAME["temperature_celsius"], 1).tolist() == [1]


def test_many_nodes_have_a_tile_each_with_their_worst_gpu(fleet_of):
    """Beyond 64 nodes."""
    fleet = fleet_of([(0.9, 0.8)] * 99 + [(0.9, 0.3)])
    made = tiles(fleet, everywhere(fleet), BUSY, 101.0)
    assert (made.per, made.values.shape, made.names[0]) == ("node", (100, 1), "gpu-00099")
    assert made.values[0, 0] == pytest.approx(30)
    assert made.gpu[0, 0] == 199


@pytest.mark.slow
def test_a_fleet_of_thousands_is_gathered_by_neighbours(fleet_of):
    """Never more tiles than a browser draws with ease, and the one bad GPU among thousands is the first of them."""
    busy = [(0.9, 0.9)] * 5_000
    busy[3_333] = (0.9, 0.0)
    fleet = fleet_of(busy)
    made = tiles(fleet, everywhere(fleet), BUSY, 101.0)
    assert made.per == "group"
    assert len(made.names) <= TILES
    assert made.values[0, 0] == 0.0
    found = searched(fleet, [], made.names[0])
    assert 3_333 in found
    assert found.size == made.gathered


def test_stale_and_throttled_are_marked(fleet_of):
    """A slowing reason marks a GPU, an idle one does not; a node unheard for half a minute is stale."""
    fleet = fleet_of([(0.9, 0.9)], throttle_reasons=[0x20, 0x1])
    assert throttled(fleet).tolist() == [True, False]
    assert not tiles(fleet, everywhere(fleet), BUSY, 129.0).stale.any()
    late = tiles(fleet, everywhere(fleet), BUSY, 131.0)
    assert late.stale.all()
    assert late.throttled.tolist() == [[True, False]]


def test_what_nobody_measures_is_last_and_no_worst(fleet_of):
    """Not measured is neither 0 nor bad."""
    fleet = fleet_of([(None, None), (0.5, None)])
    made = tiles(fleet, everywhere(fleet), BUSY, 101.0)
    assert made.names == ("gpu-00001", "gpu-00000")
    assert worst_gpus(fleet, everywhere(fleet), BUSY, 9).tolist() == [2]


@pytest.mark.parametrize(
    ("find", "nodes"),
    [("", [0, 1, 2]), ("00001", [1]), ("gpu-2-B", [2]), ("LLM", [0, 2]), ("gpu-00001..gpu-00009", [1, 2]), ("zzz", [])],
)
def test_a_search_finds_nodes_gpus_jobs_and_ranges(fleet_of, find, nodes):
    """By any part of a name, whatever the case."""
    fleet = fleet_of([(0.5, 0.5)] * 3)
    line = JobLine("default", "llm-7b", 0, None, None, None, nodes=("gpu-00000", "gpu-00002"))
    assert searched(fleet, [line], find).tolist() == nodes


def test_a_node_is_of_the_job_that_reported_last():
    """Not of one that was killed there without a goodbye, nor of one that has ended."""
    killed = JobLine("default", "killed", 0, 10.0, 50.0, None, nodes=("n1", "n2"))
    ended = JobLine("default", "ended", 0, 10.0, 999.0, 999.0, nodes=("n1",))
    before, now = (
        JobLine("default", name, 0, 900.0, at_s, None, nodes=("n1",)) for name, at_s in (("a", 990.0), ("b", 999.0))
    )
    assert running_on([now, before, killed, ended], 1000.0) == {"n1": now}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_no_machine_has_no_tiles(metric):
    """An empty fleet is no error, of whatever metric."""
    fleet = Machines().view()
    made = tiles(fleet, everywhere(fleet), metric, 0.0)
    assert made.gpu.size == 0
    assert shown(fleet, metric).size == 0
