"""A rank that speaks the sidecar's protocol and nothing else, for tests: ``python rank.py RANK STEPS STATUS``."""

import os
import socket
import sys
import time

from paceline.training import marks
from paceline.training.messages import (
    SOCKET_VARIABLE,
    Bye,
    Hello,
    Issued,
    Marks,
    RankMessage,
    Settled,
    decode_settled,
    encode,
)
from paceline.training.socket_path import short_path

#: When this rank began, by its own clock, and what makes that Unix time.
START_NS, STEP_NS = time.perf_counter_ns(), 100_000_000
OFFSET_NS = time.time_ns() - time.perf_counter_ns()


def hello(rank: int = 0, ranks: int = 1, job: str = "") -> Hello:
    return Hello(
        rank=rank,
        world_size=ranks,
        local_rank=rank,
        pid=os.getpid(),
        device="cpu",
        backend="gloo",
        framework="torch",
        job=job,
        attempt=0,
        started_s=time.time(),
    )


def step(number: int, *, last: bool = True) -> Marks:
    """One explicit step of 100 ms, all of it forward but for a collective; ``last``: and what releases its rows."""
    start = START_NS + number * STEP_NS
    middle, end = start + STEP_NS // 2, start + STEP_NS
    found: list[tuple[int, int, int | Issued | None]] = [
        (start, marks.FORWARD, None),
        (middle, marks.COMMUNICATION, None),
        (middle, marks.ISSUED, ("world", 1, number, "all_reduce", 4096, marks.PYTHON)),
        (end, marks.LEAVE + marks.COMMUNICATION, None),
        (end, marks.LEAVE + marks.FORWARD, None),
        (end, marks.STEP, None),
    ]
    return Marks(marks=found + ([(end, marks.QUEUED, None)] if last else []), offset_ns=OFFSET_NS)


def stuck(seq: int) -> Marks:
    """A collective that was issued a minute ago and has no result."""
    ago = time.perf_counter_ns() - 60_000_000_000
    issue = (ago, marks.ISSUED, ("world", 1, seq, "all_reduce", 4096, marks.PYTHON))
    return Marks(marks=[(ago, marks.COMMUNICATION, None), issue], offset_ns=OFFSET_NS)


class Speaker:
    """A rank's end of the socket."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with short_path(path) as short:
            self.socket.connect(short)

    def say(self, message: RankMessage | bytes) -> None:
        self.socket.send(message if isinstance(message, bytes) else encode(message))

    def settled(self) -> Settled:
        """What it is told next to be safe."""
        while True:
            told = decode_settled(self.socket.recv(4096))
            if told is not None:
                return told

    def close(self) -> None:
        self.socket.close()


def main() -> int:
    rank, steps, status = (int(word) for word in sys.argv[1:4])
    speaker = Speaker(os.environ[SOCKET_VARIABLE])
    speaker.say(hello(rank))
    for number in range(steps):
        try:
            speaker.say(step(number))
        except OSError:
            break  # As the probe does: the sidecar has gone, training goes on.
        time.sleep(0.02)
    else:
        speaker.say(Bye(ended_s=time.time()))
    return status


if __name__ == "__main__":
    sys.exit(main())
