"""From a dcgm-exporter's text to rows: units, blanks, names old and new, MIG, who uses a GPU."""

from collections import Counter

import pytest

from paceline.gpu import exporter
from paceline.gpu.dcgm import FIELDS, ONLY_DCGM
from paceline.gpu.exporter_text import NO_TEXT
from paceline.gpu.sample_rows import DEVICE_COLUMNS


def line(name, value, gpu=0, **labels):
    told = {"gpu": gpu, "UUID": f"GPU-{gpu}", "device": f"nvidia{gpu}", "modelName": "A100", "Hostname": "n1"} | labels
    inside = ",".join(f'{key}="{text}"' for key, text in told.items() if text is not None)
    return f"DCGM_FI_{name}{{{inside}}} {value}"


def load(*lines):
    left_out = Counter()
    return exporter.scrapes("\n".join(lines), left_out), left_out


def row(*lines):
    (scrape,), _ = load(*lines)
    return scrape.gpus[0].row


def test_every_column_that_dcgm_has_is_filled():
    """All fields at once, each by its own name: no column of ours but that of no DCGM field stays empty."""
    names = [field.name.removeprefix("DCGM_FI_") for field in FIELDS]
    filled = row(*(line(name, 1) for name in names))
    assert {name for name in (*DEVICE_COLUMNS, *ONLY_DCGM) if filled[name] is None} == {"nvlink_rated_bytes_per_s"}


@pytest.mark.parametrize(
    ("name", "value", "column", "ours"),
    [
        ("DEV_GPU_UTIL", 97, "utilization_ratio", 0.97),
        ("DEV_GPU_UTIL_RATIO", 97, "utilization_ratio", 0.97),
        ("DEV_GPU_TEMP_CELSIUS", 61, "temperature_celsius", 61.0),
        ("DEV_BOARD_POWER_WATTS", 250.5, "power_w", 250.5),
        ("PROF_TENSOR_UTIL_RATIO", 0.5, "tensor_active_ratio", 0.5),
        ("DEV_TENSOR_ACTIVE", 50, "tensor_active_ratio", 0.5),
        ("DEV_FB_USED", 1024, "fb_used_bytes", 2**30),
        ("DEV_TOTAL_ENERGY_CONSUMPTION", 1500, "energy_j", 1.5),
        ("DEV_SM_OCCUPANCY", 50, "DCGM_FI_PROF_SM_OCCUPANCY", 0.5),
        ("PROF_SM_OCCUPANCY_RATIO", 0.5, "DCGM_FI_PROF_SM_OCCUPANCY", 0.5),
        ("DEV_GPU_UTIL", 102, "utilization_ratio", 1.0),
        ("DEV_GPU_UTIL", 300, "utilization_ratio", None),
        ("DEV_MEMORY_TEMP", 0, "memory_temperature_celsius", None),
    ],
)
def test_numbers_come_in_our_units(name, value, column, ours):
    """Under the old names, those of 4.6, and those that only guides use."""
    filled = row(line(name, value))
    assert filled[column] == ours
    assert type(filled[column]) is type(ours)


@pytest.mark.parametrize("blank", ["9223372036854775794", "140737488355328", "NaN", "+Inf", "-1", "9" * 400])
def test_a_blank_is_not_measured_and_why_is_said(blank):
    """It is no number, and told apart from a metric that is not there."""
    (scrape,), _ = load(line("DEV_POWER_USAGE", blank), line("DEV_GPU_UTIL", 5))
    assert scrape.gpus[0].row["power_w"] is None
    why = exporter.not_measured(scrape)
    assert (why["power_w"], why["sm_clock_mhz"]) == (exporter.BLANK, exporter.NOT_EXPORTED)
    assert "utilization_ratio" not in why


