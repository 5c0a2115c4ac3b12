"""Nodes of the bus that Kubernetes does not know: which of them the operator is told of.

Rule of this file: pure and bounded; time is an argument. A node that was known, or was not described lately, has been
taken away, as autoscalers do: nothing is wrong with its name.
"""

from collections.abc import Iterable

from paceline.events import NodeDescribed

#: How old a description may be (collectors describe their node every ten minutes); names that are told at most.
RECENT_S, MOST_TOLD, MOST_KNOWN = 600.0, 100, 100_000
MEND = "set PACELINE_NODE of its collector to the node's name"


class UnknownNodes:
    """Each name is told once."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._were: dict[str, None] = {}

    def lines(self, unknown: Iterable[NodeDescribed], known: Iterable[str], now_s: float) -> list[str]:
        """What to say; ``known`` are nodes of the bus that Kubernetes has now."""
        if len(self._were) > MOST_KNOWN:
            self._were.clear()
        self._were.update(dict.fromkeys(known))
        said = []
        for one in unknown:
            recent = now_s - one.time_s <= RECENT_S
            if not recent or one.node in self._were or one.node in self._told or len(self._told) >= MOST_TOLD:
                continue
            self._told.add(one.node)
            said.append(f"no node of Kubernetes is called {one.node}; fix: {MEND}")
        return said
