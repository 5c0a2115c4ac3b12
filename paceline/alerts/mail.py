"""A door: a letter sent by SMTP.

Rule of this file: certificates are verified; a password goes over TLS, or to this machine. No error names the password
or what the letter says.
"""

import smtplib
import ssl
from dataclasses import dataclass, field
from email.message import EmailMessage

from paceline.visible import visible

from .outcome import NotDeliveredError, RefusedError
from .target import Target

TIMEOUT_S = 15.0


@dataclass(frozen=True)
class Login:
    """Who logs in; without a name nobody does."""

    username: str = ""
    password: str = field(default="", repr=False)


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
        with _connected(target, context) as server:
            if target.tls == "start":
                server.starttls(context=context)
            if login.username:
                server.login(login.username, login.password)
            server.send_message(letter, target.sender, target.recipients)
    except (smtplib.SMTPException, OSError, ValueError) as error:
        raise _why(error) from None


def _why(error: Exception) -> NotDeliveredError | RefusedError:
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
            return NotDeliveredError(visible(str(error))[:200])
        case ssl.SSLCertVerificationError():
            return NotDeliveredError(f"certificate not trusted: {visible(error.verify_message)}")
        case TimeoutError():
            return NotDeliveredError(f"no answer within {TIMEOUT_S:g} s")
        case OSError(strerror=str(said)):
            return NotDeliveredError(visible(said))
        case _:
            return NotDeliveredError(type(error).__name__)


def _connected(target: Target, context: ssl.SSLContext) -> smtplib.SMTP:
    if target.tls == "whole":
        return smtplib.SMTP_SSL(target.host, target.port, timeout=TIMEOUT_S, context=context)
    return smtplib.SMTP(target.host, target.port, timeout=TIMEOUT_S)


def _verdict(code: int, line: str, reached: bool = False) -> NotDeliveredError | RefusedError:
    """A reply of 5xx is final (RFC 5321, 4.2.1); any other may be another one later."""
    return RefusedError(f"{code}: {line}") if code >= 500 else NotDeliveredError(f"{code}: {line}", reached=reached)
