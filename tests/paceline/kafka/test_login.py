"""A real login: TLS and SCRAM-SHA-512 against Apache Kafka, right and wrong."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from paceline import events, rights, topics
from paceline.command_reader import CommandReader
from paceline.command_rules import CommandRules, Reader
from paceline.delivery.publisher import Publisher
from paceline.kafka import acls, clients
from paceline.kafka.errors import BusError
from paceline.kafka.follow import BEGINNING, Follower
from paceline.kafka.reach import wait_for_broker
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import describe_topics, ensure_topics
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.bus

PROPERTIES = """
listener.security.protocol.map=CLIENT:SASL_SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=CLIENT
sasl.enabled.mechanisms=SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
listener.name.client.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
username="admin" password="admin-secret";
ssl.keystore.type=PEM
ssl.keystore.location={store}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin;User:ANONYMOUS
"""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, a broker's certificate by it, and another authority that signed nothing."""
    folder = tmp_path_factory.mktemp("certificates")
    (folder / "san").write_text("subjectAltName=IP:127.0.0.1\n")
    new = "openssl req -newkey rsa:2048 -nodes -days 2"
    for command in (
        f"{new} -x509 -keyout ca.key -out ca.pem -subj /CN=authority",
        f"{new} -x509 -keyout other.key -out other.pem -subj /CN=other",
        "openssl req -newkey rsa:2048 -nodes -keyout broker.key -out broker.csr -subj /CN=broker",
        "openssl x509 -req -in broker.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile san -out broker.pem",
    ):
        subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    parts = ("broker.key", "broker.pem", "ca.pem")
    (folder / "store.pem").write_text("".join((folder / part).read_text() for part in parts))
    return folder


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with what everyone sees of each Java that ``java`` in the folder beside it starts, and its environment."""
    seen, java = tmp_path_factory.mktemp("java") / "seen", shutil.which("java")
    script = seen.with_name("java")
    script.write_text(f'#!/bin/sh\n{{ echo "argument: $*"; env; }} >>{seen}\nexec {java} "$@"\n')
    script.chmod(0o755)
    return seen


@pytest.fixture(scope="module")
def secured(
    certificates: Path, seen: Path, new_apache_kafka_of_module: Callable[..., object]
) -> Iterator[BrokerSettings]:
    """Settings that are right for a node with TLS, two users and no rights but the administrator's."""
    (certificates / "users").write_text("guest=guest-secret\nother=other-secret\n")
    users = {"SCRAM_USERS": "admin=admin-secret", "SCRAM_USERS_FILE": str(certificates / "users")}
    path = f"{seen.parent}{os.pathsep}{os.environ['PATH']}"
    properties = certificates / "extra.properties"
    properties.write_text(PROPERTIES.format(store=certificates / "store.pem", authority=certificates / "ca.pem"))
    node = new_apache_kafka_of_module(EXTRA_PROPERTIES=str(properties), PATH=path, **users)
    settings = BrokerSettings(
        brokers=(node.address,),
        security_protocol="SASL_SSL",
        ssl_cafile=str(certificates / "ca.pem"),
        sasl_username="admin",
        sasl_password="admin-secret",
    )
    node.start(settings)
    return settings


def test_the_right_password_opens_everything(secured: BrokerSettings):
    """Topics are made and an event is delivered over TLS with a login."""
    wait_for_broker(secured, PATIENCE_S)
    ensure_topics(secured)
    publisher = Publisher(secured, client_id="test")
    publisher.publish(topics.DEADLETTER, event())
    assert publisher.close(PATIENCE_S).sent == 1


def test_no_password_is_in_the_process_list(secured: BrokerSettings, seen: Path):
    """Neither formatting nor the broker gets one on its command line or in its environment."""
    text = seen.read_text()
    assert "StorageTool format" in text
    assert "kafka.Kafka" in text
    assert "secret" not in text


def test_the_password_may_lie_in_a_file(secured: BrokerSettings, tmp_path: Path):
    """PACELINE_SASL_PASSWORD_FILE logs in."""
    (tmp_path / "password").write_text("guest-secret\n")
    environ = {
        "PACELINE_SECURITY_PROTOCOL": "SASL_SSL",
        "PACELINE_SSL_CAFILE": secured.ssl_cafile,
        "PACELINE_SASL_USERNAME": "guest",
        "PACELINE_SASL_PASSWORD_FILE": str(tmp_path / "password"),
    }
    wait_for_broker(BrokerSettings.from_environ(environ, secured.address), 60)


def test_a_wrong_password_is_said_at_once(secured: BrokerSettings):
    """The line names the user and the variables, not the password, and nobody waits for the deadline."""
    with pytest.raises(BusError, match=r"login refused for user 'admin'.*PACELINE_SASL_PASSWORD") as caught:
        wait_for_broker(replace(secured, sasl_password="wr0ng"), 1000)
    assert "wr0ng" not in str(caught.value)


