"""What a GPU's and a host's facts can be: one table, asked by all five sources alike."""

import json
import math
from collections import Counter

import pytest

from paceline.events import DeviceSamples, HostSamples
from paceline.gpu import exporter
from paceline.gpu.amd import AmdSmi
from paceline.gpu.answers import Answers
from paceline.gpu.dcgm import FIELDS, ONLY_DCGM
from paceline.gpu.limits import LIMITS, blank, limit, possible
from paceline.gpu.nvml import Nvml
from paceline.gpu.queries import Query
from paceline.gpu.sample_rows import DEVICE_COLUMNS
from paceline.prometheus import Metric, highest, read
from paceline.wire import sample_columns

#: What drivers, exporters and broken sensors were seen to give in place of a number.
RUBBISH = (
    *(0x7FFFFFF0, 0x7FFFFFF3, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1, 0x7FFFFFFFFFFFFFF2),
    *(140737488355328.0, math.nan, math.inf, -math.inf, -1.0),
)
#: Rubbish in one unit, a number in another: 2^31 bytes are 2 GiB.
OF_A_SENSOR = (*RUBBISH, 2**31, 808334905, 65535)
SENSORS = (
    *("utilization_ratio", "power_w", "power_limit_w", "temperature_celsius", "memory_temperature_celsius"),
    *("sm_clock_mhz", "memory_clock_mhz", "pcie_generation", "pcie_width", "xid", "throttle_reasons"),
)
UTIL = "DCGM_FI_DEV_GPU_UTIL"


def test_every_fact_of_a_gpu_has_a_range():
    """Each column of the events and each field that only DCGM has; of a host, all that is one number."""
    host = {name for name in sample_columns(HostSamples) if name not in ("time_s", "cpu_ratio_per_core")}
    assert {*DEVICE_COLUMNS, *ONLY_DCGM, *host} <= LIMITS.keys()
    assert "utilization_ratio" in sample_columns(DeviceSamples)


@pytest.mark.parametrize("column", SENSORS)
@pytest.mark.parametrize("value", OF_A_SENSOR)
def test_rubbish_is_in_no_range(column, value):
    """In the unit of the events."""
    assert not possible(column, value)


@pytest.mark.parametrize("raw", [value for value in RUBBISH if not value < 0 and value != 140737488355328.0])
def test_whole_numbers_by_which_drivers_say_nothing_are_blanks(raw):
    """Whatever the unit."""
    assert blank(raw)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("fb_used_bytes", 0),
        ("fb_total_bytes", 2**31),
        ("fb_total_bytes", 288 * 2**30),
        ("power_w", 2700.0),
        ("temperature_celsius", 108.0),
        ("xid", 154),
        ("energy_j", 1e11),
        ("nvlink_rx_bytes_per_s", 1.8e12),
        ("utilization_ratio", 1.02),
    ],
)
def test_what_can_be_is_kept(column, value):
    """Also of cards that are larger than most."""
    assert possible(column, value)


def test_nvml_and_amd_smi_are_held_to_it():
    """A number that cannot be is None, and why is said; the next that can be is a number again."""
    for driver in (Nvml(None), AmdSmi(None)):
        told = iter([(250.0,), (2147483.648,), (260.0,)])
        query = Query(("power_w",), (lambda library, handle, told=told: next(told),))
        driver.errors = lambda: (KeyError,)
        answers = Answers(driver, None)
        assert answers.ask(query, 0.0) == (250.0,)
        assert answers.ask(query, 1.0) == (None,)
        assert "2.14748e+06, which cannot be (from 0 to 10000 W)" in answers.impossible["power_w"]
        assert answers.ask(query, 2.0) == (260.0,)
        assert answers.impossible == {}


def text(value: object, at: int, xid: object = 0) -> str:
    labels = '{gpu="0",UUID="GPU-1",Hostname="n1"}'
    named = {field.name: value for field in FIELDS} | {"DCGM_FI_DEV_XID_ERRORS": xid}
    return "\n".join(f"{name}{labels} {number} {at}" for name, number in named.items())


@pytest.mark.parametrize("value", ["4294967295", "2147483632", "9223372036854775808", "18446744073709551615", "1e300"])
def test_a_scrape_of_rubbish_measures_nothing(value):
    """Every field of an exporter's text at once; those that are no blank of DCGM's are counted."""
    left_out: Counter[str] = Counter()
    (scrape,) = exporter.scrapes(text(value, 1000, value), left_out)
    row = scrape.gpus[0].row
    assert {name: told for name, told in row.items() if told is not None and name != "xid"} == {}
    assert not row["xid"]
    assert scrape.gpus[0].described.sm_clock_max_mhz is None
    if value == "4294967295":
        assert left_out["values of DCGM_FI_DEV_XID_ERRORS that cannot be (from 0 to 999 XID)"] == 1


def test_an_xid_beside_a_scrape_of_rubbish_is_no_less_new():
    """Rubbish is no XID, and does not hide the one that comes right behind it."""
    xids, told = exporter.LastXids(), []
    for at, code in enumerate((0, 4294967295, 79, 79)):
        (scrape,) = exporter.scrapes(text(1, 1000 + at, code), Counter())
        told += [row["xid"] for _, row in xids.rows(scrape)]
    assert told == [None, None, 79, 0]


def answer(values: list[str], **more: object) -> bytes:
    points = [[60.0 * (at + 1), value] for at, value in enumerate(values)]
    data = {"resultType": "matrix", "result": [{"metric": {}, "values": points}]}
    return json.dumps({"status": "success", "data": data, **more}).encode()


@pytest.mark.parametrize("rubbish", ["808334905", "2619", "4294967295", "2147483647"])
def test_a_point_of_rubbish_is_dropped_and_counted(rubbish):
    """What a Prometheus holds of a scrape that went wrong."""
    metric, left_out = Metric(UTIL, "utilization_ratio", "", 0.01), Counter()
    ((_, times_s, values),) = read(metric, answer(["50", rubbish, "NaN", "+Inf", "60"]), left_out)
    assert (times_s, values) == ([0.0, 240.0], [0.5, 0.6])
    assert left_out == {f"points of {UTIL} that cannot be (from 0 to 1.05 ratio)": 1}


def test_the_mean_of_a_minute_with_rubbish_in_it_is_not_asked_for():
    """The server is told the range, in the metric's own unit."""
    assert highest(Metric(UTIL, "utilization_ratio", "", 0.01)).startswith(f"max_over_time({UTIL}[60s]) <= 105 and")
    assert limit("utilization_ratio").high == 1.05


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"warnings": ["no data from 10.0.0.7:10901\x1b[31m"]}, "no data from 10.0.0.7:10901"),
        ({"isPartial": True}, "a part of its storage did not answer"),
        ({"isPartial": True, "warnings": ["store gone"]}, "store gone"),
    ],
)
def test_an_answer_in_part_says_so(more, words):
    """By Thanos' warnings or VictoriaMetrics' flag; made harmless, and the values count."""
    left_out: Counter[str] = Counter()
    ((_, _, values),) = read(Metric(UTIL, "utilization_ratio", "", 0.01), answer(["50"], **more), left_out)
    (said,) = left_out
    assert values == [0.5]
    assert said.startswith("the answer is not complete: ")
    assert words in said
    assert said.isprintable()
