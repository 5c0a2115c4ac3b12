"""Wrong tokens: how many an address may send before it is not listened to for a while.

Rule of this file: pure and bounded; time is an argument, of a monotonic clock.
"""

from collections import OrderedDict

#: Wrong tokens at once, and the seconds until one more is allowed.
MOST_WRONG, AGAIN_S = 10, 6.0
#: Addresses that are told apart; the one that was wrong longest ago is forgotten.
MOST_ADDRESSES = 10_000


class Guesses:
    """Counts wrong tokens by address.

    >>> guesses = Guesses()
    >>> for _ in range(10): guesses.wrong("10.0.0.7", 100.0)
    >>> guesses.wait_s("10.0.0.7", 100.0), guesses.wait_s("10.0.0.7", 106.0), guesses.wait_s("10.0.0.8", 100.0)
    (6.0, 0.0, 0.0)
    """

    def __init__(self) -> None:
        #: When each address has all its guesses again.
        self._whole_s: OrderedDict[str, float] = OrderedDict()

    def wait_s(self, address: str, now_s: float) -> float:
        """How long ``address`` must wait before a token of it is looked at."""
        whole_s = self._whole_s.get(address, now_s)
        return max(0.0, whole_s - (MOST_WRONG - 1) * AGAIN_S - now_s)

    def wrong(self, address: str, now_s: float) -> None:
        """A token of ``address`` was wrong."""
        self._whole_s[address] = max(now_s, self._whole_s.get(address, now_s)) + AGAIN_S
        self._whole_s.move_to_end(address)
        if len(self._whole_s) > MOST_ADDRESSES:
            self._whole_s.popitem(last=False)
