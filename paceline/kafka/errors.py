"""Why Kafka cannot be used, in one line for a person: what the client hides behind "Unable to bootstrap".

Rule of this file: words only; no connection is made here.
"""

import contextlib
import socket
from collections.abc import Iterable, Iterator

from kafka import errors

from paceline.kafka.settings import BrokerSettings
from paceline.kafka.tokens import TokenError
from paceline.visible import visible

#: What to do about a right that is missing.
RIGHTS = "have it given: `paceline rights` writes what each service needs (docs/deploy.md)"
_START = "start one with `paceline up` or `make kafka`, or set PACELINE_BROKERS"
_NO_TLS = "that port may not speak TLS: set PACELINE_SECURITY_PROTOCOL to PLAINTEXT or SASL_PLAINTEXT"
_NAME = "name it in PACELINE_BROKERS as its certificate does, or have it certified for that name"
_OURS = "set PACELINE_SSL_CERTFILE and PACELINE_SSL_KEYFILE"
_SIGNED = "have PACELINE_SSL_CERTFILE signed by an authority that the brokers trust, and look when it ends"
_NO_WAY = "check PACELINE_SASL_MECHANISM, and what the brokers' own log says of it"
_NOT_VALID = "check that issuer, audience and clock are those that the brokers expect"
_WANTS_MORE = "that port may want TLS or a login: set PACELINE_SECURITY_PROTOCOL to SSL, SASL_PLAINTEXT or SASL_SSL"
#: Part of what the client says -> (cause, mend, whether waiting cannot help).
_CAUSES: tuple[tuple[str, str, str, bool], ...] = (
    # The client asks for a producer's id before it writes anywhere.
    ("InitProducerIdResponse: [Error 31]", "not allowed to write anything", RIGHTS, True),
    ("Hostname mismatch", "its certificate is for another name", _NAME, True),
    ("IP address mismatch", "its certificate is for another name", _NAME, True),
    ("CERTIFICATE_VERIFY_FAILED", "its certificate is not trusted", "set PACELINE_SSL_CAFILE", True),
    ("certificate required", "it asks for our certificate", _OURS, True),
    # Java's way to say that none came.
    ("ALERT_BAD_CERTIFICATE", "it asks for our certificate", _OURS, True),
    ("ALERT_CERTIFICATE_UNKNOWN", "it does not accept our certificate", _SIGNED, True),
    ("ALERT_UNKNOWN_CA", "it does not accept our certificate", _SIGNED, True),
    ("ALERT_CERTIFICATE_EXPIRED", "it does not accept our certificate", _SIGNED, True),
    ("WRONG_VERSION_NUMBER", "TLS failed", _NO_TLS, True),
    ("RECORD_LAYER_FAILURE", "TLS failed", _NO_TLS, True),
    ("UNEXPECTED_EOF", "it closed the connection during TLS", _NO_TLS, False),
    ("does not support", "it does not offer this way to log in", "set PACELINE_SASL_MECHANISM", True),
    ("UnsupportedSaslMechanism", "it does not offer this way to log in", "set PACELINE_SASL_MECHANISM", True),
    ("IllegalSaslState", "it asks for no login", "set PACELINE_SECURITY_PROTOCOL to PLAINTEXT or SSL", True),
    ("ECONNREFUSED", "connection refused", _START, False),
    ("refused", "connection refused", _START, False),
    ("socket disconnected", "it closed the connection", _WANTS_MORE, False),
    ("ECONNRESET", "it closed the connection", _WANTS_MORE, False),
    ("imed out", "no answer in time", "check the address in PACELINE_BROKERS and the firewall between", False),
)


class BusError(RuntimeError):
    """Kafka cannot be used. Its one line names the address, the cause and the fix.

    ``permanent`` tells that waiting cannot help: a wrong password, an untrusted certificate.
    """

    def __init__(self, address: str, cause: str, mend: str, *, permanent: bool = False) -> None:
        super().__init__(f"Kafka at {address}: {cause}; {mend}")
        self.address, self.cause, self.mend, self.permanent = address, cause, mend, permanent


class NoTokenError(errors.KafkaError):  # type: ignore[misc]
    """The client has no token to log in with."""

    def __init__(self, why: TokenError) -> None:
        super().__init__(str(why))
        self.why = why


def explain(address: str, error: BaseException, username: str | None = None, *, by_token: bool = False) -> BusError:
    """``error`` as a line for a person; ``username`` is who logged in, ``by_token`` how."""
    if isinstance(error, BusError):
        return error
    said = visible(" ".join(str(error).split())[:200]) or type(error).__name__
    if (of_login := _of_login(address, error, said, username, by_token)) is not None:
        return of_login
    if isinstance(error, errors.AuthorizationError):
        what = said.removeprefix(f"[Error {error.errno}] {type(error).__name__}: ")
        return BusError(address, f"not allowed: {what}", RIGHTS, permanent=True)
    if isinstance(error, socket.gaierror):
        return BusError(address, "no such host", "check PACELINE_BROKERS")
    for part, cause, mend, permanent in _CAUSES:
        if part in said:
            return BusError(address, f"{cause} ({said})" if part != said else cause, mend, permanent=permanent)
    if isinstance(error, errors.KafkaConnectionError) and said == "KafkaConnectionError":
        return BusError(address, "it closed the connection", _WANTS_MORE)
    return BusError(address, f"{type(error).__name__}: {said}", "run `paceline doctor`")


def _of_login(address: str, error: BaseException, said: str, username: str | None, by_token: bool) -> BusError | None:
    """``error`` where it is one of logging in, else None."""
    if isinstance(error, NoTokenError):
        why = error.why
        return BusError(address, f"no token to log in with: {why.cause}", why.mend, permanent=why.permanent)
    if isinstance(error, errors.SaslAuthenticationFailedError) and (by_token or "invalid_token" in said):
        cause = f"login refused: the token of {username} does not hold there (over, of another issuer or audience)"
        return BusError(address, f"{cause} ({said})", _NOT_VALID, permanent=True)
    if isinstance(error, errors.SaslAuthenticationFailedError):
        mend = "check PACELINE_SASL_USERNAME, PACELINE_SASL_PASSWORD and PACELINE_SASL_MECHANISM"
        return BusError(address, f"login refused for user {username!r} (wrong password or user)", mend, permanent=True)
    if username and "socket disconnected" in said:
        # A refusal and the end of the connection may come at once: then the client has seen the end alone.
        return BusError(address, "it closed the connection, perhaps during the login", _NO_WAY)
    return None


def refused(address: str, topics: Iterable[str]) -> BusError:
    """What one is told who may not see ``topics``: nothing of them is read until that is fixed."""
    return BusError(address, f"not allowed to read {', '.join(sorted(topics))}", RIGHTS, permanent=True)


@contextlib.contextmanager
def explained(settings: BrokerSettings) -> Iterator[None]:
    """Whatever the client raises inside, told as a ``BusError``.

    Raises:
        BusError: the client failed.
    """
    try:
        yield
    except errors.KafkaError as error:
        raise explain(settings.address, error, settings.user, by_token=settings.by_token) from error
