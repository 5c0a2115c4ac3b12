"""The bound on the ranks of one job: what a message says of ranks beyond it is left out, whatever the message says.

Rule of this file: pure. Ranks are numbered from 0 without gaps, so a bound on the number bounds the ranks. Every table
of a job is as long as it has ranks: without a bound one job takes the memory of all.
"""

from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from paceline.events import CollectiveCalls, Column, RankFacts, StepTimings

from ..raw_columns import array, whole

Timings = TypeVar("Timings", bound=StepTimings | CollectiveCalls)

#: The columns with an entry a rank, those with an entry a row, and the lists of a StepTimings of what has a rank.
_OF_RANKS = ("ranks", "world_sizes", "devices", "dp", "tp", "pp")
_OF_ROWS: dict[Any, tuple[str, ...]] = {
    StepTimings: ("rank", "step", "start_s", "step_s", "phases", "left_out"),
    CollectiveCalls: ("rank", "step", "seq", "group", "operation", "bytes", "start_s", "duration_s", "wait_s"),
}
ONE_BY_ONE = ("open", "looks", "ends", "breakdowns")
#: Parts of a StepTimings: in each, the column of the rank, and those that have its rows.
_PARTS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "microbatches": (("rank", ("rank", "step", "microbatch", "forward_s", "backward_s")),),
    "conditions": (("rank", ("rank", "time_s", "span_s", "values")),),
    "collectives": (
        ("reached_rank", ("reached_rank", "reached_group", "reached_seq")),
        ("span_rank", ("span_rank", "span_first_s", "span_last_s", "span_waited_s")),
    ),
}


def within(message: Timings, most: int) -> tuple[Timings, int]:
    """``message`` about ranks below ``most`` alone, and how many ranks it tells of are beyond that.

    A row of a rank that the message does not speak for is no rank: the tables refuse it, and say so.
    No rank believes the world to be larger than ``most``: nobody waits for ranks that are left out.
    """
    ranks, worlds = whole([message.speakers.ranks]), whole([message.speakers.world_sizes])
    single = {name: getattr(message, name, []) for name in ONE_BY_ONE}
    possible = _possible(message.speakers.ranks, most)
    facts = getattr(message, "facts", None)
    told = [*ranks.tolist(), *(one.rank for ones in single.values() for one in ones), *(facts.ranks if facts else [])]
    if possible.all() and max(told, default=-1) < most and not (worlds > most).any():
        return message, 0
    speakers = _only(message.speakers, _OF_RANKS, possible)
    capped = np.clip(whole([speakers.world_sizes]), 0, most)
    changed: dict[str, Any] = {"speakers": msgspec.structs.replace(speakers, world_sizes=_column(capped))}
    for name, ones in single.items():
        if ones:
            changed[name] = [one for one in ones if one.rank < most]
    if facts:
        changed["facts"] = _facts_within(facts, most)
    for name, tables in _PARTS.items():
        part = getattr(message, name, None)
        for rank, names in tables if part is not None else ():
            part = _only(part, names, _possible(getattr(part, rank), most))
        changed |= {name: part} if part is not None else {}
    rows = _OF_ROWS[type(message)]
    kept = _only(msgspec.structs.replace(message, **changed), rows, _possible(message.rank, most))
    return kept, max(0, max(told, default=-1) + 1 - most)


def _facts_within(facts: RankFacts, most: int) -> RankFacts:
    kept = [rank < most for rank in facts.ranks]
    words = {name: [one for one, keep in zip(said, kept, strict=True) if keep] for name, said in facts.words.items()}
    return RankFacts(ranks=[rank for rank in facts.ranks if rank < most], words=words)


def _possible(ranks: Column, most: int) -> NDArray[np.bool_]:
    """Which of ``ranks`` are below ``most``; those that are no number of a rank are not."""
    numbers = whole([ranks])
    return np.asarray((numbers >= 0) & (numbers < most))


def _only(part: Any, names: tuple[str, ...], keep: NDArray[np.bool_]) -> Any:
    """``part`` with the rows of its columns ``names`` that are kept."""
    changed: dict[str, Any] = {}
    for name in names:
        value = getattr(part, name)
        if isinstance(value, Column):
            changed[name] = _column(array(value)[keep])
        elif isinstance(value, dict):
            changed[name] = {word: _column(array(column)[keep]) for word, column in value.items()}
        elif isinstance(value, list):
            changed[name] = [one for one, kept in zip(value, keep.tolist(), strict=True) if kept]
    return msgspec.structs.replace(part, **changed)


def _column(numbers: NDArray[Any]) -> Column:
    return Column(numbers.dtype.str[1:], numbers.tobytes())  # type: ignore[arg-type]
