"""Suggestions as a terminal shows them: the newest revision of each, what is open and brings most first.

Rule of this file: pure. Texts are of other processes and may be of any length; whoever prints them makes them visible.
"""

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches

from paceline import wire
from paceline.events import CLOSED_SUGGESTIONS, SEVERITY_ORDER, Effect, Gain, Suggestion
from paceline.own_host import here
from paceline.topics import SUGGESTION
from paceline.words import age

#: Suggestions that are kept, and lines of one that are shown.
MOST, MOST_LINES, LONGEST = 10_000, 20, 400
#: Shares from this on have an exponent.
LARGE = 1e6
#: Of suggestions that may have been meant so many are named, by so many letters of their ids.
_NAMED, _LONGEST_ID = 5, 100


class SuggestionList:
    """The newest revision of each suggestion."""

    def __init__(self) -> None:
        self.held: dict[str, Suggestion] = {}

    def hear(self, value: bytes | None) -> Suggestion | None:
        """The suggestion in a message, if it is newer than what was heard of it."""
        try:
            suggestion: Suggestion = wire.decode(SUGGESTION, value or b"")
        except wire.WireError:
            return None
        held = self.held.get(suggestion.id)
        if held is not None and suggestion.revision <= held.revision:
            return None
        self.held.pop(suggestion.id, None)
        self.held[suggestion.id] = suggestion
        if len(self.held) > MOST:
            del self.held[next(iter(self.held))]
        return suggestion

    def chosen(self, now_s: float, *, all_: bool, job: str | None, cluster: str | None) -> list[Suggestion]:
        """Those to show, ranked: what is over only where ``all_`` are asked for."""
        kept = [one for one in self.held.values() if concerns(one, job, cluster) and (all_ or is_open(one, now_s))]
        return ranked(kept, now_s)

    def find(self, start: str) -> list[Suggestion]:
        """The suggestion with that id, else those whose id begins so, by id: partitions are read in any order."""
        exact = self.held.get(start)
        return [exact] if exact else [self.held[id_] for id_ in sorted(self.held) if id_.startswith(start)]


def no_single(start: str, found: Sequence[Suggestion], there: Sequence[Suggestion]) -> str:
    """Why ``start`` names none of the suggestions that are ``there``, most wanted first, or several: ``found``.

    >>> no_single("x", [], [])
    "no suggestion's id begins with 'x', and nothing is suggested; --all shows what is over"
    """
    if found:
        named = ", ".join(one.id for one in found[:_NAMED])
        return f"{len(found)} suggestions begin with {start!r}: {named}{', …' if len(found) > _NAMED else ''}"
    none = f"no suggestion's id begins with {start[:_LONGEST_ID]!r}"
    if not there:
        return f"{none}, and nothing is suggested; --all shows what is over"
    ids = [one.id for one in there]
    near = get_close_matches(start[:_LONGEST_ID], [id_[:_LONGEST_ID] for id_ in ids], n=1)
    if near:
        return f"{none}; did you mean {next(id_ for id_ in ids if id_.startswith(near[0]))!r}?"
    more = f" and {len(ids) - _NAMED} more: --all lists them" if len(ids) > _NAMED else ""
    return f"{none}; there are {', '.join(ids[:_NAMED])}{more}"


def concerns(suggestion: Suggestion, job: str | None, cluster: str | None) -> bool:
    """Whether it is about ``job`` and of ``cluster``, where these are asked for."""
    return (job is None or suggestion.job == job) and (cluster is None or suggestion.cluster == cluster)


def is_open(suggestion: Suggestion, now_s: float) -> bool:
    """Whether something is still to do or to see. States of a newer version are."""
    over = suggestion.state in CLOSED_SUGGESTIONS
    return not over and not (suggestion.state == "new" and suggestion.expires_s <= now_s)


def ranked(suggestions: Iterable[Suggestion], now_s: float) -> list[Suggestion]:
    """What is open first, then what brings most device-hours, then most throughput, then what is gravest."""

    def place(one: Suggestion) -> tuple[bool, float, float, int, float, str]:
        hours, share = one.gain.gpu_hours_per_day or 0.0, one.gain.throughput_ratio or 0.0
        return not is_open(one, now_s), -hours, -share, SEVERITY_ORDER.get(one.severity, 1), -one.updated_s, one.id

    return sorted(suggestions, key=place)


def lines(suggestion: Suggestion, now_s: float, host: str = "") -> list[str]:
    """A suggestion as lines: what it is, what it brings, why, and what to do on ``host``, where that is known."""
    one = suggestion
    expired = one.state == "new" and one.expires_s <= now_s
    state = "expired" if expired else one.state.replace("_", " ")
    told = [
        f"{one.id}  {state}, {age(now_s, one.updated_s)}  {gain(one.gain)}",
        f"    {one.title}",
        f"    {one.reason}",
    ]
    told += [f"    risk {one.risk}: {one.risk_reason}"] if one.risk_reason else []
    told += [f"    - {step}" for step in one.steps]
    told += [f"    $ {here(command, host)}" for command in one.apply]
    told += [f"    | {line}".rstrip() for line in one.manifest.splitlines()]
    told += [f"    by {one.by}" + (f": {one.because}" if one.because else "")] if one.by else []
    told += [f"    {effect(one.effect)}"] if one.effect else []
    left_out = len(told) - MOST_LINES
    told = told if left_out <= 0 else [*told[:MOST_LINES], f"    … {left_out} more lines: --json has all of it"]
    return [line if len(line) <= LONGEST else line[: LONGEST - 1] + "…" for line in told]


def gain(value: Gain) -> str:
    """What it should bring, with its interval.

    >>> gain(Gain(gpu_hours_per_day=22.2, gpu_hours_low=3.8, gpu_hours_high=23.3, throughput_ratio=0.3))
    '+22.2 device-hours a day (3.8 to 23.3), +30 % throughput'
    >>> gain(Gain())
    'gain not known'
    >>> gain(Gain(throughput_ratio=7.43, throughput_low=1.72))
    '+743 % throughput (at least 172 %)'
    >>> gain(Gain(throughput_ratio=16.42))
    '+1642 % throughput'
    """
    parts = []
    if value.gpu_hours_per_day is not None:
        between = _between(value.gpu_hours_low, value.gpu_hours_high, "{:.3g}".format)
        parts.append(f"{value.gpu_hours_per_day:+.3g} device-hours a day{between}")
    if value.throughput_ratio is not None:
        between = _between(value.throughput_low, value.throughput_high, _percent)
        sign = "+" if value.throughput_ratio >= 0 else ""
        parts.append(f"{sign}{_percent(value.throughput_ratio)} throughput{between}")
    if value.money_per_day is not None:
        parts.append(f"{value.money_per_day:+.4g} {value.currency[:16]} a day".replace("  ", " "))
    return ", ".join(parts) or "gain not known"


def _between(low: float | None, high: float | None, words: Callable[[float], str]) -> str:
    if low is None:
        return ""
    if high is None:
        return f" (at least {words(low)})"
    return f" ({words(low)} to {words(high)})"


def _percent(value: float) -> str:
    """As the page writes it; what no throughput can be has an exponent."""
    return f"{100 * value:.0f} %" if abs(value) < LARGE else f"{100 * value:.2e} %"


def effect(value: Effect) -> str:
    """What was measured before and after."""
    return f"measured: {value.name} {value.before:.4g} {value.unit} before, {value.after:.4g} {value.unit} after"
