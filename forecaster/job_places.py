"""Which job is on which device: bounded, whatever jobs say of themselves.

Rule of this file: pure.
"""

from paceline.held_bytes import BoundedMapping, size_of

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
        self._jobs = BoundedMapping[Place, str](most, most_bytes)

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def bytes(self) -> int:
        """What all of it takes."""
        return self._jobs.bytes

    def put(self, place: Place, job: str) -> None:
        """The job runs there now."""
        if sum(map(len, place)) + len(job) > LONGEST_NAMES:
            self._jobs.remove(place)
        else:
            self._jobs.put(place, job, ENTRY_BYTES + size_of(job))

    def remove(self, place: Place, job: str) -> None:
        """The job has ended; where another runs there by now, that stays."""
        if self._jobs.get(place) == job:
            self._jobs.remove(place)

    def job_on(self, place: Place) -> str | None:
        """Who runs there, of which there is news: None where it is not known."""
        job = self._jobs.get(place)
        if job is not None:
            self._jobs.renew(place)
        return job
