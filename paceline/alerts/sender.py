"""A door: one thread a destination, so that a slow one keeps no other waiting.

Rule of this file: it holds one message at a time and decides nothing. A thread that hangs is left behind when the
command ends.
"""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from . import letter, mail, payloads, post, program
from .message import Message
from .outcome import NotDeliveredError, RefusedError
from .target import Target

Deliver = Callable[[Message], None]


class Outcome(NamedTuple):
    """What became of a message: no error, it has arrived."""

    message: Message
    error: NotDeliveredError | RefusedError | None


class Sender:
    """Calls ``deliver`` for each message that it is given."""

    def __init__(self, name: str, deliver: Deliver) -> None:
        self._deliver = deliver
        self._given: queue.Queue[Message] = queue.Queue(1)
        self._outcomes: queue.Queue[Outcome] = queue.Queue(1)
        threading.Thread(target=self._run, name=f"alerts to {name}", daemon=True).start()

    def give(self, message: Message) -> None:
        """Send ``message``; the one before has had its outcome."""
        self._given.put_nowait(message)

    def outcome(self) -> Outcome | None:
        """What became of the message, once that is known."""
        try:
            return self._outcomes.get_nowait()
        except queue.Empty:
            return None

    def _run(self) -> None:
        while True:
            message = self._given.get()
            try:
                self._deliver(message)
                outcome = Outcome(message, None)
            except (NotDeliveredError, RefusedError) as error:
                outcome = Outcome(message, error)
            except Exception as error:  # A thread that died would be a destination that is silent for ever.
                outcome = Outcome(message, NotDeliveredError(f"failed ({type(error).__name__})", reached=True))
            self._outcomes.put(outcome)


def deliverer(target: Target, login: mail.Login, page: str, environ: Mapping[str, str]) -> Deliver:
    """What sends a message to ``target``."""

    def deliver(message: Message) -> None:
        if target.kind == "mail":
            mail.send(target, login, letter.compose(message, target.sender, target.recipients, page, time.time()))
        elif target.kind == "command":
            program.run(target.command, body(target, message, page), environ)
        else:
            post.post(target, body(target, message, page))

    return deliver


def body(target: Target, message: Message, page: str) -> bytes:
    """What ``target`` is sent of ``message``: JSON, or a letter as it is on its way."""
    match target.kind:
        case "alertmanager":
            return payloads.alertmanager(message, page)
        case "slack":
            return payloads.slack(message, page)
        case "mail":
            return letter.compose(message, target.sender, target.recipients, page, time.time()).as_bytes()
        case _:
            return payloads.webhook(message, page)
