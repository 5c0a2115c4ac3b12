"""Which suggestion speaks for which others: contradictory ones, and several about one trouble.

Rule of this file: one table. The first of two that are about the same job, or the same nodes, stands for the other.
"""

from typing import Literal, NamedTuple


class Precedence(NamedTuple):
    """``stronger`` stands for ``weaker`` where both are about the same job, or the same nodes."""

    stronger: str
    weaker: tuple[str, ...]
    same: Literal["job", "nodes"]
    why: str


PRECEDENCE = (
    Precedence(
        "replace_device",
        ("cordon_node", "fix_cooling", "raise_power_cap"),
        "nodes",
        "replacing a GPU takes its node out of service",
    ),
    Precedence(
        "cordon_node",
        ("inspect_node", "measure_node", "fix_cooling", "raise_power_cap", "move_job", "rebalance"),
        "nodes",
        "a node that is drained needs nothing else",
    ),
    Precedence("inspect_node", ("restart_job",), "nodes", "a job hangs for a node that is gone"),
    Precedence("smaller_batch", ("larger_batch",), "job", "memory decides"),
    Precedence(
        "free_devices", ("consolidate", "larger_batch", "mixed_precision"), "job", "what is idle needs no tuning"
    ),
    Precedence("scale_out", ("consolidate", "free_devices"), "job", "a job that is full needs all of its GPUs"),
    Precedence("consolidate", ("larger_batch", "mixed_precision"), "job", "fewer GPUs are fuller GPUs"),
    Precedence("restart_job", ("inspect_job",), "job", "a job that hangs is not slow"),
    *(
        Precedence(
            cause, ("inspect_job", "consolidate", "larger_batch"), "job", "what is known to hold it back comes first"
        )
        for cause in (
            "rebalance",
            "feed_input",
            "give_cpus",
            "overlap_communication",
            "move_job",
            "tune_host",
            "fix_cooling",
            "raise_power_cap",
            "align_configuration",
        )
    ),
)


#: Action -> those that may stand for it.
STRONGER = {
    weaker: frozenset(row.stronger for row in PRECEDENCE if weaker in row.weaker)
    for weaker in {action for row in PRECEDENCE for action in row.weaker}
}


class About(NamedTuple):
    """An action, the job that it is about, and the nodes."""

    action: str
    job: str
    nodes: frozenset[str]


def speaks_for(one: About, other: About) -> bool:
    """Whether ``one`` stands for ``other``.

    >>> speaks_for(About("cordon_node", "", frozenset("a")), About("fix_cooling", "j", frozenset("a")))
    True
    """
    for row in PRECEDENCE:
        if row.stronger != one.action or other.action not in row.weaker:
            continue
        if row.same == "job" and one.job and one.job == other.job:
            return True
        if row.same == "nodes" and other.nodes and other.nodes <= one.nodes:
            return True
    return False
