"""NVML's samples and a dcgm-exporter's of the same facts: the same rows, the same findings, the same readings.

Rule of this file: samples as NVML gives them are written as the text that an exporter has for them, and read back.
"""

from collections import Counter

import msgspec
import pytest

from paceline.events import DeviceDescribed, NodeDescribed
from paceline.gpu import dcgm, exporter
from paceline.gpu.exporter import LastXids
from paceline.gpu.sample_rows import DEVICE_COLUMNS, device_samples
from streams.nodes import rules
from streams.nodes.node_diagnosis import NodeDiagnosis
from streams.nodes.rule_table import BANDS
from streams.reports.gpus import GpuReport

GIB = 2**30
UUIDS = ("GPU-a", "GPU-b")
RATED = {"pcie_generation_max": 5, "pcie_width_max": 16, "sm_clock_max_mhz": 1980}
LOADED = {
    "utilization_ratio": [0.9, 0.88],
    "fb_used_bytes": [40 * GIB, 41 * GIB],
    "fb_total_bytes": [80 * GIB, 80 * GIB],
    "temperature_celsius": [62.0, 63.0],
    "sm_clock_mhz": [1755.0, 1755.0],
    "throttle_reasons": [0, 0],
    "pcie_generation": [5, 5],
    "pcie_width": [16, 16],
    "power_w": [500.0, 510.0],
    "power_limit_w": [700.0, 700.0],
}
CASES = {
    "throttling": {"throttle_reasons": [0x40, 0]},
    "idle": {"utilization_ratio": [0.0, 0.9]},
    "uneven": {"utilization_ratio": [0.95, 0.5]},
    "link": {"pcie_width": [4, 16]},
    "healthy": {},
}


def label_text(uuid, index, job):
    attributed = f',hpc_job="{job}"' if job else ""
    return f'gpu="{index}",UUID="{uuid}",modelName="H100",Hostname="node-0"{attributed}'


def exported(event, job):
    """The text of an exporter on a node where NVML says ``event``."""
    lines = []
    for place, device in enumerate(event.device):
        labels = label_text(event.uuids[device], device, job)
        for column in DEVICE_COLUMNS:
            value = getattr(event, column)[place]
            if value is None:
                continue
            if column == "fb_total_bytes":
                free = (value - event.fb_used_bytes[place]) / dcgm.MIB
                lines.append(f"DCGM_FI_DEV_FB_FREE{{{labels}}} {free}")
                continue
            parts = exporter._SUMS.get(column)
            for name, factor in ((part, 2.0) for part in parts) if parts else list(dcgm.exported(column))[:1]:
                lines.append(f"{name}{{{labels}}} {value / factor!r}")
        for field, name in exporter._RATED.items():
            lines.append(f"{name}{{{labels}}} {RATED[field]}")
    return "\n".join(lines)


def by_exporter(samples, job):
    """The same samples, as they come from an exporter's text."""
    xids, made = LastXids(), []
    for event in samples:
        left_out = Counter()
        (scrape,) = exporter.scrapes(exported(event, job), left_out)
        assert not left_out
        at_s = event.t0_s + event.time_s[0]
        rows = [(at_s, uuid, row) for uuid, row in xids.rows(scrape)]
        about = (at_s, exporter.processes(scrape), exporter.uuids(scrape), exporter.not_measured(scrape))
        producer = {"cluster": event.cluster, "producer": event.producer, "sequence": event.sequence}
        made.append(device_samples(rows, *about, **producer, node=event.node))
    return made, scrape


def by_nvml(samples, job):
    """The same with the processes that the collector finds in /proc."""
    processes = exporter.processes(
        exporter.Scrape(
            "", None, "", [exporter.ExportedGpu("", None, {}, {}, ((job, job),), None) for _ in samples[0].uuids]
        )
    )
    return [msgspec.structs.replace(event, processes=processes if job else []) for event in samples]


def inventory(devices):
    return NodeDescribed(
        cluster="c",
        producer="collector",
        sequence=0,
        node="node-0",
        time_s=0.0,
        cpu_model=None,
        cpu_count=1,
        memory_total_bytes=1,
        kernel="",
        devices=devices,
    )


