"""A door: a body sent by HTTP.

Rule of this file: certificates are verified, redirects are not followed (a body with names of jobs goes where the
operator said, nowhere else), every wait and every size is bounded, and no error names the address, whatever the
answer repeats of it.
"""

import base64
import http.client
import ssl
import urllib.error
import urllib.request
from typing import Any

from paceline.visible import repeats, visible

from .outcome import NotDeliveredError, RefusedError
from .target import Target

#: Seconds without a byte until the attempt is given up; bytes of an answer that are read.
TIMEOUT_S, ANSWER_BYTES = 10.0, 2_048
#: The body as it is will never be taken. All else may be mended at the other end: a login, a path, a limit.
FOR_GOOD = (400, 413, 415, 422)
#: Whatever the body says, it would be answered so; of all other answers the body may be the cause.
OF_ALL = (401, 404, 405, 407, 410, 429)
#: Answers that may say when to ask again (RFC 9110, 10.2.3; RFC 6585, 4).
LATER = (429, 503)
CUT_OFF = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **named: Any) -> None:
        """None: the answer that redirects is the answer."""


def post(target: Target, body: bytes) -> None:
    """Send ``body``, JSON, to ``target``.

    Raises:
        NotDeliveredError: it did not arrive, and may later.
        RefusedError: it never will.
    """
    headers = {"Content-Type": "application/json", "User-Agent": "paceline", "Connection": "close"}
    if target.user or target.password:
        login = base64.b64encode(f"{target.user}:{target.password}".encode()).decode()
        headers["Authorization"] = f"Basic {login}"
    request = urllib.request.Request(target.url, body, headers, method="POST")  # noqa: S310 - http and https alone
    opener = urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=ssl.create_default_context()))
    try:
        with opener.open(request, timeout=TIMEOUT_S):
            pass
    except urllib.error.HTTPError as error:
        with error:
            _answered(error, target)
    except urllib.error.URLError as error:
        # Cut off while it was sent: by who listens, and perhaps for what it says.
        raise NotDeliveredError(_reason(error.reason), reached=isinstance(error.reason, CUT_OFF)) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NotDeliveredError(_reason(error), reached=True) from None


def _answered(error: urllib.error.HTTPError, target: Target) -> None:
    said = _said(error, target)
    line = f"answered {error.code}" + (f": {said}" if said else "")
    if error.code in FOR_GOOD:
        raise RefusedError(line) from None
    redirected = 300 <= error.code < 400
    if redirected:
        line = f"answered {error.code}, a redirect, which is not followed: name the address that it leads to"
    asked = error.headers.get("Retry-After", "") if error.headers and error.code in LATER else ""
    asked_s = float(asked[:9]) if asked.isascii() and asked.isdigit() else 0.0
    raise NotDeliveredError(line, asked_s, reached=not redirected and error.code not in OF_ALL) from None


def _said(error: urllib.error.HTTPError, target: Target) -> str:
    """What the answer says, unless it repeats what of the address is secret."""
    try:
        said = error.read1(ANSWER_BYTES).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException, AttributeError):
        return ""
    return "(it repeats the address)" if repeats(said, target.secrets) else visible(said)[:200]


def _reason(reason: object) -> str:
    """Why it failed, in a few words."""
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"certificate not trusted: {visible(reason.verify_message)}"
    if isinstance(reason, TimeoutError):
        return f"no answer within {TIMEOUT_S:g} s"
    if isinstance(reason, OSError):
        return visible(reason.strerror or type(reason).__name__)
    return f"no answer in HTTP ({type(reason).__name__})"
