"""What ``/metrics`` of the worker tells: names, labels, types and helps are an interface."""

import asyncio

import pytest
from aiohttp import ClientSession
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families

from paceline import hosts
from paceline.events import DeliveryAccount
from paceline.topics import HOST, OP_V1
from streams.door_counts import DoorCounts
from streams.health import WorkerState, metrics, serve
from streams.producers import Producers

TOLD = """\
# HELP paceline_streams_events_total Events read.
# TYPE paceline_streams_events_total counter
paceline_streams_events_total{topic="collective"} 3
paceline_streams_events_total{topic="op"} 12
# HELP paceline_streams_event_bytes_total Bytes of the events read.
# TYPE paceline_streams_event_bytes_total counter
paceline_streams_event_bytes_total 4096
# HELP paceline_streams_published_total Events published.
# TYPE paceline_streams_published_total counter
paceline_streams_published_total{topic="finding"} 2
# HELP paceline_streams_dead_letters_total Messages that could not be used.
# TYPE paceline_streams_dead_letters_total counter
paceline_streams_dead_letters_total 1
# HELP paceline_streams_states_dropped_total States of a job or node that could not be stored and started again.
# TYPE paceline_streams_states_dropped_total counter
paceline_streams_states_dropped_total 3
# HELP paceline_streams_unreadable_batches_total Batches passed over: damaged, too large unpacked, or no known codec.
# TYPE paceline_streams_unreadable_batches_total counter
paceline_streams_unreadable_batches_total{topic="op"} 2
# HELP paceline_streams_remade_partitions_total Partitions read from their beginning, their topic being another one.
# TYPE paceline_streams_remade_partitions_total counter
paceline_streams_remade_partitions_total{topic="op"} 12
# HELP paceline_streams_checkpoints_total Snapshots stored.
# TYPE paceline_streams_checkpoints_total counter
paceline_streams_checkpoints_total 7
# HELP paceline_streams_checkpoint_bytes_total Bytes of the snapshots stored.
# TYPE paceline_streams_checkpoint_bytes_total counter
paceline_streams_checkpoint_bytes_total 70000
# HELP paceline_streams_commits_total Offset commits.
# TYPE paceline_streams_commits_total counter
paceline_streams_commits_total 6
# HELP paceline_streams_uncommitted_events Events read whose offset is not safe to commit yet.
# TYPE paceline_streams_uncommitted_events gauge
paceline_streams_uncommitted_events 5
# HELP paceline_streams_units Jobs and nodes in memory.
# TYPE paceline_streams_units gauge
paceline_streams_units 2
# HELP paceline_streams_ready 1 while /readyz is 200.
# TYPE paceline_streams_ready gauge
paceline_streams_ready 1
# HELP paceline_streams_restarts_total Starts from what is stored, after an outage or a failure.
# TYPE paceline_streams_restarts_total counter
paceline_streams_restarts_total 2
# HELP paceline_streams_lag_messages Messages not taken yet.
# TYPE paceline_streams_lag_messages gauge
paceline_streams_lag_messages{topic="op"} 17
# HELP paceline_streams_refused_messages_total Dead letters by topic and reason.
# TYPE paceline_streams_refused_messages_total counter
paceline_streams_refused_messages_total{reason="undecodable",topic="op"} 1
# HELP paceline_streams_missing_messages_total Numbered messages that never came, or could not be read.
# TYPE paceline_streams_missing_messages_total counter
paceline_streams_missing_messages_total{topic="host"} 0
paceline_streams_missing_messages_total{topic="op-v1"} 4
# HELP paceline_streams_lost_rows_total Rows that training processes measured and dropped.
# TYPE paceline_streams_lost_rows_total counter
paceline_streams_lost_rows_total 9
# HELP paceline_collectors_sent_messages_total Messages that a broker has.
# TYPE paceline_collectors_sent_messages_total counter
paceline_collectors_sent_messages_total{node="node-0"} 30
# HELP paceline_collectors_waiting_messages Messages in memory.
# TYPE paceline_collectors_waiting_messages gauge
paceline_collectors_waiting_messages{node="node-0"} 2
# HELP paceline_collectors_spooled_messages Messages on disk.
# TYPE paceline_collectors_spooled_messages gauge
paceline_collectors_spooled_messages{node="node-0"} 0
# HELP paceline_collectors_spooled_bytes Bytes of the spool on disk.
# TYPE paceline_collectors_spooled_bytes gauge
paceline_collectors_spooled_bytes{node="node-0"} 0
# HELP paceline_collectors_outages_total How often the brokers went away.
# TYPE paceline_collectors_outages_total counter
paceline_collectors_outages_total{node="node-0"} 0
# HELP paceline_collectors_shed_messages_total Messages lost.
# TYPE paceline_collectors_shed_messages_total counter
# HELP paceline_collectors_restarts_total Another process took over.
# TYPE paceline_collectors_restarts_total counter
paceline_collectors_restarts_total{node="node-0"} 0
# HELP paceline_sidecar_sent_messages_total Messages that a broker has.
# TYPE paceline_sidecar_sent_messages_total counter
paceline_sidecar_sent_messages_total{node="node-0",training_job="job"} 100
# HELP paceline_sidecar_waiting_messages Messages in memory.
# TYPE paceline_sidecar_waiting_messages gauge
paceline_sidecar_waiting_messages{node="node-0",training_job="job"} 1
# HELP paceline_sidecar_spooled_messages Messages on disk.
# TYPE paceline_sidecar_spooled_messages gauge
paceline_sidecar_spooled_messages{node="node-0",training_job="job"} 50
# HELP paceline_sidecar_spooled_bytes Bytes of the spool on disk.
# TYPE paceline_sidecar_spooled_bytes gauge
paceline_sidecar_spooled_bytes{node="node-0",training_job="job"} 4096
# HELP paceline_sidecar_outages_total How often the brokers went away.
# TYPE paceline_sidecar_outages_total counter
paceline_sidecar_outages_total{node="node-0",training_job="job"} 3
# HELP paceline_sidecar_shed_messages_total Messages lost.
# TYPE paceline_sidecar_shed_messages_total counter
paceline_sidecar_shed_messages_total{node="node-0",topic="op-v1",training_job="job"} 7
# HELP paceline_sidecar_restarts_total Another process took over.
# TYPE paceline_sidecar_restarts_total counter
paceline_sidecar_restarts_total{node="node-0",training_job="job"} 1
# HELP paceline_step_seconds Median step of the median rank in the last window.
# TYPE paceline_step_seconds gauge
paceline_step_seconds{training_job="a \\"b\\" \\\\ \\n c"} 0.25
paceline_step_seconds{training_job="resnet-7"} 0.5
# HELP paceline_steps_per_second Steps a second in the last window.
# TYPE paceline_steps_per_second gauge
paceline_steps_per_second{training_job="a \\"b\\" \\\\ \\n c"} 4
paceline_steps_per_second{training_job="resnet-7"} 2
"""


