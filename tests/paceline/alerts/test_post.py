"""A body over HTTP: what arrives, what is tried again, what never, and that nothing is followed or told."""

import json
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

import pytest

from paceline.alerts import post as door
from paceline.alerts.outcome import NotDeliveredError, RefusedError
from paceline.alerts.post import post
from paceline.alerts.target import of_url

SECRET = "s3cr3t"


def failure(address: str, kind: type[Exception] = NotDeliveredError) -> Any:
    with pytest.raises(kind) as raised:
        post(of_url(address), b"[]")
    assert SECRET not in str(raised.value)
    return raised.value


def test_the_body_arrives_whole_and_says_what_it_is(receiver: Any) -> None:
    post(of_url(f"http://u:{SECRET}@{receiver.at}/hook/{SECRET}?x=1"), json.dumps({"a": "é"}).encode())
    (received,) = receiver.received
    assert (received.path, json.loads(received.body)) == (f"/hook/{SECRET}?x=1", {"a": "é"})
    assert received.headers["Content-Type"] == "application/json"
    assert received.headers["Authorization"] == "Basic dTpzM2NyM3Q="


@pytest.mark.long
@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_body_that_is_wrong_is_refused_for_good(receiver: Any, status: int) -> None:
    receiver.answers = [(status, {}, b"bad \x1b[31m alert")]
    refused = failure(f"http://{receiver.at}/{SECRET}", RefusedError)
    assert str(refused) == f"answered {status}: bad \\u001b[31m alert"


@pytest.mark.long
@pytest.mark.parametrize(
    ("status", "asked_s", "reached"),
    [(401, 0, False), (403, 0, True), (404, 0, False), (408, 0, True), (429, 7, False), (500, 0, True), (503, 7, True)],
)
def test_what_can_be_mended_at_the_other_end_is_tried_again(
    receiver: Any, status: int, asked_s: float, reached: bool
) -> None:
    """``reached``: it may be for what this message says. Only who is overloaded may ask for a wait."""
    receiver.answers = [(status, {"Retry-After": "7"}, b"")]
    failed = failure(f"http://{receiver.at}/{SECRET}")
    assert (str(failed), failed.asked_s, failed.reached) == (f"answered {status}", asked_s, reached)


@pytest.mark.long
@pytest.mark.parametrize("status", [302, 400, 403, 404, 500])
@pytest.mark.parametrize(
    "said",
    ["Cannot POST /hooks/Wq3-kX9_zz", "no such hook: WQ3%2DKX9%5FZZ", "<b>Wq3&#45;kX9&#95;zz</b>",
     '{"path":"\\/hooks\\/Wq3-kX9_"}',
     "login dTpwQHMtd29yZC0x", "p@s-word-1 is wrong", "p%40s-word-1"],
)  # fmt: skip
def test_an_answer_that_repeats_the_address_is_not_told(receiver: Any, status: int, said: str) -> None:
    receiver.answers = [(status, {}, said.encode())]
    with pytest.raises((NotDeliveredError, RefusedError)) as raised:
        post(of_url(f"http://u:p%40s-word-1@{receiver.at}/hooks/Wq3-kX9_zz"), b"[]")
    told = str(raised.value).casefold()
    assert not [piece for piece in ("wq3", "kx9", "word-1", "dtpw") if piece in told]


def test_who_cuts_off_what_was_sent_may_do_so_for_what_it_says() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            connection.recv(65_536)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        assert failure(f"http://127.0.0.1:{server.getsockname()[1]}/").reached
        thread.join()


@pytest.mark.parametrize("asked", ["Wed, 21 Oct 2026 07:28:00 GMT", "-5", "soon", "٣"])
def test_a_wait_in_other_words_is_ours_to_choose(receiver: Any, asked: str) -> None:
    receiver.answers = [(503, {"Retry-After": asked.encode().decode("latin-1")}, b"")]
    assert failure(f"http://{receiver.at}/").asked_s == 0.0


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(receiver: Any, status: int) -> None:
    receiver.answers = [(status, {"Location": f"http://{receiver.at}/elsewhere"}, b"")]
    assert "redirect" in str(failure(f"http://{receiver.at}/"))
    assert [received.path for received in receiver.received] == ["/"]


def test_who_is_not_there_is_named_in_a_few_words() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        refused = failure(f"http://127.0.0.1:{held.getsockname()[1]}/{SECRET}")
        assert (str(refused), refused.reached) == ("Connection refused", False)


@pytest.mark.long
@pytest.mark.parametrize(
    "answer", [b"", b"\xff\xfe\x00\n\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 200 " + b"x" * 100_000]
)
def test_what_is_no_http_is_no_arrival(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        failure(f"http://127.0.0.1:{server.getsockname()[1]}/")
        thread.join()


@pytest.mark.long
def test_who_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert str(failure(f"http://127.0.0.1:{server.getsockname()[1]}/")) == "no answer within 0.2 s"


@pytest.mark.slow
def test_a_certificate_is_verified(receiver: Any, certificates: Any, trusting: Callable[[], None]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.certificate, certificates.key)
    receiver.server.socket = context.wrap_socket(receiver.server.socket, server_side=True)
    assert str(failure(f"https://{receiver.at}/")).startswith("certificate not trusted: ")
    trusting()
    post(of_url(f"https://{receiver.at}/"), b"[]")
    assert len(receiver.received) == 1
