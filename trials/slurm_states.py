"""What Slurm says of a job, and what that means for a trial.

Rule of this file: pure; text of ``scontrol -o show job`` and ``squeue`` in, facts out. Taken for granted, and tested:
one job a line; names and comments of Paceline's own jobs hold no space, so the first field of a name is Slurm's own
and none that stands in a path; words for states that are not known here are no end.
"""

import re
from dataclasses import dataclass
from typing import Literal

Meaning = Literal["waits", "runs", "ended", "killed", "gone"]

#: A job that is on its way; ``COMPLETING``: something of it is still there.
_WAITS = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD")
_RUNS = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT")
#: OUT_OF_MEMORY is an end by its own doing; the last row is others' doing, and says nothing of the placement.
MEANINGS: dict[str, Meaning] = {
    **dict.fromkeys(_WAITS, "waits"),
    **dict.fromkeys(_RUNS, "runs"),
    **dict.fromkeys(("COMPLETED", "FAILED", "OUT_OF_MEMORY"), "ended"),
    **dict.fromkeys(("TIMEOUT", "DEADLINE"), "killed"),
    **dict.fromkeys(("CANCELLED", "NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REVOKED"), "gone"),
}
#: What a client prints where its controller, or the login to it, is away for now.
_AWAY = (
    "Unable to contact slurm controller", "Connection refused", "Connection timed out", "Socket timed out",
    "Zero Bytes were transmitted", "not responding", "in standby mode", "Transport endpoint", "Munge encode failed",
    "authentication credential", "Resource temporarily unavailable", "Unexpected message received", "Insane message",
)  # fmt: skip
_NO_SUCH = ("Invalid job id",)
_SIGNAL = 128
LONGEST_REASON = 200


@dataclass(frozen=True)
class Told:
    """A job as Slurm tells it. ``number`` is Slurm's, ``status`` as a shell counts."""

    number: str
    state: str
    reason: str
    comment: str
    status: int | None
    ran_s: float

    @property
    def meaning(self) -> Meaning:
        """What its state means; a state that is not known is taken for running, as nothing says that it ended."""
        return MEANINGS.get(self.state, "runs")

    @property
    def waits(self) -> str:
        """Why it has not begun, as Slurm says it; "" where it runs, or Slurm has not thought of it yet."""
        if self.state not in MEANINGS:
            return f"Slurm says {self.state}, which is no state known here"
        return f"{self.state}: {self.reason}" if self.meaning == "waits" and self.reason else ""


def told(text: str) -> Told | None:
    """The first job of ``scontrol -o show job``; None where it tells of none.

    >>> said = "JobId=7 JobName=a Comment=c JobState=PENDING Reason=Resources Dependency=(null) ExitCode=0:0"
    >>> told(said).waits
    'PENDING: Resources'
    """
    line = text.partition("\n")[0]
    number, state = _field(line, "JobId"), _field(line, "JobState")
    if not re.fullmatch(r"[0-9]{1,20}", number) or not state:
        return None
    comment = re.search(r" Comment=(\S*)", line)
    return Told(
        number=number,
        state=re.sub(r"[^A-Z_]", "?", state)[:40],
        reason=plain("" if (reason := _field(line, "Reason")) == "None" else reason),
        comment=comment[1] if comment else "",
        status=_status(_field(line, "ExitCode")),
        ran_s=seconds(_field(line, "RunTime")),
    )


def _field(line: str, name: str) -> str:
    found = re.search(rf"(?:^| ){name}=(\S*)", line)
    return found[1] if found else ""


def _status(code: str) -> int | None:
    found = re.fullmatch(r"([0-9]{1,3}):([0-9]{1,3})", code)
    if found is None:
        return None
    return int(found[1]) or (_SIGNAL + int(found[2]) if int(found[2]) else 0)


def seconds(time: str) -> float:
    """Slurm's days, hours, minutes and seconds; 0 where it says no time.

    >>> seconds("1-02:03:04"), seconds("00:01:05"), seconds("INVALID")
    (93784.0, 65.0, 0.0)
    """
    found = re.fullmatch(r"(?:([0-9]{1,5})-)?([0-9]{1,2}):([0-9]{2}):([0-9]{2})", time)
    if found is None:
        return 0.0
    days, hours, minutes, rest = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + rest)


def own(text: str, comment: str) -> list[str]:
    """The numbers of the jobs with this comment in ``squeue -o "%i|%T|%k"``, which have not ended.

    >>> own("12|PENDING|trial:ab:x\\n13|RUNNING|other\\n14|CANCELLED|trial:ab:x", "trial:ab:x")
    ['12']
    """
    found = []
    for line in text.splitlines():
        number, _, rest = line.partition("|")
        state, _, said = rest.partition("|")
        ended = MEANINGS.get(state, "runs") in ("ended", "killed", "gone")
        if said == comment and not ended and re.fullmatch(r"[0-9]{1,20}", number):
            found.append(number)
    return found


def submitted(text: str) -> str:
    """The number in what ``sbatch --parsable`` prints; "" where there is none."""
    found = re.search(r"^([0-9]{1,20})(?:;\S*)?\s*\Z", text, re.M)
    return found[1] if found else ""


def away(text: str) -> bool:
    """Whether a client's words mean that its controller cannot be asked for now."""
    return any(one.lower() in text.lower() for one in _AWAY)


def no_such(text: str) -> bool:
    """Whether they mean that the job is forgotten."""
    return any(one in text for one in _NO_SUCH)


def plain(text: str) -> str:
    """Someone else's words on one line, bounded, with nothing in them that moves a terminal's cursor."""
    line = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return line[:LONGEST_REASON]
