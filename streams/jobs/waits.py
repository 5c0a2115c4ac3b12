"""Who waits in which collective, and who is missing from it, kept up to date rank by rank.

Rule of this file: pure. A message costs what its own ranks come to, however many others wait: counts and sorted lists
follow each rank, and nothing is worked out over all ranks of a job again.
"""

from bisect import insort
from collections.abc import Iterable, Iterator

from .ranking import Ranking
from .waiting_place import Place, Wait, Where, less, remove

#: Places of a group that are followed, and ranks that are behind in all places of a job: what is beyond is no job.
MOST_PLACES, MOST_BEHIND = 256, 4_000_000


class Waits:
    """Who waits where in one job, how far each rank has got, and who holds up whom."""

    def __init__(self) -> None:
        #: By rank, its waits; by group, the latest collective that each rank has been through.
        self.waits: dict[int, dict[Where, Wait]] = {}
        self.reached: dict[str, dict[int, int]] = {}
        self._groups: dict[int, list[str]] = {}
        self._places: dict[str, dict[int, Place]] = {}
        #: By rank, where others keep it; and the line that it was seen at.
        self._kept: dict[int, dict[Where, None]] = {}
        self._lines: dict[int, str] = {}
        self._all_behind = 0
        #: Who has waited longest, but for ranks of which it has to be worked out again.
        self._untimed: set[int] = set()
        self._longest: Ranking[int] = Ranking()
        self._first: Ranking[Where] = Ranking()
        #: The places that keep ranks though they lack none.
        self._full: set[Where] = set()

    def reach(self, rank: int, group: str, seq: int) -> None:
        """``rank`` has been through number ``seq`` of ``group``."""
        reached = self.reached.setdefault(group, {})
        before = reached.get(rank)
        if before is not None and seq <= before:
            return
        reached[rank] = seq
        if before is None:
            self._groups.setdefault(rank, []).append(group)
        for place in self._places.get(group, {}).values():
            self._reached(place, rank, before, seq)

    def _reached(self, place: Place, rank: int, before: int | None, seq: int) -> None:
        was, now = before is not None and before < place.seq, seq < place.seq
        place.below += now - was
        place.known = len(self.reached[place.group])
        if rank in place.left or place.where in self._kept.get(rank, ()):
            place.strangers -= before is None
            if rank in place.left and not now:
                place.come_back(rank)
        else:
            if was and before is not None:
                self._pass(place, rank, before)
            if now:
                self._fall_behind(place, rank, seq)
        self._settle(place)

    def stand(self, rank: int, waits: Iterable[Wait]) -> None:
        """``rank`` waits in these collectives, and in no others."""
        before = self.waits.pop(rank, {})
        now: dict[Where, Wait] = {}
        for wait in sorted(waits, key=lambda one: one.waited_s):
            now[wait.group, wait.seq] = wait
        followed: dict[Where, Wait] = {}
        for where, wait in now.items():
            earlier = before.get(where)
            if earlier is None and not self._has_room(where):
                continue
            followed[where] = wait
            if earlier is None or (earlier.call(), earlier.size) != (wait.call(), wait.size):
                self._come(rank, where, wait)
            else:
                self._places[wait.group][wait.seq].waits[rank] = wait
        if followed:
            self.waits[rank] = followed
        for where in before:
            if where not in followed:
                self._go(rank, where)
        self._untimed.add(rank)

    def left(self) -> Iterator[Wait]:
        """The last waits of those who have called what others wait in, and wait there no longer."""
        for places in self._places.values():
            for place in places.values():
                yield from place.left.values()

    def give_up(self, wait: Wait) -> None:
        """A rank has called what others wait in, and waits there no longer."""
        place = self._places.get(wait.group, {}).get(wait.seq)
        if place is not None and wait.rank not in place.waits:
            self._give_up(place, wait)
            self._settle(place)

    def see(self, rank: int, line: str) -> None:
        """``rank`` was seen at ``line``; "": where it is, is not known."""
        before = self._lines.pop(rank, "")
        if line:
            self._lines[rank] = line
        for group, seq in self._kept.get(rank, ()) if line != before else ():
            lines = self._places[group][seq].lines
            less(lines, before)
            lines[line] += 1

    def keeps_anybody(self) -> bool:
        """Whether anybody waits for others."""
        return bool(self._kept)

    def longest_s(self) -> float:
        """How long the one that has waited longest for others has waited."""
        for one in self._untimed:
            self._time(one)
        self._untimed.clear()
        rank = self._longest.first()
        return self._longest_of(rank) if rank is not None else 0.0

    def first(self) -> Place | None:
        """The place to name; None where nobody waits for others."""
        where = self._first.first()
        return self.place(where) if where is not None else None

    def second(self) -> Place | None:
        """The place to name next; None where nobody waits for others elsewhere."""
        where = self._first.second()
        return self.place(where) if where is not None else None

    def place(self, where: Where) -> Place:
        """The place at ``where``, in which ranks wait."""
        return self._places[where[0]][where[1]]

    def all_lack(self, ranks: int) -> bool:
        """Whether ``ranks`` ranks wait, and no place in which they do has all its members."""
        return len(self._kept) >= ranks > 1 and not self._full

    def where(self, rank: int) -> Iterable[Where]:
        """The places that keep ``rank``."""
        return self._kept.get(rank, ())

    def _come(self, rank: int, where: Where, wait: Wait) -> None:
        group, seq = where
        places = self._places.setdefault(group, {})
        place = places.get(seq) or self._open(where)
        if rank in place.waits:
            self._forget(place, rank)
        self._come_back(place, rank)
        place.waits[rank] = wait
        place.sizes[wait.size] += 1
        if self._keeps(place, rank):
            self._keep(place, rank)
        self._settle(place)

    def _go(self, rank: int, where: Where) -> None:
        place = self._places[where[0]][where[1]]
        kept, wait = where in self._kept.get(rank, ()), place.waits[rank]
        self._forget(place, rank)
        if place.waits:
            if kept:
                self._give_up(place, wait)
            self._settle(place)
            return
        self._first.drop(where)
        self._full.discard(where)
        self._all_behind -= len(place.behind)
        del self._places[place.group][place.seq]
        if not self._places[place.group]:
            del self._places[place.group]

    def _forget(self, place: Place, rank: int) -> None:
        if place.where in self._kept.get(rank, ()):
            self._release(place, rank)
        less(place.sizes, place.waits.pop(rank).size)

    def _give_up(self, place: Place, wait: Wait) -> None:
        at = self.reached.get(place.group, {}).get(wait.rank)
        if at is None or at < place.seq:
            if at is not None:
                self._pass(place, wait.rank, at)
            place.strangers += at is None
            place.give_up(wait.rank, wait)

    def _come_back(self, place: Place, rank: int) -> None:
        if rank in place.left:
            place.come_back(rank)
            at = self.reached.get(place.group, {}).get(rank)
            place.strangers -= at is None
            if at is not None:
                self._fall_behind(place, rank, at)

    def _has_room(self, where: Where) -> bool:
        """Whether a place may be followed, beside those that are."""
        places = self._places.get(where[0], {})
        if where[1] in places:
            return True
        return len(places) < MOST_PLACES and self._all_behind + len(self.reached.get(where[0], ())) <= MOST_BEHIND

    def _open(self, where: Where) -> Place:
        group, seq = where
        place = self._places[group][seq] = Place(group, seq)
        reached = self.reached.get(group, {})
        place.known = len(reached)
        behind = sorted(rank for rank, at in reached.items() if at < seq)
        place.below = len(behind)
        self._all_behind += len(behind)
        place.follow(behind, [(rank, reached[rank]) for rank in behind if rank not in self._kept])
        return place

    def _settle(self, place: Place) -> None:
        """Something about ``place`` has changed: whom it keeps may have, too."""
        terms = place.new_terms()
        if terms != place.terms:
            place.terms = terms
            for rank in list(place.waits):
                kept, keeps = place.where in self._kept.get(rank, ()), self._keeps(place, rank)
                if keeps and not kept:
                    self._keep(place, rank)
                elif kept and not keeps:
                    self._release(place, rank)
        self._rank(place)

    def _keeps(self, place: Place, rank: int) -> bool:
        """Whether others keep ``rank`` in ``place``. What all other members are through keeps nobody: a rank that was
        stopped right after it has not reported its end, and never will."""
        at = self.reached.get(place.group, {}).get(rank)
        if place.known + (at is None) < place.waits[rank].size or place.known == (at is not None):
            return True
        return place.below > (at is not None and at < place.seq)

    def _keep(self, place: Place, rank: int) -> None:
        at = self.reached.get(place.group, {}).get(rank)
        if at is not None and at < place.seq:
            self._pass(place, rank, at)
        place.strangers += at is None
        place.enter(rank, self._lines.get(rank, ""))
        free = rank not in self._kept
        self._kept.setdefault(rank, {})[place.where] = None
        if free:
            for other, reached in self._behind(rank):
                other.find(rank, reached)
                self._rank(other)
        self._untimed.add(rank)

    def _release(self, place: Place, rank: int) -> None:
        place.leave(rank, self._lines.get(rank, ""))
        at = self.reached.get(place.group, {}).get(rank)
        place.strangers -= at is None
        kept = self._kept[rank]
        del kept[place.where]
        if not kept:
            del self._kept[rank]
            for other, reached in self._behind(rank):
                if other is not place:
                    other.miss(rank, reached)
                    self._rank(other)
        if at is not None and at < place.seq:
            self._fall_behind(place, rank, at)
        self._untimed.add(rank)

    def _behind(self, rank: int) -> Iterator[tuple[Place, int]]:
        """The places that ``rank`` has not come to and does not wait in, each with how far it has got there."""
        kept = self._kept.get(rank, ())
        for group in self._groups.get(rank, ()):
            reached = self.reached[group][rank]
            for seq, place in self._places.get(group, {}).items():
                if reached < seq and place.where not in kept:
                    yield place, reached

    def _fall_behind(self, place: Place, rank: int, at: int) -> None:
        if self._all_behind >= MOST_BEHIND:
            return
        self._all_behind += 1
        insort(place.behind, rank)
        if rank not in self._kept:
            place.miss(rank, at)

    def _pass(self, place: Place, rank: int, at: int) -> None:
        self._all_behind -= remove(place.behind, rank)
        if rank not in self._kept:
            place.find(rank, at)

    def _rank(self, place: Place) -> None:
        if place.waiting:
            self._first.put(place.where, (*place.order(), place.where))
        else:
            self._first.drop(place.where)
        if place.waiting and not place.lacks():
            self._full.add(place.where)
        else:
            self._full.discard(place.where)

    def _time(self, rank: int) -> None:
        if rank in self._kept:
            self._longest.put(rank, -self._longest_of(rank))
        else:
            self._longest.drop(rank)

    def _longest_of(self, rank: int) -> float:
        return max(self._places[group][seq].waits[rank].waited_s for group, seq in self._kept[rank])
