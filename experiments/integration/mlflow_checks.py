"""MLflow: a real server, a real training run, and what its own client reads back."""

import json
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from experiments.integration.check import SCRIPTS, Check, expect, slow_rank, tracked
from experiments.integration.mlflow_server import MlflowServer

LINE = "MLflow has all"


def _client(server: MlflowServer) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(server.address)


def _history(client: Any, run: str, metric: str) -> list[Any]:
    return sorted(client.get_metric_history(run, metric), key=lambda point: point.timestamp)


def one_run(folder: Path) -> str:
    """A slow rank, in the script's own run: points, the finding, the summary; and the run is as the script left it."""
    with MlflowServer(folder) as server:
        said = tracked(folder, ["--track", "auto"], slow_rank("mlflow", 40.0), {"MLFLOW_TRACKING_URI": server.address})
        client = _client(server)
        (run,) = client.search_runs(["0"])
        points = _history(client, run.info.run_id, "paceline/step_s")
        losses = _history(client, run.info.run_id, "loss")
        summary = Path(client.download_artifacts(run.info.run_id, "paceline/summary.txt", str(folder))).read_text()
    steps = [point.step for point in points]
    apart = [later.timestamp - one.timestamp for one, later in pairwise(points)]
    expect(LINE in said, f"the end did not say {LINE!r}: {said[-300:]}")
    expect(run.info.run_name == "theirs" and run.info.status == "FINISHED", f"the run is {run.info}")
    expect(len(steps) >= 10 and steps == sorted(set(steps)), f"points at steps {steps}")
    expect(min(apart[:-1]) >= 900, f"points {min(apart[:-1])} ms apart")
    expect([loss.step for loss in losses] == list(range(0, 5 * len(losses), 5)), "the script's own steps have moved")
    expect({"paceline/wait_s", "paceline/phase/forward_s"} <= set(run.data.metrics), f"only {set(run.data.metrics)}")
    expect(run.data.metrics["paceline/findings"] >= 1, "no finding was counted")
    expect("Rank 1" in run.data.tags["paceline.findings"], f"tags: {run.data.tags}")
    expect("rank 1" in summary, f"summary: {summary}")
    return f"{len(points)} points up to step {steps[-1]}; {run.data.tags['paceline.findings']}"


def several_runs(folder: Path) -> str:
    """Runs after each other and one inside another: a point is in the run that was open, and in no other."""
    with MlflowServer(folder) as server:
        tracked(
            folder,
            ["--track", "mlflow", "--no-panel"],
            [str(SCRIPTS / "several_runs.py")],
            {"MLFLOW_TRACKING_URI": server.address},
        )
        line = next(line for line in (folder / "said").read_text().splitlines() if line.startswith('{"runs"'))
        told, client = json.loads(line), _client(server)
        points = {
            name: [point.step for point in _history(client, run, "paceline/step_s")]
            for name, run in told["runs"].items()
        }
    slack = 40  # A point is of the second before it, and what is open is looked for twice a second.
    told["steps"]["outer"][1] = told["steps"]["inner"][1]  # It is open until then, and the inner run in its place.
    for name, steps in points.items():
        begin, end = told["steps"][name]
        expect(bool(steps), f"no points in {name}")
        wrong = [step for step in steps if not begin - slack <= step <= end + slack]
        expect(not wrong, f"points of steps {wrong} are in {name}, which was open from {begin} to {end}")
    return ", ".join(f"{name}: {len(steps)} points" for name, steps in points.items())


def server_away(folder: Path) -> str:
    """The server goes away in the middle of the run and comes back: training goes on, and nothing is missing."""
    server = MlflowServer(folder)
    server.start()
    went: list[float] = []

    def away() -> None:
        client = _client(server)
        while not any("paceline/step_s" in run.data.metrics for run in client.search_runs(["0"])):
            time.sleep(0.5)
        server.stop()
        went.append(time.time())
        time.sleep(8.0)
        server.start()
        went.append(time.time())

    other = threading.Thread(target=away)
    other.start()
    try:
        script = str(SCRIPTS / "one_run.py")
        said = tracked(folder, ["--track", "mlflow"], [script, "60"], {"MLFLOW_TRACKING_URI": server.address})
        other.join()
        client = _client(server)
        (run,) = client.search_runs(["0"])
        times = [point.timestamp / 1000 for point in _history(client, run.info.run_id, "paceline/step_s")]
    finally:
        server.stop()
    meanwhile = [one for one in times if went[0] <= one <= went[1]]
    expect(LINE in said, f"the end did not say {LINE!r}: {said[-300:]}")
    expect(len(meanwhile) >= 5, f"only {len(meanwhile)} points of the {went[1] - went[0]:.0f} s without a server")
    return f"{len(meanwhile)} of {len(times)} points are of the {went[1] - went[0]:.0f} s without a server"


def run_from_outside(folder: Path) -> str:
    """A script that never heard of MLflow, in a run that a launcher has opened (MLFLOW_RUN_ID)."""
    with MlflowServer(folder) as server:
        client = _client(server)
        run = client.create_run("0").info.run_id
        environ = {"MLFLOW_TRACKING_URI": server.address, "MLFLOW_RUN_ID": run}
        tracked(folder, ["--track", "mlflow"], [str(SCRIPTS / "one_run.py"), "15", "none"], environ)
        points = _history(client, run, "paceline/step_s")
        status = client.get_run(run).info.status
    expect(len(points) >= 5, f"{len(points)} points")
    expect(status == "RUNNING", f"its launcher's run is {status}")
    return f"{len(points)} points; the run is still its launcher's to close"


def report_attached(folder: Path) -> str:
    """The report of the recording, where that command is installed."""
    from importlib.metadata import entry_points

    if not entry_points(group="paceline.commands", name="report"):
        return "no command report is installed here: nothing to attach, and nothing was"
    with MlflowServer(folder) as server:
        environ = {"MLFLOW_TRACKING_URI": server.address}
        options = ["--track", "mlflow", "--record", "run.jsonl.gz"]
        said = tracked(folder, options, [str(SCRIPTS / "one_run.py"), "15"], environ)
        client = _client(server)
        (run,) = client.search_runs(["0"])
        names = [file.path for file in client.list_artifacts(run.info.run_id, "paceline")]
    expect("paceline/report.html" in names, f"artifacts {names}: {said[-300:]}")
    return ", ".join(names)


CHECKS = (
    Check("mlflow", one_run),
    Check("mlflow-several-runs", several_runs),
    Check("mlflow-server-away", server_away),
    Check("mlflow-run-from-outside", run_from_outside),
    Check("mlflow-report", report_attached),
)
