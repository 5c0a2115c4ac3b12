"""What a collective of a trace is: its operation, group, number and size.

Rule of this file: names and arguments, no times. A kernel's own name is asked last: RCCL has one kernel for all, and an
all-to-all is made of sends and receives. What a kernel does not say, the operator around its launch may.
"""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from paceline.events import RANK_LIMIT, Whole
from paceline.flight_recorder import listed_ranks

_WORDS = (
    ("allreduce", "all_reduce"),
    ("crossdevicereduce", "all_reduce"),
    ("quickreduce", "all_reduce"),
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
    ("dispatch", "all_to_all"),
    ("combine", "all_to_all"),
)
#: What in a kernel's own name says that ranks meet in it: a library of collectives (NCCL, RCCL, MSCCL++, oneCCL, ...),
#: memory that ranks share (NVSHMEM, multimem, symmetric memory), a collective's name, or an expert-parallel exchange.
_KERNEL = re.compile(
    r"(?:^|[^a-z])(?:(?:one|n|r|ms|u|x|h|m|l|e|ix)?ccl|cncl|bkcl)|symmetric_memory|symm_mem|multimem"
    r"|(?:nv|roc|roc_|i|x|open)shmem|(?:barrier|sync|quiet|signal)\w*_on_stream_kernel"
    r"|cross_device_reduce|quick_?reduce|all[_-]?reduce|all[_-]?gather|reduce[_-]?scatter|all[_-]?to[_-]?all"
    r"|collective[_-]permute|hcom_|userbuffers|mnnvl|(?:deep|hybrid|nixl)_?ep\b|pplx|mori::|mooncake::"
    r"|(?:Ep|a2a)_?(?:Dispatch|Combine)|(?:internode|intranode)\w*::(?:dispatch|combine)",
    re.IGNORECASE,
)
#: Threads of one device reduce among themselves under such names; a product of matrices computes while it exchanges;
#: PyTorch's own and generated kernels are called after all that they were made of. FBGEMM is a library's name.
_NO_KERNEL = re.compile(
    r"(?:warp|block|group|cta|thread|cluster|lane)_?all_?(?:reduce|gather)|(?<!fb)gemm|matmul|at::native|triton_\w*fused",
    re.IGNORECASE,
)
#: How the host's spans of a collective begin, whatever backend has it: PyTorch's own, or a vendor's.
BACKEND = r"(?:gloo|mpi|ucc|cncl|[a-z]{1,3}ccl):"
#: Operators of any library in which ranks meet: kernels launched in them, and in no operator inside, are theirs.
_OPERATOR = re.compile(
    rf"record_param_comms|{BACKEND}|c10d::(?:send|recv|broadcast|reduce|gather|scatter|barrier|all)"
    r"|(?!aten::).*(?:all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|deep_?ep)",
    re.IGNORECASE,
)
_NO_OPERATOR = re.compile(r"autograd::|.*(?:(?<!fb)gemm|matmul|backward|copy_?(?:in|out))", re.IGNORECASE)
#: Bytes of an element, by the name of its type in small letters.
_BYTES = {
    **dict.fromkeys(("complexdouble",), 16),
    **dict.fromkeys(("double", "long", "complexfloat", "float64", "int64", "uint64"), 8),
    **dict.fromkeys(("float", "int", "float32", "int32", "uint32"), 4),
    **dict.fromkeys(("half", "bfloat16", "short", "float16", "int16", "uint16"), 2),
    **dict.fromkeys(("byte", "char", "bool", "int8", "uint8"), 1),
}
#: Eight bytes each are still a count that an event may hold.
_MOST_ELEMENTS, _MOST_SEQUENCE = 2**49, 2**53
_MOST_WORD = 128


class CollectiveArgs(msgspec.Struct):
    """What a kernel or an operator says of its collective."""

    name: str | None = msgspec.field(name="Collective name", default=None)
    group: str | None = msgspec.field(name="Process Group Name", default=None)
    ranks: Any = msgspec.field(name="Process Group Ranks", default=None)
    size: Whole | None = msgspec.field(name="Group size", default=None)
    sequence: Whole | None = msgspec.field(name="Seq", default=None)
    sent: Whole | None = msgspec.field(name="In msg nelems", default=None)
    received: Whole | None = msgspec.field(name="Out msg nelems", default=None)
    dtype: str | None = None
    split: Any = msgspec.field(name="In split size", default=None)


class Told(NamedTuple):
    """What is known of a collective; ``group`` is "0" and ``size`` 0 where nothing tells them."""

    operation: str
    group: str
    size: int
    bytes: int
    sequence: int | None


def is_collective_kernel(name: str) -> bool:
    """Whether the kernel ``name`` is one in which ranks meet.

    >>> names = ("void vllm::cross_device_reduce_1stage<bf16, 2>(int)", "void at::native::reduce_kernel<512>(int)")
    >>> [is_collective_kernel(name) for name in names]
    [True, False]
    """
    plain = re.split(r"[<(]", name.replace("(anonymous namespace)", "anonymous"), maxsplit=1)[0]
    return _KERNEL.search(plain) is not None and _NO_KERNEL.search(plain) is None


def is_collective_operator(name: str) -> bool:
    """Whether kernels that the operator ``name`` launches itself are a collective's.

    >>> names = ("_C_custom_ar::all_reduce", "aten::scatter_reduce", "c10d::allreduce_")
    >>> [is_collective_operator(name) for name in names]
    [True, False, True]
    """
    return _OPERATOR.match(name) is not None and _NO_OPERATOR.match(name) is None


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
        next((part.size for part in parts if part.size and 0 < part.size < RANK_LIMIT), 0),
        next((size for part in parts if (size := _size(part))), 0),
        next(
            (part.sequence for part in parts if part.sequence is not None and 0 <= part.sequence < _MOST_SEQUENCE), None
        ),
    )


def members(told_of: Iterable[CollectiveArgs]) -> dict[str, tuple[int, ...]]:
    """The members of each group that is named with them; of a large one PyTorch writes the first ones alone."""
    listed = {args.group[:_MOST_WORD]: args.ranks for args in told_of if args.group and args.ranks}
    return {group: listed_ranks(ranks) for group, ranks in listed.items()}


def _split(args: CollectiveArgs) -> bool:
    """Whether its elements are split between the ranks, as those of an all-to-all alone are."""
    return args.split not in (None, "", "[]", [])


def _size(args: CollectiveArgs) -> int:
    """The bytes that a rank gives, or where it gives none those that it receives."""
    kind = (args.dtype or "").lower().rpartition(":")[2]
    width = 1 if kind.startswith("float8") else _BYTES.get(kind, 0)
    elements = next((count for count in (args.sent, args.received) if count and count > 0), 0)
    return min(elements, _MOST_ELEMENTS) * width
