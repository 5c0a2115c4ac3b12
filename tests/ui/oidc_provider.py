"""An OpenID Connect provider on loopback that lets everybody in as one person, for tests of the login."""

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey


class OidcProvider:
    """Serves discovery, authorization, tokens and keys; ``claims`` are what it says of who logs in."""

    def __init__(self, client: str, secret: str, **claims: object) -> None:
        self.claims = claims
        self._client, self._secret = client, secret
        self._key = RSAKey.generate_key(2048, {"kid": "test", "use": "sig", "alg": "RS256"})
        self._nonces: dict[str, str] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> "OidcProvider":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str, query: dict[str, str]) -> dict[str, object] | str | None:
        """What a GET is answered with: JSON, or where the browser is sent; None where there is nothing."""
        if path == "/.well-known/openid-configuration":
            places = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
            told = {name: f"{self.url}/{place}" for name, place in places.items()}
            return told | {"issuer": self.url, "code_challenge_methods_supported": ["S256"]}
        if path == "/keys":
            return {"keys": [self._key.as_dict(private=False)]}
        if path == "/authorize":
            code = f"code-{len(self._nonces)}"
            self._nonces[code] = query["nonce"]
            return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"
        return None

    def token(self, authorization: str, code: str) -> dict[str, object]:
        """What a code is worth to the client that has the secret."""
        wanted = base64.b64encode(f"{self._client}:{self._secret}".encode()).decode()
        if authorization != f"Basic {wanted}" or code not in self._nonces:
            return {"error": "invalid_grant"}
        now_s = int(time.time())
        claims = {
            "iss": self.url,
            "aud": self._client,
            "iat": now_s,
            "exp": now_s + 600,
            "nonce": self._nonces.pop(code),
        }
        signed = jwt.encode({"alg": "RS256", "kid": "test"}, claims | self.claims, self._key)
        return {"access_token": "none", "token_type": "Bearer", "expires_in": 600, "id_token": signed}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                answer = provider.answer(parts.path, {name: one[0] for name, one in parse_qs(parts.query).items()})
                if isinstance(answer, str):
                    self.send_response(302)
                    self.send_header("Location", answer)
                    self.end_headers()
                else:
                    self._json(answer, 404 if answer is None else 200)

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                answer = provider.token(self.headers.get("Authorization", ""), form["code"][0])
                self._json(answer, 400 if "error" in answer else 200)

            def _json(self, answer: object, status: int) -> None:
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler
