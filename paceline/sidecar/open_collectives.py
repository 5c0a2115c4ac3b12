"""Open collectives: from the moment one is issued until its result is there, with the time stood waiting.

Rule of this file: pure; times are integer nanoseconds. A collective ends in one of five ways: the synchronous call
that issued it returns; its work, or a functional collective, has been waited for (on another stream than the one that
computes, when that stream was through it); the backward pass in which the gradient reducer issued it returns, or the
stream that computes has stood behind this very bucket; native code issued it and saw to it, by the next thing that is
heard; or nobody ever waits, and it is closed when the step after its own ends. Those of a batch answer to one work:
they end together, and the wait for it is that of the last which receives.
"""

from paceline.sidecar.rank_rows import Collective, RankRows
from paceline.training.marks import FUNCTIONAL, NATIVE, REDUCED, stream_of
from paceline.training.messages import Issued

#: More collectives than this open at once means that nobody waits for them.
MOST_OPEN = 4096


class OpenCollectives:
    """Told what happens to collectives, it adds a row for each that has ended."""

    def __init__(self, rows: RankRows) -> None:
        self._rows = rows
        self._open: dict[Collective, None] = {}
        self._works: dict[int, list[Collective]] = {}
        self._batch: list[Collective] | None = None
        #: Of those on another stream than the one that computes: when they were over, whoever waited for that.
        self._ends: dict[Collective, int] = {}
        self._call: list[Collective] = []
        self._backward: list[Collective] = []
        self.native: list[Collective] = []
        self._latest: Collective | None = None

    def issue(self, t: int, step: int, payload: Issued, *, call: bool, backward: bool) -> None:
        """One has been issued: by a synchronous ``call``, by the reducer during ``backward``, or to be waited for."""
        collective = Collective(step, t, payload)
        if call:
            self._call.append(collective)
            return
        if backward:
            self._backward.append(collective)
            return
        if self._batch is not None:
            self._batch += [collective] if len(self._batch) < MOST_OPEN else []
        elif collective.origin == NATIVE:
            self.native.append(collective)
            return
        self._latest = collective
        self._open[collective] = None
        if len(self._open) > MOST_OPEN:
            self._close(next(iter(self._open)), t)

    def open(self) -> list[Collective]:
        """Those whose result is not there yet, oldest first."""
        return sorted([*self._call, *self._backward, *self.native, *self._open], key=lambda one: one.start)

    def bind(self, t: int, work: int) -> None:
        """The one issued last is the work with this id; beside the stream that computes, it ends at ``t``."""
        if self._latest is None or self._batch is not None:
            return
        self._works[work] = [self._latest]
        if stream_of(work) is not None and t > self._latest.start:
            self._ends[self._latest] = t
        self._latest = None
        if len(self._works) > 2 * MOST_OPEN:
            self._forget_works()

    def begin_batch(self) -> None:
        """From here on collectives are issued together."""
        self._batch = []

    def bind_batch(self, t: int, work: int | None) -> None:
        """The batch ends at ``t``: it answers to the work with this id, or to none, and is done."""
        batch, self._batch = self._batch or [], None
        if work is not None:
            self._works[work] = batch
            self._forget_works()
            return
        self._close_all(batch, t)

    def waited(self, start: int, end: int, work: int | None) -> None:
        """The rank stood in a synchronous call, or waiting for ``work``, from ``start`` to ``end``."""
        if self._call:
            self._call[-1].wait = end - start
            for collective in self._call:
                collective.start = max(start, 0)  # the call's own: on a device, who issues it is far ahead of it
                self._rows.append_collective(collective, max(end - collective.start, 0))
            self._call = []
            return
        if work == FUNCTIONAL and self.native:
            functional = self.native.pop()
            functional.wait = end - start
            self._rows.append_collective(functional, max(end - functional.start, 0))
            return
        if work == REDUCED:
            self._reduced(start, end)
            return
        self._close_before(work, end)
        awaited = self._works.pop(work, None) if work is not None else None
        if awaited is None and work is not None:  # a batch that waits for itself has no other name
            awaited, self._batch = self._batch, None
        still = [collective for collective in awaited or () if collective in self._open]
        if still:
            received = [collective for collective in still if collective.operation == "recv"]
            (received or still)[-1].wait += end - start
        self._close_all(still, end)

    def give_up(self, work: int | None) -> None:
        """The synchronous call, or the wait for ``work``, has raised: there is no result, and nobody waits for one."""
        if self._call:
            self._call = []
        elif work == FUNCTIONAL:
            self.native = self.native[:-1]
        else:
            for collective in self._works.pop(work, ()) if work is not None else ():
                self._open.pop(collective, None)

    def give_up_backward(self) -> None:
        """The backward pass has raised: nobody waits for what was issued in it."""
        self._backward, self.native = [], []

    def _reduced(self, start: int, end: int) -> None:
        """The stream that computes stood behind the bucket issued last, from when it got there."""
        if self._backward:
            bucket = self._backward.pop()
            bucket.start, bucket.wait = max(start, 0), end - start
            self._rows.append_collective(bucket, end - bucket.start)

    def _close_before(self, work: int | None, end: int) -> None:
        """What a stream did before ``work`` on it is over as well."""
        stream = stream_of(work) if work is not None else None
        if stream is None or work is None:
            return
        for earlier in [name for name in self._works if name > work and stream_of(name) == stream]:
            self._close_all(self._works.pop(earlier), end)

    def moved_on(self, t: int) -> None:
        """Python is heard again at ``t``: what native code issued before is done."""
        for collective in self.native:
            self._rows.append_collective(collective, max(t - collective.start, 0))
        self.native = []

    def backward_ended(self, end: int, wait: int) -> None:
        """Backward has returned, the last ``wait`` nanoseconds of it spent waiting for gradients of other ranks."""
        if self._backward:
            self._backward[-1].wait = wait
        for collective in self._backward:
            self._rows.append_collective(collective, max(end - collective.start, 0))
        self._backward = []

    def step_ended(self, step: int, end: int) -> None:
        """``step`` has ended: what an earlier one issued and nobody has waited for ends here."""
        for collective in [collective for collective in self._open if collective.step < step]:
            self._close(collective, end)

    def _forget_works(self) -> None:
        """Of those whose names nobody has asked for: those that have ended."""
        still = {work: [one for one in named if one in self._open] for work, named in self._works.items()}
        self._works = {work: named for work, named in still.items() if named}

    def forget(self) -> None:
        """Nothing more will be heard of those that are open."""
        self._open, self._works, self._ends, self._latest, self._batch = {}, {}, {}, None, None
        self._call, self._backward, self.native = [], [], []

    def _close_all(self, collectives: list[Collective], end: int) -> None:
        for collective in collectives:
            if collective in self._open:
                self._close(collective, end)

    def _close(self, collective: Collective, end: int) -> None:
        del self._open[collective]
        end = self._ends.pop(collective, end)
        self._rows.append_collective(collective, max(end - collective.start, 0))
