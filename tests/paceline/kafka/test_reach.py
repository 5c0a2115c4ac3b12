"""The line a person gets when a broker does not let us in, and how long is waited for one."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from kafka import errors as kafka_errors

from paceline.kafka import clients, errors, reach
from paceline.kafka.errors import BusError
from paceline.kafka.settings import BrokerSettings


@pytest.fixture
def listener() -> Iterator[Callable[[bytes | None], str]]:
    """Makes listeners that are no Kafka: they answer every connection with the given bytes, or hang with None."""
    with contextlib.ExitStack() as stack, ThreadPoolExecutor() as pool:

        def serve(answer: bytes | None) -> str:
            server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

            def loop() -> None:
                with contextlib.suppress(OSError), contextlib.ExitStack() as kept:
                    while True:
                        accepted = server.accept()[0]
                        if answer is None:
                            kept.enter_context(accepted)
                            continue
                        with accepted, contextlib.suppress(OSError):
                            accepted.recv(65536)
                            accepted.sendall(answer)

            pool.submit(loop)
            stack.callback(lambda: server.shutdown(socket.SHUT_RDWR))
            return f"127.0.0.1:{server.getsockname()[1]}"

        yield serve
        stack.close()


def test_tls_to_something_without_tls_is_said(listener: Callable[[bytes | None], str]):
    """A server that answers TLS with plain text: the line points to the protocol setting."""
    settings = BrokerSettings(security_protocol="SSL").with_brokers(listener(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    with pytest.raises(BusError, match="PACELINE_SECURITY_PROTOCOL"):
        clients.admin(settings)


def test_a_server_that_is_no_kafka_is_an_error_and_no_hang(listener: Callable[[bytes | None], str]):
    """A server that closes the connection on Kafka's first word."""
    with pytest.raises(BusError):
        clients.admin(BrokerSettings().with_brokers(listener(b"")))


@pytest.mark.slow
def test_a_silent_server_ends_with_no_answer_in_time(listener: Callable[[bytes | None], str]):
    """A port that accepts and says nothing is given up after the deadline."""
    with pytest.raises(BusError, match="no answer in time"):
        reach.wait_for_broker(BrokerSettings().with_brokers(listener(None)), 0.5)


@pytest.mark.long
def test_waiting_tells_what_it_waits_for(nobody: str):
    """While it waits, the caller hears the cause, and in the end gets it as an error."""
    heard: list[str] = []
    with pytest.raises(BusError):
        reach.wait_for_broker(BrokerSettings().with_brokers(nobody), 0.3, heard.append)
    assert "connection refused" in heard[0]


def test_waiting_ends_at_once_where_it_cannot_help(monkeypatch: pytest.MonkeyPatch):
    """A refused login is not tried again and again: brokers lock accounts for that."""
    tries: list[str] = []

    def refused(address: str, options: object, timeout_s: float) -> None:
        tries.append(address)
        raise errors.explain(address, kafka_errors.SaslAuthenticationFailedError("no"), "ada")

    monkeypatch.setattr(reach, "attempt", refused)
    with pytest.raises(BusError, match="login refused for user 'ada'"):
        reach.wait_for_broker(BrokerSettings(), 30)
    assert len(tries) == 1


@pytest.mark.parametrize("said", ["invalid_token", "access denied", ""])
def test_who_logs_in_by_a_token_is_not_told_of_passwords(said: str):
    """Brokers word the refusal of a token as they like."""
    error = kafka_errors.SaslAuthenticationFailedError(said)
    told = str(errors.explain("b:9092", error, "the token of a file", by_token=True))
    assert "does not hold there" in told
    assert "issuer, audience and clock" in told
    assert "PASSWORD" not in told
