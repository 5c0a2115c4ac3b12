"""The newest forecast of every series and the newest profile of every job.

Rule of this file: pure and bounded. A forecast is held as arrays; what cannot be one is refused here, so that screens
draw what is there. The whole is kept before its parts: of too many series, those of single devices go first.
"""

from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from paceline import events

Array = npt.NDArray[np.float64]
#: Series and jobs that are held; steps, levels and past values of a forecast that is taken.
SERIES, JOBS, STEPS, LEVELS, PAST = 4_000, 2_000, 2_880, 31, 1_000
#: Numbers of all fans together: 128 MB.
CELLS = 16_000_000
LONGEST_STEP_S = 31 * 86_400.0
#: Levels that are no further apart are the same.
SAME = 1e-6
#: Notes that are kept, and their length; scores of intervals.
NOTES, LONGEST, SCORES = 8, 300, 8
#: What is kept longest: names as in the keys of series.
SCOPES = ("cluster", "job", "node", "device")


@dataclass(frozen=True)
class SeriesForecast:
    """A forecast as screens read it. ``fan`` is steps x levels, both ascending; step i (from 1) is at i intervals.

    ``past`` are the newest values, the last at ``time_s``, NaN where nothing was measured; ``naive`` and ``busy`` have
    one number a step, or none. ``at_s`` is when it was published.
    """

    event: events.Forecast
    at_s: float
    scope: str
    levels: Array
    fan: Array
    past: Array
    naive: Array
    busy: Array
    #: The largest number of the fan.
    peak: float

    @property
    def key(self) -> str:
        """The series."""
        return self.event.series

    @property
    def field(self) -> str:
        """What is measured: the last part of the key."""
        return self.key.rsplit("/", 1)[-1]

    @property
    def times_s(self) -> Array:
        """The Unix time of each step."""
        return self.event.time_s + self.event.interval_s * np.arange(1, len(self.fan) + 1, dtype=np.float64)

    @property
    def past_times_s(self) -> Array:
        """The Unix time of each past value."""
        return self.event.time_s - self.event.interval_s * np.arange(len(self.past) - 1, -1, -1, dtype=np.float64)

    def level(self, wanted: float) -> Array | None:
        """The quantile ``wanted`` of each step; None where it was not published."""
        at = int(np.searchsorted(self.levels, wanted - SAME))
        return self.fan[:, at] if at < len(self.levels) and self.levels[at] <= wanted + SAME else None


