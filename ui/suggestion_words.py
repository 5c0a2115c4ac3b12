"""Suggestions in words: their order, gain, state, and what was measured before and after.

Rule of this file: pure. What is not known is left out or said to be unknown; a negative gain is reported as it is.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Literal

from paceline.events import (
    CLOSED_SUGGESTIONS,
    MEASURED_SUGGESTIONS,
    OPEN_SUGGESTIONS,
    SEVERITY_ORDER,
    AuditEntry,
    Effect,
    Gain,
    Suggestion,
)
from paceline.words import LONGEST_NAME, digits, quantity

from .asked_change import Change
from .suggestion_book import STATES
from .wording import ratio

Tone = Literal["good", "wait", "lost", "ended"]
TONES: dict[str, Tone] = {"verified": "good", "accepted": "good", "applied": "good", "did_not_help": "lost"}
WORDS = {
    "new": "new",
    "accepted": "accepted",
    "applied": "applied",
    "verified": "verified",
    "did_not_help": "did not help",
    "dismissed": "dismissed",
    "expired": "expired",
    "withdrawn": "withdrawn",
}
#: What is shown unless somebody chooses otherwise: what is to do, and how the last ended.
SHOWN = (*OPEN_SUGGESTIONS, *MEASURED_SUGGESTIONS)
#: Nobody answers a command after so long.
PATIENCE_S = 10.0
#: Numbers beyond are told by their power of ten.
LARGE = 1e6


def ranked(suggestions: Iterable[Suggestion], states: Collection[str] = STATES) -> list[Suggestion]:
    """Those in ``states``, and in states of a newer version: what is open first, and the largest gain first."""

    def place(one: Suggestion) -> tuple[object, ...]:
        hours, share = one.gain.gpu_hours_per_day or 0.0, one.gain.throughput_ratio or 0.0
        over = one.state in CLOSED_SUGGESTIONS
        return (over, -hours, -share, SEVERITY_ORDER.get(one.severity, 1), -one.updated_s, one.id)

    kept = [one for one in suggestions if one.state in states or one.state not in STATES]
    return sorted(kept, key=place)


def counted(suggestions: Iterable[Suggestion]) -> str:
    """How many are in each state."""
    counts = Counter(one.state for one in suggestions)
    states = [state for state in (*STATES, *sorted({*counts} - {*STATES})) if counts[state]]
    return " · ".join(f"{counts[state]:,} {state_words(state)}" for state in states)


def state_words(state: str) -> str:
    """A state in words; of a newer version's, its name."""
    return WORDS.get(state) or state.replace("_", " ")[:LONGEST_NAME]


def tone(state: str) -> Tone:
    """How a state is marked."""
    return TONES.get(state, "ended" if state in CLOSED_SUGGESTIONS else "wait")


def gains(gain: Gain) -> list[str]:
    """What it should bring, each with its interval."""
    parts = []
    if gain.gpu_hours_per_day is not None:
        between = _between(gain.gpu_hours_low, gain.gpu_hours_high, _number)
        parts.append(f"{_signed(gain.gpu_hours_per_day)} device-hours a day{between}")
    if gain.throughput_ratio is not None:
        between = _between(gain.throughput_low, gain.throughput_high, _percent)
        parts.append(
            f"{'+' if gain.throughput_ratio >= 0 else ''}{_percent(gain.throughput_ratio)} throughput{between}"
        )
    if gain.money_per_day is not None:
        parts.append(f"{_number(gain.money_per_day)} {gain.currency} a day".replace("  ", " "))
    return parts


def effect_words(effect: Effect) -> str:
    """What was measured before and after."""
    name = effect.name.removesuffix(f"_{effect.unit}").replace("_", " ")[:LONGEST_NAME]
    before, after = quantity(effect.before, effect.unit[:20]), quantity(effect.after, effect.unit[:20])
    change = f" ({(effect.after - effect.before) / effect.before:+.0%})".replace("%", " %") if effect.before else ""
    if len(change) > 12:
        change = ""
    return f"{name}: {before} before, {after} after{change}"


def answer_words(change: Change | None, entry: AuditEntry | None, asked_s: float, now_s: float) -> tuple[Tone, str]:
    """What came of what was asked at ``asked_s``: the answer, or how far it has come; ``change`` may be forgotten."""
    if entry is not None:
        said = entry.outcome.replace("_", " ")[:LONGEST_NAME]
        tone_: Tone = "good" if entry.outcome == "accepted" else "lost"
        return tone_, f"{said} by {entry.service} on {entry.node}" + (f": {entry.reason}" if entry.reason else "")
    if change is not None and change.failed:
        return "lost", f"not done: {change.said}"
    if change is not None and not change.said:
        return "wait", "sending …"
    if now_s - (change.at_s if change is not None else asked_s) > PATIENCE_S:
        return "lost", "no answer within 10 s: is `paceline streams` running, and may it read commands?"
    return "wait", "sent, waiting for an answer …"


def about(suggestion: Suggestion) -> str:
    """Whom or what it is about, as the target says."""
    kind, _, name = suggestion.target.partition(":")
    return f"{kind} {name}" if name else suggestion.target


def _between(low: float | None, high: float | None, words: Callable[[float], str]) -> str:
    if low is None:
        return ""
    if high is None:
        return f" (at least {words(low)})"
    return f" ({words(low)} to {words(high)})"


def _signed(value: float) -> str:
    return f"+{_number(value)}" if value >= 0 else _number(value)


def _number(value: float) -> str:
    if abs(value) >= LARGE:
        return f"{value:.2e}"
    return digits(value) if value >= 0 else f"-{digits(-value)}"


def _percent(value: float) -> str:
    return ratio(value) if abs(value) < LARGE else f"{value:.2e}"
