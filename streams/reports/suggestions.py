"""Suggestions as a page of text: what to do, why, what it brings, and the commands to copy.

Rule of this file: pure text; nothing is judged here.
"""

from collections.abc import Iterable

from paceline.events import OPEN_SUGGESTIONS, SEVERITY_ORDER, Suggestion
from paceline.events.suggestions import Gain
from paceline.own_host import here
from paceline.visible import visible


def page(suggestions: Iterable[Suggestion], host: str = "") -> str:
    """All of them, the gravest first, then those that bring most; those that are over come last, on a line each.

    ``host`` is the machine that they are read on, where it is known.
    """
    kept = list(suggestions)
    lasting = [one for one in kept if one.state in OPEN_SUGGESTIONS]
    over = [one for one in kept if one not in lasting]
    if not kept:
        return "nothing to suggest"
    lines = [line for one in sorted(lasting, key=_order) for line in [*_lines(one, host), ""]]
    lines += [f"{one.state.replace('_', ' ')}: {one.title}  [{one.id}]" for one in over]
    return "\n".join(map(visible, lines)).rstrip()


def _order(one: Suggestion) -> tuple[int, float, str]:
    return SEVERITY_ORDER.get(one.severity, 3), -(one.gain.gpu_hours_per_day or 0.0), one.id


def _lines(one: Suggestion, host: str) -> Iterable[str]:
    yield f"{one.severity}: {one.title}  [{one.id}]"
    yield f"  why    {one.reason}"
    yield f"  gain   {gain_in_words(one.gain)}"
    yield f"  risk   {one.risk}{': ' + one.risk_reason if one.risk_reason else ''}"
    yield from (f"  {'do' if number == 0 else '':<5}  {step}" for number, step in enumerate(one.steps))
    yield from (f"  $ {here(command, host)}" for command in one.apply)
    yield from (f"  | {line}".rstrip() for line in one.manifest.splitlines())


def gain_in_words(gain: Gain) -> str:
    """What it should bring, with the interval; *not measured* where nobody knows.

    >>> gain_in_words(Gain(gpu_hours_per_day=24.0, gpu_hours_low=12.0, gpu_hours_high=30.0))
    '24 device-hours a day (12 to 30)'
    >>> gain_in_words(Gain(throughput_ratio=7.43, throughput_low=1.72))
    '+743 % throughput (at least 172 %; how much at most is not known)'
    """
    parts = []
    if gain.gpu_hours_per_day is not None:
        span = _span(gain.gpu_hours_low, gain.gpu_hours_high, 1.0)
        parts.append(f"{gain.gpu_hours_per_day:.3g} device-hours a day{span}")
    if gain.throughput_ratio is not None:
        span = _span(gain.throughput_low, gain.throughput_high, 100.0, " %")
        parts.append(f"{gain.throughput_ratio * 100:+.3g} % throughput{span}")
    if gain.money_per_day is not None:
        parts.append(f"{gain.money_per_day:.2f} {gain.currency} a day".replace("  ", " "))
    return ", ".join(parts) or f"not measured: {gain.basis}"


def _span(low: float | None, high: float | None, scale: float, unit: str = "") -> str:
    if low is None:
        return ""
    if high is None:
        return f" (at least {low * scale:.3g}{unit}; how much at most is not known)"
    return f" ({low * scale:.3g} to {high * scale:.3g}{unit})"
