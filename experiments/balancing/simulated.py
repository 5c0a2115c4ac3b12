"""Every policy over the simulated scenarios, and whether our aims are met.

Rule of this file: what is run and with which numbers; nothing is tuned to a seed. Policies that act at the end of an
epoch are shown with a long and a short one: an epoch's length in steps is the user's, and decides how they do.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

from . import scenarios
from .job import Policy, Run, Scenario, oracle, run
from .measures import summary
from .papers import Cannikin, LbBsp, OmniLearn
from .policies import Ours, PerEpoch, SmoothedSpeed, Static, Uniform

#: Steps an epoch.
EPOCH, SHORT_EPOCH = 25, 5
POLICIES: dict[str, Callable[[Scenario], Policy]] = {
    "uniform": lambda scenario: Uniform(),
    "static proportional": Static,
    f"per-epoch proportional, {EPOCH} steps": lambda scenario: PerEpoch(scenario, EPOCH),
    f"per-epoch proportional, {SHORT_EPOCH} steps": lambda scenario: PerEpoch(scenario, SHORT_EPOCH),
    "EWMA speed, every step": SmoothedSpeed,
    "LB-BSP's rule": LbBsp,
    f"Cannikin's rule, {EPOCH} steps": lambda scenario: Cannikin(scenario, EPOCH),
    f"Cannikin's rule, {SHORT_EPOCH} steps": lambda scenario: Cannikin(scenario, SHORT_EPOCH),
    f"OmniLearn's rule, {EPOCH} steps": lambda scenario: OmniLearn(scenario, EPOCH),
    f"OmniLearn's rule, {SHORT_EPOCH} steps": lambda scenario: OmniLearn(scenario, SHORT_EPOCH),
    "Paceline": lambda scenario: Ours(scenario, scenario.uniform()),
}
#: Quiet runs: so many steps from the start may be needed where workers are unequal; what comes later is for nothing.
START = 50
QUIET_SIZES = (2, 4, 16, 64, 256)


def simulate(quick: bool, seed: int, workers: int) -> dict[str, Any]:
    """All parts; a quick run has a tenth of the random scenarios and of the seeds."""
    seeds, count = (range(2), 20) if quick else (range(20), 200)
    with ProcessPoolExecutor(workers) as pool:
        over = partial(_over, pool)
        fail_slow = {
            f"noise {noise:.0%}, prefetch {prefetch}": over(
                partial(scenarios.fail_slow, noise, prefetch), [seed + each for each in (seeds if noise else [0])]
            )
            for noise, prefetch in ((0.0, 0), (0.05, 0), (0.05, 2), (0.05, 8))
        }
        quiet = {
            f"{'equal' if equal else 'unequal'} workers, noise {noise:.0%}": _quiet(pool, noise, equal, seeds, seed)
            for noise in (0.05, 0.15)
            for equal in (True, False)
        }
        random = over(scenarios.random, [seed + each for each in range(count)])
    return {"fail_slow": fail_slow, "quiet": quiet, "random": random}


def _over(
    pool: ProcessPoolExecutor, make: Callable[..., Scenario], seeds: Iterable[int]
) -> dict[str, list[dict[str, Any]]]:
    """Every policy's summaries, scenario by scenario."""
    found = list(pool.map(partial(_one, make), seeds))
    return {name: [each[name] for each in found] for name in (*POLICIES, "oracle behind prefetch", "oracle")}


def _one(make: Callable[..., Scenario], seed: int) -> dict[str, dict[str, Any]]:
    """Every policy in one scenario."""
    scenario = make(seed=seed)
    first = scenario.uniform()
    runs: dict[str, Run] = {name: run(scenario, build(scenario), first) for name, build in POLICIES.items()}
    runs["oracle"], runs["oracle behind prefetch"] = oracle(scenario), oracle(scenario, scenario.prefetch)
    references = runs["oracle"], runs["oracle behind prefetch"], runs["uniform"]
    return {name: summary(scenario, each, *references) for name, each in runs.items()}


def _quiet(
    pool: ProcessPoolExecutor, noise: float, equal: bool, seeds: Sequence[int], seed: int
) -> list[dict[str, Any]]:
    """Our plans in 500 steps in which nothing happens."""
    cases = [(size, noise, seed + each, equal) for size in QUIET_SIZES for each in seeds]
    return list(pool.map(_quiet_one, cases))


def _quiet_one(case: tuple[int, float, int, bool]) -> dict[str, Any]:
    size, noise, seed, equal = case
    scenario = scenarios.quiet(size, noise, seed, equal=equal)
    ours = run(scenario, Ours(scenario, scenario.uniform()), scenario.uniform())
    return {
        "workers": size,
        "equal": equal,
        "plans": len(ours.plans) - 1,
        "late_plans": sum(plan.first_batch > START for plan in ours.plans),
        "of_oracle": oracle(scenario).total_s / ours.total_s,
        "of_uniform_time": ours.total_s / run(scenario, Uniform(), scenario.uniform()).total_s,
    }
