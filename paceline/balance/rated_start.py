"""The first shares, by what ``paceline benchmark`` measured on each rank's node, until ranks have measured themselves.

Rule of this file: a rating is a guess. It counts where every rank has one of the same name, from a machine that nobody
else used, and never makes one rank more than ``MOST_RATIO`` times faster than another; else all start alike. What a
rank tells is as many numbers as any other's, whatever it knows.
"""

from __future__ import annotations

import os
import socket
import zlib
from collections.abc import Mapping, Sequence

import torch

from paceline.identity import node_of
from paceline.rated import CPU, Rated, look, path_of
from paceline.rated_names import BUSY

#: One rank starts with at most so many times what another has, and alike where they differ by less than this.
MOST_RATIO, LEAST_RATIO = 8.0, 1.05
#: What is multiplied, in the order in which another stands in where not all have that of the model's own type: the
#: narrow types are what most GPUs train in.
GEMMS = ("gemm_bfloat16", "gemm_float16", "gemm_tf32", "gemm_float32", "gemm_float64")
#: How fast memory is, by the better measure first.
MEMORY = ("memory_triad", "memory_copy")
NAMES = (*GEMMS, *MEMORY)
#: Before the speeds: which device it is, and the place in ``GEMMS`` of the model's type.
_HEAD = 2


def told(model: torch.nn.Module, device: torch.device, environ: Mapping[str, str] = os.environ) -> list[float]:
    """What this rank tells of itself: its device, the type of its model, and a speed for each of ``NAMES``, 0 where it
    knows none, negative where others used the device while it was measured."""
    node = node_of(environ, socket.gethostname())
    name = _device(device)
    rated = look(path_of(environ, node), node)[0] if name else None
    speeds = [0.0] * len(NAMES) if rated is None else [_speed(rated, name, one) for one in NAMES]
    return [float(zlib.crc32(f"{node}\x1f{name}".encode("utf-8", "replace"))), float(_type(model, device)), *speeds]


def weights(rows: Sequence[Sequence[float]]) -> list[float] | None:
    """The speed of each rank, the fastest 1; None where not all ranks tell one of the same name, or all are alike.

    A step multiplies matrices and moves memory: the weight is the geometric mean of both, where all ranks have both.
    Ranks that share a device have a part of it each.

    Args:
        rows: shape (ranks, 2 + len(NAMES)), as each ``told`` it.

    >>> row = lambda device, gemm, memory: [device, 3.0, 0.0, 0.0, 0.0, gemm, 0.0, memory, 0.0]
    >>> weights([row(1, 100.0, 40.0), row(2, 25.0, 40.0)])
    [1.0, 0.5]
    >>> weights([row(1, 100.0, 40.0), row(2, 0.0, 40.0)]) is None
    True
    """
    gemm = _gemm(rows)
    if gemm is None:
        return None
    memory = next((at for at in map(NAMES.index, MEMORY) if _all_have(rows, at)), None)
    devices = [row[0] for row in rows]
    found = []
    for row in rows:
        speed = row[_HEAD + gemm] if memory is None else (row[_HEAD + gemm] * row[_HEAD + memory]) ** 0.5
        found.append(speed / devices.count(row[0]))
    fastest = max(found)
    if fastest < LEAST_RATIO * min(found):
        return None
    return [max(speed / fastest, 1.0 / MOST_RATIO) for speed in found]


def doubt(rows: Sequence[Sequence[float]]) -> str:
    """Why ratings that are there do not count; "" where no rank has one, or nothing is wrong with them.

    >>> row = lambda gemm: [1.0, 3.0, 0.0, 0.0, 0.0, gemm, 0.0, 0.0, 0.0]
    >>> doubt([row(100.0), row(-25.0)])
    'of 1 of 2 ranks the node was rated while others used it'
    >>> doubt([row(100.0), row(0.0)]), doubt([row(0.0), row(0.0)])
    ('1 of 2 ranks have no rating', '')
    """
    if _gemm(rows) is not None:
        return ""
    gemms = [row[_HEAD : _HEAD + len(GEMMS)] for row in rows]
    busy = sum(min(row) < 0 for row in gemms)
    if busy:
        return f"of {busy} of {len(rows)} ranks the node was rated while others used it"
    without = sum(max(row) <= 0 for row in gemms)
    if without == len(rows):
        return ""
    return f"{without} of {len(rows)} ranks have no rating" if without else "no rating is of one kind on all ranks"


def _gemm(rows: Sequence[Sequence[float]]) -> int | None:
    """The multiplication that all ranks were measured at: of the model's own type, else the first of ``GEMMS``."""
    own = int(rows[0][1])
    if 0 <= own < len(GEMMS) and _all_have(rows, own):
        return own
    return next((at for at in range(len(GEMMS)) if _all_have(rows, at)), None)


def _all_have(rows: Sequence[Sequence[float]], at: int) -> bool:
    return all(row[_HEAD + at] > 0 for row in rows)


def _speed(rated: Rated, device: str, name: str) -> float:
    """The speed as it was measured last; 0 where it was not, negative where others used the device meanwhile."""
    found = [one for one in rated.speeds if (one.device, one.name, one.size_bytes) == (device, name, None)]
    if not found:
        return 0.0
    busy = found[-1].busy_ratio is not None and not found[-1].busy_ratio <= BUSY
    return -found[-1].value if busy else found[-1].value


def _device(device: torch.device) -> str:
    """What the file calls this rank's device; "" where that cannot be told."""
    if device.type == "cpu":
        return CPU
    if device.type != "cuda":
        return ""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    return f"GPU-{uuid}" if uuid else ""


def _type(model: torch.nn.Module, device: torch.device) -> int:
    """The place in ``GEMMS`` of what most of the model's weights are; -1 where it is none of them."""
    sizes: dict[torch.dtype, int] = {}
    for weight in model.parameters():
        sizes[weight.dtype] = sizes.get(weight.dtype, 0) + weight.numel()
    if not sizes:
        return -1
    most = max(sizes, key=lambda one: sizes[one])
    if most is torch.float32 and device.type == "cuda" and torch.backends.cuda.matmul.allow_tf32:
        return GEMMS.index("gemm_tf32")
    name = f"gemm_{most}".replace("torch.", "")
    return GEMMS.index(name) if name in GEMMS else -1
