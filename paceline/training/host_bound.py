"""How long a device waited for its host: the time at whose end it had nothing left to do.

Rule of this file: pure; times are integer nanoseconds of the host's clock. A mark that the device reached as soon as it
was recorded found an empty queue: the stretch before it took as long as the host took to launch it, however fast the
device. A mark that lay in the queue for long says that the device was busy all the while. So each stretch between two
marks is counted whole or not at all, by the mark at its end. Time is counted and not marks, for a step that waits for
its own device once (``.item()``) finds the queue empty right after, in many marks that take no time.

Waiting for other ranks, or for a checkpoint to be written, is neither. A mark without a device's time (a graph was
being captured) ends what was counted so far: the stretch across it is nobody's. A step with few marks is not told.
"""

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


class HostBound:
    """Counts one step after another; ``step_ends`` tells each.

    >>> device = HostBound()
    >>> for number, kind in enumerate((20, 2, 18, 3, 19, 4, 20)):  # recorded every 10 ms, and reached 20 us later
    ...     device.reached(kind, number * 10_000_000, number * 10_000_000 + 20_000)
    >>> device.step_ends(LEAVE + OPTIMIZER)
    60000000
    """

    def __init__(self) -> None:
        self.marks = 0
        self._waited_ns = 0
        self._last_ns: int | None = None
        #: The last mark on the device's clock, whether a backward is open, and whether optimizers are compiled.
        self._before = STEP
        self._in_backward = self._compiled = False

    def reached(self, kind: int, recorded_ns: int, reached_ns: int) -> None:
        """The device has got to a mark."""
        if kind > READY and kind != STEP:
            self.noted(kind)
            return
        if self._last_ns is not None:
            took_ns = reached_ns - self._last_ns
            if took_ns < 0:
                return  # of another stream
            # The last gradient is ready: what is left of a backward is the exchange.
            other = kind in _OTHERS or (kind == LEAVE + BACKWARD and self._before == READY)
            if not other and reached_ns - recorded_ns < max(PROMPT_NS, took_ns * PROMPT_SHARE):
                self._waited_ns += took_ns
            self.marks += 1
        self._last_ns, self._before = reached_ns, kind

    def noted(self, kind: int) -> None:
        """A mark without a device's time: where it stands for work, or the probe was switched there, a gap."""
        if kind <= READY or WINDOW_OFF <= kind < HOST_BOUND:
            self.gap()

    def gap(self) -> None:
        """What the device does from here to the next mark is not known."""
        self._last_ns = None

    def step_ends(self, kind: int) -> int | None:
        """How long the device waited for its host in the step that ends with a mark of ``kind``.

        None where no step ends, or where too little was seen of it. A compiled optimizer is not heard of: then each
        backward is told.
        """
        if kind == COMPILED:
            self._compiled = True
        elif kind in (BACKWARD, LEAVE + BACKWARD):
            self._in_backward = kind == BACKWARD
        ends = kind in (STEP, LEAVE + OPTIMIZER) or (self._compiled and kind == LEAVE + BACKWARD)
        if not ends or (self._in_backward and kind != STEP):
            return None
        seen, waited_ns = self.marks, self._waited_ns
        self.marks = self._waited_ns = 0
        return waited_ns if seen >= LEAST else None
