"""Cases of clocks: what a mark costs, when device time is on the host's clock, and who waits for whom."""

import statistics

from experiments.gpu.bench import Bench
from experiments.gpu.case import Case, Reading
from experiments.gpu.compared import differences

#: What a mark may cost the thread that trains, and the one that translates and sends it.
RECORD_S, TRANSLATE_S = 8e-6, 10e-6
#: How far the end of a step may be off on the host's clock: where the host waits for the device, and where it does not
#: and marks are asked after five times a second.
WITH_ITEM_S, WITHOUT_S = 0.5e-3, 0.25
WARM_UP = 20


def _marks(bench: Bench) -> Reading:
    truth = bench.watched("marks").truth[0]
    record_us, translate_us = 1e6 * truth["record_s"], 1e6 * truth["translate_s"]
    bound = bench.either(1, 5)
    right = record_us <= bound * RECORD_S * 1e6 and translate_us <= bound * TRANSLATE_S * 1e6
    return Reading(f"{record_us:.1f} us to record, {translate_us:.1f} us to translate and send", right)


def _run_ahead(bench: Bench) -> Reading:
    words, right = [], True
    for item, bound_s in ((1, WITH_ITEM_S), (0, WITHOUT_S)):
        run = bench.watched("run_ahead", f"--item={item}")
        truth = run.truth[0]
        rows = [row for row in run.rows if row.step >= WARM_UP]
        off_s = statistics.median(row.start_s + row.step_s - truth["ended_s"][row.step] for row in rows)
        (length,) = differences(
            [row._replace(phases={"step": row.step_s}) for row in rows],
            truth["steps"],
            {"step": ("step",)},
            range(WARM_UP, len(truth["steps"])),
        )
        words.append(f"{'with' if item else 'without'} .item(): ends {off_s * 1e3:+.2f} ms off, {length.words}")
        right = right and abs(off_s) <= bound_s * bench.either(1, 4) and length.error <= bench.either(0.01, 0.1)
    return Reading("; ".join(words), right)


def _host_bound(bench: Bench) -> Reading:
    shares, own = [], []
    for size in ("tiny", "large"):
        run = bench.watched("kernels", f"--size={size}")
        rows = [row for row in run.rows if row.step >= WARM_UP]
        shares.append(statistics.median(row.phases.get("host_bound", 0.0) / row.step_s for row in rows))
        own.append(run.truth[0]["at_once"])
    words = f"tiny kernels {shares[0]:.0%} (own events: {own[0]:.0%}), large products {shares[1]:.0%} ({own[1]:.0%})"
    return Reading(words, shares[0] > 0.8 and shares[1] < 0.1)


CASES = (
    Case(
        "marks", 30, "under 8 us to record, under 10 us to translate and send", "what a mark costs on a device", _marks
    ),
    Case(
        "run-ahead",
        50,
        "ends off by under 0.5 ms with .item(), under 250 ms without; lengths within 1 %",
        "device time on the host's clock, 300 ms ahead",
        _run_ahead,
    ),
    Case(
        "host-bound",
        45,
        "waits for its host over 80 % of the time with tiny kernels, under 10 % with large products",
        "a device that its host feeds too slowly is recognised",
        _host_bound,
        False,
    ),
)
