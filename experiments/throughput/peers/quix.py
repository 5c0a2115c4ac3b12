"""Quix Streams: one row a message, a tumbling window of one second a rank.

python -m experiments.throughput.peers.quix BROKER TOPIC ROWS
"""

import sys
import tempfile
from typing import Any

from quixstreams import Application

from .meter import Meter


def main(broker: str, topic: str, rows: str) -> None:
    meter = Meter(int(rows))
    with tempfile.TemporaryDirectory(prefix="bench-quix-") as state:
        app = Application(
            broker_address=broker,
            consumer_group="bench-quix",
            auto_offset_reset="earliest",
            state_dir=state,
            loglevel="ERROR",
        )
        source = app.topic(topic, value_deserializer="json", timestamp_extractor=lambda row, *_: int(row["time_ms"]))

        def value(row: dict[str, Any]) -> float:
            if meter.row():
                app.stop()
            return float(row["wait_s"])

        frame = app.dataframe(source).apply(value)
        frame.tumbling_window(duration_ms=1000).sum().final()
        app.run()


if __name__ == "__main__":
    main(*sys.argv[1:4])
