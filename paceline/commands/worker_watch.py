"""Whether the stream worker of ``paceline up`` and ``demo`` works, and what is said when it does not.

Rule of this file: ``WorkerWatch`` decides, with the time as an argument; ``readiness`` asks.
"""

import http.client
import urllib.error
import urllib.request

#: A worker that has not been ready for so long is worth a line: joining takes 3 to 5 s.
TOLD_AFTER_S = 30.0
#: What is on this machine is asked through no proxy.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class WorkerWatch:
    """Told again and again how the worker answers; gives a line when that changes.

    >>> watch = WorkerWatch(0.0)
    >>> [watch.update(now_s, "joining the group") for now_s in (5.0, 29.0)]
    [None, None]
    >>> watch.update(30.0, "joining the group")
    'the stream worker has not been ready for 30 s (joining the group): no job is judged until it is'
    >>> watch.update(60.0, "joining the group"), watch.update(61.0, None)
    (None, 'the stream worker is ready')
    """

    def __init__(self, now_s: float) -> None:
        self.ready = False
        self._since_s = now_s
        self._told = False

    def update(self, now_s: float, waits: str | None) -> str | None:
        """Take what it ``waits`` for (None: it is ready); a line for the user, where there is news."""
        self.ready = waits is None
        if waits is None:
            self._since_s = now_s
            told, self._told = self._told, False
            return "the stream worker is ready" if told else None
        if self._told or now_s - self._since_s < TOLD_AFTER_S:
            return None
        self._told = True
        silent_s = now_s - self._since_s
        return f"the stream worker has not been ready for {silent_s:.0f} s ({waits}): no job is judged until it is"


def readiness(url: str) -> str | None:
    """What a service of this machine waits for, by its answer at ``url``; None where it is ready."""
    try:
        with _OPENER.open(url, timeout=0.3):
            return None
    except urllib.error.HTTPError as error:
        with error:
            return " ".join(error.read(200).decode(errors="replace").split()) or f"status {error.code}"
    except (OSError, http.client.HTTPException):
        return "it does not answer"
