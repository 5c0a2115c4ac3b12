"""Which job is on which device, and when it was heard last: bounded, whatever jobs say of themselves.

Rule of this file: pure. Times are those of what was reported, not of when that was read: of two partitions of which one
is read later, an old report takes nothing back.
"""

from paceline.held_bytes import BoundedMapping, size_of

#: Places that are kept, two a GPU, and the bytes that they take; those without news for longest make room.
PLACES, PLACES_BYTES = 200_000, 128 * 1024 * 1024
#: Bytes of a place beside its names. One whose names have more characters than this is not kept: it would drive out
#: many others.
ENTRY_BYTES, LONGEST_NAMES = 256, 2_000

#: Jobs of which it is kept when they were heard, and the bytes that they take.
JOBS, JOBS_BYTES = 50_000, 32 * 1024 * 1024

#: Cluster, node, device.
Place = tuple[str, str, str]


class JobPlaces:
    """The newest of at most ``most`` places of ``most_bytes`` bytes, and of the jobs heard.

    >>> places = JobPlaces(most=2)
    >>> for device in ("g0", "g1", "g2"): places.put(("c", "n", device), "train")
    >>> [places.job_on(("c", "n", device)) for device in ("g0", "g1", "g2")]
    [None, 'train', 'train']
    """

    def __init__(self, most: int = PLACES, most_bytes: int = PLACES_BYTES) -> None:
        self._jobs = BoundedMapping[Place, str](most, most_bytes)
        self._heard = BoundedMapping[tuple[str, str], float](JOBS, JOBS_BYTES)

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def bytes(self) -> int:
        """What all of it takes."""
        return self._jobs.bytes + self._heard.bytes

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

    def hear(self, cluster: str, job: str, time_s: float) -> None:
        """Something of the job was measured at ``time_s``."""
        if len(cluster) + len(job) <= LONGEST_NAMES:
            heard_s = max(time_s, self._heard.get((cluster, job), time_s))
            self._heard.put((cluster, job), heard_s, ENTRY_BYTES)

    def heard_since(self, cluster: str, job: str, time_s: float) -> bool:
        """Whether something of the job was measured at ``time_s`` or later.

        >>> places = JobPlaces()
        >>> places.hear("c", "train", 600.0)
        >>> places.hear("c", "train", 60.0)
        >>> [places.heard_since("c", job, 600.0) for job in ("train", "other")]
        [True, False]
        """
        return self._heard.get((cluster, job), float("-inf")) >= time_s

    def job_on(self, place: Place) -> str | None:
        """Who runs there, of which there is news: None where it is not known."""
        job = self._jobs.get(place)
        if job is not None:
            self._jobs.renew(place)
        return job
