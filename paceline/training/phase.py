"""Explicit phases and steps, for loops that the hooks do not see; they combine with what the hooks see.

Rule of this file: it raises nothing, costs a lookup where timing is off, and needs no PyTorch.
"""

from __future__ import annotations

from types import TracebackType

from paceline.phases import PHASES
from paceline.training import marks
from paceline.training.activation import current, fail
from paceline.training.probe import Probe

_PASSES = (marks.FORWARD, marks.EVALUATION)


class phase:  # noqa: N801
    """``with phase("data"): …`` counts the time inside as that phase, one of ``paceline.phases.PHASES``.

    A word that is none of them counts as ``other``, and so does ``idle``: no host tells when its device had no work.
    """

    __slots__ = ("_kind", "_probe")

    def __init__(self, name: str) -> None:
        self._kind = marks.OTHER
        self._probe: Probe | None = None
        try:
            if name in PHASES:
                self._kind = min(PHASES.index(name), marks.OTHER)
        except Exception as error:
            fail(error)

    def __enter__(self) -> None:
        self._probe = None
        try:
            session = current()
            self._probe = session.probe if session is not None and not session.probe.foreign() else None
            if self._probe is not None:
                if self._kind in _PASSES and self._probe.in_forward is None:
                    self._probe.in_forward = self  # gradients taken within are part of it
                self._probe.mark(self._kind)
        except Exception as error:
            fail(error)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._probe is not None and not self._probe.off:
                if self._probe.in_forward is self:
                    self._probe.in_forward = None
                self._probe.mark(marks.LEAVE + self._kind)
                self._probe.trim()
        except Exception as failure:
            fail(failure)


def step() -> None:
    """An iteration ends here. From the first call on, this alone ends steps, however many optimizers there are."""
    try:
        session = current()
        if session is None:
            return
        probe = session.probe
        if not probe.foreign() or probe.takes_over():
            session.step_begins(told=True)
            probe.mark(marks.STEP)
            probe.trim()
        alternation = probe.alternation
        if alternation is not None and probe.on_thread():
            alternation.step_called()
    except Exception as error:
        fail(error)
