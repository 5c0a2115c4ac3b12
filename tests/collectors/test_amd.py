"""AMD's GPUs in the collector's rows: units, what they do not tell, and which library measures a node."""

import logging

import pynvml
import pytest

from collectors.gpu import RECONNECT_S, Gpus
from collectors.inventory import describe
from collectors.processes import ProcessOwners, processes
from collectors.simulated import SimulatedNvml
from paceline.events import NodeDescribed
from paceline.gpu.amd import AmdSmi
from paceline.gpu.amd_queries import QUERIES, UNTOLD, Throttling
from paceline.gpu.driver import AbsentError
from paceline.gpu.nvml import Nvml
from paceline.gpu.queries import SELDOM_S
from paceline.gpu.sample_rows import DEVICE_COLUMNS
from tests.paceline.gpu.fake_amdsmi import GIB, NO_PERM, NOT_FOUND, NOT_SUPPORTED, FakeAmdSmi

PRODUCER = {"cluster": "c", "producer": "p", "sequence": 0, "node": "n"}
NOT_THIS_ONE = "not supported by this GPU"


@pytest.fixture
def smi():
    """Two healthy MI300X."""
    return FakeAmdSmi(2)


@pytest.fixture
def gpus(smi, clock):
    found = Gpus(lambda: AmdSmi(smi))
    found.look(clock.now_s)
    yield found
    found.close()


def test_every_column_has_a_source_or_a_reason():
    """Each once."""
    filled = [column for query in QUERIES for column in query.columns]

    assert sorted([*filled, *Throttling.COLUMNS, *UNTOLD]) == sorted(DEVICE_COLUMNS)


def test_what_amd_tells_is_in_our_units(smi, sample):
    """Percent become ratios, microwatts watts, ticks joules, kibibytes bytes, transfers a second a generation."""
    sample()
    for card in smi.cards:
        card.metrics |= {"xgmi_read_data_acc": [1000, 2100, "N/A"], "xgmi_write_data_acc": [500, 500, "N/A"]}
    row = sample()[0]

    assert (row["utilization_ratio"], row["memory_controller_ratio"]) == (0.42, 0.17)
    assert (row["fb_used_bytes"], row["fb_total_bytes"]) == (100 * GIB, 192 * GIB)
    assert (row["power_w"], row["power_limit_w"], row["energy_j"]) == (350.0, 750.0, 30.518)
    assert (row["temperature_celsius"], row["memory_temperature_celsius"]) == (61.0, 48.0)
    assert (row["sm_clock_mhz"], row["memory_clock_mhz"]) == (1305.0, 1300.0)
    assert (row["pcie_generation"], row["pcie_width"], row["pcie_replays"]) == (5, 16, 3)
    assert (row["nvlink_rx_bytes_per_s"], row["nvlink_tx_bytes_per_s"]) == (100 * 1024.0, 0.0)
    assert (row["nvlink_crc_errors"], row["nvlink_errors"]) == (4, 1)
    assert (row["ecc_corrected"], row["ecc_uncorrected"], row["retired_pages"]) == (2, 0, 1)
    assert row["throttle_reasons"] == 0


def test_what_amd_does_not_tell_is_not_measured(sample, gpus):
    """Never 0, with the reason, and nothing else is left out."""
    sample()
    row = sample()[0]

    assert {column for column, value in row.items() if value is None} == set(UNTOLD)
    assert gpus.not_measured() == dict(sorted(UNTOLD.items()))


@pytest.mark.parametrize("blank", ["N/A", 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF, None, True])
def test_a_blank_is_not_a_reading(smi, sample, gpus, blank):
    """ "N/A", the highest number of any width, nothing, or what is no number."""
    card = smi.cards[0]
    card.activity["gfx_activity"] = blank
    card.power = dict.fromkeys(card.power, blank)
    card.clocks["GFX"]["clk"] = blank
    row = sample()[0]

    assert (row["utilization_ratio"], row["power_w"], row["sm_clock_mhz"]) == (None, None, None)
    assert row["memory_controller_ratio"] == 0.17
    assert "power_w[0]" in gpus.not_measured()


