"""Sessions: recordings that somebody asked for by name, and how far each has come."""

from typing import Annotated, Literal

import msgspec

from paceline.events.base import Count, Event, LongWord, Time

#: What a session may be called: it is the name of a folder, and part of an address.
SESSION_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
SessionName = Annotated[str, msgspec.Meta(pattern=SESSION_NAME)]
#: Nodes or devices that a session is about, at most.
MOST_NAMED = 1000
Named = Annotated[list[Annotated[str, msgspec.Meta(min_length=1, max_length=200)]], msgspec.Meta(max_length=MOST_NAMED)]
#: How often collectors sample for a session.
SessionInterval = Annotated[float, msgspec.Meta(ge=0.05, le=60.0)]

#: starting: its recorder is on its way. recording. stopping: the rest is read. stopped: whole. interrupted: its
#: recorder is gone, and it can be recovered. failed: it ended early, and ``reason`` says why.
SessionPhase = Literal["starting", "recording", "stopping", "stopped", "interrupted", "failed"]


class SessionState(Event, frozen=True, kw_only=True):
    """A session as its recorder, or control, last reported it. Key: its name; compacted, empty once it is deleted.

    It records ``job`` with the nodes that it runs on, or ``nodes`` with the jobs that run there, or, with neither, all.
    ``cluster`` is that of ``job``, where it is known, else that of the control that records it.
    ``devices`` are those that exports show, as ``node:index`` or UUID; empty: all. Collectors sample every
    ``interval_s`` seconds for it, None: as they do anyway; ``adaptive``: faster only while something changes.
    ``messages`` in ``bytes`` on disk are what was kept. Of numbered messages by ``producers``, ``missing`` never came
    (the manifest lists which), and ``gap_count`` are stretches of a topic that were gone before they were read.
    ``silent`` are the clients that sent nothing for 30 s, of those that sent before. ``host`` is where it lies.
    """

    cluster: LongWord
    name: SessionName
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    state: SessionPhase | Annotated[str, msgspec.Meta(max_length=64)]
    reason: Annotated[str, msgspec.Meta(max_length=500)] = ""
    job: Annotated[str, msgspec.Meta(max_length=200)] = ""
    nodes: Named = []
    devices: Named = []
    interval_s: SessionInterval | None = None
    adaptive: bool = False
    issuer: Annotated[str, msgspec.Meta(max_length=200)] = ""
    host: Annotated[str, msgspec.Meta(max_length=256)] = ""
    started_s: Time
    stopped_s: Time | None = None
    updated_s: Time
    messages: Count = 0
    bytes: Count = 0
    producers: Count = 0
    missing: Count = 0
    gap_count: Count = 0
    silent: Named = []
