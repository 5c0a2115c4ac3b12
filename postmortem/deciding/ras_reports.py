"""Reports of NCCL's RAS, put together from their statements: by communicator, how many ranks have launched how much.

Rule of this file: pure. A report lists few ranks and only counts the others: of one level that is not listed, its
ranks follow from the size. A rank of a communicator is one of the job's only if the communicator has as many as the
job, or if it is the same process and GPU as one of such a communicator.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from ..evidence import RasGroup, RasProcess, RasRanks, RasReport, Source
from .case import Case

#: So many ranks of a report are counted one by one where it lists none of them.
_MOST_COUNTED = 1 << 19
#: What tells a rank from all others in each communicator that it is in: its node, process and GPU.
Place = tuple[str, int, str]
_WORDS = ("status", "error", "missing", "place")


class Level(NamedTuple):
    """Ranks that are alike: their count or word, how many, and each of them if that is known."""

    value: int | str
    ranks: int
    members: tuple[RasRanks, ...]
    source: Source

    @property
    def listed(self) -> bool:
        """Whether each of them is known."""
        return len(self.members) == self.ranks


class Communicator(NamedTuple):
    """One of a report: its levels by operation, from few to many, and by status and error."""

    name: str
    size: int
    operations: dict[str, tuple[Level, ...]]
    statuses: tuple[Level, ...]
    errors: tuple[Level, ...]
    missing: tuple[RasRanks, ...]


class Report(msgspec.Struct):
    """One report."""

    source: Source
    time: str = ""
    processes: int = 0
    gpus: int = 0
    #: The rows of its table by their numbers.
    groups: dict[int, RasGroup] = msgspec.field(default_factory=dict)
    communicators: dict[str, Communicator] = msgspec.field(default_factory=dict)
    #: Those that RAS could not reach, each once, and how many they are.
    gone: list[RasProcess] = msgspec.field(default_factory=list)
    gone_count: int = 0
    #: The rank in the job of a process and its GPU.
    places: dict[Place, int] = msgspec.field(default_factory=dict)

    def rank_of(self, case: Case, member: RasRanks) -> int | None:
        """The rank in the job; None where nothing says it."""
        if (one := self.communicators.get(member.communicator)) and self.has_all(case, one.size):
            return member.member if member.member is not None and member.member < one.size else None
        if (key := place(member)) is not None and key in self.places:
            return self.places[key]
        return case.rank_of_pid(member.pid, member.node)

    def has_all(self, case: Case, size: int) -> bool:
        """Whether a communicator of that size has all ranks of the job."""
        return size > 1 and size == self.gpus and all(rank < size for rank in case.ranks)


def place(member: RasRanks) -> Place | None:
    """Where a rank runs; None where the report does not say it."""
    return (member.node, member.pid, member.gpu) if member.pid is not None else None


def reports(case: Case) -> list[Report]:
    """The reports, the newest last: by their times if all have one, else in the order of files and lines."""
    statements: dict[tuple[str, int], list[RasReport | RasGroup | RasRanks | RasProcess]] = defaultdict(list)
    own = (said for said in case.all if isinstance(said, RasReport | RasGroup | RasRanks | RasProcess))
    for said in dict.fromkeys(own):  # A file and its packed copy are one.
        statements[said.source.file, said.report].append(said)
    made = [_report(case, said) for said in statements.values()]
    if made and all(one.time for one in made):
        by_time = {(one.time, tuple(sorted(one.communicators))): one for one in made}
        return [one for _, one in sorted(by_time.items())]
    return made


def _report(case: Case, said: list[RasReport | RasGroup | RasRanks | RasProcess]) -> Report:
    made = Report(said[0].source)
    ranks: dict[str, list[RasRanks]] = defaultdict(list)
    gone: dict[tuple[str, int | None], RasProcess] = {}
    counted = {False: 0, True: 0}
    for one in said:
        if isinstance(one, RasReport):
            made.time, made.processes, made.gpus = (
                one.time or made.time,
                one.processes or made.processes,
                one.gpus or made.gpus,
            )
        elif isinstance(one, RasGroup):
            made.groups[one.group] = one
        elif isinstance(one, RasRanks):
            ranks[one.communicator].append(one)
        elif one.pid is None:
            counted[one.dead] = max(counted[one.dead], one.count)
        else:
            gone[one.node, one.pid] = one
    made.gone, made.gone_count = list(gone.values()), max(sum(counted.values()), len(gone))
    sizes = {number: one.size for number, one in made.groups.items()}
    left = _MOST_COUNTED
    for name, own in ranks.items():
        made.communicators[name] = _communicator(name, own, sizes, left)
        left -= made.communicators[name].size * (len(made.communicators[name].operations) + 1)
    made.places = {
        key: one.member
        for communicator in made.communicators.values()
        if made.has_all(case, communicator.size)
        for one in ranks[communicator.name]
        if one.member is not None and (key := place(one)) is not None
    }
    return made


def _communicator(name: str, said: list[RasRanks], sizes: dict[int, int], left: int) -> Communicator:
    abouts: dict[str, list[RasRanks]] = defaultdict(list)
    for one in said:
        abouts[one.about].append(one)
    places = {one.member: one for one in abouts.pop("place", ())}
    missing = tuple({one.member: one for one in abouts.get("missing", ()) if one.member is not None}.values())
    operations = [about for about in abouts if about not in _WORDS]
    size = sizes.get(said[0].group, 0) or max(
        (sum(level.ranks for level in _levels(abouts[about])) for about in operations), default=0
    )
    away = {one.member for one in missing}
    fits = 0 < size * (len(operations) + 1) <= left

    def levels(about: str) -> tuple[Level, ...]:
        made = _levels(abouts.get(about, ()))
        return _filled(made, size, away, places, said[0]) if fits and about != "error" else made

    return Communicator(
        name,
        size,
        {about: tuple(sorted(levels(about), key=lambda one: int(one.value))) for about in operations},
        levels("status"),
        levels("error"),
        missing,
    )


def _levels(said: Iterable[RasRanks]) -> tuple[Level, ...]:
    counts: dict[int | str, RasRanks] = {}
    members: dict[int | str, dict[int, RasRanks]] = defaultdict(dict)
    for one in said:
        if one.member is None:
            counts.setdefault(one.value, one)
        else:
            members[one.value][one.member] = one
    return tuple(Level(value, one.ranks, tuple(members[value].values()), one.source) for value, one in counts.items())


def _filled(
    levels: tuple[Level, ...], size: int, away: set[int | None], places: dict[int | None, RasRanks], like: RasRanks
) -> tuple[Level, ...]:
    """The one level that is not listed has the ranks that are in no other."""
    unlisted = [one for one in levels if not one.listed]
    if len(unlisted) != 1:
        return levels
    known = away | {one.member for level in levels for one in level.members}
    rest = [rank for rank in range(size) if rank not in known]
    (level,) = unlisted
    if level.members or len(rest) != level.ranks:
        return levels
    unknown = msgspec.structs.replace(like, node="", pid=None, gpu="", source=level.source)
    members = tuple(places.get(rank) or msgspec.structs.replace(unknown, member=rank) for rank in rest)
    return tuple(level._replace(members=members) if one is level else one for one in levels)
