"""Who may change something: whoever sends the token as ``Authorization: Bearer``."""

import hmac
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Header

from paceline.settings import Setting

from .failures import Refusal, RefusedError

#: What OpenAPI says of routes that want the token.
GUARDED: dict[int | str, dict[str, Any]] = {
    401: {"model": Refusal, "description": "No token, or a wrong one."},
    403: {"model": Refusal, "description": "The service was started without a token: nobody may change it."},
}


def guard(token: str, setting: Setting[str]) -> Callable[[str | None], None]:
    """A dependency of routes for who knows ``token``, which ``setting`` names; for nobody where it is empty."""

    def allowed(authorization: Annotated[str | None, Header()] = None) -> None:
        if not token:
            raise RefusedError(403, "authorization", f"nobody may change it; start with {setting.name} set")
        if not hmac.compare_digest((authorization or "").encode(), f"Bearer {token}".encode()):
            raise RefusedError(401, "authorization", f"send `Authorization: Bearer` with {setting.name}")

    return allowed
