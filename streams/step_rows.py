"""The rows of a few messages of phases as arrays, a row a rank and step, made once for all that read them.

Rule of this file: pure. OpTimings, which had a row an op, are widened here; nothing behind this file knows of them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.columns import rows
from paceline.events import LATEST_S, MOST_LEFT_OUT, OP_INDEX, OPS, OVERLAYS, STEP, OpTimings, StepTimings

from .limits import ABSURD_S
from .raw_columns import Floats, Ints, array, floats, joined, unknown, whole
from .runs import lengths, starts

PhaseTimings = OpTimings | StepTimings

#: The row of the whole step among ``OPS``.
TOTAL = OP_INDEX[STEP]
_OVERLAYS = [OP_INDEX[name] for name in OVERLAYS]
_PASSES = (OP_INDEX["forward"], OP_INDEX["backward"])
#: An op that no table has.
UNKNOWN = -1


class MicrobatchRows(NamedTuple):
    """Equally long columns: micro-batches, with their seconds in forward and backward; NaN is not told."""

    rank: Ints
    step: Ints
    microbatch: Ints
    forward_s: Floats
    backward_s: Floats


_NONE, _NO_SECONDS = np.empty(0, dtype=np.int64), np.empty(0)
_NO_MICROBATCHES = MicrobatchRows(_NONE, _NONE, _NONE, _NO_SECONDS, _NO_SECONDS)


class StepRows(NamedTuple):
    """Equally long columns in the messages' order, read only. Starts are absolute, each on its node's clock; NaN is not
    told.

    ``seconds`` has shape (len(OPS), rows): NaN where a rank tells nothing of an op in a step. A rank and step may stand
    in several rows, which add up. ``unknown`` counts what was told of ops that are not in ``OPS``, ``impossible`` what
    took less than no time. ``left_out`` steps right after the row's own are left out by its rank on purpose.
    """

    rank: Ints
    step: Ints
    start_s: Floats
    seconds: Floats
    microbatches: MicrobatchRows
    left_out: Ints
    unknown: int = 0
    impossible: int = 0


def step_rows(messages: Sequence[PhaseTimings]) -> StepRows:
    """The rows of ``messages``, which must be of one version or the other, or of both."""
    wide = [message for message in messages if isinstance(message, StepTimings)]
    narrow = [message for message in messages if isinstance(message, OpTimings)]
    if not narrow:
        made = _of_steps(wide)
    elif not wide:
        made = _of_ops(narrow)
    else:
        made = _together(_of_ops(narrow), _of_steps(wide))
    for column in (*made[:4], *made.microbatches, made.left_out):
        column.flags.writeable = False
    return made


def _of_steps(messages: Sequence[StepTimings]) -> StepRows:
    sizes = [rows(message.rank) for message in messages]
    total = sum(sizes)
    seconds = np.full((len(OPS), total), np.nan)
    told = {word for message in messages for word in message.phases}
    if words := list(told & OP_INDEX.keys() - {STEP}):
        each = list(zip(messages, sizes, strict=True))
        columns = [one.phases.get(word) or unknown(size) for word in words for one, size in each]
        seconds[[OP_INDEX[word] for word in words]] = joined(columns).reshape(len(words), total)
    seconds[TOTAL] = joined([message.step_s for message in messages])
    strange = 0
    if told - OP_INDEX.keys():
        strange = sum(
            size * len(message.phases.keys() - OP_INDEX.keys()) for message, size in zip(messages, sizes, strict=True)
        )
    if not told.isdisjoint(OVERLAYS):
        _within_step(seconds)
    start_s = floats([message.start_s for message in messages])
    start_s += messages[0].t0_s if len(messages) == 1 else np.repeat([message.t0_s for message in messages], sizes)
    possible = (start_s >= 0.0) & (start_s <= LATEST_S)
    if np.count_nonzero(possible) < total:
        start_s[~possible] = np.nan
    rank, step = whole([message.rank for message in messages]), whole([message.step for message in messages])
    return StepRows(rank, step, start_s, seconds, _microbatches(messages), left_out_of(messages), strange)


def _microbatches(messages: Sequence[StepTimings]) -> MicrobatchRows:
    parts = [message.microbatches for message in messages if message.microbatches is not None]
    if not parts:
        return _NO_MICROBATCHES
    return MicrobatchRows(
        whole([part.rank for part in parts]),
        whole([part.step for part in parts]),
        whole([part.microbatch for part in parts]),
        floats([part.forward_s for part in parts]),
        floats([part.backward_s for part in parts]),
    )


def _within_step(seconds: Floats) -> None:
    """Bound what lies inside phases by its step, where the row has that; who sent it may have counted wrongly. What no
    step can last stays, to be dropped as impossible: it is no measurement of a whole step."""
    inside = seconds[_OVERLAYS]
    over = (inside > seconds[TOTAL]) & (inside <= ABSURD_S)
    seconds[_OVERLAYS] = np.where(over, seconds[TOTAL], inside)


def left_out_of(messages: Sequence[StepTimings]) -> Ints:
    """How many steps the rank of each row of ``messages`` leaves out right after it; what cannot be is bounded."""
    sizes = [rows(message.rank) for message in messages]
    parts = [message.left_out for message in messages]
    if all(part is None for part in parts):
        return np.zeros(sum(sizes), dtype=np.int64)
    told = [np.zeros(size) if part is None else array(part) for part, size in zip(parts, sizes, strict=True)]
    return np.clip(np.concatenate(told).astype(np.int64), 0, MOST_LEFT_OUT)


class OpRows(NamedTuple):
    """Equally long columns of rows an op. ``op`` indexes ``OPS``, ``UNKNOWN`` for any other word."""

    rank: Ints
    step: Ints
    op: Ints
    microbatch: Ints
    start_s: Floats
    duration_s: Floats


def _of_ops(messages: Sequence[OpTimings]) -> StepRows:
    def joined(name: str, dtype: Any) -> NDArray[Any]:
        return np.concatenate([np.array(getattr(message, name), dtype=dtype) for message in messages])

    start_s = np.concatenate([np.array(one.start_s, dtype=np.float64) + one.t0_s for one in messages])
    op = np.concatenate([_ops(message) for message in messages])
    ints = (joined("rank", np.int64), joined("step", np.int64), op, joined("microbatch", np.int64))
    return widened(OpRows(*ints, start_s, joined("duration_s", np.float64)))


def widened(narrow: OpRows) -> StepRows:
    """Rows an op as rows a rank and step, in the order in which these first come."""
    strange, possible = narrow.op < 0, (narrow.duration_s >= 0) & np.isfinite(narrow.duration_s)
    left_out = (int(strange.sum()), int((~possible & ~strange).sum()))
    if any(left_out):
        narrow = OpRows(*(column[possible & ~strange] for column in narrow))  # type: ignore[arg-type]
    rank, step, op, _, start_s, duration_s = narrow
    first, at = _cells(rank, step)
    seconds = np.zeros((len(OPS), first.size))
    told = np.zeros(seconds.shape, dtype=bool)
    np.add.at(seconds, (op, at), duration_s)
    told[op, at] = True
    seconds[~told] = np.nan
    _within_step(seconds)
    starts = np.full(first.size, np.nan)
    np.fmin.at(starts, at, start_s)
    closing = op == TOTAL
    starts[at[closing]] = start_s[closing]
    none = np.zeros(first.size, dtype=np.int64)
    return StepRows(rank[first], step[first], starts, seconds, _passes(narrow), none, *left_out)


def _cells(rank: Ints, step: Ints) -> tuple[Ints, Ints]:
    """Where each rank and step first comes, and for every row the number of its own among these."""
    order = np.lexsort((step, rank))
    begin = starts(rank[order], step[order])
    first = order[begin]  # those of one cell keep their order
    by_appearance = np.argsort(first)
    number = np.empty(rank.size, dtype=np.int64)
    number[order] = np.repeat(np.argsort(by_appearance), lengths(begin, rank.size))
    return first[by_appearance], number


def _passes(narrow: OpRows) -> MicrobatchRows:
    """The rows of micro-batches, one of each pass."""
    mine = (narrow.microbatch >= 0) & ((narrow.op == _PASSES[0]) | (narrow.op == _PASSES[1]))
    back, took = narrow.op[mine] == _PASSES[1], narrow.duration_s[mine]
    return MicrobatchRows(
        narrow.rank[mine],
        narrow.step[mine],
        narrow.microbatch[mine],
        np.where(back, np.nan, took),
        np.where(back, took, np.nan),
    )


def _ops(batch: OpTimings) -> Ints:
    words = np.array([*(OP_INDEX.get(name, UNKNOWN) for name in batch.ops), UNKNOWN], dtype=np.int64)
    op = np.array(batch.op, dtype=np.int64)
    return words[np.where((op >= 0) & (op < len(batch.ops)), op, len(batch.ops))]


def _together(left: StepRows, right: StepRows) -> StepRows:
    pairs = zip(left.microbatches, right.microbatches, strict=True)
    return StepRows(
        np.concatenate([left.rank, right.rank]),
        np.concatenate([left.step, right.step]),
        np.concatenate([left.start_s, right.start_s]),
        np.concatenate([left.seconds, right.seconds], axis=1),
        MicrobatchRows(*(np.concatenate(pair) for pair in pairs)),
        np.concatenate([left.left_out, right.left_out]),
        left.unknown + right.unknown,
        left.impossible + right.impossible,
    )