def test_a_text_of_an_old_exporter_with_broken_lines_is_read():
    """Names and labels of 1.x; lines without a value, or that ran together, are counted and cost themselves alone."""
    (scrape,), left_out = load(
        'dcgm_sm_clock{gpu="0",uuid="GPU-a"} 135',
        'dcgm_memory_clock{gpu="0",uuid="GPU-a"} 877',
        'dcgm_total_energy_consumption{gpu="0",uuid="GPU-a"} N/A161262243332996445',
        'dcgm_nvlink_replay_error_count_total{gpu="0",uuid="GPU-a"}',
        'dcgm_nvlink_recovery_error_count_total{gpu="0",uuid="GPU-a"} ',
        'dcgm_fb_used{gpu="0",uuid="GPU-a"} 10dcgm_fb_used{gpu="1",uuid="GPU-b"} 20',
        'dcgm_gpu_utilization{gpu="0",uuid="GPU-a"} 12',
        'dcgm_fi_prof_gr_engine_active{gpu="1",uuid="GPU-b"} 0.5',
        'dcgm_retired_pages_sbe{gpu="1",uuid="GPU-b"} 1',
        'dcgm_retired_pages_dbe{gpu="1",uuid="GPU-b"} 2',
    )
    assert left_out == {NO_TEXT: 4}
    first, second = (gpu.row for gpu in scrape.gpus)
    assert (first["sm_clock_mhz"], first["memory_clock_mhz"], first["utilization_ratio"]) == (135.0, 877.0, 0.12)
    assert (first["energy_j"], first["nvlink_errors"], first["fb_used_bytes"], second["fb_used_bytes"]) == (None,) * 4
    assert (second["DCGM_FI_PROF_GR_ENGINE_ACTIVE"], second["retired_pages"]) == (0.5, 3)


#: DCGM's blanks of 32 and 64 bits and of fractions, as exporters and a Prometheus write them.
BLANKS = (
    *("2147483632", "2147483633", "2147483634", "2147483635", "2147483632.000000", "2.147483632e+09"),
    *("9223372036854775792", "9223372036854775793", "9223372036854775794", "9223372036854775795"),
    *("9223372036854775792.000000", "9.223372036854776e+18", "9.22337203685478e+18"),
    *("140737488355328", "140737488355328.0", "140737488355328.000000", "1.40737488355328e+14", "1.40737488355328e+16"),
)


@pytest.mark.parametrize("blank", BLANKS)
def test_any_blank_of_dcgm_costs_its_field_and_look_alone(blank):
    """The other fields of that look are measured, and the field again in the next; an old XID is not a new one."""
    xids, told = exporter.LastXids(), []
    for value, code in ((41.5, 79), (blank, blank), (42.5, 79)):
        (scrape,), left_out = load(
            *(line("DEV_POWER_USAGE", value), line("DEV_MEM_COPY_UTIL", value, gpu=1), line("DEV_GPU_TEMP", 60, gpu=1)),
            line("DEV_XID_ERRORS", code),
        )
        told += [(row["power_w"], row["xid"]) for uuid, row in xids.rows(scrape) if uuid == "GPU-0"]
        assert not left_out
        assert scrape.gpus[1].row["temperature_celsius"] == 60.0
        assert scrape.gpus[1].why.get("memory_controller_ratio") == (exporter.BLANK if value == blank else None)
    assert told == [(41.5, None), (None, None), (42.5, 0)]


def test_the_better_of_two_names_counts_where_it_has_a_number():
    """The profiling field over the deprecated one, the real name over a guide's; a blank leaves it to the other."""
    old, new = line("DEV_PCIE_TX_THROUGHPUT", 7), line("PROF_PCIE_TX_BYTES", 9000)
    assert row(old, new)["pcie_tx_bytes_per_s"] == 9000.0
    assert row(old, line("PROF_PCIE_TX_BYTES", "9223372036854775794"))["pcie_tx_bytes_per_s"] == 7000.0
    assert row(line("DEV_TENSOR_ACTIVE", 90), line("PROF_PIPE_TENSOR_ACTIVE", 0.5))["tensor_active_ratio"] == 0.5


def test_memory_is_used_and_free():
    """The total without the driver's reserve, whatever FB_TOTAL says; without the free part, FB_TOTAL."""
    used, total = line("DEV_FB_USED", 10), line("DEV_FB_TOTAL", 100)
    assert row(used, line("DEV_FB_FREE", 30), total)["fb_total_bytes"] == 40 * 2**20
    assert row(used, total)["fb_total_bytes"] == 100 * 2**20
    assert row(used)["fb_total_bytes"] is None


