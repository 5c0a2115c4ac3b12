"""The page's way to control: nothing that a visitor does waits for it."""

import threading

import pytest

from paceline.control_client import ControlClient
from tests.patience import PATIENCE_S
from tests.ui.control_in_place import Control
from ui.control_door import ASK_S, MOST_DOWNLOAD, MOST_WAITING, PROBLEM_S, REMEMBERED, ControlDoor


@pytest.fixture
def opened():
    """Makes doors, closed at the end."""
    made = []

    def opened(client):
        made.append(ControlDoor(client, clock=lambda: 50.0))
        return made[-1]

    yield opened
    for one in made:
        one.stop()


def accept(door, name="s"):
    return door.ask(f"accept {name}", "POST", f"/v1/suggestions/{name}/accept", {"because": "why"}, "ada")


def test_a_change_is_answered_at_once_and_known_later(opened, until):
    """With the command that control gave because of it."""
    door = opened(Control().client)
    change = accept(door)
    assert (change.said, change.failed, change.at_s) == ("", False, 50.0)
    until(lambda: door.change(change.number).said)
    done = door.change(change.number)
    assert (done.said, done.failed, done.command) == ("done", False, "command-1")


def test_without_control_the_change_fails_with_the_cause(opened, until, free_port):
    """A real client, and nobody there."""
    url = f"http://127.0.0.1:{free_port()}"
    door = opened(lambda issuer: ControlClient(url, "token", issuer))
    change = accept(door)
    until(lambda: door.change(change.number).failed)
    assert "paceline control" in door.change(change.number).said


@pytest.mark.long
@pytest.mark.parametrize("answer", [None, [], {"command": 7}, {"command": None}, "text"])
def test_an_answer_of_another_shape_breaks_nothing(answer, opened, until):
    class Odd(Control):
        def call(self, method, path, body=None, timeout_s=0.0):
            return answer

    door = opened(Odd().client)
    change = accept(door)
    until(lambda: door.change(change.number).said)
    assert (door.change(change.number).command, door.change(change.number).failed) == ("", False)
    assert "no answer" not in door.sessions()[1]


def test_no_change_waits_for_a_long_session_to_be_read(opened, until):
    """Its numbers come when they come."""
    reading, answered = threading.Event(), threading.Event()

    class Slow(Control):
        def call(self, method, path, body=None, timeout_s=0.0):
            if path.endswith("/stat"):
                reading.set()
                answered.wait(PATIENCE_S)
            return super().call(method, path, body, timeout_s)

    door = opened(Slow().client)
    assert door.numbers(LONG) == (None, "")
    until(reading.is_set)
    change = accept(door)
    until(lambda: door.change(change.number).said)
    assert door.numbers(LONG) == (None, "")
    answered.set()
    until(lambda: door.numbers(LONG)[0])


class Recorded(Control):
    """Counts how often sessions were asked for, and numbers its answers about them."""

    lists = reads = 0

    def call(self, method, path, body=None, timeout_s=0.0):
        answer = super().call(method, path, body, timeout_s)
        self.lists += path == "/v1/sessions"
        self.reads += path.endswith("/stat")
        return answer | {"reads": self.reads} if path.endswith("/stat") else answer


@pytest.fixture
def looked(until):
    """Makes doors whose seconds the test counts; and waits until sessions have been asked for again."""
    made = []

    def looked(control):
        now_s = [100.0]
        made.append(ControlDoor(control.client, monotonic=lambda: now_s[0]))

        def later(by_s):
            lists, now_s[0] = control.lists, now_s[0] + by_s
            until(lambda: made[-1].sessions() and control.lists > lists)

        return made[-1], later

    yield looked
    for one in made:
        one.stop()


def kept(name="one", state="stopped", started_s=1.0, updated_s=5.0):
    return {"name": name, "state": state, "started_s": started_s, "updated_s": updated_s}


LONG = kept("long")


def test_why_numbers_cannot_be_read_is_kept_for_some_seconds(looked, until):
    """Then they are asked for again: control was away for a moment."""
    control = Recorded()
    control.sessions, control.away = [kept()], "control is away"
    door, later = looked(control)
    until(lambda: door.numbers(kept())[1])
    control.away = ""
    later(ASK_S)
    assert door.numbers(kept()) == (None, "control is away")
    later(PROBLEM_S)
    until(lambda: door.numbers(kept())[0])
    assert door.numbers(kept())[1] == ""


def test_a_session_that_is_recorded_again_has_numbers_of_its_own(looked, until):
    """The name was deleted meanwhile; what was read of the first is not of the second."""
    control = Recorded()
    door, _ = looked(control)
    until(lambda: door.numbers(kept())[0])
    again = kept(started_s=9.0)
    assert door.numbers(again) == (None, "")
    until(lambda: door.numbers(again)[0])
    assert door.numbers(again)[0]["reads"] > door.numbers(kept())[0]["reads"]


@pytest.mark.parametrize("state", ["stopped", "interrupted", "failed"])
def test_numbers_of_a_session_that_goes_on_no_more_are_kept_until_it_changes(looked, until, state):
    """Recovered, an interrupted one says more."""
    control = Recorded()
    control.sessions = [kept(state=state)]
    door, later = looked(control)
    until(lambda: door.numbers(kept(state=state))[0])
    later(ASK_S)
    later(ASK_S)
    assert door.numbers(kept(state=state))[0]["reads"] == 1
    control.sessions = [kept(updated_s=6.0)]
    later(ASK_S)
    later(ASK_S)
    until(lambda: (door.numbers(control.sessions[0])[0] or {"reads": 0})["reads"] == 2)


def test_what_waits_and_what_is_remembered_is_bounded(opened):
    """Control hangs: some wait, the rest is refused, and the oldest is forgotten."""
    door = opened(Control().client)
    door.stop()
    changes = [accept(door, str(number)) for number in range(MOST_WAITING + REMEMBERED)]
    assert changes[-1].failed
    assert "too many" in door.change(changes[-1].number).said
    assert sum(one.failed for one in changes) >= REMEMBERED
    assert door.change(changes[0].number) is None


@pytest.mark.slow
def test_a_download_that_no_browser_could_hold_is_refused(opened):
    """Bounded while it comes, and told what to use instead."""

    class Large(Control):
        def download(self, path, file, timeout_s=0.0):
            piece = bytes(1 << 20)
            while True:
                file.write(piece)

    door = opened(Large().client)
    with pytest.raises(Exception, match=f"{MOST_DOWNLOAD >> 20} MiB.*session export"):
        door.download("one", "jsonl")
