"""From findings to the time that a job lost, by cause.

Rule of this file: pure. What counts of each finding is ``paceline.lost_time``'s, so causes add up.
"""

from collections.abc import Iterable

from paceline.events import Finding
from paceline.lost_time import Share, shares

from .report import LostTime


def lost_time(findings: Iterable[Finding], within: range | None = None) -> list[LostTime]:
    """What each cause has cost in the steps ``within``, the most first."""
    causes: dict[str, list[Share]] = {}
    for share in shares(findings, within):
        causes.setdefault(share.finding.cause, []).append(share)
    lost = [_of_cause(cause, of_it) for cause, of_it in causes.items()]
    return sorted(lost, key=lambda one: (-one.lost_s, one.cause))


def counted_hours(findings: Iterable[Finding], within: range | None = None) -> dict[str, float]:
    """Device-hours that count of each finding in the steps ``within``, by its id."""
    return {share.finding.id: share.device_hours for share in shares(findings, within)}


def _of_cause(cause: str, shares: list[Share]) -> LostTime:
    return LostTime(
        cause,
        tuple(sorted({share.finding.kind for share in shares})),
        len(shares),
        sum(share.lost_s for share in shares),
        sum(share.device_hours for share in shares),
    )
