"""Commands are obeyed once, in time, by whom they are meant for; hostile ones cost little and are never obeyed."""

import json
import math
from typing import Any

import msgspec
import pytest

from paceline import topics, wire
from paceline.command_rules import (
    ANSWERS_PER_S,
    CLOCKS_APART_S,
    LONGEST_S,
    MOST_AT_ONCE,
    MOST_IDS,
    Action,
    CommandRules,
    Reader,
    job_target,
    node_target,
)
from paceline.events import AuditEntry, Command
from paceline.wire import WireError

NOW_S = 1_763_720_000.0
READER = Reader("sidecar", "n1", "lab")
TARGETS = {"job:a"}


class Rest(msgspec.Struct, forbid_unknown_fields=True):
    """The arguments of the action that is known here."""

    seconds: float
    why: str = ""


def asked(number: int = 1, **fields: Any) -> Command:
    said: dict[str, Any] = {
        "id": f"id-{number}",
        "cluster": "lab",
        "target": "job:a",
        "action": "rest",
        "arguments": {"seconds": 5},
        "expires_s": NOW_S + 60,
        "issuer": "ada@login-1",
    }
    return Command(**said | fields)


class Resting:
    """A reader whose one action notes what it was asked for."""

    def __init__(self, *, obeys: bool = True, since_s: float = NOW_S - 100.0) -> None:
        self.done: list[tuple[str, Rest]] = []
        self.rules = CommandRules(READER, {"rest": Action(Rest, self._rest)}, obeys=obeys, since_s=since_s)

    def _rest(self, target: str, wish: Rest) -> str:
        self.done.append((target, wish))
        return f"rests for {wish.seconds:g} s"

    def hear(self, command: Command, now_s: float = NOW_S) -> AuditEntry | None:
        return self.rules.judge(command, now_s, TARGETS)


def test_an_accepted_command_is_done_and_told():
    """The entry says who asked whom for what, who heard it and when, and what was done."""
    resting = Resting()
    entry = resting.hear(asked())
    assert resting.done == [("job:a", Rest(5.0))]
    assert entry == AuditEntry(
        command_id="id-1",
        cluster="lab",
        target="job:a",
        action="rest",
        issuer="ada@login-1",
        time_s=NOW_S,
        service="sidecar",
        node="n1",
        outcome="accepted",
        reason="rests for 5 s",
    )


def test_one_that_comes_again_is_obeyed_once_and_answered_once():
    """Delivery is at least once; the same id is the same command, whatever else it says by then."""
    resting = Resting()
    assert resting.hear(asked()) is not None
    assert resting.hear(asked()) is None
    assert resting.hear(asked(arguments={"seconds": 9}), NOW_S + 30) is None
    assert len(resting.done) == 1


@pytest.mark.parametrize(
    "fields",
    [{"target": "job:b"}, {"target": "node:a"}, {"target": "streams"}, {"cluster": "another"}, {"target": "job:A"}],
    ids=str,
)
def test_what_is_for_somebody_else_is_passed_over_in_silence(fields: dict[str, str]):
    """A job of the same name in another cluster is another job."""
    resting = Resting()
    assert resting.hear(asked(**fields)) is None
    assert resting.done == []


@pytest.mark.parametrize(
    ("fields", "outcome", "reason"),
    [
        ({"expires_s": NOW_S - 2.5}, "expired", "2.5 s ago"),
        ({"expires_s": NOW_S}, "expired", "0.0 s ago"),
        ({"expires_s": NOW_S + LONGEST_S + CLOCKS_APART_S + 1}, "refused", "no command may wait longer than 3600 s"),
        ({"expires_s": 1e11}, "refused", "no command may wait longer than 3600 s"),
        ({"action": "dance"}, "unknown_action", "known here: rest"),
        ({"arguments": {}}, "refused", "missing required field `seconds`"),
        ({"arguments": {"seconds": "5"}}, "refused", "Expected `float`, got `str`"),
        ({"arguments": {"seconds": 5, "hours": 1}}, "refused", "unknown field `hours`"),
    ],
    ids=str,
)
def test_what_is_not_obeyed_is_answered_with_the_reason(fields: dict[str, Any], outcome: str, reason: str):
    """Too late, too far ahead, not known, or with arguments that the action does not take: none of it is done."""
    resting = Resting()
    entry = resting.hear(asked(**fields))
    assert entry is not None
    assert entry.outcome == outcome
    assert reason in entry.reason
    assert resting.done == []


def test_a_clock_that_is_minutes_behind_the_senders_obeys():
    """An hour is the most that can be asked for, by the clock of who asks."""
    entry = Resting().hear(asked(expires_s=NOW_S + LONGEST_S + CLOCKS_APART_S))
    assert entry is not None
    assert entry.outcome == "accepted"


def test_what_had_expired_before_the_reader_listened_is_somebody_elses():
    """A sidecar that is started again looks back; what its predecessor answered is not answered anew."""
    resting = Resting(since_s=NOW_S)
    assert resting.hear(asked(expires_s=NOW_S)) is None
    entry = resting.hear(asked(2, expires_s=NOW_S + 1), NOW_S + 2)
    assert entry is not None
    assert entry.outcome == "expired"


def test_who_obeys_no_commands_says_so_whatever_it_is():
    """Known or not, in time or not: one answer, and nothing is done."""
    resting = Resting(obeys=False)
    entries = [resting.hear(asked()), resting.hear(asked(2, action="dance")), resting.hear(asked(3, expires_s=NOW_S))]
    assert [entry.outcome for entry in entries if entry] == ["refused"] * 3
    assert all("--no-commands" in entry.reason for entry in entries if entry)
    assert resting.done == []