def test_a_sum_needs_both_of_its_counters():
    """One alone would be too few."""
    rows = ("DEV_UNCORRECTABLE_REMAPPED_ROWS", "DEV_CORRECTABLE_REMAPPED_ROWS")
    assert row(*(line(name, 2) for name in rows))["remapped_rows"] == 4
    assert row(line(rows[0], 2))["remapped_rows"] is None


def test_a_series_that_is_there_twice_counts_once():
    """The same number, told for each pod that shares the GPU, is no contradiction; another is counted."""
    pods = [line("DEV_GPU_UTIL", 5, pod=pod, namespace="ml", container="c") for pod in ("a", "b")]
    (scrape,), left_out = load(*pods)
    assert scrape.gpus[0].owners == (("ml.a", "c"), ("ml.b", "c"))
    assert not left_out
    (scrape,), left_out = load(line("DEV_GPU_UTIL", 5), line("DEV_GPU_UTIL", 6))
    assert (scrape.gpus[0].row["utilization_ratio"], sum(left_out.values())) == (0.05, 1)


def test_a_gpu_under_mig_is_one_device():
    """Memory adds up, what is the whole GPU's is taken, and shares of instances are not measured."""
    lines = [
        line(name, value, GPU_I_ID=instance, GPU_I_PROFILE="1g.10gb")
        for instance in (1, 2)
        for name, value in (("DEV_FB_USED", 10), ("DEV_FB_FREE", 20), ("DEV_GPU_TEMP", 60), ("PROF_SM_ACTIVE", 0.5))
    ]
    (scrape,), _ = load(*lines)
    (gpu,) = scrape.gpus
    assert (gpu.row["fb_used_bytes"], gpu.row["fb_total_bytes"]) == (20 * 2**20, 60 * 2**20)
    assert gpu.row["temperature_celsius"] == 60.0
    assert (gpu.row["sm_active_ratio"], gpu.why["sm_active_ratio"]) == (None, exporter.OF_INSTANCES)
    assert gpu.described.mig


def sliced(name, *values, **labels):
    """A series for each pod that shares the GPU."""
    return [line(name, value, vgpu=at, pod=f"p{at}", **labels) for at, value in enumerate(values)]


def test_a_gpu_that_pods_share_by_time_has_its_numbers_once():
    """Copies of the GPU's numbers are not added up, under MIG either; who shares it is reported."""
    lines = [
        *(*sliced("DEV_GPU_UTIL", 99, 99, 99, 99), *sliced("DEV_POWER_USAGE", 62.3, 62.3, 62.3, 62.3)),
        *(*sliced("DEV_TOTAL_ENERGY_CONSUMPTION", *4 * [5000]), *sliced("DEV_FB_USED", 10, 10, 10, 10)),
        *(line("DEV_FB_USED", 7, gpu=1, GPU_I_ID=one, vgpu=two) for one in (1, 2) for two in (0, 1, 2)),
        *(line("DEV_POWER_USAGE", 80, gpu=1, GPU_I_ID=one, vgpu=two) for one in (1, 2) for two in (0, 1, 2)),
    ]
    (scrape,), left_out = load(*lines)
    shared, instances = (gpu.row for gpu in scrape.gpus)
    assert not left_out
    assert (shared["utilization_ratio"], shared["power_w"], shared["energy_j"]) == (0.99, 62.3, 5.0)
    assert shared["fb_used_bytes"] == 10 * 2**20
    assert (instances["fb_used_bytes"], instances["power_w"]) == (14 * 2**20, 80.0)
    assert [one.job for one in exporter.processes(scrape)] == ["p0", "p1", "p2", "p3"]


def test_what_each_pod_uses_of_a_shared_gpu_adds_up_to_the_whole():
    """Power and temperature stay the GPU's; a series of the whole counts before those of pods."""
    lines = [
        *(*sliced("DEV_GPU_UTIL", 30, 20, 0), *sliced("DEV_FB_USED", 10, 10, 10)),
        *(*sliced("DEV_POWER_USAGE", 62.3, 62.3, 62.3), *sliced("DEV_GPU_TEMP", 60, 60, 60)),
        *(*sliced("DEV_GPU_UTIL", 70, 60, gpu=1), *sliced("DEV_FB_USED", 10, 30, gpu=1, GPU_I_ID=1)),
        *(*sliced("DEV_GPU_UTIL", 30, 20, gpu=2), line("DEV_GPU_UTIL", 55, gpu=2)),
    ]
    (scrape,), _ = load(*lines)
    first, second, third = (gpu.row for gpu in scrape.gpus)
    assert (first["utilization_ratio"], first["fb_used_bytes"]) == (0.5, 30 * 2**20)
    assert (first["power_w"], first["temperature_celsius"]) == (62.3, 60.0)
    assert (second["utilization_ratio"], second["fb_used_bytes"]) == (1.0, 40 * 2**20)
    assert third["utilization_ratio"] == 0.55


