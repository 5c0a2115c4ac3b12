"""What a session is and how far it has come, as its folder tells it.

Rule of this file: the shapes of ``session.json`` and ``manifest.json``, and how they are read. A file of a later
version is refused rather than misread, and one that is damaged says so; no number in it is trusted unbounded.
"""

from itertools import pairwise
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from paceline.decoders import json_decoder
from paceline.events import Count, SessionState, Time
from paceline.events.sessions import Named, SessionInterval, SessionName
from paceline.job_life import JobLife

#: The version of both files that is written, and the latest that is read.
FORMAT = 1
#: What is read of a file at most: 100,000 producers of four topics.
MOST_BYTES = 512 * 1024 * 1024
T = TypeVar("T")
#: First and last of a run of numbers.
Run = Annotated[list[Count], msgspec.Meta(min_length=2, max_length=2)]


class ManifestError(Exception):
    """A session's file that cannot be used: which, why, and what to do."""


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for; written once, when the session is started."""

    format: int = FORMAT
    name: SessionName
    id: str
    cluster: str
    #: Only what is of this cluster; empty: of any, and of a job that of the cluster in which it first trains.
    only_cluster: str = ""
    job: str = ""
    nodes: Named = []
    devices: Named = []
    interval_s: SessionInterval | None = None
    adaptive: bool = False
    #: Of a job: go on after it has ended.
    keep: bool = False
    issuer: str = ""
    started_s: Time


class JobProgress(msgspec.Struct):
    """The newest run of a session's job, and whether it trained while the session recorded."""

    life: JobLife
    trained: bool = False
    cluster: str = ""


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the recording that is complete."""

    file: Annotated[str, msgspec.Meta(pattern=r"^segment-[0-9]{6,9}\.jsonl\.gz$")]
    messages: Count
    bytes: Count
    sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]
    first_ms: int
    last_ms: int


class ProducerProof(msgspec.Struct, kw_only=True):
    """Which messages of ``producer`` on ``topic`` came: runs of their numbers, ascending, first and last of each.

    ``kept`` of them are in the recording; the others were for other jobs or nodes. Of ``forgotten`` missing ones the
    numbers are not known any more.
    """

    topic: str
    producer: str
    node: str = ""
    runs: list[Run]
    kept: Count = 0
    repeated: Count = 0
    forgotten: Count = 0


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of a partition that were gone before they were read; ``messages`` None: how many cannot be told."""

    topic: str
    partition: Count
    at_s: Time
    messages: Count | None
    reason: str


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """A client that was heard before was not heard from ``from_s`` to ``to_s``; None: it still is not."""

    client: str
    from_s: Time
    to_s: Time | None


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The next message of a partition that the recording lacks."""

    topic: str
    partition: Count
    offset: Count


class Manifest(msgspec.Struct, kw_only=True):
    """How far the session has come. All that it tells of lies on disk."""

    format: int = FORMAT
    state: SessionState
    segments: list[Segment] = []
    places: list[Place] = []
    #: Which topic each of those names meant, by the id that brokers give it.
    topic_ids: dict[str, str] = {}
    #: The Kafka cluster that those are of, by its id; empty where brokers do not tell it.
    kafka: str = ""
    proof: list[ProducerProof] = []
    gaps: list[Gap] = []
    silences: list[Silence] = []
    #: Of a session of a job: its newest run, and whether that trained while the session recorded.
    job: JobProgress | None = None
    #: The only cluster of which anything is recorded; empty: any, or not known yet.
    only_cluster: str = ""
    #: Producers beyond those that are told of.
    unproved: Count = 0


class _Version(msgspec.Struct):
    format: int = 0


def read_definition(path: Path) -> Definition:
    """What was asked for.

    Raises:
        ManifestError: it cannot be used.
    """
    return _read(path, Definition)


def read_manifest(path: Path) -> Manifest:
    """How far it has come.

    Raises:
        ManifestError: it cannot be used.
    """
    manifest = _read(path, Manifest)
    # A folder that was copied holds the name of the other one.
    manifest.state = msgspec.structs.replace(manifest.state, name=path.parent.name)
    for one in manifest.proof:
        if not _ascend(one.runs):
            raise ManifestError(f"{_where(path)}: damaged: the runs of {one.producer[:100]!r} do not ascend")
    return manifest


def _ascend(runs: list[Run]) -> bool:
    return all(first <= last for first, last in runs) and all(one[1] < other[0] for one, other in pairwise(runs))


def _where(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _read(path: Path, kind: type[T]) -> T:
    where = _where(path)
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ManifestError(f"{where}: {error.strerror}") from error
    if len(content) > MOST_BYTES:
        raise ManifestError(f"{where}: longer than {MOST_BYTES} bytes")
    try:
        version = json_decoder(_Version).decode(content).format
        if version > FORMAT:
            raise ManifestError(
                f"{where}: of version {version}, and this Paceline reads up to {FORMAT}; use a newer one"
            )
        return json_decoder(kind).decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ManifestError(f"{where}: damaged: {' '.join(str(error).split())[:200]}") from error
