import pytest
from streamlit.testing.v1 import AppTest

from paceline import events, topics
from tests.patience import PATIENCE_S
from tests.ui.control_in_place import Control, eventually
from tests.ui.forecasts import suggestion
from tests.ui.opened_app import opened, text_of
from tests.ui.test_suggestion_book import entry
from ui.control_door import ControlDoor
from ui.feed import Feed
from ui.token_gate import TokenGate

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
NOW_S = 1_000_000.0
TOKEN = "correct horse battery staple"


def script(source, door, gate):
    from ui.screens import suggestions

    suggestions.show(source, door, gate)


@pytest.fixture
def control():
    return Control()


@pytest.fixture
def door(control):
    made = ControlDoor(control.client, clock=lambda: NOW_S)
    yield made
    made.stop()


@pytest.fixture
def open_page(snapshot_of, door):
    """The suggestions page over a feed, with a gate or without."""

    def open_page(feed, gate=None, query=None, **changed):
        given = {"now_s": NOW_S, **changed}
        source = lambda job, rank=None: snapshot_of(feed, **given)  # noqa: E731
        return opened(script, (source, door, gate), query)

    return open_page


@pytest.fixture
def heard(tell):
    """A feed that has heard these suggestions."""

    def heard(*said, at_s=NOW_S):
        feed = Feed()
        tell(feed, [(topics.SUGGESTION, one) for one in said], at_s)
        return feed

    return heard


def unlocked(app, name="ada", token=TOKEN):
    app.text_input(key="token_name").set_value(name)
    app.text_input(key="token_given").set_value(token)
    button_of(app, "Unlock").click()
    app.run()
    return app


def button_of(app, label):
    return next(one for one in app.button if one.label == label)


@pytest.mark.slow
def test_a_card_has_gain_evidence_steps_and_the_command(heard, open_page):
    """Everything that a reader decides on; evidence leads to the picture."""
    app = open_page(heard(suggestion(1, NOW_S)))
    shown = text_of(app)
    wanted = [
        "Cordon node gpu-02",
        "+84.0 device-hours a day (61.0 to 103)",
        "+44 % throughput (32 % to 51 %)",
        "210 EUR a day",
        "Risk medium: 15 jobs lose 8 GPUs",
        "94.0 ms",
        "47.7 ms",
        'href="rank?job=llm-7b-pretrain&amp;rank=5"',
        'href="fleet?node=gpu-02"',
        "Drain the node",
        "straggler-llm-7b-pretrain-0-5-300",
    ]
    assert [words for words in wanted if words not in shown] == []
    assert app.code[0].value.startswith("scontrol update nodename=gpu-02")


@pytest.mark.slow
def test_the_largest_gain_comes_first_and_what_is_over_last(heard, open_page):
    """By device-hours a day; closed ones are not shown unless somebody asks."""
    small = suggestion(1, NOW_S, title="Small", gain=events.Gain(gpu_hours_per_day=1.0))
    unknown = suggestion(2, NOW_S, title="Unknown", gain=events.Gain())
    over = suggestion(3, NOW_S, title="Over", state="withdrawn")
    shown = text_of(app := open_page(heard(small, unknown, over, suggestion(4, NOW_S, title="Large"))))
    assert shown.index("Large") < shown.index("Small") < shown.index("Unknown")
    assert "Over" not in shown
    assert "gain not known" in shown
    app.session_state["suggestion_states"] = ["withdrawn"]
    app.run()
    shown = text_of(app)
    assert "Over" in shown
    assert "Large" not in shown


STATES = ("new", "accepted", "dismissed", "applied", "verified", "did_not_help", "expired", "withdrawn", "rethought")


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
def test_every_state_has_its_card(state, heard, open_page):
    """A state of a newer version, too: told in its own word."""
    app = open_page(heard(suggestion(1, NOW_S, state=state)), query={"suggestion": "cordon-gpu-02-1"})
    assert f">{state.replace('_', ' ')}</span>" in text_of(app)


