"""The panel's lines of energy: what was measured, how it was come by, and nothing where nobody measured."""

import pytest

from paceline import topics, wire
from paceline.energy.energy_book import EnergyBook
from paceline.energy.job_energy import JobEnergy, Joined
from paceline.energy.tariff import Tariff
from paceline.recording import Line
from paceline.step_samples import DataPart
from streams.analyze import Analysis
from streams.reports.energy import of_job, of_nodes
from streams.reports.panel import panel

PRICES = Tariff(kwh_price=0.25, currency="EUR", co2e_g_per_kwh=400.0, pue=1.2)


def test_all_that_is_known_is_one_line():
    """Parts, quotients, what waiting took, money and CO2e of the building."""
    account = JobEnergy(
        gpu_j=7.2e6,
        cpu_j=3.6e5,
        dram_j=3.6e4,
        sources=["counter"],
        joined=Joined(gpu_j=3.6e6, steps=3000, told_j=3.6e6, waiting_j=0.9e6),
        parts={"n": DataPart(4, 8, 8, [])},
    )
    assert of_job(account, PRICES) == (
        "2 kWh of GPUs, 100 Wh of processors, 10 Wh of memory; 1.2 kJ of GPUs a step, 37.5 J of GPUs a sample; "
        "25% of it while waiting for others; 0.63 EUR; 1.01 kg CO2e"
    )


def test_what_was_estimated_is_called_so():
    """Power x time, and how shared GPUs and hosts were split."""
    account = JobEnergy(gpu_j=3.6e6, sources=["counter", "mixed"], splits=["memory"], cpu_j=0.0, host_splits=["gpus"])
    assert of_job(account, Tariff()) == (
        "1 kWh of GPUs, 0 Wh of processors (counter and power x time, shared GPUs split by memory, hosts split by GPUs)"
    )


def test_without_devices_there_is_no_line(make_training):
    """A run whose devices nobody sampled: not 0 Wh."""
    assert of_nodes(EnergyBook(), PRICES, ()) == []
    assert "Energy" not in said(topics.OP, make_training(ranks=2, seconds=5))


def said(topic, events):
    """The panel of a recording of ``events``."""
    analysis = Analysis(lambda topic, event: None, pytest.fail, totals=True)
    for number, event in enumerate(events):
        analysis.update(Line(number, topic.name, None, 0, wire.encode(event)))
    analysis.finish()
    return panel(analysis.summary, analysis.energy, PRICES)


@pytest.mark.long
def test_a_node_alone_tells_jobs_and_what_is_nobodys(make_metered_samples, make_device_samples):
    """No rank was heard: the jobs that the processes name have their lines all the same."""
    rows = said(topics.DEVICE, make_metered_samples(100)).splitlines()
    assert rows[0] == "paceline: nodes"
    assert rows[1].startswith("  Energy   job b: ")
    assert rows[2].strip().startswith("job a: ")
    alone = said(topics.DEVICE, make_device_samples(100, power_w=[100.0, 100.0]))
    assert "no job's: 4.99 Wh of GPUs" in alone
