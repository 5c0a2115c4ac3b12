"""A fault to inject: what, where, how large, from when to when; read from ``KIND:rank=2,size=0.3,from=100,to=200``.

Rule of this file: data and its text form.
"""

from dataclasses import dataclass

from paceline.events import Cause, FindingKind
from paceline.gpu import throttle

#: What each kind of fault should be found as.
EXPECTED: dict[str, tuple[FindingKind, Cause]] = {
    "compute": ("straggler", "worker_compute"),
    "throttle": ("straggler", "throttling"),
    "input": ("straggler", "input_pipeline"),
    "gc": ("straggler", "garbage_collection"),
    "cpu": ("straggler", "cpu_contention"),
    "host": ("straggler", "host_bound"),
    "memory": ("straggler", "memory_pressure"),
    "link": ("straggler", "link"),
    "hang": ("hang", "unknown"),
    "slowdown": ("slowdown", "unknown"),
    "silent": ("node_silent", "unknown"),
}
#: NVML's clock-event reasons, by the word that asks for them.
REASONS = {
    "thermal": throttle.SOFTWARE_THERMAL.bit | throttle.HARDWARE_THERMAL.bit,
    "power": throttle.POWER_CAP.bit,
    "brake": throttle.POWER_BRAKE.bit,
    "hardware": throttle.HARDWARE_SLOWDOWN.bit,
}
#: Faults of the job, and of nodes.
_OF_NO_RANK = ("slowdown", "silent")
#: How long a hanging job goes on saying where it stands.
HANG_S = 60.0


class FaultError(ValueError):
    """A fault that cannot be read: why, on one line."""


@dataclass(frozen=True)
class Fault:
    """``kind`` on ``ranks`` during steps ``first`` to ``last``, in every ``every``-th of them.

    ``size``: by how much the own work of the rank takes longer in a step that is hit, 0.3 for 30 %; for a link, how
    much longer everybody's communication takes, as a share of the same work. Of ``nodes`` and ``switches`` it hits all
    ranks. Nodes that are ``silent`` train on and tell nothing.
    """

    kind: str
    ranks: tuple[int, ...] = ()
    size: float = 0.3
    first: int = 0
    last: int = 2**40
    every: int = 1
    reason: str = "thermal"
    seconds: float = HANG_S
    nodes: tuple[int, ...] = ()
    switches: tuple[int, ...] = ()

    def hits(self, step: int) -> bool:
        """Whether ``step`` is one of those hit."""
        return self.first <= step <= self.last and (step - self.first) % self.every == 0


def parse(text: str) -> Fault:
    """The fault that ``text`` writes.

    >>> parse("compute:rank=2,size=0.3,from=100,to=200") == Fault("compute", (2,), 0.3, 100, 200)
    True
    >>> parse("silent:node=1+3").nodes
    (1, 3)

    Raises:
        FaultError: it writes none.
    """
    kind, _, rest = text.partition(":")
    if kind not in EXPECTED:
        raise FaultError(f"{text!r}: no kind {kind!r}; there are {', '.join(EXPECTED)}")
    values = dict(_pair(text, part) for part in rest.split(",") if part)
    try:
        fault = Fault(
            kind,
            _ranks(values.pop("rank", "" if {"node", "switch"} & values.keys() or kind in _OF_NO_RANK else "0")),
            float(values.pop("size", "0.3")),
            int(values.pop("from", "0")),
            int(values.pop("to", str(2**40))),
            int(values.pop("every", "1")),
            values.pop("reason", "thermal"),
            float(values.pop("seconds", str(HANG_S))),
            _ranks(values.pop("node", "")),
            _ranks(values.pop("switch", "")),
        )
    except ValueError as error:
        raise FaultError(f"{text!r}: {error}") from error
    if values:
        there = "rank, node, switch, size, from, to, every, reason, seconds"
        raise FaultError(f"{text!r}: unknown {', '.join(values)}; there are {there}")
    _check(text, fault)
    return fault


def _pair(text: str, part: str) -> tuple[str, str]:
    name, equals, value = part.partition("=")
    if not equals:
        raise FaultError(f"{text!r}: {part!r} is not name=value")
    return name.strip(), value.strip()


def _ranks(text: str) -> tuple[int, ...]:
    """``3``, ``8-15`` or ``3+9``."""
    ranks: list[int] = []
    for part in text.split("+") if text else []:
        low, _, high = part.partition("-")
        ranks += range(int(low), int(high or low) + 1)
    return tuple(ranks)


def _check(text: str, fault: Fault) -> None:
    if not 0 < fault.size < 1000:
        raise FaultError(f"{text!r}: size is a share of the rank's own work, 0.3 for 30 % more")
    if fault.first < 0 or fault.last < fault.first or fault.every < 1:
        raise FaultError(f"{text!r}: steps run from 0, 'to' is not before 'from', and 'every' is 1 or more")
    if fault.reason not in REASONS:
        raise FaultError(f"{text!r}: no reason {fault.reason!r}; there are {', '.join(REASONS)}")
    if fault.kind == "silent" and not (fault.nodes or fault.switches):
        raise FaultError(f"{text!r}: which node?")
    if not (fault.ranks or fault.nodes or fault.switches or fault.kind in _OF_NO_RANK):
        raise FaultError(f"{text!r}: which rank?")