def test_what_was_measured_is_before_and_after(heard, open_page):
    """The effect of what was applied, with its change."""
    effect = events.Effect(name="step_s", unit="s", before=0.101, after=0.056, before_s=600.0, after_s=600.0)
    shown = text_of(open_page(heard(suggestion(1, NOW_S, state="verified", effect=effect, by="ada"))))
    assert "step: 101 ms before, 56.0 ms after (-45 %)" in shown
    assert "by ada" in shown


@pytest.mark.slow
def test_nothing_to_suggest_says_what_was_looked_at(played, open_page):
    """A healthy cluster: how many jobs and GPUs; without a worker: that nobody looks."""
    assert "Nothing to suggest: 1 job and 4 GPUs checked" in text_of(open_page(played, now_s=1001.0))
    shown = text_of(open_page(played, now_s=9_000.0))
    assert "No stream worker is running" in shown
    assert "paceline streams" in shown
    assert "No stream worker is running" in text_of(open_page(Feed()))


@pytest.mark.slow
@pytest.mark.parametrize("gate", [None, TokenGate("")])
def test_without_a_token_the_page_is_read_only_and_says_so(gate, heard, open_page):
    """No button, and the name of the setting."""
    app = open_page(heard(suggestion(1, NOW_S)), gate)
    assert "Read-only. To accept or dismiss, start this page with PACELINE_UI_TOKEN" in text_of(app)
    assert [one.label for one in app.button] == []
    assert not app.text_input


def test_a_wrong_token_opens_nothing_and_is_forgotten(heard, open_page):
    """What was typed is not kept; without a name nobody is asked."""
    app = unlocked(open_page(heard(suggestion(1, NOW_S)), TokenGate(TOKEN)), token="guess")
    assert "Wrong token." in [one.value for one in app.error]
    assert "Accept" not in [one.label for one in app.button]
    assert app.text_input(key="token_given").value == ""
    unlocked(app, name=" ")
    assert "Enter both" in app.error[0].value


class _AtOnce(TokenGate):
    """Whatever is given is given at the same moment, however long a page takes to open."""

    def judge(self, given, now_s):
        return super().judge(given, 0.0)


@pytest.mark.slow
def test_too_many_attempts_are_refused_even_when_right(heard, open_page):
    """Of all sessions together."""
    gate = _AtOnce(TOKEN)
    feed = heard(suggestion(1, NOW_S))
    for _ in range(5):
        unlocked(open_page(feed, gate), token="guess")
    app = unlocked(open_page(feed, gate))
    assert "Too many attempts" in app.error[0].value


def test_the_right_token_is_asked_once_and_a_reason_each_time(heard, open_page, control, until):
    """Accepting tells control who and why; without a why nothing is sent."""
    app = unlocked(open_page(heard(suggestion(1, NOW_S)), TokenGate(TOKEN)))
    assert "You accept or dismiss as ada." in text_of(app)
    assert "token_given" not in [one.key for one in app.text_input]
    accept = next(one for one in app.button if one.label == "Accept" and one.form_id)
    accept.click().run()
    assert control.asked == []
    app.text_input(key="because-accept-cordon-gpu-02-1").set_value("it failed twice")
    next(one for one in app.button if one.label == "Accept" and one.form_id).click()
    app.run()
    asked = eventually(until, control)
    assert asked == ("POST", "/v1/suggestions/cordon-gpu-02-1/accept", {"because": "it failed twice"}, "ada")
    assert "sen" in text_of(app)  # "sending" or, if control was quicker, "sent".
    button_of(app, "Lock").click().run()
    assert app.text_input(key="token_given")


ANSWERS = {
    "accepted": "accepted by streams on worker-1: it is accepted now",
    "refused": "refused by streams on worker-1: it is accepted now",
    None: "no answer within 10 s",
}


@pytest.fixture
def dismissed(heard, control, door, tell, snapshot_of, until):
    """The page after somebody dismissed a suggestion, control has said something, and this and that has happened."""

    def dismissed(*happened, later_s=0.0):
        feed, clock = heard(suggestion(1, NOW_S)), {"now_s": NOW_S}
        source = lambda job, rank=None: snapshot_of(feed, **clock)  # noqa: E731
        app = AppTest.from_function(script, args=(source, door, TokenGate(TOKEN)), default_timeout=PATIENCE_S).run()
        unlocked(app)
        app.text_input(key="because-dismiss-cordon-gpu-02-1").set_value("not now")
        next(one for one in app.button if one.label == "Dismiss" and one.form_id).click()
        app.run()
        until(lambda: door.change(1).said)
        tell(feed, happened, NOW_S)
        clock["now_s"] = NOW_S + later_s
        app.run()
        return text_of(app)

    return dismissed


