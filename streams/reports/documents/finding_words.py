"""A finding in a table and a picture: what, who, when, at what cost.

Rule of this file: pure words, also for kinds, causes and states that this version does not know.
"""

from paceline.accused_units import many_of, unit_of
from paceline.events import CAUSE_WORDS, Finding
from paceline.ranges import ranges
from paceline.words import is_confirmed, many, state_words

from ..report import Episode, LostTime
from .document import Table, without_empty
from .pictures import Lane
from .quantities import clock, hours, seconds
from .style import STATES, SUSPECTED

MOST_LANES = 30
MOST_ROWS = 100


def cause_words(cause: str) -> str:
    """A cause in a few words."""
    return CAUSE_WORDS.get(cause, cause.replace("_", " "))


def loss_words(lost: LostTime) -> str:
    """What a loss is put down to: the cause, or what was found where no cause is known."""
    if lost.cause != "unknown" or not lost.kinds:
        return cause_words(lost.cause)
    return f"{', '.join(map(kind_words, lost.kinds))} ({cause_words(lost.cause)})"


def kind_words(kind: str) -> str:
    """A kind of finding in words."""
    return kind.replace("_", " ")


def who(finding: Finding) -> str:
    """Whom it accuses, or what it is about."""
    unit = unit_of(finding)
    if unit:
        return unit
    if finding.ranks:
        return f"rank {finding.ranks[0]}" if len(finding.ranks) == 1 else _ranks(finding)
    if finding.devices:
        return finding.devices[0] if len(finding.devices) == 1 else many(len(finding.devices), "device")
    if finding.nodes:
        return finding.nodes[0] if len(finding.nodes) == 1 else many(len(finding.nodes), "node")
    if finding.stage is not None:
        return f"stage {finding.stage}"
    return "the whole job"


def _ranks(finding: Finding) -> str:
    """Its ranks; of more than it names, their number."""
    held = many_of(finding)
    return f"ranks {ranges(finding.ranks)}" if held is None else held.words


#: How far a finding that is open goes, by whether its job has ended.
_LASTS = {False: ", open", True: ", to the end"}


def steps(finding: Finding, *, ended: bool) -> str:
    """Its steps; one that is open lasts beyond them, of a job that has ``ended`` to its end."""
    if finding.first_step < 0:
        return ""
    first, last = finding.first_step, finding.last_step
    is_open = finding.state != "recovered" and finding.kind != "died"
    return (str(first) if first == last else f"{first}-{last}") + _LASTS[ended] * is_open


def findings_table(episodes: list[Episode], length_s: float, *, ended: bool = False) -> Table:
    """A row a finding, with its sentence; ``ended``: of a job that is over."""
    rows = []
    for episode in episodes[:MOST_ROWS]:
        one = episode.finding
        since = "" if episode.from_s is None else clock(episode.from_s, length_s)
        rows.append(
            (
                kind_words(one.kind),
                who(one),
                state_words(one.kind, one.state),
                steps(one, ended=ended),
                since,
                seconds(one.cost.lost_s) if one.cost.lost_s else "",
                hours(one.cost.gpu_hours) if one.cost.gpu_hours else "",
                one.summary,
            )
        )
    head = ("finding", "who", "state", "steps", "since", "lost", "device-hours", "summary")
    open_ones = tuple(at for at, episode in enumerate(episodes[:MOST_ROWS]) if is_confirmed(episode.finding))
    return without_empty(Table(head, tuple(rows), right=(5, 6), slow=open_ones))


def lanes(episodes: list[Episode]) -> list[Lane]:
    """Those whose time is known, as they go into a picture: the most expensive of many."""
    timed = [one for one in episodes if one.from_s is not None and one.to_s is not None]
    kept = sorted(timed, key=lambda one: -one.finding.cost.lost_s)[:MOST_LANES]
    return [
        Lane(
            f"{who(one.finding)}: {kind_words(one.finding.kind)}",
            one.from_s or 0.0,
            one.to_s or 0.0,
            STATES.get(state_words(one.finding.kind, one.finding.state), SUSPECTED),
            f"{state_words(one.finding.kind, one.finding.state)}: {one.finding.summary}",
        )
        for one in timed
        if one in kept
    ]
