"""How far each partition has been read, as the database has it, and what of that a commit changes.

Rule of this file: pure. A position is written with the rows that came of what lies before it, so each says: all before
is here. So two that write at once do no harm: who falls behind reads again what is there, to the same rows.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from .rows import Row

#: A topic's name and a partition of it.
Place = tuple[str, int]


class Positions(NamedTuple):
    """The next offset of each partition, and the id of each topic where the brokers tell it."""

    places: Mapping[Place, int]
    ids: Mapping[str, str]

    @classmethod
    def of(cls, rows: Iterable[tuple[str, int, int, str | None]]) -> "Positions":
        """Those that rows of ``position`` say.

        >>> Positions.of([("t", 0, 7, "id")])
        Positions(places={('t', 0): 7}, ids={'t': 'id'})
        """
        told = list(rows)
        return cls(
            {(topic, partition): offset for topic, partition, offset, _ in told},
            {topic: one for topic, _, _, one in told if one},
        )

    def remade(self, now: "Positions") -> list[str]:
        """Topics that are others now than they were: what was written of them is of another life."""
        return sorted(topic for topic, one in now.ids.items() if self.ids.get(topic, one) != one)

    def changed(self, now: "Positions") -> list[Row]:
        """The rows to write so that the database says ``now``, in one order for all who write.

        >>> Positions({("t", 0): 7, ("t", 1): 2}, {}).changed(Positions({("t", 0): 9, ("t", 1): 2}, {}))
        [{'topic': 't', 'partition': 0, 'next_offset': 9, 'topic_id': None}]
        """
        return [
            {"topic": topic, "partition": partition, "next_offset": offset, "topic_id": now.ids.get(topic)}
            for (topic, partition), offset in sorted(now.places.items())
            if self.places.get((topic, partition)) != offset or self.ids.get(topic) != now.ids.get(topic)
        ]
