"""What is missing of producers' messages, and what producers say of themselves, for ``/metrics``.

Rule of this file: counts only, pure and bounded. It judges nothing; a job's own coverage is kept with its verdicts.
"""

from dataclasses import dataclass, field

from paceline.events import DeliveryAccount, Event, HostSamples, OpTimings, Produced, StepTimings
from paceline.sequences import Sequences
from paceline.topics import Topic

#: Senders that are told of, those heard last; and the processes of one that are told apart.
MOST_SENDERS = 1000
#: Who is silent for so long is told of no more.
SILENT_S = 300.0
MOST_PROCESSES = 100
#: Producers of a topic whose numbers are remembered.
MOST_PRODUCERS = 10_000


@dataclass
class Sender:
    """A collector or a sidecar: its newest account, and the processes that have spoken for it."""

    account: DeliveryAccount
    account_s: float
    #: When it was heard last, by the worker's clock.
    heard_s: float = 0.0
    processes: dict[str, None] = field(default_factory=dict)

    @property
    def restarts(self) -> int:
        """How often another process took over."""
        return len(self.processes) - 1


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
        if isinstance(event, StepTimings | OpTimings):
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
            ((who, one) for who, one in self.senders.items() if now_s < one.heard_s + SILENT_S),
            key=lambda each: each[0],
        )

    def _account(self, who: tuple[str, str, str], event: StepTimings | OpTimings | HostSamples, now_s: float) -> None:
        if not isinstance(event.account, DeliveryAccount):
            return
        sender = self.senders.pop(who, None) or Sender(event.account, event.t0_s)
        self.senders[who] = sender
        sender.heard_s = now_s
        if len(sender.processes) < MOST_PROCESSES:
            sender.processes[event.producer] = None
        if event.t0_s >= sender.account_s:  # What a spool held back comes later than what is newer.
            sender.account, sender.account_s = event.account, event.t0_s
        if len(self.senders) > MOST_SENDERS:
            del self.senders[next(iter(self.senders))]