def test_who_uses_a_gpu():
    """Slurm's job where there is a mapping, else the pod; an empty label is a GPU that nobody has."""
    (scrape,), _ = load(
        line("DEV_GPU_UTIL", 5, 0, hpc_job="4711"),
        line("DEV_GPU_UTIL", 5, 1, pod="p", namespace="ml", container="c"),
        line("DEV_GPU_UTIL", 5, 2, pod="", namespace="", container=""),
    )
    assert [(one.device, one.job, one.name, one.pid) for one in exporter.processes(scrape)] == [
        (0, "4711", "4711", 0),
        (1, "ml.p", "c", 0),
    ]
    assert "processes" not in exporter.not_measured(scrape)
    (bare,), _ = load(line("DEV_GPU_UTIL", 5))
    assert exporter.not_measured(bare)["processes"] == exporter.UNATTRIBUTED


def test_gpus_stand_by_the_drivers_number_and_gaps_are_named():
    """A GPU that is not exported any more must not shift the others' numbers."""
    (scrape,), _ = load(line("DEV_GPU_UTIL", 5, 10), line("DEV_GPU_UTIL", 5, 2), line("DEV_GPU_UTIL", 5, 0))
    assert exporter.uuids(scrape) == ["GPU-0", "GPU-2", "GPU-10"]
    missing = {f"device[{index}]" for index in (1, 3, 4, 5, 6, 7, 8, 9)}
    assert {key for key in exporter.not_measured(scrape) if key.startswith("device[")} == missing


@pytest.mark.parametrize("label", ["Hostname", "hostname", "node", "instance"])
def test_nodes_and_times_are_kept_apart(label):
    """Whatever the label is called, a text of two nodes or two times is as many looks, by time."""
    names = {"Hostname": None}
    told, _ = load(
        line("DEV_GPU_UTIL", 5, **names | {label: "b"}) + " 2000",
        line("DEV_GPU_UTIL", 5, **names | {label: "a"}) + " 2000",
        line("DEV_GPU_UTIL", 5, **names | {label: "a"}) + " 1000",
    )
    assert [(one.node, one.time_s) for one in told] == [("a", 1.0), ("a", 2.0), ("b", 2.0)]


def test_what_names_no_gpu_is_counted():
    """A series without UUID and number cannot be placed; a number alone can."""
    told, left_out = load(line("DEV_GPU_UTIL", 5, UUID=None, gpu=None))
    assert (told, left_out) == ([], {"series that name no GPU": 1})
    (scrape,), _ = load(line("DEV_GPU_UTIL", 5, UUID=None, gpu="3"))
    assert exporter.uuids(scrape) == ["gpu 3"]


def test_what_a_gpu_is_comes_from_labels_and_rated_values():
    """For the inventory that the PCIe rule compares with."""
    (scrape,), _ = load(
        line("DEV_PCIE_MAX_LINK_GEN", 4, pci_bus_id="00000000:3B:00.0", DCGM_FI_DRIVER_VERSION="535.1"),
        line("DEV_MAX_SM_CLOCK", 1410),
    )
    described = scrape.gpus[0].described
    assert (described.name, described.pci_bus_id, scrape.driver) == ("A100", "00000000:3B:00.0", "535.1")
    assert (described.pcie_generation_max, described.pcie_width_max, described.sm_clock_max_mhz) == (4, None, 1410)


