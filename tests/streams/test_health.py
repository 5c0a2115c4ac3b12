"""What ``/metrics`` of the worker tells: names, labels, types and helps are an interface."""

import asyncio

import pytest
from aiohttp import ClientSession
from msgspec import structs

from paceline import hosts
from paceline.events import CollectiveLine, DeliveryAccount, DeviceWindow
from paceline.topics import HOST, OP
from streams.door_counts import DoorCounts
from streams.health import metrics, serve
from streams.job_meters import JobMeters
from streams.keyed_state import Key
from streams.meters import METERS, WorkerState
from streams.producers import Producers
from tests.derived_events import finding, job_window, rank_window, suggestion

#: Without the buckets of histograms.
TOLD = """\
# HELP paceline_streams_events_total Events read.
# TYPE paceline_streams_events_total counter
paceline_streams_events_total{topic="collective"} 3.0
paceline_streams_events_total{topic="op"} 12.0
# HELP paceline_streams_event_bytes_total Bytes of the events read.
# TYPE paceline_streams_event_bytes_total counter
paceline_streams_event_bytes_total 4096.0
# HELP paceline_streams_published_total Events published.
# TYPE paceline_streams_published_total counter
paceline_streams_published_total{topic="finding"} 2.0
# HELP paceline_streams_dead_letters_total Messages that could not be used.
# TYPE paceline_streams_dead_letters_total counter
paceline_streams_dead_letters_total 1.0
# HELP paceline_streams_states_dropped_total States of a job or node that could not be stored and started again.
# TYPE paceline_streams_states_dropped_total counter
paceline_streams_states_dropped_total 3.0
# HELP paceline_streams_unreadable_batches_total Batches passed over: damaged, too large unpacked, or no known codec.
# TYPE paceline_streams_unreadable_batches_total counter
paceline_streams_unreadable_batches_total{topic="op"} 2.0
# HELP paceline_streams_remade_partitions_total Partitions read from their beginning, their topic being another one.
# TYPE paceline_streams_remade_partitions_total counter
paceline_streams_remade_partitions_total{topic="op"} 12.0
# HELP paceline_streams_checkpoints_total Snapshots stored.
# TYPE paceline_streams_checkpoints_total counter
paceline_streams_checkpoints_total 7.0
# HELP paceline_streams_checkpoint_bytes_total Bytes of the snapshots stored.
# TYPE paceline_streams_checkpoint_bytes_total counter
paceline_streams_checkpoint_bytes_total 70000.0
# HELP paceline_streams_checkpoint_age_seconds Since a snapshot was stored; 0 while nothing waits to be.
# TYPE paceline_streams_checkpoint_age_seconds gauge
paceline_streams_checkpoint_age_seconds 1.5
# HELP paceline_streams_commits_total Offset commits.
# TYPE paceline_streams_commits_total counter
paceline_streams_commits_total 6.0
# HELP paceline_streams_uncommitted_events Events read whose offset is not safe to commit yet.
# TYPE paceline_streams_uncommitted_events gauge
paceline_streams_uncommitted_events 5.0
# HELP paceline_streams_units Jobs and nodes in memory.
# TYPE paceline_streams_units gauge
paceline_streams_units 2.0
# HELP paceline_streams_ready 1 while /readyz is 200.
# TYPE paceline_streams_ready gauge
paceline_streams_ready 1.0
# HELP paceline_streams_restarts_total Starts from what is stored, after an outage or a failure.
# TYPE paceline_streams_restarts_total counter
paceline_streams_restarts_total 2.0
# HELP paceline_streams_lag_messages Messages not taken yet.
# TYPE paceline_streams_lag_messages gauge
paceline_streams_lag_messages{topic="op"} 17.0
# HELP paceline_streams_refused_messages_total Dead letters by topic and reason.
# TYPE paceline_streams_refused_messages_total counter
paceline_streams_refused_messages_total{reason="undecodable",topic="op"} 1.0
# HELP paceline_streams_missing_messages_total Numbered messages that never came, or could not be read.
# TYPE paceline_streams_missing_messages_total counter
paceline_streams_missing_messages_total{topic="host"} 0.0
paceline_streams_missing_messages_total{topic="op"} 4.0
# HELP paceline_streams_lost_rows_total Rows that training processes measured and dropped.
# TYPE paceline_streams_lost_rows_total counter
paceline_streams_lost_rows_total 9.0
# HELP paceline_findings_published_total Findings published; each revision counts.
# TYPE paceline_findings_published_total counter
paceline_findings_published_total{cause="worker_compute",kind="straggler",state="confirmed"} 1.0
# HELP paceline_collectors_sent_messages_total Messages that a broker has.
# TYPE paceline_collectors_sent_messages_total counter
paceline_collectors_sent_messages_total{node="node-0"} 30.0
# HELP paceline_collectors_waiting_messages Messages in memory.
# TYPE paceline_collectors_waiting_messages gauge
paceline_collectors_waiting_messages{node="node-0"} 2.0
# HELP paceline_collectors_spooled_messages Messages on disk.
# TYPE paceline_collectors_spooled_messages gauge
paceline_collectors_spooled_messages{node="node-0"} 0.0
# HELP paceline_collectors_spooled_bytes Bytes of the spool on disk.
# TYPE paceline_collectors_spooled_bytes gauge
paceline_collectors_spooled_bytes{node="node-0"} 0.0
# HELP paceline_collectors_outages_total How often the brokers went away.
# TYPE paceline_collectors_outages_total counter
paceline_collectors_outages_total{node="node-0"} 0.0
# HELP paceline_collectors_restarts_total Another process took over.
# TYPE paceline_collectors_restarts_total counter
paceline_collectors_restarts_total{node="node-0"} 0.0
# HELP paceline_sidecar_sent_messages_total Messages that a broker has.
# TYPE paceline_sidecar_sent_messages_total counter
paceline_sidecar_sent_messages_total{node="node-0",training_job="job"} 100.0
# HELP paceline_sidecar_waiting_messages Messages in memory.
# TYPE paceline_sidecar_waiting_messages gauge
paceline_sidecar_waiting_messages{node="node-0",training_job="job"} 1.0
# HELP paceline_sidecar_spooled_messages Messages on disk.
# TYPE paceline_sidecar_spooled_messages gauge
paceline_sidecar_spooled_messages{node="node-0",training_job="job"} 50.0
# HELP paceline_sidecar_spooled_bytes Bytes of the spool on disk.
# TYPE paceline_sidecar_spooled_bytes gauge
paceline_sidecar_spooled_bytes{node="node-0",training_job="job"} 4096.0
# HELP paceline_sidecar_outages_total How often the brokers went away.
# TYPE paceline_sidecar_outages_total counter
paceline_sidecar_outages_total{node="node-0",training_job="job"} 3.0
# HELP paceline_sidecar_restarts_total Another process took over.
# TYPE paceline_sidecar_restarts_total counter
paceline_sidecar_restarts_total{node="node-0",training_job="job"} 1.0
# HELP paceline_collectors_shed_messages_total Messages lost.
# TYPE paceline_collectors_shed_messages_total counter
# HELP paceline_sidecar_shed_messages_total Messages lost.
# TYPE paceline_sidecar_shed_messages_total counter
paceline_sidecar_shed_messages_total{node="node-0",topic="op",training_job="job"} 7.0
# HELP paceline_step_time_seconds Steps of a job by the median step of the median rank.
# TYPE paceline_step_time_seconds histogram
paceline_step_time_seconds_count{training_job="a \\"b\\" \\\\ \\n c"} 10.0
paceline_step_time_seconds_sum{training_job="a \\"b\\" \\\\ \\n c"} 2.5
paceline_step_time_seconds_count{training_job="resnet-7"} 10.0
paceline_step_time_seconds_sum{training_job="resnet-7"} 5.0
# HELP paceline_lateness_seconds Steps of a job by how much longer the slowest rank is at work than the median rank.
# TYPE paceline_lateness_seconds histogram
paceline_lateness_seconds_count{training_job="a \\"b\\" \\\\ \\n c"} 10.0
paceline_lateness_seconds_sum{training_job="a \\"b\\" \\\\ \\n c"} 4.0
paceline_lateness_seconds_count{training_job="resnet-7"} 10.0
paceline_lateness_seconds_sum{training_job="resnet-7"} 4.0
# HELP paceline_step_seconds Median step of the median rank in the last window.
# TYPE paceline_step_seconds gauge
paceline_step_seconds{training_job="a \\"b\\" \\\\ \\n c"} 0.25
paceline_step_seconds{training_job="resnet-7"} 0.5
# HELP paceline_steps_per_second Steps a second in the last window.
# TYPE paceline_steps_per_second gauge
paceline_steps_per_second{training_job="a \\"b\\" \\\\ \\n c"} 1.0
paceline_steps_per_second{training_job="resnet-7"} 1.0
# HELP paceline_ranks Ranks that reported in the last window.
# TYPE paceline_ranks gauge
paceline_ranks{training_job="a \\"b\\" \\\\ \\n c"} 8.0
paceline_ranks{training_job="resnet-7"} 8.0
# HELP paceline_wait_ratio Share of the step that the median rank waits for others.
# TYPE paceline_wait_ratio gauge
paceline_wait_ratio{training_job="a \\"b\\" \\\\ \\n c"} 0.4
paceline_wait_ratio{training_job="resnet-7"} 0.4
# HELP paceline_phase_seconds Median rank's time in a phase of the step, in the last window.
# TYPE paceline_phase_seconds gauge
paceline_phase_seconds{phase="forward",training_job="a \\"b\\" \\\\ \\n c"} 0.2
paceline_phase_seconds{phase="forward",training_job="resnet-7"} 0.2
# HELP paceline_rank_own_seconds A rank's mean time at work in a step, without waiting for others; only of the slowest ranks of a job.
# TYPE paceline_rank_own_seconds gauge
paceline_rank_own_seconds{rank="3",training_job="a \\"b\\" \\\\ \\n c"} 0.4
paceline_rank_own_seconds{rank="3",training_job="resnet-7"} 0.4
# HELP paceline_bus_bandwidth_bytes_per_second Bus bandwidth of a collective operation in the last window, as nccl-tests count it.
# TYPE paceline_bus_bandwidth_bytes_per_second gauge
paceline_bus_bandwidth_bytes_per_second{operation="all_reduce",training_job="a \\"b\\" \\\\ \\n c"} 3500.0
paceline_bus_bandwidth_bytes_per_second{operation="all_reduce",training_job="resnet-7"} 3500.0
# HELP paceline_findings Findings that are open now; the node is empty where there are several or none.
# TYPE paceline_findings gauge
paceline_findings{cause="worker_compute",kind="straggler",node="node-1",severity="warning",state="confirmed",training_job="resnet-7"} 1.0
# HELP paceline_lost_seconds Seconds lost so far to findings that are open, or were over in the last five minutes.
# TYPE paceline_lost_seconds gauge
paceline_lost_seconds{kind="straggler",training_job="resnet-7"} 12.5
# HELP paceline_lost_gpu_seconds Seconds of GPUs lost so far to findings that are open, or were over in the last five minutes.
# TYPE paceline_lost_gpu_seconds gauge
paceline_lost_gpu_seconds{kind="straggler",training_job="resnet-7"} 108.0
# HELP paceline_job_energy_joules_total Joules by job, node and part (gpu, host); an empty name: of no job, or while no samples came.
# TYPE paceline_job_energy_joules_total counter
paceline_job_energy_joules_total{node="node-1",part="gpu",training_job="resnet-7"} 3000.0
# HELP paceline_suggestions Suggestions that are open now.
# TYPE paceline_suggestions gauge
paceline_suggestions{action="cordon_node",state="new"} 1.0
"""  # noqa: E501


