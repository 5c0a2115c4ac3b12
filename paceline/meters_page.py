"""docs/metrics.md, written from the tables in which services declare their metrics.

Rule of this file: pure; it says what the tables say, and how it is all served.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .meters import MOST_LETTERS, Meter

INTRODUCTION = f"""# Metrics

This page is written by `make docs` from the tables in the code. Every metric is served at `/metrics`, in Prometheus'
text form, beside `/healthz` (the process is alive) and `/readyz` (503 with the reason while it cannot work). Only
requests for a name of the service are answered: `PACELINE_ALLOWED_HOSTS` adds the name by which Prometheus asks.

Names begin with `paceline_`. Values are in base units, which end the name: seconds, bytes, ratio (0 to 1), watts,
joules, celsius, hertz; what ends with `_total` only counts up until the process ends. What was not measured is absent,
never 0. Histograms are classic ones, with `_bucket`, `_sum` and `_count`.

**Labels are bounded.** A label has at most {MOST_LETTERS} letters; a longer name is cut, and ends with a hash of the
whole. No label holds a step, a process number or a message. A worker reports the 1,000 newest jobs, of each 8
ranks and 16 phases, 200 findings, and the energy of 10,000 nodes and 64 jobs on each. `training_job` is
what the job calls itself; `gpu` and `UUID` are as in DCGM's metrics, so `on (UUID)` joins them.

**Series vanish.** Metrics of a job vanish a minute after its end, or five minutes after its last message; of a
GPU or host 30 seconds after its last sample (three intervals, where that is longer). A worker that gives a job away
no longer reports it. A histogram of a job begins at 0 again when another worker has taken it over.

**The page** has what Streamlit's own server offers, in OpenMetrics' form at port 8501, `/_stcore/metrics`:
`active_sessions`, `session_events_total{{type}}` and `session_duration_seconds_total`; `/_stcore/health` says that it
is alive. The services above provide what the page shows. Sidecars have no port: workers report what they send.
"""


class Service(NamedTuple):
    """Who has these metrics, where, and what is to be known of them."""

    title: str
    where: str
    meters: Sequence[Meter]


def page(services: Sequence[Service], labels: Mapping[str, str]) -> str:
    """The page, with what each label means."""
    used = sorted({label for service in services for meter in service.meters for label in meter.labels})
    parts = [INTRODUCTION]
    for service in services:
        parts += [f"## {service.title}\n", f"{service.where}\n", _table(service.meters)]
    parts += [
        "## Labels\n",
        "| label | what it is |\n|---|---|\n" + "".join(f"| `{n}` | {labels[n]} |\n" for n in used),
    ]
    return "\n".join(parts)


def _table(meters: Sequence[Meter]) -> str:
    head = "| metric | type | labels | unit | what it is |\n|---|---|---|---|---|\n"
    return head + "".join(_row(meter) for meter in sorted(meters, key=lambda meter: meter.sample))


def _row(meter: Meter) -> str:
    labels = ", ".join(f"`{name}`" for name in meter.labels)
    return f"| `{meter.sample}` | {meter.kind} | {labels} | {meter.unit} | {meter.help} |\n"
