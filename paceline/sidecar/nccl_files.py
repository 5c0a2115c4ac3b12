"""The files that NCCL Inspector writes beside this node's ranks, followed while they grow.

Rule of this file: the door, and it never waits. A file is known by the name that the plugin gives it, so a folder may
hold any number of others; it is read only if it is a regular file of our own user, a few MiB at a time. Lines may come
in pieces, be longer than any real one, or not be text at all.

What has been read is given back to the disk where the folder is ours: the plugin only ever adds, keeps its file open,
and would fill the disk in the course of a long run. Where it is the user's, nothing is changed, and what a file held
when we came is of another run.
"""

import contextlib
import ctypes
import errno
import itertools
import os
import stat
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path

from paceline.nccl_inspector.calls import Call, FileCalls

#: Read from one file, and from all, in one look; so much may be left unread before most of it is passed over.
CHUNK_BYTES = 1 << 20
LOOK_BYTES = 4 << 20
MOST_BEHIND_BYTES = 64 << 20
#: Lines of one look: so many real ones are no longer than ``LOOK_BYTES``.
LOOK_LINES = 20_000
#: A verbose line of a collective on 64 channels has some 15 kB.
LONGEST_LINE = 256 * 1024
#: Files that are followed, and names that are looked through in a folder of the user's.
MOST_FILES = 256
MOST_NAMES = 20_000
#: Read bytes are given back in pieces of so many.
GIVE_BACK_BYTES = 1 << 20
_PAGE = 4096
#: Flags of fallocate(2).
_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02
_TOO_LONG = "lines longer than any of NCCL Inspector's"


class _File:
    """One file: how far it has been read, the lines that wait, and the piece of one after them."""

    def __init__(self, fd: int, identity: tuple[int, int], offset: int) -> None:
        self.fd = fd
        self.identity = identity
        self.waiting: deque[bytes] = deque()
        self.calls = FileCalls()
        self.given_back = offset
        self.jump(offset)

    def jump(self, offset: int) -> None:
        """Go on at ``offset``, which may be in the middle of a line."""
        self.offset, self.piece = offset, b""
        #: Inside a line that is passed over.
        self.skipping = offset > 0 and os.pread(self.fd, 1, offset - 1) != b"\n"
        self.calls.restart()

    def append(self, data: bytes) -> None:
        """Take in what follows."""
        *whole, last = (self.piece + data).split(b"\n")
        if self.skipping and whole:
            self.skipping, whole = False, whole[1:]
        self.piece = b"" if self.skipping else last
        if len(self.piece) > LONGEST_LINE:
            self.calls.drop(_TOO_LONG)
            self.piece, self.skipping = b"", True
        self.waiting.extend(whole)


