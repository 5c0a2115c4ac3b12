"""Back-fill from a real Prometheus, filled with DCGM's metrics by promtool."""

import contextlib
import gzip
import http.server
import json
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from forecaster.memory import Memory
from forecaster.prometheus import DEVICES, backfill
from paceline.gpu.limits import FP64_BLANK
from paceline.prometheus import MOST_BYTES, PrometheusError, RefusedQueryError, read

MINUTES = 180
#: By minute: DCGM's blank, and a number below nothing, which no such metric can be; alone, and beside a reading.
NOT_MEASURED = {80: FP64_BLANK, 81: -1}
PARTLY_MEASURED = {90: FP64_BLANK, 91: -1}


def metrics(now_s: int) -> str:
    """Three hours of one GPU: memory that grows, utilisation with a gap and what is not measured; a job's step time."""
    names = ("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_GPU_UTIL", "paceline_step_seconds")
    lines = [f"# TYPE {name} gauge" for name in names]
    labels = '{gpu="0",UUID="GPU-1",Hostname="node-1"}'
    rows: dict[str, list[str]] = {"used": [], "util": [], "step": []}
    for minute in range(MINUTES):
        at = now_s - (MINUTES - minute) * 60 + 30
        rows["used"].append(f"DCGM_FI_DEV_FB_USED{labels} {1000 + minute} {at}")
        if not 60 <= minute < 70:
            rows["util"].append(f"DCGM_FI_DEV_GPU_UTIL{labels} {NOT_MEASURED.get(minute, 50)} {at}")
        if minute in PARTLY_MEASURED:
            rows["util"].append(f"DCGM_FI_DEV_GPU_UTIL{labels} {PARTLY_MEASURED[minute]} {at + 15}")
        rows["step"].append(f'paceline_step_seconds{{training_job="resnet"}} 0.5 {at}')
    return "\n".join([lines[0], *rows["used"], lines[1], *rows["util"], lines[2], *rows["step"], "# EOF"]) + "\n"


@pytest.fixture(scope="module")
def prometheus(new_prometheus: Callable[[str], str]) -> tuple[str, float]:
    """A server's address, and the time up to which it was filled."""
    now_s = int(time.time()) // 60 * 60
    return new_prometheus(metrics(now_s)), float(now_s)


@pytest.mark.e2e
def test_metrics_become_series(prometheus: tuple[str, float]) -> None:
    """Units are ours, gaps stay gaps, blanks are not measured, and the newest minute is the newest sample."""
    address, now_s = prometheus
    memory = Memory()
    assert backfill(address, memory, now_s=now_s) > 2 * MINUTES
    used = memory.find("default/device/node-1/GPU-1/fb_used_bytes")
    assert used is not None
    assert used.time_s == now_s
    np.testing.assert_allclose(used.values[-3:], (1000 + np.arange(MINUTES - 3, MINUTES)) * 2**20, rtol=1e-6)
    busy = memory.find("default/device/node-1/GPU-1/utilization_ratio")
    assert busy is not None
    assert np.isnan(busy.values[60:70]).all()
    assert np.isnan(busy.values[[*NOT_MEASURED, *PARTLY_MEASURED]]).all()
    assert np.isnan(busy.values).sum() == 10 + len(NOT_MEASURED) + len(PARTLY_MEASURED)
    assert {np.nanmin(busy.values), np.nanmax(busy.values)} == {np.float32(0.5)}
    step = memory.find("default/job/resnet/step_s")
    assert step is not None
    assert step.subject.job == "resnet"


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "127.0.0.1:9", "nonsense://x"])
def test_no_prometheus_is_one_line(url: str) -> None:
    """Cause and mend."""
    with pytest.raises(PrometheusError, match="Prometheus at") as caught:
        backfill(url, Memory())
    assert "\n" not in str(caught.value)


#: A series as Prometheus tells it: its labels, and pairs of time and text.
LABELS = {"UUID": "GPU-1", "Hostname": "node-1"}
FOREIGN = {
    "no JSON": b"<html>",
    "no UTF-8": b'{"status": "\xff"}',
    "a list": b"[]",
    "deep nesting": b'{"status": "success", "data": ' + b"[" * 100_000,
    "no data": {"result": {}},
    "a series without values": {"result": [{"metric": LABELS}]},
    "labels that are no text": {"result": [{"metric": {"UUID": 7}, "values": []}]},
    "a value that is no number": {"result": [{"metric": LABELS, "values": [[60, "many"]]}]},
    "a time that is none": {"result": [{"metric": LABELS, "values": [["soon", "1"]]}]},
    "a time beyond all": {"result": [{"metric": LABELS, "values": [[1e300, "1"]]}]},
    "a point of three": {"result": [{"metric": LABELS, "values": [[60, "1", "2"]]}]},
}


