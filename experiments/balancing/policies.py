"""Rules for the shares that need no paper, and ours."""

from collections.abc import Sequence

import numpy as np

from paceline.balance.controller import Controller, ControllerConfig
from paceline.balance.plan import Plan
from paceline.balance.split import Worker, split

from .job import Floats, Observation, Scenario, Shares


def proportional(speeds: Floats, total: int) -> list[int]:
    """Shares like speeds, in samples a second, whole and at least 1."""
    return split([Worker(0.0, 1 / speed, least=1) for speed in speeds.tolist()], total)


class Uniform:
    """Every worker takes as much."""

    def observe(self, seen: Observation) -> Shares | None:
        return None

    def adopted(self, version: int, first_batch: int, shares: Shares) -> None:
        pass


class Static(Uniform):
    """Shares like the speeds of the first steps, for good."""

    #: Steps that are measured; the first is not.
    STEPS = 5

    def __init__(self, scenario: Scenario) -> None:
        self._total = scenario.total
        self._speeds: list[Floats] = []

    def observe(self, seen: Observation) -> Shares | None:
        if seen.step > self.STEPS:
            return None
        if seen.step:
            self._speeds.append(np.asarray(seen.shares) / seen.times_s)
        return proportional(np.median(self._speeds, axis=0), self._total) if seen.step == self.STEPS else None


class PerEpoch(Uniform):
    """After each epoch, shares like the speeds in it."""

    def __init__(self, scenario: Scenario, epoch: int) -> None:
        self._total, self._epoch = scenario.total, epoch
        self._samples = np.zeros(scenario.workers)
        self._seconds = np.zeros(scenario.workers)

    def observe(self, seen: Observation) -> Shares | None:
        self._samples += np.asarray(seen.shares)
        self._seconds += seen.times_s
        if (seen.step + 1) % self._epoch:
            return None
        speeds = self._samples / self._seconds
        self._samples, self._seconds = np.zeros_like(speeds), np.zeros_like(speeds)
        return proportional(speeds, self._total)


class SmoothedSpeed(Uniform):
    """After each step, shares like the speeds, smoothed exponentially."""

    WEIGHT = 0.3

    def __init__(self, scenario: Scenario) -> None:
        self._total = scenario.total
        self._speeds: Floats | None = None

    def observe(self, seen: Observation) -> Shares | None:
        speeds = np.asarray(seen.shares) / seen.times_s
        self._speeds = speeds if self._speeds is None else self._speeds + self.WEIGHT * (speeds - self._speeds)
        return proportional(self._speeds, self._total)


class Ours:
    """Paceline's controller, as it runs on every rank."""

    def __init__(self, scenario: Scenario, first: Sequence[int], config: ControllerConfig | None = None) -> None:
        self.controller = Controller(config or ControllerConfig(total=scenario.total), first)

    def observe(self, seen: Observation) -> Shares | None:
        answer = self.controller.observe(seen.version, seen.times_s.tolist())
        return None if answer is None else answer.shares

    def adopted(self, version: int, first_batch: int, shares: Shares) -> None:
        self.controller.adopt(Plan(version, first_batch, tuple(shares)))
