"""What a device does not answer, why, and when it is worth asking again.

Rule of this file: a decision. It is told of answers and refusals with the time, and says whether a question is due; it
asks nothing itself. A question is refused per device: two cards of one node may differ.
"""

from dataclasses import dataclass

#: Seconds until a refused question is asked again. A refusal costs a call, and most never change.
RETRY_S = 300.0
#: The same where the cause passes by itself: a busy or timed-out driver.
RETRY_SOON_S = 10.0


@dataclass(frozen=True)
class _Refusal:
    reason: str
    until_s: float


class Refusals:
    """The refused questions of one device."""

    def __init__(self) -> None:
        self._refused: dict[str, _Refusal] = {}

    def due(self, question: str, now_s: float) -> bool:
        """Whether to ask ``question`` at ``now_s``: not refused, or long enough ago."""
        refusal = self._refused.get(question)
        return refusal is None or now_s >= refusal.until_s

    def refused(self, question: str, reason: str, now_s: float, *, passing: bool = False) -> bool:
        """Note a refusal; return whether it is news (a first refusal, or another reason)."""
        before = self._refused.get(question)
        self._refused[question] = _Refusal(reason, now_s + (RETRY_SOON_S if passing else RETRY_S))
        return before is None or before.reason != reason

    def answered(self, question: str) -> None:
        """Note that ``question`` was answered."""
        self._refused.pop(question, None)

    def reason(self, question: str) -> str | None:
        """Why ``question`` has no answer, or None where it has."""
        refusal = self._refused.get(question)
        return None if refusal is None else refusal.reason
