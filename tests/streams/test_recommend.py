"""What a real Prometheus' history of GPUs suggests, by the command that people use."""

import contextlib
import http.server
import json
import subprocess
import sys
import threading
import time

import pytest

from paceline.prometheus import MOST_BYTES, PrometheusError
from streams import recommend

MINUTES = 180
GPUS = {"GPU-a": ("idle", 3), "GPU-b": ("idle", 4), "GPU-c": ("busy", 99), "GPU-d": ("", 0)}


def metrics(now_s):
    """Three hours of four GPUs: two of a job that hardly uses them, one of a training job, one of nobody."""
    lines = {name: [f"# TYPE {name} gauge"] for name in ("DCGM_FI_DEV_GPU_UTIL", "paceline_steps_per_second")}
    for device, (job, busy) in GPUS.items():
        owner = f',hpc_job="{job}"' if job else ""
        for minute in range(MINUTES):
            at = now_s - (MINUTES - minute) * 60 + 30
            lines["DCGM_FI_DEV_GPU_UTIL"].append(
                f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="{device}",Hostname="n1"{owner}}} {busy} {at}'
            )
    for minute in range(MINUTES):
        at = now_s - (MINUTES - minute) * 60 + 30
        lines["paceline_steps_per_second"].append(f'paceline_steps_per_second{{training_job="busy"}} 2 {at}')
    return "\n".join(line for held in lines.values() for line in held) + "\n# EOF\n"


def run(url, *words):
    command = [sys.executable, "-W", "ignore", "-m", "paceline", "suggestions", "--prometheus", url, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def prometheus(new_prometheus):
    return new_prometheus(metrics(int(time.time()) // 60 * 60))


@pytest.mark.e2e
def test_idle_gpus_are_found_in_history_and_busy_training_is_left_alone(prometheus):
    """One suggestion, with the numbers it rests on; no broker is asked."""
    done = run(prometheus, "--days", "1", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    (suggestion,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (suggestion["action"], suggestion["target"], suggestion["state"]) == ("consolidate", "job:idle", "new")
    assert suggestion["devices"] == ["GPU-a", "GPU-b"]
    assert suggestion["gain"]["gpu_hours_per_day"] > 0
    shown = run(prometheus, "--days", "0.1")
    assert shown.stdout.startswith(f"{suggestion['id'].split('-')[0]}-")
    assert "device-hours a day" in shown.stdout


@pytest.mark.e2e
def test_a_threshold_that_is_set_counts(prometheus, monkeypatch):
    """As for the workers."""
    monkeypatch.setenv("PACELINE_ADVICE", "low_use=0.01,idle_share=1")
    assert recommend.from_prometheus(prometheus, 1.0, time.time(), lambda words: None) == []
    monkeypatch.setenv("PACELINE_ADVICE", "low_use=7")
    done = run(prometheus)
    assert (done.returncode, done.stdout) == (2, "")
    assert "low_use=7: not between 0 and 0.9" in done.stderr


@pytest.mark.e2e
def test_a_history_without_gpus_is_said_so(prometheus):
    """A time in which nothing was scraped."""
    with pytest.raises(PrometheusError, match="no dcgm-exporter's GPUs in the last 1 days"):
        recommend.from_prometheus(prometheus, 1.0, time.time() - 10 * 86_400, lambda words: None)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:1", "Connection refused"),
        ("127.0.0.1:9090", "an address begins with http"),
        ("file:///etc/passwd", "an address begins with http"),
        ("http://127.0.0.1:1 /x", "check the URL"),
        ("http://[", "check the URL"),
    ],
)
def test_no_prometheus_is_one_line(url, said):
    """Cause and mend."""
    with pytest.raises(PrometheusError, match=said) as told:
        recommend.from_prometheus(url, 1.0, 1e9, lambda words: None)
    assert "\n" not in str(told.value)


ANSWERS = {
    "another page": (200, b"<html>", "no answer of a Prometheus"),
    "a refusal": (422, b'{"status": "error", "error": "too many \\u001b[31mpoints"}', r"too many \\u001b\[31mpoints"),
    "an empty error": (503, b"", "no answer of a Prometheus"),
    "too much": (200, b" " * (MOST_BYTES + 1), f"more than {MOST_BYTES:,} bytes"),
}


@pytest.mark.long
@pytest.mark.parametrize(("status", "content", "said"), ANSWERS.values(), ids=ANSWERS.keys())
def test_what_is_no_prometheus_is_said_so(status, content, said):
    """Whatever it answers; no more of it is read than there is room for."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(content)

        def log_message(self, *words):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with pytest.raises(PrometheusError, match=said):
                recommend.from_prometheus(f"http://127.0.0.1:{server.server_address[1]}", 1.0, 1e9, lambda words: None)
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("days", ["0", "400", "many"])
def test_days_out_of_bounds_are_status_2(days):
    """Before anybody is asked."""
    done = run("http://127.0.0.1:1", "--days", days)
    assert done.returncode == 2
    assert "allowed: 1/24 (0.0417) to 365" in done.stderr
