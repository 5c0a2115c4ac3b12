"""Letters over a real SMTP server: with and without TLS and login, refused for now and for good."""

import smtplib
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

from paceline.alerts import letter, mail
from paceline.alerts.mail import Login
from paceline.alerts.message import Message
from paceline.alerts.outcome import NotDeliveredError, RefusedError
from paceline.alerts.target import Target, of_url

PASSWORD = "s3cr3t"


class Mailbox:
    """Keeps what is sent; answers the recipients and the letter as it is told to."""

    def __init__(self) -> None:
        self.letters: list[Any] = []
        self.recipient, self.data, self.goodbye = "250 OK", "250 OK", "221 Bye"
        #: The command at which the connection is broken off.
        self.breaks_at = ""

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:  # noqa: N802
        self._break_off("RCPT", server)
        if self.recipient.startswith("250"):
            envelope.rcpt_tos.append(address)
        return self.recipient

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        self._break_off("DATA", server)
        if self.data.startswith("250"):
            self.letters.append(envelope)
        return self.data

    async def handle_QUIT(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        self._break_off("QUIT", server)
        return self.goodbye

    def _break_off(self, command: str, server: Any) -> None:
        if self.breaks_at == command:
            server.transport.abort()


Start = Callable[..., tuple[Mailbox, str]]


@pytest.fixture
def start(free_port: Callable[[], int]) -> Iterator[Start]:
    running: list[Controller] = []

    def begin(**options: Any) -> tuple[Mailbox, str]:
        mailbox = Mailbox()
        running.append(Controller(mailbox, hostname="127.0.0.1", port=free_port(), **options))
        running[-1].start()
        return mailbox, f"127.0.0.1:{running[-1].port}"

    yield begin
    for each in running:
        each.stop()


@pytest.fixture
def server_tls(certificates: Any) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.certificate, certificates.key)
    return context


def authenticate(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
    assert isinstance(data, LoginPassword)
    return AuthResult(success=data == LoginPassword(b"pace", PASSWORD.encode()), handled=False)


def send(target: Target, message: Message, login: Login = Login()) -> None:  # noqa: B008 - frozen
    mail.send(target, login, letter.compose(message, target.sender, target.recipients, "", 1000.0))


def test_a_letter_arrives_at_each_recipient(start: Start, message: Message) -> None:
    mailbox, at = start()
    send(of_url(f"smtp://{at}?to=a@b.example,c@d.example&from=p@b.example"), message)
    (arrived,) = mailbox.letters
    assert (arrived.mail_from, arrived.rcpt_tos) == ("p@b.example", ["a@b.example", "c@d.example"])
    assert b"Paceline: warning: train: Straggler: rank 3" in arrived.content


@pytest.mark.slow
def test_over_starttls_with_a_login(
    start: Start, message: Message, server_tls: ssl.SSLContext, trusting: Callable[[], None]
) -> None:
    mailbox, at = start(tls_context=server_tls, require_starttls=True, auth_required=True, authenticator=authenticate)
    target = of_url(f"smtp://{at}?to=a@b&starttls=always")
    with pytest.raises(NotDeliveredError, match="certificate not trusted"):
        send(target, message, Login("pace", PASSWORD))
    trusting()
    send(target, message, Login("pace", PASSWORD))
    assert len(mailbox.letters) == 1
    with pytest.raises(NotDeliveredError, match=r"login refused \(535\)") as refused:
        send(target, message, Login("pace", "wr0ng"))
    assert "wr0ng" not in str(refused.value)


@pytest.mark.slow
def test_over_tls_from_the_start(
    start: Start, message: Message, server_tls: ssl.SSLContext, trusting: Callable[[], None]
) -> None:
    mailbox, at = start(ssl_context=server_tls)
    trusting()
    send(of_url(f"smtps://{at}?to=a@b"), message)
    assert len(mailbox.letters) == 1


def test_a_server_without_starttls_gets_nothing_where_it_is_asked_for(start: Start, message: Message) -> None:
    mailbox, at = start()
    with pytest.raises(NotDeliveredError, match="STARTTLS"):
        send(of_url(f"smtp://{at}?to=a@b&starttls=always"), message)
    assert mailbox.letters == []


def test_a_password_does_not_leave_this_machine_in_the_clear(message: Message) -> None:
    with pytest.raises(NotDeliveredError, match="without TLS"):
        send(of_url("smtp://mail.example:25?to=a@b&starttls=never"), message, Login("pace", PASSWORD))


@pytest.mark.parametrize(
    ("recipient", "data", "kind"),
    [
        ("550 no such user", "250 OK", RefusedError),
        ("451 try later", "250 OK", NotDeliveredError),
        ("250 OK", "554 spam\x1b[31m", RefusedError),
        ("250 OK", "452 disk full", NotDeliveredError),
    ],
)
def test_what_is_final_and_what_is_not(
    start: Start, message: Message, recipient: str, data: str, kind: type[Exception]
) -> None:
    mailbox, at = start()
    mailbox.recipient, mailbox.data = recipient, data
    with pytest.raises(kind) as refused:
        send(of_url(f"smtp://{at}?to=a@b"), message)
    assert str(refused.value).isprintable()


def test_who_is_not_there_is_tried_again(free_port: Callable[[], int], message: Message) -> None:
    with pytest.raises(NotDeliveredError, match="Connection refused"):
        send(of_url(f"smtp://127.0.0.1:{free_port()}?to=a@b"), message)


@pytest.mark.parametrize("goodbye", ["221 Bye", "421 too busy", "250 OK", "554 no", "no answer"])
@pytest.mark.parametrize("breaks_at", ["", "QUIT"])
def test_a_letter_that_was_accepted_has_arrived_whatever_the_goodbye(
    start: Start, message: Message, goodbye: str, breaks_at: str
) -> None:
    mailbox, at = start()
    mailbox.goodbye, mailbox.breaks_at = goodbye, breaks_at
    send(of_url(f"smtp://{at}?to=a@b"), message)
    assert len(mailbox.letters) == 1


@pytest.mark.parametrize(("breaks_at", "reached"), [("RCPT", False), ("DATA", True)])
def test_it_may_be_the_letter_where_the_server_breaks_off_once_it_has_come(
    start: Start, message: Message, breaks_at: str, reached: bool
) -> None:
    mailbox, at = start()
    mailbox.breaks_at = breaks_at
    with pytest.raises(NotDeliveredError, match="closed") as broken:
        send(of_url(f"smtp://{at}?to=a@b"), message)
    assert broken.value.reached == reached


def test_a_server_may_check_a_letter_for_minutes_before_it_accepts_it(
    start: Start, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten minutes, and no other answer takes so long."""
    waits: list[float | None] = []

    def getreply(server: smtplib.SMTP) -> Any:
        assert server.sock is not None
        waits.append(server.sock.gettimeout())
        return reply(server)

    reply = smtplib.SMTP.getreply
    monkeypatch.setattr(smtplib.SMTP, "getreply", getreply)
    _, at = start()
    send(of_url(f"smtp://{at}?to=a@b"), message)
    assert waits.count(600.0) == 2, "the answers to DATA and to the letter"
    assert {*waits[:-3], waits[-1]} == {mail.TIMEOUT_S}
