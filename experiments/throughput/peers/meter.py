"""From the first row to the last, as a peer itself sees them."""

import json
import sys
import time


class Meter:
    """Counts rows; when the last is in, says how long they took, as JSON on standard output."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.seen = 0
        self.began_s = 0.0
        self.began_cpu_s = 0.0

    def row(self) -> bool:
        """Count one row; whether it was the last."""
        if not self.seen:
            self.began_s, self.began_cpu_s = time.perf_counter(), time.process_time()
        self.seen += 1
        if self.seen != self.rows:
            return self.seen > self.rows
        seconds = time.perf_counter() - self.began_s
        found = {"rows": self.rows, "seconds": seconds, "processor_s": time.process_time() - self.began_cpu_s}
        sys.__stdout__.write(json.dumps(found) + "\n")  # type: ignore[union-attr]
        sys.__stdout__.flush()  # type: ignore[union-attr]
        return True
