"""The token bucket: how many messages may go out, on average and at once.

Rule of this file: pure; time is an argument, and a clock set back adds nothing.
"""


class TokenBucket:
    """``most`` messages at once, and from then on ``most`` in ``span_s`` seconds.

    >>> bucket = TokenBucket(2, 60.0)
    >>> [bucket.tokens(0.0), bucket.take(0.0), bucket.take(0.0), bucket.tokens(0.0), bucket.tokens(30.0)]
    [2.0, None, None, 0.0, 1.0]
    """

    def __init__(self, most: int, span_s: float) -> None:
        self.most, self.span_s = most, span_s
        self._tokens, self._at_s = float(most), 0.0

    def tokens(self, now_s: float) -> float:
        """How many may go out now."""
        gone_s = max(0.0, now_s - self._at_s)
        self._tokens, self._at_s = min(float(self.most), self._tokens + gone_s * self.most / self.span_s), now_s
        return self._tokens

    def take(self, now_s: float) -> None:
        """One goes out."""
        self._tokens = max(0.0, self.tokens(now_s) - 1.0)
