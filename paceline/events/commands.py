"""What is asked of the services, and what came of it."""

from typing import Annotated, Literal

import msgspec

from paceline.events.base import Count, Event, LongWord, Number, Time, Whole
from paceline.events.captures import CAPTURE_NAME

CommandId = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
#: ``job:NAME``, ``node:NAME``, ``suggestion:ID`` or ``streams``; a name has 200 characters at most.
Target = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
#: What a target begins with that is about a suggestion; its id follows.
SUGGESTION_TARGET = "suggestion:"
#: An action, or one of its arguments.
Word = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
#: A node, a service, whoever asks.
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Reason = Annotated[str, msgspec.Meta(max_length=500)]
#: Flat on purpose: what needs more than this is an event of its own.
Argument = None | bool | Whole | Number | Annotated[str, msgspec.Meta(max_length=256)]
Arguments = Annotated[dict[Word, Argument], msgspec.Meta(max_length=32)]

#: The action that asks sidecars for every collective of a job where they would send sums; its arguments: FullRows.
FULL_ROWS = "full_rows"

#: The action that asks a node's collector to sample more often for a while; its arguments: Sample.
SAMPLE = "sample"

#: The action that asks ranks of a job for a profiler's trace of whole steps; its arguments: CaptureAsked.
CAPTURE = "capture"

#: Answers to a suggestion; the arguments: Because.
ACCEPT, DISMISS = "accept", "dismiss"

Outcome = Literal["accepted", "refused", "unknown_action", "expired", "failed"]


class Command(Event, frozen=True, kw_only=True):
    """What somebody asks of services. Key: target.

    ``target`` is who is asked: ``job:NAME`` the sidecars of a job, ``node:NAME`` the collector of a node, ``streams``
    every worker, ``suggestion:ID`` the one that made that suggestion. ``action`` is what they shall do, with its
    ``arguments``. Who receives it after ``expires_s`` does not obey, nor does who is asked to wait for longer than
    an hour; who receives it twice, known by ``id``, obeys once. ``issuer`` is who the sender says it is: Kafka
    does not report the sender's login to readers. Who may send is decided by the topic's ACL. Every reader that is
    meant answers with an AuditEntry.
    """

    id: CommandId
    cluster: LongWord
    target: Target
    action: Word
    arguments: Arguments = {}
    expires_s: Time
    issuer: Name


class AuditEntry(Event, frozen=True, kw_only=True):
    """What one reader made of a command. No key.

    ``service`` on ``node`` received command ``command_id`` at ``time_s`` by its own clock. ``reason`` says why it did
    not obey, or what it did. ``issuer`` is the sender that the command names. ``unanswered`` commands before this one
    got neither an entry nor obedience, for there were more than a reader answers.
    """

    command_id: CommandId
    cluster: LongWord
    target: Target
    action: Word
    issuer: Name
    time_s: Time
    service: Name
    node: Name
    outcome: Outcome | Word
    reason: Reason
    unanswered: Count = 0


class FullRows(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``full_rows``: for how long from now on."""

    seconds: Annotated[float, msgspec.Meta(ge=1.0, le=3600.0)]


class Sample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``sample``: every so often, for how long from now on; 0 ends the wish called ``lease``.

    ``adaptive``: only while something changes, else as often as the collector does anyway.
    """

    lease: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    interval_s: Annotated[float, msgspec.Meta(ge=0.05, le=60.0)]
    seconds: Annotated[float, msgspec.Meta(ge=0.0, le=3600.0)]
    adaptive: bool = False


class CaptureAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``capture``: the capture's name, ranks as ``2,5``, and how many whole steps."""

    capture: Annotated[str, msgspec.Meta(pattern=CAPTURE_NAME)]
    ranks: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,7}(,[0-9]{1,7}){0,15}$")]
    steps: Annotated[int, msgspec.Meta(ge=1, le=20)]


class Because(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``accept`` and ``dismiss``: why."""

    because: Annotated[str, msgspec.Meta(max_length=256)] = ""
