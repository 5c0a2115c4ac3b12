"""What a report or a comparison is asked for by name: a recording, a session, or a job of an archive.

Rule of this file: it decides which of them a name is, by what is there; reading is done by ``report_source`` and
``archive_source``.
"""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.control_access import sessions_folder
from paceline.install import install
from paceline.settings import ARCHIVE

from .report_source import Source, SourceError

if TYPE_CHECKING:
    from .archive_source import ArchiveSource

#: Endings of recordings: a name with one is a file, there or not.
_ENDINGS = (".jsonl", ".gz", ".zst", ".json")


def add_archive_option(parser: argparse.ArgumentParser) -> None:
    """Where jobs are looked for that are no file and no session."""
    parser.add_argument(
        "--archive", metavar="WHERE", help=f"a folder or s3://BUCKET/PREFIX of `paceline archive`: {ARCHIVE.name}"
    )


def opened(name: str, archive: str | None, most_unpacked: int) -> "Source | ArchiveSource":
    """What ``name`` is: a recording or a session's folder, a session of this machine, or a job of the archive.

    Raises:
        SourceError: nothing is called so, and no archive is named.
    """
    path = recorded(name)
    if path is not None:
        return Source(path, most_unpacked)
    where = archive or ARCHIVE.read(os.environ)
    if not where:
        raise SourceError(
            f"{name} is no recording and no session of this machine; for a job that is over name an archive: "
            f"--archive WHERE, or {ARCHIVE.name}"
        )
    return archived(where, job=name)


def recorded(name: str) -> str | None:
    """Where the recording or the session's folder is that is called ``name``; None where it is neither."""
    if name == "-" or Path(name).exists() or name.endswith(_ENDINGS):
        return name
    session = sessions_folder(os.environ) / name
    return str(session) if "/" not in name and session.is_dir() else None


def archived(where: str, *, job: str = "", cluster: str = "", since_s: float = 0.0) -> "ArchiveSource":
    """A job, or a cluster from ``since_s`` on, of the archive at ``where``.

    Raises:
        SourceError: what reads an archive is not installed.
    """
    try:
        from .archive_source import ArchiveSource
    except ModuleNotFoundError as error:
        raise SourceError(f"reading an archive needs {error.name}; {install('history')}") from error
    return ArchiveSource(where, job, cluster, since_s)
