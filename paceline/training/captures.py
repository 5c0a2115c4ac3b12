"""Captures: which CUDA graphs are being captured in this process, so that nobody asks the device anything meanwhile.

Rule of this file: pure. In CUDA's global capture mode one question after an event, from any thread, invalidates the
capture, and the script dies of it. So a question is asked under ``asking`` and only while ``graphs`` is empty, and a
capture is noted under ``asking`` before it begins: it waits for one answer at most. Ends take no lock, for a graph that
is dropped half captured ends inside the garbage collector, on whichever thread that runs.
"""

import threading
import weakref
from typing import Any


class Captures:
    """Graphs being captured, by identity. One that is dropped counts as ended.

    ``kinds`` are those of the marks made meanwhile, and ``held`` those that a graph holds: what a replay does.
    """

    def __init__(self) -> None:
        self.asking = threading.Lock()
        self.graphs: dict[int, weakref.ref[Any]] = {}
        self.kinds: set[int] = set()
        self.held: weakref.WeakKeyDictionary[Any, frozenset[int]] = weakref.WeakKeyDictionary()

    def begins(self, graph: Any) -> bool:
        """``graph`` is about to be captured; whether that is news."""
        key, graphs = id(graph), self.graphs
        if key in graphs:
            return False
        reference = weakref.ref(graph, lambda _: graphs.pop(key, None))
        with self.asking:
            graphs[key] = reference
        self.kinds.clear()
        return True

    def ended(self, graph: Any) -> None:
        """``graph`` is captured, or its capture has failed."""
        if self.graphs.pop(id(graph), None) is not None:
            self.held[graph] = frozenset(self.kinds)
