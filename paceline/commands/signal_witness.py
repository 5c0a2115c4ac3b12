"""Tells a signal that was sent to us alone from one that was sent to every process of our group, or of a job's step.

Rule of this file: the kernel does not say which it was. So a second process waits beside the command, where it gets
what every process there is sent, and notes when. Without one, every signal counts as sent to us alone.
"""

import contextlib
import os
import select
import subprocess
import sys
import time

from paceline.signals import ENDING

#: Whoever signals many processes takes so long at most.
SAME_S = 0.5
#: How long the witness is waited for.
WAIT_S = 0.25
#: It ends with us: nobody else closes what it writes to, and it looks whose child it is.
_WITNESS = """
import os, signal, sys, time
numbers, parent = {int(word) for word in sys.argv[2:]}, int(sys.argv[1])
while os.getppid() == parent:
    got = signal.sigtimedwait(numbers, 1.0)
    if got is not None:
        os.write(1, b"%d %d\\n" % (got.si_signo, time.monotonic_ns()))
"""


class Witness:
    """The process. It is to be started while the signals are blocked: it inherits that."""

    def __init__(self) -> None:
        self._told = b""
        self._reader, writer = os.pipe()
        words = [sys.executable, "-I", "-S", "-c", _WITNESS, str(os.getpid()), *(str(int(number)) for number in ENDING)]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and words
                words, stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.DEVNULL, cwd="/"
            )
        except BaseException:
            os.close(self._reader)
            os.close(writer)
            raise
        try:
            os.close(writer)
        except BaseException:
            self.kill()
            raise

    def has(self, number: int) -> bool:
        """Whether it has just got signal ``number``, too."""
        deadline = time.monotonic() + WAIT_S
        while (left_s := deadline - time.monotonic()) > 0:
            if self._take(number):
                return True
            if not select.select([self._reader], [], [], left_s)[0]:
                break
            self._told += (more := os.read(self._reader, 4096))
            if not more:
                break  # It has ended.
        return self._take(number)

    def _take(self, number: int) -> bool:
        """Whether a line says so; what is too old is dropped, and so is what is taken."""
        *lines, rest = self._told.split(b"\n")
        now_ns = time.monotonic_ns()
        found = [tuple(map(int, line.split())) for line in lines]
        fresh = [(got, when_ns) for got, when_ns in found if now_ns - when_ns < SAME_S * 1e9]
        kept = [each for each in fresh if each[0] != number]
        self._told = b"".join(b"%d %d\n" % each for each in kept) + rest
        return len(kept) < len(fresh)

    def kill(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        if self._reader >= 0:
            reader, self._reader = self._reader, -1
            with contextlib.suppress(OSError):
                os.close(reader)


def started() -> Witness | None:
    """A witness; None where there can be none."""
    try:
        return Witness()
    except Exception:
        return None
