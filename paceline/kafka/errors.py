"""Why Kafka cannot be used, in one line for a person: what the client hides behind "Unable to bootstrap".

Rule of this file: words only; no connection is made here.
"""

import contextlib
import socket
from collections.abc import Iterator

from kafka import errors

from paceline.kafka.settings import BrokerSettings

_START = "start one with `paceline up` or `make kafka`, or set PACELINE_BROKERS"
_NO_TLS = "that port may not speak TLS: set PACELINE_SECURITY_PROTOCOL to PLAINTEXT or SASL_PLAINTEXT"
_WANTS_MORE = "that port may want TLS or a login: set PACELINE_SECURITY_PROTOCOL to SSL, SASL_PLAINTEXT or SASL_SSL"
#: Part of what the client says -> (cause, mend, whether waiting cannot help).
_CAUSES: tuple[tuple[str, str, str, bool], ...] = (
    # The client asks for a producer's id before it writes anywhere.
    ("InitProducerIdResponse: [Error 31]", "not allowed to write anything", "ask for an ACL (docs/deploy.md)", True),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "its certificate is not trusted",
        "set PACELINE_SSL_CAFILE",
        True,
    ),
    ("certificate required", "it asks for our certificate", "set PACELINE_SSL_CERTFILE and PACELINE_SSL_KEYFILE", True),
    ("WRONG_VERSION_NUMBER", "TLS failed", _NO_TLS, True),
    ("RECORD_LAYER_FAILURE", "TLS failed", _NO_TLS, True),
    ("UNEXPECTED_EOF", "it closed the connection during TLS", _NO_TLS, False),
    ("does not support", "it does not offer this way to log in", "set PACELINE_SASL_MECHANISM", True),
    ("UnsupportedSaslMechanism", "it does not offer this way to log in", "set PACELINE_SASL_MECHANISM", True),
    ("IllegalSaslState", "it asks for no login", "set PACELINE_SECURITY_PROTOCOL to PLAINTEXT or SSL", True),
    ("ECONNREFUSED", "connection refused", _START, False),
    ("refused", "connection refused", _START, False),
    ("ECONNRESET", "it closed the connection", _WANTS_MORE, False),
    ("imed out", "no answer in time", "check the address in PACELINE_BROKERS and the firewall between", False),
)


class BusError(RuntimeError):
    """Kafka cannot be used. Its one line names the address, the cause and the mend.

    ``permanent`` tells that waiting cannot help: a wrong password, an untrusted certificate.
    """

    def __init__(self, address: str, cause: str, mend: str, *, permanent: bool = False) -> None:
        super().__init__(f"Kafka at {address}: {cause}; {mend}")
        self.address, self.cause, self.mend, self.permanent = address, cause, mend, permanent


def explain(address: str, error: BaseException, username: str | None = None) -> BusError:
    """``error`` as a line for a person."""
    if isinstance(error, BusError):
        return error
    said = " ".join(str(error).split())[:200] or type(error).__name__
    if isinstance(error, errors.SaslAuthenticationFailedError):
        mend = "check PACELINE_SASL_USERNAME, PACELINE_SASL_PASSWORD and PACELINE_SASL_MECHANISM"
        return BusError(address, f"login refused for user {username!r} (wrong password or user)", mend, permanent=True)
    if isinstance(error, errors.AuthorizationError):
        return BusError(address, f"not allowed: {said}", "ask for an ACL (docs/deploy.md)", permanent=True)
    if isinstance(error, socket.gaierror):
        return BusError(address, "no such host", "check PACELINE_BROKERS")
    for part, cause, mend, permanent in _CAUSES:
        if part in said:
            return BusError(address, f"{cause} ({said})" if part != said else cause, mend, permanent=permanent)
    if isinstance(error, errors.KafkaConnectionError) and said == "KafkaConnectionError":
        return BusError(address, "it closed the connection", _WANTS_MORE)
    return BusError(address, f"{type(error).__name__}: {said}", "run `paceline doctor`")


@contextlib.contextmanager
def explained(settings: BrokerSettings) -> Iterator[None]:
    """Whatever the client raises inside, told as a ``BusError``.

    Raises:
        BusError: the client failed.
    """
    try:
        yield
    except errors.KafkaError as error:
        raise explain(settings.address, error, settings.sasl_username) from error