class ForecastBook:
    """The newest forecast of each series."""

    def __init__(self, most: int = SERIES, cells: int = CELLS) -> None:
        self._most, self._most_cells = most, cells
        self._held: dict[str, SeriesForecast] = {}
        self._cells = 0

    def upsert(self, event: events.Forecast, at_s: float) -> None:
        """Take a forecast that was published at ``at_s``; one older than what is held changes nothing.

        Raises:
            ValueError: it is none that can be drawn, or larger than any that Paceline makes.
        """
        held = self._held.get(event.series)
        if held is not None and (at_s, event.time_s) <= (held.at_s, held.event.time_s):
            return
        taken = self._held[event.series] = _taken(event, at_s)
        self._cells += taken.fan.size - (0 if held is None else held.fan.size)
        if len(self._held) > self._most + self._most // 8 or self._cells > self._most_cells:
            self._make_room()

    def _make_room(self) -> None:
        """Forget the parts before the whole, and the longest unheard of each, until a ninth is free."""
        order = sorted(self._held.values(), key=lambda one: (_place(one.scope), -one.at_s))
        ends = np.cumsum([one.fan.size for one in order])
        kept = min(self._most, int(np.searchsorted(ends, self._most_cells - self._most_cells // 9, side="right")))
        self._held = {one.key: one for one in order[:kept]}
        self._cells = int(ends[kept - 1]) if kept else 0

    def all(self) -> dict[str, SeriesForecast]:
        """Every series by its key; a copy."""
        return dict(self._held)


class ProfileBook:
    """The newest profile of each job, by (cluster, job)."""

    def __init__(self, most: int = JOBS) -> None:
        self._most = most
        self._held: dict[tuple[str, str], tuple[float, events.JobProfile]] = {}

    def upsert(self, event: events.JobProfile, at_s: float) -> None:
        """Take a profile that was published at ``at_s``; an older one changes nothing.

        A job that is launched again under its name may begin at a lower attempt.
        """
        job = (event.cluster, event.job)
        held = self._held.get(job)
        if held is not None and at_s <= held[0]:
            return
        self._held[job] = (at_s, event)
        if len(self._held) > self._most + self._most // 8:
            kept = sorted(self._held.items(), key=lambda item: -item[1][0])[: self._most]
            self._held = dict(kept)

    def all(self) -> dict[tuple[str, str], events.JobProfile]:
        """Every job's; a copy."""
        return {job: profile for job, (_, profile) in self._held.items()}


def scope_of(key: str) -> str:
    """What a series is of: the second part of its key; "other" of one that somebody named."""
    parts = key.split("/")
    return parts[1] if len(parts) > 2 and parts[1] in SCOPES else "other"


def _place(scope: str) -> int:
    return SCOPES.index(scope) if scope in SCOPES else len(SCOPES)


def _taken(event: events.Forecast, at_s: float) -> SeriesForecast:
    """The forecast as arrays, and the event without what they hold."""
    if not event.values or event.interval_s <= 0:
        raise ValueError("a forecast without steps, or without time between them")
    if event.interval_s > LONGEST_STEP_S:
        raise ValueError("a forecast with more than a month between steps")
    if len(event.values) > STEPS or len(event.levels) > LEVELS:
        raise ValueError(f"a forecast of more than {STEPS} steps or {LEVELS} levels")
    if any(len(row) != len(event.levels) for row in event.values) or not event.levels:
        raise ValueError("a forecast whose rows are not one number a level")
    if not all(0.0 < level < 1.0 for level in event.levels):
        raise ValueError("a forecast with a level that is no probability")
    levels, at = np.unique(np.array(event.levels, np.float64), return_index=True)
    # Quantiles that cross are no distribution; sorted they are the nearest that is one.
    fan = np.sort(np.array(event.values, np.float64)[:, at], axis=1)
    naive, busy = (_a_step(numbers, len(fan)) for numbers in (event.naive_values, event.busy_ratio or []))
    past = np.array([np.nan if value is None else value for value in event.recent_values[-PAST:]], np.float64)
    notes = [note[:LONGEST] for note in event.notes[:NOTES]]
    scores = [_score(one) for one in event.interval_scores[:SCORES] if one.steps > 0 and _ratios([one.inside_80_ratio])]
    small = {"levels": [], "values": [], "recent_values": [], "naive_values": [], "busy_ratio": None, "notes": notes}
    return SeriesForecast(
        event=msgspec.structs.replace(event, interval_scores=scores, **small),
        at_s=at_s,
        scope=scope_of(event.series),
        levels=levels,
        fan=fan,
        past=past,
        naive=naive,
        busy=np.clip(busy, 0.0, 1.0),
        peak=float(fan.max()),
    )


def _score(one: events.IntervalScore) -> events.IntervalScore:
    """Without its shares where they are not one a level, each of them from 0 to 1 and ascending."""
    rows = (one.levels, one.below_ratios)
    if len(one.levels) == len(one.below_ratios) <= LEVELS and all(_ratios(row) and row == sorted(row) for row in rows):
        return one
    return msgspec.structs.replace(one, levels=[], below_ratios=[])


def _ratios(numbers: list[float]) -> bool:
    return all(0.0 <= number <= 1.0 for number in numbers)


def _a_step(numbers: list[float], steps: int) -> Array:
    """One number a step, or none where there are not as many."""
    return np.array(numbers if len(numbers) == steps else [], np.float64)
