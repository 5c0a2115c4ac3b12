"""Broker settings, the clients made from them, topics, and the line a person gets when the broker is away."""

import contextlib
import gc
import os
import socket
import ssl
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource

from paceline import topics
from paceline.kafka import clients, errors
from paceline.kafka.clients import BrokerSettings, BusError
from paceline.settings import SettingError

SASL = {
    "PACELINE_SECURITY_PROTOCOL": "SASL_SSL",
    "PACELINE_SASL_USERNAME": "ada",
    "PACELINE_SASL_PASSWORD": "s3cret",
}


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nothing listens, held so that nothing will."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


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


def test_a_refused_connection_leaves_no_socket_behind(nobody):
    """However often a broker that is away is tried, no socket waits for the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            with pytest.raises(kafka_errors.KafkaError):
                errors._hello(nobody, {}, 1.0)
        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        gc.enable()


def test_without_settings_the_local_broker_is_used_in_the_clear():
    """Nothing set: 127.0.0.1:9092, no TLS, no login."""
    assert BrokerSettings.from_environ({}).kafka_options() == {
        "bootstrap_servers": ["127.0.0.1:9092"],
        "security_protocol": "PLAINTEXT",
        "reconnect_backoff_max_ms": 2000,
    }


def test_tls_and_login_become_client_options():
    """SASL_SSL gives a verifying TLS context, the mechanism and the login."""
    options = BrokerSettings.from_environ(SASL).kafka_options()
    assert isinstance(options["ssl_context"], ssl.SSLContext)
    assert options["ssl_context"].verify_mode is ssl.CERT_REQUIRED
    assert options["ssl_context"].check_hostname
    assert [options[name] for name in ("security_protocol", "sasl_mechanism", "sasl_plain_username")] == [
        "SASL_SSL",
        "SCRAM-SHA-512",
        "ada",
    ]


def test_the_password_shows_in_no_representation():
    """Settings that end up in a log do not carry the password."""
    assert "s3cret" not in repr(BrokerSettings.from_environ(SASL))


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"PACELINE_BROKERS": "kafka"}, "PACELINE_BROKERS"),
        ({"PACELINE_BROKERS": "kafka:0"}, "PACELINE_BROKERS"),
        ({"PACELINE_SECURITY_PROTOCOL": "TLS"}, "PACELINE_SECURITY_PROTOCOL"),
        ({"PACELINE_SSL_CAFILE": "/ca.pem"}, "PACELINE_SSL_CAFILE"),
        ({"PACELINE_SECURITY_PROTOCOL": "SSL", "PACELINE_SSL_KEYFILE": "/key.pem"}, "PACELINE_SSL_CERTFILE"),
        ({"PACELINE_SASL_USERNAME": "ada"}, "PACELINE_SASL_USERNAME"),
        ({"PACELINE_SECURITY_PROTOCOL": "SSL", "PACELINE_SASL_PASSWORD": "x"}, "PACELINE_SASL_PASSWORD"),
        ({**SASL, "PACELINE_SASL_USERNAME": ""}, "PACELINE_SASL_USERNAME"),
        ({**SASL, "PACELINE_SASL_PASSWORD": ""}, "PACELINE_SASL_PASSWORD"),
        ({**SASL, "PACELINE_SASL_MECHANISM": "GSSAPI"}, "PACELINE_SASL_MECHANISM"),
    ],
)
def test_settings_that_contradict_each_other_name_the_variable(environ: dict[str, str], named: str):
    """A wrong value or combination is one line that begins with the variable and never holds the password."""
    with pytest.raises(SettingError) as caught:
        BrokerSettings.from_environ(environ)
    assert str(caught.value).startswith(named)
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("content", [None, "no PEM"])
def test_a_bad_certificate_file_names_its_variable(content: str | None, tmp_path: Path):
    """A missing or unreadable CA file is a wrong setting, not a traceback from inside the client."""
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SettingError, match="PACELINE_SSL_CAFILE"):
        BrokerSettings(security_protocol="SSL", ssl_cafile=str(path)).kafka_options()


def test_brokers_of_the_command_line_win():
    """--brokers replaces the brokers and keeps everything else."""
    settings = BrokerSettings.from_environ(SASL).with_brokers("a:1, b:2")
    assert (settings.brokers, settings.sasl_username) == (("a:1", "b:2"), "ada")


def test_a_wrong_address_on_the_command_line_is_a_setting_error():
    """--brokers that is no address says so."""
    with pytest.raises(SettingError, match="--brokers"):
        BrokerSettings().with_brokers("nonsense")


@pytest.mark.parametrize("make", [clients.admin, clients.consumer, lambda settings: clients.producer(settings, "test")])
def test_no_broker_is_one_line_with_address_cause_and_mend(make: Callable[..., object], nobody: str):
    """Every client says "refused" and what to do, at once, where kafka-python waits 30 s for "Unable to bootstrap"."""
    with pytest.raises(BusError, match=rf"^Kafka at {nobody}: connection refused.*paceline up") as caught:
        make(BrokerSettings().with_brokers(nobody))
    assert "\n" not in str(caught.value)


def test_an_unknown_host_is_named():
    """A host that does not exist is said to be so."""
    with pytest.raises(BusError, match=r"nowhere\.invalid:9092: no such host"):
        clients.admin(BrokerSettings().with_brokers("nowhere.invalid:9092"))


def test_tls_to_something_without_tls_is_said(listener: Callable[[bytes | None], str]):
    """A server that answers TLS with plain text: the line points to the protocol setting."""
    settings = BrokerSettings(security_protocol="SSL").with_brokers(listener(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    with pytest.raises(BusError, match="PACELINE_SECURITY_PROTOCOL"):
        clients.admin(settings)


def test_a_server_that_is_no_kafka_is_an_error_and_no_hang(listener: Callable[[bytes | None], str]):
    """A server that closes the connection on Kafka's first word."""
    with pytest.raises(BusError):
        clients.admin(BrokerSettings().with_brokers(listener(b"")))


