"""Who knows the token may change something: the comparison, and how often anybody may try.

Rule of this file: pure; time is an argument (seconds of any clock that does not go back). The attempts of all
visitors count together, for one visitor may open any number of sessions; while there are too many, a right token is
refused, too.
"""

import hmac
import threading
from typing import Literal

Verdict = Literal["right", "wrong", "too often"]
#: Attempts at once, and seconds until another one is allowed: of a token of 40 bits one is found in 200,000 years.
AT_ONCE, EACH_S = 5, 6.0
#: No token that is typed is longer.
LONGEST = 1_000


class TokenGate:
    """Compares with ``token``; without one it lets nobody in.

    >>> gate = TokenGate("s3cret")
    >>> gate.judge("guess", 0.0), gate.judge("s3cret", 0.0)
    ('wrong', 'right')
    >>> [gate.judge("guess", 1.0) for _ in range(4)][-1], gate.judge("s3cret", 2.0), gate.judge("s3cret", 8.0)
    ('too often', 'too often', 'right')
    """

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._lock = threading.Lock()
        self._room, self._counted_s = float(AT_ONCE), 0.0

    @property
    def opens(self) -> bool:
        """Whether there is a token at all."""
        return bool(self._token)

    def judge(self, given: str, now_s: float) -> Verdict:
        """Whether ``given`` is the token, at ``now_s``."""
        with self._lock:
            self._room = min(float(AT_ONCE), self._room + max(0.0, now_s - self._counted_s) / EACH_S)
            self._counted_s = max(now_s, self._counted_s)
            if self._room < 1.0:
                return "too often"
            self._room -= 1.0
        told = given[:LONGEST].encode(errors="replace")
        return "right" if self._token and hmac.compare_digest(told, self._token) else "wrong"
