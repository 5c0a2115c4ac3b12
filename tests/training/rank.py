"""A rank that speaks the sidecar's protocol and nothing else, for tests: ``python rank.py RANK STEPS STATUS``."""

import os
import socket
import sys
import time

from paceline.training.messages import SOCKET_VARIABLE, Bye, Hello, Message, Report, encoder


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


def report(step: int) -> Report:
    now = time.time()
    return Report(
        step=[step, step],
        op=["forward", "step"],
        microbatch=[-1, -1],
        start_s=[now, now],
        duration_s=[0.05, 0.1],
        c_step=[step],
        c_seq=[step],
        c_group=["world"],
        c_group_size=[1],
        c_operation=["all_reduce"],
        c_bytes=[4096],
        c_start_s=[now],
        c_duration_s=[0.04],
        c_wait_s=[0.03],
    )


class Speaker:
    """A rank's end of the socket."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(path)

    def say(self, message: Message | bytes) -> None:
        self.socket.send(message if isinstance(message, bytes) else encoder.encode(message))

    def close(self) -> None:
        self.socket.close()


def main() -> int:
    rank, steps, status = (int(word) for word in sys.argv[1:4])
    speaker = Speaker(os.environ[SOCKET_VARIABLE])
    speaker.say(hello(rank))
    for step in range(steps):
        try:
            speaker.say(report(step))
        except OSError:
            break  # As the probe does: the sidecar has gone, training goes on.
        time.sleep(0.02)
    else:
        speaker.say(Bye(ended_s=time.time()))
    return status


if __name__ == "__main__":
    sys.exit(main())
