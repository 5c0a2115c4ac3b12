"""A job that torchrun starts again after a rank has failed: two attempts of one job, each with its own steps."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from experiments.analyzed import findings_in
from paceline import columns, recording, wire
from paceline.events import JobDescribed, StepTimings
from paceline.topics import BY_NAME, JOB, OP
from streams.ingest.step_rows import step_rows

SCRIPT = Path(__file__).parent / "scripts" / "restarting.py"
APART = SCRIPT.with_name("restarting_apart.py")
PACELINE = [sys.executable, "-m", "paceline"]
TORCHRUN = [
    sys.executable,
    "-m",
    "torch.distributed.run",
    "--standalone",
    "--nproc-per-node",
    "2",
    "--max-restarts",
    "3",
]

#: How long a step takes, and when one attempt begins after the other, in the recording that is judged.
STEP_S, ATTEMPTS_S = 0.1, 60.0

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]


def paced(kept: Path) -> Path:
    """A recording as it is, but that every step took as long as the others, wherever the machine stood still.

    What is left is what a restart makes of it: attempts, ranks that end in the middle, steps that come once more.
    """
    even, began_s = kept.with_name("paced.jsonl"), 0.0
    with even.open("wb") as out:
        for line in recording.read(str(kept)):
            assert isinstance(line, recording.Line)
            value = line.value
            if line.topic == OP.name:
                event = wire.decode(BY_NAME[line.topic], line.value)
                assert isinstance(event, StepTimings)
                began_s = began_s or event.t0_s
                steps = [int(step) for step in columns.numbers(event.step)]
                value = wire.encode(
                    msgspec.structs.replace(
                        event,
                        t0_s=began_s + ATTEMPTS_S * event.attempt,
                        start_s=columns.offsets([STEP_S * step for step in steps]),
                        step_s=columns.durations([STEP_S] * len(steps)),
                        phases={
                            name: columns.durations([STEP_S * (name == "forward")] * len(steps))
                            for name in event.phases
                        },
                        **dict.fromkeys(("conditions", "collectives", "links", "now_s", "facts")),
                        open=[],
                    )
                )
            out.write(recording.render(line.topic, line.key, line.timestamp_ms, value))
    return even


def test_an_attempt_begins_with_each_restart(tmp_path: Path) -> None:
    """The ranks that are started again are another attempt of the same job, and only the one that failed is named.

    Whoever is slow in a real run is the machine's affair: judged is the run with even steps.
    """
    kept = tmp_path / "run.jsonl"
    run = [*PACELINE, "run", "--no-panel", "--job", "again", "--record", str(kept), "--"]
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*run, *TORCHRUN, str(SCRIPT), str(tmp_path)], check=True, env=environ, timeout=500)
    told: dict[int, list[StepTimings]] = {}
    for line in recording.read(str(kept)):
        if isinstance(line, recording.Line) and line.topic == OP.name:
            event = wire.decode(BY_NAME[line.topic], line.value)
            assert isinstance(event, StepTimings)
            assert event.job == "again"
            told.setdefault(event.attempt, []).append(event)
    rows = {attempt: step_rows(messages) for attempt, messages in told.items()}
    steps = {attempt: {rank: int((rows[attempt].rank == rank).sum()) for rank in (0, 1)} for attempt in sorted(rows)}
    # Gloo may fail to connect at a restart, on a busy machine; then there is another one, which may have told of it.
    first, *between, last = steps
    assert (first, last >= 1) == (0, True)
    assert not any(sum(steps[attempt].values()) for attempt in between)
    assert steps[last] == {0: 30, 1: 30}
    # The other one is killed by torchrun, with what it had not handed over yet.
    assert 14 <= steps[0][1] <= 16
    assert steps[0][0] <= 16
    findings = findings_in(paced(kept))
    named = {(finding["kind"], finding["attempt"], *finding["ranks"]) for finding in findings if finding["ranks"]}
    assert named == {("died", 0, 1)}


def test_nodes_whose_agents_count_apart_are_one_attempt(tmp_path: Path, free_port: Callable[[], int]) -> None:
    """Two agents, of which one counts a restart of its rank and the other does not: both name the same attempt."""
    port, started = free_port(), list[subprocess.Popen[bytes]]()
    for node in ("a", "b"):
        kept, told = tmp_path / f"{node}.jsonl", tmp_path / f"{node}.log"
        run = [*PACELINE, "run", "--no-panel", "--job", "apart", "--record", str(kept), "--", *TORCHRUN[:3]]
        agent = ["--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", "3", "--rdzv-backend", "c10d"]
        meet = ["--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "apart", str(APART), str(tmp_path)]
        # Each run a store of its own: in the agents' the run after would read where ranks of the one before listened.
        own = {"PACELINE_NODE": node, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        environ = {**os.environ, "OMP_NUM_THREADS": "1", **own}
        with told.open("wb") as log:
            started.append(subprocess.Popen([*run, *agent, *meet], env=environ, stderr=log, stdout=log))
    try:
        statuses = [one.wait(500) for one in started]
    finally:
        for one in started:
            one.kill()
            one.wait()
    assert statuses == [0, 0], [(tmp_path / f"{node}.log").read_text()[-3000:] for node in ("a", "b")]
    described: dict[str, set[tuple[int, int]]] = {}
    for node in ("a", "b"):
        for line in recording.read(str(tmp_path / f"{node}.jsonl")):
            if isinstance(line, recording.Line) and line.topic == JOB.name:
                event = wire.decode(BY_NAME[line.topic], line.value)
                assert isinstance(event, JobDescribed)
                described.setdefault(node, set()).add((event.attempt, event.places[0].pid))
    attempts = {node: sorted(attempt for attempt, _ in processes) for node, processes in described.items()}
    assert attempts == {"a": [0, 1], "b": [0, 1]}
