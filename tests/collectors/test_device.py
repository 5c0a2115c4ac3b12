import pynvml
import pytest

from collectors.device import BLANK, LOST_RETRY_S, SOURCES
from collectors.gpm import COLUMNS as ACTIVITY
from collectors.gpu import Gpus
from paceline.gpu.nvml import Nvml
from paceline.gpu.queries import QUERIES, SELDOM_S
from paceline.gpu.refusals import RETRY_S
from paceline.gpu.sample_rows import DEVICE_COLUMNS

NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
NO_PERMISSION = pynvml.NVML_ERROR_NO_PERMISSION
#: The call or field to refuse, and the columns that go with it.
CALLS = {
    "nvmlDeviceGetUtilizationRates": ("utilization_ratio", "memory_controller_ratio"),
    "nvmlDeviceGetPowerUsage": ("power_w",),
    "nvmlDeviceGetEnforcedPowerLimit": ("power_limit_w",),
    "nvmlDeviceGetTotalEnergyConsumption": ("energy_j",),
    "nvmlDeviceGetTemperature": ("temperature_celsius",),
    "NVML_FI_DEV_MEMORY_TEMP": ("memory_temperature_celsius",),
    "nvmlDeviceGetClockInfo": ("sm_clock_mhz", "memory_clock_mhz"),
    "nvmlDeviceGetCurrPcieLinkWidth": ("pcie_generation", "pcie_width"),
    "nvmlDeviceGetPcieReplayCounter": ("pcie_replays",),
    "NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON": ("nvlink_rated_bytes_per_s",),
    "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX": ("nvlink_rx_bytes_per_s", "nvlink_tx_bytes_per_s"),
    "nvmlDeviceGetTotalEccErrors": ("ecc_corrected", "ecc_uncorrected"),
    "NVML_FI_DEV_RETIRED_SBE": ("retired_pages",),
    "nvmlDeviceGetRemappedRows": ("remapped_rows",),
    "nvmlDeviceRegisterEvents": ("xid",),
    "nvmlGpmSampleGet": ACTIVITY,
}


def test_every_column_of_the_event_has_a_source():
    """Probes, activity and XIDs together fill every column of the event, each once."""
    filled = [column for probe in QUERIES for column in probe.columns] + [*ACTIVITY, "xid"]

    assert sorted(filled) == sorted(DEVICE_COLUMNS)
    assert sorted(SOURCES) == sorted(DEVICE_COLUMNS)


def test_a_healthy_gpu_measures_everything(sample, gpus):
    """From the second row on, when there is an interval for rates, a healthy GPU leaves nothing out."""
    sample()
    row = sample()[0]

    assert [column for column, value in row.items() if value is None] == []
    assert gpus.not_measured() == {}


def test_units_are_those_of_the_event(sample, nvml):
    """Percent become ratios, milliwatts watts, millijoules joules, KiB bytes."""
    nvml.gpus[0].state |= {"utilization": 42, "power_mw": 350_500}
    sample()
    row = sample()[0]

    assert (row["utilization_ratio"], row["power_w"], row["power_limit_w"]) == (0.42, 350.5, 700.0)
    assert row["energy_j"] == pytest.approx(350.5 * 2)
    assert row["nvlink_rx_bytes_per_s"] == pytest.approx(4e7 * 1024)
    assert row["pcie_rx_bytes_per_s"] == pytest.approx(2e9)


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION], ids=["not supported", "no permission"])
@pytest.mark.parametrize("call", CALLS)
def test_a_refused_call_is_not_measured(call, code, sample, nvml, gpus):
    """A call that one GPU refuses leaves its columns None with the reason there, and nothing else anywhere."""
    nvml.gpus[0].refuse[call] = code
    sample()
    refused, healthy = sample()

    assert [column for column, value in refused.items() if value is None] == [
        column for column in DEVICE_COLUMNS if column in CALLS[call]
    ]
    assert None not in healthy.values()
    words = "no permission" if code == NO_PERMISSION else "not supported by this GPU"
    assert gpus.not_measured() == {f"{column}[0]": words for column in CALLS[call]}


def test_a_reason_that_holds_for_all_is_said_once(sample, nvml, gpus):
    """Where every GPU refuses alike, the reason stands under the column's own name."""
    for gpu in nvml.gpus:
        gpu.refuse["nvmlDeviceGetPowerUsage"] = NO_PERMISSION
    sample()

    assert gpus.not_measured() == {"power_w": "no permission"}


