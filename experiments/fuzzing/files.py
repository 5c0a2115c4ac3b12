"""Targets: files that people give to a command, and what a Prometheus server answers.

Rule of this file: what is imported must be events that a worker reads.
"""

import contextlib
import gzip
import io
import json
import tempfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import zstandard

from experiments.breakdown.traces import Made, document
from forecaster.models import network
from importers import kineto
from importers.dcgm import DcgmTexts
from importers.nccl_inspector import Inspector
from importers.nccl_log import NcclLogs
from importers.notes import Notes, SourceError
from importers.op_rows import messages
from importers.op_timeline import OpTimeline, TimelineOptions
from importers.traces import Traces
from paceline import recording, wire
from paceline.delivery import segment
from paceline.delivery.outbox import Message
from paceline.gpu import exporter
from paceline.recording import Line
from paceline.timed_event import TimedEvent

from .bus import recorded
from .target import ROOT, Target

_MOST_UNPACKED = 2**20
_MESSAGES = (Message("paceline.job.v1", b"job", b"{}", 1), Message("paceline.host.v1", None, b"[1]", 2))


def _read(suffix: str) -> Callable[[bytes], None]:
    """Read as a recording of that name, from a file in memory where there is such a folder."""
    shm = Path("/dev/shm")
    folder = tempfile.TemporaryDirectory(prefix="paceline-fuzz-", dir=shm if shm.is_dir() else None)
    path = Path(folder.name) / f"run.jsonl{suffix}"

    def feed(data: bytes, folder: tempfile.TemporaryDirectory[str] = folder) -> None:
        path.write_bytes(data)
        for line in recording.read(str(path), _MOST_UNPACKED):
            if isinstance(line, Line):
                recording.render(line.topic, line.key, line.timestamp_ms, line.value)

    return feed


def _spool(data: bytes) -> None:
    """Whole, and from every place a reader may go on."""
    whole = segment.scan(data)
    for record in whole.records[:8]:
        segment.scan(data, record.end, 3)


def _record(data: bytes) -> None:
    """A frame whose checksum holds, between sound ones: those are read, whatever it is."""
    head = segment._HEAD.pack(segment._MARKER, len(data), zlib.crc32(data))
    sound = [segment.frame(message) for message in _MESSAGES]
    found = segment.scan(segment.MAGIC + sound[0] + head + data + sound[1]).records
    assert [found[0].message, found[-1].message] == list(_MESSAGES), "a sound record is lost"


def _events(imported: Iterable[TimedEvent]) -> None:
    for message in imported:
        wire.decode(message.topic, wire.encode(message.event))


def _kineto(data: bytes) -> None:
    notes = Notes()
    traces = Traces("job", notes)
    traces.update(kineto.read(io.BytesIO(data), "rank0.json", notes), "rank0.json")
    _events(traces.messages())


def _inspector(data: bytes) -> None:
    inspector = Inspector("job", Notes())
    inspector.survey(io.BytesIO(data))
    inspector.read(io.BytesIO(data))
    _events(inspector.messages())


