"""Targets: what processes of the same machine say, and what people and their browsers write into settings and headers.

Rule of this file: a rank, a process's environment and a setting may hold anything; a sidecar outlives all of it.
"""

import contextlib
import socket
import struct
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from unicodedata import category

import msgspec

from collectors.cgroup_pods import pod_uid
from collectors.device_names import DeviceName
from collectors.pod_devices import MOST_PODS, Names, told
from collectors.pod_messages import classes
from collectors.pod_resources import PodResourcesError, held_in
from collectors.processes import identity, read_environ
from paceline import hosts, wire
from paceline.commands import stack_state
from paceline.commands.stack_state import Machine, Process, Stack
from paceline.decoders import json_decoder
from paceline.events import BalancePlan, DevicePod
from paceline.kafka.settings import BrokerSettings
from paceline.settings import SETTINGS, SettingError
from paceline.sidecar.balance import Balance
from paceline.sidecar.batch import Batcher, Origin, Outgoing
from paceline.sidecar.nccl_files import NcclFiles
from paceline.sidecar.nccl_inspector import NcclInspector
from paceline.sidecar.rank_messages import encode_hears, encode_proposed
from paceline.sidecar.rank_rows import PARTS, StepRow
from paceline.sidecar.server import Sidecar
from paceline.training import balance_messages, marks
from paceline.training.messages import Bye, Hello, LinkReport, Marks, encode
from paceline.visible import visible

from .target import Target

_LENGTH = struct.Struct("<H")
_HELLO = Hello(
    rank=0, world_size=2, local_rank=0, pid=7, device="cuda:0", backend="nccl", framework="torch", job="job",
    attempt=0, started_s=1.0, dp=0, tp=0, pp=0, labels={"team": "a"},
)  # fmt: skip


class _Read:
    """A sink that reads what it is given, as a worker would."""

    def put(self, outgoing: Outgoing) -> None:
        """Take an event."""
        event = wire.decode(outgoing.topic, wire.encode(outgoing.event))
        assert event.job, "a job without a name"

    def flush(self) -> None:
        """Nothing is held back."""

    def settled(self) -> bool:
        """What was read is done with."""
        return True

    def close(self, timeout_s: float) -> None:
        """Nothing is open."""


class _Plans:
    """A bus on which there is always a plan for the rank."""

    def turn(self, jobs: Collection[str]) -> list[BalancePlan]:
        """What has come for ``jobs``."""
        told = {"cluster": "c", "attempt": 0, "time_s": 1.0, "version": 3, "made_by": "streams"}
        return [BalancePlan(job=job, shares=[3, 5], **told) for job in jobs]  # type: ignore[arg-type]

    def close(self, timeout_s: float) -> None:
        """Nothing is open."""


def _frames(data: bytes) -> Iterator[bytes]:
    """Messages of one rank, each after its length."""
    at = 0
    while at + _LENGTH.size <= len(data):
        (size,) = _LENGTH.unpack_from(data, at)
        yield data[at + _LENGTH.size : at + _LENGTH.size + size]
        at += _LENGTH.size + size


