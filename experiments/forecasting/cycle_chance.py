"""The table in ``forecaster/cycles/chance.py``: what the comb makes of noise that has memory and no cycle.

    python -m experiments.forecasting.cycle_chance      minutes; prints the rows of FEW and of MANY (the larger of both)

Noise: each value is ``memory`` times the one before it, and a new normal one.
"""

import argparse

import numpy as np
from scipy.signal import lfilter

from forecaster.cycles.chance import FEW_CYCLES, LENGTHS, MEMORIES
from forecaster.cycles.samples import on_grid
from forecaster.cycles.signals import strongest

WITHIN, BEFORE = 0.9775, 500


def levels(length: int, memory: float, draws: int, seed: int = 0) -> tuple[float, float]:
    """What ``WITHIN`` of the records of such noise stay below with few cycles, and with many."""
    random = np.random.default_rng((seed, length, round(100 * memory)))
    few, many = np.zeros(draws), np.zeros(draws)
    for draw in range(draws):
        noise = lfilter([1.0], [1.0, -memory], random.normal(size=length + BEFORE))[BEFORE:]
        best = strongest(on_grid(noise, 1.0, None))
        if best is not None:
            look, tooth = best
            (few if len(look.part) < FEW_CYCLES * tooth.period else many)[draw] = tooth.sigmas
    return float(np.quantile(few, WITHIN)), float(np.quantile(many, WITHIN))


def main() -> None:
    """Print a row a length."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000, help="records a number (1000)")
    args = parser.parse_args()
    for length in LENGTHS:
        row = [levels(int(length), memory, args.draws) for memory in MEMORIES]
        few = [one for one, _ in row]
        for name, column in (("FEW", few), ("MANY", [max(pair) for pair in row])):
            print(f"{name}  ({', '.join(f'{one:.2f}' for one in column)}),  # {length}", flush=True)


if __name__ == "__main__":
    main()
