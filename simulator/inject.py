"""What a fault does to the work of its ranks.

Rule of this file: a fault changes what it is named for and nothing else; whoever waits because of it follows from the
timeline, not from here. Randomness is the fault's own, so the healthy draws stay as they are.
"""

import numpy as np

from .fault import Fault
from .spec import Spec
from .work import Array, Work

#: Spread of log size from step to step: contention and swapping come and go.
_JITTER = {"cpu": 0.3, "memory": 0.5, "input": 0.3, "gc": 0.1, "link": 0.2}


def inject(work: Work, fault: Fault, first: int, spec: Spec) -> None:
    """Change ``work``, whose first step is step ``first``, as ``fault`` does."""
    if fault.kind == "host":  # told of every rank: the others' devices wait for no more than their data
        work.host_bound = np.maximum(work.host_bound, work.data)
    hit = np.flatnonzero([fault.hits(first + i) for i in range(work.data.shape[0])])
    if not hit.size or fault.kind in ("hang", "silent"):
        return
    random = np.random.default_rng([spec.seed, first, *fault.ranks[:8], sum(map(ord, fault.kind))])
    ranks = np.array(fault.ranks or range(spec.ranks))
    cells = np.ix_(hit, ranks)
    jitter = _JITTER.get(fault.kind, 0.02)
    extra = fault.size * spec.own_s * np.exp(jitter * random.standard_normal((hit.size, ranks.size)) - jitter**2 / 2)
    if fault.kind == "input":
        work.data[cells] += extra
    elif fault.kind == "gc":
        work.gc[cells] += extra
        _lengthen(work, cells, extra)
    elif fault.kind == "link":
        work.link[cells] += extra
    else:
        _lengthen(work, cells, extra)
        if fault.kind == "cpu":
            work.cpu_wait[cells] += 0.9 * extra
        elif fault.kind == "host":
            computing = work.forward[cells].sum(axis=(2, 3)) + work.backward[cells].sum(axis=(2, 3))
            work.host_bound[cells] += computing + work.optimizer[cells]


def _lengthen(work: Work, cells: tuple[np.ndarray, ...], extra: Array) -> None:
    """Add ``extra`` seconds to the compute of the cells, each op in proportion."""
    forward, backward = work.forward[cells], work.backward[cells]
    factor = 1 + extra / (forward.sum(axis=(2, 3)) + backward.sum(axis=(2, 3)))
    work.forward[cells] = forward * factor[..., None, None]
    work.backward[cells] = backward * factor[..., None, None]
