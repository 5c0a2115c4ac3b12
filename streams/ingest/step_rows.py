"""The rows of a few messages of phases as arrays, a row a rank and step, made once for all that read them.

Rule of this file: pure.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from paceline.columns import rows
from paceline.events import LATEST_S, MOST_LEFT_OUT, OP_INDEX, OPS, OVERLAYS, STEP, StepTimings

from ..limits import ABSURD_S
from ..raw_columns import Floats, Ints, array, floats, joined, unknown, whole

#: The row of the whole step among ``OPS``.
TOTAL = OP_INDEX[STEP]
_OVERLAYS = [OP_INDEX[name] for name in OVERLAYS]


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
    in several rows, which add up. ``unknown`` counts what was told of ops that are not in ``OPS``. ``left_out`` steps
    right after the row's own are left out by its rank on purpose.
    """

    rank: Ints
    step: Ints
    start_s: Floats
    seconds: Floats
    microbatches: MicrobatchRows
    left_out: Ints
    unknown: int = 0


def step_rows(messages: Sequence[StepTimings]) -> StepRows:
    """The rows of ``messages``."""
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
    made = StepRows(rank, step, start_s, seconds, _microbatches(messages), left_out_of(messages), strange)
    for column in (*made[:4], *made.microbatches, made.left_out):
        column.flags.writeable = False
    return made


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
