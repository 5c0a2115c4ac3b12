"""What a child process writes, shown as it comes until its end is asked for.

Rule of this file: the child never waits for us. What we cannot write is dropped, and what nobody wants to see is read.
"""

import contextlib
import os
import threading

_PIECE = 65536


class RelayedOutput:
    """A pipe for the output of a child process; a thread copies what arrives to the descriptor ``target``."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._read, self._write = os.pipe()
        self._muted = False
        self._thread = threading.Thread(target=self._copy, name="output of a child", daemon=True)

    @property
    def descriptor(self) -> int:
        """Where the child writes; ours is closed by ``started``."""
        return self._write

    def started(self) -> None:
        """The child has the descriptor: copy until it, and all that it has started, have closed theirs."""
        os.close(self._write)
        self._thread.start()

    def mute(self) -> None:
        """Show no more of it."""
        self._muted = True

    def drain(self, timeout_s: float) -> None:
        """Wait until all is copied that was written before the child ended, for ``timeout_s`` at most."""
        self._thread.join(timeout_s)

    def _copy(self) -> None:
        try:
            while piece := os.read(self._read, _PIECE):
                self._show(piece)
        except OSError:
            return
        finally:
            os.close(self._read)

    def _show(self, piece: bytes) -> None:
        with contextlib.suppress(OSError):  # A terminal that has gone.
            while piece and not self._muted:
                piece = piece[os.write(self._target, piece) :]
