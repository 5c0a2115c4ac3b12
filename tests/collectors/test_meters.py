"""What a collector's ``/metrics`` tells: the newest samples, in base units, while they are fresh."""

import socket
import subprocess
import sys
import urllib.request

import pytest
from msgspec import structs

from collectors.meters import (
    DEVICE,
    FRESH_S,
    HOST,
    METERS,
    MOST_COUNTERS,
    MOST_DEVICES,
    MeteredPublisher,
    NewestSamples,
)
from paceline.events import DeviceDescribed, DeviceSamples, HostSamples, NetworkErrors, NodeDescribed
from paceline.exposition import text
from paceline.gpu.sample_rows import DEVICE_COLUMNS
from paceline.topics import HOST as HOST_TOPIC
from paceline.wire import sample_columns
from tests.derived_events import HOSTILE
from tests.patience import PATIENCE_S

LABELS = {"cluster": "c", "producer": "p", "sequence": 0, "node": "n", "t0_s": 0.0}


def device_samples(uuids, rows, **columns):
    """``rows`` of (device, time), every column empty but ``columns``."""
    empty = {name: [None] * len(rows) for name in sample_columns(DeviceSamples) if name not in ("device", "time_s")}
    at = {"device": [device for device, _ in rows], "time_s": [at_s for _, at_s in rows]}
    return DeviceSamples(**LABELS, uuids=uuids, **{**empty, **at, **columns})


def host_samples(**columns):
    """Two rows of a host, every column empty but ``columns``."""
    empty = {name: [None, None] for name in sample_columns(HostSamples) if name != "time_s"}
    empty["cpu_ratio_per_core"] = [[0.1], [0.2]]
    return HostSamples(**LABELS, time_s=[0.0, 1.0], **{**empty, **columns})


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def samples(clock):
    return NewestSamples("n", 1.0, clock)


def told(samples):
    """The samples that are told, each line once."""
    lines = [line for line in text(samples.families()).splitlines() if not line.startswith("#")]
    assert len({line.rpartition(" ")[0] for line in lines}) == len(lines)
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_every_column_is_declared():
    """A column that is added to the contract without words for it fails at once; the rest are metrics."""
    assert [one.name for one in DEVICE] == list(DEVICE_COLUMNS)
    assert len({meter.name for meter in METERS}) == len(METERS) == len(DEVICE) + len(HOST) + 3


def test_the_newest_sample_in_base_units(samples):
    """Of several a second the last that was measured; what was not measured is not told."""
    rows = [(0, 0.0), (1, 0.0), (0, 0.5)]
    samples.hear(device_samples(["A", "B"], rows, power_w=[1, 2, 3], sm_clock_mhz=[10, None, None], energy_j=[5, 6, 7]))
    labels = '{UUID="A",gpu="0",model_name="",node="n"}'
    values = told(samples)
    assert values["paceline_device_power_watts" + labels] == 3
    assert values["paceline_device_sm_clock_hertz" + labels] == 10e6
    assert values["paceline_device_energy_joules_total" + labels] == 7
    assert not [name for name in values if "temperature" in name or ("sm_clock" in name and "B" in name)]


def test_gpus_have_the_numbers_and_names_of_the_inventory(samples):
    """By their UUID, whatever order samples have."""
    devices = [DeviceDescribed(index=3, uuid="A", name="H100")]
    samples.hear(
        NodeDescribed(
            cluster="c",
            producer="p",
            sequence=0,
            node="n",
            time_s=0.0,
            cpu_model=None,
            cpu_count=1,
            memory_total_bytes=1,
            kernel="",
            devices=devices,
        )
    )
    samples.hear(device_samples(["A"], [(0, 0.0)], power_w=[1]))
    assert 'paceline_device_power_watts{UUID="A",gpu="3",model_name="H100",node="n"}' in told(samples)


def test_the_last_xid_stays(samples):
    """As DCGM tells it: the last error, not the newest sample."""
    for xids in ([0, 0], [79, 0], [None, 0]):
        samples.hear(device_samples(["A"], [(0, 0.0), (0, 0.5)], xid=xids))
    assert told(samples)['paceline_device_xid{UUID="A",gpu="0",model_name="",node="n"}'] == 79


def test_the_host(samples):
    """With counters of its interfaces."""
    samples.hear(host_samples(cpu_ratio=[0.5, None], tcp_retransmits=[1, 2]))
    values = told(samples)
    assert values['paceline_host_cpu_ratio{node="n"}'] == 0.5
    assert values['paceline_host_tcp_retransmits_total{node="n"}'] == 2


def errors_of(ports, counters):
    """So many counters of each of so many InfiniBand ports."""
    counts = {f"counter_{number:02}": 1 for number in range(counters)}
    return [NetworkErrors(interface=f"mlx5_{port:03}/1", kind="infiniband", counters=counts) for port in range(ports)]


def test_every_port_of_a_large_node_has_its_counters(samples):
    """As many as a node with 24 InfiniBand ports has, to the last one."""
    samples.hear(structs.replace(host_samples(), network_errors=errors_of(24, 23)))
    lines = [line for line in told(samples) if line.startswith("paceline_host_network_errors_total{")]
    assert len(lines) == 24 * 23
    assert any('interface="mlx5_023/1"' in line for line in lines)