def judged(samples, devices):
    decision = NodeDiagnosis()
    found = decision.update(inventory(devices))
    return found + [finding for event in samples for finding in decision.update(event)]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_findings_are_the_same(make_device_samples, case):
    """Of throttling, idling, uneven and badly linked GPUs, and none of healthy ones."""
    samples = make_device_samples(400, **LOADED | CASES[case])
    text, scrape = by_exporter(samples, "job-1")
    nvml = by_nvml(samples, "job-1")
    described = [
        DeviceDescribed(index=at, uuid=uuid, name="H100", **RATED) for at, uuid in enumerate(["GPU-a", "GPU-b"])
    ]
    found = judged(nvml, described)
    assert judged(text, [gpu.described for gpu in scrape.gpus]) == found
    assert bool(found) == (case != "healthy")


@pytest.mark.long
def test_a_fault_is_told_alike(make_device_samples):
    """An XID and errors that come while it is watched."""
    quiet = {"xid": [0, 0], "ecc_uncorrected": [0, 0], "remapped_rows": [0, 0], "retired_pages": [0, 0]}
    struck = {"xid": [0, 79], "ecc_uncorrected": [1, 0], "remapped_rows": [0, 2], "retired_pages": [0, 2]}
    samples = make_device_samples(20, **LOADED | quiet)
    samples[10] = make_device_samples(11, **LOADED | struck)[10]
    text, _ = by_exporter(samples, "")
    text_found, found = judged(text, []), judged(by_nvml(samples, ""), [])
    assert [(one.kind, one.devices, one.summary) for one in text_found] == [
        (one.kind, one.devices, one.summary) for one in found
    ]
    assert {one.kind for one in found} == {"device_fault"}


@pytest.mark.slow
def test_filling_memory_is_told_alike(make_device_samples):
    """The trend is over the same bytes."""
    samples = [
        make_device_samples(at + 1, **LOADED | {"fb_used_bytes": [int((73 + 6 * at / 300) * GIB), GIB]})[at]
        for at in range(300)
    ]
    found = judged(by_nvml(samples, "job-1"), [])
    assert {one.kind for one in found} >= {"out_of_memory_risk"}
    text, _ = by_exporter(samples, "job-1")
    assert [(one.kind, one.state) for one in judged(text, [])] == [(one.kind, one.state) for one in found]


def test_readings_are_the_same(make_device_samples):
    """Bands and relations of the table, and what lies outside of a healthy job's ranges."""
    busy = {
        "memory_controller_ratio": [0.2, 0.9],
        "tensor_active_ratio": [0.6, 0.0],
        "temperature_celsius": [88.0, 60.0],
    }
    rates = {"pcie_rx_bytes_per_s": [4e10, 1e9], "pcie_tx_bytes_per_s": [1e9, 1e9]}
    samples = make_device_samples(5, **LOADED | busy | rates)
    text, _ = by_exporter(samples, "")
    reports = []
    for source in (by_nvml(samples, ""), text):
        report = GpuReport()
        for event in source:
            report.update(event)
        reports.append({key: [(one.name, one.word) for one in said] for key, said in report.readings().items()})
    assert reports[0] == reports[1]
    assert {"compute-bound", "throttling risk", "transfer-bound"} <= {word for _, word in reports[0]["node-0", "GPU-a"]}
    means = [{name: getattr(source[0], name)[0] for name in LOADED} for source in (by_nvml(samples, ""), text)]
    assert rules.against("training", means[0])
    assert rules.against("training", means[0]) == rules.against("training", means[1])


def test_rules_that_only_dcgm_feeds_are_fed():
    """What NVML has no number for comes through to the report by its own band."""
    labels = label_text("GPU-a", 0, "")
    text = "\n".join(f"{name}{{{labels}}} 0.2" for name in dcgm.ONLY_DCGM)
    (scrape,) = exporter.scrapes(text, Counter())
    rows = [(1.0, uuid, row) for uuid, row in LastXids().rows(scrape)]
    event = device_samples(rows, 1.0, [], ["GPU-a"], {}, cluster="c", producer="p", sequence=0, node="n")
    report = GpuReport()
    report.update(event)
    ((_, said),) = report.readings().items()
    fed = {one.name for one in said}
    assert fed == {rules.NAMES[name].column for name in dcgm.ONLY_DCGM}
    assert set(BANDS) - {"nvlink_ratio"} <= exporter.COLUMNS | fed | {"power_ratio", "pcie_ratio"}
