"""What the API of Kubernetes refuses, and what that means for who asked.

Rule of this file: pure. What a server says is untrusted: it is bounded, and made visible where it is shown.
"""

import re
from typing import Any

import msgspec

from paceline.decoders import json_decoder

from .budget import Outcome
from .documents import word

LONGEST_MESSAGE = 300


class _Status(msgspec.Struct):
    reason: str = ""
    message: str = ""


class ApiError(Exception):
    """A request that was not done. ``status`` is 0 where nobody answered."""

    def __init__(self, status: int, reason: str, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"{status or 'no answer'} {reason}: {message}".strip())
        self.status, self.reason, self.message, self.retry_after_s = status, reason, message, retry_after_s

    @property
    def outcome(self) -> Outcome:
        """What came of a write that ended so."""
        if self.status in (404, 410):
            return "gone"
        if self.status == 409:
            return "conflict"
        if self.status == 403:
            return "refused"
        # A login that has ended is renewed by the client: soon it may be another one.
        if self.status in (0, 401, 429) or self.status >= 500:
            return "busy"
        return "invalid"


def of_answer(status: int, body: bytes, retry_after: str | None) -> ApiError:
    """The error that an answer is."""
    try:
        told = json_decoder(_Status).decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        told = _Status(message=body[:LONGEST_MESSAGE].decode(errors="replace"))
    return ApiError(status, word(told.reason, 60), word(told.message, LONGEST_MESSAGE), seconds(retry_after))


def seconds(retry_after: str | None) -> float | None:
    """``Retry-After`` in seconds; a date in it is not read, for two clocks would be compared."""
    raw = (retry_after or "").strip()
    return float(raw) if re.fullmatch(r"[0-9]{1,6}", raw) else None


class NoRightError(ApiError):
    """Something is not allowed: which rule is missing, and how to give it."""


def no_right(error: ApiError, verb: str, group: str, resource: str, role: str) -> NoRightError:
    """``error`` with the rule that is missing in it."""
    told: dict[str, Any] = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
    rule = ", ".join(f'{name}: ["{values[0]}"]' for name, values in told.items())
    mend = f"add {{{rule}}} to {role}, or give what `paceline annotate --print-role` prints"
    return NoRightError(error.status, error.reason, f"may not {verb} {resource}: {error.message}; fix: {mend}")


def without_name(error: NoRightError) -> str:
    """What is missing and the mend, without the server's sentence, which names each object anew."""
    may, _, rest = error.message.partition(": ")
    return f"{may}; {rest.rpartition('; ')[2]}"
