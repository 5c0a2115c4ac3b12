"""Where the stream that computes stands behind a bucket of DDP's reducer.

PyTorch 2.15's own NCCL back end (``nccl2``, there the one called ``nccl``) makes that stream wait as soon as the
reducer has issued a bucket, not at the end of backward. What issues it is the last gradient of the bucket, and what
runs next on that thread is whatever else follows this gradient: a hook of ours, put behind the reducer's own. So the
stream is stamped right before the bucket is issued and right after it has been told to wait.

Gradients become ready in the same order in every backward: after a few, only those that end a bucket keep their hooks.
"""

from typing import Any
from weakref import WeakKeyDictionary

from paceline.training import marks
from paceline.training.probe import Mark, Probe, skip_frame

#: Back ends whose works make the stream wait when their future is asked for.
WAITS_AT_ISSUE = ("ProcessGroupNCCL2", "ProcessGroupNCCLLazy")
#: Backwards until the gradients that end no bucket lose their hooks; how often that is learned again where it changes.
LEARNED = 4
MOST_LESSONS = 3


class ReducerWaits:
    """``follow`` a model before its backward; ``issues`` is told before each bucket, hooks of gradients the rest."""

    def __init__(self, probe: Probe, torch: Any) -> None:
        self._probe = probe
        self._edge = getattr(getattr(torch.autograd, "graph", None), "get_gradient_edge", None)
        self._models: WeakKeyDictionary[Any, _Model] = WeakKeyDictionary()
        self._model: _Model | None = None
        #: The gradient that is being accumulated, and the one that issued a bucket, with the stamp from before it.
        self._gradient = -1
        self._issued: tuple[int, Mark | None] = (-1, None)
        skip_frame(ReducerWaits)

    def follow(self, ddp: Any) -> None:
        """A backward of ``ddp`` begins, whose stream waits wherever a bucket is issued."""
        self._issued, self._gradient = (-1, None), -1
        if self._edge is None:
            return
        model = self._models.get(ddp)
        if model is None:
            model = self._models[ddp] = _Model()
        if model.begins_lesson():
            nodes = [self._edge(weights).node for weights in ddp.parameters() if weights.requires_grad]
            for place, node in enumerate(nodes):
                if place not in model.handles:
                    model.handles[place] = self._hooks(place, node)
        self._model = model

    def issues(self) -> None:
        """The reducer issues a bucket now."""
        if self._model is not None:
            self._model.issued += 1
            self._issued = self._gradient, self._probe.stamp(marks.COMMUNICATION, marks.REDUCED)

    def _hooks(self, place: int, node: Any) -> "tuple[Any, Any]":
        def before(_: Any) -> None:
            self._gradient = place

        def behind(_: Any, __: Any) -> None:
            gradient, stamped = self._issued
            if gradient != place or stamped is None or self._model is None or self._probe.off:
                return
            self._issued = -1, None
            self._probe.ring.append(stamped)
            self._probe.mark(marks.LEAVE + marks.COMMUNICATION)
            self._model.ends.add(place)
            self._model.timed += 1

        for hook in (before, behind):
            skip_frame(hook)
        return node.register_prehook(before), node.register_hook(behind)


class _Model:
    """The hooks on one model's gradients, and which of these have ended a bucket."""

    def __init__(self) -> None:
        self.handles: dict[int, tuple[Any, Any]] = {}
        self.ends: set[int] = set()
        #: Buckets of the latest backward: issued, and those whose wait was timed.
        self.issued = self.timed = 0
        self._backwards = 0
        self._lessons = 0

    def begins_lesson(self) -> bool:
        """A backward begins; whether every gradient needs its hooks. Those known to be of no use lose theirs."""
        self._backwards += 1
        missed, self.issued, self.timed = self.timed < self.issued, 0, 0
        if self._backwards == LEARNED + 1:
            for place in set(self.handles) - self.ends:
                for handle in self.handles.pop(place):
                    handle.remove()
        elif self._backwards > LEARNED + 1 and missed and self._lessons < MOST_LESSONS:
            self._backwards = 1
        if self._backwards <= 2:
            self.ends.clear()  # DDP orders its buckets anew after the first backward
        self._lessons += self._backwards == 1
        return self._backwards == 1
