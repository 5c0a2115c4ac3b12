"""Which pods hold the GPUs, in what is said of the node: when it is asked and said, and whom it never delays."""

import threading
import time
from pathlib import Path

import pytest

from collectors.agent import Agent, Identity
from collectors.buffers import GpuBuffer, HostBuffer
from collectors.device_names import DeviceName, Holders
from collectors.gpu import Gpus
from collectors.host import Host
from collectors.pod_buffer import KEEP_S, LOOK_S, SOON_S, PodBuffer
from collectors.pod_resources import PodResources
from collectors.processes import ProcessOwners
from collectors.sampler import Sampler
from collectors.simulated import SimulatedInstance, SimulatedNvml
from paceline import wire
from paceline.events import DevicePod, NodeDescribed
from paceline.gpu.nvml import Nvml
from paceline.topics import HOST, NODE
from tests.collectors.kubelet import Kubelet, answer, claiming, pod
from tests.collectors.test_agent import Published, count

A = "GPU-51ed0000-0000-4000-8000-000000000000"
UID = "0a1b2c3d-1111-2222-3333-444455556666"
PRODUCER = {"cluster": "c", "producer": "p", "sequence": 0, "node": "n"}


class Devices:
    """One GPU, and what a test says is on it; an inventory when a test has one to say."""

    def __init__(self):
        self.held = Holders([DeviceName(A, 0)])
        self.fresh = {"time_s": 1.0, "not_measured": {"cuda": "x"}, "devices": []}
        self.closed = False

    def sample(self):
        pass

    def cut(self, **producer):
        return None

    def inventory(self):
        fresh, self.fresh = self.fresh, None
        return fresh

    def holders(self):
        return self.held

    def close(self):
        self.closed = True


@pytest.fixture
def kubelet(tmp_path):
    made = Kubelet(tmp_path / "kubelet.sock").start()
    yield made
    made.stop()


@pytest.fixture
def devices():
    return Devices()


@pytest.fixture
def watched(devices, kubelet, clock):
    """The devices behind the kubelet, on a clock that a test sets."""
    made = PodBuffer(devices, PodResources(kubelet.path), now=clock)
    yield made
    made.close()


def names(inventory):
    return None if inventory is None else [one.pod or one.uid for one in inventory["pods"]]


def test_pods_are_said_when_they_change(watched, kubelet, clock):
    """At the start, when one comes, when one goes; not each time they are looked at."""
    said = []
    for pods in ([], ["a"], ["a"], ["a", "b"], ["b"], ["b"]):
        kubelet.answer = answer(
            *[pod(name, f"{A}::{name}".replace("::a", "::1").replace("::b", "::2")) for name in pods]
        )
        watched.look()
        said.append(names(watched.inventory()))
        clock.now_s += LOOK_S
    assert said == [[], ["a"], None, ["a", "b"], ["b"], None]


def test_the_inventory_is_said_again_whole(watched, devices, kubelet, clock):
    """With all that it had, its own reasons, and the time of now; a fresh one has the pods of before."""
    kubelet.answer = answer(pod("a", A), pod("x", "GPU-gone"))
    first = watched.inventory()
    watched.look()
    again = watched.inventory()
    devices.fresh = first | {"time_s": 3.0}
    fresh = watched.inventory()

    assert (first["pods"], first["not_measured"], first["time_s"]) == ([], {"cuda": "x"}, 1.0)
    why = {"cuda": "x", "pods": "1 GPUs that pods hold are not measured here, the first nvidia.com/gpu GPU-gone"}
    assert (names(again), again["not_measured"], again["devices"]) == (["a"], why, [])
    assert abs(again["time_s"] - time.time()) < 1000.0
    assert (names(fresh), fresh["not_measured"], fresh["time_s"]) == (["a"], why, 3.0)


