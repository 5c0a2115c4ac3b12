"""What the ranks' nodes and devices went through, as columns: one for each reading that anybody has.

Rule of this file: pure; times leave as offsets from the message's ``t0_s``.
"""

import math
from collections.abc import Sequence

from paceline import columns
from paceline.events import Column, ConditionColumns, RankCondition

_VALUES = tuple(name for name in RankCondition.__struct_fields__ if name not in ("rank", "time_s", "span_s"))


def condition_columns(conditions: Sequence[RankCondition], t0_s: float) -> ConditionColumns | None:
    """``conditions`` as columns; None where there is none."""
    if not conditions:
        return None
    values = {name: _column([getattr(one, name) for one in conditions]) for name in _VALUES}
    return ConditionColumns(
        rank=columns.whole([one.rank for one in conditions]),
        time_s=columns.offsets([one.time_s - t0_s for one in conditions]),
        span_s=columns.durations([one.span_s for one in conditions]),
        values={name: column for name, column in values.items() if column is not None},
    )


def _column(values: Sequence[float | None]) -> Column | None:
    measured = [value for value in values if value is not None]
    if not measured:
        return None
    whole = all(isinstance(value, int) and 0 <= value < 2**63 for value in measured)
    if whole and len(measured) == len(values):
        return columns.whole(measured)  # type: ignore[arg-type]
    # Single precision holds no number of bytes.
    return columns.encoded("f8" if whole else "f4", [math.nan if value is None else value for value in values])
