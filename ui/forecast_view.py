"""What a forecast says, in words and few numbers: its name, how far it is trusted, when something is reached.

Rule of this file: pure. Numbers come from other processes: whatever is too large, missing or not a number has a word.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from paceline import events
from paceline.series_words import FIELDS, field_words
from paceline.words import LONGEST_NAME, NONE, digits, is_undated, scale

from .forecast_book import SCOPES, SeriesForecast
from .moments import length
from .snapshot import name_of
from .wording import ratio

Tone = Literal["good", "wait", "lost", "ended"]
#: What a forecaster calls the forecasts that its back-test compares with.
NAIVE = ("naive", "seasonal_naive")
#: A loss within this share of another is no difference.
TIE = 0.01
#: A loss below, in the unit that is shown, is shown as 0.00.
SHOWN = 0.005
#: The least stretch of free GPUs that is worth naming, as a share of what the forecast sees, and its longest.
STRETCH_SHARE, STRETCH_S = 0.25, 3600.0
#: Fewer values that came say nothing of how often intervals hold.
FEWEST_SCORED = 20
#: Numbers beyond are told by their power of ten.
LARGE = 1e6


@dataclass(frozen=True)
class Badge:
    """How far a forecast is trusted: two words, none where there is nothing to compare, and a sentence."""

    tone: Tone
    title: str
    text: str


@dataclass(frozen=True)
class Stretch:
    """The best stretch of a forecast: mean median, and mean 10 % and 90 % levels where there are some."""

    start_s: float
    end_s: float
    median: float
    low: float | None
    high: float | None


class Named(NamedTuple):
    """How a series is listed: its name, its place among all, and the text that a search looks into."""

    label: str
    place: tuple[int, str, int, str]
    text: str


def label(one: SeriesForecast) -> str:
    """A series as people name it: whose it is, and what is measured."""
    return _of(one).label


def listed(forecasts: Iterable[SeriesForecast], words: str = "") -> list[SeriesForecast]:
    """Those whose key or name has all ``words``, the whole before its parts."""
    wanted = words.casefold().split()
    named = [(_of(one), one) for one in forecasts]
    kept = [(name.place, one) for name, one in named if all(word in name.text for word in wanted)]
    return [one for _, one in sorted(kept, key=lambda item: item[0])]


def _of(one: SeriesForecast) -> Named:
    return _named(one.key, one.scope, one.event.job or "", one.event.node or "", one.event.device or "")


def _named(key: str, scope: str, job: str, node: str, device: str) -> Named:
    parts = key.split("/")
    within, field = "/".join(parts[2:-1]), parts[-1]
    match scope:
        case "cluster":
            whose = f"cluster {parts[0]}"
        case "job":
            whose = f"job {name_of(parts[0], job or within)}"
        case "node":
            whose = f"node {node or within}"
        case "device":
            whose = f"GPU {device or parts[-2]} of {node or parts[2]}"
        case _:
            whose = ""
    measured = _short(field_words(field))
    name = f"{_short(whose)}: {measured}" if whose else _short(key)
    place = (_place(scope, SCOPES), whose, _place(field, tuple(FIELDS)), key)
    return Named(name, place, f"{key} {name}".casefold())


def job_of(one: SeriesForecast) -> str | None:
    """The job that a series belongs to, as the page names jobs."""
    return name_of(one.event.cluster, one.event.job) if one.event.job else None


def scale_of(one: SeriesForecast) -> tuple[float, str]:
    """What its numbers are divided by for a person to read, and the unit then."""
    unit, largest = one.event.unit, float(np.nanmax(np.abs(one.fan)))
    if unit.startswith("ratio"):
        return 0.01, "%"
    if unit in ("bytes", "bytes/s"):
        return scale(largest, unit)
    if unit == "s" and largest < 2.0:
        return 1e-3, "ms"
    if unit == "W" and largest >= 1e4:
        return 1e3, "kW"
    return 1.0, unit[:20]


def amount(one: SeriesForecast, value: float | None) -> str:
    """A value of the series with its unit."""
    if value is None or value != value:
        return NONE
    divisor, unit = scale_of(one)
    shown = value / divisor
    if unit == "%":
        return f"{shown:.0f} %"
    if unit == "GPUs":
        return f"{shown:,.0f} GPUs" if abs(shown) < LARGE else f"{shown:.2g} GPUs"
    return f"{_sign(shown)} {unit}".strip()


def badge(one: SeriesForecast) -> Badge:
    """How the forecast did against the naive one at earlier moments, and whether it was withheld."""
    test = one.event.backtest
    if test.loss is None or test.naive_loss is None:
        # The notes, which stand below it, have the reason.
        return Badge("wait", "not back-tested", "Use it with care: no earlier forecast was compared with what came.")
    divisor, unit = scale_of(one)
    own, naive = test.loss / divisor, test.naive_loss / divisor
    tried = f"Back-test at {test.moments} earlier moment{'s'[: test.moments - 1]}, {test.steps} steps ahead"
    losses = f"loss {_sign(own)} against {_sign(naive)} {unit}".rstrip() + f" of the naive forecast{_repeats(one)}"
    if test.coverage_80_ratio is not None:
        losses += f"; the 80 % interval held {ratio(test.coverage_80_ratio)}"
    told = f"{tried}: {losses}."
    if max(own, naive) < SHOWN:
        return Badge("ended", "", f"Both had no error that matters. {told}")
    if test.loss > test.naive_loss * (1.0 + TIE):
        return Badge("lost", "worse than naive", f"Do not rely on it. {told}")
    if one.event.model in NAIVE and any("lost to" in note for note in one.event.notes):
        words = "Our models were worse than the naive forecast on this series, so you see the naive forecast."
        return Badge("lost", "worse than naive: withheld", f"{words} {told}")
    if any("lost to" in note for note in one.event.notes):
        return Badge(
            "wait",
            "partly naive",
            f"Our models were worse than the naive forecast on this series, so it is mixed in. {told}",
        )
    gain = 1.0 - test.loss / test.naive_loss if test.naive_loss > 0 else 0.0
    if gain <= TIE:
        return Badge("wait", "as good as naive", told)
    return Badge("good", f"{ratio(gain)} better than naive", told)


def scored(one: SeriesForecast) -> list[events.IntervalScore]:
    """How what was published of it did, of those steps ahead after which enough values came."""
    return [score for score in one.event.interval_scores if score.values >= FEWEST_SCORED]


def held_words(one: SeriesForecast) -> str:
    """How often the 80 % intervals that were published of it held, by how far ahead; "" before enough values came."""
    held = [f"{ratio(score.inside_80_ratio)} {ahead(one, score)}" for score in scored(one)]
    return f"Published 80 % intervals held: {', '.join(held)}." if held else ""


def ahead(one: SeriesForecast, score: events.IntervalScore) -> str:
    """How far ahead of the forecast's newest value the score looks."""
    return f"{length(score.steps * one.event.interval_s)} ahead"


