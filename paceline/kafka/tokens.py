"""Tokens to log in with (OAUTHBEARER): asked of an issuer by client credentials, or read from a file that others renew.

Rule of this file: the standard library alone. An issuer is asked over TLS, or on loopback; redirects are not followed,
every wait and every size is bounded, and no error holds a secret, a token or what an issuer chose to answer with.
Assumed of an issuer: it may lie, hang, answer too much, and its clock may differ: only how long a token lasts counts.
"""

import base64
import contextlib
import functools
import http.client
import json
import math
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote_plus, urlencode, urlsplit

from paceline import settings as names
from paceline.settings import SettingError
from paceline.visible import visible

#: Seconds that an issuer may take; bytes of an answer or of a token.
ANSWER_S, MOST_BYTES = 5.0, 64 * 1024
#: From this part of its life on a token is replaced: brokers ask for the next one at 85 % of it.
FRESH_PART = 0.8
#: What a token lasts where nobody says; the longest that is believed; how long an issuer that failed is left in peace.
UNTOLD_S, LONGEST_S, AGAIN_S = 60.0, 7 * 86_400.0, 1.0
#: What may stand behind "Bearer" (RFC 6750): nothing that could end the field that it is put into.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
#: The errors of RFC 6749 that waiting cannot mend.
_REFUSALS = ("invalid_client", "unauthorized_client", "invalid_scope", "invalid_grant", "unsupported_grant_type")


class TokenError(Exception):
    """There is no token: the cause, the fix, and whether waiting cannot help."""

    def __init__(self, cause: str, mend: str, *, permanent: bool = False) -> None:
        super().__init__(f"{cause}; {mend}")
        self.cause, self.mend, self.permanent = cause, mend, permanent


@dataclass(frozen=True)
class TokenSettings:
    """Where tokens come from: an issuer's ``url``, or ``file``."""

    url: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    cafile: str = ""
    file: str = ""

    @property
    def told(self) -> str:
        """Where they come from, for a person: no secret, no query."""
        return f"the file {self.file}" if self.file else f"{self.client_id} of {urlsplit(self.url).hostname}"


class TokenSource:
    """Gives a token that is good now; any number of threads may ask."""

    def __init__(self, settings: TokenSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._clock = settings, clock
        self._lock = threading.Lock()
        self._token = ""
        self._fresh_until = self._good_until = self._ask_at = -math.inf
        self._failure: TokenError | None = None

    def token(self) -> str:
        """The token held, or a new one: while the issuer is away, the old one for as long as it lasts.

        Raises:
            TokenError: there is none.
        """
        if self._settings.file:
            return from_file(self._settings.file)
        with self._lock:
            now = self._clock()
            if now >= self._fresh_until and now >= self._ask_at:
                self._renew(now)
            if self._clock() < self._good_until:
                return self._token
            raise self._failure or TokenError("the issuer's token was over before it came", _SHORT)

    def _renew(self, now: float) -> None:
        try:
            token, lasts_s = ask(self._settings)
        except TokenError as error:
            self._failure = error
            self._ask_at = self._clock() + AGAIN_S
        else:
            self._failure, self._token = None, token
            self._fresh_until, self._good_until = now + FRESH_PART * lasts_s, now + lasts_s


_SHORT = "have the issuer give tokens that last a minute or more"


@functools.lru_cache(maxsize=8)
def shared(settings: TokenSettings) -> TokenSource:
    """The source of ``settings`` for all clients of this process: they share what it holds."""
    return TokenSource(settings)


def from_environ(environ: Mapping[str, str]) -> TokenSettings | None:
    """What ``environ`` says of tokens; None where it says nothing.

    Raises:
        SettingError: it is not enough, too much, or no address to trust a secret to.
    """
    read = TokenSettings(
        url=names.SASL_OAUTH_TOKEN_URL.read(environ),
        client_id=names.SASL_OAUTH_CLIENT_ID.read(environ),
        client_secret=names.SASL_OAUTH_CLIENT_SECRET.read(environ),
        scope=names.SASL_OAUTH_SCOPE.read(environ),
        cafile=names.SASL_OAUTH_CAFILE.read(environ),
        file=names.SASL_OAUTH_TOKEN_FILE.read(environ),
    )
    if read == TokenSettings():
        return None
    of_issuer = (
        (names.SASL_OAUTH_TOKEN_URL, read.url),
        (names.SASL_OAUTH_CLIENT_ID, read.client_id),
        (names.SASL_OAUTH_CLIENT_SECRET, read.client_secret),
    )
    for setting, value in of_issuer:
        if value and read.file:
            raise SettingError(f"{setting.name} and {names.SASL_OAUTH_TOKEN_FILE.name} are both set; allowed: one way")
        if not value and not read.file:
            raise SettingError(f"{setting.name}='': tokens of an issuer need it; allowed: {setting.allowed}")
    if read.cafile and not Path(read.cafile).is_file():
        raise SettingError(f"{names.SASL_OAUTH_CAFILE.name}={read.cafile!r}: no such file; allowed: a PEM file")
    return read


def from_file(path: str) -> str:
    """The token in ``path``, as it is now: whoever put it there renews it.

    Raises:
        TokenError: there is none in it.
    """
    mend = f"{names.SASL_OAUTH_TOKEN_FILE.name} names a file that holds one token, and who made it renews it"
    try:
        with Path(path).open("rb") as file:
            held = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise TokenError(f"no token in {visible(path)}: {error.strerror}", mend) from None
    try:
        return _well_formed(held.decode().strip(), MOST_BYTES)
    except ValueError:
        raise TokenError(f"no token in {visible(path)}: its content is not a token", mend) from None


def ask(settings: TokenSettings) -> tuple[str, float]:
    """A new token of the issuer, and how many seconds it lasts.

    Raises:
        TokenError: the issuer refuses, does not answer, or answers something else.
    """
    # RFC 6749, 2.3.1: both are encoded as in a form before they are joined.
    login = f"{quote_plus(settings.client_id)}:{quote_plus(settings.client_secret)}".encode()
    form = {"grant_type": "client_credentials"} | ({"scope": settings.scope} if settings.scope else {})
    headers = {
        "Authorization": f"Basic {base64.b64encode(login).decode()}",
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
        "User-Agent": "paceline",
    }
    where = f"the issuer at {urlsplit(settings.url).hostname}"
    try:
        status, content = _post(settings, urlencode(form).encode(), headers)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _unanswered(where, error) from None
    if status != 200:
        raise _refused(where, settings, status, content)
    try:
        return understood(content)
    except ValueError as error:
        mend = f"check that {names.SASL_OAUTH_TOKEN_URL.name} is the issuer's token endpoint"
        raise TokenError(f"{where} answered no token: {error}", mend, permanent=True) from None


def understood(content: bytes) -> tuple[str, float]:
    """The token in an issuer's answer, and how many seconds it lasts.

    >>> understood(b'{"access_token": "abc", "token_type": "Bearer", "expires_in": 300}')
    ('abc', 300.0)

    Raises:
        ValueError: there is none; says why.
    """
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("no JSON") from None
    if not isinstance(answer, dict) or not isinstance(answer.get("access_token"), str):
        raise ValueError("no access_token")
    if str(answer.get("token_type", "bearer")).lower() != "bearer":
        raise ValueError("a token of another type than Bearer")
    token = _well_formed(answer["access_token"], MOST_BYTES)
    told = answer.get("expires_in")
    return token, _lasts(told if told is not None else _lasts_by_itself(token))


def _well_formed(token: str, most: int) -> str:
    if len(token) > most or not _TOKEN.fullmatch(token):
        raise ValueError("a token of characters that none may have")
    return token


def _lasts(told: object) -> float:
    """``told`` seconds; some issuers write the number as text."""
    try:
        if isinstance(told, bool) or not isinstance(told, int | float | str):
            raise ValueError
        seconds = float(told)
    except (ValueError, OverflowError):
        raise ValueError("expires_in is no number") from None
    if not seconds > 0:
        raise ValueError("a token that is over already")
    return min(seconds, LONGEST_S)


def _lasts_by_itself(token: str) -> object:
    """What a JWT says between its two times; it is not trusted for anything but when to ask again."""
    try:
        middle = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
        return claims["exp"] - claims["iat"]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return UNTOLD_S


def _post(settings: TokenSettings, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    """The status and the body of an issuer's answer, within the bounds of time and size; no redirect, no proxy."""
    parts = urlsplit(settings.url)
    with contextlib.closing(_connection(settings)) as connection:
        connection.connect()
        late = threading.Event()
        # One that answers byte by byte keeps within every single wait.
        timer = threading.Timer(ANSWER_S, _cut, (connection.sock, late))
        timer.daemon = True
        timer.start()
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            content = answer.read(MOST_BYTES + 1)
        except (OSError, http.client.HTTPException):
            if late.is_set():
                raise TimeoutError from None
            raise
        finally:
            timer.cancel()
        if late.is_set():
            raise TimeoutError
    if len(content) > MOST_BYTES:
        raise ValueError("too long an answer")
    return answer.status, content


def _connection(settings: TokenSettings) -> http.client.HTTPConnection:
    parts = urlsplit(settings.url)
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=ANSWER_S)
    context = ssl.create_default_context(cafile=settings.cafile or None)
    return http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=ANSWER_S, context=context)


