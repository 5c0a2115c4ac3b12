"""A job's messages as its sidecars would send them if its ranks told only every so many steps, on purpose.

Rule of this file: it thins what was told whole; what is judged then is of the same job as before.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np

from paceline import columns
from paceline.events import Column, OpTimings, Speakers, StepTimings
from streams.raw_columns import array
from streams.step_rows import step_rows

#: Every how many steps a rank tells one, from this step on.
Period = Callable[[int, int], int]


def thinned(event: Any, period: Period) -> Any:
    """``event`` with the steps alone that its ranks tell; OpTimings become StepTimings."""
    if isinstance(event, OpTimings):
        event = _wide(event)
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


def _wide(event: OpTimings) -> StepTimings:
    """What a sidecar of this version tells of the same."""
    rows = step_rows([event])
    starts = np.nan_to_num(rows.start_s - event.t0_s).tolist()
    phases = {word: columns.durations(seconds.tolist()) for word, seconds in _phases(rows)}
    return StepTimings(
        cluster=event.cluster,
        producer=event.producer,
        sequence=event.sequence,
        job=event.job,
        attempt=event.attempt,
        node=event.node,
        t0_s=event.t0_s,
        speakers=Speakers(
            ranks=columns.whole(event.ranks), world_sizes=columns.whole(event.world_sizes), devices=event.devices
        ),
        rank=columns.whole(rows.rank.tolist()),
        step=columns.whole(rows.step.tolist()),
        start_s=columns.offsets(starts),
        step_s=columns.durations(rows.seconds[-1].tolist()),
        phases=phases,
    )


def _phases(rows: Any) -> Iterator[tuple[str, Any]]:
    from paceline.events import OPS

    yield from ((word, seconds) for word, seconds in zip(OPS[:-1], rows.seconds[:-1], strict=True))
