"""Back-fill from a real Prometheus, filled with DCGM's metrics by promtool."""

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from shutil import which

import httpx
import numpy as np
import pytest

from forecaster.memory import Memory
from forecaster.prometheus import BackfillError, backfill
from paceline.gpu.dcgm import FP64_BLANK

MINUTES = 180
#: By minute: DCGM's blank, and a number below nothing, which no such metric can be.
NOT_MEASURED = {80: FP64_BLANK, 81: -1}


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
        rows["step"].append(f'paceline_step_seconds{{training_job="resnet"}} 0.5 {at}')
    return "\n".join([lines[0], *rows["used"], lines[1], *rows["util"], lines[2], *rows["step"], "# EOF"]) + "\n"


@pytest.fixture(scope="module")
def prometheus(
    tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int], until: Callable[..., None]
) -> Iterator[tuple[str, float]]:
    """A server's address, and the time up to which it was filled."""
    if which("prometheus") is None:
        pytest.skip("no prometheus here; mend: sudo apt-get install prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    now_s = int(time.time()) // 60 * 60
    (folder / "metrics").write_text(metrics(now_s))
    (folder / "prometheus.yml").write_text("global: {}\n")
    make = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(folder / "metrics"), str(folder / "data")]
    subprocess.run(make, check=True, capture_output=True)
    port = free_port()
    command = [
        "prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=10y",
    ]  # fmt: skip
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stderr=log, stdout=log) as process:
        address = f"http://127.0.0.1:{port}"

        def ready() -> bool:
            assert process.poll() is None, (folder / "log").read_text()[-2000:]
            with contextlib.suppress(httpx.TransportError):
                return httpx.get(f"{address}/-/ready").status_code == 200
            return False

        try:
            until(ready)
            yield address, float(now_s)
        finally:
            process.terminate()


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
    assert np.isnan(busy.values[list(NOT_MEASURED)]).all()
    assert np.nanmax(busy.values) == np.float32(0.5)
    step = memory.find("default/job/resnet/step_s")
    assert step is not None
    assert step.subject.job == "resnet"


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "127.0.0.1:9", "nonsense://x"])
def test_no_prometheus_is_one_line(url: str) -> None:
    """Cause and mend."""
    with pytest.raises(BackfillError, match="Prometheus at") as caught:
        backfill(url, Memory())
    assert "\n" not in str(caught.value)


def test_what_is_no_prometheus_is_said_so(address: str) -> None:
    """Another HTTP server answers something else."""
    with pytest.raises(BackfillError, match="no answer of a Prometheus"):
        backfill(address, Memory())
