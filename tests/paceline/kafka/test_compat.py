"""What kafka-python leaves undone."""

import contextlib
import gc
import os
import re
import socket
import socketserver
import ssl
import struct
import subprocess
import threading
import uuid
import warnings
from pathlib import Path

import pytest
from kafka import TopicPartition
from kafka import errors as kafka_errors

from paceline.kafka import clients, compat
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from paceline.topics import HOST


@pytest.mark.long
@pytest.mark.parametrize("kind", [compat._PlainSocket, compat._TlsSocket._create])
def test_a_socket_that_the_client_drops_is_closed(kind):
    """In the middle of connecting, say: else a warning fails whatever test is on by then."""
    ours, theirs = socket.socketpair()
    with theirs, warnings.catch_warnings():
        warnings.simplefilter("error")
        if kind is compat._PlainSocket:
            dropped = kind(fileno=ours.detach())
        else:
            dropped = kind(
                ours, context=ssl.create_default_context(), server_hostname="b", do_handshake_on_connect=False
            )
        del dropped
        gc.collect()
        assert theirs.recv(1) == b""


@pytest.mark.slow
def test_a_refused_connection_leaves_no_socket_behind(nobody):
    """However often a broker that is away is tried, no socket waits for the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            with pytest.raises(kafka_errors.KafkaError):
                compat.hello(nobody, {}, 1.0)
        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        gc.enable()


@pytest.mark.slow
def test_a_client_that_cannot_be_made_leaves_no_socket_behind(nobody):
    """A constructor of kafka-python that fails forgets its sockets."""
    gc.collect()
    gc.disable()
    try:
        before = len(os.listdir("/proc/self/fd"))
        for make in (clients.KafkaConsumer, clients.KafkaAdminClient):
            with pytest.raises(kafka_errors.KafkaError):
                compat.construct(make, bootstrap_servers=[nobody], bootstrap_timeout_ms=300)
        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        gc.enable()


class HangsUp(socketserver.StreamRequestHandler):
    """A broker that offers another way to log in than it is asked for, and ends the connection in the same moment."""

    _API_VERSIONS, _SASL_HANDSHAKE = 18, 17

    def handle(self):
        while size := self.rfile.read(4):
            request = self.rfile.read(*struct.unpack(">i", size))
            api, version, correlation = struct.unpack_from(">hhi", request)
            if api == self._SASL_HANDSHAKE:
                self.answer(correlation, struct.pack(">hih5s", 33, 1, 5, b"OTHER"))
                return
            apis = [(self._SASL_HANDSHAKE, 0, 1), (self._API_VERSIONS, 0, 0)]
            said = struct.pack(">hi", 35 if version else 0, len(apis)) + b"".join(struct.pack(">hhh", *a) for a in apis)
            self.answer(correlation, said)

    def answer(self, correlation, said):
        self.wfile.write(struct.pack(">ii", len(said) + 4, correlation) + said)


@pytest.fixture(params=["plain", "tls"])
def hangs_up(request, tmp_path):
    """Address of such a broker, and the client's options that reach it."""
    server, options = (
        socketserver.ThreadingTCPServer(("127.0.0.1", 0), HangsUp),
        {"security_protocol": "SASL_PLAINTEXT"},
    )
    if request.param == "tls":
        made = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out cert -subj /CN=b"
        subprocess.run(
            [*made.split(), "-addext", "subjectAltName=IP:127.0.0.1"], cwd=tmp_path, check=True, capture_output=True
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        trusting = ssl.create_default_context(cafile=tmp_path / "cert")
        options = {"security_protocol": "SASL_SSL", "ssl_context": trusting}
    login = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "ada", "sasl_plain_password": "secret"}
    with server:
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        yield f"127.0.0.1:{server.server_address[1]}", {**options, **login}
        server.shutdown()


@pytest.mark.slow
def test_a_refusal_is_heard_though_the_broker_hangs_up_in_the_same_moment(hangs_up):
    """The client reads to the end of the connection, and must not drop what came before it."""
    address, options = hangs_up
    with pytest.raises(kafka_errors.UnsupportedSaslMechanismError):
        compat.hello(address, options, 5.0)


@pytest.mark.landing
def test_a_discarded_producer_is_closed_at_once_with_what_it_holds(broker: BrokerSettings):
    """Nothing is waited for; twice is fine."""
    producer = clients.producer(broker, "test", linger_ms=60_000)
    held = producer.send(HOST.name, value=b"never sent")
    compat.discard(producer)
    compat.discard(producer)
    assert held.failed()


@pytest.mark.long
def test_private_names_of_the_client_are_used_here_alone():
    """A new version of kafka-python needs one file to be read."""
    private = re.compile(r"\bkafka\.net\b|\b(client|consumer|producer)\._[a-z]|_unregister_cleanup|force_close")
    root = Path(compat.__file__).parents[2]
    folders = ("paceline", "collectors", "streams", "forecaster", "ui", "importers", "simulator", "experiments")
    files = [path for folder in folders for path in (root / folder).rglob("*.py") if path != Path(compat.__file__)]
    assert {str(path) for path in files if private.search(path.read_text(encoding="utf-8"))} == set()


def test_brokers_that_know_no_topic_ids_give_none():
    """They say so by nothing, or by zeros; neither may be taken for an id."""
    known = uuid.uuid4()
    assert [compat.known_id(answered) for answered in (None, uuid.UUID(int=0), known)] == ["", "", str(known)]


@pytest.mark.bus
def test_a_partition_that_nobody_leads_is_an_error_of_kafka(apache_kafka, monkeypatch):
    """The answer leaves it out, of which the client makes a bare KeyError: it ended the thread of whoever asked."""
    ensure_topics(apache_kafka.settings, [HOST])
    at = [TopicPartition(HOST.name, 0)]
    with contextlib.closing(clients.consumer(apache_kafka.settings)) as consumer:
        consumer.assign(at)
        assert compat.offsets(consumer.end_offsets, at, 20.0)[at[0]] >= 0

        async def nobody_answers(wanted: object, timeout_ms: object = None) -> dict[TopicPartition, object]:
            return {}

        monkeypatch.setattr(consumer._fetcher, "_fetch_offsets_by_times_async", nobody_answers)
        with pytest.raises(kafka_errors.KafkaError, match=f"no broker leads a partition of {HOST.name}"):
            compat.offsets(consumer.end_offsets, at, 20.0)
