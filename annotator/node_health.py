"""The condition ``PacelineHealthy`` of a node, where asked for: False while a finding accuses it, Unknown in silence.

Rule of this file: pure. A condition changes with a finding that stands, not with its numbers; a finding that is only
worth knowing (``info``) does not count. A finding that stands counts although nothing more is heard.
"""

from typing import Any, NamedTuple

from .documents import moment
from .happenings import note, reason
from .plan import Health

TYPE = "PacelineHealthy"


class State(NamedTuple):
    """A condition without its times."""

    status: str
    reason: str
    message: str


HEALTHY = State("True", "NoFinding", "No finding accuses this node.")
SILENT = State("Unknown", "NotHeard", "No data from this node for some minutes.")


def state(health: Health) -> State:
    """How a node is."""
    verdict = health.worst
    if verdict is None or verdict.alert.severity == "info":
        return SILENT if health.silent else HEALTHY
    return State("False", reason(verdict.alert.kind), note(verdict, "found"))


def condition(now: State, held: dict[str, Any] | None, now_s: float) -> dict[str, Any] | None:
    """What to write where ``held`` is there; None where it says so already."""
    if held is not None and all(held.get(name) == value for name, value in now._asdict().items()):
        return None
    since = held.get("lastTransitionTime") if held is not None and held.get("status") == now.status else None
    times = {"lastHeartbeatTime": moment(now_s), "lastTransitionTime": since or moment(now_s)}
    return {"type": TYPE, **now._asdict(), **times}
