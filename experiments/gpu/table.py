"""Every case, in the order in which they run: what may do harm first, then what is told, then what it costs."""

from experiments.gpu import clocks, driver, exchanges, faults, hangs, harmless, phases, tracing
from experiments.gpu.case import Case

CASES: tuple[Case, ...] = (
    *driver.CASES,
    *harmless.CASES,
    *exchanges.CASES,
    *clocks.CASES,
    *phases.CASES,
    *faults.CASES,
    *tracing.CASES,
    *hangs.CASES,
)
#: Its outcome decides what the cases of two ranks talk through.
TWO_RANKS = "two-ranks"
