"""The rank, or the unit of ranks, that a finding accuses: where it runs, and how it is named.

Rule of this file: words only, the same for every detector that accuses a rank.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from paceline.accused_units import NODE, SWITCH, TENSOR_GROUP, unit_of
from paceline.events import Finding
from paceline.ranges import ranges

from ..episodes.finding import Subject
from ..episodes.tracker import Episode


class Accused(Protocol):
    """Whom a finding accuses; ``group``: of the collectives in which it was found, where that is not the job."""

    @property
    def group(self) -> str | None:
        """Of whose collectives it is."""

    def words(self) -> str:
        """It in a sentence."""

    def caveat(self) -> str:
        """What it does not say of each that is accused: a sentence after a space, or nothing."""

    def subject(self, what: str = "") -> Subject:
        """The subject of a finding on it, or on ``what`` of it."""


class Speaker(NamedTuple):
    """Who speaks for a rank or unit from now on: a rank, node, switch or tensor group, and where its episode began."""

    kind: str
    name: str
    first: int


class AccusedRank(NamedTuple):
    """One rank, and what is known of its place in the job."""

    rank: int
    node: str = ""
    device: str = ""
    stage: int | None = None
    group: str | None = None

    def words(self) -> str:
        """The rank in a sentence."""
        return f"Rank {self.rank}" + (f" on {self.node}" if self.node else "")

    def caveat(self) -> str:
        """One rank is the one."""
        return ""

    def subject(self, what: str = "") -> Subject:
        """The subject of a finding on the rank, or on ``what`` of it."""
        name = _name("rank", str(self.rank), self.group, what)
        return Subject(
            "straggler",
            name,
            ranks=(self.rank,),
            stage=self.stage,
            group=self.group,
            nodes=(self.node,) if self.node else (),
            devices=(self.device,) if self.device else (),
        )


class AccusedUnit(NamedTuple):
    """A node, switch or tensor group most of whose ranks are accused, and where these run.

    ``group``: the group of ranks in which it was found, where that is not the job.
    """

    kind: str
    name: str
    ranks: Sequence[int]
    nodes: Sequence[str] = ()
    devices: Sequence[str] = ()
    stage: int | None = None
    group: str | None = None

    def words(self) -> str:
        """The unit in a sentence, with its late ranks."""
        return f"{self.kind.capitalize()} {self.name} (ranks {ranges(self.ranks)})"

    def caveat(self) -> str:
        """Ranks of a tensor group wait for each other in the middle of their passes."""
        return " They compute in step: one of them may be slow for all." if self.kind == TENSOR_GROUP else ""

    def subject(self, what: str = "") -> Subject:
        """The subject of a finding on the unit, or on ``what`` of it."""
        name = _name(self.kind, self.name, self.group, what)
        group = f"{self.kind} {self.name}" if self.kind != NODE else self.group
        return Subject("straggler", name, tuple(self.ranks), self.stage, group, tuple(self.nodes), tuple(self.devices))


def _name(kind: str, name: str, group: str | None, what: str = "") -> str:
    """The name of a subject, as it goes into the id of its finding."""
    return f"{kind} {name}" + (f" in {group}" if group else "") + (f" {what}" if what else "")


def replaced_by(who: Accused, speaker: Speaker | None) -> tuple[str, int] | None:
    """The finding that takes the place of that on ``who``, found in the same group: its subject, and its beginning."""
    return None if speaker is None else (_name(speaker.kind, speaker.name, who.group), speaker.first)


def spoken_for(who: Accused, speaker: Speaker, episode: Episode[Any, Any]) -> str:
    """What is said of one whose episode ends because the unit ``speaker`` is late as a whole."""
    since = f"it was slow from step {episode.first_step}"
    unit = f"{speaker.kind} {speaker.name}"
    return f"{who.words()} is late with most of {unit}, whose own finding reports it now; {since}."


def back_among_peers(rank: Accused, episode: Episode[Any, Any]) -> str:
    """What is said of a rank whose episode is over."""
    since = f"it was slow from step {episode.first_step}"
    return f"{rank.words()} is back among its peers at step {episode.last_step}; {since}."


#: What many findings on the same kind of thing are of, by how the unit that they accuse is named.
_UNITS = {NODE: "nodes", SWITCH: "switches", TENSOR_GROUP: "tensor groups"}


def with_sorts(findings: Iterable[Finding]) -> Iterator[tuple[str, Finding]]:
    """Each with its sort, of which many are reported together: see ``streams.episodes.crowd``.

    An episode keeps its sort: a unit has two late ranks at least, and none but links are found by their round trips.
    """
    for finding in findings:
        unit = unit_of(finding)
        whose = next((many for kind, many in _UNITS.items() if unit.startswith(f"{kind} ")), "ranks")
        if finding.kind == "node_silent":
            whose = _UNITS[NODE]
        elif finding.kind == "straggler" and any(one.name == "round_trip" for one in finding.evidence):
            whose = "links"
        elif finding.stage is not None and finding.kind != "straggler":
            whose = "stages"
        yield f"{finding.kind}: {whose}", finding
