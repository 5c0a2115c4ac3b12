"""What one job has taken: joules of its GPUs, of processors and memory, and of them those of a step and of waiting.

Rule of this file: sums, and bounded. Steps and joules are joined by the start of their windows, so that a step is only
divided into joules of its own time. What it assumes: that the clocks of a job's nodes agree to within a window, as NTP
keeps them; and that joules and steps of one time come within ``OPEN`` windows of each other. Who is later counts in the
sum, and in no quotient.
"""

from collections.abc import Iterable

import msgspec

from paceline.events import JobDescribed, JobWindow
from paceline.step_samples import DataPart, data_part, samples_a_step

#: Windows whose joules and steps are waited for.
OPEN = 8
#: Parts of a job (its nodes, mostly) whose batch and places are known.
_MOST_PARTS = 20_000


class Joined(msgspec.Struct):
    """Windows of which joules and steps are both known: joules of GPUs and steps.

    Of those of them that told how long ranks waited: joules in all, and in the time that was waited.
    """

    gpu_j: float = 0.0
    steps: int = 0
    told_j: float = 0.0
    waiting_j: float = 0.0


class _Open(msgspec.Struct):
    gpu_j: float | None = None
    steps: int | None = None
    waited_steps: float = 0.0
    told_steps: int = 0


class JobEnergy(msgspec.Struct):
    """One job's account, all its attempts together. None is *not measured*."""

    gpu_j: float | None = None
    cpu_j: float | None = None
    dram_j: float | None = None
    #: What tells the joules of GPUs (counter, power, mixed), how shared ones were split (memory, even), and how those
    #: of hosts were (gpus, ranks): each word once.
    sources: list[str] = []
    splits: list[str] = []
    host_splits: list[str] = []
    since_s: float | None = None
    until_s: float | None = None
    #: The windows that are settled.
    joined: Joined = msgspec.field(default_factory=Joined)
    open: dict[float, _Open] = {}
    #: Joules and steps of so many seconds are joined, from a multiple of it on; 0: of each window.
    joined_s: float = 0.0
    #: The newest start of a window of steps by attempt; windows that come again count once.
    counted_s: dict[int, float] = {}
    #: By part of the job: whose batches its steps are made of.
    parts: dict[str, DataPart] = {}

    @property
    def total_j(self) -> float | None:
        """All that was measured."""
        known = [one for one in (self.gpu_j, self.cpu_j, self.dram_j) if one is not None]
        return sum(known) if known else None

    @property
    def step_j(self) -> float | None:
        """Joules of all its GPUs a step."""
        known = self.known()
        return known.gpu_j / known.steps if known.steps else None

    @property
    def sample_j(self) -> float | None:
        """Joules of all its GPUs a sample of the training data."""
        samples = self.samples_a_step
        return self.step_j / samples if self.step_j is not None and samples else None

    @property
    def waiting_ratio(self) -> float | None:
        """Share of the joules of its GPUs in the time for which the median rank waited for others."""
        known = self.known()
        return known.waiting_j / known.told_j if known.told_j > 0 else None

    @property
    def waiting_j(self) -> float | None:
        """The same in joules, of all of its GPUs'."""
        ratio = self.waiting_ratio
        return ratio * self.gpu_j if ratio is not None and self.gpu_j is not None else None

    @property
    def samples_a_step(self) -> int | None:
        """Samples of all ranks together, of the batches that their loaders make; None where it is not known."""
        return samples_a_step(self.parts.values())

    def add_gpu(self, start_s: float, length_s: float, joules: float, words: tuple[str, str]) -> None:
        """Joules of a GPU in the window from ``start_s`` on; ``words``: what tells them, and how it was shared."""
        self.gpu_j = (self.gpu_j or 0.0) + joules
        _note(self.sources, words[0])
        _note(self.splits, words[1])
        self._see(start_s, length_s)
        held = self._at(start_s)
        if held is not None:
            held.gpu_j = (held.gpu_j or 0.0) + joules

    def add_host(
        self, start_s: float, length_s: float, cpu_j: float | None, dram_j: float | None, split: str = ""
    ) -> None:
        """Its part of a host's joules in a window."""
        if cpu_j is not None:
            self.cpu_j = (self.cpu_j or 0.0) + cpu_j
        if dram_j is not None:
            self.dram_j = (self.dram_j or 0.0) + dram_j
        _note(self.host_splits, split)
        self._see(start_s, length_s)

    def add_steps(self, window: JobWindow) -> None:
        """The steps of a window, and how long its median rank waited in them."""
        if window.start_s <= self.counted_s.get(window.attempt, -1.0):
            return
        if window.attempt not in self.counted_s and len(self.counted_s) >= OPEN:
            del self.counted_s[min(self.counted_s)]
        self.counted_s[window.attempt] = window.start_s
        held = self._at(window.start_s)
        if held is not None:
            held.steps = (held.steps or 0) + max(window.steps, 0)
            if window.wait_ratio is not None:
                held.waited_steps += min(max(window.wait_ratio, 0.0), 1.0) * max(window.steps, 0)
                held.told_steps += max(window.steps, 0)

    def describe(self, event: JobDescribed) -> None:
        """What a node says of its part."""
        if event.teller not in self.parts and len(self.parts) >= _MOST_PARTS:
            return
        self.parts[event.teller] = data_part(event)

    def known(self) -> Joined:
        """Windows that are settled, and those of which all nodes should have told: all but the newest."""
        made = msgspec.structs.replace(self.joined)
        for start_s in sorted(self.open)[:-1]:
            _join(made, self.open[start_s])
        return made

    def finish(self) -> None:
        """Nothing more comes."""
        self._settle(sorted(self.open))

    def _see(self, start_s: float, length_s: float) -> None:
        self.since_s = start_s if self.since_s is None else min(start_s, self.since_s)
        end_s = start_s + length_s
        self.until_s = end_s if self.until_s is None else max(end_s, self.until_s)

    def _at(self, start_s: float) -> _Open | None:
        """What is open of the window from ``start_s`` on; None of one that is settled."""
        start_s = start_s // self.joined_s * self.joined_s if self.joined_s else start_s
        held = self.open.get(start_s)
        if held is None:
            if len(self.open) >= OPEN and start_s < min(self.open):
                return None
            held = self.open[start_s] = _Open()
            self._settle(sorted(self.open)[: max(0, len(self.open) - OPEN)])
        return held

    def _settle(self, starts: Iterable[float]) -> None:
        for start_s in list(starts):
            _join(self.joined, self.open.pop(start_s))


def _join(joined: Joined, one: _Open) -> None:
    """Count a window in where joules and steps are both known."""
    if one.gpu_j is None or not one.steps:
        return
    joined.gpu_j += one.gpu_j
    joined.steps += one.steps
    if one.told_steps:
        joined.told_j += one.gpu_j
        joined.waiting_j += one.gpu_j * one.waited_steps / one.told_steps


def _note(words: list[str], word: str) -> None:
    if word and word not in words and len(words) < OPEN:
        words.append(word)