class NcclFiles:
    """The files in ``folder`` of the processes that are asked for, as ``host`` names them; if ``ours``, they may be
    emptied."""

    def __init__(self, folder: Path, host: str, *, ours: bool) -> None:
        self._folder = folder
        self._host = host
        self._ours = ours
        self._files: dict[int, _File] = {}
        #: Sizes of the files that were there before us, where others may have put them.
        self._sizes = {} if ours else _sizes(folder, host)
        self._looks = 0
        self._dropped: Counter[str] = Counter()
        #: Whether there was any file to read.
        self.found = False
        #: Names of files that are not read, and why; bytes passed over; whether read ones could not be given back.
        self.refused: dict[str, str] = {}
        self.bytes_skipped = 0
        self.keeps_read = False

    def look(self, pids: Sequence[int]) -> list[Call]:
        """What has been added to the files of ``pids``; of many processes, those at the end count."""
        wanted = list(pids[-MOST_FILES:])
        for pid in self._files.keys() - set(wanted):
            self._close(pid)
        self._looks += 1
        first = self._looks % len(wanted) if wanted else 0  # Whoever writes most must not be the only one read.
        calls: list[Call] = []
        bytes_left, lines_left = LOOK_BYTES, LOOK_LINES
        for pid in wanted[first:] + wanted[:first]:
            file = self._follow(pid)
            if file is None:
                continue
            if not file.waiting and bytes_left > 0:
                data = self._read(file, min(CHUNK_BYTES, bytes_left))
                bytes_left -= len(data)
                file.append(data)
            while file.waiting and lines_left > 0:
                lines_left -= 1
                call = self._call(file, pid, file.waiting.popleft())
                if call is not None:
                    calls.append(call)
        return calls

    def dropped(self) -> Counter[str]:
        """What was left out so far, by reason."""
        return sum((file.calls.dropped for file in self._files.values()), Counter(self._dropped))

    def close(self) -> None:
        """Let go of all files."""
        for pid in list(self._files):
            self._close(pid)

    def _call(self, file: _File, pid: int, line: bytes) -> Call | None:
        line = line.strip(b"\0 \t\r")  # What was given back, or cut off, reads as zeros.
        if not line:
            return None
        if len(line) > LONGEST_LINE:
            file.calls.drop(_TOO_LONG)
            return None
        call = file.calls.read(line)
        if call is not None and (call.pid != pid or call.host != self._host):
            file.calls.drop("collectives of another process than the file's")
            return None
        return call

    def _follow(self, pid: int) -> _File | None:
        """The file of ``pid``; another that has taken its name is followed once it has been read to its end."""
        file = self._files.get(pid)
        if file is None:
            return self._open(pid)
        if file.waiting or os.fstat(file.fd).st_size != file.offset:
            return file
        try:
            found = os.stat(self._path(pid), follow_symlinks=False)
        except OSError:
            return file
        if (found.st_dev, found.st_ino) == file.identity:
            return file
        self._close(pid)
        return self._open(pid)

    def _path(self, pid: int) -> Path:
        """As ``inspectorStateDumpJSON`` names it, in all formats."""
        return self._folder / f"{self._host}-pid{pid}.log"

    def _open(self, pid: int) -> _File | None:
        path = self._path(pid)
        flags = (os.O_RDWR if self._ours else os.O_RDONLY) | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            fd = os.open(path, flags)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                self._refuse(path, "a link" if error.errno == errno.ELOOP else error.strerror or "cannot be opened")
            return None
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            os.close(fd)
            self._refuse(path, "another user's" if stat.S_ISREG(found.st_mode) else "no regular file")
            return None
        self.found = True
        before = self._sizes.pop(path.name, 0)
        offset = _data_from(fd, 0) if self._ours else before if found.st_size >= before else 0
        file = self._files[pid] = _File(fd, (found.st_dev, found.st_ino), offset)
        return file

    def _refuse(self, path: Path, why: str) -> None:
        if len(self.refused) < MOST_FILES:
            self.refused[path.name] = why

    def _read(self, file: _File, most: int) -> bytes:
        try:
            size = os.fstat(file.fd).st_size
            if size < file.offset:  # Cut, and begun again.
                file.jump(0)
                file.given_back = 0
            if size - file.offset > MOST_BEHIND_BYTES:
                self._catch_up(file, size)
            data = os.pread(file.fd, most, file.offset)
        except OSError:
            return b""
        file.offset += len(data)
        if self._ours and file.offset - file.given_back >= GIVE_BACK_BYTES:
            until = file.offset - file.offset % _PAGE
            self.keeps_read |= not _give_back(file.fd, file.given_back, until - file.given_back)
            file.given_back = until
        return data

    def _catch_up(self, file: _File, size: int) -> None:
        """Pass over a hole, and over what is too much."""
        data_from = _data_from(file.fd, file.offset)
        if size - data_from > MOST_BEHIND_BYTES:
            self.bytes_skipped += size - CHUNK_BYTES - data_from
            data_from = size - CHUNK_BYTES
        file.jump(data_from)

    def _close(self, pid: int) -> None:
        file = self._files.pop(pid)
        self._dropped += file.calls.dropped
        with contextlib.suppress(OSError):
            os.close(file.fd)


def _sizes(folder: Path, host: str) -> dict[str, int]:
    """The files in ``folder`` that ``host`` may have written, with their sizes."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in itertools.islice(entries, MOST_NAMES):
            if entry.name.startswith(host) and entry.is_file(follow_symlinks=False):
                found[entry.name] = entry.stat(follow_symlinks=False).st_size
    return found


def _data_from(fd: int, offset: int) -> int:
    """Where the first bytes from ``offset`` on are that are no hole."""
    try:
        return os.lseek(fd, offset, os.SEEK_DATA)
    except OSError:
        return offset


def _give_back(fd: int, offset: int, length: int) -> bool:
    """Free the disk of these bytes, which read as zeros from then on; whether the file system can."""
    libc = ctypes.CDLL(None)
    mode = ctypes.c_int(_KEEP_SIZE | _PUNCH_HOLE)
    return bool(libc.fallocate(ctypes.c_int(fd), mode, ctypes.c_int64(offset), ctypes.c_int64(length)) == 0)
