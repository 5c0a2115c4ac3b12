import socket
import time

import pytest

from paceline import topics, wire
from paceline.kafka.follow import BEGINNING, Follower
from paceline.kafka.settings import BrokerSettings
from tests.ui.forecasts import suggestion
from ui.suggestion_commands import MOST_WAITING, SuggestionCommands
from ui.token_gate import TokenGate


@pytest.fixture
def commanding():
    """Makes senders of commands, stopped at the end."""
    made = []

    def commanding(address, **changed):
        made.append(SuggestionCommands(BrokerSettings(brokers=(address,)), TokenGate("secret"), **changed))
        return made[-1]

    yield commanding
    for one in made:
        one.stop()


@pytest.mark.bus
def test_a_command_arrives_with_who_why_and_until_when(own_broker, commanding, until):
    """One producer for all: the second goes the same way; reasons and names are cut to what a command holds."""
    commands = commanding(own_broker.address)
    began_s = time.time()
    first = commands.ask(suggestion(1, began_s, cluster="east"), "accept", " because ", "ada")
    second = commands.ask(suggestion(2, began_s), "dismiss", "y" * 1000, "z" * 1000)
    until(lambda: commands.sent(second.command.id).state == "sent")
    assert commands.sent(first.command.id).state == "sent"
    with Follower(BrokerSettings(brokers=(own_broker.address,)), {topics.COMMAND: BEGINNING}, "test") as follower:
        held = {}

        def both():
            for _, records in follower.poll():
                held.update({wire.decode(topics.COMMAND, one.value).target: one for one in records})
            return len(held) == 2

        until(both)
    asked = wire.decode(topics.COMMAND, held["suggestion:cordon-gpu-02-1"].value)
    assert held["suggestion:cordon-gpu-02-1"].key == b"suggestion:cordon-gpu-02-1"
    assert (asked.cluster, asked.action, asked.issuer) == ("east", "accept", "ada")
    assert asked.arguments == {"because": "because"}
    assert 50.0 < asked.expires_s - began_s < 80.0
    other = wire.decode(topics.COMMAND, held["suggestion:cordon-gpu-02-2"].value)
    assert (len(other.arguments["because"]), len(other.issuer)) == (256, 200)


def test_without_a_broker_the_command_fails_with_the_cause_and_nothing_waits(commanding, until):
    """The page is answered at once; the cause comes when it is known."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        commands = commanding(f"127.0.0.1:{unused.getsockname()[1]}")
        sent = commands.ask(suggestion(1, 0.0), "accept", "why", "ada")
        assert sent.state == "waiting"
        failed = until(lambda: (one := commands.sent(sent.command.id)).state == "failed" and one)
    assert "refused" in failed.cause
    assert "\n" not in failed.cause


def test_too_many_commands_at_once_are_refused(commanding):
    """What waits for the broker is bounded."""
    commands = commanding("127.0.0.1:9", clock=lambda: 0.0)
    commands.stop()
    states = [commands.ask(suggestion(n, 0.0), "accept", "why", "ada").state for n in range(MOST_WAITING + 2)]
    assert states.count("failed") >= 1
    assert states[-1] == "failed"


@pytest.mark.parametrize("issuer", ["", "   "])
def test_nobody_asks_for_nothing(issuer, commanding):
    """A command without who is none, and is not sent."""
    commands = commanding("127.0.0.1:9")
    assert "no command" in commands.ask(suggestion(1, 0.0), "accept", "why", issuer).cause


@pytest.mark.parametrize("token", ["", "secret"])
@pytest.mark.parametrize("given", ["", "guess", "secre", "secret ", "ge\udce9heim", "x" * 10_000])
def test_only_the_token_opens_the_gate(token, given):
    """And without a token nothing does, an empty one neither."""
    assert TokenGate(token).judge(given, 0.0) == "wrong"


def test_a_clock_that_goes_back_gives_no_attempts():
    """Nor does the first look at it."""
    gate = TokenGate("secret")
    assert [gate.judge("x", 1000.0 - n) for n in range(6)] == ["wrong"] * 5 + ["too often"]
    assert gate.judge("secret", 1006.0) == "right"
