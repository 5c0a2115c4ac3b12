"""A door: a node's condition, read once and written when it changes.

Rule of this file: only a condition of our own type is written; a node without one that is well gets it all the same, so
that "not looked at" and "well" are two things.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import msgspec

from paceline.decoders import json_decoder

from .kube_api import NODES, STRATEGIC, KubeApi
from .kube_objects import Known
from .node_health import TYPE, State, condition, state
from .plan import Health

MOST_NODES = 50_000


class _Status(msgspec.Struct):
    conditions: list[dict[str, Any]] = []


class _Node(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


class ConditionTeller:
    """Keeps nodes' conditions as findings are."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        #: What was written or read last, by the node's uid.
        self._told: OrderedDict[str, State] = OrderedDict()

    def due(self, health: Mapping[str, Health], nodes: Mapping[str, Known]) -> list[tuple[Known, State]]:
        """Nodes whose condition is another one than was told."""
        known = ((nodes[name], state(told)) for name, told in health.items() if name in nodes)
        return [(node, now) for node, now in known if self._told.get(node.ref.uid) != now]

    def tell(self, node: Known, now: State, now_s: float) -> None:
        """Write it, unless it is there.

        Raises:
            ApiError: it was not written.
        """
        told = json_decoder(_Node).decode(self._api.get(NODES, "", node.ref.name))
        held = next((one for one in told.status.conditions if one.get("type") == TYPE), None)
        made = condition(now, held, now_s)
        if made is not None:
            body = {"status": {"conditions": [made]}}
            self._api.patch(NODES, "", node.ref.name, body, part="status", form=STRATEGIC)
        self.done(node, now)

    def done(self, node: Known, now: State) -> None:
        """It is told."""
        self._told[node.ref.uid] = now
        if len(self._told) > MOST_NODES:
            self._told.popitem(last=False)
