"""Every way to log in, with every kind of client, on Apache Kafka: what is right works, what is wrong is a sentence."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from aiokafka import errors as aiokafka_errors
from aiokafka.conn import AIOKafkaConnection, OAuthAuthenticator

from paceline import events, rights, topics
from paceline.delivery.publisher import Publisher
from paceline.kafka import acls, clients
from paceline.kafka.errors import BusError
from paceline.kafka.follow import BEGINNING, NOW, Follower
from paceline.kafka.outbound import Outbound
from paceline.kafka.reach import wait_for_broker
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.tokens import TokenSettings, TokenSource
from paceline.kafka.topic_admin import describe_topics, ensure_topics
from streams.compat import Tokens, answer_refused_tokens
from tests.kafka_doors import CLIENTS, WAYS, Doors, certificates
from tests.patience import PATIENCE_S
from tests.token_issuer import TokenIssuer

pytestmark = pytest.mark.bus


@pytest.fixture(scope="module")
def doors(
    tmp_path_factory: pytest.TempPathFactory,
    new_apache_kafka_of_module: Callable[..., object],
    free_port: Callable[[], int],
) -> Iterator[Doors]:
    folder = tmp_path_factory.mktemp("doors")
    certificates(folder)
    with TokenIssuer({}) as keys, TokenIssuer(dict(CLIENTS), folder / "store.pem", keys.key) as issuer:
        made = Doors(folder, new_apache_kafka_of_module, free_port, keys, issuer)
        ensure_topics(made.clear)
        yield made


@contextlib.contextmanager
def allowed(doors: Doors, way: str, service: str, name: str) -> Iterator[None]:
    """The rights of a service for whom the brokers know by that login."""
    asked = rights.rules(service, doors.principal(way, name))
    acls.allow(doors.clear, asked)
    yield
    with contextlib.closing(clients.admin(doors.clear)) as admin:
        admin.delete_acls(acls.entries(asked))


def event() -> events.DeadLetter:
    return events.DeadLetter(reason="r", topic="t", partition=0, offset=0, time_s=0.0, excerpt="")


def reads(settings: BrokerSettings, topic: topics.Topic, until: Callable[..., object]) -> bool:
    with Follower(settings, {topic: BEGINNING}, "test") as follower:
        return bool(until(lambda: follower.poll() or follower.cause)) and not follower.cause


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=[pytest.mark.landing] if way == "oauth" else []) for way in WAYS]
)
def test_the_right_login_works_through_every_client(doors: Doors, way: str, until: Callable[..., object]) -> None:
    """The services' publisher, a command's, a follower, and an administrator."""
    settings = doors.settings(way, "collectors")
    with allowed(doors, way, "collectors", "collectors"), allowed(doors, way, "page", "collectors"):
        wait_for_broker(settings, 60)
        publisher = Publisher(settings, client_id="test")
        publisher.publish_encoded(topics.HOST.name, "n", b"{}")
        assert publisher.close(PATIENCE_S).sent == 1
        with Outbound(settings, "test") as outbound:
            outbound.send(topics.HOST.name, b"n", b"{}")
        assert reads(settings, topics.HOST, until)
        assert describe_topics(settings, [topics.HOST.name])[topics.HOST.name].partitions == topics.HOST.partitions


def wrong(doors: Doors, case: str) -> BrokerSettings:
    """Settings of which one thing is not right."""
    oauth, mtls, scram = (doors.settings(way) for way in ("oauth", "mtls", "scram"))
    tokens = oauth.sasl_oauth
    assert tokens is not None
    folder = doors.folder
    made = {
        "password": lambda: replace(scram, sasl_password="wr0ng"),
        "user": lambda: replace(scram, sasl_username="nobody"),
        "client secret": lambda: replace(oauth, sasl_oauth=replace(tokens, client_secret="wr0ng")),
        "issuer down": lambda: replace(oauth, sasl_oauth=replace(tokens, url="https://127.0.0.1:1/token")),
        "issuer unknown": lambda: replace(oauth, sasl_oauth=replace(tokens, cafile=f"{folder}/other.pem")),
        "token": lambda: replace(oauth, sasl_oauth=replace(tokens, url="", file=f"{folder}/wr0ng.token")),
        "no certificate": lambda: replace(mtls, ssl_certfile="", ssl_keyfile=""),
        "stranger": lambda: replace(mtls, ssl_certfile=f"{folder}/stranger.pem", ssl_keyfile=f"{folder}/stranger.key"),
        "authority": lambda: replace(doors.settings("tls"), ssl_cafile=f"{folder}/other.pem"),
        "host name": lambda: replace(doors.settings("tls"), brokers=(f"localhost:{doors.ports['tls']}",)),
        "in the clear": lambda: BrokerSettings(doors.settings("tls").brokers),
        "login in the clear": lambda: replace(scram, security_protocol="SASL_PLAINTEXT", ssl_cafile=""),
        "tls to a clear port": lambda: replace(doors.settings("tls"), brokers=doors.clear.brokers),
        "login at a port without": lambda: replace(scram, brokers=doors.settings("tls").brokers),
        "no login": lambda: replace(doors.settings("tls"), brokers=scram.brokers),
        "mechanism": lambda: replace(scram, brokers=oauth.brokers),
    }
    return made[case]()


WRONG = {
    "password": r"login refused for user 'page' \(wrong password or user\); check PACELINE_SASL_USERNAME",
    "user": r"login refused for user 'nobody'",
    "client secret": r"no token to log in with: the issuer at 127\.0\.0\.1 refused a token to the client 'page'",
    "issuer down": r"no token to log in with: the issuer at 127\.0\.0\.1 cannot be asked: Connection refused; check",
    "issuer unknown": r"certificate of the issuer at 127\.0\.0\.1 is not trusted .*; set PACELINE_SASL_OAUTH_CAFILE",
    "token": r"login refused: the token of the file .* does not hold there .*; check that issuer, audience and clock",
    "no certificate": r"it asks for our certificate .*; set PACELINE_SSL_CERTFILE and PACELINE_SSL_KEYFILE",
    "stranger": r"it does not accept our certificate .*; have .* signed by an authority that the brokers trust",
    "authority": r"its certificate is not trusted .*; set PACELINE_SSL_CAFILE",
    "host name": r"its certificate is for another name .*; name it in PACELINE_BROKERS as its certificate does",
    "in the clear": r"that port speaks TLS; set PACELINE_SECURITY_PROTOCOL to SSL or SASL_SSL",
    "login in the clear": r"that port speaks TLS; set PACELINE_SECURITY_PROTOCOL to SSL or SASL_SSL",
    "tls to a clear port": r"; that port may not speak TLS: set PACELINE_SECURITY_PROTOCOL",
    "login at a port without": r"it asks for no login",
    "no login": r"it closed the connection.*want TLS or a login",
    # Brokers refuse it and hang up in one go: which of the two the client sees first is chance.
    "mechanism": r"(it does not offer this way to log in .*; set|during the login; check) PACELINE_SASL_MECHANISM",
}
#: Those may be over soon, and are waited for.
WAITED = ("issuer down", "tls to a clear port", "no login", "mechanism")


@pytest.mark.parametrize("case", WRONG)
def test_the_wrong_login_is_a_sentence(doors: Doors, case: str) -> None:
    """Of one line, with cause and mend and no secret; nobody waits for what waiting cannot mend."""
    (doors.folder / "wr0ng.token").write_text("wr0ng")
    with pytest.raises(BusError, match=WRONG[case]) as caught:
        wait_for_broker(wrong(doors, case), 0 if case in WAITED else 20)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500
    assert not any(secret in str(caught.value) for secret in ("wr0ng ", "'wr0ng'", *CLIENTS.values()))
    assert caught.value.permanent == (case not in WAITED) or case == "mechanism"


@pytest.mark.parametrize(
    "claims",
    [{"aud": "another"}, {"iss": "https://another.example"}, {"exp": 1.0}, {"sub": ""}],
    ids=["audience", "issuer", "over", "of nobody"],
)
def test_a_token_that_does_not_hold_is_a_sentence(doors: Doors, claims: dict[str, object]) -> None:
    """Who it is of and where it comes from is named, and what the brokers said of it."""
    tokens = doors.settings("oauth").sasl_oauth
    assert tokens is not None
    doors.issuer.claims = claims
    path = doors.folder / "bad.token"
    try:
        path.write_text(doors.issuer.token("page"))
    finally:
        doors.issuer.claims = {}
    settings = replace(doors.settings("oauth"), sasl_oauth=replace(tokens, url="", file=str(path)))
    with pytest.raises(BusError, match=r"login refused: the token of the file .*bad\.token does not hold there"):
        wait_for_broker(settings, 20)
    path.write_text(doors.issuer.token("page"))
    wait_for_broker(settings, 60)  # Whoever renews the file is all that is needed.


@pytest.mark.parametrize("way", ["mtls", "scram", "oauth"])
def test_a_collector_cannot_read_findings(doors: Doors, way: str) -> None:
    """Whoever takes over a node learns of no job but its own; by whichever login, and it is told so."""
    settings, told = doors.settings(way, "collectors"), list[str]()
    with (
        allowed(doors, way, "collectors", "collectors"),
        Follower(settings, {topics.FINDING: BEGINNING}, "test", on_lost=told.append) as follower,
    ):
        follower.connect()
        for _ in range(3):
            assert follower.poll(0.0) == []
        assert (follower.state, follower.cause) == ("refused", told[0])
        assert not follower.caught_up
    (line,) = told
    assert line.startswith(f"Kafka at {settings.address}: not allowed to read paceline.finding.v1; ")
    assert "paceline rights" in line


@pytest.mark.parametrize("way", ["mtls", "scram", "oauth"])
def test_the_page_cannot_write_findings(doors: Doors, way: str) -> None:
    """Whoever takes the page over shows what he likes, and accuses nobody."""
    settings, told = doors.settings(way), list[str]()
    with allowed(doors, way, "page", "page"):
        publisher = Publisher(settings, client_id="test", on_warning=told.append)
        publisher.publish_encoded(topics.FINDING.name, "j", b"{}")
        assert publisher.close(PATIENCE_S).sent == 0
    assert "not allowed to write" in " ".join(told)


def test_what_may_not_be_seen_keeps_nothing_else_from_being_read(doors: Doors, until: Callable[..., object]) -> None:
    """And it is read as soon as the right is there: nobody has to restart anything."""
    settings, told = doors.settings("scram", "collectors"), list[str]()
    publisher = Publisher(doors.clear, client_id="test")
    for topic in (topics.COMMAND, topics.PLAN):
        publisher.publish_encoded(topic.name, "k", b"{}")
    assert publisher.close(PATIENCE_S).sent == 2
    read: set[str] = set()
    starts = {topics.COMMAND: BEGINNING, topics.PLAN: BEGINNING}

    def reads_of(topic: topics.Topic) -> bool:
        read.update(one.topic.name for one in follower.poll())
        return topic.name in read

    with (
        Follower(settings, starts, "test", on_lost=told.append) as follower,
        allowed(doors, "scram", "collectors", "collectors"),
    ):
        until(lambda: reads_of(topics.COMMAND))
        assert follower.state == "refused"
        assert "paceline.plan.v1" in follower.cause
        with allowed(doors, "scram", "training", "collectors"):
            until(lambda: reads_of(topics.PLAN))
            until(lambda: follower.poll() is not None and follower.caught_up)
            assert (follower.state, follower.cause) == ("connected", "")
    assert len(told) == 1


def examined(doors: Doors, way: str, service: str) -> dict[str, tuple[str, str, str]]:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "paceline", "doctor", "--json", "--service", service],
        env={**os.environ, **doors.environ(way, "page")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in ran.stderr
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    return {row["name"]: (row["status"], row["says"], row["fix"] or "") for row in rows if row["name"] == "rights"}


def test_doctor_names_the_right_that_is_missing(doors: Doors) -> None:
    """Of a service, and the command that gives it."""
    with allowed(doors, "oauth", "alerts", "page"):
        status, says, mend = examined(doors, "oauth", "page")["rights"]
        assert examined(doors, "oauth", "alerts")["rights"][0] == "ok"
    assert status == "fail"
    assert "Describe, Read on paceline.window.v1" in says
    assert "paceline.finding.v1" not in says
    assert "paceline rights page" in mend


@contextlib.contextmanager
def short_lived(doors: Doors, seconds: float) -> Iterator[None]:
    """Tokens that last so long."""
    lasted, doors.issuer.lasts_s = doors.issuer.lasts_s, seconds
    yield
    doors.issuer.lasts_s = lasted


def test_a_token_that_ends_ends_no_reading(doors: Doors, until: Callable[..., object]) -> None:
    """The same connection goes on with the next token, and the reader hears nothing of it."""
    settings, told, read = doors.settings("oauth", "streams"), list[str](), list[bytes]()
    publisher = Publisher(doors.clear, client_id="test")
    with (
        short_lived(doors, 6.0),
        allowed(doors, "oauth", "page", "streams"),
        Follower(settings, {topics.DEADLETTER: NOW}, "test", on_lost=told.append) as follower,
    ):
        until(lambda: follower.poll() is not None and follower.caught_up)
        for number in range(2):
            given = doors.issuer.given.count("streams")
            until(lambda given=given: follower.poll() is not None and doors.issuer.given.count("streams") > given)  # type: ignore[misc]
            publisher.publish_encoded(topics.DEADLETTER.name, "k", b"%d" % number)
            until(
                lambda number=number: (  # type: ignore[misc]
                    read.extend(record.value or b"" for one in follower.poll() for record in one.records)
                    or b"%d" % number in read
                )
            )
    assert publisher.close(PATIENCE_S).sent == 2
    assert told == []


def test_a_token_that_is_over_when_it_arrives_is_no_refusal(
    doors: Doors, until: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of brokers that stood still meanwhile: the next one is tried before anybody is told of a refused login."""
    settings, told, late = doors.settings("oauth", "streams"), list[str](), list[threading.Timer]()

    def stand_still(name: str) -> None:
        monkeypatch.undo()
        doors.node.process.send_signal(signal.SIGSTOP)
        late.append(threading.Timer(2.5, doors.node.process.send_signal, [signal.SIGCONT]))
        late[0].start()

    with (
        allowed(doors, "oauth", "page", "streams"),
        short_lived(doors, 2.0),
        Follower(settings, {topics.DEADLETTER: NOW}, "test", on_lost=told.append) as follower,
    ):
        until(lambda: follower.poll() is not None and follower.caught_up)
        told.clear()
        monkeypatch.setattr(doors.issuer, "giving", stand_still)
        until(lambda: follower.poll() is not None and late)
        doors.issuer.lasts_s = 300.0
        late[0].join()
        asked = doors.issuer.given.count("streams")
        until(lambda: follower.poll() is not None and doors.issuer.given.count("streams") > asked)
        until(lambda: follower.poll() is not None and follower.caught_up)
    assert [cause for cause in told if "login refused" in cause] == []


