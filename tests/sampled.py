"""A job's messages as its sidecars would send them if its ranks told only every so many steps, on purpose.

Rule of this file: it thins what was told whole; what is judged then is of the same job as before.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from paceline import columns
from paceline.events import Column, StepTimings
from streams.raw_columns import array

#: Every how many steps a rank tells one, from this step on.
Period = Callable[[int, int], int]


def thinned(event: Any, period: Period) -> Any:
    """``event`` with the steps alone that its ranks tell."""
    if not isinstance(event, StepTimings):
        return event
    rank, step = array(event.rank).astype(int), array(event.step).astype(int)
    pairs = list(zip(rank.tolist(), step.tolist(), strict=True))
    kept = np.array([at % period(one, at) == 0 for one, at in pairs], dtype=bool)
    left_out = np.array([_left_out(one, at, period) for one, at in pairs], dtype=int)[kept].tolist()
    changed: dict[str, Any] = {
        name: _only(getattr(event, name), kept) for name in ("rank", "step", "start_s", "step_s")
    }
    changed["phases"] = {word: _only(column, kept) for word, column in event.phases.items()}
    changed["left_out"] = columns.whole(left_out) if any(left_out) else None
    if event.microbatches is not None:
        changed["microbatches"] = _microbatches(event.microbatches, period)
    if event.collectives is not None:
        changed["collectives"] = _collectives(event, period)
    return msgspec.structs.replace(event, **changed)


def _left_out(rank: int, step: int, period: Period) -> int:
    """Steps until the next that ``rank`` tells."""
    told = (after for after in range(64) if (step + after + 1) % period(rank, step + after + 1) == 0)
    return next(told, 0)


def _only(column: Column, kept: Any) -> Column:
    values = array(column)[kept]
    return Column(column.type, values.tobytes())


def _microbatches(told: Any, period: Period) -> Any:
    rank, step = array(told.rank).tolist(), array(told.step).tolist()
    kept = np.array([at % period(one, at) == 0 for one, at in zip(rank, step, strict=True)], dtype=bool)
    return type(told)(**{name: _only(getattr(told, name), kept) for name in told.__struct_fields__})


def _collectives(event: StepTimings, period: Period) -> Any:
    """Sums are of steps that all ranks of the node told; of the waiting of a span as much is left."""
    told: Any = event.collectives
    ranks = array(event.speakers.ranks).tolist()
    step = array(told.step).tolist()
    kept = np.array([all(at % period(rank, at) == 0 for rank in ranks) for at in step], dtype=bool)
    names = ("step", "group", "operation", "count", "members", "bytes", "wait_s", "duration_s")
    changed: dict[str, Any] = {name: _only(getattr(told, name), kept) for name in names}
    shares = np.array([_share(event, rank, period) for rank in array(told.span_rank).tolist()])
    heard = shares > 0
    changed |= {name: _only(getattr(told, name), heard) for name in ("span_rank", "span_first_s", "span_last_s")}
    changed["span_waited_s"] = columns.durations((array(told.span_waited_s) * shares)[heard].tolist())
    return msgspec.structs.replace(told, **changed)


def _share(event: StepTimings, rank: int, period: Period) -> float:
    """The share of the steps of ``rank`` in ``event`` that it tells."""
    steps = array(event.step)[array(event.rank) == rank].tolist()
    return sum(at % period(rank, at) == 0 for at in steps) / max(len(steps), 1)
