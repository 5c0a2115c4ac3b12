"""A plain Faust agent: one row a message, one table write a row.

python -m experiments.throughput.peers.faust_table BROKER TOPIC ROWS
"""

import os
import signal
import sys
import tempfile
from typing import Any

import faust
from faust.types import StreamT

from .meter import Meter


def main(broker: str, topic: str, rows: str) -> None:
    app = faust.App(
        "bench-faust",
        broker=f"kafka://{broker}",
        store="memory://",
        datadir=tempfile.mkdtemp(prefix="bench-faust-"),
        topic_partitions=12,
        consumer_auto_offset_reset="earliest",
        web_enabled=False,
        worker_redirect_stdouts=False,
    )
    source = app.topic(topic, value_serializer="json", key_serializer="raw")
    waited = app.Table("waited", default=float, partitions=12)
    meter = Meter(int(rows))

    @app.agent(source)
    async def read(stream: StreamT[Any]) -> None:
        async for row in stream:
            waited[f"{row['job']}/{row['rank']}"] += row["wait_s"]
            if meter.row():
                os.kill(os.getpid(), signal.SIGTERM)
                return

    faust.Worker(app, loglevel="error", redirect_stdouts=False).execute_from_commandline()


if __name__ == "__main__":
    main(*sys.argv[1:4])