def _sidecar() -> Callable[[bytes], None]:
    """A whole sidecar on a real socket: a rank connects, speaks and goes, and the sidecar ends."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    listener.bind("")  # A name that the kernel gives; no file.
    listener.listen(1)

    def feed(data: bytes) -> None:
        batcher = Batcher(Origin("c", "n", "p"), "job")
        balance = Balance(batcher, "c")
        server = Sidecar(listener, batcher, [_Read()], until_empty=True, balance=balance, plans=_Plans())
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as rank:
                rank.connect(listener.getsockname())
                server._turn(0.0)
                for message in _frames(data):
                    rank.send(message or b"\0")
                    server._turn(0.0)
                    if not server._ranks:
                        break
            server.stop()
            server.run()
        finally:
            for connection in server._ranks:
                connection.close()
            server._selector.close()

    return feed


def _nccl_inspector(data: bytes) -> None:
    """A file of NCCL Inspector beside a sidecar, half of it first; what comes of it is read as it travels."""
    batcher, reader = Batcher(Origin("c", "n", "p"), "job"), _Read()
    with tempfile.TemporaryDirectory(prefix="paceline-fuzz-") as folder:
        path = Path(folder) / "n-pid7.log"
        path.write_bytes(data[: len(data) // 2])
        inspector = NcclInspector(NcclFiles(Path(folder), "n", ours=True), batcher, _silent)
        inspector.join(7, batcher.join(_HELLO), 0)
        inspector.append_steps(7, [StepRow(0, 10.0, 5.0, (0.0,) * len(PARTS))])
        inspector.tick(0.0)
        path.write_bytes(data)
        inspector.close(1.0)
    for outgoing in batcher.end(2.0):
        reader.put(outgoing)


def _silent(text: str) -> None:
    assert "no longer read" not in text, text


def _inspected() -> list[bytes]:
    about = {
        "header": {"id": "0x7f", "comm_name": "unknown", "rank": 1, "n_ranks": 2, "nnodes": 1},
        "metadata": {"dump_timestamp_us": 12_000_000, "hostname": "n", "pid": 7},
    }
    times = {"coll_start_ts": 11_000_000, "kernel_events": [{"channel_id": 0, "kernel_start_ts": 11_000_100}]}
    told = {"coll": "AllReduce", "coll_sn": 3, "coll_msg_size_bytes": 8192, "coll_exec_time_us": 900}
    marked = [
        about | {"dump_stats": {"coll_dropped_since_last_dump": 1}},
        {"coll_perf": told | {"event_trace_ts": times}},
    ]
    return [
        b"\n".join(map(msgspec.json.encode, lines)) + b"\n" for lines in (marked, [about | {"coll_perf": told}] * 2)
    ]


def _rank() -> list[bytes]:
    issued = ("world", 2, 7, "all_reduce", 4096, marks.PYTHON)
    found = [
        (0, marks.DATA, None),
        (10, marks.LEAVE + marks.DATA, None),
        (20, marks.FORWARD, None),
        (30, marks.COMMUNICATION, None),
        (31, marks.ISSUED, issued),
        (50, marks.LEAVE + marks.COMMUNICATION, None),
        (60, marks.LEAVE + marks.FORWARD, None),
        (61, marks.BACKWARD, None),
        (62, marks.READY, None),
        (70, marks.LEAVE + marks.BACKWARD, None),
        (80, marks.STEP, None),
        (90, marks.QUEUED, None),
        (91, marks.GC_START, None),
        (95, marks.GC_STOP, None),
    ]
    told = Marks(marks=found, offset_ns=10**18, link=LinkReport(2, 0.001, 3), lost=1)  # type: ignore[arg-type]
    messages = [encode(one) for one in (_HELLO, told, told, Bye(ended_s=2.0))]
    balanced = [*messages[:2], *_balance_words(), messages[-1]]
    return [b"".join(_LENGTH.pack(len(one)) + one for one in each) for each in (messages, balanced)]


def _balance_words() -> list[bytes]:
    observed = balance_messages.BalanceObserved(3, 41, [3, 5], [0.25, None], "kafka", "adaptive", most=[None, 6])
    plan = balance_messages.BalancePlan(3, 40, [3, 5], "rank 0 turned slow", 0.25, 0.5)
    words = [balance_messages.BalanceWord(awaits=True), balance_messages.BalanceWord(observed, plan)]
    return [data for word in words if (data := balance_messages.encode(word)) is not None]


def _told(data: bytes) -> None:
    """What a sidecar says to a balancer, and the numbers that it may follow."""
    _, plan = balance_messages.decode_told(data)
    if plan is not None:
        assert plan.version >= 1
        assert min(plan.shares) >= 1
        assert 0 <= plan.digest < 2**48


def _environment(data: bytes) -> None:
    """Every setting from one environment, as ``NAME=VALUE`` with a zero byte between."""
    pairs = [entry.partition("=") for entry in data.decode("utf-8", "replace").split("\0")]
    environ = {name: value for name, equals, value in pairs if equals and not name.endswith("_FILE")}
    for setting in SETTINGS:
        with contextlib.suppress(SettingError):
            setting.read(environ)
    BrokerSettings.from_environ(environ)


def _process(data: bytes) -> None:
    """The environment of somebody's process."""
    with tempfile.TemporaryDirectory(prefix="paceline-fuzz-") as folder:
        path = Path(folder) / "environ"
        path.write_bytes(data)
        _, rank = identity(read_environ(path))
    assert rank is None or 0 <= rank < 10**10


def _pods() -> Callable[[bytes], None]:
    """A kubelet's answer, and what of it is told of two GPUs, one of them under MIG, as it travels."""
    gpu = DeviceName("GPU-51ed0000-0000-4000-8000-000000000000", 0, "00000000:01:00.0", minor=0)
    part = DeviceName("MIG-31600000-0000-4000-8000-000000000000", 1, None, gpu.uuid, "1g.10gb", None, 7, 0)
    names, made = Names([gpu, part]), classes()

    def feed(data: bytes) -> None:
        pods, why = told(held_in(made, data), names)
        assert len(pods) <= MOST_PODS
        assert {pod.device for pod in pods} <= {gpu.uuid, part.uuid}
        assert why is None or why == visible(why)
        json_decoder(list[DevicePod]).decode(msgspec.json.encode(pods))

    return feed


