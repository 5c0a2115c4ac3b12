"""What is missing of producers' messages, and what producers say of themselves, for ``/metrics``.

Rule of this file: counts only, pure and bounded. It judges nothing; a job's own coverage is kept with its verdicts.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from paceline import columns
from paceline.events import DeliveryAccount, Event, HostSamples, Produced, StepTimings
from paceline.events.silence import SERIES_SILENT_S
from paceline.sequences import Sequences
from paceline.topics import Topic

#: Senders that are told of, those heard last; and the processes of one that are told apart.
MOST_SENDERS = 1000
MOST_PROCESSES = 100
#: Producers of a topic whose numbers are remembered.
MOST_PRODUCERS = 10_000


@dataclass
class Process:
    """One of a sender's processes: its newest account, and the ranks that it speaks for (none of a collector)."""

    account: DeliveryAccount
    account_s: float
    ranks: frozenset[int]
    #: Those ranks as they came, so that they are decoded once.
    told: object = None


@dataclass
class Sender:
    """A collector, or the sidecars of a job on a node: one, or one a task where each task has its own.

    Who speaks for a rank takes over from who spoke for it before; who speaks for others works beside them.
    """

    #: When it was heard last, by the worker's clock.
    heard_s: float = 0.0
    processes: dict[str, Process] = field(default_factory=dict)
    gone: dict[str, None] = field(default_factory=dict)

    @property
    def restarts(self) -> int:
        """How often another process took over."""
        return len(self.gone)

    @property
    def account(self) -> DeliveryAccount:
        """The sum of what its processes have done."""
        accounts = [process.account for process in self.processes.values()]
        if len(accounts) == 1:
            return accounts[0]
        shed: dict[str, int] = defaultdict(int)
        for account in accounts:
            for topic, count in account.shed.items():
                shed[topic] += count
        sums = {name: sum(getattr(one, name) for one in accounts) for name in _SUMMED}
        return DeliveryAccount(**sums, shed=dict(shed))

    def hear(self, event: StepTimings | HostSamples, account: DeliveryAccount) -> None:
        """Take down the ``account`` that came with ``event``."""
        name, told = event.producer, _told(event)
        if name in self.gone:
            return
        process = self.processes.get(name)
        if process is None or process.told != told:
            held = process
            process = Process(account, event.t0_s, _ranks(event), told)
            if held is not None:  # What was told last stays, until something newer is.
                process.account, process.account_s = held.account, held.account_s
            if not self._takes_over(name, process, event.t0_s):
                return
            self.processes[name] = process
        if event.t0_s >= process.account_s:  # What a spool held back comes later than what is newer.
            process.account, process.account_s = account, event.t0_s

    def _takes_over(self, name: str, process: Process, t0_s: float) -> bool:
        """Part with those that spoke for the ranks of ``process`` before; False where one of them is newer."""
        others = {key: one for key, one in self.processes.items() if key != name}
        same = [key for key, one in others.items() if one.ranks & process.ranks or not (one.ranks or process.ranks)]
        newer = any(self.processes[key].account_s > t0_s for key in same)
        for key in [name] if newer else same:
            self.processes.pop(key, None)
            if len(self.gone) < MOST_PROCESSES - 1:
                self.gone[key] = None
        return not newer and (name in self.processes or len(self.processes) < MOST_PROCESSES)


_SUMMED = ("sent", "waiting", "spooled", "spooled_bytes", "outages")


def _told(event: StepTimings | HostSamples) -> object:
    return event.speakers.ranks if isinstance(event, StepTimings) else None


def _ranks(event: StepTimings | HostSamples) -> frozenset[int]:
    if not isinstance(event, StepTimings):
        return frozenset()
    return frozenset(int(rank) for rank in columns.numbers(event.speakers.ranks))


class Producers:
    """What was heard of all producers, by one worker.

    >>> producers = Producers()
    >>> producers.missing, producers.lost_rows, producers.senders
    ({}, 0, {})
    """

    def __init__(self) -> None:
        self._sequences: dict[str, Sequences] = {}
        #: Service, node, job (none of a collector).
        self.senders: dict[tuple[str, str, str], Sender] = {}
        self.lost_rows = 0

    @property
    def missing(self) -> dict[str, int]:
        """Messages that never came, or could not be read, by topic."""
        return {topic: sequences.missing for topic, sequences in self._sequences.items()}

    def hear(self, topic: Topic, event: Event, now_s: float = 0.0) -> None:
        """Take down what ``event``, heard at ``now_s``, tells; one that comes again tells nothing."""
        if not isinstance(event, Produced):
            return
        sequences = self._sequences.get(topic.short)
        if sequences is None:
            sequences = self._sequences[topic.short] = Sequences(MOST_PRODUCERS)
        if not sequences.admit(event.producer, event.sequence):
            return
        if isinstance(event, StepTimings):
            self.lost_rows += event.lost
            self._account(("sidecar", event.node, event.job), event, now_s)
        elif isinstance(event, HostSamples):
            self._account(("collectors", event.node, ""), event, now_s)

    def forget_positions(self) -> None:
        """What comes next was heard before, or by another worker: no jump in the numbers is a gap."""
        for sequences in self._sequences.values():
            sequences.forget_gaps()

    def speaking(self, now_s: float) -> list[tuple[tuple[str, str, str], Sender]]:
        """The senders that were heard in the last five minutes, in order."""
        return sorted(
            ((who, one) for who, one in self.senders.items() if now_s < one.heard_s + SERIES_SILENT_S),
            key=lambda each: each[0],
        )

    def _account(self, who: tuple[str, str, str], event: StepTimings | HostSamples, now_s: float) -> None:
        if not isinstance(event.account, DeliveryAccount):
            return
        sender = self.senders.pop(who, None) or Sender()
        self.senders[who] = sender
        sender.heard_s = now_s
        sender.hear(event, event.account)
        if len(self.senders) > MOST_SENDERS:
            del self.senders[next(iter(self.senders))]