def _repeats(one: SeriesForecast) -> str:
    """What the naive forecast that is drawn repeats; "" where none was sent."""
    if not one.naive.size:
        return ""
    return " (the last value)" if float(np.ptp(one.naive)) == 0.0 else " (the same moment a season before)"


def best_stretch(one: SeriesForecast) -> Stretch | None:
    """When most is free: the stretch with the highest median, an hour long, or a quarter of a shorter forecast."""
    median = one.level(0.5)
    if median is None or not np.isfinite(median).all():
        return None
    steps = len(median)
    wanted = min(STRETCH_S, max(1.0, steps * STRETCH_SHARE) * one.event.interval_s)
    width = min(steps, max(1, round(wanted / one.event.interval_s)))
    means = np.convolve(median, np.full(width, 1.0 / width), mode="valid")
    first = int(np.argmax(means >= means.max() - 1e-9))
    span = slice(first, first + width)
    low, high = (None if (level := one.level(at)) is None else float(level[span].mean()) for at in (0.1, 0.9))
    start_s = one.event.time_s + one.event.interval_s * first
    return Stretch(start_s, start_s + width * one.event.interval_s, float(means[first]), low, high)


def reaches(one: SeriesForecast, limit: float) -> tuple[float | None, float | None]:
    """When the series is at ``limit``: Unix times at which one future in ten is, and at which half of them are."""
    first: list[float | None] = []
    for at in (0.9, 0.5):
        level = one.level(at)
        places = np.flatnonzero(level >= limit) if level is not None else np.array([], np.int64)
        first.append(float(one.times_s[places[0]]) if places.size else None)
    return first[0], first[1]


def filling(forecasts: Iterable[SeriesForecast]) -> list[tuple[SeriesForecast, float | None, float | None]]:
    """Memories that may be full within their forecast, the soonest first: the series and ``reaches``."""
    found = []
    for one in forecasts:
        if one.field.endswith("_used_bytes") and one.event.maximum:
            full = one.event.maximum * (1.0 - 1e-6)
            early_s, half_s = reaches(one, full) if one.peak >= full else (None, None)
            if early_s is not None:
                found.append((one, early_s, half_s))
    return sorted(found, key=lambda item: (item[2] or np.inf, item[1] or np.inf))


def staleness(one: SeriesForecast, now_s: float) -> str:
    """What is odd about the forecast's times: that it is old, or made by a clock that is ahead; "" where nothing is."""
    if is_undated(one.event.time_s, now_s):
        return "Its values have no date: times count from 0."
    behind = now_s - one.event.time_s
    if behind < -300.0:
        return f"Its newest value is {length(-behind)} ahead of this page's clock. Synchronise the clocks."
    if behind > max(300.0, 5.0 * one.event.interval_s):
        return f"Its newest value is {length(behind)} old: the forecaster or the collector is behind, or has stopped."
    return ""


def _sign(value: float) -> str:
    if abs(value) >= LARGE:
        return f"{value:.2e}"
    return digits(value) if value >= 0 else f"-{digits(-value)}"


def _place(word: str, words: tuple[str, ...]) -> int:
    return words.index(word) if word in words else len(words)


def _short(name: str) -> str:
    return name if len(name) <= 2 * LONGEST_NAME else name[: 2 * LONGEST_NAME] + "…"
