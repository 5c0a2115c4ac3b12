"""One point of growth in a process of its own: so many jobs of so many ranks, told to the worker's own processor.

python -m experiments.growth.states JOBS RANKS STEP_S SECONDS

Rule of this file: neither broker nor Faust. Memory is that of the process less what it held before the first message,
with everything imported; processor time is from the bytes of a message to the bytes of its answers.
"""

import gc
import gzip
import json
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from paceline import topics, wire
from streams.open_states import CHECKPOINT_S, SNAPSHOT_SHARE
from streams.processor import Processor

from ..kernel_counters import memory_bytes, memory_peak_bytes
from ..processes import ROOT, RunError
from ..throughput.jobs import Load
from .feed import fed

#: Snapshots that are timed, and how often each.
MOST_TIMED, TIMES = 50, 3
#: Messages whose compression is tried: the first of a load are as the others.
MOST_PACKED = 500
#: What a message costs a partition beside its own bytes, where a node's sidecar sends it alone: a batch of one record.
BATCH_BYTES = 61 + 12


def measured(load: Load, messages: Iterable[bytes]) -> dict[str, Any]:
    """What ``messages``, those of ``load``, cost."""
    gc.collect()
    before, processor = memory_bytes(), Processor()
    answers: dict[str, int] = defaultdict(int)
    used_s, plain, packed = 0.0, 0, [0, 0]
    for number, data in enumerate(messages):
        began_s = time.process_time()
        for topic, answer in processor.update(topics.OP, wire.decode(topics.OP, data)):
            answers[topic.short] += len(wire.encode(answer)) + BATCH_BYTES
        used_s += time.process_time() - began_s
        plain += len(data) + BATCH_BYTES
        if number < MOST_PACKED:
            packed[0] += len(data) + BATCH_BYTES
            packed[1] += len(gzip.compress(data)) + BATCH_BYTES
    gc.collect()
    held = memory_bytes() - before
    rank_steps = load.jobs * load.ranks * load.steps
    return {
        "jobs": load.jobs,
        "ranks": load.ranks,
        "step_s": load.step_s,
        "seconds": load.seconds,
        "before_bytes": before,
        "held_bytes": held,
        "peak_bytes": memory_peak_bytes() - before,
        "us_a_rank_step": 1e6 * used_s / rank_steps,
        "bytes_a_rank_step": plain / rank_steps,
        "packed_bytes_a_rank_step": plain / rank_steps * packed[1] / packed[0],
        "answer_bytes_a_rank_s": {
            name: size / (load.jobs * load.ranks * load.seconds) for name, size in answers.items()
        },
        **_snapshots(processor, load.jobs),
    }


def _snapshots(processor: Processor, jobs: int) -> dict[str, float]:
    sizes, made_s, restored_s = [], [], []
    for key in list(processor.states)[:MOST_TIMED]:
        data = processor.snapshot(key)
        fresh = Processor()
        sizes.append(len(data))
        made_s.append(_median_s(partial(processor.snapshot, key)))
        restored_s.append(_median_s(partial(fresh.restore, key, data)))
    size, make_s = statistics.mean(sizes), statistics.mean(made_s)
    return {
        "snapshot_bytes": size * jobs,
        "snapshot_s": make_s * jobs,
        "restore_s": statistics.mean(restored_s) * jobs,
        "stored_bytes_a_s": size * jobs / max(CHECKPOINT_S, SNAPSHOT_SHARE * make_s),
    }


def _median_s(what: Callable[[], object]) -> float:
    took = []
    for _ in range(TIMES):
        began_s = time.process_time()
        what()
        took.append(time.process_time() - began_s)
    return statistics.median(took)


def alone(load: Load) -> dict[str, Any]:
    """The point of ``load``, in a process of its own."""
    numbers = [str(number) for number in (load.jobs, load.ranks, load.step_s, load.seconds)]
    command = [sys.executable, "-m", "experiments.growth.states", *numbers]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RunError(f"{load.jobs} jobs of {load.ranks} ranks: ended with status {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    jobs, ranks, step_s, seconds = sys.argv[1:]
    load = Load("growth", int(jobs), int(ranks), float(step_s), int(seconds))
    print(json.dumps(measured(load, fed(load))))


if __name__ == "__main__":
    main()
