"""What a job has taken, as the page shows it: a tile, and a line below all of them.

Rule of this file: pure. The page knows what it has read: sums say of how long. What was estimated is called so.
"""

from dataclasses import dataclass

from paceline.energy.job_energy import JobEnergy
from paceline.energy.tariff import Tariff, joules_in_words, kwh_in_words

from . import moments

#: How a number was come by, where it is not the counter of a GPU that one job had alone.
_ESTIMATED = {
    "power": "by power, not counters",
    "mixed": "partly by power, not counters",
    "memory": "shared GPUs split by memory",
    "even": "shared GPUs split evenly",
}


@dataclass(frozen=True)
class EnergyView:
    """A tile's number and unit, the note below it, and a line of what else is known."""

    total: tuple[str, str]
    note: str
    detail: str


def energy_view(account: JobEnergy, tariff: Tariff) -> EnergyView:
    """The tile of an account, and its line.

    >>> energy_view(JobEnergy(gpu_j=7.2e6, since_s=0.0, until_s=7500.0), Tariff(kwh_price=0.3, currency="EUR"))
    EnergyView(total=('2', 'kWh'), note='in 2 h 5 min · 0.60 EUR', detail='GPUs alone')
    """
    total_j = account.total_j or 0.0
    money, co2e_kg = tariff.money(total_j), tariff.co2e_kg(total_j)
    spans = [] if account.since_s is None or account.until_s is None else [account.until_s - account.since_s]
    notes = [
        *(f"in {moments.length(span_s)}" for span_s in spans),
        "" if money is None else f"{money:.2f} {tariff.currency}".strip(),
        "" if co2e_kg is None else f"{co2e_kg:.3g} kg CO2e",
    ]
    estimated = [_ESTIMATED[word] for word in (*account.sources, *account.splits) if word in _ESTIMATED]
    number, _, unit = kwh_in_words(total_j).partition(" ")
    detail = " · ".join([_parts(account), *_quotients(account), *estimated])
    return EnergyView((number, unit), " · ".join(filter(None, notes)), detail)


def _parts(account: JobEnergy) -> str:
    """Of what it is the sum."""
    host = [one for one in (account.cpu_j, account.dram_j) if one is not None]
    if not host:
        return "GPUs alone"
    return f"{kwh_in_words(sum(host))} of it hosts" if account.gpu_j is not None else "hosts alone"


def _quotients(account: JobEnergy) -> list[str]:
    """What a step and a sample take, and how much of it goes into waiting."""
    if account.step_j is None:
        return []
    sample = [] if account.sample_j is None else [f"{joules_in_words(account.sample_j)} a sample"]
    waiting = [] if account.waiting_ratio is None else [f"{account.waiting_ratio:.0%} of it while ranks wait"]
    return [f"{joules_in_words(account.step_j)} of all GPUs a step", *sample, *waiting]
