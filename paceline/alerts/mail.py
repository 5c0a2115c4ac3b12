"""A door: a letter sent by SMTP.

Rule of this file: certificates are verified; a password goes over TLS, or to this machine. No error names the password
or what the letter says. A letter that the server has accepted is sent, whatever follows.
"""

import smtplib
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Any

from paceline.visible import visible

from .outcome import NotDeliveredError, RefusedError
from .target import Target

#: How long an answer may take, and the one to a letter: servers check it before they accept it (RFC 5321, 4.5.3.2.6).
TIMEOUT_S, LETTER_TIMEOUT_S = 15.0, 600.0
FAILURES = (smtplib.SMTPException, OSError, ValueError)


@dataclass(frozen=True)
class Login:
    """Who logs in; without a name nobody does."""

    username: str = ""
    password: str = field(default="", repr=False)


class _Server(smtplib.SMTP):
    """A connection that waits longer for the answer to a letter."""

    #: Whether the letter itself was begun.
    begun = False

    def data(self, msg: Any) -> tuple[int, bytes]:
        """Send the letter; the server's answer."""
        self.begun = True
        self._wait(LETTER_TIMEOUT_S)
        try:
            return super().data(msg)
        finally:
            self._wait(TIMEOUT_S)

    def _wait(self, most_s: float) -> None:
        if self.sock is not None:
            self.sock.settimeout(most_s)


class _TlsServer(_Server, smtplib.SMTP_SSL):
    """The same, over TLS from the start."""


def send(target: Target, login: Login, letter: EmailMessage) -> None:
    """Send ``letter`` to the recipients of ``target``; it is sent once any of them is taken.

    Raises:
        NotDeliveredError: it did not arrive, and may later.
        RefusedError: it never will.
    """
    if login.username and target.tls == "none" and not target.loopback:
        raise NotDeliveredError("a password is not sent without TLS: use smtps://, or leave out starttls=never")
    context = ssl.create_default_context()
    try:
        server = _connected(target, context)
    except FAILURES as error:
        raise _why(error, reached=False) from None
    try:
        if target.tls == "start":
            server.starttls(context=context)
        if login.username:
            server.login(login.username, login.password)
        server.send_message(letter, target.sender, target.recipients)
    except FAILURES as error:
        raise _why(error, server.begun) from None
    finally:
        with suppress(smtplib.SMTPException, OSError):
            server.quit()
        server.close()


def _why(error: Exception, reached: bool) -> NotDeliveredError | RefusedError:
    match error:
        case smtplib.SMTPRecipientsRefused():
            return _verdict(min(code for code, _ in error.recipients.values()), "no recipient is taken")
        case smtplib.SMTPAuthenticationError():
            return NotDeliveredError(f"login refused ({error.smtp_code})")
        case smtplib.SMTPResponseException():  # Before the letter itself none of its words can be the cause.
            said = (
                error.smtp_error.decode(errors="replace") if isinstance(error.smtp_error, bytes) else error.smtp_error
            )
            return _verdict(error.smtp_code, visible(str(said))[:200], isinstance(error, smtplib.SMTPDataError))
        case smtplib.SMTPException():
            return NotDeliveredError(visible(str(error))[:200], reached=reached)
        case ssl.SSLCertVerificationError():
            return NotDeliveredError(f"certificate not trusted: {visible(error.verify_message)}")
        case TimeoutError():
            return NotDeliveredError(f"no answer within {TIMEOUT_S:g} s")
        case OSError(strerror=str(said)):
            return NotDeliveredError(visible(said), reached=reached)
        case _:
            return NotDeliveredError(type(error).__name__, reached=reached)


def _connected(target: Target, context: ssl.SSLContext) -> _Server:
    if target.tls == "whole":
        return _TlsServer(target.host, target.port, timeout=TIMEOUT_S, context=context)
    return _Server(target.host, target.port, timeout=TIMEOUT_S)


def _verdict(code: int, line: str, reached: bool = False) -> NotDeliveredError | RefusedError:
    """A reply of 5xx is final (RFC 5321, 4.2.1); any other may be another one later."""
    return RefusedError(f"{code}: {line}") if code >= 500 else NotDeliveredError(f"{code}: {line}", reached=reached)
