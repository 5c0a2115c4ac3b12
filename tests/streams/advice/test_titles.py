"""Titles and reasons agree in number with what they are about: one, several, or nothing that is known."""

from typing import Any

import pytest

from streams.advice.config import AdviceConfig
from streams.advice.finding_rules import propose
from streams.advice.gains import of_lost_time
from streams.advice.job_facts import Jobs

ONE: dict[str, Any] = {"ranks": [3], "nodes": ["n1"], "devices": ["cuda:3"]}
MANY: dict[str, Any] = {"ranks": [0, 1, 2, 3], "nodes": ["n1"], "devices": ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]}
NONE: dict[str, Any] = {"ranks": [], "nodes": [], "devices": []}
NODES: dict[str, Any] = {"ranks": [], "nodes": [f"n{node}" for node in range(12)], "devices": []}
NODE: dict[str, Any] = {"ranks": list(range(8)), "nodes": ["n1"], "devices": []}
GPU: dict[str, Any] = {"ranks": [], "nodes": ["n1"], "devices": ["GPU-0"], "severity": "critical"}
GPUS: dict[str, Any] = {**GPU, "devices": [f"GPU-{gpu}" for gpu in range(6)]}
POWER = "(power cap)"


@pytest.mark.parametrize(
    ("kind", "cause", "whom", "title"),
    [
        ("straggler", "worker_compute", ONE, "Give rank 3 on n1 less work, or its work to another device"),
        ("straggler", "worker_compute", MANY, "Give ranks 0, 1, 2, 3 on n1 less work, or their work to other devices"),
        ("straggler", "cpu_contention", ONE, "Give rank 3 on n1 processors of its own"),
        ("straggler", "cpu_contention", MANY, "Give ranks 0, 1, 2, 3 on n1 processors of their own"),
        ("straggler", "host_bound", ONE, "Launch faster on rank 3 on n1: its GPU waits for its host"),
        ("straggler", "host_bound", MANY, "Launch faster on ranks 0, 1, 2, 3 on n1: their GPUs wait for their hosts"),
        ("straggler", "throttling", {**ONE, "summary": POWER}, "Raise the power cap of rank 3 on n1, or cap its peers "
         "alike"),
        ("straggler", "throttling", {**MANY, "summary": POWER}, "Raise the power cap of ranks 0, 1, 2, 3 on n1, or cap "
         "their peers alike"),
        ("straggler", "memory_pressure", ONE, "Free memory on the node of rank 3 on n1: it swaps or waits for memory"),
        ("straggler", "memory_pressure", MANY, "Free memory for ranks 0, 1, 2, 3 on n1: they swap or wait for memory"),
        ("hang", "unknown", ONE, "Check rank 3 on n1, which job llama waits for, and restart the job"),
        ("hang", "unknown", NONE, "Find out what job llama waits for, and restart it"),
        ("collective_mismatch", "unknown", ONE, "Make all ranks of job llama call the same collectives: see rank 3 on "
         "n1"),
        ("collective_mismatch", "unknown", NONE, "Make all ranks of job llama call the same collectives"),
        ("waiting", "unknown", ONE, "Let the ranks of job llama wait less for rank 3 on n1: it is no hang"),
        ("waiting", "unknown", NONE, "Let the ranks of job llama wait less for each other: it is no hang"),
        ("node_silent", "unknown", NODE, "Check n1: it sends nothing"),
        ("node_silent", "unknown", NODES, "Check n0, n1, n2, n3 and 8 more: they send nothing"),
        ("below_rating", "unknown", NODE, "Find out why n1 is below its rated speed"),
        ("below_rating", "unknown", NODES, "Find out why n0, n1, n2, n3 and 8 more are below their rated speed"),
        ("device_fault", "unknown", GPU, "Drain n1: GPU-0 on n1 is faulty"),
        ("device_fault", "unknown", GPUS, "Drain n1: GPU-0, GPU-1, GPU-2, GPU-3 and 2 more on n1 are faulty"),
        ("out_of_memory_risk", "memory_pressure", GPU, "Make the batch of job llama smaller before GPU-0 on n1 runs "
         "out of memory"),
        ("out_of_memory_risk", "memory_pressure", GPUS, "Make the batch of job llama smaller before GPU-0, GPU-1, "
         "GPU-2, GPU-3 and 2 more on n1 run out of memory"),
    ],
)  # fmt: skip
def test_a_title_agrees_with_whom_the_finding_accuses(make_finding, kind, cause, whom, title):
    """One rank, GPU or node, several of them, or none that is known."""
    proposal = propose(make_finding(kind, cause, **whom), Jobs(), AdviceConfig())
    assert proposal is not None
    assert proposal.title == title


@pytest.mark.parametrize(
    ("gpus", "reason", "basis"),
    [
        (1, "Its 1 GPU was 20% busy over an hour,", "1 GPU is 20% busy; at 70% a part of it is enough;"),
        (8, "Its 8 GPUs were 20% busy over an hour,", "8 GPUs are 20% busy; at 70% fewer are enough;"),
    ],
)
def test_an_hour_of_gpus_is_reported_in_their_number(told, make_hour, gpus, reason, basis):
    """One GPU, and several."""
    heard = told()
    for window in make_hour(gpus=gpus):
        heard.tell(window)
    (one,) = (one for one in heard.said if one.action == "consolidate")
    assert one.reason.startswith(reason)
    assert one.gain.basis.startswith(basis)


@pytest.mark.parametrize(
    ("lost", "gpus", "basis"),
    [
        (0.2, 1, "20 % of the time of 1 device is lost now."),
        (0.2, 8, "20 % of the time of 8 devices is lost now."),
        (1.0, 1, "1 device waits, if it continues for a day"),
        (1.0, 2048, "2,048 devices wait, if it continues for a day"),
    ],
)
def test_what_is_lost_is_reported_in_the_number_of_devices(lost, gpus, basis):
    """One device, and several."""
    assert of_lost_time(lost, gpus, 0.9, 0.5, AdviceConfig()).basis.startswith(basis)
