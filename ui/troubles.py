"""What is wrong with Paceline itself, from all that a page can know: its topics, and its own reading of them.

Rule of this file: pure; one line a trouble, the gravest first. What is well is not mentioned.
"""

from dataclasses import dataclass

from paceline.events.silence import WORKERS_SILENT_S
from paceline.words import age, many

from .snapshot import SenderLine, Snapshot

#: Behind this many messages a page shows the past; a dead letter this young is news.
LAG, RECENT_S = 1_000, 3600.0
#: A sender that holds back more than some seconds of messages, and was heard this lately, has lost its way.
HELD_BACK, HEARD_S = 60, 120.0
NAMED = 3
#: The topics of what collectors send.
SAMPLED = ("device", "host")


@dataclass(frozen=True)
class Trouble:
    """What is wrong and what fixes it; ``lost`` is what cannot be fixed any more."""

    text: str
    mend: str
    lost: bool = False


def troubles(snapshot: Snapshot) -> list[Trouble]:
    """Everything that is wrong at the moment of ``snapshot``."""
    found = [
        *_lost(snapshot),
        *_unread(snapshot),
        *_held_back(snapshot),
        *_reading(snapshot),
        *_refused(snapshot),
    ]
    return sorted(found, key=lambda trouble: not trouble.lost)


def _lost(snapshot: Snapshot) -> list[Trouble]:
    found = []
    gaps = [f"{line.missing:,} on {line.topic}" for line in snapshot.topics if line.missing]
    if gaps:
        mend = "Findings state it in their coverage. See what the senders dropped, and the dead letters"
        found.append(Trouble(f"Messages are missing: {', '.join(gaps)}", mend, lost=True))
    shedding = [sender for sender in snapshot.senders if sender.account.shed]
    if shedding:
        count = sum(sum(sender.account.shed.values()) for sender in shedding)
        text = f"{count:,} messages were dropped by {_names(shedding)}"
        found.append(Trouble(text, "Enlarge the senders' spools, or make the brokers faster", lost=True))
    skipped = [f"{line.skipped:,} on {line.topic}" for line in snapshot.topics if line.skipped]
    if skipped:
        text = f"This page skipped messages to keep up: {', '.join(skipped)}"
        found.append(Trouble(text, "Stream workers still read them. Give this page more CPU"))
    return found


def _unread(snapshot: Snapshot) -> list[Trouble]:
    """Whether samples arrive that no worker makes windows of: it is away, hangs, or has not joined its group."""
    lines = {line.topic: line for line in snapshot.topics}
    windows = lines.get("window")
    if windows is None or windows.lag != 0:
        return []  # What lies on the topic has not been read to its end yet.
    names = []
    for line in (lines[topic] for topic in SAMPLED if topic in lines):
        since_s = line.began_s if windows.last_s is None else max(line.began_s, windows.last_s)
        if line.last_s is not None and line.last_s - since_s > WORKERS_SILENT_S:
            names.append(line.topic)
    if not names:
        return []
    last_s = windows.last_s
    last = "no window was received" if last_s is None else f"the last window was received {age(snapshot.now_s, last_s)}"
    mend = "`paceline doctor` shows how far behind the worker is; under `paceline up` its log is streams.log"
    return [Trouble(f"No stream worker reads {' and '.join(names)}: {last}, so there are no verdicts", mend)]


def _held_back(snapshot: Snapshot) -> list[Trouble]:
    holding = [
        sender for sender in snapshot.senders if _held(sender) > HELD_BACK and snapshot.now_s - sender.as_of_s < HEARD_S
    ]
    if not holding:
        return []
    count = sum(_held(sender) for sender in holding)
    return [
        Trouble(
            f"{count:,} messages wait at {_names(holding)}",
            "They are sent later. `paceline doctor` on that node shows why they wait",
        )
    ]


def _reading(snapshot: Snapshot) -> list[Trouble]:
    found = []
    behind = [f"{line.lag:,} on {line.topic}" for line in snapshot.topics if (line.lag or 0) > LAG]
    if behind:
        text = f"This page is behind: {', '.join(behind)}"
        found.append(Trouble(text, "It catches up, or skips messages"))
    if snapshot.restarts:
        text = f"This page's reader failed and was restarted; so far: {snapshot.restarts}"
        found.append(Trouble(text, "See the page's log"))
    unusable = [f"{line.unusable:,} on {line.topic}" for line in snapshot.topics if line.unusable]
    if unusable:
        found.append(
            Trouble(f"This page cannot read messages: {', '.join(unusable)}", "See the reasons in the table below")
        )
    return found


def _refused(snapshot: Snapshot) -> list[Trouble]:
    letters = [letter for letter in snapshot.dead_letters if snapshot.now_s - letter.time_s < RECENT_S]
    if not letters:
        return []
    newest = max(letters, key=lambda letter: letter.time_s)
    text = f"The workers rejected messages, the last {age(snapshot.now_s, newest.time_s)}: {newest.reason[:160]}"
    return [Trouble(text, "See the dead letters below, or `paceline tail deadletter`")]


def well(snapshot: Snapshot) -> str:
    """What is told where there is no trouble; some messages are always on their way."""
    waiting = sum(_held(sender) for sender in snapshot.senders)
    if not waiting:
        return "No messages are missing, waiting or rejected."
    return f"No messages are missing or rejected; {many(waiting, 'message')} not sent yet, as is usual."


def _held(sender: SenderLine) -> int:
    return sender.account.waiting + sender.account.spooled


def _names(senders: list[SenderLine]) -> str:
    """The senders, the first few by name."""
    names = sorted({f"the {sender.service} of {sender.node}" for sender in senders})
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
