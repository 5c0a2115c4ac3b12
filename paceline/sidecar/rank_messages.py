"""Reads what ranks say. What a message holds is declared on their side; how large a number may be, only here.

Rule of this file: pure, and safe from whatever arrives: it becomes one of the declared messages or raises.
"""

from array import array
from typing import Annotated, TypeVar, get_type_hints

import msgspec

from paceline import events
from paceline.decoders import json_decoder
from paceline.events import Count, Whole
from paceline.training.balance_messages import (
    BALANCE,
    HEARS,
    HEARS_BALANCE,
    PROPOSED,
    BalanceObserved,
    BalancePlan,
    BalanceWord,
    ProposedPlan,
)
from paceline.training.failure_messages import FAILED, Failed
from paceline.training.look_messages import LOOKED, Looked
from paceline.training.messages import (
    BYE,
    HELLO,
    MARKS,
    MARKS_HEAD,
    MOST_STEPS,
    PROTOCOL,
    Bye,
    Hello,
    LinkReport,
    Marks,
    Peer,
    Place,
    RankMessage,
    Settled,
)

T = TypeVar("T")

#: What the annotations of messages name: the bounded numbers of events, and each other; two are called as events are.
_BOUNDED = {
    **vars(events),
    "StepNumber": Annotated[int, msgspec.Meta(ge=0, le=MOST_STEPS)],
    "BalanceObserved": BalanceObserved,
    "BalancePlan": BalancePlan,
}
#: As ``messages.Issued``, with its bounds.
_Issued = tuple[str, Count, Count, str, Count, Whole]


class NotAMessageError(ValueError):
    """No rank says that."""


class NotABalanceWordError(NotAMessageError):
    """No balancer says that, though it is marked so: of no weight to the timings on the same connection."""


class OtherProtocolError(ValueError):
    """A rank of another version says hello, in the protocol ``spoken``."""

    def __init__(self, spoken: int) -> None:
        super().__init__(f"protocol {spoken}, and not {PROTOCOL}")
        self.spoken = spoken


def _reader(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Reads ``kind``, whose annotations name bounds that the training process need not have."""
    kind.__annotations__ = get_type_hints(kind, localns=_BOUNDED, include_extras=True)
    return json_decoder(kind)


class _Rest(msgspec.Struct):
    """Of marks, what travels as JSON. ``decode.fault_in`` bounds the numbers: msgspec 0.22 makes of a bounded one
    beside a tuple what the collector crashes on."""

    payloads: list[int | _Issued | None]
    link: LinkReport | None


class _Spoken(msgspec.Struct):
    """Of any hello, in which protocol it is."""

    protocol: Whole


# What others hold comes first: msgspec looks at it when it makes their reader.
for _held in (Peer, LinkReport, Place, BalanceObserved, BalancePlan):
    _reader(_held)
_hello, _bye, _settled, _balance = _reader(Hello), _reader(Bye), _reader(Settled), _reader(BalanceWord)
_looked, _failed = _reader(Looked), _reader(Failed)
_rest, _spoken = json_decoder(_Rest), json_decoder(_Spoken)


def decode(data: bytes) -> RankMessage | BalanceWord | Looked | Failed:
    """What a rank said.

    Raises:
        NotAMessageError: it is no message; NotABalanceWordError: though marked as a balancer's.
        OtherProtocolError: it is a hello of another version.
    """
    kind, body = data[:1], data[1:]
    try:
        if kind == MARKS:
            return _decode_marks(body)
        if kind == HELLO:
            if (spoken := _spoken.decode(body).protocol) != PROTOCOL:
                raise OtherProtocolError(spoken)
            return _hello.decode(body)
        if kind == BYE:
            return _bye.decode(body)
        if kind == BALANCE:
            return _balance.decode(body)
        if kind == LOOKED:
            return _looked.decode(body)
        if kind == FAILED:
            return _failed.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise (NotABalanceWordError if kind == BALANCE else NotAMessageError)(str(error)) from error
    raise NotAMessageError("a message of unknown kind")


def encode_settled(settled: Settled) -> bytes:
    """``settled`` as it travels."""
    return msgspec.json.encode(settled)


def encode_hears() -> bytes:
    """That this sidecar understands what balancers say: a rank says nothing of that before."""
    return msgspec.json.encode({HEARS: [HEARS_BALANCE]})


def encode_proposed(plan: ProposedPlan) -> bytes:
    """``plan`` as it travels."""
    return msgspec.json.encode({PROPOSED: plan._asdict()})


def _decode_marks(body: bytes) -> Marks:
    """Marks from their columns.

    >>> from paceline.training.messages import encode
    >>> told = Marks(marks=[(7, 2, None), (9, 34, 5), (11, 33, ("g", 2, 0, "all_reduce", 4, 0))], offset_ns=-1, lost=3)
    >>> decode(encode(told)) == told
    True
    """
    if len(body) < MARKS_HEAD.size:
        raise NotAMessageError("marks without their head")
    count, offset_ns, lost, on_device = MARKS_HEAD.unpack_from(body)
    kinds_at = MARKS_HEAD.size + count * 8
    rest_at = kinds_at + count
    if rest_at > len(body) or lost > 2**53:
        raise NotAMessageError("marks that are cut off")
    times = array("q", body[MARKS_HEAD.size : kinds_at])
    rest = _rest.decode(body[rest_at:])
    if len(rest.payloads) != count:
        raise NotAMessageError(f"{count} marks and {len(rest.payloads)} payloads")
    marked = list(zip(times, body[kinds_at:rest_at], rest.payloads, strict=True))
    return Marks(marks=marked, offset_ns=offset_ns, on_device=on_device, link=rest.link, lost=lost)
