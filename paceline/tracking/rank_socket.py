"""The door to rank 0: which runs its script has open, and what it is to log itself.

Rule of this file: nobody is waited for. Who sends what no rank says, or takes nothing, loses the connection.
"""

import contextlib
import os
import selectors
import socket
from pathlib import Path

from paceline.training.socket_path import short_path
from paceline.training.tracking_words import MOST_BYTES, OpenRun, Told, encode_told

from .rank_words import decode_runs

#: Ranks 0 at a time: those of one command's trainings.
MOST_TRAININGS = 16


def listen(path: Path) -> socket.socket:
    """A socket at ``path``, in a folder that is ours alone.

    Raises:
        OSError: it cannot be.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    unready = Path(f"{path}~")
    unready.unlink(missing_ok=True)
    with short_path(str(unready)) as short:
        listener.bind(short)
    os.chmod(unready, 0o600)
    listener.listen(MOST_TRAININGS)
    unready.rename(path)
    return listener


class RankSocket:
    """The connections of ``listener``, watched by ``selector``; ``runs`` is what the latest of them said last."""

    def __init__(self, listener: socket.socket, selector: selectors.BaseSelector) -> None:
        self._listener = listener
        self._selector = selector
        self._said: dict[socket.socket, list[OpenRun]] = {}
        #: Whether a rank was ever heard.
        self.heard = False
        selector.register(listener, selectors.EVENT_READ, self._accept)

    @property
    def runs(self) -> list[OpenRun]:
        """The runs that are open."""
        return [run for runs in self._said.values() for run in runs]

    def tell(self, told: Told, trackers: set[str]) -> None:
        """Send ``told`` to ranks that have runs of these ``trackers`` open, for those of them that they have."""
        for connection, runs in list(self._said.items()):
            named = trackers & {run.tracker for run in runs}
            data = encode_told(told._replace(trackers=tuple(sorted(named))))
            if named and len(data) <= MOST_BYTES:
                with contextlib.suppress(OSError):  # It takes nothing now; the next point comes in a second.
                    connection.send(data)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            if len(self._said) >= MOST_TRAININGS:
                connection.close()
                return
            self._said[connection] = []
            self._selector.register(connection, selectors.EVENT_READ, lambda: self._receive(connection))

    def _receive(self, connection: socket.socket) -> None:
        data = b""
        with contextlib.suppress(OSError):
            data = connection.recv(MOST_BYTES + 1)
        runs = decode_runs(data) if 0 < len(data) <= MOST_BYTES else None
        if runs is None:
            self._selector.unregister(connection)
            del self._said[connection]
            connection.close()
            return
        self.heard = True
        self._said[connection] = runs
