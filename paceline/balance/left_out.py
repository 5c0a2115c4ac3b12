"""Which numbers of samples to try, where more may be left out of a global batch than can be tried one by one.

Rule of this file: pure, and without logarithms or exponentials, as all that every rank must agree on to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .worker import Row

#: Numbers of tiles that are tried one by one.
MOST_TRIED = 8192
#: A smaller batch must do more samples a second by more than rounding does.
_BETTER = 1 - 1e-9
#: Tiles a second are added and taken away again as whole numbers of this: floats would lose the slow beside the fast.
_SCALE = 2.0**100


def tried(rows: Sequence[Row], fewest: int, units: int) -> tuple[int, int]:
    """The numbers of tiles, from and to, among which the one with the most tiles a second is looked for.

    ``fewest`` to ``units`` where these are few. Else those around the best were tiles divisible: what all together
    hold by a time is then made of straight pieces, along each of which tiles a second only rise or only fall, so the
    best lies where a worker joins in, where one is full, or at an end. A worker that holds whole tiles holds less by
    up to one: with n workers and m tiles the answer is as good as the best of all but for a part n/m.
    O(n log n), whatever the numbers.

    >>> tried([Row(0.0, 1.0, 1.0, 1, 40), Row(0.0, 9.0, 9.0, 1, 40)], 2, 50)
    (2, 50)
    """
    if units - fewest <= MOST_TRIED:
        return fewest, units
    best, at = float("inf"), units
    for time, count in _ends(rows, fewest, units):
        if time / count <= best / _BETTER:
            best, at = min(best, time / count), int(count)
    first = min(max(fewest, at - MOST_TRIED // 2), units - MOST_TRIED)
    return first, first + MOST_TRIED


def _ends(rows: Sequence[Row], fewest: int, units: int) -> Iterator[tuple[float, float]]:
    """The ends of the straight pieces between ``fewest`` and ``units``: a time, and tiles held by then; rising."""
    time = max((row.fixed_s + row.tile_s * row.least for row in rows if row.least), default=0.0)
    pace, count, turns = 0, float(sum(row.least for row in rows)), []
    for row in rows:
        each = int(_SCALE / row.tile_s)
        joins, full = (row.fixed_s + row.tile_s * bound for bound in (row.least, row.most))
        # Until the slowest has done what it must, the others get on: how far they are by then is where it begins.
        count += min(max((time - joins) / row.tile_s, 0.0), row.most - row.least)
        pace += each if joins <= time < full else 0
        turns += [(at, change) for at, change in ((joins, each), (full, -each)) if at > time]
    turns.sort()
    if count >= fewest:
        yield time, min(count, units)
    for at, change in turns:
        speed, before = pace / _SCALE, count
        count += speed * (at - time)
        for end in (fewest, units):
            if before < end < count:
                yield time + (end - before) / speed, end
        if fewest <= count <= units:
            yield at, count
        time, pace = at, pace + change
