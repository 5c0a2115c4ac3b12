"""Alternation: the probe off in some steps and on in others, and who counts the steps.

Rule of this file: it is on the training thread's hot path, as ``probe`` is. Ranks cannot ask each other, so what turns
the probe off and on goes by the number of steps that have ended: ``OverheadWindows`` while the probe's cost is
measured, then ``Sampling`` by its budget.

A step ends where its optimizer has finished, once a backward has begun since the last; where ``step()`` is called, that
alone ends it. Off means that the hooks return at once and write nothing down. They stay where they are, and collectives
go on being counted, so that their numbers are those of ranks that are on.
"""

from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Protocol

from paceline.training import marks
from paceline.training.marks import WARM_UP

if TYPE_CHECKING:
    from paceline.training.messages import Issued
    from paceline.training.switched import Switched

#: A job whose steps have not ended for so long, and for so many times the longest so far, stands still.
STILL_NS = 10_000_000_000
STILL_TIMES = 5


class Plan(Protocol):
    """What turns the probe off and on. ``rests``: while it is off, the thread that sends marks sleeps, too."""

    rests: bool

    def tells_end(self, steps: int) -> bool:
        """Whether the end of the step that makes it ``steps`` is written down."""

    def step_ended(self, steps: int, took_ns: int, explicit: bool) -> bool:
        """So many ``steps`` have ended, the last after ``took_ns``; whether there is more to come of this plan."""

    def end(self, steps: int) -> None:
        """The probe is on from now on."""


class Alternation:
    """Counts the steps of this rank and switches ``probe`` by the first of ``plans``, then by the next.

    ``standing`` tells which collective the training thread is in, while no hook does.
    """

    def __init__(
        self,
        probe: "Switched",
        plans: "list[Plan]",
        standing: "Callable[[], Issued | None]",
        now: Callable[[], int] = perf_counter_ns,
    ) -> None:
        self._probe = probe
        self._plans = plans
        self._standing = standing
        self._now = now
        self._steps = 0
        self._explicit = False
        self._ended_ns = self._longest_ns = 0
        #: The step in which it has been told that the job stands still.
        self._told = -1

    @property
    def rests(self) -> bool:
        """Whether the thread that sends marks is to leave the job alone."""
        plans = self._plans[:1]
        return self._probe.off and bool(plans) and plans[0].rests

    def optimizer_stepped(self) -> None:
        """An outermost optimizer has finished: the first to do so since a backward ends the step."""
        probe = self._probe
        if probe.worked and not self._explicit:
            probe.worked = False
            self._step_ended()

    def step_called(self) -> None:
        """The script says that a step has ended. From now on nothing else does."""
        self._explicit = True
        self._step_ended()

    def optimizer_compiled(self) -> None:
        """The optimizer will not be heard of: where the script does not say so, nothing would ever end a step."""
        if self._probe.off and not self._explicit:
            self._plans[0].end(self._steps)
            self._probe.alternation = None

    def look(self) -> None:
        """On the thread that sends marks, while the probe is off: does the job stand still, and where?

        A hang would go unheard else, for no hook tells who waits for whom.
        """
        steps, due = self._steps, self._ended_ns + self._longest_ns
        still_ns = self._now() - self._ended_ns
        if self._told == steps or still_ns < max(STILL_NS, STILL_TIMES * self._longest_ns):
            return
        issued = self._standing()
        if issued is not None and self._steps == steps and self._probe.off:
            self._told = steps
            self._probe.ring.append((due, marks.STANDING, issued))

    def _step_ended(self) -> None:
        plan, steps = self._plans[0], self._steps + 1
        now = self._now()
        took_ns = now - self._ended_ns
        self._steps, self._ended_ns = steps, now
        if plan.tells_end(steps) or self._told == steps - 1:
            self._probe.ring.append((now, marks.STEPPED, None))
        if steps > WARM_UP:
            self._longest_ns = max(self._longest_ns, took_ns)
        if not plan.step_ended(steps, took_ns, self._explicit):
            del self._plans[0]
            if not self._plans:
                self._probe.alternation = None
