"""The proof that nothing is missing: every producer numbers its messages, and here it is noted which came.

Rule of this file: pure and bounded. All numbers count, also those of messages that are not kept: a sidecar numbers the
messages of two jobs in one row.
"""

from collections.abc import Iterable

from paceline.held_bytes import size_of
from paceline.selection import Head
from paceline.topics import BY_NAME

from .manifest import ProducerProof
from .numbers import Numbers

#: Producers that are followed at most; their names come from outside.
MOST_PRODUCERS = 100_000
#: Bytes of their names: twice so many of 100 characters. They stand in the manifest, which must stay readable.
MOST_NAME_BYTES = 48 * 2**20
#: Separate runs of numbers of all producers: 150 MB in memory, 40 MB in the manifest.
MOST_RUNS = 1_000_000
#: No producer has sent more: a number beyond it is none. All together lack no more than that, as ``Count`` has it.
_GREATEST = 2**53


class _Producer:
    def __init__(self, node: str, numbers: Numbers, kept: int) -> None:
        self.node, self.numbers, self.kept = node, numbers, kept


class Proof:
    """Which numbered messages came."""

    def __init__(self, told: Iterable[ProducerProof] = (), unproved: int = 0) -> None:
        self._producers = {
            (one.topic, one.producer): _Producer(
                one.node, Numbers([list(run) for run in one.runs], one.repeated, one.forgotten), one.kept
            )
            for one in told
            if one.runs
        }
        self._name_bytes = sum(_names_of(key, one.node) for key, one in self._producers.items())
        self._runs = sum(len(one.numbers.runs) for one in self._producers.values())
        #: Messages of producers beyond ``MOST_PRODUCERS`` or ``MOST_NAME_BYTES``.
        self.unproved = unproved

    def note(self, topic: str, said: Head, *, kept: bool) -> bool:
        """A message came; False where it came before."""
        if not said.producer or not 0 <= said.sequence <= _GREATEST:
            return True
        known = self._producers.get((topic, said.producer))
        if known is None:
            size = _names_of((topic, said.producer), said.node)
            if len(self._producers) >= MOST_PRODUCERS or self._name_bytes + size > MOST_NAME_BYTES:
                self.unproved += 1
                return True
            self._name_bytes += size
            known = self._producers[topic, said.producer] = _Producer(said.node, Numbers(), 0)
        before = len(known.numbers.runs)
        new = known.numbers.add(said.sequence)
        if self._runs + len(known.numbers.runs) - before > MOST_RUNS:
            known.numbers.close_gap()
        self._runs += len(known.numbers.runs) - before
        known.kept += kept and new
        return new

    def nodes(self) -> set[str]:
        """The nodes that sent something that was kept on a raw topic."""
        return {
            one.node
            for (topic, _), one in self._producers.items()
            if one.node and one.kept and topic in BY_NAME and BY_NAME[topic].kind == "raw"
        }

    def told(self) -> list[ProducerProof]:
        """As the manifest has it: of the producers of which something was kept."""
        return [
            ProducerProof(
                topic=topic,
                producer=producer,
                node=one.node,
                runs=one.numbers.runs,
                kept=one.kept,
                repeated=one.numbers.repeated,
                forgotten=one.numbers.forgotten,
            )
            for (topic, producer), one in self._producers.items()
        ]


def _names_of(key: tuple[str, str], node: str) -> int:
    return size_of(key) + size_of(node)


def about(proof: Iterable[ProducerProof]) -> list[ProducerProof]:
    """Those of which the recording holds something."""
    return [one for one in proof if one.kept and one.runs]


def missing(proof: Iterable[ProducerProof]) -> int:
    """How many numbered messages never came; no more than a manifest may tell."""
    return min(_GREATEST, sum(Numbers(one.runs, forgotten=one.forgotten).missing_count for one in about(proof)))
