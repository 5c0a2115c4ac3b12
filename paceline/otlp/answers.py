"""A door: what a receiver of OTLP answers, which OpenTelemetry's exporters keep to themselves.

Rule of this file: an exporter asks once, by this session, and whoever sends decides what comes next. Of an answer a
bounded piece is read, and nothing that it says is told: it may repeat a token.
"""

from http import HTTPStatus
from itertools import islice
from typing import Any, Literal, NamedTuple

import requests
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

#: What is read of an answer: so many pieces of so many bytes.
PIECES, PIECE_BYTES = 8, 1024
#: May be taken later, and may be for what the records say: a proxy, or what stands behind it, gave up on them.
LATER = (403, 408, 502, 503, 504)
#: Whatever the records say, it would be answered so; all redirects, too.
OF_ALL = (401, 404, 405, 407, 410, 429)
LOGIN = "put one that may write into OTEL_EXPORTER_OTLP_HEADERS, or let this one write"
FIXES = {
    401: f"the login is refused: {LOGIN}",
    403: f"the login may not write: {LOGIN}",
    404: "the receiver is not there: --endpoint is its address without /v1/…",
    405: "the receiver is not there: --endpoint is its address without /v1/…",
}
#: Taken; never to be taken as it is; perhaps later, and perhaps not for all; nothing is taken now.
Verdict = Literal["taken", "refused", "later", "away"]


class Answer(NamedTuple):
    """The status, how long is to be waited, and how many of the records are refused though the others were taken.

    The status is None where nothing was answered, and 0 where nothing was sent.
    """

    status: int | None = None
    asked_s: float = 0.0
    rejected: int = 0

    @property
    def verdict(self) -> Verdict:
        """What becomes of the records. Of all statuses OTLP lets 429, 502, 503 and 504 be tried again.

        https://opentelemetry.io/docs/specs/otlp/#retryable-response-codes; logins and addresses can be put right, too.

        >>> [Answer(status).verdict for status in (200, 400, 503, 401, 307, None)]
        ['taken', 'refused', 'later', 'away', 'away', 'away']
        """
        if self.status is None or self.status in OF_ALL or 300 <= self.status < 400:
            return "away"
        if 200 <= self.status < 300:
            return "taken"
        return "later" if self.status in LATER else "refused"

    @property
    def words(self) -> str:
        """The cause, and its fix where there is one.

        >>> Answer(400).words, Answer().words
        ('answered 400 (Bad Request)', 'no receiver took them')
        """
        if not self.status:
            return "no receiver took them" if self.status is None else "it cannot be encoded, or is too large"
        known = self.status in HTTPStatus.__members__.values()
        said = f"answered {self.status}" + (f" ({HTTPStatus(self.status).phrase})" if known else "")
        if 300 <= self.status < 400:
            return f"{said}, a redirect, which is not followed: name the address that it leads to"
        return said + (f": {FIXES[self.status]}" if self.status in FIXES else "")


#: What an exporter cannot encode, or holds to be too large, reaches no receiver.
NOT_SENT = Answer(0)


class NotTakenError(Exception):
    """The receiver answered something else than that it took the records."""


class Answers(requests.Session):
    """The session of one exporter, which remembers the last answer."""

    def __init__(self) -> None:
        super().__init__()
        self._last: Answer | None = None

    def take(self) -> Answer | None:
        """The last answer since this was asked; None where nothing was sent at all."""
        answer, self._last = self._last, None
        return answer

    def request(self, *args: Any, **named: Any) -> requests.Response:
        """Send, once.

        Raises:
            NotTakenError: whatever is answered but that it was taken, so that an exporter does not try again by itself.
        """
        self._last = Answer()
        response = super().request(*args, **{**named, "allow_redirects": False, "stream": True})
        try:
            said = b"".join(islice(response.iter_content(PIECE_BYTES), PIECES))
        finally:
            response.close()
        taken = 200 <= response.status_code < 300
        self._last = Answer(response.status_code, _asked_s(response), _rejected(said) if taken else 0)
        if not taken:
            raise NotTakenError(self._last.words)
        return response


def _asked_s(response: requests.Response) -> float:
    """Seconds that the receiver asks to be let alone; 0.0 where it says so in other words."""
    asked = response.headers.get("Retry-After", "")[:9]
    return float(asked) if asked.isascii() and asked.isdigit() else 0.0


def _rejected(said: bytes) -> int:
    """How many of the records the receiver took the others of (spans are counted in the same field as findings)."""
    try:
        return max(0, int(ExportLogsServiceResponse.FromString(said).partial_success.rejected_log_records))
    except Exception:  # Whatever a version of the decoder raises: an answer in another format took all.
        return 0
