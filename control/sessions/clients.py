"""Clients that fall silent: who was heard and then was not for ``CLIENT_SILENT_S`` is marked, with the time.

Rule of this file: pure; time is an argument. While the bus itself is away nobody can be heard, and nobody is silent.
"""

from collections.abc import Iterable

from paceline.events.silence import CLIENT_SILENT_S

from .manifest import Silence

#: Clients that are followed, and silences that are kept; the names come from outside.
MOST_CLIENTS, MOST_SILENCES = 20_000, 10_000


class Clients:
    """Who was heard when; a client is a node.

    >>> clients = Clients()
    >>> clients.heard("n1", 100.0); clients.heard("n2", 100.0); clients.tick(120.0); clients.heard("n1", 125.0)
    >>> clients.tick(131.0); clients.silent
    ['n2']
    >>> clients.heard("n2", 140.0); clients.silences
    [Silence(client='n2', from_s=100.0, to_s=140.0)]
    """

    def __init__(self, silences: Iterable[Silence] = ()) -> None:
        self._last_s: dict[str, float] = {}
        self.silences = [one for one in silences if one.to_s is not None]
        self._open = {one.client: one.from_s for one in silences if one.to_s is None}

    @property
    def silent(self) -> list[str]:
        """Those who are silent now."""
        return sorted(self._open)

    def heard(self, client: str, now_s: float) -> None:
        """``client`` has said something."""
        if client in self._open:
            from_s = self._open.pop(client)
            if len(self.silences) < MOST_SILENCES:
                self.silences.append(Silence(client=client, from_s=from_s, to_s=max(from_s, now_s)))
        if client in self._last_s or len(self._last_s) < MOST_CLIENTS:
            self._last_s[client] = now_s

    def awaited(self, client: str, now_s: float) -> None:
        """``client`` should be heard from now on; who is silent stays so."""
        if client not in self._open and len(self._last_s) < MOST_CLIENTS:
            self._last_s.setdefault(client, now_s)

    def tick(self, now_s: float) -> None:
        """It is ``now_s``, and the bus answers."""
        for client, last_s in list(self._last_s.items()):
            if now_s - last_s >= CLIENT_SILENT_S:
                del self._last_s[client]
                self._open[client] = last_s

    def deaf(self, seconds: float) -> None:
        """Nobody could be heard for so long: it counts for no silence."""
        self._last_s = {client: last_s + seconds for client, last_s in self._last_s.items()}

    def told(self) -> list[Silence]:
        """Those that are over, and those that are not."""
        return [*self.silences, *(Silence(client=one, from_s=at, to_s=None) for one, at in sorted(self._open.items()))]
