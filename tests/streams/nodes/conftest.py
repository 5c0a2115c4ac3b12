"""Made-up nodes: one message a second, each column a constant or a function of the second and the GPU."""

import msgspec
import pytest

from paceline.events import DeviceDescribed, DeviceProcess, DeviceSamples, HostSamples, NodeDescribed
from streams.nodes.gpu_rows import Row
from streams.nodes.node_diagnosis import NodeDiagnosis

T0_S = 1_700_000_000.0
_COLUMNS = [
    name
    for name, kind in DeviceSamples.__annotations__.items()
    if str(kind).startswith("list[") and name not in ("uuids", "device", "time_s", "processes")
]


def node(seconds=120, gpus=2, job="job", every_s=1.0, not_measured=None, **columns):
    """``columns``: name -> value, or function of (second, gpu). Rank r runs on GPU r; no job with ``job=None``."""
    made = []
    for number in range(seconds):
        values = {name: [None] * gpus for name in _COLUMNS}
        for name, value in columns.items():
            values[name] = [value(number, gpu) if callable(value) else value for gpu in range(gpus)]
        owner = job(number) if callable(job) else job
        processes = [
            DeviceProcess(device=gpu, pid=100 + gpu, name="python", used_bytes=1, job=owner, rank=gpu)
            for gpu in range(gpus)
            if owner
        ]
        made.append(
            DeviceSamples(
                cluster="c",
                producer="collector",
                sequence=number,
                node="node-0",
                t0_s=T0_S + number * every_s,
                uuids=[f"GPU-{gpu}" for gpu in range(gpus)],
                device=list(range(gpus)),
                time_s=[0.25] * gpus,
                processes=processes,
                not_measured=not_measured(number) if callable(not_measured) else not_measured or {},
                **values,
            )
        )
    return made


def described(gpus=2, **rated):
    """The inventory of that node."""
    devices = [DeviceDescribed(index=gpu, uuid=f"GPU-{gpu}", name="H200", **rated) for gpu in range(gpus)]
    return NodeDescribed(
        cluster="c",
        producer="collector",
        sequence=0,
        node="node-0",
        time_s=T0_S,
        cpu_model=None,
        cpu_count=8,
        memory_total_bytes=1,
        kernel="6",
        devices=devices,
    )


def host(seconds=300, used=lambda second: 0, total=256 * 2**30, swap=0):
    """The host of that node, a message a second."""
    columns = [name for name, kind in HostSamples.__annotations__.items() if str(kind).startswith("list[")]
    empty = {name: [None] for name in columns if name not in ("time_s", "network_errors")}
    empty |= {"cpu_ratio_per_core": [[]], "memory_total_bytes": [total], "swap_used_bytes": [swap]}
    return [
        HostSamples(
            cluster="c",
            producer="collector",
            sequence=second,
            node="node-0",
            t0_s=T0_S + second,
            **(empty | {"time_s": [0.25], "memory_used_bytes": [used(second)]}),
        )
        for second in range(seconds)
    ]


def judged(events, machine=None):
    """All findings."""
    machine = machine or NodeDiagnosis()
    return [found for event in events for found in machine.update(event)]


def story(findings):
    """(kind, state, devices) of each revision."""
    return [(found.kind, found.state, tuple(found.devices)) for found in findings]


def sliced(events):
    """The same rows, one a message."""
    made = []
    for event in events:
        rows = len(event.device)
        for row in range(rows):
            columns = {name: getattr(event, name)[row : row + 1] for name in (*_COLUMNS, "device", "time_s")}
            made.append(msgspec.structs.replace(event, sequence=event.sequence * rows + row, **columns))
    return made


def gpu_row(at_s=0.0, uuid="GPU-0", answered=True, **values):
    """One sample of one GPU as the detectors see it."""
    return Row(at_s, uuid, values, answered)


@pytest.fixture
def make_row():
    return gpu_row


@pytest.fixture
def make_node():
    return node


@pytest.fixture
def make_host():
    return host


@pytest.fixture
def make_description():
    return described


@pytest.fixture
def judge():
    return judged


@pytest.fixture
def tell():
    return story


@pytest.fixture
def cut():
    return sliced
