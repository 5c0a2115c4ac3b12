"""The scenarios: the one that the aims are stated for, quiet ones, and random ones.

Rule of this file: a scenario is a function of its seed.
"""

import numpy as np

from .job import Floats, Scenario


def noise(chance: np.random.Generator, steps: int, workers: int, sigma: float) -> Floats:
    """Factors around 1 with a standard deviation of ``sigma``, log-normal, so that none is below 0."""
    return np.asarray(np.exp(sigma * chance.standard_normal((steps, workers)) - sigma**2 / 2))


def fail_slow(sigma: float = 0.0, prefetch: int = 0, seed: int = 0) -> Scenario:
    """Speeds 1:1:2:4; the fastest is three times slower in steps 50 to 99 of 150."""
    slowness = np.ones((150, 4))
    slowness[50:100, 3] = 3.0
    slow = 1 / np.array([1.0, 1.0, 2.0, 4.0])
    return Scenario(
        name=f"1:1:2:4, rank 3 three times slower in steps 50-99, noise {sigma:.0%}, prefetch {prefetch}",
        total=256,
        fixed_s=0.004 * slow,
        sample_s=0.001 * slow,
        slowness=slowness,
        noise=noise(np.random.default_rng(seed), 150, 4, sigma),
        exchange_s=0.008,
        prefetch=prefetch,
    )


def quiet(workers: int, sigma: float, seed: int, *, equal: bool, steps: int = 500) -> Scenario:
    """Nothing happens."""
    chance = np.random.default_rng(seed)
    slow = np.ones(workers) if equal else chance.choice([1.0, 0.5, 0.25], workers)
    return Scenario(
        name=f"quiet, {workers} {'equal' if equal else 'unequal'} workers, noise {sigma:.0%}",
        total=64 * workers,
        fixed_s=0.008 * slow,
        sample_s=0.001 * slow,
        slowness=np.ones((steps, workers)),
        noise=noise(chance, steps, workers, sigma),
        exchange_s=0.004,
    )


def random(seed: int, most_workers: int = 1024, steps: int = 300) -> Scenario:
    """Workers, costs, drift, fail-slow, recovery, hiccups, noise, prefetching and slow first steps at random."""
    chance = np.random.default_rng(seed)
    workers = round(2 * (most_workers / 2) ** chance.random())
    share = int(chance.integers(16, 257))
    slow = _speeds(chance, workers)
    sigma = chance.uniform(0.01, 0.15)
    factors = noise(chance, steps, workers, sigma)
    _hiccups(chance, factors)
    factors[0] *= chance.uniform(1.0, 5.0)
    part = chance.uniform(0.0, 0.4)
    return Scenario(
        name=f"random {seed}: {workers} workers, {share} samples each, noise {sigma:.0%}",
        total=share * workers,
        fixed_s=0.001 * share * part * _fixed_parts(chance, slow),
        sample_s=0.001 * slow,
        slowness=_slowness(chance, steps, workers),
        noise=factors,
        exchange_s=0.001 * share * chance.uniform(0.0, 0.3),
        prefetch=int(chance.choice([0, 0, 1, 2, 4, 8])),
        reshape=float(chance.choice([0.0, 0.0, 0.3])),
    )


def _speeds(chance: np.random.Generator, workers: int) -> Floats:
    """By which factor each is slower for good: all alike, two or three kinds of device, or all different."""
    kind = chance.integers(4)
    if kind == 0:
        return np.ones(workers)
    if kind < 3:
        return np.asarray(chance.choice([1.0, 0.5, 0.25][: kind + 1], workers))
    return np.asarray(np.exp(0.3 * chance.standard_normal(workers)))


def _fixed_parts(chance: np.random.Generator, slow: Floats) -> Floats:
    """The fixed seconds go with the worker's slowness, are the same for all, or neither."""
    kind = chance.integers(3)
    if kind == 0:
        return slow
    return np.ones_like(slow) if kind == 1 else slow * chance.uniform(0.3, 1.7, len(slow))


def _slowness(chance: np.random.Generator, steps: int, workers: int) -> Floats:
    """None, one to three workers that fail slow, of which most recover; and some drift, in spells of 10 steps."""
    slowness = np.ones((steps, workers))
    for _ in range(chance.integers(4)):
        rank, start = chance.integers(workers), chance.integers(10, steps - 20)
        end = int(start + chance.integers(20, steps)) if chance.random() < 0.7 else steps
        slowness[start:end, rank] *= chance.uniform(1.2, 5.0)
    if chance.random() < 0.5:
        to = np.exp(chance.uniform(-0.3, 0.3, workers))
        spell = np.arange(steps)[:, None] // 10 * 10 / steps
        slowness *= to**spell
    return slowness


def _hiccups(chance: np.random.Generator, factors: Floats) -> None:
    """In half of the jobs, in one of fifty steps one worker takes two to four times as long."""
    steps, workers = factors.shape
    if chance.random() < 0.5:
        for step in np.flatnonzero(chance.random(steps) < 0.02):
            factors[step, chance.integers(workers)] *= chance.uniform(2.0, 4.0)
