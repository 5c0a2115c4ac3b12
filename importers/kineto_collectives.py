"""What a collective of a trace is: its operation, group, number and size.

Rule of this file: names and arguments, no times. A kernel's own name is asked last: RCCL has one kernel for all, and an
all-to-all is made of sends and receives. What a kernel does not say, the operator around its launch may.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from .kineto_events import CollectiveArgs

_WORDS = (
    ("allreduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("reducescatter", "reduce_scatter"),
    ("alltoall", "all_to_all"),
    ("broadcast", "broadcast"),
    ("barrier", "barrier"),
    ("sendrecv", "send_recv"),
    ("send", "send_recv"),
    ("recv", "send_recv"),
    ("reduce", "reduce"),
    ("gather", "gather"),
    ("scatter", "scatter"),
)
#: Bytes of an element, by the name of its type in small letters.
_BYTES = {
    **dict.fromkeys(("complexdouble",), 16),
    **dict.fromkeys(("double", "long", "complexfloat", "float64", "int64", "uint64"), 8),
    **dict.fromkeys(("float", "int", "float32", "int32", "uint32"), 4),
    **dict.fromkeys(("half", "bfloat16", "short", "float16", "int16", "uint16"), 2),
    **dict.fromkeys(("byte", "char", "bool", "int8", "uint8"), 1),
}
#: Eight bytes each are still a count that an event may hold.
_MOST_ELEMENTS, _MOST_RANKS, _MOST_SEQUENCE = 2**49, 2**20, 2**53
_MOST_WORD = 128


class Told(NamedTuple):
    """What is known of a collective; ``group`` is "0" and ``size`` 0 where nothing tells them."""

    operation: str
    group: str
    size: int
    bytes: int
    sequence: int | None


def operation_of(name: str) -> str | None:
    """The operation that ``name`` means.

    >>> [operation_of(name) for name in ("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", "alltoall_base")]
    [None, 'all_to_all']
    """
    plain = re.sub(r"[^a-z]", "", name.partition("(")[0].lower())
    return next((word for part, word in _WORDS if part in plain), None)


def told(name: str, own: CollectiveArgs | None, around: Iterable[tuple[str, CollectiveArgs]]) -> Told:
    """What is known of the collective ``name``, by its ``own`` arguments, and the host's events ``around`` its launch,
    innermost first."""
    around = list(around)
    parts = [part for part in (own, *(args for _, args in around)) if part is not None]
    words = [*(part.name for part in parts if part.name), *(word for word, _ in around), name]
    operations = [operation for word in words if (operation := operation_of(word)) is not None]
    operation = operations[0] if operations else "unknown"
    if operation == "send_recv" and ("all_to_all" in operations or any(map(_split, parts))):
        operation = "all_to_all"
    group = next((part.group for part in parts if part.group), "0")
    return Told(
        operation,
        group[:_MOST_WORD],
        next((part.size for part in parts if part.size and 0 < part.size < _MOST_RANKS), 0),
        next((size for part in parts if (size := _size(part))), 0),
        next(
            (part.sequence for part in parts if part.sequence is not None and 0 <= part.sequence < _MOST_SEQUENCE), None
        ),
    )


def _split(args: CollectiveArgs) -> bool:
    """Whether its elements are split between the ranks, as those of an all-to-all alone are."""
    return args.split not in (None, "", "[]", [])


def _size(args: CollectiveArgs) -> int:
    """The bytes that a rank gives, or where it gives none those that it receives."""
    kind = (args.dtype or "").lower().rpartition(":")[2]
    width = 1 if kind.startswith("float8") else _BYTES.get(kind, 0)
    elements = next((count for count in (args.sent, args.received) if count and count > 0), 0)
    return min(elements, _MOST_ELEMENTS) * width
