"""Balancing: what ranks measured under a plan, and which plan follows."""

from typing import Annotated, Literal

import msgspec

from paceline.events.base import Count, Event, LongWord, Produced, Time, Whole, Word

#: Ranks of a plan. A share is a rank's samples of one batch, and none is without any.
MOST_BALANCED = 16_384
MOST_SHARE = 2**31
Share = Annotated[int, msgspec.Meta(ge=1, le=MOST_SHARE)]
Shares = Annotated[list[Share], msgspec.Meta(min_length=1, max_length=MOST_BALANCED)]
#: A length of time that was measured, or was not.
Measured = Annotated[float, msgspec.Meta(ge=0.0, le=1e9)] | None
Ready = Annotated[list[Measured], msgspec.Meta(min_length=1, max_length=MOST_BALANCED)]
#: A cap a rank, None where there is none.
Caps = Annotated[list[Share | None], msgspec.Meta(max_length=MOST_BALANCED)]
#: How often, a rank.
Counts = Annotated[list[Count], msgspec.Meta(max_length=MOST_BALANCED)]
Tile = Annotated[int, msgspec.Meta(ge=1, le=2**20)]
#: By which part the global batch may differ from what was asked for.
Flex = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
#: Samples of a global batch; 0 stands for the sum of the shares.
GlobalBatch = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
Reason = Annotated[str, msgspec.Meta(max_length=500)]

#: Who decides on the split of a job: its ranks among themselves, or ``streams/balance``.
BalanceSource = Literal["inband", "kafka"]
PlanMaker = Literal["inband", "streams", "control"]


class BalanceObserved(Produced, frozen=True, kw_only=True):
    """What the ranks of a balanced job measured in one exchange, about one a second. Key: job.

    Batch ``batch`` was shared out by plan ``version``: ``shares`` are samples, ``ready_s`` the seconds from the start
    of a rank's forward to its last gradient, its wait for others left out; both have one entry a rank, None is *not
    measured*. ``most`` caps the samples of a rank, None where nothing does; empty where no rank has a cap. ``ran_out``
    is how often each rank has run out of memory so far in this run; empty where none has. Shares are multiples of
    ``tile``; ``conserve`` keeps their sum at ``global_batch`` (0: at what it is), else it may be less by the part
    ``flex``. ``source`` says who decides: "inband" the ranks, "kafka" the stream processors. ``run`` is the number
    that the ranks drew when they started, 0 where they are of an earlier version. ``t0_s`` is when the sidecar
    received it.
    """

    job: LongWord
    attempt: Whole
    node: LongWord
    t0_s: Time
    version: Count
    batch: Count
    shares: Shares
    ready_s: Ready
    source: BalanceSource | Word
    mode: Word = "adaptive"
    global_batch: GlobalBatch = 0
    tile: Tile = 1
    conserve: bool = True
    flex: Flex = 0.0
    most: Caps = []
    ran_out: Counts = []
    run: Count = 0


class BalancePlan(Event, frozen=True, kw_only=True):
    """How the batches of a job are shared out. Key: job; compacted.

    ``shares`` are the samples a rank, from batch ``first_batch`` on; None is a proposal of the stream processors
    (``made_by`` "streams") or of a person ("control"), which holds from a batch that the ranks agree on once all of
    them have it: then the plan is published again, with that batch. Versions of one ``run`` only rise; a proposal
    names the run that it was made for, and no other follows it. ``predicted_step_s`` is what a step should take under
    it, ``measured_step_s`` what it took before; None is *not known*.
    """

    cluster: LongWord
    job: LongWord
    attempt: Whole
    time_s: Time
    version: Count
    first_batch: Count | None = None
    shares: Shares
    reason: Reason = ""
    predicted_step_s: Measured = None
    measured_step_s: Measured = None
    made_by: PlanMaker | Word
    mode: Word = "adaptive"
    run: Count = 0
