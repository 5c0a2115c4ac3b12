"""The script's own times: events on the device's stream where there is a device, the host's clock where there is none.

Rule of this file: nothing of Paceline. Marks are kept and read at the end, after one synchronisation.
"""

import argparse
import contextlib
import json
import os
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

#: Environment variable with the folder that scripts write to.
TRUTH_VARIABLE = "GPU_SUITE_FOLDER"


class Truth:
    """Spans of each step by name, and the steps themselves, in seconds."""

    def __init__(self, device: str) -> None:
        self.on_gpu = device == "cuda"
        self.steps: list[dict[str, float]] = []
        self._ends = [self.now()]
        self._spans: list[tuple[int, str, Any, Any]] = []

    def now(self) -> Any:
        """This moment on the current stream, or on the host."""
        if not self.on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between_s(self, start: Any, end: Any) -> float:
        """Seconds from one moment to another, once both have passed."""
        return float(start.elapsed_time(end)) / 1e3 if self.on_gpu else end - start

    @contextlib.contextmanager
    def span(self, name: str) -> Iterator[None]:
        """What is done inside counts as ``name`` in this step."""
        start = self.now()
        yield
        self._spans.append((len(self._ends) - 1, name, start, self.now()))

    def step(self) -> None:
        """A step ends here."""
        self._ends.append(self.now())

    def save(self, **said: Any) -> None:
        """Wait for the device, then write everything down for whoever compares."""
        if self.on_gpu:
            torch.cuda.synchronize()
        steps = [{"step": self.between_s(a, b)} for a, b in pairwise(self._ends)]
        for step, name, start, end in self._spans:
            if step < len(steps):
                steps[step][name] = steps[step].get(name, 0.0) + self.between_s(start, end)
        rank = os.environ.get("RANK", "0")
        told = {"rank": int(rank), "steps": steps, **said}
        Path(os.environ[TRUTH_VARIABLE], f"truth-{rank}.json").write_text(json.dumps(told))


def options(**more: Any) -> argparse.Namespace:
    """The options of a script: its device, and ``more`` with their defaults."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    for name, default in more.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if chosen.device == "cuda":
        torch.cuda.set_device(0)
    return chosen


def join(device: str, backend: str = "") -> None:
    """Become a rank: of the group that torchrun made, or of one of its own."""
    backend = backend or ("nccl" if device == "cuda" else "gloo")
    if "TORCHELASTIC_RUN_ID" in os.environ:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=HashStore(), rank=0, world_size=1)


def blocks(width: int, depth: int, device: str) -> Any:
    """A stack of linear layers: its time is its width and depth."""
    layers = [torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU()) for _ in range(depth)]
    return torch.nn.Sequential(*layers).to(device)
