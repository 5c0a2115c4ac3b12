"""Whether files are of one run: ranks whose times lie far apart are not.

Rule of this file: pure; clocks of hosts may differ by less than what tells two runs apart.
"""

from collections.abc import Iterable

from .notes import SourceError

#: Seconds between what two ranks wrote: more, and they are of two runs.
MOST_APART_S = 3600.0


def check_apart(lives: Iterable[tuple[float, float, int]]) -> None:
    """Refuse ranks of which some ran at another time; a life is a rank's first and last moment, and its number.

    Raises:
        SourceError: between one rank's last moment and the next one's first lies too much time.
    """
    ordered = sorted(lives)
    until_s = ordered[0][1] if ordered else 0.0
    for first_s, last_s, rank in ordered:
        apart_s = first_s - until_s
        if apart_s > MOST_APART_S:
            days = f"{apart_s / 86_400:.0f} days" if apart_s >= 172_800 else f"{apart_s / 3600:.1f} hours"
            raise SourceError(f"rank {rank} ran {days} after the others: import one run's files at a time")
        until_s = max(until_s, last_s)
