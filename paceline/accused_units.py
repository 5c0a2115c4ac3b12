"""The unit that a finding on several ranks accuses as a whole: a node, a switch that nodes hang from, a tensor group;
and how many a finding for many is about, or one on more ranks than it names.

Rule of this file: pure; it reads what a finding says, for those who show it.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from paceline.events import Evidence, Finding

NODE, SWITCH, TENSOR_GROUP = "node", "switch", "tensor group"
#: The evidence that only a finding for many has: how many there are, with what they are as its unit.
ALIKE = "alike"
#: The evidence of a hang and of a death that accuses more ranks than it names: how many.
MISSING, ENDED_FIRST = "missing", "ended_first"
_ACCUSED = (ALIKE, MISSING, ENDED_FIRST)
_MOST_COUNTED, _LONGEST_NAME = 2**53, 60
#: How a finding's ``group`` begins where it is such a unit; a node's stands in ``nodes``.
_IN_GROUP = (f"{SWITCH} ", f"{TENSOR_GROUP} ")


def unit_of(finding: Finding) -> str:
    """The unit whose ranks ``finding`` accuses together, in words; "" where it accuses ranks, or nobody."""
    if not finding.ranks or finding.kind not in ("straggler", "node_silent"):
        return ""
    if finding.kind == "straggler" and len(finding.ranks) == 1:
        return ""
    if finding.group and finding.group.startswith(_IN_GROUP):
        return finding.group
    return f"{NODE} {finding.nodes[0]}" if len(finding.nodes) == 1 else ""


class Many(NamedTuple):
    """How many a finding for many is about, and what they are, in the plural: ranks, nodes, links."""

    number: int
    what: str

    @property
    def words(self) -> str:
        """The number with its noun.

        >>> Many(2048, "ranks").words, Many(1, "nodes").words, Many(1, "switches").words
        ('2,048 ranks', '1 node', '1 switch')
        """
        one = self.what.removesuffix("es" if self.what.endswith("ches") else "s")
        return f"{self.number:,} {one if self.number == 1 else self.what}"


class Accuses(Protocol):
    """A finding, as far as it says whom it accuses."""

    @property
    def ranks(self) -> Sequence[int]:
        """Those that it names."""

    @property
    def evidence(self) -> Sequence[Evidence]:
        """Its numbers."""


def many_of(finding: Accuses) -> Many | None:
    """What a finding for many counts: it names some hundreds of them at most. None for any other finding."""
    for one in finding.evidence:
        if one.name == ALIKE and one.unit and 1 <= one.value <= _MOST_COUNTED:
            return Many(int(one.value), one.unit[:_LONGEST_NAME])
    return None


def accused_ranks(finding: Accuses) -> int:
    """How many ranks it accuses, those that it does not name too."""
    counts = (one.value for one in finding.evidence if one.name in _ACCUSED and one.unit == "ranks")
    return max([len(finding.ranks), *(int(count) for count in counts if 1 <= count <= _MOST_COUNTED)])
