"""Back-fill from a real Prometheus: what is missing, marked, once, and never in the place of what the bus told."""

import contextlib
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from archive.addition import SourceError
from archive.merger import Merger
from archive.merging import Days
from archive.sources.backfill import DAY_S, SETTLED_S, Back, Backfill
from archive.writer import Writer
from paceline import prometheus_server
from paceline.gpu.limits import FP64_BLANK
from paceline.history.store import Store
from tests.archive.conftest import commit
from tests.archive.sources.conftest import committed, window

Ask = Callable[..., list[tuple[Any, ...]]]
HOURS = 6
NOT_MEASURED_STEP = 10
DCGM = 'gpu="0",UUID="GPU-1",Hostname="node-1.example",hpc_job="4711"'


def metrics(end_s: float) -> str:
    """Six hours of GPU-1 by DCGM, a sample every half minute, and of GPU-2 by Paceline, one every ten minutes."""
    begin_s = end_s - HOURS * 3600
    rows: dict[str, list[str]] = {}
    for number in range(HOURS * 120):
        at, busy = begin_s + number * 30 + 15, 50 + 40 * (number % 2)
        step = number // 10
        power = FP64_BLANK if step == NOT_MEASURED_STEP else 300 + step
        for name, value in (("GPU_UTIL", busy), ("POWER_USAGE", power), ("FB_USED", 1024), ("FB_FREE", 3072)):
            rows.setdefault(f"DCGM_FI_DEV_{name}", []).append(f"DCGM_FI_DEV_{name}{{{DCGM}}} {value} {at}")
        if number % 20 == 0:
            labels = 'gpu="1",UUID="GPU-2",node="node-2",model_name="made up"'
            for name, value in (("utilization_ratio", 0.25), ("sm_clock_hertz", 1.5e9)):
                rows.setdefault(f"paceline_device_{name}", []).append(
                    f"paceline_device_{name}{{{labels}}} {value} {at}"
                )
    told = [line for name, lines in rows.items() for line in (f"# TYPE {name} gauge", *lines)]
    return "\n".join([*told, "# EOF"]) + "\n"


@pytest.fixture(scope="module")
def prometheus(new_prometheus: Callable[[str], str]) -> tuple[str, float]:
    """A server's address, and the time up to which it was filled: 300 s times a whole number."""
    end_s = time.time() // 300 * 300
    return new_prometheus(metrics(end_s)), end_s


def source(url: str, store: Store, days: float = 0.25) -> Backfill:
    return Backfill(url, store, "c", Back(days=days))


@pytest.mark.e2e
def test_what_is_missing_is_filled_in_by_our_names_and_units_marked_and_once(
    prometheus: tuple[str, float], store: Store, ask: Ask
):
    url, end_s = prometheus
    writer, now_s = Writer(store), end_s + SETTLED_S
    assert committed(writer, source(url, store).turns(now_s)) == HOURS * 12 + HOURS * 6
    told = ask(
        "SELECT min(start_s), max(start_s), sum(length_s), avg(mean_utilization_ratio), max(max_utilization_ratio), "
        "min(mean_fb_total_bytes), any_value(job), min(samples), min(source), any_value(node) "
        "FROM device_window WHERE device = 'GPU-1'"
    )
    first_s = end_s - HOURS * 3600
    assert told == [(first_s, end_s - 300, HOURS * 3600, pytest.approx(0.7), pytest.approx(0.9), 4096 * 2**20, "4711",
                     300, "prometheus", "node-1.example")]  # fmt: skip
    power = ask("SELECT mean_power_w FROM device_window WHERE device = 'GPU-1' ORDER BY start_s")
    assert [value for (value,) in power] == [
        None if step == NOT_MEASURED_STEP else 300.0 + step for step in range(HOURS * 12)
    ]
    # Of every second window there is no sample: nothing is made up for it.
    clocks = ask("SELECT start_s - ?, mean_sm_clock_mhz FROM device_window WHERE device = 'GPU-2' ORDER BY 1", first_s)
    assert clocks == [(600.0 * number, 1500.0) for number in range(HOURS * 6)]
    # Again, as another process would: all is there.
    assert committed(Writer(store), source(url, store).turns(now_s)) == 0


@pytest.mark.e2e
def test_the_bus_counts_where_it_told_anything_and_names_its_gpus(
    prometheus: tuple[str, float], store: Store, ask: Ask
):
    url, end_s = prometheus
    begin_s, writer = end_s - 3600, Writer(store)
    # A quarter of an hour at the bus's own names, then nothing but one minute.
    minutes = [*range(15), 42]
    commit(writer, [window(begin_s + 60.0 * minute, cluster="lab", node="n1") for minute in minutes], 1, end_s)
    committed(writer, source(url, store, 3600 / DAY_S).turns(end_s + SETTLED_S))
    rows = ask("SELECT cluster, node, start_s - ? FROM device_window WHERE source IS NOT NULL AND device = 'GPU-1' "
               "ORDER BY 3", begin_s)  # fmt: skip
    assert rows == [("lab", "n1", 300.0 * step) for step in range(12) if step not in (0, 1, 2, 8)]
    assert ask("SELECT count(*) FROM device_window WHERE source IS NULL") == [(16,)]
    assert ask("SELECT since_s, until_s FROM gaps WHERE device = 'GPU-1'") == []


