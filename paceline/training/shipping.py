"""Shipping: a thread that sends what the hooks wrote down to the sidecar, five times a second.

Rule of this file: it shares the interpreter's lock with training, so it only copies and encodes; what the marks mean
is the sidecar's to find out. A sidecar that is slow is waited for by nobody: marks stay in their ring. One that died is
looked for again for a while, and its successor is sent what is not known to be safe; then the timing ends without a
word: the command that started it says so once, for all ranks.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from paceline.training import marks
from paceline.training.balance_link import BalanceLink
from paceline.training.capturing import FORKS, Capturing, captures_on
from paceline.training.device_clock import DeviceClock
from paceline.training.failure_messages import Failed, encode_failed
from paceline.training.links import TcpLinks
from paceline.training.look_messages import decode_look, encode_looked
from paceline.training.looking import look
from paceline.training.messages import (
    LEARNED,
    MOST_HELLOS,
    Bye,
    Hello,
    LinkReport,
    Marks,
    RankMessage,
    decode_settled,
    encode,
)
from paceline.training.probe import Mark, Probe
from paceline.training.runqueue import RunQueue
from paceline.training.socket_path import short_path
from paceline.training.unsettled import Unsettled

EVERY_S = 0.2
#: ... and this often in a window without the probe, for the sidecar's words and the marks that are left.
OFF_EVERY_S = 1.0
LINKS_EVERY_S = 1.0
#: Marks in one message: some 90 bytes each at the widest, so that it fits the socket's buffer.
MOST = 500
#: How long to try to reach a sidecar that is not there yet, and how long to wait for the device to be known.
CONNECT_S = 10.0
HELLO_AFTER_S = 15.0
#: How long to look for the successor of a sidecar that died, and how long of that at the end of training.
AGAIN_S = 60.0
AGAIN_AT_END_S = 1.0
#: A sidecar that hangs up so soon after the hello, with nothing of it safe, and this often in a row, takes no word of
#: this rank: to come again would only cost training.
REFUSED_S, MOST_REFUSED = 2.0, 5
#: The largest message of a sidecar; and where plans are waited for, one of which has a number a rank.
_MOST_BYTES = 4096
_MOST_PLAN_BYTES = 131_072
#: A wall clock that has moved this far was set; times follow it.
CLOCK_SET_NS = 50_000_000

#: How long the last turn waits for the device to get to what was recorded, and for the sidecar to take it.
DEVICE_S = 1.0
FULL_S = 1.0


class Shipping:
    """Sends what ``probe`` holds to the sidecar at ``path`` until ``finish``."""

    def __init__(
        self,
        probe: Probe,
        path: str,
        hello: Callable[[], Hello],
        links: TcpLinks,
        known: Callable[[], object] = lambda: None,
        ready: Callable[[], bool] = lambda: True,
        *,
        balance: BalanceLink | None = None,
        patience_s: float = 0.0,
    ) -> None:
        self._probe = probe
        self._path = path
        self._hello = hello
        self._links = links
        #: What is known of this rank, which may become more; what it was when the last hello was said; hellos so far.
        self._known = known
        #: Whether the first hello can be said: what it says never changes is known.
        self._ready = ready
        self._told: object = None
        self._hellos = 0
        self._balance = balance or BalanceLink()
        self._capturing = Capturing(probe, on=captures_on())
        #: How long the end waits for a sidecar that has only just been started.
        self._patience_s = patience_s
        self.clock: DeviceClock | None = None
        self._queue = RunQueue(probe.task)
        self._offset_ns = time.time_ns() - time.perf_counter_ns()
        self._socket: socket.socket | None = None
        self._unsent: deque[bytes] = deque()
        self._unsettled = Unsettled()
        #: The exception that ends this process.
        self._failed: Failed | None = None
        self._said: Hello | None = None
        self._greeted = False
        #: When the latest hello was sent, unless something was safe since, and hang-ups in a row that came too soon.
        self._greeted_at = -math.inf
        self._refused = 0
        now = time.monotonic()
        self._connect_until = now + CONNECT_S
        self._hello_at = now + HELLO_AFTER_S
        self._links_at = 0.0
        self._stopping = False
        self._awake = threading.Event()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name="paceline", daemon=True)

    def start(self) -> None:
        """Begin shipping."""
        self._thread.start()

    def use(self, clock: DeviceClock) -> None:
        """Spans are timed on a device from now on."""
        self.clock = clock

    def finish(self, failed: Failed | None = None, timeout_s: float = 2.0) -> None:
        """Send the rest, and what has ``failed``, and say goodbye, within ``timeout_s`` and what patience there is."""
        if self._pid != os.getpid():
            return
        self._failed = failed
        self._stopping = True
        self._capturing.end()
        self._awake.set()
        self._thread.join(timeout_s + self._patience_s)

    def wake(self) -> None:
        """Take the next turn now: a window has ended, and what is left belongs to the time before."""
        self._awake.set()

    def forks(self) -> None:
        """This process is about to fork."""
        self._capturing.end(FORKS)

    def leave_child(self) -> None:
        """In a forked child: let go of the socket, or the sidecar would not hear the parent end before the child."""
        if self._socket is not None:
            self._socket.close()
        self._queue.close()

    def _run(self) -> None:
        try:
            while self._wait():
                try:
                    self._turn()
                except OSError:
                    if self._socket is None:
                        raise
                    self._disconnect()
            if not self._probe.stopped:
                self._last_turn()
        except OSError:
            self._probe.stop()
        except Exception as error:
            self._probe.fail(error)
        finally:
            self._queue.close()
            if self._socket is not None:
                self._socket.close()

    def _wait(self) -> bool:
        """Wait for the next turn; whether it is not the last."""
        alternation = self._probe.alternation
        rests = alternation is not None and alternation.rests
        self._awake.wait(OFF_EVERY_S if rests else EVERY_S)
        self._awake.clear()
        return not (self._stopping or self._probe.stopped)

    def _turn(self) -> None:
        alternation = self._probe.alternation
        if alternation is not None and self._probe.off:
            alternation.look()
        if self._connected() and self._flush():
            self._hear()
            self._queued()
            rests = self._probe.off and (alternation is None or alternation.rests)
            self._pass_on(None if rests else self._link())
            self._balanced()

    def _last_turn(self) -> None:
        self._hello_at = 0.0
        deadline = time.monotonic() + (AGAIN_AT_END_S if self._said is not None else self._patience_s)
        while not self._connected():
            if time.monotonic() > deadline:
                return
            time.sleep(0.02)
        if self._socket is not None:
            self._socket.settimeout(FULL_S)
        self._flush()
        self._queued()
        self._pass_on(None)
        deadline = time.monotonic() + DEVICE_S
        while self.clock is not None and self.clock.waiting and time.monotonic() < deadline:
            time.sleep(0.005)
            self._pass_on(None)
        self._balanced()
        if self._failed is not None:
            self._unsent.append(encode_failed(self._failed))
        self._put(Bye(ended_s=time.time()))

    def _connected(self) -> bool:
        """Whether the sidecar knows us. It is told once our device is known, or soon."""
        if self._socket is None:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            connection.settimeout(1.0)
            try:
                with short_path(self._path) as path:
                    connection.connect(path)
                connection.setblocking(False)
            except (FileNotFoundError, ConnectionRefusedError):
                connection.close()
                if time.monotonic() > self._connect_until:
                    raise
                return False
            self._socket = connection
        if not self._greeted:
            unknown = self._probe.device is None or self._probe.captures.graphs  # which must not be asked what it is
            if unknown and time.monotonic() < self._hello_at:
                return False
            if not (self._stopping or self._ready()):
                return False
            self._greeted, self._greeted_at = True, time.monotonic()
            self._greet()
        elif self._said is not None and self._told != self._known() and not self._probe.captures.graphs:
            self._greet_again(self._said)
        return True

    def _greet(self) -> None:
        """Say who we are; to the successor of a sidecar that died, as before, and what that one may not have told."""
        self._hellos = 1
        self._balance.connect()
        if self._said is None:
            self._told = self._known()
            self._said = self._hello()
            self._put(self._said)
            return
        place, again, lost = self._unsettled.again()
        self._put(replace(self._said, place=place))
        if again or lost:
            self._send_marks(again, None, lost)

    def _greet_again(self, before: Hello) -> None:
        """Something is known by now that was not: the device of a rank whose first backward came late, say."""
        self._told, said = self._known(), self._hello()
        again = replace(before, **{name: getattr(said, name) for name in LEARNED})
        if again != before and self._hellos < MOST_HELLOS:
            self._hellos += 1
            self._said = again
            self._put(again)

    def _hear(self) -> None:
        """Take in what the sidecar says is safe.

        Raises:
            OSError: it has gone.
        """
        while self._socket is not None:
            try:
                told = self._socket.recv(_MOST_PLAN_BYTES if self._balance.awaits else _MOST_BYTES)
            except (BlockingIOError, TimeoutError):
                return
            if not told:
                raise ConnectionResetError
            settled = decode_settled(told)
            if settled is not None:
                self._unsettled.settle(settled)
                self._greeted_at, self._refused = -math.inf, 0
            else:
                self._balance.hear(told)
                self._capturing.hear(told)
                self._answer(decode_look(told))

    def _answer(self, number: int | None) -> None:
        """Tell a sidecar that asks where the thread that trains is."""
        if number is not None:
            self._unsent.append(encode_looked(look(self._probe, number)))
            self._flush()

    def _disconnect(self) -> None:
        """The sidecar has gone: hear what it said last, and look for another from the next turn on.

        Raises:
            RuntimeError: it goes whenever this rank comes.
        """
        for _ in range(2):  # What a connection died of is told before what still lies in it.
            with contextlib.suppress(OSError):
                self._hear()
        if self._socket is not None:
            self._socket.close()
        self._socket, self._greeted = None, False
        self._unsent.clear()
        now = time.monotonic()
        self._connect_until = now + AGAIN_S
        self._refused = self._refused + 1 if now - self._greeted_at < REFUSED_S else 0
        if self._refused >= MOST_REFUSED:
            raise RuntimeError(f"the sidecar hung up {self._refused} times on what this rank sends")

    def _queued(self) -> None:
        """Close what there is with how long the training thread, and what launches for it, waited for a processor."""
        self._queue.follow(self._probe.task)
        waited = self._queue.read(on_device=self.clock is not None)
        self._probe.ring.append((time.perf_counter_ns(), marks.QUEUED, waited))

    def _balanced(self) -> None:
        """Send what a balancer in this process has to tell."""
        self._unsent.extend(self._balance.due(time.monotonic()))
        self._flush()

    def _pass_on(self, link: LinkReport | None) -> None:
        """Send what the ring holds, ``MOST`` marks at a time, until the sidecar has had enough."""
        drift = time.time_ns() - time.perf_counter_ns() - self._offset_ns
        if abs(drift) > CLOCK_SET_NS:
            self._offset_ns += drift
        if self.clock is not None:
            self.clock.adopt_thread()
        ring = self._probe.ring
        left = len(ring)
        while True:
            begin_ns = time.thread_time_ns()
            marked: list[Mark] = [ring.popleft() for _ in range(min(left, MOST))]
            left = min(left - len(marked), len(ring))  # The training thread may have trimmed it meanwhile.
            due = self.clock.translate(marked) if self.clock is not None else marked
            lost, self._probe.lost = self._probe.lost, 0
            sent = True
            if due or link is not None or lost:
                self._unsettled.add(due, lost)
                sent = self._send_marks(due, link, lost)
            self._probe.taken += len(marked)
            self._probe.taking_ns += time.thread_time_ns() - begin_ns
            if not sent:
                return
            link = None
            if not left:
                return

    def _send_marks(self, due: list[Mark], link: LinkReport | None, lost: int) -> bool:
        """Send ``due`` in messages that fit the socket: a device may get to thousands of marks between two turns."""
        on_device, sent = self.clock is not None, True
        for begin in range(0, max(len(due), 1), MOST):
            some = due[begin : begin + MOST]
            sent = self._put(Marks(marks=some, offset_ns=self._offset_ns, on_device=on_device, link=link, lost=lost))
            link, lost = None, 0
        return sent

    def _link(self) -> LinkReport | None:
        now = time.monotonic()
        if now - self._links_at < LINKS_EVERY_S:
            return None
        self._links_at = now
        return self._links.sample()

    def _put(self, message: RankMessage) -> bool:
        """Send ``message``, or keep it for the next turn where the sidecar has no room; whether it has gone."""
        self._unsent.append(encode(message))
        return self._flush()

    def _flush(self) -> bool:
        """Whether nothing is left to send."""
        while self._unsent and self._socket is not None:
            try:
                self._socket.send(self._unsent[0])
            except (BlockingIOError, TimeoutError):
                return False
            self._unsent.popleft()
        return True
