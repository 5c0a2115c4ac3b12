"""The manifest of an archive: which files hold its rows, and up to where each topic has been read for them.

Rule of this file: pure. A commit is a manifest that was not there before, numbered one higher: files that it does not
name do not count, whether they were never committed or have been merged since. Its offsets are the only position of
whoever writes, so rows and position cannot disagree. What is read was written elsewhere, perhaps by somebody who means
harm: it is bounded, and names no file outside the archive's folder.
"""

import re
import zlib
from typing import Annotated
from urllib.parse import quote

import msgspec

from paceline.decoders import json_decoder

#: What this version writes, and the latest that it reads.
FORMAT = 1
#: A manifest that is larger, unpacked, is none.
MOST_BYTES = 512 * 1024 * 1024
#: How far back manifests are kept, for whoever reads one while others follow.
KEPT = 20
#: The folders of an archive.
DATA, MANIFESTS = "data", "manifest"
#: The cluster of a file that holds several.
SEVERAL = "*"

_DATA_PATH = re.compile(
    r"data/[a-z_]{1,64}/date=[0-9]{4}-[0-9]{2}-[0-9]{2}/cluster=[^/\\\0]{1,400}/[A-Za-z0-9-]{1,80}\.parquet"
)
_MANIFEST = re.compile(r"([0-9]{12})\.json\.gz")

Whole = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Text = Annotated[str, msgspec.Meta(max_length=1024)]


class ManifestError(ValueError):
    """A manifest that cannot be used: why, and the fix."""


class DataFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file of rows of one table, date and cluster (``*``: several).

    Its times lie between ``first_s`` and ``last_s``, and of the first column of the table's order the words between
    ``low`` and ``high``. ``merged`` counts how often its rows were merged with others'. ``coarse``: windows are longer
    than they were published. ``filled``: all of its rows were told by another source than the bus.
    """

    table: Text
    path: Text
    date: Text
    cluster: Text
    rows: Whole
    bytes: Whole
    first_s: float
    last_s: float
    low: Text = ""
    high: Text = ""
    merged: Whole = 0
    coarse: bool = False
    filled: bool = False


class Gone(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was merged or is too old, since when: deleted once nobody can be reading it any more."""

    path: Text
    since_s: float


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that were gone from the bus before they were read: at ``expected``, ``first`` was the next.

    ``remade``: the topic is another one, and how much is missing cannot be reported.
    """

    topic: Text
    partition: Whole
    expected: Whole
    first: Whole
    time_s: float
    remade: bool = False


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All of an archive at one time.

    ``offsets`` is, by ``topic/partition``, the next message to read. ``unusable`` counts messages that could not be
    decoded, by topic, and ``gap_count`` all gaps, of which the latest are listed.
    """

    format: Whole = FORMAT
    version: Whole
    time_s: float
    offsets: dict[Text, Whole] = {}
    topic_ids: dict[Text, Text] = {}
    files: list[DataFile] = []
    gone: list[Gone] = []
    gaps: list[Gap] = []
    gap_count: Whole = 0
    unusable: dict[Text, Whole] = {}

    def places(self) -> dict[tuple[str, int], int]:
        """(topic, partition) -> the next offset."""
        return {_place(name): offset for name, offset in self.offsets.items()}


class _Version(msgspec.Struct):
    format: int = 0


def offset_name(topic: str, partition: int) -> str:
    """How a partition is called in ``offsets``."""
    return f"{topic}/{partition}"


def _place(name: str) -> tuple[str, int]:
    topic, _, partition = name.rpartition("/")
    return topic, int(partition)


def manifest_path(version: int) -> str:
    """Where a manifest lies.

    >>> manifest_path(7)
    'manifest/000000000007.json.gz'
    """
    return f"{MANIFESTS}/{version:012d}.json.gz"


def version_of(name: str) -> int | None:
    """The version that a file of the folder of manifests is, None where it is none."""
    match = _MANIFEST.fullmatch(name)
    return int(match[1]) if match else None


def data_path(table: str, date: str, cluster: str, name: str) -> str:
    """Where a file of rows lies; whatever a cluster is called, it is one folder.

    >>> data_path("op", "2026-11-25", "lab/2", "5-0")
    'data/op/date=2026-11-25/cluster=lab%2F2/5-0.parquet'
    """
    return f"{DATA}/{table}/date={date}/cluster={quote(cluster[:100], safe='')[:300] or '%'}/{name}.parquet"


def written_for(path: str) -> int:
    """The version of the manifest that a file of rows was written for; 0 where its name does not tell.

    >>> written_for("data/op/date=2026-11-25/cluster=lab/5-0.parquet")
    5
    """
    number = path.rsplit("/", 1)[-1].partition("-")[0]
    return int(number) if number.isdecimal() and len(number) <= 18 else 0


def encode(manifest: Manifest) -> bytes:
    """``manifest`` as it lies in the archive."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return packer.compress(msgspec.json.encode(manifest)) + packer.flush()


def decode(data: bytes) -> Manifest:
    """The manifest in ``data``.

    Raises:
        ManifestError: it is damaged, of a later version, or names files that are not an archive's.
    """
    try:
        unpacker = zlib.decompressobj(31)
        text = unpacker.decompress(data, MOST_BYTES)
        if unpacker.unconsumed_tail or not unpacker.eof:
            raise ManifestError("it is cut off, or too large")
        version = json_decoder(_Version).decode(text).format
        if version > FORMAT:
            raise ManifestError(
                f"it is of format {version}, and this version of Paceline reads {FORMAT}: use the version that wrote it"
            )
        manifest = json_decoder(Manifest).decode(text)
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ManifestError(f"it is damaged ({error})") from error
    for path in (*(file.path for file in manifest.files), *(gone.path for gone in manifest.gone)):
        if not _DATA_PATH.fullmatch(path):
            raise ManifestError(f"it names a file that is none of an archive's: {path[:100]!r}")
    for name in manifest.offsets:
        if not re.fullmatch(r"[^/]+/[0-9]{1,9}", name):
            raise ManifestError(f"it names a partition {name[:100]!r}")
    return manifest
