"""The page in a real Chromium, over a real broker and a real `paceline ui` process.

Rule of this file: everything is looked for among what is ``current``, by its exact words or its role, and must be there
once. Tests share a broker and a page, each with a job of its own; one that needs an empty page, ends it, or stops its
broker has its own.
"""

import re
import signal
import socket
import time
from urllib.parse import quote, urlsplit

import pytest
from msgspec import structs
from playwright.sync_api import expect

from experiments.chromium import current
from experiments.tour.visitor import Watched, downloaded
from paceline import events, topics
from tests.ui.browsing import publish, shows, shows_a_heatmap
from tests.ui.simulated_job import SimulatedJob

#: The card of the simulated job's one finding, and what it says.
CARD = ".st-key-finding-straggler-demo-0-2-60"
VERDICT = "Straggler: rank 2, slow computation on the worker"

pytestmark = [pytest.mark.browser, pytest.mark.bus]


def card(job):
    """The card of the one finding of a simulated job."""
    return f".st-key-finding-straggler-{job}-0-2-60"


@pytest.fixture(scope="module")
def full_job(module_broker):
    """A job with timings, a finding and machines is on the shared broker."""
    job, now_s = SimulatedJob(ranks=4, nodes=2, slow_rank=2, fault_step=60, job="demo"), time.time()
    publish(module_broker.address, [*job.described(now_s), *job.timings(now_s, 0, 50)])
    publish(module_broker.address, [job.finding(1, 49, "confirmed", first_step=10), *job.machines(now_s)])


@pytest.fixture
def full_page(full_job, module_page):
    """The address of a page that has that job."""
    return module_page


def opened(tab, full_page):
    """Open that job's page, and wait until all of it is there."""
    tab.goto(f"{full_page}/?job=demo&span=6h")
    shows(tab, VERDICT, CARD)
    shows_a_heatmap(tab)


@pytest.fixture
def own_job(request):
    """A simulated job named after the test."""
    name = request.node.name.replace("_", "-")
    return SimulatedJob(ranks=4, nodes=2, slow_rank=2, fault_step=60, job=name)


@pytest.mark.landing
def test_a_finding_appears_live_and_a_lost_broker_is_told(tab, own_broker, serve, simulated_job):
    """From nothing to a job to a finding to no broker, in one tab that is never reloaded."""
    _, url = serve(own_broker.address)
    tab.goto(url)
    shows(tab, re.compile("^paceline run --brokers"))
    tab.evaluate("window.neverReloaded = true")

    now_s = time.time()
    publish(own_broker.address, [*simulated_job.described(now_s), *simulated_job.timings(now_s, 0, 50)])
    publish(own_broker.address, simulated_job.timings(now_s, 50, 50))
    expect(current(tab).get_by_role("heading", name="demo", exact=True)).to_have_count(1)
    shows(tab, "No finding names a slow rank")
    shows_a_heatmap(tab)

    publish(own_broker.address, [simulated_job.window(time.time(), 99), simulated_job.finding(1, 99, "confirmed")])
    shows(tab, VERDICT, CARD)
    shows(tab, "confirmed: slow computation on the worker")
    shows(tab, "46.3 ms a step", CARD)

    own_broker.stop()
    notice = current(tab).get_by_role("status")
    expect(notice.get_by_text(f"No connection to the broker at {own_broker.address}", exact=True)).to_have_count(1)
    expect(notice.get_by_text(re.compile(r"connection refused"))).to_have_count(1)
    shows(tab, VERDICT, CARD)
    assert tab.evaluate("window.neverReloaded") is True


def test_the_page_loads_nothing_from_a_foreign_host(tab, full_page):
    """Every request of a full page goes to the page's own server; its icon comes with it."""
    asked = []
    tab.on("request", lambda request: asked.append(urlsplit(request.url)))
    tab.on("websocket", lambda socket: asked.append(urlsplit(socket.url)))
    opened(tab, full_page)
    tab.locator("link[rel~=icon][href^='data:image/svg+xml']").wait_for(state="attached")
    assert {each.scheme for each in asked} == {"http", "ws"}
    assert {each.netloc for each in asked} == {urlsplit(full_page).netloc}