def _cut(connected: socket.socket, late: threading.Event) -> None:
    late.set()
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connected, socket.SHUT_RDWR)  # Below TLS, which would wait for the other end.


def _refused(where: str, settings: TokenSettings, status: int, content: bytes) -> TokenError:
    said = _error_code(content)
    reason = f" ({said})" if said else ""
    if 300 <= status < 400:
        mend = f"set {names.SASL_OAUTH_TOKEN_URL.name} to the address that it leads to"
        return TokenError(f"{where} answered {status}, a redirect, which is not followed", mend, permanent=True)
    if said in _REFUSALS or status in (401, 403):
        mend = f"check {names.SASL_OAUTH_CLIENT_ID.name}, its secret and {names.SASL_OAUTH_SCOPE.name}"
        cause = f"{where} refused a token to the client {settings.client_id!r}{reason}"
        return TokenError(cause, mend, permanent=True)
    mend = f"check {names.SASL_OAUTH_TOKEN_URL.name}, and the issuer's own log"
    return TokenError(f"{where} answered {status}{reason}", mend, permanent=status == 404)


def _error_code(content: bytes) -> str:
    """The issuer's ``error``, where it is a word: all else of its answer may hold what was sent to it."""
    try:
        said = json.loads(content)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return said if isinstance(said, str) and re.fullmatch(r"[a-z_]{1,40}", said) else ""


def _unanswered(where: str, error: Exception) -> TokenError:
    if isinstance(error, ssl.SSLCertVerificationError):
        cause = f"the certificate of {where} is not trusted ({visible(error.verify_message)})"
        return TokenError(cause, f"set {names.SASL_OAUTH_CAFILE.name}", permanent=True)
    if isinstance(error, TimeoutError):
        said = f"no answer within {ANSWER_S:g} s"
    elif isinstance(error, OSError):
        said = visible(error.strerror or type(error).__name__)
    else:
        said = "too long an answer" if isinstance(error, ValueError) else f"no HTTP ({type(error).__name__})"
    return TokenError(f"{where} cannot be asked: {said}", f"check {names.SASL_OAUTH_TOKEN_URL.name} and the way there")
