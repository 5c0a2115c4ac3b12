"""A flight recorder's dump, pickle or JSON, formats 2.1 to 2.10 of PyTorch's: the collectives of one rank.

Rule of this file: pure. A dump holds dicts, lists, tuples, text, numbers and None alone, so the unpickler refuses every
class; size, entries, frames and members are bounded. A field of a wrong type counts as missing; nothing is assumed of
a state, for gloo calls every entry ``scheduled``: done is ``retired`` or ``completed``.

TorchComms writes the same format with other contents: a group's second name is its backend, sends and receives are not
marked, and one counter numbers the collectives of all groups. They are counted by group here, which needs a buffer that
begins with the first.
"""

import io
import pickle
import re
import struct
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import IO, Any, ClassVar, NamedTuple, NoReturn

import msgspec

from paceline.bounds import RANK_LIMIT
from paceline.visible import visible

MOST_BYTES = 512 << 20
_MOST_ENTRIES = 200_000
_MOST_FRAMES = 256
#: Nothing takes longer, in seconds; no time is later than that of nanoseconds in 63 bits.
_MOST_S, _LATEST_NS = 1e7, 1 << 63
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
#: Names of the default group, of which there is one.
_WHOLE = ("", "0")
#: Operations between two ranks; TorchComms does not say that they are.
_BETWEEN_TWO = ("send", "recv", "batch_op_issue")
#: ``rank3``, but not the number of a process on its node (``local_rank3``) or of a node (``node_rank1``).
NAMED_RANK = re.compile(r"(?:^|(?<!local)(?<!node)(?<!group)[^A-Za-z0-9])(?i:rank)[_.=-]?(\d{1,7})(?![\d])")
_AT_END = re.compile(r"(?<!\d)(\d{1,7})(?:\.(?:json|pkl|pickle|bin|txt))?$")


class RecorderError(ValueError):
    """A file that looks like a dump and cannot be read: why, in a sentence."""


class Frame(NamedTuple):
    """A line of code on a stack."""

    file: str
    line: int
    function: str


class Entry(NamedTuple):
    """A collective. Sizes and times are -1, words "" where it does not say them; the innermost frame comes first."""

    group: str
    label: str
    seq: int
    operation: str
    numel_in: int
    numel_out: int
    dtype: str
    done: bool
    started: bool
    frames: list[Frame]
    #: Its position in the buffer.
    order: int
    #: When it was issued, in Unix time; how long it took on the device; and the time limit that it has.
    created_s: float
    took_s: float
    limit_s: float


class Facts(NamedTuple):
    """What a dump says beside its entries: groups with members, and the last number enqueued by group."""

    version: str
    backend: str
    members: dict[str, tuple[int, ...]]
    enqueued: dict[str, int]


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
    """Whether a file's first bytes are those of a pickled dump."""
    return head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


def rank_in_name(name: str) -> int | None:
    """The rank of a dump: the one that its name says, else the number at the name's end.

    >>> [rank_in_name(name) for name in ("fr/nccl_trace_rank_12", "fr_rank3_step500.pkl", "trace_3.json", "1764493638")]
    [12, 3, 3, None]
    """
    last = name.rpartition("/")[2]
    found = NAMED_RANK.search(last) or _AT_END.search(last)
    return int(found[1]) if found and int(found[1]) < RANK_LIMIT else None


