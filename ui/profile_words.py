"""What is known of a job's kind, cycle and end, in words.

Rule of this file: pure. What is not known stays unknown.
"""

import math
from collections.abc import Mapping
from datetime import tzinfo

from paceline.events import JobProfile
from paceline.words import LONGEST_NAME, is_undated

from .moments import ahead, as_of, clock, length
from .snapshot import name_of
from .wording import ratio

#: An end that is known to a minute needs no interval.
SAME_S = 60.0


def kind_words(profile: JobProfile) -> str:
    """What kind of job it is, with its probability; unknown stays unknown."""
    if profile.kind is None:
        return "unknown: nothing was measured"
    chance = profile.kind_probability
    said = "" if chance is None or not 0.0 <= chance <= 1.0 else ratio(chance)
    if profile.kind != "unknown":
        return f"{profile.kind[:LONGEST_NAME].replace('_', ' ')} {said}".strip()
    likeliest = max(profile.kind_probabilities, key=lambda name: profile.kind_probabilities[name], default="")
    return (
        f"unknown (at most {likeliest[:LONGEST_NAME].replace('_', ' ')}, {said})" if likeliest and said else "unknown"
    )


def cycle_words(profile: JobProfile) -> str:
    """Its cycle: how long, how sure, and how it drifts."""
    period_s = profile.cycle_period_s
    if period_s is None or period_s <= 0:
        return "no stable period"
    words = f"every {length(period_s)}"
    if profile.cycle_confidence is not None and 0.0 <= profile.cycle_confidence <= 1.0:
        words += f", confidence {ratio(profile.cycle_confidence)}"
    drift = profile.cycle_drift_ratio
    if drift is not None and 0.01 <= abs(drift) <= 1.0:
        words += f", {'longer' if drift > 0 else 'shorter'} by {ratio(abs(drift))} than at first"
    return words


def next_cycle_s(profile: JobProfile, now_s: float) -> float | None:
    """When the next cycle is due: as reported, or so many whole periods later where that has gone by.

    None where it is not known, or counts from no date.
    """
    due_s, period_s = profile.cycle_next_s, profile.cycle_period_s
    if due_s is None or period_s is None or period_s <= 0 or is_undated(due_s, now_s):
        return None
    return due_s if due_s >= now_s else due_s + math.ceil((now_s - due_s) / period_s) * period_s


def profiles_listed(profiles: Mapping[tuple[str, str], JobProfile], job: str | None = None) -> list[JobProfile]:
    """Profiles, the newest first; that of ``job`` alone where it is named."""
    kept = [one for one in profiles.values() if job is None or name_of(one.cluster, one.job) == job]
    return sorted(kept, key=lambda one: (-(one.time_s or 0.0), one.cluster, one.job))


def as_of_words(profile: JobProfile, now_s: float) -> str:
    """How old what it rests on is."""
    return as_of(profile.time_s, now_s) if profile.time_s else "never measured"


def end_words(profile: JobProfile, now_s: float) -> str:
    """How far the expected end is off, in words."""
    if profile.end_s is None:
        return "unknown (total number of steps not given: paceline run --total-steps N)"
    return ahead(profile.end_s, now_s)


def end_between(profile: JobProfile, now_s: float, zone: tzinfo) -> str:
    """Between which times it ends with 80 %; "" where that is not known, or no more than a minute apart."""
    low_s, high_s = profile.end_low_s, profile.end_high_s
    if low_s is None or high_s is None or high_s - low_s <= SAME_S or is_undated(low_s, now_s):
        return ""
    return f"80 %: {clock(low_s, now_s, zone)} to {clock(high_s, now_s, zone)}"
