"""The sessions page: what it shows of sessions, who may change them, and what comes of it."""

import pytest

from tests.derived_events import described
from tests.ui.control_in_place import Control, eventually
from tests.ui.opened_app import opened, text_of
from ui import session_words
from ui.control_door import ControlDoor
from ui.feed import Feed
from ui.token_gate import TokenGate

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
NOW_S = 1_000_000.0
TOKEN = "correct horse battery staple"


def script(source, door, gate):
    from ui.screens import sessions

    sessions.show(source, door, gate)


@pytest.fixture
def control():
    return Control()


@pytest.fixture
def door(control):
    made = ControlDoor(control.client)
    yield made
    made.stop()


def known(door, until):
    """The door, once it has an answer."""
    until(lambda: door.sessions() != (None, ""))
    return door


@pytest.fixture
def open_page(snapshot_of, door, until):
    def open_page(token=TOKEN, query=None, feed=None):
        source = lambda job, rank=None: snapshot_of(feed or Feed(), now_s=NOW_S)  # noqa: E731
        return opened(script, (source, known(door, until), TokenGate(token)), query)

    return open_page


def session(name, state="recording", **more):
    return {
        "name": name,
        "state": state,
        "reason": "",
        "job": "",
        "nodes": [],
        "issuer": "ada",
        "host": "login",
        "started_s": NOW_S - 60.0,
        "stopped_s": None,
        "updated_s": NOW_S - 1.0,
        "messages": 1234,
        "missing": 0,
        "gap_count": 0,
        "silent": [],
        **more,
    }


def unlocked(app, name="ada"):
    app.text_input(key="token_name").set_value(name)
    app.text_input(key="token_given").set_value(TOKEN)
    next(one for one in app.button if one.label == "Unlock").click()
    app.run()
    return app


def labels(app):
    return {one.label for one in app.button}


@pytest.mark.slow
def test_without_control_it_says_what_to_start(control, open_page):
    control.away = "no control at http://127.0.0.1:9: Connection refused"
    text = text_of(open_page())
    assert "Control does not answer" in text
    assert "paceline control" in text


@pytest.mark.slow
def test_without_a_session_it_says_how_to_begin_one(open_page):
    assert "No session is recorded" in text_of(open_page())


@pytest.mark.slow
def test_sessions_are_shown_with_what_they_lack(control, open_page):
    control.sessions = [
        session("one", job="resnet"),
        session("two", "interrupted", reason="its recorder is gone; recover it", missing=3, gap_count=1, silent=["n1"]),
    ]
    text = text_of(open_page())
    assert "1,234 messages" in text
    assert "nothing missing" in text
    assert "3 messages missing, 1 gap" in text
    assert "its recorder is gone" in text
    assert "1 nodes silent" in text


@pytest.mark.slow
def test_texts_of_others_are_shown_as_text(control, open_page):
    control.sessions = [session("one", job="<script>alert(1)</script>", reason="<b>x</b>", issuer="<i>")]
    text = text_of(open_page())
    assert "<script>" not in text
    assert "<b>x</b>" not in text


@pytest.mark.parametrize(
    "wrong", [{}, {"name": 7}, {"name": "x", "state": None, "started_s": "now", "nodes": 3, "messages": None}]
)
def test_sessions_of_another_shape_break_nothing(wrong):
    session_words.state(wrong), session_words.subject(wrong), session_words.holds(wrong, NOW_S)
    session_words.compared([wrong, wrong])


@pytest.mark.slow
def test_whoever_has_not_shown_the_token_sees_no_button(control, open_page):
    control.sessions = [session("one")]
    app = open_page()
    assert "Stop" not in labels(app)
    assert "Stop" in labels(unlocked(app))
    assert "start this page with" in text_of(open_page(token=""))


@pytest.mark.slow
def test_a_session_is_stopped_in_the_name_of_who_asks(control, open_page, until):
    control.sessions = [session("one")]
    app = unlocked(open_page())
    app.button(key="stop-one").click()
    app.run()
    assert eventually(until, control) == ("POST", "/v1/sessions/one/stop", None, "ada")


@pytest.mark.slow
def test_a_refusal_is_shown(control, open_page, door, until):
    control.sessions, control.refusal = [session("refused")], "state: it is stopped"
    app = unlocked(open_page())
    app.button(key="stop-refused").click()
    app.run()
    until(lambda: door.change(1) is not None and door.change(1).said)
    app.run()
    assert "stop refused: state: it is stopped" in text_of(app)


@pytest.mark.slow
def test_a_session_is_started(control, open_page, until):
    app = unlocked(open_page())
    app.text_input(key="session_name").set_value("tuesday")
    app.selectbox(key="session_interval").set_value("0.2 s")
    next(one for one in app.button if one.label == "Start").click()
    app.run()
    body = {"name": "tuesday", "all": True, "interval_s": 0.2, "adaptive": False}
    assert eventually(until, control) == ("POST", "/v1/sessions", body, "ada")


@pytest.mark.slow
def test_a_session_of_a_job_names_its_cluster(control, open_page, until):
    """Pages call it by both; control knows it by each."""
    feed = Feed()
    feed.update("job", described(cluster="east", started_s=NOW_S - 60.0), NOW_S)
    app = unlocked(open_page(feed=feed))
    app.text_input(key="session_name").set_value("tuesday")
    app.selectbox(key="session_of").set_value("job east/train")
    next(one for one in app.button if one.label == "Start").click()
    app.run()
    body = {"name": "tuesday", "job": "train", "cluster": "east"}
    assert eventually(until, control) == ("POST", "/v1/sessions", body, "ada")


@pytest.mark.slow
def test_a_session_links_to_its_job_in_its_cluster(control, open_page):
    control.sessions = [session("one", job="train", cluster="east")]
    assert "job=east%2Ftrain" in text_of(open_page())


@pytest.mark.slow
def test_two_sessions_stand_side_by_side(control, open_page, door, until):
    control.sessions = [session("one", "stopped"), session("two", "stopped")]
    app = open_page()
    app.multiselect(key="session_compare").set_value(["one", "two"])
    app.run()
    until(lambda: all(door.numbers(one)[0] for one in control.sessions))
    app.run()
    text = text_of(app)
    assert "Utilisation, mean" in text
    assert "50.0 %" in text
    assert "75.0 %" in text


@pytest.mark.slow
def test_numbers_that_cannot_be_read_are_not_shown_as_a_table(control, open_page, door, until):
    """Why is shown in its place."""
    control.sessions = [session("one", "stopped"), session("two", "interrupted")]
    app = open_page()
    app.multiselect(key="session_compare").set_value(["one", "two"])
    control.away = "no control at <i>"
    app.run()
    until(lambda: all(door.numbers(one)[1] for one in control.sessions))
    app.run()
    text = text_of(app)
    assert "Not all of these sessions can be read" in text
    assert "one: no control at &lt;i&gt;" in text
    assert "Findings</td>" not in text
