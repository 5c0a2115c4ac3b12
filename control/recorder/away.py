"""How long the brokers have not answered, and how often a manifest is written.

Rule of this file: pure; time is an argument, of a monotonic clock.
"""

#: Brokers that do not answer for so long end the recorder: nobody else may be there who would end it.
AWAY_S = 600.0
#: The manifest is written so often, or less often where that takes more than this share of the time; at least so often.
SYNC_S, LARGEST_SHARE, SELDOM_S = 5.0, 0.05, 60.0


class Away:
    """Since when the brokers have not answered.

    >>> away = Away()
    >>> [away.update(answering, now_s) for answering, now_s in ((False, 5.0), (False, 8.0), (True, 9.0), (False, 12.0))]
    [0.0, 3.0, 0.0, 0.0]
    """

    def __init__(self) -> None:
        self._since_s: float | None = None

    def update(self, answering: bool, now_s: float) -> float:
        """They answer at ``now_s``, or not; for how long they have not."""
        if answering:
            self._since_s = None
            return 0.0
        if self._since_s is None:
            self._since_s = now_s
        return now_s - self._since_s


def next_manifest_s(took_s: float) -> float:
    """When to write the next manifest after one that took so long.

    >>> next_manifest_s(0.01), next_manifest_s(1.0), next_manifest_s(30.0)
    (5.0, 20.0, 60.0)
    """
    return min(SELDOM_S, max(SYNC_S, took_s / LARGEST_SHARE))