ENERGY = DeviceWindow(
    cluster="c", start_s=1000.0, length_s=10.0, node="node-1", device="GPU-a", samples=10, mean={}, max={},
    energy_j=3000.0, energy_source="counter", energy_by_job={"resnet-7": 3000.0},
)  # fmt: skip
REDUCE = CollectiveLine(operation="all_reduce", least_bytes=1024, calls=10, bytes=4000, wait_s=0.5, duration_s=2.0)
STATE = WorkerState(in_hand=5, units=2, ready=True, restarts=2, lag={"op": 17}, now_s=21.5, wall_s=1100.0, waiting=True)


@pytest.fixture
def counts(make_training, make_host_samples):
    producers = Producers()
    account = DeliveryAccount(
        sent=100,
        waiting=1,
        spooled=50,
        spooled_bytes=4096,
        shed={"paceline.op.v2": 7, "a topic of nobody's": 1},
        outages=3,
    )
    first, _, _, _, _, then = make_training(ranks=1, nodes=1, seconds=6)
    producers.hear(OP, structs.replace(first, account=DeliveryAccount(sent=1), lost=9))
    producers.hear(OP, structs.replace(then, account=account))
    producers.hear(OP, structs.replace(then, producer="another process", account=account))
    (host,) = make_host_samples(seconds=1)
    producers.hear(HOST, structs.replace(host, account=DeliveryAccount(sent=30, waiting=2)))
    jobs = JobMeters()
    for length_s, rank in ((1.0, None), (10.0, 3)):
        for job, step_s in (("resnet-7", 0.5), ('a "b" \\ \n c', 0.25)):
            key = Key("job", "c", job, 0)
            if rank is not None:
                jobs.hear(key, rank_window(rank, own_s=0.4, job=job), 20.0, 1000.0)
            window = job_window(job=job, length_s=length_s, step_median_s=step_s, collectives=[REDUCE])
            jobs.hear(key, window, 20.0, 1000.0)
    jobs.hear(Key("job", "c", "resnet-7", 0), finding(job="resnet-7"), 20.0, 1000.0)
    jobs.hear(Key("cluster", "c", "", -1), suggestion(), 20.0, 1000.0)
    jobs.hear(Key("node", "c", "node-1", -1), ENERGY, 20.0, 1000.0)
    return DoorCounts(
        producers=producers,
        refused={("op", "undecodable"): 1},
        events={"op": 12, "collective": 3},
        bytes=4096,
        published={"finding": 2},
        dead_letters=1,
        states_dropped=3,
        unreadable={"op": 2},
        remade={"op": 12},
        checkpoints=7,
        checkpoint_bytes=70_000,
        stored_s=20.0,
        commits=6,
        jobs=jobs,
    )


