"""The tile of energy, and its line: what was measured, of how long, and nothing where nobody measured."""

import pytest

from paceline import events, topics
from paceline.energy.job_energy import JobEnergy, Joined
from paceline.energy.tariff import Tariff
from paceline.step_samples import DataPart
from tests.ui.opened_app import opened, text_of
from ui.energy_view import energy_view
from ui.feed import Feed

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
PRICES = Tariff(kwh_price=0.3, currency="EUR", co2e_g_per_kwh=400.0)


def test_all_that_is_known_is_noted():
    """Money, CO2e, the hosts' part, and what was estimated."""
    account = JobEnergy(
        gpu_j=7.2e6,
        cpu_j=3.6e5,
        sources=["mixed"],
        splits=["memory"],
        since_s=0.0,
        until_s=3600.0,
        joined=Joined(gpu_j=3.6e6, steps=3000, told_j=3.6e6, waiting_j=0.9e6),
        parts={"n": DataPart(4, 8, 8, [])},
    )
    shown = energy_view(account, PRICES)
    assert shown.total == ("2.1", "kWh")
    assert shown.note == "in 60 min · 0.63 EUR · 0.84 kg CO2e"
    assert shown.detail == (
        "100 Wh of it hosts · 1.2 kJ of all GPUs a step · 37.5 J a sample · 25% of it while ranks wait · "
        "partly by power, not counters · shared GPUs split by memory"
    )


def test_hosts_alone_are_no_gpus():
    """Training on processors: no step is divided into joules of GPUs."""
    shown = energy_view(JobEnergy(cpu_j=3.6e5), Tariff())
    assert (shown.total, shown.note, shown.detail) == (("100", "Wh"), "", "hosts alone")


def script(source):
    from ui.screens import job

    job.show(source)


def device(minute, **fields):
    about = {"cluster": "default", "length_s": 60.0, "node": "gpu-01", "device": "GPU-1", "samples": 60}
    told = {"energy_j": 36_000.0, "energy_source": "counter", "energy_by_job": {"demo": 36_000.0}} | fields
    return topics.WINDOW, events.DeviceWindow(**about, start_s=60.0 * minute, mean={}, max={}, **told)


@pytest.mark.slow
def test_the_jobs_page_shows_what_it_took(simulated_job, tell, snapshot_of):
    """Windows of devices name the job; the price is the page's own setting."""
    feed = Feed(tariff=PRICES)
    tell(feed, simulated_job.described(900.0))
    tell(feed, [device(minute) for minute in range(10)])
    shown = text_of(opened(script, (lambda job, rank=None: snapshot_of(feed, rank=rank),), None))
    assert "in 10 min · 0.03 EUR · 0.04 kg CO2e" in shown
    assert "energy: GPUs alone" in shown


@pytest.mark.slow
def test_without_measured_energy_there_is_no_tile(played, snapshot_of):
    """Not 0 Wh."""
    shown = text_of(opened(script, (lambda job, rank=None: snapshot_of(played, rank=rank),), None))
    assert ">Energy<" not in shown