def test_a_silent_server_ends_with_no_answer_in_time(listener: Callable[[bytes | None], str]):
    """A port that accepts and says nothing is given up after the deadline."""
    with pytest.raises(BusError, match="no answer in time"):
        clients.wait_for_broker(BrokerSettings().with_brokers(listener(None)), 0.5)


def test_the_second_broker_is_used_when_the_first_is_down(embedded_broker: object, nobody: str):
    """One dead address in the list does no harm."""
    settings = BrokerSettings().with_brokers(f"{nobody},{embedded_broker.address}")
    with contextlib.closing(clients.admin(settings)) as client:
        assert isinstance(client.list_topics(), list)


def test_waiting_tells_what_it_waits_for(nobody: str):
    """While it waits, the caller hears the cause, and in the end gets it as an error."""
    heard: list[str] = []
    with pytest.raises(BusError):
        clients.wait_for_broker(BrokerSettings().with_brokers(nobody), 0.3, heard.append)
    assert "connection refused" in heard[0]


def test_waiting_ends_at_once_where_it_cannot_help(monkeypatch: pytest.MonkeyPatch):
    """A refused login is not tried again and again: brokers lock accounts for that."""
    tries: list[str] = []

    def refused(address: str, options: object, timeout_s: float) -> None:
        tries.append(address)
        raise errors.explain(address, kafka_errors.SaslAuthenticationFailedError("no"), "ada")

    monkeypatch.setattr(clients, "attempt", refused)
    with pytest.raises(BusError, match="login refused for user 'ada'"):
        clients.wait_for_broker(BrokerSettings(), 30)
    assert len(tries) == 1


def test_topics_are_made_as_the_table_says(broker: BrokerSettings):
    """Every topic of the table is there; on Apache Kafka with its partitions."""
    with contextlib.closing(clients.admin(broker)) as client:
        found = {row["name"]: len(row["partitions"]) for row in client.describe_topics([*topics.BY_NAME])}
    assert set(found) == set(topics.BY_NAME)
    assert found[topics.DEADLETTER.name] == 1


def test_topics_that_exist_are_left_alone(broker: BrokerSettings):
    """A second call makes nothing and fails at nothing."""
    assert clients.ensure_topics(broker) == []


def test_two_that_make_the_same_topics_at_once_both_succeed(broker: BrokerSettings):
    """Every topic is made exactly once, whoever comes first."""
    fresh = [topics.Topic(f"race-{uuid.uuid4().hex}", topics.OP.event, "job", "raw", 1000, 2) for _ in range(4)]
    with ThreadPoolExecutor(3) as pool:
        made = [name for names in pool.map(lambda _: clients.ensure_topics(broker, fresh), range(3)) for name in names]
    assert sorted(made) == sorted(topic.name for topic in fresh)


@pytest.mark.bus
def test_retention_and_compaction_reach_apache_kafka(apache_kafka: object):
    """Compacted topics compact, the others keep what the table says."""
    clients.ensure_topics(apache_kafka.settings)
    with contextlib.closing(clients.admin(apache_kafka.settings)) as client:
        wanted = [ConfigResource("topic", name) for name in (topics.NODE.name, topics.FINDING.name)]
        found = client.describe_configs(wanted, config_filter="all")["topic"]
    assert found[topics.NODE.name]["cleanup.policy"]["value"] == "compact"
    assert found[topics.FINDING.name]["retention.ms"]["value"] == str(topics.FINDING.retention_ms)


def test_what_is_produced_is_consumed(broker: BrokerSettings):
    """A key and a value come back as they were."""
    producer = clients.producer(broker, "test")
    producer.send(topics.HOST.name, key=b"k", value=b"there and back").get(20)
    producer.close()
    with contextlib.closing(clients.consumer(broker, topics.HOST, from_beginning=True)) as consumer:
        rows = next(row for row in consumer if row.value == b"there and back")
    assert rows.key == b"k"
