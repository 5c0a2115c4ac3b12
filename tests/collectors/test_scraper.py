"""``paceline collect --dcgm``: a real HTTP server answers as an exporter does, or as one never should."""

import contextlib
import itertools
import subprocess
import sys
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from types import SimpleNamespace

import pytest

from collectors import scraper
from collectors.agent import Agent, Identity
from collectors.buffers import HostBuffer
from collectors.host import Host
from collectors.options import metrics_url, parse
from collectors.scraper import MOST_RETRY_S, ExporterBuffer, ExporterError, fetch
from paceline import recording, topics, wire
from streams.nodes.node_diagnosis import NodeDiagnosis
from tests.patience import PATIENCE_S

PRODUCER = {"cluster": "c", "node": "n", "producer": "p", "sequence": 0}


def text(util=90, throttle=0, gpus=2, job="4711"):
    lines = []
    for gpu in range(gpus):
        labels = f'gpu="{gpu}",UUID="GPU-{gpu}",modelName="H100",Hostname="dcgm-pod-x",hpc_job="{job}"'
        for name, value in (("GPU_UTIL", util), ("CLOCK_THROTTLE_REASONS", throttle), ("XID_ERRORS", 0)):
            lines.append(f"DCGM_FI_DEV_{name}{{{labels}}} {value}")
    return "# HELP x y\n" + "\n".join(lines) + "\n"


class Answers:
    """What the server answers: a text, or a function of the request handler."""

    def __init__(self):
        self.answer = text()
        self.paths = []


@pytest.fixture
def served():
    """A server and what it answers."""
    answers = Answers()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answers.paths.append(self.path)
            if callable(answers.answer):
                with contextlib.suppress(OSError):
                    answers.answer(self)
                return
            body = answers.answer.encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    answers.url = metrics_url(f"http://127.0.0.1:{server.server_address[1]}")
    yield answers
    server.shutdown()
    server.server_close()
    thread.join()


def buffer_of(get, clock=lambda: 0.0, every_s=0.0):
    return ExporterBuffer(get, every_s, clock, Random(1))


def test_rows_bear_this_nodes_name_and_the_jobs(served):
    """The exporter's own host is a pod as often as not; the job of each GPU is kept."""
    buffer = buffer_of(partial(fetch, served.url))
    buffer.sample()
    event = buffer.cut(**PRODUCER)
    assert (event.node, event.uuids, event.utilization_ratio) == ("n", ["GPU-0", "GPU-1"], [0.9, 0.9])
    assert [(one.device, one.job) for one in event.processes] == [(0, "4711"), (1, "4711")]
    assert served.paths == ["/metrics"]
    assert [device.name for device in buffer.inventory()["devices"]] == ["H100", "H100"]
    assert (buffer.cut(**PRODUCER), buffer.inventory()) == (None, None)


def test_it_is_asked_when_it_is_time(clock):
    """Not at every sample: an exporter renews its numbers seldom."""
    asked = []
    buffer = buffer_of(lambda: asked.append(clock()) or text(), clock, every_s=5.0)
    for _ in range(12):
        buffer.sample()
        clock.now_s += 1.0
    assert asked == [1000.0, 1005.0, 1010.0]


def test_a_sample_that_comes_a_hair_early_is_a_scrape(clock):
    """Samples as seldom as scrapes are due come unevenly by fractions of a millisecond: none is left out."""
    asked = []
    buffer = buffer_of(lambda: asked.append(clock()) or text(), clock, every_s=5.0)
    for clock.now_s in (1000.0002, 1005.0001, 1010.00005):
        buffer.sample()
    assert asked == [1000.0002, 1005.0001, 1010.00005]


def test_away_and_back_are_said_once(clock, caplog):
    """Each outage one warning, and one when it is over; the inventory says why there are no GPUs."""
    away = [True]

    def get():
        if away[0]:
            raise ExporterError("refused")
        return text()

    buffer = buffer_of(get, clock, every_s=1.0)
    asked_s = 0.0
    for _ in range(600):
        buffer.sample()
        clock.now_s += 1.0
        asked_s += 1.0
    assert [record.getMessage() for record in caplog.records] == [
        "GPUs not measured: dcgm-exporter: refused; the host is measured all the same"
    ]
    assert buffer.inventory()["not_measured"]["devices"] == "dcgm-exporter: refused"
    away[0] = False
    for _ in range(int(2 * MOST_RETRY_S)):
        buffer.sample()
        clock.now_s += 1.0
    assert [record.getMessage() for record in caplog.records][1:] == ["the dcgm-exporter answers again"]
    assert buffer.cut(**PRODUCER).device


def test_retries_grow_apart_and_are_bounded(clock):
    """Doubling with jitter, up to a minute and a half."""
    asked = []

    def get():
        asked.append(clock())
        raise ExporterError("refused")

    buffer = buffer_of(get, clock)
    for _ in range(1200):
        buffer.sample()
        clock.now_s += 0.5
    gaps = [after - before for before, after in itertools.pairwise(asked)]
    assert gaps[0] < 4.0
    assert 30.0 <= max(gaps) <= 1.5 * MOST_RETRY_S + 0.5


def redirect(handler):
    handler.send_response(302)
    handler.send_header("Location", "http://example.invalid/metrics")
    handler.end_headers()


def error(handler):
    handler.send_error(503)


def endless(handler):
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"# " + b"x" * 65_536 + b"\n")


