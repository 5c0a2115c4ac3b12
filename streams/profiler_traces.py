"""PyTorch profiler traces where a recording was expected: what they are told by, and how they become one.

Rule of this file: a door. Nothing is known here of what a trace means: the command ``import``, which another package
may offer, makes the recording.
"""

import re
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path

import zstandard

from paceline import service_modules, terminal
from paceline.__main__ import GROUP
from paceline.install import install

#: What is looked at of a file, and what stands in a trace before anything is called a topic, as a recording's lines do.
_HEAD = 1 << 18
_SIGNS = (b'"traceEvents"', b'"distributedInfo"', b'"deviceProperties"', b'"baseTimeNanoseconds"')

#: A bare list of events: its first object has a phase, before any list inside.
_EVENT = re.compile(rb'\[\s*\{[^\[\]]{0,4000}?"ph"\s*:\s*"')


class NotImportedError(Exception):
    """The traces were not imported; why has been reported, or is the message. ``status`` is the command's own."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


def is_trace(path: str) -> bool:
    """Whether the file is a profiler's trace and no recording; False where it cannot be read, or only once."""
    if not Path(path).is_file():  # a pipe can be read once
        return False
    try:
        with Path(path).open("rb") as stream:
            head = stream.read(_HEAD)
        if path.endswith(".gz"):  # what there is of it, for it may break off
            head = zlib.decompressobj(wbits=31).decompress(head, _HEAD)
        elif path.endswith(".zst"):
            head = zstandard.ZstdDecompressor().stream_reader(head).read(_HEAD)
    except (OSError, zlib.error, zstandard.ZstdError):
        return False
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):  # UTF-16: whoever reads it says so
        head = head[2:].replace(b"\0", b"")
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith(b"["):
        return _EVENT.match(head) is not None
    signs = [place for sign in _SIGNS if (place := head.find(sign)) >= 0]
    topic = head.find(b'"topic"')
    return head.startswith(b"{") and bool(signs) and (topic < 0 or min(signs) < topic)


@contextmanager
def imported(files: Sequence[str], options: Sequence[str]) -> Iterator[str]:
    """A recording of the traces ``files``, as long as it is needed.

    Raises:
        NotImportedError: there is none.
    """
    command = _command()
    if command is None:
        reason = f"{files[0]}: a PyTorch profiler trace; {install('importers')}, then paceline import kineto"
        raise NotImportedError(reason, 2)
    which = f"{files[0]}: a PyTorch profiler trace" if len(files) == 1 else f"{len(files)} PyTorch profiler traces"
    terminal.say(f"{which}, imported as by `paceline import kineto`", "paceline analyze")
    with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
        recording = str(Path(folder) / "imported.jsonl.zst")
        status = command(["kineto", *files, "-o", recording, "--quiet", *options])
        if status:
            raise NotImportedError("", status)
        yield recording


def _command() -> Callable[[list[str]], int] | None:
    for entry in entry_points(group=GROUP, name="import"):
        try:
            return service_modules.load(entry)  # type: ignore[no-any-return]
        except ModuleNotFoundError:
            return None
    return None
