"""``paceline archive --prometheus`` as a process that is killed while it fills gaps: every window is there once."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.kafka import embedded
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from tests.archive.test_killed import archive, told
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.bus, pytest.mark.e2e]
HOURS = 20
WINDOWS = "SELECT count(*), count(DISTINCT start_s) FROM device_window WHERE source = 'prometheus'"


def metrics(end_s: float) -> str:
    """So many hours of a GPU, a sample a minute."""
    lines = ["# TYPE DCGM_FI_DEV_GPU_UTIL gauge"]
    for minute in range(HOURS * 60):
        at = end_s - HOURS * 3600 + 60 * minute + 30
        lines.append(f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-1",Hostname="node-1"}} 50 {at}')
    return "\n".join([*lines, "# EOF"]) + "\n"


def _rows(folder: Path) -> int:
    return int(told(folder, WINDOWS)[0][0])


@pytest.mark.exactly_once
def test_killed_while_it_fills_it_goes_on_without_loss_or_repetition(
    tmp_path: Path, new_prometheus: Callable[[str], str], until: Callable[..., Any]
):
    # Long enough ago that all of it is settled, and whole windows.
    end_s = time.time() // 300 * 300 - 3600
    url, folder = new_prometheus(metrics(end_s)), tmp_path / "archive"
    options = ("--prometheus", url, "--prometheus-every", "10s", "--prometheus-days", "1")
    with embedded.start() as broker:
        ensure_topics(BrokerSettings().with_brokers(broker.address))
        for _ in range(2):
            before = _rows(folder)
            with archive(broker.address, folder, *options) as running:
                until(lambda before=before: _rows(folder) > before or before == HOURS * 12)
                running.send_signal(signal.SIGKILL)
        with archive(broker.address, folder, *options) as running:
            until(lambda: _rows(folder) == HOURS * 12)
            running.send_signal(signal.SIGTERM)
            assert running.wait(PATIENCE_S) == 0
    assert told(folder, WINDOWS) == [(HOURS * 12, HOURS * 12)]