@pytest.mark.e2e
def test_a_bus_that_is_late_takes_the_place_of_what_was_filled_in(
    prometheus: tuple[str, float], store: Store, ask: Ask
):
    url, end_s = prometheus
    begin_s, writer, now_s = end_s - 3600, Writer(store), end_s + SETTLED_S
    committed(writer, source(url, store, 3600 / DAY_S).turns(now_s))
    commit(writer, [window(begin_s + 60.0 * minute) for minute in range(30)], 1, end_s)
    merger = Merger(store, writer, Days(), lambda: now_s + 2 * DAY_S)
    while merger.turn():  # What was filled in stays apart.
        pass
    committed(writer, source(url, store, 3600 / DAY_S).turns(now_s))
    told = "SELECT count(*), sum(length_s) FROM device_window WHERE device = 'GPU-1' AND source IS "
    assert ask(told + "NULL") == [(30, 1800.0)]
    assert ask(told + "NOT NULL") == [(6, 1800.0)]
    assert committed(writer, source(url, store, 3600 / DAY_S).turns(now_s)) == 0


@pytest.mark.e2e
def test_a_stretch_that_is_too_much_is_asked_for_in_parts(
    prometheus: tuple[str, float], store: Store, ask: Ask, monkeypatch: pytest.MonkeyPatch
):
    url, end_s = prometheus
    whole, asked = prometheus_server.ranged, []

    def ranged(address: str, parameters: dict[str, str]) -> bytes:
        points = (float(parameters["end"]) - float(parameters["start"])) / 300.0 + 1
        asked.append(points)
        if points > 3:
            return b'{"status": "error", "error": "query processing would load too many samples into memory"}'
        return whole(address, parameters)

    monkeypatch.setattr(prometheus_server, "ranged", ranged)
    committed(Writer(store), source(url, store, 3600 / DAY_S).turns(end_s + SETTLED_S))
    assert max(asked) == 12
    assert ask("SELECT count(*), count(DISTINCT start_s) FROM device_window WHERE device = 'GPU-1'") == [(12, 12)]


@pytest.mark.long
def test_a_gap_is_what_lies_between_two_rows_of_a_gpu_for_more_than_a_quarter_of_an_hour(store: Store, ask: Ask):
    minutes = [0, 1, 17, 33, 50]
    commit(Writer(store), [window(1.7e9 + 60.0 * minute) for minute in minutes])
    # A long row that reaches over others hides no gap, and fills none behind it.
    commit(Writer(store), [window(1.7e9, device="GPU-9", length_s=1200.0), window(1.7e9 + 60, device="GPU-9"),
                           window(1.7e9 + 1260, device="GPU-9")], 2)  # fmt: skip
    assert ask("SELECT device, since_s - 1.7e9, until_s - 1.7e9, hours FROM gaps") == [
        ("GPU-1", 34 * 60.0, 50 * 60.0, pytest.approx(16 / 60)),
    ]


@contextlib.contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """A server that says one thing."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.long
@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (503, b'{"status": "error", "error": "out \\u001b[31mof order"}', r"out \\u001b\[31mof order"),
        (200, b"<html>", "no answer of a Prometheus"),
        (200, b"", "no answer of a Prometheus"),
        (200, b'{"status": "success", "data": {"result": [{"metric": 7}]}}', "no answer of a Prometheus"),
    ],
)
def test_a_server_that_answers_otherwise_is_told_and_leaves_the_archive_as_it_was(
    store: Store, status: int, body: bytes, words: str
):
    with answering(status, body) as url, pytest.raises(SourceError, match=words):
        list(source(url, store).turns(1.7e9))
    assert store.newest() is None


def test_a_server_that_is_away_is_one_line(store: Store, free_port: Callable[[], int]):
    with pytest.raises(SourceError, match="Connection refused; check the URL") as caught:
        list(source(f"http://127.0.0.1:{free_port()}", store).turns(1.7e9))
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_first_archive_has_nothing_and_is_filled(store: Store, ask: Ask):
    points = [[1.7e9 // 300 * 300 - SETTLED_S // 300 * 300 + 0.0, "1"]]
    series = {"metric": {"UUID": "GPU-7", "Hostname": "n"}, "values": points}
    body = json.dumps({"status": "success", "data": {"result": [series]}}).encode()
    with answering(200, body) as url:
        assert committed(Writer(store), source(url, store, 1 / 288).turns(1.7e9)) == 1
    assert ask("SELECT cluster, node, device, source FROM device_window") == [("c", "n", "GPU-7", "prometheus")]