def paceline(environ: dict[str, str], *words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-W", "ignore", "-m", "paceline", *words]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environ}
    )


def answered(doors: Doors) -> str:
    """What workers answer to a command of the administrator's."""
    asked = paceline(
        {"PACELINE_BROKERS": doors.clear.address}, *["ask", "suggestion:none", "accept", "--wait", str(PATIENCE_S)]
    )
    output, said = asked.communicate()
    return output + said


@pytest.mark.e2e
@pytest.mark.parametrize("way", ["mtls", "oauth"])
def test_a_worker_works_by_every_login(doors: Doors, way: str, until: Callable[..., object]) -> None:
    """With the rights of `paceline rights`; SCRAM's is in test_login.py. Tokens that end do not start it again."""
    with (
        short_lived(doors, 8.0),
        allowed(doors, way, "streams", "streams"),
        paceline(doors.environ(way, "streams"), "streams", "--log-level", "info") as worker,
    ):
        try:
            answers = [answered(doors)]
            if way == "oauth":
                given = doors.issuer.given.count("streams")
                until(lambda: doors.issuer.given.count("streams") > given + 2 or worker.poll() is not None)
                answers.append(answered(doors))
        finally:
            worker.terminate()
            _, errors = worker.communicate()
    assert all("refused: no such suggestion in cluster default" in answer for answer in answers), f"{answers} {errors}"
    assert "starting again" not in errors
    assert "-secret" not in errors


def test_a_worker_is_told_that_its_token_is_refused(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client that Faust uses takes the brokers' "no" for a "yes" by itself, and fails at the next request."""
    monkeypatch.setattr(OAuthAuthenticator, "step", OAuthAuthenticator.step)
    answer_refused_tokens()
    bad = doors.folder / "refused.token"
    bad.write_text("wr0ng")
    settings = doors.settings("oauth")

    async def connect() -> None:
        connection = AIOKafkaConnection(
            "127.0.0.1",
            doors.ports["oauth"],
            security_protocol="SASL_SSL",
            ssl_context=settings.ssl_context(),
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Tokens(TokenSource(TokenSettings(file=str(bad)))),
        )
        try:
            await connection.connect()
        finally:
            await connection.close()  # A goodbye by TLS takes some turns of the loop.

    with pytest.raises(aiokafka_errors.SaslAuthenticationFailed, match="invalid_token"):
        asyncio.run(connect())
    bad.unlink()
    with pytest.raises(aiokafka_errors.KafkaConnectionError, match="no token to log in with: no token in"):
        asyncio.run(connect())
