"""Who is sent something over HTTP: a real server that keeps what it gets, for tests of those who send."""

import http.server
import threading
from collections.abc import Callable
from typing import NamedTuple

Answer = tuple[int, dict[str, str], bytes]


class Received(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """An HTTP server that answers each request with the next of ``answers``, the last one ever after.

    ``judge`` answers by what a request says; where it says nothing of one, the next of ``answers`` does.
    """

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answers: list[Answer] = [(200, {}, b"ok")]
        self.judge: Callable[[Received], Answer | None] = lambda received: None
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                received = Received(self.path, dict(self.headers.items()), body)
                receiver.received.append(received)
                answers = receiver.answers
                status, headers, text = receiver.judge(received) or (answers.pop(0) if len(answers) > 1 else answers[0])
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(text))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def at(self) -> str:
        return f"127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> "Receiver":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()
