"""What a real worker's ``/metrics`` tells of a real job: clean, bounded, and the same after it was killed."""

import signal
import uuid
from urllib.request import urlopen

import pytest

from paceline.meters import label
from tests.derived_events import HOSTILE
from tests.patience import PATIENCE_S
from tests.streams.real_workers import metric, ready

pytestmark = pytest.mark.e2e


def written(name):
    """A label as Prometheus' text has it."""
    return label(name).replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def test_a_job_in_numbers(workers, make_training, until, free_port, promtool):
    """Steps, slow ranks and the open finding of a job with a hostile name; a worker that takes over tells them too."""
    job = f"{HOSTILE}{'x' * 300}{uuid.uuid4().hex}"
    events = make_training(job=job, slow=2, seconds=40)
    early, late = events[: len(events) * 3 // 4], events[len(events) * 3 // 4 :]
    of_job = f'training_job="{written(job)}"'

    def told(port):
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
            return answer.read().decode()

    def shown(port, name):
        return [line for line in told(port).split("\n") if line.startswith(f"{name}{{") and of_job in line]

    first, second = free_port(), free_port()
    worker = workers.start("--web-port", str(first))
    until(lambda: ready(first))
    workers.produce(early)
    until(lambda: shown(first, "paceline_findings") and shown(first, "paceline_rank_own_seconds"))
    promtool(told(first))
    (count,) = shown(first, "paceline_step_time_seconds_count")
    assert float(count.rpartition(" ")[2]) > 10
    assert 'rank="2"' in "".join(shown(first, "paceline_rank_own_seconds"))
    assert shown(first, "paceline_phase_seconds")
    assert shown(first, "paceline_lateness_seconds_bucket")
    (lost,) = shown(first, "paceline_lost_seconds")
    assert float(lost.rpartition(" ")[2]) > 0
    finding = shown(first, "paceline_findings")
    until(lambda: metric(first, "paceline_streams_checkpoint_age_seconds", 9.0) == 0.0)

    worker.send_signal(signal.SIGKILL)
    worker.wait()
    workers.start("--web-port", str(second))
    until(lambda: ready(second))
    workers.produce(late[:2])
    until(lambda: shown(second, "paceline_findings"))
    assert shown(second, "paceline_findings") == finding
    workers.produce(late[2:])
    until(lambda: shown(second, "paceline_step_time_seconds_count"))
    promtool(told(second))
