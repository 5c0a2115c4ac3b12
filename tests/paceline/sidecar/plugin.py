"""Writes files as NCCL Inspector's plugin does, for tests, and as a script a rank beside it:
``python plugin.py RANK STEPS STATUS``.

By NVIDIA/nccl, plugins/profiler/inspector (``inspector.cc``, ``inspector_json.cc``) and, before it was moved,
ext-profiler/inspector: the file is ``"%s/%s-pid%d.log"`` of folder, gethostname() and getpid(), opened with ``"w"``
by the first dump and flushed by each. A line is an object without spaces after ``{``, ``:`` and ``,``, strings have
``/`` escaped (``sanitizeJson``). ``header`` has ``id`` (``0x%lx``), since 4.1 ``comm_name``, ``rank`` **of the
communicator**, ``n_ranks`` and ``nnodes``; ``metadata`` has ``dump_timestamp_us`` by gettimeofday(), anew in each line.
Format 4.0 has the last collective of each dump alone. 4.2 begins a communicator's dump with a line of ``dump_stats``;
since 4.3 that line alone has header and metadata. ``coll_sn`` counts a communicator's calls of one function. Verbose
lines have ``event_trace_ts``, where a channel's ``kernel_start_ts`` is the host's clock when its kernel had started.
"""

import importlib.util
import json
import os
import socket
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

FUNCTIONS = ("AllGather", "AllReduce", "Broadcast", "Recv", "Reduce", "ReduceScatter", "SendRecv", "Send", "All2All")


def loaded(name: str, path: Path) -> ModuleType:
    """The module in the file ``path``."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def performed(
    number: int,
    start_s: float,
    took_s: float,
    *,
    function: str = "AllReduce",
    size: int = 1 << 20,
    verbose: bool = True,
) -> dict[str, Any]:
    """A collective whose kernel started at ``start_s``."""
    assert function in FUNCTIONS
    start_us, took_us = round(start_s * 1e6), round(took_s * 1e6)
    told: dict[str, Any] = {
        "coll": function,
        "coll_algo": "RING",
        "coll_proto": "LL",
        "coll_sn": number,
        "coll_msg_size_bytes": size,
        "coll_exec_time_us": took_us,
        "coll_timing_source": "kernel_gpu",
        "coll_algobw_gbs": 1.5,
        "coll_busbw_gbs": 2.5,
    }
    if verbose:
        channels = [{"channel_id": 0}, {"channel_id": 1}]
        starts = (start_us + 3, start_us)
        told["event_trace_sn"] = {"coll_start_sn": 1, "coll_stop_sn": 2, "kernel_events": channels}
        told["event_trace_ts"] = {
            "coll_start_ts": start_us - 20_000,
            "coll_stop_ts": start_us - 19_000,
            "kernel_events": [
                one | {"kernel_start_ts": start, "kernel_stop_ts": start + took_us, "kernel_record_ts": start + took_us}
                for one, start in zip(channels, starts, strict=True)
            ],
        }
    return told


class Plugin:
    """The plugin in the process ``pid``, which writes into ``folder``."""

    def __init__(self, folder: Path, pid: int, version: str = "v4.3", host: str | None = None) -> None:
        self.host = socket.gethostname() if host is None else host
        self.path = folder / f"{self.host}-pid{pid}.log"
        self.pid = pid
        self.version = version
        self._file = self.path.open("w")

    def dump(
        self,
        collectives: list[dict[str, Any]],
        dumped_s: float,
        *,
        rank: int,
        ranks: int,
        comm: str = "0x7f8c496ae9f661",
        dropped: int = 0,
    ) -> None:
        """Dump one communicator, in which this process is ``rank``, and flush."""
        about = {"header": self._header(comm, rank, ranks), "metadata": self._metadata(dumped_s)}
        if self.version >= "v4.2":
            stats = {"coll_records": len(collectives), "coll_dropped_since_last_dump": dropped, "p2p_records": 0}
            self.write(self.line(about | {"dump_stats": stats}))
        if self.version >= "v4.3":
            about = {}
        for collective in collectives if self.version > "v4.0" else collectives[-1:]:
            self.write(self.line(about | {"coll_perf": collective}))

    def _header(self, comm: str, rank: int, ranks: int) -> dict[str, Any]:
        named = {"comm_name": "unknown"} if self.version > "v4.0" else {}
        return {"id": comm} | named | {"rank": rank, "n_ranks": ranks, "nnodes": 1}

    def _metadata(self, dumped_s: float) -> dict[str, Any]:
        return {
            "inspector_output_format_version": self.version,
            "git_rev": "9019a1912-dirty",
            "rec_mechanism": "nccl_profiler_interface",
            "dump_timestamp_us": round(dumped_s * 1e6),
            "hostname": self.host,
            "pid": self.pid,
        }

    @staticmethod
    def line(told: dict[str, Any]) -> str:
        """As ``jsonStartObject`` and its like write it."""
        return json.dumps(told, separators=(",", ":")).replace("/", "\\/") + "\n"

    def write(self, text: str) -> None:
        """Any piece of text, flushed."""
        self._file.write(text)
        self._file.flush()

    def close(self) -> None:
        """The process ends."""
        self._file.close()


def main() -> int:
    """A rank of two that tells steps as the probe does, and one collective of each as the plugin does."""
    rank, steps, status = (int(word) for word in sys.argv[1:4])
    speaking = loaded("rank", Path(__file__).parents[1] / "training" / "rank.py")
    assert os.environ["NCCL_INSPECTOR_ENABLE"] == "1"
    assert Path(os.environ["NCCL_PROFILER_PLUGIN"]).name == "libnccl-profiler-inspector.so"
    assert int(os.environ["NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS"]) > 0
    folder = Path(os.environ["NCCL_INSPECTOR_DUMP_DIR"])
    folder.mkdir(exist_ok=True)  # As ``ensureDir`` does.
    plugin = Plugin(folder, os.getpid())
    speaker = speaking.Speaker(os.environ["PACELINE_SOCKET"])
    speaker.say(speaking.hello(rank, 2))
    began_s = (speaking.START_NS + speaking.OFFSET_NS) / 1e9
    for number in range(steps):
        speaker.say(speaking.step(number))
        start_s = began_s + number * speaking.STEP_NS / 1e9 + 0.05
        plugin.dump([performed(number, start_s, 0.002 + rank / 1000)], start_s + 0.01, rank=1 - rank, ranks=2)
        time.sleep(0.02)
    plugin.close()
    return status


if __name__ == "__main__":
    sys.exit(main())
