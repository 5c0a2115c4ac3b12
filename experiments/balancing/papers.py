"""Rules from papers, in the place of ours: told the same times, and what they say takes effect as early.

Each docstring says what the paper states and what it leaves open; LB-BSP and Cannikin are known by their abstracts
alone, so details may differ from the papers. None of their code is here.
"""

import numpy as np

from paceline.balance.split import Worker, split

from .job import Floats, Observation, Scenario, Shares
from .policies import Uniform, proportional


class LbBsp(Uniform):
    """Chen et al., "Semi-Dynamic Load Balancing", SoCC 2020, arXiv:1806.02508.

    Stated: at every barrier, shares in proportion to the speed that is predicted of each worker for the next step, by
    NARX, a recurrent network over its past speeds and its use of CPU and memory.

    Open: the network's training; and a simulated worker has no CPU and memory to see. In its place is what NARX is
    without outside inputs and hidden layers: an autoregression over the last two speeds, fitted to each worker by
    recursive least squares with a forgetting factor of 0.98. The paper's own rule for GPU clusters is not here.
    """

    FORGETTING = 0.98

    def __init__(self, scenario: Scenario) -> None:
        self._total = scenario.total
        self._past: list[Floats] = []
        #: Weights of the last speed and the one before, shape (workers, 2); at first the last one is believed.
        self._weights = np.tile([1.0, 0.0], (scenario.workers, 1))
        self._gains = np.tile(np.eye(2), (scenario.workers, 1, 1))

    def observe(self, seen: Observation) -> Shares | None:
        speed = np.asarray(seen.shares) / seen.times_s
        if len(self._past) == 2:
            self._fit(np.stack(self._past[::-1], axis=1), speed)
        self._past = [*self._past[-1:], speed]
        if len(self._past) < 2:
            return proportional(speed, self._total)
        predicted = (self._weights * np.stack(self._past[::-1], axis=1)).sum(axis=1)
        return proportional(np.clip(predicted, 0.1 * speed, 10 * speed), self._total)

    def _fit(self, inputs: Floats, speed: Floats) -> None:
        """Recursive least squares, one fit a worker; inputs are in units of the speed, so that gains are alike."""
        inputs, target = inputs / speed[:, None], np.ones_like(speed)
        spread = np.einsum("wij,wj->wi", self._gains, inputs)
        gain = spread / (self.FORGETTING + np.einsum("wi,wi->w", inputs, spread))[:, None]
        self._weights += gain * (target - (self._weights * inputs).sum(axis=1))[:, None]
        self._gains = (self._gains - np.einsum("wi,wj->wij", gain, spread)) / self.FORGETTING


class Cannikin(Uniform):
    """Nie et al., "Training DNN Models over Heterogeneous Clusters with Optimal Performance", 2024, arXiv:2402.05302.

    Stated: a worker's time is linear in its share; the first epoch is even, the second in proportion to the speeds of
    the first; from then on, each epoch, the shares that are optimal by the linear models fitted to what was measured.

    Open: how much old epochs count once a worker's speed changes: all that was measured counts alike here. Its overlap
    of gradients with their exchange is not here, as the simulated job has none, nor its choice of the global batch.
    """

    def __init__(self, scenario: Scenario, epoch: int) -> None:
        self._total, self._epoch = scenario.total, epoch
        self._shares: list[Floats] = []
        self._times: list[Floats] = []

    def observe(self, seen: Observation) -> Shares | None:
        self._shares.append(np.asarray(seen.shares, dtype=float))
        self._times.append(seen.times_s)
        if (seen.step + 1) % self._epoch:
            return None
        shares, times = np.stack(self._shares), np.stack(self._times)
        if seen.step + 1 == self._epoch:
            return proportional(shares.sum(axis=0) / times.sum(axis=0), self._total)
        return split([Worker(*line, least=1) for line in self._lines(shares, times)], self._total)

    @staticmethod
    def _lines(shares: Floats, times: Floats) -> list[tuple[float, float]]:
        """Fixed seconds and seconds a sample of each worker by least squares; through 0 where the line would fall."""
        middle, mean = shares.mean(axis=0), times.mean(axis=0)
        spread = ((shares - middle) ** 2).sum(axis=0)
        slope = ((shares - middle) * (times - mean)).sum(axis=0) / np.where(spread > 0, spread, 1.0)
        slope = np.where(slope > 0, np.minimum(slope, mean / middle), mean / middle)
        return list(zip(np.maximum(mean - slope * middle, 0.0).tolist(), slope.tolist(), strict=True))


class OmniLearn(Uniform):
    """Tyagi and Sharma, "OmniLearn", TPDS 2025, arXiv:2503.17469, by its published code (sahiltyagi4/OmniLearn).

    Stated: after each epoch, a worker's share goes up by its samples a second times how much less than the mean its
    mean time was; where that is a change of less than a dead band, the share stays.

    Open: the dead band is an argument of the code; it is 5 % here. Its code brings the shares to the global batch by
    equal parts and rounds up; here they are brought to it in proportion, and the sum is kept.
    """

    DEAD_BAND = 0.05

    def __init__(self, scenario: Scenario, epoch: int) -> None:
        self._total, self._epoch = scenario.total, epoch
        self._times: list[Floats] = []

    def observe(self, seen: Observation) -> Shares | None:
        self._times.append(seen.times_s)
        if (seen.step + 1) % self._epoch:
            return None
        shares, times = np.asarray(seen.shares, dtype=float), np.mean(self._times, axis=0)
        self._times = []
        wanted = np.maximum(shares - shares / times * (times - times.mean()), 1.0)
        wanted = np.where(np.abs(wanted - shares) / wanted >= self.DEAD_BAND, wanted, shares)
        return proportional(wanted, self._total)
