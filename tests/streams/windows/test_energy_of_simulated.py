"""What windows say of simulated machines, against the integral of the power that these were given."""

import random

import msgspec
import pytest

from collectors.gpu import Gpus
from collectors.inventory import describe
from collectors.simulated import GIB, SimulatedInstance, SimulatedNvml
from paceline import topics, wire
from paceline.energy.energy_book import EnergyBook
from paceline.events import DeviceProcess, DeviceSamples, DeviceWindow, JobDescribed, NodeDescribed
from paceline.gpu.nvml import Nvml
from paceline.gpu.sample_rows import device_samples
from paceline.recording import Line
from simulator.fleet import Fleet
from simulator.fleet_file import read
from streams.analyze import ENERGY_S, Analysis
from streams.processor import Processor
from streams.routes import ROUTES

ABOUT = {"cluster": "c", "producer": "collector", "node": "n"}
BEGIN_S = 1_700_000_040.0
CLUSTER = "simulated"
#: Two jobs one after the other on the same GPUs, one beside them, and a node that is silent for a while.
FLEET = """
duration: 2m30s
nodes: [{name: a, count: 2, gpus: 4}]
jobs:
  - {name: first, nodes: ["a-[0000-0001]"], gpus: [0, 1], step: 2s, end: 1m}
  - {name: second, nodes: ["a-[0000-0001]"], gpus: [0, 1], step: 2s, start: 1m}
  - {name: beside, nodes: [a-0000], gpus: [2, 3], step: 2s}
silences:
  - {node: a-0001, from: 30s, to: 50s}
"""


class Node:
    """A node with two simulated GPUs, sampled about once a second, and what a worker makes of it."""

    def __init__(self):
        self.now_s = BEGIN_S
        self.nvml = SimulatedNvml(2, now=lambda: self.now_s)
        self.gpus = Gpus(lambda: Nvml(self.nvml))
        self.gpus.look(self.now_s)
        self.processor, self.book = Processor(), EnergyBook()
        self.chance, self.number = random.Random(11), 0
        self.said: list[DeviceWindow] = []
        self._sample([])

    def describe(self):
        self._hear(topics.NODE, NodeDescribed(**ABOUT, sequence=0, **describe(self.gpus, self.now_s)))

    def run(self, seconds, processes=()):
        """Sample for ``seconds``; intervals are what a busy machine makes of a second."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.now_s = min(self.now_s + self.chance.uniform(0.7, 1.4), until_s)
            self._sample(list(processes))

    def _sample(self, processes):
        rows = [(self.now_s, uuid, row) for uuid, row in self.gpus.sample(self.now_s)]
        event = device_samples(rows, self.now_s, processes, self.gpus.uuids, {}, **ABOUT, sequence=self.number)
        self.number += 1
        self._hear(topics.DEVICE, event)

    def load_driver(self):
        self.nvml.load_driver()

    def _hear(self, topic, event):
        for _, answer in self.processor.update(topic, wire.decode(topic, wire.encode(event))):
            self.book.update(answer)
            self.said += [answer] if isinstance(answer, DeviceWindow) and answer.length_s == 60.0 else []

    def truth_j(self, gpu, minutes):
        """The integral of a GPU's power over the first ``minutes`` of the simulation, whatever its counter did."""
        made = SimulatedNvml(2, now=lambda: 0.0).gpus[gpu]
        return made.energy_mj(60.0 * minutes) / 1000.0


@pytest.fixture
def node():
    made = Node()
    yield made
    made.gpus.close()


def process(device, job, used, pid):
    return DeviceProcess(device=device, pid=pid, name="python", used_bytes=used, job=job)


def joules(windows, uuid):
    return sum(one.energy_j for one in windows if one.device == uuid and one.energy_j is not msgspec.UNSET)


@pytest.mark.slow
def test_counters_without_resets_are_told_to_the_joule(node):
    """Against the counter's own difference."""
    node.run(306)
    assert len(node.said) == 10
    for gpu, uuid in enumerate(node.gpus.uuids):
        assert joules(node.said, uuid) == pytest.approx(node.truth_j(gpu, 5), rel=1e-4)


@pytest.mark.slow
def test_resets_cost_less_than_a_percent(node):
    """A driver that is loaded anew four times in five minutes, between two samples."""
    for _ in range(4):
        node.run(61.37)
        node.load_driver()
    node.run(61)
    for gpu, uuid in enumerate(node.gpus.uuids):
        assert joules(node.said, uuid) == pytest.approx(node.truth_j(gpu, 5), rel=0.01)
    assert {one.energy_source for one in node.said} == {"counter", "mixed"}


@pytest.mark.slow
def test_power_alone_is_within_a_percent(node):
    """Cards before Volta have no counter."""
    for gpu in node.nvml.gpus:
        gpu.refuse["nvmlDeviceGetTotalEnergyConsumption"] = Nvml(node.nvml).library.NVML_ERROR_NOT_SUPPORTED
    node.run(306)
    for gpu, uuid in enumerate(node.gpus.uuids):
        assert joules(node.said, uuid) == pytest.approx(node.truth_j(gpu, 5), rel=0.01)
    assert {one.energy_source for one in node.said} == {"power"}