STATE = WorkerState(in_hand=5, units=2, ready=True, restarts=2, lag={"op": 17})


@pytest.fixture
def counts(make_training, make_host_samples):
    producers = Producers()
    account = DeliveryAccount(
        sent=100,
        waiting=1,
        spooled=50,
        spooled_bytes=4096,
        shed={"paceline.op.v1": 7, "a topic of nobody's": 1},
        outages=3,
    )
    first, _, _, _, _, then = make_training(ranks=1, nodes=1, seconds=6)
    producers.hear(OP_V1, structs.replace(first, account=DeliveryAccount(sent=1), lost=9))
    producers.hear(OP_V1, structs.replace(then, account=account))
    producers.hear(OP_V1, structs.replace(then, producer="another process", account=account))
    (host,) = make_host_samples(seconds=1)
    producers.hear(HOST, structs.replace(host, account=DeliveryAccount(sent=30, waiting=2)))
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
        commits=6,
        jobs={"resnet-7": (0.5, 2.0), 'a "b" \\ \n c': (0.25, 4.0)},
    )


def test_names_labels_types_and_helps_stay(counts):
    """A dashboard or an alert that read an earlier version reads this one."""
    assert list(text_string_to_metric_families(metrics(counts, STATE))) == list(text_string_to_metric_families(TOLD))


def test_a_metric_without_values_is_still_declared():
    """Before the first event every name is there with its type."""
    declared = [line for line in metrics(DoorCounts(), WorkerState()).splitlines() if line.startswith("#")]
    assert declared == [line for line in TOLD.splitlines() if line.startswith("#")]


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
        runner = await serve("0.0.0.0", port, lambda: None, lambda: "numbers\n", names)
        try:
            url = f"http://127.0.0.1:{port}{path}"
            async with ClientSession() as session, session.get(url, headers=headers) as response:
                return response.status
        finally:
            await runner.cleanup()

    assert asyncio.run(asked()) == status
