"""Who accepts or dismisses is answered once, with the reason where it is refused, and in the same words in a replay."""

import pathlib

import msgspec
import pytest

from paceline import topics, wire
from paceline.events import Command
from streams import cluster_advice
from streams.cluster_advice import AdviceSettings, ClusterAdvice
from streams.cluster_events import Heard
from streams.snapshots import pack
from tests.streams.advisers import OneAFinding

NOW_S = 1_700_000_100.0
GOLDEN = pathlib.Path(__file__).parents[1] / "paceline" / "golden" / "v1"
FOUND = msgspec.structs.replace(
    wire.decode(topics.FINDING, (GOLDEN / "Finding.json").read_bytes()), id="f1", cluster="c"
)
HERE = AdviceSettings("n1", obeys=True)


@pytest.fixture(autouse=True)
def _one_a_finding(monkeypatch):
    monkeypatch.setattr(cluster_advice, "Advice", OneAFinding)


def asked(number=1, action="accept", target="suggestion:s-f1", **fields):
    """A command as the page sends it."""
    said = {"arguments": {"because": "node is old"}, "expires_s": NOW_S + 60, "issuer": "ada", "cluster": "c", **fields}
    return Command(id=f"k{number}", target=target, action=action, **said)


def advised(*commands, settings=HERE, heard_s=NOW_S):
    """The advice of a cluster with one finding, and what it answered to ``commands``."""
    made = ClusterAdvice()
    made.advise_by(settings)
    assert [said.id for said in made.update(Heard(topics.FINDING, FOUND, NOW_S))] == ["s-f1"]
    return made, [answer for one in commands for answer in made.update(Heard(topics.COMMAND, one, heard_s))]


@pytest.mark.parametrize(("action", "state"), [("accept", "accepted"), ("dismiss", "dismissed")])
def test_who_is_obeyed_gets_a_revision_and_an_entry(action, state):
    """The revision first: whoever waits for the entry finds it."""
    _, (revision, entry) = advised(asked(action=action))
    assert (revision.id, revision.revision, revision.state, revision.because) == ("s-f1", 2, state, "node is old")
    assert (entry.command_id, entry.outcome, entry.reason) == ("k1", "accepted", f"s-f1 is {state}")
    assert (entry.service, entry.node, entry.time_s, entry.issuer) == ("streams", "n1", NOW_S, "ada")


@pytest.mark.parametrize(
    ("changed", "outcome", "reason"),
    [
        ({"target": "suggestion:s-none"}, "refused", "no such suggestion in cluster c"),
        ({"target": "suggestion:"}, "refused", "no such suggestion"),
        ({"action": "dance"}, "unknown_action", "accept, dismiss"),
        ({"arguments": {"because": 7}}, "refused", "arguments: Expected `str`"),
        ({"arguments": {"why": "so"}}, "refused", "arguments: Object contains unknown field `why`"),
        ({"expires_s": NOW_S - 5}, "expired", "it expired 5.0 s ago"),
        ({"expires_s": NOW_S + 86_400}, "refused", "no command may wait longer"),
    ],
)
def test_who_is_not_obeyed_is_told_why(changed, outcome, reason):
    """And nothing is changed."""
    _, (entry,) = advised(asked(**changed))
    assert entry.outcome == outcome
    assert reason in entry.reason


def test_what_is_dismissed_is_not_accepted():
    """The reason names the state that it is in."""
    _, answers = advised(asked(1, action="dismiss"), asked(2))
    assert [answer.outcome for answer in answers[1:]] == ["accepted", "refused"]
    assert answers[-1].reason == "it is dismissed; accept is for what is new"


def test_without_commands_all_are_refused():
    """As by every other reader (--no-commands)."""
    _, (entry,) = advised(asked(), settings=AdviceSettings("n1", obeys=False))
    assert (entry.outcome, "--no-commands" in entry.reason) == ("refused", True)


def test_a_command_that_comes_twice_is_answered_once():
    """Also heard later the second time, and by advice that was restored meanwhile."""
    made, answers = advised(asked(), asked())
    assert len(answers) == 2
    again = ClusterAdvice.restore(made.snapshot())
    assert again.update(Heard(topics.COMMAND, asked(), NOW_S + 9)) == []


def test_a_flood_is_answered_in_part_and_counted():
    """As many at once as any reader answers; the next entry tells of the others."""
    made, answers = advised(*(asked(number, target="suggestion:no") for number in range(200)))
    assert len(answers) == 50
    again = ClusterAdvice.restore(made.snapshot())
    (_, entry) = again.update(Heard(topics.COMMAND, asked(999), NOW_S + 30))
    assert entry.unanswered == 150


def test_restored_anywhere_it_answers_the_same():
    """Time is when the command was heard, so that a replay says the same to the letter."""
    heard = [Heard(topics.FINDING, FOUND, NOW_S)]
    heard += [Heard(topics.COMMAND, asked(number, action=action), NOW_S + number) for number, action in WORDS]
    whole, cut, expected, said = ClusterAdvice(), ClusterAdvice(), [], []
    for one in heard:
        expected += whole.update(one)
        said += cut.update(one)
        cut = ClusterAdvice.restore(cut.snapshot())
    assert said == expected != []
    assert cut.snapshot() == whole.snapshot()


WORDS = [(1, "accept"), (2, "dismiss"), (2, "accept"), (3, "dance")]


@pytest.mark.parametrize("data", [b"", b"nonsense"])
def test_what_is_no_snapshot_is_refused(data):
    with pytest.raises(ValueError, match="snapshot"):
        ClusterAdvice.restore(data)


def test_a_snapshot_whose_parts_are_of_another_kind_is_refused():
    """A damaged memory of commands costs this decision and no error beside it."""
    for odd in ([], [["k1"]], "text", -1):
        state = ClusterAdvice().state() | {"answered": odd}
        with pytest.raises(ValueError, match="snapshot"):
            ClusterAdvice.restore(pack(ClusterAdvice.layout, state))


def test_what_is_remembered_is_bounded(monkeypatch):
    """Of the states of suggestions the newest."""
    monkeypatch.setattr(cluster_advice, "MOST_STATES", 3)
    made = ClusterAdvice()
    for number in range(10):
        made.update(Heard(topics.FINDING, msgspec.structs.replace(FOUND, id=f"f{number}"), NOW_S))
    assert list(made.states) == ["s-f7", "s-f8", "s-f9"]