@pytest.mark.slow
def test_two_jobs_on_one_gpu_share_it_by_memory(node):
    """A third to one, two thirds to the other; a job alone has all of its own; together they are all there is."""
    node.run(306, [process(0, "a", 10 * GIB, 1), process(0, "b", 20 * GIB, 2), process(1, "b", 5 * GIB, 3)])
    shared, alone = (node.truth_j(gpu, 5) for gpu in range(2))
    assert node.book.of("c", "a").gpu_j == pytest.approx(shared / 3, rel=0.01)
    assert node.book.of("c", "b").gpu_j == pytest.approx(2 * shared / 3 + alone, rel=0.01)
    assert node.book.of("c", "a").splits == ["memory"]
    assert node.book.nodes["c", "n"].idle_gpu_j == pytest.approx(0.0, abs=5.0)


@pytest.mark.slow
def test_jobs_on_instances_share_the_gpu(node):
    """Under MIG: NVML tells power of the whole GPU alone, and memory of each instance's processes."""
    gpu = node.nvml.gpus[0]
    gpu.mig = True
    gpu.instances = [SimulatedInstance(gpu, 0), SimulatedInstance(gpu, 2, slices=3)]
    node.gpus = Gpus(lambda: Nvml(node.nvml))
    node.gpus.look(node.now_s)
    node.describe()
    assert [uuid[:4] for uuid in node.gpus.uuids] == ["GPU-", "GPU-", "MIG-", "MIG-"]
    node.run(306, [process(2, "small", GIB, 1), process(3, "large", 3 * GIB, 2)])
    truth = node.truth_j(0, 5)
    assert node.book.of("c", "small").gpu_j == pytest.approx(truth / 4, rel=0.01)
    assert node.book.of("c", "large").gpu_j == pytest.approx(3 * truth / 4, rel=0.01)
    assert node.book.nodes["c", "n"].idle_gpu_j == pytest.approx(node.truth_j(1, 5), rel=0.01)


@pytest.fixture(scope="module")
def fleet():
    """The messages of a made-up fleet, whose drivers are all loaded anew; and the true joules."""
    messages, bases, made, truth = list(Fleet(read(FLEET)).messages()), {}, [], {}
    for topic, event, stamp_ms in ((one.topic, one.event, one.timestamp_ms) for one in messages):
        if isinstance(event, DeviceSamples):
            rows = list(zip(event.device, event.energy_j, strict=True))
            for device, counted in rows:
                first = truth.get(event.uuids[device], (0.0, counted))[1]
                truth[event.uuids[device]] = (counted, first)
            if stamp_ms - messages[0].timestamp_ms > 100_000:
                base = bases.setdefault(event.node, event.energy_j[: len(event.uuids)])
                event = msgspec.structs.replace(event, energy_j=[counted - base[device] for device, counted in rows])
        made.append((topic, event, stamp_ms))
    return made, sum(last - first for last, first in truth.values())


@pytest.fixture(scope="module")
def live(fleet):
    """The accounts by windows of 10 s and of a minute, of workers whose states of nodes are stored and restored."""
    processor, books = Processor(), (EnergyBook(10.0), EnergyBook(60.0))
    for number, (topic, event, _) in enumerate(fleet[0]):
        answers = [event] if isinstance(event, JobDescribed) else []
        if topic.name in ROUTES:
            answers += [answer for _, answer in processor.update(topic, event)]
        for book in books:
            for answer in answers:
                book.update(answer)
        if number % 50 == 0:
            for key in [key for key in processor.states if key.kind == "node"]:
                processor.restore(key, processor.snapshot(key))
    for _, answer in processor.finish():
        for book in books:
            book.update(answer)
    for book in books:
        book.finish()
    return books


@pytest.mark.slow
def test_a_fleet_has_the_joules_that_its_power_gives(fleet, live):
    """All accounts together, against the counters before they were made to start again."""
    accounts = sum(one.gpu_j or 0.0 for one in live[0].jobs.values())
    nobodys = sum(one.idle_gpu_j + one.gap_j for one in live[0].nodes.values())
    open_j = 8 * 10 * 700.0  # The last window of each GPU is not told yet.
    assert fleet[1] - open_j <= accounts + nobodys <= 1.01 * fleet[1]


@pytest.mark.slow
def test_a_recording_says_what_live_windows_said(fleet, live):
    """``paceline analyze`` over the same messages: the same accounts."""
    analysis = Analysis(lambda topic, event: None, pytest.fail, totals=False)
    for number, (topic, event, stamp_ms) in enumerate(fleet[0]):
        analysis.update(Line(number, topic.name, None, stamp_ms, wire.encode(event)))
    analysis.finish()
    assert live[0].length_s == ENERGY_S
    assert set(analysis.energy.jobs) == set(live[0].jobs) >= {(CLUSTER, "first"), (CLUSTER, "second")}
    for key, account in live[0].jobs.items():
        assert analysis.energy.jobs[key].gpu_j == pytest.approx(account.gpu_j, abs=1.0)
        assert analysis.energy.jobs[key].step_j == pytest.approx(account.step_j, rel=0.01)


@pytest.mark.long
def test_minutes_say_what_ten_seconds_say(live):
    """A job that was over before the last minute has the same joules by both."""
    short, long = (book.of(CLUSTER, "first") for book in live)
    assert long.gpu_j == pytest.approx(short.gpu_j, abs=1.0)