def test_an_untrusted_broker_gets_no_password(secured: BrokerSettings, certificates: Path):
    """A certificate of another authority ends the connection before the login."""
    with pytest.raises(BusError, match=r"not trusted.*PACELINE_SSL_CAFILE"):
        wait_for_broker(replace(secured, ssl_cafile=str(certificates / "other.pem")), 1000)


def test_plain_text_to_a_tls_port_points_to_the_protocol(secured: BrokerSettings):
    """Who forgot TLS is told so, and which variable to set."""
    with pytest.raises(BusError, match="speaks TLS; set PACELINE_SECURITY_PROTOCOL"):
        wait_for_broker(BrokerSettings(brokers=secured.brokers), 60)


def test_a_mechanism_the_broker_does_not_offer_is_named(secured: BrokerSettings):
    """PLAIN where only SCRAM is offered."""
    with pytest.raises(BusError, match="PACELINE_SASL_MECHANISM"):
        wait_for_broker(replace(secured, sasl_mechanism="PLAIN"), 60)


def test_a_user_without_rights_stops_nobody(secured: BrokerSettings):
    """An event that may not be written is shed, counted, and told once, with the user and the topic."""
    ensure_topics(secured)
    told: list[str] = []
    guest = replace(secured, sasl_username="guest", sasl_password="guest-secret")
    publisher = Publisher(guest, client_id="test", on_warning=told.append)
    for _ in range(3):
        publisher.publish(topics.DEADLETTER, event())
    stats = publisher.close(PATIENCE_S)
    assert (stats.sent, stats.shed, len(told)) == (0, 3, 1)
    assert "guest" in told[0]
    assert topics.DEADLETTER.name in told[0]


def runs(secured: BrokerSettings, user: str, *words: str) -> "subprocess.Popen[str]":
    """A command of ``user``'s."""
    environ = {
        "PACELINE_BROKERS": secured.address,
        "PACELINE_SECURITY_PROTOCOL": "SASL_SSL",
        "PACELINE_SSL_CAFILE": secured.ssl_cafile,
        "PACELINE_SASL_USERNAME": user,
        "PACELINE_SASL_PASSWORD": f"{user}-secret",
    }
    command = [sys.executable, "-W", "ignore", "-m", "paceline", *words]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environ}
    )


def asks(secured: BrokerSettings) -> "subprocess.Popen[str]":
    """`paceline ask` by a user who is no administrator, of a job that has reported nothing."""
    return runs(secured, "guest", "ask", "job:j", "dance", "--wait", "240", "--anyway")


@contextlib.contextmanager
def allowed(secured: BrokerSettings, service: str, user: str = "guest") -> Iterator[None]:
    """The rights of a service, for a user, by the command's way to give them."""
    asked = rights.rules(service, f"User:{user}")
    assert acls.allow(secured, asked) == len(acls.entries(asked))
    yield
    with contextlib.closing(clients.admin(secured)) as admin:
        admin.delete_acls(acls.entries(asked))


@pytest.mark.e2e
def test_a_worker_advises_with_the_rights_that_are_documented(secured: BrokerSettings):
    """Read, write, and all over its own prefix: it makes its own topics, hears a command and answers."""
    ensure_topics(secured)
    with allowed(secured, "streams"), runs(secured, "guest", "streams", "--log-level", "error") as worker:
        try:
            asked = runs(secured, "admin", "ask", "suggestion:none", "accept", "--wait", "200", "--expires", "600")
            output, said = asked.communicate()
        finally:
            worker.terminate()
            _, errors = worker.communicate()
    assert "refused: no such suggestion in cluster default" in output, f"{said}{errors}"


def test_a_user_without_the_right_to_ask_is_told(secured: BrokerSettings):
    """In one line, with status 1."""
    ensure_topics(secured)
    process = asks(secured)
    output, said = process.communicate()
    assert (process.returncode, output, said.count("\n")) == (1, "", 1)
    assert "not allowed" in said


def test_who_may_ask_is_decided_by_rights_to_the_topics(secured: BrokerSettings, until: Callable[..., object]):
    """Those that docs/deploy.md names suffice: a reader with rights of its own answers."""
    ensure_topics(secured)
    rules = CommandRules(Reader("sidecar", "n1", "default"), {}, obeys=True, since_s=time.time())
    publisher = Publisher(secured, client_id="test")
    reader = CommandReader(secured, "test", rules, publisher.publish)
    with allowed(secured, "people"):
        process = asks(secured)
        until(lambda: reader.turn({"job:j"}) or process.poll() is not None)
    output, said = process.communicate()
    reader.close(PATIENCE_S)
    publisher.close(PATIENCE_S)
    assert (process.returncode, output, said) == (1, "sidecar on n1: unknown action: known here: none\n", "")


