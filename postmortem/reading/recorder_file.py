"""A flight recorder's dump to statements: its groups and members, and the rank's collectives.

Rule of this file: pure. What a dump holds, and what is refused, is ``paceline.flight_recorder``'s business.
"""

from typing import Any

from paceline.flight_recorder import RecorderError, checked, entries, facts, uncounted

from ..evidence import Call, Dump, Place, Source, Statement
from ..places import innermost


def statements(data: Any, name: str, rank: int | None) -> list[Statement]:
    """What a dump says.

    Raises:
        RecorderError: it is no dump, or nothing says whose it is.
    """
    read = checked(data)
    if rank is None:
        raise RecorderError("no rank in its name: a dump's name has it, as nccl_trace_rank_3")
    source, said = Source("fr", name), facts(read)
    dump = Dump(
        rank=rank,
        source=source,
        version=said.version,
        backend=said.backend,
        members=said.members,
        enqueued=said.enqueued,
        counted=not uncounted(read),
    )
    calls = [
        Call(
            rank=rank,
            source=source,
            group=one.group,
            label=one.label,
            seq=one.seq,
            operation=one.operation,
            numel_in=one.numel_in,
            numel_out=one.numel_out,
            dtype=one.dtype,
            done=one.done,
            started=one.started,
            place=innermost([Place(*frame) for frame in one.frames]),
            order=one.order,
        )
        for one in entries(read)
    ]
    return [dump, *calls]
