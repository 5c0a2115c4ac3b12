"""Log lines on standard error: one line a record, ``key=value``, so that people and machines read the same.

Rule of this file: quiet by default; what is logged at WARNING is something a person may want to mend.
"""

import json
import logging
import time

from paceline.visible import visible, without_logins


class LineFormatter(logging.Formatter):
    """``time=2026-11-21T10:00:00Z level=warning logger=paceline.collect message="..."``."""

    def format(self, record: logging.LogRecord) -> str:
        """The line; a traceback follows its record in the same line's ``error`` field."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        fields = {
            "time": at,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": json.dumps(record.getMessage(), ensure_ascii=False),
        }
        if record.exc_info:
            fields["error"] = json.dumps(self.formatException(record.exc_info), ensure_ascii=False)
        return visible(without_logins(" ".join(f"{key}={value}" for key, value in fields.items())))


def to_stderr(*, verbose: bool) -> None:
    """Send records to standard error, from WARNING on, or INFO where ``verbose``."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("paceline").setLevel(logging.INFO if verbose else logging.WARNING)
