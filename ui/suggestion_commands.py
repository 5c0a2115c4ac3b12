"""Accepting and dismissing: commands from all visitors of this page, sent by one producer in a thread of its own.

Rule of this file: a door. Nothing that a page does waits for the broker: ``ask`` hands a command on and returns, and
what became of it is asked later. Who may ask is the gate's to say; what comes of it, of those who read the topic.
"""

import contextlib
import queue
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from paceline import wire
from paceline.events import Command, Suggestion
from paceline.kafka.clients import Producer, producer
from paceline.kafka.errors import BusError, explained
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from paceline.settings import SettingError
from paceline.supervised import SupervisedThread
from paceline.topics import AUDIT, COMMAND

from .suggestion_book import TARGET, SentCommand
from .token_gate import TokenGate, Verdict

#: A command that nobody has heard by then is void; commands on their way; those whose way is remembered.
EXPIRES_S, MOST_WAITING, REMEMBERED = 60.0, 64, 500
#: How long the broker may take to acknowledge, and how often the thread looks whether it shall end.
ANSWER_S, LOOK_S = 10.0, 0.25
#: What a command holds at most of these.
LONGEST_REASON, LONGEST_NAME = 256, 200


class SuggestionCommands:
    """Sends commands to the brokers of ``settings``, for visitors whom ``gate`` knows."""

    def __init__(
        self,
        settings: BrokerSettings,
        gate: TokenGate,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gate, self._monotonic = gate, monotonic
        self._settings, self._clock = settings, clock
        self._queue: queue.Queue[Command] = queue.Queue(MOST_WAITING)
        self._lock = threading.Lock()
        self._sent: OrderedDict[str, SentCommand] = OrderedDict()
        self._stop = threading.Event()
        self._thread = SupervisedThread("the page's sender of commands", self._run, self._stop)

    @property
    def allowed(self) -> bool:
        """Whether anybody may ask at all: there is a token."""
        return self._gate.opens

    def unlock(self, given: str) -> Verdict:
        """Whether who gave this may ask."""
        return self._gate.judge(given, self._monotonic())

    def ask(self, suggestion: Suggestion, action: str, because: str, issuer: str) -> SentCommand:
        """Ask for ``action`` on ``suggestion``; it is on its way then, or has failed for there are too many."""
        now_s = self._clock()
        command = Command(
            id=secrets.token_hex(8),
            cluster=suggestion.cluster,
            target=f"{TARGET}{suggestion.id}",
            action=action,
            arguments={"because": because.strip()[:LONGEST_REASON]},
            expires_s=now_s + EXPIRES_S,
            issuer=issuer.strip()[:LONGEST_NAME],
        )
        self._thread.start()
        sent = SentCommand(command, "waiting", now_s)
        self._note(sent)
        try:
            wire.decode(COMMAND, wire.encode(command))
            self._queue.put_nowait(command)
        except wire.WireError as error:
            sent = SentCommand(command, "failed", now_s, f"no command: {error}")
            self._note(sent)
        except queue.Full:
            sent = SentCommand(command, "failed", now_s, "too many commands wait for the broker")
            self._note(sent)
        return sent

    def sent(self, command_id: str) -> SentCommand | None:
        """How far a command has come; None of one that is long over, or not of this process."""
        with self._lock:
            return self._sent.get(command_id)

    def stop(self) -> None:
        """Send no more, and wait for the thread."""
        self._thread.stop(2 * ANSWER_S)

    def _note(self, sent: SentCommand) -> None:
        with self._lock:
            self._sent[sent.command.id] = sent
            while len(self._sent) > REMEMBERED:
                self._sent.popitem(last=False)

    def _run(self) -> None:
        """Connect for a command and stay connected; brokers that are away fail the command that finds them so."""
        while (command := self._next()) is not None:
            try:
                ensure_topics(self._settings, (COMMAND, AUDIT))
                with contextlib.closing(producer(self._settings, "paceline-ui-commands", max_block_ms=5_000)) as client:
                    while command is not None:
                        self._send(client, command)
                        command = self._next()
            except (BusError, SettingError) as error:
                if command is not None:
                    self._note(SentCommand(command, "failed", self._clock(), str(error)))

    def _next(self) -> Command | None:
        """The next command; None when it is time to end."""
        while not self._stop.is_set():
            with contextlib.suppress(queue.Empty):
                return self._queue.get(timeout=LOOK_S)
        return None

    def _send(self, client: Producer, command: Command) -> None:
        with explained(self._settings):
            client.send(COMMAND.name, wire.encode(command), key=command.target.encode()).get(timeout=ANSWER_S)
        self._note(SentCommand(command, "sent", self._clock()))
        self._thread.well()
