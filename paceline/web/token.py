"""Who may change something: whoever sends the token as ``Authorization: Bearer``."""

import hmac
import math
import threading
import time
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Header, Request

from paceline.settings import Setting

from .failures import Refusal, RefusedError
from .guesses import Guesses

#: From so many characters on nobody guesses a token, and counting wrong ones would only keep others out: behind a
#: proxy, or on loopback, all clients have one address.
LONG = 32
#: What OpenAPI says of routes that want the token.
GUARDED: dict[int | str, dict[str, Any]] = {
    401: {"model": Refusal, "description": "No token, or a wrong one."},
    403: {"model": Refusal, "description": "The service was started without a token: it cannot be changed."},
    429: {"model": Refusal, "description": "Too many wrong tokens from this address; the text says how long to wait."},
}


def guard(
    token: str, setting: Setting[str], clock: Callable[[], float] = time.monotonic
) -> Callable[[Request, str | None], None]:
    """A dependency of routes for who knows ``token``, which ``setting`` names; for nobody where it is empty."""
    guesses, turn = Guesses(), threading.Lock()
    guessable = len(token) < LONG

    def allowed(request: Request, authorization: Annotated[str | None, Header()] = None) -> None:
        if not token:
            raise RefusedError(403, "authorization", f"it cannot be changed; start it with {setting.name} set")
        address, now_s = request.client.host if request.client else "", clock()
        with turn:
            if guessable and (wait_s := guesses.wait_s(address, now_s)):
                raise RefusedError(429, "authorization", f"too many wrong tokens; ask again in {math.ceil(wait_s)} s")
            if hmac.compare_digest((authorization or "").encode(), f"Bearer {token}".encode()):
                return
            if authorization is not None:
                if guessable:
                    guesses.wrong(address, now_s)
                raise RefusedError(401, "authorization", f"the token is wrong: it is not that of {setting.name} here")
        raise RefusedError(401, "authorization", f"send `Authorization: Bearer` with {setting.name}")

    return allowed
