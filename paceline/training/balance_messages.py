"""What the ranks of a balanced job and the sidecar of their node tell each other, beside timings, on the same socket.

Rule of this file: as of ``messages``: data and how a rank writes it, by the standard library alone; the sidecar says
how large a number may be. A sidecar of an earlier version would take such a message for garbage, so a rank sends none
until its sidecar has said that it understands them (``Hears``); a rank of an earlier version passes that over.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from paceline.events import Caps, Count, Counts, Flex, GlobalBatch, Measured, Ready, Reason, Shares, Tile, Word

#: The byte before such a message of a rank's.
BALANCE = b"l"
#: The word by which a sidecar says that it understands these messages, and what it is called there.
HEARS, HEARS_BALANCE = "hears", "balance"
#: ... and that under which it passes a plan on.
PROPOSED = "proposed"
#: A message that is larger may not fit the socket; one of 8,192 ranks does.
MOST_BYTES = 160_000
#: No step takes longer.
LONGEST_S = 1e9
LONGEST_REASON = 500


@dataclass(frozen=True)
class BalanceObserved:
    """What all ranks measured in one exchange, told by rank 0.

    ``shares`` are the samples a rank of batch ``batch``, which plan ``version`` gave; ``ready_s`` the seconds from the
    start of a rank's forward to its last gradient, None where that was not measured. ``most`` has a cap a rank, None
    where there is none; empty where no rank has one; ``ran_out`` is how often each has run out of memory so far, empty
    where none has. ``global_batch`` is what was asked for, 0 stands for the sum of
    the shares. ``source`` is who decides: "inband" or "kafka".
    """

    version: Count
    batch: Count
    shares: Shares
    ready_s: Ready
    source: Word
    mode: Word
    global_batch: GlobalBatch = 0
    tile: Tile = 1
    conserve: bool = True
    flex: Flex = 0.0
    most: Caps = field(default_factory=list)
    ran_out: Counts = field(default_factory=list)


@dataclass(frozen=True)
class BalancePlan:
    """A plan that all ranks follow from batch ``first_batch`` on, told by rank 0.

    ``made_by`` is "inband" or "streams"; ``predicted_s`` and ``measured_s`` are seconds a step under the new and the
    old shares, None where they are not known.
    """

    version: Count
    first_batch: Count
    shares: Shares
    reason: Reason = ""
    predicted_s: Measured = None
    measured_s: Measured = None
    made_by: Word = "inband"
    mode: Word = "adaptive"


@dataclass(frozen=True)
class BalanceWord:
    """One message of a rank's: what was observed, which plan is followed, and whether it waits for plans of others.

    ``run`` is the number that the ranks drew when they started: a plan for another number is of another run. 0 is what
    an earlier version sends.
    """

    observed: BalanceObserved | None = None
    plan: BalancePlan | None = None
    awaits: bool = False
    run: Count = 0


class ProposedPlan(NamedTuple):
    """A plan from outside, for the run with the number ``run``: from which batch, the ranks agree."""

    version: int
    shares: tuple[int, ...]
    run: int = 0

    @property
    def digest(self) -> int:
        """A number from 1 to below 2**48. Two plans may have the same: ranks compare more before they follow one."""
        text = ",".join(map(str, self)).encode()
        return (self.version % 2**16) * 2**32 + (zlib.crc32(text) or 1)


def encode(word: BalanceWord) -> bytes | None:
    """``word`` as it travels; None where it would not fit.

    What is no number of seconds is *not measured*; JSON knows no NaN.
    """
    told: dict[str, Any] = {name: value for name, value in asdict(word).items() if value}
    if word.observed is not None:
        told["observed"]["ready_s"] = [_seconds(value) for value in word.observed.ready_s]
    if word.plan is not None:
        told["plan"]["reason"] = word.plan.reason[:LONGEST_REASON]
        for name in ("predicted_s", "measured_s"):
            told["plan"][name] = _seconds(told["plan"][name])
    text = json.dumps(told, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    data = BALANCE + text.encode("utf-8", "replace")
    return data if len(data) <= MOST_BYTES else None


def _seconds(value: float | None) -> float | None:
    return None if value is None or not 0.0 <= value <= LONGEST_S else round(float(value), 6)


def decode_told(data: bytes) -> tuple[bool, ProposedPlan | None]:
    """What a sidecar told: whether it understands these messages, and the plan that it forwards, if it does either.

    >>> decode_told(b'{"hears":["balance"]}'), decode_told(b'{"proposed":{"version":2,"shares":[3,5]}}')
    ((True, None), (False, ProposedPlan(version=2, shares=(3, 5), run=0)))
    >>> decode_told(b'{"proposed":{"version":2,"shares":[3,0]}}'), decode_told(b"[")
    ((False, None), (False, None))
    """
    try:
        told = json.loads(data)
        hears = HEARS_BALANCE in told.get(HEARS, ())
        proposed = told.get(PROPOSED)
        plan = None if proposed is None else _proposed(proposed)
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
        return False, None
    return hears, plan


def _proposed(told: Mapping[str, Any]) -> ProposedPlan | None:
    plan = ProposedPlan(told["version"], tuple(told["shares"]), told.get("run", 0))
    fits = _whole(plan.version) and _whole(plan.run, 0) and plan.shares and all(map(_whole, plan.shares))
    return plan if fits else None


def _whole(value: Any, least: int = 1) -> bool:
    return type(value) is int and least <= value <= 2**53
