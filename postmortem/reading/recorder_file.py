"""A flight recorder's dump, pickle or JSON, formats 2.1 to 2.10 of PyTorch's: the rank's collectives.

Rule of this file: a dump holds dicts, lists, tuples, text, numbers and None alone, so the unpickler refuses every
class; size, entries, frames and members are bounded. A field of a wrong type counts as missing; nothing is assumed of
a state, for gloo calls every entry ``scheduled``: done is ``retired`` or ``completed``.
"""

import io
import pickle
import re
import struct
from typing import Any, ClassVar, NoReturn

import msgspec

from ..evidence import Call, Dump, Place, Source, Statement
from ..places import innermost

MOST_BYTES = 512 << 20
_MOST_ENTRIES = 200_000
_MOST_FRAMES = 256
_MOST_RANKS = 1 << 20
#: What the unpickler raises on bytes that are no pickle.
_DAMAGED = (
    ValueError,
    ArithmeticError,
    TypeError,
    LookupError,
    AttributeError,
    AssertionError,
    MemoryError,
    RecursionError,
    struct.error,
)
_RANK = re.compile(r"(\d{1,7})(?:\.(?:json|pkl|pickle|bin|txt))?$")


class RecorderError(ValueError):
    """A file that looks like a dump and cannot be read: why, in a sentence."""


class _Plain(pickle._Unpickler):
    """Reads data without code: any class, function or persistent object is an error.

    It is the unpickler in Python: the one in C allocates gigabytes for one large number of a memo.
    """

    #: No dump has a byte array, and one is made as large as it says before it is read.
    dispatch: ClassVar[dict[int, Any]] = {
        code: load for code, load in pickle._Unpickler.dispatch.items() if code != pickle.BYTEARRAY8[0]
    }

    def find_class(self, module: str, name: str, /) -> NoReturn:
        raise RecorderError(f"refused: it asks for {module[:60]}.{name[:60]}, and a dump holds plain data only")

    def persistent_load(self, pid: Any, /) -> NoReturn:
        raise RecorderError("refused: it asks for an object outside the file, and a dump holds plain data only")


def looks_like(head: bytes) -> bool:
    """Whether a file's first bytes are those of a dump."""
    return head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


def rank_in_name(name: str) -> int | None:
    """The rank of a dump: the digits at its name's end.

    >>> rank_in_name("fr/nccl_trace_rank_12"), rank_in_name("trace_3.json")
    (12, 3)
    """
    found = _RANK.search(name.rpartition("/")[2])
    return int(found[1]) if found else None


def unpickled(data: bytes) -> Any:
    """The plain data in a pickle.

    Raises:
        RecorderError: it is cut, damaged, too large, or asks for more than data.
    """
    if len(data) > MOST_BYTES:
        raise RecorderError(f"refused: larger than {MOST_BYTES >> 20} MiB")
    try:
        return _Plain(io.BytesIO(data)).load()
    except RecorderError:
        raise
    except (EOFError, pickle.UnpicklingError) as error:
        raise RecorderError("cut off or damaged: the pickle has no end") from error
    except _DAMAGED as error:
        raise RecorderError(f"damaged: {type(error).__name__}") from error


def statements(data: Any, name: str, rank: int | None) -> list[Statement]:
    """What a dump says.

    Raises:
        RecorderError: it is no dump.
    """
    if (
        not isinstance(data, dict)
        or not isinstance(data.get("version"), str)
        or not ({"entries", "pg_config", "pg_status"} & set(data))
    ):
        raise RecorderError("no flight recorder's dump: no version with entries")
    source = Source("fr", name)
    entries = data.get("entries")
    entries = entries[-_MOST_ENTRIES:] if isinstance(entries, list) else []
    calls = [
        call
        for order, entry in enumerate(entries)
        if isinstance(entry, dict) and (call := _call(entry, order, rank, source)) is not None
    ]
    backend = next((call.operation.partition(":")[0] for call in calls if ":" in call.operation), "")
    calls = [msgspec.structs.replace(call, operation=call.operation.rpartition(":")[2]) for call in calls]
    dump = Dump(
        rank=rank,
        source=source,
        version=data["version"][:20],
        backend=backend,
        members=_members(data.get("pg_config")),
        enqueued=_enqueued(data.get("pg_status")),
    )
    return [dump, *calls]


def _members(config: Any) -> dict[str, tuple[int, ...]]:
    if not isinstance(config, dict):
        return {}
    made = {}
    for name, group in list(config.items())[:100_000]:
        ranks = group.get("ranks") if isinstance(group, dict) else None
        listed = ranks[:_MOST_RANKS] if isinstance(ranks, list) else ()
        text = ranks if isinstance(ranks, str) else " ".join(_text(one, 8) for one in listed)
        made[_text(name, 200)] = tuple(int(one) for one in re.findall(r"\d{1,7}", text)[:_MOST_RANKS])
    return made


def _enqueued(status: Any) -> dict[str, int]:
    if not isinstance(status, dict):
        return {}
    made = {}
    for name, group in list(status.items())[:100_000]:
        last = _whole(group.get("last_enqueued_collective")) if isinstance(group, dict) else None
        if last is not None:
            made[_text(name, 200)] = last
    return made


def _call(entry: dict[Any, Any], order: int, rank: int | None, source: Source) -> Call | None:
    name, group = entry.get("profiling_name"), entry.get("process_group")
    seq = _whole(entry.get("collective_seq_id"))
    if not isinstance(name, str) or seq is None or entry.get("is_p2p") is True:
        return None
    names = (
        [_text(one, 200) for one in group[:2]]
        if isinstance(group, list | tuple) and group
        else [_text(entry.get("pg_id", 0), 200)]
    )
    done = entry.get("retired") is True or entry.get("state") == "completed"
    dtypes = entry.get("input_dtypes")
    return Call(
        rank=rank,
        source=source,
        group=names[0],
        label=names[1] if len(names) > 1 and names[1] and names[1] != "undefined" else names[0],
        seq=seq,
        operation=name[:200],
        numel_in=_numel(entry.get("input_sizes")),
        numel_out=_numel(entry.get("output_sizes")),
        dtype=_text(dtypes[0], 40) if isinstance(dtypes, list | tuple) and dtypes else "",
        done=done,
        started=entry.get("state") in ("started", "completed"),
        place=innermost(_frames(entry.get("frames"))),
        order=order,
    )


def _frames(frames: Any) -> list[Place]:
    if not isinstance(frames, list | tuple):
        return []
    return [
        Place(_text(one.get("filename"), 1000), _whole(one.get("line")) or 0, _text(one.get("name"), 200))
        for one in frames[:_MOST_FRAMES]
        if isinstance(one, dict)
    ]


def _numel(sizes: Any) -> int:
    """Elements of all tensors together; -1 where it does not say."""
    if not isinstance(sizes, list | tuple):
        return -1
    total = 0
    for size in sizes[:10_000]:
        if not isinstance(size, list | tuple):
            return -1
        count = 1
        for one in size[:64]:
            count *= _whole(one) or 0
            if count > 1 << 62:
                return -1
        total += count
    return total


def _text(value: Any, most: int) -> str:
    """Words of text and whole numbers; nothing of what may hold itself many times over."""
    return value[:most] if isinstance(value, str) else str(value) if _whole(value) is not None else ""


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62 else None
