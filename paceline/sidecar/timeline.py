"""The timeline: marks in, rows out; every nanosecond of a step goes to exactly one phase.

Rule of this file: pure; times are integer nanoseconds of one clock. Spans nest and the innermost counts. Time outside
every span is a gap, and what comes next says which phase it was: ``unnamed_time``.

A step ends when its optimizer has finished, and it is closed when new work begins, so that several optimizers in a row
are one step. A compiled optimizer is not heard of: then the step ends with the first new work after a backward that
exchanged gradients (or after any, where none ever does). Once ``step()`` has been called in a script, it alone ends
steps. The times of a phase within a step (and micro-batch) are summed.

While the probe is off, steps are counted by the rank alone and have no rows; nor has a step in which a window begins.
Where steps are left out by the probe's budget, those that are told are told whole.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from paceline.sidecar.cpu_wait import ClosedSteps
from paceline.sidecar.heard_time import HeardTime
from paceline.sidecar.open_collectives import OpenCollectives
from paceline.sidecar.rank_rows import GC, HOST_BOUND, Phase, RankRows
from paceline.sidecar.unnamed_time import UnnamedTime
from paceline.training import marks
from paceline.training.marks import (
    BACKWARD,
    COMMUNICATION,
    DATA,
    EVALUATION,
    FORWARD,
    GAP,
    LEAVE,
    OPTIMIZER,
    OTHER,
    SAME_STEP,
)
from paceline.training.messages import MOST_STEPS, Issued, Place

#: Phases whose rows carry a micro-batch.
_PER_MICROBATCH = (FORWARD, BACKWARD)
_MESSAGES = ("send", "recv")
#: What is taken in while the probe is off.
_HEARD_OFF = (marks.WINDOW_ON, marks.SAMPLE_ON, marks.STEPPED, marks.STANDING, marks.QUEUED)
#: Spans within each other beyond this were never closed.
_DEEPEST = 64
#: Places kept for a sidecar after this one: many more than steps wait for their sums.
_MOST_PLACES = 10_000


class Timeline:
    """One rank's time, from ``place`` on. ``feed`` it every mark in order; ``end`` closes a step that nothing follows.

    ``device_clock`` says that spans are timed on a device: host instants then bound no phase.
    """

    def __init__(
        self, rows: RankRows, collectives: OpenCollectives, place: Place | None = None, *, device_clock: bool = False
    ) -> None:
        self._closed = ClosedSteps(rows)
        self._collectives = collectives
        self.device_clock = device_clock
        self.step = place.step if place is not None else 0
        self._explicit = place is not None and place.explicit
        #: Since a place that a boundary led to, no new work: what is exchanged still belongs to the step before.
        self._resumed = place is not None and not place.explicit
        self._start: int | None = place.start_ns if place is not None else None
        self._last = place.start_ns if place is not None else 0
        self._boundary: int | None = None
        #: Marks fed, and how many they were when the boundary came.
        self.fed = self._boundary_fed = 0
        #: The latest places between two steps, with the number of the mark after each; and those whose steps are told.
        self._reached: list[tuple[int, Place]] = []
        self.told: deque[tuple[int, Place]] = deque(maxlen=_MOST_PLACES)
        #: Open spans: what opened each, and the phase its time counts as.
        self._stack: list[tuple[int, int]] = []
        self._unnamed = UnnamedTime()
        self._wait_start = 0
        self._wait_for: int | None = None
        self._reduced = False
        self._late: list[int] | None = None
        self._stepped_inside = False
        self._compiled = place is not None and place.compiled
        #: Whether this backward, and any so far, exchanged something, and whether an unheard optimizer is due.
        self._exchanged = self._due = False
        self._exchanges = place is not None and place.exchanges
        self._gc_start: int | None = None
        self._collected_after: list[int] = []
        #: While the probe is off, how many steps the rank had counted when it was turned off.
        self._off_since: int | None = None
        self._heard = HeardTime()
        #: Whether the probe was switched in the open step.
        self._switched = False
        self._clear()
        self._instants: dict[int, Callable[[int, Any], None]] = {
            marks.READY: self._ready,
            marks.ISSUED: self._issued,
            marks.BOUND: self._collectives.bind,
            marks.BATCH: lambda t, payload: self._collectives.begin_batch(),
            marks.BATCHED: self._collectives.bind_batch,
            marks.STEP: self._step_called,
            marks.GC_START: self._gc_started,
            marks.GC_STOP: self._gc_stopped,
            marks.QUEUED: self._queue_read,
            marks.COMPILED: self._optimizer_compiled,
            marks.WINDOW_OFF: self._turned_off,
            marks.WINDOW_ON: self._turned_on,
            marks.STEPPED: self._stepped,
            marks.STANDING: self._stands,
            marks.HOST_BOUND: self._device_waited,
            marks.SAMPLE_OFF: self._leaves_out,
            marks.SAMPLE_ON: self._goes_on,
            marks.RAISED: self._raised,
        }

    def _clear(self) -> None:
        self._sums: dict[tuple[int, int], int] = {}
        self._microbatch = self._last_microbatch = 0
        self._backward_done = False
        self._forward_seen = False

    def feed(self, t: int, kind: int, payload: Any = None) -> None:
        """Take one mark."""
        self.fed += 1
        if self._off_since is not None and kind not in _HEARD_OFF:
            return
        if self._collectives.native and kind < marks.READY and payload != marks.FUNCTIONAL:
            self._collectives.moved_on(t)
        if kind < LEAVE:
            self._enter(t, kind, payload)
        elif kind < marks.READY:
            self._leave(t, kind - LEAVE)
        else:
            instant = self._instants.get(kind)
            if instant is not None:  # ... of an earlier version than the rank's
                instant(t, payload)

    def end(self) -> None:
        """Nothing will follow: close the step whose optimizer has finished; one that has not is not reported."""
        if self._boundary is not None:
            self._close(self._boundary, self._boundary_fed)
        elif self._due and self._compiled and not self._stack:
            self._settle(OPTIMIZER)
            self._close(self._last, self.fed)
        self._closed.release()

    # --- spans ---

    def _enter(self, t: int, op: int, payload: Any) -> None:
        if self._start is not None:
            t = max(t, self._last)
        if len(self._stack) >= _DEEPEST:
            self._stack = []
        if op in (DATA, BACKWARD) and any(opened in (FORWARD, EVALUATION, OPTIMIZER) for opened, _ in self._stack):
            self._drop_unfinished(t, op)
        if not self._stack:
            self._begin_work(t, op)
        self._segment(t)
        label = op
        numbered = payload if op in _PER_MICROBATCH else None
        self._forward_seen |= numbered is not None
        if not self._stack:
            self._settle(op)
        elif op in (FORWARD, EVALUATION) and self._stack[-1][1] in (BACKWARD, EVALUATION):
            label = self._stack[-1][1]  # recomputed activations; a model inside an evaluation
        if op == COMMUNICATION:
            self._wait_start, self._wait_for = t, payload
        elif op == BACKWARD:
            self._late_is(BACKWARD)
            self._reduced = self._exchanged = False
        self._begin_pass(label, numbered)
        self._stack.append((op, label))

    def _begin_pass(self, label: int, numbered: int | None) -> None:
        if numbered is not None:
            self._microbatch = numbered
        elif label == FORWARD:
            self._next_microbatch()
            self._forward_seen = True
        self._last_microbatch = max(self._last_microbatch, self._microbatch)

    def _begin_work(self, t: int, op: int) -> None:
        self._resumed &= op in SAME_STEP
        if op == OPTIMIZER:
            self._due = False
        if self._boundary is not None and not self._explicit and op not in SAME_STEP:
            self._close(self._boundary, self._boundary_fed)
        elif self._due and self._compiled and not self._explicit and op != COMMUNICATION:
            self._segment(t)
            self._settle(OPTIMIZER)
            self._close(t, self.fed - 1)
        elif self._boundary is not None and op == OPTIMIZER:
            self._boundary = None
            for duration in self._collected_after:
                self._add(GC, duration)
            self._collected_after = []
        if self._start is None and op != COMMUNICATION:
            self._start = self._last = t

    def _drop_unfinished(self, t: int, op: int) -> None:
        """A forward or an optimizer that never came back (it raised) must not swallow the time of what follows."""
        keep = OPTIMIZER if op == BACKWARD else None  # an optimizer with a closure runs backward inside
        self._segment(t)
        self._late_is(BACKWARD)
        self._stack = [span for span in self._stack if span[0] == keep]

    def _leave(self, t: int, op: int) -> None:
        if not any(opened == op for opened, _ in self._stack):
            return
        t = max(t, self._last) if self._start is not None else t
        self._segment(t)
        while self._stack.pop()[0] != op:
            pass
        if op == COMMUNICATION:
            self._collectives.waited(self._wait_start, t, self._wait_for)
        elif op == OPTIMIZER:
            self._stepped_inside = True
        if op == BACKWARD or (self._late is not None and not self._stack):
            self._backward_left(t)
        if not self._stack:
            if op not in (DATA, COMMUNICATION):
                self._unnamed.after = op
            if self._stepped_inside:
                self._settle(OTHER)
                self._stepped_inside, self._boundary, self._boundary_fed = False, t, self.fed

    def _raised(self, t: int, payload: Any) -> None:
        opened = self._stack[-1][0] if self._stack else GAP
        if opened == COMMUNICATION:
            self._collectives.give_up(self._wait_for)
        elif opened == BACKWARD:
            self._collectives.give_up_backward()

    def _backward_left(self, t: int) -> None:
        late = sum(self._late or [])
        self._closed.worked(-late if self._reduced else 0)
        self._late_is(COMMUNICATION if self._reduced else BACKWARD)
        self._collectives.backward_ended(t, late if self._reduced else 0)
        self._backward_done = True
        self._exchanges |= self._exchanged
        self._due = self._exchanged or not self._exchanges

    def _late_is(self, op: int) -> None:
        """What came after the last gradient known was ``op``."""
        late, self._late = self._late, None
        for duration in late or []:
            self._add(op, duration)

    def _next_microbatch(self) -> None:
        if self._backward_done:
            self._microbatch += 1
            self._backward_done = self._forward_seen = False

    # --- time ---

    def _segment(self, t: int) -> None:
        """Account for the time since the last mark."""
        if self._start is None or t <= self._last:
            return
        start, self._last = self._last, t
        label = self._stack[-1][1] if self._stack else GAP
        base = self._stack[0][0] if self._stack else GAP
        if label != COMMUNICATION:
            self._closed.worked(t - start)
        if base in (GAP, DATA, COMMUNICATION):
            self._unnamed.append(t - start, label)
        elif label == BACKWARD and self._late is not None:
            self._late.append(t - start)
        else:
            self._add(label, t - start)

    def _settle(self, op: int) -> None:
        """Now that ``op`` begins, the time before it has a name."""
        if op in (DATA, COMMUNICATION):
            return
        announced = self._forward_seen
        if op == BACKWARD and not announced:
            self._next_microbatch()
        for name, duration in self._unnamed.named_by(op, announced=announced, compiled=self._due and self._compiled):
            self._add(name, duration)

    def _add(self, op: int, duration: int) -> None:
        key = (op, self._microbatch if op in _PER_MICROBATCH else -1)
        self._sums[key] = self._sums.get(key, 0) + duration

    def _close(self, end: int, fed: int) -> None:
        """The step ends at ``end``, with ``fed`` marks before it; what is pending came after it."""
        if self._start is None:
            return
        single = self._last_microbatch == 0
        phases = [
            Phase(op, -1 if single else microbatch, duration) for (op, microbatch), duration in self._sums.items()
        ]
        if self._switched:
            self._closed.drop()
        else:
            self._closed.close(self.step, self._start, end, phases)
        self._switched = False
        self._collectives.step_ended(self.step, end)
        self.step += 1
        self._start, self._boundary, self._unnamed.after = end, None, GAP
        place = Place(
            step=self.step,
            start_ns=end,
            explicit=self._explicit,
            compiled=self._compiled,
            exchanges=self._exchanges,
        )
        self._reached.append((fed, place))
        self._due = False
        self._clear()
        after, self._collected_after = self._collected_after, []
        for duration in after:
            self._add(GC, duration)

    # --- instants ---

    def _ready(self, t: int, payload: Any) -> None:
        """All gradients (so far) are computed: what remains of this backward may be waiting."""
        if not self._stack or self._stack[-1][1] != BACKWARD:
            return
        self._segment(max(t, self._last))
        self._late_is(BACKWARD)
        self._late = []

    def _issued(self, t: int, payload: Issued) -> None:
        opened = {op for op, _ in self._stack}
        call = COMMUNICATION in opened
        self._exchanged |= BACKWARD in opened
        reducer = not call and payload[5] == marks.REDUCER and BACKWARD in opened
        self._collectives.issue(t, self._step_of(payload[3]), payload, call=call, backward=reducer)
        if reducer:
            self._reduced = True
            if not self.device_clock:
                self._ready(t, None)

    def _step_of(self, operation: str) -> int:
        """The step that what is issued now belongs to: after an optimizer, a message between stages to the next."""
        if self._start is None:
            return -1
        if operation in _MESSAGES:
            return self.step + (self._boundary is not None and not self._explicit)
        return self.step - self._resumed

    def _step_called(self, t: int, payload: Any) -> None:
        self._explicit = True
        if self._start is None:
            return
        t = max(t, self._last)
        self._segment(t)
        self._settle(OTHER)
        self._close(t, self.fed)

    def _optimizer_compiled(self, t: int, payload: Any) -> None:
        self._compiled = True

    def _gc_started(self, t: int, payload: Any) -> None:
        self._gc_start = t

    def _gc_stopped(self, t: int, payload: Any) -> None:
        start, self._gc_start = self._gc_start, None
        if start is None or self._start is None:
            return
        if self._boundary is not None and start >= self._boundary:
            self._collected_after.append(t - start)  # it ran in the step to come
        else:
            self._add(GC, t - start)

    def _device_waited(self, t: int, duration: int) -> None:
        """The device waited for its host, no longer than the step has lasted."""
        if self._start is not None:
            key = (HOST_BOUND, -1)
            self._sums[key] = min(self._sums.get(key, 0) + duration, max(t - self._start, 0))

    def _turned_off(self, t: int, counted: int) -> None:
        """Nothing is heard of the ``counted + 1``-th step and those after it."""
        if self._stepped_inside:
            self._boundary, self._boundary_fed = max(t, self._last), self.fed
        if self._boundary is not None:
            self._switched = True
            self._close(self._boundary, self._boundary_fed)
        self._off_since = counted
        self._heard.turned_off(t)
        self._forget()

    def _turned_on(self, t: int, counted: int) -> None:
        """``counted`` steps have ended; what is left of the last, and an explicit one to come, is not told."""
        if self._off_since is None:
            return
        self._hear_again(t, max(counted - self._off_since, 0))
        self._switched = True

    def _leaves_out(self, t: int, steps: int) -> None:
        """The step before is over and told; so many ``steps`` follow that are not."""
        if self._off_since is not None:
            return
        if self._boundary is not None:
            self._close(self._boundary, self._boundary_fed)
        self._closed.leaves_out(steps)
        self._collectives.step_ended(self.step, max(t, self._last))
        self._off_since = 0
        self._heard.turned_off(t)
        self._forget()

    def _goes_on(self, t: int, ended: int) -> None:
        """So many steps have ``ended`` since; the next begins, unless none has."""
        if self._off_since is not None:
            self._hear_again(t, ended)
            self._switched = not (self._explicit and ended)

    def _hear_again(self, t: int, ended: int) -> None:
        """The probe is on after so many steps have ``ended``; what is left of the last is not told."""
        self._off_since = None
        self._heard.turned_on(t)
        self._forget()
        self._start = self._last = max(t, self._last)
        if not self._explicit and ended:
            ended, self._boundary, self._boundary_fed = ended - 1, self._last, self.fed
        self.step = min(self.step + ended, MOST_STEPS)

    def _stepped(self, t: int, payload: Any) -> None:
        """A step has ended: while the probe is off, all that tells that the rank does not stand still."""
        if self._off_since is not None:
            self._collectives.forget()

    def _stands(self, t: int, payload: Issued) -> None:
        if self._off_since is not None:
            self._collectives.issue(t, -1, payload, call=True, backward=False)

    def _forget(self) -> None:
        """Drop the open step."""
        self._start = self._boundary = self._late = self._gc_start = None
        self._stack, self._collected_after = [], []
        self._unnamed.clear()
        self._due = self._stepped_inside = False
        self._reduced = self._exchanged = False
        self._closed.drop()
        self._collectives.forget()
        self._clear()

    def _queue_read(self, t: int, payload: int | None) -> None:
        waits = self._start is None or (self._stack and self._stack[-1][1] == COMMUNICATION)
        self._closed.read(payload, self._heard.read(t), 0 if waits else max(t - self._last, 0))
        self.told += self._reached
        self._reached = []