def test_the_tables_of_the_fleet_are_not_cut(tab, full_job, module_broker, module_page):
    """With a job of a long name, at 1400 pixels; and the server is asked nothing that there is not."""
    missing = []
    tab.on("response", lambda answer: missing.append(answer.url) if answer.status >= 400 else None)
    name = "llama-70b-pretraining_with_a_long_name-of-forty"
    job, now_s = SimulatedJob(ranks=4, nodes=2, slow_rank=2, fault_step=60, job=name), time.time()
    publish(module_broker.address, [*job.described(now_s), *job.timings(now_s, 0, 50), *job.machines(now_s)])
    publish(module_broker.address, [job.finding(1, 49, "confirmed", first_step=10)])
    tab.set_viewport_size({"width": 1400, "height": 1000})
    tab.goto(f"{module_page}/fleet")
    expect(current(tab, ".st-key-jobs").get_by_role("link", name=name).first).to_be_visible()
    expect(current(tab, ".st-key-worst").locator(".pl-table").first).to_be_visible()  # of whichever job is worst
    tables = "document.querySelectorAll('.st-key-jobs .pl-table, .st-key-worst .pl-table')"
    assert tab.evaluate(f"[...{tables}].map(each => each.scrollWidth - each.clientWidth)") == [0, 0]
    assert missing == []


def test_nothing_is_wider_than_the_window(tab, full_page):
    """The page never scrolls sideways."""
    opened(tab, full_page)
    for width in (480, 1280, 1600):
        tab.set_viewport_size({"width": width, "height": 1000})
        tab.wait_for_function(f"document.querySelector('[data-testid=stMain]').scrollWidth <= {width}")


def test_an_opened_card_stays_open_while_the_page_refreshes(tab, module_broker, module_page, own_job):
    """A reader of the details is not interrupted by the next refresh, the next revision, or a notice."""
    its_card = card(own_job.job)
    publish(module_broker.address, [*own_job.timings(time.time(), 0, 50), own_job.finding(1, 49, "confirmed")])
    tab.goto(f"{module_page}/?job={own_job.job}")
    opener = tab.locator(f"{its_card} summary").filter(visible=True)
    expect(opener.get_by_text("Details, 1 revision", exact=True)).to_have_count(1)
    opener.click()
    coverage = "Coverage: 4 of 4 ranks reported, 0 events missing"
    shows(tab, coverage, its_card)
    publish(module_broker.address, [own_job.finding(2, 60, "confirmed")])
    expect(opener.get_by_text("Details, 2 revisions", exact=True)).to_have_count(1)
    shows(tab, coverage, its_card)
    publish(module_broker.address, own_job.described(time.time() - 60, ended_s=time.time(), exit_status=0))
    expect(current(tab).get_by_role("status").get_by_text(re.compile("This job ended"))).to_have_count(1)
    shows(tab, coverage, its_card)


def test_what_is_wrong_with_paceline_itself_is_told(tab, own_broker, serve, own_job):
    """Gaps, what was shed and the newest refusal, live; until then that nothing is wrong.

    On a broker of its own: samples that arrive for long without a worker, as on the shared one, are a trouble, too.
    """
    now_s, place = time.time(), ".st-key-health"
    publish(own_broker.address, [*own_job.described(now_s), *own_job.timings(now_s, 0, 50)])
    _, url = serve(own_broker.address)
    tab.goto(f"{url}/?job={own_job.job}")
    shows(tab, "No messages are missing, waiting or rejected.", place)
    account = events.DeliveryAccount(sent=1200, shed={topics.OP.name: 7})
    (topic, batch), _ = own_job.timings(time.time(), 50, 10)
    said = structs.replace(batch, account=account, sequence=batch.sequence + 40)
    reason = "<img src=x onerror=alert(1)> is no number"
    letter = events.DeadLetter(reason=reason, topic=topic.name, partition=0, offset=7, time_s=time.time(), excerpt="")
    publish(own_broker.address, [(topic, said), (topics.DEADLETTER, letter)])
    shows(tab, "Messages are missing: 40 on op", place)
    shows(tab, f"7 messages were dropped by the sidecar of {batch.node}", place)
    shows(tab, re.compile(f"The workers rejected messages, the last .* ago: {re.escape(reason)}"), place)