def dripping(handler):
    handler.send_response(200)
    handler.end_headers()
    handler.connection.settimeout(0.01)  # it is to run out, between two letters
    while True:
        handler.wfile.write(b"#")
        with contextlib.suppress(TimeoutError):
            handler.connection.recv(1)


def silent(handler):
    handler.connection.settimeout(PATIENCE_S)
    handler.connection.recv(1)


def garbage(handler):
    handler.wfile.write(b"\xff\x00 garbage\r\n\r\n")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (redirect, "redirects to http://example.invalid"),
        (error, "status 503"),
        (endless, "more than"),
        (garbage, "garbage"),
    ],
)
def test_a_bad_answer_costs_a_line(served, monkeypatch, answer, why):
    """However much it sends, it is over and says why."""
    monkeypatch.setattr(scraper, "MOST_BYTES", 2**20)
    served.answer = answer
    with pytest.raises(ExporterError, match=why):
        fetch(served.url, timeout_s=PATIENCE_S)


@pytest.mark.long
def test_an_answer_that_never_comes_is_over_in_time(served):
    """Somebody accepts the connection and says nothing."""
    served.answer = silent
    with pytest.raises(ExporterError, match=r"no answer in 0\.3 s"):
        fetch(served.url, timeout_s=0.3)  # it is to run out


def test_an_answer_that_never_ends_is_over_in_time(served, monkeypatch):
    """It goes on, a letter now and then, when its time is over by the clock."""
    clock = itertools.chain([1000.0], itertools.repeat(1000.0 + PATIENCE_S + 0.1))
    monkeypatch.setattr(scraper, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    served.answer = dripping
    with pytest.raises(ExporterError, match="no whole answer in 240 s"):
        fetch(served.url, timeout_s=PATIENCE_S)


def test_an_answer_of_many_nodes_is_not_taken_for_one(caplog):
    """A federating server behind the address: the first node's GPUs alone, and that is said once."""
    many = text() + text().replace("dcgm-pod-x", "dcgm-pod-y").replace("GPU-", "GPU-y")
    buffer = buffer_of(lambda: many)
    for _ in range(3):
        buffer.sample()
    assert buffer.cut(**PRODUCER).uuids == ["GPU-0", "GPU-1"]
    assert [record.getMessage() for record in caplog.records] == [
        "left out 2 of an answer: GPUs of other nodes than the first that it names; not logged again"
    ]


def test_nobody_there_and_no_metrics_are_told_alike(served, caplog):
    """A page that is none of an exporter is as good as no answer."""
    served.answer = "<html>welcome</html>"
    buffer = buffer_of(partial(fetch, served.url))
    buffer.sample()
    assert buffer.cut(**PRODUCER) is None
    assert "no metric of DCGM" in caplog.text


@pytest.mark.parametrize(
    "url", ["localhost:9400", "file:///etc/passwd", "ftp://h/x", "http://", "http://me:secret@h", "http://h:99999", "x"]
)
def test_an_address_that_is_none_is_refused(url, capsys):
    """One line, status 2."""
    with pytest.raises(SystemExit, match="2"):
        parse(["--dcgm", url], {})
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_it_is_nvml_or_an_exporter(capsys):
    """Two sources of one GPU would count it twice."""
    with pytest.raises(SystemExit):
        parse(["--dcgm", "http://h:9400", "--simulate", "2"], {})
    assert parse(["--dcgm", "http://h:9400/x"], {}).dcgm == "http://h:9400/x"


@pytest.mark.slow
def test_once_prints_a_recording(served):
    """The command as people try it: the samples, the inventory and the host, with no broker and no driver."""
    options = ["--dcgm", served.url, "--stdout", "--once", "--interval", "0.05", "--node", "n7"]
    command = [sys.executable, "-m", "paceline", "collect", *options]
    out = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE_S).stdout
    lines = [recording.parse(1, line) for line in out.splitlines()]
    told = {one.topic: wire.decode(topics.resolve(one.topic), one.value) for one in lines}
    assert set(told) == {topics.NODE.name, topics.DEVICE.name, topics.HOST.name}
    assert (told[topics.DEVICE.name].node, told[topics.DEVICE.name].uuids) == ("n7", ["GPU-0", "GPU-1"])


class Judge:
    """Publishes into the node's diagnosis, as it would travel."""

    def __init__(self):
        self.decision, self.found, self.asked = NodeDiagnosis(), [], 0

    def publish(self, topic, event, *, key=None):
        if topic in (topics.DEVICE, topics.NODE):
            self.found += self.decision.update(wire.decode(topic, wire.encode(event)))

    def close(self, timeout_s):
        pass


@pytest.mark.long
def test_the_whole_way_to_a_finding(served, clock, monkeypatch):
    """A GPU that throttles behind an exporter is told as one behind NVML is, with its job."""
    served.answer = text(throttle=0x40)
    buffer = buffer_of(partial(fetch, served.url), clock, every_s=5.0)
    monkeypatch.setattr(scraper.time, "time", clock)
    judge = Judge()
    agent = Agent(Identity("c", "n", "p-1"), HostBuffer(Host()), buffer, judge)
    for _ in range(40):
        buffer.sample()
        agent.publish()
        clock.now_s += 5.0
    confirmed = [one for one in judge.found if one.state == "confirmed"]
    assert {(one.kind, one.cause, one.job) for one in confirmed} == {("device_fault", "throttling", "4711")}
    assert {device for one in confirmed for device in one.devices} == {"GPU-0", "GPU-1"}
