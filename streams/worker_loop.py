"""Workers one after the other: each goes on from what is stored where the last one could not.

Rule of this file: a worker that ended is followed by another one in this process. One that hangs cannot be ended: the
whole process is replaced, for whoever started it the same one, with the same arguments.
"""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable

from paceline.command_rules import Reader
from paceline.kafka.errors import BusError

from .command_door import CommandDoor
from .faust_app import CHANGELOG, NEEDED, SOURCES
from .joining import AGAIN_S, joined, odd
from .watchdog import Watchdog
from .worker import Worker, WorkerError, WorkerSetup

#: A worker that fails sooner than this after its start has not done any work: the next try waits a little.
SOON_S = 10.0
#: Set for a worker that takes the place of one that hung: how often that has been.
TAKEN_OVER = "_PACELINE_STREAMS_TAKEN_OVER"


class WorkerLoop:
    """Runs workers with ``setup`` until one is stopped."""

    def __init__(self, setup: WorkerSetup, reader: Reader, *, obeys: bool, say: Callable[[str], None]) -> None:
        self._setup, self._say = setup, say
        self._reader, self._obeys = reader, obeys
        self._restarts = taken_over()
        self._worker: Worker | None = None
        self._watchdog = Watchdog(self._overdue)

    def run(self, wait_s: float) -> int:
        """The exit status: 0 once a worker was stopped, 1 where no broker is reached in ``wait_s`` seconds.

        Raises:
            SettingError: the web port is taken.
        """
        settings = self._setup.settings
        commands: CommandDoor | None = None
        with contextlib.ExitStack() as stack:
            while True:
                try:
                    topics = joined(settings, wait_s, NEEDED, self._say)
                except BusError as error:
                    self._say(str(error))
                    return 1
                if problems := odd(topics, (*SOURCES, CHANGELOG)):
                    for line in problems:
                        self._say(line)
                    return 1
                if commands is None:
                    door = CommandDoor(settings, self._reader, obeys=self._obeys)
                    commands = stack.enter_context(contextlib.closing(door))
                self._worker = Worker(self._setup, topics, commands, self._restarts, self._watchdog)
                if self._ended_well(self._worker):
                    return 0

    def _ended_well(self, worker: Worker) -> bool:
        """Whether it was stopped; one that failed is reported."""
        began_s = time.monotonic()
        try:
            asyncio.run(worker.run())
        except WorkerError as error:
            self._say(f"starting again from what is stored: {error}")
            self._restarts += 1
            if time.monotonic() - began_s < SOON_S:
                time.sleep(AGAIN_S)
            return False
        finally:
            self._watchdog.done()
        return True

    def _overdue(self, what: str) -> None:
        if self._worker is not None and self._worker.stopped:
            self._say(f"ended immediately, {what}; what is not stored will be read again")
            os._exit(1)
        self._say(f"starting again from what is stored: {what}")
        os.environ[TAKEN_OVER] = str(self._restarts + 1)
        os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - ourselves, as we were started


def taken_over() -> int:
    """How often workers of this process hung before."""
    told = os.environ.get(TAKEN_OVER, "")
    return int(told) if told.isdecimal() else 0
