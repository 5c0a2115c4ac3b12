"""Which job is on which device: bounded, whatever jobs say of themselves.

Rule of this file: pure.
"""

from collections import OrderedDict

from paceline.held_bytes import size_of

#: Places that are kept, two a GPU, and the bytes that they take; those without news for longest make room.
PLACES, PLACES_BYTES = 200_000, 128 * 1024 * 1024
#: Bytes of a place beside its names. One whose names have more characters than this is not kept: it would drive out
#: many others.
ENTRY_BYTES, LONGEST_NAMES = 256, 2_000

#: Cluster, node, device.
Place = tuple[str, str, str]


class JobPlaces:
    """The newest of at most ``most`` places of ``most_bytes`` bytes.

    >>> places = JobPlaces(most=2)
    >>> for device in ("g0", "g1", "g2"): places.put(("c", "n", device), "train")
    >>> [places.job_on(("c", "n", device)) for device in ("g0", "g1", "g2")]
    [None, 'train', 'train']
    """

    def __init__(self, most: int = PLACES, most_bytes: int = PLACES_BYTES) -> None:
        self._most, self._most_bytes, self.bytes = most, most_bytes, 0
        self._jobs: OrderedDict[Place, str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._jobs)

    def put(self, place: Place, job: str) -> None:
        """The job runs there now."""
        self._drop(place)
        if sum(map(len, place)) + len(job) > LONGEST_NAMES:
            return
        self._jobs[place] = job
        self.bytes += _size(place, job)
        while len(self._jobs) > self._most or self.bytes > self._most_bytes:
            self._drop(next(iter(self._jobs)))

    def remove(self, place: Place, job: str) -> None:
        """The job has ended; where another runs there by now, that stays."""
        if self._jobs.get(place) == job:
            self._drop(place)

    def job_on(self, place: Place) -> str | None:
        """Who runs there, of which there is news: None where it is not known."""
        job = self._jobs.get(place)
        if job is not None:
            self._jobs.move_to_end(place)
        return job

    def _drop(self, place: Place) -> None:
        job = self._jobs.pop(place, None)
        if job is not None:
            self.bytes -= _size(place, job)


def _size(place: Place, job: str) -> int:
    return ENTRY_BYTES + size_of(place) + size_of(job)