def test_an_action_that_fails_is_answered_and_the_reader_goes_on():
    """With the kind of the error and its words, on so many characters and no more."""

    def fail(target: str, wish: Rest) -> str:
        if wish.seconds:
            raise RuntimeError("out of order " * 100)
        return "rested"

    rules = CommandRules(READER, {"rest": Action(Rest, fail)}, obeys=True, since_s=0.0)
    failed, after = (
        rules.judge(asked(number, arguments={"seconds": seconds}), NOW_S, TARGETS)
        for number, seconds in ((1, 1), (2, 0))
    )
    assert failed is not None
    assert failed.outcome == "failed"
    assert failed.reason.startswith("RuntimeError: out of order")
    assert after is not None
    assert after.outcome == "accepted"
    assert wire.decode(topics.AUDIT, wire.encode(failed)) == failed


def test_a_flood_is_answered_at_a_bounded_rate_and_counted():
    """Two thousand a second for ten seconds: what is not answered is not obeyed either, and is counted."""
    resting = Resting()
    entries = [
        entry
        for number in range(20_000)
        if (entry := resting.hear(asked(number, expires_s=NOW_S + 60), NOW_S + number / 2_000)) is not None
    ]
    most = MOST_AT_ONCE + 10 * ANSWERS_PER_S
    assert most - 1 <= len(entries) <= most
    assert len(resting.done) == len(entries)
    last = resting.hear(asked(99_999), NOW_S + 20)
    assert last is not None
    assert sum(entry.unanswered for entry in [*entries, last]) == 20_000 - len(entries)


def test_a_flood_for_others_takes_nothing_from_ours():
    """Only what a reader would answer counts."""
    resting = Resting()
    for number in range(5_000):
        assert resting.hear(asked(number, target="job:b")) is None
    entry = resting.hear(asked(9_999))
    assert entry is not None
    assert entry.unanswered == 0


def test_a_clock_that_goes_back_brings_no_further_answers():
    """Nor does it take those away that come with time."""
    resting = Resting()
    heard = [resting.hear(asked(number), NOW_S - number) for number in range(100)]
    assert sum(entry is not None for entry in heard) == MOST_AT_ONCE
    assert resting.hear(asked(200), NOW_S + 1) is not None


def test_what_is_remembered_is_bounded():
    """The newest ids: those of a quarter of an hour at the rate of answers. An older one would be obeyed again."""
    resting = Resting()
    first, last = asked(0, expires_s=NOW_S + LONGEST_S), asked(MOST_IDS, expires_s=NOW_S + LONGEST_S)
    resting.hear(first)
    for number in range(1, MOST_IDS):
        resting.hear(asked(number, expires_s=NOW_S + LONGEST_S), NOW_S + number / 8)
    assert resting.hear(first, NOW_S + LONGEST_S / 2) is None
    assert resting.hear(last, NOW_S + LONGEST_S / 2) is not None
    assert resting.hear(last, NOW_S + LONGEST_S / 2) is None
    assert resting.hear(first, NOW_S + LONGEST_S / 2) is not None


def test_targets_are_written_as_people_write_them():
    """As `paceline ask` takes them."""
    assert (job_target("resnet-7"), node_target("n1")) == ("job:resnet-7", "node:n1")


HOSTILE: dict[str, dict[str, Any]] = {
    "a huge id": {"id": "x" * 100_000},
    "no id": {"id": ""},
    "a huge target": {"target": "job:" + "x" * 100_000},
    "a huge action": {"action": "x" * 65},
    "a huge issuer": {"issuer": "x" * 201},
    "nobody asks": {"issuer": ""},
    "a list for an argument": {"arguments": {"ranks": [1, 2]}},
    "an argument within an argument": {"arguments": {"a": {"b": {"c": 1}}}},
    "an argument beyond 64 bits": {"arguments": {"seconds": 2**70}},
    "an argument beyond any use": {"arguments": {"seconds": 1e300}},
    "a huge argument": {"arguments": {"why": "x" * 257}},
    "a huge name of an argument": {"arguments": {"x" * 65: 1}},
    "many arguments": {"arguments": {str(number): number for number in range(33)}},
    "never expires": {"expires_s": 1e300},
    "expires at no time": {"expires_s": math.nan},
    "expires before time": {"expires_s": -1.0},
    "expires in words": {"expires_s": "soon"},
}


@pytest.mark.parametrize("fields", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_command_is_no_command(fields: dict[str, Any]):
    """It is refused where it is read, on one line, before anybody looks whom it is for."""
    data = json.dumps(msgspec.to_builtins(asked()) | fields).encode()
    with pytest.raises(WireError) as caught:
        wire.decode(topics.COMMAND, data)
    assert len(str(caught.value)) <= 300


def test_arguments_a_hundred_thousand_deep_are_refused():
    """Nothing is taken in of them."""
    deep = wire.encode(asked()).replace(b'{"seconds":5}', b'{"a":' * 100_000)
    with pytest.raises(WireError):
        wire.decode(topics.COMMAND, deep)


def test_a_command_is_keyed_by_its_target_and_an_entry_by_nothing():
    """So that what is asked of one comes in order."""
    assert wire.key_of(topics.COMMAND, asked()) == "job:a"
    entry = Resting().hear(asked())
    assert wire.key_of(topics.AUDIT, entry) is None
