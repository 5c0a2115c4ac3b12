"""Sampling: told are as many steps as the probe's budget allows, each of them whole.

Rule of this file: it is on the training thread's hot path, once a step; ``period_for`` is pure. Ranks cannot ask each
other, and each measures its own cost: told is every step whose number is a multiple of a power of two, so that ranks
with different periods share the steps of the largest. What a step costs is measured in the run: in one told step of
``TIMED_EVERY`` every mark is timed, and the thread that sends marks counts what they take there.

A told step ends where the next begins, for several optimizers may follow each other: the first new work turns the
probe off. Where ``step()`` says that a step has ended, that does.
"""

from collections import deque
from collections.abc import Callable
from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from paceline.phases import MOST_LEFT_OUT
from paceline.training import marks
from paceline.training.marks import WARM_UP

if TYPE_CHECKING:
    from paceline.training.switched import Switched

#: Told steps after which the period is chosen again.
LOOK_EVERY = 32
#: In one told step of so many, marks are timed.
TIMED_EVERY = 8
#: Timings of marks, and durations of steps, that are kept: the latest.
_KEPT = 256
#: A told step that costs less is told whatever its share: that much is little to any step, and much of it is not marks.
LEAST_COST_NS = 100_000
#: What a hook does beside its mark, for each mark: taken from docs/benchmarks.md, for timing it would cost as much.
HOOK_NS = 1_000
#: The period is halved only once this share of the budget would do, so that it does not swing.
EASE = 0.8


def period_for(cost_ns: float, step_ns: float, budget: float, now: int) -> int:
    """Every how many steps one is reported, so that telling takes no more than ``budget`` of the steps' time.

    Args:
        cost_ns: what telling a step costs.
        step_ns: how long a step takes.
        budget: a share of the step.
        now: the period so far, a power of two; it is raised at once, and lowered by halves and with some reserve.

    >>> [period_for(2e6, 80e6, 0.005, now) for now in (1, 8, 64)]
    [8, 8, 32]
    """

    def fits(period: int, share: float) -> bool:
        return cost_ns <= share * max(LEAST_COST_NS, budget * step_ns * period)

    period = now
    while period <= MOST_LEFT_OUT and not fits(period, 1.0):
        period *= 2
    return period // 2 if period == now > 1 and fits(now // 2, EASE) else period


class _InPlace:
    """Stands in place of the probe's ``mark`` until ``leave``."""

    def __init__(self, probe: "Switched") -> None:
        self.probe = probe
        self.mark = probe.mark
        probe.mark = self

    def __call__(self, kind: int, *more: Any) -> None:
        """Write down ``kind``."""
        self.mark(kind, *more)

    def leave(self) -> None:
        """Give the place back, unless the probe has another ``mark`` by now."""
        if self.probe.mark is self:
            self.probe.mark = self.mark


class _Timed(_InPlace):
    """Times every mark."""

    def __init__(self, probe: "Switched", took_ns: "deque[int]", now: Callable[[], int]) -> None:
        super().__init__(probe)
        self._took_ns = took_ns
        self._now = now

    def __call__(self, kind: int, *more: Any) -> None:
        now = self._now
        begin = now()
        self.mark(kind, *more)
        self._took_ns.append(now() - begin)


class _Closing(_InPlace):
    """Turns the probe off with the first new work, for ``left_out`` steps."""

    def __init__(self, probe: "Switched", left_out: int) -> None:
        super().__init__(probe)
        self.left_out = left_out

    def __call__(self, kind: int, *more: Any) -> None:
        if kind >= marks.LEAVE or kind in marks.SAME_STEP:
            self.mark(kind, *more)
            return
        self.leave()
        if self.probe.alternation is not None:
            turn_off(self.probe, self.left_out)


def turn_off(probe: "Switched", left_out: int) -> None:
    """The next ``left_out`` steps are not told."""
    probe.pause()
    probe.ring.append((perf_counter_ns(), marks.SAMPLE_OFF, left_out))


class Sampling:
    """Chooses which steps ``probe`` tells, so that they take no more than ``budget`` of the time (a share)."""

    #: What is left in the ring is of told steps, and links are sampled by the clock.
    rests = False
    #: What torch.compile is to leave alone.
    HOT = (_InPlace, _Timed, _Closing)

    def __init__(self, probe: "Switched", budget: float, now: Callable[[], int] = perf_counter_ns) -> None:
        self._probe = probe
        self._now = now
        self._budget = budget
        self.period = 1
        self._begun = -1
        #: The next step that is told, and where those that are left out begin.
        self._next = self._off_at = 0
        self._closing: _Closing | None = None
        self._timed: _Timed | None = None
        self._steps_ns: deque[int] = deque(maxlen=_KEPT)
        self._marks_ns: deque[int] = deque(maxlen=_KEPT)
        #: Of each step told since the last look, how many marks it wrote.
        self._told: list[int] = []
        self._counted = self._taken = self._taking_ns = 0

    def tells_end(self, steps: int) -> bool:
        """Ends of steps are not written down: those that are left out are counted."""
        return False

    def step_ended(self, steps: int, took_ns: int, explicit: bool) -> bool:
        """So many ``steps`` have ended, the last after ``took_ns``; there is always more to come."""
        if self._begun < 0:
            self._begun = steps
        if steps - self._begun <= WARM_UP:
            self._count()
            return True
        self._steps_ns.append(took_ns)
        if self._probe.off:
            if steps >= self._next:
                self._turn_on(steps)
            return True
        self._tell(steps, explicit)
        return True

    def end(self, steps: int) -> None:
        """The probe is on from now on."""
        if self._probe.off:
            self._turn_on(steps)
            if self._timed is not None:
                self._timed.leave()

    def _tell(self, steps: int, explicit: bool) -> None:
        """The step that has ended was told; is the next?"""
        probe = self._probe
        if self._timed is not None:
            self._timed.leave()
            self._timed = None
        if self._closing is not None:  # no new work was heard, and yet a step has ended
            self._closing.leave()
            self._closing = None
        self._told.append(self._count())
        if len(self._told) >= LOOK_EVERY:
            self._look()
        self._next = -(-steps // self.period) * self.period
        if self._next == steps:
            self._begin_told()
        elif explicit:
            turn_off(probe, self._next - steps)
        else:
            self._closing = _Closing(probe, self._next - steps)
        self._off_at = steps

    def _turn_on(self, steps: int) -> None:
        probe = self._probe
        self._closing = None
        probe.go_on()
        probe.ring.append((perf_counter_ns(), marks.SAMPLE_ON, steps - self._off_at))
        self._count()
        self._begin_told()

    def _begin_told(self) -> None:
        if len(self._told) % TIMED_EVERY == 0:
            self._timed = _Timed(self._probe, self._marks_ns, self._now)

    def _count(self) -> int:
        """How many marks were written since the last call, to within those that are being taken just now."""
        before, self._counted = self._counted, self._probe.taken + len(self._probe.ring)
        return self._counted - before

    def _look(self) -> None:
        """Choose the period by what was measured since the last look."""
        taken, taking_ns = self._probe.taken - self._taken, self._probe.taking_ns - self._taking_ns
        self._taken, self._taking_ns = self._probe.taken, self._probe.taking_ns
        if self._marks_ns:
            a_mark_ns = median(self._marks_ns) + HOOK_NS + (taking_ns / taken if taken else 0.0)
            self.period = period_for(median(self._told) * a_mark_ns, median(self._steps_ns), self._budget, self.period)
        self._told = []
