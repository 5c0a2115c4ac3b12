"""A rank that is connected: who it is, how far its marks have come, and what it was told.

Rule of this file: data of one connection; who reads and writes the connection is the server.
"""

from paceline.events import OpenCollective
from paceline.sidecar.columns import LONGEST_WORD
from paceline.sidecar.decode import MarkDecoder
from paceline.training.balance_messages import ProposedPlan
from paceline.training.messages import Hello, Settled

#: Collectives of one rank that are reported while they last.
MOST_STANDING = 16


class ConnectedRank:
    """Who speaks on a connection, once it has said hello, and what has come of its marks."""

    def __init__(self, peer: int) -> None:
        #: Its process as this node numbers it, whatever it says of itself; 0 where that is not visible here.
        self.peer = peer
        self.rank = self.pid = -1
        self.hello: Hello | None = None
        self.hellos = 1
        self.job: tuple[str, int] | None = None
        self.decoder = MarkDecoder()
        #: Whether it speaks another version's protocol.
        self.foreign = False
        #: What has left our hands, and what the rank knows of it.
        self.passed_on: Settled | None = None
        self.told: Settled | None = None
        #: Whether it knows that it may speak of balancing; whether it waits for plans, of which run it is, and the plan
        #: that it was sent last.
        self.welcome = self.awaits = False
        self.run = 0
        self.proposed: ProposedPlan | None = None

    def standing(self, before_s: float) -> list[OpenCollective]:
        """The collectives this rank has been in since ``before_s`` (Unix time)."""
        return [
            OpenCollective(
                rank=self.rank,
                group=collective.group[:LONGEST_WORD],
                group_size=collective.size,
                seq=collective.seq,
                operation=collective.operation[:LONGEST_WORD],
                start_s=start_s,
                bytes=collective.bytes,
            )
            for collective, start_s in self.decoder.open(before_s)[:MOST_STANDING]
        ]