def test_it_asks_seldom_and_soon_after_a_change(watched, devices, kubelet, clock):
    """Every ten seconds; two after the last question where other processes are there; at once for other devices."""
    asked = []
    for second in range(30):
        if second == 14:
            devices.held = devices.held._replace(processes=frozenset({(A, 7, "python")}))
        if second == 25:
            devices.held = devices.held._replace(names=[DeviceName(A, 1)])
        before = kubelet.asked
        watched.look()
        asked += [second] * (kubelet.asked - before)
        clock.now_s += 1.0
    assert asked == [0, int(LOOK_S), 14, 24, 25]
    assert SOON_S < 4


def test_a_node_without_gpus_asks_nobody(watched, devices, kubelet):
    """Nor before the GPUs are known."""
    devices.held = Holders()
    watched.look()
    assert kubelet.asked == 0


def test_what_was_said_outlasts_a_restart(watched, kubelet, clock, caplog):
    """For a minute; then it is not said any more, and why. Each outage is one warning, and one when it is over."""
    kubelet.answer = answer(pod("a", A))
    watched.look()
    watched.inventory()
    kubelet.stop()
    said = []
    for _ in range(int(KEEP_S / LOOK_S) + 2):
        clock.now_s += LOOK_S
        watched.look()
        said.append(watched.inventory())
    (gone,) = filter(None, said)
    assert said.index(gone) == KEEP_S / LOOK_S - 1
    assert gone["pods"] == []
    assert "mount its folder" in gone["not_measured"]["pods"]
    kubelet.start()
    clock.now_s += LOOK_S
    watched.look()
    assert names(watched.inventory()) == ["a"]
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "the kubelet does not report pods",
        "the kubelet tells pods again",
    ]


def test_where_there_is_no_kubernetes_nothing_is_missing(devices, tmp_path, clock, caplog):
    """No socket, and no process in a pod: no reason and no warning; the inventory is said once."""
    watched = PodBuffer(devices, PodResources(tmp_path / "none.sock"), now=clock)
    watched.look()
    inventory = watched.inventory()
    assert (inventory["pods"], inventory["not_measured"], caplog.records) == ([], {"cuda": "x"}, [])
    assert watched.inventory() is None


def test_a_socket_that_was_named_is_missed(devices, tmp_path, clock, caplog):
    """Who names it means it."""
    watched = PodBuffer(devices, PodResources(tmp_path / "none.sock"), expected=True, now=clock)
    watched.look()
    assert "no socket of the kubelet" in watched.inventory()["not_measured"]["pods"]
    assert len(caplog.records) == 1


def test_without_a_kubelet_processes_tell_the_pod(devices, tmp_path, clock):
    """By its UID, which the cgroup has; and why the names are not there."""
    devices.held = Holders([DeviceName(A, 0)], frozenset(), ((A, UID), (A, UID)))
    watched = PodBuffer(devices, PodResources(tmp_path / "none.sock"), now=clock)
    watched.look()
    inventory = watched.inventory()
    assert inventory["pods"] == [DevicePod(device=A, uid=UID)]
    assert inventory["not_measured"]["pods"].startswith("names of pods: no socket of the kubelet")
    off = PodBuffer(devices, None, now=clock)
    off.look()
    devices.fresh = inventory
    assert off.inventory()["pods"] == [DevicePod(device=A, uid=UID)]


@pytest.fixture
def proc(tmp_path):
    """A process in a pod, in a tree like /proc."""

    def write(pid, cgroup, gpu="/dev/nvidia0"):
        folder = tmp_path / "proc" / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "comm").write_text("python3\n")
        (folder / "stat").write_text(f"{pid} (a) S " + " ".join(["0"] * 18) + " 1 0\n")
        (folder / "environ").write_bytes(b"")
        (folder / "cgroup").write_text(cgroup)
        (folder / "fd" / "3").symlink_to(gpu)

    write.root = tmp_path / "proc"
    return write