def test_without_a_broker_the_page_opens(tab, serve):
    """No broker: the page says what is wrong and how to mend it."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        _, url = serve(address)
        tab.goto(url)
        shows(tab, f"No connection to the broker at {address}")
        shows(tab, re.compile("^paceline doctor"))


PAGES = {
    "fleet": ("4 GPUs on 2 nodes", "?metric=power_w&span=6h"),
    "job": (VERDICT, "?job=demo&span=6h"),
    "rank": (VERDICT, "?job=demo&rank=2&span=6h"),
    "collectives": ("Latest ranks", "?job=demo&span=6h"),
    "health": ("Pipeline health", "?span=6h"),
}


def test_a_picture_that_is_saved_as_its_chart_goes_is_no_error(chromium):
    """Plotly then fails to say so at the chart; any other error of a script counts, of Plotly's file as well."""
    page = chromium.new_page()
    files = {"PlotlyChart.a1.js": "undefined.locale", "PlotlyChart.b2.js": "undefined.x", "own.js": "undefined.locale"}
    files["page"] = "".join(f"<script src={name}></script>" for name in files)

    def answer(route):
        name = route.request.url.rpartition("/")[2]
        route.fulfill(body=files[name], content_type="text/javascript" if name.endswith(".js") else "text/html")

    page.route("**/*", answer)
    watched = Watched(page)
    page.goto("http://127.0.0.1/page")
    page.close()
    assert watched.errors == [f"Cannot read properties of undefined (reading '{name}')" for name in ("x", "locale")]


@pytest.mark.landing
def test_every_page_opens_by_its_link_reloads_and_exports(tab, full_page):
    """One browser through all pages: a link shows what it says, also after a reload; pictures leave as CSV and PNG; and
    no script of a page complains. (Streamlit looks for its own address below each page's; the 404 is its.)"""
    watched = Watched(tab)
    opened(tab, full_page)
    for path, (words, query) in PAGES.items():
        tab.goto(f"{full_page}/{path}{query}")
        expect(current(tab).get_by_text(re.compile(re.escape(words))).first).to_be_visible()
        tab.reload()
        expect(current(tab).get_by_text(re.compile(re.escape(words))).first).to_be_visible()
        assert tab.url == f"{full_page}/{path}{query}"
        if path != "health":
            numbers = downloaded(tab, lambda: tab.get_by_role("button", name="CSV").first.click())
            assert numbers.startswith((b"series,", b"node,"))
            picture = downloaded(tab, lambda: tab.locator(".modebar-btn").first.dispatch_event("click"))
            assert picture.startswith(b"\x89PNG")
    assert watched.complaints == []


def test_the_menu_leads_on_with_job_rank_and_range(tab, full_page):
    """From a rank to the fleet and back: what was chosen stays, and so does a pause."""
    opened(tab, full_page)
    tab.goto(f"{full_page}/rank?job=demo&rank=2&span=1h&live=0")
    shows(tab, VERDICT, CARD)
    tab.get_by_role("link", name="Fleet", exact=True).click()
    tab.wait_for_url(re.compile("/fleet.*rank=2"))
    expect(current(tab).get_by_text(re.compile("4 GPUs on 2 nodes")).first).to_be_visible()
    tab.get_by_role("link", name="Rank", exact=True).click()
    tab.wait_for_url(re.compile("/rank.*rank=2"))
    assert "span=1h" in tab.url
    assert "live=0" in tab.url
    shows(tab, VERDICT, CARD)


@pytest.mark.e2e
def test_a_page_that_is_killed_comes_back_with_what_the_topics_hold(tab, broker, serve):
    """SIGKILL, and a new process on the same port: an open tab shows what came before and while the page was dead."""
    job = SimulatedJob(ranks=4, nodes=2, slow_rank=2, fault_step=60, job=f"killed-{broker.address}")
    now_s = time.time()
    publish(broker.address, [*job.described(now_s), *job.timings(now_s, 0, 50), job.finding(1, 99, "confirmed")])
    process, url = serve(broker.address)
    tab.goto(f"{url}/?job={quote(job.job)}")
    expect(current(tab).get_by_role("heading", name=job.job, exact=True)).to_have_count(1)
    opener = tab.locator("summary").filter(visible=True)
    expect(opener.get_by_text("Details, 1 revision", exact=True)).to_have_count(1)
    tab.evaluate("window.neverReloaded = true")
    process.kill()
    process.wait()
    publish(broker.address, [job.finding(2, 120, "confirmed")])
    serve(broker.address, urlsplit(url).port)
    expect(opener.get_by_text("Details, 2 revisions", exact=True)).to_have_count(1)
    expect(current(tab).get_by_role("heading", name=job.job, exact=True)).to_have_count(1)
    assert tab.evaluate("window.neverReloaded") is True


def test_sigterm_ends_the_page_with_status_0(tab, own_broker, serve):
    """A clean stop, also with a tab open."""
    process, url = serve(own_broker.address)
    tab.goto(url)
    shows(tab, re.compile("^paceline run --brokers"))
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0