@pytest.mark.parametrize("answer", FOREIGN.values(), ids=FOREIGN.keys())
def test_an_answer_of_another_form_is_no_answer(answer: bytes | dict[str, object]) -> None:
    """Whatever it is, by the one error that the command turns into a line."""
    whole = answer if isinstance(answer, bytes) else json.dumps({"status": "success", "data": answer}).encode()
    with pytest.raises(ValueError, match=r"."):
        read(DEVICES[0], whole)


@pytest.mark.parametrize(
    "answer",
    [
        {"status": "success", "data": {"resultType": "matrix", "result": None}},
        {"status": "success", "data": {"result": []}, "warnings": None, "infos": None, "error": None},
    ],
)
def test_null_is_nothing(answer: dict[str, object]) -> None:
    """As servers in Go write what they have none of."""
    assert read(DEVICES[0], json.dumps(answer).encode()) == []


def test_a_refusal_without_words_is_one() -> None:
    """With null in their place."""
    with pytest.raises(RefusedQueryError, match="no reason given"):
        read(DEVICES[0], json.dumps({"status": "error", "error": None}).encode())


def test_a_refused_query_says_why() -> None:
    """By Prometheus' own words, made harmless for a terminal."""
    with pytest.raises(RefusedQueryError, match=r"too many \\u001b\[31mpoints"):
        read(DEVICES[0], json.dumps({"status": "error", "error": "too many \x1b[31mpoints"}).encode())


def test_what_is_measured_is_kept() -> None:
    """A point at a time is the mean of the minute before; blanks and times before 1970 are left out."""
    points = [[0, "1"], [60, "10"], [120, "NaN"], [180, str(FP64_BLANK)], [240, "0"]]
    answer = {"status": "success", "data": {"result": [{"metric": LABELS, "values": points}]}}
    metric = next(one for one in DEVICES if one.name == "DCGM_FI_DEV_GPU_UTIL")
    assert read(metric, json.dumps(answer).encode()) == [(LABELS, [0.0, 180.0], [0.1, 0.0])]


def test_a_mig_instance_is_not_its_gpu(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Its memory is not the GPU's; what is left out is counted. Copies for pods that share a GPU are one series."""
    rows = [(LABELS | {"GPU_I_ID": str(number)}, [60.0], [5.0]) for number in (1, 2)]
    rows += [(LABELS | {"vgpu": str(number), "pod": f"p{number}"}, [60.0], [62.0]) for number in range(4)]
    monkeypatch.setattr("forecaster.prometheus._range", lambda client, metric, *_: rows if metric == DEVICES[0] else [])
    memory = Memory()
    backfill("http://127.0.0.1:9", memory, now_s=120.0)
    assert len(memory.lines()) == 1
    held = memory.find(f"default/device/node-1/GPU-1/{DEVICES[0].field}")
    assert held is not None
    assert list(held.values) == [62.0]
    assert "of MIG instances, or without a node, GPU or job (2)" in caplog.text


def test_a_gpu_with_two_exporters_is_one_series(monkeypatch: pytest.MonkeyPatch) -> None:
    uuid = "GPU-4cd9c5b2-6f2e-4f0a-9a3b-0d6f6f4d2c11"
    rows = [({"UUID": uuid, "Hostname": host}, [60.0], [62.0]) for host in ("n1", "dcgm-exporter-x7k2p")]
    monkeypatch.setattr("forecaster.prometheus._range", lambda client, metric, *_: rows if metric == DEVICES[0] else [])
    memory = Memory()
    backfill("http://127.0.0.1:9", memory, now_s=120.0)
    assert len(memory.lines()) == 1
    assert memory.find(f"default/device/n1/{uuid}/{DEVICES[0].field}") is not None


def test_what_is_no_prometheus_is_said_so(address: str) -> None:
    """Another HTTP server answers something else."""
    with pytest.raises(PrometheusError, match="no answer of a Prometheus"):
        backfill(address, Memory())


class Large(http.server.BaseHTTPRequestHandler):
    """Answers that there are no series, in twice as many bytes as are read."""

    def do_POST(self) -> None:
        """Whatever was asked."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        with contextlib.suppress(OSError):
            self.answer(b'{"status": "success", "data": {"result": [' + b" " * 2 * MOST_BYTES + b"]}}")

    def answer(self, content: bytes) -> None:
        """As it is."""
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *words: object) -> None:
        """Nothing of it."""


class Packed(Large):
    """The same, packed, though nobody asked for that."""

    def answer(self, content: bytes) -> None:
        """A thousandth of it."""
        self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(gzip.compress(content, 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "said"),
    [(Large, f"an answer of more than {MOST_BYTES:,} bytes"), (Packed, "no answer of a Prometheus")],
)
def test_no_more_of_an_answer_is_read_than_there_is_room_for(answers: type[Large], said: str) -> None:
    """Nor is what is small unpacked to what is large."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with pytest.raises(PrometheusError, match=said):
                backfill(f"http://127.0.0.1:{server.server_address[1]}", Memory())
        finally:
            server.shutdown()
            thread.join()
