"""What jobs and nodes took, in words: one line of the panel each.

Rule of this file: words over the accounts; what was not measured is left out, and what was estimated is called so.
"""

from collections.abc import Collection, Iterator

from paceline.energy.energy_book import EnergyBook
from paceline.energy.job_energy import JobEnergy
from paceline.energy.tariff import Tariff, joules_in_words, kwh_in_words

#: How a number was come by, where it is not the counter of a GPU that one job had alone.
_SOURCES = {"power": "power x time", "mixed": "counter and power x time"}
_SPLITS = {"memory": "shared GPUs split by memory", "even": "shared GPUs split evenly"}
_HOSTS = {"gpus": "hosts split by GPUs", "ranks": "hosts split by ranks"}
#: Jobs of nodes that are told of.
_SHOWN = 3


def of_job(account: JobEnergy, tariff: Tariff) -> str:
    """A job's energy.

    >>> of_job(JobEnergy(gpu_j=7.2e6, sources=["power"]), Tariff(kwh_price=0.3, currency="EUR"))
    '2 kWh of GPUs (power x time); 0.60 EUR'
    """
    how = [words[word] for words, told in _told(account) for word in told if word in words]
    said = ", ".join(_parts(account)) + (f" ({', '.join(how)})" if how else "")
    quotients = [
        f"{joules_in_words(joules)} of GPUs a {what}"
        for what, joules in (("step", account.step_j), ("sample", account.sample_j))
        if joules is not None
    ]
    waiting = [] if account.waiting_ratio is None else [f"{account.waiting_ratio:.0%} of it while waiting for others"]
    return "; ".join([said, *filter(None, [", ".join(quotients)]), *waiting, *costs(account.total_j or 0.0, tariff)])


def _told(account: JobEnergy) -> Iterator[tuple[dict[str, str], list[str]]]:
    yield from ((_SOURCES, account.sources), (_SPLITS, account.splits), (_HOSTS, account.host_splits))


def _parts(account: JobEnergy) -> list[str]:
    parts = (("GPUs", account.gpu_j), ("processors", account.cpu_j), ("memory", account.dram_j))
    return [f"{kwh_in_words(joules)} of {what}" for what, joules in parts if joules is not None]


def costs(joules: float, tariff: Tariff) -> list[str]:
    """Money and CO2e of ``joules``, where prices are set."""
    money, co2e_kg = tariff.money(joules), tariff.co2e_kg(joules)
    told = [] if money is None else [f"{money:.2f} {tariff.currency}".strip()]
    return [*told, *([] if co2e_kg is None else [f"{co2e_kg:.3g} kg CO2e"])]


def of_nodes(book: EnergyBook, tariff: Tariff, told: Collection[tuple[str, str]]) -> list[str]:
    """What is no job's, and the jobs of which nothing but their GPUs was heard: not among ``told``."""
    others = [(job, account) for (cluster, job), account in book.jobs.items() if (cluster, job) not in told]
    others = sorted((one for one in others if one[1].total_j is not None), key=lambda one: -(one[1].total_j or 0.0))
    lines = [f"job {job}: {of_job(account, tariff)}" for job, account in others[:_SHOWN]]
    if len(others) > _SHOWN:
        lines.append(f"and {len(others) - _SHOWN} more jobs")
    idle_j, host_j, gap_j = (
        sum(getattr(node, name) for node in book.nodes.values()) for name in ("idle_gpu_j", "idle_host_j", "gap_j")
    )
    nobodys = [(idle_j, "of GPUs"), (host_j, "of processors and memory"), (gap_j, "without samples")]
    parts = ", ".join(f"{kwh_in_words(joules)} {what}" for joules, what in nobodys if joules > 0)
    if parts:
        lines.append("; ".join([f"no job's: {parts}", *costs(idle_j + host_j + gap_j, tariff)]))
    return lines
