"""Where and when a benchmark ran: what figures mean nothing without."""

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """This machine, today, and how busy it is before the run."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "load_before": os.getloadavg()[0],
    }


def headline(found: dict[str, Any]) -> str:
    """The line above the figures of a run: its ``machine``, whether it was ``quick``, and ``took_s``, how long it took.

    >>> there = {"date": "2026-11-22", "processor": "x", "cores": 2, "python": "3.11.7", "load_before": 0.04}
    >>> headline({"machine": there, "quick": True, "took_s": 61.4})
    '2026-11-22, 2 cores of x, Python 3.11.7, load average before 0.0, quick run; took 61 s'
    """
    there = found["machine"]
    quick = ", quick run" if found["quick"] else ""
    return (
        f"{there['date']}, {there['cores']} cores of {there['processor']}, Python {there['python']}, "
        f"load average before {there['load_before']:.1f}{quick}; took {found['took_s']:.0f} s"
    )
