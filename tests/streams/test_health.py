"""What ``/metrics`` of the worker tells: names, labels, types and helps are an interface."""

import asyncio

import pytest
from aiohttp import ClientSession
from prometheus_client.parser import text_string_to_metric_families

from paceline import hosts
from streams.door import DoorCounts
from streams.health import metrics, serve

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
# HELP paceline_streams_unreadable_batches_total Batches passed over: too large when unpacked, or no known codec.
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
# HELP paceline_step_seconds Median step of the median rank in the last window.
# TYPE paceline_step_seconds gauge
paceline_step_seconds{training_job="a \\"b\\" \\\\ \\n c"} 0.25
paceline_step_seconds{training_job="resnet-7"} 0.5
# HELP paceline_steps_per_second Steps a second in the last window.
# TYPE paceline_steps_per_second gauge
paceline_steps_per_second{training_job="a \\"b\\" \\\\ \\n c"} 4
paceline_steps_per_second{training_job="resnet-7"} 2
"""


@pytest.fixture
def counts():
    return DoorCounts(
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
    assert list(text_string_to_metric_families(metrics(counts, 5, 2))) == list(text_string_to_metric_families(TOLD))


def test_a_metric_without_values_is_still_declared():
    """Before the first event every name is there with its type."""
    declared = [line for line in metrics(DoorCounts(), 0, 0).splitlines() if line.startswith("#")]
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