def test_a_refused_call_is_retried_rarely(sample, nvml):
    """A refused call is not made again for minutes, and is answered then."""
    nvml.gpus[0].refuse["nvmlDeviceGetPowerUsage"] = NO_PERMISSION
    for _ in range(5):
        sample()
    asked = nvml.calls.count(("nvmlDeviceGetPowerUsage", 0))
    nvml.gpus[0].refuse.clear()

    assert asked == 1
    assert sample()[0]["power_w"] is None
    assert sample(RETRY_S)[0]["power_w"] is not None


def test_an_older_driver_is_asked_the_older_way(sample, nvml, gpus):
    """Where the new call is unknown the old one serves, without a reason and without asking the new one each time."""
    nvml.gpus[0].refuse |= {
        "nvmlDeviceGetCurrentClocksEventReasons": pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        "nvmlDeviceGetMemoryInfo_v2": pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    }
    sample()
    row = sample()[0]

    assert row["throttle_reasons"] == 0
    assert row["fb_used_bytes"] == nvml.gpus[0].state["used_bytes"] + nvml.gpus[0].state["reserved_bytes"]
    assert gpus.not_measured() == {}
    assert nvml.calls.count(("nvmlDeviceGetCurrentClocksEventReasons", 0)) == 1


def test_throttling_is_the_bit_mask(sample, nvml):
    """Throttle reasons are NVML's mask as it is."""
    nvml.gpus[1].state["throttle"] = pynvml.nvmlClocksEventReasonHwThermalSlowdown

    assert [row["throttle_reasons"] for row in sample()] == [0, 0x40]


def test_seldom_read_counters_repeat(sample, nvml):
    """ECC counts are read every ten seconds; rows in between repeat them."""
    sample()
    nvml.gpus[0].state["ecc"] = (3, 1)
    soon, later = sample(1.0)[0], sample(SELDOM_S)[0]

    assert (soon["ecc_corrected"], soon["ecc_uncorrected"]) == (0, 0)
    assert (later["ecc_corrected"], later["ecc_uncorrected"]) == (3, 1)


def test_a_sentinel_is_not_a_reading(sample, nvml, gpus):
    """Where the driver answers with its blank, the value is None and says so."""
    nvml.gpus[0].state["power_mw"] = 0xFFFFFFFF

    assert sample()[0]["power_w"] is None
    assert gpus.not_measured()["power_w[0]"] == BLANK


def test_no_sensor_is_not_zero_degrees(sample, nvml, gpus):
    """A memory temperature of 0 is a sensor that is not there."""
    nvml.gpus[0].state["memory_temperature"] = 0

    assert sample()[0]["memory_temperature_celsius"] is None
    assert gpus.not_measured()["memory_temperature_celsius[0]"] == "no memory temperature sensor"


def test_a_gpu_without_nvlink_has_no_nvlink_rate(sample, nvml, gpus):
    """No links: not measured, not 0, although the counters answer."""
    nvml.gpus[0].links = 0
    sample()

    assert sample()[0]["nvlink_tx_bytes_per_s"] is None
    assert gpus.not_measured()["nvlink_tx_bytes_per_s[0]"] == "no NVLink on this GPU"


def test_a_wrapped_counter_is_one_row_without_a_rate(sample, nvml):
    """A counter that ran over gives no rate for that interval and a right one for the next."""
    rows = []
    for count in (4_000_000_000, 100, 1100):
        nvml.gpus[0].state["pcie_rx"] = count
        rows.append(sample()[0]["pcie_rx_bytes_per_s"])

    assert rows == [None, None, 1000.0]


def test_mig_says_why_there_is_no_utilization(nvml, clock):
    """Under MIG the whole GPU's utilisation is not measured, and MIG is named; memory and power go on."""
    nvml.gpus[0].mig = True
    found = Gpus(lambda: Nvml(nvml))
    found.look(clock.now_s)
    row = found.sample(clock.now_s)[0][1]

    assert row["utilization_ratio"] is None
    assert row["fb_used_bytes"] is not None
    assert found.not_measured()["utilization_ratio[0]"] == "not supported by this GPU while MIG is on"
    found.close()


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED])
def test_a_lost_gpu_leaves_the_others_alone(code, sample, nvml, gpus):
    """A GPU that falls off the bus measures nothing, for one reason; its neighbour goes on."""
    sample()
    nvml.gpus[0].lost = code
    lost, healthy = sample()

    assert {value for column, value in lost.items() if column != "xid"} == {None}
    assert None not in healthy.values()
    assert {column.partition("[")[2] for column in gpus.not_measured()} == {"0]"}
    assert len(set(gpus.not_measured().values())) == 1


