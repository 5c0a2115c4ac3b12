"""Marks: what the hooks write down while training runs, one short tuple each.

The sidecar reads them too; why they stand here is reported in ``messages``.

Rule of this file: constants and how they are packed, for it is read on the hot path. A mark is ``(time_ns, kind,
payload)``, with a device event as a fourth entry where the time has still to be read from a device. A kind below
``LEAVE`` opens the span of that phase and ``LEAVE + kind`` closes it; the rest are instants.
"""

from paceline.phases import PHASES

DATA, PREPARE, FORWARD, BACKWARD, OPTIMIZER, COMMUNICATION, EVALUATION, CHECKPOINT, OTHER = range(PHASES.index("idle"))
#: Time at the top level that no span accounts for; what follows decides which phase it was.
GAP = -1

LEAVE = 16
#: What may follow an optimizer without being new work: another optimizer, or the exchange of what it updated.
SAME_STEP = (OPTIMIZER, COMMUNICATION)
READY = 32  # the last gradient of this backward is computed
ISSUED = 33  # a collective starts; payload: (group, size, seq, operation, bytes, who issued it)
BOUND = 34  # the collective issued last answers to this work; payload: its id
STEP = 35  # an explicit end of a step
GC_START = 36
GC_STOP = 37
QUEUED = 38  # payload: nanoseconds that what trains has been runnable without a processor, or None

#: Payload of a communication span that waits for a functional collective, whose work has no handle.
FUNCTIONAL = -1
#: ... and of one that waits for the bucket that a gradient reducer has issued last.
REDUCED = -2
#: ... and of one that waits for a stream beside the one that computes; see ``behind``.
_FIRST_BEHIND = -3
#: Streams told apart; PyTorch makes 32 of a priority on a device.
STREAMS = 1024
COMPILED = 39  # an optimizer's step has been compiled: it will not be heard of
#: While the probe's own cost is measured: a window of steps begins, with the probe off or on; payload: steps before it.
WINDOW_OFF = 40
WINDOW_ON = 41
STEPPED = 42  # a step has ended, whether the probe is on or off
STANDING = 43  # no step ends any more while the probe is off; payload: the collective that the thread is in, as ISSUED
#: Steps are left out to keep to the budget: the step before is over, and so many follow that are not told; then one
#: begins that is, after so many steps have ended.
SAMPLE_OFF = 44
SAMPLE_ON = 45
#: The device has waited for its host; payload: nanoseconds in this step. Comes before the mark that ends the step.
HOST_BOUND = 46
#: The call, the wait or the backward that is left next has raised: what it stood in has no result, and will have none.
RAISED = 47
BATCH = 48  # collectives are issued together from here on
BATCHED = 49  # ... up to here; payload: the id of the work that they answer to, or None: they are done

#: A forward or backward of a pipeline says which micro-batch of the step it is of, below this, as its payload.
MOST_MICROBATCHES = 512

#: Who issued a collective: a function of ``torch.distributed``, DDP's gradient reducer, or other native code.
PYTHON, REDUCER, NATIVE = range(3)


def behind(stream: int, collective: int) -> int:
    """What the work of a collective goes by that was issued, and not waited for, on another stream: both by number.

    >>> [stream_of(behind(3, number)) for number in (0, 1, 2)], behind(3, 1) < behind(3, 0) < REDUCED
    ([3, 3, 3], True)
    """
    return _FIRST_BEHIND - stream % STREAMS - STREAMS * collective


def stream_of(work: int) -> "int | None":
    """The stream that ``work`` stands behind, None where it is a work of its own."""
    return (_FIRST_BEHIND - work) % STREAMS if work <= _FIRST_BEHIND else None


#: Windows with the probe on and off begin after so many steps: the first allocate, compile and connect.
WARM_UP = 20
#: Steps of a window, and how many pairs of windows there are of each size.
SIZES = (10, 40, 160, 640)
PAIRS = 20