def test_a_topic_that_may_not_be_described_is_told(secured: BrokerSettings):
    """It is not taken for one that is not there."""
    ensure_topics(secured)
    guest = replace(secured, sasl_username="guest", sasl_password="guest-secret")
    with pytest.raises(BusError, match=rf"not allowed: .*{topics.DEADLETTER.name}"):
        describe_topics(guest, [topics.DEADLETTER.name])


def written(settings: BrokerSettings, topic: topics.Topic) -> tuple[int, str]:
    """Write an event's worth of bytes; how many the brokers took, and what was told."""
    told: list[str] = []
    publisher = Publisher(settings, client_id="test", on_warning=told.append)
    publisher.publish_encoded(topic.name, "key", b"{}")
    return publisher.close(PATIENCE_S).sent, " ".join(told)


def read(settings: BrokerSettings, topic: topics.Topic, until: Callable[..., object]) -> bool:
    """Whether something comes of a topic."""
    with Follower(settings, {topic: BEGINNING}, "test") as follower:
        return bool(until(lambda: follower.poll() or follower.cause)) and not follower.cause


@pytest.mark.parametrize(
    ("service", "reads", "writes", "not_reads", "not_writes"),
    [
        ("collectors", "command", "device", "finding", "command"),
        ("training", "plan", "op", "device", "finding"),
        ("page", "finding", None, "command", "finding"),
        ("forecaster", "window", "forecast", "finding", "window"),
        ("alerts", "finding", None, "op", "suggestion"),
        ("control", "finding", "session", None, "finding"),
        ("streams", "op", "finding", "capture", "session"),
        ("archive", "window", None, "capture", "finding"),
        ("annotator", "node", None, "op", "finding"),
        ("people", "op", "threshold", None, "finding"),
    ],
)
def test_each_service_may_do_its_work_and_no_more(
    secured: BrokerSettings,
    until: Callable[..., object],
    service: str,
    reads: str,
    writes: str | None,
    not_reads: str | None,
    not_writes: str,
) -> None:
    """With the rights that `paceline rights` gives; whatever else is tried is refused in a sentence."""
    ensure_topics(secured)
    user = replace(secured, sasl_username="other", sasl_password="other-secret")
    with allowed(secured, service, "other"):
        assert written(secured, topics.resolve(reads)) == (1, "")
        assert read(user, topics.resolve(reads), until)
        if writes is not None:
            assert written(user, topics.resolve(writes)) == (1, "")
        if not_reads is not None:
            # Who may read may describe: who may not describe may not read.
            with pytest.raises(BusError, match=f"not allowed: .*{topics.resolve(not_reads).name}"):
                describe_topics(user, [topics.resolve(not_reads).name])
        sent, told = written(user, topics.resolve(not_writes))
    assert sent == 0
    if writes is None:
        assert "not allowed to write anything" in told
    else:
        assert "other" in told
        assert topics.resolve(not_writes).name in told


def test_rights_are_given_by_an_administrator_alone(secured: BrokerSettings) -> None:
    """Whoever else tries is told so in one line; twice is no error."""
    for user, status in (("guest", 1), ("admin", 0), ("admin", 0)):
        process = runs(secured, user, "rights", "alerts", "--user", "alerts=bell", "--apply")
        _, said = process.communicate()
        assert (process.returncode, said.count("\n")) == (status, 1), said
        assert ("not allowed" in said) == bool(status)


def test_who_may_write_thresholds_alone_may_set_them(secured: BrokerSettings) -> None:
    """The topics that this user does not see are none of the command's business: it makes no other."""
    ensure_topics(secured)
    least = [rule for rule in rights.rules("people", "User:guest") if rule.name == topics.THRESHOLD.name]
    assert least
    acls.allow(secured, least)
    process = runs(secured, "guest", "thresholds", "--job", "j", "least_excess=0.2")
    output, said = process.communicate()
    with contextlib.closing(clients.admin(secured)) as admin:
        admin.delete_acls(acls.entries(least))
    assert (process.returncode, said) == (0, "")
    assert "least_excess=0.2" in output


def test_a_topic_that_may_not_be_read_is_not_called_missing(secured: BrokerSettings) -> None:
    """One cause, not two that contradict each other."""
    ensure_topics(secured)
    process = runs(secured, "guest", "tail", "finding", "--seconds", "1")
    _, said = process.communicate()
    assert f"not allowed to read {topics.FINDING.name}" in said
    assert "not there yet" not in said


def test_who_may_not_make_topics_reads_which_one(secured: BrokerSettings) -> None:
    """A sentence with what helps, and nothing of the client's request: `paceline rights` gives nobody that right."""
    process = runs(secured, "guest", "thresholds", "--job", "j", "least_excess=0.2")
    output, said = process.communicate()
    assert (process.returncode, output) == (1, "")
    what = f"not allowed: to create topic {topics.THRESHOLD.name}; run `paceline topics create` with a login that may"
    assert what in said


def event() -> events.DeadLetter:
    return events.DeadLetter(reason="r", topic="t", partition=0, offset=0, time_s=0.0, excerpt="")
