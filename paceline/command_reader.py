"""The reader of commands: a thread follows the topic, and who owns the reader answers in its own thread.

Rule of this file: a door. Nothing waits for it: the thread holds a bounded number of commands until ``turn`` takes
them, and a reader without brokers is silent. Whether a command is obeyed is ``command_rules``' affair.
"""

import queue
import threading
import time
from collections.abc import Callable, Collection

from paceline import wire
from paceline.command_rules import CLOCKS_APART_S, LONGEST_S, CommandRules
from paceline.events import AuditEntry, Command
from paceline.kafka.follow import Follower, Start
from paceline.kafka.settings import BrokerSettings
from paceline.supervised import SupervisedThread
from paceline.topics import AUDIT, COMMAND, Topic

#: What has not expired is younger than this.
LOOK_BACK_S = LONGEST_S + CLOCKS_APART_S
#: Commands on their way from the thread to its owner, and those that one turn takes.
MOST_WAITING, MOST_A_TURN = 256, 100
#: A flood costs this pause every few hundred messages, and is passed over where so many of them are behind.
PAUSE_S, MOST_BEHIND = 0.1, 50_000


class CommandReader:
    """Reads the commands on the brokers of ``settings`` for ``rules``, and gives what came of them to ``publish``.

    It reads from the first ``turn`` on that has a target. ``on_lost`` is called once, with why no commands can be read.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        client_id: str,
        rules: CommandRules,
        publish: Callable[[Topic, AuditEntry], None],
        on_lost: Callable[[str], None] = lambda cause: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._client_id, self._rules = settings, client_id, rules
        self._publish, self._clock = publish, clock
        self._on_lost = on_lost
        self._targets: Collection[str] = frozenset()
        self._waiting: queue.Queue[Command] = queue.Queue(MOST_WAITING)
        self._stop = threading.Event()
        self._thread = SupervisedThread("the reader of commands", self._follow, self._stop)

    def turn(self, targets: Collection[str]) -> None:
        """Answer what has come for ``targets``; never waits."""
        self._targets = targets
        if targets:
            self._thread.start()
        for _ in range(MOST_A_TURN):
            try:
                command = self._waiting.get_nowait()
            except queue.Empty:
                return
            entry = self._rules.judge(command, self._clock(), targets)
            if entry is not None:
                self._publish(AUDIT, entry)

    def close(self, timeout_s: float = 1.0) -> None:
        """Read no more; a thread that hangs is left behind after ``timeout_s``."""
        self._thread.stop(timeout_s)

    def _follow(self) -> None:
        with Follower(
            self._settings,
            {COMMAND: Start(seconds=LOOK_BACK_S)},
            self._client_id,
            resume=True,
            seldom=True,
            most_behind={COMMAND: MOST_BEHIND},
            on_lost=self._on_lost,
            stop=self._stop,
        ) as follower:
            while not self._stop.is_set():
                polled = follower.poll()
                self._thread.well()
                for value in (record.value for _, records in polled for record in records):
                    self._hand_on(value or b"")
                if polled:
                    self._stop.wait(PAUSE_S)

    def _hand_on(self, value: bytes) -> None:
        """Give a command for one of our targets to the owner, waiting until it has room for it."""
        try:
            command = wire.decode(COMMAND, value)
        except wire.WireError:
            return  # Whom it was meant for cannot be told, so nobody answers: who asked is told that nobody did.
        if command.cluster != self._rules.reader.cluster or command.target not in self._targets:
            return
        while not self._stop.is_set():
            try:
                self._waiting.put(command, timeout=PAUSE_S)
            except queue.Full:
                continue
            return