def test_counters_beyond_the_most_are_left_out_with_one_warning(samples, caplog):
    """Bounded whatever a node has, and logged once."""
    for _ in range(3):
        samples.hear(structs.replace(host_samples(), network_errors=errors_of(MOST_COUNTERS // 16 + 1, 16)))
    assert sum(line.startswith("paceline_host_network_errors_total{") for line in told(samples)) == MOST_COUNTERS
    assert [record.getMessage()[:44] for record in caplog.records] == ["4112 error counters of interfaces: those aft"]


def test_what_is_no_longer_sampled_vanishes(samples, clock):
    """A GPU that is gone and a host whose sampling hangs, which is then not ready."""
    assert samples.waits() == "no sample yet"
    samples.hear(device_samples(["A", "B"], [(0, 0.0), (1, 0.0)], power_w=[1, 2]))
    samples.hear(host_samples(cpu_ratio=[0.5, 0.5]))
    assert samples.waits() is None
    clock.now_s += FRESH_S
    samples.hear(device_samples(["B"], [(0, 0.0)], power_w=[1]))
    clock.now_s += 1.0
    assert set(told(samples)) == {
        'paceline_device_power_watts{UUID="B",gpu="0",model_name="",node="n"}',
        'paceline_collectors_sample_age_seconds{node="n",source="gpu"}',
        'paceline_collectors_sample_age_seconds{node="n",source="host"}',
    }
    assert "no sample of the host for 31 s" in str(samples.waits())


@pytest.mark.slow
def test_names_are_hostile_and_many(samples, promtool):
    """Whatever a driver calls its GPUs: bounded, each once, and Prometheus reads it."""
    uuids = [f"{HOSTILE}{'x' * 500}{number}" for number in range(MOST_DEVICES + 50)]
    rows = [(number, 0.0) for number in range(len(uuids))]
    samples.hear(device_samples(uuids, rows, power_w=[1.0] * len(uuids), energy_j=[1.0] * len(uuids)))
    told_text = text(samples.families())
    assert told_text.count("\npaceline_device_power_watts{") == MOST_DEVICES
    assert max(map(len, told_text.splitlines())) < 1000
    promtool(told_text)


@pytest.mark.slow
def test_what_is_told_is_clean(samples, promtool):
    """Names, types and units as Prometheus wants them, with every column measured."""
    full = device_samples(["A"], [(0, 0.0)])
    samples.hear(structs.replace(full, **{name: [1] for name in DEVICE_COLUMNS}))
    samples.hear(host_samples(**{one.name: [1, 1] for one in HOST}))
    promtool(text(samples.families()))
    assert len(told(samples)) == len(DEVICE) + len(HOST) + 5 + 2  # reasons that slow, and two ages


def test_a_metered_publisher_publishes(samples):
    """What is heard goes on its way as it is."""

    class Published(list):
        def publish(self, topic, event, *, key=None):
            self.append((topic, event, key))

        def close(self, timeout_s):
            self.append(timeout_s)

    published = Published()
    publisher, event = MeteredPublisher(published, samples), host_samples(cpu_ratio=[1, 1])
    publisher.publish(HOST_TOPIC, event, key="n")
    publisher.close(PATIENCE_S)
    assert published == [(HOST_TOPIC, event, "n"), PATIENCE_S]
    assert told(samples)


@pytest.mark.e2e
def test_the_command_serves_them(free_port, until, promtool):
    """``paceline collect --web-port``, with simulated GPUs and no broker."""
    port = free_port()
    argv = [sys.executable, "-m", "collectors", "--stdout", "--simulate", "2", "--web-port", str(port)]

    def asked(path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_S) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            until(lambda: asked("/readyz") == "ready\n" and "paceline_device_power_watts{" in asked("/metrics"))
            promtool(asked("/metrics"))
        finally:
            process.terminate()
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.e2e
def test_a_port_that_is_taken_is_said(free_port):
    """One line with the setting, and status 2 or 1, not a trace."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        argv = [sys.executable, "-m", "paceline", "collect", "--stdout", "--web-port", str(port)]
        ended = subprocess.run(argv, capture_output=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode != 0
    assert f"--web-port={port}" in ended.stderr.decode()
    assert b"Traceback" not in ended.stderr


def test_reasons_that_slow_a_gpu_are_told_one_by_one(samples):
    """A bit each: what holds now is 1, what does not is 0, and idleness slows nobody."""
    samples.hear(device_samples(["GPU-a", "GPU-b"], [(0, 0.0), (0, 1.0), (1, 1.0)], throttle_reasons=[0x4, 0x41, None]))
    reasons = {line: value for line, value in told(samples).items() if line.startswith("paceline_device_throttled{")}
    assert {line.split('reason="')[1].rstrip('"}') for line, value in reasons.items() if value} == {
        "hardware thermal slowdown"
    }
    assert len(reasons) == 5
    assert all('UUID="GPU-a"' in line for line in reasons)
