"""Shipping: a thread that turns marks into rows and sends them to the sidecar, five times a second.

Rule of this file: it shares the interpreter's lock with training, so it works in short turns and sleeps in between. A
sidecar that is gone ends the timing without a word: the command that started it says so once, for all ranks.
"""

import os
import socket
import threading
import time
from collections.abc import Callable

from paceline.training import marks
from paceline.training.device import DeviceClock
from paceline.training.ledger import Ledger
from paceline.training.links import Links
from paceline.training.messages import Bye, Hello, LinkReport, Message, encoder
from paceline.training.probe import Mark, Probe
from paceline.training.rows import Rows
from paceline.training.runqueue import RunQueue
from paceline.training.timeline import Timeline

EVERY_S = 0.2
LINKS_EVERY_S = 1.0
#: Marks turned into rows without pause: well under 0.3 ms.
TURN = 100
#: How long to try to reach a sidecar that is not there yet, and how long to wait for the device to be known.
CONNECT_S = 10.0
HELLO_AFTER_S = 15.0
#: A wall clock that has moved this far was set; times follow it.
CLOCK_SET_NS = 50_000_000

#: How long the last turn waits for the device to get to what was recorded.
DEVICE_S = 1.0


class Shipping:
    """Sends what ``probe`` holds to the sidecar at ``path`` until ``finish``."""

    def __init__(
        self, probe: Probe, path: str, hello: Callable[[], Hello], links: Links, *, patience_s: float = 0.0
    ) -> None:
        self._probe = probe
        self._path = path
        self._hello = hello
        self._links = links
        #: How long the end waits for a sidecar that has only just been started.
        self._patience_s = patience_s
        self._rows = Rows()
        self.timeline = Timeline(self._rows, Ledger(self._rows))
        self.clock: DeviceClock | None = None
        self._queue = RunQueue(probe.task)
        self._offset_ns = time.time_ns() - time.perf_counter_ns()
        self._socket: socket.socket | None = None
        self._greeted = False
        self._started = time.monotonic()
        self._hello_at = self._started + HELLO_AFTER_S
        self._links_at = 0.0
        self._stopping = threading.Event()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name="paceline", daemon=True)

    def start(self) -> None:
        """Begin shipping."""
        self._thread.start()

    def use(self, clock: DeviceClock) -> None:
        """Spans are timed on a device from now on."""
        self.clock, self.timeline.device_clock = clock, True

    def finish(self, timeout_s: float = 2.0) -> None:
        """Send the rest and say goodbye, within ``timeout_s`` and what patience there is."""
        if self._pid != os.getpid():
            return
        self._stopping.set()
        self._thread.join(timeout_s + self._patience_s)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(EVERY_S) and not self._probe.off:
                self._turn()
            if not self._probe.off:
                self._last_turn()
        except OSError:
            self._probe.stop()
        except Exception as error:
            self._probe.fail(error)
        finally:
            if self._socket is not None:
                self._socket.close()

    def _turn(self) -> None:
        if not self._connected():
            return
        self._digest()
        self._send(self._link())

    def _last_turn(self) -> None:
        self._hello_at = 0.0
        deadline = time.monotonic() + self._patience_s
        while not self._connected():
            if time.monotonic() > deadline:
                return
            time.sleep(0.02)
        self._digest()
        deadline = time.monotonic() + DEVICE_S
        while self.clock is not None and self.clock.waiting and time.monotonic() < deadline:
            time.sleep(0.005)
            self._feed([])
        self.timeline.end()
        self._send(None)
        self._put(Bye(ended_s=time.time()))

    def _connected(self) -> bool:
        """Whether the sidecar knows us. It is told once our device is known, or soon."""
        if self._socket is None:
            found = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            found.settimeout(1.0)
            try:
                found.connect(self._path)
            except (FileNotFoundError, ConnectionRefusedError):
                found.close()
                if time.monotonic() - self._started > CONNECT_S:
                    raise
                return False
            self._socket = found
        if not self._greeted:
            if self._probe.device is None and time.monotonic() < self._hello_at:
                return False
            self._greeted = True
            self._put(self._hello())
        return True

    def _digest(self) -> None:
        ring = self._probe.ring
        ring.append((time.perf_counter_ns(), marks.QUEUED, self._queue.read()))
        left = len(ring)
        while left > 0:
            turn = [ring.popleft() for _ in range(min(left, TURN))]
            left -= len(turn)
            self._feed(turn)
            time.sleep(0.0005)

    def _feed(self, found: list[Mark]) -> None:
        feed = self.timeline.feed
        for mark in self.clock.translate(found) if self.clock is not None else found:
            feed(mark[0], mark[1], mark[2])

    def _send(self, link: LinkReport | None) -> None:
        drift = time.time_ns() - time.perf_counter_ns() - self._offset_ns
        if abs(drift) > CLOCK_SET_NS:
            self._offset_ns += drift
        lost, self._probe.lost = self._probe.lost, 0
        for report in self._rows.take(self._offset_ns, link, lost):
            self._put(report)

    def _link(self) -> LinkReport | None:
        now = time.monotonic()
        if now - self._links_at < LINKS_EVERY_S:
            return None
        self._links_at = now
        return self._links.sample()

    def _put(self, message: Message) -> None:
        if self._socket is not None:
            self._socket.send(encoder.encode(message))
