"""Pages that are open but drawn by nobody: what a browser says to Streamlit, so that a server's load is its own.

Twenty real browsers on one machine would measure the browsers. A visitor takes all that it is sent and asks again at
the pace that the page asks it to, as Streamlit's own frontend does (``AutoRerun``).
"""

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import ClientConnection, connect

#: The largest message that a page may send.
MOST_BYTES = 2**28


class Visitor:
    """One open page. ``took_s``: from asking for a refresh to its end."""

    def __init__(self, port: int, path: str) -> None:
        self._address = f"ws://127.0.0.1:{port}/_stcore/stream"
        self._page, _, self._query = path.partition("?")
        self.took_s: list[float] = []
        self.drawn = threading.Event()
        self.failure = ""

    def stay(self, stop: threading.Event) -> None:
        """Keep the page open until ``stop``."""
        try:
            with connect(self._address, max_size=MOST_BYTES, open_timeout=60) as socket:
                self._ask(socket)
                self._follow(socket, stop)
        except (OSError, TimeoutError, ValueError) as error:
            self.failure = str(error) or type(error).__name__

    def _follow(self, socket: ClientConnection, stop: threading.Event) -> None:
        asked_s, every_s, fragment, due_s = time.monotonic(), 0.0, "", float("inf")
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                told = ForwardMsg.FromString(socket.recv(timeout=max(0.0, min(0.5, due_s - time.monotonic()))))
                kind = told.WhichOneof("type")
                if kind == "auto_rerun":
                    every_s, fragment = told.auto_rerun.interval, told.auto_rerun.fragment_id
                    due_s = time.monotonic() + every_s
                elif kind == "script_finished":
                    self.took_s.append(time.monotonic() - asked_s)
                    self.drawn.set()
            if time.monotonic() >= due_s:
                asked_s, due_s = time.monotonic(), time.monotonic() + every_s
                self._ask(socket, fragment)

    def _ask(self, socket: ClientConnection, fragment: str = "") -> None:
        message = BackMsg()
        state = message.rerun_script
        state.query_string, state.page_name = self._query, self._page
        if fragment:
            state.fragment_id, state.is_auto_rerun = fragment, True
        socket.send(message.SerializeToString())


@contextlib.contextmanager
def visitors(port: int, paths: Sequence[str]) -> Iterator[list[Visitor]]:
    """Every path of ``paths`` open at once, drawn for the first time.

    Raises:
        TimeoutError: one was not within three minutes.
    """
    stop, those = threading.Event(), [Visitor(port, path) for path in paths]
    threads = [threading.Thread(target=one.stay, args=(stop,), daemon=True) for one in those]
    try:
        for one, thread in zip(those, threads, strict=True):
            thread.start()
            if not one.drawn.wait(180):
                raise TimeoutError(f"a page was not drawn within three minutes. {one.failure}")
        yield those
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)
