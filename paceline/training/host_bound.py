"""How long a device waited for its host: the time at whose end it had nothing left to do.

Rule of this file: pure; times are integer nanoseconds of the host's clock. A mark that the device reached as soon as it
was recorded found an empty queue: the stretch before it took as long as the host took to launch it, however fast the
device. A mark that lay in the queue for long says that the device was busy all the while. So each stretch between two
marks is counted whole or not at all, by the mark at its end. Time is counted and not marks, for a step that waits for
its own device once (``.item()``) finds the queue empty right after, in many marks that take no time.

Waiting for other ranks, or for a checkpoint to be written, is neither. A mark without a device's time (a graph was
being captured) ends what was counted so far: the stretch across it is nobody's. A step with few marks is not told.
"""

from __future__ import annotations

from paceline.training.marks import (
    BACKWARD,
    CHECKPOINT,
    COMMUNICATION,
    COMPILED,
    HOST_BOUND,
    LEAVE,
    OPTIMIZER,
    READY,
    STEP,
    WINDOW_OFF,
)

#: A mark is reached promptly within a launch or two, and what was launched before it: this long after it was recorded,
#: or this share of the stretch before it, where the last kernels are large.
PROMPT_NS = 50_000
PROMPT_SHARE = 0.05
#: Marks on the device's clock without which a step says nothing: forward and backward have four.
LEAST = 4
#: What these end is waiting for others, or for a disk.
_OTHERS = (LEAVE + COMMUNICATION, LEAVE + CHECKPOINT)
_BACKWARD_LEFT = LEAVE + BACKWARD
#: Where a step may end, and what says whether it does.
_TURNS = frozenset((BACKWARD, _BACKWARD_LEFT, LEAVE + OPTIMIZER, STEP, COMPILED))


class HostBound:
    """Counts one step after another; told of each mark, it answers with a step's time where that ends.

    >>> device = HostBound()
    >>> for number, kind in enumerate((20, 2, 18, 3, 19, 4, 20)):  # recorded every 10 ms, and reached 20 us later
    ...     waited_ns = device.reached(kind, number * 10_000_000, number * 10_000_000 + 20_000)
    >>> waited_ns
    60000000
    """

    def __init__(self) -> None:
        self._marks = 0
        self._waited_ns = 0
        self._last_ns: int | None = None
        #: The last mark on the device's clock, whether a backward is open, and whether optimizers are compiled.
        self._before = STEP
        self._in_backward = self._compiled = False

    def reached(self, kind: int, recorded_ns: int, reached_ns: int) -> int | None:
        """The device has got to a mark; how long it waited for its host in the step that ends here.

        None where no step ends, or where too little was seen of it. A compiled optimizer is not heard of: then each
        backward is reported.
        """
        if kind > READY and kind != STEP:
            return self.noted(kind)
        last_ns = self._last_ns
        if last_ns is None or reached_ns >= last_ns:  # else it is of another stream
            if last_ns is not None:
                took_ns, lay_ns = reached_ns - last_ns, reached_ns - recorded_ns
                # The last gradient is ready: what is left of a backward is the exchange.
                other = kind in _OTHERS or (kind == _BACKWARD_LEFT and self._before == READY)
                if (lay_ns < PROMPT_NS or lay_ns < took_ns * PROMPT_SHARE) and not other:
                    self._waited_ns += took_ns
                self._marks += 1
            self._last_ns, self._before = reached_ns, kind
        return self._turn(kind) if kind in _TURNS else None

    def noted(self, kind: int) -> int | None:
        """A mark without a device's time: where it stands for work, or the probe was switched there, a gap."""
        if kind <= READY or WINDOW_OFF <= kind < HOST_BOUND:
            self.gap()
        return self._turn(kind) if kind in _TURNS else None

    def gap(self) -> None:
        """What the device does from here to the next mark is not known."""
        self._last_ns = None

    def _turn(self, kind: int) -> int | None:
        if kind == COMPILED:
            self._compiled = True
        elif kind in (BACKWARD, _BACKWARD_LEFT):
            self._in_backward = kind == BACKWARD
        ends = kind in (STEP, LEAVE + OPTIMIZER) or (self._compiled and kind == _BACKWARD_LEFT)
        if not ends or (self._in_backward and kind != STEP):
            return None
        seen, waited_ns = self._marks, self._waited_ns
        self._marks = self._waited_ns = 0
        return waited_ns if seen >= LEAST else None
