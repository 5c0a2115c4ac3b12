"""Suggestions and forecasts in a real Chromium, over a real broker, `paceline ui` and `paceline control`."""

import os
import re
import subprocess
import sys
import time

import pytest
from playwright.sync_api import expect

from experiments.chromium import current
from experiments.tour.visitor import unlock
from paceline import topics, wire
from paceline.events import AuditEntry
from paceline.kafka.follow import BEGINNING, Follower
from paceline.kafka.settings import BrokerSettings
from tests.ui.browsing import publish, shows
from tests.ui.forecasts import forecast, profile, suggestion

pytestmark = [pytest.mark.browser, pytest.mark.bus]
TOKEN = "correct horse battery staple"
CARD = ".st-key-suggestion-cordon-gpu-02-1"


@pytest.fixture
def commands(own_broker):
    """Gives the commands that are on the topic."""
    with Follower(BrokerSettings(brokers=(own_broker.address,)), {topics.COMMAND: BEGINNING}, "test") as follower:
        held = []

        def commands():
            for _, records in follower.poll():
                held.extend(wire.decode(topics.COMMAND, record.value) for record in records)
            return held

        yield commands


@pytest.fixture
def control(own_broker, free_port, tmp_path):
    """A control, and what tells another process where it is, and its token."""
    port = free_port()
    there = {"XDG_DATA_HOME": str(tmp_path), "PACELINE_CONTROL_URL": f"http://127.0.0.1:{port}"}
    command = [sys.executable, "-P", "-m", "paceline", "control", "--port", str(port), "--brokers", own_broker.address]
    with (tmp_path / "control.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **there})
    yield there
    process.kill()
    process.wait()


def test_a_suggestion_is_accepted_by_who_knows_the_token(tab, own_broker, control, serve, commands, until):
    """It appears by itself, a wrong token opens nothing, the right one has control send a command, and its answer
    is shown."""
    publish(own_broker.address, [])
    _, url = serve(own_broker.address, PACELINE_UI_TOKEN=TOKEN, **control)
    tab.goto(f"{url}/suggestions")
    shows(tab, "No stream worker is running")
    publish(own_broker.address, [(topics.SUGGESTION, suggestion(1, time.time()))])
    title = current(tab, CARD).get_by_text("Cordon node gpu-02: its GPU 5 held back three jobs", exact=True)
    expect(title).to_have_count(1)

    unlock(tab, "guess", "ada")
    expect(tab.get_by_text("Wrong token.")).to_be_visible()
    expect(tab.get_by_role("button", name="Accept", exact=True)).to_have_count(0)
    unlock(tab, TOKEN, "ada")
    shows(tab, "You accept or dismiss as ada.")

    tab.locator(CARD).get_by_role("button", name="Accept", exact=True).click()
    because = tab.get_by_label("Because").filter(visible=True)
    because.press_sequentially("it failed twice <b>", delay=250)  # Longer than a refresh takes: nothing typed is lost.
    expect(because).to_have_value("it failed twice <b>")
    because.press("Enter")
    (sent,) = until(lambda: commands())
    assert (sent.target, sent.action, sent.issuer) == ("suggestion:cordon-gpu-02-1", "accept", "ada")
    assert (sent.arguments, sent.cluster) == ({"because": "it failed twice <b>"}, "default")
    shows(tab, "sent, waiting for an answer …", CARD)
    who = {"service": "streams", "node": "worker-1", "time_s": time.time(), "outcome": "accepted", "reason": "as asked"}
    asked = {"command_id": sent.id, "cluster": sent.cluster, "target": sent.target, "action": sent.action}
    accepted = suggestion(1, time.time(), revision=2, state="accepted", by="ada", because="it failed twice <b>")
    answer = AuditEntry(**asked, **who, issuer=sent.issuer)
    publish(own_broker.address, [(topics.AUDIT, answer), (topics.SUGGESTION, accepted)])
    shows(tab, "accepted by streams on worker-1: as asked", CARD)
    expect(current(tab, CARD).get_by_text(re.compile("by ada · it failed twice <b>"))).to_have_count(1)
    expect(tab.locator(CARD).get_by_role("button", name="Accept", exact=True)).to_have_count(0)


def test_without_a_token_nothing_can_be_asked(tab, module_broker, module_page):
    """Read-only, and said so."""
    publish(module_broker.address, [(topics.SUGGESTION, suggestion(1, time.time()))])
    tab.goto(f"{module_page}/suggestions")
    shows(tab, "Cordon node gpu-02: its GPU 5 held back three jobs", CARD)
    shows(tab, "Read-only. To accept or dismiss, start this page with PACELINE_UI_TOKEN set.")
    seen = current(tab, CARD).get_by_role("link", name="rank 5", exact=True)
    expect(seen).to_have_attribute("href", "rank?job=llm-7b-pretrain&rank=5")
    expect(seen).to_have_attribute("target", "_blank")  # What was unlocked or written here stays.
    expect(tab.get_by_role("button", name="Accept", exact=True)).to_have_count(0)


def test_a_forecast_appears_and_a_link_to_it_lasts(tab, module_broker, module_page):
    """The cluster first; another series goes into the address and lasts a reload; no phone scrolls sideways."""
    now_s = time.time()
    step = forecast("default/job/llm/step_s", now_s, unit="s", middle=0.1, swing=0.01, job="llm")
    publish(module_broker.address, [(topics.FORECAST, forecast("default/cluster/free_gpus", now_s, maximum=16.0))])
    publish(module_broker.address, [(topics.FORECAST, step), (topics.PROFILE, profile("llm", now_s))])
    tab.goto(f"{module_page}/forecast")
    shows(tab, "GPUs free in cluster default")
    heading = current(tab).get_by_role("heading", level=2)
    expect(heading.filter(has_text="cluster default: free GPUs")).to_have_count(1)
    shows(tab, "every 20 min, confidence 93 %, longer by 2 % than at first")
    tab.goto(f"{module_page}/forecast?series=default/job/llm/step_s")
    expect(heading.filter(has_text="job llm: step time")).to_have_count(1)
    tab.reload()
    expect(heading.filter(has_text="job llm: step time")).to_have_count(1)
    tab.set_viewport_size({"width": 390, "height": 900})
    tab.wait_for_function("document.querySelector('[data-testid=stMain]').scrollWidth <= 390")