def test_processes_on_gpus_lead_to_their_pods(proc, nvml, clock):
    """A number from another process namespace meets a stranger here, which has no GPU open: its pod is not told."""
    pod_of = f"0::/kubepods/besteffort/pod{UID}/x"
    proc(7, pod_of)
    proc(8, pod_of.replace("0a1b", "ffff"), gpu="/dev/null")
    nvml.gpus[1].processes = [(7, None), (8, None), (9, None)]
    buffer = GpuBuffer(Gpus(lambda: Nvml(nvml)), ProcessOwners(proc.root))
    buffer.sample()
    held = buffer.holders()
    buffer.close()

    assert held.uids == ((nvml.gpus[1].uuid, UID),)
    assert {pid for _, pid, _ in held.processes} == {7, 8, 9}


def test_a_driver_tells_numbers(nvml, kubelet, clock):
    """Of device files, and of instances under MIG: so a claim and Google's plugin lead to the right device."""
    nvml.gpus[0].minor, nvml.gpus[1].minor = 1, 0
    nvml.gpus[0].mig = True
    nvml.gpus[0].instances = [SimulatedInstance(nvml.gpus[0], 5), SimulatedInstance(nvml.gpus[0], 6, slices=3)]
    kubelet.answer = answer(
        claiming("claim", "gpu-0"), pod("google", "nvidia1/gi6"), claiming("part", "gpu-1-mig-1g10gb-19-0")
    )
    buffer = GpuBuffer(Gpus(lambda: Nvml(nvml)), ProcessOwners())
    watched = PodBuffer(buffer, PodResources(kubelet.path), now=clock)
    watched.sample()
    watched.look()
    told = {one.pod: one.device for one in watched.inventory()["pods"]}
    watched.close()

    small, large = nvml.gpus[0].instances
    assert told == {"claim": nvml.gpus[1].uuid, "google": large.uuid, "part": small.uuid}


def run(kubelet, until, enough):
    """An agent with two simulated GPUs, until ``enough(published)``."""
    published, stop = Published(), threading.Event()
    nvml = SimulatedNvml(2, now=time.monotonic)
    gpus = PodBuffer(GpuBuffer(Gpus(lambda: Nvml(nvml)), ProcessOwners()), PodResources(kubelet.path, 60.0))
    beside = [Sampler("pod", 0.05, gpus.look)]
    agent = Agent(Identity("c", "n", "p-1"), HostBuffer(Host()), gpus, published, 0.05, beside=beside)
    thread = threading.Thread(target=agent.run, args=(stop,))
    thread.start()
    try:
        until(lambda: enough(published))
    finally:
        stop.set()
        thread.join()
    return published


@pytest.mark.slow
def test_the_agent_says_who_holds_its_gpus(kubelet, until):
    """On the way to the bus: the node is described with its pods, as often as they change."""
    kubelet.answer = answer(pod("llm-0", A, container="train"))
    published = run(kubelet, until, lambda published: any(node.pods for node in published.events.get(NODE.name, [])))
    nodes = published.events[NODE.name]

    assert nodes[-1].pods == [DevicePod(device=A, namespace="ml", pod="llm-0", container="train")]
    assert len(nodes) <= 2
    assert [node.sequence for node in nodes] == list(range(len(nodes)))


@pytest.mark.slow
def test_a_kubelet_that_hangs_delays_no_message(kubelet, until):
    """Nor the end of the agent."""
    kubelet.hang()
    published = run(kubelet, until, lambda published: kubelet.asked and count(published, HOST) >= 3)
    assert [node.pods for node in published.events[NODE.name]] == [[]]


def test_an_inventory_with_pods_is_an_event(watched, kubelet):
    """What is said of the node can be written and read."""
    kubelet.answer = answer(pod("a", A))
    watched.look()
    host = {"cpu_model": None, "cpu_count": 1, "memory_total_bytes": 1, "kernel": "k"}
    event = NodeDescribed(**(watched.inventory() | host), **PRODUCER)
    assert wire.decode(NODE, wire.encode(event)) == event


def test_the_end_closes_the_devices(devices, kubelet):
    PodBuffer(devices, PodResources(Path(kubelet.path))).close()
    assert devices.closed