def test_activity_above_a_hundred_is_none(smi, sample):
    """As AMD's own binding has it of other answers."""
    smi.cards[0].activity["gfx_activity"] = 6553

    assert sample()[0]["utilization_ratio"] is None


CALLS = {
    "amdsmi_get_gpu_activity": ("utilization_ratio", "memory_controller_ratio"),
    "amdsmi_get_power_info": ("power_w",),
    "amdsmi_get_power_cap_info": ("power_limit_w",),
    "amdsmi_get_energy_count": ("energy_j",),
    "amdsmi_get_temp_metric": ("temperature_celsius", "memory_temperature_celsius"),
    "amdsmi_get_clock_info": ("sm_clock_mhz", "memory_clock_mhz"),
    "amdsmi_get_gpu_metrics_info": ("nvlink_rx_bytes_per_s", "nvlink_tx_bytes_per_s", "throttle_reasons"),
    "amdsmi_get_gpu_ecc_count": ("nvlink_crc_errors", "nvlink_errors"),
    "amdsmi_get_gpu_total_ecc_count": ("ecc_corrected", "ecc_uncorrected"),
    "amdsmi_get_gpu_bad_page_info": ("retired_pages",),
}


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERM], ids=["not supported", "no permission"])
@pytest.mark.parametrize("call", CALLS)
def test_a_refused_call_is_not_measured(call, code, smi, sample, gpus):
    """Its columns are None with the reason there, as of NVIDIA's, and nothing else anywhere."""
    smi.cards[0].refuse[call] = code
    sample()
    refused, healthy = sample()

    assert {column for column, value in refused.items() if value is None} == {*CALLS[call], *UNTOLD}
    assert {column for column, value in healthy.items() if value is None} == set(UNTOLD)
    words = "no permission" if code == NO_PERM else NOT_THIS_ONE
    why = gpus.not_measured()
    assert {why[f"{column}[0]"] for column in CALLS[call]} == {words}


def test_a_card_without_counters_of_replays_is_asked_the_older_way(smi, sample):
    """And one without bytes of memory in MiB."""
    smi.cards[0].pcie["pcie_metric"]["pcie_replay_count"] = "N/A"
    smi.cards[0].refuse["amdsmi_get_gpu_memory_usage"] = NOT_SUPPORTED
    row = sample()[0]

    assert row["pcie_replays"] == 9
    assert (row["fb_used_bytes"], row["fb_total_bytes"]) == (100 * GIB, 196592 * 1024**2)


def test_an_older_cards_sensor_at_the_edge_is_preferred(smi, sample, gpus):
    """It is what NVIDIA's number is; a sensor that reads 0 is none."""
    smi.cards[0].temperatures |= {"EDGE": 43, "VRAM": 0}
    row = sample()[0]

    assert (row["temperature_celsius"], row["memory_temperature_celsius"]) == (43.0, None)
    assert gpus.not_measured()["memory_temperature_celsius[0]"] == "no such temperature sensor"


def test_names_of_older_libraries_are_read(smi, sample):
    """6.1 has no socket_power, 6.0 other names of clock and energy and a limit in watts."""
    card = smi.cards[0]
    card.power = {"current_socket_power": "N/A", "average_socket_power": 91}
    card.clocks["GFX"] = {"cur_clk": 800, "max_clk": 1700}
    card.energy = {"power": 1_000_000, "counter_resolution": 15.259}
    card.cap = {"power_cap": 300}
    card.pcie["pcie_metric"] |= {"pcie_speed": 16}
    row = sample()[0]

    assert (row["power_w"], row["sm_clock_mhz"], row["energy_j"]) == (91.0, 800.0, 15.259)
    assert (row["power_limit_w"], row["pcie_generation"]) == (300.0, 4)


@pytest.mark.parametrize(
    ("counter", "mask"),
    [
        ("ppt_residency_acc", 0x4),
        ("socket_thm_residency_acc", 0x20),
        ("hbm_thm_residency_acc", 0x20),
        ("vr_thm_residency_acc", 0x40),
        ("prochot_residency_acc", 0x40),
    ],
)
def test_a_counter_that_grows_is_a_reason(smi, sample, counter, mask):
    """In NVML's bits; what stood there before, and does not grow, is of the past."""
    sample()
    smi.cards[0].metrics[counter] += 1

    assert [row["throttle_reasons"] for row in sample()] == [mask, 0]
    assert sample()[0]["throttle_reasons"] == 0


