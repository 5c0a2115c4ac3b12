"""``--dry-run``: what would be written, as lines of JSON on standard output.

Rule of this file: it asks for nothing and writes nothing to the API. What it has printed counts as written, so that
each change is printed once.
"""

import json
import threading
from collections.abc import Mapping
from typing import Any

from paceline.visible import visible

from .budget import Outcome
from .documents import PROPOSAL
from .happenings import Happening
from .kube_objects import Known, KubeObjects, Ref
from .node_health import HEALTHY, State, condition, state
from .owners import Owners
from .plan import Health, Want
from .steady import read
from .writer import merged, patch


class DryRun:
    """Prints in place of writing, asks for no Event and changes no condition."""

    def __init__(self, objects: KubeObjects, owners: Owners, lock: threading.Lock) -> None:
        self._objects, self._owners, self._lock = objects, owners, lock

    def write(self, want: Want, now_s: float) -> Outcome:
        """Print it."""
        with self._lock:
            held = self._held(want.ref)
            if held is None:
                return "gone"
            changes = merged(want, held, now_s)
            annotations = {**held.annotations, **changes}
            kept = {key: text for key, text in annotations.items() if text is not None}
            for store in (self._objects, self._owners):
                store.wrote(want.ref, kept)
        if changes:
            _print(want.ref, patch(want.ref, changes))
        proposed = read(changes.get(PROPOSAL) or "null")
        if isinstance(proposed, dict):
            _say("proposal", want.ref, {"command": proposed.get("command"), "reason": proposed.get("reason")})
        return "written"

    def tell(self, happening: Happening, now_s: float) -> None:
        """Print an Event that would be told; one that goes on is no news."""
        if happening.times == 1:
            print(json.dumps({"event": happening.body}), flush=True)

    def condition(self, ref: Ref, condition: dict[str, Any]) -> None:
        """Print a node's condition."""
        _say("condition", ref, condition)

    def _held(self, ref: Ref) -> Known | None:
        if ref.kind == "Node" and ref.api_version == "v1":
            return self._objects.nodes.get(ref.name)
        return self._objects.pods.get(ref.uid) or self._owners.find(ref.uid)


def _print(ref: Ref, body: dict[str, Any]) -> None:
    _say("patch", ref, body)


def _say(what: str, ref: Ref, told: Any) -> None:
    line = {"object": ref._asdict(), what: told}
    print(visible(json.dumps(line)), flush=True)


class DryConditions:
    """Prints nodes' conditions in place of writing them."""

    def __init__(self, printer: DryRun) -> None:
        self._printer = printer
        self._told: dict[str, State] = {}

    def due(self, health: Mapping[str, Health], nodes: Mapping[str, Known]) -> list[tuple[Known, State]]:
        """Nodes whose condition is another one than was printed; one that was never ill is not worth a line."""
        known = ((nodes[name], state(told)) for name, told in health.items() if name in nodes)
        return [(node, now) for node, now in known if self._told.get(node.ref.uid, HEALTHY) != now]

    def tell(self, node: Known, now: State, now_s: float) -> None:
        """Print it."""
        self._printer.condition(node.ref, condition(now, None, now_s) or {})

    def done(self, node: Known, now: State) -> None:
        """It is printed."""
        self._told[node.ref.uid] = now
