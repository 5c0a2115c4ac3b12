import os
import subprocess
import sys

import pytest

from collectors.host import Host
from collectors.rapl import NO_DRAM, NONE, REFUSED, Rapl
from paceline.gpu.queries import UnanswerableError
from tests.patience import PATIENCE_S

RANGE = 262_143_328_850


@pytest.fixture
def zones(tmp_path):
    """A powercap tree of two packages; what is called like a package elsewhere, and parts of one, are there too."""
    tree = {
        "intel-rapl:0": ("package-0", 1_000_000),
        "intel-rapl:0:0": ("core", 400_000),
        "intel-rapl:0:1": ("dram", 50_000),
        "intel-rapl:1": ("package-1", RANGE - 500_000),
        "intel-rapl:2": ("psys", 9_000_000),
        "intel-rapl-mmio:0": ("package-0", 1_000_000),
        "dtpm": ("package-9", 5),
    }

    def put(zone, micro_j=None, name=None):
        folder = tmp_path / "class" / "powercap" / zone
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "max_energy_range_uj").write_text(f"{RANGE}\n")
        if name is not None:
            (folder / "name").write_text(f"{name}\n")
        if micro_j is not None:
            (folder / "energy_uj").write_text(f"{micro_j}\n")
        return folder

    for zone, (name, micro_j) in tree.items():
        put(zone, micro_j, name)
    return put


@pytest.fixture
def rapl(zones, tmp_path):
    return Rapl(tmp_path)


def test_it_counts_from_its_first_reading(rapl):
    """What was taken before the collector began is not its own."""
    assert rapl.read()[:2] == (0.0, 0.0)


def test_packages_are_added_up_and_their_parts_are_not(rapl, zones):
    """Cores are inside packages, psys is all of the machine, and mmio tells the same package again."""
    rapl.read()
    for zone, micro_j in {
        "intel-rapl:0": 3_000_000,
        "intel-rapl:0:0": 9_000_000,
        "intel-rapl:0:1": 150_000,
        "intel-rapl:1": RANGE - 400_000,
        "intel-rapl:2": 99_000_000,
        "intel-rapl-mmio:0": 3_000_000,
    }.items():
        zones(zone, micro_j)
    assert rapl.read()[:2] == (2.1, 0.1)


def test_a_counter_goes_round(rapl, zones):
    """At its range it starts again: nothing is lost."""
    rapl.read()
    zones("intel-rapl:1", 700_000)
    assert rapl.read().cpu == pytest.approx(1.2)


def test_a_fall_without_a_range_is_another_count(rapl, zones):
    """Nobody knows where it went round: that interval is lost, and none is made up."""
    rapl.read()
    (zones("intel-rapl:1", 700_000) / "max_energy_range_uj").write_text("odd\n")
    assert rapl.read().cpu == 0.0
    zones("intel-rapl:1", 900_000)
    assert rapl.read().cpu == pytest.approx(0.2)


def test_a_package_that_goes_and_comes_back_counts_from_there(rapl, zones):
    """A processor that is off for a while: its counter is another one then."""
    rapl.read()
    folder = zones("intel-rapl:1")
    (folder / "energy_uj").unlink()
    told = rapl.read()
    assert (told.cpu, told.dram, told.why_cpu) == (None, 0.0, REFUSED)
    zones("intel-rapl:1", 5)
    assert rapl.read().cpu == 0.0


def test_a_processor_that_does_not_tell_its_memory(zones, tmp_path):
    """Of memory it is said that there is no such counter, of processors nothing is missing."""
    (zones("intel-rapl:0:1") / "name").write_text("uncore\n")
    told = Rapl(tmp_path).read()
    assert (told.cpu, told.dram, told.why_dram) == (0.0, None, NO_DRAM)


@pytest.mark.parametrize("text", ["", "-5\n", "1e6\n", "nonsense\n"])
def test_an_odd_file_is_not_measured(zones, tmp_path, text):
    """A file that says something else is no count."""
    for zone in ("intel-rapl:0", "intel-rapl:1"):
        (zones(zone) / "energy_uj").write_text(text)
    assert Rapl(tmp_path).read().cpu is None


def test_no_rapl_at_all(tmp_path):
    """A virtual machine has no such folder."""
    with pytest.raises(UnanswerableError, match="virtual machine"):
        Rapl(tmp_path).read()


READS = "import sys; from pathlib import Path; from collectors.rapl import Rapl; Rapl(Path(sys.argv[1])).read()"
WITHOUT_THE_RIGHT = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all")


@pytest.mark.slow
def test_without_the_right_it_is_said_what_helps(zones, tmp_path):
    """The kernel lets root alone read it; root itself reads here in a process that has given the right up."""
    for zone in ("intel-rapl:0", "intel-rapl:0:1", "intel-rapl:1"):
        (zones(zone) / "energy_uj").chmod(0)
    given_up = WITHOUT_THE_RIGHT if os.geteuid() == 0 else ()
    command = [*given_up, sys.executable, "-c", READS, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ran.returncode == 1
    assert "UnanswerableError" in ran.stderr
    assert "CAP_DAC_READ_SEARCH" in ran.stderr


def test_unreadable_counters_say_what_helps(zones, tmp_path):
    """Where no counter opens, for root's sake or another."""
    for zone in ("intel-rapl:0", "intel-rapl:0:1", "intel-rapl:1"):
        (zones(zone) / "energy_uj").unlink()
    with pytest.raises(UnanswerableError, match="CAP_DAC_READ_SEARCH"):
        Rapl(tmp_path).read()


def test_a_host_has_both_columns(zones, tmp_path):
    """They stand in its rows, and what is missing has its reason."""
    host = Host(tmp_path, tmp_path)
    assert host.sample(0.0)["cpu_energy_j"] == 0.0
    zones("intel-rapl:0", 4_000_000)
    row = host.sample(1.0)
    assert (row["cpu_energy_j"], row["dram_energy_j"]) == (3.0, 0.0)
    assert not {"cpu_energy_j", "dram_energy_j"} & set(host.not_measured())


def test_a_host_without_says_why(tmp_path):
    """None, with a reason."""
    host = Host(tmp_path, tmp_path)
    assert host.sample(0.0)["cpu_energy_j"] is None
    assert host.not_measured()["cpu_energy_j"] == host.not_measured()["dram_energy_j"] == NONE
