"""What an event without a category (``cat``) is, in traces of other profilers, of older ones, or of tools that drop it.

Rule of this file: pure. An event's own arguments and name come first, then the names of its process and thread. Of
XLA's lanes for one device only the one with single kernels counts: the others show the same time once more.
"""

import re
from typing import Any

import msgspec

from paceline.decoders import json_decoder

from .kineto_collectives import BACKEND
from .kineto_pieces import FAULTS, Event

#: The process that has the device's tasks in a trace_view.json of torch_npu or MindSpore: waits are among them, and
#: another process has those of collectives once more.
_ASCEND = "Ascend Hardware"
_MOST_LANES = 65_536
_CALL = re.compile(r"(?:cuda|hip|cu)[A-Z]\w{2,80}$")
#: What waits on a stream, as the profiler writes it beside kernels: no work of the device.
_SYNC = re.compile(r"(?:Stream|Event|Device|Context) Sync$|Stream Wait Event$")
_COPY = re.compile(r"Mem(?:cpy|set)\b", re.IGNORECASE)
_OPERATOR = re.compile(rf"(?:aten|c10d|autograd|torch|torch_\w{{1,40}}|prims|record_param_comms|{BACKEND})(?:::|:|$)")
_STEP = re.compile(r"ProfilerStep#\d{1,18}$")
#: XLA's devices, and the lane of each that has its kernels; its lane of steps has their numbers for names.
_XLA_DEVICE = re.compile(r"/device:(GPU|TPU|AMDGPU):\d{1,6}")
_XLA_LANES = {"GPU": re.compile(r"Stream #"), "AMDGPU": re.compile(r"Stream #"), "TPU": re.compile(r"XLA Ops$")}
#: Lanes of PyTorch's first profiler.
_FIRST = {"CPU functions": "cpu_op", "CUDA functions": "kernel"}


class _Args(msgspec.Struct):
    stream: Any = None
    device: Any = None
    correlation: Any = None
    name: Any = None


_args = json_decoder(_Args)


class Lanes:
    """Names of processes and threads, and how many events had neither a category nor one by them."""

    def __init__(self) -> None:
        self.unknown = 0
        self._names: dict[tuple[str, str], str] = {}

    def add(self, event: Event) -> None:
        """A ``ph`` M event, which names a process or a thread."""
        if event.name in ("process_name", "thread_name") and len(self._names) < _MOST_LANES:
            thread = str(event.tid) if event.name == "thread_name" else ""
            self._names[str(event.pid), thread] = str(_decoded(event.args).name)[:200]

    @property
    def ascend(self) -> bool:
        """Whether a device of Ascend is in it, whose tasks are left out."""
        return bool(self.unknown) and _ASCEND in self._names.values()

    def categorise(self, event: Event) -> None:
        """Give a span without a category the one that Kineto gives such a span, if it is known."""
        found = self._by_itself(event) or self._by_lane(event) or ("cpu_op" if _OPERATOR.match(event.name) else "")
        if found:
            event.cat = found
        else:
            self.unknown += 1

    def _by_itself(self, event: Event) -> str:
        if _STEP.match(event.name):
            return "user_annotation"
        if _CALL.match(event.name):
            return "cuda_runtime"
        if _SYNC.match(event.name):
            return "cuda_sync"
        args = _decoded(event.args)
        if args.stream is not None and args.correlation is not None:
            return "gpu_memcpy" if _COPY.match(event.name) else "kernel"
        return ""

    def _by_lane(self, event: Event) -> str:
        process = self._names.get((str(event.pid), ""), str(event.pid))
        thread = self._names.get((str(event.pid), str(event.tid)), "")
        if process == "CUDA functions":
            event.pid = event.tid  # There a device's number is its thread's.
        if (device := _XLA_DEVICE.match(process)) is None:
            return _FIRST.get(process, "")
        if thread == "Steps" and event.name.isdigit() and len(event.name) < 18:
            event.name = f"ProfilerStep#{event.name}"
            return "user_annotation"
        if not _XLA_LANES[device[1]].match(thread):
            return ""
        return "gpu_memcpy" if _COPY.match(event.name) else "kernel"


def _decoded(args: msgspec.Raw) -> _Args:
    try:
        return _args.decode(args)
    except FAULTS:
        return _Args()