def test_reasons_that_come_together_are_told_together(smi, sample):
    """As NVML's mask is."""
    sample()
    smi.cards[0].metrics |= {"ppt_residency_acc": 99, "socket_thm_residency_acc": 99}

    assert sample()[0]["throttle_reasons"] == 0x24


def test_the_first_look_tells_no_reason_and_that_passes(sample, gpus):
    """There is no time between; nothing is noted as not measured."""
    assert sample()[0]["throttle_reasons"] is None
    assert "throttle_reasons" not in gpus.not_measured()


@pytest.mark.parametrize("after", [0, "N/A", 0xFFFFFFFFFFFFFFFF])
def test_a_counter_that_goes_back_or_away_tells_nothing(smi, sample, after):
    """A GPU that was reset meanwhile: not known, and known again from then on."""
    sample()
    smi.cards[0].metrics["ppt_residency_acc"] = after

    assert sample()[0]["throttle_reasons"] is None
    assert sample()[0]["throttle_reasons"] == 0


def test_a_card_that_does_not_say_why_it_throttles(smi, sample, gpus):
    """Before MI300 it tells that it does: not measured, rather than a reason that is made up."""
    smi.cards[0].metrics = dict.fromkeys(smi.cards[0].metrics, "N/A") | {
        "indep_throttle_status": True,
        "xgmi_read_data_acc": ["N/A"],
        "xgmi_write_data_acc": ["N/A"],
    }
    row = sample()[0]

    assert (row["throttle_reasons"], row["nvlink_rx_bytes_per_s"]) == (None, None)
    assert gpus.not_measured()["throttle_reasons[0]"] == "AMD SMI tells the reasons from MI300 on"
    assert gpus.not_measured()["nvlink_rx_bytes_per_s[0]"] == "no XGMI on this GPU"


@pytest.mark.parametrize("answer", [{}, [], None, "No bad pages found."])
def test_an_answer_of_another_form_costs_its_columns(smi, sample, gpus, answer):
    """A library of a later version may answer otherwise: a reason, no error."""
    smi.amdsmi_get_gpu_activity = lambda handle: answer
    smi.amdsmi_get_gpu_bad_page_info = lambda handle: "No bad pages found."
    row = sample()[0]

    assert (row["utilization_ratio"], row["retired_pages"]) == (None, None)
    assert row["power_w"] == 350.0
    assert gpus.not_measured()["utilization_ratio"] == "not known to this version of AMD SMI"
    assert gpus.not_measured()["retired_pages"] == "not reported by this version of AMD SMI"


def test_a_call_that_the_library_lacks_is_not_measured(smi, sample, gpus, monkeypatch):
    """It costs its columns, no more."""
    monkeypatch.delattr(FakeAmdSmi, "amdsmi_get_energy_count")

    assert sample()[0]["energy_j"] is None
    assert gpus.not_measured()["energy_j"] == "not known to this version of AMD SMI"


def test_a_lost_gpu_leaves_the_other_alone(smi, sample, gpus, clock):
    """One reason for all of it, and it comes back when it answers."""
    sample()
    smi.cards[0].lost = NOT_FOUND
    lost, healthy = sample()

    assert set(lost.values()) == {None}
    assert healthy["power_w"] == 350.0
    assert gpus.not_measured()["power_w[0]"] == "GPU is lost"
    smi.cards[0].lost = None
    assert sample(60.0)[0]["power_w"] == 350.0


def test_nothing_that_blocks_resets_or_sets_is_called(smi, sample):
    """amdsmi_get_violation_status sleeps 100 ms and the PCIe throughput a second; an XGMI status may be cleared by
    reading it."""
    for _ in range(3):
        sample(SELDOM_S)
    called = set(smi.calls)

    assert not called & {
        "amdsmi_get_violation_status",
        "amdsmi_get_gpu_pci_throughput",
        "amdsmi_gpu_xgmi_error_status",
    }
    assert not [call for call in called if "_set_" in call or "reset" in call]


