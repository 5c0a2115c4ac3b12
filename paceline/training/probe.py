"""The probe: what the hooks share while training runs.

Rule of this file: everything here is on the training thread's hot path, so it is short, takes no lock, does no
I/O and raises nothing into the script. A hook that fails ends the timing with one line; training goes on.
"""

import gc
import threading
from collections import deque
from collections.abc import Callable
from time import perf_counter_ns
from types import CodeType, FunctionType
from typing import Any

from paceline.training import marks
from paceline.training.alternation import Alternation
from paceline.training.captures import Captures
from paceline.training.telling import reason, tell

Mark = tuple[Any, ...]

#: Marks that wait for the shipping thread: some 20 s of short steps. Before a rank is known, a lead-in is enough.
MOST = 100_000
LEAD_IN = 5_000
#: Backward passes that other threads may do, with none of the training thread's between, before they are the training.
ELSEWHERE = 2


class Probe:
    """Counters, flags and the ring of marks of this process."""

    def __init__(self) -> None:
        #: Whether hooks return at once: for a while, or (``stopped``) for good.
        self.off = self.stopped = False
        #: The code of the hooks in which a rank waits for others.
        self.waits: set[CodeType] = set()
        #: ... and of what runs an optimizer's step.
        self.steps: set[CodeType] = set()
        #: The backward pass that the calling thread is a part of, negative where it is part of none.
        self.graph_task: Callable[[], int] = _none
        self.begin: Callable[[], None] = _nothing
        self.device_found: Callable[[], None] = _nothing
        #: What to tell of a gradient reducer's exchange where no hook hears it.
        self.expect: Callable[[Any], None] | None = None
        #: Told of the model whose reducer takes part in the next backward.
        self.reduces: Callable[[Any], None] = _ignore
        self.reset()

    def reset(self) -> None:
        """Nothing has been seen. In a forked child nothing of the parent's is ours; it may become a rank of its own."""
        self.off = self.stopped
        self.ring: deque[Mark] = deque()
        self.captures = Captures()
        self.most = LEAD_IN
        #: Marks that the shipping thread has taken, and the processor's nanoseconds that took it.
        self.taken = self.taking_ns = 0
        self.lost = 0
        #: Whether no session has begun, so that an optimizer step may begin one.
        self.idle = True
        self.adopt_thread()
        self.use_host()
        self.in_forward: Any = None
        self.in_backward = False
        self.waiting = False
        self.issuing = False
        #: Whether a gradient reducer takes part in the next backward, and whose: the script's model, held no longer.
        self.reducing = False
        self.reducer: Any = None
        #: Collectives that the reducer has issued in this backward, and when it issued the last.
        self.reduced = 0
        self.reduced_at = 0
        self.batch_size: int | None = None
        self.device: Any = None
        self.wrapper = ""
        #: This rank's place in a pipeline, where its stages tell it.
        self.stage: int | None = None
        #: What turns this probe off now and then, and whether a backward has begun since it last heard of a step.
        self.alternation: Alternation | None = None
        self.worked = False
        #: Who runs a profiler over the next steps, where that is asked for.
        self.capture: Any = None
        #: Whether an optimizer step is under way, and those within it, by the ids of their frames.
        self.stepping = False
        self.nested: list[int] = []
        #: Whether an optimizer has stepped within this backward.
        self.stepped = False

    def host_mark(self, kind: int, payload: Any = None) -> None:
        """Write down that ``kind`` happened now."""
        self.ring.append((perf_counter_ns(), kind, payload))

    def host_stamp(self, kind: int, payload: Any = None) -> Mark:
        """What ``host_mark`` would write down."""
        return perf_counter_ns(), kind, payload

    def host_arrival(self, payload: Any) -> None:
        """Write down that a collective is issued now."""
        self.ring.append((perf_counter_ns(), marks.ISSUED, payload))

    def issued(self, payload: Any) -> None:
        """Write down that a collective is issued. The one that is waited for at once arrives where its wait begins."""
        (self.host_arrival if self.waiting else self.arrival)(payload)

    def waited(self, work: "int | None", original: Any, /, *args: Any, **kwargs: Any) -> Any:
        """What ``original`` returns, in which this rank stands still for others; ``work`` is what it waits for."""
        self.waiting = True
        self.mark(marks.COMMUNICATION, work)
        try:
            return original(*args, **kwargs)
        except BaseException:
            self.host_mark(marks.RAISED)
            raise
        finally:
            self.mark(marks.LEAVE + marks.COMMUNICATION)
            self.trim()
            self.waiting = False

    def use_host(self) -> None:
        """Marks are timed by the host's clock."""
        self.clock: Any = None
        self.mark: Callable[..., None] = self.host_mark
        self.stamp: Callable[..., Mark | None] = self.host_stamp
        self.arrival: Callable[[Any], None] = self.host_arrival
        self.ended: Callable[[int], None] = _ignore
        self.side: Callable[[], int | None] = _nothing
        #: Streams beside the one that computes on which collectives are issued, and what the latest one answers to.
        self.sides: dict[int, int] = {}
        self._behind = 0

    def use(self, clock: Any) -> None:
        """Marks are timed on a device, by ``clock``."""
        self.clock, self.mark, self.stamp = clock, clock.mark, clock.stamp
        self.arrival, self.ended, self.side = clock.arrival, clock.ended, clock.side

    def computes_on(self, stream: Any) -> bool:
        """Whether ``stream`` (None: the current one) is the calling thread's current one and the one that computes."""
        return self.clock is not None and self.clock.computes_on(stream)

    def behind(self, stream: int, work: "int | None" = None) -> None:
        """The collective issued last on ``stream``, one beside the one that computes, answers to ``work`` or a name."""
        if work is None:
            self._behind += 1
            work = marks.behind(stream, self._behind)
            self.ended(work)
        self.sides[stream] = work
        if len(self.sides) > marks.STREAMS:
            self.sides.pop(next(iter(self.sides)))

    @property
    def on_host(self) -> bool:
        """Whether marks are timed by the host's clock."""
        return self.clock is None

    def trim(self) -> None:
        """Keep the ring bounded: called wherever marks may repeat without a step that ends."""
        ring = self.ring
        while len(ring) > self.most:
            ring.popleft()
            self.lost += 1
            self.taken += 1

    def optimizer_stepped(self) -> None:
        """The outermost optimizer of the training thread has finished."""
        try:
            if not self.off:
                self.trim()
            if self.alternation is not None:
                self.alternation.optimizer_stepped()
            if self.capture is not None:
                self.capture.optimizer_stepped()
        except Exception as error:
            self.fail(error)

    def adopt_thread(self) -> None:
        """The calling thread is the one that trains."""
        self.thread = threading.get_ident()
        #: The same thread as the kernel knows it.
        self.task = threading.get_native_id()
        #: Backward passes of other threads that are none of its business yet; none before it has done one itself.
        self.elsewhere = 0

    def takes_over(self, backward: bool = True) -> bool:
        """Training goes on in the calling thread, which is another: whether it is the one that trains from now on.

        The thread that joins a process group need not be the one that trains: a framework may have a thread of its own
        for either. A forward pass alone decides only where no thread has trained yet.
        """
        if self.off or self.in_backward:
            return False
        if self.elsewhere:
            self.elsewhere -= backward
            return False
        self.adopt_thread()
        self.in_forward, self.stepping, self.waiting, self.issuing = None, False, False, False
        return True

    def foreign(self) -> bool:
        """Whether what happens now is none of the training thread's business (or timing is off)."""
        if self.off or threading.get_ident() == self.thread:
            return self.off
        return not (self.in_backward and self.graph_task() >= 0)  # autograd's own threads work for the training thread

    def waits_in(self, hook: Any) -> None:
        """In the function ``hook`` a rank waits for others."""
        self.waits.add(hook.__code__)

    def on_thread(self) -> bool:
        """Whether the calling thread is the one that trains."""
        return threading.get_ident() == self.thread

    def collected(self, phase: str, info: dict[str, int]) -> None:
        """What Python's collector calls before and after each of its runs."""
        if not self.off:
            self.ring.append((perf_counter_ns(), marks.GC_START if phase == "start" else marks.GC_STOP, None))
            self.trim()

    def fail(self, error: BaseException) -> None:
        """End the timing with one line on stderr; training goes on."""
        if self.stopped:
            return
        try:
            self.stop()
        except Exception:
            self.stopped = self.off = True
        tell(f"timing stopped: {reason(error)}; training goes on")

    def pause(self) -> None:
        """Write nothing down until ``go_on``, which must come between two steps, as this does."""
        self.off = True

    def go_on(self) -> None:
        """Write down again what happens, from nothing on: what has begun meanwhile was not noted."""
        self.in_forward = None
        self.stepping = False
        self.in_backward = self.waiting = self.issuing = self.reducing = False
        self.reducer = None
        self.off = False
        if self.stopped:  # by another thread, perhaps just now
            self.off = True

    def stop(self) -> None:
        """Write nothing down any more."""
        self.stopped = self.off = True
        self.alternation = self.reducer = None
        self.ring.clear()
        if self.collected in gc.callbacks:
            gc.callbacks.remove(self.collected)


def _nothing() -> None:
    pass


def _ignore(_: Any) -> None:
    pass


def _none() -> int:
    return -1


def skip_frame(function: Any) -> None:
    """Keep torch.compile from compiling ``function``'s own frame when it is called, without hiding what it calls."""
    from torch._C._dynamo import eval_frame

    if isinstance(function, type):
        for member in vars(function).values():
            if isinstance(member, FunctionType):
                skip_frame(member)
        return
    code = function.__code__
    if hasattr(eval_frame, "set_code_exec_strategy"):
        strategy = eval_frame._FrameExecStrategy(eval_frame._FrameAction.SKIP, eval_frame._FrameAction.DEFAULT)
        eval_frame.set_code_exec_strategy(code, strategy)
    elif hasattr(eval_frame, "skip_code"):
        eval_frame.skip_code(code)