def test_names_labels_types_and_helps_stay(counts):
    """A dashboard or an alert that read an earlier version reads this one."""
    assert [line for line in _lines(counts, STATE) if "_bucket{" not in line] == TOLD.splitlines()


def test_a_metric_without_values_is_still_declared():
    """Before the first event every name is there with its type."""
    declared = [line for line in _lines(DoorCounts(), WorkerState()) if line.startswith("#")]
    assert declared == [line for line in TOLD.splitlines() if line.startswith("#")]
    assert {line.split()[2] for line in declared} == {meter.sample for meter in METERS}


def _lines(counts, state):
    return metrics(counts, state)().splitlines()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "streams.example"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://localhost:3000"}, 200),
    ],
)
@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_only_own_names_are_answered(path, headers, status, free_port):
    """On every address: loopback's names and those that were added, for no page of another site."""
    port = free_port()

    async def asked():
        names = hosts.answered("0.0.0.0", ("streams.example",))
        runner = await serve("0.0.0.0", port, lambda: None, lambda: lambda: "numbers\n", names)
        try:
            url = f"http://127.0.0.1:{port}{path}"
            async with ClientSession() as session, session.get(url, headers=headers) as response:
                return response.status
        finally:
            await runner.close()

    assert asyncio.run(asked()) == status
