"""From rows to messages: what was sampled since the last cut becomes one columnar event.

Rule of this file: pure. Rows carry Unix times; an event says them as offsets from its first row.
"""

from collections.abc import Iterable
from typing import Any

from paceline.events import HostSamples, NetworkErrors
from paceline.gpu.sample_rows import offsets_s

from .host import HostRow
from .sample_columns import HOST_COLUMNS

#: Rows kept while nobody takes them, a minute at the fastest interval and 8 GPUs; then the oldest go.
MOST_ROWS = 10_000


class RowBatch:
    """Rows with their time and device, waiting to be cut."""

    def __init__(self, most: int = MOST_ROWS) -> None:
        self._rows: list[tuple[float, str, dict[str, Any]]] = []
        self._most = most
        self.shed = 0

    def append(self, time_s: float, rows: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Keep ``rows``, (device, values) sampled at ``time_s``; a host's device is ""."""
        self._rows += [(time_s, device, row) for device, row in rows]
        over = len(self._rows) - self._most
        if over > 0:
            del self._rows[:over]
            self.shed += over

    def drain(self) -> list[tuple[float, str, dict[str, Any]]]:
        """Give all rows away."""
        rows, self._rows = self._rows, []
        return rows


def host_samples(
    rows: list[tuple[float, str, HostRow]],
    network_errors: list[NetworkErrors],
    not_measured: dict[str, str],
    **producer: Any,
) -> HostSamples:
    """The event of ``rows``, at least one."""
    start_s = rows[0][0]
    columns: dict[str, Any] = {name: [row[name] for _, _, row in rows] for name in HOST_COLUMNS}
    return HostSamples(
        **producer,
        **columns,
        t0_s=start_s,
        time_s=offsets_s(rows, start_s),
        network_errors=network_errors,
        not_measured=not_measured,
    )