def _kubelets() -> list[bytes]:
    """Pods with devices by plugins, and by a claim."""
    made = classes()
    answer = made["ListPodResourcesResponse"]()
    for resource, name in (
        ("nvidia.com/gpu", "GPU-51ed0000-0000-4000-8000-000000000000::1"),
        ("nvidia.com/mig-1g.10gb", "nvidia0/gi7"),
        ("amd.com/gpu", "0000:01:00.0"),
    ):
        pod = answer.pod_resources.add(name="llm-0", namespace="ml").containers.add(name="c")
        pod.devices.add(resource_name=resource, device_ids=[name])
        claim = pod.dynamic_resources.add(claim_name="g").claim_resources.add(driver_name="gpu.nvidia.com")
        claim.device_name = "gpu-0-mig-1g10gb-19-0"
        claim.cdi_devices.add(name="nvidia.com/gpu=0")
    return [answer.SerializeToString()]


def _cgroup(data: bytes) -> None:
    uid = pod_uid(data.decode(errors="replace"))
    assert uid is None or (uid.isascii() and len(uid) in (32, 36))


_STACK = Stack(
    process=Process(pid=7, ticks=99, boot="0" * 36, namespace="pid:[4026531836]"), started_s=1.0, detached=True,
    logs="/tmp/logs", addresses={"page": "http://127.0.0.1:8501"},
)  # fmt: skip


def _stack(data: bytes) -> None:
    """What `paceline up` wrote down: nonsense is no stack, and whatever is one is what its file is named after."""
    with tempfile.TemporaryDirectory() as folder:
        file = stack_state.write(_STACK, Path(folder))
        file.write_bytes(data)
        found = stack_state.running(Path(folder), _Anybody())
        assert all(stack.process == _STACK.process for stack in found), "a stack under another's name"


class _Anybody(Machine):
    """A machine on which each process runs."""

    def process(self, pid: int) -> Process:
        """It is the one that was asked for."""
        return msgspec.structs.replace(_STACK.process, pid=pid)

    def runs(self, process: Process) -> bool:
        """It does."""
        return True


def _headers(data: bytes) -> None:
    host, _, origin = data.decode("latin-1").partition("\n")
    refused = hosts.refusal({"host": host} | ({"origin": origin} if origin else {}), ("localhost", "*.example.org"))
    assert refused is not None or host.isprintable()


def _shown(data: bytes) -> None:
    shown = visible(data.decode("utf-8", "surrogatepass"))
    assert not {"Cc", "Cs", "Zl", "Zp"} & set(map(category, shown)), "not harmless"
    shown.encode()


TARGETS = (
    Target("local.rank", _sidecar(), _rank, longest=4096, share=3.0),
    Target(
        "local.told",
        _told,
        lambda: [encode_hears(), encode_proposed(balance_messages.ProposedPlan(3, (3, 5)))],
        form="json",
        longest=512,
    ),
    Target("local.nccl-inspector", _nccl_inspector, _inspected, longest=4096),
    Target(
        "local.settings",
        _environment,
        lambda: ["\0".join(f"{one.name}={one.default}" for one in SETTINGS).encode(), b"PACELINE_BROKERS=[::1]:9092"],
        (SettingError,),
    ),
    Target(
        "local.process",
        _process,
        lambda: [b"SLURM_JOB_ID=7\0RANK=3\0", b"PACELINE_JOB=a\0SLURM_PROCID=1\0", b"TORCHELASTIC_RUN_ID=r\0RANK=0\0"],
    ),
    Target("local.pods", _pods(), _kubelets, (PodResourcesError,), longest=2048),
    Target(
        "local.cgroup",
        _cgroup,
        lambda: [
            b"0::/kubepods.slice/kubepods-pod0a1b2c3d_1111_2222_3333_444455556666.slice/cri-containerd-9.scope",
            b"4:memory:/kubepods/besteffort/pod0a1b2c3d-1111-2222-3333-444455556666/9\n0::/",
        ],
        longest=512,
    ),
    Target("local.stack", _stack, lambda: [msgspec.json.encode(_STACK)], form="json"),
    Target("local.headers", _headers, lambda: [b"localhost:8000\nhttp://a.example.org", b"[::1]:80"], longest=512),
    Target("local.shown", _shown, lambda: ["job \x1b[31m\u202e\n".encode()], (UnicodeDecodeError,), longest=256),
)
