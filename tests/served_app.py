"""An application of ours on a port of its own, served as in production."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

from fastapi import FastAPI

from paceline.http_limits import Limits
from paceline.web import shell


@contextlib.contextmanager
def served(app: FastAPI, until: Callable[..., None], limits: Limits | None = None) -> Iterator[str]:
    """The address of ``app`` while it is served."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = shell.server(app, limits, log_level="error")
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()

        def started() -> bool:
            assert thread.is_alive()
            return server.started

        until(started)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
