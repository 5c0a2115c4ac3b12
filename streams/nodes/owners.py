"""Who uses each GPU of a node: the job and its ranks there.

Rule of this file: a decision. The processes come every few seconds and a job that restarts is away for some: a GPU
counts as left only when nobody has been seen on it for a minute.
"""

from typing import Any

from paceline.events import DeviceSamples

from .node_config import MOST_DEVICES
from .tracker import Seat

VACANT_S = 60.0


class Owners:
    """The seats of a node's GPUs."""

    def __init__(self) -> None:
        self.seats: dict[str, Seat] = {}
        self.vacant_s: dict[str, float] = {}

    def update(self, claims: dict[str, Seat], at_s: float) -> list[str]:
        """Take in who runs where, as of ``at_s``; the GPUs that another job, or none, has now."""
        moved = []
        for uuid, seat in claims.items():
            before = self.seats.get(uuid)
            if before is not None and before.job and not seat.job:
                self.vacant_s.setdefault(uuid, at_s)
                if 0.0 <= at_s - self.vacant_s[uuid] < VACANT_S:
                    continue
            self.vacant_s.pop(uuid, None)
            self.seats[uuid] = seat
            if before is not None and before.job != seat.job:
                moved.append(uuid)
        return moved

    def of(self, uuid: str) -> Seat:
        """The seat of one GPU."""
        return self.seats.get(uuid) or Seat(devices=(uuid,))

    def jobs(self) -> dict[str, list[str]]:
        """Job -> its GPUs here."""
        found: dict[str, list[str]] = {}
        for uuid, seat in self.seats.items():
            if seat.job:
                found.setdefault(seat.job, []).append(uuid)
        return found

    def snapshot(self) -> list[Any]:
        """The state as plain data."""
        seats = [[uuid, seat.job, list(seat.ranks)] for uuid, seat in self.seats.items()]
        return [seats, dict(self.vacant_s)]

    def load(self, data: list[Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.seats = {uuid: Seat(job, tuple(ranks), (uuid,)) for uuid, job, ranks in data[0]}
        self.vacant_s = dict(data[1])


def claims(event: DeviceSamples) -> dict[str, Seat]:
    """GPU -> its seat, by the processes of ``event``; a GPU that does not tell its processes is left out."""
    if "processes" in event.not_measured:
        return {}
    named = list(enumerate(event.uuids[:MOST_DEVICES]))
    return {uuid: _seat(event, at, uuid) for at, uuid in named if f"processes[{at}]" not in event.not_measured}


def _seat(event: DeviceSamples, place: int, uuid: str) -> Seat:
    """The job with the most memory on the GPU, where several share it."""
    held: dict[str, int] = {}
    ranks: dict[str, set[int]] = {}
    for process in event.processes:
        if process.device == place and process.job:
            held[process.job] = held.get(process.job, 0) + (process.used_bytes or 0)
            ranks.setdefault(process.job, set())
            if process.rank is not None and 0 <= process.rank < 2**20:
                ranks[process.job].add(process.rank)
    if not held:
        return Seat(devices=(uuid,))
    job = max(sorted(held), key=lambda name: held[name])
    return Seat(job, tuple(sorted(ranks[job])), (uuid,))
