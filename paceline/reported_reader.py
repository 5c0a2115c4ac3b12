"""Who has reported, read from the bus: for commands that name a job or a node.

Rule of this file: a door. Where the topics cannot be read to their ends, nobody is known and nothing is refused.
"""

import time

from paceline import wire
from paceline.events import JobDescribed, NodeDescribed
from paceline.kafka.follow import BEGINNING, Follower
from paceline.kafka.settings import BrokerSettings
from paceline.reported import Reported
from paceline.topics import JOB, NODE

#: Reading takes part of a second; a command that nobody could check is sent all the same.
PATIENCE_S = 10.0


def read_reported(settings: BrokerSettings, cluster: str, program: str) -> Reported | None:
    """Who has reported in ``cluster``; None where that cannot be read here, or not in time.

    Raises:
        BusError: no broker can be reached.
    """
    reported, end = Reported(cluster), time.monotonic() + PATIENCE_S
    with Follower(settings, {JOB: BEGINNING, NODE: BEGINNING}, program, resume=True) as follower:
        follower.connect()
        while not (follower.caught_up or follower.nothing_there):
            if follower.state in ("lost", "refused") or time.monotonic() > end:
                return None
            for topic, records in follower.poll():
                for record in records:
                    try:
                        event = wire.decode(topic, record.value or b"")
                    except wire.WireError:
                        continue  # Whatever that is, it names nobody; a tombstone is empty.
                    if isinstance(event, JobDescribed | NodeDescribed):
                        reported.update(event)
    return reported
