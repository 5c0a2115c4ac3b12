"""From what was counted to Prometheus' text, by its own client library.

Rule of this file: the only place that makes families, so that a name that nobody declared is never told, and no
service tells one series twice. Whoever imports it has ``prometheus-client`` in its extra.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from .meters import Meter, label

Value = TypeVar("Value")
#: Values by their labels, in the order in which the meter names these.
Values = Mapping[tuple[str, ...], float]


def family(meter: Meter, values: Values) -> Metric:
    """``meter`` with ``values``; without any it is declared all the same.

    >>> meter = Meter("paceline_ranks", "gauge", "Ranks.", ("training_job",))
    >>> [sample.value for sample in family(meter, {("resnet",): 8.0}).samples]
    [8.0]
    """
    kind = CounterMetricFamily if meter.kind == "counter" else GaugeMetricFamily
    made = kind(meter.name, meter.help, labels=meter.labels)
    for labels, value in _labelled(values):
        made.add_metric(labels, value)
    return made


def histogram(
    meter: Meter, bounds: tuple[float, ...], values: Mapping[tuple[str, ...], tuple[list[int], float]]
) -> Metric:
    """``meter`` with counts by bucket, the last one of what is above all ``bounds``, and the sum of all values."""
    made = HistogramMetricFamily(meter.name, meter.help, labels=meter.labels)
    for labels, (counts, total) in _labelled(values):
        seen, buckets = 0, []
        for bound, count in zip((*map(_written, bounds), "+Inf"), counts, strict=True):
            seen += count
            buckets.append((bound, float(seen)))
        made.add_metric(labels, buckets, total)
    return made


def _labelled(values: Mapping[tuple[str, ...], Value]) -> list[tuple[list[str], Value]]:
    """``values`` by labels as they are sent, in order. Of two names that are sent as one the last counts."""
    told = {tuple(label(each) for each in labels): values[labels] for labels in sorted(values)}
    return [(list(labels), value) for labels, value in told.items()]


def text(families: Iterable[Metric]) -> str:
    """The text form of ``families``."""
    registry = CollectorRegistry()
    registry.register(_Told(families))
    return generate_latest(registry).decode()


class _Told:
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterator[Metric]:
        """What was reported."""
        yield from self._families


def _written(bound: float) -> str:
    return repr(float(bound))