def load(stream: IO[bytes]) -> dict[Any, Any]:
    """The dump in ``stream``, pickle or JSON.

    Raises:
        RecorderError: it is cut, damaged, too large, asks for more than data, or is no dump.
    """
    data = stream.read(MOST_BYTES + 1)
    if looks_like(data):
        return checked(unpickled(data))
    if data.lstrip()[:1] != b"{":
        raise RecorderError("no flight recorder's dump: neither a pickle nor JSON")
    if len(data) > MOST_BYTES:
        raise RecorderError(f"refused: larger than {MOST_BYTES >> 20} MiB")
    try:
        return checked(msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecorderError("cut off or damaged: no whole JSON") from error


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


def checked(data: Any) -> dict[Any, Any]:
    """``data``, if it is a dump.

    Raises:
        RecorderError: it is none, or whoever wrote the file says why there is none.
    """
    if isinstance(data, dict) and data.get("ok") is False and isinstance(data.get("reason"), str):
        raise RecorderError(f"no dump: {visible(data['reason'])[:200]}")
    if (
        not isinstance(data, dict)
        or not isinstance(data.get("version"), str)
        or not ({"entries", "pg_config", "pg_status"} & set(data))
    ):
        raise RecorderError("no flight recorder's dump: no version with entries")
    return data


def entries(dump: dict[Any, Any]) -> Iterator[Entry]:
    """The collectives of a dump, in the order of its buffer; operations between two ranks are left out, and all of a
    dump that is ``uncounted``."""
    numbers = _numbers(dump)
    for order, entry in _listed(dump):
        made = _entry(entry, order)
        if made is not None and numbers is None:
            yield made
        elif made is not None and numbers is not None and order in numbers:
            yield made._replace(seq=numbers[order], label=made.group)


def facts(dump: dict[Any, Any]) -> Facts:
    """What a dump says beside its entries."""
    names = (entry.get("profiling_name") for _, entry in _listed(dump))
    backends = (name.partition(":")[0][:40] for name in names if isinstance(name, str) and ":" in name)
    return Facts(
        version=dump["version"][:20],
        backend=next(backends, ""),
        members=_members(dump.get("pg_config")),
        enqueued=_enqueued(dump.get("pg_status")),
    )


def distinct_groups(members: Mapping[int, Mapping[str, tuple[int, ...]]]) -> dict[tuple[int, str], str]:
    """By rank and group, a name with its members in it where ranks list other ``members`` under the same name, as those
    of the groups of one split do. Groups on which all agree are left out, and ranks of which it is not known.

    >>> distinct_groups({0: {"1": (0, 1)}, 1: {"1": (0, 1)}, 2: {"1": (2, 3)}, 3: {}})
    {(0, '1'): '1 0-1', (1, '1'): '1 0-1', (2, '1'): '1 2-3', (3, '1'): '1 2-3'}
    """
    lists: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    for own in members.values():
        for name, ranks in own.items():
            if ranks and name not in _WHOLE:
                lists[name].add(ranks)
    made = {}
    for name, several in lists.items():
        if len(several) == 1:
            continue
        homes: dict[int, set[str]] = defaultdict(set)
        for ranks in several:
            for rank in ranks:
                homes[rank].add(_with_members(name, ranks))
        for rank, own in members.items():
            named = {_with_members(name, own[name])} if own.get(name) else homes[rank]
            if len(named) == 1:
                made[rank, name] = next(iter(named))
    return made


def _with_members(name: str, ranks: tuple[int, ...]) -> str:
    return f"{name} {min(ranks)}-{max(ranks)}"


def between_two(dump: dict[Any, Any]) -> int:
    """How many of its entries are operations between two ranks."""
    return sum(_between_two(entry) for _, entry in _listed(dump))


def uncounted(dump: dict[Any, Any]) -> bool:
    """Whether the numbers of its collectives cannot be known: one counter has those of all groups, and the buffer has
    lost its first entries or leaves some out."""
    return _numbers(dump) == {}


def _listed(dump: dict[Any, Any]) -> Iterator[tuple[int, dict[Any, Any]]]:
    listed = dump.get("entries")
    for order, entry in enumerate(listed[-_MOST_ENTRIES:] if isinstance(listed, list) else ()):
        if isinstance(entry, dict):
            yield order, entry


def _between_two(entry: dict[Any, Any]) -> bool:
    name = entry.get("profiling_name")
    operation = name[:200].rpartition(":")[2] if isinstance(name, str) else ""
    return entry.get("is_p2p") is True or operation.partition(" ")[0] in _BETWEEN_TWO


def _numbers(dump: dict[Any, Any]) -> dict[int, int] | None:
    """The number of each collective in its group, by position, where one counter numbers those of all groups; none
    where that cannot be known. None where they have numbers of their own."""
    told = [(order, entry, _whole(entry.get("collective_seq_id"))) for order, entry in _listed(dump)]
    if not told or not all(_of_torchcomms(entry) for _, entry, _ in told):
        return None
    numbers = [-1 if number is None else number for _, _, number in told]
    groups = {_text(entry["process_group"][0], 200) for _, entry, _ in told} | set(_members(dump.get("pg_config")))
    if len(groups) == 1 and not any(_between_two(entry) for _, entry, _ in told):
        return {order: number for (order, _, _), number in zip(told, numbers, strict=True)}
    first = numbers[0]
    if first not in (0, 1) or numbers != list(range(first, first + len(numbers))):
        return {}
    counts: Counter[str] = Counter()
    made = {}
    for order, entry, _ in told:
        if not _between_two(entry):
            group = _text(entry["process_group"][0], 200)
            made[order] = first + counts[group]
            counts[group] += 1
    return made


def _of_torchcomms(entry: dict[Any, Any]) -> bool:
    """Whether its group's second name is the backend that its operation's name begins with."""
    name, group = entry.get("profiling_name"), entry.get("process_group")
    if not isinstance(name, str) or not isinstance(group, list | tuple) or len(group) != 2:
        return False
    backend, colon, _ = name.partition(":")
    return bool(colon) and backend == group[1]


def _members(config: Any) -> dict[str, tuple[int, ...]]:
    if not isinstance(config, dict):
        return {}
    made = {}
    for name, group in list(config.items())[:100_000]:
        ranks = group.get("ranks") if isinstance(group, dict) else None
        made[_text(name, 200)] = listed_ranks(ranks)
    return made


def listed_ranks(ranks: Any) -> tuple[int, ...]:
    """The members of a group, as PyTorch writes them: a list, or one in text.

    >>> listed_ranks("[0, 4]"), listed_ranks([0, 4]), listed_ranks(None)
    ((0, 4), (0, 4), ())
    """
    listed = ranks[:RANK_LIMIT] if isinstance(ranks, list) else ()
    text = ranks if isinstance(ranks, str) else " ".join(_text(one, 8) for one in listed)
    return tuple(int(one) for one in re.findall(r"\d{1,7}", text)[:RANK_LIMIT])


def _enqueued(status: Any) -> dict[str, int]:
    if not isinstance(status, dict):
        return {}
    made = {}
    for name, group in list(status.items())[:100_000]:
        last = group.get("last_enqueued_collective") if isinstance(group, dict) else None
        # In JSON these numbers are text.
        last = int(last) if isinstance(last, str) and re.fullmatch(r"[0-9]{1,18}", last) else _whole(last)
        if last is not None:
            made[_text(name, 200)] = last
    return made


def _entry(entry: dict[Any, Any], order: int) -> Entry | None:
    name, group = entry.get("profiling_name"), entry.get("process_group")
    seq = _whole(entry.get("collective_seq_id"))
    if not isinstance(name, str) or seq is None or _between_two(entry):
        return None
    names = (
        [_text(one, 200) for one in group[:2]]
        if isinstance(group, list | tuple) and group
        else [_text(entry.get("pg_id", 0), 200)]
    )
    dtypes = entry.get("input_dtypes")
    created = _whole(entry.get("time_created_ns"))
    return Entry(
        group=names[0],
        label=names[1] if len(names) > 1 and names[1] and names[1] != "undefined" else names[0],
        seq=seq,
        operation=name[:200].rpartition(":")[2],
        numel_in=_numel(entry.get("input_sizes")),
        numel_out=_numel(entry.get("output_sizes")),
        dtype=_text(dtypes[0], 40) if isinstance(dtypes, list | tuple) and dtypes else "",
        done=entry.get("retired") is True or entry.get("state") == "completed",
        started=entry.get("state") in ("started", "completed"),
        frames=_frames(entry.get("frames")),
        order=order,
        created_s=created / 1e9 if created is not None and 0 < created < _LATEST_NS else -1.0,
        took_s=_seconds(entry.get("duration_ms")),
        limit_s=_seconds(entry.get("timeout_ms")),
    )


def _frames(frames: Any) -> list[Frame]:
    if not isinstance(frames, list | tuple):
        return []
    return [
        Frame(_text(one.get("filename"), 1000), _whole(one.get("line")) or 0, _text(one.get("name"), 200))
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


def _seconds(milliseconds: Any) -> float:
    """Milliseconds as seconds; -1 where they are none."""
    if not isinstance(milliseconds, int | float) or isinstance(milliseconds, bool):
        return -1.0
    return milliseconds / 1e3 if 0 <= milliseconds <= _MOST_S * 1e3 else -1.0


def _text(value: Any, most: int) -> str:
    """Words of text and whole numbers; nothing of what may hold itself many times over."""
    return value[:most] if isinstance(value, str) else str(value) if _whole(value) is not None else ""


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62 else None