@pytest.mark.slow
@pytest.mark.parametrize("outcome", ANSWERS)
def test_what_came_of_it_is_told(outcome, dismissed):
    """The answer with its reason, or that there is none."""
    answers = [(topics.AUDIT, entry("command-1", outcome, reason="it is accepted now"))] if outcome else []
    assert ANSWERS[outcome] in dismissed(*answers, later_s=11.0)


@pytest.mark.slow
def test_control_that_refuses_is_told_with_its_reason(control, dismissed):
    """At once, and still later."""
    control.refusal = "state: it is expired: dismiss changes nothing"
    assert "not done: state: it is expired" in dismissed(later_s=30.0)


def test_hostile_texts_stay_text(heard, open_page):
    """Whatever stands in any field of a suggestion, no markup comes of it, in HTML or Markdown."""
    evil = "<img src=x onerror=alert(1)> **b** [a](http://evil.example) `c` $$x$$ :material/home: <script>"
    said = suggestion(
        1,
        NOW_S,
        **dict.fromkeys(("cluster", "target", "job", "title", "reason", "risk", "risk_reason", "by", "because"), evil),
        id=evil[:64],
        action=evil,
        state=evil,
        severity=evil,
        nodes=[evil],
        devices=[evil],
        findings=[evil],
        steps=[evil],
        apply=[evil],
        manifest=evil,
        evidence=[events.Evidence(name=evil, value=1e30, unit=evil, peers=-1e30, rule=evil, rank=3)],
        gain=events.Gain(gpu_hours_per_day=-1e30, throughput_ratio=1e30, money_per_day=1e30, currency=evil, basis=evil),
        effect=events.Effect(name=evil, unit=evil, before=1e-30, after=1e30, before_s=0.0, after_s=0.0),
        created_s=0.0,
        updated_s=9e10,
        expires_s=0.0,
    )
    app = unlocked(open_page(heard(said), TokenGate(TOKEN)), name=evil)
    shown = text_of(app)
    assert "<img" not in shown
    assert "<script" not in shown
    labels = [one.label for one in (*app.button, *app.expander, *app.text_input)]
    assert not any("img" in label or "evil" in label for label in labels)
    assert not app.markdown


def test_a_command_for_the_machine_of_the_page_is_shown_for_there_and_elsewhere(heard, open_page, monkeypatch):
    """Who reads the page may be on it, or see it through a tunnel."""
    monkeypatch.setenv("PACELINE_NODE", "gpu-7")
    shown = open_page(heard(suggestion(1, NOW_S, apply=["ssh gpu-7 'free -m'", "ssh gpu-8 uptime"])))
    assert shown.code[0].value == "free -m  # on gpu-7; from elsewhere: ssh gpu-7 'free -m'\nssh gpu-8 uptime"


def test_clocks_hours_off_break_nothing(heard, open_page):
    """A suggestion of tomorrow, and one whose time is over."""
    tomorrow = suggestion(1, NOW_S + 86_400.0)
    over = suggestion(2, NOW_S, expires_s=NOW_S - 60.0)
    shown = text_of(open_page(heard(tomorrow, over)))
    assert "updated just now" in shown
    assert "expired" in shown


@pytest.mark.slow
def test_a_link_to_a_suggestion_shows_it_first(heard, open_page):
    """Whatever its state; one that is not known is told."""
    feed = heard(suggestion(1, NOW_S, state="withdrawn", title="Old"), suggestion(2, NOW_S, title="Recent"))
    shown = text_of(open_page(feed, query={"suggestion": "cordon-gpu-02-1"}))
    assert shown.index("Old") < shown.index("Recent")
    shown = text_of(open_page(feed, query={"suggestion": "<b>x</b>"}))
    assert "No suggestion &lt;b&gt;x&lt;/b&gt; is known" in shown
