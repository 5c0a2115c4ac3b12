"""How long a client may take, and how many there may be: the limits of every HTTP server of ours.

Rule of this file: pure; time is an argument, of a monotonic clock. A server says what it sees of each connection, and
is told which to cut. Nothing that a client does, or leaves undone, keeps others from being answered for long.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple, Protocol, TypeVar

#: Waiting for a request's head; for its body; or for us: an answer is made, or sent.
Phase = Literal["head", "body", "answer"]


class Limits(NamedTuple):
    """``head_s`` for a request's head, from the connection or the last answer on; ``body_s`` for its body, and a second
    more for each ``body_bytes``; ``reader_s`` of waiting for who reads the answer, and a second more for each
    ``reader_bytes``.
    """

    connections: int = 256
    head_bytes: int = 32 * 1024
    head_s: float = 10.0
    body_s: float = 30.0
    body_bytes: int = 128 * 1024
    reader_s: float = 20.0
    reader_bytes: int = 32 * 1024


class Patience:
    """How long we have waited for one client.

    >>> patience = Patience(Limits(head_s=10.0), 100.0)
    >>> patience.observe(0, "head", 20, True, 110.0), patience.observe(0, "head", 21, True, 110.5)
    ('', 'no whole request within 10 s')
    """

    def __init__(self, limits: Limits, now_s: float) -> None:
        self._limits = limits
        self._at: tuple[int, Phase] = (0, "head")
        self._since_s = self._seen_s = now_s
        self._waited_s, self._waiting = 0.0, False

    @property
    def since_s(self) -> float:
        """When the present phase was first seen."""
        return self._since_s

    def observe(self, turn: int, phase: Phase, moved: int, waiting: bool, now_s: float) -> str:
        """Why the client is to be cut; empty while it is not.

        ``turn`` counts its requests and ``moved`` the bytes of this phase; ``waiting`` is whether we wait for it.
        """
        if (turn, phase) != self._at:
            self._at, self._since_s, self._waited_s, self._waiting = (turn, phase), now_s, 0.0, False
        elif self._waiting and waiting:
            self._waited_s += max(0.0, now_s - self._seen_s)
        self._seen_s, self._waiting = now_s, waiting
        limits = self._limits
        if phase == "head":
            late = now_s - self._since_s > limits.head_s
            return f"no whole request within {limits.head_s:g} s" if late else ""
        if phase == "body":
            late = now_s - self._since_s > limits.body_s + moved / limits.body_bytes
            return f"its body comes too slowly: {moved} bytes" if late else ""
        late = self._waited_s > limits.reader_s + moved / limits.reader_bytes
        return f"it reads too slowly: {moved} bytes" if late else ""


class Client(Protocol):
    """What a server shows of a connection."""

    @property
    def phase(self) -> Phase: ...  # noqa: D102
    @property
    def since_s(self) -> float: ...  # noqa: D102


C = TypeVar("C", bound=Client)


def weakest(clients: Iterable[C]) -> C | None:
    """Who makes room for somebody new: of those who have sent no whole request, who has had longest; None: nobody."""
    held = list(clients)
    for phase in ("head", "body"):
        waiting = [one for one in held if one.phase == phase]
        if waiting:
            return min(waiting, key=lambda one: one.since_s)
    return None
