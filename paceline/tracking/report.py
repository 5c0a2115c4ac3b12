"""The report of a recording, by whichever part of Paceline offers one.

Rule of this file: nothing is built in: where no command ``report`` is installed there is no report, and no word of it.
"""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

from paceline.patience import patient

#: How long the report of a run may take; PACELINE_PATIENCE makes it longer.
MOST_S = 60.0


def report(recording: str, folder: Path) -> tuple[Path | None, str]:
    """The report of ``recording`` in ``folder``; None, and why there is none where there should be one."""
    if not recording or not entry_points(group="paceline.commands", name="report"):
        return None, ""
    path = folder / "report.html"
    most_s = patient(MOST_S, os.environ)
    command = [sys.executable, "-P", "-m", "paceline", "report", recording, "--format", "html", "-o", str(path)]
    try:
        done = subprocess.run(command, timeout=most_s, capture_output=True, text=True, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        return None, f"the report took longer than {most_s:.0f} s"
    if done.returncode or not path.exists():
        return None, f"the report failed: {' '.join(done.stderr.split())[:200] or f'status {done.returncode}'}"
    return path, ""
