"""Bytewax: one row a message, a tumbling window of one second a rank.

python -m experiments.throughput.peers.bytewax_window BROKER TOPIC ROWS
"""

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.connectors.kafka import KafkaSource, KafkaSourceMessage
from bytewax.connectors.stdio import StdOutSink
from bytewax.dataflow import Dataflow
from bytewax.testing import run_main

from .meter import Meter

START = datetime(2023, 1, 1, tzinfo=UTC)


def moment(row: dict[str, Any]) -> datetime:
    return datetime.fromtimestamp(row["time_ms"] / 1e3, UTC)


def main(broker: str, topic: str, rows: str) -> None:
    meter = Meter(int(rows))

    def read(message: KafkaSourceMessage[bytes, bytes]) -> tuple[str, dict[str, Any]]:
        return message.key.decode(), json.loads(message.value)

    def add(total: float, row: dict[str, Any]) -> float:
        if meter.row():
            os._exit(0)
        return total + float(row["wait_s"])

    flow = Dataflow("bench")
    source: Any = op.input("in", flow, KafkaSource([broker], [topic], tail=True, batch_size=1000))
    keyed = op.map("read", source, read)
    clock = win.EventClock(moment, wait_for_system_duration=timedelta(seconds=10))
    windower = win.TumblingWindower(length=timedelta(seconds=1), align_to=START)
    # Unordered, so that a row is folded when it comes and not when its window closes.
    summed = win.fold_window("sum", keyed, clock, windower, float, add, lambda a, b: a + b, ordered=False)
    op.output("out", op.filter("none", summed.down, lambda item: False), StdOutSink())
    run_main(flow)


if __name__ == "__main__":
    main(*sys.argv[1:4])