def test_the_inventory_is_amds(gpus):
    """Name, place, ratings; there is no CUDA to speak of, and no MIG."""
    node = NodeDescribed(**describe(gpus, 5.0), **PRODUCER)
    device = node.devices[1]

    assert (node.driver, node.cuda) == ("amdgpu 6.14.14", None)
    assert (device.name, device.uuid, device.pci_bus_id) == (
        "AMD Instinct MI300X",
        "GPU-8af705259683161d",
        "0000:0d:00.0",
    )
    assert (device.memory_total_bytes, device.power_limit_w, device.sm_clock_max_mhz) == (192 * GIB, 750.0, 2100)
    assert (device.pcie_generation_max, device.pcie_width_max, device.mig) == (5, 16, None)
    assert node.not_measured == {}


def test_processes_are_claimed_by_the_device_file_of_amds(gpus, smi, tmp_path):
    """Computing goes by /dev/kfd; a process without it may be a stranger of the same number."""
    for pid, file in ((7, "/dev/kfd"), (8, "/dev/nvidia0")):
        folder = tmp_path / str(pid) / "fd"
        folder.mkdir(parents=True)
        (folder / "3").symlink_to(file)
        (folder.parent / "comm").write_text("python3\n")
        (folder.parent / "environ").write_bytes(b"PACELINE_JOB=llm\0RANK=3\0")
        memory = {"gtt_mem": 0, "cpu_mem": 0, "vram_mem": GIB}
        smi.cards[1].processes.append({"name": "N/A", "pid": pid, "mem": 0, "memory_usage": memory})
    running, why = processes(gpus.driver, gpus.devices, ProcessOwners(tmp_path))

    assert [(one.device, one.pid, one.job, one.rank, one.used_bytes) for one in running] == [
        (1, 7, "llm", 3, GIB),
        (1, 8, None, None, GIB),
    ]
    assert why == {}


# --- which library measures -------------------------------------------------------------------------------------------


def absent(why):
    def load():
        raise AbsentError(why)

    return load


def test_the_library_that_has_gpus_measures(smi, clock):
    """NVIDIA's driver may be there without a card."""
    gpus = Gpus(lambda: Nvml(SimulatedNvml(0, now=clock)), lambda: AmdSmi(smi))
    gpus.look(clock.now_s)

    assert (gpus.driver.name, len(gpus.devices)) == ("AMD SMI", 2)
    gpus.close()


def test_without_either_both_reasons_are_told_once(clock, caplog):
    """In one line."""
    code = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
    gpus = Gpus(lambda: Nvml(SimulatedNvml(0, now=clock, init_error=code)), absent("no AMD SMI"))
    for _ in range(3):
        gpus.look(clock.now_s)
        clock.now_s += RECONNECT_S

    assert gpus.absent == "no NVIDIA driver (libnvidia-ml.so.1 not found); no AMD SMI"
    assert len(caplog.records) == 1


def test_a_node_with_both_says_which_one_measures(smi, clock, caplog):
    """NVIDIA's come first; that AMD's are left out is said once, and their library is closed."""
    caplog.set_level(logging.INFO)
    nvml = SimulatedNvml(1, now=clock)
    gpus = Gpus(lambda: Nvml(nvml), lambda: AmdSmi(smi))
    gpus.look(clock.now_s)
    nvml.gpus[0].lost = pynvml.NVML_ERROR_GPU_IS_LOST
    gpus.sample(clock.now_s)
    clock.now_s += RECONNECT_S
    gpus.look(clock.now_s)

    said = [record.getMessage() for record in caplog.records]
    assert said.count("GPUs are measured by NVML; those of AMD SMI beside them are not") == 1
    assert "1 GPUs, measured by NVML" in said
    assert (gpus.driver.name, smi.open) == ("NVML", False)
    gpus.close()


def test_rocm_that_comes_later_is_found(smi, clock):
    """As a driver of NVIDIA's is."""
    loads = [absent("no AMD SMI")]
    gpus = Gpus(lambda: loads[0]())
    before = gpus.look(clock.now_s)
    loads[0] = lambda: AmdSmi(smi)
    clock.now_s += RECONNECT_S

    assert (before, gpus.look(clock.now_s), len(gpus.sample(clock.now_s))) == (True, True, 2)
    gpus.close()