def test_an_xid_is_told_when_it_comes():
    """Not the one that stood there before, and each once; a GPU that had none before has one now."""
    xids = exporter.LastXids()
    seen = []
    for code in (31, 31, 79, "9223372036854775794", 48):
        (scrape,), _ = load(line("DEV_XID_ERRORS", code), line("DEV_GPU_UTIL", 5))
        seen += [filled["xid"] for _, filled in xids.rows(scrape)]
    assert seen == [None, 0, 79, 0, 48]
    (scrape,), _ = load(line("DEV_GPU_UTIL", 5))
    assert xids.rows(scrape)[0][1]["xid"] is None


OWN = {
    "pod": "dcgm-exporter-x7k2p",
    "namespace": "gpu",
    "container": "exporter",
    "job": "pods",
    "instance": "10.1.2.3:9400",
}


@pytest.mark.parametrize(
    ("labels", "owner"),
    [
        ({"exported_pod": "llama-0", "exported_namespace": "a", "exported_container": "torch"}, ("a.llama-0", "torch")),
        ({"exported_exported_pod": "llama-0", "exported_pod": "dcgm-exporter-x7k2p"}, ("llama-0", "llama-0")),
        ({"exported_hpc_job": "4711", "exported_pod": "w-0"}, ("4711", "w-0")),
        ({"exported_pod": "", "exported_namespace": "", "exported_container": ""}, None),
        ({}, None),
    ],
)
def test_what_the_exporter_wrote_counts_before_what_a_prometheus_calls_its_target(labels, owner):
    """A Prometheus without honor_labels: `pod` is the exporter's own, `exported_pod` the job's, also of idle GPUs."""
    other = {"exported_pod": "bert-0", "exported_namespace": "b", "exported_container": "torch"}
    (scrape,), _ = load(
        line("DEV_GPU_UTIL", 5, 0, **OWN, **labels, Hostname="x", exported_Hostname="n1"),
        line("DEV_GPU_UTIL", 5, 1, **OWN, **other, Hostname="x", exported_Hostname="n1"),
    )
    assert scrape.node == "n1"
    assert [gpu.owners for gpu in scrape.gpus] == [() if owner is None else (owner,), (("b.bert-0", "torch"),)]


@pytest.mark.parametrize(
    ("labels", "owner"),
    [
        ({"pod_name": "llama-0", "pod_namespace": "a", "container_name": "torch"}, ("a.llama-0", "torch")),
        ({"pod_name": "llama-0"}, ("llama-0", "llama-0")),
        ({"pod_name": "llama-0", "hpc_job": "4711"}, ("4711", "llama-0")),
        ({}, None),
    ],
)
@pytest.mark.parametrize("target", [{}, OWN], ids=["text", "scraped"])
def test_the_old_names_of_pods_and_gpus_are_read(labels, owner, target):
    """--use-old-namespace: a plain `pod` beside them is the Prometheus' target, also of an idle GPU."""
    old = {"UUID": None, "uuid": "GPU-7"}
    (scrape,), _ = load(
        line("DEV_GPU_UTIL", 5, 0, **target, **labels, **old),
        line("DEV_GPU_UTIL", 5, 1, **target, pod_name="bert-0", UUID=None, uuid="GPU-8"),
    )
    assert [gpu.uuid for gpu in scrape.gpus] == ["GPU-7", "GPU-8"]
    assert [gpu.owners or () for gpu in scrape.gpus] == [() if owner is None else (owner,), (("bert-0", "bert-0"),)]


def test_a_pod_name_of_the_exporters_own_hides_no_job():
    """As some agents add to whatever they scrape."""
    (scrape,), _ = load(line("DEV_GPU_UTIL", 5, 0, pod="llama-0", pod_name="nvidia-dcgm-exporter-x7k2p"))
    assert scrape.gpus[0].owners == (("llama-0", "llama-0"),)


def test_the_gpus_own_labels_are_found_when_renamed():
    """All of them."""
    told = {"UUID": None, "gpu": None, "exported_UUID": "GPU-9", "exported_gpu": "3", "exported_modelName": "H100"}
    inside = ",".join(f'{key}="{text}"' for key, text in told.items() if text is not None)
    (scrape,), _ = load(f'DCGM_FI_DEV_GPU_UTIL{{{inside},node="n7"}} 50')
    assert (scrape.node, scrape.gpus[0].uuid, scrape.gpus[0].number) == ("n7", "GPU-9", 3)
