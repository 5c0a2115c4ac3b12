import logging

from collectors.buffers import GpuBuffer
from collectors.gpu import Gpus
from collectors.processes import ProcessOwners
from collectors.rated_buffer import LOOK_S, RatedBuffer
from collectors.simulated import SimulatedNvml
from paceline import rated, wire
from paceline.events import NodeDescribed
from paceline.gpu.nvml import Nvml
from paceline.rated import Rated, Speed
from paceline.topics import NODE

SPEED = Speed("cpu", "gemm_float32", "flop/s", 2.0, 1.0, 3.0, 20, 5.0, busy_ratio=0.0)


def buffer(path, clock):
    devices = GpuBuffer(Gpus(lambda: Nvml(SimulatedNvml(1, now=clock))), ProcessOwners())
    return RatedBuffer(devices, path, "n", now=clock)


def told(inventory):
    """As it travels."""
    event = NodeDescribed(**inventory, cluster="c", producer="p", sequence=0, node="n")
    return wire.decode(NODE, wire.encode(event))


def test_a_node_is_described_with_its_rated_speeds(tmp_path, clock):
    """They are in the first description, with the versions."""
    rated.write(tmp_path / "n.json", Rated("n", 5.0, (SPEED,), {"pytorch": "2.15"}))
    found = buffer(tmp_path / "n.json", clock)
    found.look()
    found.sample()
    node = told(found.inventory())

    assert [(one.name, one.value, one.busy_ratio) for one in node.rated] == [("gemm_float32", 2.0, 0.0)]
    assert node.versions == {"pytorch": "2.15"}
    assert found.inventory() is None
    found.close()


def test_a_node_is_described_again_when_it_is_rated_anew(tmp_path, clock):
    """And only then."""
    found = buffer(tmp_path / "n.json", clock)
    found.look()
    found.sample()
    assert told(found.inventory()).rated == []

    rated.write(tmp_path / "n.json", Rated("n", 5.0, (SPEED,)))
    clock.now_s += LOOK_S
    found.look()
    assert len(told(found.inventory()).rated) == 1

    clock.now_s += LOOK_S
    found.look()
    assert found.inventory() is None
    found.close()


def test_a_file_that_says_nothing_is_told_once(tmp_path, clock, caplog):
    """In the description, and in the log once, until it says something again."""
    path = tmp_path / "n.json"
    path.write_text("garbage")
    found = buffer(path, clock)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            clock.now_s += LOOK_S
            path.touch()
            found.look()
            found.sample()
    node = told(found.inventory())

    assert (node.rated, len(caplog.records)) == ([], 1)
    assert "not what `paceline benchmark` writes" in node.not_measured["rated"]
    found.close()


def test_another_nodes_ratings_are_not_this_ones(tmp_path, clock):
    """A home that nodes share, or an image that was copied."""
    rated.write(tmp_path / "n.json", Rated("other", 5.0, (SPEED,)))
    found = buffer(tmp_path / "n.json", clock)
    found.look()
    found.sample()

    assert "of node other" in told(found.inventory()).not_measured["rated"]
    found.close()
