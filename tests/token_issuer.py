"""An issuer of tokens on loopback: a real HTTP server that signs what it gives, for tests of those who log in by it."""

import base64
import http.server
import json
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote_plus

from joserfc import jwt
from joserfc.jwk import RSAKey

ISSUER, AUDIENCE = "https://issuer.example", "kafka"


class TokenIssuer:
    """Gives tokens to ``clients`` (name to secret) at ``/token``, and its public key at ``/keys``.

    With ``certificate`` (a PEM file of key and certificate) it speaks TLS. What is set between two requests holds from
    then on: how long a token lasts, claims that are not as they should be, ``giving``, which is told the name before a
    token leaves, and ``answer``, which is asked instead.
    """

    def __init__(self, clients: dict[str, str], certificate: Path | None = None, key: RSAKey | None = None) -> None:
        self.clients, self.lasts_s = clients, 300.0
        self.claims: dict[str, Any] = {}
        self.answer: Callable[[http.server.BaseHTTPRequestHandler], None] | None = None
        self.giving: Callable[[str], None] = lambda name: None
        self.given: list[str] = []
        self.asked: list[dict[str, list[str]]] = []
        self.key = key or RSAKey.generate_key(2048, parameters={"kid": "k1", "use": "sig", "alg": "RS256"})
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                self._say(200, {"keys": [issuer.key.as_dict(private=False)]})

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                issuer.asked.append(form)
                if issuer.answer is not None:
                    issuer.answer(self)
                    return
                kind, _, login = self.headers.get("Authorization", "").partition(" ")
                name, _, secret = base64.b64decode(login).decode().partition(":")
                if kind != "Basic" or issuer.clients.get(unquote_plus(name)) != unquote_plus(secret):
                    self._say(401, {"error": "invalid_client", "error_description": f"{name} {secret}"})
                    return
                self._say(200, issuer._give(unquote_plus(name)))

            def _say(self, status: int, answer: object) -> None:
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                """A client that leaves in the middle is what some tests want."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            self.scheme = "https"
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server.server_port}"

    def token(self, name: str) -> str:
        """A token of ``name`` as of now."""
        now = time.time()
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": name, "iat": now, "exp": now + self.lasts_s}
        return jwt.encode({"alg": "RS256", "kid": "k1"}, {**claims, **self.claims}, self.key)

    def _give(self, name: str) -> dict[str, object]:
        token = self.token(name)
        self.giving(name)
        self.given.append(name)
        return {"access_token": token, "token_type": "Bearer", "expires_in": self.lasts_s}

    def __enter__(self) -> "TokenIssuer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()