def _dcgm(data: bytes) -> None:
    """The text and, as the next look, its second half."""
    texts = DcgmTexts(Notes())
    texts.read(io.BytesIO(data), "a.prom", 1_795_000_000.0)
    with contextlib.suppress(SourceError):
        texts.read(io.BytesIO(data[len(data) // 2 :]), "b.prom", 1_795_000_030.0)
    _events(texts.messages())


def _nccl_log(data: bytes) -> None:
    logs = NcclLogs("job", Notes())
    logs.read(io.BytesIO(data), 1_795_000_000.0)
    _events(logs.messages())


def _timeline(kind: str) -> Callable[[bytes], None]:
    def feed(data: bytes) -> None:
        timeline = OpTimeline(TimelineOptions(), Notes())
        timeline.read(io.BytesIO(data), kind, f"ops.{kind}")
        _events(messages(*timeline.rows()))

    return feed


def _traces() -> list[bytes]:
    """A real trace, cut to its first events, and made-up ones of devices."""
    path = ROOT / "tests" / "importers" / "traces" / "rank0.json.gz"
    whole = json.loads(gzip.decompress(path.read_bytes()))
    events = whole["traceEvents"]
    marks = [event for event in events if str(event.get("name", "")).startswith(("ProfilerStep", "gloo:", "Optimizer"))]
    short = {**whole, "traceEvents": (marks[:20] + events[:40])}
    made = (
        Made(steps=2, layers=2),
        Made(steps=1, layers=4, rccl=True, all_to_all=True),
        Made(steps=2, layers=2, before_2022=True),
        Made(steps=2, layers=4, marks=False, training=False, annotation="execute"),
    )
    return [json.dumps(one).encode() for one in (short, *map(document, made))]


_ROWS = [
    {"rank": rank, "step": step, "op": op, "start": step + 0.1 * rank, "duration": 0.25, "mb": 0, "node": f"n{rank}"}
    for step in range(3)
    for rank in range(2)
    for op in ("forward", "backward", "all-reduce")
]


def _csv() -> list[bytes]:
    head = list(_ROWS[0])
    rows = "\n".join(",".join(str(row[name]) for name in head) for row in _ROWS)
    iso = "stage;step;op;start;duration\n0;0;F;2026-11-22T00:00:00;1\n1;0;B;2026-11-22T00:00:01Z;2\n"
    # Starts from 0 on in every step, steps with gaps, and rows that differ in no column that is read.
    restarts = "dp_rank,pp_rank,tp_rank,step,op type,start,duration,peer\n" + "".join(
        f"{dp},{pp},0,{step},{op},0,{dp + pp},{peer}\n"
        for step in (100, 350) for dp in range(2) for pp in range(2)
        for peer, op in enumerate(("forward-send", "backward-recv", "gc"))
    )  # fmt: skip
    return [f"{','.join(head)}\n{rows}\n".encode(), iso.encode(), restarts.encode()]


def _json_lines() -> list[bytes]:
    return [b"\n".join(json.dumps(row).encode() for row in _ROWS)]


def _parquet() -> list[bytes]:
    import pyarrow
    import pyarrow.parquet

    out = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(_ROWS), out, compression="none")
    return [out.getvalue()]


def _inspected() -> list[bytes]:
    lines: list[dict[str, object]] = []
    for dump in (1, 2):
        header = {"id": "0xabc", "comm_name": "world", "rank": 0, "n_ranks": 2}
        metadata = {"dump_timestamp_us": dump * 1_000_000, "hostname": "n0", "pid": 7}
        lines.append({"header": header, "metadata": metadata, "dump_stats": {"coll_dropped_since_last_dump": 1}})
        for number in (2 * dump, 2 * dump + 1):
            times = {"coll_start_ts": number * 400_000}
            performed = {"coll": "AllReduce", "coll_sn": number, "coll_exec_time_us": 50, "coll_msg_size_bytes": 4096}
            lines.append({"coll_perf": {**performed, "event_trace_ts": times}})
    return [b"\n".join(json.dumps(line).encode() for line in lines)]


def _scraped() -> list[bytes]:
    """Two GPUs, one of them under MIG, with blanks and attribution; and OpenMetrics with times."""
    lines = ["# HELP some_metric Of a GPU (in %).", "# TYPE some_metric gauge"]
    values = ("97", "9223372036854775794", "0.5", "NaN", "140737488355328", "40000", "+Inf", "1e9")
    for number, name in enumerate(sorted(exporter.SOURCES)):
        for gpu in range(2):
            labels = f'gpu="{gpu}",UUID="GPU-{gpu}",modelName="A \\"100\\"",Hostname="n1",pod="p{gpu}",namespace="ml"'
            labels += ',GPU_I_ID="3",GPU_I_PROFILE="1g.10gb"' if gpu else ',hpc_job="4711"'
            lines.append(f"{name}{{{labels}}} {values[(number + gpu) % len(values)]}")
    timed = [f'{line} {1_795_000_000 + number} # {{a="b"}} 1' for number, line in enumerate(lines[2:12])]
    return ["\n".join(lines).encode(), "\n".join([*timed, "# EOF"]).encode()]


def _logged() -> list[bytes]:
    """Two ranks of NCCL in the words of several versions."""
    lines = []
    for rank in range(2):
        said = f"[1,{rank}]<stdout>:node-{rank}:7:{9 + rank} [{rank}]"
        comm = f"comm 0x5 rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} busId 1 commId 0x2"
        for text in (
            "cudaDriverVersion 12040",
            "NCCL version 2.21.5+cuda12.4",
            "NET/Plugin: Loaded net plugin AWS Libfabric (v8)",
            "NCCL_ALGO set by environment to Ring.",
            "Using network AWS Libfabric",
            f"ncclCommInitRankConfig {comm} - Init START",
            "Channel 00/0 : 0[0] -> 1[1] [send] via NET/AWS Libfabric/0(2)/GDRDMA/Shared",
            "Channel 01/0 : 1[1] -> 0[0] via P2P/CUMEM/read",
            "16 coll channels, 0 collnet channels, 16 nvls channels, 16 p2p channels, 1 p2p channels per peer",
            f"{comm} - Init COMPLETE",
        ):
            lines.append(f"{said} NCCL INFO {text}")
        lines.append(f"{said} misc/socket.cc:4 NCCL WARN Connection closed")
    return ["\n".join(["NCCL version 2.19.3+cuda12.3", *lines]).encode()]


def _weights(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.npz"
        path.write_bytes(data)
        network.read(path)


TARGETS = (
    Target("files.recording", _read(""), lambda: [recorded("compute", 2)], form="json lines", longest=16_384),
    Target("files.recording-gz", _read(".gz"), lambda: [gzip.compress(recorded("compute", 2))], longest=8192),
    Target("files.recording-zst", _read(".zst"), lambda: [zstandard.compress(recorded("compute", 2))], longest=8192),
    Target("files.spool", _spool, lambda: [segment.MAGIC + b"".join(map(segment.frame, _MESSAGES))], longest=1024),
    Target(
        "files.spool-record",
        _record,
        lambda: [segment.frame(message)[segment.HEAD_BYTES :] for message in _MESSAGES],
        form="msgpack",
        longest=1024,
    ),
    Target("files.kineto", _kineto, _traces, (SourceError,), "json", 65_536, 3.0),
    Target("files.nccl-inspector", _inspector, _inspected, (SourceError,), "json lines", 8192, 2.0),
    Target("files.dcgm", _dcgm, _scraped, (SourceError,), longest=32_768, share=2.0),
    Target("files.nccl-log", _nccl_log, _logged, (SourceError,), longest=8192, share=2.0),
    Target("files.timeline-csv", _timeline("csv"), _csv, (SourceError,), longest=4096, share=2.0),
    Target("files.timeline-jsonl", _timeline("jsonl"), _json_lines, (SourceError,), "json lines", 8192, 2.0),
    Target("files.timeline-parquet", _timeline("parquet"), _parquet, (SourceError,), longest=8192),
)
