"""From what was counted to Prometheus' text, by its own client library.

Rule of this file: the only place that makes families, so that a name that nobody declared is never told, and no
service tells one series twice. Whoever imports it has ``prometheus-client`` in its extra.
"""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from .meters import Meter, label

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
    told = {tuple(label(each) for each in labels): value for labels, value in sorted(values.items())}
    for labels, value in told.items():
        made.add_metric(list(labels), value)
    return made


def histogram(
    meter: Meter, bounds: tuple[float, ...], values: Mapping[tuple[str, ...], tuple[list[int], float]]
) -> Metric:
    """``meter`` with counts by bucket, the last one of what is above all ``bounds``, and the sum of all values."""
    made = HistogramMetricFamily(meter.name, meter.help, labels=meter.labels)
    for labels, (counts, total) in sorted(values.items()):
        seen, buckets = 0, []
        for bound, count in zip((*map(_written, bounds), "+Inf"), counts, strict=True):
            seen += count
            buckets.append((bound, float(seen)))
        made.add_metric([label(each) for each in labels], buckets, total)
    return made


def text(families: Iterable[Metric]) -> str:
    """The text form of ``families``."""
    registry = CollectorRegistry()
    registry.register(_Told(families))
    return generate_latest(registry).decode()


class _Told:
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterator[Metric]:
        """What was told."""
        yield from self._families


def _written(bound: float) -> str:
    return repr(float(bound))
