"""What `paceline analyze` finds in a recording, in this process: to start one takes longer than a short recording."""

import contextlib
import io
import json
import threading
from pathlib import Path
from typing import Any

from streams.analyze import main

#: Standard output is the process's: of two at once each would have some of the other's.
_one_at_a_time = threading.Lock()


def findings_in(recording: Path) -> list[dict[str, Any]]:
    """Every finding and revision, in their order.

    Raises:
        RuntimeError: there was nothing to judge.
    """
    written = io.BytesIO()
    out = io.TextIOWrapper(written, encoding="utf-8")
    with _one_at_a_time, contextlib.redirect_stdout(out):
        status = main([str(recording), "--json"])
        out.flush()
    if status:
        raise RuntimeError(f"paceline analyze {recording}: status {status}")
    return [json.loads(line) for line in written.getvalue().decode().splitlines()]