def test_a_lost_gpu_is_asked_rarely(sample, nvml):
    """A lost GPU costs one call in half a minute, and comes back when it answers."""
    nvml.gpus[0].lost = pynvml.NVML_ERROR_GPU_IS_LOST
    for _ in range(10):
        sample()
    asked = sum(1 for call, index in nvml.calls if index == 0 and call == "nvmlDeviceGetUtilizationRates")
    nvml.gpus[0].lost = None
    rows = [sample(LOST_RETRY_S)[0], sample()[0], sample()[0]]

    assert asked == 1
    assert None not in rows[-1].values()


def test_a_call_that_the_binding_lacks_is_not_measured(sample, nvml, gpus, monkeypatch):
    """An nvidia-ml-py without a call costs its columns, no more."""

    def lacking(*_):
        raise AttributeError("module 'pynvml' has no attribute 'nvmlDeviceGetRemappedRows'")

    monkeypatch.setattr(nvml, "nvmlDeviceGetRemappedRows", lacking, raising=False)
    sample()

    assert sample()[0]["remapped_rows"] is None
    assert gpus.not_measured() == {"remapped_rows": "not known to this version of nvidia-ml-py"}


def test_errors_of_links_are_counted_apart_by_what_they_mean(sample, nvml):
    """Damage that was repaired, and what a link did not repair by itself: all links of the GPU together."""
    sample()
    nvml.gpus[0].state |= {"nvlink_crc": 500, "nvlink_recoveries": 2}
    row = sample(SELDOM_S)[0]

    assert (row["nvlink_crc_errors"], row["nvlink_errors"]) == (500, 2)


def test_a_driver_without_totals_is_asked_link_by_link(sample, nvml, gpus):
    """The older call counts each kind of each link; the sum is the same."""
    nvml.gpus[0].refuse["NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"] = NOT_SUPPORTED
    nvml.gpus[0].state |= {"nvlink_crc": 500, "nvlink_recoveries": 2}
    row = sample()[0]

    assert (row["nvlink_crc_errors"], row["nvlink_errors"]) == (500, 2)
    assert "nvlink_errors[0]" not in gpus.not_measured()


def test_nvlink_5_has_no_crc_counters(sample, nvml, gpus):
    """It tells how often links were brought up again; what it does not count is not measured, and not 0."""
    nvml.gpus[0].refuse |= {
        "NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": NOT_SUPPORTED,
        "nvmlDeviceGetNvLinkErrorCounter": NOT_SUPPORTED,
    }
    nvml.gpus[0].state["nvlink_recoveries"] = 3
    row = sample()[0]

    assert (row["nvlink_crc_errors"], row["nvlink_errors"]) == (None, 3)
    assert gpus.not_measured() == {"nvlink_crc_errors[0]": BLANK}


def test_a_counter_of_a_link_that_is_a_blank_gives_no_sum(sample, nvml):
    """A sum without one of its parts would seem to fall, and to rise when the part is back."""
    nvml.gpus[0].state |= {"nvlink_crc": 0xFFFFFFFF, "nvlink_recoveries": 2}
    row = sample()[0]

    assert (row["nvlink_crc_errors"], row["nvlink_errors"]) == (None, 2)


def test_links_are_rated_by_those_that_are_up(sample, nvml, gpus):
    """Speed times number, in one direction; a GPU whose links are all down has no rating."""
    nvml.gpus[0].links_up, nvml.gpus[1].links_up = 9, 0
    first, second = sample()

    assert first["nvlink_rated_bytes_per_s"] == pytest.approx(9 * 26.562e9)
    assert second["nvlink_rated_bytes_per_s"] is None
    assert gpus.not_measured()["nvlink_rated_bytes_per_s[1]"] == "no NVLink of this GPU is up"


def test_no_counter_is_ever_reset_and_nothing_set(sample, nvml):
    """The collector only reads."""
    for _ in range(3):
        sample(SELDOM_S)

    assert not [call for call, _ in nvml.calls if "Reset" in call or "Set" in call.replace("EventSet", "")]
