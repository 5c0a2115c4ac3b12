"""Cases of faults: four ranks share the device, one of them turns slow, and the verdict names it and says why."""

import contextlib
from functools import partial

from experiments.gpu.bench import Bench
from experiments.gpu.case import Case, Reading
from experiments.gpu.nvidia import REASONS, asked_again, clock_reasons
from experiments.gpu.scripts.faulty import BEGIN, STEPS

RANKS, SLOW = 4, 2


def _named(bench: Bench, fault: str, cause: str) -> Reading:
    with contextlib.ExitStack() as around:
        reasons = around.enter_context(asked_again(REASONS)) if bench.on_gpu else []
        run = bench.watched("faulty", f"--fault={fault}", f"--rank={SLOW}", ranks=RANKS)
    findings = [finding for finding in bench.findings(run) if finding["kind"] != "insufficient_data"]
    accused = {rank for finding in findings for rank in finding["ranks"]}
    confirmed = [finding for finding in findings if finding["state"] == "confirmed"]
    said = confirmed[-1]["summary"] if confirmed else f"nothing confirmed in {len(run.rows)} of {RANKS * STEPS} steps"
    right = accused == {SLOW} and {finding["cause"] for finding in confirmed} == {cause}
    on_time = all(BEGIN - 5 <= finding["first_step"] <= BEGIN + 20 for finding in confirmed)
    clocks = f"; {clock_reasons(reasons)}" if reasons else ""
    return Reading(said + clocks, right and on_time)


def _case(fault: str, cause: str, proves: str, *, on_cpu: bool) -> Case:
    predicted = f"rank {SLOW} alone is named, {cause}"
    return Case(f"fault-{fault}", 60, predicted, proves, partial(_named, fault=fault, cause=cause), on_cpu)


CASES = (
    _case("compute", "worker_compute", "a rank that computes more, in device time", on_cpu=True),
    _case("input", "input_pipeline", "a rank whose batches come late", on_cpu=True),
    _case("host", "host_bound", "a rank whose Python keeps its device waiting; the device is cleared", on_cpu=False),
    _case(
        "throttle",
        "worker_compute",
        "a rank whose device is slow with nothing more to do; clock reasons are read, never set",
        on_cpu=False,
    ),
)
